"""Several indexes searched as one: the best of all, ties by docno, nothing of what one index would give lost."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve.merge_shards import MergeShards, merge_rankings

TEXTS = {
    "d1": "Rooibos tea has no caffeine",
    "d2": "Black tea has caffeine, green tea has caffeine",
    "d3": "The tram line to the river opens in spring",
    "d4": "Trams and buses: the tram beats the bus",
    "d5": "Garden herbs such as sage and mint make a tea",
    "d6": "Garden herbs such as sage and mint make a tea",
}
QUERIES = pd.DataFrame({"qid": ["b", "a"], "query": ["tram tea", "herb tea"], "qmark": [1, 2]})


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    rows = [{"docno": docno, "text": text} for docno, text in TEXTS.items()]
    folder = tmp_path_factory.mktemp("parts")
    return [ikat.PassageIndex(folder / str(number)).index(part) for number, part in enumerate((rows[:3], rows[3:]))]


class Scores(pt.Transformer):
    """A retriever that gives each query these scores, best first."""

    def __init__(self, **scores):
        self.scores = scores

    def transform(self, inp):
        best = sorted(self.scores.items(), key=lambda item: (item[1], item[0]), reverse=True)
        rows = [(qid, docno, score, rank) for qid in inp["qid"] for rank, (docno, score) in enumerate(best)]
        return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"]).astype({"score": float})


def test_the_best_of_all_parts_in_the_order_of_the_queries():
    merged = MergeShards([Scores(x=3, z=1), Scores(y=2, a=1)], num_results=3)(QUERIES)
    expected = [("x", 3.0, 0), ("y", 2.0, 1), ("z", 1.0, 2)]
    assert list(zip(merged["qid"], merged["docno"], merged["score"], merged["rank"], strict=True)) == [
        (qid, *row) for qid in ("b", "a") for row in expected
    ]


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 5), min_size=1), st.data(), st.integers(1, 5), st.integers(1, 8)
)
def test_however_it_is_split_the_result_is_that_of_one_retriever(scores, data, parts, depth):
    part_of = {docno: data.draw(st.integers(0, parts - 1)) for docno in scores}
    retrievers = [Scores(**{docno: scores[docno] for docno in scores if part_of[docno] == part}) for part in range(parts)]
    merged = MergeShards(retrievers, num_results=depth)(QUERIES)
    one = Scores(**scores)(QUERIES)
    pd.testing.assert_frame_equal(merged, one[one["rank"] < depth].reset_index(drop=True))


def test_bm25_over_two_indexes_keeps_columns_and_text(halves):
    merged = MergeShards([half.bm25() for half in halves])(QUERIES)
    alone = pd.concat([half.bm25()(QUERIES) for half in halves])
    assert merged.columns.tolist() == halves[0].bm25()(QUERIES).columns.tolist()
    for qid in ("b", "a"):
        of_query, known = merged[merged["qid"] == qid], alone[alone["qid"] == qid].set_index("docno")
        assert sorted(of_query["docno"]) == sorted(known.index)
        assert of_query["score"].tolist() == sorted(known["score"], reverse=True)
        assert of_query["rank"].tolist() == list(range(len(known)))
        assert of_query["text"].tolist() == [TEXTS[docno] for docno in of_query["docno"]]
    assert merged["qmark"].tolist() == [{"b": 1, "a": 2}[qid] for qid in merged["qid"]]


def test_parts_of_either_engine_give_the_same(halves, tmp_path):
    pytest.importorskip("pyterrier_pisa")
    second = ikat.PassageIndex(tmp_path / "pisa").index([{"docno": d, "text": TEXTS[d]} for d in ("d4", "d5", "d6")], engine="pisa")
    eager, mixed = (MergeShards([halves[0].bm25(), half.bm25()])(QUERIES) for half in (halves[1], second))
    pd.testing.assert_frame_equal(mixed, eager, rtol=1e-4)


def test_a_cutoff_reaches_the_parts(halves):
    merged = MergeShards([half.bm25() for half in halves])
    cut = (merged % 2).compile()
    assert repr(cut) == repr(MergeShards([half.bm25(num_results=2) for half in halves], num_results=2))
    full = merged(QUERIES)
    pd.testing.assert_frame_equal(cut(QUERIES), full[full["rank"] < 2].reset_index(drop=True))


def test_only_a_turn_that_no_part_finds_is_reported(halves):
    system = MergeShards([half.bm25() for half in halves])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system.search("rooibos")  # only in the first part
    queries = pd.DataFrame({"qid": ["x", "y"], "query": ["rooibos", "zeppelin"]})
    with pytest.warns(NoResultWarning, match="1 of 2 turns have no passage: y") as caught:
        assert set(system(queries)["qid"]) == {"x"}
    assert len(caught) == 1


def test_a_passage_in_two_parts_is_an_error():
    with pytest.raises(ikat.DataError, match="passage x is in two parts"):
        MergeShards([Scores(x=3), Scores(x=2)])(QUERIES)


def test_an_empty_frame_has_the_same_columns(halves):
    merged = MergeShards([half.bm25() for half in halves])
    assert merged(QUERIES.iloc[:0]).columns.tolist() == merged(QUERIES).columns.tolist()
    assert merge_rankings([merged(QUERIES.iloc[:0])], [], 5).empty


@pytest.mark.parametrize(
    ("arguments", "said"), [(([],), "retrievers="), ((["index"],), "retrievers="), (([Scores(x=1)], 0), "num_results=0")]
)
def test_arguments_out_of_range(arguments, said):
    with pytest.raises(ikat.UsageError, match=said):
        MergeShards(*arguments)


def test_it_is_a_value_that_can_be_pasted_back(halves):
    first, again = (MergeShards([half.bm25() for half in halves]) for _ in range(2))
    assert first == again
    assert hash(first) == hash(again)
    assert repr(first) == f"ikat.MergeShards([{halves[0]!r}.bm25(), {halves[1]!r}.bm25()])"
