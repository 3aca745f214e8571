"""The year of a submission is told by its fields and statements."""

import pytest
from two_turns import (
    text_of,
    valid,
)

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.submit import read_submission


def test_most_statements_of_all_turns_tell_the_year(tmp_path):
    document = valid(2024)
    del document["eval_response"]
    [first] = document["turns"][0]["responses"]
    [second] = document["turns"][1]["responses"]
    first["ptkb_provenance"] = []
    second["ptkb_provenance"] = [1, 2, {"id": "1", "text": "I drink tea.", "score": 1.0}]
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(DataError, match="can't be read as a submission of 2024, 2 errors"):
        read_submission(tmp_path / "run")


def test_a_file_of_string_ids_is_of_2024_without_its_field(tmp_path):
    document = valid(2024)
    del document["eval_response"]
    for turn in document["turns"]:
        turn["responses"][0]["ptkb_provenance"] = ["1", "2"]
    (tmp_path / "run").write_text(text_of(document))
    with pytest.raises(
        DataError,
        match="as a submission of 2024, 1 error:\nerror: eval_response: the field is missing",
    ):
        read_submission(tmp_path / "run")


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
