"""A model over a backend of this process: what it keeps, counts and knows without a call."""

import math
import warnings

import pytest
from chat_server import ask

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import LLM, Backend, Completion, FatalLLMError, Reply, StageError
from pyterrier_ikat.llms.batch import Job, keep_jobs
from pyterrier_ikat.llms.cache import AGAIN, CompletionCache
from pyterrier_ikat.llms.failures import (
    BadRequest,
    CutOff,
    Refused,
    Unanswered,
    Unavailable,
    UnknownMark,
)
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.llms.model import OtherModelWarning, same_model
from pyterrier_ikat.llms.request import Reading

MARKS = (("<ponder>", "</ponder>"),)
ODD = "<ponder>hm</ponder>Mint"
(REQUEST,) = ask("tea?")


class Fixed(Backend):
    """Answers with a text, or finds one."""

    def __init__(self, text="fine", found=None, **attributes):
        self.model, self.identity = "m", {"provider": "fixed", "model": "m", "params": {}}
        self.text, self.found, self.asked, self.done = text, found, [], []
        vars(self).update(attributes)

    def complete(self, requests):
        self.asked += requests
        return [Reply(self.text, "m") for _ in requests]

    def find(self, request):
        return self.found

    def open(self):
        self.done.append("opened")

    def close(self):
        self.done.append("closed")


class Counts:
    """What is counted, in order."""

    def __init__(self):
        self.entries = []

    def __call__(self, stage, model, **counts):
        self.entries.append((stage, model, counts))


def made(backend=None, cache=":memory:", **more):
    kept = None if cache is None else CompletionCache(cache)
    return LLM(backend or Fixed(), cache=kept, **more)


def settled(model, reply, seconds=1.5, **counts):
    """The outcome of a reply, and the only entry that it is counted by."""
    count = Counts()
    outcome = model.settle("k", REQUEST, reply, seconds, count, **counts)
    ((stage, name, counted),) = count.entries
    assert (stage, name) == ("answer", "m")
    return outcome, counted


PAID = {
    "served": "m-1",
    "key": "k",
    "prompt_tokens": 10,
    "cached_tokens": 4,
    "completion_tokens": 1,
    "seconds": 1.5,
    "cost": None,
}


def replied(text, **more):
    return Reply(text, "m-1", "stop", 10, 1, cached_tokens=4, **more)


@pytest.fixture(autouse=True)
def another_model_may_answer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherModelWarning)
        yield


@pytest.mark.parametrize("cache", [":memory:", None])
def test_a_good_answer_is_kept_as_written_and_returned_as_read(cache):
    model = made(cache=cache)
    outcome, counted = settled(model, replied("<think>hm</think> Mint"), calls=1, retries=2)
    read = Completion("Mint", "m-1", "stop", 10, 1, 1.5, False, cached_tokens=4)
    assert outcome == read
    assert counted == {**PAID, "answered": True, "failures": 0, "calls": 1, "retries": 2}
    if cache is not None:
        written = model.cache.put("k", read)
        assert (written.text, written.cached) == ("<think>hm</think> Mint", True)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (replied("I'm sorry, but I can't help with that."), None),
        (Reply("half", "m-1", "length", 10, 1, cached_tokens=4), CutOff),
        (replied("no", refusal="no"), Refused),
    ],
    ids=["a refusal in words", "half", "a refusal"],
)
def test_what_is_no_good_answer_is_paid_and_not_kept(reply, kind):
    model = made()
    outcome, counted = settled(model, reply, calls=1)
    failed = kind is not None
    assert counted == {**PAID, "answered": not failed, "failures": int(failed), "calls": 1}
    assert model.cache.get(["k"]) == {}
    if failed:
        assert (type(outcome), outcome.stage, outcome.qid, outcome.kept) == (
            kind,
            "answer",
            "1_1",
            False,
        )
    else:
        assert outcome.text == reply.text


