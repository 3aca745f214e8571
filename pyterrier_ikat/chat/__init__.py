"""Talking to a system: its own answers become the history; saved as a topics file."""

from .conversation import Chat, ChatTurn, Source
from .terminal import Persona, open_chat, read_persona, talk

__all__ = ["Chat", "ChatTurn", "Persona", "Source", "open_chat", "read_persona", "talk"]
