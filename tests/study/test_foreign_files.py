"""What a stage of another package holds on disk counts.

An index that was exchanged at its path makes another run.
"""

import json
import os
import shutil
import warnings
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.foreign import HeldFiles
from pyterrier_ikat.operator import Operator, parts_of
from pyterrier_ikat.study import AlikeWarning

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "tea"]})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


class JsonIndex(pt.Artifact):
    """An index of another package: query -> docnos, in a file of its folder."""

    def find(self, query):
        return json.loads((Path(self.path) / "lists.json").read_text()).get(query, [])


class Finds(pt.Transformer):
    """A retriever of another package: its repr shows neither what it holds nor where that lies."""

    def __init__(self, find, **held):
        super().__init__()
        self._find = find
        vars(self).update(held)

    def transform(self, inp):
        rows = []
        for qid, query in inp[["qid", "query"]].to_numpy():
            for docno in self._find(self, query)[:1]:
                rows.append((qid, query, docno, 1.0, 0))
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])

    def __repr__(self):
        return "Finds()"


class Holder:
    """A searcher as others have it: an object between the retriever and its files."""

    def __init__(self, **held):
        vars(self).update(held)


class Slotted:
    __slots__ = ("index_dir",)

    def __init__(self, index_dir):
        self.index_dir = index_dir


class Search:
    """A callable that isn't a function, so that the retriever holds none."""

    def __init__(self, folder):
        self.read = str(folder)

    def __call__(self, stage, query):
        return json.loads(Path(self.read, "lists.json").read_text()).get(query, [])


def write(folder, docno):
    Path(folder).mkdir(exist_ok=True)
    (Path(folder) / "lists.json").write_text(json.dumps({"tea": [docno], "milk": ["b"]}))


HOLDERS = {
    "an artifact": lambda folder: {"index": JsonIndex(folder)},
    "a path": lambda folder: {"anything": Path(folder)},
    "a text in an attribute for paths": lambda folder: {"index_path": str(folder)},
    "a file": lambda folder: {"lists": Path(folder) / "lists.json"},
    "an object with a path": lambda folder: {"searcher": Holder(path=str(folder))},
    "an object with slots": lambda folder: {"searcher": Slotted(str(folder))},
    "an object in an object": lambda folder: {
        "searcher": Holder(reader=Holder(directory=str(folder)))
    },
    "a list of artifacts": lambda folder: {"shards": [JsonIndex(folder)]},
    "a dict of objects": lambda folder: {"shards": {"en": Holder(path=Path(folder))}},
    "a stage in a private attribute": lambda folder: {
        "_inner": Finds(None, index=JsonIndex(folder))
    },
}


def retriever(folder, holds):
    return Finds(Search(folder), **HOLDERS[holds](folder))


