"""DiSCo: the conversation that its query encoder reads, as the description of the authors' models builds it."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, find, published

CONVERSATION = [
    ("what's the weather like today?", "it's sunny."),
    ("should I wear sunscreen?", "yes, UV index is high."),
    ("do I need sunglasses?", ""),
    ("how much do they cost?", None),
]


def asked():
    messages = []
    for question, answer in CONVERSATION:
        messages.append({"role": "user", "content": question})
        if answer is not None:
            messages.append({"role": "assistant", "content": answer})
    return ikat.conversation(messages)


class Remembers(pt.Transformer):
    """A retriever that remembers its queries."""

    def transform(self, inp):
        self.queries = inp["query"].tolist()
        return inp.assign(docno="d", score=1.0, rank=0)


def test_the_retriever_reads_the_conversation_newest_first_without_blank_messages():
    retriever = Remembers()
    found = ikat.methods.disco(retriever)(asked())
    expected = "how much do they cost? [SEP] do I need sunglasses? [SEP] yes, UV index is high. [SEP] should I wear sunscreen?"
    assert retriever.queries == [f"{expected} [SEP] it's sunny. [SEP] what's the weather like today?"]
    assert found["qutterance"].tolist() == ["how much do they cost?"]


def test_a_first_turn_is_its_utterance_alone_and_a_frame_without_conversation_its_query():
    retriever = Remembers()
    ikat.methods.disco(retriever, separator=" | ")(ikat.conversation([{"role": "user", "content": "Tea?"}]))
    assert retriever.queries == ["Tea?"]
    ikat.methods.disco(retriever)(pd.DataFrame({"qid": ["1"], "query": ["tea"]}))
    assert retriever.queries == ["tea"]


def test_the_expression_asks_no_llm_and_tells_the_query_model_of_the_paper():
    entry = find("disco")
    joined = "ikat.AllUtterances(responses=True, newest_first=True, separator=' [SEP] ')"
    assert entry.expression == f"{joined} >> retriever % 1000 >> reranker"
    assert (entry.needs, entry.takes, entry.manual) == (["retriever"], ["reranker"], False)
    assert METHODS["disco"].deviations({"retriever": "SPLADE"}) == [
        "retriever: the paper has query_model=slupart/splade-disco-human-mistral, this run the default"
    ]
    assert entry.deviations({"retriever": "SPLADE query_model=slupart/splade-disco-human-mistral"}) == []


@pytest.mark.parametrize(("measure", "score"), [("Recall@100", 0.147), ("MRR", 0.192), ("nDCG@3", 0.125)])
def test_the_scores_are_those_of_the_models_description(measure, score):
    assert published("disco_card").loc["disco", measure] == score
