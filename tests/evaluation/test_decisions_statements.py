"""Statements that systems chose: figures of the facts page and by hand, and bad input."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import folder, qrels, run

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate_actions, evaluate_learned
from pyterrier_ikat.evaluation.decisions import (
    evaluate_ptkb,
    ptkb_per_turn,
    statement_ranking,
    statements_by_turn,
    with_relevant,
)

RANKING = ["nDCG@3", "P(rel=1)@3", "R(rel=1)@3"]
SET = ["SetP(rel=1)", "SetR(rel=1)", "SetF(rel=1)"]


def chosen(**turns):
    """qid -> ids as a turn frame; a hyphen can't be in a keyword, so x1_2 stands for 1-1_2."""
    qids = [name.replace("x", "1-") for name in turns]
    rankings = []
    for ids in turns.values():
        rankings.append([(statement, 1 / place) for place, statement in enumerate(ids, 1)])
    return pd.DataFrame({"qid": qids, "qstatements": rankings})


def all_alike(qids, chosen_ids):
    """The ids of each turn as its statements, each with the score 1."""
    statements = [list(dict.fromkeys(ids, 1.0).items()) for ids in chosen_ids]
    return pd.DataFrame({"qid": qids, "qstatements": statements})


def gold(data):
    topics = data.get_topics("manual")
    return all_alike(topics["qid"], topics["qgoldptkb"])


def oracle(qrels):
    relevant = qrels[qrels["label"] > 0].groupby("qid")["docno"].agg(list)
    return all_alike(relevant.index, relevant)


def test_reference_values_of_2023(ikat_data):
    data = pt.get_dataset("ikat:2023")
    nist = data.get_qrels("ptkb_nist")
    table = evaluate_ptkb({"oracle": oracle(nist), "provenance": gold(data)}, nist).set_index(
        "name"
    )
    assert table.loc["oracle", RANKING].round(4).tolist() == [1.0, 0.6020, 0.9211]
    assert table.loc["provenance", RANKING].round(4).tolist() == [0.2356, 0.1293, 0.2050]
    assert table.loc["oracle", SET].tolist() == [1.0, 1.0, 1.0]
    assert table["turns"].tolist() == table["relevant_turns"].tolist() == [98, 98]
    table = evaluate_ptkb({"provenance": gold(data)}, data.get_qrels("ptkb_org"))
    assert table[["nDCG@3", *SET]].values.tolist() == [[1.0, 1.0, 1.0, 1.0]]
    assert table["turns"].tolist() == [112]


@pytest.mark.parametrize(("year", "turns", "relevant"), [(2024, 218, 95), (2025, 188, 64)])
def test_turns_without_a_relevant_statement_count_0_and_show(ikat_data, year, turns, relevant):
    data = pt.get_dataset(f"ikat:{year}")
    qrels = data.get_qrels("ptkb")
    all_turns = evaluate_ptkb({"gold": gold(data)}, qrels).iloc[0]
    assert (all_turns["turns"], all_turns["relevant_turns"]) == (turns, relevant)
    assert all_turns["SetF(rel=1)"] == pytest.approx(relevant / turns)
    others = evaluate_ptkb({"gold": gold(data)}, with_relevant(qrels)).iloc[0]
    assert (others["SetF(rel=1)"], others["nDCG@3"], others["turns"]) == (1.0, 1.0, relevant)


QRELS = pd.DataFrame(
    [
        ("1-1_1", "1", 1),
        ("1-1_1", "2", 0),
        ("1-1_1", "3", 1),
        ("1-1_1", "4", 0),
        ("1-1_2", "1", 1),
        ("1-1_2", "2", 0),
    ],
    columns=["qid", "docno", "label"],
)


