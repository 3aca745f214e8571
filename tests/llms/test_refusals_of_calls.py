"""Calls that a server refuses, in the words of providers: prompt, key, model, address."""

import json

import pandas as pd
import pytest
from chat_server import Answer, ask, refused, said

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import FatalLLMError, StageError
from pyterrier_ikat.llms.failures import BadRequest, Filtered, TooLong, Unavailable

FLAGGED = {
    "code": 403,
    "message": "The model requires moderation.",
    "metadata": {"reasons": ["self-harm"], "flagged_input": "..."},
}
# enricoros/big-AGI#352 and #712, UKGovernmentBEIS/inspect_ai#2267, camel-ai/owl#432,
# 666ghj/BettaFish#108, openai/openai-cookbook#1224;
# Azure's page on content filters
WITHHELD = [
    (403, {"error": FLAGGED}),
    (
        403,
        {
            "error": {
                "code": 403,
                "message": "Input blocked",
                "metadata": {"reasons": ["violence"], "flagged_input": "x"},
            }
        },
    ),
    (
        403,
        {
            "code": "x",
            "error": "Content violates usage guidelines. Team: t, API key ID: k, Model: m, Failed "
            "check: SAFETY_CHECK_TYPE_BIO",
        },
    ),
    (403, {"error": {"message": "This request violates our acceptable use policy"}}),
    (
        400,
        {
            "error": {
                "code": "content_filter",
                "message": "The response was filtered",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
    ),
    (
        400,
        {
            "error": {
                "code": "invalid_prompt",
                "message": "Invalid prompt: your prompt was flagged as potentially violating our "
                "policy.",
            }
        },
    ),
    (
        400,
        {
            "error": {
                "code": "data_inspection_failed",
                "message": "Input data may contain inappropriate content.",
            }
        },
    ),
    (
        400,
        {
            "error": {
                "message": "Content Exists Risk",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
            }
        },
    ),
    (400, {"detail": "Content Exists Risk"}),
    (
        400,
        {
            "error": {
                "message": "input contains sensitive words: [test]",
                "code": "sensitive_words_detected",
            }
        },
    ),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error": {"code": "content_filter"}}'},
            }
        },
    ),
    (200, {"error": FLAGGED}),
]


@pytest.mark.parametrize(("status", "body"), WITHHELD)
@pytest.mark.parametrize("place", [0, 1])
def test_one_withheld_prompt_fails_alone(model, server, status, body, place):
    texts = ["a", "b", "c"]
    server.respond = lambda asked: (
        Answer(status, body) if asked["messages"][0]["content"] == texts[place] else said()
    )
    outcomes = model("cache=none concurrency=1").ask(ask(*texts))
    assert type(outcomes.pop(place)) is Filtered
    assert [outcome.text for outcome in outcomes] == ["fine", "fine"]
    assert server.calls == 3


def test_a_refused_turn_falls_back_or_is_named_and_others_go_on(model, server):
    server.respond = lambda asked: (
        Answer(403, {"error": FLAGGED})
        if "knives" in str(asked["messages"])
        else said("Which tea is best?")
    )
    turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["knives", "tea"]})
    assert ikat.Rewrite(model("on_error=fallback"))(turns)["query"].tolist() == [
        "knives",
        "Which tea is best?",
    ]
    with pytest.raises(StageError, match="1_1 .*content filter withheld the prompt"):
        ikat.Rewrite(model())(turns)


GEMINI = {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT",
    "details": [{"reason": "API_KEY_INVALID"}],
}
# continuedev/continue#10748 and #10778, definableai/definable.ai#112, RightNow-AI/openfang#697 and
# #60, langbot-app/LangBot#1643, mistralai/mistral-vibe#617, anthropics/claude-code#4684,
# google-gemini/gemini-cli#24641
WRONG = [
    (
        {
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            }
        },
        "quota of the key",
    ),
    (
        {"error": {"code": 400, "message": "User location is not supported for the API use."}},
        "does not allow the call",
    ),
    ([{"error": GEMINI}], "does not accept the key in OPENAI_API_KEY"),
    (
        {"error": {**GEMINI, "message": "API key expired. Please renew the API key."}},
        "does not accept the key",
    ),
    (
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: na***ys.",
        },
        "does not accept the key",
    ),
    (
        {"code": "Client specified an invalid argument", "error": "Model not found: grok-2-latest"},
        "has no model 'm'",
    ),
    (
        {
            "error": {"message": "healer-alpha is not a valid model ID", "code": 400},
            "user_id": "user_1",
        },
        "has no model 'm'",
    ),
    (
        {
            "error": {
                "message": "Model Not Exist",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
            }
        },
        "has no model 'm'",
    ),
    (
        {
            "error": {
                "message": "The model `m` has been decommissioned and is no longer supported.",
                "code": "model_decommissioned",
            }
        },
        "no model 'm'",
    ),
    (
        {"object": "error", "message": "Invalid model: m", "type": "invalid_model", "code": "1500"},
        "has no model 'm'",
    ),
    (
        {
            "error": {
                "message": "The model `m` does not exist or you do not have access to it.",
                "code": "x",
            }
        },
        "has no model 'm'",
    ),
]