@pytest.mark.parametrize(
    ("cache", "kept", "again"), [(None, False, False), (":memory:", True, False), ("", True, True)]
)
def test_an_answer_with_an_unknown_mark_waits_for_its_name(tmp_path, cache, kept, again):
    model = made(cache=str(tmp_path / "c.sqlite") if cache == "" else cache)
    outcome, counted = settled(model, replied(ODD), calls=1)
    assert (type(outcome), outcome.kept) == (UnknownMark, kept)
    assert outcome.args[2].endswith(AGAIN) == again
    assert counted["failures"] == 1
    model.backend.reasoning = MARKS
    found = model.peek(REQUEST)
    assert found is None  # another key
    if kept:
        assert model.cache.get(["k"], {"k": Reading(MARKS)})["k"].text == "Mint"
        second, _ = settled(model, replied("another"), calls=1)
        assert second.text == "Mint"
    model.close()


def test_the_answer_that_was_kept_first_is_the_answer():
    model = made()
    settled(model, replied("first"), 1.0)
    outcome, counted = settled(model, replied("second"), 2.0)
    assert (outcome.text, outcome.seconds, outcome.cached) == ("first", 1.0, False)
    assert counted["seconds"] == 2.0


def test_an_answer_that_cannot_be_kept_is_counted_all_the_same():
    model = made()
    count = Counts()

    def full(*_):
        raise OSError("no space")

    model.cache.put = full
    with pytest.raises(OSError, match="no space"):
        model.settle("k", REQUEST, replied("fine"), 1.5, count, calls=1)
    assert [counted["calls"] for _, _, counted in count.entries] == [1]


def test_a_recorded_answer_is_worth_what_it_would_cost():
    model = made(Fixed(replays=True), cache=None, budget=Budget(price_in=1e5, price_out=1e6))
    known = {"served": "m-1", "seconds": 1.5, "failures": 0, "known": 1, "worth": 2.0}
    assert settled(model, replied("fine"))[1] == known
    failed = {**known, "failures": 1, "known": 0}
    assert settled(model, replied(""))[1] == failed
    assert model.budget.spent == 0.0


@pytest.mark.parametrize(
    ("why", "more", "spent"),
    [
        (Unanswered.REFUSED, {}, 0.0),
        (Unanswered.UNSENT, {}, 0.0),
        (Unanswered.LOST, {"lost_tokens": 1, "cost": None}, 0.5),
    ],
)
def test_a_request_without_an_answer_costs_what_its_prompt_may(why, more, spent):
    model = made(budget=Budget(price_in=5e5, price_out=1e6))
    failure = BadRequest("answer", "1_1", "no", unanswered=why)
    outcome, counted = settled(model, failure, unanswered=1)
    assert outcome is failure
    assert counted == {
        "key": "k",
        "answered": False,
        "seconds": 1.5,
        "failures": 1,
        "unanswered": 1,
        **more,
    }
    assert model.budget.spent == spent
    free, _ = settled(made(), failure)
    assert free is failure


def test_impossible_counts_of_an_answer_are_unknown():
    model = made(budget=Budget(price_in=1, price_out=1, limit=5))
    count = Counts()
    wrong = Reply("fine", "m", "stop", 10, -1)
    with pytest.raises(FatalLLMError):
        model.settle("k", REQUEST, wrong, 1.5, count)
    assert count.entries[0][2]["completion_tokens"] is None
    assert model.cache.get(["k"])["k"].completion_tokens is None


def test_kept_outcomes_are_those_of_the_requests():
    model = made()
    key = REQUEST.key(model.backend.identity)
    model.settle(key, REQUEST, replied(ODD), 1.0, Counts())
    (failure,) = model.kept({key: REQUEST}).values()
    assert (type(failure), failure.stage, failure.qid) == (UnknownMark, "answer", "1_1")
    assert failure.kept
    assert model.peek(REQUEST) is None
    model.backend.reasoning = MARKS
    assert model.peek(REQUEST).text == "Mint"
    assert made(cache=None).kept({key: REQUEST}) == {}
    assert made().kept({key: REQUEST}) == {}


@pytest.mark.parametrize(
    ("reply", "marks", "text"),
    [
        (Reply("<think>hm</think> Mint", "m-1"), (), "Mint"),
        (Reply(ODD), (), None),
        (Reply(ODD), MARKS, "Mint"),
        (Reply(""), (), None),
        (None, (), None),
    ],
)
def test_a_look_reads_what_a_backend_knows(reply, marks, text):
    model = made(Fixed(found=reply, reasoning=marks), cache=None)
    found = model.peek(REQUEST)
    assert (None if found is None else found.text) == text
    if text is not None:
        assert (found.model, found.seconds) == (reply.model or "m", 0.0)
    assert model.backend.asked == []


