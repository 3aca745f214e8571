"""Each sentence on a difference from a paper or a decision, as docs/reproduce.md shows it.

A check beside it shows that it is true.
"""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.statements import choose
from pyterrier_ikat.conversations.public_outputs import OUTPUTS, turn_lists
from pyterrier_ikat.methods import METHODS, TABLES, find
from pyterrier_ikat.papers.paper_scores import UserJudgements, response_judges
from pyterrier_ikat.papers.published import (
    GPT_35,
    MISSING,
    PAPERS,
    STATEMENTS_NIST,
    find_table,
    keys_of,
)
from pyterrier_ikat.papers.table import PaperTable

PTKB = {"1": "I am vegan.", "2": "I own a dog."}
LONG = "In the hills there are many paths. " * 20
CHAT = [
    ("user", "Where can I walk?"),
    ("assistant", LONG),
    ("user", "How far?"),
    ("assistant", f"Ten km. {LONG}"),
    ("user", "What do I eat?"),
]
STATEMENT_QUERIES = [f"s {number}" for number in range(12)]
ANSWERS = {
    "rewrite": "vegan food for walks",
    "rewrite_short": "What to eat?",
    "answer": "Nuts and oats.",
    "queries": "1. q one\n2. q two",
    "queries_given_answer": "1. a one\n2. a two",
    "queries_statement": json.dumps(STATEMENT_QUERIES),
    "statements_ids": "[1]",
    "statements_copies": "I am vegan.",
    "statements_scores": '{"1": 0.9}',
    "clarify": "What can a vegan eat?",
    "passage_queries_article": "Oats keep well.",
    "passage_queries_short": "Eat oats.",
    "passage_queries_long": "Vegans walk.",
    "summarise": "Hills.",
    "rerank": "3",
    "respond": "Oats.",
    "respond_passages_only": " ".join(
        f"Sentence number {number} has six words." for number in range(70)
    ),
}
ANSWERS |= {f"{name}_llama": text for name, text in ANSWERS.items()}


class Search(pt.Transformer):
    """Finds ``found`` passages for each query, of ``words`` words each, named after the query."""

    def __init__(self, found=5, words=3):
        super().__init__()
        self.found, self.words, self.queries = found, words, []

    def transform(self, queries):
        self.queries += queries["query"].tolist()
        rows = queries.loc[queries.index.repeat(self.found)].reset_index(drop=True)
        ranks = list(range(self.found)) * len(queries)
        docnos = [f"{query}-{rank}" for query, rank in zip(rows["query"], ranks, strict=True)]
        return rows.assign(
            docno=docnos,
            rank=ranks,
            score=[-float(rank) for rank in ranks],
            text="word, " * (self.words - 1) + "end.",
        )


class Score(pt.Transformer):
    """Scores by name and remembers what it was given."""

    def __init__(self):
        super().__init__()
        self.docnos = []

    def transform(self, results):
        self.docnos += results["docno"].tolist()
        return pt.model.add_ranks(
            results.assign(score=[-float(place) for place in range(len(results))])
        )


def run(name, search=None, score=None, ptkb=PTKB, **answers):
    """A method on one turn: its results, and the text of the requests by their prompts."""
    model = ByPrompt(**{**ANSWERS, **answers})
    messages = [{"role": role, "content": content} for role, content in CHAT]
    turn = ikat.conversation(messages, ptkb, number="9-1")
    entry = METHODS[name]
    results = entry.build(
        llm=model.llm, retriever=search or Search(), reranker=score or Score(), respond=True
    )(turn)
    return (
        results,
        {request.prompt: request.messages[-1]["content"] for request in model.asked},
        model,
    )


def missing_of(paper, number, data="ikat:sample"):
    [part, *_] = find_table(paper, number)
    judged = UserJudgements().judgements(part, ikat.dataset(data))
    return PaperTable(part, [], judged, {}).judgements.differ_from(part), part


def both_counts_are_shown():
    [part] = find_table("generate_then_retrieve", "3")
    judged = UserJudgements().judgements(part, ikat.dataset("ikat:sample"))
    table = PaperTable(
        part, [], type(judged)(judged.qrels, "NIST", 2023), {"ad": pd.DataFrame({"nDCG@5": [0.5]})}
    )
    assert part.turns == 133
    assert (
        f"means over {judged.qrels['qid'].nunique()} turns, the published scores over 133"
        in " ".join(table.notes)
    )


