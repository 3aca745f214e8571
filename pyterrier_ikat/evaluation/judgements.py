"""Relevance judgements of passages: pools, an LLM as assessor, agreement of judges, holes.

Holes are unjudged passages at the top of runs. They get the labels of a model, whose agreement with
people is measured first.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import ir_measures
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import at_least, by_position
from ..completions.json_answers import answer_in, choice_of
from ..completions.kinds import Kind
from ..completions.reasoning import without_reasoning
from ..completions.usable import without_fences
from ..completions.verdicts import grade, without_scale
from ..conversations import IkatDataset, check_qrels, datasets, merge_qrels
from ..conversations.frame import (
    column,
    object_frame,
    question_column,
    values,
    with_columns,
    with_text_ids,
)
from ..errors import DataError, UsageError, advice, counted, list_first
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields
from ..planning import Plan
from ..prompts import pick_statements, ptkb_text
from ..runs import strictly_decreasing
from ..tables import Table, format_score, of_frame
from .evaluator import TRACK_2023, as_measures, check_turn_names, label, name_runs
from .finished_runs import RunSource, check_once, results_of
from .scores import evaluate, natural_key


def pool_runs(runs: Mapping[str, RunSource] | Sequence[RunSource], depth: int = 10) -> pd.DataFrame:
    """The passages in the top ``depth`` of any run.

    Once they are judged, no run has an unjudged passage there.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4: the top 10 of all
    models and baselines, including passages that the official judges have seen.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``), run folder, run file
            or submission; or a list of folders and files. The top is by rank.
        depth: how many passages of each turn and run.

    Returns:
        ``qid``, ``docno``: each pair once, sorted by conversation, turn and docno, whatever the
        order of the runs. So the order doesn't tell a judge anything about a passage's rank.

    Raises:
        UsageError: when there are no runs by name, or the depth is below 1.
        DataError: when a run repeats a passage within a turn, has a number as its name, has a score
            that is not finite, or has scores that rise with the rank.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["b", "c"], "score": [2.0, 1.0]})
        >>> one = one.assign(rank=[0, 1])
        >>> pool_runs({"one": one, "two": one.assign(docno=["a", "b"])}, depth=1).values.tolist()
        [['1_1', 'a'], ['1_1', 'b']]
    """
    at_least(1, depth=depth)
    pairs = set[tuple[str, str]]()
    for name, run in name_runs(runs).items():
        pairs |= _top(name, results_of(name, run), depth)
    ordered = sorted(pairs, key=lambda pair: (natural_key(pair[0]), pair[1]))
    return object_frame(
        {"qid": [qid for qid, _ in ordered], "docno": [docno for _, docno in ordered]}
    )


def _top(name: str, run: pd.DataFrame, depth: int) -> set[tuple[str, str]]:
    pt.validate.result_frame(run, extra_columns=["score", "rank"])
    try:
        ordered = strictly_decreasing(with_text_ids(f"run {name}", run))
    except DataError as error:
        raise DataError(f"run {name}: {error}") from None
    top = ordered[ordered["rank"] < depth]
    return set(zip(top["qid"], top["docno"], strict=True))


GOLD = ("qresolved", "qptkb", "qgoldptkb", "gold_answer")
ANSWER_STAND_IN = "word " * 100
_STEP = re.compile(r"[\s*_#]*1[.)][*_]*[ \t]")
"""The beginning of a list of steps, and also of a label followed by its reason."""
_SECOND = re.compile(r"^[\s*_#]*2[.)]", re.MULTILINE)
_BEFORE_SCORE = re.compile(r"[\W_]*(?:\w+[\W_]+){0,2}")
"""Words that may precede the score on its line, such as ``**Final``."""
_REASON = re.compile(r"^[\s\W_]*(?:(?:reason|explanation|justification)\W*[:=]\W*)?", re.IGNORECASE)


class Judgement(NamedTuple):
    """A label from 0 to 4, its reason (or an empty text), and the whole completion."""

    label: int
    reason: str
    raw: str


@cache
def _patterns(highest: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns for a label that begins a text, and for a number that is called the score."""
    number = grade(highest)
    opening = rf"[\s*_\"'`(\[]*{number}[\s*_\"'`)\]]*(?=$|\n|[.,:;!–—-])"
    title = r"\b(?:score|rating|label|grade|relevance|rate(?:[ \t]+(?:it|this))?)\b"
    between = r"[\W_]{0,6}?(?:(?:is|of|as)\b)?[\s:=*_\"'`(]{0,6}"
    named = title + between + number
    return re.compile(opening, re.IGNORECASE), re.compile(named, re.IGNORECASE)


