"""Read any submission as a ranking, responses and statements that can be evaluated."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..conversations.datasets import IkatDataset
from ..conversations.frame import column, object_frame
from ..errors import DataError, counted
from ..order import in_trec_eval_order
from .checks import check_turn_ids, find_statement_id
from .formats import Response, Run, SubmittedTurn, Topics, load_run
from .predictions import is_predictions, read_predictions
from .problem import Place, Problem, format_problems, read_json_values, select_errors

_BESIDES = re.compile(
    r"(line \d+\.)?(run_name|run_type|eval_response|metadata.*)|responses\[\d+\]\.(text|ptkb_provenance.*)"
    r"|responses\[\d+\]\.passage_provenance\[\d+\]\.(text|used)"
)
"""The fields that a ranking doesn't need."""
_RESPONSES = re.compile(r"(line \d+\.)?responses.*")
"""Further fields that a ranking doesn't need in 2025, where the references are the ranking."""


@dataclass(frozen=True)
class Submission:
    """A submission as frames.

    Attributes:
        year: the year of its format.
        run_id: the run's name.
        run_type: automatic, manual, ...
        team: the team's id; None before 2025.
        results: ``qid``, ``docno``, ``score``, ``rank`` (from 0), ``used``.
        turns: ``qid``, ``qanswer`` (the first response), ``qstatements`` (its statements as (id, score), best first).
    """

    year: int
    run_id: str
    run_type: str
    team: str | None
    results: pd.DataFrame
    turns: pd.DataFrame


def read_submission(path: str | Path, dataset: IkatDataset | None = None) -> Submission:
    """Read a submission of 2023, 2024 or 2025. The year is recognised by the file's format.

    The ranking is that of the organisers' own converters. In 2025, it has the references by score. In 2023 and 2024, it has the passages of
    the responses in the order of their ranks, each once. With several responses, a score is divided by the response's rank + 1. Statements
    without scores (2024, 2025) get n, n - 1, ..., 1. A duplicate keeps its first position.

    Args:
        path: the file.
        dataset: the dataset of the submission. With it, the statements of 2025 become ids. Without it, and for new statements, the words
            are the ids.

    Raises:
        DataError: when a field is missing or has a wrong type, a turn occurs twice or isn't in the dataset, a statement is not the user's,
            or the years of file and dataset differ. For all other problems use :func:`validate`.
    """
    topics = None if dataset is None else Topics.of(dataset)
    run, year = _load(path, topics, lambda problem, run, year: True)
    return Submission(year, str(run.run_id), str(run.run_type), run.team, _results_frame(run), _turns_frame(run, topics))


def read_ranking(path: str | Path) -> pd.DataFrame:
    """The ranking of a submission or of predictions, as in :func:`read_submission`. Problems with other fields are ignored.

    Raises:
        DataError: when the file is truncated or not a submission, a turn occurs twice, or a passage, score or whole ranking is missing.
    """
    if is_predictions(read_json_values(path, Place())):
        return read_predictions(path)[0]
    return _results_frame(_load(path, None, _hides_passages)[0])


def _load(path: str | Path, topics: Topics | None, matters: Callable[[Problem, Run | None, int], bool]) -> tuple[Run, int]:
    """The submission and its year. Errors that matter are raised."""
    place = Place()
    year, run = load_run(path, topics.year if topics else None, place)
    if run is not None:
        check_turn_ids(run, topics, place)
    wrong = [problem for problem in select_errors(place.found) if matters(problem, run, year)]
    if run is None or wrong:
        raise DataError(
            "\n".join(
                [f"{path} can't be read as a submission of {year}, {counted(len(wrong), 'error')}:", *format_problems(wrong, most=20)]
            )
        )
    return run, year


def _hides_passages(problem: Problem, run: Run | None, year: int) -> bool:
    """Whether a problem makes the ranking uncertain."""
    several = run is not None and any(len(turn.responses or ()) > 1 for turn in run.turns)
    if problem.message.startswith("the format has no such field") or (year == 2025 and _RESPONSES.fullmatch(problem.field)):
        return False
    return not (_BESIDES.fullmatch(problem.field) or (problem.field.endswith(".rank") and not several))


def _results_frame(run: Run) -> pd.DataFrame:
    rows = [(turn.id, docno, score, rank, used) for turn in run.turns for rank, (docno, (score, used)) in enumerate(_ranking(turn).items())]
    qids, docnos, scores, ranks, used = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    numbers = {"score": pd.Series(scores, dtype=float), "rank": pd.Series(ranks, dtype=int), "used": pd.Series(used, dtype=bool)}
    return in_trec_eval_order(pd.DataFrame({"qid": column(qids), "docno": column(docnos), **numbers}))


def _ranking(turn: SubmittedTurn) -> dict[str, tuple[float, bool]]:
    responses = _by_rank(turn)
    if turn.references is not None:
        cited = {passage.id for response in responses for passage in response.passages or ()}
        found = {passage.id: (float(passage.score), passage.id in cited) for passage in turn.references}
    else:
        found = {}
        for response in responses:
            share = 1.0 if len(responses) == 1 else 1 / ((response.rank or 0) + 1)
            for passage in response.passages or ():
                found.setdefault(passage.id, (share * passage.score, bool(passage.used)))
    return dict(sorted(found.items(), key=lambda entry: -entry[1][0]))


def _by_rank(turn: SubmittedTurn) -> list[Response]:
    return sorted(turn.responses or (), key=lambda response: response.rank or 0)


def _turns_frame(run: Run, topics: Topics | None) -> pd.DataFrame:
    firsts = [next(iter(_by_rank(turn)), Response(1, "")) for turn in run.turns]
    known = topics.statements if topics else {}
    return object_frame(
        {
            "qid": [turn.id for turn in run.turns],
            "qanswer": [first.text for first in firsts],
            "qstatements": [_statements(first, known.get(turn.id, {})) for turn, first in zip(run.turns, firsts, strict=True)],
        }
    )


def _statements(response: Response, known: Mapping[str, str]) -> list[tuple[str, float]]:
    """The statements as (id, score). If one occurs twice, the first is kept."""
    named, found = response.statements or [], dict[str, float]()
    for position, one in enumerate(named):
        score = float(len(named) - position) if one.score is None else float(one.score)
        found.setdefault(_statement_name(one.text or "", known) if one.id is None else one.id, score)
    return list(found.items())


def _statement_name(text: str, known: Mapping[str, str]) -> str:
    """The id of a statement that is named by its words. The words of a new one are quoted if they look like an id."""
    return find_statement_id(text, known) or (f'"{text}"' if text in known else text)
