"""The command that evaluates runs: their passages, or the statements, responses and actions of their systems."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, counted, did_you_mean, list_first
from ..tables import Table, format_score, of_frame, wrapped
from .main import main
from .options import (
    BASELINE,
    DATASET,
    FORMAT,
    MEASURES,
    PLOT,
    QRELS,
    RUNS,
    TURNS,
    dataset_named,
    judged_by,
    load_runs,
    text_loader_of,
    turns_of,
)
from .output import show

if TYPE_CHECKING:
    import pandas as pd

WITHOUT_LLM = ("rouge-l", "token-f1", "cited-sentences", "existing-citations")
JUDGES = (*WITHOUT_LLM, "groundedness", "completeness", "relevance", "naturalness", "preference", "correctness", "nuggets")
BEM = "bem="
OF = ("passages", "statements", "responses", "actions", "nuggets")
PUBLISHED = "published"
"""The word instead of RUNs for the responses that a dataset has, or for people's labels."""
TAKEN_BY = {
    "passages": {"qrels", "turns", "measures", "baseline", "pairwise", "repeats", "oracle", "by", "plot"},
    "statements": {"qrels", "turns"},
    "responses": {"qrels", "turns", "judges", "llm", "index"},
    "actions": {"turns"},
    "nuggets": {"turns"},
}
"""What is evaluated -> the options that it takes besides the dataset."""


@main.command(
    section="Evaluate",
    example="""\
ikat evaluate runs/* --dataset ikat:2023-mini --baseline raw \\
    --measures "nDCG@5,P(rel=1)@20"
ikat evaluate runs/mq4cs* --measures nDCG@3 --oracle
ikat evaluate runs/* --by depth --plot depth.png
ikat evaluate runs/rtg --of statements --dataset ikat:2023-mini \\
    --qrels ptkb_nist
ikat evaluate runs/* --of responses --dataset ikat:2024 \\
    --judge rouge-l --judge completeness --llm openai:gpt-4o
ikat evaluate runs/* --of actions --dataset mtrag:mini
ikat evaluate published --of responses --dataset ikat:2024
ikat evaluate published --of nuggets --dataset ikat:2024""",
)
@RUNS
@click.option("--of", type=click.Choice(OF), default="passages", show_default=True, help="what to evaluate of the runs")
@DATASET
@QRELS
@TURNS
@MEASURES
@BASELINE
@click.option("--pairwise", is_flag=True, help="test each pair of runs; letters show which runs differ")
@click.option(
    "--repeats",
    is_flag=True,
    help="treat NAME, NAME.repeat-2, ... as repeats of one system: show their mean, deviation and shares of variance",
)
@click.option("--oracle", is_flag=True, help="add an oracle that takes the best run of each turn by the first measure")
@click.option(
    "--by",
    type=click.Choice(["depth", "conversation", "category", "topic", "turn"]),
    help="show the means of one measure by depth (turn number), conversation, or category of the question (locomo:); with --baseline the "
    "unit that is drawn for confidence intervals of the differences: conversation, topic or turn",
)
@PLOT
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="JUDGE",
    help=f"of responses, may be repeated: {', '.join(JUDGES)}; by default rouge-l; the first {len(WITHOUT_LLM)} ask no model, others need "
    "--llm; bem=FOLDER for a classifier of answer equivalence",
)
@click.option("--llm", help="the model that judges responses")
@click.option("--index", help="passage index with the texts, for groundedness of responses")
@FORMAT
def evaluate(paths: tuple[str, ...], of: str, dataset_name: str | None, form: str, **given: Any) -> None:
    """Evaluate the passages of RUNs, or with --of their chosen statements, responses or actions.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission. Folders know their dataset. Scores are means over all judged
    turns. A turn without results counts 0. A note names the turns that only the run or only the judgements have. --of statements takes
    folders and submissions. --of responses and --of actions take folders; actions are whether a run abstains or asks back when it should.
    `published` in place of RUNs evaluates the responses of the track's runs in ikat:2024. With --of nuggets, it shows the labels of
    people: the share of nuggets that each of six runs states.
    """
    _check_options(of, dataset_name, given)
    qrels, turns = given["qrels"], given["turns"]
    if of == "passages" and given["by"] and not given["baseline"]:
        _show_groups(paths, judged_by(dataset_name, qrels, turns, paths), dataset_name, given, form)
    elif of == "passages":
        _show_passages(paths, dataset_name, given, form)
    elif of == "statements":
        _show_statements(paths, str(dataset_name), judged_by(dataset_name, qrels or "ptkb", turns), form)
    elif of == "responses":
        wanted = turns_of(str(dataset_name), qrels, turns)
        _show_responses(paths, str(dataset_name), wanted, given["index"], _judges(given["judges"], given["llm"]), form)
    elif of == "nuggets":
        _show_nuggets(paths, str(dataset_name), turns_of(str(dataset_name), None, turns), form)
    else:
        _show_actions(paths, str(dataset_name), turns_of(str(dataset_name), None, turns), form)


