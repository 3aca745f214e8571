"""A chat in the terminal goes on after errors and interrupts, runs commands, and ends with the input or with Ctrl-C at the prompt."""

import io
import re
from dataclasses import replace

import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import Terminated
from pyterrier_ikat.live.chat import Chat, Screen, conversation, talk
from pyterrier_ikat.methods import find
from pyterrier_ikat.progress import tell
from pyterrier_ikat.study import System


class Typed:
    """A user: types these lines; an exception is raised."""

    def __init__(self, *lines):
        self.lines = list(lines)

    def __call__(self, prompt):
        line = self.lines.pop(0) if self.lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Raises(pt.Transformer):
    """Raises an error."""

    def __init__(self, error):
        self.error = error

    def transform(self, inp):
        raise self.error


def asks_and_raises(error):
    """A system that asks an LLM before it fails."""
    return ikat.Answer(scripted("Water.")[0]) >> Raises(error)


def talked(chat, *lines):
    """All that is shown after the greeting."""
    stream = io.StringIO()
    talk(chat, Typed(*lines), Screen(stream, width=200))
    return timeless(stream.getvalue().split("\n", 1)[1])


def timeless(text):
    """The text with 0 for all seconds."""
    return re.sub(r"\d+\.\d s\b", "0.0 s", text)


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


def test_it_talks_until_the_input_ends(tmp_path):
    path = tmp_path / "chat"
    shown = talked(chat_of("Rooibos.", "Mint.", save_to=path), "Which tea?", "  ", "Or hot?")
    note = "(1 call, cost unknown, 0.0 s)"
    assert shown == f"Rooibos.\n\n{note}\nMint.\n\n{note}\n\n2 turns, saved in {path}\n"
    assert [turn.response for turn in read_topics(path / "topics.json")[0].turns] == ["Rooibos.", "Mint."]


def test_an_error_does_not_end_it():
    shown = talked(chat_of("", "Rooibos."), "Which tea?", "Which tea?")
    assert shown.startswith("ikat: stage answer: 1 request failed")
    assert "\nRooibos.\n" in shown
    assert shown.endswith("\n1 turn, not saved\n")


def test_a_defect_is_not_hidden():
    chat = chat_of("x")
    chat.use(asks_and_raises(KeyError("no such column")))
    with pytest.raises(KeyError):
        talked(chat, "Which tea?")


def test_ctrl_c_at_the_prompt_ends_it_with_what_was_said_saved(tmp_path):
    path = tmp_path / "chat"
    shown = talked(chat_of("Rooibos.", save_to=path), "Which tea?", KeyboardInterrupt(), "never read")
    assert shown.endswith(f"\n1 turn, saved in {path}\n")
    assert len(read_topics(path / "topics.json")[0].turns) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemError("error return without exception set")])
def test_ctrl_c_during_a_turn_stops_the_answer_and_not_the_chat(tmp_path, error):
    if isinstance(error, SystemError):  # as a native library says it
        error.__cause__ = KeyboardInterrupt()
    chat = chat_of("Rooibos.", save_to=tmp_path / "chat")
    chat.say("Which tea?")
    mine = chat.system
    chat.use(asks_and_raises(error))
    lines = Typed("Or hot?")

    def read(prompt):
        if not lines.lines:
            chat.use(mine)
        return lines(prompt)

    stream = io.StringIO()
    talk(chat, read, Screen(stream, width=200))
    assert "(stopped: nothing of this turn is kept" in stream.getvalue()
    assert stream.getvalue().endswith(f"\n1 turn, saved in {chat.save_to}\n")
    assert len(read_topics(chat.save_to / "topics.json")[0].turns) == 1


def test_a_terminated_process_ends_while_it_answers():
    chat = chat_of("Rooibos.")
    chat.use(asks_and_raises(Terminated()))
    shown = talked(chat, "Which tea?", "Which tea?")
    assert shown == "\n0 turns, not saved\n"


def test_nothing_said_saves_nothing(tmp_path):
    assert talked(chat_of(save_to=tmp_path / "chat")) == "\n0 turns, not saved\n"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_line_says_what_is_recorded():
    shown = talked(chat_of("Rooibos.", script=["Which tea?"]), "coffee", "", "")
    assert shown.startswith("\nrecorded (an empty line says it): Which tea?\nikat: ")
    assert "answer only 'Which tea?'" in shown
    assert shown.endswith("1 turn, not saved\n")
    assert "Rooibos." in shown


