"""Systems that answer live: people in a terminal or by an address, the track's simulated users, and users that a model plays."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
