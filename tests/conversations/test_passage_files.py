"""A collection's files as one corpus, each passage traceable to file and line."""

import bz2
import gzip
import json

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import PassageFiles
from pyterrier_ikat.conversations.datasets import COLLECTION
from pyterrier_ikat.errors import DataError

CORPUS = [{"docno": f"d{number // 15}:{number % 15}", "text": f"passage {number}"} for number in range(50)]


def write_lines(path, items, pack=bytes):
    lines = [json.dumps({"id": item["docno"], "contents": item["text"], "url": ""}) for item in items]
    path.write_bytes(pack(("\n".join(lines) + "\n").encode()))


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / COLLECTION
    folder.mkdir()
    write_lines(folder / "b.jsonl.gz", CORPUS[25:], gzip.compress)
    write_lines(folder / "a.jsonl", CORPUS[:25])
    (folder / "readme.txt").write_text("x")
    return folder


def test_files_of_a_folder_are_read_by_name_as_often_as_wanted(files):
    corpus = PassageFiles(files)
    for _ in range(2):
        assert [(item["docno"], item["text"]) for item in corpus] == [(item["docno"], item["text"]) for item in CORPUS]
    assert corpus.where(1) == f"{files / 'a.jsonl'}, line 1"
    assert corpus.where(26) == f"{files / 'b.jsonl.gz'}, line 1"
    assert corpus.where(50) == f"{files / 'b.jsonl.gz'}, line 25"
    assert [item["docno"] for item in PassageFiles([files / "b.jsonl.gz"])] == [item["docno"] for item in CORPUS[25:]]
    assert [item["docno"] for item in PassageFiles(files / "a.jsonl")] == [item["docno"] for item in CORPUS[:25]]
    assert repr(PassageFiles(files / "a.jsonl")) == f"ikat.PassageFiles([{str(files / 'a.jsonl')!r}])"


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no passages \(\*.jsonl, \*.jsonl.gz, \*.jsonl.bz2\) in .*; give the folder"):
        PassageFiles(tmp_path)
    with pytest.raises(DataError, match="gone.jsonl: no such file"):
        PassageFiles(tmp_path / "gone.jsonl")
    with pytest.raises(DataError, match="no passages"):
        PassageFiles([])


def test_a_file_that_was_changed_under_way_is_named(files):
    corpus = PassageFiles(files)
    assert len(list(corpus)) == 50
    write_lines(files / "b.jsonl.gz", CORPUS[:2], gzip.compress)
    with pytest.raises(DataError, match="b.jsonl.gz has changed since it was read"):
        corpus.where(40)


def test_the_passages_of_a_years_dataset_can_be_traced_while_they_go_by(files, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(files.parent))
    corpus = ikat.dataset("ikat:2024").get_corpus_iter(verbose=False)
    assert [item["docno"] for item in corpus] == [item["docno"] for item in CORPUS]
    assert corpus.where(26) == f"{files / 'b.jsonl.gz'}, line 1"
    assert list(corpus) == []


@pytest.mark.parametrize(("suffix", "pack"), [(".jsonl.gz", gzip.compress), (".jsonl.bz2", bz2.compress)])
def test_a_packed_file_that_ends_in_the_middle_is_named(files, suffix, pack):
    path = files / f"c{suffix}"
    write_lines(path, CORPUS, pack)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=rf"c{suffix}, after line \d+: can't be read on .* fetch it again"):
        list(PassageFiles(files))
