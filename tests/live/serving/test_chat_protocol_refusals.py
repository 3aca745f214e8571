"""Requests in OpenAI's chat protocol that can't be served, and bodies of any form."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from talking import says

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object"},
    },
}
REFUSED = [
    (
        says("Which tea?", model="gpt-4"),
        404,
        "model",
        "there is no model 'gpt-4': give one of talks, ranks",
    ),
    (
        says("Which tea?", model="m" * 61),
        404,
        "model",
        f"there is no model '{'m' * 60}': give one of talks, ranks",
    ),
    (
        says("Which tea?", model=None),
        404,
        "model",
        "there is no model 'None': give one of talks, ranks",
    ),
    (says(), 400, "messages", "at least 1 item"),
    (
        says("Hi", "Hello"),
        400,
        "messages",
        "the last message has to be the user's: append the question that is to be answered",
    ),
    (says(" "), 400, "messages", "the last message has to be the user's"),
    (says(*["Hi"] * 1001), 400, "messages", "at most 1000 items"),
    (says("Hi", n=2), 400, "n", "Input should be 1"),
    (
        says("Hi", tools=[TOOL], tool_choice="required"),
        400,
        "tool_choice",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", tool_choice={"type": "function", "function": {"name": "weather"}}),
        400,
        "tool_choice",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", functions=[TOOL["function"]], function_call={"name": "weather"}),
        400,
        "function_call",
        "Input should be 'auto' or 'none'",
    ),
    (
        says("Hi", response_format={"type": "json_object"}),
        400,
        "response_format.type",
        "Input should be 'text'",
    ),
    (says("Hi", modalities=["audio"]), 400, "modalities.0", "Input should be 'text'"),
    (says("Hi", logprobs=True), 400, "logprobs", "Input should be False"),
    (says("Hi", audio={"voice": "x"}), 400, "audio", "Input should be null"),
    (says("Hi", sample=-1), 400, "sample", "greater than or equal to 0"),
    (says("Hi", metadata=[1]), 400, "metadata", "Input should be an object"),
    (says("Hi", metadata={"ptkb": [""]}), 400, "metadata.ptkb.1", "at least 1 character"),
    (
        says("Hi", metadata={"ptkb": "[1]"}),
        400,
        "metadata.ptkb.1",
        "Input should be a valid string",
    ),
    (says("Hi", metadata={"ptkb": ["a"] * 501}), 400, "metadata.ptkb", "at most 500 items"),
    (
        says("Hi") | {"messages": [{"role": "robot", "content": "7"}]},
        400,
        "messages.0.role",
        "Input should be 'user', 'assistant'",
    ),
    (
        says("Hi") | {"messages": [{"role": "tool", "content": "7"}]},
        400,
        "messages",
        "the last message has to be the user's",
    ),
    (
        says("Hi") | {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages.0.content.0.type",
        "be 'text'",
    ),
    ([], 400, None, "the body: Input should be an object"),
    (b"{", 400, None, "the body: Invalid JSON"),
    (b"\xff", 400, None, "the body: Invalid JSON"),
    (b"[" * 3000, 400, None, "the body: Invalid JSON"),
]


@pytest.mark.parametrize(("body", "status", "param", "message"), REFUSED)
def test_a_request_that_cannot_be_served_says_why(client, body, status, param, message):
    found, answer = client.chat(body)
    assert (found, answer["error"]["param"]) == (status, param)
    assert message in answer["error"]["message"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
message = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool"]) | values,
        "content": values,
        "tool_calls": values,
    },
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("talks") | values,
        "messages": st.lists(message | values, max_size=4) | values,
        "stream": values,
        "metadata": st.fixed_dictionaries({"ptkb": values}) | values,
        "queries": st.lists(st.text(max_size=5), max_size=3) | values,
        "k": values,
        "tools": values,
        "tool_choice": st.fixed_dictionaries(
            {"type": st.just("allowed_tools"), "allowed_tools": values}
        )
        | values,
    },
)


@example(
    "/v1/chat/completions",
    {"model": "talks", "messages": [{"role": "user", "content": "\ud800\x00"}]},
)
@given(st.sampled_from(["/v1/chat/completions", "/search"]), bodies | values)
def test_no_body_makes_the_server_fail(client, path, body):
    status, _, content = client.ask("POST", path, body)
    assert status in (200, 400, 404, 413)
    if status != 200:
        assert json.loads(content)["error"].keys() == {"message", "type", "param", "code"}
