"""What `ikat evaluate` shows of runs beside their passages: statements, responses, actions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..tables import Table, of_frame
from .main import dataset_named
from .output import show

if TYPE_CHECKING:
    import pandas as pd

JUDGES = ("rouge-l", "groundedness", "completeness", "relevance", "naturalness", "preference", "nuggets")
OF = ("passages", "statements", "responses", "actions")
TAKEN_BY = {
    "passages": {"qrels", "turns", "measures", "baseline", "pairwise", "samples"},
    "statements": {"qrels", "turns"},
    "responses": {"qrels", "turns", "judges", "llm", "bem", "index"},
    "actions": {"turns"},
}
"""What is evaluated -> the options that it takes beside the dataset."""


def check_options(of: str, **given: Any) -> None:
    """Check that what is evaluated takes the options.

    Raises:
        UsageError: when it doesn't, or lacks its dataset.
    """
    for name, value in given.items():
        if value and name not in TAKEN_BY[of] and name != "dataset":
            others = " and ".join(other for other in OF if name in TAKEN_BY[other])
            raise UsageError(f"--{name.removesuffix('s') if name == 'judges' else name} is for {others}: omit it with --of {of}")
    if of != "passages" and not given["dataset"]:
        raise UsageError(f"--of {of} needs the dataset: give --dataset, such as ikat:2023-mini")


def show_statements(paths: Sequence[str], dataset_name: str, judged: "pd.DataFrame", form: str) -> None:
    """The PTKB statements that runs, which are folders or submissions, chose."""
    from ..evaluation.ptkb import evaluate_ptkb
    from ..store.trec import name_runs
    from ..submit import read_submission

    dataset = dataset_named(dataset_name)
    systems = {name: read_submission(path, dataset).turns if path.is_file() else path for name, path in name_runs(paths).items()}
    show(of_frame(evaluate_ptkb(systems, judged)), form)


def show_responses(
    paths: Sequence[str], dataset_name: str, turns: Sequence[str] | None, form: str, index_path: str | None, **judging: Any
) -> None:
    """The mean of each judge over the responses in run folders."""
    import pandas as pd

    from ..evaluation.responses import evaluate_responses as judge_all
    from ..evaluation.responses import response_means, response_turns
    from ..papers.responses import answers_of
    from ..retrieve import Index
    from ..runs import RunFolder

    judges = _judges(**judging)
    wanted = response_turns(dataset_named(dataset_name).conversations, turns)
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


def show_actions(paths: Sequence[str], dataset_name: str, wanted: Sequence[str] | None, form: str) -> None:
    """Whether run folders abstain and ask back where they should; csv has the first table alone."""
    from ..evaluation.actions import count_actions
    from ..evaluation.actions import evaluate_actions as evaluated
    from ..store.trec import name_runs

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
        shown[measure] = [f"{value:.3f} [{low:.3f}, {high:.3f}]" if value == value else "" for value, low, high in triples]
    return Table(scores, of_frame(shown).columns, ["In brackets: intervals of 95 %."])


def _judges(judges: Sequence[str], llm: str | None, bem: str | None) -> list[Any]:
    from ..evaluation import response_judges
    from ..evaluation.answer_equivalence import AnswerEquivalence
    from ..evaluation.responses import RougeL
    from ..llms import llm as model_of

    asking = [name for name in judges if name != "rouge-l"]
    if asking and llm is None:
        raise UsageError(f"--judge {asking[0]} needs a language model: give --llm")
    model = None if llm is None else model_of(llm)
    names = ("Groundedness", "Completeness", "Relevance", "Naturalness", "Preference")
    known = {name.casefold(): getattr(response_judges, name) for name in names} | {"nuggets": response_judges.NuggetRecall}
    found: list[Any] = [RougeL()] if "rouge-l" in judges or not (judges or bem) else []
    return found + [known[name](model) for name in asking] + ([AnswerEquivalence(bem)] if bem else [])
