"""A submission as it is, whatever its year: what the three formats are read into and written from.

A field that a file lacks or that has the wrong type is None (the reader has noted it); checks skip it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..conversations import IkatDataset, datasets
from ..errors import UsageError


@dataclass(frozen=True)
class Passage:
    """A passage of a ranking, or one that a response cites (2025)."""

    id: str
    score: float
    used: bool | None = None
    text: str | None = None
    position: int = 0


@dataclass(frozen=True)
class Statement:
    """A PTKB statement as the format names it: 2023 by id and text, 2024 by id, 2025 by text."""

    id: str | None = None
    text: str | None = None
    score: float | None = None
    position: int = 0


@dataclass
class Response:
    """One response; ``passages`` are its provenance, in 2025 its citations; ``position`` is its place in the file.

    ``whole`` says whether all of its passages could be read: where not, nothing is said about those that seem to be missing.
    """

    rank: int | None
    text: str | None
    passages: list[Passage] | None = None
    statements: list[Statement] | None = None
    position: int = 0
    whole: bool = True


@dataclass
class SubmittedTurn:
    """One turn; ``references`` are the ranking in 2025; ``whole`` says whether all of them could be read."""

    id: str
    responses: list[Response] | None = None
    references: list[Passage] | None = None
    whole: bool = True


@dataclass
class Run:
    """A whole submission; ``team`` only in 2025, ``evaluated`` (whether the responses are to be assessed) only in 2024."""

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
        """The turns of a dataset of the track; the sample and the mini collection are submitted like 2023.

        Raises:
            UsageError: when it is of no year: the years have different formats.
        """
        data = datasets.dataset(dataset)
        if data.year is None:
            raise UsageError(
                f"{data.name} is of no year of the track, and each year has its own format of submissions: give a dataset such as ikat:2025"
            )
        topics = data.get_topics()
        return cls(data.name, data.year, dict(zip(topics["qid"], topics["qptkb"], strict=True)))
