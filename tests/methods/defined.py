"""Methods of a made-up function, and what stands for their resources."""

import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import Method, methods_of
from pyterrier_ikat.methods.definition import StandIn


class Finds(pt.Transformer):
    """Finds nothing, with a cutoff that it tells."""

    def __init__(self, depth=None):
        super().__init__()
        self.depth = depth

    def transform(self, inp):
        return inp


@ikat.method("plain", paper="ours", models={"llm": "openai:gpt-4", "retriever": "BM25"})
@ikat.method("deep", settings={"depth": 5, "llm": "second_llm"})
def system(
    llm,
    retriever,
    reranker=None,
    second_llm=None,
    *,
    n=3,
    share=0.5,
    question="qutterance",
    careful=False,
    anything=None,
    maximum: int | None = None,
    depth=1000,
):
    """Answer, then search.

    A second paragraph.

    Args:
        llm: the model.
    """
    stages = ikat.Answer(llm) >> retriever % depth
    return stages if reranker is None else stages >> reranker


PLAIN, DEEP = methods_of(system)


LLM = StandIn("llm")
RETRIEVER = StandIn("retriever")


def of_queries(llm, retriever, *, queries="", question="qutterance", depth=9):
    """Search for queries.

    Raises:
        UsageError: never.
    """
    return RETRIEVER if queries else ikat.Answer(llm, question=question) >> retriever % depth


REPLACED = Method("mine", of_queries, instead={"queries": "llm"})
