"""Run each system into a folder, in batches of turns: a killed run repeats at most one batch, and pays for nothing twice.

:mod:`pyterrier_ikat.runs.folder` describes the files.
"""

import json
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd

from ..conversations.frame import column
from ..errors import DataError, IkatError, UsageError, counted, list_first
from ..evaluation import TRACK_2023, as_measures, label
from ..evaluation.evaluator import SAME_COLLECTION, SAME_FORM, Evaluator, computable, provider_of
from ..evaluation.evaluator import NotJudgedWarning as NotJudgedWarning  # also exported from here
from ..events import in_chain, observed_by
from ..llms import BudgetExceeded, Ledger
from ..llms.failures import BatchUnderWay, Waiting
from ..operator import alike, face, stages, without_unread_texts
from ..order import scores_by_turn, strictly_decreasing
from ..progress import bar, doing
from ..runs import RunFolder
from ..runs.folder import (
    COSTS,
    RANKING,
    STAGES,
    TURNS,
    check_same,
    checksum_of,
    describe_difference,
    read_parameters,
    versions,
    write_parameters,
)
from ..runs.run_file import run_lines
from ..runs.turn_lines import turn_lines
from ..store.files import atomic_write, lock_folders, read_lines
from ..store.trec import read_rankings
from .recorder import REST, Account, Recorder, Shown, Spending, ledger_of
from .study import Study
from .systems import System, check_ranking, distinct_models
from .turns import batches

TURNS_AT_ONCE = 128
"""The number of turns retrieved and re-ranked at a time: with 5 queries of 1000 passages each, 640,000 rows."""


WRITTEN = "written to during the run"
"""Instead of the checksum of files that a stage changed while it ran: they can't tell one run from another."""


class AlikeWarning(UserWarning):
    """A stored run was made by a stage whose repr, or a model whose name, doesn't identify it, so that it may have changed."""


def is_unanswered(turn: Mapping[str, Any]) -> bool:
    """Whether a turn found no passage, so that its response is an abstention."""
    return turn["passages"] == 0 and "response" in turn


def note_of_abstention(qids: Sequence[str], abstention: str) -> str:
    """The note on the turns without passages in a run whose system responds."""
    return f"{counted(len(qids), 'turn')} without any passage, answered {abstention!r}: {list_first(qids)}"


class SystemFailed(IkatError):
    """Some systems failed, and each of the others is finished.

    Attributes:
        failed: the errors, by name.
    """

    def __init__(self, failed: Mapping[str, Exception]) -> None:
        told = [
            f"{name} failed: {'' if isinstance(one, IkatError) else f'{type(one).__name__}: '}{one}"
            for name, one in failed.items()
        ]
        super().__init__(f"{'; '.join(told)}. What is finished is kept: run again after the repair")
        self.failed = failed


