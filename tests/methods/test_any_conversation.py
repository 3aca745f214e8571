"""Methods run on turns of any collection: any qids, no turn numbers, persona or history."""

import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import Backend, BackendReply
from hypothesis import example, given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.llms import LLM
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.methods.definition import RESOURCES, StandIn
from pyterrier_ikat.operator import Operator, every_stage

CHAT = [
    {"role": "user", "content": "Which tea has no caffeine?"},
    {"role": "assistant", "content": "Rooibos tea. " * 20},
    {"role": "user", "content": "And mint tea?"},
    {"role": "assistant", "content": "Mint has none, and it grows in pots. " * 20},
]
UNANSWERED = [
    {"role": "user", "content": "Which tea?"},
    {"role": "user", "content": "And mint tea?"},
]
QUERIES = ["Does the tea grow here?", "green tea in the morning", "Is coffee tea?"]
OF_IKAT = ["1-1_3", "2-1_1", "3-1_3"]
OTHERS = [
    "dd6b6ffd<::>2",
    "q1",
    "101_3_extra",
    "7",
    "12",
    "132_1-1",
    "7::0",
    "7::0::1",
    "7::0::1::0",
]
"""Three names each, in one frame, for the turns of `OF_IKAT`."""
SEVERAL_RERANKERS = ("wghtdrerank_2", "short_long_2", "short_long_3")
FORMATS = {
    "rewrite_and_answer": "Rewrite: rooibos tea\nResponse: Mint tea.",
    "reformulate_queries": "Response: Mint tea.\nQueries: rooibos tea",
    "reformulate_select": "Statements: [2]\nRewrite: rooibos tea\nResponse: Mint tea.",
    "reformulate_rewrite": "Rewrite: rooibos tea\nResponse: Mint tea.",
    "rewrite_by_level": "Level: b\nRewrite: rooibos tea\nResponse: Mint tea.",
    "topic_switch": "same",
    "statements_ids": "[2]",
    "statements_scores": '{"2": 0.5}',
    "rerank": "2",
    "queries": "1. rooibos tea\n2. mint tea",
    "decide": '{"reason": "It is there.", "action": "answer", "question": ""}',
}
"""Beginning of a prompt's name -> an answer, for prompts that ask for more than a text."""
FIND_STATEMENTS = [name for name in METHODS if name.startswith("memory_")]
"""They rank what is known about the user: where nothing is known they find nothing."""


def parts_of(name):
    """The operators and the prompts of a method."""
    resources = {resource: StandIn(resource) for resource in RESOURCES}
    found = set()
    for stage in every_stage(METHODS[name].build(**resources)):
        found.add(type(stage))
        if isinstance(stage, ikat.LLMOperator):
            found.update(stage.prompt_checksums())
    return found


def covering():
    """As few methods as have every operator and prompt of all that find passages."""
    parts = {name: parts_of(name) for name in METHODS if name not in FIND_STATEMENTS}
    left = set().union(*parts.values())
    while left:
        name = max(parts, key=lambda name: len(parts[name] & left))
        left -= parts[name]
        yield name


EMPTY_HEADING = re.compile(r"^#+ [^\n]*\n\n+#+ ", re.MULTILINE)


class Anything(Backend):
    """An LLM that answers every prompt, always in the same way."""

    def __init__(self, model="anything"):
        self.asked = []
        self.model = model
        self.replays = True
        self.identity = {"provider": "fake", "model": model, "params": {}}
        self.llm = LLM(self)

    def complete(self, requests):
        self.asked += requests
        return [BackendReply(self.answer(request), self.model) for request in requests]

    def answer(self, request):
        shown = str(request.messages[-1]["content"])
        last = " ".join(re.findall(r"[a-z]+", shown[-200:])[-4:])
        return next(
            (text for start, text in FORMATS.items() if request.prompt.startswith(start)),
            f"Rooibos tea {last}",
        )


class Overlap(Operator):
    """Scores a passage by the words that it shares with the query."""

    schematic = {"label": "Overlap"}

    def transform(self, inp):
        scores = []
        for query, text in zip(inp["query"], inp["text"], strict=True):
            shared = set(query.lower().split()) & set(text.lower().split())
            scores.append(len(shared) + len(text) / 1000)
        return pt.model.add_ranks(inp.assign(score=scores))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    texts = [
        "Rooibos tea has no caffeine.",
        "Mint tea grows in pots.",
        "Green tea has caffeine.",
        "Tea in the morning helps.",
    ]
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(
        {"docno": f"d{n}", "text": text} for n, text in enumerate(texts)
    )


def built(name, index):
    """The method on fakes, and the two backends that it asks."""
    entry = METHODS[name]
    first = Anything()
    second = Anything("another")
    resources = {
        "llm": first.llm,
        "second_llm": second.llm,
        "rewriter": pt.apply.query(lambda row: f"{row['query']} mint"),
        "expander": pt.apply.query(lambda row: "tea"),
    }
    resources["reranker"] = [Overlap(), Overlap()] if name in SEVERAL_RERANKERS else Overlap()
    bm25 = index.bm25(num_results=entry.depth)
    return entry.build(retriever=bm25, dense=bm25, **resources), first, second


