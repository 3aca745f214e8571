"""What the check of a submission tells of its names, turns, responses, passages and statements."""

import copy
import json

import numpy as np
import pytest
from two_turns import (
    DATA,
    IDS,
    Data,
    text_of,
    turns_of,
    valid,
)

from pyterrier_ikat.submit import validate
from pyterrier_ikat.submit.checks import find_statement_id

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


def test_a_response_of_2024_may_not_be_assessed(tmp_path):
    """Without assessment, or of the type only_response, an empty response is a warning alone."""
    for assessed, run_type, severity in [
        (True, "automatic", "error"),
        (False, "automatic", "warning"),
        (True, "only_response", "warning"),
    ]:
        document = valid(2024) | {"eval_response": assessed, "run_type": run_type}
        document["turns"][0]["responses"][0]["text"] = ""
        (tmp_path / "out").write_text(json.dumps(document))
        [problem] = validate(tmp_path / "out", Data(2024))
        assert (problem.severity, problem.turn) == (severity, "0_1")


def test_a_turn_that_cannot_be_read_is_not_missing_as_well(tmp_path):
    document = valid(2023)
    document["turns"][0]["responses"][0]["rank"] = "first"
    (tmp_path / "out").write_text(json.dumps(document))
    [problem] = validate(tmp_path / "out", Data(2023))
    assert (problem.turn, problem.field) == ("9-1_1", "responses[0].rank")
