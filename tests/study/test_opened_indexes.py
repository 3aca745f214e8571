"""What several systems open of one folder."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import BM25, DenseRetriever
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study import open_systems


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Words and vectors of two passages."""
    path = tmp_path_factory.mktemp("index") / "both"
    corpus = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a long walk"}]
    ikat.PassageIndex(path).index(corpus)
    ikat.DenseIndex(path).index(corpus, BUNDLED)
    return str(path)


def test_systems_of_one_folder_have_each_its_retriever(folder):
    names = ["raw", "raw:retriever=dense", "raw:retriever=bm25"]
    opened = open_systems(names, index=folder)
    kinds = [type(system.retriever) for system in opened]
    assert kinds == [BM25, DenseRetriever, BM25]


def test_systems_share_the_index_that_both_name(folder):
    first, second = open_systems(["raw", "human_qr"], index=folder)
    assert first.resources.index is second.resources.index


def test_an_opened_index_keeps_its_loader_of_texts(folder):
    loader = ikat.TextLoader(folder)
    index = ikat.PassageIndex(folder, text=loader)
    [system] = open_systems("raw", index=index, retriever="dense")
    assert system.resources.index.text is loader
