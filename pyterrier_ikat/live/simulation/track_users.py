"""The simulated users of TREC iKAT 2025 as a users file.

The organisers' files (https://github.com/marcel-gohsen/user-simulation-api, MIT licence, ``data/trec-ikat25``) are ``simulation-data.csv``
(a person's statements and questions for each topic; semicolons, a byte-order mark, empty columns at the end), ``rubrics.csv`` (the same
questions with ids) and ``assessed-rubrics.csv`` (those that were assessed). A topic is ``1_1`` in the first file; its questions are
``1-1-r1``, ``1-1-r2``, ... in the others.
"""

import csv
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...conversations import read_topics
from ...errors import DataError, UsageError, counted
from .users import SimulatedUser

DATA, RUBRICS, ASSESSED = "simulation-data.csv", "rubrics.csv", "assessed-rubrics.csv"
QUESTIONS = re.compile(r"Question \d+")
TOPIC, RUBRIC = re.compile(r"(\d+)_(\d+)"), re.compile(r"(\d+-\d+)-r(\d+)")
PATIENCE = 10
"""The default patience in turns; the organisers' files have none."""


@dataclass(frozen=True)
class TrackUsers:
    """The users, and the counts of everything that was read and kept.

    Attributes:
        users: the users, in the order of their ids.
        notes: the counts, a sentence each.
    """

    users: list[SimulatedUser]
    notes: list[str]


def users_of_folder(text: str) -> TrackUsers | None:
    """The users of the organisers' files, from a line such as ``"trec-ikat25 topics=2025_topics.json assessed=on patience=8"``.

    Args:
        text: the folder, then arguments of :func:`convert_track_users`; a path with spaces in quotation marks.

    Returns:
        The users; None when the line begins with no folder.

    Raises:
        UsageError: for an unknown argument or a wrong value.
        DataError: see :func:`convert_track_users`.
    """
    try:
        folder, *words = [text] if Path(text).is_dir() else shlex.split(text)
    except ValueError:  # no words, or a quotation mark without its end
        return None
    if not Path(folder).is_dir():
        return None
    given: dict[str, Any] = {}
    for name, _, value in (word.partition("=") for word in words):
        if name not in READ or name in given:
            known = "is there twice" if name in given else f"is unknown: give {', '.join(READ)}"
            raise UsageError(f"users of {folder}: the argument {name!r} {known}")
        try:
            given[name] = READ[name](value)
        except (ValueError, KeyError):
            raise UsageError(f"users of {folder}: {name}={value}: give {'a number' if name == 'patience' else 'on or off'}") from None
    return convert_track_users(folder, **given)


