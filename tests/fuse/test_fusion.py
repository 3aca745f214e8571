"""Fusing systems: the same as running them by hand, and what is refused, planned and told."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import (
    TURNS,
    Finds,
    Table,
    by_rank,
    column_of,
    expanded,
    numbers,
    plain_rrf,
    round_robin,
)
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.fuse.fusion import rank_by_sums
from pyterrier_ikat.llms.failures import BatchUnderWay, Waiting
from pyterrier_ikat.show import draw

pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
PLAIN = {
    ikat.Interleave: round_robin,
    ikat.Union: round_robin,
    ikat.RRF: plain_rrf,
    ikat.WeightedSum: by_rank,
}
FUSIONS = pytest.mark.parametrize("fusion", PLAIN, ids=lambda fusion: fusion.__name__)
found_by_branch = st.lists(
    st.dictionaries(
        st.sampled_from("tu"), st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)
    ),
    min_size=1,
    max_size=3,
)
two_queries = (
    pt.apply.generic(lambda turns: turns.assign(qsubqueries=[["a", "b"]] * len(turns)))
    >> ikat.ExplodeQueries()
)


def by_hand(branches, turns):
    """The branches' results as those of sub-queries."""
    frames = []
    for number, branch in enumerate(branches):
        found = branch(turns).assign(qsub=number, query_0="?", qquery="?")
        found["qid_0"] = found["qid"]
        found["qid"] = found["qid_0"] + f"::{number}"
        frames.append(found)
    return pd.concat(frames, ignore_index=True)


def by_turn_and_rank(frame):
    columns = ["qid", "docno", "score", "rank", "text"]
    return frame[columns].sort_values(["qid", "rank"], ignore_index=True)


@FUSIONS
@given(found_by_branch, st.none() | st.integers(1, 4), st.randoms(use_true_random=False))
def test_systems_are_fused_as_by_hand_and_the_plain_definition(fusion, found, num_results, random):
    shuffled = pt.apply.generic(lambda rows: rows.iloc[random.sample(range(len(rows)), len(rows))])
    branches = [Finds(passages) for passages in found]
    before = TURNS.copy()
    fused = fusion(*(branch >> shuffled for branch in branches), num_results=num_results)(TURNS)
    alone = fusion(num_results=num_results)(by_hand(branches, TURNS))
    pd.testing.assert_frame_equal(by_turn_and_rank(fused), by_turn_and_rank(alone))
    for qid, rows in fused.groupby("qid"):
        wanted = PLAIN[fusion]([passages.get(qid, []) for passages in found])
        assert rows["docno"].tolist() == wanted[:num_results]
        assert (np.diff(rows["score"].astype(np.float32)) < 0).all()
    pd.testing.assert_frame_equal(TURNS, before)


@FUSIONS
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["t::0", "t::1", "u::0", "u::1"]),
            st.lists(st.sampled_from("abcd"), unique=True),
        ),
        max_size=3,
    )
)
def test_a_hybrid_between_sub_queries_joins_within_each_of_them(fusion, found):
    branches = [Finds(passages) for passages in [*found, {}]]
    asked = dict(TURNS.values.tolist())
    hybrid = (two_queries >> fusion(*branches))(TURNS)
    for qid, rows in hybrid.groupby("qid"):
        lists = [branch.passages.get(qid, []) for branch in branches]
        assert rows["docno"].tolist() == PLAIN[fusion](lists)
        turn, sub = qid.split("::")
        of_turn = [turn, int(sub), "ab"[int(sub)], asked[turn]]
        columns = rows[["qid_0", "qsub", "query", "query_0"]]
        assert columns.drop_duplicates().values.tolist() == [of_turn]
    turns = (two_queries >> fusion(*branches) % 1000 >> ikat.Interleave())(TURNS)
    for qid, rows in turns.groupby("qid"):
        first = hybrid.loc[hybrid["qid"] == f"{qid}::0", "docno"].tolist()
        second = hybrid.loc[hybrid["qid"] == f"{qid}::1", "docno"].tolist()
        assert rows["docno"].tolist() == round_robin([first, second])
        assert rows["query"].unique().tolist() == [asked[qid]]


