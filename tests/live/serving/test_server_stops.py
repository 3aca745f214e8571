"""A server that is told to stop: a real process, its clients, and a slow language model."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from talking import says

import pyterrier_ikat

METHOD = """
import pathlib, time
import pyterrier_ikat as ikat

class Model:
    def generate(self, chats):
        with open("asked", "a") as asked:
            asked.write("x")
        while not pathlib.Path("may").exists():
            time.sleep(0.01)
        return ["Rooibos." for _ in chats]

def drafts(llm):
    mine = ikat.llm(Model())
    mine.ledger = llm.ledger
    return ikat.Answer(mine)
"""
KEY = "sk-planted-0123456789"
TOKEN = "planted-token-0123456789"


class Served:
    """A started ``ikat serve`` with two workers."""

    def __init__(self, folder):
        (folder / "mine.py").write_text(METHOD)
        paths = os.pathsep.join(
            [
                str(Path(pyterrier_ikat.__file__).parents[1]),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        )
        command = [
            sys.executable,
            "-c",
            "from pyterrier_ikat.cli import main; main()",
            "serve",
            "mine.py:drafts",
        ]
        self.folder = folder
        self.process = subprocess.Popen(
            [*command, "--llm", "openai:m cache=none", "--port", "0", "--workers", "2"],
            cwd=folder,
            env=os.environ
            | {
                "PYTHONPATH": paths,
                "IKAT_SERVE_TOKEN": TOKEN,
                "OPENAI_API_KEY": KEY,
                "PYTHONUNBUFFERED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.begun = "".join(iter(self.process.stdout.readline, "Ctrl-C stops\n"))
        self.url = re.search(r"http://127\.0\.0\.1:\d+", self.begun)[0]

    def ask(self, number, **more):
        body = says(f"My word is xyzzy {number}.", model="drafts", **more)
        return httpx.post(
            f"{self.url}/v1/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=120,
            verify=False,
        )

    def wait_until_asked(self, times):
        asked = self.folder / "asked"
        until = time.monotonic() + 120
        while times > (asked.stat().st_size if asked.exists() else 0):
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.fixture
def start(tmp_path):
    begun = []

    def make():
        begun.append(Served(tmp_path))
        return begun[-1]

    yield make
    for one in begun:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


def slowness():
    """How many times as long as on an idle machine a computation takes now."""
    began = time.perf_counter()
    computed = time.process_time()
    while time.process_time() - computed < 0.1:
        pass
    return (time.perf_counter() - began) / 0.1


def test_ctrl_c_ends_with_code_0_within_three_seconds(start):
    served = start()
    with ThreadPoolExecutor(3) as people:
        cut = [
            people.submit(served.ask, number, stream=number == 1) for number in range(3)
        ]  # two are worked on, and one waits
        served.wait_until_asked(2)
        slow = slowness()
        served.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert served.process.wait(100) == 0
        took = time.monotonic() - began
        told = ""
        for one in cut:
            told += str(one.exception() or one.result().text)
    assert took < 3 * max(slow, slowness())
    printed = served.begun + served.process.stdout.read()
    assert printed.startswith("loading mine.py:drafts\n")
    assert "the environment variable IKAT_SERVE_TOKEN" in printed
    assert not re.search(f"{KEY}|{TOKEN}|xyzzy|Traceback", printed + told)


def test_nearly_done_answers_finish_and_the_ledger_is_printed(start):
    served = start()
    may = served.folder / "may"
    may.touch()
    assert served.ask(0).status_code == 200  # the first one loads what later ones need
    may.unlink()
    with ThreadPoolExecutor(2) as people:
        answers = [people.submit(served.ask, number) for number in (1, 2)]
        served.wait_until_asked(3)
        served.process.send_signal(signal.SIGTERM)
        may.touch()
        for answer in answers:
            choice = answer.result().json()["choices"][0]
            assert choice["message"]["content"] == "Rooibos."
    assert served.process.wait(100) == 0
    assert re.search(r"answer +Model +3 ", served.process.stdout.read())  # the ledger: three calls
