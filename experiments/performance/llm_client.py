"""The CPU seconds of a call to a language model, of ours, the openai client and litellm.

    python experiments/performance/bench.py llm_client

The server is that of ``llm_stage.py``: 332 calls, 32 at a time, answered after 200 to 800 ms. Each
client sends them in a separate process, from 32 threads, after one call that doesn't count. Our
keys, retries and cache are on. litellm is measured if it is installed; it is not a dependency. The
limit is 0, because the task itself doesn't need a client.
"""

import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

from bench import Row
from llm_stage import ALLOWED, CALLS, PROCESSES, PROMPT, _alone

MESSAGES = [{"role": "user", "content": PROMPT}]


def rows() -> Iterator[Row]:
    """Ours compared with each other client that is installed."""
    ways: dict[str, Callable[[str], float]] = {"the openai client": by_openai}
    if find_spec("litellm"):
        ways["litellm"] = by_litellm
    others = {name: _median(work) for name, work in ways.items()}
    yield Row(
        f"LLM client, one call of {CALLS}, {ALLOWED} at a time",
        _median(ours_of),
        others,
        unit="ms of CPU",
    )


def _median(work: Callable[[str], float]) -> float:
    return statistics.median(_alone(work) for _ in range(PROCESSES))


def ours_of(url: str) -> float:
    """The CPU seconds of a call with this package, including the cache and the ledger."""
    import pyterrier_ikat as ikat
    from pyterrier_ikat.llms import Request

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
    ):  # the progress bars
        model = ikat.llm(f"openai:m base_url={url} cache={folder}/llm.sqlite")
        model.open()
        model.ask([Request(MESSAGES, "first", "0_1")])
        requests = [
            Request(MESSAGES, "stage", f"{number}_1", sample=number) for number in range(CALLS)
        ]
        taken = _cpu(lambda: model.ask(requests))
        model.close()
    return taken


def by_openai(url: str) -> float:
    """The same with the openai client."""
    import openai

    client = openai.OpenAI(api_key="none", base_url=url, max_retries=5)
    return _threads(partial(client.chat.completions.create, model="m", messages=MESSAGES))  # type: ignore[call-overload]


def by_litellm(url: str) -> float:
    """The same with litellm."""
    import litellm

    litellm.suppress_debug_info = True
    return _threads(
        partial(
            litellm.completion,
            model="openai/m",
            messages=MESSAGES,
            api_base=url,
            api_key="none",
            num_retries=5,
        )
    )


def _threads(call: Callable[[], Any]) -> float:
    call()
    with ThreadPoolExecutor(ALLOWED) as pool:
        return _cpu(
            lambda: [future.result() for future in [pool.submit(call) for _ in range(CALLS)]]
        )


def _cpu(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) / CALLS
