"""Parts of a chat: one model for chat and memory, what is greeted, drawn, refused and restored."""

import io

import pyte
import pyterrier as pt
import pytest
from fakes import Types, scripted
from rich.console import Console
from test_conversation import System, chat_of, saved_turns
from test_terminal import Terminal, Typed, talked

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import Terminated
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.live.chat.conversation import Why
from pyterrier_ikat.live.chat.terminal import _Activity, keyboard
from pyterrier_ikat.llms import LLM, Ledger, Reply
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning
from pyterrier_ikat.progress import _hidden
from pyterrier_ikat.runs import Log

LEARNED = '[{"message": 1, "words": "Which tea?", "statement": "I ask for tea."}]'


@pytest.fixture
def path(tmp_path):
    """A chat of two turns, about somebody."""
    chat = chat_of("Rooibos.", "Mint.", ptkb=["I run."], number="tea-1", out=tmp_path / "chat")
    chat.say("Which tea?")
    chat.say("Or hot?")
    return tmp_path / "chat"


def test_a_continued_chat_greets_with_its_last_exchange(path):
    stream = io.StringIO()
    talk(chat_of(continue_from=path, method="mine"), Typed(), Screen(stream, width=200))
    greeting, continued, rest = stream.getvalue().split("\n", 2)
    assert greeting == (
        "method mine, 1 statement about you. /help lists the commands; "
        "Ctrl-C stops an answer, Ctrl-D ends the chat."
    )
    assert continued == "continued after 2 turns; the last one:"
    assert rest.startswith("\nyou> Or hot?\nMint.\n")
    assert "Rooibos" not in rest
    assert rest.endswith(f"\n2 turns, saved in {path}\n")


def test_nothing_that_is_shown_commands_the_terminal(tmp_path):
    attack = "clear\x1b[2Jit"
    chat = Chat(System("Mint.", ikat.DataError(attack)), out=tmp_path / "chat")
    chat.say(attack)
    shown = talked(chat, "And hot?", "/undo", f"/{attack}")
    assert shown.count("clear [2Jit") >= 3
    assert "\x1b" not in shown
    again = Chat(System(), continue_from=tmp_path / "chat") if chat.saved else chat
    assert "\x1b" not in talked(again)


def test_a_typed_line_is_not_repeated_and_a_piped_one_is(monkeypatch, capsys):
    class Stdin(io.StringIO):
        typed = False

        def isatty(self):
            return self.typed

    for typed, shown in [(True, "you> "), (False, "you> tea\n")]:
        stdin = Stdin("tea\n")
        stdin.typed = typed
        monkeypatch.setattr("sys.stdin", stdin)
        assert keyboard()("you> ") == "tea"
        assert capsys.readouterr().out == shown


def test_steps_are_shown_in_a_terminal():
    assert "drafting an answer" in talked_in_terminal(chat_of("Rooibos."))


def test_a_chat_without_name_and_statements_greets_so():
    stream = io.StringIO()
    talk(chat_of(), Typed(), Screen(stream, width=200))
    assert stream.getvalue().startswith("no statements about you. /help lists the commands;")


def test_a_replaced_answer_says_so_below_which_it_stands():
    texts = ["Tea.\n\n# About the user", Reply("Tea.\n\n# About the user\nI run.")]
    shown = talked_in_terminal(Chat(ikat.Answer(LLM(Types(texts)))))
    assert "(replaced after its check: it holds more than an answer)" in shown
    assert shown.index("(replaced after") < shown.rindex("Tea.")


def talked_in_terminal(chat, *lines):
    stream = Terminal()
    talk(chat, Typed(*(lines or ["Which tea?"])), Screen(stream, width=100))
    return stream.getvalue()


def test_a_turn_that_is_answered_is_shown_after_ctrl_c(tmp_path, monkeypatch):
    chat = chat_of("Rooibos.", out=tmp_path / "chat")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(chat, "_save", interrupted)
    shown = talked(chat, "Which tea?")
    assert shown.startswith("(stopped)\nRooibos.\n")
    assert shown.endswith("\n1 turn, not saved\n")


def test_commands_after_a_turn_show_only_themselves():
    system = System("Rooibos.", "Mint.")
    commands = ("/sources", "/sources now", "/why", "")
    shown = talked(Chat(system), "Which tea?", *commands, "Or hot?", "/undo")
    assert shown.count("Rooibos.") == shown.count("Mint.") == 1
    sources = shown.partition("[1] d1")[2]
    assert "one" in sources
    assert "/sources takes nothing after it: type /sources alone" in sources
    assert shown.endswith("\nundone: Or hot? (1 turn left)\n\n1 turn, not saved\n")


class NamedByTurn(pt.Transformer):
    """Answers with a passage whose id has the number of the turn."""

    def transform(self, inp):
        docnos = "p" + inp["qturn"].astype(str)
        return inp.assign(docno=docnos, rank=0, text="words", qanswer="Tea.", used=True)


