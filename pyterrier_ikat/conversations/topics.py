"""The conversations of a collection: what they are, the frames made of them, and the files that they are read from.

Frames: the turn frame, gold answers, and qrels from gold fields. Files: a table of readers, one for
each form, and one loop that names the place of what is not of a file's form. Forms: your own turns
(JSON lines), TREC iKAT (2023 to 2025), TREC CAsT (2019 to 2022), MTRAG and MTRAG-UN, LoCoMo,
LongMemEval.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..errors import DataError, list_first
from .frame import TOPIC_COLUMNS, object_frame, with_columns, with_query
from .passage_fields import CollectionWarning as CollectionWarning
from .passages import load_json
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

    The history of turn t is its own, or turns 1..t-1 of the same conversation. It has raw
    utterances and gold responses, as the track allows (an automatic run knows the canonical past,
    but not turn t's own answer or any manual rewrite).

    Args:
        conversations: the result of :func:`read_topics`.
        manual: whether to add the columns that only a manual run may use: ``qresolved``, the manual
            rewrite (the utterance if there is none), and ``qgoldptkb``, the list of the ids of the
            gold statements.

    Returns:
        ``qid``, ``query`` and ``qutterance`` (the raw utterance), ``qhistory``, ``qptkb``,
        ``qconversation``, ``qturn``, and with ``manual`` ``qresolved`` and ``qgoldptkb``. Histories
        share their messages, and the turns of a conversation share their PTKB, so don't change them
        in place.

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
            gold = (
                turn.resolved if turn.resolved.strip() else turn.utterance,
                list(turn.statements),
            )
            rows.append(
                (
                    chat.qid(turn),
                    turn.utterance,
                    turn.utterance,
                    history,
                    chat.ptkb,
                    chat.number,
                    turn.turn_id,
                    *gold,
                )
            )
    names = TOPIC_COLUMNS + MANUAL_COLUMNS * manual
    return object_frame({name: [row[place] for row in rows] for place, name in enumerate(names)})


def with_automatic(frame: pd.DataFrame, conversations: Iterable[Conversation]) -> pd.DataFrame:
    """The turn frame with the organisers' automatic rewrites (or utterances if there are none) as its queries and in ``qrewrite``."""
    found = {
        conversation.qid(turn): turn.automatic or turn.utterance
        for conversation in conversations
        for turn in conversation.turns
    }
    rewrites = [found[qid] for qid in frame["qid"]]
    return with_columns(with_query(frame, rewrites), qrewrite=rewrites)


