"""Nuggets: atomic facts that a good answer states.

They are created from judged passages and searched for in responses.

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
from .units import find_clusters

AT_ONCE = 10
"""How many passages or nuggets one prompt shows."""
MOST_NUGGETS = 20
"""How many nuggets of a turn are kept after they are sorted by importance."""
WEIGHT = {"vital": 1.0, "okay": 0.5}
SHARE = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
IMPORTANCE, LABELS = tuple(WEIGHT), tuple(SHARE)


def read_nuggets(text: str, limit: int) -> list[str] | None:
    """The first ``limit`` nuggets that a completion lists, each once.

    None if it doesn't have a list of texts.

    Example:
        >>> read_nuggets('["No caffeine.", "no caffeine", "Sweet taste"]', 30)
        ['No caffeine', 'Sweet taste']
    """
    items = _only_list(text)
    if items is None or not all(isinstance(item, str) for item in items):
        return None
    return _each_once(items, limit)


def _only_list(text: str) -> list[Any] | None:
    lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
    return lists[0] if len(lists) == 1 else None


def _each_once(texts: Sequence[str], limit: int) -> list[str]:
    """The texts without repeats, which may differ in case, blanks and a full stop.

    Of repeats, the first text stands at the place of the last one.
    """
    nuggets: dict[str, str] = {}
    for text in reversed(texts):
        nugget = " ".join(text.split()).rstrip(".")
        if nugget:
            nuggets[nugget.casefold()] = nugget
    return list(reversed(nuggets.values()))[:limit]


@dataclass(eq=False, repr=False)
class _AsksAboutList(AsksLLM):
    """Show the model a list, in one prompt for each row, and read a list.

    An unusable completion is a failure.
    """

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
        """The model's list for each row.

        None if a call failed and ``on_error`` is ``"fallback"``.

        Raises:
            StageError: when a call failed, and ``on_error`` is ``"raise"``.
        """
        requests = []
        for row in rows:
            requests.append(self.request(row["qid"], row, self.template, item=str(row["item"])))
        lists: list[Any] = []
        failures = []
        for row, value in zip(rows, self.ask(requests), strict=True):
            checked = self._checked(row, value)
            if isinstance(checked, LLMFailure):
                failures.append(checked)
                checked = None
            lists.append(checked)
        if failures and (self.on_error or self.llm.on_error) == "raise":
            raise StageError(self.stage, failures, self.llm.kept_in)
        self.count(fallbacks=len(failures))
        return lists

    def _checked(self, row: dict[str, Any], value: Any) -> Any:
        if not self.labels or isinstance(value, LLMFailure):
            return value
        if len(value) == len(row["nuggets"]):
            return value
        self.count(failures=1)
        labels = counted(len(value), "label")
        nuggets = counted(len(row["nuggets"]), "nugget")
        return LLMFailure(self.stage, row["qid"], f"{labels} for {nuggets}")

    def words(self, turns: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], str | None]:
        """The word of each nugget (qid, nugget); None if its call failed.

        A turn has ``qid``, ``nuggets`` and the values that the prompt shows.
        """
        rows = []
        for turn in turns:
            nuggets = turn["nuggets"]
            for start in range(0, len(nuggets), AT_ONCE):
                batch = nuggets[start : start + AT_ONCE]
                rows.append({**turn, "item": start, "nuggets": batch})
        word_of: dict[tuple[str, str], str | None] = {}
        for row, words in zip(rows, self.values(rows), strict=True):
            nuggets = row["nuggets"]
            for nugget, word in zip(nuggets, words or [None] * len(nuggets), strict=True):
                word_of[row["qid"], nugget] = word
        return word_of


def _list_of_nuggets(limit: int) -> Kind:
    """A list of texts, each once."""

    def read(text: str) -> list[str] | None:
        return read_nuggets(text, limit)

    def read_answer(answer: dict[str, Any]) -> list[str]:
        return _each_once(answer["nuggets"], limit)

    return Kind(read, answer_in("nuggets", list_of(TEXT)), read_answer)


def _list_of_words(known: Sequence[str]) -> Kind:
    """One of the known words for each nugget."""

    def read(text: str) -> list[str] | None:
        return _words(text, known)

    return Kind(read, answer_in("labels", list_of(choice_of(known))))


def _words(text: str, known: Sequence[str]) -> list[str] | None:
    items = _only_list(text)
    if items is None:
        return None
    words = []
    for item in items:
        word = str(item).strip().casefold().replace(" ", "_").replace("-", "_")
        if word not in known:
            return None
        words.append(word)
    return words


def create_nuggets(
    pool: pd.DataFrame,
    llm: Any,
    max_nuggets: int = 30,
    *,
    prompts: str | None = None,
    on_error: str | None = None,
) -> pd.DataFrame:
    """Collect the nuggets of each turn from its judged passages, and rate their importance.

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
        ...         creates = "# Passages" in str(chats)
        ...         return ['["No caffeine"]' if creates else '["vital"]' for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"], "docno": ["d1"]})
        >>> pool["text"] = "Rooibos has no caffeine."
        >>> create_nuggets(pool, ikat.llm(Model())).values.tolist()
        [['1_1', 'No caffeine', 'vital']]
    """
    at_least(1, max_nuggets=max_nuggets)
    pool = with_names("the pool", pool, ("qid", "docno", "text"), "add it")
    questions = _questions(pool, "the pool")
    create = _AsksAboutList(
        llm,
        template="nuggets_create",
        kind=_list_of_nuggets(max_nuggets),
        prompts=prompts,
        on_error=on_error,
    )
    rate = _AsksAboutList(
        llm,
        template="nuggets_importance",
        kind=_list_of_words(IMPORTANCE),
        labels=True,
        prompts=prompts,
        on_error=on_error,
    )
    passages = {qid: list(texts) for qid, texts in pool.groupby("qid", sort=False)["text"]}
    nuggets = _collect_nuggets(create, passages, questions, max_nuggets)
    turns = []
    for qid, of_turn in nuggets.items():
        turns.append({"qid": qid, "question": questions[qid], "nuggets": of_turn})
    words = rate.words(turns)
    columns: dict[str, list[str]] = {"qid": [], "nugget": [], "importance": []}
    for qid, of_turn in nuggets.items():
        rated = [(nugget, words[qid, nugget] or "okay") for nugget in of_turn]
        rated.sort(key=lambda pair: IMPORTANCE.index(pair[1]))
        for nugget, importance in rated[:MOST_NUGGETS]:
            columns["qid"].append(qid)
            columns["nugget"].append(nugget)
            columns["importance"].append(importance)
    return object_frame(columns)


def _collect_nuggets(
    create: _AsksAboutList,
    passages: Mapping[str, list[str]],
    questions: Mapping[str, str],
    max_nuggets: int,
) -> dict[str, list[str]]:
    """The nuggets of each turn, whose list grows with each batch of its passages."""
    nuggets: dict[str, list[str]] = {qid: [] for qid in passages}
    most_passages = max(map(len, passages.values()), default=0)
    for start in range(0, most_passages, AT_ONCE):
        rows: list[dict[str, Any]] = []
        for qid, texts in passages.items():
            batch = texts[start : start + AT_ONCE]
            if not batch:
                continue
            shown = {
                "qid": qid,
                "item": start,
                "question": questions[qid],
                "n": max_nuggets,
                "nuggets": nuggets[qid],
                "passages": batch,
            }
            rows.append(shown)
        for row, merged in zip(rows, create.values(rows), strict=True):
            if merged is not None:
                nuggets[row["qid"]] = merged
    return nuggets


def assign_nuggets(
    responses: pd.DataFrame,
    nuggets: pd.DataFrame,
    llm: Any,
    *,
    prompts: str | None = None,
    on_error: str | None = None,
) -> pd.DataFrame:
    """Label for each nugget of a turn whether the response states it, ten nuggets per call.

    Source: arXiv 2411.09607, section 3.

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
        >>> responses = pd.DataFrame({"qid": ["1_1"], "query": ["Rooibos?"]})
        >>> responses["qanswer"] = "It has no caffeine."
        >>> nuggets = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["no caffeine", "sweet"]})
        >>> nuggets["importance"] = ["vital", "okay"]
        >>> assign_nuggets(responses, nuggets, ikat.llm(Model()))["label"].tolist()
        ['support', 'not_support']
    """
    responses = with_names("the responses", responses, ("qid", "qanswer"), "add it")
    nuggets = with_names("the nuggets", nuggets, ("qid", "nugget"), "add it")
    questions = _questions(responses, "the responses")
    check_once("the responses", responses, ["qid"], "keep one")
    check_once("the nuggets", nuggets, ["qid", "nugget"], "keep one")
    if set(responses["qid"]).isdisjoint(nuggets["qid"]):
        raise DataError("none of the responses is about a turn of the nuggets")
    response_of = dict(zip(responses["qid"], values(responses, "qanswer"), strict=True))
    turns = []
    for qid, of_turn in nuggets.groupby("qid", sort=False)["nugget"]:
        response = response_of.get(qid)
        if str(response or "").strip():
            turn = {"qid": qid, "question": questions[qid], "nuggets": list(of_turn)}
            turns.append({**turn, "response": response})
    assign = _AsksAboutList(
        llm,
        template="nuggets_assign",
        kind=_list_of_words(LABELS),
        labels=True,
        prompts=prompts,
        on_error=on_error,
    )
    words = assign.words(turns)
    # A nugget without a word is of a turn without a response.
    pairs = zip(nuggets["qid"], nuggets["nugget"], strict=True)
    return with_columns(nuggets, label=[words.get(pair, "not_support") for pair in pairs])


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
    has_text = [bool(str(text or "").strip()) for text in values(responses, "qanswer")]
    answered = responses[has_text].reset_index(drop=True)
    as_passages = with_columns(answered, docno=answered["qid"], text=answered["qanswer"])
    stated = create_nuggets(as_passages, llm, **options)
    of_turns = nuggets.groupby("qid", sort=False)["nugget"].agg("\n".join)
    lists = [of_turns.get(qid, "") for qid in answered["qid"]]
    as_responses = with_columns(answered, qanswer=lists)
    return nugget_scores(assign_nuggets(as_responses, stated, llm, **options))


def _questions(frame: pd.DataFrame, who: str) -> dict[str, str]:
    return dict(zip(frame["qid"], values(frame, asked_column(frame, who)), strict=True))


def nugget_scores(assigned: pd.DataFrame) -> pd.DataFrame:
    """The nugget recall of each turn: the share of its nuggets that the response states.

    Source: arXiv 2411.09607, section 4.

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
        >>> assigned = pd.DataFrame({"qid": ["1_1"] * 3, "importance": ["vital", "vital", "okay"]})
        >>> assigned["label"] = ["support", "partial_support", "not_support"]
        >>> scores = nugget_scores(assigned).round(2)
        >>> scores[["all", "all strict", "vital", "vital strict", "weighted"]].values.tolist()
        [[0.5, 0.33, 0.75, 0.5, 0.6]]
    """
    assigned = with_names("the labels", assigned, ("qid", "importance", "label"), "add it")
    if "nugget" in assigned.columns:
        repair = "score the labels of each run separately"
        check_once("the labels", assigned, ["qid", "nugget"], repair)
    labelled = assigned[assigned["label"].notna()]
    _check_words("the labels", labelled["label"], LABELS)
    _check_words("the labels", labelled["importance"], IMPORTANCE)
    share = labelled["label"].map(SHARE).astype(float)
    strict = (labelled["label"] == "support").astype(float)
    weight = labelled["importance"].map(WEIGHT).astype(float)
    is_vital = labelled["importance"] == "vital"
    qids = labelled["qid"]
    weighted = (share * weight).groupby(qids).sum() / weight.groupby(qids).sum()
    columns = {
        "all": share.groupby(qids).mean(),
        "all strict": strict.groupby(qids).mean(),
        "vital": share.where(is_vital).groupby(qids).mean(),
        "vital strict": strict.where(is_vital).groupby(qids).mean(),
        "weighted": weighted,
        "nuggets": qids.groupby(qids).size(),
    }
    scores = pd.DataFrame(columns).reindex(assigned["qid"].drop_duplicates())
    scores["nuggets"] = scores["nuggets"].fillna(0).astype(int)
    scores["unlabelled"] = assigned["label"].isna().groupby(assigned["qid"]).sum()
    return scores.rename_axis("qid").reset_index()


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
        ``turns``, over how many the mean is; ``nuggets``; ``unit``, ``clusters`` and ``unit_from``.
        ``recall`` is NaN when ``turns`` is 0.

    Raises:
        UsageError: when there is no system, or its scores lack a column.

    Example:
        >>> scores = pd.DataFrame({"qid": ["1_1", "1_2", "2_1", "3_1"], "nuggets": [2, 10, 5, 10]})
        >>> scores["all"] = [0.5, 0.7, 0.4, 0.9]
        >>> means = nugget_means({"ours": scores}).round(3)
        >>> means[["run", "recall", "low", "high", "turns", "clusters"]].values.tolist()
        [['ours', 0.625, 0.126, 1.124, 4, 3]]
    """
    if not systems:
        raise UsageError("there is no run: give at least one")
    data = None if dataset is None else dataset_named(dataset)
    rows = []
    for name, frame in systems.items():
        needed = ("qid", "all", "nuggets")
        scores = with_names(f"the scores of {name}", frame, needed, "give those of nugget_scores")
        valued = scores[scores["all"].notna()]
        clusters = find_clusters(valued["qid"], unit, data)
        recall = interval_of_mean(valued["all"].tolist(), clusters.names)
        row = {
            "run": name,
            "recall": recall.mean,
            "low": recall.low,
            "high": recall.high,
            "turns": len(valued),
            "nuggets": int(scores["nuggets"].sum()),
        }
        rows.append({**row, **clusters.columns()})
    return pd.DataFrame(rows)


