"""Commands that look behind a mean: by depth or conversation, and by what judges say of responses."""

from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from .evaluate import judged_by, load_runs, turns_of
from .main import JUDGED_TURNS, QRELS, TURNS, dataset_named, main, quiet

JUDGES = ("rouge-l", "groundedness", "completeness", "relevance", "naturalness", "preference", "nuggets")


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", help="evaluate against this dataset's qrels")
@QRELS
@TURNS
@click.option("--measure", default="nDCG@5", show_default=True)
@click.option("--by", type=click.Choice(["depth", "conversation"]), default="depth", show_default=True)
@click.option("--plot", type=click.Path(), help="also draw it into this .png, .svg or .pdf")
@click.option("--format", "form", type=click.Choice(["text", "csv"]), default="text", show_default=True)
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
    """Show the mean of RUNs by depth of the turn, or by conversation, with the number of turns behind each.

    Example: ikat breakdown runs/* --dataset ikat:2023 --by depth --plot depth.png
    """
    from ..evaluation import breakdown as break_down

    topics = None if dataset_name is None else dataset_named(dataset_name).get_topics()
    table = break_down(load_runs(paths), judged_by(dataset_name, qrels, turns), measure, by, topics=topics)
    if plot is not None:
        from ..show.plots import plot_breakdown, save_plot

        save_plot(plot_breakdown(table), plot)
    click.echo(
        table.to_csv(index=False) if form == "csv" else table.to_string(index=False, float_format="{:.4f}".format), nl=form == "text"
    )


@main.command("tradeoff")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", help="evaluate against this dataset's qrels")
@QRELS
@TURNS
@click.option("--measure", default="nDCG@5", show_default=True)
@click.option("--depths", help="passages of each query, with commas; by default 10,20,50,... and the run's own depth")
@click.option("--queries", help="numbers of queries, with commas, beside all: the first ones, which is not the same as asking for as many")
@click.option("--against", default="pairs", show_default=True, help="what the plot is drawn against: pairs, calls, tokens or cost")
@click.option("--plot", type=click.Path(), help="also draw it into this .png, .svg or .pdf")
@click.option("--file", "source", type=click.Path(), help="the Python file that has the runs' methods, where the catalogue hasn't")
@click.option("--format", "form", type=click.Choice(["text", "csv"]), default="text", show_default=True)
@quiet
def tradeoff_command(
    paths: tuple[str, ...], dataset_name: str | None, qrels: str | None, turns: str | None, form: str, **given: Any
) -> None:
    """Show how good RUNs would be at smaller depths and with fewer queries, and what that would cost.

    RUNs are folders made by `ikat run`; nothing is retrieved, re-ranked or asked again. A smaller depth is exactly the run that is made at
    that depth. Marked is the cheapest point that is not significantly worse than the best.

    Example: ikat tradeoff runs/* --dataset ikat:2023 --depths 10,50,100 --plot tradeoff.png
    """
    from ..methods import find_all
    from ..show.plots import save_plot
    from ..show.tradeoff import check_amount, format_tradeoff, plot_tradeoff, tradeoff

    check_amount(given["against"])
    judged = judged_by(dataset_name, qrels, turns)
    depths, queries = (_numbers(f"--{name}", given[name]) for name in ("depths", "queries"))
    methods = {} if given["source"] is None else {entry.name: entry for entry in find_all(given["source"])}
    table = tradeoff(paths, judged, given["measure"], depths=depths, queries=queries or (), methods=methods)
    if given["plot"] is not None:
        save_plot(plot_tradeoff(table, given["against"]), given["plot"])
    shown = table.to_csv(index=False) if form == "csv" else format_tradeoff(table, judged["qid"].nunique())
    click.echo(shown, nl=form == "text")


def _numbers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise UsageError(f"{name} {text!r}: give whole numbers with commas between them, such as 10,20,50")
    return [int(part) for part in text.split(",")]


@main.command("evaluate-responses")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True, help="whose gold answers count, such as ikat:2024")
@click.option("--judge", "names", multiple=True, type=click.Choice(JUDGES), help="several; rouge-l alone by default, the others ask --llm")
@click.option("--llm", "spec", help="the model that judges")
@click.option("--bem", help="folder of a classifier of answer equivalence")
@click.option("--index", "index_path", help="the passage index that has the texts, for groundedness")
@JUDGED_TURNS
@TURNS
@click.option("--format", "form", type=click.Choice(["text", "csv"]), default="text", show_default=True)
@quiet
def evaluate_responses(
    paths: tuple[str, ...], dataset_name: str, form: str, index_path: str | None, qrels: str | None, turns: str | None, **given: Any
) -> None:
    """Judge the responses in RUNs, folders made by `ikat run`, and show each judge's mean.

    Example: ikat evaluate-responses runs/* --dataset ikat:2024 --judge rouge-l --judge completeness --llm openai:gpt-4o
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
    click.echo(
        table.to_csv(index=False) if form == "csv" else table.to_string(index=False, float_format="{:.4f}".format), nl=form == "text"
    )


@main.command("evaluate-actions")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True, help="says which turns have an answer, as mtrag:mini does")
@TURNS
@quiet
def evaluate_actions(paths: tuple[str, ...], dataset_name: str, turns: str | None) -> None:
    """Evaluate whether RUNs, folders made by `ikat run`, abstain and ask back where a dataset's labels say so.

    Precision, recall and F1 with intervals of 95 %, and how often each run took each action for turns of each label.
    """
    from ..evaluation.actions import MEASURES, count_actions
    from ..evaluation.actions import evaluate_actions as table
    from ..store.trec import name_runs

    answers = dataset_named(dataset_name).get_answers()
    if (wanted := turns_of(dataset_name, None, turns)) is not None:
        answers = answers[answers["qid"].isin(wanted)]
    named = name_runs(paths)
    scores = table(named, answers)
    for measure in MEASURES:
        triples = zip(scores.pop(measure), scores.pop(f"{measure}_low"), scores.pop(f"{measure}_high"), strict=True)
        scores[measure] = [f"{value:.3f} [{low:.3f}, {high:.3f}]" if value == value else "" for value, low, high in triples]
    click.echo(scores.to_string(index=False))
    for name, path in named.items():
        click.echo(f"\n{name}\n{count_actions(path, answers, name=name).to_string(index=False)}")


def _judges(names: tuple[str, ...], spec: str | None, bem: str | None) -> list[Any]:
    from ..evaluation import response_judges as judges
    from ..evaluation.answer_equivalence import AnswerEquivalence
    from ..evaluation.responses import RougeL
    from ..llms import llm

    asking = [name for name in names if name != "rouge-l"]
    if asking and spec is None:
        raise UsageError(f"--judge {asking[0]} asks a model: give --llm")
    model = None if spec is None else llm(spec)
    known = {name.casefold(): getattr(judges, name) for name in ("Groundedness", "Completeness", "Relevance", "Naturalness", "Preference")}
    known["nuggets"] = judges.NuggetRecall
    found: list[Any] = [RougeL()] if "rouge-l" in names or not (names or bem) else []
    return found + [known[name](model) for name in asking] + ([AnswerEquivalence(bem)] if bem else [])
