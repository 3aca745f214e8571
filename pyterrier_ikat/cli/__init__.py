"""The command line: parses, calls, prints."""

from . import evaluate, inspect, judge, live, paper, run
from .main import main

__all__ = ["evaluate", "inspect", "judge", "live", "main", "paper", "run"]
