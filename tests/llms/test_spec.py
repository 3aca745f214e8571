"""The line that names a model: what it parses to, what it refuses, what it shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import LLM, Ledger, Request, llm
from pyterrier_ikat.llms.spec import deciding_options, parse


def test_names_with_dots_slashes_colons_and_urls_with_equals():
    spec = parse(
        "openai:meta-llama/Llama-3.1:8b temperature=0 base_url=http://localhost:8000/v1/a=b "
        "budget=5 price_in=2.5 price_out=10"
    )
    assert (spec.provider, spec.name) == ("openai", "meta-llama/Llama-3.1:8b")
    assert spec.options == {
        "temperature": 0.0,
        "base_url": "http://localhost:8000/v1/a=b",
        "budget": 5.0,
        "price_in": 2.5,
        "price_out": 10.0,
    }
    assert llm("openai:m base_url=http://[::1]:8000/v1/").backend.url == "http://[::1]:8000/v1"


def test_the_least_that_every_kind_of_number_may_be():
    options = parse(
        "openai:m temperature=0 seed=0 retries=0 max_tokens=1 top_k=1 on_error=fallback "
        "api_key_env=MY_KEY"
    ).options
    assert options == {
        "temperature": 0.0,
        "seed": 0,
        "retries": 0,
        "max_tokens": 1,
        "top_k": 1,
        "on_error": "fallback",
        "api_key_env": "MY_KEY",
    }
    assert parse("hf:m top_p=0.5 seed=7 batch_size=2").options == {
        "top_p": 0.5,
        "seed": 7,
        "batch_size": 2,
    }


def test_quotes_hold_spaces_together():
    assert parse("hf:'/my models/m' device=cpu").name == "/my models/m"
    assert repr(llm("hf:'/my models/m' device=cpu")) == "ikat.llm(\"'hf:/my models/m' device=cpu\")"
    assert eval(
        repr(llm("hf:'/my models/m'")), {"ikat": __import__("types").SimpleNamespace(llm=llm)}
    ) == llm("hf:'/my models/m'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("opnai:gpt-4o", "unknown LLM 'opnai': did you mean openai? it is named openai:MODEL"),
        (
            "openai:m temprature=0",
            "unknown LLM option 'temprature': did you mean temperature? openai knows base_url",
        ),
        (
            "gpt-4o",
            "unknown LLM 'gpt-4o': it is named openai:MODEL, hf:MODEL_OR_FOLDER, recorded:FILE",
        ),
        ("azure:x", "unknown LLM 'azure'"),
        ("openai:", "unknown LLM 'openai'"),
        ("openai", "unknown LLM 'openai'"),
        ("http://host/v1", "such as base_url=ADDRESS"),
        ("", "empty or has an open quote"),
        ("openai:'x", "empty or has an open quote"),
        (
            "openai:m api_key=x",
            "a key does not belong in code or on a command line: put it in a variable and give "
            "api_key_env=",
        ),
        (
            "openai:m warmth=1",
            "unknown LLM option 'warmth': openai knows base_url, api_key_env, structured, timeout, "
            "concurrency, temperature, top_p",
        ),
        ("hf:m base_url=http://x", "unknown LLM option 'base_url': hf knows temperature"),
        ("recorded:f temperature=1", "recorded knows on_error"),
        (
            "recorded:f on_error=raise fallback",
            "the options of an LLM are key=value with the keys on_error",
        ),
        (
            "recorded:f http://host/v1?a=b",
            "the options of an LLM are key=value with the keys on_error",
        ),
        ("openai:m on_error=hope", "on_error is wrong: give raise or fallback"),
        ("openai:m seed=1 temperature=0 seed=2", "the LLM option seed is given twice: omit one"),
        ("openai:m temperature=warm", "temperature is wrong: give a number from 0"),
        ("openai:m temperature=nan", "a number from 0"),
        ("openai:m temperature=-1", "a number from 0"),
        ("openai:m budget=inf", "a number from 0"),
        ("openai:m max_tokens=0", "a whole number from 1"),
        ("openai:m max_tokens=1.5", "a whole number from 1"),
        ("openai:m seed=-1", "a whole number from 0"),
        ("openai:m base_url=localhost:8000", "the address of a server is http://HOST:PORT/PATH"),
        ("openai:m base_url=ftp://host/v1", "the address of a server is http://HOST:PORT/PATH"),
        (
            "openai:m base_url=http://host:port/v1",
            "the address of a server is http://HOST:PORT/PATH",
        ),
        ("openai:m budget=5", "a budget needs prices, as price_cached does: add price_in"),
        ("openai:m budget=5 price_in=1", "a budget needs prices"),
    ],
)
def test_what_is_not_understood_says_what_is_valid(text, message):
    with pytest.raises(UsageError) as raised:
        llm(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "openai:m api_key=sk-planted",
        "openai:m sk-planted",
        "openai:m token=sk-planted",
        "recorded:f sk-planted",
    ]
    + ["openai:m api_key_env=sk-planted", "openai:m timeout=http://me:sk-planted@host/v1"]
    + [
        "openai:m base_url=http://me:sk-planted@host/v1",
        "openai:m base_url=http://host/v1?api-key=sk-planted",
    ],
)
def test_a_key_in_the_line_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as raised:
        llm(text)
    assert "planted" not in str(raised.value)
    assert "api_key=" not in text or "api_key_env" in str(raised.value)


def test_a_slash_at_the_end_names_the_same_server():
    assert llm("openai:m base_url=https://api.openai.com/v1/") == llm(
        "openai:m base_url=https://api.openai.com/v1"
    )


def test_a_local_model_is_known_by_its_whole_path(tmp_path, monkeypatch):
    made = []
    for name in ("one", "two"):
        (tmp_path / name / "model").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        made.append(llm("hf:model"))
    assert made[0] != made[1]
    assert made[1] == llm(f"hf:{tmp_path}/two/model")
    assert made[0].model == "model"
    assert llm("hf:org/name").backend.identity["model"] == "org/name"


def test_equal_when_they_answer_alike(tmp_path):
    same = [
        llm("openai:m seed=1 timeout=5", ledger=Ledger()),
        llm("openai:m concurrency=2 cache=none seed=1"),
    ]
    assert same[0] == same[1]
    assert len({*same}) == 1
    others = [
        llm("openai:m"),
        llm("openai:n seed=1"),
        llm("hf:m seed=1"),
        llm("openai:m seed=1 base_url=http://x/v1"),
    ]
    assert all(other != same[0] for other in others)
    assert same[0] != "openai:m seed=1"


def test_a_model_passes_through_and_other_things_are_refused():
    made = llm("openai:m")
    assert llm(made) is made
    assert llm(made, ledger=made.ledger) is made
    with pytest.raises(
        UsageError,
        match=r"ikat.llm\('openai:m'\) counts in a ledger already: give ledger= where it is made",
    ):
        llm(made, ledger=Ledger())
    assert isinstance(made, LLM)
    with pytest.raises(
        UsageError, match=r"5 is not a language model: give .* an object with \.generate"
    ):
        llm(5)


@given(st.text())
def test_any_text_parses_or_is_refused_with_the_typed_error(text):
    try:
        spec = parse("openai:m " + text)
    except UsageError:
        return
    assert parse(spec.shown).options.keys() == spec.options.keys()


def test_a_local_model_trained_on_in_its_folder_is_another_one(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before, same = (llm(f"hf:{tmp_path} cache=none").backend.identity for _ in range(2))
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    after = llm(f"hf:{tmp_path} cache=none").backend.identity
    assert before == same
    assert Request([], "rewrite", "1_1").key(before) != Request([], "rewrite", "1_1").key(after)


PATHS = {
    "timeout=7": ("backend.timeout", 7),
    "concurrency=3": ("backend.concurrency", 3),
    "api_key_env=MINE": ("backend.api_key_env", "MINE"),
    "structured=on": ("structured", True),
    "structured=off": ("structured", False),
    "retries=2": ("retry.tries", 3),
    "retries=0": ("retry.tries", 1),
    "on_error=fallback": ("on_error", "fallback"),
    "price_in=2": ("budget.price_in", 2),
    "price_out=3": ("budget.price_out", 3),
    "price_in=2 price_out=3 price_cached=1": ("budget.price_cached", 1),
    "price_in=2 price_out=3 budget=0.5": ("budget.limit", 0.5),
    "price_in=2 price_out=3 batch=on": ("budget.price_out", 1.5),
    "price_in=2 price_out=3 batch=off": ("budget.price_out", 3),
    "batch=on": ("batches", True),
    "cache=none": ("cache", None),
    "temperature=0.5": ("backend.identity", {"params": {"temperature": 0.5}}),
    "frequency_penalty=-2": ("backend.identity", {"params": {"frequency_penalty": -2}}),
    "frequency_penalty=2": ("backend.identity", {"params": {"frequency_penalty": 2}}),
    "top_k=4 top_p=1 max_tokens=9 seed=0": (
        "backend.identity",
        {"params": {"top_k": 4, "top_p": 1, "max_tokens": 9, "seed": 0}},
    ),
    "reasoning='<ponder> </ponder> [t] [/t]'": (
        "backend.reasoning",
        (("<ponder>", "</ponder>"), ("[t]", "[/t]")),
    ),
}


@pytest.mark.parametrize("option", PATHS)
def test_each_option_reaches_what_it_is_about(option):
    value = llm(f"openai:m {option}")
    path, expected = PATHS[option]
    for name in path.split("."):
        value = getattr(value, name)
    if isinstance(expected, dict):
        value = {name: value[name] for name in expected}
    assert value == expected


@pytest.mark.parametrize("penalty", ["-2.1", "2.1", "nan"])
def test_a_penalty_is_between_minus_two_and_two(penalty):
    with pytest.raises(UsageError, match="a number from -2 to 2"):
        llm(f"openai:m frequency_penalty={penalty}")


@pytest.mark.parametrize("marks", ["''", "'<a> </a> <b>'", "'ab cd'", "'<a '", "'think /think>'"])
def test_marks_of_reasoning_are_pairs_of_signs(marks):
    with pytest.raises(UsageError, match="the opening and the closing mark"):
        llm(f"openai:m reasoning={marks}")


@pytest.mark.parametrize(
    ("spec", "deciding"),
    [
        (
            "openai:m temperature=0 timeout=5 concurrency=2 retries=1 cache=x api_key_env=K "
            "on_error=fallback budget=1 price_in=1 price_out=1 price_cached=1 batch=on",
            "openai:m temperature=0",
        ),
        ("hf:m device=cpu batch_size=2 seed=1", "hf:m seed=1"),
        (
            "openai:m base_url=http://x/v1 structured=on",
            "openai:m base_url=http://x/v1 structured=on",
        ),
        ("openai:m reasoning='<p> </p>'", "openai:m 'reasoning=<p> </p>'"),
    ],
)
def test_options_that_decide_no_answer_are_left_out(spec, deciding):
    assert deciding_options(spec) == deciding


def test_a_recording_is_kept_nowhere_an_object_in_this_process():
    assert llm("recorded:sample").cache is None

    class Model:
        def generate(self, chats):
            return ["fine" for _ in chats]

    ledger = Ledger()
    made = llm(Model(), ledger=ledger, retries=1, price_in=1, price_out=2, on_error="fallback")
    assert (made.cache.path, made.retry.tries, made.on_error) == (":memory:", 2, "fallback")
    assert (made.ledger, made.budget.price_out) == (ledger, 2)
    assert llm("openai:m", ledger=ledger).ledger is ledger


@pytest.mark.parametrize("cache", ["none", ":memory:"])
def test_batches_need_a_file_that_keeps_them(cache):
    with pytest.raises(UsageError, match="batch=on needs a cache file"):
        llm(f"openai:m batch=on cache={cache}")
