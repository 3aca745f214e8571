"""DiSCo by hand: the query of all messages, newest first."""

import pandas as pd
from methods.answered import Search

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS

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
