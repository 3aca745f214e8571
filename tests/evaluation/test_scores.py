"""What tables of scores take from datasets, frames, folders and chosen turns, and breakdowns."""

import warnings

import numpy as np
import pandas as pd
import pytest
from small_frames import folder, qrels, random_runs, run

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import breakdown, differing_pairs, evaluate, per_turn
from pyterrier_ikat.evaluation.evaluator import (
    NotJudgedWarning,
    NotTestedWarning,
    OtherTurnsWarning,
)
from pyterrier_ikat.evaluation.inference import compare
from pyterrier_ikat.evaluation.scores import find_silent, natural_key, scores_by_run

TEAS = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12"]
CHATS = sorted(["chat1", "chat2", "chat3", "chat4", "chat5", "chat6"] * 2)  # two turns of each
JUDGED = pd.DataFrame({"qid": TEAS, "docno": "a", "label": 1})
BASE = [2, 2, 4, 4, 2, 2, 4, 4, 2, 2, 1, 1]
OURS = [1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2]


class Teas:
    """Twelve turns whose ids say nothing, in six conversations."""

    name = "teas"

    def get_topics(self, variant=None):
        turns = pd.DataFrame({"qid": TEAS, "query": "tea", "qconversation": CHATS})
        return turns.assign(qturn=[1, 2] * 6)

    def get_qrels(self, variant=None):
        return JUDGED


def at(ranks, qids=TEAS):
    """A run with the relevant passage of each turn at this rank."""
    docnos = {1: "a", 2: "w a", 3: "w x a", 4: "w x y a"}
    rankings = [docnos[rank] for rank in ranks]
    return run(**dict(zip(qids, rankings, strict=True)))


@pytest.fixture
def teas():
    return ikat.dataset(Teas())


@pytest.fixture
def named():
    return {"base": at(BASE), "ours": at(OURS)}


def reciprocal(ranks):
    return [1 / rank for rank in ranks]


def test_a_dataset_brings_judgements_and_clusters_to_all_tables(teas, named):
    table = evaluate(named, measures=["RR"], baseline="base", dataset=teas)
    row = table.iloc[1]
    wanted = compare(reciprocal(OURS), reciprocal(BASE), CHATS)
    assert row[["unit", "clusters", "unit_from", "turns"]].tolist() == ["conversation", 6, "", 12]
    found = row[["RR(rel=1) p-value", "RR(rel=1) low", "RR(rel=1) high"]].tolist()
    assert found == pytest.approx([wanted.p_value, wanted.low, wanted.high])
    depths = teas.get_topics()[["qid", "qturn"]]
    by_depth = breakdown(named, measure="RR", by="depth", dataset=teas, topics=depths)
    assert by_depth["turns"].tolist() == [6, 6]
    assert by_depth.attrs["unit"] == "conversation"
    by_turn = breakdown(named, JUDGED, "RR", by="depth", topics=depths, unit="turn", dataset=teas)
    assert by_turn.attrs["unit"] == "turn"
    by_chat = breakdown(named, measure="RR", dataset=teas, topics=teas.get_topics())
    assert by_chat["conversation"].tolist() == sorted(set(CHATS))
    assert by_chat.attrs["half_widths"] == {"base": {}, "ours": {}}
    assert by_chat.columns.name == "RR(rel=1)"
    assert by_chat.attrs["turns"] == ["Mean over 12 judged turns."]
    without_dataset = breakdown(named, JUDGED, "RR", topics=teas.get_topics())
    assert without_dataset.attrs["unit"] == "conversation"


