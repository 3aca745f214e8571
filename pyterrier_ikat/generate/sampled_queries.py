"""Several samples of one prompt, and one query from them: all, the most typical or the best one."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

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
from ..order import Floats, finite_scores, order_by_score, tied
from ..planning import Plan
from .queries import ExplodeQueries, with_queries

Vectors = npt.NDArray[np.float64]


Sample = list[str]
"""The texts of one sample, such as a rewrite and an answer."""


class SamplesWarning(UserWarning):
    """Warning: all samples may be identical."""


class _AsksForSamples:
    """What a plan needs from the samples of an operator: the requests of all of them."""

    def __init__(self, samples: "Samples") -> None:
        operator = samples.operator
        self.llm = operator.llm
        self.stage = operator.stage
        self.open_ended = operator.open_ended
        self.read = operator.read
        self.requests = samples.requests
        self._samples = samples

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Return stand-ins for the outcomes of all samples, in the order of the requests."""
        return self._samples.operator.typical(frame) * self._samples.n


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
        >>> rewrite = ikat.RewriteAndAnswer(ikat.llm("recorded:sample"), answer=False)
        >>> turn = ikat.Samples(rewrite, 3)(topics).iloc[0]
        >>> len(turn["qsubqueries"]), turn["qsubqueries"][0] == turn["qrewrite"]
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
                f"operator={self.operator!r}: "
                "sample an operator that asks an LLM once per turn, such as ikat.Rewrite(llm)"
            )
        if not isinstance(self.columns, list | tuple) or not self.columns:
            raise UsageError(
                f"columns={self.columns!r}: "
                "give a list of columns that the operator writes, such as ['query']"
            )
        self.columns = tuple(self.columns)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Count the requests of all samples, and write cached completions or placeholders."""
        outcomes = plan.ask(_AsksForSamples(self), frame)
        sampled = self._gather(frame, self._repeated(frame), outcomes)
        lists = []
        for queries in sampled["qsubqueries"]:
            if len(set(queries)) == 1:  # later stages would ask once for equal placeholders
                queries = [f"{query} {number}" for number, query in enumerate(queries)]
            lists.append(queries)
        return with_queries(sampled, lists)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """The requests of the first sample, then those of the second, and so on.

        Raises:
            UsageError: when the operator does not make one call per turn.
        """
        of_one_sample = self.operator.requests(frame)
        if len(of_one_sample) != len(frame):
            times = counted(len(of_one_sample), "time")
            turns = counted(len(frame), "turn")
            raise UsageError(
                f"{self.operator!r} asks {times} for {turns}: "
                "sample an operator that asks once per turn"
            )
        requests = []
        for sample in range(self.n):
            for request in of_one_sample:
                requests.append(replace(request, sample=sample, samples=self.n))
        return requests

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every row of a query frame, all samples at once."""
        pt.validate.query_frame(inp, extra_columns=self.operator.needs(), context=self)
        each_turn_once(inp)
        self._warn_of_equal_samples()
        repeated = self._repeated(inp)
        outcomes = []
        if len(inp):
            outcomes = self.operator.ask(self.requests(inp))
            outcomes = self.operator.settle(repeated, outcomes)
        return self._gather(inp, repeated, outcomes)

    def _warn_of_equal_samples(self) -> None:
        backend = self.operator.llm.backend
        if self.n == 1 or backend.replays:
            return
        reason = backend.repeats(self.n)
        if reason:
            warnings.warn(
                f"the {self.n} samples of {self.operator!r} may be the same: "
                f"the model has {reason}; give it a temperature above 0",
                SamplesWarning,
                stacklevel=4,
            )

    def _repeated(self, frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame] * self.n, ignore_index=True)

    def _gather(
        self, frame: pd.DataFrame, repeated: pd.DataFrame, outcomes: Sequence[Any]
    ) -> pd.DataFrame:
        """Return the frame of the first sample, with the texts of all samples.

        Args:
            frame: the turns.
            repeated: the turns, once for each sample.
            outcomes: one for each row of ``repeated``.
        """
        written = self.operator.write(repeated, outcomes)
        for name in self.columns:
            if name not in written.columns:
                raise UsageError(
                    f"columns={self.columns!r}: {self.operator!r} writes no {name}, "
                    f"but {', '.join(written.columns)}"
                )
        columns = [texts_in(written, name) for name in self.columns]
        texts = [list(row) for row in zip(*columns, strict=True)]
        turns = len(frame)
        samples = [texts[turn::turns] for turn in range(turns)]
        first = with_columns(written.iloc[:turns].set_axis(frame.index), qsamples=samples)
        return with_queries(first, [list(map(joined, of_turn)) for of_turn in samples])


