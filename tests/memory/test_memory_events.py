"""The events of a memory and what follows from them: whole results of small cases."""

import json
import os
from itertools import cycle
from threading import Event, Thread

import filelock
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import known_statements
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.memory import memory_file
from pyterrier_ikat.memory.history import History, StatementIndex, digests, without, words_of
from pyterrier_ikat.memory.memory_file import LOCK_TIMEOUT, MemoryFile
from pyterrier_ikat.retrieve.eager import LexicalIndex

LYON = "I live in Lyon."
OSLO = "I live in Oslo."
DOG = "I own a dog."
TEA = "I like tea."


def statement(id, text, message=1, replaces=()):
    return {
        "id": id,
        "statement": text,
        "message": message,
        "words": text,
        "replaces": list(replaces),
    }


def learned(day, session, turn, *statements, said=()):
    return {
        "event": "learned",
        "when": f"2024-01-{day:02}",
        "user": "u",
        "session": session,
        "turn": turn,
        "said": list(said),
        "learned": list(statements),
    }


def undone(day, session, turn):
    return {
        "event": "undone",
        "when": f"2024-01-{day:02}",
        "user": "u",
        "session": session,
        "turn": turn,
    }


EVENTS = [
    learned(1, "", 0, statement("1", LYON, 0), statement("2", DOG, 0)),
    learned(2, "a", 1, statement("3", OSLO, 1, ["1"]), said=digests(["x"])),
    learned(3, "a", 3, statement("4", TEA, 2), statement("5", "I run.", 3), said=digests("yz")),
    undone(4, "a", 2),
    learned(5, "b", 1, statement("6", TEA, 1, ["2", "9"]), said=digests(["x"])),
]


def test_the_state_follows_from_the_events():
    history = History(EVENTS)
    assert history.known() == {"3": OSLO, "6": TEA}
    assert history.known(dated=True) == {
        "3": f"{OSLO} (said 2024-01-02, a, turn 1)",
        "6": f"{TEA} (said 2024-01-05, b, turn 1)",
    }
    assert history.sessions == {"", "a", "b"}
    assert history.ids == {"1", "2", "3", "4", "5", "6", "9"}
    assert history.texts == {"i live in lyon", "i own a dog", "i live in oslo", "i like tea"}
    assert history.events == EVENTS
    assert history.entries == [EVENTS[0], EVENTS[1], EVENTS[4]]
    assert [name for name, _ in history.index.search("tea in Oslo, my dog", 9)] == ["6", "3"]


def test_each_memory_holds_until_it_was_replaced_or_undone():
    memories = History(EVENTS).memories()
    assert [(memory["id"], memory["when"], memory["until"]) for memory in memories] == [
        ("1", "2024-01-01", "2024-01-02"),
        ("2", "2024-01-01", "2024-01-05"),
        ("3", "2024-01-02", None),
        ("4", "2024-01-03", "2024-01-04"),
        ("5", "2024-01-03", "2024-01-04"),
        ("6", "2024-01-05", None),
    ]
    assert memories[4] == {
        "id": "5",
        "statement": "I run.",
        "words": "I run.",
        "replaces": [],
        "when": "2024-01-03",
        "session": "a",
        "turn": 3,
        "until": "2024-01-04",
    }


@pytest.mark.parametrize(
    ("when", "known"),
    [
        ("2023-12-31", []),
        ("2024-01-01", ["1", "2"]),
        ("2024-01-02", ["2", "3"]),
        ("2024-01-03", ["2", "3", "4", "5"]),
        ("2024-01-04", ["2", "3"]),
        ("2024-01-05", ["3", "6"]),
    ],
)
def test_the_state_at_a_time_has_the_events_until_then(when, known):
    assert list(History(EVENTS).until(when).known()) == known


@pytest.mark.parametrize(
    ("session", "turn", "known"),
    [
        ("a", 0, ["1", "2"]),
        ("a", 1, ["1", "2"]),
        ("a", 2, ["3", "6"]),
        ("b", 1, ["2", "3"]),
        ("b", 2, ["3", "6"]),
        ("c", 1, ["3", "6"]),
    ],
)
def test_the_state_before_a_turn_has_no_later_entries(session, turn, known):
    assert list(History(EVENTS).before(session, turn).known()) == known


