"""Building an index of SPLADE vectors: passages are encoded, and an interrupted encoding resumes."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..errors import DataError, UsageError
from ..store.files import resumable_folder
from ..store.models import checksum_model
from .artifact import FORMAT
from .artifact import SPLADE_META as META
from .corpus import Corpus, shared_passages, store_anew, waits_to_be_moved
from .eager_writer import write_impacts
from .pisa import build_impacts, check_count
from .retriever import EAGER_UP_TO, has_pisa
from .sparse_encoder import SCALE, checksum_vocabulary, encode_passages, has_terms, load_sparse_encoder
from .splade import FOLDER, SpladeIndex
from .texts import TextStore

ENCODED = "encoded"


class Splade:
    """A SPLADE model that indexes passages, using the ``SparseEncoder`` of ``sentence-transformers``.

    Source: Formal et al., From Distillation to Hard Negative Sampling: Making Sparse Neural IR Models More Effective, SIGIR 2022. The
    default is the checkpoint of IRLab@iKAT24, section 4.2.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model. It is a sparse encoder, or a plain masked language
            model, to which SPLADE's max pooling is added.
        batch_size: the number of passages per batch.

    Raises:
        UsageError: when ``batch_size`` is below 1. At ``index``, when the model can't be loaded.

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

        Weights are rounded to hundredths. A blank text, or one without any weight from the model, is kept but never found. The folder
        appears under its name only when complete. Until then encoded passages are kept in the folder ``<path>.splade.partial``. After an
        interruption, the same call (same model, batch size and passages, in any order) resumes. If the model or passages changed, it
        encodes the changed part again.

        Args:
            path: the folder of the index. If it holds an index of the same passages for BM25 or dense vectors, the SPLADE vectors are
                added to it, and the texts are shared; see :class:`Index`. If the path already has the index that this call would build, it
                is returned without building it again.
            corpus: dicts with ``docno`` (a string without white space) and ``text``; read once.

        Returns:
            The index, opened.

        Raises:
            UsageError: when the path already has an index of other passages, an index of another model, or anything else, or the model
                can't be loaded.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate docno, or the model gives no
                passage a term.
        """
        index = SpladeIndex(path)
        if (Path(path) / META).exists():
            index.check_same(self.model, corpus)
            return index
        with resumable_folder(path, _worth_keeping, last=META, part=FOLDER) as workplace:
            if not waits_to_be_moved(workplace / "index", path, META):
                self._build(index, workplace, corpus)
        return index

    def _build(self, index: SpladeIndex, workplace: Path, corpus: Corpus) -> None:
        made = workplace / "index"
        vocabulary = checksum_vocabulary(load_sparse_encoder(self.model))  # an error shows before a large corpus is read for hours
        (made / META).unlink(missing_ok=True)  # removed first: with it the folder would count as a finished index
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        shared = shared_passages(index.path, corpus)
        stored = shared or store_anew(made, corpus)
        files = encode_passages(workplace / ENCODED, TextStore(stored.texts), self.model, self.batch_size, stored.count)
        if not any(map(has_terms, files)):
            raise DataError(f"the model {self.model!r} gives no passage a term: its weights are damaged, use another model")
        if stored.count <= EAGER_UP_TO or not has_pisa():
            write_impacts(made / FOLDER, files)
        else:
            check_count(build_impacts(made / FOLDER, files), stored.count)
        made_of = {"count": stored.count, "sha256": stored.sha256, "encoded_by": checksum_model(self.model)}
        fields = {"format": FORMAT, "model": self.model, "vocabulary": vocabulary, "scale": SCALE, **made_of}
        index.write_meta(made, fields, texts=None if shared is None else shared.texts)

    def __repr__(self) -> str:
        default = type(self)()
        shown = [repr(self.model)] if self.model != default.model else []
        shown += [f"batch_size={self.batch_size!r}"] if self.batch_size != default.batch_size else []
        return f"ikat.Splade({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return (self.model, self.batch_size) == (other.model, other.batch_size) if isinstance(other, Splade) else NotImplemented

    def __hash__(self) -> int:
        return hash((Splade, self.model, self.batch_size))


def _worth_keeping(workplace: Path) -> bool:
    """Whether an interrupted build left encoded passages."""
    return any((workplace / ENCODED).glob("*.npz")) or (workplace / "index" / META).exists()
