"""How processes are started and missed, with processes that start as they are told; `test_on_ray` has real ones."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from pyterrier_ikat.distribute.workers import Workers
from pyterrier_ikat.errors import UsageError

ray = pytest.importorskip("ray", reason="Ray isn't installed: pip install 'pyterrier_ikat[ray]'")


class Process:
    """What Ray gives for a process; ``started`` says how its start ends."""

    def __init__(self):
        self.started = Future()
        self.ready = SimpleNamespace(remote=lambda: SimpleNamespace(future=lambda: self.started))


@pytest.fixture
def processes(monkeypatch):
    """The processes that were asked for, on a cluster with room for two: the second node is dead."""
    made = []

    def remote():
        made.append(Process())
        return made[-1]

    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 8.0}}]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(ray, "remote", lambda worker: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote)))
    return made


def test_a_process_that_dies_before_it_begins_is_replaced_by_the_next_pipeline(processes):
    workers = Workers({"CPU": 1})
    assert workers.prepare(5) == len(processes) == 2
    processes[0].started.set_exception(RuntimeError("no memory"))
    processes[1].started.set_result(None)
    assert workers.take(lambda: False) is processes[1]
    assert workers.prepare(5) == 2
    processes[2].started.set_result(None)
    assert len(processes) == 3
    assert workers.take(lambda: False) is processes[2]


def test_a_process_that_dies_before_it_begins_is_replaced_while_a_pipeline_waits(processes):
    workers = Workers({"CPU": 1})
    workers.prepare(2)
    processes[0].started.set_exception(RuntimeError("no memory"))

    def over():
        if len(processes) > 2:
            processes[2].started.set_result(None)
        return False

    assert workers.take(over) is processes[2]
    assert len(processes) == 3


def test_processes_that_all_die_before_they_begin_are_an_error_not_a_wait(processes):
    workers = Workers({"CPU": 1})
    workers.prepare(1)

    def over():
        processes[-1].started.set_exception(RuntimeError("no memory"))
        return False

    with pytest.raises(UsageError, match="no process could be started on the Ray cluster: no memory"):
        workers.take(over)
    assert len(processes) == 3


def test_nobody_waits_for_a_process_that_is_not_needed_any_more(processes):
    workers = Workers({"CPU": 1})
    workers.prepare(1)
    answers = iter([False, True])
    assert workers.take(lambda: next(answers)) is None
