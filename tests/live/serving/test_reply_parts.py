"""The parts of replies and the limits of requests, without a server."""

import json

import pytest

from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.live.answering import StillTooLong
from pyterrier_ikat.live.serving.replies import (
    ChatReply,
    Failure,
    annotations,
    as_html,
    citations,
    content_of,
    failure_of,
    link_title,
    title_of,
    url_of,
    usage,
    why_changed,
    without_additions,
)
from pyterrier_ikat.live.serving.requests import ChatRequest, SearchRequest, read
from pyterrier_ikat.live.serving.service import safe_name
from pyterrier_ikat.llms import BudgetExceeded, StageError
from pyterrier_ikat.llms.failures import Refused, Unavailable
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import ShownPassage, Turn

SOURCES = (ShownPassage("d 1", "Rooibos is red.", 2.5, "https://d1"), ShownPassage("d2", "", None))


@pytest.mark.parametrize(
    ("turn", "content"),
    [
        (Turn(1, "?", "Tea.", SOURCES), "Tea.\n\nSources: [1][2]"),
        (Turn(1, "?", "Tea.", SOURCES, cited=(CitedSentence("Tea.", (2,)),)), "Tea. [2]"),
        (Turn(1, "?", "Tea.", SOURCES, cited=()), "Tea."),
        (Turn(1, "?", "Tea."), "Tea."),
        (Turn(1, "?", ""), "(No passage was found.)"),
        (
            Turn(1, "?", "", SOURCES),
            "(This method writes no response. Its best passages:)\n\n[1] Rooibos is red.\n\n[2] d2",
        ),
    ],
)
def test_what_a_client_gets_is_no_part_of_the_history(turn, content):
    assert content_of(turn) == content
    assert without_additions(content) == turn.response


def test_passages_have_their_own_addresses_or_the_servers():
    def address(docno):
        return f"https://here/{docno}"

    assert [url_of(source, address) for source in SOURCES] == ["https://d1", "https://here/d2"]
    assert [url_of(source, None) for source in SOURCES] == ["https://d1", "urn:passage:d2"]
    assert url_of(ShownPassage("d 1"), None) == "urn:passage:d%201"
    turn = Turn(1, "?", "Tea.", SOURCES)
    first, second = citations(turn, address)
    assert first == {
        "id": "d 1",
        "title": "Rooibos is red.",
        "text": "Rooibos is red.",
        "score": 2.5,
        "url": "https://d1",
    }
    assert (second["title"], second["score"], second["url"]) == ("d2", None, "https://here/d2")
    links = [link["url_citation"] for link in annotations(turn, "Tea. [2] [1]", address)]
    assert [(link["start_index"], link["end_index"]) for link in links] == [(9, 12), (5, 8)]
    assert [(link["url"], link["title"]) for link in links] == [
        ("https://d1", "Rooibos is red."),
        ("https://here/d2", "d2"),
    ]
    [link] = annotations(Turn(1, "?", "Tea.", SOURCES[:1]), "Tea.", None)
    assert link["url_citation"]["start_index"] == 0


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("x" * 70, "x" * 70),
        ("x" * 71, "x" * 70 + " ..."),
        ("word " * 13 + "tea ty", "word " * 13 + "tea ..."),
        ("", "d1"),
    ],
)
def test_a_title_has_seventy_characters_of_whole_words(text, title):
    assert title_of(ShownPassage("d1", text)) == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("x" * 30, "x" * 30),
        ("x" * 31, "x" * 30),
        ("x" * 30 + " tea", "x" * 30),
        ("x" * 26 + " tea tea", "x" * 26 + " tea"),
        ("  Red \t tea \nis a plant", "Red tea"),
        (" ", "d1"),
    ],
)
def test_the_title_of_a_link_has_thirty_characters(text, title):
    assert link_title(ShownPassage("d1", text)) == title


@pytest.mark.parametrize(
    ("spend", "expected"),
    [
        (Spend(1, prompt_tokens=8, completion_tokens=4), (8, 4, 12)),
        (Spend(), (0, 0, 0)),
        (Spend(1, prompt_tokens=None, completion_tokens=4), None),
        (Spend(1, prompt_tokens=8, completion_tokens=None), None),
    ],
)
def test_unknown_tokens_are_not_0(spend, expected):
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert usage(spend) == (None if expected is None else dict(zip(names, expected, strict=True)))


def test_a_changed_text_takes_back_what_was_sent():
    reply = ChatReply("raw")

    def parts(text, sent):
        chunks = reply.text(text, sent, "why")
        return [(chunk["choices"][0]["delta"], chunk.get("ikat")) for chunk in chunks]

    assert parts("Tea.", "") == [({"content": "Tea."}, None)]
    assert parts("Tea. Or mint.", "Tea.") == [({"content": " Or mint."}, None)]
    assert parts("Tea.", "Tea.") == []
    assert parts("Mint.", "Tea.") == [({}, {"replaced": "why"}), ({"content": "Mint."}, None)]
    assert parts("", "Tea.") == [({}, {"replaced": "why"})]


