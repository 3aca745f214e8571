"""Whole tables as a terminal gets them: blocks, folded names, marks, titles, notes."""

import io

import pytest
from rich.console import Console

from pyterrier_ikat.cli.screen import draw
from pyterrier_ikat.tables import HIGHER, LOWER, MARKS_NOTE, Cell, Column, Table


def column(title, *texts, numeric=False):
    return Column(title, [Cell(text) for text in texts], numeric=numeric)


def drawn(table, width, **options):
    return draw(table, Console(file=io.StringIO(), width=width, **options))


NAMES = column("system", "raw", "other")
SCORES = [column(f"m{number}", ".1000", "1.0000", numeric=True) for number in range(4)]

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
    scores = [column(f"m{number}", ".1000", "1.0000", numeric=True) for number in range(12)]
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
