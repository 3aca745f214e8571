"""Submissions: written from a run's folder, and any one read as frames that can be evaluated.

A submission with errors is not written.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..completions.citations import count_words, cut_at_sentence
from ..conversations.datasets import IkatDataset
from ..conversations.frame import column, object_frame, statements_of
from ..errors import DataError, UsageError, advice, counted, list_first
from ..order import in_trec_eval_order
from ..runs import RunFolder
from .checks import MOST_WORDS, check_turn_ids, find_statement_id, six_decimals, validate
from .formats import (
    RANKED_TURNS,
    RUN_TYPES,
    WHOLE_TURNS,
    Models,
    PtkbStatement,
    RankedPassage,
    SubmittedRun,
    Topics,
    TurnToWrite,
    by_rank,
    file_lines,
    load_run,
)
from .predictions import is_predictions, read_predictions
from .problem import Place, Problem, list_errors, read_json_values, select_errors, write_checked

TurnLines = Mapping[str, Mapping[str, Any]]
"""Turn -> its line of ``turns.jsonl``."""


class ResponseCutWarning(UserWarning):
    """A response was longer than the track allows and was cut at the end of a sentence."""


class UncitedWarning(UserWarning):
    """Responses cite no passage although their system was asked to cite.

    The passages that it was shown are submitted as used.
    """


def write_submission(
    run: RunFolder,
    dataset: IkatDataset,
    path: str | Path,
    *,
    run_id: str,
    run_type: str,
    team: str | None = None,
) -> list[Problem]:
    """Write a run in the format of the dataset's year, if it passes the check.

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
        >>> answered = turns.assign(qanswer="Rooibos has no caffeine.", used=True)
        >>> results = answered.assign(docno="sample-walk-001:0", score=1.5, rank=0)
        >>> run.write(turns, results, pd.DataFrame(), pd.DataFrame(), {})
        >>> path = folder / "run.json"
        >>> problems = write_submission(run, data, path, run_id="mine", run_type="automatic")
        >>> problems[0].severity, len(read_submission(path).results) == len(turns)
        ('warning', True)
    """
    topics = Topics.of(dataset)
    _check_header(topics.year, run_type, team)
    results = run.results()
    turns = {turn["qid"]: turn for turn in run.turns()}
    _check_questions(run, turns, dataset)
    _check_responses(run, turns)
    if run_type == "automatic" and any("qresolved" in turn for turn in turns.values()):
        raise UsageError(
            "the run was made with manual rewrites (qresolved): submit it as manual, or run a "
            "system without them"
        )
    rankings = _rankings(results, turns, topics.year)
    _check_known([*rankings, *turns], topics)
    _warn_of_uncited(turns)
    responses = {qid: turns.get(qid, {}).get("response", "") for qid in topics.statements}
    submitted = []
    for qid, response in _cut_long(responses).items():
        statements = _format_statements(qid, turns.get(qid, {}), topics)
        submitted.append(TurnToWrite(qid, response, rankings.get(qid, []), statements))
    lines = file_lines(run_id, run_type, team, submitted, topics.year)
    return write_checked(path, lines, lambda file: validate(file, dataset))


def _check_header(year: int, run_type: str, team: str | None) -> None:
    if run_type not in RUN_TYPES[year]:
        raise UsageError(
            f"run type {run_type!r} is none of {year}: give {' or '.join(RUN_TYPES[year])}"
        )
    if team is None and year == 2025:
        raise UsageError("a submission of 2025 names the team: give team")
    if team is not None and year != 2025:
        raise UsageError(f"{year} asks for no team: omit it")


def _check_questions(run: RunFolder, turns: TurnLines, dataset: IkatDataset) -> None:
    """Check that the run asks the dataset's questions: topics of different years share qids."""
    questions = dataset.get_topics().set_index("qid")["qutterance"].to_dict()
    for qid, turn in turns.items():
        if qid not in questions or "qutterance" not in turn:
            continue
        if turn["qutterance"] != questions[qid]:
            raise UsageError(
                f"{run.path} asks {turn['qutterance']!r} in turn {qid}, {dataset.name} "
                f"{questions[qid]!r}: give the dataset that the run was made on"
            )


