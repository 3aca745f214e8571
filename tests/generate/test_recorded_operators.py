"""Every operator on the sample's recorded completions, and as PyTerrier tests transformers."""

import pyterrier as pt
import pytest
from operators import a_turn, found

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import count_words

_llm = ikat.llm("recorded:sample")
ENHANCED = {
    form: lambda form=form: ikat.generate.Enhance(_llm, form)
    for form in ("topic", "response", "guess", "preferences", "summary")
}
OPERATORS = ENHANCED | {
    "statements": lambda: ikat.SelectStatements(_llm),
    "copies": lambda: ikat.SelectStatements(_llm, "copies"),
    "scores": lambda: ikat.SelectStatements(_llm, "scores", given="suggestion"),
    "summarise": lambda: ikat.generate.Summarise(_llm),
    "clarify": lambda: ikat.generate.Clarify(_llm),
    "articles": lambda: ikat.generate.PassageQueries(_llm, per_statement=3),
    "passages": lambda: ikat.generate.PassageQueries(_llm, ("short", "long", "styled")),
    "outline": lambda: ikat.generate.OutlineAnswer(_llm, "context"),
    "rewrite": lambda: ikat.Rewrite(_llm, "short"),
    "reformulate": lambda: ikat.generate.Reformulate(_llm),
    "level": lambda: ikat.generate.RewriteByLevel(_llm),
    "queries": lambda: ikat.Queries(_llm),
    "statement_queries": lambda: ikat.generate.StatementQueries(_llm),
    "answer": lambda: ikat.Answer(_llm, statements="chosen", style="llama"),
    "update": lambda: ikat.generate.UpdatePtkb(_llm),
    "respond": lambda: ikat.Respond(_llm, form="suggested", statements="chosen"),
    "condense": lambda: ikat.generate.Condense(_llm),
    "decide": lambda: ikat.generate.Decide(_llm, may_ask=False),
}
OTHERS = {
    "samples": lambda: ikat.Samples(ikat.RewriteAndAnswer(_llm), 3),
    "aggregate": lambda: ikat.generate.Aggregate(),
    "best": lambda: ikat.generate.BestQuery(ikat.ManualRewrite()),
    "seq2seq": lambda: ikat.generate.Seq2SeqRewrite("m"),
    "rank": lambda: ikat.RankStatements(ikat.BiEncoder("m")),
    "append": lambda: ikat.generate.AppendStatements("qgoldptkb"),
    "explode": ikat.ExplodeQueries,
    "raw": ikat.RawUtterance,
    "all": ikat.AllUtterances,
    "manual": ikat.ManualRewrite,
    "hqe": lambda: ikat.generate.HistoricalQueryExpansion(ikat.RawUtterance()),
    "rerank": lambda: ikat.LLMRerank(_llm),
}
for _name, _make in (OPERATORS | OTHERS).items():
    globals()[f"Test{_name}"] = pt.testing.transformer_test_class(_make)


@pytest.fixture
def topics():
    return pt.get_dataset("ikat:sample").get_topics()


@pytest.fixture
def manual():
    return pt.get_dataset("ikat:sample").get_topics("manual")


@pytest.fixture
def llm():
    return ikat.llm("recorded:sample")


CHOSEN = {
    "ids": {"1-1_1": ["2", "6", "4"], "1-1_2": ["5", "1", "4"], "1-1_4": [], "1-1_5": ["3", "4"]},
    "copies": {
        "1-1_1": ["2", "4", "6"],
        "1-1_2": ["5", "4"],
        "1-2_5": ["5", "2"],
        "1-2_6": [],
        "2-1_6": [],
        "3-1_6": [],
    },
    "scores": {"1-1_3": ["2", "4"], "1-1_6": [], "2-1_3": ["1", "2"]},
}


@pytest.mark.parametrize("form", CHOSEN)
def test_the_statements_that_a_model_chose(form, llm, topics):
    out = ikat.SelectStatements(llm, form)(topics).set_index("qid")["qstatements"]
    for qid, numbers in CHOSEN[form].items():
        assert [number for number, _ in out[qid]] == numbers, qid
    if form == "scores":
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
    for chosen, texts, weights in zip(
        out["qstatements"], out["qsubqueries"], out["qweights"], strict=True
    ):
        assert weights == [1.0, *(score for _, score in chosen[:3])]
        assert all(60 < count_words(text) < 150 for text in texts)
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("question", ["query", "qresolved"])
def test_queries_per_statement(llm, manual, question):
    start = ikat.ManualRewrite() if question == "qresolved" else ikat.Rewrite(llm, "short")
    choose = ikat.SelectStatements(
        llm, question="qresolved" if question == "qresolved" else "qutterance"
    )
    out = (start >> choose >> ikat.generate.StatementQueries(llm, question=question))(manual)
    for queries in out["qsubqueries"]:
        assert len(queries) >= 2
        assert not set('[]"`') & set("".join(queries))
    assert llm.ledger.frame()["fallbacks"].sum() == 0


def test_responses(llm, topics):
    results = found(ikat.generate.OutlineAnswer(llm)(topics), 6)
    for form in ("rag", "passages_only", "suggested"):
        out = ikat.Respond(llm, form=form)(results)
        assert out.groupby("qid")["used"].sum().eq(5).all()
        assert out.groupby("qid")["qanswer"].nunique().eq(1).all()
        assert all(20 < count_words(text) <= 200 for text in out["qanswer"])
    assert llm.ledger.frame()["dropped"].sum() == 0


@pytest.mark.parametrize("name", [*OPERATORS, *OTHERS])
def test_operators_are_values_whose_repr_can_be_pasted_back(name):
    operator = (OPERATORS | OTHERS)[name]()
    pasted = eval(repr(operator), {"ikat": ikat})
    assert pasted == operator
    assert hash(pasted) == hash(operator)


def test_the_same_input_gives_the_same_requests_one_per_outcome():
    turn = a_turn(qstatements=[("1", 0.5)], qsuggestion="Tea.")
    for name, make in OPERATORS.items():
        frame = found(turn, 3) if name in ("respond", "decide", "condense") else turn
        requests = make().requests(frame)
        assert len(requests) == len(make().typical(frame)) == len(make().fallback(frame))
        assert requests == make().requests(frame)
