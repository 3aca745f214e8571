"""What a simulated turn keeps, and which settings reach the system, the user and the judge."""

import pandas as pd
import pytest
from fakes import scripted
from live.simulation.players import Chatty, Finds, Phrases, Says, user

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.simulation import LLMRubricJudge, ScriptedPlayer, Situation
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.runs import Log


def turns_of(folder, name="u1"):
    [dialogue] = [one for one in Log(folder).dialogues() if one.session == name]
    return dialogue.turns


def simulate(out, system, users=None, player=None, judge=None, **options):
    users = users or [user(patience=1)]
    player = player or Chatty("And?")
    return ikat.simulate({"s": system}, users, player, judge or Phrases(), out=out, **options)


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
    simulate(tmp_path, Cites(score))
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
    simulate(tmp_path, Finds(*texts), [user(patience=2)], player, passages=2)
    assert [turn.more["read"] for turn in turns_of(tmp_path / "s")] == [read] * 2
    assert player.asked[1].read[1] == {"role": "assistant", "content": text}
    assert player.asked[1].read[0] == {"role": "user", "content": "And?"}


def test_a_blank_response_is_none(tmp_path):
    player = Chatty("And?")
    judge = Phrases({"r1": "(no answer)", "r2": ""})
    simulate(tmp_path, Says("  "), [user(patience=2)], player, judge)
    assert [turn.more["read"] for turn in turns_of(tmp_path / "s")] == ["nothing"] * 2
    assert [turn.met for turn in turns_of(tmp_path / "s")] == [(), ()]


def test_only_open_rubrics_are_met_in_their_order(tmp_path):
    class Generous:
        identity = "generous"

        def met(self, situation):
            return ["r9", "r2", "r1"]

    simulate(tmp_path, Says("Tea."), judge=Generous())
    [turn] = turns_of(tmp_path / "s")
    assert turn.met == ("r1", "r2")


@pytest.mark.parametrize(("history", "messages"), [(None, 4), (8, 4), (7, 2), (0, 0)])
def test_a_system_sees_no_more_history_than_its_limit(tmp_path, history, messages):
    """Two exchanges of sixteen characters each: eight tokens of four characters."""
    system = Says("eightchr")
    simulate(tmp_path, system, [user(patience=3)], Chatty("eightchr"), history=history)
    assert len(system.seen[-1][0]["qhistory"]) == messages
    omitted = [turn.omitted for turn in turns_of(tmp_path / "s")]
    assert omitted[-1] == 4 - messages
    assert Log(tmp_path / "s").header["history"] == history


def test_the_spend_of_user_and_judge_is_kept_apart(tmp_path):
    simulate(tmp_path / "free", Says("Tea."))
    assert "players" not in turns_of(tmp_path / "free" / "s")[0].more
    speaks, _ = scripted("Which tea?")
    judges, _ = scripted('["no", "no"]')
    simulate(tmp_path / "paid", Says("Tea."), player=speaks, judge=judges)
    [turn] = turns_of(tmp_path / "paid" / "s")
    assert turn.more["players"]["calls"] == 2
    assert turn.spend.calls == 0


def test_a_script_is_said_before_the_open_questions():
    one = user(script=("First?", "Second?"))
    said = []
    for turn in (1, 2, 3):
        said.append(ScriptedPlayer().say(Situation(one, "s", turn, {"r2": "How hot?"})))
    assert said == ["First?", "Second?", "How hot?"]
    assert Situation(one, "s", 3, {}).qid == "u1_3"


@pytest.mark.parametrize(
    ("said", "verdicts"),
    [
        ('["yes", "No "]', ["yes", "no"]),
        ('<think>["no"]</think>["yes"]', ["yes"]),
        ('It is so: ["no"]', ["no"]),
        ('["yes"] ["no"]', None),
        ('{"r1": ["yes"]}', None),
        ('["yes", 1]', None),
        ("", None),
    ],
)
def test_verdicts_are_one_list_of_yes_and_no(said, verdicts):
    assert LLMRubricJudge(scripted()[0]).parse(said) == verdicts


@pytest.mark.parametrize(
    "options", [{"repeats": 0}, {"threads": 0}, {"passages": -1}, {"passages": 6}]
)
def test_numbers_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        simulate(tmp_path, Says("Tea."), **options)
    assert not list(tmp_path.iterdir())


def test_five_passages_and_none_are_allowed(tmp_path):
    for passages in (0, 5):
        simulate(tmp_path / str(passages), Says("Tea."), passages=passages)


def test_a_model_that_answers_in_batches_plays_nobody(tmp_path):
    with pytest.raises(UsageError, match="a conversation can't wait a day"):
        simulate(tmp_path, Says("Tea."), player="openai:m batch=on api_key_env=NO_KEY")


def test_a_plan_counts_no_turn_that_is_played_already(tmp_path):
    speaks, _ = scripted(*["Tea?"] * 5)  # both sessions may ask before one answer is kept
    judges, _ = scripted(*['["yes", "yes"]'] * 5)
    users = [user("u1", patience=2), user("u2", patience=3)]
    first = ikat.simulate(
        {"s": Says("Tea.")}, users, speaks, judges, out=tmp_path / "none", plan=True
    )
    assert first.groupby("stage")["calls"].sum().to_dict() == {
        "simulate_judge": 5,
        "simulate_user": 5,
    }
    ikat.simulate({"s": Says("Tea.")}, users, speaks, judges, out=tmp_path)
    assert all(one.end for one in Log(tmp_path / "s").dialogues())
    left = ikat.simulate({"s": Says("Tea.")}, users, speaks, judges, out=tmp_path, plan=True)
    assert len(left) == 0
