"""Submissions of 2025: JSON lines, one per turn; the ranking in ``references``, the used passages in ``citations``.

``metadata`` (``team_id``, ``run_id``, ``run_type``), ``turn_id``, ``responses`` [``rank``, ``text``, ``citations`` (passage id: score),
``ptkb_provenance`` (the statements' texts)], ``references`` (passage id: score).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .checks import check_length, check_name, check_ranking, check_responses, check_run_type, check_statements, check_turns
from .model import Passage, Response, Run, Statement, SubmittedTurn, Topics
from .problem import Place, fields, of_kind, shown

RUN_TYPES = ("automatic", "generation-only", "manual")
METADATA = {"team_id": str, "run_id": str, "run_type": str}


def parse(values: Sequence[tuple[int, Any]], place: Place) -> Run:
    """Read a submission, noting fields that are missing or of a wrong type, and lines whose metadata differ from the first's."""
    run, first = Run(None, None), None
    if len(values) == 1 and isinstance(values[0][1], list):
        place.error("it is one array: write each of its objects in a line of its own")
        values = list(enumerate(values[0][1], 1))
    for number, item in values:
        known = item.get("turn_id") if isinstance(item, dict) else None
        here = place.of_turn(known) if isinstance(known, str) else place.at(f"line {number}")
        got = fields(here, item, {"metadata": dict, "turn_id": str, "responses": list, "references": dict}, strict=False)
        if "metadata" in got:
            inside = here.at("metadata")
            metadata = fields(inside, got["metadata"], METADATA, strict=False)
            if first is None:
                first = metadata
                run.run_id, run.run_type, run.team = (metadata.get(name) for name in ("run_id", "run_type", "team_id"))
            elif metadata != first:
                inside.error("they differ from those of the first turn: give all turns of a run the same")
        if "turn_id" in got:
            run.turns.append(_turn(here, got))
    return run


def _turn(place: Place, got: dict[str, Any]) -> SubmittedTurn:
    inside = place.at("responses")
    responses = [_response(inside.at(i), one, i) for i, one in enumerate(got["responses"])] if "responses" in got else None
    references = _passages(place.at("references"), got["references"]) if "references" in got else None
    whole = references is None or len(references) == len(got["references"])
    return SubmittedTurn(got["turn_id"], responses, references, whole)


def _response(place: Place, item: Any, position: int) -> Response:
    got = fields(place, item, {"rank": int, "text": str, "citations": dict, "ptkb_provenance": list}, strict=False)
    response = Response(got.get("rank"), got.get("text"), position=position)
    if "citations" in got:
        response.passages = _passages(place.at("citations"), got["citations"])
        response.whole = len(response.passages) == len(got["citations"])
    if "ptkb_provenance" in got:
        inside, named = place.at("ptkb_provenance"), got["ptkb_provenance"]
        response.statements = [Statement(text=one, position=i) for i, one in enumerate(named) if of_kind(inside.at(i), one, str)]
    return response


def _passages(place: Place, scores: dict[str, Any]) -> list[Passage]:
    entries = enumerate(scores.items())
    return [Passage(docno, score, position=i) for i, (docno, score) in entries if of_kind(place.at(docno), score, float)]


def check(run: Run, topics: Topics, place: Place) -> None:
    """Check a submission against the topics."""
    check_name(place.at("metadata").at("run_id"), run.run_id)
    check_name(place.at("metadata").at("team_id"), run.team)
    check_run_type(place.at("metadata").at("run_type"), run.run_type, RUN_TYPES)
    if run.run_type == "manual":
        message = "the track of 2025 names automatic and generation-only; its checker takes manual, too: ask the organisers"
        place.at("metadata").at("run_type").warning(message)
    check_turns(run, topics, place, _check_turn)


def _check_turn(place: Place, turn: SubmittedTurn, known: Mapping[str, str] | None) -> None:
    inside = place.at("responses")
    check_responses(inside, turn.responses)
    texts = [response.text for response in turn.responses or () if response.text is not None]
    check_length(inside, texts, " in all responses of a turn together (the organisers' checker deletes a single response that is longer)")
    if turn.references is not None:
        if not turn.references and turn.whole:
            place.at("references").warning("there is no passage: without any, the turn counts 0 in the evaluation of passages")
        check_ranking(place.at("references"), turn.references, six_decimals, ordered=False)
    for response in turn.responses or ():
        _check_response(inside.at(response.position), response, turn, known)


def _check_response(place: Place, response: Response, turn: SubmittedTurn, known: Mapping[str, str] | None) -> None:
    if response.passages is not None and turn.references is not None and turn.whole:
        if turn.references and not response.passages and response.whole:
            place.at("citations").warning("no passage is cited: cite those that the response rests on")
        ranked = {passage.id for passage in turn.references}
        for docno in (passage.id for passage in response.passages if passage.id not in ranked):
            place.at("citations").error(f"{shown(docno)} is not in the turn's references: add it there, or don't cite it")
    if response.statements is not None:
        check_statements(place.at("ptkb_provenance"), response.statements, known)


def six_decimals(score: float) -> float:
    """A score as the organisers' converter prints it."""
    return float(f"{score:.6f}")


def lines(run: Run) -> Iterator[str]:
    """The file's text, a turn a line; references are the passages of the responses, citations the used ones of each."""
    metadata = {"team_id": run.team, "run_id": run.run_id, "run_type": run.run_type}
    for turn in run.turns:
        responses = [
            {
                "rank": response.rank,
                "text": response.text,
                "citations": {passage.id: passage.score for passage in response.passages or () if passage.used},
                "ptkb_provenance": [one.text for one in response.statements or ()],
            }
            for response in turn.responses or ()
        ]
        references = {passage.id: passage.score for response in turn.responses or () for passage in response.passages or ()}
        yield json.dumps({"metadata": metadata, "turn_id": turn.id, "responses": responses, "references": references}) + "\n"
