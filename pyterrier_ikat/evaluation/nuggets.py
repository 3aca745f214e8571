"""Nuggets: atomic facts that a good answer states. They are created from judged passages and searched for in responses.

Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the AutoNuggetizer Framework, arXiv 2411.09607.
The wording of the prompts is ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import pandas as pd

from ..arguments import at_least
from ..completions.json_answers import TEXT, answer_in, json_values, list_of, one_of
from ..completions.kinds import Kind
from ..completions.usable import without_reasoning
from ..conversations.frame import object_frame, values, with_columns
from ..errors import DataError, counted
from ..llm_operator import AsksLLM
from ..llms import LLMFailure, StageError
from .finished_runs import check_columns, check_once
from .nugget_labels import IMPORTANCE, LABELS, nugget_scores
from .response_judges import asked_column

AT_ONCE = 10
"""How many passages or nuggets one prompt shows."""
KEPT = 20
"""How many nuggets of a turn are kept after they are sorted by importance."""


def read_nuggets(text: str, limit: int) -> list[str] | None:
    """The first ``limit`` nuggets that a completion lists, each once; None if it doesn't have a list of texts.

    Example:
        >>> read_nuggets('["No caffeine.", "no caffeine", "Sweet taste"]', 30)
        ['No caffeine', 'Sweet taste']
    """
    lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
    if len(lists) != 1 or not all(isinstance(item, str) for item in lists[0]):
        return None
    return _each_once(lists[0], limit)


def _each_once(texts: Sequence[str], limit: int) -> list[str]:
    found = {" ".join(text.split()).rstrip(".").casefold(): " ".join(text.split()).rstrip(".") for text in reversed(texts) if text.strip()}
    return list(reversed(found.values()))[:limit]


@dataclass(eq=False, repr=False)
class _AsksAboutList(AsksLLM):
    """Shows a list to the model, in one prompt for each row, and reads a list. An unusable completion is a failure."""

    _: KW_ONLY
    template: str
    kind: Kind
    labels: bool = False
    """Whether it reads one word for each of the row's nuggets."""
    on_error: str | None = None
    stage: ClassVar[str] = "nuggets"

    def templates(self) -> list[str]:
        """The template of its prompt."""
        return [self.template]

    def values(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """The list that the model gives for each row; None if a call failed and ``on_error`` is ``"fallback"``.

        Raises:
            StageError: when a call failed, and ``on_error`` is ``"raise"``.
        """
        requests = [self.request(row["qid"], row, self.template, item=str(row["item"])) for row in rows]
        found = [self._checked(row, value) for row, value in zip(rows, self.ask(requests), strict=True)]
        failures = [value for value in found if isinstance(value, LLMFailure)]
        if failures and (self.on_error or self.llm.on_error) == "raise":
            raise StageError(self.stage, failures, self.llm.kept_in)
        self.count(fallbacks=len(failures))
        return [None if isinstance(value, LLMFailure) else value for value in found]

    def _checked(self, row: dict[str, Any], value: Any) -> Any:
        if not self.labels or isinstance(value, LLMFailure) or len(value) == len(row["nuggets"]):
            return value
        self.count(failures=1)
        return LLMFailure(self.stage, row["qid"], f"{counted(len(value), 'label')} for {counted(len(row['nuggets']), 'nugget')}")


def _list_of_nuggets(limit: int) -> Kind:
    """A list of texts, each once."""
    form = answer_in("nuggets", list_of(TEXT))
    return Kind(lambda text: read_nuggets(text, limit), form, lambda said: _each_once(said["nuggets"], limit))


def _list_of_words(known: Sequence[str]) -> Kind:
    """One of the known words for each nugget."""
    return Kind(lambda text: _words(text, known), answer_in("labels", list_of(one_of(known))))


def _words(text: str, known: Sequence[str]) -> list[str] | None:
    lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
    words = [str(word).strip().casefold().replace(" ", "_").replace("-", "_") for word in lists[0]] if len(lists) == 1 else [""]
    return words if all(word in known for word in words) else None


def create_nuggets(
    pool: pd.DataFrame, llm: Any, max_nuggets: int = 30, *, prompts: str | None = None, on_error: str | None = None
) -> pd.DataFrame:
    """Collect the nuggets of each turn from its judged passages, and rate how important each is.

    Passages are shown in their order, ten per call. Each call gets the list so far, and merges and extends it. Then the nuggets are rated,
    ten per call, and the first 20 are kept, vital ones first (arXiv 2411.09607, section 3).

    Args:
        pool: the passages that are relevant enough: ``qid``, ``docno``, ``text``, and the question (``qresolved``, else ``qutterance``,
            else ``query``).
        llm: the model to ask, or an argument of :func:`pyterrier_ikat.llm`.
        max_nuggets: the maximum number of nuggets in a turn's list.
        prompts: a folder of your own templates (``nuggets_create.jinja``, ``nuggets_importance.jinja``).
        on_error: ``"raise"``; or ``"fallback"``: a failed batch of passages adds nothing, and a nugget that wasn't rated is ``okay``.

    Returns:
        ``qid``, ``nugget``, ``importance`` (``vital`` or ``okay``).

    Raises:
        UsageError: when a column is missing.
        StageError: when a call failed and ``on_error`` is ``"raise"``.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["No caffeine"]' if "# Passages" in str(chat) else '["vital"]' for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"], "docno": ["d1"], "text": ["Rooibos has no caffeine."]})
        >>> create_nuggets(pool, ikat.llm(Model())).values.tolist()
        [['1_1', 'No caffeine', 'vital']]
    """
    at_least(1, max_nuggets=max_nuggets)
    questions = _questions(pool, "the pool", ("docno", "text"))
    kind = _list_of_nuggets(max_nuggets)
    asked: dict[str, Any] = {"prompts": prompts, "on_error": on_error}
    create = _AsksAboutList(llm, template="nuggets_create", kind=kind, **asked)
    rate = _AsksAboutList(llm, template="nuggets_importance", kind=_list_of_words(IMPORTANCE), labels=True, **asked)
    passages = {qid: list(texts) for qid, texts in pool.groupby("qid", sort=False)["text"]}
    nuggets: dict[str, list[str]] = {qid: [] for qid in passages}
    for start in range(0, max(map(len, passages.values()), default=0), AT_ONCE):
        rows = [
            {"qid": qid, "item": start, "question": questions[qid], "n": max_nuggets, "nuggets": nuggets[qid], "passages": batch}
            for qid, texts in passages.items()
            if (batch := texts[start : start + AT_ONCE])
        ]
        for row, merged in zip(rows, create.values(rows), strict=True):
            nuggets[row["qid"]] = row["nuggets"] if merged is None else merged
    return _rated(nuggets, questions, rate)


def _rated(nuggets: Mapping[str, list[str]], questions: Mapping[str, str], rate: _AsksAboutList) -> pd.DataFrame:
    rows = _in_batches(((qid, questions[qid], found, {}) for qid, found in nuggets.items()))
    rated: dict[str, list[tuple[str, str]]] = {qid: [] for qid in nuggets}
    for row, words in zip(rows, rate.values(rows), strict=True):
        words = ["okay"] * len(row["nuggets"]) if words is None else words
        rated[row["qid"]] += zip(row["nuggets"], words, strict=True)
    kept = [
        (qid, nugget, importance)
        for qid, found in rated.items()
        for nugget, importance in sorted(found, key=lambda one: IMPORTANCE.index(one[1]))[:KEPT]
    ]
    return object_frame({name: [row[place] for row in kept] for place, name in enumerate(("qid", "nugget", "importance"))})


def assign_nuggets(
    responses: pd.DataFrame, nuggets: pd.DataFrame, llm: Any, *, prompts: str | None = None, on_error: str | None = None
) -> pd.DataFrame:
    """Label for each nugget of a turn whether the response states it, ten nuggets per call (arXiv 2411.09607, section 3).

    Args:
        responses: ``qid``, ``qanswer``, and the question as for :func:`create_nuggets`.
        nuggets: ``qid``, ``nugget``, ``importance``; in turns without a response none is stated, and no call is made.
        llm: the model to ask.
        prompts: a folder of your own templates (``nuggets_assign.jinja``).
        on_error: ``"raise"``; or ``"fallback"``: nuggets of a failed call have no label.

    Returns:
        ``nuggets`` with ``label``: ``support``, ``partial_support`` or ``not_support``; None if a call failed.

    Raises:
        UsageError: when a column is missing.
        DataError: when a turn has two responses or the same nugget twice, or the frames share no turn.
        StageError: when a call failed and ``on_error`` is ``"raise"``.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["support", "not_support"]' for chat in chats]
        >>> said = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"], "qanswer": ["It has no caffeine."]})
        >>> facts = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["no caffeine", "sweet"], "importance": ["vital", "okay"]})
        >>> assign_nuggets(said, facts, ikat.llm(Model()))["label"].tolist()
        ['support', 'not_support']
    """
    questions = _questions(responses, "the responses", ("qanswer",))
    check_once("the responses", responses, ["qid"], "keep one")
    check_once("the nuggets", nuggets, ["qid", "nugget"], "keep one")
    if not set(responses["qid"]) & set(nuggets["qid"]):
        raise DataError("none of the responses is about a turn of the nuggets")
    said = dict(zip(responses["qid"], values(responses, "qanswer"), strict=True))
    turns = [(qid, list(found)) for qid, found in nuggets.groupby("qid", sort=False)["nugget"]]
    asked = [(qid, questions[qid], found, {"response": said[qid]}) for qid, found in turns if str(said.get(qid) or "").strip()]
    rows, kind = _in_batches(asked), _list_of_words(LABELS)
    assign = _AsksAboutList(llm, template="nuggets_assign", kind=kind, labels=True, prompts=prompts, on_error=on_error)
    labels: dict[tuple[str, str], str | None] = {}
    for row, words in zip(rows, assign.values(rows), strict=True):
        words = [None] * len(row["nuggets"]) if words is None else words
        labels |= {(row["qid"], nugget): word for nugget, word in zip(row["nuggets"], words, strict=True)}
    answered = {qid for qid, *_ in asked}
    pairs = zip(nuggets["qid"], nuggets["nugget"], strict=True)
    return with_columns(nuggets, label=[labels[pair] if pair[0] in answered else "not_support" for pair in pairs])


def nugget_precision(responses: pd.DataFrame, nuggets: pd.DataFrame, llm: Any, **options: Any) -> pd.DataFrame:
    """The share of the facts in each response that the turn's nuggets cover.

    The response's own nuggets are created from its text as from a passage, and then searched for in the list of the turn's nuggets. The
    measure follows the track's nugget precision (TREC iKAT 2024). It needs at least two calls per turn.

    Args:
        responses: as for :func:`assign_nuggets`.
        nuggets: the turns' nuggets.
        llm: the model to ask.
        **options: ``prompts``, ``on_error``, as for :func:`create_nuggets`.

    Returns:
        The frame of :func:`nugget_scores`, over the response's nuggets. Turns without a response are missing.
    """
    check_once("the responses", responses, ["qid"], "keep one")
    said = responses[[bool(str(text or "").strip()) for text in values(responses, "qanswer")]].reset_index(drop=True)
    stated = create_nuggets(with_columns(said, docno=said["qid"], text=said["qanswer"]), llm, **options)
    listed = {qid: "\n".join(found) for qid, found in nuggets.groupby("qid", sort=False)["nugget"]}
    return nugget_scores(assign_nuggets(with_columns(said, qanswer=[listed.get(qid, "") for qid in said["qid"]]), stated, llm, **options))


def _questions(frame: pd.DataFrame, who: str, needs: Sequence[str]) -> dict[str, str]:
    check_columns(who, frame, ("qid", *needs), "add it")
    return dict(zip(frame["qid"], values(frame, asked_column(frame, who)), strict=True))


def _in_batches(turns: Iterable[tuple[str, str, list[str], dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"qid": qid, "item": start, "question": question, "nuggets": found[start : start + AT_ONCE], **more}
        for qid, question, found, more in turns
        for start in range(0, len(found), AT_ONCE)
    ]
