"""What each operator asks for, which columns it needs, and what a plan counts and writes."""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import CAFFEINE, COLD, PTKB, a_turn, found, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence, CitedText
from pyterrier_ikat.generate.rewrite import Reformulation
from pyterrier_ikat.llm_operator import as_long_as
from pyterrier_ikat.planning import Plan

G = ikat.generate


# The operator; columns of the two turns; the prompt of each request, with its turn and item (one
# request a turn where it is only a name); the fallbacks; the stand-ins of a plan.
CHOSEN = {"qstatements": [[("3", 1.0), ("1", 0.5), ("9", 0.1)], []]}


def repeated(words, *texts):
    return [as_long_as(words, text) for text in texts]


def both(answers=("", "")):
    return [Reformulation(COLD, answers[0]), Reformulation(CAFFEINE, answers[1])]


OPERATORS = {
    "answer": (
        lambda llm: ikat.Answer(llm),
        {},
        "answer",
        [COLD, CAFFEINE],
        repeated(120, COLD, CAFFEINE),
    ),
    "one shot": (
        lambda llm: ikat.Answer(llm, statements="chosen"),
        CHOSEN,
        "answer_one_shot",
        [COLD, CAFFEINE],
        repeated(120, COLD, CAFFEINE),
    ),
    "outline": (
        lambda llm: G.OutlineAnswer(llm),
        {},
        "suggest",
        ["", ""],
        repeated(100, "", ""),
    ),
    "outline of context": (
        lambda llm: G.OutlineAnswer(llm, "context"),
        {},
        "suggest_context",
        ["", ""],
        repeated(30, "", ""),
    ),
    "rewrite": (lambda llm: ikat.Rewrite(llm), {}, "rewrite", [COLD, CAFFEINE], [COLD, CAFFEINE]),
    "rewrite of rewrites": (
        lambda llm: ikat.Rewrite(llm, "short", style="llama", question="qresolved"),
        {"qresolved": ["A?", "B?"]},
        "rewrite_short_llama_human",
        ["A?", "B?"],
        ["A?", "B?"],
    ),
    "clarify": (lambda llm: G.Clarify(llm), CHOSEN, "clarify", [COLD, CAFFEINE], [COLD, CAFFEINE]),
    "rewrite and answer": (
        lambda llm: ikat.RewriteAndAnswer(llm),
        {},
        "rewrite_and_answer",
        both(),
        both(repeated(60, COLD, CAFFEINE)),
    ),
    "rewrite alone": (
        lambda llm: ikat.RewriteAndAnswer(llm, answer=False, persona=False),
        {},
        "rewrite_and_answer_without_persona",
        both(),
        both(),
    ),
    "reformulate": (
        lambda llm: G.Reformulate(llm, "queries"),
        {},
        "reformulate_queries",
        both(),
        both(repeated(60, COLD, CAFFEINE)),
    ),
    "level": (
        lambda llm: G.RewriteByLevel(llm),
        {},
        "rewrite_by_level",
        [("a", COLD), ("a", CAFFEINE)],
        [("a", COLD), ("a", CAFFEINE)],
    ),
    "queries": (
        lambda llm: ikat.Queries(llm, n=2),
        {"qrewrite": ["A?", None]},
        "queries",
        [["A?"], [CAFFEINE]],
        [["A? 0.0", "A? 0.1"], [f"{CAFFEINE} 1.0", f"{CAFFEINE} 1.1"]],
    ),
    "statement queries": (
        lambda llm: G.StatementQueries(llm),
        CHOSEN,
        [
            ("chat_2", "queries_statement", "3"),
            ("chat_2", "queries_statement", "1"),
            ("other_1", "queries_statement", ""),
        ],
        [[COLD], [COLD], [CAFFEINE]],
        [[f"{COLD} 0.0"], [f"{COLD} 1.0"], [f"{CAFFEINE} 2.0"]],
    ),
    "passage queries": (
        lambda llm: G.PassageQueries(llm, ("short", "article"), per_statement=1),
        {"qrewrite": ["A?", "B?"], "qstatements": [[("9", 0.9), ("3", 0.8), ("1", 0.5)], []]},
        [
            ("chat_2", "passage_queries_short", ""),
            ("chat_2", "passage_queries_article", ""),
            ("chat_2", "passage_queries_short", "3"),
            ("other_1", "passage_queries_short", ""),
            ("other_1", "passage_queries_article", ""),
        ],
        [COLD, "A?", COLD, CAFFEINE, "B?"],
        [
            *repeated(75, COLD),
            *repeated(150, "A?"),
            *repeated(75, COLD),
            *repeated(75, CAFFEINE),
            *repeated(150, "B?"),
        ],
    ),
    "ids": (
        lambda llm: G.SelectStatements(llm),
        {},
        [("chat_2", "statements_ids", "")],
        [[]],
        [["1", "2"]],
    ),
    "copies": (
        lambda llm: G.SelectStatements(llm, "copies", given="suggestion"),
        {"qsuggestion": ["S", "S"]},
        [("chat_2", "statements_copies_suggested", "")],
        [[]],
        [[PTKB["1"], PTKB["2"]]],
    ),
    "scores": (
        lambda llm: G.SelectStatements(llm, "scores"),
        {},
        [("chat_2", "statements_scores", "")],
        [[]],
        [[("1", 0.5), ("2", 0.5)]],
    ),
    "update": (
        lambda llm: G.UpdatePtkb(llm),
        {},
        "update_ptkb",
        [[], []],
        [
            [{"message": 2, "words": COLD, "statement": "I live in Oslo."}],
            [{"message": 1, "words": CAFFEINE, "statement": "I live in Oslo."}],
        ],
    ),
    "topic": (
        lambda llm: G.Enhance(llm, "topic"),
        {},
        [("chat_2", "topic_switch", "")],
        [False],
        [False],
    ),
    "response": (
        lambda llm: G.Enhance(llm, "response"),
        {},
        [("chat_2", "expand_response", "")],
        ["Rooibos."],
        ["Rooibos."],
    ),
    "personal response": (
        lambda llm: G.Enhance(llm, "personal_response"),
        {},
        [("chat_2", "expand_response_personal", "")],
        ["Rooibos."],
        ["Rooibos."],
    ),
    "guess": (
        lambda llm: G.Enhance(llm, "guess"),
        {},
        [("chat_2", "guess_answer", "")],
        [""],
        repeated(20, ""),
    ),
    "preferences": (
        lambda llm: G.Enhance(llm, "preferences"),
        {},
        [("chat_2", "preferences", "")],
        [""],
        repeated(20, ""),
    ),
    "summary": (
        lambda llm: G.Enhance(llm, "summary"),
        {},
        [("chat_2", "summarise_history", "")],
        [""],
        repeated(60, ""),
    ),
}


