"""A paper's systems with the user's resources: planned, run, resumed and scored; and official pairs, judged again by the user's model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from .paper_scores import MINI, TIMES, Given, Judgements, our_measures, response_scores
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
    given_to,
    read_resources,
    resource_differences,
    texts_of,
)
from .table import NOTHING_BESIDE, PaperTable

THRESHOLD = 2
"""Labels below this one count as not relevant (Generate then Retrieve, section 4)."""


class Reproduction:
    """The systems of one paper on a dataset, with the user's resources.

    Args:
        paper: its name, such as ``"nii_2024"``.
        resources: a TOML file, a mapping, or ``"sample"``; see
            :func:`~pyterrier_ikat.papers.published.read_resources`.
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
        self.resources = (
            dict(resources) if isinstance(resources, Mapping) else read_resources(resources)
        )
        self.given = dataset or ("ikat:sample" if self.sample else None)
        self.root, self.prompts, self.repeats = Path(out), self.resources.get("prompts"), repeats
        self.against = Given(qrels, judged_by, turns)
        self.systems = None if systems is None else list(systems)
        known = dict.fromkeys(name for part in self.paper.parts for name in part.systems)
        if unknown := [name for name in self.systems or [] if name not in known]:
            raise UsageError(
                f"no table of this paper has a system {unknown[0]!r}: choose among {', '.join(known)}"
            )

    def index_of(self, key: str) -> Any:
        """The index that replaces one of the papers', or its folder; None if the resources don't have it."""
        self._index()
        return str(self.root / "sample.index") if self.sample else self.resources.get(key)

    def dataset(self, part: PublishedTable | Matrix) -> Any:
        """The dataset on which a part is reproduced."""
        return dataset_named(self.given or f"ikat:{part.year}")

    def out(self, part: PublishedTable) -> Path:
        """The folder of its runs."""
        return self.root / self._folder_name(part)

    def rows(self, part: PublishedTable) -> list[Row]:
        """The systems of a part, in its order."""
        return [
            self._row(part, name)
            for name in part.systems
            if self.systems is None or name in self.systems
        ]

    def _row(self, part: PublishedTable, name: str) -> Row:
        method = find(name)
        if self.sample:
            return Row(method, self._sample_options(method), written=name)
        options, missing = given_to(method, self._resources_of(part))
        return Row(
            method,
            options,
            tuple(missing),
            tuple(resource_differences(method, options)),
            written=name,
        )

    def _resources_of(self, part: PublishedTable) -> dict[str, str]:
        """The user's resources. What they lack are the paper's own completions, and the index beside the runs."""
        if not part.recorded:
            return self.resources
        found = {**part.recorded, **self.resources}
        index = self._index_beside(part)
        if "bm25" not in found and (index.exists() or self.dataset(part).name == MINI):
            found["bm25"] = str(index)
        return found

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
            sample = "give --resources FILE, or --resources sample for the bundled sample"
            raise UsageError(
                f"{part.key} needs models and indexes, because its completions are not public: {sample}"
            )
        if self._index_beside(part).exists() or self.dataset(part).name == MINI:
            return
        name, index = self.dataset(part).name, self._index_beside(part)
        have = f"put its files into {COLLECTION}/ in the folder that {DATA_FOLDER} names, and make it with `ikat index {name} {index}`"
        other = 'an index elsewhere is "bm25" = "FOLDER" in a file for --resources'
        raise UsageError(
            f"{part.key} needs an index of the passages of {name}. {CLUEWEB}; {have}; {other}"
        )

    def _sample_options(self, method: Method) -> dict[str, Any]:
        known: dict[str, Any] = dict(OF_THE_SAMPLE)
        if method.name.endswith("_given_llama"):
            known["second_llm"] = "recorded:sample"
        recorded = llm("recorded:sample")
        known |= {
            "rewriter": Rewrite(recorded, style="llama"),
            "expander": Answer(recorded, style="llama"),
        }
        wanted = (*method.needs, *method.takes)
        return {"index": str(self.root / "sample.index")} | {
            name: value for name, value in known.items() if name in wanted
        }

    def judgements(self, part: PublishedTable) -> Judgements:
        """The judgements with which a part is scored, also of turns that its finished runs were not asked."""
        return self.against.judgements(
            part, self.dataset(part), self._turns(part) if part.about == ANSWERS else []
        )

    def scored(self, part: PublishedTable) -> Judgements:
        """The judgements of the turns that all finished runs of a part were asked.

        Raises:
            DataError: when they have no common turn.
        """
        judged = self.judgements(part)
        asked = asked_of(
            {folder.path.name: folder for _, folders in self._finished(part) for folder in folders}
        )
        turns = choose_turns(judged.qrels["qid"], asked, chosen=self.against.turns is not None)
        qrels = judged.qrels[judged.qrels["qid"].isin(turns.ids)].reset_index(drop=True)
        about = [line for line in (turns.why, *turns.notes) if not OF_ALL.fullmatch(line)]
        return replace(judged, qrels=qrels, about_turns=tuple(about))

    def plan(self, part: PublishedTable) -> PlanTable:
        """The calls that the systems of a part will make."""
        tables = []
        for names, turns, options in self._groups(part):
            tables.append(
                plan(names, self.dataset(part).name, turns=turns, repeats=self.repeats, **options)
            )
        return PlanTable(pd.concat(tables, ignore_index=True)) if tables else PlanTable()

    def beside_the_plan(self, part: PublishedTable) -> list[str]:
        """What a plan doesn't hold: rows that can't be run, and the judges."""
        rows = self.rows(part)
        lines = [f"{row.name} is not run: {row.reason}." for row in rows if row.reason]
        asks = "This plan omits the judges of responses that the resources name: each is asked about every response."
        return lines + [asks] * (part.about == ANSWERS)

    def run(self, part: PublishedTable) -> None:
        """Run the systems of a part. Finished ones are not run again, and stopped ones are resumed."""
        for names, turns, options in self._groups(part):
            run(
                names,
                self.dataset(part).name,
                out=self.out(part),
                turns=turns,
                repeats=self.repeats,
                **options,
            )

    def _turns(self, part: PublishedTable) -> list[str]:
        """The judged turns, and those of the paper's other tables on the same dataset, because one run serves all tables.

        Public completions are of the table's own turns alone.
        """
        data = self.dataset(part)
        same = [part]
        if not part.recorded:
            same = [
                one
                for one in self.paper.parts
                if self.dataset(one).name == data.name and one.about in (PASSAGES, PTKB)
            ]
        judged = {qid for one in same for qid in self.judgements(one).qrels["qid"]}
        return [qid for qid in data.get_topics()["qid"] if qid in judged]

    def _groups(self, part: PublishedTable) -> list[tuple[list[str], list[str], dict[str, Any]]]:
        """The systems that can be run, grouped by equal turns and resources: their names, turns and resources."""
        self._index()
        if part.recorded and "bm25" not in self.resources and self.dataset(part).name == MINI:
            _make_index(self._index_beside(part), MINI)
        rows = [row for row in self.rows(part) if not row.reason]
        judged = self._turns(part) if rows else []
        groups: dict[str, tuple[list[str], list[str], dict[str, Any]]] = {}
        for row in rows:
            options = dict(row.options)
            if self.prompts:
                options["prompts"] = self.prompts
            turns = self._turns_to_run(RunFolder(self.out(part) / row.name), judged)
            key = repr((turns, sorted(options.items(), key=str)))
            groups.setdefault(key, ([], turns, options))[0].append(row.name)
        return list(groups.values())

    def _turns_to_run(self, folder: RunFolder, judged: list[str]) -> list[str]:
        """The turns that a system is run on: its own if it is finished, whatever is judged, or the user's if it lacks some of these."""
        if not folder.complete:
            return judged
        own = folder.turns_so_far()
        if self.against.turns is not None and not set(judged) <= set(own):
            return judged
        return own

    def _index(self) -> None:
        if self.sample:
            _make_index(self.root / "sample.index", "ikat:sample")

    def table(self, part: PublishedTable) -> "PaperTable":
        """The finished systems of a part next to the published scores."""
        judged = self.scored(part)
        runs = self._scored_runs(part, judged)
        table = PaperTable(
            part, self.rows(part), judged, _averaged(runs), self.sample, self.paper.engine
        )
        deviations = {
            name: pd.DataFrame([one.mean() for one in repeats]).std(ddof=1)
            for name, repeats in runs.items()
            if len(repeats) > 1
        }
        return replace(table, repeats=self.repeats, deviations=deviations)

    def scores(self, part: PublishedTable) -> dict[str, pd.DataFrame]:
        """System -> a score for each scored turn and measure, with the paper's names; of several runs, each turn's mean."""
        return _averaged(self._scored_runs(part, self.scored(part)))

    def _finished(self, part: PublishedTable) -> list[tuple[Row, list[RunFolder]]]:
        """The rows all of whose runs are finished, with the folders of these runs."""
        found = []
        for row in self.rows(part):
            folders = [RunFolder(self.out(part) / name) for name in row.folders(self.repeats)]
            if not row.reason and all(folder.complete for folder in folders):
                found.append((row, folders))
        return found

    def _scored_runs(
        self, part: PublishedTable, judged: Judgements
    ) -> dict[str, list[pd.DataFrame]]:
        """System -> the scores of each of its runs, if all of them are finished and write what the part is about."""
        found = {}
        for row, folders in self._finished(part):
            scores = [self._scored(part, folder, row, judged.qrels) for folder in folders]
            scored = [one for one in scores if one is not None]
            if scored:
                found[row.name] = scored
        return found

    def _scored(
        self, part: PublishedTable, folder: RunFolder, row: Row, qrels: pd.DataFrame
    ) -> pd.DataFrame | None:
        """The scores of a finished run; None if it doesn't write what the part is about."""
        if part.about == ANSWERS:
            data, qids = self.dataset(part), list(qrels["qid"].drop_duplicates())
            return response_scores(
                folder.path, data, qids, self.resources, texts_of(row.options.get("index"))
            )
        measures = our_measures(part)
        ranking = folder.results() if part.about == PASSAGES else statement_ranking(folder.path)
        if part.about == PTKB and ranking.empty:
            return None
        scores = per_turn(ranking, qrels, list(measures.values()))
        return pd.DataFrame(
            {name: scores[ours] * TIMES.get(name, 1) for name, ours in measures.items()}
        )


