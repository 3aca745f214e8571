"""Simulated users: their needs, personas and behaviour, and the file that describes them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, advice
from ...portable import digest
from ...store.files import atomic_write

LEVELS = ("low", "medium", "high")
FIELDS = ("id", "persona", "need", "rubrics", "patience", "vagueness", "willingness")
"""The fields that each line of a users file has."""
MOST_TURNS = 1000
"""The most turns of a session: each is planned and may be paid for."""
OPTIONAL = ("person", "topic", "script")
SAMPLE = Path(__file__).parents[2] / "conversations" / "sample" / "users.jsonl"
"""The users of the bundled sample."""


@dataclass(frozen=True)
class SimulatedUser:
    """A user whom a language model plays, and the questions that decide when the user is satisfied.

    A system sees nothing of this but the utterances, and the persona only if the simulation says so. The rubrics and the behaviour are
    for the simulated user and the judge alone.

    Source: Salle et al., Studying the Effectiveness of Conversational Search Refinement Through User Simulation (ECIR 2021), whose users
    differ in patience and cooperativeness.

    Attributes:
        id: the user's name, one word; the simulated user's requests have the qids ``<id>_<turn>``.
        persona: statements about the user.
        need: what the user wants to find out, in general.
        rubrics: rubric id -> a question that the system has to answer; a list is accepted, too, with the ids ``r1``, ``r2``, ...
        patience: the most turns, up to 1000.
        vagueness: how little an utterance says about what the user means; see :attr:`vagueness_level`.
        willingness: how much the user helps the system by speaking about themselves and by answering its questions.
        person: the person, where several users are the same person with different needs; by default the id.
        topic: the conversation's name in the qids that systems see; by default the id.
        script: the utterances of a recorded conversation, the only ones that a system with recorded completions can answer.

    Raises:
        UsageError: for a value that isn't allowed; it names the field.

    Example:
        >>> user = SimulatedUser("u1", ["I avoid caffeine."], "Choosing a tea", ["Which tea has no caffeine?"], 3, "low", 0.9)
        >>> user.rubrics, user.willingness_level
        ({'r1': 'Which tea has no caffeine?'}, 'high')
    """

    id: str
    persona: Sequence[str]
    need: str
    rubrics: Mapping[str, str]
    patience: int
    vagueness: str | float = "low"
    willingness: str | float = "high"
    person: str = ""
    topic: str = ""
    script: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if isinstance(self.rubrics, list | tuple):
            object.__setattr__(self, "rubrics", {f"r{number}": text for number, text in enumerate(self.rubrics, 1)})
        for name, wanted, right in self._checks():
            if not right:
                raise UsageError(f"{name} is {_shown(getattr(self, name))}: give {wanted}")
        object.__setattr__(self, "persona", tuple(self.persona))
        object.__setattr__(self, "script", tuple(self.script))
        object.__setattr__(self, "person", self.person or self.id)
        object.__setattr__(self, "topic", self.topic or self.id)

    def _checks(self) -> Iterable[tuple[str, str, bool]]:
        """Each field, the value to give, and whether the value is one."""
        ids, level = "one word without slash", f"a level ({', '.join(LEVELS)}) or a number from 0 to 1"
        yield "id", ids, _is_word(self.id)
        yield "persona", "a list of statements", _are_texts(self.persona)
        yield "need", "a text that is not blank", _is_text(self.need)
        rubrics = "a list of questions, or an object id -> question; at least one, none blank"
        yield "rubrics", rubrics, isinstance(self.rubrics, Mapping) and _are_texts([*self.rubrics, *self.rubrics.values()], 2)
        yield (
            "patience",
            f"a whole number of turns, from 1 to {MOST_TURNS:,}",
            _is_whole(self.patience) and 1 <= self.patience <= MOST_TURNS,
        )
        yield "vagueness", level, _is_level(self.vagueness)
        yield "willingness", level, _is_level(self.willingness)
        yield "person", ids, self.person == "" or _is_word(self.person)
        yield "topic", ids, self.topic == "" or _is_word(self.topic)
        yield "script", "a list of utterances", _are_texts(self.script)

    @property
    def vagueness_level(self) -> str:
        """``low``: each utterance names exactly what the user means. ``medium``: it omits details. ``high``: it only hints at it."""
        return level_of(self.vagueness)

    @property
    def willingness_level(self) -> str:
        """``low``: answers no question of the system. ``medium``: answers briefly. ``high``: answers, and tells what may matter."""
        return level_of(self.willingness)

    def record(self) -> dict[str, Any]:
        """The user as a line of a users file."""
        found: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        found["persona"], found["rubrics"] = list(self.persona), dict(self.rubrics)
        if self.person != self.id:
            found["person"] = self.person
        if self.topic != self.id:
            found["topic"] = self.topic
        return found | ({"script": list(self.script)} if self.script else {})


def level_of(value: str | float) -> str:
    """The level of a number from 0 to 1: below 1/3 ``low``, below 2/3 ``medium``, else ``high``; a level is returned as it is.

    Example:
        >>> [level_of(value) for value in ("medium", 0, 0.5, 1)]
        ['medium', 'low', 'medium', 'high']
    """
    return value if isinstance(value, str) else LEVELS[min(int(value * 3), 2)]


def read_users(source: str | Path | SimulatedUser | Iterable[SimulatedUser]) -> list[SimulatedUser]:
    """The users of a file with a JSON object per line; blank lines are skipped.

    Args:
        source: the file, ``"sample"`` for the users of the bundled sample, or users.

    Raises:
        DataError: naming the file, the line and the field; also when two users have the same id, or there is no user.
        UsageError: when an item of a list is not a user.

    Example:
        >>> [user.id for user in read_users("sample")]
        ['1-1', '1-2', '2-1', '3-1', '3-1-hurried']
    """
    if not isinstance(source, str | Path):
        given = [source] if isinstance(source, SimulatedUser) else list(source)
        if odd := [one for one in given if not isinstance(one, SimulatedUser)]:
            raise UsageError(f"{_shown(odd[0])} is not a user: give SimulatedUser(...), or the name of a users file")
        return _distinct(given, "the list of users")
    path = SAMPLE if str(source) in ("sample", "ikat:sample") else Path(source)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        made = advice("as ikat.simulation.convert_track_users(folder) makes", "the organisers' folder given as --users")
        raise DataError(f"the users file {path} can't be read ({reason}): give a file of JSON lines, {made}, or sample") from None
    return _distinct([_user_of(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()], str(path))


def write_users(users: Iterable[SimulatedUser], path: str | Path) -> Path:
    """Write a users file, whole or not at all."""
    with atomic_write(path) as file:
        file.writelines(json.dumps(user.record(), ensure_ascii=False) + "\n" for user in users)
    return Path(path)


def checksum(users: Iterable[SimulatedUser]) -> str:
    """A checksum that changes with any value of any user."""
    return digest(*(json.dumps(user.record(), sort_keys=True) for user in users)).hex()


def _user_of(line: str, where: str) -> SimulatedUser:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}): give one object per line") from None
    if not isinstance(given, dict):
        raise DataError(f"{where}: a {type(given).__name__}: give an object with the fields {', '.join(FIELDS)}")
    if missing := [name for name in FIELDS if name not in given]:
        raise DataError(f"{where}: the field {missing[0]!r} is missing: a user has {', '.join(FIELDS)}")
    if unknown := [name for name in given if name not in (*FIELDS, *OPTIONAL)]:
        raise DataError(f"{where}: the field {unknown[0]!r} is unknown: a user has {', '.join(FIELDS)}, and may have {', '.join(OPTIONAL)}")
    try:
        return SimulatedUser(**given)
    except UsageError as error:
        raise DataError(f"{where}: {error}") from None


def _distinct(users: list[SimulatedUser], where: str) -> list[SimulatedUser]:
    names = [user.id for user in users]
    if not names:
        raise DataError(f"{where} has no user: give at least one")
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{where} has two users with the id {twice[0]!r}: give each its own id")
    return users


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_word(value: Any) -> bool:
    return _is_text(value) and len(value.split()) == 1 and value.isprintable() and not set(value) & set("/\\")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(values: Any, least: int = 0) -> bool:
    return isinstance(values, list | tuple) and len(values) >= least and all(map(_is_text, values))


def _is_level(value: Any) -> bool:
    return value in LEVELS if isinstance(value, str) else isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _shown(value: Any) -> str:
    return repr(value)[:80]
