"""Datasets by name: those of the track, the bundled sample, your own folder or object."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..errors import UsageError
from .base import PREFIX, GivenDataset, IkatDataset
from .folder import FolderDataset, SampleDataset
from .track import MiniDataset, TrainDataset, YearDataset

__all__ = ["DATASETS", "PREFIX", "IkatDataset", "IkatProvider", "dataset", "full_name"]

DATASETS: dict[str, Callable[[], IkatDataset]] = {
    "sample": SampleDataset,
    "2023-mini": MiniDataset,
    "2023": lambda: YearDataset(2023),
    "2023-train": TrainDataset,
    "2024": lambda: YearDataset(2024),
    "2025": lambda: YearDataset(2025),
}


def full_name(name: str) -> str:
    """The name of a dataset with ``ikat:``; other names stay.

    Example:
        >>> full_name("sample"), full_name("ikat:sample"), full_name("mine")
        ('ikat:sample', 'ikat:sample', 'mine')
    """
    return PREFIX + name if name in DATASETS else name


def dataset(source: str | Path | Any) -> IkatDataset:
    """A dataset: topics, judgements and passages under one name.

    Args:
        source: a name, with or without ``ikat:`` (``ikat datasets`` lists them); a folder with ``topics.jsonl``, ``passages.jsonl`` and
            ``qrels.txt`` (a name with a slash or ``~`` is a path: ``"./mine"``); or an object with ``get_topics()``, ``get_qrels()`` and
            ``get_corpus_iter()``, or its class.

    Returns:
        The dataset; its files are read when they are first asked for.

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
    if name in DATASETS and not isinstance(source, Path):
        return DATASETS[name]()
    if isinstance(source, Path) or "/" in name or name.startswith("~"):
        return FolderDataset(name)
    known = f"there are {', '.join(PREFIX + known for known in DATASETS)}"
    raise UsageError(f"no dataset {source!r}; {known}, and folders by their path, such as ./{name if name.isidentifier() else 'mine'}")


class IkatProvider(pt.datasets.DatasetProvider):
    """What ``pt.get_dataset("ikat:...")`` asks; registered as the entry point ``ikat`` of ``pyterrier.dataset_provider``."""

    def get_dataset(self, name: str) -> IkatDataset:
        """A new dataset object.

        Raises:
            KeyError: for an unknown name, as PyTerrier expects, listing the known ones.
        """
        try:
            return dataset(name)
        except UsageError as error:
            raise KeyError(str(error)) from error

    def list_dataset_names(self) -> list[str]:
        """The names, without the prefix."""
        return list(DATASETS)
