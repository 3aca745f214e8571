"""One query made of two: the query so far and what another operator makes of the turn."""

import pandas as pd
import pyterrier as pt

from ..conversations.frame import each_turn_once, texts_in, with_query
from ..errors import DataError
from ..operator import Operator, Plan


class Append(Operator):
    """Append what ``operator`` makes of the turn to the query, as ConvGQR appends an expansion to its rewrite.

    Reads ``qid``, ``query`` and what ``operator`` reads; sets ``query`` to "<query> <the operator's query>" and pushes
    the old one to ``query_0``. Columns that the operator writes are not kept.

    Args:
        operator: a query rewriter, query frame to query frame, such as ``ikat.Seq2SeqRewrite(model)``.

    Raises:
        DataError: when a turn has several rows or no text in ``query``, or the operator does not give one row for each turn.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> add_tea = ikat.Append(pt.apply.query(lambda row: "rooibos tea"))
        >>> add_tea(pd.DataFrame({"qid": ["1"], "query": ["no caffeine"]}))["query"].tolist()
        ['no caffeine rooibos tea']
    """

    one_row_per_turn = True
    schematic = {"label": "Append"}

    def __init__(self, operator: pt.Transformer) -> None:
        super().__init__()
        self.operator = operator

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The query and what the operator leaves of it."""
        return self.appended(frame, plan.follow(self.operator, frame))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        return self.appended(inp, self.operator.transform(inp))

    def appended(self, frame: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
        """``frame`` with the queries of ``made``, one per ``qid``, behind its own."""
        each_turn_once(frame)
        if sorted(made["qid"]) != sorted(frame["qid"]):
            raise DataError(f"{self.operator} gave {len(made)} rows for {len(frame)} turns: append an operator that gives one row per turn")
        added = dict(zip(made["qid"], texts_in(made, "query"), strict=True))
        return with_query(frame, [f"{query} {added[qid]}" for qid, query in zip(frame["qid"], texts_in(frame, "query"), strict=True)])
