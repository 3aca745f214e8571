"""Bringing the lists of sub-queries back to their turns.

Against plain definitions in exact fractions, and worked examples.
"""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import Table, expanded, frame_of, orders, plain_rrf, round_robin, rrf_sums
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import numbered
from pyterrier_ikat.fuse.subqueries import read_lists

FUSIONS = [
    ikat.Interleave(),
    ikat.Union(),
    ikat.RRF(),
    ikat.WeightedSum(),
    ikat.RerankAgainst(Table(), "qanswer"),
    ikat.MeanScore([Table()]),
]
EVERY_FUSION = pytest.mark.parametrize("fusion", FUSIONS, ids=lambda fusion: type(fusion).__name__)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["9-1_1", "9-1_2", "9-1_10"]),
        st.integers(0, 3),
        st.sampled_from("abcdefg"),
        st.integers(0, 4),
    ),
    max_size=40,
)
"""In any order, with ties, repeats and missing lists."""


def plain_lists(rows):
    """turn -> the docnos of its lists, by rank and then docno, in the order of the sub-queries."""
    lists = {turn: [] for turn, *_ in rows}
    subs = sorted({(turn, sub) for turn, sub, *_ in rows})
    for turn, sub in subs:
        of_sub = [(rank, docno) for *key, docno, rank in rows if key == [turn, sub]]
        lists[turn].append([docno for _, docno in sorted(of_sub)])
    return lists


@given(ROWS, st.integers(1, 12))
def test_orders_equal_the_plain_definitions_for_any_row_order(rows, cut):
    found = frame_of(rows)
    lists = plain_lists(rows)
    read = read_lists(found)
    for turn, of_turn in zip(read.turns(), lists.values(), strict=True):
        assert [turn.docno[part].tolist() for part in turn.lists] == of_turn
    assert [rows[row][2] for row in read.row] == read.docno.tolist()
    before = found.copy()
    for plain, whole, short in (
        (round_robin, ikat.Interleave(num_results=None), ikat.Union(num_results=cut)),
        (plain_rrf, ikat.RRF(num_results=None), ikat.RRF(num_results=cut)),
    ):
        wanted = {turn: plain(of_turn) for turn, of_turn in lists.items()}
        assert orders(whole(found)) == wanted
        assert orders(short(found)) == {turn: docnos[:cut] for turn, docnos in wanted.items()}
    for turn, of_turn in ikat.RRF()(found).groupby("qid"):
        exact = rrf_sums(lists[turn])
        sums = [float(exact[docno]) for docno in of_turn["docno"]]
        assert of_turn["score"].tolist() == pytest.approx(sums, rel=1e-5)
        assert (np.diff(of_turn["score"].astype(np.float32)) < 0).all()
    pd.testing.assert_frame_equal(found, before)


@given(ROWS)
def test_a_frame_that_is_not_expanded_has_one_list_per_turn(rows):
    ranks = {(turn, docno): rank for turn, _, docno, rank in rows}
    rows = [(turn, 0, docno, rank) for (turn, docno), rank in ranks.items()]
    found = frame_of(rows)
    found["qid"] = found["qid_0"]
    plain = found.drop(columns=["qid_0", "qsub", "query_0"])
    wanted = {turn: lists[0] for turn, lists in plain_lists(rows).items()}
    for operator in (ikat.Interleave(num_results=None), ikat.RRF(num_results=None)):
        assert orders(operator(plain)) == wanted


def test_interleaved_scores_count_down_to_one():
    fused = ikat.Interleave()(expanded({"t": [["a", "b"], ["c"]], "u": [["a"]]}))
    wanted = [["t", "a", 3.0, 0], ["t", "c", 2.0, 1], ["t", "b", 1.0, 2], ["u", "a", 1.0, 0]]
    assert fused[["qid", "docno", "score", "rank"]].values.tolist() == wanted


def test_a_later_sub_query_in_the_first_row_comes_second():
    fused = ikat.Interleave()(frame_of([("t", 1, "b", 0), ("t", 0, "a", 1)]))
    assert fused["docno"].tolist() == ["a", "b"]


def test_rrf_ties_go_by_best_rank_then_sub_query():
    # 1/61 for b and c; a has 1/62 twice, which is more; d and e have 1/63.
    fused = ikat.RRF()(expanded({"t": [["c", "a", "d"], ["b", "a", "e"]]}))
    assert fused["docno"].tolist() == ["a", "c", "b", "d", "e"]
    assert fused["score"].tolist() == pytest.approx([2 / 62, 1 / 61, 1 / 61, 1 / 63, 1 / 63])
    assert fused["score"].is_unique
    # 1/10 + 1/15 is 1/6, in floating point one step more: the passage that is 6th in one list has
    # the better rank and comes first.
    lists = [[f"x{n}" for n in range(20)], [f"y{n}" for n in range(20)]]
    lists[0][5] = "single"
    lists[0][9] = "double"
    lists[1][14] = "double"
    assert 1 / 10 + 1 / 15 > 1 / 6
    order = ikat.RRF(k=0, num_results=None)(expanded({"t": lists}))["docno"].tolist()
    assert order.index("single") < order.index("double")


