"""Chosen statements: parsers of ids, copies or scores, and what they choose of the persona. Pure functions: no model, no frame."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, NamedTuple

from .json_answers import OPENING, json_values, value_at
from .signs import QUOTES, plain_signs
from .statement_numbers import (
    ENDLESS,
    EXCEPT,
    NONE,
    NUMBERED,
    SCORE_KEYS,
    Found,
    is_one,
    label_of,
    not_denied,
    read_ids,
    says_none,
)
from .usable import FENCE, own_turn, usable_text

__all__ = [
    "ALIKE",
    "Chosen",
    "choose",
    "match_copy",
    "match_label",
    "normalised",
    "read_copies",
    "read_ids",
    "read_scores",
    "score_in",
]


def read_copies(text: str) -> Found | None:
    r"""The copied statements in a completion: one per line, numbered, bulleted, quoted, or a JSON list of texts that comes first.

    Returns:
        The copies with their numbers. A line such as "None" counts as a copy, because a statement
        may begin like that. Empty for an empty JSON list; ``None`` if the completion has no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = FENCE.sub("", own_turn(usable_text(text))).strip()
    values = (
        list(value.values())
        if isinstance(value, dict) and all(map(str.isdecimal, value))
        else value
        for value in json_values(text)
    )
    first = next((value for value in values if isinstance(value, list) or not value), None)
    if (
        first is not None
        and all(isinstance(item, str) for item in first)
        and "\n" not in OPENING.split(text)[0].strip()
    ):
        return Found(first)
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    cut_off = first is None and OPENING.match(text)
    return (
        Found(line for line in not_denied(lines) if not line.endswith(":"))
        if lines and not cut_off
        else None
    )


def read_scores(text: str) -> Found | None:
    """The scores in a completion: the first JSON object id -> score, or JSON objects with an id and a score, fenced or in prose.

    Returns:
        Pairs of an id and the value given as its score, in the completion's order. Empty if no
        statement is relevant; ``None`` for prose.

    Example:
        >>> read_scores('Sure: {"3": 0.9, "7": 0.4}'), read_scores("{}"), read_scores("Statement 3 matters.")
        ([('3', 0.9), ('7', 0.4)], [], None)
    """
    text = own_turn(usable_text(text))
    if says_none(text):
        return Found()
    values = [
        value
        for value in json_values(text)
        if isinstance(value, dict) or not value or any(isinstance(item, dict) for item in value)
    ]
    if not values:
        return None
    opening = OPENING.search(text)
    cut = opening is not None and value_at(text, opening.start())[1] is None
    return Found(_pairs(list(takewhile(is_one, values)) or values[:1]), [ENDLESS] * cut)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Ids and scores of an object about one statement, of an object id -> score, or of the only list or object inside."""
    if isinstance(value, list):
        return [pair for item in value if isinstance(item, list | dict) for pair in _pairs(item)]
    if is_one(value):
        return [(label_of(value), score_in(value))]
    inner = [
        part
        for part in value.values()
        if isinstance(part, list) or (isinstance(part, dict) and score_in(part) is None)
    ]
    single = len(inner) == 1 and not any(isinstance(part, int | float) for part in value.values())
    return _pairs(inner[0]) if single else [(str(key), score) for key, score in value.items()]


def score_in(item: Mapping[str, Any]) -> Any:
    """The score in a JSON object about one statement, or ``None``."""
    return next((item[key] for key in SCORE_KEYS if key in item), None)


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
        Each statement once. ``ids`` and ``copies``: score 1 / position, in the model's order.
        ``scores``: the model's score from 0 to 1, best first; statements of score 0 are omitted.
        ``dropped`` lists pieces that name no statement, scores that were clipped or are not
        numbers, and says that a list never ends or that all statements are chosen because the
        answer copies the whole persona.

    Example:
        >>> choose("ids", ["2", "9"], {"1": "I am vegan.", "2": "I own a dog."})
        Chosen(statements=[('2', 1.0)], dropped=['no statement 9'])
        >>> choose("scores", [("1", 0.2), ("2", 1.5)], {"1": "I am vegan.", "2": "I own a dog."}).statements
        [('2', 1.0), ('1', 0.2)]
    """
    chosen, dropped = dict[str, float](), list[str]()
    match = match_copy if form == "copies" else match_label
    for position, piece in enumerate(found, 1):
        label, value = piece if form == "scores" else (piece, 1 / (len(chosen) + 1))
        number, score = match(label, ptkb), _score(value)
        if number is None and form == "copies" and _means_none(label):
            dropped += [
                f"behind 'none': {later}"
                for later in found[position:]
                if match_copy(later, ptkb) not in (None, *chosen)
            ]
            break
        if number is None:
            dropped.append(_unmatched(label, ptkb))
            continue
        if score is None:
            dropped.append(f"score {value!r} of statement {label}")
            continue
        if not 0 <= score <= 1:
            dropped.append(f"score {score} of statement {label}")
        chosen.setdefault(number, min(max(score, 0.0), 1.0))
    statements = sorted(
        ((number, score) for number, score in chosen.items() if score), key=lambda pair: -pair[1]
    )
    dropped += getattr(found, "told", [])
    if 1 < len(ptkb) == len(statements) and (form == "copies" or getattr(found, "copied", False)):
        dropped.append(
            f"nothing, but the answer copies the whole persona: all {len(ptkb)} statements are chosen"
        )
    return Chosen(statements, dropped)


