"""The check of a submission: everything the organisers' checkers look at, and what they miss."""

from pathlib import Path

from ..conversations.datasets import IkatDataset
from .loading import check_text, load
from .model import Run, Topics
from .problem import Place, Problem
from .years import FORMATS, year_of


def validate(path: str | Path, dataset: IkatDataset) -> list[Problem]:
    """Check a submission, this package's or anybody's, against a dataset's topics; all problems in one pass.

    Every turn of the topics once and no other; the year's fields with their types, no repeated keys; run type and names;
    responses that are not empty, ranked from 1, and of at most 250 words (white space after NFKC; in 2025 over all responses of
    a turn); at most 1000 passages, none twice, with finite scores that strictly decrease, at least one marked as used;
    citations that are references; PTKB statements that the user has, in the topics' words. Whether a passage is in the
    collection is not looked up: only the form of its id is.

    Args:
        path: the file, in the format of the dataset's year.
        dataset: such as ``pt.get_dataset("ikat:2025")``; the sample and the mini collection are submitted like 2023.

    Returns:
        The problems, errors and warnings; an empty list for a file without any.

    Raises:
        DataError: when there is no such file.

    Example:
        >>> import pathlib, tempfile
        >>> import pyterrier_ikat as ikat
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
        >>> _ = path.write_text('{"run_name": "mine", "run_type": "lucky", "turns": []}')
        >>> print(validate(path, ikat.dataset("ikat:sample"))[0])
        error: run_type: it is "lucky": it has to be automatic or manual
    """
    topics, place = Topics.of(dataset), Place()
    run = parsed(path, topics.year, place)
    if run is not None:
        FORMATS[topics.year].check(run, topics, place)
    return list(dict.fromkeys(place.found))


def parsed(path: str | Path, year: int, place: Place) -> Run | None:
    """The submission as the year's format reads it; None, noted, where it can't be read or has another year's shape."""
    values = load(path, place)
    if not values:
        return None
    found = year_of(values)
    if found not in (None, year):
        place.error(f"this is a submission of {found}, not of {year}: give --dataset ikat:{found}, or write it in the format of {year}")
        return None
    for number, value in values:
        check_text(place.at(f"line {number}") if len(values) > 1 else place, value)
    return FORMATS[year].parse(values, place)
