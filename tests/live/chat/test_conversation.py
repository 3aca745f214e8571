"""A chat: what the system sees, what an answer is, and what is shown and counted of it."""

import _thread

import pytest
from chats import LEARNED, AnswersFromList, AnswersWithPassage, chat_of, same, saved_turns
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.live.chat.conversation import Why


def test_its_own_answers_become_the_history(tmp_path):
    system = AnswersFromList("Rooibos.", None, "Mint.")
    chat = Chat(system, ["I avoid caffeine."], number="tea-1", out=tmp_path / "chat")
    for text in ("Which tea?", "  And cold?", "Or hot?"):
        chat.say(text)
    last = system.seen[-1].iloc[0]
    assert (last["qid"], last["qturn"], last["query"], last["qptkb"]) == (
        "tea-1_3",
        3,
        "Or hot?",
        {"1": "I avoid caffeine."},
    )
    assert [(one["role"], one["content"]) for one in last["qhistory"]] == [
        ("user", "Which tea?"),
        ("assistant", "Rooibos."),
        ("user", "And cold?"),
    ]
    same(system.seen, tmp_path / "chat" / "topics.json")
    assert [turn.passages for turn in saved_turns(tmp_path / "chat")] == [("d1",), (), ("d1",)]
    silent = Chat(
        AnswersFromList("", used=False), out=tmp_path / "silent"
    )  # it has no response to be based on passages
    assert [source.docno for source in silent.say("Which tea?").sources] == ["d1", "d2"]
    assert saved_turns(tmp_path / "silent")[0].passages == ()


def test_a_failed_turn_is_not_kept_and_can_be_said_again(tmp_path):
    system = AnswersFromList("Rooibos.", ikat.DataError("the index is gone"), "Mint.")
    chat = Chat(system, out=tmp_path / "chat")
    chat.say("Which tea?")
    saved = (tmp_path / "chat" / "topics.json").read_bytes()
    with pytest.raises(ikat.DataError, match="the index is gone"):
        chat.say("Or hot?")
    assert len(chat.turns) == 1
    assert (tmp_path / "chat" / "topics.json").read_bytes() == saved
    assert chat.say("Or hot?").number == 2
    assert system.seen[1].equals(system.seen[2])


def test_nothing_is_no_question():
    with pytest.raises(ikat.UsageError, match="say something"):
        chat_of().say(" \n")


def test_ctrl_c_keeps_the_call_under_way_and_asks_no_later_stage(tmp_path):
    class Stopped:
        asked = 0

        def generate(self, chats):
            self.asked += 1
            if self.asked == 1:
                _thread.interrupt_main()
            return ["Rooibos."] * len(chats)

    model = Stopped()
    llm = ikat.llm(model)
    memory = ikat.UserMemory(tmp_path / "memory.jsonl", scripted()[0])
    chat = Chat(ikat.Rewrite(llm) >> ikat.Answer(llm), out=tmp_path / "chat", memory=memory)
    with pytest.raises(KeyboardInterrupt):
        chat.say("Which tea?")
    assert (model.asked, chat.turns, chat.spent.total().calls) == (1, [], 1)
    assert not (tmp_path / "chat").exists()
    assert memory.memories("me") == []


def test_recorded_completions_answer_only_what_is_recorded():
    chat = Chat(
        AnswersFromList("Rooibos.", "Mint."), number="1-1", script=["Which tea?", "Or  hot?"]
    )
    assert chat.expected() == "Which tea?"
    with pytest.raises(
        ikat.UsageError,
        match=r"those of turn 1-1_1 answer only 'Which tea\?': say that, or choose a live LLM",
    ):
        chat.say("Which coffee?")
    assert chat.say("Which  tea? ").response == "Rooibos."
    chat.say("Or hot?")
    assert chat.expected() is None
    with pytest.raises(
        ikat.UsageError,
        match="turn 1-1_3: the recorded conversation has only 2 turns: go on with a live LLM",
    ):
        chat.say("Thanks.")


