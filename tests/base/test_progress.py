"""The progress line: entries, what the bar is made of, and texts printed above it."""

import io
import os
import struct
import sys
from types import SimpleNamespace

import pytest
from terminals import Terminal, terminals

from pyterrier_ikat import progress
from pyterrier_ikat.progress import (
    LOADING_VARIABLE,
    OFF_VARIABLE,
    Entry,
    Line,
    bar,
    command_line,
    doing,
    tell,
    without_bars,
    without_loading_bars,
)


def test_a_count_knows_how_many_there_are():
    assert bar([1, 2, 3]).total == 3
    assert bar([1, 2, 3], total=7).total == 7
    assert bar(iter(())).total is None
    assert bar(number for number in (1, 2)).total is None
    assert str(bar(desc="reading", total=3, initial=2)) == "reading 2/3"
    assert str(bar(desc="reading")) == "reading 0/?"
    assert doing("reading").unit == ""


def test_a_count_advances_and_shows_numbers_that_are_not_zero():
    count = bar(desc="answer", total=9)
    count.update(4, failed=0, cached=3)
    assert (count.n, str(count)) == (4, "answer 4/9, cached=3")
    count.update(failed=2, cached=3)
    assert (count.n, str(count)) == (5, "answer 5/9, failed=2, cached=3")
    listed = bar([5, 6])
    assert list(listed) == [5, 6]
    assert listed.n == 2


@pytest.mark.parametrize(("value", "hidden"), [("0", False), ("", False), ("1", True)])
def test_a_variable_turns_the_line_off(monkeypatch, line, value, hidden):
    terminals(monkeypatch)
    monkeypatch.setenv(OFF_VARIABLE, value)
    assert doing("x").hidden is hidden
    assert bar(disable=True).hidden


def test_a_block_without_bars_hides_those_inside_alone(monkeypatch, line):
    terminals(monkeypatch)
    with without_bars():
        with without_bars():
            pass
        assert doing("x").hidden
    assert not doing("x").hidden


@pytest.mark.parametrize(
    ("shell", "shown"),
    [(SimpleNamespace(kernel=1), True), (SimpleNamespace(), False), (None, False)],
)
def test_a_line_is_shown_in_a_notebook_or_a_terminal(monkeypatch, shell, shown):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress._is_shown() is shown
    assert doing("x").hidden is not shown
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress._is_shown()
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress._is_shown()
    tell("nobody reads it")


def test_work_is_reported_where_asked_and_no_bar_is_drawn(monkeypatch, line, capsys):
    entry = Entry(desc="raw")
    entry.report("1 turn")
    line.reports = True
    line.bar = object()
    entry.report("1 turn")
    assert capsys.readouterr() == ("", "")
    line.bar = None
    entry.report("1 turn")
    assert capsys.readouterr() == ("", "raw: 1 turn in 00:00\n")


def test_a_command_asks_for_reports_while_it_runs(line):
    for before in (False, True):
        line.reports = before
        with command_line("ikat run"):
            assert line.reports
        assert line.reports is before
        with pytest.raises(KeyError), command_line("ikat run"):
            raise KeyError
        assert line.reports is before


def test_an_entry_counts_its_time_from_its_beginning():
    entry = Entry(desc="raw")
    entry.started -= 100
    with entry:
        pass
    begun = entry.started
    assert begun > Entry().started - 50


def shown_by(line):
    return line.bar.desc, line.bar.postfix or "", line.bar.n, line.bar.total


def test_the_first_count_is_the_bars_own(monkeypatch, line):
    terminals(monkeypatch)
    with doing("run"):
        assert shown_by(line) == ("run", "", 0, None)
        with bar(desc="turns", total=5, initial=2, unit="turn") as turns, doing("asking"):
            assert shown_by(line) == ("run \u00b7 asking \u00b7 turns: ", "", 2, 5)
            with bar(desc="texts", total=9, unit="text") as texts:
                texts.update(3)
                turns.update(2, failed=1)
                assert shown_by(line)[1:] == ("failed=1, texts 3/9", 4, 5)
            assert shown_by(line)[1:] == ("failed=1", 4, 5)
        assert shown_by(line) == ("run", "", 0, None)
    assert line.bar is None


