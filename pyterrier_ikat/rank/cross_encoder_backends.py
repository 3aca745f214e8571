"""The backends that compute a cross-encoder's scores: torch in single precision or bfloat16, OpenVINO in bfloat16."""

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..errors import UsageError
from ..store.models import load, loaded_once
from .load_cross_encoder import (
    PROBES,
    Features,
    cut_features,
    features_of,
    goes_in_batches,
    is_tensor,
    load_cross_encoder,
    predict_scores,
    score_batch,
    scores_of,
)
from .reranker import Floats

logger = logging.getLogger(__name__)
BACKENDS = ("fp32", "bf16", "openvino")
TOKENS_ON_CPU, TOKENS_ON_GPU = 2048, 65_536
LEAST_TOKENS = 512
"""The minimum number of tokens per batch if each core works on its own batch."""
Score = Callable[[Iterable[Features]], Iterable[Any]]
"""Returns the scores of each batch, as a tensor of one number per pair."""


def score_pairs(model: str, max_length: int, backend: str, batch_tokens: int | None, pairs: Sequence[tuple[str, str]]) -> Floats:
    """The scores of (query, text) pairs, in their order.

    Args:
        model: a name on the Hugging Face hub, or a folder.
        max_length: the maximum number of tokens per pair.
        backend: one of ``BACKENDS``.
        batch_tokens: see :func:`scores_of`. None chooses a value that suits the device.
        pairs: the pairs to score.

    Raises:
        UsageError: when the model can't be loaded, or the backend can't run it.
    """
    loaded = load_cross_encoder(model, max_length)
    if backend == "fp32" and not goes_in_batches(model, max_length):
        return np.asarray(predict_scores(loaded, pairs).double().cpu().numpy())
    score, features = load_scorer(model, max_length, backend), features_of(loaded, pairs)
    return scores_of(features, batch_tokens or _suitable_tokens(loaded, features, backend), score)


def _suitable_tokens(loaded: Any, features: Features, backend: str) -> int:
    """The number of tokens per batch for the device. If each core works on its own batch, a few pairs are divided among the cores."""
    import torch

    if loaded.device.type != "cpu":
        return TOKENS_ON_GPU
    if backend != "openvino":
        return TOKENS_ON_CPU
    tokens = int(features["attention_mask"].sum()) // torch.get_num_threads()
    return min(max(tokens, LEAST_TOKENS), TOKENS_ON_CPU)


def openvino_runs() -> bool:
    """Whether cross-encoders run with OpenVINO in bfloat16 here: it is installed, the processor has bfloat16, and no GPU is used."""
    if find_spec("openvino") is None or find_spec("torch") is None:
        return False
    import torch

    with _without_telemetry():
        import openvino

    on_gpu = getattr(torch, "accelerator", torch.cuda).is_available()
    return not on_gpu and "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


@loaded_once(size=10)
def openvino_or_fp32(model: str, max_length: int) -> str:
    """``"openvino"``, or ``"fp32"`` for a model that OpenVINO can't run.

    Raises:
        UsageError: when the model can't be loaded, or OpenVINO can't run any model here.
    """
    if not openvino_runs():
        raise UsageError(
            "backend='auto' stands for OpenVINO in bfloat16 where it was made, and OpenVINO doesn't run so here: "
            + f"install openvino on every machine that has such a processor and no GPU, or name one of {', '.join(BACKENDS)}"
        )
    load_cross_encoder(model, max_length)
    try:
        load_scorer(model, max_length, "openvino")
    except UsageError as error:
        logger.info("%s runs with fp32: %s", model, error)
        return "fp32"
    return "openvino"


@loaded_once(size=10)
def load_scorer(model: str, max_length: int, backend: str) -> Score:
    """The function that computes the scores of batches.

    Raises:
        UsageError: when the backend can't run the model.
    """
    loaded = load_cross_encoder(model, max_length)
    if backend == "fp32":
        return partial(map, partial(score_batch, loaded))
    if backend == "openvino" and find_spec("openvino") is None:
        raise UsageError("backend='openvino' needs openvino: pip install 'pyterrier_ikat[openvino]'")
    if not goes_in_batches(model, max_length):
        raise UsageError(f"backend={backend!r} can't run {model!r}, whose scores depend on the batch: take backend='fp32'")
    head = _head(loaded)
    if backend == "openvino":
        if loaded.get_submodule(head).out_features != 1:
            raise UsageError(
                f"backend='openvino' can't run {model!r}, which scores by the words of a language model: take 'fp32' or 'bf16'"
            )
        return load("OpenVINO form of the cross-encoder", model, lambda: _openvino(loaded, head))
    return partial(map, _bf16(loaded, loaded.get_submodule(head)))


