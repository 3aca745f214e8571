"""The judgements and measures for our systems, and when published scores stand next to ours."""

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

MEASURE_NAMES = {
    "P": "P",
    "Recall": "R",
    "MRR": "RR",
    "mAP": "AP",
    "Precision": "SetP",
    "F1": "SetF",
}
"""The papers' names of measures with a level of relevance -> ours. The others have our name."""
FACTORS = {"Judged@10": 10}
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
        """Say why these scores may not be shown next to published ones; empty if they may."""
        if self.year != part.year:
            ours = self.year or "another collection"
            return f"the paper's scores are about iKAT {part.year}, these about {ours}"
        if self.kind is None or model_key(self.kind) != model_key(part.judgements):
            ours = self.kind or "judges that the resources file names"
            return (
                f"the paper's scores are by {part.judgements}, these by {ours}; "
                f"missing: {_missing(part)}"
            )
        if self.of_some:
            return f"the paper's scores are about the whole collection, these about {self.of_some}"
        return ""


def _missing(part: PublishedTable) -> str:
    """The judgements of a part that are missing, and how to get them."""
    name = QRELS_FILES.get((f"ikat:{part.year}", None), "")
    path = at_hand(name) if name and part.judgements == NIST else None
    if path is None or not is_published(name):
        return MISSING[part.judgements]
    arguments = advice(f'qrels="{path}", judged_by="NIST"', f"--qrels {path} --judged-by NIST")
    return f"the NIST judgements of this year: give {arguments}"


@dataclass(frozen=True)
class UserJudgements:
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
        """The judgements of a part: the given ones, or the dataset's of the nearest kind.

        For responses, there is one for each turn in ``asked``.
        """
        if part.about == ANSWERS:
            return self._of_responses(part, data, asked)
        if self.qrels is not None:
            qrels, of_some = _of_collection(find_qrels(self.qrels, data), data)
            _check_turns(qrels, data)
            judgements = self._of_turns(part, data, qrels, self._given_kind(data))
            return replace(judgements, of_some=of_some)
        variant = None
        if part.about == PTKB:
            variant = PTKB_VARIANTS.get(part.judgements)
            if variant is not None and variant not in data.qrels_variants():
                variant = "ptkb"
        return self._of_turns(part, data, data.get_qrels(variant), _kind(data.name, variant))

    def _of_responses(self, part: PublishedTable, data: Any, asked: Sequence[str]) -> Judgements:
        """Judgements that only name the turns: those asked, if they are among the user's."""
        judged = pd.DataFrame({"qid": list(asked), "docno": "", "label": 0})
        if self.qrels is not None:
            judged = judged[judged["qid"].isin(find_qrels(self.qrels, data)["qid"])]
        return self._of_turns(part, data, judged, None)

    def _given_kind(self, data: Any) -> str | None:
        """Who made the judgements that the user gives.

        Raises:
            UsageError: for a claim that is known to be wrong.
        """
        if isinstance(self.qrels, pd.DataFrame) or self.qrels is None:
            return self.judged_by
        if is_variant(self.qrels, data):
            known = _kind(data.name, str(self.qrels))
        else:
            known = judge_of(str(self.qrels))
        if known is None:
            return self.judged_by
        if self.judged_by is not None and model_key(self.judged_by) != model_key(known):
            claim = option("judged_by")
            raise UsageError(
                f"{claim} says {self.judged_by}, but {option('qrels')} {self.qrels} is known to be "
                f"by {known}: omit {claim}"
            )
        return known

    def _of_turns(
        self, part: PublishedTable, data: Any, qrels: pd.DataFrame, kind: str | None
    ) -> Judgements:
        """The judgements of the user's turns.

        By default these are the turns of the paper's table, if they are known, else all.
        """
        year = getattr(data, "year", None)
        turns = self.turns
        listed = ""
        if self.turns is None and self.qrels is None and year == part.year and part.listed:
            turns = listed = part.listed
        if turns is None:
            return Judgements(qrels, kind, year)
        wanted = read_turns(turns, data.get_topics()["qid"], data.name)
        judged = qrels[qrels["qid"].isin(wanted)].reset_index(drop=True)
        if judged.empty:
            what = listed or f"the turns that {option('turns')} names"
            raise UsageError(
                f"none of {what} is judged: the judged turns are like {qrels['qid'].iloc[0]}"
            )
        unjudged = len(wanted) - judged["qid"].nunique()
        return Judgements(judged, kind, year, unjudged, listed)


def _check_turns(qrels: pd.DataFrame, data: Any) -> None:
    """Refuse judgements of turns that the dataset lacks."""
    unknown = qrels.loc[~qrels["qid"].isin(data.get_topics()["qid"]), "qid"]
    if len(unknown):
        turns = list_first(list(unknown.unique()))
        raise UsageError(
            f"{option('qrels')} judges turns that {data.name} lacks ({turns}): "
            "give judgements of its turns"
        )