def _check_options(of: str, dataset_name: str | None, given: Mapping[str, Any]) -> None:
    """Check that the options fit what is evaluated.

    Raises:
        UsageError: when they don't, or the dataset is missing.
    """
    there = {"judge" if name == "judges" else name: name for name, value in given.items() if value}
    for shown, name in there.items():
        if name not in TAKEN_BY[of]:
            others = " and ".join(other for other in OF if name in TAKEN_BY[other])
            raise UsageError(f"--{shown} is for {others}: omit it with --of {of}")
    if of != "passages" and not dataset_name:
        raise UsageError(f"--of {of} needs the dataset: give --dataset, such as ikat:2023-mini")
    if given["by"] in ("turn", "topic") and not given["baseline"]:
        raise UsageError(f"--by {given['by']} is the unit of intervals of differences: give --baseline")
    if given["by"] in ("depth", "category") and given["baseline"]:
        raise UsageError(f"--by {given['by']} shows means and compares nothing: omit --baseline")
    if given["by"] and not given["baseline"] and (tests := sorted(there.keys() & {"pairwise", "repeats", "oracle"})):
        raise UsageError(f"--by {given['by']} compares nothing: omit --{tests[0]}")
    if given["plot"] and (given["baseline"] or not given["by"]):
        raise UsageError("--plot draws the means of --by: give --by depth, conversation or category")
    if given["oracle"] and (other := sorted(there.keys() & {"pairwise", "repeats"})):
        raise UsageError(f"--oracle chooses among single runs: omit --{other[0]}")
    if given["pairwise"] and given["baseline"]:
        raise UsageError("--pairwise compares all runs with each other: omit --baseline")


def _show_groups(paths: Sequence[str], judged: "pd.DataFrame", dataset_name: str | None, given: Mapping[str, Any], form: str) -> None:
    """The mean of each conversation or depth, next to the number of its turns."""
    from ..evaluation import as_measures, breakdown

    wanted = as_measures(given["measures"] or "nDCG@5")
    if len(wanted) > 1:
        raise UsageError(f"--by {given['by']} shows one measure: give one, such as --measures nDCG@5")
    variant = "manual" if given["by"] == "category" else None
    topics = None if dataset_name is None else dataset_named(dataset_name).get_topics(variant)
    table = breakdown(load_runs(paths), judged, wanted[0], given["by"], topics=topics)
    if given["plot"] is not None:
        from ..show.plots import plot_breakdown, save_plot

        save_plot(plot_breakdown(table), given["plot"])
    show(of_frame(table), form)


