"""Talk to a system: its answers become the history, and the chat can be saved as a topics file."""

from .conversation import Chat, ChatTurn, Source
from .persona import Persona, read_persona
from .terminal import open_chat, talk

__all__ = ["Chat", "ChatTurn", "Persona", "Source", "open_chat", "read_persona", "talk"]
