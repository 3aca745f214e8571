"""The turns of a report, with the runs side by side. Differences from the baseline are marked in the page, because it is chosen there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...conversations.frame import statements_of
from ...errors import DataError
from ...evaluation.scores import natural_key
from .material import Material, RunData
from .rankings import ListedPassage, Scores
from .reasons import Relevant, further_down, place_of_pair


@dataclass(frozen=True)
class ChosenStatement:
    """A chosen statement. ``relevant``: whether the organisers found it relevant."""

    name: str
    text: str
    relevant: bool


@dataclass(frozen=True)
class SubQuery:
    """A sub-query, and how many passages it found (None: unknown)."""

    text: str
    found: int | None


@dataclass(frozen=True)
class Side:
    """One run's work on a turn. Fields are empty if it wrote nothing.

    Attributes:
        rewrite: the rewritten utterance; empty if it is the only query that was searched for.
        queries: the queries that retrievers got, without the sub-queries.
        source: which text of the turn is the only query: ``"the utterance"``, ``"the rewrite"``, ``"the manual rewrite"`` or empty.
        statements: the chosen statements, best first; None if the run chooses none.
        subqueries: the sub-queries, in the order in which they were written.
        draft: the answer that was written before retrieval.
        response: the answer for the user.
        cited: the numbers (from 1) of the passages in the turn's list on which the response is based.
        missing: passages that the response names and that are not in the run's ranking.
        found: how many passages the run has.
        run_on: whether the run was made for this turn, as far as known.
        calls: how many LLM calls of the turn the run has stored.
        cites_none: whether the response should cite its passages but doesn't, so it is based on those that were shown.
    """

    rewrite: str
    queries: list[str]
    source: str
    statements: list[ChosenStatement] | None
    subqueries: list[SubQuery]
    draft: str
    response: str
    cited: list[int]
    missing: list[str]
    found: int
    run_on: bool
    calls: int = 0
    cites_none: bool = False


@dataclass(frozen=True)
class TurnView:
    """One turn.

    Attributes:
        number: counts the turns of the report from 1.
        depth: counts the turns of the conversation from 1.
        passages: the passages that the runs found, in one list.
        scores: the scores of each run for each measure; None if the turn is not judged.
        reason: a sentence that compares two runs.
        needs: whether it has a gold statement of the user, as far as known.
        further: relevant passages that no run shows.
    """

    number: int
    qid: str
    depth: int
    utterance: str
    resolved: str
    gold: str
    sides: list[Side]
    passages: list[ListedPassage]
    scores: Scores | None
    reason: str = ""
    needs: bool | None = None
    further: list[Relevant] = field(default_factory=list)


@dataclass(frozen=True)
class PersonaStatement:
    """A statement of the user, with the turns in which each run chose it and those in which the organisers found it relevant."""

    name: str
    text: str
    chosen: list[list[int]]
    relevant: list[int]


@dataclass(frozen=True)
class ConversationView:
    """A conversation. ``title`` is its subject, or empty if unknown."""

    name: str
    title: str
    persona: list[PersonaStatement]
    turns: list[TurnView]


def build_conversations(
    runs: Sequence[RunData],
    material: Material,
    passages: Mapping[str, list[ListedPassage]],
    scores: Mapping[str, Scores],
    relevant: Mapping[str, list[Relevant]] | None = None,
    reasons: Mapping[str, list[list[str]]] | None = None,
    pair: tuple[int, int] = (0, 1),
) -> list[ConversationView]:
    """The turns of all runs, by conversation.

    Args:
        runs: the runs.
        material: the additional data from their dataset.
        passages: the passages that each turn shows.
        scores: the scores of each judged turn.
        relevant: the relevant passages of each judged turn.
        reasons: why runs differ on the judged turns.
        pair: the numbers of the two runs whose differences the page explains first.

    Raises:
        DataError: when a run has a turn that the dataset lacks.
    """
    counts = [run.results["qid"].value_counts().to_dict() for run in runs]
    grouped: dict[str, list[TurnView]] = {}
    known: dict[str, Mapping[str, Any]] = {}
    for number, qid in enumerate(turns_to_show(runs, material), 1):
        turn = _turn(runs, material, qid)
        name, depth = _place(qid, turn)
        known[qid] = turn
        listed = passages.get(qid, [])
        sides = [_side(run, qid, turn, listed, count.get(qid, 0)) for run, count in zip(runs, counts, strict=True)]
        utterance, resolved, gold = (_text(turn, key) for key in ("qutterance", "qresolved", "gold_answer"))
        further = further_down((relevant or {}).get(qid, []), {passage.docno for passage in listed})
        told = (reasons or {}).get(qid)
        reason = told[0][place_of_pair(*pair, len(runs))] if told else ""
        view = TurnView(number, qid, depth, utterance, resolved, gold, sides, listed, scores.get(qid), reason, _needs(turn), further)
        grouped.setdefault(name, []).append(view)
    return [ConversationView(name, material.titles.get(name, ""), _persona(turns, known), turns) for name, turns in grouped.items()]


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
        run = next(run.name for run in runs if foreign[0] in run.turns or foreign[0] in set(run.results["qid"]))
        raise DataError(f"run {run} has the turn {foreign[0]}, which {material.name} lacks: give the dataset that it was made for")
    if all(run.run_on is not None for run in runs):
        return [qid for qid in material.turns if qid in found]
    return list(material.turns)


def _place(qid: str, turn: Mapping[str, Any]) -> tuple[str, int]:
    if "qconversation" in turn and "qturn" in turn:  # the user's own collection can have any names of turns
        return turn["qconversation"], turn["qturn"]
    name, _, number = qid.rpartition("_")
    return (name, int(number)) if name and number.isdecimal() else (qid, 1)  # its conversation is unknown


def _turn(runs: Sequence[RunData], material: Material, qid: str) -> Mapping[str, Any]:
    if qid in material.turns:
        return material.turns[qid]
    return next((run.turns[qid] for run in runs if qid in run.turns), {})


def _needs(turn: Mapping[str, Any]) -> bool | None:
    gold = turn.get("qgoldptkb")
    return bool(gold) if isinstance(gold, list | tuple) else None


def _text(turn: Mapping[str, Any], key: str) -> str:
    value = turn.get(key)
    return value.strip() if isinstance(value, str) else ""


def _side(run: RunData, qid: str, turn: Mapping[str, Any], listed: Sequence[ListedPassage], found: int) -> Side:
    own = run.turns.get(qid, {})
    rewrite, response, draft = (_text(own, key) for key in ("qrewrite", "response", "qanswer"))
    queries, numbers = _searched(own), {passage.docno: number for number, passage in enumerate(listed, 1)}
    texts = {"the rewrite": rewrite, "the utterance": _text(turn, "qutterance"), "the manual rewrite": _text(turn, "qresolved")}
    source = next((name for name, text in texts.items() if queries == [text]), "")
    used = own.get("used", [])
    return Side(
        rewrite="" if source == "the rewrite" else rewrite,
        queries=queries,
        source=source,
        statements=_statements(own, turn),
        subqueries=_subqueries(own),
        draft="" if draft == response else draft,
        response=response,
        cited=[numbers[docno] for docno in used if docno in numbers],
        missing=[docno for docno in used if docno not in numbers],
        cites_none=bool(response) and "qcitations" in own and not any(one["docnos"] for one in own["qcitations"] or ()),
        found=found,
        run_on=run.run_on is None or qid in run.run_on,
        calls=len(run.calls.get(qid, ())),
    )


def _searched(own: Mapping[str, Any]) -> list[str]:
    """The queries that were searched for except sub-queries, each once."""
    known = {text.strip() for text in own.get("qsubqueries") or ()}
    return [text for text in dict.fromkeys(text.strip() for text in own.get("searched") or ()) if text and text not in known]


def _statements(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[ChosenStatement] | None:
    chosen = own.get("qstatements")
    if chosen is None:
        return None
    texts, relevant = statements_of(turn.get("qptkb")), set(turn.get("qgoldptkb") or ())
    return [ChosenStatement(str(name), str(texts.get(name, name)), name in relevant) for name, _ in chosen]


def _subqueries(own: Mapping[str, Any]) -> list[SubQuery]:
    texts = own.get("qsubqueries") or []
    counts = own.get("qfound") or []
    known = 0 < len(counts) <= len(texts)  # a turn without sub-queries counts as its own
    found = [*counts, *[0] * (len(texts) - len(counts))] if known else [None] * len(texts)
    return [SubQuery(text, number) for text, number in zip(texts, found, strict=True)]


def _persona(turns: Sequence[TurnView], known: Mapping[str, Mapping[str, Any]]) -> list[PersonaStatement]:
    texts = {str(name): text for turn in turns for name, text in statements_of(known[turn.qid].get("qptkb")).items()}
    chosen: dict[str, list[list[int]]] = {name: [[] for _ in turns[0].sides] for name in texts}
    relevant: dict[str, list[int]] = {name: [] for name in texts}
    for turn in turns:
        for number, side in enumerate(turn.sides):
            for statement in side.statements or ():
                if statement.name in chosen:
                    chosen[statement.name][number].append(turn.depth)
        for name in known[turn.qid].get("qgoldptkb") or ():
            relevant[name].append(turn.depth)
    return [PersonaStatement(name, text, chosen[name], relevant[name]) for name, text in texts.items()]
