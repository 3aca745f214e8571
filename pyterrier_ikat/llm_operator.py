"""The base of operators and judges that ask a language model.

It makes requests from templates, parses completions into values or typed failures, and counts in
the ledger.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import cycle, islice
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import pandas as pd
import pyterrier as pt

from .arguments import Checked
from .completions.json_answers import Structure
from .completions.kinds import Kind
from .completions.reasoning import without_reasoning
from .completions.usable import is_refusal, readable
from .conversations.frame import (
    each_turn_once,
    histories,
    personas,
    question_column,
    texts_in,
    values,
    with_columns,
    with_query,
)
from .errors import DataError, UsageError, counted, list_first
from .events import repaired
from .foreign import is_asked
from .llms import LLM, Completion, LLMFailure, Request, StageError, llm
from .llms.failures import NotStructured, Refused, list_failed
from .lost_columns import has_column
from .operator import Operator, with_fields
from .planning import Plan
from .prompts import (
    STYLES,
    checksum_of,
    declare_templates,
    history_text,
    instructions_for,
    pick_statements,
    prompts_or_default,
    ptkb_text,
    render,
)

log = logging.getLogger("pyterrier_ikat")

_models: "WeakValueDictionary[tuple[Any, ...], LLM]" = WeakValueDictionary()
_making = threading.Lock()


def as_llm(value: Any) -> LLM:
    """Return the language model for an operator's argument ``llm``.

    That is the model itself, or the one that `llm` makes from the value.

    Operators with the same text or object share one model, with its ledger, budget and connections.

    Raises:
        UsageError: when the value is not a model (see `llm`).
    """
    if is_asked(value):
        return value  # type: ignore[no-any-return]
    key: tuple[Any, ...] = (id(value),)
    if isinstance(value, str):
        home = os.environ.get("IKAT_HOME")
        key = (value, os.getcwd(), home, os.environ.get("OPENAI_BASE_URL"))
    with _making:
        model = _models.get(key) or llm(value)
        _models[key] = model
    return model


def is_of_package(cls: type) -> bool:
    """Return whether a class is defined in this package."""
    return cls.__module__.partition(".")[0] == __package__


def _declared_by(cls: type) -> list[str]:
    """The templates that a class of operators names in its attributes."""
    attributes = cls.__dict__
    names = [attributes.get("stage"), attributes.get("template_name")]
    by_argument = attributes.get("template_of")
    if by_argument is not None:
        _argument, of_values = by_argument
        names += of_values.values()
    return [name for name in names if isinstance(name, str) and name]


@dataclass(eq=False, repr=False)
class AsksLLM(Checked):
    """Base class of operators and judges, which ask a model.

    Subclasses give ``stage``, and ``kind`` or :meth:`parse`.

    Args (of every subclass):
        llm: the model to ask, from :func:`pyterrier_ikat.llm`, or any value that it takes: a
            specification, or an object with ``.generate``. Operators with the same model share its
            account and its budget.
        prompts: a folder of your own prompt templates; ``None``: that of the method being built, or
            the package's.
    """

    llm: LLM
    _: KW_ONLY
    prompts: str | None = None

    stage: ClassVar[str]
    kind = Kind()
    """How its answers are read: a parser and, for ``structured=on``, a JSON schema."""
    style = "gpt"
    question = ""
    open_ended = False
    """Whether the model decides how many texts it writes, so that a plan counts the fewest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.llm = as_llm(self.llm)
        own_templates = None if is_of_package(type(self)) else self.templates()
        self.prompts = prompts_or_default(self.prompts, own_templates)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not is_of_package(cls):
            declare_templates(_declared_by(cls))

    def prompt_of(self, template: str) -> str:
        """Return the prompt's name in recorded files: the template, ``_llama``, ``_human``."""
        name = template
        if self.style == "llama":
            name += "_llama"
        if self.question == "qresolved":
            name += "_human"
        return name

    def templates(self) -> list[str]:
        """Return the names of the templates that its requests are made from."""
        return [self.stage]

    def prompt_checksums(self) -> dict[str, str]:
        """Return a checksum of each template's source; see `pyterrier_ikat.prompts.checksum_of`."""
        checksums = {}
        for template in self.templates():
            for name in (template, instructions_for(template, self.style, self.prompts)):
                if name:
                    checksums[name] = checksum_of(name, self.style, self.prompts)
        return checksums

    def own_prompts(self) -> str | None:
        """Return the folder of the user's prompt templates, or None."""
        return self.prompts

    def message(self, template: str, values: dict[str, Any]) -> dict[str, str]:
        """Return a user message made from a template.

        Raises:
            UsageError: when :meth:`templates` lacks the template: a finished run could not be told
                from one with other prompts.
        """
        if template not in self.templates():
            raise UsageError(
                f"{type(self).__name__} uses the prompt template {template}: return its name from "
                "the method templates(), too"
            )
        return {"role": "user", "content": render(template, self.style, self.prompts, **values)}

    @property
    def _structure(self) -> Structure | None:
        """The form of JSON to ask for, or None for free text."""
        return self.kind.structure if self.llm.structured else None

    def request(
        self,
        qid: str,
        values: dict[str, Any],
        template: str,
        item: str = "",
        before: Sequence[dict[str, str]] = (),
    ) -> Request:
        """Return a request of one message from a template.

        Args:
            qid: the turn.
            values: what the template shows.
            template: the name of the template.
            item: what the request is about besides the turn, such as a passage.
            before: messages before it. A system message of the template stands before them.
        """
        messages: list[dict[str, str]] = []
        instructions = instructions_for(template, self.style, self.prompts)
        if instructions:
            text = render(instructions, self.style, self.prompts, **values)
            messages.append({"role": "system", "content": text})
        messages += before
        message = self.message(template, values)
        structure = self._structure
        if structure is not None:
            message = {**message, "content": f"{message['content']}\n\n{structure.instruction}"}
        messages.append(message)
        prompt = self.prompt_of(template)
        return Request(messages, self.stage, qid, prompt, item, structure=structure)

    def ask(self, requests: Sequence[Request]) -> list[Any]:
        """Return the parsed completion of each request (see :meth:`parse`), or its `LLMFailure`.

        Failures are counted.

        Raises:
            FatalLLMError: when no call can succeed (key, model, quota).
            BudgetExceeded: when the budget is spent.
        """
        values = []
        for request, outcome in zip(requests, self.llm.ask(requests), strict=True):
            values.append(self._read(request.qid, outcome))
        return values

    def ask_in_rounds(
        self,
        requests: Sequence[Request],
        then: Callable[[int, list[Any]], Request | None],
        calls: int = 0,
    ) -> list[list[Any]]:
        """Ask requests that have follow-ups, as :meth:`ask` does.

        The follow-ups of different requests are sent concurrently.

        Args:
            requests: the first ones.
            then: gets the position of a first request and the outcomes of its sequence so far, as
                :meth:`ask` gives them; returns the next request of the sequence, or None.
            calls: the total number of requests.

        Returns:
            For each of ``requests`` the outcomes of its sequence.
        """
        values: list[list[Any]] = [[] for _ in requests]

        def follow(position: int, outcome: Completion | LLMFailure) -> Request | None:
            values[position].append(self._read(requests[position].qid, outcome))
            return then(position, values[position])

        self.llm.ask(requests, follow, calls)
        return values

    def read(self, text: str) -> tuple[Any, list[str]]:
        """Return the content of a completion, and what was omitted before it was read.

        The content is ``None`` if nothing is usable.
        """
        structure = self._structure
        if structure is None:
            text, omitted = readable(text, whole=self.kind.whole)
            return self.parse(text), omitted
        answer = structure.read(text)
        value = None if answer is None else self.kind.of_json(answer)
        return value, []

    def parse(self, text: str) -> Any:
        """Read a completion in free text; ``None`` when it holds nothing usable."""
        return self.kind.parse(text)

    def describe_unusable(self, text: str) -> str:
        """Return the reason why a received completion counts as a failure."""
        return f"nothing usable in the completion {text[:80]!r}"

    def count(self, *, failures: int = 0, fallbacks: int = 0, dropped: int = 0) -> None:
        """Add to the stage's row of the ledger."""
        self.llm.ledger.count(
            self.stage, self.llm.model, failures=failures, fallbacks=fallbacks, dropped=dropped
        )

    def _read(self, qid: str, outcome: Completion | LLMFailure) -> Any:
        if isinstance(outcome, LLMFailure):  # the LLM has counted it
            return outcome
        try:
            value, omitted = self.read(outcome.text)
        except Exception as error:
            raise DataError(
                f"the parser of {type(self).__name__} stops with {type(error).__name__}: {error}; "
                f"it reads the completion of turn {qid}, {outcome.text[:80]!r}"
            ) from error
        if omitted:
            self.count(dropped=len(omitted))
            log.info("stage %s: turn %s: dropped %s", self.stage, qid, "; ".join(omitted))
        if value is not None:
            return value
        self.count(failures=1)
        return self._failure(qid, outcome.text)

    def _failure(self, qid: str, text: str) -> LLMFailure:
        """The failure of a completion with nothing usable."""
        answer = without_reasoning(text)
        if is_refusal(answer):
            return Refused(self.stage, qid, f"the model refused: {text[:80]!r}")
        if self._structure is not None:
            reason = (
                f"the completion of {len(answer)} characters isn't the JSON that structured=on "
                "asks for; where the server ignores the schema, omit structured=on"
            )
            return NotStructured(self.stage, qid, reason, kept=bool(answer))
        return LLMFailure(self.stage, qid, self.describe_unusable(text), kept=bool(answer))


