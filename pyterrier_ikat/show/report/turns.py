"""The turns of a report, with the runs side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...conversations.frame import statements_of
from ...errors import DataError, counted
from ...evaluation.scores import natural_key
from .content import Call, Group, ListedPassage, Note, ShownStep, Side, Unit
from .material import Material, RunData
from .means import ScoreRows

LONG_QUERY = 60
"""From how many words on a query is folded."""
MESSAGE_LENGTHS = (None, 4000, 1000, 250)
"""How many characters of each message of a prompt are shown; fewer if a page has many calls."""
CALL_CHARACTERS = 8_000_000
"""The maximum number of characters of the distinct texts of the calls of a page."""


def build_conversations(
    runs: Sequence[RunData],
    material: Material,
    passages: Mapping[str, list[list[ListedPassage]]],
    scores: Mapping[str, ScoreRows],
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
    reasons = reasons or {}
    missed = missed or {}
    counts = [run.results["qid"].value_counts().to_dict() for run in runs]
    units: dict[str, list[Unit]] = {}
    personas: dict[str, dict[str, str]] = {}
    for qid in turns_to_show(runs, material):
        turn = _turn(runs, material, qid)
        conversation, depth = _position(qid, turn)
        listed = passages.get(qid, [[] for _ in runs])
        sides = []
        for run, of_run, counts_of_run in zip(runs, listed, counts, strict=True):
            sides.append(_side(run, qid, turn, of_run, counts_of_run.get(qid, 0)))
        unit = Unit(
            name=qid,
            depth=depth,
            sides=sides,
            scores=scores.get(qid),
            utterance=_text(turn, "qutterance") or "The utterance is not known.",
            reasons=reasons.get(qid, ()),
            missed=missed.get(qid, ()),
            references=_references(turn),
        )
        units.setdefault(conversation, []).append(unit)
        persona = personas.setdefault(conversation, {})
        for statement_id, text in statements_of(turn.get("qptkb")).items():
            persona[str(statement_id)] = text
    groups = []
    for conversation, of_conversation in units.items():
        title = material.titles.get(conversation, "")
        groups.append(Group(conversation, of_conversation, title, personas[conversation]))
    return groups


def _references(turn: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the organisers wrote for a turn, with labels."""
    references = []
    for label, column in (("Manual rewrite", "qresolved"), ("Answer of the data", "gold_answer")):
        text = _text(turn, column)
        if text:
            references.append((label, text))
    return references


def turns_to_show(runs: Sequence[RunData], material: Material) -> list[str]:
    """The turns of the runs: the dataset's, or those of the run folders if all runs are folders.

    Raises:
        DataError: when a run has a turn that the dataset lacks.
    """
    of_runs = [{*run.turns, *run.results["qid"].unique()} for run in runs]
    known = set().union(*of_runs)
    if not material.turns:
        return sorted(known, key=natural_key)
    foreign = sorted(known - set(material.turns), key=natural_key)
    if foreign:
        qid = foreign[0]
        names = [run.name for run, of_run in zip(runs, of_runs, strict=True) if qid in of_run]
        raise DataError(
            f"run {names[0]} has the turn {qid}, which {material.name} lacks: "
            "give the dataset that it was made for"
        )
    if all(run.run_on is not None for run in runs):
        return [qid for qid in material.turns if qid in known]
    return list(material.turns)


def _position(qid: str, turn: Mapping[str, Any]) -> tuple[str, int]:
    """The conversation of a turn, and its number in it."""
    if "qconversation" in turn and "qturn" in turn:
        # the user's own collection can have any names of turns
        return turn["qconversation"], turn["qturn"]
    name, _, number = qid.rpartition("_")
    if name and number.isdecimal():
        return name, int(number)
    return qid, 1  # its conversation is unknown


def _turn(runs: Sequence[RunData], material: Material, qid: str) -> Mapping[str, Any]:
    if qid in material.turns:
        return material.turns[qid]
    for run in runs:
        if qid in run.turns:
            return run.turns[qid]
    return {}


def _text(turn: Mapping[str, Any], key: str) -> str:
    value = turn.get(key)
    return value.strip() if isinstance(value, str) else ""


def _side(
    run: RunData, qid: str, turn: Mapping[str, Any], listed: Sequence[ListedPassage], found: int
) -> Side:
    """A run's part of a turn.

    Args:
        run: the run.
        qid: the turn's id.
        turn: what is known of the turn.
        listed: the passages that are shown.
        found: the number of passages that the run has.
    """
    own = run.turns.get(qid, {})
    response = _text(own, "response")
    cited, remarks = _cited(own, listed)
    if not found:
        was_run = run.run_on is None or qid in run.run_on
        remarks.append("no passage found" if was_run else "not run on this turn")
    passages = counted(found, "passage")
    if len(listed) < found:
        passages = f"{counted(len(listed), 'passage')} of {found:,}"
    basis = "based on"
    if response and _cites_none(own):
        basis = "cites none of the passages that it was shown:"
    step = ShownStep(
        notes=_notes(own, turn),
        response=response,
        remarks=remarks,
        cited=cited,
        basis=basis,
        passages=listed,
        found=passages,
        calls=run.calls.get(qid, ()),
    )
    return Side([step])


