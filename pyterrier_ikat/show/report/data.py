"""The JSON of a page, from which its script draws.

The overview has what the page shows at once: names, measures and scores. The turns have the rest.
They are packed, because they are large, and drawn when they are opened.
"""

import base64
import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .content import Call, Content, ListedPassage, Note, ShownStep, Side, Unit

UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that HTML can't have: zeros and half characters."""


def overview(content: Content) -> dict[str, Any]:
    """The names, the measures, and the scores of each turn or session."""
    measures = []
    for measure in content.measures:
        record = {
            "name": measure.name,
            "digits": measure.digits,
            "better": measure.better,
            "share": measure.share,
        }
        measures.append(record)
    scores = []
    for group in content.groups:
        scores += [_known_scores(unit.scores) for unit in group.units]
    return {
        "names": list(content.names),
        "labelled": content.labelled,
        "measures": measures,
        "scores": scores,
    }


def _known_scores(
    scores: Sequence[Sequence[float]] | None,
) -> list[list[float | None]] | None:
    """The scores of a unit, with None in place of NaN, which JSON doesn't have."""
    if scores is None:
        return None
    rows = []
    for of_system in scores:
        rows.append([None if math.isnan(score) else score for score in of_system])
    return rows


def turns(content: Content) -> dict[str, Any]:
    """The turns or sessions, with each text of a passage or an LLM call only once."""
    return TurnRecords().of(content)


def packed(value: Any) -> str:
    """A value as JSON, packed by gzip, as base64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def in_script(value: Any) -> str:
    r"""A value as JSON that no text ends early inside a ``script`` element.

    Example:
        >>> print(in_script("</script>"))
        "\u003c/script>"
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def writable(value: Any) -> Any:
    """The value with all characters replaced that HTML can't have."""
    if isinstance(value, str):
        return UNWRITABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {name: writable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [writable(item) for item in value]
    return value


class Numbered:
    """Values by their number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The number of a value, which is added if it is new."""
        return self._numbers.setdefault(value, len(self._numbers))

    def values(self) -> list[Any]:
        """The values in the order of their numbers."""
        return list(self._numbers)


class TurnRecords:
    """The turns of a page as JSON. What is empty is omitted.

    A passage is its docno, the words that are always shown and the further ones.
    """

    def __init__(self) -> None:
        self.passages = Numbered()
        self.texts = Numbered()

    def of(self, content: Content) -> dict[str, Any]:
        """The turns or sessions of a page, and the texts to which their numbers refer."""
        records = []
        for group in content.groups:
            records += [self._of_unit(unit) for unit in group.units]
        record = {
            "passages": self.passages.values(),
            "texts": self.texts.values(),
            "turns": records,
        }
        return writable(record)  # type: ignore[no-any-return]

    def _of_unit(self, unit: Unit) -> dict[str, Any]:
        record = {
            "name": unit.name,
            "utterance": unit.utterance,
            "reasons": unit.reasons,
            "references": unit.references,
            "missed": unit.missed,
            "rubrics": unit.rubrics,
        }
        sides = [None if side is None else self._of_side(side) for side in unit.sides]
        return {**_filled(record), "sides": sides}

    def _of_side(self, side: Side) -> dict[str, Any]:
        steps = [self._of_step(step) for step in side.steps]
        return _filled({"end": side.end, "facts": side.facts, "steps": steps})

    def _of_step(self, step: ShownStep) -> dict[str, Any]:
        record: dict[str, Any] = {
            "title": step.title,
            "facts": step.facts,
            "utterance": step.utterance,
            "notes": [_of_note(note) for note in step.notes],
            "response": step.response,
            "remarks": step.remarks,
            "found": step.found,
            "passages": [self._of_passage(passage) for passage in step.passages],
            "calls": [self._of_call(call) for call in step.calls],
        }
        if step.cited:
            record["cited"] = step.cited
            record["basis"] = step.basis
        return _filled(record)

    def _of_passage(self, passage: ListedPassage) -> dict[str, Any]:
        text = (passage.docno, passage.beginning, passage.rest)
        record: dict[str, Any] = {"rank": passage.rank, "text": self.passages.number(text)}
        if passage.score is not None:
            record["score"] = float(f"{passage.score:.4g}")
        if passage.label is not None:
            record["label"] = int(passage.label)
        if passage.used:
            record["used"] = True
        if passage.elsewhere:
            record["elsewhere"] = _ranks(passage.elsewhere)
        return record

    def _of_call(self, call: Call) -> dict[str, Any]:
        messages = []
        for message in call.messages:
            messages.append([message["role"], self.texts.number(message["content"])])
        record = {"name": call.name, "stage": call.stage, "failed": call.failed}
        completion = self.texts.number(call.completion)
        return {**_filled(record), "messages": messages, "completion": completion}


def _ranks(elsewhere: Sequence[tuple[int, int | None]]) -> list[int]:
    """The rank in each other system, by the number of the system; 0 where it is not found."""
    ranks = [0] * (1 + max(system for system, _rank in elsewhere))
    for system, rank in elsewhere:
        ranks[system] = rank or 0
    return ranks


def _of_note(note: Note) -> dict[str, Any]:
    record = {"label": note.label, "kind": note.kind, "folded": note.folded}
    return {**_filled(record), "texts": note.texts}


def _filled(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that aren't empty."""
    return {name: value for name, value in record.items() if value}
