"""Statements as passages of a user.

Listed, ranked by BM25 or fusions, and taken for their source turns.
"""

import math

import pandas as pd
import pyterrier as pt
import pytest
from rank.to_rank import LABELLED, Labels
from retrieve.plain import plain_bm25

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import IkatError

PTKB = {"D1:1": "red tea", "D1:2": "green tea tea", "D2:1": "a tram"}
FACTS = {"D2:1%p0": "I drive trams", "D1:2%p0": "I drink tea", "D1:2%p1": "I own a tram"}


def scored(**scores):
    """A re-ranker with given scores, whose order of rows is that of the scores."""
    scores_of = {}
    for name, score in scores.items():
        scores_of[name.replace("_", ":")] = float(score)

    def score(rows):
        return pt.model.add_ranks(rows.assign(score=rows["docno"].map(scores_of)))

    return pt.apply.generic(score)


def turns(*queries):
    qids = [f"t_{number}" for number in range(1, len(queries) + 1)]
    frame = pd.DataFrame({"qid": qids, "query": queries}, dtype=object)
    return frame.assign(qptkb=[PTKB] * len(frame), qfacts=[FACTS] * len(frame))


def test_bm25_has_the_statistics_of_each_turns_own_statements():
    other = {"1": "tram", "2": "tram bus", "3": "bus bus bus", "4": "sea", "5": "tea"}
    frame = turns("tram tea", "tram", "tea").assign(qptkb=[PTKB, other, ["...", ""]])
    found = (ikat.ListStatements() >> ikat.BM25Rerank(stemmer="none", stops="none"))(frame)
    for qid, query, texts in (("t_1", "tram tea", PTKB), ("t_2", "tram", other)):
        scores = found[found["qid"] == qid].set_index("docno")["score"].to_dict()
        wanted = dict.fromkeys(texts, 0.0)
        wanted.update(plain_bm25(texts, query, 0.9, 0.4, stemmer="none"))
        assert scores == pytest.approx(wanted, abs=1e-6)
    # statements without any word
    assert found[found["qid"] == "t_3"]["score"].tolist() == [0.0, 0.0]


def test_a_bm25_re_ranking_is_an_index_search_of_its_passages(tmp_path):
    passages = [{"docno": name, "text": text} for name, text in PTKB.items()]
    frame = turns("drinking teas", "the trams")
    searched = ikat.PassageIndex(tmp_path / "index").index(passages).bm25()(frame[["qid", "query"]])
    ranked = (ikat.ListStatements() >> ikat.BM25Rerank())(frame)
    columns = ["qid", "docno", "score", "rank"]
    pd.testing.assert_frame_equal(
        ranked[ranked["score"] > 0][columns].reset_index(drop=True), searched[columns]
    )


def test_fusions_behind_a_retriever_re_rank_its_passages():
    first = scored(D1_1=3, D1_2=2, D2_1=1)
    second = scored(D1_1=0, D1_2=10, D2_1=5)
    fused = (ikat.ListStatements() >> ikat.RRF(first, second))(turns("a", "b"))
    # 1/62 + 1/61, 1/61 + 1/63, 1/63 + 1/62
    assert fused["docno"].tolist() == ["D1:2", "D1:1", "D2:1"] * 2
    assert fused["score"].tolist()[:2] == pytest.approx([1 / 62 + 1 / 61, 1 / 61 + 1 / 63])
    assert fused["query"].tolist() == ["a"] * 3 + ["b"] * 3
    summed = (ikat.ListStatements() >> ikat.WeightedSum(first, second, weights=(1, 2)))(turns("a"))
    assert list(zip(summed["docno"], summed["score"], strict=True)) == [
        ("D1:2", 2.5),
        ("D1:1", 1.0),
        ("D2:1", pytest.approx(1.0)),
    ]


