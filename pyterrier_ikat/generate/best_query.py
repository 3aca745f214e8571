"""The best of several queries of a turn, chosen by the passages that each of them finds."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import at_least, one_of
from ..conversations.frame import NoResultWarning, each_turn_once, texts_in, values, with_columns, with_query
from ..errors import DataError
from ..operator import Operator, frame_for, with_fields
from ..order import Floats, order_by_score, tied
from .queries import ExplodeQueries, with_queries

if TYPE_CHECKING:
    from ..planning import Plan

RRF_K = 60
"""The constant of reciprocal rank fusion, as in :class:`~pyterrier_ikat.RRF`."""


@dataclass(frozen=True)
class Ranked:
    """The passages that one of a turn's queries found, at least one.

    Attributes:
        docnos: its passages, best first.
        scores: their scores.
        times: how often the query occurs among the turn's queries.
    """

    docnos: npt.NDArray[np.object_]
    scores: Floats
    times: int


def mean_score(lists: Sequence[Ranked], passages: int) -> Floats:
    """The mean score of each list's first passages."""
    best = [one.scores[:passages] for one in lists]
    return tied(np.array([scores.mean() for scores in best]), max(np.abs(scores).max() for scores in best))


def agreement(lists: Sequence[Ranked], passages: int) -> Floats:
    """How many of each list's first passages are among the first of all lists, fused by reciprocal rank fusion."""
    wanted = set(_fused(lists)[:passages])
    return np.array([len(wanted.intersection(one.docnos[:passages])) for one in lists], dtype=np.float64)


def spread(lists: Sequence[Ranked], passages: int) -> Floats:
    """The standard deviation of the scores of each list's first passages, divided by their mean."""
    best = [one.scores[:passages] for one in lists]
    if any(scores.mean() <= 0 for scores in best):
        raise DataError('rule="spread" divides by a mean score that is not above 0: use a ranker with positive scores, such as bm25')
    return tied(np.array([scores.std() / scores.mean() for scores in best]), 1.0)


def _fused(lists: Sequence[Ranked]) -> npt.NDArray[np.object_]:
    """The passages of all lists by reciprocal rank fusion. Equal sums are ordered by best rank, then by list."""
    rank = np.concatenate([np.arange(len(one.docnos)) for one in lists])
    times = np.repeat([one.times for one in lists], [len(one.docnos) for one in lists])
    order = np.argsort(rank, kind="stable")
    numbers, known = pd.factorize(np.concatenate([one.docnos for one in lists])[order])
    total = np.bincount(numbers, weights=(times / (RRF_K + 1 + rank))[order]).round(12)
    return np.asarray(known[np.argsort(-total, kind="stable")], dtype=np.object_)


RULES: dict[str, tuple[Callable[[Sequence[Ranked], int], Floats], int]] = {
    "score": (mean_score, 10),
    "agreement": (agreement, 10),
    "spread": (spread, 100),
}
"""For each rule, the function that gives each list of a turn its value (the highest wins), and how many passages of each list it reads."""


