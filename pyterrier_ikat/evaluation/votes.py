"""Blind votes of people on two systems' answers to the same question, as the chat page exports them, and the sign test on them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError

VOTES = ("left", "right", "tie", "neither")
FIELDS = ("conversation", "turn", "left", "right", "vote")


def sign_test(wins: int, losses: int) -> float:
    """The probability of a difference as large as this or larger, if neither side were better: the two-sided exact sign test.

    Example:
        >>> round(sign_test(8, 1), 4), sign_test(0, 0)
        (0.0391, 1.0)
    """
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def count_votes(paths: str | Path | Sequence[str | Path]) -> pd.DataFrame:
    r"""Count the votes in exports of the chat page.

    A vote that is exported twice counts once, as it was last. Votes on one conversation may depend on each other, which the test
    does not know.

    Args:
        paths: the exported files, of JSON lines with ``conversation``, ``turn``, ``left``, ``right`` and ``vote``.

    Returns:
        One row per pair of systems: ``system`` and ``other`` (in the order of the alphabet), ``wins`` and ``losses`` of the first,
            ``ties``, ``neither`` (both answers bad), ``conversations``, and ``p`` of the sign test on wins and losses.

    Raises:
        DataError: naming file and line of what is not a vote, and when there are no votes.

    Example:
        >>> import tempfile
        >>> vote = {"conversation": "c", "utterance": "Which tea?", "left": "gtr", "right": "ad"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "votes.jsonl"
        ...     _ = path.write_text("\n".join(json.dumps({**vote, "turn": turn, "vote": "right"}) for turn in (1, 2)))
        ...     count_votes(path).values.tolist()
        [['ad', 'gtr', 2, 0, 0, 0, 1, 0.5]]
    """
    files = [paths] if isinstance(paths, str | Path) else paths
    votes = {(vote["conversation"], vote["turn"], *_pair(vote)): vote for path in files for vote in _read(Path(path))}
    if not votes:
        raise DataError("the files have no votes: export them from the chat page")
    rows = []
    for system, other in sorted({_pair(vote) for vote in votes.values()}):
        cast = [vote for vote in votes.values() if _pair(vote) == (system, other)]
        told = Counter(vote[vote["vote"]] if vote["vote"] in ("left", "right") else (vote["vote"],) for vote in cast)
        counts = {"wins": told[system], "losses": told[other], "ties": told[("tie",)], "neither": told[("neither",)]}
        conversations = len({vote["conversation"] for vote in cast})
        p = sign_test(counts["wins"], counts["losses"])
        rows.append({"system": system, "other": other, **counts, "conversations": conversations, "p": p})
    return pd.DataFrame(rows)


def _pair(vote: dict[str, Any]) -> tuple[str, str]:
    first, second = sorted((vote["left"], vote["right"]))
    return first, second


def _read(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # a question may have other line separators, which splitlines takes
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read ({error}): give a file of votes that the chat page exported") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _vote(line, f"{path}:{number}")


def _vote(line: str, where: str) -> dict[str, Any]:
    try:
        vote = json.loads(line)
        wrong = [name for name in FIELDS if not isinstance(vote[name], int if name == "turn" else str)]
    except (ValueError, TypeError, KeyError, RecursionError):
        wrong = list(FIELDS)
    if wrong or vote["vote"] not in VOTES or vote["left"] == vote["right"]:
        raise DataError(f"{where} is not a vote: each line has {', '.join(FIELDS)}, with one of {', '.join(VOTES)} on two systems")
    return dict(vote)
