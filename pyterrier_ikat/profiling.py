"""Seconds per stage of all pipelines that run inside a ``with`` block."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pandas as pd

from .events import Observer, Step, observed_by
from .tables import Table, of_frame


@dataclass
class _Stage:
    calls: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass
class Profile(Observer):
    """Seconds per stage; :func:`profile` makes it."""

    started: float = field(default_factory=lambda: time.perf_counter())
    total: float | None = None
    stages: dict[str, _Stage] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """One row per stage, the slowest first.

        Returns:
            ``stage``, ``calls``, ``rows`` (given back in all), ``seconds`` (without those of the stages inside it) and
            ``share`` of the whole time; the last row, ``other``, is what no stage of ours took.
        """
        whole = time.perf_counter() - self.started if self.total is None else self.total
        rows = [(name, stage.calls, stage.rows, stage.seconds) for name, stage in self.stages.items()]
        rows.sort(key=lambda row: -row[3])
        rows.append(("other", 0, 0, whole - sum(row[3] for row in rows)))
        found = pd.DataFrame(rows, columns=["stage", "calls", "rows", "seconds"])
        return found.assign(share=found["seconds"] / whole)

    def shown(self) -> Table:
        """The same as a table to print."""
        spent = self.frame()
        return of_frame(spent.assign(share=[f"{share:.1%}" for share in spent["share"]]), decimals=2)

    def end(self, step: Step) -> None:
        """Add the step's time to the stage's kind, without the time of the steps inside it."""
        stage = self.stages.setdefault(type(step.stage).__name__, _Stage())
        stage.rows += 0 if step.out is None else len(step.out)
        stage.calls += 1
        stage.seconds += step.seconds - step.inside


@contextmanager
def profile() -> Iterator[Profile]:
    """Measure the stages of all pipelines that run inside the ``with`` block.

    Stages of other packages count to ``other``, or to our stage that they stand in, such as the scorer of ``RerankAgainst``.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> with ikat.profile() as stages:
        ...     _ = ikat.RawUtterance()(pd.DataFrame({"qid": ["t"], "query": ["tea"]}))
        >>> stages.frame()[["stage", "calls", "rows"]].values.tolist()
        [['RawUtterance', 1, 1], ['other', 0, 0]]
    """
    found = Profile()
    try:
        with observed_by(found):
            yield found
    finally:
        found.total = time.perf_counter() - found.started
