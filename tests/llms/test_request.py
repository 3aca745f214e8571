"""Requests, and what a reply is read to be."""

import re
from dataclasses import replace

import pytest
from chat_server import ask, said

from pyterrier_ikat.completions.json_answers import TEXT, Structure, object_of
from pyterrier_ikat.llms.failures import (
    CutOff,
    Empty,
    Filtered,
    OnlyReasoning,
    Refused,
    Unfinished,
    UnknownMark,
)
from pyterrier_ikat.llms.request import (
    Completion,
    NoCompletionError,
    Reading,
    Reply,
    Request,
    _option_for,
    as_text,
    read,
    text_and_thought,
)

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 2},
}
TEA = Structure("tea", object_of(tea=TEXT))
ASKED = [{"role": "user", "content": "Tea?"}]


def answer(text="fine", usage=None, choice=None, **message):
    """A chat completion."""
    return {
        "model": "m-1",
        "choices": [{"message": {"content": text, **message}, **(choice or {})}],
        "usage": usage,
    }


def test_each_sample_of_each_chain_has_a_seed_of_its_own():
    draws = []
    for chain in (0, 1, 2):
        for sample in (0, 3):
            request = Request(ASKED, "a", "1_1", sample=sample, chain=chain)
            draws.append(request.draw)
    assert draws == [0, 3, 1000, 1003, 2000, 2003]


@pytest.mark.parametrize(
    ("identity", "more", "same"),
    [
        ({"params": {"seed": 1}}, {"params": {"seed": 2}}, {"params": {"seed": 2}}),
        ({}, {"params": {"seed": 2}}, {"params": {"seed": 2}}),
        ({"params": {"seed": 1}, "structured": "on"}, {}, {"params": {"seed": 1}}),
    ],
    ids=["a parameter of the request wins", "no parameters", "no structure"],
)
def test_keys_are_equal_where_the_model_is_asked_the_same(identity, more, same):
    assert Request(ASKED, "a", "1_1", **more).key(identity) == Request(ASKED, "b", "2_1").key(same)


def test_keys_differ_where_the_model_is_asked_otherwise():
    identity = {"provider": "mine", "params": {"seed": 1, "top_p": 1}, "structured": "on"}
    requests = [
        Request(ASKED, "a", "1_1"),
        Request(ASKED, "a", "1_1", params={"seed": 2}),
        Request(ASKED, "a", "1_1", params={"top_p": 0.5}),
        Request(ASKED, "a", "1_1", sample=1),
        Request(ASKED, "a", "1_1", chain=1),
        Request(ASKED[:1] * 2, "a", "1_1"),
        Request(ASKED, "a", "1_1", structure=TEA),
        Request(ASKED, "a", "1_1", structure=TEA._replace(schema=object_of(tee=TEXT))),
    ]
    keys = [request.key(identity) for request in requests]
    keys.append(requests[0].key({**identity, "provider": "other"}))
    keys.append(requests[-1].key({**identity, "structured": "off"}))
    assert len(set(keys)) == len(keys)


def test_a_reply_has_all_that_an_answer_tells():
    told = answer("fine", USAGE, {"finish_reason": "stop"}, refusal="no")
    assert Reply.of(told) == Reply("fine", "m-1", "stop", 9, 4, refusal="no", cached_tokens=2)
    assert Reply.of({"choices": [{"message": {}}]}) == Reply(None)


