"""Queries without a model: files of queries, words of past turns, appended queries."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import CHAT, a_turn

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning, report_turns_without_result
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate.utterances import QueryFile
from pyterrier_ikat.planning import Plan

G = ikat.generate


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


def test_a_file_of_queries_is_read_line_by_line(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("\ufeffa\tIs it? \n\n b \tTea\tand more\n", encoding="utf-8")
    file = QueryFile(str(path))
    assert file.queries == {"a": "Is it?", "b": "Tea\tand more"}
    assert repr(file) == repr(str(path))
    other = tmp_path / "other.tsv"
    other.write_text("a\tIs it\nb\tTea\tand more\n")
    same = tmp_path / "same.tsv"
    same.write_text("a\tIs it?\nb\tTea\tand more")
    assert QueryFile(str(same)).fingerprint() == file.fingerprint()
    assert QueryFile(str(other)).fingerprint() != file.fingerprint()
    for text, part in (
        ("a\tx\na\tx", "line 2: turn a has a query already"),
        ("a\tx\n\nb", "line 3: 'b' is no turn, a tab and its query"),
        ("\tx", "line 1"),
        ("a\t ", "line 1"),
        (" \n", "has no query"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=part):
            _ = QueryFile(str(path)).queries
    given = G.GivenQueries(str(same))
    frame = pd.DataFrame({"qid": ["b", "a"], "query": ["x", "y"]})
    out = given(frame)
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["Tea\tand more", "Is it?"]
    with pytest.raises(DataError, match=r"no query of 1 turn of 2 \(c\); its 2 turns are like a"):
        given(frame.assign(qid=["a", "c"]))


def test_queries_without_an_llm(turn):
    rewritten = turn.assign(query="something else", qresolved="Which tea helps against a cold?")
    for operator, query in (
        (ikat.RawUtterance(), "And against a cold?"),
        (ikat.AllUtterances(), "Which tea has no caffeine? And against a cold?"),
        (ikat.ManualRewrite(), "Which tea helps against a cold?"),
    ):
        assert operator(rewritten)["query"].tolist() == [query]


def test_all_messages_are_joined_in_either_order():
    chat = [*CHAT[:1], {"role": "assistant", "content": " "}, *CHAT]
    frame = ikat.conversation(chat)
    tea, rooibos, cold = (message["content"] for message in CHAT)
    assert ikat.AllUtterances()(frame)["query"].item() == f"{tea} {tea} {cold}"
    every = ikat.AllUtterances(responses=True, newest_first=True, separator="|")(frame)
    assert every["query"].item() == f"{cold}|{rooibos}|{tea}|{tea}"
    assert len(frame["qhistory"].item()) == 4


def said(*texts):
    """The last of these messages of the user as a turn, each answered by "Quince."."""
    chat = []
    for text in texts:
        chat += [{"role": "user", "content": text}, {"role": "assistant", "content": "Quince."}]
    return ikat.conversation(chat[:-1])


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


TestQueryColumn = pt.testing.transformer_test_class(lambda: G.QueryColumn("qrewrite"))


def test_past_words_of_the_highest_weights_are_added():
    weights = {"which": 0.5, "tea": 3.0, "mint": 2.0, "has": 2.0, "no": 1.0}
    asked = []

    def search(frame):
        asked.extend(frame["query"])
        rows = []
        for qid in frame["qid"]:
            if qid in weights:
                rows.append((qid, "d", weights[qid] - 1))
                rows.append((qid, "d", weights[qid]))
        return pd.DataFrame(rows, columns=["qid", "docno", "score"])

    chat = [{"role": "user", "content": "Which TEA has mint, which no mint?"}, *CHAT[1:2]]
    frame = ikat.conversation([*chat, {"role": "user", "content": "Mint or has?"}])
    expand = G.HistoricalQueryExpansion(pt.apply.generic(search), 2)
    assert expand(frame)["query"].item() == "Mint or has? tea no"
    assert asked == ["has", "mint", "no", "tea", "which"]
    assert expand(ikat.conversation(CHAT[:1]))["query"].item() == CHAT[0]["content"]
    assert len(asked) == 5


def test_historical_expansion_adds_heaviest_words_of_past_turns(turn):
    weights = {"caffeine": 5.0, "tea": 2.0, "which": 0.5}
    known = pt.apply.generic(
        lambda words: words[words["query"].isin(weights)].assign(
            docno="d", rank=0, score=words["query"].map(weights)
        )
    )
    assert G.HistoricalQueryExpansion(known, words=2)(turn)["query"].tolist() == [
        "And against a cold? caffeine tea"
    ]
    rewritten = turn.assign(qutterance=turn["query"], query="Which tea helps against a cold?")
    assert G.HistoricalQueryExpansion(known, words=2)(rewritten)["query"].tolist() == [
        "And against a cold? caffeine tea"
    ]
    first = ikat.conversation(CHAT[:1])
    assert G.HistoricalQueryExpansion(known)(first)["query"].tolist() == [CHAT[0]["content"]]


def test_historical_expansion_hides_no_warning_of_its_retriever(turn):
    def find(words):
        warnings.warn("the index has no stop words", UserWarning, stacklevel=2)
        return words.assign(docno="d", rank=0, score=1.0)

    with pytest.warns(UserWarning, match="the index has no stop words"):
        G.HistoricalQueryExpansion(pt.apply.generic(find))(turn)


def test_a_plan_of_an_appended_query_asks_nothing():
    llm, backend = scripted("Does mint help?")
    planned = ikat.plan({"x": G.AppendQuery(ikat.Rewrite(llm))}, a_turn())
    assert (planned.total["calls"], backend.asked) == (1, [])


def test_an_appended_query_is_a_text():
    nothing = pt.apply.generic(lambda frame: frame.assign(query=None))
    with pytest.raises(DataError, match=r"no text in query \(turns a\)"):
        G.AppendQuery(nothing)(pd.DataFrame({"qid": ["a"], "query": ["x"]}))


def test_appended_queries_go_by_their_turns():
    backwards = pt.apply.generic(lambda frame: frame.assign(query=frame["qid"])[::-1])
    frame = pd.DataFrame({"qid": ["a", "b"], "query": ["x", "y"]})
    assert G.AppendQuery(backwards)(frame)["query"].tolist() == ["x a", "y b"]
    for wrong in (
        lambda rows: rows[:1],
        lambda rows: rows.assign(qid=["a", "c"]),
        lambda rows: pd.concat([rows, rows]),
    ):
        with pytest.raises(DataError, match="gave . rows? for 2 turns"):
            G.AppendQuery(pt.apply.generic(wrong))(frame)


def test_append_joins_two_queries_by_turn():
    upper = pt.apply.generic(
        lambda frame: frame.assign(query=frame["query"].str.upper()).iloc[::-1]
    )
    out = G.AppendQuery(upper)(
        pd.DataFrame({"qid": ["1", "2"], "query": ["a", "b"], "qrewrite": ["a", "b"]})
    )
    assert out[["query", "query_0", "qrewrite"]].values.tolist() == [
        ["a A", "a", "a"],
        ["b B", "b", "b"],
    ]


def test_a_query_column_is_the_query_and_the_old_one_is_kept():
    frame = pd.DataFrame({"qid": ["1"], "query": ["safe?"], "qrewrite": ["is rooibos safe?"]})
    assert G.QueryColumn("qrewrite")(frame)[["query", "query_0"]].values.tolist() == [
        ["is rooibos safe?", "safe?"]
    ]
    with pytest.raises(pt.validate.InputValidationError, match="qanswer"):
        G.QueryColumn("qanswer")(frame)