def samples_asked(pipeline: pt.Transformer) -> dict[int, dict[str, int]]:
    """The id of each model -> stage -> the number of samples of a request in one run.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> llm = ikat.llm("recorded:sample")
        >>> samples_asked(ikat.Samples(ikat.Rewrite(llm), 3) >> ikat.Answer(llm))[id(llm)]
        {'rewrite': 3, 'answer': 1}
    """
    numbers: dict[int, dict[str, int]] = {}
    for stage in every_stage(pipeline):
        number = 1
        if isinstance(stage, Samples):
            number = stage.n
            stage = stage.operator
        if isinstance(stage, LLMOperator):
            of_model = numbers.setdefault(id(stage.llm), {})
            of_model[stage.stage] = max(number, of_model.get(stage.stage, 1))
    return numbers


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
        >>> samples = [["is mint safe"], ["safe herbs"], ["is mint safe"]]
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"], "qsamples": [samples]})
        >>> ikat.generate.Aggregate("mean")(turn)["query"].item()
        'is mint safe safe herbs is mint safe'
        >>> ikat.generate.Aggregate("consistent")(turn)["query"].item()
        'is mint safe'
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
        needed = ["query", self.also] if self.also else ["query"]
        pt.validate.query_frame(inp, extra_columns=needed, context=self)
        samples = _samples(inp)
        more = texts_in(inp, self.also) if self.also else [""] * len(inp)
        vectors = {}
        if self.encoder is not None:
            distinct = set(more)
            for of_turn in samples:
                distinct.update(*of_turn)
            vectors = encode(distinct, self.encoder)
        firsts = []
        texts = []
        for of_turn, also in zip(samples, more, strict=True):
            chosen = self._choose(of_turn, vectors)
            firsts.append(chosen[0][0])
            texts.append([*chain.from_iterable(chosen), also])
        if self.encoder is None:
            return with_query(inp, map(joined, texts))
        means = []
        for chosen_texts in texts:
            means.append(np.mean([vectors[text] for text in chosen_texts if text], axis=0))
        return with_columns(with_query(inp, firsts), query_vec=means)

    def _choose(self, samples: list[Sample], vectors: dict[str, Vectors]) -> list[Sample]:
        """Return the samples that count."""
        if self.how == "mean":
            return samples
        if self.how == "first":
            return samples[:1]
        texts = [sample[0] for sample in samples]
        matrix = np.array([vectors[text] for text in texts]) if vectors else word_vectors(texts)
        closeness = (matrix @ matrix.T).sum(axis=1).round(9)  # of each sample to all samples
        return [samples[int(closeness.argmax())]]


def _samples(frame: pd.DataFrame) -> list[list[Sample]]:
    """Return the samples of each row; without ``qsamples``, its query is the only one.

    Raises:
        DataError: naming the turn whose samples are not lists of texts.
    """
    if "qsamples" not in frame.columns:
        return [[[query]] for query in texts_in(frame, "query")]
    lists = []
    for qid, samples in zip(frame["qid"], values(frame, "qsamples", []), strict=True):
        samples = [list(sample) for sample in samples]
        if not samples or not all(map(_is_sample, samples)):
            raise DataError(
                f"turn {qid} has the qsamples {repr(samples)[:80]}: "
                "give lists of texts, the first of each not empty"
            )
        lists.append(samples)
    return lists


def _is_sample(texts: list[Any]) -> bool:
    return all(isinstance(text, str) for text in texts) and bool(texts and texts[0])


