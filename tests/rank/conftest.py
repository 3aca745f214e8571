"""Each test starts with no backend chosen."""

import pytest


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.rank.cross_encoder._chosen", {})
