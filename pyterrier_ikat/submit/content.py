"""What a run offers for a submission: rankings, used passages, responses and statements, from its folder or from frames."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ..conversations.frame import values
from ..errors import DataError, UsageError, advice
from ..runs import RunFolder, strictly_decreasing
from ..runs.turns import chosen_statements, kept, response_column, used_marks
from .checks import underscored
from .ikat_2025 import six_decimals
from .model import Passage, Response, Statement, SubmittedTurn, Topics

Frames = tuple[pd.DataFrame, pd.DataFrame]
Said = TypeVar("Said")


def respond() -> str:
    """What to do about a run without responses."""
    such = advice("such as rtg, or any system >> ikat.Respond(llm)", "such as `ikat run rtg ...`")
    return f"run a system that ends with Respond, which writes the response and marks the passages that it used ({such})"


@dataclass(frozen=True)
class Content:
    """A run by turn: the ranking, the response, the chosen statements as (id, score), and whether manual rewrites were seen."""

    rankings: dict[str, list[Passage]]
    responses: dict[str, str]
    statements: dict[str, list[tuple[str, float]]]
    manual: bool

    @classmethod
    def of(cls, run: RunFolder | Frames) -> "Content":
        """The content of a finished run folder, or of a result frame and a turn frame.

        Raises:
            UsageError: when the run has no responses.
            DataError: when the folder or the ranking is no finished run, or the frames say different things of a turn.
        """
        return _of_folder(run) if isinstance(run, RunFolder) else _of_frames(*run)

    def submitted(self, topics: Topics) -> list[SubmittedTurn]:
        """A turn with one response for every turn of the topics, in their order.

        Raises:
            DataError: when the run has turns that the topics lack.
        """
        _check_known([*self.rankings, *self.responses], topics)
        return [SubmittedTurn(qid, [self._response(qid, topics)]) for qid in topics.statements]

    def unanswered(self, topics: Topics) -> list[str]:
        """The turns without a response; Respond writes none where no passage was found."""
        return [qid for qid in topics.statements if qid not in self.responses]

    def _response(self, qid: str, topics: Topics) -> Response:
        passages = self.rankings.get(qid, [])
        scores = [passage.score for passage in passages]
        if topics.year == 2025:
            scores = _apart(scores)
        ranking = [Passage(one.id, score, one.used, one.text) for one, score in zip(passages, scores, strict=True)]
        known = topics.statements[qid]
        chosen = _falling(self.statements.get(qid, []))
        by_text = topics.year == 2025
        if by_text and (lost := [name for name, _ in chosen if name.isdecimal() and name not in known]):
            raise DataError(f"turn {qid}: the user has no statement {lost[0]}: give an id of the topics, or a new one's words")
        statements = [Statement(name, known.get(name, name if by_text else ""), score) for name, score in chosen]
        return Response(1, self.responses.get(qid, ""), ranking, statements)


def _of_folder(folder: RunFolder) -> Content:
    folder.parameters()
    turns = folder.turns()
    if not any("used" in turn for turn in turns):
        raise UsageError(f"{folder.path} has no responses: {respond()}")
    used = {(turn["qid"], docno) for turn in turns for docno in turn.get("used") or []}
    results = folder.results()
    marked = results.assign(used=[pair in used for pair in zip(results["qid"], results["docno"], strict=True)])
    return Content(
        _rankings(marked),
        {turn["qid"]: turn["response"] for turn in turns if "response" in turn},
        {turn["qid"]: chosen_statements(turn["qid"], turn.get("qstatements")) for turn in turns},
        any("qresolved" in turn for turn in turns),
    )


def _of_frames(results: pd.DataFrame, turns: pd.DataFrame) -> Content:
    if "used" not in results:
        raise UsageError(f"the results have no column used: {respond()}")
    if not any(response_column(frame) in frame for frame in (results, turns)):
        raise UsageError(f"neither turns nor results have a column qanswer: {respond()}")
    return Content(
        _rankings(results),
        _joined("qanswer", _responses(results), _responses(turns), _by_turn(results, "qdraft")),
        _joined("qstatements", _statements(results), _statements(turns), {}),
        "qresolved" in results or "qresolved" in turns,
    )


def _responses(frame: pd.DataFrame) -> dict[str, str]:
    return {qid: text for qid, text in _by_turn(frame, response_column(frame)).items() if isinstance(text, str)}


def _statements(frame: pd.DataFrame) -> dict[str, list[tuple[str, float]]]:
    return {qid: chosen_statements(qid, chosen) for qid, chosen in _by_turn(frame, "qstatements").items()}


def _by_turn(frame: pd.DataFrame, name: str) -> dict[str, Any]:
    """What the rows of each turn say; those without a value say nothing."""
    found: dict[str, Any] = {}
    for qid, said in zip(frame["qid"], values(frame, name), strict=True):
        if said is None:
            continue
        first = found.setdefault(qid, said)
        if first is not said and kept(qid, name, first) != kept(qid, name, said):
            raise DataError(f"turn {qid} has rows with different {name}: keep those of one")
    return found


def _joined(name: str, results: Mapping[str, Said], turns: Mapping[str, Said], drafts: Mapping[str, Any]) -> dict[str, Said]:
    """What the results say of each turn, else what the turns say; where these say something else, it has to be the draft."""
    for qid, said in results.items():
        if turns.get(qid, said) not in (said, drafts.get(qid)):
            raise DataError(
                f"turn {qid}: the results have another {name} than the turns, and only one can be handed in: "
                f"drop the column {name} from the frame that is not to be heard"
            )
    return {**turns, **results}


def _rankings(results: pd.DataFrame) -> dict[str, list[Passage]]:
    strict = strictly_decreasing(results)
    rankings: dict[str, list[Passage]] = {}
    texts = values(strict, "text")
    for qid, docno, score, used, text in zip(strict["qid"], strict["docno"], strict["score"], used_marks(strict), texts, strict=True):
        rankings.setdefault(qid, []).append(Passage(docno, float(score), used, text))
    return rankings


def _check_known(qids: Iterable[str], topics: Topics) -> None:
    unknown = [str(qid) for qid in dict.fromkeys(qids) if qid not in topics.statements]
    if not unknown:
        return
    meant = underscored(unknown[0], topics.statements)
    repair = f"give the dataset that the run was made for, its turns are like {next(iter(topics.statements))}"
    if meant:
        conversion = r"""frame.assign(qid=frame["qid"].str.replace(r"-(\d+)$", r"_\1", regex=True))"""
        how = advice(f"convert results and turns with {conversion}", "run the system on this dataset again")
        repair = f"the underscore before the turn number is missing ({meant}), {how}"
    raise DataError(f"the run has {len(unknown)} turns that {topics.name} lacks ({', '.join(unknown[:3])}): {repair}")


def _falling(scored: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Statements keep their order: a score that is not below the one before becomes the next smaller 32-bit float."""
    found: list[tuple[str, float]] = []
    for name, score in scored:
        lowered = score
        if found and score >= found[-1][1]:
            lowered = float(np.nextafter(np.float32(found[-1][1]), np.float32(-np.inf)))
        found.append((name, lowered))
    return found


def _apart(scores: Sequence[float]) -> list[float]:
    """Scores that still decrease with six decimals, as the organisers' converter of 2025 prints them, and as 32-bit floats."""
    found: list[float] = []
    for score in scores:
        lowered = score
        if found and six_decimals(score) >= six_decimals(found[-1]):
            step = np.nextafter(np.float32(found[-1]), np.float32(-np.inf))
            lowered = float(min(step, np.float32(found[-1] - 2e-6)))
        found.append(lowered)
    return found
