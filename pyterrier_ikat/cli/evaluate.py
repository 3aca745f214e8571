"""Commands that evaluate runs, judge passages, and write and check submissions."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import DataError, UsageError
from .main import JUDGED_TURNS, MEASURES, QRELS, RUNS, TEXTS, TURNS, dataset_named, main, quiet, text_loader_of

if TYPE_CHECKING:
    import pandas as pd


@main.command()
@RUNS
@click.option("--dataset", "dataset_name", help="evaluate against this dataset's qrels")
@QRELS
@TURNS
@MEASURES
@click.option("--baseline", help="the run that the others are compared with")
@click.option("--pairwise", is_flag=True, help="test each pair of runs, and show by letters which ones differ")
@click.option(
    "--samples", is_flag=True, help="NAME, NAME.sample-2, ... are samples of one system: show their mean, deviation and shares of variance"
)
@click.option("--format", "form", type=click.Choice(["text", "latex", "markdown", "csv"]), default="text", show_default=True)
@quiet
def evaluate(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    measures: str | None,
    baseline: str | None,
    pairwise: bool,
    samples: bool,
    form: str,
) -> None:
    """Evaluate RUNs: folders made by `ikat run`, TREC run files, or submissions."""
    from ..evaluation.evaluator import Evaluator, check_baseline, experiment_rows, text_table, turn_scores
    from ..evaluation.measures import TRACK_2023, as_measures
    from ..evaluation.samples import averaged, sampled_rows, sampled_table
    from ..store.trec import name_runs

    wanted = list(TRACK_2023) if measures is None else as_measures(measures)
    if dataset_name is None and qrels is None:
        raise UsageError("nothing to evaluate against: give --dataset NAME or --qrels FILE")
    judged = _judged(dataset_name, qrels, turns)
    named = name_runs(paths)
    groups = _groups(named, samples)
    rankings = {name: _ranking(path) for name, path in named.items()}
    shares = any(judged[qid].keys() & ranking[qid] for ranking in rankings.values() for qid in judged.keys() & ranking)
    if dataset_name is not None and not shares:
        from ..running.comparison import refuse_statements

        refuse_statements(dataset_name, qrels)
    if not judged:
        raise UsageError(f"{dataset_name} has no judgements: give --qrels FILE in the place of --dataset")
    check_baseline(groups, baseline)
    if pairwise and (baseline is not None or form != "text"):
        raise UsageError("--pairwise compares all runs with each other, as text: leave out --baseline and --format")
    scores = turn_scores(rankings.items(), Evaluator(judged, wanted))
    of_systems = {system: [scores[name] for name in names] for system, names in groups.items()}
    if pairwise:
        from ..evaluation.pairwise import pairwise_table

        click.echo(pairwise_table({system: averaged(found) for system, found in of_systems.items()}))
        if samples:
            click.echo("Before the tests each turn's scores are averaged over the samples.")
        return
    rows = sampled_rows(of_systems, wanted, baseline) if samples else experiment_rows(scores, wanted, baseline)
    if form == "text":
        click.echo(sampled_table(rows, baseline) if samples else text_table(rows, baseline))
    else:
        import pandas as pd

        from ..show import table

        click.echo(getattr(table(pd.DataFrame(rows)), form)(), nl=False)
    for name, ranking in rankings.items():
        lost = sorted(judged.keys() - ranking)
        if lost:
            click.echo(f"{name} lacks {len(lost)} judged turns: {', '.join(lost[:10])}{' ...' * (len(lost) > 10)}", err=form != "text")


def _groups(named: Mapping[str, Path], samples: bool) -> dict[str, list[str]]:
    """The runs of each system; without --samples each is a system."""
    if not samples:
        return {name: [name] for name in named}
    from ..runs.samples import check_samples, grouped

    groups = grouped(named)
    for names in groups.values():
        check_samples(named, names)
    return groups


def _judged(dataset_name: str | None, qrels: str | None, turns: str | None) -> dict[str, dict[str, int]]:
    """The judgements by turn."""
    from ..evaluation.evaluator import judgements_by_turn

    if dataset_name is None and turns is None:  # without a frame, see below
        from ..store.trec import read_judgements

        return judgements_by_turn(read_judgements(str(qrels)))
    return judgements_by_turn(judged_by(dataset_name, qrels, turns).itertuples(index=False, name=None))


def judged_by(dataset_name: str | None, qrels: str | None, turns: str | None = None) -> "pd.DataFrame":
    """The judgements that ``--dataset``, ``--qrels`` and ``--turns`` name.

    Raises:
        UsageError: when neither a dataset nor qrels are named, or a turn isn't judged.
    """
    from ..conversations import check_qrels, read_qrels
    from ..conversations.choice import find_qrels, of_turns

    if dataset_name is None:
        if qrels is None:
            raise UsageError("nothing to evaluate against: give --dataset NAME or --qrels FILE")
        return of_turns(read_qrels(qrels), turns, qrels)
    data = dataset_named(dataset_name)
    found, name = find_qrels(qrels, data), f"{data.name}'s qrels" + (f" {qrels}" if qrels else "")
    return of_turns(found if found.empty else check_qrels(found), turns, name)


def turns_of(dataset_name: str, qrels: str | None, turns: str | None) -> list[str] | None:
    """The turns that ``--qrels`` and ``--turns`` name; None without either.

    Raises:
        UsageError: when a turn isn't there, or isn't judged.
    """
    from ..conversations.choice import read_turns

    if qrels is not None:
        return list(judged_by(dataset_name, qrels, turns)["qid"].drop_duplicates())
    return None if turns is None else read_turns(turns, dataset_named(dataset_name).get_topics()["qid"], dataset_named(dataset_name).name)


def _unjudged_turns(dataset_name: str) -> set[str]:
    """The turns that the dataset's qrels don't judge (Generate then Retrieve, section 4); none where no qrels are at hand."""
    data = dataset_named(dataset_name)
    try:
        judged = set(data.get_qrels()["qid"])
    except DataError:
        return set()
    return set(data.get_topics()["qid"]) - judged if judged else set()


def _ranking(path: Path) -> Mapping[str, Mapping[str, float]]:
    """The scores of a run by turn; those of a run file are read without a frame, which takes longer to import than to fill."""
    from ..store.trec import is_run_file, read_rankings

    if is_run_file(path):
        return read_rankings(path)
    from ..runs.trec import scores_by_turn

    return scores_by_turn(_load_run(path))


def _load_run(path: Path) -> "pd.DataFrame":
    """The ranking of a run folder, a run file or a submission."""
    from ..runs import RunFolder, read_run
    from ..store.trec import is_run_file
    from ..submit.reading import read_ranking

    if path.is_dir():
        return RunFolder(path).results()
    return read_run(path) if is_run_file(path) else read_ranking(path)


def load_runs(paths: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """Runs by their names, that of the folder or the file."""
    from ..store.trec import name_runs

    return {name: _load_run(path) for name, path in name_runs(paths).items()}


@main.command("evaluate-ptkb")
@RUNS
@click.option("--dataset", "dataset_name", required=True)
@click.option("--qrels", default="ptkb", show_default=True, help="a TREC qrels file, or a variant; for 2023: ptkb_nist or ptkb_org")
@TURNS
@quiet
def evaluate_ptkb(paths: tuple[str, ...], dataset_name: str, qrels: str, turns: str | None) -> None:
    """Evaluate the PTKB statements chosen in RUNs: folders made by `ikat run`, or submissions."""
    from ..evaluation.ptkb import evaluate_ptkb as table
    from ..store.trec import name_runs
    from ..submit import read_submission

    dataset = dataset_named(dataset_name)
    systems = {name: read_submission(path, dataset).turns if path.is_file() else path for name, path in name_runs(paths).items()}
    figures = table(systems, judged_by(dataset_name, qrels, turns))
    click.echo(figures.to_string(index=False, float_format=lambda value: f"{value:.4f}"))


@main.command()
@click.argument("paths", nargs=-1, metavar="RUN...")
@click.option("--pairs", type=click.Path(), help="judge the pairs of this qrels file again, in place of RUNs")
@click.option("--style", type=click.Choice(["one-shot", "umbrela"]), default="one-shot", show_default=True)
@click.option("--dataset", "dataset_name", required=True)
@click.option("--llm", "llm_spec", required=True)
@TEXTS
@JUDGED_TURNS
@TURNS
@click.option("--depth", default=10, show_default=True, help="passages of each run and turn")
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
@quiet
def judge(
    paths: tuple[str, ...],
    pairs: str | None,
    style: str,
    dataset_name: str,
    llm_spec: str,
    index_path: str | None,
    qrels: str | None,
    turns: str | None,
    depth: int,
    out: str,
) -> None:
    """Judge the pooled top passages of RUNs, or given pairs, with an LLM; leaves a qrels file.

    Of RUNs only the turns that the dataset's qrels judge are taken, where it has qrels: --turns and --qrels name others.
    Beside it lies FILE.json, which says who judged: `ikat paper` reads it.
    """
    if Path(out).exists():
        raise UsageError(f"{out} is there already, and labels are paid for: choose another --out, or remove it")
    if bool(paths) == (pairs is not None):
        raise UsageError("give RUNs whose top passages are judged, or --pairs FILE with the pairs of a qrels file")
    from ..conversations import write_qrels
    from ..conversations.qrels import read_qrels, write_judge
    from ..evaluation import Judge, UmbrelaJudge, pool_runs, with_gold
    from ..llms import llm

    pooled = pool_runs(load_runs(paths), depth) if pairs is None else read_qrels(Path(pairs))[["qid", "docno"]]
    if (wanted := turns_of(dataset_name, qrels, turns)) is not None:
        pooled = pooled[pooled["qid"].isin(wanted)].reset_index(drop=True)
    elif pairs is None:
        pooled = pooled[~pooled["qid"].isin(_unjudged_turns(dataset_name))].reset_index(drop=True)
    if pooled.empty:
        raise UsageError("none of the turns to judge is in the runs: give --turns, or other RUNs")
    model = llm(llm_spec)
    made = UmbrelaJudge(model) if style == "umbrela" else Judge(model)
    judged = made.transform(with_gold(pooled, dataset_named(dataset_name), text_loader_of(index_path)))
    write_qrels(judged, out)
    write_judge(out, model.model, style)
    click.echo(f"{out}: {len(judged)} of {len(pooled)} passages judged, {len(pooled) - len(judged)} without a usable label")


@main.command()
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--threshold", default=2, show_default=True, help="the least label that counts as relevant")
@click.option("--run", "paths", multiple=True, metavar="RUN", help="several: how alike both order these runs (Kendall's tau)")
@quiet
def agree(first: str, second: str, threshold: int, paths: tuple[str, ...]) -> None:
    """Compare two qrels files: confusion matrix, agreement, Cohen's kappa."""
    from ..conversations.qrels import read_qrels
    from ..evaluation import agreement

    runs = load_runs(paths) if paths else None
    click.echo(str(agreement(read_qrels(Path(first)), read_qrels(Path(second)), threshold, runs=runs)))


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@click.option("--run-id", required=True, help="the run's name, without white space")
@click.option("--run-type", required=True, help="automatic or manual; 2024 also only_response; 2025 generation-only")
@click.option("--team", help="the team's id, 2025 only")
@click.option("--out", required=True, type=click.Path(), help="the file to write")
@quiet
def submit(folder: str, dataset_name: str, run_id: str, run_type: str, team: str | None, out: str) -> None:
    """Write the submission of RUN, a folder made by `ikat run`; nothing is written that `ikat validate` refuses."""
    from ..runs import RunFolder
    from ..submit import write_submission
    from ..submit.problem import format_problems

    problems = write_submission(RunFolder(folder), dataset_named(dataset_name), out, run_id=run_id, run_type=run_type, team=team)
    for line in format_problems(problems):
        click.echo(line, err=True)
    click.echo(out)


@main.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@quiet
def validate(path: str, dataset_name: str) -> None:
    """Check a submission, ours or not; exit code 1 when it has errors."""
    from ..submit import validate as check
    from ..submit.problem import format_problems, select_errors

    problems = check(path, dataset_named(dataset_name))
    lines, wrong = format_problems(problems), len(select_errors(problems))
    for line in lines:
        click.echo(line)
    click.echo(f"{path}: {wrong} errors, {len(lines) - wrong} warnings")
    if wrong:
        sys.exit(1)
