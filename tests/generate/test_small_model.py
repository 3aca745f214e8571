"""What SmolLM2-135M-Instruct wrote on turns of the sample: loops, copies and lists that do not end.

Each is read as the model ended it, and as from a server that doesn't say that it was cut off.
"""

import json
from pathlib import Path

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.texts import parse_passage, parse_queries
from pyterrier_ikat.completions.usable import readable
from pyterrier_ikat.llms import Backend, Reply, StageError
from pyterrier_ikat.llms.failures import CutOff

RECORDS = Path(__file__).with_name("smollm2.jsonl").read_text(encoding="utf-8").splitlines()
WRITTEN = {record["operator"]: record for record in map(json.loads, RECORDS)}
MAKE = {
    "rewrite": (ikat.Rewrite, {}, "query"),
    "rewrite_short": (ikat.Rewrite, {"form": "short"}, "query"),
    "statements_ids": (ikat.SelectStatements, {}, "qstatements"),
    "statements_copies": (ikat.SelectStatements, {"form": "copies"}, "qstatements"),
    "statements_scores": (ikat.SelectStatements, {"form": "scores"}, "qstatements"),
    "queries": (ikat.Queries, {}, "qsubqueries"),
    "clarify": (ikat.generate.Clarify, {}, "qrewrite"),
}
VALUES = {
    "rewrite": "I'd love to see your next walk of several days.",
    "rewrite_short": "I'd love to see your first walk of several days next year.",
    "statements_copies": [("1", 1.0), ("2", 1 / 2), ("3", 1 / 3), ("4", 1 / 4)],
    "queries": [
        "I'm looking for a walk of several days next year."
    ],  # four of five say the same, and the last begins to
}
"""What is read where nobody says that the completion was cut off."""


class Wrote(Backend):
    """Answers every request with one completion."""

    model = "SmolLM2"
    identity = {"provider": "wrote"}

    def __init__(self, text, end):
        self.reply = Reply(text, finish_reason=end)

    def complete(self, requests):
        return [self.reply for _ in requests]


def written(name, end):
    operator, options, column = MAKE[name]
    turn = ikat.dataset("ikat:sample").get_topics().head(1)
    assert turn["qid"].item() == WRITTEN[name]["qid"]
    return operator(ikat.llm(Wrote(WRITTEN[name]["completion"], end)), **options)(turn)[
        column
    ].item()


@pytest.mark.parametrize("name", [name for name in MAKE if WRITTEN[name]["end"] == "length"])
def test_a_loop_that_the_limit_ended_is_a_failure_that_says_so(name):
    with pytest.raises(StageError, match="cut off at the token limit: raise max_tokens") as raised:
        written(name, "length")
    assert [type(one) for one in raised.value.failures] == [CutOff]


@pytest.mark.parametrize("name", MAKE)
def test_what_is_read_where_nothing_says_it_was_cut_off(name):
    if name in VALUES:
        assert written(name, None) == VALUES[name]
    else:
        with pytest.raises(StageError, match="nothing usable in the completion ['\"]({|# Task)"):
            written(name, None)


def test_no_operator_makes_queries_of_cut_json_or_of_a_loop():
    lists = [json.loads(line) for line in RECORDS if '"statement_queries"' in line]
    assert [parse_queries(record["completion"]) for record in lists] == [[], []]
    assert parse_passage(WRITTEN["passage_queries"]["completion"]) == ""
    assert parse_passage(WRITTEN["outline"]["completion"]).startswith("I'm glad")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('Here they are:\n```json\n["rooibos", "mint", "gin', []),
        ('{"queries": ["rooibos"], "more": [', []),
        ('["rooibos", "mint"]\n\nI chose [two', ["rooibos", "mint"]),
        ("1. rooibos tea\n2. rooibos", ["rooibos tea", "rooibos"]),
        ("- rooibos tea\n- rooibos tea\n- Rooi", ["rooibos tea"]),
    ],
)
def test_what_is_cut_is_no_query_and_what_is_whole_stays(text, read):
    assert parse_queries(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "# Task\nRestate it.\n\n# Last message\nTea?",
        "<think>hm</think># Role\nYou write.",
        "## About the user\n1: tea",
    ],
)
def test_a_prompt_that_is_repeated_is_no_answer_and_is_counted(text):
    assert readable(text) == ("", [f"the prompt, which the model repeats: {text!r}"])
    own = "# Task list\nBuy tea."
    assert readable(own) == (own, [])
