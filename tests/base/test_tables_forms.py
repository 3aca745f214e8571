"""One table in each of its forms, to the letter, and the cells of frames."""

import pandas as pd
import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.tables import (
    HIGHER,
    LOWER,
    MARKS_NOTE,
    UNKNOWN,
    UNKNOWN_NOTE,
    Cell,
    Column,
    Table,
    escape_latex,
    escape_markdown,
    format_score,
    mark_best,
    of_frame,
    without_levels,
    wrapped,
)


def scores(title="", below=None, **others):
    columns = [
        Column("run", [Cell("a_1"), Cell("b|2")]),
        Column("nDCG", mark_best([".5000", ".4000"], [HIGHER, ""]), numeric=True),
        Column("diff", [Cell("-.0312 [-.1, +.03]"), Cell("50 %")]),
        Column("n", [Cell("7"), Cell("12", second=True, mark=LOWER)], numeric=True),
    ]
    notes = ["note: one & two.", MARKS_NOTE, "note: one & two."]
    rows = [{"run": "a_1", "nDCG": 0.50001}, {"run": "b|2", "nDCG": 0.4}]
    return Table(rows, columns, notes, title, below, **others)


def test_a_table_as_text_has_its_title_rows_and_notes():
    assert scores("Scores of runs.").text().split("\n") == [
        *("Scores of runs.", ""),
        "run   nDCG   diff                 n",
        "a_1  .5000\u2191  -.0312 [-.1, +.03]   7",
        "b|2  .4000   50 %                12\u2193",
        *("", "note: one & two.", "note: one & two.", ""),
    ]


def test_a_table_as_markdown_escapes_and_marks():
    assert scores("Scores_1").markdown().split("\n") == [
        *("**Scores\\_1**", ""),
        "| run | nDCG | diff | n |",
        "| :--- | :--- | :--- | :--- |",
        "| a\\_1 | **.5000**\u2191 | -.0312 \\[-.1, +.03\\] | 7 |",
        "| b\\|2 | <ins>.4000</ins> | 50 % | <ins>12</ins>\u2193 |",
        "",
        f"note: one \\& two. {MARKS_NOTE} note: one \\& two.",
        "",
    ]


def test_a_column_of_unmarked_numbers_is_right_in_markdown():
    plain = Table([], [Column("run", [Cell("a")]), Column("n", [Cell("7")], numeric=True)], [])
    assert plain.markdown() == "| run | n |\n| :--- | ---: |\n| a | 7 |\n"
    assert plain.text() == "run  n\na    7\n"


def test_a_table_for_latex_has_caption_label_and_marks():
    text = scores("Scores of runs.", caption="What & how").latex()
    assert text.startswith("% \\usepackage{booktabs}\n\\begin{table}\n")
    caption = "Scores of runs. What \\& how. one \\& two. Best bold, second best underlined."
    for part in (
        f"\\caption{{{caption}}}",
        "\\label{tab:scores-of-runs}",
        "\\begin{tabular}{lrlr}",
        "run & nDCG & diff & n \\\\",
        "a\\_1 & \\textbf{.5000}\\rlap{$^{\\uparrow}$} & $-$.0312 [$-$.1, +.03] & 7 \\\\",
        "b\\textbar{}2 & \\underline{.4000} & 50~\\% & "
        "\\underline{12}\\rlap{$^{\\downarrow}$} \\\\",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("title", "label", "given", "expected"),
    [
        ("Scores", "results", "", "tab:scores"),
        ("Scores", "results", "tab:mine", "tab:mine"),
        ("", "plan", "", "tab:plan"),
        ("One Two-three, four five six", "", "", "tab:one-two-three-four-five"),
    ],
)
def test_the_label_of_a_paper_is_made_of_the_title(title, label, given, expected):
    assert f"\\label{{{expected}}}" in scores(title, label=label).latex(given)


def test_a_paper_table_without_words_has_no_caption_and_no_label():
    text = Table([], [Column("run", [Cell("a")])], []).latex()
    assert "caption" not in text
    assert "label" not in text


