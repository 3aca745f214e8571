"""Choose the statements about the user that are relevant for a turn, and add their texts to the query."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least, one_of
from ..completions.kinds import COPIES, IDS, SCORES, Kind
from ..completions.matching import Chosen, choose
from ..conversations.frame import personas, texts_in, values, with_columns, with_query
from ..errors import DataError, UsageError
from ..operator import Operator, with_fields
from .enhance import AsksSome
from .examples import TRAINING, examples_of

if TYPE_CHECKING:
    from ..planning import Plan

KINDS = {"ids": IDS, "copies": COPIES, "scores": SCORES}


@with_fields
class SelectStatements(AsksSome):
    """Ask the model which statements of the persona are relevant for the question.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qstatements``, a list of (id, score), best
    first. One call per turn. A turn without a persona makes no call and gets an empty list. "No statement is relevant" is a valid answer,
    not a failure. Pieces that name no statement are omitted, and scores outside 0 to 1 are clipped. The ledger counts both as ``dropped``.
    A completion without a readable choice (such as prose instead of JSON scores) is a failed turn; the fallback is an empty list.

    Sources: ``"ids"``: Fu et al., NII@TREC iKAT 2024, appendix A2 (with ``history=False`` and the rewrite as
    ``question``); ``"copies"``: Lupart et al., IRLab@iKAT24, Table 4, and Fu et al., appendix A6; ``"scores"``: De Lima
    and Yang, Passage Query Methods, section 3.3.2, with one example.

    Args:
        llm: the model to ask.
        form: the format of the model's answer. ``"ids"``: a JSON list of numbers, score 1 / position. ``"copies"``: the statements
            themselves, matched exactly, then normalised, then fuzzily (similarity of at least 0.9), score 1 / position. ``"scores"``: a
            JSON object id -> score from 0 to 1; statements of score 0 are omitted.
        given: ``"suggestion"``: also show the outline in ``qsuggestion`` (section 4.2.2, run 3 of De Lima and Yang).
        history: whether the prompt shows the conversation.
        shots: how many conversations the prompt shows as examples, for ``"ids"`` (Mo et al., How to Leverage Personal Textual Knowledge,
            arXiv 2407.16192, STR).
        examples: the dataset, or topics file, that they are taken from.

    Raises:
        UsageError: when ``form`` or ``given`` is unknown, ``shots`` is below 0, or a form shows no examples.

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

    form: str = "ids"
    _: KW_ONLY
    given: str | None = None
    history: bool = True
    shots: int = 0
    examples: str = TRAINING

    def __post_init__(self) -> None:
        one_of(KINDS, form=self.form)
        one_of((None, "suggestion"), given=self.given)
        at_least(0, shots=self.shots)
        if self.shots and (self.form != "ids" or self.given):
            raise UsageError(f"shots={self.shots}: only form='ids' without given shows examples")
        super().__post_init__()

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """How its answer is read; the statements are matched with the persona later."""
        return KINDS[self.form]

    def template(self) -> str:
        """The prompt for the form of the answer."""
        return f"statements_{self.form}" + ("_suggested" if self.given else "") + ("_shots" if self.shots else "")

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files, the same with and without examples."""
        return super().prompt_of(template.removesuffix("_shots"))

    def columns_shown(self) -> dict[str, str]:
        """The outline."""
        return {"suggestion": "qsuggestion"} if self.given else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows; without ``history`` an empty ``context``; with ``shots`` the examples."""
        more = {"examples": examples_of(self.shots, self.examples, False), **({} if self.history else {"context": ""})}
        return [{"suggestion": "", **row, **more} for row in super().contexts(frame)]

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """No statement."""
        return [[]] * len(self.rows_asked(frame))

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """The first two statements."""
        firsts = [list(ptkb.items())[:2] for ptkb in self.personas(self.rows_asked(frame))]
        return [[{"ids": number, "copies": text, "scores": (number, 0.5)}[self.form] for number, text in first] for first in firsts]

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The pieces that name no statement, and scores out of range."""
        return [piece for chosen in self._chosen(frame, found) for piece in chosen.dropped]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qstatements``."""
        chosen = self.by_row(frame, self._chosen(frame, found))
        return with_columns(frame, qstatements=[one.statements if one else [] for one in chosen])

    def _chosen(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Chosen]:
        personas = self.personas(self.rows_asked(frame))
        return [choose(self.form, pieces, ptkb) for pieces, ptkb in zip(found, personas, strict=True)]


