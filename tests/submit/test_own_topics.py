"""What is submitted and what is refused, on two turns of our own, without files of the track."""

import json
import warnings

import pytest
from two_turns import IDS, Data, made_run, read_lines, text_of, valid, write_lines

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.submit import RefusedError, read_submission, write_submission


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_run_of_other_questions_is_refused(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year, said=("Tea?", "Cocoa?")))
    with pytest.raises(
        UsageError, match=rf"asks 'Cocoa\?' in turn .*_2, ikat:{year} 'Coffee\?': give the dataset"
    ):
        write_submission(run, Data(year), tmp_path / "submitted", run_id="x", run_type="automatic")
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize("year", [2023, 2024])
@pytest.mark.parametrize("rewritten", [1, 2])
def test_a_single_manual_rewrite_makes_a_run_manual(tmp_path, year, rewritten):
    by_hand = ["by hand"] * 3 * rewritten + [None] * 3 * (2 - rewritten)
    run = made_run(tmp_path / "mine", Data(year), qresolved=by_hand)
    with pytest.raises(UsageError, match="made with manual rewrites"):
        write_submission(run, Data(year), tmp_path / "submitted", run_id="x", run_type="automatic")
    write_submission(run, Data(year), tmp_path / "submitted", run_id="x", run_type="manual")
    assert read_submission(tmp_path / "submitted").run_type == "manual"


def test_scores_of_2025_differ_in_six_decimals(tmp_path):
    """By hand: 1/1200 and 1/1201 are both 0.000833 in six decimals."""
    run = made_run(tmp_path / "mine", Data(2025), scores=(1 / 1200, 1 / 1201, 1 / 1202))
    header = {"run_id": "x", "run_type": "automatic", "team": "t"}
    assert write_submission(run, Data(2025), tmp_path / "submitted", **header) == []
    for line in read_lines(tmp_path / "submitted"):
        references = line["references"]
        first, second, third = [round(references[docno], 6) for docno in IDS[:3]]
        assert first > second > third


def test_scores_before_2025_stay_as_they_are(tmp_path):
    """Six decimals are the format of 2025 alone."""
    run = made_run(tmp_path / "mine", Data(2024), scores=(0.5000002, 0.5000001, 0.5))
    write_submission(run, Data(2024), tmp_path / "submitted", run_id="x", run_type="automatic")
    scores = read_submission(tmp_path / "submitted").results["score"]
    assert scores.tolist() == pytest.approx([0.5000002, 0.5000001, 0.5] * 2, abs=5e-8)


def test_equal_statements_are_named_by_their_first_id(tmp_path):
    data = Data(2025, ptkb={"1": "I hate coffee.", "2": "I drink tea.", "3": "I drink tea."})
    (tmp_path / "submitted").write_text(text_of(valid(2025)))
    turns = read_submission(tmp_path / "submitted", data).turns
    assert turns["qstatements"].tolist() == [[("2", 1.0)], [("2", 1.0)]]


@pytest.mark.parametrize(
    ("year", "team", "told"),
    [(2023, "t", "asks for no team"), (2024, "t", "asks for no team"), (2025, None, "team")],
)
def test_a_team_is_named_in_2025_alone(tmp_path, year, team, told):
    run = made_run(tmp_path / "mine", Data(year))
    with pytest.raises(UsageError, match=told):
        write_submission(
            run, Data(year), tmp_path / "submitted", run_id="x", run_type="automatic", team=team
        )