def test_a_second_table_stands_below_in_each_form():
    below = Table([], [Column("interval", [Cell("wide")])], [], "Below")
    both = scores("Above", below)
    assert both.text() == f"{scores('Above').text()}\n{below.text()}"
    assert both.markdown() == f"{scores('Above').markdown()}\n{below.markdown()}"
    expected = f"{scores('Above').latex()}\n{below.latex('tab:above-intervals')}"
    assert both.latex() == expected
    assert "\\label{tab:above-intervals}" in both.latex()
    html = both._repr_html_()
    assert html == scores("Above")._repr_html_() + below._repr_html_()


def test_a_notebook_shows_whole_cells_and_the_caption():
    long = "word " * 30 + "<end>"
    table = Table([], [Column("a & b", [Cell(long, best=True)])], ["note <1>"], "Title.")
    html = table._repr_html_()
    assert "<b>" + "word " * 30 + "&lt;end&gt;</b>" in html
    assert "<th>a &amp; b</th>" in html
    assert "<p>Title. note &lt;1&gt;</p>" in html
    assert '<div style="overflow-x: auto">' in html
    untitled = Table([], [Column("a", [Cell("x", mark=HIGHER)])], ["one", "two"])._repr_html_()
    assert "<p>one two</p>" in untitled
    assert f"x<sup>{HIGHER}</sup>" in untitled


def test_csv_has_the_values_behind_the_table():
    assert scores().csv() == "run,nDCG\na_1,0.50001\nb|2,0.4\n"
    assert scores().frame["run"].tolist() == ["a_1", "b|2"]
    frame = pd.DataFrame({"run": ["x"]}, index=[7])
    assert of_frame(frame).frame is frame


def test_a_form_is_one_of_four():
    table = scores("T")
    forms = {"text": table.text(), "markdown": table.markdown(), "latex": table.latex()}
    forms["csv"] = table.csv()
    for form, text in forms.items():
        assert table.written(form) == text
    assert table.written() == str(table) == table.text()
    with pytest.raises(UsageError, match="'html' is unknown: choose text, markdown, latex, csv"):
        table.written("html")


@pytest.mark.parametrize(
    ("shown", "best", "second"),
    [
        ([".5000", ".4000", ".5000", ".3000"], [0, 2], [1]),
        ([".5000", ".5000"], [], []),
        ([".5000"], [], []),
        ([UNKNOWN, ".5000"], [], []),
        ([], [], []),
        ([".3", ".1", ".2", ".2"], [0], [2, 3]),
        (["-.1", "+.2", ".05"], [1], [2]),
        ([UNKNOWN, ".2", ".1", ".9 (x)"], [1], [2]),
        (["10.5", "9.5", "nan"], [0], [1]),
    ],
)
def test_the_best_scores_are_those_that_read_so(shown, best, second):
    cells = mark_best(shown, [""] * len(shown))
    assert [place for place, cell in enumerate(cells) if cell.best] == best
    assert [place for place, cell in enumerate(cells) if cell.second] == second
    assert [cell.text for cell in cells] == shown


def test_marks_stay_with_their_scores():
    cells = mark_best([".1", ".2"], [HIGHER, LOWER])
    assert [cell.mark for cell in cells] == [HIGHER, LOWER]
    assert Column("x", cells).marked
    assert Column("x", [Cell("1", mark=LOWER), Cell("2")]).marked
    assert not Column("x", [Cell("1"), Cell("2")]).marked


@pytest.mark.parametrize(
    ("text", "latex", "markdown"),
    [
        ("a_b", "a\\_b", "a\\_b"),
        ("50 % of\nR&D", "50~\\% of R\\&D", "50 % of R\\&D"),
        ("#1 {x} $2", "\\#1 \\{x\\} \\$2", "\\#1 \\{x\\} \\$2"),
        ("a\\b~c^d", "a\\textbackslash{}b\\textasciitilde{}c\\textasciicircum{}d", "a\\\\b\\~c^d"),
        ("<x>|[y]", "\\textless{}x\\textgreater{}\\textbar{}[y]", "\\<x\\>\\|\\[y\\]"),
        ("\x1b[2J *b* `c`", "[2J *b* `c`", "\\[2J \\*b\\* \\`c\\`"),
    ],
)
def test_a_text_is_shown_as_it_is_on_one_line(text, latex, markdown):
    assert escape_latex(text) == latex
    assert escape_markdown(text) == markdown


