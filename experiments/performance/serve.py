"""50 people talk to a server, 20 turns each, and read answers as they are written; 10,000 requests.

    python experiments/performance/bench.py serve

The model is an OpenAI-compatible server in a process of its own. It writes 8 answers at a time: a
first token after 300 ms, then one every 10 ms. The system is ``index.bm25() % 10 >>
ikat.Respond(llm)`` over the bundled sample's passages, which asks it once in a turn. The readers
are a third process.

What the model alone needs is measured with the same readers, who then ask the model's server
itself. The two ways take turns, 5 turns of all conversations each, so that other work on the
machine slows down both. Each person's turns build on the answers before them. An answer that is
lost, for another person or about another turn is an error here, not a figure.

The clients at once are 50 connections that ask 50 workers at the same moment, where a call of the
model takes 2 s and nothing is searched. All are to be answered within 2.4 s.

The 10,000 requests are answers as they are written, checked streams, whole answers, searches, wrong
requests, and clients that leave. The model answers at once. Searches in memory are bounded with 4
MiB, so that the first 2,000 requests fill it, and that of a server's account as well. More threads
or descriptors at the end than after these is an error here.
"""

import asyncio
import gc
import json
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pyterrier as pt
from bench import Row
from llm_stage import running_server
from process_memory import held_mb

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import running
from pyterrier_ikat.store.cache import open_cache

PEOPLE = 50
TURNS = 20
ROUNDS = 4
FIRST = 0.3
TOKEN = 0.01
AT_ONCE = 8
WAITS = ("until the first word", "of a turn")
REQUESTS = 10_000
WARM = 2_000
READERS = 20
MEMORY = 4 << 20
OF_WORDS = 1000
"""Numbers in the questions: each new word takes one of 65,536 places in the memory of stems."""
MODEL = "typist"
CALL = 2.0
REST = " [1]. All of them begin at a village, and a bus goes back."
Said = list[dict[str, str]]


def rows() -> Iterator[Row]:
    """The load and the soak."""
    with running_server(partial(typing, FIRST, TOKEN)) as model, serving(model) as served:
        direct, ours, load = apart(talk_in_turns, (model, f"{served}/v1"))
        more = {f"median seconds {what}": ours[what] for what in WAITS}
        for what in WAITS:
            more[f"{what}, from the model itself"] = direct[what]
        more["load average"] = load
        yield Row(
            f"serving, {PEOPLE} people, {TURNS} turns each",
            ours["seconds"],
            limit=direct["seconds"],
            more=more,
        )
    with running({MODEL: ikat.Answer(ikat.llm(Slow()))}, workers=PEOPLE) as at_once:
        seconds = apart(ask_at_once, at_once.url)
        yield Row(f"serving, {PEOPLE} clients at once, a call of {CALL:.0f} s", seconds, limit=CALL)
    with running_server(partial(typing, 0, 0)) as model, serving(model) as served:
        seconds, figures = soak(served)
        yield Row(f"serving, {REQUESTS:,} requests, {READERS} at a time", seconds, more=figures)


def typing(first: float, token: float, pipe: Connection) -> None:
    """Serve a model that types: its first token after ``first`` seconds, others after ``token``."""
    room = asyncio.Semaphore(AT_ONCE)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the reader has seen enough
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                [length] = re.findall(rb"content-length: (\d+)", head.lower())
                body = json.loads(await reader.readexactly(int(length)))
                async with room:
                    await write(writer, body)
        writer.close()

    async def write(writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        prompt = "".join(message["content"] for message in body["messages"])
        words = re.findall(r"\s*\S+", answer_to(question_in(prompt)))
        await asyncio.sleep(first)
        if not body.get("stream"):
            await asyncio.sleep(token * len(words))
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(words)},
                "finish_reason": "stop",
            }
            data = json.dumps({"model": MODEL, "choices": [choice]}).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(data), data)
            )
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for word in words:
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
            send(writer, {"model": MODEL, "choices": [choice]})
            await writer.drain()
            await asyncio.sleep(token)
        choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
        send(writer, {"model": MODEL, "choices": [choice]})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def send(writer: asyncio.StreamWriter, chunk: dict[str, Any]) -> None:
        data = f"data: {json.dumps(chunk)}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def go() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
        pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        await server.serve_forever()

    asyncio.run(go())


