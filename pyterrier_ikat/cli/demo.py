"""The demo: systems on the bundled sample, the winner, and why it wins."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..tables import format_score, wrapped
from .main import main
from .options import dataset_named
from .run import print_results

if TYPE_CHECKING:
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
ABOUT_THE_DEMO = (
    "The bundled sample has 4 conversations, 24 turns and 230 passages. It was written for this package, with recorded completions (model "
    "`recorded`, no live LLM). It shows how the systems work; its scores do not show that one is better than another. MiniLM stands in for "
    "every re-ranker, BM25 for SPLADE, recorded rewrites for T5."
)
REPORTED = 10
"""How many passages of each run and turn the report of the demo has."""


@main.command(section="Run", example="ikat demo\nikat report demo-out/raw demo-out/gtr --out two.html")
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index, the runs and the report")
def demo(out: str) -> None:
    """Compare systems on the bundled sample, offline, with recorded completions.

    At the end, the command says what each system does and why the best one wins. It also writes a report: one HTML file that shows each
    conversation with the queries and passages of every system.
    """
    from ..papers.paper_resources import OF_THE_SAMPLE
    from ..retrieve import PassageIndex
    from ..study import run
    from ..study.in_folders import check_places

    folder, names, dataset = Path(out), list(WHAT_THEY_DO), dataset_named("ikat:sample")
    check_places(names, folder)
    click.echo(f"{wrapped(ABOUT_THE_DEMO)}\n")
    index = PassageIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False))
    results = run(names, dataset, out=folder, baseline="human_qr", index=index, **OF_THE_SAMPLE)
    print_results(results)
    click.echo("\n" + "\n".join(_why(dict(zip(results.table["name"], results.table[MEASURE], strict=True)), results.folders)))
    report = results.report(dataset=dataset, passages=REPORTED).save(folder / "report.html")
    click.echo(f"\nReport, to open in a browser: {Path(report).resolve().as_uri()}")


def _why(scores: Mapping[str, float], folders: "Mapping[str, RunFolder]") -> Iterator[str]:
    """What each system does, which one won and how, and a turn that shows this."""
    yield from ("What the systems do:", "")
    longest = max(map(len, scores))
    for name in scores:
        yield wrapped(f"{name.ljust(longest)}  {WHAT_THEY_DO[name]}", "  ", " " * (longest + 2))
    best = max(scores, key=lambda name: scores[name])
    yield from ("", wrapped(f"{best} has the highest {MEASURE} ({format_score(scores[best])}): it {WHAT_THEY_DO[best]}."))
    yield from _turn({name: folders[name].measures()[MEASURE][TURN] for name in dict.fromkeys((*STEPS, best))}, folders)


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
