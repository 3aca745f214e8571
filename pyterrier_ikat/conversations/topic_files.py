"""Files of conversations: a table of readers, one for each form, and one loop over their items.

The loop names the place of whatever isn't of the file's form. Forms: your own turns (JSON lines),
TREC iKAT (2023 to 2025), TREC CAsT (2019 to 2022), MTRAG and MTRAG-UN, LoCoMo, LongMemEval.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, list_first
from .passage_fields import CollectionWarning
from .passages import load_json
from .topics import ANSWERABILITY, Conversation, Message, TopicTurn

LINE_OF_TURNS = (
    'a line is {"qid": "tea_2", "messages": [{"role": "user", "content": "Which tea?"}, ...]}'
)
JSON_TYPES = {
    str: "a text",
    int: "a whole number",
    dict: "an object",
    list: "a list",
    str | int: "a text or a whole number",
}
"""Type -> its name in messages."""
ITEM_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What a reader raises for an item that isn't of its form."""
CANONICAL_FIELDS = (
    "canonical_result_id",  # CAsT 2021
    "manual_canonical_result_id",  # CAsT 2020
    "automatic_canonical_result_id",
)
LOCOMO_CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
"""The numbers of the file -> kinds of questions, as in LoCoMo's own code. Some harnesses swap
single-hop and multi-hop."""
ABSTENTION = "_abs"
"""A part of the ids of LongMemEval's questions that have no answer."""


class FileForm(NamedTuple):
    """The reader of files of one form.

    Attributes:
        read: makes a conversation, or a part of one, from an item of the file. It raises any of
            `ITEM_ERRORS` for an item of another form.
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
        >>> turn = {"turn_id": 1, "user_utterance": "Which tea?", "response": "Rooibos."}
        >>> turn["relevant_ptkbs"] = ["I avoid  caffeine."]
        >>> ptkb = ["I like tea.", "I avoid caffeine."]
        >>> _ = path.write_text(json.dumps([{"number": 7, "ptkb": ptkb, "responses": [turn]}]))
        >>> chat = read_topics(path)[0]
        >>> chat.number, chat.turns[0].statements
        ('7', ('2',))
    """
    path = Path(path)
    form = "JSON lines" if path.suffix == ".jsonl" else "iKAT or CAsT"
    return read_conversations(path, form)


def read_conversations(path: Path, form: str) -> list[Conversation]:
    """Read the conversations of a file.

    Neighbouring turns with their own histories, the same name and the same persona become one
    conversation.

    Args:
        path: a ``.jsonl`` file with an item on each line, or a ``.json`` file with an array of
            items.
        form: a key of `FILE_FORMS`.

    Warns:
        CollectionWarning: for a field that nothing reads.

    Raises:
        DataError: when it can't be read, has no item, an item is not of this form, or a turn occurs
            twice. It names the item's place.
    """
    read, repair, fields = FILE_FORMS[form]
    parts: list[Conversation] = []
    seen: set[str] = set()
    unread: dict[str, list[str]] = {}
    for position, item in read_items(path):
        try:
            part = read(item)
            names = _names_in(part)
            repeated = seen & names
            if repeated:
                raise ValueError(f"{min(repeated)} was there before")
        except ITEM_ERRORS as error:
            reason = f"not of the form {form} ({_reason(error)})"
            raise DataError(f"{path}, {position}: {reason}; {repair}") from None
        seen |= names
        parts.append(part)
        for name in item:
            if fields and name not in fields:
                unread.setdefault(name, []).append(position)
    if not parts:
        raise DataError(f"{path}: nothing in it; {repair}")
    for name, positions in unread.items():
        message = f"{path}, {list_first(positions)}: nothing reads the field {name!r}"
        warnings.warn(f"{message}; there are {', '.join(fields)}", CollectionWarning, stacklevel=3)
    return _join_turns(parts)


