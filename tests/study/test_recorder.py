"""What a stage was asked, wrote, found and scored, as a recorder keeps it, turn by turn."""

import numpy as np
import pandas as pd
import pytest
from recorded_lines import Finds, Gives, lines_kept
from three_turns import TOPICS

from pyterrier_ikat.events import Step, observed_by
from pyterrier_ikat.llms import Completion, LLMFailure, Request
from pyterrier_ikat.study.recorder import Recorder, Shown


def recorded(inp, out, qids=("a",)):
    recorder = Recorder(list(qids), lambda text: "stage")
    with observed_by(recorder):
        Gives(out)(inp)
    return lines_kept(recorder, qids)


TURNS = pd.DataFrame({"qid": ["a", "b"], "query": ["tea", "milk"], "qx": [1, 2], "other": [0, 0]})


@pytest.mark.parametrize(
    ("changes", "wrote"),
    [
        ({}, None),
        ({"qx": [5, 2]}, {"qx": 5}),
        ({"qx": [1, 5]}, None),  # of the other turn
        ({"qx": [1.0, 2.0]}, None),  # the same numbers
        ({"qnew": ["x", "y"]}, {"qnew": "x"}),
        ({"qnew": [None, "y"]}, None),
        ({"query": ["green tea", "milk"]}, {"query": "green tea"}),
        ({"query_0": ["x", "y"]}, None),
        ({"other": [7, 7]}, None),
        ({"qsub": [0, 0]}, None),
        ({"qnew": [["x", 1.5], []]}, {"qnew": ["x", 1.5]}),
    ],
)
def test_a_stage_wrote_the_turn_columns_that_it_changed(changes, wrote):
    lines = recorded(TURNS, TURNS.assign(**changes))
    assert [line.get("wrote") for line in lines] == ([wrote] if wrote else [])


def test_a_stage_with_a_value_that_is_gone_wrote_none():
    [line] = recorded(TURNS, TURNS.assign(qx=pd.Series([None, 2], dtype=object)))
    assert line == {"qid": "a", "stage": "stage", "wrote": {"qx": None}}


FOUND = pd.DataFrame(
    {
        "qid": ["a", "a", "b"],
        "query": ["tea", "tea", "milk"],
        "docno": ["d2", "d1", "d3"],
        "score": [2.12345678, 1.0, 3.0],
        "rank": [0, 1, 0],
    }
)


def test_a_retriever_found_passages_with_six_decimals():
    [line] = recorded(TURNS[["qid", "query"]], FOUND)
    assert line == {
        "qid": "a",
        "stage": "stage",
        "query": "tea",
        "found": [{"qid": "a", "query": "tea", "docnos": ["d2", "d1"], "scores": [2.123457, 1.0]}],
    }
    [nothing] = recorded(TURNS[["qid", "query"]], FOUND[2:])
    assert nothing["found"] == [{"qid": "a", "query": "tea", "docnos": [], "scores": []}]
    assert recorded(TURNS[["qid", "query"]], FOUND.drop(columns="docno")) == []
    assert recorded(TURNS[["qid"]], FOUND)[0].get("found") is None


def test_sub_queries_belong_to_their_turn_with_its_own_query():
    asked = pd.DataFrame(
        {
            "qid": ["a::0", "a::1"],
            "qid_0": ["a", "a"],
            "query": ["tea", "milk"],
            "qquery": ["tea with milk"] * 2,
            "qsub": [0, 1],
            "qweight": [1.0, 0.5],
        }
    )
    found = asked.assign(docno=["d1", "d2"], score=[2.0, 1.0])
    [line] = recorded(asked, found)
    assert line["query"] == "tea with milk"
    shared = {"qid": "a::0", "query": "tea", "qsub": 0, "qweight": 1.0}
    assert line["found"][0] == {**shared, "docnos": ["d1"], "scores": [2.0]}
    assert [query["qid"] for query in line["found"]] == ["a::0", "a::1"]


@pytest.mark.parametrize(
    ("out", "scored"),
    [
        (FOUND.assign(score=[1.0, 5.0, 3.0]), (["d2", "d1"], [1.0, 5.0])),
        (FOUND.iloc[[1, 0, 2]].assign(score=[5.0, 1.0, 3.0]), (["d2", "d1"], [1.0, 5.0])),
        (FOUND[:1].assign(score=4.0), (["d2"], [4.0])),
        (FOUND, None),  # as before
        (FOUND.assign(docno=["d2", "d9", "d3"]), None),  # another passage: no re-ranker
        (FOUND.assign(score=9.0).drop(columns="query"), None),
        (FOUND.assign(score=9.0, qid_0="a"), None),  # of sub-queries
    ],
)
def test_a_reranker_scored_the_passages_in_their_old_order(out, scored):
    lines = recorded(FOUND, out)
    found = [line["scored"] for line in lines if "scored" in line]
    if scored is None:
        assert found == []
        return
    [[query]] = found
    assert query == {"qid": "a", "query": "tea", "docnos": scored[0], "scores": scored[1]}


