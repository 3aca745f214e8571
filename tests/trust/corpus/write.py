"""Writes the corpora as JSON lines, from the families that were decided by hand: ``cd tests && python -m trust.corpus.write``."""

import json
from pathlib import Path

from trust.corpus import labels, lists, prose, statements

FOLDER = Path(__file__).parent
CORPORA = {
    "queries": lists.cases,
    "ids": statements.ids,
    "copies": statements.copies,
    "scores": statements.scores,
    "labels": labels.labels,
    "verdicts": labels.verdicts,
    "passages": prose.passages,
    "rewrites": prose.rewrites,
    "answers": prose.answers,
}


def lines(name):
    """The lines of a corpus."""
    return [json.dumps({"family": family, "text": text, "outcome": outcome}) for family, text, outcome in CORPORA[name]()]


if __name__ == "__main__":
    for name in CORPORA:
        (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines(name)), encoding="utf-8")