def answers_frame(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """The gold answers: ``qid``, ``gold_answer``, and ``gold_answerability`` if a turn has one; for evaluation, never for a system."""
    turns = [
        (conversation.qid(turn), turn)
        for conversation in conversations
        for turn in conversation.turns
    ]
    columns = {
        "qid": [qid for qid, _ in turns],
        "gold_answer": [turn.response for _, turn in turns],
    }
    labels = [turn.answerability for _, turn in turns]
    return object_frame(columns | ({"gold_answerability": labels} if any(labels) else {}))


def provenance_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Binary passage qrels from the gold provenance: ``qid``, ``docno``, ``label`` (1). A turn without provenance has no row."""
    turns = (
        (conversation.qid(turn), turn)
        for conversation in conversations
        for turn in conversation.turns
    )
    return qrels_frame((qid, docno, 1) for qid, turn in turns for docno in turn.passages)


def ptkb_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """PTKB qrels from the topics' own gold statements.

    Returns:
        ``qid``, ``docno`` (the statement id), ``label`` (0 or 1): each statement of the
        conversation for each of its turns.
    """
    turns = ((conversation, turn) for conversation in conversations for turn in conversation.turns)
    return qrels_frame(
        (chat.qid(turn), name, int(name in turn.statements))
        for chat, turn in turns
        for name in chat.ptkb
    )


LINE = 'a line is {"qid": "tea_2", "messages": [{"role": "user", "content": "Which tea?"}, ...]}'
KINDS = {
    str: "a text",
    int: "a whole number",
    dict: "an object",
    list: "a list",
    str | int: "a text or a whole number",
}
FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError)
CANONICAL = ("canonical_result_id", "manual_canonical_result_id", "automatic_canonical_result_id")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""LoCoMo's, as the numbers of the file are used in its authors' code; some harnesses swap single-hop and multi-hop."""


ABSTENTION = "_abs"
"""A part of the ids of LongMemEval's questions that have no answer."""


class Form(NamedTuple):
    """How files of one form are read.

    Attributes:
        read: makes a conversation, or a part of one, from an item of the file. It raises any of
            `FAULTS` for what isn't of the form.
        repair: what to do about such an item.
        fields: those of an item, if others cause a warning.
    """

    read: Callable[[Any], Conversation]
    repair: str
    fields: tuple[str, ...] = ()


def read_topics(path: str | Path) -> list[Conversation]:
    """Read a topics file of TREC iKAT 2023, 2024 or 2025, of TREC CAsT, or one of your own.

    Args:
        path: a JSON file: an array of conversations in any of iKAT's three schemas, or topics of
            CAsT (without PTKB; in the trees of 2022, the history of a turn is the messages above
            it). Or a ``.jsonl`` file with one turn per line, ``{"qid": "tea_2", "messages":
            [{"role": "user" | "assistant", "content": text}, ...]}``. The last message is the
            user's question, and the others are its history. A line may also have ``ptkb``, the
            known facts about the user (an object id -> statement or a list of statements). For
            evaluation only, it may have ``resolved``, the question as it would be asked without its
            history, ``answer``, a good answer, and ``answerability``, whether the collection has an
            answer, one of :data:`~pyterrier_ikat.conversations.topics.ANSWERABILITY`.

    Returns:
        The conversations in the file's order. From lines, consecutive turns with qids
        ``<conversation>_<number>`` and the same PTKB become one conversation. Any other turn is its
        own conversation.

    Warns:
        CollectionWarning: for a line with an unknown field.

    Raises:
        DataError: when the file is missing, cut short or of another form, a turn occurs twice, or
            the PTKB lacks a gold statement. The message names file and line, or conversation and
            turn.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "topics.json"
        >>> turn = {"turn_id": 1, "user_utterance": "Which tea?", "response": "Rooibos.", "relevant_ptkbs": ["I avoid  caffeine."]}
        >>> _ = path.write_text(json.dumps([{"number": 7, "ptkb": ["I like tea.", "I avoid caffeine."], "responses": [turn]}]))
        >>> chat = read_topics(path)[0]
        >>> chat.number, chat.turns[0].statements
        ('7', ('2',))
    """
    return read_conversations(
        Path(path), "JSON lines" if Path(path).suffix == ".jsonl" else "iKAT or CAsT"
    )


def read_conversations(path: Path, form: str) -> list[Conversation]:
    """The conversations of a file. Neighbouring turns with their own histories, the same name and the same persona are of one.

    Args:
        path: a ``.jsonl`` file with an item on each line, or a ``.json`` file with an array of
            items.
        form: a key of `FORMS`.

    Raises:
        DataError: when it can't be read, has no item, an item is not of this form, or a turn occurs
            twice. It names the item's place.
    """
    parts, seen, unread = list[Conversation](), set[str](), dict[str, list[str]]()
    read, repair, fields = FORMS[form]
    for place, item in read_items(path):
        try:
            part = read(item)
            names = {
                *map(part.qid, part.turns),
                *(f"conversation {part.number}" for turn in part.turns if turn.history is None),
            }
            if again := seen & names:
                raise ValueError(f"{min(again)} was there before")
        except FAULTS as error:
            raise DataError(
                f"{path}, {place}: not of the form {form} ({_why(error)}); {repair}"
            ) from None
        seen |= names
        parts.append(part)
        for name in set(item).difference(fields or item):
            unread.setdefault(name, []).append(place)
    if not parts:
        raise DataError(f"{path}: nothing in it; {repair}")
    for name, places in unread.items():
        message = f"{path}, {list_first(places)}: nothing reads the field {name!r}; there are {', '.join(fields)}"
        warnings.warn(message, CollectionWarning, stacklevel=3)
    groups = [list(group) for _, group in groupby(parts, key=lambda part: (part.number, part.ptkb))]
    return [
        replace(first, turns=tuple(turn for part in (first, *others) for turn in part.turns))
        for first, *others in groups
    ]


def read_items(path: Path) -> Iterator[tuple[str, Any]]:
    """The items of a JSON lines file, or those of the array in a JSON file (or of its ``tasks``), each with its place.

    Raises:
        DataError: when the file can't be read or is not JSON.
    """
    place = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".jsonl":
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    place = f", line {number}"
                    yield f"line {number}", load_json(line)
            return
        items = load_json(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{path}{place}: can't be read as JSON ({error}); if it is cut short, mend it or fetch it again"
        ) from None
    items = items.get("tasks") if isinstance(items, dict) else items
    if not isinstance(items, list):
        raise DataError(f"{path}: no array of conversations; give a file of conversations")
    yield from ((f"conversation {number}", item) for number, item in enumerate(items, 1))


def excerpt(value: Any) -> str:
    """The first 60 characters of a JSON value."""
    return json.dumps(value)[:60]


def _why(error: Exception) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


def _field(item: Any, *names: str, kind: Any = str, default: Any = None) -> Any:
    """The value of an object's field that has the first of these names, or the default where none is there."""
    if not isinstance(item, dict):
        raise ValueError(f"an object is expected, found {excerpt(item)}")
    found = next((item[name] for name in names if item.get(name) is not None), default)
    if not isinstance(found, kind) or isinstance(found, bool):
        what = "missing" if found is None else f"{excerpt(found)}, not {KINDS[kind]}"
        raise ValueError(f"{' or '.join(names)} is {what}")
    return found


def _one_word(name: Any) -> str:
    if isinstance(name, bool) or not isinstance(name, str | int) or len(str(name).split()) != 1:
        raise ValueError(
            f"the name {excerpt(name)} can't be part of a qid: give one without white space"
        )
    return str(name).strip()


def _statements(ptkb: Any) -> dict[str, str]:
    """The statements by id. The ids for a list are ``"1"``, ``"2"``, ..."""
    if not isinstance(ptkb, dict | list):
        raise ValueError(
            f"ptkb is {excerpt(ptkb)}, not an object id -> statement or a list of statements"
        )
    found = (
        ptkb
        if isinstance(ptkb, dict)
        else {str(number): text for number, text in enumerate(ptkb, 1)}
    )
    return {name: _field(found, name) for name in found}


def _each(items: Iterable[Any], read: Callable[[Any], Any], what: str = "turn") -> Iterator[Any]:
    """What is read from the turns or messages of a conversation. An error says which one it is about."""
    for number, item in enumerate(items, 1):
        try:
            yield read(item)
        except FAULTS as error:
            raise ValueError(f"{what} {number}: {_why(error)}") from None


def _once(names: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, names)))


