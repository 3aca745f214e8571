"""Commands that look behind a mean: by depth, conversation or cost, and by the judgements of responses and actions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..tables import Table, of_frame
from .evaluate import judged_by, load_runs, turns_of
from .main import DATASET, FORMAT, JUDGED_TURNS, QRELS, RUNS, TURNS, dataset_named, main, quiet
from .output import show

if TYPE_CHECKING:
    import pandas as pd

MEASURE = click.option("--measure", default="nDCG@5", show_default=True, help="an ir_measures name")
PLOT = click.option("--plot", type=click.Path(), help="also draw it into this .png, .svg or .pdf file")

JUDGES = ("rouge-l", "groundedness", "completeness", "relevance", "naturalness", "preference", "nuggets")


@main.command(section="Inspect", example="ikat breakdown runs/* --dataset ikat:2023-mini --by depth --plot depth.png")
@RUNS
@DATASET
@QRELS
@TURNS
@MEASURE
@click.option("--by", type=click.Choice(["depth", "conversation"]), default="depth", show_default=True, help="how turns are grouped")
@PLOT
@FORMAT
@quiet
def breakdown(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    measure: str,
    by: str,
    plot: str | None,
    form: str,
) -> None:
    """Show the mean score of RUNs by depth of the turn or by conversation.

    Each mean stands beside the number of its turns.
    """
    from ..evaluation import breakdown as break_down

    topics = None if dataset_name is None else dataset_named(dataset_name).get_topics()
    table = break_down(load_runs(paths), judged_by(dataset_name, qrels, turns, paths), measure, by, topics=topics)
    if plot is not None:
        from ..show.plots import plot_breakdown, save_plot

        save_plot(plot_breakdown(table), plot)
    show(of_frame(table), form)


@main.command(
    "tradeoff",
    section="Inspect",
    example="ikat tradeoff runs/* --dataset ikat:2023-mini --depths 10,50,100 \\\n    --plot tradeoff.png",
)
@RUNS
@DATASET
@QRELS
@TURNS
@MEASURE
@click.option("--depths", help="passages of each query, separated by commas; by default 10,20,50,... and the run's own depth")
@click.option("--queries", help="numbers of queries, separated by commas: the first ones, which differs from asking for as many")
@click.option("--against", default="pairs", show_default=True, help="the horizontal axis of the plot: pairs, calls, tokens or cost")
@PLOT
@click.option("--file", "source", type=click.Path(), help="the Python file with the runs' methods, when they are your own")
@FORMAT
@quiet
def tradeoff_command(
    paths: tuple[str, ...], dataset_name: str | None, qrels: str | None, turns: str | None, form: str, **given: Any
) -> None:
    """Show scores and cost of RUNs at smaller depths and with fewer queries.

    A RUN is a folder made by `ikat run`. Nothing is retrieved, re-ranked or asked again: the ranking at a smaller depth is exactly that of
    a run made at that depth. The table marks the cheapest point that is not significantly worse than the best.
    """
    from ..methods import find_all
    from ..show.plots import save_plot
    from ..show.tradeoff import check_amount, plot_tradeoff, tradeoff, tradeoff_table

    check_amount(given["against"])
    judged = judged_by(dataset_name, qrels, turns, paths)
    depths, queries = (_numbers(f"--{name}", given[name]) for name in ("depths", "queries"))
    methods = {} if given["source"] is None else {entry.name: entry for entry in find_all(given["source"])}
    table = tradeoff(paths, judged, given["measure"], depths=depths, queries=queries or (), methods=methods)
    if given["plot"] is not None:
        save_plot(plot_tradeoff(table, given["against"]), given["plot"])
    show(tradeoff_table(table, judged["qid"].nunique()), form)


def _numbers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise UsageError(f"{name} {text!r}: give whole numbers separated by commas, such as 10,20,50")
    return [int(part) for part in text.split(",")]


@main.command(
    "evaluate-responses",
    section="Evaluate",
    example="ikat evaluate-responses runs/* --dataset ikat:2024 --judge rouge-l \\\n    --judge completeness --llm openai:gpt-4o",
)
@RUNS
@click.option("--dataset", "dataset_name", required=True, help="the dataset with the gold answers, such as ikat:2024")
@click.option(
    "--judge",
    "names",
    multiple=True,
    type=click.Choice(JUDGES),
    metavar="JUDGE",
    help=f"may be repeated; one of {', '.join(JUDGES)}; by default rouge-l, all others need --llm",
)
@click.option("--llm", "spec", help="the model that judges")
@click.option("--bem", help="folder of a classifier of answer equivalence")
@click.option("--index", "index_path", help="the passage index with the texts, for groundedness")
@JUDGED_TURNS
@TURNS
@FORMAT
@quiet
def evaluate_responses(
    paths: tuple[str, ...], dataset_name: str, form: str, index_path: str | None, qrels: str | None, turns: str | None, **given: Any
) -> None:
    """Judge the responses in RUNs and show the mean of each judge.

    A RUN is a folder made by `ikat run`.
    """
    import pandas as pd

    from ..evaluation.responses import evaluate_responses as judge_all
    from ..evaluation.responses import response_means, response_turns
    from ..papers.responses import answers_of
    from ..retrieve import Index
    from ..runs import RunFolder

    judges = _judges(**given)
    wanted = response_turns(dataset_named(dataset_name).conversations, turns_of(dataset_name, qrels, turns))
    texts = None if index_path is None else Index(index_path).text_loader()
    tables = []
    for path in map(Path, paths):
        answers = answers_of(RunFolder(path), texts)
        if answers is None:
            raise UsageError(f"{path} has no responses: its system writes none")
        tables.append(response_means(judge_all(wanted, answers, judges)).assign(run=path.name))
    table = pd.concat(tables)
    table = table[["run", *(name for name in table.columns if name != "run")]]
    show(of_frame(table), form)


@main.command("evaluate-actions", section="Evaluate", example="ikat evaluate-actions runs/* --dataset mtrag:mini")
@RUNS
@click.option("--dataset", "dataset_name", required=True, help="the dataset whose labels say which turns have an answer, as mtrag:mini")
@TURNS
@FORMAT
@quiet
def evaluate_actions(paths: tuple[str, ...], dataset_name: str, turns: str | None, form: str) -> None:
    """Evaluate whether RUNs abstain and ask back where they should.

    A RUN is a folder made by `ikat run`. The first table has precision, recall and F1 with 95 % intervals. A table for each run follows:
    how often it took each action for turns of each label; csv has the first table alone.
    """
    from ..evaluation.actions import count_actions
    from ..evaluation.actions import evaluate_actions as evaluated
    from ..store.trec import name_runs

    answers = dataset_named(dataset_name).get_answers()
    if (wanted := turns_of(dataset_name, None, turns)) is not None:
        answers = answers[answers["qid"].isin(wanted)]
    named = name_runs(paths)
    show(_with_intervals(evaluated(named, answers)), form)
    for name, path in named.items() if form != "csv" else ():
        click.echo()
        show(of_frame(count_actions(path, answers, name=name), title=name), form)


def _with_intervals(scores: "pd.DataFrame") -> Table:
    from ..evaluation.actions import MEASURES

    shown = scores.copy()
    for measure in MEASURES:
        triples = zip(shown.pop(measure), shown.pop(f"{measure}_low"), shown.pop(f"{measure}_high"), strict=True)
        shown[measure] = [f"{value:.3f} [{low:.3f}, {high:.3f}]" if value == value else "" for value, low, high in triples]
    return Table(scores, of_frame(shown).columns, ["In brackets: intervals of 95 %."])


def _judges(names: tuple[str, ...], spec: str | None, bem: str | None) -> list[Any]:
    from ..evaluation import response_judges as judges
    from ..evaluation.answer_equivalence import AnswerEquivalence
    from ..evaluation.responses import RougeL
    from ..llms import llm

    asking = [name for name in names if name != "rouge-l"]
    if asking and spec is None:
        raise UsageError(f"--judge {asking[0]} needs a language model: give --llm")
    model = None if spec is None else llm(spec)
    known = {name.casefold(): getattr(judges, name) for name in ("Groundedness", "Completeness", "Relevance", "Naturalness", "Preference")}
    known["nuggets"] = judges.NuggetRecall
    found: list[Any] = [RougeL()] if "rouge-l" in names or not (names or bem) else []
    return found + [known[name](model) for name in asking] + ([AnswerEquivalence(bem)] if bem else [])
