"""What `ikat.run` gives.

The table, the folders, the ledger and the report, which the command line prints.
"""

from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.frame import NoResultWarning

TURNS = ["1-1_1", "1-1_2", "2-1_1"]


class Says:
    def generate(self, prompts):
        return ["Drink it."] * len(prompts)


def test_a_run_gives_what_the_command_line_prints(index, tmp_path):
    given = {"index": index.path, "llm": "recorded:sample"}
    results = ikat.run(
        ["ad", "raw"], "ikat:sample", out=tmp_path / "runs", turns=TURNS, baseline="raw", **given
    )
    assert list(results.folders) == ["ad", "raw"]
    assert results.folders["raw"].results()["qid"].unique().tolist() == TURNS
    assert results.ledger.frame()["known"].sum() == len(TURNS)
    assert results.table.set_index("name").loc["raw", "turns"] == len(TURNS)
    pd.testing.assert_frame_equal(
        ikat.evaluate(list(results.folders.values()), baseline="raw"), pd.DataFrame(results.table)
    )
    page = ikat.report(results, passages=2).html
    assert page.index(">raw<") < page.index(">ad<")  # the baseline first
    assert "Compared with raw " in page
    assert (
        "Compared with ad " in ikat.report(replace(results, baseline="ad")).html
    )  # raw is the baseline only where none is named
    options = [
        "--dataset",
        "ikat:sample",
        "--index",
        index.path,
        "--llm",
        "recorded:sample",
        "--turns",
        ",".join(TURNS),
    ]
    done = CliRunner().invoke(
        main, ["run", "ad", "raw", *options, "--baseline", "raw", "--out", str(tmp_path / "runs")]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(repr(results))
    assert results._repr_html_().partition("</table>")[0].count("<tr") == 3


def test_the_scores_stay_those_of_their_judgements(index, tmp_path):
    """Another study scores the same folder anew."""
    given = {"turns": TURNS, "out": tmp_path / "runs", "index": index.path}
    first = ikat.run("raw", "ikat:sample", **given)
    before = first.table.copy()
    other = ikat.run("raw", "ikat:sample", **given, qrels="provenance")
    assert not other.table.equals(before)
    pd.testing.assert_frame_equal(first.table, before)


def test_gaps_name_unjudged_turns_without_passages_and_notes(tmp_path):
    passages = [("d1", "green tea"), ("d2", "black coffee")]
    corpus = [{"docno": docno, "text": text} for docno, text in passages]
    bm25 = ikat.PassageIndex(tmp_path / "index").index(corpus).bm25()
    topics = pd.DataFrame(
        {"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "coffee", "milk"]}, dtype=object
    ).assign(qutterance=lambda frame: frame["query"])
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "label": [1]})
    llm = ikat.llm(Says(), identity="says", cache="none")
    systems = {"bm25": bm25, "rag": bm25 >> ikat.Respond(llm)}
    with pytest.warns(NoResultWarning):
        results = ikat.run(systems, topics=topics, qrels=qrels, out=tmp_path / "runs")
    lost = "1 turn without any passage, not judged: 1_3"
    note = "1 turn without any passage, answered 'The collection has no answer to this.': 1_3"
    assert list(results.gaps()) == [f"bm25: {lost}", f"rag: {lost}", f"rag: {note}"]
