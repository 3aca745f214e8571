"""One folder per system and topic set: everything that you need to inspect a run, evaluate it or continue it.

========================
==========================================================================================
``run.trec``              the ranking, scores strictly decreasing ``turns.jsonl``           one line
per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; if the
                          system ran Respond also ``response`` and ``used``, the passages that the
                          response is based on; a turn without passages has the response that stands
                          for no answer
``measures.csv``          one line per turn of the qrels, one column per measure: the track's and
those that were requested ``stages.jsonl.gz``       the work of each stage for each turn, with its
LLM calls, see below; a frame
                          written with ``RunFolder.write`` has none
``ledger.csv``            LLM calls, cache hits, failures, tokens, seconds and cost of this system,
per stage ``run.json``              method, expression, dataset, parameters, versions, notes, the
checksums of ``run.trec`` and ``measures.csv``,
                          and the number of rows of ``ledger.csv``; with it, a run is complete
========================
==========================================================================================

While a run is made, its batches are in ``NAME.partial``, where ``run.json`` has only the
parameters, and each finished batch of turns has ``N.run.trec``, ``N.stages.jsonl.gz``,
``N.ledger.json`` and ``N.turns.jsonl``. The last one means that the batch is done. ``costs.jsonl``
there has the costs, call by call, also of batches that were not finished. At the end the batches
are joined in a hidden folder, which then gets the run's name. A ``run.trec`` or ``measures.csv``
with another checksum, and a ``ledger.csv`` with fewer rows, is an error where it is read. Each
``response`` in ``turns.jsonl`` may be edited.

``stages.jsonl.gz`` has one JSON line per turn and stage, in the order of the turns, then of the
stages. A line has ``qid`` (the turn), ``stage`` and one or more of these:

===========
=======================================================================================================
``wrote``    column -> what the stage wrote there: rewrites, answers, statements, suggestions,
summaries, queries ``found``    what a retriever found: for each query ``qid``, ``query``,
``docnos`` (best first), ``scores``; for sub-queries
             also ``qsub`` and ``qweight``, and beside ``found`` the turn's own ``query``
``asked``    the LLM calls, cached ones too: for each ``messages`` and ``completion``, or
``failure``, which says why there is none;
             ``prompt`` and ``item``, if present, name the template and the part of the turn that it
             was about
``scored``   the output of a re-ranker: for each query ``qid``, ``query``, ``docnos`` (in the order
of its input) and ``scores`` ===========
=======================================================================================================

Scores have six decimals. Each turn is a separate member of the gzip file, so the file doesn't
depend on the size of the batches.
"""

import gzip
import hashlib
import json
import platform
import re
import shutil
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import by_position, is_missing
from ..conversations.frame import column, each_turn_once
from ..errors import DataError, UsageError, advice, counted, list_first, option
from ..order import in_trec_eval_order
from ..order import strictly_decreasing as strictly_decreasing  # also exported from here
from ..store.files import atomic_write, read_lines
from ..store.trec import read_rankings
from .log import Log

PER_TURN = (
    *("qid", "qutterance", "qresolved", "qrewrite", "qanswer", "qdraft"),
    *(
        "qsubqueries",
        "qfound",
        "qweights",
        "qstatements",
        "qptkb",
        "qlearned",
        "qaction",
        "qaskback",
        "qcitations",
    ),
)


def write_run(results: pd.DataFrame, path: str | Path, name: str = "ikat") -> None:
    r"""Write a TREC run file, atomically.

    Args:
        results: a result frame (``qid``, ``docno``, ``score``, ``rank``); see
            :func:`~pyterrier_ikat.order.strictly_decreasing`.
        path: the file.
        name: the run's name, the last column. White space in it becomes ``_``.

    Raises:
        DataError: when the ranking is not clean, the name is empty, or a qid or docno is empty or
            has white space, which would look like a column separator.

    Example:
        >>> import pandas as pd
        >>> write_run(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.5], "rank": [0]}), "one.trec")
        >>> open("one.trec").read()
        '1_1 Q0 a 1 1.5 ikat\n'
    """
    with atomic_write(path) as file:
        file.writelines(run_lines(strictly_decreasing(results), name))


