"""RALI: three queries, ever more personal, of which the personalised rewrite re-ranks the first 50."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS

PLAIN = "Rewrite: Which tea has no caffeine?\nResponse: Rooibos has none."
PERSONAL = "Reason: The user sleeps badly.\nRewrite: Which evening tea has no caffeine?\nResponse: Rooibos."
FOUND = {
    "Which tea has no caffeine?": {"a": 10.0, "b": 6.0},
    "Which tea has no caffeine? Rooibos has none.": {"c": 50.0, "b": 20.0},
    "Which evening tea has no caffeine?": {"d": 12.0, "a": 2.0},
}


class Model:
    """Answers by whether the prompt shows the persona, and remembers the prompts."""

    def __init__(self):
        self.prompts = []

    def generate(self, prompts):
        texts = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
        self.prompts += texts
        return [type("Reply", (), {"text": PERSONAL if "I sleep badly" in text else PLAIN}) for text in texts]


def found(turns):
    rows = [
        {**turn, "docno": docno, "score": score, "rank": rank, "text": f"text of {docno}"}
        for turn in turns.to_dict("records")
        for rank, (docno, score) in enumerate(FOUND[turn["query"]].items())
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def turn():
    chat = [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Good."}, {"role": "user", "content": "Which?"}]
    return ikat.conversation(chat, ["I sleep badly."])


def test_three_queries_are_summed_with_the_weights_of_their_code_by_hand(turn):
    model = Model()
    ranked = ikat.methods.rali(ikat.llm(model), pt.apply.generic(found), respond=False)(turn)
    # least scores 6, 20 and 2: a: 10 + 2 + .8, b: 6 + 2 + .8, c: 6 + 5 + .8, d: 6 + 2 + 4.8
    scores = dict(zip(ranked["docno"], ranked["score"], strict=True))
    assert scores == pytest.approx({"a": 12.8, "d": 12.8, "c": 11.8, "b": 8.8})
    assert list(scores) == ["a", "d", "c", "b"]  # a and d tie and are both first in a list: the earlier list goes first
    assert ranked["query"].unique().tolist() == ranked["qrewrite"].unique().tolist() == ["Which evening tea has no caffeine?"]


def test_only_the_third_query_is_made_with_the_persona_and_a_reason(turn):
    model = Model()
    ikat.methods.rali(ikat.llm(model), pt.apply.generic(found), respond=False)(turn)
    plain, personal = model.prompts
    assert "I sleep badly" not in plain
    assert "Reason:" not in plain
    assert "I sleep badly" in personal
    assert "Reason:" in personal


def test_the_queries_of_the_sample_are_recorded_with_and_without_the_persona():
    topics = pt.get_dataset("ikat:sample").get_topics()
    queries = {}
    for persona in (True, False):
        made = ikat.RewriteAndAnswer(ikat.llm("recorded:sample"), persona=persona)(topics)
        queries[persona] = dict(zip(made["qid"], made["qrewrite"], strict=True))
    assert all(queries[True][qid] != queries[False][qid] for qid in topics["qid"])
    assert "nut-free" in queries[True]["1-2_4"]
    assert "nut" not in queries[False]["1-2_4"]


def test_the_re_ranker_gets_the_first_50_by_the_personalised_rewrite(turn):
    pairs = []
    reranker = pt.apply.generic(lambda rows: pairs.extend(rows[["query", "docno"]].values.tolist()) or rows)
    ranked = ikat.methods.rali(ikat.llm(Model()), pt.apply.generic(found), reranker, rerank_depth=3, respond=False)(turn)
    assert pairs[-3:] == [["Which evening tea has no caffeine?", docno] for docno in "adc"]
    assert len(ranked) == 3


def test_the_expression():
    retriever = "(ikat.generate.QueryColumn('qrewrite') >> retriever % 1000), retriever % 1000"
    personal = "(ikat.RewriteAndAnswer(llm) >> ikat.generate.QueryColumn('qrewrite') >> retriever % 1000)"
    weighted = f"ikat.WeightedSum({retriever}, {personal}, weights=(1, 0.1, 0.4), normalise='none', num_results=50)"
    plain = "ikat.RewriteAndAnswer(llm, think=False, persona=False)"
    expected = f"{plain} >> {weighted} >> reranker >> ikat.Respond(llm, passages=3, words=220)"
    assert METHODS["rali_fusion3"].expression == expected


def test_a_query_column_is_the_query_and_the_old_one_is_kept():
    frame = pd.DataFrame({"qid": ["1"], "query": ["safe?"], "qrewrite": ["is rooibos safe?"]})
    assert ikat.generate.QueryColumn("qrewrite")(frame)[["query", "query_0"]].values.tolist() == [["is rooibos safe?", "safe?"]]
    with pytest.raises(pt.validate.InputValidationError, match="qanswer"):
        ikat.generate.QueryColumn("qanswer")(frame)


TestQueryColumn = pt.testing.transformer_test_class(lambda: ikat.generate.QueryColumn("qrewrite"))
