"""Backends by themselves: what the base class gives, and an object with ``.generate``."""

import warnings
from types import SimpleNamespace

import pytest
from chat_server import ask

from pyterrier_ikat.llms import Backend, Reply
from pyterrier_ikat.llms.backend import (
    ERROR,
    GeneratorBackend,
    Remade,
    ShortCompletionsWarning,
    value_of,
)
from pyterrier_ikat.llms.failures import Filtered, TooLong, Unanswered, Unavailable, WrongAnswers
from pyterrier_ikat.llms.request import Reading

MARKS = (("<ponder>", "</ponder>"),)


class Fixed(Backend):
    """Answers with the turn of each request."""

    def __init__(self, **identity):
        self.model, self.identity = "fixed", identity

    def complete(self, requests):
        return [Reply(request.qid) for request in requests]


@pytest.mark.parametrize(
    ("temperature", "greedy"),
    [(0, True), (0.0, True), ("0", True), ("0.0", True), (0.5, False), (0.05, False), (1, False)],
)
def test_samples_repeat_at_a_temperature_of_0_alone(temperature, greedy):
    for identity in ({"params": {"temperature": temperature}}, {"temperature": temperature}):
        assert Fixed(**identity).repeats(2) == ("temperature=0" if greedy else "")
    assert Fixed(params={}).repeats(2) == ""


def test_a_backend_without_a_stream_answers_as_a_whole():
    seen = []
    assert Fixed().stream(ask("a")[0], seen.append) == Reply("1_1")
    assert seen == []


def test_a_completion_is_read_with_the_marks_and_the_messages():
    backend = Fixed()
    (request,) = ask("a")
    backend.reasoning = MARKS
    assert backend.reading(request) == Reading(MARKS, [{"role": "user", "content": "a"}])


def test_the_identity_decides_which_backends_are_equal():
    backend = Fixed(provider="mine", model="a")
    same = Fixed(model="a", provider="mine")
    assert backend == same
    assert hash(backend) == hash(same)
    assert backend != Fixed(provider="mine", model="b")

    class Faster(Fixed):
        """Gives the same answers."""

    assert backend == Faster(provider="mine", model="a")
    assert backend != SimpleNamespace(identity=backend.identity)


def test_what_is_of_a_process_is_made_anew_and_the_rest_kept():
    class Counter(Remade):
        of_this_process = {"made": list}

    counter = Counter()
    counter.made, counter.number = ["here"], 7
    assert counter.__getstate__() == {"number": 7}
    other = Counter()
    other.__setstate__({"number": 7})
    assert vars(other) == {"made": [], "number": 7}


class Teller:
    """Answers as it is told."""

    def __init__(self, *outputs, **attributes):
        self.outputs, self.seen = outputs, []
        vars(self).update(attributes)

    def generate(self, chats):
        self.seen.append(chats)
        return self.outputs


NAME = f"{Teller.__module__}.Teller"


@pytest.mark.parametrize(
    ("attributes", "given", "model", "identified", "declared", "size"),
    [
        ({}, None, "Teller", False, None, 32),
        ({"model_id": "m-1", "batch_size": 4}, None, "m-1", True, None, 4),
        ({"identity": {"v": 1}, "batch_size": 0}, None, "Teller", True, {"v": 1}, 32),
        ({"identity": {"v": 1}, "batch_size": "7"}, {"v": 2}, "Teller", True, {"v": 2}, 7),
        ({"identity": {"v": 1}}, {}, "Teller", True, {}, 32),
        ({"identity": print, "model_id": print, "batch_size": print}, None, "Teller", False)
        + (None, 32),
    ],
    ids=["nothing", "a name", "its own", "given", "given empty", "methods"],
)
def test_an_object_is_known_by(attributes, given, model, identified, declared, size):
    backend = GeneratorBackend(Teller(**attributes), given)
    assert (backend.model, backend.identified, backend.declared) == (model, identified, declared)
    assert backend.batch_size == size
    assert backend.identity == {
        "provider": "generator",
        "model": model,
        "class": NAME,
        "identity": declared,
        "params": {},
    }