def test_a_run_of_turns_that_the_topics_lack_is_refused(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    with pytest.raises(DataError, match=r"2 turns that ikat:2024 lacks \(9-1_1, 9-1_2\)"):
        write_submission(run, Data(2024), tmp_path / "submitted", run_id="x", run_type="automatic")


def test_a_response_of_250_words_stays_without_a_warning(tmp_path):
    response = "tea " * 249 + "tea."
    run = made_run(tmp_path / "mine", Data(2023))
    write_lines(run.path / "turns.jsonl", [{**turn, "response": response} for turn in run.turns()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_submission(run, Data(2023), tmp_path / "submitted", run_id="x", run_type="automatic")
    assert read_submission(tmp_path / "submitted").turns["qanswer"].tolist() == [response] * 2


def test_equal_scores_of_statements_keep_their_order(tmp_path):
    data = Data(2023, ptkb={"1": "I ski.", "2": "I drink tea.", "3": "I hate coffee."})
    chosen = [("2", 0.5), ("3", 0.5), ("1", 0.5)]
    run = made_run(tmp_path / "mine", data, qstatements=[chosen] * 6)
    write_submission(run, data, tmp_path / "submitted", run_id="x", run_type="automatic")
    for statements in read_submission(tmp_path / "submitted").turns["qstatements"]:
        assert [statement_id for statement_id, _ in statements] == ["2", "3", "1"]
        first, second, third = (score for _, score in statements)
        assert first > second > third


def test_a_learned_statement_of_2025_is_submitted_in_its_words(tmp_path):
    learned = {"1": "I drink tea.", "2": "I hate coffee.", "3": "I ski."}
    run = made_run(
        tmp_path / "mine", Data(2025), qptkb=[learned] * 6, qstatements=[[("3", 1.0)]] * 6
    )
    write_submission(
        run, Data(2025), tmp_path / "submitted", run_id="x", run_type="automatic", team="t"
    )
    turns = read_submission(tmp_path / "submitted", Data(2025)).turns
    assert turns["qstatements"].tolist() == [[("I ski.", 1.0)], [("I ski.", 1.0)]]


def test_the_scores_of_a_single_response_are_its_own(tmp_path):
    (tmp_path / "submitted").write_text(text_of(valid(2023)))
    assert read_submission(tmp_path / "submitted").results["score"].tolist() == [3.0, 2.0, 1.0] * 2


def submitted_turns(path, year):
    """The turns in the file of a submission whose run chose the second statement."""
    run = made_run(path / "mine", Data(year), qstatements=[[("2", 0.5)]] * 6)
    team = "t" if year == 2025 else None
    write_submission(
        run, Data(year), path / "submitted", run_id="x", run_type="automatic", team=team
    )
    if year == 2025:
        return read_lines(path / "submitted")
    return json.loads((path / "submitted").read_text())["turns"]


def test_a_line_of_2025_cites_what_the_response_used(tmp_path):
    for line in submitted_turns(tmp_path, 2025):
        (response,) = line["responses"]
        assert response["citations"] == {IDS[0]: 3.0}
        assert response["ptkb_provenance"] == ["I hate coffee."]
        assert line["references"] == {IDS[0]: 3.0, IDS[1]: 2.0, IDS[2]: 1.0}
        assert line["metadata"] == {"team_id": "t", "run_id": "x", "run_type": "automatic"}


@pytest.mark.parametrize(
    ("year", "statements"),
    [(2023, [{"id": "2", "text": "I hate coffee.", "score": 0.5}]), (2024, [2])],
)
def test_a_turn_before_2025_marks_what_was_used(tmp_path, year, statements):
    for turn in submitted_turns(tmp_path, year):
        (response,) = turn["responses"]
        passages = response["passage_provenance"]
        assert [(one["id"], one["score"], one["used"]) for one in passages] == [
            (IDS[0], 3.0, True),
            (IDS[1], 2.0, False),
            (IDS[2], 1.0, False),
        ]
        assert response["ptkb_provenance"] == statements


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_turn_whose_response_uses_no_passage_marks_none(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year))
    turns = read_lines(run.path / "turns.jsonl")
    turns[1]["used"] = []
    write_lines(run.path / "turns.jsonl", turns)
    with pytest.raises(RefusedError, match="no passage is marked as used"):
        write_submission(run, Data(year), tmp_path / "x", run_id="x", run_type="automatic")
