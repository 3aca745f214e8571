"""The limits on a response of an interactive run: 250 tokens, 1000 citations, finite scores."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from ...completions.citations import whole_sentences
from ...errors import DataError, UsageError
from ...runs.answered_turn import strip_controls
from ...submit.checks import PASSAGES, six_decimals
from ...submit.submissions import lower_score

TOKENS = 250
"""The most tokens of a response; the server refuses a longer one."""
LOOKAHEAD = 200
"""Characters."""
STEP = 2e-6
"""The least difference of two scores that six decimals show."""


@cache
def tokenizer() -> Any:
    """The blank English tokenizer of spaCy, with which the server counts.

    Raises:
        UsageError: when spaCy is not installed.
    """
    try:
        import spacy
    except ImportError:
        raise UsageError("an interactive run counts tokens with spaCy: pip install 'pyterrier_ikat[live]'") from None
    return spacy.blank("en").tokenizer


def count_spacy_tokens(text: str) -> int:
    """The number of tokens of a text for spaCy's blank English tokenizer, which also counts punctuation marks and repeated spaces.

    Example:
        >>> count_spacy_tokens("I don't know, it's late.")
        9
    """
    return len(tokenizer()(text))


def cut_to_tokens(text: str, limit: int = TOKENS) -> str:
    """The longest beginning of ``text`` that ends where a sentence or a line ends and has at most ``limit`` tokens.

    A text within the limit is returned unchanged. If the first sentence alone exceeds the limit, it is cut after a token.

    Args:
        text: any text.
        limit: the most tokens, as :func:`count_spacy_tokens` counts them.

    Example:
        >>> cut_to_tokens("Oats are cheap. They keep well.", 5)
        'Oats are cheap.'
    """
    tokens = tokenizer()(text)
    if len(tokens) <= limit:
        return text
    if limit < 1:
        return ""
    beginning = text[: tokens[limit - 1].idx + len(tokens[limit - 1])]
    # The text behind it decides what is the end of a sentence: 3.5 has none after its point.
    whole = [part for part in whole_sentences(text[: len(beginning) + LOOKAHEAD]) if len(part) <= len(beginning)]
    for part in reversed(whole):
        if count_spacy_tokens(part) <= limit:
            return part
    beginning = beginning.rstrip()
    while count_spacy_tokens(beginning) > limit:  # a beginning may be divided otherwise than the whole text
        beginning = beginning[:-1].rstrip()
    return beginning


def fit_response(text: str, limit: int = TOKENS) -> tuple[str, int]:
    """A response that the server accepts, and how many tokens were cut off.

    Example:
        >>> fit_response("Oats are cheap. They keep well.", 5)
        ('Oats are cheap.', 4)
    """
    text = strip_controls(text).strip()  # as it will come back from the server
    fitting = cut_to_tokens(text, limit)
    return fitting, 0 if fitting == text else count_spacy_tokens(text) - count_spacy_tokens(fitting)


def fit_citations(qid: str, ranking: Mapping[str, float]) -> dict[str, float]:
    """The best 1000 passages of a ranking, with scores that decrease strictly, also with six decimals as evaluation tools read them.

    Args:
        qid: the turn, for errors.
        ranking: docno -> score, best first.

    Raises:
        DataError: when a score is not finite.

    Example:
        >>> fit_citations("1-1_1", {"clueweb22-en0001-00-00001:0": 2.5, "clueweb22-en0001-00-00001:1": 1.0})
        {'clueweb22-en0001-00-00001:0': 2.5, 'clueweb22-en0001-00-00001:1': 1.0}
    """
    cited: dict[str, float] = {}
    before: float | None = None
    for docno, score in list(ranking.items())[:PASSAGES]:
        if not math.isfinite(score):
            raise DataError(
                f"turn {qid}: passage {docno} has the score {score}, and a citation needs a finite one: correct the stage that scores, and "
                "start again; the run continues with this turn"
            )
        before = float(score) if before is None else lower_score(float(score), before, six_decimals, STEP)
        cited[str(docno)] = before
    return cited