def test_pairs_differ_by_the_unit_that_is_asked_for_or_known(teas):
    """Six equal pairs of turns: twelve turns show what six conversations don't."""
    ours = [1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 4, 4]
    named = {"base": at([2] * 12), "ours": at(ours)}
    by_turn = compare(reciprocal(ours), [0.5] * 12, TEAS).p_value
    by_chat = compare(reciprocal(ours), [0.5] * 12, CHATS).p_value
    assert by_turn < 0.05 < by_chat
    assert differing_pairs(named, measure="RR", dataset=teas) == []
    assert differing_pairs(named, measure="RR", dataset=teas, unit="turn") == [("base", "ours")]
    chats = named["base"].merge(teas.get_topics()[["qid", "qconversation"]])
    with_chats = {**named, "base": chats}
    assert differing_pairs(with_chats, JUDGED, "RR") == []
    assert differing_pairs(named, JUDGED, "RR") == [("base", "ours")]
    assert differing_pairs(named, JUDGED, "RR", turns=TEAS[10:]) == []
    frames = {
        "a": pd.DataFrame({"qid": TEAS, "RR(rel=1)": [0.5] * 12}),
        "b": pd.DataFrame({"qid": TEAS, "RR(rel=1)": reciprocal(ours)}),
    }
    assert differing_pairs(frames, measure="RR") == [("a", "b")]
    assert differing_pairs({"a": at([2] * 12), "b": at([1] * 11 + [2])}, JUDGED, "P@1", unit="turn")


def test_frames_bring_their_conversations_to_a_comparison(named):
    chats = pd.DataFrame({"qid": TEAS, "qconversation": CHATS})
    named["ours"] = named["ours"].merge(chats)
    table = evaluate(named, JUDGED, ["RR"], "base")
    assert table.iloc[1][["clusters", "unit_from"]].tolist() == [6, "qconversation"]
    some = evaluate(named, JUDGED, ["RR"], "base", turns=TEAS[:4])
    assert some.iloc[1][["clusters", "turns"]].tolist() == [2, 4]
    assert some.iloc[0]["RR(rel=1)"] == (0.5 + 0.5 + 0.25 + 0.25) / 4
    with pytest.raises(UsageError, match="unit='topic'"):
        evaluate(named, JUDGED, ["RR"], unit="topic")


