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

A model of a whole turn extends the one that has its ranking alone, which is all that the evaluation
of passages needs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..conversations import IkatDataset, datasets
from ..errors import UsageError, advice
from .problem import Place, Values, read_json_values, read_model

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


class RankedResponse(Lenient):
    """The passages of one response; several responses are ranked."""

    rank: int = 1
    passages: Sequence[RankedPassage] = Field(alias="passage_provenance")


class RankedTurn(Lenient):
    """The ranking of a turn of 2023 or 2024."""

    turn_id: str
    responses: Sequence[RankedResponse]
    references: None = None


class RankedLine(Lenient):
    """The ranking of a turn of 2025."""

    turn_id: str
    responses: Any = ()
    references: Mapping[str, float]


class Statement(Strict):
    """A PTKB statement as the format names it: 2023 by id and text, 2024 by id, 2025 by text."""

    id: str | None = None
    text: str | None = None
    score: float | None = None


class NamedStatement(Statement):
    """A statement of 2023."""

    id: str
    text: str
    score: float


def _by_number(item: Any) -> Statement:
    """A statement of 2024."""
    if isinstance(item, bool) or not (
        isinstance(item, int) or (isinstance(item, str) and item.isascii() and item.isdecimal())
    ):
        raise ValueError("it has to be a whole number")
    return Statement(id=str(int(item)))


class Passage(RankedPassage, Strict):
    """A passage of a submission of 2023 or 2024."""

    text: str = ""


class Response23(RankedResponse, Strict):
    """A response of 2023."""

    rank: int
    text: str
    statements: Sequence[NamedStatement] = Field(alias="ptkb_provenance")
    passages: Sequence[Passage] = Field(alias="passage_provenance")


class Response24(Response23):
    """A response of 2024."""

    statements: Sequence[Annotated[Statement, BeforeValidator(_by_number)]] = Field(  # type: ignore[assignment]
        alias="ptkb_provenance"
    )


class Response25(Lenient):
    """A response of 2025."""

    rank: int
    text: str
    citations: Mapping[str, float]
    statements: Sequence[Annotated[Statement, BeforeValidator(lambda text: {"text": text})]] = (
        Field(alias="ptkb_provenance")
    )


class Turn23(RankedTurn, Strict):
    """A turn of 2023."""

    responses: Sequence[Response23]


class Turn24(Turn23):
    """A turn of 2024."""

    responses: Sequence[Response24]


class Metadata(Lenient):
    """The run's names of 2025, the same in each line."""

    team_id: str
    run_id: str
    run_type: str


class Line(RankedLine):
    """A turn of 2025."""

    metadata: Metadata
    responses: Sequence[Response25]


class Head23(Strict):
    """A file of 2023. Its turns are read one by one."""

    run_name: str
    run_type: str
    turns: list[Any]


class Head24(Head23):
    """A file of 2024."""

    eval_response: bool


TURNS: Mapping[int, type[BaseModel]] = {2023: Turn23, 2024: Turn24, 2025: Line}
RANKINGS: Mapping[int, type[BaseModel]] = {2023: RankedTurn, 2024: RankedTurn, 2025: RankedLine}


