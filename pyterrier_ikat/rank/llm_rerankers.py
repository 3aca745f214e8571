"""Re-ranking by a language model.

It gives each passage a relevance label (LLaMA10), or orders windows of passages (RankGPT).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..completions.kinds import LABEL, RANKING
from ..conversations.frame import texts_in, turns_of, values
from ..errors import UsageError
from ..llm_operator import LLMOperator
from ..llms import LLMFailure, Request
from ..operator import with_fields
from ..order import positions_by_rank, set_ranks
from ..planning import Plan

UNJUDGED = -1


@with_fields
class LLMRerank(LLMOperator):
    """Keep each turn's ``depth`` best passages, ordered by the model's relevance labels (0 to 4).

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
    least = {"depth": 1}

    depth: int = 10
    question: str = field(default="query", init=False)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """Make one request per row, identified by its passage."""
        qids = frame["qid"]
        queries = self.questions(frame)
        docnos = values(frame, "docno")
        texts = texts_in(frame, "text")
        requests = []
        for qid, query, docno, text in zip(qids, queries, docnos, texts, strict=True):
            values_shown = {"question": query, "passage": text}
            requests.append(self.request(qid, values_shown, "rerank", docno))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[int]:
        """Give every passage a value below every label."""
        return [UNJUDGED] * len(frame)

    def typical(self, frame: pd.DataFrame) -> list[int]:
        """Give every passage label 2."""
        return [2] * len(frame)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count a request for each of a turn's ``depth`` best passages, or fewer after a cutoff."""
        plan.ask(self, plan.passages(frame, min(self.depth, plan.cut)))
        return frame

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Order each turn by label, then by the old rank.

        The score is the label plus a fraction that keeps this order strict.
        """
        turn = turns_of(frame)
        label = np.array(list(outcomes), dtype=np.float64)
        order = np.lexsort((frame["rank"].to_numpy(dtype=np.float64), -label, turn))
        judged = set_ranks(frame.take(order).reset_index(drop=True), turn[order])
        return set_ranks(judged, turn[order], label[order] + 1 / (judged["rank"].to_numpy() + 2))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Judge and re-order a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "rank", "text"], context=self)
        positions = positions_by_rank(turns_of(inp), inp["rank"].to_numpy(dtype=np.float64))
        top = inp[positions < self.depth].reset_index(drop=True)
        return self.ask_and_write(top)


def windows(count: int, window: int, stride: int) -> list[range]:
    """Return the windows over the first ``count`` passages of a ranking, the last window first.

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
        order: the positions of all passages, from 0, each once.
        repairs: in words, one for each missing, repeated or invented number.
    """

    order: list[int]
    repairs: list[str]


def permutation(numbers: Sequence[int], size: int) -> Permutation:
    """Return the order of ``size`` passages whose numbers, from 1, are in ``numbers``.

    A repeated number counts at its first position. Invented numbers are ignored. Passages without a
    number follow in their original order.

    Example:
        >>> order, repairs = permutation([3, 1, 3, 7], 4)
        >>> order
        [2, 0, 1, 3]
        >>> repairs
        ['no passage 7', '3 again', '2 missing', '4 missing']
    """
    times = Counter(number for number in numbers if 1 <= number <= size)
    missing = [number for number in range(1, size + 1) if number not in times]
    repairs = [f"no passage {number}" for number in numbers if not 1 <= number <= size]
    for number in times:
        repairs += [f"{number} again"] * (times[number] - 1)
    repairs += [f"{number} missing" for number in missing]
    return Permutation([number - 1 for number in (*times, *missing)], repairs)


class WindowedTurn(NamedTuple):
    """A turn that is re-ranked window by window.

    Attributes:
        qid: its qid.
        rows: the rows of its passages in the frame, by rank.
        shown: the other values in its prompts.
        windows: positions in ``rows``, in the order in which the windows are sent.
    """

    qid: str
    rows: list[int]
    shown: dict[str, Any]
    windows: list[range]


@with_fields
class ListwiseRerank(LLMOperator):
    """Re-rank each turn's ``k`` best passages by an LLM that orders one window of them per call.

    The LLM sees the conversation and the passages of the window.

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
        >>> passages = pd.DataFrame({
        ...     "docno": ["a", "b", "c"], "text": ["Coffee.", "Milk.", "Rooibos."],
        ...     "rank": [0, 1, 2]})
        >>> ranking = turn.merge(passages, "cross")
        >>> ikat.ListwiseRerank(ikat.llm(Model()))(ranking)["docno"].tolist()
        ['c', 'a', 'b']
    """

    one_row_per_turn = False
    stage = "listwise"
    kind = RANKING
    activity = "re-ranking {passages}"
    schematic = {"label": "Listwise rerank"}
    least = {"k": 1, "stride": 1, "words": 1, "window": 2}

    k: int = 100
    window: int = 20
    stride: int = 10
    _: KW_ONLY
    words: int = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride > self.window:
            raise UsageError(
                f"stride={self.stride} is larger than window={self.window}: "
                "passages between two windows would be skipped"
            )

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """Make the request of every window, assuming that each keeps its order."""
        texts = self._texts(frame)
        requests = []
        for turn in self._turns(frame):
            for window in turn.windows:
                requests.append(self._request(turn, turn.rows, window, texts))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[list[int]]:
        """Give each window no numbers, so that it keeps its order."""
        window_count = sum(len(turn.windows) for turn in self._turns(frame))
        return [[] for _ in range(window_count)]

    def typical(self, frame: pd.DataFrame) -> list[list[int]]:
        """Give each window all its numbers."""
        numbers = []
        for turn in self._turns(frame):
            for window in turn.windows:
                numbers.append(list(range(1, len(window) + 1)))
        return numbers

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count a request for each window over the ``k`` best passages, or fewer after a cutoff."""
        plan.ask(self, plan.passages(frame, min(self.k, plan.cut)))
        return frame

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """List the numbers that are missing or repeated, or don't belong to a passage."""
        dropped = []
        remaining = iter(outcomes)
        for turn in self._turns(frame):
            for window in turn.windows:
                numbers = next(remaining)
                if not numbers:  # a failed window keeps its order
                    continue
                where = f"turn {turn.qid}, passages {window.start + 1}-{window.stop}"
                for repair in permutation(numbers, len(window)).repairs:
                    dropped.append(f"{where}: {repair}")
        return dropped

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Put the passages of each turn in their new order."""
        rows = []
        first = 0
        for turn in self._turns(frame):
            last = first + len(turn.windows)
            rows += _reordered(turn, outcomes[first:last])
            first = last
        return set_ranks(frame.take(rows).reset_index(drop=True), turns_of(frame)[rows])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        pt.validate.result_frame(inp, extra_columns=[*self.needs(), "rank", "text"], context=self)
        return self.ask_and_write(inp)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Ask for all windows, and return the frame that :meth:`write` makes of the outcomes.

        Raises:
            StageError: when a request failed and ``on_error`` is ``"raise"``. Then the later
                windows of its turn are not sent.
        """
        texts = self._texts(frame)
        turns = [turn for turn in self._turns(frame) if turn.windows]

        def follow(number: int, outcomes: list[Any]) -> Request | None:
            turn = turns[number]
            outcomes[-1] = self._checked(turn, turn.windows[len(outcomes) - 1], outcomes[-1])
            if len(outcomes) == len(turn.windows):
                return None
            if self.fails and isinstance(outcomes[-1], LLMFailure):
                return None
            rows = _reordered(turn, outcomes)
            return self._request(turn, rows, turn.windows[len(outcomes)], texts)

        firsts = [self._request(turn, turn.rows, turn.windows[0], texts) for turn in turns]
        window_count = sum(len(turn.windows) for turn in turns)
        of_turns = self.ask_in_rounds(firsts, follow, window_count)
        outcomes: list[Any] = []
        for of_turn in of_turns:
            outcomes += of_turn
        return self.write(frame, self.settle(frame, outcomes))

    def _turns(self, frame: pd.DataFrame) -> list[WindowedTurn]:
        """Return the turns in the order of their first rows."""
        turn = turns_of(frame)
        position = positions_by_rank(turn, frame["rank"].to_numpy(dtype=np.float64))
        rows_by_turn: list[list[int]] = [[] for _ in range(turn.max(initial=-1) + 1)]
        for row in np.lexsort((position, turn)):
            rows_by_turn[turn[row]].append(int(row))
        first_rows = [rows[0] for rows in rows_by_turn]
        contexts = self.contexts(frame.take(first_rows))
        turns = []
        for rows, context in zip(rows_by_turn, contexts, strict=True):
            qid = frame["qid"].iloc[rows[0]]
            of_turn = windows(min(self.k, len(rows)), self.window, self.stride)
            turns.append(WindowedTurn(qid, rows, context, of_turn))
        return turns

    def _texts(self, frame: pd.DataFrame) -> list[str]:
        return [" ".join(text.split()[: self.words]) for text in texts_in(frame, "text")]

    def _request(
        self, turn: WindowedTurn, rows: Sequence[int], window: range, texts: Sequence[str]
    ) -> Request:
        passages = [texts[rows[position]] for position in window]
        values_shown = {**turn.shown, "passages": passages}
        item = f"{window.start + 1}-{window.stop}"
        return self.request(turn.qid, values_shown, self.template(), item)

    def _checked(self, turn: WindowedTurn, window: range, outcome: Any) -> Any:
        """Return the outcome, or a failure if none of its numbers belongs to a passage."""
        if isinstance(outcome, LLMFailure):
            return outcome
        if any(1 <= number <= len(window) for number in outcome):
            return outcome
        self.count(failures=1)
        numbers = ", ".join(map(str, outcome[:5]))
        reason = f"the completion names {numbers}, and no passage from 1 to {len(window)}"
        return LLMFailure(self.stage, turn.qid, reason, kept=True)


def _reordered(turn: WindowedTurn, outcomes: Sequence[Any]) -> list[int]:
    """Return the rows of a turn's passages in the order that the windows so far have made."""
    rows = list(turn.rows)
    for window, numbers in zip(turn.windows, outcomes, strict=False):
        if isinstance(numbers, LLMFailure):
            continue
        before = rows[window.start : window.stop]
        order = permutation(numbers, len(window)).order
        rows[window.start : window.stop] = [before[position] for position in order]
    return rows