def test_a_run_that_lacks_a_turn_is_tested_an_empty_one_not(named):
    named["ours"] = named["ours"][named["ours"]["qid"] != "t1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotTestedWarning)
        table = evaluate(named, JUDGED, ["RR"], "base", unit="turn")
    assert not np.isnan(table["RR(rel=1) p-value"][1])
    with pytest.warns(NotTestedWarning, match="^empty, none found nothing"):
        silent = find_silent({"empty": {}, "one": {"t1": {"a": 1.0}}, "none": {"t1": {}}}, ["t1"])
    assert silent == ["empty", "none"]
    with pytest.warns(NotTestedWarning, match="^one found nothing"):
        assert find_silent({"one": {"t2": {"a": 1.0}}}, ["t1"]) == ["one"]


def test_only_frames_and_files_are_warned_of_for_other_turns(tmp_path):
    judged = qrels(("1_1", "a", 1), ("1_2", "a", 1), ("1_3", "a", 1))
    mine = folder(tmp_path / "mine", run(**{"1_1": "a"}), ["1_1", "1_3"])
    frame = run(**{"1_1": "a", "1_2": "a"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", OtherTurnsWarning)
        table = evaluate({"mine": mine, "frame": frame}, judged, ["P@1"])
        evaluate({"frame": run(**{"1_1": "a", "9_9": "a"})}, judged, ["P@1"], turns=["1_1", "1_2"])
        # it lacks a judged turn that isn't scored
        whole = run(**{"1_1": "a", "1_3": "a", "9_9": "a"})
        evaluate({"mine": mine, "frame": whole}, judged, ["P@1"])
    assert table["P(rel=1)@1"].tolist() == [0.5, 0.5]
    assert table.attrs["turns"] == [
        "Mean over 2 judged turns, those that mine was asked, of 3.",
        "each run lacks 1 judged turn, counted 0: 1_3.",
    ]
    foreign = run(**{"1_1": "a", "1_2": "a", "9_9": "a"})
    told = r"run frame lacks 1 judged turn, counted 0 \(1_3\), and has 1 turn .*\(9_9\)"
    with pytest.warns(OtherTurnsWarning, match=told) as seen:
        evaluate({"mine": mine, "frame": foreign}, judged, ["P@1"])
    assert len(seen) == 1


def test_the_oracles_row_stands_last_and_only_if_asked_for(named):
    assert evaluate(named, JUDGED, ["RR"])["name"].tolist() == ["base", "ours"]
    table = evaluate(named, JUDGED, ["RR"], oracle=True)
    assert table["name"].tolist() == ["base", "ours", "oracle"]
    assert table["RR(rel=1)"][2] == pytest.approx((8 * 1 + 4 * 0.5) / 12)


def test_given_judgements_come_before_folders_and_datasets(teas, tmp_path):
    other = JUDGED.assign(docno="w")
    mine = folder(tmp_path / "mine", at(BASE), dataset="ikat:sample")
    for runs in ({"x": at(BASE)}, {"x": mine}):
        table = evaluate(runs, other, ["P@1"], dataset=teas)
        assert table["P(rel=1)@1"].tolist() == [10 / 12]
    with pytest.raises(UsageError, match=r"there are no judgements: give qrels=\.\.\."):
        evaluate({"x": at(BASE)})
    found = run(**{"1-1_1": "sample-walk-001:0"})
    own = folder(tmp_path / "own", found, dataset="ikat:sample")
    assert evaluate({"x": own}, measures=["P@1"], dataset=teas)["turns"].tolist() == [1]


def test_turns_sort_by_each_of_their_numbers():
    ordered = ["9-1_3", "9-1_12", "9-10_1", "10-1_1", "999_1", "1234_1", "a", "b2", "b10"]
    assert sorted(ordered[::-1], key=natural_key) == ordered
    assert sorted(sorted(ordered), key=natural_key) == ordered


def test_scores_of_a_turn_are_listed_in_the_order_of_qrels():
    judged = qrels(("2_1", "a", 1), ("1_1", "a", 1))
    scores = per_turn(run(**{"1_1": "x a"}), judged, ["P@1", "RR"])
    assert scores.columns.tolist() == ["qid", "P(rel=1)@1", "RR(rel=1)"]
    assert scores.values.tolist() == [["2_1", 0.0, 0.0], ["1_1", 0.0, 0.5]]


@pytest.mark.parametrize(
    ("frame", "error", "told"),
    [
        (pd.DataFrame({"RR(rel=1)": [0.5]}), DataError, "b has no scores .* only the columns RR"),
        (pd.DataFrame({"qid": ["t1"], "RR": [0.5]}), DataError, "only the columns qid, RR"),
        (pd.DataFrame({"qid": [1], "RR(rel=1)": [0.5]}), DataError, "qid"),
        (
            pd.DataFrame({"qid": ["t1", "t1"], "RR(rel=1)": [0.5, 0.5]}),
            DataError,
            "turn t1 occurs twice in the scores RR.rel=1. of b: keep one",
        ),
        (
            pd.DataFrame({"qid": ["t1", "t10", "t9"], "RR(rel=1)": 0.5}),
            DataError,
            r"b and a have scores of different turns \(t9, t10\)",
        ),
        (
            pd.DataFrame({"qid": ["t1"], "RR(rel=1)": [None]}),
            DataError,
            "b has no score RR.rel=1. for turn t1",
        ),
        (at([1], ["t1"]), UsageError, "b is a ranking: give the qrels to judge it with"),
    ],
    ids=["no qid", "no score", "number", "twice", "more turns", "missing", "ranking"],
)
def test_scores_that_cannot_stand_side_by_side_are_named(frame, error, told):
    first = pd.DataFrame({"qid": ["t1"], "RR(rel=1)": [1.0]})
    with pytest.raises(error, match=told):
        scores_by_run({"a": first, "b": frame}, None, "RR")


def test_scores_side_by_side_keep_the_turns_of_the_first_run():
    first = pd.DataFrame({"qid": ["t2", "t1"], "RR(rel=1)": [1.0, 0.5]})
    found = scores_by_run({"a": first, "b": first}, None, "RR")
    assert found.index.tolist() == ["t2", "t1"]
    assert found.values.tolist() == [[1.0, 1.0], [0.5, 0.5]]
    ranked = scores_by_run({"a": at([2, 1], ["t1", "t2"])}, JUDGED[:2], "RR")
    assert ranked["a"].to_dict() == {"t1": 0.5, "t2": 1.0}


def test_the_defaults_are_the_tracks_measures_and_unit():
    judged = qrels(("1_1", "a", 2), ("2_1", "a", 1))
    runs = {"x": run(**{"1_1": "x a", "2_1": "a"})}
    names = ["nDCG@3", "nDCG@5", "nDCG", "P(rel=1)@20", "R(rel=1)@20", "R(rel=1)@1000", "AP(rel=1)"]
    assert evaluate(runs, judged).columns.tolist() == ["name", *names, "turns"]
    assert per_turn(runs["x"], judged).columns.tolist() == ["qid", *names]
    found = breakdown(runs, judged)
    assert found.columns.tolist() == ["conversation", "x", "turns"]
    assert found.columns.name == "nDCG@5"
    scores = pd.DataFrame({"qid": TEAS, "nDCG@5": reciprocal(OURS)})
    worse = scores.assign(**{"nDCG@5": [0.25] * 12})
    assert differing_pairs({"a": scores, "b": worse}) == [("a", "b")]


def test_each_frame_with_foreign_turns_is_warned_of():
    judged = qrels(("1_1", "a", 1), ("1_2", "a", 1))
    one = run(**{"1_1": "a", "8_8": "a"})
    two = run(**{"1_2": "a", "9_9": "a"})
    with pytest.warns(OtherTurnsWarning) as seen:
        table = evaluate({"one": one, "two": two, "all": run(**{"1_1": "x a"})}, judged, ["P@1"])
    first, second = (str(warning.message) for warning in seen)
    assert first.startswith("run one lacks 1 judged turn,")
    assert second.startswith("run two lacks 1 judged turn,")
    assert table["P(rel=1)@1"].tolist() == [0.5, 0.5, 0.0]
    assert table.attrs["turns"] == [
        "Mean over 2 judged turns.",
        "one lacks 1 judged turn, counted 0: 1_2.",
        "all lacks 1 judged turn, counted 0: 1_2.",
        "two lacks 1 judged turn, counted 0: 1_1.",
    ]


def test_one_runs_turns_and_passages_are_those_of_the_judgements():
    judged = qrels(("1_1", "a", 1), ("1_2", "b", 1))
    with pytest.raises(DataError, match="^run to evaluate has no turn of the qrels: .* like 9_9"):
        per_turn(run(**{"9_9": "a"}), judged, ["P@1"])
    with pytest.raises(DataError, match="^run to evaluate: its passages are like 'A', the judged"):
        per_turn(run(**{"1_1": "A"}), judged, ["P@1"])
    with pytest.warns(NotJudgedWarning, match="^run to evaluate: none of its 1 passage is judged"):
        assert per_turn(run(**{"1_1": "x"}), judged, ["P@1"])["P(rel=1)@1"].tolist() == [0.0, 0.0]


# Breakdowns


def figures(**values):
    return pd.DataFrame(
        {
            "qid": ["9-1_1", "9-1_2", "9-1_10", "10-1_1"],
            **{name.replace("_", "@"): v for name, v in values.items()},
        }
    )


def test_breakdowns_by_hand():
    runs = {
        "AD": figures(nDCG_5=[1.0, 0.5, 0.0, 0.25]),
        "QR": figures(nDCG_5=[0.0, 0.5, 0.3, 0.75]),
    }
    by_conversation = breakdown(runs, by="conversation")
    assert by_conversation.columns.tolist() == ["conversation", "AD", "QR", "turns"]
    assert by_conversation.values.tolist() == [
        ["9-1", 0.5, pytest.approx(0.8 / 3), 3],
        ["10-1", 0.25, 0.75, 1],
    ]
    by_depth = breakdown(runs, by="depth")
    assert by_depth["depth"].tolist() == [1, 2, 10]
    assert by_depth[["AD", "QR", "turns"]].values.tolist() == [
        [0.625, 0.375, 2],
        [0.5, 0.5, 1],
        [0.0, 0.3, 1],
    ]


def test_the_interval_of_a_mean_is_that_of_students_t():
    """Of 0 and 1 the standard error is a half.

    Of one degree of freedom 95 % lie within 12.706 of them, and one turn has none.
    """
    scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2", "10-1_1"], "nDCG@5": [0.0, 1.0, 0.25]})
    table = breakdown({"AD": scores}, by="conversation", unit="turn")
    assert table.attrs["half_widths"] == {"AD": {"9-1": pytest.approx(12.706 / 2, abs=1e-3)}}
    assert breakdown({"AD": scores}, by="conversation").attrs["half_widths"] == {
        "AD": {}
    }  # a conversation is a single cluster


def test_breakdowns_of_rankings_weigh_up_to_the_mean():
    runs, qrels = random_runs(turns=9)
    table = breakdown(runs, qrels, "nDCG@5", by="depth")
    means = evaluate(runs, qrels, ["nDCG@5"]).set_index("name")["nDCG@5"]
    for name in runs:
        assert (table[name] * table["turns"]).sum() / table["turns"].sum() == pytest.approx(
            means[name]
        )
    counts = evaluate(runs, qrels, ["nDCG@5"], baseline="one").set_index("name")
    base = per_turn(runs["one"], qrels, ["nDCG@5"])["nDCG@5"]
    other = per_turn(runs["two"], qrels, ["nDCG@5"])["nDCG@5"]
    assert counts.loc["two", "nDCG@5 +"] == (other > base).sum()
    assert counts.loc["two", "nDCG@5 -"] == (other < base).sum()


def test_topics_say_the_group_where_a_frame_says_another():
    scores = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "AP(rel=1)": [1.0, 0.5, 0.25]})
    of_frame = scores.assign(qconversation=["x", "x", None])
    topics = pd.DataFrame({"qid": ["1_1"], "qconversation": ["y"]})
    found = breakdown({"a": of_frame}, measure="AP", topics=topics)
    assert found.values.tolist() == [["1", 0.25, 1], ["x", 0.5, 1], ["y", 1.0, 1]]
    assert breakdown({"a": of_frame}, measure="AP", by="depth")["depth"].tolist() == [1, 2, 3]


def test_groups_stand_in_their_natural_order():
    categories = ["type 10", "type 9", "type 9"]
    scores = pd.DataFrame({"qid": list("abc"), "qcategory": categories, "nDCG@5": [1.0, 0.5, 0.0]})
    found = breakdown({"x": scores}, by="category")
    assert found.values.tolist() == [["type 9", 0.25, 2], ["type 10", 1.0, 1]]
    assert found.attrs["half_widths"] == {"x": {"type 9": pytest.approx(12.706 / 4, abs=1e-3)}}
    assert found.attrs["unit"] == "turn"
    with pytest.raises(DataError, match="nothing says the category of turn 9_1: give topics"):
        breakdown({"x": scores.assign(qid=["9_1", "9_2", "9_3"])[["qid", "nDCG@5"]]}, by="category")
    for qid in ("_1", "9-1_x", "9"):
        frame = pd.DataFrame({"qid": [qid], "nDCG@5": [0.5]})
        with pytest.raises(DataError, match=f"turn '{qid}', which is not <conversation>_<turn>"):
            breakdown({"x": frame}, by="depth")
    assert breakdown({"x": frame.assign(qid="a_b_3")})["conversation"].tolist() == ["a_b"]


def test_a_breakdown_joins_rankings_and_scores_on_turns(teas):
    scores = pd.DataFrame({"qid": TEAS, "RR(rel=1)": reciprocal(OURS)})
    few = ["t3", "t4", "t1"]
    runs = {"ranked": at(BASE), "scored": scores}
    topics = teas.get_topics()
    found = breakdown(runs, JUDGED, "RR", topics=topics, turns=few)
    assert found.values.tolist() == [["chat1", 0.5, 1.0, 1], ["chat2", 0.25, 0.5, 2]]
    assert found.attrs["turns"] == ["Mean over 3 judged turns."]
    lacking = {"ranked": at(BASE[1:], TEAS[1:]), "scored": scores}
    told = breakdown(lacking, JUDGED, "RR", topics=topics).attrs["turns"]
    assert told == ["Mean over 12 judged turns.", "ranked lacks 1 judged turn, counted 0: t1."]
    with pytest.raises(DataError, match="qid"):
        breakdown({"x": pd.DataFrame({"qid": [1], "RR(rel=1)": [0.5]})}, measure="RR", turns=["1"])


def test_frames_say_the_conversation_of_any_qid():
    scores = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25]).assign(qid=["tea", "milk", "a-3", "b"])
    topics = pd.DataFrame(
        {
            "qid": ["b", "a-3", "milk", "tea"],
            "qconversation": ["x10", "x9", "x9", "x9"],
            "qturn": [1, 12, 2, 1],
        }
    )
    for table in (
        breakdown({"AD": scores}, topics=topics),
        breakdown({"AD": scores.merge(topics)}),
        breakdown({"AD": scores, "QR": scores.merge(topics)}),
    ):
        assert table[["conversation", "AD", "turns"]].values.tolist() == [
            ["x9", 0.5, 3],
            ["x10", 0.25, 1],
        ]
    assert breakdown({"AD": scores}, by="depth", topics=topics)[
        ["depth", "AD"]
    ].values.tolist() == [[1, 0.625], [2, 0.5], [12, 0.0]]
    with pytest.raises(
        DataError,
        match=(
            "nothing says the conversation of turn 'tea', .*: give topics=..., a frame with qid "
            "and qconversation"
        ),
    ):
        breakdown({"AD": scores}, topics=topics[:2])


