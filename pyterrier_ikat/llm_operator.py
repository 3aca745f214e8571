"""The base of operators and judges that ask a language model: requests from templates, parsing, typed failures, counts in the ledger."""

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

_made: "WeakValueDictionary[tuple[Any, ...], LLM]" = WeakValueDictionary()
_making = threading.Lock()


def as_llm(given: Any) -> LLM:
    """The language model for an operator's argument ``llm``: the model itself, or the one that `llm` makes from the value.

    Operators with the same text or object share one model, with its ledger, budget and connections.

    Raises:
        UsageError: when the value is not a model (see `llm`).
    """
    if is_asked(given):
        return given  # type: ignore[no-any-return]
    place = (os.getcwd(), os.environ.get("IKAT_HOME"), os.environ.get("OPENAI_BASE_URL"))
    key = (given, *place) if isinstance(given, str) else (id(given),)
    with _making:
        made = _made.get(key) or llm(given)
        _made[key] = made
    return made


def is_of_package(cls: type) -> bool:
    """Whether a class is defined in this package."""
    return cls.__module__.partition(".")[0] == __package__


def _declared_by(cls: type) -> list[str]:
    """The templates that a class of operators names in its attributes."""
    found = [vars(cls).get("stage"), vars(cls).get("template_name")]
    _argument, of_values = vars(cls).get("template_of") or ("", {})
    found += of_values.values()
    return [name for name in found if isinstance(name, str) and name]


@dataclass(eq=False, repr=False)
class AsksLLM(Checked):
    """Base class of operators and judges, which ask a model.

    Subclasses give ``stage``, and ``kind`` or :meth:`parse`.

    Args (of every subclass):
        llm: the model to ask, from :func:`pyterrier_ikat.llm`, or any value that it takes: a
        specification, or an object with
            ``.generate``. Operators with the same model share its account and its budget.
        prompts: a folder of your own prompt templates; ``None``: that of the method being built, or
        the package's.
    """

    llm: LLM
    _: KW_ONLY
    prompts: str | None = None

    stage: ClassVar[str]
    kind = Kind()
    """How its answers are read: their parser and, for a model with ``structured=on``, their JSON schema."""
    style = "gpt"
    question = ""
    open_ended = False
    """Whether the model decides how many texts it writes, so that a plan counts the fewest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.llm = as_llm(self.llm)
        read_by_own = None if is_of_package(type(self)) else self.templates()
        self.prompts = prompts_or_default(self.prompts, read_by_own)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not is_of_package(cls):
            declare_templates(_declared_by(cls))

    def prompt_of(self, template: str) -> str:
        """Name of the prompt that ``template`` makes, in recorded files: its own, with ``_llama`` and ``_human`` if they apply."""
        return (
            template
            + "_llama" * (self.style == "llama")
            + "_human" * (self.question == "qresolved")
        )

    def templates(self) -> list[str]:
        """The names of the templates that its requests are made from."""
        return [self.stage]

    def prompt_checksums(self) -> dict[str, str]:
        """Template -> a digest of its source; see :func:`pyterrier_ikat.prompts.checksum_of`."""
        names = [
            one
            for name in self.templates()
            for one in (name, instructions_for(name, self.style, self.prompts))
            if one
        ]
        return {name: checksum_of(name, self.style, self.prompts) for name in names}

    def own_prompts(self) -> str | None:
        """Return the folder of the user's prompt templates, or None."""
        return self.prompts

    def message(self, template: str, values: dict[str, Any]) -> dict[str, str]:
        """A user message made from a template.

        Raises:
            UsageError: when :meth:`templates` lacks the template: a finished run could not be told
                from one with other prompts.
        """
        if template not in self.templates():
            raise UsageError(
                f"{type(self).__name__} uses the prompt template {template}: return its name from the method templates(), too"
            )
        return {"role": "user", "content": render(template, self.style, self.prompts, **values)}

    @property
    def _asked_form(self) -> Structure | None:
        return self.kind.structure if self.llm.structured else None

    def request(
        self,
        qid: str,
        values: dict[str, Any],
        template: str,
        item: str = "",
        before: Sequence[dict[str, str]] = (),
    ) -> Request:
        """A request of one message from a template, behind the messages ``before`` and that of the template for the system message."""
        form, message = self._asked_form, self.message(template, values)
        if form is not None:
            message = {**message, "content": f"{message['content']}\n\n{form.instruction}"}
        instructions = instructions_for(template, self.style, self.prompts)
        first = (
            [
                {
                    "role": "system",
                    "content": render(instructions, self.style, self.prompts, **values),
                }
            ]
            if instructions
            else []
        )
        return Request(
            [*first, *before, message],
            self.stage,
            qid,
            self.prompt_of(template),
            item,
            structure=form,
        )

    def ask(self, requests: Sequence[Request]) -> list[Any]:
        """The parsed completion of each request (see :meth:`parse`), or its `LLMFailure`. Failures are counted.

        Raises:
            FatalLLMError: when no call can succeed (key, model, quota).
            BudgetExceeded: when the budget is spent.
        """
        return [
            self._read(request.qid, outcome)
            for request, outcome in zip(requests, self.llm.ask(requests), strict=True)
        ]

    def ask_in_rounds(
        self,
        requests: Sequence[Request],
        then: Callable[[int, list[Any]], Request | None],
        calls: int = 0,
    ) -> list[list[Any]]:
        """Ask requests that have follow-ups, as :meth:`ask` does; the follow-ups of different requests are sent concurrently.

        Args:
            requests: the first ones.
            then: gets the position of a first request and the outcomes of its chain so far, as
                :meth:`ask` gives them; returns the next request of the chain, or None.
            calls: the total number of requests.

        Returns:
            For each of ``requests`` the outcomes of its chain.
        """
        found: list[list[Any]] = [[] for _ in requests]

        def follow(place: int, outcome: Completion | LLMFailure) -> Request | None:
            found[place].append(self._read(requests[place].qid, outcome))
            return then(place, found[place])

        self.llm.ask(requests, follow, calls)
        return found

    def read(self, text: str) -> tuple[Any, list[str]]:
        """The content of a completion (``None`` if nothing is usable), and a description of what was omitted before it was read."""
        if (form := self._asked_form) is not None:
            said = form.read(text)
            return None if said is None else self.kind.of_json(said), []
        text, omitted = readable(text, whole=self.kind.whole)
        return self.parse(text), omitted

    def parse(self, text: str) -> Any:
        """Read a completion in free text; ``None`` when it holds nothing usable."""
        return self.kind.parse(text)

    def describe_unusable(self, text: str) -> str:
        """The reason why a received completion counts as a failure."""
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
            who = f"the parser of {type(self).__name__} stops with {type(error).__name__}: {error}"
            raise DataError(
                f"{who}; it reads the completion of turn {qid}, {outcome.text[:80]!r}"
            ) from error
        if omitted:
            self.count(dropped=len(omitted))
            log.info("stage %s: turn %s: dropped %s", self.stage, qid, "; ".join(omitted))
        if value is not None:
            return value
        self.count(failures=1)
        said = without_reasoning(outcome.text)
        if is_refusal(said):
            return Refused(self.stage, qid, f"the model refused: {outcome.text[:80]!r}")
        if self._asked_form is not None:
            reason = f"the completion of {len(said)} characters isn't the JSON that structured=on asks for"
            reason += "; where the server ignores the schema, omit structured=on"
            return NotStructured(self.stage, qid, reason, kept=bool(said))
        return LLMFailure(self.stage, qid, self.describe_unusable(outcome.text), kept=bool(said))


