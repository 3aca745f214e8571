"""Tables for papers: best and significant values, and every name in all formats."""

import csv
import dataclasses
import io
import re

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt
from hypothesis import given
from hypothesis import strategies as st
from small_runs import best_first

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.show import table
from pyterrier_ikat.show.ledgers import circular, ledger, ledger_frame, refusals
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


PRINTABLE = st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'"), max_size=20
)


@given(PRINTABLE)
def test_what_markdown_shows_is_the_text(text):
    shown = escape_markdown(text)
    assert re.sub(r"\\([^A-Za-z0-9\s])", r"\1", shown) == " ".join(text.split())
    assert re.search(r"(?<!\\)(\\\\)*[|*_`<\[]", shown) is None


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


def test_run_folder_ledgers_are_one_table_by_system_stage_model(folders):
    frame = ledger_frame(folders)
    shown = frame[
        ["system", "stage", "model", "calls", "known", "prompt_tokens", "completion_tokens", "cost"]
    ]
    assert shown.values.tolist() == [
        ["plain", "none", "none", 0, 0, 0, 0, 0.0],
        ["full", "answer", "gpt-4o", 2, 1, 100, 1900, 0.25],
    ]
    assert (
        frame.dtypes.astype(str).to_dict()
        == {"system": frame["system"].dtype.name} | Ledger().frame().dtypes.astype(str).to_dict()
    )
    assert ledger_frame([str(folders[1].path)]).equals(ledger_frame({"full": folders[1].path}))


def test_ledger_shows_thousands_and_unknowns_not_unused_columns(folders):
    asked = Ledger()
    asked.count(
        "rewrite",
        "none_such|model",
        calls=1234,
        retries=2,
        prompt_tokens=None,
        completion_tokens=5,
        seconds=1.25,
        cost=None,
    )
    lines = ledger({"one": asked, "two": folders[1]}).markdown().splitlines()
    assert lines[0] == (
        "| system | stage | model | calls | known | retries | tokens in | tokens out | "
        "seconds | cost (USD) |"
    )
    assert lines[2] == r"| one | rewrite | none\_such\|model | 1,234 | 0 | 2 | – | 5 | 1.2 | – |"
    assert lines[3] == "| two | answer | gpt-4o | 2 | 1 | 0 | 100 | 1,900 | 0.0 | 0.2500 |"
    assert lines[-1].endswith("–: unknown.")


def test_an_unknown_amount_stays_unknown_through_a_run_folder(folders):
    asked = Ledger()
    asked.count("answer", "NA", calls=1, prompt_tokens=None, cost=None)
    asked.frame().to_csv(folders[1].path / "ledger.csv", index=False)
    row = ledger_frame([folders[1]]).iloc[0]
    assert row["model"] == "NA"
    assert row["prompt_tokens"] is pd.NA
    assert row["completion_tokens"] == 0


def test_ledgers_that_cannot_be_told_apart_or_read_are_refused(folders, tmp_path):
    with pytest.raises(UsageError, match="there is no ledger"):
        ledger_frame([])
    with pytest.raises(UsageError, match="two ledgers are named full"):
        ledger_frame([folders[1], str(folders[1].path)])
    with pytest.raises(UsageError, match="give a list of run folders: .'runs/aqd'."):
        ledger_frame("runs/aqd")
    with pytest.raises(DataError, match="is not a finished run"):
        ledger_frame([tmp_path / "none"])
    for content in ("stage,model\n", "", "stage,model,calls\na,b,many\n"):
        (folders[0].path / "ledger.csv").write_text(content)
        with pytest.raises(DataError, match=r"ledger.csv can't be read .*: repeat the run"):
            ledger_frame(folders)


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


def test_the_minus_of_a_difference_is_no_hyphen():
    cells = {"run": ["-x-1", "1-1"], "difference": ["-.5000 [-.7500, +.2500]", "+.1000"]}
    rows = latex_rows(of_frame(pd.DataFrame(cells)).latex())
    assert rows == [["-x-1", "$-$.5000 [$-$.7500, +.2500]"], ["1-1", "+.1000"]]


