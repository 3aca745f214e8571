"""The command that evaluates runs: their passages, or the statements, responses and actions of their systems; and what they cost."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, counted, did_you_mean, list_first
from ..tables import Table, of_frame, wrapped
from .main import (
    BASELINE,
    DATASET,
    FORMAT,
    MEASURES,
    QRELS,
    RUNS_SO_FAR,
    TURNS,
    UNIT,
    dataset_named,
    judged_by,
    main,
    show,
    tell_circular,
    text_loader_of,
    turns_of,
    without_unfinished,
)

if TYPE_CHECKING:
    import pandas as pd

    from ..evaluation.units import Clusters

PLAIN = {
    "rouge-l": "RougeL",
    "token-f1": "TokenF1",
    "cited-sentences": "CitedSentences",
    "existing-citations": "ExistingCitations",
}
"""Judges of responses that ask no model."""
ASKING = ("Groundedness", "Completeness", "Relevance", "Naturalness", "Preference", "Correctness")
JUDGES = PLAIN | {name.casefold(): name for name in ASKING} | {"nuggets": "NuggetRecall"}
"""Name of a judge -> its class."""
BEM = "bem="
OF = ("passages", "statements", "responses", "actions", "nuggets")
PUBLISHED = "published"
"""The word instead of RUNs for the responses that a dataset has, or for people's labels."""
TAKEN_BY = {
    "passages": {"qrels", "turns", "measures", "baseline", "by", "unit"},
    "statements": {"qrels", "turns"},
    "responses": {"qrels", "turns", "judges", "llm", "index", "unit"},
    "actions": {"turns", "unit"},
    "nuggets": {"turns", "unit"},
}
"""What is evaluated -> the options that it takes besides the dataset."""


@main.command(
    section="Evaluate",
    example="""\
ikat evaluate runs/* --baseline raw --measures "nDCG@5,P(rel=1)@20"
ikat evaluate runs/* --cost
ikat evaluate runs/rtg --of statements --dataset ikat:2023-mini
ikat evaluate runs/* --of responses --dataset ikat:2024 \\
    --judge rouge-l --judge completeness --llm openai:gpt-4o
ikat evaluate published --of nuggets --dataset ikat:2024""",
)
@RUNS_SO_FAR
@click.option(
    "--of",
    type=click.Choice(OF),
    default="passages",
    show_default=True,
    help="what to evaluate of the runs",
)
@click.option(
    "--cost", is_flag=True, help="show the LLM calls, tokens and cost of the runs instead of scores"
)
@DATASET
@QRELS
@TURNS
@MEASURES
@BASELINE
@click.option(
    "--by",
    type=click.Choice(["depth", "conversation", "category"]),
    help="means of one measure by depth (turn number), conversation or category (locomo:)",
)
@UNIT
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="JUDGE",
    help="of responses, see above; may be repeated; by default rouge-l",
)
@click.option("--llm", help="the model that judges responses")
@click.option("--index", help="passage index with the texts, for groundedness of responses")
@FORMAT
def evaluate(
    paths: tuple[str, ...], of: str, cost: bool, dataset_name: str | None, form: str, **given: Any
) -> None:
    """Evaluate the passages of RUNs, or with --of their chosen statements, responses or actions.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission. Folders know their
    dataset, and the turns that they were asked: scores are means over the judged turns that all
    folders were asked. A turn without results counts 0. Notes below the table say both. The runs
    NAME, NAME.repeat-2, ... are repeats of one system: the table has their mean, deviation and
    share of variance. --of statements takes folders and submissions. --of responses, --of actions
    and --cost take folders; actions are whether a run abstains or asks back when it should.
    `published` in place of RUNs evaluates the responses of the track's runs in ikat:2024. With --of
    nuggets, it shows the labels of people: the share of nuggets that each of six runs states.

    Judges that ask no model: rouge-l, token-f1, cited-sentences, existing-citations, and
    bem=FOLDER, a classifier of answer equivalence. Judges with --llm: groundedness, completeness,
    relevance, naturalness, preference, correctness, nuggets.
    """
    there = {"judge" if name == "judges" else name: name for name, value in given.items() if value}
    for shown, name in there.items():
        if cost or name not in TAKEN_BY[of]:
            others = " and ".join(other for other in OF if name in TAKEN_BY[other])
            raise UsageError(
                f"--{shown} is for {others}: omit it with {'--cost' if cost else f'--of {of}'}"
            )
    if cost or of != "passages":
        paths = without_unfinished(paths)
    if cost:
        from ..show import ledger

        show(ledger(list(paths)), form)
    elif of == "passages":
        _show_passages(paths, dataset_name, given, form)
        if Path(f"{given['qrels']}.json").is_file():
            from ..conversations.qrels import note_of

            note = note_of(given["qrels"])
            tell_circular([note["judged_by"]], paths, err=form != "text")
            click.echo(note.get("filled", ""), nl="filled" in note, err=form != "text")
    else:
        from ..evaluation.evaluator import name_runs
        from ..evaluation.finished_runs import dataset_of, folders_in

        if dataset_name is None and not (folders := folders_in(name_runs(paths))):
            raise UsageError(f"--of {of} needs the dataset: give --dataset, such as ikat:2023-mini")
        data = dataset_of(folders) if dataset_name is None else dataset_named(dataset_name)
        ways = {
            "statements": _show_statements,
            "responses": _show_responses,
            "actions": _show_actions,
            "nuggets": _show_nuggets,
        }
        ways[of](paths, data, given, form)


