"""Batches: requests are sent as a file, which the provider answers within a day for half the price. Its results fill the cache.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the window is ``24h``, a listing begins with
the newest batch) and its guide "Batch API" (the lines of a result file are in any order; a batch that expired or was cancelled has its
answers in the result file, and they are paid).
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

from ..completions.usable import is_refusal
from ..errors import counted
from ..store.files import atomic_write
from .cache import CompletionCache
from .failures import BatchUnderWay, FatalLLMError, LLMFailure, Refused, StageEnded, Transient, Unavailable, Waiting
from .ledger import CHARACTERS_PER_TOKEN
from .openai import quoted
from .request import Request
from .sending import Outcome, Sending

ENDPOINT = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""The most in one file."""
DISCOUNT = 0.5
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
        batch: the provider's id of it, once it is known.
    """

    note: str
    stage: str
    tries: dict[str, int]
    at_most: float
    begun: float
    batch: str | None = None

    def keep(self) -> None:
        """Write what is known of the batch."""
        with atomic_write(Path(self.note)) as file:
            json.dump(asdict(self), file)

    def remove(self) -> None:
        """Forget the batch."""
        Path(self.note).unlink()

    def waits(self, batch: Any = None) -> Waiting:
        """How far it is, in words: as the provider says, or unknown."""
        if batch is None:
            return Waiting(self.stage, len(self.tries), "not confirmed yet", INTERRUPTED)
        status, counts = batch.status.replace("_", " "), batch.request_counts
        done = f", {counts.completed + counts.failed} of {counts.total} done" if counts and counts.total else ""
        return Waiting(self.stage, len(self.tries), batch.id, status + done)


def folder_of(cache: CompletionCache) -> Path:
    """The folder with the notes on the batches of a cache."""
    return Path(f"{cache.path}.batches")


def jobs_of(cache: CompletionCache) -> list[Job]:
    """The batches of a cache, in the order in which they were sent."""
    notes = folder_of(cache).glob("*.json")
    return sorted((Job(**json.loads(note.read_text(encoding="utf-8"))) for note in notes), key=lambda job: job.begun)


class BatchSending(Sending):
    """Sends requests as batches and collects their results, round by round: first the initial requests, then their follow-ups."""

    def send(self, fresh: dict[str, Request]) -> None:
        """Collect the outcome of each request, and of its follow-ups.

        Raises:
            BatchUnderWay: when some of them wait in batches now.
            FatalLLMError: when a batch failed, or none can be sent.
            BudgetExceeded: when a batch may cost more than is left. It isn't sent.
        """
        self.cache, self.backend, self.waiting = self.llm.cache, self.llm.backend, list[Waiting]()
        self.instead = f"remove {folder_of(self.cache)} to ask, and pay for, all that is under way again"
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
        jobs = [job for job in jobs_of(self.cache) if job.tries.keys() & fresh.keys()]
        waits = {job.note: self._collected(job) for job in jobs}
        ended = [job for job in jobs if waits[job.note] is None]
        self.waiting += filter(None, waits.values())
        there = {key for job in jobs if job not in ended for key in job.tries}
        outcomes = {**self.cache.get(fresh), **self.settled}  # of these, what was just paid for is no repetition
        for key, failure in self.cache.failures([key for key in fresh if key not in outcomes]).items():
            outcomes[key] = self._again(key, fresh[key], failure)
        self._send({key: request for key, request in fresh.items() if key not in there and key not in outcomes}, ended)
        for job in ended:  # now that the requests which it left without an answer are in another one
            job.remove()
        return {key: outcome for key, outcome in outcomes.items() if key in fresh}

    def _collected(self, job: Job) -> Waiting | None:
        """How far a batch is. None when it has ended and its results are kept, or when it was never created."""
        if job.batch is None:
            listed, name = self._asked(lambda client: list(client.batches.list(limit=100))), Path(job.note).stem
            job.batch = next((one.id for one in listed if (one.metadata or {}).get(MARK) == name), None)
            if job.batch is None:
                return job.waits() if time.time() - job.begun < SETTLED else None
            job.keep()
        batch = self._asked(lambda client: client.batches.retrieve(str(job.batch)))
        if batch.status == "failed":
            job.remove()
            why = quoted("; ".join(f"{one.message} ({one.code})" for one in (batch.errors and batch.errors.data) or []))
            raise FatalLLMError(f"{job.batch} of {counted(len(job.tries), 'request')} was refused: {why}")
        if batch.status not in ("completed", "expired", "cancelled"):
            return job.waits(batch)
        self._keep(job, batch)
        return None

    def _keep(self, job: Job, batch: Any) -> None:
        """Keep the results of an ended batch.

        Raises:
            FatalLLMError: if there are fewer than the batch says.
        """
        lines = dict[str, Any]()
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):  # answers come first
            content = self._asked(lambda client: client.files.content(file).content)  # noqa: B023 - called at once
            for text in content.split(b"\n"):
                with suppress(ValueError, TypeError, KeyError):  # no result
                    lines.setdefault((line := json.loads(text))["custom_id"], line)
        counts, there = batch.request_counts, len(lines.keys() & job.tries.keys())
        if there < (counts.completed + counts.failed if counts else len(job.tries) * (batch.status == "completed")):
            told = f"{job.batch} is {batch.status}, and its files of results have {there} of {len(job.tries)} that can be read"
            raise FatalLLMError(f"{told}: run again later, when the provider may have written them in full; {self.instead}")
        known = self.cache.get(job.tries).keys() | self.cache.failures(job.tries).keys()
        for key, tries in job.tries.items():
            if key not in known and not (key in lines and self._settle(job, key, lines[key])):
                self.tries[key] = tries + 1
                if tries + 1 >= self.llm.retry.tries:
                    self._fail(key, Unavailable("", "", f"no answer in {counted(tries + 1, 'batch', 'batches')}"))

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
        elif is_refusal(outcome.text):
            self._fail(key, Refused("", "", f"the model refused: {outcome.text[:80]!r}"))
        else:
            self.settled[key] = outcome
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
                parts, size = [*parts, {}], 0
            parts[-1][key], size = line, size + len(line)
        at_most = [sum(self._at_most(requests[key]) for key in part) for part in parts]
        if parts:
            self.llm.budget.check(sum(at_most) + sum(job.at_most for job in jobs_of(self.cache) if job not in ended))
        for part, most in zip(parts, at_most, strict=True):
            tries = {key: self.tries.get(key, 0) for key in part}
            self.waiting.append(self._begin(requests[next(iter(part))].stage, tries, most, b"".join(part.values())))

    def _begin(self, stage: str, tries: dict[str, int], at_most: float, content: bytes) -> Waiting:
        """Send a batch. It is noted before it is created, so that it is sent once, wherever the process is killed."""
        name = uuid4().hex
        file = self._asked(lambda client: client.files.create(file=(f"{name}.jsonl", content), purpose="batch"))
        asked: Any = {"input_file_id": file.id, "completion_window": "24h", "endpoint": ENDPOINT, "metadata": {MARK: name}}
        job = Job(str(folder_of(self.cache) / f"{name}.json"), stage, tries, at_most, time.time())
        job.keep()
        try:
            made: Any = self.backend.call(lambda client: client.batches.create(**asked), NOBODYS)
        except Transient:  # nobody knows whether it was created
            return job.waits()
        except FatalLLMError as error:
            made = error
        if isinstance(made, LLMFailure | FatalLLMError):
            job.remove()
            raise FatalLLMError(made.reason)
        job.batch = made.id
        job.keep()
        return job.waits(made)

    def _at_most(self, request: Request) -> float:
        if self.llm.budget.limit is None:
            return 0.0
        most = {**self.backend.identity["params"], **request.params}.get("max_tokens")
        if most is None:
            raise FatalLLMError("a budget for batches needs max_tokens=...: a batch can't be stopped, so its cost must be bounded before")
        prompt = sum(len(message["content"]) for message in request.messages) // CHARACTERS_PER_TOKEN
        return self.llm.budget.price(prompt, most) or 0.0

    def _asked(self, work: Callable[[Any], Any]) -> Any:
        """What the provider answers.

        Raises:
            FatalLLMError: when it refuses for good, or after all retries.
        """
        try:
            found = self.llm.retry.loop(Event())(self.backend.call, work, NOBODYS)
        except (Transient, FatalLLMError) as error:
            found = error
        if isinstance(found, LLMFailure | Transient | FatalLLMError):
            raise FatalLLMError(f"{found.reason}; or omit batch=on; or {self.instead}")
        return found
