"""The program that runs PISA when it writes: ``pisa_writer.py FOLDER JOB``, with JOB in JSON.

``kind`` is ``"text"`` or ``"impacts"``. ``build`` says whether an index is built in FOLDER first, from the lines on standard input:
``docno text``, or the name of a file of encoded passages. A line `` whole`` or `` shard`` ends them. Then the files for retrieval are
added, unless it is a shard: for BM25 with ``k1`` and ``b``, or for the dot product of impacts.

It runs as a script, so it imports nothing from the package. It ends when its parent ends, so that its files aren't in the way of the next
one.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

DOCUMENTS_AT_ONCE = 20_000
"""Encoded passages in PISA's memory: its default of 100,000 takes gigabytes for passages of hundreds of terms."""


class Lines:
    """The lines on standard input. Once all are read, ``end`` is the word after the last one: whole or shard."""

    end = ""

    def __iter__(self) -> Iterator[str]:
        """Read the lines."""
        for line in sys.stdin.buffer:
            text = line.decode().rstrip("\n")
            if text.startswith(" "):
                self.end = text[1:]
                return
            yield text
        os._exit(1)  # the parent was killed: to PISA, half of the passages would be all


def main(folder: str, job: str) -> None:
    """Do the job in ``folder``."""
    given = json.loads(job)
    (write_impacts if given.pop("kind") == "impacts" else write_text)(Path(folder), **given)


def write_text(folder: Path, *, k1: float, b: float, build: bool, stemmer: str = "none", threads: int = 2) -> None:
    """Build an index of words if there is something to index, and make it ready for BM25."""
    from pyterrier_pisa import PisaIndex, _pisathon

    if build:
        lines = Lines()
        PisaIndex(str(folder), text_field="text", stemmer=stemmer, threads=threads).index(passages(lines))
        for unread in ("fwd", "fwd.urls"):  # the first is as large as the index
            (folder / unread).unlink(missing_ok=True)
        if lines.end == "shard":
            return
    for name, lexicon in (("fwd.terms", "fwd.termlex"), ("fwd.documents", "fwd.doclex")):
        if not (folder / lexicon).exists():  # of shards that were merged
            _pisathon.build_binlex(str(folder / name), str(folder / lexicon))
    check_room(folder)
    PisaIndex(str(folder)).bm25(k1=k1, b=b)


def passages(lines: Lines) -> Iterator[dict[str, str]]:
    """The input of PISA for each line ``docno text``."""
    for line in lines:
        docno, _, text = line.partition(" ")
        yield {"docno": docno, "text": text}


def write_impacts(folder: Path, *, build: bool) -> None:
    """Build an index of impacts if there is something to index, and make it ready for the dot product."""
    from pyterrier_pisa import PisaIndex

    index = PisaIndex(str(folder), stemmer="none", stops="none", batch_size=DOCUMENTS_AT_ONCE)
    if build:
        index.toks_indexer("toks", scale=1).index(encoded_passages(Lines()))
    index.quantized()


def encoded_passages(files: Lines) -> Iterator[dict[str, Any]]:
    """The input of PISA for each file of encoded passages."""
    for name in files:
        with np.load(name, allow_pickle=False) as batch:
            docnos, ends, terms, weights = (batch[field].tolist() for field in ("docnos", "ends", "terms", "weights"))
        start = 0
        for docno, end in zip(docnos, ends, strict=True):
            yield {"docno": docno, "toks": {str(terms[i]): weights[i] for i in range(start, end)}}
            start = end


def check_room(folder: Path) -> None:
    """End this process if the disk has no space for BM25's files: PISA would leave half of them without an error."""
    share = 0.1 if any(folder.glob("bm25.*.block_simdbp")) else 0.5  # of the postings; on passages it took 0.03 and 0.17
    wanted = int(share * sum((folder / name).stat().st_size for name in ("inv.docs", "inv.freqs")))
    free = shutil.disk_usage(folder).free
    if free < wanted:
        sys.exit(f"the disk has {free:,} bytes left, and {wanted:,} may be needed")


def end_with_parent() -> None:
    """Let the kernel end this process when its parent ends, if the kernel supports it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
