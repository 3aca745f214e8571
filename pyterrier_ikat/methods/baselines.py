"""Baselines of the papers: without an LLM, with trained rewriters, and those of the organisers.

``rewriter`` and ``expander`` are operators that make a query from the conversation, such as
``ikat.generate.Seq2SeqRewrite(model)``.
"""

from typing import Any

from ..generate import (
    AllUtterances,
    Answer,
    AppendQuery,
    AppendStatements,
    Decide,
    HistoricalQueryExpansion,
    ManualRewrite,
    RawUtterance,
    Respond,
    Rewrite,
    SelectStatements,
)
from ..llms import LLM
from ..operator import face
from ..rank import RankStatements
from ..retrieve import RM3
from . import generate_then_retrieve, infosense_2024, nii_2024
from .definition import Stage, method
from .generate_then_retrieve import retrieve

_OURS = "baseline without an LLM"
_TRAINED = generate_then_retrieve.PAPER
_ORGANISERS = f"organisers' 2024 baseline, as reported by {infosense_2024.PAPER}"
_MINILM = {"reranker": "cross-encoder/ms-marco-MiniLM-L-6-v2"}
_T5 = {"rewriter": "a T5 rewriter"}
_CONVGQR = {
    "rewriter": "a T5 rewriter trained on QReCC",
    "expander": "a T5 expansion model trained on QReCC",
}
_MONOT5 = {
    "rewriter": "a BART rewriter trained on SAMSum and CANARD",
    "retriever": "an unnamed one (the run's name says dense)",
    "reranker": "a T5 re-ranker",
}


# The baselines of 2024 also choose statements and respond. The paper doesn't say with which LLM for
# the trained rewriters.
_OF_2024: dict[str, Any] = {"paper": _ORGANISERS, "settings": {"respond": True}}
_BM25 = {"retriever": "BM25"} | _MINILM
_SPLADE = {"retriever": "SPLADE"} | _MINILM
_UNNAMED = {"llm": "an unnamed LLM"}


