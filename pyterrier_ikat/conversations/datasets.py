"""Datasets by name: those of TREC iKAT, CAsT, MTRAG and LoCoMo, the sample, your own folder or object, ir_datasets' and PyTerrier's."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..errors import UsageError, did_you_mean
from .benchmarks import LONGMEMEVAL, MTRAG, LocomoDataset, LongMemEvalDataset
from .ikat_dataset import PREFIX, GivenDataset, IkatDataset
from .own_data import FolderDataset, IrdsDataset, SampleDataset
from .released import RELEASED, ConeRagDataset, ReleasedDataset

__all__ = ["DATASETS", "PREFIX", "IkatDataset", "IkatProvider", "dataset", "full_name", "full_names"]

DATASETS: dict[str, Callable[[], IkatDataset]] = {
    "sample": SampleDataset,
    **{name.removeprefix(PREFIX): partial(ReleasedDataset, name) for name in RELEASED if name.startswith(PREFIX)},
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
        source: a name, with or without ``ikat:`` (``ikat datasets`` lists them); a name of ir_datasets, such as ``"irds:vaswani"``; a
            file of LongMemEval, ``"longmemeval:FILE"``; a name of another provider of ``pt.get_dataset`` with its prefix; a folder with
            ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt`` (a name with a slash or ``~`` is a path, and so is the name of a folder
            when no dataset is called so); a topics file ``.json``, such as a saved chat; or an object with ``get_topics()``,
            ``get_qrels()`` and ``get_corpus_iter()``, or its class.

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
        if colon and re.fullmatch(r"[a-z]\w+", prefix) and not any(one.startswith(f"{prefix}:") for one in DATASETS):
            return _of_provider(name)
    if isinstance(source, Path) or "/" in name or name.endswith(".json") or name.startswith("~") or os.path.isdir(name):
        return FolderDataset(name)
    same_year = [one for one in full_names() if re.findall(r"\d+", one) == re.findall(r"\d+", name)]
    hint = did_you_mean(name if ":" in name else PREFIX + name, same_year)
    known = f"{hint}{'; ' if hint else ''}there are {', '.join(full_names())}"
    raise UsageError(f"no dataset {source!r}; {known}, and folders by their path, such as ./{name if name.isidentifier() else 'mine'}")


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
