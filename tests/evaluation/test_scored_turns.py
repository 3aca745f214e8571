"""A run folder is scored on the turns that it was asked, everywhere alike.

A file that lacks turns counts 0 on them. The lines below the table say which turns the means are
over, and how many of them a run lacks.
"""

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from small_frames import folder, run

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import (
    evaluate_ptkb,
)
from pyterrier_ikat.evaluation.scored_turns import (
    Asked,
    asked_of,
    choose_turns,
    lacking,
    scored_judgements,
)
from pyterrier_ikat.runs import RunFolder, write_run

SAMPLE = ikat.dataset("ikat:sample")
TURNS = SAMPLE.get_topics()["qid"].tolist()
QRELS = SAMPLE.get_qrels()
MEASURE = "nDCG@5"
BEST = (
    QRELS.sort_values("label", ascending=False)
    .drop_duplicates("qid")
    .set_index("qid")["docno"]
    .to_dict()
)
UNJUDGED = sorted(
    {passage["docno"] for passage in SAMPLE.get_corpus_iter(verbose=False)} - set(QRELS["docno"])
)


def ranked(turns):
    """The best passage of each turn, behind more others from turn to turn."""
    found = {}
    for qid in turns["qid"]:
        others = UNJUDGED[: TURNS.index(qid) % 4]
        found[qid] = " ".join([*others, BEST[qid]])
    return turns.merge(run(**found), on="qid")


FINDING = pt.apply.generic(ranked)


def words(text):
    return " ".join(text.split())


def command(*arguments):
    done = CliRunner().invoke(main, ["evaluate", *map(str, arguments), "--measures", MEASURE])
    assert done.exit_code == 0, done.output
    return words(done.output)


@pytest.fixture
def few(tmp_path):
    """A run of the first three turns."""
    ikat.run({"few": FINDING}, "ikat:sample", out=tmp_path, turns=TURNS[:3])
    return tmp_path / "few"


@pytest.fixture
def others(tmp_path):
    """A run of the second to the fifth turn."""
    ikat.run({"others": FINDING}, "ikat:sample", out=tmp_path, turns=TURNS[1:5])
    return tmp_path / "others"


def by_hand(turns):
    """The mean of the same run over these turns."""
    frame = FINDING(SAMPLE.get_topics())
    return ikat.evaluate({"x": frame}, QRELS[QRELS["qid"].isin(turns)], [MEASURE])[MEASURE].item()


def test_a_folder_has_one_score_however_it_is_evaluated(few, tmp_path):
    """In Python with and without judgements, in a breakdown, and on the command line."""
    write_qrels(QRELS, tmp_path / "qrels.txt")
    own = by_hand(TURNS[:3])
    assert own != by_hand(TURNS)
    for given in ((few,), ([few], QRELS), (RunFolder(few), QRELS)):
        table = ikat.evaluate(*given, measures=[MEASURE])
        assert table[[MEASURE, "turns"]].values.tolist() == [[own, 3]]
    mean = ikat.breakdown([few], QRELS, MEASURE)
    assert (mean["few"] * mean["turns"]).sum() / mean["turns"].sum() == pytest.approx(own)
    assert mean["turns"].sum() == 3
    shown = [
        command(few),
        command(few, "--dataset", "ikat:sample"),
        command(few, "--qrels", tmp_path / "qrels.txt"),
    ]
    assert shown[0] == shown[1] == shown[2]
    assert "Mean over 3 judged turns, those that few was asked, of 24." in shown[0]
    assert "counts 0" not in shown[0]


def test_the_line_on_turns_is_in_every_form_of_a_table(few):
    """Printed, in a notebook, for LaTeX and Markdown, and beside CSV."""
    table = ikat.evaluate([few], QRELS, [MEASURE])
    line = "Mean over 3 judged turns, those that few was asked, of 24."
    shown = ikat.show.table(table)
    for form in (
        repr(table),
        table._repr_html_(),
        repr(table.round(2)),
        shown.latex(),
        shown.markdown(),
        shown.text(),
    ):
        assert line in words(form)
        assert "without results" not in form
    assert line in words(repr(ikat.breakdown([few], QRELS, MEASURE)))
    assert line in command(few, "--by", "depth")
    assert line in command(few, "--format", "csv")
    assert line in command(few, "--by", "depth", "--format", "csv")