def _show_passages(paths: Sequence[str], dataset_name: str | None, given: Mapping[str, Any], form: str) -> None:
    from ..evaluation.evaluator import Evaluator, check_baseline, experiment_rows, name_runs, oracle_row, turn_scores
    from ..evaluation.experiment_table import AVERAGED, averaged, experiment_table, repeated_rows
    from ..evaluation.measures import TRACK_2023, as_measures

    qrels, repeats, baseline = given["qrels"], given["repeats"], given["baseline"]
    default = (dataset_named(dataset_name).measures if dataset_name else ()) or TRACK_2023
    wanted = as_measures(given["measures"] or default)
    named = name_runs(paths)
    judged = _judged(dataset_name, qrels, given["turns"], paths)
    groups = _groups(named, repeats)
    rankings = {name: _ranking(name, path) for name, path in named.items()}
    _check_judged(judged, rankings, dataset_name, qrels)
    check_baseline(groups, baseline)
    evaluator = Evaluator(judged, wanted)
    scores = turn_scores(rankings.items(), evaluator)
    of_systems = {system: [scores[name] for name in names] for system, names in groups.items()}
    if given["pairwise"]:
        from ..evaluation.experiment_table import pairwise_table

        show(pairwise_table({system: averaged(found) for system, found in of_systems.items()}, [AVERAGED] * repeats), form)
    else:
        rows = repeated_rows(of_systems, wanted, baseline) if repeats else experiment_rows(scores, wanted, baseline)
        show(experiment_table([*rows, oracle_row(scores, wanted)] if given["oracle"] else rows), form)
        if baseline and len(of_systems) > 1:
            means = {system: averaged(found) for system, found in of_systems.items()}
            _show_differences(means, evaluator.turns, baseline, given["by"], form)
    for line in _unmatched(rankings, judged, dataset_name, qrels, chosen=given["turns"] is not None):
        click.echo(wrapped(line), err=form != "text")


def _show_differences(scores: Mapping[str, Any], turns: Sequence[str], baseline: str, by: str | None, form: str) -> None:
    """The differences from the baseline with their intervals. CSV has only the table of scores, unless --by asks for this one."""
    from ..evaluation.intervals import default_unit, difference_table

    if by or form != "csv":
        click.echo()
        show(difference_table(scores, turns, baseline, by or default_unit(turns)), form)


def _check_judged(
    judged: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Mapping[str, Any]], dataset_name: str | None, qrels: str | None
) -> None:
    """Check that there are judgements, and that they are about passages."""
    shares = any(judged[qid].keys() & ranking[qid] for ranking in rankings.values() for qid in judged.keys() & ranking)
    if dataset_name is not None and not shares:
        from ..study.study import refuse_statements

        refuse_statements(dataset_name, qrels)
    if not judged:
        raise UsageError(f"{dataset_name} has no judgements: give --qrels FILE instead of --dataset")


def _unmatched(
    rankings: Mapping[str, Mapping[str, object]], judged: Mapping[str, object], dataset_name: str | None, qrels: str | None, chosen: bool
) -> Iterator[str]:
    """The turns of runs and judgements without a match, one line per run, or a single line if they are the same for all runs."""
    topics = set() if dataset_name is None else set(dataset_named(dataset_name).get_topics()["qid"])
    if topics and qrels is not None and (strange := sorted(judged.keys() - topics)):
        yield f"{qrels} judges {counted(len(strange), 'turn')} that {dataset_name} lacks: {list_first(strange)}"
    yield from _per_run({name: sorted(judged.keys() - ranking) for name, ranking in rankings.items()}, "lacks {}", "judged turn")
    if chosen and not topics:
        return  # the run's other turns were omitted on purpose
    is_unknown, are_unknown = ("is not judged", "are not judged") if dataset_name is None else (f"{dataset_name} lacks",) * 2
    strangers = {name: sorted(ranking.keys() - judged.keys() - topics) for name, ranking in rankings.items()}
    yield from _per_run(strangers, "has {}", f"turn that {is_unknown}", f"turns that {are_unknown}")


