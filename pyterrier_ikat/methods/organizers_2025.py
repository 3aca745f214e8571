"""DiSCo, and the organisers' baselines of 2025.

**Lupart, Aliannejadi and Kanoulas, DiSCo (SIGIR 2025, arXiv 2410.14609): SPLADE with a query
encoder that reads the whole conversation.**

The passages are indexed with ``naver/splade-cocondenser-ensembledistil``, and the query encoder is
one of the authors' models, such as ``slupart/splade-disco-human-mistral`` (trained on QReCC with
human rewrites and Mistral's as teachers). It needs no LLM.

**The organisers' 2025 baselines, as in their repository ikat-baseline (Lupart): one rewrite, BM25
or SPLADE, a re-ranker.**

The data of TREC iKAT 2025 names that repository for its baselines. It has no code for statements
and responses, and we found no source that describes those of the run
``gpt41mini-bm25-minilm-llama70b-gpt41mini`` or of the organisers' generation-only run. So both are
missing here.
"""

from ..generate import AllUtterances, ManualRewrite, Rewrite
from ..llms import LLM
from .definition import Stage, method
from .generate_then_retrieve import retrieve

_DISCO = "Lupart, Aliannejadi and Kanoulas, DiSCo"


@method(paper=_DISCO, models={"retriever": "SPLADE query_model=slupart/splade-disco-human-mistral"})
def disco(
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    separator: str = " [SEP] ",
    depth: int = 1000,
) -> Stage:
    """DiSCo: SPLADE's query encoder reads the conversation itself, newest message first.

    No LLM call, one query per turn. The query is the utterance, then the responses and utterances
    before it, joined by ``separator``, as described in their model cards. The encoder truncates it
    at its limit (256 tokens in their code; set the model's own limit to that). ``retriever`` is
    SPLADE with such a ``query_model``. Any other retriever reads the conversation as plain words.
    The paper has no re-ranker. If you give one, it also sees the whole conversation. The persona
    isn't shown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.SpladeIndex("splade.index")  # doctest: +SKIP
        >>> retriever = splade.retriever(
        ...     query_model="slupart/splade-disco-human-mistral"
        ... )  # doctest: +SKIP
        >>> ikat.methods.disco(retriever)  # doctest: +SKIP
    """
    conversation = AllUtterances(responses=True, newest_first=True, separator=separator)
    return conversation >> retrieve(retriever, reranker, depth)


_BASELINES = "organisers' baselines of 2025, repository SimonLupart/ikat-baseline"
_LLM = {"llm": "openai:gpt-4o-mini"}
_BM25 = {"retriever": "BM25"}
_SPLADE = {"retriever": "SPLADE, naver/splade-cocondenser-ensembledistil"}
_MINILM = {"reranker": "cross-encoder/ms-marco-MiniLM-L-6-v2"}
_DEBERTA = {"reranker": "naver/trecdl22-crossencoder-debertav3"}


@method("baseline_2025_bm25", paper=_BASELINES, models=_LLM | _BM25)
@method("baseline_2025_splade", paper=_BASELINES, models=_LLM | _SPLADE)
def baseline_2025(llm: LLM, retriever: Stage, *, depth: int = 1000) -> Stage:
    """The organisers' 2025 baselines without a re-ranker: one rewrite retrieves.

    The rewrite sees the conversation and the whole persona. One LLM call and one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.baseline_2025(llm, ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    return Rewrite(llm) >> retriever % depth


@method("baseline_2025_splade_minilm", paper=_BASELINES, models=_LLM | _SPLADE | _MINILM)
@method("baseline_2025_splade_deberta", paper=_BASELINES, models=_LLM | _SPLADE | _DEBERTA)
def baseline_2025_reranked(
    llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 100
) -> Stage:
    """The organisers' 2025 baselines with a re-ranker over the first 100 passages.

    The other passages are dropped. One LLM call and one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> deberta = ikat.CrossEncoder("naver/trecdl22-crossencoder-debertav3")
        >>> ikat.methods.baseline_2025_reranked(llm, splade, deberta)  # doctest: +SKIP
    """
    return Rewrite(llm) >> retriever % depth >> reranker


@method("baseline_2025_human_bm25", paper=_BASELINES, models=_BM25, uses_gold=True)
@method("baseline_2025_human_splade", paper=_BASELINES, models=_SPLADE, uses_gold=True)
def baseline_2025_manual(retriever: Stage, *, depth: int = 1000) -> Stage:
    """The organisers' 2025 baselines on the manual rewrite. No LLM call, one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.baseline_2025_manual(ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    return ManualRewrite() >> retriever % depth


# The line of 2024 for SPLADE on the rewrite repeats that of 2023 to the last digit, and its recall
# isn't that of the re-ranked runs made of it: it is omitted.
