"""Run each system into a folder, which keeps the ranking, turns, scores and ledger, and from which a run resumes."""

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures

from ..errors import UsageError, advice, counted
from ..events import in_chain
from ..llms import Ledger
from ..llms.failures import UnderWay
from ..operator import alike
from ..progress import doing
from ..runs import RunFolder
from ..runs.run_files import checksum_of
from ..store.locks import lock_folders
from .account import Spending
from .batches import Batches
from .results import TurnScores, score_again
from .systems import System, distinct_models

if TYPE_CHECKING:
    from .study import Study

TURNS_AT_ONCE = 128
"""The number of turns retrieved and re-ranked at a time: with 5 queries of 1000 passages each, 640,000 rows."""


class NotJudgedWarning(UserWarning):
    """No turn has a judgement, so there are no scores."""


class AlikeWarning(UserWarning):
    """A stored run was made by a stage whose repr doesn't identify it, so that the stage may have changed."""


def run_in_folders(
    study: "Study",
    out: str | Path,
    batch: int | None = None,
    measures: Sequence[ir_measures.Measure] = (),
) -> dict[str, RunFolder]:
    """Run every system without a finished run in its folder. A finished run gets its missing scores.

    Args:
        study: the systems, and the data and resources that they run on.
        out: the folder of the runs.
        batch: the number of turns at a time.
        measures: the measures of the runs in addition to the track's.

    Raises:
        UsageError: before anything is run, when a folder can't be written to, or holds another run or finished batches of another run, or
            another process is making one of the runs.
        BatchUnderWay: when systems wait for an LLM's batches. All others are finished.
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
    with lock_folders(*(folder.path for folder in folders.values())), ExitStack() as spending:
        for model in distinct_models(study.systems):
            spending.enter_context(model.budget.counting(Spending(Path(out))))
        for ledger in _ledgers(study.systems):
            if ledger is not study.ledger:
                spending.enter_context(ledger.followed_by(study.ledger))
        found = [(one, folders[one.name], *_begun(study, one, folders[one.name])) for one in study.systems]
        under_way = UnderWay()
        for number, (one, folder, batches, finished) in enumerate(found, 1):
            if finished:
                batches.remove()  # left by a run that was killed after its last step
                score_again(folder, study.qrels, measures)
                continue
            where = f"{one.name} ({number} of {len(folders)})" if len(folders) > 1 else one.name
            with in_chain(one.repeat - 1), under_way.noted(), doing(where) as shown:
                _run_one(study, one, folder, batches, size, measures)
                shown.report(counted(len(study.turns_of(one)), "turn"))
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
        raise UsageError(f"{written}: {there} is not a folder: give a folder, or a new path")
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".ikat."):
            pass
    except OSError as error:
        raise UsageError(f"{written}: {there} can't be written to ({error.strerror}): give another folder") from None


def parameters(study: "Study", system: System) -> dict[str, Any]:
    """The identity of a run. A run is reused only if all of it is the same, or if only ``on_error`` is more lenient than before."""
    topics = study.turns_of(system)
    about = {"method": system.method.name, "turns": len(topics), "topics_sha256": checksum_of(topics)}
    if system.repeat > 1:
        about["repeat"] = system.repeat
    if study.dataset is not None and not Path(study.dataset).is_absolute():  # for a folder the topics count, not its location
        about["dataset"] = study.dataset
    return about | system.parameters()


def _begun(study: "Study", system: System, folder: RunFolder) -> tuple[Batches, bool]:
    """The finished batches of a run, and whether it exists already. The folder of another run is an error."""
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


def _run_one(
    study: "Study", system: System, folder: RunFolder, batches: Batches, size: int, measures: Sequence[ir_measures.Measure]
) -> None:
    topics, scores = study.turns_of(system), TurnScores(study.qrels, measures)
    batches.run(system.pipeline, topics, _ledgers([system]), size)
    ledger = batches.ledger()
    about = batches.parameters | {"deviations": list(system.deviations), "served": ledger.served()}
    if sources := sorted({model.backend.source for model in system.models} - {""}):
        about["sources"] = sources
    if study.dataset is not None:
        about["dataset"] = study.dataset
    folder.write_parts(
        scores.add_all(batches.parts()),
        lambda: (scores.frame(), about | scores.about()),
        ledger.frame(),
        batches.stages(),
    )
    batches.remove()


def _ledgers(systems: Iterable[System]) -> list[Ledger]:
    """The ledgers of the models, each once."""
    return list({id(model.ledger): model.ledger for model in distinct_models(systems)}.values())
