"""All problems of a file, to the last one, and small differences of formats and scores."""

import copy
import json
from string import ascii_lowercase

import numpy as np
import pytest
from two_turns import (
    DATA,
    IDS,
    Data,
    made_run,
    read_lines,
    text_of,
    turns_of,
    valid,
    write_lines,
)

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.submit import RefusedError, read_submission, validate, write_submission
from pyterrier_ikat.submit.checks import find_statement_id
from pyterrier_ikat.submit.problem import (
    Place,
    Problem,
    format_problems,
    list_errors,
    write_checked,
)
from pyterrier_ikat.submit.submissions import lower_score, read_ranking

PASSAGES = "responses[0].passage_provenance"
STATEMENTS = "responses[0].ptkb_provenance"


def problems_of(tmp_path, year, document, data=None):
    """Severity, turn number and field of each problem, in their order."""
    (tmp_path / "run").write_text(text_of(document))
    found = []
    for problem in validate(tmp_path / "run", data or DATA[year]):
        turn = problem.turn.rpartition("_")[2]
        found.append((problem.severity, turn, problem.field, problem.message))
    return found


def places(found):
    return [(severity, turn, field) for severity, turn, field, _ in found]


def passages_of(document):
    return turns_of(document)[0]["responses"][0]["passage_provenance"]


def test_an_unknown_turn_is_one_problem_statements_included(tmp_path):
    document = valid(2023)
    document["turns"][0]["turn_id"] = "77_9"
    turns_of(document)[0]["responses"][0]["ptkb_provenance"][0]["text"] = "I ski."
    found = problems_of(tmp_path, 2023, document)
    assert places(found) == [("error", "9", "turn_id"), ("error", "1", "")]


def test_a_turn_that_is_there_twice_is_told_once(tmp_path):
    document = valid(2023)
    document["turns"][0]["responses"][0]["text"] = " "
    document["turns"] += [copy.deepcopy(document["turns"][0])] * 2
    assert places(problems_of(tmp_path, 2023, document)) == [
        ("error", "1", "turn_id"),
        ("error", "1", "responses[0].text"),
    ]


@pytest.mark.parametrize(("year", "where"), [(2023, "run_name"), (2025, "metadata.run_id")])
def test_a_head_that_cannot_be_read_has_no_further_problem(tmp_path, year, where):
    document = valid(year)
    if year == 2025:
        for line in document:
            line["metadata"]["run_id"] = 7
    else:
        del document["run_name"]
        document["run_type"] = "lucky"
    assert {field for _, _, field in places(problems_of(tmp_path, year, document))} == {where}


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_names_are_told_at_their_fields(tmp_path, year):
    document = valid(year)
    if year == 2025:
        for line in document:
            line["metadata"] |= {"run_id": "my run", "team_id": "", "run_type": "x"}
        fields = ["metadata.run_id", "metadata.team_id", "metadata.run_type"]
    else:
        document |= {"run_name": "my run", "run_type": "x"}
        fields = ["run_name", "run_type"]
    assert [field for _, _, field in places(problems_of(tmp_path, year, document))] == fields


def test_a_rank_is_above_all_before_it(tmp_path):
    document = valid(2023)
    responses = document["turns"][0]["responses"]
    for rank in (3, 2, 3, 4):
        responses.append({**copy.deepcopy(responses[0]), "rank": rank})
    found = problems_of(tmp_path, 2023, document)
    assert places(found) == [
        ("error", "1", "responses[2].rank"),
        ("error", "1", "responses[3].rank"),
    ]
    assert all("more than the 3 of" in message for _, _, _, message in found)


def test_a_turn_without_passages_needs_no_citation(tmp_path):
    document = valid(2025)
    document[0]["references"] = {}
    document[0]["responses"][0]["citations"] = {}
    assert places(problems_of(tmp_path, 2025, document)) == [("warning", "1", "references")]


