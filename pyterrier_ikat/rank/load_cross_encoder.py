"""A cross-encoder of ``sentence-transformers`` as it scores here: in single precision, before a sigmoid; what is none is refused."""

from collections.abc import Sequence
from typing import Any

from ..errors import UsageError, advice
from ..loading import load
from ..model_files import loaded_once
from .first_token import cut_to_first_token
from .token_batches import Features, can_be_cut, is_tensor, scores_of

PROBES = [("a", "b c d"), ("e f", "g"), ("", "h i, k l m? N o p."), ("q", "")]
"""Pairs that show how a model scores: of different lengths, some without a word."""
NEAR = 1e-4
"""Differences by which scores in batches of another size may differ: deep networks in single precision move by about a tenth of it."""
Pairs = Sequence[tuple[str, str]]


@loaded_once(size=5)
def load_cross_encoder(model: str, max_length: int) -> Any:
    """The loaded model of ``sentence-transformers``, in single precision; equal arguments share it.

    Its ``activation_fn`` is never a sigmoid, and its ``max_seq_length`` no more than its network has positions for.

    Raises:
        UsageError: when it can't be loaded or run, wasn't trained to score pairs, or gives more than one score per pair.
    """

    def make() -> Any:
        import torch
        from sentence_transformers import CrossEncoder as Model

        return Model(model, max_length=max_length, model_kwargs={"dtype": torch.float32}).float().eval()

    loaded = load("cross-encoder", model, make)
    _refuse_untrained(loaded, model)
    _without_sigmoid(loaded)
    loaded.max_seq_length = min([loaded.max_seq_length, *_positions(loaded)])
    _refuse_other_scores(loaded, model)
    cut_to_first_token(loaded.model, lambda: predicted(loaded, PROBES, batch_size=3))  # with padding, and without, which has no mask
    return loaded


@loaded_once(size=5)
def goes_in_batches(model: str, max_length: int) -> bool:
    """Whether batches of our own give the scores of ``sentence-transformers``."""
    loaded = load_cross_encoder(model, max_length)
    features = features_of(loaded, PROBES)
    if not can_be_cut(features):
        return False
    found, expected = scores_of(features, 16, lambda batch: scored(loaded, batch)), predicted(loaded, PROBES)
    return bool(abs(found - expected.double().cpu().numpy()).max() < NEAR * max(1, float(expected.abs().max())))


def predicted(loaded: Any, pairs: Pairs, batch_size: int = 32) -> Any:
    """The scores of the pairs as ``sentence-transformers`` gives them, a tensor."""
    return loaded.predict(list(pairs), batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)


def features_of(loaded: Any, pairs: Pairs) -> Features:
    """What the model reads of the pairs: its own template, prompt and tokens, all padded to the longest."""
    features: Features = loaded.preprocess(list(pairs), prompt=loaded.prompts.get(loaded.default_prompt_name))
    return features


def scored(loaded: Any, batch: Features) -> Any:
    """The scores of a batch, a tensor of one number per pair."""
    return loaded.activation_fn(loaded(_on_device(loaded, batch))["scores"].float()).flatten()


def _on_device(loaded: Any, batch: Features) -> dict[str, Any]:
    return {name: value.to(loaded.device, non_blocking=True) if is_tensor(value) else value for name, value in batch.items()}


def _refuse_untrained(loaded: Any, model: str) -> None:
    """Refuse what ``sentence-transformers`` turned into a cross-encoder by itself, unless the weights have a layer for the score."""
    if loaded.module_kwargs:  # its files name its modules: it was saved as a cross-encoder
        return
    made_as = next(iter(loaded.config.architectures or []), type(loaded.model).__name__)
    if len(loaded) > 1:
        raise UsageError(
            f"the model {model!r} is a {made_as} that isn't saved as a cross-encoder: nothing says which of its words stand for the score. "
            "Give a cross-encoder, or use this one as what it is, "
            + advice(
                "such as by ikat.BiEncoder, or as an LLM by ikat.Rerank", f"such as --reranker bi:{model}, or --llm hf:{model} with llama10"
            )
        )
    if missing := _missing_weights(loaded):
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"the model {model!r} is a {made_as}, whose layer for the score would be drawn by chance ({some}: not in its files): "
            "give a cross-encoder, or use this one as what it is, such as "
            + advice("by ikat.BiEncoder or ikat.MonoT5", f"--reranker bi:{model} or monot5:{model}")
        )


def _missing_weights(loaded: Any) -> list[str]:
    _, found = type(loaded.model).from_pretrained(loaded.model.name_or_path, config=loaded.config, output_loading_info=True)
    return sorted(found["missing_keys"])


def _without_sigmoid(loaded: Any) -> None:
    from torch.nn import Identity, Sigmoid

    if isinstance(loaded.activation_fn, Sigmoid):
        loaded.activation_fn = Identity()


def _positions(loaded: Any) -> list[int]:
    """How many tokens the network has an embedding of the position for; nothing where it tells positions in another way."""
    from torch.nn import Embedding

    tables = [getattr(part, "position_embeddings", None) for part in loaded.modules()]
    return [
        table.num_embeddings - (-1 if table.padding_idx is None else table.padding_idx) - 1
        for table in tables
        if isinstance(table, Embedding)
    ]


def _refuse_other_scores(loaded: Any, model: str) -> None:
    """Try the model; sentence-transformers has no other way to tell that it can't read pairs, or gives no score."""
    import torch

    try:
        with torch.inference_mode():
            found = loaded(_on_device(loaded, features_of(loaded, PROBES)))
    except Exception as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"the cross-encoder {model!r} can't score a pair: {why}") from error
    if "scores" not in found:
        raise UsageError(f"none of the modules of {model!r} gives a score: it is no cross-encoder")
    if (labels := found["scores"].numel() // len(PROBES)) != 1:
        raise UsageError(f"the model {model!r} gives {labels} scores per pair: a re-ranker gives one")