def gpt_35_is_missing():
    reason, part = missing_of("generate_then_retrieve", "1")
    assert part.judgements == GPT_35
    assert "`ikat judge`" in MISSING[GPT_35]
    assert reason


def qr_sees_all_messages():
    for name in ("qr", "qr_llama", "llama10"):
        prompt = run(name)[1]["rewrite" if name == "qr" else "rewrite_llama"]
        assert all(content.strip() in prompt for _, content in CHAT), name
        assert prompt.count("In the hills") == 40, name  # those of both responses
    answers = run("ad_llama")[1]["answer_llama"]
    queries = run("qd_llama")[1]["queries_llama"]
    for prompt in (answers, queries):
        assert "Where can I walk?" in prompt
        assert prompt.count("In the hills") == 20  # those of the last response alone


def aqd_a_cuts_after_reranking():
    score = Score()
    results, _, _ = run("aqd_a", Search(1000), score)
    assert len(set(score.docnos)) == 2000
    assert len(results) == 1000


def an_unusable_list_falls_back():
    for given, query in (
        ({"queries": "..."}, "What do I eat?"),
        ({"queries": "..."}, "vegan food for walks"),
    ):
        name = "qd" if query == "What do I eat?" else "mq4cs_qr_deberta"
        search = Search()
        _, _, model = run(name, search, **given)
        assert search.queries == [query]
        assert model.llm.ledger.frame().set_index("stage").loc["queries", "fallbacks"] == 1


def the_examples_are_ours():
    for name, prompt, examples in (
        ("aqd_llama", "queries_given_answer_llama", 2),
        ("qd_llama", "queries_llama", 1),
        ("aqd", "answer", 0),
    ):
        shown = run(name)[1][prompt]
        assert shown.count("# Example ") == (examples + 1 if examples else 0), (
            name
        )  # the last one is the turn itself
        assert ("I moved to Oslo last autumn" in shown) == bool(examples)


def bm25_stands_in():
    for name in ("convgqr", "monot5"):
        assert METHODS[name].models["retriever"].startswith("an unnamed")
        assert keys_of(METHODS[name])["retriever"] == ("bm25",)


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


def the_queries_of_aqd_are_asked_for_its_answer():
    _, _, model = run("aqd")
    [request] = [request for request in model.asked if request.prompt == "queries_given_answer"]
    assert request.messages[-2]["content"] == "Nuts and oats."
    assert "at most 5" in request.messages[-1]["content"]


def table_4_repeats_two_counts():
    counts = find_table("generate_then_retrieve", "4").counts
    assert counts[3][3:] == counts[4][3:] == [284, 52]
    pairs = sum(map(sum, counts))
    agreed = sum(map(sum, (row[:2] for row in counts[:2]))) + sum(
        map(sum, (row[2:] for row in counts[2:]))
    )
    assert round(100 * agreed / pairs, 2) == 66.51
    fitting = []
    for more in range(300):
        if round(100 * (agreed + more) / (pairs + more), 2) == 66.84:
            fitting.append(more)
    assert fitting == list(range(220, 227))


def the_rows_are_gpt_4o_minis():
    for name in find_table("ptkb_2024", "2023")[0].systems:
        assert find(name).models["llm"] == "openai:gpt-4o-mini"


def rows_of_2024_have_neither_examples_nor_deviations():
    [rows_2024] = find_table("ptkb_2024", "2024")
    rewriting = [name for name in rows_2024.systems if not name.endswith("_queries")]
    assert rewriting == ["ptkb_sar"]
    rows = [row.split("; ") for row in PAPERS["ptkb_2024"].tables["deviations"].rows]
    in_2023 = TABLES["ptkb_on_2023"].frame()["nDCG@5"].to_dict()
    listed = {}
    for name, shots, *cells in rows:
        if name != "ptkb_statement":
            listed[name if shots == "0" else f"{name}:shots={shots}"] = float(
                cells[1].split("±")[0]
            )
    assert listed == in_2023
    assert not any(":" in name for name in rows_2024.systems)


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


def figures_3_and_4_are_guessed():
    for number in ("3", "4"):
        figure = find_table("generate_then_retrieve", f"figure-{number}")
        assert (figure.measure, figure.part.judgements) == ("nDCG", "NIST")


