"""Errors at the command line name its options, where those in Python name arguments."""

import pandas as pd
import pytest
from fakes import scripted
from small_frames import dataset_folder, folder, run

from pyterrier_ikat.errors import IkatError, UsageError, commands_advised
from pyterrier_ikat.evaluation import Judge, breakdown, find_clusters
from pyterrier_ikat.evaluation.evaluator import name_runs
from pyterrier_ikat.evaluation.finished_runs import dataset_of, qrels_of
from pyterrier_ikat.evaluation.units import check_unit

FRAME = run(**{"1_1": "a"})
SCORES = pd.DataFrame({"qid": ["1_1"], "nDCG@5": [0.5]})


def judge(**columns):
    """Judge a passage of a turn without a persona, with these columns changed."""
    pool = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "text": ["Tea."]})
    pool["qptkb"] = [{}]
    pool["qgoldptkb"] = [[]]
    pool = pool.assign(qresolved="Tea?", gold_answer="Mint.")
    return Judge(scripted()[0])(pool.assign(**columns))


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
            lambda: breakdown({"x": SCORES}, by="category"),
            'give topics=..., a frame with qid and qcategory, such as dataset.get_topics("manual")',
            "the category of turn 1_1: give --dataset, whose turns these are",
        ),
        (
            lambda: judge(gold_answer=" "),
            "add the column with with_gold from a dataset that has it, or judge without one: "
            "UmbrelaJudge",
            "give a --dataset that has it, or judge without one: --style umbrela",
        ),
        (
            lambda: judge(qresolved=None),
            "turn 1_1, passage a: qresolved is None, a judge needs a text: add the column with "
            "with_gold from a dataset that has it",
            "turn 1_1, passage a: qresolved is None, a judge needs a text: give a --dataset that "
            "has it",
        ),
    ],
    ids=["unit", "clusters", "names", "groups", "answer", "rewrite"],
)
def test_advice_is_for_python_or_for_commands(call, in_python, at_the_command_line):
    with pytest.raises(IkatError) as refused:
        call()
    assert str(refused.value).endswith(in_python)
    with commands_advised(), pytest.raises(IkatError) as refused:
        call()
    assert str(refused.value).endswith(at_the_command_line)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_advice_on_folders_is_for_python_or_for_commands(tmp_path):
    unjudged = dataset_folder(tmp_path / "unjudged")
    judged = dataset_folder(tmp_path / "judged")
    (judged / "qrels.txt").write_text("1_1 0 a 1\n")
    nameless = folder(tmp_path / "nameless", FRAME)
    on_unjudged = folder(tmp_path / "first", FRAME, dataset=str(unjudged))
    other_sum = {"dataset": str(judged), "qrels_sha256": "0" * 64}
    on_judged = folder(tmp_path / "second", FRAME, **other_sum)

    def advised():
        advice = []
        for call, run_folder in (
            (dataset_of, nameless),
            (qrels_of, on_unjudged),
            (qrels_of, on_judged),
        ):
            with pytest.raises(UsageError) as refused:
                call([run_folder])
            advice.append(str(refused.value).rpartition(": ")[2])
        return advice

    assert advised() == [
        "give dataset=... or qrels=...",
        "give qrels=...",
        f"give qrels=..., or those of {judged} by pt.get_dataset({str(judged)!r}).get_qrels()",
    ]
    with commands_advised():
        assert advised() == [
            "give --dataset or --qrels",
            "give --qrels",
            f"give --qrels, or --dataset {judged} for its own",
        ]
