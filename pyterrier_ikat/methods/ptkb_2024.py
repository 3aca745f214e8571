"""Which statements of the persona to show: none, all, or those chosen by people or an LLM.

Mo et al. (arXiv 2407.16192), run again by Lupart et al. (SIGIR-AP 2025, arXiv 2510.03795). The
choices are none, all, those chosen by people, those that the LLM chooses first (STR, select then
reformulate), and those that it names in the same completion (SAR, select and reformulate). BM25
searches for the rewrite and the answer together. We read both abstracts, and the code, prompts and
results of the second paper (EricLangezaal/PersonalizedCIR at 45079e8). It has two prompts: a
rewrite and an answer, or, with ``_queries`` in the name, an answer and queries for it. The tables
below have its means over five runs of GPT-4o-mini. We could not read those of the first paper,
which come from one run of GPT-3.5.

Their completions are public: with ``recorded:personalizedcir`` as the LLM, each method replays
those of its own prompt, for the 176 judged turns of 2023, and five repeats are the authors' five
runs.

What differs: the wording of every prompt is ours; STR's statements come as a JSON list; rewrite and
answer are joined by a space, and in their code by nothing. ``shots`` shows training conversations
of 2023 as examples, like theirs: 1, 3 or 5. What they call *automatic* is not a system: each
statement is shown alone, and the judgements choose; see :func:`ptkb_statement`.
"""

from typing import Any

from ..generate import Reformulate, SelectStatements, ShowStatements
from ..generate.statements import TRAINING
from ..llms import LLM
from ..llms.spec import recorded_prompt, recording_of
from .definition import Stage, method

PAPER = "Mo et al., PTKB selection, run again by Lupart et al."
_PUBLISHED: dict[str, Any] = {
    "paper": PAPER,
    "models": {"llm": "openai:gpt-4o-mini", "retriever": "BM25"},
    "bm25": {"k1": 0.82, "b": 0.68},
}
_RECORDED = {**_PUBLISHED, "recorded": "recorded:personalizedcir"}
_QUERIES = {"form": "queries"}


@method("ptkb_none", settings={"shown": "none"}, **_RECORDED)
@method("ptkb_none_queries", settings={"shown": "none"} | _QUERIES, **_RECORDED)
@method("ptkb_all", **_RECORDED)
@method("ptkb_all_queries", settings=_QUERIES, **_RECORDED)
def ptkb(
    llm: LLM, retriever: Stage, *, shown: str = "all", form: str = "rewrite", depth: int = 1000
) -> Stage:
    """None or all of the persona is shown for the rewrite (or queries) and the answer.

    Both together are the query. One LLM call, one query per turn. ``shown``: ``"all"`` or
    ``"none"``; ``form`` is that of :class:`~pyterrier_ikat.generate.Reformulate`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("i").bm25(k1=0.82, b=0.68)  # doctest: +SKIP
        >>> ikat.methods.ptkb(llm, bm25)  # doctest: +SKIP
    """
    llm = recording_of(llm, _prompt(shown, 0, form))
    rewrite_and_answer = Reformulate(llm, form)
    if shown == "all":
        return rewrite_and_answer >> retriever % depth
    return ShowStatements(shown) >> rewrite_and_answer >> retriever % depth


@method("ptkb_human", uses_gold=True, **_RECORDED)
@method("ptkb_human_queries", settings=_QUERIES, uses_gold=True, **_RECORDED)
def ptkb_human(llm: LLM, retriever: Stage, *, form: str = "rewrite", depth: int = 1000) -> Stage:
    """The statements chosen by people are shown; the rest is as in ``ptkb_all``.

    These choices come with the topics (``get_topics("manual")``).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("i").bm25(k1=0.82, b=0.68)  # doctest: +SKIP
        >>> ikat.methods.ptkb_human(llm, bm25)  # doctest: +SKIP
    """
    llm = recording_of(llm, _prompt("human", 0, form))
    rewrite_and_answer = Reformulate(llm, form)
    return ShowStatements("gold") >> rewrite_and_answer >> retriever % depth


@method("ptkb_str", **_RECORDED)
@method("ptkb_str_queries", settings=_QUERIES, **_RECORDED)
def ptkb_str(
    llm: LLM,
    retriever: Stage,
    *,
    form: str = "rewrite",
    shots: int = 0,
    examples: str = TRAINING,
    depth: int = 1000,
) -> Stage:
    """STR (select then reformulate): only statements chosen by the LLM are shown for the rewrite.

    Two LLM calls per turn. With the authors' recorded rewrites of STR, nothing is chosen, because
    they were written for statements that were chosen already.

    - ``shots`` and ``examples``: how many conversations of which dataset the prompt for the choice
      has as examples.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.ptkb_str(llm, ikat.PassageIndex("i").bm25(), shots=3)  # doctest: +SKIP
    """
    llm = recording_of(llm, _prompt("llm", shots, form))
    reformulate = Reformulate(llm, form)
    if recorded_prompt(llm).startswith("personalizedcir-llm-"):
        return reformulate >> retriever % depth
    select = SelectStatements(llm, shots=shots, examples=examples) >> ShowStatements("chosen")
    return select >> reformulate >> retriever % depth


@method("ptkb_sar", **_RECORDED)
def ptkb_sar(
    llm: LLM, retriever: Stage, *, shots: int = 0, examples: str = TRAINING, depth: int = 1000
) -> Stage:
    """SAR (select and reformulate): one completion chooses statements, rewrites and answers.

    One LLM call, one query per turn.

    - ``shots`` and ``examples``: how many conversations of which dataset the prompt has as
      examples.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.ptkb_sar(llm, ikat.PassageIndex("i").bm25(), shots=5)  # doctest: +SKIP
    """
    llm = recording_of(llm, f"sar-{shots}shot")
    select_and_reformulate = Reformulate(llm, "select", shots=shots, examples=examples)
    return select_and_reformulate >> retriever % depth


@method("ptkb_statement", **_PUBLISHED)
def ptkb_statement(llm: LLM, retriever: Stage, *, statement: int = 1, depth: int = 1000) -> Stage:
    """Only the statement of the persona with this number is shown, or none if there is none.

    One LLM call, one query per turn. Run it for each number, and evaluate the runs with an oracle
    by nDCG@3. This gives what the paper calls automatic selection, which knows for each turn which
    statement helps. It isn't a system, because the judgements of the turns choose.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> runs = {}
        >>> for number in range(1, 11):  # doctest: +SKIP
        ...     system = ikat.methods.ptkb_statement(llm, bm25, statement=number)
        ...     runs[f"statement {number}"] = system(topics)
        >>> ikat.evaluation.evaluate(runs, qrels, ["nDCG@3"], oracle=True)  # doctest: +SKIP
    """
    return ShowStatements(str(statement)) >> Reformulate(llm) >> retriever % depth


def _prompt(statements: str, shots: int, form: str) -> str:
    """The authors' name of a prompt: the shown statements, the number of examples, the form."""
    prompt = "prompt1" if form == "queries" else "prompt2"
    return f"{statements}-{shots}shot-{prompt}"