def the_judges_reason_follows_its_label():
    turns = pd.DataFrame(
        {
            "qid": ["1"],
            "query": ["oats?"],
            "qresolved": ["oats?"],
            "gold_answer": ["Yes."],
            "qptkb": [PTKB],
            "qgoldptkb": [["1"]],
            "docno": ["d"],
            "text": ["Oats."],
        }
    )
    model = ByPrompt(judge="3\nIt names oats.")
    assert ikat.Judge(model.llm)(turns.assign(score=1.0, rank=0))["label"].tolist() == [3]
    prompt = model.asked[0].messages[-1]["content"]
    assert prompt.index("number alone on the first line") < prompt.index(
        "reason in one sentence on the second"
    )


def table_4_counts_fewer_pairs():
    assert sum(map(sum, find_table("generate_then_retrieve", "4").counts)) == 22_684


def the_unjudged_share_is_that_of_table_3():
    judged = TABLES["generate_then_retrieve_3"].frame()["Judged@10"]
    outside = judged[judged < 10]
    assert (len(outside), round(100 * (1 - outside.mean() / 10), 2)) == (13, 72.85)


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


def cfda_shows_the_raw_utterance():
    model = ByPrompt(
        statements_copies="I am vegan.",
        condense_passages="Oats keep.",
        respond_passages="Oats.",
        respond="Oats.",
    )
    turn = ikat.conversation(
        [{"role": role, "content": content} for role, content in CHAT], PTKB
    ).assign(qresolved="RESOLVED")
    METHODS["cfda_generation_only"].build(
        llm=model.llm, retriever=Search(9) >> pt.apply.doc_score(lambda row: 9.0 - row["rank"])
    )(turn)
    assert {"statements_copies", "condense_passages", "respond"} <= {
        request.prompt for request in model.asked
    }
    for request in model.asked:
        said = " ".join(message["content"] for message in request.messages)
        assert "What do I eat?" in said, request.prompt
        assert "RESOLVED" not in said


def chiqs_list_is_first():
    expression = METHODS["cfda_best_of_n"].expression
    fused = expression[expression.index("RRF(") :]
    assert fused.index("'personal'") < fused.index("RewriteAndAnswer")


def the_other_rows_have_no_method():
    for year, lowest in ((2023, 0.1884), (2024, 0.3058)):
        [part] = find_table("cfda_2025", str(year))
        assert part.systems == ["best_of_n"]
        for name in part.only_published:
            assert "choice" in name or "gpt4o" in name
        assert part.frame()["nDCG@5"].min() == lowest


def the_rows_are_bm25s():
    for name in find_table("ptkb_2024", "2023")[0].systems:
        assert find(name).models["retriever"] == "BM25"


def adarewriters_choice_is_named():
    assert all(
        "AdaRewriter's choice" in TABLES[name].paper for name in ("cfda_on_2023", "cfda_on_2024")
    )
    assert "BestQuery" in METHODS["best_of_n"].expression


def the_file_is_named():
    assert TABLES["cfda_on_2024"].paper.endswith("IKAT2024/perf.json)")
    assert list(PAPERS["cfda_2025"].tables) == ["2023", "2024"]


def the_fused_system_has_no_row():
    for name in ("cfda_on_2023", "cfda_on_2024"):
        assert not TABLES[name].frame().index.str.contains("cfda").any()


def the_study_has_means_of_five_runs():
    assert "means of 5 runs" in TABLES["ptkb_on_2023"].paper
    assert "means of 5 runs" in TABLES["ptkb_on_2024"].paper


def examples_are_an_argument():
    rows = [row.split("; ") for row in PAPERS["ptkb_2024"].tables["deviations"].rows]
    with_examples = {name for name, shots, *_ in rows if shots != "0"}
    assert with_examples == {"ptkb_str", "ptkb_str_queries", "ptkb_sar"}
    systems = find_table("ptkb_2024", "2023")[0].systems
    assert {tuple(name.split(":shots=")) for name in systems if ":" in name} == {
        (name, shots) for name, shots, *_ in rows if shots != "0"
    }
    for name in with_examples:
        assert "shots=3" in repr(METHODS[name].system("recorded:sample", Search(), shots=3))


