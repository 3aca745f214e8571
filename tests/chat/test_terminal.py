"""A chat in the terminal goes on after errors, and ends with the input or with Ctrl-C."""

import io

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.chat import Chat, talk
from pyterrier_ikat.conversations import read_topics


class Typed:
    """A user: types these lines; an exception is raised."""

    def __init__(self, *lines):
        self.lines = list(lines)

    def __call__(self, prompt):
        line = self.lines.pop(0) if self.lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


def talked(chat, *lines):
    shown = []
    talk(chat, Typed(*lines), shown.append)
    return shown


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


def test_it_talks_until_the_input_ends(tmp_path):
    path = tmp_path / "chat.json"
    shown = talked(chat_of("Rooibos.", "Mint.", save_to=path), "Which tea?", "  ", "Or hot?")
    assert shown == ["Rooibos.", "Mint.", f"\n2 turns, saved in {path}"]
    assert [turn.response for turn in read_topics(path)[0].turns] == ["Rooibos.", "Mint."]


def test_an_error_does_not_end_it():
    shown = talked(chat_of("", "Rooibos."), "Which tea?", "Which tea?")
    assert shown[0].startswith("ikat: ")
    assert "chat_1" in shown[0]
    assert shown[1:] == ["Rooibos.", "\n1 turn, not saved"]


def test_a_defect_is_not_hidden():
    chat = chat_of()
    chat.system = lambda frame: frame["no such column"]
    with pytest.raises(KeyError):
        talked(chat, "Which tea?")


def test_ctrl_c_ends_it_with_what_was_said_saved(tmp_path):
    path = tmp_path / "chat.json"
    shown = talked(chat_of("Rooibos.", save_to=path), "Which tea?", KeyboardInterrupt())
    assert shown[-1] == f"\n1 turn, saved in {path}"
    assert len(read_topics(path)[0].turns) == 1


def test_ctrl_c_during_a_turn_leaves_that_turn_out(tmp_path):
    def interrupted(frame):
        raise KeyboardInterrupt

    chat = chat_of("Rooibos.", save_to=tmp_path / "chat.json")
    chat.say("Which tea?")
    chat.system = interrupted
    assert talked(chat, "Or hot?")[-1].startswith("\n1 turn, saved in")


def test_nothing_said_saves_nothing(tmp_path):
    assert talked(chat_of(save_to=tmp_path / "chat.json")) == ["\n0 turns, not saved"]
    assert list(tmp_path.iterdir()) == []


def test_an_empty_line_says_what_is_recorded():
    shown = talked(chat_of("Rooibos.", script=["Which tea?"]), "coffee", "", "")
    assert shown[0] == "\nrecorded (an empty line says it): Which tea?"
    assert "answer only 'Which tea?'" in shown[1]
    assert shown[3:] == ["Rooibos.", "\n1 turn, not saved"]


def test_lines_of_a_pipe_are_shown_as_if_typed(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("Which tea?\n"))
    talk(chat_of("Rooibos."))
    assert capsys.readouterr().out == "\nyou> Which tea?\nRooibos.\n\nyou> \n1 turn, not saved\n"


def test_an_answer_that_cannot_be_saved_is_shown_and_not_said_to_be_saved(tmp_path):
    path = tmp_path / "chats" / "chat.json"
    chat = chat_of("Rooibos.", "Mint.", save_to=path)
    chat.say("Which tea?")
    path.unlink()
    path.mkdir()  # nothing can be put in its place
    shown = talked(chat, "Or hot?")
    assert shown[0].startswith(f"ikat: the chat can't be saved in {path}")
    assert shown[1:] == ["Mint.", f"\n2 turns, only the first 1 saved in {path}"]
