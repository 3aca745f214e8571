"""The pool of several runs: the passages to judge."""

from collections.abc import Mapping

import pandas as pd
import pyterrier as pt

from ..conversations.frame import column
from ..errors import DataError, UsageError, advice
from ..runs import trec_eval_order
from .breakdown import natural
from .checks import check_runs, with_text_ids


def pool_runs(runs: Mapping[str, pd.DataFrame], depth: int = 10) -> pd.DataFrame:
    """The passages in the top ``depth`` of any run: once they are judged, no run has an unjudged one there.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4: the top 10 of all models and baselines,
    also where the official judges saw a passage already.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``); the top is that of the figures: by score, ties by docno.
        depth: how many passages of each turn and run.

    Returns:
        ``qid``, ``docno``: each pair once, sorted by conversation, turn and docno, whatever the order of the runs; so
        the order tells a judge nothing of a passage's rank.

    Raises:
        UsageError: without runs by name, or with a depth below 1.
        DataError: when a run repeats a passage within a turn, names it by a number, or has a score that is not finite.

    Example:
        >>> import pandas as pd
        >>> one = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["b", "c"], "score": [2.0, 1.0], "rank": [0, 1]})
        >>> pool_runs({"one": one, "two": one.assign(docno=["a", "b"])}, depth=1).values.tolist()
        [['1_1', 'a'], ['1_1', 'b']]
    """
    if not isinstance(depth, int) or depth < 1:
        raise UsageError(f"{advice(f'depth={depth!r}', f'--depth {depth}')}: pool at least one passage of each turn")
    check_runs(runs)
    pairs = {pair for name, run in runs.items() for pair in _top(name, run, depth)}
    ordered = sorted(pairs, key=lambda pair: (natural(pair[0]), pair[1]))
    return pd.DataFrame({"qid": column(qid for qid, _ in ordered), "docno": column(docno for _, docno in ordered)})


def _top(name: str, run: pd.DataFrame, depth: int) -> set[tuple[str, str]]:
    pt.validate.result_frame(run, extra_columns=["score"])
    try:
        ordered = trec_eval_order(with_text_ids(f"run {name}", run))
    except DataError as error:
        raise DataError(f"run {name}: {error}") from error
    top = ordered[ordered["rank"] < depth]
    return set(zip(top["qid"], top["docno"], strict=True))
