"""Files for other evaluations: predictions for MTRAG, and reports for TREC's AutoJudge.

**Predictions** have the format that IBM's evaluation scripts read. They are written from a run,
checked, and read back. The file has one JSON line per turn: ``conversation_id``, ``task_id``,
``turn``, ``Collection``, ``input`` [``speaker``, ``text``], at most ten ``contexts``
[``document_id``, ``score``, ``text`` if it is known], and ``predictions`` [``text``] for the tasks
with responses. Source: ``scripts/evaluation`` of IBM/mt-rag-benchmark at cc5b1d4. Its
``format_checker.py`` has the modes retrieval_taska, generation_taskb and rag_taskc.
:func:`check_predictions` also has its rules.

**Reports** have the form of TREC's AutoJudge, so that judges of that family read the responses of a
run. The file has one JSON line per turn: ``metadata`` (``team_id``, ``run_id``, ``topic_id``),
``responses`` [``text``, a sentence, and ``citations``, the docnos that it cites], and
``references``, all that the turn cites. Source: ``report.py`` of trec-auto-judge/auto-judge-base at
1ee45ca and its example runs.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from ..completions.citations import sentences_in
from ..conversations.benchmarks import collections_of
from ..conversations.frame import column, object_frame
from ..conversations.ikat_dataset import IkatDataset
from ..errors import DataError, UsageError, advice, list_first, option
from ..order import in_trec_eval_order, strictly_decreasing
from ..runs import RunFolder
from ..store.files import atomic_write
from .formats import Lenient
from .problem import (
    JsonValues,
    Place,
    Problem,
    list_errors,
    read_json_values,
    read_model,
    select_errors,
    write_checked,
)

CONTEXTS = 10
"""The maximum number of passages per turn that the checker accepts."""
MEGABYTES = 20
HAS_PREDICTIONS = {"retrieval": False, "generation": True, "rag": True}
"""Run type -> whether it has predictions. They are the tasks A, B and C of SemEval 2026."""
_SPEAKERS = {"user": "user", "assistant": "agent"}


class Context(Lenient):
    """A passage."""

    document_id: str
    score: float


class Prediction(Lenient):
    """A response."""

    text: str


class Task(Lenient):
    """A line, as far as an evaluation reads it."""

    task_id: str
    contexts: list[Context]
    predictions: list[Prediction] = []


class WholeTask(Task):
    """A line with all that IBM's checker wants."""

    Collection: str
    input: list[Any]


def write_predictions(
    run: RunFolder, dataset: IkatDataset, path: str | Path, *, run_type: str
) -> list[Problem]:
    """Write a run's first ten passages of each turn, and its responses, for IBM's evaluation.

    A file with errors is not written. The passages' texts are written if the dataset has them
    (``mtrag:mini``, ``mtrag:reference``). The evaluation of responses reads them, and that of
    retrieval doesn't.

    Args:
        run: the folder of a finished run.
        dataset: an MTRAG dataset. Each of its turns gets a line.
        path: the file to write, ``.jsonl``.
        run_type: ``"retrieval"`` (task A), ``"generation"`` (task B) or ``"rag"`` (task C); the
            last two need responses.

    Returns:
        The warnings of :func:`check_predictions`.

    Raises:
        UsageError: when there is no such run type, the run has no responses and needs them, or the
            path doesn't end in ``.jsonl``.
        DataError: when the run doesn't have the turns of the dataset, or the check finds errors.
    """
    _check_run_type(run_type)
    responses = _responses(run) if HAS_PREDICTIONS[run_type] else None
    topics = dataset.get_topics()
    _check_turns(run, topics["qid"].tolist(), dataset.name)
    results = run.results()
    contexts = _contexts(strictly_decreasing(results[results["rank"] < CONTEXTS]), dataset)
    collections = collections_of(dataset)
    lines = []
    for turn in topics.itertuples():
        line = {
            "conversation_id": turn.qconversation,
            "task_id": turn.qid,
            "turn": turn.qturn,
            "Collection": collections[turn.qid],
            "input": _input(turn),
            "contexts": contexts.get(turn.qid, []),
        }
        if responses is not None:
            line["predictions"] = [{"text": responses.get(turn.qid, "")}]
        lines.append(f"{json.dumps(line, ensure_ascii=False)}\n")
    if Path(path).suffix != ".jsonl":
        raise UsageError(
            f"{path}: IBM's checker takes files whose names end in .jsonl: give such a path"
        )
    return write_checked(path, lines, lambda file: check_predictions(file, dataset, run_type))


