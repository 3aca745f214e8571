"""Run each system into a folder, in batches of turns.

A killed run repeats at most one batch, and pays for nothing twice.
:mod:`pyterrier_ikat.runs.folder` describes the files.
"""

import json
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from numbers import Integral
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
from ..operator import face, stages, unidentified_stages, without_unread_texts
from ..order import scores_by_turn, strictly_decreasing
from ..progress import bar, doing
from ..runs import RunFolder
from ..runs.folder import (
    COSTS_FILE,
    RANKING_FILE,
    STAGES_FILE,
    TURNS_FILE,
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
"""The number of turns retrieved and re-ranked at a time.

With 5 queries of 1000 passages each, these are 640,000 rows.
"""

WRITTEN = "written to during the run"
"""Instead of the checksum of files that a stage changed: they can't tell one run from another."""


class AlikeWarning(UserWarning):
    """A stored run can't be identified by the reprs of its stages and the names of its models."""


def is_unanswered(turn: Mapping[str, Any]) -> bool:
    """Return whether a turn found no passage, so that its response is an abstention."""
    return turn["passages"] == 0 and "response" in turn


def note_of_abstention(qids: Sequence[str], abstention: str) -> str:
    """Return the note on the turns without passages in a run whose system responds."""
    turns = counted(len(qids), "turn")
    return f"{turns} without any passage, answered {abstention!r}: {list_first(qids)}"


class SystemFailed(IkatError):
    """Some systems failed, and each of the others is finished.

    Attributes:
        failed: the errors, by name.
    """

    def __init__(self, failed: Mapping[str, Exception]) -> None:
        sentences = []
        for name, error in failed.items():
            kind = "" if isinstance(error, IkatError) else f"{type(error).__name__}: "
            sentences.append(f"{name} failed: {kind}{error}")
        super().__init__(
            f"{'; '.join(sentences)}. What is finished is kept: run again after the repair"
        )
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
        measures: the measures of the runs before the track's.

    Raises:
        UsageError: before anything is run, when a folder holds another run or finished batches of
            another run, or another process is making one of the runs.
        SystemFailed: when one of several systems failed. All others are finished.
        BudgetExceeded, OSError: when the budget is spent, or a file or folder can't be written: at
            once.
        BatchUnderWay: when systems wait for an LLM's batches. All others are finished.
    """
    out = Path(out)
    size = TURNS_AT_ONCE if turns_at_once is None else turns_at_once
    if not isinstance(size, Integral) or size < 1:  # else 2.5 would be all turns at a time
        raise UsageError(
            f"turns_at_once={turns_at_once}: do at least one turn at a time, a whole number, or "
            f"omit it for {TURNS_AT_ONCE}"
        )
    if not set(study.qrels["qid"]) & study.asked:
        where = "" if study.dataset is None else f" in the qrels of {study.dataset}"
        message = f"none of the turns is judged{where}: there will be no scores"
        warnings.warn(message, NotJudgedWarning, 3)
    folders = [out / system.name for system in study.systems]
    with lock_folders(*folders), ExitStack() as accounts:
        _count_costs(study, out, accounts)
        runs = [Run(study, system, out) for system in study.systems]
        return _complete_all(runs, size, measures)


def _count_costs(study: Study, out: Path, accounts: ExitStack) -> None:
    """Count calls in the study's ledger, and what the folder has cost before in all budgets."""
    now = Ledger()
    models = distinct_models(study.systems)
    for ledger in {model.ledger for model in models}:
        accounts.enter_context(ledger.followed_by(now))
        if ledger is not study.ledger:  # which counts all calls
            accounts.enter_context(ledger.followed_by(study.ledger))
    budgets = [model.budget for model in models if model.budget.limit is not None]
    if not budgets:
        return
    spending = Spending(out, now)
    for budget in budgets:
        accounts.enter_context(budget.counting(spending))


def _complete_all(
    runs: Sequence["Run"], size: int, measures: Sequence[ir_measures.Measure]
) -> dict[str, "Run"]:
    """Complete each run, also if another one fails or waits for a batch."""
    done: dict[str, Run] = {}
    failed: dict[str, Exception] = {}
    waiting: list[Waiting] = []
    for number, run in enumerate(runs, 1):
        name = run.system.name
        shown_name = f"{name} ({number} of {len(runs)})" if len(runs) > 1 else name
        try:
            with in_chain(run.system.repeat - 1), doing(shown_name) as shown:
                run.complete(size, measures)
                done[name] = run
                shown.report(counted(len(run.turns.ids), "turn"))
        except BatchUnderWay as error:
            waiting += error.waiting
        except (BudgetExceeded, OSError):  # the next system could not be paid for, or written
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
        identity: what the run was made with. It is reused only if all of this is the same, or if
            only ``on_error`` is more lenient than before.
        finished: whether the folder has this run already.
        answered: the turns with passages, once it is complete.
        scores: measure -> a score for each turn of the qrels, in their order, once it is complete.

    Raises:
        UsageError: when the folder holds another run, finished batches of another run or made with
            other versions, or anything else.
        DataError: when its ranking was changed, or its batches don't say what they were made with.
    """

    def __init__(self, study: Study, system: System, out: Path) -> None:
        self.study = study
        self.system = system
        self.turns = study.turns_of(system)
        self.folder = RunFolder(out / system.name)
        self.path = self.folder.partial
        self.about = {} if study.dataset is None else {"dataset": study.dataset}
        self.identity = self._identity()
        self.answered = set[str]()
        self.scores: dict[str, list[float]] = {}
        begun = not self.folder.complete and bool(self.folder.pieces(TURNS_FILE))
        written: list[str] = []
        if self.folder.complete:
            written = self._accept_written(self.folder.parameters())
        elif begun:
            written = self._accept_written(read_parameters(self.path))
        self.finished = self.folder.reusable(self.identity)
        if begun:
            made_with = self.identity | {"versions": versions()}
            check_same(self.path, "finished batches of a run", made_with)
        if self.finished or begun:
            self._warn_of_unidentified(written)

    def _identity(self) -> dict[str, Any]:
        identity = {
            "method": self.system.method.name,
            "turns": len(self.turns.ids),
            "topics_sha256": checksum_of(self.turns.frame),
        }
        if self.system.repeat > 1:
            identity["repeat"] = self.system.repeat
        dataset = self.study.dataset or ""
        if not Path(dataset).is_absolute():  # for a folder the topics count, not its location
            identity |= self.about
        return identity | self.system.parameters()

    def _accept_written(self, stored: Mapping[str, Any]) -> list[str]:
        """Return the files that were written to during the stored run: they don't identify it."""
        checksums = stored.get("parts", {})
        written = []
        for name in sorted(self.system.may_be_written):
            if checksums.get(name) == WRITTEN:
                self.identity["parts"][name] = WRITTEN
                written.append(name)
        return written

    def _warn_of_unidentified(self, written: Iterable[str]) -> None:
        unidentified = []
        for stage in unidentified_stages(self.system.pipeline):
            unidentified.append(f"stage {self.system.written(stage)}")
        for model in self.system.models:
            if not model.backend.identified:
                unidentified.append(f"model {model.backend.model}")
        unidentified += [f"file {path}, {WRITTEN}," for path in written]
        if not unidentified:
            return
        where = self.folder.path if self.finished else self.path
        names = ", ".join(dict.fromkeys(unidentified))
        warnings.warn(
            f"results of {self.system.name} are reused from {where}, but its {names} can't be "
            f"identified. If it changed, remove {where}. To avoid this, give the class of a stage "
            "a __repr__ with its settings or a method fingerprint() (for a lambda, write a class), "
            "and a model an identity",
            AlikeWarning,
            stacklevel=6,
        )

    def complete(self, size: int, measures: Sequence[ir_measures.Measure]) -> None:
        """Make the run in batches of ``size`` turns, and score it.

        A finished run gets the scores that its folder lacks.

        Raises:
            DataError: when none of its passages is judged, although turns are. The run is finished,
                without scores.
        """
        ranking = self.folder.ranking() if self.finished else self._run_turns(size)
        # The given measures, those in the folder and the track's: a report shows the first first.
        wanted = as_measures([*measures, *computable(self._stored_measures()), *TRACK_2023])
        self.answered = set(ranking)
        self.scores = {label(measure): [] for measure in wanted}
        labels = self.study.labels
        mismatch = ""
        repair = ""
        if labels:
            evaluator = Evaluator(labels, wanted)
            mismatch, repair = self._mismatch(evaluator, ranking)
        if mismatch:
            labels = {}  # the results are kept, without scores, which would say nothing
        elif labels:
            self.scores = evaluator.per_turn(self.system.name, ranking)
        stored = {"qid": column(labels)}
        for measure in wanted:
            # A user's own measures aren't stored: they may change under the same name.
            if provider_of(measure) is not ir_measures.runtime:
                stored[label(measure)] = self.scores[label(measure)]
        self._store(pd.DataFrame(stored), {"qrels_sha256": checksum_of(self.study.qrels)})
        if mismatch:
            raise DataError(
                f"system {self.system.name}: {mismatch}, so that every score would be 0: {repair}. "
                f"The run is in {self.folder.path}"
            )

    def _mismatch(
        self, evaluator: Evaluator, ranking: Mapping[str, Mapping[str, float]]
    ) -> tuple[str, str]:
        """Why the judgements say nothing about the ranking, and the repair; empty if they do."""
        other_form = evaluator.of_other_form(ranking)
        if other_form:
            return other_form, SAME_FORM
        unjudged = evaluator.without_judged(ranking)
        if unjudged and not self.study.is_of_judged_collection(self.system, ranking):
            return unjudged, f"{SAME_COLLECTION} as qrels"
        return "", ""

    def _stored_measures(self) -> list[str]:
        """The measures of a finished run; none where its file is not there, or was cut."""
        if not self.finished:
            return []
        try:
            return list(self.folder.measures().columns)
        except DataError:
            return []

    def _store(self, scores: pd.DataFrame, judged: Mapping[str, Any]) -> None:
        """Finish the folder, or renew the scores of a finished one."""
        if self.finished:
            self.folder.describe(scores, {**self.folder.parameters(), **judged})
            shutil.rmtree(self.path, ignore_errors=True)  # left by a kill
            return
        ledger = ledger_of(self.folder)
        sources = {model.backend.source for model in self.system.models}
        about = {
            **self.identity,
            "versions": versions(),
            "deviations": list(self.system.deviations),
            "sources": sorted(sources - {""}),
            "served": ledger.served(),
            **judged,
            **self.about,
        }
        unanswered = [turn["qid"] for turn in self._stored_turns() if is_unanswered(turn)]
        if unanswered:
            about["notes"] = [note_of_abstention(unanswered, self.system.abstention)]
        pieces = {}
        for kind in (RANKING_FILE, STAGES_FILE, TURNS_FILE):
            pieces[kind] = (path.read_bytes() for path in self.folder.pieces(kind))
        self.folder.finish(pieces, scores, ledger.frame(), about)
        shutil.rmtree(self.path)

    def _stored_turns(self) -> Iterator[dict[str, Any]]:
        """The lines of the turns of finished batches."""
        for path in self.folder.pieces(TURNS_FILE):
            for _, turn in read_lines(path):
                yield turn

    def _stored_ranking(self) -> dict[str, dict[str, float]]:
        """The rankings of finished batches."""
        ranking: dict[str, dict[str, float]] = {}
        for path in self.folder.pieces(RANKING_FILE):
            if path.stat().st_size:
                ranking.update(read_rankings(path))
        return ranking

    def _run_turns(self, size: int) -> dict[str, dict[str, float]]:
        """Run the turns that aren't finished, batch by batch. Return the ranking of all turns."""
        write_parameters(self.path, self.identity | {"versions": versions()})
        pipeline = list(stages(without_unread_texts(self.system.pipeline)))
        # The stages before the first retrieval need little memory. The others run batch by batch.
        before = list(takewhile(lambda stage: face(stage).one_row_per_turn, pipeline))
        after = pipeline[len(before) :]
        finished = {turn["qid"] for turn in self._stored_turns()}
        left = self.turns.left(finished)
        written = self.turns.frame.iloc[left].reset_index(drop=True)
        ranking = self._stored_ranking()
        account = Account(self.path / COSTS_FILE)
        lost = self.study.lost_columns(self.system)
        recorder = Recorder(written["qid"].tolist(), self.system.written)
        waiting: list[Waiting] = []
        with ExitStack() as contexts:
            for ledger in {model.ledger for model in self.system.models}:
                contexts.enter_context(ledger.followed_by(account))
            progress = bar(total=len(self.turns.ids), initial=len(finished), unit="turn")
            count = contexts.enter_context(progress)
            contexts.enter_context(observed_by(recorder, Shown()))
            for stage in before:
                written = lost.transform(stage, written)
            for places in batches(left, size):
                turns = written.iloc[places].reset_index(drop=True)
                results = turns
                try:
                    for stage in after:
                        results = lost.transform(stage, results)
                except BatchUnderWay as error:
                    waiting += error.waiting
                    continue
                self._check_unchanged()  # else the batch isn't kept
                rest, account.rest = account.rest, Ledger()
                recorded = recorder.take(turns["qid"].tolist())
                ranking |= self._keep(left[places.start], turns, results, rest, recorded)
                count.update(len(turns))
        if waiting:
            raise BatchUnderWay(waiting)
        return ranking

    def _check_unchanged(self) -> None:
        """Check that all that the system uses is what the run began with.

        Files that a stage wrote itself are noted.

        Raises:
            DataError: when something was replaced.
        """
        now = self.system.parameters()
        checksums = self.identity["parts"]
        written = []
        for name in self.system.may_be_written:
            if now["parts"][name] != checksums.get(name):
                written.append(name)
        if any(checksums.get(name) != WRITTEN for name in written):
            checksums.update(dict.fromkeys(written, WRITTEN))
            write_parameters(self.path, self.identity | {"versions": versions()})
        now["parts"].update(dict.fromkeys(written, WRITTEN))
        changed = describe_difference(self.identity, now)
        if changed:
            raise DataError(
                f"what {self.system.name} uses was replaced or changed during its run ({changed}): "
                "put back what the run began with, or start the run again elsewhere"
            )

    def _keep(
        self,
        position: int,
        turns: pd.DataFrame,
        results: pd.DataFrame,
        rest: Ledger,
        recorded: bytes,
    ) -> dict[str, dict[str, float]]:
        """Keep a finished batch.

        Args:
            position: the position of its first turn among the turns of the run. Batches are joined
                in this order.
            turns: its turns, one row each, with the columns written before retrieval.
            results: the ranking, with the columns of the turns.
            rest: the counts since the previous batch that are not in ``costs.jsonl``.
            recorded: the work of the stages.

        Returns:
            The ranking of its turns.
        """
        check_ranking(self.system.name, results.columns)
        strict = strictly_decreasing(results)
        lines = turn_lines(turns, results, self.system.abstention)
        pieces = {
            RANKING_FILE: "".join(run_lines(strict, self.system.name)).encode(),
            STAGES_FILE: recorded,
            REST: json.dumps(rest.rows()).encode(),
            TURNS_FILE: "".join(lines).encode(),  # the last one: the batch is done
        }
        for kind, content in pieces.items():
            with atomic_write(self.path / f"{position:06d}.{kind}", "wb") as file:
                file.write(content)
        return scores_by_turn(strict)
