"""BM25 retrieval, and RM3 for expanding queries by terms of the best passages."""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import (
    STALE_WITH_QUERY,
    NoResultWarning,
    texts_in,
    turns_of,
    with_columns,
)
from ..errors import DataError, UsageError, counted, list_first
from ..operator import Operator, with_fields
from ..order import order_by_score, set_ranks
from .artifact import OpenIndex
from .eager import LexicalIndex, refuse_wordless
from .retriever import IndexRetriever, Query
from .words import STEMMERS, STOPS, WORD, ascii_text, in_other_script, stop_terms, tokenize

ANALYSIS = {"stemmer": STEMMERS, "stops": STOPS}


def check_bm25(k1: float, b: float) -> None:
    """Check the parameters of BM25.

    Raises:
        UsageError: when they are no numbers, are out of range, or have more digits than PISA
            distinguishes.
    """
    are_numbers = isinstance(k1, Real) and isinstance(b, Real)
    if not (are_numbers and 0 <= k1 < math.inf and 0 <= b <= 1):
        raise UsageError(
            f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={k1!r}, b={b!r}; "
            "the usual values here are k1=0.9, b=0.4"
        )
    for name, value in (("k1", k1), ("b", b)):
        if float(f"{value:g}") != value:
            repair = f"round it to {value:g}"
            raise UsageError(
                f"{name}={value!r} has more than the 6 digits that PISA keeps: {repair}"
            )


@with_fields
class BM25(IndexRetriever):
    """BM25 retrieval with the passages' text; ``PassageIndex.bm25()`` makes it.

    Reads ``qid`` and ``query``; returns the passages of every row, in the order of the rows, with
    all columns of the row (the same objects), ``docno``, ``score``, ``rank`` (from 0) and ``text``.
    Equal scores are ordered by docno, the greatest first, as in trec_eval. Repeated words of a
    query count. A query without any word to search for (empty, only stop words, not a string) has
    no result. A ``NoResultWarning`` names the turns without results. It names a turn with
    sub-queries only when none of them found anything.

    If the frame has a column ``query_toks`` (dict term -> weight), as from ``RM3``, it is searched
    instead of ``query``. Its terms have to be terms of the index: they are neither stemmed nor
    filtered by stop words. A term of weight w counts w times. Weights are rounded to 1/10,000 of
    the highest weight.

    The score is the sum over the query's words of ``idf * (k1 + 1) * tf / (tf + k1 * (1 - b + b *
    length / mean length))`` with ``idf = log((N - df + 0.5) / (df + 0.5))``, which is Robertson's
    idf, and at least 1e-6. So a word that is in half of the passages has almost no weight. Lucene's
    idf is ``log(1 + ...)`` of the same fraction and gives such words more weight. There is no other
    difference: bm25s has the same rankings with Robertson's idf, and on the 700 passages of
    ikat:2023-mini, Lucene's idf shares .94 of the first ten. Anserini itself
    (:class:`LuceneIndex`), which also makes other words and rounds lengths, shares .85 of the first
    ten for raw utterances there, .83 for all utterances and .89 for manual rewrites.

    Two engines compute the score, with the same rankings, and the same scores except for rounding:
    ``eager``, which adds up the impact of each word on each passage, computed at indexing time, and
    PISA, which skips passages that can't reach the top. An index has one of them; see
    :meth:`PassageIndex.index`.

    ``bm25 % k`` retrieves only k passages. Each distinct query is searched once for all rows, turns
    and systems. Rankings without text are kept in a memory for the whole process (at most 1 GiB,
    about 25,000 queries of 1000 passages), or in the file ``cache``.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; k1 and b as in
    Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4.

    Args:
        index: the index to search.
        k1: term-frequency saturation; with a larger value, repetitions of a word saturate more
            slowly.
        b: length normalisation from 0 to 1; with a larger value, long passages score lower.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.

    Raises:
        UsageError: when ``k1``, ``b`` or ``num_results`` is out of range.
        DataError: when the index is missing or incomplete, or a row's ``query_toks`` isn't a dict
            of weights.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.PassageIndex("mini.index").bm25(k1=1.2, b=0.75)  # doctest: +SKIP
        ikat.PassageIndex('mini.index').bm25(k1=1.2, b=0.75)
    """

    schematic = {"label": "BM25"}
    reads_texts = False
    label = "BM25"
    method = "bm25"
    settings = ("k1", "b")
    on_passages = "ikat.BM25Rerank()"

    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        check_bm25(self.k1, self.b)
        super().__post_init__()

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """Return the words of each query, or ``query_toks``."""
        check_bm25(self.k1, self.b)  # pt.GridSearch sets them
        if "query_toks" not in frame.columns:
            return super().queries(frame)
        queries = []
        for row, (qid, toks) in enumerate(zip(frame["qid"], frame["query_toks"], strict=True)):
            weights = _check_weights(qid, toks)
            if not weights:
                continue
            unit = max(weights.values()) / WEIGHT_STEPS
            steps = _round_weights(weights, unit)
            if steps:
                queries.append(Query(row, steps, unit))
        return queries

    def find_rankings(self, opened: OpenIndex, queries: list[Any]) -> Any:
        """Search the engine for these parameters."""
        return _engine_at(opened.engine, self.k1, self.b).rankings(queries, self.num_results)