def parse_judgement(text: str, highest: int = 4) -> Judgement | None:
    r"""Read a judgement: a number that begins the completion, or one that is called the score.

    The scale is 0 to ``highest``.

    Returns:
        The judgement; ``None`` if there is no such number, it is off the scale, or there are
        several different ones. A number somewhere in prose is not a judgement.

    Example:
        >>> parse_judgement("3\nIt names 2 of the 5 sizes.")[:2]
        (3, 'It names 2 of the 5 sizes.')
        >>> parse_judgement("The passage lists 3 trails.") is None
        True
    """
    opening, named = _patterns(highest)
    answer = without_scale(without_fences(without_reasoning(text)).strip(), highest)
    matches = list(named.finditer(answer))
    if not _opens_a_list(answer, matches):
        first = opening.match(answer)
        if first:
            matches = [first]
    labels = {match[1] for match in matches}
    if len(labels) != 1:
        return None
    [number] = labels
    if number not in [str(value) for value in range(highest + 1)]:
        return None
    rest = answer[matches[-1].end() :]
    reason = " ".join(_REASON.sub("", rest, count=1).split())
    return Judgement(int(number), reason.rstrip('"}').rstrip(), text)


def _judgement(answer: dict[str, Any]) -> Judgement:
    reason = " ".join(answer["reason"].split())
    return Judgement(answer["label"], reason, json.dumps(answer, ensure_ascii=False))


def _opens_a_list(text: str, scores: Sequence[re.Match[str]]) -> bool:
    """Whether the number that begins a text is that of a step.

    Then a second step follows, or a line that begins with the score.
    """
    if not _STEP.match(text):
        return False
    if _SECOND.search(text):
        return True
    for score in scores:
        before, newline, line = text[: score.start()].rpartition("\n")
        if newline and _BEFORE_SCORE.fullmatch(line):
            return True
    return False


def with_gold(
    pooled: pd.DataFrame, dataset: IkatDataset, texts: pt.Transformer | None = None
) -> pd.DataFrame:
    """Join a pool with what a judge reads about each turn and passage.

    This is gold data that systems must not see.

    Args:
        pooled: ``qid``, ``docno``, such as the result of :func:`pool_runs`.
        dataset: the dataset of the turns.
        texts: an operator that adds ``text`` by ``docno``; None: the dataset's own text loader. The
            full collection has none: give ``PassageIndex(path).text_loader()``.

    Returns:
        ``qid``, ``docno``, ``qresolved`` (the manual rewrite), ``qptkb``, ``qgoldptkb`` (ids of the
        gold statements), ``gold_answer`` (the canonical response), ``text``.

    Raises:
        DataError: when the pool has turns that the dataset lacks or names with hyphens, or a
            passage has no text.

    Example:
        >>> import pandas as pd, pyterrier as pt
        >>> pooled = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-001:0"]})
        >>> with_gold(pooled, pt.get_dataset("ikat:sample")).columns.tolist()
        ['qid', 'docno', 'qresolved', 'qptkb', 'qgoldptkb', 'gold_answer', 'text']
    """
    dataset = datasets.dataset(dataset)
    answers = dataset.get_answers()  # that of a user may lack turns
    gold = dataset.get_topics("manual").merge(answers, on="qid", how="left").set_index("qid")
    gold = gold.fillna({"gold_answer": ""})
    check_turn_names("the pool", pooled["qid"].unique(), gold.index)
    unknown = [qid for qid in dict.fromkeys(pooled["qid"]) if qid not in gold.index]
    if unknown:
        example = next(iter(gold.index), "no turn")
        raise DataError(
            f"{dataset.name} lacks {counted(len(unknown), 'turn')} of the pool "
            f"({list_first(unknown)}): pool runs of this dataset, whose turns are named like "
            f"{example}"
        )
    rows = gold.loc[pooled["qid"].tolist()]
    columns = {"qid": column(pooled["qid"]), "docno": column(pooled["docno"])}
    for name in GOLD:
        columns[name] = column(rows[name])
    loader = texts or dataset.text_loader()
    return loader.transform(pd.DataFrame(columns))


