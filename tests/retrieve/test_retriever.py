"""The base of retrievers over a small index of fixed rankings, and their result frames."""

import numpy as np
import pandas as pd
import pytest
from retrieve.query_frames import turns

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.operator import with_fields
from pyterrier_ikat.retrieve.rankings import Ranking, as_ranking, packed, rank_past_ties, sort_ties
from pyterrier_ikat.retrieve.retriever import IndexRetriever, Query, result_frame
from pyterrier_ikat.store import cache as result_cache


class FixedIndex:
    """An index of the passages a to e, whose scores are 5 to 1 for every query."""

    fingerprint = "first"

    def __init__(self):
        self.openings = 0
        self.asked = []

    def opened(self):
        self.openings += 1
        return self

    def describe(self):
        return {"stemmer": "porter2", "engine": "fixed"}

    def with_text(self, results):
        return results.assign(text="text of " + results["docno"])

    def __repr__(self):
        return "FixedIndex()"


@with_fields
class FixedRetriever(IndexRetriever):
    label = "fixed"
    method = "find"
    settings = ("slope",)
    scale = 2

    slope: float = 1.0

    def find_rankings(self, opened, queries):
        opened.asked.append(list(queries))
        best = as_ranking(list("abcde"), [5, 4, 3, 2, 1])
        return [sort_ties(best, self.num_results) for _ in queries]


class OtherRetriever(FixedRetriever):
    label = "other"


@with_fields
class ShiftedRetriever(FixedRetriever):
    settings = ("slope", "shift")
    shift: float = 0.0


class TenthsRetriever(FixedRetriever):
    scale = 10


class WeighingRetriever(FixedRetriever):
    def queries(self, frame):
        return [Query(row, weights, 0.5) for row, weights in enumerate(frame["query"])]


@pytest.fixture(autouse=True)
def _empty_memory(monkeypatch):
    monkeypatch.setattr(result_cache, "_opened", {})


@pytest.fixture
def index():
    return FixedIndex()


def test_a_result_has_texts_ranks_and_scores_by_the_scale(index):
    found = FixedRetriever(index)(turns("tea", qturn=[7]))
    assert found.to_dict("list") == {
        "qid": ["1_1"] * 5,
        "query": ["tea"] * 5,
        "qturn": [7] * 5,
        "docno": list("abcde"),
        "score": [2.5, 2.0, 1.5, 1.0, 0.5],
        "rank": [0, 1, 2, 3, 4],
        "text": [f"text of {docno}" for docno in "abcde"],
    }
    bare = FixedRetriever(index).without_texts()(turns("tea"))
    assert bare.columns.tolist() == ["qid", "query", "docno", "score", "rank"]


def test_the_unit_of_a_query_multiplies_its_scores(index):
    found = WeighingRetriever(index)(turns({"tea": 2}))
    assert found["score"].tolist() == [1.25, 1.0, 0.75, 0.5, 0.25]
    assert index.asked == [[{"tea": 2}]]


def test_scores_are_divided_in_64_bits(index):
    found = TenthsRetriever(index)(turns("tea"))
    assert found["score"].tolist() == [0.5, 0.4, 0.3, 0.2, 0.1]


def test_only_texts_with_words_are_searched_each_once(index):
    with pytest.warns(NoResultWarning, match="3 of 6 turns found no passage: 1_2, 1_3, 1_5"):
        found = FixedRetriever(index)(turns("tea", " \n", None, "tram", 7, "tea"))
    assert index.asked == [["tea", "tram"]]
    assert found["qid"].drop_duplicates().tolist() == ["1_1", "1_4", "1_6"]


def test_an_index_is_opened_when_a_retriever_is_made(index):
    FixedRetriever(index)
    assert index.openings == 1
    with pytest.raises(ikat.UsageError, match="num_results=0"):
        FixedRetriever(index, 0)


@pytest.mark.parametrize("missing", ["qid", "query"])
def test_a_frame_without_queries_is_refused(index, missing):
    with pytest.raises((IkatError, ValueError), match=missing):
        FixedRetriever(index)(turns("tea").drop(columns=missing))


