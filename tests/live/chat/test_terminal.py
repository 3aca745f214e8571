"""A chat in the terminal goes on after errors and interrupts, and runs commands."""

import io
import re

import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import Terminated
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.progress import tell


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
    """Raises each error in turn, and does nothing for None."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def transform(self, inp):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return inp


def talked(chat, *lines):
    """All that is shown after the greeting."""
    stream = io.StringIO()
    talk(chat, Typed(*lines), Screen(stream, width=200))
    return timeless(stream.getvalue().split("\n", 1)[1])


def timeless(text):
    """The text with 0 for all seconds."""
    return re.sub(r"\d+\.\d s\b", "0.0 s", text)


def chat_of(*answers, errors=(), **options):
    return Chat(ikat.Answer(scripted(*answers)[0]) >> Raises(*errors), **options)


NOTE = "(1 call, cost unknown, 0.0 s)"


def test_chat_goes_on_after_an_error_until_the_input_ends(tmp_path):
    path = tmp_path / "chat"
    shown = talked(
        chat_of("Rooibos.", "", "Mint.", out=path), "Which tea?", "  ", "Or hot?", "Or hot?"
    )
    assert shown.startswith(f"Rooibos.\n\n{NOTE}\nikat: stage answer: 1 request failed")
    assert shown.endswith(f"\nMint.\n\n{NOTE}\n\n2 turns, saved in {path}\n")
    assert talked(chat_of(out=tmp_path / "none")) == "\n0 turns, not saved\n"
    assert [one.name for one in tmp_path.iterdir()] == ["chat"]  # nothing said saves nothing


def test_a_defect_is_not_hidden():
    with pytest.raises(KeyError):
        talked(chat_of("x", errors=[KeyError("no such column")]), "Which tea?")


def as_a_native_library_says_it():
    error = SystemError("error return without exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), as_a_native_library_says_it()])
def test_ctrl_c_stops_an_answer_and_at_the_prompt_the_chat(tmp_path, error):
    chat = chat_of("Rooibos.", "Water.", "Mint.", errors=[None, error], out=tmp_path / "chat")
    shown = talked(chat, "Which tea?", "Or cold?", "Or hot?", KeyboardInterrupt(), "never read")
    assert "(stopped: nothing of this turn is kept in the chat)\nMint." in shown
    assert shown.endswith(f"\n2 turns, saved in {chat.out}\n")
    assert chat.saved == 2


def test_a_terminated_process_ends_while_it_answers():
    assert (
        talked(chat_of("Rooibos.", errors=[Terminated()]), "Which tea?", "Which tea?")
        == "\n0 turns, not saved\n"
    )


def test_an_empty_line_says_what_is_recorded():
    shown = talked(chat_of("Rooibos.", script=["Which tea?"]), "coffee", "", "")
    assert shown.startswith("\nrecorded (an empty line says it): Which tea?\nikat: ")
    assert "answer only 'Which tea?'" in shown
    assert shown.endswith("1 turn, not saved\n")
    assert "Rooibos." in shown


def test_lines_of_a_pipe_are_shown_as_if_typed_and_no_status(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("Which tea?\n/undo\n"))
    talk(chat_of("Rooibos.", ptkb=["I avoid caffeine."], method="mine"))
    greeting = (
        "method mine, 1 statement about you. /help lists the commands; Ctrl-C stops an "
        "answer, Ctrl-D ends\nthe chat.\n"
    )
    undone = "undone: Which tea? (0 turns left)\n"
    wanted = (
        f"{greeting}\nyou> Which tea?\nRooibos.\n\n{NOTE}\n\nyou> /undo\n{undone}\nyou> "
        "\n0 turns, not saved\n"
    )
    assert timeless(capsys.readouterr().out) == wanted


def test_an_answer_that_cannot_be_saved_is_shown_as_unsaved(tmp_path):
    path = tmp_path / "chats" / "chat"
    chat = chat_of("Rooibos.", "Mint.", out=path)
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
    chat = Chat(ikat.Answer(llm), out=tmp_path / "chat")
    shown = talked(
        chat,
        "/why",
        "Which tea?",
        "/why",
        "/sources",
        "/wyh",
        "/help",
        "/undo",
        "//why not?",
        "/undo",
    )
    assert len(backend.asked) == 2
    assert "/why not?" in backend.asked[1][-1]["content"]
    parts = [
        "there is no answer yet",
        "1. answer",
        "Which tea?",
        "->",
        "based on no passage",
        "did you mean /why?",
        "/undo",
    ]
    parts += ["undone: Which tea? (0 turns left, also in ", "undone: /why not?"]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    assert [path.name for path in (tmp_path / "chat").iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("line", "said", "message"),
    [
        ("  /Help ", [], "/undo"),
        ("//etc is full", ["/etc is full"], "Rooibos."),
        ("Which / is it?", ["Which / is it?"], "Rooibos."),
        (
            "/wyh",
            [],
            (
                "no command /wyh: did you mean /why? "
                "(to say a line that begins with a slash, begin it with two)"
            ),
        ),
        ("/etc is full", [], "no command /etc: /help lists the commands"),
        ("/undo 3", [], "/undo takes nothing after it: type /undo alone"),
    ],
)
def test_a_slash_line_is_a_command_or_an_error_and_never_said(line, said, message):
    chat = chat_of("Rooibos.")
    assert message in talked(chat, line)
    assert [turn.utterance for turn in chat.turns] == said


def test_a_terminal_shows_progress_below_warnings_and_raw_texts():
    stream = Terminal()
    with Screen(stream, width=80).doing("thinking") as step:
        step.change("searching [bold]5\x1b[2J queries")
        tell("ikat: warning: nothing was [bold]learned\x1b[2J")  # as the command line says warnings
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", stream.getvalue()).split("\n")
    assert "ikat: warning: nothing was [bold]learned [2J" in lines
    assert "[bold]5" in stream.getvalue()
    talk(chat_of("Tea [1] [bold]x[/bold]."), Typed("Which tea?"), Screen(stream, width=80))
    assert "[bold]x[/bold]." in stream.getvalue()
    assert "\x1b[2m" in stream.getvalue()  # colours
    assert "\x1b[2J" not in stream.getvalue()
    with Screen(io.StringIO()).doing("thinking") as step:
        assert step is None
