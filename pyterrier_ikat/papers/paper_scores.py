"""The judgements and measures for our systems, and whether a published score may be shown next to ours."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations.datasets import QrelsSource, Turns, find_qrels, is_variant, read_turns
from ..conversations.download import at_hand, is_published
from ..conversations.qrels import judge_of
from ..errors import UsageError, advice, counted, list_first, option
from ..evaluation.response_judges import (
    AnswerEquivalence,
    Correctness,
    Groundedness,
    NuggetRecall,
    RougeL,
)
from ..evaluation.responses import evaluate_responses, response_turns
from ..llms import llm
from ..methods.catalogue import NIST, PublishedTable
from ..methods.definition import model_key
from ..runs import RunFolder
from .published import (
    ANSWERS,
    JUDGES,
    MISSING,
    PTKB,
    SAMPLE,
    STATEMENTS_NIST,
    STATEMENTS_ORGANISERS,
)

MEASURES = {"P": "P", "Recall": "R", "MRR": "RR", "mAP": "AP", "Precision": "SetP", "F1": "SetF"}
"""The papers' names of measures with a level of relevance -> ours. The others have our name."""
TIMES = {"Judged@10": 10}
"""The papers count judged passages, and ir_measures gives their share."""


@dataclass(frozen=True)
class Judgements:
    """The judgements with which the systems of a part are scored.

    Attributes:
        qrels: the judgements.
        kind: who judged; None if that is unknown.
        year: the year of the track; None for another collection.
        unjudged: how many of the user's turns have no judgement.
        listed: the name of the list of turns of the paper's table, if the user gives neither turns
            nor judgements.
        of_some: which part of the collection was judged, in words; empty for all of it.
        about_turns: sentences on the turns that finished runs were not asked.
    """

    qrels: pd.DataFrame
    kind: str | None
    year: int | None
    unjudged: int = 0
    listed: str = ""
    of_some: str = ""
    about_turns: tuple[str, ...] = ()

    def differ_from(self, part: PublishedTable) -> str:
        """Why scores with these judgements may not be shown next to published ones; empty if they may."""
        if self.year != part.year:
            return f"the paper's scores are about iKAT {part.year}, these about {self.year or 'another collection'}"
        if self.kind is None or model_key(self.kind) != model_key(part.judgements):
            ours = self.kind or "judges that the resources file names"
            return f"the paper's scores are by {part.judgements}, these by {ours}; missing: {_missing(part)}"
        return (
            f"the paper's scores are about the whole collection, these about {self.of_some}"
            if self.of_some
            else ""
        )


def _missing(part: PublishedTable) -> str:
    """What is missing for scores by the judgements of a part, and how to get it."""
    name = FILES.get((f"ikat:{part.year}", None), "")
    path = at_hand(name) if name and part.judgements == NIST else None
    if path is None or not is_published(name):
        return MISSING[part.judgements]
    given = advice(f'qrels="{path}", judged_by="NIST"', f"--qrels {path} --judged-by NIST")
    return f"the NIST judgements of this year: give {given}"