def _per_run(turns: Mapping[str, list[str]], what: str, one: str, several: str = "") -> Iterator[str]:
    same = len(turns) > 1 and len(set(map(tuple, turns.values()))) == 1
    for name, found in list(turns.items())[: 1 if same else None]:
        if found:
            yield f"{'each run' if same else name} {what.format(counted(len(found), one, several))}: {list_first(found)}"


def _groups(named: Mapping[str, Path], repeats: bool) -> dict[str, list[str]]:
    """The runs of each system. Without --repeats each run is a system."""
    if not repeats:
        return {name: [name] for name in named}
    from ..runs import RunFolder
    from ..runs.origin import check_repeats, grouped

    groups = grouped(named)
    for names in groups.values():
        check_repeats([RunFolder(named[name]) for name in names if named[name].is_dir()])  # only folders have repeats
    return groups


def _judged(dataset_name: str | None, qrels: str | None, turns: str | None, paths: Sequence[str]) -> dict[str, dict[str, int]]:
    """The judgements by turn."""
    from ..evaluation.evaluator import judgements_by_turn

    if dataset_name is None and turns is None and qrels is not None:  # without a frame, see below
        from ..store.trec import read_judgements

        return judgements_by_turn(read_judgements(qrels))
    return judgements_by_turn(judged_by(dataset_name, qrels, turns, paths).itertuples(index=False, name=None))


def _ranking(name: str, path: Path) -> Mapping[str, Mapping[str, float]]:
    """The scores of a run by turn. A run file is read without a frame, because importing pandas takes longer than reading it."""
    from ..store.trec import is_run_file, read_rankings

    if is_run_file(path):
        return read_rankings(path)
    from ..evaluation.finished_runs import ranking_of, results_of

    return ranking_of(name, results_of(name, path))


def _show_statements(paths: Sequence[str], dataset_name: str, judged: "pd.DataFrame", form: str) -> None:
    """Show the scores of the PTKB statements that runs (folders or submissions) chose."""
    from ..evaluation.evaluator import name_runs
    from ..evaluation.ptkb import evaluate_ptkb
    from ..submit import read_submission

    dataset = dataset_named(dataset_name)
    systems = {name: read_submission(path, dataset).turns if path.is_file() else path for name, path in name_runs(paths).items()}
    show(of_frame(evaluate_ptkb(systems, judged)), form)


def _show_responses(
    paths: Sequence[str], dataset_name: str, turns: Sequence[str] | None, index_path: str | None, judges: Sequence[Any], form: str
) -> None:
    """The mean of each judge over the responses in run folders."""
    import pandas as pd

    from ..evaluation.response_judges import NuggetRecall
    from ..evaluation.responses import evaluate_responses, response_means, response_turns

    data = dataset_named(dataset_name)
    wanted, texts = response_turns(data.conversations, turns), text_loader_of(index_path)
    if hasattr(data, "get_nuggets") and any(isinstance(judge, NuggetRecall) for judge in judges):
        gold = data.get_nuggets()
        click.echo(f"nugget recall: all {len(gold)} nuggets of {data.name}; get_nuggets('deduplicated') in Python has fewer", err=True)
        nuggets = gold.groupby("qid")["nugget"].agg(list)
        wanted["gold_nuggets"] = [nuggets.get(qid, []) for qid in wanted["qid"]]
    tables = []
    for name, answers in _responses(paths, data, texts):
        if answers is None:
            raise UsageError(f"{name} has no responses: its system writes none")
        tables.append(response_means(evaluate_responses(wanted, answers, judges)).assign(run=Path(name).name))
    table = pd.concat(tables)
    asked = {judge.name: judge.llm.model if hasattr(judge, "llm") else getattr(judge, "model", "") for judge in judges}
    models = {"model": [asked[name] for name in table["judge"]]} if any(asked.values()) else {}
    table = table.assign(**models)
    show(of_frame(table[["run", "judge", *models, *(name for name in table.columns if name not in ("run", "judge", *models))]]), form)


