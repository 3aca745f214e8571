"""Structured answers: what a request carries, how the JSON is read, and what a server that can't
serve it leads to.

The server of these tests does as llama.cpp and vLLM do: it writes a JSON object that fits the
schema of the request. What ``transformers serve`` does is recorded below: it ignores the schema and
answers in words.
"""

import json

import pandas as pd
import pytest
from chat_server import Answer, refused, said

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.json_answers import TEXT, WHOLE, answer_in, list_of
from pyterrier_ikat.evaluation import (
    Groundedness,
    Judge,
    PairwisePreference,
    UmbrelaJudge,
    create_nuggets,
)
from pyterrier_ikat.llms import FatalLLMError, Request, StageError
from pyterrier_ikat.llms.failures import NotStructured
from pyterrier_ikat.llms.spec import deciding_options

TURN = ikat.conversation(
    [{"role": "user", "content": "Which tea has no caffeine?"}], ["I own a dog.", "I am vegan."]
)
FOUND = TURN.assign(text="Rooibos has none.").merge(
    pd.DataFrame({"docno": ["a", "b", "c"], "rank": [0, 1, 2], "score": [3.0, 2, 1]}), "cross"
)
TRANSFORMERS_SERVE = (
    b'{"id":"45b55ec3-3964-4c2c-9ad1-beee8c193c59","choices":[{"finish_reason":"stop","index":0,'
    b'"message":{"content":"drink rooibos",'
    b'"role":"assistant"}}],"created":1795407093,"model":"m@main","object":"chat.completion",'
    b'"usage":{"completion_tokens":3,'
    b'"prompt_tokens":4,"total_tokens":7}}'
)
"""What transformers serve answered to a request with a response_format of the type json_schema."""


def answering(server, **values):
    """Lets the server write these values where the schema has them; a request without a schema is
    answered in words."""

    def respond(body):
        if "response_format" not in body:
            return said("Rooibos has none.")
        asked = body["response_format"]
        assert (asked["type"], asked["json_schema"]["strict"]) == ("json_schema", True)
        answer = {}
        for name in asked["json_schema"]["schema"]["properties"]:
            answer[name] = values.get(name, "because")
        return said(json.dumps(answer))

    server.respond = respond


def test_queries(model, server):
    queries = ["rooibos caffeine", "  ", "herbal  tea", "Rooibos caffeine", "No query is needed."]
    answering(server, queries=queries)
    llm = model("structured=on")
    assert ikat.Queries(llm)(TURN)["qsubqueries"].item() == ["rooibos caffeine", "herbal tea"]
    (body,) = server.bodies
    assert body["response_format"]["json_schema"]["name"] == "queries"
    assert body["messages"][-1]["content"].endswith(
        json.dumps(body["response_format"]["json_schema"]["schema"], separators=(",", ":"))
    )


def test_queries_in_a_chat_ask_for_json_in_the_last_message_only(model, server):
    answering(server, queries=["tea"])
    llm = model("structured=on")
    pipeline = ikat.Answer(llm) >> ikat.Queries(llm, given="answer")
    pipeline(TURN)
    answer, queries = server.bodies
    assert "response_format" not in answer
    assert ["JSON" in message["content"] for message in queries["messages"]] == [False, False, True]


@pytest.mark.parametrize(
    ("form", "statements", "expected"),
    [
        ("ids", ["2", "9"], [("2", 1.0)]),
        ("ids", [], []),
        ("copies", ["I am vegan.", "I own a dog."], [("2", 1.0), ("1", 0.5)]),
        (
            "scores",
            [{"id": "1", "score": 0.2}, {"id": "2", "score": 0.9}],
            [("2", 0.9), ("1", 0.2)],
        ),
    ],
)
def test_statements(model, server, form, statements, expected):
    answering(server, statements=statements)
    assert (
        ikat.SelectStatements(model("structured=on"), form)(TURN)["qstatements"].item() == expected
    )


def test_labels_rankings_and_actions(model, server):
    answering(server, label=3, ranking=[3, 1], action="ask", question="Green or black?")
    llm = model("structured=on")
    assert ikat.LLMRerank(llm)(FOUND)["score"].notna().all()
    assert ikat.ListwiseRerank(llm)(FOUND)["docno"].tolist() == ["c", "a", "b"]
    decided = ikat.generate.Decide(llm)(FOUND)
    assert decided[["qaction", "qaskback"]].drop_duplicates().values.tolist() == [
        ["ask", "Green or black?"]
    ]


def test_an_empty_ranking_and_an_action_not_offered_are_failures(model, server):
    answering(server, ranking=[], action="ask", question="Green or black?")
    for operator in (
        ikat.ListwiseRerank(model("structured=on")),
        ikat.generate.Decide(model("structured=on"), may_ask=False),
    ):
        with pytest.raises(StageError, match="isn't the JSON that structured=on asks for"):
            operator(FOUND)


