"""A completion is read while it is written: its words, what is never shown of it, broken streams,
and a reader who fails."""

import json
import threading
from pathlib import Path

import pytest
from chat_server import Answer, ask, piece, refused, said, streamed
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.events import Observer, observed_by
from pyterrier_ikat.llms import StageError, streaming
from pyterrier_ikat.llms.failures import CutOff
from pyterrier_ikat.llms.request import Reading, Reply, read
from pyterrier_ikat.llms.streaming import Reader, Writing, seen_so_far

RECORDED = Path(__file__).with_name("recorded_streams")
TURN = ikat.conversation([{"role": "user", "content": "Which tea?"}])


class Follows(Observer):
    """Keeps what models write, and calls ``then`` with it."""

    def __init__(self, then=lambda text: None):
        self.texts, self.then = [], then

    def follow(self, step):
        return self._write

    def _write(self, text):
        if text != (self.texts or [""])[-1]:  # a slow machine is given the same again
            self.texts.append(text)
        self.then(text)


@pytest.fixture(autouse=True)
def every_piece(monkeypatch):
    """Each piece is looked at, however fast they come."""
    monkeypatch.setattr(streaming, "PAUSE", -1e9)


def followed(llm, then=lambda text: None):
    """The answer to a question, and what was seen of it before."""
    follows = Follows(then)
    with observed_by(follows):
        found = ikat.Answer(llm)(TURN)
    return found["qanswer"].item(), follows.texts


