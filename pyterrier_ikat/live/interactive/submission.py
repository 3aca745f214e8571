"""A run in the form of the server's dump: compared with the server's, field by field, and written as a submission."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, counted
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from ...store.files import atomic_write
from ...submit import Problem, RefusedError
from ...submit.checks import check_passages, check_statements, six_decimals
from ...submit.formats import Passage, Statement
from ...submit.problem import Place, check_kind, read_fields, select_errors
from .response_limits import TOKENS, count_spacy_tokens
from .server_answers import DumpEntry, answers_to, read_dump

DUMP = "dump.json"
"""The file of the server's dump, in the folder of a run."""
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
        super().__init__("\n".join([f"{where} differs from the log in {counted(len(differences), 'place')}:", *differences[:SHOWN], *rest]))


def as_dump(dialogues: Sequence[Dialogue], header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversations of an interactive run in the form of the documented dump: an object for each response.

    Args:
        dialogues: the conversations; turns that were not sent are omitted.
        header: the log's header.

    Example:
        >>> turn = Turn(1, "Which tea has no caffeine?", "Rooibos.")
        >>> (entry,) = as_dump([Dialogue("1-1", "u", turns=[turn], sent={1: None})], {"team": "t", "run_id": "r"})
        >>> entry["metadata"]["topic_id"], entry["responses"][0]["text"]
        ('1-1_0', 'Rooibos.')
    """
    metadata = {"team_id": header["team"], "run_id": header["run_id"], "type": "interactive", "description": header.get("description", "")}
    found: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for dialogue in dialogues:
        topic = str(dialogue.more.get("topic", dialogue.session))
        for turn in dialogue.taken:
            place = counts[topic] = counts.get(topic, -1) + 1
            more = {"track_persona": bool(header.get("track_persona")), "topic_id": f"{topic}_{place}"}
            found.append({"metadata": {**metadata, **more}, "responses": [_response(turn)], "references": dict(turn.citations)})
    return found


def _response(turn: Turn) -> dict[str, Any]:
    said = {"rank": 1, "user_utterance": turn.utterance, "text": turn.response}
    return {**said, "citations": dict(turn.citations), "ptkb_provenance": list(turn.statements)}


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """The differences of the log and the server's dump; each names the turn and the field.

    The responses to a topic are aligned by their texts, so that one that the server lacks is one difference. One that it has twice is none,
    see :func:`doubled`. The user's last words of a topic, which have no response, are omitted, and so is what the server doesn't keep.

    Args:
        ours: as :func:`as_dump` makes it.
        theirs: the server's, in either of its forms.

    Raises:
        DataError: when an entry has an unknown form.

    Example:
        >>> turns = [Turn(1, "Which tea?", text) for text in ("Rooibos.", "Mate.")]
        >>> sides = [[Dialogue("1-1", "u", turns=[turn], sent={1: None})] for turn in turns]
        >>> ours, theirs = (as_dump(side, {"team": "t", "run_id": "r"}) for side in sides)
        >>> differences(ours, theirs)
        ["turn 1-1_1, text: the log has 'Rooibos.', the server 'Mate.'"]
    """
    return [line for line, again in _compared(ours, theirs) if not again]


def doubled(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """The responses of the log that the server has once more; arguments and errors as for :func:`differences`.

    A server has a response twice when it takes it after its answer was lost, and it shows that nothing is missing.
    """
    return [line for line, again in _compared(ours, theirs) if again]


def _compared(ours: Sequence[Any], theirs: Sequence[Any]) -> Iterator[tuple[str, bool]]:
    """The differences, and whether each is a response that the server has once more."""
    mine, other = read_dump(ours), read_dump(theirs)
    topics = dict.fromkeys(entry.topic for entry in (*mine, *other))
    return (found for topic in topics for found in _of_topic(topic, answers_to(topic, mine), answers_to(topic, other)))


def _of_topic(topic: str, ours: Sequence[DumpEntry], theirs: Sequence[DumpEntry]) -> Iterator[tuple[str, bool]]:
    texts = [entry.text for entry in ours]
    for mine, other in _aligned(ours, theirs):
        for (number, entry), there in zip(mine, other, strict=False):
            yield from ((line, False) for line in _of_turn(f"{topic}_{number + 1}", entry, there))
        for number, entry in mine[len(other) :]:
            yield f"turn {topic}_{number + 1}: the server lacks the response {_short(entry.text)}", False
        for there in other[len(mine) :]:
            if there.text in texts:
                yield f"turn {topic}_{texts.index(there.text) + 1}: the server has the response once more: {_short(there.text)}", True
            else:
                yield f"topic {topic}: the server has a response that the log lacks: {_short(there.text)}", False


def _aligned(ours: Sequence[DumpEntry], theirs: Sequence[DumpEntry]) -> Iterator[tuple[list[tuple[int, DumpEntry]], list[DumpEntry]]]:
    """Runs of corresponding entries, ours with their positions: first by utterance and response, between those by response."""
    said = [[(entry.utterance, entry.text) for entry in entries] for entries in (ours, theirs)]
    for _, first, last, their_first, their_last in SequenceMatcher(None, said[0], said[1], autojunk=False).get_opcodes():
        mine, other = list(enumerate(ours))[first:last], theirs[their_first:their_last]
        texts, their_texts = [entry.text for _, entry in mine], [entry.text for entry in other]
        for _, start, end, their_start, their_end in SequenceMatcher(None, texts, their_texts, autojunk=False).get_opcodes():
            yield mine[start:end], list(other[their_start:their_end])


def _of_turn(turn: str, mine: DumpEntry, other: DumpEntry) -> Iterator[str]:
    fields = _fields(other)
    for name, value in _fields(mine).items():
        there = fields[name]
        if there is not None and value != there:
            yield f"turn {turn}, {name}: the log has {_short(value)}, the server {_short(there)}"


def _fields(entry: DumpEntry) -> dict[str, Any]:
    about = {f"metadata.{name}": value for name, value in entry.about.items()}
    said = {"user_utterance": entry.utterance, "text": entry.text, "citations": entry.citations}
    return {**about, **said, "ptkb_provenance": entry.statements, "references": entry.references}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


TYPE = "interactive"
RESPONSE = {"rank": int, "user_utterance": str, "text": str, "citations": dict, "ptkb_provenance": list}


def write_interactive(folder: str | Path, path: str | Path, *, run_id: str, run_type: str = TYPE, team: str | None = None) -> list[Problem]:
    """Write the submission of an interactive run: a JSON list with an object for each response, as the server's dump has them.

    The responses are on the server already. The file is for the archive, and for tracks that ask for it.

    Args:
        folder: the folder of ``ikat interact``.
        path: the file to write.
        run_id: the run's name.
        run_type: ``"interactive"``.
        team: the team's id; by default that of the token.

    Returns:
        Warnings.

    Raises:
        UsageError: when the folder is of another run, run type or team, or of a debug run or a simulation.
        RefusedError: when a response breaks a rule of the track, or the log differs from the server's dump.
    """
    log = Log(folder)
    header = log.header
    _check_header(folder, header, run_id, run_type, team)
    dialogues = log.dialogues()
    entries, place = as_dump(dialogues, header), Place()
    _check_conversations(place, dialogues)
    _check_dump(place, log.folder / DUMP, entries)
    for entry in entries:
        _check_entry(place.of_turn(entry["metadata"]["topic_id"]), entry)
    if select_errors(place.found):
        raise RefusedError(path, place.found)
    with atomic_write(path) as file:
        json.dump(entries, file, indent=1)
    return place.found


def _check_header(folder: str | Path, header: Mapping[str, Any], run_id: str, run_type: str, team: str | None) -> None:
    if header.get("kind") != TYPE:
        raise UsageError(f"{folder} is a {header.get('kind')} run, and only runs of `ikat interact` are submitted: give such a folder")
    if header.get("debug"):
        raise UsageError(f"{folder} is a debug run, which is never assessed: give the folder of another run")
    for name, given, held in (("run type", run_type, TYPE), ("run id", run_id, header["run_id"]), ("team", team, header["team"])):
        if given not in (None, held):
            raise UsageError(f"the {name} of {folder} is {held}, not {given}: the server knows it by that name, so give it")


def _check_conversations(place: Place, dialogues: Sequence[Dialogue]) -> None:
    if not any(one.sent for one in dialogues):
        place.error("no response was sent: run `ikat interact` first")
    if going := [one.session for one in dialogues if not one.end]:
        place.warning(f"the conversation {going[0]} has not ended, and omitted topics score 0: continue with `ikat interact`")


def _check_dump(place: Place, path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    if not path.is_file():
        place.warning("the log was not compared with the server's dump: run the same `ikat interact` again, which sends nothing")
        return
    try:
        dump = json.loads(path.read_text(encoding="utf-8"))
        found, again = differences(entries, dump), doubled(entries, dump)
    except (DataError, ValueError) as error:
        found, again = [f"{path} can't be read ({error})"], []
    for line in again:
        place.warning(f"{line}: the server took it twice")
    for line in found:
        place.error(f"{line}: run the same `ikat interact` again, which fetches a new dump")


def _check_entry(place: Place, entry: Mapping[str, Any]) -> None:
    """One response, by the rules of the track."""
    here = place.at("responses").at(0)
    got = read_fields(here, entry["responses"][0], RESPONSE)
    if not got.get("text", "").strip():
        here.at("text").error("the response is empty")
    elif (tokens := count_spacy_tokens(got["text"])) > TOKENS:
        here.at("text").error(f"{tokens} tokens, {TOKENS} are allowed")
    cited = got.get("citations", {})
    known = [Passage(docno, score) for docno, score in cited.items() if check_kind(here.at("citations").at(docno), score, float)]
    check_passages(here.at("citations"), known, six_decimals, ordered=False)
    if not cited:
        here.at("citations").warning("no passage is cited")
    texts = got.get("ptkb_provenance", [])
    check_statements(here.at("ptkb_provenance"), [Statement(text=text) for text in texts if isinstance(text, str)], None)
