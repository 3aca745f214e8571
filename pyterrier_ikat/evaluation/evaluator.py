"""Measures, scores of rankings for each turn, and their comparison, without pandas.

A command that only reads files doesn't have to import pandas.

The scores are computed by those providers of ir_measures that are installed. Each provider breaks
ties in its own way: trec_eval orders docnos descending; ``RR@10`` (MS MARCO's script), ``Judged``
and ``Compat`` order them ascending; others keep the order of lines. So all except trec_eval get the
ranks of its order as scores, from the number of passages down to 1, and there are no ties to break.
A user's own measure (:func:`ir_measures.define`) gets the scores, in the same order.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import ir_measures
import numpy as np
from ir_measures import AP, P, R, nDCG
from ir_measures.providers import Provider

from ..errors import DataError, UsageError, advice, counted, did_you_mean, list_first
from .inference import ALPHA, NO_VALUE, Difference, compare, differences_of
from .units import Clusters, independent

TRACK_2023 = (nDCG @ 3, nDCG @ 5, nDCG, P(rel=1) @ 20, R(rel=1) @ 20, R(rel=1) @ 1000, AP(rel=1))
"""nDCG with the labels 0-4 as linear gains; binary measures with relevance >= 1.

As in the track's overview.
"""

TRACK_2024 = TRACK_2023
"""The measures of the passage ranking of 2024, as in 2023.

