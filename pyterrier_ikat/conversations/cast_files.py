"""Topics files of TREC CAsT: lines of turns in 2019, 2020 and 2021, trees of them in 2022."""

from collections.abc import Mapping
from typing import Any

from .json_files import Place, excerpt, value_of
from .topics import Conversation, Message, TopicTurn

TURNS = "turn"
"""The field of a conversation that only files of CAsT have."""
UTTERANCE = ("raw_utterance", "utterance")
CANONICAL = ("canonical_result_id", "manual_canonical_result_id", "automatic_canonical_result_id")


def cast_conversation(place: Place, number: str, item: Mapping[str, Any]) -> Conversation:
    """A topic of a file of TREC CAsT, whose turns are ``<topic>_<turn>``.

    In 2019 to 2021 a turn's history is all turns before it. In 2022 it is the path from the first turn down to it: the other branches of
    the tree are conversations that went another way. All messages of the user are turns, those that answer a question of the system's too,
    as NIST judged them. The canonical response of a turn is the first message of the system below it.

    Args:
        place: names the topic in errors.
        number: the topic's number.
        item: the topic.

    Raises:
        DataError: naming the turn that lacks a field, occurs twice, or follows none.
    """
    entries = [_entry(place, position, entry) for position, entry in enumerate(value_of(place, dict(item), (TURNS,), list), 1)]
    names = [str(entry["number"]) for entry in entries]
    for name in names:
        if names.count(name) > 1:
            place.at(*place.within, f"turn {name}").fail("it occurs twice", "turn numbers are different")
    if not entries:
        place.fail("it has no turns", "remove it or fetch the file again")
    is_tree = any("participant" in entry for entry in entries)
    turns = _of_tree(place, number, dict(zip(names, entries, strict=True))) if is_tree else _of_line(place, number, entries)
    return Conversation(number, str(item.get("title", "")), turns=tuple(turns))


def _entry(chat: Place, position: int, entry: Any) -> dict[str, Any]:
    place = chat.at(*chat.within, f"turn at position {position}")
    if not isinstance(entry, dict):
        place.fail(f"expected an object, found {excerpt(entry)}", "a topic's turn is an array of turns")
    name = str(value_of(place, entry, ("number",), str, int))
    if name.split() != [name]:
        place.fail(f"the number {name!r} can't be part of a qid", "use a number without spaces, such as 1-3")
    return entry


def _of_line(chat: Place, number: str, entries: list[dict[str, Any]]) -> list[TopicTurn]:
    turns = []
    for position, entry in enumerate(entries, 1):
        place = chat.at(*chat.within, f"turn {entry['number']}")
        docno = next((str(entry[name]) for name in CANONICAL if entry.get(name)), "")
        turn_id = entry["number"] if isinstance(entry["number"], int) else position
        turns.append(_turn(place, number, turn_id, entry, str(entry.get("passage") or ""), [docno] * bool(docno)))
    return turns


def _of_tree(chat: Place, number: str, entries: dict[str, dict[str, Any]]) -> list[TopicTurn]:
    turns = []
    for name, entry in entries.items():
        by_user = value_of(chat.at(*chat.within, f"turn {name}"), entry, ("participant",), str) == "User"
        value_of(chat.at(*chat.within, f"turn {name}"), entry, UTTERANCE if by_user else ("response",), str)
    for name, entry in entries.items():
        if entry["participant"] != "User":
            continue
        place = chat.at(*chat.within, f"turn {name}")
        path = [_message(entries[above]) for above in _path(place, name, entries)]
        replies = [below for below in entries.values() if str(below.get("parent")) == name and below["participant"] != "User"]
        first = replies[0] if replies else {"response": "", "provenance": []}
        turn_id = 1 + sum(message["role"] == "user" for message in path)
        docnos = [str(docno).replace(" ", "") for docno in first.get("provenance") or []]  # one has a blank before its passage's number
        turns.append(_turn(place, number, turn_id, entry, str(first["response"]), docnos, tuple(path)))
    return turns


def _path(place: Place, name: str, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The turns above the one of this name, from the first."""
    path: list[str] = []
    above = entries[name].get("parent")
    while above is not None:
        if str(above) not in entries or str(above) in path or str(above) == name:
            wrong = "follows itself" if str(above) in entries else f"follows turn {above}, which isn't there"
            place.fail(f"it {wrong}", "fetch the file again")
        path.append(str(above))
        above = entries[str(above)].get("parent")
    return path[::-1]


def _message(entry: Mapping[str, Any]) -> Message:
    if entry["participant"] == "User":
        return {"role": "user", "content": str(entry.get("utterance", ""))}
    return {"role": "assistant", "content": str(entry.get("response", ""))}


def _turn(
    place: Place, topic: str, turn_id: int, entry: dict[str, Any], answer: str, docnos: list[str], path: tuple[Message, ...] | None = None
) -> TopicTurn:
    utterance = value_of(place, entry, UTTERANCE, str)
    if not utterance.strip():
        place.fail("the utterance is empty", "every turn has words of the user")
    texts = {name: entry.get(f"{name}_rewritten_utterance") or "" for name in ("manual", "automatic")}
    for name, text in texts.items():
        if not isinstance(text, str):
            place.fail(f"the field {name}_rewritten_utterance is {excerpt(text)}", "it has to be a string")
    return TopicTurn(
        turn_id,
        utterance,
        answer,
        texts["manual"],
        passages=tuple(dict.fromkeys(docnos)),
        qid=f"{topic}_{entry['number']}",
        history=path,
        automatic=texts["automatic"],
    )