def test_figures_by_hand():
    figures = ptkb_per_turn(chosen(x1_1=["2", "3", "4", "1"]), QRELS).set_index("qid")
    first = figures.loc["1-1_1"]
    log3 = 1.5849625007211562
    assert first["nDCG@3"] == pytest.approx((1 / log3) / (1 + 1 / log3))
    assert first["P(rel=1)@3"] == pytest.approx(1 / 3)
    assert (first["R(rel=1)@3"], first["R(rel=1)@5"]) == (0.5, 1.0)
    assert first[SET].tolist() == [0.5, 1.0, pytest.approx(2 / 3)]
    assert figures.loc["1-1_2"].tolist() == [0.0] * 7


def test_f1_is_averaged_over_turns_not_made_of_averages():
    table = evaluate_ptkb({"x": chosen(x1_1=["1", "2"], x1_2=["1"])}, QRELS)
    assert table[SET].values.tolist() == [[0.75, 0.75, 0.75]]  # turn 1: .5 .5 .5, turn 2: 1 1 1
    uneven = evaluate_ptkb({"x": chosen(x1_1=["1"], x1_2=["1", "2"])}, QRELS)
    assert uneven[SET].values[0] == pytest.approx(
        [0.75, 0.75, 2 / 3]
    )  # of the averages it would be .75


@given(
    st.lists(
        st.permutations(["1", "2", "3", "4"]).flatmap(
            lambda ids: st.integers(0, 4).map(lambda n: ids[:n])
        ),
        min_size=2,
        max_size=2,
    )
)
def test_set_measures_equal_plain_python(lists):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lists may be empty
        found = ptkb_per_turn(
            chosen(x1_1=lists[0], x1_2=[name for name in lists[1] if name in "12"]), QRELS
        ).set_index("qid")
    for qid, wanted, names in (
        ("1-1_1", {"1", "3"}, lists[0]),
        ("1-1_2", {"1"}, [name for name in lists[1] if name in "12"]),
    ):
        hits = len(wanted.intersection(names))
        precision = hits / len(names) if names else 0.0
        recall = hits / len(wanted)
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        assert found.loc[qid, SET].tolist() == pytest.approx([precision, recall, f1])
        assert found.loc[qid, "R(rel=1)@3"] == pytest.approx(
            len(wanted.intersection(names[:3])) / len(wanted)
        )


def test_a_system_that_chooses_nothing_has_zeros():
    with pytest.warns(
        UserWarning, match="system none chose no statement for any turn: all its scores are 0"
    ):
        table = evaluate_ptkb({"none": chosen(x1_1=[], x1_2=[])}, QRELS)
    assert table.drop(columns=["name", "turns", "relevant_turns"]).values.tolist() == [[0.0] * 7]


def test_the_order_of_the_list_decides_not_the_scores():
    turns = pd.DataFrame({"qid": ["1-1_1"], "qstatements": [[("1", 0.1), ("2", 0.9)]]})
    assert statement_ranking(turns)["docno"].tolist() == ["1", "2"]
    assert statement_ranking(turns)["score"].tolist() == [2.0, 1.0]
    repeated = pd.concat(
        [turns.assign(docno="a"), turns.assign(docno="b")], ignore_index=True
    )  # a result frame
    pd.testing.assert_frame_equal(statement_ranking(repeated), statement_ranking(turns))


