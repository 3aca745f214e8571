"""The turn frame: one row per turn, a PyTerrier query frame whose own columns all start with ``q``.

====================================
============================================================================ ``qid``, ``query``
``9-1_3``; the text that the next stage uses, at first the raw utterance ``qutterance``
the raw utterance ``qhistory``                          list of ``{"role": "user" | "assistant",
"content": str}``, oldest first ``qptkb``                             dict statement id -> statement
``qmemories``                         where and when the user said them, and until when they hold, a
list of dicts ``qconversation``, ``qturn``          ``9-1``, 3 ``qrewrite``, ``qanswer``
newest rewrite, newest LLM answer ``qstatements``, ``qsuggestion``      chosen statements as a list
of (id, score), best first; what an answer would need ``qlearned``                          what
``UpdatePtkb`` learned about the user, a list of dicts ``qaction``, ``qaskback``             answer,
ask or abstain; the question to the user ``qcitations``                        for each sentence of
a response that cites: ``sentence``, ``docnos`` and ``unknown`` numbers ``qsubqueries``,
``qweights``         what the query generators wrote, before ``ExplodeQueries`` ``qsummary``,
``qsamples``            the history in short; what each of several samples wrote, a list of texts
for each ``qnewtopic``, ``qpreferences``       whether the question begins a new topic; the user's
preferences that matter, in words ``qid_0``, ``qquery``                 after ``ExplodeQueries``:
the turn's qid and query ``qsub``, ``qweight``                 after ``ExplodeQueries``: the
sub-query's number and weight ``query_0``, ...                      earlier queries, pushed by
PyTerrier's own convention ====================================
============================================================================

Text stays in object columns: pandas' string columns copy and convert, and a history repeated over
300,000 rows must stay one object.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count, takewhile
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..arguments import columns_once, is_missing
from ..errors import DataError, UsageError, counted, list_first

TOPIC_COLUMNS = ("qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn")
STALE_WITH_QUERY = ("query_toks", "query_vec")
"""Columns computed from ``query``. They are dropped when it changes."""


def conversation(
    messages: Sequence[Mapping[str, str]],
    ptkb: Mapping[str, str] | Sequence[str] | None = None,
    *,
    number: str = "chat",
    every_turn: bool = False,
    memories: Sequence[Mapping[str, Any]] | None = None,
    dated: bool = False,
) -> pd.DataFrame:
    """Turn a chat into a turn frame: one row for its last user message, with the rest as history, or one row per turn.

    Args:
        messages: chat messages ``{"role": "user" | "assistant", "content": text}``, oldest first;
            the last one is the user's.
        ptkb: statements about the user: a dict id -> statement, or a list of statements (ids
            ``"1"``, ``"2"``, ...). Ids given as whole numbers become texts.
        number: the conversation's name; the qid is ``<number>_<turn>``.
        every_turn: one row per message of the user, each with the messages before it. The chat may
            then end with an answer.
        memories: instead of ``ptkb``, the result of ``UserMemory.memories``.
        dated: whether ``qptkb``, and so prompts, show the date and the turn in which each of the
            memories was said.

    Returns:
        A frame with ``qid``, ``query``, ``qutterance``, ``qhistory``, ``qptkb``, ``qconversation``,
        ``qturn``; with memories also ``qmemories``.

    Raises:
        UsageError: when there is no message, a message lacks role or content, or the last one is
            not the user's.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> chat = [{"role": "user", "content": "Which tea has no caffeine?"},
        ...         {"role": "assistant", "content": "Rooibos."},
        ...         {"role": "user", "content": "And one against a cold?"}]
        >>> ikat.conversation(chat, ["I am allergic to chamomile."])[["qid", "query"]].values.tolist()
        [['chat_2', 'And one against a cold?']]
        >>> ikat.conversation(chat, every_turn=True)["qid"].tolist()
        ['chat_1', 'chat_2']
    """
    if memories is not None:
        if ptkb is not None:
            raise UsageError("ptkb and memories both say what is known of the user: omit one")
        found = conversation(
            messages, known_statements(memories, dated=dated), number=number, every_turn=every_turn
        )
        return with_columns(found, qmemories=[list(memories)] * len(found))
    for position, message in enumerate(messages, 1):
        if not is_message(message) or message["role"] not in ("user", "assistant"):
            raise UsageError(
                f'message {position} of the conversation is {repr(message)[:80]}: give {{"role": "user" or "assistant", "content": text}}'
            )
    said = list(map(dict, messages))
    asked = [place for place, message in enumerate(said) if message["role"] == "user"]
    if not asked or not (every_turn or said[-1]["role"] == "user"):
        raise UsageError(
            "a conversation ends with a message of the user: append the question; with every_turn=True, it needs one anywhere"
        )
    persona, places = (
        statements_of(ptkb),
        list(enumerate(asked, 1)) if every_turn else [(len(asked), asked[-1])],
    )
    rows = [
        (f"{number}_{turn}", *[said[place]["content"]] * 2, said[:place], persona, number, turn)
        for turn, place in places
    ]
    return object_frame(dict(zip(TOPIC_COLUMNS, zip(*rows, strict=True), strict=True)))


def column(values: Iterable[Any], index: pd.Index | None = None) -> pd.Series:
    """A Series of object dtype holding ``values`` as they are (lists and dicts too)."""
    return pd.Series(np.fromiter(values, dtype=object), index=index, dtype=object)


def object_frame(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """A frame whose columns all have object dtype."""
    return pd.DataFrame(
        {name: np.fromiter(values, dtype=object) for name, values in columns.items()}, dtype=object
    )


def with_columns(frame: pd.DataFrame, **columns: Iterable[Any]) -> pd.DataFrame:
    """A new frame with ``columns`` set as object columns. ``frame`` itself is not changed."""
    return frame.assign(**{name: column(values, frame.index) for name, values in columns.items()})


def with_query(frame: pd.DataFrame, texts: Iterable[str], **columns: Iterable[Any]) -> pd.DataFrame:
    """A new frame whose ``query`` is ``texts``, with other ``columns`` set as well.

    The old query is pushed to ``query_0``, and columns derived from it are dropped.
    """
    if stale := [name for name in STALE_WITH_QUERY if name in frame.columns]:
        frame = frame.drop(columns=stale)
    names = frame.columns.tolist()
    earlier = ["query", *takewhile(names.__contains__, map("query_{}".format, count()))]
    pushed = {name: f"query_{number}" for number, name in enumerate(earlier)}
    return with_columns(
        frame.set_axis([pushed.get(name, name) for name in names], axis=1), **columns, query=texts
    )


def values(frame: pd.DataFrame, name: str, default: Any = None) -> list[Any]:
    """The column ``name`` as a list, with ``default`` for rows without a value, or for all rows when there is no such column.

    Example:
        >>> values(pd.DataFrame({"qhistory": [[], None, float("nan")]}), "qhistory")
        [[], None, None]
    """
    if name not in frame.columns:
        return [default] * len(frame)
    found: list[Any] = frame[name].tolist()
    for place, value in enumerate(found):
        if is_missing(value):
            found[place] = default
        elif isinstance(value, np.ndarray):  # a list from a parquet file
            found[place] = value.tolist()
    return found


def personas(frame: pd.DataFrame, name: str = "qptkb") -> list[dict[str, str]]:
    """The statements about each row's user, by id. The ids of a list are ``"1"``, ``"2"``, ...

    A row without ``qptkb`` has the valid statements of its ``qmemories``.

    Args:
        frame: the turns.
        name: the column with the statements.

    Raises:
        DataError: naming the turn whose persona is neither.

    Example:
        >>> personas(pd.DataFrame({"qptkb": [{"1": "I'm vegan.", "2": None}, ["I like tea."], None]}))
        [{'1': "I'm vegan."}, {'1': 'I like tea.'}, {}]
    """
    found = values(frame, name)
    for row, memories in enumerate(values(frame, "qmemories") if name == "qptkb" else ()):
        if found[row] is None and memories is not None:
            found[row] = known_statements(memories)
    for row, ptkb in enumerate(found):
        try:
            found[row] = statements_of(ptkb)
        except UsageError as error:
            raise DataError(f"{_row(frame, row)} has the {name} {error}") from None
    return found


def known_statements(
    memories: Sequence[Mapping[str, Any]], *, dated: bool = False
) -> dict[str, str]:
    """The statements of valid memories, by id.

    Args:
        memories: a value of ``qmemories``.
        dated: whether to add the date of each statement and, if known, its turn.

    Example:
        >>> said = {"id": "1", "statement": "I am vegan.", "when": "2024-05-02T08:30:00.000Z", "session": "trip", "turn": 3, "until": None}
        >>> known_statements([said, {**said, "id": "2", "until": "2024-06-01T10:00:00.000Z"}])
        {'1': 'I am vegan.'}
        >>> known_statements([said], dated=True)
        {'1': 'I am vegan. (said 2024-05-02, trip, turn 3)'}
    """
    known = [one for one in memories if one["until"] is None]
    if not dated:
        return {one["id"]: one["statement"] for one in known}
    return {
        one["id"]: as_said(one["statement"], one["when"], one["session"], one["turn"])
        for one in known
    }


def as_said(statement: str, when: str, session: str, turn: int) -> str:
    """A statement with the date and the turn in which it was said, where it was said in one."""
    return f"{statement} (said {when[:10]}, {session}, turn {turn})" if session else statement


def histories(frame: pd.DataFrame) -> list[list[dict[str, str]]]:
    """The messages before each row's question, oldest first.

    Raises:
        DataError: naming the turn whose history is not a list of messages.

    Example:
        >>> histories(pd.DataFrame({"qhistory": [[{"role": "user", "content": "Hi"}], None]}))
        [[{'role': 'user', 'content': 'Hi'}], []]
    """
    found = values(frame, "qhistory")
    for row, history in enumerate(found):
        if history is None:
            found[row] = []
        elif not isinstance(history, list | tuple) or not all(map(is_message, history)):
            raise DataError(
                f"{_row(frame, row)} has the qhistory {repr(history)[:80]}: give a list of messages, each "
                '{"role": "user" or "assistant", "content": text}, oldest first'
            )
    return found


def is_message(message: Any) -> bool:
    """Whether this is a dict with a role and a content, both texts."""
    return (
        isinstance(message, Mapping)
        and isinstance(message.get("role"), str)
        and isinstance(message.get("content"), str)
    )


def is_persona(ptkb: Any) -> bool:
    """Whether this is a dict or list of statements, or None."""
    if isinstance(ptkb, Mapping):
        return all(isinstance(text, str) or is_missing(text) for text in ptkb.values())
    return ptkb is None or (
        isinstance(ptkb, list | tuple) and all(isinstance(text, str) for text in ptkb)
    )


def _row(frame: pd.DataFrame, row: int) -> str:
    return f"turn {frame['qid'].iloc[row]}" if "qid" in frame.columns else f"row {row}"


def statements_of(ptkb: Any) -> dict[str, str]:
    """The statements of one persona by id, see :func:`personas`.

    Raises:
        UsageError: when it is something else.
    """
    if not is_persona(ptkb):
        raise UsageError(
            f"ptkb={repr(ptkb)[:80]}: give a dict of statements by id, or a list of statements"
        )
    if not isinstance(ptkb, Mapping):
        return {str(number): text for number, text in enumerate(ptkb or [], 1)}
    found = dict[str, str]()
    for name, text in ptkb.items():
        if is_missing(text):  # a dict from a parquet file has the ids of all users
            continue
        if (number := statement_id(name)) in found:
            raise UsageError(
                f"ptkb={repr(ptkb)[:80]}: two statements have the id {number}: give each its own"
            )
        found[number] = text
    return found


def statement_id(name: Any) -> str:
    """The id of a statement as a text. It may be given as a whole number.

    Raises:
        UsageError: when it is something else.

    Example:
        >>> statement_id("1"), statement_id(1), statement_id(np.int64(1))
        ('1', '1', '1')
    """
    if isinstance(name, str):
        return name
    if isinstance(name, Integral) and not isinstance(name, bool):
        return str(int(name))
    raise UsageError(f"id {name!r} of a statement: give a text or a whole number")


def texts_in(frame: pd.DataFrame, name: str, blank: bool = True) -> list[str]:
    """The column ``name``, which must hold a text in every row; without ``blank``, none of white space only.

    Raises:
        DataError: naming the turns without one. ``None`` and ``nan`` are not questions.
    """
    found: list[Any] = frame[name].tolist()
    if odd := [
        qid
        for qid, text in zip(frame["qid"], found, strict=True)
        if not (isinstance(text, str) and (blank or text.strip()))
    ]:
        what = (
            f"{counted(len(odd), 'row has', 'rows have')} no text in {name}"
            + " that is not blank" * (not blank)
        )
        raise DataError(f"{what} (turns {list_first(odd)}): fill the column or omit these turns")
    return found


def well_formed(text: str) -> str:
    """The text with lone surrogates, which no tokenizer takes, as the replacement character.

    Example:
        >>> well_formed(chr(0xD800) + " tea")
        '� tea'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def starts_of_runs(qids: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    """The rows at which a new qid begins.

    Example:
        >>> starts_of_runs(column(["9-1_3", "9-1_3", "9-1_1"]).to_numpy()).tolist()
        [0, 2]
    """
    return np.flatnonzero(np.append(len(qids) > 0, qids[1:] != qids[:-1]))


def numbered(qids: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    """The number of each row's turn, in the order in which turns first occur.

    Raises:
        DataError: when a qid is missing.

    Example:
        >>> numbered(column(["9-1_3", "9-1_3", "9-1_1"]).to_numpy()).tolist()
        [0, 0, 1]
    """
    starts = starts_of_runs(qids)
    numbers = pd.factorize(qids[starts])[0].astype(np.int64)
    if (numbers < 0).any():
        row = int(starts[np.flatnonzero(numbers < 0)[0]])
        raise DataError(f"row {row} of the frame has no qid: give every row the qid of its turn")
    return np.repeat(numbers, np.diff(np.append(starts, len(qids))))


def turns_of(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The numbers of the rows' turns, by ``qid``; see :func:`numbered`."""
    return numbered(frame["qid"].to_numpy(dtype=object))


def with_text_ids(
    who: str, frame: pd.DataFrame, names: Sequence[str] = ("qid", "docno")
) -> pd.DataFrame:
    """The frame with the columns ``names`` as texts, also if they are categories. ``who`` names the frame in errors.

    Raises:
        DataError: when one holds anything else.

    Example:
        >>> found = with_text_ids("run AD", pd.DataFrame({"qid": ["9-1_3"]}, dtype="category"), ["qid"])
        >>> str(found["qid"].dtype), found["qid"].tolist()
        ('object', ['9-1_3'])
    """
    columns_once(frame, who)
    for name in names:
        if (
            pd.api.types.infer_dtype(frame[name]) in ("string", "empty")
            and not frame[name].isna().any()
        ):
            continue
        ids = frame[name].astype(object)
        if odd := [value for value in ids if not isinstance(value, str)]:
            raise DataError(
                f'{who}: the {name} {odd[0]!r} is not a text: omit the row, or convert it with frame["{name}"].astype(str)'
            )
        frame = frame.assign(**{name: ids})
    return frame


def each_turn_once(frame: pd.DataFrame) -> None:
    """Check that every row has its own qid.

    Raises:
        DataError: naming the row without one, or the first turn that occurs again.
    """
    qids = frame["qid"].tolist()
    if any(map(is_missing, qids)) or len({*qids}) < len(qids):
        again = qids[
            np.flatnonzero(turns_of(frame) != np.arange(len(qids)))[0]
        ]  # a row without a qid is named there
        raise DataError(
            f"turn {again} has several rows, whose results could not be told apart: drop one, or give it another qid"
        )


def without_passages(frame: pd.DataFrame) -> pd.DataFrame:
    """The turns of a frame, one row each, of which a result frame has one per passage.

    Example:
        >>> without_passages(pd.DataFrame({"qid": ["t", "t"], "query": ["tea?", "tea?"], "docno": ["x", "y"]})).values.tolist()
        [['t', 'tea?']]
    """
    if "docno" in frame.columns:
        frame = frame.loc[
            ~frame["qid"].duplicated(),
            [name for name in frame.columns if str(name).startswith("q")],
        ]
    each_turn_once(frame)
    return frame


def question_column(frame: pd.DataFrame) -> str:
    """Where the user's own words are: ``qutterance``, else the oldest pushed query, else ``query``.

    Example:
        >>> question_column(pd.DataFrame(columns=["qid", "query", "query_0", "query_1"]))
        'query_1'
    """
    if "qutterance" in frame.columns:
        return "qutterance"
    pushed = [name for name in frame.columns if re.fullmatch(r"query_\d+", str(name))]
    return max(pushed, key=lambda name: int(name.removeprefix("query_")), default="query")


class NoResultWarning(UserWarning):
    """Some turns got no passage, so evaluation counts them as 0, or none from one branch of a ``Union``."""


_reported: ContextVar[bool] = ContextVar("reported", default=True)


@contextmanager
def without_result_warnings() -> Iterator[None]:
    """Inside the block, turns without passages cause no warning, because they are shown to a person and not evaluated."""
    token = _reported.set(False)
    try:
        yield
    finally:
        _reported.reset(token)


def report_turns_without_result(inp: pd.DataFrame, counts: Any) -> None:
    """Warn of the turns of a query frame that found no passages (``NoResultWarning``). ``counts``: passages per row."""
    if not _reported.get():
        return
    turns = inp["qid_0" if "qid_0" in inp.columns else "qid"].tolist()
    answered = {turn for turn, passages in zip(turns, counts, strict=True) if passages}
    if without := [turn for turn in dict.fromkeys(turns) if turn not in answered]:
        what = f"{len(without)} of {counted(len(set(turns)), 'turn')} found no passage: {list_first(without)}"
        warnings.warn(f"{what}; counted 0 in evaluation", NoResultWarning, stacklevel=5)
