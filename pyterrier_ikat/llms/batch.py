"""Batches: requests are sent as a file, which the provider answers within a day for half the price. Its results fill the cache.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the window is ``24h``, a listing begins with
the newest batch) and its guide "Batch API" (the lines of a result file are in any order; a batch that expired or was cancelled has its
answers in the result file, and they are paid).
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from ..completions.usable import usable_text
from ..errors import counted
from ..store.files import atomic_write
from ..store.locks import hold_lock, remove_empty
from .cache import CompletionCache
from .failures import BatchUnderWay, FatalLLMError, LLMFailure, Refused, StageEnded, Transient, Unavailable, Waiting
from .ledger import CHARACTERS_PER_TOKEN
from .openai import OpenAIBackend, half_a_character
from .request import Request
from .sending import Outcome, Sending

if TYPE_CHECKING:
    import openai

ENDPOINT = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""The most in one file."""
DISCOUNT = 0.5
TRANSFER = 600.0
"""Seconds that a file may take."""
MARK = "pyterrier_ikat"
"""The key in a batch's metadata of the name that we gave it."""
ENDED = ("completed", "expired", "cancelled")
SETTLED, DAY = 60.0, 86400
"""Seconds after which a batch whose creation was interrupted is listed, if it was created; and by which the provider's clock may differ."""
INTERRUPTED = "its creation was interrupted: the provider lists it in a minute, if it was created"
KEPT = "; without batch=on it is asked again"
PAUSE = 0.1


@dataclass
class Job:
    """A batch that was sent, or was about to be.

    Attributes:
        name: the name in its metadata.
        requests: by cache key the stage, the turn, and how many batches have left it without an answer.
        at_most: US dollars that it may cost; 0 without a budget.
        begun: when it was about to be sent, in seconds since the epoch.
        file: the provider's id of its requests, once they are there.
        batch: the provider's id of it, once it is known.
    """

    name: str
    requests: dict[str, tuple[str, str, int]]
    at_most: float
    begun: float = 0.0
    file: str | None = None
    batch: str | None = None