def test_scores_of_2025_tie_where_six_decimals_are_equal(tmp_path):
    document = valid(2025)
    document[0]["references"] = {IDS[0]: 3.0, IDS[1]: 2.9999996, IDS[2]: 1.0}
    assert np.float32(2.9999996) < np.float32(3.0)
    found = problems_of(tmp_path, 2025, document)
    assert places(found) == [("warning", "1", "references")]
    assert found[0][3].startswith("1 score is so close")
    of_2023 = valid(2023)
    passages_of(of_2023)[1]["score"] = 2.9999996
    assert problems_of(tmp_path, 2023, of_2023) == []


def test_wrong_ids_are_counted_with_their_first(tmp_path):
    document = valid(2023)
    odd = ["a b", "", "msmarco-1", f"{IDS[0]}x", "c"]
    for docno in odd:
        passage = {"id": docno, "text": "", "score": 0.5 - odd.index(docno) / 10, "used": False}
        passages_of(document).append(passage)
    found = problems_of(tmp_path, 2023, document)
    assert places(found) == [("error", "1", PASSAGES), ("warning", "1", PASSAGES)]
    assert found[0][3].startswith('"a b" is not a passage id (nor 1 other)')
    assert '"msmarco-1" is not an id of the collection (nor 2 others)' in found[1][3]
    del passages_of(document)[-4:]
    [(_, _, _, message)] = problems_of(tmp_path, 2023, document)
    assert message.startswith('"a b" is not a passage id: ')


def test_only_the_first_score_that_rises_is_named(tmp_path):
    document = valid(2023)
    for place, score in enumerate((1.0, 2.0, 3.0)):
        passages_of(document)[place]["score"] = score
    found = problems_of(tmp_path, 2023, document)
    assert places(found) == [("error", "1", PASSAGES)]
    assert f"2.0 of {IDS[1]} is above the 1.0" in found[0][3]


def test_equal_and_close_scores_are_counted_apart_in_any_order(tmp_path):
    document = valid(2025)
    scores = [3.0, 1.0, 3.0, 3.0 - 1e-8, 1.0 - 1e-8]
    docnos = [f"{IDS[0]}{place}" for place in range(5)]
    document[0]["references"] = dict(zip(docnos, scores, strict=True))
    document[0]["responses"][0]["citations"] = {}
    messages = [message for *_, message in problems_of(tmp_path, 2025, document)]
    assert [message.partition(":")[0] for message in messages] == [
        "no passage is cited",
        "the entries are not in the order of their scores",
        "tied scores (1)",
        "2 scores are so close to the one above that the organisers' tools read a tie",
    ]


def test_a_user_without_statements_has_none_to_name(tmp_path):
    data = Data(2023, ptkb={})
    found = problems_of(tmp_path, 2023, valid(2023), data)
    assert places(found) == [
        ("error", "1", f"{STATEMENTS}[0]"),
        ("error", "1", f"{STATEMENTS}[1]"),
        ("error", "2", f"{STATEMENTS}[0]"),
        ("error", "2", f"{STATEMENTS}[1]"),
    ]
    assert all("name one of none, omit it" in message for *_, message in found)


def test_statements_fall_from_0_too(tmp_path):
    document = valid(2023)
    for place, score in enumerate((0.0, 1.0)):
        document["turns"][0]["responses"][0]["ptkb_provenance"][place]["score"] = score
    assert places(problems_of(tmp_path, 2023, document)) == [("error", "1", STATEMENTS)]
    document["turns"][0]["responses"][0]["ptkb_provenance"][1]["score"] = 0.0
    assert places(problems_of(tmp_path, 2023, document)) == [("warning", "1", STATEMENTS)]


def test_a_statement_of_2025_is_a_text(tmp_path):
    document = valid(2025)
    document[0]["responses"][0]["ptkb_provenance"] = [None, "I drink tea."]
    found = problems_of(tmp_path, 2025, document)
    assert places(found) == [("error", "1", f"{STATEMENTS}[0].text")]


