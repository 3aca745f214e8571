import ast
import contextlib
import math
import sys

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, P, R, nDCG
from small_frames import by_turn

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation import as_measures, evaluate, per_turn
from pyterrier_ikat.evaluation.evaluator import Evaluator, parse_measure
from pyterrier_ikat.runs import read_run, strictly_decreasing, write_run


def random_runs(seed=7, turns=30, names=("one", "two", "three")):
    rng = np.random.default_rng(seed)
    judged = []
    for turn in range(turns):
        for doc in rng.permutation(40)[:15]:
            judged.append((f"9-1_{turn}", f"d{doc}", int(rng.integers(0, 5))))
    runs = {}
    for position, name in enumerate(names):
        rows = []
        for turn in range(turns - position):  # later runs lack turns
            ranking = _by_trec_eval(rng.permutation(40)[:30])
            for rank, (score, docno) in enumerate(ranking):
                rows.append((f"9-1_{turn}", docno, score, rank))
        runs[name] = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])
    return runs, pd.DataFrame(judged, columns=["qid", "docno", "label"])


def _by_trec_eval(docs):
    """Rounded scores, which tie, in trec_eval's order: of equal scores the greatest docno first."""
    scored = []
    for place, doc in enumerate(docs):
        scored.append((round(10 - place / 4, 0), f"d{doc}"))
    return sorted(scored, reverse=True)


def direct(run, qrels, names):
    """pytrec_eval called directly, missing turns as zeros."""
    judged = by_turn(qrels, "label")
    found = pytrec_eval.RelevanceEvaluator(judged, set(names)).evaluate(by_turn(run, "score"))
    figures = {}
    for name in names:
        figures[name] = [found.get(qid, {}).get(name, 0.0) for qid in judged]
    return figures


def test_figures_equal_pytrec_eval_over_all_turns_of_the_qrels():
    runs, qrels = random_runs()
    names = {
        "nDCG@5": "ndcg_cut_5",
        "P(rel=1)@20": "P_20",
        "R(rel=1)@20": "recall_20",
        "AP(rel=1)": "map",
    }
    table = evaluate(runs, qrels, list(names)).set_index("name")
    for name, run in runs.items():
        expected = direct(run, qrels, list(names.values()))
        for ours, theirs in names.items():
            assert table.loc[name, ours] == pytest.approx(np.mean(expected[theirs]), abs=1e-12)
    assert table["turns"].tolist() == [30, 30, 30]


def test_a_run_file_gives_the_figures_of_the_frame(tmp_path):
    runs, qrels = random_runs()
    read = {}
    for name, run in runs.items():
        runs[name] = strictly_decreasing(run)
        write_run(run, tmp_path / f"{name}.trec")
        read[name] = read_run(tmp_path / f"{name}.trec")
    first, second = evaluate(runs, qrels), evaluate(read, qrels)
    pd.testing.assert_frame_equal(first, second, rtol=0, atol=1e-9)


def test_per_turn_lists_every_turn_of_the_qrels():
    runs, qrels = random_runs()
    figures = per_turn(runs["three"], qrels, [nDCG @ 5])
    assert figures["qid"].tolist() == qrels["qid"].drop_duplicates().tolist()
    assert figures["nDCG@5"].tolist()[-2:] == [0.0, 0.0]
    assert figures["nDCG@5"].mean() == pytest.approx(
        evaluate({"x": runs["three"]}, qrels, [nDCG @ 5])["nDCG@5"][0]
    )


IMPOSSIBLE = [
    "ERR",
    "NumRel(rel=2)",
    "P",
    "nDCG@0",
    "R@0",
    "nDCG(cutoff=0)",
    "IPrec@0.101",
    "IPrec@1.5",
    "nDCG(gains={1:1.5})",
    "P@1.5",
]
IMPOSSIBLE += [
    "RBP",
    "judged_only",
    "R(rel=0)@5",
    P(rel=0) @ 20,
    AP(rel=0),
    "NumRet(rel=0)",
    nDCG @ 0,
    "P(rel=1+1)@20",
]


@pytest.mark.parametrize("measure", IMPOSSIBLE)
def test_measures_that_cannot_be_computed_or_would_end_trec_eval(measure):
    with pytest.raises(UsageError, match="measure"):
        as_measures([measure])


def first_label(qrels, run):
    return 1.0


@pytest.mark.parametrize("measure", [first_label, nDCG.__class__, 5, None, len])
def test_what_is_no_measure_is_refused_with_its_name(measure):
    name = getattr(measure, "__name__", repr(measure))
    for measures in (measure, [measure], ["nDCG@5", measure]):
        with pytest.raises(UsageError, match=f"the measure {name} is a .*define_byquery"):
            as_measures(measures)