def test_folders_of_different_turns_are_scored_on_those_of_all(few, others):
    table = ikat.evaluate([few, others], measures=[MEASURE])
    assert table["turns"].tolist() == [2, 2]
    assert table[MEASURE].tolist() == [by_hand(TURNS[1:3])] * 2
    below = words(repr(table))
    assert "Mean over 2 judged turns, those that all runs were asked, of 24." in below
    assert "The runs were asked different judged turns: few 3, others 4." in below


def test_folders_without_a_common_turn_are_refused(few, tmp_path):
    ikat.run({"last": FINDING}, "ikat:sample", out=tmp_path, turns=TURNS[-2:])
    with pytest.raises(
        ikat.DataError, match=r"no judged turn was asked of all runs \(of 24: few 3, last 2\)"
    ):
        ikat.evaluate([few, tmp_path / "last"])


def test_a_file_beside_a_folder_counts_0_where_it_lacks_turns(few, tmp_path):
    write_run(FINDING(SAMPLE.get_topics()[1:]), tmp_path / "file.trec")
    told = command(few, tmp_path / "file.trec", "--dataset", "ikat:sample")
    assert (
        "Mean over 3 judged turns, those that few was asked, of 24. file lacks 1 judged "
        "turn, counted 0: 1-1_1." in told
    )
    table = ikat.evaluate([few, tmp_path / "file.trec"], QRELS, [MEASURE]).set_index("name")
    assert table.loc["few", MEASURE] == by_hand(TURNS[:3])
    assert table.loc["file", MEASURE] == pytest.approx(by_hand(TURNS[1:3]) * 2 / 3)


def test_a_file_alone_is_scored_on_all_judged_turns(tmp_path):
    write_run(FINDING(SAMPLE.get_topics()[:3]), tmp_path / "file.trec")
    assert "Mean over 24 judged turns. file lacks 21 judged turns, counted 0:" in command(
        tmp_path / "file.trec", "--dataset", "ikat:sample"
    )
    frame = ikat.runs.read_run(tmp_path / "file.trec")
    table = ikat.evaluate({"file": frame}, QRELS, [MEASURE])
    assert "file lacks 21 judged turns, counted 0" in words(ikat.show.table(table).latex())
    assert table["turns"].tolist() == [24]


def test_a_complete_file_says_nothing_of_turns_that_count_0():
    frame = FINDING(SAMPLE.get_topics())
    table = ikat.evaluate({"all": frame}, QRELS, [MEASURE])
    assert ikat.show.table(table).notes == ["Mean over 24 judged turns."]


def test_chosen_turns_are_all_scored(few, tmp_path):
    """Those that the folder was not asked count 0, as the line says."""
    wanted = TURNS[2:5]
    expected = by_hand(TURNS[2:3]) / 3
    table = ikat.evaluate([few], QRELS, [MEASURE], turns=wanted)
    assert table[[MEASURE, "turns"]].values.tolist() == [[pytest.approx(expected), 3]]
    assert "few lacks 2 judged turns, counted 0" in words(repr(table))
    assert ikat.breakdown([few], QRELS, MEASURE, turns=wanted)["turns"].sum() == 3
    assert "few lacks 2 judged turns, counted 0" in command(few, "--turns", ",".join(wanted))
    with pytest.raises(ikat.UsageError, match="no turn 9-9_9"):
        ikat.evaluate([few], QRELS, [MEASURE], turns=["9-9_9"])


def stopping(after):
    """A retriever that fails from the given turn on."""

    def find(turns):
        if TURNS[after] in set(turns["qid"]):
            raise RuntimeError("stopped")
        return ranked(turns)

    return pt.apply.generic(find)


def test_an_unfinished_run_is_scored_on_its_finished_batches(tmp_path):
    with pytest.raises(RuntimeError, match="stopped"):
        ikat.run({"half": stopping(4)}, "ikat:sample", out=tmp_path, turns_at_once=2)
    ikat.run({"all": FINDING}, "ikat:sample", out=tmp_path)
    runs = [tmp_path / "half.partial", tmp_path / "all"]
    for given in ((runs,), (runs, QRELS)):
        table = ikat.evaluate(*given, measures=[MEASURE])
        assert table[[MEASURE, "turns"]].values.tolist() == [[by_hand(TURNS[:4]), 4]] * 2
    assert ikat.breakdown(runs, QRELS, MEASURE)["turns"].sum() == 4
    assert ikat.evaluation.differing_pairs(runs, QRELS, MEASURE) == []
    told = command(*runs)
    assert "Mean over 4 judged turns, those that all runs were asked, of 24." in told
    assert "half.partial isn't finished: it has 4 of 24 turns." in told
    assert "all 24" in told
    with pytest.raises(ikat.DataError, match="is not a finished run"):
        ikat.report(runs)


