"""A paper's table: our scores next to the published ones, or the table as it was published."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from ..conversations.public_outputs import OUTPUTS, origin_of, turn_lists
from ..errors import UsageError, counted, option
from ..evaluation.experiment_table import pairs_that_differ
from ..evaluation.units import independent
from ..methods.catalogue import PublishedTable, find
from ..prompts import FOLDER
from ..tables import Table, format_score, of_frame
from .paper_scores import FACTORS, Judgements
from .published import (
    ANSWERS,
    EVIDENCE,
    JUDGES,
    Figure,
    Listing,
    Matrix,
    Prompts,
    Row,
    find_paper,
    find_table,
)

JUDGED = "Judged@10"
SPREAD = "± of ours"
"""The row of the standard deviations of our runs."""
NOTHING_OF_OURS = (
    "Published scores only. With --resources FILE, ours are computed and shown beside those that "
    "they compare with."
)
NOTHING_BESIDE = "so no differences and no significance are shown"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PUBLISHED_LETTERS = (
    "Published letters: the systems of its block that a score differs from, as printed; those "
    "after a semicolon are of another block."
)
OUR_LETTERS = (
    "Letters of ours: the systems of its block that a score differs from. The test is the papers' "
    "own, a paired t-test over turns taken as independent, Bonferroni, p < .05; `ikat evaluate` "
    "has one that is robust to conversations."
)


@dataclass(frozen=True, repr=False)
class PaperTable:
    """A table of a paper: our scores, the published ones, and differences of comparable scores.

    Attributes:
        part: what was published.
        rows: the systems.
        judgements: the judgements of our scores; None for the table as published, without any of
            ours.
        scores: system -> a score for each judged turn, with the paper's measures.
        sample: whether this is the bundled sample.
        engine: the search engine of the paper's first stage.
        repeats: how many runs of a system its scores are means of.
        deviations: system -> the standard deviation over its runs, if there are several.
    """

    part: PublishedTable
    rows: Sequence[Row]
    judgements: Judgements | None = None
    scores: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    sample: bool = False
    engine: str = ""
    repeats: int = 1
    deviations: Mapping[str, pd.Series] = field(default_factory=dict)

    @cached_property
    def turns(self) -> int:
        """The number of turns over which our scores average."""
        return 0 if self.judgements is None else int(self.judgements.qrels["qid"].nunique())

    @property
    def beside(self) -> bool:
        """Whether published scores are shown next to ours.

        The year and the kind of judgement are then the same.
        """
        return self.judgements is None or not self.judgements.differ_from(self.part)

    @property
    def same_turns(self) -> bool:
        """Whether both are means over equally many turns, so that a difference is meaningful."""
        return self.judgements is not None and self.beside and self.turns == self.part.turns

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Up to four rows per system, with a column per measure and the number of turns.

        ``ours``; ``± of ours``, the standard deviation over several runs; ``published``;
        ``difference``.
        """
        rows: list[dict[str, Any]] = []

        def add(system: str, scores: str, values: pd.Series, turns: int | None = None) -> None:
            rows.append({"system": system, "scores": scores, **values, "turns": turns})

        published = self.part.frame()
        for row in self.rows:
            theirs = published.loc[row.name]
            ours = None
            if row.name in self.scores:
                ours = self.scores[row.name].mean()
                add(f"{row.name}*" if row.notes else row.name, "ours", ours, self.turns)
            if row.name in self.deviations:
                add(row.name, SPREAD, self.deviations[row.name])
            if self.beside or not self.scores:
                add(row.name, "published", theirs, self.part.turns)
            if ours is not None and self.same_turns:
                add(row.name, "difference", ours - theirs)
        if self.beside and [row.name for row in self.rows] == self.part.systems:
            for name, theirs in published.loc[self.part.only_published].iterrows():
                add(str(name), "published", theirs, self.part.turns)
        return pd.DataFrame(rows, columns=["system", "scores", *self.part.measures, "turns"])

    def significant(self) -> dict[tuple[str, str], str]:
        """(system, measure) -> the letters of the systems in its blocks from which it differs.

        Two-sided paired t-tests over the turns for each pair of a block that was run, with
        Bonferroni correction over these pairs, p < .05: the papers' own test, which takes turns as
        independent. There are none if we have fewer or more turns than the paper.
        """
        if not self.same_turns:
            return {}
        letters = defaultdict[tuple[str, str], set[str]](set)
        clusters = independent(self.turns)
        for block in self.part.blocks or [tuple(self.part.systems)]:
            systems = [name for name in block if name in self.scores]
            for measure in self.part.measures:
                scores = {name: self.scores[name][measure].tolist() for name in systems}
                for first, second in pairs_that_differ(scores, clusters):
                    letters[first, measure].add(self._letter(second))
                    letters[second, measure].add(self._letter(first))
        return {key: "".join(sorted(of_cell)) for key, of_cell in letters.items()}

    def _letter(self, name: str) -> str:
        return LETTERS[list(self.part.frame().index).index(name)]

    @property
    def notes(self) -> list[str]:
        """Notes for a reader: what differs, what is missing, and which rows can't be run."""
        part = self.part
        if self.judgements is None:
            turns = part.turns or "an unknown number of"
            notes = [
                NOTHING_OF_OURS,
                f"Means over {turns} turns of iKAT {part.year}, judged by {part.judgements}; "
                f"the first stage ran on {self.engine}.",
            ]
        else:
            notes = self._notes_on_scores(self.judgements)
        if self.beside and part.letters().to_numpy().any():
            notes.append(PUBLISHED_LETTERS)
        if self.judgements is None and part.only_published:
            notes.append(f"Without a method here: {', '.join(part.only_published)}.")
        if self.significant():
            notes.append(OUR_LETTERS)
        return notes

    @property
    def notes_of_a_figure(self) -> list[str]:
        """Like :attr:`notes`, but for a figure of these scores.

        They have the number of turns, and not the marks of significance.
        """
        assert self.judgements is not None
        return [
            f"Ours: {counted(self.turns, 'turn')}.",
            *self._notes_on_scores(self.judgements),
        ]

    def _notes_on_scores(self, judgements: Judgements) -> list[str]:
        """Notes on our scores: their turns, models and judgements, and rows without a score."""
        notes = list(judgements.about_turns)
        if self.deviations:
            notes.append(
                f"Ours are means of {self.repeats} runs; {SPREAD}: the standard deviation of their "
                "scores (n - 1)."
            )
        notes += self._replayed()
        notes += self._notes_on_comparison(judgements)
        notes += self._unjudged()
        notes += self._notes_on_turns(judgements)
        if self.engine and not self.sample:
            notes.append(f"The paper's first stage ran on {self.engine}.")
        for row in self.rows:
            reason = self._unscored(row)
            if reason:
                notes.append(f"{row.name}: {reason}.")
        for row in self.rows:
            notes += self._on_fewer_turns(row)
        systems: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                systems.setdefault(note, []).append(row.name)
        for note, names in systems.items():
            notes.append(f"* {note} ({', '.join(names)})")
        return notes

    def _notes_on_comparison(self, judgements: Judgements) -> list[str]:
        """Why published scores don't stand beside ours, or no differences are shown."""
        notes = []
        reason = judgements.differ_from(self.part)
        if self.sample:
            notes.append(EVIDENCE)
        elif reason:
            notes.append(f"No published score stands beside ours: {reason}.")
        if self.beside and not self.same_turns:
            theirs = self.part.turns or "an unknown number"
            notes.append(
                f"Ours are means over {counted(self.turns, 'turn')}, the published scores over "
                f"{theirs}, which are not published: {NOTHING_BESIDE}. {option('turns')} names the "
                "turns."
            )
        return notes

    def _notes_on_turns(self, judgements: Judgements) -> list[str]:
        """The list of turns behind our scores, the judges of responses, and unjudged turns."""
        notes = []
        if judgements.listed:
            turns = turn_lists()[judgements.listed]
            notes.append(
                f"Turns, as none are given: {judgements.listed}, {turns.about} ({turns.source})."
            )
        if self.part.about == ANSWERS:
            notes.append(
                "LLMeval: the share of responses that say what the gold answer says, which the "
                "track's is inferred to be; BEM: that of the user's classifier."
            )
            notes += self._without_judges()
        if judgements.unjudged:
            turns_of = judgements.listed or "turns="
            notes.append(
                f"{judgements.unjudged} of the turns of {turns_of} are not judged, and left out."
            )
        return notes

    def _replayed(self) -> list[str]:
        """Sentences on the paper's own completions that our systems replay."""
        specs = set()
        for row in self.rows:
            if row.name in self.scores:
                specs.add(str(row.options.get("llm", "")).partition(" ")[0])
        notes = []
        for spec in self.part.recorded.values():
            if spec not in specs:
                continue
            name = spec.removeprefix("recorded:")
            sources = {output.source for output in OUTPUTS.values() if output.name.startswith(name)}
            for source in sources:
                notes.append(f"Completions: {spec}, the authors' own, {origin_of(source)}.")
        return notes

    def _unjudged(self) -> list[str]:
        """A sentence on the unjudged share of the first ten passages.

        It is over rows of runs outside the track's own pool.
        """
        published = self.part.frame().get(JUDGED, {})
        outside = [row.name for row in self.rows if published.get(row.name, 10) < 10]
        if not outside:
            return []
        scored = [name for name in outside if name in self.scores]
        shares = []
        if scored:
            judged = sum(self.scores[name][JUDGED].mean() for name in scored) / len(scored)
            shares.append(f"ours {1 - judged / 10:.2%}")
        if self.beside and scored in ([], outside):
            shares.append(f"published {1 - published[outside].mean() / 10:.2%}")
        if not shares:
            return []
        count = len(scored or outside)
        rows = "the row" if count == 1 else f"the {count} rows"
        return [
            f"Unjudged in the top 10, over {rows} outside the track's pool: {', '.join(shares)}."
        ]

    def _without_judges(self) -> list[str]:
        """A sentence on the columns without a score of ours, with the keys of their judges."""
        empty = []
        for measure in self.part.measures:
            values = [scores[measure] for scores in self.scores.values()]
            if values and all(of_run.isna().all() for of_run in values):
                empty.append(measure)
        if not empty:
            return []
        keys = [f"{measure} by {JUDGES[measure]!r}" for measure in empty if JUDGES.get(measure)]
        return [
            f"Columns that no judge filled: {', '.join(keys)}. A resources file names judges by "
            'these keys, as in "groundedness" = "openai:MODEL"; \'bem\' is the folder of a '
            "classifier, and R-Nuggets needs turns with nuggets."
        ]

    def _unscored(self, row: Row) -> str:
        """The reason why a row has no score of ours; empty if it has one."""
        if row.reason:
            return f"not run, {row.reason}"
        if row.name in self.scores:
            return ""
        return f"it wrote no {self.part.about}, or is not run yet"

    def _on_fewer_turns(self, row: Row) -> list[str]:
        """Sentences on means over fewer turns, because a judge gave no value for some."""
        if row.name not in self.scores:
            return []
        notes = []
        for measure, count in self.scores[row.name].notna().sum().items():
            if 0 < count < self.turns:
                notes.append(
                    f"{row.name}, {measure}: a mean over {counted(count, 'turn')}, the judge gave "
                    "no value on the others."
                )
        return notes

    def shown(self) -> Table:
        """The table as it is shown. Its frame has a column of notes."""
        frame = self.frame
        if self.judgements is None:
            frame = frame.drop(columns=["scores", "turns"])
        shown = frame.astype(object)
        our_letters = self.significant()
        their_letters = self.part.letters()
        lettered = self.beside and their_letters.to_numpy().any()
        if self.part.blocks and self.same_turns:
            lettered = True
        for number, line in enumerate(self.frame.to_dict("records")):
            name = line["system"].rstrip("*")
            if lettered:
                shown.loc[number, "system"] = f"({self._letter(name)}) {line['system']}"
            for measure in self.part.measures:
                letters = ""
                if line["scores"] == "ours":
                    letters = our_letters.get((name, measure), "")
                elif line["scores"] == "published":
                    letters = their_letters.loc[name, measure]
                cell = _cell(line[measure], measure, line["scores"])
                shown.loc[number, measure] = f"{cell} {letters}".rstrip()
        if "turns" in shown:
            turns = frame["turns"].astype(float)
            shown["turns"] = ["" if math.isnan(number) else str(int(number)) for number in turns]
        notes = self.notes
        texts = frame.columns.get_loc(self.part.measures[0])  # the columns before the scores
        columns = of_frame(shown, texts=texts).columns
        return Table(frame.assign(notes=" ".join(notes)), columns, notes, self.title)

    def written(self, form: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex`` or ``csv``, each with its notes."""
        return self.shown().written(form)

    def __repr__(self) -> str:
        return self.written()

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    @property
    def title(self) -> str:
        """The paper, the table, and its subject."""
        part = self.part
        if self.judgements is None:
            return part.paper
        return (
            f"{part.paper} (the paper: iKAT {part.year}, {part.about}, judged by {part.judgements})"
        )


def _cell(value: float, measure: str, scores: str) -> str:
    if math.isnan(value):
        return "-"
    if measure in FACTORS:
        return f"{value:.2f}"
    return format_score(value, signed=scores == "difference")


# As published, without a model, an index or a run


def published_tables(name: str, number: str) -> list[Table]:
    """The tables of a paper as published, one for each kind of judgements in it.

    ``.frame`` has the values. For a table of prompts, it names our prompts instead, because the
    paper's sentences belong to its authors.

    Raises:
        UsageError: when there is no such paper or table, or the paper prints no numbers of a
            figure.

    Example:
        >>> [table] = published_tables("nii_2024", "4")
        >>> table.frame.columns.tolist()
        ['system', 'nDCG@5', 'P@5', 'Recall@5', 'notes']
    """
    table = find_table(name, number)
    if isinstance(table, Matrix):
        return [_matrix(table)]
    if isinstance(table, Listing):
        frame = pd.DataFrame([row.split("; ") for row in table.rows], columns=list(table.columns))
        note = "As in the paper's table. `ikat methods NAME` shows what each is made of here."
        return [of_frame(frame, [note])]
    if isinstance(table, Prompts):
        return [_prompts(table)]
    if isinstance(table, Figure):
        return [_points(name, number, table)]
    engine = find_paper(name).engine
    tables = []
    for part in table:
        rows = [Row(find(system), {}, written=system) for system in part.systems]
        tables.append(PaperTable(part, rows, engine=engine).shown())
    return tables


def _matrix(matrix: Matrix) -> Table:
    frame = matrix.frame()
    notes = [NOTHING_OF_OURS, matrix.said]
    title = f"Labels of {matrix.judge} (rows) against NIST's (columns), iKAT {matrix.year}"
    columns = of_frame(frame, texts=1).columns
    return Table(frame.assign(notes=" ".join(notes)), columns, notes, title)


def _prompts(prompts: Prompts) -> Table:
    templates = []
    lines = []
    for name in prompts.templates:
        file = f"{name}.jinja"
        text = (FOLDER / file).read_text(encoding="utf-8")
        templates.append((file, text))
        title = file  # before its first line
        for line in text.splitlines():
            if line.strip():
                lines.append((title, line))
                title = ""
    columns = of_frame(pd.DataFrame(lines, columns=["template", "text"]), texts=2).columns
    notes = [
        "Our templates, which stand for the paper's prompts: same inputs, order, limits and form "
        "of answer, but worded by us.",
        f"{prompts.what}.",
    ]
    return Table(pd.DataFrame(templates, columns=["template", "text"]), columns, notes)


def _points(name: str, number: str, figure: Figure) -> Table:
    points = figure.points
    if not points:
        raise UsageError(
            f"{name} prints no numbers of {number}: give --resources FILE, or --resources sample, "
            "to draw ours"
        )
    frame = pd.DataFrame({"system": list(points), figure.measure: list(points.values())})
    return of_frame(frame, [NOTHING_OF_OURS, f"From {figure.part.paper}."], decimals=2)
