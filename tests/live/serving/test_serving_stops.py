"""A server under load that is told to stop: a real process, its clients, and a language model that answers when the test says so."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from talking import says

import pyterrier_ikat

METHOD = "import pyterrier_ikat as ikat\n\n\ndef drafts(llm):\n    return ikat.Answer(llm)\n"
KEY, TOKEN = "sk-planted-0123456789", "planted-token-0123456789"


class Model(ThreadingHTTPServer):
    """Answers once it may; tells when it is asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.may = threading.Semaphore(0), threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.release()
        assert self.server.may.wait(120)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Rooibos."}}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        body["usage"] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def model():
    with Model() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.may.set()
        server.shutdown()
        thread.join()


def test_sigterm_finishes_what_is_under_way_refuses_the_rest_and_prints_the_ledger(model, tmp_path):
    (tmp_path / "mine.py").write_text(METHOD)
    llm = f"openai:m base_url=http://127.0.0.1:{model.server_address[1]}/v1 cache=none"
    command = ["serve", "mine.py:drafts", "--llm", llm, "--port", "0", "--workers", "2"]
    paths = os.pathsep.join([str(Path(pyterrier_ikat.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OPENAI_API_KEY": KEY, "IKAT_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    started = "from pyterrier_ikat.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", started, *command],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        lines = []
        for line in server.stdout:
            lines.append(line)
            if "Ctrl-C stops" in line:
                break
        url = re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))[0]

        def asked(number, **more):
            body = says(f"My word is xyzzy {number}.", model="drafts", **more)
            return {"url": f"{url}/v1/chat/completions", "json": body, "headers": {"authorization": f"Bearer {TOKEN}"}, "timeout": 120}

        def post(number):
            return httpx.post(**asked(number))

        def stream(number):
            return httpx.stream("POST", **asked(number, stream=True))

        with ThreadPoolExecutor(2) as people, ExitStack() as streams:
            answers = [people.submit(post, number) for number in range(2)]
            for _ in answers:
                assert model.asked.acquire(timeout=120)
            waiting = [streams.enter_context(stream(number)).iter_lines() for number in range(2, 10)]
            for one in waiting:
                assert any('"activity": "waiting"' in line for line in one)
            assert post(10).status_code == 503
            server.send_signal(signal.SIGTERM)
            for one in waiting:
                assert any('"code": "stopping"' in line for line in one)
            model.may.set()
            assert [answer.result().json()["choices"][0]["message"]["content"] for answer in answers] == ["Rooibos.", "Rooibos."]
        printed = "".join(lines) + server.stdout.read()
    assert server.returncode == 0
    assert re.search(r"answer +m +2 .*14 .*6", printed)  # the ledger: two calls
    assert not re.search(f"{KEY}|{TOKEN}|xyzzy|Traceback", printed)
