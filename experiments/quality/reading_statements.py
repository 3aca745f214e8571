"""Compare the package's reading of real completions with a person's labels.

Usage: ``python experiments/quality/reading_statements.py COMPLETIONS.jsonl 2023_test_topics.json
LABELS.jsonl``

``COMPLETIONS.jsonl`` has ``qid``, ``shots`` (examples in the prompt) and ``completion`` in each
line; the topic file of TREC iKAT 2023 has the statements of the ids. Neither is part of the
project. ``LABELS.jsonl`` has ``qid``, ``shots`` and ``ids``: the statements that a person reads as
the choice, in order, or null if the completion is not usable. Next to this script are
``statements_development.jsonl``, with which the rule was developed, and
``statements_held_out.jsonl``, drawn at random and labelled by someone who had not seen the rule.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scipy.stats import beta

from pyterrier_ikat.completions.statements import choose, read_ids

OUTCOMES = ("as labelled", "failure or counted rest", "silently wrong")


def outcome(completion: str, label: list[str] | None, ptkb: Mapping[str, str]) -> str:
    """How the completion is read: one of ``OUTCOMES``. Only ids in the persona are a choice."""
    found = read_ids(completion)
    chosen = None if found is None else choose("ids", found, ptkb)
    ids = None if chosen is None else [number for number, _ in chosen.statements]
    wanted = (
        None if label is None else list(dict.fromkeys(number for number in label if number in ptkb))
    )
    if ids == wanted:
        return OUTCOMES[0]
    return OUTCOMES[1] if chosen is None or chosen.dropped else OUTCOMES[2]


def upper_bound(errors: int, of: int) -> float:
    """The upper end of the two-sided 95 % interval of Clopper and Pearson.

    Example:
        >>> round(upper_bound(0, 200), 4), round(upper_bound(1, 200), 4)
        (0.0183, 0.0275)
    """
    return 1.0 if errors == of else float(beta.ppf(0.975, errors + 1, of - errors))


def personas(topics: Path) -> dict[str, dict[str, str]]:
    """The statements of each conversation of a topic file."""
    return {
        str(topic["number"]): topic["ptkb"]
        for topic in json.loads(topics.read_text(encoding="utf-8"))
    }


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_all(
    completions: Iterable[Mapping[str, Any]],
    labels: Iterable[Mapping[str, Any]],
    ptkbs: Mapping[str, Mapping[str, str]],
) -> dict[str, list[str]]:
    """The labelled completions by outcome, each named by its turn and number of examples."""
    texts = {(row["qid"], row["shots"]): row["completion"] for row in completions}
    found: dict[str, list[str]] = {name: [] for name in OUTCOMES}
    for label in labels:
        qid, ids = label["qid"], label["ids"]
        wanted = None if ids is None else [str(number) for number in ids]
        name = outcome(texts[qid, label["shots"]], wanted, ptkbs[qid.rpartition("_")[0]])
        found[name].append(f"{qid} ({label['shots']} examples)")
    return found


def report(found: Mapping[str, list[str]]) -> str:
    """The counts, the completions not read as labelled, and a bound of the silently wrong share."""
    total = sum(map(len, found.values()))
    lines = [
        f"{name}: {len(turns)} of {total}"
        + (f": {', '.join(turns)}" if name != OUTCOMES[0] and turns else "")
        for name, turns in found.items()
    ]
    wrong = len(found[OUTCOMES[2]])
    return "\n".join(
        [
            *lines,
            f"silently wrong: {wrong / total:.1%}, at most {upper_bound(wrong, total):.1%} (95 %, "
            "two-sided, Clopper-Pearson)",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("completions", "topics", "labels"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    print(report(read_all(rows(given.completions), rows(given.labels), personas(given.topics))))
