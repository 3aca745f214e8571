"""Batches of requests, answered within a day for half the price.

Requests are sent as a file, and the results of a batch fill the cache.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the
window is ``24h``, a listing begins with the newest batch) and its guide "Batch API" (the lines of a
result file are in any order; a batch that expired or was cancelled has its answers in the result
file, and they are paid). A batch that exceeds what the account may have enqueued fails with
``token_limit_exceeded`` (openai/openai-python#2084, #1643): it waits for the others under way, and
if there are none, half of it is sent and then the rest.

A file beside the cache lists the batches under way (`Job`). A batch is listed before it is created,
so that it is sent once, wherever the process is killed. It stays in the list until its results are
in the cache, and its requests without an answer are in another batch.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, cast

from ..completions.usable import is_refusal
from ..errors import counted
from ..store.files import atomic_write
from .cache import CompletionCache
from .failures import (
    NOT_SENT,
    BadRequest,
    BatchUnderWay,
    FatalLLMError,
    LLMFailure,
    Refused,
    StageEnded,
    Transient,
    Unavailable,
    UnknownMark,
    Waiting,
)
from .openai import quoted
from .refusals import real_status
from .request import NoCompletionError, Reply, Request
from .sending import Outcome, Sending

ENDPOINT = "/v1/chat/completions"
REQUESTS, BYTES = 50_000, 200_000_000
"""The most in one file."""
ENDED = ("completed", "failed", "expired", "cancelled")
"""What a batch is in the end."""
FULL = "token_limit_exceeded"
"""The error of a batch that exceeds the tokens that the account may have enqueued."""
PER_MESSAGE, PER_CHAT = 3, 3
"""The tokens of a chat beside its texts: OpenAI's cookbook, "How to count tokens with tiktoken"."""
SETTLED = 60.0
"""Seconds after which a batch whose creation was interrupted is listed, if it was created."""


ACCOUNT_FULL = (
    "the account's limit of enqueued tokens is reached, "
    "they follow when its other batches have ended"
)
INTERRUPTED = "its creation was interrupted: the provider lists it in a minute, if it was created"


@dataclass
class Job:
    """A batch that was sent, or is about to be.

    Attributes:
        file: the provider's id of the file with its requests, which no other batch has.
        stage: the operator that asks.
        keys: the cache keys of its requests.
        tried: the number of batches in which these requests failed.
        at_most: US dollars that it may cost; 0 without a budget.
        begun: when it was about to be created, in seconds since the epoch.
        batch: the provider's id of it, once that is known.
        status: how far it was when it was last looked at.
        renamed: whether its requests say ``max_completion_tokens``, as this server wants.
        most: how many requests a batch may have now, and one batch at a time; 0 until the account's
            limit was reached.
    """

    file: str
    stage: str
    keys: list[str]
    tried: int
    at_most: float
    begun: float
    batch: str = ""
    status: str = INTERRUPTED
    most: int = 0
    renamed: bool = False

    def note(self, batch: Any) -> None:
        """Note what the provider says about it."""
        self.batch = batch.id
        self.status = batch.status.replace("_", " ")
        counts = batch.request_counts
        if counts and counts.total:
            self.status += f", {counts.completed + counts.failed} of {counts.total} done"


def list_path(cache: CompletionCache) -> Path:
    """The file that lists the batches of a cache."""
    return Path(f"{cache.path}.batches")


def jobs_of(cache: CompletionCache) -> list[Job]:
    """The batches of a cache, in the order in which they were sent."""
    path = list_path(cache)
    if not path.exists():
        return []
    return [Job(**job) for job in json.loads(path.read_bytes())]


def keep_jobs(cache: CompletionCache, jobs: Sequence[Job]) -> None:
    """Write the list of batches."""
    with atomic_write(list_path(cache)) as file:
        json.dump([vars(job) for job in jobs], file)


