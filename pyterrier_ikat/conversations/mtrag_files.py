"""Files of MTRAG, read into conversations, passages and judgements. Errors name the faulty line."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..store.trec import read_label
from .json_files import Place, excerpt, load_json
from .qrels import qrels_frame
from .topics import ANSWERABILITY, Conversation, Message, TopicTurn

ROLES = {"user": "user", "agent": "assistant"}
USER = "|user|: "
"""The beginning of each question in a file of queries."""
AGAIN = "fetch the file again"
CUT = "it may be cut short: fetch it again"


class Tasks(NamedTuple):
    """Tasks as conversations, the passages that belong to them by docno, and the name of each task's collection by qid."""

    conversations: list[Conversation]
    passages: dict[str, dict[str, str]]
    collections: dict[str, str]


class _Item(NamedTuple):
    place: Place
    value: Any


def read_tasks(path: Path) -> Tasks:
    """Tasks with histories, target answers, answerability, and the ids of their passages.

    Args:
        path: ``.jsonl`` with one task per line, which has its passages in ``contexts``; or ``.json``, an object of ``tasks`` and
            ``documents``.

    Raises:
        DataError: naming file and line or task, when something is missing, contradicts itself, or isn't of this form.
    """
    return _read_tasks(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read_tasks(path: Path, changed: int) -> Tasks:
    place = Place(path)
    if path.suffix == ".jsonl":
        tasks = list(_lines(place))
        documents = [_Item(task.place, context) for task in tasks for context in _list(task, "contexts")]
    else:
        whole = _Item(place, load_json(_text(place), place, "not JSON", CUT))
        tasks = [_Item(place.at(f"task {number}"), task) for number, task in enumerate(_list(whole, "tasks"), 1)]
        documents = [_Item(place.at(f"document {number}"), found) for number, found in enumerate(_list(whole, "documents"), 1)]
    turns: dict[str, TopicTurn] = {}
    for task in tasks:
        turn = _task(task)
        if turn.qid in turns:
            task.place.fail(f"the task {turn.qid} occurs twice", AGAIN)
        turns[turn.qid] = turn
    passages = {passage["docno"]: passage for passage in map(_passage, documents)}
    if lacking := sorted({docno for turn in turns.values() for docno in turn.passages} - passages.keys()):
        place.fail(f"the passage {lacking[0]} of a task is not in it", CUT)
    collections = {qid: str(task.value.get("Collection", "")) for qid, task in zip(turns, tasks, strict=True)}
    return Tasks(grouped(turns.values()), passages, collections)


def read_queries(path: Path) -> dict[str, list[str]]:
    """The questions of each turn in a file of queries in BEIR's form, by qid. A text has the user's questions, one after the other.

    Raises:
        DataError: naming file and line.
    """
    found: dict[str, list[str]] = {}
    for place, value in _lines(Place(path)):
        qid, text = _qid(place, value.get("_id")), value.get("text")
        questions = text.removeprefix(USER).split(f"\n{USER}") if isinstance(text, str) and text.startswith(USER) else []
        if not questions or not all(question.strip() for question in questions):
            place.fail(f"the text is {excerpt(text)}", f'it has "{USER}" before each question')
        if qid in found:
            place.fail(f"the turn {qid} occurs twice", AGAIN)
        found[qid] = questions
    return found


def read_judgements(path: Path) -> pd.DataFrame:
    """Judgements with tabs between the columns, below a line of titles, as a qrels frame.

    Raises:
        DataError: naming file and line.
    """
    place, rows = Place(path), []
    for number, line in enumerate(_text(place).splitlines()[1:], 2):
        try:
            qid, docno, label = line.split("\t")
            rows.append((qid, docno, read_label(label)))
        except ValueError:
            place.at(f"line {number}").fail(
                f"{line[:60]!r} is not a judgement", "a line is query-id, corpus-id, score, with tabs between them"
            )
    if len({row[:2] for row in rows}) < len(rows):
        place.fail("a passage of a turn is judged twice", AGAIN)
    return qrels_frame(rows)


def turn_id(qid: str) -> int:
    """The number of the turn ``qid``.

    Example:
        >>> turn_id("dd6b6ffd<::>3")
        3
    """
    return int(qid.rpartition("<::>")[2])


def grouped(turns: Iterable[TopicTurn]) -> list[Conversation]:
    """The conversations of turns, in the order in which both first occur."""
    found: dict[str, list[TopicTurn]] = {}
    for turn in turns:
        found.setdefault(turn.qid.rpartition("<::>")[0], []).append(turn)
    return [Conversation(name, turns=tuple(of_one)) for name, of_one in found.items()]


def _task(item: _Item) -> TopicTurn:
    place, task = item
    try:
        *history, last = [_message(message) for message in task["input"]]
        [target], [label] = task["targets"], task["Answerability"]
        qid, answerability, answer = _qid(place, task["task_id"]), str(label).lower(), str(target["text"])
        docnos = tuple(dict.fromkeys(str(context["document_id"]) for context in task["contexts"]))
    except (KeyError, ValueError, TypeError) as error:
        place.fail(f"no task of MTRAG ({type(error).__name__}: {error})", AGAIN)
    if answerability not in ANSWERABILITY:
        place.fail(f"its answerability is {label!r}", f"there are {', '.join(ANSWERABILITY)}")
    if last["role"] != "user" or not last["content"].strip():
        place.fail(f"its last message is {excerpt(last)}", "it is the user's question")
    return TopicTurn(turn_id(qid), last["content"], answer, passages=docnos, qid=qid, history=tuple(history), answerability=answerability)


def _message(message: dict[str, str]) -> Message:
    role, text = ROLES[message["speaker"]], message["text"]
    if not isinstance(text, str):
        raise ValueError("a message without text")
    return {"role": role, "content": text}


def _passage(item: _Item) -> dict[str, str]:
    docno, text = (item.value.get(name) if isinstance(item.value, dict) else None for name in ("document_id", "text"))
    if not isinstance(docno, str) or docno.split() != [docno] or not isinstance(text, str):
        item.place.fail(f"{excerpt(item.value)} is not a passage", "it has document_id and text")
    return {"docno": docno, "text": text.strip(), "url": ""}


def _qid(place: Place, given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"\S+<::>[0-9]{1,9}", given):
        place.fail(f"the id is {excerpt(given)}", "it is <conversation><::><turn>")
    return given


def _list(item: _Item, name: str) -> list[Any]:
    found = item.value.get(name) if isinstance(item.value, dict) else None
    if not isinstance(found, list):
        item.place.fail(f"there is no array {name}", AGAIN)
    return found


def _lines(place: Place) -> Iterator[_Item]:
    """The objects of a JSON lines file."""
    for number, line in enumerate(_text(place).split("\n"), 1):
        if line.strip():
            here = place.at(f"line {number}")
            value = load_json(line, here, "not JSON", CUT)
            if not isinstance(value, dict):
                here.fail(f"expected an object, found {line[:60]}", AGAIN)
            yield _Item(here, value)


def _text(place: Place) -> str:
    try:
        return place.path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        place.fail(f"not a readable text ({error})", AGAIN)
