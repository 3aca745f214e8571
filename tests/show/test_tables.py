"""Tables for papers: best and significant values, every name in all forms, LaTeX that fits."""

import csv
import io
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import best_first

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import TRACK_2023, evaluate, label
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.show import table
from pyterrier_ikat.show.ledgers import ledger
from pyterrier_ikat.tables import HIGHER, LOWER, Table, escape_markdown, mark_best, of_frame

ODD_NAME = r"[H] 50% a_b|c & <d> *e*"


def experiment_table(**figures):
    return pd.DataFrame({"name": ["QR", "AD", "AQD"], **figures, "turns": 24})


def compared():
    """A table of evaluate: 1 and 2 differ on 20 turns by different amounts, 3 does not."""
    rng = np.random.default_rng(7)
    turns = [f"1_{number}" for number in range(20)]
    judged = []
    for qid in turns:
        judged += [(qid, "d0", 1), (qid, "d1", 0)]
    qrels = pd.DataFrame(judged, columns=["qid", "docno", "label"])

    def run(ranks):
        docnos_by_turn = {}
        for qid, rank in zip(turns, ranks, strict=True):
            docnos = ["x0", "x1", "x2", "x3", "x4"]
            docnos[rank] = "d0"
            docnos_by_turn[qid] = docnos
        return best_first(docnos_by_turn, top=10.0)

    low = run([4] * 20)
    runs = {
        "base": low,
        "better": run(rng.integers(0, 2, 20)),
        "same": low,
        "once": run([0] + [4] * 19),
    }
    return evaluate(runs, qrels, ["nDCG@5"], "base", unit="turn")


def latex_rows(text):
    """The rows of a tabular as TeX reads them: a backslash takes the next character with it."""
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = []
    for line in re.split(r"\\\\\n", body):
        if line:
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)&", line)])
    return rows


def test_best_is_bold_second_underlined_and_ties_share_the_mark():
    scores = {"nDCG@5": [0.5, 0.25, 0.12345], "R@20": [0.30001, 0.3, 0.125]}
    rows = latex_rows(table(experiment_table(**scores)).latex())
    assert rows == [
        ["QR", r"\textbf{.5000}", r"\textbf{.3000}"],
        ["AD", r"\underline{.2500}", r"\textbf{.3000}"],
        ["AQD", ".1235", r"\underline{.1250}"],
    ]


@given(
    st.lists(st.sampled_from(["1.0000", ".5000", ".2500", "-.2500", "n/a"]), min_size=2, max_size=6)
)
def test_the_marks_are_those_of_counting_the_greater_figures(figures):
    known = {float(figure) for figure in set(figures) - {"n/a"}}
    all_same = len(known) == 1
    for cell in mark_best(figures, [""] * len(figures)):
        if cell.text == "n/a" or all_same:
            assert (cell.best, cell.second) == (False, False)
        else:
            greater = [figure for figure in known if figure > float(cell.text)]
            assert (cell.best, cell.second) == (len(greater) == 0, len(greater) == 1)


def test_single_system_is_never_best_and_unknown_is_no_figure():
    one = table(experiment_table(**{"nDCG@5": [0.5, 0.25, 0.125]})[:1])
    assert latex_rows(one.latex()) == [["QR", ".5000"]]
    assert one.notes == ["Mean over 24 judged turns."]
    rows = latex_rows(table(experiment_table(**{"nDCG@5": [float("nan"), 0.25, 0.125]})).latex())
    assert [row[1] for row in rows] == ["n/a", r"\textbf{.2500}", r"\underline{.1250}"]


def test_equal_scores_of_all_systems_are_not_bold():
    rows = latex_rows(table(experiment_table(**{"nDCG@5": [0.5, 0.5, 0.5]})).latex())
    assert [row[1] for row in rows] == [".5000"] * 3


def test_arrow_marks_significance_above_or_below_the_baseline():
    evaluated = compared()
    shown = table(evaluated)
    assert [cell.mark for cell in shown.columns[1].cells] == ["", HIGHER, "", ""]
    test = "two-sided paired t-test, over 20 turns, Bonferroni, p < .05"
    assert (
        f"{HIGHER} significantly higher, {LOWER} significantly lower than base: {test}."
        in shown.notes
    )
    lower = table(evaluated.assign(**{"nDCG@5": -evaluated["nDCG@5"]}))
    assert [cell.mark for cell in lower.columns[1].cells] == ["", LOWER, "", ""]
    assert latex_rows(lower.latex())[1][1].endswith(r"\rlap{$^{\downarrow}$}")
    assert {line.index(".") for line in shown.text().splitlines()[2:5]} == {9}
    assert [column.title for column in shown.columns] == ["system", "nDCG@5"]
    assert latex_rows(shown.latex())[1][1].endswith(r"}\rlap{$^{\uparrow}$}")
    assert f"**{HIGHER} |" in shown.markdown().splitlines()[3]
    assert f"</b><sup>{HIGHER}</sup></td>" in shown._repr_html_()