def _of_collection(qrels: pd.DataFrame, data: Any) -> tuple[pd.DataFrame, str]:
    """The judgements whose turn and passage a mini collection has, and a description of them.

    All judgements and an empty text for any other dataset, and if none or all are about it.
    """
    if data.name != MINI:
        return qrels, ""
    passages = {passage["docno"] for passage in data.get_corpus_iter(verbose=False)}
    of_any_turn = qrels[qrels["docno"].isin(passages)]
    kept = of_any_turn[of_any_turn["qid"].isin(data.get_topics()["qid"])].reset_index(drop=True)
    if len(kept) in (0, len(qrels)):
        return qrels, ""
    relevant = counted(int((of_any_turn["label"] >= 1).sum()), "pair")
    relevant_kept = int((kept["label"] >= 1).sum())
    pairs = counted(len(qrels), "judged pair")
    turns = counted(kept["qid"].nunique(), "turn")
    return kept, (
        f"the {counted(len(passages), 'passage')} of {MINI}: {len(kept)} of the {pairs}, over "
        f"{turns}; relevant there (from 1): {relevant}, {relevant_kept} of them in its turns"
    )


MINI = "ikat:2023-mini"
QRELS_FILES = {
    ("ikat:2023", None): "2023-qrels.all-turns.txt",
    ("ikat:2024", None): "2024-qrels.txt",
    ("ikat:2023", "ptkb_nist"): "ptkb_rel_nist",
    ("ikat:2023", "ptkb_org"): "ptkb_rel_org",
}
"""Dataset and variant of its qrels -> the published file."""
PTKB_VARIANTS = {STATEMENTS_NIST: "ptkb_nist", STATEMENTS_ORGANISERS: "ptkb_org"}
"""Who judged statements -> the variant of the dataset's qrels."""


def _kind(dataset: str, variant: str | None) -> str | None:
    if dataset not in ("ikat:2023", "ikat:2024", "ikat:2023-mini"):
        return "the collection's own judgements"
    file = QRELS_FILES.get((dataset, variant))
    if file is not None and not is_published(file):
        return f"a file that isn't the published {file}"
    if variant == "provenance" or (variant is None and dataset.endswith("-mini")):
        return "the topics' gold passages"
    if variant is None:
        return NIST
    return STATEMENTS_NIST if variant == "ptkb_nist" else STATEMENTS_ORGANISERS


def our_measures(part: PublishedTable) -> dict[str, str]:
    """The measures of a part: the paper's name -> ours.

    Example:
        >>> from pyterrier_ikat.papers.published import find_table
        >>> our_measures(find_table("nii_2024", "I")[0])
        {'nDCG': 'nDCG', 'nDCG@5': 'nDCG@5', 'Recall': 'R(rel=1)@1000'}
    """
    ours = {}
    for name in part.measures:
        base, level, cut = re.findall(r"^(\w+)(\(.+\))?(@\d+)?$", name)[0]
        if base not in MEASURE_NAMES:
            ours[name] = name
            continue
        measure = MEASURE_NAMES[base]
        if base == "Recall" and "F1" in part.measures:
            measure = "SetR"
        elif base == "Recall":
            cut = cut or "@1000"
        ours[name] = f"{measure}{level or '(rel=1)'}{cut}"
    return ours


def response_judges(resources: Mapping[str, str], turns: pd.DataFrame) -> dict[str, Any]:
    """The judges that can be asked: the paper's measure -> its judge.

    The resources have the judge's model, and the turns what it reads. BEM needs the folder of a
    classifier, the others an LLM, and ROUGE-L nothing.
    """
    llm_judges = {
        "R-Nuggets": NuggetRecall,
        "Groundedness": Groundedness,
        "LLMeval SOLAR": Correctness,
        "LLMeval GPT-4o": Correctness,
    }
    judges: dict[str, Any] = {}
    for measure, key in JUDGES.items():
        spec = resources.get(key, SAMPLE)
        if not key:
            judges[measure] = RougeL()
        elif spec == SAMPLE:
            continue
        elif measure not in llm_judges:
            judges[measure] = AnswerEquivalence(spec)
        elif measure != "R-Nuggets" or "gold_nuggets" in turns.columns:
            judges[measure] = llm_judges[measure](llm(spec))
    return judges


def response_scores(
    folder: Path, dataset: Any, qids: list[str], resources: Mapping[str, str], texts: Any = None
) -> pd.DataFrame | None:
    """A value for each turn and measure of one run; None without responses.

    A value is missing if the turn could not be judged.

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
    columns = {}
    for measure, judge in response_judges(resources, turns).items():
        judged = evaluate_responses(turns, answers, [judge])
        columns[measure] = judged.set_index("qid")["value"].reindex(qids)
    scores = pd.DataFrame(columns, index=qids)
    return scores.reindex(columns=list(JUDGES)).reset_index(drop=True)


def answers_of(folder: RunFolder, texts: Any = None) -> pd.DataFrame | None:
    """The responses of a run, with the texts of their passages; None if it has no responses.

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
    passages: Mapping[str, list[str]] = {}
    if texts is not None and not pairs.empty:
        passages = texts.transform(pairs).groupby("qid")["text"].agg(list).to_dict()
    return answers.assign(qpassages=[passages.get(qid, []) for qid in answers["qid"]])
