"""Memory: what is known of users over several conversations, since when, and from where."""

from .user_memory import UserMemory

__all__ = ["UserMemory"]
