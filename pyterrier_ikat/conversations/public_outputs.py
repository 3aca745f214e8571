"""Published outputs of language models on the track's turns, and judgements by others. They are fetched from their authors, not shipped.

The lists of turns that others scored are facts, so they are here. From CONE-RAG (arXiv 2503.09902) there are nuggets, answers and labels by
people, responses of real systems, and GPT-4's labels for iKAT 2024.

None of the three repositories states a licence. Each file is taken from its repository at a fixed commit, with a checksum
(``public_outputs.tsv``: source, path there, bytes, SHA-256, optionally our own name), or from the folder ``outputs`` in or next to the data
folder.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..errors import DataError, UsageError, advice, list_first
from .download import OUTPUTS as FOLDER
from .download import REPOSITORIES, data_file
from .frame import object_frame
from .qrels import read_qrels

Completions = dict[tuple[str, str, str | None], tuple[str, ...]]
"""Turn, stage and prompt (None: any) -> the samples."""


CITE = {
    "personalized-cir": "Lupart et al., Investigating LLM Variability in Personalized Conversational Information Retrieval (SIGIR-AP 2025, "
    "arXiv 2510.03795), and Mo et al., How to Leverage Personal Textual Knowledge for Personalized Conversational Information Retrieval "
    "(arXiv 2407.16192)",
    "cfda-2025": "Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588)",
    "cone-rag": "Abbasiantaeb et al., Conversational Gold: Evaluating Personalized Conversational Search System using Gold Nuggets "
    "(SIGIR 2025, arXiv 2503.09902)",
}


def whose(source: str) -> str:
    """The origin of a source's files, and what to cite.

    Example:
        >>> whose("cfda-2025")[:75]
        'from https://github.com/gyeozai/CFDA-TREC-iKAT2025 (commit 68884f9; it stat'
    """
    repository, commit = REPOSITORIES[source]
    return f"from https://github.com/{repository} (commit {commit[:7]}; it states no licence); cite {CITE[source]}"


class TurnList(NamedTuple):
    """A list of turns with a name.

    Attributes:
        source: who published it.
        about: which turns they are, and how much of that is inferred.
        turns: their ids.
    """

    source: str
    about: str
    turns: tuple[str, ...]


@cache
def turn_lists() -> dict[str, TurnList]:
    """The lists of turns by their names.

    Example:
        >>> {name: len(one.turns) for name, one in turn_lists().items()}
        {'irlab-2024': 103, 'responses-2024': 62, 'responses-2023': 73, 'judged-2023': 176}
    """
    known = json.loads(Path(__file__).with_name("turn_lists.json").read_text(encoding="utf-8"))
    return {name: TurnList(one["source"], one["about"], tuple(one["turns"].split())) for name, one in known.items()}


@cache
def say(source: str) -> None:
    """Print once where the files that are used come from."""
    print(f"{FOLDER}/{source}: {whose(source)}", file=sys.stderr)


def output_file(source: str, name: str) -> Path:
    """The path of one of a source's files, fetched at its first use. Its origin is printed once.

    Raises:
        DataError: when it can't be fetched, see :func:`~pyterrier_ikat.conversations.download.data_file`.
    """
    path = data_file(f"{FOLDER}/{source}/{name}")
    say(source)
    return path


@dataclass(frozen=True)
class Output:
    """The completions of a language model for turns of 2023, which ``recorded:NAME`` replays.

    A sample has a rewrite and, except for CHIQ, an answer: completions of the stages ``rewrite`` and ``answer``. For the prompts
    ``rewrite_and_answer`` and ``reformulate_*``, the two are combined into one completion in the form that the prompt requires, and the
    name of the model says so. A rewrite of several lines is one line here, because its authors search with the whole text.

    Attributes:
        name: the name after ``recorded:``.
        source: a folder of ``outputs``, see ``REPOSITORIES``.
        files: the names of its files.
        model: the model that wrote them.
        about: how many samples of which turns they are.
        turns: the name of the list of its turns; empty for all turns of 2023.
    """

    name: str
    source: str
    files: tuple[str, ...]
    model: str
    about: str
    turns: str = ""

    def completions(self) -> Completions:
        """All samples, in the order of their files.

        Raises:
            DataError: when a file can't be fetched, or doesn't have the published form.
        """
        samples: dict[str, list[Sample]] = {}
        for name in self.files:
            path = output_file(self.source, name)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    qid, written = _samples(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"{path} line {number} is not a line of {REPOSITORIES[self.source][0]}: {error!r}") from None
                samples.setdefault(qid, []).extend(written)
        if few := [qid for qid, written in samples.items() if len(written) != len(next(iter(samples.values())))]:
            raise DataError(
                f"the files of recorded:{self.name} have fewer samples of {list_first(few)} than of other turns: fetch them again"
            )
        found: Completions = {}
        for qid, written in samples.items():
            rewrites, answers, _ = zip(*written, strict=True)
            if all(answers):
                found[qid, "rewrite", None], found[qid, "answer", None] = rewrites, answers
                composed = tuple(f"Rewrite: {one.rewrite}\nResponse: {one.answer}" for one in written)
                for prompt in ("rewrite_and_answer", "rewrite_and_answer_without_persona", "reformulate_rewrite"):
                    found[qid, "rewrite", prompt] = composed
                found[qid, "rewrite", "reformulate_queries"] = tuple(f"Response: {one.answer}\nQueries: {one.rewrite}" for one in written)
                if written[0].statements is not None:
                    selected = tuple(
                        f"Statements: {_flat(one.statements or '')}\n{both}" for one, both in zip(written, composed, strict=True)
                    )
                    found[qid, "rewrite", "reformulate_select"] = selected
            else:  # prompts that also ask for an answer have none
                found |= {(qid, "rewrite", prompt): rewrites for prompt in ("rewrite", "rewrite_short", "rewrite_enhanced")}
        return found

    def check_turns(self, asked: set[str], known: set[str]) -> None:
        """Raise an error for turns that the output lacks.

        Args:
            asked: the turns of a run.
            known: the turns of the output.

        Raises:
            UsageError: naming the turns to give instead.
        """
        if not (lacking := asked - known):
            return
        repair = "give a dataset of 2023, such as ikat:2023-mini"
        if self.turns and asked & known:
            repair = f"give {advice(f'turns={self.turns!r}', f'--turns {self.turns}')}"
        count = f"{len(lacking)} of the {len(asked)} turns ({list_first(sorted(lacking))})"
        raise UsageError(f"recorded:{self.name} has no completion of {count}, but of {self.about}: {repair}")


class Sample(NamedTuple):
    """What a model wrote. ``statements`` are those that it claims to use, in its words; None if it wasn't asked."""

    rewrite: str
    answer: str
    statements: str | None = None