def test_lines_of_a_pipe_are_shown_as_if_typed_and_no_status(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("Which tea?\n/undo\n"))
    talk(chat_of("Rooibos.", ptkb=["I avoid caffeine."], method="mine"))
    greeting = "method mine, 1 statement about you. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends\nthe chat.\n"
    answer = "Rooibos.\n\n(1 call, cost unknown, 0.0 s)\n"
    undone = "undone: Which tea? (0 turns left)\n"
    assert timeless(capsys.readouterr().out) == f"{greeting}\nyou> Which tea?\n{answer}\nyou> /undo\n{undone}\nyou> \n0 turns, not saved\n"


def test_an_answer_that_cannot_be_saved_is_shown_and_not_said_to_be_saved(tmp_path):
    path = tmp_path / "chats" / "chat"
    chat = chat_of("Rooibos.", "Mint.", save_to=path)
    chat.say("Which tea?")
    log = path / "log.jsonl"
    log.rename(path / "moved")
    log.mkdir()  # nothing can be put in its place
    shown = talked(chat, "Or hot?").split("\n", 3)  # after the last exchange of the chat so far
    rest = shown[-1].partition("ikat: ")[2]
    assert rest.startswith("the chat can't be saved in")
    assert "Mint." in rest
    assert rest.endswith(f"\n2 turns, only the first 1 saved in {path}\n")


def test_commands_show_and_change_the_chat_and_are_never_said(tmp_path):
    llm, backend = scripted("Rooibos.", "Mint.")
    chat = Chat(ikat.Answer(llm), save_to=tmp_path / "chat")
    shown = talked(chat, "/why", "Which tea?", "/why", "/sources", "/wyh", "/help", "/undo", "//why not?", "/undo")
    assert len(backend.asked) == 2
    assert "/why not?" in backend.asked[1][-1]["content"]
    parts = ["there is no answer yet", "1. answer", "Which tea?", "->", "based on no passage", "did you mean /why?", "/method"]
    parts += ["undone: Which tea? (0 turns left, also in ", "undone: /why not?"]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    assert [path.name for path in (tmp_path / "chat").iterdir()] == ["log.jsonl"]


def test_the_method_changes_in_the_middle_and_an_error_leaves_the_old_one(monkeypatch):
    other = replace(System.of(ikat.Answer(scripted("Water.")[0]), "other"), unused=("index",))
    monkeypatch.setattr(conversation, "find", lambda name: other.method if name == "other" else find(name))
    monkeypatch.setattr(conversation, "open_systems", lambda *args, **options: [other])
    chat = chat_of("Rooibos.", "Mint.", method="mine")
    shown = talked(chat, "Which tea?", "/method", "/method wrong", "Or hot?", "/method other", "And cold?")
    assert [(turn.method, turn.response) for turn in chat.turns] == [("mine", "Rooibos."), ("mine", "Mint."), ("other", "Water.")]
    assert "method mine\nikat: there is no method 'wrong'" in shown
    assert "method other\nother doesn't use index=...: another method of this chat may\n" in shown


def test_in_a_terminal_a_line_says_what_it_is_doing():
    stream = Terminal()
    with Screen(stream, width=80).doing("thinking") as step:
        step.change("searching [bold]5\x1b[2J queries")
    shown = stream.getvalue()
    assert "\x1b[2J" not in shown
    assert "[bold]5" in shown
    with Screen(io.StringIO()).doing("thinking") as step:
        assert step is None


def test_a_terminal_gets_colours_and_the_texts_no_markup():
    stream = Terminal()
    talk(chat_of("Tea [1] [bold]x[/bold]."), Typed("Which tea?"), Screen(stream, width=80))
    assert "[bold]x[/bold]." in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize(
    ("line", "said", "message"),
    [
        ("  /Help ", [], "/undo"),
        ("//etc is full", ["/etc is full"], "Rooibos."),
        ("Which / is it?", ["Which / is it?"], "Rooibos."),
        ("/wyh", [], "no command /wyh: did you mean /why? (to say a line that begins with a slash, begin it with two)"),
        ("/etc is full", [], "no command /etc: /help lists the commands"),
        ("/undo 3", [], "/undo takes nothing after it: type /undo alone"),
    ],
)
def test_a_line_that_begins_with_a_slash_is_a_command_or_an_error_and_never_said(line, said, message):
    chat = chat_of("Rooibos.")
    assert message in talked(chat, line)
    assert [turn.utterance for turn in chat.turns] == said


def test_a_warning_stands_above_what_is_done():
    stream = Terminal()
    with Screen(stream, width=80).doing("learning about you"):
        tell("ikat: warning: nothing was [bold]learned\x1b[2J")  # as the command line says warnings
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", stream.getvalue()).split("\n")
    assert "ikat: warning: nothing was [bold]learned" in lines
    assert "\x1b[2J" not in stream.getvalue()
