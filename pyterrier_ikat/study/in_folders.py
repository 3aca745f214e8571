"""Run systems with a folder for each, which resumes and keeps the ranking, turns, scores and ledger."""

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd

from ..arguments import checked
from ..chains import in_chain
from ..conversations.choice import QrelsSource, Turns
from ..conversations.datasets import IkatDataset
from ..errors import UsageError, advice
from ..evaluation import TRACK_2023, as_measures
from ..evaluation.evaluator import check_baseline
from ..llms import Ledger
from ..llms.failures import UnderWay
from ..operator import alike
from ..progress import within
from ..runs import RunFolder
from ..runs.turns import checksum_of
from ..store.locks import lock_folders
from .account import Spending
from .batches import Batches
from .scores import TurnScores, score_again, scores_of_folders
from .study import Study
from .systems import System, Systems, distinct_models, methods_in

TURNS_AT_ONCE = 128
"""The number of turns retrieved and re-ranked at a time: with 5 queries of 1000 passages each, 640,000 rows."""


class NotJudgedWarning(UserWarning):
    """No turn has a judgement, so there are no scores."""


class AlikeWarning(UserWarning):
    """A stored run was made by a stage whose repr doesn't identify it, so that the stage may have changed."""


@checked
def run(
    systems: Systems,
    dataset: IkatDataset | str | None = None,
    *,
    out: str | Path = "runs",
    topics: pd.DataFrame | None = None,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    batch: int | None = None,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
    baseline: str | None = None,
    samples: int = 1,
    **resources: Any,
) -> pd.DataFrame:
    """Run systems on a dataset. Each gets a folder in ``out`` with its ranking, turns, scores and ledger, and an interrupted run resumes.

    An existing run is not repeated, and an interrupted run resumes after its last finished batch of turns. A folder whose run used other
    models, prompts, passages, topics or stages is refused. Stages are identified by their repr. When stored results of a stage are used
    again whose repr can't identify it, such as a function in ``pt.apply``, an ``AlikeWarning`` names the stage.

    Stages at the beginning of a pipeline with ``one_row_per_turn`` get all turns at once. The others, and all stages of other packages, get
    ``batch`` turns at a time, and must treat each turn independently.

    Args:
        systems: a dict name -> system, a single system, or a list of systems that have names. A system is the name of a method
            (``"aqd"``), a file of methods (``"my_systems.py"``, ``"my_systems.py:gate"``), a function whose arguments name resources, or
            any PyTerrier pipeline.
        dataset: an iKAT dataset or its name.
        out: the folder of the runs, by default ``runs``; nothing in it is overwritten.
        topics: the turns, instead of the dataset's; scores are over the judged turns among them.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels file.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        batch: the number of turns at a time after the first stages, 128 by default.
        measures: the measures of the returned table, from ir_measures or by name. The folders have the track's measures and these; a
            finished run is scored by those that its folder lacks.
        baseline: the system that the others are compared with.
        samples: the number of runs of each system that asks an LLM, each with its own completions. The first is the plain run, in the
            folder NAME; the others are in ``NAME.sample-2``, ``NAME.sample-3``, ...
        **resources: the resources of methods, each as text or as an object: ``index``, ``llm``, ``second_llm``, ``retriever``, ``dense``,
            ``reranker``, ``rewriter``, ``expander``, ``prompts``; see :class:`~pyterrier_ikat.study.Resources`.

    Returns:
        The table of scores, as from :func:`pyterrier_ikat.experiment`, or with several samples as from
        :func:`~pyterrier_ikat.evaluation.sampled_rows`; only the names if no turn is judged. The rankings are
        ``ikat.runs.RunFolder(f"{out}/{name}").results()``.

    Raises:
        UsageError: before anything is run: for an unknown system, option, turn or resource, a resource that no system uses, a model that
            can't be loaded, a folder that isn't writable or holds another run, or a run that another process is making.
        DataError: for an index or file that can't be used, or an invalid ranking.
        BatchUnderWay: when systems wait for an LLM's batches (``batch=on``); all others are finished. Run it again later.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> index = ikat.PassageIndex("run.index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
        >>> mine = ikat.AllUtterances() >> index.bm25(num_results=20)
        >>> ikat.run({"mine": mine, "raw": "raw"}, "ikat:sample", out="my-runs", index=index)["name"].tolist()
        ['mine', 'raw']
    """
    wanted = as_measures(measures)
    methods = methods_in(systems)
    check_places([entry.name for entry in methods], Path(out))
    check_baseline([entry.name for entry in methods], baseline, "systems")
    study = Study(methods, dataset, topics=topics, qrels=qrels, turns=turns, samples=samples, **resources)
    folders = run_in_folders(study, out, batch, wanted)
    return scores_of_folders(folders, study.qrels, wanted, baseline, study.groups())


