"""The files of the three years, read as pydantic models and written from a run.

2023
    One JSON object: ``run_name``, ``run_type``, ``turns`` [``turn_id``, ``responses`` [``rank``,
    ``text``, ``ptkb_provenance`` [``id``, ``text``, ``score``], ``passage_provenance`` [``id``,
    ``text``, ``score``, ``used``]]].
2024
    The same plus ``eval_response``. ``ptkb_provenance`` is a list of whole numbers, also as
    strings, best first. The run type may be ``only_response``, for responses from passages that
    others ranked.
2025
    JSON lines, one per turn: ``metadata`` (``team_id``, ``run_id``, ``run_type``), ``turn_id``,
    ``responses`` [``rank``, ``text``, ``citations`` (the used passages, id: score),
    ``ptkb_provenance`` (the statements' texts)], ``references`` (the ranking, id: score).

A model of a whole turn extends the one that has its ranking alone (``Ranked...``), because the
evaluation of passages reads files whose other fields are wrong.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..conversations import IkatDataset, datasets
from ..errors import UsageError, advice
from .problem import JsonValues, Place, read_json_values, read_model

RUN_TYPES = {
    2023: ("automatic", "manual"),
    2024: ("automatic", "manual", "only_response"),
    2025: ("automatic", "generation-only", "manual"),
}


class Lenient(BaseModel):
    """A part of a file. Other fields are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Strict(Lenient):
    """A part of a file of 2023 or 2024, at whose other fields the organisers' reader stops."""

    model_config = ConfigDict(extra="forbid")


class RankedPassage(Lenient):
    """A passage of a ranking, or one that a response cites."""

    id: str
    score: float
    used: bool | None = None


def as_passages(scores: Mapping[str, float]) -> list[RankedPassage]:
    """The passages of an object of 2025, id: score."""
    return [RankedPassage(id=docno, score=score) for docno, score in scores.items()]


TurnRanking = dict[str, tuple[float, bool]]
"""Passage -> its score, and whether a response uses it."""


Rank = Annotated[int, Field(ge=0)]
"""The rank of a response. Scores are divided by it + 1, so a file of ranks from 0 is read, too."""


class RankedResponse(Lenient):
    """The passages of one response; several responses are ranked."""

    rank: Rank = 1
    passages: Sequence[RankedPassage] = Field(alias="passage_provenance")


class RankedTurn23(Lenient):
    """The ranking of a turn of 2023 or 2024."""

    turn_id: str
    responses: Sequence[RankedResponse]

    def ranking(self) -> TurnRanking:
        """The passages of the responses, each once, as the organisers' converter ranks them.

        Of several responses, a score is divided by the response's rank + 1.
        """
        ranking: TurnRanking = {}
        for response in by_rank(self.responses):
            share = 1.0 if len(self.responses) == 1 else 1 / (response.rank + 1)
            for passage in response.passages:
                entry = (share * passage.score, bool(passage.used))
                ranking.setdefault(passage.id, entry)
        return ranking


class RankedTurn25(Lenient):
    """The ranking of a turn of 2025."""

    turn_id: str
    references: Mapping[str, float]

    def ranking(self, used: Iterable[str] = ()) -> TurnRanking:
        """The references; ``used`` are those that a response cites."""
        ranking = {}
        for docno, score in self.references.items():
            ranking[docno] = (float(score), docno in used)
        return ranking


class PtkbStatement(Strict):
    """A PTKB statement as the format names it: 2023 by id and text, 2024 by id, 2025 by text."""

    id: str | None = None
    text: str | None = None
    score: float | None = None


class PtkbStatement23(PtkbStatement):
    """A statement of 2023."""

    id: str
    text: str
    score: float


class PtkbStatement25(PtkbStatement):
    """A statement of 2025."""

    text: str


def _statement_24(item: Any) -> PtkbStatement:
    """A statement of 2024, which is named by a number."""
    if isinstance(item, str):
        is_number = item.isascii() and item.isdecimal()
    else:
        is_number = isinstance(item, int) and not isinstance(item, bool)
    if not is_number:
        raise ValueError("it has to be a whole number")
    return PtkbStatement(id=str(int(item)))


def _statement_25(item: Any) -> dict[str, Any]:
    """A statement of 2025, which is named by its words."""
    return {"text": item}


class Passage23(RankedPassage, Strict):
    """A passage of a submission of 2023 or 2024."""

    text: str = ""


class Response23(RankedResponse, Strict):
    """A response of 2023."""

    rank: Rank
    text: str
    statements: Sequence[PtkbStatement23] = Field(alias="ptkb_provenance")
    passages: Sequence[Passage23] = Field(alias="passage_provenance")


class Response24(Response23):
    """A response of 2024."""

    statements: Sequence[Annotated[PtkbStatement, BeforeValidator(_statement_24)]] = Field(  # type: ignore[assignment]
        alias="ptkb_provenance"
    )


