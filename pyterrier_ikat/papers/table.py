"""A paper's table: our scores next to the published ones, as a frame, text, LaTeX, Markdown, CSV or HTML; or as it was published."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from ..conversations.public_outputs import OUTPUTS, turn_lists, whose
from ..errors import UsageError, counted, option
from ..evaluation.experiment_table import pairs_that_differ
from ..evaluation.units import independent
from ..methods.catalogue import PublishedTable, find
from ..prompts import FOLDER
from ..tables import Table, format_score, of_frame
from .paper_scores import TIMES, Judgements
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
NOTHING_OF_OURS = "Published scores only. With --resources FILE, ours are computed and shown beside those that they compare with."
NOTHING_BESIDE = "so no differences and no significance are shown"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PUBLISHED_LETTERS = "Published letters: the systems of its block that a score differs from, as printed; those after a semicolon are of another block."
OUR_LETTERS = (
    "Letters of ours: the systems of its block that a score differs from. The test is the papers' own, a paired t-test over turns taken as "
    "independent, Bonferroni, p < .05; `ikat evaluate` has one that is robust to conversations."
)


@dataclass(frozen=True, repr=False)
class PaperTable:
    """A table of a paper: our scores, the published ones, and their difference if both can be compared.

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
        """Over how many turns our scores average."""
        return 0 if self.judgements is None else int(self.judgements.qrels["qid"].nunique())

    @property
    def beside(self) -> bool:
        """Whether published scores are shown next to ours: the year and the kind of judgement are the same."""
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
        published, rows = self.part.frame(), []
        for row in self.rows:
            theirs = published.loc[row.name]
            if row.name in self.scores:
                ours = self.scores[row.name].mean()
                rows.append(
                    {
                        "system": row.name + "*" * bool(row.notes),
                        "scores": "ours",
                        **ours,
                        "turns": self.turns,
                    }
                )
            if row.name in self.deviations:
                rows.append(
                    {
                        "system": row.name,
                        "scores": SPREAD,
                        **self.deviations[row.name],
                        "turns": None,
                    }
                )
            if self.beside or not self.scores:
                rows.append(
                    {"system": row.name, "scores": "published", **theirs, "turns": self.part.turns}
                )
            if row.name in self.scores and self.same_turns:
                rows.append(
                    {"system": row.name, "scores": "difference", **(ours - theirs), "turns": None}
                )
        if self.beside and [row.name for row in self.rows] == self.part.systems:
            others = published.loc[self.part.only_published]
            rows += [
                {"system": name, "scores": "published", **one, "turns": self.part.turns}
                for name, one in others.iterrows()
            ]
        return pd.DataFrame(rows, columns=["system", "scores", *self.part.measures, "turns"])

    def significant(self) -> dict[tuple[str, str], str]:
        """(system, measure) -> the letters of the systems in its blocks from which it differs.

        Two-sided paired t-tests over the turns for each pair of a block that was run, with
        Bonferroni correction over these pairs, p < .05: the papers' own test, which takes turns as
        independent. There are none if we have fewer or more turns than the paper.
        """
        found = defaultdict[tuple[str, str], set[str]](set)
        for block in self.part.blocks or [tuple(self.part.systems)] if self.same_turns else []:
            run_ones = [name for name in block if name in self.scores]
            for measure in self.part.measures:
                scores = {name: self.scores[name][measure].tolist() for name in run_ones}
                for first, second in pairs_that_differ(scores, independent(self.turns)):
                    found[first, measure].add(self._letter(second))
                    found[second, measure].add(self._letter(first))
        return {key: "".join(sorted(letters)) for key, letters in found.items()}

    def _letter(self, name: str) -> str:
        return LETTERS[list(self.part.frame().index).index(name)]

    @property
    def notes(self) -> list[str]:
        """What a reader must know: what differs, what is missing, and which rows can't be run."""
        part, letters = (
            self.part,
            [PUBLISHED_LETTERS] * bool(self.beside and self.part.letters().to_numpy().any()),
        )
        if self.judgements is None:
            turns, others = part.turns or "an unknown number of", ", ".join(part.only_published)
            scored = f"Means over {turns} turns of iKAT {part.year}, judged by {part.judgements}; the first stage ran on {self.engine}."
            return [
                NOTHING_OF_OURS,
                scored,
                *letters,
                *[f"Without a method here: {others}."] * bool(others),
            ]
        return [*self.notes_of_a_figure[1:], *letters, *[OUR_LETTERS] * bool(self.significant())]

    @property
    def notes_of_a_figure(self) -> list[str]:
        """Like :attr:`notes`, but for a figure of these scores: without the marks of significance, and with the number of turns."""
        assert self.judgements is not None
        reason, listed = self.judgements.differ_from(self.part), self.judgements.listed
        notes = [f"Ours: {counted(self.turns, 'turn')}."]
        notes += self.judgements.about_turns
        if self.deviations:
            notes.append(
                f"Ours are means of {self.repeats} runs; {SPREAD}: the standard deviation of their scores (n - 1)."
            )
        notes += self._replayed()
        notes += (
            [EVIDENCE]
            if self.sample
            else [f"No published score stands beside ours: {reason}."] * bool(reason)
        )
        if self.beside and not self.same_turns:
            theirs = self.part.turns or "an unknown number of"
            notes.append(
                f"Ours are means over {counted(self.turns, 'turn')}, the published scores over {theirs}, which are not published: "
                f"{NOTHING_BESIDE}. {option('turns')} names the turns."
            )
        notes += self._unjudged()
        if listed:
            about = turn_lists()[listed]
            notes.append(f"Turns, as none are given: {listed}, {about.about} ({about.source}).")
        if self.part.about == ANSWERS:
            notes.append(
                "LLMeval: the share of responses that say what the gold answer says, which the track's is inferred to be; "
                "BEM: that of the user's classifier."
            )
            notes += self._without_judges()
        if self.judgements.unjudged:
            notes.append(
                f"{self.judgements.unjudged} of the turns of {listed or 'turns='} are not judged, and left out."
            )
        notes += [f"The paper's first stage ran on {self.engine}."] * bool(
            self.engine and not self.sample
        )
        notes += [f"{row.name}: {reason}." for row in self.rows if (reason := self._unscored(row))]
        notes += [note for row in self.rows for note in self._on_fewer_turns(row)]
        systems: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                systems.setdefault(note, []).append(row.name)
        return notes + [f"* {note} ({', '.join(names)})" for note, names in systems.items()]

    def _replayed(self) -> list[str]:
        """Whose completions our systems replay, if they are the paper's own."""
        used = {
            str(row.options.get("llm", "")).partition(" ")[0]
            for row in self.rows
            if row.name in self.scores
        }
        notes = []
        for spec in self.part.recorded.values():
            sources = {
                one.source
                for one in OUTPUTS.values()
                if one.name.startswith(spec.removeprefix("recorded:"))
            }
            if spec in used:
                notes += [
                    f"Completions: {spec}, the authors' own, {whose(source)}." for source in sources
                ]
        return notes

    def _unjudged(self) -> list[str]:
        """How many of the first ten passages are unjudged, over the rows whose runs weren't in the track's own pool."""
        published = self.part.frame().get(JUDGED, {})
        later = [row.name for row in self.rows if published.get(row.name, 10) < 10]
        if not later:
            return []
        scored = [name for name in later if name in self.scores] or later
        shares = (
            [
                f"ours {1 - sum(self.scores[name][JUDGED].mean() for name in scored) / len(scored) / 10:.2%}"
            ]
            if self.scores
            else []
        )
        if self.beside and scored == later:
            shares.append(f"published {1 - published[later].mean() / 10:.2%}")
        rows = "the row" if len(scored) == 1 else f"the {len(scored)} rows"
        return [
            f"Unjudged in the top 10, over {rows} outside the track's pool: {', '.join(shares)}."
        ] * bool(shares)

    def _without_judges(self) -> list[str]:
        """The columns without a score of ours, and the keys of the judges that fill them."""
        empty = []
        for measure in self.part.measures:
            values = [scores[measure] for scores in self.scores.values()]
            if values and all(of_run.isna().all() for of_run in values):
                empty.append(measure)
        if not empty:
            return []
        keys = [f"{measure} by {JUDGES[measure]!r}" for measure in empty if JUDGES.get(measure)]
        return [
            f"Columns that no judge filled: {', '.join(keys)}. A resources file names judges by these keys, as in "
            '"groundedness" = "openai:MODEL"; \'bem\' is the folder of a classifier, and R-Nuggets needs turns with nuggets.'
        ]

    def _unscored(self, row: Row) -> str:
        """Why a row has no score of ours; empty if it has one."""
        if row.reason:
            return f"not run, {row.reason}"
        return (
            "" if row.name in self.scores else f"it wrote no {self.part.about}, or is not run yet"
        )

    def _on_fewer_turns(self, row: Row) -> list[str]:
        """The means over fewer turns than the table says, because a judge gave no value for some."""
        counts = self.scores[row.name].notna().sum().items() if row.name in self.scores else []
        return [
            f"{row.name}, {measure}: a mean over {counted(count, 'turn')}, the judge gave no value on the others."
            for measure, count in counts
            if 0 < count < self.turns
        ]

    def shown(self) -> Table:
        """The table as it is shown. Its frame has a column of notes."""
        frame = (
            self.frame.drop(columns=["scores", "turns"]) if self.judgements is None else self.frame
        )
        shown = frame.astype(object)
        ours, theirs = self.significant(), self.part.letters()
        lettered = self.part.blocks and self.same_turns or (self.beside and theirs.to_numpy().any())
        for place, line in enumerate(self.frame.to_dict("records")):
            name, which = line["system"].rstrip("*"), line["scores"]
            for measure in self.part.measures:
                mark = {
                    "ours": ours.get((name, measure), ""),
                    "published": theirs.loc[name, measure],
                }.get(which, "")
                shown.loc[place, measure] = (
                    f"{_cell(line[measure], measure, which)} {mark}".rstrip()
                )
            shown.loc[place, "system"] = (
                f"({self._letter(name)}) {line['system']}" if lettered else line["system"]
            )
        if "turns" in shown:
            shown["turns"] = [
                "" if turns != turns else str(int(turns)) for turns in frame["turns"].astype(float)
            ]
        notes = self.notes
        return Table(
            frame.assign(notes=" ".join(notes)),
            of_frame(shown, texts=frame.columns.get_loc(self.part.measures[0])).columns,
            notes,
            self.title,
        )

    def written(self, form: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex`` or ``csv``, each with its notes."""
        return self.shown().written(form)

    def __repr__(self) -> str:
        return self.written()

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    @property
    def title(self) -> str:
        """The paper, the table, and what it is about."""
        if self.judgements is None:
            return self.part.paper
        return f"{self.part.paper} (the paper: iKAT {self.part.year}, {self.part.about}, judged by {self.part.judgements})"


def _cell(value: float, measure: str, which: str) -> str:
    if value != value:
        return "-"
    return f"{value:.2f}" if measure in TIMES else format_score(value, signed=which == "difference")


# As published, without a model, an index or a run


def published_tables(name: str, number: str) -> list[Table]:
    """The tables of a paper as published, one for each kind of judgements in it. ``.frame`` has the values.

    For a table of prompts, it names our prompts instead, because the paper's sentences belong to
    its authors.

    Raises:
        UsageError: when there is no such paper or table, or the paper prints no numbers of a
            figure.

    Example:
        >>> [table] = published_tables("nii_2024", "4")
        >>> table.frame.columns.tolist()
        ['system', 'nDCG@5', 'P@5', 'Recall@5', 'notes']
    """
    what = find_table(name, number)
    if isinstance(what, Matrix):
        return [_matrix(what)]
    if isinstance(what, Listing):
        frame = pd.DataFrame([row.split("; ") for row in what.rows], columns=list(what.columns))
        return [
            of_frame(
                frame,
                ["As in the paper's table. `ikat methods NAME` shows what each is made of here."],
            )
        ]
    if isinstance(what, Prompts):
        return [_prompts(what)]
    if isinstance(what, Figure):
        return [_points(name, number, what)]
    engine = find_paper(name).engine
    return [
        PaperTable(
            part, [Row(find(system), {}, written=system) for system in part.systems], engine=engine
        ).shown()
        for part in what
    ]


def _matrix(matrix: Matrix) -> Table:
    frame, notes = matrix.frame(), [NOTHING_OF_OURS, matrix.said]
    title = f"Labels of {matrix.judge} (rows) against NIST's (columns), iKAT {matrix.year}"
    return Table(
        frame.assign(notes=" ".join(notes)), of_frame(frame, texts=1).columns, notes, title
    )


def _prompts(prompts: Prompts) -> Table:
    texts = {
        f"{name}.jinja": (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
        for name in prompts.templates
    }
    lines = [
        (file, line) for file, text in texts.items() for line in text.splitlines() if line.strip()
    ]
    shown = pd.DataFrame(
        [
            ("" if lines[place - 1][0] == file and place else file, line)
            for place, (file, line) in enumerate(lines)
        ]
    )
    note = "Our templates, which stand for the paper's prompts: same inputs, order, limits and form of answer, but worded by us."
    columns = of_frame(shown.set_axis(["template", "text"], axis=1), texts=2).columns
    return Table(
        pd.DataFrame(texts.items(), columns=["template", "text"]),
        columns,
        [note, f"{prompts.what}."],
    )


def _points(name: str, number: str, figure: Figure) -> Table:
    if not figure.points:
        raise UsageError(
            f"{name} prints no numbers of {number}: give --resources FILE, or --resources sample, to draw ours"
        )
    frame = pd.DataFrame(
        {"system": list(figure.points), figure.measure: list(figure.points.values())}
    )
    return of_frame(frame, [NOTHING_OF_OURS, f"From {figure.part.paper}."], decimals=2)
