"""Each method function with other arguments than its defaults, and without optional resources.

The sheet of test_method_sheet.py has the defaults. ``python tests/methods/test_method_variants.py``
writes this one anew.
"""

from difflib import unified_diff
from pathlib import Path

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import find
from pyterrier_ikat.methods.definition import RESOURCES, StandIn

VARIANTS = Path(__file__).with_name("method_variants.txt")
SECOND = {"second_llm": "second_llm"}
ANSWERED = {"style": "llama", "question": "qresolved", "depth": 7}
ARGUMENTS = [
    ("raw", {"depth": 7}),
    ("all_utterances", {"depth": 7}),
    ("hqe", {"words": 3, "depth": 7}),
    ("monot5", {"depth": 7, "respond": True}),
    ("convgqr", {"depth": 7, "respond": True}),
    ("infosense_2023", {"depth": 7}),
    ("organizers_2023_auto", {"rm3": False, "depth": 7}),
    ("organizers_2023_manual", {"rm3": False, "depth": 7}),
    ("baseline_auto_gpt4_bm25_minilm", {"respond": False, "depth": 7}),
    ("decide", {"depth": 7, "passages": 3}),
    ("generation_only", {"depth": 7, "passages": 3, "words": 90}),
    ("ad", ANSWERED),
    ("qd", {**ANSWERED, "n": 3}),
    ("aqd", {**ANSWERED, "n": 3}),
    ("aqd", {**ANSWERED, "n": 3, **SECOND}),
    ("aqd_a", {**ANSWERED, "n": 3}),
    ("aqd_a", {**ANSWERED, "n": 3, **SECOND}),
    ("qr", {"style": "llama", "depth": 7}),
    ("human_qr", {"depth": 7}),
    ("llama10", {"depth": 7, "judged": 3}),
    ("wghtdrerank_1", {"statements": 2, "depth": 7, "respond": False}),
    ("short_long_2", {"depth": 7, "respond": False}),
    ("short_long_2", {"think": True, "depth": 7}),
    ("rtg", {"depth": 7, "respond": False}),
    ("rtg", {"manual": True, "depth": 7}),
    ("gtr", {"n": 3, "depth": 7, "respond": False}),
    ("gtr_gpt", {"n": 3, "depth": 7, "respond": False}),
    ("mq4cs_qr_deberta", {"n": 3, "depth": 7, "respond": False}),
    ("mq4cs_qr_deberta", {"pool": "union", "depth": 7}),
    ("mq4cs_qr_deberta", {"pool": "rrf", "depth": 7}),
    ("gpt4qr_deberta", {"depth": 7, "respond": False}),
    ("gpt4qr_bm25_qd1", {"depth": 7, "respond": False}),
    ("humanqr_deberta", {"depth": 7, "respond": False}),
    ("mq4cs", {"n": 3, "depth": 7}),
    ("mq4cs_ans", {"n": 3, "words": 90, "depth": 7}),
    ("rali_fusion3", {"weights": (1, 2, 3), "normalise": "min-max", "depth": 7}),
    ("rali_fusion3", {"rerank_depth": 4, "depth": 7, "respond": False}),
    ("apcir", {"weights": {"a": (1, 2, 3)}, "think": False, "depth": 7, "rerank_depth": 4}),
    ("llm4cs", {"form": "rewrite", "n": 3, "think": False, "depth": 7}),
    ("llm4cs", {"think": False}),
    ("llm4cs", {"form": "rewrite_then_answer", "n": 3, "depth": 7}),
    ("llm4cs", {"aggregate": "maxprob", "depth": 7}),
    ("llm4cs", {"aggregate": "self_consistency", "depth": 7}),
    ("llm4cs", {"aggregate": "fusion", "n": 3, "depth": 7}),
    ("llm4cs", {"encoder": StandIn("encoder")}),
    ("chiq_ad", {"summarise": False, "append": True, "words": 9, "depth": 7}),
    ("best_of_n", {"n": 3, "passages": 4, "depth": 7}),
    ("cfda_best_of_n", {"n": 3, "passages": 4, "depth": 7, "rerank_depth": 5}),
    ("cfda_auto", {"n": 3, "passages": 4, "depth": 7, "rerank_depth": 5, "threshold": None}),
    ("cfda_generation_only", {"depth": 7, "threshold": 0.5}),
    ("disco", {"separator": " | ", "depth": 7}),
    ("baseline_2025_bm25", {"depth": 7}),
    ("baseline_2025_splade_minilm", {"depth": 7}),
    ("baseline_2025_human_bm25", {"depth": 7}),
    ("ptkb_all", {"form": "queries", "depth": 7}),
    ("ptkb_all", {"shown": "none", "depth": 7}),
    ("ptkb_human", {"form": "queries", "depth": 7}),
    ("ptkb_str", {"form": "queries", "shots": 3, "examples": "ikat:sample", "depth": 7}),
    ("ptkb_sar", {"shots": 3, "examples": "ikat:sample", "depth": 7}),
    ("ptkb_statement", {"statement": 2, "depth": 7}),
    ("memory_bm25", {"depth": 7}),
    ("memory_dense", {"depth": 7}),
    ("memory_facts", {"depth": 7}),
    ("memory_fused", {"depth": 7}),
    ("agreed_of_n", {"answer": False, "n": 3, "depth": 7}),
    ("spread_of_n", {"depth": 7, "rerank_depth": 4}),
    ("rewrite_answer_hybrid", {"n": 3, "share": 0.25, "depth": 7}),
    ("raguteam", {"depth": 7, "passages": 3, "words": 90}),
    ("uva_irlab_conv", {"depth": 7, "passages": 3}),
]
"""Method, and its arguments."""


