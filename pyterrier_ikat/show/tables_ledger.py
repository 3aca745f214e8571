"""What the LLM calls of several systems came to, in one table: a row per system, stage and model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..errors import DataError, UsageError, advice
from ..llms import Ledger
from ..llms.ledger import AMOUNTS, COUNTS
from ..runs import RunFolder
from ..runs.batches import Batches
from .tables import Cell, Column, Table

Ledgers: TypeAlias = Sequence[str | Path | RunFolder] | Mapping[str, str | Path | RunFolder | Ledger]

_MEANING = (
    "US dollars: what was paid, over all starts of a run. Worth: what the calls would have cost that the cache answered. "
    "Alone: what a system's own requests would cost, each once, had nobody asked them before."
)
_TOGETHER = {"cost": "paid", "worth": "from the cache", "alone": "alone"}

NOTHING = "none"
"""Stage and model of a system that asks no LLM."""

_TITLES = {"cache_hits": "cached", "prompt_tokens": "tokens in", "completion_tokens": "tokens out", "cost": "US dollars"}
_DECIMALS = {"seconds": 1, "cost": 4, "worth": 4, "alone": 4}
_MAY_BE_LEFT_OUT = ("cache_hits", "retries", "failures", "fallbacks", "dropped", "worth")
_LATER = ("worth", "alone")
"""Columns that ledgers of older versions lack."""


def ledger_frame(ledgers: Ledgers) -> pd.DataFrame:
    """The accounts of several systems in one frame.

    Args:
        ledgers: folders made by ``ikat run``, named like the folders, also ``NAME.partial`` of a run that was stopped; or a dict
            name -> folder or ``Ledger``.

    Returns:
        ``system``, ``stage``, ``model`` and the columns of :class:`~pyterrier_ikat.llms.Ledger`; ``pd.NA`` = unknown. A system without
        LLM calls has one row, of zeros, with the stage and model ``none``.

    Raises:
        UsageError: when there is none, or two have the same name.
        DataError: when a folder holds no run, or its ledger can't be read.

    Example:
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2, cost=0.25)
        >>> ledger_frame({"raw": Ledger(), "QR": spent})[["system", "stage", "calls", "cost"]].values.tolist()
        [['raw', 'none', 0, 0.0], ['QR', 'rewrite', 2, 0.25]]
    """
    if isinstance(ledgers, str | Path | RunFolder):
        raise UsageError(f"give a list of run folders: [{str(getattr(ledgers, 'path', ledgers))!r}]")
    named = list(ledgers.items()) if isinstance(ledgers, Mapping) else [(_name(one), one) for one in ledgers]
    names = [name for name, _ in named]
    if not names:
        raise UsageError("there is no ledger: give at least one run folder")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two ledgers are named {twice}: {advice('give each its name, {name: folder, ...}', 'rename a folder')}")
    return pd.concat([_of(name, one) for name, one in named], ignore_index=True)


def ledger(ledgers: Ledgers) -> Table:
    """What the systems' LLM calls came to, as a table per system, stage and model, in LaTeX, Markdown and CSV.

    Args:
        ledgers: see :func:`ledger_frame`.

    Returns:
        The table. Of retries, failures and the like only those are shown that there were; the notes name the others, and tell what all
        systems came to together. The frame behind it has all columns.

    Raises:
        UsageError: when there is none, or two have the same name.
        DataError: when a folder holds no finished run, or its ledger can't be read.

    Example:
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2, prompt_tokens=None, completion_tokens=40, seconds=1.25, cost=None)
        >>> print(ledger({"QR": spent}).markdown().splitlines()[2])
        | QR | rewrite | gpt-4o | 2 | unknown | 40 | 1.2 | unknown |
    """
    frame = ledger_frame(ledgers)
    never = [name for name in _MAY_BE_LEFT_OUT if (frame[name] == 0).fillna(False).all()]
    shared = not frame["alone"].equals(frame["cost"])
    texts = [Column(name, [Cell(str(one)) for one in frame[name]]) for name in ("system", "stage", "model")]
    numbers = [_numbers(name, frame[name]) for name in (*COUNTS, *AMOUNTS) if name not in never and (shared or name != "alone")]
    notes = ["All turns together; seconds: the time of the calls added up."]
    if missing := [_title(name) for name in never if name != "worth"]:
        notes.append(f"None: {', '.join(missing)}.")
    if shared:
        alone = ", ".join(f"{name} {_total(rows['alone'])}" for name, rows in frame.groupby("system", sort=False))
        together = ", ".join(f"{title} {_total(frame[name])}" for name, title in _TOGETHER.items())
        notes.append(f"{_MEANING} Each alone: {alone}. Together: {together}.")
    return Table(frame, [*texts, *numbers], notes)


def _numbers(name: str, values: "pd.Series[Any]") -> Column:
    return Column(_title(name), [Cell(_number(value, _DECIMALS.get(name, 0))) for value in values], numeric=True)


def _number(value: Any, decimals: int) -> str:
    return "unknown" if pd.isna(value) else f"{value:,.{decimals}f}"


def _total(values: "pd.Series[Any]") -> str:
    return _number(values.sum(skipna=False), _DECIMALS["cost"])


def _title(name: str) -> str:
    return _TITLES.get(name, name)


def _name(given: str | Path | RunFolder) -> str:
    path = given.path if isinstance(given, RunFolder) else Path(given)
    return path.resolve().name


def _of(name: str, given: Any) -> pd.DataFrame:
    account = given.frame() if isinstance(given, Ledger) else _read(given if isinstance(given, RunFolder) else RunFolder(given))
    if account.empty:
        idle = Ledger()
        idle.count(NOTHING, NOTHING, calls=0)
        account = idle.frame()
    account.insert(0, "system", name)
    return account


def _read(folder: RunFolder) -> pd.DataFrame:
    if not folder.complete:
        return _under_way(folder)
    path = folder.path / "ledger.csv"
    try:
        found = pd.read_csv(
            path,
            dtype={"stage": str, "model": str, "served": str},
            keep_default_na=False,
            na_values={name: [""] for name in (*COUNTS, *AMOUNTS)},
        )
        found = found if "served" in found else found.assign(served="")  # a ledger of an earlier version
        found = found.assign(**{name: pd.NA for name in _LATER if name not in found})
        account = found[["stage", "model", "served", *COUNTS, *AMOUNTS]].astype(Ledger().frame().dtypes.to_dict())
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} can't be read ({error}): make the run again") from error
    folder.check_lines(path.name)
    return account


def _under_way(folder: RunFolder) -> pd.DataFrame:
    """What a run came to so far that was stopped, or is being made."""
    batches = Batches(RunFolder(folder.path.with_name(folder.path.name.removesuffix(".partial"))), {})
    if not batches.path.is_dir():
        raise DataError(f"{folder.path} is no finished run: give a folder made by `ikat run`")
    return batches.ledger().frame()
