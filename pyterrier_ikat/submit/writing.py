"""Writing a submission: whatever the check refuses is not written."""

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..conversations.datasets import IkatDataset
from ..errors import DataError, UsageError
from ..generate.respond import count_words, cut_at_sentence
from ..runs import RunFolder
from ..store.files import atomic_write
from .checks import WORDS
from .content import Content, Frames
from .model import Run, Topics
from .problem import Problem, errors
from .validation import validate
from .years import FORMATS

SHOWN = 20


class ResponseCutWarning(UserWarning):
    """A response was longer than the track allows and was cut at the end of a sentence."""


class RefusedError(DataError):
    """A submission that the check refuses; nothing was written.

    Attributes:
        problems: what the check found, errors and warnings.
    """

    one_line = False

    def __init__(self, path: str | Path, problems: Sequence[Problem], repair: str = "") -> None:
        self.problems = list(problems)
        found = errors(problems)
        rest = [f"and {len(found) - SHOWN} more"] * (len(found) > SHOWN) + [repair] * bool(repair)
        super().__init__("\n".join([f"{path} was not written, {len(found)} errors:", *map(str, found[:SHOWN]), *rest]))


def write_submission(
    run: RunFolder | Frames, dataset: IkatDataset, path: str | Path, *, run_id: str, run_type: str, team: str | None = None
) -> list[Problem]:
    """Write a run in the format of the dataset's year, check it, and only then put it at ``path``.

    One response per turn. Responses of more than 250 words are cut at the end of a sentence. Scores are written so that they
    strictly decrease for every tool that reads them: as 32-bit floats, in 2025 also with six decimals. In 2024
    ``eval_response`` is true.

    Args:
        run: the folder of a finished run whose system wrote responses (Respond), or two frames: results (``qid``, ``docno``,
            ``score``, ``rank``, ``used``, optionally ``text``) and turns. Either may have the responses, ``qanswer``, and
            ``qstatements``; what the results say of a turn counts before what the turns say, so that a draft in the turns,
            which Respond calls ``qdraft`` in its results, is not handed in.
        dataset: the topics to answer; the sample and the mini collection are submitted like 2023.
        path: the file to write; an old one stays as it is until the new one is whole and valid.
        run_id: the run's name, without white space.
        run_type: 2023: automatic, manual; 2024: also only_response; 2025: automatic, generation-only.
        team: the team's id; in 2025 only, and there it is needed.

    Returns:
        The warnings of :func:`validate`.

    Raises:
        UsageError: when the run has no responses, the run type is not one of the year, a run that saw manual rewrites is called
            automatic, the team is missing or not asked for, or ``path`` can't be written.
        DataError: when the run has turns that the topics lack, says two things of a turn, marks a passage as used by anything but
            true or false, or its ranking is not clean.
        RefusedError: when the check refuses the submission; it lists all errors.

    Example:
        >>> import pathlib, tempfile, pandas as pd
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.submit import read_submission
        >>> data = ikat.dataset("ikat:sample")
        >>> turns = data.get_topics()[["qid"]].assign(qanswer="Rooibos has no caffeine.")
        >>> results = turns[["qid"]].assign(docno="sample-walk-001:0", score=1.5, rank=0, used=True)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
        >>> found = write_submission((results, turns), data, path, run_id="mine", run_type="automatic")
        >>> found[0].severity, len(read_submission(path).results) == len(turns)
        ('warning', True)
    """
    topics, path = Topics.of(dataset), Path(path)
    _check_header(topics.year, run_type, team)
    content = Content.of(run)
    if content.manual and run_type == "automatic":
        raise UsageError("the run was made with manual rewrites (qresolved): hand it in as manual, or run a system without them")
    submitted = Run(run_id, run_type, team, content.submitted(topics))
    _warn_of_cut(_cut(submitted))
    with _beside(path) as written:
        with atomic_write(written) as file:
            file.writelines(FORMATS[topics.year].lines(submitted))
        problems = validate(written, dataset)
        if errors(problems):
            raise RefusedError(path, problems, _unanswered(content.unanswered(topics), run))
        os.replace(written, path)
    return problems


def _check_header(year: int, run_type: str, team: str | None) -> None:
    allowed = FORMATS[year].run_types
    if run_type not in allowed:
        raise UsageError(f"run type {run_type!r} is none of {year}: give {' or '.join(allowed)}")
    if (team is None) == (year == 2025):
        raise UsageError("a submission of 2025 names the team: give team" if team is None else f"{year} asks for no team: leave it out")


def _cut(run: Run) -> list[str]:
    """Cut responses of more than 250 words at the end of a sentence; the turns whose responses were cut."""
    turns = []
    for turn in run.turns:
        for response in turn.responses or ():
            if response.text and count_words(response.text) > WORDS:
                response.text = cut_at_sentence(response.text, WORDS)
                turns.append(turn.id)
    return turns


def _warn_of_cut(turns: Sequence[str]) -> None:
    if turns:
        message = (
            f"{len(turns)} responses had more than {WORDS} words and were cut at the end of a sentence, "
            f"or after {WORDS} words where no sentence ends before: turns {', '.join(turns)}"
        )
        warnings.warn(message, ResponseCutWarning, stacklevel=3)


def _unanswered(turns: Sequence[str], run: RunFolder | Frames) -> str:
    if not turns:
        return ""
    where = f'"response" to their lines in {run.path / "turns.jsonl"}' if isinstance(run, RunFolder) else "their qanswer to the turns"
    some = ", ".join(turns[:SHOWN]) + (" ..." if len(turns) > SHOWN else "")
    return f"{len(turns)} turns have no response, Respond writes none where no passage was found: add {where} ({some})"


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file of the same name in a temporary folder beside ``path``, from where it can be moved in one step."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give the path of the file to write")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}): give another path") from error
    with temporary as folder:
        yield Path(folder) / path.name
