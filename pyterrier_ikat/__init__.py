"""PyTerrier operators for conversational search with a personal knowledge base (TREC iKAT).

>>> import pyterrier as pt, pyterrier_ikat as ikat
>>> llm = ikat.llm("recorded:sample")
>>> ikat.Answer(llm) >> ikat.Interleave()
(ikat.Answer(ikat.llm('recorded:sample')) >> ikat.Interleave())
"""

import lazy_loader

from .names import module_getattr

__version__ = "0.1.0"

# The stub beside this file says what is exported; nothing is imported until it is used.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = module_getattr(__name__, __all__, _load)
