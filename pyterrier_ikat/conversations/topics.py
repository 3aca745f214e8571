"""The conversations of a collection, and the frames made of them.

The frames are the turn frame, gold answers, and qrels from gold fields.
:mod:`~pyterrier_ikat.conversations.topic_files` reads conversations from files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from .frame import TOPIC_COLUMNS, frame_of_rows, object_frame, with_columns, with_query
from .passage_fields import CollectionWarning as CollectionWarning
from .qrels import qrels_frame

MANUAL_COLUMNS = ("qresolved", "qgoldptkb")

ANSWERABILITY = ("answerable", "partial", "unanswerable", "conversational", "underspecified")
"""MTRAG's labels of a turn: the collection has an answer, a part of one, or none; the user asks
nothing; (MTRAG-UN) the question is unclear."""

Message = dict[str, str]


@dataclass(frozen=True)
class TopicTurn:
    """One exchange: the user's utterance, and the gold annotations of the collection's authors.

    Attributes:
        turn_id: the turn's number in its conversation, from 1.
        utterance: the user's original words.
        response: the gold answer.
        resolved: the manual rewrite; empty if the file has none.
        statements: ids of the gold PTKB statements, in the file's order, each once.
        passages: ids of the gold passages, in the file's order, each once.
        qid: its id in runs and qrels, if it isn't made from the numbers of the conversation and the
            turn.
        history: the messages before it, if they aren't the conversation's earlier turns.
        automatic: the organisers' automatic rewrite; empty if the file has none.
        answerability: whether the collection has an answer, one of :data:`ANSWERABILITY`; empty if
            unknown.
        category: what kind of question it is, in benchmarks of memories.
    """

    turn_id: int
    utterance: str
    response: str
    resolved: str = ""
    statements: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    qid: str = ""
    history: tuple[Message, ...] | None = None
    automatic: str = ""
    answerability: str = ""
    category: str = ""


@dataclass(frozen=True)
class Conversation:
    """One conversation of one user.

    Attributes:
        number: its name, ``"9-1"``; a number in the file becomes a string.
        title: its subject. Systems must not use it.
        ptkb: statement id -> statement. The ids for a list are ``"1"``, ``"2"``, ...
        turns: the turns in order.
        facts: facts that others extracted from its statements, by id.
    """

    number: str
    title: str = ""
    ptkb: dict[str, str] = field(default_factory=dict)
    turns: tuple[TopicTurn, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)

    def qid(self, turn: TopicTurn) -> str:
        """Return the id of ``turn`` in runs and qrels: its own, or ``<number>_<turn_id>``."""
        return turn.qid or f"{self.number}_{turn.turn_id}"

    def histories(self, resolved: bool = False) -> list[list[Message]]:
        """Return the messages before each turn.

        Args:
            resolved: whether manual rewrites, if there are any, replace the utterances.
        """
        histories: list[list[Message]] = []
        messages: list[Message] = []
        for turn in self.turns:
            before = messages if turn.history is None else turn.history
            histories.append(list(before))
            words = turn.utterance
            if resolved and turn.resolved.strip():
                words = turn.resolved
            messages.append({"role": "user", "content": words})
            if turn.response:  # a collection may have none
                messages.append({"role": "assistant", "content": turn.response})
        return histories


def topics_frame(conversations: Iterable[Conversation], manual: bool = False) -> pd.DataFrame:
    """Make the turn frame, one row per turn: see :mod:`pyterrier_ikat.conversations.frame`.

    The history of turn t is its own, or turns 1..t-1 of the same conversation. It has raw
    utterances and gold responses, as the track allows (an automatic run knows the canonical past,
    but not turn t's own answer or any manual rewrite).

    Args:
        conversations: the result of :func:`~pyterrier_ikat.conversations.read_topics`.
        manual: whether to add the columns that only a manual run may use: ``qresolved``, the manual
            rewrite (the utterance if there is none), and ``qgoldptkb``, the list of the ids of the
            gold statements.

    Returns:
        ``qid``, ``query`` and ``qutterance`` (the raw utterance), ``qhistory``, ``qptkb``,
        ``qconversation``, ``qturn``, and with ``manual`` ``qresolved`` and ``qgoldptkb``. Histories
        share their messages, and the turns of a conversation share their PTKB, so don't change them
        in place.

    Example:
        >>> rewrite = "Which tea has no caffeine?"
        >>> tea = TopicTurn(1, "Which tea is best?", "Rooibos.", rewrite, ("1",))
        >>> sleep = TopicTurn(2, "Does it help sleep?", "A little.")
        >>> chat = Conversation("1-1", ptkb={"1": "I avoid caffeine."}, turns=(tea, sleep))
        >>> for message in topics_frame([chat])["qhistory"].tolist()[1]:
        ...     print(message)
        {'role': 'user', 'content': 'Which tea is best?'}
        {'role': 'assistant', 'content': 'Rooibos.'}
        >>> topics_frame([chat], manual=True)["qresolved"].tolist()
        ['Which tea has no caffeine?', 'Does it help sleep?']
    """
    names = TOPIC_COLUMNS + MANUAL_COLUMNS if manual else TOPIC_COLUMNS
    rows: list[list[Any]] = []
    for chat in conversations:
        for turn, history in zip(chat.turns, chat.histories(), strict=True):
            first_cells = (chat.qid(turn), turn.utterance, turn.utterance, history)
            row = [*first_cells, chat.ptkb, chat.number, turn.turn_id]
            if manual:
                resolved = turn.resolved if turn.resolved.strip() else turn.utterance
                row += [resolved, list(turn.statements)]
            rows.append(row)
    return frame_of_rows(names, rows)


def with_automatic(frame: pd.DataFrame, conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Set the queries and ``qrewrite`` to the organisers' automatic rewrites.

    A turn without a rewrite has its utterance.
    """
    rewrite_of = {}
    for conversation in conversations:
        for turn in conversation.turns:
            rewrite_of[conversation.qid(turn)] = turn.automatic or turn.utterance
    rewrites = [rewrite_of[qid] for qid in frame["qid"]]
    return with_columns(with_query(frame, rewrites), qrewrite=rewrites)


def answers_frame(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Return the gold answers, for evaluation and never for a system.

    Returns:
        ``qid``, ``gold_answer``, and ``gold_answerability`` if a turn has one.
    """
    qids = []
    answers = []
    labels = []
    for conversation in conversations:
        for turn in conversation.turns:
            qids.append(conversation.qid(turn))
            answers.append(turn.response)
            labels.append(turn.answerability)
    columns = {"qid": qids, "gold_answer": answers}
    if any(labels):
        columns["gold_answerability"] = labels
    return object_frame(columns)


def provenance_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Make binary passage qrels from the gold provenance.

    Returns:
        ``qid``, ``docno``, ``label`` (1). A turn without provenance has no row.
    """
    rows = []
    for conversation in conversations:
        for turn in conversation.turns:
            qid = conversation.qid(turn)
            rows += [(qid, docno, 1) for docno in turn.passages]
    return qrels_frame(rows)


def ptkb_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Make PTKB qrels from the topics' own gold statements.

    Returns:
        ``qid``, ``docno`` (the statement id), ``label`` (0 or 1): each statement of the
        conversation for each of its turns.
    """
    rows = []
    for conversation in conversations:
        for turn in conversation.turns:
            qid = conversation.qid(turn)
            for statement_id in conversation.ptkb:
                label = int(statement_id in turn.statements)
                rows.append((qid, statement_id, label))
    return qrels_frame(rows)
