"""Commands that judge passages with an LLM, compare judgements, and write and check submissions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DataError, UsageError, counted
from .main import (
    TEXTS,
    TURNS,
    dataset_named,
    judged_by,
    load_runs,
    main,
    print_ledger,
    show,
    tell_circular,
    text_loader_of,
    turns_of,
)

if TYPE_CHECKING:
    from ..llms import Ledger


@main.command(
    section="Evaluate",
    example="""\
ikat judge runs/* --dataset ikat:2023-mini --index mini.index \\
    --llm openai:gpt-4o --out judged.qrels
ikat judge --pairs judged.qrels --agree default --dataset ikat:2023
ikat judge runs/* --pairs gpt4 --agree default --dataset ikat:2024
ikat judge --fill runs/new --dataset ikat:2023 \\
    --index full.index --llm openai:gpt-4o --out filled.qrels""",
)
@click.argument("paths", nargs=-1, metavar="[RUN]...")
@click.option(
    "--pairs",
    metavar="QRELS",
    help="judge the pairs of these qrels again, instead of RUNs; without --llm take their labels",
)
@click.option(
    "--fill",
    is_flag=True,
    help="judge only passages that nobody judged, with judged ones of the turn as examples",
)
@click.option(
    "--style",
    type=click.Choice(["one-shot", "umbrela"]),
    default="one-shot",
    show_default=True,
    help="the prompt",
)
@click.option(
    "--dataset",
    "dataset_name",
    required=True,
    help="dataset with the utterances of the turns, such as ikat:2023-mini",
)
@click.option("--llm", "llm_spec", help="the language model that judges, such as openai:gpt-4o")
@TEXTS
@TURNS
@click.option(
    "--depth", default=10, show_default=True, help="number of passages to judge per run and turn"
)
@click.option("--out", type=click.Path(), help="file for the new qrels")
@click.option(
    "--agree",
    metavar="QRELS",
    help="compare the labels with these: a TREC qrels file, or default, gpt4, ... of the dataset",
)
def judge(
    paths: tuple[str, ...],
    pairs: str | None,
    dataset_name: str,
    llm_spec: str | None,
    out: str | None,
    **given: Any,
) -> None:
    """Judge the pooled top passages of RUNs, or pairs of qrels, with an LLM; or compare labels.

    The prompt has one example, or is UMBRELA's. The command writes a qrels file and, beside it,
    FILE.json, which names the judge for `ikat paper`. If the dataset has qrels, only their turns
    are judged. Choose other turns with --turns.

    --agree shows confusion matrices, agreement and Cohen's kappa (from label 2 on, a passage is
    relevant), and with RUNs how alike both orders of the runs are (Kendall's tau).

    --fill first labels up to 200 judged passages and prints how far the model agrees with people.
    Then it labels the passages that nobody judged; the file also has the labels of people. `ikat
    evaluate` repeats the agreement beside scores with these labels.
    """
    from ..conversations.datasets import of_turns
    from ..evaluation import agreement
    from ..llms import Ledger

    data = dataset_named(dataset_name)
    runs = load_runs(paths) if paths else {}
    agree = given.pop("agree")
    # Read first: a wrong name shows before a model is paid.
    others = None if agree is None else _qrels(agree, data)
    is_comparison = llm_spec is None and out is None and not given["fill"]
    if pairs is not None and others is not None and is_comparison:
        labels = of_turns(_qrels(pairs, data), given["turns"], f"the qrels {pairs}")
    elif llm_spec is None or out is None:
        raise UsageError(
            "give --llm and --out to judge, or --pairs QRELS and --agree QRELS to compare labels"
        )
    elif bool(runs) == (pairs is not None):
        raise UsageError(
            "give RUNs to judge their top passages, or --pairs QRELS to judge the pairs of qrels"
        )
    elif given["fill"] and (pairs is not None or given["style"] != "one-shot"):
        raise UsageError("--fill takes RUNs and has a prompt of its own: omit --pairs and --style")
    else:
        tell_circular([llm_spec], paths)
        ledger = Ledger()
        try:
            labels = _judge(runs, pairs, data, llm_spec, Path(out), ledger, **given)
        finally:
            print_ledger(ledger, err=True)
    if others is not None:
        for number, table in enumerate(agreement(labels, others, runs=runs).tables()):
            if number:
                click.echo()
            show(table)


def _judge(
    runs: Any,
    pairs: Any,
    data: Any,
    llm_spec: str,
    out: Path,
    ledger: "Ledger",
    *,
    fill: bool,
    style: str,
    index_path: Any,
    turns: Any,
    depth: int,
) -> Any:
    """Judge, write the qrels and who judged them, and return the labels."""
    from ..conversations import write_qrels
    from ..conversations.qrels import write_judge
    from ..evaluation import Judge, UmbrelaJudge, fill_holes, with_gold
    from ..llms import llm

    if out.exists():
        raise UsageError(
            f"{out} exists, and its labels may have cost money: choose another --out, or remove it"
        )
    texts = text_loader_of(index_path)
    model = llm(llm_spec, ledger=ledger)
    if fill:
        judged = judged_by(data.name, None, turns)
        filled = fill_holes(runs, data, model, judged, depth, texts, click.echo)
        write_qrels(filled.qrels, out)
        write_judge(out, filled.model, "fill", filled=str(filled))
        click.echo(f"{out}: {filled}")
        return filled.labels
    pooled = _pairs_to_judge(runs, pairs, data, turns, depth)
    by = UmbrelaJudge(model) if style == "umbrela" else Judge(model)
    judged = by.transform(with_gold(pooled, data, texts))
    write_qrels(judged, out)
    write_judge(out, model.model, style)
    failed = len(pooled) - len(judged)
    click.echo(
        f"{out}: {len(judged)} of {counted(len(pooled), 'passage')} judged, {failed} without a "
        "usable label"
    )
    return judged[["qid", "docno", "label"]]


def _pairs_to_judge(runs: Any, pairs: Any, data: Any, turns: Any, depth: int) -> Any:
    """The (qid, docno) pairs of the runs' top passages, or of qrels, that are to be judged."""
    from ..evaluation import pool_runs

    pooled = pool_runs(runs, depth) if pairs is None else _qrels(pairs, data)[["qid", "docno"]]
    wanted = turns_of(data.name, turns)
    if wanted is not None:
        pooled = pooled[pooled["qid"].isin(wanted)]
    elif pairs is None:
        pooled = pooled[~pooled["qid"].isin(_unjudged(data))]
    if pooled.empty:
        raise UsageError("the runs have none of the turns to judge: give --turns, or other RUNs")
    return pooled.reset_index(drop=True)


def _qrels(name: str, data: Any) -> Any:
    """The qrels in a file or of the dataset."""
    from ..conversations.datasets import find_qrels

    return find_qrels(None if name == "default" else name, data)


def _unjudged(data: Any) -> set[str]:
    """The turns that the dataset doesn't judge; none if it has no qrels.

    Source: Generate then Retrieve, section 4.
    """
    try:
        judged = set(data.get_qrels()["qid"])
    except DataError:
        return set()
    if not judged:
        return set()
    return set(data.get_topics()["qid"]) - judged


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
@click.option(
    "--run-type",
    help="automatic or manual; 2024 also only_response; 2025 generation-only; MTRAG: retrieval, "
    "generation or rag; for all: autojudge",
)
@click.option("--team", help="the team's id, for 2025 and autojudge only")
@click.option("--out", type=click.Path(), help="the file to write")
@click.option(
    "--check",
    type=click.Path(),
    metavar="FILE",
    help="check this submission, of any system, and write nothing",
)
def submit(
    folder: str | None, dataset_name: str, out: str | None, check: str | None, **about: Any
) -> None:
    """Write the submission of RUN, a folder made by `ikat run`, or check a submission.

    A submission with errors is not written. `--check` checks any file, and errors end with code 1.
    The submission of a run on MTRAG has the format that IBM's evaluation scripts read. With
    --run-type autojudge, RUN becomes the reports that judges of TREC's AutoJudge read, of any
    dataset. (An interactive run needs none: its responses are on the track's server.)
    """
    from ..conversations.benchmarks import MTRAG_PREFIX
    from ..runs import RunFolder
    from ..submit import write_predictions, write_reports, write_submission
    from ..submit.problem import format_problems

    is_mtrag = dataset_name.startswith(MTRAG_PREFIX)
    data = dataset_named(dataset_name)
    run_type = about["run_type"]
    run_id = about["run_id"]
    if check is not None:
        if folder is not None or out is not None:
            raise UsageError("--check writes nothing: omit RUN and --out")
        _check_file(check, data, run_type, is_mtrag)
        return
    if folder is None or run_type is None or out is None:
        raise UsageError("give RUN, --run-type and --out, or --check FILE")
    run = RunFolder(folder)
    if run_type == "autojudge":
        problems = write_reports(run, out, run_id=run_id, team=about["team"])
    elif is_mtrag:
        problems = write_predictions(run, data, out, run_type=run_type)
    elif run_id is None:
        raise UsageError("a submission needs a name: give --run-id")
    else:
        problems = write_submission(run, data, out, **about)
    for line in format_problems(problems):
        click.echo(line, err=True)
    click.echo(out)


def _check_file(path: str, data: Any, run_type: str | None, is_mtrag: bool) -> None:
    """Print the problems of a submission. Errors end the command with code 1."""
    from ..submit import check_predictions, validate
    from ..submit.problem import format_problems, select_errors

    problems = check_predictions(path, data, run_type) if is_mtrag else validate(path, data)
    errors = len(select_errors(problems))
    for line in format_problems(problems):
        click.echo(line)
    click.echo(f"{path}: {counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}")
    raise click.exceptions.Exit(1 if errors else 0)
