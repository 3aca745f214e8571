"""Where turns come from: the turn frame, topic readers, datasets, passages and the bundled sample."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