@lru_cache(maxsize=4)
def _engine_at(engine: Any, k1: float, b: float) -> Any:
    """Return an engine for these parameters, kept for the next search."""
    return engine.at(k1, b)


WEIGHT_STEPS = 10_000
"""PISA takes integer weights, and the term of highest weight in a query gets this one.

With a million, search would be 300 times slower.
"""


def _check_weights(qid: str, toks: Any) -> dict[str, float]:
    """Return the terms of weight above 0, after checking that these are weights of terms."""
    if not isinstance(toks, Mapping) or not all(map(_is_weight, toks.values())):
        raise DataError(
            f"query_toks of {qid} is {str(toks)[:80]}: "
            "give a dict of terms to weights, or drop the column to search query"
        )
    return {str(term): float(weight) for term, weight in toks.items() if weight > 0}


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def _round_weights(weights: Mapping[str, float], unit: float) -> dict[str, int]:
    steps: Counter[str] = Counter()
    for term, weight in weights.items():
        steps[ascii_text(term).lower()] += round(weight / unit)
    return {term: count for term, count in sorted(steps.items()) if count > 0}


@with_fields
class BM25Rerank(Operator):
    """Re-rank passages by BM25 with the statistics of the turn's own passages, in memory.

    The turn's passages are the collection. Reads ``qid``, ``query``, ``docno``, ``text``; replaces
    ``score`` and ``rank`` (from 0) and keeps every row and all other columns. A passage without a
    word of the query has the score 0. Turns stay in their order, rows come in the new one; equal
    scores go by docno, the greatest first. Scores, words and ties are those of a
    :class:`~pyterrier_ikat.PassageIndex` of the turn's passages, without files. Turns with the same
    texts share an index, so the statements of one user (:class:`~pyterrier_ikat.ListStatements`)
    are indexed once.

    Args:
        k1: term-frequency saturation.
        b: length normalisation from 0 to 1.
        stemmer: ``"porter2"`` or ``"none"``.
        stops: the stop words, removed from queries: ``"lucene"``, ``"terrier"`` or ``"none"``.

    Raises:
        UsageError: when an argument is out of range or unknown.
        DataError: when a row has no qid, query or text, or no text has a word, as in Chinese. A
            ``NoResultWarning`` names turns of which that is true, or whose query has no word, where
            others have some.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> question = {"role": "user", "content": "Which teas suit me?"}
        >>> turn = ikat.conversation([question], ["I own a dog.", "I like tea.", "I run."])
        >>> (ikat.ListStatements() >> ikat.BM25Rerank() % 1)(turn)["text"].tolist()
        ['I like tea.']
    """

    schematic = {"label": "BM25 re-rank"}
    choices = ANALYSIS
    k1: float = 0.9
    b: float = 0.4
    stemmer: str = "porter2"
    stops: str = "lucene"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bm25(self.k1, self.b)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        check_bm25(self.k1, self.b)  # pt.GridSearch sets them
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        queries = texts_in(inp, "query")
        texts = texts_in(inp, "text")
        turn = turns_of(inp)
        scores = np.empty(len(inp))
        indexes: dict[tuple[str, ...], LexicalIndex] = {}
        unread: list[str] = []
        for rows in _rows_by_turn(turn):
            of_turn = tuple(texts[row] for row in rows)
            if of_turn not in indexes:
                indexes[of_turn] = self._index(of_turn)
            index = indexes[of_turn]
            query = queries[rows[0]]
            scores[rows] = index.scores(query)
            wordless = not index.has_words and any(map(in_other_script, of_turn))
            if wordless or in_other_script(query):
                unread.append(str(inp["qid"].iloc[rows[0]]))
        if unread:
            refuse_wordless(any(index.has_words for index in indexes.values()), "text")
            warnings.warn(
                f"{counted(len(unread), 'turn')} without a {WORD} in the query or the texts: "
                f"{list_first(unread)}; BM25 scores them 0",
                NoResultWarning,
                stacklevel=4,
            )
        order = order_by_score(inp, turn, scores)
        ordered = inp.take(order).reset_index(drop=True)
        return set_ranks(ordered, turn[order], scores[order], by_docno=True)

    def _index(self, texts: Sequence[str]) -> LexicalIndex:
        passages = ((str(number), text) for number, text in enumerate(texts))
        return LexicalIndex(passages, stemmer=self.stemmer, stops=self.stops, k1=self.k1, b=self.b)


