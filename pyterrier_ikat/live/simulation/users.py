"""Simulated users: needs, personas and behaviour, their file, and the organisers' users of 2025."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, validate_call
from pydantic.dataclasses import dataclass

from ...conversations import read_topics
from ...conversations.topic_files import read_items
from ...errors import DataError
from ...store.cache import digest


def _with_ids(rubrics: Any) -> Any:
    """A list of rubrics with the ids r1, r2, ..."""
    if not isinstance(rubrics, list | tuple):
        return rubrics
    return {f"r{number}": text for number, text in enumerate(rubrics, 1)}


Level = Literal["low", "medium", "high"]
TURNS_OF_PATIENCE = {"low": 3, "medium": 6, "high": 10}
"""Patience -> the most turns."""
SAMPLE_USERS = Path(__file__).parents[2] / "conversations" / "sample" / "users.jsonl"
"""The users of the bundled sample."""

Word = Annotated[str, Field(pattern=r"^[^\s/\\]+$")]
Words = Annotated[str, Field(pattern=r"\S")]
Rubrics = Annotated[dict[Word, Words], Field(min_length=1), BeforeValidator(_with_ids)]


@dataclass(frozen=True, config={"extra": "forbid"})
class SimulatedUser:
    """A user played by a language model, and the questions that the user wants answered.

    A system sees nothing of this but the utterances, and the persona only if the simulation says
    so. The rubrics and the behaviour are for the simulated user and the judge alone. The users of
    TREC iKAT 2026 differ in cooperativeness, patience and language skill; what the three levels of
    each are is ours.

    Source: Salle et al., Studying the Effectiveness of Conversational Search Refinement Through
    User Simulation (ECIR 2021), whose users differ in patience and cooperativeness.

    Attributes:
        id: the user's name, one word; the simulated user's requests have the qids ``<id>_<turn>``.
        persona: statements about the user.
        need: what the user wants to find out, in general.
        rubrics: rubric id -> a question that the system has to answer; a list is accepted, too,
            with the ids ``r1``, ``r2``, ...
        patience: the most turns, up to 1000: a number, or ``low`` for 3, ``medium`` for 6, ``high``
            for 10.
        cooperativeness: ``low``: answers no question of the system. ``medium``: answers briefly.
            ``high``: also tells what may matter.
        skill: of language. ``low``: few simple words, with mistakes, and hints in the place of
            names. ``medium``: everyday words that omit details. ``high``: each utterance names
            exactly what the user means.
        person: the person, where several users are the same person with different needs; by default
            the id.
        topic: the conversation's name in the qids that systems see; by default the id.
        script: the utterances of a recorded conversation, the only ones that a system with recorded
            completions can answer.

    Raises:
        ValidationError: pydantic's, for a value that isn't allowed; it names the field.

    Example:
        >>> rubrics = ["Which tea has no caffeine?"]
        >>> user = SimulatedUser("u1", ["I avoid caffeine."], "Choosing a tea", rubrics, "low")
        >>> user.rubrics, user.turns
        ({'r1': 'Which tea has no caffeine?'}, 3)
    """

    id: Word
    persona: tuple[Words, ...]
    need: Words
    rubrics: Rubrics
    patience: Annotated[int, Field(strict=True, ge=1, le=1000)] | Level = "medium"
    cooperativeness: Level = "high"
    skill: Level = "high"
    person: str = ""
    topic: str = ""
    script: tuple[Words, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "person", self.person or self.id)
        object.__setattr__(self, "topic", self.topic or self.id)

    @property
    def turns(self) -> int:
        """The most turns."""
        return self.patience if isinstance(self.patience, int) else TURNS_OF_PATIENCE[self.patience]


_FORM = TypeAdapter(SimulatedUser)


def read_users(source: str | Path | SimulatedUser | Iterable[SimulatedUser]) -> list[SimulatedUser]:
    """Read the users of a file with a JSON object per line.

    Args:
        source: the file, ``.jsonl``; ``"sample"`` for the users of the bundled sample; the
            organisers' folder of 2025 and arguments of :func:`track_users`, such as ``"trec-ikat25
            assessed=on"``; or users.

    Raises:
        DataError: naming the file, the line and the field; also when two users have the same id, or
            there is no user.

    Example:
        >>> [user.id for user in read_users("sample")]
        ['1-1', '1-2', '2-1', '3-1', '3-1-hurried']
    """
    if isinstance(source, str | Path):
        users = _users_in(str(source))
    elif isinstance(source, SimulatedUser):
        users = [source]
    else:
        users = list(source)
    if not users:
        raise DataError("there is no user")
    ids = [user.id for user in users]
    if len(set(ids)) < len(ids):
        raise DataError(
            f"two users have the same id, among {', '.join(ids[:20])}: give each its own"
        )
    return users


def _users_in(source: str) -> list[SimulatedUser]:
    """The users of a file, or of the organisers' folder."""
    folder = source
    words: list[str] = []
    if not Path(source).exists():
        folder, *words = shlex.split(source) or [source]
    where = source
    users = []
    try:
        if Path(folder).is_dir():
            options: dict[str, Any] = {}
            for word in words:
                name, _, value = word.partition("=")
                options[name] = value
            return track_users(folder, **options)
        path = SAMPLE_USERS if source in ("sample", "ikat:sample") else Path(source)
        for line, item in read_items(path):
            where = f"{source}, {line}"
            users.append(_FORM.validate_python(item))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(f"{where}: {field}: {first['msg']}") from None
    return users


