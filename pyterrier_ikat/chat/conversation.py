"""A conversation with a system, turn by turn: it is kept as messages and saved as a topics file."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..conversations import conversation
from ..errors import UsageError
from ..llms import LLM
from ..operator import parts_of
from ..store.files import atomic_write
from .answering import HISTORY, Tell, answer
from .turn import ChatTurn, clean_text


class Chat:
    """Talk to a system: each of its answers becomes part of the history of the next turn.

    As in a run, every turn is a frame of one row (see ``ikat.conversation``). A saved chat is a topics file, and reading it gives the
    frames that the system saw. A failed turn is not kept and can be repeated.

    Args:
        system: a pipeline from turns to passages. The response is that of ``Respond``; a system without ``Respond`` shows only passages.
        ptkb: the statements about the user: a dict id -> statement, or a list of statements.
        number: the conversation's name; qids are ``<number>_<turn>``.
        save_to: a new file; the chat is saved in it after each turn.
        script: the required utterances, turn by turn, for an LLM that replays recorded completions, because these are recorded by turn.

        method: the system's name.
        history: the most tokens of the conversation that a turn sees, see :func:`~pyterrier_ikat.chat.answering.answer`.

    Attributes:
        turns: the turns so far.
        saved: how many of them are in ``save_to``.

    Raises:
        UsageError: when ``number`` isn't one word, an LLM asks in batches, or ``save_to`` already exists or can't be written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.chat import Chat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return ["Rooibos has none." for chat in chats]
        >>> chat = Chat(ikat.Answer(ikat.llm(Echo())), ["I avoid caffeine."])
        >>> chat.say("Which tea may I drink?")
        Rooibos has none.
        >>> chat.messages()[-1]
        {'role': 'assistant', 'content': 'Rooibos has none.'}
    """

    def __init__(
        self,
        system: pt.Transformer,
        ptkb: Mapping[str, str] | Sequence[str] | None = None,
        *,
        number: str = "chat",
        save_to: str | Path | None = None,
        script: Sequence[str] | None = None,
        method: str = "",
        history: int | None = HISTORY,
    ) -> None:
        if len(number.split()) != 1:
            raise UsageError(f"the conversation's name {number!r} can't be part of a qid: give one word, such as chat-1")
        if any(isinstance(part, LLM) and part.batches is not None for part in parts_of(system)):
            raise UsageError("a chat can't wait a day for its answers: omit batch=on in the specification of the LLM")
        self.system = system
        self.ptkb = dict(ptkb) if isinstance(ptkb, Mapping) else {str(place): text for place, text in enumerate(ptkb or [], 1)}
        self.number, self.method, self.history = number, method, history
        self.script = script
        self.save_to = None if save_to is None else _new_file(Path(save_to))
        self.turns: list[ChatTurn] = []
        self.saved = 0

    def say(self, text: str, tell: Tell | None = None) -> ChatTurn:
        """Say something, and get the system's turn.

        Args:
            text: the utterance.
            tell: gets a few words on each step as it begins, such as "searching 5 queries".

        Raises:
            UsageError: when the text is empty or differs from the recorded conversation; also when the chat can't be saved, but then the
                turn is kept in ``turns``.
            IkatError: when the system fails; the turn isn't kept.
        """
        utterance = self._check(text)
        frame = conversation([*self.messages(), {"role": "user", "content": utterance}], self.ptkb, number=self.number)
        turn = answer(self.system, frame, tell, method=self.method, history=self.history)
        self.turns.append(turn)
        if self.save_to is not None:
            self.save(self.save_to)
            self.saved = len(self.turns)
        return turn

    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, as the history of the next turn; a turn without a response adds only its utterance."""
        said = ((role, text) for turn in self.turns for role, text in (("user", turn.utterance), ("assistant", turn.response)))
        return [{"role": role, "content": text} for role, text in said if text]

    def expected(self) -> str | None:
        """The script's next utterance; None without a script, or after its end."""
        return self.script[len(self.turns)] if self.script and len(self.turns) < len(self.script) else None

    def topics(self) -> list[dict[str, Any]]:
        """The chat as a topics file of TREC iKAT 2023 and 2024; ``response_provenance`` has the passages that were used."""
        turns = []
        for turn in self.turns:
            used = [source.docno for source in turn.sources] if turn.response else []
            turns.append({"turn_id": turn.turn_id, "utterance": turn.utterance, "response": turn.response, "response_provenance": used})
        return [{"number": self.number, "title": "", "ptkb": self.ptkb, "turns": turns}]

    def save(self, path: str | Path) -> Path:
        """Write the chat as a topics file that ``read_topics`` reads, whole or not at all.

        Raises:
            UsageError: when nothing was said yet, or the file can't be written.
        """
        if not self.turns:
            raise UsageError("nothing to save: a topics file has at least one turn")
        text = json.dumps(self.topics(), ensure_ascii=False, indent=1).encode("utf-8", "replace")
        try:
            with atomic_write(path, "wb") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"the chat can't be saved in {path} ({error.strerror}): save it elsewhere") from None
        return Path(path)

    def _check(self, text: str) -> str:
        utterance = clean_text(text)
        if not utterance:
            raise UsageError("there is nothing to answer: say something")
        if self.script is None:
            return utterance
        turn, wanted = f"{self.number}_{len(self.turns) + 1}", self.expected()
        if wanted is None:
            raise UsageError(f"the recorded conversation {self.number} has only {len(self.script)} turns: go on with a live LLM")
        if utterance.split() != wanted.split():
            raise UsageError(
                f"the LLM's completions are recorded, and those of turn {turn} answer only {wanted!r}: say that, or choose a live LLM"
            )
        return utterance

    def __repr__(self) -> str:
        return "\n\n".join(f"you> {turn.utterance}\n{turn!r}" for turn in self.turns) or f"<chat {self.number}: nothing said yet>"

    def _repr_html_(self) -> str:
        return "".join(turn._repr_html_() for turn in self.turns) or f"<i>chat {self.number}: nothing said yet</i>"


def _new_file(path: Path) -> Path:
    if path.exists():
        raise UsageError(f"{path} already exists: save the chat in a new file")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"the chat can't be saved in {path}: {there} can't be written to; give another file")
    return path
