"""Parts of engines without a whole index: PISA's files, postings, FlexIndex, parts of texts."""

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import dense, eager, pisa, splade, texts
from pyterrier_ikat.retrieve.eager import open_postings, save_postings
from pyterrier_ikat.retrieve.pisa import PisaRetriever

# PISA


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


# The eager engine's files


def test_a_matrix_is_read_as_it_was_saved(tmp_path):
    docs = eager.new_array(tmp_path, "docs", np.int32, 3)
    docs[:] = [1, 0, 2]
    docs.flush()
    impacts = np.array([0.5, 1.5, 2.5], dtype=np.float32)
    starts = np.array([0, 1, 3], dtype=np.int64)
    save_postings(tmp_path, ["é", "z"], ["b", "c", "a"], impacts=impacts, starts=starts)
    assert (tmp_path / "docnos.txt").read_bytes() == b"a\nb\nc\n"
    assert (tmp_path / "terms.txt").read_bytes() == "é\nz\n".encode()
    postings = open_postings(tmp_path)
    assert postings.columns == {"é": 0, "z": 1}
    assert postings.docnos.tolist() == ["a", "b", "c"]
    assert postings.ranks.tolist() == [1, 2, 0]
    assert (postings.starts.tolist(), postings.starts.dtype) == ([0, 1, 3], np.int32)
    first, second, none = postings.rankings([{"é": 2.0}, {"z": 1.0, "é": 1.0}, {"x": 1.0}], 9)
    assert (first.docnos, first.scores.tolist()) == (["c"], [1.0])
    assert (second.docnos, second.scores.tolist()) == (["a", "b", "c"], [2.5, 1.5, 0.5])
    assert (none.docnos, none.scores.tolist()) == ([], [])


# FlexIndex


@pytest.mark.parametrize("rows", [2, 255, 256, 257, 513])
def test_a_flexindex_looks_its_docnos_up(tmp_path, rows):
    npids = pytest.importorskip("npids")
    docnos = [f"d{number:04}" for number in range(rows)]
    (tmp_path / dense.DOCNOS).write_text("".join(f"{docno}\n" for docno in docnos))
    dense._finish_flex(tmp_path, rows, 8)
    assert json.loads((tmp_path / "pt_meta.json").read_text()) == {
        "type": "dense_index",
        "format": "flex",
        "package_hint": "pyterrier-dr",
        "vec_size": 8,
        "doc_count": rows,
    }
    lookup = npids.Lookup(tmp_path / dense.NPIDS_FILE)
    assert [lookup.fwd[number] for number in range(rows)] == docnos
    assert lookup.inv[docnos[-1]] == rows - 1


# Encoded parts


def test_batches_of_a_part_are_read_in_their_order(tmp_path):
    path = tmp_path / "p.npz"
    arrays = {"7.a": [1], "7.b": [2], "12.a": [3], "12.b": [4, 5]}
    np.savez(path, **{name: np.array(values) for name, values in arrays.items()})
    first, second = texts.read_part(path)
    assert list(first) == list(second) == ["a", "b"]
    assert (first["a"].tolist(), first["b"].tolist()) == ([1], [2])
    assert (second["a"].tolist(), second["b"].tolist()) == ([3], [4, 5])


def test_a_part_is_named_after_its_passages(tmp_path):
    part = texts._Part(tmp_path, 5)
    part.write()
    assert list(tmp_path.iterdir()) == []
    assert not part.is_full
    part.add(3, {"x": np.zeros(4, dtype=np.float32)})
    part.add(2, {"x": np.ones(1, dtype=np.float32)})
    assert (part.end, part.byte_count) == (10, 20)
    part.write()
    [path] = tmp_path.iterdir()
    assert path.name == "0000000005-0000000010.npz"
    assert [len(batch["x"]) for batch in texts.read_part(path)] == [4, 1]


@pytest.mark.parametrize(("devices", "count"), [(None, 7), (["a"], 4096), (["a", "b"], 8192)])
def test_each_device_gets_many_batches(devices, count):
    assert texts.passages_at_once(7, devices) == count


# SPLADE's description of an index of PyTerrier


PISA_META = {"format": "pisa", "stemmer": "none"}


@pytest.fixture
def theirs(tmp_path):
    (tmp_path / "inv.sizes").write_bytes((5).to_bytes(4, "little"))
    for name in splade.PYTERRIER_FILES:
        if name != "inv.sizes":
            (tmp_path / name).write_bytes(b"x")
    (tmp_path / "pt_meta.json").write_text(json.dumps(PISA_META))
    return tmp_path


