"""The study of the PTKB and APCIR: what each shows, asks, searches for and sums."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, published
from pyterrier_ikat.papers import PAPERS

ANSWERS = {
    "reformulate_rewrite": "Rewrite: Which tea helps me sleep?\nResponse: Rooibos.",
    "reformulate_queries": "Response: Rooibos.\nQueries: tea sleep",
    "reformulate_select": "Statements: [2]\nRewrite: Which tea helps me sleep?\nResponse: Rooibos.",
    "statements_ids": "[2]",
    "rewrite_by_level": "Reason: sleep matters.\nLevel: c\nRewrite: Which evening tea?\nResponse: Rooibos.",
    "rewrite_and_answer_without_persona": "Rewrite: Which tea?\nResponse: Rooibos.",
}
PTKB = {"1": "I own a dog.", "2": "I sleep badly."}
FOUND = {"Which tea?": {"a": 3.0, "b": 1.0}, "Which tea? Rooibos.": {"c": 9.0, "b": 5.0}, "Which evening tea?": {"d": 4.0, "a": 2.0}}


class Search(pt.Transformer):
    """Finds what a table has for a query, else one passage; remembers the queries."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def transform(self, turns):
        self.queries += turns["query"].tolist()
        rows = [
            {**turn, "docno": docno, "score": score, "rank": rank, "text": docno}
            for turn in turns.to_dict("records")
            for rank, (docno, score) in enumerate(FOUND.get(turn["query"], {"a": 1.0}).items())
        ]
        return pd.DataFrame(rows)


def run(name, **given):
    turn = ikat.conversation([{"role": "user", "content": "Which tea?"}], PTKB).assign(qresolved=["Which tea?"], qgoldptkb=[["1"]])
    model, search = ByPrompt(**ANSWERS), Search()
    results = METHODS[name].build(llm=model.llm, retriever=search, **given)(turn)
    return results, search.queries, [str(request.messages[-1]["content"]) for request in model.asked]


@pytest.mark.parametrize("tail", ["", "_queries"])
@pytest.mark.parametrize(("name", "shown"), [("none", ""), ("all", "12"), ("human", "1"), ("str", "2")])
def test_each_choice_shows_its_statements_and_searches_for_rewrite_and_answer(name, shown, tail):
    _, queries, prompts = run(f"ptkb_{name}{tail}")
    assert queries == ["tea sleep Rooibos." if tail else "Which tea helps me sleep? Rooibos."]
    assert {number for number, text in PTKB.items() if f"{number}: {text}" in prompts[-1]} == set(shown)
    assert len(prompts) == (2 if name == "str" else 1)


def test_sar_chooses_in_the_same_completion():
    results, queries, [prompt] = run("ptkb_sar")
    assert queries == ["Which tea helps me sleep? Rooibos."]
    assert results["qstatements"].tolist() == [[("2", 1.0)]]
    assert all(text in prompt for text in PTKB.values())


def test_a_single_statement_is_shown_by_its_number():
    for number, shown in ((1, {"1"}), (2, {"2"}), (9, set())):
        model = ByPrompt(**ANSWERS)
        ikat.methods.ptkb_statement(model.llm, Search(), statement=number)(ikat.conversation([{"role": "user", "content": "Tea?"}], PTKB))
        assert {one for one, text in PTKB.items() if text in str(model.asked[0].messages)} == shown


def test_only_the_human_choice_reads_gold_data_and_bm25_is_that_of_the_study():
    names = [name for name in METHODS if name.startswith("ptkb_")]
    assert len(names) == 10
    assert {name for name in names if METHODS[name].manual} == {"ptkb_human", "ptkb_human_queries"}
    assert all(dict(METHODS[name].bm25) == {"k1": 0.82, "b": 0.68} for name in names)


def test_the_published_means_are_those_of_the_files():
    assert published("ptkb_on_2023").loc["ptkb_sar", "nDCG@3"] == 0.1854
    assert published("ptkb_on_2023").loc["ptkb_human_queries", "Recall"] == 0.4799
    assert published("ptkb_on_2024").loc["ptkb_none_queries", "MRR"] == 0.6835
    assert published("ptkb_on_2024").loc["ptkb_sar", "mAP"] == 0.1434


def test_the_published_means_and_deviations_are_those_of_the_files(shared):
    files = {"ptkb_str": "LLM", "ptkb_sar": "SAR"} | {f"ptkb_{name.casefold()}": name for name in ("None", "All", "human")}
    keys = ("NDCG@3", "NDCG@5", "MRR", "Precision@20", "Recall@20", "Recall@1000", "MAP")
    for row in PAPERS["ptkb_2024"].tables["deviations"].rows:
        name, shots, *cells = row.split("; ")
        if name == "ptkb_statement":
            continue  # its file isn't among the copies
        tail = "" if name == "ptkb_sar" else "_prompt1" if name.endswith("_queries") else "_prompt2"
        path = shared / "outputs/personalized-cir" / f"aggregated_bm25_batch_{files[name.removesuffix('_queries')]}_{shots}shot{tail}.json"
        [found] = json.loads(path.read_text()).values()
        of_runs = [found["full_set"][key] for key in keys]
        assert cells == [f"{one['mean'] / 100:.4f}±{one['std'] / 100:.4f}".replace("0.", ".") for one in of_runs], name
        if shots == "0":
            assert list(published("ptkb_on_2023").loc[name]) == [round(one["mean"] / 100, 4) for one in of_runs]


def test_apcir_sums_three_scaled_lists_by_the_weights_of_the_level_by_hand():
    results, queries, prompts = run("apcir")
    assert sorted(queries) == sorted(FOUND)
    # scaled: a 1, b 0; c 1, b 0; d 1, a 0; the weights of level c are 1, .1 and .6
    scores = dict(zip(results["docno"], results["score"].astype(float).round(6), strict=True))
    assert scores == {"a": 1.0, "d": 0.6, "c": 0.1, "b": 0.0}
    assert "I sleep badly." in prompts[0]
    assert "I sleep badly." not in prompts[1]


def test_apcirs_weights_can_be_given_and_the_personal_rewrite_re_ranks_the_first():
    pairs = []
    reranker = pt.apply.generic(lambda rows: pairs.extend(rows[["query", "docno"]].values.tolist()) or rows)
    model = ByPrompt(**ANSWERS)
    weights = {level: (0, 1, 0) for level in "abc"}
    system = ikat.methods.apcir(model.llm, Search(), reranker, weights=weights, rerank_depth=2)
    results = system(ikat.conversation([{"role": "user", "content": "Which tea?"}], PTKB))
    assert pairs[0] == ["Which evening tea?", "c"]
    assert len(results) == len(pairs) == 2