def test_run_folders(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    lines = [{"qid": "1-1_1", "qstatements": [["3", 0.9], ["1", 0.4]]}, {"qid": "1-1_2"}]
    (folder / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(
        DataError, match=r"ours is not a finished run: give a folder made by `ikat run`"
    ):
        statement_ranking(folder)
    (folder / "run.json").write_text("{}")
    assert statement_ranking(folder).values.tolist() == [
        ["1-1_1", "3", 2.0, 0],
        ["1-1_1", "1", 1.0, 1],
    ]
    assert evaluate_ptkb({"ours": str(folder)}, QRELS)["SetR(rel=1)"].tolist() == [0.5]
    (folder / "turns.jsonl").write_text('{"qid": "1-1_1"}\n{"qid": "1-')
    with pytest.raises(DataError, match=r"turns.jsonl, line 2: not JSON .*: repeat the run"):
        statement_ranking(folder)


def test_statements_of_a_pipeline():
    data = pt.get_dataset("ikat:sample")
    found = ikat.SelectStatements(ikat.llm("recorded:sample"))(data.get_topics())
    table = evaluate_ptkb({"ids": found}, data.get_qrels("ptkb"))
    assert 0.5 < table["SetR(rel=1)"][0] <= 16 / 24  # 8 of the 24 turns have no relevant statement
    assert table["relevant_turns"].tolist() == [16]


ONE = chosen(x1_1=["1"])


@pytest.mark.parametrize(
    ("system", "error", "word"),
    [
        (
            ONE.assign(qstatements=[[("1", float("nan"))]]),
            DataError,
            "turn 1-1_1: statement 1 has the score nan",
        ),
        (
            ONE.assign(qstatements=[[("1", 0.5), ("1", 0.4)]]),
            DataError,
            "turn 1-1_1: statement 1 is chosen twice",
        ),
        (ONE.assign(qstatements=[["12"]]), DataError, "turn 1-1_1: qstatements is"),
        (ONE.assign(qstatements=["12"]), DataError, "turn 1-1_1: qstatements is"),
        (ONE.assign(qstatements=[{"1": 0.5}]), DataError, "turn 1-1_1: qstatements is"),
        (chosen(x1_1=["99"]), DataError, "turn 1-1_1: there is no statement '99'"),
        (ONE.assign(qid="1-1-1"), DataError, "like 1-1-1, the wanted ones like 1-1_1"),
        (
            pd.concat([ONE, ONE.assign(qid="1-1-2")]),
            DataError,
            "like 1-1-2, the wanted ones like 1-1_2",
        ),
        (
            ONE.assign(qid="7_1"),
            DataError,
            "x has no turn of the PTKB qrels: its turns are like 7_1, the wanted ones like 1-1_1",
        ),
        (ONE.drop(columns="qstatements"), UsageError, "no column qstatements"),
        (
            pd.concat([ONE, chosen(x1_1=["2"])]),
            DataError,
            "turn 1-1_1 has rows with different qstatements",
        ),
    ],
)
def test_choices_that_would_be_misread_name_the_turn(system, error, word):
    with pytest.raises(error, match=word):
        evaluate_ptkb({"x": system}, QRELS)


def test_a_learned_statement_is_wrong_and_named_by_its_words():
    learned = [{"id": "4", "statement": "I ski.", "message": 1, "words": "I ski", "replaces": []}]
    turns = pd.DataFrame(
        {"qid": ["1_1"], "qstatements": [[("4", 2.0), ("1", 1.0)]], "qlearned": [learned]}
    )
    qrels = pd.DataFrame({"qid": "1_1", "docno": ["1", "2"], "label": [1, 0]})
    with pytest.warns(
        UserWarning,
        match=r"has 1 statement that the topics lack .such as .I ski...: .*counted as wrong",
    ):
        found = evaluate_ptkb({"x": turns}, qrels)
    assert found["SetP(rel=1)"].item() == 0.5
    with pytest.raises(DataError, match="there is no statement '4'"):
        evaluate_ptkb({"x": turns.drop(columns="qlearned")}, qrels)


def test_no_choice_for_the_only_judged_turn_scores_0():
    found = evaluate_ptkb({"x": pd.concat([chosen(x1_1=[]), ONE.assign(qid="7_1")])}, QRELS)
    assert found["SetR(rel=1)"].tolist() == [0.0]


@pytest.mark.parametrize(
    "learned",
    [
        "I ski.",
        {"id": "4", "statement": "I ski."},
        ["I ski."],
        [{"statement": "I ski."}],
        [{"id": "4", "statement": "I ski."}, {"id": "5"}],
        [{"id": 4, "statement": "I ski."}],
    ],
)
def test_learned_statements_of_another_form_are_refused(learned):
    turns = chosen(x1_1=["1"]).assign(qlearned=[learned])
    with pytest.raises(
        DataError,
        match="system x, turn 1-1_1: qlearned is not a list of dicts with id and statement: give",
    ):
        evaluate_ptkb({"x": turns}, QRELS)


def test_new_statements_count_as_wrong_and_are_named():
    turns = pd.DataFrame(
        {"qid": ["1_1"], "qstatements": [[("I ski.", 3.0), ("1", 2.0), ("2", 1.0)]]}
    )
    qrels = pd.DataFrame({"qid": "1_1", "docno": ["1", "2", "3"], "label": [1, 0, 1]})
    with pytest.warns(
        UserWarning,
        match=(
            r"system x has 1 statement that the topics lack .such as .I ski...: .*counted as "
            r"wrong"
        ),
    ):
        figures = evaluate_ptkb({"x": turns}, qrels).iloc[0]
    # of three chosen one is relevant, of two relevant one is chosen; it has the second place
    assert [
        figures[name] for name in ("SetP(rel=1)", "SetR(rel=1)", "P(rel=1)@3")
    ] == pytest.approx([1 / 3, 1 / 2, 1 / 3])
    assert figures["nDCG@3"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    words_for_ids = turns.assign(qstatements=[[("I drink tea.", 1.0)]])
    with pytest.raises(DataError, match="there is no statement 'I drink tea.' in the PTKB qrels"):
        evaluate_ptkb({"x": words_for_ids}, qrels)
    with pytest.raises(DataError, match="there is no statement '99' in the PTKB qrels"):
        evaluate_ptkb({"x": turns.assign(qstatements=[[("1", 2.0), ("99", 1.0)]])}, qrels)


def test_qrels_may_have_numbers_and_judge_each_statement_once():
    with pytest.raises(DataError, match="the PTKB qrels judge turn 1-1_1, passage 1 twice"):
        evaluate_ptkb({"x": ONE}, pd.concat([QRELS, QRELS]))
    numbers = QRELS.assign(docno=QRELS["docno"].astype(int))
    pd.testing.assert_frame_equal(
        evaluate_ptkb({"x": ONE}, numbers), evaluate_ptkb({"x": ONE}, QRELS)
    )


def choosing(**turns):
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
    ranking = statement_ranking(choosing(a_1=chosen))
    assert ranking[["docno", "score", "rank"]].values.tolist() == rows
    assert ranking["qid"].tolist() == ["a_1"] * len(rows)
    assert statements_by_turn(choosing(a_1=chosen)) == {"a_1": [row[0] for row in rows]}


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(DataError, match="turn a_1: statement 2 has the score"):
        statement_ranking(choosing(a_1=[("1", 1.0), ("2", score)]))


PTKB = qrels(("a_1", "1", 1), ("a_1", "2", 0), ("a_2", "1", 0), ("a_2", "2", 0), ("a_3", "3", 2))


def test_turns_with_a_relevant_statement_are_kept_whole():
    kept = with_relevant(PTKB)
    assert kept.values.tolist() == [["a_1", "1", 1], ["a_1", "2", 0], ["a_3", "3", 2]]
    assert kept.index.tolist() == [0, 1, 2]


def test_means_are_over_the_chosen_turns_and_counted():
    ours = choosing(a_1=[("2", 1.0), ("1", 0.5)], a_3=[("3", 1.0)])
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
    wrong = choosing(a_1=[("1", 1.0), ("9", 0.5)])
    for name, who in (("ours", "system ours, turn a_1"), ("", "the system, turn a_1")):
        with pytest.raises(DataError, match=f"^{who}: there is no statement '9'"):
            ptkb_per_turn(wrong, PTKB, name)


def test_choices_for_turns_that_are_not_judged_do_not_count():
    ours = choosing(a_1=[("1", 1.0)], b_1=[("any", 1.0)])
    assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [1.0, 0.0, 0.0]


def test_a_new_statement_beside_those_of_other_turns_is_told():
    ours = choosing(a_1=[("1", 2.0), ("I ski.", 1.0)], a_3=[("3", 1.0)])
    with pytest.warns(UserWarning, match="1 statement that the topics lack .such as 'I ski.'"):
        assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [0.5, 0.0, 1.0]


def test_all_new_statements_count_and_the_first_is_shown():
    ours = choosing(
        a_1=[("1", 3.0), ("I ski.", 2.0), ("I run.", 1.0)], a_3=[("3", 2.0), ("I ski.", 1.0)]
    )
    with pytest.warns(UserWarning, match="3 statements that the topics lack .such as 'I ski.'"):
        ptkb_per_turn(ours, PTKB)


def test_judgements_of_statements_are_a_frame_with_ids():
    ours = choosing(a_1=[("1", 1.0)], a_3=[("3", 1.0)])
    numbers = PTKB.assign(docno=PTKB["docno"].astype(int))
    pd.testing.assert_frame_equal(ptkb_per_turn(ours, numbers), ptkb_per_turn(ours, PTKB))
    for odd in ("ptkb", PTKB.drop(columns="docno")):
        with pytest.raises((DataError, UsageError), match="the PTKB qrels"):
            ptkb_per_turn(ours, odd)
        with pytest.raises((DataError, UsageError), match="the PTKB qrels"):
            evaluate_ptkb({"x": ours}, odd)


def test_each_system_is_told_which_turns_it_lacks():
    first = choosing(a_1=[("1", 1.0)])
    second = choosing(a_1=[("2", 1.0)], a_2=[("1", 1.0)])
    table = evaluate_ptkb({"first": first, "second": second}, PTKB)
    assert table.attrs["turns"][1:] == [
        "first lacks 2 judged turns, counted 0: a_2, a_3.",
        "second lacks 1 judged turn, counted 0: a_3.",
    ]
    ranking = statement_ranking(first)
    assert ranking.dtypes.astype(str).tolist() == ["object", "object", "float64", "int64"]


def test_words_in_quotation_marks_are_a_new_statement():
    ours = choosing(a_1=[("1", 1.0), ('"42"', 0.5)])
    with pytest.warns(UserWarning, match="1 statement that the topics lack"):
        assert ptkb_per_turn(ours, PTKB)["SetP(rel=1)"].tolist() == [0.5, 0.0, 0.0]


def test_both_systems_are_scored_and_what_they_lack_is_told(tmp_path):
    mine = folder(tmp_path / "mine", run(a_1="d"), ["a_1", "a_2"])
    lines = [{"qid": "a_1", "qstatements": [["1", 1.0]]}, {"qid": "a_2", "qstatements": []}]
    (mine.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    frame = choosing(a_1=[("2", 1.0)])
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
        ptkb_per_turn(choosing(**choices), PTKB, "ours")
    assert [str(warning.message).startswith("system ours ") for warning in seen] == [True] * (
        told is not None
    )
    if told:
        assert re.search(told, str(seen[0].message))


@pytest.mark.parametrize("chosen", [[("9", 1.0), ("1", 0.5)], [("I ski.", 1.0), ("I run.", 0.5)]])
def test_an_id_that_the_persona_lacks_is_refused_with_its_turn(chosen):
    with pytest.raises(DataError, match="turn a_1: there is no statement"):
        ptkb_per_turn(choosing(a_1=chosen, b_9=[("1", 1.0)]), PTKB)


def test_learned_statements_have_their_words_unless_judged():
    learned = [{"id": "2", "statement": "I ski."}, {"id": "8", "statement": "I run."}]
    ours = choosing(a_1=[("1", 3.0), ("2", 2.0), ("8", 1.0)], a_2=[("1", 1.0)])
    ours["qlearned"] = [learned, None]
    with pytest.warns(UserWarning, match="1 statement .*such as 'I run.'"):
        scores = ptkb_per_turn(ours, PTKB)
    assert scores["SetP(rel=1)"].tolist() == pytest.approx([1 / 3, 0, 0])


def test_tables_of_decisions_have_their_columns_in_order():
    table = evaluate_ptkb({"x": choosing(a_1=[("1", 1.0)])}, PTKB)
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
