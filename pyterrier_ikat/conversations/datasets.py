"""Datasets by name (TREC iKAT, CAsT, MTRAG, LoCoMo, the sample, your own, ir_datasets', PyTerrier's), and what a user chooses of one.

Turns are chosen by ids or a file, judgements by the name of a variant or a file.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice, counted, did_you_mean, list_first, option
from .benchmarks import LONGMEMEVAL, MTRAG, LocomoDataset, LongMemEvalDataset
from .ikat_dataset import (
    PREFIX,
    FolderDataset,
    GivenDataset,
    IkatDataset,
    IrdsDataset,
    SampleDataset,
)
from .public_outputs import turn_lists
from .qrels import check_qrels, read_qrels
from .released import RELEASED, ConeRagDataset, ReleasedDataset

__all__ = [
    "DATASETS",
    "PREFIX",
    "IkatDataset",
    "IkatProvider",
    "dataset",
    "full_name",
    "full_names",
]

DATASETS: dict[str, Callable[[], IkatDataset]] = {
    "sample": SampleDataset,
    **{
        name.removeprefix(PREFIX): partial(ReleasedDataset, name)
        for name in RELEASED
        if name.startswith(PREFIX)
    },
    "2024": ConeRagDataset,
    **{name: partial(ReleasedDataset, name) for name in RELEASED if name.startswith("cast:")},
    **MTRAG,
    LocomoDataset.name: LocomoDataset,
}
"""Name -> the function that makes the dataset. A name without a prefix belongs to ``ikat:``."""


def full_name(name: str) -> str:
    """The name of a dataset, with ``ikat:`` where it belongs. Other names stay.

    Example:
        >>> full_name("sample"), full_name("ikat:sample"), full_name("cast:2020"), full_name("mine")
        ('ikat:sample', 'ikat:sample', 'cast:2020', 'mine')
    """
    return PREFIX + name if name in DATASETS and ":" not in name else name


def full_names() -> list[str]:
    """The names of all datasets, as shown to users."""
    return list(map(full_name, DATASETS))


def dataset(source: str | Path | Any) -> IkatDataset:
    """A dataset: topics, judgements and passages under one name.

    Args:
        source: a name, with or without ``ikat:`` (``ikat datasets`` lists them); a name of
            ir_datasets, such as ``"irds:vaswani"``; a file of LongMemEval, ``"longmemeval:FILE"``;
            a name of another provider of ``pt.get_dataset`` with its prefix; a folder with
            ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt`` (a name with a slash or ``~`` is
            a path, and so is the name of a folder when no dataset is called so); a topics file
            ``.json``, such as a saved chat; or an object with ``get_topics()``, ``get_qrels()`` and
            ``get_corpus_iter()``, or its class.

    Returns:
        The dataset. Its files are read at first use.

    Raises:
        UsageError: for an unknown name, listing the known ones, or a folder that is not there.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.dataset("ikat:sample").get_topics()["qid"].tolist()[:2]
        ['1-1_1', '1-1_2']
    """
    if isinstance(source, IkatDataset):
        return source
    if not isinstance(source, str | Path):
        return GivenDataset(source)
    name = str(source).removeprefix(PREFIX)
    if isinstance(source, str):
        if name in DATASETS:
            return DATASETS[name]()
        prefix, colon, rest = name.partition(":")
        if prefix == "irds":
            return IrdsDataset(rest)
        if name.startswith(LONGMEMEVAL):
            return LongMemEvalDataset(rest)
        if (
            colon
            and re.fullmatch(r"[a-z]\w+", prefix)
            and not any(one.startswith(f"{prefix}:") for one in DATASETS)
        ):
            return _of_provider(name)
    if (
        isinstance(source, Path)
        or "/" in name
        or name.endswith(".json")
        or name.startswith("~")
        or os.path.isdir(name)
    ):
        return FolderDataset(name)
    same_year = [one for one in full_names() if re.findall(r"\d+", one) == re.findall(r"\d+", name)]
    hint = did_you_mean(name if ":" in name else PREFIX + name, same_year)
    known = f"{hint}{'; ' if hint else ''}there are {', '.join(full_names())}"
    raise UsageError(
        f"no dataset {source!r}; {known}, and folders by their path, such as ./{name if name.isidentifier() else 'mine'}"
    )


def _of_provider(name: str) -> IkatDataset:
    try:
        return GivenDataset(pt.get_dataset(name), name)
    except KeyError as error:
        raise UsageError(f"no dataset {name!r}: {error.args[0]}") from error


class IkatProvider(pt.datasets.DatasetProvider):
    """The provider behind ``pt.get_dataset("ikat:...")``, registered as the entry point ``ikat`` of ``pyterrier.dataset_provider``."""

    def get_dataset(self, name: str) -> IkatDataset:
        """A new dataset object, see :func:`dataset`."""
        return dataset(name)

    def list_dataset_names(self) -> list[str]:
        """The names, without the prefix."""
        return list(DATASETS)


Turns: TypeAlias = Iterable[str] | str | os.PathLike[str] | pd.DataFrame
"""A list or Series of ids, a frame with ``qid``, a text of ids with commas between them, the path of a file with an id on each line, or the
name of one of the lists that papers and other teams used."""
QrelsSource: TypeAlias = pd.DataFrame | str | os.PathLike[str]
"""A frame, the name of a dataset's variant, or the path of a TREC qrels file."""


class FewerTurnsWarning(UserWarning):
    """A named list has turns that aren't there."""