def nugget_agreement(ours: pd.DataFrame, given: pd.DataFrame) -> dict[str, float]:
    """The agreement of labels with given ones, on the nuggets that both labelled.

    The given labels may be those of people.

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
        >>> labels = ["support", "not_support"]
        >>> ours = pd.DataFrame({"qid": ["1_1"] * 2, "nugget": ["a", "b"], "label": labels})
        >>> nugget_agreement(ours, ours)
        {'nuggets': 2, 'agreement': 1.0, 'kappa': 1.0}
    """
    if ("run" in ours.columns) != ("run" in given.columns):
        raise UsageError(
            "only one of the two has a column run, which tells the runs' labels apart: add it to "
            "the other, or drop it"
        )
    first = _labelled("our labels", ours)
    second = _labelled("the given labels", given)
    both = first.merge(second, on=_label_key(first), suffixes=("", "_given"), validate="one_to_one")
    if both.empty:
        raise DataError(
            "the two share no nugget with a label: their turns and nuggets must be named alike"
        )
    counts = pd.crosstab(both["label"], both["label_given"])
    confusion = counts.reindex(index=LABELS, columns=LABELS, fill_value=0)
    return {
        "nuggets": len(both),
        "agreement": float((both["label"] == both["label_given"]).mean()),
        "kappa": float(cohens_kappa(confusion.to_numpy())),
    }


def _label_key(frame: pd.DataFrame) -> list[str]:
    """The columns that identify the object of a label."""
    return [name for name in ("run", "qid", "nugget") if name in frame.columns]


def _labelled(who: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a label, each nugget of a turn (and run) once."""
    frame = with_names(who, frame, ("qid", "nugget", "label"), "add it")
    key = _label_key(frame)
    labelled = with_text_ids(who, frame[frame["label"].notna()], key)
    _check_words(who, labelled["label"], LABELS)
    repair = "keep one"
    if "run" not in key:
        repair += "; labels of several runs need a column run"
    check_once(who, labelled, key, repair)
    return labelled[[*key, "label"]]


def _check_words(who: str, words: "pd.Series[Any]", known: Sequence[str]) -> None:
    for word in words.unique():
        if word not in known:
            raise DataError(
                f"{who} have {word!r}, which is not one of {', '.join(known)}: convert it"
            )
