"""Sessions of simulated users: exact counts, what each part sees, resuming, and repeats."""

import itertools
import json
import math
import re
import threading
from dataclasses import replace

import pandas as pd
import pytest
from fakes import scripted
from live.simulation.players import (
    ALL,
    PHRASES,
    SECRET_NEED,
    SECRET_RUBRICS,
    Chatty,
    Finds,
    Phrases,
    Says,
    SaysOnePerTurn,
    Wrote,
    as_text,
    user,
)
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation import compare
from pyterrier_ikat.events import hearing
from pyterrier_ikat.live.simulation import (
    LLMPlayer,
    LLMRubricJudge,
    ScriptedPlayer,
    SessionsFailed,
    Simulated,
    Situation,
)
from pyterrier_ikat.llms import LLM, BudgetExceeded, Ledger, LLMFailure, Reply
from pyterrier_ikat.runs import Log
from pyterrier_ikat.show import report

USERS = [user("u1"), user("u2", patience=2)]


def simulated(out, systems, users=USERS, player=None, judged=None, **more):
    return ikat.simulate(
        systems, users, player or ScriptedPlayer(), judged or Phrases(), out=out, **more
    ).table.set_index("name")


def dialogues(folder):
    return {one.session: one for one in Log(folder).dialogues()}


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


def test_behaviours_change_the_users_prompt():
    model = LLMPlayer(scripted()[0])
    prompts = set()
    for skill, cooperativeness in itertools.product(["low", "medium", "high"], repeat=2):
        one = user(skill=skill, cooperativeness=cooperativeness)
        prompts.add(str(model.requests([Situation(one, "s", 1, one.rubrics)])[0].messages))
    assert len(prompts) == 9


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


@pytest.mark.parametrize(
    ("said", "utterance"),
    [
        *(
            ("user: Which tea?", "Which tea?"),
            ('"Which tea?"', "Which tea?"),
            ('"Tea" or "mate"?', '"Tea" or "mate"?'),
        ),
        *((nothing, None) for nothing in ("", "...", "none", "<think>tea")),
    ],
)
def test_an_utterance_is_read_without_what_models_put_around_it(said, utterance):
    assert LLMPlayer(scripted()[0]).parse(said) == utterance


@pytest.mark.parametrize(
    "said",
    [
        "yes",
        '["yes", "maybe"]',
        '["yes", "no"] or ["no", "no"]',
        "[]",
        "[true, false]",
        '{"r1": "yes"}',
        '["yes", "no", "no"]',
        '["no"]',
    ],
)
def test_a_judge_without_verdict_list_fails_the_session_by_name(tmp_path, said):
    judges, _ = scripted(said, said)
    with pytest.raises(
        SessionsFailed,
        match=(
            r"1 of 1 session failed: s with user u1 \(simulate_judge of turn u1_1: .*start it "
            r"again"
        ),
    ):
        simulated(tmp_path, {"s": Says("Rooibos.")}, [user()], judged=judges)
    assert dialogues(tmp_path / "s")["u1"].turns == []  # nothing counts as 0


def test_an_unusable_completion_is_asked_again_as_another_sample(tmp_path):
    judges, backend = scripted('["yes"]', '["yes", "yes"]')
    speaks, _ = scripted("...", "Tea?")
    table = simulated(tmp_path, {"s": Says("Rooibos.")}, [user()], speaks, judges)
    assert table["rubrics met"].tolist() == [1.0]
    assert backend.asked[0] == backend.asked[1]
    assert [turn.utterance for turn in dialogues(tmp_path / "s")["u1"].turns] == ["Tea?"]
    assert judges.ledger.frame()[["calls", "failures"]].sum().tolist() == [2, 1]
    with pytest.raises(LLMFailure), hearing() as heard:
        LLMRubricJudge(scripted("yes", "no")[0]).met(Situation(user(), "s", 1, SECRET_RUBRICS))
    samples = []
    for one in heard:
        samples.extend(request.sample for request, _ in one.exchanges)
    assert samples == [0, 1]


CUT = Reply("Which tea may", "wrote", "length")


@pytest.mark.parametrize(
    ("given", "left", "told"),
    [
        *(([bad, "Tea?"], [], None) for bad in ("", CUT, "<think>Tea")),
        *(([bad, bad, "Tea?"], ["Tea?"], "the completion") for bad in ("", CUT, "<think>Tea")),
    ],
)
def test_an_empty_or_cut_utterance_is_asked_for_once_more(tmp_path, given, left, told):
    backend = Wrote(simulate_user=given)
    if told is None:
        assert simulated(tmp_path, {"s": ALL}, [user()], LLM(backend), Phrases())[
            "satisfied"
        ].tolist() == [1.0]
    else:
        with pytest.raises(
            SessionsFailed, match=f"s with user u1 .simulate_user of turn u1_1: {told}"
        ):
            simulated(tmp_path, {"s": ALL}, [user()], LLM(backend), Phrases())
    assert backend.left["simulate_user"] == left


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


def test_an_error_that_no_session_can_survive_ends_all(tmp_path):
    class Spent(Chatty):
        def say(self, situation):
            raise BudgetExceeded(spent=1.0, budget=1.0)

    with pytest.raises(BudgetExceeded):
        simulated(tmp_path, {"s": Says("Mate.")}, player=Spent())


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
