"""What all LLM operators share: requests for every turn, failures that are typed, an outcome for every turn."""

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import pandas as pd
import pyterrier as pt

from .completions.usable import is_refusal, without_next_prompt, without_reasoning
from .conversations.frame import histories, personas, question_column, texts_in, turns_of, values
from .errors import UsageError
from .llms import LLM, Completion, LLMFailure, Request, StageError, llm
from .llms.failures import Refused
from .operator import Operator, Plan
from .prompts import STYLES, chosen, history_text, prompts_or_default, ptkb_text, render

log = logging.getLogger("pyterrier_ikat")


_asked: "WeakValueDictionary[tuple[Any, ...], LLM]" = WeakValueDictionary()
_making = threading.Lock()


def as_llm(given: Any) -> LLM:
    """The language model of an operator that is given one, or what `llm` makes one of.

    Operators that are given the same text or object share one: its ledger, its budget and its connections.

    Raises:
        UsageError: when it is none; see `llm`.
    """
    if hasattr(given, "ask") and not isinstance(given, type):
        return given  # type: ignore[no-any-return]
    place = (os.getcwd(), os.environ.get("IKAT_HOME"), os.environ.get("OPENAI_BASE_URL"))
    key = (given, *place) if isinstance(given, str) else (id(given),)
    with _making:
        made = _asked.get(key) or llm(given)
        _asked[key] = made
    return made


