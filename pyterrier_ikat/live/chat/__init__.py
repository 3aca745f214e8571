"""Talk to a system: its answers become the history, and the chat can be saved and continued."""

from .conversation import Chat, Why
from .terminal import Screen, talk

__all__ = ["Chat", "Screen", "Why", "talk"]
