"""Re-ranking by a language model: a relevance label for each passage (LLaMA10), or windows of passages that it orders (RankGPT)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..completions.kinds import LABEL, RANKING
from ..conversations.frame import texts_in, turns_of, values
from ..errors import UsageError
from ..llm_operator import LLMOperator
from ..llms import LLMFailure, Request
from ..operator import with_fields
from ..order import places_by_rank, set_ranks

if TYPE_CHECKING:
    from ..planning import Plan


UNJUDGED = -1


@with_fields
class LLMRerank(LLMOperator):
    """Keep each turn's ``depth`` best passages, ordered by the relevance label (0 to 4) that the model gives each passage.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text``; sets ``score`` and
    ``rank``. One call per passage. Passages with equal labels keep their order; the rest of the
    ranking is cut off, as in the run "llama2_only_10_docs". Source: Abbasiantaeb and Aliannejadi,
    Generate then Retrieve, section 4, LLaMA10. With ``on_error="fallback"`` a passage without a
    usable label comes after the judged ones.

    Args:
        llm: the model to ask.
        depth: the number of passages of each turn to judge and keep.
        style: as for the other LLM operators; the prompt is the same unless your own folder has a
            ``rerank_llama.jinja``.
        prompts: a folder of your own prompt templates.
        on_error: ``"raise"`` or ``"fallback"``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.LLMRerank(ikat.llm("recorded:sample"), depth=5)
        ikat.LLMRerank(ikat.llm('recorded:sample'), depth=5)
    """

    one_row_per_turn = False
    stage = "rerank"
    kind = LABEL
    activity = "re-ranking {passages}"
    schematic = {"label": "LLM rerank"}

    depth: int = 10
    question: str = field(default="query", init=False)

    def __post_init__(self) -> None:
        at_least(1, depth=self.depth)
        super().__post_init__()

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row, identified by its passage."""
        rows = zip(
            frame["qid"],
            self.questions(frame),
            values(frame, "docno"),
            texts_in(frame, "text"),
            strict=True,
        )
        return [
            self.request(qid, {"question": query, "passage": text}, "rerank", docno)
            for qid, query, docno, text in rows
        ]

    def fallback(self, frame: pd.DataFrame) -> list[int]:
        """A value below every label."""
        return [UNJUDGED] * len(frame)

    def typical(self, frame: pd.DataFrame) -> list[int]:
        """Label 2 for every passage."""
        return [2] * len(frame)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """One request for each of the ``depth`` best passages of a turn, and fewer if an earlier cutoff keeps fewer passages."""
        plan.ask(self, plan.passages(frame, min(self.depth, plan.cut)))
        return frame

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Order each turn by label, then by the old rank. The score is the label plus a fraction that keeps this order strict."""
        turn, label = turns_of(frame), np.array(list(found), dtype=np.float64)
        order = np.lexsort((frame["rank"].to_numpy(dtype=np.float64), -label, turn))
        judged = set_ranks(frame.take(order).reset_index(drop=True), turn[order])
        return set_ranks(judged, turn[order], label[order] + 1 / (judged["rank"].to_numpy() + 2))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Judge and re-order a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "rank", "text"], context=self)
        places = places_by_rank(turns_of(inp), inp["rank"].to_numpy(dtype=np.float64))
        top = inp[places < self.depth].reset_index(drop=True)
        return self.ask_and_write(top)


def windows(count: int, window: int, stride: int) -> list[range]:
    """The windows over the first ``count`` passages of a ranking, in the order in which they are sent: the last one first.

    Each window starts ``stride`` passages above the previous one, and the final window starts at
    the first passage. This makes 1 + ceil((count - window) / stride) windows. There is one window
    if all passages fit, and none if there is nothing to order. RankGPT's own code omits the first
    passages if ``stride`` doesn't divide ``count - window``.

    Example:
        >>> windows(45, 20, 10)
        [range(25, 45), range(15, 35), range(5, 25), range(0, 20)]
    """
    if count < 2:
        return []
    starts = [*range(count - window, 0, -stride), 0]
    return [range(start, min(start + window, count)) for start in starts]


class Permutation(NamedTuple):
    """The complete order of the passages of a window, with repairs of the completion.

    Attributes:
        order: the places of all passages, from 0, each once.
        repairs: in words, one for each missing, repeated or invented number.
    """

    order: list[int]
    repairs: list[str]


def permutation(numbers: Sequence[int], size: int) -> Permutation:
    """The order of ``size`` passages whose numbers, from 1, are in ``numbers``.

    A repeated number counts at its first place. Invented numbers are ignored. Passages without a
    number follow in their original order.

    Example:
        >>> permutation([3, 1, 3, 7], 4)
        Permutation(order=[2, 0, 1, 3], repairs=['no passage 7', '3 again', '2 missing', '4 missing'])
    """
    known = Counter(number for number in numbers if 1 <= number <= size)
    missing = [number for number in range(1, size + 1) if number not in known]
    repairs = [f"no passage {number}" for number in numbers if not 1 <= number <= size]
    repairs += [f"{number} again" for number, times in known.items() for _ in range(times - 1)]
    return Permutation(
        [number - 1 for number in (*known, *missing)],
        repairs + [f"{number} missing" for number in missing],
    )


class Turn(NamedTuple):
    """A turn that is re-ranked.

    Attributes:
        qid: its qid.
        rows: the rows of its passages in the frame, by rank.
        shown: the other values in its prompts.
        windows: positions in ``rows``, in the order in which they are sent.
    """

    qid: str
    rows: list[int]
    shown: dict[str, Any]
    windows: list[range]


@with_fields
class ListwiseRerank(LLMOperator):
    """Re-rank each turn's ``k`` best passages by an LLM that sees the conversation and one window of passages per call.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present,
    ``qutterance``, ``qhistory``, ``qptkb``; sets ``score`` (n, n-1, ..., 1) and ``rank``. Passages
    beyond ``k`` follow in their old order. Each window takes one call: 1 + ceil((k - window) /
    stride) calls per turn with ``k`` passages, 9 by default. The window slides from the last of the
    ``k`` passages to the first, so a good passage rises from window to window. If the model makes
    no mistake, the best ``window - stride`` passages end up in the right order, or all of them if
    ``k`` is at most ``window``. The windows of one turn are sent one after the other, and those of
    different turns concurrently.

    Numbers that a completion omits, repeats or invents are repaired, and each is counted in the
    ledger as ``dropped``. Omitted passages follow the others in their old order. A completion that
    names no passage is a failure. With ``on_error="fallback"``, its window keeps its order. Source:
    Sun et al., Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents
    (RankGPT, arXiv 2304.09542), and its code (sunnweiwei/RankGPT), with our wording and with the
    conversation instead of the query.

    Args:
        llm: the model to ask.
        k: the number of passages of each turn to re-rank.
        window: the number of passages per call.
        stride: how many passages the window moves up between two calls.
        words: the number of words of each passage shown in the prompt, from its beginning;
            RankGPT's code shows 300.

    Raises:
        UsageError: when ``stride`` is larger than ``window``, which would skip passages, or a
            number is too small.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["[3] > [1] > [2]" for chat in chats]
        >>> turn = ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"}])
        >>> passages = pd.DataFrame({"docno": ["a", "b", "c"], "text": ["Coffee.", "Milk.", "Rooibos."], "rank": [0, 1, 2]})
        >>> found = turn.merge(passages, "cross")
        >>> ikat.ListwiseRerank(ikat.llm(Model()))(found)["docno"].tolist()
        ['c', 'a', 'b']
    """

    one_row_per_turn = False
    stage = "listwise"
    kind = RANKING
    activity = "re-ranking {passages}"
    schematic = {"label": "Listwise rerank"}

    k: int = 100
    window: int = 20
    stride: int = 10
    _: KW_ONLY
    words: int = 300

    def __post_init__(self) -> None:
        at_least(1, k=self.k, stride=self.stride, words=self.words)
        at_least(2, window=self.window)
        if self.stride > self.window:
            raise UsageError(
                f"stride={self.stride} is larger than window={self.window}: passages between two windows would be skipped"
            )
        super().__post_init__()

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """Count the request of every window, assuming that each keeps its order."""
        texts = self._texts(frame)
        return [
            self._request(turn, turn.rows, one, texts)
            for turn in self._turns(frame)
            for one in turn.windows
        ]

    def fallback(self, frame: pd.DataFrame) -> list[list[int]]:
        """No numbers, so the window keeps its order."""
        return [[] for turn in self._turns(frame) for _ in turn.windows]

    def typical(self, frame: pd.DataFrame) -> list[list[int]]:
        """All numbers of each window."""
        return [list(range(1, len(one) + 1)) for turn in self._turns(frame) for one in turn.windows]

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """One request for each window over the ``k`` best passages of a turn, and fewer if an earlier cutoff keeps fewer passages."""
        plan.ask(self, plan.passages(frame, min(self.k, plan.cut)))
        return frame

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The numbers that are missing or repeated, or don't belong to a passage."""
        asked = [(turn.qid, one) for turn in self._turns(frame) for one in turn.windows]
        return [
            f"turn {qid}, passages {one.start + 1}-{one.stop}: {repair}"
            for (qid, one), numbers in zip(asked, found, strict=True)
            if numbers
            for repair in permutation(numbers, len(one)).repairs
        ]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Each turn in its new order."""
        turn, outcomes = turns_of(frame), iter(found)
        rows = [
            row
            for one in self._turns(frame)
            for row in _reordered(one, [next(outcomes) for _ in one.windows])
        ]
        return set_ranks(frame.take(rows).reset_index(drop=True), turn[rows])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        pt.validate.result_frame(inp, extra_columns=[*self.needs(), "rank", "text"], context=self)
        return self.ask_and_write(inp)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame that :meth:`write` makes of the outcomes of all windows.

        Raises:
            StageError: when a request failed and ``on_error`` is ``"raise"``. Then the later
                windows of its turn are not sent.
        """
        texts, turns = self._texts(frame), self._turns(frame)
        asked = [turn for turn in turns if turn.windows]

        def follow(place: int, outcomes: list[Any]) -> Request | None:
            turn = asked[place]
            outcomes[-1] = self._checked(turn, turn.windows[len(outcomes) - 1], outcomes[-1])
            ended = len(outcomes) == len(turn.windows) or (
                self.fails and isinstance(outcomes[-1], LLMFailure)
            )
            return (
                None
                if ended
                else self._request(
                    turn, _reordered(turn, outcomes), turn.windows[len(outcomes)], texts
                )
            )

        firsts = [self._request(turn, turn.rows, turn.windows[0], texts) for turn in asked]
        found = self.ask_in_rounds(firsts, follow, sum(len(turn.windows) for turn in asked))
        return self.write(
            frame, self.settle(frame, [outcome for outcomes in found for outcome in outcomes])
        )

    def _turns(self, frame: pd.DataFrame) -> list[Turn]:
        turn = turns_of(frame)
        place = places_by_rank(turn, frame["rank"].to_numpy(dtype=np.float64))
        order = np.lexsort((place, turn))
        rows = (
            [part.tolist() for part in np.split(order, np.flatnonzero(np.diff(turn[order])) + 1)]
            if len(order)
            else []
        )
        shown = self.contexts(frame.take([part[0] for part in rows]))
        qids = frame["qid"].tolist()
        return [
            Turn(
                qids[part[0]], part, row, windows(min(self.k, len(part)), self.window, self.stride)
            )
            for part, row in zip(rows, shown, strict=True)
        ]

    def _texts(self, frame: pd.DataFrame) -> list[str]:
        return [" ".join(text.split()[: self.words]) for text in texts_in(frame, "text")]

    def _request(
        self, turn: Turn, rows: Sequence[int], window: range, texts: Sequence[str]
    ) -> Request:
        passages = [texts[rows[place]] for place in window]
        item = f"{window.start + 1}-{window.stop}"
        return self.request(turn.qid, {**turn.shown, "passages": passages}, self.template(), item)

    def _checked(self, turn: Turn, window: range, outcome: Any) -> Any:
        """The outcome, or a failure if it has numbers but none of them belongs to a passage."""
        if isinstance(outcome, LLMFailure) or any(1 <= number <= len(window) for number in outcome):
            return outcome
        self.count(failures=1)
        reason = f"the completion names {', '.join(map(str, outcome[:5]))}, and no passage from 1 to {len(window)}"
        return LLMFailure(self.stage, turn.qid, reason, kept=True)


def _reordered(turn: Turn, outcomes: Sequence[Any]) -> list[int]:
    """The rows of a turn's passages in their order after as many windows as there are outcomes."""
    rows = list(turn.rows)
    for window, numbers in zip(turn.windows, outcomes, strict=False):
        if not isinstance(numbers, LLMFailure):
            within = rows[window.start : window.stop]
            rows[window.start : window.stop] = [
                within[place] for place in permutation(numbers, len(window)).order
            ]
    return rows
