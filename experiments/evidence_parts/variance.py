"""How much the samples of one prompt vary, and the sources of the variance of turns' scores."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from .common import PCIR_PROMPTS, table
from .proxy import name_of, of_prompts

MEASURE = "nDCG@10"


def shares(scores: npt.NDArray[np.float64]) -> dict[str, float]:
    """The shares of the variance in a balanced design.

    They come from the expected mean squares of a two-way analysis with random effects.

    Args:
        scores: turns x prompts x samples.

    Returns:
        The shares of turn, prompt, turn and prompt together, and sample. A negative estimate is set
        to 0.

    Example:
        >>> shares(np.array([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]]))
        {'turn': 1.0, 'prompt': 0.0, 'turn and prompt': 0.0, 'sample': 0.0}
    """
    turns, prompts, samples = scores.shape
    mean = scores.mean()
    cells = scores.mean(axis=2)
    of_turns = cells.mean(axis=1)
    of_prompts_ = cells.mean(axis=0)
    both = cells - of_turns[:, None] - of_prompts_ + mean
    squares_of_both = samples * (both**2).sum() / ((turns - 1) * (prompts - 1))
    squares_of_samples = ((scores - cells[:, :, None]) ** 2).sum() / (
        turns * prompts * (samples - 1)
    )
    estimates = {
        "turn": (prompts * samples * of_turns.var(ddof=1) - squares_of_both) / (prompts * samples),
        "prompt": (turns * samples * of_prompts_.var(ddof=1) - squares_of_both) / (turns * samples),
        "turn and prompt": (squares_of_both - squares_of_samples) / samples,
        "sample": squares_of_samples,
    }
    variances = {name: max(0.0, float(value)) for name, value in estimates.items()}
    total = sum(variances.values())
    return {name: variance / total for name, variance in variances.items()}


class Order(NamedTuple):
    """How far one run of each prompt orders the prompts as their other runs do.

    Attributes:
        prompts: the standard deviation of the prompts' means.
        runs: the standard deviation of the runs of one prompt, pooled over prompts.
        same: the share of pairs of prompts that one run of each orders as the means of their other
            runs do, over all pairs of runs.
        alike: the same share over the pairs of prompts of one group; NaN without such pairs.
        alike_pairs: how many pairs of prompts these are.
        apart: the difference that two single runs of equal prompts exceed in 5 % of all cases.
    """

    prompts: float
    runs: float
    same: float
    alike: float
    alike_pairs: int
    apart: float


def ordered(means: npt.NDArray[np.float64], groups: Sequence[Sequence[int]] = ()) -> Order:
    """How far single runs order prompts.

    Args:
        means: prompts x runs, each the mean over turns.
        groups: the rows of prompts that are alike, for each group.

    Example:
        >>> found = ordered(np.array([[0.1, 0.3], [0.2, 0.6]]))
        >>> # .1 < .2 as .3 < .6, .1 < .6 but .3 > .2, .3 > .2 but .1 < .6, .3 < .6 as .1 < .2
        >>> found.same
        0.5
    """
    shares = {}
    for one, other in combinations(range(len(means)), 2):
        shares[one, other] = same_order(means[one], means[other])
    alike = [shares[pair] for group in groups for pair in combinations(sorted(group), 2)]
    runs = float(np.sqrt(means.var(axis=1, ddof=1).mean()))
    return Order(
        prompts=float(means.mean(axis=1).std(ddof=1)),
        runs=runs,
        same=float(np.mean(list(shares.values()))),
        alike=float(np.mean(alike)) if alike else float("nan"),
        alike_pairs=len(alike),
        apart=float(norm.ppf(0.975) * np.sqrt(2) * runs),
    )


def same_order(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """The share of pairs of runs of two prompts that order them as the other runs' means do.

    A run isn't part of the means that it is compared with.

    Example:
        >>> same_order(np.array([0.1, 0.2]), np.array([0.3, 0.4]))
        1.0
    """
    rest_of_one = (one.sum() - one) / (len(one) - 1)
    rest_of_other = (other.sum() - other) / (len(other) - 1)
    by_runs = np.sign(np.subtract.outer(one, other))
    by_the_rest = np.sign(np.subtract.outer(rest_of_one, rest_of_other))
    return float((by_runs == by_the_rest).mean())


QUERY_KINDS = {"rewrite": False, "rewrite and response": True}
"""What is searched for, and whether it includes the response."""
ALIKE = ("prompt1", "prompt2")
"""Prompts with one of these in their names differ only in the shown statements and examples."""


def variance(folder: str | Path) -> str:
    """The shares of the variance, how far one run orders prompts, and the spread of runs."""
    orders = []
    of_sources = []
    spread: dict[str, list[tuple[str, str]]] = {}
    for kind, answers in QUERY_KINDS.items():
        scores = scores_of(folder, answers)
        groups = []
        for name in ALIKE:
            groups.append([row for row, prompt in enumerate(PCIR_PROMPTS) if name in prompt])
        order = ordered(scores.mean(axis=0), groups)
        ordering = [f"{order.same:.1%}", f"{order.alike:.1%}", f"{order.apart:.3f}"]
        orders.append([kind, f"{order.prompts:.3f}", f"{order.runs:.3f}", *ordering])
        of_sources.append([kind, *(f"{share:.1%}" for share in shares(scores).values())])
        spread[kind] = spread_of(scores)
    rows = []
    for row, prompt in enumerate(PCIR_PROMPTS):
        means = [of_kind[row][0] for of_kind in spread.values()]
        turns = [of_kind[row][1] for of_kind in spread.values()]
        rows.append([name_of(prompt).removeprefix("personalizedcir-"), *means, *turns])
    head = ["prompt"]
    head += [f"{kind}: mean and deviation of 5 runs" for kind in QUERY_KINDS]
    head += [f"{kind}: deviation of a turn" for kind in QUERY_KINDS]
    pairs = len(PCIR_PROMPTS) * (len(PCIR_PROMPTS) - 1) // 2
    of_orders = [
        "query",
        "deviation of the prompts' means",
        "of the runs of a prompt",
        f"pairs of prompts that one run orders as the other four, of {pairs}",
        f"of {order.alike_pairs} alike",
        "apart by chance",
    ]
    of_shares = ["query", "turn", "prompt", "turn and prompt", "sample"]
    return "\n\n".join([table(of_orders, orders), table(of_shares, of_sources), table(head, rows)])


def scores_of(folder: str | Path, answers: bool) -> npt.NDArray[np.float64]:
    """The nDCG@10 of each turn, prompt and run: turns x prompts x runs."""
    of_turns = of_prompts(folder, answers)
    scores = of_turns.set_index(["qid", "prompt", "run"])[MEASURE]
    wide = scores.unstack(["prompt", "run"])[list(PCIR_PROMPTS)]
    return wide.to_numpy().reshape(len(wide), len(PCIR_PROMPTS), -1)


def spread_of(scores: npt.NDArray[np.float64]) -> list[tuple[str, str]]:
    """For each prompt, mean and deviation of its runs' means, and the deviation of a turn.

    The latter is the mean over turns of the deviation of a turn's samples.
    """
    of_runs = scores.mean(axis=0)
    of_turn = scores.std(axis=2, ddof=1).mean(axis=0)
    rows = []
    for runs, deviation in zip(of_runs, of_turn, strict=True):
        rows.append((f"{runs.mean():.4f} ± {runs.std(ddof=1):.4f}", f"{deviation:.3f}"))
    return rows
