"""Second values and rare branches of the base: two of a thing count where one would be usual."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from terminals import Terminal, terminals

import pyterrier_ikat as ikat
from pyterrier_ikat import events, names, progress
from pyterrier_ikat.arguments import Checked, checked_frame
from pyterrier_ikat.completions.kinds import Kind
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.foreign import Foreign, HeldFiles, held_by
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.lost_columns import LostColumns
from pyterrier_ikat.operator import (
    Operator,
    frame_for,
    parts_of,
    stages,
    unidentified_stages,
    with_fields,
)
from pyterrier_ikat.order import ranks_and_scores
from pyterrier_ikat.planning import Plan, PlanTable
from pyterrier_ikat.progress import Entry, doing
from pyterrier_ikat.tables import MARKS_NOTE, Cell, Column, Table, of_frame, without_levels

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "walk"]})


class Holds(Operator):
    """Holds anything."""

    def __init__(self, value=None):
        super().__init__()
        self.value = value

    def transform(self, inp):
        return inp


class Opaque(pt.Transformer):
    """Of another package, named by what it holds."""

    def __init__(self, name, *values):
        super().__init__()
        self.name, self.values = name, list(values)

    def transform(self, inp):
        return inp

    def __repr__(self):
        return f"Opaque({self.name})"


@pytest.mark.parametrize(
    ("module", "name", "shown"),
    [
        ("pyterrier_ikat.generate.rewriting", "Unlisted", "ikat.Unlisted()"),
        ("pyterrier_ikat.generate.rewriting", "ShowStatements", "ikat.generate.ShowStatements()"),
        ("pyterrier_ikat.generate.rewriting", "Rewrite", "ikat.Rewrite()"),
        ("pyterrier_ikat.operator", "Unlisted", "ikat.Unlisted()"),
    ],
)
def test_a_class_of_a_room_is_written_as_a_user_finds_it(monkeypatch, module, name, shown):
    assert ikat.generate.ShowStatements  # the room is loaded
    cls = type(name, (Holds,), {"__module__": module})
    assert repr(cls()) == shown


def test_all_unidentified_stages_are_named_in_their_order(tmp_path):
    first = Opaque("b", print, lambda: 1)
    second = Opaque("a", print, lambda: 1)
    third = Opaque("c", print, lambda: 1)
    for stage in (first, second, third):
        stage.call = stage.values[1]
    pipeline = first >> Holds() >> second >> third >> first
    assert unidentified_stages(pipeline) == ["Opaque(b)", "Opaque(a)", "Opaque(c)"]
    (tmp_path / "empty").mkdir()
    around = Opaque("around", Holds(1))
    around.inner = Holds(1)
    around.folder = tmp_path / "empty"
    assert unidentified_stages(around) == ["Opaque(around)"]  # whatever it wraps


def test_an_operator_with_a_fingerprint_has_the_parts_it_holds(tmp_path):
    class Marked(Holds):
        def fingerprint(self):
            return "f"

    (tmp_path / "a.txt").write_text("")
    path = str(tmp_path / "a.txt")
    assert list(parts_of(Marked(path))) == [HeldFiles(path)]
    both = [str(tmp_path), path]
    assert list(parts_of(Marked(both))) == [str(tmp_path), HeldFiles(path)]
    assert list(parts_of(Marked({"a": path, "b": Path(path)}))) == [HeldFiles(path)] * 2


class Two(Checked):
    least = {"n": 1, "k": 2}
    choices = {"form": ("a", "b"), "style": ("x", None)}
    paths = ("folder", "file")

    def __init__(self, n=1, k=2, form="a", style="x", folder=None, file=None):
        self.n, self.k, self.form, self.style = n, k, form, style
        self.folder, self.file = folder, file
        self.__post_init__()


def test_each_row_of_each_table_of_checks_counts():
    for wrong in ({"n": 0}, {"k": 1}, {"form": "x"}, {"style": "a"}):
        [name] = wrong
        with pytest.raises(UsageError, match=f"^{name}="):
            Two(**wrong)
    checked = Two(style=None, file=Path("b"))
    assert (checked.folder, checked.file) == (None, "b")
    both = Two(folder=Path("a"), file=Path("b"))
    assert (both.folder, both.file) == ("a", "b")


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("serving", "live"),
        ("track_users", "live.simulation"),
        ("topics_frame", "conversations"),
        ("BatchUnderWay", "llms"),
    ],
)
def test_the_last_rooms_are_searched_for_a_name_too(name, room):
    error = names.unknown_name("pyterrier_ikat.show", name, [])
    assert str(error) == f"pyterrier_ikat.show has no {name}: it is in ikat.{room}"


@pytest.mark.parametrize("drawing", [{}, {"help_url": ""}, {"label": ""}, {"label": None}])
def test_a_drawing_without_a_label_has_the_name_of_its_class(drawing):
    stage = type("Plain", (Opaque,), {"schematic": drawing})("x")
    assert Foreign(stage).name_shown() == "Plain"
    assert Foreign(stage).doing(TURNS) == "running Plain"


@with_fields
class Writes(LLMOperator):
    """Shows two arguments and two columns, and writes nowhere."""

    mark: str = "!"
    tone: str = "kind"

    stage = "shout"
    shows = ("mark", "tone")
    kind = Kind(lambda text: None if "unusable" in text else text)

    def columns_shown(self):
        return {"note": "qnote", "hint": "qhint"}


@with_fields
class Searches(Writes):
    """Its answer is the query, and is written nowhere else."""

    makes_query = True


@pytest.fixture
def folder(tmp_path):
    text = "{{ question }} {{ note }} {{ hint }} {{ mark }} {{ tone }}"
    (tmp_path / "shout.jinja").write_text(text)
    return str(tmp_path)


NOTED = TURNS.assign(qnote=["n1", "n2"], qhint=["h1", "h2"])


def test_a_prompt_shows_all_arguments_and_columns(folder):
    asks = Writes(scripted()[0], "?", "stern", prompts=folder)
    shown = [request.messages[-1]["content"] for request in asks.requests(NOTED)]
    assert shown == ["tea n1 h1 ? stern", "walk n2 h2 ? stern"]
    assert asks.needs() == ["query", "qnote", "qhint"]


def test_answers_of_no_column_are_the_query_or_nothing(folder):
    out = Writes(scripted("a", "b")[0], prompts=folder)(NOTED)
    assert out.equals(NOTED)
    searched = Searches(scripted("a", "b")[0], prompts=folder)(NOTED)
    assert sorted(searched.columns) == ["qhint", "qid", "qnote", "query", "query_0"]
    assert searched["query"].tolist() == ["a", "b"]


class Repairs(events.Observer):
    def __init__(self):
        self.reasons = []

    def repair(self, step, reasons):
        self.reasons.append(sorted(reasons))


def test_every_failure_has_its_fallback_and_its_reason(folder):
    model, _ = scripted("unusable 1", "unusable 2")
    repairs = Repairs()
    with events.observed_by(repairs):
        out = Searches(model, prompts=folder, on_error="fallback")(NOTED)
    assert out["query"].tolist() == ["tea", "walk"]
    reason = "nothing usable in the completion 'unusable {}'"
    assert repairs.reasons == [[reason.format(1), reason.format(2)]]
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[2, 2, 0]]


def test_the_number_of_all_calls_is_told_before_the_first(folder, monkeypatch):
    model, _ = scripted()
    asks = Writes(model, prompts=folder)
    requests = asks.requests(NOTED)
    announced = []

    def ask(self, asked, then, calls):
        announced.append((asked, calls))
        return []

    def ask_no_more(position, outcomes):
        return None

    monkeypatch.setattr(type(model), "ask", ask)
    assert asks.ask_in_rounds(requests, ask_no_more, 7) == [[], []]
    assert asks.ask_in_rounds(requests[:1], ask_no_more) == [[]]
    assert announced == [(requests, 7), (requests[:1], 0)]


def test_a_notebook_shows_the_whole_plan():
    row = dict.fromkeys(("calls", "known", "shared", "new"), 1)
    tokens = {"prompt_tokens": 1200, "completion_tokens": 5, "cost": 0.25}
    table = PlanTable.of_rows([{"system": "a", "stage": "s", "model": "m", **row, **tokens}])
    html = table._repr_html_()
    assert html == table.shown()._repr_html_()
    assert "Total: 1 call, 1 of them new, with about 1,200 prompt" in html


def test_a_report_says_how_long_the_work_took(line, capsys):
    line.reports = True
    entry = Entry(desc="raw")
    entry.started -= 75.5
    entry.report("2 turns")
    assert capsys.readouterr() == ("", "raw: 2 turns in 01:15\n")


def test_every_entry_is_forgotten_after_a_fork(monkeypatch, line):
    out, error = terminals(monkeypatch)
    before = progress._Tqdm.get_lock()
    outer, inner = doing("outer"), doing("inner")
    with outer, inner:
        line.leave()
        assert (outer.hidden, inner.hidden) == (True, True)
        assert progress._Tqdm.get_lock() is not before  # nobody here would release that one
    assert (sys.stdout, sys.stderr) == (out, error)


def test_a_line_is_drawn_where_nothing_can_be_printed(monkeypatch, line):
    error = Terminal()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", error)
    with doing("working"):
        assert sys.stdout is None
        assert sys.stderr.stream is error
        assert "working" in error.getvalue()
    assert (sys.stdout, sys.stderr) == (None, error)


def test_promises_of_a_watched_stage_are_checked_too():
    class Halves(Holds):
        one_row_per_turn = True

        def transform(self, inp):
            return inp.head(1)

    class Reads(Holds):
        def transform(self, inp):
            pt.validate.query_frame(inp, extra_columns=["qrewrite"], context=self)
            return inp

    with events.observed_by(events.Observer()):
        with pytest.raises(DataError, match="got 2 rows and returned 1 row"):
            Halves()(TURNS)
        with pytest.raises(DataError, match=r"put ikat.Rewrite\(llm\) before it"):
            Reads()(TURNS)


def test_pipelines_in_pipelines_are_their_stages_in_order():
    first, second, third, fourth = (Holds(number) for number in range(4))
    nested = pt.Compose(first, pt.Compose(second, third), fourth)
    assert list(stages(nested)) == [first, second, third, fourth]


def cells_of(table):
    return [[cell.text for cell in column.cells] for column in table.columns]


def test_no_decimals_and_no_texts_are_numbers_too():
    frame = pd.DataFrame({"cost": [1234.4], "nDCG": [0.25]})
    assert cells_of(of_frame(frame, decimals={"cost": 0})) == [["1,234"], [".2500"]]
    assert cells_of(of_frame(frame, decimals={"cost": 2, "nDCG": 1})) == [["1,234.40"], ["0.2"]]
    assert cells_of(of_frame(frame, decimals=1)) == [["1234.4"], [".2"]]
    names = pd.DataFrame({"name": ["x"], "n": [1]})
    for texts, numeric in ((0, [True, True]), (1, [False, True]), (2, [False, False])):
        assert [column.numeric for column in of_frame(names, texts=texts).columns] == numeric


def test_a_note_on_fonts_alone_leaves_a_text_bare():
    table = Table([], [Column("a", [Cell("x")])], [MARKS_NOTE])
    assert table.text() == "a\nx\n"
    assert table.markdown().endswith(f"| x |\n\n{MARKS_NOTE}\n")


def test_chosen_statements_may_be_pairs_of_any_sequence():
    pairs = [np.array(["1", 0.5], dtype=object), ["2", 0.25], ("3", 0.1)]
    frame = TURNS.assign(qstatements=pd.Series([pairs, tuple(pairs)], dtype=object))
    assert checked_frame("stage", frame).equals(frame)
    wrong = [*pairs, np.array([4, 0.5], dtype=object)]
    frame = TURNS.assign(qstatements=pd.Series([pairs, wrong], dtype=object))
    with pytest.raises(DataError, match="turn 1_2 has the qstatements"):
        checked_frame("stage", frame)


def test_what_a_dict_holds_is_known_by_its_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("")
    (tmp_path / "more").write_text("")
    for value, paths in (
        ({7: "./data"}, ["./data"]),
        ({"index_path": "data", "model": "more"}, ["data"]),
        ({"model": "data", "file": "more"}, ["more"]),
        ({"cache": "./data", "x": "./more"}, ["./more"]),
        (["./data", "x", "./more"], ["./data", "./more"]),
    ):
        assert [part.path for part in held_by(Opaque("x", value))] == paths


class FindsAlone(pt.Transformer):
    """A retriever that returns nothing of the turns but their ids."""

    def transform(self, inp):
        assert inp.empty
        return pd.DataFrame(columns=["qid", "docno", "score", "rank"])


def test_a_plan_has_the_columns_that_a_retriever_leaves():
    turns = TURNS.assign(qutterance="tea", qhistory=[["x"], []])
    plan, finder = Plan("mine", set()), FindsAlone()
    lost = LostColumns("mine", Holds(), turns, set())
    with lost.watching():
        frame = plan.follow(finder, turns)
    assert frame.to_dict("list") == TURNS.to_dict("list")
    assert lost.dropped == {"qutterance": [finder], "qhistory": [finder]}
    assert (plan.rows, plan.fewer_turns, plan.fewer_passages) == ([], False, True)


class Pair(Operator):
    """Has two arguments."""

    def __init__(self, first=None, second=None):
        super().__init__()
        self.first, self.second = first, second

    def transform(self, inp):
        return inp


def test_the_second_argument_is_looked_at_as_the_first_is():
    model, _ = scripted()
    inner, other = Holds(1), Holds(2)
    assert Pair(7, model).doing(TURNS) == Pair(model).doing(TURNS) == "running Pair"
    assert Pair(7, "x").doing(TURNS) == ""
    assert Pair(7, [inner]).subpipelines() == [inner]
    assert Pair(other, inner).subpipelines() == [other, inner]
    assert list(parts_of(Pair(7, model))) == list(parts_of(model))
    assert unidentified_stages(Pair(7, len)) == []
    assert len(unidentified_stages(Pair(7, scripted))) == 1
    for pair in (Pair(model), Pair(7, model)):
        plan = Plan("mine", set())
        plan.follow(pair, TURNS)
        assert [row["model"] for row in plan.rows] == ["unknown"]


def test_a_level_of_two_digits_is_one_level():
    columns = [Column(title, []) for title in ("P(rel=10)@5", "R(rel=1)@5", "AP(rel=10)")]
    shorter, sentences = without_levels(columns)
    assert [column.title for column in shorter] == ["P@5", "R@5", "AP"]
    assert sentences == [
        "P@5, AP: relevant from grade 10 on.",
        "R@5: relevant from grade 1 on.",
    ]


def test_a_frame_of_many_turns_is_asked_for_as_a_whole(folder):
    many = pd.DataFrame({"qid": [f"1_{n}" for n in range(40)], "query": "tea"})
    many = many.assign(qnote=[str(n) for n in range(40)], qhint="x")
    model, backend = scripted(*["green tea"] * 40)
    out = Searches(model, prompts=folder)(many)
    assert out["query"].tolist() == ["green tea"] * 40
    assert (out["qid"].tolist(), len(backend.asked)) == (many["qid"].tolist(), 40)


def test_ties_go_by_docnos_as_texts_and_beyond_32_bits():
    turn, half = np.array([0, 0]), np.array([0.5, 0.5])
    for docnos, tied in (([9, 10], True), ([10, 9], False), ([2, "10"], True)):
        _, score = ranks_and_scores(turn, half, pd.Series(docnos, dtype=object))
        assert bool(score[0] == score[1]) is tied, docnos
    rank, score = ranks_and_scores(turn, np.array([1e300, 2e300]))
    assert (rank.tolist(), score.tolist()) == ([0, 1], [1e300, float(np.finfo(np.float32).max)])
    apart = np.array([1e300, 1.0])
    assert ranks_and_scores(turn, apart)[1].tolist() == [1e300, 1.0]


def test_a_class_with_fields_is_shown_and_compared_by_value():
    @with_fields
    class Made(Holds):
        first: int
        second: str = "x"

    assert repr(Made(1)) == f"{__name__}.Made(1)"
    assert repr(Made(1, "y")) == f"{__name__}.Made(1, second='y')"
    assert Made([1]) == Made([1])
    assert hash(Made([1])) == hash(Made([1]))
    assert Made(1) != Made(1).without_texts()


class Deep:
    def __init__(self, value):
        self.value = value


def test_an_index_is_found_as_deep_as_a_stage_is_searched(tmp_path):
    index = pt.Artifact(str(tmp_path))
    for value in (index, Deep(index), Deep(Deep(index))):
        [part] = held_by(Opaque("x", value))
        assert (part.path, part.artifact) == (str(tmp_path), True)
    assert held_by(Opaque("x", Deep(Deep(Deep(index))))) == []


def test_what_a_foreign_stage_writes_is_not_seen_by_others():
    frame = TURNS.copy()
    own = frame_for(Opaque("x"), frame)
    own.loc[0, "query"] = "changed"
    own["more"] = 1
    own.insert(0, "first", 0)
    assert frame.equals(TURNS)
