"""Cost of the LLM calls of systems: as a frame, and as a table for a paper."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..completions.reasoning import without_reasoning
from ..completions.usable import is_refusal
from ..errors import UsageError, advice
from ..evaluation.scores import natural_key
from ..llms import Ledger
from ..llms.failures import REFUSED
from ..llms.ledger import account_table
from ..methods.definition import model_key
from ..runs import RunFolder
from ..runs.folder import STAGES_FILE
from ..runs.log import PLAYERS, Log
from ..study.recorder import ledger_of
from ..tables import Table

LedgerSource: TypeAlias = str | Path | RunFolder | Ledger
"""A run folder, or the account of language models."""
Ledgers: TypeAlias = Sequence[str | Path | RunFolder] | Mapping[str, LedgerSource]
"""Run folders, or a dict name -> run folder or ``Ledger``."""

_COST = "Cost: what was paid, over all starts of a run."
_WORTH = "Worth: what the calls would have cost that the cache answered."
_NUMBER_OF_TURN = re.compile(r"(_|<::>)\d+$")
"""The end of the id of a turn, in iKAT and in MTRAG."""
_SUMS = {"cost": "paid", "worth": "known"}

NO_CALLS = "none"
"""Stage and model of a system without LLM calls."""
ALL_STAGES = "all"
"""Stage and model of the calls of a conversation: its log has the costs of each turn alone."""
OF_PLAYERS = "user and judge"
"""Stage of the calls of a simulated user and its judge."""
NOT_LOGGED = ("retries", "failures", "fallbacks", "dropped", "lost_tokens", "seconds")
"""The columns that the log of a conversation doesn't have."""


def ledger_frame(ledgers: Ledgers) -> pd.DataFrame:
    """The accounts of several systems in one frame.

    Args:
        ledgers: folders made by ``ikat run``, ``ikat simulate`` or ``ikat interact``, including
            ``NAME.partial`` of a stopped run; the systems get the names of the folders. Or a dict
            name -> folder or ``Ledger``. The log of a conversation has only the costs of each turn,
            so its stage and model are ``all``.

    Returns:
        ``system``, ``stage``, ``model`` and the columns of :class:`~pyterrier_ikat.llms.Ledger`;
        ``pd.NA`` = unknown. A system without LLM calls has one row of zeros, with the stage and
        model ``none``.

    Raises:
        UsageError: when there is none, or two have the same name.
        DataError: when a folder doesn't have a run, or its ledger can't be read.

    Example:
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2, cost=0.25)
        >>> frame = ledger_frame({"raw": Ledger(), "QR": spent})
        >>> frame[["system", "stage", "calls", "cost"]].values.tolist()
        [['raw', 'none', 0, 0.0], ['QR', 'rewrite', 2, 0.25]]
    """
    if isinstance(ledgers, str | Path | RunFolder):
        path = str(_folder(ledgers).path)
        raise UsageError(f"give a list of run folders: [{path!r}]")
    idle = Ledger()
    idle.count(NO_CALLS, NO_CALLS, calls=0)
    accounts: dict[str, pd.DataFrame] = {}
    for name, source in _named(ledgers):
        if name in accounts:
            repair = advice("give each its name, {name: folder, ...}", "rename a folder")
            raise UsageError(f"two ledgers are named {name}: {repair}")
        account = source.frame() if isinstance(source, Ledger) else read_ledger(_folder(source))
        if account.empty:
            account = idle.frame()
        account.insert(0, "system", name)
        accounts[name] = account
    if not accounts:
        raise UsageError("there is no ledger: give at least one run folder")
    return pd.concat(accounts.values(), ignore_index=True)


def _named(ledgers: Ledgers) -> list[tuple[str, LedgerSource]]:
    """The ledgers with their names; a folder has its own."""
    if isinstance(ledgers, Mapping):
        return list(ledgers.items())
    return [(_folder(source).path.resolve().name, source) for source in ledgers]


def ledger(ledgers: Ledgers) -> Table:
    """Tabulate the cost of the systems' LLM calls: a row per system, stage and model.

    Args:
        ledgers: see :func:`ledger_frame`.

    Returns:
        The table, in LaTeX, Markdown and CSV. It shows retries, failures and the like only if there
        are any. The notes name the others, and give the total of all systems. The frame behind the
        table has all columns.

    Raises:
        UsageError: when there is none, or two have the same name.
        DataError: when a folder holds no finished run, or its ledger can't be read.

    Example:
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2, prompt_tokens=None, seconds=1.25, cost=None)
        >>> print(ledger({"QR": spent}).markdown().splitlines()[2])
        | QR | rewrite | gpt-4o | 2 | – | 0 | 1.2 | – |
    """
    frame = ledger_frame(ledgers)
    notes = ["All turns together; seconds: the time of the calls added up."]
    if (frame["stage"] == ALL_STAGES).any():
        notes.append(
            f"{ALL_STAGES}: a conversation's log adds up a system's stages. "
            f"{OF_PLAYERS}: the models that played and judged."
        )
    notes += _refused(ledgers, frame)
    notes += _on_money(frame)
    table = account_table(frame, notes)
    table.label = "cost"
    return table


def _on_money(frame: pd.DataFrame) -> list[str]:
    """A note on what the cache has saved, or that this is unknown; none where it saved nothing."""
    if (frame["worth"] == 0).fillna(False).all():
        return []
    if (frame["worth"].fillna(0) == 0).all():  # then there is no column of it
        paid = _format_sum(frame["cost"])
        return [
            f"{_COST} Together: paid {paid}. "
            "What the calls would have cost that the cache answered is unknown."
        ]
    sums = ", ".join(f"{title} {_format_sum(frame[name])}" for name, title in _SUMS.items())
    return [f"{_COST} {_WORTH} Together: {sums}."]