@with_fields
class Judge(LLMOperator):
    """Ask a model for the relevance label, 0 to 4, of every passage of a pool.

    Reads a frame with ``qid``, ``docno``, ``text``, ``qresolved``, ``qptkb``, ``qgoldptkb`` and
    ``gold_answer``, as made by :func:`with_gold`. Returns qrels. It makes one call per passage,
    which shows the turn's gold statements, the manual rewrite, the canonical response as an example
    of score 4, and the passage. Labels below 2 count as not relevant. Source: Abbasiantaeb and
    Aliannejadi, Generate then Retrieve, section 4 and Table 8; asking for a reason is ours.

    A passage without a usable label (prose, a number off the scale, a failed call) is missing from
    the qrels (it is never 0) and counted in the ledger as ``fallbacks``. If a judge was stopped and
    is called again, completions in the cache are not repeated.

    Args:
        llm: the model to ask.
        prompts: a folder of your own prompt templates (``judge.jinja``).
        on_error: ``"fallback"``: omit passages without a label; ``"raise"``: judge all, then raise
            a ``StageError``.

    Raises:
        DataError: when the frame has a pair twice, or one without passage text, rewrite or
            canonical response.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.evaluation import Judge, with_gold
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["3: it names two gentle trails" for chat in chats]
        >>> pooled = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-001:0"]})
        >>> judged = Judge(ikat.llm(Model()))(with_gold(pooled, pt.get_dataset("ikat:sample")))
        >>> judged[["label", "reason"]].values.tolist()
        [[3, 'it names two gentle trails']]
    """

    one_row_per_turn = False
    stage = "judge"
    schematic = {"label": "Judge"}
    gold: ClassVar[tuple[str, ...]] = GOLD
    """The columns that it reads besides the passage."""

    style: str = field(default="gpt", init=False)
    question: str = field(default="qutterance", init=False)
    _: KW_ONLY
    on_error: str = "fallback"

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per passage."""
        names = ("qid", "docno", "text", *self.gold)
        columns = [values(frame, name) for name in names]
        requests = []
        for cells in zip(*columns, strict=True):
            row = dict(zip(names, cells, strict=True))
            shown = self.shown(row)
            requests.append(self.request(row["qid"], shown, self.template(), row["docno"]))
        return requests

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """The parts of the prompt that are about a passage and its turn."""
        relevant = [(number, 1.0) for number in row["qgoldptkb"]]
        return {
            "ptkb": ptkb_text(pick_statements(row["qptkb"], relevant)),
            "question": row["qresolved"],
            "answer": row.get("gold_answer"),
            "passage": row["text"],
        }

    highest: ClassVar[int] = 4
    """The highest label."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """A label of the scale, with its reason."""
        form = answer_in("label", choice_of(range(self.highest + 1)), reason=True)
        return Kind(lambda text: parse_judgement(text, self.highest), form, _judgement)

    def fallback(self, frame: pd.DataFrame) -> list[None]:
        """No label."""
        return [None] * len(frame)

    def typical(self, frame: pd.DataFrame) -> list[Judgement]:
        """A label with a reason of ordinary length."""
        text = "2\nIt is about the question but leaves out what matters to this user."
        return [Judgement(2, "", text)] * len(frame)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """One request per passage of the frame, or per passage after the cut before the judge."""
        passages = frame
        if "docno" not in frame.columns:
            passages = plan.passages(frame, plan.cut)
        plan.ask(self, self._with_stand_ins(passages))
        return frame

    def _with_stand_ins(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with stand-ins for missing gold columns.

        They are the user's words, no statements, a typical answer and two examples.
        """
        rows = len(frame)
        stand_ins = {
            "qresolved": values(frame, question_column(frame)),
            "qptkb": [{}] * rows,
            "qgoldptkb": [[]] * rows,
            "gold_answer": [ANSWER_STAND_IN] * rows,
            "qexamples": [[(ANSWER_STAND_IN, 4), (ANSWER_STAND_IN, 0)]] * rows,
        }
        missing = [name for name in self.gold if name not in frame.columns]
        return with_columns(frame, **{name: stand_ins[name] for name in missing})

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Qrels of the passages with a label.

        The columns are ``qid``, ``docno``, ``label`` (int64), ``reason``, ``raw`` (the completion).
        """
        columns: dict[str, list[Any]] = {
            "qid": [],
            "docno": [],
            "label": [],
            "reason": [],
            "raw": [],
        }
        for qid, docno, judgement in zip(frame["qid"], frame["docno"], outcomes, strict=True):
            if judgement is None:
                continue
            columns["qid"].append(qid)
            columns["docno"].append(docno)
            columns["label"].append(judgement.label)
            columns["reason"].append(judgement.reason)
            columns["raw"].append(judgement.raw)
        return object_frame(columns).astype({"label": np.int64})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Judge a pool."""
        pt.validate.result_frame(inp, extra_columns=["text", *self.gold], context=self)
        _check(inp, self.gold)
        return self.ask_and_write(inp)


