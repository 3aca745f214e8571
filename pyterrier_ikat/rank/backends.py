"""What a cross-encoder's scores can be worked out with: torch in single precision or bfloat16, OpenVINO in bfloat16."""

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from ..errors import UsageError
from ..loading import load
from ..model_files import loaded_once
from .first_token import for_first_token, shared_copy
from .scoring import Floats
from .token_batches import Batch, scores_of

BACKENDS = ("fp32", "bf16", "openvino")
TOKENS_ON_CPU, TOKENS_ON_GPU = 2048, 65_536


@loaded_once(size=5)
def load_cross_encoder(model: str, max_length: int) -> Any:
    """The loaded model of ``sentence-transformers``, in single precision; equal arguments share it.

    Raises:
        UsageError: when it can't be loaded, wasn't trained to score pairs, or gives more than one score per pair.
    """

    def make() -> Any:
        from sentence_transformers import CrossEncoder as Model
        from torch.nn import Identity

        return Model(model, max_length=max_length, activation_fn=Identity()).float().eval()

    loaded = load("cross-encoder", model, make)
    made_as = loaded.config.architectures or []
    if made_as and not any(name.endswith("ForSequenceClassification") for name in made_as):
        raise UsageError(
            f"the model {model!r} is a {made_as[0]}, whose layer for the score would be drawn by chance: "
            "give a cross-encoder, or use this one by the operator of its kind, such as ikat.BiEncoder"
        )
    labels = loaded.config.num_labels
    if labels != 1:
        raise UsageError(f"the model {model!r} gives {labels} scores per pair: a re-ranker gives one")
    return loaded


def score_pairs(model: str, max_length: int, backend: str, batch_tokens: int | None, pairs: Sequence[tuple[str, str]]) -> Floats:
    """The scores of (query, text) pairs, in their order.

    Args:
        model: a name of the Hugging Face hub, or a folder.
        max_length: tokens of a pair at most.
        backend: one of ``BACKENDS``.
        batch_tokens: as of :func:`scores_of`; None for as many as suit the device.
        pairs: what to score.

    Raises:
        UsageError: when the model can't be loaded, or the backend can't run it.
    """
    loaded = load_cross_encoder(model, max_length)
    most = batch_tokens or (TOKENS_ON_CPU if loaded.device.type == "cpu" else TOKENS_ON_GPU)
    return scores_of(pairs, loaded.tokenizer, max_length, most, load_logits(model, max_length, backend))


def usable(model: str, max_length: int) -> list[str]:
    """The backends that this machine can do fast."""
    on_cpu = load_cross_encoder(model, max_length).device.type == "cpu"
    found = ["fp32"]
    if _bf16_on_cpu() if on_cpu else _bf16_on_gpu():
        found.append("bf16")
    if on_cpu and find_spec("openvino") and "BF16" in _openvino_capabilities():
        found.append("openvino")
    return found


@loaded_once(size=10)
def load_logits(model: str, max_length: int, backend: str) -> Callable[[Batch], Any]:
    """What gives a batch's scores, as a tensor of one number per pair.

    Raises:
        UsageError: when the backend can't run the model.
    """
    loaded = load_cross_encoder(model, max_length)
    if backend == "openvino":
        if find_spec("openvino") is None:
            raise UsageError("backend='openvino' needs openvino: pip install 'pyterrier_ikat[openvino]'")
        return load("OpenVINO form of the cross-encoder", model, lambda: _openvino(loaded))
    network = for_first_token(loaded)
    if backend == "bf16":
        return _bf16(*_split(network))
    return lambda batch: network(**_on(loaded.device, batch)).logits[:, 0]


def _split(network: Any) -> tuple[Any, Any]:
    """A copy of the network that stops before the layer which gives the score, and that layer.

    A score in bfloat16 has three digits, so that many passages would share one; the layer works in single precision.
    """
    from torch.nn import Identity, Linear

    names = [name for name, layer in network.named_modules() if isinstance(layer, Linear) and layer.out_features == 1]
    if not names:
        raise UsageError(f"{type(network).__name__} has no layer of its own for the score: take backend='fp32'")
    body = shared_copy(network)
    of, _, name = names[-1].rpartition(".")
    setattr(body.get_submodule(of), name, Identity())
    return body, network.get_submodule(names[-1])


def _bf16(body: Any, head: Any) -> Callable[[Batch], Any]:
    """Products in bfloat16, sums and norms in single precision: as fast as bfloat16 throughout, and a third nearer to single precision."""
    import torch

    def logits(batch: Batch) -> Any:
        with torch.autocast(body.device.type, torch.bfloat16):
            features = body(**_on(body.device, batch)).logits
        return head(features.float())[:, 0]

    return logits


def _on(device: Any, batch: Batch) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


def _openvino(loaded: Any) -> Callable[[Batch], Any]:
    import openvino
    import torch

    body, head = _split(for_first_token(loaded))
    for part in body.modules():
        part.loss_type = "ForSequenceClassification"  # tracing asks for it, and without it transformers logs a warning
    example = dict(loaded.tokenizer(["a", "a"], ["b", "b c"], padding=True, return_tensors="pt"))
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # tracing says which branches it takes for good
        converted = openvino.convert_model(_by_position(body, list(example)), example_input=tuple(example.values()))
    settings = {"INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.compile_model(converted, "CPU", settings)

    def logits(batch: Batch) -> Any:
        features = torch.from_numpy(compiled([batch[name].numpy() for name in example])[0])
        return head(features)[:, 0]

    return logits


def _by_position(network: Any, names: Sequence[str]) -> Any:
    """The network as a module whose arguments are those of the tokenizer in their order."""
    import torch

    class ByPosition(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *tensors: Any) -> Any:
            return self.network(**dict(zip(names, tensors, strict=True))).logits

    return ByPosition().eval()


def _bf16_on_cpu() -> bool:
    import torch

    return any(getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))


def _bf16_on_gpu() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported()


def _openvino_capabilities() -> list[str]:
    import openvino

    return list(openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
