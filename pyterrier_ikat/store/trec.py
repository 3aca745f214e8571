"""TREC's files by turn, as plain Python: rankings and judgements. Errors name the faulty line."""

import codecs
import gzip
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import DataError

_GZIP = b"\x1f\x8b"
_LABEL = re.compile(r"[+-]?[0-9]{1,4}")
"""For larger labels, trec_eval would make tables that don't fit into memory."""
_JUDGEMENT = "a line is: qid 0 docno label"


def is_run_file(path: Path) -> bool:
    """Whether a path is, or would be, that of a run file: neither a folder nor a submission, which begins with a brace or bracket."""
    if not path.is_file():
        return not path.is_dir()
    with path.open("rb") as file:
        return not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


def read_rankings(path: str | Path) -> dict[str, dict[str, float]]:
    """The scores of a run file, which may be compressed with gzip: turn -> passage -> score, in the order of the lines.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line does not have six fields, a score is not a finite number,
            or a passage occurs twice for a turn.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no run file {path}: give a folder made by `ikat run`, a TREC run file or a submission")
    try:
        found = _rankings(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} can't be read ({error}): give a TREC run as plain text, or packed by gzip") from None
    if not found:
        raise DataError(f"{path} is empty: a run has lines `qid Q0 docno rank score name`")
    return found


def _rankings(path: Path) -> dict[str, dict[str, float]]:
    found: dict[bytes, dict[bytes, bytes]] = {}
    rows, last = 0, None
    try:
        with _opened(path) as file:
            for line in _behind_mark(file):
                if not line.isspace():
                    qid, _, docno, _, score, _ = line.split()  # at ASCII white space, as in trec_eval
                    if qid != last:
                        turn, last = found.setdefault(qid, {}), qid
                    turn[docno] = score
                    rows += 1
        if rows > sum(map(len, found.values())):
            raise ValueError
        return {qid.decode(): _scores(turn) for qid, turn in found.items()}
    except ValueError:  # not six fields, a passage twice, no finite number, or not UTF-8
        _name_the_fault(path)
        raise


def _scores(turn: dict[bytes, bytes]) -> dict[str, float]:
    scores = list(map(float, turn.values()))
    if not math.isfinite(sum(map(abs, scores))) or b"_" in b"".join(turn.values()):
        for text in turn.values():
            _number(text.decode())
    return dict(zip(b" ".join(turn).decode().split(" "), scores, strict=True))


def _number(text: str) -> float:
    if "_" in text or not text.isascii() or not math.isfinite(float(text)):  # Python reads 1_0 as ten, and accepts the digits of any script
        raise ValueError
    return float(text)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]  # a GzipFile is read like a file


def _behind_mark(file: IO[bytes]) -> IO[bytes]:
    if file.read(3) != codecs.BOM_UTF8:
        file.seek(0)
    return file


def _name_the_fault(path: Path) -> None:
    seen: set[tuple[str, str]] = set()
    with _opened(path) as file:
        for number, line in enumerate(_behind_mark(file), 1):
            if not line.isspace():
                qid, docno = _pair(f"{path}, line {number}", line)
                if (qid, docno) in seen:
                    raise DataError(f"{path}, line {number}: passage {docno} occurs twice for turn {qid}") from None
                seen.add((qid, docno))


def _pair(where: str, line: bytes) -> tuple[str, str]:
    """The turn and the passage of a line, after checking the whole line."""
    try:
        texts = [field.decode("utf-8") for field in line.split()]
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 (byte {error.object[error.start]:#04x}): give a TREC run as plain text") from None
    if len(texts) != 6:
        raise DataError(f"{where}: {len(texts)} fields instead of the six of `qid Q0 docno rank score name`") from None
    try:
        _number(texts[4])
    except ValueError:
        raise DataError(f"{where}: the score {texts[4]!r} is not a finite number") from None
    return texts[0], texts[2]


def read_judgements(path: str | Path) -> list[tuple[str, str, int]]:
    """The judgements of a qrels file: turn, passage and label, in the file's order.

    Raises:
        DataError: when a line is faulty; it names file and line.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give the path of a qrels file ({_JUDGEMENT})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable text file ({error}); give a qrels file ({_JUDGEMENT})") from None
    found = list(_judgements(path, lines))
    if not found:
        raise DataError(f"{path}: no judgement in it; fetch the file again ({_JUDGEMENT})")
    return found


def _judgements(path: Path, lines: list[str]) -> Iterator[tuple[str, str, int]]:
    first: dict[tuple[str, str], int] = {}
    known: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        try:
            qid, _, docno, label = fields
            value = known[label] if label in known else known.setdefault(label, read_label(label))
        except ValueError:
            raise DataError(
                f"{path}, line {number}: {line.strip()[:80]!r} is not a judgement: {_JUDGEMENT}, "
                "with a whole number of at most 4 digits as label"
            ) from None
        if first.setdefault((qid, docno), number) != number:
            there = first[qid, docno]
            raise DataError(f"{path}, line {number}: {qid} and {docno} were judged in line {there} already: keep one of the two")
        yield qid, docno, value


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