@FUSIONS
def test_each_branch_runs_once_on_turns_of_its_own(fusion):
    seen = []

    def overwritten(turns):
        seen.append(turns["query"].tolist())
        turns["query"] = "overwritten"
        return turns.assign(docno="x", rank=0, score=1.0)

    branch = pt.apply.generic(overwritten)
    fusion(branch, branch)(TURNS)
    assert seen == [["tea?", "coffee?"], ["tea?", "coffee?"]]
    assert TURNS["query"].tolist() == ["tea?", "coffee?"]


@FUSIONS
def test_foreign_pipelines_that_rewrite_their_query_are_fused(fusion):
    def asks(text, *docnos):
        found = pd.DataFrame({"docno": docnos, "rank": range(len(docnos)), "score": 1.0})
        rewrite = pt.apply.query(lambda row: text)
        search = pt.apply.generic(lambda turns: turns.merge(found, how="cross"))
        return rewrite >> search

    turns = TURNS.assign(query_0=["raw t", "raw u"])
    fused = fusion(asks("tea", "x", "y"), asks("mate", "y", "z"))(turns)
    assert sorted(fused["docno"]) == sorted("xyz" * 2)
    assert column_of(fused, "query") == {"t": "mate", "u": "mate"}
    assert column_of(fused, "query_0") == {"t": "tea?", "u": "coffee?"}
    assert column_of(fused, "query_1") == {"t": "raw t", "u": "raw u"}


def test_sub_queries_rewritten_by_branches_return_to_their_turns():
    push = pt.apply.query(lambda row: row["query"] + "!")
    for first, second in (
        (push, push >> push),
        (push >> push, push),
        (pt.Transformer.identity(), push),
    ):
        hybrid = ikat.RRF(
            first >> Finds({"t::0": "xy", "u::0": "x"}), second >> Finds({"t::0": "z", "u::1": "y"})
        )
        fused = (two_queries >> hybrid >> ikat.RRF())(TURNS)
        assert column_of(fused, "query") == {"t": "tea?", "u": "coffee?"}
        assert not {"query_0", "query_1", "qsub", "qid_0"} & set(fused.columns)


@FUSIONS
def test_a_branch_returning_other_turns_is_refused_before_next(fusion):
    def never(turns):
        raise AssertionError

    fused = fusion(two_queries >> Finds({"t::0": "x"}), pt.apply.generic(never))
    text = (
        f"branch 1 of {fusion.__name__} returns t::0, which is not a qid of its input: .* join its"
        " own sub-queries at its end"
    )
    with pytest.raises(ikat.DataError, match=text):
        fused(TURNS)
    with pytest.raises(ikat.DataError, match=text):
        ikat.plan({"S": fused}, TURNS)
    joined = two_queries >> Finds({"t::0": "x"}) >> ikat.Union()
    assert set(fusion(joined, Finds({}))(TURNS)["qid"]) == {"t"}
    joins_too_early = Finds({"t::0": "x"}) >> ikat.Interleave()
    system = two_queries >> fusion(Finds({"t::0": "x"}), joins_too_early)
    with pytest.raises(
        ikat.DataError, match="branch 2 of .* returns t, which is not a qid of its input"
    ):
        system(TURNS)


@FUSIONS
def test_what_is_no_branch_and_what_a_branch_lacks_is_refused(fusion):
    with pytest.raises(ikat.UsageError, match=f"branch 2 of {fusion.__name__} is 'bm25'"):
        fusion(Finds({}), "bm25")
    for name in ("text", "rank"):
        drops = pt.apply.generic(lambda rows, name=name: rows.drop(columns=name))
        with pytest.raises(pt.validate.InputValidationError, match=name):
            fusion(Finds({"t": "x"}), Finds({"t": "y"}) >> drops)(TURNS)
    with pytest.raises(pt.validate.InputValidationError, match="query"):
        fusion(Finds({}))(TURNS[["qid"]])


def test_a_cut_is_fused_where_scores_stay():
    fused = ikat.RRF(Finds({"t": "xyz"}), Finds({"t": "zw"}), k=10)
    assert (fused % 2).compile() == ikat.RRF(*fused.branches, k=10, num_results=2)
    pd.testing.assert_frame_equal(
        (fused % 2).compile()(TURNS), (fused % 2)(TURNS).reset_index(drop=True)
    )
    for other in (ikat.Interleave(*fused.branches), ikat.Union(*fused.branches)):
        pd.testing.assert_frame_equal((other % 2).compile()(TURNS), (other % 2)(TURNS))


