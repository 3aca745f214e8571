"""A paper's systems with the user's resources: planned, run, resumed and scored.

Official pairs are judged again by the user's model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..conversations import dataset as dataset_named
from ..conversations.datasets import QrelsSource, Turns
from ..conversations.download import DATA_FOLDER
from ..conversations.qrels import read_qrels, write_qrels
from ..conversations.released import CLUEWEB, COLLECTION
from ..errors import DataError, UsageError, counted
from ..evaluation import Agreement, Judge, agreement, breakdown, per_turn, with_gold
from ..evaluation.decisions import statement_ranking
from ..evaluation.scored_turns import OF_ALL, asked_of, choose_turns
from ..generate import Answer, Rewrite
from ..llms import llm
from ..methods import Method, find
from ..methods.catalogue import PublishedTable
from ..methods.definition import model_key
from ..planning import PlanTable
from ..retrieve import PassageIndex
from ..runs import RunFolder
from ..show.plots import axes_for, plot_breakdown, save_plot
from ..study import plan, run
from ..tables import Table, format_score, of_frame, wrapped
from .paper_scores import FACTORS, MINI, Judgements, UserJudgements, our_measures, response_scores
from .published import (
    ANSWERS,
    EVIDENCE,
    OF_THE_SAMPLE,
    PASSAGES,
    PTKB,
    SAMPLE,
    Figure,
    Matrix,
    Paper,
    Row,
    find_paper,
    options_of,
    read_resources,
    resource_differences,
    texts_of,
)
from .table import NOTHING_BESIDE, PaperTable

THRESHOLD = 2
"""Labels below this one count as not relevant (Generate then Retrieve, section 4)."""


class _RunGroup(NamedTuple):
    """Systems that are run together, because they have the same turns and resources."""

    names: list[str]
    turns: list[str]
    options: dict[str, Any]


class Reproduction:
    """The systems of one paper on a dataset, with the user's resources.

    Args:
        paper: its name, such as ``"nii_2024"``.
        resources: a TOML file, a mapping, or ``"sample"``; see
            :func:`~pyterrier_ikat.papers.published.read_resources`.
        index: the folder of the index that stands for the papers' BM25, instead of that of
            ``resources``.
        dataset: a dataset instead of the table's own year.
        out: the folder of the runs. Runs in it are resumed.
        qrels: judgements instead of the dataset's: a frame, the name of one of the dataset's
            variants, or a TREC qrels file.
        judged_by: who made them: ``"NIST"`` or a model's name; by default as ``ikat judge`` noted
            next to the file.
        turns: only these turns: a list of ids, or the path of a file with one id per line.
        systems: only these rows of a table.
        repeats: how many runs of each system with an LLM are averaged.
    """

    def __init__(
        self,
        paper: str,
        resources: str | Path | Mapping[str, str],
        *,
        index: str | None = None,
        dataset: str | None = None,
        out: str | Path = "papers",
        qrels: QrelsSource | None = None,
        judged_by: str | None = None,
        turns: Turns | None = None,
        systems: Sequence[str] | None = None,
        repeats: int = 1,
    ) -> None:
        self.paper: Paper = find_paper(paper)
        self.sample = str(resources) == SAMPLE
        if isinstance(resources, Mapping):
            self.resources = dict(resources)
        else:
            self.resources = read_resources(resources)
        self.own_index = index
        if index is not None:
            self.resources["bm25"] = index
        self.dataset_name = dataset
        if dataset is None and self.sample:
            self.dataset_name = "ikat:sample"
        self.root = Path(out)
        self.prompts = self.resources.get("prompts")
        self.repeats = repeats
        self.user_judgements = UserJudgements(qrels, judged_by, turns)
        self.systems = None if systems is None else list(systems)
        known = dict.fromkeys(name for part in self.paper.parts for name in part.systems)
        for name in self.systems or []:
            if name not in known:
                raise UsageError(
                    f"no table of this paper has a system {name!r}: choose among {', '.join(known)}"
                )

    def index_of(self, key: str) -> Any:
        """The index that replaces one of the papers', or its folder; None if there is none."""
        self._make_index_of_sample()
        return self._sample_index if self.sample else self.resources.get(key)

    def dataset(self, part: PublishedTable | Matrix) -> Any:
        """The dataset on which a part is reproduced."""
        return dataset_named(self.dataset_name or f"ikat:{part.year}")

    def out(self, part: PublishedTable) -> Path:
        """The folder of its runs."""
        return self.root / self._folder_name(part)

    def rows(self, part: PublishedTable) -> list[Row]:
        """The systems of a part, in its order."""
        names = part.systems
        if self.systems is not None:
            names = [name for name in names if name in self.systems]
        return [self._row(part, name) for name in names]

    def _row(self, part: PublishedTable, name: str) -> Row:
        method = find(name)
        if self.sample:
            return Row(method, self._sample_options(method), written=name)
        options, missing = options_of(method, self._resources_of(part))
        notes = resource_differences(method, options)
        return Row(method, options, tuple(missing), tuple(notes), written=name)

    def _resources_of(self, part: PublishedTable) -> dict[str, str]:
        """The user's resources, with the paper's own completions where the user gives none.

        If they have no index, it is the one beside the runs.
        """
        if not part.recorded:
            return self.resources
        resources = {**part.recorded, **self.resources}
        index = self._index_beside(part)
        if "bm25" not in resources and (index.exists() or self.dataset(part).name == MINI):
            resources["bm25"] = str(index)
        return resources

    def _index_beside(self, part: PublishedTable) -> Path:
        """The folder of the index that stands for one that the resources lack."""
        return self.root / f"{self._folder_name(part)}.index"

    def _folder_name(self, part: PublishedTable) -> str:
        return str(self.dataset(part).name).replace(":", "-")

    def check_public(self, part: PublishedTable) -> None:
        """Check that a table can be run without resources of the user.

        Raises:
            UsageError: when the paper's completions aren't public, or there is no index; it says
                what to get, and from whom.
        """
        if not part.recorded:
            raise UsageError(
                f"{part.key} needs models and indexes, because its completions are not public: "
                "give --resources FILE, or --resources sample for the bundled sample"
            )
        name = self.dataset(part).name
        index = self._index_beside(part)
        if "bm25" in self.resources or index.exists() or name == MINI:
            return
        raise UsageError(
            f"{part.key} needs an index of the passages of {name}. {CLUEWEB}; put its files into "
            f"{COLLECTION}/ in the folder that {DATA_FOLDER} names, and make it with "
            f"`ikat index {name} {index}`, or name an index elsewhere: --index FOLDER"
        )

    def _sample_options(self, method: Method) -> dict[str, Any]:
        recorded = llm("recorded:sample")
        resources: dict[str, Any] = {
            **OF_THE_SAMPLE,
            "rewriter": Rewrite(recorded, style="llama"),
            "expander": Answer(recorded, style="llama"),
        }
        if method.name.endswith("_given_llama"):
            resources["second_llm"] = "recorded:sample"
        options: dict[str, Any] = {"index": self._sample_index}
        for name, resource in resources.items():
            if name in (*method.needs, *method.takes):
                options[name] = resource
        return options

    def judgements(self, part: PublishedTable) -> Judgements:
        """The judgements of a part, also of turns that its finished runs were not asked."""
        asked = self._turns(part) if part.about == ANSWERS else []
        return self.user_judgements.judgements(part, self.dataset(part), asked)

    def scored(self, part: PublishedTable) -> Judgements:
        """The judgements of the turns that all finished runs of a part were asked.

        Raises:
            DataError: when they have no common turn.
        """
        judged = self.judgements(part)
        runs = {}
        for _row, folders in self._finished(part):
            for folder in folders:
                runs[folder.path.name] = folder
        has_turns = self.user_judgements.turns is not None
        turns = choose_turns(judged.qrels["qid"], asked_of(runs), chosen=has_turns)
        qrels = judged.qrels[judged.qrels["qid"].isin(turns.ids)].reset_index(drop=True)
        about = [line for line in (turns.why, *turns.notes) if not OF_ALL.fullmatch(line)]
        return replace(judged, qrels=qrels, about_turns=tuple(about))

    def plan(self, part: PublishedTable) -> PlanTable:
        """The calls that the systems of a part will make."""
        dataset = self.dataset(part).name
        tables = []
        for group in self._groups(part):
            tables.append(
                plan(group.names, dataset, turns=group.turns, repeats=self.repeats, **group.options)
            )
        if not tables:
            return PlanTable()
        return PlanTable(pd.concat(tables, ignore_index=True))

    def beside_the_plan(self, part: PublishedTable) -> list[str]:
        """Sentences on what a plan omits: rows that can't be run, and the judges."""
        lines = []
        for row in self.rows(part):
            if row.reason:
                lines.append(f"{row.name} is not run: {row.reason}.")
        if part.about == ANSWERS:
            lines.append(
                "This plan omits the judges of responses that the resources name: each is asked "
                "about every response."
            )
        return lines

    def run(self, part: PublishedTable) -> None:
        """Run the systems of a part.

        Finished ones are not run again, and stopped ones are resumed.
        """
        for group in self._groups(part):
            run(
                group.names,
                self.dataset(part).name,
                out=self.out(part),
                turns=group.turns,
                repeats=self.repeats,
                **group.options,
            )

    def _turns(self, part: PublishedTable) -> list[str]:
        """The judged turns of a table and of the paper's other tables on the same dataset.

        One run serves all tables. Public completions are of the table's own turns alone.
        """
        data = self.dataset(part)
        parts = [part]
        if not part.recorded:
            parts = []
            for other in self.paper.parts:
                if other.about in (PASSAGES, PTKB) and self.dataset(other).name == data.name:
                    parts.append(other)
        judged = set[str]()
        for other in parts:
            judged.update(self.judgements(other).qrels["qid"])
        return [qid for qid in data.get_topics()["qid"] if qid in judged]

    def _groups(self, part: PublishedTable) -> list["_RunGroup"]:
        """The systems that can be run, grouped by equal turns and resources."""
        self._make_index_of_sample()
        if part.recorded and "bm25" not in self.resources and self.dataset(part).name == MINI:
            _make_index(self._index_beside(part), MINI)
        rows = [row for row in self.rows(part) if not row.reason]
        judged = self._turns(part) if rows else []
        groups: dict[str, _RunGroup] = {}
        for row in rows:
            options = dict(row.options)
            if self.prompts:
                options["prompts"] = self.prompts
            turns = self._turns_to_run(RunFolder(self.out(part) / row.folders(1)[0]), judged)
            key = repr((turns, sorted(options.items(), key=str)))
            group = groups.setdefault(key, _RunGroup([], turns, options))
            group.names.append(row.name)
        return list(groups.values())

    def _turns_to_run(self, folder: RunFolder, judged: list[str]) -> list[str]:
        """The turns that a system is run on.

        A finished run keeps its own, whatever is judged, unless it lacks some that the user gives.
        """
        if not folder.complete:
            return judged
        own = folder.turns_so_far()
        if self.user_judgements.turns is not None and not set(judged) <= set(own):
            return judged
        return own

    @property
    def _sample_index(self) -> str:
        """The folder of the index that the sample's systems search."""
        return self.own_index or str(self.root / "sample.index")

    def _make_index_of_sample(self) -> None:
        if self.sample and self.own_index is None:
            _make_index(Path(self._sample_index), "ikat:sample")

    def table(self, part: PublishedTable) -> "PaperTable":
        """The finished systems of a part next to the published scores."""
        judged = self.scored(part)
        runs = self._scored_runs(part, judged)
        deviations = {}
        for name, repeats in runs.items():
            if len(repeats) > 1:
                means = pd.DataFrame([scores.mean() for scores in repeats])
                deviations[name] = means.std(ddof=1)
        return PaperTable(
            part=part,
            rows=self.rows(part),
            judgements=judged,
            scores=_averaged(runs),
            sample=self.sample,
            engine=self.paper.engine,
            repeats=self.repeats,
            deviations=deviations,
        )

    def scores(self, part: PublishedTable) -> dict[str, pd.DataFrame]:
        """System -> a score for each scored turn and measure, with the paper's names.

        Of several runs, it is each turn's mean.
        """
        return _averaged(self._scored_runs(part, self.scored(part)))

    def _finished(self, part: PublishedTable) -> list[tuple[Row, list[RunFolder]]]:
        """The rows all of whose runs are finished, with the folders of these runs."""
        finished = []
        for row in self.rows(part):
            folders = [RunFolder(self.out(part) / name) for name in row.folders(self.repeats)]
            if not row.reason and all(folder.complete for folder in folders):
                finished.append((row, folders))
        return finished

    def _scored_runs(
        self, part: PublishedTable, judged: Judgements
    ) -> dict[str, list[pd.DataFrame]]:
        """System -> the scores of each of its runs.

        Only systems are there all of whose runs are finished and write what the part is about.
        """
        runs = {}
        for row, folders in self._finished(part):
            of_runs = []
            for folder in folders:
                scores = self._scored(part, folder, row, judged.qrels)
                if scores is not None:
                    of_runs.append(scores)
            if of_runs:
                runs[row.name] = of_runs
        return runs

    def _scored(
        self, part: PublishedTable, folder: RunFolder, row: Row, qrels: pd.DataFrame
    ) -> pd.DataFrame | None:
        """The scores of a finished run; None if it doesn't write what the part is about."""
        if part.about == ANSWERS:
            qids = list(qrels["qid"].drop_duplicates())
            texts = texts_of(row.options.get("index"))
            return response_scores(folder.path, self.dataset(part), qids, self.resources, texts)
        if part.about == PASSAGES:
            ranking = folder.results()
        else:
            ranking = statement_ranking(folder.path)
            if ranking.empty:
                return None
        measures = our_measures(part)
        scores = per_turn(ranking, qrels, list(measures.values()))
        columns = {name: scores[ours] * FACTORS.get(name, 1) for name, ours in measures.items()}
        return pd.DataFrame(columns)


