"""The names of measures, measures of a file, and what is refused as none."""

import ast
import contextlib
import sys

import ir_measures
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG
from small_frames import TWO_TURNS, qrels, run

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import per_turn
from pyterrier_ikat.evaluation.evaluator import (
    BySession,
    Evaluator,
    as_measures,
    computable,
    label,
    parse_measure,
    provider_of,
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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nDCG@5", "nDCG@5"),
        ("AP", "AP(rel=1)"),
        ("P(rel=2)@5", "P(rel=2)@5"),
        ("nDCG(gains={0: 1, 1: 3})@5", "nDCG(gains={0:1,1:3})@5"),
        ("IPrec@0.25", "IPrec(rel=1)@0.25"),
        ("IPrec@0.0", "IPrec(rel=1)@0.0"),
        ("IPrec@1.0", "IPrec(rel=1)@1.0"),
        ("NumRet", "NumRet"),
        ("SetP(relative=True)", "SetP(relative=True,rel=1)"),
        ("Success@5 by session", "Success(rel=1)@5 by session"),
    ],
)
def test_a_measures_label_has_its_level_and_is_read_again(text, name):
    [measure] = as_measures(text)
    assert label(measure) == name
    assert [label(again) for again in as_measures([name])] == [name]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nDCG*5", "'nDCG.5' is unknown"),
        ("AP(1)", "is unknown"),
        ("P(rel=[1])@5", "is unknown"),
        ("P(rel=)@5", "is unknown"),
        ("P@0", "the cutoff 0: give one from 1 on, such as P@20"),
        ("P(rel=0)@5", "the relevance level 0"),
        ("P", "has no cutoff"),
        ("IPrec@1.01", "the recall 1.01"),
        ("IPrec@-0.5", "the recall -0.5"),
        ("IPrec@0.125", "the recall 0.125: give one from 0 to 1 with two decimals"),
        ("nDCG(gains={1: 2.5})@5", "the gain 2.5"),
        ("nDCG(gains={1: True})@5", "the gain True"),
        ("P@0 by session", "the cutoff 0"),
        ("Nonsense by session", "'Nonsense' is unknown"),
        ("", "'' is unknown"),
        ("NumQ@5", "'NumQ@5' has no cutoff, or a parameter that is unknown"),
        ("nDCG(gains={[1]: 2})@5", "is unknown: write it as"),
    ],
)
def test_a_measure_that_would_mean_another_is_refused(text, told):
    with pytest.raises(UsageError, match=told):
        as_measures([text])


def test_measures_come_singly_in_lists_and_texts_each_once():
    assert as_measures(nDCG @ 5) == as_measures("nDCG@5") == as_measures((nDCG @ 5, "nDCG@5"))
    texts = " AP ,P(rel=1,judged_only=True)@5, AP(rel=1)"
    assert list(map(label, as_measures(texts))) == ["AP(rel=1)", "P(judged_only=True,rel=1)@5"]
    for none in ([], ()):
        with pytest.raises(UsageError, match="there is no measure"):
            as_measures(none)
    for what, name in ((5, "5 is a int"), (len, "len is a builtin"), ([nDCG, 3.5], "3.5 is a fl")):
        with pytest.raises(
            UsageError, match=f"the measure {name}.*: give a measure of ir_measures"
        ):
            as_measures(what)
    for what in (nDCG(depth=1), P(depth=1) @ 5):
        assert label(what) == what.NAME
        with pytest.raises(
            UsageError, match=f"'{what.NAME}' has no cutoff, or a parameter that is"
        ):
            as_measures(what)
    names = ["Mine", "P@0", "nDCG@5", "P(rel=2,judged_only=True)@5", "AP"]
    assert list(map(label, computable(names))) == [
        "nDCG@5",
        "P(rel=2,judged_only=True)@5",
        "AP(rel=1)",
    ]
    with pytest.raises(ValueError, match="no measure of ir_measures has this name"):
        parse_measure("len(rel=1)")
    with pytest.raises(ValueError, match="each parameter has a name"):
        parse_measure("P(**{'rel': 2})@5")


def test_a_name_of_trec_eval_for_many_measures_means_three():
    with pytest.raises(UsageError, match="did you mean nDCG@5, nDCG@10, nDCG@15 and 6 more"):
        as_measures(["ndcg_cut"])


