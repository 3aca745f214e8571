"""What is known of a user at which turn of which session, worked out by hand."""

import json
from datetime import date, datetime, timezone

import pytest
from fakes import scripted
from generate.operators import texts
from hypothesis import given
from hypothesis import strategies as st
from memory.told_facts import (
    DOG,
    LYON,
    OSLO,
    TEA,
    Notes,
    chat,
    ids_and_hold,
    messages_of,
    reply,
    statement,
    tell,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.memory.history import digests


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
        for entry in event["learned"]:
            for number in entry["replaces"]:
                known.pop(number, None)
            if entry["statement"]:
                known[entry["id"]] = entry["statement"]
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


def test_what_one_program_adds_twice_is_known_once(memory):
    memory.add("u1", [DOG])
    memory.add("u1", [TEA])
    memory.add("u1", [TEA])
    assert memory.known("u1") == {"1": DOG, "2": TEA}


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


def test_what_is_learned_is_noted_with_its_messages(tmp_path):
    llm, backend = scripted(reply((1, DOG)), reply((2, TEA)), reply((2, LYON)), "[]")
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    messages = messages_of(DOG, "Ok.", TEA, "Ok.")
    memory.learn("u", "a", messages[:1], when="2024-01-01")
    found = memory.learn("u", "a", messages, when="2024-01-02")
    assert found == [statement("2", TEA, 2)]
    assert memory.learn("u", "a", messages[:2]) == [statement("1", DOG, 1)]
    assert len(backend.asked) == 2
    changed = [*messages[:2], {"role": "user", "content": LYON}]
    assert memory.learn("u", "a", changed, when="2024-01-03") == [statement("3", LYON, 2)]
    assert memory.learn("u", "b", [*changed, *messages_of("-")[:0]], when="2024-01-04") == []
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
        memory.learn("u", "", messages_of(DOG))


def test_own_prompts_are_asked_with_and_have_a_checksum(memory, tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "update_ptkb.jinja").write_text("Mine. {{ context }} {{ ptkb }} {{ day }}")
    llm, backend = scripted("[]")
    own = ikat.UserMemory(tmp_path / "m.jsonl", llm, prompts=str(folder), run="r")
    own.learn("u", "a", messages_of(DOG), when="2024-05-02")
    assert backend.asked[0][0]["content"].startswith("Mine. user 1: I own a dog.")
    assert own.prompt_checksums().keys() == memory.prompt_checksums().keys() == {"update_ptkb"}
    assert own.prompt_checksums() != memory.prompt_checksums()
    assert (own.run, memory.run) == ("r", "")
    assert (own.dated, own.encoder) == (False, None)
    with pytest.raises(ikat.UsageError, match="nowhere"):
        ikat.UserMemory(tmp_path / "m.jsonl", llm, prompts=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("user", ["", 5, None, "a\ud800"])
def test_a_user_has_an_id(memory, user):
    for read in (memory.known, memory.memories, memory.export):
        with pytest.raises(ikat.UsageError, match="give the user's id, a text"):
            read(user)
    with pytest.raises(ikat.UsageError, match="give the user's id, a text"):
        memory.add(user, [TEA])


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
    model = Meanwhile(lambda: other.learn("u", "a", messages_of("I own a dog. I own a poodle.")))
    memory = ikat.UserMemory(path, model)
    said = messages_of("I own a dog. I own a poodle.")
    assert memory.learn("u", "a", said) == [statement("1", "I own a poodle.")]
    assert len(memory.export("u")) == 1
    memory = ikat.UserMemory(path, Meanwhile(lambda: other.add("v", [TEA, DOG])))
    assert memory.learn("v", "a", said) == []
    assert memory.known("v") == {"1": TEA, "2": DOG}


def test_only_what_the_user_said_last_is_asked_about(tmp_path):
    llm, backend = scripted(reply((1, DOG)), "hm")
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    answers = [{"role": "assistant", "content": text} for text in ("A poodle?", "Or a cat?")]
    assert memory.learn("u", "trip", [*messages_of(DOG), *answers]) == [statement("1", DOG)]
    prompt = backend.asked[0][-1]["content"]
    assert f"user 1: {DOG}" in prompt
    for answer in answers:
        assert answer["content"] not in prompt
    with pytest.raises(ikat.IkatError, match="trip"):
        memory.learn("u", "trip", [*messages_of(DOG), *answers, *messages_of(TEA)])


def test_nothing_is_learned_where_a_model_falls_back(tmp_path):
    llm, _ = scripted("hm")
    llm.on_error = "fallback"
    memory = ikat.UserMemory(tmp_path / "m.jsonl", llm)
    with pytest.raises(StageError):
        memory.learn("u", "a", messages_of(DOG))
    assert memory.export("u") == []


def test_turns_that_others_learned_meanwhile_are_noted_once(tmp_path):
    path = tmp_path / "m.jsonl"
    other = ikat.UserMemory(path, scripted(reply((1, LYON)))[0])
    said = messages_of(DOG, "Ok.", TEA)
    model = Meanwhile(lambda: other.learn("u", "a", said[:1]))
    memory = ikat.UserMemory(path, model)
    assert memory.learn("u", "a", said) == [statement("1", DOG)]
    noted = [(event["turn"], event["said"]) for event in memory.export("u")]
    assert noted == [(1, digests([DOG])), (2, digests([TEA]))]


def test_what_is_given_out_is_no_part_of_the_memory(memory):
    memory.add("u", [LYON, DOG])
    for answer in (memory.export("u"), memory.users(), memory.memories("u"), memory.all("u")):
        answer.clear()
    memory.known("u").clear()
    assert len(memory.export("u")) == len(memory.users()) == 1
    assert memory.known("u") == {"1": LYON, "2": DOG}
    memory.forget("u", id="1")
    memory.forget("u", id="2")
    with pytest.raises(ikat.UsageError, match="nothing is replaced: it has none"):
        memory.update("u", "1", OSLO)
