"""The script ``experiments/quality/reading_statements.py``, and the labels that it reads."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
from persona import PTKB

QUALITY = Path(__file__).parents[2] / "experiments" / "quality"


def measuring():
    """The script that holds readings against labels."""
    spec = importlib.util.spec_from_file_location(
        "reading_statements", QUALITY / "reading_statements.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_readings_are_held_against_labels():
    script = measuring()
    completions = [
        {"qid": "1-1_0", "shots": 3, "completion": "[3, 9]"},
        {"qid": "1-1_1", "shots": 3, "completion": "[3, 1"},
        {"qid": "1-1_2", "shots": 3, "completion": "[1]"},
        {"qid": "1-1_3", "shots": 3, "completion": "Sure!"},
        {"qid": "1-1_4", "shots": 3, "completion": "2"},
    ]
    labels = [
        {"qid": "1-1_0", "shots": 3, "ids": ["3", "9"]},
        {"qid": "1-1_1", "shots": 3, "ids": ["3"]},
        {"qid": "1-1_2", "shots": 3, "ids": ["3"]},
        {"qid": "1-1_3", "shots": 3, "ids": []},
        {"qid": "1-1_4", "shots": 3, "ids": None},
    ]
    found = script.read_all(completions, labels, {"1-1": PTKB})
    assert found == {
        "as labelled": ["1-1_0 (3 examples)"],
        "failure or counted rest": ["1-1_1 (3 examples)", "1-1_3 (3 examples)"],
        "silently wrong": ["1-1_2 (3 examples)", "1-1_4 (3 examples)"],
    }
    assert "silently wrong: 40.0%, at most 85.3%" in script.report(found)


@pytest.mark.parametrize(("errors", "bound"), [(0, 0.0183), (1, 0.0275), (4, 0.0504)])
def test_the_bound_gives_so_few_errors_a_chance_of_a_fortieth(errors, bound):
    limit = measuring().upper_bound(errors, 200)
    chance = 0.0
    for count in range(errors + 1):
        chance += math.comb(200, count) * limit**count * (1 - limit) ** (200 - count)
    assert (limit, chance) == (pytest.approx(bound, abs=5e-5), pytest.approx(0.025))


@pytest.mark.parametrize(
    "path", sorted(QUALITY.glob("statements_*.jsonl")), ids=lambda path: path.stem
)
def test_labels_hold_no_more_than_turn_shots_and_ids(path):
    labels = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({(label["qid"], label["shots"]) for label in labels}) == len(labels) >= 60
    assert all(list(label) == ["qid", "shots", "ids"] for label in labels)
