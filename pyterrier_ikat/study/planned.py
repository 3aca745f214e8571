"""The estimated LLM calls, tokens and cost of systems."""

from typing import Any

import pandas as pd

from ..arguments import checked
from ..conversations.choice import Turns
from ..conversations.datasets import IkatDataset
from ..planning import PlanTable, estimate
from .comparison import Comparison, prepare_comparison
from .samples import with_samples
from .systems import Systems


@checked
def plan(
    systems: Systems,
    dataset: IkatDataset | str | pd.DataFrame | None = None,
    *,
    topics: pd.DataFrame | None = None,
    turns: Turns | None = None,
    samples: int = 1,
    **resources: Any,
) -> PlanTable:
    """Estimate the LLM calls, tokens and cost of systems before you spend anything.

    Nothing is asked, nothing is retrieved and no model is loaded.

    The plan follows the stages in order. A completion in the cache is used and counted as cached. Otherwise a stand-in of typical length is
    used, so tokens are estimates (four characters a token), and so are calls that depend on them. The stand-in for a trained rewriter's
    query or a retrieved passage is the user's question; for ranked statements, the first ones of the persona. A
    :class:`~pyterrier_ikat.Judge` in a pipeline judges every passage up to the cut (``% k``) before it, or 1000 per turn without a cut. A
    request that several systems share counts once, for the first of them.

    Each operator estimates its own requests and output (``Operator.plan``). For a stage of another package the plan knows only the columns.
    A stage that returns passages for queries is a retriever, which asks nothing; a stage of PyTerrier that turns queries into queries
    (``pt.apply.query``) is run; any other stage is a row with unknown counts.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name; or a turn frame (for a judge alone, the pool to judge).
        topics: the turns, instead of the dataset's.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        samples: the number of runs of each system, as for :func:`pyterrier_ikat.run`; each sample is a system in the table.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests of the stage),
        ``cached`` (paid for already, or under way in a batch), ``shared`` (repeats of a request made before), ``new`` (still to be paid),
        ``prompt_tokens`` and ``completion_tokens`` of the new ones, ``cost`` in US dollars (missing when the price is
        unknown). The counts of a stage that can't be planned are missing. ``.total`` has the sums, which are printed below the table.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none price_in=2.5 price_out=10")
        >>> ikat.plan({"AD": ikat.Answer(llm)}, "ikat:sample").total["new"]
        24
    """
    if isinstance(dataset, pd.DataFrame):
        dataset, topics = None, dataset
    comparison = prepare_comparison(systems, dataset, topics=topics, turns=turns, only_plan=True, **resources)
    return estimate_comparison(with_samples(comparison, samples))


def estimate_comparison(comparison: Comparison) -> PlanTable:
    """The plan of checked systems."""
    chains = {name: sample.number - 1 for name, sample in comparison.samples.items()}
    return estimate(comparison.systems, comparison.topics, chains)
