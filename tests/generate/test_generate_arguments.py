"""Arguments that are out of range or unknown are named before a model is asked."""

import pytest
from fakes import scripted

import pyterrier_ikat as ikat

LLM, _ = scripted()
WRONG = [
    (ikat.Answer, {"words": 0}, "words=0: give 1 or more"),
    (
        ikat.Answer,
        {"statements": "some"},
        "statements='some' is unknown: choose one of all, chosen",
    ),
    (ikat.Answer, {"style": "bard"}, "style='bard' is unknown: choose one of gpt, llama"),
    (
        ikat.Answer,
        {"on_error": "ignore"},
        "on_error='ignore' is unknown: choose one of raise, fallback, None",
    ),
    (ikat.Rewrite, {"form": "brief"}, "form='brief' is unknown: choose one of full, short"),
    (
        ikat.generate.OutlineAnswer,
        {"form": "long"},
        "form='long' is unknown: choose one of elements, context",
    ),
    (ikat.generate.Summarise, {"min_characters": -1}, "min_characters=-1"),
    (ikat.generate.StatementQueries, {"n": 0}, "n=0: give 1 or more"),
    (ikat.generate.UpdatePtkb, {"messages": 0}, "messages=0: give 1 or more"),
    (ikat.generate.Condense, {"chunk": 0}, "chunk=0"),
    (ikat.generate.Condense, {"direct": -1}, "direct=-1: give 0 or more"),
    (ikat.generate.Condense, {"words": 0}, "words=0"),
    (ikat.generate.Condense, {"passages": 0}, "passages=0"),
    (ikat.generate.Decide, {"passages": 0}, "passages=0"),
    (ikat.generate.PassageQueries, {"forms": ()}, "forms="),
    (ikat.generate.PassageQueries, {"forms": ["poem"]}, "forms="),
    (ikat.generate.PassageQueries, {"forms": "article"}, "forms="),
    (ikat.generate.PassageQueries, {"per_statement": -1}, "per_statement=-1"),
    (ikat.Queries, {"n": 0}, "n=0: give 1 or more"),
    (ikat.Queries, {"n": None}, "n=None: give the maximum number of queries"),
    (ikat.Queries, {"given": "gold"}, "given='gold' is unknown"),
    (ikat.Queries, {"words": 0}, "words=0"),
    (
        ikat.generate.Reformulate,
        {"form": "sar"},
        "form='sar' is unknown: choose one of rewrite, queries, select",
    ),
    (
        ikat.generate.Reformulate,
        {"shots": 1},
        "shots=1: form='rewrite' shows no examples; form='select' does",
    ),
    (ikat.generate.Reformulate, {"words": 0}, "words=0"),
    (ikat.Respond, {"passages": 0}, "passages=0"),
    (ikat.Respond, {"words": 0}, "words=0"),
    (ikat.Respond, {"passage_words": 0}, "passage_words=0"),
    (ikat.Respond, {"form": "poem"}, "form='poem' is unknown"),
    (
        ikat.Respond,
        {"statements": "some"},
        "statements='some' is unknown: choose one of all, chosen",
    ),
    (ikat.Respond, {"form": "condensed", "cite": True}, "another form, or omit cite"),
    (
        ikat.SelectStatements,
        {"form": "names"},
        "form='names' is unknown: choose one of ids, copies, scores",
    ),
    (ikat.SelectStatements, {"given": "answer"}, "given='answer' is unknown"),
    (
        ikat.SelectStatements,
        {"form": "copies", "shots": 2},
        "shots=2: only form='ids' without given shows examples",
    ),
    (ikat.generate.Seq2SeqRewrite, {"responses": -1}, "responses=-1: give 0 or more"),
    (ikat.generate.Seq2SeqRewrite, {"max_length": 1}, "max_length=1: give 2 or more"),
    (ikat.generate.Seq2SeqRewrite, {"num_beams": 0}, "num_beams=0"),
    (ikat.generate.Seq2SeqRewrite, {"batch_size": 0}, "batch_size=0"),
    (ikat.generate.BestQuery, {"passages": 0}, "passages=0: give 1 or more"),
    (
        ikat.generate.BestQuery,
        {"rule": "oracle"},
        "rule='oracle' is unknown: choose one of score, agreement, spread",
    ),
    (ikat.RankStatements, {"n": 0}, "n=0: give 1 or more"),
]


@pytest.mark.parametrize(("operator", "arguments", "said"), WRONG)
def test_a_wrong_argument_is_named(operator, arguments, said):
    first = (
        ikat.RawUtterance() if operator in (ikat.generate.BestQuery, ikat.RankStatements) else LLM
    )
    with pytest.raises(ikat.UsageError, match=said):
        operator(first, **arguments)
