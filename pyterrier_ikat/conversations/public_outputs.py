"""Published outputs of language models on the track's turns, fetched from their authors.

The lists of turns that others scored are facts, so they are here.

They are not shipped: none of the three repositories states a licence. Each file is taken from its
repository at a fixed commit, with a checksum, or from the folder ``outputs`` in or next to the data
folder.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, UsageError, advice, counted, list_first
from .download import SOURCES, data_file

OUTPUTS_FOLDER = "outputs"
Completions = dict[tuple[str, str, str | None], tuple[str, ...]]
"""Turn, stage and prompt (None: any) -> the samples."""


def _read_beside(name: str) -> dict[str, dict[str, Any]]:
    """Read a JSON file in the folder of this module."""
    content: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
    )
    return content


_LISTED = _read_beside("public_outputs.json")


def _urls_of(source: str) -> list[str]:
    """Return the addresses of the files of a folder of outputs."""
    prefix = f"{OUTPUTS_FOLDER}/{source}/"
    return [file.url for name, file in SOURCES.items() if name.startswith(prefix)]


def origin_of(source: str) -> str:
    """Return the origin of a source's files, and the work to cite.

    Example:
        >>> origin_of("cfda-2025")[:75]
        'from https://github.com/gyeozai/CFDA-TREC-iKAT2025 (commit 68884f9; it stat'
    """
    url = _urls_of(source)[0]
    owner, repository, commit = url.split("/")[3:6]
    where = f"https://github.com/{owner}/{repository} (commit {commit[:7]}; it states no licence)"
    return f"from {where}; cite {_LISTED['cite'][source]}"


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
    """Return the lists of turns by their names.

    Example:
        >>> {name: len(turn_list.turns) for name, turn_list in turn_lists().items()}
        {'irlab-2024': 103, 'responses-2024': 62, 'responses-2023': 73, 'judged-2023': 176}
    """
    lists = {}
    for name, entry in _read_beside("turn_lists.json").items():
        turns = tuple(entry["turns"].split())
        lists[name] = TurnList(entry["source"], entry["about"], turns)
    return lists


@cache
def print_origin(source: str) -> None:
    """Print the origin of the files in use, once."""
    print(f"{OUTPUTS_FOLDER}/{source}: {origin_of(source)}", file=sys.stderr)


def output_file(source: str, name: str) -> Path:
    """Return the path of one of a source's files, fetched at its first use.

    Its origin is printed once.

    Raises:
        DataError: when it can't be fetched, see
            :func:`~pyterrier_ikat.conversations.download.data_file`.
    """
    folder = f"{OUTPUTS_FOLDER}/{source}"
    try:
        path = data_file(f"{folder}/{name}")
    except DataError as error:
        origin = f"The {len(_urls_of(source))} files of {folder} are {origin_of(source)}"
        raise DataError(f"{error}. {origin}") from None
    print_origin(source)
    return path


@dataclass(frozen=True)
class Output:
    """The completions of a language model for turns of 2023, replayed by ``recorded:NAME``.

    A sample has a rewrite and, except for CHIQ, an answer: completions of the stages ``rewrite``
    and ``answer``. For the prompts ``rewrite_and_answer`` and ``reformulate_*``, the two are
    combined into one completion in the form that the prompt requires (``forms`` in
    ``public_outputs.json``: stage, prompt or null for any, form), and the name of the model says
    so. Each part is one line, which :func:`read_parts` reads. A sample without an answer is no
    completion of a prompt that asks for one. A rewrite of several lines is one line here, because
    its authors search with the whole text.

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
        """Return all samples, in the order of their files.

        Raises:
            DataError: when a file can't be fetched.
        """
        samples: dict[str, list[PublishedSample]] = {}
        for name in self.files:
            for line in output_file(self.source, name).read_text(encoding="utf-8").splitlines():
                qid, of_line = _samples(json.loads(line))
                samples.setdefault(qid, []).extend(of_line)
        completions: Completions = {}
        for qid, of_turn in samples.items():
            has_answers = all(sample.answer for sample in of_turn)
            forms = _LISTED["forms"]["with answer" if has_answers else "rewrite alone"]
            for stage, prompt, form in forms:
                if "{statements}" in form and of_turn[0].statements is None:
                    continue
                texts = [form.format(**sample._asdict()) for sample in of_turn]
                completions[qid, stage, prompt] = tuple(texts)
        return completions

    def check_turns(self, wanted_turns: set[str], output_turns: set[str]) -> None:
        """Check that the output has all turns of a run.

        Args:
            wanted_turns: the turns of a run.
            output_turns: the turns of the output.

        Raises:
            UsageError: naming the turns to give instead.
        """
        lacking = sorted(wanted_turns - output_turns)
        if not lacking:
            return
        repair = "give a dataset of 2023, such as ikat:2023-mini"
        if self.turns and wanted_turns & output_turns:
            repair = f"give {advice(f'turns={self.turns!r}', f'--turns {self.turns}')}"
        turns = (
            f"{len(lacking)} of the {counted(len(wanted_turns), 'turn')} ({list_first(lacking)})"
        )
        raise UsageError(
            f"recorded:{self.name} has no completion of {turns}, but of {self.about}: {repair}"
        )


