"""Personas from text, JSON, topics files and datasets."""

import json
from types import SimpleNamespace

import pytest
from fakes import scripted

from pyterrier_ikat import DataError, UsageError, UserMemory
from pyterrier_ikat.live import persona
from pyterrier_ikat.live.persona import (
    Persona,
    known_of,
    open_memory,
    read_persona,
    read_personas,
    user_of,
)

STATEMENTS = {"1": "I avoid caffeine.", "2": "I own a dog."}


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


TURN = {"turn_id": 1, "utterance": "Which tea?", "response": "Rooibos."}


def test_a_conversation_of_a_topics_file_or_of_the_sample(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(
        json.dumps([{"number": 7, "ptkb": {"5": "I avoid caffeine."}, "turns": [TURN]}])
    )
    assert read_persona(path) == Persona({"5": "I avoid caffeine."}, "7", ("Which tea?",))
    conversations = [
        {"number": "9-1", "ptkb": ["9-1"], "turns": [TURN]},
        {"number": "9-2", "ptkb": ["9-2"], "turns": [TURN]},
    ]
    path.write_text(json.dumps(conversations))
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


def test_a_folder_has_a_persona_for_each_user(tmp_path):
    (tmp_path / "ann.txt").write_text("I like tea.\nI run.\n")
    (tmp_path / "bob.b.txt").write_text("I cook.\n")
    (tmp_path / "notes.md").write_text("no persona\n")
    assert read_personas(tmp_path) == {
        "ann": {"1": "I like tea.", "2": "I run."},
        "bob.b": {"1": "I cook."},
    }
    assert read_personas(tmp_path / "ann.txt") == {"": {"1": "I like tea.", "2": "I run."}}
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="none has no persona"):
        read_personas(tmp_path / "none")
    with pytest.raises(DataError, match="missing"):
        read_personas(tmp_path / "missing")


def test_a_folder_of_a_dataset_and_json_lines_have_conversations(tmp_path):
    said = [{"role": "user", "content": "Which tea?"}]
    first = {"qid": "9-1_1", "messages": said, "ptkb": ["I run."]}
    said = [*said, {"role": "assistant", "content": "Mint."}, {"role": "user", "content": "Hot?"}]
    second = {"qid": "9-1_2", "messages": said, "ptkb": ["I cook."]}
    lines = [json.dumps(turn) + "\n" for turn in (first, second)]
    (tmp_path / "topics.jsonl").write_text("".join(lines))
    persona = Persona({"1": "I cook."}, "9-1", ("Which tea?", "Hot?"))  # its last statements
    assert read_persona(tmp_path / "topics.jsonl") == persona
    assert read_persona(tmp_path) == persona
    assert read_persona(str(tmp_path), "9-1") == persona
    with pytest.raises(UsageError, match="has the conversations 9-1: choose"):
        read_persona(tmp_path, "9")
    assert read_persona("sample", "1-1") == read_persona("ikat:sample", "1-1")


def test_a_persona_is_given_once_with_its_name():
    assert user_of({"7": "I run."}, None, "mine") == Persona({"7": "I run."}, "mine")
    assert user_of(None, "ikat:sample", "2-1").number == "2-1"
    for ptkb in (["I run."], []):
        with pytest.raises(UsageError, match="omit one"):
            user_of(ptkb, "ikat:sample", "2-1")


def test_a_memory_file_is_opened_with_its_model_run_and_prompts(tmp_path):
    model = scripted("[]")[0]
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "update_ptkb.jinja").write_text("{{ messages }}")
    memory = open_memory(tmp_path / "me.jsonl", model, prompts, run="mine")
    assert (memory.path, memory.llm, memory.run) == (tmp_path / "me.jsonl", model, "mine")
    assert memory.prompts == str(prompts)
    assert open_memory(str(tmp_path / "me.jsonl"), model).prompts is None
    assert open_memory(memory, None) is memory
    assert open_memory(None, model) is None
    for nothing in (UserMemory(tmp_path / "other.jsonl"), tmp_path / "other.jsonl"):
        with pytest.raises(UsageError, match="no language model to learn with"):
            open_memory(nothing, None)


def test_what_is_known_was_learned_before_the_turn(tmp_path):
    assert known_of(None, "ann", {"1": "I run."}, "1-1", 1) == {"1": "I run."}
    learned = '[{"message": 1, "words": "I cook.", "statement": "I cook."}]'
    memory = UserMemory(tmp_path / "me.jsonl", scripted(learned)[0])
    assert known_of(memory, "ann", {"1": "I run."}, "1-1", 1) == {"1": "I run."}
    memory.learn("ann", "1-1", [{"role": "user", "content": "I cook."}])
    both = {"1": "I run.", "2": "I cook."}
    first = known_of(memory, "ann", {"1": "I run."}, "1-1", 1)
    second = known_of(memory, "ann", {"1": "I run."}, "1-1", 2)
    assert first == {"1": "I run."}
    assert second == both
    assert known_of(memory, "ann", {}, "1-2", 1) == both
    assert known_of(memory, "bob", {}, "1-2", 1) == {}


def chats_of(*chats):
    made = []
    for number, ptkb, utterances in chats:
        turns = [SimpleNamespace(utterance=text) for text in utterances]
        made.append(SimpleNamespace(number=number, ptkb=ptkb, turns=turns))
    return made


def test_a_conversation_in_parts_has_all_words(monkeypatch):
    chats = chats_of(
        ("2-1", {"1": "c"}, ["d"]),
        ("1-1", {"1": "a"}, ["a", "b"]),
        ("1-1", {"1": "a", "2": "b"}, ["c"]),
    )
    monkeypatch.setattr(persona, "read_topics", lambda path: chats)
    whole = Persona({"1": "a", "2": "b"}, "1-1", ("a", "b", "c"))
    assert read_persona("topics.json", "1-1") == user_of(None, "topics.jsonl", "1-1") == whole
    for number in (None, "3-1"):
        with pytest.raises(UsageError, match="has the conversations 2-1, 1-1: choose one"):
            read_persona("topics.json", number)
    del chats[0]
    assert read_persona("topics.json") == whole


def test_files_of_people_are_read_by_their_names(tmp_path):
    for name, text in [("bob", "\ufeff I ski. \n\n\u2028x\n"), ("ann.b", "I run.")]:
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "notes.md").write_text("no persona")
    people = {"ann.b": {"1": "I run."}, "bob": {"1": "I ski.", "2": "x"}}
    assert read_personas(tmp_path) == people
    assert list(read_personas(tmp_path)) == ["ann.b", "bob"]
    assert read_personas(tmp_path / "bob.txt") == {"": people["bob"]}
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bad\.txt can't be read .*: give UTF-8 text"):
        read_personas(tmp_path)
    (tmp_path / "bad.txt").write_text(" \n")
    with pytest.raises(DataError, match=r"bad\.txt has no statements"):
        read_persona(tmp_path / "bad.txt")


@pytest.mark.parametrize("number", ["", "a b", " ", "a\n b"])
def test_the_name_of_a_persona_is_one_word(number):
    with pytest.raises(UsageError, match="can't be part of a qid"):
        user_of(["I run."], number=number)
    assert user_of(["I run."], number="a") == Persona({"1": "I run."}, "a")
    assert user_of(None) == Persona({}, "chat")