def checksum(users: Iterable[SimulatedUser]) -> str:
    """Return a checksum of all values of all users."""
    lines = [json.dumps(_FORM.dump_python(user, mode="json"), sort_keys=True) for user in users]
    return digest(*lines).hex()


@validate_call
def track_users(
    folder: str | Path,
    *,
    topics: str | Path | None = None,
    assessed: bool = False,
    patience: int | Level = "high",
    **behaviour: Any,
) -> list[SimulatedUser]:
    """The simulated users of TREC iKAT 2025, from the organisers' files.

    Source: https://github.com/marcel-gohsen/user-simulation-api (MIT licence),
    ``data/trec-ikat25``: a person's statements for each topic (``simulation-data.csv``), and the
    questions (``rubrics.csv``, of which ``assessed-rubrics.csv`` has the assessed ones).

    Args:
        folder: the folder with the three files.
        topics: the topics file of 2025, whose title becomes the user's need; without it, the need
            is the topic's first question.
        assessed: keep only the assessed questions as rubrics. A user without any is omitted.
        patience: of each user; the organisers' files have none.
        behaviour: of each user, see :class:`SimulatedUser`.

    Raises:
        DataError: when a file is missing or has other columns.
    """
    titles = {chat.number: chat.title for chat in read_topics(topics)} if topics else {}
    rubrics_file = "assessed-rubrics.csv" if assessed else "rubrics.csv"
    questions = _rows(folder, rubrics_file, ",", "id", "rubrik")
    people = _rows(folder, "simulation-data.csv", ";", "Topic ID", "Simulation PTKBs", "Question 1")
    users = []
    for name, statements, first_question in people:
        topic = name.replace("_", "-")
        rubrics = {rubric: text for rubric, text in questions if rubric.startswith(f"{topic}-r")}
        if not rubrics:
            continue
        persona = [text.strip() for text in statements.split(";") if text.strip()]
        user = SimulatedUser(
            topic,
            tuple(persona),
            titles.get(topic) or first_question,
            rubrics,
            patience=patience,
            person=topic.partition("-")[0],
            **behaviour,
        )
        users.append(user)
    return sorted(users, key=lambda user: tuple(map(int, user.id.split("-"))))


def _rows(folder: str | Path, name: str, separator: str, *columns: str) -> list[list[str]]:
    """These columns of a file, without line breaks and blanks around the texts."""
    path = Path(folder) / name
    try:
        table = pd.read_csv(
            path,
            sep=separator,
            usecols=columns,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} can't be read ({error}): give the organisers' folder of 2025"
        ) from None
    rows = []
    for cells in table[list(columns)].to_numpy():
        rows.append([" ".join(cell.split()) for cell in cells])
    return rows