def test_judges(model, server):
    answering(
        server,
        label=3,
        verdict=True,
        better="A",
        nuggets=["No caffeine.", "no caffeine"],
        reason="It says so.",
    )
    llm = model("structured=on")
    pool = FOUND.assign(
        qresolved="Which tea has no caffeine?", qgoldptkb=[["2"]] * 3, gold_answer="Rooibos."
    )
    for judge in (Judge(llm), UmbrelaJudge(llm)):
        assert judge(pool)[["label", "reason"]].values.tolist() == [[3, "It says so."]] * 3
    scales = []
    for body in server.bodies:
        schema = body["response_format"]["json_schema"]["schema"]
        scales.append(schema["properties"]["label"]["enum"])
    # the passages are the same, so that each judge asks once
    assert scales == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]
    responses = TURN.assign(qanswer="Rooibos.", qpassages=[["Rooibos has none."]], other="Mint.")
    [grounded] = Groundedness(llm).judge(responses)
    [preferred] = PairwisePreference(llm, "other").judge(responses)
    assert (grounded.value, grounded.reason, preferred.value) == (1.0, "It says so.", 0.5)


def test_nuggets_and_their_labels(model, server):
    answering(server, nuggets=["No caffeine.", "no caffeine", "Red"], labels=["okay", "vital"])
    pool = FOUND.head(1)
    assert create_nuggets(pool, model("structured=on"))[
        ["nugget", "importance"]
    ].values.tolist() == [
        ["Red", "vital"],
        ["No caffeine", "okay"],
    ]


def test_what_the_user_said(model, server):
    answering(
        server,
        statements=[
            {"message": 1, "words": "Which tea", "statement": "I drink tea.", "replaces": []}
        ],
    )
    assert (
        ikat.generate.UpdatePtkb(model("structured=on"))(TURN)["qptkb"].item()["3"]
        == "I drink tea."
    )


NO_JSON = (
    "1. rooibos caffeine",
    '{"queries": ["a"], "more": 1}',
    '["a"]',
    '{"queries": [1]}',
    '```\n{"queries": ["a"]}\n```',
)


@pytest.mark.parametrize("text", NO_JSON)
def test_anything_but_the_json_is_a_typed_failure_never_text(model, server, text):
    server.respond = lambda body: said(text)
    with pytest.raises(StageError) as raised:
        ikat.Queries(model("structured=on"))(TURN)
    (failure,) = raised.value.failures
    assert isinstance(failure, NotStructured)
    assert "omit structured=on" in str(failure)


def test_a_server_that_ignores_the_schema_is_told_so(model, server):
    server.respond = lambda body: Answer(200, TRANSFORMERS_SERVE)
    with (
        pytest.warns(match="answers instead of"),
        pytest.raises(StageError, match="where the server ignores the schema, omit structured=on"),
    ):
        ikat.Queries(model("structured=on"))(TURN)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this "
            "model.",
        ),
        (400, "response_format: Extra inputs are not permitted"),
        (422, "guided_json is not available"),
        (400, "failed to parse grammar"),
    ],
)
def test_a_refused_schema_ends_the_stage_with_the_servers_error(model, server, status, message):
    server.respond = lambda body: (
        refused(status, message) if "response_format" in body else said("tea")
    )
    with pytest.raises(
        FatalLLMError,
        match=f"does not take a JSON schema for the answers of 'm' .{status}: .*omit structured=on",
    ):
        ikat.Queries(model("structured=on"))(TURN)
    assert server.calls == 1
    assert ikat.Queries(model())(TURN)["qsubqueries"].item() == ["tea"]


def test_another_refusal_is_not_blamed_on_the_schema(model, server):
    server.respond = lambda body: refused(400, "temperature is out of range")
    with pytest.raises(StageError, match="1 BadRequest"):
        ikat.Queries(model("structured=on"))(TURN)


def test_structured_answers_have_own_keys_and_text_shared_ones(model, server):
    answering(server, queries=["tea"])
    on = model("structured=on")
    off = model()
    question = Request([{"role": "user", "content": "tea"}], "queries", "1_1")
    formed = Request(
        question.messages, "queries", "1_1", structure=answer_in("queries", list_of(TEXT))
    )
    assert question.key(on.backend.identity) == question.key(off.backend.identity)
    empty = Request([], "queries", "1_1", structure=formed.structure)
    keys = {request.key(on.backend.identity) for request in (question, formed, empty)}
    assert len(keys) == 3
    other = Request(
        question.messages, "queries", "1_1", structure=answer_in("queries", list_of(WHOLE))
    )
    assert formed.key(on.backend.identity) != other.key(on.backend.identity)
    assert on != off
    assert on.fingerprint()["structured"] == "on"
    assert "structured" not in off.fingerprint() | model("structured=off").fingerprint()
    assert deciding_options("openai:m structured=on") == "openai:m structured=on"
    operator = ikat.Queries(off)
    assert [request.structure for request in operator.requests(TURN)] == [None]


def test_a_plan_reads_structured_answers_from_the_cache(model, server):
    answering(server, queries=["rooibos", "mint"])
    queries = ikat.Queries(model("structured=on"))
    queries(TURN)
    plan = ikat.plan({"q": queries >> ikat.ExplodeQueries()}, TURN)
    assert plan["new"].tolist() == [0]
