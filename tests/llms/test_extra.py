"""The option body: fields of a request that the package doesn't know."""

import json
import pickle

import pytest
from chat_server import ask
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms.extra import as_json, body_of
from pyterrier_ikat.llms.spec import deciding_options

QWEN = {
    "chat_template_kwargs": {"enable_thinking": False},
    "reasoning": {"effort": "low", "exclude": True},
}


def test_the_fields_are_sent_as_they_are(model, server):
    model("temperature=0 cache=none", body=QWEN).ask(ask("a"))
    assert server.bodies[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0.0,
        "chat_template_kwargs": {"enable_thinking": False},
        "reasoning": {"effort": "low", "exclude": True},
    }


def test_both_spellings_are_one_model_with_one_cache(model, server):
    other_order = {name: QWEN[name] for name in reversed(QWEN)}
    made = [
        model(body=QWEN),
        model(body=other_order),
        model(f"body='{json.dumps(QWEN)}'"),
        model(f"body='{json.dumps(other_order, indent=1)}'"),
    ]
    assert len({repr(one) for one in made}) == 1
    assert len({deciding_options(one.spec) for one in made}) == 1
    for one in made:
        assert one == made[0]
        assert hash(one) == hash(made[0])
        one.ask(ask("a"))
    assert server.calls == 1


def test_another_body_or_none_is_another_model(model, server):
    for one in (
        model(),
        model(body={"reasoning_effort": "low"}),
        model(body={"reasoning_effort": "high"}),
    ):
        one.ask(ask("a"))
    assert server.calls == 3
    assert model() != model(body={"reasoning_effort": "low"})
    assert model() == model(body={})
    model(body={}).ask(ask("a"))
    assert server.calls == 3


def test_its_text_makes_the_same_model_also_in_another_process(model):
    made = model(body={"user": "it's \u2028 “me”", "a": [1, None, True]})
    again = eval(repr(made), {"ikat": ikat})
    assert again == made == pickle.loads(pickle.dumps(made))
    assert again.backend.body(ask("a")[0])["user"] == "it's \u2028 “me”"


TEXTS = st.text(st.sampled_from("aü \u2028'\"\\{}=$"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(st.dictionaries(TEXTS, JSON))
def test_any_json_comes_back_from_the_text(body):
    made = ikat.llm("openai:m cache=none", body=body)
    assert eval(repr(made), {"ikat": ikat}).backend.more == body


OWNED = [
    "model",
    "messages",
    "stream",
    "n",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "response_format",
    "stream_options",
    "top_k",
    "frequency_penalty",
    "extra_body",
]


@pytest.mark.parametrize("name", OWNED)
def test_fields_that_the_package_sets_are_refused(name):
    for make in (
        lambda: ikat.llm("openai:m", body={name: 1}),
        lambda: ikat.llm(f"openai:m body='{{\"{name}\": 1}}'"),
    ):
        with pytest.raises(UsageError, match=f"'{name}' can't stand in body"):
            make()


@pytest.mark.parametrize(
    "body",
    [
        {"api_key": "planted"},
        {"apiKey": "planted"},
        {"headers": {"Authorization": "planted"}},
        {"extra": [{"x-api-key": "planted"}]},
        {"token": "planted"},
        {"provider": {"access_token": "planted"}},
        {"note": "Bearer planted"},
        {"note": "sk-planted"},
    ],
)
def test_a_key_is_refused_and_not_shown(body):
    with pytest.raises(UsageError, match="api_key_env=VARIABLE") as raised:
        ikat.llm("openai:m", body=body)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "budget_tokens",
        "thinking_tokens",
        "monkey",
        "key_points",
        "logprobs",
        "prompt_cache_key",
        "tokenizer",
    ],
)
def test_a_harmless_name_is_no_key(name):
    assert ikat.llm("openai:m", body={"thinking": {name: 1}}).backend.more == {
        "thinking": {name: 1}
    }


@pytest.mark.parametrize(
    "text", ["{", "[1]", "low", '"low"', "", '{"a": NaN}', '{"a": 1, "a": 2}', "null"]
)
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(UsageError, match="body is wrong: give a JSON object"):
        ikat.llm(f"openai:m body='{text}'")


@pytest.mark.parametrize("body", [{"a": float("nan")}, {"a": {1, 2}}, [1], "x"])
def test_what_is_no_json_value_is_refused(body):
    with pytest.raises(UsageError, match="body is wrong: give a JSON object"):
        ikat.llm("openai:m", body=body)


@pytest.mark.parametrize("given", ["hf:m", "recorded:sample"])
def test_other_models_have_no_body(given):
    with pytest.raises(UsageError, match="unknown LLM option 'body'"):
        ikat.llm(given, body={"a": 1})


def test_it_is_given_once():
    with pytest.raises(UsageError, match="body is given twice"):
        ikat.llm("""openai:m body='{"a": 1}'""", body={"a": 1})


def test_the_fields_of_a_body_are_what_its_json_says():
    assert body_of('{"b": {"c": [1, "x"]}, "a": null}') == {"b": {"c": [1, "x"]}, "a": None}
    assert body_of({}) == {}
    assert as_json({"b": 1, "a": "é"}) == '{"a": "é", "b": 1}'
    deep = []
    deep.append(deep)
    for wrong in (
        {"a": deep},
        '{"a": ' + "[" * 100_000,
        {"a": object()},
        {"b": {"a": float("inf")}},
    ):
        with pytest.raises(UsageError, match="body is wrong"):
            body_of(wrong)


@pytest.mark.parametrize(
    "text", ['{"x": {"a": 1, "a": 1}}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1} x']
)
def test_repeats_and_no_numbers_are_refused_at_any_depth(text):
    with pytest.raises(UsageError, match="body is wrong"):
        body_of(text)


def test_the_first_field_that_is_set_elsewhere_is_named():
    with pytest.raises(UsageError, match="'top_p' can't stand in body: give top_p=..."):
        body_of({"top_p": 1, "response_format": {}})
    assert body_of({"inner": {"model": "m", "n": 2}}) == {"inner": {"model": "m", "n": 2}}


@pytest.mark.parametrize(
    "text", ["Basic x", "bearer x", "gsk_x", "xai-x", "hf_x", "pk-x", "rk_x", "AIzax"]
)
def test_a_text_that_begins_as_a_key_does_is_refused(text):
    for body in ({"a": text}, {"a": [{"b": [text]}]}):
        with pytest.raises(UsageError, match="a text in body looks like a key") as raised:
            body_of(body)
        assert text not in str(raised.value)
    assert body_of({"a": f"no {text}"}) == {"a": f"no {text}"}


@pytest.mark.parametrize(
    "name",
    ["access-key", "auth_tokens", "secretkey", "private_key", "subscription-key", "x_session_token"]
    + ["key", "X-Token", "authorisation", "db_password", "passwd", "my_credential_id", "Bearer"],
)
def test_a_name_of_a_secret_is_refused_at_any_depth(name):
    with pytest.raises(UsageError, match="a key does not belong in body"):
        body_of({"a": [{name: 1}]})


@pytest.mark.parametrize(
    "body",
    [
        {"a": {"b": [1, "fine"]}, "c": "sk-x"},
        {"a": ["fine", {"b": 1}, "sk-x"]},
        {"a": [["fine"], ["sk-x"]]},
        {"a": {"b": {}}, "c": {"password": 1}},
        {"a": [{"b": 1}, {"b": 1, "password": 1}]},
    ],
)
def test_a_key_behind_harmless_fields_is_refused(body):
    with pytest.raises(UsageError, match="api_key_env=VARIABLE"):
        body_of(body)
