"""Clients that leave: the call under way is kept, no later stage asks, and the place is free."""

import json
import logging
import socket
import threading
from contextlib import contextmanager
from functools import partial

import anyio
import httpx
import pytest
from talking import Talks, events, says

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import running, streaming
from pyterrier_ikat.llms import Backend
from pyterrier_ikat.llms.request import Reply
from pyterrier_ikat.runs.log import Log

LONG = 60
WAYS = {
    "whole": ("/v1/chat/completions", {}),
    "streamed": ("/v1/chat/completions", {"stream": True}),
    "unchecked": ("/v1/chat/completions", {"stream": True, "stream_unchecked": True}),
    "tool": ("/mcp", None),
}


class Waits(Backend):
    """Tells of each call, and answers once it may."""

    model = "waits"
    identity = {"provider": "waits", "model": "waits"}
    concurrency = 8

    def __init__(self):
        self.there = threading.Semaphore(0)
        self.may = threading.Semaphore(0)
        self.stages = []

    def complete(self, requests):
        self.stages += [request.stage for request in requests]
        self.there.release()
        assert self.may.acquire(timeout=LONG)
        return [Reply("Rooibos.", prompt_tokens=7, completion_tokens=3) for _ in requests]


class Heard(logging.Handler):
    """The lines of the server's log; ``left`` counts those that say that a client left."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.left = threading.Semaphore(0)

    def emit(self, record):
        self.lines.append(self.format(record))
        if "client left" in self.lines[-1]:
            self.left.release()


@pytest.fixture
def log():
    heard = Heard()
    logger = logging.getLogger("pyterrier_ikat.live.serving")
    logger.addHandler(heard)
    yield heard
    logger.removeHandler(heard)


@contextmanager
def three_stages(cache="none", **options):
    """A server of a system that asks three times, its model, and its account."""
    backend = Waits()
    llm = ikat.llm(backend, cache=cache)
    with running(
        {"talks": ikat.Rewrite(llm) >> ikat.Answer(llm) >> Talks() >> ikat.Respond(llm)}, **options
    ) as server:
        yield server, backend, llm
        backend.may.release(100)


def named(name):
    """A streamed question whose answer has a name."""
    return says("And cold?", stream=True, stream_unchecked=True, metadata={"answer_id": name})


def read_on(server, name):
    """What a client gets that comes back to an answer."""
    return httpx.get(f"{server.url}/answers/{name}", timeout=LONG, verify=False)


def body_of(way, words):
    if way == "tool":
        call = {"name": "ask", "arguments": {"question": words}}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    chat = {"metadata": {"chat_id": "mine"}}
    return says("Which tea?", "Rooibos.", words, **chat, **WAYS[way][1])


def ask(server, way, words="And cold?", body=None):
    """A connection over which a request was sent."""
    connection = socket.create_connection(
        ("127.0.0.1", int(server.url.rsplit(":")[-1])), timeout=LONG
    )
    body = json.dumps(body or body_of(way, words)).encode()
    kinds = "application/json, text/event-stream"
    head = (
        f"POST {WAYS[way][0]} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
        f"application/json\r\nAccept: {kinds}\r\n"
    )
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def leave(connection):
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def whole(server):
    """Another client's answer."""
    return httpx.post(
        f"{server.url}/v1/chat/completions", json=says("Hi"), timeout=LONG, verify=False
    ).json()


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_leaves_pays_for_the_call_under_way_alone(way, log, tmp_path, caplog):
    with three_stages(workers=1, mcp=True, out=tmp_path / "saved") as (server, backend, llm):
        client = ask(server, way)
        assert backend.there.acquire(timeout=LONG)
        leave(client)
        assert log.left.acquire(timeout=LONG)
        backend.may.release(1)
        backend.may.release(
            3
        )  # for the next client, who gets the only place when the turn has ended
        assert whole(server)["choices"][0]["message"]["content"].startswith("Rooibos.")
        assert backend.stages == ["rewrite", "rewrite", "answer", "respond"]
        assert llm.ledger.frame()["calls"].sum() == 4
    assert Log(tmp_path / "saved" / "talks").known == {}
    assert "Traceback" not in caplog.text


def test_a_tool_s_call_that_is_cancelled_asks_no_later_stage(log):
    from mcp.client.client import Client as ToolClient
    from mcp.client.streamable_http import streamable_http_client

    async def go(server, backend):
        async with ToolClient(streamable_http_client(f"{server.url}/mcp")) as client:
            with anyio.CancelScope() as stopped:
                async with anyio.create_task_group() as calls:
                    calls.start_soon(client.call_tool, "ask", {"question": "And cold?"})
                    assert await anyio.to_thread.run_sync(
                        partial(backend.there.acquire, timeout=LONG)
                    )
                    stopped.cancel()

    with three_stages(workers=1, mcp=True) as (server, backend, _):
        anyio.run(go, server, backend)
        assert log.left.acquire(timeout=LONG)
        backend.may.release(4)
        assert whole(server)["ikat"]["calls"] == 3
        assert backend.stages == ["rewrite"] * 2 + ["answer", "respond"]


