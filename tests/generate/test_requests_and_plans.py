"""What each operator asks for, and what a plan counts and writes in its place."""

import pandas as pd
import pytest
from fakes import scripted
from operators import CHAT, PTKB, a_turn, found, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence, CitedText
from pyterrier_ikat.generate.rewrite import Reformulation
from pyterrier_ikat.llm_operator import as_long_as
from pyterrier_ikat.planning import Plan

COLD, TEA = "And against a cold?", "Which tea has no caffeine?"
G = ikat.generate


def repeated(words, *texts):
    return [as_long_as(words, text) for text in texts]


def both(answers=("", "")):
    return [Reformulation(COLD, answers[0]), Reformulation(TEA, answers[1])]


# The operator; columns of the two turns; the prompt of each request, with its turn and item (one
# request a turn where it is only a name); the fallbacks; the stand-ins of a plan.
CHOSEN = {"qstatements": [[("3", 1.0), ("1", 0.5), ("9", 0.1)], []]}
OPERATORS = {
    "answer": (lambda llm: ikat.Answer(llm), {}, "answer", [COLD, TEA], repeated(120, COLD, TEA)),
    "one shot": (
        lambda llm: ikat.Answer(llm, statements="chosen"),
        CHOSEN,
        "answer_one_shot",
        [COLD, TEA],
        repeated(120, COLD, TEA),
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
    "rewrite": (lambda llm: ikat.Rewrite(llm), {}, "rewrite", [COLD, TEA], [COLD, TEA]),
    "rewrite of rewrites": (
        lambda llm: ikat.Rewrite(llm, "short", style="llama", question="qresolved"),
        {"qresolved": ["A?", "B?"]},
        "rewrite_short_llama_human",
        ["A?", "B?"],
        ["A?", "B?"],
    ),
    "clarify": (lambda llm: G.Clarify(llm), CHOSEN, "clarify", [COLD, TEA], [COLD, TEA]),
    "rewrite and answer": (
        lambda llm: ikat.RewriteAndAnswer(llm),
        {},
        "rewrite_and_answer",
        both(),
        both(repeated(60, COLD, TEA)),
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
        both(repeated(60, COLD, TEA)),
    ),
    "level": (
        lambda llm: G.RewriteByLevel(llm),
        {},
        "rewrite_by_level",
        [("a", COLD), ("a", TEA)],
        [("a", COLD), ("a", TEA)],
    ),
    "queries": (
        lambda llm: ikat.Queries(llm, n=2),
        {"qrewrite": ["A?", None]},
        "queries",
        [["A?"], [TEA]],
        [["A? 0.0", "A? 0.1"], [f"{TEA} 1.0", f"{TEA} 1.1"]],
    ),
    "statement queries": (
        lambda llm: G.StatementQueries(llm),
        CHOSEN,
        [
            ("chat_2", "queries_statement", "3"),
            ("chat_2", "queries_statement", "1"),
            ("other_1", "queries_statement", ""),
        ],
        [[COLD], [COLD], [TEA]],
        [[f"{COLD} 0.0"], [f"{COLD} 1.0"], [f"{TEA} 2.0"]],
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
        [COLD, "A?", COLD, TEA, "B?"],
        [
            *repeated(75, COLD),
            *repeated(150, "A?"),
            *repeated(75, COLD),
            *repeated(75, TEA),
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
            [{"message": 1, "words": TEA, "statement": "I live in Oslo."}],
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


@pytest.mark.parametrize("forms", [["long", "short"], ["short", "styled"], ["article"]])
def test_only_a_short_passage_is_planned_short(forms):
    typical = G.PassageQueries(scripted()[0], forms).typical(a_turn())
    lengths = {"short": 75, "long": 150, "styled": 150, "article": 150}
    assert [len(text.split()) for text in typical] == [lengths[form] for form in forms]


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


@pytest.mark.parametrize(
    ("least", "asked"),
    [(5, [("chat_1", "Rooibos."), ("chat_2", "Ginger.")]), (8, [("chat_1", "Rooibos.")]), (9, [])],
)
def test_long_responses_are_asked_by_their_own_turn(least, asked):
    answers = ["Ginger.", "Sage.", "Mint."]
    messages = list(CHAT)
    for text in answers:
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "More?"}]
    messages = messages[:-4] + messages[-2:]  # Ginger and Mint
    llm, _ = scripted()
    operator = G.Summarise(llm, least)
    frame = pd.concat([ikat.conversation(messages), ikat.conversation(messages, number="chat")])
    requests = operator.requests(frame)
    assert [request.qid for request in requests] == [qid for qid, _ in asked]
    assert operator.fallback(frame) == [text for _, text in asked]
    assert [len(text.split()) for text in operator.typical(frame)] == [40] * len(asked)
    written = operator.write(frame, [f"S{number}" for number in range(len(asked))])
    changed = [message["content"] for message in written["qhistory"].iloc[1]]
    expected = [message["content"] for message in messages[:-1]]
    for number, (_, text) in enumerate(asked):
        expected[expected.index(text)] = f"S{number}"
    assert changed == expected
    without = frame.drop(columns="qconversation").assign(qid=["x_9", "y_9"])
    assert [request.qid for request in operator.requests(without)][: len(asked)] == [
        qid.replace("chat", "x_9") for qid, _ in asked
    ]


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


def test_a_plan_of_condensed_passages_ends_at_the_cut():
    operator = G.Condense(scripted()[0], 20, direct=1, chunk=2, threshold=0.5)
    for cut, calls in ((4, 4), (20, 20), (1000, 20)):
        plan = Plan("mine", set())
        plan.cut = cut
        operator.plan(two_turns(), plan)
        assert [(row["stage"], row["calls"]) for row in plan.rows] == [("condense, at most", calls)]
        assert not plan.fewer_passages
    plan.fewer_passages = True
    operator.plan(two_turns(), plan)
    assert plan.fewer_passages


def test_a_responder_is_copied_with_another_limit_or_citations():
    llm, _ = scripted()
    one = ikat.Respond(llm, 3, words=50, form="passages_only", abstention="No.")
    assert one.limited(9) == ikat.Respond(llm, 3, words=9, form="passages_only", abstention="No.")
    cites = ikat.Respond(llm, 3, 50, "passages_only", abstention="No.", cite=True)
    assert one.citing() == cites
    assert one.abstains_with() == "No."
    assert ikat.Respond(llm, form="condensed").citing() is None
    with pytest.raises(ikat.UsageError, match="a summary of several passages can't be cited"):
        ikat.Respond(llm, form="condensed", cite=True)


def test_what_is_shown_of_a_text_while_it_is_written():
    llm, _ = scripted()
    assert ikat.Answer(llm).while_written(a_turn())("A [1]. B") == "A [1]. B"
    frame = found(a_turn(), 2)
    plain = ikat.Respond(llm, words=3).while_written(frame)
    assert [plain(text) for text in ("A [1].", "A b c. D")] == ["A [1].", "A b c."]
    citing = ikat.Respond(llm, words=3, cite=True).while_written(frame)
    shown = [
        citing(text) for text in ("Tea [2].", "Tea [2]. Rye [9]. Hay", "Oat tea. Rye [1]. Hay now")
    ]
    assert shown == ["Tea.", "Tea. [1] Rye. Hay", "Oat tea. Rye. [1]"]
    assert citing("Tea [3]. Hay") == "Tea. Hay"  # two passages were shown


def calls_of(plan):
    """Of each stage its calls, and how many of them are new."""
    return [(row["stage"], row["calls"], row["new"]) for row in plan.rows]


def test_the_plan_of_several_samples_has_a_query_for_each():
    llm, backend = scripted()
    plan = Plan("mine", set())
    planned = ikat.Samples(ikat.Rewrite(llm), 3).plan(two_turns(), plan)
    assert calls_of(plan) == [("rewrite", 6, 6)]
    assert planned["qsubqueries"].tolist() == [
        [f"{COLD} 0", f"{COLD} 1", f"{COLD} 2"],
        [f"{TEA} 0", f"{TEA} 1", f"{TEA} 2"],
    ]
    assert planned["qrewrite"].tolist() == [COLD, TEA]
    assert backend.asked == []


def test_the_samples_of_each_stage_and_model_are_counted():
    from pyterrier_ikat.generate.sampled_queries import samples_asked

    one = scripted()[0]
    other = scripted()[0]
    pipeline = (
        ikat.Samples(ikat.Rewrite(one), 3)
        >> ikat.Rewrite(one)
        >> ikat.Answer(one)
        >> ikat.Samples(ikat.Answer(other), 2)
    )
    assert samples_asked(pipeline) == {
        id(one): {"rewrite": 3, "answer": 1},
        id(other): {"answer": 2},
    }


def test_a_plan_of_responders_asks_all_of_them_and_the_judge():
    llm = scripted()[0]
    judge = scripted()[0]
    best = ikat.BestResponse([ikat.Respond(llm, 2), ikat.Respond(llm, 3)], judge, 2)
    plan = Plan("mine", set())
    frame = two_turns()
    assert best.plan(frame, plan) is frame
    assert calls_of(plan) == [
        ("respond", 2, 2),
        ("respond", 2, 2),
        ("best_response", 4, 4),
    ]
    responded = found(a_turn(), 2).assign(qresponses=[["A.", "B."]] * 2)
    requests = best.requests(responded)
    assert [(request.qid, request.item) for request in requests] == [
        ("chat_2", "1"),
        ("chat_2", "2"),
    ]
    assert best.fallback(responded) == [None, None]
    assert best.typical(responded) == [
        [{"claim": "A.", "supported": True}],
        [{"claim": "B.", "supported": True}],
    ]
    with pytest.raises(ikat.UsageError, match="give two or more"):
        ikat.BestResponse([ikat.Respond(llm)], judge)


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
    added = G.AppendQuery(ikat.generate.QueryColumn("query")).plan(turn, plan)
    assert added["query"].item() == f"{COLD} {COLD}"
    expansion = G.HistoricalQueryExpansion(ikat.generate.QueryColumn("query"), 2)
    assert expansion.plan(turn, plan)["query"].item() == COLD
    seq2seq = G.Seq2SeqRewrite("nowhere").plan(turn, plan)
    assert (seq2seq["query"].item(), seq2seq["qrewrite"].item()) == (COLD, COLD)
    assert plan.rows == []
