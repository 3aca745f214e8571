"""Each sentence on a difference or a decision in the tables of participants of iKAT 2024.

IRLab, InfoSense and NII. A check beside it shows that it is true; docs/reproduce.md shows it.
"""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt
from papers.one_turn import (
    ANSWERS,
    CHAT,
    PARTICIPANTS,
    PTKB,
    STATEMENT_QUERIES,
    Score,
    Search,
    deviations,
    run,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.statements import choose
from pyterrier_ikat.methods import METHODS, TABLES
from pyterrier_ikat.papers.paper_scores import UserJudgements, response_judges
from pyterrier_ikat.papers.published import MISSING, STATEMENTS_NIST, find_table
from pyterrier_ikat.papers.table import PaperTable


def the_pool_is_interleaved_and_cut():
    score = Score()
    run("mq4cs_qr_deberta", Search(600), score)
    assert len(score.docnos) == 1000
    of_the_first = {f"q one-{rank}" for rank in range(500)}
    of_the_second = {f"q two-{rank}" for rank in range(500)}
    assert set(score.docnos) == of_the_first | of_the_second


def the_ensemble_is_a_mean_of_scaled_scores():
    frame = pd.DataFrame({"qid": "t", "query": "q", "docno": list("abc"), "text": list("abc")})
    low = pt.apply.doc_score(lambda row: {"a": 4, "b": 2, "c": 0}[row["docno"]])
    high = pt.apply.doc_score(lambda row: {"a": 0, "b": 9, "c": 9}[row["docno"]])
    found = ikat.Ensemble([low, high])(frame).set_index("docno")["score"]
    assert found.to_dict() == pytest.approx(
        {"a": (1 + 0) / 2, "b": (0.5 + 1) / 2, "c": (0 + 1) / 2}
    )


def copies_match_in_three_ways():
    ptkb = {"1": "I am vegan.", "2": "I live in Oslo, near the harbour."}
    for copy in (
        "I live in Oslo, near the harbour.",
        "i live in oslo near the harbour",
        "I live in Oslo, near the harbor.",
    ):
        assert choose("copies", [copy], ptkb).statements == [("2", 1.0)], copy
    assert choose("copies", ["I live in Bergen, by the river."], ptkb).statements == []


def infosense_has_its_own_bm25():
    for name in find_table("infosense_2024", "1").systems:
        assert dict(METHODS[name].bm25) == {"k1": 1.2, "b": 0.75}


def infosense_sums_up_long_responses_but_the_last():
    prompt = run("short_long_2")[1]["passage_queries_short"]
    for text in ("Where can I walk?", "system: Hills.", "How far?", CHAT[3][1].strip()):
        assert text in prompt
    assert prompt.count("In the hills") == 20


def infosense_has_at_most_300_words():
    results, prompts, _ = run("short_long_2", Search(words=400))
    assert "Use at most 300 words." in prompts["respond_passages_only"]
    assert prompts["respond_passages_only"].count("word,") == 3 * 300
    assert len(results["qanswer"][0].split()) == 300  # 50 sentences of the 70


def bem_is_named_by_the_user():
    turns = pd.DataFrame({"qid": ["1-1_1"]})
    assert list(response_judges({}, turns)) == ["Rouge-L"]
    assert response_judges({"bem": "models/mine"}, turns)["BEM"].model == "models/mine"
    assert "BEM: that of the user's classifier" in notes_of_responses()


def notes_of_responses():
    [part] = find_table("infosense_2024", "4")
    judged = UserJudgements().judgements(part, ikat.dataset("ikat:sample"), ["1-1_1"])
    assert judged.differ_from(part)
    return " ".join(PaperTable(part, [], judged, {}).notes)


def llmeval_is_yes_or_no():
    judge = response_judges({"solar": "recorded:sample"}, pd.DataFrame({"qid": ["1-1_1"]}))[
        "LLMeval SOLAR"
    ]
    assert judge.needs == ("gold_answer",)
    yes = judge.parse('{"reason": "r", "verdict": "yes"}')
    no = judge.parse('{"reason": "r", "verdict": "no"}')
    assert judge.assess({}, [yes]).value == 1.0
    assert judge.assess({}, [no]).value == 0.0
    assert judge.parse('{"reason": "r", "verdict": "4"}') is None
    assert (
        "LLMeval: the share of responses that say what the gold answer says" in notes_of_responses()
    )
    published = (
        find_table("infosense_2024", "4")[0]
        .frame()[["LLMeval SOLAR", "LLMeval GPT-4o"]]
        .to_numpy()
        .ravel()
    )
    for score in published:
        over_61 = abs(score - round(score * 61) / 61)
        over_62 = abs(score - round(score * 62) / 62)
        assert min(over_61, over_62) < 0.00006


def nist_statements_of_2024_are_missing():
    part = find_table("infosense_2024", "3")[0]
    assert part.judgements == STATEMENTS_NIST
    data = ikat.dataset("ikat:2024")
    assert "ptkb_nist" not in data.qrels_variants()
    assert "published for 2023 only" in MISSING[STATEMENTS_NIST]


def rtg_takes_every_query():
    search = Search()
    _, prompts, model = run("rtg", search, suggest="Oats.", respond_suggested="Oats.")
    assert search.queries == STATEMENT_QUERIES
    assert "at most" not in prompts["queries_statement"]
    system = METHODS["rtg"].build(llm=model.llm, retriever=search, reranker=Score())
    assert "At least: in queries" in " ".join(
        str(ikat.plan({"rtg": system}, "ikat:sample")).split()
    )


def rtg_without_a_statement_asks_for_the_rewrite():
    _, prompts, _ = run("rtg", statements_ids="[]", suggest="Oats.", respond_suggested="Oats.")
    assert "What to eat?" in prompts["queries_statement"]
    assert not any(statement in prompts["queries_statement"] for statement in PTKB.values())


def the_baseline_of_2023_is_deep():
    assert METHODS["organizers_2023_auto"].depth == 1000
    assert "organizers_2023_auto" in find_table("nii_2024", "I")[0].systems


def the_best_of_2023_has_no_method():
    assert TABLES["nii_I"].frame().loc["2023_best"].tolist() == [0.3479, 0.4396, 0.3456]
    assert TABLES["nii_II"].frame().loc["2023_best"].tolist() == [0.7254, 0.4626, 0.6964]
    for number in ("I", "II"):
        [part] = find_table("nii_2024", number)
        assert part.only_published == ["2023_best"]
        assert "2023_best" not in part.systems


def gtrs_response_shows_no_first_answer():
    _, _, model = run("gtr_gpt")
    shown = {request.prompt: str(request.messages) for request in model.asked}
    assert "Nuts and oats." in shown["queries_given_answer"]
    assert "Nuts and oats." not in shown["respond"]


def rtg_asks_for_each_chosen_statement():
    _, _, model = run("rtg", statements_ids="[2]", suggest="Oats.", respond_suggested="Oats.")
    asked = model.texts_of("queries_statement")
    assert len(asked) == 1
    assert PTKB["2"] in asked[0]
    assert PTKB["1"] not in asked[0]


def the_only_llm_responds():
    assert METHODS["gtr_claude"].resources["llm"] == "second_llm"
    assert "Respond(second_llm" in METHODS["gtr_claude"].expression


def manual_rewrites_are_not_rewritten():
    asked = METHODS["rtg_manual"].expression.replace("ManualRewrite(", "")
    assert "Rewrite(" not in asked


def the_turns_are_those_of_nist():
    assert (find_table("nii_2024", "I")[0].turns, find_table("nii_2024", "II")[0].turns) == (
        176,
        98,
    )


def llms_decode_greedily():
    for name in find_table("infosense_2024", "1").systems:
        assert "temperature=0" in METHODS[name].models["llm"]


def only_short_long_3_thinks():
    plain = run("short_long_2")[1]
    thinking = run(
        "short_long_3",
        suggest_context="Food.",
        statements_scores_suggested='{"1": 0.9}',
        passage_queries_styled="Oats.",
    )[1]
    assert {"suggest_context", "passage_queries_styled"} & plain.keys() == set()
    assert {"suggest_context", "passage_queries_styled"} <= thinking.keys()


def the_question_is_clarified_by_the_chosen_statements():
    _, prompts, model = run("wghtdrerank_1")
    order = [request.prompt for request in model.asked]
    assert order.index("statements_scores") < order.index("clarify")
    assert PTKB["1"] in prompts["clarify"]
    assert PTKB["2"] not in prompts["clarify"]


def the_first_passage_query_shows_all_chosen():
    ptkb = {str(number): f"Fact {number}." for number in range(1, 6)}
    scores = str({one: 0.5 for one in ptkb}).replace("'", '"')
    model = ByPrompt(**{**ANSWERS, "statements_scores": scores})
    turn = ikat.conversation([{"role": role, "content": content} for role, content in CHAT], ptkb)
    METHODS["wghtdrerank_1"].build(llm=model.llm, retriever=Search(), reranker=Score())(turn)
    first, *others = model.texts_of("passage_queries_article")
    assert all(statement in first for statement in ptkb.values())
    assert len(others) == 3


def weighted_responses_see_the_history():
    prompt = run("wghtdrerank_1")[1]["respond_passages_only"]
    assert "Where can I walk?" in prompt
    assert "How far?" in prompt


def texts_are_embedded():
    seen = []
    reader = pt.apply.doc_score(lambda row: seen.append(row["text"]) or 0.0)
    run("short_long_2", score=reader)
    assert set(seen) == {"word, word, end."}


def the_first_run_has_minilm():
    assert (
        METHODS["wghtdrerank_1"].models["reranker"] == "bi:sentence-transformers/all-MiniLM-L12-v2"
    )
    row = find_table("infosense_2024", "1").rows[0]
    assert row.split("; ")[3] == "MiniLM"


def one_statement_makes_two_passage_queries():
    _, _, model = run("wghtdrerank_1", statements_scores='{"2": 0.4}')
    asked = model.texts_of("passage_queries_article")
    assert len(asked) == 2
    assert all(PTKB["2"] in prompt for prompt in asked)


def many_statements_make_four_passage_queries():
    ptkb = {str(number): f"Fact {number}." for number in range(1, 6)}
    scores = '{"1": 0.9, "2": 0.8, "3": 0.7, "4": 0.6}'
    _, _, model = run("wghtdrerank_1", ptkb=ptkb, statements_scores=scores)
    asked = []
    for request in model.asked:
        if request.prompt == "passage_queries_article":
            prompt = request.messages[-1]["content"]
            asked.append([number for number, fact in ptkb.items() if fact in prompt])
    assert asked == [["1", "2", "3", "4"], ["1"], ["2"], ["3"]]


def run_short_long_3(search):
    return run(
        "short_long_3",
        search,
        suggest_context="The diet.",
        statements_scores_suggested='{"1": 0.9}',
        passage_queries_styled="Style: blog\nOats keep well.",
    )


def infosenses_prompts_are_one_message():
    for _, _, model in (run("wghtdrerank_1"), run("short_long_2"), run_short_long_3(Search())):
        for request in model.asked:
            assert [message["role"] for message in request.messages] == ["user"]


def the_style_is_named_and_cut_off():
    search = Search()
    _, prompts, _ = run_short_long_3(search)
    assert '"Style: blog"' in prompts["passage_queries_styled"]
    assert "Passage:" not in prompts["passage_queries_styled"]
    assert search.queries == ["Eat oats.", "Oats keep well."]


def the_choice_of_statements_sees_the_history():
    prompt = run("short_long_2")[1]["statements_scores"]
    assert "Where can I walk?" in prompt
    assert "How far?" in prompt


def figure_3_of_infosense_is_guessed():
    figure = find_table("infosense_2024", "figure-3")
    assert (figure.measure, figure.part.judgements) == ("nDCG@5", "NIST")


def niis_fourth_table_has_114_turns():
    [third] = find_table("nii_2024", "III")
    [fourth] = find_table("nii_2024", "IV")
    assert (third.turns, fourth.turns) == (None, 114)
    fitting = []
    for turns in range(40, 340):
        sums = fourth.frame()["P@5"] * 5 * turns
        if (((sums.round() / (5 * turns)).round(4) - fourth.frame()["P@5"]).abs() < 1e-9).all():
            fitting.append(turns)
    assert fitting == [114, 228]


def gtrs_queries_are_written_for_the_answer():
    _, _, model = run("gtr_gpt")
    [request] = [request for request in model.asked if request.prompt == "queries_given_answer"]
    assert [message["role"] for message in request.messages][-2:] == ["assistant", "user"]
    assert request.messages[-2]["content"] == "Nuts and oats."


def nothing_limits_completions():
    _, prompts, model = run("short_long_2")
    assert {request.params.get("max_tokens") for request in model.asked} == {None}
    assert "150" not in prompts["summarise"]


def infosenses_turns_fit_its_scores():
    [ranking] = find_table("infosense_2024", "2")
    [nist, _] = find_table("infosense_2024", "3")
    assert (ranking.turns, nist.turns) == (116, 114)
    sums = ranking.frame()["P@20"] * 20 * 116
    assert ((sums - sums.round()).abs() < 0.00005 * 20 * 116 + 1e-9).all()


def the_pool_is_cut_to_1000():
    turn = ikat.conversation([{"role": role, "content": content} for role, content in CHAT], PTKB)
    scored = {}
    for pool in ("interleave", "union"):
        score = Score()
        METHODS["mq4cs_qr_deberta"].system(
            ByPrompt(**ANSWERS).llm, Search(600), score, pool=pool, respond=False
        )(turn)
        scored[pool] = len(set(score.docnos))
    assert scored == {"interleave": 1000, "union": 1200}  # two queries with 600 passages each


SHOWN_BY = {
    "The pool of the queries is interleaved and cut to 1000 before it is re-ranked.": (
        the_pool_is_interleaved_and_cut
    ),
    "Scores of the ensemble are min-max normalised per turn and averaged.": (
        the_ensemble_is_a_mean_of_scaled_scores
    ),
    "A copied statement matches exactly, then normalised, then at a similarity of .9.": (
        copies_match_in_three_ways
    ),
    "BM25 has k1 1.2 and b .75.": infosense_has_its_own_bm25,
    (
        "The whole history is shown; responses of 150 characters or more are summed up, but "
        "the last."
    ): infosense_sums_up_long_responses_but_the_last,
    "Responses and the passages that they read have at most 300 words.": (
        infosense_has_at_most_300_words
    ),
    "BEM is a classifier that the user names.": bem_is_named_by_the_user,
    "LLMeval is the share of responses that say what the gold answer says.": llmeval_is_yes_or_no,
    "NIST's PTKB judgements of 2024 are missing.": nist_statements_of_2024_are_missing,
    "RtG takes every query that the LLM writes for a statement.": rtg_takes_every_query,
    "Without a chosen statement RtG asks for queries of the rewrite alone.": (
        rtg_without_a_statement_asks_for_the_rewrite
    ),
    'The row "2023 Baseline" is our run of 1000 passages.': the_baseline_of_2023_is_deep,
    'The row "2023 Best" has no method.': the_best_of_2023_has_no_method,
    "The response of GtR shows no first answer.": gtrs_response_shows_no_first_answer,
    "RtG asks for queries of each chosen statement.": rtg_asks_for_each_chosen_statement,
    "`gtr_claude` responds with Claude.": the_only_llm_responds,
    "`rtg_manual` doesn't rewrite the manual rewrite.": manual_rewrites_are_not_rewritten,
    "Tables I and II have 176 and 98 turns.": the_turns_are_those_of_nist,
    "LLMs decode greedily (`temperature=0`).": llms_decode_greedily,
    "`short_long_2` neither thinks first nor chooses a style.": only_short_long_3_thinks,
    "The question is clarified after the statements are chosen, and by them.": (
        the_question_is_clarified_by_the_chosen_statements
    ),
    "The first passage query shows all chosen statements.": (
        the_first_passage_query_shows_all_chosen
    ),
    "Weighted responses see the history.": weighted_responses_see_the_history,
    "The text of a passage is embedded.": texts_are_embedded,
    "Completions and summaries have no limit of their own.": nothing_limits_completions,
    "`wghtdrerank_1` has MiniLM as its re-ranker.": the_first_run_has_minilm,
    "With one chosen statement there are two passage queries.": (
        one_statement_makes_two_passage_queries
    ),
    "With three or more chosen statements there are four passage queries.": (
        many_statements_make_four_passage_queries
    ),
    "A prompt is one message of the user.": infosenses_prompts_are_one_message,
    "A passage query of `short_long_3` names its style first, which is then cut off.": (
        the_style_is_named_and_cut_off
    ),
    "The choice of statements sees the history.": the_choice_of_statements_sees_the_history,
    "Figure 3 has nDCG@5 by NIST's judgements.": figure_3_of_infosense_is_guessed,
    "Table IV has 114 turns.": niis_fourth_table_has_114_turns,
    "The queries of GtR are written for the first answer.": gtrs_queries_are_written_for_the_answer,
    "Table 2 has 116 turns, Table 3 114.": infosenses_turns_fit_its_scores,
    "1000 passages of the pool are re-ranked.": the_pool_is_cut_to_1000,
}


# test_released_data_has_the_statistics_beside_the_papers, of test_decisions.py, shows these
OF_RELEASED_DATA = {
    "The released topics of 2024 have 17 conversations.",
    "The 13 conversations of the 103 turns have 16.85 statements on average.",
}


@pytest.mark.parametrize("sentence", [sentence for sentence, _ in deviations(PARTICIPANTS)])
def test_each_sentence_on_a_decision_is_true(sentence):
    if sentence not in OF_RELEASED_DATA:
        SHOWN_BY[sentence]()
