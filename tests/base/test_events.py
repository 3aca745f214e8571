"""What observers are told of the stages at work."""

import pandas as pd
import pytest

from pyterrier_ikat import events
from pyterrier_ikat.operator import Operator


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
        self.name, self.told = name, told

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