def refusals(folder: str | Path | RunFolder) -> pd.DataFrame:
    """Count the calls of a run that the model or the provider's filter refused, by conversation.

    Some topics meet more resistance than others: De Lima and Yang, Passage Query Methods, section
    4.1, on iKAT 2024's topic 16.

    Returns:
        ``conversation``, ``asked`` (its calls), ``refused``. Conversations without a refusal are
        omitted.

    Raises:
        DataError: when the folder has no stages.

    Example:
        >>> class Shy:
        ...     def generate(self, chats):
        ...         return ["I'm sorry, but I can't help with that."] * len(chats)
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> data, llm = pt.get_dataset("ikat:sample"), ikat.llm(Shy(), on_error="fallback")
        >>> bm25 = ikat.PassageIndex("sample.index").index(data.get_corpus_iter()).bm25()
        >>> turns = ["1-1_1", "2-1_1", "2-1_2"]
        >>> _ = ikat.run({"qr": ikat.Rewrite(llm) >> bm25}, "ikat:sample", out="runs", turns=turns)
        >>> refusals("runs/qr").values.tolist()
        [['1-1', 1, 1], ['2-1', 2, 2]]
    """
    asked = Counter[str]()
    refused = Counter[str]()
    for stage in _folder(folder).stages():
        conversation = _NUMBER_OF_TURN.sub("", stage["qid"])
        calls = stage.get("asked", [])
        asked[conversation] += len(calls)
        refused[conversation] += sum(map(_is_refused, calls))
    rows = []
    for conversation in sorted(refused, key=natural_key):
        if refused[conversation]:
            rows.append((conversation, asked[conversation], refused[conversation]))
    return pd.DataFrame(rows, columns=["conversation", "asked", "refused"])


def _is_refused(call: Mapping[str, Any]) -> bool:
    """Whether the server or the model refused; the server reports the model's words as normal."""
    failure = str(call.get("failure", ""))
    if failure.startswith(REFUSED):
        return True
    return is_refusal(without_reasoning(call.get("completion", "")))


def _refused(ledgers: Ledgers, frame: pd.DataFrame) -> list[str]:
    """The refused calls of finished runs by conversation, if a ledger has failures."""
    failing = set(frame.loc[frame["failures"].fillna(0) > 0, "system"])
    notes = []
    for name, source in _named(ledgers):
        if name not in failing or isinstance(source, Ledger):
            continue
        if not (_folder(source).path / STAGES_FILE).exists():
            continue
        rows = refusals(source).itertuples(index=False)
        numbers = [f"{row.conversation} {row.refused} of {row.asked}" for row in rows]
        if numbers:
            notes.append(f"Refused calls of {name} by conversation: {', '.join(numbers)}.")
    return notes


def _format_sum(values: "pd.Series[Any]") -> str:
    total = values.sum(skipna=False)
    return "unknown" if pd.isna(total) else f"{total:,.4f}"


def _folder(source: str | Path | RunFolder) -> RunFolder:
    return source if isinstance(source, RunFolder) else RunFolder(source)


def read_ledger(folder: RunFolder) -> pd.DataFrame:
    """The account of a run folder or of a log of conversations, like ``Ledger.frame``.

    Raises:
        DataError: when the folder holds no run, or its ledger can't be read.
    """
    if Log.is_in(folder.path):
        return _of_conversations(Log(folder.path))
    if not folder.complete and not folder.partial.is_dir():
        raise folder.not_finished_error()
    return ledger_of(folder).frame()


def _of_conversations(log: Log) -> pd.DataFrame:
    """The account of a log of conversations, which has the costs of each turn, but no stages."""
    account = Ledger()
    for dialogue in log.dialogues():
        for turn in dialogue.turns:
            spent: dict[str, Any] = {**asdict(turn.spend), **dict.fromkeys(NOT_LOGGED)}
            account.count(ALL_STAGES, ALL_STAGES, **spent)
            of_players = turn.more.get(PLAYERS)
            if of_players:
                spent = {**of_players, **dict.fromkeys(NOT_LOGGED)}
                account.count(OF_PLAYERS, ALL_STAGES, **spent)
    return account.frame()


def asked_by(paths: Sequence[str]) -> dict[str, list[str]]:
    """The models that the system of each finished run asked, as requested and as served."""
    asked: dict[str, list[str]] = {}
    for path in paths:
        folder = RunFolder(path)
        if not folder.complete:
            continue
        served = folder.parameters().get("served", {})
        models = list(served)
        for names in served.values():
            models += names
        asked[Path(path).name] = models
    return asked


def circular(judges: Sequence[str], asked: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each model that judges or plays users, and was asked by a system, too.

    Args:
        judges: the models that judge or play, as specifications.
        asked: system -> the models that it asked, see :func:`asked_by`.

    Example:
        >>> asked = {"raw": [], "aqd": ["gpt-4o-2024-08-06"]}
        >>> [line] = circular(["openai:gpt-4o temperature=0"], asked)
        >>> line.partition(",")[0]
        'circular: gpt-4o is a judge or user here'
    """
    lines = []
    for model in dict.fromkeys(map(model_key, judges)):
        if model == "recorded":
            continue
        names = [name for name, models in asked.items() if model in map(model_key, models)]
        if names:
            lines.append(
                f"circular: {model} is a judge or user here, and {', '.join(names)} asked it, too: "
                "scores may favour that system (arXiv 2601.13227)"
            )
    return lines