def _notes(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[Note]:
    """What a run wrote on a turn on its way to the response."""
    notes = [*_queries(own, turn), *_statements(own, turn)]
    draft = _text(own, "qanswer")
    if draft and draft != _text(own, "response"):
        notes.append(Note("Draft answer", [draft], "draft"))
    return notes + _subqueries(own)


def _cited(own: Mapping[str, Any], listed: Sequence[ListedPassage]) -> tuple[list[int], list[str]]:
    """The ranks of the passages that the response uses, and sentences about those without one."""
    ranks = {passage.docno: passage.rank for passage in listed}
    cited = []
    remarks = []
    for docno in own.get("used", ()):
        if docno in ranks:
            cited.append(ranks[docno])
        else:
            remarks.append(f"{docno}, which the response uses, is not in the run's ranking")
    return cited, remarks


def _cites_none(own: Mapping[str, Any]) -> bool:
    """Whether a response could cite passages, and cites none."""
    if "qcitations" not in own:
        return False
    return not any(sentence["docnos"] for sentence in own["qcitations"] or ())


def _queries(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[Note]:
    """The rewrite, and the queries that retrievers got except sub-queries, each once."""
    rewrite = _text(own, "qrewrite")
    subqueries = {text.strip() for text in own.get("qsubqueries") or ()}
    searched = dict.fromkeys(text.strip() for text in own.get("searched") or ())
    queries = [text for text in searched if text and text not in subqueries]
    source = ""
    if queries == [rewrite]:
        source = "the rewrite"
    elif queries == [_text(turn, "qutterance")]:
        source = "the utterance"
    elif queries == [_text(turn, "qresolved")]:
        source = "the manual rewrite"
    notes = []
    if rewrite and source != "the rewrite":
        notes.append(Note("Rewrite", [rewrite], "query"))
    if len(queries) == 1:
        label = f"Final query: {source}" if source else "Final query"
        is_long = len(queries[0].split()) > LONG_QUERY
        notes.append(Note(label, queries, "query", folded=is_long))
    elif queries:
        notes.append(Note(f"{len(queries)} final queries", queries, "query", folded=True))
    return notes


def _statements(own: Mapping[str, Any], turn: Mapping[str, Any]) -> list[Note]:
    """The statements that the run chose."""
    chosen = own.get("qstatements")
    if chosen is None:
        return []
    texts = statements_of(turn.get("qptkb"))
    relevant = set(turn.get("qgoldptkb") or ())
    lines = []
    for statement_id, _score in chosen:
        text = texts.get(statement_id)
        line = f"{statement_id}: {text}" if text else str(statement_id)
        if statement_id in relevant:
            line += " (relevant)"
        lines.append(line)
    return [Note("Statements", lines or ["none chosen"])]


def _subqueries(own: Mapping[str, Any]) -> list[Note]:
    """The sub-queries, with the number of passages of each if it is known."""
    texts = own.get("qsubqueries") or []
    if not texts:
        return []
    counts = own.get("qfound") or []
    lines = list(texts)
    for position, (text, count) in enumerate(zip(texts, counts, strict=False)):
        lines[position] = f"{text} ({counted(count, 'passage')})"
    return [Note(counted(len(texts), "sub-query"), lines, folded=True)]


def fit_calls(runs: Sequence[RunData]) -> tuple[list[RunData], list[str]]:
    """The runs with calls that fit into a page, and a note if they are cut."""
    for longest in MESSAGE_LENGTHS:
        fitting = [_with_shorter_calls(run, longest) for run in runs]
        if _size(fitting) <= CALL_CHARACTERS:
            notes = []
            if longest is not None:
                notes.append(
                    f"Prompts and completions are cut at {longest} characters: "
                    "the run folders have them."
                )
            return fitting, notes
    note = "The LLM calls are too many for one page: make a report of fewer turns."
    return [replace(run, calls={}) for run in runs], [note]


def _with_shorter_calls(run: RunData, longest: int | None) -> RunData:
    calls = {}
    for qid, of_turn in run.calls.items():
        calls[qid] = [_shorter(call, longest) for call in of_turn]
    return replace(run, calls=calls)


def _size(runs: Sequence[RunData]) -> int:
    """The number of characters of the distinct texts of all calls."""
    texts = set()
    for run in runs:
        for calls in run.calls.values():
            for call in calls:
                texts.add(call.completion)
                texts.update(message["content"] for message in call.messages)
    return sum(len(text) for text in texts)


def _shorter(call: Call, longest: int | None) -> Call:
    messages = []
    for message in call.messages:
        messages.append({**message, "content": _cut(message["content"], longest)})
    return replace(call, messages=messages, completion=_cut(call.completion, longest))


def _cut(text: str, longest: int | None) -> str:
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]} […]"
