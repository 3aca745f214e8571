"""A model that draws its rewrites and answers, a search by words, a re-ranker by a table."""

import pandas as pd
import pyterrier as pt
from fakes import ByPrompt

from pyterrier_ikat.llms import Reply

PTKB = {"1": "I am vegan."}
CHAT = [
    {"role": "user", "content": "Where can I walk?"},
    {"role": "assistant", "content": "In the hills."},
    {"role": "user", "content": "What do I eat?"},
]


class Draws(ByPrompt):
    """Answers a list by the sample's number."""

    def complete(self, requests):
        self.asked += requests
        replies = []
        for request in requests:
            answer = self.answers[request.prompt]
            if isinstance(answer, list):
                answer = answer[request.sample]
            replies.append(Reply(answer, self.model))
        return replies


class Search(pt.Transformer):
    """Find a passage for each word of the query, in their order; remember queries and vectors."""

    def __init__(self):
        super().__init__()
        self.queries = []
        self.vectors = []

    def transform(self, inp):
        self.queries += inp["query"].tolist()
        self.vectors += inp["query_vec"].tolist() if "query_vec" in inp.columns else []
        rows = []
        for row in inp.drop(columns="query_vec", errors="ignore").to_dict("records"):
            for rank, word in enumerate(dict.fromkeys(row["query"].split())):
                found = {"docno": word, "text": word, "rank": rank, "score": -float(rank)}
                rows.append(row | found)
        return pd.DataFrame(
            rows, columns=None if rows else [*inp.columns, "docno", "text", "rank", "score"]
        )

    def __hash__(self):
        return id(self)


class Likes(pt.Transformer):
    """Scores passages by a table, 0 for the others; remembers the pairs."""

    def __init__(self, **scores):
        super().__init__()
        self.scores = scores
        self.pairs = []

    def transform(self, inp):
        self.pairs += list(zip(inp["query"], inp["docno"], strict=True))
        return pt.model.add_ranks(
            inp.assign(score=[float(self.scores.get(docno, 0)) for docno in inp["docno"]])
        )

    def __hash__(self):
        return id(self)


def both(*pairs):
    return [f"Rewrite: {rewrite}\nResponse: {answer}" for rewrite, answer in pairs]


def prompts(model):
    return [request.prompt for request in model.asked]


def shown(model, prompt):
    return model.texts_of(prompt)[0]