def test_statements_are_ranked_by_fusions_of_several_places():
    facts = scored(**{"D2_1%p0": 0.1, "D1_2%p0": 0.3, "D1_2%p1": 0.9})
    ranker = ikat.RRF(
        scored(D1_1=3, D1_2=2, D2_1=1), ikat.ListStatements("qfacts") >> facts >> ikat.SourceTurns()
    )
    chosen = ikat.RankStatements(ranker, n=2)(turns("tea"))["qstatements"][0]
    # D1:2 is second and, by its better fact, first; D1:1 is first alone; D2:1 is third and, behind
    # both facts of D1:2, second.
    assert chosen == [
        ("D1:2", pytest.approx(1 / 62 + 1 / 61)),
        ("D2:1", pytest.approx(1 / 63 + 1 / 62)),
    ]
    cut = ikat.RRF(scored(D1_1=3, D1_2=1, D2_1=2), num_results=2)
    with pytest.raises(ikat.DataError, match="no finite score to statement D1:2 of turn t_1"):
        ikat.RankStatements(cut)(turns("tea"))


def test_source_turns_rank_by_best_statement_in_any_row_order():
    scorer = scored(**{"D2_1%p0": 2, "D1_2%p0": 1, "D1_2%p1": 3})
    found = (ikat.ListStatements("qfacts") >> scorer)(turns("tea", "tram"))
    mapped = ikat.SourceTurns()(found.iloc[::-1])
    assert mapped[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["t_2", "D1:2", 3.0, 0],
        ["t_2", "D2:1", 2.0, 1],
        ["t_1", "D1:2", 3.0, 0],
        ["t_1", "D2:1", 2.0, 1],
    ]


def test_turns_are_listed_once_in_results_and_without_statements():
    frame = turns("tea", "tram").assign(qptkb=[PTKB, None])
    listed = ikat.ListStatements()(frame)
    assert listed[["qid", "docno", "text", "rank"]].values.tolist() == [
        ["t_1", "D1:1", "red tea", 0],
        ["t_1", "D1:2", "green tea tea", 1],
        ["t_1", "D2:1", "a tram", 2],
    ]
    pd.testing.assert_frame_equal(ikat.ListStatements()(listed), listed)
    with pytest.raises(ikat.DataError, match="reads 'facts', which the turns lack"):
        ikat.ListStatements("facts")(frame)


def test_a_plan_chooses_the_first_statements():
    llm = ikat.llm("recorded:sample")
    frame = turns("tea").assign(qutterance="tea", qhistory=[[]])
    for n, calls in ((1, 1), (2, 2), (9, 3)):
        system = ikat.RankStatements(ikat.BM25Rerank(), n=n) >> ikat.generate.StatementQueries(llm)
        planned = ikat.plan({"x": system}, frame)
        assert planned["calls"].sum() == calls


# Listed and chosen by any scorer


FOUR_STATEMENTS = {"1": "tea", "2": "tram", "3": "bus", "4": "cat"}


def two_turns(**columns):
    return pd.DataFrame({"qid": ["t", "u"], "query": ["a", "b"], **columns}, dtype=object)


def by_id(scores):
    def score(rows):
        return rows.assign(score=rows["docno"].map(scores).astype(float), rank=0)

    return pt.apply.generic(score)


def test_statements_are_rows_with_the_columns_of_their_turn():
    frame = two_turns(qptkb=[["tea", "tram"], {}], qturn=[1, 2], other=[0, 0])
    listed = ikat.ListStatements()(frame)
    assert listed.to_dict("list") == {
        "qid": ["t", "t"],
        "query": ["a", "a"],
        "qptkb": [["tea", "tram"]] * 2,
        "qturn": [1, 1],
        "docno": ["1", "2"],
        "text": ["tea", "tram"],
        "score": [2.0, 1.0],
        "rank": [0, 1],
    }
    assert listed.index.tolist() == [0, 1]
    numbered = frame.rename(columns={"other": 5})
    assert ikat.ListStatements()(numbered).equals(listed)
    assert len(ikat.ListStatements()(two_turns())) == 0  # nobody's statements are known


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, [("2", 5.0)]),
        (3, [("2", 5.0), ("1", 1.0), ("3", 1.0)]),
        (9, [("2", 5.0), ("1", 1.0), ("3", 1.0), ("4", -2.0)]),
    ],
)
def test_the_best_statements_are_chosen_ties_in_their_order(n, expected):
    scorer = by_id({"1": 1, "2": 5, "3": 1, "4": -2})
    chosen = ikat.RankStatements(scorer, n)(two_turns(qptkb=[FOUR_STATEMENTS, None]))
    assert chosen["qstatements"].tolist() == [expected, []]
    assert chosen["qid"].tolist() == ["t", "u"]
    nobody = ikat.RankStatements(by_id({}))(two_turns(qptkb=[{}, None]))
    assert nobody["qstatements"].tolist() == [[], []]
    assert ikat.RankStatements(scorer).n == 3


