"""`ikat simulate` on the sample, offline."""

import pytest
from click.testing import CliRunner
from live.simulation.players import Chatty, Phrases

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
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


def simulate_sample(index, out, *more):
    given = ("--users", "sample", *PLAYED, "--index", index.path, "--llm", "recorded:sample")
    return command("simulate", "raw", "ad", *given, "--show-persona", "--out", out, *more)


def test_the_sample_simulates_offline_and_says_what_is_recorded(index, tmp_path):
    done = simulate_sample(index, tmp_path / "sims", "--baseline", "raw")
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
    again = simulate_sample(index, tmp_path / "sims", "--baseline", "raw")
    assert again.stdout.splitlines()[:3] == [head, *rows]


def test_the_command_plans_without_a_folder(index, tmp_path):
    done = simulate_sample(index, tmp_path / "sims", "--plan")
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
