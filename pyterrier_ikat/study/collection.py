"""Whether an index has the passages that are judged."""

import warnings
from collections.abc import Iterable
from typing import Any

import pandas as pd

from ..errors import UsageError, advice
from .identity import distinct_parts
from .systems import System


class OtherCollectionWarning(UserWarning):
    """The index isn't of the dataset's collection, or its collection is unknown."""


def check_collection(index: Any, dataset: Any, name: str | None, qrels: pd.DataFrame) -> None:
    """Check that an index is of the judged collection; another or an unknown collection is a warning.

    Collections are compared by their passages: 2023, 2024 and 2025 share one, and so do all its indexes.

    Raises:
        UsageError: when it has none of the judged passages, so that every score would be 0.
    """
    judged = sorted(set(qrels["docno"]))
    there = index.docnos(judged)
    if judged and next(there, None) is None:
        make = advice(f"ikat.PassageIndex(path).index(pt.get_dataset({name!r}).get_corpus_iter())", f"`ikat index {name} PATH`")
        raise UsageError(
            f"the index {index.path} has none of the {len(judged):,} passages judged in {name} (such as {judged[0]}), so that every score "
            f"would be 0: give an index of its collection, as {make} makes, or the dataset that {index.path} was made for"
        )
    size, docnos = dataset.collection() if hasattr(dataset, "collection") else (None, None)
    if size is None and not judged:
        return  # turns alone, of no collection
    if len(index) == size and (docnos is None or sum(1 for _ in index.docnos(sorted(docnos))) == size):
        return
    what = f"another collection than that of {name}" if size else f"a collection that may be another one than that of {name}"
    sizes = f"{len(index):,} passages" + (f", not the same {size:,}" if size else "")
    known = f"{1 + sum(1 for _ in there) if judged else 0:,} of the {len(judged):,} judged passages are in it"
    warnings.warn(f"the index {index.path} is of {what} ({sizes}): {known}, and what it lacks can't be found", OtherCollectionWarning, 3)


def indexes_of(systems: Iterable[System]) -> list[Any]:
    """The indexes that are searched, without those that only provide the texts of another index."""
    found = [part for part in distinct_parts(one.pipeline for one in systems) if hasattr(part, "docnos")]
    texts = [getattr(getattr(index, "text", None), "index", None) for index in found]
    return [index for index in found if all(index is not one for one in texts)]
