"""Runs look up the texts of passages only where a later stage may read them.

The rankings are the same.
"""

import pickle

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.retrieve import BM25
from pyterrier_ikat.runs import RunFolder

PASSAGES = {}
for number in range(30):
    PASSAGES[f"d{number}"] = f"green tea and mint number {number} " + "tea " * (number % 5)
TOPICS = pd.DataFrame({"qid": ["1-1_1", "1-1_2"], "query": ["green tea", "mint tea"]})
QRELS = pd.DataFrame({"qid": ["1-1_1", "1-1_2"], "docno": ["d4", "d9"], "label": [1, 1]})


class Texts(Operator):
    """Adds the texts, and counts for how many passages."""

    schematic = {"label": "Texts"}
    looked_up = 0

    def transform(self, inp):
        Texts.looked_up += len(inp)
        return inp.assign(text=inp["docno"].map(PASSAGES))

    def __repr__(self):
        return "Texts()"


class ByLength(pt.Transformer):
    """A re-ranker of another package."""

    def transform(self, inp):
        return pt.model.add_ranks(inp.assign(score=inp["text"].str.len().astype(float)))

    def __repr__(self):
        return "ByLength()"


class Own(BM25):
    """Somebody's retriever that looks at the texts that it finds."""

    def transform(self, inp):
        found = super().transform(inp)
        return found[found["text"].str.contains("number")].reset_index(drop=True)


class TwoQueries(Operator):
    """Each turn as two sub-queries."""

    def transform(self, inp):
        rows = []
        for qid, query in zip(inp["qid"], inp["query"], strict=True):
            for sub, word in enumerate(query.split()):
                rows.append([f"{qid}::{sub}", qid, sub, word, query])
        return pd.DataFrame(rows, columns=["qid", "qid_0", "qsub", "query", "query_0"])


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "i"
    ikat.PassageIndex(path).index(
        {"docno": docno, "text": text} for docno, text in PASSAGES.items()
    )
    return ikat.PassageIndex(path, text=Texts()).bm25(num_results=20)


@pytest.fixture(autouse=True)
def _nothing_looked_up():
    Texts.looked_up = 0


def other(bm25, k1=1.2, b=0.75):
    return bm25.index.bm25(num_results=20, k1=k1, b=b)


SYSTEMS = {
    "alone": (lambda bm25: bm25, 0),
    "cut": (lambda bm25: bm25 % 7, 0),
    "of sub-queries": (lambda bm25: TwoQueries() >> bm25 >> ikat.RRF() % 9, 0),
    "fused": (
        lambda bm25: ikat.WeightedSum(bm25, ikat.Interleave(bm25, other(bm25)), weights=(1, 2)),
        0,
    ),
    "fused, one re-ranked": (lambda bm25: ikat.RRF(bm25, other(bm25) >> ByLength()), 2 * 20),
    "re-ranked": (lambda bm25: bm25 >> ByLength() % 4, 2 * 20),
    "expanded": (lambda bm25: bm25 >> ikat.RM3() >> bm25, 2 * 20),
    "fused, re-ranked": (lambda bm25: ikat.Interleave(bm25, other(bm25)) >> ByLength(), 2 * 2 * 20),
    "somebody's retriever": (lambda bm25: Own(bm25.index, num_results=20), 2 * 20),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_run_looks_up_the_texts_that_a_stage_may_read(name, bm25, tmp_path):
    make, wanted = SYSTEMS[name]
    expected = make(bm25)(TOPICS).sort_values(["qid", "rank"])
    assert "text" in expected
    Texts.looked_up = 0
    ikat.run({"system": make(bm25)}, topics=TOPICS, qrels=QRELS, out=tmp_path)
    ran = RunFolder(tmp_path / "system").results()
    assert Texts.looked_up == wanted
    columns = ["qid", "docno", "rank"]
    assert ran[columns].values.tolist() == expected[columns].values.tolist()


def test_a_comparison_looks_up_only_texts_that_a_stage_may_read(bm25):
    ikat.experiment({"plain": bm25, "longest": bm25 >> ByLength()}, topics=TOPICS, qrels=QRELS)
    assert Texts.looked_up == 2 * 20
    Texts.looked_up = 0
    ikat.experiment({"plain": bm25, "cut": bm25 % 5}, topics=TOPICS, qrels=QRELS)
    assert Texts.looked_up == 0
    assert bm25(TOPICS)["text"].tolist() == [PASSAGES[docno] for docno in bm25(TOPICS)["docno"]]


def test_a_retriever_without_texts_is_another_one(bm25):
    left_out = bm25.without_texts()
    assert left_out != bm25
    assert left_out == other(bm25, k1=0.9, b=0.4).without_texts()
    assert repr(left_out) == repr(bm25)
    assert "text" not in pickle.loads(pickle.dumps(left_out))(TOPICS)
