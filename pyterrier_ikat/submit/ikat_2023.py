"""Submissions of 2023: one JSON object; PTKB statements with id, text and score.

``run_name``, ``run_type`` (automatic or manual), ``turns`` [``turn_id``, ``responses`` [``rank``, ``text``, ``ptkb_provenance``
[``id``, ``text``, ``score``], ``passage_provenance`` [``id``, ``text``, ``score``, ``used``]]].
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .checks import check_falling
from .model import Run, Statement, Topics
from .one_object import check_object, object_lines, parse_object
from .problem import Place, fields

RUN_TYPES = ("automatic", "manual")


def parse(values: Sequence[tuple[int, Any]], place: Place) -> Run:
    """Read a submission, noting fields that are missing, unknown or of a wrong type."""
    return parse_object(values, place, _statement, {})


def _statement(place: Place, item: Any, position: int) -> Statement | None:
    got = fields(place, item, {"id": str, "text": str, "score": float})
    return Statement(got["id"], got.get("text"), got.get("score"), position) if "id" in got else None


def check(run: Run, topics: Topics, place: Place) -> None:
    """Check a submission against the topics."""
    check_object(run, topics, place, RUN_TYPES)
    for turn in run.turns:
        inside = place.of_turn(turn.id).at("responses")
        for response in turn.responses or ():
            scored = [(one.id, one.score) for one in response.statements or () if one.id is not None and one.score is not None]
            check_falling(inside.at(response.position).at("ptkb_provenance"), scored, ordered=True)


def lines(run: Run) -> Iterator[str]:
    """The file's text."""
    return object_lines(run, {}, lambda one: {"id": one.id, "text": one.text, "score": one.score})