def word_vectors(texts: Sequence[str]) -> Vectors:
    """Return the word counts of each text over the words of all texts, scaled to length 1.

    A text without words has zeros.

    Example:
        >>> word_vectors(["mint tea", "Tea!"]).round(2).tolist()
        [[0.71, 0.71], [0.0, 1.0]]
    """
    counts = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]
    words = list(dict.fromkeys(chain.from_iterable(counts)))
    vectors = np.zeros((len(texts), len(words)))
    for row, count in enumerate(counts):
        vectors[row] = [count[word] for word in words]
    lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))  # (texts, 1)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def encode(texts: set[str], encoder: pt.Transformer) -> dict[str, Vectors]:
    """Return the vector of each text that is not empty. Each text is encoded once.

    Raises:
        DataError: when the encoder does not give a vector for each text.
    """
    ordered = sorted(texts - {""})
    if not ordered:
        return {}
    queries = object_frame({"qid": map(str, range(len(ordered))), "query": ordered})
    encoded = encoder.transform(frame_for(encoder, queries))
    if "query_vec" not in encoded.columns or list(encoded["qid"]) != list(queries["qid"]):
        raise DataError(
            f"{encoder} gave no query_vec for each query: "
            "use the query encoder of a dense retriever"
        )
    vectors = {}
    for text, vector in zip(ordered, encoded["query_vec"], strict=True):
        vectors[text] = np.asarray(vector, dtype=np.float64)
    return vectors


RRF_K = 60
"""The constant of reciprocal rank fusion, as in :class:`~pyterrier_ikat.RRF`."""


@dataclass(frozen=True)
class QueryRanking:
    """The passages found by one of a turn's queries, at least one.

    Attributes:
        docnos: its passages, best first.
        scores: their scores.
        times: how often the query occurs among the turn's queries.
    """

    docnos: npt.NDArray[np.object_]
    scores: Floats
    times: int


def mean_score(rankings: Sequence[QueryRanking], passages: int) -> Floats:
    """The mean score of each ranking's first passages."""
    best = [ranking.scores[:passages] for ranking in rankings]
    means = np.array([scores.mean() for scores in best])
    greatest = max(np.abs(scores).max() for scores in best)
    return tied(means, greatest)


def agreement(rankings: Sequence[QueryRanking], passages: int) -> Floats:
    """How many of each ranking's first passages are also first when all rankings are fused."""
    first_of_all = set(_fused(rankings)[:passages])
    counts = []
    for ranking in rankings:
        counts.append(len(first_of_all.intersection(ranking.docnos[:passages])))
    return np.array(counts, dtype=np.float64)


def spread(rankings: Sequence[QueryRanking], passages: int) -> Floats:
    """The standard deviation of the scores of each ranking's first passages, over their mean."""
    best = [ranking.scores[:passages] for ranking in rankings]
    if any(scores.mean() <= 0 for scores in best):
        raise DataError(
            'rule="spread" divides by a mean score that is not above 0: '
            "use a ranker with positive scores, such as bm25"
        )
    return tied(np.array([scores.std() / scores.mean() for scores in best]), 1.0)


def _fused(rankings: Sequence[QueryRanking]) -> npt.NDArray[np.object_]:
    """Fuse rankings by reciprocal rank. Equal sums are ordered by best rank, then by ranking.

    A passage gets ``times / (RRF_K + rank)`` from each ranking, where ranks count from 1.
    """
    lengths = [len(ranking.docnos) for ranking in rankings]
    ranks = np.concatenate([np.arange(length) for length in lengths])
    times = np.repeat([ranking.times for ranking in rankings], lengths)
    docnos = np.concatenate([ranking.docnos for ranking in rankings])
    by_rank = np.argsort(ranks, kind="stable")  # all first passages, then all second ones, ...
    numbers, distinct = pd.factorize(docnos[by_rank])
    shares = (times / (RRF_K + 1 + ranks))[by_rank]
    totals = np.bincount(numbers, weights=shares).round(12)  # one for each distinct passage
    best_first = np.argsort(-totals, kind="stable")
    return np.asarray(distinct[best_first], dtype=np.object_)


class BestQueryRule(NamedTuple):
    """A rule of :class:`BestQuery`.

    Attributes:
        value: gives each ranking of a turn its value; the highest wins.
        passages: how many passages of each ranking it reads.
    """

    value: Callable[[Sequence[QueryRanking], int], Floats]
    passages: int


