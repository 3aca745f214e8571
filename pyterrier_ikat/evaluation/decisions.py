"""Evaluation of what systems decide for a turn beside their ranking.

They choose statements about the user, learn new ones from what users say, and decide to answer, to
ask back, or to say that the collection has no answer.
"""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from ir_measures import P, R, SetF, SetP, SetR, nDCG

from ..completions.statements import normalised
from ..completions.verdicts import ACTIONS
from ..conversations.datasets import IkatDataset, Turns
from ..conversations.frame import column, is_persona, statements_of, values, with_columns
from ..conversations.qrels import check_qrels
from ..conversations.topics import ANSWERABILITY
from ..errors import DataError, UsageError, counted, list_first
from ..runs.turn_lines import chosen_statements
from .evaluator import Evaluator, check_common_turns, judgements_by_turn, label
from .finished_runs import check_once, known_dataset, turns_of, with_names, written_by
from .inference import interval_of_share
from .score_frame import about_turns
from .scored_turns import asked_of, choose_turns, chosen_turns, scored_judgements
from .units import UNIT_COLUMNS, Clusters, find_clusters

SystemOutput: TypeAlias = pd.DataFrame | str | Path
"""A frame with what a system wrote for each turn, or a folder made by `ikat run`."""


def statement_ranking(system: SystemOutput) -> pd.DataFrame:
    """The statements that one system chose, in its order.

    Args:
        system: a turn or result frame with ``qid`` and ``qstatements`` (a list of (id, score) per
            turn, best first), or a folder made by ``ikat run``. The position in the list counts,
            not the score. An empty list, ``None`` or NaN means that no statement was chosen.

    Returns:
        ``qid``, ``docno`` (the statement's id), ``score`` (strictly decreasing within a turn),
        ``rank`` (from 0).

    Raises:
        UsageError: when the frame lacks a column.
        DataError: when a list is malformed, names a statement twice, or has a score that is not a
            finite number, or when a turn's rows differ (the message names the turn); or when the
            folder doesn't have a finished run.

    Example:
        >>> chosen = [[("10", 0.9), ("2", 0.4)], []]
        >>> turns = pd.DataFrame({"qid": ["9-1_3", "9-1_4"], "qstatements": chosen})
        >>> statement_ranking(turns).values.tolist()
        [['9-1_3', '10', 2.0, 0], ['9-1_3', '2', 1.0, 1]]
    """
    rows = []
    for qid, ids in statements_by_turn(system).items():
        for rank, statement_id in enumerate(ids):
            rows.append((qid, statement_id, float(len(ids) - rank), rank))
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"], dtype=object)
    return frame.astype({"score": float, "rank": int})


def statements_by_turn(system: SystemOutput) -> dict[str, list[str]]:
    """The ids of the statements that a system chose for each turn, best first.

    Raises the same errors as :func:`statement_ranking`.
    """
    return written_by(system, "qstatements", "SelectStatements(llm)", _ids)


def _learned_in_words(
    who: str, chosen: Mapping[str, list[str]], system: SystemOutput, qrels: pd.DataFrame
) -> dict[str, list[str]]:
    """The chosen ids, with the words of statements that ``UpdatePtkb`` learned as their ids.

    Learned statements are not judged.
    """
    judged = set(zip(qrels["qid"], qrels["docno"], strict=True))
    turns = turns_of(system)
    words = {}
    for qid, learned in zip(turns["qid"], values(turns, "qlearned"), strict=True):
        for statement in _learned(who, qid, learned, ("id", "statement")):
            words[qid, statement["id"]] = statement["statement"]
    named: dict[str, list[str]] = {}
    for qid, ids in chosen.items():
        named[qid] = []
        for statement_id in ids:
            key = (qid, statement_id)
            named[qid].append(statement_id if key in judged else words.get(key, statement_id))
    return named


def _ids(qid: str, chosen: Any) -> list[str]:
    pairs = chosen_statements(qid, chosen)
    ids = [statement_id for statement_id, _score in pairs]
    for statement_id, score in pairs:
        where = f"turn {qid}: statement {statement_id}"
        if ids.count(statement_id) > 1:
            raise DataError(f"{where} is chosen twice: keep its first place")
        if not math.isfinite(score):
            raise DataError(f"{where} has the score {score}: give a finite number")
    return ids


