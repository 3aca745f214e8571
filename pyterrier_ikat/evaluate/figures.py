"""The figures of runs turn by turn, in one pass: qrels and measures are made ready once, then each run is one dictionary."""

from collections.abc import Sequence

import ir_measures
import pandas as pd

from ..conversations.frame import starts_of_runs
from ..errors import DataError, UsageError
from ..runs import trec_eval_order
from .measures import label
from .providers import Rankings, calculators
from .qrels import check_qrels
from .same_turns import check_form
from .text_ids import with_text_ids

RANKING = ("qid", "docno", "score", "rank")


class Scorer:
    """Qrels and measures, ready for any number of runs.

    A run is scored as ``trec_eval -c`` does: its scores as 32-bit floats make the order, ties are ordered by docno (descending),
    ranks don't count, and a turn of the qrels that it lacks has zeros. Measures that ir_measures takes from elsewhere see that
    same order. ir_measures takes a frame row by row, and reads the qrels again for every run; it takes dictionaries as they are.
    So the figures are its own, at about a third of the time.

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
        by_turn: dict[str, dict[str, int]] = {}
        for qid, docno, grade in zip(judged["qid"].tolist(), judged["docno"].tolist(), judged["label"].tolist(), strict=True):
            by_turn.setdefault(qid, {})[docno] = grade
        self.turns = list(by_turn)
        self._calculators = calculators(self.measures, by_turn)

    def ranking(self, name: str, run: pd.DataFrame) -> pd.DataFrame:
        """The run in the order of :func:`~pyterrier_ikat.runs.trec_eval_order`.

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
            return trec_eval_order(run[list(RANKING)])
        except DataError as error:
            raise DataError(f"run {name}: {error}") from error

    def per_turn(self, ranking: pd.DataFrame) -> pd.DataFrame:
        """A row per turn of the qrels (index ``qid``), a column per measure; a turn that the ranking lacks has zeros.

        Raises:
            DataError: when a measure can't be computed on this run.
        """
        wanted = set(self.turns)
        run: Rankings = {qid: (docnos, scores) for qid, docnos, scores in _turns(ranking) if qid in wanted}
        found = {measure: figures for calculate in self._calculators for measure, figures in calculate(run).items()}
        columns = {label(measure): [found[measure].get(turn, 0.0) for turn in self.turns] for measure in self.measures}
        return pd.DataFrame(columns, index=pd.Index(self.turns, name="qid", dtype=object))


def _turns(ranking: pd.DataFrame) -> list[tuple[str, list[str], list[float]]]:
    """The turns of a ranking, whose rows stand together: each one's qid, docnos and scores."""
    qids, docnos, scores = ranking["qid"].to_numpy(dtype=object), ranking["docno"].tolist(), ranking["score"].tolist()
    starts = starts_of_runs(qids).tolist()
    bounds = zip(starts, [*starts[1:], len(docnos)], strict=False)
    return [(qids[start], docnos[start:end], scores[start:end]) for start, end in bounds]
