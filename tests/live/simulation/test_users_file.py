"""Users files, the converter of the track's files, and the users of the sample."""

import json

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import SimulatedUser, convert_track_users, read_users, write_users
from pyterrier_ikat.live.simulation.track_users import users_of_folder
from pyterrier_ikat.live.simulation.users import SAMPLE

LINE = {"id": "u1", "persona": ["I avoid caffeine."], "need": "Tea", "rubrics": {"a": "Which?"}, "patience": 3, "vagueness": 0.2}
LINE |= {"willingness": "high"}


def written(tmp_path, *lines):
    path = tmp_path / "users.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_a_file_is_read_as_it_is_written(tmp_path):
    users = read_users(written(tmp_path, LINE, "", LINE | {"id": "u2", "rubrics": ["Which?", "How hot?"], "person": "p", "topic": "1-1"}))
    assert users[0] == SimulatedUser("u1", ("I avoid caffeine.",), "Tea", {"a": "Which?"}, 3, 0.2, "high")
    assert (users[0].person, users[0].topic, users[0].vagueness_level) == ("u1", "u1", "low")
    assert (users[1].rubrics, users[1].person, users[1].topic) == ({"r1": "Which?", "r2": "How hot?"}, "p", "1-1")
    assert read_users(write_users(users, tmp_path / "again.jsonl")) == users


def test_levels_of_numbers():
    levels = [SimulatedUser("u", [], "n", ["q"], 1, value, value).vagueness_level for value in (0, 0.33, 0.34, 0.66, 0.67, 1)]
    assert levels == ["low", "low", "medium", "medium", "high", "high"]


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("id", "two words", "one word without slash"),
        ("id", "../u", "one word without slash"),
        ("id", 7, "one word without slash"),
        ("id", "u\x1b[2J", "one word without slash"),
        ("persona", "I avoid caffeine.", "a list of statements"),
        ("persona", [""], "a list of statements"),
        ("need", " ", "a text that is not blank"),
        ("rubrics", [], "a list of questions"),
        ("rubrics", {"a": ""}, "a list of questions"),
        ("rubrics", "Which?", "a list of questions"),
        ("patience", 0, "a whole number of turns, from 1 to 1,000"),
        ("patience", 2.5, "a whole number of turns, from 1 to 1,000"),
        ("patience", True, "a whole number of turns, from 1 to 1,000"),
        ("vagueness", "very", "a level (low, medium, high) or a number from 0 to 1"),
        ("willingness", 1.01, "a level (low, medium, high) or a number from 0 to 1"),
        ("script", ["Tea?", 3], "a list of utterances"),
    ],
)
def test_a_wrong_value_names_line_and_field(tmp_path, field, value, wanted):
    with pytest.raises(DataError) as error:
        read_users(written(tmp_path, LINE, LINE | {"id": "u2", field: value}))
    assert f"users.jsonl, line 2: {field} is " in str(error.value)
    assert wanted in str(error.value)


def test_other_faults_of_a_file(tmp_path):
    for lines, message in [
        (["{"], "line 1 is not JSON"),
        (["[]"], "line 1: a list: give an object with the fields id, persona,"),
        ([{name: value for name, value in LINE.items() if name != "need"}], "line 1: the field 'need' is missing"),
        ([LINE | {"moods": 1}], "line 1: the field 'moods' is unknown"),
        ([LINE, LINE], "has two users with the id 'u1'"),
        ([""], "has no user"),
    ]:
        with pytest.raises(DataError, match=message):
            read_users(written(tmp_path, *lines))
    with pytest.raises(DataError, match="nothing.jsonl can't be read"):
        read_users(tmp_path / "nothing.jsonl")
    with pytest.raises(UsageError, match="patience is 0"):
        SimulatedUser("u", [], "n", ["q"], 0)


def test_the_samples_users_say_what_the_recorded_systems_can_answer():
    topics = {one.number: one for one in read_topics(SAMPLE.parent / "topics.json")}
    users = read_users("sample")
    assert len(users) == 5
    for user in users:
        said = topics[user.topic]
        assert list(user.script) == [turn.utterance for turn in said.turns[: user.patience]]
        assert list(user.persona) == list(said.ptkb.values())


PEOPLE = """\ufeffTopic ID;Simulation PTKBs;Question 1;Question 2;;;
10_1;"You run.; You live in Ghent; ";How far?;;;;
2_1;"You are vegan;You own a dog.
";What  to eat?;When to walk? ;;;
"""
RUBRICS = '"id","rubrik"\n2-1-r1,"What to eat?"\n2-1-r2,"When to walk?"\n10-1-r1,"How far?\u00a0"\n'
ASSESSED = '"id","rubrik"\n2-1-r2,"When to walk? "\n'


