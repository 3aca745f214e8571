"""Systems of any kind, run or planned: names of methods, decorated functions, any PyTerrier pipelines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..conversations.datasets import IkatDataset
from ..errors import UsageError
from ..methods import Method, find_all, methods_of
from ..planning import PlanTable
from .session import Session

System = str | Method | Callable[..., pt.Transformer] | pt.Transformer
Systems = System | Mapping[str, System] | Sequence[System]


@checked
def run(
    systems: Systems,
    dataset: IkatDataset | str | None = None,
    *,
    out: str | Path,
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | str | None = None,
    turns: Sequence[str] | str | None = None,
    batch: int | None = None,
    baseline: str | None = None,
    **resources: Any,
) -> pd.DataFrame:
    """Run systems on a dataset; each leaves a folder in ``out`` that resumes, with its ranking, turns, scores and ledger.

    A run that is there already is not made again, and one that was stopped goes on behind its last finished batch of turns. What was
    made by other models, prompts, passages, topics or stages is refused. Stages are told apart by their repr. A stage of another package
    whose repr lacks what it does, such as a function in ``pt.apply``, is named by an ``AlikeWarning`` when what it left is used again.

    Stages at the beginning that say ``one_row_per_turn`` get all turns at once; the others, and all stages of other packages, get
    ``batch`` turns at a time, and have to look at each turn by itself.

    Args:
        systems: name -> system; or one system, or a list of such as have a name. A system is the name of a method (``"aqd"``), a file of
            methods (``"my_systems.py"``, ``"my_systems.py:gate"``), a function whose arguments name resources, or any PyTerrier pipeline.
        dataset: an iKAT dataset or its name.
        out: the folder of the runs.
        topics: the turns, in place of the dataset's; scores are over the judged ones among them.
        qrels: the judgements, or the variant of the dataset's.
        turns: only these turns.
        batch: turns at a time behind the first stages, 128 by default.
        baseline: the system that the others are compared with.
        **resources: what methods take, as text or as an object: ``index``, ``llm``, ``second_llm``, ``retriever``, ``reranker``,
            ``rewriter``, ``expander``; see :class:`~pyterrier_ikat.runs.Resources`.

    Returns:
        The table of scores, as :func:`pyterrier_ikat.experiment` makes it; just the names where nothing is judged. The rankings are
        ``ikat.runs.RunFolder(f"{out}/{name}").results()``.

    Raises:
        UsageError: before anything is run: for an unknown system, option, turn or resource, a model that can't be loaded, a folder that
            can't be written to or has another run, or another process that makes one of the runs.
        DataError: for an index or file that can't be used, or a ranking that isn't clean.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> index = ikat.PassageIndex("run.index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
        >>> mine = ikat.AllUtterances() >> index.bm25(num_results=20)
        >>> ikat.run({"mine": mine, "raw": "raw"}, "ikat:sample", out="my-runs", index=index)["name"].tolist()
        ['mine', 'raw']
    """
    session = Session.open(methods_in(systems), dataset, out=out, topics=topics, qrels=qrels, turns=turns, batch=batch, **resources)
    if baseline is not None and baseline not in session.systems:
        raise UsageError(f"the baseline {baseline!r} is none of the systems: {', '.join(session.systems)}")
    session.run()
    return session.table(baseline)


@checked
def plan(
    systems: Systems,
    dataset: IkatDataset | str | pd.DataFrame | None = None,
    *,
    topics: pd.DataFrame | None = None,
    turns: Sequence[str] | str | None = None,
    **resources: Any,
) -> PlanTable:
    """Estimate the LLM calls, tokens and cost of systems before you spend anything.

    Nothing is asked, nothing is retrieved and no model is loaded.

    Stages are followed in order. Where a completion is in the cache already, it is used and counted as cached;
    elsewhere a stand-in of typical length takes its place, so the tokens are estimates (four characters a token), and
    so are calls that depend on them. The stand-in for what a trained rewriter or the retriever makes of a turn is the
    user's question, for ranked statements the first of the persona. A :class:`~pyterrier_ikat.Judge` in a pipeline is
    asked about every passage that the cut (``% k``) before it leaves, 1000 of each turn without one. A request that
    several systems share counts once, for the first of them.

    Operators say themselves what they ask and leave behind (``Operator.plan``). Of a stage of another package the plan knows only the
    columns: one that finds passages for queries is a retriever, which asks nothing; one of PyTerrier itself that turns queries into
    queries (``pt.apply.query``) is run; any other is a row whose counts are unknown.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name; or a turn frame (for a judge alone the pool that it is to judge).
        topics: the turns, in place of the dataset's.
        turns: only these turns.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        One row per system, stage and model: ``system``, ``stage``, ``model``, ``calls`` (requests of the stage),
        ``cached`` (paid for already), ``shared`` (repeats of a request made before), ``new`` (left to pay),
        ``prompt_tokens`` and ``completion_tokens`` of the new ones, ``cost`` in US dollars (missing when the price is
        unknown). The counts of a stage that can't be planned are missing. ``.total`` has the sums, which are printed below the table.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o cache=none price_in=2.5 price_out=10")
        >>> ikat.plan({"AD": ikat.Answer(llm)}, "ikat:sample").total["new"]
        24
    """
    if isinstance(dataset, pd.DataFrame):
        dataset, topics = None, dataset
    return Session.open(methods_in(systems), dataset, topics=topics, turns=turns, only_plan=True, **resources).plan()


def methods_in(systems: Systems) -> list[Method]:
    """The systems as methods, each name once.

    Raises:
        UsageError: when one is none, has no name, or two have the same.
    """
    if isinstance(systems, Mapping):
        entries = [_renamed(name, system) for name, system in systems.items()]
    else:
        one = isinstance(systems, str | Method | pt.Transformer) or callable(systems)
        given = [systems] if one else list(systems)  # type: ignore[arg-type]  # what is callable is one system
        entries = [entry for system in given for entry in _methods_of(system)]
    found: dict[str, Method] = {}
    for entry in entries:
        if found.setdefault(entry.name, entry) is not entry and found[entry.name] != entry:
            raise UsageError(
                f"two methods are named {entry.name}, and each leaves a folder of its name: rename one, or run them in two calls"
            )
    if not found:
        raise UsageError("there is no system: give at least one")
    return list(found.values())


def _methods_of(system: Any) -> list[Method]:
    if isinstance(system, str | Path):
        return find_all(str(system))
    if isinstance(system, Method):
        return [system]
    if isinstance(system, pt.Transformer):
        raise UsageError(f"the pipeline {system!r} has no name, which its folder needs: give {{'name': pipeline}}")
    if callable(system):
        return methods_of(system)
    raise UsageError(f"a system is a {type(system).__name__}: give the name of a method, a function, or {{'name': pipeline}}")


def _renamed(name: Any, system: Any) -> Method:
    if not isinstance(name, str) or not name.strip() or Path(name).name != name or name.startswith("."):
        raise UsageError(f"a system is named {name!r}: a name is a text that can be a folder's, without slash or leading dot")
    if isinstance(system, pt.Transformer):
        return Method(name, lambda: system)
    found = _methods_of(system)
    if len(found) > 1:
        raise UsageError(
            f"system {name} is several methods ({', '.join(entry.name for entry in found)}): give one, or a list without names"
        )
    return replace(found[0], name=name)
