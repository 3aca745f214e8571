"""Threads and processes that ask the same at one moment: one call for all of them, and one answer."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late  # before Python 3.11 not the built-in one
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import forked_python
import pytest
from chat_server import KEY, ask, refused, said
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import BadRequest, Completion, FatalLLMError, llm
from pyterrier_ikat.llms import cache as cache_module
from pyterrier_ikat.llms.cache import CompletionCache

COMPLETION = Completion("first", "m", "stop", 5, 3, 0.5, cached=True)


class Held:
    """A server that answers when it is let, and tells when it has been asked."""

    def __init__(self, server, answer=lambda body: said(f"answer to {body['messages'][0]['content']}")):
        self.asked, self.let, self.answer = threading.Event(), threading.Event(), answer
        server.respond = self.respond

    def respond(self, body):
        self.asked.set()
        assert self.let.wait(120)
        return self.answer(body)


def two(made, held, first, second):
    """What two threads get: the second one asks while the first one's calls are on their way."""
    waiting = threading.Event()
    claim = made.cache.claim

    def noted(keys, seconds):
        waiting.set()
        return claim(keys, seconds)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(made.ask, first)
        assert held.asked.wait(120)
        made.cache.claim = noted
        other = pool.submit(made.ask, second)
        assert waiting.wait(120)
        held.let.set()
        return one, other


def test_equal_requests_of_two_threads_are_paid_once(model, server):
    made = model("concurrency=8")
    one, other = two(made, Held(server), ask("a", "b"), ask("b", "c", stage="rewrite"))
    found = {completion.text: completion.cached for completion in one.result(120) + other.result(120) if completion.text != "answer to b"}
    assert found == {"answer to a": False, "answer to c": False}
    assert one.result()[1].text == other.result()[0].text == "answer to b"
    assert one.result()[1].cached != other.result()[0].cached
    assert server.calls == 3
    frame = made.ledger.frame()
    assert (frame["calls"].sum(), frame["known"].sum()) == (3, 1)


def test_a_thread_that_waits_for_another_one_sleeps(model, server):
    made, looked = model(), []
    held, look = Held(server), made.cache.owners
    made.cache.owners = lambda keys: looked.append(keys) or look(keys)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(made.ask, ask("a"))
        assert held.asked.wait(120)
        other = pool.submit(made.ask, ask("a"))
        with pytest.raises(Late):
            other.result(0.5)
        assert len(looked) < 20
        held.let.set()
        assert one.result(120)[0].text == other.result(120)[0].text == "answer to a"
    assert server.calls == 1


def test_a_failure_of_one_thread_is_asked_again_by_the_other(model, server):
    made = model()
    answers = [refused(400, "too long"), said("fine")]
    one, other = two(made, Held(server, lambda body: answers.pop(0)), ask("a"), ask("a"))
    assert isinstance(one.result(120)[0], BadRequest)
    assert (other.result(120)[0].text, server.calls) == ("fine", 2)


def test_the_end_of_one_threads_stage_does_not_hold_the_other(model, server):
    made = model()
    answers = [refused(401), said("fine")]
    one, other = two(made, Held(server, lambda body: answers.pop(0)), ask("a"), ask("a"))
    with pytest.raises(FatalLLMError):
        one.result(120)
    assert other.result(120)[0].text == "fine"


def test_what_another_one_got_just_before_the_claim_is_not_asked(model, server):
    made, another = model(), model()
    claim = made.cache.claim

    def late(keys, seconds):
        another.ask(ask("a"))
        return claim(keys, seconds)

    made.cache.claim = late
    (completion,) = made.ask(ask("a"))
    assert (completion.text, completion.cached, server.calls) == ("answer to a", True, 1)
    assert made.ledger.frame()[["calls", "known", "cost"]].values.tolist() == [[0, 1, 0.0]]


def test_without_a_cache_each_thread_asks(model, server):
    made = model("concurrency=8 cache=none")
    together = threading.Barrier(2)
    server.respond = lambda body: said() if together.wait(120) >= 0 else None
    made.throttle.grow()
    with ThreadPoolExecutor(2) as pool:
        outcomes = [pool.submit(made.ask, ask("a")) for _ in range(2)]
    assert [outcome.result()[0].cached for outcome in outcomes] == [False, False]
    assert server.calls == 2


def test_two_models_of_one_process_share_the_claims_of_a_file(model, server):
    first, second = model(), model()
    held = Held(server)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first.ask, ask("a"))
        assert held.asked.wait(120)
        other = pool.submit(second.ask, ask("a"))
        with pytest.raises(Late):
            other.result(0.2)
        held.let.set()
        assert [one.result(120)[0].cached, other.result(120)[0].cached] == [False, True]
    assert server.calls == 1