@pytest.mark.parametrize(
    ("choice", "message", "changed"),
    [
        ({"finish_reason": 7}, {}, {"finish_reason": "7"}),
        ({"finish_reason": "a\nb"}, {}, {"finish_reason": "a b"}),
        ({"finish_reason": ""}, {}, {}),
        ({"finish_reason": "stop", "error": {"code": 1}}, {}, {"finish_reason": "error"}),
        ({"finish_reason": "STOP"}, {"tool_calls": [1]}, {"finish_reason": "tool_calls"}),
        ({}, {"function_call": {"name": "f"}}, {"finish_reason": "tool_calls"}),
        ({"finish_reason": "length"}, {"tool_calls": [1]}, {"finish_reason": "length"}),
        ({}, {"refusal": ["no"]}, {"refusal": "['no']"}),
        ({}, {"refusal": ""}, {}),
        ({}, {"reasoning": "hm"}, {"reasoned": True}),
        ({}, {"reasoning_content": "hm"}, {"reasoned": True}),
        ({}, {"reasoning_content": ""}, {}),
    ],
)
def test_what_a_choice_says_beside_its_text(choice, message, changed):
    reply = Reply.of(answer("fine", None, choice, **message))
    assert reply == Reply(**{"text": "fine", "model": "m-1", **changed})


def test_parts_of_a_text_are_joined_and_others_are_thoughts():
    said, thought = {"type": "text", "text": "fi"}, {"type": "thinking", "text": "hm"}
    assert text_and_thought([said, {"type": "text", "text": "ne"}]) == ("fine", False)
    assert text_and_thought([thought, said]) == ("fi", True)
    assert text_and_thought([thought]) == ("", True)
    assert text_and_thought([{"type": "reasoning", "summary": []}]) == ("", True)
    assert text_and_thought("fine") == ("fine", False)
    assert Reply.of(answer([thought, said])) == Reply("fi", "m-1", reasoned=True)


@pytest.mark.parametrize(
    "wrong",
    [
        "a page",
        None,
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": [{"text": "a"}]}}]},
        {"choices": ["a"]},
        {"choices": [{"message": {"content": "a"}}], "error": {"message": "no"}},
    ],
    ids=str,
)
def test_what_is_no_chat_completion_is_told_with_its_body(wrong):
    with pytest.raises(NoCompletionError) as raised:
        Reply.of(wrong)
    assert raised.value.body == wrong
    assert bool(raised.value.paid) == (isinstance(wrong, dict) and set(wrong) == {"choices"})


def test_of_several_choices_the_first_one_is_read():
    assert Reply.of({"choices": [{"message": {"content": text}} for text in "ab"]}).text == "a"


@pytest.mark.parametrize(
    ("told", "paid"),
    [
        ({"choices": [], "usage": USAGE, "model": "m-1"}, Reply(None, "m-1", None, 9, 4)),
        ({"choices": [], "model": None}, Reply(None)),
        ({"choices": [], "error": "overloaded"}, None),
        ({"error": "overloaded", "usage": USAGE}, Reply(None, None, None, 9, 4)),
        ({"model": "m-1"}, None),
        ("choices", None),
    ],
    ids=["usage", "choices alone", "an error", "an error with usage", "neither", "a text"],
)
def test_an_empty_answer_was_paid_if_a_model_worked(told, paid):
    if paid is not None and paid.prompt_tokens:
        paid = Reply(None, paid.model, prompt_tokens=9, completion_tokens=4, cached_tokens=2)
    assert Reply.without_text(told) == paid
    assert NoCompletionError(told).paid == ([] if paid is None else [paid])


def test_impossible_counts_are_unknown_and_the_rest_stays():
    wrong = Reply("a", "m", "stop", 0, -1, "no", True, 5, ("<x>",))
    assert wrong.counted() == Reply("a", "m", "stop", None, None, "no", True, None, ("<x>",))
    more = Reply("a", prompt_tokens=3, completion_tokens=1, cached_tokens=9)
    assert more.counted() == Reply("a", prompt_tokens=3, completion_tokens=1, cached_tokens=3)


def test_a_completion_has_all_of_a_reply():
    reply = Reply("a", "m-1", "stop", 9, 4, None, True, 2, ("<x>",))
    assert reply.completion("m", 1.5) == Completion(
        "a", "m-1", "stop", 9, 4, 1.5, False, cached_tokens=2, special=("<x>",)
    )
    assert Reply(None).completion("m", 0.5) == Completion("", "m", None, None, None, 0.5, False)


