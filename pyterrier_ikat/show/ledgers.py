"""Cost of the LLM calls of systems: as a frame, and as a table for a paper."""

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
from ..runs.folder import STAGES
from ..runs.log import PLAYERS, Log
from ..study.recorder import ledger_of
from ..tables import Table

Ledgers: TypeAlias = (
    Sequence[str | Path | RunFolder] | Mapping[str, str | Path | RunFolder | Ledger]
)
"""Run folders, or a dict name -> run folder or ``Ledger``."""

_MEANING = "Cost: what was paid, over all starts of a run. Worth: what the calls would have cost that the cache answered."
_TOGETHER = {"cost": "paid", "worth": "known"}

NOTHING = "none"
"""Stage and model of a system without LLM calls."""

ALL = "all"
"""Stage and model of the calls of a conversation with a user, because its log does not distinguish them."""
OF_PLAYERS = "user and judge"
"""Stage of the calls of a simulated user and its judge."""
UNTOLD = ("retries", "failures", "fallbacks", "dropped", "lost_tokens", "seconds")
"""The columns that such a log doesn't have."""


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
        >>> ledger_frame({"raw": Ledger(), "QR": spent})[["system", "stage", "calls", "cost"]].values.tolist()
        [['raw', 'none', 0, 0.0], ['QR', 'rewrite', 2, 0.25]]
    """
    if isinstance(ledgers, str | Path | RunFolder):
        raise UsageError(
            f"give a list of run folders: [{str(getattr(ledgers, 'path', ledgers))!r}]"
        )
    named = (
        ledgers.items()
        if isinstance(ledgers, Mapping)
        else ((_folder(one).path.resolve().name, one) for one in ledgers)
    )
    idle = Ledger()
    idle.count(NOTHING, NOTHING, calls=0)
    accounts: dict[str, pd.DataFrame] = {}
    for name, one in named:
        if name in accounts:
            raise UsageError(
                f"two ledgers are named {name}: {advice('give each its name, {name: folder, ...}', 'rename a folder')}"
            )
        account = one.frame() if isinstance(one, Ledger) else read_ledger(_folder(one))
        accounts[name] = account if len(account) else idle.frame()
        accounts[name].insert(0, "system", name)
    if not accounts:
        raise UsageError("there is no ledger: give at least one run folder")
    return pd.concat(accounts.values(), ignore_index=True)


def ledger(ledgers: Ledgers) -> Table:
    """The cost of the systems' LLM calls, a row per system, stage and model, in LaTeX, Markdown and CSV.

    Args:
        ledgers: see :func:`ledger_frame`.

    Returns:
        The table. It shows retries, failures and the like only if there are any. The notes name the
        others, and give the total of all systems. The frame behind the table has all columns.

    Raises:
        UsageError: when there is none, or two have the same name.
        DataError: when a folder holds no finished run, or its ledger can't be read.

    Example:
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2, prompt_tokens=None, completion_tokens=40, seconds=1.25, cost=None)
        >>> print(ledger({"QR": spent}).markdown().splitlines()[2])
        | QR | rewrite | gpt-4o | 2 | – | 40 | 1.2 | – |
    """
    frame = ledger_frame(ledgers)
    notes = ["All turns together; seconds: the time of the calls added up."]
    if (frame["stage"] == ALL).any():
        notes.append(
            f"{ALL}: a conversation's log adds up a system's stages. {OF_PLAYERS}: the models that played and judged."
        )
    notes += _refused(ledgers, frame)
    if not (frame["worth"] == 0).fillna(False).all():
        together = ", ".join(
            f"{title} {_format_sum(frame[name])}" for name, title in _TOGETHER.items()
        )
        notes.append(f"{_MEANING} Together: {together}.")
    return account_table(frame, notes)


def refusals(folder: str | Path | RunFolder) -> pd.DataFrame:
    """The calls of a run that the model refused, or the provider's filter withheld, by conversation.

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
        >>> _ = ikat.run({"qr": ikat.Rewrite(llm) >> bm25}, "ikat:sample", out="runs", turns=["1-1_1", "2-1_1", "2-1_2"])
        >>> refusals("runs/qr").values.tolist()
        [['1-1', 1, 1], ['2-1', 2, 2]]
    """
    asked, refused = Counter[str](), Counter[str]()
    for stage in _folder(folder).stages():
        conversation = stage["qid"].rpartition("_")[0]
        calls = stage.get("asked", [])
        asked[conversation] += len(calls)
        refused[conversation] += sum(map(_is_refused, calls))
    found = [name for name in sorted(refused, key=natural_key) if refused[name]]
    return pd.DataFrame(
        {
            "conversation": found,
            "asked": [asked[one] for one in found],
            "refused": [refused[one] for one in found],
        }
    )


def _is_refused(call: Mapping[str, Any]) -> bool:
    """Whether the server or the model refused. For the server, a refusal in words is a normal completion."""
    return str(call.get("failure", "")).startswith(REFUSED) or is_refusal(
        without_reasoning(call.get("completion", ""))
    )


def _refused(ledgers: Ledgers, frame: pd.DataFrame) -> list[str]:
    """The refused calls of finished runs by conversation, if a ledger has failures."""
    if isinstance(ledgers, Mapping):
        named = {name: one for name, one in ledgers.items() if not isinstance(one, Ledger)}
    else:
        named = {_folder(one).path.resolve().name: one for one in ledgers}
    failing = set(frame.loc[(frame["failures"].fillna(0) > 0), "system"])
    notes = []
    kept = [
        name for name in named if name in failing and (_folder(named[name]).path / STAGES).exists()
    ]
    for name in kept:
        rows = refusals(named[name]).itertuples(index=False)
        if told := ", ".join(f"{row.conversation} {row.refused} of {row.asked}" for row in rows):
            notes.append(f"Refused calls of {name} by conversation: {told}.")
    return notes


def _format_sum(values: "pd.Series[Any]") -> str:
    found = values.sum(skipna=False)
    return "unknown" if pd.isna(found) else f"{found:,.4f}"


def _folder(given: str | Path | RunFolder) -> RunFolder:
    return given if isinstance(given, RunFolder) else RunFolder(given)


def read_ledger(folder: RunFolder) -> pd.DataFrame:
    """The account of a run folder or of a log of conversations, like ``Ledger.frame``.

    Raises:
        DataError: when the folder holds no run, or its ledger can't be read.
    """
    if Log.is_in(folder.path):
        return _of_conversations(Log(folder.path))
    if not folder.complete and not folder.partial.is_dir():
        raise folder.no_run()
    return ledger_of(folder).frame()


def _of_conversations(log: Log) -> pd.DataFrame:
    """The account of a log of conversations, which has the costs of each turn, but neither stages nor models."""
    account = Ledger()
    for turn in (turn for one in log.dialogues() for turn in one.turns):
        spent: dict[str, Any] = {**asdict(turn.spend), **dict.fromkeys(UNTOLD)}
        account.count(ALL, ALL, **spent)
        if players := turn.more.get(PLAYERS):
            spent = {**players, **dict.fromkeys(UNTOLD)}
            account.count(OF_PLAYERS, ALL, **spent)
    return account.frame()


def asked_by(paths: Sequence[str]) -> dict[str, list[str]]:
    """The models that the system of each run folder asked, as requested and as served."""
    served = {
        path: folder.parameters().get("served", {})
        for path in paths
        if (folder := RunFolder(path)).complete
    }
    return {
        Path(path).name: [*models, *(name for names in models.values() for name in names)]
        for path, models in served.items()
    }


def circular(judges: Sequence[str], asked: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each model that judges systems, or plays their users, and was asked by one of them.

    Example:
        >>> circular(["openai:gpt-4o temperature=0"], {"raw": [], "aqd": ["gpt-4o-2024-08-06"]})
        ['circular: gpt-4o is a judge or user here, and aqd asked it, too: scores may favour that system (arXiv 2601.13227)']
    """
    judged = {
        model: [name for name, models in asked.items() if model in map(model_key, models)]
        for model in map(model_key, judges)
    }
    told = "asked it, too: scores may favour that system (arXiv 2601.13227)"
    found = [
        (model, ", ".join(names))
        for model, names in judged.items()
        if names and model != "recorded"
    ]
    return [
        f"circular: {model} is a judge or user here, and {names} {told}" for model, names in found
    ]