class Response25(Lenient):
    """A response of 2025."""

    rank: int
    text: str
    citations: Mapping[str, float]
    statements: Sequence[Annotated[PtkbStatement25, BeforeValidator(_statement_25)]] = Field(
        alias="ptkb_provenance"
    )


class Turn23(RankedTurn23, Strict):
    """A turn of 2023."""

    responses: Sequence[Response23]


class Turn24(Turn23):
    """A turn of 2024."""

    responses: Sequence[Response24]


class Metadata25(Lenient):
    """The run's names of 2025, the same in each line."""

    team_id: str
    run_id: str
    run_type: str


class Turn25(RankedTurn25):
    """A turn of 2025."""

    metadata: Metadata25
    responses: Sequence[Response25]

    def ranking(self, used: Iterable[str] = ()) -> TurnRanking:
        """The references, with those marked that a response cites."""
        cited = set(used)
        for response in self.responses:
            cited.update(response.citations)
        return super().ranking(cited)


class Head23(Strict):
    """A file of 2023. Its turns are read one by one."""

    run_name: str
    run_type: str
    turns: list[Any]


class Head24(Head23):
    """A file of 2024."""

    eval_response: bool


class RankedHead23(Lenient):
    """A file of 2023 or 2024, as far as it has rankings."""

    turns: list[Any]


Models = Mapping[int, type[BaseModel]]
"""Year -> the model of a turn."""
WHOLE_TURNS: Models = {2023: Turn23, 2024: Turn24, 2025: Turn25}
RANKED_TURNS: Models = {2023: RankedTurn23, 2024: RankedTurn23, 2025: RankedTurn25}


def by_rank(responses: Sequence[Any]) -> list[Any]:
    """The responses of a turn in the order of their ranks."""
    return sorted(responses, key=lambda response: int(response.rank))


@dataclass
class SubmittedRun:
    """A whole submission.

    Attributes:
        run_id: the run's name.
        run_type: automatic, manual, ...
        team: the team's id, in 2025.
        turns: the turns. One that can't be read is missing: the reader has noted why.
        evaluated: whether to assess the responses, in 2024.
        unread: the ids of the turns that can't be read.
    """

    run_id: str | None = None
    run_type: str | None = None
    team: str | None = None
    turns: list[Any] = field(default_factory=list)
    evaluated: bool = True
    unread: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Topics:
    """The turns that a submission has to answer: qid -> the user's statements by id."""

    name: str
    year: int
    statements: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, dataset: IkatDataset) -> "Topics":
        """The turns of a dataset of the track. The sample and the mini collection are of 2023.

        Raises:
            UsageError: when the dataset doesn't belong to a year, because each year has its own
                format.
        """
        data = datasets.dataset(dataset)
        if data.year is None:
            reports = advice("write_reports", "--run-type autojudge")
            raise UsageError(
                f"{data.name} is of no year of the track, and each year has its own format: give a "
                f"dataset such as ikat:2025, or take {reports}, which writes reports on any dataset"
            )
        topics = data.get_topics()
        return cls(data.name, data.year, dict(zip(topics["qid"], topics["qptkb"], strict=True)))


def year_of(values: JsonValues) -> int | None:
    """The year whose format a file has; None if it could be any.

    2025 has a line per turn with ``references`` and ``metadata``. 2023 and 2024 have one object
    with ``turns``, and name PTKB statements with objects (2023) or with numbers, also as strings
    (2024). The majority of entries decides, so a single wrong entry is a problem, not a sign of
    another year.
    """
    objects = [value for _, value in values if isinstance(value, dict)]
    for item in objects:
        if "turns" in item:
            return _year_of_object(item)
    lines = sum("references" in item or "metadata" in item for item in objects)
    return 2025 if lines and lines * 2 >= len(objects) else None


def _year_of_object(item: Mapping[str, Any]) -> int | None:
    """2023 if most PTKB statements are objects, 2024 if most are numbers or texts."""
    types = Counter[type]()
    for turn in _list_in(item, "turns"):
        for response in _list_in(turn, "responses"):
            types.update(map(type, _list_in(response, "ptkb_provenance")))
    numbers = types[int] + types[str]
    if types[dict] > numbers:
        return 2023
    if types[dict] < numbers or "eval_response" in item:
        return 2024
    return None


def _list_in(item: Any, name: str) -> Sequence[Any]:
    """The list in a field; empty if there is none."""
    if not isinstance(item, dict) or not isinstance(item.get(name), list):
        return ()
    entries: list[Any] = item[name]
    return entries


