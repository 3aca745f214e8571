"""What `ikat.run` and `ikat.experiment` give: tables, tests of a baseline, folders and gaps.

The command line prints the same.
"""

import warnings
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner
from fakes import scripted
from three_turns import QRELS, TOPICS, FindsByTurn, run

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms.failures import BatchUnderWay

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


def compared(systems, **options):
    table = ikat.experiment(systems, **({"topics": TOPICS, "qrels": QRELS} | options))
    return table.values.tolist()


def test_an_experiment_is_on_the_chosen_turns_and_measures():
    finds = FindsByTurn()
    assert compared({"x": finds}, measures=["R@1"], turns=["1_3", "1_1"]) == [["x", 1.0, 1]]
    assert finds.seen == [["1_1"]]
    assert compared({"x": finds}, eval_metrics=["R@1", "P@2"]) == [["x", 0.5, 0.25, 2]]
    with pytest.raises(UsageError, match="measures and eval_metrics are the same"):
        compared({"x": finds}, measures=["R@1"], eval_metrics=["R@1"])


def test_pyterriers_order_takes_the_judgements_of_its_topics():
    systems = [FindsByTurn(), FindsByTurn("b")]
    qrels = pd.concat([QRELS, QRELS.assign(docno="b", label=0)[:1]])
    table = ikat.experiment(systems, TOPICS[:1], qrels, ["R@1"], names=["x", "y"])
    assert table.values.tolist() == [["x", 1.0, 1], ["y", 0.0, 1]]
    with pytest.raises(DataError, match="1 turn of the qrels not in the topics .1_2"):
        compared({"x": FindsByTurn()}, topics=TOPICS[:1], measures=["R@1"])


def test_all_batches_of_an_experiment_are_sent_before_it_ends():
    systems = {
        "x": FindsByTurn(t1_1=BatchUnderWay(["one"])),
        "y": FindsByTurn("b"),
        "z": FindsByTurn("c", t1_2=BatchUnderWay(["two", "three"])),
    }
    with pytest.raises(BatchUnderWay) as caught:
        compared(systems, measures=["R@1"])
    assert caught.value.waiting == ["one", "two", "three"]
    assert systems["y"].seen == [["1_1", "1_2"]]


def test_a_unit_and_a_baseline_are_checked_before_anything_runs(tmp_path):
    model, backend = scripted()
    systems = {"x": ikat.Rewrite(model) >> FindsByTurn(), "y": FindsByTurn("b")}
    for options, message in (
        ({"unit": "village", "baseline": "x"}, "unit='village' is unknown"),
        ({"unit": "turn"}, "unit='turn' .*: give baseline="),
        ({"baseline": "x.repeat-2", "repeats": 2}, "'x.repeat-2' is not one of the systems"),
        ({"baseline": "z"}, "'z' is not one of the systems"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(UsageError, match=message):
                run(systems, tmp_path, **options)
            with pytest.raises(UsageError, match=message):
                ikat.plan(systems, topics=TOPICS, **options)
    assert (backend.asked, systems["y"].seen, list(tmp_path.iterdir())) == ([], [], [])
    assert ikat.plan(systems, topics=TOPICS, baseline="y", unit="turn").total["calls"] == 3


def test_a_baseline_without_judgements_gives_the_names_alone(tmp_path):
    qrels = QRELS.assign(qid=["8_1", "8_2"])
    with pytest.warns(UserWarning, match="none of the turns is judged"):
        done = run({"x": FindsByTurn(), "y": FindsByTurn("b")}, tmp_path, qrels=qrels, baseline="x")
    assert done.table.values.tolist() == [["x"], ["y"]]
    assert done.shown().rows is done.table


def test_the_results_are_of_the_folder_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run({"x": FindsByTurn()}, "runs")
    assert str(done.out) == "runs"
    assert str(done.folders["x"].path) == "runs/x"
    assert done.shown().rows is done.table
    assert (done.baseline, done.unit) == (None, None)


def test_a_system_that_found_no_judged_turn_is_not_tested(tmp_path):
    systems = {
        "x": FindsByTurn(),
        "y": FindsByTurn("b", t1_1=[]),
        "z": FindsByTurn("a", t1_1=[], t1_2=[]),
    }
    done = run(systems, tmp_path, measures=["P@1"], baseline="x", unit="turn")
    rows = done.table.set_index("name")
    assert rows["P(rel=1)@1"].tolist() == [0.5, 0.5, 0.0]
    tested = [name for name in rows.columns if "p-value" in name]
    assert tested
    assert rows.loc["y", tested].notna().all()
    assert rows.loc["z", tested].isna().all()


def test_a_repeated_system_without_judged_turns_is_not_tested(tmp_path):
    first, _ = scripted(*["tea"] * 6)
    second, _ = scripted(*["tea"] * 6)
    systems = {
        "x": ikat.Rewrite(first) >> FindsByTurn(),
        "z": ikat.Rewrite(second) >> FindsByTurn(t1_1=[], t1_2=[]),
    }
    done = run(systems, tmp_path, measures=["P@1"], baseline="x", unit="turn", repeats=2)
    rows = done.table.set_index("name")
    assert rows["P(rel=1)@1"].tolist() == [0.5, 0.0]
    tested = [name for name in rows.columns if "p-value" in name]
    assert tested
    assert rows.loc["z", tested].isna().all()
