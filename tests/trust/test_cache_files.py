"""The files of the two caches: what the key knows, and what damage, full disks and other processes do to them."""

import json
import os
import resource
import signal
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from llms.chat_server import ask
from run_files import files_without_time

from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Completion, Request, llm
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.portable import digest
from pyterrier_ikat.store.cache import Cache

from .killing import started

COUNT = 60


def completion(number):
    return Completion(f"text {number} " + "x" * 300, "m", "stop", 5, 3, 0.5, cached=True)


class Completions:
    """The cache of completions, as a numbered store of texts."""

    def __init__(self, path):
        self.cache = CompletionCache(path)

    def put(self, number):
        self.cache.put(f"key {number}", completion(number))

    def get(self, number):
        found = self.cache.get([f"key {number}"]).get(f"key {number}")
        assert found in (None, completion(number)), "a wrong answer"
        return found

    def close(self):
        self.cache.close()


class Results:
    """The cache of searches and scores, as a numbered store of bytes."""

    def __init__(self, path):
        self.cache = Cache(path)

    def put(self, number):
        self.cache.put({digest(str(number)): b"%d " % number * 100})

    def get(self, number):
        found = self.cache.get([digest(str(number))])
        assert found in ({}, {digest(str(number)): b"%d " % number * 100}), "a wrong answer"
        return found or None

    def close(self):
        self.cache.close()


BOTH = pytest.mark.parametrize("kind", [Completions, Results])


def filled(kind, path):
    made = kind(path)
    for number in range(COUNT):
        made.put(number)
    made.close()
    return made