def test_its_analysis_is_what_the_index_has_of_it(index):
    assert FixedRetriever(index).analysis() == {"stemmer": "porter2"}
    index.describe = lambda: {"stops": "none", "stemmer": "none", "size": 8}
    assert FixedRetriever(index).analysis() == {"stemmer": "none", "stops": "none"}


def test_a_key_changes_with_all_that_decides_a_ranking(index):
    retriever = FixedRetriever(index)
    keys = [
        retriever.key("first", Query(0, "tea")),
        retriever.key("first", Query(0, "teas")),
        retriever.key("first", Query(0, b"tea")),
        retriever.key("first", Query(0, {"tea": 1})),
        retriever.key("first", Query(0, '{"tea": 1}')),
        retriever.key("second", Query(0, "tea")),
        FixedRetriever(index, slope=2.0).key("first", Query(0, "tea")),
        OtherRetriever(index).key("first", Query(0, "tea")),
    ]
    assert len(set(keys)) == len(keys)
    same = FixedRetriever(index, 5).key("first", Query(3, "tea", 0.5))
    assert same == keys[0]  # neither row, nor unit, nor depth


def test_each_of_several_settings_has_keys_of_its_own(index):
    keys = set()
    for settings in ({}, {"slope": 2.0}, {"shift": 2.0}, {"slope": 2.0, "shift": 2.0}):
        keys.add(ShiftedRetriever(index, **settings).key("first", Query(0, "tea")))
    assert len(keys) == 4


def test_a_ranking_deep_enough_is_searched_once(index, tmp_path):
    for depth in (6, 3, 9, 6):
        found = FixedRetriever(index, depth)(turns("tea"))
        assert found["docno"].tolist() == list("abcde")[:depth]
    assert len(index.asked) == 1  # the engine has no more than five
    FixedRetriever(index, 4, tmp_path / "cache")(turns("tea"))
    assert len(index.asked) == 2
    assert (tmp_path / "cache").exists()
    index.fingerprint = "second"
    FixedRetriever(index, 5)(turns("tea"))
    assert len(index.asked) == 3


def test_a_full_ranking_is_searched_again_when_more_are_wanted(index):
    counts = []
    for depth in (2, 3, 3, 2):
        counts.append(len(FixedRetriever(index, depth)(turns("tea"))))
    assert counts == [2, 3, 3, 2]
    assert len(index.asked) == 2


@pytest.mark.parametrize(("cut", "expected"), [(2, 2), (3, 3), (9, 3)])
def test_a_cut_makes_a_retriever_no_deeper(index, cut, expected):
    retriever = FixedRetriever(index, 3, None, 0.5).fuse_rank_cutoff(cut)
    assert retriever == FixedRetriever(index, expected, None, 0.5)


def test_a_repr_is_the_call_that_makes_it(index):
    assert repr(FixedRetriever(index)) == "FixedIndex().find()"
    full = FixedRetriever(index, 5, "file", 0.5)
    assert repr(full) == "FixedIndex().find(num_results=5, cache='file', slope=0.5)"


# The frame of results


def ranking(*docnos):
    return as_ranking(list(docnos), list(range(len(docnos), 0, -1)))


def test_columns_of_an_earlier_search_are_replaced():
    frame = turns("tea", "tram", query_toks=[{}, {}], query_vec=[0, 0], qsub=[1, 2])
    frame = frame.assign(docno="x", score=9.0, rank=9, text="old", other="kept")
    found = result_frame(frame, {0: ranking("b", "a"), 1: ranking("c")})
    assert found.columns.tolist() == ["qid", "query", "qsub", "other", "docno", "score", "rank"]
    assert found[["qid", "docno", "score", "rank", "other"]].values.tolist() == [
        ["1_1", "b", 2.0, 0, "kept"],
        ["1_1", "a", 1.0, 1, "kept"],
        ["1_2", "c", 1.0, 0, "kept"],
    ]


def test_rows_without_a_ranking_are_named_and_have_none():
    frame = turns("tea", "tram", "bus").set_axis([7, 7, 7])
    with pytest.warns(NoResultWarning, match="2 of 3 turns found no passage: 1_1, 1_2"):
        found = result_frame(frame, {1: ranking(), 2: ranking("a", "b")})
    assert found.index.tolist() == [0, 1]
    assert found["qid"].tolist() == ["1_3", "1_3"]


