"""Commands that evaluate runs, and write and check submissions."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, UsageError, list_first
from ..tables import wrapped
from .main import (
    BASELINE,
    DATASET,
    FORMAT,
    MEASURES,
    QRELS,
    RUNS,
    TURNS,
    dataset_named,
    main,
    quiet,
)
from .outcomes import JUDGES, OF, check_options, show_actions, show_responses, show_statements
from .output import show

if TYPE_CHECKING:
    import pandas as pd


@main.command(
    section="Evaluate",
    example="""\
ikat evaluate runs/* --dataset ikat:2023-mini --baseline raw \\
    --measures "nDCG@5,P(rel=1)@20"
ikat evaluate runs/rtg --of statements --dataset ikat:2023-mini \\
    --qrels ptkb_nist
ikat evaluate runs/* --of responses --dataset ikat:2024 \\
    --judge rouge-l --judge completeness --llm openai:gpt-4o
ikat evaluate runs/* --of actions --dataset mtrag:mini""",
)
@RUNS
@click.option("--of", type=click.Choice(OF), default="passages", show_default=True, help="what of the runs is evaluated")
@DATASET
@QRELS
@TURNS
@MEASURES
@BASELINE
@click.option("--pairwise", is_flag=True, help="test each pair of runs; letters show which ones differ")
@click.option(
    "--samples",
    is_flag=True,
    help="treat NAME, NAME.sample-2, ... as samples of one system: show their mean, deviation and shares of variance",
)
@click.option(
    "--judge",
    "judges",
    multiple=True,
    type=click.Choice(JUDGES),
    metavar="JUDGE",
    help=f"of responses, may be repeated: {', '.join(JUDGES)}; by default rouge-l, all others need --llm",
)
@click.option("--llm", help="the model that judges responses")
@click.option("--bem", help="folder of a classifier of answer equivalence, for responses")
@click.option("--index", help="the passage index with the texts, for groundedness of responses")
@FORMAT
@quiet
def evaluate(
    paths: tuple[str, ...],
    of: str,
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    measures: str | None,
    baseline: str | None,
    pairwise: bool,
    samples: bool,
    form: str,
    **judging: Any,
) -> None:
    """Evaluate RUNs: their passages, or with --of the statements that they chose, their responses or their actions.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission. Folders know their dataset. Scores are means over all judged
    turns; a turn without results counts 0. Turns of a run or of the judgements that match nothing are named. --of statements takes folders
    and submissions; responses and actions (whether a run abstains and asks back where it should) take folders.
    """
    options = {"qrels": qrels, "turns": turns, "measures": measures, "baseline": baseline, "pairwise": pairwise, "samples": samples}
    check_options(of, dataset=dataset_name, **options, **judging)
    if of == "statements" and dataset_name:
        show_statements(paths, dataset_name, judged_by(dataset_name, qrels or "ptkb", turns), form)
    elif of == "responses" and dataset_name:
        show_responses(paths, dataset_name, turns_of(dataset_name, qrels, turns), form, judging.pop("index"), **judging)
    elif of == "actions" and dataset_name:
        show_actions(paths, dataset_name, turns_of(dataset_name, None, turns), form)
    else:
        _evaluate_passages(paths, dataset_name, qrels, turns, measures, baseline, pairwise, samples, form)


def _evaluate_passages(
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
    from ..evaluation.evaluator import Evaluator, check_baseline, experiment_rows, turn_scores
    from ..evaluation.experiment_table import experiment_table
    from ..evaluation.measures import TRACK_2023, as_measures
    from ..evaluation.samples import AVERAGED, averaged, sampled_rows
    from ..store.trec import name_runs

    wanted = list(TRACK_2023) if measures is None else as_measures(measures)
    named = name_runs(paths)
    judged = _judged(dataset_name, qrels, turns, paths)
    groups = _groups(named, samples)
    rankings = {name: _ranking(name, path) for name, path in named.items()}
    shares = any(judged[qid].keys() & ranking[qid] for ranking in rankings.values() for qid in judged.keys() & ranking)
    if dataset_name is not None and not shares:
        from ..study.study import refuse_statements

        refuse_statements(dataset_name, qrels)
    if not judged:
        raise UsageError(f"{dataset_name} has no judgements: give --qrels FILE instead of --dataset")
    check_baseline(groups, baseline)
    if pairwise and baseline is not None:
        raise UsageError("--pairwise compares all runs with each other: omit --baseline")
    scores = turn_scores(rankings.items(), Evaluator(judged, wanted))
    of_systems = {system: [scores[name] for name in names] for system, names in groups.items()}
    if pairwise:
        from ..evaluation.pairwise import pairwise_table

        show(pairwise_table({system: averaged(found) for system, found in of_systems.items()}, [AVERAGED] * samples), form)
    else:
        show(experiment_table(sampled_rows(of_systems, wanted, baseline) if samples else experiment_rows(scores, wanted, baseline)), form)
    for line in _unmatched(rankings, judged, dataset_name, qrels, chosen=turns is not None):
        click.echo(wrapped(line), err=form != "text")


def _unmatched(
    rankings: Mapping[str, Mapping[str, object]], judged: Mapping[str, object], dataset_name: str | None, qrels: str | None, chosen: bool
) -> Iterator[str]:
    """The turns of runs and judgements that match nothing, a line for each run; one line where all runs have the same ones."""
    topics = set() if dataset_name is None else set(dataset_named(dataset_name).get_topics()["qid"])
    if topics and qrels is not None and (strange := sorted(judged.keys() - topics)):
        yield f"{qrels} judges {len(strange)} turns that {dataset_name} lacks: {list_first(strange)}"
    yield from _per_run({name: sorted(judged.keys() - ranking) for name, ranking in rankings.items()}, "lacks {} judged turns")
    if chosen and not topics:
        return  # the run's other turns were left out on purpose
    unknown = "are not judged" if dataset_name is None else f"{dataset_name} lacks"
    strangers = {name: sorted(ranking.keys() - judged.keys() - topics) for name, ranking in rankings.items()}
    yield from _per_run(strangers, f"has {{}} turns that {unknown}")


def _per_run(turns: Mapping[str, list[str]], what: str) -> Iterator[str]:
    same = len(turns) > 1 and len(set(map(tuple, turns.values()))) == 1
    for name, found in list(turns.items())[: 1 if same else None]:
        if found:
            yield f"{'each run' if same else name} {what.format(len(found))}: {list_first(found)}"


def _groups(named: Mapping[str, Path], samples: bool) -> dict[str, list[str]]:
    """The runs of each system; without --samples each is a system."""
    if not samples:
        return {name: [name] for name in named}
    from ..runs.samples import check_samples, grouped

    groups = grouped(named)
    for names in groups.values():
        check_samples(named, names)
    return groups


def _judged(dataset_name: str | None, qrels: str | None, turns: str | None, paths: Sequence[str]) -> dict[str, dict[str, int]]:
    """The judgements by turn."""
    from ..evaluation.evaluator import judgements_by_turn

    if dataset_name is None and turns is None and qrels is not None:  # without a frame, see below
        from ..store.trec import read_judgements

        return judgements_by_turn(read_judgements(qrels))
    return judgements_by_turn(judged_by(dataset_name, qrels, turns, paths).itertuples(index=False, name=None))


def judged_by(dataset_name: str | None, qrels: str | None, turns: str | None = None, paths: Sequence[str] = ()) -> "pd.DataFrame":
    """The judgements that ``--dataset``, ``--qrels`` and ``--turns`` name; without the first two those that the run folders know.

    Raises:
        UsageError: when neither a dataset nor qrels are named, or a turn isn't judged.
    """
    from ..conversations import check_qrels, read_qrels
    from ..conversations.choice import find_qrels, of_turns

    if dataset_name is None:
        if qrels is not None:
            return of_turns(read_qrels(qrels), turns, qrels)
        from ..evaluation.finished import folders_in, qrels_of
        from ..store.trec import name_runs

        if not paths or not (folders := folders_in(name_runs(paths))):
            raise UsageError("nothing to evaluate against: give --dataset NAME or --qrels FILE; only run folders know their dataset")
        return of_turns(qrels_of(folders), turns, "the dataset of the runs")
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


def unjudged_turns(dataset_name: str) -> set[str]:
    """The turns that the dataset's qrels don't judge (Generate then Retrieve, section 4); none where no qrels are at hand."""
    data = dataset_named(dataset_name)
    try:
        judged = set(data.get_qrels()["qid"])
    except DataError:
        return set()
    return set(data.get_topics()["qid"]) - judged if judged else set()


def _ranking(name: str, path: Path) -> Mapping[str, Mapping[str, float]]:
    """The scores of a run by turn; those of a run file are read without a frame, which takes longer to import than to fill."""
    from ..store.trec import is_run_file, read_rankings

    if is_run_file(path):
        return read_rankings(path)
    from ..evaluation.finished import ranking_of

    return ranking_of(name, path)


def load_runs(paths: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """Runs by their names, that of the folder or the file."""
    from ..evaluation.finished import results_of
    from ..store.trec import name_runs

    return {name: results_of(name, path) for name, path in name_runs(paths).items()}


@main.command(
    section="Submit",
    example="""\
ikat submit runs/rtg --dataset ikat:2025 --run-id rtg \\
    --run-type automatic --team OURS --out rtg.jsonl
ikat submit live/gtr --run-id gtr --run-type interactive --out gtr.json""",
)
@click.argument("folder", metavar="RUN", type=click.Path())
@click.option("--dataset", "dataset_name", help="such as ikat:2025; an interactive run needs none")
@click.option("--run-id", required=True, help="the run's name, without spaces")
@click.option(
    "--run-type", required=True, help="automatic or manual; 2024 also only_response; 2025 generation-only; interactive for `ikat interact`"
)
@click.option("--team", help="the team's id, for 2025 only")
@click.option("--out", required=True, type=click.Path(), help="the file to write")
@quiet
def submit(folder: str, dataset_name: str | None, run_id: str, run_type: str, team: str | None, out: str) -> None:
    """Write the submission of RUN, a folder made by `ikat run` or `ikat interact`.

    A submission that `ikat validate` refuses is not written. That of an interactive run has the form of the server's dump.
    """
    from ..live.interactive.submission import write_interactive
    from ..runs import RunFolder
    from ..runs.log import Log
    from ..submit import write_submission
    from ..submit.problem import format_problems

    if Log.is_in(folder) or run_type == "interactive":
        problems = write_interactive(folder, out, run_id=run_id, run_type=run_type, team=team)
    elif dataset_name is None:
        raise UsageError("a submission is of a dataset: give --dataset, such as ikat:2025")
    else:
        problems = write_submission(RunFolder(folder), dataset_named(dataset_name), out, run_id=run_id, run_type=run_type, team=team)
    for line in format_problems(problems):
        click.echo(line, err=True)
    click.echo(out)


@main.command(section="Submit", example="ikat validate rtg.jsonl --dataset ikat:2025")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@quiet
def validate(path: str, dataset_name: str) -> None:
    """Check a submission file; exit with code 1 when it has errors.

    The submission may come from any system.
    """
    from ..submit import validate as check
    from ..submit.problem import format_problems, select_errors

    problems = check(path, dataset_named(dataset_name))
    lines, wrong = format_problems(problems), len(select_errors(problems))
    for line in lines:
        click.echo(line)
    click.echo(f"{path}: {wrong} errors, {len(lines) - wrong} warnings")
    if wrong:
        sys.exit(1)