def run(out, stage, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", AlikeWarning)
        return ikat.run(
            {"mine": stage}, topics=TOPICS, qrels=QRELS, out=out, measures=["R@20"], **options
        )


@pytest.mark.parametrize("holds", HOLDERS)
def test_an_index_that_was_exchanged_at_its_path_is_another_run(holds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lists", "a")
    assert run("runs", retriever("lists", holds)).table.iloc[0, 1] == 1.0
    assert run("runs", retriever("lists", holds)).table.iloc[0, 1] == 1.0
    write(tmp_path / "lists", "c")  # of the same size
    with pytest.raises(ikat.UsageError, match="different parts"):
        run("runs", retriever("lists", holds))
    assert run("others", retriever("lists", holds)).table.iloc[0, 1] == 0.5


def test_a_large_file_counts_where_its_size_stays(tmp_path):
    write(tmp_path / "lists", "a")
    large = tmp_path / "lists" / "vectors.bin"
    for place in (0, 4 << 20, (8 << 20) - 1):
        content = bytearray(8 << 20)
        large.write_bytes(content)
        found = run(tmp_path / f"runs-{place}", retriever(tmp_path / "lists", "an artifact"))
        assert found.table.iloc[0, 1] == 1.0
        content[place] = 1
        large.write_bytes(content)
        with pytest.raises(ikat.UsageError, match="different parts"):
            run(tmp_path / f"runs-{place}", retriever(tmp_path / "lists", "an artifact"))


def test_locks_and_hidden_files_do_not_count(tmp_path):
    write(tmp_path / "lists", "a")
    run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact"))
    for name in ("write.lock", ".DS_Store", "part.tmp"):
        (tmp_path / "lists" / name).touch()
    run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact"))


def test_files_foreign_to_an_index_neither_count_nor_stop_a_run(tmp_path):
    write(tmp_path / "lists", "a")
    run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact"))
    (tmp_path / "lists" / "moved").symlink_to(tmp_path / "not there")
    os.mkfifo(tmp_path / "lists" / "pipe")  # reading it would never end
    (tmp_path / "lists" / ".cache").mkdir()
    (tmp_path / "lists" / ".cache" / "page").touch()
    assert (
        run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact")).table.iloc[0, 1] == 1.0
    )


@pytest.mark.slow
def test_a_folder_that_links_to_itself_cannot_be_told(tmp_path):
    write(tmp_path / "lists", "a")
    for name in "xy":
        (tmp_path / "lists" / name).symlink_to(tmp_path / "lists")
    run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact"))
    with pytest.raises(AlikeWarning):
        run(tmp_path / "runs", retriever(tmp_path / "lists", "an artifact"))


class Opaque:
    """It searches, and names no file."""

    def __call__(self, stage, query):
        return ["a"]


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"client": Holder(address="http://localhost:9200")},
        {"url": "https://search.example.org/api"},
        {"index": JsonIndex("not there")},
        {"frame": pd.DataFrame({"docno": ["a"]})},
    ],
)
def test_retriever_of_an_unknowable_index_is_named_on_reuse(held, tmp_path):
    run(tmp_path, Finds(Opaque(), **held))
    with pytest.raises(
        AlikeWarning,
        match=r"results of mine are reused from .*, but its stage Finds\(\) can't be identified",
    ):
        run(tmp_path, Finds(Opaque(), **held))


class Notes(pt.Transformer):
    """A re-ranker of a user's own that writes notes while it works.

    Args:
        path: the file of the notes.
        begins_at: the turn with which it begins to write.
        fails_at: a turn that it can't re-rank.
    """

    def __init__(self, path, begins_at="", fails_at=None):
        super().__init__()
        self.path = str(path)
        self.begins_at = begins_at
        self.fails_at = fails_at

    def transform(self, inp):
        if self.fails_at in inp["qid"].tolist():
            raise ValueError("no notes")
        if (inp["qid"] >= self.begins_at).any():
            with Path(self.path).open("a") as file:
                file.write(f"{len(inp)}\n")
        return inp

    def __repr__(self):
        return "Notes()"


def test_stage_that_writes_its_file_runs_and_is_named_on_reuse(tmp_path):
    write(tmp_path / "lists", "a")
    (tmp_path / "notes.txt").touch()
    stage = retriever(tmp_path / "lists", "an artifact") >> Notes(tmp_path / "notes.txt")
    assert run(tmp_path / "runs", stage, turns_at_once=1).table.iloc[0, 1] == 1.0
    with pytest.raises(AlikeWarning, match=r"notes\.txt, written to during the run"):
        run(tmp_path / "runs", stage)
    write(tmp_path / "lists", "c")
    with pytest.raises(ikat.UsageError, match="different parts"):
        run(tmp_path / "runs", stage)


def test_a_stopped_run_whose_stage_wrote_its_file_goes_on(tmp_path):
    write(tmp_path / "lists", "a")
    (tmp_path / "notes.txt").touch()
    found = retriever(tmp_path / "lists", "an artifact")
    with pytest.raises(ValueError, match="no notes"):
        run(
            tmp_path / "runs",
            found >> Notes(tmp_path / "notes.txt", fails_at="1_2"),
            turns_at_once=1,
        )
    notes = found >> Notes(tmp_path / "notes.txt")
    with pytest.warns(AlikeWarning, match=r"notes\.txt, written to during the run"):
        results = ikat.run({"mine": notes}, topics=TOPICS, qrels=QRELS, out=tmp_path / "runs")
    assert results.table["name"].tolist() == ["mine"]


