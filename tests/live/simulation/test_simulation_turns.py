"""One turn of a session: what the system, the user and the judge get, and what is kept of it."""

from dataclasses import replace

import pandas as pd
import pytest
from fakes import scripted
from live.simulation.players import (
    SECRET_RUBRICS,
    Chatty,
    Finds,
    Phrases,
    Says,
    SaysOnePerTurn,
    dialogue_of,
    rules,
    simulate_one_turn,
    simulate_script,
    simulate_two_turns,
    user,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.live.simulation import ScriptedPlayer, simulation
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import Log, ShownPassage, Turn


def test_a_system_sees_the_topic_and_the_log_the_user(tmp_path):
    says = Says("Tea.")
    one = user("u1", topic="7-1", person="p1", patience=1)
    simulate_script(tmp_path, {"s": says}, [one])
    assert says.seen[0][0]["qid"] == "7-1_1"
    [dialogue] = Log(tmp_path / "s").dialogues()
    assert (dialogue.session, dialogue.user, dialogue.turns[0].session) == ("u1", "p1", "u1")
    assert dialogue.rubrics == one.rubrics


def turns_of(folder, name="u1"):
    [dialogue] = [one for one in Log(folder).dialogues() if one.session == name]
    return dialogue.turns


@pytest.mark.parametrize(("history", "messages"), [(None, 4), (8, 4), (7, 2), (0, 0)])
def test_a_system_sees_no_more_history_than_its_limit(tmp_path, history, messages):
    """Two exchanges of sixteen characters each: eight tokens of four characters."""
    system = Says("eightchr")
    simulate_one_turn(tmp_path, system, [user(patience=3)], Chatty("eightchr"), history=history)
    assert len(system.seen[-1][0]["qhistory"]) == messages
    omitted = [turn.omitted for turn in turns_of(tmp_path / "s")]
    assert omitted[-1] == 4 - messages
    assert Log(tmp_path / "s").header["history"] == history


def test_patience_and_met_rubrics_end_a_session():
    one = user(patience=2)
    first = Turn(1, "Which?", "Rooibos.", met=("r1",))
    second = Turn(2, "How hot?", "95 degrees.", met=("r2",))
    rule = rules(users=[one])
    begun = rule.situation(one, "s", dialogue_of(first))
    assert (begun.turn, list(begun.open), begun.qid, begun.after) == (2, ["r2"], "u1_2", "")
    assert [message["content"] for message in begun.read] == ["Which?", "Rooibos."]
    assert rule.situation(one, "s", dialogue_of(first, second)) == "satisfied"
    unmet = Turn(2, "How hot?", "Warm.")
    assert rule.situation(one, "s", dialogue_of(first, unmet)) == "out of patience"
    silent = rule.situation(one, "s", dialogue_of(Turn(1, "Which?", " ")))
    assert silent.read[1]["content"] == "(no answer)"


def test_only_open_rubrics_are_met_in_their_order(tmp_path):
    class Generous:
        identity = "generous"

        def met(self, situation):
            return ["r9", "r2", "r1"]

    simulate_one_turn(tmp_path, Says("Tea."), judge=Generous())
    [turn] = turns_of(tmp_path / "s")
    assert turn.met == ("r1", "r2")


def test_a_topic_of_the_track_may_end_satisfied_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "similarities", lambda texts, others: [1.0])
    users = [user("u1"), user("u2", rubrics={"r1": "Which leaf?"})]
    done = simulate_two_turns(
        tmp_path, {"s": Says("Rooibos.")}, users, ScriptedPlayer(), users_by="track", threads=1
    )
    dialogues = Log(tmp_path / "s").dialogues()
    ends = {dialogue.session: dialogue.end for dialogue in dialogues}
    assert ends == {"u1": "topic ended", "u2": "satisfied"}
    assert done.table["satisfied"].tolist() == [0.5]


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


def test_a_user_who_says_nothing_is_named(tmp_path):
    with pytest.raises(ikat.IkatError, match="said nothing in turn u1_1"):
        ikat.simulate({"s": Says("x")}, [user()], Chatty(" \n "), Phrases(), out=tmp_path)


