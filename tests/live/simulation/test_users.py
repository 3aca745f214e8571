"""Users files, the users of the track's files, and the users of the sample."""

import json

import pytest
from live.simulation.players import user
from pydantic import ValidationError

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import SimulatedUser, read_users, track_users, users
from pyterrier_ikat.live.simulation.users import SAMPLE_USERS, checksum

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


def test_an_error_in_a_file_names_its_line_and_field(tmp_path):
    good = {"id": "u1", "persona": [], "need": "Tea", "rubrics": ["Which?"]}
    bad = {**good, "id": "u2", "rubrics": {"a": ""}}
    path = tmp_path / "users.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (good, bad)))
    with pytest.raises(DataError, match=r"users.jsonl, line 2: rubrics\.a: "):
        read_users(path)


def test_users_come_alone_in_lists_or_files():
    one = user("u1")
    other = user("u2")
    assert read_users(one) == [one]
    assert read_users(iter([one, other])) == [one, other]
    assert [one.id for one in read_users("ikat:sample")] == [one.id for one in read_users("sample")]
    with pytest.raises(DataError, match="there is no user"):
        read_users([])
    with pytest.raises(DataError, match="the same id, among u1, u2, u1"):
        read_users([one, other, one])
    assert user(rubrics=("a", "b")).rubrics == {"r1": "a", "r2": "b"}


def test_words_that_name_no_users_are_refused(tmp_path):
    for words in (" ", str(tmp_path / "none.jsonl"), f"{tmp_path / 'none'} assessed=on"):
        with pytest.raises((DataError, UsageError)):
            read_users(words)


def test_a_topic_is_no_person_and_users_stay_in_their_order():
    only_topic = user("u2", topic="7-1")
    only_person = user("u1", person="ann")
    assert (only_topic.person, only_topic.topic) == ("u2", "7-1")
    assert (only_person.person, only_person.topic) == ("ann", "u1")
    assert read_users([only_topic, only_person]) == [only_topic, only_person]
    assert SimulatedUser("u", [], "n", ("a", "b")).rubrics == {"r1": "a", "r2": "b"}
    assert SimulatedUser("u", [], "n", ["a", "b"]).turns == 6


def test_a_checksum_is_of_all_users_in_their_order():
    one = user("u1")
    other = user("u2")
    assert checksum([one, other]) == checksum([user("u1"), user("u2")])
    different = {
        checksum([one, other]),
        checksum([other, one]),
        checksum([one]),
        checksum([one, user("u2", patience=9)]),
        checksum([user("u1", script=("Hi?",)), other]),
        checksum([one, user("u2", rubrics={"r2": "At which heat is it brewed?"})]),
    }
    assert len(different) == 6
    swapped = {"r2": "b", "r1": "a"}
    assert checksum([user(rubrics=swapped)]) == checksum([user(rubrics={"r1": "a", "r2": "b"})])


def test_sample_users_say_what_recorded_systems_can_answer():
    topics = {one.number: one for one in read_topics(SAMPLE_USERS.parent / "topics.json")}
    users = read_users("sample")
    assert len(users) == 5
    for one in users:
        said = topics[one.topic]
        assert list(one.script) == [turn.utterance for turn in said.turns[: one.turns]]
        assert list(one.persona) == list(said.ptkb.values())


# Users of the track


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


def track_files(folder):
    """The organisers' files, with their columns in another order, and texts that are numbers."""
    folder.mkdir()
    (folder / "simulation-data.csv").write_text(
        'Question 1;Other;Simulation PTKBs;Topic ID\n7;x;"46; ;I run. ";9_2\n'
    )
    for name in ("rubrics", "assessed-rubrics"):
        (folder / f"{name}.csv").write_text("rubrik,id\n42,9-2-r1\n")
    return folder


def test_columns_of_the_track_may_be_in_any_order(tmp_path):
    [read] = track_users(track_files(tmp_path / "of 2025"), patience=2)
    assert (read.id, read.persona, read.need) == ("9-2", ("46", "I run."), "7")
    assert (read.rubrics, read.person, read.turns) == ({"9-2-r1": "42"}, "9", 2)
    assert read_users(str(tmp_path / "of 2025"))[0].turns == 10  # a name with a space
    (tmp_path / "of 2025" / "rubrics.csv").unlink()
    with pytest.raises(DataError, match="rubrics.csv can't be read"):
        track_users(tmp_path / "of 2025")
    assert len(track_users(tmp_path / "of 2025", assessed=True)) == 1


def write_track_files(folder, people, rubrics):
    (folder / "simulation-data.csv").write_text(
        "\ufeffTopic ID;Simulation PTKBs;Question 1\n" + people, encoding="utf-8"
    )
    for name in ("rubrics", "assessed-rubrics"):
        (folder / f"{name}.csv").write_text("id,rubrik\n" + rubrics, encoding="utf-8")
    return folder


def test_rubrics_belong_to_one_topic_users_without_are_omitted(tmp_path):
    people = "2_10;None; NA \n2_1;I run.;;What?\n3_1;I cook.;Where?\n"
    people = '2_10;None;" NA "\n2_1;"I run.; ";What?\n3_1;I cook.;Where?\n'
    folder = write_track_files(tmp_path, people, "2-1-r1,a\n2-10-r1,b\n2-1-r2,nan\n")
    first, second = track_users(folder)
    assert (first.id, first.rubrics) == ("2-1", {"2-1-r1": "a", "2-1-r2": "nan"})
    assert (first.persona, first.need, first.person, first.turns) == (("I run.",), "What?", "2", 10)
    assert (second.id, second.rubrics) == ("2-10", {"2-10-r1": "b"})
    assert (second.persona, second.need, second.topic) == (("None",), "NA", "2-10")
    assert [one.id for one in read_users(str(folder))] == ["2-1", "2-10"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("FOLDER", {}),
        ("FOLDER topics=a=b.json assessed=on", {"topics": "a=b.json", "assessed": "on"}),
        ("FOLDER 'topics=of 2025.json'", {"topics": "of 2025.json"}),
    ],
)
def test_options_of_the_track_are_words_with_a_value(tmp_path, monkeypatch, words, options):
    asked = []

    def track_users(folder, **given):
        asked.append((folder, given))
        return [user("u1")]

    monkeypatch.setattr(users, "track_users", track_users)
    assert read_users(words.replace("FOLDER", str(tmp_path))) == [user("u1")]
    assert asked == [(str(tmp_path), options)]


def test_options_stand_behind_a_quoted_folder_of_users(tmp_path):
    folder = tmp_path / "of 2025"
    folder.mkdir()
    (folder / "simulation-data.csv").write_text(
        "Topic ID;Simulation PTKBs;Question 1\n1_1;I run.;Which?\n", encoding="utf-8"
    )
    (folder / "rubrics.csv").write_text("id,rubrik\n1-1-r1,a\n", encoding="utf-8")
    assert [read.id for read in read_users(folder)] == ["1-1"]  # no word of it is an option
    [read] = read_users(f"'{folder}' patience=low skill=medium")
    assert (read.turns, read.skill, read.need) == (3, "medium", "Which?")
    with pytest.raises(DataError, match="skill=loud: skill: "):
        read_users(f"'{folder}' skill=loud")


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
