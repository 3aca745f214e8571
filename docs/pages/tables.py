"""Tables of what the package knows: datasets, the keys of an LLM's specification, the columns of the turn frame."""

import re
from pathlib import Path

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import frame
from pyterrier_ikat.conversations.datasets import full_names
from pyterrier_ikat.llms.spec import OPTIONS

from .text import as_markdown, table


def dataset_table(_: str) -> str:
    """The datasets, what each offers, and the variants of its judgements."""
    rows = []
    for name in full_names():
        dataset = ikat.dataset(name)
        variants = ", ".join("the default" if variant is None else f"`{variant}`" for variant in dataset._qrels())
        rows.append((f"`{name}`", dataset.summary, variants))
    return table(["name", "content", "qrels"], rows)


def llm_option_table(_: str) -> str:
    """Every key of a specification, its values, and which providers take it."""
    takers: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for provider, options in OPTIONS.items():
        for key, kind in options.items():
            takers.setdefault(key, []).append(f"`{provider}`")
            kinds[key] = kind.words
    return table(["key", "value", "taken by"], [(f"`{key}`", kinds[key], ", ".join(providers)) for key, providers in takers.items()])


def turn_frame_table(_: str) -> str:
    """The columns of a turn frame, as the docstring of its module lists them between two lines of ``=``."""
    listed = re.split(r"^=+ +=+$", frame.__doc__ or "", flags=re.MULTILINE)[1]
    rows = [re.split(r"  +", line, maxsplit=1) for line in listed.strip().splitlines()]
    return table(["columns", "content"], [[as_markdown(cell) for cell in row] for row in rows])


def main_result(_: str) -> str:
    """The start of the page on evidence: some rows and columns of its table of systems."""
    page = Path(__file__).parents[1].joinpath("evidence.md").read_text(encoding="utf-8")
    [made] = re.findall(r"<!-- generated: evidence-systems -->\n(.*?)\n\n", page, re.DOTALL)
    head, _, *rows = [line.strip("| ").split(" | ") for line in made.splitlines()]
    shown = (
        "raw utterance",
        "manual rewrite (a person's)",
        "rewrite",
        "answer",
        "rewrite and answer, one query",
        "10 samples, lists fused",
    )
    columns = [head.index(name) for name in ("what is searched for", "LLM calls", "BM25", "MiniLM", "weighted sum of both")]
    names = ["what is searched for", "LLM calls", "BM25", "dense", "both"]
    found = {row[0]: [re.sub(r"(\.\d+).*", r"\1", row[column]) for column in columns] for row in rows}
    [held_out] = re.findall(r"on all other conversations, conversation by conversation: (\.\d{3})", page)
    picked = ["whichever system is best on the other conversations", "1 to 10", "", "", held_out]
    return table(names, [*(found[name] for name in shown), picked])
