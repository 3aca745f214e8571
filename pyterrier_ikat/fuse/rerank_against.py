"""Re-ranking the union of a turn's candidates by one text of the turn."""

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, with_columns
from ..errors import DataError
from ..operator import Plan
from ..order import Floats, Integers, set_ranks
from .by_rank import interleave
from .fusion import Fusion
from .subqueries import check_results, mark_first, read_lists, restore_turns


class RerankAgainst(Fusion):
    """Unite what a turn's sub-queries found, and re-rank it by one text of the turn, such as the LLM's answer.

    The candidates are all passages of the turn: the cut comes after the scoring, which is why recall can rise. The scorer sees one row
    per (turn, passage) with the turn's ``qid`` and with ``column`` as its ``query``; afterwards ``query`` is the turn's again. A frame
    without sub-queries has one list per turn. For systems, use ``Union(first, second) >> RerankAgainst(...)``.

    It reads ``qid``, ``query``, ``docno``, ``rank``, ``column``, what the scorer needs (mostly ``text``) and, from ``ExplodeQueries``,
    ``qid_0``, ``qsub``, ``query_0``. It gives the columns of :class:`Interleave` with the scorer's ``score``. Equal scores keep the order
    of :class:`Union`, parted by the least step of 32-bit floats. Source: AQD_A in Abbasiantaeb and Aliannejadi, Generate then Retrieve,
    section 3.

    Args:
        scorer: any PyTerrier re-ranker.
        column: the query column to rank by, for example ``"qanswer"`` or ``"qrewrite"``; ``"query"`` is the turn's own query.
        num_results: passages per turn at most, cut after scoring; ``None`` for all.

    Raises:
        UsageError: when ``num_results`` is below 1.
        DataError: when a turn has no text in ``column``, or the scorer gives no finite score, or a passage that it wasn't given.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def shared_words(rows):
        ...     return [float(len(set(query.split()) & set(text.split()))) for query, text in zip(rows["query"], rows["text"])]
        >>> scorer = pt.apply.generic(lambda rows: rows.assign(score=shared_words(rows)))
        >>> found = pd.DataFrame({"qid": ["t::0", "t::1", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 1, 1], "query": ["a", "b", "b"],
        ...     "query_0": ["it?"] * 3, "docno": ["x", "x", "z"], "rank": [0, 0, 1],
        ...     "text": ["tea", "tea", "rooibos tea"], "qanswer": ["try rooibos tea"] * 3})
        >>> ikat.RerankAgainst(scorer, "qanswer")(found)[["qid", "query", "docno", "score"]].values.tolist()
        [['t', 'it?', 'z', 2.0], ['t', 'it?', 'x', 1.0]]
    """

    schematic = {"label": "Rerank against"}

    def __init__(self, scorer: pt.Transformer, column: str, num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        self.scorer = scorer
        self.column = column

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again; the scorer may ask a model about them."""
        turns = super().plan(frame, plan)
        plan.follow(self.scorer, turns)
        return turns

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Unite and re-rank the lists of a result frame."""
        check_results(inp, self, [self.column])
        rows, turn = interleave(read_lists(inp))
        candidates = set_ranks(restore_turns(inp, rows), turn)
        pt.validate.columns(candidates, includes=[self.column], context=self)
        scored = self.scorer.transform(self._prepare_rows(candidates))
        places = self._find_places(candidates, scored)
        score = scored["score"].to_numpy(dtype=np.float64)
        self._check_scores(scored, score)
        turn = turn[places]
        order = np.lexsort((places, -score, turn))
        order = order[mark_first(turn[order], self.num_results)]
        restored = with_columns(scored.take(order).reset_index(drop=True), query=candidates["query"].take(places[order]))
        return set_ranks(restored, turn[order], score[order])

    def transform_inputs(self) -> list[list[str]]:
        """The columns needed here and by the scorer, for ``pt.inspect``."""
        here = ["qid", "query", "docno", "rank", self.column]
        of_scorer = pt.inspect.transformer_inputs(self.scorer, strict=False) or [[]]
        return [list(dict.fromkeys([*here, *(name for name in names if name != "score")])) for names in of_scorer]

    def _prepare_rows(self, candidates: pd.DataFrame) -> pd.DataFrame:
        without = candidates[self.column].isna()
        if without.any():
            turns = candidates.loc[without, "qid"].unique()
            shown = ", ".join(map(str, turns[:5])) + (", ..." if len(turns) > 5 else "")
            raise DataError(f"{len(turns)} turns have no {self.column} to re-rank by ({shown}): fill the column or leave the turns out")
        stale = [name for name in STALE_WITH_QUERY if name in candidates.columns]
        return with_columns(candidates.drop(columns=stale), query=candidates[self.column])

    def _find_places(self, candidates: pd.DataFrame, scored: pd.DataFrame) -> Integers:
        pt.validate.result_frame(scored, extra_columns=["score"], context=self.scorer)
        keys = pd.MultiIndex.from_frame(candidates[["qid", "docno"]])
        places = np.asarray(keys.get_indexer(pd.MultiIndex.from_frame(scored[["qid", "docno"]])), dtype=np.int64)
        if (places < 0).any():
            row = scored.iloc[int(np.flatnonzero(places < 0)[0])]
            raise DataError(
                f"{self.scorer} returned passage {row['docno']} for turn {row['qid']}, which it wasn't given: use a re-ranker here"
            )
        if len(np.unique(places)) < len(places):
            raise DataError(f"{self.scorer} returned a passage twice for one turn: use a re-ranker that scores each row once")
        return places

    def _check_scores(self, scored: pd.DataFrame, score: Floats) -> None:
        if not np.isfinite(score).all():
            row = scored.iloc[int(np.flatnonzero(~np.isfinite(score))[0])]
            raise DataError(
                f"{self.scorer} gave the score {row['score']} to passage {row['docno']} of turn {row['qid']}: check the model and the text"
            )
