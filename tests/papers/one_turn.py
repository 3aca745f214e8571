"""A method of a paper on one turn, with stand-ins for what it searches and asks."""

import json

import pyterrier as pt
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers.published import PAPERS

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
        self.found = found
        self.words = words
        self.queries = []

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
    prompts = {request.prompt: request.messages[-1]["content"] for request in model.asked}
    return results, prompts, model


PARTICIPANTS = ["irlab_2024", "infosense_2024", "nii_2024"]
"""The papers of participants of iKAT 2024."""


def deviations(papers):
    """What differs in these papers, and why."""
    found = []
    for name in papers:
        found += PAPERS[name].deviations
    return found
