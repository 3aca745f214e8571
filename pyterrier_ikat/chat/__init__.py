"""Talking to a system: its own answers become the history; saved as a topics file."""

from .conversation import Chat
from .persona import Persona, read_persona
from .terminal import open_chat, talk
from .turn import ChatTurn, Source

__all__ = ["Chat", "ChatTurn", "Persona", "Source", "open_chat", "read_persona", "talk"]
