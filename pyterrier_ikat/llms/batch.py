"""Batches: requests are sent as a file, which the provider answers within a day for half the price. Its results fill the cache.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the window is ``24h``, a listing begins with
the newest batch) and its guide "Batch API" (the lines of a result file are in any order; a batch that expired or was cancelled has its
answers in the result file, and they are paid).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any, cast
from uuid import uuid4

from ..completions.usable import usable_text
from ..errors import counted
from ..store.files import atomic_write
from .cache import CompletionCache
from .failures import BatchUnderWay, FatalLLMError, LLMFailure, Refused, StageEnded, Transient, Unavailable, Waiting
from .ledger import CHARACTERS_PER_TOKEN
from .openai import OpenAIBackend, quoted
from .request import Request
from .sending import Outcome, Sending

ENDPOINT = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""The most in one file."""
DISCOUNT = 0.5
TRANSFER = 600.0
"""Seconds that a file may take."""
MARK = "pyterrier_ikat"
"""The key in a batch's metadata of the name that we gave it."""
SETTLED = 60.0
"""Seconds after which a batch whose creation was interrupted is listed, if it was created."""
INTERRUPTED = "its creation was interrupted: the provider lists it in a minute, if it was created"
NOBODYS = Request([], "", "")


@dataclass
class Job:
    """A batch that was sent, or was about to be, with a note beside the cache.

    Attributes:
        note: the path of the note; its name is in the batch's metadata.
        stage: the operator that asks.
        tries: by cache key how many batches have left the request without an answer.
        at_most: US dollars that it may cost; 0 without a budget.
        begun: when it was about to be sent, in seconds since the epoch.
        file: the provider's id of its requests, once they are there.
        batch: the provider's id of it, once it is known.
    """

    note: str
    stage: str
    tries: dict[str, int]
    at_most: float
    begun: float
    file: str | None = None
    batch: str | None = None

    def keep(self) -> None:
        """Write what is known of the batch."""
        with atomic_write(Path(self.note)) as file:
            json.dump(asdict(self), file)

    def remove(self) -> None:
        """Forget the batch."""
        Path(self.note).unlink()


def folder_of(cache: CompletionCache) -> Path:
    """The folder with the notes on the batches of a cache."""
    return Path(f"{cache.path}.batches")


