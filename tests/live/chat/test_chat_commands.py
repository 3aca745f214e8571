"""Lines of a chat that begin with a slash."""

import io

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.live.chat.terminal import COMMANDS


def typed(*lines):
    """What a chat shows after these lines, and what the model was asked last."""
    llm, backend = scripted("Rooibos.", "Mint.", "Mate.")
    chat, stream, left = Chat(ikat.Answer(llm)), io.StringIO(), list(lines)

    def read(prompt):
        if left:
            return left.pop(0)
        raise EOFError

    talk(chat, read, Screen(stream, width=200))
    return stream.getvalue(), [turn.utterance for turn in chat.turns], len(backend.asked)


@pytest.mark.parametrize("line", ["/help", "  /Help "])
def test_help_lists_every_command(line):
    shown, said, asked = typed(line)
    assert [name for name in COMMANDS if name not in shown] == []
    assert (said, asked) == ([], 0)


@pytest.mark.parametrize(
    ("line", "said"), [("//etc is full", "/etc is full"), ("//", "/"), ("Which / is it?", "Which / is it?"), (" tea? ", "tea?")]
)
def test_other_lines_are_said(line, said):
    assert typed(line)[1:] == ([said], 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/wyh", "no command /wyh: did you mean /why? (to say a line that begins with a slash, begin it with two)"),
        ("/etc is full", "no command /etc: /help lists the commands"),
        ("/", "no command /: /help"),
        ("/undo 3", "/undo takes nothing after it: type /undo alone"),
        ("/method my systems.py:gtr", "my systems.py"),
    ],
)
def test_what_is_no_command_is_an_error_and_never_said(line, message):
    shown, said, asked = typed(line)
    assert message in shown
    assert (said, asked) == ([], 0)
