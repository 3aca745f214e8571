"""Collections of any size: files in order, shards merged into what PISA makes in one go, builds that go on where they were stopped."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_pisa import toy_build

import pyterrier_ikat as ikat
from pyterrier_ikat import PassageFiles
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve import pisa as pisa_build
from pyterrier_ikat.retrieve import shards
from pyterrier_ikat.retrieve.texts import TextStore
from pyterrier_ikat.retrieve.words import ascii_text

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("fresh_writers", "by_pisa")]

WORDS = ["tea", "tram", "river", "garden", "mint", "the", "sage", "coffee", "oats", "bus", "café", "spring", "herbs", "sweet", "line"]


def passages(count):
    draw = np.random.default_rng(7)
    return [{"docno": f"d{number * 37 % 1000:03d}:{number}", "text": " ".join(draw.choice(WORDS, 12))} for number in range(count)]


CORPUS = passages(50)


def broken_off(corpus, after):
    yield from corpus[:after]
    raise ConnectionError("the network drive is gone")


def contents(folder):
    return {path.name: path.read_bytes() for path in (Path(folder) / "pisa").iterdir()}


def write_lines(path, items, pack=bytes):
    lines = [json.dumps({"id": item["docno"], "contents": item["text"], "url": ""}) for item in items]
    path.write_bytes(pack(("\n".join(lines) + "\n").encode()))


def test_a_killed_build_goes_on_and_ends_as_the_index_that_pisa_makes_in_one_go(tmp_path, monkeypatch):
    (tmp_path / "corpus.json").write_text(json.dumps(CORPUS))
    script = (
        "import json, sys, time, pyterrier_ikat as ikat\n"
        "from pathlib import Path\n"
        "from pyterrier_ikat.retrieve import shards\n"
        "shards.SHARD = 40\n"
        "folder = Path(sys.argv[1])\n"
        "def corpus():\n"
        "    for number, item in enumerate(json.loads((folder / 'corpus.json').read_text())):\n"
        "        if number == 45:\n"
        "            (folder / 'here').touch()\n"
        "            time.sleep(600)\n"
        "        yield item\n"
        "ikat.PassageIndex(folder / 'i').index(corpus(), engine='pisa')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=Path(__file__).parents[2], start_new_session=True)
    try:
        while not (tmp_path / "here").exists():
            assert child.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    monkeypatch.setattr(shards, "SHARD", 40)
    counted, build = [], pisa_build.build_text
    monkeypatch.setattr(pisa_build, "build_text", lambda *args, **options: counted.append(build(*args, **options)) or counted[-1])
    merged = ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    assert counted == [10]
    monkeypatch.setattr(shards, "SHARD", 1000)
    whole = ikat.PassageIndex(tmp_path / "whole").index(CORPUS)
    assert contents(merged.path) == contents(whole.path)
    assert merged.describe()["sha256"] == whole.describe()["sha256"]
    assert not (tmp_path / "i.partial").exists()
    asked = pd.DataFrame({"qid": ["1", "2"], "query": ["mint river", "cafe"]}, dtype=object)
    backwards = ikat.PassageIndex(tmp_path / "backwards").index(CORPUS[::-1])
    found, expected = backwards.bm25(num_results=9)(asked), merged.bm25(num_results=9)(asked)
    pd.testing.assert_frame_equal(found, expected)  # the order of indexing decides no tie
    assert found.duplicated(["qid", "score"]).any()
    assert expected["text"].tolist() == merged.texts(expected["docno"])


def test_merged_shards_are_what_one_build_of_all_passages_is(tmp_path, toy_pisa, monkeypatch):
    ikat.PassageIndex(tmp_path / "i").index(CORPUS)
    assert toy_pisa == [20, 20, 10]
    toy_build(tmp_path / "whole", ((item["docno"], ascii_text(item["text"])) for item in CORPUS), whole=bool)
    assert contents(tmp_path / "i") == {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}


def test_an_interrupted_build_repeats_no_finished_shard(tmp_path, toy_pisa):
    index = ikat.PassageIndex(tmp_path / "i")
    with pytest.raises(ConnectionError):
        index.index(broken_off(CORPUS, 45))
    assert not (tmp_path / "i").exists()
    index.index(CORPUS)
    assert toy_pisa == [20, 20, 10]
    assert index.texts([item["docno"] for item in CORPUS]) == [item["text"] for item in CORPUS]
    assert os.listdir(tmp_path) == ["i"]


def test_a_build_stopped_before_its_first_shard_leaves_nothing(tmp_path, toy_pisa):
    with pytest.raises(ConnectionError):
        ikat.PassageIndex(tmp_path / "i").index(broken_off(CORPUS, 19))
    assert os.listdir(tmp_path) == []


def test_going_on_with_something_else_is_refused_and_spoils_nothing(tmp_path, toy_pisa):
    index = ikat.PassageIndex(tmp_path / "i")
    with pytest.raises(ConnectionError):
        index.index(broken_off(CORPUS, 45))
    changed = [*CORPUS[:30], {"docno": CORPUS[30]["docno"], "text": "other"}, *CORPUS[31:]]
    with pytest.raises(DataError, match=r"i.partial holds an interrupted build of other passages \(somewhere in 21 to 40\).*or remove it"):
        index.index(changed)
    with pytest.raises(DataError, match="of other passages"):
        index.index(CORPUS[:33])
    with pytest.raises(DataError, match="interrupted build with stemmer='porter2': give the same"):
        index.index(CORPUS, stemmer="none")
    index.index(CORPUS)
    assert toy_pisa == [20, 20, 10]


def test_count_and_checksum_are_those_of_the_corpus(tmp_path, toy_pisa):
    described = ikat.PassageIndex(tmp_path / "i").index(CORPUS, expected=50).describe()
    text = "".join(f"{item['docno']}\n{len(item['text'].encode())}\n{item['text']}" for item in CORPUS)
    assert described["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert described["count"] == 50
    with pytest.raises(DataError, match="the corpus has 50 passages instead of 51: look for a file that is missing or cut short"):
        ikat.PassageIndex(tmp_path / "j").index(CORPUS, expected=51)


def test_two_builds_of_one_index_are_not_mixed(tmp_path, toy_pisa):
    index = ikat.PassageIndex(tmp_path / "i")

    def corpus():
        yield CORPUS[0]
        with pytest.raises(UsageError, match="is being made by process"):
            ikat.PassageIndex(tmp_path / "i").index(CORPUS)
        yield CORPUS[1]

    assert len(index.index(corpus())) == 2


def test_no_threads_are_refused(tmp_path):
    with pytest.raises(UsageError, match="threads=0: give at least one"):
        ikat.PassageIndex(tmp_path / "i").index(CORPUS, threads=0)


@pytest.mark.parametrize("threads", [1, 3])
def test_texts_are_stored_in_order_in_batches_by_several_threads(tmp_path, toy_pisa, monkeypatch, threads):
    monkeypatch.setattr("pyterrier_ikat.retrieve.text_writer.BATCH", 3)
    index = ikat.PassageIndex(tmp_path / "i").index(CORPUS, threads=threads)
    stored = list(TextStore(Path(index.path) / "texts.lz4"))
    assert stored == sorted((item["docno"], item["text"]) for item in CORPUS)
    assert (Path(index.path) / "pisa" / "fwd.documents").read_text().split() == [item["docno"] for item in CORPUS]


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    def build(folder, texts, *, whole, **_):
        folder.mkdir()
        return sum(1 for _ in texts)

    monkeypatch.setattr(pisa_build, "build_text", build)
    monkeypatch.setattr(pisa_build, "make_bm25_ready", lambda *_: None)
    monkeypatch.setattr(shards, "check_written", lambda *_: None)
    monkeypatch.setattr(shards, "SHARD", 2000)
    monkeypatch.setattr(shards, "merge_shards", lambda _, folder: folder.mkdir())

    def peak(count):
        tracemalloc.start()
        ikat.PassageIndex(tmp_path / str(count)).index({"docno": f"d{n}", "text": f"{n} " * 250} for n in range(count))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    small, large = peak(4000), peak(16000)  # 16,000 of these passages are 22 MB
    assert large < small + 1e6


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write_lines(folder / "b.jsonl.gz", CORPUS[25:], gzip.compress)
    write_lines(folder / "a.jsonl", CORPUS[:25])
    (folder / "readme.txt").write_text("x")
    return folder


def test_a_repeated_passage_is_named_with_both_places(files, tmp_path, toy_pisa):
    path = files / "c.jsonl"
    write_lines(path, [*passages(51)[50:], CORPUS[30]])
    path.write_bytes(b"\n" + path.read_bytes())
    with pytest.raises(DataError) as caught:
        ikat.PassageIndex(tmp_path / "i").index(PassageFiles(files))
    assert str(caught.value) == (
        f"passage 52 of the corpus ({path}, line 3): its docno {CORPUS[30]['docno']!r} was there before, "
        f"as passage 31 of the corpus ({files / 'b.jsonl.gz'}, line 6): give each passage its own"
    )


def test_a_file_that_ends_in_the_middle_is_named_and_mended_the_build_goes_on(files, tmp_path, toy_pisa):
    path = files / "c.jsonl"
    write_lines(path, passages(60)[50:])
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    index = ikat.PassageIndex(tmp_path / "i")
    with pytest.raises(DataError, match=r"c.jsonl, line 10: not JSON .*the file may be cut short, fetch it again"):
        index.index(PassageFiles(files))
    path.write_bytes(whole)
    assert len(index.index(PassageFiles(files))) == 60
    assert toy_pisa == [20, 20, 20]


@given(st.text(st.characters(exclude_categories=[])))
def test_plain_text_by_the_character_is_plain_text_by_the_whole(text):
    decomposed = unicodedata.normalize("NFKD", text.translate(str.maketrans("\u2018\u2019\u02bc", "'''")))
    kept = "".join(character for character in decomposed if not 0x300 <= ord(character) <= 0x36F)
    assert ascii_text(text) == "".join(character if " " <= character <= "~" else " " for character in kept)