@with_fields
class UmbrelaJudge(Judge):
    """Ask a model for the relevance label, 0 to 3, of every passage of a pool, zero-shot.

    The model reads the question and the passage alone.

    Like :class:`Judge`, but with another prompt and scale, and without persona and example. Reads
    ``qid``, ``docno``, ``text``, ``qresolved``. Its labels do not correspond directly to TREC
    iKAT's scale of 0 to 4: use a threshold to compare them. Source: Upadhyay et al., UMBRELA, arXiv
    2406.06519, section 3, and the code castorini/umbrela; the wording is ours. For their model, use
    ``"openai:gpt-4o temperature=0 top_p=1 frequency_penalty=0.5"``. Here a passage is marked as a
    quotation, as a protection against instructions in it.

    Args:
        llm: the model to ask.
        prompts: a folder of your own prompt templates (``judge_umbrela.jinja``).
        on_error: as for :class:`Judge`.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.evaluation import UmbrelaJudge
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["##final score: 3" for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "docno": ["d"], "score": [1.0]})
        >>> pool = pool.assign(qresolved="Which tea?", text="Rooibos.")
        >>> UmbrelaJudge(ikat.llm(Model()))(pool)["label"].tolist()
        [3]
    """

    schematic = {"label": "Umbrela"}
    template_name = "judge_umbrela"
    gold = ("qresolved",)
    highest = 3

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """The parts of the prompt that are about a passage and its turn."""
        return {"question": row["qresolved"], "passage": row["text"]}


