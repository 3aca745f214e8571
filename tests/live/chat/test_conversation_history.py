"""Conversations longer than a model's context: what a turn sees, by rule."""

import pyterrier as pt
import pytest
from chats import AnswersFromList, AnswersWithPassage, chat_of

import pyterrier_ikat as ikat
from pyterrier_ikat.live.answering import StillTooLong, answer
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError
from pyterrier_ikat.llms.failures import TooLong
from pyterrier_ikat.study.systems import System


@pytest.mark.parametrize(("history", "seen"), [(0, 0), (None, 2), (8000, 2)])
def test_the_history_is_limited_to_its_tokens(history, seen):
    system = AnswersWithPassage("Rooibos.", "Mint.")
    chat = Chat(system, history=history)
    chat.say("Which tea?")
    chat.say("Or hot?")
    assert len(system.seen[-1]["qhistory"].iloc[0]) == seen
    assert chat.history == history


def test_the_default_history_is_8000_tokens():
    assert Chat(AnswersWithPassage()).history == 8000


def test_the_limit_of_history_is_none_or_not_negative():
    for history in (-1, -8000):
        with pytest.raises(ikat.UsageError, match=rf"history=\.\.\. is {history}: "):
            chat_of(history=history)
    for history, seen in [(0, 0), (None, 2)]:
        system = AnswersFromList("Rooibos.", "Mint.")
        chat = Chat(system, history=history)
        chat.say("Which tea?")
        assert chat.say("Or hot?").omitted == 2 - seen
        assert len(system.seen[1]["qhistory"].iloc[0]) == seen
        assert chat.history == history


class Small(Backend):
    """Rejects prompts longer than its room, and answers the others with 40 characters."""

    def __init__(self, room):
        self.room = room
        self.prompts = []
        self.model = "small"
        self.replays = False
        self.identity = {"provider": "fake", "model": f"small {id(self)}", "params": {}}

    def complete(self, requests):
        self.prompts += [request.messages[-1]["content"] for request in requests]
        return [self.reply(request) for request in requests]

    def reply(self, request):
        length = len(request.messages[-1]["content"])
        if length > self.room:
            return TooLong(request.stage, request.qid, f"the prompt has {length} characters")
        return Reply(
            f"Answer {len(self.prompts)}. ".ljust(40, "."),
            self.model,
            "stop",
            prompt_tokens=length // 4,
            completion_tokens=10,
        )


def chat_with(room, **options):
    backend = Small(room)
    return Chat(ikat.Answer(LLM(backend)), **options), backend


def say_questions(chat, times):
    return [chat.say(f"Question {number}?".ljust(40, "?")) for number in range(times)]


def test_40_turns_show_the_newest_exchanges_and_save_all(tmp_path):
    chat, backend = chat_with(10**9, history=100, out=tmp_path / "chat")
    turns = say_questions(chat, 40)
    assert [turn.omitted for turn in turns[:8]] == [
        0,
        0,
        0,
        0,
        0,
        0,
        2,
        4,
    ]  # 100 tokens: 5 exchanges of 80 characters
    assert turns[39].omitted == 2 * (39 - 5)
    assert len({len(prompt) for prompt in backend.prompts[10:]}) == 1
    assert "Question 38?" in backend.prompts[39]
    assert chat.saved == 40
    assert [bool(turn.asked) for turn in chat.turns] == [False] * 39 + [True]


def test_an_attempt_that_failed_leaves_no_draft():
    drafts = Small(10**9)
    finds = pt.apply.generic(lambda turns: turns.assign(docno="d1", rank=0, score=1.0))
    steps = ikat.Answer(LLM(drafts)) >> ikat.Rewrite(LLM(Small(900))) >> finds
    messages = [{"role": role, "content": "x" * 400} for role in ("user", "assistant")]
    turn = answer(System.of(steps, "s"), [*messages, {"role": "user", "content": "Which tea?"}])
    assert len(drafts.prompts) == 2
    assert turn.draft == "Answer 2. ".ljust(40, ".")


def test_a_too_long_prompt_halves_the_history_for_good():
    chat, backend = chat_with(10**9, history=None)
    say_questions(chat, 8)  # 7 exchanges: 560 characters, 140 tokens; the eighth makes them 160
    backend.room = len(backend.prompts[-1])
    steps = []
    turn = chat.say("And now?", steps.append)
    assert (chat.history, turn.omitted) == (80, 8)  # 4 of 8 exchanges
    assert (
        steps[1]
        == "the prompt is too long for the model: asking again with at most 80 tokens of history"
    )
    assert turn.response.startswith("Answer 10.")
    assert chat.spent.frame()[["calls", "unanswered", "failures"]].values.tolist() == [[1, 1, 1]]
    assert chat.say("And then?").omitted > 8


def test_what_the_first_attempt_has_paid_is_shown_with_the_turn():
    backend = Small(10**9)
    llm = LLM(backend)
    chat = Chat(ikat.Answer(llm) >> ikat.Rewrite(llm))
    say_questions(chat, 8)
    reply = backend.reply
    room = max(map(len, backend.prompts))
    too_long = TooLong("rewrite", "chat_9", "the prompt is long")
    backend.reply = lambda one: (
        too_long
        if one.stage == "rewrite" and len(one.messages[-1]["content"]) > room
        else reply(one)
    )
    turn = chat.say("And now?".ljust(40, "?"))
    columns = ["stage", "calls", "unanswered", "failures"]
    assert chat.spent.frame()[columns].values.tolist() == [
        ["answer", 2, 0, 0],
        ["rewrite", 1, 1, 1],
    ]
    assert (turn.spend.calls, turn.spend.cost) == (3, None)
    assert (
        turn.spend.tokens
        == chat.spent.frame()[["prompt_tokens", "completion_tokens"]].sum().sum()
        > 0
    )


def test_the_history_is_halved_until_the_prompt_fits():
    class Counted(Small):
        def complete(self, requests):
            return (
                super().complete(requests)
                if requests[0].stage == "answer"
                else [Reply("Tea?", "small", "stop", 5, 1)]
            )

    backend = Counted(10**9)
    llm = LLM(backend)
    exchange = [{"role": "user", "content": "x" * 40}, {"role": "assistant", "content": "x" * 40}]
    said = exchange * 32  # 640 tokens
    asked = [*said, {"role": "user", "content": "And now?"}]
    steps = []
    system = System.of(ikat.Rewrite(llm) >> ikat.Answer(llm))
    answer(system, asked, history=60)
    backend.room = len(
        backend.prompts[-1]
    )  # 3 exchanges: of 640, 320, 160, 80 and 40 tokens the last one fits
    found = answer(system, asked, history=None, tell=steps.append)
    assert (found.more, found.omitted) == ({"history": 40}, 60)
    repeated = [step for step in steps if "asking again" in step]
    assert [step.split()[-4] for step in repeated] == ["320", "160", "80", "40"]
    assert (found.spend.calls, found.spend.known) == (
        6,
        0,
    )  # a rewrite at each attempt, and the answer
    assert found.spend.tokens == 5 * 6 + len(backend.prompts[-1]) // 4 + 10
    backend.room = 1
    with pytest.raises(
        StillTooLong,
        match=(
            "the prompt has .* characters, also without history: choose a model with a longer "
            "context"
        ),
    ):
        answer(system, asked, history=None)


def test_other_failures_are_not_repeated():
    chat, backend = chat_with(0)
    backend.reply = lambda request: Reply("", "small", "stop")
    with pytest.raises(StageError, match="empty"):
        chat.say("Which tea?")
    assert len(backend.prompts) == 1