GOOD = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25])


@pytest.mark.parametrize(
    ("runs", "options", "error", "word"),
    [
        ({"a": GOOD}, {"by": "topic"}, UsageError, "by='topic' is unknown"),
        (
            {"a": GOOD.assign(qid=GOOD["qid"].str.replace("_", "-"))},
            {},
            DataError,
            "turn '9-1-1', which is not <conversation>_<turn>",
        ),
        (
            {"a": GOOD, "b": GOOD[:2]},
            {},
            DataError,
            "b and a have scores of different turns .9-1_10, 10-1_1.",
        ),
        ({"turns": GOOD}, {"by": "depth"}, UsageError, "a run is named 'turns'"),
        ({"depth": GOOD}, {"by": "depth"}, UsageError, "a run is named 'depth'"),
        ({"a": random_runs()[0]["one"]}, {}, UsageError, "there are no judgements: give qrels"),
        ({"a": GOOD}, {"measure": "R@20"}, DataError, "a has no scores R.rel=1.@20 by qid"),
    ],
)
def test_breakdowns_that_make_no_sense(runs, options, error, word):
    with pytest.raises(error, match=word):
        breakdown(runs, **options)


def test_no_turn_is_left_out_of_a_breakdown():
    scores = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25])
    topics = scores[["qid"]].assign(qcategory=["fact", None, "fact", "opinion"])
    with pytest.raises(DataError, match="nothing says the category of turn 9-1_2"):
        breakdown({"AD": scores}, by="category", topics=topics)
    with pytest.raises(DataError, match="AD has no score nDCG@5 for turn 9-1_2"):
        breakdown({"AD": scores.assign(**{"nDCG@5": [1.0, None, 0.0, 0.25]})})
