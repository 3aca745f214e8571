"""Bodies of answers as servers really send them: streams with other events, answers in the form
that was not asked for."""

import json

import httpx
import openai
import pytest
from chat_server import Answer, ask, piece, said
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.events import Observer, observed, observed_by
from pyterrier_ikat.llms import Transient
from pyterrier_ikat.llms.answers import DONE, data_of, lines_of, read_answer, read_stream
from pyterrier_ikat.llms.failures import Empty, Unanswered, Unavailable

ROO = json.dumps(piece("Roo"))
IBOS = json.dumps(piece("ibos"))
END = json.dumps(piece(finish="stop"))
NO_REASON = [
    '{"choices": [{"index": 0, "delta": {"content": "Roo"}}]}',
    '{"choices": [{"index": 0, "delta": {"content": "ibos"}, "finish_reason": ""}]}',
]
INDENTED = "\n".join(f"data: {line}" for line in json.dumps(piece("ibos"), indent=1).splitlines())
PING = json.dumps({"type": "ping"})

STREAMS = {
    "no reason, and its end": f"data: {NO_REASON[0]}\n\ndata: {NO_REASON[1]}\n\ndata: [DONE]\n\n",
    "retry": f"retry: 3000\n\ndata: {ROO}\n\nretry: 1\ndata: {IBOS}\n\ndata: {END}\n\n"
    f"data: [DONE]\n\n",
    "ids": f"id: 1\ndata: {ROO}\n\nid: 2\ndata: {IBOS}\n\nid: 3\ndata: {END}\n\ndata: [DONE]\n\n",
    "ping": f"event: ping\ndata: {PING}\n\ndata: {ROO}\n\nevent: ping\ndata: now\n\n"
    f"data: {IBOS}\n\ndata: {END}\n\ndata: [DONE]\n\n",
    "a ping without data": f"event: ping\n\ndata: {ROO}\n\ndata: {IBOS}\n\nevent: ping\n\n"
    f"data: {END}\n\ndata: [DONE]\n\n",
    "a ping of type alone": f"data: {PING}\n\ndata: {ROO}\n\ndata: {IBOS}\n\ndata: {END}\n\n"
    f"data: [DONE]\n\n",
    "comments": f": OPENROUTER PROCESSING\n\n:\n\ndata: {ROO}\n\n: keep-alive\n\n"
    f"data: {IBOS}\n: now\n\ndata: {END}\n\ndata: [DONE]\n\n",
    "empty data": f"data:\n\ndata: {ROO}\n\ndata: \n\ndata: {IBOS}\n\ndata: {END}\n\n"
    f"data: [DONE]\n\n",
    "named events": f"event: message\ndata: {ROO}\n\nevent: completion.chunk\ndata: {IBOS}\n\n"
    f"data: {END}\n\ndata: [DONE]\n\n",
    "a byte order mark": f"\ufeffdata: {ROO}\n\ndata: {IBOS}\n\ndata: {END}\n\ndata: [DONE]\n\n",
    "an event of several lines": f"data: {ROO}\n\n{INDENTED}\n\ndata: {END}\n\ndata: [DONE]\n\n",
    "no blank after the colon": f"data:{ROO}\n\ndata:{IBOS}\n\ndata:{END}\n\ndata:[DONE]\n\n",
    "no empty lines": f"data: {ROO}\ndata: {IBOS}\ndata: {END}\ndata: [DONE]\n",
    "no end of the last line": f"data: {ROO}\n\ndata: {IBOS}\n\ndata: {END}",
    "carriage returns": f"data: {ROO}\r\n\r\ndata: {IBOS}\r\n\r\ndata: {END}\r\n\r\ndata: "
    f"[DONE]\r\n\r\n",
    "no end after the reason": f"data: {ROO}\n\ndata: {IBOS}\n\ndata: {END}\n\n",
    "blank lines first": f"\n\n\ndata: {ROO}\n\ndata: {IBOS}\n\ndata: {END}\n\ndata: [DONE]\n\n",
    "one event with the whole": f"data: {json.dumps(said('Rooibos').body)}\n\ndata: [DONE]\n\n",
    "unknown fields": f"data: {ROO}\nfoo: bar\n\ndata: {IBOS}\n\ndata: {END}\n\ndata: [DONE]\n\n",
}
SSE, JSON, PLAIN = (
    {"Content-Type": kind} for kind in ("text/event-stream", "application/json", "text/plain")
)


