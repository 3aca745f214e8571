"""Evaluation as TREC does it: passages, PTKB statements and responses; pooling, judging, agreement, breakdowns."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
