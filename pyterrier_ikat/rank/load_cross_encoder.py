"""Loading any sentence-transformers cross-encoder: features, batches, and the layers that produce its score."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError, advice, list_first
from ..store.models import load, loaded_once
from .reranker import Floats, longest_first

LAYERS = ("BertLayer", "ElectraLayer", "RobertaLayer", "XLMRobertaLayer")
"""Layers of ``transformers`` whose parts have the same names as BERT's."""


def cut_to_first_token(network: Any, scores: Callable[[], Any]) -> None:
    """Compute the network's last layer only for the first token, if the scores stay the same.

    Args:
        network: a network of ``transformers``. Its last layer is replaced, and its weights stay.
        scores: computes the network's scores of some pairs, to check that they stay the same.
    """
    layers = getattr(getattr(getattr(network, "base_model", None), "encoder", None), "layer", None)
    if not layers or type(layers[-1]).__name__ not in LAYERS:
        return
    before, whole = scores(), layers[-1]
    layers[-1] = _first_token(whole)
    if not _same(before, scores):
        layers[-1] = whole


def _same(before: Any, scores: Callable[[], Any]) -> bool:
    import torch

    try:
        return torch.allclose(scores(), before, rtol=1e-4, atol=1e-6)
    except Exception:  # a version of transformers whose layers are called in another way, or a head that reads every token
        return False


def _first_token(layer: Any) -> Any:
    import torch

    class FirstToken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, hidden: Any, mask: Any = None, *_: Any, **__: Any) -> Any:
            own, first = self.layer.attention.self, hidden[:, :1]
            queries, keys, values = (
                product.unflatten(-1, (own.num_attention_heads, own.attention_head_size)).transpose(1, 2)
                for product in (own.query(first), own.key(hidden), own.value(hidden))
            )
            mask = None if mask is None else mask[:, :, :1]
            found = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, mask)
            first = self.layer.attention.output(found.transpose(1, 2).flatten(2), first)
            return self.layer.output(self.layer.intermediate(first), first)

    return FirstToken()


Features = Mapping[str, Any]
"""The input of a model: torch tensors by name, of shape (pairs, tokens), with ``attention_mask``, and values that hold for all pairs."""


def can_be_cut(features: Features) -> bool:
    """Whether the pairs can be put into other batches: each tensor has a value for each token, and a mask says which are padding."""
    mask = features.get("attention_mask")
    return mask is not None and mask.ndim == 2 and all(tensor.shape == mask.shape for tensor in _tensors(features).values())


def scores_of(features: Features, batch_tokens: int, score: Callable[[Iterable[Features]], Iterable[Any]]) -> Floats:
    """The model's score of each pair, in their order.

    Args:
        features: all pairs, padded on the left or right to the longest one.
        batch_tokens: the number of tokens per batch, including padding. A longer pair is a batch of its own.
        score: returns the scores of each batch, in their order, as tensors. They may still be in computation: this function waits for them
            once, at the end.
    """
    import torch

    lengths = features["attention_mask"].sum(1).tolist()
    order = longest_first(lengths)
    with torch.inference_mode():
        parts = score(cut_features(features, torch.from_numpy(part)) for part in batches(order, lengths, batch_tokens))
        found = torch.cat(list(parts)).double().cpu().numpy()
    return np.asarray(found[np.argsort(order)])


