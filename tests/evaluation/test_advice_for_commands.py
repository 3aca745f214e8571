"""Errors at the command line name its options, where those in Python name arguments."""

import json

import pandas as pd
import pytest
from small_frames import folder, run

from pyterrier_ikat.errors import IkatError, UsageError, commands_advised
from pyterrier_ikat.evaluation import breakdown, find_clusters
from pyterrier_ikat.evaluation.evaluator import name_runs
from pyterrier_ikat.evaluation.finished_runs import dataset_of, qrels_of
from pyterrier_ikat.evaluation.judgements import _check
from pyterrier_ikat.evaluation.units import check_unit

FRAME = run(**{"1_1": "a"})
POOL = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "text": ["Tea."], "qresolved": ["Tea?"]})


def by_category():
    breakdown({"x": pd.DataFrame({"qid": ["1_1"], "nDCG@5": [0.5]})}, by="category")


@pytest.mark.parametrize(
    ("call", "in_python", "at_the_command_line"),
    [
        (
            lambda: check_unit("topic", None),
            "unit='topic' is the unit of tests and intervals of differences: give baseline=...",
            "--unit topic is the unit of tests and intervals of differences: give --baseline",
        ),
        (
            lambda: find_clusters(["a"], "topic"),
            'such as 9-1_3: give dataset=..., or unit="turn"',
            "such as 9-1_3: give --dataset, or --unit turn",
        ),
        (
            lambda: name_runs(["a/x.trec", "b/x.trec"]),
            "named x: give each its name, {name: run, ...}, or rename one",
            "named x: rename one, or give them to two calls",
        ),
        (
            by_category,
            'give topics=..., a frame with qid and qcategory, such as dataset.get_topics("manual")',
            "the category of turn 1_1: give --dataset, whose turns these are",
        ),
        (
            lambda: _check(POOL.assign(gold_answer=" "), ["gold_answer"]),
            "add the column with with_gold from a dataset that has it, or judge without one: "
            "UmbrelaJudge",
            "give a --dataset that has it, or judge without one: --style umbrela",
        ),
        (
            lambda: _check(POOL.assign(qresolved=None), ["qresolved"]),
            "turn 1_1, passage a: qresolved is None, a judge needs a text: add the column with "
            "with_gold from a dataset that has it",
            "turn 1_1, passage a: qresolved is None, a judge needs a text: give a --dataset that "
            "has it",
        ),
    ],
    ids=["unit", "clusters", "names", "groups", "answer", "rewrite"],
)
def test_advice_is_for_python_or_for_commands(call, in_python, at_the_command_line):
    with pytest.raises(IkatError) as told:
        call()
    assert str(told.value).endswith(in_python)
    with commands_advised(), pytest.raises(IkatError) as told:
        call()
    assert str(told.value).endswith(at_the_command_line)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_advice_on_folders_is_for_python_or_for_commands(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    question = {"role": "user", "content": "Tea?"}
    (mine / "topics.jsonl").write_text(json.dumps({"qid": "1_1", "messages": [question]}))
    none = folder(tmp_path / "none", FRAME)
    unjudged = folder(tmp_path / "unjudged", FRAME, dataset=str(mine))
    sums = {"dataset": str(mine), "qrels_sha256": "0" * 64}
    other = folder(tmp_path / "other", FRAME, **sums)
    told = {
        "python": (
            "give dataset=... or qrels=...",
            "give qrels=...",
            f"give qrels=..., or those of {mine} by pt.get_dataset({str(mine)!r}).get_qrels()",
        ),
        "command": (
            "give --dataset or --qrels",
            "give --qrels",
            f"give --qrels, or --dataset {mine} for its own",
        ),
    }

    def check(of_none, of_unjudged, of_other):
        with pytest.raises(UsageError, match=f": {of_none}$"):
            dataset_of([none])
        with pytest.raises(UsageError, match=f": {of_unjudged}$"):
            qrels_of([unjudged])
        (mine / "qrels.txt").write_text("1_1 0 a 1\n")
        with pytest.raises(UsageError) as refused:
            qrels_of([other])
        assert str(refused.value).endswith(f": {of_other}")
        (mine / "qrels.txt").unlink()

    check(*told["python"])
    with commands_advised():
        check(*told["command"])