def _means_none(copy: str) -> bool:
    return bool(NONE.match(copy)) and not EXCEPT.search(copy)


def _unmatched(label: str, ptkb: Mapping[str, str]) -> str:
    alike = _same_number(label, ptkb)
    return (
        f"statement {label}, which may be {' or '.join(alike)}"
        if alike
        else f"no statement {label}"
    )


def only_unknown(form: str, found: Sequence[Any], ptkb: Mapping[str, str]) -> str:
    """What a choice names, where it names something by number and none of it is a statement of the persona; otherwise an empty text.

    Where there is no persona, nothing could be chosen. Copies, which small models write freely, are
    only dropped and told.

    Example:
        >>> only_unknown("ids", ["12"], {"1": "I am vegan."}), only_unknown("ids", ["12", "1"], {"1": "I am vegan."})
        ("no statement 12: the user's statements are 1", '')
    """
    if form == "copies" or not found or not ptkb:
        return ""
    unmatched = list[str]()
    for piece in found:
        label = piece[0] if form == "scores" else piece
        if match_label(label, ptkb) is not None:
            return ""
        unmatched.append(_unmatched(label, ptkb)[:80])
    return f"{', '.join(unmatched[:5])}: the user's statements are {', '.join(ptkb)}"


def match_label(label: str, ptkb: Mapping[str, str]) -> str | None:
    """The id that ``label`` means: the id itself, a text that starts with it or names it, or a copy of its statement.

    A number means the only id of the same value: ``1`` means ``01`` where there is no ``1``. None
    where several ids have that value.

    Example:
        >>> match_label("1", {"01": "I run."}), match_label("١", {"1": "I run."}), match_label("1", {"01": "I run.", "001": "I swim."})
        ('01', '1', None)
    """
    label = label.strip().strip(QUOTES + "[]()#").strip()
    if label in ptkb:
        return label
    found = NUMBERED.match(label)
    if found and found[1] in ptkb:
        return found[1]
    alike = _same_number(found[1] if found else label, ptkb)
    if len(alike) == 1:
        return alike[0]
    return match_copy(label, ptkb)


def _same_number(label: str, ptkb: Mapping[str, str]) -> list[str]:
    """The ids whose number is that of ``label``, such as ``01`` and ``١`` for ``1``."""
    number = plain_signs(label.strip())
    if not number.isdecimal():
        return []
    same = list[str]()
    for name in ptkb:
        plain = plain_signs(name)
        if plain.isdecimal() and plain.lstrip("0") == number.lstrip("0"):
            same.append(name)
    return same


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
    known = {normalised(statement): number for number, statement in reversed(list(ptkb.items()))}
    forms = [form for form in (normalised(copy), normalised(NUMBERED.sub("", copy))) if form]
    alike = [form for form in forms if form in known] + [
        one for form in forms for one in get_close_matches(form, known, 1, ALIKE)
    ]
    return known[alike[0]] if alike else None


def normalised(text: str) -> str:
    """The words of a text in lower case, without punctuation, with a blank between them."""
    text = (
        plain_signs(unicodedata.normalize("NFKC", text))
        .casefold()
        .replace("'", "")
        .replace("’", "")
    )
    return " ".join(re.findall(r"\w+", text))


def _score(value: Any) -> float | None:
    value = score_in(value) if isinstance(value, dict) else value
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(score) else score
