"""Read any submission as a ranking, responses and statements that can be evaluated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel

from ..conversations.datasets import IkatDataset
from ..conversations.frame import column, object_frame
from ..errors import DataError
from ..order import in_trec_eval_order
from .checks import check_turn_ids, find_statement_id
from .formats import RANKINGS, TURNS, Line, Run, Statement, Topics, load_run
from .predictions import is_predictions, read_predictions
from .problem import Place, list_errors, read_json_values, select_errors


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
    run, year = _load(path, topics, TURNS)
    return Submission(year, str(run.run_id), str(run.run_type), run.team, _results_frame(run), _turns_frame(run, topics))


def read_ranking(path: str | Path) -> pd.DataFrame:
    """The ranking of a submission or of predictions, as in :func:`read_submission`. Problems with other fields are ignored.

    Raises:
        DataError: when the file is truncated or not a submission, a turn occurs twice, or a passage, score or whole ranking is missing.
    """
    if is_predictions(read_json_values(path, Place())):
        return read_predictions(path)[0]
    return _results_frame(_load(path, None, RANKINGS)[0])


def _load(path: str | Path, topics: Topics | None, models: Mapping[int, type[BaseModel]]) -> tuple[Run, int]:
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
        (turn.turn_id, docno, score, rank, used) for turn in run.turns for rank, (docno, (score, used)) in enumerate(_ranking(turn).items())
    ]
    qids, docnos, scores, ranks, used = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    numbers = {"score": pd.Series(scores, dtype=float), "rank": pd.Series(ranks, dtype=int), "used": pd.Series(used, dtype=bool)}
    return in_trec_eval_order(pd.DataFrame({"qid": column(qids), "docno": column(docnos), **numbers}))


def _ranking(turn: Any) -> dict[str, tuple[float, bool]]:
    found: dict[str, tuple[float, bool]] = {}
    if turn.references is not None:
        cited = {docno for response in turn.responses for docno in response.citations} if isinstance(turn, Line) else set()
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
        statements = _statements(first.statements, known.get(turn.turn_id, {})) if first else []
        rows.append((turn.turn_id, first.text if first else "", statements))
    return object_frame(dict(zip(("qid", "qanswer", "qstatements"), zip(*rows, strict=True) if rows else ((), (), ()), strict=True)))


def _statements(named: Sequence[Statement], known: Mapping[str, str]) -> list[tuple[str, float]]:
    """The statements as (id, score). If one occurs twice, the first is kept."""
    found: dict[str, float] = {}
    for position, one in enumerate(named):
        score = float(len(named) - position) if one.score is None else float(one.score)
        found.setdefault(_statement_name(one.text or "", known) if one.id is None else one.id, score)
    return list(found.items())


def _statement_name(text: str, known: Mapping[str, str]) -> str:
    """The id of a statement that is named by its words. The words of a new one are quoted if they look like an id."""
    return find_statement_id(text, known) or (f'"{text}"' if text in known else text)
