"""Sessions compared by hand: repeats, unknown costs, marks; and small facts of users and turns."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fakes import scripted
from live.simulation.players import Chatty, Finds, Phrases, Says, SaysOnePerTurn, user

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import compare
from pyterrier_ikat.evaluation.sessions import SESSION_MEASURES
from pyterrier_ikat.live.simulation import (
    ScriptedPlayer,
    SimulatedUser,
    Situation,
    TrackJudge,
    read_users,
    simulation,
    simulation_rows,
    track_users,
    users,
)
from pyterrier_ikat.live.simulation.simulation import _cell
from pyterrier_ikat.llms import BudgetExceeded
from pyterrier_ikat.runs import Log
from pyterrier_ikat.tables import HIGHER, LOWER, Cell

USERS = ["a", "b", "c", "d", "e", "e"]


def frame(turns, cost=0.5, end="out of patience"):
    """Sessions of five persons, one of whom has two, with these turns and costs."""
    columns = {"session": [f"u{number}" for number in range(6)], "user": USERS, "end": end}
    columns |= dict.fromkeys(SESSION_MEASURES, 0.25)
    return pd.DataFrame(columns).assign(turns=np.array(turns, float), cost=cost)


def test_repeats_are_averaged_before_they_are_compared():
    base = [1, 2, 3, 4, 5, 6]
    first = [4, 3, 5, 7, 6, 9]
    second = [6, 3, 7, 5, 8, 9]
    other = [2, 2, 2, 2, 2, 2]
    frames = {"base": frame(base), "x": frame(first), "x.repeat-2": frame(second)}
    frames["other"] = frame(other)
    rows = simulation_rows(frames, "base")
    assert [(row["name"], row["users"], row["repeats"]) for row in rows] == [
        ("base", 6, 1),
        ("x", 6, 2),
        ("other", 6, 1),
    ]
    row = rows[1]
    assert row["turns"] == pytest.approx((34 / 6 + 38 / 6) / 2)
    assert row["turns std"] == pytest.approx(abs(38 / 6 - 34 / 6) / math.sqrt(2))
    mean = [5, 3, 6, 6, 7, 9]
    tested = compare(base, mean, USERS)
    assert row["turns p-value"] == pytest.approx(tested.p_value)
    assert row["turns p-value corrected"] == pytest.approx(min(1, 2 * tested.p_value))
    assert (row["turns +"], row["turns -"]) == (6, 0)
    assert (row["turns low"] + row["turns high"]) / 2 == pytest.approx((36 - 21) / 6)
    assert "turns std" not in rows[0]
    assert not any("p-value" in name for name in simulation_rows(frames)[1])


def test_one_unknown_cost_makes_costs_unknown():
    costs = np.array([0.5, 0.5, np.nan, 0.5, 0.5, 0.5])
    frames = {"base": frame([1] * 6), "x": frame([2] * 6, costs)}
    base, row = simulation_rows(frames, "base")
    assert math.isnan(row["cost"])
    assert (row["cost +"], row["cost -"]) == (None, None)
    assert base["cost"] == 0.5
    assert (row["turns +"], row["turns -"]) == (6, 0)


def test_costs_of_repeats_are_unknown_where_one_is():
    [row] = simulation_rows({"x": frame([1] * 6), "x.repeat-2": frame([1] * 6, np.nan)})
    assert math.isnan(row["cost"])
    assert math.isnan(row["cost std"])
    assert (row["turns"], row["turns std"]) == (1.0, 0.0)


def test_turns_until_satisfied_are_means_of_those_that_were():
    until = np.array([2.0, np.nan, 4.0, np.nan, np.nan, np.nan])
    known = frame([1] * 6).assign(**{"turns until satisfied": until})
    never = known.assign(**{"turns until satisfied": np.nan})
    ends = ["satisfied", "out of patience", "satisfied", "topic ended", "", "out of patience"]
    frames = {"x": known.assign(end=ends), "x.repeat-2": never}
    [row] = simulation_rows(frames)
    assert row["turns until satisfied"] == 3.0
    assert row["satisfied"] == pytest.approx((2 / 6 + 0) / 2)
    assert math.isnan(simulation_rows({"x": never})[0]["turns until satisfied"])


@pytest.mark.parametrize(
    ("reject", "baseline", "cell"),
    [
        (True, {"turns": 1.0}, Cell("2.50", mark=HIGHER)),
        (True, {"turns": 3.0}, Cell("2.50", mark=LOWER)),
        (False, {"turns": 1.0}, Cell("2.50")),
        (True, {}, Cell("2.50")),
    ],
)
def test_a_significant_mean_is_marked_by_its_direction(reject, baseline, cell):
    row = {"turns": 2.5, "turns reject": reject}
    assert _cell(row, "turns", baseline) == cell
    assert _cell(row | {"turns std": math.nan}, "turns", baseline) == cell
    deviates = _cell(row | {"turns std": 0.125}, "turns", baseline)
    assert deviates == replace(cell, text="2.50\u00b10.12")


def simulate(out, systems, users=None, player=None, judge=None, **options):
    users = users or [user(patience=2)]
    player = player or Chatty("And?")
    return ikat.simulate(systems, users, player, judge or Phrases(), out=out, **options)


def test_only_systems_whose_passages_are_read_are_named(tmp_path):
    class Sometimes(Finds):
        """Responds in its first turn alone."""

        def transform(self, inp):
            if inp["qturn"].iloc[0] == 1:
                return inp.assign(qanswer="Mate.")
            return super().transform(inp)

    systems = {"silent": Says(""), "sometimes": Sometimes("Mint."), "says": Says("Mate.")}
    notes = simulate(tmp_path, systems, passages=1).shown().notes
    assert "Without a response, the text is that of the best 1 passage: sometimes." in notes


def test_models_with_one_name_are_one_sentence(tmp_path):
    speaks = scripted("Tea?")[0]
    judges = scripted('["yes", "yes"]')[0]
    done = simulate(tmp_path, {"s": Says("Mate.")}, [user(patience=1)], speaks, judges)
    told = " ".join(" ".join(done.shown().notes).split())
    assert f"{speaks.spec} plays the users and judges each turn" in told
    parts = [column.title for column in done.shown().columns]
    assert parts[:4] == ["system", "users", "satisfied", "rubrics met"]


def test_a_topic_of_the_track_may_end_satisfied_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "similarities", lambda texts, others: [1.0])
    users = [user("u1"), user("u2", rubrics={"r1": "Which leaf?"})]
    done = simulate(
        tmp_path, {"s": Says("Rooibos.")}, users, ScriptedPlayer(), users_by="track", threads=1
    )
    dialogues = Log(tmp_path / "s").dialogues()
    ends = {dialogue.session: dialogue.end for dialogue in dialogues}
    assert ends == {"u1": "topic ended", "u2": "satisfied"}
    assert done.table["satisfied"].tolist() == [0.5]


def test_a_repeat_is_the_same_system_to_its_users(tmp_path):
    player = Chatty("And?")
    simulate(tmp_path, {"s": Says("Mate.")}, player=player, repeats=2)
    assert {situation.system for situation in player.asked} == {"s"}
    turns = Log(tmp_path / "s.repeat-2").dialogues()[0].turns
    assert [(turn.number, turn.utterance) for turn in turns] == [(1, "And?"), (2, "And?")]


def test_a_live_system_may_be_told_other_words_than_the_script(tmp_path):
    said = Chatty("Or\n  hot?")
    simulate(tmp_path, {"s": Says("Mate.")}, [user(patience=2, script=("Which?",))], said)
    turns = Log(tmp_path / "s").dialogues()[0].turns
    assert [turn.utterance for turn in turns] == ["Or hot?", "Or hot?"]


def test_a_turn_keeps_what_is_known_of_its_answer(tmp_path, monkeypatch):
    answer = simulation.answer

    def shortened(*args, **named):
        return replace(answer(*args, **named), more={"shortened": 40})

    monkeypatch.setattr(simulation, "answer", shortened)
    simulate(tmp_path, {"s": Says("Mate.")}, [user(patience=1)])
    [turn] = Log(tmp_path / "s").dialogues()[0].turns
    assert turn.more == {"shortened": 40, "read": "response"}


def test_sessions_under_way_stop_after_their_turn(tmp_path):
    spent = threading.Event()

    class Stops(Chatty):
        def say(self, situation):
            if situation.user.id == "u1":
                spent.set()
                raise BudgetExceeded(spent=1.0, budget=1.0)
            spent.wait(60)
            time.sleep(0.005)
            return "And?"

    users = [user("u1"), user("u2", patience=500)]
    with pytest.raises(BudgetExceeded):
        simulate(tmp_path, {"s": Says("Mate.")}, users, Stops(), threads=2)
    dialogues = Log(tmp_path / "s").dialogues()
    turns = {dialogue.session: len(dialogue.turns) for dialogue in dialogues}
    assert turns["u1"] == 0
    assert turns["u2"] < 100


# Users


def test_a_topic_is_no_person_and_users_stay_in_their_order():
    only_topic = user("u2", topic="7-1")
    only_person = user("u1", person="ann")
    assert (only_topic.person, only_topic.topic) == ("u2", "7-1")
    assert (only_person.person, only_person.topic) == ("ann", "u1")
    assert read_users([only_topic, only_person]) == [only_topic, only_person]
    assert SimulatedUser("u", [], "n", ("a", "b")).rubrics == {"r1": "a", "r2": "b"}
    assert SimulatedUser("u", [], "n", ["a", "b"]).turns == 6


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


def test_a_grade_above_three_meets_the_open_rubric_alone():
    situation = Situation(user(), "s", 1, {"r2": "How hot?"}, text="95 degrees.")
    for grade, met in [("3", []), ("4", ["r2"]), ("5", ["r2"])]:
        assert TrackJudge(scripted(grade)[0]).met(situation) == met


def test_a_response_of_each_turn_is_judged_as_the_user_read_it(tmp_path):
    seen = []

    class Keeps(Phrases):
        def met(self, situation):
            seen.append((situation.turn, situation.utterance, situation.text, len(situation.read)))
            return super().met(situation)

    system = SaysOnePerTurn("Mate.", " ", "Rooibos.")
    simulate(tmp_path, {"s": system}, [user()], Chatty("And {turn}?"), Keeps())
    assert seen == [(1, "And 1?", "Mate.", 0), (3, "And 3?", "Rooibos.", 4)]