def cells_of(table):
    texts = []
    for column in table.columns:
        texts.append([cell.text for cell in column.cells])
    return texts


def test_a_frame_shows_numbers_right_and_unknown_ones_by_a_sign():
    frame = pd.DataFrame(
        {
            "run": ["qr", None],
            "turns": pd.array([3, None], dtype="Int64"),
            "nDCG": [0.5, None],
            "ok": [True, False],
        }
    )
    table = of_frame(frame, ["a note"], "title")
    assert cells_of(table) == [["qr", ""], ["3", UNKNOWN], [".5000", UNKNOWN], ["True", "False"]]
    assert [column.numeric for column in table.columns] == [False, True, True, False]
    assert table.notes == ["a note", UNKNOWN_NOTE]
    assert (table.title, [column.title for column in table.columns]) == ("title", list(frame))
    whole = of_frame(frame.head(1), ["a note"])
    assert whole.notes == ["a note"]


def test_columns_of_one_name_have_their_own_values():
    frame = pd.DataFrame([["a", 0.25]], columns=["x", "x"])
    assert cells_of(of_frame(frame)) == [["a"], [".2500"]]


@pytest.mark.parametrize(
    ("texts", "numeric", "noted"), [(None, [True, True], True), (1, [False, True], False)]
)
def test_the_first_columns_may_be_texts(texts, numeric, noted):
    frame = pd.DataFrame({"year": [2023.0, None], "turns": [3, 4]})
    table = of_frame(frame, texts=texts)
    assert [column.numeric for column in table.columns] == numeric
    assert (UNKNOWN_NOTE in table.notes) is noted


def test_a_missing_text_is_empty_and_a_missing_number_unknown():
    frame = pd.DataFrame({"year": [2023.0, None], "by": ["us", None], "turns": [3.0, None]})
    table = of_frame(frame, texts=1)
    assert [row[1] for row in cells_of(table)] == [UNKNOWN, "", UNKNOWN]


@pytest.mark.parametrize(
    ("decimals", "shown"),
    [
        (4, [[".1235"], ["1234.5000"]]),
        (2, [[".12"], ["1234.50"]]),
        ({"cost": 1}, [[".1235"], ["1,234.5"]]),
    ],
)
def test_a_column_has_its_own_decimals(decimals, shown):
    frame = pd.DataFrame({"nDCG": [0.12346], "cost": [1234.5]})
    assert cells_of(of_frame(frame, decimals=decimals)) == shown


@pytest.mark.parametrize(
    ("value", "options", "shown"),
    [
        (0.8608, {}, ".8608"),
        (1, {}, "1.0000"),
        (-0.0312, {}, "-.0312"),
        (-0.00001, {}, ".0000"),
        (10.5, {}, "10.5000"),
        (0.0312, {"signed": True}, "+.0312"),
        (-0.00001, {"signed": True}, "+.0000"),
        (0.5, {"decimals": 2}, ".50"),
        (-0.996, {"decimals": 2}, "-1.00"),
    ],
)
def test_a_score_has_no_zero_before_its_point(value, options, shown):
    assert format_score(value, **options) == shown


def test_wrapped_lines_keep_words_whole():
    word = "well-known-" * 9
    assert wrapped(f"a {word} b").split("\n") == ["a", word, "b"]
    assert wrapped("one two three", "> ", "- ", 9).split("\n") == ["> one two", "> - three"]
    assert max(map(len, wrapped("word " * 40).split("\n"))) == 79


WIDE = "w" * 20  # 20 x 7.8 = 156 points


def latex_of(*columns, title="T"):
    return Table([], columns, [], title).latex()


