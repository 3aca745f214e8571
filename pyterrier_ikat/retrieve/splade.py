"""SPLADE: a masked language model that weighs the terms of a text, and terms that it lacks."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..errors import DataError, UsageError
from ..store.files import whole_folder
from .artifact import PISA, TEXTS, read_all_texts, write_meta
from .corpus import write_texts
from .pisa.build import build_impacts
from .sparse_encoder import SCALE, encode_passages, has_terms, load_sparse_encoder
from .splade_index import FORMAT, META, SpladeIndex, content_of


class Splade:
    """A SPLADE model that indexes passages, by ``sentence-transformers``' ``SparseEncoder``.

    Source: Formal et al., From Distillation to Hard Negative Sampling: Making Sparse Neural IR Models More Effective, SIGIR 2022; the
    default is the checkpoint of IRLab@iKAT24, section 4.2.

    Args:
        model: a name of the Hugging Face hub, or the folder of a downloaded model: a sparse encoder, or a bare masked language model,
            which gets SPLADE's pooling by maximum.
        batch_size: passages that the model gets at a time.

    Raises:
        UsageError: when ``batch_size`` is below 1; at ``index``, when the model can't be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.Splade("naver/splade-cocondenser-selfdistil")
        >>> retriever = splade.index("splade.index", corpus).retriever()  # doctest: +SKIP
    """

    @checked
    def __init__(self, model: str | Path = "naver/splade-cocondenser-selfdistil", batch_size: int = 32) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size={batch_size!r}: give the model at least one passage at a time")
        self.model = str(model)
        self.batch_size = batch_size

    def index(self, path: str | Path, corpus: Iterable[Mapping[str, Any]]) -> SpladeIndex:
        """Encode a corpus and build an index of it that also keeps the passages' text.

        Weights are rounded to hundredths. A blank text, or one that the model gives no weight, is kept but never found. The folder
        appears under its name only when complete. Encoded passages are kept in the folder ``<path>.encoded`` until then: when the call was
        interrupted, the same call again (same model, batch size and passages, whatever their order) goes on where it was; a change of the
        model or the passages makes it encode anew what changed.

        Args:
            path: the folder of the index; nothing may be there but the index that this call would make, which is then returned.
            corpus: dicts with ``docno`` (a string without white space) and ``text``; read once.

        Returns:
            The index, open.

        Raises:
            UsageError: when an index of other passages or of another model, or anything else, is at the path already, or the model can't
                be loaded.
            DataError: when the corpus is empty or has a passage without docno or text, or twice the same docno, or when the model gives
                no passage a term.
        """
        if (Path(path) / META).exists():
            SpladeIndex(path).check_same(self.model, corpus)
            return SpladeIndex(path)
        encoded = Path(path).absolute()
        encoded = encoded.with_name(f"{encoded.name}.encoded")
        with whole_folder(path) as folder:
            load_sparse_encoder(self.model)  # before a corpus of hours is read
            read = write_texts(folder / TEXTS, corpus)
            count = read.count
            files = encode_passages(encoded, read_all_texts(folder / TEXTS), self.model, self.batch_size, count)
            if not any(map(has_terms, files)):
                raise DataError(f"the model {self.model!r} gives no passage a term: its weights are damaged, use another model")
            indexed = build_impacts(folder / PISA, files)
            if indexed != count:
                raise DataError(f"PISA has {indexed} of {count} passages: index again, and report it if it happens twice")
            made_of = {"count": count, "sha256": read.sha256(), "encoded_by": content_of(self.model)}
            write_meta(folder / META, {"format": FORMAT, "model": self.model, "scale": SCALE, **made_of})
        shutil.rmtree(encoded, ignore_errors=True)
        return SpladeIndex(path)

    def __repr__(self) -> str:
        default = type(self)()
        shown = [repr(self.model)] if self.model != default.model else []
        shown += [f"batch_size={self.batch_size!r}"] if self.batch_size != default.batch_size else []
        return f"ikat.Splade({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return (self.model, self.batch_size) == (other.model, other.batch_size) if isinstance(other, Splade) else NotImplemented

    def __hash__(self) -> int:
        return hash((Splade, self.model, self.batch_size))