def test_the_worth_of_cached_calls_is_explained_if_shown():
    spent = Ledger()
    spent.count("rewrite", "gpt-4o", known=2, cost=0.0, worth=0.25)
    assert any("Worth: " in note for note in ledger({"QR": spent}).notes)
    unknown = Ledger()
    unknown.count("rewrite", "recorded", known=2, cost=0.0, worth=None)
    notes = " ".join(ledger({"QR": unknown}).notes)
    assert "Worth" not in notes
    assert "answered is unknown" in notes


def test_equal_scores_of_all_systems_are_not_bold():
    rows = latex_rows(table(experiment_table(**{"nDCG@5": [0.5, 0.5, 0.5]})).latex())
    assert [row[1] for row in rows] == [".5000"] * 3


@pytest.mark.filterwarnings("ignore")
def test_refused_calls_are_counted_by_conversation(tmp_path):
    class Shy(ByPrompt):
        """Refuses what the second conversation asks, and is silent in a turn of the third."""

        def complete(self, requests):
            said = {"2-1": "I'm sorry, but I can't help with that.", "3-1": ""}
            replies = []
            for request, reply in zip(requests, super().complete(requests), strict=True):
                chat = request.qid.partition("_")[0]
                replies.append(dataclasses.replace(reply, text=said.get(chat, reply.text)))
            return replies

    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)
    )
    systems = {
        "qr": ikat.Rewrite(Shy(rewrite="tea walk").llm, on_error="fallback") >> index.bm25(),
        "raw": ikat.RawUtterance() >> index.bm25(),
    }
    made = ikat.run(
        systems,
        "ikat:sample",
        out=tmp_path / "runs",
        turns=["1-1_1", "2-1_1", "2-1_2", "2-1_3", "3-1_1"],
    )
    assert refusals(tmp_path / "runs" / "qr").values.tolist() == [["2-1", 3, 3]]
    assert refusals(tmp_path / "runs" / "raw").empty
    assert (
        "Refused calls of qr by conversation: 2-1 3 of 3."
        in ledger(list(made.folders.values())).notes
    )


def test_refused_calls_of_ids_without_underscore_differ(tmp_path):
    turns = pd.DataFrame({"qid": ["q1", "q2", "a_b<::>3"], "query": ["tea", "mint", "oats"]})
    refuses = ByPrompt(rewrite="I'm sorry, but I can't help with that.").llm
    found = pt.apply.generic(lambda rows: rows.assign(docno="d", score=1.0, rank=0))
    system = ikat.Rewrite(refuses, on_error="fallback") >> found
    judged = pd.DataFrame({"qid": turns["qid"], "docno": "d", "label": 1})
    ikat.run({"qr": system}, topics=turns, qrels=judged, out=tmp_path)
    assert refusals(tmp_path / "qr").values.tolist() == [["a_b", 1, 1], ["q1", 1, 1], ["q2", 1, 1]]


def test_a_judge_is_circular_under_any_name_of_its_model():
    asked = {"ad": ["gpt-4o-2024-08-06"], "rtg": ["gpt-4o-mini"], "raw": []}
    [line] = circular(["openai:gpt-4o", "recorded:sample"], asked)
    assert line.startswith("circular: gpt-4o is a judge or user here, and ad asked it, too")


def test_the_sum_with_an_unknown_cost_is_unknown():
    priced = Ledger()
    priced.count("answer", "m", calls=1, known=1, cost=0.5, worth=0.25)
    unpriced = Ledger()
    unpriced.count("answer", "m", calls=1, cost=None, worth=0.0)
    notes = " ".join(ledger({"a": priced, "b": unpriced}).notes)
    assert "Together: paid unknown, known 0.2500." in notes