def _names_in(part: Conversation) -> set[str]:
    """Return the names to occur once in a file: qids, and the conversation's if it is whole."""
    names = set()
    for turn in part.turns:
        names.add(part.qid(turn))
        if turn.history is None:
            names.add(f"conversation {part.number}")
    return names


def _join_turns(parts: list[Conversation]) -> list[Conversation]:
    conversations = []
    for _, group in groupby(parts, key=lambda part: (part.number, part.ptkb)):
        first, *others = group
        turns = list(first.turns)
        for part in others:
            turns += part.turns
        conversations.append(replace(first, turns=tuple(turns)))
    return conversations


def read_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Read the items of a JSON lines file, or those of the array (or its ``tasks``) in a JSON file.

    Yields:
        The place of an item, such as ``line 3``, and the item.

    Raises:
        DataError: when the file can't be read or is not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), error) from None
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _json_value(line, f"{path}, line {number}")
        return
    items = _json_value(text, str(path))
    if isinstance(items, dict):
        items = items.get("tasks")
    if not isinstance(items, list):
        raise DataError(f"{path}: no array of conversations; give a file of conversations")
    for number, item in enumerate(items, 1):
        yield f"conversation {number}", item


def _json_value(text: str, where: str) -> Any:
    try:
        return load_json(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(where, error) from None


def _unreadable(where: str, error: Exception) -> DataError:
    repair = "if it is cut short, mend it or fetch it again"
    return DataError(f"{where}: can't be read as JSON ({error}); {repair}")


def excerpt(value: Any) -> str:
    """Return the first 60 characters of a JSON value."""
    return json.dumps(value)[:60]


def _reason(error: Exception) -> str:
    if type(error) is ValueError:
        return str(error)
    return f"{type(error).__name__}: {error}"


def _value(item: Any, *names: str, default: Any = None) -> Any:
    """Return the first existing field of an object, or the default."""
    if not isinstance(item, dict):
        raise ValueError(f"an object is expected, found {excerpt(item)}")
    for name in names:
        if item.get(name) is not None:
            return item[name]
    return default


def _field(item: Any, *names: str, kind: Any = str, default: Any = None) -> Any:
    """Return the first existing field of an object, or the default, checked for its type."""
    value = _value(item, *names, default=default)
    if value is None:
        raise ValueError(f"{' or '.join(names)} is missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{' or '.join(names)} is {excerpt(value)}, not {JSON_TYPES[kind]}")
    return value


def _one_word(name: Any) -> str:
    is_name = isinstance(name, str | int) and not isinstance(name, bool)
    if not is_name or len(str(name).split()) != 1:
        problem = f"the name {excerpt(name)} can't be part of a qid"
        raise ValueError(f"{problem}: give one without white space")
    return str(name).strip()


def _statements(ptkb: Any) -> dict[str, str]:
    """Return the statements by id. The ids for a list are ``"1"``, ``"2"``, ..."""
    if isinstance(ptkb, list):
        ptkb = {str(number): text for number, text in enumerate(ptkb, 1)}
    if not isinstance(ptkb, dict):
        expected = "an object id -> statement or a list of statements"
        raise ValueError(f"ptkb is {excerpt(ptkb)}, not {expected}")
    return {name: _field(ptkb, name) for name in ptkb}


def _each(items: Iterable[Any], read: Callable[[Any], Any], what: str = "turn") -> Iterator[Any]:
    """Read the turns or messages of a conversation; errors name the turn or message."""
    for number, item in enumerate(items, 1):
        try:
            yield read(item)
        except ITEM_ERRORS as error:
            raise ValueError(f"{what} {number}: {_reason(error)}") from None


def _once(names: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, names)))


