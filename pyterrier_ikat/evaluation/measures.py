"""The track's measures. A measure that needs a relevance level always shows it."""

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import ir_measures
import ir_measures.util
from ir_measures import AP, P, R, nDCG
from ir_measures.providers import Provider

from ..errors import UsageError, did_you_mean, list_first

TRACK_2023 = (nDCG @ 3, nDCG @ 5, nDCG, P(rel=1) @ 20, R(rel=1) @ 20, R(rel=1) @ 1000, AP(rel=1))
"""nDCG with the labels 0-4 as linear gains, and binary measures with relevance >= 1, as in the track's overview."""

TRACK_2024 = TRACK_2023
"""The measures of the passage ranking of 2024, as in 2023 (De Lima and Yang, Passage Query Methods, Table 2)."""


def _value(node: ast.expr) -> Any:
    """A parameter's value in a measure's name: a number, a text, True, False, None, or a dict of these."""
    if not isinstance(node, ast.Constant | ast.Dict):
        raise ValueError("a value is a number, a text, True, False, None or a dict of these")
    return ast.literal_eval(node)


# ir_measures 0.4 reads values with ast's classes Num and Str. Python 3.14 doesn't have them, and 3.12 warns of them.
ir_measures.util._ast_to_value = _value


def label(measure: ir_measures.Measure) -> str:
    """The measure's name with its relevance level, even if ir_measures omits the default.

    Example:
        >>> from ir_measures import NumRet, R
        >>> label(R @ 20), label(R(rel=2) @ 20), label(NumRet)  # all passages found, relevant or not
        ('R(rel=1)@20', 'R(rel=2)@20', 'NumRet')
    """
    if not measure.params.keys() <= measure.SUPPORTED_PARAMS.keys():
        return str(measure.NAME)  # ir_measures can't print it
    text = str(measure)
    level = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else None
    if not isinstance(level, int) or "rel=" in text:
        return text
    name, _, cutoff = text.partition("@")
    name = f"{name[:-1]},rel={level})" if name.endswith(")") else f"{name}(rel={level})"
    return f"{name}@{cutoff}" if cutoff else name


BY_SESSION = " by session"


class BySession(ir_measures.Measure):
    """A measure of sessions, by its name such as ``"Success@5 by session"``: a passage ``D1:3`` is turn 3 of session ``D1``.

    A session has the score of its best turn, and the highest label of its turns. A passage without a colon is a session of its own.

    Attributes:
        of: the measure of the sessions.
    """

    def __init__(self, of: ir_measures.Measure) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of, self.NAME = of, label(of) + BY_SESSION

    def __repr__(self) -> str:
        return str(self.NAME)


def provider_of(measure: ir_measures.Measure) -> Provider | None:
    """The first of ir_measures' providers that knows the measure and is installed.

    Example:
        >>> from ir_measures import RR
        >>> provider_of(RR).NAME, provider_of(RR @ 10).NAME
        ('pytrec_eval', 'msmarco')
    """
    providers: list[Provider] = ir_measures.DefaultPipeline.providers
    return next((one for one in providers if one.supports(measure) and one.is_available()), None)


def is_own(measure: ir_measures.Measure) -> bool:
    """Whether a measure is the user's own (:func:`ir_measures.define`), so that its name doesn't say what it computes."""
    return provider_of(measure) is ir_measures.runtime


def as_measures(measures: Iterable[ir_measures.Measure | str] | ir_measures.Measure | str) -> list[ir_measures.Measure]:
    """Measures given as objects, by name, or as one text with commas, each once. ``FILE.py:NAME`` is a measure in a user's file.

    ``Success@5 by session`` is a measure of sessions, see :class:`BySession`.

    Raises:
        UsageError: when a name is unknown, a measure can't be computed here, or there is none.

    Example:
        >>> from ir_measures import nDCG
        >>> as_measures(["nDCG@5", nDCG @ 5, "R@20"])
        [nDCG@5, R@20]
        >>> as_measures("nDCG@5, P(rel=2,judged_only=True)@20")
        [nDCG@5, P(rel=2,judged_only=True)@20]
    """
    if isinstance(measures, str):
        measures = [text.strip() for text in re.split(r",(?![^({]*[)}])", measures)]  # commas within parentheses or braces don't separate
    found: dict[str, ir_measures.Measure] = {}
    for one in [measures] if isinstance(measures, ir_measures.Measure) else measures:
        measure = _checked(one)
        found[label(measure)] = measure
    if not found:
        raise UsageError("there is no measure: give some, such as [nDCG @ 5] or TRACK_2024")
    return list(found.values())


