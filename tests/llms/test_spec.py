"""The line that names a model: what it parses to, what it refuses, what it shows."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import LLM, Backend, Ledger, Request, llm
from pyterrier_ikat.llms.recorded import RecordedBackend, StudyBackend
from pyterrier_ikat.llms.spec import deciding_options, parse, with_body


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
    before = llm(f"hf:{tmp_path} cache=none").backend.identity
    same = llm(f"hf:{tmp_path} cache=none").backend.identity
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
    "price_in=2 price_out=3 budget=0": ("budget.limit", 0),
    "price_in=2 price_out=3 batch=off": ("budget.price_out", 3),
    "price_in=2 price_out=3 price_cached=1 batch=on": ("budget.price_cached", 0.5),
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


@pytest.mark.parametrize(
    "marks", ["''", "'<> ><'", "'<a> </a> <b>'", "'ab cd'", "'<a '", "'think /think>'"]
)
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("openai:m   seed=1", "openai:m seed=1"),
        ("openai:m body='{}' seed=1", "openai:m seed=1"),
        (
            """openai:m body='{"b":1,"a":"x y"}' seed=1""",
            """openai:m 'body={"a": "x y", "b": 1}' seed=1""",
        ),
        ("hf:'my model' device='a b'", "'hf:my model' 'device=a b'"),
    ],
)
def test_what_is_shown_of_a_line_makes_the_same_model(text, shown):
    spec = parse(text)
    assert spec.shown == shown
    options = {name: value for name, value in spec.options.items() if value != {}}
    assert parse(shown).options == options


def test_a_name_with_a_tilde_is_in_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert parse("hf:~/models/m").name == "/home/me/models/m"
    assert parse("hf:~/models/m").shown == "'hf:~/models/m'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hf:", "unknown LLM 'hf': it names no model of hf; it is named openai:MODEL"),
        ("openai://m", "unknown LLM 'openai': an address stands behind the name, as base_url="),
        ("openai:http://m/v1", "an address stands behind the name, as base_url=ADDRESS; it is"),
        ("recoded:sample", "did you mean recorded? it is named"),
        ("openai:m =5", "the options of an LLM are key=value"),
        ("openai:m seed", "the options of an LLM are key=value"),
        ("openai:m api_key_env=MY-KEY", "the name of the environment variable"),
        ("openai:m structured=yes", "structured is wrong: give on or off"),
        ("openai:m structured=", "structured is wrong: give on or off"),
        ("openai:m seed=one", "seed is wrong: give a whole number from 0"),
        ("openai:m concurrency=0", "concurrency is wrong: give a whole number from 1"),
        ("openai:m body='[1]'", "body is wrong: give a JSON object, in quotes"),
        ("openai:m seed=1 seed=1", "the LLM option seed is given twice: omit one"),
    ],
)
def test_what_a_line_may_mean_is_named(text, words):
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert words in str(raised.value)


@pytest.mark.parametrize("kind", ["openai", "hf", "recorded", "openai:"])
def test_a_kind_of_llm_without_a_model_is_not_taken_for_a_typo(kind):
    with pytest.raises(
        ikat.UsageError, match=rf"it names no model of {kind.strip(':')}; it is named openai:MODEL"
    ) as caught:
        ikat.llm(kind)
    assert "did you mean" not in str(caught.value)
    with pytest.raises(ikat.UsageError, match="did you mean openai"):
        ikat.llm("opnai:gpt-4o")


def test_fields_of_a_dict_are_a_word_of_the_line():
    assert with_body("openai:m seed=1", {"b": "it's"}) == (
        """openai:m seed=1 'body={"b": "it'"'"'s"}'"""
    )
    assert parse(with_body("openai:m", {"b": "it's"})).options == {"body": {"b": "it's"}}
    for wrong in ("openai:m body='{}'", "openai:m body='{\"a\": 1}'"):
        with pytest.raises(UsageError, match="body is given twice"):
            with_body(wrong, {"b": 1})
    assert llm("openai:m", body=None) == llm("openai:m", body={}) == llm("openai:m")
    assert llm("openai:m", body={"b": 1}) == llm("openai:m body='{\"b\": 1}'")


def test_the_name_of_an_object_decides_as_a_whole():
    assert deciding_options("it's \"mine") == "it's \"mine"
    assert deciding_options("hf:m 'device=a b' top_k=2") == "hf:m top_k=2"


class Model:
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def generate(self, chats):
        return ["fine" for _ in chats]


def test_options_of_an_object_are_checked_as_those_of_a_line(tmp_path):
    file = str(tmp_path / "own.sqlite")
    made = llm(
        Model(),
        identity={"v": 1},
        reasoning="<p> </p>",
        retries=0,
        cache=file,
        price_in=1,
        price_out=2,
        price_cached=0,
        budget=3,
        on_error=None,
    )
    assert made.backend.reasoning == (("<p>", "</p>"),)
    assert made.backend.declared == {"v": 1}
    assert (made.retry.tries, made.cache.path, made.on_error) == (1, file, "raise")
    budget = made.budget
    assert (budget.price_in, budget.price_out, budget.price_cached) == (1, 2, 0)
    assert (budget.limit, budget.model) == (3, "Model")
    with pytest.raises(UsageError, match="retries is wrong: give a whole number from 0"):
        llm(Model(), retries=-1)
    with pytest.raises(UsageError, match="unknown LLM option 'seed': an object knows on_error"):
        llm(Model(), seed=1)
    made.close()


def test_where_the_answers_of_an_object_are_kept(tmp_path, home):
    assert llm(Model()).cache.path == ":memory:"
    assert llm(Model(model_id="m")).cache.path == ":memory:"
    assert llm(Model(), cache="none").cache is None
    assert llm(Model(identity={"v": 1})).cache.path == str(home / "llm.sqlite")
    assert llm(Model(), identity={"v": 1}, cache="none").cache is None
    file = str(tmp_path / "own.sqlite")
    assert llm(Model(model_id="m"), cache=file).cache.path == file
    with pytest.raises(UsageError, match=r"Model in the cache .*own.sqlite: give identity=..."):
        llm(Model(), cache=file)


def test_a_recording_needs_no_home_and_others_say_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("IKAT_HOME", raising=False)
    monkeypatch.setattr("pyterrier.io.pyterrier_home", lambda: os.mkdir(tmp_path / "file" / "home"))
    turns = ikat.dataset("ikat:sample").get_topics()
    assert len(ikat.Rewrite("recorded:sample")(turns)) == len(turns)
    assert ikat.llm("openai:m cache=none").cache is None
    with pytest.raises(
        ikat.DataError,
        match="no home folder for caches and downloads .*: set IKAT_HOME to a folder",
    ):
        ikat.llm("openai:m")


class Own(Backend):
    model, identity, identified = "own", {"provider": "own", "params": {}}, True


def test_a_backend_of_a_user_is_kept_where_it_says(tmp_path):
    file = str(tmp_path / "own.sqlite")
    marked = Own()
    marked.reasoning = (("<p>", "</p>"),)
    made = llm(marked)
    assert (made.backend, made.cache.path) == (marked, ":memory:")
    assert made.backend.reasoning == (("<p>", "</p>"),)
    assert llm(Own(), cache=file).cache.path == file
    unknown = Own()
    unknown.identified = False
    assert llm(unknown).cache.path == ":memory:"
    with pytest.raises(UsageError, match="own in the cache"):
        llm(unknown, cache=file)
    ledger = Ledger()
    assert llm(Own(), ledger=ledger).ledger is ledger


@pytest.mark.parametrize("thing", [Model, 5, None, print])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(UsageError, match="is not a language model"):
        llm(thing)


@pytest.mark.parametrize("given", [{"identity": {"v": 1}}, {"identity": {}}, {"retries": 1}])
def test_a_line_or_a_model_takes_no_options_beside_it(given):
    for thing in ("openai:m", llm("openai:m")):
        with pytest.raises(UsageError, match="are for an object with .generate"):
            llm(thing, **given)


def test_each_provider_gets_its_own_options(tmp_path):
    local = llm("hf:m seed=1 top_k=2 device=cpu batch_size=3 retries=1 reasoning='<p> </p>'")
    assert (local.backend.device, local.backend.batch_size) == ("cpu", 3)
    assert local.backend.identity["params"] == {"max_tokens": 1024, "seed": 1, "top_k": 2}
    server = llm("openai:m timeout=5 concurrency=6 frequency_penalty=1 batch=on price_in=2")
    assert (server.backend.timeout, server.backend.concurrency) == (5, 6)
    assert server.backend.identity["params"] == {"frequency_penalty": 1}
    assert (server.batches, server.budget.price_in, server.budget.price_out) == (True, 1.0, None)
    assert type(llm("recorded:personalizedcir").backend) is StudyBackend
    assert type(llm("recorded:sample").backend) is RecordedBackend
    assert repr(llm("openai:m timeout=5")) == "ikat.llm('openai:m timeout=5')"