def test_a_run_says_which_judged_turns_it_was_not_asked(tmp_path):
    """Of judgements of more turns than the dataset has, those of its turns are scored.

    The run and its folder do so alike.
    """
    foreign = pd.DataFrame({"qid": ["7-7_7"], "docno": ["sample-walk-001:0"], "label": [1]})
    more = pd.concat([QRELS, foreign], ignore_index=True)
    done = ikat.run({"mine": FINDING}, "ikat:sample", out=tmp_path, qrels=more)
    assert done.table[[MEASURE, "turns"]].values.tolist() == [[by_hand(TURNS), 24]]
    line = "Mean over 24 judged turns, those that mine was asked, of 25."
    assert line in words(repr(done))
    assert line in words(repr(ikat.evaluate([tmp_path / "mine"], more)))


def test_a_report_has_the_means_of_the_table(few, tmp_path):
    ikat.run({"all": FINDING}, "ikat:sample", out=tmp_path)
    page = (
        ikat.report([few, tmp_path / "all"])
        .save(tmp_path / "report.html")
        .read_text(encoding="utf-8")
    )
    assert "Mean over 3 judged turns, those that all runs were asked, of 24." in page
    assert "few 3, all 24" in page


def test_chosen_statements_are_scored_on_the_turns_of_the_folder(tmp_path):
    choosing = pt.apply.generic(lambda turns: turns.assign(qstatements=[[("1", 1.0)]] * len(turns)))
    ikat.run({"x": choosing >> FINDING}, "ikat:sample", out=tmp_path, turns=TURNS[:3])
    judged = SAMPLE.get_qrels("ptkb")
    table = evaluate_ptkb({"x": tmp_path / "x"}, judged)
    three = judged[judged["qid"].isin(TURNS[:3])]
    assert table["turns"].tolist() == [three["qid"].nunique()]
    assert (
        table["SetR(rel=1)"].tolist()
        == evaluate_ptkb({"x": tmp_path / "x"}, three)["SetR(rel=1)"].tolist()
    )


def test_turns_with_hyphens_are_refused_in_a_folder_too():
    with pytest.raises(
        ikat.DataError, match="its turns are like 9-1-3, the wanted ones like 9-1_3"
    ):
        choose_turns(["9-1_3", "9-1_4"], {"mine": Asked(["9-1-3", "9-1_4"])})


def test_different_turns_are_told_also_where_there_are_as_many():
    scored = choose_turns(
        ["1_1", "1_2", "1_3"], {"a": Asked({"1_1", "1_2"}), "b": Asked({"1_2", "1_3"})}
    )
    assert scored.ids == ("1_2",)
    assert scored.notes == ("The runs were asked different judged turns: a 2, b 2.",)


def test_a_sentence_for_each_run_that_lacks_turns():
    wanted = ["1_3", "1_1", "1_2"]
    assert lacking({"a": wanted, "b": [*wanted, "9_9"]}, wanted) == []
    assert lacking({"a": ["1_1"]}, wanted) == ["a lacks 2 judged turns, counted 0: 1_2, 1_3."]
    assert lacking({"a": ["1_1"], "b": ["1_1"]}, wanted) == [
        "each run lacks 2 judged turns, counted 0: 1_2, 1_3."
    ]
    assert lacking({"a": ["1_1"], "b": ["1_1"], "c": wanted, "d": []}, wanted) == [
        "a lacks 2 judged turns, counted 0: 1_2, 1_3.",
        "b lacks 2 judged turns, counted 0: 1_2, 1_3.",
        "d lacks 3 judged turns, counted 0: 1_1, 1_2, 1_3.",
    ]


