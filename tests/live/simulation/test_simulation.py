"""Sessions of simulated users: exact counts, what each part sees, resuming, and repeats."""

import json
import math
import threading
import time
from dataclasses import replace

import pytest
from fakes import ByPrompt, scripted
from live.simulation.players import (
    ALL,
    PHRASES,
    SECRET_NEED,
    SECRET_RUBRICS,
    USERS,
    Chatty,
    Finds,
    Phrases,
    Says,
    SaysOnePerTurn,
    as_text,
    dialogues,
    rules,
    simulate_one_turn,
    simulate_script,
    simulate_two_turns,
    simulated,
    user,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import (
    LLMPlayer,
    LLMRubricJudge,
    ScriptedPlayer,
    SessionsFailed,
    TrackJudge,
)
from pyterrier_ikat.live.simulation.users import checksum
from pyterrier_ikat.llms import BudgetExceeded, LLMFailure, Reply
from pyterrier_ikat.runs import Log
from pyterrier_ikat.study.systems import System


def test_rubrics_are_met_where_answered_and_users_stop_when_done(tmp_path):
    slow = SaysOnePerTurn("Mate.", "Rooibos.", "95 degrees.")
    fast = SaysOnePerTurn("Rooibos.", "95 degrees.")
    systems = {
        "all": Says(ALL.text),
        "half": Says("Rooibos."),
        "silent": Says(""),
        "slow": slow,
        "fast": fast,
    }
    table = simulated(tmp_path, systems)
    assert table["rubrics met"].tolist() == [1.0, 0.5, 0.0, 0.75, 1.0]
    assert table["satisfied"].tolist() == [1.0, 0.0, 0.0, 0.5, 1.0]
    assert table["turns"].tolist() == [1.0, 2.5, 2.5, 2.5, 2.0]  # three turns of patience and two
    assert table["turns until satisfied"].fillna(0).tolist() == [1.0, 0, 0, 3.0, 2.0]
    assert [one.end for one in dialogues(tmp_path / "silent").values()] == ["out of patience"] * 2
    found = dialogues(tmp_path / "slow")
    assert (found["u1"].met, found["u1"].end) == ({"r1": 2, "r2": 3}, "satisfied")
    assert (found["u2"].met, found["u2"].end) == ({"r1": 2}, "out of patience")
    asked = [turn.utterance for turn in dialogues(tmp_path / "fast")["u1"].turns]
    assert asked == list(SECRET_RUBRICS.values())  # the scripted user asks what is still open
    judges, backend = scripted()
    assert simulated(tmp_path / "unjudged", {"silent": Says("")}, judged=judges)[
        "rubrics met"
    ].tolist() == [0.0]
    assert backend.asked == []  # a silent turn is not judged


def test_nothing_but_the_utterances_reaches_a_system(tmp_path):
    system = Says("Mate.")
    simulated(tmp_path, {"mate": system}, player=Chatty())
    seen = as_text(system.seen)
    for hidden in (
        SECRET_NEED,
        *SECRET_RUBRICS.values(),
        *PHRASES.values(),
        "I sleep badly.",
        "r1",
    ):
        assert hidden not in seen
    qids = [row["qid"] for (row,) in system.seen if row["qconversation"] == "u1"]
    assert qids == ["u1_1", "u1_2", "u1_3"]
    last = next(row for (row,) in system.seen if row["qid"] == "u1_2")
    assert last["qhistory"] == [
        {"role": "user", "content": "And u1 1?"},
        {"role": "assistant", "content": "Mate."},
    ]
    assert last["qptkb"] == {}
    shown = Says("Mate.")
    simulated(tmp_path / "shown", {"mate": shown}, [user()], Chatty(), show_persona=True)
    assert {row["qptkb"]["1"] for (row,) in shown.seen} == {"I sleep badly."}
    assert SECRET_NEED not in as_text(shown.seen)


def test_the_user_reads_need_and_open_rubrics_the_judge_the_turn(tmp_path):
    speaks, said = scripted("Which tea?", "How hot?")
    judges, judged = scripted('["yes", "no"]', '["yes"]')
    table = simulated(
        tmp_path, {"s": SaysOnePerTurn("Rooibos.", "95 degrees.")}, [user()], speaks, judges
    )
    assert table["turns"].tolist() == [2.0]
    first = str(said.asked[0])
    second = str(said.asked[1])
    verdict = str(judged.asked[1])
    for shown, where in [
        *((one, first) for one in ("I sleep badly.", SECRET_NEED, *SECRET_RUBRICS.values())),
        *((one, second) for one in (SECRET_RUBRICS["r2"], "user: Which tea?", "system: Rooibos.")),
        *((one, verdict) for one in (SECRET_RUBRICS["r2"], "95 degrees.", "How hot?")),
    ]:
        assert shown in where
    assert SECRET_RUBRICS["r1"] not in second  # it is met
    for hidden in ("Rooibos", "Which tea?", "I sleep badly.", SECRET_NEED, SECRET_RUBRICS["r1"]):
        assert hidden not in verdict


def test_users_and_judge_read_passages_in_place_of_a_response(tmp_path):
    speaks = Chatty()
    histories = []

    class Watched(Finds):
        def transform(self, inp):
            histories.extend(inp.get("qhistory", []))
            return super().transform(inp)

    finds = Watched("Mate has some.", "Rooibos has none.", "Brew at 95 degrees.")
    table = simulated(tmp_path / "2", {"finds": finds}, [user()], speaks, passages=2)
    assert table["rubrics met"].tolist() == [0.5]  # the third passage is not read
    assert speaks.asked[1].read[1]["content"] == "[1] Mate has some.\n[2] Rooibos has none."
    roles = []
    for said in histories:
        roles.append([message["role"] for message in said])
    assert roles == [[], ["user"], ["user", "user"]]  # it has said nothing
    assert simulated(tmp_path / "0", {"finds": finds}, [user()], passages=0)[
        "rubrics met"
    ].tolist() == [0.0]
    turn = dialogues(tmp_path / "2" / "finds")["u1"].turns[0]
    assert (turn.more["read"], turn.response, turn.citations) == ("passages", "", {})


def test_sessions_side_by_side_change_nothing_but_the_time(tmp_path):
    together = threading.Barrier(
        4, timeout=60
    )  # breaks unless four sessions speak at the same time

    class Waits(Chatty):
        def say(self, situation):
            if situation.turn == 1:
                together.wait()
            return super().say(situation)

    users = [user(f"u{number}", patience=1 + number % 3) for number in range(4)]
    systems = {"a": SaysOnePerTurn("Mate.", "Rooibos.", "95 degrees."), "b": Says("Rooibos.")}
    found = []
    for threads, player in ((1, Chatty()), (4, Waits())):
        simulated(tmp_path / str(threads), systems, users, player, Phrases(), threads=threads)
        timeless = {}
        for name in systems:
            for session, one in dialogues(tmp_path / str(threads) / name).items():
                turns = [replace(turn, seconds=0) for turn in one.turns]
                timeless[name, session] = (turns, one.end)
        found.append(timeless)
    assert found[0] == found[1]


def test_a_simulation_is_replayed_from_the_cache_without_a_key(tmp_path, monkeypatch):
    server = f"openai:small api_key_env=PLANTED cache={tmp_path / 'cache.sqlite'}"
    monkeypatch.setenv("PLANTED", "secret-planted")
    llm = ikat.llm(server)
    monkeypatch.setattr(
        llm.backend,
        "complete",
        lambda requests: [Reply("Rooibos.", "small", "stop", 1, 1) for _ in requests],
    )
    paid = simulated(tmp_path / "paid", {"small": ikat.Answer(llm)})
    llm.close()
    monkeypatch.delenv("PLANTED")
    replayed = simulated(tmp_path / "replayed", {"small": ikat.Answer(ikat.llm(server))})
    assert replayed["rubrics met"].tolist() == paid["rubrics met"].tolist() == [0.5]
    replayed = dialogues(tmp_path / "replayed" / "small")["u1"]
    assert [turn.response for turn in replayed.turns] == ["Rooibos."] * 3


# Interrupts and failures


class Stops(Chatty):
    """Stops the process's work before an utterance, once."""

    def say(self, situation):
        if (situation.user.id, situation.turn) == ("u1", 3) and not hasattr(self, "stopped"):
            self.stopped = True
            raise KeyboardInterrupt
        return super().say(situation)


def test_an_interrupted_simulation_goes_on_and_repeats_no_turn(tmp_path):
    player = Stops("And?")
    systems = {"a": Says("Mate."), "b": Says("Rooibos.")}
    with pytest.raises(KeyboardInterrupt):
        simulated(tmp_path, systems, player=player, threads=1)
    resumed = simulated(tmp_path, systems, player=player)
    said = sorted((one.system, one.user.id, one.turn) for one in player.asked)
    expected = []
    for name in systems:
        for one in USERS:
            for turn in range(1, one.patience + 1):
                expected.append((name, one.id, turn))
    assert said == sorted(expected)
    whole = simulated(tmp_path / "whole", systems, player=Chatty("And?"))
    compared = ["rubrics met", "turns", "satisfied"]
    assert resumed[compared].equals(whole[compared])


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


def test_a_failed_session_ends_no_other_and_is_continued_later(tmp_path):
    class Fails(Says):
        broken = True

        def transform(self, inp):
            if self.broken and inp["qid"].iloc[0] == "u1_2":
                raise ikat.DataError("the index is gone: bring it back")
            return super().transform(inp)

    system = Fails("Mate.")
    player = Chatty()
    told = (
        r"1 of 2 sessions failed: s with user u1 \(the index is gone: bring it back\); there "
        r"are no scores"
    )
    with pytest.raises(SessionsFailed, match=told):
        simulated(tmp_path, {"s": system}, player=player)
    assert dialogues(tmp_path / "s")["u2"].end == "out of patience"
    Fails.broken = False
    assert simulated(tmp_path, {"s": system}, player=player)["turns"].tolist() == [2.5]
    assert sorted((one.user.id, one.turn) for one in player.asked) == [
        ("u1", 1),
        ("u1", 2),
        ("u1", 2),
        ("u1", 3),
        ("u2", 1),
        ("u2", 2),
    ]


def test_a_failed_session_has_the_name_of_its_user(tmp_path):
    person = user("u1", person="p")
    with pytest.raises(SessionsFailed) as failed:
        simulate_script(tmp_path, {"s": Says("Tea.")}, [person], Chatty(""))
    assert [names for *names, _error in failed.value.failures] == [["s", "u1"]]


def test_failed_sessions_are_all_named():
    usable = DataError("gone")
    kept = LLMFailure("simulate_judge", "u1_1", "hm", kept=True)
    one = SessionsFailed([("a", "u1", usable)], 4)
    assert str(one).startswith("1 of 4 sessions failed: a with user u1 (gone); there are no")
    assert "cache=none" not in str(one)
    both = SessionsFailed([("a", "u1", usable), ("b", "u2", kept), ("c", "u3", usable)], 3)
    also = "a with user u1 (gone); also b with user u2, c with user u3; "
    assert f"3 of 3 sessions failed: {also}" in str(both)
    assert "cache=none" in str(both)
    assert len(both.failures) == 3


def test_an_error_that_no_session_can_survive_ends_all(tmp_path):
    class Spent(Chatty):
        def say(self, situation):
            raise BudgetExceeded(spent=1.0, budget=1.0)

    with pytest.raises(BudgetExceeded):
        simulated(tmp_path, {"s": Says("Mate.")}, player=Spent())


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
        simulate_two_turns(tmp_path, {"s": Says("Mate.")}, users, Stops(), threads=2)
    dialogues = Log(tmp_path / "s").dialogues()
    turns = {dialogue.session: len(dialogue.turns) for dialogue in dialogues}
    assert turns["u1"] == 0
    assert turns["u2"] < 100


# Repeats


def test_repeats_are_whole_sessions_with_their_own_completions(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    said = [{"qid": "u1_1", "stage": "simulate_user", "completion": ["Tea?", "Which tea?"]}]
    said += [
        {
            "qid": "u1_1",
            "stage": "simulate_judge",
            "completion": ['["yes", "yes"]', '["no", "yes"]'],
        }
    ]
    with recorded.open("w") as lines:
        for line in said:
            print(json.dumps(line | {"model": "m"}), file=lines)
    one = user(patience=1)
    table = simulated(
        tmp_path / "out",
        {"s": Says("Mate.")},
        [one],
        f"recorded:{recorded}",
        f"recorded:{recorded}",
        repeats=2,
    )
    assert table["rubrics met"].tolist() == [0.75]
    assert table["rubrics met std"].tolist() == [
        pytest.approx(math.sqrt(0.125))
    ]  # of 1 and 0.5, n - 1
    for name, utterance in (("s", "Tea?"), ("s.repeat-2", "Which tea?")):
        assert dialogues(tmp_path / "out" / name)["u1"].turns[0].utterance == utterance


def test_repeats_are_folders_of_their_own(tmp_path):
    done = simulate_script(tmp_path, {"s": Says("Tea.")}, repeats=3, passages=0, history=7)
    assert list(done.folders) == ["s", "s.repeat-2", "s.repeat-3"]
    headers = [Log(tmp_path / name).header for name in done.folders]
    assert [header["repeat"] for header in headers] == [1, 2, 3]
    assert {header["system"] for header in headers} == {"s"}
    assert {(header["passages"], header["history"]) for header in headers} == {(0, 7)}
    shown = " ".join(str(done.shown()).split())
    assert "standard deviation over 3 repeats; means are over all of them." in shown
    assert "Seconds are not tested" not in shown  # one system
    assert done.table["users"].tolist() == [2]


def test_a_repeat_is_the_same_system_to_its_users(tmp_path):
    player = Chatty("And?")
    simulate_two_turns(tmp_path, {"s": Says("Mate.")}, player=player, repeats=2)
    assert {situation.system for situation in player.asked} == {"s"}
    turns = Log(tmp_path / "s.repeat-2").dialogues()[0].turns
    assert [(turn.number, turn.utterance) for turn in turns] == [(1, "And?"), (2, "And?")]


# Settings


def test_the_settings_of_a_simulation_are_kept_whole():
    system = System.of(Says("Tea."), "mine")
    header = rules().header(system)
    assert header == {
        "kind": "simulated",
        "system": "mine",
        "repeat": 1,
        "recorded": False,
        "users": 1,
        "users_sha256": checksum([user()]),
        "users_by": "need",
        "user_llm": "scripted user",
        "judge_llm": PHRASES,
        "recorded_parts": [],
        "passages": 3,
        "show_persona": False,
        "history": None,
        "players_prompts": {},
        **system.parameters(),
    }
    replayed = ByPrompt("x").llm
    assert rules().header(System.of(ikat.Answer(replayed), "mine"))["recorded"] is True
    live = scripted()[0]
    for player, judge, parts in [
        (LLMPlayer(replayed), LLMRubricJudge(live), ["users"]),
        (LLMPlayer(live), LLMRubricJudge(replayed), ["judge"]),
        (LLMPlayer(replayed), TrackJudge(replayed), ["users", "judge"]),
    ]:
        header = rules(player=player, judge=judge).header(system)
        assert header["recorded_parts"] == parts
        assert set(header["players_prompts"]) == {player.stage, judge.stage}
        assert header["user_llm"] == player.llm.fingerprint()
        assert header["judge_llm"] == judge.llm.fingerprint()


def test_a_name_that_can_be_no_folder_is_refused(tmp_path):
    for name in ("a/b", "..", ""):
        with pytest.raises(UsageError):
            simulate_script(tmp_path / "out", {name: Says("Tea.")})
    assert not list(tmp_path.rglob("log.jsonl"))


def test_wrong_calls_and_another_simulations_folder_are_refused(tmp_path):
    with pytest.raises(TypeError, match="judge_llm"):  # no silent default
        ikat.simulate({"s": Says("")}, USERS, ScriptedPlayer(), out=tmp_path)
    for systems, options, told in [
        (["human_qr"], {}, "method human_qr reads annotations of each turn"),
        (
            {"s": ALL, "s.repeat-2": ALL},
            {},
            "a system is named 's.repeat-2', as a repeat of another one",
        ),
        ({"s": ALL}, {"passages": 6}, "passages=6: give 1 or more, and 0 to 5 passages"),
        ({"s": ALL}, {"threads": 0}, "threads=0, passages=3: give 1 or more"),
        ({"s": ALL}, {"baseline": "b"}, "the baseline 'b' is not one of the systems: s"),
        (
            {"s": ALL},
            {"users_by": "friends"},
            "users_by='friends' is unknown: choose one of need, track",
        ),
    ]:
        with pytest.raises(UsageError, match=told):
            simulated(tmp_path, systems, **options)
    assert not list(tmp_path.iterdir())
    simulated(tmp_path, {"s": ALL})
    for other, told in [
        ({"passages": 1}, "passages was 3, now 1"),
        ({"show_persona": True}, "show_persona"),
        ({"users": [user("u1"), user("u2", patience=3)]}, "users_sha256"),
        ({"player": Chatty()}, "user_llm"),
        ({"users_by": "track"}, "users_by was 'need', now 'track'"),
    ]:
        with pytest.raises(UsageError, match=f"holds other conversations .*{told}"):
            simulated(tmp_path, {"s": ALL}, **other)
    with pytest.raises(SessionsFailed, match="the simulated user said nothing in turn u1_1"):
        simulated(tmp_path / "silent", {"s": ALL}, user(), Chatty(" "))


@pytest.mark.parametrize(
    "options", [{"repeats": 0}, {"threads": 0}, {"passages": -1}, {"passages": 6}]
)
def test_numbers_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        simulate_one_turn(tmp_path, Says("Tea."), **options)
    assert not list(tmp_path.iterdir())


def test_five_passages_and_none_are_allowed(tmp_path):
    for passages in (0, 5):
        simulate_one_turn(tmp_path / str(passages), Says("Tea."), passages=passages)
