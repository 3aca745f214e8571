"""TREC CAsT by year: 2019 and 2020 through ir_datasets, 2021 and 2022 from the organisers' files.

The topics files of 2019 to 2021 have turns in a line, those of 2022 have trees of turns.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError
from .download import DATA_FOLDER, data_file, data_folder
from .ikat_dataset import IkatDataset, Qrels
from .irds import IrdsDataset
from .json_files import Place, conversations_in, excerpt, load_array, value_of
from .passages import PassageFiles, collection_files
from .qrels import read_qrels
from .topics import Conversation, Message, TopicTurn, with_automatic

PREFIX = "cast:"
TOPICS = {2021: "2021_manual_evaluation_topics_v1.0.json", 2022: "2022_evaluation_topics_tree_v1.0.json"}
AUTOMATIC = {2021: TOPICS[2021], 2022: "2022_automatic_evaluation_topics_tree_v1.0.json"}
QRELS = {2021: "trec-cast-qrels-docs.2021.qrel", 2022: "2022-qrels.txt"}
OFFERS = {
    2021: "the turns of TREC CAsT 2021 with responses, rewrites, NIST qrels of documents, canonical documents",
    2022: "205 turns of TREC CAsT 2022, paths of trees, with responses, rewrites, NIST qrels of passages, gold provenance",
}
TURNS = "turn"
"""The field of a conversation that only files of CAsT have."""
EACH_ONCE = "give the file of trees, which has each turn once"
UTTERANCE = ("raw_utterance", "utterance")
CANONICAL = ("canonical_result_id", "manual_canonical_result_id", "automatic_canonical_result_id")


class CastDataset(IkatDataset):
    """TREC CAsT 2021 or 2022: topics, rewrites and qrels from the organisers' files, under their published names.

    In 2021, the history of a turn is the earlier utterances and canonical passages. In 2022, it is the path of messages above the turn in
    the topic's tree. The qrels of 2021 judge documents, because the passage numbers of participants differed: index documents. Binary
    measures of 2021 count labels of 2 and more; NIST's summaries of 2022 are for 1 and more (lenient) and for 2 and more (strict).

    Args:
        year: 2021 or 2022.
    """

    topic_variants = (None, "manual", "automatic")

    def __init__(self, year: int):
        self.name, self.edition, self.summary = f"{PREFIX}{year}", year, OFFERS[year]

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The topics. Several turns of a tree may have the same number, but each has its own qid, such as ``132_2-1``."""
        return _read_topics(data_file(TOPICS[self.edition]))

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`."""
        if variant != "automatic" or AUTOMATIC[self.edition] == TOPICS[self.edition]:
            return super().get_topics(variant)
        return with_automatic(super().get_topics(), _read_topics(data_file(AUTOMATIC[self.edition])))

    def info_url(self) -> str:
        """The track's page."""
        return "https://www.treccast.ai/"

    def _qrels(self) -> Qrels:
        return {None: lambda: read_qrels(data_file(QRELS[self.edition])), "provenance": self._provenance}

    def _passages(self) -> tuple[PassageFiles, int]:
        folder = data_folder() / f"cast_{self.edition}_collection"
        files = collection_files(folder)
        if not files:
            raise DataError(
                f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; make them of MS MARCO, KILT and the Washington Post by the "
                f"organisers' trec-cast-tools, and put the files into {folder.name}/ in the folder that {DATA_FOLDER} names"
            )
        return PassageFiles(files), 0

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


CAST: dict[str, Callable[[], IkatDataset]] = {
    f"{PREFIX}2019": lambda: IrdsDataset("trec-cast/v1/2019", "cast:2019"),
    f"{PREFIX}2020": lambda: IrdsDataset("trec-cast/v1/2020", "cast:2020"),
    f"{PREFIX}2021": lambda: CastDataset(2021),
    f"{PREFIX}2022": lambda: CastDataset(2022),
}


def _read_topics(path: Path) -> list[Conversation]:
    place = Place(path)
    return conversations_in(place, load_array(place), cast_conversation, EACH_ONCE)


def cast_conversation(place: Place, number: str, item: Mapping[str, Any]) -> Conversation:
    """A topic of a file of TREC CAsT, whose turns are ``<topic>_<turn>``.

    In 2019 to 2021 a turn's history is all turns before it. In 2022 it is the path from the first turn down to it. The other branches
    of the tree are conversations that went another way. All user messages are turns, also answers to a question of the system, because
    NIST judged them. The canonical response of a turn is the first system message below it.

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
        docnos = [str(docno).replace(" ", "") for docno in first.get("provenance") or []]  # one id has a blank before its passage number
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