def test_a_session_knows_its_turns():
    history = History(EVENTS[:3])
    assert history.of_session("a") == EVENTS[1:3]
    assert [history.last_turn(name) for name in ("a", "", "c")] == [3, 0, 0]
    assert History(EVENTS).last_turn("a") == 1
    for turn, ids in ((0, []), (1, ["3"]), (2, ["4"]), (3, ["4", "5"])):
        found = history.learned_before("a", turn)
        assert [entry["id"] for entry in found] == ids
    assert history.learned_before("a", 4) is None
    assert history.learned_before("b", 1) is None


@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ("xyz", None),
        ("xyzw", None),
        ("x", None),
        ("q", 1),
        ("qyz", 1),
        ("xq", 2),
        ("xqz", 2),
        ("xyq", 3),
    ],
)
def test_the_first_changed_turn_is_found(messages, turn):
    assert History(EVENTS[:3]).first_changed_turn("a", list(messages)) == turn
    assert History(EVENTS[:3]).first_changed_turn("b", list(messages)) is None


def test_an_event_that_is_taken_changes_what_was_asked_before():
    history = History(EVENTS[:1])
    assert history.texts == {"i live in lyon", "i own a dog"}
    assert [name for name, _ in history.index.search("Lyon Oslo tea", 9)] == ["1"]
    history.take(EVENTS[1])
    assert "i live in oslo" in history.texts
    assert [name for name, _ in history.index.search("Lyon Oslo tea", 9)] == ["3"]
    history.take(undone(9, "a", 1))
    assert "i live in oslo" not in history.texts
    assert history.known() == {"1": LYON, "2": DOG}
    assert [name for name, _ in history.index.search("Lyon Oslo tea", 9)] == ["1"]


def test_a_forgotten_statement_frees_what_it_replaced():
    chain = [
        learned(1, "", 0, statement("1", LYON)),
        learned(2, "", 0, statement("2", OSLO, 1, ["1"])),
        learned(3, "a", 1, statement("3", TEA, 1, ["2"]), statement("4", DOG)),
        undone(4, "b", 1),
    ]
    before = json.dumps(chain)
    left = without(chain, "2")
    empty = {"id": "2", "statement": "", "message": 1, "words": "", "replaces": []}
    assert [event.get("learned") for event in left] == [
        [statement("1", LYON)],
        [empty],
        [statement("3", TEA, 1, ["2", "1"]), statement("4", DOG)],
        None,
    ]
    assert json.dumps(chain) == before
    assert History(left).known() == {"3": TEA, "4": DOG}
    assert History(without(chain, "3")).known() == {"2": OSLO, "4": DOG}
    assert [memory["id"] for memory in History(left).memories()] == ["1", "3", "4"]
    assert without(chain, "9") == chain


def test_an_index_has_the_newest_text_of_each_statement():
    index = StatementIndex({"1": DOG, "2": "My dog likes my other dog."})
    both = index.search("dog", 9)
    assert [name for name, _ in both] == ["2", "1"]
    assert index.search("dog", 1) == both[:1]
    assert index.search("dog dog", 9)[0][1] == pytest.approx(2 * both[0][1])
    index.put("1", TEA)
    assert [name for name, _ in index.search("dog", 9)] == ["2"]
    index.put("2", None)
    index.put("9", None)
    assert index.search("dog", 9) == []
    alone = StatementIndex({"1": TEA}).search("tea", 9)
    assert index.search("tea", 9) == alone  # removed statements don't count
    assert StatementIndex({}).search("tea", 9) == []


def test_the_messages_of_the_user_are_learned_from():
    chat = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert words_of(chat) == ["a", "c"]
    for wrong in ([], chat[1:2]):
        with pytest.raises(ikat.UsageError, match="the user has said nothing yet"):
            words_of(wrong)
    with pytest.raises(ikat.UsageError, match="a message is not"):
        words_of([*chat, {"role": "system", "content": "x"}])


@pytest.fixture
def memory(tmp_path):
    return ikat.UserMemory(tmp_path / "folder" / "users.jsonl", scripted()[0])