def _make_index(path: Path, dataset: str) -> None:
    """Index the passages of a dataset for BM25, unless the index is there."""
    if not path.exists():
        PassageIndex(path).index(dataset_named(dataset).get_corpus_iter(verbose=False))


def _averaged(runs: Mapping[str, Sequence[pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """The mean of each turn over the runs of a system."""
    means = {}
    for name, repeats in runs.items():
        if len(repeats) == 1:
            means[name] = repeats[0]
        else:
            means[name] = pd.concat(repeats).groupby(level=0).mean()
    return means


def figure_scores(reproduction: Reproduction, figure: Figure) -> pd.DataFrame:
    """The data of a figure.

    There is a row per depth, conversation or system, and a column per system, or ours and the
    published points.

    Raises:
        DataError: when none of its systems was run.
    """
    of_table = reproduction.scores(figure.part)
    scores = {name: frame for name, frame in of_table.items() if name in figure.systems}
    if not scores:
        raise DataError(
            f"none of the systems {', '.join(figure.systems)} was run: run the figure's table first"
        )
    if figure.kind == "judged":
        points = figure.points if reproduction.table(figure.part).same_turns else {}
        columns: dict[str, list[Any]] = {"system": [], "ours": [], "published": []}
        for name, frame in scores.items():
            columns["system"].append(name)
            columns["ours"].append(frame[figure.measure].mean())
            columns["published"].append(points.get(name, float("nan")))
        return pd.DataFrame(columns)
    turns = list(reproduction.scored(figure.part).qrels["qid"].drop_duplicates())
    measure = our_measures(figure.part)[figure.measure]
    frames = {}
    for name, frame in scores.items():
        frames[name] = pd.DataFrame({"qid": turns, measure: frame[figure.measure]})
    return breakdown(frames, measure=measure, by=figure.kind)


def figure_notes(reproduction: Reproduction, figure: Figure) -> list[str]:
    """Notes for a reader of a figure.

    They are about the figure's systems, not about the others of the table behind it.
    """
    table = reproduction.table(figure.part)
    rows = [row for row in table.rows if row.name in figure.systems]
    scores = {name: frame for name, frame in table.scores.items() if name in figure.systems}
    drawn = replace(table, rows=rows, scores=scores, deviations={})
    notes = []
    for note in drawn.notes_of_a_figure:
        if NOTHING_BESIDE in note and not figure.points:
            continue  # the paper prints no numbers of it, so nothing could stand beside ours
        note = note.removeprefix("* ")
        notes.append(note.replace(NOTHING_BESIDE, "so no published points are drawn"))
    return notes


def draw_figure(reproduction: Reproduction, figure: Figure, path: str | Path) -> Path:
    """Draw a figure into a file.

    Published points are shown next to ours if the paper prints numbers, over equally many turns.
    """
    scores = figure_scores(reproduction, figure)
    if figure.kind == "judged":
        axes = axes_for()
        scores.set_index("system")["ours"].plot.bar(
            ax=axes, color="tab:blue", rot=60, xlabel="", ylabel=figure.measure
        )
        if scores["published"].notna().any():
            axes.plot(range(len(scores)), scores["published"], "kD", label="published")
        axes.legend()
    else:
        axes = plot_breakdown(scores)
    lines = [wrapped(line) for line in (figure.title, *figure_notes(reproduction, figure))]
    axes.figure.text(0.02, -0.02, "\n".join(lines), va="top", fontsize=7)
    saved = save_plot(axes, path)
    from matplotlib import pyplot

    pyplot.close(axes.get_figure(root=True))  # a notebook would show an open figure a second time
    return saved


@dataclass(frozen=True)
class Relabelled:
    """The pairs of a dataset's qrels, which the user's model judges again.

    Attributes:
        matrix: what was published.
        dataset: the dataset of the pairs.
        spec: the model that judges.
        out: the folder that keeps the labels.
        texts: adds the passages' texts by docno.
        prompts: a folder of prompt templates.
    """

    matrix: Matrix
    dataset: Any
    spec: str
    out: Path
    texts: Any = None
    prompts: str | None = None

    @classmethod
    def of(cls, matrix: Matrix, reproduction: Reproduction) -> "Relabelled":
        """The pairs with the user's model in place of the published judge.

        Raises:
            UsageError: when the resources don't have it.
        """
        key = model_key(matrix.judge)
        if key not in reproduction.resources:
            raise UsageError(
                f'the resources lack {key!r}, the judge of this table: add "{key}" = "openai:..."'
            )
        spec = reproduction.resources[key]
        if spec == SAMPLE:
            spec = "recorded:sample"
        data = reproduction.dataset(matrix)
        texts = texts_of(reproduction.index_of("bm25"))
        out = reproduction.root / data.name.replace(":", "-")
        return cls(matrix, data, spec, out, texts, reproduction.prompts)

    @property
    def labels(self) -> Path:
        """The file of the new labels."""
        return self.out / f"labels-{model_key(self.spec)}.txt"

    def judge(self) -> Judge:
        """The model with the paper's one-shot prompt."""
        return Judge(llm(self.spec), prompts=self.prompts)

    @property
    def pairs(self) -> pd.DataFrame:
        """The pairs with the columns that the judge reads."""
        return with_gold(self.dataset.get_qrels()[["qid", "docno"]], self.dataset, self.texts)

    def plan(self) -> PlanTable:
        """The calls that the judge will make."""
        return plan({"judge": self.judge()}, self.pairs)

    def run(self) -> None:
        """Judge the pairs and write the labels. Completions of an earlier call come from the cache.

        Existing labels are not used, because they may come from another snapshot, decoding or
        prompt.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        write_qrels(self.judge().transform(self.pairs), str(self.labels))

    def agreement(self) -> Agreement:
        """The agreement of the new labels with the official ones."""
        return agreement(read_qrels(self.labels), self.dataset.get_qrels(), THRESHOLD)

    def shown(self) -> Table:
        """Our matrix, and the published one if it is about the same pairs.

        Rows are the model's labels, columns the official ones.
        """
        ours = self.agreement()
        confusion = ours.confusion if self.matrix.threshold is None else ours.binary_confusion
        frames = {f"ours, by {self.spec.split()[0]}": self.matrix.frame(confusion)}
        if self._is_published_year:
            frames[f"published, by {self.matrix.judge}"] = self.matrix.frame()
        rows = pd.concat(frames, names=["counts", ""]).reset_index("counts").reset_index(drop=True)
        notes = self._notes(ours)
        title = "The model's labels (rows) against the official ones (columns)"
        columns = of_frame(rows, texts=2).columns
        return Table(rows.assign(notes=" ".join(notes)), columns, notes, title)

    @property
    def _is_published_year(self) -> bool:
        """Whether the official judgements are those of the published counts: NIST's of one year."""
        return str(self.dataset.name) == f"ikat:{self.matrix.year}"

    def _notes(self, ours: Agreement) -> list[str]:
        notes = []
        if self.dataset.name == "ikat:sample":
            notes.append(EVIDENCE)
        official = counted(len(self.dataset.get_qrels()), "pair")
        kappa = format_score(ours.binary_kappa)
        notes.append(
            f"Ours: {ours.pairs} of {official}, binary agreement {ours.binary:.2%}, kappa {kappa}."
        )
        if not self._is_published_year:
            notes.append(
                "No published count stands beside ours: the paper's are about the pairs of "
                f"ikat:{self.matrix.year}."
            )
            return notes
        published = sum(map(sum, self.matrix.counts))
        if published != ours.pairs:
            notes.append(
                f"The published counts are about {counted(published, 'pair')}, a part of the "
                "official ones that isn't published."
            )
        notes.append(self.matrix.said)
        if model_key(self.spec) != model_key(self.matrix.judge):
            notes.append(f"The paper's judge is {self.matrix.judge}.")
        return notes