@dataclass(frozen=True)
class Given:
    """The judgements and turns that a user gives instead of a dataset's.

    Attributes:
        qrels: a frame, the name of a variant of the dataset's, or a TREC qrels file.
        judged_by: who made them.
        turns: only these.
    """

    qrels: QrelsSource | None = None
    judged_by: str | None = None
    turns: Turns | None = None

    def judgements(self, part: PublishedTable, data: Any, asked: Sequence[str] = ()) -> Judgements:
        """The judgements of a part: the given ones, or the dataset's of the nearest kind. For responses, one for each turn in ``asked``."""
        if part.about == ANSWERS:
            every = pd.DataFrame(
                {"qid": list(asked), "docno": "", "label": 0}
            )  # the other turns have no response
            judged = (
                every
                if self.qrels is None
                else every[every["qid"].isin(find_qrels(self.qrels, data)["qid"])]
            )
            return self._of_turns(part, data, judged, None)
        if self.qrels is not None:
            given, of_some = _of_collection(find_qrels(self.qrels, data), data)
            if foreign := list(
                dict.fromkeys(given.loc[~given["qid"].isin(data.get_topics()["qid"]), "qid"])
            ):
                lacking = (
                    f"{option('qrels')} judges turns that {data.name} lacks ({list_first(foreign)})"
                )
                raise UsageError(f"{lacking}: give judgements of its turns")
            return replace(
                self._of_turns(part, data, given, self._given_kind(data)), of_some=of_some
            )
        variants = data._describe_component("qrels")
        wanted = (
            {STATEMENTS_NIST: "ptkb_nist", STATEMENTS_ORGANISERS: "ptkb_org"}.get(part.judgements)
            if part.about == PTKB
            else None
        )
        variant = wanted if wanted is None or wanted in variants else "ptkb"
        return self._of_turns(part, data, data.get_qrels(variant), _kind(data.name, variant))

    def _given_kind(self, data: Any) -> str | None:
        """Who made the judgements that the user gives. Raises an error for a claim that is known to be wrong."""
        if isinstance(self.qrels, pd.DataFrame) or self.qrels is None:
            return self.judged_by
        known = (
            _kind(data.name, str(self.qrels))
            if is_variant(self.qrels, data)
            else judge_of(str(self.qrels))
        )
        if (
            self.judged_by is not None
            and known is not None
            and model_key(self.judged_by) != model_key(known)
        ):
            given = f"{option('judged_by')} says {self.judged_by}, but {option('qrels')} {self.qrels} is known to be by {known}"
            raise UsageError(f"{given}: omit {option('judged_by')}")
        return known or self.judged_by

    def _of_turns(
        self, part: PublishedTable, data: Any, qrels: pd.DataFrame, kind: str | None
    ) -> Judgements:
        """The judgements of the user's turns, else of the turns of the paper's table if they are known, else all."""
        year = getattr(data, "year", None)
        own = self.turns is not None or self.qrels is not None or year != part.year
        listed = "" if own else part.listed
        turns = self.turns if own else listed or None
        if turns is None:
            return Judgements(qrels, kind, year)
        wanted = read_turns(turns, data.get_topics()["qid"], data.name)
        judged = qrels[qrels["qid"].isin(wanted)].reset_index(drop=True)
        if judged.empty:
            what = listed or f"the turns that {option('turns')} names"
            raise UsageError(
                f"none of {what} is judged: the judged turns are like {qrels['qid'].iloc[0]}"
            )
        return Judgements(judged, kind, year, len(wanted) - judged["qid"].nunique(), listed)


def _of_collection(qrels: pd.DataFrame, data: Any) -> tuple[pd.DataFrame, str]:
    """The full collection's judgements whose turn and passage a mini collection has, and a description of them."""
    if data.name != MINI:
        return qrels, ""
    passages = {passage["docno"] for passage in data.get_corpus_iter(verbose=False)}
    of_any_turn = qrels[qrels["docno"].isin(passages)]
    there = of_any_turn[of_any_turn["qid"].isin(data.get_topics()["qid"])].reset_index(drop=True)
    if len(there) in (0, len(qrels)):
        return qrels, ""
    every, ours = (int((some["label"] >= 1).sum()) for some in (of_any_turn, there))
    shares = f"{len(there)} of the {counted(len(qrels), 'judged pair')}, over {counted(there['qid'].nunique(), 'turn')}"
    relevant = f"relevant there (from 1): {counted(every, 'pair')}, {ours} of its turns"
    return there, f"the {counted(len(passages), 'passage')} of {MINI}: {shares}; {relevant}"


MINI = "ikat:2023-mini"
FILES = {
    ("ikat:2023", None): "2023-qrels.all-turns.txt",
    ("ikat:2024", None): "2024-qrels.txt",
    ("ikat:2023", "ptkb_nist"): "ptkb_rel_nist",
    ("ikat:2023", "ptkb_org"): "ptkb_rel_org",
}
"""Dataset and variant of its qrels -> the published file."""


