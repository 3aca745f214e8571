"""How a chat shows itself, and what it has saved and remembers."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.chat import Chat


class Answers(pt.Transformer):
    """Answers from a list, with a passage."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.seen = []

    def transform(self, inp):
        self.seen.append(inp)
        found = pd.DataFrame({"qid": inp["qid"].iloc[:1], "docno": ["d1"], "rank": [0]})
        found["text"] = ["The passage."]
        return found.assign(qanswer=column([self.answers.pop(0)]), used=[True])


def test_a_chat_shows_what_both_said_in_their_order():
    chat = Chat(Answers("Rooibos.", "Mint."), number="tea-1")
    assert repr(chat) == "<chat tea-1: nothing said yet>"
    assert chat._repr_html_() == "<i>chat tea-1: nothing said yet</i>"
    chat.say("Which \x1b[31mtea?")
    chat.say("Or <b>hot</b>?")
    text = repr(chat)
    assert text.startswith("you> Which ")
    assert "\x1b" not in text
    places = [text.index(words) for words in ("Rooibos.", "you> Or <b>hot</b>?", "Mint.")]
    assert places == sorted(places)
    assert text.count("you> ") == 2
    assert "\n\nyou> Or" in text
    html = chat._repr_html_()
    assert "<b>hot</b>" not in html
    assert "&lt;b&gt;hot" in html
    places = [html.index(words) for words in ("Rooibos.", "hot", "Mint.")]
    assert places == sorted(places)


def test_a_number_in_html_is_text():
    assert "<i>chat a&lt;b:" in Chat(Answers(), number="a<b")._repr_html_()


def test_a_new_chat_has_nothing_and_an_answer_is_explained(tmp_path):
    chat = Chat(Answers("Rooibos."), number="tea-1", out=tmp_path / "chat")
    assert (chat.turns, chat.saved, chat.remembered, chat.expected()) == ([], 0, 0, None)
    with pytest.raises(ikat.UsageError, match="there is no answer yet"):
        chat.why()
    turn = chat.say("Which tea?")
    assert (chat.saved, chat.messages()) == (
        1,
        [
            {"role": "user", "content": "Which tea?"},
            {"role": "assistant", "content": "Rooibos."},
        ],
    )
    assert chat.why().turn == turn
    assert "<" in chat.why()._repr_html_()


@pytest.mark.parametrize(("history", "seen"), [(0, 0), (None, 2), (8000, 2)])
def test_the_history_is_limited_to_its_tokens(history, seen):
    system = Answers("Rooibos.", "Mint.")
    chat = Chat(system, history=history)
    chat.say("Which tea?")
    chat.say("Or hot?")
    assert len(system.seen[-1]["qhistory"].iloc[0]) == seen
    assert chat.history == history


def test_the_default_history_is_8000_tokens():
    assert Chat(Answers()).history == 8000


def test_steps_and_texts_are_told_while_a_turn_is_answered():
    told = []
    chat = Chat(ikat.Answer(scripted("Rooibos.")[0]))
    chat.say("Which tea?", told.append)
    assert told
    assert chat.spent.total().calls == 1


def test_a_memory_learns_after_each_turn_and_forgets_with_it(tmp_path):
    words = "I avoid caffeine."
    learned = json.dumps([{"message": 1, "words": words, "statement": words}])
    memory = ikat.UserMemory(tmp_path / "memory.jsonl", scripted(learned, "[]", "[]")[0])
    told = []
    system = Answers("Rooibos.", "Mint.")
    chat = Chat(system, memory=memory, number="tea-1")
    assert chat.remembered == 0
    chat.say(words, told.append)
    assert "learning about you" in told
    assert chat.remembered == len(memory.known("me")) == 1
    chat.undo()
    assert chat.remembered == 0
    assert chat.turns == []