SHOWN = {"none": None, "chosen": "qstatements", "gold": "qgoldptkb"}
"""The part of a persona that is shown -> the column that names it."""


@with_fields
class ShowStatements(Operator):
    """Show later stages only a part of the persona.

    Reads ``qid``, ``query``, ``qptkb`` and the column that names the shown statements. Sets ``qptkb`` to these statements, in their order
    and with their ids. In front of any system, it measures what the persona contributes: Lupart et al., IRLab@iKAT24, section 3.3, name the
    use of only the chosen statements as an alternative; Mo et al., How to Leverage Personal Textual Knowledge (arXiv 2407.16192), compare
    none, all, chosen and gold ones.

    Args:
        shown: ``"none"``, ``"chosen"`` (``qstatements``, as :class:`SelectStatements` writes them), ``"gold"`` (``qgoldptkb``), or the id
            of one statement, such as ``"3"``. Ids that the persona does not have are skipped.

    Raises:
        UsageError: for anything else.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.ShowStatements("chosen")(turn.assign(qstatements=[[("2", 0.9)]]))["qptkb"].tolist()
        [{'2': 'I am vegan.'}]
    """

    one_row_per_turn = True
    schematic = {"label": "Show statements"}

    shown: str = "chosen"

    def __post_init__(self) -> None:
        if not self.shown.isdecimal():
            one_of((*SHOWN, "a statement's id"), shown=self.shown)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """As in a run; the whole persona if no column says what is shown."""
        column = SHOWN.get(self.shown)
        return self.transform(frame) if column is None or column in frame.columns else frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``qptkb``."""
        column = SHOWN.get(self.shown)
        pt.validate.query_frame(inp, extra_columns=["query", *([column] if column else [])], context=self)
        ptkbs = personas(inp)
        if column is None:
            return with_columns(inp, qptkb=[{one: text for one, text in ptkb.items() if one == self.shown} for ptkb in ptkbs])
        named = [[one if isinstance(one, str) else one[0] for one in chosen or []] for chosen in values(inp, column)]
        return with_columns(inp, qptkb=[{one: ptkb[one] for one in ids if one in ptkb} for ids, ptkb in zip(named, ptkbs, strict=True)])


@with_fields
class AppendStatements(Operator):
    """Append the texts of chosen statements about the user to the query.

    Reads ``qid``, ``query``, ``column`` and ``qptkb``. Sets ``query`` to the query followed by the statements in their order, separated by
    spaces, and pushes the old query to ``query_0``. The query of a turn without chosen statements does not change. Source: the organisers'
    baselines of iKAT 2023, with the three best statements by MiniLM (automatic) or the gold ones (manual, ``column="qgoldptkb"``).

    Args:
        column: the chosen statements: a list of (id, score), as ``qstatements``, or of ids, as ``qgoldptkb``; ``None`` is not a statement.

    Raises:
        DataError: when a statement is not in the turn's persona.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> turn = ikat.conversation([{"role": "user", "content": "Breakfast?"}], ["I own a dog.", "I am vegan."])
        >>> ikat.AppendStatements()(turn.assign(qstatements=[[("2", 0.9)]]))["query"].tolist()
        ['Breakfast? I am vegan.']
    """

    one_row_per_turn = True
    schematic = {"label": "Append statements"}

    column: str = "qstatements"

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The query alone if no column says which statements are chosen."""
        return self.transform(frame) if self.column in frame.columns else frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query", self.column], context=self)
        rows = zip(inp["qid"], texts_in(inp, "query"), personas(inp), values(inp, self.column), strict=True)
        return with_query(inp, [" ".join([query, *self._texts(qid, ptkb, chosen or [])]) for qid, query, ptkb, chosen in rows])

    def _texts(self, qid: str, ptkb: Mapping[str, str], chosen: Iterable[Any]) -> list[str]:
        ids = [item if isinstance(item, str) else item[0] for item in chosen]
        unknown = [number for number in ids if number not in ptkb]
        if unknown:
            what = f"{self.column} names statement {unknown[0]!r}, its persona has {', '.join(ptkb) or 'none'}"
            raise DataError(f"turn {qid}: {what}: choose the statements on the frame that they are used on")
        return [ptkb[number] for number in ids]
