"""What stands on the screen of a terminal: tables that are whole and fit, above the line."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pyterrier_ikat.cli.screen import draw
from pyterrier_ikat.tables import MARKS_NOTE, Cell, Column, Table

pytest.importorskip("pty", reason="Windows has no pseudo-terminals")

from terminal import screen_of

MEASURES = "nDCG@3,nDCG@5,nDCG,P(rel=1)@20,R(rel=1)@20,R(rel=1)@1000,AP(rel=1)"
SHORT = ["nDCG@3", "nDCG@5", "nDCG", "P@20", "R@20", "R@1000", "AP"]


@pytest.fixture
def runs(tmp_path):
    """Two run files and their qrels: one finds both relevant passages, the other one of them."""
    qrels = []
    good = []
    poor = []
    for turn in range(6):
        qid = f"{turn}_1"
        qrels += [f"{qid} 0 a 1", f"{qid} 0 b {1 + turn % 2}"]
        good += [f"{qid} Q0 a 1 2.0 good", f"{qid} Q0 b 2 1.0 good"]
        poor += [f"{qid} Q0 x 1 2.0 poor", f"{qid} Q0 a {2 + turn} 1.0 poor"]
    for name, lines in (("qrels", qrels), ("good.txt", good), ("poor.txt", poor)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def evaluated(runs, *more, **size):
    words = ["-m", "pyterrier_ikat", "evaluate", runs / "poor.txt", runs / "good.txt"]
    options = ["--qrels", runs / "qrels", "--measures", MEASURES]
    return screen_of(*words, *options, *more, **size)[0]


def test_a_table_is_whole_on_a_screen_of_80_columns(runs):
    rows = evaluated(runs)
    assert rows[0].split() == ["system", *SHORT]
    assert [row.split()[0] for row in rows[1:3]] == ["poor", "good"]
    assert rows[2].split()[4:] == [".1000", "1.0000", "1.0000", "1.0000"]
    assert rows[3] == ""
    assert rows[-1] == "P@20, R@20, R@1000, AP: relevant from grade 1 on."


def test_intervals_stand_beside_each_other_as_they_fit(runs):
    rows = evaluated(runs, "--baseline", "poor", "--unit", "turn")
    titles = [row.split()[1:] for row in rows if row.startswith("system")]
    assert titles[:2] == [SHORT, SHORT[:2]]
    assert sum(titles[1:], []) == SHORT
    rows = evaluated(runs, "--baseline", "poor", "--unit", "turn", columns=200)
    titles = [row.split()[1:] for row in rows if row.startswith("system")]
    assert titles == [MEASURES.split(","), MEASURES.split(",")]


def test_a_pipe_gets_every_measure_in_one_line(call, runs):
    options = ["--qrels", runs / "qrels", "--measures", MEASURES]
    shown = call("evaluate", runs / "poor.txt", *options).stdout
    assert shown.splitlines()[0].split() == ["system", *MEASURES.split(",")]


numbers = st.sampled_from([".1234", "1.0000", "+.0312 [-.0100, +.0724]", "n/a"])


@given(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=9), st.data())
def test_every_number_is_drawn_once_within_the_width(values, data):
    width = data.draw(st.integers(50, 130))
    names = Column("system", [Cell("raw"), Cell("a system with a long name")])
    columns = [names]
    for number, cells in enumerate(values):
        columns.append(Column(f"m{number}(rel=2)", [Cell(text) for text in cells], numeric=True))
    text = draw(Table([], columns, []), Console(file=io.StringIO(), width=width))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    of_raw = [line[3:] for line in text.splitlines() if line.startswith("raw ")]
    assert " ".join(of_raw).split() == " ".join(cells[0] for cells in values).split()


def test_names_that_would_be_the_same_keep_their_levels():
    columns = [Column("system", [Cell("raw")])]
    for title in ("R(rel=1)@20", "R(rel=2)@20", "AP(rel=2)"):
        columns.append(Column(title, [Cell(".5000")], numeric=True))
    text = draw(Table([], columns, []), Console(file=io.StringIO(), width=40))
    assert text.splitlines()[0].split() == ["system", "R(rel=1)@20", "R(rel=2)@20", "AP"]
    assert "AP: relevant from grade 2 on." in text


def test_names_do_not_command_the_terminal_or_break_rows():
    names = [Cell("two\nlines"), Cell("clears\x1b[2J it"), Cell("back\rwards")]
    scores = [Cell(".1000"), Cell(".2000"), Cell(".3000")]
    columns = [Column("system\x07", names), Column("nDCG", scores, numeric=True)]
    table = Table([], columns, ["Lower than two\x1b[1A lines."], title="Of\x9b2J runs")
    text = draw(table, Console(file=io.StringIO(), width=80))
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    rows = text.splitlines()
    assert rows[2].split() == ["system", "nDCG"]
    assert [row.split()[-1] for row in rows[3:6]] == [".1000", ".2000", ".3000"]
    assert rows[3].startswith("two lines ")


def test_wide_names_leave_the_numbers_below_each_other():
    names = Column("system", [Cell("raw"), Cell("会話検索")])
    scores = Column("nDCG", [Cell(".1000"), Cell(".2000")], numeric=True)
    text = draw(Table([], [names, scores], []), Console(file=io.StringIO(), width=80))
    assert text.splitlines() == ["system     nDCG", "raw       .1000", "会話検索  .2000"]


def test_marks_are_explained_where_the_terminal_has_them():
    cells = [Cell(".5000", best=True), Cell(".4000", second=True)]
    table = Table([], [Column("nDCG", cells, numeric=True)], [MARKS_NOTE])
    assert MARKS_NOTE not in draw(table, Console(file=io.StringIO(), width=80))
    coloured = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    text = draw(table, coloured)
    assert MARKS_NOTE in text
    assert "\x1b[1m.5000" in text
    assert "\x1b[4m.4000" in text