def run_lines(strict: pd.DataFrame, name: str) -> Iterator[str]:
    """The lines of a run file, of a ranking from :func:`strictly_decreasing`; see :func:`write_run`."""
    name = "_".join(name.split())
    for column_name, found in (
        ("name", [name]),
        ("qid", strict["qid"].unique()),
        ("docno", strict["docno"].unique()),
    ):
        for value in found:
            if not isinstance(value, str) or value.split() != [value]:
                raise DataError(
                    f"{value!r} can't be a {column_name} of a run file: give a text without white space"
                )
    scores = map(_shortest, strict["score"].to_numpy(dtype=np.float32).astype(str).tolist())
    for qid, docno, rank, score in zip(
        strict["qid"], strict["docno"], strict["rank"], scores, strict=True
    ):
        yield f"{qid} Q0 {docno} {rank + 1} {score} {name}\n"


def _shortest(score: str) -> str:
    """A 32-bit score in digits alone; numpy writes them all at once in half the time, but the greatest and the least with an exponent."""
    return (
        np.format_float_positional(np.float32(score), trim="-")
        if "e" in score
        else score.removesuffix(".0")
    )


def read_run(path: str | Path) -> pd.DataFrame:
    r"""Read a TREC run file, which may be compressed with gzip.

    Returns:
        A result frame with ``qid``, ``docno``, ``score``, ``rank`` (from 0), in the order of
        :func:`in_trec_eval_order`. The file's own ranks and the order of its lines are ignored.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line does not have six
            fields, a score is not a finite number, or a passage occurs twice for a turn.

    Example:
        >>> _ = open("run.trec", "w").write("1_1 Q0 a 1 2.5 x\n")
        >>> read_run("run.trec").values.tolist()
        [['1_1', 'a', 2.5, 0]]
    """
    return ranking_frame(read_rankings(path))


def ranking_frame(by_turn: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Rankings (turn -> passage -> score) as a result frame, in trec_eval's order."""
    scores = chain.from_iterable(map(dict.values, by_turn.values()))
    columns = {"qid": np.repeat(column(by_turn).to_numpy(), list(map(len, by_turn.values())))}
    columns |= {
        "docno": column(chain.from_iterable(by_turn.values())),
        "score": np.fromiter(scores, dtype=np.float64),
    }
    return in_trec_eval_order(pd.DataFrame(columns))


def as_json(value: Any) -> Any:
    """A cell as a JSON value: arrays and tuples become lists, and numpy's numbers become Python's.

    Example:
        >>> as_json((np.array([1, 2]), {"a": np.float64(0.5)}))
        [[1, 2], {'a': 0.5}]
    """
    if isinstance(value, np.ndarray | np.generic | pd.Series):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    return value


def chosen_statements(qid: str, chosen: Any) -> list[tuple[str, float]]:
    """The statements that were chosen for a turn, as (id, score), best first. A cell without a value has none.

    Raises:
        DataError: when it is not a list, tuple or array of (id, score).

    Example:
        >>> chosen_statements("9-1_3", np.array([("10", 0.5), (2, 0.25)], dtype=object))
        [('10', 0.5), ('2', 0.25)]
    """
    pairs = [] if is_missing(chosen) else as_json(chosen)
    try:
        if any(
            not isinstance(pair, list) or not isinstance(pair[0], str | int) for pair in pairs
        ) or isinstance(pairs, str | dict):
            raise TypeError
        return [(str(name), float(score)) for name, score in pairs]
    except (TypeError, ValueError, IndexError):
        raise DataError(
            f"turn {qid}: qstatements is {chosen!r}; give a list of (id, score), best first"
        ) from None


def used_marks(results: pd.DataFrame) -> list[bool]:
    """For each passage, whether the response is based on it, from the column ``used``. A missing mark means no.

    Raises:
        DataError: when a mark is not True, False, 1 or 0; it names turn and passage.

    Example:
        >>> used_marks(pd.DataFrame({"qid": ["9-1_3"] * 3, "docno": ["a", "b", "c"], "used": [1.0, None, 0.0]}))
        [True, False, False]
    """
    marks = results["used"].tolist()
    for place, mark in enumerate(marks):
        if not (is_missing(mark) or (isinstance(mark, Real | np.bool_) and mark in (0, 1))):
            passage = (
                f", passage {results['docno'].iloc[place]}" if "docno" in results.columns else ""
            )
            told = f"turn {results['qid'].iloc[place]}{passage}: used is {mark!r}, neither true nor false"
            raise DataError(
                f'{told}: give True or False, as frame["used"].map({{"True": True, "False": False}}) makes of texts'
            )
    return [not is_missing(mark) and bool(mark) for mark in marks]


def response_column(frame: pd.DataFrame) -> str:
    """The column of the responses: ``response`` as in ``turns.jsonl``, where ``qanswer`` is the draft, else ``qanswer``.

    Example:
        >>> response_column(pd.DataFrame(columns=["qid", "qanswer", "response"]))
        'response'
    """
    return "response" if "response" in frame.columns else "qanswer"


def checksum_of(frame: pd.DataFrame) -> str:
    """A checksum of a frame's rows."""
    digest, columns = hashlib.sha256(), frame.columns.tolist()
    for row in frame.itertuples(index=False, name=None):  # one at a time: histories are long
        digest.update(
            json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True, default=str).encode()
        )
    return digest.hexdigest()


