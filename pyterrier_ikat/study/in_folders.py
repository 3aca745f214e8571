"""Run each system into a folder, which keeps the ranking, turns, scores and ledger, and from which a run resumes."""

import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures

from ..errors import IkatError, UsageError, advice, counted
from ..events import in_chain
from ..llms import BudgetExceeded, Ledger
from ..llms.failures import UnderWay
from ..operator import alike
from ..progress import doing
from ..runs import RunFolder
from ..runs.run_files import checksum_of
from ..store.locks import lock_folders
from .account import Spending, ledger_of
from .batches import Batches
from .results import Scored
from .systems import System, distinct_models

if TYPE_CHECKING:
    from .study import Study

TURNS_AT_ONCE = 128
"""The number of turns retrieved and re-ranked at a time: with 5 queries of 1000 passages each, 640,000 rows."""


class NotJudgedWarning(UserWarning):
    """No turn has a judgement, so there are no scores."""


class AlikeWarning(UserWarning):
    """A stored run was made by a stage whose repr doesn't identify it, so that the stage may have changed."""


class SystemFailed(IkatError):
    """Some systems failed. All others are finished.

    Attributes:
        failed: the errors, by name.
    """

    def __init__(self, failed: Mapping[str, Exception]) -> None:
        told = [f"{name} failed: {_reason(error)}" for name, error in failed.items()]
        super().__init__(f"the other systems are finished; {'; '.join(told)}")
        self.failed = failed


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, IkatError) else f"{type(error).__name__}: {error}"


def run_in_folders(
    study: "Study",
    out: str | Path,
    batch: int | None = None,
    measures: Sequence[ir_measures.Measure] = (),
) -> dict[str, Scored]:
    """Run every system without a finished run in its folder, and score all runs.

    Args:
        study: the systems, and the data and resources that they run on.
        out: the folder of the runs.
        batch: the number of turns at a time.
        measures: the measures of the runs in addition to the track's.

    Raises:
        UsageError: before anything is run, when a folder can't be written to, or holds another run or finished batches of another run, or
            another process is making one of the runs.
        SystemFailed: when one of several systems failed. All others are finished.
        BudgetExceeded, OSError: when the budget is spent, or a file can't be written: at once.
        BatchUnderWay: when systems wait for an LLM's batches. All others are finished.
    """
    size = TURNS_AT_ONCE if batch is None else batch
    if size < 1:
        raise UsageError(f"batch={batch}: do at least one turn at a time, or omit it for {TURNS_AT_ONCE}")
    check_places([one.name for one in study.systems], Path(out))
    if not set(study.qrels["qid"]) & study.asked:
        text = f"none of the turns is judged in the qrels of {study.dataset}: there will be no scores"
        warnings.warn(text, NotJudgedWarning, stacklevel=3)
    with lock_folders(*(Path(out) / one.name for one in study.systems)), _counting(study, Path(out)):
        begun = {one.name: _begun(study, one, Path(out)) for one in study.systems}
        done, failed, under_way = dict[str, Scored](), dict[str, Exception](), UnderWay()
        for number, one in enumerate(study.systems, 1):
            where = f"{one.name} ({number} of {len(begun)})" if len(begun) > 1 else one.name
            try:
                with in_chain(one.repeat - 1), under_way.noted(), doing(where) as shown:
                    done[one.name] = _run_one(study, one, begun[one.name], size, measures)
                    shown.report(counted(len(study.turns_of(one)), "turn"))
            except (BudgetExceeded, OSError):  # the next system could not be paid for, or not be written
                raise
            except Exception as error:
                if len(begun) == 1:
                    raise
                failed[one.name] = error
    if failed:
        raise SystemFailed(failed) from next(iter(failed.values()))
    under_way.tell()
    return done


