"""The command line: parses, calls, prints."""

from . import evaluating, handing_in, looking, running
from .group import main

__all__ = ["evaluating", "handing_in", "looking", "main", "running"]