def test_words_are_seen_before_the_end_and_the_whole_is_kept(server, model, tmp_path):
    more = threading.Event()
    server.script = [streamed("Rooi", "bos", more, " has none.")]
    llm = model(f"cache={tmp_path / 'c.sqlite'}")
    answer, texts = followed(
        llm, lambda text: more.set() if text == "Rooibos" else None
    )  # without it, the server waits for a minute
    assert (answer, texts) == ("Rooibos has none.", ["Rooi", "Rooibos", "Rooibos has none."])
    assert {name: server.bodies[0][name] for name in ("stream", "stream_options")} == {
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    row = llm.ledger.frame().iloc[0]
    assert (row.calls, row.prompt_tokens, row.completion_tokens, row.failures) == (1, 7, 3, 0)
    assert followed(llm) == (answer, [])  # known: nothing is asked
    assert ikat.Answer(llm)(TURN)["qanswer"].item() == answer  # by whoever doesn't follow it, too
    assert server.calls == 1


def test_without_numbers_of_tokens_they_are_unknown(server, model):
    server.script = [streamed("Rooibos.", usage=None)]
    llm = model("cache=none")
    assert followed(llm)[0] == "Rooibos."
    row = llm.ledger.frame().iloc[0]
    assert row[["prompt_tokens", "completion_tokens", "cost"]].isna().all()


def test_a_broken_stream_is_asked_again_from_its_beginning(server, model, slept):
    server.script = [Answer(body=[piece("Rooibos has"), piece(" no")]), streamed("Mint.")]
    llm = model("cache=none")
    assert followed(llm) == ("Mint.", ["Rooibos has", "Rooibos has no", "Mint."])
    assert (llm.ledger.frame().iloc[0].retries, len(slept)) == (1, 1)


def test_a_complete_answer_survives_the_end_of_its_connection(server, model):
    server.script = [Answer(body=[piece("Mint."), piece(finish="stop")])]
    assert followed(model("cache=none"))[0] == "Mint."


def test_a_stream_that_never_ends_well_is_a_failure_that_says_so(server, model):
    server.respond = lambda body: Answer(body=[piece("Rooibos has")])
    with pytest.raises(
        StageError, match=r"the server's answer broke off before its end \(given up after 6 tries\)"
    ):
        followed(model("cache=none"))


def test_a_reader_who_fails_is_told_when_the_call_is_kept(server, model, tmp_path):
    class LostError(Exception):
        pass

    def lose(text):
        raise LostError

    server.script = [streamed("Rooibos", " has none.")]
    llm = model(f"cache={tmp_path / 'c.sqlite'}")
    with pytest.raises(LostError):
        followed(llm, lose)
    assert llm.ledger.frame()[["calls", "retries", "completion_tokens"]].values.tolist() == [
        [1, 0, 3]
    ]
    assert followed(llm) == ("Rooibos has none.", [])
    assert server.calls == 1


@pytest.mark.parametrize("refusal", ["stream is not supported", "Unknown field: stream_options"])
def test_a_server_that_cannot_stream_is_asked_for_the_whole(server, model, refusal):
    server.script = [refused(400, refusal), said("Rooibos.")]
    assert followed(model("cache=none")) == ("Rooibos.", [])
    assert "stream" not in server.bodies[1]


@pytest.mark.parametrize("reason", ["maximum context length is 8192 tokens", "content filter"])
def test_another_refusal_of_a_stream_is_not_asked_again(server, model, reason):
    server.script = [refused(400, reason), said("Rooibos.")]
    with pytest.raises(StageError, match=reason):
        followed(model("cache=none"))
    assert server.calls == 1


def test_a_server_that_ignores_the_wish_answers_as_a_whole(server, model):
    server.script = [said("Rooibos.")]
    assert followed(model("cache=none")) == ("Rooibos.", [])


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_an_event_ends_only_at_the_protocols_line_separators(server, model, sign):
    event = json.dumps(piece(f"Mint.{sign}Tea."), ensure_ascii=False)
    server.script = [Answer(body=[event, piece(finish="stop"), "[DONE]"])]
    llm = model("cache=none")
    assert followed(llm)[0] == f"Mint.{sign}Tea."
    assert server.calls == 1


@pytest.mark.parametrize(
    "event",
    [
        json.dumps({**piece("Roo"), "error": {"message": "late"}}),
        "{",
        "[1]",
        '"x"',
        '{"choices": 3}',
        '{"choices": [{"delta": {"content": 3}}]}',
        '{"error": {"message": "late"}}',
    ],
)
def test_what_is_no_event_of_a_completion_is_asked_again(server, model, event):
    server.script = [Answer(body=[piece("Roo"), event]), streamed("Mint.")]
    assert followed(model("cache=none"))[0] == "Mint."


def test_parts_of_other_servers(server, model):
    thinking = piece(content=[{"type": "thinking", "thinking": "hm"}])
    server.script = [
        streamed(piece(reasoning_content="hm, "), piece(reasoning_content="tea"), thinking, "Mint.")
    ]
    assert followed(model("cache=none")) == ("Mint.", ["Mint."])


def test_reasoning_is_never_seen(server, model):
    server.script = [
        streamed(*"<think>The user wants tea.</think>Mint [1]. [THINK]hm[/THINK]")
    ]  # sign by sign
    answer, texts = followed(model("cache=none"))
    assert answer == texts[-1] == "Mint [1]."
    assert texts == ["M", "Mi", "Min", "Mint", "Mint [1]", "Mint [1]."]


@given(st.text(st.sampled_from("ab <>/[]&;1think\n"), max_size=60), st.integers(1, 9))
def test_what_is_seen_last_is_the_beginning_of_what_is_read(text, size):
    """Whatever the pieces are: only marks that are still open may make the two differ."""
    told = [""]
    writing = Writing(told.append)
    for start in range(0, len(text), size):
        writing.add(text[start : start + size])
    found = read(Reply(text)).text
    assert found.startswith(told[-1]) or read(Reply(text)).fault


@pytest.mark.parametrize(
    ("name", "text", "finish"),
    [("whole", "drink rooibos", "stop"), ("cut", "on on on on on on on on", "length")],
)
def test_a_recorded_stream_of_a_real_server(server, model, name, text, finish):
    server.script = [
        Answer(
            body=(RECORDED / f"{name}.sse").read_bytes(),
            headers={"Content-Type": "text/event-stream"},
        )
    ]
    told = []
    reply = model("cache=none").backend.stream(ask("a")[0], told.append)
    assert (reply.text.strip(), reply.finish_reason) == (text, finish)
    assert reply.prompt_tokens is None or reply.prompt_tokens > 0
    assert told[-1].strip() == text
    assert (read(reply).fault or [None])[0] is (None if finish == "stop" else CutOff)


MARKS = (("<ponder>", "</ponder>"),)
WORDED = (("(thinks)", "(says)"), ("*begin*", "*end*"))
PICK = [{"role": "user", "content": "Write <pick>NAME</pick>."}]


@pytest.mark.parametrize(
    ("text", "reading", "seen"),
    [
        ("", Reading(), None),
        ("Mint", Reading(), "Mint"),
        ("Mint <", Reading(), "Mint"),
        ("Mint < 5", Reading(), "Mint < 5"),
        ("Mint [1", Reading(), "Mint"),
        ("Mint [1] is", Reading(), "Mint [1] is"),
        ("Mint <<1>", Reading(), "Mint"),
        ("<think>hm", Reading(), None),
        ("<think>hm</think>Mint", Reading(), "Mint"),
        ("<ponder>hm", Reading(), None),
        ("<ponder>hm</ponder>Mint", Reading(), None),
        ("<ponder>hm", Reading(MARKS), None),
        ("<ponder>hm</ponder>Mint", Reading(MARKS), "Mint"),
        ("(thi", Reading(WORDED), None),
        ("(thinks) hm", Reading(WORDED), None),
        ("(thinks) hm (says) Mint", Reading(WORDED), "Mint"),
        ("Mint (THINKS", Reading(WORDED), "Mint"),
        ("Mint (think) it", Reading(WORDED), "Mint (think) it"),
        ("Mint `(thinks)", Reading(WORDED), "Mint"),
        ("Mint *be", Reading(WORDED), "Mint"),
        ("Mint *be*", Reading(WORDED), "Mint *be"),
        ("*begin* hm", Reading(WORDED), None),
        ("<pick>Mint</pick> and", Reading((), PICK), None),
        ("<PICK>Mint", Reading((), PICK), None),
        ("Mint <pick>tea</pick> and", Reading((), PICK), "Mint <pick>tea</pick> and"),
        ("<b>Mint</b> and", Reading(), "<b>Mint</b> and"),
        ("HERE IS my", Reading(), None),
        ("Here is my thought process: hm", Reading(), None),
        ("Here is my thought process: hm. Here is my response: Mint", Reading(), "Mint"),
        ("Analysis", Reading(), None),
        ("Mint `<think>", Reading(), "Mint"),
        ("Mint `<think>` it", Reading(), "Mint `<think>` it"),
        ("Mint <think>hm", Reading(), None),
    ],
)
def test_what_is_seen_of_an_unfinished_text(text, reading, seen):
    found = seen_so_far(text, reading)
    assert (found if found is None else found.strip()) == seen


def test_a_text_is_read_once_a_pause_and_shown_when_it_grows(monkeypatch):
    now, shown = [100.0], []
    monkeypatch.setattr(streaming, "PAUSE", 0.02)
    monkeypatch.setattr(streaming.time, "monotonic", lambda: now[0])
    writing = Writing(shown.append)
    writing.add("Roo")
    writing.add("ib")
    now[0] += 0.019
    writing.add("os")
    assert shown == ["Roo"]
    now[0] += 0.001
    writing.add(" has")
    assert shown == ["Roo", "Rooibos has"]
    now[0] += 1.0
    writing.add("")
    now[0] += 1.0
    writing.add("\x00 none")
    assert shown == ["Roo", "Rooibos has", "Rooibos has none"]


def test_a_writer_reads_as_the_finished_text_is_read():
    shown = []
    writing = Writing(shown.append, Reading(MARKS))
    for part in ("<ponder>hm", "</ponder>", "Mint"):
        writing.add(part)
    assert shown == ["Mint"]


def test_a_reader_that_fails_is_left_alone_with_its_error():
    seen = []
    error = ZeroDivisionError()

    def write(text):
        seen.append(text)
        if text == "b":
            raise error

    reader = Reader(write)
    for text in "abc":
        reader(text)
    assert (seen, reader.error) == (["a", "b"], error)
    with pytest.raises(KeyboardInterrupt):
        Reader(interrupted)("a")


def interrupted(text):
    raise KeyboardInterrupt