def test_a_stage_may_write_its_file_later_than_another_one(tmp_path):
    write(tmp_path / "lists", "a")
    found = retriever(tmp_path / "lists", "an artifact")
    for name in ("early.txt", "late.txt"):
        (tmp_path / name).touch()
    early = Notes(tmp_path / "early.txt")
    late = Notes(tmp_path / "late.txt", begins_at="1_2")
    results = run(tmp_path / "runs", found >> early >> late, turns_at_once=1)
    assert results.table.iloc[0, 1] == 1.0
    assert (tmp_path / "late.txt").read_text() == "1\n1\n"


class Lexicon(Operator):
    """A user's operator, whose argument names a file."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def transform(self, inp):
        return inp


def test_a_changed_file_that_an_operator_names_makes_another_run(tmp_path):
    write(tmp_path / "lists", "a")
    (tmp_path / "words.txt").write_text("tea")
    stage = Lexicon(str(tmp_path / "words.txt")) >> retriever(tmp_path / "lists", "an artifact")
    run(tmp_path / "runs", stage)
    run(tmp_path / "runs", stage)
    (tmp_path / "words.txt").write_text("ale")
    with pytest.raises(ikat.UsageError, match="different parts"):
        run(tmp_path / "runs", stage)


class Served(pt.Transformer):
    """A retriever that asks a server."""

    def __init__(self, url):
        super().__init__()
        self.url = url

    def transform(self, inp):
        return inp.assign(docno="a", score=1.0, rank=0)[["qid", "query", "docno", "score", "rank"]]

    def __repr__(self):
        return f"Served({self.url!r})"


def test_retriever_that_asks_a_server_is_named_on_reuse(tmp_path):
    run(tmp_path, Served("https://search.example.org"))
    with pytest.raises(
        AlikeWarning, match=r"stage Served\('https://search.example.org'\) can't be identified"
    ):
        run(tmp_path, Served("https://search.example.org"))


def test_a_dense_index_of_pyterrier_dr_counts_by_its_vectors(tmp_path):
    dense = pytest.importorskip("pyterrier_dr")
    numpy = pytest.importorskip("numpy")

    def fingerprints(seed):
        shutil.rmtree(tmp_path / "flex", ignore_errors=True)
        vectors = numpy.random.default_rng(seed).normal(size=(30, 8)).astype("float32")
        index = dense.FlexIndex(str(tmp_path / "flex"), verbose=False)
        passages = []
        for number, vector in enumerate(vectors):
            passages.append({"docno": f"d{number}", "doc_vec": vector})
        index.index(passages)
        (tmp_path / "flex" / "hnsw.faiss").write_text("built at first use")
        return [part.fingerprint() for part in parts_of(index.np_retriever())]

    assert fingerprints(0) == fingerprints(0) != fingerprints(1)


def test_pisa_writes_into_its_index_and_is_the_same(tmp_path):
    pisa = pytest.importorskip("pyterrier_pisa")
    folder = str(tmp_path / "pisa")
    pisa.PisaIndex(folder, text_field="text").index(
        [{"docno": "a", "text": "tea"}, {"docno": "b", "text": "milk"}]
    )
    run(tmp_path / "runs", pisa.PisaIndex(folder).bm25())
    pisa.PisaIndex(folder).bm25(k1=2.0).search("tea")  # writes the bounds of another scorer
    assert run(tmp_path / "runs", pisa.PisaIndex(folder).bm25()).table.iloc[0, 1] == 1.0
    shutil.rmtree(folder)
    pisa.PisaIndex(folder, text_field="text").index([{"docno": "b", "text": "milk"}])
    with pytest.raises(ikat.UsageError, match="different parts"):
        run(tmp_path / "runs", pisa.PisaIndex(folder).bm25())


def test_a_renamed_file_makes_another_fingerprint(tmp_path):
    (tmp_path / "a.txt").write_text("tea")
    held = HeldFiles(str(tmp_path))
    before = held.fingerprint()
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    assert held.fingerprint() != before
    (tmp_path / "b.txt").rename(tmp_path / "a.txt")
    assert held.fingerprint() == before
