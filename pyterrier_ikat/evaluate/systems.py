"""What is compared: names, turns and files checked before anything is run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyterrier as pt

from ..conversations import find_dataset
from ..conversations.dataset import IkatDataset
from ..errors import DataError, UsageError
from .figures import RANKING
from .qrels import check_qrels
from .same_turns import check_form, check_shared
from .text_ids import with_text_ids

System: TypeAlias = "pt.Transformer | pd.DataFrame"


def named_systems(systems: Mapping[str, System] | Sequence[System], names: Sequence[str] | None) -> dict[str, System]:
    """Name -> system, each name once.

    Raises:
        UsageError: when names are missing, repeated or blank, or there is no system.
    """
    if isinstance(systems, Mapping):
        if names is not None:
            raise UsageError("the systems have names already: leave names=... out, or give the systems as a list")
        named = dict(systems)
    else:
        if isinstance(systems, str) or not isinstance(systems, Sequence | pt.Transformer | pd.DataFrame):
            raise UsageError(f'the systems are a {type(systems).__name__}: give {{"name": system, ...}}, or a list and names=[...]')
        given = [systems] if isinstance(systems, pt.Transformer | pd.DataFrame) else list(systems)
        if names is None or isinstance(names, str) or len(names) != len(given):
            raise UsageError(f'{len(given)} systems need a list of {len(given)} names: give {{"name": system, ...}}, or names=[...]')
        named = dict(zip(names, given, strict=True))
        if len(named) < len(given):
            twice = next(name for name in names if list(names).count(name) > 1)
            raise UsageError(f"two systems are named {twice!r}: give each its own name")
    if not named:
        raise UsageError("there is no system: give at least one")
    for name in named:
        if not isinstance(name, str) or len(name.strip()) == 0:
            raise UsageError(f"a system is named {name!r}: a name is a text that is not blank")
    return named


def turns_and_qrels(
    dataset: IkatDataset | str | None, topics: pd.DataFrame | None, qrels: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The judged turns among the topics, and the judgements.

    Raises:
        UsageError: when there is neither dataset nor both frames.
        DataError: when a turn or judgement is there twice, or a judged turn is not among the topics.
    """
    data: Any = find_dataset(dataset) if isinstance(dataset, str) else dataset
    if data is None and (topics is None or qrels is None):
        raise UsageError('there is nothing to run or evaluate on: give a dataset such as "ikat:sample", or topics=... and qrels=...')
    turns = data.get_topics() if topics is None else topics
    judged = check_qrels(data.get_qrels() if qrels is None else qrels)
    pt.validate.query_frame(turns)
    turns = with_text_ids("the topics frame", turns, ["qid"])
    twice = turns["qid"].duplicated()
    if twice.any():
        raise DataError(f"the topics have turn {turns['qid'][twice].iloc[0]} twice: keep one")
    check_form("the topics frame", turns["qid"], judged["qid"])
    lacking = [qid for qid in judged["qid"].drop_duplicates() if qid not in set(turns["qid"])]
    if lacking:
        shown = ", ".join(map(str, lacking[:3])) + ", ..." * (len(lacking) > 3)
        raise DataError(
            f"{len(lacking)} turns of the qrels are not in the topics ({shown}): they would all count 0; give the topics they "
            'belong to, or leave them out by qrels[qrels["qid"].isin(topics["qid"])]'
        )
    return turns[turns["qid"].isin(judged["qid"])].reset_index(drop=True), judged


def check_system(name: str, system: System, turns: pd.DataFrame) -> None:
    """Whether a system makes a ranking of these turns, or is one; nothing is run.

    Raises:
        UsageError: when it doesn't.
        DataError: when a finished run is about other turns.
    """
    if isinstance(system, pd.DataFrame):
        named = system["qid"].unique() if "qid" in system.columns else []
        check_form(f"run {name}", named, turns["qid"])
        check_shared(f"run {name}", named, turns["qid"])
        found = list(system.columns)
    elif isinstance(system, pt.Transformer):
        try:
            found = pt.inspect.transformer_outputs(system, list(turns.columns))
        except pt.inspect.InspectError:  # a stage that cannot be asked without data; the ranking is checked when it is there
            return
        except pt.validate.InputValidationError as error:
            raise UsageError(f"system {name} does not work on these topics: {error}") from error
    else:
        raise UsageError(f"system {name} is a {type(system).__name__}: give a pipeline or a result frame")
    if "qid_0" in found:
        raise UsageError(
            f"system {name} ends in sub-queries, whose passages belong to no turn: "
            "end it with ikat.Interleave, Pool, RRF, MeanScore or RerankBy"
        )
    lacking = [column for column in RANKING if column not in found]
    if lacking:
        raise UsageError(f"system {name} makes no ranking: its result has no {', '.join(lacking)}; end it with a retriever or re-ranker")


def run_files(folder: str | Path | None, named: Mapping[str, System]) -> dict[str, Path]:
    """Name -> run file in ``folder``; none without a folder.

    Raises:
        UsageError: when a name can't be a file's, or a file is there already.
    """
    if folder is None:
        return {}
    for name in named:
        if Path(name).name != name or name.startswith(".") or len(name.split()) != 1:
            raise UsageError(f"a run file cannot be named {name!r}: save systems under names without slash, white space or leading dot")
    files = {name: Path(folder) / f"{name}.trec" for name in named}
    there = [str(path) for path in files.values() if path.exists()]
    if there:
        raise UsageError(f"{there[0]} is there already: choose another folder, or remove it")
    return files
