"""What goes wrong on a disk: it is full, a builder was killed or is still at work, a part is lost; and what of an index may be removed."""

import contextlib
import errno
import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve import pisa as pisa_build
from pyterrier_ikat.retrieve import pisa_writer as writer
from pyterrier_ikat.retrieve import shards, text_writer
from pyterrier_ikat.store import files

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("fresh_writers", "by_pisa")]

CORPUS = [{"docno": f"d{number:02}", "text": f"tea {number} mint {number % 7}"} for number in range(40)]
JOB = '{"kind": "text", "build": true, "k1": 0.9, "b": 0.4, "stemmer": "none", "threads": 2}'
TEA = pd.DataFrame({"qid": ["q"], "query": ["tea mint 3"]}, dtype=object)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("disk") / "i").index(CORPUS, engine="pisa")


@pytest.fixture
def folder(built, tmp_path):
    return shutil.copytree(built.path, tmp_path / "copy")


def test_the_compressed_postings_do_not_depend_on_the_parameters_and_are_there_once(folder, tmp_path, monkeypatch):
    ikat.PassageIndex(folder).bm25(k1=1.2, b=0.75)(TEA)
    (first, linked) = (pisa_build.bm25_files(folder / "pisa", *parameters)[1] for parameters in ((0.9, 0.4), (1.2, 0.75)))
    assert linked.samefile(first)
    for path in (linked, pisa_build.bm25_files(folder / "pisa", 1.2, 0.75)[0]):
        path.rename(tmp_path / path.name)
    monkeypatch.setattr(pisa_build, "_reuse_postings", lambda *_: None)
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    ikat.PassageIndex(folder).bm25(k1=1.2, b=0.75)(TEA)
    assert not linked.samefile(first)
    for path in pisa_build.bm25_files(folder / "pisa", 1.2, 0.75):  # PISA's own
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_where_the_disk_has_no_hard_links_a_copy_is_made(folder, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    ikat.PassageIndex(folder).bm25(k1=1.2, b=0.75)(TEA)
    first, copied = (pisa_build.bm25_files(folder / "pisa", *parameters)[1] for parameters in ((0.9, 0.4), (1.2, 0.75)))
    assert copied.read_bytes() == first.read_bytes()


def test_the_uncompressed_postings_may_be_removed(built, folder, monkeypatch):
    for name in ("inv.docs", "inv.freqs"):
        (folder / "pisa" / name).unlink()
    index = ikat.PassageIndex(folder)
    found = index.bm25()(TEA)
    assert len(index) == 40
    with monkeypatch.context() as patch:
        patch.setattr("pyterrier_ikat.store.cache._opened", {})
        pd.testing.assert_frame_equal(found, built.bm25()(TEA))
    with pytest.raises(
        DataError, match=r"isn't ready for BM25 with k1=1.2, b=0.75, only for bm25.k1-0.9.b-0.4, and inv.docs was removed: put"
    ):
        index.bm25(k1=1.2, b=0.75)(TEA)
    (folder / "pisa" / "inv.sizes").unlink()
    with pytest.raises(DataError, match="pisa/inv.sizes is missing"):
        ikat.PassageIndex(folder).bm25()


def test_a_full_disk_is_named_and_with_room_the_build_goes_on(tmp_path, toy_pisa, monkeypatch):
    append = text_writer.TextWriter._append

    def of_one_batch_more(writer, batch, records):
        append(writer, batch, records)
        if writer.commits:
            writer._file.flush()  # half of a batch is on the disk
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    passages = [{"docno": f"d{number}", "text": f"tea {number}"} for number in range(40)]
    monkeypatch.setattr(text_writer.TextWriter, "_append", of_one_batch_more)
    with pytest.raises(
        DataError, match=r"i.partial can't be written to \(.*No space left on device\): free some space there, and the same call"
    ):
        ikat.PassageIndex(tmp_path / "i").index(passages)
    monkeypatch.setattr(text_writer.TextWriter, "_append", append)
    index = ikat.PassageIndex(tmp_path / "i").index(passages)
    assert toy_pisa == [20, 20]
    assert index.texts(["d3", "d30"]) == ["tea 3", "tea 30"]


@pytest.mark.parametrize(("number", "ours"), [(errno.ENOSPC, True), (errno.ECONNRESET, False)])
def test_a_disk_that_fills_up_while_merging_is_told_from_other_failures(tmp_path, toy_pisa, monkeypatch, number, ours):
    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(shards, "merge_shards", full)
    with pytest.raises(DataError if ours else ConnectionResetError, match=os.strerror(number)):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    assert len(list((tmp_path / "i.partial" / "shards").iterdir())) == 2


@pytest.mark.parametrize("name", ["inv.docs", "inv.freqs", "inv.sizes", "fwd.terms", "fwd.documents"])
def test_what_pisa_left_cut_short_on_a_full_disk_is_no_finished_shard(tmp_path, toy_pisa, monkeypatch, name):
    build, calls = pisa_build.build_text, []

    def short(folder, *args, **options):
        count = build(folder, *args, **options)
        calls.append(count)
        if len(calls) == 2:
            (folder / name).write_bytes((folder / name).read_bytes()[:-4])
        return count

    monkeypatch.setattr(pisa_build, "build_text", short)
    with pytest.raises(DataError, match=f"00001.tmp/{name} cut short .*the disk was full; free some space there"):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    assert len(ikat.PassageIndex(tmp_path / "i").index(CORPUS)) == 40
    assert calls == [20, 20, 20]


def test_pisa_is_not_started_where_the_disk_has_no_room_for_its_files(folder, monkeypatch):
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    for name in ("inv.docs", "inv.freqs"):
        (folder / "pisa" / name).write_bytes(bytes(50))
    writer.check_room(folder / "pisa")
    (folder / "pisa" / "inv.docs").write_bytes(bytes(70))
    with pytest.raises(SystemExit, match="the disk has 10 bytes left, and 12 may be needed"):
        writer.check_room(folder / "pisa")
    for path in (folder / "pisa").glob("bm25*"):
        path.unlink()
    with pytest.raises(SystemExit, match="and 60 may be needed"):
        writer.check_room(folder / "pisa")


@pytest.mark.parametrize("end", [b" whole\n", b"d3 black t"])
def test_passages_that_end_without_a_word_end_the_process_that_writes_them(monkeypatch, end):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"d1 green tea\nd2 \n" + end)))
    monkeypatch.setattr(os, "_exit", sys.exit)
    lines, read = writer.Lines(), []
    with pytest.raises(SystemExit, match="1") if b"black" in end else contextlib.nullcontext():
        read.extend(writer.passages(lines))
    assert read[:2] == [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": ""}]
    assert lines.end == ("" if b"black" in end else "whole")


def test_a_lost_shard_is_named(tmp_path, toy_pisa):
    with pytest.raises(DataError, match="40 passages instead of 50"):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS, expected=50)
    shutil.rmtree(tmp_path / "i.partial" / "shards" / "00001")
    with pytest.raises(
        DataError, match="shards/00001 is missing, a part of an interrupted build: put it back, or remove .*i.partial to start"
    ):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS)


