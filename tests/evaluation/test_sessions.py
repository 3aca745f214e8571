"""Measures of sessions, worked out by hand."""

import math

import pandas as pd
import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation import (
    session_means,
    session_measures,
)
from pyterrier_ikat.evaluation.sessions import (
    SESSION_MEASURES,
    cached_note,
    format_measure,
    recorded_note,
    session_notes,
    shown_columns,
)
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Dialogue, Turn

RUBRICS = {"r1": "Which tea?", "r2": "How hot?", "r3": "How long?", "r4": "Which cup?"}


def dialogue(name, *turns, rubrics=RUBRICS, end="turn limit"):
    """A conversation; each turn is (seconds, calls, cost, met)."""
    made = []
    for number, (seconds, calls, cost, met) in enumerate(turns, 1):
        spend = Spend(calls, cost=cost)
        rubrics_met = tuple(met.split())
        made.append(
            Turn(number, "?", "!", seconds=seconds, spend=spend, met=rubrics_met, session=name)
        )
    return Dialogue(name, f"user of {name}", dict(rubrics), made, end=end)


def measured(*dialogues):
    return session_measures(dialogues)[[*SESSION_MEASURES]].to_dict("records")


def nan_as_none(row):
    cells = {}
    for name, value in row.items():
        missing = isinstance(value, float) and math.isnan(value)
        cells[name] = None if missing else value
    return cells


FULL = dialogue(
    "a", (1.0, 2, 0.5, "r1"), (2.0, 0, 0.0, ""), (6.0, 3, 0.25, "r2 r3 r4"), end="satisfied"
)


@pytest.mark.parametrize(
    ("one", "expected"),
    [  # rubrics met, turns until satisfied, turns, seconds, calls, cost
        (
            FULL,
            [1.0, 3, 3, 3.0, 5, 0.75],
        ),  # four rubrics of four; (1 + 2 + 6) / 3 seconds; 2 + 0 + 3 calls; 0.5 + 0 + 0.25 dollars
        (dialogue("a", (1.0, 1, 0.5, "r1"), end="out of patience"), [0.25, None, 1, 1.0, 1, 0.5]),
        (
            dialogue("a", (1.0, 1, 0.5, "r1"), (1.0, 1, 0.5, "r1 r2"), end=""),
            [0.5, None, 2, 1.0, 2, 1.0],
        ),  # a rubric met twice counts once
        (
            dialogue("a", (1.0, 1, 0.5, ""), (1.0, 1, None, "")),
            [0.0, None, 2, 1.0, 2, None],
        ),  # one unknown price
        (dialogue("a", end=""), [0.0, None, 0, None, 0, 0.0]),
    ],
)
def test_the_measures_of_a_session(one, expected):
    [row] = measured(one)
    assert list(nan_as_none(row).values()) == expected


def test_without_rubrics_the_share_is_missing_and_not_0():
    [row] = measured(dialogue("a", (1.0, 1, 0.5, ""), rubrics={}, end="topic ended"))
    assert math.isnan(row["rubrics met"])


def test_sessions_keep_order_names_and_ends_and_none_count_0():
    frame = session_measures([dialogue("b", end="satisfied"), dialogue("a", end="")])
    assert frame[["session", "user", "end"]].values.tolist() == [
        ["b", "user of b", "satisfied"],
        ["a", "user of a", ""],
    ]
    assert session_means({"raw": session_measures([])}).iloc[0][
        ["sessions", "satisfied"]
    ].tolist() == [0, 0]


@pytest.fixture
def systems():
    """`one` satisfies one user of two, in two turns.

    `other` only has the second, who has no rubrics and whose cost is unknown.
    """
    first = dialogue("a", (1.0, 1, 0.5, "r1 r2"), (3.0, 2, 0.5, "r3 r4"), end="satisfied")
    second = dialogue("b", (4.0, 0, 0.0, "r1"), end="out of patience")
    open_ended = dialogue("b", (4.0, 0, None, ""), rubrics={}, end="")
    return {"one": session_measures([first, second]), "other": session_measures([open_ended])}


def test_means_are_over_the_sessions_that_have_a_value(systems):
    one, other = session_means(systems).to_dict("records")
    assert one == {
        "name": "one",
        "sessions": 2,
        "satisfied": 1,
        "rubrics met": (1.0 + 0.25) / 2,
        "turns until satisfied": 2.0,
        "turns": (2 + 1) / 2,
        "seconds": (2.0 + 4.0) / 2,
        "calls": (3 + 0) / 2,
        "cost": (1.0 + 0.0) / 2,
    }
    known = {
        "turns": 1.0,
        "seconds": 4.0,
        "calls": 0.0,
        "turns until satisfied": None,
        "cost": None,
        "rubrics met": None,
    }
    assert nan_as_none(other) == {"name": "other", "sessions": 1, "satisfied": 0, **known}


def test_notes_tell_what_is_missing(systems):
    assert session_notes(systems) == [
        "Means over sessions. Seconds are per turn, calls and cost (USD) per session.",
        "Turns until satisfied are over the satisfied users only. These differ between the "
        "systems.",
        "A missing cost is unknown: the model has no prices, or its server does not report tokens.",
        "Not ended, and measured up to the last turn: 1 session of other (b).",
        "Missing for other: 1 session (a). Its means are over fewer users.",
    ]


