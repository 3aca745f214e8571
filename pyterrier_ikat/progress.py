"""Progress bars: one at a time, none where the output is no terminal, none of libraries that load a model."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import ReferenceType, ref

from tqdm.auto import tqdm

_within: ContextVar[str] = ContextVar("within", default="")
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)
_shown: ReferenceType[Any] | None = None
_gives_way = False
ASKED = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The user asks for the bars of model loading by setting this variable to 0."""


def bar(iterable: Iterable[Any] | None = None, *, desc: str, disable: bool = False, gives_way: bool = False, **more: Any) -> Any:
    """A tqdm bar, which is removed when it is done; silent while another one is shown.

    Args:
        iterable: what is counted.
        desc: what is done.
        disable: show nothing.
        gives_way: a bar that is opened later replaces this one.
        **more: other arguments of tqdm.

    Example:
        >>> list(bar([1, 2], desc="counting"))
        [1, 2]
    """
    global _shown, _gives_way
    last = None if _shown is None else _shown()
    disable = disable or _hidden.get()
    taken = last is not None and not last.disable
    if last is not None and taken and _gives_way and not disable:
        last.close()
        taken = False
    made = tqdm(iterable, desc=f"{_within.get()}{desc}", disable=True if disable or taken else None, leave=False, **more)
    if not made.disable:
        _shown, _gives_way = ref(made), gives_way
    return made


@contextmanager
def within(name: str) -> Iterator[None]:
    """Bars that are opened in the block begin with ``name``."""
    before = _within.set(f"{name}: ")
    try:
        yield
    finally:
        _within.reset(before)


@contextmanager
def without_bars() -> Iterator[None]:
    """No bar is shown in the block, because another line says what is done."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


@contextmanager
def without_loading_bars() -> Iterator[None]:
    """While the block runs, transformers and huggingface_hub show no bars, unless the user asks for them (``ASKED``)."""
    if os.environ.get(ASKED) == "0" or find_spec("transformers") is None:
        yield
        return
    logging: Any = import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
