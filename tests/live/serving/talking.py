"""Systems and requests for the tests of the server."""

import asyncio
import json
import threading
from contextlib import suppress
from itertools import cycle

import anyio
import pandas as pd
import pyterrier as pt

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.serving.application import application
from pyterrier_ikat.live.serving.service import SavedConversations, Service, open_served
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import ShownPassage

PASSAGES = {"d1": "Rooibos has no caffeine.", "d2": "Mint is a herb."}
TOKEN = "a-token-of-twenty-signs"
PASSAGE = pd.DataFrame([{"docno": "d1", "text": PASSAGES["d1"], "score": 1.0, "rank": 0}])
FINDS = pt.apply.generic(lambda turns: turns.merge(PASSAGE, how="cross"))
THREE_PASSAGES = (ShownPassage("d1"), ShownPassage("d2"), ShownPassage("d3"))


class Talks(pt.Transformer):
    """Responds with what it was given. Its passages are named after the question."""

    def __init__(self, response=None):
        self.response = response
        self.seen = []

    def transform(self, inp):
        self.seen += inp.to_dict("records")
        said = []
        docnos = []
        for _, row in inp.iterrows():
            given = json.dumps([row.get("qptkb"), row.get("qhistory"), row["query"]])
            for docno in PASSAGES:
                said.append(self.response or given)
                docnos.append(f"{docno}-{row['query'][:20]}")
        turns = inp.loc[inp.index.repeat(len(PASSAGES))].reset_index(drop=True)
        return turns.assign(
            docno=column(docnos),
            text=column([*PASSAGES.values()] * len(inp)),
            score=[2.0, 1.0] * len(inp),
            rank=[0, 1] * len(inp),
            qanswer=column(said),
            used=[True] * len(docnos),
        )


class Fails(pt.Transformer):
    """Raises an error at every question."""

    def __init__(self, error):
        self.error = error

    def transform(self, inp):
        if len(inp):
            raise self.error
        return inp.assign(docno=[], score=[], rank=[])


class Waits(pt.Transformer):
    """Finds nothing, once it may; tells when somebody asks."""

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.may = threading.Semaphore(0)

    def transform(self, inp):
        if len(inp):
            self.asked.release()
            assert self.may.acquire(timeout=60)
        return inp.assign(docno="d", score=0.0, rank=0)


def says(*texts, **more):
    """The body of a chat request: the user's words and the assistant's, in turns."""
    roles = cycle(["user", "assistant"])
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return {"model": "talks", "messages": messages, **more}


def served(systems=None, token=None, origins=(), out=None):
    """The application of a server; its ``state`` has what saves."""
    opened = open_served({"talks": Talks()} if systems is None else systems, Ledger())
    saved = None if out is None else SavedConversations(out, opened)
    made = application(Service(opened, anyio.CapacityLimiter(4), saved), token, origins)
    made.state.saved = saved
    return made


class Client:
    """Asks an application in this process; ``came`` gets each part of a body when it arrives."""

    def __init__(self, application, came=lambda part: None):
        self.application = application
        self.came = came

    def ask(self, method, path, body=b"", headers=(), chunks=None):
        """The status, headers and body of the response; ``chunks`` are the client's messages."""
        given = {"host": "127.0.0.1:8000", "content-type": "application/json", **dict(headers)}
        encoded = []
        for name, value in given.items():
            if value is not None:
                encoded.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 80),
            "headers": encoded,
        }
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return asyncio.run(self._call(scope, body, chunks))

    def post(self, path, body, **more):
        """The status and the parsed body."""
        status, _, content = self.ask("POST", path, body, **more)
        return status, json.loads(content)

    def chat(self, body, **more):
        return self.post("/v1/chat/completions", body, **more)

    async def _call(self, scope, body, chunks):
        left = (
            [{"type": "http.request", "body": body, "more_body": False}]
            if chunks is None
            else list(chunks)
        )
        sent = []

        async def receive():
            if not left:
                await asyncio.sleep(3600)  # the client waits for the answer
            return left.pop(0)

        async def send(message):
            sent.append(message)
            self.came(message.get("body", b""))

        with suppress(Exception):  # that the server's operator sees, after the response was sent
            await self.application(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return (
            sent[0]["status"],
            headers,
            b"".join(message.get("body", b"") for message in sent[1:]),
        )


def events(content):
    """The events of a stream."""
    lines = content.decode().split("\n\n")
    objects = [line for line in lines if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in objects]


def heard(answer):
    """The persona, the history and the question that the system saw."""
    return json.loads(answer["ikat"]["response"])


def content_of(answer):
    return answer["choices"][0]["message"]["content"]


async def silent():
    await asyncio.sleep(3600)


def message_of(role, content, **more):
    return {"role": role, "content": content, **more}


WHICH_TEA = message_of("user", "Which tea?")
