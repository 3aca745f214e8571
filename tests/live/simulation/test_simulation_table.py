"""The table of a simulation: means over sessions, repeats and persons, differences, and notes."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fakes import scripted
from live.simulation.players import (
    ALL,
    USERS,
    Finds,
    Phrases,
    Says,
    SaysOnePerTurn,
    simulate_script,
    simulate_two_turns,
    simulate_two_users,
    simulated,
    user,
)
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import compare
from pyterrier_ikat.evaluation.sessions import SESSION_MEASURES
from pyterrier_ikat.live.simulation import (
    ScriptedPlayer,
    Simulated,
    SimulatedUser,
    simulation,
    simulation_rows,
)
from pyterrier_ikat.live.simulation.simulation import _cell, users_of
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log
from pyterrier_ikat.show import report
from pyterrier_ikat.tables import HIGHER, LOWER, Cell


def test_a_simulation_returns_what_it_shows_and_where_it_is(tmp_path):
    systems = {"mate": Says("Mate."), "all": Says(ALL.text)}
    done = ikat.simulate(systems, USERS, ScriptedPlayer(), Phrases(), out=tmp_path, baseline="all")
    shown = repr(done)
    assert [line.split()[0] for line in shown.splitlines()[:3]] == ["system", "mate", "all"]
    assert (
        "ScriptedPlayer(identity='scripted user') plays the users; <live.simulation.players.Phrases"
        in " ".join(shown.split())
    )
    assert ">mate<" in done._repr_html_()
    kept = Simulated(
        {name: Log(log.folder) for name, log in done.folders.items()},
        done.ledger,
        done.player,
        done.judge,
        "all",
    )
    pd.testing.assert_frame_equal(done.table, kept.table)  # what the logs have
    assert {name: log.folder for name, log in done.folders.items()} == {
        name: tmp_path / name for name in systems
    }
    assert done.ledger.frame().empty  # no model was given as text
    page = done.report().html
    assert page.find(">all<") < page.find(">mate<")  # the baseline first


def test_the_table_has_a_row_per_system_and_says_who_played(tmp_path):
    systems = {"mate": Says("Mate."), "all": Says("Rooibos, 95 degrees."), "finds": Finds("Tea.")}
    done = simulate_script(tmp_path, systems, baseline="mate", passages=2)
    shown = done.shown()
    titles = [column.title for column in shown.columns]
    assert titles[:4] == ["system", "users", "satisfied", "rubrics met"]
    assert titles.count("satisfied") == 1
    assert "sessions" not in titles
    notes = " ".join(" ".join(shown.notes).split())
    assert shown.notes[0].startswith("Means over users.")
    assert "Without a response, the text is that of the best 2 passages: finds." in notes
    assert "ScriptedPlayer(identity='scripted user') plays the users; " in notes
    assert "significantly lower than mate" in notes
    assert "Seconds are not tested" in notes
    alone = simulate_script(tmp_path / "alone", {"mate": Says("Mate.")}, baseline="mate")
    assert "significantly" not in " ".join(alone.shown().notes)
    assert [list(frame["session"]) for frame in done.frames.values()] == [["u1", "u2"]] * 3


def test_a_measure_that_some_systems_have_is_shown(tmp_path):
    done = simulate_script(tmp_path, {"mate": Says("Mate."), "all": Says("Rooibos, 95 degrees.")})
    titles = [column.title for column in done.shown().columns]
    assert "turns until satisfied" in titles  # mate satisfies nobody


PERSONS = ["a", "b", "c", "d", "e", "e"]


def frame(turns, cost=0.5, end="out of patience"):
    """Sessions of five persons, one of whom has two, with these turns and costs."""
    columns = {"session": [f"u{number}" for number in range(6)], "user": PERSONS, "end": end}
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
    tested = compare(base, mean, PERSONS)
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


# Differences


def test_differences_are_tested_over_users_after_bonferroni(tmp_path):
    users = [
        user("u0", patience=2),
        user("u1", patience=2),
        user("u2", patience=3),
        user("u3", patience=5),
        user("u4", patience=6),
    ]
    systems = {
        "base": Says("Mate."),
        "good": SaysOnePerTurn(*["Rooibos, 95 degrees."] * 7),
        "same": Says("Mate."),
    }
    rows = simulated(tmp_path, systems, users, judged=Phrases(), baseline="base")
    wanted = ttest_rel([1] * 5, [2, 2, 3, 5, 6]).pvalue  # turns of each user
    assert rows.loc["good", ["turns p-value", "turns p-value corrected"]].tolist() == pytest.approx(
        [wanted, 2 * wanted]
    )
    assert 0.025 < wanted < 0.05
    assert (rows.loc["good", "turns -"], rows.loc["good", "rubrics met +"]) == (5, 5)
    assert math.isnan(rows.loc["same", "rubrics met p-value"])  # nothing differs
    assert math.isnan(rows.loc["good", "rubrics met p-value"])  # all users differ by the same
    for names, marked in ((("base", "good", "same"), False), (("base", "good"), True)):
        done = Simulated(
            {name: Log(tmp_path / name) for name in names}, Ledger(), "user", "judge", "base"
        )
        good = done.table.set_index("name").loc["good"]
        assert (good["turns reject"], good["rubrics met reject"]) == (marked, False)
        table = str(done.shown())
        [line] = [line for line in table.split("\n") if line.split()[:1] == ["good"]]
        assert ("1.0000" in line, "↓" in line) == (True, marked)
        assert "significantly lower than base" in table
        assert "over 5 sessions of 5 users" in " ".join(table.split())


def test_sessions_of_one_person_are_one_cluster(tmp_path):
    users = [
        user(f"u{number}", patience=2 + number, person=f"p{number // 2}") for number in range(8)
    ]
    systems = {"base": Says("Mate."), "good": SaysOnePerTurn(*["Rooibos, 95 degrees."] * 10)}
    rows = simulated(tmp_path, systems, users, judged=Phrases(), baseline="base")
    wanted = compare([1] * 8, list(range(2, 10)), list("00112233"))
    assert rows.loc["good", "turns p-value"] == pytest.approx(wanted.p_value)
    assert not rows.loc["good", "turns reject"]  # of four persons


def test_the_clusters_of_tests_are_persons(tmp_path):
    users = [user("u1", person="p"), user("u2", person="p"), user("u3")]
    done = simulate_script(tmp_path, {"a": Says("x")}, users)
    clusters = users_of(done.frames)
    assert (clusters.unit, clusters.of, clusters.number) == ("user", "session", 2)
    assert len(clusters.names) == 3


def test_users_in_any_order_of_ends_are_compared_in_one_order(tmp_path):
    users = [user(f"u{number}", patience=number) for number in (3, 1, 2)]
    done = simulate_script(tmp_path, {"a": Says("x"), "b": Says("Rooibos.")}, users, threads=2)
    for frame in done.frames.values():
        assert frame["session"].tolist() == ["u1", "u2", "u3"]
        assert frame["turns"].tolist() == [1, 2, 3]
        assert frame.index.tolist() == [0, 1, 2]
    assert isinstance(users[0], SimulatedUser)


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


def test_folders_keep_the_baseline_and_go_on_with_another_one(tmp_path):
    systems = {name: Says("Rooibos, at 95 degrees.") for name in ("new", "base", "other")}

    def kept(baseline):
        ikat.simulate(systems, USERS, ScriptedPlayer(), Phrases(), out=tmp_path, baseline=baseline)
        chosen = re.search(
            r"Compared with (\w+) ", report(sorted(tmp_path.iterdir())).html
        )  # as ikat report sims/*
        return chosen[1], Log(tmp_path / "new").baseline

    assert kept(None) == ("base", None)  # the first one
    assert kept("other") == ("other", "other")
    size = (tmp_path / "new" / "log.jsonl").stat().st_size
    assert kept(None) == ("other", "other")
    assert (tmp_path / "new" / "log.jsonl").stat().st_size == size


def test_a_report_keeps_the_baseline_unless_another_is_named(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        simulation, "report", lambda folders, **options: asked.append((folders, options))
    )
    done = simulate_script(tmp_path, {"a": Says("x"), "b": Says("y")}, baseline="a")
    done.report()
    done.report(baseline="b", turns="t")
    folders = [tmp_path / "a", tmp_path / "b"]
    assert asked == [(folders, {"baseline": "a"}), (folders, {"baseline": "b", "turns": "t"})]


# Notes


def test_notes_are_about_all_runs(tmp_path):
    done = simulate_two_users(tmp_path, {"a": Says("x"), "b": Finds("Mint."), "c": Finds("Tea.")})
    logs = {}
    for name, log in done.folders.items():
        header = {**log.header, "recorded": name == "b"}
        dialogues = {}
        for session, dialogue in log.known.items():
            spend = Spend(calls=1, known=2 if name == "a" else 0)
            turns = [replace(turn, spend=spend) for turn in dialogue.turns]
            dialogues[session] = replace(dialogue, turns=turns)
        logs[name] = SimpleNamespace(header=header, known=dialogues)
    notes = replace(done, folders=logs)._notes_on_players()
    assert notes[1] == "Without a response, the text is that of the best 3 passages: b, c."
    assert notes[2].startswith("4 of the 10 completions of the systems came from")
    assert notes[-1].startswith("Recorded completions, without a live LLM: b. ")
    assert len(notes) == 5


def test_all_notes_of_sessions_stand_below_the_table(tmp_path, monkeypatch):
    notes = ["Means over sessions of sessions.", "A second note.", "A third note."]
    monkeypatch.setattr(simulation, "session_notes", lambda frames: list(notes))
    shown = ["Means over users of sessions.", *notes[1:]]
    done = simulate_two_users(tmp_path / "one", {"a": Says("x")})
    assert done.shown().notes[:3] == shown
    assert "plays the users" in done.shown().notes[3]
    done = simulate_two_users(tmp_path / "two", {"a": Says("x"), "b": Says("y")}, repeats=2)
    assert done.shown().notes[:5] == [
        *shown,
        "\u00b1: standard deviation over 2 repeats; means are over all of them.",
        simulation.SECONDS_NOTE,
    ]


def test_only_systems_whose_passages_are_read_are_named(tmp_path):
    class Sometimes(Finds):
        """Responds in its first turn alone."""

        def transform(self, inp):
            if inp["qturn"].iloc[0] == 1:
                return inp.assign(qanswer="Mate.")
            return super().transform(inp)

    systems = {"silent": Says(""), "sometimes": Sometimes("Mint."), "says": Says("Mate.")}
    notes = simulate_two_turns(tmp_path, systems, passages=1).shown().notes
    assert "Without a response, the text is that of the best 1 passage: sometimes." in notes


def test_models_with_one_name_are_one_sentence(tmp_path):
    speaks = scripted("Tea?")[0]
    judges = scripted('["yes", "yes"]')[0]
    done = simulate_two_turns(tmp_path, {"s": Says("Mate.")}, [user(patience=1)], speaks, judges)
    told = " ".join(" ".join(done.shown().notes).split())
    assert f"{speaks.spec} plays the users and judges each turn" in told
    parts = [column.title for column in done.shown().columns]
    assert parts[:4] == ["system", "users", "satisfied", "rubrics met"]
