"""Submissions are written from runs of two turns of our own, in every year's format, or refused."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from two_turns import (
    IDS,
    Data,
    made_run,
    read_lines,
    text_of,
    valid,
    write_lines,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import RefusedError, read_submission, validate, write_submission
from pyterrier_ikat.submit.submissions import ResponseCutWarning, UncitedWarning, lower_score

HEADER = {2023: {}, 2024: {}, 2025: {"team": "t"}}


def write(run, year, path, **header):
    header = {"run_id": "mine", "run_type": "automatic", **HEADER[year], **header}
    return write_submission(run, Data(year), path, **header)


def edit_turns(run, number, **fields):
    """Change the line of a turn; a field that becomes ``...`` goes."""
    path = run.path / "turns.jsonl"
    turns = read_lines(path)
    for name, value in fields.items():
        if value is ...:
            del turns[number][name]
        else:
            turns[number][name] = value
    write_lines(path, turns)


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_all_that_is_written_is_read_back(tmp_path, year):
    chosen = [("2", 0.5), ("1", 0.25)]
    run = made_run(tmp_path / "mine", Data(year), qstatements=[chosen] * 6)
    assert write(run, year, tmp_path / "out") == validate(tmp_path / "out", Data(year)) == []
    read = read_submission(tmp_path / "out", Data(year))
    team = HEADER[year].get("team")
    assert (read.year, read.run_id, read.run_type, read.team) == (year, "mine", "automatic", team)
    results = read.results[["qid", "docno", "score", "rank"]]
    pd.testing.assert_frame_equal(results, run.results(), check_dtype=False)
    assert read.results["used"].tolist() == [True, False, False] * 2
    assert read.turns["qid"].tolist() == Data(year).get_topics()["qid"].tolist()
    assert read.turns["qanswer"].tolist() == ["Yes."] * 2
    scored = chosen if year == 2023 else [("2", 2.0), ("1", 1.0)]
    assert read.turns["qstatements"].tolist() == [scored] * 2


@pytest.mark.parametrize(
    ("year", "run_types"),
    [
        (2023, ["automatic", "manual"]),
        (2024, ["automatic", "manual", "only_response"]),
        (2025, ["automatic", "generation-only", "manual"]),
    ],
)
def test_each_year_has_its_run_types(tmp_path, year, run_types):
    run = made_run(tmp_path / "mine", Data(year))
    for run_type in run_types:
        write(run, year, tmp_path / "out", run_type=run_type)
        assert read_submission(tmp_path / "out").run_type == run_type
    for run_type in {"only_response", "generation-only", "lucky"} - set(run_types):
        with pytest.raises(UsageError, match=f"'{run_type}' is none of {year}"):
            write(run, year, tmp_path / "out", run_type=run_type)


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


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_each_passage_that_a_response_rests_on_is_used(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year))
    edit_turns(run, 0, used=[IDS[2], IDS[0]])
    write(run, year, tmp_path / "out")
    used = read_submission(tmp_path / "out").results["used"].tolist()
    assert used == [True, False, True, True, False, False]


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_turn_whose_response_uses_no_passage_marks_none(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year))
    turns = read_lines(run.path / "turns.jsonl")
    turns[1]["used"] = []
    write_lines(run.path / "turns.jsonl", turns)
    with pytest.raises(RefusedError, match="no passage is marked as used"):
        write_submission(run, Data(year), tmp_path / "x", run_id="x", run_type="automatic")


def test_the_sample_is_submitted_like_2023(tmp_path):
    data = ikat.dataset("ikat:sample")
    topics = data.get_topics()
    run = RunFolder(tmp_path / "mine")
    found = topics.assign(docno="a:0", score=1.5, rank=0, used=True, qanswer="Yes.")
    run.write(topics, found, pd.DataFrame(), pd.DataFrame(), {})
    write_submission(run, data, tmp_path / "out", run_id="mine", run_type="manual")
    assert read_submission(tmp_path / "out").year == 2023


def test_advice_on_submissions_is_for_python_or_for_commands(tmp_path):
    data = Data(2024)
    without_responses = RunFolder(tmp_path / "silent")
    topics = data.get_topics()
    found = topics.assign(docno="a", score=1.0, rank=0)
    without_responses.write(topics, found, pd.DataFrame(), pd.DataFrame(), {})
    of_2023 = tmp_path / "of_2023"
    deep = tmp_path / "deep"
    of_2023.write_text(text_of(valid(2023)))
    document = valid(2024)
    passages = [{"id": f"clueweb22-en0000-00-00000:{n}", "score": -n} for n in range(1001)]
    document["turns"][0]["responses"][0]["passage_provenance"] = passages
    deep.write_text(text_of(document))

    def messages():
        with pytest.raises(UsageError) as silent:
            write(without_responses, 2024, tmp_path / "out")
        with pytest.raises(UsageError) as without_year:
            validate(deep, ikat.dataset("cast:2019"))
        [other_year] = validate(of_2023, data)
        [too_deep] = [found.message for found in validate(deep, data) if "1001" in found.message]
        return str(silent.value), str(without_year.value), other_year.message, too_deep

    silent, without_year, other_year, too_deep = messages()
    assert silent.endswith("(such as rtg, or any system >> ikat.Respond(llm))")
    assert without_year.endswith("or take write_reports, which writes reports on any dataset")
    assert 'give ikat.dataset("ikat:2023"), or write it in the format of 2024' in other_year
    assert too_deep.endswith("1000 are allowed: cut the ranking (% 1000)")
    with commands_advised():
        silent, without_year, other_year, too_deep = messages()
    assert silent.endswith("(such as `ikat run rtg ...`)")
    instead = "or take --run-type autojudge, which writes reports on any dataset"
    assert without_year.endswith(instead)
    assert "give --dataset ikat:2023, or write it in the format of 2024" in other_year
    assert too_deep.endswith("1000 are allowed: cut the ranking")


# Scores


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


def test_scores_are_written_as_32_bit_readers_read_them(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023), scores=(0.7, 0.3, 0.1))
    write_submission(run, Data(2023), tmp_path / "out", run_id="x", run_type="automatic")
    written = json.loads((tmp_path / "out").read_text())["turns"][0]["responses"][0]
    scores = [passage["score"] for passage in written["passage_provenance"]]
    assert scores == [float(np.float32(score)) for score in (0.7, 0.3, 0.1)]


@pytest.mark.parametrize(
    ("score", "before", "step", "expected"),
    [
        (1.0, 2.0, 0.0, 1.0),
        (2.0, 2.0, 0.0, float(np.nextafter(np.float32(2), np.float32(0)))),
        (3.0, 2.0, 0.5, 1.5),
        (2.0, 2.0, 1e-9, float(np.nextafter(np.float32(2), np.float32(0)))),
        (-1.0, -1.0, 0.0, float(np.nextafter(np.float32(-1), np.float32(-2)))),
    ],
)
def test_a_score_is_lowered_only_where_it_must(score, before, step, expected):
    assert lower_score(score, before, float, step) == expected


def test_a_score_that_a_tool_reads_as_equal_is_lowered():
    assert lower_score(0.9999999, 1.0, lambda score: round(score, 3), 0.01) == pytest.approx(0.99)


def test_close_scores_of_statements_stay_as_they_are(tmp_path):
    chosen = [("2", 0.5), ("1", 0.4999999)]
    run = made_run(tmp_path / "mine", Data(2023), qstatements=[chosen] * 6)
    write_submission(run, Data(2023), tmp_path / "out", run_id="x", run_type="automatic")
    assert read_submission(tmp_path / "out").turns["qstatements"].tolist() == [chosen] * 2


# Statements


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


def test_new_words_of_2025_are_submitted_unknown_numbers_not(tmp_path):
    run = made_run(tmp_path / "mine", Data(2025), qstatements=[[("I ski.", 1.0), ("1", 0.5)]] * 6)
    found = write(run, 2025, tmp_path / "out")
    assert {problem.severity for problem in found} == {"warning"}
    read = read_submission(tmp_path / "out", Data(2025))
    assert read.turns["qstatements"].tolist() == [[("I ski.", 2.0), ("1", 1.0)]] * 2
    unknown = made_run(tmp_path / "other", Data(2025), qstatements=[[("99", 1.0)]] * 6)
    with pytest.raises(DataError, match="turn 9-1_1: the user has no statement 99"):
        write(unknown, 2025, tmp_path / "out")


def test_a_statement_the_user_learned_as_a_number_is_its_number(tmp_path):
    """The topics' statement 1 is chosen, whatever the turn calls so."""
    learned = {"1": "not shown", "3": "2"}
    columns = {"qptkb": [learned] * 6, "qstatements": [[("3", 1.0), ("1", 0.5)]] * 6}
    write(made_run(tmp_path / "mine", Data(2025), **columns), 2025, tmp_path / "out")
    line = json.loads((tmp_path / "out").read_text().splitlines()[0])
    assert line["responses"][0]["ptkb_provenance"] == ["I hate coffee.", "I drink tea."]


