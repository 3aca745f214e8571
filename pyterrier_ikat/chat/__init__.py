"""Talk to a system: its answers become the history, and the chat can be saved as a topics file."""

from .answering import answer
from .conversation import Chat
from .persona import Persona, read_persona
from .terminal import open_chat, talk
from .turn import ChatTurn, Source

__all__ = ["Chat", "ChatTurn", "Persona", "Source", "answer", "open_chat", "read_persona", "talk"]
