"""Systems for live users are refused before anybody waits."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.llms.failures import FatalLLMError
from pyterrier_ikat.study import open_systems


def test_a_missing_key_is_reported_before_the_first_question(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    system = ikat.Answer(ikat.llm("openai:gpt-4o cache=none"))
    with pytest.raises(FatalLLMError, match="there is no key"):
        open_systems({"mine": system}, live=True, connect=True)
    assert (
        open_systems({"mine": system}, live=True, connect=True, only_plan=True)[0].name == "mine"
    )  # a plan asks nothing
    assert open_systems({"mine": system}, live=True)[0].name == "mine"  # the cache may answer all


@pytest.mark.parametrize(
    ("system", "resources", "message"),
    [
        ("human_qr", {}, "human_qr reads annotations"),
        ("ad", {}, "needs llm"),
        (
            {"mine": ikat.Answer(ikat.llm("openai:gpt-4o batch=on"))},
            {},
            "wait a day for an answer of mine",
        ),
        ("raw", {"lm": "x"}, "did you mean llm"),
    ],
)
def test_a_system_that_can_not_answer_is_refused(system, resources, message):
    with pytest.raises(ikat.UsageError, match=message):
        open_systems(system, live=True, **resources)
