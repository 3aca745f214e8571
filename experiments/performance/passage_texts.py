"""The texts of a query's 1000 passages: ours, sqlite with zlib for each text, as in earlier indexes, and plain text in a mapped file.

The store has 50,000 passages: the 700 real ones of ikat:2023-mini, repeated. Our file is too small here, because its dictionary has pieces
of the stored texts; ``tests/retrieve/test_texts.py`` measures the size for documents that are not in the dictionary. The second row is a
query of 5 words over synthetic passages (see ``index_build.py``), 100,000 or as many as ``IKAT_BENCH_PASSAGES`` says, with ``index.bm25()``
and the texts of the index. It is compared with the texts of a sqlite file, and its limit is PISA alone.
"""

import mmap
import os
import random
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd
import pyterrier as pt
from bench import Row, anew, median_seconds
from bm25 import DEPTH, QUERIES, _queries
from index_build import build, write_files

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.artifact import add_texts
from pyterrier_ikat.retrieve.corpus import write_texts
from pyterrier_ikat.retrieve.pisa import open_bm25
from pyterrier_ikat.retrieve.texts import TextStore

STORED, ASKED, ROUNDS = 50_000, 1000, 20
PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
AT_ONCE = 500
SCHEMA = """
PRAGMA page_size = 16384;
CREATE TABLE passages (number INTEGER PRIMARY KEY, docno TEXT NOT NULL UNIQUE, text BLOB NOT NULL);
"""


def rows() -> Iterator[Row]:
    """A query's texts alone, and after a short query."""
    with tempfile.TemporaryDirectory() as name:
        yield _texts(Path(name))
    with tempfile.TemporaryDirectory() as name:
        yield _short_query(Path(name))


def _texts(folder: Path) -> Row:
    real = [passage["text"] for passage in pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False)]
    passages = {f"clueweb22-en0000-{n // 1500:02d}-{n // 15:05d}:{n % 15}": real[n % len(real)] for n in range(STORED)}
    write_texts(folder / "ours", ({"docno": docno, "text": text} for docno, text in passages.items()))
    write_sqlite(folder / "sqlite", passages.items())
    draw = random.Random(3)
    asked = [draw.sample([*passages], ASKED) for _ in range(ROUNDS)]
    ways: dict[str, Callable[[Sequence[str]], list[str]]] = {
        "ours": TextStore(folder / "ours").read,
        "sqlite": partial(read_sqlite, folder / "sqlite"),
        "plain": _plain(folder / "plain", passages),
    }
    for read in ways.values():
        assert read(asked[0]) == [passages[docno] for docno in asked[0]]
    seconds = {name: median_seconds(lambda read=read: [read(docnos) for docnos in asked]) / ROUNDS for name, read in ways.items()}
    sizes = {name: (folder / name).stat().st_size for name in ways}
    return Row(
        task=f"{ASKED} texts of a query among {STORED:,} real passages",
        ours=seconds["ours"],
        today=seconds["sqlite"],
        instead="sqlite with a zlib per text",
        limit=seconds["plain"],
        why="plain text in a mapped file, each text's place in a dictionary in memory",
        more={"size, of sqlite's": sizes["ours"] / sizes["sqlite"], "size, of the plain text's": sizes["ours"] / sizes["plain"]},
    )


def _short_query(folder: Path) -> Row:
    source, target = folder / "passages", folder / "index"
    source.mkdir()
    write_files(source, PASSAGES)
    build(source, target, threads=2)
    write_sqlite(folder / "sqlite", ((passage["docno"], passage["text"]) for passage in ikat.PassageFiles(source)))
    queries, index = _queries(5), ikat.PassageIndex(target)
    before = ikat.PassageIndex(target, text=pt.apply.generic(lambda found: add_texts(found, partial(read_sqlite, folder / "sqlite"))))
    alone = open_bm25(index.pisa, stops="lucene", k1=0.9, b=0.4, threads=min(max(os.cpu_count() or 2, 2), 16))
    alone.num_results = DEPTH
    ours, today = (one.bm25(num_results=DEPTH, engine="pisa") for one in (index, before))
    pd.testing.assert_frame_equal(ours(queries), today(queries))
    seconds = [median_seconds(work, repeats=7) / QUERIES for work in (partial(anew, ours, queries), partial(anew, today, queries))]
    return Row(
        task=f"short query (5 words), {PASSAGES:,} passages, {DEPTH} texts, seconds per query",
        ours=seconds[0],
        today=seconds[1],
        instead="index.bm25() with the texts from sqlite with a zlib per text",
        limit=median_seconds(lambda: alone(queries), repeats=7) / QUERIES,
        why=f"PISA alone, {alone.threads} threads: docnos and scores, no texts",
    )


def write_sqlite(path: Path, passages: Iterable[tuple[str, str]]) -> None:
    """Store texts as in earlier indexes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        packed = ((number, docno, zlib.compress(text.encode())) for number, (docno, text) in enumerate(passages))
        connection.executemany("INSERT INTO passages VALUES (?, ?, ?)", packed)
        connection.commit()


def read_sqlite(path: Path, docnos: Sequence[str]) -> list[str]:
    """Read texts as in earlier indexes."""
    found: dict[str, str] = {}
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for start in range(0, len(docnos), AT_ONCE):
            part = docnos[start : start + AT_ONCE]
            asked = f"SELECT docno, text FROM passages WHERE docno IN ({','.join('?' * len(part))})"
            found |= {docno: zlib.decompress(packed).decode() for docno, packed in connection.execute(asked, part)}
    return [found[docno] for docno in docnos]


def _plain(path: Path, passages: Mapping[str, str]) -> Callable[[Sequence[str]], list[str]]:
    places: dict[str, tuple[int, int]] = {}
    with path.open("wb") as file:
        for docno, text in passages.items():
            start = file.tell()
            places[docno] = (start, start + file.write(text.encode()))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return lambda docnos: [mapped[slice(*places[docno])].decode() for docno in docnos]
