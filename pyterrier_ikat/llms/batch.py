"""A stage's requests as batches (``batch=on``), which a provider answers within a day for less money.

An unfinished batch is noted in a file next to the cache. The file has the keys of the batch's requests. It is written before anything is
sent, again before the batch is created, and again with the provider's id of the batch. So a call that was killed in between recognises its
batch by the name in its metadata. The results of a batch, also failures, are put into the cache before the note is removed, so that later
stages can continue. Only one process at a time sends and collects.
"""

import json
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from ..completions.usable import usable_text
from ..errors import DataError
from ..portable import digest
from ..store.files import atomic_write
from ..store.locks import hold_lock, lock_holder, remove_empty
from .batch_protocol import ENDED, Provider, Unconfirmed, counts_of, status_of
from .cache import REPORT_AFTER, CompletionCache
from .failures import BatchUnderWay, BudgetExceeded, FatalLLMError, LLMFailure, Refused, Transient, Unavailable, UnderWay, Waiting
from .ledger import CHARACTERS_PER_TOKEN
from .openai import OpenAIBackend, half_a_character
from .request import Request
from .sending import BatchSettings, Outcome, Sending

SETTLED = 60.0
"""Seconds after which a batch whose creation was interrupted is listed, if it was created."""
KEPT = "; without batch=on it is asked again"
PAUSE = 0.1

log = logging.getLogger("pyterrier_ikat")


@dataclass
class Job:
    """A batch that was sent, or was about to be.

    Attributes:
        name: the name in its metadata.
        requests: by cache key the stage, the turn, and how many batches have left it without an answer.
        begun: when it was about to be sent, in seconds since the epoch.
        at_most: US dollars that it may cost; 0 without a budget.
        file: the provider's id of its requests, once they are there.
        batch: the provider's id of it, once it is known.
    """

    name: str
    requests: dict[str, tuple[str, str, int]]
    begun: float
    at_most: float
    file: str | None = None
    batch: str | None = None

    @property
    def stage(self) -> str:
        """The stages of its requests."""
        return ", ".join(dict.fromkeys(stage for stage, _, _ in self.requests.values()))

    def waiting(self, status: str) -> Waiting:
        """The message for the user."""
        return Waiting(self.stage, len(self.requests), self.batch or "not confirmed yet", status)


def jobs_of(cache: CompletionCache) -> "Jobs":
    """The unfinished batches with answers for a cache."""
    return Jobs(Path(f"{cache.path}.batches"))


class Jobs:
    """The batches under way of one cache.

    Args:
        folder: the folder of their notes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside the block, no other process with the same cache sends or collects."""
        path, started, told = self.folder / "lock", time.monotonic(), False
        with ExitStack() as held:
            held.callback(remove_empty, self.folder)
            while not held.enter_context(hold_lock(path)):
                if not told and time.monotonic() - started > REPORT_AFTER:
                    told = True
                    log.warning("waiting for batches that others send or collect: %s", lock_holder(path))
                time.sleep(PAUSE)
            yield

    def all(self) -> list[Job]:
        """All batches, in the order in which they were sent."""
        return sorted(map(self._read, self.folder.glob("*.json")), key=lambda job: (job.begun, job.name))

    def of(self, keys: Iterable[str]) -> list[Job]:
        """Those that hold one of ``keys``."""
        return [job for job in self.all() if not job.requests.keys().isdisjoint(keys)]

    def keys_among(self, keys: Collection[str]) -> set[str]:
        """Those of ``keys`` that wait in a batch."""
        return {key for job in self.of(keys) for key in job.requests}.intersection(keys)

    def has(self, name: str) -> bool:
        """Whether the batch of this name is still under way."""
        return self._path(name).exists()

    def keep(self, job: Job) -> None:
        """Write what is known of a batch."""
        with atomic_write(self._path(job.name)) as file:
            json.dump(asdict(job), file)

    def remove(self, job: Job) -> None:
        """Forget a batch."""
        self._path(job.name).unlink(missing_ok=True)

    def how_to_ask_again(self, job: Job) -> str:
        """The repair when the provider has lost a batch."""
        return f"remove {self._path(job.name)} to ask, and pay for, its {len(job.requests)} requests again"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _read(self, path: Path) -> Job:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            requests = {key: (stage, qid, tries) for key, (stage, qid, tries) in kept.pop("requests").items()}
            return Job(requests=requests, **{one.name: kept[one.name] for one in fields(Job) if one.name != "requests"})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} can't be read ({error}): remove it, and that batch is asked, and paid for, again") from None