def expected_requests(prompts):
    if isinstance(prompts, str):
        return [("chat_2", prompts, ""), ("other_1", prompts, "")]
    return prompts


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_asks_falls_back_and_is_planned(name):
    make, columns, prompts, fallbacks, typical = OPERATORS[name]
    llm, backend = scripted()
    operator = make(llm)
    frame = two_turns().assign(**columns)
    requests = operator.requests(frame)
    asked = [(request.qid, request.prompt, request.item) for request in requests]
    assert asked == expected_requests(prompts)
    assert {request.stage for request in requests} == {operator.stage}
    assert operator.fallback(frame) == fallbacks
    assert operator.typical(frame) == typical
    plan = Plan("mine", set())
    planned = operator.plan(frame, plan)
    pd.testing.assert_frame_equal(planned, operator.write(frame, typical))
    [row] = plan.rows
    assert (row["calls"], row["new"], backend.asked) == (len(asked), len(asked), [])
    assert row["stage"].removesuffix(", at least") == operator.stage
    assert row["stage"].endswith(", at least") == (name == "statement queries")


NEEDS = {
    "enhanced": (lambda llm: ikat.Rewrite(llm, "enhanced"), ["query", "qanswer"]),
    "personal": (
        lambda llm: ikat.Rewrite(llm, "personal"),
        ["query", "qanswer", "qpreferences"],
    ),
    "full": (lambda llm: ikat.Rewrite(llm), ["query"]),
    "manual": (lambda llm: ikat.Rewrite(llm, question="qresolved"), ["query", "qresolved"]),
    "given": (lambda llm: ikat.Queries(llm, given="other_answer"), ["query", "qanswer"]),
    "chosen": (lambda llm: ikat.Answer(llm, statements="chosen"), ["query", "qstatements"]),
    "clarify": (lambda llm: G.Clarify(llm), ["query"]),
    "statements": (lambda llm: G.StatementQueries(llm), ["query", "qstatements"]),
    "per statement": (
        lambda llm: G.PassageQueries(llm, per_statement=1),
        ["query", "qstatements"],
    ),
    "passages": (lambda llm: G.PassageQueries(llm), ["query"]),
    "suggestion": (
        lambda llm: G.SelectStatements(llm, given="suggestion"),
        ["query", "qsuggestion"],
    ),
    "suggested": (
        lambda llm: ikat.Respond(llm, form="suggested"),
        ["query", "qsuggestion", "rank", "text"],
    ),
    "condensed": (
        lambda llm: ikat.Respond(llm, form="condensed"),
        ["query", "rank", "text", "qpassages", "used"],
    ),
    "append": (lambda llm: G.AppendStatements(column="qgoldptkb"), ["query", "qgoldptkb"]),
    "column": (lambda llm: G.QueryColumn("qanswer"), ["query", "qanswer"]),
    "manual rewrite": (lambda llm: ikat.ManualRewrite(), ["query", "qresolved"]),
}


