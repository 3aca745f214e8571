"""Pairs in batches of about equally many tokens: tokenized once, the longest first, so that hardly anything is padding."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .scoring import Floats, longest_first

Features = Mapping[str, Any]
"""What a model reads: tensors of torch by name, of shape (pairs, tokens), among them ``attention_mask``, and what holds for all pairs."""


def can_be_cut(features: Features) -> bool:
    """Whether the pairs can be put into other batches: each tensor has a place for each token, and a mask tells which are padding."""
    mask = features.get("attention_mask")
    return mask is not None and mask.ndim == 2 and all(tensor.shape == mask.shape for tensor in _tensors(features).values())


def scores_of(features: Features, batch_tokens: int, score: Callable[[Features], Any]) -> Floats:
    """The model's score of each pair, in their order.

    Args:
        features: all pairs, on either side padded to the longest.
        batch_tokens: tokens, padding included, that the model gets at a time; a longer pair goes alone.
        score: gives a batch's scores as a tensor, which need not be there yet: they are waited for once, at the end.
    """
    import torch

    lengths = features["attention_mask"].sum(1).tolist()
    order = longest_first(lengths)
    with torch.inference_mode():
        parts = [score(_cut(features, torch.from_numpy(part))) for part in batches(order, lengths, batch_tokens)]
        found = torch.cat(parts).double().cpu().numpy()
    return np.asarray(found[np.argsort(order)])


def batches(order: npt.NDArray[np.int64], lengths: Sequence[int], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """The numbers of ``order`` cut into batches; ``lengths`` falls along it."""
    start = 0
    while start < len(order):
        end = start + max(1, batch_tokens // max(1, lengths[order[start]]))
        yield order[start:end]
        start = end


def _cut(features: Features, pairs: Any) -> Features:
    """The features of these pairs, without the padding that all of them have."""
    used = features["attention_mask"][pairs].any(0)
    return {**features, **{name: tensor[pairs][:, used] for name, tensor in _tensors(features).items()}}


def is_tensor(value: Any) -> bool:
    """Whether a feature has a place for each pair, not one value for all."""
    return hasattr(value, "ndim")


def _tensors(features: Features) -> Features:
    return {name: value for name, value in features.items() if is_tensor(value)}