def jobs_of(cache: CompletionCache) -> list[Job]:
    """The batches of a cache, in the order in which they were sent."""
    jobs = [Job(**json.loads(path.read_text(encoding="utf-8"))) for path in folder_of(cache).glob("*.json")]
    return sorted(jobs, key=lambda job: (job.begun, job.note))


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
        self.waiting = list[Waiting]()
        from filelock import FileLock  # its import takes a while

        with FileLock(f"{folder_of(self.cache)}.lock"):  # one process sends or collects
            try:
                while fresh:
                    fresh = self._add(self._give(self._round(fresh)))
            except StageEnded as error:
                done = len(self.cache.get(fresh))
                raise error.after(done, len(fresh) - done, self.llm.kept_in) from None
        if self.waiting:
            raise BatchUnderWay(self.waiting)

    def _round(self, fresh: dict[str, Request]) -> dict[str, Outcome]:
        """Collect the ended batches of some requests, and send those that no batch holds."""
        self.fresh, self.settled, self.tries = fresh, dict[str, Outcome](), dict[str, int]()
        ended, there = list[Job](), set[str]()
        for job in jobs_of(self.cache):
            if job.tries.keys() & fresh.keys():
                if (status := self._collected(job)) is None:
                    ended.append(job)
                else:
                    self._wait_for(job, status)
                    there |= job.tries.keys()
        outcomes = {**self.cache.get(fresh), **self.settled}  # of these, what was just paid for is no repetition
        for key, failure in self.cache.failures([key for key in fresh if key not in outcomes]).items():
            outcomes[key] = self._again(key, fresh[key], failure)
        self._send({key: request for key, request in fresh.items() if key not in there and key not in outcomes}, ended)
        for job in ended:  # now that the requests which it left without an answer are in another one
            job.remove()
        return {key: outcome for key, outcome in outcomes.items() if key in fresh}

    def _wait_for(self, job: Job, status: str) -> None:
        self.waiting.append(Waiting(job.stage, len(job.tries), job.batch or "not confirmed yet", status))

    def _collected(self, job: Job) -> str | None:
        """How far a batch is. None when it has ended and its results are kept, or when it was never sent."""
        if job.batch is None and job.file is not None:
            name = Path(job.note).stem
            listed = self._asked(lambda client: list(client.batches.list(limit=100)))
            job.batch = next((one.id for one in listed if (one.metadata or {}).get(MARK) == name), None)
            job.keep()
            if job.batch is None and time.time() - job.begun < SETTLED:
                return INTERRUPTED
        if job.batch is None:
            return None
        batch = self._asked(lambda client: client.batches.retrieve(str(job.batch)))
        if batch.status == "failed":
            job.remove()
            why = quoted("; ".join(f"{one.message} ({one.code})" for one in (batch.errors and batch.errors.data) or []))
            raise FatalLLMError(f"{job.batch} of {counted(len(job.tries), 'request')} was refused: {why}")
        if batch.status not in ("completed", "expired", "cancelled"):
            return _status(batch)
        self._keep(job, batch)
        return None

    def _keep(self, job: Job, batch: Any) -> None:
        """Keep the results of an ended batch.

        Raises:
            FatalLLMError: if there are fewer than the batch says.
        """
        known, there = self.cache.get(job.tries).keys() | self.cache.failures(job.tries).keys(), set[str]()
        for line in self._lines(batch):
            if (key := str(line.get("custom_id"))) in job.tries:
                there.add(key)
                if key not in known and self._settle(job, key, line):
                    known.add(key)
        counts = batch.request_counts
        if len(there) < (counts.completed + counts.failed if counts else len(job.tries) * (batch.status == "completed")):
            told = f"{job.batch} is {_status(batch)}, and its files of results have {len(there)} of {len(job.tries)} that can be read"
            raise FatalLLMError(f"{told}: run again later, when the provider may have written them in full; {self._instead()}")
        for key in [key for key in job.tries if key not in known]:
            self.tries[key] = tries = job.tries[key] + 1
            if tries >= self.llm.retry.tries:
                self._fail(key, Unavailable("", "", f"no answer in {counted(tries, 'batch', 'batches')}"))

    def _lines(self, batch: Any) -> Iterator[Mapping[str, Any]]:
        """The results of an ended batch, those with answers first. Lines that can't be read are skipped."""
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            content = self._asked(_content_of(file))
            for line in content.split(b"\n"):
                with suppress(ValueError):
                    if isinstance(found := json.loads(line), dict):
                        yield found

    def _settle(self, job: Job, key: str, line: Mapping[str, Any]) -> bool:
        """Keep what a line says. Returns whether that is the end, and no other batch may bring an answer."""
        request, response = self.fresh.get(key, Request([], job.stage, "")), line.get("response") or {}
        status, body = response.get("status_code") or 500, response.get("body")
        error = body.get("error", body) if isinstance(body, dict) else body
        try:
            reply: Any = self.backend.reply(body) if status == 200 else self.backend.refused(request, status, error, {})
        except (Transient, FatalLLMError):
            return False
        outcome = self.llm.settle(key, request, reply, 0.0, calls=1, retries=job.tries[key])
        if isinstance(outcome, LLMFailure):
            self.settled[key] = self._fail(key, outcome)
        elif usable_text(outcome.text):
            self.settled[key] = outcome
        else:
            self._fail(key, Refused("", "", f"the model refused: {outcome.text[:80]!r}"))
        return True

    def _fail(self, key: str, failure: LLMFailure) -> LLMFailure:
        reason = f"{failure.reason}; without batch=on it is asked again"
        kept = type(failure)(failure.stage, failure.qid, reason, kept=True)
        self.cache.put_failure(key, kept)
        return kept

    def _send(self, requests: Mapping[str, Request], ended: list[Job]) -> None:
        """Send requests, as far as the budget allows."""
        parts, size = list[dict[str, bytes]](), 0
        for key, request in requests.items():
            asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": self.backend.body(request)}
            line = json.dumps(asked).encode() + b"\n"
            if not parts or len(parts[-1]) == REQUESTS or size + len(line) > BYTES:
                parts.append({})
                size = 0
            parts[-1][key], size = line, size + len(line)
        at_most = [sum(self._at_most(requests[key]) for key in part) for part in parts]
        if parts:
            self.llm.budget.check(sum(at_most) + sum(job.at_most for job in jobs_of(self.cache) if job not in ended))
        for part, most in zip(parts, at_most, strict=True):
            tries = {key: self.tries.get(key, 0) for key in part}
            note = folder_of(self.cache) / f"{uuid4().hex}.json"
            job = Job(str(note), requests[next(iter(part))].stage, tries, most, time.time())
            self._wait_for(job, self._begin(job, b"".join(part.values())))

    def _begin(self, job: Job, content: bytes) -> str:
        """Send a batch. Each step is noted, so that it is sent once, wherever the process is killed."""
        job.keep()
        name = Path(job.note).stem
        upload: Any = {"file": (f"{name}.jsonl", content), "purpose": "batch", "timeout": TRANSFER}
        batch: Any = {"completion_window": "24h", "endpoint": ENDPOINT, "metadata": {MARK: name}}
        try:
            job.file, job.begun = self._asked(lambda client: client.files.create(**upload)).id, time.time()
            job.keep()
            made: Any = self.backend.call(lambda client: client.batches.create(input_file_id=str(job.file), **batch), NOBODYS)
            if isinstance(made, LLMFailure):
                raise FatalLLMError(made.reason)
        except Transient:  # nobody knows whether it was created
            return INTERRUPTED
        except FatalLLMError:
            job.remove()
            raise
        job.batch = made.id
        job.keep()
        return _status(made)

    def _at_most(self, request: Request) -> float:
        if self.llm.budget.limit is None:
            return 0.0
        most = {**self.backend.identity["params"], **request.params}.get("max_tokens")
        if most is None:
            raise FatalLLMError("a budget for batches needs max_tokens=...: a batch can't be stopped, so its cost must be bounded before")
        prompt = sum(len(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN
        return self.llm.budget.price(prompt, most) or 0.0

    def _instead(self) -> str:
        return f"remove {folder_of(self.cache)} to ask, and pay for, all that is under way again"

    def _asked(self, work: Callable[[Any], Any]) -> Any:
        """What the provider answers.

        Raises:
            FatalLLMError: when it refuses for good, or after all retries.
        """
        try:
            found = self.llm.retry.loop(Event())(self.backend.call, work, NOBODYS)
        except (Transient, FatalLLMError) as error:
            raise FatalLLMError(f"{error.reason}; or omit batch=on; or {self._instead()}") from None
        if isinstance(found, LLMFailure):
            raise FatalLLMError(found.reason)
        return found


def _status(batch: Any) -> str:
    """How far a batch is, in words."""
    status, counts = str(batch.status).replace("_", " "), batch.request_counts
    return f"{status}, {counts.completed + counts.failed} of {counts.total} done" if counts and counts.total else status


def _content_of(file: str) -> Callable[[Any], Any]:
    return lambda client: client.files.content(file).content