def computable(names: Iterable[str]) -> Iterator[ir_measures.Measure]:
    """The measures with these names. A name that can't be computed here is omitted.

    Example:
        >>> list(computable(["nDCG@5", "a measure of mine"]))
        [nDCG@5]
    """
    for name in names:
        with suppress(UsageError):
            yield from as_measures([name])


FORM = "write it as ir_measures does, such as nDCG@5, P(rel=2)@20, R(rel=1)@1000, AP"


def _checked(given: ir_measures.Measure | str) -> ir_measures.Measure:
    text = given if isinstance(given, str) else label(given)
    path, _, name = text.rpartition(":")
    if text.endswith(BY_SESSION):
        return BySession(_checked(text.removesuffix(BY_SESSION)))
    if path.endswith(".py"):
        return _in_file(path, name)
    try:
        measure = ir_measures.parse_measure(given) if isinstance(given, str) else given
    except (NameError, ValueError, TypeError, SyntaxError):
        raise UsageError(f"measure {text!r} is unknown: {_meant(text)}{FORM}") from None
    try:
        able = [one for one in ir_measures.DefaultPipeline.providers if one.supports(measure)]
    except AssertionError:
        raise UsageError(f"measure {text!r} has no cutoff, or a parameter that is unknown or of a wrong kind: {FORM}") from None
    _check_values(measure, text)
    if not any(one.is_available() for one in able):
        needs = " or ".join(one.install_instructions() or one.NAME for one in able)
        raise UsageError(f"measure {text!r} can't be computed here{f' (it needs {needs})' if able else ''}: {FORM}")
    return measure


def _in_file(path: str, name: str) -> ir_measures.Measure:
    """A measure in a user's file: one of ir_measures, or a function that returns a score for a turn's judgements and passages."""
    from ..store.models import load_python

    value = getattr(load_python(path, "a measure"), name, None)
    if isinstance(value, ir_measures.Measure):
        return _checked(value)
    if not callable(value):
        raise UsageError(f"{path} has no measure {name}: write a function {name}(qrels, run) that returns the score of a turn")
    own: ir_measures.Measure = ir_measures.define_byquery(value, name=name)
    return own


def _meant(text: str) -> str:
    """The measure that a mistyped name probably means, with the text after the name, as a question."""
    with suppress(ValueError):
        meant = ir_measures.parse_trec_measure(text)  # trec_eval's name, which PyTerrier takes as well
        return f"did you mean {list_first([label(one) for one in meant], 3)}? "
    name, rest = re.fullmatch(r"([^(@]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    near = did_you_mean(name, ir_measures.measures.registry)
    return f"{near[:-1]}{rest}? " if near else ""


def _check_values(measure: ir_measures.Measure, text: str) -> None:
    """Check the parameters that trec_eval would read as others, or that end our process."""
    given, has = measure.params, f"measure {text!r} has the"
    if given.get("cutoff", 1) < 1:
        raise UsageError(f"{has} cutoff {given['cutoff']}: give one from 1 on, such as {text.partition('@')[0]}@20")
    if given.get("rel", 1) < 1:
        raise UsageError(f"{has} relevance level {given['rel']}: give the least label that counts as relevant, from 1 on")
    if not (0 <= (recall := given.get("recall", 0)) <= 1 and recall == round(recall, 2)):  # trec_eval gives 0
        raise UsageError(f"{has} recall {recall}: give one from 0 to 1 with two decimals, which is what trec_eval reads")
    if odd := [gain for gain in given.get("gains", {}).values() if type(gain) is not int]:
        raise UsageError(f"{has} gain {odd[0]!r}: trec_eval reads whole numbers")
