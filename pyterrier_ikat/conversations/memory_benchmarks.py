"""Benchmarks of memories: LoCoMo, LongMemEval and the retrieval of AlpsBench, questions that need some statements. Nothing is shipped.

LoCoMo's file ``locomo10.json`` is in ``memory/`` in the data folder or beside it; otherwise it is downloaded from its authors. It may be
used for purposes that aren't commercial (CC BY-NC 4.0). A file of LongMemEval and a folder of AlpsBench are given by their path.

Sources: Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, ACL 2024 (arXiv 2402.17753); Wu et al.,
LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory, ICLR 2025 (arXiv 2410.10813); the repository
ThisIsCosine/AlpsBench.
"""

import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pandas as pd

from ..errors import DataError, UsageError
from .download import at_hand, data_file
from .frame import with_columns
from .ikat_dataset import IkatDataset, Qrels
from .json_files import Place, load_json
from .topics import Conversation, TopicTurn

NAME, LONGMEMEVAL, ALPSBENCH = "locomo:", "longmemeval:", "alpsbench:"
FILE = "memory/locomo10.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""As the numbers of the file are used in its authors' code; some harnesses swap single-hop and multi-hop."""
AGAIN = "fetch the file again"
LICENCE = "LoCoMo (Maharana et al., ACL 2024), from https://github.com/snap-research/locomo; licence CC BY-NC 4.0: no commercial use"
_ID = re.compile(r"D:?(\d+):(\d+)")


class MemoryBenchmark(IkatDataset):
    """Questions with evidence, each over turns that are the statements of ``qptkb``; the qrels are the evidence turns, all of label 1.

    ``get_topics("manual")`` also has the question's category in ``qcategory``, for evaluation.
    """

    measures = ("R@5", "nDCG@10", "Success@5", "Success@5 by session")

    @property
    def conversations(self) -> list[Conversation]:
        """The questions of each conversation; those without evidence are left out."""
        return [one.questions for one in self._read() if one.questions.turns]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The questions with ``qptkb``; with ``"manual"`` also ``qcategory``."""
        frame = super().get_topics(variant)
        if variant is None:
            return frame
        categories = {qid: category for one in self._read() for qid, category in one.categories.items()}
        return with_columns(frame, qcategory=[categories[qid] for qid in frame["qid"]])

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> NoReturn:
        raise DataError(
            f"{self.name} has no collection: the turns of each conversation are its statements, which ikat.ListStatements() lists"
        )

    @abstractmethod
    def _read(self) -> list["Chat"]:
        """The conversations of the file."""

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


class LocomoDataset(MemoryBenchmark):
    """The questions of LoCoMo with evidence, each over the turns of its conversation, which are the statements of ``qptkb``.

    A statement is ``SPEAKER: TEXT [CAPTION OF THE IMAGE]``. Its id is that of the turn, ``D1:3``: turn 3 of session 1. ``qfacts`` has the
    facts that a model of the authors extracted from the turns: ``D1:3%p0`` is a fact from ``D1:3``, see
    :class:`~pyterrier_ikat.SourceTurns`. The qrels are the evidence turns, all of label 1. ``get_topics("manual")`` also has the
    question's category in ``qcategory``, for evaluation.

    Known errors of the data: an audit found 99 wrong answers among the 1,540 that aren't adversarial, so judge retrieval first. The answer
    of an adversarial question is none; the evidence is the turn that it misquotes. Ids of evidence with slips are cleaned: see
    :attr:`slips`.
    """

    name = NAME
    summary = (
        "1,982 questions on 10 long conversations of LoCoMo, whose 5,882 turns are the statements, with evidence turns as qrels and "
        "extracted facts; CC BY-NC 4.0"
    )

    @property
    def slips(self) -> dict[str, int]:
        """How many entries of evidence are written in another form than ``D1:3``, or name no turn, by form; the latter are left out."""
        return dict(sum((one.slips for one in self._read()), Counter()))

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The questions with ``qptkb`` and ``qfacts``; with ``"manual"`` also ``qcategory``."""
        frame, facts = super().get_topics(variant), {one.questions.number: one.facts for one in self._read()}
        return with_columns(frame, qfacts=[facts[name] for name in frame["qconversation"]])

    def info_url(self) -> str:
        """The authors' page."""
        return "https://github.com/snap-research/locomo"

    def _read(self) -> list["Chat"]:
        if at_hand(FILE) is None:
            print(LICENCE, file=sys.stderr)
        path = data_file(FILE)
        return read_chats(path, path.stat().st_mtime_ns)


