"""Texts as sparse vectors of terms: the encoder, and passages encoded once in batches."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from ..conversations.frame import well_formed
from ..errors import DataError, UsageError
from ..portable import digest
from ..progress import bar as bar_of
from ..store.files import atomic_write
from ..store.models import load, loaded_once, model_state

SCALE = 100
"""Impacts per unit of weight, for passages and for queries. So PISA's score is SCALE * SCALE times the dot product."""

Numbers = npt.NDArray[np.uint32]


class Impacts(NamedTuple):
    """The impacts of some texts, one text after the other."""

    ends: npt.NDArray[np.int64]
    """The end of each text's entries in ``terms`` and ``weights``."""
    terms: Numbers
    """Numbers of the vocabulary."""
    weights: Numbers
    """Impacts, at least 1."""

    def as_dicts(self, names: Sequence[str]) -> list[dict[str, int]]:
        """For each text, a dict from the name of a term to its impact."""
        starts = [0, *self.ends.tolist()[:-1]]
        return [
            {names[term]: weight for term, weight in zip(self.terms[a:b].tolist(), self.weights[a:b].tolist(), strict=True)}
            for a, b in zip(starts, self.ends.tolist(), strict=True)
        ]


@loaded_once(size=2)
def load_sparse_encoder(model: str) -> Any:
    """The loaded model. Equal names share one model.

    Raises:
        UsageError: when the model can't be loaded or isn't a SPLADE model, or its library isn't installed.
    """

    def make() -> Any:
        from sentence_transformers import SparseEncoder

        return SparseEncoder(model)

    loaded = load("sparse encoder", model, make)
    if not any(type(module).__name__ == "SpladePooling" for module in loaded.modules()):
        raise UsageError(f"the model {model!r} isn't a SPLADE model: it has no weights of a masked language model for the vocabulary")
    return loaded


def list_numbers(model: Any) -> list[str]:
    """The names under which :class:`Splade` indexes the dimensions of the model's vectors: their numbers.

    PISA lowercases the terms of queries, but not those of passages. If tokens were used as names, ``"[SEP]"`` and the capitalised tokens
    of a cased vocabulary would never be found.
    """
    # Until a model has encoded something, it reports its hidden size as the dimension.
    size = model.encode_document(["."], show_progress_bar=False).shape[1]
    return [str(number) for number in range(size)]


def list_tokens(model: Any) -> list[str]:
    """The names under which PyTerrier's SPLADE indexes the dimensions: the tokenizer's tokens (``"tea"``, ``"##ing"``)."""
    named = model.tokenizer.convert_ids_to_tokens(list(range(len(model.tokenizer))))
    return [*named, *list_numbers(model)[len(named) :]]  # a model may have more dimensions than its tokenizer has tokens


def checksum_vocabulary(model: Any) -> str:
    """A checksum that is equal for models whose vectors have the same terms."""
    return digest(*list_tokens(model)).hex()


def encode_texts(model: Any, texts: Sequence[str], *, of: str, batch_size: int = 32) -> Impacts:
    """Encode texts.

    Args:
        model: a ``sentence_transformers.SparseEncoder``.
        texts: the texts to encode, each truncated at the model's limit of tokens. A blank text has no impacts.
        of: ``"query"`` or ``"document"``. Most models encode both in the same way.
        batch_size: the number of texts per batch.

    Raises:
        UsageError: when the model gives a weight that isn't finite.
    """
    places = [place for place, text in enumerate(texts) if text.strip()]
    if not places:
        return Impacts(np.zeros(len(texts), np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))
    encode = model.encode_query if of == "query" else model.encode_document
    asked = [well_formed(texts[place]) for place in places]
    vectors = encode(asked, batch_size=batch_size, show_progress_bar=False, convert_to_sparse_tensor=True, save_to_cpu=True).coalesce()
    values = vectors.values().float().numpy().astype(np.float64)
    if not np.isfinite(values).all():
        raise UsageError("the sparse encoder gave a weight that is not a finite number: its weights are damaged, use another model")
    rows, terms = vectors.indices().numpy()
    weights = np.rint(values * SCALE)
    kept = weights > 0
    sizes = np.bincount(np.asarray(places)[rows[kept]], minlength=len(texts))
    return Impacts(np.cumsum(sizes), terms[kept].astype(np.uint32), weights[kept].astype(np.uint32))


BATCHES_PER_FILE = 16


def encode_passages(folder: Path, passages: Iterable[tuple[str, str]], model: str, batch_size: int, total: int) -> list[Path]:
    """Encode the passages that ``folder`` doesn't have yet.

    Args:
        folder: the folder of the encoded batches; created if missing.
        passages: (docno, text), in the order of the index.
        model: the sparse encoder's name.
        batch_size: the number of texts per batch. A file holds 16 batches.
        total: the number of passages, for the progress bar.

    Returns:
        The files, in the order of the passages. Each has ``docnos`` and the fields of :class:`Impacts`.

    Raises:
        UsageError: when the model can't be loaded or gives a weight that isn't finite.
    """
    made_by, files = digest("splade", *model_state(model)).hex(), []
    with bar_of(total=total, desc="encoding passages", unit="passage") as bar:
        for batch in _chunks(passages, BATCHES_PER_FILE * batch_size):
            file = folder / f"{_key(made_by, batch)}.npz"
            if not file.exists():
                found = encode_texts(load_sparse_encoder(model), [text for _, text in batch], of="document", batch_size=batch_size)
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
        raise DataError(f"{file} holds no encoded passages ({error}): remove it, and the same call encodes them again") from None


def _key(made_by: str, batch: Sequence[tuple[str, str]]) -> str:
    return digest(json.dumps([SCALE, made_by, batch])).hex()


def _chunks(passages: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(passages)
    while chunk := list(islice(iterator, size)):
        yield chunk