def test_a_live_system_may_be_told_other_words_than_the_script(tmp_path):
    said = Chatty("Or\n  hot?")
    simulate_two_turns(tmp_path, {"s": Says("Mate.")}, [user(patience=2, script=("Which?",))], said)
    turns = Log(tmp_path / "s").dialogues()[0].turns
    assert [turn.utterance for turn in turns] == ["Or hot?", "Or hot?"]


# What is kept of an answer


def test_a_turn_keeps_what_is_known_of_its_answer(tmp_path, monkeypatch):
    answer = simulation.answer

    def shortened(*args, **named):
        return replace(answer(*args, **named), more={"shortened": 40})

    monkeypatch.setattr(simulation, "answer", shortened)
    simulate_two_turns(tmp_path, {"s": Says("Mate.")}, [user(patience=1)])
    [turn] = Log(tmp_path / "s").dialogues()[0].turns
    assert turn.more == {"shortened": 40, "read": "response"}


class Cites(Operator):
    """Responds on one passage, whose score may be missing."""

    schematic = {"label": "Cites"}

    def __init__(self, score):
        super().__init__()
        self.score = score

    def transform(self, inp):
        found = {"docno": ["d1"], "text": ["t"], "score": [self.score], "rank": [0]}
        row = {"qid": inp["qid"].iloc[0], "query": "x", "qanswer": "Rooibos.", "used": True}
        return pd.DataFrame(found).assign(**row)


@pytest.mark.parametrize(("score", "kept"), [(2.5, 2.5), (None, 0.0)])
def test_a_response_keeps_the_scores_of_its_sources(tmp_path, score, kept):
    simulate_one_turn(tmp_path, Cites(score))
    [turn] = turns_of(tmp_path / "s")
    assert (turn.citations, turn.more["read"], turn.number) == ({"d1": kept}, "response", 1)
    assert (turn.session, turn.method, turn.utterance) == ("u1", "s", "And?")


@pytest.mark.parametrize(
    ("texts", "read", "text"),
    [
        (("one", "two", "three"), "passages", "[1] one\n[2] two"),
        (("", "a\n  b", "three"), "passages", "[2] a b"),
        (("", " ", "three"), "nothing", "(no answer)"),
    ],
)
def test_the_best_passages_stand_for_a_response(tmp_path, texts, read, text):
    player = Chatty("And?")
    simulate_one_turn(tmp_path, Finds(*texts), [user(patience=2)], player, passages=2)
    assert [turn.more["read"] for turn in turns_of(tmp_path / "s")] == [read] * 2
    assert player.asked[1].read[1] == {"role": "assistant", "content": text}
    assert player.asked[1].read[0] == {"role": "user", "content": "And?"}


LONG = " ".join(f"word{number}" for number in range(60))


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


def test_a_blank_response_is_none(tmp_path):
    player = Chatty("And?")
    judge = Phrases({"r1": "(no answer)", "r2": ""})
    simulate_one_turn(tmp_path, Says("  "), [user(patience=2)], player, judge)
    assert [turn.more["read"] for turn in turns_of(tmp_path / "s")] == ["nothing"] * 2
    assert [turn.met for turn in turns_of(tmp_path / "s")] == [(), ()]


def test_a_response_of_each_turn_is_judged_as_the_user_read_it(tmp_path):
    seen = []

    class Keeps(Phrases):
        def met(self, situation):
            seen.append((situation.turn, situation.utterance, situation.text, len(situation.read)))
            return super().met(situation)

    system = SaysOnePerTurn("Mate.", " ", "Rooibos.")
    simulate_two_turns(tmp_path, {"s": system}, [user()], Chatty("And {turn}?"), Keeps())
    assert seen == [(1, "And 1?", "Mate.", 0), (3, "And 3?", "Rooibos.", 4)]


def test_the_spend_of_user_and_judge_is_kept_apart(tmp_path):
    simulate_one_turn(tmp_path / "free", Says("Tea."))
    assert "players" not in turns_of(tmp_path / "free" / "s")[0].more
    speaks, _ = scripted("Which tea?")
    judges, _ = scripted('["no", "no"]')
    simulate_one_turn(tmp_path / "paid", Says("Tea."), player=speaks, judge=judges)
    [turn] = turns_of(tmp_path / "paid" / "s")
    assert turn.more["players"]["calls"] == 2
    assert turn.spend.calls == 0
