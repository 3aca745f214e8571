"""Learn what users say about themselves, and merge it with the known statements."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any

import pandas as pd

from ..arguments import at_least, utc
from ..completions.kinds import LEARNED
from ..completions.learned import Learned, merge
from ..conversations.frame import histories, values, with_columns
from ..llm_operator import LLMOperator
from ..operator import with_fields
from ..prompts import history_text, ptkb_text

EARLIER = 3
"""The exchanges that are shown before the messages to learn from, so that "No, I don't" can be understood."""
NOTHING = "(nothing is known)"


@with_fields
class UpdatePtkb(LLMOperator):
    """Ask the model which new statements the user made about themselves, and merge them with the known ones.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``, ``qmemories``. Writes a new ``qptkb``, new
    ``qmemories`` if there were any, and ``qlearned``, a list of the new statements: dicts of ``id``, ``statement``, ``message`` (the
    number of the user's message in the conversation, from 1), ``words`` (the user's words that say it) and ``replaces`` (ids of the known
    statements that it contradicts). One call per turn; a turn depends only on its own history, question and persona. The next operators
    see the new ``qptkb``.

    Only the user's messages count as a source. A statement is omitted, and counted in the ledger as ``dropped``, if it doesn't name a
    message of the user or if its words are not in that message. A repeat of a known statement is omitted. A known statement that the user
    contradicts is removed from ``qptkb``. The new one gets a new id, so an id of the topics never means another text. The fallback for a
    failed turn is the known statements.

    The persona of TREC iKAT is known before the conversation, and the user reveals more in it (guidelines of 2026, "Track Overview",
    https://www.trecikat.com/guidelines). The prompt is ours. :class:`UserMemory` keeps statements over several conversations.

    Args:
        llm: the model to ask.
        messages: how many of the user's last messages to learn from, including the question. ``None``: all. The prompt shows these messages
            and the three exchanges before them.

    Raises:
        UsageError: when ``messages`` is below 1.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['[{"message": 1, "words": "I moved to Oslo", "statement": "I live in Oslo.", "replaces": [1]}]']
        >>> turn = ikat.conversation([{"role": "user", "content": "I moved to Oslo. Any vegan cafés?"}], ["I live in Lyon.", "I am vegan."])
        >>> updated = ikat.UpdatePtkb(Model())(turn)
        >>> updated["qptkb"].item()
        {'2': 'I am vegan.', '3': 'I live in Oslo.'}
        >>> updated["qlearned"].item()[0]["replaces"]
        ['1']
    """

    stage = "update_ptkb"
    kind = LEARNED
    schematic = {"label": "Update PTKB"}

    _: KW_ONLY
    messages: int | None = None
    question: str = field(default="qutterance", init=False)  # the words of a manual rewrite are not the user's

    def __post_init__(self) -> None:
        at_least(1, messages=self.messages)
        super().__post_init__()

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that the prompt shows: ``ptkb`` and ``context``, which ends with the question."""
        shown = zip(self._conversations(frame), self.personas(frame), strict=True)
        return [{"context": self._context(said), "ptkb": ptkb_text(ptkb) or NOTHING} for said, ptkb in shown]

    def describe_unusable(self, text: str) -> str:
        """The reason why a completion counts as a failure. It quotes nothing, because the words may be personal."""
        return f"no JSON list of statements in the completion of {len(text)} characters"

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """Nothing new."""
        return [[] for _ in frame["qid"]]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """One statement, from the last message."""
        said = [_said(messages) for messages in self._conversations(frame)]
        return [[{"message": len(texts), "words": texts[len(texts)][:60], "statement": "I live in Oslo."}] for texts in said]

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The statements without a source in the user's messages."""
        return [piece for learned in self._learned(frame, found) for piece in learned.dropped]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qptkb`` and ``qlearned``; where there are ``qmemories``, they are kept in step."""
        learned = self._learned(frame, found)
        more = {}
        if "qmemories" in frame.columns:
            rows = zip(values(frame, "qmemories"), learned, values(frame, "qconversation", ""), strict=True)
            more = {"qmemories": [None if known is None else _with_learned(known, one, session) for known, one, session in rows]}
        return with_columns(frame, qptkb=[one.ptkb for one in learned], qlearned=[one.statements for one in learned], **more)

    def _learned(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Learned]:
        taken = [{one["id"] for one in memories or ()} for memories in values(frame, "qmemories")]
        rows = zip(found, self.personas(frame), self._conversations(frame), taken, strict=True)
        return [merge(pieces, ptkb, self._asked(_said(messages)), ids) for pieces, ptkb, messages, ids in rows]

    def _conversations(self, frame: pd.DataFrame) -> list[list[dict[str, str]]]:
        """The messages of each row, the question last."""
        rows = zip(histories(frame), self.questions(frame), strict=True)
        return [[*history, {"role": "user", "content": question}] for history, question in rows]

    def _asked(self, said: dict[int, str]) -> dict[int, str]:
        """The user's messages to learn from."""
        return {number: text for number, text in said.items() if self.messages is None or number > len(said) - self.messages}

    def _context(self, messages: Sequence[dict[str, str]]) -> str:
        places = [place for place, message in enumerate(messages) if message["role"] == "user"]
        numbers = {place: number for number, place in enumerate(places, 1)}
        first = 0 if self.messages is None else max(len(places) - self.messages, 0)
        start = 0 if self.messages is None else places[max(first - EARLIER, 0)]
        shown = {place - start: numbers[place] for place in places[first:]}
        return history_text(messages[start:], self.style, shown)


def _with_learned(memories: Sequence[Mapping[str, Any]], learned: Learned, session: str) -> list[dict[str, Any]]:
    """The memories of a turn after it: those that were contradicted have an end, and the new ones are there."""
    now, gone = utc(None), {number for one in learned.statements for number in one["replaces"]}
    before = [{**one, "until": now} if one["id"] in gone and one["until"] is None else dict(one) for one in memories]
    new = [{**one, "when": now, "until": None, "session": session, "turn": one["message"]} for one in learned.statements]
    return [*before, *({name: value for name, value in one.items() if name != "message"} for one in new)]


def _said(messages: Sequence[dict[str, str]]) -> dict[int, str]:
    """The user's messages by number."""
    return dict(enumerate((message["content"] for message in messages if message["role"] == "user"), 1))
