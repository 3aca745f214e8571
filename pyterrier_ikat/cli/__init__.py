"""The command line: parses, calls, prints."""

from . import analyse, catalogue, chat, evaluate, inspect, interact, judge, paper, run, serve, simulate
from .main import main

__all__ = ["analyse", "catalogue", "chat", "evaluate", "inspect", "interact", "judge", "main", "paper", "run", "serve", "simulate"]
