"""RALI, APCIR, the PTKB study, MQ4CS and DiSCo by hand: queries, fusions, re-ranking.

What each prompt has is in test_prompt_values.py, the settings of each stage in method_sheet.txt.
"""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, find

PTKB = {"1": "I own a dog.", "2": "I sleep badly."}
ANSWERS = {
    "reformulate_rewrite": "Rewrite: Which tea helps me sleep?\nResponse: Rooibos.",
    "reformulate_queries": "Response: Rooibos.\nQueries: tea sleep",
    "reformulate_select": "Statements: [2]\nRewrite: Which tea helps me sleep?\nResponse: Rooibos.",
    "statements_ids": "[2]",
    "rewrite_by_level": "Reason: sleep matters.\nLevel: c\n"
    "Rewrite: Which evening tea?\nResponse: Rooibos.",
    "rewrite_and_answer": "Reason: The user sleeps badly.\n"
    "Rewrite: Which evening tea?\nResponse: Rooibos.",
    "rewrite_and_answer_without_persona": "Rewrite: Which tea?\nResponse: Rooibos.",
    "queries": "1. bus to the lake\n2. lake in winter\n3. lake hotels",
    "queries_given_answer": "1. bus to the lake\n2. lake in winter\n3. lake hotels",
    "answer": "Take the bus.",
}
FOUND = {
    "Which tea?": {"a": 10.0, "b": 6.0},
    "Which tea? Rooibos.": {"c": 50.0, "b": 20.0},
    "Which evening tea?": {"d": 12.0, "a": 2.0},
    "bus to the lake": {"a": 2.0, "b": 1.0},
    "lake in winter": {"b": 2.0, "c": 1.0},
    "lake hotels": {"d": 2.0},
}


