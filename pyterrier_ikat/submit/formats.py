"""The files of the three years, read into one structure and written from it.

2023
    One JSON object: ``run_name``, ``run_type``, ``turns`` [``turn_id``, ``responses`` [``rank``, ``text``, ``ptkb_provenance`` [``id``,
    ``text``, ``score``], ``passage_provenance`` [``id``, ``text``, ``score``, ``used``]]].
2024
    The same plus ``eval_response``. ``ptkb_provenance`` is a list of whole numbers, also as strings, best first. The run type may be
    ``only_response``, for responses from passages that others ranked.
2025
    JSON lines, one per turn: ``metadata`` (``team_id``, ``run_id``, ``run_type``), ``turn_id``, ``responses`` [``rank``, ``text``,
    ``citations`` (the used passages, id: score), ``ptkb_provenance`` (the statements' texts)], ``references`` (the ranking, id: score).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..conversations import IkatDataset, datasets
from ..errors import UsageError, advice
from .problem import Place, Values, check_kind, check_text, read_fields, read_json_values

RUN_TYPES = {
    2023: ("automatic", "manual"),
    2024: ("automatic", "manual", "only_response"),
    2025: ("automatic", "generation-only", "manual"),
}
METADATA = {"team_id": str, "run_id": str, "run_type": str}
LINE = {"metadata": dict, "turn_id": str, "responses": list, "references": dict}
RESPONSE_IN_LINE = {"rank": int, "text": str, "citations": dict, "ptkb_provenance": list}
RESPONSE = {"rank": int, "text": str, "ptkb_provenance": list, "passage_provenance": list}


@dataclass(frozen=True)
class Passage:
    """A passage of a ranking, or one that a response cites (2025)."""

    id: str
    score: float
    used: bool | None = None
    text: str | None = None


@dataclass(frozen=True)
class Statement:
    """A PTKB statement as the format names it: 2023 by id and text, 2024 by id, 2025 by text. All fields are empty if it can't be read."""

    id: str | None = None
    text: str | None = None
    score: float | None = None


@dataclass
class Response:
    """One response; ``passages`` are its provenance, in 2025 its citations.

    A field that is missing from the file or has the wrong type is None. The reader has noted it, and checks skip it. ``whole`` says whether
    all passages could be read. If not, passages that seem to be missing aren't reported.
    """

    rank: int | None
    text: str | None
    passages: list[Passage] | None = None
    statements: list[Statement] | None = None
    whole: bool = True


@dataclass
class SubmittedTurn:
    """One turn. In 2025 ``references`` are the ranking, and ``whole`` says whether all of them could be read."""

    id: str
    responses: list[Response] | None = None
    references: list[Passage] | None = None
    whole: bool = True


