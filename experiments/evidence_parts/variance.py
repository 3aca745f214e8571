"""How much the samples of one prompt vary, what that means for the order of prompts, and the sources of the variance of turns' scores."""

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
    """The shares of the variance in a balanced design, from the expected mean squares of a two-way analysis with random effects.

    Args:
        scores: turns x prompts x samples.

    Returns:
        The shares of turn, prompt, turn and prompt together, and sample. A negative estimate is set to 0.

    Example:
        >>> shares(np.array([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]]))
        {'turn': 1.0, 'prompt': 0.0, 'turn and prompt': 0.0, 'sample': 0.0}
    """
    turns, prompts, samples = scores.shape
    cells, mean = scores.mean(axis=2), scores.mean()
    of_turns, of_prompts_ = cells.mean(axis=1), cells.mean(axis=0)
    both = cells - of_turns[:, None] - of_prompts_ + mean
    squares_of_both = samples * (both**2).sum() / ((turns - 1) * (prompts - 1))
    squares_of_samples = ((scores - cells[:, :, None]) ** 2).sum() / (turns * prompts * (samples - 1))
    found = {
        "turn": (prompts * samples * of_turns.var(ddof=1) - squares_of_both) / (prompts * samples),
        "prompt": (turns * samples * of_prompts_.var(ddof=1) - squares_of_both) / (turns * samples),
        "turn and prompt": (squares_of_both - squares_of_samples) / samples,
        "sample": squares_of_samples,
    }
    kept = {name: max(0.0, float(value)) for name, value in found.items()}
    return {name: value / sum(kept.values()) for name, value in kept.items()}


class Order(NamedTuple):
    """How far one run of each prompt orders the prompts as the means of all runs do.

    Attributes:
        prompts: the standard deviation of the prompts' means.
        runs: the standard deviation of the runs of one prompt, pooled over prompts.
        same: the share of pairs of prompts that one run of each orders as the means do, over all pairs of runs.
        apart: the difference that two single runs of equal prompts exceed in 5 % of all cases.
    """

    prompts: float
    runs: float
    same: float
    apart: float


def ordered(means: npt.NDArray[np.float64]) -> Order:
    """How far single runs order prompts.

    Args:
        means: prompts x runs, each the mean over turns.

    Example:
        >>> found = ordered(np.array([[0.1, 0.3], [0.2, 0.6]]))
        >>> found.same  # .2 and .6 are above .1; .6 is above .3, and .2 is not
        0.75
    """
    of_prompts_, runs = means.mean(axis=1), float(np.sqrt(means.var(axis=1, ddof=1).mean()))
    pairs = list(combinations(range(len(means)), 2))
    same = [
        (np.sign(np.subtract.outer(means[one], means[other])) == np.sign(of_prompts_[one] - of_prompts_[other])).mean()
        for one, other in pairs
    ]
    return Order(float(of_prompts_.std(ddof=1)), runs, float(np.mean(same)), float(norm.ppf(0.975) * np.sqrt(2) * runs))


def variance(folder: str | Path) -> str:
    """The shares of the variance, and the spread of the five runs of each prompt."""
    rows, orders, spread = [], [], dict[str, list[tuple[float, float, float]]]()
    for kind, answers in (("rewrite", False), ("rewrite and response", True)):
        of_turns = of_prompts(folder, answers)
        wide = of_turns.set_index(["qid", "prompt", "run"])[MEASURE].unstack(["prompt", "run"])[list(PCIR_PROMPTS)]
        scores = wide.to_numpy().reshape(len(wide), len(PCIR_PROMPTS), -1)
        rows.append([kind, *(f"{share:.1%}" for share in shares(scores).values())])
        order = ordered(scores.mean(axis=0))
        orders.append([kind, f"{order.prompts:.3f}", f"{order.runs:.3f}", f"{order.same:.0%}", f"{order.apart:.3f}"])
        of_runs, of_turn = scores.mean(axis=0), scores.std(axis=2, ddof=1).mean(axis=0)
        spread[kind] = list(zip(of_runs.mean(axis=1), of_runs.std(axis=1, ddof=1), of_turn, strict=True))
    shown = []
    for row, prompt in enumerate(PCIR_PROMPTS):
        of_kinds = [spread_of_kind[row] for spread_of_kind in spread.values()]
        means, turns = [f"{mean:.4f} ± {runs:.4f}" for mean, runs, _ in of_kinds], [f"{turn:.3f}" for _, _, turn in of_kinds]
        shown.append([name_of(prompt).removeprefix("personalizedcir-"), *means, *turns])
    head = ["prompt", *(f"{kind}: mean and deviation of 5 runs" for kind in spread), *(f"{kind}: deviation of a turn" for kind in spread)]
    of_orders = [
        "query",
        "deviation of the prompts' means",
        "of the runs of a prompt",
        "pairs that one run orders as five",
        "apart by chance",
    ]
    return "\n\n".join(
        [table(of_orders, orders), table(["query", "turn", "prompt", "turn and prompt", "sample"], rows), table(head, shown)]
    )
