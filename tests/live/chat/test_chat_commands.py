"""Lines of a chat that begin with a slash, and the Tab key."""

import sys
from types import SimpleNamespace

import pytest

from pyterrier_ikat import UsageError
from pyterrier_ikat.live.chat.terminal import COMMANDS, Command, completions, keyboard, read_command


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


@pytest.mark.parametrize("library", ["GNU readline", "libedit readline"])
def test_tab_completes_commands_and_methods_whatever_library_reads_the_keys(monkeypatch, library):
    told, given = [], {}
    keys = SimpleNamespace(
        __doc__=f"Importing this module enables command line editing using {library}.",
        parse_and_bind=told.append,
        set_completer_delims=lambda signs: given.update(signs=signs),
        set_completer=lambda complete: given.update(complete=complete),
        get_line_buffer=lambda: "/method raw more",
        get_endidx=lambda: len("/method ra"),
    )
    monkeypatch.setitem(sys.modules, "readline", keys)
    keyboard(completions)
    assert [given["complete"]("ra", number) for number in range(2)] == ["raw", "raw_dense"]
    assert given["signs"] == " "
    assert told[0] == {"G": "tab: complete", "l": "bind ^I rl_complete"}[library[0]]
    assert ("set enable-bracketed-paste on" in told) == (library[0] == "G")


def test_what_tab_offers():
    assert [one.strip() for one in completions("/")] == [f"/{name}" for name in COMMANDS]
    assert completions("/undo ") == completions("why") == completions("/w ") == []
    assert {"ad", "gtr"} <= set(completions("/method "))
    assert not {"human_qr", "organizers_2023_manual"} & set(completions("/method "))
