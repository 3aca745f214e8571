"""An existing ranking in place of a retriever: for responses from passages that another system ranked."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import column, each_turn_once, report_turns_without_result
from ..operator import Operator, parts_of, with_fields
from ..runs import RunFolder, read_run
from ..runs.folder import checksum_of

NOTHING = pd.DataFrame({"qid": column([]), "docno": column([]), "score": pd.Series(dtype=float), "rank": pd.Series(dtype="int64")})
"""The result of a turn without passages."""


class RunRead:
    """The ranking of a run file or folder, read once. Its ``fingerprint`` distinguishes it from another run of the same name."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def frame(self) -> pd.DataFrame:
        """``qid``, ``docno``, ``score``, ``rank``."""
        found = RunFolder(self.path).results() if Path(self.path).is_dir() else read_run(self.path)
        return found[["qid", "docno", "score", "rank"]]

    def fingerprint(self) -> str:
        """The checksum of its rows."""
        return checksum_of(self.frame)

    def __repr__(self) -> str:
        return repr(self.path)


@with_fields
class GivenRanking(Operator):
    """Give each turn the passages of an existing run, whatever its query is.

    With it in place of a retriever, systems differ only in their responses, as in the track's generation-only runs (2025) and
    ``only_response`` (2024). Reads ``qid`` and ``query``; returns a row for each passage of the turn, with ``docno``, ``score``, ``rank``
    and, with ``texts``, ``text``. A turn that is missing from the run has no rows, and a ``NoResultWarning`` names it.

    Args:
        path: a TREC run file, which may be compressed with gzip, or the folder of a finished run.
        texts: an operator that adds ``text`` by ``docno``, such as the ``text_loader()`` of an index or a dataset.

    Raises:
        DataError: when the run can't be read.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> ikat.runs.write_run(pd.DataFrame({"qid": ["1_1"], "docno": ["d1"], "score": [2.0], "rank": [0]}), "given.trec")
        >>> ikat.GivenRanking("given.trec")(pd.DataFrame({"qid": ["1_1"], "query": ["tea?"]}))[["docno", "score"]].values.tolist()
        [['d1', 2.0]]
    """

    schematic = {"label": "Given ranking"}

    path: str
    texts: pt.Transformer | None = None

    def __post_init__(self) -> None:
        self.path = str(self.path)
        self._run = RunRead(self.path)

    def parts(self) -> Iterator[Any]:
        """The run, and the source of the texts."""
        yield self._run
        yield from parts_of(self.texts)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The passages of each turn, turn by turn in the order of the frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        kept = inp.drop(columns=["docno", "score", "rank", "text"], errors="ignore")
        found = kept.merge(self._run.frame if len(inp) else NOTHING, on="qid", how="inner")
        report_turns_without_result(inp, inp["qid"].map(found["qid"].value_counts()).fillna(0).to_numpy())
        return found if self.texts is None else self.texts.transform(found)
