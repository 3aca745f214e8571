"""Pairs in batches of about equally many tokens: tokenized once, the longest first, so that hardly anything is padding."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .scoring import Floats, longest_first

Batch = Mapping[str, Any]
"""Tensors of torch by the name of the model's argument, of shape (pairs, tokens)."""


def scores_of(
    pairs: Sequence[tuple[str, str]], tokenizer: Any, max_length: int, batch_tokens: int, logits: Callable[[Batch], Any]
) -> Floats:
    """The model's score of each (query, text), in the order of ``pairs``.

    Args:
        pairs: what to score.
        tokenizer: the model's, of ``transformers``.
        max_length: tokens of a pair at most, the rest is cut off.
        batch_tokens: tokens, padding included, that the model gets at a time; a longer pair goes alone.
        logits: gives a batch's scores as a tensor, which need not be there yet: they are waited for once, at the end.
    """
    import torch

    queries, texts = zip(*pairs, strict=True)
    encoded = tokenizer(list(queries), list(texts), truncation=True, max_length=max_length)
    lengths = [len(tokens) for tokens in encoded["input_ids"]]
    order = longest_first(lengths)
    with torch.inference_mode():
        parts = [logits(_padded(tokenizer, encoded, part)) for part in batches(order, lengths, batch_tokens)]
        found = torch.cat(parts).double().cpu().numpy()
    return np.asarray(found[np.argsort(order)])


def batches(order: npt.NDArray[np.int64], lengths: Sequence[int], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """The numbers of ``order`` cut into batches; ``lengths`` falls along it."""
    start = 0
    while start < len(order):
        end = start + max(1, batch_tokens // max(1, lengths[order[start]]))
        yield order[start:end]
        start = end


def _padded(tokenizer: Any, encoded: Mapping[str, Sequence[Any]], places: npt.NDArray[np.int64]) -> Batch:
    batch: Batch = tokenizer.pad({name: [rows[place] for place in places] for name, rows in encoded.items()}, return_tensors="pt")
    return batch
