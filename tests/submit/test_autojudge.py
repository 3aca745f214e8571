"""Reports for AutoJudge: each sentence with its citations, in the form that its library reads."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

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
    found = topics.merge(
        pd.DataFrame(
            {"docno": ["d0", "d1"], "text": ["Legs.", "Rest."], "rank": [0, 1], "score": [2.0, 1.0]}
        ),
        how="cross",
    )

    class Model:
        def generate(self, chats):
            return ["Walk more [2]. Rest well [1][2]. Thát is all."] * len(chats)

    made = ikat.Respond(ikat.llm(Model()), cite=True)(found)
    RunFolder(tmp_path / "run").write(topics, made, pd.DataFrame(), pd.DataFrame(), {})
    return RunFolder(tmp_path / "run")


def reports(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_sentence_has_its_citations_and_references_have_all(run, tmp_path):
    about = (
        "--dataset",
        "ikat:2023",
        "--run-type",
        "autojudge",
        "--run-id",
        "walks",
        "--team",
        "ours",
        "--out",
        tmp_path / "r.jsonl",
    )
    done = CliRunner().invoke(main, ["submit", str(run.path), *map(str, about)])
    assert done.exit_code == 0, done.output
    said = [("Walk more.", ["d1"]), ("Rest well.", ["d0", "d1"]), ("Thát is all.", [])]
    for qid, report in zip(TURNS, reports(tmp_path / "r.jsonl"), strict=True):
        assert report["metadata"] == {"team_id": "ours", "run_id": "walks", "topic_id": qid}
        assert [(one["text"], one["citations"]) for one in report["responses"]] == said
        assert (list(report), report["references"]) == (
            ["metadata", "responses", "references"],
            ["d1", "d0"],
        )
    refused = CliRunner().invoke(
        main, ["submit", str(run.path), *map(str, about[:4]), "--out", "r.jsonl"]
    )
    assert (refused.exit_code, "give --run-id and --team" in refused.output) == (2, True)


def test_an_edited_response_is_reported_as_edited(run, tmp_path):
    first, second = (
        json.loads(line) for line in (run.path / "turns.jsonl").read_text().splitlines()
    )
    first["response"], second["response"] = "Edited. By hand.", ""
    (run.path / "turns.jsonl").write_text(json.dumps(first))
    write_reports(run, tmp_path / "r.jsonl", run_id="walks", team="ours")
    [report] = reports(tmp_path / "r.jsonl")
    assert report["responses"] == [
        {"text": "Edited.", "citations": []},
        {"text": "By hand.", "citations": []},
    ]
    assert report["references"] == []
    (run.path / "turns.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}")
    with pytest.raises(UsageError, match="no response for 9-1_2"):
        write_reports(run, tmp_path / "none.jsonl", run_id="walks", team="ours")
    assert not (tmp_path / "none.jsonl").exists()


def test_a_response_is_reported_with_what_it_cites(run, tmp_path):
    """Line breaks between its sentences don't part it from its citations."""
    lines = [json.loads(line) for line in (run.path / "turns.jsonl").read_text().splitlines()]
    lines[0]["response"] = lines[0]["response"].replace(". ", ".\n\n")
    del lines[1]["qcitations"]
    (run.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write_reports(run, tmp_path / "r.jsonl", run_id="walks", team="ours")
    assert "Thát" in (tmp_path / "r.jsonl").read_text(encoding="utf-8")
    first, second = reports(tmp_path / "r.jsonl")
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
    topics = data.get_topics()[lambda turns: turns["qid"].isin(of_run["qid"])]
    made = topics.merge(of_run[["qid", "qanswer"]], on="qid").assign(
        docno="d", rank=0, score=1.0, used=True
    )
    RunFolder(tmp_path / "run").write(topics, made, pd.DataFrame(), pd.DataFrame(), {})
    write_reports(RunFolder(tmp_path / "run"), tmp_path / "r.jsonl", run_id="real", team="theirs")
    found = {
        one["metadata"]["topic_id"]: " ".join(part["text"] for part in one["responses"])
        for one in reports(tmp_path / "r.jsonl")
    }
    assert {qid: text.split() for qid, text in found.items()} == {
        qid: text.split() for qid, text in of_run[["qid", "qanswer"]].values.tolist()
    }