TRACK_PTKB = (
    nDCG @ 3,
    P(rel=1) @ 3,
    R(rel=1) @ 3,
    R(rel=1) @ 5,
    SetP(rel=1),
    SetR(rel=1),
    SetF(rel=1),
)
"""The ranking measures of 2023 (cut at 3) and 2024 (at 5).

Then come precision, recall and F1 of the chosen set.
"""


def evaluate_ptkb(
    systems: Mapping[str, SystemOutput], qrels: pd.DataFrame, turns: Turns | None = None
) -> pd.DataFrame:
    """Compare the statements that systems chose with PTKB qrels.

    Every measure is computed for each turn and averaged over **all** turns of the qrels, or over
    those that all run folders were asked. A turn counts 0 if the system chose no statement, and
    also, as in trec_eval, if no statement is relevant. If the qrels have turns of the latter kind,
    even a perfect system stays below 1, so their number is shown. The qrels of NIST and of the
    organisers for 2023 have no such turns; the topics' own provenance of 2024 and 2025 has 123 of
    218 and 124 of 188. For the mean over the other turns, give :func:`with_relevant` of the qrels.
    A warning names a system that chose no statement at all, such as a run of a method without this
    stage. Another warning names a system with new statements. These are allowed in 2025, are named
    by their words, and count as not relevant.

    Args:
        systems: name -> a frame with ``qid`` and ``qstatements``, or a folder made by ``ikat run``;
            see :func:`~pyterrier_ikat.evaluation.decisions.statement_ranking`.
        qrels: ``qid``, ``docno`` (the statement's id), ``label``, such as
            ``get_qrels("ptkb_nist")`` or ``get_qrels("ptkb_org")`` of ``ikat:2023`` and
            ``get_qrels("ptkb")`` of ``ikat:2024``, ``ikat:2025``.
        turns: the turns to score, all of them judged; by default those that all run folders were
            asked, or all.

    Returns:
        One row per system: ``name``, a column per measure of :data:`TRACK_PTKB`, ``turns`` (over
        how many turns the means are), and ``relevant_turns`` (how many of them have a relevant
        statement).

    Raises:
        UsageError: when a frame lacks a column.
        DataError: when a system shares no turn with the qrels, chose an id that the turn's persona
            does not have, or chose only unknown statements, or when its choice or the qrels are
            malformed.

    Example:
        >>> judged = [("1_1", "1", 1), ("1_1", "2", 0), ("1_2", "1", 1)]
        >>> qrels = pd.DataFrame(judged, columns=["qid", "docno", "label"])
        >>> chosen = [[("2", 0.8), ("1", 0.7)], []]
        >>> turns = pd.DataFrame({"qid": ["1_1", "1_2"], "qstatements": chosen})
        >>> scores = evaluate_ptkb({"ours": turns}, qrels)
        >>> scores[["name", "SetP(rel=1)", "SetR(rel=1)", "turns"]].values.tolist()
        [['ours', 0.25, 0.5, 2]]
    """
    qrels = _check_ptkb_qrels(qrels)
    all_judged = judgements_by_turn(qrels.itertuples(index=False, name=None))
    judged, scored = scored_judgements(systems, all_judged, turns)
    qrels = qrels[qrels["qid"].isin(judged)].reset_index(drop=True)
    counts = {
        "turns": qrels["qid"].nunique(),
        "relevant_turns": with_relevant(qrels)["qid"].nunique(),
    }
    rows = []
    chosen = {}
    for name, system in systems.items():
        means = ptkb_per_turn(system, qrels, name).drop(columns="qid").mean()
        rows.append({"name": name, **means, **counts})
        chosen[name] = statements_by_turn(system)
    columns = ["name", *map(label, TRACK_PTKB), *counts]
    return about_turns(pd.DataFrame(rows, columns=columns), scored.sentences(chosen))