def test_a_writer_whose_parent_was_killed_ends_and_makes_no_index_of_a_half(tmp_path):
    lines = "".join(f"{item['docno']} {item['text']}\n" for item in CORPUS)
    command = [sys.executable, str(pisa_build.WRITER), str(tmp_path / "i"), JOB]
    child = subprocess.run(command, input=lines.encode(), capture_output=True, timeout=120)
    assert child.returncode == 1
    assert not (tmp_path / "i" / "pt_meta.json").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's doing")
def test_the_writer_does_not_outlive_its_parent(tmp_path):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    writer = [str(pisa_build.WRITER), str(tmp_path / "i"), JOB]
    parent = subprocess.Popen([sys.executable, "-c", script, *writer], stdout=subprocess.PIPE, text=True)
    child = Path("/proc", parent.stdout.readline().strip())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 120
    while child.exists() and "\nState:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_builder_that_comes_when_another_ends_neither_joins_nor_spoils(tmp_path, toy_pisa, monkeypatch):
    """Between the second one's look at the free place and its lock, the first one puts its index there."""
    lock = files.lock_folders

    def late(*folders):
        monkeypatch.setattr(files, "lock_folders", lock)
        ikat.PassageIndex(tmp_path / "i").index(CORPUS)
        return lock(*folders)

    monkeypatch.setattr(files, "lock_folders", late)
    with pytest.raises(UsageError, match="i exists already"):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS[:1])
    assert len(ikat.PassageIndex(tmp_path / "i")) == 40
    assert os.listdir(tmp_path) == ["i"]


def test_hundreds_of_shards_may_be_open_at_once_and_share_their_buffers(tmp_path, monkeypatch):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        shards._allow_open_files(500)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (500, hard)
        shards._allow_open_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (500, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
