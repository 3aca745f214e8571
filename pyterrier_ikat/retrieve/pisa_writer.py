"""Runs PISA where it writes, as a process of its own: ``pisa_writer.py FOLDER K1 B [STEMMER THREADS]``.

With ``STEMMER THREADS`` it first builds an index from the lines ``docno text`` on standard input, up to a line `` whole`` or `` shard``.
Then it adds what BM25 needs for ``K1 B``, except to a shard. It ends when its parent does: what it writes would be in the way of the next.
"""

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path


class Passages:
    """The passages on standard input; ``are`` says what they were once they all went by: whole or shard."""

    are = ""

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Read them."""
        for line in sys.stdin.buffer:
            docno, _, text = line.decode().rstrip("\n").partition(" ")
            if not docno:
                self.are = text
                return
            yield {"docno": docno, "text": text}
        os._exit(1)  # the parent was killed: to PISA, half of the passages would be all


def main(folder: str, k1: str, b: str, stemmer: str | None = None, threads: str = "2") -> None:
    """Build the index in ``folder`` if there is a stemmer, and make it ready for BM25."""
    from pyterrier_pisa import PisaIndex, _pisathon

    if stemmer is not None:
        passages = Passages()
        PisaIndex(folder, text_field="text", stemmer=stemmer, threads=int(threads)).index(passages)
        for unread in ("fwd", "fwd.urls"):  # the first is as large as the index
            Path(folder, unread).unlink(missing_ok=True)
        if passages.are == "shard":
            return
    for name, lexicon in (("fwd.terms", "fwd.termlex"), ("fwd.documents", "fwd.doclex")):
        if not Path(folder, lexicon).exists():  # of shards that were merged
            _pisathon.build_binlex(str(Path(folder, name)), str(Path(folder, lexicon)))
    check_room(Path(folder))
    PisaIndex(folder).bm25(k1=float(k1), b=float(b))


def check_room(folder: Path) -> None:
    """End this process where the disk has no room for what BM25 needs: PISA would leave half of it without a word."""
    share = 0.1 if any(folder.glob("bm25.*.block_simdbp")) else 0.5  # of the postings; on passages it took 0.03 and 0.17
    wanted = int(share * sum((folder / name).stat().st_size for name in ("inv.docs", "inv.freqs")))
    free = shutil.disk_usage(folder).free
    if free < wanted:
        sys.exit(f"the disk has {free:,} bytes left, and {wanted:,} may be needed")


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, where the kernel can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
