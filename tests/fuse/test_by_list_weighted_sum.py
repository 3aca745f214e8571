"""Weighted sums of scores, against exact fractions, examples worked by hand, and ranx."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import (
    TURNS,
    Finds,
    expanded,
    frame_of,
    orders,
    plain_sums,
    without,
)
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError

WEIGHTS = {0: 1.0, 1: 0.1, 2: 0.0, 3: 2.5}


def are_all_weighted(rows):
    """Whether each turn has a sub-query that counts."""
    turns = {row[0] for row in rows}
    weighted = {row[0] for row in rows if WEIGHTS[row[1]] > 0}
    return turns == weighted


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["9-1_1", "9-1_2"]),
        st.sampled_from([0, 1, 2, 3]),
        st.sampled_from("abcdef"),
        st.integers(0, 4),
        st.sampled_from([-3.0, 0.0, 1.0, 1.5, 2.0, 7.25]),
    ),
    max_size=40,
).filter(are_all_weighted)


def list_of(turn, sub, rows):
    """The list of a sub-query: (docno, score) by rank, of equal ranks by docno.

    Repeats of a passage with the same rank are in the order of the rows.
    """
    of_sub = [row for row in rows if row[:2] == (turn, sub)]
    of_sub.sort(key=lambda row: (row[3], row[2]))
    return [(docno, score) for _, _, docno, _, score in of_sub]


@pytest.mark.parametrize("normalise", ["min-max", "none"])
@given(rows=ROWS, random=st.randoms(use_true_random=False), cut=st.none() | st.integers(1, 5))
def test_sums_are_exact_fractions_in_any_row_order_with_ties(normalise, rows, random, cut):
    shuffled = random.sample(rows, len(rows))
    fused = ikat.WeightedSum(normalise=normalise, num_results=cut)(frame_of(shuffled, WEIGHTS))
    for turn, found in fused.groupby("qid"):
        subs = sorted({sub for qid, sub, *_ in rows if qid == turn})
        lists = [list_of(turn, sub, shuffled) for sub in subs]
        expected = plain_sums(lists, [WEIGHTS[sub] for sub in subs], normalise)
        assert found["docno"].tolist() == list(expected)[:cut]
        assert found["score"].tolist() == pytest.approx(
            list(expected.values())[:cut], rel=1e-5, abs=1e-5
        )
        assert (np.diff(found["score"].astype(np.float32)) < 0).all()
        assert found["rank"].tolist() == list(range(len(found)))
    assert set(fused["qid"]) == {row[0] for row in rows}


LISTS = [[("a", 12.0), ("b", 9.0), ("c", 8.0)], [("b", 0.75), ("d", 0.5), ("a", 0.25)]]


def finds(found):
    passages = pd.DataFrame(found, columns=["docno", "score"]).assign(rank=range(len(found)))
    return pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))


def fused_by_hand(*lists, **options):
    fused = ikat.WeightedSum(*map(finds, lists), **options)(TURNS.head(1))
    return dict(zip(fused["docno"], fused["score"], strict=True))


def test_min_max_is_worked_out_by_hand():
    # a: 1 and 0; b: (9 - 8) / (12 - 8) = .25 and 1; c: 0; d: (.5 - .25) / (.75 - .25) = .5
    assert fused_by_hand(*LISTS) == pytest.approx({"b": 1.25, "a": 1.0, "d": 0.5, "c": 0.0})
    assert fused_by_hand(*LISTS, weights=[3, 1]) == pytest.approx(
        {"a": 3.0, "b": 1.75, "d": 0.5, "c": 0.0}
    )
    # a and c have 0; a stands in the better rank
    assert list(fused_by_hand(*LISTS, weights=[0, 1])) == ["b", "d", "a", "c"]


def test_raw_scores_give_a_missing_passage_the_lists_least():
    # a: 12 + .1 * .25; b: 9 + .1 * .75; c: 8 + .1 * .25 (missing); d: 8 (missing) + .1 * .5
    expected = {"a": 12.025, "b": 9.075, "d": 8.05, "c": 8.025}
    assert fused_by_hand(*LISTS, weights=[1, 0.1], normalise="none") == pytest.approx(expected)
    sums = fused_by_hand([("a", -1.0), ("b", -3.0)], [("c", -5.0)], normalise="none")
    assert sums == pytest.approx({"a": -6.0, "c": -8.0, "b": -8.0})


def test_equal_sums_of_different_scores_tie_and_go_by_best_rank():
    # .1 + .2 of b and .3 of x: in floating point the first is more; x stands second, b third and
    # fourth.
    first = [("top", 1.0), ("x", 0.3), ("b", 0.1), ("end", 0.0)]
    second = [("other", 1.0), ("y", 0.9), ("z", 0.8), ("b", 0.2), ("last", 0.0)]
    assert 0.1 + 0.2 > 0.3
    order = list(fused_by_hand(first, second))
    assert order.index("x") < order.index("b")


def test_a_branch_that_drops_the_column_of_weights_is_told():
    turns = TURNS.assign(level="easy")
    drop = pt.apply.generic(lambda rows: rows.drop(columns="level"))
    branch = Finds({"t": "xy", "u": "xy"}) >> drop
    fusion = ikat.WeightedSum(branch, branch, by="level", weights={"easy": [1, 2]})
    with pytest.raises(ikat.DataError, match="no column level, which decides the weights"):
        fusion(turns)


def test_a_system_finding_nothing_leaves_the_others_weights():
    system = ikat.WeightedSum(Finds({"t": "xy"}), Finds({"t": "yz", "u": "yz"}), weights=[1, 2])
    with pytest.warns(
        ikat.retrieve.NoResultWarning, match="branch 1 of WeightedSum found no passage for 1 turn"
    ):
        fused = system(TURNS)
    assert fused[["qid", "docno", "score"]].values.tolist()[-2:] == [
        ["u", "y", 2.0],
        ["u", "z", 0.0],
    ]


def test_it_equals_ranx_where_each_list_has_several_scores():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, at import
        from ranx import Run, fuse

        random = np.random.default_rng(3)
        weights = [1.0, 0.1, 0.4]
        lists = []
        for _ in weights:
            numbers = random.choice(30, 20, replace=False)
            scores = sorted(random.normal(size=20), reverse=True)
            lists.append(
                [(f"d{n}", float(score)) for n, score in zip(numbers, scores, strict=True)]
            )
        runs = [Run({"t": dict(scores)}) for scores in lists]
        options = {"norm": "min-max", "method": "wsum", "params": {"weights": weights}}
        theirs = fuse(runs, **options).to_dict()["t"]
    found = fused_by_hand(*lists, weights=weights)
    # ranx rounds nothing, and equal scores aren't parted
    assert found == pytest.approx(dict(theirs), abs=1e-6)
    assert len(found) > 25


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_finite_32_bit_float_is_refused(score):
    with pytest.raises(
        ikat.DataError, match=r"WeightedSum.* gave the score .* to passage d of turn t: only finite"
    ):
        fused_by_hand([("a", 1.0)], [("b", 2.0), ("d", score)])
    rows = [("9-1_1", 0, "a", 0, 1.0), ("9-1_1", 1, "b", 0, score)]
    with pytest.raises(
        ikat.DataError, match=r"WeightedSum.* gave the score .* to passage b of turn 9-1_1::1"
    ):
        ikat.WeightedSum()(frame_of(rows))


def test_the_largest_scores_and_weights_stay_apart():
    largest = float(np.finfo(np.float32).max)
    for normalise in ("min-max", "none"):
        lists = [[("a", largest), ("b", 0.0), ("c", -largest)]] * 2
        found = fused_by_hand(*lists, weights=[largest, largest], normalise=normalise)
        assert list(found) == ["a", "b", "c"]
        with np.errstate(over="ignore"):
            assert len(set(np.array(list(found.values()), dtype=np.float32))) == 3


@pytest.mark.parametrize("weights", [[], [1], [1, 2, 3], [1, -1], [0, 0], [1, float("nan")]])
def test_weights_that_are_not_one_number_per_branch_are_refused(weights):
    with pytest.raises(
        ikat.UsageError,
        match=r"weights=.*: give one number for each of the 2 branches, 0 or more, and one above 0",
    ):
        ikat.WeightedSum(finds([]), finds([]), weights=weights)


def test_a_cut_behind_it_becomes_its_own():
    fused = ikat.WeightedSum(
        Finds({"t": "xyz"}), Finds({"t": "zw"}), weights=[1, 2], normalise="none"
    )
    cut = (fused % 2).compile()
    assert cut == ikat.WeightedSum(*fused.branches, weights=[1, 2], normalise="none", num_results=2)
    pd.testing.assert_frame_equal(
        cut(TURNS.head(1)), (fused % 2)(TURNS.head(1)).reset_index(drop=True)
    )


BY_LEVEL = {"weights": {"first": (1, 0), "second": (0, 1)}, "by": "qlevel"}


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_the_weights_of_a_turn_are_those_of_its_value():
    levels = TURNS.assign(qlevel=["first", "second"])
    branches = [Finds({"t": "xy", "u": "xy"}), Finds({"t": "yx", "u": "yx"})]
    fused = ikat.WeightedSum(*branches, **BY_LEVEL)
    for turns in (levels, levels[::-1].reset_index(drop=True)):
        assert orders(fused(turns)) == {"t": ["x", "y"], "u": ["y", "x"]}
    nothing = ikat.WeightedSum(Finds({"t": "xy"}), Finds({"u": "yx"}), **BY_LEVEL)(levels)
    assert nothing[["qid", "docno", "score"]].values.tolist() == [
        ["t", "x", 1.0],
        ["t", "y", 0.0],
        ["u", "y", 1.0],
        ["u", "x", 0.0],
    ]
    cut = (fused % 1).compile()
    assert cut == ikat.WeightedSum(*branches, **BY_LEVEL, num_results=1)
    assert cut(levels)["docno"].tolist() == ["x", "y"]


def test_a_value_without_weights_is_named_with_the_others():
    fused = ikat.WeightedSum(Finds({"t": "x"}), Finds({"t": "y"}), **BY_LEVEL)
    with pytest.raises(ikat.DataError, match="qlevel 'third'.*first, second"):
        fused(TURNS[:1].assign(qlevel="third"))


@pytest.mark.parametrize(
    "given",
    [
        {"weights": (1, 2), "by": "qlevel"},
        {"weights": {"first": (1, 2)}},
        {"by": "qlevel"},
        {"weights": {"first": (1, 2), "second": (1,)}, "by": "qlevel"},
        {"weights": {"first": (1, 2), "second": (0, 0)}, "by": "qlevel"},
        {"weights": (1, float("inf"))},
    ],
)
def test_weights_by_a_column_are_complete(given):
    with pytest.raises(ikat.UsageError, match="weights="):
        ikat.WeightedSum(Finds({}), Finds({}), **given)


def test_the_weights_of_a_sum_by_a_column_of_the_turn_by_hand():
    turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["a", "b"], "qlevel": ["a", "c"]})
    summed = ikat.WeightedSum(
        finds([("x", 2.0), ("y", 1.0)]),
        finds([("y", 4.0), ("z", 3.0)]),
        weights={"a": (1, 0), "c": (0.5, 2)},
        by="qlevel",
        normalise="none",
    )(turns)
    # a missing passage counts the list's least: 1 and 3
    assert summed[summed["qid"] == "1_1"].set_index("docno")["score"].round(6).to_dict() == {
        "x": 2.0,
        "y": 1.0,
        "z": pytest.approx(1.0),
    }
    assert summed[summed["qid"] == "1_2"].set_index("docno")["score"].round(6).to_dict() == {
        "y": 8.5,
        "x": 7.0,
        "z": 6.5,
    }


def test_weights_by_a_column_are_checked():
    lists = (finds([("x", 2.0)]), finds([("y", 4.0)]))
    for options in (
        {"weights": {"a": (1, 2)}},
        {"by": "qlevel"},
        {"weights": (1, 2), "by": "qlevel"},
    ):
        with pytest.raises(
            UsageError, match="give both weights={value: numbers} and by=COLUMN, or numbers alone"
        ):
            ikat.WeightedSum(*lists, **options)
    with pytest.raises(UsageError, match="give one number for each of the 2 branches"):
        ikat.WeightedSum(*lists, weights={"a": (1,)}, by="qlevel")
    summed = ikat.WeightedSum(*lists, weights={"a": (1, 2), "b": (2, 1)}, by="qlevel")
    turn = pd.DataFrame({"qid": ["1_1"], "query": ["a"]})
    with pytest.raises(
        DataError, match="a turn has qlevel 'd', for which there are no weights: there are a, b"
    ):
        summed(turn.assign(qlevel="d"))
    assert "by='qlevel'" in repr(summed % 5)


def test_an_unknown_scale_is_refused():
    with pytest.raises(ikat.UsageError, match="normalise='max'"):
        ikat.WeightedSum(normalise="max")


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_a_branch_without_passages_may_lack_the_weights():
    names = ["qid", "query", "docno", "score", "rank", "text"]
    nothing = pt.apply.generic(lambda rows: pd.DataFrame({name: [] for name in names}))
    turns = TURNS[:1].assign(qlevel="second")
    found = ikat.WeightedSum(nothing, Finds({"t": "xy"}), **BY_LEVEL)(turns)
    assert found[["docno", "score"]].values.tolist() == [["x", 1.0], ["y", 0.0]]


def test_sums_of_negative_scores_that_differ_by_rounding_tie():
    """Both are -1.3. Above the lists' least scores, -9, the sum of y is more in its last bit."""
    first = [("top", 0.0), ("x", -0.5), ("y", -0.7), ("end", -9.0)]
    second = [("top", 0.0), ("x", -0.1), ("y", -0.1), ("end", -9.0)]
    third = [("top", 0.0), ("y", -0.5), ("x", -0.7), ("end", -9.0)]
    found = fused_by_hand(first, second, third, normalise="none")
    assert list(found) == ["top", "x", "y", "end"]


