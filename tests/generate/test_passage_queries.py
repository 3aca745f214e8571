import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat

CHOSEN = [("3", 0.9), ("1", 0.5), ("2", 0.1)]


def test_one_passage_for_all_statements_and_one_for_each_best():
    llm, backend = scripted("About all.", "About Oslo.", "About chamomile.")
    operator = ikat.generate.PassageQueries(llm, per_statement=2)
    turn = a_turn(qstatements=CHOSEN, qrewrite="Which tea helps against a cold?")
    out = operator(turn)
    assert out["qsubqueries"].tolist() == [["About all.", "About Oslo.", "About chamomile."]]
    assert out["qweights"].tolist() == [[1.0, 0.9, 0.5]]
    assert [(request.item, request.prompt) for request in operator.requests(turn)] == [
        ("", "passage_queries_article"),
        ("3", "passage_queries_article"),
        ("1", "passage_queries_article"),
    ]
    whole, oslo, chamomile = texts(backend)
    assert "3: I live in Oslo., 1: I am allergic to chamomile., 2: I own a dog." in whole
    assert "3: I live in Oslo.\n" in oslo
    assert "chamomile" not in oslo
    assert "1: I am allergic to chamomile.\n" in chamomile
    assert "10 full sentences" in whole


def test_the_article_answers_the_clarified_turn_without_history():
    llm, backend = scripted("Tea.", "Tea.")
    ikat.generate.PassageQueries(llm)(a_turn(qrewrite="Which tea helps against a cold?"))
    ikat.generate.PassageQueries(llm)(a_turn())
    for text, shown in zip(
        texts(backend), ([True, False, False], [False, True, True]), strict=True
    ):
        assert [
            part in text
            for part in ("Which tea helps against a cold?", "Rooibos", "And against a cold?")
        ] == shown


def test_the_other_forms_see_the_history_and_the_raw_question():
    llm, backend = scripted("Short.", "Long.", "Style: blog\nStyled.")
    operator = ikat.generate.PassageQueries(llm, ["short", "long", "styled"])
    turn = a_turn(qstatements=CHOSEN[:1], qrewrite="Which tea helps?")
    out = operator(turn)
    assert out["qsubqueries"].tolist() == [["Short.", "Long.", "Styled."]]
    assert out["qweights"].tolist() == [[1.0, 1.0, 1.0]]
    assert [request.prompt for request in operator.requests(turn)] == [
        "passage_queries_short",
        "passage_queries_long",
        "passage_queries_styled",
    ]
    for text, sentences in zip(texts(backend), (5, 10, 10), strict=True):
        assert "system: Rooibos." in text
        assert "And against a cold?" in text
        assert "Which tea helps?" not in text
        assert "I live in Oslo." in text
        assert "chamomile" not in text
        assert f"xactly {sentences} full sentences" in text


def test_statements_of_their_own_only_where_some_were_chosen():
    llm, backend = scripted("A.", "B.")
    turns = two_turns().assign(qstatements=[[], []])
    assert ikat.generate.PassageQueries(llm, per_statement=3)(turns)["qweights"].tolist() == [
        [1.0],
        [1.0],
    ]
    assert len(backend.asked) == 2
    with pytest.raises(pt.validate.InputValidationError, match="qstatements"):
        ikat.generate.PassageQueries(llm, per_statement=3)(two_turns())


def test_the_question_replaces_a_failed_passage_with_its_weight():
    turn = a_turn(qstatements=CHOSEN, qrewrite="Which tea helps?")
    llm, _ = scripted("All.", "...")
    out = ikat.generate.PassageQueries(llm, per_statement=1, on_error="fallback")(turn)
    assert out["qsubqueries"].tolist() == [["All.", "Which tea helps?"]]
    assert out["qweights"].tolist() == [[1.0, 0.9]]
    assert ledger(llm, "fallbacks") == 1


