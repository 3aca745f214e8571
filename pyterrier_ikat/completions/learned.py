"""Statements about the user in a completion.

They are checked against the user's words and merged with the known ones.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..conversations.frame import well_formed
from .json_answers import OPENING, json_values, objects_in, value_at
from .statement_numbers import SAYS_NONE, means_none, read_ids
from .statements import match_label, normalised
from .usable import own_turn, printable_signs, usable_text, without_fences

LONGEST_STATEMENT = 300
"""The maximum number of characters of a statement.

The longest statement of the topics of TREC iKAT 2023 to 2025 has 110.
"""

_LIST = re.compile(r"\[\s*\{")
_NUMBER = re.compile(r"\d{1,9}")


class Learned(NamedTuple):
    """The statements learned about the user from a conversation.

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
    """Read the statements in a completion: JSON objects with a message or a statement.

    They may stand in a list. :func:`merge` checks them.

    Returns:
        The objects. Empty if the completion says that there is nothing new; ``None`` if it has no
        list, or a list that was cut off.

    Example:
        >>> read_learned('[{"message": 1, "words": "I am vegan", "statement": "I am vegan."}]')
        [{'message': 1, 'words': 'I am vegan', 'statement': 'I am vegan.'}]
        >>> read_learned("[]"), read_learned("The user seems to be vegan.")
        ([], None)
    """
    answer = without_fences(own_turn(usable_text(text))).strip()
    if OPENING.search(answer) is None:
        return [] if means_none(answer) else None
    opening = _LIST.search(answer)
    if opening and value_at(answer, opening.start())[0] is None:
        return None  # the list was cut off, and may have had more objects
    values = json_values(answer)
    statements = []
    for item in objects_in(values):
        if "message" in item or "statement" in item:
            statements.append(item)
    if statements or _has_empty_list(values):
        return statements
    return None


def _has_empty_list(values: Sequence[Any]) -> bool:
    """Whether a value is an empty list, or an object with one."""
    parts = list(values)
    for value in values:
        if isinstance(value, dict):
            parts += value.values()
    return [] in parts


def merge(
    statements: Sequence[Mapping[str, Any]],
    ptkb: Mapping[str, str],
    messages: Mapping[int, str],
    taken: Collection[str] = (),
) -> Learned:
    """Merge statements with the known ones.

    A statement counts if it names one of the user's messages and copies words from it. A repeat of
    a known statement is omitted. One that contradicts known statements replaces them. Known
    statements keep their ids, and new ids continue the highest number.

    Args:
        statements: the statements, as :func:`read_learned` gives them.
        ptkb: the known statements by id.
        messages: the user's messages by number.
        taken: further ids that new statements must not get.

    Example:
        >>> moved = {"message": 2, "words": "I moved to Oslo", "statement": "I live in Oslo.",
        ...          "replaces": [1]}
        >>> known = {"1": "I live in Lyon.", "2": "I am vegan."}
        >>> merge([moved], known, {2: "By the way, I moved to Oslo."}).ptkb
        {'2': 'I am vegan.', '3': 'I live in Oslo.'}
    """
    known = dict(ptkb)
    learned = []
    dropped = []
    last_id = highest_number((*ptkb, *taken))
    for item in statements:
        statement = _line(item.get("statement"))
        words = _line(item.get("words")) or statement
        number = _message_number(item)
        fault = _fault(statement, words, number, messages)
        if fault:
            dropped.append(fault)
            continue
        contradicted, unknown = _replaced(item.get("replaces"), ptkb)
        dropped += [f"no known statement {label}" for label in unknown]
        known_id = _id_of(statement, known)
        replaced = [name for name in contradicted if name in known and name != known_id]
        if known_id is not None and not replaced:
            continue
        for name in replaced:
            del known[name]
        if known_id is None:
            last_id += 1
            known_id = str(last_id)
            known[known_id] = statement
        learned.append(
            {
                "id": known_id,
                "statement": known[known_id],
                "message": number,
                "words": words,
                "replaces": replaced,
            }
        )
    return Learned(known, learned, dropped)


def _id_of(statement: str, known: Mapping[str, str]) -> str | None:
    """Return the id of the known statement with the same words."""
    for name, text in known.items():
        if normalised(text) == normalised(statement):
            return name
    return None


def highest_number(ids: Iterable[str]) -> int:
    """Return the highest number among the ids, or 0 without numbers.

    Example:
        >>> highest_number(["3", "1-2", "12", "", "²"])
        12
    """
    return max((int(name) for name in ids if name.isdecimal()), default=0)


def _fault(statement: str, words: str, number: int | None, messages: Mapping[int, str]) -> str:
    """Say why a statement does not count; empty if it does."""
    if not normalised(statement):
        return "an object without a statement"
    if statement.endswith("?") or len(statement) > LONGEST_STATEMENT:
        return f"a question, or a statement of {len(statement)} characters"
    copied = normalised(words)
    message = normalised(messages.get(number or 0, ""))
    if number in messages and copied and f" {copied} " in f" {message} ":
        return ""
    return f"a statement whose words are in no message {number} of the user"


def _line(text: Any) -> str:
    """Return a value as printable text on one line; empty if it is no text."""
    return " ".join(printable_signs(well_formed(text)).split()) if isinstance(text, str) else ""


def _message_number(item: Mapping[str, Any]) -> int | None:
    number = _NUMBER.search(str(item.get("message", "")))
    return int(number[0]) if number else None


def _replaced(labels: Any, ptkb: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the known statements among ``labels``, and the labels that name no statement.

    Each occurs once.
    """
    ids: list[str] = []
    unknown: list[str] = []
    for label in labels if isinstance(labels, list) else [labels]:
        text = str(label).strip(" []()#\"'") if label else ""
        if not text:
            continue
        named_ids = _named(text, ptkb)
        ids += named_ids
        if not named_ids and not SAYS_NONE.match(text):
            unknown.append(repr(text[:20]))
    return list(dict.fromkeys(ids)), list(dict.fromkeys(unknown))


def _named(text: str, ptkb: Mapping[str, str]) -> list[str]:
    """Return the ids of the known statements that a label names."""
    if text in ptkb:
        return [text]
    ids = []
    for number in read_ids(text) or []:
        matched = match_label(number, ptkb)
        if matched is not None:
            ids.append(matched)
    return ids
