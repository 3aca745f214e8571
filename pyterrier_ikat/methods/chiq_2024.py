"""CHIQ: enhance the history, then rewrite.

Mo, Ghaddar, Mao, Rezagholizadeh, Chen, Liu and Nie, CHIQ (EMNLP 2024, arXiv 2406.05013). Of its
three systems, this is CHIQ-AD, the zero-shot ad-hoc rewrite. CHIQ-FT trains a T5 with the passages
of QReCC or TopiOCQA, and CHIQ-Fusion sums the scores of both. No trained model is public. The paper
reports scores on TopiOCQA, QReCC and CAsT, and none on TREC iKAT.
"""

from ..generate import Aggregate, Answer, Enhance, Rewrite
from ..llms import LLM
from .definition import Stage, method
from .generate_then_retrieve import retrieve

PAPER = "Mo et al., CHIQ"


def enhanced(llm: LLM, *, summarise: bool = True, words: int = 30) -> Stage:
    """The five enhancements of the history (section 3.2), each after those that it reads.

    They are the history without an old topic, the clarified question, the expanded last response, a
    guess at the answer of at most ``words`` words, and, with ``summarise``, the summary of the
    history. The authors' code (``generation/enhancement_generation.py`` of fengranMark/CHIQ at
    4fa68a5) asks for one sentence of fewer than 20 words as the expanded response, and for one
    sentence as the guess; ours asks for one sentence as the expanded response, without a number of
    words.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> [type(stage).__name__ for stage in enhanced(ikat.llm("recorded:sample"))]
        ['Enhance', 'Rewrite', 'Enhance', 'Answer', 'Enhance']
    """
    topic_switch = Enhance(llm, "topic")
    question_disambiguation = Rewrite(llm, "short")
    response_expansion = Enhance(llm, "response")
    pseudo_response = Answer(llm, words=words, question="qrewrite")
    history_summary = Enhance(llm, "summary")
    history = topic_switch >> question_disambiguation >> response_expansion >> pseudo_response
    return history >> history_summary if summarise else history


@method(
    paper=PAPER, models={"llm": "Llama-2-7b-chat temperature=0.7", "retriever": "BM25 and ANCE"}
)
def chiq_ad(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    summarise: bool = True,
    append: bool = False,
    words: int = 30,
    depth: int = 1000,
) -> Stage:
    """CHIQ-AD: five enhancements of the history, then the rewrite (section 3).

    The enhancements are topic switch, question disambiguation, response expansion, pseudo response
    and history summary. Six LLM calls and one query per turn; three in a conversation's first turn,
    which has no history. The paper has no personas. Our prompts for the guess and the rewrite show
    the persona, and the others don't. Chang et al., CFDA & CLIP at TREC iKAT 2025, changed more
    than that: see :func:`~pyterrier_ikat.methods.cfda_2025.personal_chiq`. In the authors' code,
    the guess comes from the raw history and question; here it comes from the enhanced ones. The
    wording of the prompts is ours, and theirs ask for the rewrite as JSON.

    - ``summarise``: whether the rewrite sees the summary instead of the history.
    - ``append``: whether the guessed answer is appended to the rewrite. According to the file names
      in the authors' code (``search_query+single_response``) it is; according to the paper's text,
      the query is only the rewrite.
    - ``words``: how long the guess may be; the authors ask for one sentence.
    - ``reranker``: reads the query. The paper has none.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.chiq_ad(llm, ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    history = enhanced(llm, summarise=summarise, words=words)
    query = history >> Rewrite(llm, "enhanced", question="qrewrite")
    if append:
        query = query >> Aggregate(also="qanswer")
    return query >> retrieve(retriever, reranker, depth)