@pytest.mark.parametrize("name", NEEDS)
def test_an_operator_needs_the_columns_that_it_shows(name):
    make, columns = NEEDS[name]
    assert make(scripted()[0]).needs() == columns


def test_the_templates_of_an_operator_are_all_that_it_sends():
    llm, _ = scripted()
    assert ikat.Queries(llm, given="answer").templates() == ["queries_given_answer", "answer"]
    assert ikat.Queries(llm, given="answer", style="llama").templates() == ["queries_given_answer"]
    assert ikat.Queries(llm, given="other_answer").templates() == ["queries_given_other_answer"]
    assert ikat.Respond(llm, cite=True).templates() == ["respond", "respond_cite"]
    assert ikat.Respond(llm, form="passages_only").templates() == ["respond_passages_only"]
    forms = G.PassageQueries(llm, ["long", "styled"])
    assert forms.templates() == ["passage_queries_long", "passage_queries_styled"]
    assert forms.forms == ("long", "styled")
    shots = G.SelectStatements(llm, shots=1)
    assert (shots.template(), shots.prompt) == ("statements_ids_shots", "statements_ids")
    assert G.Decide(llm).template() == "decide"
    assert G.Decide(llm, may_ask=False).template() == "decide_abstain"


RESULTS = found(two_turns(), 4)
CONDENSED = [
    "Passage 1 of chat_2. More.",
    "Passage 2 of chat_2. More.",
    "Passage 1 of other_1. More.",
    "Passage 2 of other_1. More.",
]


def best_passage(qid):
    """The best passage of a turn, both sentences citing it."""
    first = CitedSentence(f"Passage 0 of {qid}.", (1,))
    second = CitedSentence("More.", (1,))
    return CitedText(f"Passage 0 of {qid}. More.", (first, second))


