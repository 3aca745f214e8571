import json

import numpy as np
import pandas as pd
import pytest

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.runs.turn_lines import (
    as_json,
    chosen_statements,
    response_column,
    turn_lines,
    used_marks,
)


def marked(*marks):
    docnos = [f"d{place}" for place in range(len(marks))]
    return pd.DataFrame({"qid": "9-1_3", "docno": docnos, "used": column(marks)})


def test_a_passage_is_used_when_its_mark_is_true_or_one():
    marks = (
        True,
        np.True_,
        1,
        1.0,
        np.int64(1),
        False,
        np.False_,
        0,
        0.0,
        None,
        float("nan"),
        pd.NA,
    )
    assert used_marks(marked(*marks)) == [True] * 5 + [False] * 7
    for dtype in ("boolean", "float", "category"):
        assert used_marks(marked(True, False, None).astype({"used": dtype})) == [True, False, False]
    assert used_marks(marked()) == []


@pytest.mark.parametrize("mark", ["False", "True", "", 2, -1, 0.5, [True], "1"])
def test_any_other_mark_is_refused(mark):
    with pytest.raises(
        DataError,
        match="turn 9-1_3, passage d1: used is .*, neither true nor false: give True or False, as "
        "frame",
    ):
        used_marks(marked(True, mark))


@pytest.mark.parametrize(
    "chosen",
    [
        [("10", 0.5), ("2", 0.25)],
        (("10", 0.5), ["2", 0.25]),
        [["10", np.float32(0.5)], [np.str_("2"), np.float64(0.25)]],
        np.array([("10", 0.5), ("2", 0.25)], dtype=object),
        np.array([[10, 0.5], ["2", 0.25]], dtype=object),
        [(10, 0.5), (np.int64(2), 0.25)],
        pd.Series([("10", 0.5), ("2", 0.25)]),
    ],
)
def test_statements_are_any_sequence_of_ids_and_scores(chosen):
    assert chosen_statements("9-1_3", chosen) == [("10", 0.5), ("2", 0.25)]


@pytest.mark.parametrize("nothing", [None, float("nan"), [], (), np.array([])])
def test_a_turn_without_statements(nothing):
    assert chosen_statements("9-1_3", nothing) == []


@pytest.mark.parametrize(
    "chosen",
    [
        "10",
        ["10"],
        "",
        {"10": 0.5},
        {},
        {("10", 0.5)},
        [("10",)],
        [("10", 0.5, 1)],
        [(1.5, 0.5)],
        [("10", None)],
        7,
    ],
)
def test_what_is_no_list_of_statements_names_the_turn(chosen):
    with pytest.raises(
        DataError, match=r"turn 9-1_3: qstatements is .*; give a list of \(id, score\), best first"
    ):
        chosen_statements("9-1_3", chosen)


def test_arrays_and_tuples_are_lists_of_pythons_own_numbers():
    cell = (
        np.array([1, 2]),
        {"a": np.float32(0.5)},
        pd.Series(["x"]),
        np.array(["y", np.int64(3)], dtype=object),
    )
    found = as_json(cell)
    assert found == [[1, 2], {"a": 0.5}, ["x"], ["y", 3]]
    numbers = [*found[0], found[1]["a"], found[3][1]]
    assert [type(number) for number in numbers] == [int, int, float, int]


def test_a_response_based_on_no_passage_is_no_abstention():
    topics = pd.DataFrame({"qid": ["1_1", "1_2"]})
    results = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "rank": [0]})
    lines = turn_lines(topics, results.assign(qanswer="Try tea.", used=False), "No answer.")
    assert [json.loads(line) for line in lines] == [
        {"qid": "1_1", "response": "Try tea.", "used": [], "passages": 1},
        {"qid": "1_2", "response": "No answer.", "used": [], "passages": 0},
    ]


def lines_of(topics, results, abstention=None):
    lines = turn_lines(pd.DataFrame(topics), pd.DataFrame(results), abstention)
    return [json.loads(line) for line in lines]


ASKED = {"qid": ["1_1", "1_2"], "qutterance": ["tea?", "now?"], "query": ["x", "y"]}
RANKED = {"qid": ["1_1"] * 3, "docno": list("bac"), "rank": [1, 0, 2]}


