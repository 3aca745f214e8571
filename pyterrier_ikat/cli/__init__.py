"""The command line: parses, calls, prints."""

from . import evaluate, inspect, paper, run
from .main import main

__all__ = ["evaluate", "inspect", "main", "paper", "run"]