def _of_own(item: Any) -> Conversation:
    """A turn on a line of one's own file, which has its history."""
    qid = _one_word(_field(item, "qid", kind=str | int))
    *history, last = [*_each(_field(item, "messages", kind=list), _message, "message")] or [
        {"role": "", "content": ""}
    ]
    if last["role"] != "user" or not last["content"].strip():
        raise ValueError("the last of the messages is not a question of the user")
    answer, resolved, label = (
        _field(item, name, default="") for name in ("answer", "resolved", "answerability")
    )
    if label not in ("", *ANSWERABILITY):
        raise ValueError(
            f"answerability is {excerpt(label)}: give one of {', '.join(ANSWERABILITY)}"
        )
    parts = re.fullmatch(r"(.+)_([0-9]{1,9})", qid)
    name, number = (
        parts.groups()
        if parts
        else (qid, 1 + sum(message["role"] == "user" for message in history))
    )
    turn = TopicTurn(
        int(number),
        last["content"],
        answer,
        resolved,
        qid=qid,
        history=tuple(history),
        answerability=label,
    )
    return Conversation(name, ptkb=_statements(item.get("ptkb") or {}), turns=(turn,))


def _message(message: Any) -> Message:
    if (role := _field(message, "role")) not in ("user", "assistant"):
        raise ValueError(f"the role is {excerpt(role)}, not user or assistant")
    return {"role": role, "content": _field(message, "content")}


def _of_track(item: Any) -> Conversation:
    """A conversation of iKAT, or a topic of CAsT."""
    if isinstance(item, dict) and "turn" in item:
        return _of_cast(item)
    number, ptkb = (
        _one_word(_field(item, "number", "conv_id", kind=object)),
        _statements(item.get("ptkb")),
    )
    turns = tuple(
        _each(_field(item, "turns", "responses", kind=list), lambda turn: _of_ikat(turn, ptkb))
    )
    if not turns or any(
        one.turn_id >= other.turn_id for one, other in zip(turns, turns[1:], strict=False)
    ):
        raise ValueError(
            f"conversation {number} has {'turns whose ids do not rise' if turns else 'no turns'}"
        )
    return Conversation(number, str(item.get("title", "")), ptkb, turns)