def test_a_line_is_taken_once_and_only_of_its_turns():
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(TURNS.assign(qx=9))(TURNS)
    assert recorder.take(["b"]) != b""
    assert recorder.take(["a"]) != b""
    with pytest.raises(KeyError):
        recorder.take(["a"])


def test_frames_without_turns_are_not_recorded():
    assert recorded(TURNS.drop(columns="qid"), TURNS.assign(qx=9)) == []
    assert recorded(TURNS, TURNS.assign(qx=9).drop(columns="qid")) == []


def test_a_turn_without_work_has_no_bytes():
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(TURNS.assign(qx=[9, 2]))(TURNS)
    packed = recorder.take(["a"])
    assert packed[4:8] == bytes(4)  # the time of a gzip member
    assert recorder.take(["b"]) == b""


def test_arrays_are_written_as_lists_of_the_turn():
    asked = pd.DataFrame({"qid": ["a::0", "a::1"], "qid_0": ["a", "a"], "query": ["tea", "milk"]})
    cells = pd.Series([np.array([1, 2]), np.array([3])], dtype=object)
    [line] = recorded(asked, asked.assign(qnew=cells))
    assert line == {"qid": "a", "stage": "stage", "wrote": {"qnew": [1, 2]}}


def test_a_turn_and_its_sub_queries_write_no_query():
    turn = TURNS.head(1)
    sub = pd.DataFrame({"qid": ["a::0"], "qid_0": ["a"], "query": ["milk"]})
    assert recorded(turn[["qid", "query"]], sub) == []
    assert recorded(sub, turn[["qid", "query"]]) == []


def test_passages_without_scores_are_not_found_but_may_be_scored():
    unscored = FOUND.drop(columns="score")
    assert recorded(TURNS[["qid", "query"]], unscored) == []
    [line] = recorded(unscored, FOUND)
    assert line["scored"][0]["docnos"] == ["d2", "d1"]


def test_a_result_with_another_query_is_no_re_ranking():
    assert recorded(FOUND.head(2), FOUND.assign(score=9.0)) == []


def test_turns_with_one_query_are_scored_each_for_itself():
    same = FOUND.assign(query="tea")
    recorder = Recorder(["a", "b"], str)
    with observed_by(recorder):
        Gives(same.assign(score=[9.0, 8.0, 7.0]))(same)
    a, b = lines_kept(recorder, ["a", "b"])
    assert (a["qid"], a["scored"][0]["scores"]) == ("a", [9.0, 8.0])
    assert (b["qid"], b["scored"][0]["scores"]) == ("b", [7.0])


def test_scores_of_zero_count_where_there_were_none():
    unscored = FOUND.drop(columns=["score", "rank"])
    [line] = recorded(unscored, FOUND.assign(score=0.0))
    assert line["scored"][0]["scores"] == [0.0, 0.0]


def test_numbers_of_numpy_are_written_as_numbers():
    asked = pd.DataFrame({"qid": ["a"], "qid_0": ["a"], "query": ["tea"], "qquery": [""]})
    asked["qweight"] = pd.Series([np.float32(0.5)], dtype=object)
    [line] = recorded(asked, asked.assign(docno="d", score=1.0))
    assert line["found"][0]["qweight"] == 0.5
    assert line["query"] == ""


def test_stages_are_recorded_in_order_turn_by_turn():
    first = TOPICS[:2].assign(qa=["x", "y"])
    second = first.assign(qb=[1, None], docno=["a", "b"], score=[2.0, 1.0])
    recorder = Recorder(["1_2", "1_1"], lambda text: "stage")
    with observed_by(recorder):
        Gives(second)(Gives(first)(TOPICS[:2]))
    lines = lines_kept(recorder, ["1_1", "1_2"])
    found = {"1_1": ("tea", "a", 2.0), "1_2": ("milk", "b", 1.0)}
    expected = []
    for qid, value in (("1_1", "x"), ("1_2", "y")):
        query, docno, score = found[qid]
        expected.append({"qid": qid, "stage": "stage", "wrote": {"qa": value}})
        line = {"qid": qid, "stage": "stage"}
        if qid == "1_1":
            line["wrote"] = {"qb": 1}
        asked = {"qid": qid, "query": query, "docnos": [docno], "scores": [score]}
        expected.append({**line, "found": [asked], "query": query})
    assert lines == expected


# Requests, and what is shown of the stage that runs


def exchanges(*outcomes, **more):
    messages = [{"role": "user", "content": "Tea?"}]
    request = Request(messages, "ask", "a", **more)
    return [(request, outcome) for outcome in outcomes]


