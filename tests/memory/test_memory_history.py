"""The events of a user and what follows from them: whole results of small cases."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.told_facts import DOG, LYON, OSLO, TEA, learned, statement, undone

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import known_statements
from pyterrier_ikat.memory.history import History, StatementIndex, digests, without, words_of
from pyterrier_ikat.retrieve.eager import LexicalIndex

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


def test_a_changed_message_is_noticed_after_forgetting():
    events = [learned(1, "a", 2, statement("1", LYON), said=digests(["x", "y"]))]
    left = History(without(events, "1"))
    assert left.first_changed_turn("a", ["x", "y"]) is None
    assert left.first_changed_turn("a", ["x", "z"]) == 2
    assert left.first_changed_turn("a", ["x ", "y"]) == 1


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


def test_a_statement_said_again_replaces_more(memory):
    first = {"id": "3", "statement": OSLO, "message": 1, "words": OSLO, "replaces": ["1"]}
    again = {**first, "replaces": ["2", "1"]}
    events = []
    for turn, entry in ((1, first), (2, again)):
        event = {"event": "learned", "when": f"2024-0{turn}-01", "user": "u1", "session": "a"}
        events.append({**event, "turn": turn, "said": [], "learned": [entry]})
    (entry,) = History(events).memories()
    assert (entry["replaces"], entry["when"], entry["until"]) == (["1", "2"], "2024-01-01", None)


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


# The index of the statements


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


def test_dates_and_turns_are_no_words_of_a_statement():
    index = History([learned(1, "a", 1, statement("1", LYON))]).index
    assert index.search("said 2024 turn", 9) == []
    assert index.search("Lyon", 9) == StatementIndex({"1": LYON}).search("Lyon", 9)


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