def read_turns(given: Turns, known: Iterable[str], where: str) -> list[str]:
    r"""The ids of the turns that a user names, each once, in the order of ``known``.

    Args:
        given: a list or Series of ids, a frame with ``qid``, a text of ids with commas between
            them, the path of a file with an id on each line, or the name of one of `turn_lists`. Of
            a list, the existing turns are taken, and a warning gives their number.
        known: the existing turns.
        where: their source, for the message, such as the name of a dataset.

    Raises:
        UsageError: when no turn is named, or an unknown one. For a file, the message names the
            line.
        DataError: when the file can't be read.

    Example:
        >>> read_turns("1-1_2,1-1_1", ["1-1_1", "1-1_2", "1-1_3"], "ikat:sample")
        ['1-1_1', '1-1_2']
        >>> _ = Path("turns.txt").write_text("1-1_1\n9-9_9\n")
        >>> read_turns("turns.txt", ["1-1_1", "1-1_2"], "ikat:sample")
        Traceback (most recent call last):
        pyterrier_ikat.errors.UsageError: turns.txt: ikat:sample has no turn 9-9_9 (line 2): its turns are like 1-1_1
    """
    there = list(dict.fromkeys(known))
    path = Path(given).expanduser() if isinstance(given, str | os.PathLike) else None
    if (
        isinstance(given, str)
        and path is not None
        and not (os.path.isfile(path) or ("/" in given and "," not in given))
    ):
        path = None  # it neither is nor looks like the name of a file
    if path is None and isinstance(given, str) and given in turn_lists():
        return _of_list(given, there, where)
    ids: Any = given
    if isinstance(given, str):
        ids = given.split(",")
    elif isinstance(given, pd.DataFrame):
        if "qid" not in given.columns:
            raise UsageError(
                f"turns= is a frame without the column qid, it has only {', '.join(map(str, given.columns)) or 'none'}: add it"
            )
        ids = given["qid"]
    named = [(0, str(turn).strip()) for turn in ids] if path is None else _lines(path)
    if not named or not all(turn for _, turn in named):
        written = advice(f"turns={str(given) if path else given!r}", f"--turns {str(given)!r}")
        raise UsageError(
            f"{written} names no turn: give ids separated by commas, such as 1-1_1,1-1_2, or a file with one on each line"
        )
    if unknown := [
        turn if path is None else f"{turn} (line {line})"
        for line, turn in named
        if turn not in set(there)
    ]:
        like = f": its turns are like {there[0]}" if there else ""
        raise UsageError(
            f"{'' if path is None else f'{path}: '}{where} has no turn {list_first(unknown)}{like}"
        )
    chosen = {turn for _, turn in named}
    return [turn for turn in there if turn in chosen]


def _of_list(name: str, there: list[str], where: str) -> list[str]:
    """The turns of a named list that exist in the dataset."""
    turns = turn_lists()[name].turns
    chosen = [turn for turn in there if turn in set(turns)]
    if not chosen:
        raise UsageError(
            f"{where} has none of the turns of {name} ({list_first(turns)}): give turns of its own"
        )
    if len(chosen) < len(turns):
        warnings.warn(
            f"{where} has {len(chosen)} of the {counted(len(turns), 'turn')} of {name}",
            FewerTurnsWarning,
            stacklevel=3,
        )
    return chosen


def _lines(path: Path) -> list[tuple[int, str]]:
    """Line number and turn."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} can't be read as text ({error}): give a file with the id of a turn on each line"
        ) from None
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def find_qrels(given: QrelsSource | None, dataset: IkatDataset) -> pd.DataFrame:
    """The judgements that a user names.

    Args:
        given: a frame, the name of one of the dataset's variants, or a TREC qrels file. None for
            the dataset's default.
        dataset: whose turns are judged.

    Raises:
        UsageError: when there is neither such a variant nor such a file.
        DataError: when a frame or file is malformed, or the dataset's own file is missing.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.conversations import write_qrels
        >>> sample = ikat.dataset("ikat:sample")
        >>> len(find_qrels(None, sample)), len(find_qrels("ptkb", sample))
        (387, 222)
        >>> write_qrels(sample.get_qrels().head(3), "three.txt")
        >>> len(find_qrels("three.txt", sample))
        3
    """
    if isinstance(given, pd.DataFrame):
        return check_qrels(given)
    if given is None or is_variant(given, dataset):
        return dataset.get_qrels(given)  # type: ignore[arg-type]
    path = Path(given).expanduser()
    if os.path.isfile(path):  # never an error, however long the name is
        return read_qrels(path)
    names = ", ".join(["the default", *(dataset._describe_component("qrels") or [])])  # type: ignore[misc]
    repair = f"omit {option('qrels')} for the default"
    raise UsageError(
        f"{dataset.name} has no qrels {str(given)!r}; there are {names}, and there is no file {path}: {repair}"
    )


def is_variant(given: QrelsSource | None, dataset: IkatDataset) -> bool:
    """Whether the judgements are a variant of the dataset, or its default."""
    if given is None:
        return True
    variants = dataset._describe_component("qrels") or []
    return isinstance(given, str) and isinstance(variants, list) and given in variants


def of_turns(judged: pd.DataFrame, turns: Turns | None, where: str) -> pd.DataFrame:
    """The judgements of the turns that a user names, or all judgements for None.

    Raises:
        UsageError: when one of the turns isn't judged.
        DataError: when the file of turns can't be read.

    Example:
        >>> judged = pd.DataFrame({"qid": ["1-1_1", "1-1_2"], "docno": ["a", "a"], "label": [1, 2]})
        >>> of_turns(judged, "1-1_2", "mine.txt")["label"].tolist()
        [2]
    """
    if turns is None:
        return judged
    wanted = read_turns(turns, judged["qid"], where)
    return judged[judged["qid"].isin(wanted)].reset_index(drop=True)
