"""Why a turn is lost, as one of six kinds, from the stored work of the losing run's stages.

The kinds are tried in this order, and the first that fits is the turn's:

=====================  ==============================================================================================
not judged             more than half of the loser's first passages have no label. Where the judgements name relevant
                       passages only, no label means not relevant
never retrieved        no retriever of the loser found a passage from which the winner gains
query lost a word      a word of the winner's queries is in more than half of the relevant passages, in at most half of the passages
                       that the loser has instead, and in none of the loser's queries
not re-ranked high     the loser found such a passage, and its re-ranker did not place it among the first
pushed down            a passage that is labelled not relevant is before it in the loser, but not in the winner
unknown                none of these
=====================  ==============================================================================================

The first passages are those that the measure uses, at most ten.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ...errors import counted
from ...retrieve.words import ascii_text, plain_tokens, stem, stop_terms
from .material import RunData

KINDS = ("not judged", "never retrieved", "query lost a word", "not re-ranked high", "pushed down", "unknown")
NOT_JUDGED, NEVER_RETRIEVED, LOST_WORD, NOT_RANKED_HIGH, PUSHED_DOWN, NO_KIND = range(len(KINDS))
FIRST = 10
"""How many passages of a run are examined; fewer if the measure uses fewer."""
WORDS = 2
"""How many lost words are named."""
STEMMER = "porter2"
MORE_COMMON = frozenset({"can", "may", "like", "use", "make"})
"""Stems that say nothing about a subject, and that are not among Terrier's stop words."""


@dataclass(frozen=True)
class Evidence:
    """A run's work on a turn.

    Attributes:
        words: the important words of its queries, by their stems; empty if the queries are unknown.
        beyond: passages that its retrievers found and that are not in its ranking.
        reranked: whether a re-ranker scored the turn.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    beyond: Set[str] = frozenset()
    reranked: bool = False


@dataclass(frozen=True)
class Lost:
    """A turn that a run loses against another one.

    Attributes:
        winner: the name of the run that is better.
        loser: the name of the other one.
        ranks: the rank from 1 of each passage of the loser, the best first.
        gained: the passages from which the winner gains, the most important first.
        intruders: passages that are not relevant and that only in the loser are before the first of these, the best first.
        labels: the turn's judgements.
        relevant: the turn's relevant passages.
        end: the first rank that doesn't count: after those that the measure uses, and after ``FIRST``.
        graded: whether the judgements also have passages that are not relevant.
    """

    winner: str
    loser: str
    ranks: Mapping[str, int]
    gained: Sequence[str]
    intruders: Sequence[str]
    labels: Mapping[str, int]
    relevant: Set[str]
    end: float
    graded: bool = True


def words_that_matter(text: str) -> dict[str, str]:
    """The words of an English text without the most common ones, by their stems.

    Example:
        >>> words_that_matter("Which teas are those?")
        {'tea': 'teas'}
    """
    words = plain_tokens(ascii_text(text))
    stems, common = stem(words, STEMMER), stop_terms("terrier", STEMMER) | MORE_COMMON
    return {one: word for one, word in zip(stems, words, strict=True) if one not in common}


def evidence_of(run: RunData, qid: str) -> Evidence:
    """A run's work on a turn, as far as it was stored."""
    turn: Mapping[str, Any] = run.turns.get(qid, {})
    queries = [*(turn.get("searched") or ()), *(turn.get("qsubqueries") or ())]
    return Evidence(words_that_matter(" ".join(queries)), run.beyond.get(qid, frozenset()), qid in run.reranked)


def kind_of(turn: Lost, ours: Evidence, theirs: Evidence, words: Mapping[str, Set[str]], called: Mapping[str, str]) -> tuple[int, str]:
    """The number of the kind in ``KINDS``, and a sentence about it.

    Args:
        turn: the lost turn.
        ours: the winner's work.
        theirs: the loser's work.
        words: docno -> the stems of its words, for passages with a known text.
        called: docno -> the name of the passage.

    Example:
        >>> turn = Lost("aqd", "qr", {"b": 1}, ["a"], [], {"a": 2, "b": 0}, {"a"}, 4)
        >>> kind_of(turn, Evidence(), Evidence(), {}, {})
        (1, 'qr never retrieved a.')
    """
    first = [docno for docno, rank in turn.ranks.items() if rank < turn.end]
    unknown = sum(docno not in turn.labels for docno in first)
    if turn.graded and 2 * unknown > len(first):
        return NOT_JUDGED, f"Not judged: {unknown} of the first {counted(len(first), 'passage')} of {turn.loser}."
    found = [docno for docno in turn.gained if docno in turn.ranks or docno in theirs.beyond]
    if turn.gained and not found:
        what = called.get(turn.gained[0], turn.gained[0]) if len(turn.gained) == 1 else f"any of these {len(turn.gained)} passages"
        return NEVER_RETRIEVED, f"{turn.loser} never retrieved {what}."
    if lost := _lost_words(turn, ours, theirs, words, first):
        return LOST_WORD, f"The query of {turn.loser} lacks {' and '.join(lost)}."
    return _ranked(turn, theirs, found, called)


def _lost_words(turn: Lost, ours: Evidence, theirs: Evidence, words: Mapping[str, Set[str]], first: Sequence[str]) -> list[str]:
    """The most shared words that are not in the loser's queries, each with the number of relevant passages that have it."""
    relevant = [words[docno] for docno in sorted(turn.relevant) if docno in words]
    others = [words[docno] for docno in first if docno in words and docno not in turn.relevant]
    if not theirs.words or not relevant:
        return []
    shared = []
    for one, word in ours.words.items():
        having = sum(one in known for known in relevant)
        elsewhere = sum(one in known for known in others)
        if one not in theirs.words and 2 * having > len(relevant) and 2 * elsewhere <= len(others):
            shared.append((having, -elsewhere, word))
    best = sorted(shared, key=lambda one: one[:2], reverse=True)[:WORDS]
    return [f"“{word}” (in {having} of {counted(len(relevant), 'relevant passage')})" for having, _, word in best]


def _ranked(turn: Lost, theirs: Evidence, found: Sequence[str], called: Mapping[str, str]) -> tuple[int, str]:
    """The kind of a turn with retrieved passages."""
    low = [docno for docno in found if turn.ranks.get(docno, turn.end) >= turn.end]
    if theirs.reranked and low:
        rank = turn.ranks.get(low[0])
        where = f"at rank {rank}" if rank else "out of its ranking"
        return NOT_RANKED_HIGH, f"{turn.loser} retrieved {called.get(low[0], low[0])}, and re-ranking left it {where}."
    judged = [docno for docno in turn.intruders if docno in turn.labels]
    if judged:
        return PUSHED_DOWN, f"Pushed down by {called.get(judged[0], judged[0])}, labelled not relevant."
    return NO_KIND, ""