def test_a_turn_that_stands_there_twice_is_refused():
    frame = turns("tea", "tram").assign(qid="1_1")
    with pytest.raises(ikat.DataError, match="1_1"):
        result_frame(frame, {0: ranking("a"), 1: ranking("b")})


def test_no_turn_gives_no_row_with_all_columns():
    found = result_frame(turns(), {})
    assert len(found) == 0
    assert found.columns.tolist() == ["qid", "query", "docno", "score", "rank"]
    assert found["score"].dtype == np.float64


def test_strings_of_pandas_are_shared_objects_and_numbers_stay():
    frame = turns("tea", qturn=[3], qlong=pd.array(["long"], dtype="string"))
    found = result_frame(frame, {0: ranking("a", "b")})
    assert found["qlong"].dtype == object
    assert found["qlong"][0] is found["qlong"][1]
    assert found["qturn"].dtype == np.int64
    assert frame["qlong"].dtype == "string"


def test_equal_scores_stay_equal_with_the_greatest_docno_first():
    tied = as_ranking(["b", "a", "c"], [2, 2, 2])
    found = result_frame(turns("tea"), {0: tied})
    assert found["docno"].tolist() == ["b", "a", "c"]
    scores = found["score"].tolist()
    assert scores[0] == scores[1] > scores[2]


# Rankings


@pytest.mark.parametrize(
    ("scores", "depth", "docnos"),
    [
        ([3, 2, 1], 3, "abc"),
        ([2, 2, 1], 3, "bac"),
        ([2, 1, 1], 3, "acb"),
        ([2, 2, 2], 3, "cba"),
        ([2, 2, 2], 2, "cb"),
        ([2, 1, 1], 2, "ac"),
        ([2], 1, "a"),
        ([], 1, ""),
    ],
)
def test_passages_that_tie_go_by_docno(scores, depth, docnos):
    found = sort_ties(as_ranking(list("abc"[: len(scores)]), scores), depth)
    assert found.docnos == list(docnos)
    assert found.scores.tolist() == scores[:depth]


def test_two_groups_of_ties_are_sorted_apart():
    found = sort_ties(as_ranking(list("abcde"), [3, 3, 2, 1, 1]), 5)
    assert found.docnos == list("baced")


class AnyTies:
    """An engine that returns ties in the order of their names, and remembers its calls."""

    def __init__(self, *rankings):
        self.rankings = rankings
        self.calls = []

    def find(self, numbers, depth):
        self.calls.append((list(numbers), depth))
        found = []
        for number in numbers:
            docnos, scores = self.rankings[number]
            found.append(as_ranking(list(docnos[:depth]), scores[:depth]))
        return found


def test_a_tie_at_the_cutoff_is_searched_to_its_end():
    """To a depth of 8, ten passages are asked for: one more and an eighth."""
    engine = AnyTies(
        ("abcdefghijkl", [9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1]),
        ("abcdefghijklmnopqrstuvwxyz", [9] * 7 + [1] * 15 + [0.5] * 4),
        ("abcdefghij", [9] * 10),
        ("ab", [1, 1]),
        ("", []),
    )
    found = rank_past_ties(engine.find, 5, 8)
    assert engine.calls == [([0, 1, 2, 3, 4], 10), ([1, 2], 20), ([1], 40)]
    assert ["".join(ranking.docnos) for ranking in found] == [
        "abcdefgh",
        "gfedcbav",
        "jihgfedc",
        "ba",
        "",
    ]
    assert [len(ranking.scores) for ranking in found] == [8, 8, 8, 2, 0]


def test_a_stored_ranking_is_its_depth_count_scores_and_docnos():
    content = packed(Ranking(["d1", "é"], np.array([2.0, 0.5])), 9)
    assert content == (
        b"\x09\0\0\0\x02\0\0\0" + np.array([2.0, 0.5], "<f4").tobytes() + "d1\né".encode()
    )