class LLMOperator(Operator):
    """Ask a model once per turn and write what it said into the frame.

    Subclasses give ``stage``, :meth:`parse` and :meth:`write`, and :meth:`requests` where a row's request is not just
    the template of the stage.

    Args (of every subclass):
        llm: the model to ask, from :func:`pyterrier_ikat.llm`, or what that takes: a specification, or an object with
            ``.generate``; operators that are given the same one share its account and its budget.
        style: ``"gpt"``: zero-shot prompts that show all utterances and responses; ``"llama"``: the few-shot prompts of
            the papers where they have one, all utterances and only the last response.
        question: the column that holds the user's question: ``"qutterance"`` (where the frame has no conversation, the
            oldest query: ``query_N`` of the largest N, else ``query``), or ``"qresolved"`` for the manual rewrite, the
            papers' [H].
        prompts: a folder of your own prompt templates; ``None``: that of the method being built, or the package's.
        on_error: ``"raise"``: finish all turns, then raise a ``StageError`` that names the failed ones; ``"fallback"``:
            use the operator's fallback for them and count it in the ledger.
    """

    one_row_per_turn = True
    stage: ClassVar[str]
    llm: LLM
    style: str
    question: str
    prompts: str | None
    on_error: str | None
    statements: str = "all"
    """Which statements prompts show: ``"all"``, or ``"chosen"`` for those in ``qstatements`` (all where the frame lacks it)."""

    def _set(self, llm: Any, style: str, question: str, prompts: str | None, on_error: str | None) -> None:
        if style not in STYLES:
            raise UsageError(f"style {style!r} is unknown: choose one of {', '.join(STYLES)}")
        if on_error not in (None, "raise", "fallback"):
            raise UsageError(f"on_error {on_error!r} is unknown: choose 'raise', 'fallback', or None for what the LLM says")
        self.llm, self.style, self.question, self.prompts, self.on_error = (
            as_llm(llm),
            style,
            question,
            prompts_or_default(prompts),
            on_error,
        )

    def _choose_statements(self, statements: str) -> None:
        if statements not in ("all", "chosen"):
            raise UsageError(f"statements {statements!r} is unknown: choose 'all' or 'chosen'")
        self.statements = statements

    @property
    def prompt(self) -> str:
        """Name of the prompt in recorded files: the template, then ``_llama`` and ``_human`` where they apply."""
        return self.prompt_of(self.template())

    def prompt_of(self, template: str) -> str:
        """Name of the prompt that ``template`` makes, in recorded files."""
        return template + ("_llama" if self.style == "llama" else "") + ("_human" if self.question == "qresolved" else "")

    def template(self) -> str:
        """Name of the prompt template."""
        return self.stage

    def needs(self) -> list[str]:
        """The columns the operator reads beside ``qid``."""
        return ["query"] if self.question in ("qutterance", "query") else ["query", self.question]

    def questions(self, frame: pd.DataFrame) -> list[str]:
        """The user's question of each row; in a frame without conversation the query before any operator replaced it."""
        return texts_in(frame, self.question if self.question in frame.columns else question_column(frame))

    def personas(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """The statements about the user that each row's prompt shows."""
        ptkbs = personas(frame)
        if self.statements == "all" or "qstatements" not in frame.columns:
            return ptkbs
        return [chosen(ptkb, statements or []) for ptkb, statements in zip(ptkbs, values(frame, "qstatements"), strict=True)]

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """What every prompt shows, for each row: ``ptkb``, ``context`` and ``question``."""
        rows = zip(self.questions(frame), histories(frame), self.personas(frame), strict=True)
        return [
            {"question": question, "context": history_text(history, self.style), "ptkb": ptkb_text(ptkb)}
            for question, history, ptkb in rows
        ]

    def message(self, name: str, shown: dict[str, Any]) -> dict[str, str]:
        """A user message made from the template ``name``."""
        return {"role": "user", "content": render(name, self.style, self.prompts, **shown)}

    def request(self, qid: str, shown: dict[str, Any], template: str | None = None, item: str = "") -> Request:
        """A request of one message, made from ``template``, the operator's own without one."""
        name = template or self.template()
        return Request([self.message(name, shown)], stage=self.stage, qid=qid, prompt=self.prompt_of(name), item=item)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """The requests for ``frame``, in order; nothing is asked."""
        return [self.request(qid, shown) for qid, shown in zip(frame["qid"], self.contexts(frame), strict=True)]

    def owners(self, frame: pd.DataFrame) -> list[str]:
        """The turn's qid for each of the requests."""
        return list(frame["qid"])

    def parse(self, text: str) -> Any:
        """Read a completion; ``None`` when it holds nothing usable."""
        raise NotImplementedError

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """What stands in for the outcome of each request when the model failed."""
        return self.questions(frame)

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """What ``ikat.plan`` puts in the place of each completion that is not in the cache: about as long as a real one."""
        return self.fallback(frame)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the requests, and write what the cache has or a stand-in for it."""
        return self.write(frame, plan.ask(self, frame))

    def left_out(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The pieces of ``found`` that :meth:`write` leaves out or repairs, in words; counted in the ledger as ``dropped``."""
        return []

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """A new frame with what was found: one value for each request."""
        raise NotImplementedError

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every row of a query frame (``qid``, ``query``; ``qutterance``, ``qhistory``, ``qptkb`` where there are any)."""
        pt.validate.query_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        if len(inp) == 0:
            return self.write(inp, [])
        return self.write(inp, self.settle(inp, self.llm.ask(self.requests(inp))))

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Completion | LLMFailure]) -> list[Any]:
        """Turn completions into values: parsed, or the fallback and a count in the ledger, or one error that names the turns."""
        found: list[Any] = []
        failures: list[LLMFailure] = []
        for qid, outcome in zip(self.owners(frame), outcomes, strict=True):
            value = None if isinstance(outcome, LLMFailure) else self.parse(self._own(qid, outcome.text))
            if value is None:
                failures.append(outcome if isinstance(outcome, LLMFailure) else self.unusable(qid, outcome))
            found.append(value)
        if unread := sum(isinstance(outcome, Completion) and value is None for outcome, value in zip(outcomes, found, strict=True)):
            self.llm.ledger.count(self.stage, self.llm.model, failures=unread)  # those that never came are counted
        if failures:
            found = self._without(frame, found, failures)
        if dropped := self.left_out(frame, found):
            self.llm.ledger.count(self.stage, self.llm.model, dropped=len(dropped))
            log.info("stage %s: left out or repaired: %s", self.stage, "; ".join(dropped))
        return found

    def _own(self, qid: str, text: str) -> str:
        own = without_next_prompt(text)
        if own != text:
            self.llm.ledger.count(self.stage, self.llm.model, dropped=1)
            log.info("stage %s: turn %s: left out the next prompt, which the model invented: %r", self.stage, qid, text[len(own) :])
        return own

    def _without(self, frame: pd.DataFrame, found: list[Any], failures: list[LLMFailure]) -> list[Any]:
        if (self.on_error or self.llm.on_error) == "raise":
            raise StageError(self.stage, failures, self.llm.kept_in)
        self.llm.ledger.count(self.stage, self.llm.model, fallbacks=len(failures))
        log.warning("stage %s: fallback for %d requests:\n  %s", self.stage, len(failures), "\n  ".join(map(str, failures)))
        return [instead if value is None else value for value, instead in zip(found, self.fallback(frame), strict=True)]

    def unusable(self, qid: str, completion: Completion) -> LLMFailure:
        """The failure for a completion that came but holds nothing usable."""
        said = without_reasoning(completion.text)
        if is_refusal(said):
            return Refused(self.stage, qid, f"the model refused: {completion.text[:80]!r}")
        return LLMFailure(self.stage, qid, f"nothing usable in the completion {completion.text[:80]!r}", kept=bool(said))
