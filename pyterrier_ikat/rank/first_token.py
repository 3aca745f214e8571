"""A BERT-like cross-encoder scores by its first token: its last layer need not work out the others.

What the last layer does for every token, but its keys and values, is 5 of the 6 products of its weights: 14 % of a network of six layers.
"""

import copy
from typing import Any

LAYERS = ("BertLayer", "ElectraLayer", "RobertaLayer", "XLMRobertaLayer")
"""Layers of ``transformers`` whose parts are named as BERT's."""


def shared_copy(network: Any) -> Any:
    """A copy whose modules can be replaced; the weights are those of the network, not copied."""
    return copy.deepcopy(network, {id(weights): weights for weights in network.parameters()})


def for_first_token(loaded: Any) -> Any:
    """The network of a loaded cross-encoder, its last layer cut to the first token where the scores stay the same.

    Args:
        loaded: of ``sentence-transformers``; stays as it is.
    """
    layers = getattr(getattr(getattr(loaded.model, "base_model", None), "encoder", None), "layer", None)
    if not layers or type(layers[-1]).__name__ not in LAYERS:
        return loaded.model
    cut = shared_copy(loaded.model)
    cut.base_model.encoder.layer[-1] = _first_token(layers[-1])
    return cut if _same_scores(cut, loaded) else loaded.model


def _same_scores(cut: Any, loaded: Any) -> bool:
    import torch

    with torch.inference_mode():
        try:
            for queries, texts in (["a", "b c d"], ["e", "f g"]), (["a b"], ["c d"]):  # with padding, and without, which has no mask
                batch = loaded.tokenizer(queries, texts, padding=True, return_tensors="pt").to(loaded.device)
                if not torch.allclose(cut(**batch).logits, loaded.model(**batch).logits, rtol=1e-4, atol=1e-6):
                    return False
            return True
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
