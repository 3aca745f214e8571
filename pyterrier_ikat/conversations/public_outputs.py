"""Published outputs of language models on the track's turns. They are fetched from their authors, not shipped.

The lists of turns that others scored are facts, so they are here.

None of the three repositories states a licence. Each file is taken from its repository at a fixed
commit, with a checksum, or from the folder ``outputs`` in or next to the data folder.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, UsageError, advice, counted, list_first
from .download import SOURCES, data_file

FOLDER = "outputs"
Completions = dict[tuple[str, str, str | None], tuple[str, ...]]
"""Turn, stage and prompt (None: any) -> the samples."""

_LISTED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("public_outputs.json").read_text(encoding="utf-8")
)


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
    return {
        name: TurnList(one["source"], one["about"], tuple(one["turns"].split()))
        for name, one in known.items()
    }


@cache
def say(source: str) -> None:
    """Print once where the files that are used come from."""
    print(f"{FOLDER}/{source}: {whose(source)}", file=sys.stderr)


def output_file(source: str, name: str) -> Path:
    """The path of one of a source's files, fetched at its first use. Its origin is printed once.

    Raises:
        DataError: when it can't be fetched, see
            :func:`~pyterrier_ikat.conversations.download.data_file`.
    """
    try:
        path = data_file(f"{FOLDER}/{source}/{name}")
    except DataError as error:
        files = sum(one.startswith(f"{FOLDER}/{source}/") for one in SOURCES)
        raise DataError(
            f"{error}. The {files} files of {FOLDER}/{source} are {whose(source)}"
        ) from None
    say(source)
    return path


@dataclass(frozen=True)
class Output:
    """The completions of a language model for turns of 2023, which ``recorded:NAME`` replays.

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
            for stage, prompt, form in _LISTED["forms"][
                "with answer" if all(one.answer for one in written) else "rewrite alone"
            ]:
                if "{statements}" not in form or written[0].statements is not None:
                    found[qid, stage, prompt] = tuple(
                        form.format(**one._asdict()) for one in written
                    )
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
        count = (
            f"{len(lacking)} of the {counted(len(asked), 'turn')} ({list_first(sorted(lacking))})"
        )
        raise UsageError(
            f"recorded:{self.name} has no completion of {count}, but of {self.about}: {repair}"
        )


class Sample(NamedTuple):
    """What a model wrote. ``statements`` are those that it claims to use, in its words; None if it wasn't asked."""

    rewrite: str
    answer: str
    statements: str | None = None


def _samples(line: dict[str, Any]) -> tuple[str, list[Sample]]:
    """The turn in a line, and its rewrites with their answers. A rewrite of several lines becomes one line."""
    if "predicted_rewrite" in line:
        pairs = zip(line["predicted_rewrite"], line["predicted_response"], strict=True)
        return line["sample_id"], [
            Sample(_flat(rewrite), _flat(answer)) for rewrite, answer in pairs
        ]
    chosen = None if line.get("LLM_select") is None else _flat(line["LLM_select"])
    sample = Sample(_flat(line["rewrite_utt_text"]), _flat(line["response_utt_text"]), chosen)
    return "_".join(line["sample_id"].rsplit("-", 1)), [sample]


def read_parts(text: str) -> dict[str, str]:
    r"""The parts of a completion that was combined from the texts of a public output, each as its authors published it.

    Example:
        >>> read_parts("Response: Rooibos has none.\nQueries: 1. rooibos 2. mint")
        {'Response': 'Rooibos has none.', 'Queries': '1. rooibos 2. mint'}
    """
    found = {}
    for line in text.split("\n"):
        label, _, part = line.partition(": ")
        found[label] = part
    return found


def _flat(text: str) -> str:
    return " ".join(text.split())


OUTPUTS = {name: Output(name, **one) for name, one in _LISTED["outputs"].items()}
"""Name -> output, for ``recorded:NAME``."""
CHOSEN = "cfda-2025"
QUERIES = tuple(
    one.rpartition("/")[2] for one in SOURCES if one.startswith(f"{FOLDER}/{CHOSEN}/queries_")
)
"""The public files of queries: AdaRewriter's choices of ten rewrites (``npr``: without the response), and GPT-4o's single rewrites."""


def query_file(given: str) -> Path:
    """The path of a file of queries: a path, or a name of `QUERIES`, which is fetched at its first use."""
    path = Path(given).expanduser()
    return output_file(CHOSEN, given) if given in QUERIES and not path.is_file() else path


STUDIES = {
    "personalizedcir": "ptkb_none, ptkb_all, ptkb_human and ptkb_str, also with _queries behind the name, and ptkb_sar",
}
"""A study with an output for each of its methods, for ``recorded:STUDY`` -> these methods, in words."""


def listed() -> list[tuple[str, str]]:
    """The rows of ``ikat datasets``: the name and a description. The prompts of one study share a row."""
    one, *_, _, _ = OUTPUTS.values()
    prompts = ", ".join(
        name.removeprefix("personalizedcir-")
        for name in OUTPUTS
        if name.startswith("personalizedcir-")
    )
    rows = [
        (
            "recorded:personalizedcir-PROMPT",
            f"{one.model}: {one.about}, with each PROMPT of {prompts}; {whose(one.source)}",
        )
    ]
    given = (
        "queries that were chosen already, for best_of_n:queries=FILE or ikat.generate.GivenQueries"
    )
    rows += [(QUERIES[0], f"{given}; the same for {', '.join(QUERIES[1:])}; {whose(CHOSEN)}")]
    of_methods = "the prompt of each method of the study"
    rows += [(f"recorded:{name}", f"{of_methods}: {methods}") for name, methods in STUDIES.items()]
    rows += [
        (f"recorded:{out.name}", f"{out.model}: {out.about}; {whose(out.source)}")
        for out in list(OUTPUTS.values())[-2:]
    ]
    return rows