def _show_passages(
    paths: Sequence[str], dataset_name: str | None, given: Mapping[str, Any], form: str
) -> None:
    qrels, baseline, by = given["qrels"], given["baseline"], given["by"]
    from ..evaluation.units import check_unit

    check_unit(given["unit"], baseline)
    if by and baseline:
        raise UsageError(
            f"--by {by} shows means without a baseline: omit one of the two; --unit is what tests and intervals go by"
        )
    if by:
        _show_means(paths, judged_by(dataset_name, qrels, paths=paths), dataset_name, given, form)
        return
    from ..evaluation.evaluator import (
        TRACK_2023,
        Evaluator,
        as_measures,
        check_baseline,
        experiment_rows,
        grouped,
        name_runs,
        turn_scores,
    )
    from ..evaluation.experiment_table import experiment_table, repeated_rows
    from ..evaluation.scored_turns import OF_ALL, scored_judgements

    wanted = as_measures(
        given["measures"]
        or (dataset_named(dataset_name).measures if dataset_name else ())
        or TRACK_2023
    )
    named = name_runs(paths)
    every, groups = _judged(dataset_name, qrels, paths), grouped(named)
    rankings = {name: _ranking(name, path) for name, path in named.items()}
    _check(every, rankings, dataset_name, qrels)
    check_baseline(groups, baseline)
    judged, scored = scored_judgements(named, every, given["turns"])
    about_turns = scored.sentences(rankings)
    evaluator = Evaluator(judged, wanted)
    scores = turn_scores(rankings.items(), evaluator)
    of_systems = {system: [scores[name] for name in names] for system, names in groups.items()}
    clusters, silent = (
        _compared_over(named, rankings, evaluator.turns, dataset_name, given["unit"])
        if baseline
        else (None, [])
    )
    if len(groups) == len(named):
        rows = experiment_rows(scores, wanted, baseline, clusters, silent=silent)
    else:
        from ..runs import RunFolder
        from ..runs.folder import check_repeats

        for names in groups.values():
            check_repeats(
                [RunFolder(named[name]) for name in names if named[name].is_dir()]
            )  # only folders say how they were made
        rows = repeated_rows(
            of_systems,
            wanted,
            baseline,
            clusters,
            silent=[name for name in groups if set(groups[name]) <= set(silent)],
        )
    show(experiment_table(rows, about_turns), form)
    lines = [
        line for line in about_turns if form == "csv" and not OF_ALL.fullmatch(line)
    ]  # others have them below the table
    for line in [
        *lines,
        *_unmatched(rankings, every, dataset_name, qrels, chosen=given["turns"] is not None),
    ]:
        click.echo(wrapped(line), err=form != "text")


def _compared_over(
    named: Mapping[str, Any],
    rankings: Mapping[str, Any],
    turns: Sequence[str],
    dataset_name: str | None,
    unit: str | None,
) -> "tuple[Clusters, list[str]]":
    """The clusters of the turns, and the runs that found nothing for any of them."""
    from ..evaluation.finished_runs import known_dataset
    from ..evaluation.scores import find_silent
    from ..evaluation.units import find_clusters

    return find_clusters(turns, unit, known_dataset(named, dataset_name)), find_silent(
        rankings, turns
    )


def _show_means(
    paths: Sequence[str],
    judged: "pd.DataFrame",
    data: str | None,
    given: Mapping[str, Any],
    form: str,
) -> None:
    """The mean of each conversation, depth or category, next to the number of its turns."""
    from ..evaluation import as_measures, breakdown
    from ..evaluation.score_frame import notes_on_turns

    wanted = as_measures(given["measures"] or "nDCG@5")
    if len(wanted) > 1:
        raise UsageError(
            f"--by {given['by']} shows one measure: give one, such as --measures nDCG@5"
        )
    topics = (
        None
        if data is None
        else dataset_named(data).get_topics("manual" if given["by"] == "category" else None)
    )
    table = breakdown(
        list(paths), judged, wanted[0], given["by"], topics=topics, turns=given["turns"]
    )
    _show_with_notes(of_frame(table, notes_on_turns(table)), form)