def the_table_of_2023_replays_the_authors_completions():
    [part] = find_table("ptkb_2024", "2023")
    assert dict(part.recorded) == {"gpt-4o-mini": "recorded:personalizedcir"}
    of_study = [name for name in OUTPUTS if name.startswith("personalizedcir-")]
    assert len(of_study) == len(part.systems) == 18
    for name in of_study:
        assert (len(OUTPUTS[name].files), OUTPUTS[name].turns) == (5, part.listed)


def recorded_str_chooses_nothing():
    replaying = ikat.llm("recorded:sample")
    replaying.backend.output = OUTPUTS["personalizedcir-llm-0shot-prompt2"]
    assert "SelectStatements" not in repr(
        METHODS["ptkb_str"].build(llm=replaying, retriever=Search())
    )
    assert "SelectStatements" in repr(
        METHODS["ptkb_str"].build(llm=ikat.llm("recorded:sample"), retriever=Search())
    )


def automatic_selection_is_an_oracle():
    description = " ".join(METHODS["ptkb_statement"].description.split())
    assert "oracle by nDCG@3" in description
    assert "ptkb_statement" not in TABLES["ptkb_on_2023"].frame().index


def discos_scores_are_the_cards():
    assert TABLES["disco_card"].paper.startswith("the description of the model")


def no_difference_without_a_number_of_turns():
    [part] = find_table("disco_2025", "card")
    judged = UserJudgements().judgements(part, ikat.dataset("ikat:sample"))
    table = PaperTable(
        part, [], type(judged)(judged.qrels, "NIST", 2023), {"disco": pd.DataFrame({"MRR": [0.5]})}
    )
    assert part.turns is None
    assert not table.same_turns


def the_baselines_scores_are_the_readmes():
    for year in (2023, 2024):
        assert f"README, iKAT{year % 100}" in TABLES[f"baselines_2025_on_{year}"].paper
        assert {"Recall(rel=2)@100", "MRR(rel=2)"} <= set(
            TABLES[f"baselines_2025_on_{year}"].measures
        )


def the_repeated_line_is_omitted():
    assert "baseline_2025_splade" in TABLES["baselines_2025_on_2023"].frame().index
    assert "baseline_2025_splade" not in TABLES["baselines_2025_on_2024"].frame().index


SHOWN_BY = {
    "Which 133 of the 176 judged turns of 2023 are scored isn't published.": both_counts_are_shown,
    "GPT-3.5's labels behind Table 1 aren't published.": gpt_35_is_missing,
    "QR with LLaMA, and LLaMA10, see all past messages.": qr_sees_all_messages,
    "AQD_A re-ranks the union of the candidates, then cuts to 1000.": aqd_a_cuts_after_reranking,
    "A query list without a usable query falls back to the rewrite or utterance.": (
        an_unusable_list_falls_back
    ),
    "The examples of the few-shot prompts are ours.": the_examples_are_ours,
    "ConvGQR and monoT5 retrieve by BM25 here.": bm25_stands_in,
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
    "The whole history is shown; responses of 150 characters or more are summed up, but "
    "the last.": (infosense_sums_up_long_responses_but_the_last),
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
    "The prompt for AQD's queries with GPT-4 is our own.": (
        the_queries_of_aqd_are_asked_for_its_answer
    ),
    "Table 4 repeats 284 and 52 in its rows 3 and 4, and its counts give an agreement of "
    "66.51 %.": table_4_repeats_two_counts,
    "The rows are those of GPT-4o-mini.": the_rows_are_gpt_4o_minis,
    "The deviations and the rows with examples are those of 2023.": (
        rows_of_2024_have_neither_examples_nor_deviations
    ),
    "Table 2 has 116 turns, Table 3 114.": infosenses_turns_fit_its_scores,
    "Figures 3 and 4 have nDCG by NIST's judgements.": figures_3_and_4_are_guessed,
    "The judge also writes a reason.": the_judges_reason_follows_its_label,
    "NIST judged 34,183 pairs of the 176 turns, and Table 4 counts 22,684.": (
        table_4_counts_fewer_pairs
    ),
    "By Table 3, 72.85 % of the top 10 is unjudged, over the 13 rows outside the track's pool.": (
        the_unjudged_share_is_that_of_table_3
    ),
    "1000 passages of the pool are re-ranked.": the_pool_is_cut_to_1000,
    "Statements, summaries and responses are written for the raw utterance.": (
        cfda_shows_the_raw_utterance
    ),
    "The list of CHIQ's rewrite is the first one of the fusion.": chiqs_list_is_first,
    "Rows with `choice` or `gpt4o` in their names have no method.": the_other_rows_have_no_method,
    "The rows are those of BM25.": the_rows_are_bm25s,
    "The scores come from AdaRewriter's choice of ten LLM4CS rewrites.": (
        adarewriters_choice_is_named
    ),
    "The scores come from files in the authors' repository.": the_file_is_named,
    "The fused system has no row.": the_fused_system_has_no_row,
    "The scores are means of five runs.": the_study_has_means_of_five_runs,
    "Rows with examples are the methods with an argument.": examples_are_an_argument,
    "Without a model of yours, the table of 2023 replays the authors' completions.": (
        the_table_of_2023_replays_the_authors_completions
    ),
    "Recorded rewrites of STR come without a choice of statements.": recorded_str_chooses_nothing,
    "Automatic selection is an oracle.": automatic_selection_is_an_oracle,
    "The scores come from the description of the model.": discos_scores_are_the_cards,
    "How many turns they are means over isn't said.": no_difference_without_a_number_of_turns,
    "The scores come from the repository's README.": the_baselines_scores_are_the_readmes,
    "A line of 2024 is omitted.": the_repeated_line_is_omitted,
}