def _check_run_type(run_type: str) -> None:
    if run_type not in HAS_PREDICTIONS:
        known = ", ".join(HAS_PREDICTIONS)
        raise UsageError(f"run type {run_type!r} is none of MTRAG: give {known}")


def _input(turn: Any) -> list[dict[str, str]]:
    """The conversation up to the user's question, as IBM's files have it."""
    messages = [*turn.qhistory, {"role": "user", "content": turn.qutterance}]
    return [
        {"speaker": _SPEAKERS[message["role"]], "text": message["content"]} for message in messages
    ]


def _responses(run: RunFolder) -> dict[str, str]:
    """Turn -> its response, for turns that have one.

    Raises:
        UsageError: when no turn has one.
    """
    responses = {}
    for turn in run.turns():
        if turn.get("response"):
            responses[turn["qid"]] = turn["response"]
    if not responses:
        example = advice(
            "such as rtg, or any system >> ikat.Respond(llm)", "such as `ikat run rtg ...`"
        )
        raise UsageError(
            f"{run.path} has no responses: run a system that ends with Respond ({example}), or "
            "give the run type retrieval"
        )
    return responses


def _check_turns(run: RunFolder, wanted: list[str], name: str) -> None:
    """Check that the run has the turns of a dataset."""
    qids = {turn["qid"] for turn in run.turns()}
    odd = sorted(qids ^ set(wanted))
    if odd:
        what = "lacks turns of" if odd[0] in wanted else "has turns that aren't in"
        raise DataError(
            f"{run.path} {what} {name} ({odd[0]}, {len(odd)} in all): run the system on all turns "
            "of this dataset"
        )


def _contexts(results: pd.DataFrame, dataset: IkatDataset) -> dict[str, list[dict[str, Any]]]:
    """The passages of each turn, with their texts if the dataset has them."""
    try:
        texts = dataset.text_loader().transform(results[["qid", "docno"]])["text"].tolist()
    except UsageError:  # the texts are in an index
        texts = [None] * len(results)
    rows = zip(results["qid"], results["docno"], results["score"], texts, strict=True)
    contexts: dict[str, list[dict[str, Any]]] = {}
    for qid, docno, score, text in rows:
        context = {"document_id": docno, "score": float(score)}
        if text is not None:
            context["text"] = text
        contexts.setdefault(qid, []).append(context)
    return contexts


def check_predictions(
    path: str | Path, dataset: IkatDataset, run_type: str | None = None
) -> list[Problem]:
    """Check a file of predictions, from any system, and return all problems.

    IBM's checks are: the turns of the dataset, each once; the fields with their types; at most ten
    passages with id and score; predictions with text. Ours are: no passage twice, scores that are
    finite and don't rise, predictions that aren't empty, and a collection that the evaluation
    knows.

    Args:
        path: the file.
        dataset: an MTRAG dataset.
        run_type: ``"generation"`` and ``"rag"`` need predictions. With None, predictions are
            checked if a line has them.

    Returns:
        The errors and warnings; an empty list if there are none.

    Raises:
        UsageError: when there is no such run type.
    """
    if run_type is not None:
        _check_run_type(run_type)
    place = Place()
    collections = collections_of(dataset)
    values = read_json_values(path, place)
    if Path(path).stat().st_size > MEGABYTES * 2**20:
        place.error(
            f"the file has more than {MEGABYTES} MB, which IBM's checker takes: give fewer "
            "passages or shorter responses"
        )
    has_predictions = run_type is not None and HAS_PREDICTIONS[run_type]
    qids: set[str] = set()
    for number, item in values:
        qid = item.get("task_id") if isinstance(item, dict) else None
        here = place.at(f"line {number}")
        if isinstance(qid, str):
            here = place.of_turn(qid)
            if qid in qids:
                here.at("task_id").error("the turn occurs more than once: keep one of them")
            qids.add(qid)
        task = read_model(WholeTask, item, here)
        if task is None:
            continue
        _check_task(here, task, collections, dataset.name)
        if has_predictions or "predictions" in item:
            _check_texts(here.at("predictions"), task.predictions)
    if values:
        for qid in collections.keys() - qids:
            place.of_turn(qid).error("the turn is missing: add it")
    return list(dict.fromkeys(place.problems))