def _of_ikat(turn: Any, ptkb: Mapping[str, str]) -> TopicTurn:
    return TopicTurn(
        _field(turn, "turn_id", kind=int),
        _field(turn, "utterance", "user_utterance"),
        _field(turn, "response"),
        _field(turn, "resolved_utterance", default=""),
        _once(
            _statement_id(entry, ptkb)
            for entry in _field(turn, "ptkb_provenance", "relevant_ptkbs", kind=list, default=[])
        ),
        _once(
            _one_word(docno)
            for docno in _field(turn, "response_provenance", "citations", kind=list, default=[])
        ),
    )


def _statement_id(entry: Any, ptkb: Mapping[str, str]) -> str:
    """The id of a gold statement, which is given as an id (2023, 2024) or in the statement's words (2025)."""
    if str(entry) in ptkb:
        return str(entry)
    for same in (str, lambda text: " ".join(text.split()).casefold()):
        for name, statement in ptkb.items():
            if same(statement) == same(str(entry)):
                return name
    raise ValueError(
        f"the ptkb has no gold statement {excerpt(entry)}: give the id or the exact words of one"
    )


def _of_cast(topic: Any) -> Conversation:
    """A topic of CAsT, whose turns are ``<topic>_<turn>``.

    In 2019 to 2021 a turn's history is all turns before it. In 2022 it is the path from the first
    turn down to it. The other branches of the tree are conversations that went another way. All
    user messages are turns, also answers to a question of the system, because NIST judged them. The
    canonical response of a turn is the first system message below it.
    """
    number, entries, turns = (
        _one_word(topic["number"]),
        {str(entry["number"]): entry for entry in topic["turn"]},
        [],
    )
    for position, (name, entry) in enumerate(entries.items(), 1):
        path: tuple[Message, ...] | None = None
        if "participant" not in entry:
            turn_id = entry["number"] if isinstance(entry["number"], int) else position
            answer, passages = (
                _field(entry, "passage", default=""),
                [entry[field] for field in CANONICAL if entry.get(field)][:1],
            )
        elif entry["participant"] == "User":
            path = _path(entry, entries)
            turn_id = 1 + sum(message["role"] == "user" for message in path)
            below = (
                one
                for one in entries.values()
                if str(one.get("parent")) == name and one["participant"] != "User"
            )
            reply = next(below, {"response": ""})
            answer, passages = (
                reply["response"],
                [docno.replace(" ", "") for docno in reply.get("provenance") or ()],
            )  # one has a blank
        else:
            continue
        manual, automatic = (
            _field(entry, f"{by}_rewritten_utterance", default="") for by in ("manual", "automatic")
        )
        asked, gold = (
            _field(entry, "raw_utterance", "utterance"),
            {"passages": _once(passages), "automatic": automatic},
        )
        turns.append(
            TopicTurn(turn_id, asked, answer, manual, qid=f"{number}_{name}", history=path, **gold)
        )
    if not turns or len(entries) < len(topic["turn"]):
        raise ValueError(f"topic {number} has no turns, or one of them twice")
    return Conversation(number, str(topic.get("title", "")), turns=tuple(turns))


