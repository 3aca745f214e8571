"""Systems that answer live: people, the track's simulated users, and users that a model plays."""

import lazy_loader

from ..names import asked_for

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = asked_for(__name__, __all__, _load)
