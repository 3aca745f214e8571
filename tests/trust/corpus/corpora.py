"""The corpora, by name: families of texts, each with the outcome that was decided by hand."""

from trust.corpus import (
    choice_verdicts,
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
    "answers": prose.answers,
    "refusals": refusals.cases,
    "thinking": thinking.cases,
    "values": values.cases,
}
