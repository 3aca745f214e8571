"""Every operator on the sample's recorded completions, and as PyTerrier wants transformers to be."""

import pyterrier as pt
import pytest
from operators import a_turn, found

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import count_words

_llm = ikat.llm("recorded:sample")
OPERATORS = {
    "statements": lambda: ikat.SelectStatements(_llm),
    "copies": lambda: ikat.SelectStatements(_llm, "copies"),
    "scores": lambda: ikat.SelectStatements(_llm, "scores"),
    "suggested": lambda: ikat.SelectStatements(_llm, "scores", given="suggestion"),
    "summarise": lambda: ikat.generate.Summarise(_llm),
    "clarify": lambda: ikat.generate.Clarify(_llm),
    "articles": lambda: ikat.generate.PassageQueries(_llm, per_statement=3),
    "passages": lambda: ikat.generate.PassageQueries(_llm, ("short", "long", "styled")),
    "suggest": lambda: ikat.generate.OutlineAnswer(_llm),
    "suggest_context": lambda: ikat.generate.OutlineAnswer(_llm, "context"),
    "rewrite": lambda: ikat.Rewrite(_llm, "short"),
    "queries": lambda: ikat.generate.StatementQueries(_llm),
    "answer": lambda: ikat.Answer(_llm, statements="chosen", style="llama"),
    "respond": lambda: ikat.Respond(_llm),
    "decide": lambda: ikat.generate.Decide(_llm, may_ask=False),
}


@pytest.fixture
def topics():
    return pt.get_dataset("ikat:sample").get_topics()


@pytest.fixture
def manual():
    return pt.get_dataset("ikat:sample").get_topics("manual")


@pytest.fixture
def llm():
    return ikat.llm("recorded:sample")


def numbers(out):
    return dict(zip(out["qid"], ([number for number, _ in chosen] for chosen in out["qstatements"]), strict=True))


def test_ids(llm, topics):
    chosen = numbers(ikat.SelectStatements(llm)(topics))
    assert chosen["1-1_1"] == ["2", "6", "4"]
    assert chosen["1-1_2"] == ["5", "1", "4"]
    assert chosen["1-1_4"] == []
    assert chosen["1-1_5"] == ["3", "4"]


def test_copies(llm, topics):
    chosen = numbers(ikat.SelectStatements(llm, "copies")(topics))
    assert chosen["1-1_1"] == ["2", "4", "6"]
    assert chosen["1-1_2"] == ["5", "4"]
    assert chosen["1-2_5"] == ["5", "2"]
    assert chosen["1-2_6"] == chosen["2-1_6"] == chosen["3-1_6"] == []


def test_scores(llm, topics):
    out = ikat.SelectStatements(llm, "scores")(topics).set_index("qid")["qstatements"]
    assert out["1-1_3"] == [("2", 1.0), ("4", 0.2)]
    assert out["1-1_6"] == []
    assert out["2-1_3"] == [("1", 1.0), ("2", 0.4)]
    assert llm.ledger.frame()["dropped"].sum() > 0


def test_passage_queries_per_statement(llm, topics):
    system = (
        ikat.generate.Summarise(llm)
        >> ikat.SelectStatements(llm, "scores")
        >> ikat.generate.Clarify(llm)
        >> ikat.generate.PassageQueries(llm, per_statement=3)
    )
    out = system(topics)
    for chosen, texts, weights in zip(out["qstatements"], out["qsubqueries"], out["qweights"], strict=True):
        assert weights == [1.0, *(score for _, score in chosen[:3])]
        assert all(60 < count_words(text) < 150 for text in texts)
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("question", ["query", "qresolved"])
def test_queries_per_statement(llm, manual, question):
    start = ikat.ManualRewrite() if question == "qresolved" else ikat.Rewrite(llm, "short")
    choose = ikat.SelectStatements(llm, question="qresolved" if question == "qresolved" else "qutterance")
    out = (start >> choose >> ikat.generate.StatementQueries(llm, question=question))(manual)
    for queries in out["qsubqueries"]:
        assert len(queries) >= 2
        assert not any(character in query for query in queries for character in '[]"`')
    assert llm.ledger.frame()["fallbacks"].sum() == 0


def test_responses(llm, topics):
    results = found(ikat.generate.OutlineAnswer(llm)(topics), 6)
    for form in ("rag", "passages_only", "suggested"):
        out = ikat.Respond(llm, form=form)(results)
        assert out.groupby("qid")["used"].sum().eq(5).all()
        assert out.groupby("qid")["qanswer"].nunique().eq(1).all()
        assert all(20 < count_words(text) <= 200 for text in out["qanswer"])
    assert llm.ledger.frame()["dropped"].sum() == 0


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_values_whose_repr_can_be_pasted_back(name):
    operator = OPERATORS[name]()
    pasted = eval(repr(operator), {"ikat": ikat})
    assert pasted == operator
    assert hash(pasted) == hash(operator)
    assert len(operator.schematic["label"]) <= 20


def test_the_same_input_gives_the_same_requests():
    turn = a_turn(qstatements=[("1", 0.5)], qsuggestion="Tea.")
    frames = {name: found(turn, 3) if name in ("respond", "decide") else turn for name in OPERATORS}
    for name, make in OPERATORS.items():
        requests = make().requests(frames[name])
        assert len(requests) == len(make().typical(frames[name])) == len(make().fallback(frames[name]))
        assert requests == make().requests(frames[name])


TestStatements = pt.testing.transformer_test_class(OPERATORS["statements"])
TestScoresSuggested = pt.testing.transformer_test_class(OPERATORS["suggested"])
TestSummarise = pt.testing.transformer_test_class(OPERATORS["summarise"])
TestClarify = pt.testing.transformer_test_class(OPERATORS["clarify"])
TestArticles = pt.testing.transformer_test_class(OPERATORS["articles"])
TestSuggest = pt.testing.transformer_test_class(OPERATORS["suggest"])
TestStatementQueries = pt.testing.transformer_test_class(OPERATORS["queries"])
TestOneShot = pt.testing.transformer_test_class(OPERATORS["answer"])
TestRespond = pt.testing.transformer_test_class(OPERATORS["respond"])
TestSuggested = pt.testing.transformer_test_class(lambda: ikat.Respond(_llm, form="suggested", statements="chosen"))
