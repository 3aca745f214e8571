"""Interactive runs: a system answers the simulated users of TREC iKAT over the track's REST interface."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