def turns(qids, **columns):
    return pd.DataFrame(
        {"qid": qids, "query": QUERIES, "qhistory": column([CHAT, [], UNANSWERED])}
    ).assign(**columns)


def of_each_turn(results, qids, columns):
    """These columns of the results of each turn, as lists, in the order of the turns."""
    found = []
    for qid in qids:
        of_turn = results[results["qid"] == qid]
        found.append(of_turn[columns].values.tolist())
    return found


def ran(name, frame, index):
    """The passages and scores of each turn, in the order of turns; what the models were asked."""
    system, first, second = built(name, index)
    if METHODS[name].manual:
        frame = frame.assign(
            qresolved=frame["query"] + " rooibos", qgoldptkb=column([[]] * len(frame))
        )
    results = system(frame)
    assert set(results["qid"]) == set(frame["qid"])
    assert results["score"].notna().all()
    found = of_each_turn(results, frame["qid"], ["docno", "score"])
    asked = sorted(str(request.messages) for request in first.asked + second.asked)
    prompts = []
    for request in first.asked + second.asked:
        prompts += [str(message["content"]) for message in request.messages]
    return found, asked, prompts


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("name", list(covering()))
def test_names_and_missing_columns_or_persona_change_nothing(name, index):
    full = {
        "qutterance": QUERIES,
        "qptkb": column([{}] * 3),
        "qconversation": ["1-1", "2-1", "3-1"],
        "qturn": [3, 1, 3],
    }
    expected, asked, prompts = ran(name, turns(OF_IKAT, **full), index)
    three_times = [turns(OTHERS[:3]), turns(OTHERS[3:6]), turns(OTHERS[6:])]
    others = pd.concat(three_times, ignore_index=True)
    found, asked_of_others, _ = ran(name, others, index)
    assert found == expected * 3
    assert set(asked_of_others) == set(asked)
    without_value = {"qptkb": column([None, float("nan"), []]), "qturn": column([None] * 3)}
    assert ran(name, turns(OTHERS[:3], **without_value), index)[:2] == (expected, asked)
    for prompt in prompts:
        assert not EMPTY_HEADING.search(prompt)
        assert not re.search(r"\bnan\b|\{\}|: None", prompt)
        assert not re.search("what is known about|suited to this user|as it suits", prompt)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.frame.NoResultWarning")
@pytest.mark.parametrize("name", FIND_STATEMENTS)
def test_turn_names_keep_what_is_found_and_none_known_finds_none(name, index):
    known = {"1": "Mint tea grows here.", "2": "I drink coffee.", "3": "Morning walks."}
    facts = {"1%p0": known["1"], "2%p0": known["2"], "3%p0": known["3"]}

    def found(qids):
        frame = turns(qids, qptkb=column([known, {}, known]), qfacts=column([facts, {}, {}]))
        results = built(name, index)[0](frame)
        return of_each_turn(results, qids, ["docno", "score"])

    expected = found(OF_IKAT)
    assert {docno for docno, _ in expected[0]} == known.keys()
    assert expected[1] == []
    assert found(OTHERS[:3]) == found(OTHERS[3:6]) == expected


NAMES = st.text(
    st.characters(blacklist_categories=("Zs", "Zl", "Zp", "Cc", "Cs")), min_size=1, max_size=12
)


def passages_of(frame):
    """Three passages for each row, which and how good by the words of its query."""
    steps = pd.DataFrame({"rank": range(3)})
    steps["score"] = 3.0 - steps["rank"]
    steps["text"] = "tea number " + steps["rank"].astype(str)
    rows = frame.merge(steps, how="cross")
    number = (rows["query"].str.len() + rows["rank"]) % 5
    return rows.assign(docno="d" + number.astype(str))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize(
    "fused",
    [
        ikat.Interleave(),
        ikat.RRF(),
        ikat.WeightedSum(),
        ikat.Union() >> Overlap(),
        ikat.MeanScore([Overlap(), Overlap()]),
        ikat.Ensemble([Overlap(), Overlap()]) >> ikat.Interleave(),
        ikat.LLMRerank(Anything().llm) >> ikat.Interleave(),
    ],
    ids=repr,
)
@given(
    names=st.lists(NAMES, min_size=3, max_size=3, unique=True),
    lengths=st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
@example(names=OTHERS[6:], lengths=[2, 0, 3])
def test_sub_queries_come_back_to_their_turn_whatever_its_name(fused, names, lengths):
    three_queries = ["tea ", "tea x", "tea xx"]
    queries = [three_queries[:length] for length in lengths]
    system = ikat.ExplodeQueries() >> pt.apply.generic(passages_of) >> fused

    def found(qids):
        results = system(turns(qids).assign(qsubqueries=column(queries)))
        return of_each_turn(results, qids, ["docno", "score", "rank"])

    expected = found(OF_IKAT)
    assert found(names) == expected
    assert all(expected)
