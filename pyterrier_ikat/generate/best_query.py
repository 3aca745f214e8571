"""The best of several queries of a turn: the one that finds the best passages."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import NoResultWarning, each_turn_once, texts_in, values, with_columns, with_query
from ..errors import DataError
from ..operator import Operator, frame_for, with_fields
from ..order import highest_of, tied
from .queries import ExplodeQueries, with_queries

if TYPE_CHECKING:
    from ..planning import Plan


@with_fields
class BestQuery(Operator):
    """Choose one of a turn's sub-queries as its query: the one whose best passages score highest.

    ``ranker`` runs each distinct sub-query separately. A sub-query's value is the mean score of its ``passages`` best passages (of all, if
    it found fewer). The highest value wins; of equal ones the first; if no sub-query found anything, the first sub-query. This definition
    is ours: Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588), choose the best of N rewrites by a reward model that was
    trained to predict how well a rewrite retrieves (Lai et al., AdaRewriter, arXiv 2506.01381). Its weights aren't public, so this
    operator retrieves instead.

    Reads ``qid``, ``query``, ``qsubqueries``. Sets ``qrewrite`` and ``query`` and pushes the old query to ``query_0``. A turn with a single
    distinct sub-query needs no search; a turn without sub-queries keeps its query.

    Args:
        ranker: a retriever and a re-ranker whose scores of different queries can be compared, such as ``bm25 % 20 >> minilm``.
        passages: the number of best passages in the mean.

    Raises:
        UsageError: when ``passages`` is below 1.
        DataError: when the ranker gives a score that is not a number.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> by_length = pt.apply.generic(lambda rows: rows.assign(docno="d", rank=0, score=rows["query"].str.len().astype(float)))
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"], "qsubqueries": [["mint", "is mint safe", "tea"]]})
        >>> ikat.BestQuery(by_length)(turn)["query"].item()
        'is mint safe'
    """

    one_row_per_turn = False  # it searches and re-ranks, so that a run does that batch by batch
    schematic = {"label": "Best query"}

    ranker: pt.Transformer
    passages: int = 10

    def __post_init__(self) -> None:
        at_least(1, passages=self.passages)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The first sub-query; what the ranker asks for each is counted."""
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
        scores = self._scores(ExplodeQueries().transform(several)) if len(several) else {}
        rows = zip(distinct["qid"], distinct["qsubqueries"], strict=True)
        return _with_rewrite(inp, [queries[_best([scores.get(f"{qid}::{n}") for n in range(len(queries))])] for qid, queries in rows])

    def _scores(self, queries: pd.DataFrame) -> dict[str, float]:
        """The value of each sub-query that found anything, by its qid."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* they count 0", NoResultWarning)  # what one sub-query lacks another may have
            found = self.ranker.transform(frame_for(self.ranker, queries))
        pt.validate.result_frame(found, extra_columns=["score"], context=self.ranker)
        found = found[["qid", "score"]].astype({"score": "float64"})
        if not np.isfinite(found["score"]).all():
            raise DataError(f"{self.ranker} gave a score that is not a number: check the model and the texts")
        best = found.sort_values("score", ascending=False, kind="stable").groupby("qid", sort=False).head(self.passages)
        means, most = best.groupby("qid")["score"].mean(), best["score"].abs().groupby(best["qid"]).max()
        turns = pd.factorize(means.index.str.rsplit("::", n=1).str[0])[0]
        return dict(zip(means.index, tied(means.to_numpy(), highest_of(turns, most.to_numpy()), turns), strict=True))


def _distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each sub-query once; the query where there is none."""
    each_turn_once(frame)
    rows = zip(values(frame, "qsubqueries", []), texts_in(frame, "query"), strict=True)
    return with_queries(frame, [list(dict.fromkeys(queries)) or [query] for queries, query in rows])


def _best(scores: Sequence[float | None]) -> int:
    return max(range(len(scores)), key=lambda place: -np.inf if (score := scores[place]) is None else score)


def _with_rewrite(frame: pd.DataFrame, chosen: Sequence[str]) -> pd.DataFrame:
    return with_query(with_columns(frame, qrewrite=chosen), chosen)