@dataclass
class Run:
    """A whole submission; with ``team`` only in 2025, and ``evaluated`` (whether to assess the responses) only in 2024.

    A turn that can't be read is missing from ``turns``, and its id is in ``unread``. The reader has
    noted why.
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
        """The turns of a dataset of the track. The sample and the mini collection are submitted like 2023.

        Raises:
            UsageError: when the dataset doesn't belong to a year, because each year has its own
                format.
        """
        data = datasets.dataset(dataset)
        if data.year is None:
            what = f"{data.name} is of no year of the track, and each year has its own format"
            instead = advice("write_reports", "--run-type autojudge")
            raise UsageError(
                f"{what}: give a dataset such as ikat:2025, or take {instead}, which writes reports on any dataset"
            )
        topics = data.get_topics()
        return cls(data.name, data.year, dict(zip(topics["qid"], topics["qptkb"], strict=True)))


def year_of(values: Values) -> int | None:
    """The year whose format a file has; None if it could be any.

    2025 has a line per turn with ``references`` and ``metadata``. 2023 and 2024 have one object
    with ``turns``, and name PTKB statements with objects (2023) or with numbers, also as strings
    (2024). The majority of entries decides, so a single wrong entry is a problem, not a sign of
    another year.
    """
    objects = [value for _, value in values if isinstance(value, dict)]
    top = next((item for item in objects if "turns" in item), None)
    if top is not None:
        responses = [
            response for turn in _list_in(top, "turns") for response in _list_in(turn, "responses")
        ]
        kinds = Counter(
            type(entry) for response in responses for entry in _list_in(response, "ptkb_provenance")
        )
        if kinds[dict] != (numbers := kinds[int] + kinds[str]):
            return 2023 if kinds[dict] > numbers else 2024
        return 2024 if "eval_response" in top else None
    lines = sum("references" in item or "metadata" in item for item in objects)
    return 2025 if lines and lines * 2 >= len(objects) else None


def _list_in(item: Any, name: str) -> Iterable[Any]:
    found = item.get(name) if isinstance(item, dict) else None
    return found if isinstance(found, list) else ()


def load_run(
    path: str | Path, year: int | None, place: Place, models: Mapping[int, type[BaseModel]] = TURNS
) -> tuple[int, Run | None]:
    """The year of a submission (recognised by its format if ``year`` is None), and the submission.

    If it can't be read or has the format of another year, a problem is noted, and the submission is
    None.

    Raises:
        DataError: when there is no such file.
    """
    values = read_json_values(path, place)
    shape = year_of(values)
    year = year or shape or 2023
    if not values:
        return year, None
    if shape not in (None, year):
        repair = advice(f'ikat.dataset("ikat:{shape}")', f"--dataset ikat:{shape}")
        place.error(
            f"this is a submission of {shape}, not of {year}: give {repair}, or write it in the format of {year}"
        )
        return year, None
    if year == 2025:
        return year, _read_lines(values, place, models[year])
    return year, _read_object(values, place, models[year], Head24 if year == 2024 else Head23)


def _read_object(values: Values, place: Place, model: type[BaseModel], head: type[Head23]) -> Run:
    whole, run = values[0][1], Run()
    if len(values) != 1:
        place.error(
            f"there are {len(values)} JSON values: the file has to be one object with all turns"
        )
    if model is not RankedTurn and (got := read_model(head, whole, place)) is not None:
        run = Run(got.run_name, got.run_type, evaluated=getattr(got, "eval_response", True))
    for number, item in enumerate(_list_in(whole, "turns")):
        _read_turn(run, item, place.at("turns", number), model)
    return run


def _read_lines(values: Values, place: Place, model: type[BaseModel]) -> Run:
    run = Run()
    if len(values) == 1 and isinstance(values[0][1], list):
        place.error("it is one array: write each of its objects on its own line")
        values = list(enumerate(values[0][1], 1))
    for number, item in values:
        _read_turn(run, item, place.at(f"line {number}"), model)
    heads = [turn.metadata for turn in run.turns] if model is Line else []
    if heads:
        run.run_id, run.run_type, run.team = heads[0].run_id, heads[0].run_type, heads[0].team_id
    for turn, metadata in zip(run.turns, heads, strict=False):
        if metadata != heads[0]:
            place.of_turn(turn.turn_id).at("metadata").error(
                "they differ from those of the first turn: give all turns of a run the same"
            )
    return run


def _read_turn(run: Run, item: Any, place: Place, model: type[BaseModel]) -> None:
    name = item.get("turn_id") if isinstance(item, dict) else None
    turn = read_model(model, item, place.of_turn(name) if isinstance(name, str) else place)
    if turn is not None:
        run.turns.append(turn)
    elif isinstance(name, str):
        run.unread.add(name)


Written = tuple[str, str, Sequence[Passage], Sequence[Statement]]
"""A turn to write: its id, the response, the ranking, and the statements."""


def file_lines(
    run_id: str, run_type: str, team: str | None, turns: Iterable[Written], year: int
) -> Iterator[str]:
    """The text of the file, with one turn per line. In 2024 ``eval_response`` is true, because our submissions have responses."""
    if year == 2025:
        metadata = {"team_id": team, "run_id": run_id, "run_type": run_type}
        for turn in turns:
            references = {passage.id: passage.score for passage in turn[2]}
            yield (
                json.dumps({"metadata": metadata, **_entries(turn, year), "references": references})
                + "\n"
            )
        return
    extra = {"eval_response": True} if year == 2024 else {}
    yield json.dumps({"run_name": run_id, "run_type": run_type, **extra})[:-1] + ', "turns": [\n'
    yield ",\n".join(json.dumps(_entries(turn, year)) for turn in turns)
    yield "\n]}\n"


def _entries(turn: Written, year: int) -> dict[str, Any]:
    """A turn in the year's format."""
    qid, text, passages, statements = turn
    if year == 2025:
        citations = {one.id: one.score for one in passages if one.used}
        response: dict[str, Any] = {
            "citations": citations,
            "ptkb_provenance": [one.text for one in statements],
        }
    else:
        named = [one.model_dump() if year == 2023 else _as_number(one.id) for one in statements]
        ranking = [
            {"id": one.id, "text": one.text, "score": one.score, "used": bool(one.used)}
            for one in passages
        ]
        response = {"ptkb_provenance": named, "passage_provenance": ranking}
    return {"turn_id": qid, "responses": [{"rank": 1, "text": text, **response}]}


def _as_number(name: str | None) -> int | str | None:
    """The id as a number. An id that is not a number is unchanged, and the check reports it."""
    return int(name) if name is not None and name.isascii() and name.isdecimal() else name
