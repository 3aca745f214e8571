"""Submissions of runs: written from a run's folder, and any submission read as frames that can be evaluated.

A submission with errors is not written.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from ..completions.citations import count_words, cut_at_sentence
from ..conversations.datasets import IkatDataset
from ..conversations.frame import column, object_frame, statements_of
from ..errors import DataError, UsageError, advice, counted, list_first
from ..order import in_trec_eval_order
from ..runs import RunFolder
from .checks import WORDS, check_turn_ids, find_statement_id, six_decimals, validate
from .formats import (
    RANKINGS,
    RUN_TYPES,
    TURNS,
    Line,
    Passage,
    Run,
    Statement,
    Topics,
    file_lines,
    load_run,
)
from .predictions import is_predictions, read_predictions
from .problem import Place, Problem, list_errors, read_json_values, select_errors, write_checked


class ResponseCutWarning(UserWarning):
    """A response was longer than the track allows and was cut at the end of a sentence."""


class UncitedWarning(UserWarning):
    """Responses cite no passage although their system was asked to cite. The passages that it was shown are submitted as used."""


def write_submission(
    run: RunFolder,
    dataset: IkatDataset,
    path: str | Path,
    *,
    run_id: str,
    run_type: str,
    team: str | None = None,
) -> list[Problem]:
    """Write a run in the format of the dataset's year. The file appears at ``path`` only if it passes the check.

    One response per turn. Responses of more than 250 words are cut at the end of a sentence. Scores
    are written so that they strictly decrease in every tool: as 32-bit floats, and in 2025 also
    with six decimals. In 2024 ``eval_response`` is true.

    Args:
        run: the folder of a finished run whose system wrote responses (Respond).
            ``RunFolder(path).write`` makes one of frames.
        dataset: the topics to answer. The sample and the mini collection are submitted like 2023.
        path: the file to write. An old file is replaced only when the new one is complete and
            valid.
        run_id: the run's name, without white space.
        run_type: 2023: automatic, manual; 2024: also only_response; 2025: automatic,
            generation-only.
        team: the team's id; required in 2025, and not allowed before.

    Returns:
        The warnings of :func:`validate`.

    Warns:
        UncitedWarning: when a system was asked for citations, and responses have none.

    Raises:
        UsageError: when the run has no responses or other questions than the dataset, the year has
            no such run type, a run with manual rewrites is called automatic, the team is missing or
            not allowed, or ``path`` can't be written.
        DataError: when the folder is not a finished run, or the run has turns that aren't in the
            topics.
        RefusedError: when the check finds errors; it lists all of them.

    Example:
        >>> import pathlib, tempfile, pandas as pd
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.submit import read_submission
        >>> data, folder = ikat.dataset("ikat:sample"), pathlib.Path(tempfile.mkdtemp())
        >>> turns, run = data.get_topics(), ikat.runs.RunFolder(folder / "mine")
        >>> found = turns.assign(docno="sample-walk-001:0", score=1.5, rank=0, used=True, qanswer="Rooibos has no caffeine.")
        >>> run.write(turns, found, pd.DataFrame(), pd.DataFrame(), {})
        >>> problems = write_submission(run, data, folder / "run.json", run_id="mine", run_type="automatic")
        >>> problems[0].severity, len(read_submission(folder / "run.json").results) == len(turns)
        ('warning', True)
    """
    topics = Topics.of(dataset)
    _check_header(topics.year, run_type, team)
    results, turns = run.results(), {turn["qid"]: turn for turn in run.turns()}
    asked = (
        dataset.get_topics().set_index("qid")["qutterance"].to_dict()
    )  # topics of different years share qids
    if other := [
        qid
        for qid, turn in turns.items()
        if turn.get("qutterance", asked.get(qid)) != asked.get(qid, turn.get("qutterance"))
    ]:
        where = f"{run.path} asks {turns[other[0]]['qutterance']!r} in turn {other[0]}, {dataset.name} {asked[other[0]]!r}"
        raise UsageError(f"{where}: give the dataset that the run was made on")
    if not any("used" in turn for turn in turns.values()):
        respond = advice(
            "such as rtg, or any system >> ikat.Respond(llm)", "such as `ikat run rtg ...`"
        )
        told = "which writes the response and marks the passages that it used"
        raise UsageError(
            f"{run.path} has no responses: run a system that ends with Respond, {told} ({respond})"
        )
    if run_type == "automatic" and any("qresolved" in turn for turn in turns.values()):
        raise UsageError(
            "the run was made with manual rewrites (qresolved): submit it as manual, or run a system without them"
        )
    rankings = _rankings(results, turns, topics.year)
    _check_known([*rankings, *turns], topics)
    _warn_of_uncited(
        {qid: turn["qcitations"] for qid, turn in turns.items() if "qcitations" in turn}
    )
    texts = _cut_long({qid: turns.get(qid, {}).get("response", "") for qid in topics.statements})
    submitted = [
        (qid, text, rankings.get(qid, []), _format_statements(qid, turns.get(qid, {}), topics))
        for qid, text in texts.items()
    ]
    return write_checked(
        path,
        file_lines(run_id, run_type, team, submitted, topics.year),
        lambda file: validate(file, dataset),
    )


def _check_header(year: int, run_type: str, team: str | None) -> None:
    if run_type not in RUN_TYPES[year]:
        raise UsageError(
            f"run type {run_type!r} is none of {year}: give {' or '.join(RUN_TYPES[year])}"
        )
    if (team is None) == (year == 2025):
        raise UsageError(
            "a submission of 2025 names the team: give team"
            if team is None
            else f"{year} asks for no team: omit it"
        )


def _rankings(
    results: pd.DataFrame, turns: Mapping[str, Mapping[str, Any]], year: int
) -> dict[str, list[Passage]]:
    """The passages of each turn. In 2025 their scores also differ in six decimals."""
    used = {qid: set(turn.get("used", ())) for qid, turn in turns.items()}
    rankings: dict[str, list[Passage]] = {}
    scores = results["score"].to_numpy(np.float32).tolist()  # as every tool reads them
    for qid, docno, score in zip(results["qid"], results["docno"], scores, strict=True):
        ranking = rankings.setdefault(qid, [])
        if year == 2025 and ranking:
            score = lower_score(score, ranking[-1].score, six_decimals, 2e-6)
        ranking.append(Passage(id=docno, score=score, used=docno in used.get(qid, ())))
    return rankings


def _check_known(qids: Iterable[str], topics: Topics) -> None:
    if unknown := [str(qid) for qid in dict.fromkeys(qids) if qid not in topics.statements]:
        repair = f"give the dataset that the run was made for, its turns are like {next(iter(topics.statements))}"
        raise DataError(
            f"the run has {counted(len(unknown), 'turn')} that {topics.name} lacks ({list_first(unknown)}): {repair}"
        )


def _format_statements(qid: str, turn: Mapping[str, Any], topics: Topics) -> list[Statement]:
    """The chosen statements in the year's format. They keep their order: a score that is not below the previous one is lowered.

    2025 names a statement that is missing from the topics by its words. The turn has them, because
    ``UpdatePtkb`` learned them.
    """
    known, ptkb, statements = (
        topics.statements[qid],
        statements_of(turn.get("qptkb")),
        list[Statement](),
    )
    for name, score in turn.get("qstatements", ()):
        if topics.year == 2025 and name not in known:
            name = ptkb.get(name, name)
        if topics.year == 2025 and name.isdecimal() and name not in known:
            raise DataError(
                f"turn {qid}: the user has no statement {name}: give an id of the topics, or a new one's words"
            )
        text = known.get(name, name if topics.year == 2025 else "")
        before = statements[-1].score if statements else None
        statements.append(
            Statement(
                id=name,
                text=text,
                score=float(score if before is None else lower_score(score, before, float)),
            )
        )
    return statements


def lower_score(
    score: float, before: float, as_read: Callable[[float], float], step: float = 0.0
) -> float:
    """The score, or the next lower 32-bit float or step if a tool that reads scores with ``as_read`` wouldn't find it below ``before``."""
    if as_read(score) < as_read(before):
        return score
    return float(
        min(np.nextafter(np.float32(before), np.float32(-np.inf)), np.float32(before - step))
    )


