"""Talk to a system: its answers become the history, and the chat can be saved as a topics file."""

from .conversation import Chat, ChatTurn, Source
from .terminal import Persona, open_chat, read_persona, talk

__all__ = ["Chat", "ChatTurn", "Persona", "Source", "open_chat", "read_persona", "talk"]