def _check(frame: pd.DataFrame, gold: Sequence[str]) -> None:
    check_once("the pool", frame, ["qid", "docno"], "make it with ikat.pool_runs(runs)")
    for name in ("text", "qresolved", "gold_answer"):
        if name != "text" and name not in gold:
            continue
        for qid, docno, text in zip(frame["qid"], frame["docno"], frame[name], strict=True):
            if isinstance(text, str) and text.strip():
                continue
            repair = advice(
                "add the column with with_gold from a dataset that has it",
                "give a --dataset that has it",
            )
            if name == "gold_answer":
                without = advice("UmbrelaJudge", "--style umbrela")
                repair += f", or judge without one: {without}"
            raise DataError(
                f"turn {qid}, passage {docno}: {name} is {text!r}, a judge needs a text: {repair}"
            )


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement of two sets of qrels on the pairs that both judged.

    Attributes:
        pairs: the number of pairs that both judged.
        confusion: the counts, with the labels of the first as rows and of the second as columns.
        threshold: the lowest label that counts as relevant.
        binary_confusion: the same counts of not relevant (False) and relevant (True).
        binary: the share of pairs that both call relevant or both call not relevant.
        kappa: Cohen's kappa of the graded labels, unweighted; NaN if it is undefined (both always
            give the same label).
        binary_kappa: Cohen's kappa of relevant and not relevant.
        tau: Kendall's tau of the two orders of the runs, one value per measure; empty without runs.
    """

    pairs: int
    confusion: pd.DataFrame
    threshold: int
    binary_confusion: pd.DataFrame
    binary: float
    kappa: float
    binary_kappa: float
    tau: "pd.Series[Any]" = field(default_factory=lambda: pd.Series(dtype=float))

    def tables(self) -> list[Table]:
        """The counts of the labels, and of relevant and not relevant, as tables to print.

        The notes have the agreement.
        """
        notes = [
            f"{counted(self.pairs, 'pair')} judged by both: binary agreement {self.binary:.2%}, "
            f"kappa {format_score(self.binary_kappa)}; "
            f"kappa of the graded labels {format_score(self.kappa)}"
        ]
        for measure, tau in self.tau.items():
            notes.append(f"Kendall's tau of the systems by {measure}: {format_score(tau)}")
        of_first = self.confusion.sum(axis=1)
        of_second = self.confusion.sum(axis=0)
        for file, counts in (("first", of_first), ("second", of_second)):
            if (counts > 0).sum() == 1:
                notes.append(
                    f"the {file} file gives all these pairs label {counts.idxmax()}: "
                    "agreement with it says nothing about a judge"
                )
        title = "Labels of the first file (rows) and of the second (columns)"
        graded = _table_of_counts(self.confusion, title, [])
        title = f"Relevant, from label {self.threshold} on"
        return [graded, _table_of_counts(self.binary_confusion, title, notes)]

    def __str__(self) -> str:
        return "\n".join(str(table) for table in self.tables()).rstrip("\n")


def _table_of_counts(counts: pd.DataFrame, title: str, notes: Sequence[str]) -> Table:
    frame = counts.rename_axis("label").rename_axis(None, axis="columns").reset_index()
    return of_frame(frame, notes, title, texts=1)


def agreement(
    qrels_a: pd.DataFrame,
    qrels_b: pd.DataFrame,
    threshold: int = 2,
    *,
    runs: Mapping[str, pd.DataFrame] | None = None,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
) -> Agreement:
    """Compare two judges on the (turn, passage) pairs that both judged.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 2 and 4. There, the rows
    are GPT-3.5 and the columns NIST.

    Args:
        qrels_a: ``qid``, ``docno``, ``label``: the rows of the confusion matrix.
        qrels_b: the same, for the columns.
        threshold: the lowest label that counts as relevant, the same for both. On the scale 0-4 of
            LLM judging, it is 2.
        runs: name -> result frame, at least two. They show how far the judges agree on which run is
            better.
        measures: the measures that order the runs. Each is computed over all turns of the qrels.

    Raises:
        UsageError: when there is only one run.
        DataError: when one of the two is not a valid qrels frame, or they have no pair in common.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 4, "docno": list("abcd"), "label": [0, 1, 3, 2]})
        >>> two = one.assign(label=[0, 2, 3, 3])
        >>> both = agreement(one, two)
        >>> both.pairs, both.binary, both.binary_kappa, int(both.confusion.loc[2, 3])
        (4, 0.75, 0.5, 1)
    """
    first = check_qrels(qrels_a, "the first qrels")
    second = check_qrels(qrels_b, "the second qrels")
    both = _common(first, second)
    a = both["label_a"]
    b = both["label_b"]
    taus = {}
    if runs:
        by_first = evaluate(runs, first, measures)
        by_second = evaluate(runs, second, measures)
        for measure in as_measures(measures):
            taus[label(measure)] = order_agreement(by_first, by_second, measure)
    labels = range(min(a.min(), b.min()), max(a.max(), b.max()) + 1)
    graded = _confusion(a, b, labels)
    binary = _confusion(a >= threshold, b >= threshold, [False, True])
    return Agreement(
        pairs=len(both),
        confusion=graded,
        threshold=threshold,
        binary_confusion=binary,
        binary=float(np.trace(binary) / len(both)),
        kappa=cohens_kappa(graded),
        binary_kappa=cohens_kappa(binary),
        tau=pd.Series(taus, dtype=float),
    )


def _common(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    check_turn_names("the first qrels", first["qid"].unique(), second["qid"])
    both = first.merge(second, on=["qid", "docno"], suffixes=("_a", "_b"))
    if both.empty:
        examples = [f"{qrels['qid'][0]} {qrels['docno'][0]}" for qrels in (first, second)]
        raise DataError(
            f"the two qrels have no pair in common (such as {' and '.join(examples)}): "
            "give judgements of the same topics and passages"
        )
    return both


def _confusion(a: "pd.Series[Any]", b: "pd.Series[Any]", labels: Sequence[Any]) -> pd.DataFrame:
    counts = pd.crosstab(a, b, rownames=["a"], colnames=["b"])
    return counts.reindex(index=labels, columns=labels, fill_value=0)


def cohens_kappa(confusion: npt.ArrayLike) -> float:
    """Cohen's kappa of a square confusion matrix, unweighted, by statsmodels.

    Returns:
        1 for complete agreement, 0 for the agreement expected by chance, NaN if chance alone gives
        complete agreement.

    Example:
        >>> round(cohens_kappa([[20, 5], [10, 15]]), 10)
        0.4
    """
    from statsmodels.stats.inter_rater import cohens_kappa as kappa

    with np.errstate(invalid="ignore"):  # 0 / 0: both always give the same label
        return float(kappa(np.asarray(confusion, dtype=np.float64), return_results=False))


def order_agreement(
    table_a: pd.DataFrame, table_b: pd.DataFrame, measure: ir_measures.Measure | str
) -> float:
    """Kendall's tau (tau-b) of the orders of the same systems in two tables.

    Args:
        table_a: the result of :func:`evaluate` with one set of qrels.
        table_b: the same runs with other qrels.
        measure: the measure that orders them.

    Returns:
        1 for the same order, -1 for the reverse; NaN if one table gives all systems the same score.

    Raises:
        UsageError: when the tables don't have the same systems, or fewer than two, or a system has
            no score.

    Example:
        >>> nist = pd.DataFrame({"name": ["AD", "QR", "QD"], "nDCG@5": [0.3, 0.2, 0.1]})
        >>> round(order_agreement(nist, nist.assign(**{"nDCG@5": [0.9, 0.5, 0.7]}), "nDCG@5"), 4)
        0.3333
    """
    from scipy.stats import kendalltau

    title = label(as_measures(measure)[0])
    both = by_position(table_a).merge(
        by_position(table_b), on="name", how="outer", suffixes=("_a", "_b"), validate="one_to_one"
    )
    first = both[f"{title}_a"]
    second = both[f"{title}_b"]
    if len(both) < 2 or first.isna().any() or second.isna().any():
        names = ", ".join(map(str, both["name"])) or "there is none"
        raise UsageError(
            f"an order is compared on the same two or more systems, each once, and each with a "
            f"score {title}: {names}"
        )
    return float(kendalltau(first, second).statistic)


SHOTS = 2
"""How many judged passages the model is shown."""
MOST_CHECKED = 200
"""How many labels of people the model's are compared with, at most."""


