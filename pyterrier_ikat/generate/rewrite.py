"""Queries written by a model: an answer, a rewrite, both at once, an outline, or a T5's rewrite."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import pandas as pd
import pyterrier as pt

from ..completions.kinds import ANSWER, REWRITE, Kind
from ..completions.statement_numbers import read_ids
from ..completions.statements import Chosen, choose
from ..completions.texts import (
    parse_answer_and_queries,
    parse_chosen_rewrite,
    parse_level,
    parse_reasoned_rewrite,
    parse_rewrite_and_answer,
)
from ..conversations.frame import (
    histories,
    question_column,
    texts_in,
    values,
    well_formed,
    with_columns,
    with_query,
)
from ..conversations.public_outputs import read_parts
from ..errors import UsageError, counted, list_first
from ..llm_operator import LLMOperator, as_long_as
from ..llms import Request
from ..llms.spec import recorded_prompt
from ..operator import Operator, with_fields
from ..planning import Plan
from ..store.cache import compute_missing, digest, open_cache
from ..store.models import load, loaded_once, model_state
from .statements import TRAINING, check_numbered, examples_of, without_unknown_choices


@with_fields
class Answer(LLMOperator):
    """Ask the model for an answer to the user's question and make it the query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qanswer``, sets ``query`` to it and pushes the old query to ``query_0``. One call per turn.
    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 3 and Table 5 (1). The
    fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        words: the word limit named in the prompt (Fu et al., NII@TREC iKAT 2024, appendix A5: 200);
            a longer answer is not cut, because it is only a query. ``None``: the prompt names no
            limit.
        statements: ``"all"``: show the whole persona; ``"chosen"``: only the statements in
            ``qstatements``, with one example (InfoSense 2023, as Abbasiantaeb and Aliannejadi
            describe it).

    Raises:
        UsageError: when ``words`` is below 1, or another argument has an unknown value.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> answered = ikat.Answer(ikat.llm("recorded:sample"))(topics)
        >>> answered["query"].tolist() == answered["qanswer"].tolist()
        True
    """

    stage = "answer"
    kind = ANSWER
    activity = "drafting an answer"
    shows = ("words",)
    typical_words = 120
    writes = "qanswer"
    makes_query = True
    schematic = {"label": "Answer"}
    least = {"words": 1}
    template_of = "statements", {"all": "answer", "chosen": "answer_one_shot"}

    _: KW_ONLY
    words: int | None = None
    statements: str = "all"

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str]:
        """The text as it is."""
        return str


OUTLINE_TEMPLATES = {"elements": "suggest", "context": "suggest_context"}
OUTLINE_WORDS = {"elements": 100, "context": 30}
"""Form -> how many words an outline typically has."""


@with_fields
class OutlineAnswer(LLMOperator):
    """Ask the model for an outline of what a good answer needs, before the answer is written.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``; as in the papers, the
    prompt does not show the persona. Writes ``qsuggestion``, which
    ``SelectStatements(given="suggestion")`` and ``Respond(form="suggested")`` read. One call per
    turn. The fallback for a failed turn is an empty text.

    Args:
        llm: the model to ask.
        form: ``"elements"``: what the answer should contain and which preferences matter, in at
            most 300 words (Fu et al., NII@TREC iKAT 2024, appendix A4, first prompt);
            ``"context"``: which further information would help (De Lima and Yang, Passage Query
            Methods, section 4.2.2, the extra step of short_long_3).
        question: the column with the user's question, by default the utterance. For the rewrite, as
            in the papers, use ``"query"`` after a ``Rewrite``.

    Raises:
        UsageError: when ``form`` is unknown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.OutlineAnswer(ikat.llm("recorded:sample"), "context")
        ikat.generate.OutlineAnswer(ikat.llm('recorded:sample'), form='context')
    """

    stage = "suggest"
    kind = ANSWER
    activity = "outlining an answer"
    writes = "qsuggestion"
    schematic = {"label": "Outline answer"}
    choices = {"form": OUTLINE_TEMPLATES}
    template_of = "form", OUTLINE_TEMPLATES

    form: str = "elements"

    @property
    def typical_words(self) -> int:  # type: ignore[override]
        """As many as an outline of the form has."""
        return OUTLINE_WORDS[self.form]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No suggestion."""
        return [""] * len(frame)


