"""A search server that answers what a test tells it to, over real sockets."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class SearchServer(ThreadingHTTPServer):
    """Answers with ``answer(request)``: a status, a body, and headers.

    Attributes:
        requests: what was asked: method, path, parameters, body and headers.
    """

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Say nothing of clients that left."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        address = urlsplit(self.path)
        length = int(self.headers.get("content-length", 0))
        request = {
            "method": self.command,
            "path": address.path,
            "params": {name: value for name, [value] in parse_qs(address.query).items()},
            "body": json.loads(self.rfile.read(length) or "null"),
            "headers": dict(self.headers),
        }
        self.server.requests.append(request)
        status, body, headers = self.server.answer(request)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", headers.pop("content-length", str(len(text))))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)
        self.close_connection = True

    do_POST = do_GET


@contextmanager
def answering(answer):
    """A server whose answers ``answer(request)`` gives: a body, or status, body and headers."""

    def whole(request):
        given = answer(request)
        return given if isinstance(given, tuple) else (200, given, {})

    server = SearchServer(whole)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def slowly(seconds, body):
    time.sleep(seconds)
    return body