def test_common_turns_are_scored_in_the_judgements_order(tmp_path):
    judged = {qid: {"a": 1} for qid in ("1_3", "1_1", "1_2", "1_4")}
    asked = {
        "one": Asked({"1_1", "1_3", "9_9"}, 30),
        "two": Asked({"1_1", "1_3", "1_4"}),
        "file": None,
    }
    scored = choose_turns(["1_3", "1_1", "1_1", "1_2", "1_4"], asked)
    assert scored.ids == ("1_3", "1_1")
    assert scored.why == "Mean over 2 judged turns, those that one, two were asked, of 4."
    assert scored.notes == (
        "The runs were asked different judged turns: one 2, two 3.",
        "one isn't finished: it has 3 of 30 turns.",
    )
    assert scored.strangers == ("file",)
    assert scored.sentences({"file": ["1_3"], "one": ["1_3", "1_1"]}) == [
        scored.why,
        *scored.notes,
        "file lacks 1 judged turn, counted 0: 1_1.",
    ]
    alone = choose_turns(["1_1", "1_3"], {"one": asked["one"], "file": None})
    assert (alone.ids, alone.why) == (("1_1", "1_3"), "Mean over 2 judged turns.")
    assert alone.notes == ("one isn't finished: it has 3 of 30 turns.",)
    assert alone.strangers == ("file",)
    assert choose_turns([], {"one": asked["one"]}).ids == ()
    with pytest.raises(DataError, match=r"no judged turn .* \(of 2: a 1, b 1\): evaluate them sep"):
        choose_turns(["1_1", "1_2"], {"a": Asked({"1_1"}), "b": Asked({"1_2"})})
    with pytest.raises(DataError, match="run b has no turn of the qrels: it was asked no turn"):
        choose_turns(["1_1"], {"a": Asked({"1_1"}), "b": Asked(())})
    mine = folder(tmp_path / "mine", run(**{"1_1": "a"}), ["1_1", "1_2", "9_9"])
    rankings = {
        "x": mine,
        "y": str(mine.path),
        "z": run(**{"1_1": "a"}),
        "f": mine.path / "run.trec",
    }
    known = asked_of(rankings)
    assert known["x"] == known["y"] == Asked(frozenset({"1_1", "1_2", "9_9"}), None)
    assert list(known.items())[2:] == [("z", None), ("f", None)]
    labels, found = scored_judgements({"x": mine}, judged)
    assert list(labels) == ["1_1", "1_2"]
    assert labels["1_1"] == {"a": 1}
    assert found.why == "Mean over 2 judged turns, those that x was asked, of 4."
    labels, found = scored_judgements({"x": mine}, judged, ["1_4", "1_1"])
    assert sorted(labels) == ["1_1", "1_4"]
    with pytest.raises(UsageError, match="8_8"):
        scored_judgements({"x": mine}, judged, ["8_8"])


def test_an_unfinished_run_with_as_many_turns_is_told_too():
    asked = {"a": Asked({"1_1", "1_2"}, 3), "b": Asked({"1_2", "1_1"}, 2)}
    scored = choose_turns(["1_1", "1_2"], asked)
    assert scored.why == "Mean over 2 judged turns."
    assert scored.notes == (
        "a isn't finished: it has 2 of 3 turns.",
        "b isn't finished: it has 2 of 2 turns.",
    )


def test_why_no_turn_is_scored_is_told():
    for asked, told in [
        (Asked(frozenset(["9_9"])), "its turns are like 9_9, the wanted ones like 1_1"),
        (Asked(frozenset()), "it was asked no turn"),
    ]:
        known = {"whole": Asked(frozenset(["1_1"])), "other": asked}
        with pytest.raises(DataError, match=f"run other has no turn of the qrels: {told}"):
            choose_turns(["1_1"], known)


def test_which_runs_were_asked_is_told():
    few = Asked(frozenset(["1_1"]))
    for asked, told in [
        ({"a": few}, "that a was asked"),
        ({"a": few, "b": few}, "that all runs were asked"),
        ({"a": few, "b": few, "c": None}, "that a, b were asked"),
    ]:
        turns = choose_turns(["1_1", "1_2"], asked)
        assert turns.ids == ("1_1",)
        assert told in turns.why
        assert turns.notes == ()
        assert turns.strangers == tuple(name for name in asked if asked[name] is None)


def test_an_unfinished_run_is_told_whatever_is_scored():
    asked = {"a": Asked(frozenset(["1_1"]), 24), "b": Asked(frozenset(["1_1", "1_2"]))}
    for chosen in (False, True):
        notes = choose_turns(["1_1", "1_2"], asked, chosen=chosen).notes
        assert "a isn't finished: it has 1 of 24 turns." in notes
    assert choose_turns(["1_1", "1_2"], asked, chosen=True).ids == ("1_1", "1_2")
    assert choose_turns(["1_1", "1_2"], asked).ids == ("1_1",)