def load_run(
    path: str | Path, year: int | None, place: Place, models: Models = WHOLE_TURNS
) -> tuple[int, SubmittedRun | None]:
    """The year of a submission (by its format if ``year`` is None), and the submission.

    If it can't be read or has the format of another year, a problem is noted, and the submission is
    None.

    Raises:
        DataError: when there is no such file.
    """
    values = read_json_values(path, place)
    format_year = year_of(values)
    year = year or format_year or 2023
    if not values:
        return year, None
    if format_year not in (None, year):
        dataset = advice(f'ikat.dataset("ikat:{format_year}")', f"--dataset ikat:{format_year}")
        place.error(
            f"this is a submission of {format_year}, not of {year}: give {dataset}, or write it in "
            f"the format of {year}"
        )
        return year, None
    if year == 2025:
        return year, _read_lines(values, place, models[year])
    return year, _read_object(values, place, models[year], year)


def _read_object(
    values: JsonValues, place: Place, model: type[BaseModel], year: int
) -> SubmittedRun:
    run = SubmittedRun()
    whole = values[0][1]
    if len(values) != 1:
        place.error(
            f"there are {len(values)} JSON values: the file has to be one object with all turns"
        )
    if model is RankedTurn23:
        read_model(RankedHead23, whole, place)
    else:
        head = read_model(Head24 if year == 2024 else Head23, whole, place)
        if head is not None:
            run.run_id = head.run_name
            run.run_type = head.run_type
        if isinstance(head, Head24):
            run.evaluated = head.eval_response
    for number, item in enumerate(_list_in(whole, "turns")):
        _read_turn(run, item, place.at("turns", number), model)
    return run


def _read_lines(values: JsonValues, place: Place, model: type[BaseModel]) -> SubmittedRun:
    run = SubmittedRun()
    if len(values) == 1 and isinstance(values[0][1], list):
        place.error("it is one array: write each of its objects on its own line")
        values = list(enumerate(values[0][1], 1))
    for number, item in values:
        _read_turn(run, item, place.at(f"line {number}"), model)
    if model is RankedTurn25 or not run.turns:
        return run
    first = run.turns[0].metadata
    run.run_id = first.run_id
    run.run_type = first.run_type
    run.team = first.team_id
    for turn in run.turns:
        if turn.metadata != first:
            place.of_turn(turn.turn_id).at("metadata").error(
                "they differ from those of the first turn: give all turns of a run the same"
            )
    return run


def _read_turn(run: SubmittedRun, item: Any, place: Place, model: type[BaseModel]) -> None:
    qid = item.get("turn_id") if isinstance(item, dict) else None
    if isinstance(qid, str):
        place = place.of_turn(qid)
    turn = read_model(model, item, place)
    if turn is not None:
        run.turns.append(turn)
    elif isinstance(qid, str):
        run.unread.add(qid)


class TurnToWrite(NamedTuple):
    """A turn to write."""

    qid: str
    response: str
    passages: Sequence[RankedPassage]
    statements: Sequence[PtkbStatement]


def file_lines(
    run_id: str, run_type: str, team: str | None, turns: Iterable[TurnToWrite], year: int
) -> Iterator[str]:
    """The text of the file, with one turn per line.

    In 2024 ``eval_response`` is true, because our submissions have responses.
    """
    if year == 2025:
        metadata = {"team_id": team, "run_id": run_id, "run_type": run_type}
        for turn in turns:
            references = {passage.id: passage.score for passage in turn.passages}
            line = {"metadata": metadata, **_as_entry(turn, year), "references": references}
            yield json.dumps(line) + "\n"
        return
    head: dict[str, Any] = {"run_name": run_id, "run_type": run_type}
    if year == 2024:
        head["eval_response"] = True
    yield json.dumps(head).removesuffix("}") + ', "turns": [\n'
    yield ",\n".join(json.dumps(_as_entry(turn, year)) for turn in turns)
    yield "\n]}\n"


def _as_entry(turn: TurnToWrite, year: int) -> dict[str, Any]:
    """A turn in the year's format."""
    response: dict[str, Any] = {"rank": 1, "text": turn.response}
    if year == 2025:
        used = [passage for passage in turn.passages if passage.used]
        response["citations"] = {passage.id: passage.score for passage in used}
        response["ptkb_provenance"] = [statement.text for statement in turn.statements]
        return {"turn_id": turn.qid, "responses": [response]}
    if year == 2024:
        response["ptkb_provenance"] = [_as_number(statement.id) for statement in turn.statements]
    else:
        response["ptkb_provenance"] = [statement.model_dump() for statement in turn.statements]
    response["passage_provenance"] = [
        {"id": passage.id, "text": "", "score": passage.score, "used": bool(passage.used)}
        for passage in turn.passages
    ]
    return {"turn_id": turn.qid, "responses": [response]}


def _as_number(name: str | None) -> int | str | None:
    """The id as a number. An id that is not a number is unchanged, and the check reports it."""
    if name is None or not (name.isascii() and name.isdecimal()):
        return name
    return int(name)
