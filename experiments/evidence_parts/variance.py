"""How much the samples of one prompt vary, and the sources of the variance of turns' scores: turn, prompt, both together, or the sample."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyterrier_ikat.conversations.public_outputs import PCIR_PROMPTS

from .common import table
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


def variance(folder: str | Path) -> str:
    """The shares of the variance, and the spread of the five runs of each prompt."""
    rows, spread = [], dict[str, list[tuple[float, float, float]]]()
    for kind, answers in (("rewrite", False), ("rewrite and response", True)):
        of_turns = of_prompts(folder, answers)
        wide = of_turns.set_index(["qid", "prompt", "run"])[MEASURE].unstack(["prompt", "run"])[list(PCIR_PROMPTS)]
        scores = wide.to_numpy().reshape(len(wide), len(PCIR_PROMPTS), -1)
        rows.append([kind, *(f"{share:.1%}" for share in shares(scores).values())])
        of_runs, of_turn = scores.mean(axis=0), scores.std(axis=2, ddof=1).mean(axis=0)
        spread[kind] = list(zip(of_runs.mean(axis=1), of_runs.std(axis=1, ddof=1), of_turn, strict=True))
    shown = []
    for row, prompt in enumerate(PCIR_PROMPTS):
        of_kinds = [spread_of_kind[row] for spread_of_kind in spread.values()]
        means, turns = [f"{mean:.4f} ± {runs:.4f}" for mean, runs, _ in of_kinds], [f"{turn:.3f}" for _, _, turn in of_kinds]
        shown.append([name_of(prompt).removeprefix("personalizedcir-"), *means, *turns])
    head = ["prompt", *(f"{kind}: mean and deviation of 5 runs" for kind in spread), *(f"{kind}: deviation of a turn" for kind in spread)]
    return "\n\n".join([table(["query", "turn", "prompt", "turn and prompt", "sample"], rows), table(head, shown)])
