"""The report: runs as conversations to read, in one HTML file that loads nothing and can be read without scripts.

The page's script compares the runs. The baseline and the run compared with it are chosen in the page.
"""

from collections.abc import Sequence
from pathlib import Path

import ir_measures
import pandas as pd
import pyterrier as pt

from ...conversations import datasets
from ...conversations.choice import QrelsSource, Turns, read_turns
from ...conversations.datasets import IkatDataset
from ...errors import UsageError, counted
from ...evaluation.evaluator import check_baseline, name_runs
from ...evaluation.experiment_table import TEST
from .dialogues import find_logs, refuse_arguments, report_sessions
from .material import Material, RunData, Runs, find_material, only_turns, read_runs
from .page import OF_RANKINGS, Report, pack_calls, render_page, shown_first
from .rankings import Scores, mean_scores, measures_to_show, passages_by_turn, scores_to_show, significant_pairs
from .reasons import reasons_by_turn, relevant_by_turn
from .turn_views import build_conversations, turns_to_show

__all__ = ["Report", "report"]


def report(
    runs: Runs,
    dataset: IkatDataset | str | Path | None = None,
    *,
    qrels: QrelsSource | None = None,
    turns: Turns | None = None,
    texts: pt.Transformer | None = None,
    measures: Sequence[ir_measures.Measure | str] | None = None,
    baseline: str | None = None,
    passages: int = 20,
) -> Report:
    """Show one run, or several side by side, as conversations to read.

    Runs of topics are shown turn by turn. Each turn has its utterance and for every run the rewrite, the final query, the chosen statements
    of the persona, the sub-queries, the draft answer, the response and the passages on which it is based, the scores, the best passages
    with score and relevance label, and the LLM calls. In the page, you can choose the baseline and the run compared with it, and hide runs.
    Differences from the baseline are marked. For the chosen measure, sentences name the passages that cause them. The page can sort turns
    by gain or loss, filter and search them.

    Conversations (``ikat simulate``, ``ikat interact``, ``ikat chat``, ``ikat serve``) are shown session by session, because a user's next
    utterance depends on the system. For every system, each session has its conversation, the rubrics with the turn that met each one, the
    end of the session, and for each response its sources, time, calls and cost. The overview has the means of
    :func:`~pyterrier_ikat.evaluation.session_means`.

    Args:
        runs: one run, a list, or a dict name -> run. A run is a folder made by ``ikat run`` (path or ``RunFolder``), a TREC run file, a
            submission (path, or the result of ``ikat.submit.read_submission``) or a result frame such as ``pipeline(topics)``. Or all are
            folders of conversations (path or ``Log``). For these, only the arguments ``texts``, ``baseline`` and ``passages`` are used.
        dataset: the dataset with the utterances, judgements and passages. By default the one that the run folders name.
        qrels: judgements ``qid``, ``docno``, ``label``, the name of a variant of the dataset, or a TREC qrels file.
            By default the dataset's default.
        turns: only these turns: a list of ids, or the path of a file with one id per line.
        texts: an operator that adds ``text`` by ``docno``, such as ``index.text_loader()``. By default the dataset's own.
        measures: the first one colours the overview. By default the track's, and the further ones of the run folders. Without qrels, the
            scores are those of the run folders.
        baseline: the run with which the others are compared, until another one is chosen in the page. By default that of the simulation,
            otherwise the first one.
        passages: how many passages of each run and turn are shown; for conversations with users, how many sources of each response.

    Returns:
        The page. As the last line of a notebook's cell, it is displayed. ``.save(path)`` writes it. It has the first 120 words of a
        passage, fewer in a large report.

    Raises:
        UsageError: when two runs have the same name or different datasets, only some are conversations with users, or an argument is
            unknown.
        DataError: when a file can't be read, a run has turns that the dataset lacks, ``texts`` lacks a passage, or the same session has
            different users or rubrics.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> run = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-001:0"], "score": [1.5], "rank": [0]})
        >>> page = ikat.show.report({"mine": run}, "ikat:sample").save("report.html")
        >>> "Conversation 1-1" in page.read_text(encoding="utf-8")
        True
    """
    if passages < 1:
        raise UsageError(f"passages={passages!r}: show at least one")
    named = name_runs(runs, "run")
    check_baseline(named, baseline)
    if logs := find_logs(named):
        refuse_arguments(logs, dataset=dataset, qrels=qrels, turns=turns, measures=measures)
        return report_sessions(logs, texts, passages, baseline)
    data = None if dataset is None else datasets.dataset(dataset)
    read = read_runs(named, data)
    material = find_material(read, data, qrels, texts)
    if turns is not None:
        read, material = only_turns(read, material, read_turns(turns, turns_to_show(read, material), material.name or "none of the runs"))
    return _report_rankings(read, material, measures, passages, 0 if baseline is None else list(named).index(baseline))


def _report_rankings(
    read: Sequence[RunData], material: Material, measures: Sequence[ir_measures.Measure | str] | None, passages: int, baseline: int
) -> Report:
    """The page of runs of topics, with the turns of all systems side by side."""
    shown = turns_to_show(read, material)
    names, scores = scores_to_show(read, material.qrels, shown, measures)
    listed, words, texts = passages_by_turn(read, material.qrels, material.texts, passages)
    relevant, means = relevant_by_turn(read, material.qrels), mean_scores(scores)
    compared = _best_but(baseline, means, len(read))
    reasons = reasons_by_turn(read, material.qrels, scores, measures_to_show(read, measures), texts)
    packed, cut = pack_calls(shown, [run.calls for run in read], reasons)
    page = render_page(
        "report.html.jinja",
        OF_RANKINGS,
        runs=read,
        dataset=material.name,
        notes=[*material.notes, *filter(None, [cut])],
        conversations=build_conversations(read, material, listed, scores, relevant, reasons, (baseline, compared)),
        turns=shown,
        measures=names,
        means=means,
        sure=significant_pairs(scores),
        test=TEST,
        compared=compared,
        baseline=baseline,
        shown=shown_first(len(read), baseline, compared),
        packed=packed,
        judged=len(scores),
        labelled=material.qrels is not None,
        depth=passages,
        words=words,
        calls={run.name: describe_calls(run.ledger) for run in read},
    )
    return Report(page, ", ".join(run.name for run in read))


def _best_but(baseline: int, means: Scores, runs: int) -> int:
    """Which of the other runs has the best mean, or the first one if none is known, or the baseline if there is no other run."""
    others = [number for number in range(runs) if number != baseline]
    return max(others, key=lambda number: means[number][0] if means else 0, default=baseline)


def describe_calls(ledger: pd.DataFrame | None) -> str:
    """The costs of a run's LLM calls, in a sentence. An unknown amount is called unknown."""
    if ledger is None or ledger.empty:
        return "No LLM calls."
    tokens, cost = ledger[["prompt_tokens", "completion_tokens"]].sum(axis=1, skipna=False), ledger["cost"]
    used = "unknown tokens" if tokens.isna().any() else counted(int(tokens.sum()), "token")
    paid = "unknown cost" if cost.isna().any() else f"{cost.sum():.2f} USD"
    counts = ", ".join(counted(int(ledger[f"{name}s"].sum()), name) for name in ("failure", "fallback"))
    return f"{counted(int(ledger['calls'].sum()), 'LLM call')}, {int(ledger['known'].sum())} known, {used}, {paid}, {counts}."
