"""Texts that users and judges read whole, several runs in the notes, and rare words of users."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes import scripted
from live.simulation.players import SECRET_RUBRICS, Chatty, Finds, Phrases, Says, Wrote, user

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import (
    LLMRubricJudge,
    ScriptedPlayer,
    Situation,
    read_users,
    simulation,
)
from pyterrier_ikat.live.simulation.players import TrackPlayer
from pyterrier_ikat.live.simulation.simulation import Simulation
from pyterrier_ikat.llms import LLM, LLMFailure, Reply
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, ShownPassage, Turn

LONG = " ".join(f"word{number}" for number in range(60))


def rules(**changes):
    given = {"users": [user()], "player": ScriptedPlayer(), "judge": Phrases(), "by": "need"}
    given |= {"passages": 3, "show_persona": False, "history": None}
    return Simulation(**given | changes)


@pytest.mark.parametrize(
    ("response", "passages", "text"),
    [
        ("", 4, f"[1] {LONG}\n[2] a b\n[4] d"),
        ("", 3, f"[1] {LONG}\n[2] a b"),
        (" \n", 1, f"[1] {LONG}"),
        ("", 0, ""),
        (" Rooibos.\n", 3, " Rooibos.\n"),
    ],
)
def test_a_passage_is_read_whole_in_place_of_a_response(response, passages, text):
    sources = [ShownPassage("d1", LONG), ShownPassage("d2", "a\n b"), ShownPassage("d3")]
    sources.append(ShownPassage("d4", "d"))
    turn = Turn(1, "?", response, tuple(sources))
    assert rules(passages=passages).text_of(turn) == text


def test_passages_without_a_response_are_no_citations(tmp_path):
    judged = []

    class Judge:
        identity = "judge"

        def met(self, situation):
            judged.append((situation.utterance, situation.text, situation.turn))
            return []

    systems = {"finds": Finds("Mint.", "Sage."), "silent": Says("")}
    users = [user(patience=1)]
    ikat.simulate(systems, users, Chatty(), Judge(), out=tmp_path, passages=2, threads=1)
    [turn] = Log(tmp_path / "finds").dialogues()[0].turns
    assert (turn.citations, turn.more["read"]) == ({}, "passages")
    assert judged == [("And u1 1?", "[1] Mint.\n[2] Sage.", 1)]  # no text, no judge


def test_a_user_who_says_nothing_is_named(tmp_path):
    with pytest.raises(ikat.IkatError, match="said nothing in turn u1_1"):
        ikat.simulate({"s": Says("x")}, [user()], Chatty(" \n "), Phrases(), out=tmp_path)


def simulated(out, systems, **options):
    users = [user("u1", patience=1), user("u2", patience=1)]
    return ikat.simulate(systems, users, Chatty("And?"), Phrases(), out=out, threads=1, **options)


def test_notes_are_about_all_runs(tmp_path):
    done = simulated(tmp_path, {"a": Says("x"), "b": Finds("Mint."), "c": Finds("Tea.")})
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


def test_each_repeat_is_planned_with_its_own_completions(tmp_path):
    speaks = scripted()[0]
    judges = scripted()[0]
    model = scripted()[0]
    plan = ikat.simulate(
        {"s": ikat.Answer(model)},
        [user("u1", patience=2), user("u2", patience=1)],
        speaks,
        judges,
        out=tmp_path,
        repeats=3,
        plan=True,
    )
    calls = plan.groupby("stage")["calls"].sum().to_dict()
    assert calls == {"simulate_user": 9, "simulate_judge": 9, "answer": 9}
    assert sorted(set(plan["system"])) == ["s", "s.repeat-2", "s.repeat-3"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shown", [True, False])
def test_a_system_is_planned_with_the_persona_that_it_will_get(tmp_path, shown):
    system = Says("x")
    personas = []
    for options in ({"plan": True}, {}):
        simulated(tmp_path, {"s": system}, show_persona=shown, **options)
        seen = set()
        for rows in system.seen:
            seen.update(tuple(row["qptkb"].values()) for row in rows)
        personas.append(seen)
        system.seen.clear()
    assert personas == [{("I sleep badly.",) if shown else ()}] * 2


def test_the_situation_of_the_track_has_one_rubric():
    asks = user(rubrics={**SECRET_RUBRICS, "r3": "Why?"}, patience=1)
    dialogue = ikat.runs.Dialogue("u1", "u1")
    rule = rules(by="track", users=[asks])
    situations = []
    for number in range(1, 12):
        situation = rule.situation(asks, "s", dialogue)
        if isinstance(situation, str):
            situations.append(situation)
            break
        [rubric] = situation.open
        situations.append((situation.turn, rubric, situation.after))
        met = (rubric,) if number in (1, 5) else ()
        dialogue.turns.append(Turn(number, "?", "x", met=met, more={"rubric": rubric}))
    assert situations == [
        (1, "r1", ""),
        (2, "r2", "answered"),
        (3, "r2", "again"),
        (4, "r2", "again"),
        (5, "r3", "given up"),
        "topic ended",
    ]


def test_words_that_name_no_users_are_refused(tmp_path):
    for words in (" ", str(tmp_path / "none.jsonl"), f"{tmp_path / 'none'} assessed=on"):
        with pytest.raises((DataError, UsageError)):
            read_users(words)


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


def cut(text):
    return Reply(text, "wrote", "length")


def test_the_last_of_two_failures_ends_a_session_and_both_count():
    situation = Situation(user(), "s", 1, {"r1": "a", "r2": "b"}, text="x")
    for replies, told in [
        ([cut("x"), '["yes"]'], "1 verdict for 2 rubrics"),
        (['["yes"]', '["yes", "no", "no"]'], "3 verdicts for 2 rubrics"),
    ]:
        model = LLM(Wrote(simulate_judge=replies))
        with pytest.raises(LLMFailure, match=told) as raised:
            LLMRubricJudge(model).met(situation)
        assert (raised.value.qid, raised.value.stage) == ("u1_1", "simulate_judge")
        assert model.ledger.frame()["failures"].sum() == 2
        assert [request.sample for request in model.backend.asked] == [0, 1]
        assert {request.item for request in model.backend.asked} == {"s"}


def test_the_first_failure_of_candidates_is_told():
    replies = [cut("x"), *[Reply("", "wrote", "stop")] * 4]
    player = TrackPlayer(LLM(Wrote(simulate_track_user=replies)))
    with pytest.raises(LLMFailure, match="cut off"):
        player.say(Situation(user(), "s", 1, {"r1": "Which?"}))


def test_all_notes_of_sessions_stand_below_the_table(tmp_path, monkeypatch):
    notes = ["Means over sessions of sessions.", "A second note.", "A third note."]
    monkeypatch.setattr(simulation, "session_notes", lambda frames: list(notes))
    shown = ["Means over users of sessions.", *notes[1:]]
    done = simulated(tmp_path / "one", {"a": Says("x")})
    assert done.shown().notes[:3] == shown
    assert "plays the users" in done.shown().notes[3]
    done = simulated(tmp_path / "two", {"a": Says("x"), "b": Says("y")}, repeats=2)
    assert done.shown().notes[:5] == [
        *shown,
        "\u00b1: standard deviation over 2 repeats; means are over all of them.",
        simulation.SECONDS_NOTE,
    ]


def test_a_session_that_goes_on_begins_once(tmp_path):
    class Stops(Phrases):
        """Judges one text, and then fails."""

        left = 1

        def met(self, situation):
            self.left -= 1
            if self.left < 0:
                raise DataError("it is down")
            return []

    judge = Stops()
    system = Says("x")
    users = [user("u1", patience=3)]
    with pytest.raises(ikat.IkatError, match="it is down"):
        ikat.simulate({"s": system}, users, Chatty(), judge, out=tmp_path)
    judge.left = 5
    ikat.simulate({"s": system}, users, Chatty(), judge, out=tmp_path)
    kinds = [event["event"] for event in Log(tmp_path / "s").events()]
    assert (kinds.count("session"), kinds.count("turn"), kinds.count("end")) == (1, 3, 1)
    [dialogue] = Log(tmp_path / "s").dialogues()
    utterances = [turn.utterance for turn in dialogue.turns]
    assert utterances == ["And u1 1?", "And u1 2?", "And u1 3?"]
