"""A dataset of ir_datasets over a source of ours: which of its parts become what."""

from typing import NamedTuple

import ir_datasets
import pandas as pd
import pytest

from pyterrier_ikat.conversations import irds
from pyterrier_ikat.conversations.irds import IrdsDataset
from pyterrier_ikat.conversations.topics import Conversation, TopicTurn
from pyterrier_ikat.errors import DataError, UsageError


class Text(NamedTuple):
    doc_id: str
    text: str
    url: str | None = None

    @property
    def query_id(self):
        return self.doc_id

    def default_text(self):
        return self.text


class TurnQuery(NamedTuple):
    query_id: str
    turn_number: int


class Label(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


class Store:
    def __init__(self, docs, built):
        self.docs = docs
        self._built = built
        self.asked = []

    def built(self):
        return self._built

    def get_many_iter(self, docnos):
        self.asked.append(docnos)
        return [doc for doc in self.docs if doc.doc_id in docnos]


class Source:
    """A dataset with any of queries, passages and judgements."""

    def __init__(self, count=None, queries=(), docs=(), qrels=(), built=False, cls=Text):
        self.count = count
        self.queries = queries
        self.docs = docs
        self.qrels = qrels
        self.cls = cls
        self.store = Store(docs, built)

    def metadata(self):
        return {"docs": {"count": self.count}} if self.count else {}

    def has_queries(self):
        return bool(self.queries)

    def queries_cls(self):
        return self.cls

    def queries_iter(self):
        return iter(self.queries)

    def has_docs(self):
        return bool(self.docs)

    def docs_iter(self):
        return iter(self.docs)

    def docs_store(self):
        return self.store

    def has_qrels(self):
        return bool(self.qrels)

    def qrels_iter(self):
        return iter(self.qrels)


QUERIES = [Text("1", " tea? "), Text("2", "rye")]
DOCS = [Text("a", " Tea. ", "u"), Text("b", "Rye.")]
QRELS = [Label("1", "a", 2), Label("1", "a", 2), Label("2", "b", 0)]


@pytest.fixture
def of(monkeypatch):
    """Makes the dataset of a source."""

    def make(name="x/train", **parts):
        source = Source(**parts)
        monkeypatch.setattr(ir_datasets, "load", {name: source}.__getitem__)
        return IrdsDataset(name)

    return make


def test_queries_passages_and_judgements_are_those_of_the_source(of):
    data = of(count=2, queries=QUERIES, docs=DOCS, qrels=QRELS)
    assert (data.name, data.summary, data.size) == ("irds:x/train", "x/train of ir_datasets", 2)
    assert (data.page, data.unit) == ("https://ir-datasets.com/x.html", "turn")
    assert data.conversations == [
        Conversation("1", turns=(TopicTurn(1, "tea?", "", qid="1"),)),
        Conversation("2", turns=(TopicTurn(1, "rye", "", qid="2"),)),
    ]
    assert data.get_qrels().values.tolist() == [["1", "a", 2], ["2", "b", 0]]
    assert list(data.get_corpus_iter(verbose=False)) == [
        {"docno": "a", "text": "Tea.", "url": "u"},
        {"docno": "b", "text": "Rye.", "url": ""},
    ]
    assert data.clusters() == {"1": "1", "2": "2"}
    found = pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["b", "a", "b"]})
    loader = data.text_loader()
    assert loader(found)["text"].tolist() == ["Rye.", "Tea.", "Rye."]
    assert data.source.store.asked == [{"a", "b"}]
    with pytest.raises(DataError, match="lacks 1 of the passages to load .c."):
        loader(found.assign(docno=["a", "b", "c"]))
    with pytest.raises(UsageError, match="no field 'url'; there are 'text'"):
        data.text_loader("url")


def test_what_a_source_lacks_is_named(of):
    of()
    with pytest.raises(UsageError, match="ir_datasets has no dataset 'y'"):
        IrdsDataset("y")
    data = of(docs=DOCS)
    with pytest.raises(UsageError, match="irds:x/train has passages and no queries: take one"):
        data.get_topics()
    assert data.qrels_variants() == []
    with pytest.raises(UsageError, match="irds:x/train has no qrels: give a file of your own"):
        data.get_qrels()
    with pytest.raises(DataError, match="has no passages: give an index"):
        of(queries=QUERIES).get_corpus_iter(verbose=False)
    with pytest.raises(UsageError, match="turns of conversations: take cast:2019"):
        of(queries=[TurnQuery("1", 1)], cls=TurnQuery)


@pytest.mark.parametrize(
    ("parts", "loads"),
    [
        ({"count": 2, "docs": DOCS}, True),
        ({"count": 3, "docs": DOCS}, False),
        ({"count": 3, "docs": DOCS, "built": True}, True),
        ({"docs": DOCS}, False),
        ({"docs": DOCS, "built": True}, True),
        ({"count": 2, "queries": QUERIES}, False),
    ],
)
def test_texts_are_loaded_of_a_store_that_is_there_or_small(of, monkeypatch, parts, loads):
    monkeypatch.setattr(irds, "STORE_AT_ONCE", 2)
    data = of(**parts)
    if loads:
        assert data.text_loader().irds_id == "x/train"
    else:
        reason = f"{data.size} passages, too many to hold" if data.size else "no text loader"
        with pytest.raises(UsageError, match=f"has {reason}.*: index its passages"):
            data.text_loader()
