"""The turn frame: one row per turn, a PyTerrier query frame with columns named ``q...``.

===================  ==============================================================================
``qid``              ``9-1_3``
``query``            the text that the next stage uses, at first the raw utterance
``qutterance``       the raw utterance
``qhistory``         list of ``{"role": "user" | "assistant", "content": str}``, oldest first
``qptkb``            dict statement id -> statement
``qmemories``        where and when the user said them, and until when they hold: a list of dicts
``qconversation``    ``9-1``
``qturn``            3
``qrewrite``         newest rewrite
``qanswer``          newest LLM answer
``qstatements``      chosen statements as a list of (id, score), best first
``qsuggestion``      what an answer would need
``qlearned``         what ``UpdatePtkb`` learned about the user, a list of dicts
``qaction``          answer, ask or abstain
``qaskback``         the question to the user
``qcitations``       for each sentence of a response: ``sentence``, ``docnos``, ``unknown`` numbers
``qsubqueries``      what the query generators wrote, before ``ExplodeQueries``
``qweights``         the weights of these queries
``qsummary``         the history in short
``qsamples``         what each of several samples wrote, a list of texts for each
``qnewtopic``        whether the question begins a new topic
``qpreferences``     the user's preferences that matter, in words
``qid_0``            after ``ExplodeQueries``: the turn's qid
``qquery``           after ``ExplodeQueries``: the turn's query
``qpushed``          after ``ExplodeQueries``: how many queries were pushed until then
``qsub``             after ``ExplodeQueries``: the sub-query's number
``qweight``          after ``ExplodeQueries``: the sub-query's weight
``query_0``, ...     earlier queries, pushed by PyTerrier's own convention
===================  ==============================================================================

Text stays in object columns: pandas' string columns copy and convert, and a history repeated over
300,000 rows must stay one object.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..arguments import columns_once, is_missing
from ..errors import DataError, UsageError, counted, list_first
from ..lost_columns import has_column

TOPIC_COLUMNS = ("qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn")
STALE_WITH_QUERY = ("query_toks", "query_vec")
"""Columns computed from ``query``. They are dropped when it changes."""
MESSAGE_FORM = '{"role": "user" or "assistant", "content": text}'


def conversation(
    messages: Sequence[Mapping[str, str]],
    ptkb: Mapping[str, str] | Sequence[str] | None = None,
    *,
    number: str = "chat",
    every_turn: bool = False,
    memories: Sequence[Mapping[str, Any]] | None = None,
    dated: bool = False,
) -> pd.DataFrame:
    """Turn a chat into a turn frame: its last user message as the question, the rest as history.

    Args:
        messages: chat messages ``{"role": "user" | "assistant", "content": text}``, oldest first;
            the last one is the user's.
        ptkb: statements about the user: a dict id -> statement, or a list of statements (ids
            ``"1"``, ``"2"``, ...). Ids given as whole numbers become texts.
        number: the conversation's name; the qid is ``<number>_<turn>``.
        every_turn: make a row of each message of the user, with the messages before it. The chat
            may then end with an answer.
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
        >>> turns = ikat.conversation(chat, ["I am allergic to chamomile."])
        >>> turns[["qid", "query"]].values.tolist()
        [['chat_2', 'And one against a cold?']]
        >>> ikat.conversation(chat, every_turn=True)["qid"].tolist()
        ['chat_1', 'chat_2']
    """
    if memories is not None and ptkb is not None:
        raise UsageError("ptkb and memories both say what is known of the user: omit one")
    for position, message in enumerate(messages, 1):
        if not is_message(message):
            excerpt = repr(message)[:80]
            raise UsageError(
                f"message {position} of the conversation is {excerpt}: give {MESSAGE_FORM}"
            )
    chat = [dict(message) for message in messages]
    questions = [position for position, message in enumerate(chat) if message["role"] == "user"]
    if not questions or not (every_turn or chat[-1]["role"] == "user"):
        raise UsageError(
            "a conversation ends with a message of the user: append the question; "
            "with every_turn=True, it needs one anywhere"
        )
    if memories is not None:
        ptkb = known_statements(memories, dated=dated)
    persona = statements_of(ptkb)
    turns = list(enumerate(questions, 1))
    if not every_turn:
        turns = turns[-1:]
    rows = []
    for turn, position in turns:
        question = chat[position]["content"]
        history = chat[:position]
        rows.append((f"{number}_{turn}", question, question, history, persona, number, turn))
    frame = frame_of_rows(TOPIC_COLUMNS, rows)
    if memories is None:
        return frame
    return with_columns(frame, qmemories=[list(memories)] * len(frame))


def column(values: Iterable[Any], index: pd.Index | None = None) -> pd.Series:
    """Make a Series of object dtype with ``values`` as they are (lists and dicts too)."""
    return pd.Series(np.fromiter(values, dtype=object), index=index, dtype=object)


def object_frame(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """Make a frame with all columns of object dtype."""
    arrays = {name: np.fromiter(values, dtype=object) for name, values in columns.items()}
    return pd.DataFrame(arrays, dtype=object)


def frame_of_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Make a frame of object dtype from rows with a value for each column.

    Example:
        >>> frame_of_rows(["qid", "qturn"], [("9-1_1", 1), ("9-1_2", 2)])["qturn"].tolist()
        [1, 2]
    """
    all_rows = list(rows)
    columns = {}
    for position, name in enumerate(names):
        columns[name] = [row[position] for row in all_rows]
    return object_frame(columns)