@pytest.mark.parametrize(
    ("width", "numbers", "begins", "size"),
    [
        # 241 points of a column, 345 of a page; a column of 5.5 points a letter has two gaps
        (29, 1, "\\begin{table}\n", None),  # 159.5 + 4 * 6 + 55
        (31, 1, "\\begin{table}\n", "\\small"),  # (170.5 + 55) * .93 + 16
        (36, 1, "\\begin{table}\n", "\\footnotesize"),  # (198 + 55) * .85 + 12
        (48, 1, "\\begin{table*}\n", None),  # 264 + 55 + 24
        (52, 1, "\\begin{table*}\n", "\\small"),
        (58, 1, "\\begin{table*}\n", "\\footnotesize"),
        (62, 1, "\\begin{table*}\n", "\\scriptsize"),
        (99, 1, "\\begin{table*}\n", "\\scriptsize"),
    ],
)
def test_a_paper_table_takes_the_largest_form_that_fits(width, numbers, begins, size):
    columns = [Column("x" * width, [Cell("x")]), Column("n", [Cell("x" * 10)], numeric=True)]
    text = latex_of(*columns)
    assert begins in text
    sizes = [name for name in ("\\small", "\\footnotesize", "\\scriptsize") if name in text]
    assert sizes == ([] if size is None else [size])
    assert ("tabcolsep" in text) is (size is not None)
    assert ("may be wider than the page" in text) is (width == 99)
    assert text.count("\\end{table") == 1


def test_bold_and_long_cells_need_their_room():
    def sized(cell):
        return "tabcolsep" in latex_of(Column("n", [Cell("x"), cell]))

    fitting = "x" * 41  # 225.5 + 12 points
    assert not sized(Cell(fitting))
    assert sized(Cell(fitting, best=True))
    assert sized(Cell(fitting + "xx"))
    assert not sized(Cell("i" * 80))  # 2.8 points each
    assert sized(Cell("M" * 30))  # 7.8 points each


def test_a_wide_table_without_words_has_its_size_in_a_group():
    text = Table([], [Column("x" * 43, [Cell("a")])], []).latex()
    lines = text.split("\n")
    assert lines[1:4] == ["{", "\\small", "\\setlength{\\tabcolsep}{4pt}"]
    assert lines[-2:] == ["}", ""]


def test_a_wide_table_has_shorter_names_and_says_their_levels():
    names = ["P(rel=2)@5", "R(rel=1)@20", "R(rel=2)@10", "nDCG@5", "P(rel=1)@3", "P(rel=2)@3"]
    columns = [Column("run", [Cell("x" * 20)])]
    columns += [Column(name, [Cell(".5000")], numeric=True) for name in names]
    text = Table([], columns, ["a note"], "Scores").latex()
    assert "run & P@5 & R@20 & R@10 & nDCG@5 & P(rel=1)@3 & P(rel=2)@3" in text
    caption = "P@5, R@10: relevant from grade 2 on. R@20: relevant from grade 1 on."
    assert f"\\caption{{Scores. a note. {caption}}}" in text
    assert "\\begin{tabular}{lrrrrrr}" in text
    narrow = Table([], columns[:2], ["a note"], "Scores").latex()
    assert "P(rel=2)@5" in narrow


def test_a_score_counts_only_if_all_of_it_is_a_number():
    cells = mark_best([".5 x", ".3", ".2", "1-1", "-5", "+.4"], [""] * 6)
    assert [cell.best for cell in cells] == [False, False, False, False, False, True]
    assert [cell.second for cell in cells] == [False, True, False, False, False, False]
    two = mark_best([".2", ".1"], ["", ""])
    assert [(cell.best, cell.second) for cell in two] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("-.03", "$-$.03"),
        ("1-1", "1-1"),
        ("top-3", "top-3"),
        ("-.03 x_y", "-.03 x\\_y"),
        ("+.1 [-.2, +.3]", "+.1 [$-$.2, +.3]"),
    ],
)
def test_a_minus_of_a_number_is_no_hyphen(text, latex):
    assert f"{latex} \\\\" in latex_of(Column("a", [Cell(text)]))


