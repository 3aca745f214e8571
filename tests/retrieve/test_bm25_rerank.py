"""BM25 over the passages of each turn, against the formula in plain Python."""

import pandas as pd
import pytest
from retrieve.plain import plain_bm25

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError, UsageError

TEXTS = {
    "d1": "rooibos tea, red tea",
    "d2": "a long walk on the heath",
    "d3": "tea in a cup of tea by the river and the sea",
    "d4": "dogs run",
    "d5": "the cat",
    "d6": "running shoes",
}


def turn(qid, query, texts=TEXTS):
    rows = [(qid, query, docno, text, "kept") for docno, text in texts.items()]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "more"])
    return frame.assign(score=0.0, rank=range(len(frame)))


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (0.5, 0.0), (2.0, 1.0)])
@pytest.mark.parametrize("query", ["tea", "red tea tea", "the run", "walk the dog"])
def test_scores_are_those_of_the_formula_over_the_turns_passages(k1, b, query):
    found = ikat.BM25Rerank(k1, b)(turn("1_1", query)).set_index("docno")
    plain = plain_bm25(TEXTS, query, k1, b)
    for docno in TEXTS:
        assert found.loc[docno, "score"] == pytest.approx(plain[docno], abs=1e-5)
    in_order = sorted(TEXTS, key=lambda docno: (found.loc[docno, "score"], docno), reverse=True)
    assert found.index.tolist() == in_order
    assert found["rank"].tolist() == list(range(6))
    assert set(found["more"]) == {"kept"}


def test_the_defaults_are_those_of_the_index():
    by_default = ikat.BM25Rerank()(turn("1_1", "running teas by the river"))
    named = ikat.BM25Rerank(0.9, 0.4, "porter2", "lucene")(turn("1_1", "running teas by the river"))
    pd.testing.assert_frame_equal(by_default, named)
    bare = ikat.BM25Rerank(stemmer="none")(turn("1_1", "running")).set_index("docno")["score"]
    assert (bare["d6"] > 0, bare["d4"]) == (True, 0.0)
    stemmed = ikat.BM25Rerank()(turn("1_1", "running")).set_index("docno")["score"]
    assert stemmed["d4"] > 0
    stopped = ikat.BM25Rerank()(turn("1_1", "the cat")).set_index("docno")["score"]
    whole = ikat.BM25Rerank(stops="none")(turn("1_1", "the cat")).set_index("docno")["score"]
    assert (stopped["d2"], whole["d2"] > 0) == (0.0, True)


def test_turns_keep_their_order_and_their_own_statistics():
    few = {docno: TEXTS[docno] for docno in ("d1", "d2", "d3", "d4", "d5")}
    other = turn("2_1", "tea", few)
    both = pd.concat([other, turn("1_1", "tea")], ignore_index=True)
    found = ikat.BM25Rerank()(pd.concat([both.iloc[::2], both.iloc[1::2]], ignore_index=True))
    assert found["qid"].drop_duplicates().tolist() == ["2_1", "1_1"]
    assert len(found) == 11
    for qid, texts in (("2_1", few), ("1_1", TEXTS)):
        scores = found[found["qid"] == qid].set_index("docno")["score"]
        plain = plain_bm25(texts, "tea", 0.9, 0.4)
        assert scores.to_dict() == pytest.approx({docno: plain[docno] for docno in texts}, abs=1e-5)


def test_nothing_to_rank_stays_nothing():
    assert len(ikat.BM25Rerank()(turn("1_1", "tea").head(0))) == 0


def test_a_query_of_another_script_is_told_beside_others():
    frame = pd.concat([turn("1_1", "tea"), turn("1_2", "чай")], ignore_index=True)
    with pytest.warns(NoResultWarning, match=r"1 turn without a .*: 1_2; BM25 scores them 0"):
        found = ikat.BM25Rerank()(frame)
    assert found.loc[found["qid"] == "1_2", "score"].tolist() == [0.0] * 6
    with pytest.raises(DataError):
        ikat.BM25Rerank()(turn("1_1", "чай", {"d1": "чай", "d2": "река"}))


def test_texts_of_another_script_are_told_beside_others():
    foreign = turn("1_1", "tea", {"d1": "чай", "d2": "река"})
    with pytest.warns(NoResultWarning, match=r"1 turn without a .*: 1_1; BM25 scores them 0"):
        found = ikat.BM25Rerank()(pd.concat([foreign, turn("1_2", "tea")], ignore_index=True))
    assert found.loc[found["qid"] == "1_1", "score"].tolist() == [0.0, 0.0]
    assert found.loc[found["qid"] == "1_2", "score"].max() > 0
    with pytest.raises(DataError, match="no text has a"):
        ikat.BM25Rerank()(foreign)


@pytest.mark.parametrize(
    "arguments", [{"k1": -0.1}, {"b": 1.1}, {"b": -0.1}, {"stemmer": "x"}, {"stops": "x"}]
)
def test_parameters_out_of_range_are_refused(arguments):
    with pytest.raises(UsageError):
        ikat.BM25Rerank(**arguments)


@pytest.mark.parametrize(("name", "value"), [("k1", -0.1), ("b", 1.1)])
def test_parameters_set_later_are_checked_too(name, value):
    rerank = ikat.BM25Rerank()
    setattr(rerank, name, value)  # as pt.GridSearch does
    with pytest.raises(UsageError):
        rerank(turn("1_1", "tea"))