def most_tokens(request: Request) -> int:
    """The most tokens that a prompt can have, in any script: a token holds one byte or more.

    Example:
        >>> tea = "\N{CJK UNIFIED IDEOGRAPH-8336}"
        >>> most_tokens(Request([{"role": "user", "content": tea * 10}], "answer", "1_1"))
        40
    """
    texts = [text for message in request.messages for text in message.values()]
    if request.structure is not None:
        texts.append(json.dumps(request.structure.schema))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size + PER_MESSAGE * len(request.messages) + PER_CHAT


class BatchSending(Sending):
    """Sends requests as batches and collects their results.

    It works round by round: first the initial requests, then their follow-ups.
    """

    def send(self, fresh: dict[str, Request]) -> None:
        """Collect the outcome of each request, and of its follow-ups.

        Raises:
            BatchUnderWay: when some of them wait in batches now.
            FatalLLMError: when a batch failed, or none can be sent.
            BudgetExceeded: when a batch may cost more than is left. It isn't sent.
        """
        from filelock import FileLock  # its import takes a while

        self.cache = self.llm.cache
        self.backend = self.llm.backend
        path = list_path(self.cache)
        self.instead = (
            f"or omit batch=on; or remove {path} to ask, and pay for, all that is under way again"
        )
        with FileLock(f"{path}.lock"):  # one process sends or collects
            self.jobs = jobs_of(self.cache)
            self.most = min((job.most for job in self.jobs if job.most), default=0)
            self.has_sent = False
            try:
                while fresh:
                    fresh = self._add(self._give(self._round(fresh)))
            except StageEnded as error:
                done = len(self.cache.get(fresh))
                raise error.after(done, len(fresh) - done, self.llm.kept_in) from None
        waiting = self._still_waiting()
        if waiting:
            raise BatchUnderWay(waiting)

    def _still_waiting(self) -> list[Waiting]:
        """The batches that hold requests of this call, and the requests that are not sent yet."""
        requests = self.waiters.waiting
        waiting = list[Waiting]()
        unsent = set(requests)
        for job in self.jobs:
            if requests.keys() & job.keys:
                unsent.difference_update(job.keys)
                name = job.batch or "not confirmed yet"
                waiting.append(Waiting(job.stage, len(job.keys), name, job.status))
        if unsent:
            _position, request = requests[min(unsent)][0]
            waiting.append(Waiting(request.stage, len(unsent), NOT_SENT, ACCOUNT_FULL))
        return waiting

    def _round(self, fresh: dict[str, Request]) -> dict[str, Outcome]:
        """Return the outcomes that are there, and send the requests that are in no batch."""
        self.fresh = fresh
        self.settled = dict[str, Outcome]()
        for job in list(self.jobs):
            if fresh.keys() & job.keys:
                self._look_at(job)
        outcomes: dict[str, Outcome] = self.llm.kept(fresh)
        for key, outcome in self.settled.items():  # what was just paid for is no repetition
            if key in fresh:
                outcomes[key] = outcome
        missing = [key for key in fresh if key not in outcomes]
        for key, failure in self.cache.failures(missing).items():
            outcomes[key] = self._again(key, fresh[key], failure)
        in_batches = {key for job in self.jobs for key in job.keys}
        self._send([key for key in fresh if key not in outcomes and key not in in_batches])
        keep_jobs(self.cache, self.jobs)
        return outcomes

    def _look_at(self, job: Job) -> None:
        """Ask for the state of a batch, and do what follows from it."""
        if job.renamed:
            self.backend.completion_limit = True
        batch = self._batch_of(job)
        if batch is None:
            if time.time() - job.begun >= SETTLED:
                self.jobs.remove(job)  # it was never created
        elif batch.status == "failed":
            self._failed(job, batch)
        elif batch.status in ENDED:
            self._ended(job, batch)
        else:
            job.note(batch)

    def _batch_of(self, job: Job) -> Any:
        """The provider's batch of a job; None if it lists none."""
        if job.batch:
            return self._ask_provider(lambda client: client.batches.retrieve(job.batch))
        newest = self._ask_provider(lambda client: list(client.batches.list(limit=100)))
        for batch in newest:
            if batch.input_file_id == job.file:
                return batch
        return None

    def _failed(self, job: Job, batch: Any) -> None:
        """Send less than a batch that exceeds the account's limit, once nothing else is under way.

        Raises:
            FatalLLMError: if it was refused for another reason, or can't be less.
        """
        self.jobs.remove(job)
        keep_jobs(self.cache, self.jobs)
        errors = (batch.errors and batch.errors.data) or []
        why = quoted("; ".join(f"{error.message} ({error.code})" for error in errors))
        codes = {error.code for error in errors}
        if codes != {FULL}:
            raise FatalLLMError(
                f"{batch.id} of {counted(len(job.keys), 'request')} was refused: {why}"
            )
        self.most = len(job.keys)
        if not self._is_busy():
            if self.most == 1:
                raise FatalLLMError(
                    f"the account has no room for even one request of {job.stage} in a batch "
                    f"({batch.id}: {why}): wait until its other batches have ended, "
                    "or omit batch=on"
                )
            self.most //= 2
        self._send(job.keys, job.tried)

    def _is_busy(self) -> bool:
        """Whether another batch of this cache is under way."""
        return any(not job.batch or self._batch_of(job).status not in ENDED for job in self.jobs)

    def _ended(self, job: Job, batch: Any) -> None:
        """Keep the results of a batch, and send again what it left without an answer.

        Raises:
            FatalLLMError: if there are fewer results than the batch says.
        """
        lines = self._results_of(job, batch)
        known = {**self.cache.get(job.keys), **self.cache.failures(job.keys)}
        left = []
        for key in job.keys:
            if key not in known and not self._settle(job, key, lines.get(key, {})):
                left.append(key)
        if job.tried + 1 >= self.llm.retry.tries:
            self._give_up_on(job, left)
            left = []
        self.jobs.remove(job)
        self._send(left, job.tried + 1)

    def _give_up_on(self, job: Job, keys: Sequence[str]) -> None:
        """Keep as failed what no batch has answered."""
        reason = f"no answer in {counted(job.tried + 1, 'batch', 'batches')}"
        for key in keys:
            self.count(job.stage, self.llm.model, key=key, unanswered=1, retries=job.tried)
            self.cache.put_failure(key, Unavailable("", "", reason))

    def _results_of(self, job: Job, batch: Any) -> dict[str, Any]:
        """The results of an ended batch, by key.

        Raises:
            FatalLLMError: if there are fewer than the batch says.
        """
        lines = dict[str, Any]()
        for file in (batch.output_file_id, batch.error_file_id):  # answers come first
            if file:
                for line in self._lines_in(file):
                    lines.setdefault(line["custom_id"], line)
        number = len(lines.keys() & set(job.keys))
        counts = batch.request_counts
        if counts:
            expected = counts.completed + counts.failed
        elif batch.status == "completed":
            expected = len(job.keys)
        else:
            expected = 0
        if number < expected:
            raise FatalLLMError(
                f"{batch.id} is {batch.status}, and its files of results have {number} of "
                f"{len(job.keys)} that can be read: run again later, when the provider may have "
                f"written them in full; {self.instead}"
            )
        return lines

    def _lines_in(self, file: str) -> list[dict[str, Any]]:
        """The lines of a file of results that name their request."""
        content = self._ask_provider(lambda client: client.files.content(file).content)
        lines = []
        for text in content.split(b"\n"):
            with suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                    lines.append(line)
        return lines

    def _settle(self, job: Job, key: str, line: Mapping[str, Any]) -> bool:
        """Keep a result. Returns False if another batch may bring an answer."""
        request = self.fresh.get(key, Request([], job.stage, ""))
        try:
            reply = self._read(request, line)
        except NoCompletionError as error:
            for paid in error.paid:
                self.llm.pay(key, request, paid, 0.0, self.count, usable=False)
            return False
        except Transient:
            return False
        counts = {"retries": job.tried}
        counts["unanswered" if isinstance(reply, LLMFailure) else "calls"] = 1
        outcome = self.llm.settle(key, request, reply, 0.0, self.count, **counts)
        if isinstance(outcome, UnknownMark):  # the completion is kept
            self.settled[key] = outcome
        elif isinstance(outcome, LLMFailure):
            self.settled[key] = self.cache.put_failure(key, outcome)
        elif is_refusal(outcome.text):
            refusal = f"the model refused: {outcome.text[:80]!r}"
            self.cache.put_failure(key, Refused("", "", refusal))
        else:
            self.settled[key] = outcome
        return True

    def _read(self, request: Request, line: Mapping[str, Any]) -> Reply | LLMFailure:
        """The reply in a result.

        Raises:
            NoCompletionError: when it holds no completion.
            Transient: when another batch may bring an answer.
        """
        response = line.get("response") or {}
        status = response.get("status_code") or 500
        body = response.get("body")
        if status == 200:
            return Reply.of(body)
        error = body.get("error", body) if isinstance(body, dict) else body
        try:
            return cast(LLMFailure, self.backend.refused(request, status, error, {}))
        except FatalLLMError as fatal:
            if real_status(status, error) in (401, 402):
                # The key or the credit may be repaired until the next batch.
                raise Transient(None, fatal.reason) from None
            return BadRequest(request.stage, request.qid, fatal.reason)

    def _send(self, keys: Sequence[str], tried: int = 0) -> None:
        """Send requests in as few batches as the provider allows, without those not asked now.

        Where the account's limit was reached, only as many as it takes, and only if nothing else is
        under way.
        """
        asked_now = [key for key in keys if key in self.fresh]
        if self.most:
            if not asked_now or self.has_sent or self._is_busy():
                return
            asked_now = asked_now[: self.most]
        lines = dict[str, bytes]()
        size = 0
        for key in asked_now:
            line = self._line_of(key)
            if lines and (len(lines) == REQUESTS or size + len(line) > BYTES):
                self._begin(lines, tried)
                lines = {}
                size = 0
            lines[key] = line
            size += len(line)
        if lines:
            self._begin(lines, tried)

    def _line_of(self, key: str) -> bytes:
        """The line of a request in the file of a batch."""
        line = {
            "custom_id": key,
            "method": "POST",
            "url": ENDPOINT,
            "body": self.backend.body(self.fresh[key]),
        }
        return json.dumps(line).encode() + b"\n"

    def _begin(self, lines: Mapping[str, bytes], tried: int) -> None:
        """Send a batch, if the budget allows."""
        requests = [self.fresh[key] for key in lines]
        at_most = sum(map(self._at_most, requests))
        self.llm.budget.check(at_most + sum(job.at_most for job in self.jobs))
        upload = ("requests.jsonl", b"".join(lines.values()))
        file = self._ask_provider(lambda client: client.files.create(file=upload, purpose="batch"))
        job = Job(
            file.id,
            requests[0].stage,
            list(lines),
            tried,
            at_most,
            time.time(),
            most=self.most,
            renamed=self.backend.completion_limit,
        )
        self.has_sent = True
        self.jobs.append(job)
        keep_jobs(self.cache, self.jobs)
        options: Any = {"input_file_id": file.id, "completion_window": "24h", "endpoint": ENDPOINT}
        try:
            job.note(self.backend.result(lambda client: client.batches.create(**options)))
        except FatalLLMError:
            self.jobs.remove(job)
            raise
        except Transient:
            return  # nobody knows whether it was created
        finally:
            keep_jobs(self.cache, self.jobs)

    def _at_most(self, request: Request) -> float:
        """US dollars that a request costs at most. Without a budget, it need not be known."""
        most = {**self.backend.identity["params"], **request.params}.get("max_tokens")
        if most is None and self.llm.budget.limit is not None:
            raise FatalLLMError(
                "a budget for batches needs max_tokens=...: a batch can't be stopped, "
                "so its cost must be bounded before"
            )
        return self.llm.budget.price(most_tokens(request), most) or 0.0

    def _ask_provider(self, work: Callable[[Any], Any]) -> Any:
        """What the provider answers.

        Raises:
            FatalLLMError: when it refuses for good, or after all retries.
        """
        try:
            return self.llm.retry.loop(Event())(self.backend.result, work)
        except (Transient, FatalLLMError) as error:
            raise FatalLLMError(f"{error.reason}; {self.instead}") from None
