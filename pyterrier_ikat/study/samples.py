"""Systems run several times: each sample is a complete run with its own completions, in a folder beside the plain run."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..errors import UsageError, advice
from ..generate.samples import SamplesWarning as SamplesWarning
from ..llms import LLM
from ..operator import parts_of
from ..runs.samples import sample_name
from .comparison import Comparison, Sample


def with_samples(comparison: Comparison, samples: int) -> Comparison:
    """The comparison with ``samples`` runs of each system that asks an LLM.

    The first is the plain run. The others are named ``NAME.sample-2``, ``NAME.sample-3``, ...

    Raises:
        UsageError: when ``samples`` is below 1, or a system has the name of another system's sample.
    """
    if samples < 1:
        raise UsageError(f"{advice(f'samples={samples}', f'--samples {samples}')}: run each system at least once")
    if samples == 1:
        return comparison
    runs = list(_runs(comparison, samples))
    if taken := [name for name, _, number in runs if number > 1 and name in comparison.systems]:
        raise UsageError(f"a system is named {taken[0]!r}, as a sample of another one: give it another name")
    _warn(comparison, samples)

    def spread(of_systems: dict[str, Any]) -> dict[str, Any]:
        return {name: of_systems[system] for name, system, _ in runs}

    return replace(
        comparison,
        methods=spread(comparison.methods),
        systems=spread(comparison.systems),
        topics=spread(comparison.topics),
        deviations=spread(comparison.deviations),
        samples={name: Sample(system, number) for name, system, number in runs},
    )


def _runs(comparison: Comparison, samples: int) -> Iterator[tuple[str, str, int]]:
    for name in comparison.systems:
        for number in range(1, 1 + (samples if _models(comparison, name) else 1)):
            yield sample_name(name, number), name, number


def _models(comparison: Comparison, name: str) -> list[LLM]:
    return [part for part in parts_of(comparison.systems[name]) if isinstance(part, LLM)]


def _warn(comparison: Comparison, samples: int) -> None:
    for name in comparison.systems:
        models = _models(comparison, name)
        reasons = {model: why for model in models if (why := model.backend.repeats(samples))}
        if not models:
            text = f"system {name} asks no LLM, so that every sample would be the same: it is run once"
        elif reasons:
            why = "; ".join(f"{model!r} has {why}" for model, why in reasons.items())
            text = f"samples of {name} may be the same: {why}"
        else:
            continue
        warnings.warn(text, SamplesWarning, stacklevel=4)