Source: De Lima and Yang, Passage Query Methods, Table 2.
"""


def parse_measure(text: str) -> ir_measures.Measure:
    """Read a measure as ir_measures writes it: ``NAME(parameter=value, ...)@CUTOFF``.

    ``ir_measures.parse_measure`` of version 0.4 reads values by classes of ``ast`` that Python 3.14
    no longer has.

    Raises:
        ValueError: when it is no measure in this form.

    Example:
        >>> parse_measure("P(rel=2)@5"), parse_measure("AP").params
        (P(rel=2)@5, {})
    """
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(
            f"not in the form NAME(parameter=value, ...)@CUTOFF: {error.msg}"
        ) from None
    parameters = {}
    cutoff = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        cutoff = _parameter(node.right)
        node = node.left
    if isinstance(node, ast.Call) and not node.args:
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in parameters:
                raise ValueError("each parameter has a name, and stands once")
            parameters[keyword.arg] = _parameter(keyword.value)
        node = node.func
    if not isinstance(node, ast.Name) or node.id not in ir_measures.measures.registry:
        raise ValueError("no measure of ir_measures has this name")
    family = ir_measures.measures.registry[node.id]
    if cutoff is not None:
        parameters[family.AT_PARAM] = cutoff
    measure: ir_measures.Measure = family(**parameters)
    return measure


def _parameter(node: ast.expr) -> Any:
    """The value of a parameter: a number, a text, True, False, None, or a dict of these."""
    value = ast.literal_eval(node)
    if not isinstance(value, int | float | str | dict | None):
        raise ValueError(f"{value!r} is no number, text, True, False, None or dict")
    return value


def label(measure: ir_measures.Measure) -> str:
    """The measure's name with its relevance level, even if ir_measures omits the default.

    Example:
        >>> from ir_measures import NumRet, R
        >>> label(R @ 20), label(R(rel=2) @ 20)
        ('R(rel=1)@20', 'R(rel=2)@20')
        >>> label(NumRet)  # all passages found, relevant or not
        'NumRet'
    """
    if not measure.params.keys() <= measure.SUPPORTED_PARAMS.keys():
        return str(measure.NAME)  # ir_measures can't print it
    text = str(measure)
    level = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else None
    if not isinstance(level, int) or "rel=" in text:
        return text
    name, _, cutoff = text.partition("@")
    name = f"{name[:-1]},rel={level})" if name.endswith(")") else f"{name}(rel={level})"
    return f"{name}@{cutoff}" if cutoff else name


BY_SESSION = " by session"


class BySession(ir_measures.Measure):
    """A measure of sessions, by its name such as ``"Success@5 by session"``.

    A passage ``D1:3`` is turn 3 of session ``D1``. A session has the score of its best turn, and
    the highest label of its turns. A passage without a colon is a session of its own.

    Attributes:
        of: the measure of the sessions.
    """

    def __init__(self, of: ir_measures.Measure) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of = of
        self.NAME = label(of) + BY_SESSION

    def __repr__(self) -> str:
        return str(self.NAME)


def provider_of(measure: ir_measures.Measure) -> Provider | None:
    """The first installed provider of ir_measures that knows the measure.

    It is ``ir_measures.runtime`` for a user's own measure.

    Example:
        >>> from ir_measures import RR
        >>> provider_of(RR).NAME, provider_of(RR @ 10).NAME
        ('pytrec_eval', 'msmarco')
    """
    providers: list[Provider] = ir_measures.DefaultPipeline.providers
    for provider in providers:
        if provider.supports(measure) and provider.is_available():
            return provider
    return None


def as_measures(
    measures: Iterable[ir_measures.Measure | str] | ir_measures.Measure | str,
) -> list[ir_measures.Measure]:
    """Measures given as objects, by name, or as one text with commas, each once.

    ``FILE.py:NAME`` is a measure in a user's file.

    ``Success@5 by session`` is a measure of sessions, see :class:`BySession`.

    Raises:
        UsageError: when a name is unknown, a measure can't be computed here, or there is none.

    Example:
        >>> from ir_measures import nDCG
        >>> as_measures(["nDCG@5", nDCG @ 5, "R@20"])
        [nDCG@5, R@20]
        >>> as_measures("nDCG@5, P(rel=2,judged_only=True)@20")
        [nDCG@5, P(rel=2,judged_only=True)@20]
    """
    if isinstance(measures, str):
        measures = [text.strip() for text in COMMA_OUTSIDE_BRACKETS.split(measures)]
    elif isinstance(measures, ir_measures.Measure) or not isinstance(measures, Iterable):
        measures = [measures]
    by_label: dict[str, ir_measures.Measure] = {}
    for argument in measures:
        measure = _checked(argument)
        by_label[label(measure)] = measure
    if not by_label:
        raise UsageError("there is no measure: give some, such as [nDCG @ 5] or TRACK_2024")
    return list(by_label.values())


def computable(names: Iterable[str]) -> Iterator[ir_measures.Measure]:
    """The measures with these names. A name that can't be computed here is omitted.

    Example:
        >>> list(computable(["nDCG@5", "a measure of mine"]))
        [nDCG@5]
    """
    for name in names:
        with suppress(UsageError):
            yield from as_measures([name])


MEASURE_FORM = "write it as ir_measures does, such as nDCG@5, P(rel=2)@20, R(rel=1)@1000, AP"
COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^({]*[)}])")


def _checked(argument: ir_measures.Measure | str) -> ir_measures.Measure:
    if not isinstance(argument, str | ir_measures.Measure):
        raise UsageError(
            f"the measure {_name_of(argument)} is a {type(argument).__name__}: give a measure of "
            "ir_measures or its name; ir_measures.define_byquery makes one of a function"
        )
    text = argument if isinstance(argument, str) else label(argument)
    if text.endswith(BY_SESSION):
        return BySession(_checked(text.removesuffix(BY_SESSION)))
    path, _, name = text.rpartition(":")
    if path.endswith(".py"):
        return _in_file(path, name)
    if isinstance(argument, str):
        try:
            measure = parse_measure(argument)
        except (ValueError, TypeError):
            raise UsageError(f"measure {text!r} is unknown: {_meant(text)}{MEASURE_FORM}") from None
    else:
        measure = argument
    providers = _providers(measure, text)
    _check_parameters(measure.params, text)
    if not any(provider.is_available() for provider in providers):
        needs = " or ".join(
            provider.install_instructions() or provider.NAME for provider in providers
        )
        why = f" (it needs {needs})" if needs else ""
        raise UsageError(f"measure {text!r} can't be computed here{why}: {MEASURE_FORM}")
    return measure


def _name_of(argument: Any) -> str:
    """The name of a function or class, or the repr of anything else."""
    return str(getattr(argument, "__name__", repr(argument)))


def _providers(measure: ir_measures.Measure, text: str) -> list[Any]:
    """The providers that know a measure, installed or not."""
    providers = ir_measures.DefaultPipeline.providers
    try:
        return [provider for provider in providers if provider.supports(measure)]
    except AssertionError:
        raise UsageError(
            f"measure {text!r} has no cutoff, or a parameter that is unknown or of a wrong kind: "
            f"{MEASURE_FORM}"
        ) from None


def _check_parameters(parameters: Mapping[str, Any], text: str) -> None:
    """Refuse values that trec_eval would read as other values, or that would end our process."""
    cutoff = parameters.get("cutoff", 1)
    if cutoff < 1:
        name = text.partition("@")[0]
        raise UsageError(
            f"measure {text!r} has the cutoff {cutoff}: give one from 1 on, such as {name}@20"
        )
    level = parameters.get("rel", 1)
    if level < 1:
        raise UsageError(
            f"measure {text!r} has the relevance level {level}: give the least label that counts "
            "as relevant, from 1 on"
        )
    recall = parameters.get("recall", 0)
    if not 0 <= recall <= 1 or recall != round(recall, 2):  # trec_eval gives 0
        raise UsageError(
            f"measure {text!r} has the recall {recall}: give one from 0 to 1 with two decimals, "
            "which is what trec_eval reads"
        )
    for gain in parameters.get("gains", {}).values():
        if type(gain) is not int:
            raise UsageError(
                f"measure {text!r} has the gain {gain!r}: trec_eval reads whole numbers"
            )


def _in_file(path: str, name: str) -> ir_measures.Measure:
    """A measure in a user's file.

    It is one of ir_measures, or a function that returns a score for a turn's judgements and
    passages.
    """
    from ..store.python_files import load_python

    value = getattr(load_python(path, "a measure"), name, None)
    if isinstance(value, ir_measures.Measure):
        return _checked(value)
    if not callable(value):
        raise UsageError(
            f"{path} has no measure {name}: write a function {name}(qrels, run) that returns the "
            "score of a turn"
        )
    own: ir_measures.Measure = ir_measures.define_byquery(value, name=name)
    return own


def _meant(text: str) -> str:
    """Ask whether a mistyped name means a known measure; empty if none is similar."""
    with suppress(ValueError):
        # trec_eval's names, which PyTerrier takes as well
        labels = [label(measure) for measure in ir_measures.parse_trec_measure(text)]
        return f"did you mean {list_first(labels, 3)}? "
    name = re.split(r"[(@]", text, maxsplit=1)[0]
    parameters = text.removeprefix(name)
    known = ir_measures.measures.registry
    question = "" if name in known else did_you_mean(name, known)
    if not question:
        return ""
    return f"{question.removesuffix('?')}{parameters}? "


Judged: TypeAlias = Mapping[str, Mapping[str, int]]
"""Turn -> its judged passages' labels."""