def _read_own_turn(item: Any) -> Conversation:
    """Read a line of a user's own file: a turn with its history."""
    qid = _one_word(_field(item, "qid", kind=str | int))
    messages = list(_each(_field(item, "messages", kind=list), _read_message, "message"))
    if not messages or messages[-1]["role"] != "user" or not messages[-1]["content"].strip():
        raise ValueError("the last of the messages is not a question of the user")
    history = messages[:-1]
    answer = _field(item, "answer", default="")
    resolved = _field(item, "resolved", default="")
    label = _field(item, "answerability", default="")
    if label not in ("", *ANSWERABILITY):
        choices = ", ".join(ANSWERABILITY)
        raise ValueError(f"answerability is {excerpt(label)}: give one of {choices}")
    numbered = re.fullmatch(r"(.+)_([0-9]{1,9})", qid)
    if numbered:
        name = numbered[1]
        number = int(numbered[2])
    else:
        name = qid
        number = 1 + sum(message["role"] == "user" for message in history)
    turn = TopicTurn(
        number,
        messages[-1]["content"],
        answer,
        resolved,
        qid=qid,
        history=tuple(history),
        answerability=label,
    )
    return Conversation(name, ptkb=_statements(item.get("ptkb") or {}), turns=(turn,))


def _read_message(message: Any) -> Message:
    role = _field(message, "role")
    if role not in ("user", "assistant"):
        raise ValueError(f"the role is {excerpt(role)}, not user or assistant")
    return {"role": role, "content": _field(message, "content")}


def _read_track(item: Any) -> Conversation:
    """Read a conversation of iKAT, or a topic of CAsT."""
    if isinstance(item, dict) and "turn" in item:
        return _read_cast(item)
    number = _one_word(_value(item, "number", "conv_id"))
    ptkb = _statements(item.get("ptkb"))
    entries = _field(item, "turns", "responses", kind=list)
    turns = tuple(_each(entries, partial(_read_ikat_turn, ptkb=ptkb)))
    if not turns:
        raise ValueError(f"conversation {number} has no turns")
    ids = [turn.turn_id for turn in turns]
    if ids != sorted(set(ids)):
        raise ValueError(f"conversation {number} has turns whose ids do not rise")
    return Conversation(number, str(item.get("title", "")), ptkb, turns)


def _read_ikat_turn(turn: Any, ptkb: Mapping[str, str]) -> TopicTurn:
    turn_id = _field(turn, "turn_id", kind=int)
    utterance = _field(turn, "utterance", "user_utterance")
    response = _field(turn, "response")
    resolved = _field(turn, "resolved_utterance", default="")
    chosen = _field(turn, "ptkb_provenance", "relevant_ptkbs", kind=list, default=[])
    cited = _field(turn, "response_provenance", "citations", kind=list, default=[])
    statements = _once(_statement_id(entry, ptkb) for entry in chosen)
    passages = _once(_one_word(docno) for docno in cited)
    return TopicTurn(turn_id, utterance, response, resolved, statements, passages)


def _statement_id(entry: Any, ptkb: Mapping[str, str]) -> str:
    """Return the id of a gold statement.

    Files of 2023 and 2024 have the id, those of 2025 the statement's words. The exact words are
    looked for first, then words that differ in letter case or white space.
    """
    words = str(entry)
    if words in ptkb:
        return words
    for statement_id, statement in ptkb.items():
        if statement == words:
            return statement_id
    for statement_id, statement in ptkb.items():
        if _folded(statement) == _folded(words):
            return statement_id
    repair = "give the id or the exact words of one"
    raise ValueError(f"the ptkb has no gold statement {excerpt(entry)}: {repair}")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _read_cast(topic: Any) -> Conversation:
    """Read a topic of CAsT, with turns ``<topic>_<turn>``.

    In 2019 to 2021 a turn's history is all turns before it. In 2022 the topic is a tree, and a
    turn's history is the path down to it; the other branches are conversations that went another
    way. All user messages are turns, also answers to a question of the system, because NIST judged
    them.
    """
    number = _one_word(topic["number"])
    entries = {str(entry["number"]): entry for entry in topic["turn"]}
    turns = []
    for position, (name, entry) in enumerate(entries.items(), 1):
        qid = f"{number}_{name}"
        if "participant" not in entry:
            turns.append(_read_listed_turn(entry, qid, position))
        elif entry["participant"] == "User":
            turns.append(_read_tree_turn(entry, qid, entries))
    if not turns or len(entries) < len(topic["turn"]):
        raise ValueError(f"topic {number} has no turns, or one of them twice")
    return Conversation(number, str(topic.get("title", "")), turns=tuple(turns))