def _check_responses(run: RunFolder, turns: TurnLines) -> None:
    """Check that the run has responses."""
    if not any("used" in turn for turn in turns.values()):
        example = advice(
            "such as rtg, or any system >> ikat.Respond(llm)", "such as `ikat run rtg ...`"
        )
        raise UsageError(
            f"{run.path} has no responses: run a system that ends with Respond, which writes the "
            f"response and marks the passages that it used ({example})"
        )


def _rankings(results: pd.DataFrame, turns: TurnLines, year: int) -> dict[str, list[RankedPassage]]:
    """The passages of each turn. In 2025 their scores also differ in six decimals."""
    used = {qid: set(turn.get("used", ())) for qid, turn in turns.items()}
    rankings: dict[str, list[RankedPassage]] = {}
    scores = results["score"].to_numpy(np.float32).tolist()  # as every tool reads them
    for qid, docno, score in zip(results["qid"], results["docno"], scores, strict=True):
        ranking = rankings.setdefault(qid, [])
        if year == 2025 and ranking:
            score = lower_score(score, ranking[-1].score, six_decimals, 2e-6)
        is_used = docno in used.get(qid, ())
        ranking.append(RankedPassage(id=docno, score=score, used=is_used))
    return rankings


def _check_known(qids: Iterable[str], topics: Topics) -> None:
    """Check that the topics have these turns."""
    unknown = [str(qid) for qid in dict.fromkeys(qids) if qid not in topics.statements]
    if unknown:
        example = next(iter(topics.statements))
        raise DataError(
            f"the run has {counted(len(unknown), 'turn')} that {topics.name} lacks "
            f"({list_first(unknown)}): give the dataset that the run was made for, its turns are "
            f"like {example}"
        )


def _format_statements(qid: str, turn: Mapping[str, Any], topics: Topics) -> list[PtkbStatement]:
    """The chosen statements in the year's format.

    They keep their order: a score that is not below the previous one is lowered.
    """
    persona = topics.statements[qid]
    words_of = statements_of(turn.get("qptkb"))
    statements = []
    last_score: float | None = None
    for statement_id, given_score in turn.get("qstatements", ()):
        name = statement_id
        text = persona.get(statement_id, "")
        if topics.year == 2025 and statement_id not in persona:
            name = _name_of_new(qid, statement_id, words_of, persona)
            text = persona.get(name, name)
        score = float(given_score)
        if last_score is not None:
            score = lower_score(score, last_score, float)
        last_score = score
        statements.append(PtkbStatement(id=name, text=text, score=score))
    return statements


def _name_of_new(
    qid: str, statement_id: str, words_of: Mapping[str, str], persona: Mapping[str, str]
) -> str:
    """The name of a statement that the topics lack, in 2025: its words.

    The turn has the words, because ``UpdatePtkb`` learned them.

    Raises:
        DataError: when the name would be a number that no statement has.
    """
    name = words_of.get(statement_id, statement_id)
    if name.isdecimal() and name not in persona:
        raise DataError(
            f"turn {qid}: the user has no statement {name}: give an id of the topics, or a new "
            "one's words"
        )
    return name


def lower_score(
    score: float, before: float, as_read: Callable[[float], float], step: float = 0.0
) -> float:
    """The score, lowered if a tool would not read it as below the score before it.

    Args:
        score: the score.
        before: the score before it.
        as_read: returns a score with the precision of the tool.
        step: the least distance to the score before; at least the next lower 32-bit float is taken.
    """
    if as_read(score) < as_read(before):
        return score
    next_lower = np.nextafter(np.float32(before), np.float32(-np.inf))
    return float(min(next_lower, np.float32(before - step)))


