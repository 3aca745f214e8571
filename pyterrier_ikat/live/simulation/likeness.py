"""Is a simulated user like a human? It says the next utterance of humans' conversations, and what it says is compared with theirs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd

from ...arguments import one_of
from ...conversations import Conversation
from ...errors import DataError
from ...evaluation.reference_judges import words
from ...llms import Ledger, LLMFailure
from .players import Player, Situation, is_unusable, player_of
from .session import NEED, TRACK
from .simulation import KINDS, THREADS
from .track_policy import ANSWERED, similarities
from .users import SimulatedUser

READER = "human"
"""Stands for the system in the requests: the responses are those of the humans' conversations."""


def predict_utterances(
    conversations: Iterable[Conversation], user_llm: Any, *, users_by: str = NEED, ledger: Ledger | None = None
) -> pd.DataFrame:
    """Let a simulated user say each next utterance of humans' conversations.

    The user reads the persona, the title as its need and its one open question, and the turns before: the human's utterances and the
    conversation's responses. It never sees the turn itself or a later one. First turns are omitted, because nothing is before them.

    Args:
        conversations: such as those of ``ikat.dataset("ikat:2025")``.
        user_llm: the model that plays the user, or any object with ``say``, as for :func:`~pyterrier_ikat.simulate`.
        users_by: the policy, as for :func:`~pyterrier_ikat.simulate`; of the track's, each response is taken to have answered.
        ledger: the account of a model that is given as text.

    Returns:
        A frame with a row for each turn: ``qid``, ``human`` (what the human said) and ``said`` (what the user says; empty where the model
        twice gave no utterance).

    Raises:
        DataError: when a conversation has no title.
        LLMFailure: when the model can't be asked.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["How long is it?" for chat in chats]
        >>> data = ikat.dataset("ikat:sample")
        >>> predict_utterances(data.conversations[:1], ikat.llm(Model())).iloc[0].to_dict()
        {'qid': '1-1_2', 'human': 'The heath sounds lovely. And when would be a good time to set off?', 'said': 'How long is it?'}
    """
    one_of(tuple(KINDS), users_by=users_by)
    player = player_of(user_llm, None, ledger or Ledger(), KINDS[users_by][0])
    turns = [turn for one in conversations for turn in _turns(one, users_by)]
    with ThreadPoolExecutor(THREADS) as pool:
        said = list(pool.map(lambda turn: _said(player, turn[2]), turns))
    rows = [{"qid": qid, "human": human, "said": text} for (qid, human, _), text in zip(turns, said, strict=True)]
    return pd.DataFrame(rows, columns=["qid", "human", "said"])


def compare_utterances(human: Sequence[str], said: Sequence[str]) -> pd.DataFrame:
    """How like the human's utterances others are, pair by pair.

    Args:
        human: what the human said.
        said: what was said in its place. An empty text scores 0.

    Returns:
        A frame with a row for each pair: ``overlap``, the F measure of their words (lower-cased, each as often as it occurs);
        ``similarity``, the cosine of all-MiniLM-L6-v2; ``length``, the shorter's number of words over the longer's; ``kind``, whether both
        or neither are questions (have a question mark); and of what was said, ``words`` and ``question``.

    Raises:
        UsageError: when the extra ``[demo]``, which has the MiniLM, isn't installed.

    Example:
        >>> found = compare_utterances(["How many days is it?"], ["How long is the walk?"])
        >>> found[["overlap", "length", "kind", "words", "question"]].round(2).to_dict("records")
        [{'overlap': 0.4, 'length': 1.0, 'kind': True, 'words': 5, 'question': True}]
    """
    pairs = list(zip(human, said, strict=True))
    similar = similarities(human, said)
    return pd.DataFrame([_compared(*pair) | {"similarity": score if pair[1] else 0.0} for pair, score in zip(pairs, similar, strict=True)])


def _turns(one: Conversation, users_by: str) -> Iterator[tuple[str, str, Situation]]:
    if not one.title.strip():
        raise DataError(f"conversation {one.number} has no title, which is the user's need: give conversations with titles")
    user = SimulatedUser(one.number, list(one.ptkb.values()), one.title, {"need": one.title}, max(len(one.turns), 1))
    after = ANSWERED if users_by == TRACK else ""
    for number, (turn, before) in enumerate(zip(one.turns, one.histories(), strict=True), 1):
        if before:
            yield one.qid(turn), turn.utterance, Situation(user, READER, number, user.rubrics, tuple(before), after)


def _said(player: Player, situation: Situation) -> str:
    try:
        return player.say(situation)
    except LLMFailure as failure:
        if not is_unusable(failure):
            raise
        return ""


def _compared(human: str, said: str) -> dict[str, Any]:
    real, other = words(human), words(said)
    longer = max(len(real), len(other))
    return {
        "overlap": 2 * (Counter(real) & Counter(other)).total() / max(len(real) + len(other), 1),
        "length": min(len(real), len(other)) / max(longer, 1),
        "kind": ("?" in human) == ("?" in said),
        "words": len(other),
        "question": "?" in said,
    }
