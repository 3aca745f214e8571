"""Statements about the user: choose, show or append them, and learn new ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from functools import cache
from numbers import Integral
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import one_of, utc
from ..completions.kinds import COPIES, IDS, LEARNED, SCORES, Kind
from ..completions.learned import Learned, merge
from ..completions.signs import plain_signs
from ..completions.statements import Chosen, choose, only_unknown
from ..conversations import dataset
from ..conversations.frame import histories, personas, statement_id, texts_in, values, with_columns
from ..conversations.topics import Conversation
from ..errors import DataError, UsageError, counted
from ..llm_operator import LLMOperator
from ..llms import LLMFailure, Request
from ..lost_columns import has_column
from ..operator import Operator, with_fields
from ..planning import Plan
from ..prompts import history_text, ptkb_text
from .utterances import WritesQuery

TRAINING = "ikat:2023-train"
EXAMPLE_CONVERSATIONS = {TRAINING: ("1-1", "1-2", "2-1", "2-2", "7-1")}
"""Dataset -> the examples of the PTKB study, in order. Of other data, the first conversations."""


@cache
def examples_of(shots: int, data: str, rewrites: bool) -> list[str]:
    """Format the first conversations with a rewrite as examples for a prompt.

    Each has the persona, then for each turn the utterance, chosen statements, rewrite and response.
    Source: Mo et al., How to Leverage Personal Textual Knowledge (arXiv 2407.16192), and the code
    of its reproduction by Lupart et al. (arXiv 2510.03795): whole training conversations of 2023,
    always the same.

    Args:
        shots: how many conversations. With 0, no data are read.
        data: the dataset, such as ``"ikat:2023-train"``, or a topics file.
        rewrites: whether the rewrites are shown.

    Raises:
        UsageError: when the data have fewer conversations with a rewrite.
    """
    if not shots:
        return []
    rewritten = {}
    for conversation in dataset(data).conversations:
        if any(turn.resolved for turn in conversation.turns):
            rewritten[conversation.number] = conversation
    order = EXAMPLE_CONVERSATIONS.get(data, rewritten)
    numbers = [number for number in order if number in rewritten][:shots]
    if len(numbers) < shots:
        available = counted(len(numbers), "conversation")
        raise UsageError(
            f"shots={shots}: {data} has {available} to take as examples: "
            "give fewer shots or another dataset"
        )
    return [_example(rewritten[number], rewrites) for number in numbers]


def _example(conversation: Conversation, rewrites: bool) -> str:
    lines = [f"About the user: {ptkb_text(conversation.ptkb)}"]
    for turn in conversation.turns:
        lines.append(f"user: {turn.utterance}")
        lines.append(f"Statements: [{', '.join(turn.statements)}]")
        if rewrites:
            lines.append(f"Rewrite: {turn.resolved}")
        lines.append(f"Response: {turn.response}")
    return "\n".join(lines)


class AsksSome(LLMOperator):
    """Ask the model only for the rows that :meth:`asked` names."""

    def asked(self, frame: pd.DataFrame) -> list[bool]:
        """For each row whether the model is asked; by default, whether it has a persona."""
        return [bool(ptkb) for ptkb in self.personas(frame)]

    def rows_asked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows for which the model is asked."""
        return frame[self.asked(frame)]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each of these rows. Every row needs a question."""
        self.questions(frame)
        return super().requests(self.rows_asked(frame))

    def by_row(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """For each row its outcome; ``None`` if the model was not asked."""
        of_asked = iter(outcomes)
        return [next(of_asked) if asked else None for asked in self.asked(frame)]


def check_numbered(qids: Iterable[str], ptkbs: Iterable[Mapping[str, str]]) -> None:
    """Check that a model can choose statements by number.

    Raises:
        DataError: for an id that is no number, such as ``P3`` or ``2a``: a completion's numbers
            could not be matched with it.
    """
    for qid, ptkb in zip(qids, ptkbs, strict=True):
        for name in ptkb:
            if not plain_signs(name).isdecimal():
                raise DataError(
                    f"turn {qid}: a model chooses statements by number, and the id {name!r} is "
                    "none: number them 1, 2, 3, or give the persona as a list of texts, "
                    "which numbers it"
                )


def without_unknown_choices(
    asker: LLMOperator,
    form: str,
    qids: Iterable[str],
    outcomes: Sequence[Any],
    choices: Sequence[Any],
    ptkbs: Sequence[Mapping[str, str]],
) -> list[Any]:
    """Replace each outcome whose chosen statements are all unknown to its persona by a failure.

    An empty choice is no failure.

    Args:
        asker: the operator that asked.
        form: the form of the choices, as :func:`choose` takes it.
        qids: the turns.
        outcomes: what was read for each turn, or its failure.
        choices: what each of them chooses.
        ptkbs: the persona of each turn.
    """
    checked: list[Any] = []
    for qid, outcome, choice, ptkb in zip(qids, outcomes, choices, ptkbs, strict=True):
        unknown = ""
        if not isinstance(outcome, LLMFailure):
            unknown = only_unknown(form, choice, ptkb)
        if unknown:
            asker.count(failures=1)
            reason = f"all chosen statements are unknown ({unknown})"
            outcome = LLMFailure(asker.stage, qid, reason, kept=True)
        checked.append(outcome)
    return checked


KIND_OF_CHOICE = {"ids": IDS, "copies": COPIES, "scores": SCORES}
"""Form of :class:`SelectStatements` -> how its answers are read."""


@with_fields
class SelectStatements(AsksSome):
    """Ask the model which statements of the persona are relevant for the question.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qstatements``, a list of (id, score), best first. One call per turn. A turn without a persona
    makes no call and gets an empty list. "No statement is relevant" is a valid answer, not a
    failure. Pieces that name no statement are omitted, and scores outside 0 to 1 are clipped. The
    ledger counts both as ``dropped``. A completion without a readable choice (such as prose instead
    of JSON scores), or whose numbers are all unknown, is a failed turn; the fallback is an empty
    list.

    Sources: ``"ids"``: Fu et al., NII@TREC iKAT 2024, appendix A2 (with ``history=False`` and the
    rewrite as ``question``); ``"copies"``: Lupart et al., IRLab@iKAT24, Table 4, and Fu et al.,
    appendix A6; ``"scores"``: De Lima and Yang, Passage Query Methods, section 3.3.2, with one
    example.

    Args:
        llm: the model to ask.
        form: the format of the model's answer. ``"ids"``: a JSON list of numbers, score 1 /
            position. ``"copies"``: the statements themselves, matched exactly, then normalised,
            then fuzzily (similarity of at least 0.9), score 1 / position. ``"scores"``: a JSON
            object id -> score from 0 to 1; statements of score 0 are omitted.
        given: ``"suggestion"``: also show the outline in ``qsuggestion`` (section 4.2.2, run 3 of
            De Lima and Yang).
        history: whether the prompt shows the conversation.
        shots: how many conversations the prompt shows as examples, for ``"ids"`` (Mo et al., How to
            Leverage Personal Textual Knowledge, arXiv 2407.16192, STR).
        examples: the dataset, or topics file, that they are taken from.

    Raises:
        UsageError: when ``form`` or ``given`` is unknown, ``shots`` is below 0, or a form shows no
            examples.
        DataError: when it is used with ``"ids"`` and a persona whose ids are no numbers.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Only the diet matters: [2, 7]" for chat in chats]
        >>> llm = ikat.llm(Model())
        >>> chat = [{"role": "user", "content": "Breakfast?"}]
        >>> turn = ikat.conversation(chat, ["I own a dog.", "I am vegan."])
        >>> ikat.SelectStatements(llm)(turn)["qstatements"].item()
        [('2', 1.0)]
        >>> llm.ledger.frame()["dropped"].tolist()
        [1]
    """

    stage = "statements"
    activity = "choosing statements about the user"
    schematic = {"label": "Statements"}
    least = {"shots": 0}
    choices = {"form": KIND_OF_CHOICE, "given": (None, "suggestion")}

    form: str = "ids"
    _: KW_ONLY
    given: str | None = None
    history: bool = True
    shots: int = 0
    examples: str = TRAINING

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shots and (self.form != "ids" or self.given):
            raise UsageError(f"shots={self.shots}: only form='ids' without given shows examples")

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """How its answer is read; the statements are matched with the persona later."""
        return KIND_OF_CHOICE[self.form]

    def template(self) -> str:
        """The prompt for the form of the answer."""
        name = f"statements_{self.form}"
        if self.given:
            name += "_suggested"
        if self.shots:
            name += "_shots"
        return name

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files, the same with and without examples."""
        return super().prompt_of(template.removesuffix("_shots"))

    def columns_shown(self) -> dict[str, str]:
        """The outline."""
        return {"suggestion": "qsuggestion"} if self.given else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and examples; without ``history``, no ``context``."""
        examples = examples_of(self.shots, self.examples, rewrites=False)
        rows = []
        for row in super().contexts(frame):
            shown = {"suggestion": "", **row, "examples": examples}
            if not self.history:
                shown["context"] = ""
            rows.append(shown)
        return rows

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each row with a persona."""
        if self.form == "ids":
            check_numbered(frame["qid"], self.personas(frame))
        return super().requests(frame)

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """No statement."""
        return [[]] * len(self.rows_asked(frame))

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """The first two statements."""
        choices: list[Any] = []
        for ptkb in self.personas(self.rows_asked(frame)):
            numbers = list(ptkb)[:2]
            if self.form == "copies":
                choices.append([ptkb[number] for number in numbers])
            elif self.form == "scores":
                choices.append([(number, 0.5) for number in numbers])
            else:
                choices.append(numbers)
        return choices

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """As for every operator. A choice of statements that are all unknown is a failure."""
        asked = self.rows_asked(frame)
        checked = without_unknown_choices(
            self, self.form, asked["qid"], outcomes, outcomes, self.personas(asked)
        )
        return super().settle(frame, checked)

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """The pieces that name no statement, and scores out of range."""
        return [piece for chosen in self._chosen(frame, outcomes) for piece in chosen.dropped]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qstatements``."""
        statements = []
        for chosen in self.by_row(frame, self._chosen(frame, outcomes)):
            statements.append(chosen.statements if chosen else [])
        return with_columns(frame, qstatements=statements)

    def _chosen(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Chosen]:
        """Match the pieces that name statements with each turn's persona."""
        personas = self.personas(self.rows_asked(frame))
        rows = zip(outcomes, personas, strict=True)
        return [choose(self.form, pieces, ptkb) for pieces, ptkb in rows]


