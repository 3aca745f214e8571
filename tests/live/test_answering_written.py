"""What is seen of an answer while it is written, and what replaces it after the check."""

import re
import threading
from typing import ClassVar

import pyterrier as pt
import pytest
from chat.chats import Terminal, Typed
from fakes import Types, scripted
from one_question import ASKED, answer_of

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import object_frame
from pyterrier_ikat.errors import IkatError, UsageError
from pyterrier_ikat.events import follower, repaired
from pyterrier_ikat.events import shortened as cut_to
from pyterrier_ikat.live.answering import answer
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.llms import LLM, Reply
from pyterrier_ikat.llms.failures import Unavailable
from pyterrier_ikat.study.systems import System

PASSAGE = "Rooibos is red. It has no caffeine."


def finds(frame):
    return frame.merge(
        object_frame({"docno": ["d1"], "text": [PASSAGE], "score": [1.0], "rank": [0]}), how="cross"
    )


def responds(*texts, **options):
    """A system whose last stage writes these texts, and then the last one."""
    import pyterrier as pt

    model = LLM(Types([*texts[:-1], Reply(texts[-1]) if isinstance(texts[-1], str) else texts[-1]]))
    return ikat.Rewrite(scripted("rooibos")[0]) >> pt.apply.generic(finds) >> ikat.Respond(
        model, **options
    ), model


def followed(system):
    told = []
    return answer(System.of(system, "mine"), ASKED, write=told.append), told


def test_the_last_stage_is_read_while_it_is_written_and_no_other():
    system, model = responds("Rooi", "Rooibos.", "Rooibos. Red.")
    turn, told = followed(system)
    assert (turn.response, told, turn.more) == ("Rooibos. Red.", ["Rooi", "Rooibos."], {})
    assert model.backend.followed == ["respond"]
    first = Types(["Dr", Reply("Draft.")])
    turn, told = followed(ikat.Answer(LLM(first)) >> responds("Tea.")[0])
    assert (first.followed, told) == ([], [])


def test_whoever_does_not_follow_gets_it_checked():
    system, model = responds("Rooi", "Rooibos.")
    assert answer(System.of(system, "mine"), ASKED).response == "Rooibos."
    assert model.backend.followed == []


@pytest.mark.parametrize(
    ("texts", "options", "response", "why"),
    [
        (
            ("I can", "I'm sorry, but I can't help with that."),
            {"on_error": "fallback"},
            PASSAGE,
            "the model refused: .*",
        ),
        (
            ("Half an", Reply("Half an", finish_reason="length")),
            {"on_error": "fallback"},
            PASSAGE,
            "the completion was cut off .*",
        ),
        (
            ("Half", Unavailable("respond", "chat_1", "it is down")),
            {"on_error": "fallback"},
            PASSAGE,
            "it is down",
        ),
        (
            ("Tea.\n\n# About the user", "Tea.\n\n# About the user\nI run."),
            {},
            "Tea.",
            "it holds more than an answer",
        ),
    ],
)
def test_a_text_that_fails_its_check_is_replaced_with_a_reason(texts, options, response, why):
    turn, told = followed(responds(*texts, **options)[0])
    assert told == [texts[0]]
    assert turn.response == response
    assert re.fullmatch(why, turn.more["replaced"])


@pytest.mark.parametrize("follows", [True, False])
def test_a_long_answer_stays_short_while_its_call_goes_on(follows):
    texts = ("One two.", "One two. Three four", "One two. Three four. Five.")
    system, model = responds(*texts, "One two. Three four. Five six.", words=3)
    told = []
    steps = []
    turn = answer(
        System.of(system, "mine"), ASKED, tell=steps.append, write=told.append if follows else None
    )
    assert (turn.response, turn.more) == ("One two.", {"shortened": 3})
    assert told == (["One two."] * 3 if follows else [])
    assert steps[-1] == "shortened to 3 words"
    assert model.ledger.frame()["calls"].sum() == 1  # it is finished and kept, as in a run


def test_a_shorter_second_try_is_not_called_shortened():
    system, _ = responds("One two. Three four.", "", "One.", "One.", words=3)
    assert followed(system)[0].more == {}


def test_the_words_of_a_response_are_limited_in_a_live_chat():
    system, _ = responds("One two. Three four.", "One two. Three four.")
    chat = Chat(system, words=2)
    assert chat.say("Which tea?").response == "One two."
    with pytest.raises(UsageError, match="words"):
        Chat(ikat.Answer(scripted("x")[0]), words=2)


def test_without_a_fallback_the_error_is_the_reason():
    with pytest.raises(IkatError, match="the model refused"):
        followed(responds("I can", "I'm sorry, but I can't help with that.")[0])


