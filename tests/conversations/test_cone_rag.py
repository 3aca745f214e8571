"""CONE-RAG as parts of ikat:2024: GPT-4's labels, nuggets, answers and labels of people, responses of the track's runs."""

import json

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import nugget_agreement
from pyterrier_ikat.evaluation.nugget_labels import nugget_scores

pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.download.OtherDataWarning")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two invented turns, in the published forms."""
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    turns = [{"turn_id": n, "utterance": "Tea?", "resolved_utterance": "Tea?", "response": "Rooibos has no caffeine."} for n in (1, 2)]
    topics = [{"number": 3, "title": "t", "ptkb": {"1": "I like tea."}, "turns": turns}]
    (tmp_path / "2024_test_topics.json").write_text(json.dumps(topics))
    (tmp_path / "2024-qrels.txt").write_text("3_1 0 d1 2\n3_1 0 d2 0\n3_2 0 d1 3\n")
    folder = tmp_path / "outputs" / "cone-rag"
    folder.mkdir(parents=True)
    (folder / "llm-gpt4-pool-depth-30.txt").write_text("3_1\t0\td1 \t2\n3_1\t0\td2 \t1\n")
    nuggets = {"[1]": {"text": "No caffeine. ", "relevance": "3"}, "[2]": {"text": "Sweet", "relevance": "1"}}
    nuggets["[3]"] = nuggets["[1]"]
    (folder / "gold_nuggets_human.json").write_text(json.dumps({"3_1": nuggets}))
    said = {"3_1": {"manual": {"nuggets": {}, "response": "It has none."}}, "3_2": {"manual": {"nuggets": {}, "response": ""}}}
    (folder / "gold_response_and_nuggets_human.json").write_text(json.dumps(said))
    responses = {"3_1": {"one_run": "Rooibos has no caffeine.", "ksu": "Mint."}, "3_2": {"one_run": "Mint.", "ksu": "Mint."}}
    (folder / "automatic_responses.json").write_text(json.dumps(responses))
    (folder / "human-study-matching-labels.txt").write_text("7_3_1_1_nii-1\t1\n7_3_1_2_nii-1\t0\n8_3_1_3_nii-1\t1\n7_3_1_1_ksu-1\t0\n")
    return ikat.dataset("ikat:2024")


def call(*words):
    found = CliRunner().invoke(main, list(words))
    assert found.exit_code == 0, found.output
    return found.stdout


def test_its_parts_are_frames_of_the_usual_columns(data):
    assert data.get_qrels("gpt4").values.tolist() == [["3_1", "d1", 2], ["3_1", "d2", 1]]
    assert data.get_answers("human").values.tolist() == [["3_1", "It has none."]]
    assert data.get_answers()["gold_answer"].tolist() == ["Rooibos has no caffeine."] * 2
    nuggets = data.get_nuggets()
    assert nuggets[["qid", "nugget", "relevance", "importance"]].values.tolist() == [
        ["3_1", "No caffeine.", 3, "okay"],
        ["3_1", "Sweet", 1, "okay"],
    ]
    assert data.get_responses().query("run == 'one_run'")["qanswer"].tolist() == ["Rooibos has no caffeine.", "Mint."]
    labels = data.get_nugget_labels()
    assert labels[["run", "qid", "nugget", "label"]].values.tolist() == [
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["nii-1", "3_1", "Sweet", "not_support"],
        ["nii-1", "3_1", "No caffeine.", "support"],
        ["ksu-1", "3_1", "No caffeine.", "not_support"],
    ]
    once = labels.drop_duplicates(["run", "qid", "nugget"])
    assert nugget_agreement(once, once)["nuggets"] == 3
    with pytest.raises(UsageError, match="no answers 'best'"):
        data.get_answers("best")


def test_one_command_each_compares_judges_nuggets_and_responses(data):
    assert "2 pairs judged by both" in call("agree", "gpt4", "default", "--dataset", "ikat:2024")
    shown = call("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:2024", "--format", "csv").splitlines()
    assert shown[0] == "run,recall,turns,nuggets"
    assert [line.split(",")[0] for line in shown[1:]] == ["ksu-1", "nii-1"]
    assert float(shown[2].split(",")[1]) == pytest.approx(2 / 3)
    shown = call("evaluate", "published", "--of", "responses", "--dataset", "ikat:2024", "--format", "csv").splitlines()
    rows = {line.split(",")[0]: float(line.split(",")[2]) for line in shown[1:]}
    assert rows == {"ksu": 0.0, "one_run": 0.5}  # its first response is the gold answer, its second has no word of it


def test_a_nugget_judge_gets_the_nuggets_of_people(data, tmp_path):
    completion = '{"reason": "r", "nuggets": [1]}'
    said = {"qid": "3_1", "stage": "judge", "completion": completion, "model": "m"}
    (tmp_path / "r.jsonl").write_text(json.dumps(said))
    options = (
        "--of",
        "responses",
        "--dataset",
        "ikat:2024",
        "--judge",
        "nuggets",
        "--llm",
        f"recorded:{tmp_path / 'r.jsonl'}",
        "--format",
        "csv",
    )
    first = call("evaluate", "published", *options).splitlines()[1].split(",")
    assert first[:5] == ["ksu", "nugget recall", "recorded", "0.5", "1"]


def test_what_has_no_published_runs_says_so(data, tmp_path):
    for of in ("responses", "nuggets"):
        found = CliRunner().invoke(main, ["evaluate", "published", "--of", of, "--dataset", "ikat:sample"])
        assert found.exit_code == 2
        assert "ikat:sample has no published runs: give RUNs, or --dataset ikat:2024" in " ".join(found.output.split())
    (tmp_path / "outputs" / "cone-rag" / "human-study-matching-labels.txt").write_text("7_3_1\t1\n")
    with pytest.raises(DataError, match="line 1 is not a label of CONE-RAG"):
        data.get_nugget_labels()


@pytest.mark.real_data
def test_the_real_files_give_the_published_counts():
    data = ikat.dataset("ikat:2024")
    found = ikat.agreement(data.get_qrels("gpt4"), data.get_qrels())
    same = sum(found.confusion.loc[label, label] for label in range(5))
    assert (found.pairs, round(same / found.pairs, 4), round(found.kappa, 4)) == (8103, 0.4384, 0.2401)
    assert (round(found.binary, 4), round(found.binary_kappa, 4)) == (0.6607, 0.3595)
    assert len(data.get_qrels("gpt4")) == 32_999
    assert (len(data.get_nuggets()), data.get_nuggets()["qid"].nunique()) == (2_279 - 74, 78)  # of 116 turns 38 have none
    assert len(data.get_answers("human")) == 62
    assert (data.get_responses()["run"].nunique(), data.get_responses()["qid"].nunique()) == (19, 79)
    labels = data.get_nugget_labels()
    assert (len(labels), labels["run"].nunique(), labels["qid"].nunique(), labels["nugget"].isna().sum()) == (1_086, 6, 25, 0)
    assert len(nugget_scores(labels[labels["run"] == "nii-1"].drop(columns="nugget"))) == 25
