"""Users files, the users of the track's files, and the users of the sample."""

import json

import pytest
from pydantic import ValidationError

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.live.simulation import SimulatedUser, read_users, track_users
from pyterrier_ikat.live.simulation.users import SAMPLE_USERS

LINE = {
    "id": "u1",
    "persona": ["I avoid caffeine."],
    "need": "Tea",
    "rubrics": {"a": "Which?"},
    "patience": 3,
    "skill": "low",
}


def written(tmp_path, *lines):
    path = tmp_path / "users.jsonl"
    texts = []
    for line in lines:
        if isinstance(line, str):
            texts.append(line)
        else:
            texts.append(json.dumps(line))
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_a_file_is_read_as_it_is_written(tmp_path):
    other = {
        "id": "u2",
        "rubrics": ["Which?", "How hot?"],
        "person": "p",
        "topic": "1-1",
        "patience": "low",
    }
    users = read_users(written(tmp_path, LINE, "", LINE | other))
    assert users[0] == SimulatedUser(
        "u1", ("I avoid caffeine.",), "Tea", {"a": "Which?"}, 3, skill="low"
    )
    assert (users[0].person, users[0].topic, users[0].cooperativeness, users[0].turns) == (
        "u1",
        "u1",
        "high",
        3,
    )
    assert (users[1].rubrics, users[1].person, users[1].topic) == (
        {"r1": "Which?", "r2": "How hot?"},
        "p",
        "1-1",
    )
    turns = [SimulatedUser("u", [], "n", ["q"], level).turns for level in ("low", "medium", "high")]
    assert turns == [users[1].turns, 6, 10] == [3, 6, 10]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id", value) for value in ("two words", "../u", 7)),
        *(("persona", value) for value in ("I avoid caffeine.", [""])),
        ("need", " "),
        *(("rubrics", value) for value in ([], {"a": ""}, "Which?")),
        *(("patience", value) for value in (0, 2.5, True, "very")),
        ("skill", "very"),
        ("cooperativeness", 1.01),
        ("script", ["Tea?", 3]),
        ("moods", 1),
    ],
)
def test_a_wrong_value_names_line_and_field(tmp_path, field, value):
    with pytest.raises(DataError, match=f"users.jsonl, line 2: {field}"):
        read_users(written(tmp_path, LINE, LINE | {"id": "u2", field: value}))
    with pytest.raises(ValidationError, match=field):
        SimulatedUser(**LINE | {field: value})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: can't be read as JSON"),
        ([{"id": "u1"}], "line 1: persona: Field required"),
        ([LINE, LINE], "two users have the same id"),
        ([""], "there is no user"),
        (None, "users.jsonl: can't be read"),
    ],
)
def test_other_faults_of_a_file(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read_users(tmp_path / "users.jsonl" if lines is None else written(tmp_path, *lines))


def test_sample_users_say_what_recorded_systems_can_answer():
    topics = {one.number: one for one in read_topics(SAMPLE_USERS.parent / "topics.json")}
    users = read_users("sample")
    assert len(users) == 5
    for user in users:
        said = topics[user.topic]
        assert list(user.script) == [turn.utterance for turn in said.turns[: user.turns]]
        assert list(user.persona) == list(said.ptkb.values())


PEOPLE = """\ufeffTopic ID;Simulation PTKBs;Question 1;Question 2;;;
10_1;"You run.; You live in Ghent; ";How far?;;;;
2_1;"You are vegan;You own a dog.
";What  to eat?;When to walk? ;;;
"""
RUBRICS = '"id","rubrik"\n2-1-r1,"What to eat?"\n2-1-r2,"When to walk?"\n10-1-r1,"How far?\u00a0"\n'
ASSESSED = '"id","rubrik"\n2-1-r2,"When to walk? "\n'


def files(tmp_path, people=PEOPLE, rubrics=RUBRICS, assessed=ASSESSED):
    for name, text in (
        ("simulation-data", people),
        ("rubrics", rubrics),
        ("assessed-rubrics", assessed),
    ):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def test_track_files_become_users_in_the_order_of_their_topics(tmp_path):
    first, second = track_users(files(tmp_path), patience=4, skill="low")
    rubrics = {"2-1-r1": "What to eat?", "2-1-r2": "When to walk?"}
    assert first == SimulatedUser(
        "2-1",
        ["You are vegan", "You own a dog."],
        "What to eat?",
        rubrics,
        4,
        "high",
        "low",
        person="2",
    )
    assert (second.id, second.person, second.persona) == (
        "10-1",
        "10",
        ("You run.", "You live in Ghent"),
    )
    (only,) = read_users(f"'{tmp_path}' assessed=on patience=4 cooperativeness=low")
    assert (only.rubrics, only.turns, only.cooperativeness) == (
        {"2-1-r2": "When to walk?"},
        4,
        "low",
    )


def test_titles_become_needs(tmp_path):
    topics = [
        {"number": "2-1", "title": "Food", "ptkb": [], "turns": []},
        {"number": "10-1", "title": "Running", "ptkb": [], "turns": []},
    ]
    for one in topics:
        one["turns"] = [{"turn_id": 1, "utterance": "Hi?", "response": "Hi."}]
    (tmp_path / "topics.json").write_text(json.dumps(topics))
    users = track_users(files(tmp_path), topics=tmp_path / "topics.json")
    assert [user.need for user in users] == ["Food", "Running"]


def test_files_that_are_others_are_named(tmp_path):
    with pytest.raises(DataError, match="rubrics.csv can't be read"):
        track_users(files(tmp_path, rubrics="question\nWhy?\n"))
    with pytest.raises(DataError, match="simulation-data.csv can't be read"):
        track_users(files(tmp_path, people=""))
    for wrong in ("mood=good", "patience=0", "assessed=maybe"):
        with pytest.raises(DataError, match=f"{wrong}: {wrong.partition('=')[0]}"):
            read_users(f"{files(tmp_path)} {wrong}")


def test_the_files_of_2025(shared):
    if not (shared / "simulated-user").is_dir():
        pytest.skip("no released files of simulated users")
    users, assessed = (
        track_users(shared / "simulated-user", assessed=some) for some in (False, True)
    )
    assert sum(len(user.rubrics) for user in users) == 92
    assert sum(len(user.rubrics) for user in assessed) == 64
    assert (
        len(users),
        len(assessed),
        len({user.person for user in users}),
        sum(len(user.persona) for user in users),
    ) == (17, 17, 9, 348)
