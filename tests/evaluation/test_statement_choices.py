"""Statements and actions by system: what a list, an id, a share of words count as."""

import json
import re
import warnings

import pandas as pd
import pytest
from small_frames import folder, qrels, run

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate_actions, evaluate_learned
from pyterrier_ikat.evaluation.decisions import (
    evaluate_ptkb,
    labels_by_turn,
    ptkb_per_turn,
    statement_ranking,
    statements_by_turn,
    with_relevant,
    word_f1,
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("I live in Oslo.", "i LIVE in oslo", 1),
        ("tea", "coffee", 0),
        ("", "", 0),
        ("a b", "a c", 1 / 2),
        ("a a b", "a b b", 2 / 3),  # a once, b once, of 3 + 3 words
        ("a b c", "a", 1 / 2),
        ("a", "a b c", 1 / 2),
    ],
)
def test_f1_counts_common_words_as_often_as_both_have_them(one, other, expected):
    assert word_f1(one, other) == pytest.approx(expected)


def system(**turns):
    return pd.DataFrame({"qid": list(turns), "qstatements": list(turns.values())})


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        ([("7", 0.1), ("3", 0.9), ("5", 0.2)], [["7", 3.0, 0], ["3", 2.0, 1], ["5", 1.0, 2]]),
        ([("7", 0.0)], [["7", 1.0, 0]]),
        ([], []),
        (None, []),
        (float("nan"), []),
    ],
)
def test_a_choice_is_ranked_by_its_positions(chosen, rows):
    ranking = statement_ranking(system(a_1=chosen))
    assert ranking[["docno", "score", "rank"]].values.tolist() == rows
    assert ranking["qid"].tolist() == ["a_1"] * len(rows)
    assert statements_by_turn(system(a_1=chosen)) == {"a_1": [row[0] for row in rows]}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(DataError, match="turn a_1: statement 2 has the score"):
        statement_ranking(system(a_1=[("1", 1.0), ("2", score)]))


PTKB = qrels(("a_1", "1", 1), ("a_1", "2", 0), ("a_2", "1", 0), ("a_2", "2", 0), ("a_3", "3", 2))


def test_turns_with_a_relevant_statement_are_kept_whole():
    kept = with_relevant(PTKB)
    assert kept.values.tolist() == [["a_1", "1", 1], ["a_1", "2", 0], ["a_3", "3", 2]]
    assert kept.index.tolist() == [0, 1, 2]


def test_means_are_over_the_chosen_turns_and_counted():
    ours = system(a_1=[("2", 1.0), ("1", 0.5)], a_3=[("3", 1.0)])
    for turns, set_precision, counts in (
        (None, 1.5 / 3, [3, 2]),
        (["a_1", "a_2"], 0.5 / 2, [2, 1]),
        (["a_3"], 1.0, [1, 1]),
    ):
        [row] = evaluate_ptkb({"ours": ours}, PTKB, turns).to_dict("records")
        assert row["name"] == "ours"
        assert row["SetP(rel=1)"] == pytest.approx(set_precision)
        assert [row["turns"], row["relevant_turns"]] == counts
    scores = ptkb_per_turn(ours, PTKB)
    assert scores["qid"].tolist() == ["a_1", "a_2", "a_3"]
    assert scores["SetR(rel=1)"].tolist() == [1.0, 0.0, 1.0]
    assert scores["P(rel=1)@3"].tolist() == pytest.approx([1 / 3, 0, 1 / 3])


def test_errors_name_the_system_if_it_has_a_name():
    wrong = system(a_1=[("1", 1.0), ("9", 0.5)])
    for name, who in (("ours", "system ours, turn a_1"), ("", "the system, turn a_1")):
        with pytest.raises(DataError, match=f"^{who}: there is no statement '9'"):
            ptkb_per_turn(wrong, PTKB, name)


def test_choices_for_turns_that_are_not_judged_do_not_count():
    ours = system(a_1=[("1", 1.0)], b_1=[("any", 1.0)])
    assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [1.0, 0.0, 0.0]


