"""Commands that judge passages with an LLM, compare judgements, and write and check submissions."""

import sys
from pathlib import Path

import click

from ..errors import UsageError, counted
from .main import main
from .options import FORMAT, JUDGED_TURNS, TEXTS, TURNS, dataset_named, load_runs, text_loader_of, turns_of, unjudged_turns
from .output import show


@main.command(
    section="Evaluate",
    example="ikat judge runs/* --dataset ikat:2023-mini --index mini.index \\\n    --llm openai:gpt-4o --out judged.qrels",
)
@click.argument("paths", nargs=-1, metavar="RUN...")
@click.option("--pairs", type=click.Path(), help="judge the pairs of this qrels file again, instead of RUNs")
@click.option(
    "--style",
    type=click.Choice(["one-shot", "umbrela"]),
    default="one-shot",
    show_default=True,
    help="the prompt: one example, or UMBRELA's",
)
@click.option("--dataset", "dataset_name", required=True, help="dataset with the utterances of the turns, such as ikat:2023-mini")
@click.option("--llm", "llm_spec", required=True, help="the language model that judges, such as openai:gpt-4o")
@TEXTS
@JUDGED_TURNS
@TURNS
@click.option("--depth", default=10, show_default=True, help="number of passages to judge per run and turn")
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
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
    """Judge the pooled top passages of RUNs, or given pairs, with an LLM.

    The command writes a qrels file and, beside it, FILE.json, which names the judge for `ikat paper`. If the dataset has qrels, only their
    turns are judged. Choose other turns with --turns or --qrels.
    """
    if Path(out).exists():
        raise UsageError(f"{out} exists, and its labels may have cost money: choose another --out, or remove it")
    if bool(paths) == (pairs is not None):
        raise UsageError("give RUNs to judge their top passages, or --pairs FILE to judge the pairs of a qrels file")
    from ..conversations import write_qrels
    from ..conversations.qrels import read_qrels, write_judge
    from ..evaluation import Judge, UmbrelaJudge, pool_runs, with_gold
    from ..llms import llm

    pooled = pool_runs(load_runs(paths), depth) if pairs is None else read_qrels(Path(pairs))[["qid", "docno"]]
    if (wanted := turns_of(dataset_name, qrels, turns)) is not None:
        pooled = pooled[pooled["qid"].isin(wanted)].reset_index(drop=True)
    elif pairs is None:
        pooled = pooled[~pooled["qid"].isin(unjudged_turns(dataset_name))].reset_index(drop=True)
    if pooled.empty:
        raise UsageError("the runs have none of the turns to judge: give --turns, or other RUNs")
    model = llm(llm_spec)
    made = UmbrelaJudge(model) if style == "umbrela" else Judge(model)
    judged = made.transform(with_gold(pooled, dataset_named(dataset_name), text_loader_of(index_path)))
    write_qrels(judged, out)
    write_judge(out, model.model, style)
    click.echo(f"{out}: {len(judged)} of {counted(len(pooled), 'passage')} judged, {len(pooled) - len(judged)} without a usable label")


@main.command(
    section="Evaluate",
    example="""\
ikat agree judged.qrels official.qrels runs/raw runs/human_qr
ikat agree gpt4 default --dataset ikat:2024""",
)
@click.argument("first")
@click.argument("second")
@click.argument("paths", nargs=-1, metavar="[RUN]...")
@click.option("--threshold", default=2, show_default=True, help="the lowest label that counts as relevant")
@click.option("--dataset", "dataset_name", help="dataset whose qrels can be named instead of a file: default, gpt4, provenance, ...")
@FORMAT
def agree(first: str, second: str, paths: tuple[str, ...], threshold: int, dataset_name: str | None, form: str) -> None:
    """Compare two qrels files: confusion matrix, agreement, Cohen's kappa.

    With --dataset, the dataset's qrels can be named instead of a file. With RUNs, the command also compares how both files rank the runs
    (Kendall's tau). In CSV, only the matrix of all labels is printed.
    """
    from ..conversations.choice import find_qrels
    from ..conversations.qrels import read_qrels
    from ..evaluation import agreement

    runs = load_runs(paths) if paths else None
    if dataset_name is None:
        ours, theirs = read_qrels(Path(first)), read_qrels(Path(second))
    else:
        data = dataset_named(dataset_name)
        ours, theirs = (find_qrels(None if name == "default" else name, data) for name in (first, second))
    graded, binary = agreement(ours, theirs, threshold, runs=runs).tables()
    show(graded, form)
    if form != "csv":
        click.echo()
        show(binary, form)


@main.command(
    section="Submit",
    example="""\
ikat submit runs/rtg --dataset ikat:2025 --run-id rtg \\
    --run-type automatic --team OURS --out rtg.jsonl
ikat submit runs/decide --dataset mtrag:mini --run-type rag --out d.jsonl
ikat submit --check rtg.jsonl --dataset ikat:2025""",
)
@click.argument("folder", metavar="RUN", type=click.Path(), required=False)
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@click.option("--run-id", help="the run's name, without spaces; predictions for MTRAG have none")
@click.option("--run-type", help="automatic or manual; 2024 also only_response; 2025 generation-only; MTRAG: retrieval, generation or rag")
@click.option("--team", help="the team's id, for 2025 only")
@click.option("--out", type=click.Path(), help="the file to write")
@click.option("--check", type=click.Path(), metavar="FILE", help="check this submission, of any system, and write nothing")
def submit(
    folder: str | None, dataset_name: str, run_id: str | None, run_type: str | None, team: str | None, out: str | None, check: str | None
) -> None:
    """Write the submission of RUN, a folder made by `ikat run`, or check a submission.

    A submission with errors is not written. `--check` checks any file, and errors end with code 1. The submission of a run on MTRAG has the
    format that IBM's evaluation scripts read. (An interactive run needs none: its responses are on the track's server.)
    """
    from ..conversations.mtrag import PREFIX
    from ..runs import RunFolder
    from ..submit import write_predictions, write_submission
    from ..submit.problem import format_problems

    if check is not None:
        _check_submission(check, dataset_name)
        return
    if folder is None or run_type is None or out is None:
        raise UsageError("give RUN, --run-type and --out, or --check FILE")
    if dataset_name.startswith(PREFIX):
        problems = write_predictions(RunFolder(folder), dataset_named(dataset_name), out, run_type=run_type)
    elif run_id is None:
        raise UsageError("a submission needs a name: give --run-id")
    else:
        problems = write_submission(RunFolder(folder), dataset_named(dataset_name), out, run_id=run_id, run_type=run_type, team=team)
    for line in format_problems(problems):
        click.echo(line, err=True)
    click.echo(out)


def _check_submission(path: str, dataset_name: str) -> None:
    """Print the problems of a submission, and exit with code 1 if it has errors."""
    from ..conversations.mtrag import PREFIX
    from ..submit import check_predictions
    from ..submit import validate as check_submission
    from ..submit.problem import format_problems, select_errors

    check = check_predictions if dataset_name.startswith(PREFIX) else check_submission
    problems = check(path, dataset_named(dataset_name))
    wrong = len(select_errors(problems))
    for line in format_problems(problems):
        click.echo(line)
    click.echo(f"{path}: {counted(wrong, 'error')}, {counted(len(problems) - wrong, 'warning')}")
    if wrong:
        sys.exit(1)