@with_fields
class FillingJudge(Judge):
    """Like :class:`Judge`, with judged passages of the turn as examples.

    They take the place of the canonical response.

    Reads ``qid``, ``docno``, ``text``, ``qresolved``, ``qptkb``, ``qgoldptkb`` and ``qexamples``:
    for each row a list of (text, label). Returns qrels. :func:`fill_holes` makes its frame.

    Args:
        llm: the model to ask.
        prompts: a folder of your own prompt templates (``judge_fill.jinja``).
        on_error: as for :class:`Judge`.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.evaluation import FillingJudge
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["3: it names a tea without caffeine" for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "docno": ["d"], "score": [1.0]})
        >>> pool = pool.assign(qresolved="Which tea?", text="Rooibos.")
        >>> pool = pool.assign(qptkb=[{}], qgoldptkb=[[]], qexamples=[[("Green tea.", 1)]])
        >>> FillingJudge(ikat.llm(Model()))(pool)["label"].tolist()
        [3]
    """

    schematic = {"label": "Filling judge"}
    template_name = "judge_fill"
    gold = ("qresolved", "qptkb", "qgoldptkb", "qexamples")

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """The parts of the prompt that are about a passage and its turn."""
        return {**super().shown(row), "judged": row["qexamples"]}


@dataclass(frozen=True, eq=False)
class Filled:
    """Judgements whose holes a model has filled.

    Attributes:
        qrels: the labels of people, and those of the model.
        labels: those of the model alone, with ``reason`` and ``raw``.
        agreement: people's labels and the model's, on passages that people have judged.
        pool: the number of passages at the top of the runs, in judged turns.
        model: the model.
    """

    qrels: pd.DataFrame
    labels: pd.DataFrame
    agreement: Agreement
    pool: int
    model: str

    def __str__(self) -> str:
        """The share of the model's labels, and its agreement with people.

        It belongs beside every score with these labels.
        """
        labels = len(self.labels)
        kappa = format_score(self.agreement.kappa)
        binary_kappa = format_score(self.agreement.binary_kappa)
        return (
            f"{self.model} filled the labels of {labels} of the {counted(self.pool, 'passage')} "
            f"at the top of the runs ({labels / self.pool:.1%}); its kappa with people is {kappa} "
            f"({binary_kappa} for relevant or not) on {self.agreement.pairs} left-out labels"
        )


