"""Passage Query Methods: queries in the form of passages that would answer the question.

De Lima and Yang, Passage Query Methods (InfoSense, iKAT 2024). Every run summarises long responses
in the history (except the last one), chooses PTKB statements with scores, and retrieves 5000
passages per passage query with BM25. It scores the union of the candidates with the weighted mean
of cosines over passage queries and bi-encoders, keeps 1000, and responds from the top three
passages only. The response and each of these passages have at most 300 words. A passage query that
finds nothing, because it has no indexed word, doesn't count in the mean. The authors' code decodes
greedily, and the paper says nothing of it: give the LLM ``temperature=0``.

The last response is shown whole, as in the authors' code, which puts its summary into later turns.
The paper sums it up, too (section 3.1 (1)). The choice of statements sees the history. Section
3.3.2 names the query text and the list of statements alone; two of the authors' three notebooks
show the history.

The authors' notebooks differ further from the paper, which we follow. They clarify the utterance
first, without the statements; they show the passage query of weight 1 the best three statements;
weighted responses see no history; the raw JSON of a passage is embedded; a completion has at most
512 tokens; a summary has at most 150 characters. Ours shows the chosen statements to all these
stages, embeds the text of a passage, and leaves the length of completions to the LLM's
``max_tokens``.

These arguments mean the same in all systems:

- ``llm``: the model to ask (Llama 3.1 8B or 70B in the paper).
- ``retriever``: BM25 (their code: k1 1.2, b 0.75).
- ``reranker``: a bi-encoder, or a list of them: all-MiniLM-L12-v2, and from the second run on also
  msmarco-distilbert-base-v4.
- ``depth``: passages per passage query.
- ``respond``: whether the response is written. Without it, each turn needs one LLM call fewer.
"""

from collections.abc import Sequence

from ..fuse import MeanScore
from ..generate import (
    Clarify,
    ExplodeQueries,
    OutlineAnswer,
    PassageQueries,
    Respond,
    SelectStatements,
    Summarise,
)
from ..llms import LLM
from .definition import Stage, method

Rerankers = Stage | Sequence[Stage]

PAPER = "De Lima and Yang, Passage Query Methods"
_LUCENE = {"k1": 1.2, "b": 0.75}
_SMALL = {"llm": "Llama-3.1-8B-Instruct temperature=0", "retriever": "BM25 k1=1.2 b=0.75"}
_ONE = {"reranker": "bi:sentence-transformers/all-MiniLM-L12-v2"}
_BOTH = {"reranker": f"{_ONE['reranker']},bi:sentence-transformers/msmarco-distilbert-base-v4"}
_LARGE = {"llm": "Llama-3.1-70B-Instruct temperature=0"}


def _search_and_respond(
    llm: LLM,
    passage_queries: Stage,
    retriever: Stage,
    reranker: Rerankers,
    depth: int,
    respond: bool,
    question: str = "qutterance",
) -> Stage:
    """Steps (4) to (6) of section 3.1: retrieval by each passage query, re-ranking, response."""
    retrieval = ExplodeQueries() >> retriever % depth
    sentence_transformers = [reranker] if isinstance(reranker, Stage) else list(reranker)
    # the mean over passage queries is weighted: ``qweights`` has 1 and the statements' scores
    reranking = MeanScore(sentence_transformers, num_results=1000)
    ranking = passage_queries >> retrieval >> reranking
    if not respond:
        return ranking
    response_generation = Respond(
        llm,
        passages=3,
        words=300,
        form="passages_only",
        statements="chosen",
        question=question,
        passage_words=300,
    )
    return ranking >> response_generation


@method("wghtdrerank_1", paper=PAPER, models=_SMALL | _ONE, bm25=_LUCENE, several=True)
@method("wghtdrerank_2", paper=PAPER, models=_SMALL | _BOTH, bm25=_LUCENE, several=True)
def weighted_reranking(
    llm: LLM,
    retriever: Stage,
    reranker: Rerankers,
    *,
    statements: int = 3,
    depth: int = 5000,
    respond: bool = True,
) -> Stage:
    """Weighted re-ranking (section 4.2.1): an article-like passage query, and one per statement.

    Both are written from a clarified utterance. The first passage query is written from all chosen
    statements and has weight 1. Each other one is written from one of the best ``statements``
    statements, and its weight is the statement's score. This makes 1 to 4 queries, and 4 to 7 LLM
    calls per turn besides the summaries. Run 1 has one re-ranker: MiniLM by Table 1 and the
    released notebook, which the catalogue follows, and MSMDistilbert by section 4.2.1.

    With one chosen statement there are two passage queries, and with three or more there are four.
    Section 4.2.1 writes extra ones "if multiple" statements are chosen, "with a maximum of three
    PQs total", and Table 1 counts 1 to 4. The notebook writes one for each of the best three, and
    so do we. The response answers the clarified utterance (section 3.1 (6)).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> minilm = ikat.BiEncoder("sentence-transformers/all-MiniLM-L12-v2")
        >>> bm25 = ikat.PassageIndex("i").bm25(k1=1.2, b=0.75)  # doctest: +SKIP
        >>> ikat.methods.weighted_reranking(llm, bm25, minilm)  # doctest: +SKIP
    """
    response_summaries = Summarise(llm, min_characters=150)
    ptkb_classification = SelectStatements(llm, form="scores")
    query_comprehension = Clarify(llm)
    query_generation = PassageQueries(llm, forms=("article",), per_statement=statements)
    passage_queries = (
        response_summaries >> ptkb_classification >> query_comprehension >> query_generation
    )
    return _search_and_respond(
        llm, passage_queries, retriever, reranker, depth, respond, question="qrewrite"
    )


@method("short_long_2", paper=PAPER, models=_SMALL | _BOTH, bm25=_LUCENE, several=True)
@method(
    "short_long_3",
    paper=PAPER,
    settings={"think": True},
    models=_SMALL | _LARGE | _BOTH,
    bm25=_LUCENE,
    several=True,
)
def short_and_long(
    llm: LLM,
    retriever: Stage,
    reranker: Rerankers,
    *,
    think: bool = False,
    depth: int = 5000,
    respond: bool = True,
) -> Stage:
    """Short and long passages (section 4.2.2): an answer-like and an article-like passage query.

    They have 5 and 10 sentences, and equal weights. With ``think`` (run 3), the model first says
    which information would help, uses this to choose the statements, and writes the long query in a
    style of its choice: encyclopedia, blog or government website. The paper gives both to run 3
    alone, and so do we; the released notebook of ``short_long_2`` has them as well. Two queries per
    turn; 4 LLM calls per turn besides the summaries, 5 with ``think``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("i").bm25(k1=1.2, b=0.75)  # doctest: +SKIP
        >>> ikat.methods.short_and_long(llm, bm25, [minilm, distilbert])  # doctest: +SKIP
    """
    response_summaries = Summarise(llm, min_characters=150)
    if think:
        chain_of_thought = OutlineAnswer(llm, form="context")
        ptkb_classification = SelectStatements(llm, form="scores", given="suggestion")
        query_generation = PassageQueries(llm, forms=("short", "styled"))
        passage_queries = (
            response_summaries >> chain_of_thought >> ptkb_classification >> query_generation
        )
    else:
        ptkb_classification = SelectStatements(llm, form="scores")
        query_generation = PassageQueries(llm, forms=("short", "long"))
        passage_queries = response_summaries >> ptkb_classification >> query_generation
    return _search_and_respond(llm, passage_queries, retriever, reranker, depth, respond)
