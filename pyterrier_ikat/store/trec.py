"""TREC's files by turn, as plain Python: rankings and judgements. Errors name the faulty line."""

import codecs
import gzip
import math
import re
import zlib
from functools import lru_cache
from pathlib import Path

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
    found: dict[str, dict[str, float]] = {}
    last = None
    with path.open("rb") as opened:
        packed = opened.read(2) == _GZIP
    with gzip.open(path) if packed else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            fields = line.removeprefix(codecs.BOM_UTF8).split()  # at ASCII white space, as in trec_eval
            if not fields:
                continue
            try:
                qid, _, docno, _, text, _ = fields
                score, name = float(text), docno.decode()
                if qid != last:
                    turn, last = found.setdefault(qid.decode(), {}), qid
            except ValueError:
                raise DataError(f"{path}, line {number}: {_fault(fields)}") from None
            if name in turn or b"_" in text or not math.isfinite(score):  # Python reads 1_0 as ten
                raise DataError(f"{path}, line {number}: {_fault(fields)}")
            turn[name] = score
    return found


def _fault(fields: list[bytes]) -> str:
    """What is wrong with a line."""
    try:
        texts = [field.decode() for field in fields]
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.object[error.start]:#04x}): give a TREC run as plain text"
    if len(texts) != 6:
        return f"{len(texts)} fields instead of the six of `qid Q0 docno rank score name`"
    try:
        if "_" not in texts[4] and math.isfinite(float(fields[4])):
            return f"passage {texts[2]} occurs twice for turn {texts[0]}"
    except ValueError:
        pass
    return f"the score {texts[4]!r} is not a finite number"


def read_judgements(path: str | Path) -> list[tuple[str, str, int]]:
    """The judgements of a qrels file: turn, passage and label, in the file's order.

    Raises:
        DataError: when a line is faulty; it names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give the path of a qrels file ({_JUDGEMENT})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable text file ({error}); give a qrels file ({_JUDGEMENT})") from None
    found: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, 1):
        if not (fields := line.split()):
            continue
        try:
            qid, _, docno, label = fields
            value = read_label(label)
        except ValueError:
            told = f"{line.strip()[:80]!r} is not a judgement: {_JUDGEMENT}, with a whole number of at most 4 digits as label"
            raise DataError(f"{path}, line {number}: {told}") from None
        if (qid, docno) in found:
            raise DataError(f"{path}, line {number}: {qid} and {docno} were judged before: keep one of the two lines")
        found[qid, docno] = value
    if not found:
        raise DataError(f"{path}: no judgement in it; fetch the file again ({_JUDGEMENT})")
    return [(qid, docno, label) for (qid, docno), label in found.items()]


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
