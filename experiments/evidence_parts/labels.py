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
"""The people's name of a run -> the run among the published responses that we take for it. The first three are their teams' only runs; of
the other teams' runs, the one whose responses fit the people's labels best."""


def gpt4_and_nist() -> str:
    """The agreement of GPT-4's labels of 2024 with NIST's."""
    data = ikat.dataset("ikat:2024")
    rows = []
    for threshold in (1, 2, 3):
        found = agreement(data.get_qrels("gpt4"), data.get_qrels(), threshold)
        rows.append(
            [
                f"relevant from {threshold}",
                str(found.pairs),
                f"{found.binary:.4f}",
                f"{found.binary_kappa:.4f}",
            ]
        )
    exact = np.trace(found.confusion.to_numpy()) / found.pairs
    rows.insert(0, ["labels 0 to 4", str(found.pairs), f"{exact:.4f}", f"{found.kappa:.4f}"])
    higher = np.tril(found.confusion.to_numpy(), -1).sum() / found.pairs
    said = f"GPT-4's label is higher than NIST's for {higher:.1%} of the pairs, and lower for {1 - exact - higher:.1%}."
    weighted = [
        format_score(weighted_kappa(found.confusion.to_numpy(), wt=weights, return_results=False))
        for weights in ("linear", "quadratic")
    ]
    one_step = sum(np.trace(found.confusion.to_numpy(), offset) for offset in (-1, 1)) / found.pairs
    said += f" The labels of {one_step:.1%} are one step apart."
    of_steps = f"Weighted kappa of the labels 0 to 4: {' with linear weights, '.join(weighted)} with quadratic ones."
    return f"{table(['GPT-4 and NIST', 'pairs', 'agreement', 'kappa'], rows)}\n\n{said} {of_steps}"


class Words(NamedTuple):
    """The words of a nugget and of a response, stemmed and without stop words."""

    nugget: list[str]
    response: list[str]


def words_of(text: str) -> list[str]:
    """The stems of a text without stop words."""
    return [
        word for word in tokenize(text, "porter2") if word not in stop_terms("terrier", "porter2")
    ]


MATCHERS: dict[str, Callable[[Words], float]] = {
    "share of the nugget's words in the response": lambda said: (
        len(set(said.nugget) & set(said.response)) / max(1, len(set(said.nugget)))
    ),
    "longest common subsequence, share of the nugget": lambda said: (
        longest_common_subsequence(*said) / max(1, len(said.nugget))
    ),
}
"""The matchers that need no model."""


def area(scores: "pd.Series[float]", labels: "pd.Series[bool]") -> float:
    """The probability that a stated nugget scores higher than one that isn't stated, where a tie counts half (AUC)."""
    ranks = rankdata(scores)
    stated = int(labels.sum())
    return float(
        (ranks[labels.to_numpy()].sum() - stated * (stated + 1) / 2)
        / (stated * (len(labels) - stated))
    )


def kappa(said: "pd.Series[bool]", labels: "pd.Series[bool]") -> float:
    """Cohen's kappa."""
    return float(
        cohens_kappa(
            np.bincount(2 * said.to_numpy(int) + labels.to_numpy(int), minlength=4).reshape(2, 2)
        )
    )


def decided(
    scores: "pd.Series[float]", labels: "pd.Series[bool]", conversation: "pd.Series[str]"
) -> "pd.Series[bool]":
    """Whether each score reaches the threshold with the highest kappa on all other conversations."""
    said = pd.Series(False, scores.index)
    for held_out in conversation.unique():
        here = conversation == held_out
        others, known = scores[~here], labels[~here]
        best = max(
            others.drop_duplicates().sort_values(), key=lambda least: kappa(others >= least, known)
        )
        said[here] = scores[here] >= best
    return said


def nuggets() -> str:
    """The labels of people, compared with the matchers without a model."""
    data = ikat.dataset("ikat:2024")
    labels, responses = (
        data.get_nugget_labels(),
        data.get_responses().set_index(["run", "qid"])["qanswer"],
    )
    labels = labels[
        [
            (RESPONSES[run], qid) in responses.index
            for run, qid in zip(labels["run"], labels["qid"], strict=True)
        ]
    ]
    stated = labels["label"] == "support"
    texts = [
        Words(words_of(nugget), words_of(responses[RESPONSES[run], qid]))
        for run, qid, nugget in zip(labels["run"], labels["qid"], labels["nugget"], strict=True)
    ]
    conversation = pd.Series(conversation_of(pd.Index(labels["qid"])), labels.index)
    rows = []
    for name, match in MATCHERS.items():
        scores = pd.Series(map(match, texts), labels.index)
        said = decided(scores, stated, conversation)
        areas = [
            f"{area(scores[labels['run'] == run], stated[labels['run'] == run]):.2f}"
            for run in RESPONSES
        ]
        rows.append(
            [
                name,
                f"{(said == stated).mean():.3f}",
                f"{kappa(said, stated):.3f}",
                f"{area(scores, stated):.2f}",
                *areas,
            ]
        )
    none = pd.Series(False, stated.index)
    rows.append(
        [
            "nothing is stated",
            f"{(none == stated).mean():.3f}",
            f"{kappa(none, stated):.3f}",
            *["0.50"] * 7,
        ]
    )
    areas_of = [
        f"AUC, {run} ({int(stated[labels['run'] == run].sum())} stated)" for run in RESPONSES
    ]
    head = [f"{len(labels)} labels of people and", "agreement", "kappa", "AUC", *areas_of]
    return f"{table(head, rows)}\n\n{int(stated.sum())} of {len(stated)} nuggets are stated, in {labels['qid'].nunique()} turns."
