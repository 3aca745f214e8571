"""What observers are told of the stages at work."""

from collections.abc import Sequence
from threading import Event

import pandas as pd
import pytest
from small_operators import Named

from pyterrier_ikat import events
from pyterrier_ikat.operator import (
    Operator,
)


class Doubled(Operator):
    """Gives every row twice, unless it is broken."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        if self.broken:
            raise ValueError("broken")
        return pd.concat([inp, inp])


class Cut(Doubled):
    """Calls the transform of its base."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        return super().transform(inp).head(3)


TURNS = pd.DataFrame({"qid": ["1", "2"], "query": ["tea", "milk"]})


class _Writes(events.Observer):
    """Notes what it is told, by its own name."""

    def __init__(self, name: str, told: list[tuple[str, ...]]) -> None:
        self.name = name
        self.told = told

    def begin(self, step: events.Step) -> None:
        self.told.append((self.name, "begin", repr(step.stage)))

    def end(self, step: events.Step) -> None:
        self.told.append((self.name, "end", "failed" if step.out is None else str(len(step.out))))


def test_observers_see_each_step_once_and_failed_ones_too() -> None:
    told: list[tuple[str, ...]] = []
    with events.observed_by(_Writes("a", told)):
        with events.observed_by(_Writes("b", told)):
            Cut()(TURNS)
        with pytest.raises(ValueError, match="broken"):
            Doubled(broken=True)(TURNS)
    Doubled()(TURNS)
    names = [repr(Cut()), repr(Doubled(broken=True))]
    assert told[:4] == [
        ("b", "begin", names[0]),
        ("a", "begin", names[0]),
        ("a", "end", "3"),
        ("b", "end", "3"),
    ]
    assert told[4:] == [("a", "begin", names[1]), ("a", "end", "failed")]


class Asks(Operator):
    """Tells of one request, around another stage that tells of its own."""

    def __init__(self, name: str, inner: Operator | None = None) -> None:
        super().__init__()
        self.name = name
        self.inner = inner

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        if self.inner is not None:
            self.inner(inp)
        events.tell("llm", [(self.name, "answer")], self.name)
        events.repaired([f"{self.name} was empty"])
        events.follower()
        return inp


class _Steps(events.Observer):
    def __init__(self, writes: events.Write | None = None) -> None:
        self.ended: list[events.Step] = []
        self.repairs: list[tuple[str, list[str]]] = []
        self.followed: list[str] = []
        self.writes = writes

    def end(self, step: events.Step) -> None:
        self.ended.append(step)

    def repair(self, step: events.Step, reasons: list[str]) -> None:
        self.repairs.append((step.stage.name, list(reasons)))

    def follow(self, step: events.Step) -> events.Write | None:
        self.followed.append(step.stage.name)
        return self.writes


def test_each_step_has_its_own_requests_and_knows_the_one_around() -> None:
    steps = _Steps()
    with events.observed_by(steps):
        Asks("outer", Asks("inner"))(TURNS)
    inner, outer = steps.ended
    assert [step.asked for step in (inner, outer)] == [
        [("inner", "answer")],
        [("outer", "answer")],
    ]
    assert (inner.outer, outer.outer) == (outer, None)
    assert steps.repairs == [("inner", ["inner was empty"]), ("outer", ["outer was empty"])]
    assert steps.followed == ["inner", "outer"]


def test_the_first_observer_that_follows_gets_the_text() -> None:
    silent = _Steps()
    first = _Steps(print)
    second = _Steps(repr)
    with events.observed_by(silent, first, second):
        Asks("a")(TURNS)
    assert [steps.followed for steps in (silent, first, second)] == [["a"], ["a"], []]
    assert [steps.repairs for steps in (silent, first, second)] == [[("a", ["a was empty"])]] * 3
    assert events.follower() is None


def test_what_is_asked_is_heard_in_every_block_around_it() -> None:
    with events.hearing() as outer:
        events.tell("llm", [("a", "answer")], 1)
        with events.hearing() as inner:
            events.tell("llm", [("b", "answer")], 2)
        events.tell("llm", [("c", "answer"), ("e", "answer")], 3)
    events.tell("llm", [("d", "answer")], 4)
    assert [heard.spend for heard in outer] == [1, 2, 3]
    assert [len(heard.exchanges) for heard in outer] == [1, 1, 2]
    assert [(heard.llm, heard.exchanges, heard.spend) for heard in inner] == [
        ("llm", [("b", "answer")], 2)
    ]


def test_who_has_left_is_asked_for_no_more() -> None:
    left = Event()
    other = Event()
    assert not events.may_leave()
    with events.asked_by(left):
        assert events.may_leave()
        events.check_asker()
        left.set()
        with pytest.raises(events.AskerLeft):
            events.check_asker()
        with events.asked_by(other):
            events.check_asker()
        assert events.has_left()
    assert not events.has_left()


