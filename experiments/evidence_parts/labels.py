"""Labels from models and from word counts, compared with those of people, for iKAT 2024."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from statsmodels.stats.inter_rater import cohens_kappa as weighted_kappa

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation.judgements import agreement, cohens_kappa
from pyterrier_ikat.evaluation.response_judges import longest_common_subsequence
from pyterrier_ikat.retrieve.words import stop_terms, tokenize
from pyterrier_ikat.tables import format_score

from .common import conversation_of, table

RESPONSES = {
    "nii-1": "NII_USI_UCL",
    "iires-1": "uot-yahoo_run",
    "ksu-1": "ksu",
    "rali-3": "RALI_gpt4o_nonp_fusion_rerank",
    "infos-2": "infosense_llama_short_long_qrs_2_run",
    "uva-3": "gpt4-QD1-rr",
}
"""The people's name of a run -> the run among the published responses that we take for it.

The first three are their teams' only runs; of the other teams' runs, the one whose responses fit
the people's labels best.
"""


def gpt4_and_nist() -> str:
    """The agreement of GPT-4's labels of 2024 with NIST's."""
    data = ikat.dataset("ikat:2024")
    rows = []
    for threshold in (1, 2, 3):
        found = agreement(data.get_qrels("gpt4"), data.get_qrels(), threshold)
        shares = [f"{found.binary:.4f}", f"{found.binary_kappa:.4f}"]
        rows.append([f"relevant from {threshold}", str(found.pairs), *shares])
    confusion = found.confusion.to_numpy()
    pairs = found.pairs
    exact = np.trace(confusion) / pairs
    higher = np.tril(confusion, -1).sum() / pairs
    lower = 1 - exact - higher
    one_step = (np.trace(confusion, -1) + np.trace(confusion, 1)) / pairs
    linear = weighted_kappa(confusion, wt="linear", return_results=False)
    quadratic = weighted_kappa(confusion, wt="quadratic", return_results=False)
    rows.insert(0, ["labels 0 to 4", str(pairs), f"{exact:.4f}", f"{found.kappa:.4f}"])
    sentences = (
        f"GPT-4's label is higher than NIST's for {higher:.1%} of the pairs, and lower for "
        f"{lower:.1%}. The labels of {one_step:.1%} are one step apart. Weighted kappa of the "
        f"labels 0 to 4: {format_score(linear)} with linear weights, {format_score(quadratic)} "
        "with quadratic ones."
    )
    return f"{table(['GPT-4 and NIST', 'pairs', 'agreement', 'kappa'], rows)}\n\n{sentences}"


class Words(NamedTuple):
    """The words of a nugget and of a response, stemmed and without stop words."""

    nugget: list[str]
    response: list[str]


def words_of(text: str) -> list[str]:
    """The stems of a text without stop words."""
    stop_words = stop_terms("terrier", "porter2")
    return [word for word in tokenize(text, "porter2") if word not in stop_words]


def shared_words(words: Words) -> float:
    """The share of the nugget's words that the response has."""
    nugget = set(words.nugget)
    return len(nugget & set(words.response)) / max(1, len(nugget))


def common_subsequence(words: Words) -> float:
    """The length of the longest common subsequence, as a share of the nugget's."""
    return longest_common_subsequence(*words) / max(1, len(words.nugget))


MATCHERS: dict[str, Callable[[Words], float]] = {
    "share of the nugget's words in the response": shared_words,
    "longest common subsequence, share of the nugget": common_subsequence,
}
"""The matchers that need no model."""


def area(scores: "pd.Series[float]", labels: "pd.Series[bool]") -> float:
    """The probability that a stated nugget scores higher than another one (AUC).

    A tie counts half.
    """
    ranks = rankdata(scores)
    stated = int(labels.sum())
    above = ranks[labels.to_numpy()].sum() - stated * (stated + 1) / 2
    return float(above / (stated * (len(labels) - stated)))


def kappa(decisions: "pd.Series[bool]", labels: "pd.Series[bool]") -> float:
    """Cohen's kappa."""
    cells = 2 * decisions.to_numpy(int) + labels.to_numpy(int)
    confusion = np.bincount(cells, minlength=4).reshape(2, 2)
    return float(cohens_kappa(confusion))


def decided(
    scores: "pd.Series[float]", labels: "pd.Series[bool]", conversation: "pd.Series[str]"
) -> "pd.Series[bool]":
    """Whether each score reaches the threshold with the best kappa on all other conversations."""
    decisions = pd.Series(False, scores.index)
    for held_out in conversation.unique():
        here = conversation == held_out
        others = scores[~here]
        best = 0.0
        best_kappa = -np.inf
        for threshold in others.drop_duplicates().sort_values():
            of_threshold = kappa(others >= threshold, labels[~here])
            if of_threshold > best_kappa:
                best = threshold
                best_kappa = of_threshold
        decisions[here] = scores[here] >= best
    return decisions


def nuggets() -> str:
    """The labels of people, compared with the matchers without a model."""
    data = ikat.dataset("ikat:2024")
    labels = data.get_nugget_labels()
    responses = data.get_responses().set_index(["run", "qid"])["qanswer"]
    runs = labels["run"].map(RESPONSES)
    has_response = pd.MultiIndex.from_arrays([runs, labels["qid"]]).isin(responses.index)
    labels = labels[has_response]
    stated = labels["label"] == "support"
    texts = []
    for run, qid, nugget in zip(labels["run"], labels["qid"], labels["nugget"], strict=True):
        texts.append(Words(words_of(nugget), words_of(responses[RESPONSES[run], qid])))
    conversation = pd.Series(conversation_of(pd.Index(labels["qid"])), labels.index)
    rows = []
    for name, match in MATCHERS.items():
        scores = pd.Series(map(match, texts), labels.index)
        areas = [f"{area(scores, stated):.2f}"]
        for run in RESPONSES:
            of_run = labels["run"] == run
            areas.append(f"{area(scores[of_run], stated[of_run]):.2f}")
        rows.append([name, *agreement_cells(decided(scores, stated, conversation), stated), *areas])
    nothing = pd.Series(False, stated.index)
    rows.append(["nothing is stated", *agreement_cells(nothing, stated), *["0.50"] * 7])
    head = [f"{len(labels)} labels of people and", "agreement", "kappa", "AUC"]
    for run in RESPONSES:
        head.append(f"AUC, {run} ({int(stated[labels['run'] == run].sum())} stated)")
    turns = labels["qid"].nunique()
    sentence = f"{int(stated.sum())} of {len(stated)} nuggets are stated, in {turns} turns."
    return f"{table(head, rows)}\n\n{sentence}"


def agreement_cells(decisions: "pd.Series[bool]", labels: "pd.Series[bool]") -> list[str]:
    """The agreement and kappa of decisions and labels."""
    return [f"{(decisions == labels).mean():.3f}", f"{kappa(decisions, labels):.3f}"]
