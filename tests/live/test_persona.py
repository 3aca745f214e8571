"""Personas from text, JSON, topics files and datasets."""

import json

import pytest

from pyterrier_ikat import DataError, UsageError
from pyterrier_ikat.live.persona import Persona, open_memory, read_persona, user_of

STATEMENTS = {"1": "I avoid caffeine.", "2": "I own a dog."}
TURN = {"turn_id": 1, "utterance": "Which tea?", "response": "Rooibos."}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("me.txt", "I avoid caffeine.\r\n\n  I own a dog.  \n"),
        ("me.txt", "\ufeffI avoid caffeine.\nI own a dog."),
        ("me", "I avoid caffeine.\nI own a dog.\n"),
    ],
)
def test_statements_of_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_persona(tmp_path / name) == Persona(STATEMENTS, "chat")
    assert read_persona(tmp_path / name, "mine-7").number == "mine-7"


def test_a_conversation_of_a_topics_file_or_of_the_sample(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(
        json.dumps([{"number": 7, "ptkb": {"5": "I avoid caffeine."}, "turns": [TURN]}])
    )
    assert read_persona(path) == Persona({"5": "I avoid caffeine."}, "7", ("Which tea?",))
    path.write_text(
        json.dumps([{"number": name, "ptkb": [name], "turns": [TURN]} for name in ("9-1", "9-2")])
    )
    assert read_persona(path, "9-2") == Persona({"1": "9-2"}, "9-2", ("Which tea?",))
    for number in (None, "9-3"):
        with pytest.raises(
            UsageError,
            match=r"topics.json has the conversations 9-1, 9-2: choose one with number=...",
        ):
            read_persona(path, number)
    persona = read_persona("ikat:sample", "1-1")
    assert persona.ptkb["4"] == "My border collie Bruno goes with me wherever I go."
    assert (
        persona.utterances[1]
        == "The heath sounds lovely. And when would be a good time to set off?"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("me.txt", b" \n\n", "has no statements: give one statement per line"),
        ("me.json", b'["I avoid caffeine."]', "me.json, conversation 1: not of the form"),
        ("me.json", b"I avoid caffeine.", "can't be read"),
        ("me.txt", b"\xff\xfe\xfa", "can't be read"),
        ("me.txt", None, "No such file"),
    ],
)
def test_a_file_that_is_no_persona(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises(DataError, match=message):
        read_persona(tmp_path / name)


def test_nobody_has_a_name_that_can_be_part_of_a_qid():
    assert user_of(None) == Persona({})
    for number in ("", "my chat"):
        with pytest.raises(UsageError, match="give one word"):
            user_of(None, None, number)


def test_what_is_no_memory_is_refused_before_the_first_turn():
    with pytest.raises(UsageError, match="memory is a dict: give a UserMemory, or its file"):
        open_memory({"1": "I own a dog."}, None)
