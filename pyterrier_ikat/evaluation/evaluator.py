"""Measures, scores of rankings for each turn, and their comparison, in plain Python: a command that reads files doesn't need a frame.

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
import ir_measures.util
import numpy as np
from ir_measures import AP, P, R, nDCG
from ir_measures.providers import Provider

from ..errors import DataError, UsageError, advice, counted, did_you_mean, list_first
from .inference import ALPHA, NO_VALUE, Difference, compare, differences_of
from .units import Clusters, independent

TRACK_2023 = (nDCG @ 3, nDCG @ 5, nDCG, P(rel=1) @ 20, R(rel=1) @ 20, R(rel=1) @ 1000, AP(rel=1))
"""nDCG with the labels 0-4 as linear gains, and binary measures with relevance >= 1, as in the track's overview."""

TRACK_2024 = TRACK_2023
"""The measures of the passage ranking of 2024, as in 2023 (De Lima and Yang, Passage Query Methods, Table 2)."""


def _value(node: ast.expr) -> Any:
    """A parameter's value in a measure's name: a number, a text, True, False, None, or a dict of these."""
    if not isinstance(node, ast.Constant | ast.Dict):
        raise ValueError("a value is a number, a text, True, False, None or a dict of these")
    return ast.literal_eval(node)


# ir_measures 0.4 reads values with ast's classes Num and Str. Python 3.14 doesn't have them, and
# 3.12 warns of them.
ir_measures.util._ast_to_value = _value


def label(measure: ir_measures.Measure) -> str:
    """The measure's name with its relevance level, even if ir_measures omits the default.

    Example:
        >>> from ir_measures import NumRet, R
        >>> label(R @ 20), label(R(rel=2) @ 20), label(NumRet)  # all passages found, relevant or not
        ('R(rel=1)@20', 'R(rel=2)@20', 'NumRet')
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
    """A measure of sessions, by its name such as ``"Success@5 by session"``: a passage ``D1:3`` is turn 3 of session ``D1``.

    A session has the score of its best turn, and the highest label of its turns. A passage without
    a colon is a session of its own.

    Attributes:
        of: the measure of the sessions.
    """

    def __init__(self, of: ir_measures.Measure) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of, self.NAME = of, label(of) + BY_SESSION

    def __repr__(self) -> str:
        return str(self.NAME)


def provider_of(measure: ir_measures.Measure) -> Provider | None:
    """The first of ir_measures' providers that knows the measure and is installed; ``ir_measures.runtime`` for a user's own measure.

    Example:
        >>> from ir_measures import RR
        >>> provider_of(RR).NAME, provider_of(RR @ 10).NAME
        ('pytrec_eval', 'msmarco')
    """
    providers: list[Provider] = ir_measures.DefaultPipeline.providers
    return next((one for one in providers if one.supports(measure) and one.is_available()), None)


def as_measures(
    measures: Iterable[ir_measures.Measure | str] | ir_measures.Measure | str,
) -> list[ir_measures.Measure]:
    """Measures given as objects, by name, or as one text with commas, each once. ``FILE.py:NAME`` is a measure in a user's file.

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
        measures = [
            text.strip() for text in re.split(r",(?![^({]*[)}])", measures)
        ]  # commas within parentheses or braces don't separate
    found: dict[str, ir_measures.Measure] = {}
    for one in [measures] if isinstance(measures, ir_measures.Measure) else measures:
        measure = _checked(one)
        found[label(measure)] = measure
    if not found:
        raise UsageError("there is no measure: give some, such as [nDCG @ 5] or TRACK_2024")
    return list(found.values())


def computable(names: Iterable[str]) -> Iterator[ir_measures.Measure]:
    """The measures with these names. A name that can't be computed here is omitted.

    Example:
        >>> list(computable(["nDCG@5", "a measure of mine"]))
        [nDCG@5]
    """
    for name in names:
        with suppress(UsageError):
            yield from as_measures([name])


FORM = "write it as ir_measures does, such as nDCG@5, P(rel=2)@20, R(rel=1)@1000, AP"