def _warn_of_uncited(citations: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    if uncited := [
        qid for qid, entries in citations.items() if not any(one["docnos"] for one in entries)
    ]:
        what = f"{len(uncited)} of {counted(len(citations), 'response')} without a citation ({list_first(uncited)})"
        warnings.warn(
            f"{what}: the passages shown to the model are used in the submission",
            UncitedWarning,
            stacklevel=3,
        )


def _cut_long(responses: Mapping[str, str]) -> dict[str, str]:
    """Responses of at most 250 words; longer ones are cut at the end of a sentence, with a warning that names their turns."""
    cut = {
        qid: cut_at_sentence(text, WORDS)
        for qid, text in responses.items()
        if count_words(text) > WORDS
    }
    if cut:
        where = f"at the end of a sentence, or after {WORDS} words where no sentence ends before"
        what = f"{counted(len(cut), 'response')} of more than {WORDS} words cut {where}: {list_first(list(cut))}"
        warnings.warn(what, ResponseCutWarning, stacklevel=3)
    return {**responses, **cut}


@dataclass(frozen=True)
class Submission:
    """A submission as frames.

    Attributes:
        year: the year of its format.
        run_id: the run's name.
        run_type: automatic, manual, ...
        team: the team's id; None before 2025.
        results: ``qid``, ``docno``, ``score``, ``rank`` (from 0), ``used``.
        turns: ``qid``, ``qanswer`` (the first response), ``qstatements`` (its statements as (id,
            score), best first).
    """

    year: int
    run_id: str
    run_type: str
    team: str | None
    results: pd.DataFrame
    turns: pd.DataFrame


def read_submission(path: str | Path, dataset: IkatDataset | None = None) -> Submission:
    """Read a submission of 2023, 2024 or 2025. The year is recognised by the file's format.

    The ranking is that of the organisers' own converters. In 2025, it has the references by score.
    In 2023 and 2024, it has the passages of the responses in the order of their ranks, each once.
    With several responses, a score is divided by the response's rank + 1. Statements without scores
    (2024, 2025) get n, n - 1, ..., 1. A duplicate keeps its first position.

    Args:
        path: the file.
        dataset: the dataset of the submission. With it, the statements of 2025 become ids. Without
            it, and for new statements, the words are the ids.

    Raises:
        DataError: when a field is missing or has a wrong type, a turn occurs twice or isn't in the
            dataset, a statement is not the user's, or the years of file and dataset differ. For all
            other problems use :func:`validate`.
    """
    topics = None if dataset is None else Topics.of(dataset)
    run, year = _load(path, topics, TURNS)
    return Submission(
        year,
        str(run.run_id),
        str(run.run_type),
        run.team,
        _results_frame(run),
        _turns_frame(run, topics),
    )


def read_ranking(path: str | Path) -> pd.DataFrame:
    """The ranking of a submission or of predictions, as in :func:`read_submission`. Problems with other fields are ignored.

    Raises:
        DataError: when the file is truncated or not a submission, a turn occurs twice, or a
            passage, score or whole ranking is missing.
    """
    if is_predictions(read_json_values(path, Place())):
        return read_predictions(path)[0]
    return _results_frame(_load(path, None, RANKINGS)[0])


def _load(
    path: str | Path, topics: Topics | None, models: Mapping[int, type[BaseModel]]
) -> tuple[Run, int]:
    """The submission and its year. Errors are raised."""
    place = Place()
    year, run = load_run(path, topics.year if topics else None, place, models)
    if run is not None:
        check_turn_ids(run, topics, place)
    if run is None or select_errors(place.found):
        raise DataError(list_errors(f"{path} can't be read as a submission of {year}", place.found))
    return run, year


def _results_frame(run: Run) -> pd.DataFrame:
    rows = [
        (turn.turn_id, docno, score, rank, used)
        for turn in run.turns
        for rank, (docno, (score, used)) in enumerate(_ranking(turn).items())
    ]
    qids, docnos, scores, ranks, used = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    numbers = {
        "score": pd.Series(scores, dtype=float),
        "rank": pd.Series(ranks, dtype=int),
        "used": pd.Series(used, dtype=bool),
    }
    return in_trec_eval_order(
        pd.DataFrame({"qid": column(qids), "docno": column(docnos), **numbers})
    )


def _ranking(turn: Any) -> dict[str, tuple[float, bool]]:
    found: dict[str, tuple[float, bool]] = {}
    if turn.references is not None:
        cited = (
            {docno for response in turn.responses for docno in response.citations}
            if isinstance(turn, Line)
            else set()
        )
        found = {docno: (float(score), docno in cited) for docno, score in turn.references.items()}
    else:
        responses = _by_rank(turn)
        for response in responses:
            share = 1.0 if len(responses) == 1 else 1 / (response.rank + 1)
            for passage in response.passages:
                found.setdefault(passage.id, (share * passage.score, bool(passage.used)))
    return dict(sorted(found.items(), key=lambda entry: -entry[1][0]))


def _by_rank(turn: Any) -> list[Any]:
    return sorted(turn.responses, key=lambda response: int(response.rank))


def _turns_frame(run: Run, topics: Topics | None) -> pd.DataFrame:
    known = topics.statements if topics else {}
    rows = []
    for turn in run.turns:
        first = next(iter(_by_rank(turn)), None)
        statements = (
            _named_statements(first.statements, known.get(turn.turn_id, {})) if first else []
        )
        rows.append((turn.turn_id, first.text if first else "", statements))
    return object_frame(
        dict(
            zip(
                ("qid", "qanswer", "qstatements"),
                zip(*rows, strict=True) if rows else ((), (), ()),
                strict=True,
            )
        )
    )


def _named_statements(
    named: Sequence[Statement], known: Mapping[str, str]
) -> list[tuple[str, float]]:
    """The statements as (id, score), best first, new ones by their words. If one occurs twice, the first is kept."""
    found: dict[str, float] = {}
    for position, one in enumerate(named):
        score = float(len(named) - position) if one.score is None else float(one.score)
        words = one.text or ""
        new = f'"{words}"' if words in known else words  # quoted if it looks like an id
        found.setdefault(one.id or find_statement_id(words, known) or new, score)
    return sorted(found.items(), key=lambda one: -one[1])