@contextmanager
def _counting(study: "Study", out: Path) -> Iterator[None]:
    """Inside the block, the study's ledger counts all calls, and budgets count what the folder has cost, too."""
    now = Ledger()
    with ExitStack() as following:
        for ledger in _ledgers(study.systems):
            following.enter_context(ledger.followed_by(now))
            if ledger is not study.ledger:
                following.enter_context(ledger.followed_by(study.ledger))
        if limited := [model.budget for model in distinct_models(study.systems) if model.budget.limit is not None]:
            spending = Spending(out, now)
            for budget in limited:
                following.enter_context(budget.counting(spending))
        yield


def check_places(names: Iterable[str], out: Path) -> None:
    """Check that each system's folder can be made, without making it.

    Raises:
        UsageError: when a name can't be a folder's name, or ``out`` can't be written to.
    """
    for name in names:
        if Path(name).name != name or name.startswith("."):
            raise UsageError(f"a system is named {name!r}: a name is a text that can be a folder's, without slash or leading dot")
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists() or folder.is_symlink())
    try:
        tempfile.TemporaryDirectory(dir=there, prefix=".ikat.").cleanup()
    except OSError as error:
        why = f"can't be written to ({error.strerror})" if there.is_dir() else "is not a folder"
        raise UsageError(f"{advice(f'out={str(out)!r}', f'--out {out}')}: {there} {why}: give another folder") from None


def parameters(study: "Study", system: System) -> dict[str, Any]:
    """The identity of a run. A run is reused only if all of it is the same, or if only ``on_error`` is more lenient than before."""
    topics = study.turns_of(system)
    about = {"method": system.method.name, "turns": len(topics), "topics_sha256": checksum_of(topics)}
    if system.repeat > 1:
        about["repeat"] = system.repeat
    if study.dataset is not None and not Path(study.dataset).is_absolute():  # for a folder the topics count, not its location
        about["dataset"] = study.dataset
    return about | system.parameters()


def refusals(study: "Study", out: Path) -> Iterator[str]:
    """Why a run of these systems into a folder would be refused."""
    for one in study.systems:
        try:
            _begun(study, one, out)
        except IkatError as error:
            yield str(error)


def _begun(study: "Study", system: System, out: Path) -> tuple[Batches, bool]:
    """The finished batches of a run, and whether it exists already. The folder of another run is an error."""
    known, folder = parameters(study, system), RunFolder(out / system.name)
    batches, finished = Batches(folder, known), folder.reusable(known)
    if (finished or batches.check()) and (stages := alike(system.pipeline)):
        where = folder.path if finished else batches.path
        warnings.warn(
            f"system {system.name} uses what is kept in {where}, and its stage {', '.join(stages)} may be another one now: if it is, "
            "remove the folder; a class with a __repr__ that shows what it does is told apart",
            AlikeWarning,
            stacklevel=5,
        )
    return batches, finished


def _run_one(study: "Study", system: System, begun: tuple[Batches, bool], size: int, measures: Sequence[ir_measures.Measure]) -> Scored:
    """The run of a system, scored. A finished one gets the scores that its folder lacks."""
    (batches, finished), judged = begun, {"qrels_sha256": checksum_of(study.qrels)}
    folder = batches.folder
    if finished:
        shutil.rmtree(batches.path, ignore_errors=True)  # left by a kill
        scored = Scored.of(folder, folder.ranking(), study.qrels, measures)
        folder.describe(scored.kept(), folder.parameters() | judged, folder.path.name)
        return scored
    ranking = batches.run(system.pipeline, study.turns_of(system), _ledgers([system]), size)
    scored, ledger = Scored.of(folder, ranking, study.qrels, measures), ledger_of(folder)
    about = batches.parameters | {"deviations": list(system.deviations), "served": ledger.served()} | judged
    if sources := sorted({model.backend.source for model in system.models} - {""}):
        about["sources"] = sources
    if study.dataset is not None:
        about["dataset"] = study.dataset
    folder.finish(batches.joined(), scored.kept(), ledger.frame(), about)
    shutil.rmtree(batches.path)
    return scored


def _ledgers(systems: Iterable[System]) -> list[Ledger]:
    """The ledgers of the models, each once."""
    return list({id(model.ledger): model.ledger for model in distinct_models(systems)}.values())