def test_a_measure_that_nothing_computes_names_the_provider(monkeypatch):
    for provider in ir_measures.DefaultPipeline.providers:
        monkeypatch.setattr(provider, "is_available", lambda: False)
    with pytest.raises(UsageError, match="'Judged@5' can't be computed here .it needs judged"):
        as_measures(["Judged@5"])


def test_the_first_provider_that_is_there_computes_a_measure(monkeypatch):
    assert provider_of(RR).NAME == "pytrec_eval"
    monkeypatch.setattr(ir_measures.pytrec_eval, "is_available", lambda: False)
    assert provider_of(RR).NAME != "pytrec_eval"
    [measure] = as_measures("RR")
    assert measure == RR
    assert provider_of(BySession(P @ 5)) is None


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("nDGC@5", "nDCG@5"),
        ("nDGC(dcg='exp-log2')@3", "nDCG(dcg='exp-log2')@3"),
        ("Sucess@1", "Success@1"),
        ("Rprecc(rel=2)", "Rprec(rel=2)"),
        ("APP", "AP"),
        ("ndcg_cut_5", "nDCG@5"),
    ],
)
def test_a_mistyped_measure_means_a_usable_one(mistyped, meant):
    with pytest.raises(UsageError) as caught:
        as_measures([mistyped])
    assert f"is unknown: did you mean {meant}? write it" in str(caught.value)
    assert len(as_measures([meant])) == 1


@pytest.mark.parametrize("unknown", ["nDCG@@3", "zzz@3"])
def test_nothing_is_meant_by_a_known_name_or_one_like_no_other(unknown):
    with pytest.raises(UsageError, match="is unknown: write it"):
        as_measures([unknown])


# Measures of a file


@pytest.fixture
def own(tmp_path):
    """A file with a function, a measure of ir_measures, and a number."""
    path = tmp_path / "mine.py"
    text = "from ir_measures import P\n"
    text += "def found(qrels, run):\n    return len(run) + len(qrels) / 10\n"
    text += "early = P(rel=2) @ 1\nbad = P @ 0\nnumber = 3\n"
    path.write_text(text)
    return path


def test_a_users_function_gets_judgements_and_passages(own):
    """By hand: two passages and two judgements, one and one, and a turn that found nothing."""
    judged = pd.concat([TWO_TURNS, qrels(("1_3", "d", 1))])
    scores = per_turn(run(**{"1_1": "a z", "1_2": "z"}), judged, [f"{own}:found"])
    assert scores.set_index("qid")["found"].to_dict() == {"1_1": 2.2, "1_2": 1.1, "1_3": 0.0}


def test_a_measure_in_a_file_is_read_and_checked(own):
    [early] = as_measures(f"{own}:early")
    assert (early["rel"], early["cutoff"]) == (2, 1)
    for name, told in [
        ("bad", "has the cutoff 0"),
        ("number", "has no measure number"),
        ("none", "has no measure none"),
    ]:
        with pytest.raises(UsageError, match=told):
            as_measures(f"{own}:{name}")


def test_a_users_function_that_fails_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def broken(qrels, run):\n    return 1 / 0\n")
    with pytest.raises(DataError, match="broken .*stops with ZeroDivisionError.* gets two frames"):
        per_turn(run(**{"1_1": "a"}), TWO_TURNS, [f"{tmp_path / 'mine.py'}:broken"])


def test_a_measure_of_a_file_has_the_name_that_was_given(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def found(qrels, run):\n    return 1.0\n\n\nalias = found\n")
    [measure] = as_measures(f"{path}:alias")
    assert Evaluator({"1_1": {"a": 1}}, [measure]).per_turn("x", {"1_1": {"a": 1.0}}) == {
        "alias": [1.0]
    }


def test_a_file_of_measures_may_have_colons_in_its_path(tmp_path, monkeypatch):
    (tmp_path / "a:b").mkdir()
    path = tmp_path / "a:b" / "mine.py"
    path.write_text("from ir_measures import P\nearly = P(rel=2) @ 1\nbad = P @ 0\n")
    assert as_measures([f"{path}:early"]) == as_measures("P(rel=2)@1")
    monkeypatch.chdir(path.parent)
    assert as_measures(["mine.py:early"]) == as_measures("P(rel=2)@1")
    with pytest.raises(UsageError, match="the cutoff 0"):
        as_measures([f"{path}:bad"])
    with pytest.raises(UsageError, match="mine.py has no measure late: write a function late"):
        as_measures([f"{path}:late"])
