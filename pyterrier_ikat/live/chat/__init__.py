"""Talk to a system: its answers become the history, and the chat can be saved and continued."""

from .chat_by_name import open_chat
from .conversation import Chat, Why
from .terminal import Screen, talk

__all__ = ["Chat", "Screen", "Why", "open_chat", "talk"]
