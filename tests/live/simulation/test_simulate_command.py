"""`ikat simulate` on the sample, offline, and the plan of a simulation."""

import pytest
from click.testing import CliRunner
from fakes import scripted
from live.simulation.players import Chatty, Phrases, Says, user

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.simulation import SessionsFailed, read_users


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    import pyterrier as pt

    path = tmp_path_factory.mktemp("simulated") / "sample.index"
    return ikat.PassageIndex(path).index(
        pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    )


PLAYED = ("--user-llm", "recorded:sample-users", "--judge-llm", "recorded:sample-users")


def command(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


def simulate(index, out, *more):
    given = ("--users", "sample", *PLAYED, "--index", index.path, "--llm", "recorded:sample")
    return command("simulate", "raw", "ad", *given, "--show-persona", "--out", out, *more)


def test_the_sample_simulates_offline_and_says_what_is_recorded(index, tmp_path):
    done = simulate(index, tmp_path / "sims", "--baseline", "raw")
    assert done.exit_code == 0, done.output
    head, *rows = done.stdout.splitlines()[:3]
    assert head.split()[:5] == ["system", "users", "satisfied", "rubrics", "met"]
    assert [row.split()[:2] for row in rows] == [["raw", "5"], ["ad", "5"]]
    said = " ".join(done.stdout.split())
    assert (
        "recorded:sample-users plays the users and judges each turn, from the user's utterance "
        "and the text that the user reads." in said
    )
    assert "Without a response, the text is that of the best 3 passages: raw, ad." in said
    assert (
        "Recorded completions, without a live LLM: ad, users, judge. They are replayed turn by "
        "turn and do not react to" in said
    )
    assert (
        "Calls and cost are those of the systems alone; ikat evaluate --cost of the folders has "
        "those of users and judge, too." in said
    )
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


def test_the_command_plans_without_a_folder(index, tmp_path):
    done = simulate(index, tmp_path / "sims", "--plan")
    assert done.exit_code == 0, done.output
    assert (
        "An upper bound: each user talks to each method until out of patience. Turns that"
        in done.output
    )
    assert not (tmp_path / "sims").exists()
    first, second, third = done.stdout.splitlines()[1:4]
    assert first.split()[1:4] == ["simulate_user", "recorded", "25"]
    assert second.split()[1:4] == ["simulate_judge", "recorded", "25"]
    assert third.split()[1:4] == ["simulate_user", "recorded", "25"]


def test_errors_of_the_command_are_told_in_its_terms(index, tmp_path):
    recorded = tmp_path / "judge.jsonl"
    recorded.write_text(
        '{"qid": "1-1_1", "stage": "simulate_judge", "completion": "I think yes", "model": "m"}\n'
    )
    sample = ("--users", "sample", "--index", index.path)
    out = ("--out", tmp_path / "sims")
    others = "raw with user 1-2, raw with user 2-1, raw with user 3-1, raw with user 3-1-hurried"
    for words, told in [
        (["human_qr", *sample, *PLAYED], ["human_qr"]),
        (["raw", "--users", tmp_path / "no.jsonl", *PLAYED], ["can't be read"]),
        (
            ["raw", *sample, *PLAYED[:2]],
            ["Missing option '--judge-llm'"],
        ),  # no judge without a name
        (
            ["raw", *sample, *PLAYED[:2], "--judge-llm", f"recorded:{recorded}"],
            [
                (
                    "5 of 5 sessions failed: raw with user 1-1 (simulate_judge of turn 1-1_1: "
                    "nothing usable in the completion 'I think yes'"
                ),
                f"; also {others}; there are no scores",  # in the order of the users
                "start it again to continue these sessions, with cache=none for the LLM",
            ],
        ),
    ]:
        done = command("simulate", *words, *out)
        assert (done.exit_code, done.stdout) == (2, "")
        for text in told:
            assert text in done.stderr


def test_a_recorded_system_is_only_told_what_it_can_answer(index, tmp_path):
    with pytest.raises(
        SessionsFailed, match=r"those of turn 1-1_1 answer only .I'd like to do my first walk"
    ):
        ikat.simulate(
            "ad",
            read_users("sample")[:1],
            Chatty(),
            Phrases(),
            out=tmp_path,
            index=index,
            llm="recorded:sample",
        )