def test_the_line_is_drawn_again_after_a_while_alone(monkeypatch, line):
    terminals(monkeypatch)
    with bar(desc="turns", total=5, unit="turn") as turns:
        monkeypatch.setattr(progress, "REDRAW_SECONDS", 1000)
        turns.update()
        assert line.bar.n == 0
        monkeypatch.setattr(progress, "REDRAW_SECONDS", -1)
        turns.update()
        assert line.bar.n == 2


def test_a_drawn_line_is_drawn_again_after_a_while_from_then_on(monkeypatch, line):
    terminals(monkeypatch)
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 1000)
    with bar(desc="turns", total=5, unit="turn") as turns:
        line.bar.last_print_t = 0  # long ago
        turns.update()
        turns.update()
        assert line.bar.n == 1


def test_streams_are_replaced_while_there_is_a_line(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("outer"):
        with doing("inner"):
            assert sys.stdout.stream is out
            assert sys.stderr.stream is error
            assert sys.stderr.isatty()
        assert sys.stdout.stream is out
        with bar(total=2, unit="turn"):  # another bar in its place
            assert sys.stdout.stream is out
        assert sys.stderr.stream is error
    assert (sys.stdout, sys.stderr) == (out, error)


def test_only_terminals_are_replaced(monkeypatch, line):
    out = io.StringIO()
    terminals(monkeypatch)
    monkeypatch.setattr(sys, "stdout", out)
    with doing("working"):
        assert sys.stdout is out
        print("a row")
    assert out.getvalue() == "a row\n"


def test_printed_texts_stand_above_a_begun_row_stops_the_line(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("working"):
        before = len(error.getvalue())
        assert sys.stdout.write("begun ") == 6
        assert out.getvalue() == "begun "
        cleared = error.getvalue()[before:]
        assert "working" not in cleared  # the line is away
        sys.stdout.writelines(["and ", "done\n"])
        assert out.getvalue() == "begun and done\n"
        assert "working" in error.getvalue()[before + len(cleared) :]
        assert sys.stdout.write("") == 0
        assert not line._is_row_taken
    assert not line._is_row_taken


def test_a_drawing_of_another_library_is_left_to_itself(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("working"):
        before = error.getvalue()
        for text in ("\rtheirs: 50%", "\x1b[A", "\n"):
            sys.stderr.write(text)
        assert error.getvalue() == before + "\rtheirs: 50%\x1b[A\n"
        sys.stdout.write("\rnot a bar\n")
        assert "working" in error.getvalue()[len(before) + 10 :]


@pytest.mark.parametrize(
    ("text", "drawing"),
    [("\rx", True), ("\x1b[A", True), ("\n", True), ("", True), ("x\n", False), (" \r", False)],
)
def test_steps_of_drawing_are_known(text, drawing):
    assert progress._is_drawing(text) is drawing


def test_a_row_that_is_taken_is_not_cleared_at_the_end(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("working"):
        sys.stderr.write("left")
        before = error.getvalue()
    assert error.getvalue() == before
    assert line.bar is None
    with doing("again"):
        assert "again" in error.getvalue()


def test_who_was_forked_forgets_the_line(monkeypatch, line):
    out, error = terminals(monkeypatch)
    entry = doing("working")
    with entry:
        left = line.bar
        line._is_row_taken = True
        line.leave()
        assert (line.entries, line.bar, line._is_row_taken) == ([], None, False)
        assert left.disable
        assert entry.hidden
        assert (sys.stdout, sys.stderr) == (out, error)
    Line().leave()


def test_who_was_forked_leaves_the_line_of_the_other_as_it_is(monkeypatch, line):
    _, error = terminals(monkeypatch)
    with doing("working"):
        drawn = error.getvalue()
        line.leave()
        assert error.getvalue() == drawn


def test_a_begun_row_is_left_as_it_is_until_it_ends(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("working"):
        sys.stdout.write("begun ")
        drawn = error.getvalue()
        sys.stdout.write("and ")
        sys.stdout.write("more")
        assert error.getvalue() == drawn
    assert out.getvalue() == "begun and more"


@pytest.mark.parametrize(
    ("unit", "said", "scaled"),
    [("B", "B", True), ("turn", " turns", False), ("query", " queries", False)],
)
def test_a_bar_counts_in_its_unit(monkeypatch, unit, said, scaled):
    monkeypatch.setattr(sys, "stderr", Terminal())
    options = progress._bar_options(bar(total=5, initial=2, unit=unit))
    assert (options["unit"], options["unit_scale"]) == (said, scaled)
    assert (options["total"], options["initial"]) == (5, 2)
    assert options["file"] is sys.stderr
    assert "total" not in progress._bar_options(None)


def test_a_terminal_without_a_size_gets_a_width(monkeypatch):
    fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))
    outer, inner = pty.openpty()  # a new one has no size
    with os.fdopen(outer), os.fdopen(inner, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        for columns, name in ((0, "ncols"), (80, "dynamic_ncols")):
            fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            assert progress._columns_of(terminal) == columns
            assert progress._bar_options(None)[name]
    assert progress._columns_of(terminal) is None  # closed


def test_what_is_no_terminal_has_no_columns(tmp_path):
    with open(tmp_path / "a file", "w") as file:
        assert progress._columns_of(file) is None
    assert progress._columns_of(io.StringIO()) is None
    assert progress._columns_of(object()) is None


def loading(monkeypatch, enabled):
    """Stands for the logging of transformers; returns what was called."""
    called = []
    logging = SimpleNamespace(
        is_progress_bar_enabled=lambda: enabled,
        disable_progress_bar=lambda: called.append("off"),
        enable_progress_bar=lambda: called.append("on"),
    )
    monkeypatch.delenv(LOADING_VARIABLE, raising=False)
    monkeypatch.setattr(progress, "find_spec", lambda name: object())
    monkeypatch.setattr(progress, "import_module", lambda name: logging)
    return called


@pytest.mark.parametrize(("enabled", "calls"), [(True, ["off", "on"]), (False, ["off"])])
def test_loading_bars_are_on_afterwards_if_they_were(monkeypatch, enabled, calls):
    called = loading(monkeypatch, enabled)
    with without_loading_bars():
        assert called == ["off"]
    assert called == calls


def test_loading_bars_stay_if_asked_for_or_not_transformers(monkeypatch):
    called = loading(monkeypatch, True)
    monkeypatch.setenv(LOADING_VARIABLE, "0")
    with without_loading_bars():
        pass
    monkeypatch.delenv(LOADING_VARIABLE)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with without_loading_bars():
        pass
    assert called == []


def test_streams_of_a_notebook_stay_themselves(monkeypatch, line):
    out, _ = terminals(monkeypatch)
    shell = SimpleNamespace(kernel=1)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with doing("working"):
        assert line.bar is not None
        assert sys.stdout is out


def test_blocks_that_fail_leave_the_line_as_it_was(monkeypatch, line):
    terminals(monkeypatch)
    with pytest.raises(KeyError), without_bars():
        raise KeyError
    assert not doing("x").hidden
    with pytest.raises(KeyError), doing("working"):
        raise KeyError
    assert (line.entries, line.bar) == ([], None)
    items = (1 // number for number in (1, 0))
    with pytest.raises(ZeroDivisionError):
        list(bar(items, desc="reading"))
    assert (line.entries, line.bar) == ([], None)
    called = loading(monkeypatch, True)
    with pytest.raises(KeyError), without_loading_bars():
        raise KeyError
    assert called == ["off", "on"]


def test_a_count_grows_after_its_item_is_done(monkeypatch, line):
    terminals(monkeypatch)
    count = bar("abc", desc="reading", unit="text")
    assert [(item, count.n) for item in count] == [("a", 0), ("b", 1), ("c", 2)]
    assert count.n == 3


def test_names_that_are_empty_leave_no_signs_in_the_line(monkeypatch, line):
    terminals(monkeypatch)
    with doing("run"), doing(""), bar(total=3, unit="turn"), bar(total=2, desc="in", unit="text"):
        assert shown_by(line) == ("run: ", "in 0/2", 0, 3)
    with bar(total=3, unit="turn"):
        assert shown_by(line)[0] == ""
    with doing(""):
        assert shown_by(line)[0] == ""


def test_notes_and_names_in_the_line_are_on_one_line(monkeypatch, line):
    terminals(monkeypatch)
    with bar(total=3, desc="turns\n\x1b[2J"), bar(total=2, desc="in\x07\nner") as inner:
        inner.update()
        assert shown_by(line)[:2] == ("turns [2J: ", "in ner 1/2")


def test_a_text_or_count_that_goes_is_no_longer_drawn(monkeypatch, line):
    _, error = terminals(monkeypatch)
    outer = bar(total=9, desc="outer")
    inner = bar(total=4, desc="inner")
    outer.__enter__()
    inner.__enter__()
    inner.update(3)
    outer.__exit__()
    assert shown_by(line) == ("inner: ", "", 3, 4)
    inner.__exit__()
    assert line.bar is None
    assert error.getvalue().split("\r")[-1].strip() == ""


def test_a_text_without_an_end_stops_the_line_until_it_ends(monkeypatch, line):
    out, error = terminals(monkeypatch)
    with doing("working"):
        sys.stdout.write("half")
        sys.stdout.write("\rmore")
        before = error.getvalue()
        line.draw()
        with bar(total=2, desc="turns"):
            pass
        assert error.getvalue() == before
        sys.stdout.write("done\r")
        assert "working" in error.getvalue()[len(before) :]
    assert out.getvalue() == "half\rmoredone\r"


def test_what_is_told_goes_to_stderr_and_obeys_nobody(monkeypatch, capsys):
    tell("tea\x1b[2J\nmilk")
    assert capsys.readouterr() == ("", "tea [2J\nmilk\n")


def test_a_bar_fits_the_terminal_and_names_its_form(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    texts = progress._bar_options(None)
    counts = progress._bar_options(bar(total=5, unit="turn"))
    assert texts["bar_format"] == progress.TEXT_FORMAT
    assert counts["bar_format"] == progress.COUNT_FORMAT
    assert texts["dynamic_ncols"] is counts["dynamic_ncols"] is True
    above = progress._AboveLine(sys.stderr, Line(), True)
    stream = sys.stderr
    monkeypatch.setattr(sys, "stderr", above)
    assert progress._bar_options(None)["file"] is stream


def test_what_is_printed_is_seen_before_the_line_is_drawn(monkeypatch, line):
    out, error = terminals(monkeypatch)
    seen = []
    monkeypatch.setattr(out, "flush", lambda: seen.append((out.getvalue(), error.getvalue())))
    with doing("working"):
        before = len(error.getvalue())
        sys.stdout.write("a row\n")
        [(printed, drawn)] = seen
        assert printed == "a row\n"
        assert "working" not in drawn[before:]


def test_a_report_says_how_long_the_work_took(line, capsys):
    line.reports = True
    entry = Entry(desc="raw")
    entry.started -= 75.5
    entry.report("2 turns")
    assert capsys.readouterr() == ("", "raw: 2 turns in 01:15\n")


def test_every_entry_is_forgotten_after_a_fork(monkeypatch, line):
    out, error = terminals(monkeypatch)
    before = progress._Tqdm.get_lock()
    outer = doing("outer")
    inner = doing("inner")
    with outer, inner:
        line.leave()
        assert (outer.hidden, inner.hidden) == (True, True)
        assert progress._Tqdm.get_lock() is not before  # nobody here would release that one
    assert (sys.stdout, sys.stderr) == (out, error)


def test_a_line_is_drawn_where_nothing_can_be_printed(monkeypatch, line):
    error = Terminal()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", error)
    with doing("working"):
        assert sys.stdout is None
        assert sys.stderr.stream is error
        assert "working" in error.getvalue()
    assert (sys.stdout, sys.stderr) == (None, error)
