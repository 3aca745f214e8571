"""The parts of replies: content, passages, links, tokens, failures, and models described."""

import json
import logging
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import FINDS, THREE_PASSAGES, Talks

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.live.answering import StillTooLong
from pyterrier_ikat.live.serving.replies import (
    ChatReply,
    Failure,
    about,
    annotations,
    citations,
    content_of,
    failure_of,
    link_title,
    model_object,
    title_of,
    url_of,
    usage,
    why_changed,
    without_additions,
)
from pyterrier_ikat.live.serving.service import open_served
from pyterrier_ikat.llms import BudgetExceeded, Ledger, StageError
from pyterrier_ikat.llms.failures import Refused, Unavailable
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.methods.catalogue import METHODS
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.runs.answered_turn import ShownPassage
from pyterrier_ikat.study.systems import System

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


def test_one_model_that_is_down_is_worth_another_try(caplog):
    failures = [Refused("answer", "1", "No xyzzy."), Unavailable("answer", "2", "it is down")]
    with caplog.at_level("ERROR", "pyterrier_ikat.live.serving"):
        failure = failure_of(StageError("answer", failures))
    assert (failure.status, failure.code) == (503, "llm_unavailable")
    assert "stage answer: Refused, it is down" in caplog.text
    assert failure_of(StageError("answer", failures[:1])).status == 502


def test_a_link_begins_where_its_passage_is_first_cited():
    turn = Turn(1, "?", "A. B. C.", THREE_PASSAGES)
    links = [link["url_citation"] for link in annotations(turn, "A [2]. B [1]. C [2][1].", None)]
    places = [(link["start_index"], link["end_index"], link["title"]) for link in links]
    assert places == [(9, 12, "d1"), (2, 5, "d2"), (0, 3, "d3")]


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_titles_of_links_are_short_and_whole(text):
    title = link_title(ShownPassage("d1", text))
    line = " ".join(text.strip().partition("\n")[0].split())
    assert 0 < len(title) <= 30
    assert title == "d1" or line.startswith(title)


def test_a_fault_is_logged_with_its_innermost_places_first(caplog):
    def inner(depth):
        if not depth:
            raise KeyError("secret words")
        inner(depth - 1)

    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        try:
            inner(9)
        except KeyError as error:
            failure = ikat.live.serving.replies.failure_of(error)
    assert (failure.status, failure.code) == (500, "internal_error")
    [line] = caplog.messages
    assert line.startswith("unexpected KeyError in inner (")
    places = [re.search(":([0-9]+)\\)", place)[1] for place in line.split(" < ")]
    assert len(places) == 6
    assert places[0] != places[1] == places[2] == places[5]
    assert "secret" not in line
    caplog.clear()
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        assert ikat.live.serving.replies.failure_of(IkatError("it broke")).code == "system_failed"
    assert caplog.messages == ["it broke"]


# Models described


def test_a_system_is_described_by_one_sentence_in_plain_words():
    described = {name: about(System(method, FINDS)) for name, method in METHODS.items()}
    assert not [one for one in described.values() if re.search(r"(?i)section|table \d|`", one)]
    for one in described.values():
        assert ". " not in one
        assert one.endswith(".")
    assert described["aqd"] == (
        "AQD: the LLM's answer, up to n queries for it, their results interleaved."
    )
    assert (
        about(System.of(ikat.Answer(ikat.llm("recorded:sample")))) == "Works by drafting an answer."
    )


def conversation_of(words):
    return SimpleNamespace(turns=[SimpleNamespace(utterance=words)])


def test_a_model_is_described_with_three_of_its_examples(sample_index):
    model = ikat.llm("recorded:sample")
    pipeline = ikat.Answer(model) >> ikat.PassageIndex(sample_index).bm25()
    opened = open_served({"mine": pipeline}, Ledger())
    described = model_object(opened["mine"], 7)
    first = [chat.turns[0].utterance for chat in ikat.dataset("ikat:sample").conversations]
    assert described["examples"] == list(dict.fromkeys(first))[:3]
    chats = tuple(conversation_of(words) for words in ("a", "b", "a", "c", "d"))
    assert model_object(replace(opened["mine"], recorded=chats), 7)["examples"] == ["a", "b", "c"]
    assert (described["id"], described["created"], described["object"]) == ("mine", 7, "model")
    assert described["search"]["bm25"] is True
    assert model_object(System.of(Talks(), "talks"), 7)["examples"] == []
