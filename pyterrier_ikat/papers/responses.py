"""The response measures of InfoSense's Table 4, with judges that the user's resources file names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..evaluation.answer_equivalence import AnswerEquivalence
from ..evaluation.response_judges import Groundedness, NuggetRecall, Preference
from ..evaluation.responses import evaluate_responses, response_turns
from ..evaluation.rouge import RougeL
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
    written = pd.DataFrame(RunFolder(folder).turns())
    if "response" not in written.columns:
        return None
    answers = _based_on(written, texts)
    found = {}
    for measure, judge in response_judges(resources, turns).items():
        judged = evaluate_responses(turns, answers, [judge])
        found[measure] = judged.set_index("qid")["value"].reindex(qids)
    return pd.DataFrame(found, index=qids).reindex(columns=list(JUDGES)).reset_index(drop=True)


def _based_on(answers: pd.DataFrame, texts: Any) -> pd.DataFrame:
    """The answers with the texts of the passages that each is based on."""
    used = answers["used"] if "used" in answers.columns else pd.Series([[]] * len(answers))
    if texts is None or not used.map(bool).any():
        return answers.drop(columns="used", errors="ignore").assign(qpassages=[[] for _ in range(len(answers))])
    pairs = pd.DataFrame(
        [(qid, docno) for qid, docnos in zip(answers["qid"], used, strict=True) for docno in docnos or []], columns=["qid", "docno"]
    )
    written = texts.transform(pairs).groupby("qid")["text"].agg(list)
    return answers.drop(columns="used").assign(qpassages=[list(written.get(qid, [])) for qid in answers["qid"]])
