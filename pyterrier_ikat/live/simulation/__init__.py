"""Simulated users talk to systems: users files, players and judges, sessions, and the comparison of systems."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
