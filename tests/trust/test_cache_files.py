"""The file of completions: damage, full disks, and a run from it."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from llms.chat_server import ask
from run_files import files_without_time

from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Completion, llm
from pyterrier_ikat.llms.cache import CompletionCache

from .killing import started

COUNT = 60


def completion(number):
    return Completion(f"text {number} " + "x" * 300, "m", "stop", 5, 3, 0.5, cached=True)


def put(cache, *numbers):
    for number in numbers:
        cache.put(f"key {number}", completion(number))


def found(cache, number):
    return cache.get([f"key {number}"]) == {f"key {number}": completion(number)}


def test_a_disk_that_is_full_stops_the_writer_and_spoils_nothing(tmp_path):
    path = tmp_path / "cache.sqlite"
    cache = CompletionCache(path)
    put(cache, *range(COUNT))
    cache.close()

    def write_on_a_full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        full = CompletionCache(path)
        with pytest.raises(DataError, match=r"cache\.sqlite can.*free space"):
            put(full, *range(COUNT, 50 * COUNT))
        assert found(full, 1)

    assert os.waitstatus_to_exitcode(os.waitpid(started(write_on_a_full_disk), 0)[1]) == 0
    again = CompletionCache(path)
    put(again, 10**6)
    assert all(found(again, number) for number in [*range(COUNT), 10**6])
    again.close()


@pytest.mark.parametrize("value", ["", "[]", '"text"', "{}", '{"text": "x"}', json.dumps({"text": "x", "future": 1}), "\x80\x04N."])
def test_a_value_that_is_no_completion_though_its_checksum_is_right_is_a_miss(tmp_path, value):
    made = CompletionCache(tmp_path / "cache.sqlite")
    made.put("key", completion(1))
    made._cache.put({b"key": value.encode()})
    assert made.get(["key"]) == {}
    made.put("key", completion(2))
    assert made.get(["key"]) == {"key": completion(2)}
    made.close()


def test_a_full_disk_for_answers_is_said_before_anything_is_paid(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    Path(tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(DataError, match="full can"):
        llm(f"openai:m base_url={server.url} cache={tmp_path / 'full'}").ask(ask("a"))
    assert server.calls == 0


def test_two_runs_from_one_cache_are_equal_byte_for_byte_and_the_second_asks_nothing(server, sample_index, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def run(out):
        options = [
            "--dataset",
            "ikat:sample",
            "--index",
            sample_index,
            "--llm",
            f"openai:m base_url={server.url}",
            "--out",
            str(tmp_path / out),
        ]
        done = CliRunner().invoke(main, ["run", "aqd", *options])
        assert done.exit_code == 0, done.output
        return {name: text for name, text in files_without_time(tmp_path / out / "aqd").items() if name != "ledger.csv"}

    first, asked = run("first"), server.calls
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run("second") == first
    assert (asked, server.calls) == (asked, asked)
    assert asked > 40
