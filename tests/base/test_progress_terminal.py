"""The line that says what is under way, as terminals show it."""

import os
import sys

import pandas as pd
import pytest
from terminal import screen_of
from terminals import Terminal

import pyterrier_ikat as ikat
from pyterrier_ikat import progress
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.progress import (
    LOADING_VARIABLE,
    OFF_VARIABLE,
    Line,
    bar,
    command_line,
    doing,
    tell,
    without_bars,
    without_loading_bars,
)
from pyterrier_ikat.study.recorder import Shown


@pytest.fixture
def terminal(monkeypatch):
    """Gives a terminal in which everything is drawn at once.

    The test calls it, because pytest replaces what a fixture sets.
    """

    def made():
        found = Terminal()
        monkeypatch.setattr(sys, "stderr", found)
        monkeypatch.setattr(progress, "LINE", Line())
        monkeypatch.setattr(progress, "REDRAW_SECONDS", -1)
        monkeypatch.delenv(OFF_VARIABLE, raising=False)
        return found

    return made


def test_a_line_says_system_stage_turns_rate_and_inner_count(terminal):
    terminal = terminal()
    with doing("ikat run"):
        assert terminal.rows()[-1] == "ikat run [00:00]"  # at once, and before anything is counted
        with doing("loading the bi-encoder x"):
            assert terminal.row() == "ikat run \u00b7 loading the bi-encoder x"
        with doing("aqd (2 of 3)"), bar(total=300, initial=100, unit="turn") as turns:
            with doing("re-ranking"), bar(total=40, desc="MiniLM", unit="text") as inner:
                turns.update(50)
                inner.update(10)
                counted = "ikat run \u00b7 aqd (2 of 3) \u00b7 re-ranking: 150/300 turns"
                assert terminal.row() == counted
                assert terminal.rows()[-1].partition(", MiniLM ")[2].startswith("10/40]")
                assert "turns/s" in terminal.rows()[-1]
            assert terminal.row() == "ikat run \u00b7 aqd (2 of 3): 150/300 turns"
        assert terminal.row() == "ikat run"
    assert terminal.rows()[-1] == ""


def test_numbers_stand_beside_a_count_unless_they_are_zero(terminal):
    terminal = terminal()
    with bar(total=8, desc="answer", unit="query") as count:
        count.update(failed=0, cached=3)
        assert terminal.row() == "answer: 1/8 queries"
        assert ", cached=3]" in terminal.rows()[-1]


def test_what_is_told_stands_above_the_line(terminal):
    terminal = terminal()
    with doing("working"):
        tell("ikat: warning: a fault")
        assert terminal.rows()[-2] == "ikat: warning: a fault"
        assert terminal.row() == "working"
    tell("done")
    assert terminal.rows()[-2:] == ["done", ""]


def test_names_in_the_line_do_not_command_the_terminal(terminal):
    terminal = terminal()
    with doing("asking x\x1b[2J\ny"), bar(total=2, desc="a\rb") as count:
        count.update()
        assert terminal.rows()[-1].startswith("asking x [2J y \u00b7 a b: 1/2 steps")
        tell("a fault\x1b[2J of\n\tz")
        assert terminal.rows()[-3:-1] == ["a fault [2J of", "\tz"]
    assert "\x1b[2J" not in terminal.getvalue()


def test_a_count_that_nobody_goes_through_leaves_no_line(terminal):
    terminal = terminal()
    bar([1, 2], desc="never begun")
    left = iter(bar([1, 2], desc="left"))
    next(left)
    assert terminal.row() == "left: 0/2 steps"
    del left
    assert terminal.rows()[-1] == ""