def streamed(made, *texts):
    """The outcomes of requests whose reader follows what is written."""

    class Follows(Observer):
        def follow(self, step):
            return lambda text: None

    with observed_by(Follows()):
        return observed(object(), None, lambda: made.ask(ask(*texts)))


def asked(made, *texts):
    return made.ask(ask(*texts))


@pytest.mark.parametrize("way", [asked, streamed])
@pytest.mark.parametrize("headers", [SSE, JSON, PLAIN])
@pytest.mark.parametrize("name", STREAMS)
def test_a_good_stream_is_read_with_one_call(model, server, way, headers, name):
    server.respond = lambda body: Answer(200, STREAMS[name].encode(), headers)
    (completion,) = way(model("cache=none"), "a")
    assert (completion.text, server.calls) == ("Rooibos", 1)
    assert server.bodies[0].get("stream", False) == (way is streamed)


@pytest.mark.parametrize("way", [asked, streamed])
@pytest.mark.parametrize("headers", [SSE, JSON, PLAIN])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n   \n"])
def test_a_completion_as_json_is_read_whatever_it_is_called(model, server, way, headers, before):
    server.respond = lambda body: Answer(
        200, before.encode() + json.dumps(said("Rooibos", model="m").body).encode(), headers
    )
    (completion,) = way(model("cache=none"), "a")
    assert (completion.text, completion.prompt_tokens, server.calls) == ("Rooibos", 7, 1)


@pytest.mark.parametrize("way", [asked, streamed])
def test_a_stream_without_an_end_and_a_reason_is_broken(model, server, way):
    server.respond = lambda body: Answer(200, f"data: {ROO}\n\ndata: {IBOS}\n\n".encode(), SSE)
    (failure,) = way(model("cache=none retries=1"), "a")
    assert type(failure) is Unavailable
    assert "broke off" in failure.reason
    assert server.calls == 2


@pytest.mark.parametrize(
    "event",
    [
        'event: error\ndata: {"message": "upstream broke"}',
        'event: error\ndata: {"error": {"message": "upstream broke"}}',
        'data: {"error": {"message": "upstream broke", "code": 502}, "choices": []}',
        'data: {"error": "upstream broke"}',
        "event: error\ndata: upstream broke",
    ],
)
def test_an_error_in_a_stream_is_quoted_and_no_completion(model, server, event):
    server.respond = lambda body: Answer(
        200, f"data: {ROO}\n\n{event}\n\ndata: [DONE]\n\n".encode(), SSE
    )
    (failure,) = streamed(model("cache=none retries=0"), "a")
    assert type(failure) is Unavailable
    assert "It says: upstream broke" in failure.reason


def test_a_silent_stream_is_empty_and_one_without_choices_none(model, server):
    server.script = [
        Answer(200, b'data: {"choices": [{"delta": {}}]}\n\ndata: [DONE]\n\n', SSE),
        Answer(200, b"data: [DONE]\n\n", SSE),
    ]
    made = model("cache=none retries=0")
    assert type(streamed(made, "a")[0]) is Empty
    assert "holds no completion" in streamed(made, "a")[0].reason


def test_usage_is_read_where_moonshot_tells_it():
    last = {
        "choices": [
            {
                "index": 0,
                "delta": {},
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 4, "completion_tokens": 2},
            }
        ]
    }
    assert read_answer([f"data: {ROO}", f"data: {json.dumps(last)}"])["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 2,
    }


def test_reason_and_usage_survive_a_cut_connection_after_them():
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 4}})
    lines = [f"data: {event}" for event in (ROO, IBOS, END, usage)]
    found = read_answer(lines)
    assert (found["choices"][0]["finish_reason"], found["usage"]) == ("stop", {"prompt_tokens": 4})
    cut = read_answer([*lines[:3], 'data: {"choi'])
    assert cut["choices"][0]["message"]["content"] == "Rooibos"
    for broken in (lines[:2], [*lines[:2], 'data: {"choi']):
        with pytest.raises(Transient):
            read_answer(broken)


@given(
    st.lists(st.text(st.sampled_from("a\u2028\u2029\x85\x0b\x0c\x1e ü"))),
    st.integers(1, 9),
    st.sampled_from(["\n", "\r\n"]),
)
def test_only_the_ends_of_the_protocol_end_a_line(lines, size, end):
    body = "".join(line + end for line in lines).encode()
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    found = list(lines_of(pieces))
    assert found[-1] == ""
    assert found[:-1] == lines