def _check_task(
    place: Place, task: WholeTask, collections: Mapping[str, str], dataset: str
) -> None:
    """Check that a line is of a turn of the dataset, and its passages."""
    if task.task_id not in collections:
        place.at("task_id").error(f"{dataset} has no such turn: remove it")
    elif task.Collection != collections[task.task_id]:
        place.at("Collection").error(
            f'write "Collection": "{collections[task.task_id]}"; the evaluation groups turns by it'
        )
    _check_contexts(place.at("contexts"), task.contexts)


def _check_contexts(place: Place, contexts: Sequence[Context]) -> None:
    if len(contexts) > CONTEXTS:
        place.error(f"there are {len(contexts)} passages: keep the first {CONTEXTS}")
    if not contexts:
        place.warning("there is no passage")
    if len({context.document_id for context in contexts}) < len(contexts):
        place.error("a passage is there twice: keep one")
    if any(later.score > before.score for before, later in pairwise(contexts)):
        place.error("the scores rise: order the passages by their scores")


def _check_texts(place: Place, predictions: Sequence[Prediction]) -> None:
    if not predictions:
        place.error("there is no prediction: write one")
    for number, prediction in enumerate(predictions):
        if not prediction.text.strip():
            place.at(number, "text").error("it is empty: write a response")


def is_predictions(values: JsonValues) -> bool:
    """Whether a file has predictions: objects with a task and contexts."""
    if not values:
        return False
    _, first = values[0]
    return isinstance(first, dict) and {"task_id", "contexts"} <= first.keys()


def read_predictions(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a file of predictions, from any system, as frames.

    Ids in the format of the evaluation scripts' sample files (``dd6b...::2``) become those of the
    tasks (``dd6b...<::>2``).

    Returns:
        Results (``qid``, ``docno``, ``score``, ``rank`` from 0) in trec_eval's order, and turns
        (``qid``, ``qanswer``, empty without a prediction).

    Raises:
        DataError: when the file can't be read, a turn occurs twice, or the id or score of a passage
            is missing.
    """
    place = Place()
    tasks: list[Task] = []
    for number, item in read_json_values(path, place):
        task = read_model(Task, item, place.at(f"line {number}"))
        if task is not None:
            tasks.append(task)
    qids = [task.task_id.replace("<::>", "::").replace("::", "<::>") for task in tasks]
    if len(set(qids)) < len(qids):
        place.error("a turn is there more than once: keep one of them")
    if select_errors(place.problems):
        raise DataError(list_errors(f"{path} can't be read as predictions", place.problems))
    of_passages: list[str] = []
    docnos: list[str] = []
    scores: list[float] = []
    responses: list[str] = []
    for qid, task in zip(qids, tasks, strict=True):
        of_passages += [qid] * len(task.contexts)
        docnos += [context.document_id for context in task.contexts]
        scores += [context.score for context in task.contexts]
        responses.append(task.predictions[0].text if task.predictions else "")
    score = pd.Series(scores, dtype=float)
    results = pd.DataFrame({"qid": column(of_passages), "docno": column(docnos), "score": score})
    return in_trec_eval_order(results), object_frame({"qid": qids, "qanswer": responses})


def write_reports(
    run: RunFolder, path: str | Path, *, run_id: str | None, team: str | None
) -> list[Problem]:
    """Write a run's responses as reports, with the citations of each sentence.

    Systems cite with ``ikat.Respond(llm, cite=True)``. A response without citations, or one that
    was edited in ``turns.jsonl``, has sentences without citations.

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
        raise UsageError(
            f"a report names run and team: give {option('run_id')} and {option('team')}"
        )
    turns = run.turns()
    lacking = [turn["qid"] for turn in turns if not turn.get("response")]
    if lacking:
        raise UsageError(
            f"{run.path} has no response for {list_first(lacking)}: run a system that ends with "
            "Respond, such as rtg"
        )
    with atomic_write(path) as file:
        for turn in turns:
            sentences = _sentences(turn)
            docnos = [docno for sentence in sentences for docno in sentence["citations"]]
            report = {
                "metadata": {"team_id": team, "run_id": run_id, "topic_id": turn["qid"]},
                "responses": sentences,
                "references": list(dict.fromkeys(docnos)),
            }
            file.write(json.dumps(report, ensure_ascii=False) + "\n")
    return []


def _sentences(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The sentences of a response, with their citations unless it was edited or cites nothing."""
    entries = turn.get("qcitations") or ()
    cited_text = " ".join(entry["sentence"] for entry in entries)
    if cited_text.split() == turn["response"].split():
        return [{"text": entry["sentence"], "citations": entry["docnos"]} for entry in entries]
    return [{"text": sentence, "citations": []} for sentence in sentences_in(turn["response"])]
