"""Encoded passages kept on disk while an index is being built, so that an interrupted build goes on where it was.

One file per batch of passages, named by what it was made from: the model, the passages and their order. A file appears whole or not at
all, so a build killed at any moment loses no more than the batch it was encoding.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from tqdm.auto import tqdm

from ..errors import DataError
from ..files import atomic_write
from ..model_files import fingerprint
from .impacts import SCALE, impacts, load_sparse_encoder

BATCHES_PER_FILE = 16


def encode_passages(folder: Path, passages: Iterable[tuple[str, str]], model: str, batch_size: int, total: int) -> list[Path]:
    """Encode the passages that ``folder`` doesn't have yet.

    Args:
        folder: where the encoded batches are kept; made when missing.
        passages: (docno, text), in the order of the index.
        model: the sparse encoder's name.
        batch_size: texts that the model gets at a time; a file holds 16 such batches.
        total: the number of passages, for the progress bar.

    Returns:
        The files, in the order of the passages; each has ``docnos`` and the fields of :class:`Impacts`.

    Raises:
        UsageError: when the model can't be loaded or gives a weight that isn't finite.
    """
    made_by, files = fingerprint("splade", model).hex(), []
    with tqdm(total=total, desc="encoding passages", unit="passage", delay=2) as bar:
        for batch in _chunks(passages, BATCHES_PER_FILE * batch_size):
            file = folder / f"{_key(made_by, batch)}.npz"
            if not file.exists():
                found = impacts(load_sparse_encoder(model), [text for _, text in batch], of="document", batch_size=batch_size)
                with atomic_write(file, "wb") as out:
                    np.savez_compressed(out, docnos=np.array([docno for docno, _ in batch]), **found._asdict())
            files.append(file)
            bar.update(len(batch))
    return files


def has_terms(file: Path) -> bool:
    """Whether any passage of an encoded batch has a term.

    Raises:
        DataError: when the file is damaged.
    """
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as batch:
            return bool(batch["terms"].size)
    except (OSError, ValueError, KeyError, EOFError, AttributeError, BadZipFile) as error:
        raise DataError(f"{file} holds no encoded passages ({error}): remove it, and the same call encodes them again") from error


def _key(made_by: str, batch: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps([SCALE, made_by, batch]).encode()).hexdigest()[:32]


def _chunks(passages: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(passages)
    while chunk := list(islice(iterator, size)):
        yield chunk