REWRITE_TEMPLATES = {
    "full": "rewrite",
    "short": "rewrite_short",
    "clear": "rewrite_clear",
    "enhanced": "rewrite_enhanced",
    "personal": "rewrite_personal",
}


@with_fields
class Rewrite(LLMOperator):
    """Ask the model to rewrite the user's question as one self-contained query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qrewrite``, sets ``query`` to it and pushes the old query to ``query_0``. One call per turn.
    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Table 7 (QR). The fallback for a
    failed turn is the question itself.

    Args:
        llm: the model to ask.
        form: ``"full"``: a query that also includes the relevant parts of the persona; ``"short"``:
            only the question, made self-contained, without the persona (Fu et al., NII@TREC iKAT
            2024, appendix A1); ``"clear"``: the same, but the prompt shows the persona (code of
            Chang et al., CFDA & CLIP at TREC iKAT 2025); ``"enhanced"``: a query made from the
            question, a guess at its answer in ``qanswer`` and, instead of the history, its summary
            in ``qsummary`` if present (Mo et al., CHIQ, section 3.3); ``"personal"``: a query made
            from the question and the preferences in ``qpreferences``, where the prompt says that
            only the form of the guess counts, not its content (Chang et al.).
        style: ``"gpt"`` or ``"llama"``; both show all messages of the history (Generate then
            Retrieve, appendix A.3).

    Raises:
        UsageError: when an argument is unknown.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Rewrite(ikat.llm("recorded:sample"))(topics)["qrewrite"])
        1
    """

    stage = "rewrite"
    kind = REWRITE
    activity = "rewriting"
    writes = "qrewrite"
    makes_query = True
    history_style = "gpt"
    """All messages: only the paper's prompts for answers and queries omit earlier responses."""
    schematic = {"label": "Rewrite"}
    choices = {"form": REWRITE_TEMPLATES}
    template_of = "form", REWRITE_TEMPLATES

    form: str = "full"

    def columns_shown(self) -> dict[str, str]:
        """The guess for the enhanced and the personal form; for the latter also the preferences."""
        if self.form == "enhanced":
            return {"answer": "qanswer"}
        if self.form == "personal":
            return {"answer": "qanswer", "preferences": "qpreferences"}
        return {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows; for the enhanced form, the summary as the history."""
        shown = super().contexts(frame)
        if self.form == "enhanced":
            for row, summary in zip(shown, values(frame, "qsummary", ""), strict=True):
                row["context"] = summary or row["context"]
        return shown


@with_fields
class Clarify(LLMOperator):
    """Ask the model to restate the utterance so that it is self-contained, and make that the query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``,
    ``qstatements``. The prompt shows the history and the chosen statements (the whole persona if
    the frame has no ``qstatements``). Writes ``qrewrite``, sets ``query`` to it and pushes the old
    query to ``query_0``. One call per turn. Source: De Lima and Yang, Passage Query Methods,
    section 4.2.1. The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.Clarify(ikat.llm("recorded:sample"))
        ikat.generate.Clarify(ikat.llm('recorded:sample'))
    """

    stage = "clarify"
    kind = REWRITE
    activity = "clarifying the question"
    writes = "qrewrite"
    makes_query = True
    schematic = {"label": "Clarify"}
    statements = "chosen"


class Reformulation(NamedTuple):
    """The parts of a completion. ``statements`` are the pieces that name statements."""

    rewrite: str
    answer: str
    statements: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.rewrite} {self.answer}".strip()


class RewritesAndAnswers(LLMOperator):
    """Ask for a rewrite and an answer, which together become the query."""

    stage = "rewrite"
    kind = Kind(whole=True)
    activity = "rewriting"
    answer = True

    def fallback(self, frame: pd.DataFrame) -> list[Reformulation]:
        """The question, and no answer."""
        return [Reformulation(question, "") for question in self.questions(frame)]

    def typical(self, frame: pd.DataFrame) -> list[Reformulation]:
        """The question as the rewrite, and repeated up to 60 words as the answer."""
        words = 60 if self.answer else 0
        reformulations = []
        for question in self.questions(frame):
            reformulations.append(Reformulation(question, as_long_as(words, question)))
        return reformulations

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Reformulation]) -> pd.DataFrame:
        """Set ``qrewrite``, ``qanswer`` and ``query``."""
        frame = with_columns(frame, qrewrite=[outcome.rewrite for outcome in outcomes])
        if self.answer:
            frame = with_columns(frame, qanswer=[outcome.answer for outcome in outcomes])
        return with_query(frame, map(str, outcomes))


@with_fields
class RewriteAndAnswer(RewritesAndAnswers):
    """Ask the model for a reason, a rewrite and an answer, in one completion.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qrewrite`` and ``qanswer``, sets ``query`` to "<rewrite> <answer>" and pushes the old query to
    ``query_0``. One call per turn. Source: Mao et al., LLM4CS (arXiv 2303.06573), section 3.2:
    rewriting-and-response prompting (RAR) and, without the answer, rewriting prompting (REW), both
    with their chain of thought. Their prompts have four examples of CAsT 2022. Ours has none, and
    can show the persona. The fallback for a failed turn is the question, with an empty answer.

    Args:
        llm: the model to ask.
        answer: whether to ask for an answer. Otherwise ``qanswer`` is not written, and ``query`` is
            the rewrite.
        think: whether the model first names in one sentence the information missing from the
            question.
        persona: whether the prompt shows the persona.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> both = ikat.RewriteAndAnswer(ikat.llm("recorded:sample"))(topics).iloc[0]
        >>> both["query"] == f"{both['qrewrite']} {both['qanswer']}"
        True
    """

    shows = ("answer", "think")
    template_name = "rewrite_and_answer"
    schematic = {"label": "Rewrite and answer"}

    answer: bool = True
    think: bool = True
    _: KW_ONLY
    persona: bool = True

    def personas(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """No statements if the persona is not shown."""
        if self.persona:
            return super().personas(frame)
        return [{} for _ in range(len(frame))]

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files ends in ``_without_persona`` if the persona is not shown."""
        name = super().prompt_of(template)
        return name if self.persona else f"{name}_without_persona"

    def parse(self, text: str) -> Reformulation | None:
        """The rewrite and the answer, which is empty without ``answer``."""
        if self.answer:
            both = parse_rewrite_and_answer(text)
            return Reformulation(*both) if both else None
        rewrite = parse_reasoned_rewrite(text)
        return Reformulation(rewrite, "") if rewrite else None


REFORMULATION_PARSERS: dict[str, Callable[[str], tuple[Any, ...] | None]] = {
    "rewrite": parse_rewrite_and_answer,
    "queries": parse_answer_and_queries,
    "select": parse_chosen_rewrite,
}
"""Form -> the parser of its completions."""


@with_fields
class Reformulate(RewritesAndAnswers):
    """Ask the model for a rewrite (or queries) and a short answer, and show it the persona.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qrewrite`` and ``qanswer``, sets ``query`` to "<rewrite> <answer>" and pushes the old query to
    ``query_0``. With ``"select"`` it also writes ``qstatements``, with scores 1 / position. One
    call per turn. The fallback for a failed turn is the question, with an empty answer. Source: Mo
    et al., How to Leverage Personal Textual Knowledge (arXiv 2407.16192), and the prompts of its
    reproduction by Lupart et al. (arXiv 2510.03795, EricLangezaal/PersonalizedCIR at 45079e8).

    Args:
        llm: the model to ask.
        form: ``"rewrite"``: a rewrite, then the answer (their prompt 2); ``"queries"``: the answer,
            then on one line up to five queries for it, which replace the rewrite (their prompt 1);
            ``"select"``: the numbers of the relevant statements, the rewrite and the answer (SAR).
        words: the word limit of the answer in the prompt. A longer answer is not cut.
        shots: how many conversations the prompt shows as examples, for ``"select"`` only.
        examples: the dataset, or topics file, that they are taken from.

    Raises:
        UsageError: when ``form`` is unknown, ``words`` is below 1, ``shots`` below 0, or a form
            shows no examples.
        DataError: when it is used with ``"select"`` and a persona whose ids are no numbers.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> made = ikat.generate.Reformulate(ikat.llm("recorded:sample"), "select")(topics).iloc[0]
        >>> made["query"] == f"{made['qrewrite']} {made['qanswer']}"
        True
    """

    shows = ("form", "words")
    template_name = "reformulate"
    schematic = {"label": "Reformulate"}
    least = {"words": 1, "shots": 0}
    choices = {"form": REFORMULATION_PARSERS}

    form: str = "rewrite"
    _: KW_ONLY
    words: int = 200
    shots: int = 0
    examples: str = TRAINING

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form != "select" and self.shots:
            raise UsageError(
                f"shots={self.shots}: form={self.form!r} shows no examples; form='select' does"
            )

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files ends in the form."""
        return super().prompt_of(f"{template}_{self.form}")

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and ``examples``."""
        examples = examples_of(self.shots, self.examples, rewrites=True)
        return [{**row, "examples": examples} for row in super().contexts(frame)]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each row."""
        if self.form == "select":
            check_numbered(frame["qid"], self.personas(frame))
        return super().requests(frame)

    def parse(self, text: str) -> Reformulation | None:
        """The rewrite or queries, the answer, and the pieces that name statements.

        Texts of a public output were read by their authors, so they are taken as published.
        """
        if recorded_prompt(self.llm):
            return self._as_published(read_parts(text))
        parts = REFORMULATION_PARSERS[self.form](text)
        return Reformulation(*parts) if parts else None

    def _as_published(self, parts: Mapping[str, str]) -> Reformulation | None:
        """Read the parts of a public output's completion; None if it is not of this form."""
        query = "Queries" if self.form == "queries" else "Rewrite"
        expected = {query, "Response"}
        if self.form == "select":
            expected.add("Statements")
        if not expected <= set(parts):
            return None
        statements = read_ids(parts.get("Statements", ""))
        return Reformulation(parts[query], parts["Response"], statements or ())

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """As for every operator. A choice of statements that are all unknown is a failure.

        In a public output it is none, because its authors searched for the rewrite.
        """
        if not recorded_prompt(self.llm):
            choices = [getattr(outcome, "statements", ()) for outcome in outcomes]
            personas = self.personas(frame)
            outcomes = without_unknown_choices(
                self, "ids", frame["qid"], outcomes, choices, personas
            )
        return super().settle(frame, outcomes)

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Reformulation]) -> list[str]:
        """The pieces that name no statement."""
        return [piece for chosen in self._chosen(frame, outcomes) for piece in chosen.dropped]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Reformulation]) -> pd.DataFrame:
        """Set ``qrewrite``, ``qanswer`` and ``query``; also the chosen ``qstatements``."""
        if self.form == "select":
            statements = [chosen.statements for chosen in self._chosen(frame, outcomes)]
            frame = with_columns(frame, qstatements=statements)
        return super().write(frame, outcomes)

    def _chosen(self, frame: pd.DataFrame, outcomes: Sequence[Reformulation]) -> list[Chosen]:
        """Match the pieces that name statements with each turn's persona."""
        chosen = []
        for outcome, ptkb in zip(outcomes, self.personas(frame), strict=True):
            chosen.append(choose("ids", outcome.statements, ptkb))
        return chosen


