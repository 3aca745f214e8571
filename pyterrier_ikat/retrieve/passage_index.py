"""A passage collection on disk: PISA's index and the passages' text, in one folder that is there whole or not at all."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..errors import UsageError, advice
from . import pisa
from .bm25 import BM25
from .passage_text import PassageText
from .reading import Corpus, Reading, check_expected
from .shards import holds_shards, index_shards
from .text_store import held, read_texts
from .whole_folder import read_description, resumable_folder, state, write_description

FORMAT = 1
META, TEXTS, PISA = "ikat_index.json", "texts.sqlite", "pisa"
SPARE = [f"{PISA}/{name}" for name in pisa.UNCOMPRESSED]


class PassageIndex:
    """An index over passages that also keeps their text.

    The folder holds PISA's inverted index, the texts and a description (format, number of passages, parameters, size of every file) that
    is checked at opening. It appears
    under its name only when complete. Any number of threads and processes may read it, also where it can't be written to.

    Eight tenths of PISA's files, ``pisa/inv.docs`` and ``pisa/inv.freqs``, are read only to make the index ready for further values of k1
    and b, as the first search with them does: where no others are wanted and the disk is small, remove these two.

    Args:
        path: the folder; made by ``index``.

    Raises:
        DataError: by everything but ``index``, when there is no index at ``path``, or it was cut short or made by another version of the
        format.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]
        >>> index = ikat.PassageIndex(tempfile.mkdtemp()).index(passages)
        >>> index.bm25().search("rooibos")[["docno", "text"]].values.tolist()
        [['d1', 'Rooibos has no caffeine.']]
    """

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._described: tuple[tuple[int, ...], dict[str, Any]] | None = None

    @checked
    def index(
        self, corpus: Corpus, *, stemmer: str = "porter2", stops: str = "lucene", threads: int = 2, expected: int | None = None
    ) -> "PassageIndex":
        """Build the index from a corpus of any size.

        Letters lose their accents and other characters than ASCII break words, in passages and queries alike; the text is kept as it came.
        The folder appears under its name only when complete. Until then the finished part, in shards of 500,000 passages, is in
        ``<path>.partial``: when the call was interrupted, or stopped at a damaged file, the same call goes on where it was. It
        reads the corpus from the start, and checks by checksum that the finished part is made of the same passages.

        Args:
            corpus: dicts with ``docno`` (a string without white space) and ``text``, read once: a dataset's ``get_corpus_iter()``,
                ``ikat.PassageFiles(folder)``, or any other.
            stemmer: ``"porter2"`` or ``"none"``.
            stops: the words left out of queries: ``"lucene"`` (33 words), ``"terrier"`` (733) or ``"none"``.
            threads: how many threads compress the texts, and how many PISA inverts with.
            expected: the number of passages that the corpus has, where it is known: a file that is missing isn't noticed otherwise.

        Returns:
            This index, open. When it is there already, it is compared with the corpus, which is read once, and not built again.

        Raises:
            UsageError: when an index of other passages, or anything else, is at the path already, another process is building it, or an
                argument is unknown.
            DataError: when the corpus is empty, has a passage without docno or text, or twice the same docno (both passages are named),
                has another number of passages than expected, or isn't the one of the finished part. Nothing but finished shards is left
                behind, whatever goes wrong.
        """
        for name, value, known in (("stemmer", stemmer, pisa.STEMMERS), ("stops", stops, pisa.STOPS)):
            if value not in known:
                given = advice(f"{name}={value!r}", f"--{name} {value}")
                raise UsageError(f"{given} is unknown: give one of {', '.join(known)}")
        if threads < 1:
            raise UsageError(f"{advice(f'threads={threads!r}', f'--threads {threads}')}: give at least one")
        if (Path(self.path) / META).exists():
            return self._of_same(corpus, {"stemmer": stemmer, "stops": stops}, expected)
        k1, b = 0.9, 0.4
        with resumable_folder(self.path, holds_shards) as workplace:
            read = index_shards(workplace, TEXTS, corpus, stemmer=stemmer, threads=threads, k1=k1, b=b, expected=expected)
            described = {
                "format": FORMAT,
                "count": read.count,
                "sha256": read.sha256(),
                "stemmer": stemmer,
                "stops": stops,
                "bm25": [k1, b],
            }
            write_description(workplace / "index" / META, described)
        return self

    def _of_same(self, corpus: Corpus, options: dict[str, str], expected: int | None) -> "PassageIndex":
        described = self.describe()
        for name, value in options.items():
            if described[name] != value:
                raise UsageError(
                    f"{self.path} holds an index with {name} {described[name]}, not {value}: remove it, or give a path where nothing is"
                )
        check_expected(described["count"], expected)
        Reading(corpus).check_same(self.path, described["count"], described["sha256"])
        return self

    def bm25(self, k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None) -> BM25:
        """BM25 over this index; see :class:`BM25`."""
        return BM25(self, k1, b, num_results, cache)

    def text_loader(self) -> PassageText:
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        return PassageText(self)

    def texts(self, docnos: Iterable[str]) -> list[str]:
        """The passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: naming the docnos that the index lacks.
        """
        self.describe()
        return read_texts(Path(self.path) / TEXTS, list(docnos))

    def held(self, docnos: Sequence[str]) -> Iterator[str]:
        """Those of ``docnos`` that the index has, looked up as they are asked for."""
        self.describe()
        return held(Path(self.path) / TEXTS, docnos)

    def describe(self) -> dict[str, Any]:
        """What the index says of itself, read again when another one was put in its place.

        Returns:
            ``format``, ``count``, ``sha256`` (over docno, line feed, bytes of the text, line feed, text of each passage in the order of
            the corpus; or of the imported CIFF file),
            ``stemmer``, ``stops``, ``bm25`` (k1 and b it is ready for), ``files`` (name -> bytes).

        Raises:
            DataError: when it isn't there, isn't whole, or has another format.
        """
        meta = Path(self.path) / META
        now = state(meta)
        if self._described is None or self._described[0] != now:
            made_by = advice(f"ikat.PassageIndex({self.path!r}).index(corpus)", f"`ikat index SOURCE {self.path}`")
            self._described = now, read_description(meta, form=FORMAT, repair=f"make it with {made_by}", spare=SPARE)
        return self._described[1]

    def fingerprint(self) -> str:
        """A checksum that an index of other passages, or one built with other settings, does not have."""
        described = {name: value for name, value in self.describe().items() if name != "files"}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def retriever(self, k1: float, b: float, num_results: int, threads: int, terms: bool = False) -> Any:
        """PISA's own retriever over this index; queries have to go through :func:`plain` before. ``terms``: for ``query_toks``."""
        stops = self.describe()["stops"]
        folder = Path(self.path) / PISA
        return pisa.retriever(folder, stops=stops, k1=k1, b=b, num_results=num_results, threads=threads, terms=terms)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_described": None}  # another machine has to look for itself

    def __len__(self) -> int:
        return int(self.describe()["count"])

    def __repr__(self) -> str:
        return f"ikat.PassageIndex({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, PassageIndex) else NotImplemented

    def __hash__(self) -> int:
        return hash((PassageIndex, self.path))
