"""Seconds per stage, with a clock that stands still but for what the stages take."""

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import events
from pyterrier_ikat.operator import Operator


class _Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Slow(Operator):
    """Takes ``seconds``, and runs ``inside`` in between."""

    def __init__(self, seconds: float, inside: "Slow | None" = None) -> None:
        super().__init__()
        self.seconds, self.inside = seconds, inside

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        if self.seconds < 0:
            raise ValueError("broken")
        CLOCK.now += self.seconds
        return inp if self.inside is None else self.inside.transform(inp)


class Slower(Slow):
    """Another stage, with a transform of its own."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        CLOCK.now += self.seconds
        return pd.concat([inp, inp])


CLOCK = _Clock()
TURNS = pd.DataFrame({"qid": ["1", "2"], "query": ["tea", "milk"]})


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "time", CLOCK)
    monkeypatch.setattr(events, "time", CLOCK)


def test_a_stage_counts_without_the_stages_inside_it() -> None:
    with ikat.profile() as stages:
        (Slow(3, inside=Slow(1)) >> Slower(4))(TURNS)
        CLOCK.now += 2
    CLOCK.now += 100
    found = stages.frame().set_index("stage")
    assert found["seconds"].to_dict() == {"Slow": 4, "Slower": 4, "other": 2}
    assert found["calls"].to_dict() == {"Slow": 2, "Slower": 1, "other": 0}
    assert found.loc["Slower", "rows"] == 4
    assert found["share"].sum() == pytest.approx(1)


def test_a_stage_that_fails_is_counted_and_fails() -> None:
    with ikat.profile() as stages, pytest.raises(ValueError, match="broken"):
        Slow(2, inside=Slow(-1))(TURNS)
    assert stages.frame().set_index("stage").loc["Slow", ["calls", "seconds"]].tolist() == [2, 2]


class _Writes(events.Observer):
    """Notes what it is told, by its own name."""

    def __init__(self, name: str, told: list[tuple[str, ...]]) -> None:
        self.name, self.told = name, told

    def begin(self, step: events.Step) -> None:
        self.told.append((self.name, "begin", repr(step.stage)))

    def end(self, step: events.Step) -> None:
        self.told.append((self.name, "end", "failed" if step.out is None else str(len(step.out))))


class Twofold(Slower):
    """Calls the transform of its base."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        return super().transform(inp).head(3)


def test_observers_see_each_step_once_and_failed_ones_too() -> None:
    told: list[tuple[str, ...]] = []
    with events.observed_by(_Writes("a", told)):
        with events.observed_by(_Writes("b", told)):
            Twofold(1)(TURNS)
        with pytest.raises(ValueError, match="broken"):
            Slow(-1)(TURNS)
    Slow(1)(TURNS)
    names = [repr(Twofold(1)), repr(Slow(-1))]
    assert told[:4] == [("b", "begin", names[0]), ("a", "begin", names[0]), ("a", "end", "3"), ("b", "end", "3")]
    assert told[4:] == [("a", "begin", names[1]), ("a", "end", "failed")]


def test_nothing_is_measured_outside() -> None:
    with ikat.profile() as stages:
        pass
    Slow(3)(TURNS)
    assert stages.frame()["stage"].tolist() == ["other"]
