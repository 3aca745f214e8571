"""Tables on the screen of a terminal: blocks that fit, folded names, marks, titles, notes."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pyterrier_ikat.cli.screen import draw
from pyterrier_ikat.tables import HIGHER, LOWER, MARKS_NOTE, Cell, Column, Table


def column(title, *texts, numeric=False):
    return Column(title, [Cell(text) for text in texts], numeric=numeric)


def drawn(table, width, **options):
    return draw(table, Console(file=io.StringIO(), width=width, **options))


NAMES = column("system", "raw", "other")

SCORES = [
    column("m0", ".1000", "1.0000", numeric=True),
    column("m1", ".1000", "1.0000", numeric=True),
    column("m2", ".1000", "1.0000", numeric=True),
    column("m3", ".1000", "1.0000", numeric=True),
]

TWO_BLOCKS = """\
system      m0      m1
raw      .1000   .1000
other   1.0000  1.0000

system      m2      m3
raw      .1000   .1000
other   1.0000  1.0000

A note.
"""

THREE_AND_ONE = """\
system      m0      m1      m2
raw      .1000   .1000   .1000
other   1.0000  1.0000  1.0000

system      m3
raw      .1000
other   1.0000

A note.
"""

ONE_BLOCK = """\
system      m0      m1      m2      m3
raw      .1000   .1000   .1000   .1000
other   1.0000  1.0000  1.0000  1.0000

