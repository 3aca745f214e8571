"""One turn of a system: told steps, queries, newest texts, the history that is seen, and costs."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st
from one_question import ASKED, answer_of, turn

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import conversation
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.events import AskerLeft, asked_by
from pyterrier_ikat.generate import QueryColumn
from pyterrier_ikat.live import answering
from pyterrier_ikat.live.answering import (
    HISTORY_TOKENS,
    StillTooLong,
    _halved,
    _Watch,
    check_recorded,
    settings_of,
    shortened,
)
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError
from pyterrier_ikat.llms.failures import Refused, TooLong, Unavailable
from pyterrier_ikat.retrieve.texts import TextStore
from pyterrier_ikat.study.systems import System


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


PASSAGES = [
    {"docno": "d1", "text": "Rooibos has no caffeine."},
    {"docno": "d2", "text": "Coffee has caffeine."},
]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(PASSAGES).bm25()


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


def writes(*texts):
    return ikat.Answer(scripted(*texts)[0])


def rewrites(*texts):
    return ikat.Rewrite(scripted(*texts)[0])


@pytest.fixture(scope="module")
def teas(tmp_path_factory):
    passages = [
        {"docno": "d1", "text": "Rooibos is a red tea."},
        {"docno": "d2", "text": "Mint cools."},
    ]
    return ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(passages).bm25()


class Sees(pt.Transformer):
    """Keeps the turns, and adds the columns of a passage and others."""

    def __init__(self, **columns):
        self.seen = []
        self.columns = columns

    def transform(self, inp):
        self.seen += inp.to_dict("records")
        return inp.assign(**self.columns)


def test_a_step_that_follows_itself_is_told_once(teas):
    steps = []
    answer_of(writes("a") >> writes("b") >> rewrites("c") >> writes("d"), tell=steps.append)
    assert steps == ["drafting an answer", "rewriting", "drafting an answer"]
    steps.clear()
    cut = Sees(docno="d1", score=1.0, rank=0, text="Mint.") >> pt.RankCutoff(1)
    answer_of(cut, tell=steps.append)
    assert steps == ["running Sees"]


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


def test_a_retry_is_told_with_its_number():
    told = []
    watch = _Watch(told.append, None)
    watch.wait(1, 4)
    watch.wait(1, 4)
    watch.wait(2, 4)
    assert told == [
        "waiting for try 2 of 4: the language model does not answer",
        "waiting for try 3 of 4: the language model does not answer",
    ]
    _Watch(None, None).wait(1, 4)


class Ranks(ikat.Operator):
    """A stage that gets passages and returns them."""

    schematic: ClassVar = {"label": "Ranks"}

    def transform(self, inp):
        return inp


def test_queries_are_what_was_searched_and_not_what_was_ranked(teas):
    ranks = teas >> Sees(query="sage") >> Ranks()
    assert answer_of(writes("rooibos") >> QueryColumn("qanswer") >> ranks).queries == ("rooibos",)
    assert answer_of(writes("rooibos")).queries == ()
    twice = ikat.RRF(
        writes("mint") >> QueryColumn("qanswer") >> teas,
        writes("rooibos") >> QueryColumn("qanswer") >> teas,
    )
    assert answer_of(twice).queries == ("mint", "rooibos")
    assert answer_of(ikat.RRF(twice, teas)).queries == ("mint", "rooibos", "Which tea?")


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


def test_the_newest_texts_stay_where_nothing_is_found(teas):
    known = Sees(qstatements=column([[("1", 1.0)]]))
    newer = Sees(qstatements=column([[("2", 1.0)]]))
    silent = writes("zzz") >> QueryColumn("qanswer") >> teas
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the chat shows that there is no passage
        turn = answer_of(
            rewrites("first") >> known >> rewrites("second") >> newer >> silent,
            ptkb=["I run.", "I cook."],
        )
    assert (turn.rewrite, turn.draft, turn.response) == ("second", "zzz", "")
    assert (turn.statements, turn.sources) == (("I cook.",), ())


def watched(*steps):
    """The record of a watch that saw these frames go in and out."""
    watch = _Watch(None, None)
    for inp, out in steps:
        watch.end(SimpleNamespace(stage=None, inp=inp, out=out, outer=None))
    return watch.record()


def test_the_first_row_has_the_newest_texts():
    turn = pd.DataFrame({"qid": ["q"], "qutterance": ["Tea?"]})
    rows = pd.DataFrame({"qid": ["q"] * 2, "qanswer": ["one", "two"], "qrewrite": ["a", "b"]})
    single = pd.DataFrame({"qid": ["q"], "qanswer": ["three"]})
    record = watched((turn, rows), (turn, None), (turn, single), (turn, rows))
    assert record == {"queries": (), "draft": "one\n\nthree", "rewrite": "a", "statements": ()}
    respond = rows.assign(used=[True, False])
    assert watched((turn, respond))["draft"] == ""


@pytest.mark.parametrize(
    ("options", "qid", "number"),
    [
        ({}, "chat_1", 1),
        ({"number": "7-1"}, "7-1_1", 1),
        ({"number": "7-1", "turn": 1}, "7-1_1", 1),
        ({"number": "7-1", "turn": 5}, "7-1_5", 5),
    ],
)
def test_a_turn_has_the_number_that_it_is_given(options, qid, number):
    sees = Sees()
    turn = answer_of(sees >> writes("Mint."), **options)
    assert (sees.seen[0]["qid"], sees.seen[0]["qturn"]) == (qid, number)
    assert (turn.number, turn.utterance, turn.response) == (number, "Which tea?", "Mint.")
    assert (turn.method, turn.omitted, turn.more, 0 < turn.seconds < 60) == ("mine", 0, {}, True)
    assert [request.qid for request, _ in turn.asked] == [qid]
    assert turn.spend.calls == 1


class Returns(pt.Transformer):
    def __init__(self, change):
        self.transform = change

    def transform(self, inp):
        raise NotImplementedError


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


def test_threads_share_a_system(bm25):
    system = says() >> bm25
    with ThreadPoolExecutor(8) as pool:
        questions = [turn(f"Which tea{number}?") for number in range(24)]
        found = list(pool.map(lambda question: answer(system, question), questions))
    assert [one.utterance for one in found] == [f"Which tea{number}?" for number in range(24)]
    for number, one in enumerate(found):
        assert f"tea{number}" in one.asked[0][0].messages[-1]["content"]
    assert {one.spend.calls for one in found} == {1}


@pytest.mark.parametrize("leaves_in", [0, 1])
def test_nobody_is_answered_after_leaving(leaves_in):
    left = threading.Event()
    ran = []

    def stage(position):
        def run(frame):
            if len(frame):
                ran.append(position)
                if position == leaves_in:
                    left.set()
            return frame

        return pt.apply.generic(run)

    with pytest.raises(AskerLeft), asked_by(left):
        answer_of(stage(0) >> stage(1))
    assert ran == list(range(leaves_in + 1))


def test_recorded_completions_are_known_and_cost_nothing():
    first = ikat.dataset("ikat:sample").get_topics().iloc[0]
    found = answer(
        ikat.Answer(ikat.llm("recorded:sample")),
        turn(first["qutterance"]),
        ptkb=first["qptkb"],
        number="1-1",
    )
    assert (found.spend.calls, found.spend.known, found.spend.cost) == (0, 1, 0)


@pytest.mark.parametrize(
    ("turn", "said", "told"),
    [
        (1, "Which  tea? ", None),
        (2, "Or hot?", None),
        (1, "which tea?", "of turn q answer only 'Which tea?'"),
        (1, "Which", "of turn q answer only 'Which tea?'"),
        (2, "Which tea?", "of turn q answer only 'Or hot?'"),
        (3, "Or hot?", "turn q: the recorded conversation has only 2 turns"),
    ],
)
def test_recorded_words_are_compared_turn_by_turn(turn, said, told):
    script = ["Which tea?", "Or hot?"]
    if told is None:
        check_recorded(script, turn, said, "q")
        return
    with pytest.raises(UsageError) as raised:
        check_recorded(script, turn, said, "q")
    assert told in str(raised.value)


def test_settings_are_all_but_what_may_change():
    system = System.of(writes(), "mine")
    settings = system.parameters()
    del settings["on_error"]
    assert settings_of(system) == settings
    assert {"on_error"} == system.parameters().keys() - settings_of(system).keys()


# History


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


HISTORY = [
    {"role": "assistant", "content": "a" * 8},
    {"role": "user", "content": "b" * 12},
    {"role": "assistant", "content": "c" * 4},
    {"role": "user", "content": "d" * 16},
]


@pytest.mark.parametrize(
    ("tokens", "omitted"),
    [(None, 0), (11, 0), (10, 0), (9, 1), (8, 1), (7, 3), (4, 3), (3, 4), (0, 4)],
)
def test_history_is_omitted_by_whole_exchanges(tokens, omitted):
    turn = ikat.conversation([*HISTORY, *ASKED])
    seen, number = shortened(turn, tokens)
    assert (seen["qhistory"][0], number) == (HISTORY[omitted:], omitted)


class Rejects(Backend):
    """Fails with each of these, and then answers."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.model = "rejects"
        self.replays = False
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}

    def complete(self, requests):
        replies = []
        for _ in requests:
            if self.failures:
                replies.append(self.failures.pop(0))
            else:
                replies.append(Reply("Mint."))
        return replies