class LongMemEvalDataset(MemoryBenchmark):
    """A file of LongMemEval, such as ``longmemeval_s.json``: each question over the user's turns in many sessions with an assistant.

    As in the authors' code of retrieval, the statements are the turns of the user, and the evidence is those with ``has_answer``. Questions
    without such a turn are omitted. The id of a statement is the session's id and the turn's number in it from 1, such as
    ``answer_4be1b6b4_1:3``. Dates are not read. The ``qid`` is the question's id and ``_1``. It was tested on hand-made files of the
    published form, not on the real ones.

    Args:
        path: the file, in JSON.

    Raises:
        UsageError: when there is no file.
    """

    summary = "a file of LongMemEval"

    def __init__(self, path: str | Path):
        self._path = Path(path).expanduser().absolute()
        self.name = f"{LONGMEMEVAL}{self._path}"
        if not self._path.is_file():
            raise UsageError(f"no file {path!s}: give a file of LongMemEval by its path, as in {LONGMEMEVAL}data/longmemeval_s.json")

    def info_url(self) -> str:
        """The authors' page."""
        return "https://github.com/xiaowu0162/LongMemEval"

    def _read(self) -> list["Chat"]:
        return read_chats(self._path, self._path.stat().st_mtime_ns, "LongMemEval")


class AlpsBenchDataset(MemoryBenchmark):
    """The retrieval of AlpsBench (its task 3): each question over a user's memory and 100 to 1000 distractors.

    The statements are the values of the candidate memories; an id that several of them have gets a number, ``m1#2``. The evidence is the
    selected memory. The ``qid`` is the benchmark's id and ``_1``. It was tested on hand-made files of the published form, not on the real
    ones.

    Args:
        folder: a folder of a split that has references, such as ``benchmark_data/dev/task3/d100``: ``model_input.jsonl`` and
            ``reference_output.jsonl``.

    Raises:
        UsageError: when a file is not there.
    """

    summary = "a folder of AlpsBench's retrieval"

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser().absolute()
        self.name = f"{ALPSBENCH}{self._folder}"
        for file in ("model_input.jsonl", "reference_output.jsonl"):
            if not (self._folder / file).is_file():
                repair = f"give a folder of task 3 that has references, as in {ALPSBENCH}benchmark_data/dev/task3/d100"
                raise UsageError(f"no file {file} in {folder!s}: {repair}")

    def info_url(self) -> str:
        """The authors' page."""
        return "https://github.com/ThisIsCosine/AlpsBench"

    def _read(self) -> list["Chat"]:
        gold, found = {row.get("benchmark_id"): row.get("gold") or {} for _, row in self._rows("reference_output.jsonl")}, list[Chat]()
        for place, row in self._rows("model_input.jsonl"):
            try:
                found.append(_alpsbench(row, gold[row["benchmark_id"]]))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                place.fail(f"not a question of AlpsBench's task 3 with a reference ({type(error).__name__}: {error})", AGAIN)
        return found

    def _rows(self, file: str) -> Iterator[tuple[Place, dict[str, Any]]]:
        for number, line in enumerate((self._folder / file).read_text(encoding="utf-8").strip().split("\n"), 1):
            place = Place(self._folder / file).at(f"line {number}")
            row = load_json(line, place, "not JSON", AGAIN)
            if not isinstance(row, dict):
                place.fail("not an object", AGAIN)
            yield place, row


class Chat(NamedTuple):
    """One conversation: its questions over its turns, the facts by id, the category of each question, and the slips in its evidence."""

    questions: Conversation
    facts: dict[str, str]
    categories: dict[str, str]
    slips: Counter[str]


@lru_cache(maxsize=2)
def read_chats(path: Path, changed: int, form: str = "LoCoMo") -> list[Chat]:
    """The conversations of a file.

    Args:
        path: the file.
        changed: its time of change; a changed file is read again.
        form: ``"LoCoMo"`` or ``"LongMemEval"``, where each question has a conversation of its own.

    Raises:
        DataError: naming the file and the conversation, when something is missing or of another form.
    """
    place, found = Place(path), list[Chat]()
    samples = load_json(path.read_text(encoding="utf-8"), place, "not JSON", AGAIN)
    for number, sample in enumerate(samples if isinstance(samples, list) else [samples], 1):
        try:
            found.append(_READERS[form](sample))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            place.at(f"conversation {number}").fail(f"not a conversation of {form} ({type(error).__name__}: {error})", AGAIN)
    return found