@pytest.mark.parametrize(("body", "told"), WRONG)
@pytest.mark.parametrize("options", ["", "on_error=fallback"])
def test_a_wrong_key_or_model_as_400_costs_one_call(model, server, body, told, options):
    server.respond = lambda asked: Answer(400, body)
    made = model(options)
    made.backend.patience = 60
    qids = [f"1_{number}" for number in range(20)]
    queries = [f"tea {number}" for number in range(20)]
    turns = pd.DataFrame({"qid": qids, "query": queries})
    with pytest.raises(FatalLLMError, match=told):
        ikat.Rewrite(made)(turns)
    assert server.calls == 1


@pytest.mark.parametrize(
    "message",
    [
        "Model m does not support parameter presencePenalty.",
        "messages: invalid model output",
        "bad",
    ],
)
def test_other_bad_requests_are_of_their_prompt(model, server, message):
    server.respond = lambda asked: (
        refused(400, message) if asked["messages"][0]["content"] == "b" else said()
    )
    outcomes = model("concurrency=1").ask(ask("a", "b", "c"))
    assert [type(one).__name__ for one in outcomes] == ["Completion", "BadRequest", "Completion"]


@pytest.mark.parametrize("status", [401, 403])
def test_an_accepted_key_refused_for_one_prompt_is_tried_again(model, server, slept, status):
    server.respond = lambda asked: (
        refused(status, "no") if asked["messages"][0]["content"] == "b" else said()
    )
    outcomes = model("retries=2 concurrency=1").ask(ask("a", "b", "c"))
    assert [type(one) for one in outcomes][1] is Unavailable
    assert (outcomes[2].text, server.calls, len(slept)) == ("fine", 5, 2)
    server.script = [refused(status, "no")]
    made = model("retries=2 concurrency=1 cache=none")
    made.backend.accepted = True
    assert made.ask(ask("d"))[0].text == "fine"


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_for_good_ends_the_stage(model, server, status):
    server.respond = lambda asked: said() if server.calls == 1 else refused(status, "revoked")
    with pytest.raises(
        FatalLLMError,
        match=r"revoked.*it has accepted that key before .done and kept: 1 call, left: 9",
    ):
        model("retries=1 concurrency=1").ask(ask(*map(str, range(10))))
    assert server.calls == 7


PAGE = b"<!DOCTYPE html><p>Your team was flagged by our content policy and security filter.</p>"


@pytest.mark.parametrize(
    "body",
    [
        {"error": "Your account violates the usage policy and was suspended"},
        {"detail": "Forbidden"},
        PAGE,
    ],
)
def test_a_403_about_the_account_is_no_withheld_prompt(model, server, body):
    server.respond = lambda asked: Answer(403, body)
    with pytest.raises(FatalLLMError, match="does not allow the call"):
        model().ask(ask("a", "b"))


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_was_never_accepted_costs_one_call(model, server, status):
    server.respond = lambda asked: refused(status, "no")
    with pytest.raises(FatalLLMError, match="OPENAI_API_KEY"):
        model("concurrency=1 on_error=fallback").ask(ask("a", "b"))
    assert server.calls == 1


PAGES = [
    (200, b"<!DOCTYPE html><html><title>Open WebUI</title></html>", "text/html"),
    (404, b"<!DOCTYPE html><pre>Cannot POST /chat/completions</pre>", "text/html"),  # Express
    (404, b"404 page not found", "text/plain"),  # Ollama
    (404, b'{"detail": "Not Found"}', "application/json"),  # FastAPI, as in vLLM
    (
        404,
        b'{"error": {"message": "Invalid URL (POST /chat/completions)", "code": null}}',
        "application/json",
    ),  # OpenAI
    (404, b"", "text/plain"),
    (405, b'{"detail": "Method Not Allowed"}', "application/json"),
    (
        200,
        b'{"error": "Unexpected endpoint or method. (POST /chat/completions)"}',
        "application/json",
    ),  # lmstudio-bug-tracker#618
]


