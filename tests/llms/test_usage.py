"""What a server's usage comes to, form by form; the numbers of each form are added up by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pyterrier_ikat.llms.usage import MOST_TOKENS, UNKNOWN_TOKENS, Tokens, tokens_in, tokens_of


def usage(prompt, written, total=None, **more):
    told = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": total, **more}
    return {name: value for name, value in told.items() if value is not None}


def thought(tokens):
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


def stored(tokens):
    return {"prompt_tokens_details": {"cached_tokens": tokens}}


FORMS = {
    # OpenAI's guide "Reasoning models": reasoning is part of the completion's tokens.
    "OpenAI": (usage(100, 520, 620, **thought(500)), Tokens(100, None, 520)),
    "OpenAI without a total": (usage(100, 520, **thought(500)), Tokens(100, None, 520)),
    # OpenAI's guide "Prompt caching": 1,920 of the 2,006 tokens of the prompt were cached.
    "OpenAI, cached": (usage(2006, 300, 2306, **stored(1920)), Tokens(2006, 1920, 300)),
    # sonami-tech/omni-llm-provider#49: 32 + 9 + 94 = 135 and 279 + 6 + 89 = 374.
    "xAI": (usage(32, 9, 135, **thought(94)), Tokens(32, None, 103)),
    "xAI, little reasoning": (usage(279, 6, 374, **thought(89)), Tokens(279, None, 95)),
    "xAI, less reasoning than text": (usage(50, 100, 190, **thought(40)), Tokens(50, None, 140)),
    "xAI, cached within the prompt": (
        usage(100, 20, 620, **thought(500), **stored(60)),
        Tokens(100, 60, 520),
    ),
    # router-for-me/CLIProxyAPI#5733: 81 - 21 = 60.
    "Gemini, all was reasoning": (usage(21, 0, 81, **thought(60)), Tokens(21, None, 60)),
    # mozilla-ai/any-llm#1290: 20 + 198 + 405 = 623, and the 405 are told nowhere.
    "Gemini, untold reasoning": (usage(20, 198, 623), Tokens(20, None, 603)),
    "Gemini, no completion tokens": (usage(20, None, 425), Tokens(20, None, 405)),
    # Portkey-AI/gateway#1211: 368 + 19 + 10,536 = 10,923: what was cached is beside the prompt, and
    # was read as well.
    "Portkey": (usage(368, 19, 10923, cache_read_input_tokens=10536), Tokens(10904, 10536, 19)),
    "Portkey, in OpenAI's field": (
        usage(368, 19, 10923, **stored(10536)),
        Tokens(10904, 10536, 19),
    ),
    "Portkey, cached, written": (
        usage(4, 10, 3014, cache_read_input_tokens=1000, cache_creation_input_tokens=2000),
        Tokens(3004, 1000, 10),
    ),
    "Portkey, and untold reasoning": (
        usage(368, 19, 11000, cache_read_input_tokens=10536),
        Tokens(10904, 10536, 96),
    ),
    # BerriAI/litellm: page "Prompt caching": both classes are within the prompt
    # (crewAIInc/crewAI#6788: 15,635 with 15,624 written).
    "LiteLLM": (
        usage(15635, 12, 15647, cache_creation_input_tokens=15624, **stored(0)),
        Tokens(15635, 0, 12),
    ),
    "LiteLLM, without a total": (
        usage(17111, 12, cache_read_input_tokens=17000),
        Tokens(17111, 17000, 12),
    ),
    # open-webui-cost-tracker#6: reasoning that even the total leaves out.
    "reasoning outside the total": (
        usage(33, 11395, 11428, **thought(73248)),
        Tokens(33, None, 84643),
    ),
    "the same beside, at the top": (
        usage(33, 11395, 11428, reasoning_tokens=73248),
        Tokens(33, None, 84643),
    ),
    # DeepSeek's page "Context caching".
    "DeepSeek": (
        usage(1000, 10, 1010, prompt_cache_hit_tokens=900, prompt_cache_miss_tokens=100),
        Tokens(1000, 900, 10),
    ),
    "Mistral": (usage(801, 2, 803, num_cached_tokens=768), Tokens(801, 768, 2)),
    "Moonshot": (usage(801, 2, 803, cached_tokens=768), Tokens(801, 768, 2)),
    # openrouter.ai, page "Usage accounting".
    "OpenRouter": (
        usage(
            194,
            2,
            196,
            cost=0.95,
            prompt_tokens_details={"cached_tokens": 0, "cache_write_tokens": 100},
            **thought(0),
        ),
        Tokens(194, 0, 2),
    ),
    # Anthropic's Messages API: what was read is the sum of the three.
    "Anthropic": (
        {
            "input_tokens": 3,
            "output_tokens": 10,
            "cache_read_input_tokens": 5000,
            "cache_creation_input_tokens": 7,
        },
        Tokens(5010, 5000, 10),
    ),
    "Anthropic, nothing but cache": (
        {"input_tokens": 0, "output_tokens": 10, "cache_read_input_tokens": 5000},
        Tokens(5000, 5000, 10),
    ),
    # Routstr/routstr-core#213: OpenAI's Responses API.
    "Responses": (
        {
            "input_tokens": 75,
            "output_tokens": 1186,
            "total_tokens": 1261,
            "output_tokens_details": {"reasoning_tokens": 1024},
        },
        Tokens(75, None, 1186),
    ),
    # browser-use/browser-use#4294: a total less than its parts says nothing.
    "a total without the cache": (
        usage(5000, 10, 60, cache_read_input_tokens=4950),
        Tokens(5000, 4950, 10),
    ),
    "floats of a gateway": (usage(1e6, 0.0), Tokens(1000000, None, 0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_comes_to_what_was_read_and_written(name):
    told, right = FORMS[name]
    assert tokens_of(told) == right


@pytest.mark.parametrize(
    "number",
    [
        -1,
        -(10**30),
        10**30,
        10**400,
        MOST_TOKENS + 1,
        True,
        "100",
        "many",
        1.5,
        float("nan"),
        float("inf"),
        [7],
        {},
    ],
)
def test_a_number_that_is_no_count_is_unknown(number):
    assert tokens_of(usage(number, 5)) == Tokens(None, None, 5)
    assert tokens_of(usage(5, number)) == Tokens(5, None, None)
    assert tokens_of(usage(5, 7, number, **thought(number))) == Tokens(5, None, 7)
    assert tokens_of(usage(5, 7, **stored(number))).prompt == 5


@pytest.mark.parametrize(
    "told",
    [
        None,
        "x",
        [],
        {},
        7,
        {"usage": {}},
        usage(0, 0),
        usage(0, 0, 0),
        usage(0, 0, 0, **thought(0)),
    ],
)
def test_no_usage_and_zeros_are_unknown(told):
    assert tokens_of(told) == UNKNOWN_TOKENS


def test_of_several_numbers_of_cached_tokens_the_greatest_counts():
    told = {"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 60}
    assert tokens_of(usage(100, 1, 101, **told)) == Tokens(100, 60, 1)


def test_cached_tokens_are_at_most_the_prompt_and_negatives_none():
    assert tokens_of(usage(100, 1, **stored(-50_000_000))) == Tokens(100, 0, 1)
    assert tokens_of(usage(100, 1, **stored(5000))) == Tokens(100, 100, 1)


@pytest.mark.parametrize(
    "answer",
    [
        {"usage": usage(9, 5)},
        {"usage": None, "x_groq": {"usage": usage(9, 5)}},
        {"choices": [{"delta": {}, "usage": usage(9, 5)}]},
        {"choices": None, "error": {"message": "no"}, "usage": usage(9, 5)},
    ],
)
def test_usage_is_found_wherever_a_server_tells_it(answer):
    assert tokens_in(answer) == Tokens(9, None, 5)


anything = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
names = some.sampled_from(
    [
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cache_read_input_tokens",
    ]
)


@given(
    anything
    | some.dictionaries(names, anything, max_size=6)
    | some.fixed_dictionaries({"usage": some.dictionaries(names, anything)})
)
def test_nothing_that_a_server_sends_is_an_error_or_negative(told):
    for tokens in (tokens_of(told), tokens_in(told)):
        assert all(number is None or number >= 0 for number in tokens)
    assert json.loads(json.dumps(tokens)) is not None


counts = some.integers(min_value=1, max_value=10_000)


@given(counts, counts, counts, some.integers(min_value=0, max_value=10_000))
def test_what_a_total_has_beyond_its_parts_is_counted(prompt, written, reasoning, cached):
    cached = min(cached, prompt)
    told = usage(
        prompt, written, prompt + written + reasoning, **thought(reasoning), **stored(cached)
    )
    assert tokens_of(told) == Tokens(prompt, cached, written + reasoning)


def details(cached, stored_now, **more):
    found = {"cached_tokens": cached, "cache_write_tokens": stored_now}
    return {"prompt_tokens_details": found, **more}


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (usage(MOST_TOKENS, 0), Tokens(MOST_TOKENS, None, 0)),
        (usage(9.0, 5), Tokens(9, None, 5)),
        (usage(9, None), Tokens(9, None, None)),
        (usage(None, 5), Tokens(None, None, 5)),
        (usage(0, 5), Tokens(None, None, 5)),
        (usage(5, "many", 10), Tokens(5, None, None)),
        (usage(None, 5, **thought(7)), Tokens(None, None, 12)),
        (usage(None, 5, **thought(5)), Tokens(None, None, 5)),
        (usage(9, 5, **thought(5)), Tokens(9, None, 5)),
        (usage(9, 5, input_tokens=1, output_tokens=1), Tokens(9, None, 5)),
        (usage(9, 5, cached_tokens=3, num_cached_tokens=7), Tokens(9, 7, 5)),
        (usage(9, 5, cached_tokens=-3), Tokens(9, 0, 5)),
        (usage(9, 5, cached_tokens=0), Tokens(9, 0, 5)),
        (usage(100, 10, 160, **details(20, 30)), Tokens(150, 20, 10)),
        (usage(100, 10, 130, **details(20, 30)), Tokens(120, 20, 10)),
        (usage(100, 10, 140, **details(20, 30)), Tokens(130, 20, 10)),
        (usage(100, 10, 167, **details(20, 30), **thought(7)), Tokens(150, 20, 17)),
        (usage(100, 10, 117, **details(20, 30), **thought(7)), Tokens(100, 20, 17)),
        (usage(100, 10, 130, **details(20, 0), **thought(20)), Tokens(100, 20, 30)),
        (usage(10, 5, 100, cache_read_input_tokens=60), Tokens(70, 60, 30)),
        (usage(10, 5, 45, cache_read_input_tokens=60), Tokens(40, 40, 5)),
        (usage(100, 5, 195, cache_read_input_tokens=60), Tokens(160, 60, 35)),
        (usage(100, 5, 195, cache_creation_input_tokens=60), Tokens(160, None, 35)),
        (usage(10, 5, 100, **stored(60)), Tokens(70, 60, 30)),
        (usage(100, 5, 190, **stored(60)), Tokens(100, 60, 90)),
        (usage(100, 10, 110, cache_read_input_tokens=60), Tokens(100, 60, 10)),
        (usage(100, 10, cache_creation_input_tokens=160), Tokens(260, None, 10)),
        (usage(100, 10, cache_creation_input_tokens=100), Tokens(100, None, 10)),
        (
            {
                "input_tokens": 100,
                "output_tokens": 10,
                "total_tokens": 110,
                "cache_read_input_tokens": 60,
            },
            Tokens(100, 60, 10),
        ),
        (usage(100, 10, 115, **thought(20)), Tokens(100, None, 30)),
        (usage(100, 10, 145, **thought(20)), Tokens(100, None, 45)),
    ],
    ids=str,
)
def test_what_stands_beside_the_counts_is_added_to_its_own(told, right):
    assert tokens_of(told) == right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ({"usage": usage(0, 0), "x_groq": {"usage": usage(9, 5)}}, Tokens(9, None, 5)),
        ({"usage": usage(9, 5), "x_groq": {"usage": usage(7, 7)}}, Tokens(9, None, 5)),
        ({"choices": []}, UNKNOWN_TOKENS),
        ({"choices": {"0": {"usage": usage(9, 5)}}}, UNKNOWN_TOKENS),
        ({"choices": [{}, {"usage": usage(9, 5)}]}, UNKNOWN_TOKENS),
        ([{"usage": usage(9, 5)}], UNKNOWN_TOKENS),
        ({"usage": {"completion_tokens": 5}}, Tokens(None, None, 5)),
    ],
    ids=str,
)
def test_the_first_usage_with_a_count_is_read(answer, right):
    assert tokens_in(answer) == right
    assert tokens_in(answer).is_known == (right != UNKNOWN_TOKENS)


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens_details": {"cached_tokens": 7}},
        {"prompt_token_details": {"cached_tokens": 7}},
        {"input_tokens_details": {"cached_tokens": 7}},
        {"num_cached_tokens": 7},
        {"prompt_cache_hit_tokens": 7},
        {"cached_tokens": 7},
        {"cache_read_input_tokens": 7},
    ],
    ids=str,
)
def test_each_name_of_cached_tokens_is_read(told):
    assert tokens_of(usage(9, 5, 14, **told)) == Tokens(9, 7, 5)


@pytest.mark.parametrize(
    "told",
    [
        {"completion_tokens_details": {"reasoning_tokens": 8}},
        {"output_tokens_details": {"reasoning_tokens": 8}},
        {"reasoning_tokens": 8},
    ],
    ids=str,
)
def test_each_name_of_reasoning_is_read(told):
    assert tokens_of(usage(9, 5, 22, **told)) == Tokens(9, None, 13)
    assert tokens_of({"input_tokens": 9, "output_tokens": 5, **told}) == Tokens(9, None, 13)