def test_the_sources_shown_are_those_of_the_last_answer():
    shown = talked(Chat(NamedByTurn()), "Which tea?", "Or hot?", "/sources").rpartition("Tea.")[2]
    assert "p2" in shown
    assert "p1" not in shown


def test_the_account_of_an_answer_is_shown_with_its_prompts():
    chat = chat_of("Rooibos.")
    shown = talked(chat, "Which tea?", "/why")
    assert " ".join(str(chat.why().account).split()) in " ".join(shown.split())


def test_an_answer_is_drawn_as_it_is_written_and_then_erased(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Screen(stream, width=100).doing("thinking") as activity:
        assert _hidden.get()  # bars would be drawn over it
        activity.write("Mint.")
        assert "Mint." in stream.getvalue()
    terminal = pyte.Screen(100, 10)
    pyte.Stream(terminal).feed(stream.getvalue().replace("\n", "\r\n"))
    assert "".join(terminal.display).strip() == ""


def test_the_current_step_is_drawn_with_its_seconds_and_the_end():
    console = Console(file=io.StringIO(), width=20, height=6)
    activity = _Activity("thinking", console)
    refreshed = []
    activity.refresh = lambda: refreshed.append(True)

    def lines():
        with console.capture() as captured:
            console.print(activity.drawn())
        return [line.strip() for line in captured.get().splitlines()]

    [line] = lines()
    assert line.endswith("thinking")
    activity.since -= 65.5
    [line] = lines()
    assert line.endswith("thinking (65 s)")
    activity.change("answering")
    activity.write("one\ntwo\nthree\nfour\n\x1b[2Jfive")
    *texts, line = lines()
    assert texts == ["two", "three", "four", "[2Jfive"]  # a screen of six lines
    assert line.endswith("answering")
    assert refreshed == [True]
    activity.since -= 1
    assert lines()[-1].endswith("answering (1 s)")
    activity.write("begin " + "word " * 5000 + "end")
    assert lines()[-2].endswith("end")
    console.height = 2
    assert len(lines()) == 2  # one line of the answer, and the step


@pytest.mark.parametrize(
    ("given", "columns", "width"), [(None, 60, 60), (None, 300, 100), (120, 60, 120)]
)
def test_a_terminal_is_100_characters_wide_at_most(monkeypatch, given, columns, width):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    Screen(stream, width=given).show("word " * 100)
    assert max(map(len, stream.getvalue().splitlines())) in range(width - 5, width + 1)


def test_a_screen_shows_texts_as_they_are_and_draws_the_rest(capsys):
    Screen().show("a [bold]b :tea:")
    assert capsys.readouterr().out == "a [bold]b :tea:\n"
    stream = Terminal()
    Screen(stream, width=50).show("a [bold]b :tea:")
    assert stream.getvalue().strip() == "a [bold]b :tea:"


def test_an_account_of_a_turn_shows_its_calls(path):
    chat = chat_of("Water.", continue_from=path)
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


def test_a_turn_that_cannot_be_taken_back_on_disk_stays(path, monkeypatch):
    chat = chat_of(continue_from=path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.runs.log.append_line", full)
        with pytest.raises(ikat.UsageError, match="No space left"):
            chat.undo()
    assert [turn.utterance for turn in chat.turns] == ["Which tea?", "Or hot?"]
    assert chat.undo().utterance == "Or hot?"
    assert [turn.utterance for turn in saved_turns(path)] == ["Which tea?"]


@pytest.mark.parametrize(
    ("ptkb", "persona", "is_refused"),
    [
        (None, None, False),
        (["I run."], None, False),
        ([], None, True),
        (None, "same.txt", False),
        (None, "other.txt", True),
    ],
)
def test_a_chat_goes_on_with_the_persona_that_it_had(path, ptkb, persona, is_refused):
    (path.parent / "same.txt").write_text("I run.\n")
    (path.parent / "other.txt").write_text("I cook.\n")
    options = {"ptkb": ptkb, "persona": persona and path.parent / persona}
    if is_refused:
        with pytest.raises(ikat.UsageError, match="has another persona"):
            chat_of(continue_from=path, **options)
        return
    chat = chat_of("Water.", continue_from=path, **options)
    chat.say("And cold?")
    assert (chat.ptkb, chat.number, chat.saved) == ({"1": "I run."}, "tea-1", 3)


def test_a_folder_of_several_chats_needs_a_name(tmp_path):
    log = Log.create(tmp_path / "chats", {"kind": "chat", "system": ""})
    for name in ("a", "b"):
        log.begin(name, "me", ptkb={"1": name}, memory="")
    for number in (None, "c"):
        with pytest.raises(ikat.UsageError, match=r"holds 2 conversations \(a, b\): choose one"):
            chat_of(continue_from=tmp_path / "chats", number=number)
    chat = chat_of(continue_from=tmp_path / "chats", number="b")
    assert (chat.number, chat.ptkb, chat.saved) == ("b", {"1": "b"}, 0)
    chat.ptkb["1"] = "changed"
    assert log.known["b"].more["ptkb"] == {"1": "b"}


def test_chat_and_memory_share_the_model_and_its_account(tmp_path):
    ledger = Ledger()
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"
    )
    recorded = tmp_path / "recorded.jsonl"
    line = '{{"qid": "chat_1", "stage": "{}", "model": "m", "completion": {}}}\n'
    recorded.write_text(line.format("answer", '"Rooibos."') + line.format("update_ptkb", '"[]"'))
    chat = Chat(
        f"{tmp_path / 'mine.py'}:mine",
        llm=f"recorded:{recorded}",
        memory=tmp_path / "me.jsonl",
        script=["Which tea?"],
        ledger=ledger,
    )
    turn = chat.say("Which tea?")
    assert (chat.method, turn.method) == ("mine", "mine")
    stages = ["answer", "update_ptkb"]
    assert ledger.frame()["stage"].tolist() == stages
    assert chat.spent.frame()[["stage", "known"]].values.tolist() == [[one, 1] for one in stages]


def test_a_memory_takes_the_chats_model_and_prompts(tmp_path):
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "update_ptkb.jinja").write_text("Learn from {{ context }}")
    model, backend = scripted(LEARNED)
    chat = Chat(System("Mint."), memory=tmp_path / "me.jsonl", llm=model, prompts=prompts)
    assert chat.say("Which tea?").response == "Mint."
    assert "Learn from" in str(backend.asked[0])
    assert chat.remembered == 1
    for options in ({"llm": model}, {"prompts": prompts}):
        with pytest.raises(ikat.UsageError, match=f"uses {next(iter(options))}="):
            Chat(System("Mint."), **options)


