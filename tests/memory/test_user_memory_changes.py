"""What is undone, replaced or forgotten in a memory, and what holds then."""

import re

import pytest
from fakes import scripted
from memory.told_facts import DOG, LYON, OSLO, TEA, chat, ids_and_hold, messages_of, reply, tell

import pyterrier_ikat as ikat


@pytest.mark.parametrize(
    ("change", "known", "gone"),
    [
        (
            lambda memory: memory.learn("u1", "a", chat(LYON, "I am 46.")),
            {"3": OSLO, "4": "I am 46."},
            [],
        ),
        (lambda memory: memory.undo("u1", "a", 2), {"3": OSLO}, []),
        (lambda memory: memory.undo("u1", "b"), {"1": LYON, "2": DOG}, []),
        (lambda memory: memory.undo("u1", "c"), {"2": DOG, "3": OSLO}, []),
        # what it replaced is back
        (lambda memory: memory.forget("u1", id="3"), {"1": LYON, "2": DOG}, [OSLO]),
        (lambda memory: memory.forget("u1", id="1"), {"2": DOG, "3": OSLO}, [LYON]),
        (lambda memory: memory.forget("u1"), {}, [LYON, OSLO, DOG, "u1"]),
    ],
)
def test_the_undone_no_longer_holds_and_the_forgotten_is_gone(memory, change, known, gone):
    tell(memory, "a", LYON, DOG)
    tell(memory, "b", OSLO)
    tell(memory, "c", TEA, user="u2")
    change(memory)
    assert memory.known("u1") == ikat.UserMemory(memory.path).known("u1") == known
    assert memory.known("u2") == {"1": TEA}
    file = memory.path.read_text()
    assert [text for text in (LYON, OSLO, DOG, TEA, "u1", "u2") if text not in file] == gone


def test_what_was_undone_can_be_told_again(memory):
    memory.learn("u1", "a", chat(DOG))
    memory.add("u1", [DOG])  # it is known
    memory.undo("u1", "a")
    memory.add("u1", [DOG])
    assert list(memory.known("u1").values()) == [DOG]


def test_an_id_of_an_undone_statement_is_given_to_no_other(memory):
    memory.learn("u1", "a", chat(DOG))
    memory.undo("u1", "a")
    memory.add("u1", [TEA])
    memory.learn("u1", "b", chat(LYON))
    assert memory.known("u1") == {"2": TEA, "3": LYON}
    assert [entry["id"] for entry in memory.memories("u1")] == ["1", "2", "3"]


def test_a_replaced_statement_held_until_it_was_replaced(memory):
    memory.learn("u1", "a", chat(LYON), when="2024-01-01")
    memory.learn("u1", "b", chat(OSLO), when="2024-02-01")
    memory.undo("u1", "a", when="2024-03-01")
    ends = [entry["until"] for entry in memory.memories("u1")]
    assert ends == ["2024-02-01T00:00:00.000Z", None]
    memory.undo("u1", "b", when="2024-04-01")  # then nothing had replaced it
    ends = [entry["until"] for entry in memory.memories("u1")]
    assert ends == ["2024-03-01T00:00:00.000Z", "2024-04-01T00:00:00.000Z"]


def test_a_changed_message_undoes_from_its_turn_on_at_its_time(memory, notes):
    memory.learn("u1", "a", chat(DOG), when="2024-01-01")
    memory.learn("u1", "a", chat(DOG, TEA), when="2024-01-02")
    memory.learn("u1", "a", chat(DOG, LYON), when="2024-03-04T10:00")
    assert list(memory.known("u1").values()) == [DOG, LYON]
    entries = {entry["statement"]: entry for entry in memory.memories("u1")}
    assert entries[TEA]["until"] == entries[LYON]["when"] == "2024-03-04T10:00:00.000Z"
    assert entries[DOG]["until"] is None
    assert "Monday, 2024-03-04" in notes.prompts[-1]
    assert f"user: {DOG}" in notes.prompts[-1]  # no longer numbered


