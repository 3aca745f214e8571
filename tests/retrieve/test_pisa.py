"""What is asked of PISA, the files that it needs, and what it prints."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import pisa
from pyterrier_ikat.retrieve.pisa import PisaRetriever


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "i"
    (folder / "deep").mkdir(parents=True)
    for name in ("inv.docs", "inv.freqs", "lexicon"):
        (folder / name).write_text(name)
    return folder


class Makes:
    """Makes the files of a scorer from those that it finds."""

    def __init__(self):
        self.found = []

    def __call__(self, path):
        self.found.append(sorted(os.listdir(path)))
        os.write(1, b"a line of PISA")
        for name in ("q", "q.simd"):
            with open(os.path.join(path, name), "w") as file:
                file.write("made")


def test_files_of_a_scorer_are_made_once_beside_the_others(folder, capfd):
    makes = Makes()
    (folder / "q").write_text("half")
    for _ in range(2):
        assert pisa._with_files(folder, ("q", "q.simd"), makes) == str(folder)
    assert makes.found == [["inv.docs", "inv.freqs", "lexicon"]]
    assert sorted(os.listdir(folder)) == ["deep", "inv.docs", "inv.freqs", "lexicon", "q", "q.simd"]
    assert (folder / "q").read_text() == "made"
    assert capfd.readouterr().out == ""


def test_an_index_that_is_only_read_gets_its_files_elsewhere(folder, monkeypatch):
    monkeypatch.setattr(pisa, "is_writable", lambda folder: False)
    before = sorted(os.listdir(folder))
    ready = pisa._with_files(folder, ("q", "q.simd"), Makes())
    assert sorted(os.listdir(folder)) == before
    assert sorted(os.listdir(ready)) == ["inv.docs", "inv.freqs", "lexicon", "q", "q.simd"]
    with open(os.path.join(ready, "lexicon")) as file:
        assert file.read() == "lexicon"


def test_links_to_an_index_that_is_only_read_go_at_exit(folder, monkeypatch):
    at_exit = []
    monkeypatch.setattr(pisa.atexit, "register", lambda *call, **named: at_exit.append(call))
    monkeypatch.setattr(pisa, "is_writable", lambda folder: False)
    ready = pisa._with_files(folder, ("q", "q.simd"), Makes())
    assert at_exit == [(shutil.rmtree, Path(ready))]


@pytest.mark.parametrize("removed", ["inv.docs", "inv.freqs"])
def test_files_without_their_postings_are_not_made(folder, removed):
    (folder / removed).unlink()
    makes = Makes()
    with pytest.raises(
        ikat.DataError, match=f"and {removed} was removed: put inv.docs and inv.freq"
    ):
        pisa._with_files(folder, ("q", "q.simd"), makes)
    assert makes.found == []
    (folder / "q").touch()
    (folder / "q.simd").touch()
    assert pisa._with_files(folder, ("q", "q.simd"), makes) == str(folder)


@pytest.mark.linux
def test_output_is_silent_inside_alone_also_after_an_error(capfd):
    def fails():
        with pisa._quiet():
            os.write(1, b"inside")
            os.write(2, b"inside")
            raise ZeroDivisionError

    before = len(os.listdir("/proc/self/fd"))
    print("before")
    with pytest.raises(ZeroDivisionError):
        fails()
    os.write(1, b"after")
    sys.stdout.flush()
    assert capfd.readouterr() == ("before\nafter", "")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.linux
def test_what_c_has_buffered_inside_is_silent_too(capfd):
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    with pisa._quiet():
        libc.puts(b"inside")
    libc.fflush(None)
    assert capfd.readouterr() == ("", "")


def test_counts_are_the_first_numbers_of_files(tmp_path):
    (tmp_path / "inv.sizes").write_bytes((700).to_bytes(4, "little") + b"\1\0\0\0")
    (tmp_path / "fwd.termlex").write_bytes((1 << 33).to_bytes(8, "little") + b"\1\0\0\0")
    assert pisa.count_passages(tmp_path) == 700
    assert pisa.count_terms(tmp_path) == 1 << 33


def test_without_pisa_the_other_engine_is_named(monkeypatch):
    monkeypatch.setattr(pisa, "has_pisa", lambda: True)
    pisa.require_pisa("i")
    monkeypatch.setattr(pisa, "has_pisa", lambda: False)
    with pytest.raises(ikat.UsageError, match=r"^i is searched by PISA, .*engine='eager'"):
        pisa.require_pisa("i")


class Finds:
    """A retriever of PISA: ``found`` has passages by query; queries come back in reverse."""

    num_results = 1

    def __init__(self, found, asked):
        self.found = found
        self.asked = asked

    def transform(self, frame):
        name = frame.columns[1]
        self.asked.append((name, frame["qid"].tolist(), frame[name].tolist(), self.num_results))
        rows = []
        for qid, query in reversed(list(zip(frame["qid"], frame[name], strict=True))):
            for docno, score in self.found[str(query)][: self.num_results]:
                rows.append((qid, docno, score))
        found = pd.DataFrame(rows, columns=["qid", "docno", "score"])
        return found.astype({"score": "float32", "qid": "int64"})


def test_pisa_is_asked_for_queries_with_words_in_their_order():
    found = {"tea": [("a", 2), ("b", 1)], "tram": [("c", 3)], "bus": []}
    words = Finds(found, [])
    asked = []
    words.asked = asked
    retriever = PisaRetriever(words, None)
    rankings = retriever.rankings(["tea", " ", "tram", "bus", "té\u200ba "], 1)
    assert asked[0] == ("query", [0, 2, 3, 4], ["tea", "tram", "bus", "tea"], 2)
    assert [ranking.docnos for ranking in rankings] == [["a"], [], ["c"], [], ["a"]]
    assert rankings[2].scores.tolist() == [3.0]
    assert words.num_results == 1  # a copy was asked


def test_pisa_is_asked_for_weighted_terms_as_they_are():
    terms = Finds({"{'tea': 3}": [("a", 2)]}, [])
    rankings = PisaRetriever(None, terms).rankings([{}, {"tea": 3}], 8)
    assert terms.asked == [("query_toks", [1], [{"tea": 3}], 10)]
    assert [ranking.docnos for ranking in rankings] == [[], ["a"]]


def test_rows_of_pisa_are_divided_by_their_queries():
    results = pd.DataFrame(
        {"qid": [0, 0, 2, 1], "docno": ["a", "b", "c", "a"], "score": [2.0, 1.0, 4.0, 3.0]}
    )
    found = pisa._rankings_by_query(results)
    assert {number: ranking.docnos for number, ranking in found.items()} == {
        0: ["a", "b"],
        2: ["c"],
        1: ["a"],
    }
    assert found[0].scores.tolist() == [2.0, 1.0]
    assert pisa._rankings_by_query(results[:0]) == {}


@pytest.mark.linux
def test_parameters_have_impacts_and_packed_impacts(tmp_path, monkeypatch):
    def with_files(folder, names, make):
        assert (folder, names) == (
            tmp_path,
            ("bm25.k1-1.2.b-0.75.q0.bmw.64", "bm25.k1-1.2.b-0.75.q0.bmw.64.block_simdbp"),
        )
        raise ZeroDivisionError

    monkeypatch.setattr(pisa, "_with_files", with_files)
    with pytest.raises(ZeroDivisionError):
        pisa.PisaBM25(tmp_path, {"stops": "none"}).at(1.2, 0.75)
