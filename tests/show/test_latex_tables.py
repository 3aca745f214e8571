"""Tables for LaTeX: each in the first form that fits a column, or else the page."""

import re
import shutil
import subprocess

import pandas as pd
import pytest

from pyterrier_ikat.evaluation import TRACK_2023, label
from pyterrier_ikat.show import table
from pyterrier_ikat.tables import of_frame

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
