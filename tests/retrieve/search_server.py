"""A search server that answers what a test tells it to, over real sockets."""

import json
import shutil
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest


class SearchServer(ThreadingHTTPServer):
    """Answers with ``answer(request)``: a status, a body, and headers.

    Attributes:
        requests: what was asked: method, path, parameters, body and headers.
        connections: the number of connections, refused ones included.
    """

    daemon_threads = True

    def __init__(self, answer, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests = []
        self.connections = 0
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(certificate, certificate.with_suffix(".key"))
            # the handshake is made in the thread of a request
            self.socket = secure.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request, client_address):
        self.connections += 1
        super().process_request(request, client_address)

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
        self.send_header("connection", "close")  # which it does, behind each answer
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET


@contextmanager
def answering(answer, certificate=None):
    """A server whose answers ``answer(request)`` gives: a body, or status, body and headers.

    With a certificate it speaks TLS.
    """

    def whole(request):
        given = answer(request)
        return given if isinstance(given, tuple) else (200, given, {})

    server = SearchServer(whole, certificate)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def self_signed(folder):
    """The file of a new certificate for this machine, signed by itself; its key lies beside it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl")
    certificate = folder / "server.pem"
    key = certificate.with_suffix(".key")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


def slowly(seconds, body):
    time.sleep(seconds)
    return body