@pytest.mark.parametrize("name", ["qid", "query", "text"])
def test_a_row_without_a_text_is_an_error(name):
    frame = turn("1_1", "tea")
    frame.loc[2, name] = None
    with pytest.raises(DataError):
        ikat.BM25Rerank()(frame)


def test_one_text_of_another_script_among_blank_ones_is_told():
    foreign = turn("1_1", "tea", {"d1": "чай", "d2": " "})
    with pytest.warns(NoResultWarning, match=r"1 turn without a .*: 1_1; BM25 scores them 0"):
        ikat.BM25Rerank()(pd.concat([foreign, turn("1_2", "tea")], ignore_index=True))


def test_turns_of_equal_texts_are_told_apart_by_their_queries():
    both = pd.concat([turn("1_1", "tea"), turn("1_2", "dogs")], ignore_index=True)
    found = ikat.BM25Rerank()(both)
    best = found[found["rank"] == 0]
    assert best[["qid", "docno", "query"]].values.tolist() == [
        ["1_1", "d1", "tea"],
        ["1_2", "d4", "dogs"],
    ]
    assert found.index.tolist() == list(range(12))
    with pytest.raises(DataError, match="text"):
        ikat.BM25Rerank()(both.drop(columns="text"))


def test_as_many_other_texts_are_another_collection():
    first = turn("1_1", "tea", {"d1": "tea", "d2": "a walk", "d3": "dogs"})
    second = turn("1_2", "tea", {"d1": "a walk", "d2": "tea", "d3": "dogs"})
    found = ikat.BM25Rerank()(pd.concat([first, second], ignore_index=True))
    best = found[found["rank"] == 0]
    assert best[["qid", "docno"]].values.tolist() == [["1_1", "d1"], ["1_2", "d2"]]


@pytest.mark.parametrize("texts", [{"d1": "", "d2": " !"}, {"d1": "чай", "d2": "green tea"}])
@pytest.mark.filterwarnings("error::pyterrier_ikat.retrieve.NoResultWarning")
def test_blank_texts_and_one_of_another_script_are_not_told(texts):
    both = pd.concat([turn("1_1", "tea", texts), turn("1_2", "tea")], ignore_index=True)
    found = ikat.BM25Rerank()(both)
    assert found["qid"].value_counts().to_dict() == {"1_2": 6, "1_1": 2}


def test_all_turns_of_another_script_are_named_in_their_order():
    foreign = {"d1": "чай", "d2": "река"}
    frames = [turn("3_1", "tea", foreign), turn("1_1", "tea"), turn("2_1", "чай")]
    with pytest.warns(NoResultWarning, match=r"^2 turns without a .*: 3_1, 2_1; BM25 scores"):
        found = ikat.BM25Rerank()(pd.concat(frames, ignore_index=True))
    assert found["qid"].drop_duplicates().tolist() == ["3_1", "1_1", "2_1"]


# Texts without a word


def turn_of(qid, query, *texts):
    docnos = [f"{qid}d{number}" for number in range(len(texts))]
    return pd.DataFrame(
        {
            "qid": qid,
            "query": query,
            "docno": docnos,
            "text": texts,
            "score": 0.0,
            "rank": range(len(texts)),
        }
    )


CHINESE = turn_of("zh", "我能吃花生吗？", "我住在公寓里。", "我对花生过敏。")


RUSSIAN = turn_of("ru", "dogs", "У меня собака.", "Я живу тут.")


ENGLISH = turn_of("en", "dogs", "I own a dog.", "I live here.", "我对花生过敏。", "!")


@pytest.mark.parametrize(
    "frame", [CHINESE, RUSSIAN, pd.concat([RUSSIAN, CHINESE])], ids=["zh", "ru", "both"]
)
def test_texts_without_a_word_are_refused_not_scored_0(frame):
    with pytest.raises(
        DataError, match="no text has a word of ASCII letters and digits: rank by meaning"
    ):
        ikat.BM25Rerank()(frame)


def test_a_turn_without_a_word_among_others_is_told():
    with pytest.warns(
        NoResultWarning,
        match=r"^2 turns without a word .* in the query or the texts: zh, ru; BM25 scores them 0$",
    ):
        found = ikat.BM25Rerank()(pd.concat([CHINESE, ENGLISH, RUSSIAN]))
    assert found.groupby("qid", sort=False)["docno"].first().tolist() == ["zhd1", "end0", "rud1"]
    with pytest.warns(NoResultWarning, match="^1 turn without a word"):
        ikat.BM25Rerank()(turn_of("t", "собака", "I own a dog."))
    ikat.BM25Rerank()(turn_of("t", "?", "I own a dog."))  # no letters: nothing to say
    ikat.BM25Rerank()(turn_of("t", "dog", "!", ""))


def test_a_retriever_behind_a_retriever_names_the_re_ranker(tmp_path):
    passages = [{"docno": "d1", "text": "Tea."}, {"docno": "d2", "text": "Soil."}]
    index = ikat.PassageIndex(tmp_path / "index").index(passages)
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
    with pytest.raises(
        ikat.DataError, match=r"takes turns, and the frame has passages .*take ikat.BM25Rerank\(\)"
    ):
        (index.bm25() >> index.bm25())(turns)
    assert (index.bm25() >> ikat.BM25Rerank())(turns)["docno"].tolist() == ["d1"]