def test_statements_that_are_told_get_ids_of_their_own(memory):
    memory.add("u", {"1": LYON, "x": DOG}, when="2024-01-01")
    memory.add("u", {"1": TEA, "2": OSLO, "x": "I live in LYON"}, when="2024-01-02")
    assert memory.known("u") == {"1": LYON, "x": DOG, "3": TEA, "2": OSLO}
    memory.add("u", ["I run.", "i run", "I swim."])
    assert list(memory.known("u")) == ["1", "x", "3", "2", "4", "5"]
    assert [event["learned"] for event in memory.export("u")][1] == [
        {"id": "3", "statement": TEA, "message": 0, "words": "", "replaces": []},
        {"id": "2", "statement": OSLO, "message": 0, "words": "", "replaces": []},
    ]
    assert [event["when"][:10] for event in memory.export("u")][:2] == ["2024-01-01", "2024-01-02"]
    size = memory.path.stat().st_size
    memory.add("u", [LYON, "i own a DOG"])
    memory.add("u", [])
    assert memory.path.stat().st_size == size


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


def reply(*statements):
    return json.dumps(
        [{"message": number, "words": text, "statement": text} for number, text in statements]
    )


def chat(*texts):
    """Messages of the user and the system in turn."""
    messages = []
    for role, text in zip(cycle(["user", "assistant"]), texts):
        messages.append({"role": role, "content": text})
    return messages


def test_what_is_learned_is_noted_with_its_messages(tmp_path):
    llm, backend = scripted(reply((1, DOG)), reply((2, TEA)), reply((2, LYON)), "[]")
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    messages = chat(DOG, "Ok.", TEA, "Ok.")
    memory.learn("u", "a", messages[:1], when="2024-01-01")
    found = memory.learn("u", "a", messages, when="2024-01-02")
    assert found == [statement("2", TEA, 2)]
    assert memory.learn("u", "a", messages[:2]) == [statement("1", DOG, 1)]
    assert len(backend.asked) == 2
    changed = [*messages[:2], {"role": "user", "content": LYON}]
    assert memory.learn("u", "a", changed, when="2024-01-03") == [statement("3", LYON, 2)]
    assert memory.learn("u", "b", [*changed, *chat("-")[:0]], when="2024-01-04") == []
    events = memory.export("u")
    shown = []
    for event in events:
        shown.append((event["event"], event["when"][:10], event["session"], event["turn"]))
    assert shown == [
        ("learned", "2024-01-01", "a", 1),
        ("learned", "2024-01-02", "a", 2),
        ("undone", "2024-01-03", "a", 2),
        ("learned", "2024-01-03", "a", 2),
        ("learned", "2024-01-04", "b", 2),
    ]
    assert [event.get("said") for event in events] == [
        digests([DOG]),
        digests([TEA]),
        None,
        digests([LYON]),
        digests([DOG, LYON]),
    ]
    assert memory.known("u") == {"1": DOG, "3": LYON}
    assert ikat.UserMemory(tmp_path / "m.jsonl").export("u") == events
    prompts = [asked[0]["content"] for asked in backend.asked]
    assert "user 1: " in prompts[0]
    assert "user 2: " in prompts[1]
    assert "user 1: " not in prompts[1]
    assert f"user 1: {DOG}" in prompts[3]


def test_a_model_and_a_place_are_needed_to_learn(memory, tmp_path):
    memory.require_learning()
    with pytest.raises(ikat.UsageError, match="no language model to learn with"):
        ikat.UserMemory(tmp_path / "m.jsonl").require_learning()
    (tmp_path / "file").write_text("")
    with pytest.raises(ikat.UsageError, match="can't be used"):
        ikat.UserMemory(tmp_path / "file" / "m.jsonl", memory.llm).require_learning()
    with pytest.raises(ikat.UsageError, match="the session has no name"):
        memory.learn("u", "", chat(DOG))


def test_own_prompts_are_asked_with_and_have_a_checksum(memory, tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "update_ptkb.jinja").write_text("Mine. {{ context }} {{ ptkb }} {{ day }}")
    llm, backend = scripted("[]")
    own = ikat.UserMemory(tmp_path / "m.jsonl", llm, prompts=str(folder), run="r")
    own.learn("u", "a", chat(DOG), when="2024-05-02")
    assert backend.asked[0][0]["content"].startswith("Mine. user 1: I own a dog.")
    assert own.prompt_checksums().keys() == memory.prompt_checksums().keys() == {"update_ptkb"}
    assert own.prompt_checksums() != memory.prompt_checksums()
    assert (own.run, memory.run) == ("r", "")
    assert (own.dated, own.encoder) == (False, None)
    with pytest.raises(ikat.UsageError, match="nowhere"):
        ikat.UserMemory(tmp_path / "m.jsonl", llm, prompts=str(tmp_path / "nowhere"))


