"""`ikat run --record` and the commands of live conversations, offline on the sample."""

import json

import pytest

PLAYED = ("--user-llm", "recorded:sample-users", "--judge-llm", "recorded:sample-users")


@pytest.fixture
def record(call, sample_index):
    """Record the completions of a method on the sample."""

    def record(path, *more, method="ad"):
        given = ("--dataset", "ikat:sample", "--index", sample_index)
        return call("run", method, *given, "--record", path, *more)

    return record


def test_what_a_recording_lacks_is_to_be_filled_in_once(record, recorded, refused, tmp_path):
    path = tmp_path / "mine.jsonl"
    known = recorded(tmp_path / "known.jsonl", ("1-1_1", "answer", "A walk."))
    options = ("--llm", known, "--turns", "1-1_1,1-1_2")
    assert "1-1_2" in refused(record(path, *options))
    [line] = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["qid"], line["stage"]) == ("1-1_2", "answer")
    path.write_text(json.dumps({**line, "completion": "By hand."}) + "\n")
    again = record(path, *options)
    assert again.exit_code == 0, again.output
    assert f"{path}: 0 new lines" in again.output
    whole = record(tmp_path / "whole.jsonl", "--llm", "recorded:sample", "--turns", "1-1_1")
    assert "0 new lines" in whole.output  # the sample's own have it


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--record needs --llm"),
        (("--llm", "recorded:sample", "--baseline", "ad"), "omit --baseline"),
        (("--llm", "recorded:sample", "--measures", "P@1"), "omit --measures"),
        (("--llm", "recorded:sample", "--repeats", "2"), "omit --repeats"),
    ],
)
def test_a_recording_scores_nothing(record, refused, tmp_path, options, told):
    assert told in refused(record(tmp_path / "mine.jsonl", *options))
    assert not (tmp_path / "mine.jsonl").exists()


def test_a_simulation_prints_its_table_folders_and_ledger(call, sample_index, tmp_path):
    given = ("--users", "sample", *PLAYED, "--index", sample_index, "--show-persona")
    done = call("simulate", "raw", *given, "--out", tmp_path / "sims")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split()[:2] == ["raw", "5"]
    assert f"Sessions: one folder for each system in {tmp_path / 'sims'}" in " ".join(
        done.stdout.split()
    )
    assert (tmp_path / "sims" / "raw" / "log.jsonl").is_file()
    other = call("simulate", "raw", *given, "--out", tmp_path / "sims", "--users-by", "track")
    assert other.exit_code == 2
    assert "users_by was 'need', now 'track'" in " ".join(other.stderr.split())


def test_a_plan_of_a_simulation_plays_nothing(call, sample_index, tmp_path):
    given = ("--users", "sample", *PLAYED, "--index", sample_index, "--show-persona")
    done = call("simulate", "raw", *given, "--out", tmp_path / "sims", "--plan")
    assert done.exit_code == 0, done.output
    assert "simulate_user" in done.stdout
    assert not (tmp_path / "sims" / "raw").exists()
