"""Systems for live users are refused before anybody waits."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.failures import FatalLLMError
from pyterrier_ikat.study.live import open_live_systems


def test_a_missing_key_is_reported_before_the_first_question(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    system = ikat.Answer(ikat.llm("openai:gpt-4o cache=none"))
    with pytest.raises(FatalLLMError, match="there is no key"):
        open_live_systems({"mine": system}, Ledger())
    assert list(open_live_systems({"mine": system}, Ledger(), only_plan=True)) == ["mine"]  # a plan asks nothing
    assert list(open_live_systems({"mine": system}, Ledger(), asks=False)) == ["mine"]  # the cache may answer all


@pytest.mark.parametrize(
    ("system", "resources", "message"),
    [
        ("human_qr", {}, "human_qr reads annotations"),
        ("ad", {}, "needs llm"),
        ({"mine": ikat.Answer(ikat.llm("openai:gpt-4o batch=on"))}, {}, "wait a day for an answer of mine"),
        ("raw", {"lm": "x"}, "did you mean llm"),
    ],
)
def test_a_system_that_can_not_answer_is_refused(system, resources, message):
    with pytest.raises(ikat.UsageError, match=message):
        open_live_systems(system, Ledger(), **resources)
