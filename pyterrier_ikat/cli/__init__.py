"""The command line: parses, calls, prints."""

from . import catalogue, evaluate, inspect, judge, live, paper, run
from .main import main

__all__ = ["catalogue", "evaluate", "inspect", "judge", "live", "main", "paper", "run"]