def _responses(paths: Sequence[str], data: Any, texts: Any) -> "Iterator[tuple[str, pd.DataFrame | None]]":
    """The name and the responses of each run, from folders or from the dataset."""
    from ..papers.paper_scores import answers_of
    from ..runs import RunFolder

    if _is_published(paths, data, "get_responses"):
        yield from data.get_responses().groupby("run")
        return
    for path in paths:
        yield path, answers_of(RunFolder(path), texts)


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


def _show_nuggets(paths: Sequence[str], dataset_name: str, turns: Sequence[str] | None, form: str) -> None:
    """The mean share of nuggets that each run states, according to people's labels."""
    import pandas as pd

    from ..evaluation.nugget_labels import nugget_scores

    data: Any = dataset_named(dataset_name)
    if not _is_published(paths, data, "get_nugget_labels"):
        raise UsageError(
            f"--of nuggets shows the labels of people: give {PUBLISHED} in place of RUNs; `--of responses --judge nuggets` judges"
        )
    labels = data.get_nugget_labels().drop(columns="nugget")  # a turn may have two nuggets with the same words
    labels = labels if turns is None else labels[labels["qid"].isin(turns)]
    rows = []
    for run, found in labels.groupby("run"):
        scores = nugget_scores(found)
        rows.append({"run": run, "recall": scores["all"].mean(), "turns": len(scores), "nuggets": int(scores["nuggets"].sum())})
    if not rows:
        raise UsageError(f"no turn has nugget labels in {data.name}: give other --turns")
    show(of_frame(pd.DataFrame(rows)), form)


def _show_actions(paths: Sequence[str], dataset_name: str, wanted: Sequence[str] | None, form: str) -> None:
    """Whether run folders abstain and ask back when they should. CSV has only the first table."""
    from ..evaluation.actions import count_actions
    from ..evaluation.actions import evaluate_actions as evaluated
    from ..evaluation.evaluator import name_runs

    answers = dataset_named(dataset_name).get_answers()
    if wanted is not None:
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
        shown[measure] = [
            f"{format_score(value)} [{format_score(low)}, {format_score(high)}]" if value == value else "" for value, low, high in triples
        ]
    return Table(scores, of_frame(shown).columns, ["In brackets: intervals of 95 %."])


def _judges(names: Sequence[str], spec: str | None) -> list[Any]:
    """The judges of responses."""
    from ..evaluation import response_judges
    from ..evaluation.citation_judges import CitedSentences, ExistingCitations
    from ..evaluation.reference_judges import AnswerEquivalence, RougeL, TokenF1
    from ..llms import llm

    folders = [name.removeprefix(BEM) for name in names if name.startswith(BEM)]
    named = [name for name in names if not name.startswith(BEM)]
    asking = [name for name in named if name not in WITHOUT_LLM]
    if unknown := [name for name in named if name not in JUDGES]:
        near = did_you_mean(unknown[0], JUDGES) or f"choose among {', '.join(JUDGES)}, or give bem=FOLDER"
        raise UsageError(f"--judge {unknown[0]} is unknown: {near}")
    if asking and spec is None:
        raise UsageError(f"--judge {asking[0]} needs a language model: give --llm")
    model = None if spec is None else llm(spec)
    classes = ("Groundedness", "Completeness", "Relevance", "Naturalness", "Preference", "Correctness")
    known = {name.casefold(): getattr(response_judges, name) for name in classes} | {"nuggets": response_judges.NuggetRecall}
    plain = dict(zip(WITHOUT_LLM, (RougeL, TokenF1, CitedSentences, ExistingCitations), strict=True))
    found: list[Any] = [plain[name]() for name in (named if names else ["rouge-l"]) if name in plain]
    return found + [known[name](model) for name in asking] + [AnswerEquivalence(folder) for folder in folders]