class BatchSending(Sending):
    """Sends requests as batches and collects their results, round by round: first the initial requests, then their follow-ups."""

    requests: dict[str, Request]
    outcomes: dict[str, Outcome]
    tries: dict[str, int]
    errors: list[FatalLLMError]

    def run(self, requests: dict[str, Request]) -> None:
        """Collect the outcome of each request, and of its follow-ups.

        Raises:
            BatchUnderWay: when some of them wait in batches now.
            FatalLLMError: when a batch failed, or none can be sent.
            BudgetExceeded: when a batch may cost more than is left. It isn't sent.
        """
        llm = self.llm
        self.settings, self.cache = cast(BatchSettings, llm.batches), cast(CompletionCache, llm.cache)
        self.provider = Provider(cast(OpenAIBackend, llm.backend), llm.retry)
        self.jobs = jobs_of(self.cache)
        llm.backend.open()
        under_way = UnderWay()
        with self.jobs.alone():
            self._tidy()
            while requests:
                self.requests, self.outcomes, self.tries, self.errors = requests, {}, {}, []
                with under_way.noted():
                    self._collect_and_send()
                requests = self.follow(self.outcomes)
        under_way.tell()

    def _tidy(self) -> None:
        """Remove the notes of a process that was killed after its last answer."""
        for job in self.jobs.all():
            if len(self.cache.get(job.requests).keys() | self.cache.failures(job.requests).keys()) == len(job.requests):
                self.jobs.remove(job)

    def _collect_and_send(self) -> None:
        """Collect the ended batches, and send the missing requests."""
        self._read_cache()
        ended, waiting = list[Job](), list[tuple[Job, str]]()
        for job in self.jobs.of(self._missing([])):
            status = self._look_at(job)
            if status is None:
                ended.append(job)
                self.settings.at_most.pop(job.name, None)
            else:
                waiting.append((job, status))
                self.settings.at_most[job.name] = job.at_most
        if not self.errors:
            self._send(self._missing([job for job, _ in waiting]), waiting)
        for job in ended:
            self.jobs.remove(job)
        if self.errors:
            raise self.errors[0].after(len(self.outcomes), len(self.requests) - len(self.outcomes), self.llm.kept_in)
        if waiting:
            raise BatchUnderWay([job.waiting(status) for job, status in waiting])

    def _read_cache(self) -> None:
        """The outcomes that another process has just collected, and those that failed in an earlier batch."""
        self.outcomes.update(self.cache.get(self.requests))
        for key, kept in self.cache.failures([key for key in self.requests if key not in self.outcomes]).items():
            request = self.requests[key]
            self.llm.ledger.count(request.stage, self.llm.model, failures=1)
            self.outcomes[key] = type(kept)(request.stage, request.qid, kept.reason, kept=True)

    def _missing(self, waiting: list[Job]) -> dict[str, Request]:
        there = {key for job in waiting for key in job.requests} | self.outcomes.keys()
        return {key: request for key, request in self.requests.items() if key not in there}

    def _look_at(self, job: Job) -> str | None:
        """How far a batch is. None when it has ended and its results are kept."""
        if job.batch is None and job.file is not None:
            found = self.provider.named(job.name, job.begun)
            if found is None:
                if time.time() < job.begun:  # the clock was set back, so the time since then isn't known
                    job.begun = time.time()
                    self.jobs.keep(job)
                young = time.time() - job.begun < SETTLED
                return "its creation was interrupted: the provider lists it in a minute, if it was created" if young else None
            job.batch = found["id"]
            self.jobs.keep(job)
        if job.batch is None:
            return None  # nothing was sent
        batch = self.provider.batch(job.batch, self.jobs.how_to_ask_again(job))
        if batch["status"] == "failed":
            reason = f"{job.batch} of {len(job.requests)} requests was refused: {self.provider.failed(batch)}"
            self.errors.append(FatalLLMError(reason))
        elif batch["status"] not in ENDED:
            return status_of(batch)
        elif (error := self._collect(job, batch)) is not None:
            self.errors.append(error)
            return status_of(batch)
        return None

    def _collect(self, job: Job, batch: Mapping[str, Any]) -> FatalLLMError | None:
        """Keep the results of an ended batch. Returns an error if there are fewer than the batch says."""
        done = {*self.cache.get(job.requests), *self.cache.failures(job.requests)}
        reasons, told = dict[str, str](), set[str]()
        for key, line in self.provider.results(batch, self.jobs.how_to_ask_again(job)):
            told |= {key} & job.requests.keys()
            if key not in job.requests or key in done:
                continue
            try:
                self._settle_line(job, key, line)
            except Transient as error:
                reasons[key] = error.reason
                continue
            except FatalLLMError as error:
                self.errors.append(error)
            done.add(key)
        if (lack := self._lacks(job, batch, told)) is not None:
            return lack
        for key in job.requests.keys() - done:
            tries = job.requests[key][2] + 1
            if tries >= self.llm.retry.tries:
                reason = reasons.get(key, f"no answer in a batch that is {batch['status']}")
                self._fail(key, Unavailable(*job.requests[key][:2], f"{reason} (given up after {tries} batches)"))
            else:
                self.tries[key] = tries
        return None

    def _lacks(self, job: Job, batch: Mapping[str, Any], told: Collection[str]) -> FatalLLMError | None:
        """The error when the result files hold fewer lines than the batch says. The missing lines are already paid for."""
        counts = counts_of(batch)
        wanted = counts.done if counts else len(job.requests) if batch["status"] == "completed" else 0
        if len(told) >= min(wanted, len(job.requests)):
            return None
        return FatalLLMError(
            f"{job.batch} is {status_of(batch)}, and its files of results have {len(told)} of {len(job.requests)} that can be read: run "
            f"again later, when the provider may have written them in full; if it stays so, {self.jobs.how_to_ask_again(job)}"
        )

    def _settle_line(self, job: Job, key: str, line: Mapping[str, Any]) -> None:
        stage, qid, tries = job.requests[key]
        request = self.requests.get(key) or Request([], stage, qid)
        reply = self.provider.reply(request, line)
        retries = {"retries": tries} if tries else {}
        self.llm.ledger.count(request.stage, self.llm.model, key=key, calls=1, **retries)
        outcome = self.settle(key, request, reply, 0.0)
        if isinstance(outcome, LLMFailure):
            self._keep_failure(key, outcome)
        elif not usable_text(outcome.text):
            self._fail(key, Refused(request.stage, request.qid, f"the model refused: {outcome.text[:80]!r}"))
        elif key in self.requests:
            self.outcomes[key] = outcome

    def _fail(self, key: str, failure: LLMFailure) -> None:
        self.llm.ledger.count(failure.stage, self.llm.model, failures=1)
        self._keep_failure(key, failure)

    def _keep_failure(self, key: str, failure: LLMFailure) -> None:
        kept = type(failure)(failure.stage, failure.qid, failure.reason + KEPT, kept=True)
        self.cache.put_failure(key, kept)
        if key in self.requests:
            self.outcomes[key] = kept

    def _send(self, requests: dict[str, Request], waiting: list[tuple[Job, str]]) -> None:
        lines = dict[str, bytes]()
        for key, request in requests.items():
            try:
                lines[key] = self.provider.line(key, request)
            except UnicodeEncodeError:
                self._fail(key, half_a_character(request))
        if lines:
            self._check_budget(lines)
        for part in self._parts(lines):
            asked = {key: (requests[key].stage, requests[key].qid, self.tries.get(key, 0)) for key in part}
            name = digest(uuid4().bytes, *part).hex()
            job = Job(name, asked, time.time(), sum(self._at_most(requests[key]) for key in part))
            waiting.append((job, self._begin(job, b"".join(lines[key] for key in part))))
            self.settings.at_most[job.name] = job.at_most

    def _parts(self, lines: Mapping[str, bytes]) -> Iterator[list[str]]:
        part, size = list[str](), 0
        for key, line in lines.items():
            if part and (len(part) == self.settings.requests or size + len(line) > self.settings.bytes):
                yield part
                part, size = [], 0
            part.append(key)
            size += len(line)
        if part:
            yield part

    def _begin(self, job: Job, content: bytes) -> str:
        self.jobs.keep(job)
        try:
            job.file = self.provider.upload(job.name, content)
            job.begun = time.time()
            self.jobs.keep(job)
            batch = self.provider.create(job.file, job.name)
        except Unconfirmed as error:
            return f"its creation was interrupted: {error}"
        except FatalLLMError:
            self.jobs.remove(job)
            raise
        job.batch = batch["id"]
        self.jobs.keep(job)
        return status_of(batch)

    def _at_most(self, request: Request) -> float:
        if self.llm.budget.limit is None:
            return 0.0
        most = {**self.llm.backend.identity["params"], **request.params}.get("max_tokens")
        if most is None:
            raise FatalLLMError("a budget for batches needs max_tokens=...: a batch can't be stopped, so its cost must be bounded before")
        prompt = sum(len(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN
        return self.llm.budget.price(prompt, most) or 0.0

    def _check_budget(self, lines: Mapping[str, bytes]) -> None:
        """Whether the budget allows the new batches in addition to the unfinished ones."""
        more = sum(self._at_most(self.requests[key]) for key in lines)
        try:
            self.llm.budget.check(more + sum(cost for name, cost in self.settings.at_most.items() if self.jobs.has(name)))
        except BudgetExceeded as error:
            raise error.after(len(self.outcomes), len(lines), self.llm.kept_in) from None