LONG = TooLong("answer", "chat_3", "the prompt is long")


def test_each_attempt_has_half_of_the_tokens_that_were_sent():
    steps = []
    turn = answer_of(
        ikat.Answer(LLM(Rejects(LONG, LONG))), [*HISTORY, *ASKED], history=100, tell=steps.append
    )
    limits = [step.split()[-4] for step in steps if "too long" in step]
    assert (limits, turn.more, turn.omitted) == (["5", "2"], {"history": 2}, 4)
    assert (turn.spend.calls, turn.spend.unanswered, len(turn.asked)) == (1, 2, 3)
    limited = answer_of(ikat.Answer(LLM(Rejects(LONG))), [*HISTORY, *ASKED], history=6)
    assert limited.more == {"history": 3}


def test_one_token_of_history_is_tried_without_it():
    said = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": ""}]
    turn = answer_of(ikat.Answer(LLM(Rejects(LONG))), [*said, *ASKED])
    assert (turn.more, turn.response) == ({"history": 0}, "Mint.")
    with pytest.raises(StillTooLong, match="the prompt is long, also without history") as raised:
        answer_of(ikat.Answer(LLM(Rejects(LONG, LONG))), [*said, *ASKED])
    assert raised.value.__cause__ is None
    with pytest.raises(StageError):
        answer_of(ikat.Answer(LLM(Rejects(Refused("answer", "chat_1", "No.")))))


SECOND_LONG = TooLong("answer", "chat_1", "the second prompt is long")


@pytest.mark.parametrize("others", [[], [Refused("answer", "chat_1", "No.")]])
def test_one_prompt_too_long_among_failures_is_retried(others):
    said = [{"role": "user", "content": "a" * 40}, {"role": "assistant", "content": "b" * 40}]
    frame = ikat.conversation([*said, *ASKED])
    failures = StageError("answer", [*others, SECOND_LONG])
    halves = {None: 10, 100: 10, 20: 10, 9: 4, 1: 0}
    assert {limit: _halved(failures, frame, limit) for limit in halves} == halves
    with pytest.raises(StillTooLong, match="the second prompt is long, also without history"):
        _halved(failures, frame, 0)
    down = StageError("answer", [Unavailable("answer", "chat_1", "it is down")])
    with pytest.raises(StageError):
        _halved(down, frame, 0)
