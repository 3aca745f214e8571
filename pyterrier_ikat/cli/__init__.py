"""The command line: parses, calls, prints."""

from . import analyse, evaluate, inspect, paper, run
from .main import main

__all__ = ["analyse", "evaluate", "inspect", "main", "paper", "run"]
