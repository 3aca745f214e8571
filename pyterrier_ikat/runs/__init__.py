"""What a system leaves on disk: TREC run files and run folders."""

from .folder import RunFolder
from .trec import read_run, strictly_decreasing, trec_eval_order, write_run

__all__ = ["RunFolder", "read_run", "strictly_decreasing", "trec_eval_order", "write_run"]
