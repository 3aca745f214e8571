"""Runs on disk: TREC run files and run folders."""

import lazy_loader

from ..names import module_getattr

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = module_getattr(__name__, __all__, _load)