def _show_with_notes(table: Table, form: str) -> None:
    """Print a table. Its notes, which CSV lacks, go to the other stream then."""
    show(table, form)
    for line in table.notes if form == "csv" else ():
        click.echo(wrapped(line), err=True)


def _check(
    judged: Mapping[str, Any],
    rankings: Mapping[str, Mapping[str, Any]],
    dataset_name: str | None,
    qrels: str | None,
) -> None:
    """Check that there are judgements, and that they are about passages."""
    shares = any(
        judged[qid].keys() & found[qid]
        for found in rankings.values()
        for qid in judged.keys() & found
    )
    if dataset_name is not None and not shares and str(qrels).startswith("ptkb"):
        raise UsageError(
            f"the qrels {qrels} of {dataset_name} judge PTKB statements, and this is a run of passages: give other --qrels"
        )
    if not judged:
        raise UsageError(
            f"{dataset_name} has no judgements: give --qrels FILE instead of --dataset"
        )


def _unmatched(
    rankings: Mapping[str, Mapping[str, Any]],
    judged: Mapping[str, Any],
    dataset_name: str | None,
    qrels: str | None,
    chosen: bool,
) -> Iterator[str]:
    """The turns of runs and judgements without a match, which are in no mean."""
    topics = set() if dataset_name is None else set(dataset_named(dataset_name).get_topics()["qid"])
    if topics and qrels is not None and (strange := sorted(judged.keys() - topics)):
        yield f"{qrels} judges {counted(len(strange), 'turn')} that {dataset_name} lacks: {list_first(strange)}"
    said = defaultdict[str, list[str]](list)
    is_none, are_none = (
        (f"{dataset_name} lacks",) * 2 if topics else ("is not judged", "are not judged")
    )
    for name, ranking in rankings.items():
        strange = sorted(ranking.keys() - judged.keys() - topics)
        if strange and (topics or not chosen):  # else the run's other turns were omitted on purpose
            said[
                f"has {counted(len(strange), f'turn that {is_none}', f'turns that {are_none}')}: {list_first(strange)}"
            ].append(name)
    for what, names in said.items():
        yield from (
            f"{name} {what}"
            for name in (["each run"] if len(names) == len(rankings) > 1 else names)
        )


def _judged(
    dataset_name: str | None, qrels: str | None, paths: Sequence[str]
) -> dict[str, dict[str, int]]:
    """The judgements by turn. A file is read without a frame, because importing pandas takes longer than reading it."""
    from ..evaluation.evaluator import judgements_by_turn
    from ..store.trec import read_judgements

    if dataset_name is None and qrels is not None:
        return judgements_by_turn(read_judgements(qrels))
    return judgements_by_turn(
        judged_by(dataset_name, qrels, paths=paths).itertuples(index=False, name=None)
    )


def _ranking(name: str, path: Path) -> Mapping[str, Mapping[str, float]]:
    """The scores of a run by turn; a run file, too, is read without a frame."""
    from ..store.trec import is_run_file, read_rankings

    if is_run_file(path):
        return read_rankings(path)
    from ..evaluation.finished_runs import ranking_of, results_to_score

    return ranking_of(name, results_to_score(name, path))


def _show_statements(paths: Sequence[str], data: Any, given: Mapping[str, Any], form: str) -> None:
    """The scores of the PTKB statements that runs (folders or submissions) chose."""
    from ..evaluation.decisions import evaluate_ptkb
    from ..evaluation.evaluator import name_runs
    from ..evaluation.score_frame import notes_on_turns
    from ..submit import read_submission

    judged = judged_by(data.name, given["qrels"] or "ptkb")
    systems = {
        name: read_submission(path, data).turns if path.is_file() else path
        for name, path in name_runs(paths).items()
    }
    table = evaluate_ptkb(systems, judged, given["turns"])
    _show_with_notes(of_frame(table, notes_on_turns(table)), form)