@pytest.mark.parametrize("odd", ["\u0661", "1.0", "", True, None])
def test_a_statement_of_2024_is_a_whole_number(tmp_path, odd):
    document = valid(2024)
    document["turns"][0]["responses"][0]["ptkb_provenance"][0] = odd
    found = problems_of(tmp_path, 2024, document)
    assert places(found) == [("error", "1", f"{STATEMENTS}[0]")]
    document["turns"][0]["responses"][0]["ptkb_provenance"][0] = "01"
    assert problems_of(tmp_path, 2024, document) == []


def test_words_of_a_statement_are_found_without_case_and_blanks():
    persona = {"1": "I drink  tea.", "2": "STRASSE"}
    assert find_statement_id(" i DRINK tea. ", persona) == "1"
    assert find_statement_id("stra\u00dfe", persona) == "2"
    assert find_statement_id("I drink", persona) is None


def test_lines_of_an_array_have_their_numbers(tmp_path):
    (tmp_path / "run").write_text(json.dumps([*valid(2025), 7]))
    found = validate(tmp_path / "run", DATA[2025])
    assert [problem.field for problem in found] == ["", "line 3"]


def test_lines_that_are_no_objects_are_named(tmp_path):
    (tmp_path / "run").write_text(f"7\n{text_of(valid(2025))}\nnull")
    found = validate(tmp_path / "run", DATA[2025])
    assert [problem.field for problem in found] == ["line 1", "line 4"]


def test_metadata_differ_by_any_name(tmp_path):
    for name in ("team_id", "run_id", "run_type"):
        document = valid(2025)
        document[1]["metadata"][name] = "manual"
        found = problems_of(tmp_path, 2025, document)
        assert places(found) == [("error", "2", "metadata")], name


@pytest.mark.parametrize("lacking", ["references", "metadata"])
def test_lines_without_one_of_their_fields_are_of_2025(tmp_path, lacking):
    document = valid(2025)
    for line in document:
        del line[lacking]
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError, match=f"submission of 2025, 2 errors:\n.*{lacking}: the field"):
        read_submission(tmp_path / "run")


def test_half_of_the_lines_tell_the_year(tmp_path):
    document = [valid(2025)[0], {"turn_id": "9-1_2"}]
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError, match="a submission of 2025"):
        read_submission(tmp_path / "run")
    (tmp_path / "run").write_text(text_of([*document, {"turn_id": "9-1_3"}]))
    with pytest.raises(DataError, match="a submission of 2023"):
        read_submission(tmp_path / "run")


@pytest.mark.parametrize(
    ("statements", "assessed", "year"),
    [([], None, 2023), ([], True, 2024), ([1], None, 2024), (["1"], None, 2024)],
)
def test_statements_and_assessment_tell_the_year(tmp_path, statements, assessed, year):
    document = valid(2023)
    for turn in document["turns"]:
        turn["responses"][0]["ptkb_provenance"] = statements
    if assessed is not None:
        document["eval_response"] = assessed
    (tmp_path / "run").write_text(text_of(document))
    if assessed is None and year == 2024:
        with pytest.raises(DataError, match="2024, 1 error:\nerror: eval_response: the field"):
            read_submission(tmp_path / "run")
    else:
        assert read_submission(tmp_path / "run").year == year


def test_a_passage_of_two_responses_has_its_better_score(tmp_path):
    document = valid(2023)
    responses = document["turns"][0]["responses"]
    responses.insert(0, {**copy.deepcopy(responses[0]), "rank": 2})
    for passage in responses[0]["passage_provenance"]:
        passage["score"] += 60.0
        passage["used"] = True
    (tmp_path / "run").write_text(text_of(document))
    first = read_ranking(tmp_path / "run").head(3)
    # rank 1: each score by 2; those of rank 2 are the same passages, again
    assert first["score"].tolist() == [1.5, 1.0, 0.5]
    assert first["used"].tolist() == [True, False, False]


