"""The command line: parses, calls, prints."""

from . import chatting, evaluating, handing_in, looking, running, showing
from .group import main

__all__ = ["chatting", "evaluating", "handing_in", "looking", "main", "running", "showing"]
