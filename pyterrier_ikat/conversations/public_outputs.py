"""Published outputs of language models on the track's turns, and judgements by others. They are fetched from their authors, not shipped.

The lists of turns that others scored are facts, so they are here. From CONE-RAG (arXiv 2503.09902) there are nuggets, answers and labels by
people, responses of real systems, and GPT-4's labels for iKAT 2024.

None of the three repositories states a licence. Each file is taken from its repository at a fixed commit, with a checksum, or from the
folder ``outputs`` in or next to the data folder.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..errors import UsageError, advice, counted, list_first
from .download import SOURCES, data_file
from .frame import object_frame
from .qrels import read_qrels

FOLDER = "outputs"
Completions = dict[tuple[str, str, str | None], tuple[str, ...]]
"""Turn, stage and prompt (None: any) -> the samples."""


_LISTED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("public_outputs.json").read_text(encoding="utf-8"))


def whose(source: str) -> str:
    """The origin of a source's files, and what to cite.

    Example:
        >>> whose("cfda-2025")[:75]
        'from https://github.com/gyeozai/CFDA-TREC-iKAT2025 (commit 68884f9; it stat'
    """
    url = next(one.url for name, one in SOURCES.items() if name.startswith(f"{FOLDER}/{source}/"))
    owner, repository, commit = url.split("/")[3:6]
    return f"from https://github.com/{owner}/{repository} (commit {commit[:7]}; it states no licence); cite {_LISTED['cite'][source]}"


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
        source: a folder of ``outputs``, of ``sources.tsv``.
        files: the names of its files.
        about: how many samples of which turns they are.
        turns: the name of the list of its turns; empty for all turns of 2023.
        model: the model that wrote them.
    """

    name: str
    source: str
    files: list[str]
    about: str
    turns: str = ""
    model = "gpt-4o-mini"

    def completions(self) -> Completions:
        """All samples, in the order of their files.

        Raises:
            DataError: when a file can't be fetched.
        """
        samples: dict[str, list[Sample]] = {}
        for name in self.files:
            for line in output_file(self.source, name).read_text(encoding="utf-8").splitlines():
                qid, written = _samples(json.loads(line))
                samples.setdefault(qid, []).extend(written)
        found: Completions = {}
        for qid, written in samples.items():
            for (stage, prompt), form in (WITH_ANSWER if all(one.answer for one in written) else REWRITES).items():
                if "{statements}" not in form or written[0].statements is not None:
                    found[qid, stage, prompt] = tuple(form.format(**one._asdict()) for one in written)
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
        count = f"{len(lacking)} of the {counted(len(asked), 'turn')} ({list_first(sorted(lacking))})"
        raise UsageError(f"recorded:{self.name} has no completion of {count}, but of {self.about}: {repair}")


class Sample(NamedTuple):
    """What a model wrote. ``statements`` are those that it claims to use, in its words; None if it wasn't asked."""

    rewrite: str
    answer: str
    statements: str | None = None


BOTH = "Rewrite: {rewrite}\nResponse: {answer}"
WITH_ANSWER: dict[tuple[str, str | None], str] = {
    ("rewrite", None): "{rewrite}",
    ("answer", None): "{answer}",
    ("rewrite", "rewrite_and_answer"): BOTH,
    ("rewrite", "rewrite_and_answer_without_persona"): BOTH,
    ("rewrite", "reformulate_rewrite"): BOTH,
    ("rewrite", "reformulate_queries"): "Response: {answer}\nQueries: {rewrite}",
    ("rewrite", "reformulate_select"): "Statements: {statements}\n" + BOTH,
}
"""Stage and prompt (None: any) -> how a completion is composed of a sample."""
REWRITES: dict[tuple[str, str | None], str] = dict.fromkeys(
    (("rewrite", prompt) for prompt in ("rewrite", "rewrite_short", "rewrite_enhanced")), "{rewrite}"
)
"""The same for a sample without an answer: prompts that also ask for one have no completion."""


def _samples(line: dict[str, Any]) -> tuple[str, list[Sample]]:
    """The turn in a line, and its rewrites with their answers. A rewrite of several lines becomes one line."""
    if "predicted_rewrite" in line:
        pairs = zip(line["predicted_rewrite"], line["predicted_response"], strict=True)
        return line["sample_id"], [Sample(_flat(rewrite), _flat(answer)) for rewrite, answer in pairs]
    chosen = None if line.get("LLM_select") is None else _flat(line["LLM_select"])
    sample = Sample(_flat(line["rewrite_utt_text"]), _flat(line["response_utt_text"]), chosen)
    return "_".join(line["sample_id"].rsplit("-", 1)), [sample]


def _flat(text: str) -> str:
    return " ".join(text.split())


OUTPUTS = {name: Output(name, **one) for name, one in _LISTED["outputs"].items()}
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


def human_nuggets(deduplicated: bool = False) -> pd.DataFrame:
    """The nuggets that people took from passages: ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

    It was not rated whether a nugget is vital, so ``importance`` is ``okay`` for all, and scores over vital nuggets are missing. 74 of the
    2,279 nuggets have the same text as another one of their turn. Only the first of these is kept, so 2,205 are left, many of which say the
    same in other words. 78 of the 116 judged turns have nuggets.

    Args:
        deduplicated: the 1,201 nuggets of the authors' deduplicated file instead. Their numbers are those of the full file.
    """
    file = "gold_nuggets_human_deduplicated.json" if deduplicated else "gold_nuggets_human.json"
    return _nuggets_of(file).drop_duplicates(["qid", "nugget"], ignore_index=True)


def _nuggets_of(file: str) -> pd.DataFrame:
    rows = [
        (qid, name.strip("[]"), " ".join(nugget["text"].split()), int(nugget["relevance"]), "okay")
        for qid, nuggets in _of_cone_rag(file).items()
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

    The labels are of the full file's nuggets, not of the deduplicated ones: equal nuggets of a turn have one label each. The names of the
    runs differ from those in :func:`system_responses`, and how they correspond isn't published.
    """
    rows = []
    for line in output_file(CONE_RAG, "human-study-matching-labels.txt").read_text(encoding="utf-8").splitlines():
        about, label = line.split("\t")
        _, conversation, turn, nugget, run = about.split("_", 4)
        rows.append((run, f"{conversation}_{turn}", nugget, "support" if int(label) else "not_support"))
    labels = _frame(rows, ("run", "qid", "number", "label"))
    nuggets = _nuggets_of("gold_nuggets_human.json").drop(columns="relevance")
    return labels.merge(nuggets, on=["qid", "number"], how="left", validate="many_to_one")


def _frame(rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return object_frame({name: [row[place] for row in rows] for place, name in enumerate(columns)})


def _of_cone_rag(name: str) -> dict[str, Any]:
    """The content of one of its JSON files, by turn."""
    found: dict[str, Any] = json.loads(output_file(CONE_RAG, name).read_text(encoding="utf-8"))
    return found
