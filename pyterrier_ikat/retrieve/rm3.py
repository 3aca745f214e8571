"""RM3: the query expanded by the terms of the best passages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, texts_in, turns_of, with_columns
from ..errors import DataError, UsageError
from ..operator import Operator
from .pisa.index import STEMMERS, STOPS, ascii_text

LENGTHS = range(2, 21)
"""Characters of a feedback term, as in Anserini."""


class RM3(Operator):
    """Expand each query by the terms of its best passages, weighted by the relevance model: ``bm25 >> RM3() >> bm25``.

    RM1 gives a term the mean of its share of each passage's words, weighted by the passage's score, which is divided by the sum of the
    scores: the BM25 score itself, as in Anserini. The ``fb_terms`` heaviest terms (equal ones in alphabetical order), scaled to the sum 1,
    are interpolated with the query's own: ``original_weight`` * share of the query's words + (1 - ``original_weight``) * feedback weight.
    Words are PISA's, stemmed like the index, without the index's stop words; feedback terms have 2 to 20 characters. Anserini also
    leaves out terms of over a tenth of the passages, which takes an index's statistics; here the words of Terrier's long stop list are no
    feedback terms.

    Reads a result frame: ``qid``, ``query``, ``docno``, ``score``, ``rank``, ``text``. Gives a query frame, one row per turn: the turn's
    columns and ``query_toks`` (dict term -> weight), which BM25 searches in the place of ``query``. A turn without a passage isn't in a
    result frame, so it isn't in this one.

    Source: Abdul-Jaleel et al., UMass at TREC 2004: Novelty and HARD; 10 passages, 10 terms and weight 0.5 are the organisers' baseline of
    iKAT 2023.

    Args:
        fb_docs: passages of each turn that are looked at.
        fb_terms: terms that are added at most.
        original_weight: the share of the query's own terms, 0 to 1.
        stemmer: the stemmer that the index was made with: ``"porter2"`` or ``"none"``.
        stops: the stop words that the index was made with: ``"lucene"``, ``"terrier"`` or ``"none"``.

    Raises:
        UsageError: when an argument is out of range or unknown.
        DataError: when a turn's scores are negative, not finite or all 0, or a row has no qid or text.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t"], "query": ["herbal teas"], "docno": ["d"], "score": [7.0], "rank": [0],
        ...                       "text": ["Rooibos, a tea: rooibos!"]})
        >>> weights = ikat.RM3(fb_terms=2)(found)["query_toks"][0]  # tea: .5 * 1/2 + .5 * 1/3
        >>> {term: round(weight, 3) for term, weight in weights.items()}
        {'herbal': 0.25, 'tea': 0.417, 'rooibo': 0.333}
    """

    schematic = {"label": "RM3"}

    def __init__(
        self, fb_docs: int = 10, fb_terms: int = 10, original_weight: float = 0.5, stemmer: str = "porter2", stops: str = "lucene"
    ) -> None:
        super().__init__()
        for name, number in (("fb_docs", fb_docs), ("fb_terms", fb_terms)):
            if number < 1:
                raise UsageError(f"{name}={number!r}: give 1 or more, usually 10")
        if not 0 <= original_weight <= 1:
            raise UsageError(f"original_weight={original_weight!r}: give a number from 0 to 1, usually 0.5")
        for name, value, known in (("stemmer", stemmer, STEMMERS), ("stops", stops, STOPS)):
            if value not in known:
                raise UsageError(f"{name}={value!r} is unknown: give one of {', '.join(known)}, as the index was made with")
        self.fb_docs = fb_docs
        self.fb_terms = fb_terms
        self.original_weight = original_weight
        self.stemmer = stemmer
        self.stops = stops

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Make a query frame with ``query_toks`` of a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "score", "rank", "text"], context=self)
        turns_of(inp)
        kept = [name for name in inp.columns if name.startswith("q") and name not in STALE_WITH_QUERY]
        turns = inp[~inp["qid"].duplicated()][kept].reset_index(drop=True)
        best = inp.sort_values("rank", kind="stable").groupby("qid", sort=False).head(self.fb_docs)
        feedback = {qid: self._feedback(str(qid), rows) for qid, rows in best.groupby("qid", sort=False)}
        asked = [shares(self._terms(query)) for query in turns["query"]]
        pairs = zip(asked, turns["qid"], strict=True)
        return with_columns(turns, query_toks=[interpolated(own, feedback[qid], self.original_weight) for own, qid in pairs])

    def _feedback(self, qid: str, rows: pd.DataFrame) -> dict[str, float]:
        scores = rows["score"].to_numpy(dtype=np.float64)
        if not (np.isfinite(scores).all() and (scores >= 0).all() and scores.sum() > 0):
            raise DataError(f"the scores of turn {qid} can't weigh its passages ({scores.min()}): put RM3 right behind a BM25 retriever")
        return relevance_model([self._terms(text) for text in texts_in(rows, "text")], scores.tolist(), self.fb_terms, self._no_feedback())

    def _terms(self, text: str) -> list[str]:
        left_out = stop_terms(self.stops, self.stemmer)
        return [term for term in tokenize(text, self.stemmer) if term not in left_out]

    def _no_feedback(self) -> frozenset[str]:
        return frozenset() if self.stops == "none" else stop_terms("terrier", self.stemmer)


def relevance_model(
    passages: Sequence[Sequence[str]], scores: Sequence[float], size: int, left_out: frozenset[str] = frozenset()
) -> dict[str, float]:
    """RM1: the heaviest ``size`` terms of the passages and their weights, which sum to 1.

    Args:
        passages: the terms of each passage.
        scores: each passage's weight, of any scale.
        size: terms at most.
        left_out: terms that get no weight, though they count as words of the passage.
    """
    weights: dict[str, float] = {}
    for terms, score in zip(passages, scores, strict=True):
        for term, share in shares(terms).items():
            if term not in left_out and len(term) in LENGTHS:
                weights[term] = weights.get(term, 0.0) + share * score
    best = sorted(weights, key=lambda term: (-weights[term], term))[:size]
    total = sum(weights[term] for term in best)
    return {term: weights[term] / total for term in best}


def interpolated(own: Mapping[str, float], feedback: Mapping[str, float], weight: float) -> dict[str, float]:
    """Both weights of each term, ``own`` times ``weight`` and ``feedback`` times the rest; terms of weight 0 are left out."""
    mixed = {term: weight * own.get(term, 0) + (1 - weight) * feedback.get(term, 0) for term in dict.fromkeys([*own, *feedback])}
    return {term: value for term, value in mixed.items() if value > 0}


def shares(terms: Sequence[str]) -> dict[str, float]:
    """Each term's share of ``terms``."""
    return {term: count / len(terms) for term, count in Counter(terms).items()}


def tokenize(text: str, stemmer: str) -> list[str]:
    """The terms that PISA makes of a text."""
    from pyterrier_pisa import tokenize as by_pisa

    return list(by_pisa(ascii_text(text), stemmer))


@lru_cache
def stop_terms(stops: str, stemmer: str) -> frozenset[str]:
    """The stop words as terms: PISA compares them after stemming."""
    return frozenset(_stop_terms(stops, stemmer))


def _stop_terms(stops: str, stemmer: str) -> Iterator[str]:
    from pyterrier_pisa.stopwords import _STOPWORDS

    for word in _STOPWORDS[stops] if stops != "none" else ():
        yield from tokenize(word, stemmer)
