"""What people type into the site's search, and the section that answers it: entries of the index, which the search shows first."""

import re
from pathlib import Path

SECTIONS = {
    "readme.md": {"Cite": "cite, citation, licence"},
    "get_started.md": {
        "Get started": "tutorial, first steps, quick start",
        "Install": "install, installation, pip, GPU, CPU",
        "Run real turns": "real data, TREC iKAT 2023",
    },
    "compare_systems.md": {
        "Compare systems": "compare systems, run a system, experiment",
        "What you can pass": "plan, estimate cost, subset of turns",
        "How scores are computed": "significance, significance test, t-test, Bonferroni, evaluate a run, scores, tied scores",
        "Read the conversations": "report, HTML report, error analysis, LaTeX table, plots, compare two runs",
        "Dense and hybrid first stages": "dense retrieval, hybrid retrieval, SPLADE, vectors, embedding models, retrievers, BM25",
        "Repeats of one system": "repeat a run, variance, non-determinism",
        "Several samples within one system": "sampling, best of n",
        "Quality against cost": "trade-off, latency, re-ranking depth",
        "Pay once": "cache of results",
        "When a run stops": "resume, resume a run, continue a run, restart a run, interrupted run, killed run",
    },
    "bring_your_own.md": {"Bring your own": "my own retriever, own retriever, my own re-ranker, own re-ranker, my own data, extend"},
    "own_system.md": {"Your own system": "my own system, own system, own method"},
    "own_operator.md": {"Your own operator": "my own operator, own operator, own transformer"},
    "own_model.md": {"Your own model": "my own model, own model, own LLM"},
    "own_collection.md": {
        "Your own collection": "my own collection, own collection, own dataset, custom dataset, own topics, own qrels, own passages"
    },
    "own_prompts.md": {"Your own prompts": "my own prompts, own prompts, change a prompt, prompt template, few-shot prompt"},
    "reproduce.md": {"Reproduce a paper": "reproduce a paper, reproduction, published scores, baselines"},
    "judge.md": {
        "Passages": "LLM judge, judge passages, relevance judgements, pooling, UMBRELA",
        "Compare two judges": "kappa, agreement of judges, Kendall's tau",
        "Responses": "evaluate responses, groundedness, response quality",
        "Nuggets": "nuggets, nugget evaluation",
        "Answer, ask back or abstain": "clarifying questions, abstain, unanswerable questions, confidence intervals",
    },
    "memory.md": {"Measure a memory": "LoCoMo, memory benchmark, measure a memory, long-term memory, agent memory"},
    "submit.md": {"Submit": "submit a run, submission, submission format, submission file, validate a run, TREC submission"},
    "live.md": {
        "Talk to systems, live": (
            "chat in the terminal, chat, Open WebUI, web page, browser, demo in a browser, OpenAI protocol, server, REST API, "
            "interactive task, interactive run, interactive submission, memory across sessions, user model, learn statements, "
            "simulate users, simulated users, user simulation, simulation"
        )
    },
    "live_reference.md": {"The protocol": "MCP, Model Context Protocol"},
    "language_models.md": {
        "Language models": (
            "API keys, local models, OpenAI, use Ollama, vLLM, llama.cpp, Hugging Face, GGUF, LLM, batch API cost, batch API, "
            "token budget, cost, how much does it cost, prices, ledger, cache, retries, timeout, time-out, refusals, "
            "reasoning models, server error"
        )
    },
    "language_models_reference.md": {"Answers as JSON": "structured output, JSON schema"},
    "scale.md": {
        "The full collection": "index large collection, index a large collection, ClueWeb22, full collection, index the collection",
        "Faster runs": "speed, speed up a run, faster",
        "Turns on a Ray cluster": "Ray, cluster, several machines, parallel",
    },
    "rerankers.md": {"Choose a re-ranker": "rerank, re-rank, rerankers, re-rankers, reranking, cross-encoders, monoT5"},
    "datasets.md": {"Datasets": "data, topics, qrels, TREC iKAT", "MTRAG": "MTRAG", "TREC CAsT": "CAsT"},
    "glossary.md": {"Glossary": "statements about the user, personal knowledge base, definitions"},
    "measures.md": {"Measures": "measures, metrics, nDCG, recall"},
}
"""For each page its headings, with what people type, separated by commas."""


def write_index(folder: Path) -> None:
    """Write the entries below their headings, on the pages of a folder.

    Raises:
        ValueError: when a page has no such heading.
    """
    for name, sections in SECTIONS.items():
        page = folder / name
        page.write_text(indexed(page.read_text(encoding="utf-8"), sections, name), encoding="utf-8")


def indexed(page: str, sections: dict[str, str], name: str) -> str:
    """The page with the entries of its headings.

    Raises:
        ValueError: when a heading is not there.
    """
    for heading, words in sections.items():
        line = re.search(rf"^#+ {re.escape(heading)}$", page, re.MULTILINE)
        if line is None:
            raise ValueError(f"docs/pages/search_words.py: {name} has no heading '{heading}'")
        entries = ", ".join(f"! {entry}" for entry in words.split(", "))
        page = f"{page[: line.end()]}\n\n```{{index}} {entries}\n```{page[line.end() :]}"
    return page