def test_a_title_has_one_full_stop_in_each_caption():
    table = Table([], [Column("a", [Cell("x")])], ["note: one.", "two"], "Title.", caption="What.")
    assert "\\caption{Title. What. one. two.}" in table.latex()
    assert "<p>Title. note: one. two</p>" in table._repr_html_()
    assert table.text().startswith("Title.\n\n")
    untitled = Table([], [Column("a", [Cell("x")])], [], caption="What")
    assert "\\caption{What.}" in untitled.latex()
    assert untitled.text() == "a\nx\n"
    assert Table([], [Column("a", [Cell("x")])], [], "T").text() == "T\n\na\nx\n"
    numbers = Column("n", [Cell("7"), Cell("12")], numeric=True)
    assert Table([], [numbers, Column("a", [Cell(""), Cell("x")])], []).text() == (
        " n  a\n 7\n12  x\n"
    )


def test_titles_of_columns_are_escaped_in_each_form():
    table = Table([], [Column("a_b|c", [Cell("x")]), Column("a_b|c", [Cell("y")])], [])
    assert "a\\_b\\textbar{}c & a\\_b" in table.latex()
    assert "| a\\_b\\|c | a\\_b\\|c |" in table.markdown()
    assert "<th>a_b|c</th>" in table._repr_html_()


def test_long_titles_and_notes_are_wrapped_in_text():
    words = " ".join(["word"] * 30)
    lines = Table([], [Column("a", [Cell("x")])], [words], words).text().split("\n")
    assert lines[:2] == [" ".join(["word"] * 16), " ".join(["word"] * 14)]
    assert lines[-3:-1] == lines[:2]
    assert wrapped("- one two", "  ", "  ", 9) == "  - one\n    two"


def test_a_frame_of_texts_has_no_note_on_unknown_numbers():
    frame = pd.DataFrame({"run": [UNKNOWN, None], "turns": [3, 4], "nDCG": [0.5, 0.25]})
    assert of_frame(frame).notes == ()
    both = pd.DataFrame({"a": [None, 1.0], "b": [2.0, 3.0]})
    assert of_frame(both, ["x"]).notes == ["x", UNKNOWN_NOTE]
    assert of_frame(both[["b", "a"]], ["x"]).notes == ["x", UNKNOWN_NOTE]


def test_a_zero_is_known_and_a_number_may_be_a_title():
    table = of_frame(pd.DataFrame({7: [0.0, 0.25], "turns": [0, 3]}))
    assert cells_of(table) == [[".0000", ".2500"], ["0", "3"]]
    assert table.columns[0].title == "7"
    assert table.notes == ()
    assert "tab:top-10" in Table([], table.columns, [], "Top 10").latex()
    wide = latex_of(Column("x" * 99, [Cell("x")]))
    assert wide.startswith("% \\usepackage{booktabs}\n% This table may be wider")


def test_no_decimals_and_no_texts_are_numbers_too():
    frame = pd.DataFrame({"cost": [1234.4], "nDCG": [0.25]})
    assert cells_of(of_frame(frame, decimals={"cost": 0})) == [["1,234"], [".2500"]]
    assert cells_of(of_frame(frame, decimals={"cost": 2, "nDCG": 1})) == [["1,234.40"], ["0.2"]]
    assert cells_of(of_frame(frame, decimals=1)) == [["1234.4"], [".2"]]
    names = pd.DataFrame({"name": ["x"], "n": [1]})
    for texts, numeric in ((0, [True, True]), (1, [False, True]), (2, [False, False])):
        assert [column.numeric for column in of_frame(names, texts=texts).columns] == numeric


def test_a_note_on_fonts_alone_leaves_a_text_bare():
    table = Table([], [Column("a", [Cell("x")])], [MARKS_NOTE])
    assert table.text() == "a\nx\n"
    assert table.markdown().endswith(f"| x |\n\n{MARKS_NOTE}\n")


def test_a_level_of_two_digits_is_one_level():
    columns = [Column(title, []) for title in ("P(rel=10)@5", "R(rel=1)@5", "AP(rel=10)")]
    shorter, sentences = without_levels(columns)
    assert [column.title for column in shorter] == ["P@5", "R@5", "AP"]
    assert sentences == [
        "P@5, AP: relevant from grade 10 on.",
        "R@5: relevant from grade 1 on.",
    ]
