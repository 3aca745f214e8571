"""An existing ranking in place of a retriever.

It serves for responses from passages that another system ranked.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import by_position
from ..conversations.frame import (
    column,
    each_turn_once,
    report_turns_without_result,
    turns_of,
    with_text_ids,
)
from ..errors import DataError, UsageError, counted
from ..operator import Operator, with_fields
from ..order import order_by_score, set_ranks
from ..runs import RunFolder, read_run
from ..runs.folder import checksum_of

NO_ROWS = pd.DataFrame(
    {
        "qid": column([]),
        "docno": column([]),
        "score": pd.Series(dtype=float),
        "rank": pd.Series(dtype="int64"),
    }
)
"""The result of a turn without passages."""


class StoredRanking:
    """The ranking of a run, read once.

    Its ``fingerprint`` distinguishes it from another run of the same name.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def frame(self) -> pd.DataFrame:
        """``qid``, ``docno``, ``score``, ``rank``."""
        is_folder = Path(self.path).is_dir()
        run = RunFolder(self.path).results() if is_folder else read_run(self.path)
        return run[["qid", "docno", "score", "rank"]]

    def rows(self, turns: int) -> pd.DataFrame:
        """Return the frame; for no turn its columns alone, without reading a file."""
        return self.frame if turns else NO_ROWS

    def fingerprint(self) -> str:
        """Return the checksum of its rows."""
        return checksum_of(self.frame)

    def __repr__(self) -> str:
        return repr(self.path)


class FrameRanking(StoredRanking):
    """A copy of the ranking in a result frame, equal to any with the same rows.

    Args:
        ranking: ``qid``, ``docno``, ``score``, and ``text`` if it has one. Ids may be whole
            numbers.

    Raises:
        DataError: when a column is missing, a score is not a finite number, or a passage occurs
            twice for a turn.
    """

    def __init__(self, ranking: pd.DataFrame) -> None:
        super().__init__("a frame")
        lacking = [name for name in ("qid", "docno", "score") if name not in ranking.columns]
        if lacking:
            columns = ", ".join(map(str, ranking.columns)) or "none"
            raise DataError(
                f"the given ranking has no column {', '.join(lacking)}, only {columns}: "
                "give a result frame"
            )
        frame = by_position(ranking)
        for name in ("qid", "docno"):
            if pd.api.types.is_integer_dtype(frame[name]):
                frame = frame.assign(**{name: column(map(str, frame[name]))})
        frame = with_text_ids("the given ranking", frame)
        scores = _check_scores(frame)
        repeated = frame[frame.duplicated(["qid", "docno"])]
        if len(repeated):
            row = repeated.iloc[0]
            raise DataError(
                f"the given ranking has passage {row['docno']} of turn {row['qid']} twice: "
                "keep one of the two rows"
            )
        turns_of(frame)  # checks the qids
        # Turns in the order of their qids, so that equal rankings are in one order.
        turn = pd.factorize(frame["qid"], sort=True)[0].astype(np.int64)
        order = order_by_score(frame, turn, scores)
        names = ["qid", "docno"]
        if "text" in frame.columns:
            names.append("text")
        ordered = frame[names].take(order).reset_index(drop=True)
        self._frame = set_ranks(ordered, turn[order], scores[order], by_docno=True)

    @property
    def frame(self) -> pd.DataFrame:  # type: ignore[override]
        """``qid``, ``docno``, ``score``, ``rank``, and ``text`` if the frame has one.

        Rows are best first, equal scores by docno.
        """
        return self._frame

    def rows(self, turns: int) -> pd.DataFrame:
        """Return the frame; for no turn its columns alone, which may have ``text``."""
        return self._frame if turns else self._frame.iloc[:0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameRanking) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        passages = counted(len(self.frame), "passage")
        turns = counted(self.frame["qid"].nunique(), "turn")
        return f"<{passages} of {turns}>"


def _check_scores(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the scores as numbers, after checking that each of them is finite."""
    numbers = pd.to_numeric(frame["score"], errors="coerce")
    scores: npt.NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    not_finite = np.flatnonzero(~np.isfinite(scores))
    if len(not_finite):
        row = frame.iloc[not_finite[0]]
        raise DataError(
            f"the given ranking: passage {row['docno']} of turn {row['qid']} "
            f"has the score {row['score']}: give a number"
        )
    return scores


@with_fields
class GivenRanking(Operator):
    """Give each turn the passages of an existing run, whatever its query is.

    With it in place of a retriever, systems differ only in their responses, as in the track's
    generation-only runs (2025) and ``only_response`` (2024). Reads ``qid`` and ``query``; returns a
    row for each passage of the turn, with ``docno``, ``score``, ``rank`` and, with ``texts``,
    ``text``. A turn that is missing from the run has no rows, and a ``NoResultWarning`` names it.

    Args:
        path: a TREC run file, which may be compressed with gzip, the folder of a finished run, as a
            path or as ``results.folders`` has it, or a result frame.
        texts: an operator that adds ``text`` by ``docno``, such as the ``text_loader()`` of an
            index or a dataset.

    Raises:
        UsageError: when it is neither a path nor a frame.
        DataError: when the run can't be read, or a frame lacks a column or has a passage twice.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "score": [2.0], "rank": [0]})
        >>> ikat.runs.write_run(run, "given.trec")
        >>> turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]})
        >>> ikat.GivenRanking("given.trec")(turns)[["docno", "score"]].values.tolist()
        [['d1', 2.0]]
    """

    schematic = {"label": "Given ranking"}

    path: Any
    texts: pt.Transformer | None = None

    def __post_init__(self) -> None:
        if isinstance(self.path, pd.DataFrame):
            self.path = FrameRanking(self.path)
        elif isinstance(self.path, RunFolder):
            self.path = self.path.path
        if not isinstance(self.path, str | Path | FrameRanking):
            excerpt = " ".join(repr(self.path).split())[:80]
            raise UsageError(
                f"the given ranking is {excerpt}: "
                "give a run file, the folder of a finished run, or a result frame"
            )
        if isinstance(self.path, FrameRanking):
            self._run: StoredRanking = self.path
        else:
            self.path = str(self.path)
            self._run = StoredRanking(self.path)

    def parts(self) -> list[Any]:
        """Return the run, and the source of the texts."""
        return [self._run, self.texts]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the passages of each turn, turn by turn in the order of the frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        turns = inp.drop(columns=["docno", "score", "rank", "text"], errors="ignore")
        results = turns.merge(self._run.rows(len(inp)), on="qid", how="inner")
        counts = inp["qid"].map(results["qid"].value_counts()).fillna(0)
        report_turns_without_result(inp, counts.to_numpy())
        return results if self.texts is None else self.texts.transform(results)