@pytest.mark.parametrize("fusion", [ikat.RRF, ikat.WeightedSum])
def test_a_cut_behind_a_fusion_makes_it_no_deeper(fusion):
    fused = fusion(Finds({"t": "xyz"}), Finds({"t": "zw"}), num_results=1)
    assert len((fused % 2).compile()(TURNS)) == 1


@FUSIONS
def test_fused_systems_are_values_and_drawn_with_their_branches(fusion):
    first = ikat.RawUtterance() >> Finds({"t": ["x"]})
    second = Finds({"t": ["y"]})
    fused = fusion(first, second, num_results=7)
    assert fused == fusion(
        ikat.RawUtterance() >> Finds({"t": ["x"]}), Finds({"t": ["y"]}), num_results=7
    )
    others = [
        fusion(second, first, num_results=7),
        fusion(num_results=7),
        fusion(first, second),
    ]
    assert len({fused, *others}) == 4
    assert hash(pickle.loads(pickle.dumps(fused))) == hash(fused)
    plain = fusion(ikat.RawUtterance(), ikat.AllUtterances(), num_results=7)
    assert (
        repr(plain)
        == f"ikat.{fusion.__name__}(ikat.RawUtterance(), ikat.AllUtterances(), num_results=7)"
    )
    assert eval(repr(plain)) == plain
    assert pt.inspect.subtransformers(fused) == {"branches": [first, second]}
    assert draw(fused).html.count("Finds") >= 2
    assert not fusion.one_row_per_turn


def test_an_experiment_with_a_shared_prefix_runs():
    qrels = pd.DataFrame({"qid": ["t"], "docno": ["y"], "label": [1]})
    union = ikat.Union(Finds({"t": ["x"]}), Finds({"t": ["y"]}))
    named_in_query = Table(lambda query, docno: docno in query)
    systems = [union, union >> ikat.RerankAgainst(named_in_query, "query")]
    turns = TURNS.assign(query="say y")
    found = pt.Experiment(systems, turns, qrels, [pt.measures.RR], plan="tree")
    assert found["RR"].tolist() == [0.5, 1.0]


def test_a_turns_highest_sums_are_ranked_and_cut():
    sums = [
        (numbers(7, 3, 5), np.array([1.0, 2.0, 2.0])),
        (numbers(), np.array([])),
        (numbers(1), np.array([0.5])),
    ]
    rows, turn, score = rank_by_sums(sums, None)
    assert (rows.tolist(), turn.tolist(), score.tolist()) == (
        [3, 5, 7, 1],
        [0, 0, 0, 2],
        [2.0, 2.0, 1.0, 0.5],
    )
    rows, turn, score = rank_by_sums(sums, 1)
    assert (rows.tolist(), turn.tolist(), score.tolist()) == ([3, 1], [0, 2], [2.0, 0.5])
    rows, turn, score = rank_by_sums([], 1)
    assert (len(rows), len(turn), len(score)) == (0, 0, 0)


# Arguments


def test_branches_are_checked_by_number():
    with pytest.raises(UsageError, match=r"branch 2 of RRF is 3: give .* as ikat\.RRF\(first, s"):
        ikat.RRF(Finds({}), 3)
    with pytest.raises(UsageError, match="num_results=0"):
        ikat.Union(Finds({}), num_results=0)
    assert ikat.RRF(Finds({})).num_results == 1000
    assert ikat.Union(Finds({})).arguments()["branches"] == (Finds({}),)
    assert "branches" not in ikat.RRF().arguments()


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