def test_recorded_words_are_expected_to_the_end_of_the_script():
    chat = chat_of("a", "b", script=["Which tea?", "Or hot?"], number="1-1")
    told = []
    for words in ("Which tea?", " Or  hot? "):
        told.append(chat.expected())
        chat.say(words)
    assert [*told, chat.expected()] == ["Which tea?", "Or hot?", None]
    with pytest.raises(ikat.UsageError, match="turn 1-1_3: the recorded conversation has only 2"):
        chat.say("Or hot?")
    with pytest.raises(ikat.UsageError, match="there is nothing to answer"):
        chat_of(script=["Which tea?"]).say(" \t\n")
    assert chat_of(script=()).expected() is None


def test_steps_and_texts_are_told_while_a_turn_is_answered():
    told = []
    chat = Chat(ikat.Answer(scripted("Rooibos.")[0]))
    chat.say("Which tea?", told.append)
    assert told
    assert chat.spent.total().calls == 1


# What is shown and counted


def test_a_chat_shows_what_both_said_in_their_order():
    chat = Chat(AnswersWithPassage("Rooibos.", "Mint."), number="tea-1")
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
    assert "<i>chat a&lt;b:" in Chat(AnswersWithPassage(), number="a<b")._repr_html_()


def test_a_chat_displays_all_of_its_turns():
    chat = chat_of("Rooibos <i>.", "Mint.", number="a&b")
    assert repr(chat) == "<chat a&b: nothing said yet>"
    assert chat._repr_html_() == "<i>chat a&amp;b: nothing said yet</i>"
    chat.say("Which \x1b[2J <b>?")
    chat.say("Or hot?")
    first, second = repr(chat).split("you> ")[1:]
    assert first.startswith("Which  [2J <b>?\nRooibos <i>.")
    assert first.endswith("\n\n")
    assert second.startswith("Or hot?\nMint.")
    html = chat._repr_html_()
    assert html.index("Rooibos &lt;i&gt;.") < html.index("Or hot?") < html.index("Mint.")
    assert "<b>" not in html
    assert repr(chat.why()).startswith("turn 2\n")
    assert "turn 2" in chat.why()._repr_html_()


def test_a_new_chat_has_nothing_and_an_answer_is_explained(tmp_path):
    chat = Chat(AnswersWithPassage("Rooibos."), number="tea-1", out=tmp_path / "chat")
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


def test_an_account_of_a_turn_shows_its_calls(saved):
    chat = chat_of("Water.", continue_from=saved)
    why = chat.why()
    assert (why.turn.utterance, why.account) == ("Or hot?", None)
    chat.say("And cold?")
    why = chat.why()
    assert (why.turn.utterance, why.account) == ("And cold?", chat.spent)
    assert "Scripted" in repr(why)
    assert "Scripted" in why._repr_html_()
    assert "Scripted" not in repr(Why(chat.turns[-1])) + Why(chat.turns[-1])._repr_html_()
    chat.undo()
    assert chat.why().turn.utterance == "Or hot?"


def test_an_account_counts_one_turn_alone():
    chat = chat_of("Rooibos.", "Mint.")
    chat.say("Which tea?")
    chat.say("Or hot?")
    assert chat.spent.total().calls == 1
    assert [len(turn.asked) for turn in chat.turns] == [0, 1]  # prompts would fill the memory


def test_two_models_are_both_counted(tmp_path):
    first = scripted("Tea?")[0]
    second = scripted("Rooibos.")[0]
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(ikat.Rewrite(first) >> ikat.Answer(second), memory=memory)
    turn = chat.say("Which tea?")
    assert chat.spent.frame()["stage"].tolist() == ["rewrite", "answer", "update_ptkb"]
    assert (turn.spend.calls, turn.rewrite) == (3, "Tea?")
    assert [request.stage for request, _ in chat.turns[-1].asked] == [
        "rewrite",
        "answer",
        "update_ptkb",
    ]
