"""What one answer consists of: names, steps, queries, newest texts, omitted history, departures."""

import threading
import warnings
from typing import ClassVar

import pyterrier as pt
import pytest
from fakes import Types, scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column, object_frame
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.events import AskerLeft, asked_by
from pyterrier_ikat.generate import QueryColumn
from pyterrier_ikat.live.answering import (
    StillTooLong,
    answer,
    check_recorded,
    settings_of,
    shortened,
)
from pyterrier_ikat.llms import LLM, Backend, Reply, StageError
from pyterrier_ikat.llms.failures import Refused, TooLong
from pyterrier_ikat.study.systems import System

ASKED = [{"role": "user", "content": "Which tea?"}]


def of(pipeline, messages=ASKED, **options):
    return answer(System.of(pipeline, "mine"), messages, **options)


def writes(*texts):
    return ikat.Answer(scripted(*texts)[0])


def rewrites(*texts):
    return ikat.Rewrite(scripted(*texts)[0])


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
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


class Ranks(ikat.Operator):
    """A stage that gets passages and returns them."""

    schematic: ClassVar = {"label": "Ranks"}

    def transform(self, inp):
        return inp


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
    turn = of(sees >> writes("Mint."), **options)
    assert (sees.seen[0]["qid"], sees.seen[0]["qturn"]) == (qid, number)
    assert (turn.number, turn.utterance, turn.response) == (number, "Which tea?", "Mint.")
    assert (turn.method, turn.omitted, turn.more, 0 < turn.seconds < 60) == ("mine", 0, {}, True)
    assert [request.qid for request, _ in turn.asked] == [qid]
    assert turn.spend.calls == 1


def test_a_step_that_follows_itself_is_told_once(bm25):
    steps = []
    of(writes("a") >> writes("b") >> rewrites("c") >> writes("d"), tell=steps.append)
    assert steps == ["drafting an answer", "rewriting", "drafting an answer"]
    steps.clear()
    cut = Sees(docno="d1", score=1.0, rank=0, text="Mint.") >> pt.RankCutoff(1)
    of(cut, tell=steps.append)
    assert steps == ["running Sees"]


def test_queries_are_what_was_searched_and_not_what_was_ranked(bm25):
    ranks = bm25 >> Sees(query="sage") >> Ranks()
    assert of(writes("rooibos") >> QueryColumn("qanswer") >> ranks).queries == ("rooibos",)
    assert of(writes("rooibos")).queries == ()
    twice = ikat.RRF(
        writes("mint") >> QueryColumn("qanswer") >> bm25,
        writes("rooibos") >> QueryColumn("qanswer") >> bm25,
    )
    assert of(twice).queries == ("mint", "rooibos")
    assert of(ikat.RRF(twice, bm25)).queries == ("mint", "rooibos", "Which tea?")


def test_the_newest_texts_stay_where_nothing_is_found(bm25):
    known = Sees(qstatements=column([[("1", 1.0)]]))
    newer = Sees(qstatements=column([[("2", 1.0)]]))
    silent = writes("zzz") >> QueryColumn("qanswer") >> bm25
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the chat shows that there is no passage
        turn = of(
            rewrites("first") >> known >> rewrites("second") >> newer >> silent,
            ptkb=["I run.", "I cook."],
        )
    assert (turn.rewrite, turn.draft, turn.response) == ("second", "zzz", "")
    assert (turn.statements, turn.sources) == (("I cook.",), ())


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
    turn = of(
        ikat.Answer(LLM(Rejects(LONG, LONG))), [*HISTORY, *ASKED], history=100, tell=steps.append
    )
    limits = [step.split()[-4] for step in steps if "too long" in step]
    assert (limits, turn.more, turn.omitted) == (["5", "2"], {"history": 2}, 4)
    assert (turn.spend.calls, turn.spend.unanswered, len(turn.asked)) == (1, 2, 3)
    limited = of(ikat.Answer(LLM(Rejects(LONG))), [*HISTORY, *ASKED], history=6)
    assert limited.more == {"history": 3}


def test_one_token_of_history_is_tried_without_it():
    said = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": ""}]
    turn = of(ikat.Answer(LLM(Rejects(LONG))), [*said, *ASKED])
    assert (turn.more, turn.response) == ({"history": 0}, "Mint.")
    with pytest.raises(StillTooLong, match="the prompt is long, also without history") as raised:
        of(ikat.Answer(LLM(Rejects(LONG, LONG))), [*said, *ASKED])
    assert raised.value.__cause__ is None
    with pytest.raises(StageError):
        of(ikat.Answer(LLM(Rejects(Refused("answer", "chat_1", "No.")))))


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
        of(stage(0) >> stage(1))
    assert ran == list(range(leaves_in + 1))


def test_a_reason_names_no_turn_and_all_reasons_are_told():
    found = object_frame({"docno": ["d1"], "text": ["Mint cools."], "score": [1.0], "rank": [0]})
    finds = pt.apply.generic(lambda frame: frame.merge(found, how="cross"))
    model = LLM(Types(["I can", Reply("I'm sorry, but I can't help with that.")]))
    shown = []
    turn = of(finds >> ikat.Respond(model, on_error="fallback"), write=shown.append)
    assert (turn.response, shown) == ("Mint cools.", ["I can"])
    assert turn.more["replaced"].startswith("the model refused")
    assert "chat_1" not in turn.more["replaced"]
    same = LLM(Types(["Mint", Reply("Mint cools [1].")]))
    turn = of(finds >> ikat.Respond(same), write=shown.append)
    assert (turn.marked, turn.more) == ("Mint cools [1].", {})


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