def test_in_a_terminal_the_checked_answer_replaces_the_draft():
    stream = Terminal()
    seen = threading.Event()

    def look():
        assert "Rooibos \x1b" not in stream.getvalue()
        assert "Rooibos  [2J" in stream.getvalue()
        seen.set()

    system, _ = responds(
        "Rooibos",
        "Rooibos \x1b[2J is",
        look,
        "word " * 5000 + "end",
        "Rooibos is. " + "More. " * 300,
        words=2,
    )
    talk(Chat(system), Typed("Which tea?"), Screen(stream, width=60))
    assert seen.is_set()
    shown = stream.getvalue()
    assert shown.count("word") < 60 * 100  # the end of it, not all
    assert "(shortened to 2 words)" in shown
    assert "Rooibos is." in shown.partition("(shortened to")[2]
    assert "\x1b[2J" not in shown


def test_a_chat_tells_what_is_written():
    told = []
    chat = Chat(responds("Rooi", "Rooibos.")[0])
    assert chat.say("Which tea?", write=told.append).response == "Rooibos."
    assert told == ["Rooi"]


def test_a_reason_names_no_turn_and_all_reasons_are_told():
    found = object_frame({"docno": ["d1"], "text": ["Mint cools."], "score": [1.0], "rank": [0]})
    finds = pt.apply.generic(lambda frame: frame.merge(found, how="cross"))
    model = LLM(Types(["I can", Reply("I'm sorry, but I can't help with that.")]))
    shown = []
    turn = answer_of(finds >> ikat.Respond(model, on_error="fallback"), write=shown.append)
    assert (turn.response, shown) == ("Mint cools.", ["I can"])
    assert turn.more["replaced"].startswith("the model refused")
    assert "chat_1" not in turn.more["replaced"]
    same = LLM(Types(["Mint", Reply("Mint cools [1].")]))
    turn = answer_of(finds >> ikat.Respond(same), write=shown.append)
    assert (turn.marked, turn.more) == ("Mint cools [1].", {})


class WritesAndRepairs(ikat.Operator):
    """Shows a text, gives reasons why it was replaced, and says how it cuts its response."""

    schematic: ClassVar = {"label": "Writes"}

    def __init__(self, text, *work):
        super().__init__()
        self.text = text
        self.work = work

    def while_written(self, frame):
        return str.strip

    def transform(self, inp):
        if not len(inp):
            return inp
        write = follower()
        for act, argument in self.work:
            if act == "repair":
                repaired(argument)
            elif act == "cut":
                cut_to(argument)
            elif write is not None:
                write(argument)
        return inp.assign(qanswer=self.text)


def answered(*stages, **options):
    pipeline = stages[0]
    for stage in stages[1:]:
        pipeline = pipeline >> stage
    return answer(System.of(pipeline, "mine"), ASKED, **options)


def test_all_reasons_of_the_last_stage_are_told_and_no_others():
    shown = []
    first = WritesAndRepairs("Draft.", ("write", "Dr"), ("repair", ["the first stage failed"]))
    last = WritesAndRepairs(
        "Mint.",
        ("write", " I can "),
        ("repair", ["it refused in turn chat_1", "it is down"]),
        ("repair", ["it was cut off in turn chat_1"]),
    )
    turn = answered(first, last, write=shown.append)
    assert shown == ["I can"]
    assert turn.more == {"replaced": "it refused; it is down; it was cut off"}
    kept = WritesAndRepairs("Mint.", ("write", "Mi"), ("repair", ["it is down"]))
    assert answered(kept, write=shown.append).more == {}  # it begins with what was shown


@pytest.mark.parametrize(
    ("first", "last", "more", "steps"),
    [
        ((5,), (), {}, []),
        ((), (5,), {"shortened": 5}, ["shortened to 5 words"]),
        ((), (1,), {"shortened": 1}, ["shortened to 1 word"]),
        ((), (5, None), {}, ["shortened to 5 words"]),
        ((3,), (None, 4), {"shortened": 4}, ["shortened to 4 words"]),
    ],
)
def test_only_the_last_stage_shortens_an_answer(first, last, more, steps):
    told = []
    of_first = WritesAndRepairs("Draft.", *[("cut", words) for words in first])
    of_last = WritesAndRepairs("Mint.", *[("cut", words) for words in last])
    turn = answered(of_first, of_last, tell=told.append)
    assert [step for step in told if "shortened" in step] == steps
    assert turn.more == more


def test_what_is_written_again_is_not_shortened_so_far():
    turn = answered(
        WritesAndRepairs("Mint.", ("cut", 5), ("write", "Mint.")), write=lambda text: None
    )
    assert turn.more == {}
    turn = answered(
        WritesAndRepairs("Mint.", ("write", "Mint."), ("cut", 5)), write=lambda text: None
    )
    assert turn.more == {"shortened": 5}
