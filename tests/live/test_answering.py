"""One turn of a system: the steps that are told, the costs, what was written on the way, and the history that is seen."""

from concurrent.futures import ThreadPoolExecutor

import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation
from pyterrier_ikat.live import answering
from pyterrier_ikat.live.answering import HISTORY, shortened
from pyterrier_ikat.study.systems import System

PASSAGES = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]


class Model:
    """Writes the last words of each prompt's last line in capitals."""

    def __init__(self, text="rooibos caffeine"):
        self.text = text

    def generate(self, chats):
        return [self.text for _ in chats]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(PASSAGES).bm25()


def turn(text="Which tea?", before=()):
    return [*before, {"role": "user", "content": text}]


def answer(pipeline, said, tell=None, *, method="", history=HISTORY, **more):
    return answering.answer(System.of(pipeline, method), said, tell=tell, history=history, **more)


def test_steps_queries_draft_and_response(bm25):
    llm = ikat.llm(Model())
    system = (
        ikat.Answer(llm) >> ikat.generate.QueryColumn("qanswer") >> bm25 % 2 >> ikat.Respond(ikat.llm(Model("Rooibos. [1]")), passages=1)
    )
    steps = []
    found = answer(system, turn(), steps.append, method="mine")
    assert steps == ["drafting an answer", "searching 1 query", "answering"]
    assert (found.draft, found.response, found.queries) == ("rooibos caffeine", "Rooibos. [1]", ("rooibos caffeine",))
    assert [one.docno for one in found.sources] == ["d1"]
    assert list(found.citations) == ["d1", "d2"]
    assert (found.spend.calls, found.spend.known, found.method) == (2, 0, "mine")
    assert [request.stage for request, outcome in found.asked] == ["answer", "respond"]


def test_what_was_paid_for_is_shown_even_if_nothing_was_found(bm25):
    found = answer(ikat.Answer(ikat.llm(Model("zzz"))) >> ikat.generate.QueryColumn("qanswer") >> bm25, turn())
    assert (found.draft, found.response, found.sources) == ("zzz", "", ())


def test_a_system_without_passages_has_no_draft():
    found = answer(ikat.Answer(ikat.llm(Model("Tea."))), turn())
    assert (found.draft, found.response) == ("", "Tea.")


def test_a_stage_of_another_package_is_told_by_its_label(bm25):
    steps = []
    answer(pt.apply.query(lambda row: "tea") >> bm25, turn(), steps.append)
    assert steps == ["running ApplyQueryTransformer", "searching 1 query"]


def test_cost_and_cached_calls():
    found = answer(ikat.Answer(ikat.llm(Model("Tea."))), turn())
    assert (found.spend.calls, found.spend.tokens, found.spend.cost) == (1, None, None)  # an object tells no tokens
    llm = ikat.llm("recorded:sample")
    first = ikat.dataset("ikat:sample").get_topics().iloc[0]
    replayed = answer(ikat.Answer(llm), turn(first["qutterance"]), ptkb=first["qptkb"], number="1-1")
    assert (replayed.spend.calls, replayed.spend.known, replayed.spend.cost) == (0, 1, 0)


messages = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=60)), max_size=12)


@given(messages, st.integers(0, 120))
def test_the_newest_exchanges_stay(said, tokens):
    history = [{"role": role, "content": text} for role, text in said]
    frame = conversation(turn(before=history))
    seen, omitted = shortened(frame, tokens)
    kept = seen["qhistory"][0]
    assert history[omitted:] == kept
    assert sum(len(one["content"]) for one in kept) <= 4 * tokens
    assert not omitted or not kept or kept[0]["role"] == "user"
    if omitted and (starts := [place for place in range(omitted) if history[place]["role"] == "user"]):
        more = history[starts[-1] :]  # one exchange more would be too long
        assert sum(len(one["content"]) for one in more) > 4 * tokens
    assert frame["qhistory"][0] == history


def test_threads_share_a_system(bm25):
    class Named:
        def generate(self, chats):
            return [chat[-1]["content"].split("?")[0].split()[-1] for chat in chats]

    system = ikat.Answer(ikat.llm(Named())) >> bm25
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: answer(system, turn(f"Which {name}?")), [f"tea{number}" for number in range(40)]))
    assert [one.utterance for one in found] == [f"Which tea{number}?" for number in range(40)]
    assert all(f"tea{number}" in one.asked[0][0].messages[-1]["content"] for number, one in enumerate(found))
    assert {one.spend.calls for one in found} == {1}


def test_a_system_that_ends_with_sub_queries_is_refused(bm25):
    llm = ikat.llm(Model('["tea", "coffee"]'))
    with pytest.raises(ikat.errors.DataError, match="ends with sub-queries: join them"):
        answer(ikat.Queries(llm) >> ikat.ExplodeQueries() >> bm25, turn())
    assert answer(ikat.Queries(llm) >> ikat.ExplodeQueries() >> bm25 >> ikat.Interleave(), turn()).queries == ("tea", "coffee")


def test_the_drafts_of_all_branches_are_shown(bm25):
    first, second = (ikat.Answer(ikat.llm(Model(text))) >> ikat.generate.QueryColumn("qanswer") >> bm25 for text in ("rooibos", "coffee"))
    found = answer(ikat.Union(first, second) >> ikat.Respond(ikat.llm(Model("Rooibos. [1]"))), turn())
    assert (found.draft, found.response) == ("rooibos\n\ncoffee", "Rooibos. [1]")
    assert answer(ikat.Union(first, second), turn()).draft == "rooibos\n\ncoffee"
