"""Systems that answer live: people, the track's simulated users, and users that a model plays."""

import lazy_loader

from ..names import module_getattr

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = module_getattr(__name__, __all__, _load)
