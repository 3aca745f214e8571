"""PyTerrier operators for conversational search with a personal knowledge base (TREC iKAT).

>>> import pyterrier as pt, pyterrier_ikat as ikat
>>> llm = ikat.llm("recorded:sample")
>>> ikat.Answer(llm) >> ikat.MultiQuery(llm, given="answer")
(ikat.Answer(ikat.llm('recorded:sample')) >> ikat.Queries(ikat.llm('recorded:sample'), given='answer') >> ikat.ExplodeQueries())
"""

import lazy_loader

__version__ = "0.1.0"

# The stub beside this file says what is exported; nothing is imported until it is used.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    if name.startswith("_"):  # asked by programs, often
        raise AttributeError(name)
    from .errors import did_you_mean

    raise AttributeError(f"pyterrier_ikat has no {name}: {did_you_mean(name, __all__) or 'dir(pyterrier_ikat) lists what it has'}")