def with_columns(frame: pd.DataFrame, **columns: Iterable[Any]) -> pd.DataFrame:
    """Return a new frame with ``columns`` set as object columns."""
    return frame.assign(**{name: column(values, frame.index) for name, values in columns.items()})


def with_query(frame: pd.DataFrame, texts: Iterable[str], **columns: Iterable[Any]) -> pd.DataFrame:
    """Return a new frame with ``texts`` as ``query``, and with other columns set.

    The old query is pushed to ``query_0``, and columns derived from it are dropped.
    """
    stale = [name for name in STALE_WITH_QUERY if name in frame.columns]
    if stale:
        frame = frame.drop(columns=stale)
    names = frame.columns.tolist()
    pushed = {"query": "query_0"}
    number = 0
    while f"query_{number}" in names:
        pushed[f"query_{number}"] = f"query_{number + 1}"
        number += 1
    renamed = frame.set_axis([pushed.get(name, name) for name in names], axis=1)
    return with_columns(renamed, **columns, query=texts)


def earlier_queries(frame: pd.DataFrame) -> list[str]:
    """Return the columns of earlier queries: ``query_0``, ``query_1``, ..., without gaps.

    Example:
        >>> earlier_queries(pd.DataFrame(columns=["qid", "query", "query_0", "query_1"]))
        ['query_0', 'query_1']
    """
    names: list[str] = []
    while f"query_{len(names)}" in frame.columns:
        names.append(f"query_{len(names)}")
    return names


def values(frame: pd.DataFrame, name: str, default: Any = None) -> list[Any]:
    """Return the column ``name`` as a list, with ``default`` for missing values.

    All rows have the default when there is no such column.

    Example:
        >>> values(pd.DataFrame({"qhistory": [[], None, float("nan")]}), "qhistory")
        [[], None, None]
    """
    if not has_column(frame, name):
        return [default] * len(frame)
    cells: list[Any] = frame[name].tolist()
    for row, value in enumerate(cells):
        if is_missing(value):
            cells[row] = default
        elif isinstance(value, np.ndarray):  # a list from a parquet file
            cells[row] = value.tolist()
    return cells


def personas(frame: pd.DataFrame, name: str = "qptkb") -> list[dict[str, str]]:
    """Return the statements about each row's user, by id. The ids of a list are ``"1"``, ``"2"``...

    A row without ``qptkb`` has the valid statements of its ``qmemories``.

    Args:
        frame: the turns.
        name: the column with the statements.

    Raises:
        DataError: naming the turn whose persona is neither a dict nor a list of statements.

    Example:
        >>> personas(pd.DataFrame({"qptkb": [{"1": "I'm vegan.", "2": None}, ["I like tea."]]}))
        [{'1': "I'm vegan."}, {'1': 'I like tea.'}]
    """
    ptkbs = values(frame, name)
    if name == "qptkb":
        for row, memories in enumerate(values(frame, "qmemories")):
            if ptkbs[row] is None and memories is not None:
                ptkbs[row] = known_statements(memories)
    statements = []
    for row, ptkb in enumerate(ptkbs):
        try:
            statements.append(statements_of(ptkb))
        except UsageError as error:
            raise DataError(f"{row_name(frame, row)} has the {name} {error}") from None
    return statements


def known_statements(
    memories: Sequence[Mapping[str, Any]], *, dated: bool = False
) -> dict[str, str]:
    """Return the statements of valid memories, by id.

    Args:
        memories: a value of ``qmemories``.
        dated: whether to add the date of each statement and, if known, its turn.

    Example:
        >>> vegan = {"id": "1", "statement": "I am vegan.", "until": None,
        ...          "when": "2024-05-02T08:30:00.000Z", "session": "trip", "turn": 3}
        >>> known_statements([vegan, {**vegan, "id": "2", "until": "2024-06-01T10:00:00.000Z"}])
        {'1': 'I am vegan.'}
        >>> known_statements([vegan], dated=True)
        {'1': 'I am vegan. (said 2024-05-02, trip, turn 3)'}
    """
    statements = {}
    for memory in memories:
        if memory["until"] is not None:
            continue
        statement = memory["statement"]
        if dated:
            statement = as_said(statement, memory["when"], memory["session"], memory["turn"])
        statements[memory["id"]] = statement
    return statements


