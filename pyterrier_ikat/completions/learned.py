"""Statements about the user in a completion, checked against the user's words and merged with the known ones. Pure functions."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..conversations.frame import well_formed
from .json_answers import OPENING, json_values, objects_in, value_at
from .statement_numbers import EXCEPT, NONE, read_ids
from .statements import match_label, normalised
from .usable import FENCE, own_turn, usable_text

LONGEST = 300
"""Characters of a statement. The longest statement of the topics of TREC iKAT 2023 to 2025 has 110."""

_LIST = re.compile(r"\[\s*\{")
_NUMBER = re.compile(r"\d{1,9}")


class Learned(NamedTuple):
    """What was learned about the user from a conversation.

    Attributes:
        ptkb: the statements by id: the known ones that still hold, and the new ones.
        statements: the new statements, each a dict of ``id``, ``statement``, ``message`` (the
            number of the user's message), ``words`` (the user's words that say it) and ``replaces``
            (ids of the known statements that it contradicts).
        dropped: the omitted pieces, without anybody's words.
    """

    ptkb: dict[str, str]
    statements: list[dict[str, Any]]
    dropped: list[str]


def read_learned(text: str) -> list[dict[str, Any]] | None:
    """The statements in a completion: JSON objects with a message or a statement, in a list or not. :func:`merge` checks them.

    Returns:
        The objects. Empty if the completion says that there is nothing new; ``None`` if it has no
        list, or a list that was cut off.

    Example:
        >>> read_learned('Sure: [{"message": 1, "words": "I am vegan", "statement": "I am vegan."}]')
        [{'message': 1, 'words': 'I am vegan', 'statement': 'I am vegan.'}]
        >>> read_learned("[]"), read_learned("The user seems to be vegan.")
        ([], None)
    """
    said = FENCE.sub("", own_turn(usable_text(text))).strip()
    if OPENING.search(said) is None:
        return [] if NONE.match(said) and not EXCEPT.search(said) else None
    opening = _LIST.search(said)
    if opening and value_at(said, opening.start())[0] is None:
        return None  # it was cut off: it may have had more objects
    values = json_values(said)
    found = [item for item in objects_in(values) if "message" in item or "statement" in item]
    nothing = [] in values or any(
        [] in value.values() for value in values if isinstance(value, dict)
    )
    return found if found or nothing else None


def merge(
    found: Sequence[Mapping[str, Any]],
    ptkb: Mapping[str, str],
    said: Mapping[int, str],
    taken: Collection[str] = (),
) -> Learned:
    """Merge statements with the known ones.

    A statement counts if it names one of the user's messages and copies words from it. A repeat of
    a known statement is omitted. One that contradicts known statements replaces them. Known
    statements keep their ids, and new ids continue the highest number.

    Args:
        found: the statements, as :func:`read_learned` gives them.
        ptkb: the known statements by id.
        said: the user's messages by number.
        taken: further ids that new statements must not get.

    Example:
        >>> moved = {"message": 2, "words": "I moved to Oslo", "statement": "I live in Oslo.", "replaces": [1]}
        >>> merge([moved], {"1": "I live in Lyon.", "2": "I am vegan."}, {2: "By the way, I moved to Oslo."}).ptkb
        {'2': 'I am vegan.', '3': 'I live in Oslo.'}
    """
    known, learned, dropped = dict(ptkb), list[dict[str, Any]](), list[str]()
    last = highest_number((*ptkb, *taken))
    for piece in found:
        statement, words, number = (
            _line(piece.get("statement")),
            _line(piece.get("words")),
            _number(piece),
        )
        words = words or _line(piece.get("statement"))
        if fault := _fault(statement, words, number, said):
            dropped.append(fault)
            continue
        replaced, unknown = _replaced(piece.get("replaces"), ptkb)
        dropped += [f"no known statement {label}" for label in unknown]
        same = next(
            (one for one, text in known.items() if normalised(text) == normalised(statement)), None
        )
        replaced = [one for one in replaced if one in known and one != same]
        if same is not None and not replaced:
            continue
        for one in replaced:
            del known[one]
        if same is None:
            same = str(last := last + 1)
            known[same] = statement
        learned.append(
            {
                "id": same,
                "statement": known[same],
                "message": number,
                "words": words,
                "replaces": replaced,
            }
        )
    return Learned(known, learned, dropped)


def highest_number(ids: Iterable[str]) -> int:
    """The highest number among the ids, or 0 without numbers.

    Example:
        >>> highest_number(["3", "1-2", "12", "", "²"])
        12
    """
    return max((int(name) for name in ids if name.isdecimal()), default=0)


def _fault(statement: str, words: str, number: int | None, said: Mapping[int, str]) -> str:
    """Why a statement does not count; empty if it does."""
    if not normalised(statement):
        return "an object without a statement"
    if statement.endswith("?") or len(statement) > LONGEST:
        return f"a question, or a statement of {len(statement)} characters"
    copied = (
        normalised(words)
        and f" {normalised(words)} " in f" {normalised(said.get(number or 0, ''))} "
    )
    return (
        ""
        if number in said and copied
        else f"a statement whose words are in no message {number} of the user"
    )


def _line(text: Any) -> str:
    """A value as printable text on one line; empty if it is no text."""
    printed = (
        "".join(sign if sign.isprintable() else " " for sign in well_formed(text))
        if isinstance(text, str)
        else ""
    )
    return " ".join(printed.split())


def _number(piece: Mapping[str, Any]) -> int | None:
    found = _NUMBER.search(str(piece.get("message", "")))
    return int(found[0]) if found else None


def _replaced(labels: Any, ptkb: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The ids of known statements among ``labels``, each once, and the labels that name no statement."""
    ids, unknown = list[str](), list[str]()
    for label in labels if isinstance(labels, list) else [labels]:
        text = str(label).strip(" []()#\"'") if label else ""
        if not text:
            continue
        named = _named(text, ptkb)
        ids += named
        if not named and not NONE.match(text):
            unknown.append(repr(text[:20]))
    return list(dict.fromkeys(ids)), list(dict.fromkeys(unknown))


def _named(text: str, ptkb: Mapping[str, str]) -> list[str]:
    """The ids of the known statements that a label names."""
    if text in ptkb:
        return [text]
    matched = [match_label(number, ptkb) for number in read_ids(text) or []]
    return [number for number in matched if number is not None]