@with_fields
class RewriteByLevel(LLMOperator):
    """Ask the model how much of the persona the question needs, and for a rewrite of that level.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes
    ``qlevel`` (``"a"``: the question does not need the persona; ``"b"``: the persona would help;
    ``"c"``: there is no good answer without it) and ``qpersonal``, the rewrite. Sets ``query`` to
    the rewrite and pushes the old query to ``query_0``. One call per turn. As in the paper, the
    prompt asks for an answer, but the answer is not kept. The fallback for a failed turn is the
    question at level ``"a"``. Source: Mo et al., Adaptive Personalized Conversational Information
    Retrieval (APCIR, arXiv 2508.08634), and their code (YuchenHui22314/TREC_iKAT_2024 at 646ba6d).
    Their prompt has examples of levels and rewrites. Ours has none.

    Args:
        llm: the model to ask.
        think: whether the model first gives a reason.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> rewritten = ikat.generate.RewriteByLevel(ikat.llm("recorded:sample"))(topics)
        >>> rewritten["qlevel"].item() in ("a", "b", "c")
        True
    """

    stage = "rewrite"
    activity = "rewriting"
    kind = Kind(parse_level)
    shows = ("think",)
    template_name = "rewrite_by_level"
    schematic = {"label": "Rewrite by level"}

    think: bool = True

    def fallback(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The question at level ``"a"``."""
        return [("a", question) for question in self.questions(frame)]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[tuple[str, str]]) -> pd.DataFrame:
        """Set ``qlevel``, ``qpersonal`` and ``query``."""
        levels = [level for level, _rewrite in outcomes]
        rewrites = [rewrite for _level, rewrite in outcomes]
        return with_query(with_columns(frame, qlevel=levels, qpersonal=rewrites), rewrites)


MAX_INPUT_TOKENS = 512
"""The length with which T5 was trained."""

log = logging.getLogger("pyterrier_ikat")


@with_fields
class Seq2SeqRewrite(Operator):
    """Rewrite the user's question with a sequence-to-sequence model of ``transformers``.

    The input is the conversation in the format of rewriters trained for CAsT
    (``castorini/t5-base-canard``): the user's utterances, oldest first and the question last,
    joined by ``|||``. With ``responses``, it also has the latest responses, each after the
    utterance that it answers. If an input exceeds the model's limit (at most 512 tokens), its
    beginning is cut off. Decoding is beam search without sampling, so the same frame gives the same
    queries.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``. The model does not see
    the PTKB. Each distinct input is decoded once per process, even if several systems use it, or
    once for all runs with ``ikat run --cache FILE``. Writes ``qrewrite``, sets ``query`` to it and
    pushes the old query to ``query_0``. If the model writes nothing, the rewrite is the question
    itself, and this is logged.

    Source: Lin et al., Multi-Stage Conversational Passage Retrieval (2021), for the rewriter, its
    10 beams and 64 tokens. Mo et al., ConvGQR (2023), concatenates a rewrite and an expansion, each
    from its own model: ``Seq2SeqRewrite(rewriter) >> AppendQuery(Seq2SeqRewrite(expander))``.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        responses: how many of the latest responses the input has. 0: none.
        max_length: the maximum number of output tokens.
        num_beams: the number of beams; 1: greedy.
        batch_size: the number of inputs per batch.

    Raises:
        UsageError: when an argument is out of range; at first use, when the model cannot be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.Seq2SeqRewrite("castorini/t5-base-canard", responses=1)
        ikat.generate.Seq2SeqRewrite('castorini/t5-base-canard', responses=1)
    """

    one_row_per_turn = True
    schematic = {"label": "Seq2Seq rewrite"}
    loads_models = True
    activity = "rewriting"
    paths = ("model",)
    least = {"responses": 0, "num_beams": 1, "batch_size": 1, "max_length": 2}

    model: str
    responses: int = 0
    max_length: int = 64
    num_beams: int = 10
    batch_size: int = 8

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The question in place of its rewrite."""
        questions = texts_in(frame, question_column(frame))
        return with_query(with_columns(frame, qrewrite=questions), questions)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query`` of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        questions = texts_in(inp, question_column(inp))
        inputs = []
        for history, question in zip(histories(inp), questions, strict=True):
            inputs.append(seq2seq_input(history, question, self.responses))
        rewrites = self._outputs(inputs)
        silent = []
        for row, qid in enumerate(inp["qid"]):
            if not rewrites[row]:
                rewrites[row] = questions[row]
                silent.append(qid)
        if silent:
            log.warning(
                "%r wrote nothing for %s, so the question stays: %s",
                self,
                counted(len(silent), "turn"),
                list_first(silent),
            )
        return with_query(with_columns(inp, qrewrite=rewrites), rewrites)

    def _outputs(self, texts: Sequence[str]) -> list[str]:
        """Return the model's output for each input, from the cache where it is known."""
        settings = (str(self.max_length), str(self.num_beams))
        model = digest("seq2seq", *settings, *model_state(self.model))
        keys = {text: digest(model, text) for text in texts}
        longest_first = sorted(keys, key=lambda text: (-len(text), text))
        outputs = compute_missing(
            open_cache(),
            {keys[text]: text for text in longest_first},
            self._decode,
            encode=str.encode,
            decode=bytes.decode,
            at_once=self.batch_size,
            label="rewriting",
            unit="turn",
        )
        return [outputs[keys[text]] for text in texts]

    def _decode(self, texts: list[str]) -> list[str]:
        tokenizer, model = load_seq2seq(self.model)
        return decode(tokenizer, model, texts, self.max_length, self.num_beams)


def seq2seq_input(history: Sequence[dict[str, str]], question: str, responses: int = 0) -> str:
    """Format the model's input from the messages before a question and the question.

    Example:
        >>> chat = [
        ...     {"role": "user", "content": "Which tea?"},
        ...     {"role": "assistant", "content": "Mint."},
        ... ]
        >>> seq2seq_input(chat, "Why?"), seq2seq_input(chat, "Why?", responses=1)
        ('Which tea? ||| Why?', 'Which tea? ||| Mint. ||| Why?')
    """
    parts = [question]
    left = responses
    for message in reversed(history):
        if message["role"] == "user":
            parts.append(message["content"])
        elif message["role"] == "assistant" and left > 0:
            parts.append(message["content"])
            left -= 1
    return " ||| ".join(" ".join(part.split()) for part in reversed(parts))


@loaded_once(size=4)
def load_seq2seq(model: str) -> tuple[Any, Any]:
    """The tokenizer and the loaded model. Equal names share them.

    Raises:
        UsageError: when they can't be loaded.
    """

    def make() -> tuple[Any, Any]:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        device = "cuda" if torch.cuda.is_available() else "cpu"
        tokenizer = AutoTokenizer.from_pretrained(model, truncation_side="left")
        return tokenizer, AutoModelForSeq2SeqLM.from_pretrained(model).to(device).eval()

    return load("sequence-to-sequence model", model, make)


def decode(
    tokenizer: Any, model: Any, texts: Sequence[str], max_length: int = 64, num_beams: int = 10
) -> list[str]:
    """Return the model's output for each text, by beam search, with white space normalised."""
    import torch

    positions = getattr(model.config, "max_position_embeddings", None)
    positions = positions or MAX_INPUT_TOKENS  # T5 has none: its positions are relative
    tokens = tokenizer(
        [well_formed(text) for text in texts],
        return_tensors="pt",
        padding=True,
        truncation=True,
        max_length=min(MAX_INPUT_TOKENS, tokenizer.model_max_length, positions),
    ).to(model.device)
    with torch.no_grad():
        outputs = model.generate(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            max_length=min(max_length, positions),
            num_beams=num_beams,
            do_sample=False,
            early_stopping=num_beams > 1,
        )
    written = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    return [" ".join(text.split()) for text in written]
