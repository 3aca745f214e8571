"""The track's measures; a measure that needs a relevance level always shows it."""

from collections.abc import Iterable

import ir_measures
from ir_measures import AP, P, R, nDCG
from ir_measures.providers import Provider

from ..errors import UsageError

TRACK_2023 = (nDCG @ 3, nDCG @ 5, nDCG, P(rel=1) @ 20, R(rel=1) @ 20, R(rel=1) @ 1000, AP(rel=1))
"""nDCG with the labels 0-4 as linear gains; binary measures fit relevance >= 1, as in the track's overview."""

TRACK_2024 = TRACK_2023
"""The measures of the passage ranking of 2024, as in 2023 (De Lima and Yang, Passage Query Methods, Table 2)."""

_LARGEST, _LARGEST_GAIN = 2**31 - 1, 10**6


def label(measure: ir_measures.Measure) -> str:
    """The measure's name with its relevance level, also where ir_measures leaves the default out.

    Example:
        >>> from ir_measures import NumRet, R
        >>> label(R @ 20), label(R(rel=2) @ 20), label(NumRet)  # what was found, relevant or not
        ('R(rel=1)@20', 'R(rel=2)@20', 'NumRet')
    """
    text = str(measure)
    level = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else None
    if not isinstance(level, int) or "rel=" in text:
        return text
    name, _, cutoff = text.partition("@")
    name = f"{name[:-1]},rel={level})" if name.endswith(")") else f"{name}(rel={level})"
    return f"{name}@{cutoff}" if cutoff else name


def provider_of(measure: ir_measures.Measure) -> Provider | None:
    """The first of ir_measures' providers that knows the measure and is installed.

    Example:
        >>> from ir_measures import RR
        >>> provider_of(RR).NAME, provider_of(RR @ 10).NAME
        ('pytrec_eval', 'msmarco')
    """
    providers = ir_measures.DefaultPipeline.providers
    return next((one for one in providers if one.supports(measure) and one.is_available()), None)


def split_measures(text: str) -> list[str]:
    """The measures of a list with commas; those inside parentheses and braces do not separate.

    Example:
        >>> split_measures("nDCG@5, P(rel=2,judged_only=True)@20")
        ['nDCG@5', 'P(rel=2,judged_only=True)@20']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "({") - (character in ")}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def parse_measures(texts: Iterable[str]) -> list[ir_measures.Measure]:
    """Read measures by name, as ir_measures writes them.

    Raises:
        UsageError: when a name is unknown, or the measure is none that can be computed here.

    Example:
        >>> parse_measures(["nDCG@5", "P(rel=2)@20"])
        [nDCG@5, P(rel=2)@20]
    """
    return [_checked(_parsed(text), text) for text in texts]


def _parsed(text: str) -> ir_measures.Measure:
    try:
        return ir_measures.parse_measure(text)
    except (NameError, ValueError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"measure {text!r} is unknown: write it as ir_measures does, such as nDCG@5, P(rel=2)@20, R(rel=1)@1000, AP"
        ) from error


def _checked(measure: ir_measures.Measure, text: str) -> ir_measures.Measure:
    try:
        supported = provider_of(measure) is not None
    except AssertionError as error:
        raise _bad_parameter(text) from error
    _check_values(measure, text)
    if not supported:
        also = "give one of trec_eval's, such as nDCG@5, P(rel=2)@20, AP, or RR@10"
        raise UsageError(f"measure {text!r} can't be computed here{_missing(measure)}: {also}")
    return measure


def _check_values(measure: ir_measures.Measure, text: str) -> None:
    """Whether trec_eval takes the parameters' values for what they are: at others it ends our process, or gives 0."""
    cutoff, level, recall = (measure.params.get(name) for name in ("cutoff", "rel", "recall"))
    if cutoff is not None and not 1 <= cutoff <= _LARGEST:
        raise UsageError(f"measure {text!r} has the cutoff {cutoff}: give one from 1 on, such as {text.partition('@')[0]}@20")
    if level is not None and not 1 <= level <= _LARGEST:
        raise UsageError(f"measure {text!r} has the relevance level {level}: give the least label that counts as relevant, from 1 on")
    if recall is not None and not (0 <= recall <= 1 and recall == round(recall, 2)):
        raise UsageError(f"measure {text!r} has the recall {recall}: give one from 0 to 1 of two decimals, which are what trec_eval reads")
    for gain in (measure.params.get("gains") or {}).values():
        if type(gain) is not int or abs(gain) > _LARGEST_GAIN:
            raise UsageError(f"measure {text!r} has the gain {gain!r}: give whole numbers of at most {_LARGEST_GAIN}")


def _missing(measure: ir_measures.Measure) -> str:
    """What would compute it, were it installed."""
    able = [one for one in ir_measures.DefaultPipeline.providers if one.supports(measure)]
    hints = [one.install_instructions() or one.NAME for one in able]
    return f" (it needs {' or '.join(hints)})" if hints else ""


def _name(measure: ir_measures.Measure) -> str:
    known = measure.params.keys() <= measure.SUPPORTED_PARAMS.keys()  # ir_measures can't print another one
    return label(measure) if known else str(measure.NAME)


def _bad_parameter(text: str) -> UsageError:
    name = text.partition("@")[0]
    return UsageError(
        f"measure {text!r} has no cutoff, or a parameter that is unknown or of a wrong kind: "
        f"write it as ir_measures does, such as {name}@20"
    )


def as_measures(measures: Iterable[ir_measures.Measure | str] | ir_measures.Measure | str) -> list[ir_measures.Measure]:
    """Measures given as objects or by name, each once.

    Raises:
        UsageError: when a name is unknown, a measure can't be computed here, or there is none.

    Example:
        >>> from ir_measures import nDCG
        >>> as_measures(["nDCG@5", nDCG @ 5, "R@20"])
        [nDCG@5, R@20]
    """
    given = [measures] if isinstance(measures, str | ir_measures.Measure) else list(measures)
    found = [parse_measures([one])[0] if isinstance(one, str) else _checked(one, _name(one)) for one in given]
    if not found:
        raise UsageError("there is no measure: give some, such as [nDCG @ 5] or TRACK_2024")
    named: dict[str, ir_measures.Measure] = {}
    for measure in found:
        named.setdefault(label(measure), measure)
    return list(named.values())