DEVIATIONS = []
for paper in PAPERS.values():
    DEVIATIONS += paper.deviations


def released(shared, year):
    return json.loads((shared / "ikat" / f"{year}_test_topics.json").read_text())


def judged_turns(qrels):
    """The turn of each line of a file of judgements."""
    return [line.split()[0] for line in qrels.read_text().splitlines()]


def test_released_data_has_the_statistics_beside_the_papers(shared):
    said = " ".join(" ".join(deviation) for deviation in DEVIATIONS)
    turns = [len(one["turns"]) for one in released(shared, 2023)]
    assert f"{sum(turns) / len(turns):.2f} turns a conversation" in said
    assert f"{sum(turns)} turns of the {len(turns)} conversations" in said
    ptkbs = {str(one["number"]): len(one["ptkb"]) for one in released(shared, 2024)}
    listed = {qid.rpartition("_")[0] for qid in turn_lists()["irlab-2024"].turns}
    mean = sum(ptkbs[conversation] for conversation in listed) / len(listed)
    assert f"{len(listed)} conversations of the 103 turns have {mean:.2f} statements" in said
    assert (
        f"{len(ptkbs)} released conversations have {sum(ptkbs.values()) / len(ptkbs):.2f}" in said
    )
    assert f"released topics of 2024 have {len(ptkbs)} conversations" in said
    assert sum(len(one["turns"]) for one in released(shared, 2024)) == 218
    judged = judged_turns(shared / "ikat" / "2023-qrels.all-turns.txt")
    assert f"{len(judged):,} pairs of the {len(set(judged))} turns" in said
    assert len(set(judged_turns(shared / "ikat" / "ptkb_rel_nist"))) == 98
    assert len(set(judged_turns(shared / "ikat" / "2024-qrels.txt"))) == 116


OF_RELEASED_DATA = {
    "The released topics have 13.28 turns a conversation.",
    "The released topics of 2024 have 17 conversations.",
    "The 13 conversations of the 103 turns have 16.85 statements on average.",
}


def test_ralis_response_answers_the_utterance():
    answer = "Rewrite: hill food for a vegan\nResponse: Oats."
    _, prompts, _ = run(
        "rali_fusion3", rewrite_and_answer=answer, rewrite_and_answer_without_persona=answer
    )
    assert "# Last message of the user\nWhat do I eat?" in prompts["respond"]
    assert "hill food for a vegan" not in prompts["respond"]
    description = " ".join(METHODS["rali_fusion3"].description.split())
    assert "ours answers" in description


@pytest.mark.parametrize("sentence", [sentence for sentence, _ in DEVIATIONS])
def test_each_sentence_on_a_decision_is_true(sentence):
    if sentence not in OF_RELEASED_DATA:
        SHOWN_BY[sentence]()