def _path(
    entry: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> tuple[Message, ...]:
    """The messages above a turn of a tree, from the first."""
    path: list[Message] = []
    while (above := entry.get("parent")) is not None and len(path) < len(entries):
        entry = entries[str(above)]
        by_user = entry["participant"] == "User"
        path.append(
            {"role": "user", "content": entry["utterance"]}
            if by_user
            else {"role": "assistant", "content": entry["response"]}
        )
    return tuple(reversed(path))


def _of_mtrag(task: Any) -> Conversation:
    """A task of MTRAG or MTRAG-UN: one turn with its history."""
    name, _, number = task["task_id"].rpartition("<::>")
    roles = {"user": "user", "agent": "assistant"}
    *history, last = [
        {"role": roles[one["speaker"]], "content": one["text"]} for one in task["input"]
    ]
    [target], [label] = (
        task["targets"],
        task.get("Answerability") or task["answerability"],
    )  # MTRAG's key, MTRAG-UN's
    if last["role"] != "user" or label.lower() not in ANSWERABILITY:
        raise ValueError(
            f"the last message is the {last['role']}'s, and the answerability is {label}"
        )
    gold = {
        "passages": _once(context["document_id"] for context in task["contexts"]),
        "answerability": label.lower(),
    }
    turn = TopicTurn(
        int(number),
        last["content"],
        target["text"],
        qid=task["task_id"],
        history=tuple(history),
        **gold,
    )
    return Conversation(name, turns=(turn,))


def _of_locomo(sample: Any) -> Conversation:
    """A conversation of LoCoMo: its questions with evidence over its turns, which are the statements."""
    name, sessions = (
        str(sample["sample_id"]),
        [one for one in sample["conversation"].values() if isinstance(one, list)],
    )
    turns = {turn["dia_id"]: _said(turn) for session in sessions for turn in session}
    questions = []
    for number, asked in enumerate(sample["qa"], 1):
        if evidence := _once(
            one for entry in asked["evidence"] for one in ids_in(entry) if one in turns
        ):
            answer, category = str(asked.get("answer", "")), CATEGORIES[asked["category"]]
            questions.append(
                TopicTurn(
                    number,
                    asked["question"],
                    answer,
                    passages=evidence,
                    history=(),
                    category=category,
                )
            )
    return Conversation(
        name, ptkb=turns, turns=tuple(questions), facts=_facts(sample["observation"], turns)
    )


def _said(turn: Mapping[str, str]) -> str:
    return f"{turn['speaker']}: {turn['text']}" + (
        f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    )


def ids_in(entry: str) -> list[str]:
    """The ids of turns in an entry of LoCoMo's evidence, whose slips are colons and zeros too many, and several ids in one text.

    Example:
        >>> ids_in("D8:6; D9:17"), ids_in("D:11:26"), ids_in("D30:05"), ids_in("D")
        (['D8:6', 'D9:17'], ['D11:26'], ['D30:5'], [])
    """
    return [
        f"D{int(session)}:{int(turn)}" for session, turn in re.findall(r"D:?(\d+):(\d+)", entry)
    ]


def _facts(observation: Mapping[str, Any], turns: Mapping[str, str]) -> dict[str, str]:
    """Each fact once for each turn that it comes from, ``D1:3%p0``."""
    found = dict[str, str]()
    count = Counter[str]()
    for text, sources in (
        fact for speakers in observation.values() for facts in speakers.values() for fact in facts
    ):
        for source in ids_in(" ".join(sources) if isinstance(sources, list) else sources):
            if source in turns:
                found[f"{source}%p{count[source]}"] = text
                count[source] += 1
    return found


def _of_longmemeval(asked: Any) -> Conversation:
    """A question of LongMemEval over the user's turns in its sessions, which are the statements.

    Sources: xiaowu0162/LongMemEval, README ("Dataset Format") for the fields. In
    src/retrieval/run_retrieval.py, the evidence is the user's turns with ``has_answer``, and a
    question whose id has ``_abs`` is not scored, whatever its turns say.
    src/evaluation/evaluate_qa.py counts the answers to all questions.
    """
    turns, evidence = dict[str, str](), list[str]()
    for session, said in zip(
        asked["haystack_session_ids"], asked["haystack_sessions"], strict=True
    ):
        for number, turn in enumerate(said, 1):
            if turn["role"] != "user":
                continue
            place, text = f"{session}:{number}", str(turn["content"])
            if turns.setdefault(place, text) != text:
                raise ValueError(f"two sessions have the id {session}")
            if turn.get("has_answer") is True:
                evidence.append(place)
    name = str(asked["question_id"])
    has_answer = ABSTENTION not in name
    question = TopicTurn(
        1,
        asked["question"],
        str(asked["answer"]),
        passages=_once(evidence) if has_answer else (),
        history=(),
        answerability="answerable" if has_answer else "unanswerable",
        category=str(asked["question_type"]),
    )
    return Conversation(name, ptkb=turns, turns=(question,))


FORMS = {
    "JSON lines": Form(
        _of_own, LINE, ("qid", "messages", "ptkb", "resolved", "answer", "answerability")
    ),
    "iKAT or CAsT": Form(
        _of_track,
        "mend it, or fetch the file again (of CAsT 2022 the file of trees, which has each turn once)",
    ),
    "MTRAG": Form(_of_mtrag, "fetch the file again"),
    "LoCoMo": Form(_of_locomo, "fetch the file again"),
    "LongMemEval": Form(_of_longmemeval, "fetch the file again"),
}
"""Form -> its reader."""