def sheet():
    blocks = []
    for name, arguments in ARGUMENTS:
        entry = find(name).with_arguments(arguments)
        resources = {resource: StandIn(resource) for resource in RESOURCES}
        lines = [f"## {name} {arguments}", f"  {entry.build(**resources)!r}"]
        for optional in entry.takes:
            others = {key: value for key, value in resources.items() if key != optional}
            lines += [f"  without {optional}:", f"  {entry.build(**others)!r}"]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def test_each_argument_of_a_method_reaches_its_stages():
    found = sheet().splitlines()
    pinned = VARIANTS.read_text(encoding="utf-8").splitlines()
    changed = "\n".join(unified_diff(pinned, found, "pinned", "found", lineterm="", n=1))
    assert not changed, changed


def test_every_second_responder_says_only_what_passages_say():
    models = [StandIn(name) for name in "abc"]
    system = find("raguteam").build(
        llm=StandIn("judge"), retriever=StandIn("retriever"), responders=models
    )
    of_all = "passages=10, words=250"
    candidates = [
        f"ikat.Respond(a, {of_all})",
        f"ikat.Respond(b, {of_all}, form='passages_only')",
        f"ikat.Respond(c, {of_all})",
    ]
    assert repr(system[-1]) == f"ikat.BestResponse([{', '.join(candidates)}], judge, passages=10)"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("mq4cs_qr_deberta", {"pool": "all"}, "pool='all'.*interleave, union, rrf"),
        ("llm4cs", {"form": "answer"}, "form='answer'.*rewrite_then_answer"),
        ("llm4cs", {"aggregate": "sum"}, "aggregate='sum'.*maxprob.*fusion"),
        ("rewrite_answer_hybrid", {"n": 0}, "n=0"),
        ("rewrite_answer_hybrid", {"share": 1.1}, "share=1.1.*from 0 .* to 1"),
        ("rewrite_answer_hybrid", {"share": -0.1}, "share=-0.1.*from 0 .* to 1"),
    ],
)
def test_a_method_refuses_a_value_that_it_does_not_know(name, arguments, told):
    resources = {resource: StandIn(resource) for resource in RESOURCES}
    with pytest.raises(UsageError, match=told):
        find(name).with_arguments(arguments).build(**resources)


def test_all_bi_encoders_of_a_list_score():
    system = find("wghtdrerank_2").build(
        llm=StandIn("llm"),
        retriever=StandIn("retriever"),
        reranker=[StandIn("a"), StandIn("b")],
    )
    assert "MeanScore([a, b])" in repr(system)


@pytest.mark.parametrize("share", [0, 1])
def test_a_hybrid_may_be_words_or_vectors_alone(share):
    resources = {resource: StandIn(resource) for resource in RESOURCES}
    entry = find("rewrite_answer_hybrid").with_arguments({"share": share})
    assert f"weights=({1 - share}, {share})" in repr(entry.build(**resources))


if __name__ == "__main__":
    VARIANTS.write_text(sheet(), encoding="utf-8")