def _checked(asked: ir_measures.Measure | str) -> ir_measures.Measure:
    text = asked if isinstance(asked, str) else label(asked)
    path, _, name = text.rpartition(":")
    if text.endswith(BY_SESSION):
        return BySession(_checked(text.removesuffix(BY_SESSION)))
    if path.endswith(".py"):
        return _in_file(path, name)
    try:
        measure = ir_measures.parse_measure(asked) if isinstance(asked, str) else asked
    except (NameError, ValueError, TypeError, SyntaxError):
        raise UsageError(f"measure {text!r} is unknown: {_meant(text)}{FORM}") from None
    try:
        able = [one for one in ir_measures.DefaultPipeline.providers if one.supports(measure)]
    except AssertionError:
        raise UsageError(
            f"measure {text!r} has no cutoff, or a parameter that is unknown or of a wrong kind: {FORM}"
        ) from None
    given, has = (
        measure.params,
        f"measure {text!r} has the",
    )  # trec_eval would read these values as others, or end our process
    if given.get("cutoff", 1) < 1:
        raise UsageError(
            f"{has} cutoff {given['cutoff']}: give one from 1 on, such as {text.partition('@')[0]}@20"
        )
    if given.get("rel", 1) < 1:
        raise UsageError(
            f"{has} relevance level {given['rel']}: give the least label that counts as relevant, from 1 on"
        )
    if not (
        0 <= (recall := given.get("recall", 0)) <= 1 and recall == round(recall, 2)
    ):  # trec_eval gives 0
        raise UsageError(
            f"{has} recall {recall}: give one from 0 to 1 with two decimals, which is what trec_eval reads"
        )
    if odd := [gain for gain in given.get("gains", {}).values() if type(gain) is not int]:
        raise UsageError(f"{has} gain {odd[0]!r}: trec_eval reads whole numbers")
    if not any(one.is_available() for one in able):
        needs = " or ".join(one.install_instructions() or one.NAME for one in able)
        raise UsageError(
            f"measure {text!r} can't be computed here{f' (it needs {needs})' if able else ''}: {FORM}"
        )
    return measure


def _in_file(path: str, name: str) -> ir_measures.Measure:
    """A measure in a user's file: one of ir_measures, or a function that returns a score for a turn's judgements and passages."""
    from ..store.python_files import load_python

    value = getattr(load_python(path, "a measure"), name, None)
    if isinstance(value, ir_measures.Measure):
        return _checked(value)
    if not callable(value):
        raise UsageError(
            f"{path} has no measure {name}: write a function {name}(qrels, run) that returns the score of a turn"
        )
    own: ir_measures.Measure = ir_measures.define_byquery(value, name=name)
    return own