def _warn_of_uncited(turns: TurnLines) -> None:
    """Warn of responses without a citation that were asked to cite."""
    citing = {qid: turn["qcitations"] for qid, turn in turns.items() if "qcitations" in turn}
    uncited = []
    for qid, sentences in citing.items():
        if not any(sentence["docnos"] for sentence in sentences):
            uncited.append(qid)
    if uncited:
        warnings.warn(
            f"{len(uncited)} of {counted(len(citing), 'response')} without a citation "
            f"({list_first(uncited)}): the passages shown to the model are used in the submission",
            UncitedWarning,
            stacklevel=3,
        )


def _cut_long(responses: Mapping[str, str]) -> dict[str, str]:
    """The responses; those of more than 250 words are cut, with a warning that names their turns.

    They are cut at the end of a sentence.
    """
    cut = {}
    for qid, text in responses.items():
        if count_words(text) > MOST_WORDS:
            cut[qid] = cut_at_sentence(text, MOST_WORDS)
    if cut:
        warnings.warn(
            f"{counted(len(cut), 'response')} of more than {MOST_WORDS} words cut at the end of a "
            f"sentence, or after {MOST_WORDS} words where no sentence ends before: "
            f"{list_first(list(cut))}",
            ResponseCutWarning,
            stacklevel=3,
        )
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
    run, year = _load(path, topics, WHOLE_TURNS)
    return Submission(
        year,
        str(run.run_id),
        str(run.run_type),
        run.team,
        _results_frame(run),
        _turns_frame(run, topics),
    )


def read_ranking(path: str | Path) -> pd.DataFrame:
    """The ranking of a submission or of predictions, as in :func:`read_submission`.

    Problems with other fields are ignored.

    Raises:
        DataError: when the file is truncated or not a submission, a turn occurs twice, or a
            passage, score or whole ranking is missing.
    """
    if is_predictions(read_json_values(path, Place())):
        return read_predictions(path)[0]
    run, _ = _load(path, None, RANKED_TURNS)
    return _results_frame(run)


def _load(path: str | Path, topics: Topics | None, models: Models) -> tuple[SubmittedRun, int]:
    """The submission and its year. Errors are raised."""
    place = Place()
    year, run = load_run(path, topics.year if topics else None, place, models)
    if run is not None:
        check_turn_ids(run, topics, place)
    if run is None or select_errors(place.problems):
        raise DataError(
            list_errors(f"{path} can't be read as a submission of {year}", place.problems)
        )
    return run, year


def _results_frame(run: SubmittedRun) -> pd.DataFrame:
    qids = []
    docnos = []
    scores = []
    used = []
    for turn in run.turns:
        for docno, (score, is_used) in turn.ranking().items():
            qids.append(turn.turn_id)
            docnos.append(docno)
            scores.append(score)
            used.append(is_used)
    results = pd.DataFrame(
        {
            "qid": column(qids),
            "docno": column(docnos),
            "score": pd.Series(scores, dtype=float),
            "used": pd.Series(used, dtype=bool),
        }
    )
    return in_trec_eval_order(results)[["qid", "docno", "score", "rank", "used"]]


def _turns_frame(run: SubmittedRun, topics: Topics | None) -> pd.DataFrame:
    personas = topics.statements if topics else {}
    qids = []
    responses = []
    statements = []
    for turn in run.turns:
        qids.append(turn.turn_id)
        if turn.responses:
            first = by_rank(turn.responses)[0]
            responses.append(first.text)
            persona = personas.get(turn.turn_id, {})
            statements.append(_named_statements(first.statements, persona))
        else:
            responses.append("")
            statements.append([])
    return object_frame({"qid": qids, "qanswer": responses, "qstatements": statements})


def _named_statements(
    statements: Sequence[PtkbStatement], persona: Mapping[str, str]
) -> list[tuple[str, float]]:
    """The statements as (id, score), best first, new ones by their words.

    If one occurs twice, the first is kept.
    """
    scores: dict[str, float] = {}
    for position, statement in enumerate(statements):
        score = statement.score
        if score is None:
            score = float(len(statements) - position)
        words = statement.text or ""
        name = statement.id or find_statement_id(words, persona)
        if not name:
            name = f'"{words}"' if words in persona else words  # quoted if it looks like an id
        scores.setdefault(name, float(score))
    return sorted(scores.items(), key=lambda entry: -entry[1])
