"""What judges really write."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.verdicts import NO_REASON, read_score, read_yes_no


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
