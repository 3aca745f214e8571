"""Reports in the form of TREC's AutoJudge, so that judges of that family read the responses of a run.

The file has one JSON line per turn: ``metadata`` (``team_id``, ``run_id``, ``topic_id``), ``responses`` [``text``, a sentence, and
``citations``, the docnos that it cites], and ``references``, all that the turn cites. Source: ``report.py`` of
trec-auto-judge/auto-judge-base at 1ee45ca and its example runs.
"""

import json
from pathlib import Path
from typing import Any

from ..completions.citations import sentences_in
from ..errors import UsageError, list_first, option
from ..runs import RunFolder
from ..store.files import atomic_write
from .problem import Problem


def write_reports(run: RunFolder, path: str | Path, *, run_id: str | None, team: str | None) -> list[Problem]:
    """Write a run's responses as reports, with the citations of each sentence. Systems cite with ``ikat.Respond(llm, cite=True)``.

    A response without citations, or one that was edited in ``turns.jsonl``, has sentences without citations.

    Args:
        run: the folder of a finished run whose system wrote responses.
        path: the file to write, JSON lines.
        run_id: the run's name.
        team: the team's id.

    Returns:
        No problems.

    Raises:
        UsageError: when a turn has no response, or run or team has no name.
    """
    if not run_id or not team:
        raise UsageError(f"a report names run and team: give {option('run_id')} and {option('team')}")
    turns = run.turns()
    if lacking := [turn["qid"] for turn in turns if not turn.get("response")]:
        raise UsageError(f"{run.path} has no response for {list_first(lacking)}: run a system that ends with Respond, such as rtg")
    with atomic_write(path) as file:
        for turn in turns:
            sentences = _sentences(turn)
            references = list(dict.fromkeys(docno for one in sentences for docno in one["citations"]))
            metadata = {"team_id": team, "run_id": run_id, "topic_id": turn["qid"]}
            file.write(json.dumps({"metadata": metadata, "responses": sentences, "references": references}, ensure_ascii=False) + "\n")
    return []


def _sentences(turn: dict[str, Any]) -> list[dict[str, Any]]:
    cited = [{"text": one["sentence"], "citations": one["docnos"]} for one in turn.get("qcitations") or ()]
    if " ".join(one["text"] for one in cited).split() == turn["response"].split():  # else the response was edited, or cites nothing
        return cited
    return [{"text": sentence, "citations": []} for sentence in sentences_in(turn["response"])]