@pytest.mark.parametrize(
    ("most", "warned"), [(127, True), (0, True), (128, False), (None, False), ("32", False)]
)
def test_a_limit_below_128_tokens_is_warned_of(most, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GeneratorBackend(Teller(max_new_tokens=most))
    assert [warning.category for warning in caught] == [ShortCompletionsWarning] * warned


def test_objects_are_equal_by_what_they_declare_or_by_themselves():
    one = Teller()
    other = Teller()
    assert GeneratorBackend(one) == GeneratorBackend(one)
    assert GeneratorBackend(one) != GeneratorBackend(other)
    assert GeneratorBackend(one, {"v": 1}) == GeneratorBackend(other, {"v": 1})
    assert GeneratorBackend(one, {"v": 1}) != GeneratorBackend(one, {"v": 2})
    assert hash(GeneratorBackend(one, {"v": 1})) == hash(GeneratorBackend(other, {"v": 1}))
    assert GeneratorBackend(one) != one


def test_a_method_is_no_value_of_an_object():
    thing = SimpleNamespace(name="m", method=print)
    assert [value_of(thing, name) for name in ("name", "method", "missing")] == ["m", None, None]


def test_chats_are_copies_or_plain_text():
    request = ask("tea?")[0]
    teller = Teller("a")
    GeneratorBackend(teller).complete([request])
    assert teller.seen == [[[{"role": "user", "content": "tea?"}]]]
    teller.seen[0][0][0]["content"] = "changed"
    assert request.messages == [{"role": "user", "content": "tea?"}]
    plain = Teller("a", supports_message_input=False)
    GeneratorBackend(plain).complete([request])
    assert plain.seen == [["user: tea?\nassistant:"]]


def test_a_reply_has_all_that_an_output_tells():
    told = SimpleNamespace(
        text="A",
        model="m-2",
        finish_reason="length",
        prompt_tokens=9,
        completion_tokens=4,
        cached_tokens=2,
    )
    whole, text, none = GeneratorBackend(Teller(told, "B", None, model_id="m-1")).complete(
        ask("a", "b", "c")
    )
    assert whole == Reply("A", "m-2", "length", 9, 4, cached_tokens=2)
    assert text == Reply("B", "m-1")
    assert none == Reply(None, "m-1")


def test_an_output_that_begins_with_error_is_a_failure():
    outputs = [f"{ERROR} reduce_length\n", f"{ERROR}response_filtered", f"{ERROR}boom"]
    too_long, filtered, lost, text = GeneratorBackend(
        Teller(*outputs, f"write {ERROR} first", model_id="m-1")
    ).complete(ask(*"abcd"))
    failures = [too_long, filtered, lost]
    assert [type(failure) for failure in failures] == [TooLong, Filtered, Unavailable]
    unanswered = [failure.unanswered for failure in failures]
    assert unanswered == [Unanswered.REFUSED, Unanswered.REFUSED, Unanswered.LOST]
    assert [str(failure) for failure in failures] == [
        f"answer of turn 1_1: m-1 answered {ERROR} reduce_length",
        f"answer of turn 1_2: m-1 answered {ERROR}response_filtered",
        f"answer of turn 1_3: m-1 answered {ERROR}boom",
    ]
    assert text.text == f"write {ERROR} first"


def test_an_exception_fails_each_request_at_unknown_cost():
    def innermost():
        raise RuntimeError("no memory")

    def generate(chats):
        return innermost()

    failures = GeneratorBackend(SimpleNamespace(generate=generate, model_id="m-1")).complete(
        ask("a", "b")
    )
    line = innermost.__code__.co_firstlineno + 1
    reason = f"m-1 raised RuntimeError: no memory ({__file__}, line {line})"
    assert [(type(failure), failure.stage, failure.qid) for failure in failures] == [
        (Unavailable, "answer", "1_1"),
        (Unavailable, "answer", "1_2"),
    ]
    assert {failure.args[2] for failure in failures} == {reason}
    assert {failure.unanswered for failure in failures} == {Unanswered.LOST}


@pytest.mark.parametrize("number", [0, 1, 3])
def test_an_object_answers_each_chat_once(number):
    backend = GeneratorBackend(Teller(*["text"] * number))
    with pytest.raises(WrongAnswers, match=f"not this tuple of {number} for 2 chats") as raised:
        backend.complete(ask("a", "b"))
    assert raised.value.paid == []


def test_what_is_no_text_was_still_paid():
    good = SimpleNamespace(text="A", prompt_tokens=9, completion_tokens=4)
    wrong = SimpleNamespace(text=5, prompt_tokens=8, completion_tokens=1)
    with pytest.raises(WrongAnswers, match="not int") as raised:
        GeneratorBackend(Teller(good, wrong, model_id="m-1")).complete(ask("a", "b"))
    assert raised.value.paid == [
        Reply(None, "m-1", prompt_tokens=9, completion_tokens=4),
        Reply(None, "m-1", prompt_tokens=8, completion_tokens=1),
    ]
