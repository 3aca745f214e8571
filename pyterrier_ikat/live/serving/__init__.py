"""Systems behind an address: OpenAI's chat protocol, a search endpoint, tools for language models, and a chat page."""

from .limits import Limits
from .server import app, running, serve

__all__ = ["Limits", "app", "running", "serve"]
