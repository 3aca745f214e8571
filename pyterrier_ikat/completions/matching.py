"""Match the pieces of a completion with the statements of the persona. Pure functions: no model, no frame."""

import difflib
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .statements import EXCEPT, NONE, NUMBERED, score_in
from .texts import QUOTES

ALIKE = 0.9
"""The least similarity (difflib's ratio of the normalised texts) at which a copy counts as the statement."""


class Chosen(NamedTuple):
    """The statements that a completion chooses, and the pieces that were omitted or repaired.

    Attributes:
        statements: pairs of id and score, best first.
        dropped: the omitted or repaired pieces, in words.
    """

    statements: list[tuple[str, float]]
    dropped: list[str]


def choose(form: str, found: Sequence[Any], ptkb: Mapping[str, str]) -> Chosen:
    """Match parsed pieces with the persona.

    Args:
        form: ``"ids"``, ``"copies"`` or ``"scores"``.
        found: the result of ``read_ids``, ``read_copies`` or ``read_scores``.
        ptkb: the persona, id -> statement.

    Returns:
        Each statement once. ``ids`` and ``copies``: score 1 / position, in the model's order. ``scores``: the model's score from 0 to 1,
        best first; statements of score 0 are omitted. ``dropped`` lists pieces that name no statement, scores that were clipped or are not
        numbers, and says that a list never ends or that all statements are chosen because the answer copies the whole persona.

    Example:
        >>> choose("ids", ["2", "9"], {"1": "I am vegan.", "2": "I own a dog."})
        Chosen(statements=[('2', 1.0)], dropped=['no statement 9'])
        >>> choose("scores", [("1", 0.2), ("2", 1.5)], {"1": "I am vegan.", "2": "I own a dog."}).statements
        [('2', 1.0), ('1', 0.2)]
    """
    chosen, dropped = dict[str, float](), list[str]()
    for position, piece in enumerate(found, 1):
        label, value = piece if form == "scores" else (piece, 1 / (len(chosen) + 1))
        number, score = (match_copy if form == "copies" else match_label)(label, ptkb), _score(value)
        if number is None and form == "copies" and NONE.match(label) and not EXCEPT.search(label):
            dropped += [f"behind 'none': {later}" for later in found[position:] if match_copy(later, ptkb) not in (None, *chosen)]
            break
        if number is None or score is None:
            dropped.append(f"no statement {label}" if number is None else f"score {value!r} of statement {label}")
            continue
        if not 0 <= score <= 1:
            dropped.append(f"score {score} of statement {label}")
        chosen.setdefault(number, min(max(score, 0.0), 1.0))
    statements = sorted(((number, score) for number, score in chosen.items() if score), key=lambda pair: -pair[1])
    dropped += getattr(found, "told", [])
    if 1 < len(ptkb) == len(statements) and (form == "copies" or getattr(found, "copied", False)):
        dropped.append(f"nothing, but the answer copies the whole persona: all {len(ptkb)} statements are chosen")
    return Chosen(statements, dropped)


def match_label(label: str, ptkb: Mapping[str, str]) -> str | None:
    """The id that ``label`` means: the id itself, a text that starts with it or names it, or a copy of its statement."""
    label = label.strip().strip(QUOTES + "[]()#").strip()
    if label in ptkb:
        return label
    found = NUMBERED.match(label)
    return found[1] if found and found[1] in ptkb else match_copy(label, ptkb)


def match_copy(copy: str, ptkb: Mapping[str, str]) -> str | None:
    """The id of the statement that ``copy`` repeats: exactly, then normalised, then with a similarity of at least 0.9.

    Normalisation removes differences in letter case, punctuation, white space and numbering.

    Example:
        >>> match_copy("2) i own a DOG", {"1": "I am vegan.", "2": "I own a dog."})
        '2'
    """
    for number, statement in ptkb.items():
        if copy.strip() == statement.strip():
            return number
    forms = {normalised(copy), normalised(NUMBERED.sub("", copy))} - {""}
    known = {number: normalised(statement) for number, statement in ptkb.items()}
    alike = [(_similarity(form, statement), number) for form in sorted(forms) for number, statement in known.items()]
    best = max(alike, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= ALIKE else None


def _similarity(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    # The quick ratios are upper bounds; the real one takes seconds on long texts.
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE else 0.0


def normalised(text: str) -> str:
    """The words of a text in lower case, without punctuation, with a blank between them."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", text))


def _score(value: Any) -> float | None:
    value = score_in(value) if isinstance(value, dict) else value
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(score) else score
