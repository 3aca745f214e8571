"""What the writer writes, warns of and refuses, on two turns of our own, in every year's format."""

import json
import warnings

import pandas as pd
import pytest
from two_turns import (
    IDS,
    Data,
    made_run,
    read_lines,
    text_of,
    turns_of,
    valid,
    write_lines,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import RefusedError, read_submission, validate, write_submission
from pyterrier_ikat.submit.problem import (
    Place,
    Problem,
    format_problems,
    printable,
    read_json_values,
    short_json,
)
from pyterrier_ikat.submit.submissions import ResponseCutWarning, UncitedWarning

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


def test_an_id_of_2024_that_is_no_number_is_refused(tmp_path):
    run = made_run(tmp_path / "mine", Data(2024), qstatements=[[("x", 1.0)]] * 6)
    with pytest.raises(RefusedError, match="a whole number"):
        write(run, 2024, tmp_path / "out")


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


@pytest.mark.parametrize("year", [2023, 2024, 2025])
def test_each_passage_that_a_response_rests_on_is_used(tmp_path, year):
    run = made_run(tmp_path / "mine", Data(year))
    edit_turns(run, 0, used=[IDS[2], IDS[0]])
    write(run, year, tmp_path / "out")
    used = read_submission(tmp_path / "out").results["used"].tolist()
    assert used == [True, False, True, True, False, False]


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
def test_a_turn_without_responses_is_read_empty(tmp_path, year):
    document = valid(year)
    turns_of(document)[1]["responses"] = []
    (tmp_path / "out").write_text(text_of(document))
    read = read_submission(tmp_path / "out")
    assert read.turns["qanswer"].tolist() == ["Yes.", ""]
    assert read.turns["qstatements"].tolist()[1] == []
    assert len(read.results) == 3


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


# Problems as lines, and the values of a file


def test_numbers_of_several_digits_are_one_line_with_others():
    problems = [
        Problem("error", "1_1", "passages[3].score", "high"),
        Problem("error", "1_1", "passages[12].score", "high"),
    ]
    assert format_problems(problems) == ["error: turn 1_1, passages[].score: high (2 times)"]


def test_problems_beyond_the_most_lines_are_counted():
    problems = [Problem("error", "", f"field{letter}", "look") for letter in "abcd"]
    assert format_problems(problems, 4) == [
        "error: fielda: look",
        "error: fieldb: look",
        "error: fieldc: look",
        "error: fieldd: look",
    ]
    lines = format_problems(problems, 2)
    assert lines == ["error: fielda: look", "error: fieldb: look", "and 2 more"]


def test_equal_problems_of_one_turn_name_their_number_and_fields():
    twice = [
        Problem("error", "1_1", "passages[3].score", "high"),
        Problem("error", "1_1", "passages[5].score", "high"),
    ]
    assert format_problems(twice) == ["error: turn 1_1, passages[].score: high (2 times)"]
    of_file = [Problem("error", "", "line 3", "cut"), Problem("error", "", "line 5", "cut")]
    assert format_problems(of_file) == ["error: line 3, line 5: cut (2 times)"]
    apart = [Problem(severity, "1_1", "text", "look") for severity in ("error", "warning")]
    assert len(format_problems(apart)) == 2


def test_a_place_names_fields_entries_and_turn():
    place = Place()
    inner = place.at("responses", 0, "passages", 12)
    inner.of_turn("1_1").at("text").warning("look")
    inner.at("score").error("high")
    assert place.problems == [
        Problem("warning", "1_1", "text", "look"),
        Problem("error", "", "responses[0].passages[12].score", "high"),
    ]


def test_texts_in_messages_are_printable_and_short():
    assert printable("a" * 60) == "a" * 60
    assert printable("a" * 61) == "a" * 57 + "..."
    assert printable("a\x1b[2Jb") == "a?[2Jb"
    assert short_json([1, 2]) == "an array of 2"
    assert short_json("caf\u00e9") == '"caf\u00e9"'


@pytest.mark.parametrize(
    ("text", "values", "fields"),
    [
        (b'{"a": 1}', [(1, {"a": 1})], []),
        (b'\xef\xbb\xbf{"a": 1}', [(1, {"a": 1})], [""]),
        (b'{"a": 1}\n\n{"b": 2}\n', [(1, {"a": 1}), (3, {"b": 2})], []),
        (b'{"a": 1}\n \t\n{"b": 2}', [(1, {"a": 1}), (3, {"b": 2})], []),
        (
            '{"a": "one\u2028two\u0085"}\n{"b": 2}'.encode(),
            [(1, {"a": "one\u2028two\u0085"}), (2, {"b": 2})],
            [],
        ),
        (b'{"a": 1}\n{"b"\n', [(1, {"a": 1})], ["line 2"]),
        (b'{"a": 1}\n{"b"\n{"c"\n', [], [""]),
        (b"1\n2\n", [], [""]),
        (b"", [], [""]),
        (b"\xff", [], [""]),
    ],
)
def test_the_values_of_a_file_have_their_lines(tmp_path, text, values, fields):
    (tmp_path / "out").write_bytes(text)
    place = Place()
    assert read_json_values(tmp_path / "out", place) == values
    assert [problem.field for problem in place.problems] == fields


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