@method(paper=_OURS)
def raw(retriever: Stage, reranker: Stage | None = None, *, depth: int = 1000) -> Stage:
    """The user's raw utterance is the query.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.raw(ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return RawUtterance() >> retrieve(retriever, reranker, depth)


@method(paper=_OURS)
def all_utterances(retriever: Stage, reranker: Stage | None = None, *, depth: int = 1000) -> Stage:
    """All utterances of the user so far, joined, are the query.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.all_utterances(ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return AllUtterances() >> retrieve(retriever, reranker, depth)


@method(paper=_OURS)
def hqe(
    retriever: Stage, reranker: Stage | None = None, *, words: int = 10, depth: int = 1000
) -> Stage:
    """Historical query expansion: the utterance and the topic words of the past turns.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.hqe(ikat.PassageIndex("mini.index").bm25(), words=5)  # doctest: +SKIP
    """
    return HistoricalQueryExpansion(retriever, words) >> retrieve(retriever, reranker, depth)


@method("monot5", paper=_TRAINED, models=_MONOT5)
@method("baseline_auto_t5_bm25_minilm", models=_UNNAMED | _T5 | _BM25, **_OF_2024)
def rewritten(
    rewriter: Stage,
    retriever: Stage,
    reranker: Stage | None = None,
    llm: LLM | None = None,
    *,
    depth: int = 1000,
    respond: bool = False,
) -> Stage:
    """A trained rewriter's query: the organisers' T5 baseline of 2024, and monoT5.

    monoT5 has a BART rewriter, and ``ikat.MonoT5()`` as re-ranker. With ``llm``, the system also
    chooses statements and responds, like :func:`organizers_2024`. Source: Abbasiantaeb and
    Aliannejadi, Generate then Retrieve, section 4 (monoT5); De Lima and Yang, Passage Query
    Methods, Tables 2 to 4 (T5).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> rewriter = ikat.generate.Seq2SeqRewrite("castorini/t5-base-canard")
        >>> ikat.methods.rewritten(rewriter, bm25, ikat.MonoT5())  # doctest: +SKIP
    """
    ranking = rewriter >> retrieve(retriever, reranker, depth)
    if llm is None or not respond:
        return ranking
    return _responded(llm, ranking)


@method(paper=_TRAINED, models=_CONVGQR | {"retriever": "an unnamed one"})
@method("baseline_auto_convgqr_bm25_minilm", models=_UNNAMED | _CONVGQR | _BM25, **_OF_2024)
def convgqr(
    rewriter: Stage,
    expander: Stage,
    retriever: Stage,
    reranker: Stage | None = None,
    llm: LLM | None = None,
    *,
    depth: int = 1000,
    respond: bool = False,
) -> Stage:
    """ConvGQR: a trained rewrite and a trained expansion (a potential answer), concatenated.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> rewriter = ikat.generate.Seq2SeqRewrite("a folder with a rewriter")
        >>> expander = ikat.generate.Seq2SeqRewrite("a folder with an expansion model")
        >>> ikat.methods.convgqr(rewriter, expander, bm25)  # doctest: +SKIP
    """
    query = rewriter >> AppendQuery(expander)
    ranking = query >> retrieve(retriever, reranker, depth)
    if llm is None or not respond:
        return ranking
    return _responded(llm, ranking)


@method(paper=_TRAINED, models={"llm": "Llama-2-13b-chat", "retriever": "BM25"})
def infosense_2023(llm: LLM, retriever: Stage, *, depth: int = 1000) -> Stage:
    """InfoSense 2023 (georgetown_infosense_ikat_run_3): chosen statements, an LLM answer, and BM25.

    The prompt for the answer has one example, the history and the statements. Two LLM calls, one
    query per turn, no re-ranking. Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve,
    section 4.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.infosense_2023(llm, ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    statements = SelectStatements(llm, "ids")
    answer = Answer(llm, statements="chosen", style="llama")
    return statements >> answer >> retriever % depth


@method(
    "organizers_2023_auto",
    paper=f"organisers' 2023 baseline, as reported by {nii_2024.PAPER}",
    models=_T5 | {"retriever": "BM25", "reranker": "MiniLM, for the statements"},
)
def organizers_2023(
    rewriter: Stage, retriever: Stage, reranker: Stage, *, rm3: bool = True, depth: int = 1000
) -> Stage:
    """The organisers' 2023 automatic baseline: a rewrite and three statements, with BM25 and RM3.

    RM3 has the parameters 10, 10 and 0.5. The statements are the three that ``reranker`` (MiniLM)
    ranks highest for the rewrite; passages are not re-ranked.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> rewriter = ikat.generate.Seq2SeqRewrite("castorini/t5-base-canard")
        >>> ikat.methods.organizers_2023(rewriter, bm25, minilm)  # doctest: +SKIP
    """
    query = rewriter >> RankStatements(reranker, 3) >> AppendStatements()
    return query >> _expanded(retriever, rm3, depth)


@method(paper="organisers' 2023 manual baseline", models={"retriever": "BM25"}, uses_gold=True)
def organizers_2023_manual(retriever: Stage, *, rm3: bool = True, depth: int = 1000) -> Stage:
    """The organisers' 2023 manual baseline: manual rewrite and gold statements, with BM25 and RM3.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.organizers_2023_manual(ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    query = ManualRewrite() >> AppendStatements("qgoldptkb")
    return query >> _expanded(retriever, rm3, depth)


@method("baseline_auto_gpt4_bm25_minilm", models={"llm": "openai:gpt-4"} | _BM25, **_OF_2024)
@method("baseline_auto_gpt4o_splade_minilm", models={"llm": "openai:gpt-4o"} | _SPLADE, **_OF_2024)
@method("baseline_auto_llama3_1_splade_minilm", models={"llm": "Llama 3.1"} | _SPLADE, **_OF_2024)
def organizers_2024(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    depth: int = 1000,
    respond: bool = True,
) -> Stage:
    """The organisers' 2024 baselines with an LLM: statements, a rewrite, re-ranking, a response.

    We read their code (SimonLupart/ikat-2024-baseline at d1fccba), which has the run of GPT-4o with
    BM25. The rewrite and the response see the raw utterance, the whole persona and the whole
    conversation. All 1000 passages are re-ranked with ms-marco-MiniLM-L-6-v2. The response has at
    most 200 words and summarises the first five passages. We infer from the names of the other runs
    that they differ only in model and retriever.

    None of its prompts contains chosen statements. All four runs have the same scores for
    statements in Table 3 of De Lima and Yang, so they shared one choice. Here the choice is one
    call of the system's own ``llm`` with our prompt. Its result is submitted and changes nothing
    else. Their code marks the first six passages as used. Here these are the five passages from
    which the response was made.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.organizers_2024(llm, bm25, minilm)  # doctest: +SKIP
    """
    ranking = Rewrite(llm) >> retrieve(retriever, reranker, depth)
    return _responded(llm, ranking) if respond else ranking


@method(paper="ours, for the labels of MTRAG")
def decide(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    depth: int = 1000,
    passages: int = 5,
) -> Stage:
    """A rewrite finds the passages; the LLM answers from the best, asks back, or abstains.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.decide(llm, bm25)  # doctest: +SKIP
    """
    return (
        Rewrite(llm)
        >> retrieve(retriever, reranker, depth)
        >> Decide(llm, passages=passages)
        >> Respond(llm, passages=passages)
    )


@method(paper="ours, for generation-only runs")
def generation_only(
    llm: LLM, retriever: Stage, *, depth: int = 1000, passages: int = 5, words: int = 250
) -> Stage:
    """Statements, and a response from the best passages of an existing ranking.

    Two LLM calls per turn. ``retriever`` is an ``ikat.GivenRanking`` of a run by the organisers or
    another system. Any other retriever searches for the raw utterance.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> texts = ikat.PassageIndex("full.index").text_loader()  # doctest: +SKIP
        >>> given = ikat.GivenRanking("organisers.trec", texts)  # doctest: +SKIP
        >>> ikat.methods.generation_only(ikat.llm("openai:gpt-4o"), given)  # doctest: +SKIP
    """
    return SelectStatements(llm, "ids") >> retriever % depth >> Respond(llm, passages, words)


def _expanded(retriever: Stage, rm3: bool, depth: int) -> Stage:
    """The first stage; with RM3, its query is expanded first."""
    if not rm3:
        return retriever % depth
    return retriever >> RM3(**face(retriever).analysis()) >> retriever % depth


def _responded(llm: LLM, ranking: Stage) -> Stage:
    """A ranking with chosen statements and a response from the top five passages."""
    return SelectStatements(llm, "ids") >> ranking >> Respond(llm, 5, 200)
