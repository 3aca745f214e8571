"""Chosen statements: parsers of copies and scores, and what a choice means for a persona."""

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
    ENDLESS_LIST,
    NUMBERED_LINE,
    SCORE_KEYS,
    ReadChoice,
    is_about_statement,
    label_of,
    means_none,
    not_denied,
    read_ids,
    says_none,
)
from .usable import has_letter_or_digit, own_turn, usable_text, without_fences

__all__ = [
    "LEAST_SIMILARITY",
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


def read_copies(text: str) -> ReadChoice | None:
    r"""Read the copied statements in a completion.

    They stand one per line, numbered, bulleted or quoted, or in a JSON list of texts that comes
    first.

    Returns:
        The copies with their numbers. A line such as "None" counts as a copy, because a statement
        may begin like that. Empty for an empty JSON list; ``None`` if the completion has no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = without_fences(own_turn(usable_text(text))).strip()
    json_list = _first_json_list(text)
    if json_list is not None and all(isinstance(item, str) for item in json_list):
        before = OPENING.split(text)[0].strip()
        if "\n" not in before:
            return ReadChoice(json_list)
    lines = [line.strip() for line in text.splitlines() if has_letter_or_digit(line)]
    cut_off = json_list is None and OPENING.match(text) is not None
    if not lines or cut_off:
        return None
    return ReadChoice(line for line in not_denied(lines) if not line.endswith(":"))


def _first_json_list(text: str) -> list[Any] | None:
    """Return the first list in a text, or the values of the first object with numbers as keys.

    Empty for an empty object that comes first.
    """
    for value in json_values(text):
        if isinstance(value, list):
            return value
        if all(key.isdecimal() for key in value):
            return list(value.values())
    return None


def read_scores(text: str) -> ReadChoice | None:
    """Read the scores in a completion.

    They are the first JSON object id -> score, or JSON objects with an id and a score, fenced or in
    prose.

    Returns:
        Pairs of an id and the value given as its score, in the completion's order. Empty if no
        statement is relevant; ``None`` for prose.

    Example:
        >>> read_scores('Sure: {"3": 0.9, "7": 0.4}')
        [('3', 0.9), ('7', 0.4)]
        >>> read_scores("{}"), read_scores("Statement 3 matters.")
        ([], None)
    """
    text = own_turn(usable_text(text))
    if says_none(text):
        return ReadChoice()
    values = []
    for value in json_values(text):
        if isinstance(value, dict) or not value or any(isinstance(item, dict) for item in value):
            values.append(value)
    if not values:
        return None
    opening = OPENING.search(text)
    cut_off = opening is not None and value_at(text, opening.start())[1] is None
    about_statements = list(takewhile(is_about_statement, values))
    pairs = _pairs(about_statements or values[:1])
    return ReadChoice(pairs, [ENDLESS_LIST] if cut_off else [])


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Return the ids and scores of a value.

    The value is an object about one statement, an object id -> score, or a list of such objects.
    """
    if isinstance(value, list):
        pairs = []
        for item in value:
            if isinstance(item, list | dict):
                pairs += _pairs(item)
        return pairs
    if is_about_statement(value):
        return [(label_of(value), score_in(value))]
    return [(str(key), score) for key, score in value.items()]


def score_in(item: Mapping[str, Any]) -> Any:
    """Return the score in a JSON object about one statement, or ``None``."""
    for key in SCORE_KEYS:
        if key in item:
            return item[key]
    return None


LEAST_SIMILARITY = 0.9
"""The similarity from which a copy counts as the statement.

It is difflib's ratio of the normalised texts.
"""


class Chosen(NamedTuple):
    """The statements that a completion chooses, and the pieces that were omitted or repaired.

    Attributes:
        statements: pairs of id and score, best first.
        dropped: the omitted or repaired pieces, in words.
    """

    statements: list[tuple[str, float]]
    dropped: list[str]


def choose(form: str, pieces: Sequence[Any], ptkb: Mapping[str, str]) -> Chosen:
    """Match parsed pieces with the persona.

    Args:
        form: ``"ids"``, ``"copies"`` or ``"scores"``.
        pieces: the result of ``read_ids``, ``read_copies`` or ``read_scores``.
        ptkb: the persona, id -> statement.

    Returns:
        Each statement once. ``ids`` and ``copies``: score 1 / position, in the model's order.
        ``scores``: the model's score from 0 to 1, best first; statements of score 0 are omitted.
        ``dropped`` lists pieces that name no statement, scores that were clipped or are not
        numbers, and says that a list never ends or that all statements are chosen because the
        answer copies the whole persona.

    Example:
        >>> persona = {"1": "I am vegan.", "2": "I own a dog."}
        >>> choose("ids", ["2", "9"], persona)
        Chosen(statements=[('2', 1.0)], dropped=['no statement 9'])
        >>> choose("scores", [("1", 0.2), ("2", 1.5)], persona).statements
        [('2', 1.0), ('1', 0.2)]
    """
    if form == "scores":
        statements, dropped = _choose_scores(pieces, ptkb)
    else:
        statements, dropped = _choose_in_order(form, pieces, ptkb)
    copied = form == "copies"
    if isinstance(pieces, ReadChoice):
        dropped += pieces.notes
        copied = copied or pieces.copied
    if copied and 1 < len(ptkb) == len(statements):
        dropped.append(
            "nothing, but the answer copies the whole persona: "
            f"all {len(ptkb)} statements are chosen"
        )
    return Chosen(statements, dropped)


def _choose_scores(
    pieces: Sequence[tuple[str, Any]], ptkb: Mapping[str, str]
) -> tuple[list[tuple[str, float]], list[str]]:
    """Return the scored statements, best first, and what was dropped."""
    scores: dict[str, float] = {}
    dropped = []
    for label, value in pieces:
        statement_id = match_label(label, ptkb)
        score = _score(value)
        if statement_id is None:
            dropped.append(_unmatched(label, ptkb))
        elif score is None:
            dropped.append(f"score {value!r} of statement {label}")
        else:
            if not 0 <= score <= 1:
                dropped.append(f"score {score} of statement {label}")
            scores.setdefault(statement_id, min(max(score, 0.0), 1.0))
    positive = [(statement_id, score) for statement_id, score in scores.items() if score > 0]
    positive.sort(key=lambda pair: -pair[1])
    return positive, dropped


def _choose_in_order(
    form: str, pieces: Sequence[str], ptkb: Mapping[str, str]
) -> tuple[list[tuple[str, float]], list[str]]:
    """Return the statements of ids or copies, scored by their position, and what was dropped."""
    match = match_copy if form == "copies" else match_label
    chosen: list[str] = []
    dropped = []
    for number, piece in enumerate(pieces, 1):
        statement_id = match(piece, ptkb)
        if statement_id is not None:
            if statement_id not in chosen:
                chosen.append(statement_id)
            continue
        if form == "copies" and means_none(piece):
            for later in pieces[number:]:
                if match_copy(later, ptkb) not in (None, *chosen):
                    dropped.append(f"behind 'none': {later}")
            break
        dropped.append(_unmatched(piece, ptkb))
    return [(name, 1 / position) for position, name in enumerate(chosen, 1)], dropped


def _unmatched(label: str, ptkb: Mapping[str, str]) -> str:
    """Say that no statement has this label."""
    alike = _same_number(label, ptkb)
    if alike:
        return f"statement {label}, which may be {' or '.join(alike)}"
    return f"no statement {label}"


def only_unknown(form: str, pieces: Sequence[Any], ptkb: Mapping[str, str]) -> str:
    """Say what a choice names, if none of it is a statement of the persona; otherwise empty.

    Without a persona nothing could be chosen. Copies, which small models write freely, are only
    dropped and noted.

    Example:
        >>> only_unknown("ids", ["12"], {"1": "I am vegan."})
        "no statement 12: the user's statements are 1"
        >>> only_unknown("ids", ["12", "1"], {"1": "I am vegan."})
        ''
    """
    if form == "copies" or not pieces or not ptkb:
        return ""
    unmatched = []
    for piece in pieces:
        label = piece[0] if form == "scores" else piece
        if match_label(label, ptkb) is not None:
            return ""
        unmatched.append(_unmatched(label, ptkb)[:80])
    return f"{', '.join(unmatched[:5])}: the user's statements are {', '.join(ptkb)}"


def match_label(label: str, ptkb: Mapping[str, str]) -> str | None:
    """Resolve a label to a statement id: by id, by prefix, by number or by its text.

    A number means the only id of the same value: ``1`` means ``01`` where there is no ``1``. None
    where several ids have that value.

    Example:
        >>> match_label("1", {"01": "I run."}), match_label("١", {"1": "I run."})
        ('01', '1')
        >>> match_label("1", {"01": "I run.", "001": "I swim."}) is None
        True
    """
    label = label.strip().strip(QUOTES + "[]()#").strip()
    if label in ptkb:
        return label
    number = label
    numbered = NUMBERED_LINE.match(label)
    if numbered:
        number = numbered[1]
        if number in ptkb:
            return number
    alike = _same_number(number, ptkb)
    if len(alike) == 1:
        return alike[0]
    return match_copy(label, ptkb)


def _same_number(label: str, ptkb: Mapping[str, str]) -> list[str]:
    """Return the ids with the number of ``label``, such as ``01`` and ``١`` for ``1``."""
    number = plain_signs(label.strip())
    if not number.isdecimal():
        return []
    same = []
    for name in ptkb:
        plain = plain_signs(name)
        if plain.isdecimal() and plain.lstrip("0") == number.lstrip("0"):
            same.append(name)
    return same


def match_copy(copy: str, ptkb: Mapping[str, str]) -> str | None:
    """Resolve a copy to the id of its statement.

    The copy must be equal, or equal when normalised, or similar by at least 0.9. Normalisation
    removes differences in letter case, punctuation, white space and numbering.

    Example:
        >>> match_copy("2) i own a DOG", {"1": "I am vegan.", "2": "I own a dog."})
        '2'
    """
    for name, statement in ptkb.items():
        if copy.strip() == statement.strip():
            return name
    known: dict[str, str] = {}  # of equal statements the first counts
    for name, statement in ptkb.items():
        known.setdefault(normalised(statement), name)
    forms = [normalised(copy), normalised(NUMBERED_LINE.sub("", copy))]
    for form in forms:
        if form and form in known:
            return known[form]
    for form in forms:
        similar = get_close_matches(form, known, 1, LEAST_SIMILARITY) if form else []
        if similar:
            return known[similar[0]]
    return None


def normalised(text: str) -> str:
    """Return the words of a text in lower case, without punctuation, with a blank between them."""
    text = plain_signs(unicodedata.normalize("NFKC", text)).casefold()
    text = text.replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", text))


def _score(value: Any) -> float | None:
    """Return a value as a number. None if it isn't one."""
    if isinstance(value, dict):
        value = score_in(value)
    if isinstance(value, bool):
        return None
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(score) else score