def test_an_index_of_pyterrier_is_described_like_ours(theirs):
    described = splade._describe_pyterrier_index(theirs, "a/model")
    [[count, checksum]] = described.pop("parts")
    assert (count, described) == (5, {"model": "a/model", "encoded_by": "a/model"})
    (theirs / "fwd.doclex").write_bytes(b"longer")
    [[_, other]] = splade._describe_pyterrier_index(theirs, "a/model")["parts"]
    assert other != checksum
    (theirs / "pt_meta.json").rename(theirs / "pt_pisa_config.json")
    assert splade._describe_pyterrier_index(theirs, "a/model")["parts"][0][0] == 5
    (theirs / "fwd.doclex").unlink()
    with pytest.raises(FileNotFoundError, match="doclex"):
        splade._describe_pyterrier_index(theirs, "a/model")


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"format": "pisa", "stemmer": "porter2"}, "of format 'pisa' with stemmer 'porter2'"),
        ({"format": "other", "stemmer": "none"}, "of format 'other' with stemmer 'none'"),
        ({"format": "pisa"}, "with stemmer None"),
    ],
)
def test_an_index_of_words_is_no_index_of_vectors(theirs, meta, told):
    (theirs / "pt_meta.json").write_text(json.dumps(meta))
    with pytest.raises(ikat.DataError, match=told):
        splade._describe_pyterrier_index(theirs, "a/model")
    (theirs / "pt_meta.json").write_text(json.dumps({"stemmer": "none"}))
    assert splade._describe_pyterrier_index(theirs, "a/model")
    with pytest.raises(ikat.UsageError, match="doesn't say which model encoded its passages"):
        splade._describe_pyterrier_index(theirs, None)


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


class Lookup:
    """A lookup of docnos that can't hold some, and leaves half a file."""

    def __init__(self, path, error):
        self.path = path
        self.error = error

    def __enter__(self):
        self.path.write_text("half")
        return self

    def __exit__(self, *_):
        return False

    def add(self, docno):
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError, ValueError, TypeError])
def test_docnos_that_npids_cant_hold_leave_no_lookup(tmp_path, monkeypatch, error):
    npids = pytest.importorskip("npids")
    builder = SimpleNamespace(builder=lambda path, min_block: Lookup(path, error))
    monkeypatch.setattr(npids, "Lookup", builder)
    (tmp_path / dense.DOCNOS).write_text("a\nb\n")
    dense._finish_flex(tmp_path, 2, 8)
    assert sorted(os.listdir(tmp_path)) == [dense.DOCNOS, "pt_meta.json"]


def test_the_first_description_and_the_models_files_count(theirs, tmp_path):
    other = json.dumps({"format": "other", "stemmer": "porter2"})
    (theirs / "pt_pisa_config.json").write_text(other)
    model = tmp_path / "models" / "m"
    model.mkdir(parents=True)
    checksums = set()
    for weights in ("first", "retrained"):
        (model / "weights").write_text(weights)
        checksums.add(splade._describe_pyterrier_index(theirs, str(model))["encoded_by"])
    assert len(checksums) == 2
    assert str(model) not in checksums


def test_terms_are_named_by_the_tokens_that_there_are():
    index = ikat.SpladeIndex("i", "m")
    assert [index._term_name(number) for number in range(2)] == ["0", "1"]
    index._tokens = ["tea", "##s"]  # of an index of PyTerrier
    assert [index._term_name(number) for number in range(3)] == ["tea", "##s", "2"]


def test_a_vocabulary_that_is_not_stored_is_the_passages_models(monkeypatch):
    monkeypatch.setattr(splade, "load_sparse_encoder", lambda name: name)
    monkeypatch.setattr(splade, "checksum_vocabulary", lambda model: f"of {model}")
    index = ikat.SpladeIndex("i", "passages", query_model="queries")
    description = {}
    monkeypatch.setattr(index, "describe", lambda: description)
    assert index._vocabulary() == "of passages"
    description["vocabulary"] = "stored"
    assert index._vocabulary() == "stored"


@pytest.mark.parametrize("name", splade.PYTERRIER_FILES)
def test_each_file_of_an_index_of_pyterrier_counts(theirs, name):
    [[_, before]] = splade._describe_pyterrier_index(theirs, "a/model")["parts"]
    with (theirs / name).open("ab") as file:
        file.write(b"more")
    [[_, after]] = splade._describe_pyterrier_index(theirs, "a/model")["parts"]
    assert before != after
    (theirs / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        splade._describe_pyterrier_index(theirs, "a/model")


def test_files_of_an_open_matrix_are_only_read(tmp_path):
    for name, values in {"docs": [1, 0], "impacts": [1.0, 2.0], "starts": [0, 2]}.items():
        np.save(tmp_path / f"{name}.npy", np.array(values))
    save_postings(tmp_path, ["t"], ["b", "a"])
    postings = open_postings(tmp_path)
    for array in (postings.docs, postings.impacts, postings.ranks):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