def run_in_folders(
    study: Study,
    out: str | Path,
    turns_at_once: int | None = None,
    measures: Sequence[ir_measures.Measure] = (),
) -> dict[str, "Run"]:
    """Run every system without a finished run in its folder, and score all runs.

    Args:
        study: the systems, and the data and resources that they run on.
        out: the folder of the runs.
        turns_at_once: the number of turns at a time.
        measures: the measures of the runs in addition to the track's.

    Raises:
        UsageError: before anything is run, when a folder holds another run or finished batches of
            another run, or another process is making one of the runs.
        SystemFailed: when one of several systems failed. All others are finished.
        BudgetExceeded, OSError: when the budget is spent, or a file or folder can't be written: at
            once.
        BatchUnderWay: when systems wait for an LLM's batches. All others are finished.
    """
    size, out = TURNS_AT_ONCE if turns_at_once is None else turns_at_once, Path(out)
    if size < 1:
        raise UsageError(
            f"turns_at_once={turns_at_once}: do at least one turn at a time, or omit it for {TURNS_AT_ONCE}"
        )
    if not set(study.qrels["qid"]) & study.asked:
        where = "" if study.dataset is None else f" in the qrels of {study.dataset}"
        warnings.warn(
            f"none of the turns is judged{where}: there will be no scores", NotJudgedWarning, 3
        )
    done, failed, waiting, now = dict[str, Run](), dict[str, Exception](), list[Waiting](), Ledger()
    models = distinct_models(study.systems)
    with lock_folders(*(out / one.name for one in study.systems)), ExitStack() as following:
        for ledger in {model.ledger for model in models}:
            following.enter_context(ledger.followed_by(now))
            if ledger is not study.ledger:  # which counts all calls
                following.enter_context(ledger.followed_by(study.ledger))
        if limited := [model.budget for model in models if model.budget.limit is not None]:
            spending = Spending(out, now)  # what the folder has cost counts, too
            for budget in limited:
                following.enter_context(budget.counting(spending))
        runs = [Run(study, one, out) for one in study.systems]
        for number, one in enumerate(runs, 1):
            name = one.system.name
            try:
                where = f"{name} ({number} of {len(runs)})" if len(runs) > 1 else name
                with in_chain(one.system.repeat - 1), doing(where) as shown:
                    one.complete(size, measures)
                    done[name] = one
                    shown.report(counted(len(one.turns.ids), "turn"))
            except BatchUnderWay as error:
                waiting += error.waiting
            except (
                BudgetExceeded,
                OSError,
            ):  # the next system could not be paid for, or not be written
                raise
            except Exception as error:
                if len(runs) == 1:
                    raise
                failed[name] = error
    if failed:
        raise SystemFailed(failed) from next(iter(failed.values()))
    if waiting:
        raise BatchUnderWay(waiting)
    return done