def test_a_method_responds_with_marks_of_its_passages(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm, retriever):\n"
        "    return retriever >> ikat.Respond(llm)\n"
    )
    model, backend = scripted("Rooibos.")
    retriever = pt.apply.by_query(
        lambda frame: frame.assign(docno="d1", score=1.0, rank=0, text="Rooibos is red."),
        add_ranks=False,
    )
    Chat(f"{tmp_path / 'mine.py'}:mine", llm=model, retriever=retriever).say("Which tea?")
    assert "by their numbers" in str(backend.asked[0])


def test_a_model_of_batches_cannot_chat(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    system = ikat.Answer(ikat.llm(f"openai:small batch=on cache={tmp_path / 'cache.sqlite'}"))
    with pytest.raises(ikat.UsageError, match="can't wait a day .*omit batch=on"):
        Chat(system)


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


def test_what_a_memory_cannot_write_costs_no_answer(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(System("Rooibos."), memory=memory, out=tmp_path / "chat")

    def full(*_):
        raise ikat.DataError("the disk is full")

    monkeypatch.setattr(memory, "learn", full)
    with pytest.warns(NothingLearnedWarning, match=r"this turn \(the disk is full\)"):
        assert chat.say("Which tea?").response == "Rooibos."
    assert chat.saved == 1


def test_each_turn_is_logged_once_a_changed_persona_before_it(tmp_path):
    chat = chat_of("Rooibos.", "Mint.", out=tmp_path / "chat", ptkb=["I run."])
    chat.say("Which tea?")
    chat.ptkb = {"1": "I run.", "2": "I cook."}
    chat.say("Or hot?")
    [dialogue] = Log(tmp_path / "chat").dialogues()
    assert dialogue.more["ptkb"] == {"1": "I run.", "2": "I cook."}
    assert [turn.response for turn in dialogue.turns] == ["Rooibos.", "Mint."]
    events = list(Log(tmp_path / "chat").events())
    assert [event["event"] for event in events[1:]] == ["session", "turn", "session", "turn"]


def test_a_terminated_process_learns_nothing_more(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(System("Rooibos."), memory=memory, out=tmp_path / "chat")

    def ends(*_):
        raise Terminated

    monkeypatch.setattr(memory, "learn", ends)
    with pytest.raises(Terminated):
        chat.say("Which tea?")
    assert (chat.saved, chat.turns[0].response) == (1, "Rooibos.")


def test_why_nothing_was_learned_is_the_models_failure_alone(tmp_path):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("hm")[0])
    with pytest.warns(NothingLearnedWarning) as told:
        Chat(System("Rooibos."), memory=memory).say("Which tea?")
    assert str(told[0].message).startswith("nothing was learned from this turn (no JSON list")


def test_a_memory_forgets_nothing_of_a_chat_that_it_did_not_hear(path, tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(System(), continue_from=path, memory=memory)
    forgotten = []
    monkeypatch.setattr(memory, "undo", lambda *args: forgotten.append(args))
    chat.undo()
    assert (forgotten, chat.saved) == ([], 1)


def test_an_undo_that_is_interrupted_leaves_the_turn(path, monkeypatch):
    chat = chat_of(continue_from=path)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.runs.log.append_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chat.undo()
    assert [turn.utterance for turn in chat.turns] == ["Which tea?", "Or hot?"]
