"""The history that a turn sees, and what is omitted of it where the prompt is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_question import ASKED, answer_of, turn

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation
from pyterrier_ikat.live.answering import StillTooLong, _halved, shortened
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError
from pyterrier_ikat.llms.failures import Refused, TooLong, Unavailable

messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=60)), max_size=12
)


@given(messages, st.integers(0, 120))
def test_the_newest_exchanges_stay(said, tokens):
    history = [{"role": role, "content": text} for role, text in said]
    frame = conversation(turn(before=history))
    seen, omitted = shortened(frame, tokens)
    kept = seen["qhistory"][0]
    assert history[omitted:] == kept
    assert sum(len(one["content"]) for one in kept) <= 4 * tokens
    assert not omitted or not kept or kept[0]["role"] == "user"
    starts = [place for place in range(omitted) if history[place]["role"] == "user"]
    if starts:
        more = history[starts[-1] :]  # one exchange more would be too long
        assert sum(len(one["content"]) for one in more) > 4 * tokens
    assert frame["qhistory"][0] == history


HISTORY = [
    {"role": "assistant", "content": "a" * 8},
    {"role": "user", "content": "b" * 12},
    {"role": "assistant", "content": "c" * 4},
    {"role": "user", "content": "d" * 16},
]


@pytest.mark.parametrize(
    ("tokens", "omitted"),
    [(None, 0), (11, 0), (10, 0), (9, 1), (8, 1), (7, 3), (4, 3), (3, 4), (0, 4)],
)
def test_history_is_omitted_by_whole_exchanges(tokens, omitted):
    turn = ikat.conversation([*HISTORY, *ASKED])
    seen, number = shortened(turn, tokens)
    assert (seen["qhistory"][0], number) == (HISTORY[omitted:], omitted)


class Rejects(Backend):
    """Fails with each of these, and then answers."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.model = "rejects"
        self.replays = False
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}

    def complete(self, requests):
        replies = []
        for _ in requests:
            if self.failures:
                replies.append(self.failures.pop(0))
            else:
                replies.append(Reply("Mint."))
        return replies


LONG = TooLong("answer", "chat_3", "the prompt is long")


def test_each_attempt_has_half_of_the_tokens_that_were_sent():
    steps = []
    turn = answer_of(
        ikat.Answer(LLM(Rejects(LONG, LONG))), [*HISTORY, *ASKED], history=100, tell=steps.append
    )
    limits = [step.split()[-4] for step in steps if "too long" in step]
    assert (limits, turn.more, turn.omitted) == (["5", "2"], {"history": 2}, 4)
    assert (turn.spend.calls, turn.spend.unanswered, len(turn.asked)) == (1, 2, 3)
    limited = answer_of(ikat.Answer(LLM(Rejects(LONG))), [*HISTORY, *ASKED], history=6)
    assert limited.more == {"history": 3}


def test_one_token_of_history_is_tried_without_it():
    said = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": ""}]
    turn = answer_of(ikat.Answer(LLM(Rejects(LONG))), [*said, *ASKED])
    assert (turn.more, turn.response) == ({"history": 0}, "Mint.")
    with pytest.raises(StillTooLong, match="the prompt is long, also without history") as raised:
        answer_of(ikat.Answer(LLM(Rejects(LONG, LONG))), [*said, *ASKED])
    assert raised.value.__cause__ is None
    with pytest.raises(StageError):
        answer_of(ikat.Answer(LLM(Rejects(Refused("answer", "chat_1", "No.")))))


SECOND_LONG = TooLong("answer", "chat_1", "the second prompt is long")


@pytest.mark.parametrize("others", [[], [Refused("answer", "chat_1", "No.")]])
def test_one_prompt_too_long_among_failures_is_retried(others):
    said = [{"role": "user", "content": "a" * 40}, {"role": "assistant", "content": "b" * 40}]
    frame = ikat.conversation([*said, *ASKED])
    failures = StageError("answer", [*others, SECOND_LONG])
    halves = {None: 10, 100: 10, 20: 10, 9: 4, 1: 0}
    assert {limit: _halved(failures, frame, limit) for limit in halves} == halves
    with pytest.raises(StillTooLong, match="the second prompt is long, also without history"):
        _halved(failures, frame, 0)
    down = StageError("answer", [Unavailable("answer", "chat_1", "it is down")])
    with pytest.raises(StageError):
        _halved(down, frame, 0)