def test_the_call_under_way_is_not_paid_for_again(log, tmp_path):
    with three_stages(workers=1, cache=tmp_path / "c.sqlite") as (server, backend, llm):
        client = ask(server, "unchecked")
        assert backend.there.acquire(timeout=LONG)
        leave(client)
        assert log.left.acquire(timeout=LONG)
        backend.may.release(3)
        again = httpx.post(
            f"{server.url}/v1/chat/completions",
            json=body_of("whole", "And cold?"),
            timeout=LONG,
            verify=False,
        )
        assert again.json()["ikat"]["known"] == 1
        assert backend.stages == ["rewrite", "answer", "respond"]


def test_whoever_comes_back_reads_on_and_nothing_is_paid_twice(log):
    with three_stages() as (server, backend, llm):
        client = ask(server, "streamed", body=named("mine"))
        assert backend.there.acquire(timeout=LONG)
        leave(client)
        again = ask(server, "streamed", body=named("mine"))  # as a proxy repeats it
        read = b""
        while b"rewriting" not in read:
            read += again.recv(1 << 16)
        leave(again)
        backend.may.release(3)
        answer = events(read_on(server, "mine").content)[-1]
        assert answer["ikat"]["response"].startswith("Rooibos.")
        assert backend.stages == ["rewrite", "answer", "respond"]
        assert llm.ledger.frame()["calls"].sum() == 3
        assert events(read_on(server, "mine").content)[-1]["ikat"] == answer["ikat"]


def test_nobody_gets_another_questions_answer_under_an_id(log):
    with three_stages() as (server, backend, _):
        client = ask(server, "streamed", body=named("1"))
        assert backend.there.acquire(timeout=LONG)
        other = named("1") | {"messages": [{"role": "user", "content": "And mine?"}]}
        refused = httpx.post(f"{server.url}/v1/chat/completions", json=other, verify=False)
        assert (refused.status_code, refused.json()["error"]["param"]) == (
            409,
            "metadata.answer_id",
        )
        leave(client)
        backend.may.release(100)


def test_a_stopped_answer_and_one_that_nobody_reads_end(log, monkeypatch):
    with three_stages() as (server, backend, _):
        client = ask(server, "streamed", body=named("mine"))
        assert backend.there.acquire(timeout=LONG)
        assert httpx.delete(f"{server.url}/answers/mine", verify=False).status_code == 204
        assert log.left.acquire(timeout=LONG)
        assert read_on(server, "mine").status_code == 404
        leave(client)
        client = ask(server, "streamed", body=named("other"))
        assert backend.there.acquire(timeout=LONG)
        monkeypatch.setattr(streaming, "PATIENCE", 0)
        leave(client)
        assert log.left.acquire(timeout=LONG)
        assert read_on(server, "other").json()["error"]["code"] == "answer_not_found"
        backend.may.release(100)
    assert backend.stages == ["rewrite"] * 2


def test_a_place_is_taken_until_the_call_under_way_has_ended(log):
    with three_stages(workers=2) as (server, backend, _):
        clients = [ask(server, "whole", "One?"), ask(server, "streamed", "Two?")]
        for _ in clients:
            assert backend.there.acquire(timeout=LONG)
        waiting = ask(server, "streamed", "Three?")
        assert b"assistant" in waiting.recv(1 << 16)  # it waits for a place
        for client in clients:
            leave(client)
            assert log.left.acquire(timeout=LONG)
        assert not backend.there.acquire(blocking=False)
        backend.may.release(1)
        assert backend.there.acquire(timeout=LONG)
        assert backend.stages == ["rewrite"] * 3
        leave(waiting)


def test_a_client_that_leaves_the_queue_is_never_asked_for(log):
    with three_stages(workers=1) as (server, backend, _):
        clients = [ask(server, way) for way in ("whole", "streamed", "unchecked", "whole")]
        assert backend.there.acquire(timeout=LONG)
        for client in clients:
            leave(client)
        for _ in clients:
            assert log.left.acquire(timeout=LONG)
        backend.may.release(4)
        assert whole(server)["ikat"]["calls"] == 3
        assert backend.stages == ["rewrite"] * 2 + ["answer", "respond"]


def test_whoever_stays_gets_the_answer_to_the_same_question(log):
    with three_stages(workers=2) as (server, backend, _):
        leaves = ask(server, "whole")
        stays = ask(server, "whole")
        for _ in range(2):
            assert backend.there.acquire(timeout=LONG)
        leave(leaves)
        assert log.left.acquire(timeout=LONG)
        backend.may.release(4)
        assert b'"finish_reason":"stop"' in stays.recv(1 << 16)
        assert sorted(backend.stages) == ["answer", "respond", "rewrite", "rewrite"]
        leave(stays)
