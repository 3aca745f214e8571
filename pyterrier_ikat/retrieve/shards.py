"""Indexing in shards, so that a build of hours can be interrupted: finished shards are kept, and the same call resumes after them.

A shard is a sequence of passages. Its texts are committed to the text store together with its checksum, once PISA's index of the shard is
on disk. At the end PISA's indexes are merged into the index that PISA would have made of all passages. For each term, in the order of the
bytes, PISA keeps the list of its passages and the list of its counts: a length and that many numbers, all 32 bits wide. So all shards can
be read in parallel from beginning to end, and only one term's list of one shard is in memory at a time.
"""

import errno
import re
import shutil
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import accumulate, chain, groupby, islice, repeat
from operator import itemgetter
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import DataError, advice
from ..progress import bar
from ..store.files import atomic_write, flush, link, replace
from . import pisa
from .corpus import Corpus, CorpusReader, check_expected
from .eager_writer import write_words
from .retriever import EAGER_UP_TO, ENGINES, has_pisa
from .text_writer import TextWriter
from .words import ascii_text, build_lists

SHARD = EAGER_UP_TO
BUFFERS = 1 << 26
"""Bytes for the buffers of all files together, because there may be hundreds of shards."""


def index_shards(
    workplace: Path,
    texts: str,
    corpus: Corpus,
    *,
    stemmer: str,
    threads: int,
    k1: float,
    b: float,
    expected: int | None = None,
    engine: str | None = None,
) -> CorpusReader:
    """Store a corpus in ``workplace/index/<texts>`` and index it in ``workplace/index``, after any existing shards.

    Without an ``engine`` the first shard is inverted here. PISA, if installed, inverts the following shards.

    Returns:
        The corpus after reading, with its count and checksum.

    Raises:
        DataError: when the corpus is empty or malformed, or differs from that of the finished shards, or PISA fails.
    """
    folder, shards = workplace / "index", workplace / "shards"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name != texts:  # from an index that was never finished, or from another version of the package
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shards.mkdir(exist_ok=True)
    reading = CorpusReader(corpus)
    reading.refuse_empty()
    with _name_full_disk(workplace):
        with TextWriter(folder / texts, workplace / "texts") as writer:
            paths = _read_finished(writer, reading, shards, stemmer)
            while reading.more():
                paths.append(shards / f"{len(paths):05d}")
                by_pisa = engine in ("pisa", "both") or (engine is None and len(paths) > 1 and has_pisa())
                build = pisa.build_text if by_pisa else build_lists
                _add_shard(build, writer, reading, paths[-1], stemmer, threads, (k1, b))
            check_expected(reading.count, expected)
            writer.finish()
        _join_shards(paths, folder / "pisa", k1, b, _engines(engine, len(paths)))
    return reading


def keep_order(workplace: Path, order: str) -> None:
    """Remove finished shards whose passages were read in another order. The order changes once the folder of the index has texts.

    Args:
        workplace: the folder of a build, perhaps an interrupted one.
        order: the name of the order in which the passages are read now.
    """
    noted = workplace / "order.txt"
    if noted.exists() and noted.read_text(encoding="utf-8") == order:
        return
    if noted.exists() or order != "corpus":
        for name in ("shards", "texts"):
            shutil.rmtree(workplace / name, ignore_errors=True)
    with atomic_write(noted) as file:
        file.write(order)


def holds_shards(workplace: Path) -> bool:
    """Whether an interrupted build left something worth keeping in ``workplace``."""
    return any((workplace / "shards").glob("?????"))


def _engines(asked: str | None, shards: int) -> Collection[str]:
    """The engines that an index is built for: by default the eager one for a single shard, else PISA where it is installed."""
    if asked is None:
        return ["pisa"] if shards > 1 and has_pisa() else ["eager"]
    return ENGINES if asked == "both" else [asked]


