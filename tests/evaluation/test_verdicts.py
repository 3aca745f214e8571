"""What judges really write."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.verdicts import NO_REASON, read_choice, read_numbers, read_score, read_yes_no


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"reason": "r", "score": -1}', -1),
        ('{"score": 3, "reason": "r"}', 3),
        ('```json\n{"reason": "r",\n "score": "2"}\n```', 2),
        ('Here:\n{"Reason": "line\nbreak", "Score": 2.0} Done.', 2),
        ('<think>score: 0</think>{"reason": "r", "score": 1}', 1),
        ('{"result": {"reason": "r", "score": 1}}', 1),
        ('{"reason": "he said "x"", "score": 2}', 2),
        ('{"reason": "he said "x"",\n "score": 2,\n}', 2),
        ("It is short.\nScore: -1", -1),
        ("**Score:** 2/3\nIt skips 1 of 5 points.", 2),
        ("Score (-1 to 3): 2", 2),
        ("# Score\n3", 3),
        ("2", 2),
        ("**-1**", -1),
        ("It names 2 of 3 sizes.\n\n1", 1),
        ("3/3", 3),
        ("It names 2 of 3 sizes.", None),
        ("1. First it is short.\n2. Then it is wrong.", None),
        ("Score: 2-3", None),
        ("Score: 2 or 3", None),
        ("Score: 2.5", None),
        ("Score: 4", None),
        ("Score: 3/5", None),
        ("Score: 2 (out of 10)", None),
        ("Score: 2 bis 3", None),
        ("Score: 2 percent", None),
        ("__Score__: 2", 2),
        ("Score\uff1a2", 2),
        ('{"score": 7}\n2', None),
        ('{"score": true}', None),
        ('{"score": 2} {"score": 1}', None),
        ('{"score": null}', None),
        ("I can't judge this.", None),
        ("", None),
    ],
)
def test_scores(text, value):
    found = read_score(text, -1, 3)
    assert (found and found.value) == value


@given(st.text(max_size=40), st.integers(-1, 3), st.booleans())
def test_any_reason_comes_through_json(reason, score, indented):
    found = read_score(json.dumps({"reason": reason, "score": score}, indent=2 if indented else None), -1, 3)
    if "think>" not in reason:
        assert found is not None
        assert found.value == score
        assert found.reason


def test_reasons():
    assert read_score("It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    assert read_score("Reason: It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    assert read_score("2", -1, 3).reason == NO_REASON
    assert read_score('{"score": 2}', -1, 3).reason == NO_REASON
    assert read_yes_no("Yes, every figure is there.").reason == "Yes, every figure is there."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"reason": "no source for it", "verdict": "no"}', False),
        ('{"verdict": true}', True),
        ("Verdict: Yes", True),
        ("No, the price is invented.", False),
        ("All of it is there.\nYes.", True),
        ("Verdict: yes/no", None),
        ("Nothing supports it.", None),
        ("The response is grounded.", None),
        ("Yes.\nOn reflection:\nNo.", None),
        ("Verdict: yes and no", None),
        ("Yes. No claim is left out.", True),
        ("Yes, and no claim is left out.", None),
        ("No, no!", False),
    ],
)
def test_yes_and_no(text, value):
    found = read_yes_no(text)
    assert (found and found.value) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"reason": "r", "better": "A"}', "A"),
        ('{"better": "Response B"}', "B"),
        ('{"better": "b"}', "B"),
        ('{"better": "a tie"}', "tie"),
        ("Better: both", "tie"),
        ("Better: both are alike", None),
        ("B", "B"),
        ('{"better": "A or B"}', None),
        ("Better: A vs. B", None),
        ("Better: A is worse than B", None),
        ("Better: A. B is vague", "A"),
        ("Better: A, B is vague", None),
        ("Better: A > B", None),
        ("a", "A"),
        ("A long response is not always better.", None),
    ],
)
def test_choices(text, value):
    found = read_choice(text)
    assert (found and found.value) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"reason": "2 is missing", "nuggets": [1, 3, 3]}', [1, 3]),
        ('{"nuggets": ["1", 2.0]}', [1, 2]),
        ('{"nuggets": []}', []),
        ("Nuggets: 1, 2 and 4", [1, 2, 4]),
        ("Nuggets: none", []),
        ("[2]", [2]),
        ("None.", []),
        ("It states 2 of the 5 nuggets.", None),
        ('{"nuggets": ["the first"]}', None),
        ("Nuggets: 50%", None),
        ("Nuggets: 2/5", None),
        ("Nuggets: 2.5", None),
        ("Nuggets: -1", None),
        ("Nuggets: 1-3", None),
        ('{"nuggets": [1, 2', None),
        ("{'nuggets': [1, 3], 'reason': 'the way'}", [1, 3]),
        ('{"nuggets": [1, 3], "reason": "He wrote "free"."}', [1, 3]),
    ],
)
def test_numbers(text, value):
    found = read_numbers(text)
    assert (found.value if found else None) == value