class Jobs:
    """The batches under way of one cache, each with a note in a folder beside it.

    Args:
        cache: where their results will be kept.
    """

    def __init__(self, cache: CompletionCache) -> None:
        self.folder = Path(f"{cache.path}.batches")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside the block, no other process with the same cache sends or collects."""
        while True:
            with hold_lock(self.folder / "lock") as held:
                if held:
                    yield
                    break
            time.sleep(PAUSE)
        remove_empty(self.folder)

    def all(self) -> list[Job]:
        """All batches, in the order in which they were sent."""
        jobs = [Job(**json.loads(path.read_text(encoding="utf-8"))) for path in self.folder.glob("*.json")]
        return sorted(jobs, key=lambda job: (job.begun, job.name))

    def path(self, name: str) -> Path:
        """The note of a batch."""
        return self.folder / f"{name}.json"

    def keep(self, job: Job) -> None:
        """Write what is known of a batch."""
        with atomic_write(self.path(job.name)) as file:
            json.dump(asdict(job), file)

    def remove(self, job: Job) -> None:
        """Forget a batch."""
        self.path(job.name).unlink(missing_ok=True)


class BatchSending(Sending):
    """Sends requests as batches and collects their results, round by round: first the initial requests, then their follow-ups."""

    def send(self, fresh: dict[str, Request]) -> None:
        """Collect the outcome of each request, and of its follow-ups.

        Raises:
            BatchUnderWay: when some of them wait in batches now.
            FatalLLMError: when a batch failed, or none can be sent.
            BudgetExceeded: when a batch may cost more than is left. It isn't sent.
        """
        self.cache, self.backend = cast(CompletionCache, self.llm.cache), cast(OpenAIBackend, self.llm.backend)
        self.jobs, self.waiting = Jobs(self.cache), list[Waiting]()
        with self.jobs.alone():
            while fresh:
                try:
                    outcomes = self._round(fresh)
                except StageEnded as error:
                    done = len(self.cache.get(fresh))
                    raise error.after(done, len(fresh) - done, self.llm.kept_in) from None
                fresh = self._add(self._give(outcomes))
        if self.waiting:
            raise BatchUnderWay(self.waiting)

    def _round(self, fresh: dict[str, Request]) -> dict[str, Outcome]:
        """Collect the ended batches of some requests, and send those that no batch holds."""
        self.fresh, self.settled, self.tries = fresh, dict[str, Outcome](), dict[str, int]()
        ended, there = list[Job](), set[str]()
        for job in self.jobs.all():
            if not job.requests.keys().isdisjoint(fresh):
                if (status := self._look_at(job)) is None:
                    ended.append(job)
                else:
                    self._await(job, status)
                    there |= job.requests.keys()
        outcomes = {**self.cache.get(fresh), **self.settled}  # of these, what was just paid for is no repetition
        for key, kept in self.cache.failures([key for key in fresh if key not in outcomes]).items():
            self.llm.ledger.count(fresh[key].stage, self.llm.model, failures=1)
            outcomes[key] = type(kept)(fresh[key].stage, fresh[key].qid, kept.reason, kept=True)
        self._send({key: request for key, request in fresh.items() if key not in there and key not in outcomes}, ended)
        for job in ended:  # now that the requests which it left without an answer are in another one
            self.jobs.remove(job)
        return {key: outcome for key, outcome in (outcomes | self.settled).items() if key in fresh}

    def _await(self, job: Job, status: str) -> None:
        stages = ", ".join(dict.fromkeys(stage for stage, _, _ in job.requests.values()))
        self.waiting.append(Waiting(stages, len(job.requests), job.batch or "not confirmed yet", status))

    def _look_at(self, job: Job) -> str | None:
        """How far a batch is. None when it has ended and its results are kept."""
        if job.batch is None and job.file is not None:
            if (found := self._call(lambda client: _named(client, job))) is None:
                return INTERRUPTED if time.time() - job.begun < SETTLED else None
            job.batch = found.id
            self.jobs.keep(job)
        if job.batch is None:
            return None  # nothing was sent
        again = f"remove {self.jobs.path(job.name)} to ask, and pay for, its {counted(len(job.requests), 'request')} again"
        batch: Any = self._call(lambda client: client.batches.retrieve(str(job.batch)), again)
        if batch.status == "failed":
            self.jobs.remove(job)
            why = self.backend.quoted("; ".join(f"{one.message} ({one.code})" for one in (batch.errors and batch.errors.data) or []))
            raise FatalLLMError(f"{job.batch} of {counted(len(job.requests), 'request')} was refused: {why}")
        if batch.status in ENDED:
            self._collect_results(job, batch, again)
            return None
        return _status(batch)

    def _collect_results(self, job: Job, batch: Any, again: str) -> None:
        """Keep the results of an ended batch.

        Raises:
            FatalLLMError: if there are fewer than the batch says.
        """
        left, told = dict(job.requests), dict.fromkeys(job.requests, "")
        for key in (*self.cache.get(left), *self.cache.failures(left)):
            del left[key]
        for line in self._lines(batch, again):
            if (key := str(line.get("custom_id"))) in told:
                told[key] = "told"
                if key in left and (why := self._settle(key, line, *left[key])) is None:
                    del left[key]
                elif key in left:
                    told[key] = why
        counts, there = batch.request_counts, sum(map(bool, told.values()))
        wanted = counts.completed + counts.failed if counts else len(told) if batch.status == "completed" else 0
        if there < min(wanted, len(told)):
            raise FatalLLMError(
                f"{job.batch} is {_status(batch)}, and its files of results have {there} of {len(told)} that can be read: run again "
                f"later, when the provider may have written them in full; if it stays so, {again}"
            )
        for key, (stage, qid, before) in left.items():
            self.tries[key] = tries = before + 1
            if tries >= self.llm.retry.tries:
                reason = told[key] or f"no answer in a batch that is {batch.status}"
                self._fail(key, Unavailable(stage, qid, f"{reason} (given up after {counted(tries, 'batch', 'batches')})"))

    def _lines(self, batch: Any, again: str) -> Iterator[Mapping[str, Any]]:
        """The results of an ended batch, those with answers first. Lines that can't be read are skipped."""
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            content = self._call(lambda client, file=file: client.files.content(file).content, again)
            for line in content.split(b"\n"):
                with suppress(ValueError):
                    if isinstance(found := json.loads(line), dict):
                        yield found

    def _settle(self, key: str, line: Mapping[str, Any], stage: str, qid: str, tries: int) -> str | None:
        """Keep what a line says. Returns why it has no answer, when another batch may bring one."""
        request, response = self.fresh.get(key, Request([], stage, qid)), line.get("response")
        if not isinstance(response, dict):
            return f"no answer: {self.backend.quoted(line.get('error') or line)}"
        body, status = response.get("body"), response.get("status_code")
        try:
            if status == 200:
                reply: Any = self.backend.reply(body)
            else:
                reply = self.backend.refused(request, int(status or 500), body.get("error", body) if isinstance(body, dict) else body, {})
        except (Transient, FatalLLMError) as error:
            return error.reason
        outcome = self.llm.settle(key, request, reply, 0.0, calls=1, retries=tries)
        if isinstance(outcome, LLMFailure):
            self._keep_failure(key, outcome)
        elif not usable_text(outcome.text):
            self._fail(key, Refused(stage, qid, f"the model refused: {outcome.text[:80]!r}"))
        else:
            self.settled[key] = outcome
        return None

    def _fail(self, key: str, failure: LLMFailure) -> None:
        self.llm.ledger.count(failure.stage, self.llm.model, failures=1)
        self._keep_failure(key, failure)

    def _keep_failure(self, key: str, failure: LLMFailure) -> None:
        self.settled[key] = type(failure)(failure.stage, failure.qid, failure.reason + KEPT, kept=True)
        self.cache.put_failure(key, self.settled[key])

    def _send(self, requests: Mapping[str, Request], ended: Collection[Job]) -> None:
        """Send requests, as far as the budget allows."""
        lines = dict[str, bytes]()
        for key, request in requests.items():
            asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": self.backend.body(request)}
            try:
                lines[key] = json.dumps(asked, ensure_ascii=False).encode() + b"\n"
            except UnicodeEncodeError:
                self._fail(key, half_a_character(request))
        at_most = {key: self._at_most(requests[key]) for key in lines}
        if lines:
            under_way = sum(job.at_most for job in self.jobs.all() if job.name not in {one.name for one in ended})
            self.llm.budget.check(sum(at_most.values()) + under_way)
        while lines:
            part, size = dict[str, bytes](), 0
            while lines and len(part) < REQUESTS and (not part or size + len(next(iter(lines.values()))) <= BYTES):
                key = next(iter(lines))
                part[key] = lines.pop(key)
                size += len(part[key])
            asked_by = {key: (requests[key].stage, requests[key].qid, self.tries.get(key, 0)) for key in part}
            job = Job(uuid4().hex, asked_by, sum(at_most[key] for key in part))
            self._await(job, self._begin(job, b"".join(part.values())))

    def _begin(self, job: Job, content: bytes) -> str:
        """Send a batch. Each step is noted, so that it is sent once, wherever the process is killed."""
        self.jobs.keep(job)
        try:
            upload: Any = {"file": (f"{job.name}.jsonl", content), "purpose": "batch", "timeout": TRANSFER}
            job.file = self._call(lambda client: client.files.create(**upload)).id
            job.begun = time.time()
            self.jobs.keep(job)
            batch: Any = {"completion_window": "24h", "endpoint": ENDPOINT, "input_file_id": job.file, "metadata": {MARK: job.name}}
            made = self.backend.call(lambda client: client.batches.create(**batch), NOBODYS)
            if isinstance(made, LLMFailure) or not made.id or not made.status:
                raise FatalLLMError(getattr(made, "reason", "the server's answer is not a batch: omit batch=on"))
        except Transient as error:
            if not error.refused:  # nobody knows whether it was created
                return INTERRUPTED
            self.jobs.remove(job)
            raise FatalLLMError(error.reason) from None
        except FatalLLMError:
            self.jobs.remove(job)
            raise
        job.batch = made.id
        self.jobs.keep(job)
        return _status(made)

    def _at_most(self, request: Request) -> float:
        if self.llm.budget.limit is None:
            return 0.0
        most = {**self.backend.identity["params"], **request.params}.get("max_tokens")
        if most is None:
            raise FatalLLMError("a budget for batches needs max_tokens=...: a batch can't be stopped, so its cost must be bounded before")
        prompt = sum(len(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN
        return self.llm.budget.price(prompt, most) or 0.0

    def _call(self, work: "Callable[[openai.OpenAI], Any]", repair: str = "omit batch=on") -> Any:
        """What the provider answers.

        Raises:
            FatalLLMError: when it refuses for good, or after all retries.
        """
        try:
            found = self.llm.retry.loop(Event())(self.backend.call, work, NOBODYS)
        except Transient as error:
            raise FatalLLMError(f"{error.reason} (given up after {counted(self.llm.retry.tries, 'try')})") from None
        except FatalLLMError as error:
            raise FatalLLMError(f"{error.reason}; or {repair}") from None
        if isinstance(found, LLMFailure):
            raise FatalLLMError(found.reason)
        return found


NOBODYS = Request([], "", "")


def _named(client: "openai.OpenAI", job: Job) -> Any:
    """The batch that was created with the job's name; None if there is none."""
    for batch in client.batches.list(limit=100):
        if (batch.metadata or {}).get(MARK) == job.name:
            return batch
        if batch.created_at < job.begun - DAY:
            break
    return None


def _status(batch: Any) -> str:
    """How far a batch is, in words."""
    status, counts = str(batch.status).replace("_", " "), batch.request_counts
    return f"{status}, {counts.completed + counts.failed} of {counts.total} done" if counts and counts.total else status