def _samples(line: dict[str, Any]) -> tuple[str, list[Sample]]:
    """The turn in a line, and its rewrites with their answers."""
    if "predicted_rewrite" in line:
        rewrites, answers = line["predicted_rewrite"], line["predicted_response"]
        return line["sample_id"], [Sample(_flat(rewrite), _flat(answer)) for rewrite, answer in zip(rewrites, answers, strict=True)]
    qid = "_".join(line["sample_id"].rsplit("-", 1))
    return qid, [Sample(_flat(line["rewrite_utt_text"]), _flat(line["response_utt_text"]), line.get("LLM_select"))]


def _flat(text: str) -> str:
    return " ".join(text.split())


PCIR_PROMPTS = (
    *(f"{chosen}_0shot_prompt{prompt}" for chosen in ("None", "All", "human") for prompt in (1, 2)),
    *(f"LLM_{shots}shot_prompt{prompt}" for shots in (0, 1, 3, 5) for prompt in (1, 2)),
    *(f"SAR_{shots}shot" for shots in (0, 1, 3, 5)),
)
"""The statements that a prompt shows, its number of examples, and which of two prompts it is. SAR chooses and rewrites at once."""


def _named() -> dict[str, Output]:
    found = [
        Output(
            f"personalizedcir-{prompt.replace('_', '-').lower()}",
            "personalized-cir",
            tuple(f"batch_{prompt}_run{run}.jsonl" for run in range(1, 6)),
            "gpt-4o-mini",
            f"5 samples for each of the {len(turn_lists()['judged-2023'].turns)} judged turns of 2023",
            "judged-2023",
        )
        for prompt in PCIR_PROMPTS
    ]
    for name, file, settings in (
        ("cfda-llm4cs", "ikat2023_test_llm4cs_temp07_cand10.jsonl", "temperature 0.7"),
        ("cfda-chiq", "ikat2023_test_chiqnpr_temp10_cand10.jsonl", "temperature 1; rewrites alone"),
    ):
        found.append(Output(name, "cfda-2025", (file,), "gpt-4o-mini", f"10 samples for each of the 332 turns of 2023 ({settings})"))
    return dict(zip((one.name for one in found), found, strict=True))


