"""Queries without a model: files of queries, words of past turns, appended queries, by hand."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning, report_turns_without_result
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate.utterances import QueryFile
from pyterrier_ikat.planning import Plan

G = ikat.generate


def said(*texts):
    """The last of these messages of the user as a turn, each answered by "Quince."."""
    chat = []
    for text in texts:
        chat += [{"role": "user", "content": text}, {"role": "assistant", "content": "Quince."}]
    return ikat.conversation(chat[:-1])


def test_a_file_of_queries_is_text_and_known_by_its_turns(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("a\tIs it?\n")
    operator = G.GivenQueries(str(path))
    [file] = operator.parts()
    other = tmp_path / "other.tsv"
    other.write_text("b\tIs it?\n")
    assert file.fingerprint() == QueryFile(str(path)).fingerprint()
    assert file.fingerprint() != QueryFile(str(other)).fingerprint()
    path.write_bytes(b"a\t\xff\xfe")
    with pytest.raises(DataError, match="can't be read as text"):
        _ = QueryFile(str(path)).queries


# "pear" has the best passage, neither as its first nor as its last one; by sum "apple" would be
# first, and by mean, least, first or last score "pear" would be last
SCORES = {"zinc": [2.0], "apple": [1.9, 2.0, 1.9], "pear": [0.1, 3.0, 0.2], "quince": [9.0]}


def by_word(frame):
    """A retriever of single words, in no order, which is never asked for nothing."""
    assert len(frame)
    rows = []
    for qid, query in zip(frame["qid"], frame["query"], strict=True):
        for rank, score in enumerate(SCORES.get(query, [])):
            rows.append((qid, f"d{rank}", score))
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def test_words_of_all_past_questions_go_by_their_best_passage():
    expand = G.HistoricalQueryExpansion(pt.apply.generic(by_word), 3)
    one = said("Zinc? Apple, apple?", "Pear?", "And now?")
    both = pd.concat([one.assign(qid="x"), said("Apple?", "And then?")], ignore_index=True)
    # the best passage of a word counts; zinc comes before its equal apple, as it was said first
    assert expand(both)["query"].tolist() == ["And now? pear zinc apple", "And then? apple"]
    assert expand(said("Zinc?"))["query"].item() == "Zinc?"


def test_a_plan_of_expansion_has_the_utterance_alone():
    turn = a_turn().assign(query="Does mint help?")
    planned = G.HistoricalQueryExpansion(pt.apply.generic(by_word)).plan(turn, Plan("mine", set()))
    assert planned["query"].tolist() == ["And against a cold?"]


def test_a_plan_of_an_appended_query_asks_nothing():
    llm, backend = scripted("Does mint help?")
    planned = ikat.plan({"x": G.AppendQuery(ikat.Rewrite(llm))}, a_turn())
    assert (planned.total["calls"], backend.asked) == (1, [])


def test_an_appended_query_is_a_text():
    nothing = pt.apply.generic(lambda frame: frame.assign(query=None))
    with pytest.raises(DataError, match=r"no text in query \(turns a\)"):
        G.AppendQuery(nothing)(pd.DataFrame({"qid": ["a"], "query": ["x"]}))


def test_a_word_that_was_said_twice_is_added_once():
    expand = G.HistoricalQueryExpansion(pt.apply.generic(by_word), 4)
    turn = said("Zinc? Apple, apple?", "Pear? Pear. Zinc!", "Rye?", "And zinc now?")
    assert expand(turn)["query"].tolist() == ["And zinc now? pear apple"]


@pytest.mark.parametrize("question", ["Why zinc?", "ZINC", "(zinc)"])
def test_a_word_of_the_question_is_not_added_in_any_form(question):
    expand = G.HistoricalQueryExpansion(pt.apply.generic(by_word))
    assert expand(said("Zinc? Pear?", question))["query"].item() == f"{question} pear"


def test_nobody_is_told_that_a_past_word_finds_nothing():
    def find(frame):
        report_turns_without_result(frame, np.zeros(len(frame), dtype=int))
        return by_word(frame)

    with warnings.catch_warnings():
        warnings.simplefilter("error", NoResultWarning)
        out = G.HistoricalQueryExpansion(pt.apply.generic(find))(said("Rye?", "Why?"))
    assert out["query"].item() == "Why?"


def test_a_query_column_is_the_query_and_the_old_one_is_kept():
    frame = pd.DataFrame({"qid": ["1"], "query": ["safe?"], "qrewrite": ["is rooibos safe?"]})
    assert ikat.generate.QueryColumn("qrewrite")(frame)[["query", "query_0"]].values.tolist() == [
        ["is rooibos safe?", "safe?"]
    ]
    with pytest.raises(pt.validate.InputValidationError, match="qanswer"):
        ikat.generate.QueryColumn("qanswer")(frame)


TestQueryColumn = pt.testing.transformer_test_class(lambda: ikat.generate.QueryColumn("qrewrite"))
