"""The report: runs as conversations to read, in one HTML file that can be read without scripts.

The page's script shows two runs at a time: the baseline, and the one that is chosen in the page.
"""

from collections.abc import Sequence
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt

from ...arguments import one_of
from ...conversations import datasets
from ...conversations.datasets import IkatDataset, QrelsSource, Turns, read_turns
from ...errors import UsageError, counted
from ...evaluation.evaluator import check_baseline, name_runs
from ...evaluation.units import UNITS, find_clusters
from ...study.compare import Results
from .content import Content
from .material import (
    Material,
    RunData,
    Runs,
    baseline_first,
    find_material,
    only_turns,
    read_runs,
)
from .means import ShownMeasure, compare_means, comparison_note
from .page import Report
from .rankings import judged_to_show, measures_to_show, passages_by_turn, scores_to_show
from .reasons import missed_by_turn, reasons_by_turn
from .sessions import find_logs, refuse_arguments, report_sessions
from .turns import build_conversations, fit_calls, turns_to_show

__all__ = ["Report", "report"]


def report(
    runs: Runs | Results,
    dataset: IkatDataset | str | Path | None = None,
    *,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    texts: pt.Transformer | None = None,
    measures: Sequence[ir_measures.Measure | str] | None = None,
    baseline: str | None = None,
    passages: int = 20,
    unit: str | None = None,
) -> Report:
    """Show one run, or several side by side, as conversations to read.

    Runs of topics are shown turn by turn. Each turn has its utterance and for every run the
    rewrite, the final query, the chosen statements of the persona, the sub-queries, the draft
    answer, the response and the passages on which it is based, the scores, the best passages with
    score and relevance label, and the LLM calls. The page shows the baseline and one other run,
    which you choose, next to each other. For the chosen measure, sentences name the passages
    because of which that run wins or loses. The page names the turns with the largest gains and
    losses. It can sort turns by gain or loss, filter and search them. The table of means has the
    intervals of all differences.

    Conversations (``ikat simulate``, ``ikat interact``, ``ikat chat``, ``ikat serve``) are shown
    session by session, because a user's next utterance depends on the system. For every system,
    each session has its conversation, the rubrics with the turn that met each one, the end of the
    session, and for each response its sources, time, calls and cost. The overview has the means of
    :func:`~pyterrier_ikat.evaluation.session_means`.

    Args:
        runs: one run, a list, or a dict name -> run; or the result of :func:`pyterrier_ikat.run`,
            with its baseline and unit. A run is a folder made by ``ikat run`` (path
            or ``RunFolder``), a TREC run file, a submission (path, or the result of
            ``ikat.submit.read_submission``) or a result frame such as ``pipeline(topics)``. Or all
            are folders of conversations (path or ``Log``). For these, only the arguments ``texts``,
            ``baseline`` and ``passages`` are used.
        dataset: the dataset with the utterances, judgements and passages. By default the one that
            the run folders name.
        qrels: judgements ``qid``, ``docno``, ``label``, the name of a variant of the dataset, or a
            TREC qrels file. By default the dataset's default.
        turns: only these turns: a list of ids, or the path of a file with one id per line.
        texts: an operator that adds ``text`` by ``docno``, such as ``index.text_loader()``. By
            default the dataset's own.
        measures: the page opens at the first one. By default those of the run folders, in the order
            in which ``ikat run`` was asked for them, and the track's. Without qrels, the scores are
            those of the run folders.
        baseline: the run with which the others are compared. By default that of the simulation,
            otherwise the run ``raw``, otherwise the first one.
        passages: how many passages of each run and turn are shown; for conversations with users,
            how many sources of each response.
        unit: what the clusters of turns are in tests and intervals: ``"turn"``, ``"conversation"``,
            ``"topic"`` or ``"user"``. By default the highest unit that the dataset's turns are
            known to share. For conversations with users it is the user.

    Returns:
        The page. As the last line of a notebook's cell, it is displayed. ``.save(path)`` writes it.
        It has the first 120 words of a passage, fewer in a large report.

    Raises:
        UsageError: when two runs have the same name or different datasets, only some are
            conversations with users, or an argument is unknown.
        DataError: when a file can't be read, a run has turns that the dataset lacks, ``texts``
            lacks a passage, no folder has a conversation, or the same session has different users
            or rubrics. A folder without a conversation beside others is skipped with a warning.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> run = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-001:0"]})
        >>> run = run.assign(score=1.5, rank=0)
        >>> page = ikat.show.report({"mine": run}, "ikat:sample").save("report.html")
        >>> "Conversation 1-1" in page.read_text(encoding="utf-8")
        True
    """
    if isinstance(runs, Results):
        baseline = baseline or runs.baseline
        unit = unit or runs.unit
        runs = list(runs.folders.values())
    if passages < 1:
        raise UsageError(f"passages={passages!r}: show at least one")
    if unit is not None:
        one_of(UNITS, unit=unit)
    named = name_runs(runs, "run")
    check_baseline(named, baseline)
    logs = find_logs(named)
    if logs:
        refuse_arguments(
            logs, dataset=dataset, qrels=qrels, turns=turns, measures=measures, unit=unit
        )
        return report_sessions(logs, baseline, texts, passages)
    named = {name: named[name] for name in baseline_first(list(named), baseline)}
    data = None if dataset is None else datasets.dataset(dataset)
    of_topics = read_runs(named, data)
    material = find_material(of_topics, data, qrels, texts)
    chosen = turns is not None
    if turns is not None:
        known = turns_to_show(of_topics, material)
        wanted = read_turns(turns, known, material.name or "none of the runs")
        of_topics, material = only_turns(of_topics, material, wanted)
    return _report_rankings(of_topics, material, measures, passages, unit, chosen)