def test_rrf_equals_ranx_where_no_sums_tie():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, at import and compilation
        from ranx import Run, fuse

        turns = {
            "t": [["a", "b", "c", "d"], ["b", "a", "e"]],
            "u": [["x", "y", "z"], ["z", "w", "y"]],
        }
        of_first_lists = {"t": {"a": 4, "b": 3, "c": 2, "d": 1}, "u": {"x": 3, "y": 2, "z": 1}}
        of_second_lists = {"t": {"b": 3, "a": 2, "e": 1}, "u": {"z": 3, "w": 2, "y": 1}}
        runs = [Run(of_first_lists), Run(of_second_lists)]
        combined = fuse(runs, method="rrf", params={"k": 60}).to_dict()
    fused = ikat.RRF()(expanded(turns))
    for turn, rows in fused.groupby("qid"):
        scores = dict(zip(rows["docno"], rows["score"], strict=True))
        assert scores == pytest.approx(dict(combined[turn]), rel=1e-6)


def test_docnos_may_be_numbers():
    found = expanded({"t": [["a", "b"], ["b", "c"]]})
    found["docno"] = pd.Series([7, 5, 5, "c"], dtype=object)
    assert ikat.RRF()(found)["docno"].tolist() == [5, 7, "c"]
    assert ikat.Interleave()(found)["docno"].tolist() == [7, 5, "c"]


@EVERY_FUSION
def test_the_turn_gets_qid_and_query_back_and_what_queries_found(fusion):
    history = [{"role": "user", "content": "tea?"}]
    found = expanded({"t": [["a", "b"], [], ["a"]], "u": [["c"], []]}).assign(
        query_1="raw", query_vec=0, query_toks=0, qweight=1.0
    )
    found["qhistory"] = [history] * len(found)
    fused = fusion(found)
    assert fused["qid"].tolist() == ["t", "t", "u"]
    assert fused["query"].tolist() == ["t?", "t?", "u?"]
    assert fused["query_0"].unique().tolist() == ["raw"]
    assert set(fused.columns) == {
        "qid",
        "query",
        "query_0",
        "docno",
        "score",
        "rank",
        "text",
        "qanswer",
        "qhistory",
        "qfound",
    }
    assert fused["qfound"].tolist() == [[2, 0, 1], [2, 0, 1], [1]]
    assert fused.columns[0] == "qid"
    assert all(value is history for value in fused["qhistory"])
    assert fused["text"].tolist() == ("text of " + fused["docno"]).tolist()


@EVERY_FUSION
@pytest.mark.parametrize(
    ("stages", "subs"), [(0, ["a", "b"]), (2, ["a", "b"]), (2, ["a"]), (2, [])]
)
def test_the_turns_query_returns_over_stages_pushing_their_own(fusion, stages, subs):
    turns = pd.DataFrame(
        {
            "qid": ["1_1", "1_2"],
            "query": ["which tea?", "which tram?"],
            "query_0": ["it?", "that?"],
        },
        dtype=object,
    )
    found = ikat.ExplodeQueries()(turns.assign(qsubqueries=[subs, subs], qanswer="yes"))
    for _ in range(stages):
        found = pt.apply.query(lambda row: f"{row['query']} caffeine")(found)
    passages = pd.DataFrame({"docno": ["x", "y"], "rank": [0, 1], "score": [2.0, 1.0], "text": "t"})
    fused = fusion(found.merge(passages, how="cross"))
    assert fused.drop_duplicates("qid")[["qid", "query"]].values.tolist() == [
        ["1_1", "which tea?"],
        ["1_2", "which tram?"],
    ]
    if subs:
        assert fused["query_0"].unique().tolist() == ["it?", "that?"]
        assert not {"query_1", "query_2", "query_3", "qquery"} & set(fused.columns)


@pytest.mark.parametrize("dropped", [[], ["qquery"]])
def test_a_sub_query_like_the_turns_own_is_not_taken_for_it(dropped):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["mint"], "qsubqueries": [["mint"]]})
    exploded = ikat.ExplodeQueries()(turns).drop(columns=dropped)
    passages = pd.DataFrame({"docno": ["x"], "rank": [0]})
    found = pt.apply.query(lambda row: "mint tea")(exploded).merge(passages, how="cross")
    fused = ikat.RRF()(found)
    assert fused["query"].tolist() == ["mint"]
    assert not [name for name in fused.columns if name.startswith("query_")]