def test_the_file_has_a_head_and_a_line_for_each_event(tmp_path):
    path = tmp_path / "m.jsonl"
    file = MemoryFile(path, "r")
    event = learned(1, "a", 1, statement("1", "Søt te.\u2028"))
    with file.changing():
        file.append(event, {**event, "user": "v"})
    first, *rest = path.read_bytes().decode().split("\n")
    assert json.loads(first)["run"] == "r"
    assert [json.loads(line) for line in rest[:-1]] == [event, {**event, "user": "v"}]
    assert rest[-1] == ""
    assert "Søt" in rest[0]
    again = MemoryFile(path)
    assert again.run == "r"
    with again.users() as users:
        assert {name: history.events for name, history in users.items()} == {
            "u": [event],
            "v": [{**event, "user": "v"}],
        }
    with file.changing():
        file.rewrite([event])
        with file.users() as users:
            assert list(users) == ["u"]
    assert json.loads(path.read_text().split("\n")[0])["made"] != json.loads(first)["made"]
    with again.users() as users:
        assert list(users) == ["u"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_damaged_file_that_is_restored_is_read_again(memory):
    memory.add("u", [LYON])
    memory.add("v", [TEA])
    whole = memory.path.read_bytes()
    memory.path.write_bytes(whole + b'{"user": 5}\n')
    for _ in range(2):
        with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged"):
            memory.users()
    memory.path.write_bytes(whole)
    assert memory.users() == ["u", "v"]
    assert len(memory.export("u")) == len(memory.export("v")) == 1


@pytest.mark.parametrize("user", ["", 5, None, "a\ud800"])
def test_a_user_has_an_id(memory, user):
    for read in (memory.known, memory.memories, memory.export):
        with pytest.raises(ikat.UsageError, match="give the user's id, a text"):
            read(user)
    with pytest.raises(ikat.UsageError, match="give the user's id, a text"):
        memory.add(user, [TEA])


def test_a_statement_said_again_is_dated_as_its_memory():
    again = learned(3, "b", 4, statement("2", OSLO, 4, ["3"]))
    events = [
        learned(1, "", 0, statement("1", LYON, 0)),
        learned(2, "a", 1, statement("2", OSLO, 1, ["1"]), statement("3", "I stay in Nice.", 1)),
        again,
    ]
    history = History(events)
    dated = {"2": f"{OSLO} (said 2024-01-02, a, turn 1)"}
    assert history.known(dated=True) == dated
    assert known_statements(history.memories(), dated=True) == dated
    history.take(undone(4, "a", 1))
    dated = {"1": LYON, "2": f"{OSLO} (said 2024-01-03, b, turn 4)"}
    assert history.known(dated=True) == dated
    assert known_statements(history.memories(), dated=True) == dated
    history.take(undone(5, "b", 1))
    assert history.memories()[1]["until"] == "2024-01-05"


def test_what_a_repeat_replaced_is_back_when_it_is_undone():
    events = [
        learned(1, "", 0, statement("1", LYON, 0)),
        learned(2, "a", 1, statement("2", OSLO, 1, ["1"]), statement("3", "I stay in Nice.", 1)),
        learned(3, "b", 4, statement("2", OSLO, 4, ["3"])),
    ]
    assert [memory["replaces"] for memory in History(events).memories()] == [[], ["1", "3"], []]
    history = History([*events, undone(4, "b", 1)])
    assert [memory["replaces"] for memory in history.memories()] == [[], ["1"], []]
    assert list(history.known()) == ["2", "3"]
    moved = learned(4, "c", 1, statement("4", "I live in Rome.", 1, ["5", "2"]))
    left = without([*events, moved], "2")
    replaces = []
    for event in left[1:]:
        replaces.append([entry["replaces"] for entry in event["learned"]])
    assert replaces == [[[], []], [[]], [["5", "2", "1", "3"]]]
    assert list(History(left).known()) == ["4"]


def test_the_past_of_a_session_begins_after_what_was_undone():
    events = [
        learned(1, "a", 1, statement("1", LYON)),
        undone(2, "a", 1),
        learned(3, "b", 1, statement("2", DOG)),
        learned(4, "c", 1, statement("3", TEA)),
    ]
    history = History(events)
    assert history.before("c", 1).known() == {"2": DOG}
    assert history.before("d", 1).known() == {"2": DOG, "3": TEA}


def test_dates_and_turns_are_no_words_of_a_statement():
    index = History([learned(1, "a", 1, statement("1", LYON))]).index
    assert index.search("said 2024 turn", 9) == []
    assert index.search("Lyon", 9) == StatementIndex({"1": LYON}).search("Lyon", 9)


def test_a_changed_message_is_noticed_after_forgetting():
    events = [learned(1, "a", 2, statement("1", LYON), said=digests(["x", "y"]))]
    left = History(without(events, "1"))
    assert left.first_changed_turn("a", ["x", "y"]) is None
    assert left.first_changed_turn("a", ["x", "z"]) == 2
    assert left.first_changed_turn("a", ["x ", "y"]) == 1


def test_scores_and_ties_are_those_of_an_index_made_anew():
    texts = {
        "9": "My dog likes my other dog and tea.",
        "10": TEA,
        "8": TEA,
        "7": "I walk a cat by the sea, like my dog.",
        "6": "Sea.",
    }
    index = StatementIndex(texts)
    for question in ("tea", "dog cat sea walk other", "likes a dog's tea, dog"):
        for n in (1, 2, 9):
            assert index.search(question, n) == LexicalIndex(texts.items()).search(question, n)
    assert [name for name, _ in index.search("tea", 2)] == ["8", "10"]
    walks = {
        "0": "walk fish tea rain dog cat",
        "1": "tea rain book road sea sea",
        "2": "tea fish rain rain",
        "3": "cat hill cat dog dog",
    }
    question = "tea fish hill dog walk"  # whose sum depends on the order of its words
    anew = LexicalIndex(walks.items())
    assert StatementIndex(walks).search(question, 9) == anew.search(question, 9)


def test_a_file_of_no_run_is_not_taken_by_a_run(tmp_path):
    file = MemoryFile(tmp_path / "m.jsonl")
    with file.changing():
        file.append(learned(1, "a", 1, statement("1", LYON)))
    with pytest.raises(ikat.DataError, match="was not made by the run r: give each run a file"):
        MemoryFile(tmp_path / "m.jsonl", "r")


def test_users_are_for_one_thread_at_a_time(memory):
    memory.add("u", [LYON])
    begun = Event()

    def use():
        begun.set()
        memory.users()

    other = Thread(target=use)
    with memory._file.users():
        other.start()
        assert begun.wait(20)
        other.join(0.02)
        assert other.is_alive()
    other.join(20)
    assert not other.is_alive()


def test_what_others_write_before_the_lock_is_seen_in_it(memory, monkeypatch):
    """A lock of the file alone, which another program holds until it has changed the file."""
    memory.add("u", [LYON])
    other = ikat.UserMemory(memory.path)
    locks = []

    class Lock:
        def __init__(self, path, timeout):
            locks.append((path, timeout))

        def __enter__(self):
            if len(locks) == 1:
                other.add("u", [DOG])

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("filelock.FileLock", Lock)
    memory.add("u", [TEA])
    assert memory.known("u") == {"1": LYON, "2": DOG, "3": TEA}
    assert locks == [(memory.path.with_name(".users.jsonl.lock"), LOCK_TIMEOUT)] * 2


def test_lines_are_added_in_order_and_in_their_letters(tmp_path):
    file = MemoryFile(tmp_path / "m.jsonl")
    first = learned(1, "a", 1, statement("1", "Søt te."))
    second = learned(2, "b", 1, statement("2", "half \ud800"))
    with file.changing():
        file.append(first)
        file.append(learned(2, "b", 1, statement("2", TEA)))
        with file.users() as users:
            assert list(users["u"].known()) == ["1", "2"]
    with file.changing():
        file.rewrite([first, second])
    _, *lines = file.path.read_text(encoding="utf-8").splitlines()
    assert "Søt te." in lines[0]
    with MemoryFile(file.path).users() as users:
        assert users["u"].known() == {"1": "Søt te.", "2": "half ?"}


def test_an_encoder_may_be_a_folder(tmp_path):
    assert ikat.UserMemory(tmp_path / "m.jsonl", encoder=tmp_path).encoder == str(tmp_path)


def test_a_time_and_a_turn_are_asked_for_together(memory):
    memory.add("u", [LYON], when="2024-01-01")
    memory.add("u", [DOG], when="2024-01-03")
    assert memory.known("u", "a", 1, as_of="2024-01-02") == {"1": LYON}


def test_turns_of_a_table_are_whole_numbers_also_of_nobody(memory):
    memory.add("u", [LYON])
    assert memory.table("u")["turn"].dtype == int
    assert memory.table("v")["turn"].dtype == int


class Meanwhile:
    """Answers that the user owns a dog, after another program has changed the memory."""

    def __init__(self, change):
        self.change = change

    def generate(self, chats):
        self.change()
        return [reply((1, DOG))]


def test_what_others_learn_meanwhile_is_not_learned_twice(tmp_path):
    path = tmp_path / "m.jsonl"
    other = ikat.UserMemory(path, scripted(reply((1, "I own a poodle.")))[0])
    model = Meanwhile(lambda: other.learn("u", "a", chat("I own a dog. I own a poodle.")))
    memory = ikat.UserMemory(path, model)
    said = chat("I own a dog. I own a poodle.")
    assert memory.learn("u", "a", said) == [statement("1", "I own a poodle.")]
    assert len(memory.export("u")) == 1
    memory = ikat.UserMemory(path, Meanwhile(lambda: other.add("v", [TEA, DOG])))
    assert memory.learn("v", "a", said) == []
    assert memory.known("v") == {"1": TEA, "2": DOG}


def test_what_is_not_forgotten_stays_as_it_was(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", scripted(*[reply((1, DOG))] * 4)[0])
    for user in "dbac":
        memory.add(user, [LYON])
        memory.update(user, "1", OSLO)
        memory.learn(user, "s", chat(DOG))
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


def test_a_folder_that_takes_no_lock_is_refused_at_once(memory, monkeypatch):
    def lock(path, timeout):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock", lock)
    with pytest.raises(ikat.UsageError, match=r"can't be used \(Permission denied\): give another"):
        memory.require_learning()


def test_an_update_is_of_the_text_alone(tmp_path):
    model = scripted(reply((1, DOG)))[0]
    memory = ikat.UserMemory(tmp_path / "m.jsonl", model, dated=True)
    memory.learn("u", "a", chat(DOG))
    assert memory.update("u", "1", DOG) == "1"
    memory.add("u", [LYON, TEA])
    assert memory.update("u", "3", TEA) == "4"  # which another statement says already
    assert list(memory.known("u")) == ["1", "2", "4"]


def test_undoing_a_turn_that_was_not_learned_changes_nothing(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", scripted(reply((1, DOG)))[0])
    memory.learn("u", "a", chat(DOG))
    events = memory.export("u")
    memory.undo("u", "a", 2)
    assert memory.export("u") == events


def test_only_what_the_user_said_last_is_asked_about(tmp_path):
    llm, backend = scripted(reply((1, DOG)), "hm")
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    answers = [{"role": "assistant", "content": text} for text in ("A poodle?", "Or a cat?")]
    assert memory.learn("u", "trip", [*chat(DOG), *answers]) == [statement("1", DOG)]
    prompt = backend.asked[0][-1]["content"]
    assert f"user 1: {DOG}" in prompt
    for answer in answers:
        assert answer["content"] not in prompt
    with pytest.raises(ikat.IkatError, match="trip"):
        memory.learn("u", "trip", [*chat(DOG), *answers, *chat(TEA)])


def test_words_count_beside_vectors_where_any_statement_has_some(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder="tiny")
    foreign = "我对花生过敏。"
    both = memory._by_meaning("dog", {"1": DOG, "2": foreign})
    assert isinstance(both, ikat.fuse.WeightedSum)
    for question, statements in (("dog", {"1": foreign}), (foreign, {"1": DOG})):
        assert memory._by_meaning(question, statements) == ikat.BiEncoder("tiny")


def test_nothing_is_learned_where_a_model_falls_back(tmp_path):
    llm, _ = scripted("hm")
    llm.on_error = "fallback"
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    with pytest.raises(StageError):
        memory.learn("u", "a", chat(DOG))
    assert memory.export("u") == []


def test_a_ranker_finds_statements_by_their_own_ids(memory):
    memory.add("u", {"x": LYON, "7": DOG, "y": TEA})
    memory.update("u", "x", OSLO)
    found = memory.search("u", "Who lives in Oslo?", 2, ranker=ikat.BM25Rerank())
    assert len(found) == 2
    assert found[0][0] == "8"
    every = memory.search("u", "Do I own a dog?", ranker=ikat.BM25Rerank())
    assert {name for name, _ in every} == {"7", "8", "y"}
    assert every[0][0] == "7"


def test_a_part_of_an_id_names_no_statement(memory):
    memory.add("u", {"12": LYON, "3": DOG})
    for name in ("1", "2", "12 3", ""):
        with pytest.raises(ikat.UsageError, match=f"no statement '{name}' of u, so nothing is"):
            memory.forget("u", id=name)
    assert memory.known("u") == {"12": LYON, "3": DOG}


def test_a_memory_may_lie_in_folders_that_are_not_there_yet(tmp_path):
    memory = ikat.UserMemory(tmp_path / "a" / "b" / "c" / "users.jsonl")
    memory.add("u", [LYON])
    assert ikat.UserMemory(memory.path).known("u") == {"1": LYON}


def test_a_lock_that_another_holds_too_long_is_told(memory, monkeypatch):
    monkeypatch.setattr(memory_file, "LOCK_TIMEOUT", 0.01)
    memory.add("u", [LYON])
    path = memory.path.with_name(".users.jsonl.lock")
    with filelock.FileLock(path), pytest.raises(ikat.UsageError) as raised:
        memory.add("u", [DOG])
    assert f"the memory {memory.path} can't be used (" in str(raised.value)
    assert ".users.jsonl.lock" in str(raised.value)
    assert "None" not in str(raised.value)
    assert memory.known("u") == {"1": LYON}


def test_a_file_stays_its_runs_when_another_program_forgets(tmp_path):
    path = tmp_path / "m.jsonl"
    ikat.UserMemory(path, run="r1").add("u", [LYON, DOG])
    other = ikat.UserMemory(path)
    other.forget("u", id="1")
    assert other.run == "r1"
    assert ikat.UserMemory(path, run="r1").run == "r1"
    with pytest.raises(ikat.DataError, match="was not made by the run r2"):
        ikat.UserMemory(path, run="r2")


def test_turns_that_others_learned_meanwhile_are_noted_once(tmp_path):
    path = tmp_path / "m.jsonl"
    other = ikat.UserMemory(path, scripted(reply((1, LYON)))[0])
    said = chat(DOG, "Ok.", TEA)
    model = Meanwhile(lambda: other.learn("u", "a", said[:1]))
    memory = ikat.UserMemory(path, model)
    assert memory.learn("u", "a", said) == [statement("1", DOG)]
    noted = [(event["turn"], event["said"]) for event in memory.export("u")]
    assert noted == [(1, digests([DOG])), (2, digests([TEA]))]


def test_a_time_that_is_undone_and_learned_again_is_one_memory():
    events = [
        learned(1, "a", 1, statement("1", LYON)),
        undone(2, "a", 1),
        learned(3, "a", 1, statement("1", LYON, 1, ["7"])),
    ]
    (entry,) = History(events).memories()
    assert (entry["when"], entry["until"], entry["replaces"]) == ("2024-01-03", None, ["7"])
    assert History(events[:2]).known() == {}
    assert History(events).known() == {"1": LYON}


@pytest.mark.parametrize("other", ["!", "\u2026"])
def test_signs_beside_another_script_are_no_words(memory, other):
    memory.add("u", ["\u6211\u5bf9\u82b1\u751f\u8fc7\u654f\u3002"])
    memory._file.append(learned(2, "a", 1, statement("2", other)))
    for question in ("dog", "\u82b1\u751f"):
        with pytest.raises(ikat.DataError, match="no statement has a word of ASCII letters"):
            memory.search("u", question)


def test_what_is_given_out_is_no_part_of_the_memory(memory):
    memory.add("u", [LYON, DOG])
    for given in (memory.export("u"), memory.users(), memory.memories("u"), memory.all("u")):
        given.clear()
    memory.known("u").clear()
    assert len(memory.export("u")) == len(memory.users()) == 1
    assert memory.known("u") == {"1": LYON, "2": DOG}
    memory.forget("u", id="1")
    memory.forget("u", id="2")
    with pytest.raises(ikat.UsageError, match="nothing is replaced: it has none"):
        memory.update("u", "1", OSLO)