A note.
"""


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (22, TWO_BLOCKS),
        (29, TWO_BLOCKS),
        (30, THREE_AND_ONE),
        (37, THREE_AND_ONE),
        (38, ONE_BLOCK),
        (90, ONE_BLOCK),
    ],
)
def test_each_block_has_the_names_and_what_fits(width, text):
    assert drawn(Table([], [NAMES, *SCORES], ["A note."]), width) == text


def lines(table, width, **options):
    return [line.rstrip() for line in drawn(table, width, **options).splitlines()]


def test_names_wider_than_half_of_the_terminal_are_folded():
    names = column("system", "a system with a name", "raw")
    assert lines(Table([], [names, *SCORES[:2]], []), 20) == [
        "system            m0",
        "a system       .1000",
        "with a name",
        "raw           1.0000",
        "",
        "system            m1",
        "a system       .1000",
        "with a name",
        "raw           1.0000",
    ]
    assert lines(Table([], [names], []), 10) == ["system", "a system", "with a", "name", "raw"]


def test_a_wide_letter_takes_the_room_of_two():
    names = column("system", "日本語版", "raw")
    assert lines(Table([], [names, *SCORES[:2]], []), 23) == [
        "system        m0",
        "日本語版   .1000",
        "raw       1.0000",
        "",
        "system        m1",
        "日本語版   .1000",
        "raw       1.0000",
    ]


def test_every_column_of_names_is_in_each_block():
    judges = column("judge", "a", "b")
    assert lines(Table([], [NAMES, judges, *SCORES[:2]], []), 24) == [
        "system  judge      m0",
        "raw     a       .1000",
        "other   b      1.0000",
        "",
        "system  judge      m1",
        "raw     a       .1000",
        "other   b      1.0000",
    ]


def test_marks_stand_behind_numbers_that_stay_below_each_other():
    scores = [Cell(".1000"), Cell(".2000", mark=HIGHER), Cell(".0500", mark=LOWER)]
    marked = Column("nDCG", scores, numeric=True)
    table = Table(
        [], [column("system", "a", "b", "c"), marked, column("n", *"123", numeric=True)], []
    )
    expected = [
        "system   nDCG   n",
        "a       .1000   1",
        "b       .2000↑  2",
        "c       .0500↓  3",
    ]
    assert lines(table, 40) == expected
    assert lines(table, 17) == expected
    assert lines(table, 16)[4] == ""  # two blocks, since a mark takes room


BELOW = Table(
    [],
    [
        column("system", "raw"),
        column("R(rel=1)@20", ".5", numeric=True),
        column("AP(rel=2)", ".5", numeric=True),
    ],
    ["Below."],
    title="Second",
)

ABOVE = Table(
    [],
    [column("system", "raw"), column("R(rel=1)@20", ".5", numeric=True)],
    ["Above."],
    title="First",
    below=BELOW,
)


def test_a_level_is_explained_once_below_the_tables():
    assert lines(ABOVE, 18) == [
        "First",
        "",
        "system  R@20",
        "raw       .5",
        "",
        "Above.",
        "R@20: relevant",
        "from grade 1 on.",
        "",
        "Second",
        "",
        "system  R@20  AP",
        "raw       .5  .5",
        "",
        "Below.",
        "AP: relevant from",
        "grade 2 on.",
    ]
    assert lines(ABOVE, 20)[:6] == [
        "First",
        "",
        "system  R(rel=1)@20",
        "raw              .5",
        "",
        "Above.",
    ]
    assert lines(ABOVE, 20)[-5:] == [
        "Below.",
        "R@20: relevant from",
        "grade 1 on.",
        "AP: relevant from",
        "grade 2 on.",
    ]
    assert lines(ABOVE, 19)[2] == "system  R(rel=1)@20"
    both = BELOW.columns
    deepest = Table([], [both[0], both[2]], [])
    middle = Table([], both[:2], [], below=deepest)
    text = drawn(Table([], both, [], below=middle), 16)
    assert text.count("R@20: relevant") == text.count("AP: relevant") == 1


def test_texts_are_shown_as_they_are_written():
    """Nothing is a style, a smile or a number to colour."""
    columns = [column("[bold]s[/bold]", ":smile: [red]x")]
    table = Table([], columns, ["[i]n[/i] :smile: 7"], title="[b]t[/b] :smile:")
    expected = [
        "[b]t[/b] :smile:",
        "",
        "[bold]s[/bold]",
        ":smile: [red]x",
        "",
        "[i]n[/i] :smile: 7",
    ]
    for colours in (None, "standard"):
        options = {"force_terminal": True, "color_system": colours}
        assert lines(table, 60, **options) == expected


@pytest.mark.parametrize(("width", "longest"), [(60, 60), (80, 80), (200, 80)])
def test_notes_and_titles_have_80_columns_at_most(width, longest):
    words = "word " * 60
    table = Table([], [NAMES], [words], title=words)
    text = lines(table, width)
    assert longest - 5 <= max(map(len, text)) <= longest
    assert " ".join(" ".join(text).split()).count("word") == 120


def test_a_table_has_its_columns_and_the_whole_width():
    scores = []
    for number in range(12):
        scores.append(column(f"m{number}", ".1000", "1.0000", numeric=True))
    table = Table([], [NAMES, *scores], [])
    assert len(lines(table, 102)) == 3
    assert len(lines(table, 101)) == 7
    table.on_screen = [NAMES, scores[7]]
    assert lines(table, 40)[0].split() == ["system", "m7"]


def test_the_best_is_bold_and_the_second_best_underlined():
    cells = [
        Cell("1", best=True),
        Cell("2", second=True),
        Cell("3"),
        Cell("4", best=True, second=True),
    ]
    table = Table([], [Column("m", cells, numeric=True)], [MARKS_NOTE, "Another."])
    text = drawn(table, 40, force_terminal=True, color_system="standard")
    assert [line.strip() for line in text.splitlines()] == [
        "m",
        "\x1b[1m1\x1b[0m",
        "\x1b[4m2\x1b[0m",
        "3",
        "\x1b[1m4\x1b[0m",
        "",
        MARKS_NOTE,
        "Another.",
    ]
    assert lines(table, 40) == ["m", "1", "2", "3", "4", "", "Another."]
    alone = Table([], table.columns, [MARKS_NOTE])
    assert lines(alone, 40) == ["m", "1", "2", "3", "4"]


def test_a_word_longer_than_the_terminal_stays_whole():
    path = "runs/" + "x" * 50
    table = Table([], [column("m", "1")], [f"See {path} there."], title=path)
    text = lines(table, 20)
    assert text[0] == path
    assert path in text[-3:]


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


# Commands in a terminal

MEASURES = "nDCG@3,nDCG@5,nDCG,P(rel=1)@20,R(rel=1)@20,R(rel=1)@1000,AP(rel=1)"

SHORT = ["nDCG@3", "nDCG@5", "nDCG", "P@20", "R@20", "R@1000", "AP"]


@pytest.fixture
def two_runs(tmp_path):
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


def evaluated(two_runs, *more, **size):
    pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    from terminal import screen_of

    words = ["-m", "pyterrier_ikat", "evaluate", two_runs / "poor.txt", two_runs / "good.txt"]
    options = ["--qrels", two_runs / "qrels", "--measures", MEASURES]
    return screen_of(*words, *options, *more, **size)[0]


def test_a_table_is_whole_on_a_screen_of_80_columns(two_runs):
    rows = evaluated(two_runs)
    assert rows[0].split() == ["system", *SHORT]
    assert [row.split()[0] for row in rows[1:3]] == ["poor", "good"]
    assert rows[2].split()[4:] == [".1000", "1.0000", "1.0000", "1.0000"]
    assert rows[3] == ""
    assert rows[-1] == "P@20, R@20, R@1000, AP: relevant from grade 1 on."


def test_intervals_stand_beside_each_other_as_they_fit(two_runs):
    rows = evaluated(two_runs, "--baseline", "poor", "--unit", "turn")
    titles = [row.split()[1:] for row in rows if row.startswith("system")]
    assert titles[:2] == [SHORT, SHORT[:2]]
    assert sum(titles[1:], []) == SHORT
    rows = evaluated(two_runs, "--baseline", "poor", "--unit", "turn", columns=200)
    titles = [row.split()[1:] for row in rows if row.startswith("system")]
    assert titles == [MEASURES.split(","), MEASURES.split(",")]


def test_a_pipe_gets_every_measure_in_one_line(call, two_runs):
    options = ["--qrels", two_runs / "qrels", "--measures", MEASURES]
    shown = call("evaluate", two_runs / "poor.txt", *options).stdout
    assert shown.splitlines()[0].split() == ["system", *MEASURES.split(",")]