def test_undoing_a_turn_that_was_not_learned_changes_nothing(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", scripted(reply((1, DOG)))[0])
    memory.learn("u", "a", messages_of(DOG))
    events = memory.export("u")
    memory.undo("u", "a", 2)
    assert memory.export("u") == events


def test_the_whole_history_is_kept_with_what_was_undone(memory):
    memory.add("u", [LYON], when="2024-01-01")
    memory.update("u", "1", OSLO, when="2024-01-02")
    memory.undo("u", "a", 0)
    memory.undo("u", "a", -1)
    assert len(memory.export("u")) == 2
    memory.undo("u", "", 0)
    assert len(memory.export("u")) == 2  # what was told has no turn that could be undone
    table = memory.table("u")
    assert table[["id", "session", "turn", "until", "holds"]].values.tolist() == [
        ["1", "", 0, "2024-01-02T00:00:00.000Z", False],
        ["2", "", 0, None, True],
    ]
    assert table.columns.tolist() == [
        "id", "statement", "session", "turn", "words", "when", "until", "holds",
    ]  # fmt: skip
    assert [entry["id"] for entry in memory.all("u")] == ["2"]
    assert memory.export("nobody") == []


# Forgotten


def test_the_forgotten_is_not_learned_again_nor_its_id_reused(memory, notes):
    tell(memory, "a", LYON, OSLO)
    memory.forget("u1", id="2")
    assert memory.learn("u1", "a", chat(LYON, OSLO)) == []
    assert len(notes.prompts) == 2
    memory.learn("u1", "b", chat(TEA))
    assert memory.known("u1") == {"1": LYON, "3": TEA}
    assert ids_and_hold(memory, "u1") == [("1", True), ("3", True)]
    memory.undo("u1", "b")
    memory.forget("u1", id="3")
    assert memory.known("u1") == {"1": LYON}
    assert TEA not in memory.path.read_text()


def test_a_chain_of_replacements_closes_over_what_is_forgotten(memory):
    rome = "I live in Rome."
    tell(memory, "a", LYON, OSLO, rome)  # each replaces the one before
    memory.forget("u1", id="2")
    assert memory.known("u1") == ikat.UserMemory(memory.path).known("u1") == {"3": rome}
    assert ids_and_hold(memory, "u1") == [("1", False), ("3", True)]
    assert memory.search("u1", "Lyon") == []
    memory.undo("u1", "a", 3)
    assert memory.known("u1") == {"1": LYON}
    memory.forget("u1", id="3")
    assert memory.known("u1") == {"1": LYON}
    assert [one[0] for one in memory.search("u1", "Lyon")] == ["1"]


@pytest.mark.parametrize(
    ("user", "id", "told"),
    [
        ("an", None, "no user 'an', so nothing is forgotten: did you mean ann?"),
        ("an", "1", "no user 'an', so nothing is forgotten: did you mean ann?"),
        ("x", None, "no user 'x', so nothing is forgotten: it knows ann, bob"),
        ("ann", "9", "no statement '9' of ann, so nothing is forgotten: it has 1, 2"),
        ("ann", 1.5, "id 1.5 of a statement: give a text or a whole number"),
        ("bob", "1", "no statement '1' of bob, so nothing is forgotten: it has none"),
    ],
)
def test_who_or_what_is_not_there_to_be_forgotten_is_told(memory, user, id, told):
    memory.add("ann", [LYON, DOG])
    memory.add("bob", [TEA])
    memory.forget("bob", id="1")
    before = memory.path.read_bytes()
    with pytest.raises(ikat.UsageError, match=re.escape(told)):
        memory.forget(user, id=id)
    assert memory.path.read_bytes() == before


def test_an_empty_memory_has_nobody_to_forget(memory):
    with pytest.raises(ikat.UsageError, match="it knows nobody"):
        memory.forget("ann")
    assert not memory.path.exists()


def test_what_is_not_forgotten_stays_as_it_was(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", scripted(*[reply((1, DOG))] * 4)[0])
    for user in "dbac":
        memory.add(user, [LYON])
        memory.update(user, "1", OSLO)
        memory.learn(user, "s", messages_of(DOG))
        memory.undo(user, "s")
    before = {user: memory.export(user) for user in "dac"}
    memory.forget("b", id="2")
    assert memory.known("b") == {"1": LYON}
    assert [(row["id"], row["until"] is None) for row in memory.memories("b")] == [
        ("1", True),
        ("3", False),
    ]
    memory.forget("b", id="1")
    assert memory.known("b") == {}
    assert "b" in memory.users()  # with what was undone
    memory.forget("b")
    assert memory.users() == ["d", "a", "c"]
    assert {user: memory.export(user) for user in "dac"} == before


def test_a_part_of_an_id_names_no_statement(memory):
    memory.add("u", {"12": LYON, "3": DOG})
    for name in ("1", "2", "12 3", ""):
        with pytest.raises(ikat.UsageError, match=f"no statement '{name}' of u, so nothing is"):
            memory.forget("u", id=name)
    assert memory.known("u") == {"12": LYON, "3": DOG}


# Updated


def test_an_updated_statement_replaces_the_old_one_from_then_on(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", [LYON, DOG], when="2024-01-05")
    assert memory.update("ann", "1", OSLO, when="2024-05-02") == "3"
    assert memory.known("ann") == {"2": DOG, "3": OSLO}
    assert memory.known("ann", as_of="2024-02-01") == {"1": LYON, "2": DOG}
    first, second = memory.all("ann")
    assert (first["id"], first["statement"], first["when"][:10]) == ("2", DOG, "2024-01-05")
    assert (second["id"], second["statement"], second["when"][:10]) == ("3", OSLO, "2024-05-02")
    assert first["until"] is second["until"] is None
    assert memory.update("ann", "3", OSLO) == "3"  # nothing to change
    assert len(memory.export("ann")) == 2
    assert [number for number, _ in memory.search("ann", "Oslo or Lyon?")] == ["3"]
    assert ikat.UserMemory(tmp_path / "m.jsonl").all("ann") == memory.all("ann")
    memory.forget("ann", id="3")
    assert memory.known("ann") == {"1": LYON, "2": DOG}  # as for every statement that is forgotten
    assert memory.all("bob") == []


@pytest.mark.parametrize(
    ("user", "id", "text", "message"),
    [
        ("ann", "9", OSLO, "no statement '9' of 'ann' holds, so nothing is replaced: it has 2, 3"),
        ("ann", "1", OSLO, "no statement '1' of 'ann' holds"),  # it was replaced
        (
            "an",
            "2",
            OSLO,
            "the memory knows no user 'an', so nothing is replaced: did you mean ann?",
        ),
        ("ann", "2", None, "text=None: give the statement as it is now"),
        ("ann", "2", " .", "give the statement as it is now"),
    ],
)
def test_an_update_of_nothing_or_to_nothing_is_refused(tmp_path, user, id, text, message):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", [LYON, DOG])
    memory.update("ann", "1", OSLO)
    before = memory.export("ann")
    with pytest.raises(ikat.UsageError, match=message):
        memory.update(user, id, text)
    assert memory.export("ann") == before


def test_a_statement_is_named_by_its_number_too(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", ["I own a dog.", "I live in Oslo."])
    assert memory.update("ann", 1, "I own a cat.") == "3"
    memory.forget("ann", id=3)
    assert memory.known("ann") == {"1": "I own a dog.", "2": "I live in Oslo."}


def test_an_updated_statement_gets_no_id_of_a_forgotten_one(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", [LYON, DOG])
    assert memory.update("ann", "1", OSLO) == "3"
    memory.forget("ann", id="3")
    assert memory.update("ann", "1", OSLO) == "4"


def test_an_update_is_of_the_text_alone(tmp_path):
    model = scripted(reply((1, DOG)))[0]
    memory = ikat.UserMemory(tmp_path / "m.jsonl", model, dated=True)
    memory.learn("u", "a", messages_of(DOG))
    assert memory.update("u", "1", DOG) == "1"
    memory.add("u", [LYON, TEA])
    assert memory.update("u", "3", TEA) == "4"  # which another statement says already
    assert list(memory.known("u")) == ["1", "2", "4"]
