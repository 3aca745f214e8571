"""An index that is replaced while it is searched: rankings, texts and what is kept of them belong to one index."""

import os
import pickle
from functools import partial

import pandas as pd
import pytest
from tiny_splade import save_splade

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import BM25, DenseRetriever, SpladeRetriever
from pyterrier_ikat.retrieve.state import Replaced
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.store.models import BUNDLED

WORDS = ["green tea", "the train runs late", "a green plant", "coffee has caffeine", "black tea", "no drinks"]
A = [{"docno": f"d{number}", "text": text} for number, text in enumerate(WORDS)]
B = [{"docno": f"d{number}", "text": f"{text} {WORDS[0]}"} for number, text in enumerate(reversed(WORDS))]
ASKED = pd.DataFrame({"qid": list("abcd"), "query": ["green tea", "late train", "caffeine drinks", "black"]}, dtype=object)
RETRIEVERS = {"bm25": BM25, "splade": SpladeRetriever, "dense": DenseRetriever}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Kind -> the folders of two indexes, and what each finds."""
    top = tmp_path_factory.mktemp("pairs")
    model = save_splade(top / "tiny")
    build = {
        "bm25": lambda path, corpus: ikat.PassageIndex(path).index(corpus),
        "splade": lambda path, corpus: ikat.Splade(model).index(path, corpus),
        "dense": lambda path, corpus: ikat.DenseIndex(path).index(corpus, BUNDLED),
    }
    made = {kind: [of(top / f"{kind}-{name}", corpus) for name, corpus in (("a", A), ("b", B))] for kind, of in build.items()}
    return {kind: [(index.path, found(index.retriever())) for index in of_kind] for kind, of_kind in made.items()}


def found(retriever, asked=ASKED):
    return retriever(asked)[["qid", "docno", "score", "text"]].values.tolist()


class Place:
    """A folder with one of two indexes in it, which can be exchanged."""

    def __init__(self, folder, first, second):
        self.here, self.names, self.now = folder, [folder.with_name("first"), folder.with_name("second")], 0
        for path, name in zip((first, second), self.names, strict=True):
            os.system(f"cp -rp {path} {name}")
        os.rename(self.names[0], self.here)

    def swap(self):
        os.rename(self.here, self.names[self.now])
        self.now = 1 - self.now
        os.rename(self.names[self.now], self.here)


@pytest.fixture(params=list(RETRIEVERS))
def kind(request):
    return request.param


@pytest.mark.parametrize("moment", ["before", "behind", "for a moment", "for the texts"])
def test_a_search_gives_rankings_and_texts_of_one_index_and_keeps_no_other(pairs, kind, moment, tmp_path, monkeypatch):
    (first, of_first), (second, of_second) = pairs[kind]
    place = Place(tmp_path / "i", first, second)
    cached = partial(ikat.Index(tmp_path / "i").open(kind).retriever, cache=tmp_path / "cache")
    find, with_text, times = RETRIEVERS[kind].find_rankings, ikat.PassageIndex.with_text, []

    def find_while_swapping(self, fingerprint, queries):
        times.append(queries)
        if len(times) > 1:
            return find(self, fingerprint, queries)
        if moment in ("before", "for a moment"):
            place.swap()
        try:
            return find(self, fingerprint, queries)
        finally:
            if moment in ("behind", "for a moment"):
                place.swap()

    def text_while_swapping(self, frame):
        if len(times) > 1:
            return with_text(self, frame)
        times.append(None)
        place.swap()
        try:
            return with_text(self, frame)
        finally:
            place.swap()

    retriever = cached()
    monkeypatch.setattr(RETRIEVERS[kind], "find_rankings", find_while_swapping)
    if moment == "for the texts":
        monkeypatch.setattr(f"pyterrier_ikat.{type(ikat.Index(first).open(kind)).__name__}.with_text", text_while_swapping)
    assert found(retriever) == (of_first if place.now == 0 and moment in ("for a moment", "for the texts") else of_second)
    monkeypatch.undo()
    for _ in range(2):
        expected = of_first if place.now == 0 else of_second
        assert found(retriever) == expected
        assert found(cached()) == expected  # of what the cache has
        place.swap()


def test_rankings_that_are_kept_of_an_index_that_was_there_for_a_moment_are_not_taken(pairs, kind, tmp_path, monkeypatch):
    (first, of_first), (second, of_second) = pairs[kind]
    place = Place(tmp_path / "i", first, second)
    retriever = ikat.Index(tmp_path / "i").open(kind).retriever(cache=tmp_path / "cache")
    for expected in (of_first, of_second):
        assert found(retriever) == expected
        place.swap()
    found(retriever)
    queries, key, swaps = RETRIEVERS[kind].queries, RETRIEVERS[kind].key, []

    def swap_once(name):
        if name not in swaps:
            swaps.append(name)
            place.swap()

    monkeypatch.setattr(RETRIEVERS[kind], "queries", lambda self, *of: [swap_once("there"), queries(self, *of)][1])
    monkeypatch.setattr(RETRIEVERS[kind], "key", lambda self, *of: [swap_once("back"), key(self, *of)][1])  # behind the fingerprint
    assert found(retriever) == of_first
    assert swaps == ["there", "back"]


def test_an_index_that_never_stays_ends_the_search(pairs, tmp_path, monkeypatch):
    place = Place(tmp_path / "i", *(path for path, _ in pairs["bm25"]))
    retriever, find = ikat.PassageIndex(tmp_path / "i").bm25(), BM25.find_rankings

    def find_and_swap(self, fingerprint, queries):
        place.swap()
        return find(self, fingerprint, queries)

    monkeypatch.setattr(BM25, "find_rankings", find_and_swap)
    with pytest.raises(Replaced, match=r"/i was replaced by another one 10 times while it was searched: wait until it stays"):
        retriever(ASKED)


def test_a_used_index_can_be_sent_to_another_process(pairs):
    index = ikat.PassageIndex(pairs["bm25"][0][0])
    retriever = index.bm25()
    found(retriever)
    assert found(pickle.loads(pickle.dumps(retriever))) == pairs["bm25"][0][1]


@pytest.mark.parametrize("swaps", [1, 2])
def test_a_run_whose_index_is_replaced_stops_by_name_and_goes_on_when_it_is_back(pairs, tmp_path, monkeypatch, swaps):
    (first, of_first), (second, _) = pairs["bm25"]
    place = Place(tmp_path / "i", first, second)
    system, search, batches = ikat.PassageIndex(tmp_path / "i").bm25(), BM25.transform, []

    def transform(self, inp):
        if inp["qid"].isin(ASKED["qid"]).any():
            batches.append(inp["qid"].tolist())
            if len(batches) == 2:  # in the second batch, for good or for a moment
                place.swap()
                try:
                    return search(self, inp)
                finally:
                    if swaps == 2:
                        place.swap()
        return search(self, inp)

    qrels = pd.DataFrame({"qid": list("abcd"), "docno": ["d0", "d1", "d3", "d4"], "label": 1})
    run = partial(ikat.run, {"mine": system}, topics=ASKED, qrels=qrels, out=tmp_path / "runs", batch=1)
    monkeypatch.setattr(BM25, "transform", transform)
    with pytest.raises(ikat.DataError, match=r"/i was replaced by another one while a run used it: put back the index"):
        run()
    monkeypatch.setattr(BM25, "transform", search)
    if swaps == 1:
        with pytest.raises(ikat.UsageError, match="index"):
            run()
        place.swap()
    run()
    results = RunFolder(tmp_path / "runs" / "mine").results()
    assert [row[:2] for row in of_first] == results[["qid", "docno"]].values.tolist()
    assert [row[2] for row in of_first] == pytest.approx(results["score"].tolist())


def test_an_experiment_stops_too(pairs, tmp_path, monkeypatch):
    place = Place(tmp_path / "i", *(path for path, _ in pairs["bm25"]))
    index = ikat.PassageIndex(tmp_path / "i")
    qrels = pd.DataFrame({"qid": list("abcd"), "docno": ["d0", "d1", "d3", "d4"], "label": 1})
    systems = {"one": index.bm25(), "other": index.bm25(num_results=2)}
    search, times = BM25.transform, []

    def transform(self, inp):
        times.extend([None] * (len(inp) > 0))
        if len(inp) and len(times) == 2:
            place.swap()
        return search(self, inp)

    monkeypatch.setattr(BM25, "transform", transform)
    with pytest.raises(ikat.DataError, match="/i was replaced"):
        ikat.experiment(systems, topics=ASKED, qrels=qrels, measures=["R@5"])