def test_an_interactive_track_run_has_no_success_columns():
    turns = {
        "raw": session_measures(
            [dialogue("1-1_0", (2.0, 3, None, ""), rubrics={}, end="topic ended")]
        )
    }
    assert shown_columns(turns) == ["sessions", "turns", "seconds", "calls"]
    assert session_notes(turns) == ["Means over sessions. Seconds are per turn, calls per session."]


def test_the_calls_of_a_session_include_known_completions():
    turn = Turn(1, "?", "!", spend=Spend(2, known=3, cost=0.5), session="a")
    [row] = measured(Dialogue("a", "ann", {}, [turn], end="satisfied"))
    assert (row["calls"], row["cost"]) == (5, 0.5)


def session(name, end="", turns=0, **spend):
    made = []
    for number in range(1, turns + 1):
        made.append(Turn(number, "?", "!", seconds=2.0, spend=Spend(**spend), met=("r",)))
    return Dialogue(name, f"user {name}", {"r": "Tea?"} if turns else {}, made, end=end)


def test_notes_and_columns_of_systems_whose_sessions_differ():
    priced = session_measures([session("a", "satisfied", 1, cost=0.5), session("b", "turn limit")])
    unpriced = session_measures([session("a", "satisfied", 2, cost=None), session("c", "", 1)])
    both = {"priced": priced, "unpriced": unpriced}
    assert session_notes(both) == [
        "Means over sessions. Seconds are per turn, calls and cost (USD) per session.",
        "A missing cost is unknown: the model has no prices, or its server does not report tokens.",
        "Not ended, and measured up to the last turn: 1 session of unpriced (c).",
        "Missing for priced: 1 session (c). Its means are over fewer users.",
        "Missing for unpriced: 1 session (b). Its means are over fewer users.",
    ]
    assert shown_columns(both) == [
        "sessions",
        "satisfied",
        "rubrics met",
        "turns until satisfied",
        "turns",
        "seconds",
        "calls",
        "cost",
    ]
    assert shown_columns({"x": priced[1:]}) == ["sessions", "turns", "calls", "cost"]
    assert session_notes({"priced": priced}) == [
        "Means over sessions. Seconds are per turn, calls and cost (USD) per session."
    ]
    unknown = session_measures([session("a", "satisfied", 1, cost=None)])
    assert session_notes({"x": unknown}) == [
        "Means over sessions. Seconds are per turn, calls per session."
    ]
    rows = session_means(both).set_index("name")
    assert rows["satisfied"].tolist() == [1, 1]
    assert rows["cost"].isna().tolist() == [False, True]
    assert rows["seconds"].tolist() == [2.0, 2.0]
    for measure, shown in (("satisfied", ".5000"), ("users", "1"), ("turns", "1.00")):
        assert format_measure(measure, {".5000": 0.5}.get(shown, 1)) == shown
    lacking = {"x": priced.drop(columns="calls")}
    with pytest.raises(UsageError, match="no column calls in the sessions of x"):
        session_means(lacking)


def test_a_sessions_price_counts_known_completions():
    spend = {"calls": 1, "known": 2, "cost": 0.25, "worth": 0.5}
    [row] = session_measures([session("a", "topic ended", 2, **spend)]).to_dict("records")
    assert (row["calls"], row["cost"], row["turns"]) == (6, 1.5, 2)
    assert row["rubrics met"] == 1.0
    assert pd.isna(row["turns until satisfied"])


def test_known_completions_are_told_with_their_price():
    turns = [Turn(1, "", "", spend=Spend(1, known=2)), Turn(2, "", "", spend=Spend(known=1))]
    assert cached_note(turns[:0]) == cached_note([Turn(1, "", "", spend=Spend(5))]) == []
    [note] = cached_note(turns, 4)
    assert note.startswith("3 of the 4 completions")
    assert "price" not in note
    [many] = cached_note([Turn(1, "", "", spend=Spend(known=1200))], 4321)
    assert many.startswith("1,200 of the 4,321 completions")
    [priced] = cached_note([*turns, Turn(3, "", "", spend=Spend(known=1, worth=0.5))])
    assert priced.startswith("4 completions")
    assert "price of a call" in priced


def test_who_replayed_recorded_completions_is_told():
    headers = {
        "live": {"recorded": False, "recorded_parts": ["judge"]},
        "ad": {"recorded": True, "recorded_parts": ["users", "judge"]},
        "old": {},
    }
    [note] = recorded_note(headers)
    assert ": ad, judge, users." in note
    silent = {"live": {"recorded": False}, "old": {}, "empty": {"recorded_parts": None}}
    assert recorded_note(silent) == []


def test_columns_of_success_need_patient_or_satisfied_users():
    turn = Turn(1, "", "", seconds=1.0, spend=Spend(1, cost=0.5), met=("r",))
    for end, is_shown in [("satisfied", True), ("out of patience", True), ("turn limit", False)]:
        frame = session_measures([Dialogue("a", "a", {"r": "?"}, [turn], end=end)])
        assert ("satisfied" in shown_columns({"raw": frame})) is is_shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("rubrics met", 0.5, ".5000"),
        ("satisfied", 1.0, "1.0000"),
        ("seconds", 1234.567, "1,234.57"),
        ("cost", 0.12345, "0.1235"),
        ("calls", 2.5, "2.50"),
        ("calls", 0, "0.00"),
        ("cost", 0.0, "0.0000"),
        ("sessions", 1200, "1,200"),
        ("seconds", float("nan"), "–"),
    ],
)
def test_means_of_sessions_have_the_decimals_of_their_measure(name, value, shown):
    assert format_measure(name, value) == shown