def files(tmp_path, people=PEOPLE, rubrics=RUBRICS, assessed=ASSESSED):
    for name, text in (("simulation-data", people), ("rubrics", rubrics), ("assessed-rubrics", assessed)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_tracks_files_become_users_in_the_order_of_their_topics(tmp_path):
    found = convert_track_users(files(tmp_path), patience=4, vagueness="high")
    first, second = found.users
    assert first == SimulatedUser(
        "2-1",
        ["You are vegan", "You own a dog."],
        "What to eat?",
        {"2-1-r1": "What to eat?", "2-1-r2": "When to walk?"},
        4,
        "high",
        "high",
        person="2",
    )
    assert (second.id, second.person, second.persona) == ("10-1", "10", ("You run.", "You live in Ghent"))
    assert found.notes == [
        "2 topics with 4 statements and 3 questions read, 1 of the questions assessed.",
        "2 users of 2 persons with 3 rubrics written (all questions).",
        "The need of each user is the topic's first question.",
    ]


def test_only_the_assessed_questions_and_nobody_is_dropped_silently(tmp_path):
    found = convert_track_users(files(tmp_path), assessed=True)
    assert [user.rubrics for user in found.users] == [{"2-1-r2": "When to walk?"}]
    assert "Omitted, without an assessed question: 10-1." in found.notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rubrics": RUBRICS.replace("10-1-r1", "10-1-r2")}, "the question 10-1-r1 is in simulation-data.csv and not in rubrics.csv"),
        ({"rubrics": RUBRICS + '3-1-r1,"Why?"\n'}, "the question 3-1-r1 is in rubrics.csv and not in simulation-data.csv"),
        (
            {"rubrics": RUBRICS.replace("How far", "How fast")},
            r"the question 10-1-r1 is 'How far\?' in simulation-data.csv and 'How fast\?'",
        ),
        ({"rubrics": RUBRICS + '2-1-r1,"What to eat?"\n'}, "row 5: the question 2-1-r1 appears twice"),
        ({"rubrics": RUBRICS.replace("2-1-r1", "2_1-r1")}, "row 2: .*an id like 1-1-r1"),
        ({"assessed": ASSESSED.replace("2-1-r2", "2-1-r3")}, "the question 2-1-r3 is not in it"),
        ({"assessed": ASSESSED.replace("walk", "run")}, "the question 2-1-r2 has another text there"),
        ({"people": PEOPLE.replace("10_1", "10-1")}, "row 2: the Topic ID is .* should be like 1_1"),
        ({"people": PEOPLE.replace("10_1", "2_1")}, "row 3: topic 2-1 appears twice"),
        ({"people": PEOPLE.replace("How far?;", ";How far?")}, "an empty question between others"),
        ({"people": PEOPLE.replace("Question 2;;", "Question 2;Mood;")}, "the columns are"),
        ({"people": ""}, "simulation-data.csv is empty"),
        ({"people": PEOPLE.splitlines()[0], "rubrics": RUBRICS.splitlines()[0], "assessed": '"id","rubrik"\n'}, "has no topic: download"),
    ],
)
def test_each_join_is_checked(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        convert_track_users(files(tmp_path, **change))


def test_files_that_leave_nobody_or_are_no_text_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"assessed-rubrics\.csv has no question, so no user has a rubric: download the file again, or keep all"
    ):
        convert_track_users(files(tmp_path, assessed='"id","rubrik"\n'), assessed=True)
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / "simulation-data.csv").write_text(PEOPLE[1:].replace("Ghent", "Gand, à l'est"), encoding=encoding)
        with pytest.raises(DataError, match=r"simulation-data\.csv is not UTF-8 text \(byte \d+\): save it as UTF-8"):
            convert_track_users(tmp_path)


def test_the_command_prints_the_counts(tmp_path):
    topics = [{"number": number, "title": title, "ptkb": [], "turns": []} for number, title in (("2-1", "Food"), ("10-1", "Running"))]
    for one in topics:
        one["turns"] = [{"turn_id": 1, "utterance": "Hi?", "response": "Hi."}]
    (tmp_path / "topics.json").write_text(json.dumps(topics))
    (tmp_path / "mine.py").write_text("import pyterrier_ikat as ikat\n@ikat.method()\ndef mine(llm):\n    return ikat.Answer(llm)\n")
    line = f"'{files(tmp_path)}' topics='{tmp_path / 'topics.json'}' vagueness=0.5"
    models = ["--llm", "recorded:sample", "--user-llm", "recorded:sample-users", "--plan", "--out", tmp_path / "sims"]
    done = CliRunner().invoke(main, ["simulate", f"{tmp_path}/mine.py:mine", *map(str, models), "--users", line])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "2 topics with 4 statements and 3 questions read, 1 of the questions assessed."
    assert [(user.need, user.vagueness) for user in users_of_folder(line).users] == [("Food", 0.5), ("Running", 0.5)]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("patience=x", "patience=x: give a number"),
        ("assessed=maybe", "assessed=maybe: give on or off"),
        ("topic=t", "'topic' is unknown: give topics,"),
    ],
)
def test_a_wrong_argument_of_a_folder_is_named(tmp_path, word, message):
    with pytest.raises(UsageError, match=message):
        users_of_folder(f"{files(tmp_path)} {word}")
    assert users_of_folder("sample") is None


def test_the_files_of_2025(ikat_2025):
    found = convert_track_users(ikat_2025)
    assert found.notes[:2] == [
        "17 topics with 348 statements and 92 questions read, 64 of the questions assessed.",
        "17 users of 9 persons with 92 rubrics written (all questions).",
    ]
    assert sum(len(user.rubrics) for user in convert_track_users(ikat_2025, assessed=True).users) == 64


@pytest.fixture
def ikat_2025(shared):
    if not (shared / "simulated-user").is_dir():
        pytest.skip("no released files of simulated users")
    return shared / "simulated-user"


def test_the_public_function_is_lazy():
    assert ikat.simulate.__module__ == "pyterrier_ikat.live.simulation.simulation"