class Run:
    """The run of a system into its folder, checked against what is there.

    Args:
        study: the topics and the judgements.
        system: the system.
        out: the folder of the runs.

    Attributes:
        known: the identity of the run. It is reused only if all of this is the same, or if only
            ``on_error`` is more lenient than before.
        finished: whether the folder has this run already.
        found: the turns with passages, once it is complete.
        scores: measure -> a score for each turn of the qrels, in their order, once it is complete.

    Raises:
        UsageError: when the folder holds another run, finished batches of another run or made with
            other versions, or anything else.
        DataError: when its ranking was changed, or its batches don't say what they were made with.
    """

    def __init__(self, study: Study, system: System, out: Path) -> None:
        self.study, self.system, self.turns = study, system, study.turns_of(system)
        self.folder = RunFolder(out / system.name)
        self.path = self.folder.partial
        self.about = {} if study.dataset is None else {"dataset": study.dataset}
        self.known = self._identity()
        self.found, self.scores = set[str](), dict[str, list[float]]()
        begun = not self.folder.complete and bool(self.folder.pieces(TURNS))
        written = []
        if self.folder.complete:
            written = self._accept_written(self.folder.parameters())
        elif begun:
            written = self._accept_written(read_parameters(self.path))
        self.finished = self.folder.reusable(self.known)
        if begun:
            check_same(
                self.path, "finished batches of a run", self.known | {"versions": versions()}
            )
        if self.finished or begun:
            self._tell_what_may_differ(written)

    def _identity(self) -> dict[str, Any]:
        system = self.system
        known = {
            "method": system.method.name,
            "turns": len(self.turns.ids),
            "topics_sha256": checksum_of(self.turns.frame),
        }
        if system.repeat > 1:
            known["repeat"] = system.repeat
        if not Path(
            self.study.dataset or ""
        ).is_absolute():  # for a folder the topics count, not its location
            known |= self.about
        return known | system.parameters()

    def _accept_written(self, kept: Mapping[str, Any]) -> list[str]:
        """Take over which files were written to during the run that is kept, and return them: they no longer identify it."""
        parts = kept.get("parts", {})
        written = [
            name for name in sorted(self.system.may_be_written) if parts.get(name) == WRITTEN
        ]
        for name in written:
            self.known["parts"][name] = WRITTEN
        return written

    def _tell_what_may_differ(self, written: Iterable[str]) -> None:
        unknown = [f"stage {one}" for one in alike(self.system.pipeline)]
        unknown += [
            f"model {one.backend.model}" for one in self.system.models if not one.backend.identified
        ]
        unknown += [f"file {path}, {WRITTEN}," for path in written]
        if unknown:
            where = self.folder.path if self.finished else self.path
            named = ", ".join(dict.fromkeys(unknown))
            told = f"system {self.system.name} uses what is kept in {where}, and its {named} may be another one now"
            repair = "if it is, remove the folder; a class with a __repr__ that shows what it does, an index that names its files, and a"
            warnings.warn(
                f"{told}: {repair} model with an identity, are told apart",
                AlikeWarning,
                stacklevel=6,
            )

    def complete(self, size: int, measures: Sequence[ir_measures.Measure]) -> None:
        """Make the run in batches of ``size`` turns, and score it. A finished one gets the scores that its folder lacks.

        Raises:
            DataError: when none of its passages is judged, although turns are. The run is finished,
                without scores.
        """
        judged = {"qrels_sha256": checksum_of(self.study.qrels)}
        ranking = self.folder.ranking() if self.finished else self._made(size)
        # The track's measures, those in the folder and the given ones. A user's own aren't stored:
        # they may change under the same name.
        kept = computable(self._measures_kept())
        wanted, labels = as_measures([*TRACK_2023, *kept, *measures]), self.study.labels
        self.found = set(ranking)
        self.scores = {label(one): [] for one in wanted}
        unlike, other_form = "", ""
        if labels:
            evaluator = Evaluator(labels, wanted)
            other_form = evaluator.of_other_form(ranking)
            unlike = other_form or evaluator.without_judged(ranking)
            if (
                unlike
                and not other_form
                and self.study.is_of_judged_collection(self.system, ranking)
            ):
                unlike = ""
            if unlike:
                labels = {}  # the results are kept, without scores, which would say nothing
            else:
                self.scores = evaluator.per_turn(self.system.name, ranking)
        stored = {
            label(one): self.scores[label(one)]
            for one in wanted
            if provider_of(one) is not ir_measures.runtime
        }
        self._store(pd.DataFrame({"qid": column(labels), **stored}), judged)
        if unlike:
            repair = SAME_FORM if other_form else f"{SAME_COLLECTION} as qrels"
            told = f"system {self.system.name}: {unlike}, so that every score would be 0"
            raise DataError(f"{told}: {repair}. The run is in {self.folder.path}")

    def _measures_kept(self) -> list[str]:
        """The measures of a finished run; none where its file is not there, or was cut."""
        try:
            return list(self.folder.measures().columns) if self.finished else []
        except DataError:
            return []

    def _store(self, scores: pd.DataFrame, judged: Mapping[str, Any]) -> None:
        """Finish the folder, or renew the scores of a finished one."""
        if self.finished:
            self.folder.describe(scores, {**self.folder.parameters(), **judged})
            shutil.rmtree(self.path, ignore_errors=True)  # left by a kill
            return
        ledger = ledger_of(self.folder)
        sources = sorted({model.backend.source for model in self.system.models} - {""})
        about = self.known | {
            "versions": versions(),
            "deviations": list(self.system.deviations),
            "sources": sources,
        }
        about |= {"served": ledger.served(), **judged, **self.about}
        unanswered = [
            turn["qid"]
            for path in self.folder.pieces(TURNS)
            for _, turn in read_lines(path)
            if is_unanswered(turn)
        ]
        if unanswered:
            about["notes"] = [note_of_abstention(unanswered, self.system.abstention)]
        pieces = {
            kind: (path.read_bytes() for path in self.folder.pieces(kind))
            for kind in (RANKING, STAGES, TURNS)
        }
        self.folder.finish(pieces, scores, ledger.frame(), about)
        shutil.rmtree(self.path)

    def _made(self, size: int) -> dict[str, dict[str, float]]:
        """Run the turns that aren't finished, batch by batch. Returns the ranking of all turns."""
        write_parameters(self.path, self.known | {"versions": versions()})
        these = list(stages(without_unread_texts(self.system.pipeline)))
        # The stages before the first retrieval need little memory; the later ones run batch by
        # batch.
        before = list(takewhile(lambda stage: face(stage).one_row_per_turn, these))
        finished = {
            turn["qid"] for path in self.folder.pieces(TURNS) for _, turn in read_lines(path)
        }
        left = self.turns.left(finished)
        written = self.turns.frame.iloc[left].reset_index(drop=True)
        ranking = {
            qid: found
            for path in self.folder.pieces(RANKING)
            if path.stat().st_size
            for qid, found in read_rankings(path).items()
        }
        account, recorder = (
            Account(self.path / COSTS),
            Recorder(written["qid"].tolist(), self.system.written),
        )
        waiting = list[Waiting]()
        with ExitStack() as following:
            for ledger in {model.ledger for model in self.system.models}:
                following.enter_context(ledger.followed_by(account))
            count = following.enter_context(
                bar(total=len(self.turns.ids), initial=len(finished), unit="turn")
            )
            following.enter_context(observed_by(recorder, Shown()))
            for stage in before:
                written = stage.transform(written)
            for places in batches(left, size):
                turns = results = written.iloc[places].reset_index(drop=True)
                try:
                    for stage in these[len(before) :]:
                        results = stage.transform(results)
                except BatchUnderWay as error:
                    waiting += error.waiting
                    continue
                self._check_unchanged()  # else the batch isn't kept
                rest, account.rest = account.rest, Ledger()
                ranking |= self._keep(
                    left[places.start], turns, results, rest, recorder.take(turns["qid"].tolist())
                )
                count.update(len(turns))
        if waiting:
            raise BatchUnderWay(waiting)
        return ranking

    def _check_unchanged(self) -> None:
        """Check that all that the system uses is what the run began with. Files that a stage wrote itself are noted.

        Raises:
            DataError: when something was replaced.
        """
        now = self.system.parameters()
        written = [
            name
            for name in self.system.may_be_written
            if now["parts"][name] != self.known["parts"].get(name)
        ]
        if any(self.known["parts"].get(name) != WRITTEN for name in written):
            self.known["parts"].update(dict.fromkeys(written, WRITTEN))
            write_parameters(self.path, self.known | {"versions": versions()})
        now["parts"].update(dict.fromkeys(written, WRITTEN))
        if changed := describe_difference(self.known, now):
            what = f"what {self.system.name} uses was replaced or changed during its run"
            raise DataError(
                f"{what} ({changed}): put back what the run began with, or start the run again elsewhere"
            )

    def _keep(
        self, position: int, turns: pd.DataFrame, results: pd.DataFrame, rest: Ledger, stages: bytes
    ) -> dict[str, dict[str, float]]:
        """Keep a finished batch.

        Args:
            position: the position of its first turn among the turns of the run. Batches are joined
                in this order.
            turns: its turns, one row each, with the columns written before retrieval.
            results: the ranking, with the columns of the turns.
            rest: the counts since the previous batch that are not in ``costs.jsonl``.
            stages: the work of the stages.

        Returns:
            The ranking of its turns.
        """
        check_ranking(self.system.name, results.columns)
        strict = strictly_decreasing(results)
        pieces = {
            RANKING: "".join(run_lines(strict, self.system.name)).encode(),
            STAGES: stages,
            REST: json.dumps(rest.rows()).encode(),
            TURNS: "".join(
                turn_lines(turns, results, self.system.abstention)
            ).encode(),  # the last one: the batch is done
        }
        for kind, content in pieces.items():
            with atomic_write(self.path / f"{position:06d}.{kind}", "wb") as file:
                file.write(content)
        return scores_by_turn(strict)