def as_long_as(words: int, text: str) -> str:
    """``text``, repeated or cut to this many words: the stand-in for a completion of that length.

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
    """The style that decides which messages of the history are shown; empty for the operator's own."""
    template_name = ""
    """The prompt template; empty for the name of the stage."""
    template_of: ClassVar[tuple[str, Mapping[Any, str]] | None] = None
    """The argument that chooses the prompt template, and the template for each of its values; None: it is always the same one."""
    shows: ClassVar[Sequence[str]] = ()
    """The arguments that prompts show, besides the conversation and the persona."""
    typical_words = 0
    """How many words a completion typically has, for a plan; 0: as many as the fallback."""
    writes = ""
    """The column that the answers are written into; empty: none."""
    makes_query = False
    """Whether the answers also become the query."""
    statements = "all"
    """The statements that prompts show, ``"all"`` or ``"chosen"``. Without the column ``qstatements``, all are shown."""

    @property
    def prompt(self) -> str:
        """Name of the prompt in recorded files: the name of the template, with ``_llama`` and ``_human`` if they apply."""
        return self.prompt_of(self.template())

    def template(self) -> str:
        """Name of the prompt template."""
        if self.template_of is None:
            return self.template_name or self.stage
        argument, names = self.template_of
        return names[getattr(self, argument)]

    def templates(self) -> list[str]:
        """The names of all templates of its requests. Their texts decide whether a finished run can be reused."""
        return [self.template()]

    def columns_shown(self) -> dict[str, str]:
        """The columns with a text that prompts show besides the question: the name in the template -> the column."""
        return {}

    def needs(self) -> list[str]:
        """The columns that the operator reads besides ``qid``; ``qstatements`` where its user chose to show only these."""
        own = [self.question] * (self.question not in ("qutterance", "query")) + list(
            self.columns_shown().values()
        )
        return ["query", *own, *["qstatements"] * (self.arguments().get("statements") == "chosen")]

    def questions(self, frame: pd.DataFrame) -> list[str]:
        """The user's question of each row. In a frame without a conversation, the query before any operator replaced it.

        Raises:
            DataError: naming the turns whose question is missing or blank. A model would be paid
                for nothing.
        """
        return texts_in(
            frame,
            self.question if self.question in frame.columns else question_column(frame),
            blank=False,
        )

    def personas(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """The statements about the user that each row's prompt shows."""
        ptkbs = personas(frame)
        if self.statements == "all" or "qstatements" not in frame.columns:
            return ptkbs
        return [
            pick_statements(ptkb, statements or [])
            for ptkb, statements in zip(ptkbs, values(frame, "qstatements"), strict=True)
        ]

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows: ``ptkb``, ``context``, ``question``, arguments and columns that are shown."""
        more = {name: getattr(self, name) for name in self.shows}
        rows = [
            {
                "question": question,
                "context": history_text(history, self.history_style or self.style),
                "ptkb": ptkb_text(ptkb),
                **more,
            }
            for question, history, ptkb in zip(
                self.questions(frame), histories(frame), self.personas(frame), strict=True
            )
        ]
        for name, column in self.columns_shown().items():
            rows = [
                {**row, name: text} for row, text in zip(rows, texts_in(frame, column), strict=True)
            ]
        return rows

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """The requests for ``frame``, in order. Nothing is sent."""
        return [
            self.request(qid, values, self.template())
            for qid, values in zip(frame["qid"], self.contexts(frame), strict=True)
        ]

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """The substitute for each request's outcome, used when the request fails."""
        return self.questions(frame)

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Stand-ins that ``ikat.plan`` uses for completions that are not in the cache, about as long as real ones."""
        return (
            [as_long_as(self.typical_words, text) for text in self.fallback(frame)]
            if self.typical_words
            else self.fallback(frame)
        )

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the requests, and write cached completions or stand-ins."""
        return self.write(frame, plan.ask(self, frame))

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The pieces of ``found`` that :meth:`write` omits or repairs, in words; counted in the ledger as ``dropped``."""
        return []

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """A new frame with the outcomes ``found``, one for each request.

        Raises:
            DataError: when an outcome becomes the query, and is no text.
        """
        no_text = (
            (qid, one)
            for qid, one in zip(frame["qid"], found, strict=True)
            if not (isinstance(one, str) and one.strip())
        )
        if self.makes_query and (odd := next(no_text, None)):
            repair = "return a text from parse, or None for an unusable completion"
            raise DataError(
                f"{type(self).__name__} makes {odd[1]!r} the query of turn {odd[0]}: {repair}"
            )
        columns = {self.writes: found} if self.writes else {}
        return (
            with_query(frame, found, **columns)
            if self.makes_query
            else with_columns(frame, **columns)
        )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every row of a query frame (``qid``, ``query``; optional: ``qutterance``, ``qhistory``, ``qptkb``)."""
        pt.validate.query_frame(inp, extra_columns=self.needs(), context=self)
        each_turn_once(inp)
        return self.ask_and_write(inp)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Ask for all rows and return the frame that :meth:`write` makes from the outcomes. An empty frame sends nothing.

        Raises:
            StageError: when a request failed and ``on_error`` is ``"raise"``.
        """
        return self.write(
            frame, self.settle(frame, self.ask(self.requests(frame))) if len(frame) else []
        )

    @property
    def fails(self) -> bool:
        """Whether a failed request ends the stage, once all others are finished."""
        return (self.on_error or self.llm.on_error) == "raise"

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """The outcomes, with fallbacks in place of failures. It also counts the pieces dropped from the others."""
        found = list(outcomes)
        if failures := [one for one in found if isinstance(one, LLMFailure)]:
            if self.fails:
                raise StageError(self.stage, failures, self.llm.kept_in)
            self.count(fallbacks=len(failures))
            repaired([failure.reason for failure in failures])
            log.warning(
                "stage %s: fallback for %s: %s",
                self.stage,
                counted(len(failures), "request"),
                list_failed(failures),
            )
            fallbacks = zip(found, self.fallback(frame), strict=True)
            found = [
                instead if isinstance(value, LLMFailure) else value for value, instead in fallbacks
            ]
        if dropped := self.list_dropped(frame, found):
            self.count(dropped=len(dropped))
            repaired(dropped)
            log.info("stage %s: dropped or repaired: %s", self.stage, list_first(dropped))
        return found
