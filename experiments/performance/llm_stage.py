"""A stage of 332 calls to a model that answers in 200 to 800 ms and allows 32 calls at a time.

    python experiments/performance/bench.py llm_stage

The server is a separate process on this machine. Its delays are drawn with a fixed seed. Like the
hosted services, it refuses calls over its limit with 429 and ``Retry-After: 1``. Every figure is
the median over fresh processes, each with a fresh server.

The limit is a simulated client that costs nothing, has no import, and starts the next call when one
ends, with the server's own delays. The other client is ``openai`` from 32 threads, with retries but
without a cache. In both processes the clock of the first stage covers whatever is left to import,
the client and its connections; that of the later one covers the calls alone. The types of
interfaces that are not used here take most of the import of ``openai`` (0.4 to 1.1 s of CPU on the
machine of the figures). We import it on a thread while the pipeline is built: here a method over an
index of the sample, and its topics. `building the pipeline` is the time for that, and `loading the
client` what is left of the import then. Our first stage also needs the time in which only one call
is sent, because a wrong key must not be sent 32 times: 0.05 s if the server is on this machine, as
here, and 0.25 s elsewhere.
"""

import asyncio
import contextlib
import heapq
import io
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from bench import Row

CALLS, ALLOWED, SHORTEST, LONGEST, SEED = 332, 32, 0.2, 0.8, 1
PROCESSES, STAGES = 3, 2
SPAWN = multiprocessing.get_context("spawn")
COMPLETION = (
    b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", '
    b'"choices": [{"index": 0, "finish_reason": "stop", '
    b'"message": {"role": "assistant", "content": "a query of some words"}}], '
    b'"usage": {"prompt_tokens": 700, "completion_tokens": 14, "total_tokens": 714}}'
)
BUSY = (
    b'{"error": {"message": "too many requests", "type": "requests", '
    b'"code": "rate_limit_exceeded"}}'
)
PROMPT = "You are given a conversation and what is known about its user. " * 60


class Chat:
    """A chat server that answers after a random delay and refuses calls over its limit."""

    def __init__(self) -> None:
        self.delays, self.now = random.Random(SEED), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(
                    int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                )
                writer.write(await self.answer())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self) -> bytes:
        """One response, after its delay."""
        if self.now >= ALLOWED:
            return _response(b"429 Too Many Requests\r\nRetry-After: 1", BUSY)
        self.now += 1
        await asyncio.sleep(self.delays.uniform(SHORTEST, LONGEST))
        self.now -= 1
        return _response(b"200 OK", COMPLETION)


def _response(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


def _serve(pipe: Connection) -> None:
    async def forever() -> None:
        server = await asyncio.start_server(Chat().serve, "127.0.0.1", 0, backlog=256)
        pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        await server.serve_forever()

    asyncio.run(forever())


@contextlib.contextmanager
def running_server(serve: Callable[[Connection], None] = _serve) -> Iterator[str]:
    """The address of a server in its own process, which ``serve`` sends."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def rows() -> Iterator[Row]:
    """The first and a later stage of a process."""
    runs, others = zip(
        *((_alone(stages), _alone(stages_of_openai)) for _ in range(PROCESSES)), strict=True
    )
    for stage, name in enumerate(("first", "second")):
        figures = {
            name: statistics.median(run[stage][name] for run in runs) for name in runs[0][stage]
        }
        yield Row(
            f"LLM stage, {CALLS} calls, {ALLOWED} at a time, the {name} of a process",
            figures.pop("seconds"),
            {f"openai from {ALLOWED} threads": statistics.median(other[stage] for other in others)},
            as_they_come(delays(CALLS * (stage + 1))[CALLS * stage :]),
            more=figures,
        )


def stages(url: str) -> list[dict[str, float]]:
    """The figures of several stages of one model, the first one in a fresh process."""
    import pyterrier as pt

    import pyterrier_ikat as ikat

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
    ):  # the progress bars
        sample = pt.get_dataset("ikat:sample")
        ikat.PassageIndex(f"{folder}/index").index(sample.get_corpus_iter(verbose=False))
        started = time.perf_counter()
        model = ikat.llm(f"openai:m base_url={url} cache={folder}/llm.sqlite")
        _ = (
            ikat.methods.aqd(model, ikat.PassageIndex(f"{folder}/index").bm25()),
            sample.get_topics(),
        )
        built = time.perf_counter() - started
        found = [
            _stage(model, f"stage {number}") | {"building the pipeline (s)": built}
            for number in range(STAGES)
        ]
        model.close()
    return found


def _stage(model: Any, name: str) -> dict[str, float]:
    from pyterrier_ikat.llms import Completion, Request

    requests = [
        Request(
            [{"role": "user", "content": f"{PROMPT} {name}"}], name, f"{number}_1", sample=number
        )
        for number in range(CALLS)
    ]
    used, started = time.process_time(), time.perf_counter()
    model.open()
    loaded = time.perf_counter()
    completions = model.ask(requests)
    ended = time.perf_counter()
    return {
        "seconds": ended - started,
        "loading the client (s)": loaded - started,
        "CPU (ms per call)": (time.process_time() - used) / CALLS * 1e3,
        "refused": int(model.ledger.frame()["retries"].iloc[-1]),
        "lost": sum(not isinstance(completion, Completion) for completion in completions),
    }


def stages_of_openai(url: str) -> list[float]:
    """The seconds of several stages with the openai client, with a thread for each allowed call."""
    found = list[float]()
    started = time.perf_counter()
    import openai

    client = openai.OpenAI(api_key="none", base_url=url, max_retries=5)
    for stage in range(STAGES):
        messages: Any = [{"role": "user", "content": f"{PROMPT} stage {stage}"}]
        with ThreadPoolExecutor(ALLOWED) as pool:
            calls = [
                pool.submit(client.chat.completions.create, model="m", messages=messages)
                for _ in range(CALLS)
            ]
            for call in calls:
                call.result()
        ended = time.perf_counter()
        found, started = [*found, ended - started], ended
    return found


def as_they_come(delays: list[float]) -> float:
    """The end of the last call if each call begins as soon as a place is free."""
    ends = [0.0] * ALLOWED
    for delay in delays:
        heapq.heapreplace(ends, ends[0] + delay)
    return max(ends)


def delays(calls: int) -> list[float]:
    """The first delays that the server draws."""
    drawn = random.Random(SEED)
    return [drawn.uniform(SHORTEST, LONGEST) for _ in range(calls)]


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    with running_server() as url, SPAWN.Pool(1) as pool:
        found = pool.apply(work, (url, *arguments))
        pool.close()
        pool.join()
    return found