BEST_QUERY_RULES = {
    "score": BestQueryRule(mean_score, 10),
    "agreement": BestQueryRule(agreement, 10),
    "spread": BestQueryRule(spread, 100),
}


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
        >>> turn = pd.DataFrame({"qid": ["1_2"], "query": ["safe?"]})
        >>> turn["qsubqueries"] = [["mint", "is mint safe", "tea"]]
        >>> by_length = pt.apply.generic(
        ...     lambda rows: rows.assign(docno="d", rank=0, score=rows["query"].str.len() * 1.0)
        ... )
        >>> ikat.generate.BestQuery(by_length)(turn)["query"].item()
        'is mint safe'
        >>> turn["qsubqueries"] = [["mint", "is mint safe", "safe"]]  # two of three find "safe"
        >>> by_last_word = pt.apply.generic(
        ...     lambda rows: rows.assign(docno=rows["query"].str[-4:], rank=0, score=1.0)
        ... )
        >>> ikat.generate.BestQuery(by_last_word, 1, rule="agreement")(turn)["query"].item()
        'is mint safe'
    """

    one_row_per_turn = False  # it searches and re-ranks, so a run calls it batch by batch
    schematic = {"label": "Best query"}
    least = {"passages": 1}
    choices = {"rule": BEST_QUERY_RULES}

    ranker: pt.Transformer
    passages: int | None = None
    rule: str = "score"

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The first sub-query. The ranker's LLM calls for each sub-query are counted."""
        distinct = _distinct(frame)
        cut = plan.cut
        plan.follow(self.ranker, ExplodeQueries().transform(distinct))
        plan.cut = cut
        return _with_rewrite(frame, [queries[0] for queries in distinct["qsubqueries"]])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Search for every distinct sub-query, and set ``query``."""
        pt.validate.query_frame(inp, extra_columns=["query", "qsubqueries"], context=self)
        distinct = _distinct(inp)
        rankings = self._search(distinct[distinct["qsubqueries"].map(len) > 1])
        lists = zip(distinct["qsubqueries"], values(inp, "qsubqueries", []), strict=True)
        chosen = []
        for qid, (queries, repeated) in zip(inp["qid"], lists, strict=True):
            chosen.append(self._best(queries, Counter(repeated), rankings.get(qid, {})))
        return _with_rewrite(inp, chosen)

    def _search(self, turns: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
        """Search for each sub-query. Return turn -> sub-query -> its passages, best first."""
        if not len(turns):
            return {}
        queries = ExplodeQueries().transform(turns.reset_index(drop=True))
        with warnings.catch_warnings():
            # another sub-query may have found passages
            warnings.filterwarnings("ignore", ".*; counted 0", NoResultWarning)
            results = self.ranker.transform(frame_for(self.ranker, queries))
        pt.validate.result_frame(results, extra_columns=["score"], context=self.ranker)
        results = results[["qid", "docno", "score"]].astype({"score": "float64"})
        results = results.reset_index(drop=True)
        scores = finite_scores(results, repr(self.ranker))
        numbers, _qids = pd.factorize(results["qid"])
        results = results.take(order_by_score(results, numbers, scores))
        sub_queries = queries.set_index("qid")[["qid_0", "query"]]
        rankings: dict[str, dict[str, pd.DataFrame]] = {}
        for qid, passages in results.groupby("qid", sort=False):
            turn, query = sub_queries.loc[qid]
            rankings.setdefault(turn, {})[query] = passages
        return rankings

    def _best(
        self, queries: Sequence[str], times: Counter[str], passages_of: dict[str, pd.DataFrame]
    ) -> str:
        """Choose the query whose ranking has the highest value; by default the first query."""
        successful = [query for query in queries if query in passages_of]
        if not successful:
            return queries[0]
        rankings = []
        for query in successful:
            docnos = passages_of[query]["docno"].to_numpy(object)
            scores = passages_of[query]["score"].to_numpy()
            rankings.append(QueryRanking(docnos, scores, times[query]))
        rule = BEST_QUERY_RULES[self.rule]
        ranking_values = rule.value(rankings, self.passages or rule.passages)
        return successful[int(ranking_values.argmax())]


def _distinct(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each sub-query once; the query itself if there are none."""
    each_turn_once(frame)
    lists = []
    rows = zip(values(frame, "qsubqueries", []), texts_in(frame, "query"), strict=True)
    for queries, query in rows:
        lists.append(list(dict.fromkeys(queries)) or [query])
    return with_queries(frame, lists)


def _with_rewrite(frame: pd.DataFrame, chosen: Sequence[str]) -> pd.DataFrame:
    return with_query(with_columns(frame, qrewrite=chosen), chosen)
