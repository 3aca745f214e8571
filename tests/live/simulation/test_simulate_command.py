"""`ikat simulate` on the sample, offline, and the plan of a simulation."""

import pytest
from click.testing import CliRunner
from live.simulation.players import Says, user

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.simulation import ScriptedJudge, ScriptedPlayer, SessionsFailed, read_users


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    import pyterrier as pt

    path = tmp_path_factory.mktemp("simulated") / "sample.index"
    return ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))


PLAYED = ("--user-llm", "recorded:sample-users", "--judge-llm", "recorded:sample-users")


def command(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


def simulate(index, out, *more):
    given = ("--users", "sample", *PLAYED, "--index", index.path, "--llm", "recorded:sample")
    return command("simulate", "raw", "ad", *given, "--show-persona", "--out", out, *more)


def test_the_sample_is_simulated_offline_and_says_what_is_recorded(index, tmp_path):
    done = simulate(index, tmp_path / "sims", "--baseline", "raw")
    assert done.exit_code == 0, done.output
    head, *rows = done.stdout.splitlines()[:3]
    assert head.split()[:5] == ["system", "users", "satisfied", "rubrics", "met"]
    assert [row.split()[:2] for row in rows] == [["raw", "5"], ["ad", "5"]]
    said = " ".join(done.stdout.split())
    assert "recorded:sample-users plays the users and judges each turn, from the user's utterance and the text that the user reads." in said
    assert "Without a response, the text is that of the best 3 passages: raw, ad." in said
    assert "Recorded completions, without a live LLM: ad, users, judge. They are replayed turn by turn and do not react to" in said
    assert "Calls and cost are those of the systems alone; ikat evaluate --cost of the folders has those of users and judge, too." in said
    assert {path.name for path in (tmp_path / "sims").iterdir()} == {"raw", "ad"}
    again = simulate(index, tmp_path / "sims", "--baseline", "raw")
    assert again.stdout.splitlines()[:3] == [head, *rows]


def test_a_plan_is_the_most_that_can_be_asked(tmp_path):
    class Model:
        def generate(self, chats):
            raise AssertionError("nothing is asked")

    users = [user("u1", patience=3), user("u2", patience=2)]
    systems = {"answer": ikat.Answer(ikat.llm(Model())), "says": Says("Mate.")}
    model = ikat.llm(Model())
    plan = ikat.simulate(systems, users, model, model, repeats=2, out=tmp_path, plan=True)
    counts = {(row.system, row.stage): row.calls for row in plan.itertuples()}
    stages = ("simulate_user", "simulate_judge", "answer")
    assert counts == {(run, stage): 5 for run in ("answer", "answer.repeat-2") for stage in stages} | {
        (run, stage): 5 for run in ("says", "says.repeat-2") for stage in stages[:2]
    }
    first = {(row.system, row.stage): row.new for row in plan.itertuples()}
    assert first["answer", "simulate_user"] == 4  # both users begin with the same prompt
    assert first["says", "simulate_user"] == 3  # whose first prompt is the same for each system


def test_a_plan_omits_the_turns_that_the_folder_has(tmp_path):
    class Stopped(ScriptedPlayer):
        def say(self, situation):
            if (situation.user.id, situation.turn) == ("u1", 3):
                raise DataError("stop: here")
            return "Tea?"

    class Counts:
        def generate(self, chats):
            return ["Mate." for chat in chats]

    users, systems = [user("u1", patience=5), user("u2", patience=2), user("u3", patience=4)], {"answer": ikat.Answer(ikat.llm(Counts()))}
    judge = ScriptedJudge({"u3": {"r1": "mate", "r2": "mate"}})
    with pytest.raises(SessionsFailed):
        ikat.simulate(systems, users, Stopped(), judge, out=tmp_path)
    given = (systems, users, Stopped(), judge)
    assert ikat.simulate(*given, out=tmp_path / "other", plan=True)["calls"].tolist() == [5 + 2 + 4]
    left = ikat.simulate(*given, out=tmp_path, plan=True)["calls"].tolist()
    assert left == [3]  # turns 3 to 5 of u1; u2 is out of patience and u3 satisfied
    with pytest.raises(UsageError, match="holds other conversations .passages was 3, now 1"):
        ikat.simulate(*given, out=tmp_path, passages=1, plan=True)


def test_the_command_plans_without_a_folder(index, tmp_path):
    done = simulate(index, tmp_path / "sims", "--plan")
    assert done.exit_code == 0, done.output
    assert "An upper bound: each user talks to each method until out of patience. Turns that" in done.output
    assert not (tmp_path / "sims").exists()
    assert [line.split()[1:4] for line in done.stdout.splitlines()[1:4]] == [
        ["simulate_user", "recorded", "25"],
        ["simulate_judge", "recorded", "25"],
        ["simulate_user", "recorded", "25"],
    ]


def test_errors_of_the_command_are_told_in_its_terms(index, tmp_path):
    done = command("simulate", "human_qr", "--users", "sample", *PLAYED, "--out", tmp_path, "--index", index.path)
    assert done.exit_code == 2
    assert "human_qr" in done.output
    missing = command("simulate", "raw", "--users", tmp_path / "no.jsonl", *PLAYED, "--out", tmp_path)
    assert "can't be read" in missing.output
    judge = command("simulate", "raw", "--users", "sample", "--user-llm", "recorded:sample", "--out", tmp_path)
    assert "Missing option '--judge-llm'" in judge.output  # no judge without a name


def test_failed_sessions_are_told_in_the_order_of_the_users_and_with_the_repair(index, tmp_path):
    recorded = tmp_path / "judge.jsonl"
    recorded.write_text('{"qid": "1-1_1", "stage": "simulate_judge", "completion": "I think yes", "model": "m"}\n')
    given = ("--users", "sample", "--user-llm", "recorded:sample-users", "--judge-llm", f"recorded:{recorded}")
    done = command("simulate", "raw", *given, "--index", index.path, "--out", tmp_path / "sims")
    assert done.exit_code == 2
    assert (
        "5 of 5 sessions failed: raw with user 1-1 (simulate_judge of turn 1-1_1: nothing usable in the completion 'I think yes'"
        in done.stderr
    )
    assert "; also raw with user 1-2, raw with user 2-1, raw with user 3-1, raw with user 3-1-hurried; there are no scores" in done.stderr
    assert "start it again to continue these sessions, with cache=none for the LLM" in done.stderr
    assert done.stdout == ""


def test_a_recorded_system_is_only_told_what_it_can_answer(index, tmp_path):
    class Other(ScriptedPlayer):
        def say(self, situation):
            return "And now something else?"

    class Never:
        identity = "never"

        def met(self, situation, utterance, text):
            return []

    with pytest.raises(SessionsFailed, match=r"those of turn 1-1_1 answer only .I'd like to do my first walk") as failed:
        ikat.simulate("ad", read_users("sample")[:1], Other(), Never(), out=tmp_path, index=index, llm="recorded:sample")
    assert isinstance(failed.value.failures[0][2], UsageError)
