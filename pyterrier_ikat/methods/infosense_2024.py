"""De Lima and Yang, Passage Query Methods (InfoSense, iKAT 2024): queries written like the passages that would answer.

Every run summarises long responses of the history (the one just before the turn stays whole), chooses PTKB statements
with scores, retrieves 5000 passages per passage query with BM25, scores the union of the candidates by the weighted
mean of cosines over passage queries and bi-encoders, keeps 1000, and responds from the top three passages only. A passage
query that finds no passage, for want of any indexed word, doesn't count in that mean. Greedy decoding: give the LLM
``temperature=0``. Arguments that mean the same everywhere:

- ``llm``: the model to ask (Llama 3.1 8B or 70B in the paper).
- ``retriever``: BM25 (their code: k1 1.2, b 0.75).
- ``reranker``: a bi-encoder, or a list of them: all-MiniLM-L12-v2, and from the second run on also
  msmarco-distilbert-base-v4.
- ``depth``: passages per passage query.
- ``respond``: whether the response is written; without it one LLM call per turn is saved.
"""

from collections.abc import Sequence

import pyterrier as pt

from ..fuse import MeanScore
from ..generate import Clarify, Expand, PassageQueries, Respond, SelectStatements, Suggest, Summarise
from ..llm import LLM


def _ranked(
    llm: LLM,
    queries: pt.Transformer,
    retriever: pt.Transformer,
    reranker: pt.Transformer | Sequence[pt.Transformer],
    depth: int,
    respond: bool,
    question: str = "qutterance",
) -> pt.Transformer:
    scorers = [reranker] if isinstance(reranker, pt.Transformer) else list(reranker)
    ranking = queries >> Expand() >> retriever % depth >> MeanScore(scorers, 1000)
    return ranking >> Respond(llm, passages=3, form="passages_only", statements="chosen", question=question) if respond else ranking


def weighted_reranking(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | Sequence[pt.Transformer],
    *,
    statements: int = 3,
    depth: int = 5000,
    respond: bool = True,
) -> pt.Transformer:
    """Weighted re-ranking (section 4.2.1): a clarified utterance, an article-like passage query, and one per chosen statement.

    The first passage query has all chosen statements and weight 1, the others one of the best ``statements`` each,
    weighted by its score: 1 to 4 queries, 4 to 7 LLM calls per turn beside the summaries. The paper says both that one
    re-ranker is MiniLM (Table 1) and that it is MSMDistilbert (section 4.2.1); the catalogue follows Table 1.

    With one chosen statement there are two passage queries (the paper writes extra ones only "if multiple" statements are
    chosen, and counts 1 to 4). The response is to the clarified utterance (section 3.1, step 6).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> minilm = ikat.BiEncoder("sentence-transformers/all-MiniLM-L12-v2")
        >>> ikat.methods.weighted_reranking(llm, ikat.PassageIndex("i").bm25(k1=1.2, b=0.75), minilm)  # doctest: +SKIP
    """
    queries = Summarise(llm) >> SelectStatements(llm, "scores") >> Clarify(llm) >> PassageQueries(llm, ("article",), statements)
    return _ranked(llm, queries, retriever, reranker, depth, respond, "qrewrite")


def short_and_long(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | Sequence[pt.Transformer],
    *,
    think: bool = False,
    depth: int = 5000,
    respond: bool = True,
) -> pt.Transformer:
    """Short and long passages (section 4.2.2): a 5-sentence answer-like and a 10-sentence article-like passage query, equal weights.

    With ``think`` (run 3) the model first says which information would help, chooses the statements in that light, and
    writes the long query in a style of its choice: encyclopedia, blog or government website. Two queries per turn; 4
    LLM calls per turn beside the summaries, 5 with ``think``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.short_and_long(llm, ikat.PassageIndex("i").bm25(k1=1.2, b=0.75), [minilm, distilbert])  # doctest: +SKIP
    """
    if think:
        chosen = Suggest(llm, "context") >> SelectStatements(llm, "scores", given="suggestion")
        queries = Summarise(llm) >> chosen >> PassageQueries(llm, ("short", "styled"))
    else:
        queries = Summarise(llm) >> SelectStatements(llm, "scores") >> PassageQueries(llm, ("short", "long"))
    return _ranked(llm, queries, retriever, reranker, depth, respond)
