"""Running systems: what they will cost, and what they leave on disk: TREC run files and run folders."""

from .folder import RunFolder
from .plan import plan
from .trec import read_run, strictly_decreasing, trec_eval_order, write_run

__all__ = ["RunFolder", "plan", "read_run", "strictly_decreasing", "trec_eval_order", "write_run"]