def _head(loaded: Any) -> str:
    """The name of the layer that computes the score. This layer works in single precision.

    A score in bfloat16 has three digits, so many passages would tie.
    """
    from torch.nn import Linear

    of_words = loaded.model.get_output_embeddings() if hasattr(loaded.model, "get_output_embeddings") else None
    linear = {name: layer for name, layer in loaded.named_modules() if isinstance(layer, Linear)}
    names: list[str] = [name for name, layer in linear.items() if layer.out_features == 1 or layer is of_words]
    if not names:
        raise UsageError(f"{type(loaded.model).__name__} has no layer of its own for the score: take backend='fp32'")
    return names[-1]


def _bf16(loaded: Any, head: Any) -> Callable[[Features], Any]:
    """Products in bfloat16, sums and norms in single precision. This is as fast as pure bfloat16, with a third less deviation from fp32."""
    import torch

    def exact(layer: Any, given: tuple[Any, ...], _: Any) -> Any:
        with torch.autocast(loaded.device.type, enabled=False):
            return torch.nn.functional.linear(given[0].float(), layer.weight, layer.bias)

    def score(batch: Features) -> Any:
        hook = head.register_forward_hook(exact)
        try:
            with torch.autocast(loaded.device.type, torch.bfloat16):
                return score_batch(loaded, batch)
        finally:
            hook.remove()

    return score


def _openvino(loaded: Any, head: str) -> Score:
    """Each core works on its own batch, because cores that share a batch wait for each other at each layer. The scores are the same."""
    import torch

    with _without_telemetry():
        import openvino

    for part in loaded.modules():
        part.loss_type = "ForSequenceClassification"  # tracing needs it, and without it transformers logs a warning
    example = features_of(loaded, PROBES)
    names = [name for name, value in example.items() if is_tensor(value)]
    layer = loaded.get_submodule(head)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # tracing warns about each branch that it fixes
        expected = loaded(dict(example))["scores"]
        loaded.set_submodule(head, torch.nn.Identity())
        try:
            body, tensors = _by_position(loaded, example, names), tuple(example[name] for name in names)
            if not torch.allclose(layer(body(*tensors)), expected, rtol=1e-4, atol=1e-5):
                raise ValueError(f"{head}, which gives the score, is not its last layer")
            with _without_telemetry():
                converted = openvino.convert_model(body, example_input=tensors)
        finally:
            loaded.set_submodule(head, layer)
    cores = torch.get_num_threads()
    settings = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": cores, "NUM_STREAMS": cores}
    compiled = openvino.compile_model(converted, "CPU", settings)

    def run(batches: Iterable[Features]) -> list[Any]:
        found: dict[int, Any] = {}
        queue = openvino.AsyncInferQueue(compiled, cores)
        queue.set_callback(lambda request, number: found.update({number: request.get_output_tensor(0).data.copy()}))
        for number, batch in enumerate(batches):
            queue.start_async([batch[name].numpy() for name in names], number)
        queue.wait_all()
        return [loaded.activation_fn(layer(torch.from_numpy(found[number]))).flatten() for number in range(len(found))]

    return partial(_without_padding_where_needed, run)


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Switch off OpenVINO's telemetry: it reports its import and each model to its makers without asking, except in a test system."""
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CI"]
        else:
            os.environ["CI"] = before


def _without_padding_where_needed(run: Callable[[Iterable[Features]], list[Any]], batches: Iterable[Features]) -> Iterable[Any]:
    """The scores of batches. If a pair has no score in a batch with longer pairs, it is computed again without padding.

    In a network whose layers look at a window (ModernBERT), a padding token may see only padding. Then it has no value in OpenVINO, and a
    mean over the tokens has no value either.
    """
    import torch

    given = list(batches)
    found = run(given)
    for scores, batch in zip(found, given, strict=True):
        lengths = batch["attention_mask"].sum(1)
        odd = ~torch.isfinite(scores) & (lengths < batch["attention_mask"].shape[1])
        alike = [torch.nonzero(odd & (lengths == length)).flatten() for length in lengths[odd].unique()]
        for places, again in zip(alike, run(cut_features(batch, places) for places in alike), strict=True):
            scores[places] = again
    return found


def _by_position(loaded: Any, example: Features, names: Sequence[str]) -> Any:
    """The model as a module whose positional arguments are the tensors with these names."""
    import torch

    class ByPosition(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.loaded = loaded

        def forward(self, *tensors: Any) -> Any:
            return self.loaded({**example, **dict(zip(names, tensors, strict=True))})["scores"]

    return ByPosition().eval()
