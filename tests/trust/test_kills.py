"""Processes killed (SIGKILL) at every change of a file in turn, or on a full disk.

What is there is whole, and the same call finishes.
"""

import itertools
import os
import resource
import signal
import threading
from pathlib import Path

import pandas as pd
import pytest
from llms.chat_server import said

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import Judge, per_turn, with_gold
from pyterrier_ikat.llms import Completion, Ledger
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.retrieve import BM25
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.store.files import atomic_write
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import run_in_folders

from .killing import killed_before, started

SAMPLE = ikat.dataset("ikat:sample")
DOCNOS = ("sample-walk-001:0", "sample-walk-002:0")


def results_of(topics, score):
    """The same two passages for each turn."""
    passages = pd.DataFrame({"docno": DOCNOS, "score": [score, score - 1], "rank": [0, 1]})
    return topics.merge(passages, how="cross")


def bytes_below(folder):
    """Path -> what the file holds, for every file below a folder."""
    contents = {}
    for path in Path(folder).rglob("*"):
        if path.is_file():
            contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    return contents


def every_kill(folder, work, look, at_least):
    """Kill ``work`` before each of its changes in turn; ``look`` at what is left each time.

    At the end the work is done.
    """
    number = 0
    while killed_before(number, folder, work):
        look()
        number += 1
    assert number >= at_least


def test_any_file_of_ours_is_the_old_or_the_new_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("old" * 10_000)

    def work():
        with atomic_write(path) as file:
            file.write("new" * 10_000)

    def look():
        assert path.read_text() == "old" * 10_000

    every_kill(tmp_path, work, look, at_least=3)
    assert path.read_text() == "new" * 10_000


def test_a_run_folder_is_complete_or_absent(tmp_path):
    topics = SAMPLE.get_topics().head(3)
    folder = RunFolder(tmp_path / "runs" / "mine")
    results = results_of(topics, 2.0)
    figures = per_turn(results, SAMPLE.get_qrels().query("qid in @topics.qid"))
    write = (topics, results, figures, Ledger().frame(), {"method": "mine"})

    def look():
        assert not folder.path.exists()
        assert folder.reusable({"method": "mine"}) is False

    # first: what it imports, no process that is killed imports again
    RunFolder(tmp_path / "other" / "mine").write(*write)
    every_kill(tmp_path, lambda: folder.write(*write), look, at_least=8)
    assert bytes_below(folder.path) == bytes_below(tmp_path / "other" / "mine")


def searches(monkeypatch):
    """The qids of the searches from now on, in batches."""
    found = []
    search = BM25.transform

    def transform(self, inp):
        if inp.empty:  # asked for its columns
            return search(self, inp)
        found.append(inp["qid"].tolist())
        return search(self, inp)

    monkeypatch.setattr(BM25, "transform", transform)
    return found


TURNS = SAMPLE.get_topics()["qid"].tolist()[:6]


def run_raw(index, out):
    run_in_folders(Study("raw", SAMPLE, index=index, turns=",".join(TURNS)), out, turns_at_once=2)


def batches_in(turns):
    """Six turns or the last of them, two at a time."""
    batches = [turns[:2], turns[2:4], turns[4:6]]
    return [batch for batch in batches if batch]


@pytest.mark.slow
def test_killed_whole_run_goes_on_and_repeats_no_finished_batch(
    tmp_path, sample_index, monkeypatch
):
    searched = searches(monkeypatch)
    seen = []
    run_raw(sample_index, tmp_path / "whole")
    assert searched == batches_in(TURNS)
    whole = bytes_below(tmp_path / "whole" / "raw")
    for number in itertools.count():
        out = tmp_path / f"killed before {number}"
        if not killed_before(number, out, lambda out=out: run_raw(sample_index, out)):
            break
        finished = len(list((out / "raw.partial").glob("0*.turns.jsonl")))
        left = [] if (out / "raw").exists() else TURNS[2 * finished :]
        searched.clear()
        run_raw(sample_index, out)
        assert searched == batches_in(left)
        assert bytes_below(out / "raw") == whole
        assert [path.name for path in out.iterdir() if path.suffix != ".tmp"] == ["raw"]
        seen.append(len(left))
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {6, 4, 2, 0}


def test_judging_that_is_killed_repeats_no_judgement(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    reached = threading.Event()
    release = threading.Event()
    path = tmp_path / "llm.sqlite"
    turns = SAMPLE.get_topics()[["qid"]].head(5)
    passages = pd.DataFrame({"docno": [f"sample-walk-00{number}:0" for number in range(1, 7)]})
    shown = with_gold(turns.merge(passages, how="cross"), SAMPLE)

    def judge():
        llm = ikat.llm(f"openai:m base_url={server.url} cache={path} concurrency=4")
        judged = Judge(llm)(shown)
        llm.close()
        return judged

    def respond(body):
        if server.calls > 8 and not release.is_set():
            # four threads wait here: the eight earlier judgements have been kept
            if server.calls == 12:
                reached.set()
            release.wait(120)
        return said(f"{len(body['messages'][0]['content']) % 5}\nIt is about walking.")

    server.respond = respond
    child = started(judge)
    assert reached.wait(120)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    release.set()
    assert server.calls == 12
    judged = judge()
    assert server.calls == 12 + 30 - 8
    assert judge().equals(judged)
    assert (len(judged), server.calls) == (30, 12 + 30 - 8)


def test_full_disk_stops_the_completions_writer_spoiling_nothing(tmp_path):
    path = tmp_path / "cache.sqlite"

    def completion(number):
        return Completion(f"text {number} " + "x" * 300, "m", "stop", 5, 3, 0.5, cached=True)

    def put(cache, *numbers):
        for number in numbers:
            cache.put(f"key {number}", completion(number))

    def found(cache, number):
        return cache.get([f"key {number}"]) == {f"key {number}": completion(number)}

    def write_on_a_full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        full = CompletionCache(path)
        with pytest.raises(DataError, match=r"cache\.sqlite can.*free space"):
            put(full, *range(60, 3000))
        assert found(full, 1)

    cache = CompletionCache(path)
    put(cache, *range(60))
    cache.close()
    assert os.waitstatus_to_exitcode(os.waitpid(started(write_on_a_full_disk), 0)[1]) == 0
    again = CompletionCache(path)
    put(again, 10**6)
    for number in [*range(60), 10**6]:
        assert found(again, number)
    again.close()
