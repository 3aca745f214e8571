"""Lists of queries for a turn: of its question, its statements, or passages as queries."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import CAFFEINE, CHAT, COLD, RUN_ON, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError

G = ikat.generate


def test_queries_given_the_answer_continue_the_same_chat(turn):
    llm, backend = scripted("Ginger tea.", "1. ginger tea cold\n2. is ginger safe")
    out = (ikat.Answer(llm) >> ikat.MultiQuery(llm, given="answer"))(turn)
    first, second = backend.asked
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[:1] == first
    assert second[1]["content"] == "Ginger tea."
    assert out[["qid", "qid_0", "qsub", "query", "query_0", "query_1"]].values.tolist() == [
        ["chat_2::0", "chat_2", 0, "ginger tea cold", "Ginger tea.", "And against a cold?"],
        ["chat_2::1", "chat_2", 1, "is ginger safe", "Ginger tea.", "And against a cold?"],
    ]


@pytest.mark.parametrize(
    ("style", "given"), [("llama", "answer"), ("llama", "other_answer"), ("gpt", "other_answer")]
)
def test_queries_for_an_answer_or_in_llama_style_are_one_message(turn, style, given):
    llm, backend = scripted("1. ginger tea cold")
    ikat.Queries(llm, given=given, style=style)(turn.assign(qanswer=["Ginger tea."]))
    [[message]] = backend.asked
    assert "Ginger tea." in message["content"]
    assert message["content"].count("# Example") == (3 if style == "llama" else 0)


def test_a_system_message_of_ones_own_stands_before_queries(turn, tmp_path):
    (tmp_path / "queries_system.jinja").write_text("Be short.")
    llm, backend = scripted("1. ginger tea cold")
    ikat.Queries(llm, prompts=str(tmp_path))(turn)
    assert backend.asked[0][0] == {"role": "system", "content": "Be short."}


def test_no_query_left_falls_back_to_rewrite_or_question_counted(turn):
    llm, _ = scripted("...", "- \n- ")
    first = ikat.Queries(llm)(turn)
    second = ikat.Queries(llm, n=4)(turn.assign(qrewrite=["tea against a cold"]))
    assert first["qsubqueries"].tolist() == [["And against a cold?"]]
    assert second["qsubqueries"].tolist() == [["tea against a cold"]]
    assert ledger(llm, "fallbacks") == 2


@pytest.mark.parametrize("lines", ["1. oats\n2. rye\n", "oats\nrye\n", '["oats", "rye"]\n'])
def test_a_next_prompt_that_the_model_invents_gives_no_queries(turn, lines):
    llm, _ = scripted(lines + RUN_ON)
    assert ikat.Queries(llm, style="llama")(turn)["qsubqueries"].tolist() == [["oats", "rye"]]
    assert ledger(llm, "dropped") == 1


def test_each_turn_without_a_query_is_counted_and_named(caplog):
    llm, _ = scripted('["tea"]', "[]", "[]")
    turns = pd.concat([two_turns(), ikat.conversation(CHAT[2:], number="third")], ignore_index=True)
    out = ikat.Queries(llm)(turns)
    assert out["qsubqueries"].tolist() == [["tea"], [CHAT[0]["content"]], [CHAT[2]["content"]]]
    assert (ledger(llm, "failures"), ledger(llm, "fallbacks")) == (2, 2)
    assert "no query in the completions of 2 turns: other_1, third_1;" in caplog.text


def test_other_queries_do_not_keep_passage_query_weights():
    llm, _ = scripted("1. ginger tea", '["ginger tea"]')
    turn = a_turn(qweights=[1.0, 0.5], qstatements=[])
    assert "qweights" not in ikat.Queries(llm)(turn)
    assert "qweights" not in G.StatementQueries(llm)(turn)
    expanded = ikat.ExplodeQueries()(
        pd.DataFrame(
            {"qid": ["1"], "query": ["x"], "qsubqueries": [["a", "b"]], "qweights": [[1.0, 0.4]]}
        )
    )
    assert "qweight" not in ikat.Interleave()(
        expanded.assign(docno=["d", "e"], rank=[0, 0], score=[1.0, 1.0])
    )


def test_expand_keeps_bare_turns_and_refuses_to_expand_twice():
    frame = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"], "qsubqueries": [["a", "b"], []]})
    out = ikat.ExplodeQueries()(frame)
    assert out[["qid", "query", "query_0"]].values.tolist() == [
        ["1::0", "a", "x"],
        ["1::1", "b", "x"],
        ["2::0", "y", "y"],
    ]
    with pytest.raises(ikat.UsageError, match="one row per sub-query already"):
        ikat.ExplodeQueries()(out)


def test_sub_queries_may_be_any_list_but_a_text():
    frame = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"]})
    frame["qsubqueries"] = [("a", "b"), np.array(["c", "d"])]
    out = ikat.ExplodeQueries()(frame)
    assert out["query"].tolist() == ["a", "b", "c", "d"]
    assert (out["qsub"].tolist(), out["qsub"].dtype) == ([0, 1, 0, 1], np.int64)
    with pytest.raises(DataError, match="turn 2 has the sub-queries 'cd'"):
        ikat.ExplodeQueries()(frame.assign(qsubqueries=[["a"], "cd"]))
    with pytest.raises(UsageError, match="one row per sub-query already"):
        ikat.ExplodeQueries()(frame.assign(qid_0=frame["qid"]))


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


CHOSEN = [("3", 0.9), ("1", 0.5), ("2", 0.1)]


def test_statement_queries_ask_for_each_and_drop_repeats():
    llm, backend = scripted(
        '["tea Oslo", "cold remedy"]',
        'Here:\n```json\n["Cold remedy", "tea without chamomile"]\n```',
    )
    operator = G.StatementQueries(llm, n=2)
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
    operator = G.StatementQueries(scripted()[0], question=question)
    turn = a_turn(qstatements=[], qresolved="Which tea helps against a cold?").assign(
        query="Which tea helps?"
    )
    [request] = operator.requests(turn)
    assert (request.item, request.prompt) == ("", prompt)
    assert shown in request.messages[0]["content"]
    assert "statement" not in request.messages[0]["content"].casefold()


def test_no_statement_query_falls_back_to_the_question_counted():
    llm, _ = scripted("...", '["tea Oslo"]')
    out = G.StatementQueries(llm)(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["And against a cold?", "tea Oslo"]]
    assert (ledger(llm, "fallbacks"), ledger(llm, "failures")) == (1, 1)


def test_queries_beyond_the_limit_are_left_out_and_counted():
    llm, _ = scripted('["a", "b", "c", "d"]', '["b", "e", "f"]')
    limited = G.StatementQueries(llm, n=2)
    out = limited(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["a", "b", "e"]]
    assert ledger(llm, "dropped") == 3
    llm, _ = scripted('["a", "b", "c", "d"]', '["b", "e", "f"]')
    unlimited = G.StatementQueries(llm)
    out = unlimited(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["a", "b", "c", "d", "e", "f"]]
    assert ledger(llm, "dropped") == 0
    assert (limited.open_ended, unlimited.open_ended) == (False, True)


def test_a_query_that_only_differs_in_case_is_the_first_one():
    llm, _ = scripted('["Mint tea", "mint TEA"]', '["MINT tea", "sage"]')
    out = G.StatementQueries(llm)(a_turn(qstatements=CHOSEN[:2]))
    assert out["qsubqueries"].tolist() == [["Mint tea", "sage"]]


@pytest.mark.parametrize(("n", "shown"), [(7, True), (None, False)])
def test_statement_queries_state_their_number(n, shown):
    llm, backend = scripted('["tea"]')
    G.StatementQueries(llm, n)(a_turn(qstatements=[("1", 1.0)]))
    assert ("at most 7 strings" in texts(backend)[0]) is shown


def test_statement_queries_of_two_turns_stay_apart():
    llm, backend = scripted('["dog tea"]', '["plain tea"]')
    turns = two_turns().assign(qstatements=[[("2", 1.0)], []])
    out = G.StatementQueries(llm)(turns)
    assert out["qsubqueries"].tolist() == [["dog tea"], ["plain tea"]]
    first, second = texts(backend)
    assert COLD in first
    assert CAFFEINE not in first
    assert CAFFEINE in second
    assert COLD not in second


def test_one_passage_for_all_statements_and_one_for_each_best():
    llm, backend = scripted("About all.", "About Oslo.", "About chamomile.")
    operator = G.PassageQueries(llm, per_statement=2)
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
    G.PassageQueries(llm)(a_turn(qrewrite="Which tea helps against a cold?"))
    G.PassageQueries(llm)(a_turn())
    for text, shown in zip(
        texts(backend), ([True, False, False], [False, True, True]), strict=True
    ):
        assert [
            part in text
            for part in ("Which tea helps against a cold?", "Rooibos", "And against a cold?")
        ] == shown


def test_the_other_forms_see_the_history_and_the_raw_question():
    llm, backend = scripted("Short.", "Long.", "Style: blog\nStyled.")
    operator = G.PassageQueries(llm, ["short", "long", "styled"])
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
    assert G.PassageQueries(llm, per_statement=3)(turns)["qweights"].tolist() == [
        [1.0],
        [1.0],
    ]
    assert len(backend.asked) == 2
    with pytest.raises(pt.validate.InputValidationError, match="qstatements"):
        G.PassageQueries(llm, per_statement=3)(two_turns())


def test_the_question_replaces_a_failed_passage_with_its_weight():
    turn = a_turn(qstatements=CHOSEN, qrewrite="Which tea helps?")
    llm, _ = scripted("All.", "...")
    out = G.PassageQueries(llm, per_statement=1, on_error="fallback")(turn)
    assert out["qsubqueries"].tolist() == [["All.", "Which tea helps?"]]
    assert out["qweights"].tolist() == [[1.0, 0.9]]
    assert ledger(llm, "fallbacks") == 1


def test_passages_of_two_turns_stay_apart():
    llm, _ = scripted("A short.", "A long.", "B short.", "B long.")
    operator = G.PassageQueries(llm, ["short", "long"])
    out = operator(two_turns())
    assert out["qsubqueries"].tolist() == [["A short.", "A long."], ["B short.", "B long."]]
    assert operator.template() == "passage_queries_short"
    with pytest.raises(UsageError, match="give a list of one or more of"):
        G.PassageQueries(llm, ["short", "tall"])


@pytest.mark.parametrize("forms", [["long", "short"], ["short", "styled"], ["article"]])
def test_only_a_short_passage_is_planned_short(forms):
    typical = G.PassageQueries(scripted()[0], forms).typical(a_turn())
    lengths = {"short": 75, "long": 150, "styled": 150, "article": 150}
    assert [len(text.split()) for text in typical] == [lengths[form] for form in forms]
