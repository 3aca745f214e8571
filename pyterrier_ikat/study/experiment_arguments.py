"""Arguments of ``ikat.experiment``: systems with names, and data in its or PyTerrier's order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import ir_measures
import pandas as pd
import pyterrier as pt

from ..conversations.datasets import QrelsSource
from ..errors import UsageError
from .systems import methods_in

Measures = Sequence[ir_measures.Measure | str]


@dataclass(frozen=True)
class ExperimentData:
    """The data of an experiment.

    Attributes:
        dataset: a dataset or its name; None: topics and judgements are given.
        topics: the turns.
        qrels: the judgements.
        measures: the measures; None: the default ones.
        baseline: the system that the others are compared with, by name or by number.
    """

    dataset: Any = None
    topics: pd.DataFrame | None = None
    qrels: QrelsSource | None = None
    measures: Measures | None = None
    baseline: str | int | None = None


def data_of(positional: Sequence[Any], named: Mapping[str, Any]) -> ExperimentData:
    """Return the data by name.

    A frame in the first place means PyTerrier's order: topics, qrels, measures; else dataset,
    measures, baseline.

    Args:
        positional: the arguments behind the systems.
        named: those that were given by name, None for the others.

    Raises:
        UsageError: when there are too many, or one is given twice.

    Example:
        >>> data_of(["ikat:sample", ["P@5"]], {}).measures
        ['P@5']
        >>> data_of([pd.DataFrame({"qid": ["1_1"]}), "my.qrels", ["P@5"]], {}).qrels
        'my.qrels'
    """
    order: Sequence[str] = ("dataset", "measures", "baseline")
    if positional and isinstance(positional[0], pd.DataFrame):
        order = ("topics", "qrels", "measures")
    elif len(positional) > 1 and isinstance(positional[1], pd.DataFrame):
        order = ("dataset", "qrels", "measures")
    if len(positional) > len(order):
        raise UsageError(
            f"{len(positional)} arguments behind the systems: give "
            f"experiment(systems, {', '.join(order)}), and the others by name"
        )
    values = {name: value for name, value in named.items() if value is not None}
    for name, value in zip(order, positional, strict=False):
        if value is None:
            continue
        if name in values:
            raise UsageError(f"{name} is given twice, by its place and by its name: omit one")
        values[name] = value
    return ExperimentData(**values)


def only_topics(topics: pd.DataFrame, qrels: Any) -> Any:
    """Return the judgements of these topics alone, as ``pt.Experiment`` takes them.

    A file or the name of a variant stays as it is.
    """
    if not isinstance(qrels, pd.DataFrame):
        return qrels
    if "qid" not in qrels.columns or "qid" not in topics.columns:
        return qrels
    return qrels[qrels["qid"].isin(set(topics["qid"]))]


def named_systems(systems: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return systems and finished runs by name.

    Args:
        systems: a system, a result frame, a dict name -> one of these, or a list of them.
        names: the names of those in a list. Without them a pipeline is named by its repr, as in
            ``pt.Experiment``.

    Raises:
        UsageError: when names don't fit the systems, or two systems have the same name.

    Example:
        >>> list(named_systems([pt.Transformer.identity()], ["a"])), list(named_systems(["raw"]))
        (['a'], ['raw'])
    """
    if isinstance(systems, Mapping):
        if names is not None:
            raise UsageError(
                "names= is for a list of systems: the systems have names already, omit it"
            )
        return dict(systems)
    system_list = list(systems) if isinstance(systems, list | tuple) else [systems]
    if names is not None and len(names) != len(system_list):
        raise UsageError(
            f"names= has {len(names)} names for {len(system_list)} systems: give one for each"
        )
    by_name: dict[str, Any] = {}
    for position, system in enumerate(system_list):
        if names is not None:
            entries = {names[position]: system}
        elif isinstance(system, pd.DataFrame):
            entries = {f"run {position + 1}": system}
        elif isinstance(system, pt.Transformer):
            entries = {str(system): system}
        else:
            entries = {entry.name: entry for entry in methods_in([system])}
        taken = entries.keys() & by_name.keys()
        if taken:
            raise UsageError(
                f"two systems are named {min(taken)!r}: give each its own name, with names=[...] "
                "or as a dict"
            )
        by_name.update(entries)
    return by_name


def baseline_of(names: Sequence[str], baseline: str | int | None) -> str | None:
    """Return the name of the baseline, which may be given by its number, from 0.

    Raises:
        UsageError: when there is no system of this number, or it is no number.

    Example:
        >>> baseline_of(["a", "b"], 1)
        'b'
    """
    if baseline is None or isinstance(baseline, str):
        return baseline
    if not isinstance(baseline, Integral) or isinstance(baseline, bool):
        raise UsageError(
            f"baseline={baseline!r}: give the name of a system, or its number from 0 to "
            f"{len(names) - 1}"
        )
    if not 0 <= baseline < len(names):
        raise UsageError(f"baseline={baseline}: the systems have the numbers 0 to {len(names) - 1}")
    return names[baseline]
