"""A chat in the terminal goes on after errors and interrupts, shows its work, and runs commands."""

import io
import re

import pyte
import pyterrier as pt
import pytest
from chats import AnswersFromList, Terminal, Typed, chat_of
from fakes import Types, scripted
from rich.console import Console

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import Terminated
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.live.chat.terminal import _Activity, keyboard
from pyterrier_ikat.llms import LLM, Reply
from pyterrier_ikat.progress import _hidden, tell


def timeless(text):
    """The text with 0 for all seconds."""
    return re.sub(r"\d+\.\d s\b", "0.0 s", text)


def talked(chat, *lines):
    """All that is shown after the greeting."""
    stream = io.StringIO()
    talk(chat, Typed(*lines), Screen(stream, width=200))
    return timeless(stream.getvalue().split("\n", 1)[1])


class Raises(pt.Transformer):
    """Raises each error in turn, and does nothing for None."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def transform(self, inp):
        if self.errors:
            error = self.errors.pop(0)
            if error is not None:
                raise error
        return inp


def failing_chat(*answers, errors=(), **options):
    return Chat(ikat.Answer(scripted(*answers)[0]) >> Raises(*errors), **options)


NOTE = "(1 call, cost unknown, 0.0 s)"


def test_chat_goes_on_after_an_error_until_the_input_ends(tmp_path):
    path = tmp_path / "chat"
    shown = talked(
        failing_chat("Rooibos.", "", "Mint.", out=path), "Which tea?", "  ", "Or hot?", "Or hot?"
    )
    assert shown.startswith(f"Rooibos.\n\n{NOTE}\nikat: stage answer: 1 request failed")
    assert shown.endswith(f"\nMint.\n\n{NOTE}\n\n2 turns, saved in {path}\n")
    assert talked(failing_chat(out=tmp_path / "none")) == "\n0 turns, not saved\n"
    assert [one.name for one in tmp_path.iterdir()] == ["chat"]  # nothing said saves nothing


def test_a_defect_is_not_hidden():
    with pytest.raises(KeyError):
        talked(failing_chat("x", errors=[KeyError("no such column")]), "Which tea?")


def as_a_native_library_says_it():
    error = SystemError("error return without exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), as_a_native_library_says_it()])
def test_ctrl_c_stops_an_answer_and_at_the_prompt_the_chat(tmp_path, error):
    chat = failing_chat("Rooibos.", "Water.", "Mint.", errors=[None, error], out=tmp_path / "chat")
    shown = talked(chat, "Which tea?", "Or cold?", "Or hot?", KeyboardInterrupt(), "never read")
    assert "(stopped: nothing of this turn is kept in the chat)\nMint." in shown
    assert shown.endswith(f"\n2 turns, saved in {chat.out}\n")
    assert chat.saved == 2


def test_a_terminated_process_ends_while_it_answers():
    assert (
        talked(failing_chat("Rooibos.", errors=[Terminated()]), "Which tea?", "Which tea?")
        == "\n0 turns, not saved\n"
    )


def test_a_turn_that_is_answered_is_shown_after_ctrl_c(tmp_path, monkeypatch):
    chat = chat_of("Rooibos.", out=tmp_path / "chat")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(chat, "_save", interrupted)
    shown = talked(chat, "Which tea?")
    assert shown.startswith("(stopped)\nRooibos.\n")
    assert shown.endswith("\n1 turn, not saved\n")


def test_an_answer_that_cannot_be_saved_is_shown_as_unsaved(tmp_path):
    path = tmp_path / "chats" / "chat"
    chat = failing_chat("Rooibos.", "Mint.", out=path)
    chat.say("Which tea?")
    log = path / "log.jsonl"
    log.rename(path / "moved")
    log.mkdir()  # nothing can be put in its place
    shown = talked(chat, "Or hot?").split("\n", 3)  # after the last exchange of the chat so far
    rest = shown[-1].partition("ikat: ")[2]
    assert rest.startswith("the chat can't be saved in")
    assert "Mint." in rest
    assert rest.endswith(f"\n2 turns, only the first 1 saved in {path}\n")


# Greetings and lines


def test_a_chat_without_name_and_statements_greets_so():
    stream = io.StringIO()
    talk(chat_of(), Typed(), Screen(stream, width=200))
    assert stream.getvalue().startswith("no statements about you. /help lists the commands;")


def test_a_continued_chat_greets_with_its_last_exchange(saved):
    stream = io.StringIO()
    talk(chat_of(continue_from=saved, method="mine"), Typed(), Screen(stream, width=200))
    greeting, continued, rest = stream.getvalue().split("\n", 2)
    assert greeting == (
        "method mine, 1 statement about you. /help lists the commands; "
        "Ctrl-C stops an answer, Ctrl-D ends the chat."
    )
    assert continued == "continued after 2 turns; the last one:"
    assert rest.startswith("\nyou> Or hot?\nMint.\n")
    assert "Rooibos" not in rest
    assert rest.endswith(f"\n2 turns, saved in {saved}\n")


def test_an_empty_line_says_what_is_recorded():
    shown = talked(failing_chat("Rooibos.", script=["Which tea?"]), "coffee", "", "")
    assert shown.startswith("\nrecorded (an empty line says it): Which tea?\nikat: ")
    assert "answer only 'Which tea?'" in shown
    assert shown.endswith("1 turn, not saved\n")
    assert "Rooibos." in shown


def test_lines_of_a_pipe_are_shown_as_if_typed_and_no_status(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("Which tea?\n/undo\n"))
    talk(failing_chat("Rooibos.", ptkb=["I avoid caffeine."], method="mine"))
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


# Commands


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


def test_commands_after_a_turn_show_only_themselves():
    system = AnswersFromList("Rooibos.", "Mint.")
    commands = ("/sources", "/sources now", "/why", "")
    shown = talked(Chat(system), "Which tea?", *commands, "Or hot?", "/undo")
    assert shown.count("Rooibos.") == shown.count("Mint.") == 1
    sources = shown.partition("[1] d1")[2]
    assert "one" in sources
    assert "/sources takes nothing after it: type /sources alone" in sources
    assert shown.endswith("\nundone: Or hot? (1 turn left)\n\n1 turn, not saved\n")


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
    chat = failing_chat("Rooibos.")
    assert message in talked(chat, line)
    assert [turn.utterance for turn in chat.turns] == said


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


# The screen


def test_a_terminal_shows_progress_below_warnings_and_raw_texts():
    stream = Terminal()
    with Screen(stream, width=80).doing("thinking") as step:
        step.change("searching [bold]5\x1b[2J queries")
        tell("ikat: warning: nothing was [bold]learned\x1b[2J")  # as the command line says warnings
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", stream.getvalue()).split("\n")
    assert "ikat: warning: nothing was [bold]learned [2J" in lines
    assert "[bold]5" in stream.getvalue()
    talk(failing_chat("Tea [1] [bold]x[/bold]."), Typed("Which tea?"), Screen(stream, width=80))
    assert "[bold]x[/bold]." in stream.getvalue()
    assert "\x1b[2m" in stream.getvalue()  # colours
    assert "\x1b[2J" not in stream.getvalue()
    with Screen(io.StringIO()).doing("thinking") as step:
        assert step is None


def talked_in_terminal(chat, *lines):
    stream = Terminal()
    talk(chat, Typed(*(lines or ["Which tea?"])), Screen(stream, width=100))
    return stream.getvalue()


def test_steps_are_shown_in_a_terminal():
    assert "drafting an answer" in talked_in_terminal(chat_of("Rooibos."))


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


def test_a_replaced_answer_says_so_below_which_it_stands():
    texts = ["Tea.\n\n# About the user", Reply("Tea.\n\n# About the user\nI run.")]
    shown = talked_in_terminal(Chat(ikat.Answer(LLM(Types(texts)))))
    assert "(replaced after its check: it holds more than an answer)" in shown
    assert shown.index("(replaced after") < shown.rindex("Tea.")


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


def test_nothing_that_is_shown_commands_the_terminal(tmp_path):
    attack = "clear\x1b[2Jit"
    chat = Chat(AnswersFromList("Mint.", ikat.DataError(attack)), out=tmp_path / "chat")
    chat.say(attack)
    shown = talked(chat, "And hot?", "/undo", f"/{attack}")
    assert shown.count("clear [2Jit") >= 3
    assert "\x1b" not in shown
    again = Chat(AnswersFromList(), continue_from=tmp_path / "chat") if chat.saved else chat
    assert "\x1b" not in talked(again)