def test_what_is_no_experiment_table_is_refused():
    with pytest.raises(
        DataError,
        match="not an experiment table .it has qid, nDCG@5.: give what ikat.experiment returned",
    ):
        table(pd.DataFrame({"qid": ["1_1"], "nDCG@5": [0.5]}))
    with pytest.raises(DataError, match="the experiment table has no system: look at what it was"):
        table(experiment_table(**{"nDCG@5": 0.5})[:0])
    with pytest.raises(DataError, match="not an experiment table .it has no column."):
        table(pd.DataFrame())
    with pytest.raises(DataError, match="different turns .24, 116 of them.: make a table of each"):
        table(experiment_table(**{"nDCG@5": 0.5}).assign(turns=[24, 24, 116]))


def test_every_form_has_title_and_notes_and_only_text_is_rounded():
    frame = pd.DataFrame({"run": ["a_b"], "turns": [3], "nDCG": [0.123456]})
    shown = of_frame(frame, ["One note."], "A title")
    assert shown.written("text") == "A title\n\nrun  turns   nDCG\na_b      3  .1235\n\nOne note.\n"
    assert shown.written("markdown").startswith(
        "**A title**\n\n| run | turns | nDCG |\n| :--- | ---: | ---: |\n"
    )
    assert r"\caption{A title. One note.}" in shown.written("latex")
    assert shown.written("csv") == "run,turns,nDCG\na_b,3,0.123456\n"
    with pytest.raises(
        UsageError, match="the format 'html' is unknown: choose text, markdown, latex, csv"
    ):
        shown.written("html")
    assert Table([{"run": "a"}], shown.columns, []).frame.to_dict("list") == {"run": ["a"]}


def test_csv_has_every_column_unrounded():
    evaluated = compared()
    # pandas 2 reads the last digit of a number in its own way
    read = list(csv.DictReader(io.StringIO(table(evaluated).csv())))
    assert list(read[0]) == list(evaluated.columns)
    assert [float(row["nDCG@5"]) for row in read] == evaluated["nDCG@5"].tolist()
    corrected = evaluated["nDCG@5 p-value corrected"][1]
    assert corrected < 0.05
    assert float(read[1]["nDCG@5 p-value corrected"]) == corrected


def test_names_special_to_latex_markdown_or_html_show_unchanged():
    shown = table(experiment_table(**{"nDCG@5": [0.5, 0.25, 0.125]}).replace({"AD": ODD_NAME}))
    assert latex_rows(shown.latex())[1] == [
        r"[H] 50\% a\_b\textbar{}c \& \textless{}d\textgreater{} *e*",
        r"\underline{.2500}",
    ]
    assert (
        shown.markdown().splitlines()[3]
        == r"| \[H\] 50% a\_b\|c \& \<d\> \*e\* | <ins>.2500</ins> |"
    )
    assert "<td>[H] 50% a_b|c &amp; &lt;d&gt; *e*</td>" in shown._repr_html_()


def test_the_minus_of_a_difference_is_no_hyphen():
    cells = {"run": ["-x-1", "1-1"], "difference": ["-.5000 [-.7500, +.2500]", "+.1000"]}
    rows = latex_rows(of_frame(pd.DataFrame(cells)).latex())
    assert rows == [["-x-1", "$-$.5000 [$-$.7500, +.2500]"], ["1-1", "+.1000"]]


PRINTABLE = st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'"), max_size=20
)


@given(PRINTABLE)
def test_what_markdown_shows_is_the_text(text):
    shown = escape_markdown(text)
    assert re.sub(r"\\([^A-Za-z0-9\s])", r"\1", shown) == " ".join(text.split())
    assert re.search(r"(?<!\\)(\\\\)*[|*_`<\[]", shown) is None


def test_a_caption_says_measures_turns_and_test_once_each():
    evaluated = compared()
    evaluated.attrs["deviations"] = ["qr: another model", "qr: another model"]
    text = table(evaluated, format="latex")
    assert text == table(evaluated).latex()
    assert text.startswith("% \\usepackage{booktabs}\n\\begin{table}\n")
    [caption] = re.findall(r"\\caption\{(nDCG@5\. Mean .*)\}\n\\label\{tab:results\}", text)
    assert "20 judged turns" in caption
    assert "paired t-test, over 20 turns, Bonferroni" in caption
    assert "treats all turns as independent" in caption
    assert caption.count("another model") == 1
    assert "note:" not in text
    assert text.count(r"\label{tab:results-intervals}") == 1
    with pytest.raises(UsageError, match="the format 'html' is unknown"):
        table(evaluated, format="html")