@pytest.mark.parametrize(
    ("fusion", "depth"),
    [
        (ikat.Interleave(), 1000),
        (ikat.RRF(), 1000),
        (ikat.WeightedSum(), 1000),
        (ikat.MeanScore([pt.Transformer.identity()]), 1000),
        (ikat.RerankAgainst(pt.Transformer.identity(), "qanswer"), 1000),
        (ikat.Union(), None),  # candidates for a re-ranker, which cuts them
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fusion_is_as_deep_as_a_run_and_a_pool_is_whole(fusion, depth):
    assert fusion.num_results == depth


# Frames that are refused


def test_columns_that_a_fusion_reads_are_known():
    assert ikat.RRF().transform_inputs() == [["qid", "docno", "query", "rank"]]
    assert ikat.WeightedSum().transform_inputs() == [["qid", "docno", "query", "rank", "score"]]
    [columns] = ikat.RRF(Table()).transform_inputs()
    assert columns[:2] == ["qid", "query"]
    assert {"docno", "text"} <= set(columns)


class ReadsEither(Table):
    """A re-ranker of texts or, as well, of titles."""

    def transform_inputs(self):
        return [["qid", "query", "text"], ["qid", "query", "title"]]


def test_of_a_choice_of_columns_the_first_is_needed():
    assert ikat.RRF(ReadsEither()).transform_inputs() == [["qid", "query", "text"]]


def test_a_branch_that_says_nothing_of_its_columns_needs_none():
    def fails(rows):
        raise ZeroDivisionError

    fused = ikat.RRF(pt.apply.generic(fails))
    assert fused.transform_inputs() == [["qid", "query"]]


def test_texts_are_given_unless_nobody_reads_them():
    fused = ikat.RRF(Finds({"t": "xy"}), Finds({"t": "yz"}))
    assert fused(TURNS[:1])["text"].tolist() == ["text of y", "text of x", "text of z"]
    bare = fused.without_texts()
    assert "text" not in bare(TURNS[:1]).columns
    assert "text" in fused(TURNS[:1]).columns
    branches = ikat.RRF(ikat.Union(), ikat.RRF()).without_texts().branches
    assert [branch.gives_texts for branch in branches] == [False, False]


def test_a_frame_without_what_a_fusion_reads_is_refused():
    for lacking in ("rank", "docno", "query"):
        frame = expanded({"t": ["a"]}).drop(columns=lacking)
        with pytest.raises((DataError, ValueError), match=lacking):
            ikat.Interleave()(frame)
    bare = Finds({"t": "y"}) >> pt.apply.generic(lambda rows: rows.drop(columns="text"))
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        ikat.RRF(Finds({"t": "x"}), bare)(TURNS)
    assert "text" not in ikat.RRF(bare, bare)(TURNS[:1]).columns


def test_a_branch_of_other_turns_is_named_with_its_first():
    other = pt.apply.generic(lambda rows: rows.assign(qid=["z", "y"], docno="d", rank=0, score=1.0))
    with pytest.raises(DataError, match="branch 2 of RRF returns y, which is not a qid of its inp"):
        ikat.RRF(Finds({"t": "x"}), other)(TURNS)


# Plans and batches


def test_a_plan_counts_what_the_branches_ask_and_what_they_leave():
    llm = ikat.llm("recorded:sample")
    answers = ikat.Answer(llm) >> Finds({})
    rewrites = ikat.Rewrite(llm) >> Finds({}) % 3
    fused = ikat.RRF(answers, rewrites, num_results=4) >> ikat.LLMRerank(llm)
    planned = ikat.plan({"S": fused}, TURNS)
    assert planned["stage"].tolist() == ["answer", "rewrite", "rerank"]
    assert planned["calls"].tolist() == [2, 2, 8]


def test_a_plan_adds_up_the_passages_of_the_branches():
    """By hand: each of two turns has at most 2 + 3 passages, and no more than the fusion keeps."""
    llm = ikat.llm("recorded:sample")
    for num_results, calls in ((None, 10), (4, 8), (9, 10)):
        fused = ikat.RRF(Finds({}) % 2, Finds({}) % 3, num_results=num_results)
        planned = ikat.plan({"S": fused >> ikat.LLMRerank(llm)}, TURNS)
        assert planned["calls"].tolist() == [calls]


def test_a_plan_gives_each_branch_the_depth_before_the_fusion():
    """By hand: of five passages for each of two turns the branches keep two and all five."""
    fused = Finds({}) % 5 >> ikat.RRF(Table() % 2, Table(), num_results=None)
    planned = ikat.plan({"S": fused >> ikat.LLMRerank(ikat.llm("recorded:sample"))}, TURNS)
    assert planned["calls"].tolist() == [14]


class Waits(Finds):
    """A branch whose requests wait in a batch."""

    def transform(self, inp):
        raise BatchUnderWay([Waiting(str(self.passages), 1, "batch", "in progress")])


def test_all_batches_of_a_branch_are_waited_for():
    class WaitsTwice(Finds):
        def transform(self, inp):
            raise BatchUnderWay([Waiting(name, 1, "batch", "in progress") for name in "ab"])

    with pytest.raises(BatchUnderWay) as raised:
        ikat.Union(Finds({"t": "x"}), WaitsTwice({}), Waits("c"))(TURNS)
    assert [waiting.stage for waiting in raised.value.waiting] == ["a", "b", "c"]


def test_all_branches_send_their_batches_before_the_stage_ends():
    with pytest.raises(BatchUnderWay) as raised:
        ikat.RRF(Waits("first"), Finds({"t": "x"}), Waits("second"))(TURNS)
    assert [waiting.stage for waiting in raised.value.waiting] == ["first", "second"]


# Turns without passages


LOST = (
    "branch 2 of {} found no passage for 1 turn ({}): what it wrote for them is lost, including"
    " statements and answers"
)


def warned(pipeline, turns=TURNS):
    with pytest.warns(NoResultWarning) as caught:
        found = pipeline(turns)
    return found, [str(warning.message) for warning in caught]


@FUSIONS
def test_turns_that_a_branch_finds_nothing_for_are_named(fusion):
    turns = pd.DataFrame(
        {"qid": ["t", "u", "v"], "query": ["tea?", "coffee?", "???"]}, dtype=object
    )
    found, said = warned(fusion(Finds({"t": "x", "u": "y"}), Finds({"u": "z"})), turns)
    assert set(found["qid"]) == {"t", "u"}
    assert said == [
        "1 of 3 turns found no passage: v; counted 0 in evaluation",
        LOST.format(fusion.__name__, "t"),
    ]


def test_a_turn_of_another_branch_is_not_0_and_losses_are_named():
    def warns(turns):
        warnings.warn(
            "1 of 1 turn found no passage: t; counted 0 in evaluation",
            NoResultWarning,
            stacklevel=1,
        )
        return Finds({})(turns)

    _, said = warned(ikat.Union(Finds({"t": "x"}), pt.apply.generic(warns)), TURNS.head(1))
    assert said == [LOST.format("Union", "t")]
    inner = ikat.Union(Finds({"t": "x", "u": "y"}), Finds({"u": "z"}))
    _, said = warned(ikat.Union(inner, Finds({"t": "x", "u": "y"})))
    assert said == [LOST.format("Union", "t")]


def test_between_sub_queries_the_turns_are_named_once():
    both = ikat.Union(Finds({"t::0": "x", "u::1": "y"}), Finds({"u::0": "z", "u::1": "x"}))
    found, said = warned(two_queries >> both)
    assert set(found["qid"]) == {"t::0", "u::0", "u::1"}
    assert said == [LOST.format("Union", "t")]


def test_each_branch_that_lost_turns_names_all_of_them():
    turns = pd.DataFrame({"qid": list("tuv"), "query": "tea?"}, dtype=object)
    fused = ikat.RRF(Finds({"v": "x"}), Finds({"t": "x", "u": "x", "v": "y"}), Finds({"u": "z"}))
    found, said = warned(fused, turns)
    assert found["qid"].drop_duplicates().tolist() == ["v", "t", "u"]
    assert [text.partition(":")[0] for text in said] == [
        "branch 1 of RRF found no passage for 2 turns (t, u)",
        "branch 3 of RRF found no passage for 2 turns (t, v)",
    ]


def test_turns_that_a_branch_lost_are_named_beside_sub_queries():
    turns = pd.DataFrame(
        {"qid": ["t::0", "t::1", "u::0", "u::1"], "query": "q", "qid_0": ["t", "t", "u", "u"]}
    ).assign(query_0="?", qsub=[0, 1, 0, 1])
    fused = ikat.Union(Finds({"t::0": "x", "u::0": "x", "u::1": "x"}), Finds({"t::1": "y"}))
    with pytest.warns(NoResultWarning) as caught:
        found = fused(turns)
    assert [str(warning.message).partition(":")[0] for warning in caught] == [
        "branch 2 of Union found no passage for 1 turn (u)"
    ]
    assert sorted(found["qid"]) == ["t::0", "t::1", "u::0", "u::1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ikat.Union(Finds({"t::0": "x", "u::0": "x"}), Finds({"t::1": "y", "u::0": "y"}))(turns)


TestRRFOfSystems = pt.testing.transformer_test_class(
    lambda: ikat.RRF(ikat.RawUtterance() >> Finds({}), Finds({}), num_results=5)
)
