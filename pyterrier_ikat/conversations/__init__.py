"""Conversations and their collections: turn frames, topic readers, datasets, passages, a sample."""

import lazy_loader

from ..names import asked_for

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = asked_for(__name__, __all__, _load)