@pytest.mark.parametrize(
    ("events", "data"),
    [
        (['data: {"a": 1}'], [{"a": 1}]),
        (['data: {"a": 1}', "data: [DONE]", 'data: {"b": 1}'], [{"a": 1}, "[DONE]"]),
        (["data: [DONE] and more"], ["[DONE]"]),
        (['data: {"a":', "data: 1}"], [{"a": 1}]),
        (['data: "a', 'data: b"', ""], None),
        (["data: 0", "", "data: false"], [0, False]),
        (["event: error", "data: down", ""], [{"error": "down"}]),
        (["event: error", "data: down"], [{"error": "down"}]),
        (["event:error", 'data: {"code": 1}'], [{"error": {"code": 1}}]),
        (["event: error", 'data: ["down"]'], [{"error": ["down"]}]),
        (["event: error", 'data: {"error": 1}'], [{"error": 1}]),
        (['data: {"a": 1}', "", "data: [1", ""], None),
        (["data: half"], []),
        (["data: half", ""], None),
        (["event: ping", "data: half", "", "data: 1"], [1]),
        (["event: ping", "data: 7", "data: 8", "", "data: 1"], [1]),
        (["event: keep-alive", "data: {}", "", "event: error", 'data: "x"'], [{"error": "x"}]),
        (["event: error", "", "data: {}"], [{}]),
        ([": comment", "id: 4", "retry: 5", "odd", "data:6"], [6]),
    ],
    ids=str,
)
def test_the_data_of_events_is_their_json(events, data):
    if data is None:
        with pytest.raises(json.JSONDecodeError):
            list(data_of(events))
    else:
        assert list(data_of(events)) == data


def test_bytes_that_are_no_text_are_replaced_and_blanks_stay():
    assert list(lines_of([b"\xff a \r", b"\n", b"\xef\xbb\xbfb"])) == ["\ufffd a ", "\ufeffb"]
    assert list(lines_of([b"\xef\xbb\xbf\r\n"])) == ["", ""]
    assert list(lines_of([])) == [""]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (["", '{"a":', " 1}"], {"a": 1}),
        (["  ", "retry: 5", "data: [DONE]"], {"choices": []}),
        ([": wait", "data: [DONE]"], {"choices": []}),
        (["[1]"], [1]),
    ],
)
def test_a_body_is_json_or_events(body, answer):
    assert read_answer(body) == answer


@pytest.mark.parametrize("body", [[], [""], ["hello"], ["date: 1"]])
def test_a_body_of_neither_is_told(body):
    with pytest.raises(ValueError, match="Expecting value"):
        read_answer(body)


def event(text=None, finish=None, usage=None, **delta):
    """An event of a chat completion."""
    if text is not None:
        delta["content"] = text
    found = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return found if usage is None else {**found, "usage": usage}


def whole(content="", refusal="", finish=None, fields=None, choice=None, **message):
    """A completion that was read from a stream."""
    ends = {} if finish is None else {"finish_reason": finish}
    read = {"content": content, "refusal": refusal, **message}
    return {**(fields or {}), "choices": [{"message": read, **ends, **(choice or {})}]}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