def _locomo(sample: Mapping[str, Any]) -> Chat:
    name, categories, slips, questions = str(sample["sample_id"]), dict[str, str](), Counter[str](), list[TopicTurn]()
    turns = {
        turn["dia_id"]: _statement(turn) for session in sample["conversation"].values() if isinstance(session, list) for turn in session
    }
    for number, asked in enumerate(sample["qa"], 1):
        evidence = tuple(dict.fromkeys(_evidence(asked["evidence"], turns, slips)))
        if evidence:
            qid, answer = f"{name}_{number}", str(asked.get("answer", ""))
            questions.append(TopicTurn(number, asked["question"], answer, passages=evidence, qid=qid, history=()))
            categories[qid] = CATEGORIES[asked["category"]]
    return Chat(Conversation(name, ptkb=turns, turns=tuple(questions)), dict(_facts(sample["observation"], turns)), categories, slips)


def _statement(turn: Mapping[str, str]) -> str:
    return f"{turn['speaker']}: {turn['text']}" + (f" [{turn['blip_caption']}]" if turn.get("blip_caption") else "")


def _evidence(written: list[str], turns: Mapping[str, str], slips: Counter[str]) -> Iterator[str]:
    """The turns that entries name; an entry that isn't the id of a turn is counted by its form."""
    for entry in written:
        ids = ids_in(entry)
        if entry not in turns:
            slips["no such turn" if not turns.keys() >= {*ids} or not ids else "several ids" if len(ids) > 1 else "misspelt id"] += 1
        yield from (one for one in ids if one in turns)


def ids_in(entry: str) -> list[str]:
    """The ids of turns in an entry of evidence, whose slips are colons and zeros too many, and several ids in one text.

    Example:
        >>> ids_in("D8:6; D9:17"), ids_in("D:11:26"), ids_in("D30:05"), ids_in("D")
        (['D8:6', 'D9:17'], ['D11:26'], ['D30:5'], [])
    """
    return [f"D{int(session)}:{int(turn)}" for session, turn in _ID.findall(entry)]


def _facts(observation: Mapping[str, Any], turns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each fact once for each turn that it comes from."""
    count = Counter[str]()
    for text, sources in (fact for speakers in observation.values() for facts in speakers.values() for fact in facts):
        for source in ids_in(" ".join(sources) if isinstance(sources, list) else sources):
            if source in turns:
                yield f"{source}%p{count[source]}", text
                count[source] += 1


def _longmemeval(asked: Mapping[str, Any]) -> Chat:
    name, turns, evidence = str(asked["question_id"]), dict[str, str](), list[str]()
    for session, said in zip(asked["haystack_session_ids"], asked["haystack_sessions"], strict=True):
        for number, turn in enumerate(said, 1):
            if turn["role"] == "user":
                place, text = f"{session}:{number}", str(turn["content"])
                if turns.setdefault(place, text) != text:
                    raise ValueError(f"two sessions have the id {session}")
                evidence += [place] * (turn.get("has_answer") is True)
    question = TopicTurn(1, asked["question"], str(asked["answer"]), passages=tuple(dict.fromkeys(evidence)), qid=f"{name}_1", history=())
    questions = Conversation(name, ptkb=turns, turns=(question,) if evidence else ())
    return Chat(questions, {}, {question.qid: str(asked["question_type"])}, Counter())


def _alpsbench(asked: Mapping[str, Any], gold: Mapping[str, Any]) -> Chat:
    name, statements, evidence = str(asked["benchmark_id"]), dict[str, str](), list[str]()
    selected, value = gold["selected_memory_id"], (gold.get("selected_memory") or {}).get("value")
    count = Counter[str]()
    for memory in asked["input"]["candidate_memories"]:
        count[memory["memory_id"]] += 1
        number = count[memory["memory_id"]]
        place = memory["memory_id"] + f"#{number}" * (number > 1)
        statements[place] = str(memory["value"])
        evidence += [place] * (memory["memory_id"] == selected and value in (None, memory["value"]))
    if not evidence:
        raise ValueError(f"no candidate is the selected memory {selected}")
    question = TopicTurn(1, asked["input"]["query"], "", passages=tuple(evidence), qid=f"{name}_1", history=())
    categories = {question.qid: str(asked.get("stratum", "UNKNOWN"))}
    return Chat(Conversation(name, ptkb=statements, turns=(question,)), {}, categories, Counter())


_READERS = {"LoCoMo": _locomo, "LongMemEval": _longmemeval}
