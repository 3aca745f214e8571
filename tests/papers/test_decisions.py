"""Each sentence on a difference from a paper or a decision, as docs/reproduce.md shows it.

A check beside it shows that it is true. Those of three participants of iKAT 2024 are in
test_decisions_of_participants.py.
"""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt
from papers.one_turn import CHAT, PARTICIPANTS, PTKB, Score, Search, deviations, run

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import OUTPUTS, turn_lists
from pyterrier_ikat.methods import METHODS, TABLES, find
from pyterrier_ikat.papers.paper_scores import UserJudgements
from pyterrier_ikat.papers.published import GPT_35, MISSING, PAPERS, find_table, keys_of
from pyterrier_ikat.papers.table import PaperTable


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


def released(shared, year):
    return json.loads((shared / "ikat" / f"{year}_test_topics.json").read_text())


def judged_turns(qrels):
    """The turn of each line of a file of judgements."""
    return [line.split()[0] for line in qrels.read_text().splitlines()]


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
    "The prompt for AQD's queries with GPT-4 is our own.": (
        the_queries_of_aqd_are_asked_for_its_answer
    ),
    (
        "Table 4 repeats 284 and 52 in its rows 3 and 4, and its counts give an agreement of "
        "66.51 %."
    ): table_4_repeats_two_counts,
    "The rows are those of GPT-4o-mini.": the_rows_are_gpt_4o_minis,
    "The deviations and the rows with examples are those of 2023.": (
        rows_of_2024_have_neither_examples_nor_deviations
    ),
    "Figures 3 and 4 have nDCG by NIST's judgements.": figures_3_and_4_are_guessed,
    "The judge also writes a reason.": the_judges_reason_follows_its_label,
    "NIST judged 34,183 pairs of the 176 turns, and Table 4 counts 22,684.": (
        table_4_counts_fewer_pairs
    ),
    "By Table 3, 72.85 % of the top 10 is unjudged, over the 13 rows outside the track's pool.": (
        the_unjudged_share_is_that_of_table_3
    ),
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


def test_ralis_response_answers_the_utterance():
    answer = "Rewrite: hill food for a vegan\nResponse: Oats."
    _, prompts, _ = run(
        "rali_fusion3", rewrite_and_answer=answer, rewrite_and_answer_without_persona=answer
    )
    assert "# Last message of the user\nWhat do I eat?" in prompts["respond"]
    assert "hill food for a vegan" not in prompts["respond"]
    description = " ".join(METHODS["rali_fusion3"].description.split())
    assert "ours answers" in description


def test_released_data_has_the_statistics_beside_the_papers(shared):
    said = " ".join(" ".join(deviation) for deviation in deviations(PAPERS))
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


OF_RELEASED_DATA = {"The released topics have 13.28 turns a conversation."}


OTHERS = [name for name in PAPERS if name not in PARTICIPANTS]


@pytest.mark.parametrize("sentence", [sentence for sentence, _ in deviations(OTHERS)])
def test_each_sentence_on_a_decision_is_true(sentence):
    if sentence not in OF_RELEASED_DATA:
        SHOWN_BY[sentence]()
