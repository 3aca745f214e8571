"""A server with the wire format of ``ikat serve`` that answers what a test queues."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyterrier_ikat.completions.citations import read_citations
from pyterrier_ikat.live.serving.application import CSP, PAGE
from pyterrier_ikat.live.serving.replies import as_html, citations, content_of
from pyterrier_ikat.runs import ShownPassage, Turn

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
FACTS = {
    "unknown": [],
    "cites_none": False,
    "rewrite": "",
    "queries": [],
    "statements": [],
    "draft": "",
    "seconds": 1.5,
    "calls": 2,
    "known": 0,
    "tokens": 100,
    "cost": 0.25,
    "omitted": 0,
}
CUT = object()
"""In a queue of chunks: the connection ends here."""


def chunk(content="", **more):
    finish = more.pop("finish_reason", None)
    delta = {"content": content} if content else {}
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def answer(text, *passages, activity=("answering",), **facts):
    """The chunks of an answer: steps, the text in two pieces, passages as (id, text, score)."""
    cited = read_citations(text, len(passages))
    sources = tuple(ShownPassage(docno, words, score) for docno, words, score in passages)
    turn = Turn(1, "", cited.text, sources, cited=tuple(cited.sentences))
    facts = {**FACTS, "response": cited.text, "html": as_html(turn), **facts}
    chunks = [chunk(ikat={"activity": one}) for one in activity]
    if cited.text:
        content = content_of(turn)
        half = len(content) // 2
        chunks += [chunk(content[:half]), chunk(content[half:])]
    chunks.append(chunk(finish_reason="stop", citations=citations(turn), ikat=facts))
    return chunks


class Server(ThreadingHTTPServer):
    """``replies`` has the answers of each model: chunks, or a status, a message and headers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.held = []
        self.renew()
        self.url = f"http://127.0.0.1:{self.server_port}/"

    def hold(self):
        """An event to queue between chunks: the answer waits until it is set or the test ends."""
        self.held.append(threading.Event())
        return self.held[-1]

    def renew(self):
        """As if it had just been started."""
        for event in self.held:
            event.set()
        self.replies = {}
        self.asked = []
        self.paths = []
        self.held = []
        self.token = ""
        self.under_way = {}
        self.stopped = []
        self.models = [
            {"id": "plain", "about": "Plain.", "writes_response": True},
            {"id": "gtr", "about": "Generates.", "writes_response": True},
        ]

    def told(self, model):
        """The messages of each request to a model."""
        return [body["messages"] for body in self.asked if body["model"] == model]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        self.server.paths.append(self.path)

    def do_GET(self):
        if self.path == "/" or self.path.startswith("/page/"):
            path = PAGE / (self.path.removeprefix("/page/") if self.path != "/" else "index.html")
            self.send(
                200,
                path.read_bytes(),
                CSP | {"Content-Type": f"{KINDS[path.suffix[1:]]}; charset=utf-8"},
            )
        elif self.path.startswith("/answers/"):
            self.read_on(self.path.removeprefix("/answers/"))
        elif self.allowed():
            self.send(200, json.dumps({"object": "list", "data": self.server.models}).encode())

    def read_on(self, name):
        """An answer under way from its beginning, without the cut that broke it."""
        reply = self.server.under_way.get(name)
        if reply is None or name in self.server.stopped:
            error = {"message": "not under way", "type": "x", "param": None, "code": None}
            self.send(404, json.dumps({"error": error}).encode())
        else:
            self.stream([event for event in reply if event is not CUT] + ["[DONE]"])

    def do_DELETE(self):
        self.server.stopped.append(self.path.removeprefix("/answers/"))
        self.send(204, b"")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        self.server.asked.append(body)
        reply = self.server.replies[body["model"]].pop(0)
        self.server.under_way[body["metadata"]["answer_id"]] = reply
        if isinstance(reply, tuple):
            status, message, headers = reply
            error = {"message": message, "type": "x", "param": None, "code": None}
            self.send(status, json.dumps({"error": error}).encode(), headers)
        else:
            self.stream([*reply, "[DONE]"])

    def stream(self, events):
        self.send(200, b"", {"Content-Type": "text/event-stream"})
        for event in events:
            if event is CUT:
                return
            if isinstance(event, threading.Event):
                event.wait(60)
                continue
            with suppress(OSError):  # stopped
                self.wfile.write(
                    f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
                )

    def allowed(self):
        if self.server.token and self.headers["Authorization"] != f"Bearer {self.server.token}":
            self.send(
                401, b'{"error": {"message": "no token", "type": "x", "param": null, "code": null}}'
            )
            return False
        return True

    def send(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
