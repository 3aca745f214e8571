"""What a request may have, what is read of it, and the limits of a question and a search."""

import pytest
from talking import WHICH_TEA, message_of, says

from pyterrier_ikat.live.serving.replies import Failure
from pyterrier_ikat.live.serving.requests import ChatRequest, Metadata, SearchRequest, read


def asked(*messages, **fields):
    return read(ChatRequest, {"messages": list(messages), **fields})


@pytest.mark.parametrize(
    ("ptkb", "statements"),
    [
        ('{"a": "I run.", "b": " I cook. "}', {"a": "I run.", "b": "I cook."}),
        (' ["I run."]', {"1": "I run."}),
        ("I run.\n\nI cook.", {"1": "I run.", "2": "I cook."}),
        ({}, {}),
        (None, {}),
    ],
)
def test_statements_may_be_json_in_a_text(ptkb, statements):
    assert asked(WHICH_TEA, metadata={"ptkb": ptkb}).metadata.ptkb == statements


@pytest.mark.parametrize("ptkb", ["[x", '{"a": ', '["I run.", " "]', '{"a": 7}', [7], 7])
def test_statements_that_cannot_be_read_are_named(ptkb):
    with pytest.raises(Failure, match=r"metadata\.ptkb") as refused:
        read(ChatRequest, says("Tea?", metadata={"ptkb": ptkb}))
    assert (refused.value.status, refused.value.param[:13]) == (400, "metadata.ptkb")
    assert Metadata(ptkb='\n {"b": "I run."}').ptkb == {"b": "I run."}
    assert Metadata(ptkb="I run.\n \n[x").ptkb == {"1": "I run.", "2": "[x"}


def test_an_empty_metadata_field_says_nothing():
    request = asked(WHICH_TEA, metadata=None)
    assert (request.metadata.ptkb, request.metadata.chat_id, request.ignored) == ({}, "", [])


def test_a_message_has_all_its_parts_of_text():
    def of(content, role="user"):
        return {"role": role, "content": content}

    parts = [{"type": "text", "text": text} for text in ("Which tea?", " Or  mate?")]
    messages = [of(None, "assistant"), of([], "system"), of(parts)]
    request = read(ChatRequest, {"messages": messages, "top_p": 1, "seed": None})
    assert request.said == [of("Which tea?\n Or  mate?")]
    assert request.ignored == ["messages[0] (assistant)", "messages[1] (system)", "top_p"]
    image = [*parts, {"type": "image_url", "image_url": {"url": "http://x"}}]
    with pytest.raises(Failure) as refused:
        read(ChatRequest, {"messages": [of("Hi"), of(image)]})
    assert refused.value.param == "messages.1.content.2.type"
    for body in (b"nonsense", b"[]"):
        with pytest.raises(Failure, match=r"^the body: ") as refused:
            read(ChatRequest, body)
        assert refused.value.param is None


@pytest.mark.parametrize("call", ["tool_calls", "function_call"])
def test_what_an_assistant_says_beside_a_call_is_not_heard(call):
    request = asked(
        WHICH_TEA,
        message_of("assistant", "I look.", **{call: {"name": "x"}}),
        message_of("user", "Hot?"),
    )
    assert [message["content"] for message in request.said] == ["Which tea?", "Hot?"]
    said = asked(
        WHICH_TEA, message_of("assistant", "Mint.", **{call: None}), message_of("user", "Hot?")
    ).said
    assert [message["content"] for message in said] == ["Which tea?", "Mint.", "Hot?"]


@pytest.mark.parametrize(
    "messages",
    [
        [WHICH_TEA, message_of("assistant", "")],
        [WHICH_TEA, message_of("assistant", "Mint.")],
        [WHICH_TEA, message_of("assistant", "Mint."), message_of("user", "  ")],
        [message_of("system", "Be short.")],
    ],
)
def test_the_last_words_are_the_users(messages):
    with pytest.raises(Failure, match="append the question") as refused:
        asked(*messages)
    assert refused.value.param == "messages"
    assert asked(WHICH_TEA, message_of("system", "Be short.")).said == [WHICH_TEA]


@pytest.mark.parametrize("said", ["### Task:\nTags!\n<chat_history>x", "### Task:\nTags!\n"])
def test_a_pages_own_request_has_the_history_in_it(said):
    if "<chat_history>" not in said:
        assert asked(message_of("user", said)).said[-1]["content"] == said.strip()
        return
    with pytest.raises(Failure, match="a chat page's own request"):
        asked(message_of("user", said))
    assert asked(WHICH_TEA, message_of("user", said)).said[-1]["content"] == said


def asked_with(**fields):
    return read(ChatRequest, {"messages": [{"role": "user", "content": "Tea?"}], **fields})


def test_fields_without_effect_are_named():
    message = {"role": "system", "content": "Be short."}
    request = asked_with(
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
        assert asked_with(**fields).said[-1]["content"] == "Tea?"
        return
    with pytest.raises(Failure) as refused:
        asked_with(**fields)
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
