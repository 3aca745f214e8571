"""Nothing is paid twice, wherever a process or a thread with batches ends."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from batches import TEXTS, Killed, asked, counted, first_letters, notes, under_way
from llms.batch_server import DROPPED
from llms.chat_server import ask, said
from llms.scripted import texts
from openai.resources.batches import Batches
from openai.resources.files import Files

from pyterrier_ikat.llms import BatchUnderWay, batch
from pyterrier_ikat.llms.cache import CompletionCache

STEPS = [
    *((Files, name) for name in ("create", "content")),
    (Batches, "create"),
    (batch, "keep_jobs"),
    *((CompletionCache, name) for name in ("put", "put_failure")),
]


def test_a_kill_at_any_step_sends_each_request_only_as_needed(server, model, monkeypatch, home):
    """Of three requests one is answered, one fails for good, and one expires and is answered by a
    second batch."""
    monkeypatch.setattr(batch, "SETTLED", 0.0)
    monkeypatch.setattr(batch, "REQUESTS", 2)
    made = model()

    def answer(body):
        text = asked(body)
        times = sum(text in server.texts(number) for number in server.batches)
        return {
            "a": said("A"),
            "b": said("B", "length"),
            "c": "batch_expired" if times == 1 else said("C"),
        }[text[0]]

    def way(place):
        for _ in range(3):
            try:
                return texts(made.ask(ask(*(f"{text}{place}" for text in TEXTS))))
            except BatchUnderWay:
                server.complete(answer=answer)
        return None

    def killed(place):
        """The same, where the process ends behind a step, and does nothing more; gives whether it
        came so far."""
        count = [0]

        def step(real):
            def work(*args, **kwargs):
                found = real(*args, **kwargs) if count[0] <= place else None
                count[0] += 1
                if count[0] > place:
                    raise Killed
                return found

            return work

        with pytest.MonkeyPatch.context() as patch:
            for owner, method in STEPS:
                patch.setattr(owner, method, step(getattr(owner, method)))
            try:
                way(place)
            except Killed:
                return True
        return False

    place = 0
    while killed(place):
        assert way(place) == ["A", "CutOff", "C"]
        assert first_letters(server) == [["a", "b"], ["c"], ["c"]], place
        server.batches.clear()
        place += 1
    assert place > 15


def test_a_creation_interrupted_just_now_is_not_repeated(server, model, monkeypatch, home):
    server.refuse["POST", "/batches"] = [DROPPED]  # the connection is lost: nobody knows
    told = str(under_way(model()))
    assert told.startswith(
        "stage answer: 3 requests wait in 1 batch (not confirmed yet: its creation was interrupted"
    )
    assert "the provider lists it in a minute, if it was created" in str(under_way(model()))
    assert server.batches == {}
    monkeypatch.setattr(batch, "SETTLED", 0.0)
    under_way(model())
    assert len(server.batches) == 1
    assert len(notes(home)) == 1


def test_a_batch_is_found_by_its_name_behind_many_others(server, model, monkeypatch):
    create = Batches.create

    def killed(self, **given):
        create(self, **given)
        raise Killed

    monkeypatch.setattr(Batches, "create", killed)
    with pytest.raises(Killed):
        model().ask(ask(*TEXTS))
    monkeypatch.setattr(Batches, "create", create)
    (ours,) = server.batches.values()
    for number in range(250):
        name = f"other_{number}"
        server.batches[name] = {**ours, "id": name, "input_file_id": f"file-other-{number}"}
    looks = []
    server.hook = looks.append
    assert [one.batch for one in under_way(model()).waiting] == ["batch_0"]
    assert looks == ["listed"] * 3


def test_a_process_killed_during_the_creation_sends_it_once(server, model, monkeypatch, home):
    reached = threading.Event()
    go_on = threading.Event()

    def wait(done):
        if done == "created":
            reached.set()
            go_on.wait(60)

    server.hook = wait
    code = (
        "import sys; from pyterrier_ikat.llms import llm, Request; "
        "llm(sys.argv[1]).ask([Request([{'role': 'user', 'content': text}], 'answer', '1_1') for "
        "text in 'abc'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"openai:m base_url={server.url} batch=on"], env=environment
    )
    assert reached.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.hook = lambda done: None
    go_on.set()
    assert [one.batch for one in under_way(model()).waiting] == [
        "batch_0"
    ]  # the lock and the note of a killed process are taken over
    server.complete()
    assert len(model().ask(ask(*TEXTS))) == 3
    assert len(server.batches) == 1


def test_threads_with_one_cache_send_one_batch(server, model):
    models = [model() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        errors = list(threads.map(under_way, models))
    assert {str(error) for error in errors} == {
        "stage answer: 3 requests wait in 1 batch (batch_0: validating); run the same cell again "
        "later"
    }
    assert len(server.batches) == 1


def test_the_list_of_batches_comes_back_as_it_was_written(tmp_path):
    cache = CompletionCache(tmp_path / "c.sqlite")
    assert batch.jobs_of(cache) == []
    jobs = [
        batch.Job("file-2", "answer", ["b", "a"], 1, 0.5, 2.0, "batch_2", "in progress", 3, True),
        batch.Job("file-1", "rewrite", ["c"], 0, 0.0, 1.0),
    ]
    batch.keep_jobs(cache, jobs)
    assert batch.jobs_of(cache) == jobs
    assert batch.list_path(cache) == Path(f"{cache.path}.batches")
    cache.close()


def test_a_list_that_was_not_rewritten_pays_nothing_twice(server, model, home):
    under_way(model(), "a", "b")
    listed = (home / "llm.sqlite.batches").read_text()
    server.complete(answer=lambda body: said("A", "stop" if asked(body) == "a" else "length"))
    columns = ("calls", "known", "failures", "prompt_tokens")
    for counts in ([2, 0, 1, 14], [0, 1, 1, 0]):
        (home / "llm.sqlite.batches").write_text(listed)  # the process was killed before
        made = model()
        assert texts(made.ask(ask("a", "b"))) == ["A", "CutOff"]
        assert counted(made, *columns) == [counts]


def test_only_a_batch_that_may_be_under_way_keeps_it_busy(model, monkeypatch):
    made = batch.BatchSending(model())
    states = {"e": "expired", "f": "failed", "c": "completed", "p": "in_progress"}
    monkeypatch.setattr(made, "_batch_of", lambda job: SimpleNamespace(status=states[job.batch]))

    def is_busy(*names):
        made.jobs = [batch.Job("file", "answer", [], 0, 0.0, 0.0, name) for name in names]
        return made._is_busy()

    assert [is_busy(*names) for names in ("", "efc", "ep", "p")] == [False, False, True, True]
    assert is_busy("e", "")  # nobody knows whether it was created
