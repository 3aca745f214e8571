"""Fixtures of the retrieval tests: PISA's part of a build done in Python."""

import pytest
from toy_pisa import toy_build

from pyterrier_ikat.retrieve import PassageIndex, shards
from pyterrier_ikat.retrieve import pisa as pisa_build


@pytest.fixture
def by_pisa(monkeypatch):
    """Indexes of words are PISA's, also small ones."""
    index = PassageIndex.index
    monkeypatch.setattr(PassageIndex, "index", lambda self, corpus, **options: index(self, corpus, **{"engine": "pisa", **options}))


@pytest.fixture
def toy_pisa(monkeypatch, by_pisa):
    """PISA's part done in Python, and how many passages each call got."""
    calls = []

    def build(folder, texts, **options):
        calls.append(toy_build(folder, texts, **options))
        return calls[-1]

    monkeypatch.setattr(pisa_build, "build_text", build)
    monkeypatch.setattr(pisa_build, "make_bm25_ready", lambda *_: None)
    monkeypatch.setattr(shards, "SHARD", 20)
    return calls
