"""Several samples of one prompt, and one query made from them: all combined, the most typical one, or the one that searches best."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import (
    NoResultWarning,
    each_turn_once,
    object_frame,
    texts_in,
    values,
    with_columns,
    with_query,
)
from ..errors import DataError, UsageError, counted
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import Operator, every_stage, frame_for, with_fields
from ..order import Floats, order_by_score, tied
from ..planning import Plan
from .queries import ExplodeQueries, with_queries

Vectors = npt.NDArray[np.float64]


Sample = list[str]
"""The texts of one sample, such as a rewrite and an answer."""


class SamplesWarning(UserWarning):
    """Warning: all samples may be identical."""


@with_fields
class Samples(Operator):
    """Ask an LLM operator ``n`` times for each turn, and keep the texts of each sample.

    Reads the columns that ``operator`` reads. Writes ``qsamples``: for each sample, the list of
    texts that the operator writes into ``columns``. Also writes ``qsubqueries``: for each sample,
    these texts joined, as input for :class:`ExplodeQueries`, :class:`BestQuery` and the fusions.
    The operator's own columns are those of the first sample. ``n`` calls per turn: each sample has
    its own entry in the cache and in recorded files (``"completion": [first, second, ...]``), and
    the plan counts each. A failed sample gets the operator's fallback. Equal samples are kept, so
    each counts as often as the model writes it. Source: Mao et al., LLM4CS (arXiv 2303.06573), and
    their code (kyriemao/LLM4CS).

    Args:
        operator: the LLM operator to sample, such as ``ikat.Rewrite(llm)``. It must make one call
            per turn. Its model needs a temperature above 0, or the samples may be equal.
        n: the number of samples.
        columns: the columns to keep of each sample.

    Raises:
        UsageError: when the operator does not make one call per turn, ``n`` is below 1, or no
            column is given.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> rewritten = ikat.Samples(ikat.RewriteAndAnswer(ikat.llm("recorded:sample"), answer=False), 3)(topics)
        >>> len(rewritten["qsubqueries"][0]), rewritten["qsubqueries"][0][0] == rewritten["qrewrite"][0]
        (3, True)
    """

    one_row_per_turn = True
    schematic = {"label": "Samples"}
    least = {"n": 1}

    operator: LLMOperator
    n: int = 5
    columns: Sequence[str] = ("query",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.operator, LLMOperator) or not self.operator.one_row_per_turn:
            raise UsageError(
                f"operator={self.operator!r}: sample an operator that asks an LLM once per turn, such as ikat.Rewrite(llm)"
            )
        if not isinstance(self.columns, list | tuple) or not self.columns:
            raise UsageError(
                f"columns={self.columns!r}: give a list of columns that the operator writes, such as ['query']"
            )
        self.columns = tuple(self.columns)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the requests of all samples, and write cached completions, or placeholders that differ."""
        once = self.operator
        asks = SimpleNamespace(
            llm=once.llm,
            stage=once.stage,
            open_ended=once.open_ended,
            read=once.read,
            requests=self.requests,
            typical=lambda turns: once.typical(turns) * self.n,
        )
        found = plan.ask(cast(Any, asks), frame)
        drawn = self._gather(frame, self._repeated(frame), found)
        lists = [
            queries
            if len(set(queries)) > 1
            else [f"{query} {number}" for number, query in enumerate(queries)]
            for queries in drawn["qsubqueries"]
        ]
        return with_queries(drawn, lists)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """The requests of the first sample, then those of the second, and so on.

        Raises:
            UsageError: when the operator does not make one call per turn.
        """
        once = self.operator.requests(frame)
        if len(once) != len(frame):
            asked = f"{counted(len(once), 'time')} for {counted(len(frame), 'turn')}"
            raise UsageError(
                f"{self.operator!r} asks {asked}: sample an operator that asks once per turn"
            )
        return [
            replace(request, sample=sample, samples=self.n)
            for sample in range(self.n)
            for request in once
        ]

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every row of a query frame, all samples at once."""
        pt.validate.query_frame(inp, extra_columns=self.operator.needs(), context=self)
        each_turn_once(inp)
        self._warn()
        many = self._repeated(inp)
        return self._gather(
            inp,
            many,
            self.operator.settle(many, self.operator.ask(self.requests(inp))) if len(inp) else [],
        )

    def _warn(self) -> None:
        backend = self.operator.llm.backend
        if self.n > 1 and not backend.replays and (why := backend.repeats(self.n)):
            text = f"the {self.n} samples of {self.operator!r} may be the same: the model has {why}; give it a temperature above 0"
            warnings.warn(text, SamplesWarning, stacklevel=4)

    def _repeated(self, frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame] * self.n, ignore_index=True)

    def _gather(
        self, frame: pd.DataFrame, many: pd.DataFrame, found: Sequence[Any]
    ) -> pd.DataFrame:
        written, turns = self.operator.write(many, found), len(frame)
        if missing := [name for name in self.columns if name not in written.columns]:
            raise UsageError(
                f"columns={self.columns!r}: {self.operator!r} writes no {missing[0]}, but {', '.join(written.columns)}"
            )
        texts = list(zip(*(texts_in(written, name) for name in self.columns), strict=True))
        samples = [
            [list(texts[sample * turns + row]) for sample in range(self.n)] for row in range(turns)
        ]
        first = with_columns(written.iloc[:turns].set_axis(frame.index), qsamples=samples)
        return with_queries(first, [[joined(sample) for sample in drawn] for drawn in samples])


def samples_asked(pipeline: pt.Transformer) -> dict[int, dict[str, int]]:
    """The id of each model -> stage -> the number of samples of a request in one run.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> llm = ikat.llm("recorded:sample")
        >>> samples_asked(ikat.Samples(ikat.Rewrite(llm), 3) >> ikat.Answer(llm))[id(llm)]
        {'rewrite': 3, 'answer': 1}
    """
    found: dict[int, dict[str, int]] = {}
    for stage in every_stage(pipeline):
        asks, number = (stage.operator, stage.n) if isinstance(stage, Samples) else (stage, 1)
        if isinstance(asks, LLMOperator):
            of_model = found.setdefault(id(asks.llm), {})
            of_model[asks.stage] = max(number, of_model.get(asks.stage, 1))
    return found


def joined(texts: Sequence[str]) -> str:
    """The texts that are not empty, joined by spaces.

    Example:
        >>> joined(["Is rooibos safe?", "", "Yes."])
        'Is rooibos safe? Yes.'
    """
    return " ".join(text for text in texts if text)


@with_fields
class Aggregate(Operator):
    """Combine a turn's samples into one query.

    Reads ``qid``, ``query``, ``qsamples`` (from :class:`Samples`; without it, ``query`` is the only
    sample) and ``also``. Sets ``query`` and pushes the old one to ``query_0``. Source: Mao et al.,
    LLM4CS (arXiv 2303.06573), and their code.

    For a dense retriever, the authors average the vectors of the texts. With an ``encoder``,
    ``query_vec`` is that mean, and ``query`` is the text of the first chosen sample. Without an
    encoder, ``query`` is all chosen texts joined. BM25 sums over the words of a query, so the
    joined texts give the same ranking as the mean of the texts' separate scores; for other
    retrievers no source defines the combination.

    Args:
        how: ``"mean"``: all samples; ``"first"``: the first one (the authors' MaxProb), which needs
            a model that gives its most probable completion first; ``"consistent"``: the sample
            whose first text is closest to those of all samples (the authors' self-consistency), and
            of equal ones the first. Closeness is the dot product of the encoder's vectors. Without
            an encoder, it is the cosine of the texts' word counts, which no source describes.
        encoder: a transformer that writes ``query_vec`` for ``query``, such as the query encoder of
            a pyterrier_dr bi-encoder.
        also: a column with one more text, for example ``"qrewrite"`` when only answers are sampled.
            It counts once, whatever the number of samples.

    Raises:
        UsageError: when ``how`` is unknown.
        DataError: when a turn has no sample, or the encoder does not give a vector for each text.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> drawn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"], "qsamples": [[["is mint safe"], ["safe herbs"], ["is mint safe"]]]})
        >>> [ikat.generate.Aggregate(how)(drawn)["query"].item() for how in ("mean", "consistent")]
        ['is mint safe safe herbs is mint safe', 'is mint safe']
    """

    one_row_per_turn = True
    schematic = {"label": "Aggregate"}
    choices = {"how": ("mean", "first", "consistent")}

    how: str = "mean"
    encoder: pt.Transformer | None = None
    also: str | None = None

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The texts joined; nothing is encoded."""
        return replace(self, encoder=None).transform(frame)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Set ``query`` and, with an encoder, ``query_vec``."""
        pt.validate.query_frame(
            inp, extra_columns=["query", *([self.also] if self.also else [])], context=self
        )
        drawn, more = _samples(inp), texts_in(inp, self.also) if self.also else [""] * len(inp)
        vectors = (
            {}
            if self.encoder is None
            else encode(
                {text for samples in drawn for text in [*sum(samples, []), *more]}, self.encoder
            )
        )
        chosen = [self._choose(samples, vectors) for samples in drawn]
        texts = [
            [*(text for sample in samples for text in sample), text]
            for samples, text in zip(chosen, more, strict=True)
        ]
        if self.encoder is None:
            return with_query(inp, map(joined, texts))
        means = [np.mean([vectors[text] for text in of_turn if text], axis=0) for of_turn in texts]
        return with_columns(with_query(inp, [samples[0][0] for samples in chosen]), query_vec=means)

    def _choose(self, samples: list[Sample], vectors: dict[str, Vectors]) -> list[Sample]:
        if self.how == "mean":
            return samples
        if self.how == "first":
            return samples[:1]
        firsts = [sample[0] for sample in samples]
        known = np.array([vectors[text] for text in firsts]) if vectors else word_vectors(firsts)
        return [samples[int((known @ known.T).sum(axis=1).round(9).argmax())]]


def _samples(frame: pd.DataFrame) -> list[list[Sample]]:
    if "qsamples" not in frame.columns:
        return [[[query]] for query in texts_in(frame, "query")]
    found = [[list(sample) for sample in samples] for samples in values(frame, "qsamples", [])]
    for qid, samples in zip(frame["qid"], found, strict=True):
        if not samples or not all(
            sample and all(isinstance(text, str) for text in sample) and sample[0]
            for sample in samples
        ):
            raise DataError(
                f"turn {qid} has the qsamples {repr(samples)[:80]}: give lists of texts, the first of each not empty"
            )
    return found


def word_vectors(texts: Sequence[str]) -> Vectors:
    """The word counts of each text over the words of all texts, scaled to length 1. Zeros for a text without words.

    Example:
        >>> word_vectors(["mint tea", "Tea!"]).round(2).tolist()
        [[0.71, 0.71], [0.0, 1.0]]
    """
    counts = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]
    words = list(dict.fromkeys(word for count in counts for word in count))
    found = np.array([[float(count[word]) for word in words] for count in counts]).reshape(
        len(texts), len(words)
    )
    lengths = np.sqrt((found**2).sum(axis=1, keepdims=True))
    return np.asarray(found / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def encode(texts: set[str], encoder: pt.Transformer) -> dict[str, Vectors]:
    """The vector of each text that is not empty. Each text is encoded once.

    Raises:
        DataError: when the encoder does not give a vector for each text.
    """
    asked = sorted(texts - {""})
    frame = object_frame({"qid": map(str, range(len(asked))), "query": asked})
    encoded = encoder.transform(frame_for(encoder, frame)) if asked else frame.assign(query_vec=[])
    if "query_vec" not in encoded.columns or list(encoded["qid"]) != list(frame["qid"]):
        raise DataError(
            f"{encoder} gave no query_vec for each query: use the query encoder of a dense retriever"
        )
    return {
        text: np.asarray(vector, dtype=np.float64)
        for text, vector in zip(asked, encoded["query_vec"], strict=True)
    }


RRF_K = 60
"""The constant of reciprocal rank fusion, as in :class:`~pyterrier_ikat.RRF`."""


@dataclass(frozen=True)
class Ranked:
    """The passages that one of a turn's queries found, at least one.

    Attributes:
        docnos: its passages, best first.
        scores: their scores.
        times: how often the query occurs among the turn's queries.
    """

    docnos: npt.NDArray[np.object_]
    scores: Floats
    times: int


def mean_score(lists: Sequence[Ranked], passages: int) -> Floats:
    """The mean score of each list's first passages."""
    best = [one.scores[:passages] for one in lists]
    return tied(
        np.array([scores.mean() for scores in best]), max(np.abs(scores).max() for scores in best)
    )


def agreement(lists: Sequence[Ranked], passages: int) -> Floats:
    """How many of each list's first passages are among the first of all lists, fused by reciprocal rank fusion."""
    wanted = set(_fused(lists)[:passages])
    return np.array(
        [len(wanted.intersection(one.docnos[:passages])) for one in lists], dtype=np.float64
    )


def spread(lists: Sequence[Ranked], passages: int) -> Floats:
    """The standard deviation of the scores of each list's first passages, divided by their mean."""
    best = [one.scores[:passages] for one in lists]
    if any(scores.mean() <= 0 for scores in best):
        raise DataError(
            'rule="spread" divides by a mean score that is not above 0: use a ranker with positive scores, such as bm25'
        )
    return tied(np.array([scores.std() / scores.mean() for scores in best]), 1.0)


def _fused(lists: Sequence[Ranked]) -> npt.NDArray[np.object_]:
    """The passages of all lists by reciprocal rank fusion. Equal sums are ordered by best rank, then by list."""
    rank = np.concatenate([np.arange(len(one.docnos)) for one in lists])
    times = np.repeat([one.times for one in lists], [len(one.docnos) for one in lists])
    order = np.argsort(rank, kind="stable")
    numbers, known = pd.factorize(np.concatenate([one.docnos for one in lists])[order])
    total = np.bincount(numbers, weights=(times / (RRF_K + 1 + rank))[order]).round(12)
    return np.asarray(known[np.argsort(-total, kind="stable")], dtype=np.object_)


RULES: dict[str, tuple[Callable[[Sequence[Ranked], int], Floats], int]] = {
    "score": (mean_score, 10),
    "agreement": (agreement, 10),
    "spread": (spread, 100),
}
"""For each rule, the function that gives each list of a turn its value (the highest wins), and how many passages of each list it reads."""


@with_fields
class BestQuery(Operator):
    """Choose one of a turn's sub-queries as its query, by the passages that each of them finds.

    ``ranker`` searches for each distinct sub-query separately, and ``rule`` gives each one a value.
    The highest value wins; of equal values, the first. A sub-query that finds nothing comes last.
    If no sub-query finds anything, the first one is chosen. No rule is trained, and none reads
    judgements. The page on evidence (docs/evidence.md) reports the scores of each rule on real
    samples.

    - ``"score"``: the mean score of the ``passages`` best passages (of all, if it found fewer).
      This definition is ours: Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588),
      choose the best of N rewrites with a reward model, which was trained to predict how well a
      rewrite retrieves (Lai et al., AdaRewriter, arXiv 2506.01381). Its weights are not public, so
      this operator searches instead.
    - ``"agreement"``: how many of its ``passages`` best passages are also among the ``passages``
      best of the turn's fused list. The lists are fused by reciprocal rank fusion (k = 60), as deep
      as ``ranker`` retrieves. A repeated sub-query counts as often as it occurs. The rule needs a
      search for each sub-query and no re-ranker. Source: this package.
    - ``"spread"``: the standard deviation of the scores of the ``passages`` best passages, divided
      by their mean. It prefers a query that discriminates between passages. It needs positive
      scores, such as those of BM25. Source: this package, after NQC, a predictor of query
      performance (Shtok et al., TOIS 2012), which divides by the score of the whole collection.

    Reads ``qid``, ``query``, ``qsubqueries``. Sets ``qrewrite`` and ``query`` and pushes the old
    query to ``query_0``. A turn with a single distinct sub-query needs no search; a turn without
    sub-queries keeps its query.

    Args:
        ranker: the pipeline that searches for each sub-query. For ``"score"``, a retriever and a
            re-ranker whose scores of different queries can be compared, such as ``bm25 % 20 >>
            minilm``; for the other rules, a retriever such as ``bm25``.
        passages: the number of best passages that the rule reads; by default 10, and 100 for
            ``"spread"``.
        rule: ``"score"``, ``"agreement"`` or ``"spread"``.

    Raises:
        UsageError: when ``passages`` is below 1, or ``rule`` is unknown.
        DataError: when the ranker gives a score that is not a number, or the mean score of a query
            is not above 0 for ``"spread"``.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> by_length = pt.apply.generic(lambda rows: rows.assign(docno="d", rank=0, score=rows["query"].str.len().astype(float)))
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"], "qsubqueries": [["mint", "is mint safe", "tea"]]})
        >>> ikat.generate.BestQuery(by_length)(turn)["query"].item()
        'is mint safe'
        >>> by_word = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"].str[-4:], rank=0, score=1.0))
        >>> turn["qsubqueries"] = [["mint", "is mint safe", "safe"]]
        >>> ikat.generate.BestQuery(by_word, 1, rule="agreement")(turn)["query"].item()  # two of three find "safe"
        'is mint safe'
    """

    one_row_per_turn = False  # it searches and re-ranks, so a run calls it batch by batch
    schematic = {"label": "Best query"}
    least = {"passages": 1}
    choices = {"rule": RULES}

    ranker: pt.Transformer
    passages: int | None = None
    rule: str = "score"

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The first sub-query. The ranker's LLM calls for each sub-query are counted."""
        distinct = _distinct(frame)
        before = plan.cut
        plan.follow(self.ranker, ExplodeQueries().transform(distinct))
        plan.cut = before
        return _with_rewrite(frame, [queries[0] for queries in distinct["qsubqueries"]])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Search for every distinct sub-query, and set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query", "qsubqueries"], context=self)
        distinct = _distinct(inp)
        several = distinct[[len(queries) > 1 for queries in distinct["qsubqueries"]]].reset_index(
            drop=True
        )
        found = self._search(ExplodeQueries().transform(several)) if len(several) else {}
        rows = zip(
            distinct["qid"], distinct["qsubqueries"], values(inp, "qsubqueries", []), strict=True
        )
        return _with_rewrite(
            inp,
            [
                self._best(queries, Counter(written), found.get(qid, {}))
                for qid, queries, written in rows
            ],
        )

    def _search(self, queries: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
        """The passages found, best first, for each turn and each of its sub-queries that found anything."""
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".*; counted 0", NoResultWarning
            )  # another sub-query may have found passages
            found = self.ranker.transform(frame_for(self.ranker, queries))
        pt.validate.result_frame(found, extra_columns=["score"], context=self.ranker)
        found = found[["qid", "docno", "score"]].astype({"score": "float64"}).reset_index(drop=True)
        scores = found["score"].to_numpy()
        if not np.isfinite(scores).all():
            raise DataError(
                f"{self.ranker} gave a score that is not a number: check the model and the texts"
            )
        found = found.take(order_by_score(found, pd.factorize(found["qid"])[0], scores))
        of_query = dict(
            zip(queries["qid"], zip(queries["qid_0"], queries["query"], strict=True), strict=True)
        )
        of_turns: dict[str, dict[str, pd.DataFrame]] = {}
        for qid, passages in found.groupby("qid", sort=False):
            turn, query = of_query[qid]
            of_turns.setdefault(turn, {})[query] = passages
        return of_turns

    def _best(
        self, queries: Sequence[str], times: Counter[str], found: dict[str, pd.DataFrame]
    ) -> str:
        """The query whose list has the highest value; the first query if none found anything."""
        finding = [query for query in queries if query in found]
        if not finding:
            return queries[0]
        value, passages = RULES[self.rule]
        lists = [
            Ranked(
                found[query]["docno"].to_numpy(object),
                found[query]["score"].to_numpy(),
                times[query],
            )
            for query in finding
        ]
        return finding[int(value(lists, self.passages or passages).argmax())]


def _distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each sub-query once; the query itself if there are none."""
    each_turn_once(frame)
    rows = zip(values(frame, "qsubqueries", []), texts_in(frame, "query"), strict=True)
    return with_queries(frame, [list(dict.fromkeys(queries)) or [query] for queries, query in rows])


def _with_rewrite(frame: pd.DataFrame, chosen: Sequence[str]) -> pd.DataFrame:
    return with_query(with_columns(frame, qrewrite=chosen), chosen)
