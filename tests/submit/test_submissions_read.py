"""Submissions are read back: responses, rankings and statements, with the dataset or without."""

import copy
import json
import math

import pytest
from two_turns import (
    DATA,
    IDS,
    Data,
    text_of,
    turns_of,
    valid,
)

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.submit import read_submission
from pyterrier_ikat.submit.submissions import read_ranking


def test_several_responses_are_merged_as_the_organisers_do(tmp_path):
    document = valid(2024)
    first = document["turns"][0]["responses"]
    second = copy.deepcopy(first[0]) | {"rank": 2, "text": "Other."}
    second["passage_provenance"][0] |= {"id": IDS[3], "score": 5.4}
    first.append(second)
    (tmp_path / "run").write_text(text_of(document))
    read = read_submission(tmp_path / "run")
    ranked = read.results[read.results["qid"] == "0_1"]
    # 3/2, 2/2, 1/2 of the first response, 5.4/3 of the second; what it has again is skipped
    assert ranked["docno"].tolist() == [IDS[3], IDS[0], IDS[1], IDS[2]]
    assert ranked["score"].tolist() == pytest.approx([1.8, 1.5, 1.0, 0.5])
    assert read.turns["qanswer"].tolist() == ["Yes.", "Yes."]


def test_the_response_of_the_lowest_rank_is_read_wherever_it_is(tmp_path):
    document = valid(2024)
    responses = document["turns"][0]["responses"]
    responses.insert(0, copy.deepcopy(responses[0]) | {"rank": 2, "text": "Other."})
    (tmp_path / "run").write_text(text_of(document))
    assert read_submission(tmp_path / "run").turns["qanswer"].tolist() == ["Yes.", "Yes."]


def test_ranks_of_responses_are_numbers(tmp_path):
    """Rank 2 stands before rank 10: its scores are divided by 3, the other's by 11."""
    document = valid(2023)
    responses = document["turns"][0]["responses"]
    responses[0] |= {"rank": 10, "text": "Other."}
    better = copy.deepcopy(responses[0]) | {"rank": 2, "text": "Yes.", "ptkb_provenance": []}
    better["passage_provenance"] = [{"id": IDS[2], "text": "", "score": 6.0}]
    responses.append(better)
    (tmp_path / "run").write_text(text_of(document))
    read = read_submission(tmp_path / "run")
    assert read.turns["qanswer"].tolist() == ["Yes.", "Yes."]
    assert read.turns["qstatements"][0] == []
    ranked = read.results.head(3)
    assert ranked["docno"].tolist() == [IDS[2], IDS[0], IDS[1]]
    assert ranked["score"].tolist() == pytest.approx([6 / 3, 3 / 11, 2 / 11])
    assert ranked["used"].tolist() == [False, True, False]  # a mark that is missing is no


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


def test_the_scores_of_a_single_response_are_its_own(tmp_path):
    (tmp_path / "submitted").write_text(text_of(valid(2023)))
    assert read_submission(tmp_path / "submitted").results["score"].tolist() == [3.0, 2.0, 1.0] * 2


def test_the_ranking_of_2025_is_by_score_not_by_line(tmp_path):
    document = valid(2025)
    document[0]["references"] = {IDS[2]: 1.0, IDS[0]: 3.0, IDS[1]: 2.0}
    (tmp_path / "run").write_text(text_of(document))
    assert read_submission(tmp_path / "run").results.head(3).values.tolist() == [
        ["9-1_1", IDS[0], 3.0, 0, True],
        ["9-1_1", IDS[1], 2.0, 1, False],
        ["9-1_1", IDS[2], 1.0, 2, False],
    ]


def test_a_turn_without_passages_keeps_its_response(tmp_path):
    document = valid(2023)
    document["turns"][1]["responses"][0]["passage_provenance"] = []
    (tmp_path / "run").write_text(json.dumps(document))
    read = read_submission(tmp_path / "run", DATA[2023])
    assert read.results["qid"].unique().tolist() == ["9-1_1"]
    assert read.turns["qid"].tolist() == ["9-1_1", "9-1_2"]


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_turn_without_responses_is_read_empty(tmp_path, year):
    document = valid(year)
    turns_of(document)[1]["responses"] = []
    (tmp_path / "out").write_text(text_of(document))
    read = read_submission(tmp_path / "out")
    assert read.turns["qanswer"].tolist() == ["Yes.", ""]
    assert read.turns["qstatements"].tolist()[1] == []
    assert len(read.results) == 3


# Statements


def test_statements_of_2025_become_ids_with_the_dataset(tmp_path):
    (tmp_path / "run").write_text(text_of(valid(2025)))
    assert read_submission(tmp_path / "run").turns["qstatements"][0] == [("I drink tea.", 1.0)]
    assert read_submission(tmp_path / "run", DATA[2025]).turns["qstatements"][0] == [("1", 1.0)]


def test_new_2025_statements_keep_words_and_copies_are_known(tmp_path):
    document = valid(2025)
    chosen = ["I ski.", "i drink\u00a0TEA.", "2", "I drink tea.", "I ski.", "I hate coffee."]
    document[0]["responses"][0]["ptkb_provenance"] = chosen
    (tmp_path / "run").write_text(text_of(document))
    read = read_submission(tmp_path / "run", DATA[2025]).turns["qstatements"][0]
    assert read == [("I ski.", 6.0), ("1", 5.0), ('"2"', 4.0), ("2", 1.0)]


