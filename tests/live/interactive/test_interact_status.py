"""Where a run stands, how the simulated users graded it, and what the organisers keep of it."""

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from test_interact import ADDRESS, AT_ONCE, Model, Three, play
from track_server import NEW, TOKEN, InProcess, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.live.interactive import client, interactive_status
from pyterrier_ikat.live.interactive.server_answers import read_dump
from pyterrier_ikat.runs import Log

TOPICS = (("1-1", "ann", ("Which tea?", "And mint?", "And sage?")), ("2-1", "bob", ("Where may I walk?",)))


class Graded(Track):
    """Grades each response by its place, and stores the next question as its rubric, as the released server does."""

    def dump(self, run):
        lines = [json.loads(line) for line in super().dump(run).split("\n")]
        for place, (line, following) in enumerate(zip(lines, [*lines[1:], lines[-1]], strict=True)):
            said = line["responses"][0]
            if said["assistant_text"] is not None:
                said["user_meta"] = {"rubric_score": place % 6, "rubric": following["responses"][0]["user_utterance"]}
        return "\n".join(map(json.dumps, lines))


@pytest.fixture
def asked(monkeypatch):
    """Puts a track behind the address, for calls that only look."""
    monkeypatch.setenv("IKAT_TOKEN", TOKEN)
    make = client.TrackServer.__init__

    def of(track):
        def mounted(self, *args, **kwargs):
            make(self, *args, **kwargs | {"retry": AT_ONCE})
            self.session.mount("http://", InProcess(track))

        monkeypatch.setattr(client.TrackServer, "__init__", mounted)
        return track

    return of


def facts(folder, address=None):
    table, run = interactive_status(folder, address)
    return dict(table.frame.itertuples(index=False, name=None)), run


def test_a_grade_has_the_rubric_of_the_entry_before_it(ikat_data):
    path = Path(ikat_data).parent / "simulated-user" / "dump-of-the-server-of-2026-04.json"
    found = [(entry.grade, entry.rubric[:22]) for entry in read_dump(json.loads(path.read_text()))]
    food, fruits = "What  food is good for", "What are some fruits g"
    assert found[:6] == [(1, ""), (5, food), (1, fruits), (1, fruits), (4, "What are some good hab"), (4, "Why does acid reflux h")]
    assert found[6:] == [(None, "")] * 4  # the server's own users grade nothing
    older = json.loads(path.with_name("dump-of-the-server-of-2026-02.json").read_text())
    assert [(entry.grade, entry.rubric == entry.utterance.removeprefix("Tell me, ")) for entry in read_dump(older)] == [
        (grade, True) for grade in (5, 5, 5, 0, 4, 0)
    ]


def test_grades_are_in_the_log_the_table_and_the_report_and_noted_once(tmp_path):
    track, model = Graded(TOPICS, form=NEW), Model()
    run = play(track, tmp_path / "run", model)
    table = run.latency().frame
    assert table["grade"].tolist() == [0, 1, 2, 4]
    assert table["rubric"].tolist() == ["", "And mint?", "And sage?", ""]
    size = (tmp_path / "run" / "log.jsonl").stat().st_size
    assert play(track, tmp_path / "run", model).finished
    assert (tmp_path / "run" / "log.jsonl").stat().st_size == size
    assert [one.grades for one in Log(tmp_path / "run").dialogues()] == [
        {1: (0, ""), 2: (1, "And mint?"), 3: (2, "And sage?")},
        {1: (4, "")},
    ]
    page = ikat.report([tmp_path / "run"]).html
    assert "the user&#39;s grade: 1 of 5 for: And mint?" in page
    assert "mean grade 1.00 of 5" in page


def test_the_organisers_keep_what_a_response_cost_rests_on_and_was_made_with(tmp_path):
    track = Track(TOPICS, form=NEW)
    cites = Three() >> ikat.Respond(ikat.llm(Model(lambda number: f"Tea {number} [2]. Or [9].")))
    play(track, tmp_path / "run", system=cites)
    run = track.runs["mine"]
    assert run.about["extra"] == {"system": "mine", "models": ["Model"], "package": ikat.__version__, "track_persona": False}
    kept = run.dumped[0]["meta"]
    assert (kept["llm_calls"], kept["cost_usd"], kept["unknown_citations"]) == (1, None, [9])
    assert kept["cited"] == ["clueweb22-en0000-00-00000:1"]
    assert len(run.dumped[0]["citations"]) == 3  # the ranking, which is assessed
    assert run.dumped[0]["text"] == "Tea 1. Or."


def test_a_look_at_a_run_starts_nothing(tmp_path, asked):
    track, folder = Graded(TOPICS, form=NEW), tmp_path / "run"
    play(track, folder, sessions=1)
    before, calls = sorted((path.name, path.read_bytes()) for path in folder.iterdir()), len(track.calls)
    found, _ = facts(folder)
    assert len(track.calls) == calls
    assert (found["run"], found["conversations"], found["responses sent"]) == ("mine of team team-a", "1 ended", "3")
    assert found["stands"] == "1-1 has ended, and the next topic is to be asked for"
    asked(track)
    found, run = facts(folder, ADDRESS)
    assert track.calls[calls:] == ["/auth/verify", "/budget/check", "/run/status", "/run/dump"]
    assert (found["left of the budget"], found["at the server"]) == ("1 run", "active: 1 topic begun or done, 1 open")
    assert found["the users' grades"] == "1.00 of 5 in the mean, of 3 responses"
    assert run.latency().frame["grade"].tolist() == [0, 1, 2]
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before


def test_a_run_that_was_stopped_in_the_middle_says_where(tmp_path):
    class Stops(Model):
        def generate(self, chats):
            if len(self.asked) == 2:
                raise KeyboardInterrupt
            return super().generate(chats)

    with pytest.raises(KeyboardInterrupt):
        play(Track(TOPICS, form=NEW), tmp_path / "run", Stops())
    found, run = facts(tmp_path / "run")
    assert (found["conversations"], found["stands"]) == ("0 ended, 1 under way", "the user waits for the response to 1-1_3")
    assert not run.finished


def test_the_command_looks_at_a_folder_and_names_what_else_it_needs(tmp_path):
    play(Track(TOPICS), tmp_path / "run")
    shown = CliRunner().invoke(main, ["interact", "--status", str(tmp_path / "run")])
    assert shown.exit_code == 0
    assert "finished" in shown.output
    assert "2 conversations with 4 turns" in shown.output
    lacking = CliRunner().invoke(main, ["interact", ADDRESS, "--run-id", "mine"])
    assert lacking.exit_code != 0
    assert "METHOD is missing" in str(lacking.output) + str(lacking.exception)
    ikat.Chat(ikat.Answer(ikat.llm(Model())), save_to=tmp_path / "chat").say("Hi?")
    with pytest.raises(ikat.UsageError, match="is a chat, and not an interactive run"):
        interactive_status(tmp_path / "chat")
    assert isinstance(interactive_status(tmp_path / "run")[0].frame, pd.DataFrame)