def test_a_turn_without_passages_has_its_cells_of_the_topics():
    found = lines_of(ASKED, RANKED | {"qutterance": ["tea?"] * 3, "qrewrite": ["which tea"] * 3})
    assert found == [
        {"qid": "1_1", "qutterance": "tea?", "qrewrite": "which tea", "passages": 3},
        {"qid": "1_2", "qutterance": "now?", "passages": 0},
    ]


def test_an_answer_before_retrieval_is_a_draft():
    ranked = RANKED | {"qanswer": ["Tea."] * 3, "qdraft": ["A draft."] * 3, "used": [1, 1, 0]}
    asked = ASKED | {"qanswer": [None, "Before."]}
    answered = {"qid": "1_1", "response": "Tea.", "used": ["a", "b"], "qanswer": "A draft."}
    unanswered = {"qid": "1_2", "qutterance": "now?", "qanswer": "Before.", "passages": 0}
    assert lines_of(asked, ranked) == [{**answered, "passages": 3}, unanswered]
    abstained = {**unanswered, "response": "None found.", "used": []}
    assert lines_of(asked, ranked, "None found.") == [{**answered, "passages": 3}, abstained]


def test_an_abstention_stands_only_beside_responses():
    assert lines_of(ASKED, RANKED | {"qanswer": ["Tea."] * 3}, "None found.") == [
        {"qid": "1_1", "qanswer": "Tea.", "passages": 3},
        {"qid": "1_2", "qutterance": "now?", "passages": 0},
    ]


def test_a_response_of_no_text_is_empty():
    assert lines_of({"qid": ["1_1"]}, RANKED | {"used": [0, 1, 0]}) == [
        {"qid": "1_1", "response": "", "used": ["a"], "passages": 3}
    ]


def test_a_turn_has_the_cells_of_its_first_row():
    rewrites = {"qrewrite": ["first", "second", "third"]}
    assert lines_of({"qid": ["1_1"]}, RANKED | rewrites)[0]["qrewrite"] == "first"


def test_the_responses_are_those_beside_the_drafts():
    assert response_column(pd.DataFrame(columns=["qanswer", "response"])) == "response"
    assert response_column(pd.DataFrame(columns=["qanswer"])) == "qanswer"


KEPT = [
    "qutterance",
    "qresolved",
    "qrewrite",
    "qanswer",
    "qsubqueries",
    "qfound",
    "qweights",
    "qptkb",
    "qlearned",
    "qaction",
    "qaskback",
    "qcitations",
]


def test_each_column_of_a_turn_is_written_and_no_other():
    results = {"qid": ["1_1"], "docno": ["a"], "qstatements": column([[("2", 0.5)]])}
    wanted = {"qid": "1_1", "qstatements": [["2", 0.5]], "passages": 1}
    for name in KEPT:
        results[name] = [f"cell of {name}"]
        wanted[name] = f"cell of {name}"
    for name in ("qhistory", "query", "text"):
        results[name] = ["not of the turn"]
    [line] = lines_of({"qid": ["1_1"]}, results)
    assert line == wanted


def test_names_of_a_dict_are_texts():
    assert as_json({1: (2,), "a": np.int64(3)}) == {"1": [2], "a": 3}


def test_a_wrong_mark_without_a_passage_names_its_turn():
    frame = pd.DataFrame({"qid": ["9-1_3", "9-1_4"], "used": column([True, "yes"])})
    with pytest.raises(DataError, match="^turn 9-1_4: used is 'yes', neither"):
        used_marks(frame)


def test_empty_cells_are_not_written():
    asked = {"qid": ["1_1", "1_2"], "qutterance": [None, "now?"], "qptkb": [None, float("nan")]}
    ranked = {**RANKED, "qrewrite": [float("nan")] * 3, "qanswer": [None] * 3}
    lines = turn_lines(pd.DataFrame(asked), pd.DataFrame(ranked))
    assert list(lines) == [
        '{"qid": "1_1", "passages": 3}\n',
        '{"qid": "1_2", "qutterance": "now?", "passages": 0}\n',
    ]


@pytest.mark.parametrize("twice", ["topics", "results"])
def test_a_frame_with_a_column_twice_is_refused(twice):
    frames = {"topics": pd.DataFrame(ASKED), "results": pd.DataFrame(RANKED)}
    frames[twice].insert(1, "qid", "1_1", allow_duplicates=True)
    with pytest.raises(DataError, match="the frame has several columns 'qid'"):
        list(turn_lines(**frames))