def as_said(statement: str, when: str, session: str, turn: int) -> str:
    """Add the date and the turn of a statement, if it has a session."""
    return f"{statement} (said {when[:10]}, {session}, turn {turn})" if session else statement


def histories(frame: pd.DataFrame) -> list[list[dict[str, str]]]:
    """Return the messages before each row's question, oldest first.

    Raises:
        DataError: naming the turn whose history is not a list of messages.

    Example:
        >>> histories(pd.DataFrame({"qhistory": [[{"role": "user", "content": "Hi"}], None]}))
        [[{'role': 'user', 'content': 'Hi'}], []]
    """
    cells = values(frame, "qhistory")
    for row, history in enumerate(cells):
        if history is None:
            cells[row] = []
        elif not isinstance(history, list | tuple) or not all(map(is_message, history)):
            raise DataError(
                f"{row_name(frame, row)} has the qhistory {repr(history)[:80]}: "
                f"give a list of messages, each {MESSAGE_FORM}, oldest first"
            )
    return cells


def is_message(message: Any) -> bool:
    """Tell whether this is a dict with the role of user or assistant, and a text as its content."""
    return (
        isinstance(message, Mapping)
        and message.get("role") in ("user", "assistant")
        and isinstance(message.get("content"), str)
    )


def is_persona(ptkb: Any) -> bool:
    """Tell whether this is a dict or list of statements, or None."""
    if isinstance(ptkb, Mapping):
        return all(isinstance(text, str) or is_missing(text) for text in ptkb.values())
    if isinstance(ptkb, list | tuple):
        return all(isinstance(text, str) for text in ptkb)
    return ptkb is None


def row_name(frame: pd.DataFrame, row: int) -> str:
    """Name a row in messages: by its turn, or by its position without ``qid``."""
    return f"turn {frame['qid'].iloc[row]}" if "qid" in frame.columns else f"row {row}"


def statements_of(ptkb: Any) -> dict[str, str]:
    """Return the statements of one persona by id, see :func:`personas`.

    Raises:
        UsageError: when it is something else.
    """
    excerpt = f"ptkb={repr(ptkb)[:80]}"
    if not is_persona(ptkb):
        raise UsageError(f"{excerpt}: give a dict of statements by id, or a list of statements")
    if not isinstance(ptkb, Mapping):
        return {str(number): text for number, text in enumerate(ptkb or [], 1)}
    statements: dict[str, str] = {}
    for name, text in ptkb.items():
        if is_missing(text):  # a dict from a parquet file has the ids of all users
            continue
        number = statement_id(name)
        if number in statements:
            raise UsageError(f"{excerpt}: two statements have the id {number}: give each its own")
        statements[number] = text
    return statements


def statement_id(name: Any) -> str:
    """Return the id of a statement as a text. It may be given as a whole number.

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
    """Return a column after checking for a text in every row.

    Args:
        frame: the turns.
        name: the column.
        blank: whether a text may be of white space only.

    Raises:
        DataError: naming the turns without one. ``None`` and ``nan`` are not questions.
    """
    texts: list[Any] = frame[name].tolist()
    without = []
    for qid, text in zip(frame["qid"], texts, strict=True):
        if not isinstance(text, str) or not (blank or text.strip()):
            without.append(qid)
    if without:
        rows = counted(len(without), "row has", "rows have")
        wanted = f"text in {name}" if blank else f"text in {name} that is not blank"
        raise DataError(
            f"{rows} no {wanted} (turns {list_first(without)}): fill the column or omit these turns"
        )
    return texts


def well_formed(text: str) -> str:
    """Replace lone surrogates by the replacement character, for tokenizers.

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
    """Return the first row of each run of equal qids.

    Example:
        >>> starts_of_runs(column(["9-1_3", "9-1_3", "9-1_1"]).to_numpy()).tolist()
        [0, 2]
    """
    return np.flatnonzero(np.append(len(qids) > 0, qids[1:] != qids[:-1]))