def test_ids_of_2024_are_read_from_numbers_and_strings(tmp_path):
    for dataset in (None, DATA[2024]):
        for ids in ([2, 1], ["2", "1"], ["2", 1]):
            document = valid(2024)
            document["turns"][0]["responses"][0]["ptkb_provenance"] = ids
            (tmp_path / "run").write_text(text_of(document))
            read = read_submission(tmp_path / "run", dataset)
            assert (read.year, read.turns["qstatements"][0]) == (2024, [("2", 2.0), ("1", 1.0)])


def test_statements_are_in_score_order_as_organisers_rank_them(tmp_path):
    document = valid(2023)
    first, second = document["turns"][0]["responses"][0]["ptkb_provenance"]
    first["score"] = 0.2
    second["score"] = 0.9
    (tmp_path / "run").write_text(text_of(document))
    assert read_submission(tmp_path / "run").turns["qstatements"][0] == [("2", 0.9), ("1", 0.2)]


def test_equal_statements_are_named_by_their_first_id(tmp_path):
    data = Data(2025, ptkb={"1": "I hate coffee.", "2": "I drink tea.", "3": "I drink tea."})
    (tmp_path / "submitted").write_text(text_of(valid(2025)))
    turns = read_submission(tmp_path / "submitted", data).turns
    assert turns["qstatements"].tolist() == [[("2", 1.0)], [("2", 1.0)]]


def test_a_score_of_0_is_no_missing_one(tmp_path):
    document = valid(2023)
    document["turns"][0]["responses"][0]["ptkb_provenance"][1]["score"] = 0.0
    (tmp_path / "run").write_text(text_of(document))
    assert read_submission(tmp_path / "run").turns["qstatements"][0] == [("1", 1.0), ("2", 0.0)]


# Whole files and rankings


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_a_turn_that_is_there_twice_is_not_read_twice(tmp_path, year):
    document = valid(year)
    turns_of(document).append(copy.deepcopy(turns_of(document)[0]))
    (tmp_path / "run").write_text(text_of(document))
    for data in (None, DATA[year]):
        with pytest.raises(
            DataError, match=f"turn {DATA[year].number}_1, turn_id: the turn occurs more than once"
        ):
            read_submission(tmp_path / "run", data)


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_turns_that_the_dataset_lacks_are_named(tmp_path, year):
    document = valid(year)
    number = DATA[year].number
    turns_of(document)[0]["turn_id"] = f"{number}-1"
    turns_of(document)[1]["turn_id"] = "77_1"
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError) as caught:
        read_submission(tmp_path / "run", DATA[year])
    where = f"error: 2 turns ({number}-1, 77_1), turn_id"
    what = f"ikat:{year} has no such turn, its turns are like {number}_1: remove it"
    assert f"{where}: {what}" in str(caught.value)
    assert read_submission(tmp_path / "run").results["qid"].nunique() == 2


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_ranking_needs_no_responses_statements_or_names(tmp_path, year):
    document = valid(year)
    (tmp_path / "run").write_text(text_of(document))
    whole = read_submission(tmp_path / "run").results
    for turn in turns_of(document):
        [response] = turn["responses"]
        del response["text"]
        response["ptkb_provenance"] = "none"
    heads = [line["metadata"] for line in document] if year == 2025 else [document]
    for head in heads:
        head["run_type"] = 7
        del head["run_id" if year == 2025 else "run_name"]
    turns_of(document)[0]["more"] = "of ours"
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError):
        read_submission(tmp_path / "run")
    ranking = ["qid", "docno", "score", "rank"]
    assert read_ranking(tmp_path / "run")[ranking].equals(whole[ranking])


def spoilt(document, year):
    """What a ranking can't do without, spoilt one by one."""
    turn = turns_of(document)[0]
    passages = turn if year == 2025 else turn["responses"][0]
    name = "references" if year == 2025 else "passage_provenance"
    yield lambda: turn.pop("turn_id")
    yield lambda: passages.pop(name)
    yield lambda: passages.update({name: "none"})
    yield lambda: turns_of(document).append(copy.deepcopy(turns_of(document)[1]))
    if year == 2025:
        yield lambda: passages[name].update({IDS[0]: math.inf})
    else:
        yield lambda: turn.pop("responses")
        yield lambda: passages[name][0].pop("id")
        yield lambda: passages[name][1].update(score="high")


@pytest.mark.parametrize("year", [2023, 2024, 2025])
@pytest.mark.parametrize("number", range(6))
def test_a_ranking_that_is_not_whole_is_no_ranking(tmp_path, year, number):
    document = valid(year)
    changes = list(spoilt(document, year))
    changes[number % len(changes)]()
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError, match=f"can't be read as a submission of {year}"):
        read_ranking(tmp_path / "run")


def test_a_rank_below_0_is_refused_by_all_who_divide_by_it(tmp_path):
    document = valid(2023)
    responses = document["turns"][0]["responses"]
    responses.append(copy.deepcopy(responses[0]) | {"rank": -1})
    (tmp_path / "run").write_text(text_of(document))
    for read in (read_ranking, read_submission):
        with pytest.raises(DataError, match=r"responses\[1\].rank: it is -1"):
            read(tmp_path / "run")


@pytest.mark.parametrize("text", ["{}", "[]", '{"turns": {}}', '{"foo": 1}'])
def test_json_without_turns_is_no_empty_ranking(tmp_path, text):
    (tmp_path / "run").write_text(text)
    with pytest.raises(DataError, match="can't be read as a submission"):
        read_ranking(tmp_path / "run")


def test_a_submission_that_was_cut_has_no_ranking(tmp_path):
    for year in (2023, 2025):
        text = text_of(valid(year))
        (tmp_path / "run").write_text(text[: len(text) - 40])
        with pytest.raises(DataError, match="it may be cut short"):
            read_ranking(tmp_path / "run")
