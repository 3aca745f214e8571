"""What the tests of the base share."""

import pytest

from pyterrier_ikat import progress


@pytest.fixture
def line(monkeypatch):
    """A line of its own that draws at once, in terminals."""
    made = progress.Line()
    monkeypatch.setattr(progress, "LINE", made)
    monkeypatch.setattr(progress, "REDRAW_SECONDS", -1)
    monkeypatch.delenv(progress.OFF_VARIABLE, raising=False)
    return made