@dataclass
class Run:
    """A whole submission; with ``team`` only in 2025, and ``evaluated`` (whether to assess the responses) only in 2024."""

    run_id: str | None
    run_type: str | None
    team: str | None = None
    turns: list[SubmittedTurn] = field(default_factory=list)
    evaluated: bool = True


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
            UsageError: when the dataset doesn't belong to a year, because each year has its own format.
        """
        data = datasets.dataset(dataset)
        if data.year is None:
            raise UsageError(
                f"{data.name} is of no year of the track, and each year has its own format of submissions: give a dataset such as ikat:2025"
            )
        topics = data.get_topics()
        return cls(data.name, data.year, dict(zip(topics["qid"], topics["qptkb"], strict=True)))


def year_of(values: Values) -> int | None:
    """The year whose format a file has; None if it could be any.

    2025 has a line per turn with ``references`` and ``metadata``. 2023 and 2024 have one object with ``turns``, and name PTKB statements
    with objects (2023) or with numbers, also as strings (2024). The majority of entries decides, so a single wrong entry is a problem, not
    a sign of another year.
    """
    objects = [value for _, value in values if isinstance(value, dict)]
    top = next((item for item in objects if "turns" in item), None)
    if top is not None:
        responses = [response for turn in _list_in(top, "turns") for response in _list_in(turn, "responses")]
        kinds = Counter(type(entry) for response in responses for entry in _list_in(response, "ptkb_provenance"))
        if kinds[dict] != (numbers := kinds[int] + kinds[str]):
            return 2023 if kinds[dict] > numbers else 2024
        return 2024 if "eval_response" in top else None
    lines = sum("references" in item or "metadata" in item for item in objects)
    return 2025 if lines and lines * 2 >= len(objects) else None


def is_dump(values: Values) -> bool:
    """Whether a file is the dump of an interactive run: responses in an array or one per line, whose metadata name the topic."""
    items = values[0][1] if len(values) == 1 and isinstance(values[0][1], list) else [value for _, value in values]
    found = [item["metadata"] for item in items if isinstance(item, dict) and "responses" in item and "metadata" in item]
    return any(isinstance(metadata, dict) and "topic_id" in metadata for metadata in found)


def load_run(path: str | Path, year: int | None, place: Place) -> tuple[int, Run | None]:
    """The year of a submission (recognised by its format if ``year`` is None), and the submission.

    If it can't be read or has the format of another year, a problem is noted, and the submission is None.

    Raises:
        DataError: when there is no such file.
    """
    values = read_json_values(path, place)
    if is_dump(values):
        place.error("this is an interactive run: the track's server checked each response when it took it, and no other check is known")
        return year or 2025, None
    shape = year_of(values)
    year = year or shape or 2023
    if not values:
        return year, None
    if shape not in (None, year):
        repair = advice(f'ikat.dataset("ikat:{shape}")', f"--dataset ikat:{shape}")
        place.error(f"this is a submission of {shape}, not of {year}: give {repair}, or write it in the format of {year}")
        return year, None
    for number, value in values:
        check_text(place.at(f"line {number}") if len(values) > 1 else place, value)
    return year, parse_run(values, year, place)


def _list_in(item: Any, name: str) -> Iterable[Any]:
    found = item.get(name) if isinstance(item, dict) else None
    return found if isinstance(found, list) else ()


def parse_run(values: Values, year: int, place: Place) -> Run:
    """Read a submission, and note fields that are missing or unknown or have a wrong type."""
    return _parse_lines(values, place) if year == 2025 else _parse_object(values, year, place)


def _parse_object(values: Values, year: int, place: Place) -> Run:
    if len(values) != 1:
        place.error(f"there are {len(values)} JSON values: the file has to be one object with all turns")
    extra = {"eval_response": bool} if year == 2024 else {}
    got = read_fields(place, values[0][1], {"run_name": str, "run_type": str, **extra, "turns": list})
    run = Run(got.get("run_name"), got.get("run_type"), evaluated=got.get("eval_response", True))
    for number, item in enumerate(got.get("turns", [])):
        here = _place_of_turn(place, item, place.at("turns").at(number))
        turn = read_fields(here, item, {"turn_id": str, "responses": list})
        if "turn_id" in turn:
            run.turns.append(_parse_turn(here, turn, year))
    return run


def _parse_lines(values: Values, place: Place) -> Run:
    run, first = Run(None, None), None
    if len(values) == 1 and isinstance(values[0][1], list):
        place.error("it is one array: write each of its objects on its own line")
        values = list(enumerate(values[0][1], 1))
    for number, item in values:
        here = _place_of_turn(place, item, place.at(f"line {number}"))
        got = read_fields(here, item, LINE, strict=False)
        if "metadata" in got:
            metadata = read_fields(here.at("metadata"), got["metadata"], METADATA, strict=False)
            if first is None:
                first = metadata
                run.run_id, run.run_type, run.team = (metadata.get(name) for name in ("run_id", "run_type", "team_id"))
            elif metadata != first:
                here.at("metadata").error("they differ from those of the first turn: give all turns of a run the same")
        if "turn_id" in got:
            run.turns.append(_parse_turn(here, got, 2025))
    return run


def _place_of_turn(place: Place, item: Any, otherwise: Place) -> Place:
    name = item.get("turn_id") if isinstance(item, dict) else None
    return place.of_turn(name) if isinstance(name, str) else otherwise


def _parse_turn(place: Place, got: Mapping[str, Any], year: int) -> SubmittedTurn:
    turn = SubmittedTurn(got["turn_id"])
    if "responses" in got:
        turn.responses = [_parse_response(place.at("responses").at(number), one, year) for number, one in enumerate(got["responses"])]
    if "references" in got:
        turn.references = _parse_scores(place.at("references"), got["references"])
        turn.whole = len(turn.references) == len(got["references"])
    return turn


def _parse_response(place: Place, item: Any, year: int) -> Response:
    got = read_fields(place, item, RESPONSE_IN_LINE if year == 2025 else RESPONSE, strict=year != 2025)
    response = Response(got.get("rank"), got.get("text"))
    for name, read in (("citations", _parse_scores), ("passage_provenance", _parse_passages)):
        if name in got:
            response.passages = read(place.at(name), got[name])
            response.whole = len(response.passages) == len(got[name])
    if "ptkb_provenance" in got:
        inside = place.at("ptkb_provenance")
        response.statements = [_parse_statement(inside.at(number), one, year) for number, one in enumerate(got["ptkb_provenance"])]
    return response


def _parse_scores(place: Place, scores: Mapping[str, Any]) -> list[Passage]:
    return [Passage(docno, score) for docno, score in scores.items() if check_kind(place.at(docno), score, float)]


def _parse_passages(place: Place, items: Sequence[Any]) -> list[Passage]:
    kinds, optional = {"id": str, "score": float}, {"text": str, "used": bool}
    read = (read_fields(place.at(number), item, kinds, optional) for number, item in enumerate(items))
    return [Passage(**got) for got in read if kinds.keys() <= got.keys()]


def _parse_statement(place: Place, item: Any, year: int) -> Statement:
    if year == 2023:
        got = read_fields(place, item, {"id": str, "text": str, "score": float})
        return Statement(**got) if "id" in got else Statement()
    if year == 2024:
        number = _id_number(item) if isinstance(item, str) else item
        return Statement(str(number)) if check_kind(place, number, int) else Statement()
    return Statement(text=item) if check_kind(place, item, str) else Statement()


def _id_number(name: str | None) -> int | str | None:
    """The id as a number. An id that is not a number is unchanged, and the check reports it."""
    return int(name) if name is not None and name.isascii() and name.isdecimal() else name


def file_lines(run: Run, year: int) -> Iterator[str]:
    """The text of the file, with one turn per line. In 2024 ``eval_response`` is true, because our submissions have responses."""
    if year == 2025:
        metadata = {"team_id": run.team, "run_id": run.run_id, "run_type": run.run_type}
        for turn in run.turns:
            references = {passage.id: passage.score for response in turn.responses or () for passage in response.passages or ()}
            entries = {"turn_id": turn.id, "responses": _response_entries(turn, year), "references": references}
            yield json.dumps({"metadata": metadata, **entries}) + "\n"
        return
    extra = {"eval_response": True} if year == 2024 else {}
    yield json.dumps({"run_name": run.run_id, "run_type": run.run_type, **extra})[:-1] + ', "turns": [\n'
    for number, turn in enumerate(run.turns):
        yield (",\n" if number else "") + json.dumps({"turn_id": turn.id, "responses": _response_entries(turn, year)})
    yield "\n]}\n"


def _response_entries(turn: SubmittedTurn, year: int) -> list[dict[str, Any]]:
    """The responses of a turn in the year's format."""
    entries = []
    for response in turn.responses or ():
        passages, statements = response.passages or (), response.statements or ()
        entry: dict[str, Any] = {"rank": response.rank, "text": response.text}
        if year == 2025:
            entry["citations"] = {one.id: one.score for one in passages if one.used}
            entry["ptkb_provenance"] = [one.text for one in statements]
        else:
            entry["ptkb_provenance"] = [vars(one) if year == 2023 else _id_number(one.id) for one in statements]
            entry["passage_provenance"] = [
                {"id": one.id, "text": one.text or "", "score": one.score, "used": bool(one.used)} for one in passages
            ]
        entries.append(entry)
    return entries
