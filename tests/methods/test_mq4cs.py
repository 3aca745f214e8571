"""MQ4CS: the aspects' lists are interleaved; what tells it apart from version 1 of its preprint."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, find

QUERIES = "1. bus to the lake\n2. lake in winter\n3. lake hotels"
FOUND = {"bus to the lake": ["a", "b"], "lake in winter": ["b", "c"], "lake hotels": ["d"]}


class Model:
    """Answers, or writes queries, by what it is asked; keeps the chats."""

    def __init__(self):
        self.chats = []

    def generate(self, chats):
        self.chats += chats
        return [QUERIES if "search queries" in chat[-1]["content"] else "Take the bus." for chat in chats]


def found(turns):
    rows = [
        {**turn, "docno": docno, "score": -float(rank), "rank": rank, "text": docno}
        for turn in turns.to_dict("records")
        for rank, docno in enumerate(FOUND[turn["query"]])
    ]
    return pd.DataFrame(rows)


def ranked(name, model, **given):
    turn = ikat.conversation([{"role": "user", "content": "How do I get to the lake?"}], ["I have no car."])
    return find(name).build(llm=ikat.llm(model), retriever=pt.apply.generic(found), **given)(turn)


@pytest.mark.parametrize(("name", "docnos"), [("mq4cs", "abdc"), ("mq4cs_ans", "abdc"), ("mq4cs:n=2", "abc"), ("mq4cs_ans:n=1", "ab")])
def test_the_first_n_queries_lists_are_interleaved_by_hand(name, docnos):
    # a of the first, b of the second, d of the third; then the first's b is taken, c of the second
    assert "".join(ranked(name, Model())["docno"]) == docnos


def test_each_list_is_re_ranked_by_its_own_query():
    pairs = []
    reranker = pt.apply.generic(lambda rows: pairs.extend(rows[["query", "docno"]].values.tolist()) or rows)
    ranked("mq4cs:n=2", Model(), reranker=reranker)
    assert [*FOUND][:2] == list(dict.fromkeys(query for query, _ in pairs))
    assert [docno for _, docno in pairs] == ["a", "b", "b", "c"]


def test_the_prompt_names_the_number_of_queries():
    for n in range(1, 6):
        model = Model()
        ranked("mq4cs" if n == 5 else f"mq4cs:n={n}", model)
        [chat] = model.chats
        assert f"at most {n}," in chat[-1]["content"]


def test_the_queries_of_ans_go_on_with_the_chat_of_the_answer_of_200_words():
    model = Model()
    ranked("mq4cs_ans:n=3", model)
    first, second = model.chats
    assert "Use at most 200 words." in first[-1]["content"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[0] == first[-1]
    assert second[1]["content"] == "Take the bus."
    assert "at most 3 different" in second[-1]["content"]


def test_the_sweep_is_of_both_systems_and_one_to_five_queries():
    for name in ("mq4cs", "mq4cs_ans"):
        assert [find(f"{name}:n={n}").settings["n"] for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
        assert METHODS[name].values["n"] == 5
        assert METHODS[name].needs == ["llm", "retriever"]
        assert METHODS[name].takes == ["reranker"]


def test_mq4cs_is_qd_of_version_1_and_ans_differs_from_aqd_in_the_limit_alone():
    assert METHODS["mq4cs"].expression == METHODS["qd"].expression
    limited = METHODS["aqd"].expression.replace("Answer(llm)", "Answer(llm, words=200)").replace("'answer')", "'answer', words=200)")
    assert METHODS["mq4cs_ans"].expression == limited
    assert METHODS["mq4cs"].paper != METHODS["qd"].paper
