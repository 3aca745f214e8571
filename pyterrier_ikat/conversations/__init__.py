"""Where turns come from: the turn frame, topic readers, datasets, passages and the bundled sample."""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    from ..renamed import PYTHON

    if now := PYTHON.get(f"conversations.{name}"):
        raise AttributeError(f"pyterrier_ikat.conversations has no {name}: it is {now} now")
    return _load(name)