def test_expand_gives_each_row_its_weight():
    turns = pd.DataFrame(
        {
            "qid": ["1", "2"],
            "query": ["x", "y"],
            "qsubqueries": [["a", "b"], []],
            "qweights": [[1, 0.4], []],
        }
    )
    out = ikat.ExplodeQueries()(turns)
    assert out["qweight"].tolist() == [1.0, 0.4, 1.0]
    assert out["qweight"].dtype == np.float64
    assert ikat.ExplodeQueries()(turns.iloc[:0]).columns.tolist() == out.columns.tolist()
    assert "qweight" not in ikat.ExplodeQueries()(turns.drop(columns="qweights"))
    with pytest.raises(ikat.DataError, match="turn 1 has 2 sub-queries but 1 weights"):
        ikat.ExplodeQueries()(turns.assign(qweights=[[1.0], []]))
    with pytest.raises(ikat.DataError, match="turn 2 has 0 sub-queries but 1 weights"):
        ikat.ExplodeQueries()(turns.assign(qweights=[[1, 0.4], [1.0]]))


def test_other_queries_do_not_keep_passage_query_weights():
    llm, _ = scripted("1. ginger tea", '["ginger tea"]')
    turn = a_turn(qweights=[1.0, 0.5], qstatements=[])
    assert "qweights" not in ikat.Queries(llm)(turn)
    assert "qweights" not in ikat.generate.StatementQueries(llm)(turn)
    expanded = ikat.ExplodeQueries()(
        pd.DataFrame(
            {"qid": ["1"], "query": ["x"], "qsubqueries": [["a", "b"]], "qweights": [[1.0, 0.4]]}
        )
    )
    assert "qweight" not in ikat.Interleave()(
        expanded.assign(docno=["d", "e"], rank=[0, 0], score=[1.0, 1.0])
    )


def test_statement_queries_ask_for_each_and_drop_repeats():
    llm, backend = scripted(
        '["tea Oslo", "cold remedy"]',
        'Here:\n```json\n["Cold remedy", "tea without chamomile"]\n```',
    )
    operator = ikat.generate.StatementQueries(llm, n=2)
    turn = a_turn(qstatements=CHOSEN[:2]).assign(query="Which tea helps?")
    out = operator(turn)
    assert out["qsubqueries"].tolist() == [["tea Oslo", "cold remedy", "tea without chamomile"]]
    assert out["query"].tolist() == ["Which tea helps?"]
    assert [
        (request.item, request.prompt, request.stage) for request in operator.requests(turn)
    ] == [
        ("3", "queries_statement", "queries"),
        ("1", "queries_statement", "queries"),
    ]
    first, second = texts(backend)
    assert "I live in Oslo." in first
    assert "Which tea helps?" in first
    assert "chamomile" not in first
    assert "chamomile" in second
    assert "Rooibos" not in first + second


@pytest.mark.parametrize(
    ("question", "prompt", "shown"),
    [
        ("query", "queries_statement", "Which tea helps?"),
        ("qresolved", "queries_statement_human", "Which tea helps against a cold?"),
    ],
)
def test_without_a_statement_a_rewrite_alone_is_asked_for(question, prompt, shown):
    operator = ikat.generate.StatementQueries(scripted()[0], question=question)
    turn = a_turn(qstatements=[], qresolved="Which tea helps against a cold?").assign(
        query="Which tea helps?"
    )
    [request] = operator.requests(turn)
    assert (request.item, request.prompt) == ("", prompt)
    assert shown in request.messages[0]["content"]
    assert "statement" not in request.messages[0]["content"].casefold()


def test_no_statement_query_falls_back_to_the_question_counted():
    llm, _ = scripted("...", '["tea Oslo"]')
    out = ikat.generate.StatementQueries(llm)(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["And against a cold?", "tea Oslo"]]
    assert (ledger(llm, "fallbacks"), ledger(llm, "failures")) == (1, 1)


def test_queries_beyond_the_limit_are_left_out_and_counted():
    llm, _ = scripted('["a", "b", "c", "d"]', '["b", "e", "f"]')
    limited = ikat.generate.StatementQueries(llm, n=2)
    out = limited(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["a", "b", "e"]]
    assert ledger(llm, "dropped") == 3
    llm, _ = scripted('["a", "b", "c", "d"]', '["b", "e", "f"]')
    unlimited = ikat.generate.StatementQueries(llm)
    out = unlimited(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["a", "b", "c", "d", "e", "f"]]
    assert ledger(llm, "dropped") == 0
    assert (limited.open_ended, unlimited.open_ended) == (False, True)


def test_a_query_that_only_differs_in_case_is_the_first_one():
    llm, _ = scripted('["Mint tea", "mint TEA"]', '["MINT tea", "sage"]')
    out = ikat.generate.StatementQueries(llm)(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["Mint tea", "sage"]]