@with_fields
class BestQuery(Operator):
    """Choose one of a turn's sub-queries as its query, by the passages that each of them finds.

    ``ranker`` searches for each distinct sub-query separately, and ``rule`` gives each one a value. The highest value wins; of equal
    values, the first. A sub-query that finds nothing comes last. If no sub-query finds anything, the first one is chosen. No rule is
    trained, and none reads judgements. The page on evidence (docs/evidence.md) reports the scores of each rule on real samples.

    - ``"score"``: the mean score of the ``passages`` best passages (of all, if it found fewer). This definition is ours: Chang et al., CFDA
      & CLIP at TREC iKAT 2025 (arXiv 2509.15588), choose the best of N rewrites with a reward model, which was trained to predict how well
      a rewrite retrieves (Lai et al., AdaRewriter, arXiv 2506.01381). Its weights are not public, so this operator searches instead.
    - ``"agreement"``: how many of its ``passages`` best passages are also among the ``passages`` best of the turn's fused list. The lists
      are fused by reciprocal rank fusion (k = 60), as deep as ``ranker`` retrieves. A repeated sub-query counts as often as it occurs. The
      rule needs a search for each sub-query and no re-ranker. Source: this package.
    - ``"spread"``: the standard deviation of the scores of the ``passages`` best passages, divided by their mean. It prefers a query that
      discriminates between passages. It needs positive scores, such as those of BM25. Source: this package, after NQC, a predictor of query
      performance (Shtok et al., TOIS 2012), which divides by the score of the whole collection.

    Reads ``qid``, ``query``, ``qsubqueries``. Sets ``qrewrite`` and ``query`` and pushes the old query to ``query_0``. A turn with a single
    distinct sub-query needs no search; a turn without sub-queries keeps its query.

    Args:
        ranker: the pipeline that searches for each sub-query. For ``"score"``, a retriever and a re-ranker whose scores of different
            queries can be compared, such as ``bm25 % 20 >> minilm``; for the other rules, a retriever such as ``bm25``.
        passages: the number of best passages that the rule reads; by default 10, and 100 for ``"spread"``.
        rule: ``"score"``, ``"agreement"`` or ``"spread"``.

    Raises:
        UsageError: when ``passages`` is below 1, or ``rule`` is unknown.
        DataError: when the ranker gives a score that is not a number, or the mean score of a query is not above 0 for ``"spread"``.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> by_length = pt.apply.generic(lambda rows: rows.assign(docno="d", rank=0, score=rows["query"].str.len().astype(float)))
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"], "qsubqueries": [["mint", "is mint safe", "tea"]]})
        >>> ikat.BestQuery(by_length)(turn)["query"].item()
        'is mint safe'
        >>> by_word = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"].str[-4:], rank=0, score=1.0))
        >>> turn["qsubqueries"] = [["mint", "is mint safe", "safe"]]
        >>> ikat.BestQuery(by_word, 1, rule="agreement")(turn)["query"].item()  # two of three find "safe"
        'is mint safe'
    """

    one_row_per_turn = False  # it searches and re-ranks, so a run calls it batch by batch
    schematic = {"label": "Best query"}

    ranker: pt.Transformer
    passages: int | None = None
    rule: str = "score"

    def __post_init__(self) -> None:
        one_of(RULES, rule=self.rule)
        at_least(1, passages=self.passages)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The first sub-query. The ranker's LLM calls for each sub-query are counted."""
        distinct = _distinct(frame)
        before = plan.cut
        plan.follow(self.ranker, ExplodeQueries().transform(distinct))
        plan.cut = before
        return _with_rewrite(frame, [queries[0] for queries in distinct["qsubqueries"]])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Search for every distinct sub-query, and set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query", "qsubqueries"], context=self)
        distinct = _distinct(inp)
        several = distinct[[len(queries) > 1 for queries in distinct["qsubqueries"]]].reset_index(drop=True)
        found = self._search(ExplodeQueries().transform(several)) if len(several) else {}
        rows = zip(distinct["qid"], distinct["qsubqueries"], values(inp, "qsubqueries", []), strict=True)
        return _with_rewrite(inp, [self._best(queries, Counter(written), found.get(qid, {})) for qid, queries, written in rows])

    def _search(self, queries: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
        """The passages found, best first, for each turn and each of its sub-queries that found anything."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*; counted 0", NoResultWarning)  # another sub-query may have found passages
            found = self.ranker.transform(frame_for(self.ranker, queries))
        pt.validate.result_frame(found, extra_columns=["score"], context=self.ranker)
        found = found[["qid", "docno", "score"]].astype({"score": "float64"}).reset_index(drop=True)
        scores = found["score"].to_numpy()
        if not np.isfinite(scores).all():
            raise DataError(f"{self.ranker} gave a score that is not a number: check the model and the texts")
        found = found.take(order_by_score(found, pd.factorize(found["qid"])[0], scores))
        of_query = dict(zip(queries["qid"], zip(queries["qid_0"], queries["query"], strict=True), strict=True))
        of_turns: dict[str, dict[str, pd.DataFrame]] = {}
        for qid, passages in found.groupby("qid", sort=False):
            turn, query = of_query[qid]
            of_turns.setdefault(turn, {})[query] = passages
        return of_turns

    def _best(self, queries: Sequence[str], times: Counter[str], found: dict[str, pd.DataFrame]) -> str:
        """The query whose list has the highest value; the first query if none found anything."""
        finding = [query for query in queries if query in found]
        if not finding:
            return queries[0]
        value, passages = RULES[self.rule]
        lists = [Ranked(found[query]["docno"].to_numpy(object), found[query]["score"].to_numpy(), times[query]) for query in finding]
        return finding[int(value(lists, self.passages or passages).argmax())]


def _distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each sub-query once; the query itself if there are none."""
    each_turn_once(frame)
    rows = zip(values(frame, "qsubqueries", []), texts_in(frame, "query"), strict=True)
    return with_queries(frame, [list(dict.fromkeys(queries)) or [query] for queries, query in rows])


def _with_rewrite(frame: pd.DataFrame, chosen: Sequence[str]) -> pd.DataFrame:
    return with_query(with_columns(frame, qrewrite=chosen), chosen)