@pytest.mark.parametrize(("status", "page", "kind"), PAGES)
@pytest.mark.parametrize("follows", [False, True])
def test_an_address_without_v1_is_named_at_the_first_call(
    model, server, status, page, kind, follows
):
    server.respond = lambda asked: Answer(status, page, {"Content-Type": kind})
    made = ikat.llm(f"openai:m base_url={server.url.removesuffix('/v1')} cache=none concurrency=1")
    work = (
        (lambda: made.backend.stream(ask("a")[0], str))
        if follows
        else (lambda: made.ask(ask("a", "b")))
    )
    with pytest.raises(FatalLLMError, match=f"try base_url={server.url}"):
        work()
    assert server.calls == 1
    made.close()


@pytest.mark.parametrize("path", ["/v1", ""])
def test_a_missing_model_at_a_right_address_is_no_wrong_address(model, server, path):
    server.respond = lambda asked: refused(404, "model 'm' not found, try pulling it first")
    made = ikat.llm(f"openai:m base_url={server.url.removesuffix('/v1')}{path} cache=none")
    with pytest.raises(FatalLLMError, match="has no model 'm'") as raised:
        made.ask(ask("a"))
    assert "try base_url" not in str(raised.value)
    made.close()


@pytest.mark.parametrize(("code", "kind"), [(400, BadRequest), ("400", BadRequest)])
def test_a_refusal_in_an_answer_or_stream_is_no_server_failure(model, server, code, kind):
    error = {"error": {"message": "temperature must be at most 2", "code": code}}
    stream = Answer(
        200,
        f"data: {json.dumps(error)}\n\ndata: [DONE]\n\n".encode(),
        {"Content-Type": "text/event-stream"},
    )
    server.script = [Answer(200, error), stream]
    made = model("cache=none")
    for _ in range(2):
        [failure] = made.ask(ask("a"))
        assert type(failure) is kind
    assert server.calls == 2


NAMES = {
    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "type": "invalid_request_error",
    "param": "max_tokens",
    "code": "unsupported_parameter",
}  # OpenHands/OpenHands#11662


@pytest.mark.parametrize("follows", [False, True])
def test_max_tokens_other_name_is_found_out_at_the_first_call(model, server, follows):
    server.respond = lambda asked: (
        Answer(400, {"error": NAMES}) if "max_tokens" in asked else said()
    )
    made = model("max_tokens=9 cache=none retries=0 concurrency=1")
    if follows:
        assert made.backend.stream(ask("a")[0], lambda text: None).text == "fine"
    else:
        assert [one.text for one in made.ask(ask("a", "b", "c"))] == ["fine"] * 3
    before = server.calls
    assert made.ask(ask("d"))[0].text == "fine"
    assert (before, server.calls) == ((2, 3) if follows else (4, 5))
    assert server.bodies[-1]["max_completion_tokens"] == 9
    assert made.backend.body(ask("e")[0])["max_completion_tokens"] == 9  # a batch's, too


def test_all_calls_under_way_learn_the_other_name(model, server):
    server.respond = lambda asked: (
        Answer(400, {"error": NAMES}) if "max_tokens" in asked else said()
    )
    made = model("max_tokens=9 cache=none retries=0 concurrency=8")
    made.backend.patience = 0
    outcomes = made.ask(ask(*map(str, range(20))))
    assert [outcome.text for outcome in outcomes] == ["fine"] * 20


@pytest.mark.parametrize("host", ["api.openai.com", "eu.api.openai.com", "us.api.openai.com"])
def test_openai_is_sent_the_name_that_all_its_models_know(host):
    body = ikat.llm(f"openai:m base_url=https://{host}/v1 max_tokens=9").backend.body(ask("a")[0])
    assert (body["max_completion_tokens"], "max_tokens" in body) == (9, False)


def test_a_request_that_exceeds_what_a_minute_allows_is_too_long(model, server, slept):
    # Aider-AI/aider#1880
    told = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 36278."
    server.respond = lambda asked: refused(429, told, code="rate_limit_exceeded")
    assert type(model().ask(ask("a"))[0]) is TooLong
    assert (server.calls, slept) == (1, [])


@pytest.mark.parametrize("status", [300, 301, 308, 399])
def test_every_redirect_ends_the_stage(model, server, status):
    server.respond = lambda body: refused(status, location="/elsewhere")
    with pytest.raises(FatalLLMError, match=r"redirects \(\d+\).*base_url"):
        model("retries=0").ask(ask("a"))
    assert server.calls == 1


@pytest.mark.parametrize("status", [400, 413])
def test_too_long_is_told_by_status_or_words(model, server, status):
    words = "no" if status == 413 else "maximum context length is 4096"
    server.respond = lambda body: refused(status, words)
    (failure,) = model().ask(ask("a"))
    assert type(failure).__name__ == "TooLong"


def test_too_large_for_a_minute_is_no_server_failure(model, server):
    server.script = [refused(503, "request too large to be taken now")]
    assert model().ask([*ask("a")])[0].text == "answer to a"  # it is tried again