def _ids_in(chosen: Iterable[Any] | None) -> list[str]:
    """Return the ids in a list of ids, as ``qgoldptkb``, or of (id, score), as ``qstatements``."""
    ids = []
    for item in chosen or []:
        is_id = isinstance(item, str | Integral)
        ids.append(statement_id(item if is_id else item[0]))
    return ids


COLUMN_OF_SHOWN = {"none": None, "chosen": "qstatements", "gold": "qgoldptkb"}
"""The part of a persona that is shown -> the column that names it."""


@with_fields
class ShowStatements(Operator):
    """Show later stages only a part of the persona.

    Reads ``qid``, ``query``, ``qptkb`` and the column that names the shown statements. Sets
    ``qptkb`` to these statements, in their order and with their ids. In front of any system, it
    measures what the persona contributes: Lupart et al., IRLab@iKAT24, section 3.3, name the use of
    only the chosen statements as an alternative; Mo et al., How to Leverage Personal Textual
    Knowledge (arXiv 2407.16192), compare none, all, chosen and gold ones.

    Args:
        shown: ``"none"``, ``"chosen"`` (``qstatements``, as :class:`SelectStatements` writes them),
            ``"gold"`` (``qgoldptkb``), or the id of one statement, such as ``"3"``. Ids that the
            persona does not have are skipped.

    Raises:
        UsageError: for anything else.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> chat = [{"role": "user", "content": "Breakfast?"}]
        >>> turn = ikat.conversation(chat, ["I own a dog.", "I am vegan."])
        >>> turn["qstatements"] = [[("2", 0.9)]]
        >>> ikat.generate.ShowStatements("chosen")(turn)["qptkb"].item()
        {'2': 'I am vegan.'}
    """

    one_row_per_turn = True
    schematic = {"label": "Show statements"}

    shown: str = "chosen"

    def __post_init__(self) -> None:
        if not self.shown.isdecimal():
            one_of((*COLUMN_OF_SHOWN, "a statement's id"), shown=self.shown)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """As in a run; the whole persona if no column says what is shown."""
        column = COLUMN_OF_SHOWN.get(self.shown)
        if column is None or column in frame.columns:
            return self.transform(frame)
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qptkb``."""
        column = COLUMN_OF_SHOWN.get(self.shown)
        needed = ["query"] if column is None else ["query", column]
        pt.validate.query_frame(inp, extra_columns=needed, context=self)
        if column is None:
            shown = [[self.shown]] * len(inp)
        else:
            shown = [_ids_in(chosen) for chosen in values(inp, column)]
        ptkbs = []
        for ids, ptkb in zip(shown, personas(inp), strict=True):
            ptkbs.append({number: ptkb[number] for number in ids if number in ptkb})
        return with_columns(inp, qptkb=ptkbs)


@with_fields
class AppendStatements(WritesQuery):
    """Append the texts of chosen statements about the user to the query.

    Reads ``qid``, ``query``, ``column`` and ``qptkb``. Sets ``query`` to the query followed by the
    statements in their order, separated by spaces, and pushes the old query to ``query_0``. The
    query of a turn without chosen statements does not change. Source: the organisers' baselines of
    iKAT 2023, with the three best statements by MiniLM (automatic) or the gold ones (manual,
    ``column="qgoldptkb"``).

    Args:
        column: the chosen statements: a list of (id, score), as ``qstatements``, or of ids, as
            ``qgoldptkb``; ``None`` is not a statement.

    Raises:
        DataError: when a statement is not in the turn's persona.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> chat = [{"role": "user", "content": "Breakfast?"}]
        >>> turn = ikat.conversation(chat, ["I own a dog.", "I am vegan."])
        >>> turn["qstatements"] = [[("2", 0.9)]]
        >>> ikat.generate.AppendStatements()(turn)["query"].item()
        'Breakfast? I am vegan.'
    """

    schematic = {"label": "Append statements"}

    column: str = "qstatements"

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The query alone if no column says which statements are chosen."""
        return self.transform(frame) if self.column in frame.columns else frame

    def needs(self) -> list[str]:
        """Also the column."""
        return ["query", self.column]

    def queries(self, frame: pd.DataFrame) -> list[str]:
        """The query of each row and the statements."""
        qids = frame["qid"]
        chosen_lists = values(frame, self.column)
        rows = zip(qids, texts_in(frame, "query"), personas(frame), chosen_lists, strict=True)
        queries = []
        for qid, query, ptkb, chosen in rows:
            statements = self._statements(qid, ptkb, _ids_in(chosen))
            queries.append(" ".join([query, *statements]))
        return queries

    def _statements(self, qid: str, ptkb: Mapping[str, str], ids: Sequence[str]) -> list[str]:
        """Return the texts of these statements of a turn's persona."""
        for number in ids:
            if number not in ptkb:
                raise DataError(
                    f"turn {qid}: {self.column} names statement {number!r}, "
                    f"its persona has {', '.join(ptkb) or 'none'}: "
                    "choose the statements on the frame that they are used on"
                )
        return [ptkb[number] for number in ids]


