"""The response measures of InfoSense's Table 4, with judges that the user's resources file names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..evaluation.answer_equivalence import AnswerEquivalence
from ..evaluation.response_judges import Groundedness, NuggetRecall, Preference
from ..evaluation.responses import RougeL, evaluate_responses, response_turns
from ..llms import llm
from ..runs import RunFolder
from .resources import JUDGES, SAMPLE


def response_judges(resources: Mapping[str, str], turns: pd.DataFrame) -> dict[str, Any]:
    """The paper's measure -> the judge of it, for those whose model the resources name and whose basis the turns have.

    BEM takes the folder of a classifier, the others an LLM; ROUGE-L takes none. The paper's preference has another scale than ours.
    """
    made: dict[str, Any] = {"Rouge-L": lambda spec: RougeL(), "BEM": AnswerEquivalence, "R-Nuggets": _asks(NuggetRecall)}
    made |= {"Groundedness": _asks(Groundedness), "LLMeval SOLAR": _asks(Preference), "LLMeval GPT-4o": _asks(Preference)}
    found = {}
    for measure, key in JUDGES.items():
        spec = resources.get(key, "") if key else "none"
        if spec and spec != SAMPLE and (measure != "R-Nuggets" or "gold_nuggets" in turns.columns):
            found[measure] = made[measure](spec)
    return found


def _asks(judge: Any) -> Any:
    return lambda spec: judge(llm(spec))


def response_scores(folder: Path, dataset: Any, qids: list[str], resources: Mapping[str, str], texts: Any = None) -> pd.DataFrame | None:
    """A value for each turn and measure of one run; missing where nobody could judge. None without responses.

    Args:
        folder: the run.
        dataset: what it was made on, which has the gold answers.
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
    """The responses of a run, with the texts of the passages that each is based on; None when it wrote no response.

    Args:
        folder: the run.
        texts: an operator that adds the passages' texts by docno; without it no passage is shown.
    """
    answers = pd.DataFrame(folder.turns())
    if "response" not in answers.columns:
        return None
    used = answers["used"] if "used" in answers.columns else pd.Series([[]] * len(answers))
    pairs = [(qid, docno) for qid, docnos in zip(answers["qid"], used, strict=True) if isinstance(docnos, list) for docno in docnos]
    shown: Any = {}
    if texts is not None and pairs:
        shown = texts.transform(pd.DataFrame(pairs, columns=["qid", "docno"])).groupby("qid")["text"].agg(list)
    return answers.drop(columns="used", errors="ignore").assign(qpassages=[list(shown.get(qid, [])) for qid in answers["qid"]])