class Slow:
    """A model whose call takes 2 s."""

    def generate(self, chats: list[Said]) -> list[str]:
        """The end of each chat."""
        time.sleep(CALL)
        return [f"An answer to: {chat[-1]['content'][-40:]}" for chat in chats]


def ask_at_once(url: str) -> float:
    """Seconds until all clients, who ask at the same moment, have their own answers."""
    host, port = url.removeprefix("http://").split(":")

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> str:
        message = {"role": "user", "content": f"Who is {number}?"}
        content = json.dumps({"messages": [message]}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
            "Content-Type: application/json\r\n"
        )
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answered = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: (\d+)", answered.lower())
        answer = json.loads(await reader.readexactly(int(length)))
        return str(answer["choices"][0]["message"]["content"])

    async def go() -> float:
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(PEOPLE)]
        began = time.perf_counter()
        asking = [ask(*streams, number) for number, streams in enumerate(opened)]
        answers = await asyncio.gather(*asking)
        seconds = time.perf_counter() - began
        assert all(f"Who is {number}?" in answer for number, answer in enumerate(answers))
        return seconds

    return asyncio.run(go())


def question_of(person: int, turn: int) -> str:
    """What a person asks in a turn."""
    return f"Person {person} asks for walk number {turn} in the hills"


def question_in(prompt: str) -> str:
    """The newest question in a prompt."""
    found = re.findall(r"Person \d+ asks for walk number \d+ in the hills", prompt)
    return max(found, key=lambda words: int(words.split()[6])) if found else ""


def answer_to(question: str) -> str:
    """What the model writes."""
    return f"An answer to: {question}{REST}"


@contextmanager
def serving(model: str) -> Iterator[str]:
    """The address of a server over the model's, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
        index = ikat.PassageIndex(Path(folder) / "index").index(passages)
        llm = ikat.llm(f"openai:{MODEL} base_url={model} cache={folder}/llm.sqlite")
        with running({MODEL: index.bm25() % 10 >> ikat.Respond(llm)}) as server:
            yield server.url


def apart(work: Callable[..., Any], *given: Any) -> Any:
    """The result of ``work`` in a process of its own.

    Else the readers' memory, threads and descriptors would count as the server's.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *given).result()


