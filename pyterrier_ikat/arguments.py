"""Arguments are checked against the signature where they are given, so that a wrong type is not a bare error much later."""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from .errors import UsageError, did_you_mean

MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
Made = TypeVar("Made", bound=Callable[..., Any])

Kind = tuple[str, Callable[[Any], bool]]
"""What a type is called in messages, and its check."""

KINDS: Mapping[Any, Kind] = {
    bool: ("True or False", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)),
    str: ("a text", lambda value: isinstance(value, str | os.PathLike)),
    Path: ("a path", lambda value: isinstance(value, os.PathLike)),
    NoneType: ("None", lambda value: value is None),
    Mapping: ("a dict", lambda value: isinstance(value, Mapping)),
}
"""Type in a signature -> its name in messages, and its check. Other types are checked by the function that takes them."""

CLASSES = {"Transformer": "a PyTerrier transformer", "DataFrame": "a DataFrame"}
"""The same for classes by their names, so that nothing is imported for them."""

EXAMPLES: Mapping[str, str] = {
    "system": 'a pipeline; ikat.live.chat.open_chat("rtg", llm=..., index=...) opens a chat with a method by its name',
    "runs": 'each frame its name, {"name": frame, ...}',
    "run": "a frame, such as read_run(path)",
    "qrels": 'a frame, such as pt.get_dataset("ikat:2023").get_qrels() or read_qrels(path)',
}
"""Argument -> advice in messages, where the name of the type would not say where to get such a value."""


def checked(function: Made) -> Made:
    """The function with a check that refuses arguments of another type than its signature says.

    Raises:
        UsageError: when the function is called with such an argument; the message names it and the type to give.

    Example:
        >>> @checked
        ... def cut(depth: int | None = 10): ...
        >>> cut("5")
        Traceback (most recent call last):
        pyterrier_ikat.errors.UsageError: depth='5': give a whole number or None
    """
    signature = inspect.signature(function)
    kinds = {name: _checks(one.annotation) for name, one in signature.parameters.items() if one.kind not in MANY}
    ordered = "dataset" in kinds and ("topics" in kinds or "qrels" in kinds)

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        args, options = _native(args), {name: _native(value) for name, value in options.items()}
        if ordered:
            _check_order(signature, args, options)
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise _wrong_call(function, signature, args, options, error) from None
        for name, value in bound.arguments.items():
            if kinds.get(name):
                _check(name, value, kinds[name])
        return function(*args, **options)

    return run  # type: ignore[return-value]


def _wrong_call(function: Any, signature: inspect.Signature, args: Any, options: Any, error: TypeError) -> UsageError:
    """What is wrong with the names or the number of arguments: whose they are, and what it takes."""
    of_class = function.__name__ == "__init__"
    called = type(args[0]).__name__ if of_class and args else function.__name__
    parameters = list(signature.parameters.values())[of_class:]
    known = [one.name for one in parameters if one.kind not in MANY]
    by_name = next((place for place, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    shown = list(map(_shown, parameters))
    if by_name is not None and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        shown.insert(by_name, "by name")
    takes = f"it takes {', '.join(shown) or 'nothing'}".replace("by name, ", "and by name ")
    unknown = [name for name in options if name not in known]
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        near = did_you_mean(unknown[0], known)
        return UsageError(f"{called} has no argument {unknown[0]}: {near}{' ' * bool(near)}{takes}")
    by_place = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    given = {*by_place[: len(args) - of_class], *options}
    lacking = [one.name for one in parameters if one.default is one.empty and one.kind not in MANY and one.name not in given]
    if lacking and "missing" in str(error):
        return UsageError(f"{called} lacks {', '.join(lacking)}: {takes}")
    return UsageError(f"{called} can't be called so ({error}): {takes}")


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.kind in MANY:
        return str(parameter).partition(":")[0]
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def _check_order(signature: inspect.Signature, args: Any, options: Any) -> None:
    """Refuse frames in the order of ``pt.Experiment``, whose second and third argument are topics and judgements."""
    names = [name for name in ("topics", "qrels") if name in signature.parameters]
    frames = [type(value).__name__ == "DataFrame" for value in (*args[1:3], *([options["dataset"]] if "dataset" in options else []))]
    if all(frames[:1]) and frames and (len(frames) > 1 or "DataFrame" not in str(signature.parameters["dataset"].annotation)):
        raise UsageError(f"the topics and judgements of pt.Experiment have names here: give {', '.join(f'{name}=FRAME' for name in names)}")


def at_least(least: int, **numbers: int | None) -> None:
    """Check that no given number is below ``least``.

    Raises:
        UsageError: when one is.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise UsageError(f"{name}={number!r}: give {least} or more")


def one_of(choices: Iterable[str | None], **values: Any) -> None:
    """Check that each of the values is one of ``choices``.

    Raises:
        UsageError: when one isn't; it lists them.
    """
    for name, value in values.items():
        if value not in (known := list(choices)):
            raise UsageError(f"{name}={value!r} is unknown: choose one of {', '.join(map(str, known))}")


def _native(value: Any) -> Any:
    """A NumPy number as a Python number, also inside lists and tuples, so that it can be stored and its repr can be pasted back."""
    if type(value).__module__ == "numpy" and value.ndim == 0:
        return value.item()
    return type(value)(map(_native, value)) if type(value) in (list, tuple) else value


def _check(name: str, value: Any, kinds: list[Kind]) -> None:
    for _, holds in kinds:
        if holds(value):
            return
    wanted = EXAMPLES.get(name) or " or ".join(kind[0] for kind in kinds)
    raise UsageError(f"{name}={' '.join(repr(value).split())[:80]}: give {wanted}")


def _checks(annotation: Any) -> list[Kind]:
    """The checks of a parameter's types, one of which has to hold; none where a type among them has no check here."""
    found = [_known(kind) for kind in _kinds(annotation)]
    known = [kind for kind in found if kind is not None]
    return known if len(known) == len(found) else []


def _known(kind: Any) -> Kind | None:
    named = CLASSES.get(getattr(kind, "__name__", ""))
    return KINDS.get(kind) or (None if named is None else (named, lambda value: isinstance(value, kind)))


def _kinds(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    elif annotation is not inspect.Parameter.empty:
        yield get_origin(annotation) or (NoneType if annotation is None else annotation)