MARKS = (("<ponder>", "</ponder>"),)
UNKNOWN = "<ponder>hm</ponder>Mint"


@pytest.mark.parametrize(
    ("reply", "text", "kind", "words"),
    [
        (Reply("fine", finish_reason=" End_Turn "), "fine", None, ""),
        (Reply("half", finish_reason=" LENGTH "), "half", CutOff, "limit: raise max_tokens"),
        (
            Reply("half", finish_reason="length", completion_tokens=0),
            "half",
            CutOff,
            "limit after 0 tokens: raise max_tokens",
        ),
        (Reply("x", finish_reason="SAFETY"), "x", Filtered, "finish_reason 'SAFETY'"),
        (Reply("x", finish_reason="Refusal"), "x", Refused, "refused: finish_reason refusal"),
        (Reply("x", refusal="I won't"), "x", Refused, "refused: I won't"),
        (Reply("x", finish_reason="Odd"), "x", Unfinished, "finish_reason 'Odd'"),
        (Reply("<think>hm"), "", OnlyReasoning, "no answer after it"),
        (Reply("<think>hm</think>"), "", OnlyReasoning, "no answer after it"),
        (Reply("a\x00b"), "ab", None, ""),
        (Reply(None, reasoned=True), "", OnlyReasoning, "no answer after it"),
        (Reply(" \n "), "", Empty, "is empty"),
        (Reply(None), "", Empty, "is empty"),
        (Reply("<think>hm", finish_reason="length"), "", CutOff, "max_tokens"),
        (Completion("", "m", None, 1, 0, 0.1, False), "", Empty, "is empty"),
        (Completion("x", "m", "refusal", 1, 1, 0.1, False), "x", Refused, "refused"),
    ],
)
def test_each_fault_of_a_reply_has_its_kind_and_reason(reply, text, kind, words):
    found = read(reply)
    assert found.text == text
    if kind is None:
        assert found.fault is None
    else:
        assert found.fault[0] is kind
        assert words in found.fault[1]


def test_a_special_token_counts_only_where_it_stands_in_the_text():
    here = Reply("a <x_1> b", special=("<y>", "<x_1>"))
    assert read(here).fault[0] is UnknownMark
    assert "<x_1>" in read(here).fault[1]
    assert read(Reply("fine", special=("<y>", "<x_1>"))).fault is None


def test_a_named_mark_is_reasoning_and_an_asked_tag_is_none():
    assert read(Reply(UNKNOWN)).fault[0] is UnknownMark
    assert read(Reply(UNKNOWN), Reading(MARKS)) == ("Mint", None)
    asked = Reading((), [{"role": "user", "content": "Write <pick>NAME</pick> first."}])
    assert read(Reply("<pick>Mint</pick> is best"), asked).fault is None
    assert read(Reply("<pick>Mint</pick>"), asked) == ("Mint", None)
    assert read(Reply("<answer>Mint</answer>")) == ("Mint", None)


@pytest.mark.parametrize(
    ("mark", "option"),
    [
        ("<!--", 'reasoning="<!-- -->"'),
        ("</ponder>", 'reasoning="<ponder> </ponder>"'),
        ("[ /ponder ]", 'reasoning="[ponder] [/ponder]"'),
        ("<／ponder>", 'reasoning="<ponder> </ponder>"'),
        ("[PONDER]", 'reasoning="[PONDER] [/PONDER]"'),
        ("&lt;/ponder&gt;", 'reasoning="&lt;ponder&gt; &lt;/ponder&gt;"'),
        ("<ponder depth=2>", 'reasoning="<ponder> </ponder>"'),
        ("ponder", 'reasoning="OPENING CLOSING"'),
        ("<1ponder>", 'reasoning="OPENING CLOSING"'),
        ("</ ponder>", 'reasoning="<ponder> </ponder>"'),
        ("< ponder>", 'reasoning="<ponder> </ponder>"'),
        ("<x:po.n-d_1>", 'reasoning="<x:po.n-d_1> </x:po.n-d_1>"'),
        ("<|/ponder|>", 'reasoning="<|ponder|> <|/ponder|>"'),
    ],
)
def test_the_option_for_a_mark_has_both_ends(mark, option):
    assert _option_for(mark) == option


