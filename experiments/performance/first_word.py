"""The wait for the first word of an answer, from the start of the last stage, against that of the model itself.

    python experiments/performance/bench.py first_word

An OpenAI-compatible server in a process of its own sends a token after 300 ms and then one every 20 ms. The reader is a client of
``ikat serve`` with ``stream_unchecked``; it waits from the moment it is told that the last stage begins. The limit is the same wait of a
client that asks the model itself. It is to be at most 1.2 times that.
"""

import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pyterrier as pt
from bench import Row
from llm_stage import running_server

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import running

SECONDS, TOKEN, TOKENS, QUESTIONS = 0.3, 0.02, 50, 15


def rows() -> Iterator[Row]:
    """The wait at the server, and at the model."""
    with running_server(typing) as url:
        limit = first_word(f"{url}/chat/completions", {"model": "typist"})
        served = first_word_served(url)
    why = "a client of the model's server, which sends the first token after 300 ms"
    task = "the first word of an answer from five passages, from the start of the last stage"
    yield Row(task, served, None, "", limit, why, {"load average": os.getloadavg()[0]})


def typing(pipe: Connection) -> None:
    """Serve a model that types: its first token comes after 300 ms, others follow every 20 ms."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head.lower())[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(SECONDS)
        with suppress(ConnectionError):  # the reader has seen enough
            for place in range(TOKENS):
                chunk = {"model": "typist", "choices": [{"index": 0, "delta": {"content": f"word{place} "}, "finish_reason": None}]}
                writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
                await writer.drain()
                await asyncio.sleep(TOKEN)
            writer.write(b'data: {"model": "typist", "choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')
        writer.close()

    async def go() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        await server.serve_forever()

    asyncio.run(go())


def first_word_served(url: str) -> float:
    """Median seconds from the start of the last stage to the first word, for a client of ``ikat serve``.

    The last stage is a response from five passages that the model is asked to cite, as in a chat.
    """
    llm = ikat.llm(f"openai:typist base_url={url} cache=none")
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(Path(folder) / "index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
        with running({"mine": index.bm25() % 5 >> ikat.Respond(llm, passages=5)}) as server:
            return first_word(f"{server.url}/v1/chat/completions", {"model": "mine", "stream_unchecked": True}, after='"answering')


def first_word(url: str, body: dict[str, Any], after: str = "") -> float:
    """Median seconds until the first word, from the request or from the step ``after``; the first question, which connects, is left out."""
    found = list[float]()
    with httpx.Client(timeout=60) as client:
        for number in range(QUESTIONS + 1):
            asked = {**body, "stream": True, "messages": [{"role": "user", "content": f"Which walk is number {number}?"}]}
            began = time.perf_counter()
            with client.stream("POST", url, json=asked) as answer:
                for line in answer.iter_lines():
                    began = time.perf_counter() if after and after in line else began
                    if "word0" in line:
                        found.append(time.perf_counter() - began)
                        break
    return statistics.median(found[1:])