def _read_listed_turn(entry: Mapping[str, Any], qid: str, position: int) -> TopicTurn:
    """Read a turn of CAsT 2019 to 2021."""
    turn_id = position
    if isinstance(entry["number"], int):
        turn_id = entry["number"]
    answer = _field(entry, "passage", default="")
    passages = [entry[name] for name in CANONICAL_FIELDS if entry.get(name)]
    turn = TopicTurn(turn_id, "", answer, qid=qid, passages=_once(passages[:1]))
    return _with_questions(turn, entry)


def _read_tree_turn(
    entry: Mapping[str, Any], qid: str, entries: Mapping[str, Mapping[str, Any]]
) -> TopicTurn:
    """Read a turn of CAsT 2022. Its response is the first message of the system below it."""
    history = _path(entry, entries)
    turn_id = 1 + sum(message["role"] == "user" for message in history)
    answer = ""
    passages: list[str] = []
    for below in entries.values():
        if str(below.get("parent")) == str(entry["number"]) and below["participant"] != "User":
            answer = below["response"]
            for docno in below.get("provenance") or ():
                passages.append(docno.replace(" ", ""))  # one docno of the file has a blank
            break
    turn = TopicTurn(turn_id, "", answer, qid=qid, passages=_once(passages), history=history)
    return _with_questions(turn, entry)


def _with_questions(turn: TopicTurn, entry: Mapping[str, Any]) -> TopicTurn:
    """Add the utterance and its rewrites, from fields of all years of CAsT."""
    return replace(
        turn,
        utterance=_field(entry, "raw_utterance", "utterance"),
        resolved=_field(entry, "manual_rewritten_utterance", default=""),
        automatic=_field(entry, "automatic_rewritten_utterance", default=""),
    )