def _show_responses(paths: Sequence[str], data: Any, given: Mapping[str, Any], form: str) -> None:
    """The mean of each judge over the responses in run folders, or over those that the dataset has."""
    import pandas as pd

    from ..evaluation.evaluator import name_runs
    from ..evaluation.responses import evaluate_responses, response_means, response_turns
    from ..evaluation.scored_turns import OF_ALL, asked_of, choose_turns
    from ..papers.paper_scores import answers_of
    from ..runs import RunFolder

    judges, texts = _judges(given["judges"], given["llm"]), text_loader_of(given["index"])
    wanted = response_turns(data.conversations, turns_of(data.name, given["turns"], given["qrels"]))
    if hasattr(data, "get_nuggets") and "nuggets" in given["judges"]:
        gold = data.get_nuggets()
        click.echo(
            f"nugget recall: all {len(gold)} nuggets of {data.name}; get_nuggets('deduplicated') in Python has fewer",
            err=True,
        )
        nuggets = gold.groupby("qid")["nugget"].agg(list)
        wanted["gold_nuggets"] = [nuggets.get(qid, []) for qid in wanted["qid"]]
    about_turns: list[str] = []
    if _is_published(paths, data, "get_responses"):
        responses: dict[str, Any] = dict(iter(data.get_responses().groupby("run")))
    else:
        scored = choose_turns(
            wanted["qid"], asked_of(name_runs(paths)), chosen=given["turns"] is not None
        )
        wanted = wanted[wanted["qid"].isin(scored.ids)].reset_index(drop=True)
        about_turns = [line for line in (scored.why, *scored.notes) if not OF_ALL.fullmatch(line)]
        responses = {
            name: answers_of(RunFolder(path), texts) for name, path in name_runs(paths).items()
        }
    if without := [name for name, answers in responses.items() if answers is None]:
        raise UsageError(f"{without[0]} has no responses: its system writes none")
    means = {}
    for name, answers in responses.items():
        means[name] = response_means(
            evaluate_responses(wanted, answers, judges), unit=given["unit"], dataset=data
        )
    table = pd.concat(means, names=["run"]).reset_index(level="run")
    models = {judge.name: judge.model_name for judge in judges}
    if any(models.values()):
        table.insert(2, "model", table["judge"].map(models))
    _show_with_notes(_with_unit(table, form, about_turns), form)
    tell_circular(list(models.values()), paths, err=form != "text")


def _is_published(paths: Sequence[str], data: Any, method: str) -> bool:
    """Whether the published runs of the dataset are meant.

    Raises:
        UsageError: when the dataset has none.
    """
    if list(paths) != [PUBLISHED] or Path(PUBLISHED).exists():
        return False
    if not hasattr(data, method):
        raise UsageError(f"{data.name} has no {PUBLISHED} runs: give RUNs, or --dataset ikat:2024")
    return True


def _show_nuggets(paths: Sequence[str], data: Any, given: Mapping[str, Any], form: str) -> None:
    """The mean share of nuggets that each run states, according to people's labels."""
    from ..evaluation.nuggets import nugget_means, nugget_scores

    if not _is_published(paths, data, "get_nugget_labels"):
        raise UsageError(
            f"--of nuggets shows the labels of people: give {PUBLISHED} in place of RUNs; `--of responses --judge nuggets` judges"
        )
    labels = data.get_nugget_labels().drop(
        columns="nugget"
    )  # a turn may have two nuggets with the same words
    if (turns := turns_of(data.name, given["turns"])) is not None:
        labels = labels[labels["qid"].isin(turns)]
    scores = {str(run): nugget_scores(found) for run, found in labels.groupby("run")}
    show(_with_unit(nugget_means(scores, unit=given["unit"], dataset=data), form), form)


def _show_actions(paths: Sequence[str], data: Any, given: Mapping[str, Any], form: str) -> None:
    """Whether run folders abstain and ask back when they should."""
    from ..evaluation.decisions import evaluate_actions
    from ..evaluation.evaluator import name_runs
    from ..evaluation.score_frame import notes_on_turns

    table = evaluate_actions(
        name_runs(paths), data.get_answers(), turns=given["turns"], unit=given["unit"], dataset=data
    )
    _show_with_notes(_with_unit(table, form, notes_on_turns(table)), form)


def _with_unit(table: "pd.DataFrame", form: str, about_turns: Sequence[str] = ()) -> Table:
    """A table of means with intervals. What these rest on stands in a line below it, in CSV in columns."""
    from ..evaluation.units import UNIT_COLUMNS, note_on_intervals

    notes = [*about_turns] if form == "csv" else [*about_turns, note_on_intervals(table)]
    return of_frame(table if form == "csv" else table.drop(columns=[*UNIT_COLUMNS]), notes)


def _judges(names: Sequence[str], spec: str | None) -> list[Any]:
    """The judges of responses."""
    from .. import evaluation
    from ..llms import llm

    model, found = None if spec is None else llm(spec), list[Any]()
    for name in names or ["rouge-l"]:
        if name.startswith(BEM):
            found.append(evaluation.AnswerEquivalence(name.removeprefix(BEM)))
        elif name not in JUDGES:
            near = (
                did_you_mean(name, JUDGES)
                or f"choose among {', '.join(JUDGES)}, or give bem=FOLDER"
            )
            raise UsageError(f"--judge {name} is unknown: {near}")
        elif name in PLAIN:
            found.append(getattr(evaluation, JUDGES[name])())
        elif model is None:
            raise UsageError(f"--judge {name} needs a language model: give --llm")
        else:
            found.append(getattr(evaluation, JUDGES[name])(model))
    return found
