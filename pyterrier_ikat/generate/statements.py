"""The statements about the user: choose those that a turn needs, show or append them, learn new ones, and examples for prompts."""

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
from ..operator import Operator, with_fields
from ..planning import Plan
from ..prompts import history_text, ptkb_text
from .utterances import WritesQuery

TRAINING = "ikat:2023-train"
ORDER = {TRAINING: ("1-1", "1-2", "2-1", "2-2", "7-1")}
"""The conversations that the PTKB study uses as examples, in their order. Of other data, the first ones are used."""


@cache
def examples_of(shots: int, data: str, rewrites: bool) -> list[str]:
    """The texts of the first conversations: the persona, then for each turn the utterance, chosen statements, rewrite and response.

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
    written = {
        one.number: one
        for one in dataset(data).conversations
        if any(turn.resolved for turn in one.turns)
    }
    numbers = [number for number in ORDER.get(data, written) if number in written][:shots]
    if len(numbers) < shots:
        there = counted(len(numbers), "conversation")
        raise UsageError(
            f"shots={shots}: {data} has {there} to take as examples: give fewer shots or another dataset"
        )
    return [_shown(written[number], rewrites) for number in numbers]


def _shown(conversation: Conversation, rewrites: bool) -> str:
    lines = [f"About the user: {ptkb_text(conversation.ptkb)}"]
    for turn in conversation.turns:
        lines += [f"user: {turn.utterance}", f"Statements: [{', '.join(turn.statements)}]"]
        lines += [f"Rewrite: {turn.resolved}"] * rewrites + [f"Response: {turn.response}"]
    return "\n".join(lines)


class AsksSome(LLMOperator):
    """Asks the model only for the rows that :meth:`asked` names."""

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

    def by_row(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Any]:
        """For each row its outcome; ``None`` if the model was not asked."""
        outcomes = iter(found)
        return [next(outcomes) if asked else None for asked in self.asked(frame)]


def check_numbered(qids: Iterable[str], ptkbs: Iterable[Mapping[str, str]]) -> None:
    """Make sure that a model can choose statements by number.

    Raises:
        DataError: for an id that is no number, such as ``P3`` or ``2a``: its digits alone would be
            read.
    """
    for qid, ptkb in zip(qids, ptkbs, strict=True):
        for name in ptkb:
            if not plain_signs(name).isdecimal():
                numbered = (
                    "number them 1, 2, 3, or give the persona as a list of texts, which numbers it"
                )
                raise DataError(
                    f"turn {qid}: a model chooses statements by number, and the id {name!r} is none: {numbered}"
                )


def without_unknown_choices(
    asker: LLMOperator,
    form: str,
    qids: Iterable[str],
    outcomes: Sequence[Any],
    choices: Sequence[Any],
    ptkbs: Sequence[Mapping[str, str]],
) -> list[Any]:
    """The outcomes, with a failure in place of each whose choice names something, but no statement of its turn's persona.

    Args:
        asker: the operator that asked.
        form: the form of the choices, as :func:`choose` takes it.
        qids: the turns.
        outcomes: what was read for each turn, or its failure.
        choices: what each of them chooses.
        ptkbs: the persona of each turn.
    """
    checked = list[Any]()
    for qid, outcome, choice, ptkb in zip(qids, outcomes, choices, ptkbs, strict=True):
        unknown = "" if isinstance(outcome, LLMFailure) else only_unknown(form, choice, ptkb)
        if unknown:
            asker.count(failures=1)
            outcome = LLMFailure(
                asker.stage, qid, f"all chosen statements are unknown ({unknown})", kept=True
            )
        checked.append(outcome)
    return checked


KINDS = {"ids": IDS, "copies": COPIES, "scores": SCORES}


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
        >>> llm, turn = ikat.llm(Model()), ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.SelectStatements(llm)(turn)["qstatements"].tolist(), llm.ledger.frame()["dropped"].tolist()
        ([[('2', 1.0)]], [1])
    """

    stage = "statements"
    activity = "choosing statements about the user"
    schematic = {"label": "Statements"}
    least = {"shots": 0}
    choices = {"form": KINDS, "given": (None, "suggestion")}

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
        return KINDS[self.form]

    def template(self) -> str:
        """The prompt for the form of the answer."""
        return (
            f"statements_{self.form}"
            + ("_suggested" if self.given else "")
            + ("_shots" if self.shots else "")
        )

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files, the same with and without examples."""
        return super().prompt_of(template.removesuffix("_shots"))

    def columns_shown(self) -> dict[str, str]:
        """The outline."""
        return {"suggestion": "qsuggestion"} if self.given else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows; without ``history`` an empty ``context``; with ``shots`` the examples."""
        more = {
            "examples": examples_of(self.shots, self.examples, False),
            **({} if self.history else {"context": ""}),
        }
        return [{"suggestion": "", **row, **more} for row in super().contexts(frame)]

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
        firsts = [list(ptkb.items())[:2] for ptkb in self.personas(self.rows_asked(frame))]
        return [
            [
                {"ids": number, "copies": text, "scores": (number, 0.5)}[self.form]
                for number, text in first
            ]
            for first in firsts
        ]

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """As for every operator. A choice that names only statements which the persona lacks is a failure."""
        asked = self.rows_asked(frame)
        return super().settle(
            frame,
            without_unknown_choices(
                self, self.form, asked["qid"], outcomes, outcomes, self.personas(asked)
            ),
        )

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The pieces that name no statement, and scores out of range."""
        return [piece for chosen in self._chosen(frame, found) for piece in chosen.dropped]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qstatements``."""
        chosen = self.by_row(frame, self._chosen(frame, found))
        return with_columns(frame, qstatements=[one.statements if one else [] for one in chosen])

    def _chosen(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Chosen]:
        personas = self.personas(self.rows_asked(frame))
        return [
            choose(self.form, pieces, ptkb) for pieces, ptkb in zip(found, personas, strict=True)
        ]