def run_in_folders(
    study: Study, out: str | Path, batch: int | None = None, measures: Sequence[ir_measures.Measure] = ()
) -> dict[str, RunFolder]:
    """Run every system without a finished run in its folder; a finished run gets the scores that it lacks.

    Args:
        study: the systems and what they run on.
        out: the folder of the runs.
        batch: the number of turns at a time.
        measures: what the runs are scored by beside the track's measures.

    Raises:
        UsageError: before anything is run, when a folder can't be written to, or holds another run or finished batches of another one, or
            another process is making one of the runs.
        BatchUnderWay: when systems wait for an LLM's batches; all others are finished.
    """
    size = TURNS_AT_ONCE if batch is None else batch
    if size < 1:
        what = advice(f"batch={batch}", f"--batch {batch}")
        raise UsageError(f"{what}: do at least one turn at a time, or omit it for {TURNS_AT_ONCE}")
    check_places([one.name for one in study.systems], Path(out))
    folders = {one.name: RunFolder(Path(out) / one.name) for one in study.systems}
    if not set(study.qrels["qid"]) & study.asked:
        text = f"none of the turns is judged in the qrels of {study.dataset}: there will be no scores"
        warnings.warn(text, NotJudgedWarning, stacklevel=3)
    with lock_folders(*(folder.path for folder in folders.values())), ExitStack() as counted:
        for model in distinct_models(study.systems):
            counted.enter_context(model.budget.counting(Spending(Path(out))))
        for ledger in _ledgers(study.systems):
            if ledger is not study.ledger:
                counted.enter_context(ledger.followed_by(study.ledger))
        found = [(one, folders[one.name], *_begun(study, one, folders[one.name])) for one in study.systems]
        under_way = UnderWay()
        for number, (one, folder, batches, finished) in enumerate(found, 1):
            if finished:
                batches.remove()  # a run that was killed after its last step left them
                score_again(folder, study.qrels, measures)
                continue
            where = f"{one.name} ({number} of {len(folders)})" if len(folders) > 1 else one.name
            with in_chain(one.sample - 1), under_way.noted(), within(where):
                _run_one(study, one, folder, batches, size, measures)
        under_way.tell()
    return folders


def check_places(names: Iterable[str], out: Path) -> None:
    """Check that each system's folder can be made, without making it.

    Raises:
        UsageError: when a name can't be a folder's name, or ``out`` can't be written to.
    """
    for name in names:
        if Path(name).name != name or name.startswith("."):
            raise UsageError(f"a system is named {name!r}: a name is a text that can be a folder's, without slash or leading dot")
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists() or folder.is_symlink())
    written = advice(f"out={str(out)!r}", f"--out {out}")
    if not there.is_dir():
        raise UsageError(f"{written}: {there} is no folder: give a folder, or a path where nothing is")
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".ikat."):
            pass
    except OSError as error:
        raise UsageError(f"{written}: {there} can't be written to ({error.strerror}): give another folder") from None


def parameters(study: Study, system: System) -> dict[str, Any]:
    """The identity of a run: a run is reused only when all of it is the same, or only ``on_error`` is more lenient than before."""
    topics = study.turns_of(system)
    about = {"method": system.method.name, "turns": len(topics), "topics_sha256": checksum_of(topics)}
    if system.sample > 1:
        about["sample"] = system.sample
    if study.dataset is not None and not Path(study.dataset).is_absolute():  # of a folder the topics count, not where it lies
        about["dataset"] = study.dataset
    return about | system.parameters()


def _begun(study: Study, system: System, folder: RunFolder) -> tuple[Batches, bool]:
    """The finished batches of a run, and whether it exists already; the folder of another run is refused."""
    known = parameters(study, system)
    batches = Batches(folder, known)
    finished, begun = folder.reusable(known), batches.check()
    if (finished or begun) and (stages := alike(system.pipeline)):
        name, where = folder.path.name, folder.path if finished else batches.path
        warnings.warn(
            f"system {name} uses what is kept in {where}, and its stage {', '.join(stages)} may be another one now: if it is, remove the "
            "folder; a class with a __repr__ that shows what it does is told apart",
            AlikeWarning,
            stacklevel=5,
        )
    return batches, finished


def _run_one(study: Study, system: System, folder: RunFolder, batches: Batches, size: int, measures: Sequence[ir_measures.Measure]) -> None:
    topics, scores = study.turns_of(system), TurnScores(study.qrels, measures)
    batches.run(system.pipeline, topics, _ledgers([system]), size)
    ledger = batches.ledger()
    about = batches.parameters | {"deviations": list(system.deviations), "served": ledger.served()}
    if study.dataset is not None:
        about["dataset"] = study.dataset
    folder.write_parts(
        scores.add_all(batches.parts(topics)),
        lambda: (scores.frame(), about | scores.about()),
        ledger.frame(),
        batches.stages(),
        system.name,
    )
    batches.remove()


def _ledgers(systems: Iterable[System]) -> list[Ledger]:
    """The ledgers of the models, each once."""
    return list({id(model.ledger): model.ledger for model in distinct_models(systems)}.values())