def as_long_as(words: int, text: str) -> str:
    """Return ``text``, repeated or cut to this many words: a stand-in for such a completion.

    Example:
        >>> as_long_as(5, "mint or sage?"), as_long_as(2, "")
        ('mint or sage? mint or', 'words words')
    """
    return " ".join(islice(cycle(text.split() or ["words"]), words))


@with_fields
class LLMOperator(AsksLLM, Operator):
    """Ask a model once per turn and write its answer into the frame.

    Subclasses give ``stage``, ``kind`` (or :meth:`parse`) and ``writes`` (or :meth:`write`), and
    :meth:`requests` where a row's request is not just the template of the stage. Arguments of their
    own are annotated attributes, under the decorator ``with_fields``. The arguments below are those
    of every subclass. They are added to a subclass's docstring unless it describes them itself.

    Args:
        llm: the model to ask, from :func:`pyterrier_ikat.llm`, or any value that it takes: a
            specification, or an object with ``.generate``. Operators with the same model share its
            account and its budget.
        style: ``"gpt"``: zero-shot prompts that show all utterances and responses; ``"llama"``: the
            few-shot prompts of the papers where they have one, all utterances and only the last
            response.
        question: the column that holds the user's question: ``"qutterance"`` (where the frame has
            no conversation, the oldest query: ``query_N`` of the largest N, else ``query``),
            ``"qresolved"`` for the manual rewrite, the papers' [H], or another one.
        prompts: a folder of your own prompt templates; those missing there come from the package.
            ``None``: that of the method being built, or the package's.
        on_error: ``"raise"``: finish all turns, then raise a ``StageError`` that names the failed
            ones; ``"fallback"``: use the operator's fallback for them and count it in the ledger;
            ``None``: as the LLM is configured (``ikat.llm("... on_error=fallback")``), by default
            raise.
    """

    _: KW_ONLY
    style: str = "gpt"
    question: str = "qutterance"
    on_error: str | None = None

    choices = {
        "style": STYLES,
        "statements": ("all", "chosen"),
        "on_error": ("raise", "fallback", None),
    }
    one_row_per_turn = True
    last_in_repr = ("style", "question", "history", "prompts", "on_error")
    history_style = ""
    """The style that selects the messages of the history; empty for the operator's own."""
    template_name = ""
    """The prompt template; empty for the name of the stage."""
    template_of: ClassVar[tuple[str, Mapping[Any, str]] | None] = None
    """The argument that chooses the prompt template, and the template for each of its values."""
    shows: ClassVar[Sequence[str]] = ()
    """The arguments that prompts show, besides the conversation and the persona."""
    typical_words = 0
    """How many words a completion typically has, for a plan; 0: as many as the fallback."""
    writes = ""
    """The column that the answers are written into; empty: none."""
    makes_query = False
    """Whether the answers also become the query."""
    statements = "all"
    """The statements that prompts show, ``"all"`` or ``"chosen"``; all without ``qstatements``."""

    @property
    def prompt(self) -> str:
        """The prompt's name in recorded files, see :meth:`prompt_of`."""
        return self.prompt_of(self.template())

    def template(self) -> str:
        """Return the name of the prompt template."""
        if self.template_of is None:
            return self.template_name or self.stage
        argument, names = self.template_of
        return names[getattr(self, argument)]

    def templates(self) -> list[str]:
        """Return the names of all templates of its requests.

        Their texts decide whether a finished run can be reused.
        """
        return [self.template()]

    def columns_shown(self) -> dict[str, str]:
        """Return the columns that prompts show, too: name in the template -> column."""
        return {}

    def needs(self) -> list[str]:
        """Return the columns that the operator reads besides ``qid``.

        ``qstatements`` is one of them where its user chose to show only these.
        """
        columns = ["query"]
        if self.question not in ("qutterance", "query"):
            columns.append(self.question)
        columns += self.columns_shown().values()
        if self.arguments().get("statements") == "chosen":
            columns.append("qstatements")
        return columns

    def questions(self, frame: pd.DataFrame) -> list[str]:
        """Return the user's question of each row.

        In a frame without a conversation, that is the query before any operator replaced it.

        Raises:
            DataError: naming the turns whose question is missing or blank. A model would be paid
                for nothing.
        """
        column = self.question if self.question in frame.columns else question_column(frame)
        return texts_in(frame, column, blank=False)

    def personas(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """Return the statements about the user that each row's prompt shows."""
        ptkbs = personas(frame)
        if self.statements == "all" or not has_column(frame, "qstatements"):
            return ptkbs
        shown = []
        for ptkb, statements in zip(ptkbs, values(frame, "qstatements"), strict=True):
            shown.append(pick_statements(ptkb, statements or []))
        return shown

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """Return the values that each row's prompt shows.

        They are ``ptkb``, ``context``, ``question``, and the arguments and columns that are shown.
        """
        arguments = {name: getattr(self, name) for name in self.shows}
        style = self.history_style or self.style
        rows = []
        conversations = zip(
            self.questions(frame), histories(frame), self.personas(frame), strict=True
        )
        for question, history, ptkb in conversations:
            row = {
                "question": question,
                "context": history_text(history, style),
                "ptkb": ptkb_text(ptkb),
            }
            row.update(arguments)
            rows.append(row)
        for name, column in self.columns_shown().items():
            for row, text in zip(rows, texts_in(frame, column), strict=True):
                row[name] = text
        return rows

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """Return the requests for ``frame``, in order. Nothing is sent."""
        template = self.template()
        requests = []
        for qid, context in zip(frame["qid"], self.contexts(frame), strict=True):
            requests.append(self.request(qid, context, template))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """Return the substitute for each request's outcome, used when the request fails."""
        return self.questions(frame)

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Return stand-ins for completions, about as long as real ones, for ``ikat.plan``."""
        stand_ins = self.fallback(frame)
        if not self.typical_words:
            return stand_ins
        return [as_long_as(self.typical_words, text) for text in stand_ins]

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the requests, and write cached completions or stand-ins."""
        return self.write(frame, plan.ask(self, frame))

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """Return what :meth:`write` omits of ``outcomes`` or repairs, in words.

        The ledger counts it as ``dropped``.
        """
        return []

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Return a new frame with the outcomes ``outcomes``, one for each request.

        Raises:
            DataError: when an outcome becomes the query, and is no text.
        """
        columns = {self.writes: outcomes} if self.writes else {}
        if not self.makes_query:
            return with_columns(frame, **columns)
        for qid, query in zip(frame["qid"], outcomes, strict=True):
            if not isinstance(query, str) or not query.strip():
                raise DataError(
                    f"{type(self).__name__} makes {query!r} the query of turn {qid}: return a text "
                    "from parse, or None for an unusable completion"
                )
        return with_query(frame, outcomes, **columns)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every row of a query frame.

        Columns: ``qid``, ``query``; optional: ``qutterance``, ``qhistory``, ``qptkb``.
        """
        pt.validate.query_frame(inp, extra_columns=self.needs(), context=self)
        each_turn_once(inp)
        return self.ask_and_write(inp)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Ask for all rows and return the frame that :meth:`write` makes from the outcomes.

        An empty frame sends nothing.

        Raises:
            StageError: when a request failed and ``on_error`` is ``"raise"``.
        """
        if len(frame) == 0:
            return self.write(frame, [])
        outcomes = self.ask(self.requests(frame))
        return self.write(frame, self.settle(frame, outcomes))

    @property
    def fails(self) -> bool:
        """Whether a failed request ends the stage, once all others are finished."""
        return (self.on_error or self.llm.on_error) == "raise"

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """Return the outcomes, with fallbacks in place of failures, and count what is dropped.

        Raises:
            StageError: when a request failed and ``on_error`` is ``"raise"``.
        """
        values = list(outcomes)
        failures = [outcome for outcome in outcomes if isinstance(outcome, LLMFailure)]
        if failures and self.fails:
            raise StageError(self.stage, failures, self.llm.kept_in)
        if failures:
            self.count(fallbacks=len(failures))
            repaired([failure.reason for failure in failures])
            log.warning(
                "stage %s: fallback for %s: %s",
                self.stage,
                counted(len(failures), "request"),
                list_failed(failures),
            )
            replaced = []
            for value, fallback in zip(values, self.fallback(frame), strict=True):
                replaced.append(fallback if isinstance(value, LLMFailure) else value)
            values = replaced
        dropped = self.list_dropped(frame, values)
        if dropped:
            self.count(dropped=len(dropped))
            repaired(dropped)
            log.info("stage %s: dropped or repaired: %s", self.stage, list_first(dropped))
        return values