def test_passages_cited_by_any_response_are_used(tmp_path):
    document = valid(2025)
    again = {**copy.deepcopy(document[0]["responses"][0]), "rank": 2, "citations": {IDS[2]: 1.0}}
    document[0]["responses"].append(again)
    (tmp_path / "run").write_text(text_of(document))
    used = read_submission(tmp_path / "run").results["used"]
    assert used.head(3).tolist() == [True, False, True]


def test_a_score_of_0_is_no_missing_one(tmp_path):
    document = valid(2023)
    document["turns"][0]["responses"][0]["ptkb_provenance"][1]["score"] = 0.0
    (tmp_path / "run").write_text(text_of(document))
    assert read_submission(tmp_path / "run").turns["qstatements"][0] == [("1", 1.0), ("2", 0.0)]


def test_scores_are_written_as_32_bit_readers_read_them(tmp_path):
    run = made_run(tmp_path / "mine", Data(2023), scores=(0.7, 0.3, 0.1))
    write_submission(run, Data(2023), tmp_path / "out", run_id="x", run_type="automatic")
    written = json.loads((tmp_path / "out").read_text())["turns"][0]["responses"][0]
    scores = [passage["score"] for passage in written["passage_provenance"]]
    assert scores == [float(np.float32(score)) for score in (0.7, 0.3, 0.1)]


@pytest.mark.parametrize("odd", ["\u0661", "x1"])
def test_an_id_that_is_no_number_is_not_made_one(tmp_path, odd):
    run = made_run(tmp_path / "mine", Data(2024), qstatements=[[(odd, 1.0)]] * 6)
    with pytest.raises(RefusedError, match="a whole number"):
        write_submission(run, Data(2024), tmp_path / "out", run_id="x", run_type="automatic")


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


def test_twenty_errors_are_listed_and_the_rest_is_counted():
    problems = [Problem("error", "", f"field {letter}", "bad") for letter in ascii_lowercase[:22]]
    text = list_errors("it is bad", [*problems, Problem("warning", "", "x", "look")])
    lines = text.split("\n")
    assert lines[0] == "it is bad, 22 errors:"
    assert (len(lines), lines[-1]) == (22, "and 2 more")


def test_a_problem_of_the_file_and_one_of_a_turn_are_two_lines():
    problems = [Problem("error", "", "text", "bad"), Problem("error", "1_1", "text", "bad")]
    assert format_problems(problems) == ["error: text: bad", "error: turn 1_1, text: bad"]
    assert str(Problem("error", "", "", "bad")) == "error: bad"


def test_names_in_a_place_can_be_printed():
    place = Place().of_turn("1\x1b_1").at("a\nb", 0, "c\x07")
    place.error("bad")
    [problem] = place.problems
    assert (problem.turn, problem.field) == ("1?_1", "a?b[0].c?")


def test_a_file_is_written_when_the_check_finds_no_error(tmp_path):
    seen = []

    def check(path):
        with open(path, encoding="utf-8") as file:
            seen.append(file.read())
        return [Problem("warning", "", "", "look")]

    found = write_checked(tmp_path / "out", ["a\n", "b\n"], check)
    assert [problem.message for problem in found] == ["look"]
    assert seen == ["a\nb\n"] == [(tmp_path / "out").read_text()]
    with pytest.raises(UsageError, match=r"can't be written \([A-Z][a-z ]+\):"):
        write_checked(tmp_path / "out" / "x", [], check)


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


def test_each_response_of_2025_cites_references_of_its_turn(tmp_path):
    document = valid(2025)
    first = document[0]["responses"][0]
    second = {**copy.deepcopy(first), "rank": 2, "citations": {IDS[3]: 1.0, IDS[1]: 1.0}}
    third = {**copy.deepcopy(first), "rank": 3, "citations": {}}
    document[0]["responses"] += [second, third]
    assert problems_of(tmp_path, 2025, document) == [
        (
            "error",
            "1",
            "responses[1].citations",
            f"\"{IDS[3]}\" is not in the turn's references: add it there, or don't cite it",
        ),
        (
            "warning",
            "1",
            "responses[2].citations",
            "no passage is cited: cite those that the response rests on",
        ),
    ]
