"""Reports for AutoJudge: each sentence with its citations, in the form that its library reads."""

import pandas as pd
import pytest
from click.testing import CliRunner
from two_turns import read_lines, write_lines

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import write_reports

TURNS = ["9-1_1", "9-1_2"]


@pytest.fixture
def run(tmp_path):
    """The run of a system that cites, on two turns."""
    topics = pd.DataFrame({"qid": TURNS, "query": "Walk?", "qutterance": "Walk?"})
    passages = pd.DataFrame(
        {"docno": ["d0", "d1"], "text": ["Legs.", "Rest."], "rank": [0, 1], "score": [2.0, 1.0]}
    )
    found = topics.merge(passages, how="cross")

    class Model:
        def generate(self, chats):
            return ["Walk more [2]. Rest well [1][2]. Thát is all."] * len(chats)

    made = ikat.Respond(ikat.llm(Model()), cite=True)(found)
    RunFolder(tmp_path / "run").write(topics, made, pd.DataFrame(), pd.DataFrame(), {})
    return RunFolder(tmp_path / "run")


def test_each_sentence_has_its_citations_and_references_have_all(run, tmp_path):
    out = tmp_path / "r.jsonl"
    submit = ["submit", str(run.path), "--dataset", "ikat:2023", "--run-type", "autojudge"]
    names = ["--run-id", "walks", "--team", "ours"]
    done = CliRunner().invoke(main, [*submit, *names, "--out", str(out)])
    assert done.exit_code == 0, done.output
    said = [("Walk more.", ["d1"]), ("Rest well.", ["d0", "d1"]), ("Thát is all.", [])]
    for qid, report in zip(TURNS, read_lines(out), strict=True):
        assert list(report) == ["metadata", "responses", "references"]
        assert report["metadata"] == {"team_id": "ours", "run_id": "walks", "topic_id": qid}
        assert [(one["text"], one["citations"]) for one in report["responses"]] == said
        assert report["references"] == ["d1", "d0"]
    refused = CliRunner().invoke(main, [*submit, "--out", "r.jsonl"])
    assert refused.exit_code == 2
    assert "give --run-id and --team" in refused.output


def test_an_edited_response_is_reported_as_edited(run, tmp_path):
    first, second = read_lines(run.path / "turns.jsonl")
    first["response"] = "Edited. By hand."
    second["response"] = ""
    write_lines(run.path / "turns.jsonl", [first])
    write_reports(run, tmp_path / "r.jsonl", run_id="walks", team="ours")
    [report] = read_lines(tmp_path / "r.jsonl")
    assert report["responses"] == [
        {"text": "Edited.", "citations": []},
        {"text": "By hand.", "citations": []},
    ]
    assert report["references"] == []
    write_lines(run.path / "turns.jsonl", [first, second])
    with pytest.raises(UsageError, match="no response for 9-1_2"):
        write_reports(run, tmp_path / "none.jsonl", run_id="walks", team="ours")
    assert not (tmp_path / "none.jsonl").exists()


def test_a_response_is_reported_with_what_it_cites(run, tmp_path):
    """Line breaks between its sentences don't part it from its citations."""
    turns = read_lines(run.path / "turns.jsonl")
    turns[0]["response"] = turns[0]["response"].replace(". ", ".\n\n")
    del turns[1]["qcitations"]
    write_lines(run.path / "turns.jsonl", turns)
    write_reports(run, tmp_path / "r.jsonl", run_id="walks", team="ours")
    assert "Thát" in (tmp_path / "r.jsonl").read_text(encoding="utf-8")
    first, second = read_lines(tmp_path / "r.jsonl")
    assert [part["citations"] for part in first["responses"]] == [["d1"], ["d0", "d1"], []]
    assert first["references"] == ["d1", "d0"]
    assert [part["citations"] for part in second["responses"]] == [[], [], []]
    assert second["references"] == []


@pytest.mark.real_data
def test_real_responses_of_the_track_are_reports(ikat_data, tmp_path):
    """The 79 turns that one of the track's real runs of 2024 answered."""
    data = ikat.dataset("ikat:2024")
    said = data.get_responses()
    of_run = said[said["run"] == said["run"].iloc[0]]
    topics = data.get_topics()
    topics = topics[topics["qid"].isin(of_run["qid"])]
    made = topics.merge(of_run[["qid", "qanswer"]], on="qid")
    made = made.assign(docno="d", rank=0, score=1.0, used=True)
    RunFolder(tmp_path / "run").write(topics, made, pd.DataFrame(), pd.DataFrame(), {})
    write_reports(RunFolder(tmp_path / "run"), tmp_path / "r.jsonl", run_id="real", team="theirs")
    found = {}
    for report in read_lines(tmp_path / "r.jsonl"):
        text = " ".join(part["text"] for part in report["responses"])
        found[report["metadata"]["topic_id"]] = text.split()
    wanted = dict(zip(of_run["qid"], of_run["qanswer"].str.split(), strict=True))
    assert found == wanted