def test_statements_with_the_score_0_are_parted(tmp_path):
    chosen = [("2", 0.0), ("1", 0.0)]
    run = made_run(tmp_path / "mine", Data(2023), qstatements=[chosen] * 6)
    assert write(run, 2023, tmp_path / "out") == []
    first, second = read_submission(tmp_path / "out").turns["qstatements"][0]
    assert (first, second[0]) == (("2", 0.0), "1")
    assert second[1] < 0


def test_a_user_without_statements_is_submitted(tmp_path):
    data = Data(2025, ptkb={})
    run = made_run(tmp_path / "mine", data)
    header = {"run_id": "mine", "run_type": "automatic", "team": "t"}
    assert write_submission(run, data, tmp_path / "out", **header) == []


def test_an_id_of_2024_that_is_no_number_is_refused(tmp_path):
    run = made_run(tmp_path / "mine", Data(2024), qstatements=[[("x", 1.0)]] * 6)
    with pytest.raises(RefusedError, match="a whole number"):
        write(run, 2024, tmp_path / "out")


@pytest.mark.parametrize("odd", ["\u0661", "x1"])
def test_an_id_that_is_no_number_is_not_made_one(tmp_path, odd):
    run = made_run(tmp_path / "mine", Data(2024), qstatements=[[(odd, 1.0)]] * 6)
    with pytest.raises(RefusedError, match="a whole number"):
        write_submission(run, Data(2024), tmp_path / "out", run_id="x", run_type="automatic")


