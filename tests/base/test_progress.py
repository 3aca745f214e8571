"""Progress bars: one at a time, and none where the output is no terminal."""

import io
import sys

import pytest

from pyterrier_ikat.events import ASKED, bar, within, without_loading_bars


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_for(monkeypatch):
    """A terminal in the place of stderr; pytest replaces what a fixture sets."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_one_bar_at_a_time(monkeypatch):
    terminal = terminal_for(monkeypatch)
    with within("gtr (3 of 14)"), bar(total=2, desc="answer") as outer:
        assert list(bar([1, 2], desc="inner")) == [1, 2]
        outer.update(2)
    assert "gtr (3 of 14): answer" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()
    assert list(bar([1], desc="later")) == [1]
    assert "later" in terminal.getvalue()


def test_a_bar_that_gives_way_is_replaced_and_its_items_still_come(monkeypatch):
    terminal = terminal_for(monkeypatch)
    reading = iter(bar([1, 2, 3], desc="reading", gives_way=True))
    assert next(reading) == 1
    with bar(total=1, desc="encoding"):
        assert list(reading) == [2, 3]
    assert "encoding" in terminal.getvalue()


def test_no_bar_without_a_terminal(capsys):
    assert list(bar([1, 2], desc="reading")) == [1, 2]
    assert capsys.readouterr().err == ""


def test_loading_bars_are_off_unless_asked_for_and_on_again_afterwards(monkeypatch):
    logging = pytest.importorskip("transformers").utils.logging
    before = logging.is_progress_bar_enabled()
    with without_loading_bars():
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled() == before
    monkeypatch.setenv(ASKED, "0")
    with without_loading_bars():
        assert logging.is_progress_bar_enabled() == before