def test_what_is_settled_is_not_asked_again(tmp_path):
    requests = ask("a", "b", "c", "d")
    assert made(cache=None).is_settled(requests) == [False] * 4
    for batches in (False, True):
        model = made(cache=str(tmp_path / f"{batches}.sqlite"), batches=batches)
        keys = [request.key(model.backend.identity) for request in requests]
        model.settle(keys[0], requests[0], replied(ODD), 1.0, Counts())
        other = Job("other", "rewrite", ["another key"], 0, 0.0, 0.0)
        keep_jobs(model.cache, [other, Job("file", "answer", [keys[1]], 0, 0.0, 0.0)])
        model.cache.put_failure(keys[2], Unavailable("", "", "no"))
        assert model.is_settled(requests) == [True, batches, batches, False]
        model.close()


def test_another_model_is_told_once_and_never_of_a_recording():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = made()
        for served in (None, "m", "M", "m-2026-01-31", "other", "other", "third", "other"):
            model.check_served(served)
        made(Fixed(replays=True)).check_served("other")
    assert [warning.category for warning in caught] == [OtherModelWarning] * 2
    for served, warning in zip(("other", "third"), caught, strict=True):
        assert str(warning.message).startswith(f"'{served}' answers instead of 'm'")


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-4o", "GPT-4o", True),
        ("GPT-4o", "gpt-4o", True),
        ("gpt-3.5-turbo", "gpt-3.5-turbo-0125", True),
        ("claude-3-5-sonnet", "claude-3-5-sonnet-20241022", True),
        ("claude-sonnet-4", "claude-sonnet-4@20250514", True),
        ("mistral-large", "mistral-large-2411", True),
        ("command-r", "command-r-08-2024", True),
        ("doubao", "doubao-250115", True),
        ("m", "m-2026-01-31", True),
        ("m", "m:2026", True),
        ("m", "m_2026", True),
        ("gpt-4", "gpt-4o-2024-08-06", False),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", False),
        ("gpt-4o-2024-08-06", "gpt-4o", False),
        ("llama-3.1-8b", "llama-3.1-70b", False),
        ("gemini-1.5-pro", "gemini-1.5-pro-002", False),
        ("gpt-4o", "gpt-4o-2024-08-06-mini", False),
        ("gpt-4", "gpt-4.1", False),
        ("qwen3", "qwen3-1.7b", False),
        ("m", "m-202", False),
        ("m", "m-mini", False),
        ("m", "m2026", False),
        ("m", "m-2026-mini", False),
        ("m", "m-1", False),
        ("m-mini", "m", False),
        ("m.1", "mx1", False),
        ("org/m", "m", False),
    ],
)
def test_only_a_dated_snapshot_is_the_same_model(asked, served, same):
    assert same_model(asked, served) is same


def test_a_fingerprint_has_what_decides_answers_and_reading():
    model = made()
    assert model.fingerprint() == model.backend.identity
    model.fingerprint()["more"] = 1
    assert "more" not in model.backend.identity
    model.backend.reasoning = MARKS
    assert model.fingerprint() == {
        **model.backend.identity,
        "reasoning": [["<ponder>", "</ponder>"]],
    }


def test_a_model_is_opened_and_closed_with_its_backend():
    model = made()
    model.open()
    model.close()
    made(model.backend, cache=None).close()
    assert model.backend.done == ["opened", "closed", "closed"]


def test_models_are_equal_by_backend_marks_and_error_policy():
    model = made()
    assert model == made()
    assert hash(model) == hash(made())
    assert model != made(on_error="fallback")
    assert model != made(Fixed(reasoning=MARKS))
    assert model != made(Fixed(identity={"provider": "other"}))
    assert model != "m"
    assert repr(model) == "ikat.llm('m')"
    assert repr(made(text="fixed:m")) == "ikat.llm('fixed:m')"
    assert (model.model_id, made(Fixed(identity={"structured": "on"})).structured) == ("m", True)