def test_a_call_that_is_tried_again_leaves_its_claim_meanwhile(model, server):
    made, seen = model("retries=2"), []
    wait = made.retry.sleep

    def between(seconds):
        wait(seconds)
        seen.append(made.cache.owners([ask("a")[0].key(made.backend.identity)]))

    made.retry = replace(made.retry, sleep=between)
    server.script = [refused(500), refused(500)]
    assert made.ask(ask("a"))[0].text == "answer to a"
    assert seen == [{}, {}]
    assert made.ledger.frame()[["calls", "retries"]].values.tolist() == [[1, 2]]


# Between processes.

ASKER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from chat_server import ask
from pyterrier_ikat.llms import llm
made = llm(f"openai:m base_url={sys.argv[2]} cache={sys.argv[3]} {sys.argv[4]}")
found = made.ask(ask(*sys.argv[5].split()))
frame = made.ledger.frame()
print(json.dumps([[one.text for one in found], int(frame["calls"].sum()), int(frame["known"].sum())]))
"""


def asker(server, path, texts, options="concurrency=4", start=forked_python.Popen):
    """Another process that asks ``texts``."""
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(here.parents[1]), "OPENAI_API_KEY": KEY}
    arguments = [sys.executable, "-c", ASKER, here, server.url, path, options, " ".join(texts)]
    return start(list(map(str, arguments)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads(output)


def test_processes_that_ask_the_same_in_other_orders_pay_once_and_agree(server, model):
    numbers, texts = count(), [f"t{number}" for number in range(40)]

    def respond(body):
        time.sleep(0.01)
        return said(f"{body['messages'][0]['content']} {next(numbers)}")  # never the same answer twice

    server.respond = respond
    orders, made = (texts, texts[::-1]), model()
    found = [told(one) for one in [asker(server, made.cache.path, order) for order in orders]]
    answers = [dict(zip(order, one[0], strict=True)) for order, one in zip(orders, found, strict=True)]
    assert answers[0] == answers[1]
    assert server.calls == len(texts) == sum(calls for _, calls, _ in found)
    assert sum(hits for _, _, hits in found) == len(texts)
    assert [one.text for one in made.ask(ask(*texts))] == list(answers[0].values())
    assert server.calls == len(texts)


def test_when_the_process_that_asks_is_killed_the_one_that_waits_asks_at_once(server, model):
    made, held = model(), Held(server)
    owner = asker(server, made.cache.path, ["a"], start=subprocess.Popen)
    assert held.asked.wait(120)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(made.ask, ask("a"))
        with pytest.raises(Late):
            other.result(0.2)
        assert server.calls == 1
        owner.kill()  # and not collected: a zombie
        held.let.set()
        assert other.result(120)[0].cached is False
    assert (server.calls, owner.wait()) == (2, -signal.SIGKILL)
    owner.communicate()


def test_a_stopped_process_holds_the_others_no_longer_than_a_call_may_take_and_uses_their_answer(server, model):
    numbers, gone, late = count(), threading.Event(), threading.Event()

    def respond(body):
        number = next(numbers)
        if number == 0:
            gone.set()
            late.wait(120)
        return said(f"answer {number}")

    server.respond = respond
    made = model()
    owner = asker(server, made.cache.path, ["a"])
    assert gone.wait(120)
    ((key, claim),) = made.cache._cache.get([ask("a")[0].key(made.backend.identity).encode()]).items()
    made.cache._cache.put({key: json.dumps([*json.loads(claim)[:2], 0.5]).encode()})
    owner.send_signal(signal.SIGSTOP)
    found = []
    waiting = threading.Thread(target=lambda: found.extend(made.ask(ask("a"))), daemon=True)  # the test ends where the wait doesn't
    waiting.start()
    waiting.join(60)
    late.set()
    owner.send_signal(signal.SIGCONT)
    assert [one.text for one in found] == ["answer 1"]
    assert told(owner)[0] == ["answer 1"]
    assert server.calls == 2


def test_a_budget_that_one_process_has_spent_does_not_hold_the_other(server, model):
    spent = model("price_in=1e6 price_out=1e6 budget=1 concurrency=1")
    with pytest.raises(Exception, match="budget of 1 USD is spent"):
        spent.ask(ask("a", "b"))
    assert [one.text for one in model().ask(ask("a", "b"))] == ["answer to a", "answer to b"]
    assert server.calls == 2


# What a claim is.


@pytest.fixture
def caches(tmp_path):
    made = [CompletionCache(tmp_path / "llm.sqlite") for _ in range(2)]
    yield made
    for one in made:
        one.close()


KEYS = st.lists(st.text("abc", max_size=1), unique=True)


@given(KEYS, KEYS)
def test_a_key_is_claimed_once_and_free_again(first, second):
    made = CompletionCache(":memory:")
    with made.claim(first, 60) as (_, ours):
        assert ours == {*first}
        with made.claim(second, 60) as (_, theirs):
            assert theirs == {*second} - {*first}
            assert made.owners("abc").keys() == {*first, *second} - {""}
        assert made.owners([*"abc", ""]).keys() == {*first}
    assert made.owners([*"abc", ""]) == {}


def test_many_keys_are_claimed_in_one_go(caches):
    keys = [str(number) for number in range(1203)]
    with caches[0].claim(keys, 60) as (_, ours):
        assert len(ours) == 1203
        assert len(caches[1].owners(keys)) == 1203


def test_a_claim_gives_what_there_is_and_leaves_nothing_behind(caches, tmp_path):
    one, other = caches
    one.put("k", COMPLETION)
    with other.claim(["k", "l"], 60) as (hits, ours):
        assert (hits, ours) == ({"k": COMPLETION}, {"l"})
        (lock,) = (tmp_path / "llm.sqlite.claims").iterdir()
        assert lock.read_text().startswith(f" process {os.getpid()} on ")
    assert one._cache.get([b"l"]) == {}
    other.close()
    assert not (tmp_path / "llm.sqlite.claims").exists()


def test_the_first_answer_stays_and_ends_the_claim(caches):
    one, other = caches
    with one.claim(["k"], 60):
        assert other.owners(["k"])
        assert one.put("k", COMPLETION) == COMPLETION
        assert other.owners(["k"]) == {}
    assert other.put("k", replace(COMPLETION, text="second")) == COMPLETION == one.get(["k"])["k"]


def test_a_damaged_answer_is_not_the_first_one(caches):
    caches[0].put("k", replace(COMPLETION, text="damaged"))
    with caches[0]._cache.connection() as connection:
        connection.execute("UPDATE cache SET value = CAST(replace(value, 'damaged', 'DAMAGED') AS BLOB)")
    assert caches[1].put("k", COMPLETION) == COMPLETION == caches[0].get(["k"])["k"]


@pytest.mark.parametrize("claim", [b"", b"[]", b"no JSON", b'["of a killed process", 1, 60.0]', b'["x", "y"]', b"\xff"])
def test_the_claim_of_an_owner_that_has_ended_is_free(caches, claim):
    caches[0]._cache.put({b"k": claim})
    assert caches[1].owners(["k"]) == {}
    with caches[1].claim(["k"], 60) as (_, ours):
        assert ours == {"k"}


def test_the_lock_that_a_killed_process_left_is_nobodys(caches, tmp_path):
    lock = tmp_path / "llm.sqlite.claims" / "owner"
    lock.parent.mkdir()
    lock.write_text("process 1 on elsewhere")
    caches[0]._cache.put({b"k": b'["owner", 1, 60.0]'})
    assert caches[1].owners(["k"]) == {}
    assert not lock.exists()


def test_a_claim_lapses_after_its_seconds_whatever_the_clocks_say(caches, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(cache_module.time, "monotonic", lambda: now[0])
    with caches[0].claim(["k"], 150.0):
        for wall, passed, is_held in ((0.0, 0, True), (9e9, 149, True), (5.0, 1, False)):
            monkeypatch.setattr(cache_module.time, "time", lambda wall=wall: wall)
            now[0] += passed
            assert bool(caches[1].owners(["k"])) is is_held
        with caches[1].claim(["k"], 150.0) as (_, ours):
            assert ours == {"k"}
            assert caches[0].owners(["k"])
            assert caches[1].put("k", COMPLETION)
        assert caches[0].put("k", replace(COMPLETION, text="late")) == COMPLETION


def test_who_waits_long_says_for_whom(caches, monkeypatch, caplog):
    monkeypatch.setattr(cache_module, "REPORT_AFTER", 0.0)
    with caches[0].claim(["k"], 0.05):
        assert caches[1].wait(["k"]) == ["k"]
    told = f"waiting for 1 answers that other processes ask for: process {os.getpid()} on {platform.node()}"
    assert [record.getMessage() for record in caplog.records] == [told]


@pytest.mark.linux
def test_a_claim_that_another_process_copied_with_its_memory_holds_nobody():
    cache = CompletionCache(":memory:")
    with cache.claim(["k"], 60):
        child = os.fork()
        if child == 0:
            os._exit(len(cache.owners(["k"])))
        assert os.waitpid(child, 0)[1] == 0
        assert cache.owners(["k"])


def test_a_claim_on_a_full_disk_is_an_error_before_anything_is_paid(model, server, monkeypatch):
    made = model()
    made.ask(ask("a"))
    made.close()

    @contextmanager
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))
        yield

    monkeypatch.setattr(cache_module, "hold_lock", full)
    with pytest.raises(DataError, match=r"llm\.sqlite cannot be used .*No space left.*free space"):
        made.ask(ask("b"))
    assert server.calls == 1
    assert made.ask(ask("a"))[0].cached


def test_a_folder_without_room_for_claims_is_an_error_before_anything_is_paid(model, server):
    made = model()
    made.ask(ask("a"))
    made.close()
    Path(f"{made.cache.path}.claims").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot be used \(.*free space"):
        made.ask(ask("b"))
    assert server.calls == 1


def test_a_generator_that_fails_leaves_no_claim():
    class Failing:
        def generate(self, chats):
            raise RuntimeError("no memory")

    made = llm(Failing())
    assert "no memory" in made.ask(ask("a"))[0].reason
    assert made.cache.owners([ask("a")[0].key(made.backend.identity)]) == {}