def _path(
    entry: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> tuple[Message, ...]:
    """Return the messages above a turn of a tree, from the first."""
    path: list[Message] = []
    # A tree without a circle has fewer messages above a turn than entries.
    while entry.get("parent") is not None and len(path) < len(entries):
        entry = entries[str(entry["parent"])]
        if entry["participant"] == "User":
            path.append({"role": "user", "content": entry["utterance"]})
        else:
            path.append({"role": "assistant", "content": entry["response"]})
    return tuple(reversed(path))


def _read_mtrag(task: Any) -> Conversation:
    """Read a task of MTRAG or MTRAG-UN: one turn with its history."""
    name, _, number = task["task_id"].rpartition("<::>")
    roles = {"user": "user", "agent": "assistant"}
    messages = []
    for message in task["input"]:
        messages.append({"role": roles[message["speaker"]], "content": message["text"]})
    *history, last = messages
    [target] = task["targets"]
    [label] = task.get("Answerability") or task["answerability"]  # of MTRAG, of MTRAG-UN
    if last["role"] != "user" or label.lower() not in ANSWERABILITY:
        last_is = f"the last message is the {last['role']}'s"
        raise ValueError(f"{last_is}, and the answerability is {label}")
    turn = TopicTurn(
        int(number),
        last["content"],
        target["text"],
        passages=_once(context["document_id"] for context in task["contexts"]),
        qid=task["task_id"],
        history=tuple(history),
        answerability=label.lower(),
    )
    return Conversation(name, turns=(turn,))


def _read_locomo(sample: Any) -> Conversation:
    """Read a conversation of LoCoMo.

    Its turns are the statements, and its questions with evidence are the turns.
    """
    statements = {}
    for session in sample["conversation"].values():
        if isinstance(session, list):
            for turn in session:
                statements[turn["dia_id"]] = _spoken(turn)
    questions = []
    for number, item in enumerate(sample["qa"], 1):
        evidence = []
        for entry in item["evidence"]:
            evidence += [turn for turn in ids_in(entry) if turn in statements]
        if not evidence:
            continue
        question = TopicTurn(
            number,
            item["question"],
            str(item.get("answer", "")),
            passages=_once(evidence),
            history=(),
            category=LOCOMO_CATEGORIES[item["category"]],
        )
        questions.append(question)
    return Conversation(
        str(sample["sample_id"]),
        ptkb=statements,
        turns=tuple(questions),
        facts=_locomo_facts(sample["observation"], statements),
    )


def _spoken(turn: Mapping[str, str]) -> str:
    text = f"{turn['speaker']}: {turn['text']}"
    if turn.get("blip_caption"):
        text += f" [{turn['blip_caption']}]"
    return text


def ids_in(entry: str) -> list[str]:
    """Return the ids of turns in an entry of LoCoMo's evidence.

    Its slips are colons and zeros too many, and several ids in one text.

    Example:
        >>> ids_in("D8:6; D9:17"), ids_in("D:11:26"), ids_in("D30:05"), ids_in("D")
        (['D8:6', 'D9:17'], ['D11:26'], ['D30:5'], [])
    """
    ids = []
    for session, turn in re.findall(r"D:?(\d+):(\d+)", entry):
        ids.append(f"D{int(session)}:{int(turn)}")
    return ids


def _locomo_facts(observation: Mapping[str, Any], turns: Mapping[str, str]) -> dict[str, str]:
    """Return each fact once for each of its source turns, as ``D1:3%p0``."""
    observed: list[Any] = []
    for session in observation.values():
        for about_speaker in session.values():
            observed += about_speaker
    facts: dict[str, str] = {}
    count: Counter[str] = Counter()
    for text, sources in observed:
        if isinstance(sources, list):
            sources = " ".join(sources)
        for turn in ids_in(sources):
            if turn in turns:
                facts[f"{turn}%p{count[turn]}"] = text
                count[turn] += 1
    return facts


def _read_longmemeval(item: Any) -> Conversation:
    """Read a question of LongMemEval. The user's turns in its sessions are the statements.

    Sources: xiaowu0162/LongMemEval, README ("Dataset Format") for the fields. In
    src/retrieval/run_retrieval.py, the evidence is the user's turns with ``has_answer``, and a
    question whose id has ``_abs`` is not scored, whatever its turns say.
    src/evaluation/evaluate_qa.py counts the answers to all questions.
    """
    sessions = zip(item["haystack_session_ids"], item["haystack_sessions"], strict=True)
    statements: dict[str, str] = {}
    evidence = []
    for session_id, session in sessions:
        for number, turn in enumerate(session, 1):
            if turn["role"] != "user":
                continue
            statement_id = f"{session_id}:{number}"
            text = str(turn["content"])
            if statements.setdefault(statement_id, text) != text:
                raise ValueError(f"two sessions have the id {session_id}")
            if turn.get("has_answer") is True:
                evidence.append(statement_id)
    name = str(item["question_id"])
    answerability = "answerable"
    if ABSTENTION in name:
        answerability = "unanswerable"
        evidence = []
    question = TopicTurn(
        1,
        item["question"],
        str(item["answer"]),
        passages=_once(evidence),
        history=(),
        answerability=answerability,
        category=str(item["question_type"]),
    )
    return Conversation(name, ptkb=statements, turns=(question,))


FILE_FORMS = {
    "JSON lines": FileForm(
        _read_own_turn,
        LINE_OF_TURNS,
        ("qid", "messages", "ptkb", "resolved", "answer", "answerability"),
    ),
    "iKAT or CAsT": FileForm(
        _read_track,
        "mend it, or fetch the file again "
        "(of CAsT 2022 the file of trees, which has each turn once)",
    ),
    "MTRAG": FileForm(_read_mtrag, "fetch the file again"),
    "LoCoMo": FileForm(_read_locomo, "fetch the file again"),
    "LongMemEval": FileForm(_read_longmemeval, "fetch the file again"),
}
"""Form -> its reader."""
