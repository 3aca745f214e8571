"""The figures of ``experiments/evidence.py``: what they are means of, and that no rule is chosen where it is tested."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def evidence(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("evidence")


def found(**lists):
    rows = [(query, docno, rank, 9.0 - rank) for query, docnos in lists.items() for rank, docno in enumerate(docnos)]
    return pd.DataFrame(rows, columns=["query", "docno", "rank", "score"])


TURNS = pd.DataFrame({"qid": ["1_1", "2_1"], "query": "", "qsubqueries": [["a", "a", "b"], ["b", "c", "c"]]})
QRELS = pd.DataFrame({"qid": ["1_1", "2_1"], "docno": ["x", "y"], "label": [1, 1]})
SECOND = 0.63093  # 1 / log2(3)


def test_a_sample_counts_as_often_as_it_was_written_and_one_that_finds_nothing_counts_0(evidence):
    valued = evidence.value_queries(TURNS, found(a="xy", b="yx"), QRELS)
    assert valued["value"].round(5).tolist() == [1, 1, SECOND, 1, 0, 0]


def test_the_rules_choose_and_the_mean_and_the_oracle_are_of_all_samples(evidence):
    lists = found(a="xy", b="yx")
    values = evidence.measure(TURNS, lists, lists, QRELS)
    of_turns = {name: found.round(5).tolist() for name, found in values.items()}
    assert of_turns["mean"] == [round((2 + 0.6309297536) / 3, 5), round(1 / 3, 5)]
    assert (of_turns["first"], of_turns["agreement"], of_turns["fusion"], of_turns["oracle"]) == ([1, 1],) * 4


def test_a_conversation_is_ranked_by_the_rule_that_is_best_on_the_others(evidence):
    turns = ["1_1", "1_2", "2_1", "3_1"]
    one, other = pd.Series([1.0, 1.0, 0.5, 0.0], turns), pd.Series([0.0, 0.0, 0.6, 0.9], turns)
    chosen = evidence.cross_validate({"one": one, "other": other})
    # without 1: one .25, other .75; without 2: one .67, other .3; without 3: one .83, other .2
    assert chosen.to_dict() == {"1_1": 0.0, "1_2": 0.0, "2_1": 0.5, "3_1": 0.0}


def test_only_the_first_passages_are_ordered_anew(evidence, monkeypatch):
    monkeypatch.setattr(evidence, "RERANKED", 2)
    again = evidence.rerank(found(a="xyz"), found(a="zyx"))
    assert again[["docno", "rank"]].values.tolist() == [["y", 0], ["x", 1]]


def test_a_rewrite_is_searched_for_alone_or_with_its_answer(evidence, monkeypatch):
    files = {
        "both": {
            ("1_1", "rewrite", None): ("a", "b"),
            ("1_1", "answer", None): ("x", "y"),
            ("1_1", "rewrite", "rewrite_and_answer"): ("-",),
        },
        "alone": {("1_1", "rewrite", prompt): ("a", "b") for prompt in ("rewrite", "rewrite_short")},
    }
    monkeypatch.setattr(evidence, "OUTPUTS", {name: SimpleNamespace(completions=lambda f=found: f) for name, found in files.items()})
    assert evidence.samples_of("both", True) == {"1_1": ["a x", "b y"]}
    assert evidence.samples_of("both", False) == evidence.samples_of("alone", False) == {"1_1": ["a", "b"]}
