"""Methods on one turn, with answers and a ranking for each query from a table."""

import pandas as pd
import pyterrier as pt
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import find

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