def ptkb_per_turn(system: SystemOutput, qrels: pd.DataFrame, name: str = "") -> pd.DataFrame:
    """The scores of one system for each turn.

    Args:
        system: as for :func:`evaluate_ptkb`.
        qrels: as for :func:`evaluate_ptkb`.
        name: the name of the system in errors.

    Returns:
        One row per turn of the qrels, in their order: ``qid`` and a column per measure of
        :data:`TRACK_PTKB`.

    Raises:
        UsageError: see :func:`evaluate_ptkb`.
        DataError: see :func:`evaluate_ptkb`.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["1", "2"], "label": [1, 0]})
        >>> turns = pd.DataFrame({"qid": ["1_1"], "qstatements": [[("1", 1.0)]]})
        >>> scores = ptkb_per_turn(turns, qrels)
        >>> scores[["qid", "SetF(rel=1)", "P(rel=1)@3"]].round(2).values.tolist()
        [['1_1', 1.0, 0.33]]
    """
    who = f"system {name}" if name else "the system"
    qrels = _check_ptkb_qrels(qrels)
    chosen = _learned_in_words(who, statements_by_turn(system), system, qrels)
    check_common_turns(who, chosen, qrels["qid"].unique(), "turn of the PTKB qrels")
    _check_statements(who, chosen, qrels)
    evaluator = Evaluator(judgements_by_turn(qrels.itertuples(index=False, name=None)), TRACK_PTKB)
    ranking: dict[str, dict[str, float]] = {}
    for qid, ids in chosen.items():
        if ids:
            ranking[qid] = {statement_id: float(-rank) for rank, statement_id in enumerate(ids)}
    return pd.DataFrame({"qid": column(evaluator.turns), **evaluator.per_turn(name, ranking)})


def with_relevant(qrels: pd.DataFrame) -> pd.DataFrame:
    """The qrels of the turns for which at least one statement is relevant.

    Example:
        >>> judged = [("1_1", "1", 1), ("1_1", "2", 0), ("1_2", "1", 0)]
        >>> qrels = pd.DataFrame(judged, columns=["qid", "docno", "label"])
        >>> with_relevant(qrels)["qid"].tolist()
        ['1_1', '1_1']
    """
    relevant = qrels.loc[qrels["label"] > 0, "qid"]
    return qrels[qrels["qid"].isin(relevant)].reset_index(drop=True)


def _check_ptkb_qrels(qrels: pd.DataFrame) -> pd.DataFrame:
    """The checked qrels.

    The ids of statements may be numbers, as in the topics of 2023 and 2024.
    """
    if isinstance(qrels, pd.DataFrame) and "docno" in qrels.columns:
        qrels = with_columns(qrels, docno=map(str, qrels["docno"]))
    return check_qrels(qrels, "the PTKB qrels")


def _check_statements(who: str, chosen: Mapping[str, list[str]], qrels: pd.DataFrame) -> None:
    """Check that the statements chosen for judged turns were judged.

    Warns of a system that chose none, and of new statements in words.
    """
    if not any(chosen.values()):
        warnings.warn(f"{who} chose no statement for any turn: all its scores are 0", stacklevel=4)
    judged = set(zip(qrels["qid"], qrels["docno"], strict=True))
    judged_turns = set(qrels["qid"])
    of_judged_turns = 0
    new = []
    for qid, statements in chosen.items():
        if qid not in judged_turns:
            continue
        of_judged_turns += len(statements)
        for statement in statements:
            if (qid, statement) not in judged:
                new.append((qid, statement))
    for qid, statement in new:
        if len(new) == of_judged_turns or not _in_words(statement):
            raise DataError(
                f"{who}, turn {qid}: there is no statement {statement!r} in the PTKB qrels, which "
                "judge the whole persona; give the ids of the topics file, as text"
            )
    if new:
        _qid, example = new[0]
        warnings.warn(
            f"{who} has {counted(len(new), 'statement')} that the topics lack "
            f"(such as {example!r}): not judged, counted as wrong",
            stacklevel=4,
        )


def _in_words(statement: str) -> bool:
    """Whether a statement is given in words, as new ones in 2025 are, and not by an id."""
    return statement.startswith('"') or any(letter.isalpha() for letter in statement)


SHARES = {"added": "new", "replaced": "outdated", "kept": "still", "wrong": "learned"}
"""The shares of :func:`evaluate_learned`, and the number that each is a share of."""


