"""NII's retrieve then generate (RtG) and generate then retrieve (GtR).

Fu, Bedi, Acharya, Kando, NII@TREC iKAT 2024. These arguments mean the same in both systems:

- ``llm``: the model to ask; ``second_llm``: the second model of GtR (Claude 3 Opus in the paper;
  use Anthropic's models through their OpenAI-compatible endpoint: ``openai:NAME base_url=...
  api_key_env=...``).
- ``retriever``: BM25, in Pyserini (section III), whose defaults are k1 0.9, b 0.4; ``reranker``:
  ms-marco-MiniLM-L-12-v2 for RtG, ms-marco-MiniLM-L-6-v2 for GtR.
- ``depth``: passages per query.
- ``respond``: whether the response is written.
"""

from ..fuse import RerankAgainst, Union
from ..generate import (
    Answer,
    ExplodeQueries,
    ManualRewrite,
    MultiQuery,
    OutlineAnswer,
    Respond,
    Rewrite,
    SelectStatements,
    StatementQueries,
)
from ..llms import LLM
from .definition import Stage, method

PAPER = "Fu, Bedi, Acharya and Kando, NII@TREC iKAT 2024"
_RTG = {
    "llm": "gpt-4",
    "retriever": "BM25",
    "reranker": "cross-encoder/ms-marco-MiniLM-L-12-v2",
}
_GTR = {
    "llm": "gpt-4o",
    "second_llm": "claude-3-opus-20240229",
    "retriever": "BM25",
    "reranker": "cross-encoder/ms-marco-MiniLM-L-6-v2",
}


@method(paper=PAPER, models=_RTG)
@method("rtg_manual", paper=PAPER, settings={"manual": True}, models=_RTG)
def rtg(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    manual: bool = False,
    depth: int = 50,
    respond: bool = True,
) -> Stage:
    """RtG (section III.A): a short rewrite, queries for each PTKB statement, their union re-ranked.

    The re-ranker reads the rewrite. If no statement is chosen, the queries are generated from the
    rewrite alone. All queries that the LLM writes for a statement are used; only its ``max_tokens``
    limits them. The paper has queries "for each PTKB", and appendix A3 numbers the statements to n:
    here each chosen statement gets queries, as choosing them would be pointless otherwise.

    The response takes two steps (appendix A4): a suggestion, which the LLM writes from the
    conversation and the rewrite, and the final response, which also sees the whole PTKB and the
    first five passages. The suggestion needs no passages, so its call stands before the retrieval.

    With ``manual`` (Manu_RtG, section V.D), the manual rewrite replaces the LLM's rewrite, which
    saves a call. The paper has manual rewrites "as initial inputs" and doesn't say whether the LLM
    rewrites them again.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.rtg(llm, bm25, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    utterance_rewriting = ManualRewrite() if manual else Rewrite(llm, form="short")
    rewritten_utterance = "qresolved" if manual else "qrewrite"
    ptkb_ranking = SelectStatements(llm, form="ids", question=rewritten_utterance, history=False)
    query_generation = StatementQueries(llm, question=rewritten_utterance) >> ExplodeQueries()
    document_retrieval = retriever % depth
    reranking = RerankAgainst(reranker, rewritten_utterance, num_results=1000)
    suggestion = OutlineAnswer(llm, form="elements", question=rewritten_utterance)
    response = Respond(llm, passages=5, words=250, form="suggested", question=rewritten_utterance)
    ranking = query_generation >> document_retrieval >> reranking
    if not respond:
        return utterance_rewriting >> ptkb_ranking >> ranking
    return utterance_rewriting >> ptkb_ranking >> suggestion >> ranking >> response


def _of_one_llm(llm: LLM, retriever: Stage, reranker: Stage, n: int, depth: int) -> Stage:
    """Steps 1 and 2 of Algorithm 1, or 3 and 4: an LLM's response, PTKB, queries and ranking."""
    # Neither of the first two steps reads the other. The response would become the query.
    ptkb_selection = SelectStatements(llm, form="copies")
    initial_response = Answer(llm, words=200)
    query_generation = MultiQuery(llm, n, given="answer", words=200)
    sparse_retrieval = retriever % depth
    initial_reranking = RerankAgainst(reranker, "qanswer", num_results=1000)
    queries = ptkb_selection >> initial_response >> query_generation
    return queries >> sparse_retrieval >> initial_reranking


@method("gtr_gpt", paper=PAPER, models=_GTR)
@method("gtr_claude", paper=PAPER, models=_GTR, settings={"llm": "second_llm"})
@method(paper=PAPER, models=_GTR, settings={"second_llm": "second_llm"})
def gtr(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    second_llm: LLM | None = None,
    n: int = 5,
    depth: int = 300,
    respond: bool = True,
) -> Stage:
    """GtR (section III.B): answer, PTKB statements and queries from each LLM; the union re-ranked.

    The last re-ranking reads the second LLM's answer. Each LLM's candidates are first re-ranked by
    its own answer and cut to 1000; with one LLM, this is the ranking. The statements are those of
    the first LLM in its order, then the new ones of the second. The first LLM writes the response
    from the top five passages. Three LLM calls and at most ``n`` queries per turn and LLM, and one
    call for the response.

    Algorithm 1, line 26, merges both first answers into the response. Appendix A8 has no answer in
    that prompt, nor have we. Lines 4 and 14 write the queries for the prompt that selects
    statements; section III.B and appendix A7 write them for the answer, and so do we. Section III.B
    has GPT-4o write the response. In ``gtr_claude`` Claude, its only LLM, writes it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.gtr(gpt, bm25, minilm, second_llm=claude)  # doctest: +SKIP
    """
    ranking = _of_one_llm(llm, retriever, reranker, n, depth)
    if second_llm is not None:
        second_ranking = _of_one_llm(second_llm, retriever, reranker, n, depth)
        # pools passages and chosen statements; ``qanswer`` is then that of the second LLM
        union_of_both = Union(ranking, second_ranking)
        final_reranking = RerankAgainst(reranker, "qanswer", num_results=1000)
        ranking = union_of_both >> final_reranking
    if not respond:
        return ranking
    final_response = Respond(llm, passages=5, words=200, statements="chosen")
    return ranking >> final_response