def turn_lines(
    topics: pd.DataFrame, results: pd.DataFrame, abstention: str | None = None
) -> Iterator[str]:
    """A line for each turn, in the order of the topics.

    Args:
        topics: the turns that were asked.
        results: the ranking, with the columns of the turns.
        abstention: the response to a turn without passages, if others have a response; None: it has
            none.

    Raises:
        DataError: when a turn occurs twice in the topics, the results have others, or chosen
            statements are no list of (id, score).
    """
    topics = by_position(topics)
    results = by_position(results)
    each_turn_once(topics)
    known = set(topics["qid"])
    if lost := [str(qid) for qid in results["qid"].unique() if qid not in known]:
        raise DataError(
            f"the results have {counted(len(lost), 'turn')} that the topics lack ({list_first(lost)}), whose responses would be lost: give "
            "all topics that the system was run on, and join the sub-queries first (Interleave, Union, RRF, RerankAgainst)"
        )
    counts, found = (
        results["qid"].value_counts(),
        {row["qid"]: row for row in _rows(results.drop_duplicates("qid"))},
    )
    used: dict[str, list[str]] = {}
    if "used" in results:
        used = {qid: [] for qid in results["qid"].unique()}
        based_on = results.loc[used_marks(results)].sort_values("rank", kind="stable")
        for qid, docno in zip(based_on["qid"], based_on["docno"], strict=True):
            used[qid].append(docno)
    for turn in _rows(topics):
        qid = turn["qid"]
        cells = found.get(qid, turn).items()
        shown = {
            name: chosen_statements(qid, value) if name == "qstatements" else as_json(value)
            for name, value in cells
        }
        if qid in used:
            shown |= {"response": shown.pop("qanswer", ""), "used": used[qid]}
        elif "used" in results and abstention is not None:
            shown |= {
                "response": abstention,
                "used": [],
            }  # an answer from before the retrieval stays a draft
        if "qdraft" in shown:
            shown["qanswer"] = shown.pop("qdraft")
        yield json.dumps(shown | {"passages": int(counts.get(qid, 0))}) + "\n"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    names = [name for name in PER_TURN if name in frame.columns]
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    return [
        {name: value for name, value in zip(names, row, strict=True) if not is_missing(value)}
        for row in rows
    ]