class Search(pt.Transformer):
    """Finds what the table has for a query, else one passage; remembers the queries."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def transform(self, turns):
        self.queries += turns["query"].tolist()
        rows = []
        for turn in turns.to_dict("records"):
            found = FOUND.get(turn["query"], {"a": 1.0})
            for rank, (docno, score) in enumerate(found.items()):
                rows.append({**turn, "docno": docno, "score": score, "rank": rank, "text": docno})
        return pd.DataFrame(rows)


class Reads(pt.Transformer):
    """A re-ranker that keeps the order, and remembers the pairs."""

    def __init__(self):
        super().__init__()
        self.pairs = []

    def transform(self, rows):
        self.pairs += rows[["query", "docno"]].values.tolist()
        return rows


def ran(system, **given):
    """The results of a method, or of a function with arguments; the queries; the prompts."""
    turn = ikat.conversation([{"role": "user", "content": "Which tea?"}], PTKB).assign(
        qresolved=["Which tea?"], qgoldptkb=[["1"]]
    )
    model = ByPrompt(**ANSWERS)
    search = Search()
    if callable(system):
        built = system(model.llm, search, **given)
    else:
        built = find(system).build(llm=model.llm, retriever=search, **given)
    results = built(turn)
    prompts = [str(request.messages[-1]["content"]) for request in model.asked]
    return results, search.queries, prompts


def scores(results):
    return dict(zip(results["docno"], results["score"].astype(float).round(6), strict=True))


def test_rali_sums_three_lists_by_the_weights_of_its_code():
    ranked, _, _ = ran(ikat.methods.rali, respond=False)
    # least scores 6, 20 and 2: a: 10 + 2 + .8, b: 6 + 2 + .8, c: 6 + 5 + .8, d: 6 + 2 + 4.8
    assert scores(ranked) == pytest.approx({"a": 12.8, "d": 12.8, "c": 11.8, "b": 8.8})
    assert ranked["docno"].tolist() == [
        "a",
        "d",
        "c",
        "b",
    ]  # a and d tie and are both first in a list: the earlier list goes first
    assert (
        ranked["query"].unique().tolist()
        == ranked["qrewrite"].unique().tolist()
        == ["Which evening tea?"]
    )


def test_ralis_personalised_rewrite_re_ranks_the_first():
    reranker = Reads()
    ranked, _, _ = ran(ikat.methods.rali, reranker=reranker, rerank_depth=3, respond=False)
    assert reranker.pairs[-3:] == [["Which evening tea?", docno] for docno in "adc"]
    assert len(ranked) == 3


def test_apcir_sums_three_scaled_lists_by_the_levels_weights():
    results, queries, prompts = ran("apcir")
    assert sorted(queries) == ["Which evening tea?", "Which tea?", "Which tea? Rooibos."]
    # scaled: a 1, b 0; c 1, b 0; d 1, a 0; the weights of level c are 1, .1 and .6
    assert scores(results) == {"a": 1.0, "d": 0.6, "c": 0.1, "b": 0.0}
    assert ["I sleep badly." in prompt for prompt in prompts] == [True, False]


def test_apcir_takes_weights_and_may_re_rank_by_personal_rewrite():
    reranker = Reads()
    results, _, _ = ran(
        ikat.methods.apcir,
        reranker=reranker,
        weights={level: (0, 1, 0) for level in "abc"},
        rerank_depth=2,
    )
    assert reranker.pairs[0] == ["Which evening tea?", "c"]
    assert len(results) == len(reranker.pairs) == 2


@pytest.mark.parametrize("tail", ["", "_queries"])
@pytest.mark.parametrize(
    ("name", "shown"), [("none", ""), ("all", "12"), ("human", "1"), ("str", "2")]
)
def test_each_choice_shows_its_statements_and_searches_two_texts(name, shown, tail):
    _, queries, prompts = ran(f"ptkb_{name}{tail}")
    assert queries == ["tea sleep Rooibos." if tail else "Which tea helps me sleep? Rooibos."]
    assert ("1: I own a dog." in prompts[-1]) == ("1" in shown)
    assert ("2: I sleep badly." in prompts[-1]) == ("2" in shown)
    assert len(prompts) == (2 if name == "str" else 1)


def test_sar_chooses_in_one_completion_and_numbers_one_statement():
    results, queries, [prompt] = ran("ptkb_sar")
    assert queries == ["Which tea helps me sleep? Rooibos."]
    assert results["qstatements"].tolist() == [[("2", 1.0)]]
    assert all(text in prompt for text in PTKB.values())
    for number, shown in ((1, {"1"}), (2, {"2"}), (9, set())):
        _, _, [prompt] = ran(ikat.methods.ptkb_statement, statement=number)
        assert {one for one, text in PTKB.items() if text in prompt} == shown


@pytest.mark.parametrize(
    ("name", "docnos"),
    [("mq4cs", "abdc"), ("mq4cs_ans", "abdc"), ("mq4cs:n=2", "abc"), ("mq4cs_ans:n=1", "ab")],
)
def test_mq4cs_interleaves_n_lists_each_re_ranked_by_its_query(name, docnos):
    # a of the first, b of the second, d of the third; then the first's b is taken, c of the second
    reranker = Reads()
    results, queries, _ = ran(name, reranker=reranker)
    assert "".join(results["docno"]) == docnos
    pairs = []
    for query in queries:
        pairs += [[query, docno] for docno in FOUND[query]]
    assert reranker.pairs == pairs


CONVERSATION = [
    ("what's the weather like today?", "it's sunny."),
    ("should I wear sunscreen?", "yes, UV index is high."),
    ("do I need sunglasses?", ""),
    ("how much do they cost?", None),
]


def test_disco_searches_nonblank_messages_newest_first():
    """As the description of the authors' models builds it."""
    said = []
    for utterance, response in CONVERSATION:
        said.append(("user", utterance))
        if response is not None:
            said.append(("assistant", response))
    search = Search()
    found = ikat.methods.disco(search)(
        ikat.conversation([{"role": role, "content": text} for role, text in said])
    )
    ikat.methods.disco(search, separator=" | ")(
        ikat.conversation([{"role": "user", "content": "Tea?"}])
    )
    ikat.methods.disco(search)(
        pd.DataFrame({"qid": ["1"], "query": ["tea"]})
    )  # without a conversation
    newest = (
        "how much do they cost? [SEP] do I need sunglasses? [SEP] "
        "yes, UV index is high. [SEP] should I wear sunscreen?"
    )
    assert search.queries == [
        f"{newest} [SEP] it's sunny. [SEP] what's the weather like today?",
        "Tea?",
        "tea",
    ]
    assert found["qutterance"].tolist() == ["how much do they cost?"]


def test_disco_names_the_query_model_of_its_paper():
    model = "slupart/splade-disco-human-mistral"
    assert METHODS["disco"].deviations({"retriever": "SPLADE"}) == [
        f"retriever: the paper has query_model={model}, this run the default"
    ]
    assert METHODS["disco"].deviations({"retriever": f"SPLADE query_model={model}"}) == []


def test_a_query_column_is_the_query_and_the_old_one_is_kept():
    frame = pd.DataFrame({"qid": ["1"], "query": ["safe?"], "qrewrite": ["is rooibos safe?"]})
    assert ikat.generate.QueryColumn("qrewrite")(frame)[["query", "query_0"]].values.tolist() == [
        ["is rooibos safe?", "safe?"]
    ]
    with pytest.raises(pt.validate.InputValidationError, match="qanswer"):
        ikat.generate.QueryColumn("qanswer")(frame)


TestQueryColumn = pt.testing.transformer_test_class(lambda: ikat.generate.QueryColumn("qrewrite"))