def ended(child):
    """How a process ended: its exit status, or minus the signal's number."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@BOTH
def test_a_disk_that_is_full_stops_the_writer_and_spoils_nothing(kind, tmp_path):
    path = tmp_path / "cache.sqlite"
    filled(kind, path)

    def write_on_a_full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        full = kind(path)
        with pytest.raises(DataError, match=r"cache\.sqlite can.*free space"):
            list(map(full.put, range(COUNT, 50 * COUNT)))
        assert full.get(1) is not None

    assert ended(started(write_on_a_full_disk)) == 0
    again = kind(path)
    assert all(again.get(number) is not None for number in range(COUNT))
    again.put(10**6)
    assert again.get(10**6) is not None
    again.close()


@BOTH
def test_a_file_without_write_permission_is_read_and_the_error_of_writing_names_it(kind):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        path = Path(folder) / "cache.sqlite"
        filled(kind, path)
        path.chmod(0o444)
        os.chmod(folder, 0o555)

        def as_somebody_else():
            if os.getuid() == 0:
                os.setuid(65534)
            reader = kind(path)
            with pytest.raises(DataError, match=r"cache\.sqlite can.*permissions"):
                reader.put(1)

        assert ended(started(as_somebody_else)) == 0
        os.chmod(folder, 0o755)


@BOTH
def test_two_processes_with_16_threads_share_one_file(kind, tmp_path):
    path = tmp_path / "cache.sqlite"

    def write(first):
        mine = kind(path)

        def work(thread):
            for number in range(first + thread, first + 160, 16):
                mine.put(number)
                assert mine.get(number) is not None
                mine.get((number + 160) % 320)  # what the other process may be writing

        errors = []
        threading.excepthook = errors.append
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    children = [started(lambda first=first: write(first)) for first in (0, 160)]
    assert [ended(child) for child in children] == [0, 0]
    read = kind(path)
    assert all(read.get(number) is not None for number in range(320))
    read.close()


@BOTH
def test_each_cache_refuses_the_file_of_the_other_and_leaves_it_alone(kind, tmp_path):
    path = tmp_path / "cache.sqlite"
    filled(Results if kind is Completions else Completions, path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"cache\.sqlite is a database of something else"):
        kind(path).put(1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", ["", "[]", '"text"', "{}", '{"text": "x"}', json.dumps({"text": "x", "future": 1}), "\x80\x04N."])
def test_a_value_that_is_no_completion_though_its_checksum_is_right_is_a_miss(tmp_path, value):
    made = CompletionCache(tmp_path / "cache.sqlite")
    made.put("key", completion(1))
    made._cache.put({b"key": value.encode()})
    assert made.get(["key"]) == {}
    made.put("key", completion(2))
    assert made.get(["key"]) == {"key": completion(2)}
    made.close()


SPEC = "openai:m base_url=http://localhost:1/v1 temperature=0"
MESSAGES = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
REQUEST = Request(MESSAGES, "answer", "1_1")


def key(spec=SPEC, **changes):
    return replace(REQUEST, **changes).key(llm(spec).backend.identity)


OTHER = {
    "model": key(SPEC.replace("openai:m", "openai:n")),
    "provider": key("hf:m temperature=0"),
    "host": key(SPEC.replace("localhost", "127.0.0.1")),
    "port": key(SPEC.replace(":1/", ":2/")),
    "path of the URL": key(SPEC.replace("/v1", "/v2")),
    "prompt": key(messages=[MESSAGES[0], {"role": "user", "content": "b "}]),
    "role": key(messages=[MESSAGES[0], {"role": "assistant", "content": "b"}]),
    "order of the messages": key(messages=MESSAGES[::-1]),
    "one message less": key(messages=MESSAGES[1:]),
    "two messages as one": key(messages=[{"role": "user", "content": "ab"}]),
    "temperature": key(SPEC.replace("=0", "=0.1")),
    "no temperature": key(SPEC.replace(" temperature=0", "")),
    "top_p": key(SPEC + " top_p=1"),
    "top_k": key(SPEC + " top_k=1"),
    "max_tokens": key(SPEC + " max_tokens=1"),
    "seed": key(SPEC + " seed=1"),
    "seed 0": key(SPEC + " seed=0"),
    "parameter of the request": key(params={"max_tokens": 2}),
    "sample": key(sample=1),
}
SAME = {
    "time-out": key(SPEC + " timeout=1"),
    "threads": key(SPEC + " concurrency=1"),
    "retries": key(SPEC + " retries=0"),
    "file": key(SPEC + " cache=other.sqlite"),
    "prices and budget": key(SPEC + " price_in=1 price_out=1 budget=1"),
    "policy": key(SPEC + " on_error=fallback"),
    "variable of the key": key(SPEC + " api_key_env=OTHER"),
    "turn, stage, prompt name and item": key(qid="9_9", stage="queries", prompt="p", item="d1"),
    "a parameter said twice": key(params={"temperature": 0.0}),
}


@pytest.mark.parametrize("what", OTHER)
def test_the_key_is_another_one_for_another(what):
    assert OTHER[what] not in {key(), *(found for name, found in OTHER.items() if name != what)}


@pytest.mark.parametrize("what", SAME)
def test_the_key_is_the_same_whatever_the(what):
    assert SAME[what] == key()


CHATS = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=4)}), max_size=3)
REQUESTS = st.builds(
    Request, CHATS, st.just("s"), st.just("q"), sample=st.integers(0, 2), params=st.dictionaries(st.sampled_from("ab"), st.integers(0, 2))
)


@given(REQUESTS, REQUESTS)
def test_keys_are_equal_just_when_the_questions_are(one, other):
    identity = llm(SPEC).backend.identity
    equal = (one.messages, one.sample, one.params) == (other.messages, other.sample, other.params)
    assert (one.key(identity) == other.key(identity)) == equal


def test_a_full_disk_for_answers_is_said_before_anything_is_paid(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    Path(tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(DataError, match="full can"):
        llm(f"openai:m base_url={server.url} cache={tmp_path / 'full'}").ask(ask("a"))
    assert server.calls == 0


def test_two_runs_from_one_cache_are_equal_byte_for_byte_and_the_second_asks_nothing(server, sample_index, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def run(out):
        options = (
            "--dataset",
            "ikat:sample",
            "--index",
            sample_index,
            "--llm",
            f"openai:m base_url={server.url}",
            "--out",
            str(tmp_path / out),
        )
        done = CliRunner().invoke(main, ["run", "aqd", *options])
        assert done.exit_code == 0, done.output
        return {name: text for name, text in files_without_time(tmp_path / out / "aqd").items() if name != "ledger.csv"}

    first, asked = run("first"), server.calls
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run("second") == first
    assert (asked, server.calls) == (asked, asked)
    assert asked > 40
