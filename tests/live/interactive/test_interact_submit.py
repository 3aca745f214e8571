"""The submission of an interactive run."""

import json

import pytest
from click.testing import CliRunner
from test_interact import Model, play
from track_server import Track

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.interactive.submission import write_interactive
from pyterrier_ikat.submit import RefusedError


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "run"
    play(Track(), folder, description="Ours.")
    return folder


def test_the_command_writes_what_the_server_dumped(finished, tmp_path):
    out = tmp_path / "mine.json"
    done = CliRunner().invoke(main, ["submit", str(finished), "--run-id", "mine", "--run-type", "interactive", "--out", str(out)])
    assert (done.exit_code, done.output) == (0, f"{out}\n")
    ours, theirs = (json.loads(path.read_text()) for path in (out, finished / "dump.json"))
    assert [one["metadata"] for one in ours] == [one["metadata"] for one in theirs]
    assert ours == theirs
    checked = CliRunner().invoke(main, ["validate", str(out), "--dataset", "ikat:sample"])
    assert checked.output.startswith("error: this is an interactive run: the track's server checked each response")
    assert (checked.exit_code, len(checked.output.splitlines())) == (1, 2)
    assert [one["metadata"]["topic_id"] for one in ours] == ["1-1_0", "1-1_1", "1-1_2", "2-1_0", "1-2_0", "1-2_1"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"run_id": "other"}, "the run id of .* is mine, not other"),
        ({"run_type": "automatic"}, "the run type of .* is interactive, not automatic"),
        ({"team": "team-b"}, "the team of .* is team-a, not team-b"),
    ],
)
def test_another_run_type_or_team_is_refused(finished, tmp_path, given, told):
    with pytest.raises(UsageError, match=told):
        write_interactive(finished, tmp_path / "mine.json", **{"run_id": "mine", **given})


def test_a_debug_run_is_refused(tmp_path):
    play(Track(), tmp_path / "run", debug=True)
    with pytest.raises(UsageError, match="is a debug run, which is never assessed"):
        write_interactive(tmp_path / "run", tmp_path / "mine.json", run_id="mine")


def test_an_unfinished_run_is_warned_of(tmp_path):
    with pytest.raises(ikat.IkatError, match="1-1_3"):
        play(Track(), tmp_path / "run", Model(lambda number: "Yes." if number < 3 else f"{1 / 0}"))
    found = write_interactive(tmp_path / "run", tmp_path / "mine.json", run_id="mine")
    assert [problem.message.split(",")[0] for problem in found] == [
        "the conversation 1-1 has not ended",
        "the log was not compared with the server's dump: run the same `ikat interact` again",
    ]


def test_a_response_that_breaks_a_rule_is_refused_and_named(finished, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = (finished / "log.jsonl").read_text().replace("Answer 2.", "word " * 251).replace('00000:1"', '00000:1 x"')
    (folder / "log.jsonl").write_text(lines)
    with pytest.raises(RefusedError) as raised:
        write_interactive(folder, tmp_path / "mine.json", run_id="mine")
    assert "error: turn 1-1_1, responses[0].text: 251 tokens, 250 are allowed" in str(raised.value)
    assert "is not a passage id" in str(raised.value)
    assert not (tmp_path / "mine.json").exists()


def test_a_folder_without_a_log_is_said(tmp_path):
    with pytest.raises(ikat.DataError, match="log.jsonl does not begin with the description"):
        write_interactive(tmp_path, tmp_path / "mine.json", run_id="mine")