def _rows_by_turn(turn: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each turn, from the numbers of the rows' turns."""
    if not len(turn):
        return []
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.flatnonzero(np.diff(turn[by_turn])) + 1
    return np.split(by_turn, bounds)


TERM_LENGTHS = range(2, 21)
"""Possible lengths of a feedback term in characters, as in Anserini."""


@with_fields
class RM3(Operator):
    """Expand each query by the terms of its best passages: ``bm25 >> RM3() >> bm25``.

    Terms are weighted by the relevance model. In RM1, a term's weight is the weighted mean of its
    share of each passage's words. A passage's weight is its BM25 score divided by the sum of the
    scores, as in Anserini. The ``fb_terms`` terms of highest weight (ties in alphabetical order)
    are scaled to the sum 1 and interpolated with the query's own: ``original_weight`` * share of
    the query's words + (1 - ``original_weight``) * feedback weight. Words are tokenised as in PISA,
    stemmed like the index, and the index's stop words are removed. Feedback terms have 2 to 20
    characters. Anserini also omits terms that occur in over a tenth of the passages, which needs
    the index's statistics. Here the words of Terrier's long stop list are excluded from the
    feedback terms instead.

    Reads a result frame: ``qid``, ``query``, ``docno``, ``score``, ``rank``, ``text``. Returns a
    query frame, one row per turn: the turn's columns and ``query_toks`` (dict term -> weight),
    which BM25 searches instead of ``query``. A turn without passages isn't in a result frame, so it
    isn't in the returned frame either.

    Source: Abdul-Jaleel et al., UMass at TREC 2004: Novelty and HARD. 10 passages, 10 terms and
    weight 0.5 are those of the organisers' baseline of iKAT 2023.

    Args:
        fb_docs: the number of feedback passages per turn.
        fb_terms: the maximum number of feedback terms.
        original_weight: the share of the query's own terms, 0 to 1.
        stemmer: the stemmer of the index: ``"porter2"`` or ``"none"``.
        stops: the stop words of the index: ``"lucene"``, ``"terrier"`` or ``"none"``.

    Raises:
        UsageError: when an argument is out of range or unknown.
        DataError: when a turn's scores are negative, not finite or all 0, or a row has no qid or
            text.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> results = pd.DataFrame({"qid": ["t"], "query": ["herbal teas"], "docno": ["d"],
        ...                         "score": [7.0], "rank": [0],
        ...                         "text": ["Rooibos, a tea: rooibos!"]})
        >>> weights = ikat.RM3(fb_terms=2)(results)["query_toks"][0]  # tea: .5 * 1/2 + .5 * 1/3
        >>> {term: round(weight, 3) for term, weight in weights.items()}
        {'herbal': 0.25, 'tea': 0.417, 'rooibo': 0.333}
    """

    schematic = {"label": "RM3"}
    least = {"fb_docs": 1, "fb_terms": 1}
    choices = ANALYSIS

    fb_docs: int = 10
    fb_terms: int = 10
    original_weight: float = 0.5
    stemmer: str = "porter2"
    stops: str = "lucene"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.original_weight <= 1:
            weight = f"original_weight={self.original_weight!r}"
            raise UsageError(f"{weight}: give a number from 0 to 1, usually 0.5")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Make a query frame with ``query_toks`` from a result frame."""
        pt.validate.result_frame(
            inp, extra_columns=["query", "score", "rank", "text"], context=self
        )
        turns_of(inp)  # checks the qids
        columns = []
        for name in inp.columns:
            if name.startswith("q") and name not in STALE_WITH_QUERY:
                columns.append(name)
        turns = inp[~inp["qid"].duplicated()][columns].reset_index(drop=True)
        ranked = inp.sort_values("rank", kind="stable")
        best = ranked.groupby("qid", sort=False).head(self.fb_docs)
        feedback = {}
        for qid, rows in best.groupby("qid", sort=False):
            feedback[qid] = self._feedback(str(qid), rows)
        expanded = []
        for query, qid in zip(turns["query"], turns["qid"], strict=True):
            expanded.append(self._expand(query, feedback[qid]))
        return with_columns(turns, query_toks=expanded)

    def _expand(self, query: str, feedback: Mapping[str, float]) -> dict[str, float]:
        """Interpolate the query's and the feedback's weight of each term.

        Terms of weight 0 are omitted.
        """
        own_shares = shares(self._terms(query))
        weight = self.original_weight
        weights = {}
        for term in dict.fromkeys([*own_shares, *feedback]):
            mixed = weight * own_shares.get(term, 0) + (1 - weight) * feedback.get(term, 0)
            if mixed > 0:
                weights[term] = mixed
        return weights

    def _feedback(self, qid: str, rows: pd.DataFrame) -> dict[str, float]:
        """Return RM1: the passages' terms of highest weight, with weights that sum to 1."""
        scores = rows["score"].to_numpy(dtype=np.float64)
        if not (np.isfinite(scores).all() and (scores >= 0).all() and scores.sum() > 0):
            raise DataError(
                f"the scores of turn {qid} can't weigh its passages ({scores.min()}): "
                "put RM3 right behind a BM25 retriever"
            )
        omitted: frozenset[str] = frozenset()
        if self.stops != "none":
            omitted = stop_terms("terrier", self.stemmer)
        weights: dict[str, float] = {}
        for text, score in zip(texts_in(rows, "text"), scores.tolist(), strict=True):
            for term, share in shares(self._terms(text)).items():
                if term not in omitted and len(term) in TERM_LENGTHS:
                    weights[term] = weights.get(term, 0.0) + share * score
        best = sorted(weights, key=lambda term: (-weights[term], term))[: self.fb_terms]
        total = sum(weights[term] for term in best)
        return {term: weights[term] / total for term in best}

    def _terms(self, text: str) -> list[str]:
        stops = stop_terms(self.stops, self.stemmer)
        return [term for term in tokenize(text, self.stemmer) if term not in stops]


def shares(terms: Sequence[str]) -> dict[str, float]:
    """Return each term's share of ``terms``."""
    return {term: count / len(terms) for term, count in Counter(terms).items()}