def evaluate_learned(
    systems: Mapping[str, SystemOutput], labels: pd.DataFrame, *, least: float = 0.5
) -> pd.DataFrame:
    """Compare what systems learned about users with labels.

    The systems write ``qlearned``, as :class:`~pyterrier_ikat.generate.UpdatePtkb` does.

    A label says what was known of the user before a turn, and what should hold after it. A learned
    statement is a label's new one if the F1 of their words is at least ``least``; each counts once.
    So another wording of the same fact may count as wrong, and a negation as right: read some pairs
    before you trust a figure. A repeat of a known statement, word for word, doesn't count.

    Args:
        systems: name -> a frame with ``qid`` and ``qlearned``, or a folder made by ``ikat run``. A
            turn that it lacks learned nothing.
        labels: ``qid``, ``known`` (a dict id -> statement) and ``holds`` (a list of statements, the
            known ones word for word). They alone define the turns.
        least: the F1 from which two statements say the same.

    Returns:
        One row per system: ``name``; ``added``, the share of the ``new`` statements that were
        learned; ``replaced``, the share of the ``outdated`` ones (known, and not in ``holds``) that
        were replaced; ``kept``, the share of those that ``still`` hold that were not replaced;
        ``wrong``, the share of the ``learned`` statements that no label has; these four numbers,
        over all turns; and ``turns``. A share of nothing is missing.

    Raises:
        UsageError: when a column is missing.
        DataError: naming the turn, when a label or what was learned is malformed, or no turn has a
            label.

    Example:
        >>> known = {"1": "I live in Lyon.", "2": "I am vegan."}
        >>> holds = ["I am vegan.", "I live in Oslo.", "I own a dog."]
        >>> labels = pd.DataFrame({"qid": ["1_1"], "known": [known], "holds": [holds]})
        >>> learned = [{"id": "3", "statement": "I live in Oslo now.", "replaces": ["1"]}]
        >>> ours = pd.DataFrame({"qid": ["1_1"], "qlearned": [learned]})
        >>> scores = evaluate_learned({"ours": ours}, labels)
        >>> scores[["added", "replaced", "kept", "wrong", "new", "learned"]].values.tolist()
        [[0.5, 1.0, 1.0, 0.0, 2.0, 1.0]]
    """
    labels = with_names("the labels", labels, ("qid", "known", "holds"), "give a row per turn")
    check_once("the labels", labels, ["qid"], "keep one")
    personas = {}
    for qid, known, holds in labels[["qid", "known", "holds"]].itertuples(index=False):
        if not is_persona(known) or not is_persona(holds):
            raise DataError(
                f"turn {qid} of the labels: give known as a dict of statements by id, and holds "
                "as a list of statements"
            )
        personas[qid] = (statements_of(known), statements_of(holds))
    rows = []
    for name, system in systems.items():
        learned = _learned_by_turn(f"system {name}", system, list(personas))
        counts = Counter[str]()
        for qid, (before, after) in personas.items():
            counts.update(_compared(learned.get(qid, []), before, after, least))
        row: dict[str, Any] = {"name": name}
        for share, whole in SHARES.items():
            row[share] = counts[share] / counts[whole] if counts[whole] else math.nan
            row[whole] = counts[whole]
        row["turns"] = len(labels)
        rows.append(row)
    return pd.DataFrame(rows, columns=["name", *SHARES, *SHARES.values(), "turns"])


def _learned_by_turn(who: str, system: SystemOutput, qids: list[str]) -> dict[str, list[Any]]:
    def read(qid: str, cell: Any) -> list[Any]:
        return _learned(who, qid, cell, ("statement", "replaces"))

    learned = written_by(system, "qlearned", "UpdatePtkb(llm)", read)
    check_common_turns(who, learned, qids, "turn of the labels")
    return learned


LEARNED_FIELDS = {"id": str, "statement": str, "replaces": list}
"""The fields of a learned statement that are read -> their types."""