ZEROS = {"prompt_tokens": 0, "completion_tokens": 0}
THOUGHT = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ([event("a"), event("b", "stop")], whole("ab", finish="stop")),
        ([event("a", "stop"), event("b")], whole("ab", finish="stop")),
        ([event("a"), DONE], whole("a")),
        ([event("a"), DONE, event("b")], whole("a")),
        ([event(None), DONE], whole()),
        (
            [event("a", "stop", USAGE, refusal="n"), event(refusal="o", usage=ZEROS)],
            whole("a", "no", "stop", {"usage": USAGE}),
        ),
        ([{"model": "m", **event("a", "stop")}], whole("a", finish="stop", fields={"model": "m"})),
        ([{"model": "", **event("a", "stop")}], whole("a", finish="stop")),
        (
            [
                {"model": "m", **event("a", "x", {"prompt_tokens": 7, "completion_tokens": 1})},
                {"model": "n", **event("b", "stop", USAGE)},
            ],
            whole("ab", finish="stop", fields={"model": "n", "usage": USAGE}),
        ),
        (
            [{"choices": event("a", "stop")["choices"] + event("b", "length")["choices"]}],
            whole("a", finish="stop"),
        ),
        ([event("a", "stop", tool_calls=[1])], whole("a", finish="stop", tool_calls=True)),
        ([event("a", "stop", function_call={})], whole("a", finish="stop")),
        ([event("a", "x", function_call={"f": 1})], whole("a", finish="x", function_call=True)),
        ([event("a", "x", reasoning="hm")], whole("a", finish="x", reasoning=True)),
        ([event("a", "x", reasoning_content="h")], whole("a", finish="x", reasoning_content=True)),
        ([event(THOUGHT, "x")], whole("a", finish="x", reasoning=True)),
        ([event("a"), {"choices": [{"message": {"content": "b"}}]}, DONE], whole("a")),
        ([{"choices": [{"message": {"content": "b"}}]}, DONE], whole("b")),
        ([{"choices": [{"delta": None, "error": 5}]}, DONE], whole(choice={"error": 5})),
        (
            [event("a"), {"error": {"code": 1}}, event("b")],
            whole("a", fields={"error": {"code": 1}}),
        ),
        ([{"error": 1}], {"error": 1, "choices": []}),
        ([{"error": 1, "choices": []}], {"error": 1, "choices": []}),
        ([{"error": 1, **event("a", "stop")}], {"error": 1, "choices": []}),
        ([{"usage": USAGE}, DONE], {"usage": USAGE, "choices": []}),
        ([{"model": "m"}, {"choices": 5, "x": 1}], {"model": "m", "choices": 5, "x": 1}),
        ([{"model": "m"}, {"choices": {"a": 1}, "model": "n"}], None),
        ([["no event"]], ["no event"]),
        ([{"choices": [{"delta": "text"}]}], {"choices": [{"delta": "text"}]}),
        ([event(5)], event(5)),
        ([event([{"text": "a"}])], event([{"text": "a"}])),
    ],
    ids=str,
)
def test_events_come_to_the_answer_that_they_are_parts_of(events, answer):
    if answer is None:
        answer = {"choices": {"a": 1}, "model": "n"}
    assert read_stream(events) == answer


@pytest.mark.parametrize(
    ("events", "paid"),
    [
        ([], []),
        ([event("a")], []),
        ([event("a", usage=USAGE)], [7]),
        ([event("a", ""), {"usage": USAGE}], [7]),
        ([{"model": "m"}], []),
    ],
    ids=str,
)
def test_a_stream_that_ends_before_its_answer_says_what_it_cost(events, paid):
    with pytest.raises(Transient, match="broke off") as raised:
        read_stream(events)
    assert [reply.prompt_tokens for reply in raised.value.paid] == paid
    assert raised.value.unanswered is Unanswered.LOST


LOST = openai.APIConnectionError(request=httpx.Request("POST", "http://h"))


def breaking(error, *events):
    """Events, and then an error of the connection or of the JSON."""
    yield from events
    raise error


@pytest.mark.parametrize("error", [LOST, ValueError("half")], ids=["lost", "half a line"])
def test_a_break_before_the_usage_is_raised_as_it_is(error):
    with pytest.raises(type(error)) as raised:
        read_stream(breaking(error, event("a")))
    assert raised.value is error


@pytest.mark.parametrize("error", [LOST, ValueError("half")], ids=["lost", "half a line"])
def test_a_break_after_the_usage_is_paid_and_asked_again(error):
    with pytest.raises(Transient) as raised:
        read_stream(breaking(error, {"model": "m", **event("a", usage=USAGE)}))
    assert [(reply.model, reply.prompt_tokens) for reply in raised.value.paid] == [("m", 7)]


@pytest.mark.parametrize("error", [LOST, ValueError("half")], ids=["lost", "half a line"])
def test_what_follows_an_error_in_a_stream_is_not_read(error):
    assert read_stream(breaking(error, {"error": 1})) == {"error": 1, "choices": []}


def test_only_a_lost_connection_after_the_reason_loses_nothing():
    assert read_stream(breaking(LOST, event("a", "stop"))) == whole("a", finish="stop")
    with pytest.raises(ValueError, match="half"):
        read_stream(breaking(ValueError("half"), event("a", "stop")))


def test_each_piece_of_a_stream_is_shown_before_the_next():
    class Shows:
        def add(self, text):
            shown.append(text)

    shown = []

    def coming():
        yield event("a")
        assert shown == ["a"]
        yield event(reasoning="hm")
        yield event("b", "stop")
        assert shown == ["a", "b"]

    assert read_stream(coming(), Shows())["choices"][0]["message"]["content"] == "ab"
    assert read_answer([f"data: {json.dumps(event('c'))}", "data: [DONE]"], Shows())
    assert shown == ["a", "b", "c"]