def test_a_new_statement_beside_those_of_other_turns_is_told():
    ours = system(a_1=[("1", 2.0), ("I ski.", 1.0)], a_3=[("3", 1.0)])
    with pytest.warns(UserWarning, match="1 statement that the topics lack .such as 'I ski.'"):
        assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [0.5, 0.0, 1.0]


def test_each_new_statement_of_a_turn_counts_and_the_first_is_shown():
    ours = system(
        a_1=[("1", 3.0), ("I ski.", 2.0), ("I run.", 1.0)], a_3=[("3", 2.0), ("I ski.", 1.0)]
    )
    with pytest.warns(UserWarning, match="3 statements that the topics lack .such as 'I ski.'"):
        ptkb_per_turn(ours, PTKB)


def test_judgements_of_statements_are_a_frame_with_ids():
    ours = system(a_1=[("1", 1.0)], a_3=[("3", 1.0)])
    numbers = PTKB.assign(docno=PTKB["docno"].astype(int))
    pd.testing.assert_frame_equal(ptkb_per_turn(ours, numbers), ptkb_per_turn(ours, PTKB))
    for odd in ("ptkb", PTKB.drop(columns="docno")):
        with pytest.raises((DataError, UsageError), match="the PTKB qrels"):
            ptkb_per_turn(ours, odd)
        with pytest.raises((DataError, UsageError), match="the PTKB qrels"):
            evaluate_ptkb({"x": ours}, odd)


def test_each_system_is_told_which_turns_it_lacks():
    first, second = system(a_1=[("1", 1.0)]), system(a_1=[("2", 1.0)], a_2=[("1", 1.0)])
    table = evaluate_ptkb({"first": first, "second": second}, PTKB)
    assert table.attrs["turns"][1:] == [
        "first lacks 2 judged turns, counted 0: a_2, a_3.",
        "second lacks 1 judged turn, counted 0: a_3.",
    ]
    ranking = statement_ranking(first)
    assert ranking.dtypes.astype(str).tolist() == ["object", "object", "float64", "int64"]


def test_words_in_quotation_marks_are_a_new_statement():
    ours = system(a_1=[("1", 1.0), ('"42"', 0.5)])
    with pytest.warns(UserWarning, match="1 statement that the topics lack"):
        assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [0.5, 0.0, 0.0]


LEARNED = [{"id": "9", "statement": "I live in Oslo.", "replaces": [1, "7"]}]


