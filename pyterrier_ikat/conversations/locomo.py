"""LoCoMo: long conversations of two people over months, and questions whose answers are in some of their turns; data for memories.

The file ``locomo10.json`` lies in ``memory/`` in the data folder or beside it, else it is downloaded from its authors; it may be used for
purposes that aren't commercial (CC BY-NC 4.0), and nothing of it is shipped.

Source: Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, ACL 2024 (arXiv 2402.17753).
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pandas as pd

from ..errors import DataError
from .download import at_hand, data_file
from .frame import with_columns
from .ikat_dataset import IkatDataset, Qrels
from .json_files import Place, load_json
from .topics import Conversation, TopicTurn

NAME = "locomo:"
FILE = "memory/locomo10.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""As the numbers of the file are used in its authors' code; some harnesses swap single-hop and multi-hop."""
AGAIN = "fetch the file again"
LICENCE = "LoCoMo (Maharana et al., ACL 2024), from https://github.com/snap-research/locomo; licence CC BY-NC 4.0: no commercial use"
_ID = re.compile(r"D:?(\d+):(\d+)")


class LocomoDataset(IkatDataset):
    """The questions of LoCoMo with evidence, each over the turns of its conversation, which are the statements of ``qptkb``.

    A statement is ``SPEAKER: TEXT [CAPTION OF THE IMAGE]``. Its id is that of the turn, ``D1:3``: turn 3 of session 1. ``qfacts`` has the
    facts that a model of the authors extracted from the turns: ``D1:3%p0`` is a fact from ``D1:3``, see
    :class:`~pyterrier_ikat.SourceTurns`. The qrels are the evidence turns, all of label 1. ``get_topics("manual")`` also has the
    question's category in ``qcategory``, for evaluation.

    Known errors of the data: an audit found 99 wrong answers among the 1,540 that aren't adversarial, so judge retrieval first. The answer
    of an adversarial question is none; the evidence is the turn that it misquotes. Ids of evidence with slips are cleaned: see
    :attr:`slips`.
    """

    name = NAME
    summary = (
        "1,982 questions on 10 long conversations of LoCoMo, whose 5,882 turns are the statements, with evidence turns as qrels and "
        "extracted facts; CC BY-NC 4.0"
    )
    measures = ("R@5", "nDCG@10", "Success@5", "Success@5 by session")

    @property
    def conversations(self) -> list[Conversation]:
        """The questions of each conversation; those without evidence are left out."""
        return [one.questions for one in self._read()]

    @property
    def slips(self) -> dict[str, int]:
        """How many entries of evidence are written in another form than ``D1:3``, or name no turn, by form; the latter are left out."""
        return dict(sum((one.slips for one in self._read()), Counter()))

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The questions with ``qptkb`` and ``qfacts``; with ``"manual"`` also ``qcategory``."""
        frame, chats = super().get_topics(variant), {one.questions.number: one for one in self._read()}
        frame = with_columns(frame, qfacts=[chats[name].facts for name in frame["qconversation"]])
        if variant is None:
            return frame
        return with_columns(frame, qcategory=[chats[qid.rpartition("_")[0]].categories[qid] for qid in frame["qid"]])

    def info_url(self) -> str:
        """The authors' page."""
        return "https://github.com/snap-research/locomo"

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> NoReturn:
        raise DataError(f"{NAME} has no collection: the turns of each conversation are its statements, which ikat.ListStatements() lists")

    def _read(self) -> list["Chat"]:
        if at_hand(FILE) is None:
            print(LICENCE, file=sys.stderr)
        path = data_file(FILE)
        return read_chats(path, path.stat().st_mtime_ns)

    def __repr__(self) -> str:
        return f"ikat.dataset({NAME!r})"


class Chat(NamedTuple):
    """One conversation: its questions over its turns, the facts by id, the category of each question, and the slips in its evidence."""

    questions: Conversation
    facts: dict[str, str]
    categories: dict[str, str]
    slips: Counter[str]


@lru_cache(maxsize=2)
def read_chats(path: Path, changed: int) -> list[Chat]:
    """The conversations of a file in LoCoMo's form.

    Args:
        path: the file.
        changed: its time of change; a changed file is read again.

    Raises:
        DataError: naming the file and the conversation, when something is missing or of another form.
    """
    place, found = Place(path), list[Chat]()
    samples = load_json(path.read_text(encoding="utf-8"), place, "not JSON", AGAIN)
    for number, sample in enumerate(samples if isinstance(samples, list) else [samples], 1):
        try:
            found.append(_chat(sample))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            place.at(f"conversation {number}").fail(f"no conversation of LoCoMo ({type(error).__name__}: {error})", AGAIN)
    return found


def _chat(sample: Mapping[str, Any]) -> Chat:
    name, categories, slips, questions = str(sample["sample_id"]), dict[str, str](), Counter[str](), list[TopicTurn]()
    turns = {
        turn["dia_id"]: _statement(turn) for session in sample["conversation"].values() if isinstance(session, list) for turn in session
    }
    for number, asked in enumerate(sample["qa"], 1):
        evidence = tuple(dict.fromkeys(_evidence(asked["evidence"], turns, slips)))
        if evidence:
            qid, answer = f"{name}_{number}", str(asked.get("answer", ""))
            questions.append(TopicTurn(number, asked["question"], answer, passages=evidence, qid=qid, history=()))
            categories[qid] = CATEGORIES[asked["category"]]
    return Chat(Conversation(name, ptkb=turns, turns=tuple(questions)), dict(_facts(sample["observation"], turns)), categories, slips)


def _statement(turn: Mapping[str, str]) -> str:
    return f"{turn['speaker']}: {turn['text']}" + (f" [{turn['blip_caption']}]" if turn.get("blip_caption") else "")


def _evidence(written: list[str], turns: Mapping[str, str], slips: Counter[str]) -> Iterator[str]:
    """The turns that entries name; an entry that isn't the id of a turn is counted by its form."""
    for entry in written:
        ids = ids_in(entry)
        if entry not in turns:
            slips["no such turn" if not turns.keys() >= {*ids} or not ids else "several ids" if len(ids) > 1 else "misspelt id"] += 1
        yield from (one for one in ids if one in turns)


def ids_in(entry: str) -> list[str]:
    """The ids of turns in an entry of evidence, whose slips are colons and zeros too many, and several ids in one text.

    Example:
        >>> ids_in("D8:6; D9:17"), ids_in("D:11:26"), ids_in("D30:05"), ids_in("D")
        (['D8:6', 'D9:17'], ['D11:26'], ['D30:5'], [])
    """
    return [f"D{int(session)}:{int(turn)}" for session, turn in _ID.findall(entry)]


def _facts(observation: Mapping[str, Any], turns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each fact once for each turn that it comes from."""
    count = Counter[str]()
    for text, sources in (fact for speakers in observation.values() for facts in speakers.values() for fact in facts):
        for source in ids_in(" ".join(sources) if isinstance(sources, list) else sources):
            if source in turns:
                yield f"{source}%p{count[source]}", text
                count[source] += 1
