"""The line that says what is under way: what it says, when it is drawn, and that nothing else is drawn over."""

import io
import sys

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import progress
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.progress import (
    ASKED,
    EVERY,
    FIRST,
    OFF,
    PLACE,
    TURNS,
    Entry,
    Line,
    bar,
    command_line,
    doing,
    without_loading_bars,
)
from pyterrier_ikat.study.recorder import Shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def terminal_line(monkeypatch, clock):
    """Gives the line of a terminal, drawn when a test says so; the test calls it, because pytest replaces what a fixture sets."""
    return lambda: _line(monkeypatch, clock)


def _line(monkeypatch, clock):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "LINE", made := Line(lambda: clock[0], ticks=False))
    monkeypatch.delenv(OFF, raising=False)
    made.terminal = terminal
    return made


def rows(terminal):
    """What stands in the rows of a terminal: a carriage return lets the rest of its row be written over."""
    found = []
    for row in terminal.getvalue().split("\n"):
        cells = []
        for part in row.split("\r"):
            cells[: len(part)] = part
        found.append("".join(cells).rstrip())
    return found


def drawn(line):
    line.draw()
    return rows(line.terminal)[-1]


def test_a_line_says_system_turns_stage_and_what_is_counted(terminal_line, clock):
    line = terminal_line()
    with doing("ikat run", PLACE):
        clock[0] = 3
        assert drawn(line) == "ikat run 0:03"
        with doing("loading the bi-encoder x"):
            clock[0] = 5
            assert drawn(line) == "ikat run · loading the bi-encoder x 0:02"
        with doing("aqd (2 of 3)", PLACE), bar(total=300, initial=100, unit="turn", kind=TURNS) as turns:
            with doing("re-ranking"), bar(total=40, desc="MiniLM", unit="text") as inner:
                clock[0] = 25
                turns.update(50)  # 50 new ones in 20 s: the other 150 take 60 s
                inner.update(10)
                assert drawn(line) == "aqd (2 of 3) · 150/300 turns, 2.5/s, 1:00 left · re-ranking 0:20 · MiniLM 10/40"  # 79 columns
            assert drawn(line) == "aqd (2 of 3) · 150/300 turns, 2.5/s, 1:00 left"
        assert drawn(line) == "ikat run 0:25"
    assert rows(line.terminal) == [""]


def test_the_line_is_drawn_by_time(monkeypatch, clock):
    """A thread draws it, and that of an earlier line ends with it."""
    begun, waits = [], []

    class Thread:
        def __init__(self, target, args, **more):
            self.start = lambda: begun.append((target, args))

    class Over:
        def wait(self, seconds):
            waits.append(seconds)
            clock[0] += seconds
            return len(waits) > 3

        def is_set(self):
            return False

        set = is_set

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(progress.threading, "Thread", Thread)
    monkeypatch.setattr(progress.threading, "Event", Over)
    monkeypatch.setattr(progress, "LINE", Line(lambda: clock[0]))
    with doing("loading"):
        ((tick, args),) = begun
        tick(*args)
    assert waits == [FIRST, EVERY, EVERY, EVERY]
    assert FIRST + EVERY < 1
    assert [text for text in terminal.getvalue().split("\r") if text.strip()] == ["loading 0:00", "loading 0:00", "loading 0:01"]


def test_what_is_printed_stands_above_the_line(terminal_line):
    line = terminal_line()
    with doing("working", PLACE):
        drawn(line)
        print("ikat: warning: a fault", file=sys.stderr)
        assert drawn(line) == "working 0:00"
        sys.stderr.write("really? ")
        assert drawn(line) == "really?"  # nothing is drawn over a row that goes on
        print("yes", file=sys.stderr)
    assert rows(line.terminal) == ["ikat: warning: a fault", "really? yes", ""]
    assert sys.stderr is line.terminal


def test_the_first_count_is_shown_unless_it_gives_way(terminal_line):
    line = terminal_line()
    with bar(total=2, desc="answer", unit="call"):
        assert [drawn(line) for _ in bar([1], desc="inner")] == ["answer 0/2 calls"]
    assert [drawn(line) for _ in bar([1], desc="later", unit="text")] == ["later 0/1 texts"]
    reading = iter(bar([1, 2, 3], desc="reading", gives_way=True))
    assert next(reading) == 1
    with bar(total=1, desc="encoding", unit="passage"):
        assert drawn(line) == "encoding 0/1 passages"
        assert list(reading) == [2, 3]


def test_a_count_that_nobody_goes_through_leaves_no_line(terminal_line):
    line = terminal_line()
    bar([1, 2], desc="never begun")
    left = iter(bar([1, 2], desc="left"))
    next(left)
    assert drawn(line).startswith("left")
    del left
    assert rows(line.terminal) == [""]


def test_slow_things_and_bytes_are_said_in_their_units(clock):
    slow = Entry("encoding", total=10, unit="passage")
    slow.update(2)
    assert slow.shown(60) == "encoding 2/10 passages, 0:30 each, 4:00 left"
    loaded = Entry("index.tar", total=3_000_000, unit="B")
    loaded.update(1_000_000)
    assert loaded.shown(2) == "index.tar 1.0/3.0 MB, 0.5/s, 0:04 left"
    unknown = Entry("searching", unit="query")
    unknown.update(500)
    unknown.note(failed=0, cached=3)
    assert unknown.shown(2) == "searching 500 queries, 250/s, cached=3"


def test_without_a_terminal_a_line_for_each_finished_system_and_only_from_commands(monkeypatch, clock, capsys):
    monkeypatch.setattr(progress, "LINE", Line(lambda: clock[0]))
    with doing("raw (1 of 2)", PLACE) as system:
        system.report("24 turns")
    assert capsys.readouterr().err == ""
    with command_line("ikat run"), doing("raw (1 of 2)", PLACE) as system:
        assert list(bar([1, 2], desc="reading")) == [1, 2]
        clock[0] += 72
        system.report("24 turns")
    assert capsys.readouterr().err == "raw (1 of 2): 24 turns in 1:12\n"


def test_no_line_where_the_user_wants_none(monkeypatch, terminal_line):
    line = terminal_line()
    monkeypatch.setenv(OFF, "1")
    with doing("working"):
        assert drawn(line) == ""


def test_a_notebook_shows_the_line_and_takes_it_away(monkeypatch, clock):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        Handle().update(data, raw)
        return Handle()

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    made = Line(lambda: clock[0], ticks=False)
    monkeypatch.setattr(progress, "LINE", made)
    with doing("aqd", PLACE), bar(total=2, unit="turn", kind=TURNS) as turns:
        made.draw()
        turns.update()
        clock[0] = 4
        made.draw()
    assert shown == ["aqd · 0/2 turns", "aqd · 1/2 turns, 0.25/s, 0:04 left", ""]


def test_the_stages_of_a_run_are_said(terminal_line):
    line = terminal_line()

    class Slow(ikat.RawUtterance):
        activity = "thinking about {queries}"

        def transform(self, inp):
            said.append(drawn(line))
            return super().transform(inp)

    said = []
    with observed_by(Shown()):
        Slow()(pd.DataFrame({"qid": ["9-1_3"], "query": ["tea"]}))
    assert said == ["thinking about 1 query 0:00"]


def test_loading_bars_are_off_unless_asked_for_and_on_again_afterwards(monkeypatch):
    logging = pytest.importorskip("transformers").utils.logging
    before = logging.is_progress_bar_enabled()
    with without_loading_bars():
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled() == before
    monkeypatch.setenv(ASKED, "0")
    with without_loading_bars():
        assert logging.is_progress_bar_enabled() == before