# Responses


def test_a_response_of_250_words_stays_without_a_warning(tmp_path):
    response = "tea " * 249 + "tea."
    run = made_run(tmp_path / "mine", Data(2023))
    write_lines(run.path / "turns.jsonl", [{**turn, "response": response} for turn in run.turns()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_submission(run, Data(2023), tmp_path / "submitted", run_id="x", run_type="automatic")
    assert read_submission(tmp_path / "submitted").turns["qanswer"].tolist() == [response] * 2


@pytest.mark.parametrize("year", [2023, 2025])
def test_a_longer_response_is_cut_at_a_sentence_and_told(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year))
    edit_turns(run, 1, response="Oats are cheap here. " * 63)  # 252 words
    with pytest.warns(ResponseCutWarning, match=r"1 response of more than 250 words .*: 9-1_2$"):
        write(run, year, tmp_path / "out")
    first, second = read_submission(tmp_path / "out").turns["qanswer"]
    assert (first, second) == ("Yes.", ("Oats are cheap here. " * 62).strip())


def test_responses_that_cite_nothing_are_told(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    cited = [{"sentence": "Yes.", "docnos": [IDS[0]], "unknown": []}]
    none = [{"sentence": "Yes.", "docnos": [], "unknown": [7]}]
    edit_turns(run, 0, qcitations=none + cited)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(run, 2023, tmp_path / "out")
    edit_turns(run, 1, qcitations=none)
    with pytest.warns(UncitedWarning, match=r"1 of 2 responses without a citation \(9-1_2\)"):
        write(run, 2023, tmp_path / "out")


def test_only_responses_that_should_cite_are_counted(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    for entries in ([{"sentence": "Yes.", "docnos": [], "unknown": [7]}], []):
        edit_turns(run, 1, qcitations=entries)
        with pytest.warns(UncitedWarning, match=r"^1 of 1 response without .* \(9-1_2\)"):
            write(run, 2023, tmp_path / "out")


# What is refused


def test_a_run_that_wrote_no_responses_is_not_submitted(tmp_path):
    run = made_run(tmp_path / "mine", Data(2024), used=None, qanswer="A draft.")
    for number in (0, 1):
        edit_turns(run, number, used=..., response=...)
    with pytest.raises(UsageError, match="has no responses"):
        write(run, 2024, tmp_path / "out")
    edit_turns(run, 1, used=[IDS[0]], response="Yes.")
    with pytest.raises(RefusedError, match="the response is empty") as refused:
        write(run, 2024, tmp_path / "out")
    errors = [problem for problem in refused.value.problems if problem.severity == "error"]
    assert {problem.turn for problem in errors} == {"0_1"}


def test_a_refused_submission_leaves_the_old_file(tmp_path):
    run = made_run(tmp_path / "mine", Data(2024), qstatements=[[("99", 1.0)]] * 6)
    (tmp_path / "out").write_text("old")
    with pytest.raises(RefusedError, match='no statement "99"'):
        write(run, 2024, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_a_turn_that_the_topics_lack_is_refused_without_passages(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    with (run.path / "turns.jsonl").open("a") as file:
        file.write('{"qid": "8_8", "response": "Yes.", "used": []}\n')
    with pytest.raises(DataError, match=r"the run has 1 turn that ikat:2023 lacks \(8_8\)"):
        write(run, 2023, tmp_path / "out")


def test_a_question_is_compared_behind_a_turn_without_one(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    edit_turns(run, 0, qutterance=...)
    edit_turns(run, 1, qutterance="Cocoa?")
    with pytest.raises(UsageError, match=r"asks 'Cocoa\?' in turn 9-1_2, ikat:2023 'Coffee\?'"):
        write(run, 2023, tmp_path / "out")


@pytest.mark.parametrize(("year", "run_type"), [(2024, "only_response"), (2025, "generation-only")])
def test_manual_rewrites_forbid_the_type_automatic_alone(tmp_path, year, run_type):
    run = made_run(tmp_path / "mine", Data(year), qresolved="by hand")
    write(run, year, tmp_path / "out", run_type=run_type)
    assert read_submission(tmp_path / "out").run_type == run_type


def test_where_nothing_can_be_written_is_told(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a folder"):
        write(run, 2023, tmp_path)
    with pytest.raises(UsageError, match="can't be written"):
        write(run, 2023, tmp_path / "file" / "out")


def test_a_run_of_fewer_turns_is_refused_one_of_them_is_not(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    edit_turns(run, 1, qutterance=...)  # a folder of frames without utterances
    write(run, 2023, tmp_path / "out")
    path = run.path / "turns.jsonl"
    path.write_text(path.read_text().splitlines()[0])
    with pytest.raises(RefusedError, match=r"turn 9-1_2, responses\[0\].text"):
        write(run, 2023, tmp_path / "other")


def test_a_dataset_of_no_year_has_no_format(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023))
    with pytest.raises(UsageError, match="is of no year of the track"):
        write_submission(run, Data(None), tmp_path / "out", run_id="x", run_type="automatic")


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


def test_errors_of_a_refused_file_are_listed_and_all_kept(tmp_path):
    run = made_run(tmp_path / "other", Data(2024), qstatements=[[("7", 1.0)]] * 6)
    path = run.path / "turns.jsonl"
    turns = read_lines(path)
    turns[1]["qstatements"] = []
    write_lines(path, turns)
    with pytest.raises(RefusedError) as caught:
        write_submission(run, Data(2024), tmp_path / "out", run_id="x", run_type="automatic")
    severities = [problem.severity for problem in caught.value.problems]
    assert sorted(severities) == ["error", "warning"]
    assert str(caught.value).startswith(f"{tmp_path / 'out'} was not written, 1 error:\n")
    assert "warning" not in str(caught.value)
