"""Talk to a system: its answers become the history, and the chat can be saved as a topics file."""

from .answering import answer
from .conversation import Chat, Why
from .opening import open_chat
from .persona import Persona, read_persona
from .terminal import Screen, talk

__all__ = ["Chat", "Persona", "Screen", "Why", "answer", "open_chat", "read_persona", "talk"]
