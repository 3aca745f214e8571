"""Lines of a chat that begin with a slash."""

import pytest

from pyterrier_ikat import UsageError
from pyterrier_ikat.live.chat.terminal import Command, read_command


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("/why", Command("why")),
        ("  /Why ", Command("why")),
        ("/method gtr", Command("method", "gtr")),
        ("/method  my systems.py:gtr ", Command("method", "my systems.py:gtr")),
        ("/method", Command("method")),
        ("//etc is full", "/etc is full"),
        ("//", "/"),
        ("Which / is it?", "Which / is it?"),
    ],
)
def test_a_line_is_a_command_or_words(line, read):
    assert read_command(line) == read


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/wyh", r"no command /wyh: did you mean /why\? \(to say a line that begins with a slash, begin it with two\)"),
        ("/etc is full", "no command /etc: /help lists the commands"),
        ("/", "no command /: /help"),
        ("/undo 3", "/undo takes nothing after it: type /undo alone"),
    ],
)
def test_what_is_no_command_is_an_error_and_never_said(line, message):
    with pytest.raises(UsageError, match=message):
        read_command(line)