def read_stages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of stages, one at a time.

    Raises:
        DataError: when it can't be read.
    """
    try:
        with gzip.open(path) as file:
            yield from map(json.loads, file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{path} can't be read ({error}): repeat the run") from None


ENDING = ".partial"
"""How the name of an unfinished run's folder ends."""
COSTS = "costs.jsonl"
"""The costs of an unfinished run, call by call."""
RANKING, TURNS, STAGES = "run.trec", "turns.jsonl", "stages.jsonl.gz"
MEASURES, LEDGER = "measures.csv", "ledger.csv"
IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that are equal for all repeats of one system."""
OURS = "pyterrier_ikat"
PACKAGES = f"""
    {OURS} pyterrier pyterrier-pisa pyterrier-t5 pandas numpy torch transformers tokenizers
    sentence-transformers openvino ir-measures openai
""".split()
_DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")


class OtherVersionsWarning(UserWarning):
    """A run that is reused was made with other versions of its dependencies."""


class RunFolder:
    """The folder of one system's run.

    Args:
        path: the folder; its name is the run's name.

    Attributes:
        partial: where the run is while it is made.

    Example:
        >>> from pyterrier_ikat.runs import RunFolder
        >>> RunFolder("runs/aqd_a").complete
        False
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.partial = self.path.parent / (self.path.name.removesuffix(ENDING) + ENDING)

    @property
    def complete(self) -> bool:
        """Whether the folder holds a finished run."""
        return self.path.suffix != ENDING and (self.path / "run.json").is_file()

    @property
    def begun(self) -> bool:
        """Whether the folder holds finished batches of a run that is not finished."""
        return self.path.suffix == ENDING and bool(self.pieces(TURNS))

    def pieces(self, kind: str) -> list[Path]:
        """The files of one kind of the finished batches, in the order of the turns, while the run is not finished."""
        batches = sorted(self.partial.glob(f"[0-9]*.{TURNS}"))
        return [path.with_name(path.name.replace(TURNS, kind)) for path in batches]

    def check_finished(self) -> None:
        """Check that the folder holds a finished run.

        Raises:
            DataError: when it doesn't.
        """
        if not self.complete:
            raise self.no_run()

    def no_run(self) -> DataError:
        """The error for a folder that isn't a finished run."""
        if Log.is_in(self.path):
            shown = advice("ikat.show.report", "`ikat report`")
            return DataError(
                f"{self.path} holds {Log(self.path).kind}, not the run of a dataset's topics: {shown} shows it"
            )
        stopped = ". It was stopped: start it again with the same command, or omit it"
        return DataError(
            f"{self.path} is not a finished run{stopped if self.path.suffix == ENDING else ': give a folder made by `ikat run`'}"
        )

    def parameters(self) -> dict[str, Any]:
        """The parameters of the run, which is finished or has finished batches.

        Raises:
            DataError: when ``run.json`` cannot be read.
        """
        if not self.begun:
            self.check_finished()
        return read_parameters(self.path)

    def turns_so_far(self) -> list[str]:
        """The turns that the run, or its finished batches, were asked."""
        if not self.begun:
            return [turn["qid"] for turn in self.turns()]
        return [turn["qid"] for path in self.pieces(TURNS) for _, turn in read_lines(path)]

    def results_so_far(self) -> pd.DataFrame:
        """The ranking of the run, or of its finished batches, as a frame."""
        if not self.begun:
            return self.results()
        ranking: dict[str, dict[str, float]] = {}
        for path in self.pieces(RANKING):
            if path.stat().st_size:
                ranking.update(read_rankings(path))
        return ranking_frame(ranking)

    def ranking(self) -> dict[str, dict[str, float]]:
        """The scores: turn -> passage -> score, best first. It has no turn if the system found nothing.

        Raises:
            DataError: when ``run.trec`` can't be read, or isn't the file that was written.
        """
        path, known = self.path / RANKING, self.parameters()
        if not path.is_file() or known.get("sha256") != checksum(path):
            raise DataError(
                f"{path} is not the file that this run wrote, or its run.json is that of another run (it was cut, changed or removed): "
                "put the right one back, or remove the folder to repeat the run"
            )
        return read_rankings(path) if path.stat().st_size else {}

    def results(self) -> pd.DataFrame:
        """The ranking as a frame: ``qid``, ``docno``, ``score``, ``rank``.

        Raises:
            DataError: as for :meth:`ranking`.
        """
        return ranking_frame(self.ranking())

    def turns(self) -> list[dict[str, Any]]:
        """The line of ``turns.jsonl`` for each turn.

        Raises:
            DataError: when the file is missing, or a line is not a turn.
        """
        self.check_finished()
        path, found = self.path / TURNS, []
        try:
            for line in filter(str.strip, path.read_text(encoding="utf-8").split("\n")):
                found.append(json.loads(line))
        except ValueError as error:
            raise DataError(
                f"{path}, line {len(found) + 1}: not JSON ({error}): repeat the run"
            ) from None
        except OSError as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None
        for place, turn in enumerate(found, 1):
            if (
                not isinstance(turn, dict)
                or not isinstance(turn.get("qid"), str)
                or not isinstance(turn.get("response", ""), str)
            ):
                raise DataError(
                    f"{path}, turn {place}: no object with a qid and, if it has a response, a text: repair it"
                )
        return found

    def stages(self) -> Iterator[dict[str, Any]]:
        """The work of each stage: a dict per turn and stage. See the module.

        Raises:
            DataError: when ``stages.jsonl.gz`` can't be read.
        """
        return read_stages(self.path / STAGES)

    def measures(self) -> pd.DataFrame:
        """The scores of each turn: index ``qid``, a column per measure.

        Raises:
            DataError: when ``measures.csv`` can't be read, or isn't the file that was written.
        """
        path = self.path / MEASURES
        try:
            if self.parameters().get("measures_sha256") != checksum(path):
                raise ValueError("it is not the file that this run wrote: it was cut or changed")
            scores = pd.read_csv(path, dtype=str)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path} can't be read ({error}): the same `ikat run` writes it again, and repeats nothing else"
            ) from None
        return scores.set_index("qid").astype(
            float
        )  # converting texts gives exactly the written numbers

    def reusable(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the folder already holds the run with exactly these parameters. Other versions cause a warning.

        Raises:
            UsageError: when the folder holds another run, or anything else.
            DataError: when its ranking was changed.
        """
        if not self.complete:
            if (
                self.path.is_symlink()
                or self.path.is_file()
                or (self.path.is_dir() and any(self.path.iterdir()))
            ):
                raise UsageError(
                    f"{self.path} is not empty and holds no finished run: choose another {option('out')}, or remove it"
                )
            return False
        check_same(self.path, "a run", parameters)
        self.ranking()
        if differs := describe_difference(self.parameters(), {"versions": versions()}):
            warnings.warn(
                f"{self.path} is reused. It is a run with {differs}: remove it to repeat the run",
                OtherVersionsWarning,
                2,
            )
        return True

    def write(
        self,
        topics: pd.DataFrame,
        results: pd.DataFrame,
        measures: pd.DataFrame,
        ledger: pd.DataFrame,
        parameters: dict[str, Any],
    ) -> None:
        """Write a run that was made elsewhere. The folder is complete or absent.

        Raises:
            DataError: when the results have turns that the topics don't have, a turn occurs twice
                in the topics, the ranking is not clean, or chosen statements are no list of (id,
                score).
        """
        ranking = run_lines(
            strictly_decreasing(results), parameters.get("method") or self.path.name
        )
        files = {
            name: ["".join(lines).encode()]
            for name, lines in ((RANKING, ranking), (TURNS, turn_lines(topics, results)))
        }
        self.finish(files, measures, ledger, parameters | {"versions": versions()})

    def finish(
        self,
        files: Mapping[str, Iterable[bytes]],
        measures: pd.DataFrame,
        ledger: pd.DataFrame,
        parameters: Mapping[str, Any],
    ) -> None:
        """Make the finished run of the contents of its files, its scores, costs and parameters."""
        made = self.path.with_name(f".{self.path.name}.tmp")
        shutil.rmtree(made, ignore_errors=True)  # of a killed process
        for name, pieces in {**files, LEDGER: [ledger.to_csv(index=False).encode()]}.items():
            with atomic_write(made / name, "wb") as file:
                file.writelines(pieces)
        RunFolder(made).describe(
            measures, {**parameters, "ledger_rows": len(ledger), "sha256": checksum(made / RANKING)}
        )
        made.rename(self.path)  # replaces an empty folder

    def describe(self, measures: pd.DataFrame, parameters: Mapping[str, Any]) -> None:
        """Write scores and parameters."""
        with atomic_write(self.path / MEASURES) as file:
            file.write(measures.to_csv(index=False))
        write_parameters(
            self.path, {**parameters, "measures_sha256": checksum(self.path / MEASURES)}
        )


def check_same(folder: Path, held: str, wanted: Mapping[str, Any]) -> None:
    """Check that what a folder holds was made with the wanted parameters.

    Raises:
        UsageError: when it wasn't. The error names the differences.
        DataError: when the folder doesn't say what it was made with.
    """
    if differs := describe_difference(read_parameters(folder), wanted):
        raise UsageError(
            f"{folder} holds {held} with {differs}: choose another {option('out')}, or remove it"
        )


def read_parameters(folder: Path) -> dict[str, Any]:
    """What ``run.json`` in a folder says.

    Raises:
        DataError: when it can't be read.
    """
    try:
        return dict(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{folder} is not a finished run: {error}") from None


def write_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    """Replace ``run.json`` in a folder."""
    with atomic_write(folder / "run.json") as file:
        json.dump(parameters, file, indent=1)


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a run depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def describe_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The differences between ``found`` and ``wanted``, in words; empty if there are none. Of checksums only the names are shown.

    A run without failures has the same results with ``on_error=raise`` and ``fallback``.

    Example:
        >>> describe_difference({"depth": 10, "llms": {"llm": "a", "second": "c"}}, {"depth": 10, "llms": {"llm": "b", "second": "c"}})
        "different llms ({'llm': 'a'}, now {'llm': 'b'})"
        >>> describe_difference({"turns": 280, "batch": 128}, {"turns": 24, "batch": 64})
        'different turns, batch (turns: 280, now 24)'
        >>> describe_difference({"prompts": {"1 answer": "0123456789abcdef"}}, {"prompts": {"1 answer": "fedcba9876543210"}})
        'different prompts (1 answer)'
    """
    changed = [name for name, value in wanted.items() if found.get(name) != value]
    if "on_error" in changed:
        rules = found.get("on_error")
        if isinstance(rules, dict) and all(
            rules.get(model) in ("raise", rule) for model, rule in wanted["on_error"].items()
        ):
            changed.remove("on_error")
    if not changed:
        return ""
    names, before, now = [], found.get(changed[0]), wanted[changed[0]]
    if isinstance(before, dict) and isinstance(now, dict):
        names = [
            name for name in dict.fromkeys([*now, *before]) if before.get(name) != now.get(name)
        ]
        before, now = ({name: one[name] for name in names if name in one} for one in (before, now))
    values = ", ".join(names) if _DIGEST.search(f"{before} {now}") else f"{before!r}, now {now!r}"
    which = f"{changed[0]}: " if len(changed) > 1 else ""
    return f"different {', '.join(changed)}" + f" ({which}{values})" * bool(values)


def check_repeats(folders: Sequence[RunFolder]) -> None:
    """Check that run folders are repeats of one system.

    Raises:
        UsageError: when two of them differ in stages, models, prompts or topics.
        DataError: when one is not a finished run.
    """
    first = folders[0].parameters()
    for folder in folders[1:]:
        if differs := describe_difference(
            folder.parameters(), {name: first.get(name) for name in IDENTITY}
        ):
            paths = f"{folders[0].path} and {folder.path}"
            raise UsageError(
                f"{paths} are not repeats of one system: the second has {differs}; evaluate them alone"
            )
