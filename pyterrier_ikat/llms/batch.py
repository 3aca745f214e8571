"""Batches: requests are sent as a file, which the provider answers within a day for half the price. Its results fill the cache.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the
window is ``24h``, a listing begins with the newest batch) and its guide "Batch API" (the lines of a
result file are in any order; a batch that expired or was cancelled has its answers in the result
file, and they are paid). A batch that exceeds what the account may have enqueued fails with
``token_limit_exceeded`` (openai/openai-python#2084, #1643): it waits for the others under way, and
if there are none, half of it is sent and then the rest.

A file beside the cache lists the batches under way (`Job`). A batch is listed there before it is
created, so that it is sent once, wherever the process is killed, and until its results are in the
cache and what it left without an answer is in a batch that follows.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

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
"""The tokens that a chat has beside its texts: OpenAI's cookbook, "How to count tokens with tiktoken"."""
SETTLED = 60.0
"""Seconds after which a batch whose creation was interrupted is listed, if it was created."""


@dataclass
class Job:
    """A batch that was sent, or is about to be.

    Attributes:
        file: the provider's id of the file with its requests, which no other batch has.
        stage: the operator that asks.
        keys: the cache keys of its requests.
        tried: how many batches have left these requests without an answer.
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
    status: str = (
        "its creation was interrupted: the provider lists it in a minute, if it was created"
    )
    most: int = 0
    renamed: bool = False

    def told(self, batch: Any) -> None:
        """Note what the provider says about it."""
        counts = batch.request_counts
        done = (
            f", {counts.completed + counts.failed} of {counts.total} done"
            if counts and counts.total
            else ""
        )
        self.batch, self.status = batch.id, batch.status.replace("_", " ") + done


def place_of(cache: CompletionCache) -> Path:
    """The file that lists the batches of a cache."""
    return Path(f"{cache.path}.batches")


def jobs_of(cache: CompletionCache) -> list[Job]:
    """The batches of a cache, in the order in which they were sent."""
    place = place_of(cache)
    return [Job(**job) for job in json.loads(place.read_bytes())] if place.exists() else []


def keep_jobs(cache: CompletionCache, jobs: Sequence[Job]) -> None:
    """Write the list of batches."""
    with atomic_write(place_of(cache)) as file:
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
    """Sends requests as batches and collects their results, round by round: first the initial requests, then their follow-ups."""

    def send(self, fresh: dict[str, Request]) -> None:
        """Collect the outcome of each request, and of its follow-ups.

        Raises:
            BatchUnderWay: when some of them wait in batches now.
            FatalLLMError: when a batch failed, or none can be sent.
            BudgetExceeded: when a batch may cost more than is left. It isn't sent.
        """
        from filelock import FileLock  # its import takes a while

        self.cache, self.backend, place = self.llm.cache, self.llm.backend, place_of(self.llm.cache)
        self.instead = (
            f"or omit batch=on; or remove {place} to ask, and pay for, all that is under way again"
        )
        with FileLock(f"{place}.lock"):  # one process sends or collects
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
        found = list[Waiting]()
        unsent = set(self._waiting)
        for job in self.jobs:
            if self._waiting.keys() & job.keys:
                unsent.difference_update(job.keys)
                found.append(
                    Waiting(job.stage, len(job.keys), job.batch or "not confirmed yet", job.status)
                )
        if unsent:
            (_, request), *_others = self._waiting[min(unsent)]
            full = "the account's limit of enqueued tokens is reached, they follow when its other batches have ended"
            found.append(Waiting(request.stage, len(unsent), NOT_SENT, full))
        return found

    def _round(self, fresh: dict[str, Request]) -> dict[str, Outcome]:
        """The outcomes of some requests, as far as their batches have ended. Those that no batch holds are sent."""
        self.fresh, self.settled = fresh, dict[str, Outcome]()
        for job in [job for job in self.jobs if fresh.keys() & job.keys]:
            self._look_at(job)
        outcomes: dict[str, Outcome] = self.llm.kept(fresh)
        outcomes.update(
            (key, one) for key, one in self.settled.items() if key in fresh
        )  # what was just paid for is no repetition
        for key, failure in self.cache.failures(
            [key for key in fresh if key not in outcomes]
        ).items():
            outcomes[key] = self._again(key, fresh[key], failure)
        there = {*outcomes, *(key for job in self.jobs for key in job.keys)}
        self._send([key for key in fresh if key not in there])
        keep_jobs(self.cache, self.jobs)
        return outcomes

    def _look_at(self, job: Job) -> None:
        """Look how far a batch is. One that has ended leaves the list."""
        self.backend.completion_limit |= job.renamed
        if job.batch:
            batch = self._asked(lambda client: client.batches.retrieve(job.batch))
        else:
            listed = self._asked(lambda client: list(client.batches.list(limit=100)))
            batch = next((one for one in listed if one.input_file_id == job.file), None)
        if batch is None:
            if time.time() - job.begun >= SETTLED:
                self.jobs.remove(job)  # it was never created
        elif batch.status == "failed":
            self.jobs.remove(job)
            keep_jobs(self.cache, self.jobs)
            self._refused(job, batch)
        elif batch.status in ("completed", "expired", "cancelled"):
            left = self._keep(job, batch)
            self.jobs.remove(job)
            self._send(left, job.tried + 1)
        else:
            job.told(batch)

    def _refused(self, job: Job, batch: Any) -> None:
        """Send less than a batch that exceeds the account's limit, once nothing else is under way.

        Raises:
            FatalLLMError: if it was refused for another reason, or can't be less.
        """
        errors = (batch.errors and batch.errors.data) or []
        why = quoted("; ".join(f"{one.message} ({one.code})" for one in errors))
        if not errors or any(one.code != FULL for one in errors):
            raise FatalLLMError(
                f"{batch.id} of {counted(len(job.keys), 'request')} was refused: {why}"
            )
        self.most = len(job.keys)
        if not self._is_busy():
            if self.most == 1:
                room = f"the account has no room for even one request of {job.stage} in a batch"
                raise FatalLLMError(
                    f"{room} ({batch.id}: {why}): wait until its other batches have ended, or omit batch=on"
                )
            self.most //= 2
        self._send(job.keys, job.tried)

    def _is_busy(self) -> bool:
        """Whether another batch of this cache is under way."""
        for job in self.jobs:
            if not job.batch:
                return True
            batch = self._asked(lambda client: client.batches.retrieve(job.batch))  # noqa: B023 - called at once
            if batch.status not in ENDED:
                return True
        return False

    def _keep(self, job: Job, batch: Any) -> list[str]:
        """Keep the results of an ended batch. Returns the requests that it left without an answer, if they may be asked again.

        Raises:
            FatalLLMError: if there are fewer results than the batch says.
        """
        lines = dict[str, Any]()
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):  # answers come first
            content = self._asked(lambda client: client.files.content(file).content)  # noqa: B023 - called at once
            for text in content.split(b"\n"):
                with suppress(ValueError, TypeError, KeyError):  # no result
                    lines.setdefault((line := json.loads(text))["custom_id"], line)
        counts, there = batch.request_counts, len(lines.keys() & {*job.keys})
        if there < (
            counts.completed + counts.failed
            if counts
            else len(job.keys) * (batch.status == "completed")
        ):
            told = f"{batch.id} is {batch.status}, and its files of results have {there} of {len(job.keys)} that can be read"
            raise FatalLLMError(
                f"{told}: run again later, when the provider may have written them in full; {self.instead}"
            )
        known = {**self.cache.get(job.keys), **self.cache.failures(job.keys)}
        left = [
            key
            for key in job.keys
            if key not in known and not self._settle(job, key, lines.get(key, {}))
        ]
        if job.tried + 1 < self.llm.retry.tries:
            return left
        for key in left:
            self.count(job.stage, self.llm.model, key=key, unanswered=1, retries=job.tried)
            self.cache.put_failure(
                key,
                Unavailable("", "", f"no answer in {counted(job.tried + 1, 'batch', 'batches')}"),
            )
        return []

    def _settle(self, job: Job, key: str, line: Mapping[str, Any]) -> bool:
        """Keep what a line says. Returns whether that is the end, and no other batch may bring an answer."""
        request, response = (
            self.fresh.get(key, Request([], job.stage, "")),
            line.get("response") or {},
        )
        status, body = response.get("status_code") or 500, response.get("body")
        said = body.get("error", body) if isinstance(body, dict) else body
        try:
            reply: Any = (
                Reply.of(body) if status == 200 else self.backend.refused(request, status, said, {})
            )
        except NoCompletionError as error:
            for paid in error.paid:
                self.llm.pay(key, request, paid, 0.0, self.count, usable=False)
            return False
        except Transient:
            return False
        except FatalLLMError as fatal:
            if real_status(status, said) in (
                401,
                402,
            ):  # the key or the credit may be repaired until the next batch
                return False
            reply = BadRequest(request.stage, request.qid, fatal.reason)
        sent = "unanswered" if isinstance(reply, LLMFailure) else "calls"
        outcome = self.llm.settle(
            key, request, reply, 0.0, self.count, **{sent: 1}, retries=job.tried
        )
        if isinstance(outcome, UnknownMark):  # the completion is kept
            self.settled[key] = outcome
        elif isinstance(outcome, LLMFailure):
            self.settled[key] = self.cache.put_failure(key, outcome)
        elif is_refusal(outcome.text):
            self.cache.put_failure(
                key, Refused("", "", f"the model refused: {outcome.text[:80]!r}")
            )
        else:
            self.settled[key] = outcome
        return True

    def _send(self, keys: Sequence[str], tried: int = 0) -> None:
        """Send requests in as few batches as the provider allows. Those that nobody asks for now are left out.

        Where the account's limit was reached, only as many as it takes, and only if nothing else is
        under way.
        """
        asked_now = [key for key in keys if key in self.fresh]
        if self.most:
            if not asked_now or self.has_sent or self._is_busy():
                return
            asked_now = asked_now[: self.most]
        lines, size = dict[str, bytes](), 0
        for key in asked_now:
            asked = {
                "custom_id": key,
                "method": "POST",
                "url": ENDPOINT,
                "body": self.backend.body(self.fresh[key]),
            }
            line = json.dumps(asked).encode() + b"\n"
            if lines and (len(lines) == REQUESTS or size + len(line) > BYTES):
                self._begin(lines, tried)
                lines, size = {}, 0
            lines[key], size = line, size + len(line)
        if lines:
            self._begin(lines, tried)

    def _begin(self, lines: Mapping[str, bytes], tried: int) -> None:
        """Send a batch, if the budget allows."""
        requests = [self.fresh[key] for key in lines]
        at_most = sum(map(self._at_most, requests))
        self.llm.budget.check(at_most + sum(job.at_most for job in self.jobs))
        file = self._asked(
            lambda client: client.files.create(
                file=("requests.jsonl", b"".join(lines.values())), purpose="batch"
            )
        )
        asked: Any = {"input_file_id": file.id, "completion_window": "24h", "endpoint": ENDPOINT}
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
        try:
            job.told(self.backend.result(lambda client: client.batches.create(**asked)))
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
                "a budget for batches needs max_tokens=...: a batch can't be stopped, so its cost must be bounded before"
            )
        return self.llm.budget.price(most_tokens(request), most) or 0.0

    def _asked(self, work: Callable[[Any], Any]) -> Any:
        """What the provider answers.

        Raises:
            FatalLLMError: when it refuses for good, or after all retries.
        """
        try:
            return self.llm.retry.loop(Event())(self.backend.result, work)
        except (Transient, FatalLLMError) as error:
            raise FatalLLMError(f"{error.reason}; {self.instead}") from None