def test_where_finished_calls_are_kept():
    assert made().kept_in == "process"
    assert made(cache=None).kept_in == ""
    assert made(Fixed(replays=True), cache=None).kept_in == "file"


def test_prompts_of_another_package_become_requests():
    model = made(budget=None)
    chat = ({"role": "system", "content": "s"}, {"role": "user", "content": "b"})
    texts = model.generate(["a", chat], max_new_tokens=9, num_responses=2)
    assert [completion.text for completion in texts] == ["fine"] * 4
    asked = []
    for request in model.backend.asked:
        messages = list(request.messages)
        asked.append((messages, request.stage, request.qid, request.sample, request.params))
    first = [{"role": "user", "content": "a"}]
    assert sorted(asked, key=str) == sorted(
        [
            (first, "generate", "1", 0, {"max_tokens": 9}),
            (first, "generate", "1", 1, {"max_tokens": 9}),
            (list(chat), "generate", "2", 0, {"max_tokens": 9}),
            (list(chat), "generate", "2", 1, {"max_tokens": 9}),
        ],
        key=str,
    )
    assert model.generate([]) == []


def test_what_the_model_has_not_is_refused_before_a_call():
    model = made()
    for options in ({"return_logprobs": True}, {"stop_sequences": ["."]}):
        with pytest.raises(UsageError, match="has no stop_sequences or logprobs"):
            model.generate(["a"], **options)
    assert model.backend.asked == []
    server = made(Fixed(identity={"provider": "openai", "params": {}}))
    server.generate(["a"], stop_sequences=("." for _ in range(1)), max_new_tokens=0)
    assert server.backend.asked[0].params == {"stop": ["."]}
    with pytest.raises(UsageError):
        server.generate(["a"], return_logprobs=True)


def test_a_prompt_without_an_answer_ends_another_packages_stage():
    with pytest.raises(StageError, match="2 requests failed .2 Empty.: 1, 2 ") as raised:
        made(Fixed("")).generate(["a", "b"])
    assert (raised.value.stage, raised.value.kept_in) == ("generate", "process")


def test_lengths_are_noted_of_answers_that_are_no_recording():
    noted = []

    class Notes:
        def note(self, request, read):
            noted.append((request.qid, read))

    for replays in (False, True):
        model = made(Fixed(replays=replays), cache=None)
        model.lengths = Notes()
        settled(model, replied("fine"))
    assert noted == [("1_1", 10)]
    assert math.isclose(made().budget.spent, 0.0)


def test_only_an_unknown_mark_is_said_to_be_kept(tmp_path):
    model = made(cache=tmp_path / "c.sqlite")
    outcome, _ = settled(model, Reply("half", "m", "length"), calls=1)
    assert (type(outcome), AGAIN in outcome.reason, outcome.kept) == (CutOff, False, False)
    model.close()


def test_what_was_paid_without_a_text_has_possible_counts_alone():
    count = Counts()
    model = made(budget=Budget(price_in=1, price_out=1))
    wrong = Reply(None, "m", prompt_tokens=10, completion_tokens=-1)
    model.pay("k", REQUEST, wrong, 0.5, count, usable=False, calls=1)
    ((_, _, counted),) = count.entries
    assert (counted["prompt_tokens"], counted["completion_tokens"]) == (10, None)
    assert (counted["cost"], counted["answered"], counted["calls"]) == (None, False, 1)


def test_each_kept_answer_is_read_with_its_own_prompt():
    model = made()
    asked = ask("Write <pick>NAME</pick>.", "Which tea?", "A <tea>NAME</tea> or <pick>NAME</pick>?")
    requests = {request.key(model.backend.identity): request for request in asked}
    texts = ["<pick>Mint</pick>", "<pick>Mint</pick>", "<tea>Mint</tea>"]
    for key, text in zip(requests, texts, strict=True):
        model.settle(key, requests[key], Reply(text, "m"), 1.0, Counts())
    outcomes = model.kept(requests)
    first, second, third = [outcomes[key] for key in requests]
    assert (first.text, third.text) == ("Mint", "Mint")
    assert (type(second), second.qid, second.kept) == (UnknownMark, "1_2", True)
