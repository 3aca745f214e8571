"""Nuggets: atomic facts that a good answer states. They are created from judged passages and searched for in responses.

Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
AutoNuggetizer Framework, arXiv 2411.09607. The wording of the prompts is ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from ..arguments import at_least
from ..completions.json_answers import TEXT, answer_in, choice_of, json_values, list_of
from ..completions.kinds import Kind
from ..completions.reasoning import without_reasoning
from ..conversations.datasets import IkatDataset
from ..conversations.datasets import dataset as dataset_named
from ..conversations.frame import object_frame, values, with_columns, with_text_ids
from ..errors import DataError, UsageError, counted
from ..llm_operator import AsksLLM
from ..llms import LLMFailure, StageError
from .finished_runs import check_once, with_names
from .inference import interval_of_mean
from .judgements import cohens_kappa
from .responses import asked_column
from .units import UNIT_COLUMNS, find_clusters

AT_ONCE = 10
"""How many passages or nuggets one prompt shows."""
KEPT = 20
"""How many nuggets of a turn are kept after they are sorted by importance."""
WEIGHT = {"vital": 1.0, "okay": 0.5}
SHARE = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
IMPORTANCE, LABELS = tuple(WEIGHT), tuple(SHARE)


def read_nuggets(text: str, limit: int) -> list[str] | None:
    """The first ``limit`` nuggets that a completion lists, each once; None if it doesn't have a list of texts.

    Example:
        >>> read_nuggets('["No caffeine.", "no caffeine", "Sweet taste"]', 30)
        ['No caffeine', 'Sweet taste']
    """
    found = _only_list(text)
    return (
        None
        if found is None or not all(isinstance(item, str) for item in found)
        else _each_once(found, limit)
    )


def _only_list(text: str) -> list[Any] | None:
    lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
    return lists[0] if len(lists) == 1 else None


def _each_once(texts: Sequence[str], limit: int) -> list[str]:
    found = {
        " ".join(text.split()).rstrip(".").casefold(): " ".join(text.split()).rstrip(".")
        for text in reversed(texts)
        if text.strip()
    }
    return list(reversed(found.values()))[:limit]


@dataclass(eq=False, repr=False)
class _AsksAboutList(AsksLLM):
    """Shows a list to the model, in one prompt for each row, and reads a list. An unusable completion is a failure."""

    _: KW_ONLY
    template: str
    kind: Kind
    labels: bool = False
    """Whether it reads one word for each of the row's nuggets."""
    on_error: str | None = None
    stage: ClassVar[str] = "nuggets"

    def templates(self) -> list[str]:
        """The template of its prompt."""
        return [self.template]

    def values(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """The list that the model gives for each row; None if a call failed and ``on_error`` is ``"fallback"``.

        Raises:
            StageError: when a call failed, and ``on_error`` is ``"raise"``.
        """
        requests = [
            self.request(row["qid"], row, self.template, item=str(row["item"])) for row in rows
        ]
        found = [
            self._checked(row, value) for row, value in zip(rows, self.ask(requests), strict=True)
        ]
        failures = [value for value in found if isinstance(value, LLMFailure)]
        if failures and (self.on_error or self.llm.on_error) == "raise":
            raise StageError(self.stage, failures, self.llm.kept_in)
        self.count(fallbacks=len(failures))
        return [None if isinstance(value, LLMFailure) else value for value in found]

    def _checked(self, row: dict[str, Any], value: Any) -> Any:
        if not self.labels or isinstance(value, LLMFailure) or len(value) == len(row["nuggets"]):
            return value
        self.count(failures=1)
        return LLMFailure(
            self.stage,
            row["qid"],
            f"{counted(len(value), 'label')} for {counted(len(row['nuggets']), 'nugget')}",
        )

    def words(self, turns: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str | None]:
        """For each nugget of each turn (``qid``, ``nuggets`` and what the prompt shows) its word; None if its call failed."""
        rows = [
            {**turn, "item": start, "nuggets": turn["nuggets"][start : start + AT_ONCE]}
            for turn in turns
            for start in range(0, len(turn["nuggets"]), AT_ONCE)
        ]
        found: dict[tuple[str, str], str | None] = {}
        for row, words in zip(rows, self.values(rows), strict=True):
            found |= zip(
                ((row["qid"], nugget) for nugget in row["nuggets"]),
                words or [None] * len(row["nuggets"]),
                strict=True,
            )
        return found


def _list_of_nuggets(limit: int) -> Kind:
    """A list of texts, each once."""
    form = answer_in("nuggets", list_of(TEXT))
    return Kind(
        lambda text: read_nuggets(text, limit),
        form,
        lambda said: _each_once(said["nuggets"], limit),
    )


def _list_of_words(known: Sequence[str]) -> Kind:
    """One of the known words for each nugget."""
    return Kind(lambda text: _words(text, known), answer_in("labels", list_of(choice_of(known))))


def _words(text: str, known: Sequence[str]) -> list[str] | None:
    found = _only_list(text)
    words = [
        str(word).strip().casefold().replace(" ", "_").replace("-", "_") for word in found or []
    ]
    return None if found is None or not set(words) <= set(known) else words


def create_nuggets(
    pool: pd.DataFrame,
    llm: Any,
    max_nuggets: int = 30,
    *,
    prompts: str | None = None,
    on_error: str | None = None,
) -> pd.DataFrame:
    """Collect the nuggets of each turn from its judged passages, and rate how important each is.

    Passages are shown in their order, ten per call. Each call gets the list so far, and merges and
    extends it. Then the nuggets are rated, ten per call, and the first 20 are kept, vital ones
    first (arXiv 2411.09607, section 3).

    Args:
        pool: the passages that are relevant enough: ``qid``, ``docno``, ``text``, and the question
            (``qresolved``, else ``qutterance``, else ``query``).
        llm: the model to ask, or an argument of :func:`pyterrier_ikat.llm`.
        max_nuggets: the maximum number of nuggets in a turn's list.
        prompts: a folder of your own templates (``nuggets_create.jinja``,
            ``nuggets_importance.jinja``).
        on_error: ``"raise"``; or ``"fallback"``: a failed batch of passages adds nothing, and a
            nugget that wasn't rated is ``okay``.

    Returns:
        ``qid``, ``nugget``, ``importance`` (``vital`` or ``okay``).

    Raises:
        UsageError: when a column is missing.
        StageError: when a call failed and ``on_error`` is ``"raise"``.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["No caffeine"]' if "# Passages" in str(chat) else '["vital"]' for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"], "docno": ["d1"], "text": ["Rooibos has no caffeine."]})
        >>> create_nuggets(pool, ikat.llm(Model())).values.tolist()
        [['1_1', 'No caffeine', 'vital']]
    """
    at_least(1, max_nuggets=max_nuggets)
    pool = with_names("the pool", pool, ("qid", "docno", "text"), "add it")
    questions = _questions(pool, "the pool")
    kind = _list_of_nuggets(max_nuggets)
    asked: dict[str, Any] = {"prompts": prompts, "on_error": on_error}
    create = _AsksAboutList(llm, template="nuggets_create", kind=kind, **asked)
    rate = _AsksAboutList(
        llm, template="nuggets_importance", kind=_list_of_words(IMPORTANCE), labels=True, **asked
    )
    passages = {qid: list(texts) for qid, texts in pool.groupby("qid", sort=False)["text"]}
    nuggets: dict[str, list[str]] = {qid: [] for qid in passages}
    for start in range(0, max(map(len, passages.values()), default=0), AT_ONCE):
        rows = [
            {
                "qid": qid,
                "item": start,
                "question": questions[qid],
                "n": max_nuggets,
                "nuggets": nuggets[qid],
                "passages": batch,
            }
            for qid, texts in passages.items()
            if (batch := texts[start : start + AT_ONCE])
        ]
        for row, merged in zip(rows, create.values(rows), strict=True):
            nuggets[row["qid"]] = row["nuggets"] if merged is None else merged
    words = rate.words(
        {"qid": qid, "question": questions[qid], "nuggets": found} for qid, found in nuggets.items()
    )
    rated = {
        qid: [(nugget, words[qid, nugget] or "okay") for nugget in found]
        for qid, found in nuggets.items()
    }
    best = {
        qid: sorted(found, key=lambda one: IMPORTANCE.index(one[1]))[:KEPT]
        for qid, found in rated.items()
    }
    kept = [(qid, *one) for qid, found in best.items() for one in found]
    return object_frame(
        {
            name: [row[place] for row in kept]
            for place, name in enumerate(("qid", "nugget", "importance"))
        }
    )


def assign_nuggets(
    responses: pd.DataFrame,
    nuggets: pd.DataFrame,
    llm: Any,
    *,
    prompts: str | None = None,
    on_error: str | None = None,
) -> pd.DataFrame:
    """Label for each nugget of a turn whether the response states it, ten nuggets per call (arXiv 2411.09607, section 3).

    Args:
        responses: ``qid``, ``qanswer``, and the question as for :func:`create_nuggets`.
        nuggets: ``qid``, ``nugget``, ``importance``; in turns without a response none is stated,
            and no call is made.
        llm: the model to ask.
        prompts: a folder of your own templates (``nuggets_assign.jinja``).
        on_error: ``"raise"``; or ``"fallback"``: nuggets of a failed call have no label.

    Returns:
        ``nuggets`` with ``label``: ``support``, ``partial_support`` or ``not_support``; None if a
        call failed.

    Raises:
        UsageError: when a column is missing.
        DataError: when a turn has two responses or the same nugget twice, or the frames share no
            turn.
        StageError: when a call failed and ``on_error`` is ``"raise"``.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["support", "not_support"]' for chat in chats]
        >>> said = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"], "qanswer": ["It has no caffeine."]})
        >>> facts = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["no caffeine", "sweet"], "importance": ["vital", "okay"]})
        >>> assign_nuggets(said, facts, ikat.llm(Model()))["label"].tolist()
        ['support', 'not_support']
    """
    responses = with_names("the responses", responses, ("qid", "qanswer"), "add it")
    nuggets = with_names("the nuggets", nuggets, ("qid", "nugget"), "add it")
    questions = _questions(responses, "the responses")
    check_once("the responses", responses, ["qid"], "keep one")
    check_once("the nuggets", nuggets, ["qid", "nugget"], "keep one")
    if not set(responses["qid"]) & set(nuggets["qid"]):
        raise DataError("none of the responses is about a turn of the nuggets")
    said = dict(zip(responses["qid"], values(responses, "qanswer"), strict=True))
    turns = nuggets.groupby("qid", sort=False)["nugget"].agg(list)
    answered = [qid for qid in turns.index if str(said.get(qid) or "").strip()]
    kind = _list_of_words(LABELS)
    assign = _AsksAboutList(
        llm, template="nuggets_assign", kind=kind, labels=True, prompts=prompts, on_error=on_error
    )
    labels = assign.words(
        {"qid": qid, "question": questions[qid], "nuggets": turns[qid], "response": said[qid]}
        for qid in answered
    )
    pairs = zip(nuggets["qid"], nuggets["nugget"], strict=True)
    return with_columns(
        nuggets, label=[labels[pair] if pair[0] in answered else "not_support" for pair in pairs]
    )


def nugget_precision(
    responses: pd.DataFrame, nuggets: pd.DataFrame, llm: Any, **options: Any
) -> pd.DataFrame:
    """The share of the facts in each response that the turn's nuggets cover.

    The response's own nuggets are created from its text as from a passage, and then searched for in
    the list of the turn's nuggets. The measure follows the track's nugget precision (TREC iKAT
    2024). It needs at least two calls per turn.

    Args:
        responses: as for :func:`assign_nuggets`.
        nuggets: the turns' nuggets.
        llm: the model to ask.
        **options: ``prompts``, ``on_error``, as for :func:`create_nuggets`.

    Returns:
        The frame of :func:`nugget_scores`, over the response's nuggets. Turns without a response
        are missing.
    """
    responses = with_names("the responses", responses, ("qid", "qanswer"), "add it")
    nuggets = with_names("the nuggets", nuggets, ("qid", "nugget"), "add it")
    check_once("the responses", responses, ["qid"], "keep one")
    is_said = [bool(str(text or "").strip()) for text in values(responses, "qanswer")]
    said = responses[is_said].reset_index(drop=True)
    stated = create_nuggets(
        with_columns(said, docno=said["qid"], text=said["qanswer"]), llm, **options
    )
    listed = {qid: "\n".join(found) for qid, found in nuggets.groupby("qid", sort=False)["nugget"]}
    return nugget_scores(
        assign_nuggets(
            with_columns(said, qanswer=[listed.get(qid, "") for qid in said["qid"]]),
            stated,
            llm,
            **options,
        )
    )


def _questions(frame: pd.DataFrame, who: str) -> dict[str, str]:
    return dict(zip(frame["qid"], values(frame, asked_column(frame, who)), strict=True))


def nugget_scores(assigned: pd.DataFrame) -> pd.DataFrame:
    """The nugget recall of each turn (arXiv 2411.09607, section 4): the share of its nuggets that the response states.

    Args:
        assigned: ``qid``, ``importance``, ``label``, as from :func:`assign_nuggets`. A nugget
            without a label is omitted and counted.

    Returns:
        One row per turn: ``qid``; ``all`` and ``vital``: partial support counts half; ``all
        strict`` and ``vital strict``: only full support counts; ``weighted``: okay nuggets have
        half the weight of vital ones; ``nuggets``, ``unlabelled``. A value is NaN if a turn has no
        nuggets of the kind.

    Raises:
        DataError: when a turn has a nugget twice, as in the labels of two runs, or a label or an
            importance is unknown.

    Example:
        >>> assigned = pd.DataFrame({"qid": ["1_1"] * 3, "importance": ["vital", "vital", "okay"],
        ...                          "label": ["support", "partial_support", "not_support"]})
        >>> nugget_scores(assigned)[["all", "all strict", "vital", "vital strict", "weighted"]].round(2).values.tolist()
        [[0.5, 0.33, 0.75, 0.5, 0.6]]
    """
    assigned = with_names("the labels", assigned, ("qid", "importance", "label"), "add it")
    if "nugget" in assigned.columns:
        check_once(
            "the labels", assigned, ["qid", "nugget"], "score the labels of each run separately"
        )
    known = assigned[assigned["label"].notna()]
    _check_words("the labels", known["label"], LABELS)
    _check_words("the labels", known["importance"], IMPORTANCE)
    share, strict = (
        known["label"].map(SHARE).astype(float),
        (known["label"] == "support").astype(float),
    )
    vital, weight = known["importance"] == "vital", known["importance"].map(WEIGHT).astype(float)
    by = known["qid"]
    found = pd.DataFrame(
        {
            "all": share.groupby(by).mean(),
            "all strict": strict.groupby(by).mean(),
            "vital": share.where(vital).groupby(by).mean(),
            "vital strict": strict.where(vital).groupby(by).mean(),
            "weighted": (share * weight).groupby(by).sum() / weight.groupby(by).sum(),
            "nuggets": by.groupby(by).size(),
        }
    ).reindex(assigned["qid"].drop_duplicates())
    found = found.assign(
        nuggets=found["nuggets"].fillna(0).astype(int),
        unlabelled=assigned["label"].isna().groupby(assigned["qid"]).sum(),
    )
    return found.rename_axis("qid").reset_index()


def nugget_means(
    systems: Mapping[str, pd.DataFrame],
    *,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
) -> pd.DataFrame:
    """The mean share of nuggets that each system states, with its interval.

    Args:
        systems: name -> the result of :func:`nugget_scores`.
        unit: what the clusters of turns are in intervals, as for :func:`~pyterrier_ikat.evaluate`.
        dataset: the dataset of the turns.

    Returns:
        One row per system: ``run``; ``recall``, the mean of ``all`` over the turns that have a
        value; ``low`` and ``high``, its 95 % interval, which is robust to clusters of turns;
        ``turns``; ``nuggets``; ``unit``, ``clusters`` and ``unit_from``.

    Example:
        >>> scores = pd.DataFrame({"qid": ["1_1", "1_2", "2_1", "3_1"], "all": [0.5, 0.7, 0.4, 0.9], "nuggets": [2, 10, 5, 10]})
        >>> nugget_means({"ours": scores})[["run", "recall", "low", "high", "turns", "clusters"]].round(3).values.tolist()
        [['ours', 0.625, 0.126, 1.124, 4, 3]]
    """
    data = None if dataset is None else dataset_named(dataset)
    rows = []
    for name, scores in systems.items():
        valued = scores[scores["all"].notna()]
        clusters = find_clusters(valued["qid"], unit, data)
        found = interval_of_mean(valued["all"].tolist(), clusters.names)
        row = {"run": name, "recall": found.mean, "low": found.low, "high": found.high}
        rows.append(
            {
                **row,
                "turns": len(scores),
                "nuggets": int(scores["nuggets"].sum()),
                **clusters.columns(),
            }
        )
    return pd.DataFrame(
        rows, columns=["run", "recall", "low", "high", "turns", "nuggets", *UNIT_COLUMNS]
    )


def nugget_agreement(ours: pd.DataFrame, given: pd.DataFrame) -> dict[str, float]:
    """The agreement of labels with given ones, such as those of people, on the nuggets that both labelled.

    Args:
        ours: ``qid``, ``nugget``, ``label``; and ``run`` if the labels are about the responses of
            several runs.
        given: the same.

    Returns:
        ``nuggets``, how many both labelled; ``agreement``, the share with the same label;
        ``kappa``, Cohen's.

    Raises:
        UsageError: when a column is missing, or only one of the two has a column ``run``.
        DataError: when one labels a nugget of a turn (and run) twice, has an unknown label, or the
            two share no labelled nugget.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["a", "b"], "label": ["support", "not_support"]})
        >>> nugget_agreement(one, one)
        {'nuggets': 2, 'agreement': 1.0, 'kappa': 1.0}
    """
    if ("run" in ours.columns) != ("run" in given.columns):
        raise UsageError(
            "only one of the two has a column run, which tells the runs' labels apart: add it to the other, or drop it"
        )
    first, second = _labelled("our labels", ours), _labelled("the given labels", given)
    both = first.merge(second, on=_label_key(first), suffixes=("", "_given"), validate="one_to_one")
    if both.empty:
        raise DataError(
            "the two share no nugget with a label: their turns and nuggets must be named alike"
        )
    confusion = pd.crosstab(both["label"], both["label_given"]).reindex(
        index=LABELS, columns=LABELS, fill_value=0
    )
    same = float((both["label"] == both["label_given"]).mean())
    return {
        "nuggets": len(both),
        "agreement": same,
        "kappa": float(cohens_kappa(confusion.to_numpy())),
    }


def _label_key(frame: pd.DataFrame) -> list[str]:
    """The columns that identify the object of a label."""
    return [name for name in ("run", "qid", "nugget") if name in frame.columns]


def _labelled(who: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a label, each nugget of a turn (and run) once."""
    frame = with_names(who, frame, ("qid", "nugget", "label"), "add it")
    found = with_text_ids(who, frame[frame["label"].notna()], _label_key(frame))
    _check_words(who, found["label"], LABELS)
    key = _label_key(frame)
    check_once(
        who,
        found,
        key,
        "keep one" if "run" in key else "keep one; labels of several runs need a column run",
    )
    return found[[*key, "label"]]


def _check_words(who: str, words: "pd.Series[Any]", known: Sequence[str]) -> None:
    if unknown := [word for word in words.unique() if word not in known]:
        raise DataError(
            f"{who} have {unknown[0]!r}, which is not one of {', '.join(known)}: convert it"
        )