def test_a_frame_without_the_turns_own_query_or_qid_is_refused():
    found = frame_of([("9-1_1", 0, "a", 0), ("9-1_1", 1, "b", 0)])
    message = (
        "the turns' own queries aren't in the frame: behind ExplodeQueries, keep its columns qquery"
    )
    for wrong in ({"query_0": ["a", "b"]}, {"qquery": "another"}):
        with pytest.raises(ikat.DataError, match=message):
            ikat.Interleave()(found.assign(**wrong))
    for missing in (None, float("nan")):
        qids = pd.Series(["9-1_1", missing], dtype=object)
        with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
            ikat.Interleave()(found.assign(qid_0=qids))


@given(st.lists(st.sampled_from("abcde")))
def test_turns_are_numbered_by_their_first_occurrence(qids):
    numbers = {qid: number for number, qid in enumerate(dict.fromkeys(qids))}
    assert numbered(np.array(qids, dtype=object)).tolist() == [numbers[qid] for qid in qids]


@pytest.mark.parametrize("cls", [ikat.Interleave, ikat.Union, ikat.RRF, ikat.WeightedSum])
def test_num_results_below_one_or_negative_constants_are_refused(cls):
    with pytest.raises(ikat.UsageError, match="num_results=0: give 1 or more"):
        cls(num_results=0)
    for constant in (-1, float("nan")):
        with pytest.raises(ikat.UsageError, match=f"k={constant}: the constant"):
            ikat.RRF(k=constant)


@pytest.mark.parametrize(
    ("operator", "other", "written"),
    [
        (ikat.RRF(k=10.0, num_results=None), ikat.RRF(), "ikat.RRF(k=10, num_results=None)"),
        (ikat.Union(), ikat.Interleave(), "ikat.Union()"),
        (
            ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer", 10),
            ikat.RerankAgainst(ikat.CrossEncoder("m"), "query", 10),
            "ikat.RerankAgainst(ikat.CrossEncoder('m'), 'qanswer', num_results=10)",
        ),
        (
            ikat.MeanScore((ikat.BiEncoder("m"), ikat.BiEncoder("n")), 10),
            ikat.MeanScore([ikat.BiEncoder("m")], 10),
            "ikat.MeanScore([ikat.BiEncoder('m'), ikat.BiEncoder('n')], num_results=10)",
        ),
        (
            ikat.WeightedSum(
                ikat.RawUtterance(), ikat.AllUtterances(), weights=[1, 0.5], normalise="none"
            ),
            ikat.WeightedSum(
                ikat.RawUtterance(), ikat.AllUtterances(), weights=[1, 0.6], normalise="none"
            ),
            (
                "ikat.WeightedSum(ikat.RawUtterance(), ikat.AllUtterances(), weights=(1, 0.5),"
                " normalise='none')"
            ),
        ),
    ],
)
def test_operators_are_values(operator, other, written):
    assert repr(operator).replace("k=10.0", "k=10") == written
    assert eval(written) == operator != other
    assert hash(eval(written)) == hash(operator)


def test_a_mean_has_the_scorers_that_it_was_given():
    scorers = [ikat.BiEncoder("m"), ikat.BiEncoder("n")]
    mean = ikat.MeanScore(scorers)
    scorers.pop()
    assert repr(mean) == "ikat.MeanScore([ikat.BiEncoder('m'), ikat.BiEncoder('n')])"


TestInterleave = pt.testing.transformer_test_class(ikat.Interleave)
TestUnion = pt.testing.transformer_test_class(ikat.Union)
TestRRF = pt.testing.transformer_test_class(ikat.RRF)
TestWeightedSum = pt.testing.transformer_test_class(ikat.WeightedSum)
TestRerankAgainst = pt.testing.transformer_test_class(
    lambda: ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer")
)
TestMeanScore = pt.testing.transformer_test_class(lambda: ikat.MeanScore([ikat.BiEncoder("m")]))


def test_beyond_65536_passages_the_better_rank_still_counts():
    docnos = [f"d{number}" for number in range(70_000)]
    docnos[65_540] = "d10"  # again, far below
    frame = pd.DataFrame({"qid": "t", "query": "tea?", "docno": docnos, "rank": range(70_000)})
    found = ikat.RRF(num_results=None, k=0)(frame)
    assert found["docno"].tolist() == docnos[:65_540] + docnos[65_541:]