def test_commas_inside_parentheses_do_not_separate_measures():
    found = as_measures("nDCG@5, P(rel=2,judged_only=True)@20,nDCG(gains={0:0,1:2})@3,R@5")
    assert found == [nDCG @ 5, P(rel=2, judged_only=True) @ 20, nDCG(gains={0: 0, 1: 2}) @ 3, R @ 5]


def test_measures_are_read_without_what_newer_pythons_lack(monkeypatch):
    for name in (
        "Num",
        "Str",
        "Bytes",
        "NameConstant",
        "Ellipsis",
        "__getattr__",
    ):  # the last one has the others since Python 3.12
        monkeypatch.delattr(ast, name, raising=False)
    names = [
        "P(rel=2,judged_only=True)@20",
        "nDCG(dcg='exp-log2')@5",
        "Judged@10",
        "nDCG(gains={0:0,1:5})@3",
    ]
    found = as_measures(names)
    assert found[0] == P(rel=2, judged_only=True) @ 20
    assert found[1] == nDCG(dcg="exp-log2") @ 5
    assert found[2]["cutoff"] == 10
    assert found[3]["gains"] == {0: 0, 1: 5}


DOCUMENTED = [
    "Accuracy",
    "Accuracy(cutoff=20)@20",
    "AP",
    "AP@1000",
    "AP(rel=2)",
    "AP(judged_only=True)@1000",
    "AP_IA(rel=1)",
    "BPM",
    "BPM(T=2.0,min_rel=1)@10",
    "Bpref",
    "Bpref(rel=2)",
    "Compat",
    "Compat(p=0.8)",
    "Compat(p=0.8,normalize=False)",
    "ERR",
    "ERR@20",
    "ERR_IA@20",
    "infAP(rel=2)",
    "INSQ",
    "INST",
    "INST(T=1.5,min_rel=1)",
    "IPrec@0.2",
    "IPrec(judged_only=True)@0.0",
    "Judged@10",
    "alpha_DCG@20",
    "alpha_nDCG(alpha=0.25,rel=1)@20",
    "nDCG",
    "nDCG@10",
    "nDCG(judged_only=True)@10",
    "nDCG(dcg='log2')@5",
    'nDCG(dcg="exp-log2")@5',
    "nDCG(gains={0:0,1:2,2:4})@3",
    "NERR8@10",
    "NERR9",
    "NERR10(p=0.8)",
    "NERR11(T=1.5,min_rel=0)",
    "nNRBP",
    "NRBP(alpha=0.5)",
    "NumQ",
    "NumRel",
    "NumRel(rel=2)",
    "NumRet",
    "NumRet(rel=1)",
    "P@5",
    "P(rel=2)@5",
    "P(rel=2,judged_only=True)@20",
    "P_IA@20",
    "R@10",
    "R(rel=2)@1000",
    "RBP",
    "RBP(p=0.8)",
    "RBP(rel=1,p=0.8)@10",
    "Rprec",
    "Rprec(rel=2)",
    "RR",
    "RR@10",
    "RR(rel=2)@10",
    "SDCG@20",
    "SDCG(dcg='log2')@20",
    "SetAP",
    "SetF(beta=0.5)",
    "SetP",
    "SetP(relative=True)",
    "SetR",
    "Success@5",
    "Success(rel=2)@5",
    "STREC@20",
    "STREC(rel=1)@20",
]
"""Measures as ir_measures' documentation writes them.

The pages are measures, getting started and providers.
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="ir_measures 0.4 reads no name there")
@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_measures_name_is_read_as_ir_measures_reads_it(name):
    try:
        expected = ir_measures.parse_measure(name)
    except NameError:  # of another version
        expected = None
    if expected is None:
        with pytest.raises(ValueError, match="has this name"):
            parse_measure(name)
    else:
        assert parse_measure(name) == expected
        assert parse_measure(name).params == expected.params


def test_each_measure_is_read_from_its_own_text():
    for family in ir_measures.measures.registry.values():
        measure = family()
        assert parse_measure(str(measure)) == measure


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "nDCG@", "@5", "nDCG 5", "nDCG@5@10", "nDCG@5, P@5", "nDCG(5)", "nDCG(**{})",
        "nDCG(rel=[1])@5", "P(rel=b'1')@5", "P(rel=1+1)@5", "P(rel=__import__('os'))@5",
        "ir_measures.nDCG@5", "nDCG[5]", "nDCG@5\x00", "nDCG@5; nDCG@5", "P(rel=1,rel=2)@5",
        "ndcg_cut_5x", "x = nDCG@5", "lambda: 1", "nDCG @ cutoff", "nDCG(@5)", "P(rel=...)@5",
    ],
)  # fmt: skip
def test_a_text_that_is_no_measure_is_refused_and_shown(name):
    with pytest.raises(UsageError, match="measure"):
        as_measures([name])


@given(st.text(max_size=30))
def test_any_text_is_a_measure_or_no_value(text):
    with contextlib.suppress(ValueError, TypeError):
        assert isinstance(parse_measure(text), ir_measures.Measure)


def finding(**ranks):
    """A run that has each turn's relevant passage at this rank, counted from 0.

    The passages before it are not judged.
    """
    rows = []
    for qid, at in ranks.items():
        for rank in range(at):
            rows.append((qid, f"bad{rank}", -float(rank), rank))
        rows.append((qid, "good", -float(at), at))
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def test_the_oracle_takes_each_turns_best_run_by_first_measure():
    qrels = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "docno": ["good"] * 3, "label": [1] * 3})
    runs = {
        "one": finding(**{"1_1": 0, "1_2": 1, "1_3": 1}),
        "two": finding(**{"1_1": 1, "1_2": 0, "1_3": 1}),
    }
    table = evaluate(runs, qrels, [P(rel=1) @ 1, nDCG @ 2], baseline="one", oracle=True).set_index(
        "name"
    )
    second = 1 / np.log2(3)
    # both are second on 1_3, where the first run counts
    assert table["P(rel=1)@1"].tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert table["nDCG@2"].tolist() == pytest.approx(
        [(1 + 2 * second) / 3] * 2 + [(2 + second) / 3]
    )
    assert table["turns"].tolist() == [3, 3, 3]
    assert np.isnan(table.loc["oracle", "nDCG@2 p-value"])  # it is tested against none
    assert evaluate(runs, qrels, [nDCG @ 2])["name"].tolist() == ["one", "two"]


def test_the_oracles_other_measures_are_of_the_run_it_takes():
    qrels = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["good", "fair"], "label": [3, 1]})
    early = pd.DataFrame({"qid": ["1_1"], "docno": ["fair"], "score": [1.0], "rank": [0]})
    late = finding(**{"1_1": 1})
    table = evaluate(
        {"early": early, "late": late}, qrels, [P(rel=1) @ 1, R(rel=3) @ 2], oracle=True
    ).set_index("name")
    assert table.loc["oracle"].tolist() == [1.0, 0.0, 1]


def test_measures_by_session_take_the_best_turn_of_each_session():
    qrels = pd.DataFrame(
        {"qid": ["t", "t", "u"], "docno": ["D1:1", "D2:7", "D1:1"], "label": [1, 2, 1]}
    )
    found = ["D3:1", "D3:2", "D1:9", "D2:1", "D2:7"]  # of sessions: D3, D1 (label 1), D2 (label 2)
    run = pd.DataFrame(
        {"qid": "t", "docno": found, "score": [5.0, 4.0, 3.0, 2.0, 1.0], "rank": range(5)}
    )
    scores = per_turn(run, qrels, ["R@2 by session", "R@2", "nDCG@3 by session"]).set_index("qid")
    ideal, ours = 2 + 1 / math.log2(3), 1 / math.log2(3) + 2 / math.log2(4)
    assert scores.columns.tolist() == ["R(rel=1)@2 by session", "R(rel=1)@2", "nDCG@3 by session"]
    assert scores.loc["t"].tolist() == [0.5, 0.0, pytest.approx(ours / ideal)]
    assert scores.loc["u"].tolist() == [0, 0, 0]


def test_a_session_has_the_place_and_label_of_its_best_turn():
    """By hand: s1 is first by its turn s1:1, and relevant by its turn s1:2.

    Turn by turn it is neither.
    """
    qrels = pd.DataFrame({"qid": "1_1", "docno": ["s1:1", "s1:2", "s2:1"], "label": [0, 1, 0]})
    run = pd.DataFrame(
        {
            "qid": "1_1",
            "docno": ["s1:1", "s2:1", "s1:2"],
            "score": [3.0, 2.0, 1.0],
            "rank": [0, 1, 2],
        }
    )
    scores = per_turn(run, qrels, ["P@1 by session", "P@1"])
    assert scores.drop(columns="qid").values.tolist() == [[1.0, 0.0]]


def test_a_measure_of_judged_passages_leaves_the_others_alone():
    measures = as_measures("P(judged_only=True)@2, NumRet")
    evaluator = Evaluator({"1_1": {"b": 1, "c": 0}}, measures)
    scores = evaluator.per_turn("mine", {"1_1": {"a": 3.0, "b": 2.0, "c": 1.0}})
    assert list(scores.values()) == [[0.5], [3.0]]


def test_other_providers_get_the_best_passage_first():
    evaluator = Evaluator({"1_1": {"a": 1, "z": 0}}, as_measures("Judged@1"))
    assert evaluator.per_turn("mine", {"1_1": {"b": 1.0, "a": 2.0}}) == {"Judged@1": [1.0]}
    assert evaluator.per_turn("mine", {"1_1": {"b": 2.0, "a": 1.0}}) == {"Judged@1": [0.0]}