def talk_in_turns(urls: tuple[str, str]) -> tuple[dict[str, float], dict[str, float], float]:
    """Seconds of all conversations, until a first word and of a turn, for each address; the load.

    Those of words and turns are medians.
    """
    with (
        httpx.Client(timeout=600, limits=httpx.Limits(max_connections=None)) as client,
        ThreadPoolExecutor(PEOPLE) as threads,
    ):
        chats: list[list[Said]] = [[[] for _ in range(PEOPLE)] for _ in urls]
        waits: list[list[tuple[float, float]]] = [[], []]
        seconds = [0.0, 0.0]
        for _ in range(ROUNDS):
            for way, url in enumerate(urls):
                part = partial(talk, client, url, TURNS // ROUNDS)
                began = time.perf_counter()
                for of_person in list(threads.map(part, range(PEOPLE), chats[way])):
                    waits[way] += of_person
                seconds[way] += time.perf_counter() - began
    for chat in chats[0] + chats[1]:
        assert len(chat) == 2 * TURNS
    direct = figures_of(seconds[0], waits[0])
    ours = figures_of(seconds[1], waits[1])
    return direct, ours, os.getloadavg()[0]


def figures_of(seconds: float, waits: list[tuple[float, float]]) -> dict[str, float]:
    """The seconds of all conversations, and the medians of the waits."""
    figures = {"seconds": seconds}
    for part, what in enumerate(WAITS):
        figures[what] = statistics.median(wait[part] for wait in waits)
    return figures


def talk(
    client: httpx.Client, url: str, turns: int, person: int, said: Said
) -> list[tuple[float, float]]:
    """For some turns of one person's conversation, the seconds until the first word and the end."""
    waits = []
    for _ in range(turns):
        words = question_of(person, len(said) // 2)
        said.append({"role": "user", "content": words})
        began = time.perf_counter()
        first, text = read(client, url, said)
        waits.append((first - began, time.perf_counter() - began))
        assert text.startswith(f"An answer to: {words}"), f"person {person} got {text}"
        said.append({"role": "assistant", "content": text})
    return waits


def read(client: httpx.Client, url: str, said: Said, unchecked: bool = True) -> tuple[float, str]:
    """When the first word of an answer came, and the answer."""
    first = 0.0
    text = ""
    line = ""
    with client.stream("POST", f"{url}/chat/completions", json=body_of(said, unchecked)) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:]).get("choices", ()):
                text += choice["delta"].get("content") or ""
            if text and not first:
                first = time.perf_counter()
    assert text, line
    return first, text


def body_of(said: Said, unchecked: bool = True) -> dict[str, Any]:
    """A request that reads the answer as it is written, or without ``unchecked`` when checked."""
    return {"model": MODEL, "messages": said, "stream": True, "stream_unchecked": unchecked}


def soak(served: str) -> tuple[float, dict[str, float]]:
    """The seconds of all requests, and what the server holds after some of them and after all."""
    open_cache().max_bytes = MEMORY
    began = time.perf_counter()
    amounts: list[dict[str, float]] = []
    figures = {}
    for first, end in pairwise((0, WARM, (WARM + REQUESTS) // 2, REQUESTS)):
        apart(request_all, served, first, end)
        amounts.append(held())
        for name, value in amounts[-1].items():
            figures[f"{name} after {end:,}"] = value
    seconds = time.perf_counter() - began
    for name in ("threads", "descriptors"):
        assert amounts[-1][name] <= amounts[0][name], f"{name}: {amounts}"
    return seconds, figures


def held() -> dict[str, float]:
    """What this process holds, once the connections of readers who left are closed."""
    time.sleep(2)
    gc.collect()
    return {
        "MB": held_mb(),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def request_all(served: str, first: int, end: int) -> None:
    """Send the requests of these numbers."""
    with (
        httpx.Client(base_url=served, timeout=60) as client,
        ThreadPoolExecutor(READERS) as threads,
    ):
        list(threads.map(partial(request, client), range(first, end)))


def request(client: httpx.Client, number: int) -> None:
    """Send one request, of the kind that its number says, and check what comes back."""
    person = number % OF_WORDS
    turn = 2 * (number // OF_WORDS)
    before = question_of(person, turn)
    asked = question_of(person, turn + 1)
    said = [
        {"role": "user", "content": before},
        {"role": "assistant", "content": answer_to(before)},
        {"role": "user", "content": asked},
    ]
    address = "/v1/chat/completions"
    body = body_of(said)
    kind = number % 10
    if kind < 5:
        _, text = read(client, "/v1", said, unchecked=kind > 0)
        assert text.startswith(f"An answer to: {asked}")
    elif kind < 7:
        answer = client.post(address, json=body | {"stream": False}).raise_for_status().json()
        assert asked in answer["ikat"]["response"]
    elif kind == 7:
        found = client.post("/search", json={"queries": [asked]}).raise_for_status().json()
        assert found["results"][0]["passages"]
    elif kind == 8:
        assert client.post(address, json={"model": MODEL, "messages": asked}).status_code == 400
    else:
        with client.stream("POST", address, json=body) as stream:
            next(stream.iter_lines())
