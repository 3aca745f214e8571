"""Compare systems in memory: a first stage shared by several systems runs once, and nothing is kept on disk."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pyterrier as pt

from ..conversations.choice import QrelsSource, Turns
from ..conversations.datasets import IkatDataset
from ..errors import DataError, UsageError, counted, list_first
from ..evaluation import TRACK_2023, as_measures
from ..evaluation.evaluator import check_baseline, check_common_turns, experiment_rows
from ..evaluation.finished_runs import ranking_of
from ..evaluation.scores import make_evaluator
from ..events import in_chain, observed_by
from ..llms.failures import UnderWay
from ..operator import frame_for, stages, without_texts_unread_by_all
from ..progress import doing
from .recorder import Shown
from .results import ScoreTable
from .study import Study
from .systems import Given, methods_in

Keep = Callable[[str, pd.DataFrame], None]


def experiment(
    systems: Given | Mapping[str, Given | pd.DataFrame] | Sequence[Given | pd.DataFrame],
    dataset: IkatDataset | str | Path | None = None,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
    baseline: str | None = None,
    *,
    topics: pd.DataFrame | None = None,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    **resources: Any,
) -> pd.DataFrame:
    """Run systems on the judged turns in memory and compare them as TREC does. :func:`pyterrier_ikat.run` does so with folders.

    A first stage shared by several systems runs once. Turns without judgements are not run. Means are over all turns of the qrels. A turn
    for which a system finds nothing counts 0. The order is that of the ranks, as in :func:`pyterrier_ikat.run`: tied scores are lowered by
    the smallest possible step.

    Args:
        systems: as for :func:`pyterrier_ikat.run`; a dict may also contain finished runs (result frames).
        dataset: an iKAT dataset or its name.
        measures: ir_measures measures, or their names.
        baseline: the system that the others are compared with: two-sided paired t-test, Bonferroni.
        topics: the turns, instead of the dataset's: ``get_topics("manual")`` for pipelines that use gold fields.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels file.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        **resources: as for :func:`pyterrier_ikat.run`. With ``repeats``, each run of a system is a row.

    Returns:
        PyTerrier's experiment table: see :func:`~pyterrier_ikat.evaluation.evaluate`. Notes below it say how methods differ from their
        papers: another model, no re-ranker, fewer passages.

    Raises:
        UsageError: before anything is run, for invalid names, baseline, measures, files or options, or systems that don't make a ranking.
        DataError: when topics, qrels or a ranking are invalid, or don't fit each other.
        BatchUnderWay: when systems wait for an LLM's batches (``batch=on``); all batches are sent. Run it again later.

    Example:
        >>> topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "never judged"]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> find_a = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))
        >>> experiment({"always a": find_a}, measures=["R@20"], topics=topics, qrels=qrels).values.tolist()
        [['always a', 0.5, 2]]
    """
    wanted, methods = as_measures(measures), methods_in(_with_finished(systems))
    if dataset is None and (topics is None or qrels is None):
        raise UsageError('there is nothing to run or evaluate on: give a dataset such as "ikat:sample", or topics=... and qrels=...')
    study = Study(methods, dataset, topics=topics, qrels=qrels, turns=turns, **resources)
    names = [one.name for one in study.systems]
    check_baseline(names, baseline, "systems")
    if study.unasked:
        raise DataError(
            f"{counted(len(study.unasked), 'turn')} of the qrels not in the topics ({list_first(study.unasked)}), which would count "
            '0; give the topics they belong to, or omit them with qrels[qrels["qid"].isin(topics["qid"])]'
        )
    evaluator, scores, under_way = make_evaluator(study.qrels, wanted), dict[str, dict[str, list[float]]](), UnderWay()

    def keep(name: str, found: pd.DataFrame) -> None:
        if len(found) == 0:
            raise DataError(f"system {name} found no passage for any turn: look at what its first stages give")
        check_common_turns(f"system {name}", found["qid"].unique(), evaluator.turns)
        scores[name] = evaluator.per_turn(name, ranking_of(name, found))

    for one in study.systems:
        if isinstance(one.pipeline, _Finished):
            keep(one.name, one.pipeline.frame)
    left = [one for one in study.systems if one.name not in scores]
    for manual, repeat in sorted({(one.method.manual, one.repeat) for one in left}):  # they differ in turns or completions
        of_kind = [one for one in left if (one.method.manual, one.repeat) == (manual, repeat)]
        together = without_texts_unread_by_all({one.name: one.pipeline for one in of_kind})
        asked = study.turns_of(of_kind[0])
        asked = asked[asked["qid"].isin(study.qrels["qid"])].reset_index(drop=True)
        with in_chain(repeat - 1), doing(", ".join(together)), observed_by(Shown()):
            _run_together({name: list(stages(one)) for name, one in together.items()}, asked, keep, under_way)
    under_way.tell()
    return ScoreTable.of(pd.DataFrame(experiment_rows({name: scores[name] for name in names}, wanted, baseline)), study.systems)


def _run_together(systems: Mapping[str, Sequence[pt.Transformer]], frame: pd.DataFrame, keep: Keep, under_way: UnderWay) -> None:
    """Run the stages of each system on a frame, and pass on its result. A first stage that several systems share runs once."""
    shared: list[tuple[pt.Transformer, dict[str, Sequence[pt.Transformer]]]] = []
    for name, (first, *rest) in systems.items():
        later = next((later for stage, later in shared if stage == first), None)
        if later is None:
            shared.append((first, later := {}))
        later[name] = rest
    for stage, later in shared:
        with under_way.noted():  # the other systems also send their batches today
            found = stage.transform(frame_for(stage, frame))
            for name in [name for name, rest in later.items() if not rest]:
                keep(name, found)
            _run_together({name: rest for name, rest in later.items() if rest}, found, keep, under_way)


def _with_finished(systems: Any) -> Any:
    """The systems, with finished runs as systems."""
    if not isinstance(systems, Mapping):
        return systems
    return {name: _Finished(system) if isinstance(system, pd.DataFrame) else system for name, system in systems.items()}


class _Finished(pt.Transformer):
    """A finished run as a system."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self.frame = frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        return self.frame