def test_without_a_terminal_commands_print_each_finished_system(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE", Line())
    with doing("raw (1 of 2)") as system:
        system.report("24 turns")
    assert capsys.readouterr().err == ""
    with command_line("ikat run"), doing("raw (1 of 2)") as system:
        assert list(bar([1, 2], desc="reading")) == [1, 2]
        system.started -= 72
        system.report("24 turns")
    assert capsys.readouterr().err == "raw (1 of 2): 24 turns in 01:12\n"


def test_no_line_where_unwanted_or_another_entry_describes_it(monkeypatch, terminal):
    terminal = terminal()
    with without_bars(), doing("working"):
        pass
    monkeypatch.setenv(OFF_VARIABLE, "1")
    with doing("working"):
        pass
    assert terminal.getvalue() == ""


def test_the_stages_of_a_run_are_said(terminal):
    terminal = terminal()

    class Slow(ikat.RawUtterance):
        activity = "thinking about {queries}"

        def transform(self, inp):
            said.append(terminal.row())
            return super().transform(inp)

    said = []
    with observed_by(Shown()):
        Slow()(pd.DataFrame({"qid": ["9-1_3"], "query": ["tea"]}))
    assert said == ["thinking about 1 query"]


def test_loading_bars_are_off_unless_asked_for_and_on_afterwards(monkeypatch):
    logging = pytest.importorskip("transformers").utils.logging
    before = logging.is_progress_bar_enabled()
    with without_loading_bars():
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled() == before
    monkeypatch.setenv(LOADING_VARIABLE, "0")
    with without_loading_bars():
        assert logging.is_progress_bar_enabled() == before


GIVE_UP = "import faulthandler\nfaulthandler.dump_traceback_later(60, exit=True)\n"
"""The line of a program that ends it where its threads wait for each other."""

PRINTING = """
import sys
from pyterrier_ikat.progress import bar, doing, tell
with doing("working on something that is long"):
    print("a row")
    print("begun", end=" ", flush=True)
    with bar(total=2, unit="turn") as turns:
        turns.update()
    print("and finished")
    print("a fault", file=sys.stderr)
    print()
    tell("told")
    print("left", end="")
print(" over")
"""


def test_what_is_printed_stands_whole_above_the_line():
    rows, written = screen_of("-c", PRINTING)
    assert "working on something that is long [00:00]" in written
    assert rows == ["a row", "begun and finished", "a fault", "", "told", "left over"]


def test_the_line_is_drawn_where_the_terminal_has_no_size():
    words = "-c", "from pyterrier_ikat.progress import doing\nwith doing('working'): pass"
    assert "working [00:00]" in screen_of(*words, said_size=(0, 0))[1]


def test_a_bar_of_another_library_is_drawn_below_the_line():
    program = """
from tqdm import tqdm
from pyterrier_ikat.progress import doing
with doing("working"):
    for _ in tqdm([1, 2], desc="theirs"):
        print("a row")
"""
    rows, written = screen_of("-c", program)
    assert rows[:2] == ["a row", "a row"]
    assert "theirs: 100%" in written


def test_threads_that_tell_and_count_do_not_wait_for_each_other():
    program = """
import sys
from threading import Thread
from pyterrier_ikat import progress
progress.REDRAW_SECONDS = -1
sys.setswitchinterval(1e-6)
def tell_often():
    for number in range(300):
        progress.tell(f"told {number}")
with progress.doing("working"), progress.bar(total=300, unit="turn") as turns:
    teller = Thread(target=tell_often, daemon=True)
    teller.start()
    for _ in range(300):
        turns.update()
    teller.join(20)
"""
    rows, _written = screen_of("-c", GIVE_UP + program, rows=310)
    assert rows == [f"told {number}" for number in range(300)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_process_may_leave_the_block_of_a_line():
    program = """
import os, sys
from pyterrier_ikat.progress import doing
with doing("working"):
    child = os.fork()
    if child == 0:
        sys.exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("ended with", status)
"""
    assert screen_of("-c", program)[0] == ["ended with 3"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_process_has_no_line():
    program = """
import os
from pyterrier_ikat.progress import LINE, doing
with doing("working"):
    child = os.fork()
    if child == 0:
        print(LINE.entries, LINE.bar, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
    assert "[] None" in screen_of("-c", program)[1]