def test_a_chain_has_its_number_until_its_block_ends() -> None:
    with events.in_chain(2):
        with events.in_chain(3):
            assert events.CHAIN.get() == 3
        assert events.CHAIN.get() == 2
    assert events.CHAIN.get() == 0


@pytest.mark.parametrize(
    ("block", "state"),
    [
        (lambda: events.in_chain(2), events.CHAIN.get),
        (lambda: events.asked_by(Event()), events.may_leave),
        (lambda: events.observed_by(_Steps()), events.OBSERVERS.get),
    ],
    ids=["chain", "asker", "observers"],
)
def test_a_block_that_fails_leaves_nothing_behind(block, state) -> None:
    before = state()
    with block():
        assert state() != before
    assert state() == before
    with pytest.raises(KeyError), block():
        raise KeyError
    assert state() == before


def test_a_block_that_fails_hears_nothing_afterwards() -> None:
    with pytest.raises(KeyError), events.hearing() as heard:
        raise KeyError
    events.tell("llm", [("a", "answer")], 1)
    assert heard == []


class _Shortened(events.Observer):
    def __init__(self) -> None:
        self.words: list[int | None] = []
        self.steps: list[events.Step] = []
        self.repairs: list[list[str]] = []

    def begin(self, step: events.Step) -> None:
        self.steps.append(step)

    def shorten(self, step: events.Step, words: int | None) -> None:
        self.words.append(words)

    def repair(self, step: events.Step, reasons: Sequence[str]) -> None:
        self.repairs.append(list(reasons))


class Shortens(Doubled):
    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        events.shortened(50)
        events.shortened(None)
        events.repaired(["first", "second"])
        return super().transform(inp)


def test_every_observer_is_told_of_all_that_a_stage_does() -> None:
    first = _Shortened()
    second = _Shortened()
    stage = Shortens()
    with events.observed_by(first, second):
        out = stage(TURNS)
    for observer in (first, second):
        assert observer.words == [50, None]
        assert observer.repairs == [["first", "second"]]
        [step] = observer.steps
        assert (step.stage, step.outer, step.asked) == (stage, None, [])
        assert step.inp.equals(TURNS)
        assert step.out is out


def test_a_failed_stage_is_no_longer_the_current_one() -> None:
    steps = _Shortened()
    with events.observed_by(steps):
        with pytest.raises(ValueError, match="broken"):
            Doubled(broken=True)(TURNS)
        events.shortened(7)
        Doubled()(TURNS)
    assert steps.words == []
    assert [step.outer for step in steps.steps] == [None, None]


class Steps(events.Observer):
    """Keeps the steps in the order of their ends, and what it is told of them."""

    def __init__(self):
        self.steps = []
        self.told = []

    def end(self, step):
        self.steps.append(step)

    def follow(self, step):
        self.told.append(step)

    def repair(self, step, reasons):
        self.told.append((step.stage, list(reasons)))

    def shorten(self, step, words):
        self.told.append((step.stage, words))


def test_observers_see_a_stage_only_where_there_are_some():
    class Sees(events.Observer):
        def begin(self, step):
            seen.append(step.stage)

    seen = []
    Named()(TURNS)
    with events.observed_by(Sees()):
        Named()(TURNS)
    assert seen == [Named()]


def test_another_equal_stage_inside_is_a_step_of_its_own():
    class Around(Named):
        def transform(self, inp):
            inside.append(self)
            return Around()(inp) if len(inside) == 1 else inp

    inside = []
    counts = Steps()
    with events.observed_by(counts):
        Around()(TURNS)
    inner, outer = counts.steps
    assert inner.outer is outer
    assert outer.outer is None
    assert [inner.stage is stage for stage in inside] == [False, True]


def test_a_stage_inside_its_own_inner_stage_is_one_step():
    class Outer(Named):
        def transform(self, inp):
            seen.append("outer")
            return inp if len(seen) > 1 else Inner(self)(inp)

    class Inner(Named):
        def transform(self, inp):
            return self.branches[0].transform(inp)

    seen = []
    steps = Steps()
    with events.observed_by(steps):
        Outer()(TURNS)
    assert seen == ["outer", "outer"]
    assert [type(step.stage).__name__ for step in steps.steps] == ["Inner", "Outer"]


def test_a_step_has_all_requests_and_is_told_how_long_it_answers():
    class Asks(Named):
        def transform(self, inp):
            events.tell("llm", [("a", 1)], 1)
            events.tell("llm", [("b", 2), ("c", 3)], 1)
            events.shortened(50)
            events.repaired(["why"])
            return inp

    steps = Steps()
    with events.observed_by(steps):
        Asks()(TURNS)
        events.shortened(7)
        events.repaired(["outside"])
        assert events.follower() is None
    assert steps.steps[0].asked == [("a", 1), ("b", 2), ("c", 3)]
    assert steps.told == [(Asks(), 50), (Asks(), ["why"])]
