"""One turn of a system: the told steps, the costs, the drafts, and the history that is seen."""

from concurrent.futures import ThreadPoolExecutor

import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation
from pyterrier_ikat.generate import QueryColumn
from pyterrier_ikat.live import answering
from pyterrier_ikat.live.answering import HISTORY_TOKENS, shortened
from pyterrier_ikat.retrieve.texts import TextStore
from pyterrier_ikat.study.systems import System

PASSAGES = [
    {"docno": "d1", "text": "Rooibos has no caffeine."},
    {"docno": "d2", "text": "Coffee has caffeine."},
]


class Model:
    """Writes a text, or the word before the question mark of each prompt."""

    def __init__(self, text=None):
        self.text = text

    def generate(self, chats):
        if self.text:
            return [self.text] * len(chats)
        completions = []
        for chat in chats:
            question = chat[-1]["content"].split("?")[0]
            completions.append(question.split()[-1])
        return completions


def says(text=None):
    return ikat.Answer(ikat.llm(Model(text)))


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(PASSAGES).bm25()


def turn(text="Which tea?", before=()):
    return [*before, {"role": "user", "content": text}]


def answer(pipeline, said, tell=None, *, method="", history=HISTORY_TOKENS, **more):
    return answering.answer(System.of(pipeline, method), said, tell=tell, history=history, **more)


def test_steps_queries_draft_and_response(bm25):
    respond = ikat.Respond(ikat.llm(Model("Rooibos. [1]")), passages=1)
    steps = []
    found = answer(
        says("rooibos caffeine") >> QueryColumn("qanswer") >> bm25 % 2 >> respond,
        turn(),
        steps.append,
        method="mine",
    )
    assert steps == ["drafting an answer", "searching 1 query", "answering"]
    assert (found.draft, found.response, found.queries) == (
        "rooibos caffeine",
        "Rooibos. [1]",
        ("rooibos caffeine",),
    )
    assert [one.docno for one in found.sources] == ["d1"]
    assert list(found.citations) == ["d1", "d2"]
    assert (found.spend.calls, found.spend.known, found.method) == (2, 0, "mine")
    assert (found.spend.tokens, found.spend.cost) == (None, None)  # an object tells no tokens
    assert [request.stage for request, outcome in found.asked] == ["answer", "respond"]
    steps.clear()
    answer(pt.apply.query(lambda row: "tea") >> bm25, turn(), steps.append)
    assert steps == [
        "running ApplyQueryTransformer",
        "searching 1 query",
    ]  # a stage of another package is told by its label


def test_only_the_passages_that_a_turn_uses_are_read(bm25, monkeypatch):
    read = []
    texts = TextStore.read
    monkeypatch.setattr(
        TextStore, "read", lambda self, docnos: read.extend(docnos) or texts(self, docnos)
    )
    [source] = answer(bm25 % 1, turn("Which caffeine?")).sources
    assert source.docno == "d2"
    assert len(read) == 1


def test_written_text_is_a_draft_before_a_search_else_a_response(bm25):
    one = says("rooibos") >> QueryColumn("qanswer") >> bm25
    other = says("coffee") >> QueryColumn("qanswer") >> bm25
    responds = ikat.Union(one, other) >> ikat.Respond(ikat.llm(Model("Rooibos. [1]")))
    for system, draft, response in [
        (says("zzz") >> QueryColumn("qanswer") >> bm25, "zzz", ""),  # it found nothing
        (says("Tea."), "", "Tea."),
        (ikat.Union(one, other), "rooibos\n\ncoffee", ""),
        (responds, "rooibos\n\ncoffee", "Rooibos. [1]"),
    ]:
        found = answer(system, turn())
        assert (found.draft, found.response) == (draft, response)


def test_a_stage_of_others_is_told_before_it_runs():
    told = []
    seen = []

    def respond(turns):
        seen.append(list(told))
        return turns.assign(qanswer="Tea.")

    system = System.of(pt.apply.generic(respond), "mine")
    answering.answer(system, [{"role": "user", "content": "Which tea?"}], tell=told.append)
    assert len(told) == 1
    assert seen[-1] == told


def test_recorded_completions_are_known_and_cost_nothing():
    first = ikat.dataset("ikat:sample").get_topics().iloc[0]
    found = answer(
        ikat.Answer(ikat.llm("recorded:sample")),
        turn(first["qutterance"]),
        ptkb=first["qptkb"],
        number="1-1",
    )
    assert (found.spend.calls, found.spend.known, found.spend.cost) == (0, 1, 0)


messages = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=60)), max_size=12
)


@given(messages, st.integers(0, 120))
def test_the_newest_exchanges_stay(said, tokens):
    history = [{"role": role, "content": text} for role, text in said]
    frame = conversation(turn(before=history))
    seen, omitted = shortened(frame, tokens)
    kept = seen["qhistory"][0]
    assert history[omitted:] == kept
    assert sum(len(one["content"]) for one in kept) <= 4 * tokens
    assert not omitted or not kept or kept[0]["role"] == "user"
    starts = [place for place in range(omitted) if history[place]["role"] == "user"]
    if starts:
        more = history[starts[-1] :]  # one exchange more would be too long
        assert sum(len(one["content"]) for one in more) > 4 * tokens
    assert frame["qhistory"][0] == history


def test_threads_share_a_system(bm25):
    system = says() >> bm25
    with ThreadPoolExecutor(8) as pool:
        questions = [turn(f"Which tea{number}?") for number in range(24)]
        found = list(pool.map(lambda question: answer(system, question), questions))
    assert [one.utterance for one in found] == [f"Which tea{number}?" for number in range(24)]
    for number, one in enumerate(found):
        assert f"tea{number}" in one.asked[0][0].messages[-1]["content"]
    assert {one.spend.calls for one in found} == {1}


def test_a_system_that_ends_without_the_turns_rows_is_refused(bm25):
    queries = ikat.Queries(ikat.llm(Model('["tea", "coffee"]'))) >> ikat.ExplodeQueries() >> bm25
    for system, told in [
        (queries, "ends with sub-queries: join them"),
        (says("Tea.") >> Returns(lambda frame: None), "returned a NoneType: its last stage"),
        (
            says("Tea.") >> Returns(lambda frame: frame.assign(qid="other_1")),
            "rows of another turn",
        ),
    ]:
        with pytest.raises(ikat.DataError, match=told):
            answer(system, turn())
    assert answer(queries >> ikat.Interleave(), turn()).queries == ("tea", "coffee")


class Returns(pt.Transformer):
    def __init__(self, change):
        self.transform = change

    def transform(self, inp):
        raise NotImplementedError
