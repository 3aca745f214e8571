"""Statements about the user as part of the query."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import personas, texts_in, values, with_query
from ..errors import DataError
from ..operator import Operator, Plan


class WithStatements(Operator):
    """Append the texts of chosen statements about the user to the query.

    Reads ``qid``, ``query``, ``column`` and ``qptkb``; sets ``query`` to the query and the statements, in their order, with a space
    between, and pushes the old one to ``query_0``. A turn without a chosen statement keeps its query. Source: the organisers' baselines of
    iKAT 2023, with the three best statements by MiniLM (automatic) or the gold ones (manual, ``column="qgoldptkb"``).

    Args:
        column: the chosen statements: a list of (id, score), as ``qstatements``, or of ids, as ``qgoldptkb``; ``None`` is no statement.

    Raises:
        DataError: when a statement isn't in the turn's persona.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.WithStatements()(turn.assign(qstatements=[[("2", 0.9)]]))["query"].tolist()
        ['Breakfast? I am vegan.']
    """

    one_row_per_turn = True
    schematic = {"label": "WithStatements"}

    def __init__(self, column: str = "qstatements") -> None:
        super().__init__()
        self.column = column

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The query alone, where nothing says which statements are chosen."""
        return self.transform(frame) if self.column in frame.columns else frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query", self.column], context=self)
        rows = zip(inp["qid"], texts_in(inp, "query"), personas(inp), values(inp, self.column), strict=True)
        return with_query(inp, [" ".join([query, *self._texts(qid, ptkb, chosen or [])]) for qid, query, ptkb, chosen in rows])

    def _texts(self, qid: str, ptkb: Mapping[str, str], chosen: Iterable[Any]) -> list[str]:
        ids = [item if isinstance(item, str) else item[0] for item in chosen]
        unknown = [number for number in ids if number not in ptkb]
        if unknown:
            raise DataError(
                f"turn {qid}: {self.column} names statement {unknown[0]!r}, its persona has {', '.join(ptkb) or 'none'}: "
                "choose the statements on the frame that they are used on"
            )
        return [ptkb[number] for number in ids]