def recorded_steps(*steps, qids=("a",)):
    recorder = Recorder(list(qids), lambda text: "stage")
    for step in steps:
        recorder.end(step)
    return lines_kept(recorder, qids)


FRAME = pd.DataFrame({"qid": ["a"], "query": ["tea"]})
SUB = pd.DataFrame({"qid": ["a::0"], "qid_0": ["a"], "query": ["tea"], "qsub": [0]})
ANSWER = Completion("Mint.", "m", "stop", None, None, 0.0, False)


def test_requests_are_kept_with_their_outcomes_and_names():
    failure = LLMFailure("ask", "a", "too long")
    asked = exchanges(ANSWER, failure, prompt="answer") + exchanges(ANSWER, item="d1")
    [line] = recorded_steps(Step(Finds(), FRAME, out=FRAME, asked=asked))
    messages = [{"role": "user", "content": "Tea?"}]
    assert line["asked"] == [
        {"prompt": "answer", "messages": messages, "completion": "Mint."},
        {"prompt": "answer", "messages": messages, "failure": "too long"},
        {"item": "d1", "messages": messages, "completion": "Mint."},
    ]


def test_a_failed_stage_and_other_turns_are_not_recorded():
    asked = exchanges(ANSWER)
    assert recorded_steps(Step(Finds(), FRAME, asked=asked)) == []
    assert recorded_steps(Step(Finds(), FRAME, out=FRAME, asked=asked), qids=("b",)) == []


def test_requests_of_sub_queries_belong_to_their_turn():
    request = Request([{"role": "user", "content": "Tea?"}], "ask", "a::0")
    step = Step(Finds(), SUB, out=SUB, asked=[(request, ANSWER)])
    [line] = recorded_steps(step)
    assert (line["qid"], len(line["asked"])) == ("a", 1)
    inner = SUB.drop(columns="qid_0")
    later = Step(Finds(), inner, out=inner, asked=[(request, ANSWER)])
    lines = recorded_steps(Step(Finds(), FRAME, out=SUB), later)
    assert [line["qid"] for line in lines] == ["a"]


def test_stages_that_join_or_make_sub_queries_write_no_query():
    assert recorded_steps(Step(Finds(), FRAME, out=SUB)) == []
    assert recorded_steps(Step(Finds(), SUB, out=FRAME.assign(query="milk"))) == []
    [line] = recorded_steps(Step(Finds(), FRAME, out=FRAME.assign(query="milk")))
    assert line["wrote"] == {"query": "milk"}


def test_the_value_of_a_turn_is_that_of_its_first_row():
    found = pd.DataFrame({"qid": ["a", "a"], "query": ["tea"] * 2, "qnew": ["first", "second"]})
    [line] = recorded_steps(Step(Finds(), FRAME, out=found))
    assert line["wrote"] == {"qnew": "first"}


def test_the_current_stage_is_told_in_its_words_until_it_ends(monkeypatch):
    class Busy(Finds):
        activity = "searching {queries}"

    entries = []
    monkeypatch.setattr(
        "pyterrier_ikat.study.recorder.doing", lambda text: ProgressEntry(text, entries)
    )
    shown = Shown()
    outer = Step(Busy(), FRAME)
    inner = Step(Finds(), FRAME)
    shown.begin(outer)
    shown.begin(inner)
    assert entries == ["searching 1 query", "Finds"]
    shown.end(inner)
    assert entries == ["searching 1 query"]
    shown.end(outer)
    assert entries == []


class ProgressEntry:
    """Stands for an entry of the line of progress."""

    def __init__(self, text, entries):
        self.text, self.entries = text, entries

    def __enter__(self):
        self.entries.append(self.text)

    def __exit__(self, *_):
        self.entries.remove(self.text)


def test_turns_that_are_taken_leave_the_others_their_sub_queries():
    two = pd.DataFrame({"qid": ["a::0", "b::0"], "qid_0": ["a", "b"], "query": ["tea", "milk"]})
    recorder = Recorder(["a", "b"], lambda text: f"<{text}>")
    recorder.end(Step(Finds(), two, out=two))
    recorder.take(["a"])
    request = Request([{"role": "user", "content": "Milk?"}], "ask", "b::0")
    inner = two.drop(columns="qid_0")
    recorder.end(Step(Finds(), inner, out=inner, asked=[(request, ANSWER)]))
    [line] = lines_kept(recorder, ["b"])
    assert (line["qid"], len(line["asked"])) == ("b", 1)
    assert line["stage"] == f"<{Finds()!r}>"


def test_requests_of_a_stage_that_joins_belong_to_the_turn():
    request = Request([{"role": "user", "content": "Tea?"}], "ask", "a::0")
    [line] = recorded_steps(Step(Finds(), SUB, out=FRAME, asked=[(request, ANSWER)]))
    assert (line["qid"], len(line["asked"])) == ("a", 1)
