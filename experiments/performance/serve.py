"""50 people talk to the method ``ad``, 20 turns each, with a model of 300 ms and 8 calls at a time.

    python experiments/performance/bench.py serve

The index has the bundled sample's passages; there is no re-ranker, because the load is on the server. The time of the model alone is
measured in the same run: the same number of calls, 8 at a time, without anything else. Each person's turns build on the answers before
them. An answer that is lost, for another person or about another turn is an error here, not a figure.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import pyterrier as pt
from bench import Row
from process_memory import held_mb

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import Limits, running
from pyterrier_ikat.llms import LLM, Backend, Reply, Request
from pyterrier_ikat.llms.cache import CompletionCache

PEOPLE, TURNS, EARLY = 50, 20, 5
SECONDS, AT_ONCE = 0.3, 8


class Slow(Backend):
    """Answers a question with its own words after 300 ms, 8 calls at a time."""

    model, identity = "slow", {"provider": "own", "model": "slow", "params": {}}
    concurrency = AT_ONCE

    def __init__(self) -> None:
        self.sizes: list[float] = []  # the megabytes of the process, call by call

    def complete(self, requests: list[Request]) -> list[Any]:
        """One reply per request."""
        self.sizes.append(held_mb())
        time.sleep(SECONDS)
        return [Reply(f"An answer to: {asked(request)}", self.model, "stop", 100, 50) for request in requests]


def asked(request: Request) -> str:
    """The newest question in a prompt."""
    found = re.findall(r"Person \d+ asks for walk number \d+ in the hills", "".join(message["content"] for message in request.messages))
    return max(found, key=lambda words: int(words.split()[6])) if found else ""


def rows() -> Iterator[Row]:
    """The whole load."""
    alone = model_alone(PEOPLE * TURNS)
    figures = under_load(PEOPLE, TURNS)
    seconds = figures.pop("seconds")
    task = f"{PEOPLE} people x {TURNS} turns of ad, served"
    yield Row(task, seconds, None, "", alone, f"the same calls, {AT_ONCE} at a time, in the same run", figures)


def model_alone(calls: int) -> float:
    """The seconds that the model needs for this number of calls."""
    llm = LLM(Slow())
    requests = [Request([{"role": "user", "content": str(number)}], "answer", f"1_{number}") for number in range(calls)]
    began = time.perf_counter()
    llm.ask(requests)
    return time.perf_counter() - began


def under_load(people: int, turns: int) -> dict[str, Any]:
    """Let all people talk. Returns the seconds, the memory and the longest wait."""
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(Path(folder) / "index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
        model = Slow()
        llm = LLM(model, cache=CompletionCache(Path(folder) / "llm.sqlite"))
        with running("ad", llm=llm, retriever=index.bm25(), limits=Limits(workers=16, waiting=people)) as server:
            began = time.perf_counter()
            with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # otherwise the people's memory would count as the server's
                waits = apart.submit(talk_all, server.url, people, turns).result()
            seconds = time.perf_counter() - began
        counted = llm.ledger.frame()["calls"].sum()
        assert counted == people * turns, f"{counted} calls for {people * turns} turns"
    longest, sizes = sorted(waits), model.sizes
    shown = {"median turn in seconds": longest[len(longest) // 2], "longest turn": longest[-1]}
    memory = {f"MB after {EARLY} turns each": sizes[people * EARLY], "MB at the end": sizes[-1]}
    return {"seconds": seconds, **shown, **memory, "load average": os.getloadavg()[0]}


def talk_all(url: str, people: int, turns: int) -> list[float]:
    """Hold all conversations at the same time. Returns the seconds of each turn."""
    with ThreadPoolExecutor(people) as threads:
        return [wait for person in threads.map(partial(talk, url, turns), range(people)) for wait in person]


def talk(url: str, turns: int, person: int) -> list[float]:
    """Hold one person's conversation. Returns the seconds of each turn."""
    said: list[dict[str, str]] = []
    waits = []
    with httpx.Client(base_url=url, timeout=600) as client:
        for turn in range(turns):
            words = f"Person {person} asks for walk number {turn} in the hills"
            said.append({"role": "user", "content": words})
            began = time.perf_counter()
            answer = client.post("/v1/chat/completions", json={"model": "ad", "messages": said})
            waits.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert words in found["ikat"]["draft"], f"person {person} got {json.dumps(found['ikat'])[:300]}"
            assert found["citations"]
            said.append(found["choices"][0]["message"])
    return waits
