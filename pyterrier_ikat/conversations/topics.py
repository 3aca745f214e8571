"""The conversations of a collection, and the frames made from them: the turn frame, gold answers, and qrels from gold fields."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd

from .frame import TOPIC_COLUMNS, object_frame, with_columns, with_query
from .qrels import qrels_frame

MANUAL_COLUMNS = ("qresolved", "qgoldptkb")

ANSWERABILITY = ("answerable", "partial", "unanswerable", "conversational", "underspecified")
"""MTRAG's labels of a turn: the collection has an answer, a part of one, or none; the user asks nothing; (MTRAG-UN) the question is
unclear."""

Message = dict[str, str]


@dataclass(frozen=True)
class TopicTurn:
    """One exchange: the user's utterance and what the organisers, or the authors of the collection, wrote for it.

    Attributes:
        turn_id: the turn's number in its conversation, from 1.
        utterance: the user's original words.
        response: the gold answer.
        resolved: the manual rewrite; empty if the file has none.
        statements: ids of the gold PTKB statements, in the file's order, each once.
        passages: ids of the gold passages, in the file's order, each once.
        qid: its id in runs and qrels, if it isn't made from the numbers of the conversation and the turn.
        history: the messages before it, if they aren't the conversation's earlier turns.
        automatic: the organisers' automatic rewrite; empty if the file has none.
        answerability: whether the collection has an answer, one of :data:`ANSWERABILITY`; empty if unknown.
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
        """The id of ``turn`` in runs and qrels: its own, or ``<number>_<turn_id>``."""
        return turn.qid or f"{self.number}_{turn.turn_id}"

    def histories(self, resolved: bool = False) -> list[list[Message]]:
        """The messages before each turn. With ``resolved``, manual rewrites, if there are any, replace the utterances."""
        found: list[list[Message]] = []
        messages: list[Message] = []
        for turn in self.turns:
            found.append(list(messages if turn.history is None else turn.history))
            words = turn.resolved if resolved and turn.resolved.strip() else turn.utterance
            messages.append({"role": "user", "content": words})
            if turn.response:  # a collection may have none
                messages.append({"role": "assistant", "content": turn.response})
        return found


def topics_frame(conversations: Iterable[Conversation], manual: bool = False) -> pd.DataFrame:
    """The turn frame of ``conversations``: one row per turn, see :mod:`pyterrier_ikat.conversations.frame`.

    The history of turn t is its own, or turns 1..t-1 of the same conversation. It has raw utterances and gold responses, as the track
    allows (an automatic run knows the canonical past, but not turn t's own answer or any manual rewrite).

    Args:
        conversations: the result of :func:`read_topics`.
        manual: whether to add the columns that only a manual run may use: ``qresolved``, the manual rewrite (the utterance if there is
            none), and ``qgoldptkb``, the list of the ids of the gold statements.

    Returns:
        ``qid``, ``query`` and ``qutterance`` (the raw utterance), ``qhistory``, ``qptkb``, ``qconversation``, ``qturn``, and with
        ``manual`` ``qresolved`` and ``qgoldptkb``. Histories share their messages, and the turns of a conversation share their PTKB, so
        don't change them in place.

    Example:
        >>> tea = TopicTurn(1, "Which tea is best?", "Rooibos.", "Which tea has no caffeine?", ("1",))
        >>> chat = Conversation("1-1", ptkb={"1": "I avoid caffeine."}, turns=(tea, TopicTurn(2, "Does it help sleep?", "A little.")))
        >>> topics_frame([chat])["qhistory"].tolist()[1]
        [{'role': 'user', 'content': 'Which tea is best?'}, {'role': 'assistant', 'content': 'Rooibos.'}]
        >>> topics_frame([chat], manual=True)["qresolved"].tolist()
        ['Which tea has no caffeine?', 'Does it help sleep?']
    """
    rows = []
    for chat in conversations:
        for turn, history in zip(chat.turns, chat.histories(), strict=True):
            gold = (turn.resolved if turn.resolved.strip() else turn.utterance, list(turn.statements))
            rows.append((chat.qid(turn), turn.utterance, turn.utterance, history, chat.ptkb, chat.number, turn.turn_id, *gold))
    names = TOPIC_COLUMNS + MANUAL_COLUMNS * manual
    return object_frame({name: [row[place] for row in rows] for place, name in enumerate(names)})


def with_automatic(frame: pd.DataFrame, conversations: Iterable[Conversation]) -> pd.DataFrame:
    """The turn frame with the organisers' automatic rewrites (or utterances if there are none) as its queries and in ``qrewrite``."""
    found = {conversation.qid(turn): turn.automatic or turn.utterance for conversation in conversations for turn in conversation.turns}
    rewrites = [found[qid] for qid in frame["qid"]]
    return with_columns(with_query(frame, rewrites), qrewrite=rewrites)


def answers_frame(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """The gold answers: ``qid``, ``gold_answer``, and ``gold_answerability`` if a turn has one; for evaluation, never for a system."""
    turns = [(conversation.qid(turn), turn) for conversation in conversations for turn in conversation.turns]
    columns = {"qid": [qid for qid, _ in turns], "gold_answer": [turn.response for _, turn in turns]}
    labels = [turn.answerability for _, turn in turns]
    return object_frame(columns | ({"gold_answerability": labels} if any(labels) else {}))


def provenance_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Binary passage qrels from the gold provenance: ``qid``, ``docno``, ``label`` (1). A turn without provenance has no row."""
    turns = ((conversation.qid(turn), turn) for conversation in conversations for turn in conversation.turns)
    return qrels_frame((qid, docno, 1) for qid, turn in turns for docno in turn.passages)


def ptkb_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """PTKB qrels from the topics' own gold statements.

    Returns:
        ``qid``, ``docno`` (the statement id), ``label`` (0 or 1): each statement of the conversation for each of its turns.
    """
    turns = ((conversation, turn) for conversation in conversations for turn in conversation.turns)
    return qrels_frame((chat.qid(turn), name, int(name in turn.statements)) for chat, turn in turns for name in chat.ptkb)
