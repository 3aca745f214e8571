"""Frames of qid and query alone: the user's question survives operators that replace the query."""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import question_column
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.llms.failures import Refused


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["qid", "query"], "query"),
        (["query_0", "query"], "query_0"),
        (["query", "query_2", "query_10", "query_0"], "query_10"),
        (["query", "query_0", "qutterance"], "qutterance"),
        (["query", "query_toks", "query_vec", "query_x1"], "query"),
    ],
)
def test_the_question_is_the_utterance_else_the_oldest_query(columns, expected):
    assert question_column(pd.DataFrame(columns=columns)) == expected


ASKED = "Which tea is free of caffeine?"


@pytest.fixture
def plain():
    return pd.DataFrame({"qid": ["1"], "query": [ASKED]})


def last_messages(backend):
    return [chat[-1]["content"] for chat in backend.asked]


def passages(queries):
    """Two passages per query, named after its number."""
    rows = []
    for row in queries.to_dict("records"):
        rows.append({**row, "docno": "d0", "rank": 0, "score": 0.0, "text": "Passage 0."})
        rows.append({**row, "docno": "d1", "rank": 1, "score": -1.0, "text": "Passage 1."})
    return pd.DataFrame(rows)


def test_queries_after_rewrite_and_response_show_the_question(plain):
    llm, backend = scripted(
        "Does rooibos contain caffeine?", "1. rooibos caffeine\n2. mint tea", "Rooibos does."
    )
    keep_text = pt.apply.generic(lambda frame: frame.assign(score=frame["score"] + 0.0))
    system = (
        ikat.Rewrite(llm)
        >> ikat.MultiQuery(llm)
        >> pt.apply.generic(passages)
        >> ikat.RerankAgainst(keep_text, "qrewrite")
        >> ikat.Respond(llm)
    )
    out = system(plain)
    rewrite, queries, respond = last_messages(backend)
    for prompt in (rewrite, queries, respond):
        assert ASKED in prompt
    assert "Does rooibos contain caffeine?" not in queries
    assert "mint tea" not in respond
    assert set(out["qanswer"]) == {"Rooibos does."}


def test_query_as_the_question_is_still_the_newest_one(plain):
    llm, backend = scripted("Does rooibos contain caffeine?", "Rooibos.")
    (ikat.Rewrite(llm) >> ikat.Answer(llm, question="query"))(plain)
    assert "Does rooibos contain caffeine?" in last_messages(backend)[1]


def test_operators_without_a_model_take_the_question_too(plain):
    answered = ikat.Answer(scripted("Rooibos.")[0])(plain)
    assert ikat.RawUtterance()(answered)["query"].tolist() == [ASKED]
    assert ikat.AllUtterances()(answered)["query"].tolist() == [ASKED]


ASKING = [
    ikat.Answer,
    ikat.Rewrite,
    ikat.generate.Clarify,
    ikat.generate.OutlineAnswer,
    ikat.MultiQuery,
    ikat.generate.StatementQueries,
]


@pytest.mark.parametrize("make", [*ASKING, ikat.generate.PassageQueries])
def test_a_refusal_is_a_typed_failure_and_no_query(plain, make):
    llm, _ = scripted("I'm sorry, but I can't help with that.")
    with pytest.raises(
        StageError,
        match=r"1 Refused.*the model refused: .I'm sorry.*; run it again .*on_error=fallback",
    ) as info:
        make(llm)(plain.assign(qstatements=[[]], qptkb=[{}]))
    assert isinstance(info.value.failures[0], Refused)
    assert "same completions from the cache" not in str(info.value)


@pytest.mark.parametrize(
    "make", [ikat.Answer, ikat.generate.OutlineAnswer, ikat.Rewrite, ikat.Respond]
)
@pytest.mark.parametrize("text", ["...", "```\n```", "[]", "\ud83e", "<think>hm</think>?!"])
def test_a_completion_without_a_letter_or_digit_is_no_answer(plain, make, text):
    llm, _ = scripted(text)
    found = pd.DataFrame(
        {"docno": ["d1"], "score": [1.0], "rank": [0], "text": ["Rooibos has no caffeine."]}
    )
    with pytest.raises(StageError, match="1 request failed .*nothing usable in the completion"):
        make(llm)(plain.merge(found, how="cross") if make is ikat.Respond else plain)
    assert llm.ledger.frame()["failures"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "found", "dropped"),
    [
        ("1. mint\n2. oats\n3. rye", ["mint", "oats"], 1),
        ('["mint", "oats", "rye", "MINT", "spelt"]', ["mint", "oats"], 2),
        ("Here they are:\n1. mint\n2. Mint\n3. oats", ["mint", "oats"], 0),
        ("<think>1. a\n2. b\n3. c</think>mint\noats", ["mint", "oats"], 0),
    ],
)
def test_queries_beyond_n_count_as_dropped(plain, text, found, dropped):
    llm, _ = scripted(text)
    assert ikat.Queries(llm, n=2)(plain)["qsubqueries"].tolist() == [found]
    assert llm.ledger.frame()[["dropped", "failures"]].values.tolist() == [[dropped, 0]]


def test_a_refusal_is_asked_again(plain):
    llm, asked = scripted("I cannot assist with that.", "<think>hm</think>", "rooibos tea")
    for failure in ("1 Refused", "1 OnlyReasoning"):
        with pytest.raises(StageError, match=failure):
            ikat.Rewrite(llm)(plain)
    assert ikat.Rewrite(llm)(plain)["query"].tolist() == ["rooibos tea"]
    assert ikat.Rewrite(llm)(plain)["query"].tolist() == ["rooibos tea"]
    assert len(asked.asked) == 3


def test_an_answer_that_begins_with_regret_stays_an_answer(plain):
    text = "I'm sorry, but rooibos has no caffeine, so it will not keep you awake."
    assert ikat.Answer(scripted(text)[0])(plain)["query"].tolist() == [text]


@pytest.mark.parametrize(
    "operator",
    [
        ikat.Answer(scripted()[0]),
        ikat.ExplodeQueries(),
        ikat.generate.AppendQuery(ikat.RawUtterance()),
    ],
)
def test_a_row_without_a_turn_is_named(operator):
    turns = pd.DataFrame(
        {"qid": ["1", None], "query": ["tea", "oats"], "qsubqueries": [["a"], ["b"]]}
    )
    with pytest.raises(
        ikat.DataError, match="row 1 of the frame has no qid: give every row the qid of its turn"
    ):
        operator(turns)


@pytest.mark.parametrize(
    "make",
    [ikat.Answer, ikat.Rewrite, ikat.MultiQuery, lambda llm: ikat.Queries(llm, given="answer")],
)
def test_an_empty_frame_has_all_columns_and_asks_nothing(turn, make):
    full = turn.assign(qanswer=["Ginger."])
    columns = make(scripted("Fine. 1")[0])(full).columns.tolist()
    silent, backend = scripted()
    empty = make(silent)(full.iloc[:0])
    assert (empty.columns.tolist(), len(empty), backend.asked) == (columns, 0, [])