@pytest.mark.parametrize(
    ("known", "holds", "learned", "numbers"),
    [
        # numbers: added, new, replaced, outdated, kept, still, wrong, learned
        ({"1": "I live in Lyon."}, ["I live in Oslo."], LEARNED, [1, 1, 1, 1, 0, 0, 0, 1]),
        ({"1": "I ski."}, ["I ski.", "I live in Oslo."], LEARNED, [1, 1, 0, 0, 0, 1, 0, 1]),
        ({"2": "I ski."}, ["I ski."], LEARNED, [0, 0, 0, 0, 1, 1, 1, 1]),
        ({"2": "I ski.", "3": "I run."}, ["I run"], [], [0, 0, 0, 1, 1, 1, 0, 0]),
        ({"7": "I LIVE in Oslo"}, [], LEARNED, [0, 0, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_each_number_of_what_was_learned(known, holds, learned, numbers):
    labels = pd.DataFrame({"qid": ["a_1"], "known": [known], "holds": [holds]})
    ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
    [row] = evaluate_learned({"s": ours}, labels).to_dict("records")
    added, new, replaced, outdated, kept, still, wrong, count = numbers
    assert [row["new"], row["outdated"], row["still"], row["learned"]] == [
        new,
        outdated,
        still,
        count,
    ]
    shares = {"added": (added, new), "replaced": (replaced, outdated), "kept": (kept, still)}
    for name, (part, whole) in (shares | {"wrong": (wrong, count)}).items():
        if whole:
            assert row[name] == part / whole
        else:
            assert pd.isna(row[name])


def test_half_of_the_words_are_enough_by_default():
    labels = pd.DataFrame({"qid": ["a_1"], "known": [{}], "holds": [["a b c"]]})
    for words, added in (("a b d", 1), ("a", 1), ("a d", 0)):  # F1 of 2/3, 1/2 and 2/5
        learned = [{"id": "1", "statement": words, "replaces": []}]
        ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
        assert evaluate_learned({"s": ours}, labels)["added"].item() == added


def test_labels_of_turns_leave_out_turns_without_one():
    answers = pd.DataFrame(
        {"qid": ["a", "b", "c"], "gold_answerability": ["answerable", None, "unanswerable"]}
    )
    assert labels_by_turn(answers) == {"a": "answerable", "c": "unanswerable"}
    with pytest.raises(UsageError, match="nothing says which turns have an answer"):
        labels_by_turn(answers[["gold_answerability"]])


def test_actions_are_scored_over_the_chosen_turns():
    answers = pd.DataFrame(
        {
            "qid": ["a", "b", "c", "d"],
            "gold_answerability": ["unanswerable", "underspecified", "answerable", "unanswerable"],
        }
    )
    ours = pd.DataFrame({"qid": list("abcd"), "qaction": ["abstain", "ask", "ask", "answer"]})
    whole = evaluate_actions({"x": ours, "y": ours}, answers)
    assert whole["name"].tolist() == ["x", "x", "y", "y"]
    assert whole["action"].tolist() == ["abstain", "ask"] * 2
    assert whole["turns"].tolist() == [4] * 4
    assert whole["precision"].tolist() == [1.0, 0.5] * 2
    assert whole["recall"].tolist() == [0.5, 1.0] * 2
    assert whole["F1"].tolist() == pytest.approx([2 / 3, 2 / 3] * 2)
    part = evaluate_actions({"x": ours}, answers, turns=["a", "c"])
    assert part[["action", "turns", "labelled", "chosen", "right"]].values.tolist() == [
        ["abstain", 2, 1, 1, 1]
    ]
    # F1 is 2 J / (1 + J): its bounds are those of J, converted
    low, high = whole.loc[1, ["F1_low", "F1_high"]]
    for bound, share in ((low, 0.0945), (high, 0.9055)):  # Wilson's for 1 of 2
        assert bound == pytest.approx(2 * share / (1 + share), abs=1e-3)


def test_both_systems_are_scored_and_what_they_lack_is_told(tmp_path):
    mine = folder(tmp_path / "mine", run(a_1="d"), ["a_1", "a_2"])
    lines = [{"qid": "a_1", "qstatements": [["1", 1.0]]}, {"qid": "a_2", "qstatements": []}]
    (mine.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    frame = system(a_1=[("2", 1.0)])
    table = evaluate_ptkb({"frame": frame, "mine": mine.path}, PTKB)
    assert table["name"].tolist() == ["frame", "mine"]
    assert table["SetP(rel=1)"].tolist() == [0.0, 0.5]
    assert table[["turns", "relevant_turns"]].values.tolist() == [[2, 1]] * 2
    assert table.attrs["turns"] == [
        "Mean over 2 judged turns, those that mine was asked, of 3.",
        "frame lacks 1 judged turn, counted 0: a_2.",
    ]
    with pytest.raises(UsageError, match="9_9"):
        evaluate_ptkb({"frame": frame}, PTKB, ["9_9"])


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"a_1": [("1", 1.0)]}, None),
        ({"a_1": [("1", 1.0)], "a_2": []}, None),
        ({"a_1": [], "a_2": None}, "chose no statement for any turn"),
        ({"a_1": [("1", 2.0), ("I ski.", 1.0)]}, r"1 statement .*such as 'I ski.'"),
        ({"a_1": [("1", 3.0), ('"7"', 2.0), ("I ski.", 1.0)]}, r"2 statements .*such as '\"7\"'"),
    ],
)
def test_what_a_choice_lacks_or_adds_is_told(choices, told):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ptkb_per_turn(system(**choices), PTKB, "ours")
    assert [str(warning.message).startswith("system ours ") for warning in seen] == [True] * (
        told is not None
    )
    if told:
        assert re.search(told, str(seen[0].message))


@pytest.mark.parametrize("chosen", [[("9", 1.0), ("1", 0.5)], [("I ski.", 1.0), ("I run.", 0.5)]])
def test_an_id_that_the_persona_lacks_is_refused_with_its_turn(chosen):
    with pytest.raises(DataError, match="turn a_1: there is no statement"):
        ptkb_per_turn(system(a_1=chosen, b_9=[("1", 1.0)]), PTKB)


def test_learned_statements_have_their_words_unless_judged():
    learned = [{"id": "2", "statement": "I ski."}, {"id": "8", "statement": "I run."}]
    ours = system(a_1=[("1", 3.0), ("2", 2.0), ("8", 1.0)], a_2=[("1", 1.0)])
    ours["qlearned"] = [learned, None]
    with pytest.warns(UserWarning, match="1 statement .*such as 'I run.'"):
        scores = ptkb_per_turn(ours, PTKB)
    assert scores["SetP(rel=1)"].tolist() == pytest.approx([1 / 3, 0, 0])


def test_the_labels_turns_count_though_a_system_learned_on_more():
    labels = pd.DataFrame({"qid": ["a_1", "a_2"], "known": [{}, {}], "holds": [["x y"], ["x z"]]})
    learned = [{"id": 1, "statement": "x y", "replaces": []}]
    two = [*learned, {"id": 2, "statement": "x z", "replaces": []}]
    ours = pd.DataFrame({"qid": ["a_1", "b_1"], "qlearned": [two, learned]})
    table = evaluate_learned({"s": ours, "t": ours}, labels, least=0.5)
    assert table["name"].tolist() == ["s", "t"]
    assert table.loc[0, ["added", "new", "wrong", "learned", "turns"]].tolist() == [
        0.5,
        2,
        0.5,
        2,
        2,
    ]
    assert pd.isna(table["replaced"][0])
    for known, holds in (({}, "x"), ("x", [])):
        with pytest.raises(DataError, match="turn a_1 of the labels: give known as a dict"):
            evaluate_learned({"s": ours}, labels[:1].assign(known=[known], holds=[holds]))
    for entry in ("x", {"statement": 1, "replaces": []}, {"statement": "x", "replaces": "1"}):
        wrong = pd.DataFrame({"qid": ["a_1"], "qlearned": [[*learned, entry]]})
        with pytest.raises(DataError, match="system s, turn a_1: qlearned is not a list of dicts"):
            evaluate_learned({"s": wrong}, labels)


class Chats:
    """Six turns in three conversations that their ids don't name."""

    name = "chats"

    def get_topics(self, variant=None):
        return pd.DataFrame({"qid": list("abcdef"), "query": "?", "qconversation": list("xxyyzz")})

    def get_qrels(self, variant=None):
        return qrels(("a", "d", 1))


def test_actions_have_the_clusters_of_dataset_frame_or_unit(tmp_path):
    labels = pd.DataFrame({"qid": list("abcdef"), "gold_answerability": "unanswerable"})
    ours = pd.DataFrame({"qid": list("abcdef"), "qaction": ["abstain", "answer"] * 3})
    chats = Chats().get_topics()
    for given, options, unit, clusters in (
        (ours, {}, "turn", 6),
        (ours, {"dataset": Chats()}, "conversation", 3),
        (ours, {"dataset": Chats(), "unit": "turn"}, "turn", 6),
        (ours.merge(chats[["qid", "qconversation"]]), {}, "conversation", 3),
    ):
        row = evaluate_actions({"x": given}, labels, **options).iloc[0]
        assert (row["unit"], row["clusters"]) == (unit, clusters)
    made = folder(tmp_path / "mine", run(a="d", b="d"), list("abcd"))
    lines = [{"qid": qid, "qaction": "abstain"} for qid in "abcd"]
    (made.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = evaluate_actions({"mine": made.path, "x": ours}, labels)
    assert table["turns"].tolist() == [4, 4]
    assert table["right"].tolist() == [4, 2]
    assert table.attrs["turns"] == ["Mean over 4 judged turns, those that mine was asked, of 6."]
    chosen = evaluate_actions({"mine": made.path}, labels, turns=["a", "b"])
    assert chosen["turns"].tolist() == [2]
    assert "Mean over 2 judged turns." in chosen.attrs["turns"]
    with pytest.warns(UserWarning, match=r"mine made no decision for 1 of 2 turns \(f\)"):
        evaluate_actions({"mine": made.path}, labels, turns=["a", "f"])
    nothing = evaluate_actions({"x": ours.assign(qaction="answer")}, labels).iloc[0]
    assert [nothing["turns"], nothing["chosen"], nothing["recall"]] == [6, 0, 0.0]
    assert pd.isna(nothing["precision"])
    with pytest.raises(DataError, match="turn a: the action is 'refuse'"):
        evaluate_actions({"x": ours.assign(qaction="refuse")}, labels)
    empty = ours.assign(qaction=["abstain", "", None, "ask", "answer", "answer"])
    with pytest.warns(UserWarning, match=r"x made no decision for 2 of 6 turns \(b, c\)"):
        row = evaluate_actions({"x": empty}, labels).iloc[0]
    assert (row["chosen"], row["right"]) == (1, 1)


def test_actions_of_folders_that_were_asked_other_turns_are_told(tmp_path):
    labels = pd.DataFrame({"qid": list("abc"), "gold_answerability": "unanswerable"})
    folders = {}
    for name, qids in (("one", "ab"), ("two", "a")):
        made = folder(tmp_path / name, run(a="d"), list(qids))
        lines = [{"qid": qid, "qaction": "abstain"} for qid in qids]
        (made.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
        folders[name] = made.path
    assert evaluate_actions(folders, labels).attrs["turns"] == [
        "Mean over 1 judged turn, those that all runs were asked, of 3.",
        "The runs were asked different judged turns: one 2, two 1.",
    ]


def test_tables_of_decisions_have_their_columns_in_order():
    table = evaluate_ptkb({"x": system(a_1=[("1", 1.0)])}, PTKB)
    assert table.columns.tolist() == [
        "name",
        "nDCG@3",
        "P(rel=1)@3",
        "R(rel=1)@3",
        "R(rel=1)@5",
        "SetP(rel=1)",
        "SetR(rel=1)",
        "SetF(rel=1)",
        "turns",
        "relevant_turns",
    ]
    labels = pd.DataFrame({"qid": ["a"], "gold_answerability": ["unanswerable"]})
    actions = evaluate_actions({"x": pd.DataFrame({"qid": ["a"], "qaction": ["abstain"]})}, labels)
    assert actions.columns.tolist() == [
        *("name", "action", "turns", "labelled", "chosen", "right"),
        *("precision", "precision_low", "precision_high"),
        *("recall", "recall_low", "recall_high"),
        *("F1", "F1_low", "F1_high"),
        *("unit", "clusters", "unit_from"),
    ]
    row = actions.loc[0]
    bounds_of_a_share = pytest.approx([1.0, 0.2065, 1.0], abs=1e-3)
    bounds_of_f1 = pytest.approx([1.0, 2 * 0.2065 / 1.2065, 1.0], abs=1e-3)
    assert row[["precision", "precision_low", "precision_high"]].tolist() == bounds_of_a_share
    assert row[["recall", "recall_low", "recall_high"]].tolist() == bounds_of_a_share
    assert row[["F1", "F1_low", "F1_high"]].tolist() == bounds_of_f1
    learned = evaluate_learned(
        {"x": pd.DataFrame({"qid": ["a"], "qlearned": [[]]})},
        pd.DataFrame({"qid": ["a"], "known": [{}], "holds": [[]]}),
    )
    assert learned.columns.tolist() == [
        *("name", "added", "replaced", "kept", "wrong"),
        *("new", "outdated", "still", "learned", "turns"),
    ]


def test_each_statement_that_was_learned_meets_one_label_at_most():
    """By hand: one is like two labels, and two are like the third: two pairs of three."""
    labels = pd.DataFrame({"qid": ["a_1"], "known": [{}], "holds": [["a b c", "a b d", "x y"]]})
    learned = [{"statement": words, "replaces": []} for words in ("a b", "x y", "x y z")]
    ours = pd.DataFrame({"qid": ["a_1"], "qlearned": [learned]})
    [row] = evaluate_learned({"s": ours}, labels).to_dict("records")
    assert [row["added"], row["wrong"]] == [2 / 3, 1 / 3]
    assert [row["new"], row["learned"]] == [3, 3]
