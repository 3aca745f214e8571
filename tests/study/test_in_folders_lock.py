"""Two processes never make the same run.

The second is told at once who is at it, and a killed one keeps nothing locked.
"""

import os
import signal
import threading
from itertools import permutations

import pytest
from trust.killing import started

import pyterrier_ikat as ikat
from pyterrier_ikat.store.files import lock_folders, lock_holder
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import run_in_folders


class Holder:
    """Another process that holds run folders until it is ended."""

    def __init__(self, *folders):
        said = os.pipe()
        self.pipes = os.pipe()

        def hold():
            with lock_folders(*folders):
                os.write(said[1], b"held")
                os.read(self.pipes[0], 1)

        self.pid = started(hold)
        assert os.read(said[0], 4) == b"held"
        for pipe in said:
            os.close(pipe)

    def end(self):
        os.write(self.pipes[1], b".")
        self._wait()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self._wait()

    def _wait(self):
        os.waitpid(self.pid, 0)
        for pipe in self.pipes:
            os.close(pipe)


def test_second_process_learns_who_holds_it_and_others_are_free(tmp_path):
    out = tmp_path / "runs"
    other = Holder(out / "aqd", out / "raw")
    told = (
        rf"raw is being made by process {other.pid} on .* UTC: wait for it or stop it, or "
        rf"choose another folder"
    )
    with pytest.raises(ikat.UsageError, match=told), lock_folders(out / "qr", out / "raw"):
        pass
    with lock_folders(out / "qr"):  # nothing of the refused one stays locked
        assert sorted(os.listdir(out)) == [".aqd.lock", ".qr.lock", ".raw.lock"]
    other.end()
    assert list(tmp_path.iterdir()) == []  # the folder that the other made was empty


def test_a_killed_process_keeps_nothing_locked(tmp_path):
    other = Holder(tmp_path / "aqd")
    other.kill()
    assert os.listdir(tmp_path) == [".aqd.lock"]
    with lock_folders(tmp_path / "aqd"):
        assert lock_holder(tmp_path / ".aqd.lock").startswith(f"process {os.getpid()} on ")
    assert os.listdir(tmp_path) == []


def test_a_session_is_refused_before_anything_is_run(tmp_path):
    sample = ikat.dataset("ikat:sample")
    out = tmp_path / "runs"
    ikat.PassageIndex(tmp_path / "index").index(sample.get_corpus_iter(verbose=False))
    study = Study("raw", sample, index=str(tmp_path / "index"))
    other = Holder(out / "raw")
    with pytest.raises(ikat.UsageError, match=f"raw is being made by process {other.pid} on "):
        run_in_folders(study, out)
    assert os.listdir(out) == [".raw.lock"]
    other.end()
    assert len(run_in_folders(study, out)["raw"].answered) > 0
    assert os.listdir(out) == ["raw"]


def test_of_many_that_start_together_one_gets_everything(tmp_path):
    """Each wants the same folders in another order.

    Whoever has them keeps them until all others have been refused.
    """
    orders = list(permutations([tmp_path / name for name in "abc"]))
    together = threading.Barrier(len(orders))
    all_refused = threading.Event()
    got = []
    refused = []

    def want(order):
        together.wait()
        try:
            with lock_folders(*order):
                got.append(order)
                assert all_refused.wait(120)
        except ikat.UsageError as error:
            refused.append(str(error))
            if len(refused) == len(orders) - 1:
                all_refused.set()

    threads = [threading.Thread(target=want, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, len(orders) - 1)
    assert all("a is being made by " in text for text in refused)
    assert os.listdir(tmp_path) == []