def test_a_chat_as_text_ends_where_the_model_goes_on():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tea?"}]
    assert as_text(messages) == "system: Be brief.\nuser: Tea?\nassistant:"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mint <unused12>", "has a token that is no word, <unused12>: the server's tokenizer"),
        ("<ponder>Mint</ponder>", "in a tag that is not known, <ponder>: if the answer is in it"),
        ("Mint</ponder>", 'mark that is not known, </ponder>: .*reasoning="<ponder> </ponder>"'),
    ],
)
def test_each_kind_of_unknown_mark_has_its_way_out(text, words):
    kind, reason = read(Reply(text)).fault
    assert kind is UnknownMark
    assert re.search(words, reason)


REASONS = {
    None: (
        "",
        "stop",
        "stop_sequence",
        "stop_token",
        "eos",
        "eos_token",
        "end_turn",
        "complete",
        "completed",
        "endoftext",
        "finish",
        "finished",
    ),
    CutOff: (
        "length",
        "max_tokens",
        "max_token",
        "max_length",
        "max_output_tokens",
        "model_length",
        "token_limit",
        "limit",
        "error_limit",
        "context_length_exceeded",
        "model_context_window_exceeded",
    ),
    Filtered: (
        "content_filter",
        "content_filtered",
        "filtered",
        "safety",
        "image_safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "guardrail_intervened",
        "error_toxic",
        "sensitive",
        "language",
    ),
    Refused: ("refusal",),
    Unfinished: ("error", "tool_calls", "unknown"),
}
REASONS_AND_KINDS = []
for kind, reasons in REASONS.items():
    for reason in reasons:
        REASONS_AND_KINDS.append((kind, reason))


@pytest.mark.parametrize(("kind", "reason"), REASONS_AND_KINDS)
def test_each_reason_for_an_end_has_its_meaning_in_any_case(kind, reason):
    for spelt in (reason, reason.upper(), f" {reason} "):
        fault = read(Reply("Mint.", finish_reason=spelt)).fault
        assert (None if fault is None else fault[0]) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"tool_calls": [{"id": "1"}]}, Unfinished),
        ({"function_call": {"name": "search"}}, Unfinished),
        ({"tool_calls": []}, None),
        ({"refusal": "I can't help."}, Refused),
    ],
)
def test_what_a_message_says_besides_its_text_counts(message, kind):
    fault = read(Reply.of(said("Mint.", **message).body)).fault
    assert (None if fault is None else fault[0]) is kind


def test_a_limit_that_is_reached_in_a_tool_call_is_a_limit():
    reply = Reply.of(said("Mi", finish="length", tool_calls=[{"id": "1"}]).body)
    assert read(reply).fault[0] is CutOff


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_without_a_text_is_told_as_such(field):
    reply = Reply.of(said("", **{field: "Hm."}).body)
    assert reply.reasoned
    assert read(reply).fault[0].__name__ == "OnlyReasoning"


def test_samples_and_chains_draw_with_seeds_of_their_own(model, server):
    (request,) = ask("a")
    made = model("seed=5")
    made.ask([replace(request, sample=1), replace(request, chain=2), replace(request, chain=1)])
    assert sorted(body["seed"] for body in server.bodies) == [6, 1005, 2005]


def test_the_schema_is_a_part_of_the_key():
    (request,) = ask("a")
    identity = {"provider": "openai", "model": "m", "structured": "on"}
    plain = {"provider": "openai", "model": "m"}
    schemas = [{"type": "object"}, {"type": "array"}]
    keys = set()
    for schema in schemas:
        structure = Structure("answer", schema)
        keys.add(replace(request, structure=structure).key(identity))
    assert len(keys) == 2
    assert request.key(identity) == request.key(plain)  # without one, it asks for the same
    assert request.key(plain) not in keys