def numbered(qids: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    """Number the turns by first occurrence, and return each row's number.

    Raises:
        DataError: when a qid is missing.

    Example:
        >>> numbered(column(["9-1_3", "9-1_3", "9-1_1"]).to_numpy()).tolist()
        [0, 0, 1]
    """
    starts = starts_of_runs(qids)
    numbers = pd.factorize(qids[starts])[0].astype(np.int64)
    without_qid = np.flatnonzero(numbers < 0)
    if len(without_qid):
        row = int(starts[without_qid[0]])
        raise DataError(f"row {row} of the frame has no qid: give every row the qid of its turn")
    return np.repeat(numbers, np.diff(np.append(starts, len(qids))))


def turns_of(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Number the turns of a frame, and return the number of each row; see :func:`numbered`."""
    return numbered(frame["qid"].to_numpy(dtype=object))


def with_text_ids(
    who: str, frame: pd.DataFrame, names: Sequence[str] = ("qid", "docno")
) -> pd.DataFrame:
    """Return the frame with some columns as texts, also if they are categories.

    Args:
        who: the name of the frame in errors.
        frame: the frame.
        names: the columns.

    Raises:
        DataError: when one holds anything else.

    Example:
        >>> run = pd.DataFrame({"qid": ["9-1_3"]}, dtype="category")
        >>> qids = with_text_ids("run AD", run, ["qid"])["qid"]
        >>> str(qids.dtype), qids.tolist()
        ('object', ['9-1_3'])
    """
    columns_once(frame, who)
    for name in names:
        is_text = pd.api.types.infer_dtype(frame[name]) in ("string", "empty")
        if is_text and not frame[name].isna().any():
            continue
        ids = frame[name].astype(object)
        for value in ids:
            if not isinstance(value, str):
                repair = f'omit the row, or convert it with frame["{name}"].astype(str)'
                raise DataError(f"{who}: the {name} {value!r} is not a text: {repair}")
        frame = frame.assign(**{name: ids})
    return frame


def each_turn_once(frame: pd.DataFrame) -> None:
    """Check that every row has its own qid.

    Raises:
        DataError: naming the row without one, or the first turn that occurs again.
    """
    qids = frame["qid"].tolist()
    if not any(map(is_missing, qids)) and len(set(qids)) == len(qids):
        return
    numbers = turns_of(frame)  # raises the error for a row without a qid
    row = np.flatnonzero(numbers != np.arange(len(qids)))[0]
    raise DataError(
        f"turn {qids[row]} has several rows, whose results could not be told apart: "
        "drop one, or give it another qid"
    )


def without_passages(frame: pd.DataFrame) -> pd.DataFrame:
    """Reduce a result frame, with a row per passage, to its turns, one row each.

    Example:
        >>> results = pd.DataFrame({"qid": ["t", "t"], "query": ["tea?"] * 2, "docno": ["x", "y"]})
        >>> without_passages(results).values.tolist()
        [['t', 'tea?']]
    """
    if "docno" in frame.columns:
        of_turns = [name for name in frame.columns if str(name).startswith("q")]
        frame = frame.loc[~frame["qid"].duplicated(), of_turns]
    each_turn_once(frame)
    return frame


def question_column(frame: pd.DataFrame) -> str:
    """Name the column of the user's own words.

    It is ``qutterance``, else the oldest pushed query, else ``query``.

    Example:
        >>> question_column(pd.DataFrame(columns=["qid", "query", "query_0", "query_1"]))
        'query_1'
    """
    if has_column(frame, "qutterance"):
        return "qutterance"
    pushed = [name for name in frame.columns if re.fullmatch(r"query_\d+", str(name))]
    return max(pushed, key=lambda name: int(name.removeprefix("query_")), default="query")


class NoResultWarning(UserWarning):
    """Some turns got no passage (evaluation counts 0), or none from a branch of a ``Union``."""


_reported: ContextVar[bool] = ContextVar("reported", default=True)


@contextmanager
def without_result_warnings() -> Iterator[None]:
    """Silence the warning of turns without passages, for a person who sees the turns."""
    token = _reported.set(False)
    try:
        yield
    finally:
        _reported.reset(token)


def report_turns_without_result(inp: pd.DataFrame, counts: Any) -> None:
    """Warn of turns of a query frame without passages.

    Args:
        inp: the query frame.
        counts: passages per row.

    Warns:
        NoResultWarning: with the first of these turns.
    """
    if not _reported.get():
        return
    turns = inp["qid_0" if "qid_0" in inp.columns else "qid"].tolist()
    answered = {turn for turn, passages in zip(turns, counts, strict=True) if passages}
    without = [turn for turn in dict.fromkeys(turns) if turn not in answered]
    if without:
        of_turns = f"{len(without)} of {counted(len(set(turns)), 'turn')}"
        message = f"{of_turns} found no passage: {list_first(without)}; counted 0 in evaluation"
        warnings.warn(message, NoResultWarning, stacklevel=5)
