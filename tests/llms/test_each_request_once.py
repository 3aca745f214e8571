"""Twelve systems in one experiment send each distinct LLM request once, with the cache settings
that a user gets."""

import json
from collections import Counter
from dataclasses import replace

import pyterrier as pt
import pytest
from chat_server import said

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Backend, llm
from pyterrier_ikat.llms.recorded import RecordedBackend
from pyterrier_ikat.methods import METHODS

SYSTEMS = (
    *("qr", "ad", "aqd", "aqd_given_llama", "aqd_a", "mq4cs_qr_deberta", "gpt4qr_deberta"),
    *("wghtdrerank_1", "rtg", "gtr", "baseline_auto_gpt4_bm25_minilm"),
)
SOME = ("ad", "aqd", "gpt4qr_deberta", "rtg")
TURNS = 2


class Counting(Backend):
    """A user's own backend: what the sample's completions say, and how often each question was
    asked."""

    concurrency = 4

    def __init__(self, name):
        self.recorded = RecordedBackend(name)
        self.model = name
        self.identity = {"provider": "own", "model": name, "params": {}}
        self.asked = Counter()
        self.texts = {}

    def complete(self, requests):
        replies = self.recorded.complete(requests)
        for request, reply in zip(requests, replies, strict=True):
            question = json.dumps([request.messages, request.sample, dict(request.params)])
            self.asked[question] += 1
            self.texts[json.dumps(request.messages)] = reply.text
        return [replace(reply, model=self.model) for reply in replies]


@pytest.fixture(scope="module")
def retriever(sample_index):
    return ikat.PassageIndex(sample_index).bm25() % 20


def run(retriever, first, second, names=SYSTEMS):
    reranker = pt.apply.doc_score(
        lambda row: float(len(set(row["query"].split()) & set(row["text"].split())))
    )
    resources = {"llm": first, "second_llm": second, "reranker": reranker, "retriever": retriever}
    systems = {name: METHODS[name].build(**resources) for name in names}
    systems["two in one"] = ikat.Union(systems["ad"], systems["aqd"])
    data = pt.get_dataset("ikat:sample")
    topics = data.get_topics().head(TURNS)
    qrels = data.get_qrels()
    return ikat.experiment(systems, topics=topics, qrels=qrels[qrels["qid"].isin(topics["qid"])])


@pytest.fixture(scope="module")
def counted(retriever):
    backends = Counting("sample"), Counting("sample-claude")
    return run(retriever, *map(llm, backends)), backends


def test_a_users_own_backend_is_asked_each_question_once(counted):
    table, backends = counted
    assert len(table) == 12
    for backend in backends:
        assert len(backend.asked) >= 3 * TURNS
        assert set(backend.asked.values()) == {1}


def test_a_server_is_asked_once_and_not_again_by_a_later_run(counted, retriever, server, model):
    table, backends = counted
    texts = {backend.model: backend.texts for backend in backends}
    server.respond = lambda body: said(texts[body["model"]][json.dumps(body["messages"])])
    for _ in range(2):
        again = run(retriever, model(name="sample"), model(name="sample-claude"), SOME)
        assert again.equals(table[table["name"].isin(again["name"])].reset_index(drop=True))
        bodies = Counter(json.dumps(body, sort_keys=True) for body in server.bodies)
        assert set(bodies.values()) == {1}
        assert len(bodies) >= 3 * TURNS