def fill_holes(
    runs: Mapping[str, RunSource] | Sequence[RunSource],
    dataset: IkatDataset,
    llm: Any,
    qrels: pd.DataFrame | None = None,
    depth: int = 10,
    texts: Any = None,
    tell: Any = print,
) -> Filled:
    """Label the unjudged passages at the top of runs with a model.

    The model is shown judged passages of the same turn.

    The model first labels passages that people have judged (200 of these turns, chosen with a fixed
    seed), each without its own label, so its agreement is known before the holes are paid for.
    Turns without judgements are left alone.

    Source: Abbasiantaeb, Meng, Azzopardi and Aliannejadi, arXiv 2503.09899, of which we could read
    the abstract, and their code for GPT (two-shot). It reads its examples from a file that isn't in
    the repository. Ours are the turn's passages with the highest and the lowest label, then the
    next of both; ties by docno. In the paper, a fine-tuned Llama 3.1 agrees with people, and
    prompting GPT-3.5 does not. We fine-tune nothing.

    Args:
        runs: as for :func:`pool_runs`.
        dataset: the dataset of the turns.
        llm: the model to ask.
        qrels: the labels of people, from 0 to 4; by default the dataset's.
        depth: how many passages of each turn and run are to be judged.
        texts: as for :func:`with_gold`.
        tell: gets the agreement before the holes are labelled.

    Raises:
        UsageError: when the runs have no hole, or labels are not on the scale of 0 to 4.
        DataError: when a passage has no text, or the model gave no label to any checked passage.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["1" for chat in chats]
        >>> run = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-005:1"], "rank": [0]})
        >>> runs = {"mine": run.assign(score=1.0)}
        >>> sample, llm = pt.get_dataset("ikat:sample"), ikat.llm(Model())
        >>> filled = fill_holes(runs, sample, llm, tell=lambda agreement: None)
        >>> str(filled)[:84]
        'Model filled the labels of 1 of the 1 passage at the top of the runs (100.0%); its k'
    """
    people = check_qrels(dataset.get_qrels() if qrels is None else qrels)
    if people["label"].max() < 2 or not people["label"].between(0, 4).all():
        raise UsageError(
            "holes are filled with labels from 0 to 4, and these judgements have others: "
            "give a dataset such as ikat:2023"
        )
    pool = pool_runs(runs, depth)
    pool = pool[pool["qid"].isin(people["qid"])]
    labels = pool.merge(people, on=["qid", "docno"], how="left")["label"]
    holes = pool[labels.isna().to_numpy()]
    if holes.empty:
        raise UsageError(
            f"{counted(len(pool), 'passage')} of judged turns are down to rank {depth}, all "
            "judged: nothing is to fill"
        )
    judged = people[people["qid"].isin(holes["qid"])]
    shown = with_gold(pd.concat([judged, holes])[["qid", "docno"]], dataset, texts)
    shown = with_columns(shown, qexamples=_examples(shown, judged))
    judge = FillingJudge(llm)
    # The judged passages stand first: some of them are labelled again, to see the agreement.
    checked = np.random.default_rng(0).permutation(len(judged))[:MOST_CHECKED]
    of_both = agreement(judged, judge(shown.iloc[checked]))
    tell(of_both)
    new = judge(shown.iloc[len(judged) :])
    return Filled(merge_qrels(people, new), new, of_both, len(pool), judge.llm.model)


def _examples(shown: pd.DataFrame, judged: pd.DataFrame) -> list[list[tuple[str, int]]]:
    """Examples for each passage: the turn's judged ones with the highest and the lowest label.

    The passage itself is not among them.
    """
    texts = {(row.qid, row.docno): row.text for row in shown.itertuples()}
    ordered = judged.sort_values(["label", "docno"], ascending=[False, True])
    ranked = {}
    for qid, rows in ordered.groupby("qid"):
        ranked[qid] = list(zip(rows["docno"], rows["label"].tolist(), strict=True))
    examples = []
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        others = [(other, value) for other, value in ranked[qid] if other != docno]
        chosen: list[tuple[str, int]] = []
        while others and len(chosen) < SHOTS:
            from_the_top = len(chosen) % 2 == 0
            other, value = others.pop(0 if from_the_top else -1)
            chosen.append((texts[qid, other], value))
        examples.append(chosen)
    return examples