def _join_shards(shards: list[Path], folder: Path, k1: float, b: float, engines: Collection[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if len(shards) == 1:
        shutil.copytree(shards[0], folder, copy_function=link)
    else:
        merge_shards(shards, folder)
    if "eager" in engines:
        write_words(folder.with_name("eager"), folder, k1, b)
    if "pisa" not in engines:
        shutil.rmtree(folder)
    elif not all(path.exists() for path in pisa.bm25_files(folder, k1, b)):
        pisa.make_bm25_ready(folder, k1, b)


@contextmanager
def _name_full_disk(workplace: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"{workplace} can't be written to ({error}): free some space there, and the same call continues where it stopped"
        ) from None


def _read_finished(writer: TextWriter, reading: CorpusReader, shards: Path, stemmer: str) -> list[Path]:
    for count, sha256, made_by, _ in writer.commits:
        start = reading.count
        for _ in islice(reading, count):
            pass
        if (reading.count - start, reading.sha256(), stemmer) != (count, sha256, made_by):
            what = f"with stemmer={made_by!r}" if stemmer != made_by else f"of other passages (somewhere in {start + 1} to {start + count})"
            raise DataError(
                f"{shards.parent} holds an interrupted build {what}: give the same corpus and options, or remove it to start over"
            )
    paths = [shards / f"{number:05d}" for number in range(len(writer.commits))]
    if lost := [path for path in paths if not path.is_dir()]:
        raise DataError(f"{lost[0]} is missing, a part of an interrupted build: put it back, or remove {shards.parent} to start over")
    for path in set(shards.iterdir()).difference(paths):
        shutil.rmtree(path)
    return paths


def _add_shard(
    build: Callable[..., int], writer: TextWriter, reading: CorpusReader, path: Path, stemmer: str, threads: int, bm25: tuple[float, float]
) -> None:
    start = reading.count
    unfinished = path.with_name(f"{path.name}.tmp")
    passages = writer.store(islice(reading, SHARD), reading.name, threads)
    words = _refuse_wordless(((docno, ascii_text(text)) for docno, text in passages), reading)
    indexed = build(
        unfinished, words, stemmer=stemmer, threads=threads, k1=bm25[0], b=bm25[1], whole=lambda: start == 0 and not reading.more()
    )
    count = reading.count - start
    pisa.check_count(indexed, count)
    check_written(unfinished, count)
    for written in (*unfinished.iterdir(), unfinished):
        flush(written)
    replace(unfinished, path)
    flush(path.parent)
    writer.commit(reading.sha256(), stemmer)


def _refuse_wordless(passages: Iterator[tuple[str, str]], reading: CorpusReader) -> Iterable[tuple[str, str]]:
    """The passages. If none has a word, raise an error, because PISA would fail."""
    wordless: list[tuple[str, str]] = []
    for docno, text in passages:
        if re.search("[0-9A-Za-z]", text):
            return chain(wordless, [(docno, text)], passages)
        wordless.append((docno, ""))
    other = advice("ikat.Splade(model).index(path, corpus)", "--splade MODEL")
    raise DataError(
        f"passages {reading.count - len(wordless) + 1} to {reading.count} of the corpus have no word: BM25 finds words of ASCII letters "
        f"and digits. Check the texts, or use {other} with a model of their language"
    )


def check_written(folder: Path, count: int) -> None:
    """Check that the lists of a PISA index are complete and cover ``count`` passages.

    Raises:
        DataError: when a file is cut short.
    """
    docs = np.memmap(folder / "inv.docs", dtype="<u4", mode="r")
    place, terms = 2, 0
    while place < len(docs):
        place += 1 + int(docs[place])
        terms += 1
    sizes = {"inv.docs": 4 * place, "inv.freqs": 4 * (place - 2), "inv.sizes": 4 * (count + 1)}
    found = {name: ((folder / name).stat().st_size, size) for name, size in sizes.items()}
    for name, lines in (("fwd.terms", terms), ("fwd.documents", count)):
        found[name] = ((folder / name).read_bytes().count(b"\n"), lines)
    for name, (there, expected) in found.items():
        if there != expected:
            raise DataError(
                f"PISA left {folder / name} cut short ({there} of {expected}): "
                "the disk was full; free some space there, and the same call continues"
            )


def merge_shards(shards: Sequence[Path], folder: Path) -> None:
    """Merge PISA indexes.

    Args:
        shards: the folders of the indexes, in the order of the passages.
        folder: the folder to create. PISA's lexicons and its files for BM25 have to be added later.
    """
    folder.mkdir()
    starts = [0, *accumulate(int(np.fromfile(shard / "inv.sizes", "<u4", 1)[0]) for shard in shards)]
    shutil.copyfile(shards[0] / "pt_meta.json", folder / "pt_meta.json")
    with (folder / "fwd.documents").open("wb") as documents, (folder / "inv.sizes").open("wb") as lengths:
        lengths.write(_words(starts[-1]))
        for shard in shards:
            documents.write((shard / "fwd.documents").read_bytes())
            lengths.write((shard / "inv.sizes").read_bytes()[4:])
    _merge_postings(shards, starts, folder)


def _merge_postings(shards: Sequence[Path], starts: Sequence[int], folder: Path) -> None:
    buffer = max(BUFFERS // (3 * len(shards) + 3), 1 << 15)
    _allow_open_files(3 * len(shards) + 100)
    with ExitStack() as opened:
        terms, docs, freqs = (
            [opened.enter_context((shard / name).open("rb", buffer)) for shard in shards] for name in ("fwd.terms", "inv.docs", "inv.freqs")
        )
        all_terms, all_docs, all_freqs = (
            opened.enter_context((folder / name).open("wb", buffer)) for name in ("fwd.terms", "inv.docs", "inv.freqs")
        )
        all_docs.write(_words(1, starts[-1]))
        for file in docs:
            file.seek(8)  # after the same two numbers
        streams = [zip(file, repeat(shard)) for shard, file in enumerate(terms)]  # noqa: B905
        for term, found in groupby(bar(merge(*streams), desc="merging terms", unit="term"), key=itemgetter(0)):
            having = [shard for _, shard in found]
            all_terms.write(term)
            _copy_term(having, docs, all_docs, starts)
            _copy_term(having, freqs, all_freqs, [0] * len(starts))


def _allow_open_files(count: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count and soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))


def _copy_term(having: Sequence[int], files: Sequence[IO[bytes]], out: IO[bytes], offsets: Sequence[int]) -> None:
    lengths = [int.from_bytes(files[shard].read(4), "little") for shard in having]
    out.write(_words(sum(lengths)))
    for shard, length in zip(having, lengths, strict=True):
        numbers, offset = files[shard].read(4 * length), offsets[shard]
        out.write((np.frombuffer(numbers, dtype="<u4") + np.uint32(offset)).tobytes() if offset else numbers)


def _words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)
