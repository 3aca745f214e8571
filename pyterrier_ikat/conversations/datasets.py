"""Datasets by name, and a user's choice of turns and judgements.

Names: TREC iKAT, CAsT, MTRAG, LoCoMo, the sample, your own, those of ir_datasets and of PyTerrier.
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
from .ikat_dataset import IKAT_PREFIX, FolderDataset, GivenDataset, IkatDataset, SampleDataset
from .irds import IrdsDataset
from .public_outputs import turn_lists
from .qrels import check_qrels, read_qrels
from .released import RELEASED, ConeRagDataset, ReleasedDataset

__all__ = [
    "DATASETS",
    "IKAT_PREFIX",
    "IkatDataset",
    "IkatProvider",
    "dataset",
    "full_name",
    "full_names",
]


def _datasets() -> dict[str, Callable[[], IkatDataset]]:
    makers: dict[str, Callable[[], IkatDataset]] = {"sample": SampleDataset}
    for name in RELEASED:
        if name.startswith(IKAT_PREFIX):
            makers[name.removeprefix(IKAT_PREFIX)] = partial(ReleasedDataset, name)
    makers["2024"] = ConeRagDataset
    for name in RELEASED:
        if name.startswith("cast:"):
            makers[name] = partial(ReleasedDataset, name)
    makers.update(MTRAG)
    makers[LocomoDataset.name] = LocomoDataset
    return makers


DATASETS = _datasets()
"""Name -> the function that makes the dataset. A name without a prefix belongs to ``ikat:``."""


def full_name(name: str) -> str:
    """Return the name of a dataset, with ``ikat:`` where it belongs. Other names stay.

    Example:
        >>> full_name("sample"), full_name("ikat:sample"), full_name("cast:2020"), full_name("mine")
        ('ikat:sample', 'ikat:sample', 'cast:2020', 'mine')
    """
    return IKAT_PREFIX + name if name in DATASETS and ":" not in name else name


def full_names() -> list[str]:
    """Return the names of all datasets, as shown to users."""
    return [full_name(name) for name in DATASETS]


def dataset(source: str | Path | Any) -> IkatDataset:
    """Open a dataset: topics, judgements and passages under one name.

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
    name = str(source).removeprefix(IKAT_PREFIX)
    if isinstance(source, Path):
        return FolderDataset(name)
    if name in DATASETS:
        return DATASETS[name]()
    prefix, colon, rest = name.partition(":")
    if prefix == "irds":
        return IrdsDataset(rest)
    if name.startswith(LONGMEMEVAL):
        return LongMemEvalDataset(rest)
    prefixes = {full.partition(":")[0] for full in full_names()}
    if colon and re.fullmatch(r"[a-z]\w+", prefix) and prefix not in prefixes:
        return _of_provider(name)
    if "/" in name or name.startswith("~") or name.endswith(".json") or os.path.isdir(name):
        return FolderDataset(name)
    raise UsageError(_unknown_dataset(source, name))


def _of_provider(name: str) -> IkatDataset:
    try:
        return GivenDataset(pt.get_dataset(name), name)
    except KeyError as error:
        raise UsageError(f"no dataset {name!r}: {error.args[0]}") from error


def _unknown_dataset(source: str, name: str) -> str:
    """Return the message for an unknown name: it suggests only a dataset of the same year."""
    year = re.findall(r"\d+", name)
    same_year = [known for known in full_names() if re.findall(r"\d+", known) == year]
    hint = did_you_mean(name if ":" in name else IKAT_PREFIX + name, same_year)
    if hint:
        hint += "; "
    known = f"{hint}there are {', '.join(full_names())}"
    folder = name if name.isidentifier() else "mine"
    return f"no dataset {source!r}; {known}, and folders by their path, such as ./{folder}"


class IkatProvider(pt.datasets.DatasetProvider):
    """The provider behind ``pt.get_dataset("ikat:...")``.

    It is registered as the entry point ``ikat`` of ``pyterrier.dataset_provider``.
    """

    def get_dataset(self, name: str) -> IkatDataset:
        """Open a new dataset object, see :func:`dataset`."""
        return dataset(name)

    def list_dataset_names(self) -> list[str]:
        """Return the names, without the prefix."""
        return list(DATASETS)


Turns: TypeAlias = Iterable[str] | str | os.PathLike[str] | pd.DataFrame
"""A list or Series of ids, a frame with ``qid``, a text of ids with commas between them, the path
of a file with an id on each line, or the name of one of the lists that papers and other teams
used."""
QrelsSource: TypeAlias = pd.DataFrame | str | os.PathLike[str]
"""A frame, the name of a dataset's variant, or the path of a TREC qrels file."""


class FewerTurnsWarning(UserWarning):
    """Not all turns of a named list exist."""