def batches(order: npt.NDArray[np.int64], lengths: Sequence[int], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """The numbers in ``order``, cut into batches. The ``lengths`` decrease along it."""
    start = 0
    while start < len(order):
        end = start + max(1, batch_tokens // max(1, lengths[order[start]]))
        yield order[start:end]
        start = end


def cut_features(features: Features, pairs: Any) -> Features:
    """The features of these pairs, without the padding that all of them have."""
    used = features["attention_mask"][pairs].any(0)
    return {**features, **{name: tensor[pairs][:, used] for name, tensor in _tensors(features).items()}}


def is_tensor(value: Any) -> bool:
    """Whether a feature has a value for each pair, not one value for all."""
    return hasattr(value, "ndim")


def _tensors(features: Features) -> Features:
    return {name: value for name, value in features.items() if is_tensor(value)}


PROBES = [("a", "b c d"), ("e f", "g"), ("", "h i, k l m? N o p."), ("q", "")]
"""Pairs that show how a model scores. They have different lengths, and some have no words."""
NEAR = 1e-4
"""The tolerated differences of scores between batch sizes. In deep networks in single precision, they are about a tenth of this."""
Pairs = Sequence[tuple[str, str]]


@loaded_once(size=5)
def load_cross_encoder(model: str, max_length: int) -> Any:
    """The loaded model of ``sentence-transformers``, in single precision. Equal arguments share one model.

    Its ``activation_fn`` is never a sigmoid, and its ``max_seq_length`` is at most the number of positions in its network.

    Raises:
        UsageError: when it can't be loaded or run, wasn't trained to score pairs, or gives more than one score per pair.
    """

    def make() -> Any:
        import torch
        from sentence_transformers import CrossEncoder as Model

        return Model(model, max_length=max_length, model_kwargs={"dtype": torch.float32}).float().eval()

    loaded = load("cross-encoder", model, make)
    from torch.nn import Identity, Sigmoid  # imported late, so that a wrong name is reported at once

    _refuse_untrained(loaded, model)
    if isinstance(loaded.activation_fn, Sigmoid):
        loaded.activation_fn = Identity()
    loaded.max_seq_length = min([loaded.max_seq_length, *_positions(loaded)])
    _refuse_other_scores(loaded, model)
    cut_to_first_token(loaded.model, lambda: predict_scores(loaded, PROBES, batch_size=3))  # with padding, and without, which has no mask
    return loaded


@loaded_once(size=5)
def goes_in_batches(model: str, max_length: int) -> bool:
    """Whether our own batches give the same scores as ``sentence-transformers``."""
    loaded = load_cross_encoder(model, max_length)
    features = features_of(loaded, PROBES)
    if not can_be_cut(features):
        return False
    found, expected = scores_of(features, 16, partial(map, partial(score_batch, loaded))), predict_scores(loaded, PROBES)
    return bool(abs(found - expected.double().cpu().numpy()).max() < NEAR * max(1, float(expected.abs().max())))


def predict_scores(loaded: Any, pairs: Pairs, batch_size: int = 32) -> Any:
    """The scores of the pairs from ``sentence-transformers``, as a tensor."""
    return loaded.predict(list(pairs), batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)


def features_of(loaded: Any, pairs: Pairs) -> Features:
    """The model's input for the pairs, with its own template, prompt and tokens, padded to the longest pair."""
    features: Features = loaded.preprocess(list(pairs), prompt=loaded.prompts.get(loaded.default_prompt_name))
    return features


def score_batch(loaded: Any, batch: Features) -> Any:
    """The scores of a batch, as a tensor of one number per pair."""
    return loaded.activation_fn(loaded(_on_device(loaded, batch))["scores"].float()).flatten()


def _on_device(loaded: Any, batch: Features) -> dict[str, Any]:
    return {name: value.to(loaded.device, non_blocking=True) if is_tensor(value) else value for name, value in batch.items()}


def _refuse_untrained(loaded: Any, model: str) -> None:
    """Refuse a model that ``sentence-transformers`` itself turned into a cross-encoder, unless its weights have a layer for the score."""
    if loaded.module_kwargs:  # its files name its modules: it was saved as a cross-encoder
        return
    made_as = next(iter(loaded.config.architectures or []), type(loaded.model).__name__)
    if len(loaded) > 1:
        raise UsageError(
            f"the model {model!r} is a {made_as} that isn't saved as a cross-encoder: nothing says which of its words stand for the score. "
            "Give a cross-encoder, or use this one as what it is, "
            + advice(
                "such as by ikat.BiEncoder, or as an LLM by ikat.LLMRerank",
                f"such as --reranker bi:{model}, or --llm hf:{model} with llama10",
            )
        )
    if missing := _missing_weights(loaded):
        some = list_first(missing)
        raise UsageError(
            f"the model {model!r} is a {made_as}, whose layer for the score would be drawn by chance ({some}: not in its files): "
            "give a cross-encoder, or use this one as what it is, such as "
            + advice("by ikat.BiEncoder or ikat.MonoT5", f"--reranker bi:{model} or monot5:{model}")
        )


def _missing_weights(loaded: Any) -> list[str]:
    _, found = type(loaded.model).from_pretrained(loaded.model.name_or_path, config=loaded.config, output_loading_info=True)
    return sorted(found["missing_keys"])


def _positions(loaded: Any) -> list[int]:
    """The number of position embeddings of the network; empty if it encodes positions in another way."""
    from torch.nn import Embedding

    tables = [getattr(part, "position_embeddings", None) for part in loaded.modules()]
    return [
        table.num_embeddings - (-1 if table.padding_idx is None else table.padding_idx) - 1
        for table in tables
        if isinstance(table, Embedding)
    ]


def _refuse_other_scores(loaded: Any, model: str) -> None:
    """Score a pair as a trial. sentence-transformers has no other check that a model reads pairs and gives a score."""
    import torch

    try:
        with torch.inference_mode():
            found = loaded(_on_device(loaded, features_of(loaded, PROBES)))
    except Exception as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"the cross-encoder {model!r} can't score a pair: {why}") from None
    if "scores" not in found:
        raise UsageError(f"none of the modules of {model!r} gives a score: it is not a cross-encoder")
    if (labels := found["scores"].numel() // len(PROBES)) != 1:
        raise UsageError(f"the model {model!r} gives {labels} scores per pair: a re-ranker gives one")
