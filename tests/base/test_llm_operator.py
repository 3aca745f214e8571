"""What an operator that asks a model makes of failures, and what it counts."""

import pandas as pd
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError

UNUSABLE = "[]"


@pytest.fixture
def turns():
    return pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea?", "coffee?", "milk?"]})


def test_each_fallback_is_counted_and_is_its_turns_question(turns):
    llm, _ = scripted(UNUSABLE, "Is coffee safe?", UNUSABLE)
    rewritten = ikat.Rewrite(llm, on_error="fallback")(turns)
    assert rewritten["query"].tolist() == ["tea?", "Is coffee safe?", "milk?"]
    ledger = llm.ledger.frame()
    assert ledger[["failures", "fallbacks"]].values.tolist() == [[2, 2]]


def test_without_fallbacks_the_error_names_each_failed_turn(turns):
    llm, _ = scripted(UNUSABLE, "Is coffee safe?", UNUSABLE)
    with pytest.raises(StageError) as caught:
        ikat.Rewrite(llm)(turns)
    assert [failure.qid for failure in caught.value.failures] == ["1_1", "1_3"]
    assert llm.ledger.frame()["fallbacks"].tolist() == [0]


def test_what_is_dropped_is_counted_over_all_turns():
    persona = ["I am vegan.", "I run."]
    turns = []
    for qid, question in (("1_1", "What may I eat?"), ("1_2", "And drink?")):
        turn = ikat.conversation([{"role": "user", "content": question}], persona)
        turns.append(turn.assign(qid=qid))
    llm, _ = scripted("[2, 8, 9]", "[1, 12]")
    chosen = ikat.SelectStatements(llm)(pd.concat(turns, ignore_index=True))
    assert [[name for name, _ in row] for row in chosen["qstatements"]] == [["2"], ["1"]]
    assert llm.ledger.frame()["dropped"].tolist() == [3]