def _meant(text: str) -> str:
    """The measure that a mistyped name probably means, with the text after the name, as a question."""
    with suppress(ValueError):
        meant = ir_measures.parse_trec_measure(
            text
        )  # trec_eval's name, which PyTerrier takes as well
        return f"did you mean {list_first([label(one) for one in meant], 3)}? "
    name, rest = re.fullmatch(r"([^(@]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    near = "" if name in (known := ir_measures.measures.registry) else did_you_mean(name, known)
    return f"{near[:-1]}{rest}? " if near else ""


Judged: TypeAlias = Mapping[str, Mapping[str, int]]
Ranking: TypeAlias = Mapping[str, Mapping[str, float]]
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
    found: dict[str, dict[str, int]] = {}
    for qid, docno, value in rows:
        found.setdefault(qid, {})[docno] = value
    return found


NUMBER_AT_THE_END = re.compile(r"[-:_.#]\d+$")
"""A passage of a document: ``clueweb22-en0000-94-02275:0`` of iKAT, ``MARCO_D59235-7`` of the organisers' collection of CAsT 2021."""


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
        meant = (
            whole.get(plain)
            or whole.get(NUMBER_AT_THE_END.sub("", plain))
            or without_number.get(plain)
        )
        if meant is not None:
            pairs.append((docno, meant))
    return pairs


def _plain(docno: str) -> str:
    """A docno without blanks and capitals."""
    return "".join(docno.split()).casefold()


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
        >>> Evaluator({"1_1": {"a": 1}, "1_2": {"b": 1}}, [nDCG @ 5]).per_turn("AD", {"1_1": {"a": 1.0}})
        {'nDCG@5': [1.0, 0.0]}
    """

    def __init__(self, judged: Judged, measures: Sequence[ir_measures.Measure]) -> None:
        self.measures, self.turns, self._judged = list(measures), list(judged), judged
        highest = max((level for labels in judged.values() for level in labels.values()), default=0)
        if unmet := [
            label(one) for one in self.measures if one.params.get("rel", 0) > max(highest, 1)
        ]:
            what = f"the highest label of these judgements is {highest}: each score of {list_first(unmet)} is 0, so choose a lower rel"
            warnings.warn(what, RelevanceWarning, stacklevel=3)
        # Without a label from 0 on, trec_eval reads what the turn before has left, or ends nowhere.
        readable = {
            qid: labels if max(labels.values()) >= 0 else {**labels, "a passage of no run": 0}
            for qid, labels in judged.items()
        }
        of_trec_eval = [one for one in self.measures if provider_of(one) is ir_measures.pytrec_eval]
        alone = [
            one for one in of_trec_eval if one.params.get("gains") or one.params.get("judged_only")
        ]
        groups = [[one for one in of_trec_eval if one not in alone], *([one] for one in alone)]
        self._passes = [
            ir_measures.pytrec_eval.evaluator(group, readable) for group in groups if group
        ]

    def without_judged(self, ranking: Ranking) -> str:
        """Words for a ranking none of whose passages is judged, for any turn; empty for any other, and for one without passages.

        Such a ranking is of another collection, or its ids have another form. Its scores would be
        0.

        Example:
            >>> from ir_measures import nDCG
            >>> Evaluator({"1_1": {"a": 1}}, [nDCG @ 5]).without_judged({"1_1": {"d7": 2.0, "d8": 1.0}})
            'none of its 2 passages is judged (they are like d7, the judged ones like a)'
        """
        found = set().union(*ranking.values())
        judged = set().union(*self._judged.values())
        if not found or not judged or found & judged:
            return ""
        what = counted(len(found), "passage")
        first = next(docno for passages in ranking.values() for docno in passages)
        like = next(docno for labels in self._judged.values() for docno in labels)
        return f"none of its {what} is judged (they are like {first}, the judged ones like {like})"

    def of_other_form(self, ranking: Ranking) -> str:
        """Words for a ranking whose docnos have another form than the judged ones, with an example of both; empty for any other.

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

    def check_form(self, who: str, ranking: Ranking) -> None:
        """Check that the docnos of a ranking have the form of the judged ones.

        Raises:
            DataError: with an example of both forms, when they would match in another form.
        """
        if unlike := self.of_other_form(ranking):
            raise DataError(f"{who}: {unlike}, so that their scores would be 0: {SAME_FORM}")

    def check_some_judged(self, who: str, ranking: Ranking) -> None:
        """Check that a passage of a ranking is judged.

        Raises:
            DataError: when none is.
        """
        self.check_form(who, ranking)
        if unlike := self.without_judged(ranking):
            raise DataError(f"{who}: {unlike}, so that every score would be 0: {SAME_COLLECTION}")

    def per_turn(self, name: str, ranking: Ranking) -> dict[str, list[float]]:
        """Measure -> a score for each judged turn. ``name`` is the name of the run in errors.

        Raises:
            DataError: when turns are named with hyphens, or a measure can't be computed on this
                ranking.
        """
        check_turn_names(f"run {name}", ranking, self.turns)
        run = {qid: ranking[qid] for qid in self.turns if qid in ranking}
        scores: dict[ir_measures.Measure, dict[str, float]] = {
            measure: {} for measure in self.measures
        }
        for evaluator in self._passes:
            for metric in evaluator.iter_calc(dict(run)):
                if metric.query_id in run:
                    scores[metric.measure][metric.query_id] = metric.value
        found: dict[str, list[float]] = {}
        for measure, of_turns in scores.items():
            if isinstance(measure, BySession):
                of_sessions = Evaluator(
                    {qid: _by_session(labels) for qid, labels in self._judged.items()}, [measure.of]
                )
                (found[label(measure)],) = of_sessions.per_turn(
                    name, {qid: _by_session(of_turn) for qid, of_turn in run.items()}
                ).values()
                continue
            if provider_of(measure) is not ir_measures.pytrec_eval:
                of_turns = _other_scores(measure, self._judged, run)
            lost = float(measure == ir_measures.NumQ)
            found[label(measure)] = [of_turns.get(turn, lost) for turn in self.turns]
        return found


def _by_session(of_turn: Mapping[str, Any]) -> dict[str, Any]:
    """The highest value of each session's turns."""
    found: dict[str, Any] = {}
    for docno, value in of_turn.items():
        session = docno.rpartition(":")[0] or docno
        found[session] = max(value, found.get(session, value))
    return found


def _other_scores(measure: ir_measures.Measure, judged: Judged, run: Ranking) -> dict[str, float]:
    """The scores for a measure that trec_eval doesn't have."""
    provider: Any = provider_of(measure)
    own = provider is ir_measures.runtime
    # Digits alone name the turns: gdeval's script takes off what stands before a hyphen, 9-1_3 and
    # 10-1_3 would be one turn.
    names = {qid if own else str(number): qid for number, qid in enumerate(judged) if qid in run}
    given = {name: _in_order(run[qid]) for name, qid in names.items()}
    if not own:  # the ranks as scores: the last passage has 1
        given = {
            name: dict(zip(docnos, map(float, range(len(docnos), 0, -1)), strict=True))
            for name, docnos in given.items()
        }
    try:
        evaluator = provider.evaluator(
            [measure], {name: dict(judged[qid]) for name, qid in names.items()}
        )
        metrics = list(evaluator.iter_calc(given)) if names else []
    except Exception as error:
        gets = ": it gets two frames of one turn, qrels (query_id, doc_id, relevance) and run (query_id, doc_id, score), and gives a number"
        raise DataError(
            f"{measure} of the provider {provider.NAME} stops with {type(error).__name__}: {error}{gets * own}"
        ) from error
    return {names[metric.query_id]: metric.value for metric in metrics if metric.query_id in names}


def _in_order(scores: Mapping[str, float]) -> dict[str, float]:
    """A turn's passages in trec_eval's order: by 32-bit score, then by docno, both descending."""
    with np.errstate(over="ignore"):  # scores beyond 32 bits are infinite, and tie
        single = np.fromiter(scores.values(), dtype=np.float64, count=len(scores)).astype(
            np.float32
        )
    return {
        docno: score
        for score, docno in sorted(zip(single.tolist(), scores, strict=True), reverse=True)
    }


def turn_scores(
    rankings: Iterable[tuple[str, Ranking]], evaluator: Evaluator
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
        if unlike := evaluator.without_judged(ranking):
            warnings.warn(
                f"run {name}: {unlike}, so that each of its scores is 0",
                NotJudgedWarning,
                stacklevel=3,
            )
    return scores


def experiment_rows(
    scores: Mapping[str, Any],
    measures: Sequence[ir_measures.Measure],
    baseline: str | None,
    clusters: Clusters | None = None,
    *,
    silent: Collection[str] = (),
) -> Rows:
    """The rows of a table of scores, with tests and intervals of the differences from a baseline.

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
        >>> rows = experiment_rows({"QR": {"nDCG@5": [0.5, 0.0]}, "AD": {"nDCG@5": [0.75, 0.25]}}, [nDCG @ 5], "QR")
        >>> [(row["nDCG@5"], row["nDCG@5 +"], row["turns"]) for row in rows]
        [(0.25, None, 2), (0.5, 2, 2)]
    """
    rows = []
    for name, ours in scores.items():
        row: dict[str, Any] = {"name": name}
        turns = len(ours[label(measures[0])])
        known = clusters or independent(turns)
        for measure in measures:
            column = label(measure)
            row[column] = aggregated(measure, ours[column])
            if baseline is not None:
                theirs = None if name == baseline else scores[baseline][column]
                tested = compared(
                    column, ours[column], theirs, known, len(scores) - 1, tested=name not in silent
                )
                of_all = aggregated(
                    measure, [1.0] * turns
                )  # as many as turns for a sum, such as NumRet
                for end in ("low", "high"):
                    tested[f"{column} {end}"] *= of_all
                row.update(tested)
        row["turns"] = turns
        if baseline is not None:
            row.update(known.columns())
        rows.append(row)
    return rows


def oracle_row(
    scores: Mapping[str, Any], measures: Sequence[ir_measures.Measure]
) -> dict[str, Any]:
    """The row of an oracle: for each turn, the scores of the run that is best by the first measure; of equal runs, the first one.

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
        >>> oracle_row({"mq4cs-n=1": {"nDCG@3": [0.5, 0.0]}, "mq4cs-n=2": {"nDCG@3": [0.25, 1.0]}}, [nDCG @ 3])
        {'name': 'oracle', 'nDCG@3': 0.75, 'turns': 2}
    """
    if ORACLE in scores:
        raise UsageError(
            f"a run is named {ORACLE}, as is the row of the best run for each turn: rename the run"
        )
    runs = list(scores.values())
    best = np.argmax([run[label(measures[0])] for run in runs], axis=0)
    found = {
        name: [runs[number][name][turn] for turn, number in enumerate(best)] for name in runs[0]
    }
    return experiment_rows({ORACLE: found}, measures, None)[0]


def aggregated(measure: ir_measures.Measure, scores: Iterable[float]) -> float:
    """A run's score from those of its turns: for most measures the mean."""
    aggregator = measure.aggregator()
    for score in scores:
        aggregator.add(score)
    return float(aggregator.result())


def compared(
    column: str,
    ours: Sequence[float],
    theirs: Sequence[float] | None,
    clusters: Clusters,
    comparisons: int,
    *,
    tested: bool = True,
) -> dict[str, Any]:
    """How scores differ from those of a baseline, see :func:`experiment_rows`. For the baseline itself, no value is known."""
    better, worse = None, None
    found = Difference(NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE, clusters.number)
    if theirs is not None:
        differences = differences_of(ours, theirs)
        better, worse = int((differences > 0).sum()), int((differences < 0).sum())
        if tested:
            found = compare(ours, theirs, clusters.names)
    row: dict[str, Any] = {
        f"{column} +": better,
        f"{column} -": worse,
        f"{column} p-value": found.p_value,
    }
    if comparisons:
        reject, corrected = bonferroni(
            [found.p_value] * comparisons
        )  # it depends on the number of tests, not on the others
        row[f"{column} reject"] = reject[0] and clusters.enough
        row[f"{column} p-value corrected"] = corrected[0]
    return {**row, f"{column} low": found.low, f"{column} high": found.high}


def bonferroni(p_values: Sequence[float]) -> tuple[list[bool], list[float]]:
    """Which of some tests reject at .05 after Bonferroni's correction, and the corrected p-values.

    Example:
        >>> bonferroni([0.01, 0.04])
        ([True, False], [0.02, 0.08])
    """
    from statsmodels.stats.multitest import multipletests

    if not p_values:
        return [], []
    reject, corrected, *_ = multipletests(p_values, ALPHA, "bonferroni")
    return [bool(one) for one in reject], [float(one) for one in corrected]


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """The repeats of each system, found by their names.

    Example:
        >>> grouped(["raw", "aqd", "aqd.repeat-2", "raw.repeat-2"])
        {'raw': ['raw', 'raw.repeat-2'], 'aqd': ['aqd', 'aqd.repeat-2']}
    """
    found: dict[str, list[str]] = {}
    for name in names:
        repeat = REPEAT.fullmatch(name)
        found.setdefault(repeat[1] if repeat else name, []).append(name)
    return found


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
    alone = runs if isinstance(runs, list | tuple) else [runs]
    named = (
        list(runs.items())
        if isinstance(runs, Mapping)
        else [(_name(run) or nameless, run) for run in alone]
    )
    names = [str(name) for name, _ in named]
    if not all(names):
        raise UsageError(
            'the runs are frames without names: give each frame its name, {"name": frame, ...}, or give run folders'
        )
    if twice := [name for name in names if names.count(name) > 1]:
        repair = advice(
            "give each its name, {name: run, ...}, or rename one",
            "rename one, or give them to two calls",
        )
        raise UsageError(f"two runs are named {twice[0]}: {repair}")
    if not names:
        raise UsageError("there is no run: give at least one")
    return {str(name): Path(run) if isinstance(run, str) else run for name, run in named}


def _name(run: Any) -> str:
    """A run's own name: that of a path, a run folder, a log or a submission."""
    place = next(
        (
            one
            for one in (run, *(getattr(run, name, None) for name in ("folder", "path")))
            if isinstance(one, str | Path)
        ),
        None,
    )
    if place is None:
        named = getattr(run, "run_id", "")
        return named if isinstance(named, str) else ""
    return Path(place).resolve().name if Path(place).is_dir() else Path(place).stem


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
    """Raise an error for turns that differ from wanted ones only by a hyphen for the underscore. Each would silently count 0.

    Raises:
        DataError: with the first such turn.

    Example:
        >>> check_turn_names("run a", ["9-1_3", "7_1"], ["9-1_3"])
    """
    wanted = set(theirs)
    for qid in ours:
        meant = re.sub(r"-(?=\d+$)", "_", str(qid))
        if qid not in wanted and meant in wanted:
            raise DataError(
                f"{who}: its turns are like {qid}, the wanted ones like {meant}: convert the qids of one of them"
            )


def check_common_turns(
    who: str, ours: Iterable[str], theirs: Iterable[str], what: str = "turn of the qrels"
) -> None:
    """Raise an error if there are turns and none of them is wanted, or as :func:`check_turn_names`.

    Raises:
        DataError: with an example of both.

    Example:
        >>> check_common_turns("run a", [], ["9-1_3"])
    """
    given, wanted = list(ours), list(theirs)
    check_turn_names(who, given, wanted)
    if given and wanted and not set(given) & set(wanted):
        mismatch = f"its turns are like {given[0]}, the wanted ones like {wanted[0]}"
        raise DataError(
            f"{who} has no {what}: {mismatch}; take the topics that the judgements were made for"
        )


class NotJudgedWarning(UserWarning):
    """No turn, or no passage of a run, has a judgement."""


class NotTestedWarning(UserWarning):
    """A system found nothing at all, so its differences from others aren't tested."""


class RelevanceWarning(UserWarning):
    """A measure counts passages as relevant from a label on that no judgement has."""


class OtherTurnsWarning(UserWarning):
    """A run lacks judged turns and has unjudged ones. They may belong to another dataset, or have other names."""


def warn_of_other_turns(who: str, ours: Iterable[str], theirs: Iterable[str]) -> None:
    """Warn if a run and the judgements both have turns that the other doesn't have. The judged ones count 0.

    Example:
        >>> warn_of_other_turns("run a", ["1_1", "1_2"], ["1_1"])
    """
    foreign, lost = sorted({*ours} - {*theirs}), sorted({*theirs} - {*ours})
    if foreign and lost:
        others = f"{counted(len(foreign), 'turn that is', 'turns that are')} not judged ({list_first(foreign)})"
        what = f"{who} lacks {counted(len(lost), 'judged turn')}, counted 0 ({list_first(lost)}), and has {others}"
        warnings.warn(what, OtherTurnsWarning, stacklevel=4)