def _level(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


READ: dict[str, Callable[[str], Any]] = {
    "topics": str,
    "assessed": {"on": True, "off": False}.__getitem__,
    "patience": int,
    "vagueness": _level,
    "willingness": _level,
}
"""The arguments of a line, and how each is read."""


def convert_track_users(
    folder: str | Path,
    *,
    topics: str | Path | None = None,
    assessed: bool = False,
    patience: int = PATIENCE,
    vagueness: str | float = "low",
    willingness: str | float = "high",
) -> TrackUsers:
    """Make users from the organisers' files of 2025; every question is matched in both files, and nothing is dropped silently.

    Statements are separated by semicolons within their field, so a statement with a semicolon becomes two.

    Args:
        folder: the folder with the three files.
        topics: the topics file of 2025, whose title becomes the user's need; without it, the need is the topic's first question.
        assessed: keep only the assessed questions as rubrics. A user without any is omitted, and named in the notes.
        patience: the most turns of each user.
        vagueness: of each user, see :class:`SimulatedUser`.
        willingness: of each user, see :class:`SimulatedUser`.

    Raises:
        DataError: when a file is missing or malformed, a topic or question is in one file only, their texts differ, an id
            appears twice, or no user is left.
    """
    place = Path(folder)
    people = _people(place / DATA)
    questions = {name: text for _, asked in people.values() for name, text in asked.items()}
    _check_questions(questions, _rubrics(place / RUBRICS))
    chosen = _rubrics(place / ASSESSED)
    for name, text in chosen.items():
        if questions.get(name) != text:
            reason = "is not in it" if name not in questions else "has another text there"
            raise DataError(f"{place / ASSESSED}: the question {name} {reason} ({RUBRICS}): repair the file, or download it again")
    needs = {} if topics is None else {one.number: one.title for one in read_topics(topics)}
    if topics is not None and (without := [number for number in people if not needs.get(number, "").strip()]):
        raise DataError(f"the topics file {topics} has no title for topic {without[0]}: give the topics of 2025, or none")
    users, omitted = [], []
    for number in sorted(people, key=lambda name: tuple(map(int, name.split("-")))):
        statements, asked = people[number]
        rubrics = {name: text for name, text in asked.items() if not assessed or name in chosen}
        if not rubrics:
            omitted.append(number)
            continue
        need = needs.get(number, next(iter(asked.values())))
        person = number.partition("-")[0]
        users.append(SimulatedUser(number, statements, need, rubrics, patience, vagueness, willingness, person=person))
    if not users:
        lacking = f"{place / ASSESSED} has no question, so no user has a rubric" if people else f"{place / DATA} has no topic"
        raise DataError(f"{lacking}: download the file again" + (", or keep all questions" if people else ""))
    return TrackUsers(users, _notes(users, people, questions, chosen, omitted, topics is not None, assessed))


def _people(path: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Topic -> the person's statements, and the questions by their ids."""
    header, *rows = _rows(path, ";")
    columns = [name.strip() for name in header]
    if columns[:2] != ["Topic ID", "Simulation PTKBs"] or not all(QUESTIONS.fullmatch(name) or not name for name in columns[2:]):
        raise DataError(f"{path}, line 1: the columns are {columns[:4]}: give the file with Topic ID;Simulation PTKBs;Question 1;...")
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for number, row in enumerate(rows, 2):
        where, cells = f"{path}, row {number}", [_flat(cell) for cell in row]
        topic = TOPIC.fullmatch(cells[0]) if cells else None
        if topic is None:
            raise DataError(f"{where}: the Topic ID is {cells[:1]}: it should be like 1_1")
        name = f"{topic[1]}-{topic[2]}"
        statements = [text for text in map(str.strip, cells[1].split(";")) if text] if len(cells) > 1 else []
        asked = [text for text in cells[2:] if text]
        if not statements or not asked or asked != cells[2 : 2 + len(asked)]:
            raise DataError(f"{where}: topic {name} has no statements or no questions, or an empty question between others: repair the row")
        if name in found:
            raise DataError(f"{where}: topic {name} appears twice: keep one row")
        found[name] = statements, {f"{name}-r{place}": text for place, text in enumerate(asked, 1)}
    return found


def _rubrics(path: Path) -> dict[str, str]:
    header, *rows = _rows(path, ",")
    if [name.strip() for name in header] != ["id", "rubrik"]:
        raise DataError(f'{path}, line 1: the columns are {header[:4]}: give the file with "id","rubrik"')
    found: dict[str, str] = {}
    for number, row in enumerate(rows, 2):
        if len(row) != 2 or not RUBRIC.fullmatch(row[0].strip()) or not row[1].strip():
            raise DataError(f"{path}, row {number}: {row[:3]}: it should be an id like 1-1-r1, and a question")
        if (name := row[0].strip()) in found:
            raise DataError(f"{path}, row {number}: the question {name} appears twice: keep one row")
        found[name] = _flat(row[1])
    return found


def _rows(path: Path, delimiter: str) -> list[list[str]]:
    """The rows of a file that are not empty, at least the header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if any(map(str.strip, row))]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8, or download it again") from None
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} can't be read ({reason}): give the folder with {DATA}, {RUBRICS} and {ASSESSED}") from None
    if not found:
        raise DataError(f"{path} is empty: download it again")
    return found


def _check_questions(wanted: Mapping[str, str], questions: Mapping[str, str]) -> None:
    """Each question has to be the one of its number in the other file."""
    for name in dict.fromkeys([*wanted, *questions]):
        if name not in questions or name not in wanted:
            there, lacking = (DATA, RUBRICS) if name in wanted else (RUBRICS, DATA)
            raise DataError(f"the question {name} is in {there} and not in {lacking}: give files of the same release")
        if wanted[name] != questions[name]:
            raise DataError(
                f"the question {name} is {wanted[name]!r} in {DATA} and {questions[name]!r} in {RUBRICS}: give files of the same release"
            )


def _notes(
    users: Sequence[SimulatedUser],
    people: Mapping[str, tuple[Sequence[str], Mapping[str, str]]],
    questions: Mapping[str, str],
    chosen: Mapping[str, str],
    omitted: Sequence[str],
    has_titles: bool,
    assessed: bool,
) -> list[str]:
    statements = sum(len(said) for said, _ in people.values())
    persons = len({user.person for user in users})
    return [
        f"{counted(len(people), 'topic')} with {counted(statements, 'statement')} and "
        f"{counted(len(questions), 'question')} read, {len(chosen)} of the questions assessed.",
        f"{counted(len(users), 'user')} of {counted(persons, 'person')} with "
        f"{counted(sum(len(user.rubrics) for user in users), 'rubric')} written"
        + (" (only the assessed questions)." if assessed else " (all questions)."),
        *([f"Omitted, without an assessed question: {', '.join(omitted)}."] if omitted else []),
        "The need of each user is the topic's title." if has_titles else "The need of each user is the topic's first question.",
    ]


def _flat(text: str) -> str:
    return " ".join(text.split())