def _kind(dataset: str, variant: str | None) -> str | None:
    if dataset not in ("ikat:2023", "ikat:2024", "ikat:2023-mini"):
        return "the collection's own judgements"
    if (dataset, variant) in FILES and not is_published(FILES[dataset, variant]):
        return f"a file that isn't the published {FILES[dataset, variant]}"
    if variant is None or variant == "provenance":
        return "the topics' gold passages" if variant or dataset.endswith("-mini") else NIST
    return STATEMENTS_NIST if variant == "ptkb_nist" else STATEMENTS_ORGANISERS


def our_measures(part: PublishedTable) -> dict[str, str]:
    """The measures of a part: the paper's name -> ours.

    Example:
        >>> from pyterrier_ikat.papers.published import find_table
        >>> our_measures(find_table("nii_2024", "I")[0])
        {'nDCG': 'nDCG', 'nDCG@5': 'nDCG@5', 'Recall': 'R(rel=1)@1000'}
    """
    found = {}
    for name in part.measures:
        base, level, cut = re.findall(r"^(\w+)(\(.+\))?(@\d+)?$", name)[0]
        of_sets = base == "Recall" and "F1" in part.measures
        ours = f"{'SetR' if of_sets else MEASURES.get(base)}{level or '(rel=1)'}{cut or '@1000' * (base == 'Recall' and not of_sets)}"
        found[name] = ours if base in MEASURES else name
    return found


def response_judges(resources: Mapping[str, str], turns: pd.DataFrame) -> dict[str, Any]:
    """The paper's measure -> its judge, if the resources have its model and the turns have what it reads.

    BEM needs the folder of a classifier, the others an LLM, and ROUGE-L nothing.
    """
    asks = {
        "R-Nuggets": NuggetRecall,
        "Groundedness": Groundedness,
        "LLMeval SOLAR": Correctness,
        "LLMeval GPT-4o": Correctness,
    }
    found: dict[str, Any] = {}
    for measure, key in JUDGES.items():
        spec = resources.get(key, SAMPLE)
        if not key:
            found[measure] = RougeL()
        elif spec != SAMPLE and (measure != "R-Nuggets" or "gold_nuggets" in turns.columns):
            found[measure] = (
                asks[measure](llm(spec)) if measure in asks else AnswerEquivalence(spec)
            )
    return found


def response_scores(
    folder: Path, dataset: Any, qids: list[str], resources: Mapping[str, str], texts: Any = None
) -> pd.DataFrame | None:
    """A value for each turn and measure of one run, missing if the turn could not be judged. None without responses.

    Args:
        folder: the run.
        dataset: the dataset of the run, which has the gold answers.
        qids: the turns.
        resources: the user's resources.
        texts: an operator that adds the passages' texts by docno, for groundedness.
    """
    turns = response_turns(dataset.conversations, qids)
    answers = answers_of(RunFolder(folder), texts)
    if answers is None:
        return None
    found = {}
    for measure, judge in response_judges(resources, turns).items():
        judged = evaluate_responses(turns, answers, [judge])
        found[measure] = judged.set_index("qid")["value"].reindex(qids)
    return pd.DataFrame(found, index=qids).reindex(columns=list(JUDGES)).reset_index(drop=True)


def answers_of(folder: RunFolder, texts: Any = None) -> pd.DataFrame | None:
    """The responses of a run, with the texts of the passages on which each is based; None if it has no responses.

    Args:
        folder: the run.
        texts: an operator that adds the passages' texts by docno. Without it, the result has no
            passages.
    """
    answers = pd.DataFrame(folder.turns())
    if "response" not in answers:
        return None
    used = answers.pop("used") if "used" in answers else [[]] * len(answers)
    pairs = answers[["qid"]].assign(docno=used).explode("docno").dropna()
    shown = (
        {}
        if texts is None or pairs.empty
        else texts.transform(pairs).groupby("qid")["text"].agg(list)
    )
    return answers.assign(qpassages=[list(shown.get(qid, [])) for qid in answers["qid"]])
