"""Threads and processes that ask the same at one moment: few calls are paid for twice, and all get
the same answers."""

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from chat_server import KEY, ask, said

from pyterrier_ikat.llms.cache import CompletionCache

CODE = """
import sys
sys.path.insert(0, sys.argv[3])
from chat_server import ask
from pyterrier_ikat.llms import llm
made = llm(f"openai:m base_url={sys.argv[1]} cache={sys.argv[2]} concurrency=8")
made.open()
print("ready", flush=True)
sys.stdin.readline()
print([one.text for one in made.ask(ask(*map(str, range(200))))])
"""


def slow_and_never_the_same(server):
    """Each answer takes a while, and two answers to one question differ."""
    rng = random.Random(1)
    lock = threading.Lock()

    def respond(body):
        with lock:
            seconds = rng.uniform(0.02, 0.08)
            number = server.calls
        time.sleep(seconds)
        return said(f"answer {number} to {body['messages'][0]['content']}")

    server.respond = respond


def test_two_processes_with_the_same_requests_pay_few_twice(server, tmp_path):
    slow_and_never_the_same(server)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OPENAI_API_KEY": KEY,
    }
    command = [
        sys.executable,
        "-c",
        CODE,
        server.url,
        str(tmp_path / "llm.sqlite"),
        str(Path(__file__).parent),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as processes:
        both = []
        for _ in range(2):
            process = subprocess.Popen(command, env=environment, **pipes)
            both.append(processes.enter_context(process))
        for one in both:
            assert one.stdout.readline() == "ready\n"
        for one in both:
            one.stdin.write("\n")
            one.stdin.flush()
        first, second = (one.communicate(timeout=120)[0] for one in both)
    assert first == second
    assert 200 <= server.calls < 1.15 * 200


def test_two_threads_with_one_cache_begin_at_different_ends(server, model, tmp_path):
    slow_and_never_the_same(server)
    answers = []

    def asks(made):
        outcomes = made.ask(ask(*map(str, range(60))))
        answers.append([outcome.text for outcome in outcomes])

    threads = []
    for _ in range(2):
        made = model(f"cache={tmp_path / 'c.sqlite'} concurrency=4")
        threads.append(threading.Thread(target=asks, args=[made]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = answers
    assert first == second
    assert server.calls < 1.15 * 60


def test_only_one_at_a_time_is_the_first(tmp_path):
    one = CompletionCache(tmp_path / "c.sqlite")
    other = CompletionCache(tmp_path / "c.sqlite")
    with one.asking() as first, other.asking() as second:
        assert (first, second) == (True, False)
    with other.asking() as first:
        assert first
    one.close()
    other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c.sqlite"]