@pytest.mark.parametrize(
    "scores", [{"1": 1, "2": 2, "3": 3}, {"1": 1, "2": 2, "3": 3, "4": math.inf}]
)
def test_a_statement_without_a_finite_score_is_named(scores):
    with pytest.raises(ikat.DataError, match="no finite score to statement 4 of turn t: use"):
        ikat.RankStatements(by_id(scores))(two_turns(qptkb=[FOUR_STATEMENTS, None]))


def test_a_scorer_of_statements_has_to_give_scores():
    bare = pt.apply.generic(lambda rows: rows.assign(rank=0))
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        ikat.RankStatements(bare)(turns("tea"))


def test_turns_to_choose_statements_for_are_checked():
    ranker = ikat.RankStatements(by_id({}))
    with pytest.raises(ikat.DataError, match="t"):
        ranker(two_turns().assign(qid="t"))
    with pytest.raises(ikat.DataError, match="query"):
        ranker(two_turns().assign(query=["a", None]))
    with pytest.raises((IkatError, ValueError), match="query"):
        ranker(two_turns().drop(columns="query"))


def test_source_turns_have_the_best_statements_score_and_columns():
    rows = [
        ("t", "D1%p1", 3),
        ("u", "D2%p0", 0),
        ("t", "D1%p0", 0),
        ("t", "D3", 1),
        ("t", "D2%p7", 2),
    ]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "rank"])
    frame = frame.assign(query="q", score=9.0 - frame["rank"], text="of " + frame["docno"])
    found = ikat.SourceTurns()(frame)
    assert found[["qid", "docno", "score", "rank", "text"]].values.tolist() == [
        ["t", "D1", 9.0, 0, "of D1%p0"],
        ["t", "D3", 8.0, 1, "of D3"],
        ["t", "D2", 7.0, 2, "of D2%p7"],
        ["u", "D2", 9.0, 0, "of D2%p0"],
    ]
    assert found.index.tolist() == [0, 1, 2, 3]
    tied = ikat.SourceTurns()(frame.assign(score=1.0))
    assert tied["docno"].tolist() == ["D1", "D3", "D2", "D2"]  # in their order, so not equal
    assert tied["score"].iloc[0] > tied["score"].iloc[1] > tied["score"].iloc[2]


def test_columns_that_statements_need_are_named():
    for lacking in ("query", "score", "rank"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            ikat.SourceTurns()(LABELLED.drop(columns=lacking))
    for lacking in ("qid", "query"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            ikat.ListStatements()(two_turns().drop(columns=lacking))


def test_a_scorer_gets_statements_without_a_ranking():
    seen = []

    def score(rows):
        seen.append(rows.columns.tolist())
        return rows.assign(score=1.0, rank=0)

    ikat.RankStatements(pt.apply.generic(score))(two_turns(qptkb=[FOUR_STATEMENTS, None]))
    assert seen == [["qid", "query", "qptkb", "docno", "text"]]


def test_a_plan_counts_what_a_scorer_of_statements_asks():
    ranker = ikat.RankStatements(ikat.LLMRerank(ikat.llm(Labels())))
    topics = pt.get_dataset("ikat:sample").get_topics().head(1)
    assert ikat.plan({"x": ranker}, topics)["calls"].sum() > 0
