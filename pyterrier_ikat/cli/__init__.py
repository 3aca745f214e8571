"""The command line: parses, calls, prints."""

from . import analyse, catalogue, evaluate, inspect, judge, live, paper, run, simulate
from .main import main

__all__ = ["analyse", "catalogue", "evaluate", "inspect", "judge", "live", "main", "paper", "run", "simulate"]
