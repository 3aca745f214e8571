"""The submission of an interactive run, in the form of the server's dump: checked, and written only without errors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError
from ...runs.log import Dialogue, Log
from ...store.files import atomic_write
from ...submit import Problem, RefusedError
from ...submit.checks import check_passages, check_statements, six_decimals
from ...submit.formats import Passage, Statement
from ...submit.problem import Place, check_kind, read_fields, select_errors
from .comparing import as_dump, differences
from .interactive_run import DUMP
from .response_limits import TOKENS, count_spacy_tokens

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
        found = differences(entries, json.loads(path.read_text(encoding="utf-8")))
    except (DataError, ValueError) as error:
        found = [f"{path} can't be read ({error})"]
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