def test_the_last_part_says_whether_what_was_sent_is_replaced():
    more = {"replaced": "checked", "saved": True, "shortened": 200}
    turn = Turn(1, "?", "Tea.", SOURCES[:1], more=more, spend=Spend(1, cost=0.5))
    reply = ChatReply("raw", ["temperature"])
    for sent, replaced in (("Te", ""), ("", ""), ("Mint", "checked")):
        end = reply.end(turn, sent)
        assert end["ikat"]["replaced"] == replaced
        assert end["choices"][0]["finish_reason"] == "stop"
    facts = end["ikat"]
    assert (facts["saved"], facts["shortened"], facts["ignored"]) == (True, 200, ["temperature"])
    assert (facts["calls"], facts["cost"], facts["response"]) == (1, 0.5, "Tea.")
    assert {end["id"], reply.completion(turn)["id"], reply.usage(turn)["id"]} == {reply.id}
    assert reply.usage(turn)["choices"] == []
    assert ChatReply("raw").id != reply.id


def test_why_a_response_differs_is_told():
    for more, why in [
        ({"shortened": 1}, "shortened to 1 word"),
        ({"shortened": 200, "replaced": "x"}, "shortened to 200 words"),
        ({"replaced": "its check failed"}, "its check failed"),
        ({}, ""),
    ]:
        assert why_changed(Turn(1, "?", "Tea.", more=more)) == why


def test_a_line_of_an_answer_stays_a_line():
    assert as_html(Turn(1, "?", "One\nTwo")) == "<p>One<br />\nTwo</p>\n"


def test_long_answers_are_shown_as_they_are():
    assert "<strong>" in as_html(Turn(1, "?", "**tea** " + "x" * 49_000))
    long = as_html(Turn(1, "?", "**tea** <b>" + "x" * 50_000))
    assert long.startswith("<p>**tea** &lt;b&gt;")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Failure(418, "short", code="pot"), 418, "pot"),
        (StillTooLong("prompt"), 400, "context_length_exceeded"),
        (BudgetExceeded(spent=1.0, budget=1.0), 402, "budget_exceeded"),
        (KeyError("a secret"), 500, "internal_error"),
    ],
)
def test_a_failure_has_its_status_and_word(error, status, code):
    failure = failure_of(error)
    assert (failure.status, failure.code) == (status, code)
    assert failure.record["error"]["code"] == code
    assert "secret" not in json.dumps(failure.record)


# Requests


def asked(**fields):
    return read(ChatRequest, {"messages": [{"role": "user", "content": "Tea?"}], **fields})


def test_fields_without_effect_are_named():
    message = {"role": "system", "content": "Be short."}
    request = asked(
        messages=[message, {"role": "user", "content": " Tea? "}],
        temperature=1,
        top_p=None,
        metadata={"ptkb": ["I ski."], "chat_id": "a", "theme": "dark"},
    )
    assert request.said == [{"role": "user", "content": "Tea?"}]
    assert sorted(request.ignored) == ["messages[0] (system)", "metadata.theme", "temperature"]
    assert (request.metadata.ptkb, request.metadata.chat_id) == ({"1": "I ski."}, "a")
    assert (request.stream, request.stream_unchecked, request.sample) == (False, False, 0)


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [
        ({"sample": 1000}, True),
        ({"sample": 1001}, False),
        ({"sample": -1}, False),
        ({"messages": []}, False),
        ({"messages": [{"role": "user", "content": "Tea?"}] * 1000}, True),
        ({"messages": [{"role": "user", "content": "Tea?"}] * 1001}, False),
        ({"n": 1}, True),
        ({"n": 2}, False),
        ({"metadata": {"ptkb": ["I ski."] * 500}}, True),
        ({"metadata": {"ptkb": ["I ski."] * 501}}, False),
        ({"tool_choice": "none"}, True),
        ({"tool_choice": "required"}, False),
        ({"logprobs": True}, False),
    ],
)
def test_the_limits_of_a_question(fields, is_read):
    if is_read:
        assert asked(**fields).said[-1]["content"] == "Tea?"
        return
    with pytest.raises(Failure) as refused:
        asked(**fields)
    assert refused.value.status == 400
    assert refused.value.param.partition(".")[0] == next(iter(fields))


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [
        ({"query": "tea", "k": 10_000}, True),
        ({"query": "tea", "k": 10_001}, False),
        ({"query": "tea", "k": 0}, False),
        ({"queries": ["tea"] * 64, "k": 1000}, True),
        ({"queries": ["tea"] * 64, "k": 1001}, False),
        ({"queries": ["tea"] * 65, "k": 1}, False),
        ({"queries": [""], "k": 1}, True),
        ({"query": " "}, False),
        ({"query": "tea", "queries": ["tea"]}, False),
        ({}, False),
        ({"query": "tea", "depth": 5}, False),
    ],
)
def test_the_limits_of_a_search(fields, is_read):
    if is_read:
        request = read(SearchRequest, fields)
        assert request.every_query == fields.get("queries", ["tea"])
        return
    with pytest.raises(Failure):
        read(SearchRequest, fields)


def test_a_search_has_ten_passages_with_texts_by_default():
    request = read(SearchRequest, {"query": "tea"})
    assert (request.k, request.texts, request.k1, request.b) == (10, True, None, None)


def test_one_model_that_is_down_is_worth_another_try(caplog):
    failures = [Refused("answer", "1", "No xyzzy."), Unavailable("answer", "2", "it is down")]
    with caplog.at_level("ERROR", "pyterrier_ikat.live.serving"):
        failure = failure_of(StageError("answer", failures))
    assert (failure.status, failure.code) == (503, "llm_unavailable")
    assert "stage answer: Refused, it is down" in caplog.text
    assert failure_of(StageError("answer", failures[:1])).status == 502


def test_half_a_character_in_a_name_is_saved_under_another():
    assert safe_name("\ud800a") != safe_name("\ud801a")
