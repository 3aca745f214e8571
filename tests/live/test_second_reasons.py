"""What the last stage alone says of an answer, and the second of several reasons and failures."""

from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.events import follower, repaired
from pyterrier_ikat.events import shortened as cut_to
from pyterrier_ikat.live.answering import StillTooLong, _halved, _Watch, answer
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.llms.failures import Refused, TooLong, Unavailable
from pyterrier_ikat.study.systems import System

ASKED = [{"role": "user", "content": "Which tea?"}]


class Writes(ikat.Operator):
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
    first = Writes("Draft.", ("write", "Dr"), ("repair", ["the first stage failed"]))
    last = Writes(
        "Mint.",
        ("write", " I can "),
        ("repair", ["it refused in turn chat_1", "it is down"]),
        ("repair", ["it was cut off in turn chat_1"]),
    )
    turn = answered(first, last, write=shown.append)
    assert shown == ["I can"]
    assert turn.more == {"replaced": "it refused; it is down; it was cut off"}
    kept = Writes("Mint.", ("write", "Mi"), ("repair", ["it is down"]))
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
    of_first = Writes("Draft.", *[("cut", words) for words in first])
    of_last = Writes("Mint.", *[("cut", words) for words in last])
    turn = answered(of_first, of_last, tell=told.append)
    assert [step for step in told if "shortened" in step] == steps
    assert turn.more == more


def test_what_is_written_again_is_not_shortened_so_far():
    turn = answered(Writes("Mint.", ("cut", 5), ("write", "Mint.")), write=lambda text: None)
    assert turn.more == {}
    turn = answered(Writes("Mint.", ("write", "Mint."), ("cut", 5)), write=lambda text: None)
    assert turn.more == {"shortened": 5}


def test_a_retry_is_told_with_its_number():
    told = []
    watch = _Watch(told.append, None)
    watch.wait(1, 4)
    watch.wait(1, 4)
    watch.wait(2, 4)
    assert told == [
        "waiting for try 2 of 4: the language model does not answer",
        "waiting for try 3 of 4: the language model does not answer",
    ]
    _Watch(None, None).wait(1, 4)


def watched(*steps):
    """The record of a watch that saw these frames go in and out."""
    watch = _Watch(None, None)
    for inp, out in steps:
        watch.end(SimpleNamespace(stage=None, inp=inp, out=out, outer=None))
    return watch.record()


def test_the_first_row_has_the_newest_texts():
    turn = pd.DataFrame({"qid": ["q"], "qutterance": ["Tea?"]})
    rows = pd.DataFrame({"qid": ["q"] * 2, "qanswer": ["one", "two"], "qrewrite": ["a", "b"]})
    single = pd.DataFrame({"qid": ["q"], "qanswer": ["three"]})
    record = watched((turn, rows), (turn, None), (turn, single), (turn, rows))
    assert record == {"queries": (), "draft": "one\n\nthree", "rewrite": "a", "statements": ()}
    respond = rows.assign(used=[True, False])
    assert watched((turn, respond))["draft"] == ""


LONG = TooLong("answer", "chat_1", "the second prompt is long")


@pytest.mark.parametrize("others", [[], [Refused("answer", "chat_1", "No.")]])
def test_one_prompt_too_long_among_failures_is_retried(others):
    said = [{"role": "user", "content": "a" * 40}, {"role": "assistant", "content": "b" * 40}]
    frame = ikat.conversation([*said, *ASKED])
    failures = StageError("answer", [*others, LONG])
    halves = {None: 10, 100: 10, 20: 10, 9: 4, 1: 0}
    assert {limit: _halved(failures, frame, limit) for limit in halves} == halves
    with pytest.raises(StillTooLong, match="the second prompt is long, also without history"):
        _halved(failures, frame, 0)
    down = StageError("answer", [Unavailable("answer", "chat_1", "it is down")])
    with pytest.raises(StageError):
        _halved(down, frame, 0)