def _make_index(path: Path, dataset: str) -> None:
    """Index the passages of a dataset for BM25, unless the index is there."""
    if not path.exists():
        PassageIndex(path).index(dataset_named(dataset).get_corpus_iter(verbose=False))


def _averaged(runs: Mapping[str, Sequence[pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """The mean of each turn over the runs of a system."""
    return {
        name: repeats[0] if len(repeats) == 1 else pd.concat(repeats).groupby(level=0).mean()
        for name, repeats in runs.items()
    }


def figure_scores(reproduction: Reproduction, figure: Figure) -> pd.DataFrame:
    """The data of a figure: a row per depth, conversation or system, and a column per system, or ours and the published points.

    Raises:
        DataError: when none of its systems was run.
    """
    scores = {
        name: frame
        for name, frame in reproduction.scores(figure.part).items()
        if name in figure.systems
    }
    if not scores:
        raise DataError(
            f"none of the systems {', '.join(figure.systems)} was run: run the figure's table first"
        )
    if figure.kind == "judged":
        table = pd.DataFrame(
            {
                "system": list(scores),
                "ours": [frame[figure.measure].mean() for frame in scores.values()],
            }
        )
        points = figure.points if reproduction.table(figure.part).same_turns else {}
        return table.assign(published=[points.get(name, float("nan")) for name in scores])
    turns = list(reproduction.scored(figure.part).qrels["qid"].drop_duplicates())
    measure = our_measures(figure.part)[figure.measure]
    frames = {
        name: pd.DataFrame({"qid": turns, measure: frame[figure.measure]})
        for name, frame in scores.items()
    }
    return breakdown(frames, measure=measure, by=figure.kind)


def figure_notes(reproduction: Reproduction, figure: Figure) -> list[str]:
    """What a reader of a figure must know: of its own systems, and not of the others of the table behind it."""
    whole = reproduction.table(figure.part)
    drawn = replace(
        whole,
        rows=[row for row in whole.rows if row.name in figure.systems],
        scores={name: scores for name, scores in whole.scores.items() if name in figure.systems},
        deviations={},
    )
    notes = []
    for note in drawn.notes_of_a_figure:
        if NOTHING_BESIDE in note and not figure.points:
            continue  # the paper prints no numbers of it, so nothing could stand beside ours
        notes.append(
            note.removeprefix("* ").replace(NOTHING_BESIDE, "so no published points are drawn")
        )
    return notes


def draw_figure(reproduction: Reproduction, figure: Figure, path: str | Path) -> Path:
    """Draw a figure into a file. Published points are shown next to ours if the paper prints numbers, over equally many turns."""
    table = figure_scores(reproduction, figure)
    if figure.kind == "judged":
        axes = axes_for()
        table.set_index("system")["ours"].plot.bar(
            ax=axes, color="tab:blue", rot=60, xlabel="", ylabel=figure.measure
        )
        if table["published"].notna().any():
            axes.plot(range(len(table)), table["published"], "kD", label="published")
        axes.legend()
    else:
        axes = plot_breakdown(table)
    said = "\n".join(wrapped(note) for note in (figure.title, *figure_notes(reproduction, figure)))
    axes.figure.text(0.02, -0.02, said, va="top", fontsize=7)
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
    def of(cls, matrix: Matrix, made: Reproduction) -> "Relabelled":
        """The pairs with the user's model in place of the published judge.

        Raises:
            UsageError: when the resources don't have it.
        """
        key, data = model_key(matrix.judge), made.dataset(matrix)
        if key not in made.resources:
            raise UsageError(
                f'the resources lack {key!r}, the judge of this table: add "{key}" = "openai:..."'
            )
        spec = "recorded:sample" if made.resources[key] == "sample" else made.resources[key]
        texts = texts_of(made.index_of("bm25"))
        return cls(matrix, data, spec, made.root / data.name.replace(":", "-"), texts, made.prompts)

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

    def found(self) -> Agreement:
        """The agreement of the new labels with the official ones."""
        return agreement(read_qrels(self.labels), self.dataset.get_qrels(), THRESHOLD)

    def shown(self) -> Table:
        """Our matrix, and the published one if it is about the same pairs. Rows are the model's labels, columns the official ones."""
        # the published counts are about the same official judgements only where they are those of
        # NIST for the same year
        found, beside = self.found(), str(self.dataset.name) == f"ikat:{self.matrix.year}"
        ours = self.matrix.frame(
            found.confusion if self.matrix.threshold is None else found.binary_confusion
        )
        tables = {f"ours, by {self.spec.split()[0]}": ours}
        if beside:
            tables[f"published, by {self.matrix.judge}"] = self.matrix.frame()
        rows = pd.concat(tables, names=["counts", ""]).reset_index("counts").reset_index(drop=True)
        notes, title = (
            self._notes(found, beside),
            "The model's labels (rows) against the official ones (columns)",
        )
        return Table(
            rows.assign(notes=" ".join(notes)), of_frame(rows, texts=2).columns, notes, title
        )

    def _notes(self, found: Agreement, beside: bool) -> list[str]:
        official, published, judge = (
            len(self.dataset.get_qrels()),
            sum(map(sum, self.matrix.counts)),
            self.matrix.judge,
        )
        agreed = f"binary agreement {found.binary:.2%}, kappa {format_score(found.binary_kappa)}"
        notes = [EVIDENCE] * (self.dataset.name == "ikat:sample")
        notes.append(f"Ours: {found.pairs} of {counted(official, 'pair')}, {agreed}.")
        if not beside:
            return [
                *notes,
                f"No published count stands beside ours: the paper's are about the pairs of ikat:{self.matrix.year}.",
            ]
        if published != found.pairs:
            notes.append(
                f"The published counts are about {counted(published, 'pair')}, a part of the official ones that isn't published."
            )
        return [
            *notes,
            self.matrix.said,
            *[f"The paper's judge is {judge}."] * (model_key(self.spec) != model_key(judge)),
        ]
