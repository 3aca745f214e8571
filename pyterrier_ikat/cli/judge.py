"""Commands that judge passages with an LLM, compare judgements, and write and check submissions."""

from pathlib import Path
from typing import Any

import click

from ..errors import DataError, UsageError, counted
from .main import (
    TEXTS,
    TURNS,
    dataset_named,
    judged_by,
    load_runs,
    main,
    tell_circular,
    text_loader_of,
    turns_of,
)


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
    """Judge the pooled top passages of RUNs, or given pairs, with an LLM; or compare labels with --agree.

    The prompt has one example, or is UMBRELA's. The command writes a qrels file and, beside it,
    FILE.json, which names the judge for `ikat paper`. If the dataset has qrels, only their turns
    are judged. Choose other turns with --turns.

    --agree shows confusion matrices, agreement and Cohen's kappa (from label 2 on, a passage is
    relevant), and with RUNs how alike both orders of the runs are (Kendall's tau).

    --fill first labels up to 200 judged passages and prints how far the model agrees with people.
    Then it labels the passages that nobody judged; the file also has the labels of people. `ikat
    evaluate` repeats the agreement beside scores with these labels.
    """
    from ..evaluation import agreement

    data, runs, agree = (
        dataset_named(dataset_name),
        load_runs(paths) if paths else {},
        given.pop("agree"),
    )
    others = (
        None if agree is None else _qrels(agree, data)
    )  # a wrong name shows before a model is paid
    if pairs is not None and llm_spec is None and out is None and others is not None:
        labels = _qrels(pairs, data)
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
        labels = _judge(runs, pairs, data, llm_spec, Path(out), **given)
    if others is not None:
        click.echo(str(agreement(labels, others, runs=runs)))


def _judge(
    runs: Any,
    pairs: Any,
    data: Any,
    llm_spec: str,
    out: Path,
    *,
    fill: bool,
    style: str,
    index_path: Any,
    turns: Any,
    depth: int,
) -> Any:
    from ..conversations import write_qrels
    from ..conversations.qrels import write_judge
    from ..evaluation import Judge, UmbrelaJudge, fill_holes, pool_runs, with_gold
    from ..llms import llm

    if out.exists():
        raise UsageError(
            f"{out} exists, and its labels may have cost money: choose another --out, or remove it"
        )
    if fill:
        filled = fill_holes(
            runs,
            data,
            llm(llm_spec),
            judged_by(data.name, None, turns),
            depth,
            text_loader_of(index_path),
            click.echo,
        )
        write_qrels(filled.qrels, out)
        write_judge(out, filled.model, "fill", filled=str(filled))
        click.echo(f"{out}: {filled}")
        return filled.labels
    pooled = pool_runs(runs, depth) if pairs is None else _qrels(pairs, data)[["qid", "docno"]]
    if (wanted := turns_of(data.name, turns)) is not None:
        pooled = pooled[pooled["qid"].isin(wanted)].reset_index(drop=True)
    elif pairs is None:
        pooled = pooled[~pooled["qid"].isin(_unjudged(data))].reset_index(drop=True)
    if pooled.empty:
        raise UsageError("the runs have none of the turns to judge: give --turns, or other RUNs")
    model = llm(llm_spec)
    made = UmbrelaJudge(model) if style == "umbrela" else Judge(model)
    judged = made.transform(with_gold(pooled, data, text_loader_of(index_path)))
    write_qrels(judged, out)
    write_judge(out, model.model, style)
    click.echo(
        f"{out}: {len(judged)} of {counted(len(pooled), 'passage')} judged, {len(pooled) - len(judged)} without a usable label"
    )
    return judged[["qid", "docno", "label"]]


def _qrels(name: str, data: Any) -> Any:
    from ..conversations.datasets import find_qrels

    return find_qrels(None if name == "default" else name, data)


def _unjudged(data: Any) -> set[str]:
    """The turns that the dataset doesn't judge (Generate then Retrieve, section 4); none if it has no qrels."""
    try:
        judged = set(data.get_qrels()["qid"])
    except DataError:
        return set()
    return set(data.get_topics()["qid"]) - judged if judged else set()


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
    help="automatic or manual; 2024 also only_response; 2025 generation-only; MTRAG: retrieval, generation or rag; for all: autojudge",
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
    from ..submit import (
        check_predictions,
        validate,
        write_predictions,
        write_reports,
        write_submission,
    )
    from ..submit.problem import format_problems, select_errors

    of_mtrag, data = dataset_name.startswith(MTRAG_PREFIX), dataset_named(dataset_name)
    if check is not None:
        problems = check_predictions(check, data) if of_mtrag else validate(check, data)
        wrong = len(select_errors(problems))
        summary = f"{check}: {counted(wrong, 'error')}, {counted(len(problems) - wrong, 'warning')}"
        click.echo("\n".join([*format_problems(problems), summary]))
        raise click.exceptions.Exit(1 if wrong else 0)
    if folder is None or about["run_type"] is None or out is None:
        raise UsageError("give RUN, --run-type and --out, or --check FILE")
    if about["run_type"] == "autojudge":
        problems = write_reports(RunFolder(folder), out, run_id=about["run_id"], team=about["team"])
    elif of_mtrag:
        problems = write_predictions(RunFolder(folder), data, out, run_type=about["run_type"])
    elif about["run_id"] is None:
        raise UsageError("a submission needs a name: give --run-id")
    else:
        problems = write_submission(RunFolder(folder), data, out, **about)
    for line in format_problems(problems):
        click.echo(line, err=True)
    click.echo(out)