RankingScores: TypeAlias = Mapping[str, Mapping[str, float]]
"""Turn -> its passages' scores, in any order."""

Rows: TypeAlias = list[dict[str, Any]]

REPEAT = re.compile(r"(.+)\.repeat-([1-9]\d*)")
"""The name of a system's second, third, ... run."""
ORACLE = "oracle"
SAME_FORM = "convert the docnos of one of them"
SAME_COLLECTION = (
    "search the collection that the judgements are about, or give the judgements of this one"
)


def judgements_by_turn(rows: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """The labels of each turn's passages.

    Example:
        >>> judgements_by_turn([("1_1", "a", 2), ("1_1", "b", 0)])
        {'1_1': {'a': 2, 'b': 0}}
    """
    labels: dict[str, dict[str, int]] = {}
    for qid, docno, value in rows:
        labels.setdefault(qid, {})[docno] = value
    return labels


NUMBER_AT_THE_END = re.compile(r"[-:_.#]\d+$")
"""The number of a passage in its document.

``clueweb22-en0000-94-02275:0`` is a docno of iKAT, ``MARCO_D59235-7`` one of the organisers'
collection of CAsT 2021.
"""


def other_forms(found: Iterable[str], judged: Iterable[str]) -> list[tuple[str, str]]:
    """The docnos that are judged in another form, each with that form, in order.

    They may differ by case and blanks, and one of the two may have a number at its end. Two
    different numbers are two passages.

    Example:
        >>> other_forms(["A:0", "b:1", "c "], ["a", "b:2", "c"])
        [('A:0', 'a'), ('c ', 'c')]
    """
    whole: dict[str, str] = {}
    without_number: dict[str, str] = {}
    for docno in judged:
        plain = _plain(docno)
        whole[plain] = docno
        without_number[NUMBER_AT_THE_END.sub("", plain)] = docno
    pairs = []
    for docno in sorted(found):
        plain = _plain(docno)
        document = NUMBER_AT_THE_END.sub("", plain)
        judged_form = whole.get(plain) or whole.get(document) or without_number.get(plain)
        if judged_form is not None:
            pairs.append((docno, judged_form))
    return pairs


def _plain(docno: str) -> str:
    """A docno without blanks and capitals."""
    return "".join(docno.split()).casefold()


def _first_docno(by_turn: Mapping[str, Mapping[str, Any]]) -> str:
    """The first passage of the first turn that has any."""
    return next(docno for passages in by_turn.values() for docno in passages)


class Evaluator:
    """Judgements and measures, ready for any number of rankings.

    A ranking is scored as by ``trec_eval -c``: passages are ordered by their scores as 32-bit
    floats, ties are ordered by docno (descending), and a judged turn that is missing from the
    ranking has zeros. The judgements are read once. Measures of trec_eval share one pass, except
    those with their own gains or ``judged_only``. In ir_measures' provider, these parameters would
    also affect the other measures of a pass.

    Attributes:
        measures: the measures to compute.
        turns: the judged turns, in their order.

    Warns:
        RelevanceWarning: when a measure's ``rel`` is above every label.

    Example:
        >>> from ir_measures import nDCG
        >>> evaluator = Evaluator({"1_1": {"a": 1}, "1_2": {"b": 1}}, [nDCG @ 5])
        >>> evaluator.per_turn("AD", {"1_1": {"a": 1.0}})
        {'nDCG@5': [1.0, 0.0]}
    """

    def __init__(self, judged: Judged, measures: Sequence[ir_measures.Measure]) -> None:
        self.measures = list(measures)
        self.turns = list(judged)
        self._judged = judged
        self._warn_of_levels()
        # Without a label from 0 on, trec_eval reads what the turn before has left, or ends nowhere.
        readable: dict[str, Mapping[str, int]] = {}
        for qid, labels in judged.items():
            if max(labels.values()) < 0:
                labels = {**labels, "a passage of no run": 0}
            readable[qid] = labels
        together: list[ir_measures.Measure] = []
        groups = [together]
        for measure in self.measures:
            if provider_of(measure) is not ir_measures.pytrec_eval:
                continue
            if measure.params.get("gains") or measure.params.get("judged_only"):
                groups.append([measure])
            else:
                together.append(measure)
        self._passes = []
        for group in groups:
            if group:
                self._passes.append(ir_measures.pytrec_eval.evaluator(group, readable))

    def _warn_of_levels(self) -> None:
        """Warn of measures that count no judged passage as relevant."""
        highest = max(
            (value for labels in self._judged.values() for value in labels.values()), default=0
        )
        too_high = []
        for measure in self.measures:
            if measure.params.get("rel", 0) > max(highest, 1):
                too_high.append(label(measure))
        if too_high:
            warnings.warn(
                f"the highest label of these judgements is {highest}: each score of "
                f"{list_first(too_high)} is 0, so choose a lower rel",
                RelevanceWarning,
                stacklevel=4,
            )

    def without_judged(self, ranking: RankingScores) -> str:
        """Say that no passage of a ranking is judged; empty if some are, or if it has none.

        Such a ranking is of another collection, or its ids have another form. Its scores would be
        0.

        Example:
            >>> from ir_measures import nDCG
            >>> evaluator = Evaluator({"1_1": {"a": 1}}, [nDCG @ 5])
            >>> evaluator.without_judged({"1_1": {"d7": 2.0, "d8": 1.0}})
            'none of its 2 passages is judged (they are like d7, the judged ones like a)'
        """
        found = set().union(*ranking.values())
        judged = set().union(*self._judged.values())
        if not found or not judged or found & judged:
            return ""
        first = _first_docno(ranking)
        first_judged = _first_docno(self._judged)
        return (
            f"none of its {counted(len(found), 'passage')} is judged "
            f"(they are like {first}, the judged ones like {first_judged})"
        )

    def of_other_form(self, ranking: RankingScores) -> str:
        """Say, with examples, that a ranking's docnos have another form; empty if they have not.

        Forms differ by case, by blanks, or by a number at the end such as ``:0`` or ``-7``, as
        those of a passage and its document.

        Example:
            >>> from ir_measures import nDCG
            >>> Evaluator({"1_1": {"a": 1}}, [nDCG @ 5]).of_other_form({"1_1": {"a:0": 2.0}})
            "its passages are like 'a:0', the judged ones like 'a'"
        """
        found = set().union(*ranking.values())
        judged = set().union(*self._judged.values())
        same = len(found & judged)
        if same * 10 >= len(judged):
            return ""  # a tenth of the judged passages as they are: this is their form
        pairs = other_forms(found - judged, judged)
        if len(pairs) <= same:
            return ""
        ours, theirs = pairs[0]
        return f"its passages are like {ours!r}, the judged ones like {theirs!r}"

    def check_form(self, who: str, ranking: RankingScores) -> None:
        """Check that the docnos of a ranking have the form of the judged ones.

        Raises:
            DataError: with an example of both forms, when they would match in another form.
        """
        problem = self.of_other_form(ranking)
        if problem:
            raise DataError(f"{who}: {problem}, so that their scores would be 0: {SAME_FORM}")

    def check_some_judged(self, who: str, ranking: RankingScores) -> None:
        """Check that a passage of a ranking is judged.

        Raises:
            DataError: when none is.
        """
        self.check_form(who, ranking)
        problem = self.without_judged(ranking)
        if problem:
            raise DataError(f"{who}: {problem}, so that every score would be 0: {SAME_COLLECTION}")

    def per_turn(self, name: str, ranking: RankingScores) -> dict[str, list[float]]:
        """Score a ranking: measure -> a score for each judged turn.

        ``name`` is the name of the run in errors.

        Raises:
            DataError: when turns are named with hyphens, or a measure can't be computed on this
                ranking.
        """
        check_turn_names(f"run {name}", ranking, self.turns)
        run = {qid: ranking[qid] for qid in self.turns if qid in ranking}
        scores_of_trec_eval = self._scores_of_trec_eval(run)
        scores: dict[str, list[float]] = {}
        for measure in self.measures:
            if isinstance(measure, BySession):
                scores[label(measure)] = self._scores_by_session(name, measure, run)
                continue
            if provider_of(measure) is ir_measures.pytrec_eval:
                of_turns = scores_of_trec_eval.get(measure, {})
            else:
                of_turns = _other_scores(measure, self._judged, run)
            of_missing_turn = float(measure == ir_measures.NumQ)
            scores[label(measure)] = [of_turns.get(qid, of_missing_turn) for qid in self.turns]
        return scores

    def _scores_of_trec_eval(
        self, run: RankingScores
    ) -> dict[ir_measures.Measure, dict[str, float]]:
        scores: dict[ir_measures.Measure, dict[str, float]] = {}
        for evaluator in self._passes:
            for metric in evaluator.iter_calc(dict(run)):
                if metric.query_id in run:
                    scores.setdefault(metric.measure, {})[metric.query_id] = metric.value
        return scores

    def _scores_by_session(self, name: str, measure: BySession, run: RankingScores) -> list[float]:
        judged = {qid: _by_session(labels) for qid, labels in self._judged.items()}
        sessions = {qid: _by_session(passages) for qid, passages in run.items()}
        [scores] = Evaluator(judged, [measure.of]).per_turn(name, sessions).values()
        return scores


def _by_session(of_turn: Mapping[str, Any]) -> dict[str, Any]:
    """The highest value of each session's turns."""
    highest: dict[str, Any] = {}
    for docno, value in of_turn.items():
        session = docno.rpartition(":")[0] or docno
        highest[session] = max(value, highest.get(session, value))
    return highest


def _other_scores(
    measure: ir_measures.Measure, judged: Judged, run: RankingScores
) -> dict[str, float]:
    """The scores for a measure that trec_eval doesn't have."""
    provider: Any = provider_of(measure)
    own = provider is ir_measures.runtime
    turn_of: dict[str, str] = {}  # the name that the provider gets -> the turn
    rankings: dict[str, dict[str, float]] = {}
    labels: dict[str, dict[str, int]] = {}
    for number, qid in enumerate(judged):
        if qid not in run:
            continue
        # Digits alone name the turns: gdeval's script takes off what stands before a hyphen,
        # 9-1_3 and 10-1_3 would be one turn.
        name = qid if own else str(number)
        ranking = _in_order(run[qid])
        if not own:  # the ranks as scores: the last passage has 1
            ranks = range(len(ranking), 0, -1)
            ranking = {docno: float(rank) for docno, rank in zip(ranking, ranks, strict=True)}
        turn_of[name] = qid
        rankings[name] = ranking
        labels[name] = dict(judged[qid])
    if not turn_of:
        return {}
    try:
        metrics = list(provider.evaluator([measure], labels).iter_calc(rankings))
    except Exception as error:
        message = f"{measure} of the provider {provider.NAME} stops with {type(error).__name__}"
        message += f": {error}"
        if own:
            message += (
                ": it gets two frames of one turn, qrels (query_id, doc_id, relevance) and run "
                "(query_id, doc_id, score), and gives a number"
            )
        raise DataError(message) from error
    scores = {}
    for metric in metrics:
        if metric.query_id in turn_of:
            scores[turn_of[metric.query_id]] = metric.value
    return scores


def _in_order(scores: Mapping[str, float]) -> dict[str, float]:
    """A turn's passages in trec_eval's order: by 32-bit score, then by docno, both descending."""
    with np.errstate(over="ignore"):  # scores beyond 32 bits are infinite, and tie
        single = np.array(list(scores.values()), dtype=np.float64).astype(np.float32)
    pairs = sorted(zip(single.tolist(), scores, strict=True), reverse=True)
    return {docno: score for score, docno in pairs}


def turn_scores(
    rankings: Iterable[tuple[str, RankingScores]], evaluator: Evaluator
) -> dict[str, dict[str, list[float]]]:
    """Run -> measure -> a score for each turn of the judgements, for rankings by name.

    Raises:
        DataError: when one shares no turn with the judgements, names turns with hyphens, or has
            docnos of another form.

    Warns:
        NotJudgedWarning: when no passage of one is judged.
    """
    scores = {}
    for name, ranking in rankings:
        scores[name] = evaluator.per_turn(name, ranking)
        check_common_turns(f"run {name}", ranking, evaluator.turns)
        evaluator.check_form(f"run {name}", ranking)
        problem = evaluator.without_judged(ranking)
        if problem:
            message = f"run {name}: {problem}, so that each of its scores is 0"
            warnings.warn(message, NotJudgedWarning, stacklevel=3)
    return scores


def experiment_rows(
    scores: Mapping[str, Any],
    measures: Sequence[ir_measures.Measure],
    baseline: str | None,
    clusters: Clusters | None = None,
    *,
    silent: Collection[str] = (),
) -> Rows:
    """The rows of a table of scores, with tests and intervals of differences from a baseline.

    With independent turns they are those of ``pt.Experiment(..., correction="bonferroni")``.

    Args:
        scores: name -> measure -> a score for each turn; see :meth:`Evaluator.per_turn`.
        measures: the measures; each says how it is aggregated (most by the mean, ``NumRet`` by the
            sum).
        baseline: the system with which the others are compared, see
            :func:`~pyterrier_ikat.evaluation.inference.compare`. The p-value is multiplied by the
            number of comparisons (Bonferroni). Without a baseline, or with one system, no p-value
            is corrected.
        clusters: the clusters of the turns; by default each turn is independent.
        silent: systems that found nothing for any of the turns. They aren't tested.

    Returns:
        ``name``; per measure its score and, with a baseline, `` +`` and `` -`` (turns on which the
        system is better and worse), `` p-value``, `` reject`` (at .05), `` p-value corrected``, and
        `` low`` and `` high``, the 95 % interval of the difference; ``turns``; and with a baseline
        ``unit``, ``clusters`` (how many) and ``unit_from``. A system with the baseline's score on
        every turn has the p-value NaN. With fewer than five clusters nothing is rejected.

    Example:
        >>> from ir_measures import nDCG
        >>> scores = {"QR": {"nDCG@5": [0.5, 0.0]}, "AD": {"nDCG@5": [0.75, 0.25]}}
        >>> rows = experiment_rows(scores, [nDCG @ 5], "QR")
        >>> [(row["nDCG@5"], row["nDCG@5 +"], row["turns"]) for row in rows]
        [(0.25, None, 2), (0.5, 2, 2)]
    """
    rows = []
    for name, ours in scores.items():
        row: dict[str, Any] = {"name": name}
        turns = len(ours[label(measures[0])])
        known_clusters = clusters or independent(turns)
        for measure in measures:
            column = label(measure)
            row[column] = aggregated(measure, ours[column])
            if baseline is None:
                continue
            theirs = None if name == baseline else scores[baseline][column]
            comparison = compare_with_baseline(
                ours[column], theirs, known_clusters, len(scores) - 1, tested=name not in silent
            )
            # A mean has the factor 1, a sum such as NumRet as many as turns.
            factor = aggregated(measure, [1.0] * turns)
            comparison["low"] *= factor
            comparison["high"] *= factor
            for title, value in comparison.items():
                row[f"{column} {title}"] = value
        row["turns"] = turns
        if baseline is not None:
            row.update(known_clusters.columns())
        rows.append(row)
    return rows


def oracle_row(
    scores: Mapping[str, Any], measures: Sequence[ir_measures.Measure]
) -> dict[str, Any]:
    """The row of an oracle: for each turn, the scores of the best run by the first measure.

    Of equal runs, the first one counts.

    It reads the judgements, so it is not a system: it shows what a perfect choice among the runs
    would give. It gets no significance test. Source: Abbasiantaeb, Lupart and Aliannejadi, MQ4CS
    (arXiv 2403.19302v3). Their oracle knows the best number of queries by nDCG@3.

    Args:
        scores: name -> measure -> a score for each turn; see :meth:`Evaluator.per_turn`.
        measures: the measures.

    Raises:
        UsageError: when a run has the name of this row.

    Example:
        >>> from ir_measures import nDCG
        >>> scores = {"n=1": {"nDCG@3": [0.5, 0.0]}, "n=2": {"nDCG@3": [0.25, 1.0]}}
        >>> oracle_row(scores, [nDCG @ 3])
        {'name': 'oracle', 'nDCG@3': 0.75, 'turns': 2}
    """
    if ORACLE in scores:
        raise UsageError(
            f"a run is named {ORACLE}, as is the row of the best run for each turn: rename the run"
        )
    runs = list(scores.values())
    first = label(measures[0])
    best = np.argmax([run[first] for run in runs], axis=0)  # the number of a run, by turn
    of_oracle: dict[str, list[float]] = {}
    for name in runs[0]:
        of_oracle[name] = [runs[number][name][turn] for turn, number in enumerate(best)]
    return experiment_rows({ORACLE: of_oracle}, measures, None)[0]


def aggregated(measure: ir_measures.Measure, scores: Iterable[float]) -> float:
    """A run's score from those of its turns: for most measures the mean."""
    aggregator = measure.aggregator()
    for score in scores:
        aggregator.add(score)
    return float(aggregator.result())


def compare_with_baseline(
    ours: Sequence[float],
    theirs: Sequence[float] | None,
    clusters: Clusters,
    comparisons: int,
    *,
    tested: bool = True,
) -> dict[str, Any]:
    """Compare a system with a baseline by a measure: ``+``, ``-``, ``p-value``, ``low``, ...

    See :func:`experiment_rows`, which has them as columns. For the baseline itself, ``theirs`` is
    None, and no value is known.
    """
    better = worse = None
    difference = Difference(NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE, clusters.number)
    if theirs is not None:
        of_turns = differences_of(ours, theirs)
        better = int((of_turns > 0).sum())
        worse = int((of_turns < 0).sum())
        if tested:
            difference = compare(ours, theirs, clusters.names)
    comparison: dict[str, Any] = {"+": better, "-": worse, "p-value": difference.p_value}
    if comparisons:
        # The correction depends on the number of tests, not on the other p-values.
        rejected, corrected = bonferroni([difference.p_value] * comparisons)
        comparison["reject"] = rejected[0] and clusters.enough
        comparison["p-value corrected"] = corrected[0]
    comparison["low"] = difference.low
    comparison["high"] = difference.high
    return comparison


def bonferroni(p_values: Sequence[float]) -> tuple[list[bool], list[float]]:
    """Bonferroni's correction: which tests reject at .05, and the corrected p-values.

    Example:
        >>> bonferroni([0.01, 0.04])
        ([True, False], [0.02, 0.08])
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return [], []
    rejected, corrected, *_ = multipletests(p_values, ALPHA, "bonferroni")
    return [bool(value) for value in rejected], [float(value) for value in corrected]


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """The repeats of each system, found by their names.

    Example:
        >>> grouped(["raw", "aqd", "aqd.repeat-2", "raw.repeat-2"])
        {'raw': ['raw', 'raw.repeat-2'], 'aqd': ['aqd', 'aqd.repeat-2']}
    """
    repeats: dict[str, list[str]] = {}
    for name in names:
        repeat = REPEAT.fullmatch(name)
        system = repeat[1] if repeat else name
        repeats.setdefault(system, []).append(name)
    return repeats


def name_runs(runs: Any, nameless: str = "") -> dict[str, Any]:
    """Runs by their names: the given ones, or those of their folders, files and submissions.

    Args:
        runs: a run, a list of runs, or a dict name -> run.
        nameless: the name for a run without a name. Without it, such a run is an error.

    Raises:
        UsageError: when there are no runs, two have the same name, or one has none.

    Example:
        >>> name_runs(["runs/one.trec", "two.trec"])
        {'one': PosixPath('runs/one.trec'), 'two': PosixPath('two.trec')}
    """
    if isinstance(runs, Mapping):
        pairs = [(str(name), run) for name, run in runs.items()]
    else:
        as_list = runs if isinstance(runs, list | tuple) else [runs]
        pairs = [(_name(run) or nameless, run) for run in as_list]
    names = [name for name, _run in pairs]
    if not names:
        raise UsageError("there is no run: give at least one")
    if "" in names:
        raise UsageError(
            'the runs are frames without names: give each frame its name, {"name": frame, ...}, '
            "or give run folders"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        repair = advice(
            "give each its name, {name: run, ...}, or rename one",
            "rename one, or give them to two calls",
        )
        raise UsageError(f"two runs are named {twice[0]}: {repair}")
    return {name: Path(run) if isinstance(run, str) else run for name, run in pairs}


def _name(run: Any) -> str:
    """A run's own name: that of a path, a run folder, a log or a submission."""
    for path in (run, getattr(run, "folder", None), getattr(run, "path", None)):
        if isinstance(path, str | Path):
            return Path(path).resolve().name if Path(path).is_dir() else Path(path).stem
    run_id = getattr(run, "run_id", "")
    return run_id if isinstance(run_id, str) else ""


def check_baseline(runs: Collection[str], baseline: str | None, what: str = "runs") -> None:
    """Check that there are runs, and that the baseline is one of them.

    Raises:
        UsageError: when not.
    """
    if not runs:
        raise UsageError("there is no run: give at least one")
    if baseline is not None and baseline not in runs:
        raise UsageError(f"the baseline {baseline!r} is not one of the {what}: {', '.join(runs)}")


def check_turn_names(who: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Refuse turns that differ from wanted ones only by a hyphen for the underscore.

    Each would silently count 0.

    Raises:
        DataError: with the first such turn.

    Example:
        >>> check_turn_names("run a", ["9-1_3", "7_1"], ["9-1_3"])
    """
    wanted = set(theirs)
    for qid in ours:
        with_underscore = re.sub(r"-(?=\d+$)", "_", str(qid))
        if qid not in wanted and with_underscore in wanted:
            raise DataError(
                f"{who}: its turns are like {qid}, the wanted ones like {with_underscore}: "
                "convert the qids of one of them"
            )


def check_common_turns(
    who: str, ours: Iterable[str], theirs: Iterable[str], what: str = "turn of the qrels"
) -> None:
    """Refuse a run without any wanted turn, or with names that :func:`check_turn_names` refuses.

    Raises:
        DataError: with an example of both.

    Example:
        >>> check_common_turns("run a", [], ["9-1_3"])
    """
    turns = list(ours)
    wanted = list(theirs)
    check_turn_names(who, turns, wanted)
    if turns and wanted and set(turns).isdisjoint(wanted):
        raise DataError(
            f"{who} has no {what}: its turns are like {turns[0]}, the wanted ones like "
            f"{wanted[0]}; take the topics that the judgements were made for"
        )


class NotJudgedWarning(UserWarning):
    """No turn, or no passage of a run, has a judgement."""


class NotTestedWarning(UserWarning):
    """A system found nothing at all, so its differences from others aren't tested."""


class RelevanceWarning(UserWarning):
    """A measure counts passages as relevant from a label on that no judgement has."""


class OtherTurnsWarning(UserWarning):
    """A run lacks judged turns and has unjudged ones.

    They may belong to another dataset, or have other names.
    """


def warn_of_other_turns(who: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Warn if a run and the judgements both have turns that the other doesn't have.

    The judged ones count 0.

    Example:
        >>> warn_of_other_turns("run a", ["1_1", "1_2"], ["1_1"])
    """
    turns = set(ours)
    judged = set(theirs)
    foreign = sorted(turns - judged)
    lost = sorted(judged - turns)
    if foreign and lost:
        unjudged = counted(len(foreign), "turn that is", "turns that are")
        warnings.warn(
            f"{who} lacks {counted(len(lost), 'judged turn')}, counted 0 ({list_first(lost)}), "
            f"and has {unjudged} not judged ({list_first(foreign)})",
            OtherTurnsWarning,
            stacklevel=4,
        )
