"""Writes the corpora as JSON lines, from the families that were decided by hand: ``cd tests && python -m trust.corpus.write``."""

import json
from pathlib import Path

from trust.corpus import (
    choice_verdicts,
    clarified,
    judgements,
    labels,
    lists,
    number_verdicts,
    prose,
    refusals,
    score_verdicts,
    statements,
    thinking,
    values,
    yes_no_verdicts,
)

FOLDER = Path(__file__).parent
CORPORA = {
    "queries": lists.cases,
    "ids": statements.ids,
    "copies": statements.copies,
    "scores": statements.scores,
    "labels": labels.labels,
    "judgements": judgements.cases,
    "score_verdicts": score_verdicts.cases,
    "yes_no_verdicts": yes_no_verdicts.cases,
    "choice_verdicts": choice_verdicts.cases,
    "number_verdicts": number_verdicts.cases,
    "passages": prose.passages,
    "rewrites": prose.rewrites,
    "clarified": clarified.cases,
    "answers": prose.answers,
    "refusals": refusals.cases,
    "thinking": thinking.cases,
    "values": values.cases,
    "cut_off": values.cut_off,
}


def lines(name):
    """The lines of a corpus."""
    return [json.dumps({"family": family, "text": text, "outcome": outcome}) for family, text, outcome in CORPORA[name]()]


if __name__ == "__main__":
    for name in CORPORA:
        (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines(name)), encoding="utf-8")
