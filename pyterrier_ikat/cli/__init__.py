"""The command line: parses, calls, prints."""

from . import demo, evaluate, inspect, judge, live, paper, run
from .main import main

__all__ = ["demo", "evaluate", "inspect", "judge", "live", "main", "paper", "run"]