@pytest.mark.parametrize(
    ("make", "prompts", "fallbacks", "typical"),
    [
        (
            lambda llm: G.Decide(llm, 2),
            "decide",
            [("answer", "")] * 2,
            [("answer", "")] * 2,
        ),
        (
            lambda llm: ikat.Respond(llm, 2, words=3),
            "respond",
            [CitedText("Passage 0 of"), CitedText("Passage 0 of")],
            ["words words words"] * 2,
        ),
        (
            lambda llm: ikat.Respond(llm, 2, cite=True),
            "respond",
            [best_passage("chat_2"), best_passage("other_1")],
            repeated(200, "", ""),
        ),
        (
            lambda llm: G.Condense(llm, 4, direct=1, chunk=2, words=6),
            [
                ("chat_2", "condense_passages", "1"),
                ("chat_2", "condense_passages", "2"),
                ("other_1", "condense_passages", "1"),
                ("other_1", "condense_passages", "2"),
            ],
            CONDENSED,
            [as_long_as(6, text) for text in CONDENSED],
        ),
    ],
    ids=["decide", "respond", "cite", "condense"],
)
def test_an_operator_on_passages_asks_and_falls_back(make, prompts, fallbacks, typical):
    operator = make(scripted()[0])
    asked = [(one.qid, one.prompt, one.item) for one in operator.requests(RESULTS)]
    assert asked == expected_requests(prompts)
    assert operator.fallback(RESULTS) == fallbacks
    assert operator.typical(RESULTS) == typical
    plan = Plan("mine", set())
    planned = operator.plan(two_turns(), plan)
    assert plan.rows[0]["calls"] == len(asked)
    assert planned.drop(columns="qpassages", errors="ignore").equals(two_turns())
    if prompts != "respond" and not isinstance(prompts, str):
        assert [len(texts) for texts in planned["qpassages"]] == [3, 3]


def test_a_plan_without_a_model_shows_what_the_columns_say():
    plan = Plan("mine", set())
    turn = a_turn(qgoldptkb=["2"])
    shown = G.ShowStatements("gold").plan(turn, plan)
    assert shown["qptkb"].item() == {"2": "I own a dog."}
    assert G.ShowStatements("3").plan(turn, plan)["qptkb"].item() == {"3": "I live in Oslo."}
    assert G.ShowStatements("none").plan(turn, plan)["qptkb"].item() == {}
    assert G.ShowStatements("chosen").plan(turn, plan) is turn
    appended = G.AppendStatements("qgoldptkb").plan(turn, plan)
    assert appended["query"].item() == f"{COLD} I own a dog."
    assert G.AppendStatements().plan(turn, plan) is turn
    added = G.AppendQuery(G.QueryColumn("query")).plan(turn, plan)
    assert added["query"].item() == f"{COLD} {COLD}"
    expansion = G.HistoricalQueryExpansion(G.QueryColumn("query"), 2)
    assert expansion.plan(turn, plan)["query"].item() == COLD
    seq2seq = G.Seq2SeqRewrite("nowhere").plan(turn, plan)
    assert (seq2seq["query"].item(), seq2seq["qrewrite"].item()) == (COLD, COLD)
    assert plan.rows == []


@pytest.mark.parametrize(
    ("operator", "column"),
    [
        (lambda: G.BestQuery(ikat.RawUtterance()), "qsubqueries"),
        (lambda: ikat.ManualRewrite(), "qresolved"),
        (lambda: G.QueryColumn("qanswer"), "qanswer"),
        (lambda: G.ShowStatements(), "qstatements"),
        (lambda: G.ShowStatements("gold"), "qgoldptkb"),
        (lambda: G.AppendStatements(), "qstatements"),
        (lambda: G.Aggregate(also="qanswer"), "qanswer"),
        (lambda: ikat.ExplodeQueries(), "qsubqueries"),
    ],
)
def test_a_column_that_is_read_and_missing_is_named(operator, column):
    with pytest.raises(pt.validate.InputValidationError, match=column):
        operator()(a_turn())
