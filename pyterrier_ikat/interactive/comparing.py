"""The comparison of the log with the server's dump, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import DataError
from ..runs.dialogues import Dialogue, DialogueTurn
from .settling import response_of, topic_of

SHOWN = 20


class DumpDiffersError(DataError):
    """The server's dump differs from the log.

    Attributes:
        differences: each names the turn and the field.
    """

    one_line = False

    def __init__(self, where: str, differences: Sequence[str]) -> None:
        self.differences = list(differences)
        rest = [f"and {len(differences) - SHOWN} more"] * (len(differences) > SHOWN)
        super().__init__("\n".join([f"{where} differs from the log in {len(differences)} places:", *differences[:SHOWN], *rest]))


def as_dump(dialogues: Sequence[Dialogue], header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversations of an interactive run in the form of the server's dump: an object for each response.

    Args:
        dialogues: the conversations; turns that were not sent are omitted.
        header: the log's header.

    Example:
        >>> turn = DialogueTurn("1-1", 1, "Which tea has no caffeine?", "Rooibos.")
        >>> (entry,) = as_dump([Dialogue("1-1", "u", turns=[turn], sent={1})], {"team": "t", "run_id": "r"})
        >>> entry["metadata"]["topic_id"], entry["responses"][0]["text"]
        ('1-1_0', 'Rooibos.')
    """
    metadata = {"team_id": header["team"], "run_id": header["run_id"], "type": "interactive", "description": header.get("description", "")}
    found: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for dialogue in dialogues:
        for turn in dialogue.turns:
            topic = str(turn.more.get("topic", dialogue.session))
            if turn.turn not in dialogue.sent:
                continue
            place = counts[topic] = counts.get(topic, -1) + 1
            more = {"track_persona": bool(header.get("track_persona")), "topic_id": f"{topic}_{place}"}
            found.append({"metadata": {**metadata, **more}, "responses": [_response(turn)], "references": dict(turn.citations)})
    return found


def _response(turn: DialogueTurn) -> dict[str, Any]:
    said = {"rank": 1, "user_utterance": turn.utterance, "text": turn.response}
    return {**said, "citations": dict(turn.citations), "ptkb_provenance": list(turn.statements)}


def differences(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The differences of two dumps of one run; each names the turn and the field.

    The responses to a topic are compared in their order, because servers number them from 0 or from 1. The user's last words of a topic,
    which the released server adds without a response, are omitted. A field that the server's dump lacks is not compared; neither are
    citations and statements that it leaves empty with ``null``.

    Args:
        ours: as :func:`as_dump` makes it.
        theirs: the server's.

    Example:
        >>> turns = [DialogueTurn("1-1", 1, "Which tea?", text) for text in ("Rooibos.", "Mate.")]
        >>> ours, theirs = (as_dump([Dialogue("1-1", "u", turns=[turn], sent={1})], {"team": "t", "run_id": "r"}) for turn in turns)
        >>> differences(ours, theirs)
        ["turn 1-1_1, text: the log has 'Rooibos.', the server 'Mate.'"]
    """
    return [line for topic, pair in _by_topic(ours, theirs).items() for line in _of_topic(topic, *pair)]


def _by_topic(*dumps: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[Mapping[str, Any]], ...]]:
    topics = dict.fromkeys(topic_of(entry) for dump in dumps for entry in dump)
    answered = [[entry for entry in dump if response_of(entry).get("text") is not None] for dump in dumps]
    return {topic: tuple([entry for entry in dump if topic_of(entry) == topic] for dump in answered) for topic in topics}


def _of_topic(topic: str, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield f"topic {topic}: the log has {len(ours)} responses, the server {len(theirs)}"
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False), 1):
        fields = _fields(other)
        for name, value in _fields(mine).items():
            there = fields.get(name)
            if there is not None and value != there:
                yield f"turn {topic}_{number}, {name}: the log has {_short(value)}, the server {_short(there)}"


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {f"metadata.{name}": entry["metadata"].get(name) for name in ("run_id", "team_id", "type", "description", "track_persona")}
    response = response_of(entry)
    fields = {name: response.get(name) for name in ("user_utterance", "text", "citations", "ptkb_provenance")}
    if isinstance(statements := fields["ptkb_provenance"], Mapping):  # the released server keeps the object `meta`
        fields["ptkb_provenance"] = statements.get("ptkb_provenance")
    return {**metadata, **fields, "references": entry.get("references")}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