def _ids_in(chosen: Iterable[Any] | None) -> list[str]:
    """The ids in a list of ids, as ``qgoldptkb``, or of (id, score), as ``qstatements``."""
    ids = list[str]()
    for item in chosen or []:
        alone = isinstance(item, str | Integral)
        ids.append(statement_id(item if alone else item[0]))
    return ids


SHOWN = {"none": None, "chosen": "qstatements", "gold": "qgoldptkb"}
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
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.generate.ShowStatements("chosen")(turn.assign(qstatements=[[("2", 0.9)]]))["qptkb"].tolist()
        [{'2': 'I am vegan.'}]
    """

    one_row_per_turn = True
    schematic = {"label": "Show statements"}

    shown: str = "chosen"

    def __post_init__(self) -> None:
        if not self.shown.isdecimal():
            one_of((*SHOWN, "a statement's id"), shown=self.shown)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """As in a run; the whole persona if no column says what is shown."""
        column = SHOWN.get(self.shown)
        return self.transform(frame) if column is None or column in frame.columns else frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qptkb``."""
        column = SHOWN.get(self.shown)
        pt.validate.query_frame(
            inp, extra_columns=["query", *([column] if column else [])], context=self
        )
        ptkbs = personas(inp)
        if column is None:
            return with_columns(
                inp,
                qptkb=[
                    {one: text for one, text in ptkb.items() if one == self.shown} for ptkb in ptkbs
                ],
            )
        named = [_ids_in(chosen) for chosen in values(inp, column)]
        return with_columns(
            inp,
            qptkb=[
                {one: ptkb[one] for one in ids if one in ptkb}
                for ids, ptkb in zip(named, ptkbs, strict=True)
            ],
        )


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
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.generate.AppendStatements()(turn.assign(qstatements=[[("2", 0.9)]]))["query"].tolist()
        ['Breakfast? I am vegan.']
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
        rows = zip(
            frame["qid"],
            texts_in(frame, "query"),
            personas(frame),
            values(frame, self.column),
            strict=True,
        )
        return [
            " ".join([query, *self._texts(qid, ptkb, chosen or [])])
            for qid, query, ptkb, chosen in rows
        ]

    def _texts(self, qid: str, ptkb: Mapping[str, str], chosen: Iterable[Any]) -> list[str]:
        ids = _ids_in(chosen)
        unknown = [number for number in ids if number not in ptkb]
        if unknown:
            what = f"{self.column} names statement {unknown[0]!r}, its persona has {', '.join(ptkb) or 'none'}"
            raise DataError(
                f"turn {qid}: {what}: choose the statements on the frame that they are used on"
            )
        return [ptkb[number] for number in ids]


EARLIER = 3
"""The exchanges that are shown before the messages to learn from, so that "No, I don't" can be understood."""


NOTHING = "(nothing is known)"


