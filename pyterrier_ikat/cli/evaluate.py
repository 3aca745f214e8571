"""The command that evaluates runs: passages, statements, responses, actions, nuggets and costs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    print_ledger,
    show,
    tell_circular,
    text_loader_of,
    turns_of,
    without_unfinished,
)

if TYPE_CHECKING:
    import pandas as pd

    from ..evaluation.units import Clusters
    from ..llms import Ledger

PLAIN_JUDGES = {
    "rouge-l": "RougeL",
    "token-f1": "TokenF1",
    "cited-sentences": "CitedSentences",
    "existing-citations": "ExistingCitations",
}
"""Judges of responses that ask no model."""
ASKING_JUDGES = {
    "groundedness": "Groundedness",
    "completeness": "Completeness",
    "relevance": "Relevance",
    "naturalness": "Naturalness",
    "preference": "Preference",
    "correctness": "Correctness",
    "nuggets": "NuggetRecall",
}
"""Judges of responses that ask a language model."""
BEM = "bem="
PUBLISHED = "published"
"""The word instead of RUNs for the responses that a dataset has, or for people's labels."""
OPTIONS_OF = {
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
    type=click.Choice([*OPTIONS_OF]),
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
    paths: tuple[str, ...], of: str, cost: bool, dataset_name: str | None, form: str, **options: Any
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
    _check_options(of, cost, options)
    if cost or of != "passages":
        paths = without_unfinished(paths)
    if cost:
        from ..show import ledger

        show(ledger(list(paths)), form)
        return
    if of == "passages":
        _show_passages(paths, dataset_name, options, form)
        _show_judge(options["qrels"], paths, form)
        return
    data = _dataset(of, dataset_name, paths)
    if of == "statements":
        _show_statements(paths, data, options, form)
    elif of == "responses":
        _show_responses(paths, data, options, form)
    elif of == "actions":
        _show_actions(paths, data, options, form)
    else:
        _show_nuggets(paths, data, options, form)


def _check_options(of: str, cost: bool, options: Mapping[str, Any]) -> None:
    """Check that the given options are for what is evaluated."""
    for argument, value in options.items():
        option = "judge" if argument == "judges" else argument
        if not value or (argument in OPTIONS_OF[of] and not cost):
            continue
        others = " and ".join(what for what, names in OPTIONS_OF.items() if argument in names)
        instead = "--cost" if cost else f"--of {of}"
        raise UsageError(f"--{option} is for {others}: omit it with {instead}")


def _dataset(of: str, dataset_name: str | None, paths: Sequence[str]) -> Any:
    """The dataset that ``--dataset`` names, or that of the run folders."""
    from ..evaluation.evaluator import name_runs
    from ..evaluation.finished_runs import dataset_of, folders_in

    if dataset_name is not None:
        return dataset_named(dataset_name)
    folders = folders_in(name_runs(paths))
    if not folders:
        raise UsageError(f"--of {of} needs the dataset: give --dataset, such as ikat:2023-mini")
    return dataset_of(folders)


def _show_judge(qrels: str | None, paths: Sequence[str], form: str) -> None:
    """Say by which model the qrels were judged, if `ikat judge` wrote them."""
    if qrels is None or not Path(f"{qrels}.json").is_file():
        return
    from ..conversations.qrels import note_of

    note = note_of(qrels)
    is_formatted = form != "text"
    tell_circular([note["judged_by"]], paths, err=is_formatted)
    if "filled" in note:
        click.echo(note["filled"], err=is_formatted)


def _show_passages(
    paths: Sequence[str], dataset_name: str | None, options: Mapping[str, Any], form: str
) -> None:
    """The scores of the passages of runs, as an experiment table or by depth or the like."""
    from ..evaluation.evaluator import Evaluator, check_baseline, grouped, name_runs, turn_scores
    from ..evaluation.experiment_table import experiment_table
    from ..evaluation.scored_turns import OF_ALL, scored_judgements
    from ..evaluation.units import check_unit

    qrels = options["qrels"]
    baseline = options["baseline"]
    check_unit(options["unit"], baseline)
    if options["by"]:
        _show_means(paths, dataset_name, options, form)
        return
    measures = _measures(options["measures"], dataset_name)
    runs = name_runs(paths)
    groups = grouped(runs)
    all_judged = _judged(dataset_name, qrels, paths)
    rankings = {name: _ranking(name, path) for name, path in runs.items()}
    _check_judgements(all_judged, rankings, dataset_name, qrels)
    check_baseline(groups, baseline)
    judged, scored = scored_judgements(runs, all_judged, options["turns"])
    about_turns = scored.sentences(rankings)
    evaluator = Evaluator(judged, measures)
    scores = turn_scores(rankings.items(), evaluator)
    clusters: Clusters | None = None
    silent: list[str] = []
    if baseline:
        from ..evaluation.finished_runs import known_dataset
        from ..evaluation.scores import find_silent
        from ..evaluation.units import find_clusters

        data = known_dataset(runs, dataset_name)
        clusters = find_clusters(evaluator.turns, options["unit"], data)
        silent = find_silent(rankings, evaluator.turns)
    rows = _rows(runs, groups, scores, measures, baseline, clusters, silent)
    show(experiment_table(rows, about_turns), form)
    is_formatted = form != "text"
    if form == "csv":  # others have these lines below the table
        for line in about_turns:
            if not OF_ALL.fullmatch(line):
                click.echo(wrapped(line), err=is_formatted)
    chosen = options["turns"] is not None
    for line in _unmatched(rankings, all_judged, dataset_name, qrels, chosen):
        click.echo(wrapped(line), err=is_formatted)


def _measures(named: str | None, dataset_name: str | None) -> Any:
    """The measures of ``--measures``, else those of the dataset, else the track's."""
    from ..evaluation.evaluator import TRACK_2023, as_measures

    if not named and dataset_name:
        return as_measures(dataset_named(dataset_name).measures or TRACK_2023)
    return as_measures(named or TRACK_2023)


def _rows(
    runs: Mapping[str, Path],
    groups: Mapping[str, Sequence[str]],
    scores: Mapping[str, Any],
    measures: Sequence[Any],
    baseline: str | None,
    clusters: "Clusters | None",
    silent: Sequence[str],
) -> Any:
    """The rows of an experiment table: one per run, or per system if some have repeats."""
    from ..evaluation.evaluator import experiment_rows
    from ..evaluation.experiment_table import repeated_rows

    if len(groups) == len(runs):
        return experiment_rows(scores, measures, baseline, clusters, silent=silent)
    from ..runs import RunFolder  # imports pandas, which scores of run files do without
    from ..runs.folder import check_repeats

    for names in groups.values():
        # Only folders say how they were made.
        folders = [RunFolder(runs[name]) for name in names if runs[name].is_dir()]
        check_repeats(folders)
    of_systems = {system: [scores[name] for name in names] for system, names in groups.items()}
    silent_systems = [system for system, names in groups.items() if set(names) <= set(silent)]
    return repeated_rows(of_systems, measures, baseline, clusters, silent=silent_systems)


def _show_means(
    paths: Sequence[str], dataset_name: str | None, options: Mapping[str, Any], form: str
) -> None:
    """The mean of each conversation, depth or category, next to the number of its turns."""
    from ..evaluation import as_measures, breakdown
    from ..evaluation.score_frame import notes_on_turns

    by = options["by"]
    if options["baseline"]:
        raise UsageError(
            f"--by {by} shows means without a baseline: omit one of the two; --unit is what tests "
            "and intervals go by"
        )
    judged = judged_by(dataset_name, options["qrels"], paths=paths)
    measures = as_measures(options["measures"] or "nDCG@5")
    if len(measures) > 1:
        raise UsageError(f"--by {by} shows one measure: give one, such as --measures nDCG@5")
    topics = None
    if dataset_name is not None:
        data = dataset_named(dataset_name)
        topics = data.get_topics("manual" if by == "category" else None)
    table = breakdown(list(paths), judged, measures[0], by, topics=topics, turns=options["turns"])
    notes = [f"{measures[0]}: means over the turns of each {by}.", *notes_on_turns(table)]
    _show_with_notes(of_frame(table, notes), form, f"by-{by}")


def _show_with_notes(table: Table, form: str, label: str, caption: str = "") -> None:
    """Print a table. Its notes, which CSV lacks, go to the other stream then.

    Args:
        table: the table.
        form: how it is printed.
        label: its name in a paper.
        caption: what a paper says of it.
    """
    table.label = label
    table.caption = caption
    show(table, form)
    if form == "csv":
        for line in table.notes:
            click.echo(wrapped(line), err=True)


def _check_judgements(
    judged: Mapping[str, Any],
    rankings: Mapping[str, Mapping[str, Any]],
    dataset_name: str | None,
    qrels: str | None,
) -> None:
    """Check that there are judgements, and that they are about passages."""
    if not judged:
        raise UsageError(
            f"{dataset_name} has no judgements: give --qrels FILE instead of --dataset"
        )
    if dataset_name is None or not str(qrels).startswith("ptkb"):
        return
    for ranking in rankings.values():
        for qid in judged.keys() & ranking:
            if judged[qid].keys() & ranking[qid]:
                return
    raise UsageError(
        f"the qrels {qrels} of {dataset_name} judge PTKB statements, and this is a run of "
        "passages: give other --qrels"
    )


def _unmatched(
    rankings: Mapping[str, Mapping[str, Any]],
    judged: Mapping[str, Any],
    dataset_name: str | None,
    qrels: str | None,
    chosen: bool,
) -> Iterator[str]:
    """The turns of runs and judgements without a match, which are in no mean, in words."""
    topics: set[str] = set()
    if dataset_name is not None:
        topics = set(dataset_named(dataset_name).get_topics()["qid"])
    if not topics:
        if not chosen:  # else the run's other turns were omitted on purpose
            yield from _strange_turns(rankings, judged, "is not judged", "are not judged")
        return
    if qrels is not None:
        lacking = sorted(judged.keys() - topics)
        if lacking:
            turns = counted(len(lacking), "turn")
            yield f"{qrels} judges {turns} that {dataset_name} lacks: {list_first(lacking)}"
    lacks = f"{dataset_name} lacks"
    yield from _strange_turns(rankings, judged.keys() | topics, lacks, lacks)


def _strange_turns(
    rankings: Mapping[str, Mapping[str, Any]], known: Iterable[str], is_none: str, are_none: str
) -> Iterator[str]:
    """The turns of runs that aren't among the known ones; runs with the same ones share a line.

    Args:
        rankings: the runs.
        known: the other turns.
        is_none: how a sentence about such a turn continues.
        are_none: the same for several turns.
    """
    runs_of: dict[str, list[str]] = {}
    for name, ranking in rankings.items():
        strange = sorted(ranking.keys() - known)
        if strange:
            turns = counted(len(strange), f"turn that {is_none}", f"turns that {are_none}")
            runs_of.setdefault(f"has {turns}: {list_first(strange)}", []).append(name)
    for sentence, names in runs_of.items():
        if len(names) == len(rankings) and len(rankings) > 1:
            names = ["each run"]
        for name in names:
            yield f"{name} {sentence}"


def _judged(
    dataset_name: str | None, qrels: str | None, paths: Sequence[str]
) -> dict[str, dict[str, int]]:
    """The judgements by turn.

    A file is read without a frame, because importing pandas takes longer than reading it.
    """
    from ..evaluation.evaluator import judgements_by_turn
    from ..store.trec import read_judgements

    if dataset_name is None and qrels is not None:
        return judgements_by_turn(read_judgements(qrels))
    judged = judged_by(dataset_name, qrels, paths=paths)
    return judgements_by_turn(judged.itertuples(index=False, name=None))


def _ranking(name: str, path: Path) -> Mapping[str, Mapping[str, float]]:
    """The scores of a run by turn; a run file, too, is read without a frame."""
    from ..store.trec import is_run_file, read_rankings

    if is_run_file(path):
        return read_rankings(path)
    from ..evaluation.finished_runs import ranking_of, results_to_score

    return ranking_of(name, results_to_score(name, path))


def _show_statements(
    paths: Sequence[str], data: Any, options: Mapping[str, Any], form: str
) -> None:
    """The scores of the PTKB statements that runs (folders or submissions) chose."""
    from ..evaluation.decisions import evaluate_ptkb
    from ..evaluation.evaluator import name_runs
    from ..evaluation.score_frame import notes_on_turns
    from ..submit import read_submission

    judged = judged_by(data.name, options["qrels"] or "ptkb")
    systems: dict[str, Any] = {}
    for name, path in name_runs(paths).items():
        systems[name] = read_submission(path, data).turns if path.is_file() else path
    table = evaluate_ptkb(systems, judged, options["turns"])
    shown = of_frame(table, notes_on_turns(table))
    _show_with_notes(shown, form, "statements", "Chosen statements about the user")


def _show_responses(paths: Sequence[str], data: Any, options: Mapping[str, Any], form: str) -> None:
    """The mean of each judge over the responses in run folders, or that the dataset has."""
    import pandas as pd

    from ..evaluation.responses import evaluate_responses, response_means, response_turns
    from ..llms import Ledger

    ledger = Ledger()
    judges = _judges(options["judges"], options["llm"], ledger)
    chosen = turns_of(data.name, options["turns"], options["qrels"])
    turns = response_turns(data.conversations, chosen)
    if "nuggets" in options["judges"] and hasattr(data, "get_nuggets"):
        _add_nuggets(turns, data)
    if _is_published(paths, data, "get_responses"):
        responses: dict[str, Any] = dict(iter(data.get_responses().groupby("run")))
        about_turns: list[str] = []
    else:
        turns, about_turns = _asked_turns(turns, paths, options["turns"] is not None)
        responses = _responses(paths, options["index"])
    means = {}
    try:
        for name, answers in responses.items():
            scores = evaluate_responses(turns, answers, judges)
            means[name] = response_means(scores, unit=options["unit"], dataset=data)
    finally:
        print_ledger(ledger, err=True)
    table = pd.concat(means, names=["run"]).reset_index(level="run")
    models = {judge.name: judge.model_name for judge in judges}
    if any(models.values()):
        table.insert(2, "model", table["judge"].map(models))
    shown = _with_unit(table, form, about_turns)
    _show_with_notes(shown, form, "responses", "Responses")
    tell_circular(list(models.values()), paths, err=form != "text")


def _add_nuggets(turns: "pd.DataFrame", data: Any) -> None:
    """Add the dataset's nuggets to the turns."""
    gold = data.get_nuggets()
    click.echo(
        f"nugget recall: all {len(gold)} nuggets of {data.name}; get_nuggets('deduplicated') in "
        "Python has fewer",
        err=True,
    )
    nuggets = gold.groupby("qid")["nugget"].agg(list)
    turns["gold_nuggets"] = [nuggets.get(qid, []) for qid in turns["qid"]]


def _asked_turns(
    turns: "pd.DataFrame", paths: Sequence[str], chosen: bool
) -> "tuple[pd.DataFrame, list[str]]":
    """The turns that all runs were asked, and sentences about them.

    Args:
        turns: all turns.
        paths: the runs.
        chosen: whether the user chose the turns.
    """
    from ..evaluation.evaluator import name_runs
    from ..evaluation.scored_turns import OF_ALL, asked_of, choose_turns

    scored = choose_turns(turns["qid"], asked_of(name_runs(paths)), chosen=chosen)
    about = [line for line in (scored.why, *scored.notes) if not OF_ALL.fullmatch(line)]
    return turns[turns["qid"].isin(scored.ids)].reset_index(drop=True), about


def _responses(paths: Sequence[str], index_path: str | None) -> dict[str, Any]:
    """Run -> its responses.

    Raises:
        UsageError: when a run has none.
    """
    from ..evaluation.evaluator import name_runs
    from ..papers.paper_scores import answers_of
    from ..runs import RunFolder

    texts = text_loader_of(index_path)
    responses = {}
    for name, path in name_runs(paths).items():
        answers = answers_of(RunFolder(path), texts)
        if answers is None:
            raise UsageError(f"{name} has no responses: its system writes none")
        responses[name] = answers
    return responses


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


def _show_nuggets(paths: Sequence[str], data: Any, options: Mapping[str, Any], form: str) -> None:
    """The mean share of nuggets that each run states, according to people's labels."""
    from ..evaluation.nuggets import nugget_means, nugget_scores

    if not _is_published(paths, data, "get_nugget_labels"):
        raise UsageError(
            f"--of nuggets shows the labels of people: give {PUBLISHED} in place of RUNs; `--of "
            "responses --judge nuggets` judges"
        )
    # Without the words: a turn may have two nuggets with the same ones.
    labels = data.get_nugget_labels().drop(columns="nugget")
    turns = turns_of(data.name, options["turns"])
    if turns is not None:
        labels = labels[labels["qid"].isin(turns)]
    scores = {}
    for run, labels_of_run in labels.groupby("run"):
        scores[str(run)] = nugget_scores(labels_of_run)
    table = nugget_means(scores, unit=options["unit"], dataset=data)
    _show_with_notes(_with_unit(table, form), form, "nuggets", "Nuggets in the responses")


def _show_actions(paths: Sequence[str], data: Any, options: Mapping[str, Any], form: str) -> None:
    """Whether run folders abstain and ask back when they should."""
    from ..evaluation.decisions import evaluate_actions
    from ..evaluation.evaluator import name_runs
    from ..evaluation.score_frame import notes_on_turns

    table = evaluate_actions(
        name_runs(paths),
        data.get_answers(),
        turns=options["turns"],
        unit=options["unit"],
        dataset=data,
    )
    shown = _with_unit(table, form, notes_on_turns(table))
    _show_with_notes(shown, form, "actions", "Whether a run abstains and asks back when it should")


def _with_unit(table: "pd.DataFrame", form: str, about_turns: Sequence[str] = ()) -> Table:
    """A table of means with intervals, and a line about their unit; CSV has columns instead."""
    from ..evaluation.units import UNIT_COLUMNS, note_on_intervals

    if form == "csv":
        return of_frame(table, about_turns)
    notes = [*about_turns, note_on_intervals(table)]
    return of_frame(table.drop(columns=[*UNIT_COLUMNS]), notes)


def _judges(names: Sequence[str], spec: str | None, ledger: "Ledger") -> list[Any]:
    """The judges of responses, whose calls count in the account."""
    from .. import evaluation
    from ..llms import llm

    model = None if spec is None else llm(spec, ledger=ledger)
    judges: list[Any] = []
    for name in names or ["rouge-l"]:
        if name.startswith(BEM):
            judges.append(evaluation.AnswerEquivalence(name.removeprefix(BEM)))
        elif name in PLAIN_JUDGES:
            judges.append(getattr(evaluation, PLAIN_JUDGES[name])())
        elif name not in ASKING_JUDGES:
            known = [*PLAIN_JUDGES, *ASKING_JUDGES]
            repair = did_you_mean(name, known)
            if not repair:
                repair = f"choose among {', '.join(known)}, or give bem=FOLDER"
            raise UsageError(f"--judge {name} is unknown: {repair}")
        elif model is None:
            raise UsageError(f"--judge {name} needs a language model: give --llm")
        else:
            judges.append(getattr(evaluation, ASKING_JUDGES[name])(model))
    return judges