EARLIER_EXCHANGES = 3
"""Shown before the messages to learn from, so that "No, I don't" can be understood."""

NOTHING_KNOWN = "(nothing is known)"
"""Shown in place of an empty persona."""


@with_fields
class UpdatePtkb(LLMOperator):
    """Ask the model for new statements of the user about themselves, and merge them with the known.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``,
    ``qmemories``. Writes a new ``qptkb``, new ``qmemories`` if there were any, and ``qlearned``, a
    list of the new statements: dicts of ``id``, ``statement``, ``message`` (the number of the
    user's message in the conversation, from 1), ``words`` (the user's words that say it) and
    ``replaces`` (ids of the known statements that it contradicts). One call per turn; a turn
    depends only on its own history, question and persona. The next operators see the new ``qptkb``.

    Only the user's messages count as a source. A statement is omitted, and counted in the ledger as
    ``dropped``, if it doesn't name a message of the user or if its words are not in that message. A
    repeat of a known statement is omitted. A known statement that the user contradicts is removed
    from ``qptkb``. The new one gets a new id, so an id of the topics never means another text. The
    fallback for a failed turn is the known statements.

    The persona of TREC iKAT is known before the conversation, and the user reveals more in it
    (guidelines of 2026, "Track Overview", https://www.trecikat.com/guidelines). The prompt is ours.
    :class:`UserMemory` keeps statements over several conversations.

    Args:
        llm: the model to ask.
        messages: how many of the user's last messages to learn from, including the question.
            ``None``: all. The prompt shows these messages and the three exchanges before them.
        day: the day on which these messages were said, as the prompt shows it, such as ``"Thursday,
            2024-05-02"``, so that "next week" becomes a date. Without it, the prompt mentions no
            day.

    Raises:
        UsageError: when ``messages`` is below 1.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return [
        ...             '[{"message": 1, "words": "I moved to Oslo", '
        ...             '"statement": "I live in Oslo.", "replaces": [1]}]'
        ...         ]
        >>> chat = [{"role": "user", "content": "I moved to Oslo. Any vegan cafés?"}]
        >>> turn = ikat.conversation(chat, ["I live in Lyon.", "I am vegan."])
        >>> updated = ikat.generate.UpdatePtkb(Model())(turn)
        >>> updated["qptkb"].item()
        {'2': 'I am vegan.', '3': 'I live in Oslo.'}
        >>> updated["qlearned"].item()[0]["replaces"]
        ['1']
    """

    stage = "update_ptkb"
    kind = LEARNED
    schematic = {"label": "Update PTKB"}
    least = {"messages": 1}

    _: KW_ONLY
    messages: int | None = None
    day: str = ""
    question: str = field(default="qutterance", init=False)
    """Fixed, because the words of a manual rewrite are not the user's."""

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that the prompt shows; ``context`` ends with the question."""
        rows = []
        for messages, ptkb in zip(self._conversations(frame), self.personas(frame), strict=True):
            shown = {
                "context": self._context(messages),
                "ptkb": ptkb_text(ptkb) or NOTHING_KNOWN,
                "day": self.day,
            }
            rows.append(shown)
        return rows

    def describe_unusable(self, text: str) -> str:
        """The reason why a completion is a failure; quotes nothing, because it may be personal."""
        return f"no JSON list of statements in the completion of {len(text)} characters"

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """Nothing new."""
        return [[] for _ in frame["qid"]]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """One statement, from the last message."""
        pieces = []
        for messages in self._conversations(frame):
            texts = _user_messages(messages)
            last = len(texts)
            words = texts[last][:60]
            pieces.append([{"message": last, "words": words, "statement": "I live in Oslo."}])
        return pieces

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """The statements without a source in the user's messages."""
        return [piece for learned in self._learned(frame, outcomes) for piece in learned.dropped]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qptkb`` and ``qlearned``; where there are ``qmemories``, they are kept in step."""
        learned = self._learned(frame, outcomes)
        written = with_columns(
            frame,
            qptkb=[of_turn.ptkb for of_turn in learned],
            qlearned=[of_turn.statements for of_turn in learned],
        )
        if has_column(frame, "qmemories"):
            conversations = values(frame, "qconversation", "")
            rows = zip(values(frame, "qmemories"), learned, conversations, strict=True)
            lists = []
            for memories, of_turn, conversation in rows:
                if memories is not None:
                    memories = _with_learned(memories, of_turn, conversation)
                lists.append(memories)
            written = with_columns(written, qmemories=lists)
        return written

    def _learned(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Learned]:
        """Merge what was read for each turn with its persona."""
        memories = values(frame, "qmemories", [])
        rows = zip(
            outcomes, self.personas(frame), self._conversations(frame), memories, strict=True
        )
        learned = []
        for pieces, ptkb, messages, known in rows:
            sources = self._sources(_user_messages(messages))
            ids = {memory["id"] for memory in known}
            learned.append(merge(pieces, ptkb, sources, ids))
        return learned

    def _conversations(self, frame: pd.DataFrame) -> list[list[dict[str, str]]]:
        """Return the messages of each row, the question last."""
        rows = zip(histories(frame), self.questions(frame), strict=True)
        return [[*history, {"role": "user", "content": question}] for history, question in rows]

    def _sources(self, texts: dict[int, str]) -> dict[int, str]:
        """Return the user's messages to learn from, by number."""
        if self.messages is None:
            return texts
        first = len(texts) - self.messages
        return {number: text for number, text in texts.items() if number > first}

    def _context(self, messages: Sequence[dict[str, str]]) -> str:
        """Format the messages to learn from, numbered, after some earlier exchanges.

        With ``messages=1``, the user's 6th message is shown with its number, after the three
        exchanges before it, which have no numbers.
        """
        of_user = [
            position for position, message in enumerate(messages) if message["role"] == "user"
        ]
        not_learned = 0  # the number of user messages from which nothing is learned
        start = 0  # the position of the first message that is shown
        if self.messages is not None:
            not_learned = max(len(of_user) - self.messages, 0)
            start = of_user[max(not_learned - EARLIER_EXCHANGES, 0)]
        numbers = {}  # position among the shown messages -> number in the conversation, from 1
        for number, position in enumerate(of_user, 1):
            if number > not_learned:
                numbers[position - start] = number
        return history_text(messages[start:], self.style, numbers)


def _with_learned(
    memories: Sequence[Mapping[str, Any]], learned: Learned, conversation: str
) -> list[dict[str, Any]]:
    """Return a turn's memories after it: contradicted ones have an end, new ones are added."""
    now = utc(None)
    replaced = set()
    for statement in learned.statements:
        replaced.update(statement["replaces"])
    after = []
    for memory in memories:
        memory = dict(memory)
        if memory["id"] in replaced and memory["until"] is None:
            memory["until"] = now
        after.append(memory)
    for statement in learned.statements:
        memory = {**statement, "when": now, "until": None, "session": conversation}
        memory["turn"] = memory.pop("message")
        after.append(memory)
    return after


def _user_messages(messages: Sequence[dict[str, str]]) -> dict[int, str]:
    """Return the user's messages by number, from 1."""
    texts = [message["content"] for message in messages if message["role"] == "user"]
    return dict(enumerate(texts, 1))