def read_turns(turns: Turns, known: Iterable[str], where: str) -> list[str]:
    r"""Return the ids of a user's choice of turns, each once, in the order of ``known``.

    Args:
        turns: a list or Series of ids, a frame with ``qid``, a text of ids with commas between
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
        >>> try:
        ...     read_turns("turns.txt", ["1-1_1", "1-1_2"], "ikat:sample")
        ... except UsageError as error:
        ...     print(error)
        turns.txt: ikat:sample has no turn 9-9_9 (line 2): its turns are like 1-1_1
    """
    existing = list(dict.fromkeys(known))
    path = _path_of_turns(turns)
    if path is not None:
        ids = _ids_of_file(path)
        source = f"{path}: {where}"
    else:
        if isinstance(turns, str) and turns in turn_lists():
            return _turns_of_list(turns, existing, where)
        ids = {turn: turn for turn in _ids_of_argument(turns)}
        source = where
    if not ids or "" in ids.values():
        argument = repr(turns) if path is None else repr(str(turns))
        option_shown = advice(f"turns={argument}", f"--turns {str(turns)!r}")
        raise UsageError(
            f"{option_shown} names no turn: give ids separated by commas, such as 1-1_1,1-1_2, "
            "or a file with one on each line"
        )
    there = set(existing)
    unknown = [label for label, turn in ids.items() if turn not in there]
    if unknown:
        like = f": its turns are like {existing[0]}" if existing else ""
        raise UsageError(f"{source} has no turn {list_first(unknown)}{like}")
    chosen = set(ids.values())
    return [turn for turn in existing if turn in chosen]


def _path_of_turns(turns: Turns) -> Path | None:
    """Return the path of a file of turns. A text is a path if the file exists or it has a slash."""
    if not isinstance(turns, str | os.PathLike):
        return None
    path = Path(turns).expanduser()
    if isinstance(turns, str) and not os.path.isfile(path):
        looks_like_path = "/" in turns and "," not in turns
        if not looks_like_path:
            return None
    return path


def _ids_of_file(path: Path) -> dict[str, str]:
    """Read the ids in a file, by their names in messages, such as ``1-1_1 (line 2)``."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{path} can't be read as text ({error})"
        raise DataError(f"{problem}: give a file with the id of a turn on each line") from None
    ids = {}
    for number, line in enumerate(lines, 1):
        turn = line.strip()
        if turn:
            ids[f"{turn} (line {number})"] = turn
    return ids


def _ids_of_argument(turns: Any) -> list[str]:
    if isinstance(turns, str):
        turns = turns.split(",")
    elif isinstance(turns, pd.DataFrame):
        if "qid" not in turns.columns:
            columns = ", ".join(map(str, turns.columns)) or "none"
            raise UsageError(
                f"turns= is a frame without the column qid, it has only {columns}: add it"
            )
        turns = turns["qid"]
    return [str(turn).strip() for turn in turns]


def _turns_of_list(name: str, existing: list[str], where: str) -> list[str]:
    """Return the existing turns of a named list."""
    turns = turn_lists()[name].turns
    chosen = [turn for turn in existing if turn in turns]
    if not chosen:
        none = f"{where} has none of the turns of {name} ({list_first(turns)})"
        raise UsageError(f"{none}: give turns of its own")
    if len(chosen) < len(turns):
        message = f"{where} has {len(chosen)} of the {counted(len(turns), 'turn')} of {name}"
        warnings.warn(message, FewerTurnsWarning, stacklevel=3)
    return chosen


def find_qrels(qrels: QrelsSource | None, dataset: IkatDataset) -> pd.DataFrame:
    """Return judgements by name, by path, or as given.

    Args:
        qrels: a frame, the name of one of the dataset's variants, or a TREC qrels file. None for
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
    if isinstance(qrels, pd.DataFrame):
        return check_qrels(qrels)
    if qrels is None or is_variant(qrels, dataset):
        return dataset.get_qrels(qrels)  # type: ignore[arg-type]
    path = Path(qrels).expanduser()
    if os.path.isfile(path):  # unlike path.is_file(), no error for a name of any length
        return read_qrels(path)
    names = ", ".join(["the default", *dataset.qrels_variants()])
    repair = f"omit {option('qrels')} for the default"
    raise UsageError(
        f"{dataset.name} has no qrels {str(qrels)!r}; there are {names}, "
        f"and there is no file {path}: {repair}"
    )


def is_variant(qrels: QrelsSource | None, dataset: IkatDataset) -> bool:
    """Tell whether the judgements are a variant of the dataset, or its default."""
    return qrels is None or (isinstance(qrels, str) and qrels in dataset.qrels_variants())


def of_turns(judged: pd.DataFrame, turns: Turns | None, where: str) -> pd.DataFrame:
    """Return the judgements of a user's choice of turns, or all judgements for None.

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
    chosen = read_turns(turns, judged["qid"], where)
    return judged[judged["qid"].isin(chosen)].reset_index(drop=True)