def test_tables_of_a_paper_have_labels_of_their_own():
    scores = compared()
    spent = Ledger()
    spent.count("rewrite", "gpt-4o", calls=2, cost=0.25)
    labels = []
    for shown in (table(scores), ledger({"QR": spent})):
        labels += re.findall(r"\\label\{tab:(.*)\}", shown.latex())
    assert labels == ["results", "results-intervals", "cost"]
    assert "label" not in of_frame(pd.DataFrame({"system": ["raw"]})).latex()


TRACK = [label(measure) for measure in TRACK_2023]
SCORES = [0.25, 0.5, 0.75]


def scored(*measures, names=("raw", "qr", "aqd")):
    scores = {measure: SCORES[: len(names)] for measure in measures}
    return table(pd.DataFrame({"name": names, **scores, "turns": 24}))


def form(text):
    """The environment, the size of the font and the gap of a written table."""
    size = re.search(r"\\(small|footnotesize|scriptsize)\n", text)
    gap = re.search(r"\\setlength\{\\tabcolsep\}\{(\d)pt\}\n", text)
    return (
        re.search(r"\\begin\{(table\*?)\}", text)[1],
        size[1] if size else "",
        gap[1] if gap else "",
    )


def heads(text):
    return re.search(r"\\toprule\n(.*) \\\\\n\\midrule", text)[1].split(" & ")


def test_a_table_that_fits_a_column_stays_as_it_is():
    text = scored("nDCG@5", "R(rel=1)@20", "AP(rel=1)").latex()
    assert form(text) == ("table", "", "")
    assert heads(text) == ["system", "nDCG@5", "R(rel=1)@20", "AP(rel=1)"]


def test_a_table_near_a_columns_width_has_shorter_names():
    text = scored("nDCG@3", "P(rel=1)@20", "R(rel=2)@20", "AP(rel=1)").latex()
    assert form(text)[0] == "table"
    assert heads(text) == ["system", "nDCG@3", "P@20", "R@20", "AP"]
    [caption] = re.findall(r"\\caption\{(.*)\}", text)
    assert "P@20, AP: relevant from grade 1 on. R@20: relevant from grade 2 on." in caption
    assert caption.startswith("nDCG@3, P(rel=1)@20, R(rel=2)@20, AP(rel=1). Mean over")


def test_a_table_of_seven_measures_is_as_wide_as_the_page():
    text = scored(*TRACK).latex()
    assert form(text) == ("table*", "small", "4")
    assert text.rstrip().endswith("\\end{table*}")
    assert heads(text) == ["system", "nDCG@3", "nDCG@5", "nDCG", "P@20", "R@20", "R@1000", "AP"]
    assert text.index("\\caption") < text.index("\\small"), "the caption has the page's size"
    assert "may be wider" not in text


def test_names_of_two_levels_of_one_measure_are_not_shortened():
    measures = ["P(rel=1)@20", "P(rel=2)@20", "R(rel=1)@1000", "AP(rel=1)", "nDCG@3"]
    shown = heads(scored(*measures).latex())
    assert shown == ["system", "P(rel=1)@20", "P(rel=2)@20", "R@1000", "AP", "nDCG@3"]


def test_a_table_too_wide_for_any_form_says_so():
    text = scored(*[f"nDCG@{depth}" for depth in range(10, 30)]).latex()
    assert form(text) == ("table*", "scriptsize", "3")
    assert text.splitlines()[1].startswith("% This table may be wider than the page")


def test_a_wide_table_without_caption_keeps_its_size_to_itself():
    text = of_frame(pd.DataFrame({"run": ["a" * 30], "other": ["b" * 10]})).latex()
    assert text.splitlines()[1:4] == ["{", r"\small", r"\setlength{\tabcolsep}{4pt}"]
    assert text.endswith("\\end{tabular}\n}\n")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX with booktabs")
def test_tables_are_no_wider_than_latex_has_room_for(tmp_path):
    rooms = []
    boxes = ""
    for count in range(1, len(TRACK) + 1):
        for names in (("raw",), ("raw", "qr", "MWM"), ("raw", "generate_then_retrieve")):
            text = scored(*TRACK[:count], names=names).latex()
            rooms.append(241 if form(text)[0] == "table" else 345)
            inner = re.search(r"\\centering\n(.*)\n\\end\{table", text, re.DOTALL)[1]
            boxes += rf"{{\setbox0\hbox{{{inner}}}\typeout{{width \the\wd0}}}}" + "\n"
    start = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{start}\n{boxes}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "t.tex"]
    log = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    widths = [float(width) for width in re.findall(r"width ([\d.]+)pt", log)]
    assert len(widths) == len(rooms) == 21
    for width, room in zip(widths, rooms, strict=True):
        assert width <= room