class PublishedSample(NamedTuple):
    """The texts of one sample of a model.

    Attributes:
        rewrite: a rewrite of the utterance.
        answer: an answer; may be empty.
        statements: those that the model claims to use, in its words; None if it wasn't asked.
    """

    rewrite: str
    answer: str
    statements: str | None = None


def _samples(line: dict[str, Any]) -> tuple[str, list[PublishedSample]]:
    """Return the turn and the samples of a line, each text on one line."""
    if "predicted_rewrite" in line:
        samples = []
        texts = zip(line["predicted_rewrite"], line["predicted_response"], strict=True)
        for rewrite, answer in texts:
            samples.append(PublishedSample(_flat(rewrite), _flat(answer)))
        return line["sample_id"], samples
    statements = line.get("LLM_select")
    if statements is not None:
        statements = _flat(statements)
    sample = PublishedSample(
        _flat(line["rewrite_utt_text"]), _flat(line["response_utt_text"]), statements
    )
    conversation, turn = line["sample_id"].rsplit("-", 1)
    return f"{conversation}_{turn}", [sample]


def read_parts(text: str) -> dict[str, str]:
    r"""Return the parts of a completion combined from the texts of a public output.

    Each part is as its authors published it.

    Example:
        >>> read_parts("Response: Rooibos has none.\nQueries: 1. rooibos 2. mint")
        {'Response': 'Rooibos has none.', 'Queries': '1. rooibos 2. mint'}
    """
    parts = {}
    for line in text.split("\n"):
        label, _, part = line.partition(": ")
        parts[label] = part
    return parts


def _flat(text: str) -> str:
    return " ".join(text.split())


OUTPUTS = {name: Output(name, **fields) for name, fields in _LISTED["outputs"].items()}
"""Name -> output, for ``recorded:NAME``."""
SOURCE_OF_QUERIES = "cfda-2025"
QUERIES = tuple(
    name.rpartition("/")[2]
    for name in SOURCES
    if name.startswith(f"{OUTPUTS_FOLDER}/{SOURCE_OF_QUERIES}/queries_")
)
"""The public files of queries: AdaRewriter's choices of ten rewrites (``npr``: without the
response), and GPT-4o's single rewrites."""


def query_file(name: str) -> Path:
    """Return the path of a file of queries.

    Args:
        name: a path, or a name of `QUERIES`, which is fetched at its first use.
    """
    path = Path(name).expanduser()
    if name in QUERIES and not path.is_file():
        return output_file(SOURCE_OF_QUERIES, name)
    return path


STUDIES = {
    "personalizedcir": (
        "ptkb_none, ptkb_all, ptkb_human and ptkb_str, also with _queries behind the name, "
        "and ptkb_sar"
    ),
}
"""A study with an output for each of its methods, for ``recorded:STUDY`` -> its methods, in
words."""


def output_rows() -> list[tuple[str, str]]:
    """Return the rows of ``ikat datasets``: the name and a description.

    The outputs of one study share a row.
    """
    of_study = []
    others = []
    for output in OUTPUTS.values():
        if output.name.startswith("personalizedcir-"):
            of_study.append(output)
        else:
            others.append(output)
    first = of_study[0]
    prompts = ", ".join(output.name.removeprefix("personalizedcir-") for output in of_study)
    prompts_row = f"{first.model}: {first.about}, with each PROMPT of {prompts}"
    queries_row = (
        "queries that were chosen already, for best_of_n:queries=FILE or "
        f"ikat.generate.GivenQueries; the same for {', '.join(QUERIES[1:])}"
    )
    rows = [
        ("recorded:personalizedcir-PROMPT", f"{prompts_row}; {origin_of(first.source)}"),
        (QUERIES[0], f"{queries_row}; {origin_of(SOURCE_OF_QUERIES)}"),
    ]
    for name, methods in STUDIES.items():
        rows.append((f"recorded:{name}", f"the prompt of each method of the study: {methods}"))
    for output in others:
        description = f"{output.model}: {output.about}; {origin_of(output.source)}"
        rows.append((f"recorded:{output.name}", description))
    return rows
