"""Fixtures of the retrieval tests."""

import pytest

from pyterrier_ikat.retrieve import PassageIndex


@pytest.fixture
def by_pisa(monkeypatch):
    """Indexes of words are PISA's, also small ones."""
    index = PassageIndex.index
    monkeypatch.setattr(PassageIndex, "index", lambda self, corpus, **options: index(self, corpus, **{"engine": "pisa", **options}))