def test_equal_sums_of_large_scores_tie():
    """.1 + .2 and .3 + 0 above two millions, of which 64 bits keep nine decimals."""
    least = 1e6
    first = [("top", least + 1), ("x", least + 0.1), ("y", least + 0.3), ("end", least)]
    second = [("top", least + 1), ("x", least + 0.2), ("y", least), ("end", least)]
    assert (least + 0.1 - least) + (least + 0.2 - least) < least + 0.3 - least
    found = fused_by_hand(first, second, normalise="none")
    assert list(found) == ["top", "x", "y", "end"]


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_weights_by_a_column_of_numbers_are_found_and_named():
    turns = TURNS.assign(qturn=[1, 2])
    branches = [Finds({"t": "xy", "u": "xy"}), Finds({"t": "yx", "u": "yx"})]
    fused = ikat.WeightedSum(*branches, weights={1: (1, 0), 2: (0, 1)}, by="qturn")
    assert fused(turns)["docno"].tolist() == ["x", "y", "y", "x"]
    with pytest.raises(ikat.DataError, match="qturn 3, for which .*: there are 1, 2$"):
        fused(turns.assign(qturn=[1, 3]))


def test_the_second_turn_without_weights_is_named():
    fused = ikat.WeightedSum(Finds({"t": "x", "u": "x"}), Finds({"t": "y", "u": "y"}), **BY_LEVEL)
    with pytest.raises(ikat.DataError, match="qlevel 'third'"):
        fused(TURNS.assign(qlevel=["first", "third"]))
    with pytest.raises(ikat.UsageError, match="weights=.*'qlevel'"):
        ikat.WeightedSum(Finds({}), Finds({}), weights=[1, 2], by="qlevel")


def test_every_branch_gives_the_scores_that_are_summed():
    branches = Finds({"t": "x"}), Finds({"t": "y"}) >> without("score")
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        ikat.WeightedSum(*branches)(TURNS)
    assert len(ikat.RRF(*branches)(TURNS[:1])) == 2


@pytest.mark.parametrize("lacking", ["query", "rank", "docno", "qsub", "query_0", "score"])
def test_columns_that_a_fusion_needs_are_named(lacking):
    frame = expanded({"t": ["ab"]})
    with pytest.raises((DataError, ValueError), match=lacking):
        ikat.WeightedSum()(frame.drop(columns=lacking))


TestWeightedSum = pt.testing.transformer_test_class(ikat.WeightedSum)
TestWeightedSumOfSystems = pt.testing.transformer_test_class(
    lambda: ikat.WeightedSum(Finds({}), Finds({}), weights=[1, 2])
)
