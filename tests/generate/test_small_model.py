"""What SmolLM2-135M-Instruct wrote on turns of the sample (``experiments/quality/real_model.py``): loops, copies and lists that do not end.

Each is read as the model ended it, and as from a server that doesn't say that it was cut off.
"""

import json
from pathlib import Path

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Backend, CutOff, Reply, StageError

WRITTEN = {
    record["operator"]: record
    for record in map(json.loads, Path(__file__).with_name("smollm2.jsonl").read_text(encoding="utf-8").splitlines())
}
MAKE = {
    "rewrite": (ikat.Rewrite, {}, "query"),
    "rewrite_short": (ikat.Rewrite, {"form": "short"}, "query"),
    "statements_ids": (ikat.SelectStatements, {}, "qstatements"),
    "statements_copies": (ikat.SelectStatements, {"form": "copies"}, "qstatements"),
    "statements_scores": (ikat.SelectStatements, {"form": "scores"}, "qstatements"),
    "queries": (ikat.Queries, {}, "qsubqueries"),
}
VALUES = {
    "rewrite": "I'd love to see your next walk of several days.",
    "rewrite_short": "I'd love to see your first walk of several days next year.",
    "statements_copies": [("1", 1.0), ("2", 1 / 2), ("3", 1 / 3), ("4", 1 / 4)],
    "queries": ["I'm looking for a walk of several days next year.", "I'm"],  # four of five say the same
}
"""What is read where nobody says that the completion was cut off."""


class Wrote(Backend):
    """Answers every request with one completion."""

    model, identity = "SmolLM2", {"provider": "wrote"}

    def __init__(self, text, end):
        self.reply = Reply(text, finish_reason=end)

    def complete(self, requests):
        return [self.reply for _ in requests]


def written(name, end):
    operator, options, column = MAKE[name]
    turn = ikat.dataset("ikat:sample").get_topics().head(1)
    assert turn["qid"].item() == WRITTEN[name]["qid"]
    return operator(ikat.llm(Wrote(WRITTEN[name]["completion"], end)), **options)(turn)[column].item()


@pytest.mark.parametrize("name", [name for name in MAKE if WRITTEN[name]["end"] == "length"])
def test_a_loop_that_the_limit_ended_is_a_failure_that_says_so(name):
    with pytest.raises(StageError, match="cut off at the token limit: raise max_tokens") as raised:
        written(name, "length")
    assert [type(one) for one in raised.value.failures] == [CutOff]


@pytest.mark.parametrize("name", MAKE)
def test_what_is_read_of_it_where_nobody_says_that_it_was_cut_off(name):
    if name in VALUES:
        assert written(name, None) == VALUES[name]
    else:
        with pytest.raises(StageError, match="nothing usable in the completion '{"):
            written(name, None)
