"""What 2023 and 2024 share: one JSON object for the whole run, the ranking inside each response."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .checks import (
    check_length,
    check_name,
    check_ranking,
    check_responses,
    check_run_type,
    check_statements,
    check_tokens,
    check_turns,
    check_used,
)
from .model import Passage, Response, Run, Statement, SubmittedTurn, Topics
from .problem import Kinds, Place, fields

StatementReader = Callable[[Place, Any, int], Statement | None]


def parse_object(values: Sequence[tuple[int, Any]], place: Place, statement: StatementReader, extra: Kinds) -> Run:
    """Read the one object; ``extra`` are fields of the run that only one of the years has."""
    if len(values) != 1:
        place.error(f"there are {len(values)} JSON values: the file has to be one object with all turns")
    got = fields(place, values[0][1], {"run_name": str, "run_type": str, **extra, "turns": list})
    run = Run(got.get("run_name"), got.get("run_type"), evaluated=got.get("eval_response", True))
    for number, item in enumerate(got.get("turns", [])):
        here = place.at("turns").at(number)
        known = item.get("turn_id") if isinstance(item, dict) else None
        turn = fields(place.of_turn(known) if isinstance(known, str) else here, item, {"turn_id": str, "responses": list})
        if "turn_id" in turn:
            responses = turn.get("responses")
            inside = place.of_turn(turn["turn_id"]).at("responses")
            read = None if responses is None else [_response(inside.at(i), one, i, statement) for i, one in enumerate(responses)]
            run.turns.append(SubmittedTurn(turn["turn_id"], read))
    return run


def _response(place: Place, item: Any, position: int, statement: StatementReader) -> Response:
    got = fields(place, item, {"rank": int, "text": str, "ptkb_provenance": list, "passage_provenance": list})
    response = Response(got.get("rank"), got.get("text"), position=position)
    if "passage_provenance" in got:
        inside = place.at("passage_provenance")
        response.passages = [found for i, one in enumerate(got["passage_provenance"]) if (found := _passage(inside.at(i), one, i))]
        response.whole = len(response.passages) == len(got["passage_provenance"])
    if "ptkb_provenance" in got:
        inside = place.at("ptkb_provenance")
        response.statements = [named for i, one in enumerate(got["ptkb_provenance"]) if (named := statement(inside.at(i), one, i))]
    return response


def _passage(place: Place, item: Any, position: int) -> Passage | None:
    got = fields(place, item, {"id": str, "score": float}, {"text": str, "used": bool})
    return Passage(got["id"], got["score"], got.get("used"), got.get("text"), position) if {"id", "score"} <= got.keys() else None


def check_object(run: Run, topics: Topics, place: Place, run_types: Sequence[str]) -> None:
    """All checks of 2023 and 2024."""
    check_name(place.at("run_name"), run.run_id)
    check_run_type(place.at("run_type"), run.run_type, run_types)

    def check(here: Place, turn: SubmittedTurn, known: Mapping[str, str] | None) -> None:
        inside = here.at("responses")
        check_responses(inside, turn.responses, may_be_empty=run.run_type == "only_response" or not run.evaluated)
        for response in turn.responses or ():
            _check_response(inside.at(response.position), response, known)

    check_turns(run, topics, place, check)


def _check_response(place: Place, response: Response, known: Mapping[str, str] | None) -> None:
    if response.text is not None:
        check_length(place.at("text"), [response.text])
        check_tokens(place.at("text"), response.text)
    if response.passages is not None:
        if response.whole:
            check_used(place.at("passage_provenance"), response.passages)
        check_ranking(place.at("passage_provenance"), response.passages, lambda score: float(np.float32(score)))
    if response.statements is not None:
        if not response.statements:
            place.at("ptkb_provenance").warning(
                "no statement is named: name some, if any matters (the organisers' checkers warn of each such turn; "
                "that of 2023 stops after 2000 warnings, unless started with -m)"
            )
        check_statements(place.at("ptkb_provenance"), response.statements, known)


def object_lines(run: Run, top: Mapping[str, Any], statement: Callable[[Statement], Any]) -> Iterator[str]:
    """The file's text in pieces, a turn a line; ``top`` are the fields before ``turns``."""
    yield json.dumps({"run_name": run.run_id, "run_type": run.run_type, **top})[:-1] + ', "turns": [\n'
    for number, turn in enumerate(run.turns):
        responses = [
            {
                "rank": response.rank,
                "text": response.text,
                "ptkb_provenance": [statement(one) for one in response.statements or ()],
                "passage_provenance": [
                    {"id": passage.id, "text": passage.text or "", "score": passage.score, "used": bool(passage.used)}
                    for passage in response.passages or ()
                ],
            }
            for response in turn.responses or ()
        ]
        yield (",\n" if number else "") + json.dumps({"turn_id": turn.id, "responses": responses})
    yield "\n]}\n"
