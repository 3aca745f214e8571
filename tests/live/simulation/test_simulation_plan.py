"""The plan of a simulation: the most that can be asked, without what is there."""

from types import SimpleNamespace

import pytest
from fakes import scripted
from live.simulation.players import (
    SECRET_NEED,
    Chatty,
    Phrases,
    Says,
    dialogue_of,
    rules,
    simulate_script,
    simulate_two_users,
    user,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.simulation import SessionsFailed
from pyterrier_ikat.runs import Log, Turn


def test_a_plan_is_the_most_that_can_be_asked(tmp_path):
    class Model:
        def generate(self, chats):
            raise AssertionError("nothing is asked")

    users = [user("u1", patience=3), user("u2", patience=2)]
    systems = {"answer": ikat.Answer(ikat.llm(Model())), "says": Says("Mate.")}
    model = ikat.llm(Model())
    plan = ikat.simulate(systems, users, model, model, repeats=2, out=tmp_path, plan=True)
    counts = {(row.system, row.stage): row.calls for row in plan.itertuples()}

    assert counts == {
        ("answer", "simulate_user"): 5,
        ("answer", "simulate_judge"): 5,
        ("answer", "answer"): 5,
        ("answer.repeat-2", "simulate_user"): 5,
        ("answer.repeat-2", "simulate_judge"): 5,
        ("answer.repeat-2", "answer"): 5,
        ("says", "simulate_user"): 5,
        ("says", "simulate_judge"): 5,
        ("says.repeat-2", "simulate_user"): 5,
        ("says.repeat-2", "simulate_judge"): 5,
    }
    first = {(row.system, row.stage): row.new for row in plan.itertuples()}
    assert first["answer", "simulate_user"] == 4  # both users begin with the same prompt
    assert first["answer.repeat-2", "simulate_user"] == 4  # a repeat asks anew
    assert first["says", "simulate_user"] == 3  # whose first prompt is the same for each system


def test_a_plan_omits_the_turns_that_the_folder_has(tmp_path):
    class Stopped(Chatty):
        def say(self, situation):
            if (situation.user.id, situation.turn) == ("u1", 3):
                raise UsageError("stop: here")
            return "Tea?"

    class Third(Phrases):
        def met(self, situation):
            return situation.open if situation.user.id == "u3" else ()

    llm, _ = scripted(*["Mate."] * 20)
    users = [user("u1", patience=5), user("u2", patience=2), user("u3", patience=4)]
    given = ({"answer": ikat.Answer(llm)}, users, Stopped(), Third())
    with pytest.raises(SessionsFailed):
        ikat.simulate(*given, out=tmp_path)
    assert ikat.simulate(*given, out=tmp_path / "other", plan=True)["calls"].tolist() == [5 + 2 + 4]
    assert ikat.simulate(*given, out=tmp_path, plan=True)["calls"].tolist() == [
        3
    ]  # u2 is out of patience and u3 satisfied
    with pytest.raises(UsageError, match="holds other conversations .passages was 3, now 1"):
        ikat.simulate(*given, out=tmp_path, passages=1, plan=True)


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
        simulate_two_users(tmp_path, {"s": system}, show_persona=shown, **options)
        seen = set()
        for rows in system.seen:
            seen.update(tuple(row["qptkb"].values()) for row in rows)
        personas.append(seen)
        system.seen.clear()
    assert personas == [{("I sleep badly.",) if shown else ()}] * 2


def test_a_plan_stands_in_for_what_users_say():
    one = user(patience=3, script=("First?",))
    ahead = rules(users=[one])._ahead(one, "s", None)
    assert [situation.turn for situation in ahead] == [1, 2, 3]
    assert [situation.utterance for situation in ahead] == [
        "First?",
        f"{SECRET_NEED} 2",
        f"{SECRET_NEED} 3",
    ]
    assert len({situation.text for situation in ahead}) == 3
    assert [message["content"] for message in ahead[1].read[:1]] == ["First?"]
    known = dialogue_of(Turn(1, "Else?", "Mate."))
    assert [situation.turn for situation in rules()._ahead(one, "s", known)] == [2, 3]


def test_users_with_one_topic_have_their_own_turns_in_a_plan(tmp_path):
    users = [user("u1", topic="7-1"), user("u2", topic="7-1")]
    model = ikat.llm(SimpleNamespace(generate=None))
    plan = simulate_script(tmp_path, {"s": ikat.Answer(model)}, users, plan=True)
    assert plan["calls"].tolist() == [6]
    assert plan["system"].tolist() == ["s"]