@with_fields
class UpdatePtkb(LLMOperator):
    """Ask the model which new statements the user made about themselves, and merge them with the known ones.

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
        ...         return ['[{"message": 1, "words": "I moved to Oslo", "statement": "I live in Oslo.", "replaces": [1]}]']
        >>> turn = ikat.conversation([{"role": "user", "content": "I moved to Oslo. Any vegan cafés?"}], ["I live in Lyon.", "I am vegan."])
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
    question: str = field(
        default="qutterance", init=False
    )  # the words of a manual rewrite are not the user's

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that the prompt shows: ``ptkb``, ``day``, and ``context``, which ends with the question."""
        contexts = []
        for said, ptkb in zip(self._conversations(frame), self.personas(frame), strict=True):
            contexts.append(
                {
                    "context": self._context(said),
                    "ptkb": ptkb_text(ptkb) or NOTHING,
                    "day": self.day,
                }
            )
        return contexts

    def describe_unusable(self, text: str) -> str:
        """The reason why a completion counts as a failure. It quotes nothing, because the words may be personal."""
        return f"no JSON list of statements in the completion of {len(text)} characters"

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """Nothing new."""
        return [[] for _ in frame["qid"]]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """One statement, from the last message."""
        said = [_said(messages) for messages in self._conversations(frame)]
        return [
            [
                {
                    "message": len(texts),
                    "words": texts[len(texts)][:60],
                    "statement": "I live in Oslo.",
                }
            ]
            for texts in said
        ]

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The statements without a source in the user's messages."""
        return [piece for learned in self._learned(frame, found) for piece in learned.dropped]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qptkb`` and ``qlearned``; where there are ``qmemories``, they are kept in step."""
        learned = self._learned(frame, found)
        more = {}
        if "qmemories" in frame.columns:
            rows = zip(
                values(frame, "qmemories"), learned, values(frame, "qconversation", ""), strict=True
            )
            more = {
                "qmemories": [
                    None if known is None else _with_learned(known, one, session)
                    for known, one, session in rows
                ]
            }
        return with_columns(
            frame,
            qptkb=[one.ptkb for one in learned],
            qlearned=[one.statements for one in learned],
            **more,
        )

    def _learned(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Learned]:
        taken = [{one["id"] for one in memories or ()} for memories in values(frame, "qmemories")]
        rows = zip(found, self.personas(frame), self._conversations(frame), taken, strict=True)
        return [
            merge(pieces, ptkb, self._asked(_said(messages)), ids)
            for pieces, ptkb, messages, ids in rows
        ]

    def _conversations(self, frame: pd.DataFrame) -> list[list[dict[str, str]]]:
        """The messages of each row, the question last."""
        rows = zip(histories(frame), self.questions(frame), strict=True)
        return [[*history, {"role": "user", "content": question}] for history, question in rows]

    def _asked(self, said: dict[int, str]) -> dict[int, str]:
        """The user's messages to learn from."""
        return {
            number: text
            for number, text in said.items()
            if self.messages is None or number > len(said) - self.messages
        }

    def _context(self, messages: Sequence[dict[str, str]]) -> str:
        places = [place for place, message in enumerate(messages) if message["role"] == "user"]
        numbers = {place: number for number, place in enumerate(places, 1)}
        first = 0 if self.messages is None else max(len(places) - self.messages, 0)
        start = 0 if self.messages is None else places[max(first - EARLIER, 0)]
        shown = {place - start: numbers[place] for place in places[first:]}
        return history_text(messages[start:], self.style, shown)


def _with_learned(
    memories: Sequence[Mapping[str, Any]], learned: Learned, session: str
) -> list[dict[str, Any]]:
    """The memories of a turn after it: those that were contradicted have an end, and the new ones are there."""
    now, gone = utc(None), {number for one in learned.statements for number in one["replaces"]}
    before = [
        {**one, "until": now} if one["id"] in gone and one["until"] is None else dict(one)
        for one in memories
    ]
    new = [
        {**one, "when": now, "until": None, "session": session, "turn": one["message"]}
        for one in learned.statements
    ]
    return [
        *before,
        *({name: value for name, value in one.items() if name != "message"} for one in new),
    ]


def _said(messages: Sequence[dict[str, str]]) -> dict[int, str]:
    """The user's messages by number."""
    return dict(
        enumerate((message["content"] for message in messages if message["role"] == "user"), 1)
    )