def _learned(who: str, qid: str, cell: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """The statements that were learned in a turn, checked for the fields ``names``."""
    if cell is None:
        return []
    if isinstance(cell, list) and all(_has_fields(entry, names) for entry in cell):
        return cell
    raise DataError(
        f"{who}, turn {qid}: qlearned is not a list of dicts with {' and '.join(names)}: "
        "give the output of UpdatePtkb"
    )


def _has_fields(entry: Any, names: Sequence[str]) -> bool:
    if not isinstance(entry, dict):
        return False
    return all(isinstance(entry.get(name), LEARNED_FIELDS[name]) for name in names)


def _compared(
    learned: list[Any], known: Mapping[str, str], holds: Mapping[str, str], least: float
) -> dict[str, int]:
    """The numbers of one turn: the four totals of :data:`SHARES`, and how many a system got."""
    before = {normalised(text) for text in known.values()}
    after = {normalised(text): text for text in holds.values()}
    new = [text for key, text in after.items() if key not in before]
    still = {number for number, text in known.items() if normalised(text) in after}
    outdated = known.keys() - still
    statements = []
    replaced = set[str]()
    for entry in learned:
        if normalised(entry["statement"]) not in before:
            statements.append(entry["statement"])
        replaced.update(str(number) for number in entry["replaces"])
    added = _count_pairs(statements, new, least)
    return {
        "added": added,
        "new": len(new),
        "replaced": len(replaced & outdated),
        "outdated": len(outdated),
        "kept": len(still - replaced),
        "still": len(still),
        "wrong": len(statements) - added,
        "learned": len(statements),
    }


def word_f1(one: str, other: str) -> float:
    """The F1 of the words of two texts, without case and punctuation.

    It is twice the number of common words, divided by the words of both.

    Example:
        >>> word_f1("I live in Oslo.", "The user lives in Oslo"), word_f1("", "tea")
        (0.4444444444444444, 0.0)
    """
    words = normalised(one).split()
    others = normalised(other).split()
    common = (Counter(words) & Counter(others)).total()
    return 2 * common / max(len(words) + len(others), 1)


def _count_pairs(statements: list[str], new: list[str], least: float) -> int:
    """How many statements say the same as a new one, each paired with one other at most."""
    from scipy.optimize import linear_sum_assignment

    alike = np.zeros((len(statements), len(new)), dtype=bool)
    for row, statement in enumerate(statements):
        for number, text in enumerate(new):
            alike[row, number] = word_f1(statement, text) >= least
    return int(alike[linear_sum_assignment(alike, maximize=True)].sum())


RIGHT_LABELS = {"abstain": "unanswerable", "ask": "underspecified"}
"""The label of the turns in which each action is right."""
ACTION_MEASURES = ("precision", "recall", "F1")


def evaluate_actions(
    systems: Mapping[str, SystemOutput],
    answers: pd.DataFrame,
    *,
    turns: Turns | None = None,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
) -> pd.DataFrame:
    """Compare what systems decided with labels of answerability.

    The measures are precision, recall and F1 of abstaining and of asking back.

    Abstaining is right if a turn is labelled unanswerable, and not if it is partially answerable or
    conversational. Asking back is right if a turn is labelled underspecified. If no turn has that
    label (MTRAG has none, MTRAG-UN does), there is no row for asking. A turn for which a system
    decided nothing, such as one without passages, counts as answered.

    The intervals of 95 % of precision and recall are Wilson's (Wilson, 1927), widened for turns
    that depend on each other, see :func:`~pyterrier_ikat.evaluation.inference.interval_of_share`.
    F1 is 2 J / (1 + J), where J is the share of right turns among those that are labelled or
    chosen. So its interval is that of J, converted.

    Args:
        systems: name -> a frame with ``qid`` and ``qaction``, such as the output of a pipeline with
            :class:`~pyterrier_ikat.generate.Decide`, or a folder made by ``ikat run``.
        answers: ``qid`` and ``gold_answerability``, as from
            ``dataset("mtrag:mini").get_answers()``. Only turns with a label count.
        turns: the turns to score; by default those that all run folders were asked, or all.
        unit: what the clusters of turns are in intervals, as for :func:`~pyterrier_ikat.evaluate`;
            ``"turn"`` for Wilson's own.
        dataset: the dataset of the turns. By default the one that the run folders name.

    Returns:
        One row per system and action: ``name``, ``action``, ``turns`` (with a label), ``labelled``
        (for which the action is right), ``chosen`` (for which the system took it), ``right``
        (both), ``precision``, ``recall`` and ``F1``, each with ``_low`` and ``_high``, and
        ``unit``, ``clusters`` and ``unit_from``. A value is NaN if there are no turns to compute it
        from.

    Raises:
        UsageError: when the answers have no labels, a frame lacks a column, or a system made no
            decision.
        DataError: when a label or an action is unknown, a turn has several, or a system shares no
            turn with the labels.

    Warns:
        UserWarning: when a system made no decision for some of the labelled turns.

    Example:
        >>> turns = list("abcd")  # not of one conversation
        >>> labels = ["unanswerable", "unanswerable", "answerable", "partial"]
        >>> answers = pd.DataFrame({"qid": turns, "gold_answerability": labels})
        >>> actions = ["abstain", "answer", "abstain", "answer"]
        >>> ours = pd.DataFrame({"qid": turns, "qaction": actions})
        >>> row = evaluate_actions({"ours": ours}, answers).iloc[0]
        >>> columns = ["precision", "recall", "recall_low", "recall_high"]
        >>> row[columns].astype(float).round(3).tolist()
        [0.5, 0.5, 0.095, 0.905]
    """
    labels = labels_by_turn(answers)
    candidates = set(chosen_turns(answers["qid"], turns, "the answers"))
    labelled = [qid for qid in labels if qid in candidates]
    scored = choose_turns(labelled, asked_of(systems), chosen=turns is not None)
    labels = {qid: labels[qid] for qid in scored.ids}
    actions = ["abstain"]
    if RIGHT_LABELS["ask"] in labels.values():
        actions.append("ask")
    frames = [system for system in systems.values() if isinstance(system, pd.DataFrame)]
    clusters = find_clusters(labels, unit, known_dataset(systems, dataset), frames)
    rows = []
    for name, system in systems.items():
        decided = _decided(name, system, labels)
        without = [qid for qid, action in decided.items() if not action]
        if without:
            warnings.warn(
                f"{name} made no decision for {len(without)} of {counted(len(labels), 'turn')} "
                f"({list_first(without)}): counted as answered",
                stacklevel=3,
            )
        for action in actions:
            row = {"name": name, "action": action}
            row.update(_scores(action, decided, labels, clusters))
            row.update(clusters.columns())
            rows.append(row)
    columns = ["name", "action", "turns", "labelled", "chosen", "right"]
    for measure in ACTION_MEASURES:
        columns += [measure, f"{measure}_low", f"{measure}_high"]
    table = pd.DataFrame(rows, columns=[*columns, *UNIT_COLUMNS])
    return about_turns(table, [scored.why, *scored.notes])


def labels_by_turn(answers: pd.DataFrame) -> dict[str, str]:
    """The label of each turn that has one. Raises the same errors as :func:`evaluate_actions`."""
    labels = {}
    if "qid" in answers.columns:
        of_rows = values(answers, "gold_answerability", "")
        for qid, label_of_turn in zip(answers["qid"], of_rows, strict=True):
            if label_of_turn:
                labels[qid] = label_of_turn
    if not labels:
        raise UsageError(
            "nothing says which turns have an answer: give answers with gold_answerability, "
            "as those of mtrag:mini"
        )
    for qid, label_of_turn in labels.items():
        if label_of_turn not in ANSWERABILITY:
            raise DataError(
                f"turn {qid}: the answerability is {label_of_turn!r}: "
                f"give one of {', '.join(ANSWERABILITY)}"
            )
    check_once("the answers", answers, ["qid"], "keep one")
    return labels


def _action(qid: str, action: Any) -> str:
    if action not in (None, "", *ACTIONS):
        raise DataError(f"turn {qid}: the action is {action!r}: give one of {', '.join(ACTIONS)}")
    return action or ""


def _decided(name: str, system: SystemOutput, labels: Mapping[str, str]) -> dict[str, str]:
    actions = written_by(system, "qaction", "generate.Decide(llm)", _action)
    if not any(actions.values()):
        raise UsageError(
            f"{name} made no decision: it has no column qaction, which ikat.generate.Decide(llm) "
            "writes"
        )
    check_common_turns(name, actions, labels, "turn with a label")
    return {qid: actions.get(qid, "") for qid in labels}


def _scores(
    action: str, decided: Mapping[str, str], labels: Mapping[str, str], clusters: Clusters
) -> dict[str, Any]:
    wanted = {qid for qid, label_of_turn in labels.items() if label_of_turn == RIGHT_LABELS[action]}
    taken = {qid for qid, chosen in decided.items() if chosen == action}
    right = wanted & taken
    scores: dict[str, Any] = {
        "turns": len(labels),
        "labelled": len(wanted),
        "chosen": len(taken),
        "right": len(right),
    }
    cluster_of = dict(zip(labels, clusters.names, strict=True))
    scores |= _share_with_interval("precision", right, taken, cluster_of)
    scores |= _share_with_interval("recall", right, wanted, cluster_of)
    # The F1 is 2 J / (1 + J), where J is the share of right turns among the wanted or taken ones.
    shares = _share_with_interval("F1", right, wanted | taken, cluster_of)
    for name, share in shares.items():
        scores[name] = 2 * share / (1 + share)
    return scores


def _share_with_interval(
    name: str, right: set[str], among: set[str], cluster_of: Mapping[str, str]
) -> dict[str, float]:
    """The share of the right turns among some turns, with its interval, as named columns."""
    turns = sorted(among)
    hits = [qid in right for qid in turns]
    low, high = interval_of_share(hits, [cluster_of[qid] for qid in turns])
    share = len(right) / len(turns) if turns else math.nan
    return {name: share, f"{name}_low": low, f"{name}_high": high}
