"""TREC's files by turn, as plain Python: rankings and judgements. Errors name the faulty line."""

import codecs
import gzip
import io
import math
import re
import zlib
from functools import lru_cache
from pathlib import Path
from typing import IO

from ..errors import DataError

_GZIP = b"\x1f\x8b"
_LABEL = re.compile(r"[+-]?[0-9]{1,4}")
"""For larger labels, trec_eval would make tables that don't fit into memory."""
_RUN_LINE = "qid Q0 docno rank score name"
_JUDGEMENT = "a line is: qid 0 docno label"


def is_run_file(path: Path) -> bool:
    """Whether a path is, or would be, that of a run file: no folder and no submission.

    A submission begins with a brace or bracket.
    """
    if not path.is_file():
        return not path.is_dir()
    with path.open("rb") as file:
        beginning = file.read(64).lstrip(codecs.BOM_UTF8 + b" \t\r\n")
    return not beginning.startswith((b"{", b"["))


def read_rankings(path: str | Path) -> dict[str, dict[str, float]]:
    """The scores of a run file: turn -> passage -> score, in the order of the lines.

    The file may be compressed with gzip.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line does not have six
            fields, a score is not a finite number, or a passage occurs twice for a turn.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(
            f"there is no run file {path}: give a folder made by `ikat run`, a TREC run file or a "
            "submission"
        )
    try:
        rankings = _rankings(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} can't be read ({error}): give a TREC run as plain text, or packed by gzip"
        ) from None
    if not rankings:
        raise DataError(f"{path} is empty: a run has lines `{_RUN_LINE}`")
    return rankings


def _open_unpacked(path: Path) -> IO[bytes]:
    """A file that may be packed by gzip. It is unpacked at once, so that damage is found."""
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP
    if is_packed:
        return io.BytesIO(gzip.decompress(path.read_bytes()))
    return path.open("rb")


def _rankings(path: Path) -> dict[str, dict[str, float]]:
    rankings: dict[str, dict[str, float]] = {}
    with _open_unpacked(path) as file:
        for number, line in enumerate(file, 1):
            # Bytes are split at ASCII white space, as in trec_eval.
            fields = line.removeprefix(codecs.BOM_UTF8).split()
            if not fields:
                continue
            try:
                qid, docno, score = _retrieved(fields)
            except ValueError:
                shown = line.decode(errors="replace").strip()[:80]
                raise DataError(
                    f"{path}, line {number}: {shown!r} is not `{_RUN_LINE}` with a finite score, "
                    "in UTF-8"
                ) from None
            ranking = rankings.setdefault(qid, {})
            if docno in ranking:
                raise DataError(
                    f"{path}, line {number}: passage {docno} occurs twice for turn {qid}"
                )
            ranking[docno] = score
    return rankings


def _retrieved(fields: list[bytes]) -> tuple[str, str, float]:
    """The turn, passage and score of a line of a run.

    Raises:
        ValueError: when there are not six fields, one is not UTF-8, or the score is not a finite
            number.
    """
    qid, _, docno, _, text, _ = fields
    score = float(text)
    if not math.isfinite(score) or b"_" in text:  # Python reads 1_0 as ten
        raise ValueError
    return qid.decode(), docno.decode(), score


def read_judgements(path: str | Path) -> list[tuple[str, str, int]]:
    """The judgements of a qrels file: turn, passage and label, in the file's order.

    The file may be compressed with gzip.

    Raises:
        DataError: when a line is faulty; it names file and line.
    """
    judgements: dict[tuple[str, str], int] = {}
    for number, line in enumerate(_qrels_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            qid, _, docno, text = fields
            label = read_label(text)
        except ValueError:
            raise DataError(
                f"{path}, line {number}: {line.strip()[:80]!r} is not a judgement: {_JUDGEMENT}, "
                "with a whole number of at most 4 digits as label"
            ) from None
        if (qid, docno) in judgements:
            raise DataError(
                f"{path}, line {number}: {qid} and {docno} were judged before: keep one of the two "
                "lines"
            )
        judgements[qid, docno] = label
    if not judgements:
        raise DataError(f"{path}: no judgement in it; fetch the file again ({_JUDGEMENT})")
    return [(qid, docno, label) for (qid, docno), label in judgements.items()]


def _qrels_lines(path: str | Path) -> list[str]:
    try:
        content = Path(path).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; give the path of a qrels file ({_JUDGEMENT})"
        ) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: not a readable text file ({error}); give a qrels file ({_JUDGEMENT})"
        ) from None


@lru_cache(maxsize=1024)
def read_label(label: object) -> int:
    """The value of a label that is given as text or as a number.

    Raises:
        ValueError: when it is not a whole number of at most 4 digits.

    Example:
        >>> read_label("-1"), read_label(3.0)
        (-1, 3)
    """
    text = label if isinstance(label, str) else repr(float(label)).removesuffix(".0")  # type: ignore[arg-type]
    if not _LABEL.fullmatch(text):
        raise ValueError
    return int(text)
