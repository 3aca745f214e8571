"""The figures of runs turn by turn, in one pass: qrels and measures are made ready once, then each run is one dictionary."""

from collections.abc import Sequence
from typing import Any

import ir_measures
import pandas as pd

from ..errors import DataError, UsageError
from ..runs import strictly_decreasing
from .measures import label
from .qrels import check_qrels
from .same_turns import check_form
from .text_ids import with_text_ids

RANKING = ("qid", "docno", "score", "rank")


class Scorer:
    """Qrels and measures, ready for any number of runs.

    ir_measures takes a frame row by row, and reads the qrels again for every run; it takes dictionaries as they are. So
    the figures are its own, at about a third of the time.

    Args:
        qrels: ``qid``, ``docno``, ``label``; they alone define the turns.
        measures: what to compute.

    Attributes:
        turns: the qids of the qrels, in their order.

    Raises:
        DataError: when the qrels are not clean.

    Example:
        >>> from ir_measures import nDCG
        >>> scorer = Scorer(pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]}), [nDCG @ 5])
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> scorer.per_turn(scorer.ranking("one", run)).to_dict()
        {'nDCG@5': {'1_1': 1.0, '1_2': 0.0}}
    """

    def __init__(self, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure]) -> None:
        judged = check_qrels(qrels)
        self.measures = list(measures)
        self.turns = judged["qid"].drop_duplicates().tolist()
        self._evaluator = ir_measures.evaluator(self.measures, _by_turn(judged, "label"))

    def ranking(self, name: str, run: pd.DataFrame) -> pd.DataFrame:
        """The run in order, with scores that strictly decrease.

        Raises:
            UsageError: when a column is missing.
            DataError: when the run is not clean, an id is no text, or its turns are named with hyphens.
        """
        missing = [column for column in RANKING if column not in run.columns]
        if missing:
            raise UsageError(
                f"run {name} has no {', '.join(missing)} (it has {', '.join(map(str, run.columns))}): give a ranking, such as "
                "read_run(path) returns; ranks come from pt.model.add_ranks(run)"
            )
        run = with_text_ids(f"run {name}", run)
        check_form(f"run {name}", run["qid"].unique(), self.turns)
        try:
            return strictly_decreasing(run[list(RANKING)])
        except DataError as error:
            raise DataError(f"run {name}: {error}") from error

    def per_turn(self, ranking: pd.DataFrame) -> pd.DataFrame:
        """A row per turn of the qrels (index ``qid``), a column per measure; a turn that the ranking lacks has zeros."""
        judged = ranking[ranking["qid"].isin(self.turns)]
        found: dict[ir_measures.Measure, dict[str, Any]] = {measure: {} for measure in self.measures}
        for metric in self._evaluator.iter_calc(_by_turn(judged, "score")):
            found[metric.measure][metric.query_id] = metric.value
        columns = {label(measure): [values[turn] for turn in self.turns] for measure, values in found.items()}
        return pd.DataFrame(columns, index=pd.Index(self.turns, name="qid", dtype=object))


def _by_turn(frame: pd.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    by_turn: dict[str, dict[str, Any]] = {}
    for qid, docno, value in zip(frame["qid"].tolist(), frame["docno"].tolist(), frame[column].tolist(), strict=True):
        by_turn.setdefault(qid, {})[docno] = value
    return by_turn