OUTPUTS = _named()
"""Name -> output, for ``recorded:NAME``."""


def listed() -> list[tuple[str, str]]:
    """The rows of ``ikat datasets``: the name and a description. The prompts of one study share a row."""
    one, *_, _, _ = OUTPUTS.values()
    prompts = ", ".join(name.removeprefix("personalizedcir-") for name in OUTPUTS if name.startswith("personalizedcir-"))
    rows = [("recorded:personalizedcir-PROMPT", f"{one.model}: {one.about}, with each PROMPT of {prompts}; {whose(one.source)}")]
    rows += [(f"recorded:{out.name}", f"{out.model}: {out.about}; {whose(out.source)}") for out in list(OUTPUTS.values())[-2:]]
    return rows


CONE_RAG = "cone-rag"


def gpt4_labels() -> pd.DataFrame:
    """GPT-4's labels, 0 to 4, of the runs' first 30 passages for each turn: ``qid``, ``docno``, ``label``."""
    return read_qrels(output_file(CONE_RAG, "llm-gpt4-pool-depth-30.txt"))


def human_nuggets() -> pd.DataFrame:
    """The nuggets that people took from passages: ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

    It was not rated whether a nugget is vital, so ``importance`` is ``okay`` for all, and scores over vital nuggets are missing. 74 of the
    2,279 nuggets have the same text as another one of their turn. Only the first of these is kept. 78 of the 116 judged turns have nuggets.
    """
    return _all_nuggets().drop_duplicates(["qid", "nugget"], ignore_index=True)


def _all_nuggets() -> pd.DataFrame:
    rows = [
        (qid, name.strip("[]"), " ".join(nugget["text"].split()), int(nugget["relevance"]), "okay")
        for qid, nuggets in _of_cone_rag("gold_nuggets_human.json").items()
        for name, nugget in nuggets.items()
    ]
    return _frame(rows, ("qid", "number", "nugget", "relevance", "importance"))


def human_answers() -> pd.DataFrame:
    """The answers that people wrote: ``qid``, ``gold_answer``."""
    found = {qid: said["manual"]["response"] for qid, said in _of_cone_rag("gold_response_and_nuggets_human.json").items()}
    return _frame([(qid, answer) for qid, answer in found.items() if answer], ("qid", "gold_answer"))


def system_responses() -> pd.DataFrame:
    """The responses of the track's automatic runs: ``run``, ``qid``, ``qanswer``."""
    responses = _of_cone_rag("automatic_responses.json")
    return _frame([(run, qid, text) for qid, of_runs in responses.items() for run, text in of_runs.items()], ("run", "qid", "qanswer"))


def human_nugget_labels() -> pd.DataFrame:
    """People's labels of the nuggets in the responses of six runs: ``run``, ``qid``, ``number``, ``nugget``, ``importance``, ``label``.

    Equal nuggets of a turn have one label each. The names of the runs differ from those in :func:`system_responses`, and how they
    correspond isn't published.
    """
    path = output_file(CONE_RAG, "human-study-matching-labels.txt")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            about, label = line.split("\t")
            _, conversation, turn, nugget, run = about.split("_", 4)
            rows.append((run, f"{conversation}_{turn}", nugget, "support" if int(label) else "not_support"))
        except ValueError:
            raise DataError(
                f"{path} line {number} is not a label of CONE-RAG (HIT_topic_turn_nugget_run, then 0 or 1): {line[:80]!r}"
            ) from None
    labels = _frame(rows, ("run", "qid", "number", "label"))
    return labels.merge(_all_nuggets().drop(columns="relevance"), on=["qid", "number"], how="left", validate="many_to_one")


def _frame(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return object_frame({name: [row[place] for row in rows] for place, name in enumerate(columns)})


def _of_cone_rag(name: str) -> dict[str, Any]:
    """The content of one of its JSON files, by turn."""
    path = output_file(CONE_RAG, name)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): fetch it again") from None
    return found