def _report_rankings(
    runs: Sequence[RunData],
    material: Material,
    measures: Sequence[ir_measures.Measure | str] | None,
    passages: int,
    unit: str | None,
    chosen: bool,
) -> Report:
    """The page of runs of topics, the baseline first, with all systems side by side."""
    turns = turns_to_show(runs, material)
    judged, sentences = judged_to_show(runs, material.qrels, turns, chosen)
    labels, scores = scores_to_show(runs, judged, turns, measures)
    listed, words, texts = passages_by_turn(runs, material.qrels, material.texts, passages)
    shown = {}
    for qid, of_runs in listed.items():
        shown[qid] = {passage.docno for of_run in of_runs for passage in of_run}
    explained = measures_to_show(runs, measures)
    reasons = reasons_by_turn(runs, material.qrels, scores, explained, texts)
    missed = missed_by_turn(runs, material.qrels, shown)
    fitting, notes_on_calls = fit_calls(runs)
    groups = build_conversations(fitting, material, listed, scores, reasons, missed)
    columns = [ShownMeasure(name) for name in labels]
    clusters = find_clusters(scores, unit, material.dataset)
    means = []
    if scores:
        means_of_runs = np.mean(list(scores.values()), axis=0).tolist()
        means = compare_means(means_of_runs, scores, columns, clusters)
    if not sentences:
        sentences = [f"Mean over {counted(len(scores), 'judged turn')}."]
    if len(runs) > 1:
        sentences = [*sentences, comparison_note(clusters, runs[0].name)]
    content = Content(
        names=[run.name for run in runs],
        unit="turn",
        group="Conversation",
        facts=_facts(len(turns), len(groups), len(scores), passages, words),
        groups=groups,
        measures=columns,
        columns=columns,
        means=means,
        notes=[*material.notes, *notes_on_calls],
        caption=" ".join(sentences),
        made={run.name: _describe_run(run) for run in runs if run.parameters},
        dataset=material.name,
        labelled=material.qrels is not None,
    )
    return Report.of(content)


def _facts(turns: int, conversations: int, judged: int, passages: int, words: int) -> str:
    """What the page covers, in a sentence; ``words`` of each passage, 0 without texts."""
    facts = [f"{counted(turns, 'turn')} of {counted(conversations, 'conversation')}"]
    if judged:
        facts.append(f"{judged} of them judged")
    facts.append(f"the best {counted(passages, 'passage')} of every run")
    if words:
        facts.append(f"the first {counted(words, 'word')} of each")
    return f"{', '.join(facts)}."


def _describe_run(run: RunData) -> list[str]:
    """How a run was made, and its cost."""
    return [
        run.parameters["expression"],
        describe_calls(run.ledger),
        *run.parameters.get("deviations", ()),
        *run.parameters.get("notes", ()),
    ]


def describe_calls(ledger: pd.DataFrame | None) -> str:
    """The costs of a run's LLM calls, in a sentence. An unknown amount is called unknown."""
    if ledger is None or ledger.empty:
        return "No LLM calls."
    facts = [
        counted(int(ledger["calls"].sum()), "LLM call"),
        f"{int(ledger['known'].sum())} known",
    ]
    tokens = ledger[["prompt_tokens", "completion_tokens"]].sum(axis=1, skipna=False)
    if tokens.isna().any():
        facts.append("unknown tokens")
    else:
        facts.append(counted(int(tokens.sum()), "token"))
    cost = ledger["cost"]
    facts.append("unknown cost" if cost.isna().any() else f"{cost.sum():.2f} USD")
    lost = int(ledger["unanswered"].sum()) if "unanswered" in ledger else 0
    if lost:
        facts.append(f"{counted(lost, 'request')} without an answer")
    facts.append(counted(int(ledger["failures"].sum()), "failure"))
    facts.append(counted(int(ledger["fallbacks"].sum()), "fallback"))
    return f"{', '.join(facts)}."
