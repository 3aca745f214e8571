"""The turns of a report, with the runs side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...conversations.frame import statements_of
from ...errors import DataError, counted
from ...evaluation.scores import natural_key
from .material import Material, RunData
from .means import Scores
from .page import Call, Group, Note, Passage, Side, Step, Unit

LONG = 60
"""From how many words on a query is folded."""
LENGTHS = (None, 4000, 1000, 250)
"""How many characters of each message of a prompt are shown; fewer if a page has many calls."""
CHARACTERS = 4_000_000
"""The maximum number of characters of the calls of a page."""


def build_conversations(
    runs: Sequence[RunData],
    material: Material,
    passages: Mapping[str, list[list[Passage]]],
    scores: Mapping[str, Scores],
    reasons: Mapping[str, list[list[str]]] | None = None,
    missed: Mapping[str, list[str]] | None = None,
) -> list[Group]:
    """The turns of all runs, by conversation.

    Args:
        runs: the runs.
        material: the additional data from their dataset.
        passages: the passages that each turn shows for each run.
        scores: the scores of each judged turn.
        reasons: why runs differ from the baseline on the judged turns.
        missed: the relevant passages of each turn that no run shows.

    Raises:
        DataError: when a run has a turn that the dataset lacks.
    """
    found = [run.results["qid"].value_counts().to_dict() for run in runs]
    grouped: dict[str, list[Unit]] = {}
    personas: dict[str, dict[str, str]] = {}
    for qid in turns_to_show(runs, material):
        turn = _turn(runs, material, qid)
        name, depth = _place(qid, turn)
        listed = passages.get(qid, [[] for _ in runs])
        sides = [
            _side(run, qid, turn, *of_run)
            for run, *of_run in zip(runs, listed, (one.get(qid, 0) for one in found), strict=True)
        ]
        references = [
            ("Manual rewrite", _text(turn, "qresolved")),
            ("Answer of the data", _text(turn, "gold_answer")),
        ]
        unit = Unit(
            qid,
            depth,
            sides,
            scores.get(qid),
            _text(turn, "qutterance") or "The utterance is not known.",
        )
        unit = replace(
            unit, reasons=(reasons or {}).get(qid, ()), missed=(missed or {}).get(qid, ())
        )
        grouped.setdefault(name, []).append(
            replace(unit, references=[pair for pair in references if pair[1]])
        )
        personas.setdefault(name, {}).update(
            (str(key), text) for key, text in statements_of(turn.get("qptkb")).items()
        )
    return [
        Group(name, units, material.titles.get(name, ""), personas[name])
        for name, units in grouped.items()
    ]


def turns_to_show(runs: Sequence[RunData], material: Material) -> list[str]:
    """The turns of the runs: the dataset's, or those of the run folders if all runs are folders.

    Raises:
        DataError: when a run has a turn that the dataset lacks.
    """
    found = {qid for run in runs for qid in [*run.turns, *run.results["qid"].unique()]}
    if not material.turns:
        return sorted(found, key=natural_key)
    foreign = sorted(found - set(material.turns), key=natural_key)
    if foreign:
        run = next(
            run.name
            for run in runs
            if foreign[0] in run.turns or foreign[0] in set(run.results["qid"])
        )
        raise DataError(
            f"run {run} has the turn {foreign[0]}, which {material.name} lacks: give the dataset that it was made for"
        )
    if all(run.run_on is not None for run in runs):
        return [qid for qid in material.turns if qid in found]
    return list(material.turns)


def _place(qid: str, turn: Mapping[str, Any]) -> tuple[str, int]:
    if (
        "qconversation" in turn and "qturn" in turn
    ):  # the user's own collection can have any names of turns
        return turn["qconversation"], turn["qturn"]
    name, _, number = qid.rpartition("_")
    return (
        (name, int(number)) if name and number.isdecimal() else (qid, 1)
    )  # its conversation is unknown


def _turn(runs: Sequence[RunData], material: Material, qid: str) -> Mapping[str, Any]:
    if qid in material.turns:
        return material.turns[qid]
    return next((run.turns[qid] for run in runs if qid in run.turns), {})


def _text(turn: Mapping[str, Any], key: str) -> str:
    value = turn.get(key)
    return value.strip() if isinstance(value, str) else ""


def _side(
    run: RunData, qid: str, turn: Mapping[str, Any], listed: Sequence[Passage], found: int
) -> Side:
    own = run.turns.get(qid, {})
    response, draft = _text(own, "response"), _text(own, "qanswer")
    notes = [*_queries(own, turn), *_statements(own, turn)]
    if draft and draft != response:
        notes.append(Note("Draft answer", [draft], "draft"))
    used, ranks = own.get("used", ()), {passage.docno: passage.rank for passage in listed}
    remarks = [
        f"{docno}, which the response uses, is not in the run's ranking"
        for docno in used
        if docno not in ranks
    ]
    cites_none = (
        bool(response)
        and "qcitations" in own
        and not any(one["docnos"] for one in own["qcitations"] or ())
    )
    if not found:
        remarks.append(
            "no passage found"
            if run.run_on is None or qid in run.run_on
            else "not run on this turn"
        )
    step = Step(
        notes=[*notes, *_subqueries(own)],
        response=response,
        remarks=remarks,
        cited=[ranks[docno] for docno in used if docno in ranks],
        basis="cites none of the passages that it was shown:" if cites_none else "based on",
        passages=listed,
        found=f"{counted(len(listed), 'passage')} of {found:,}"
        if len(listed) < found
        else counted(found, "passage"),
        calls=run.calls.get(qid, ()),
    )
    return Side([step])


def _queries(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[Note]:
    """The rewrite, and the queries that retrievers got except sub-queries, each once."""
    rewrite, subqueries = (
        _text(own, "qrewrite"),
        {text.strip() for text in own.get("qsubqueries") or ()},
    )
    queries = [
        text
        for text in dict.fromkeys(text.strip() for text in own.get("searched") or ())
        if text and text not in subqueries
    ]
    texts = {
        "the rewrite": rewrite,
        "the utterance": _text(turn, "qutterance"),
        "the manual rewrite": _text(turn, "qresolved"),
    }
    source = next((name for name, text in texts.items() if queries == [text]), "")
    notes = [Note("Rewrite", [rewrite], "query")] if rewrite and source != "the rewrite" else []
    if len(queries) == 1:
        label = f"Final query: {source}" if source else "Final query"
        notes.append(Note(label, queries, "query", folded=len(queries[0].split()) > LONG))
    elif queries:
        notes.append(Note(f"{len(queries)} final queries", queries, "query", folded=True))
    return notes


def _statements(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[Note]:
    chosen = own.get("qstatements")
    if chosen is None:
        return []
    texts, relevant = statements_of(turn.get("qptkb")), set(turn.get("qgoldptkb") or ())
    said = [
        ": ".join(filter(None, (str(name), texts.get(name)))) + " (relevant)" * (name in relevant)
        for name, _ in chosen
    ]
    return [Note("Statements", said or ["none chosen"])]


def _subqueries(own: Mapping[str, Any]) -> list[Note]:
    texts, counts = own.get("qsubqueries") or [], own.get("qfound") or []
    if not texts:
        return []
    said = [
        f"{text} ({counted(number, 'passage')})"
        for text, number in zip(texts, counts, strict=False)
    ]
    return [Note(counted(len(texts), "sub-query"), [*said, *texts[len(said) :]], folded=True)]


def fit_calls(runs: Sequence[RunData]) -> tuple[list[RunData], list[str]]:
    """The runs with calls that fit into a page, and a note if they are cut."""
    for longest in LENGTHS:
        fitting = [
            replace(
                run,
                calls={
                    qid: [_shorter(call, longest) for call in calls]
                    for qid, calls in run.calls.items()
                },
            )
            for run in runs
        ]
        if _size(fitting) <= CHARACTERS:
            return fitting, [
                f"Prompts and completions are cut at {longest} characters: the run folders have them."
            ] if longest else []
    return [replace(run, calls={}) for run in runs], [
        "The LLM calls are too many for one page: make a report of fewer turns."
    ]


def _size(runs: Sequence[RunData]) -> int:
    calls = [call for run in runs for several in run.calls.values() for call in several]
    return sum(
        len(call.completion) + sum(len(one["content"]) for one in call.messages) for call in calls
    )


def _shorter(call: Call, longest: int | None) -> Call:
    messages = [{**one, "content": _cut(one["content"], longest)} for one in call.messages]
    return replace(call, messages=messages, completion=_cut(call.completion, longest))


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[:longest]} […]"
