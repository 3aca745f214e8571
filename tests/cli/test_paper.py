"""`ikat paper`: what it lists and prints, plans, reproduces and refuses."""

from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import (
    table_of,
    words_of,
)

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods.catalogue import NIST
from pyterrier_ikat.papers import PAPERS
from pyterrier_ikat.papers.published import (
    ANSWERS,
    JUDGES,
    STATEMENTS_NIST,
    STATEMENTS_ORGANISERS,
    Figure,
    Listing,
    Matrix,
    Prompts,
)
from pyterrier_ikat.tables import of_frame

module = import_module("pyterrier_ikat.cli.paper")


PAPER = "generate_then_retrieve"


def test_without_a_paper_all_are_listed_with_their_tables(call):
    listed = words_of(call("paper"))
    for name, paper in PAPERS.items():
        assert name in listed
        assert " ".join(paper.title.split()) in listed
        assert paper.link in listed
        assert f"tables {', '.join(paper.tables)}" in listed


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_has_its_tables_rows_needs_and_decisions(call, name):
    shown = words_of(call("paper", name))
    paper = PAPERS[name]
    assert " ".join(paper.title.split()) in shown
    for number in paper.tables:
        assert f"Table {number}" in shown or number in shown
    for what, _ in paper.deviations:
        assert " ".join(what.split()) in shown
    assert "needs" in shown or not paper.tables


def test_a_table_without_resources_is_printed_as_published(call):
    done = call("paper", PAPER, "1", "--format", "csv")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert any(line.startswith("aqd_a,") and ".6826" in line for line in lines)
    beside = " ".join(done.stderr.split())
    assert "aqd_a: needs" in beside
    assert "What differs from the paper or was decided:" in beside
    other = " ".join(call("paper", PAPER, "3").output.split())
    assert "convgqr" in other
    assert "Recall" in other


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none",), "none"),
        ((PAPER, "99"), "99"),
        ((PAPER, "1", "--plan"), "needs models and indexes"),
        ((PAPER, "1", "--repeats", "2"), "completions are not public"),
        ((PAPER, "1", "--systems", "none", "--resources", "sample"), "none"),
    ],
)
def test_what_cannot_be_reproduced_is_named(call, refused, arguments, told):
    assert told in refused(call("paper", *arguments))


def test_a_plan_for_the_sample_names_rows_and_asks_nothing(call, tmp_path):
    done = call(
        *("paper", PAPER, "3", "--resources", "sample", "--plan", "--systems", "ad,human_qr"),
        *("--out", tmp_path / "papers", "--format", "csv"),
    )
    assert done.exit_code == 0, done.output
    header, *rows = done.stdout.splitlines()
    assert header.startswith("system,stage,model,calls")
    assert {row.split(",")[0] for row in rows} == {"ad"}
    assert not list((tmp_path / "papers").rglob("run.json"))


# Options


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((False, None), None),
        ((True, None), "a plan needs models and indexes"),
        ((False, 2), "table 3 of mine is printed as published.* omit --repeats"),
        ((False, 1), "omit --repeats"),
        ((False, 0), "omit --repeats"),
    ],
)
def test_a_printed_table_runs_nothing(options, told):
    if told is None:
        module._check_printed("mine", "3", *options)
        return
    with pytest.raises(UsageError, match=told):
        module._check_printed("mine", "3", *options)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("qrels", "--qrels"),
        ("judged_by", "--judged-by"),
        ("turns", "--turns"),
        ("systems", "--systems"),
        ("repeats", "--repeats"),
        ("index", None),
        ("dataset", None),
        ("out", None),
    ],
)
def test_a_matrix_of_labels_has_no_systems(option, name):
    options = dict.fromkeys(("qrels", "judged_by", "turns", "systems", "repeats", "index"))
    module._check_matrix_options("mine", "3", options)
    given = options | {option: "x"}
    if name is None:
        module._check_matrix_options("mine", "3", given)
        return
    with pytest.raises(UsageError, match=f"table 3 of mine is about the labels .* omit {name}$"):
        module._check_matrix_options("mine", "3", given)


def part_of(about="", judgements=NIST, measures=("nDCG@5",), turns=12, year=2023):
    return SimpleNamespace(
        paper="A paper, Table 3",
        about=about,
        judgements=judgements,
        measures=dict.fromkeys(measures),
        turns=turns,
        year=year,
        systems=("a", "b"),
    )


ROWS = [
    SimpleNamespace(name="a", needs=("llm", "bm25"), reason="no key"),
    SimpleNamespace(name="b", needs=("bm25",), reason=""),
    SimpleNamespace(name="c", needs=("other",), reason="no model"),
]


class Reproduced(SimpleNamespace):
    """A reproduction that keeps what it is asked for."""

    def rows(self, part):
        return ROWS

    def plan(self, part):
        self.asked.append(("plan", part))
        return Plans(table_of("plan", str(part)), self.empty)

    def beside_the_plan(self, part):
        return [f"beside {part}"]

    def run(self, part):
        self.asked.append(("run", part))

    def table(self, part):
        self.asked.append(("table", part))
        return SimpleNamespace(shown=lambda: table_of("table", str(part)))


class Plans(list):
    def __init__(self, table, empty):
        super().__init__([] if empty else [1])
        self.shown = lambda: table


def reproduced(**more):
    return Reproduced(**{"asked": [], "empty": False, "systems": None, "root": None, **more})


@pytest.fixture
def reproduction(monkeypatch):
    """Keeps what a paper is reproduced with, and which of its tables are run or printed."""
    seen = SimpleNamespace(made=[], done=[])

    class Reproduction(Reproduced):
        def __init__(self, name, resources, **options):
            seen.made.append((name, resources, options))
            super().__init__(asked=[], empty=False, systems=None, root=None)

        def check_public(self, part):
            seen.done.append(("public", part))

    monkeypatch.setattr("pyterrier_ikat.papers.reproduction.Reproduction", Reproduction)
    monkeypatch.setattr("pyterrier_ikat.papers.published.find_table", lambda *_: ["p1", "p2"])
    for name in ("_plan", "_reproduce", "_print_published", "_relabel"):
        monkeypatch.setattr(
            module, name, lambda *args, called=name: seen.done.append((called, args))
        )
    monkeypatch.setattr(module, "_about_paper", lambda made, reasons: [f"about, {reasons}"])
    return seen


OPTIONS = {"index": None, "dataset": None, "qrels": None, "judged_by": None, "turns": None}
OPTIONS |= {"out": "papers", "systems": None, "repeats": 1}


@pytest.mark.parametrize(
    ("words", "resources", "changed", "done"),
    [
        ("x 3", {}, {}, ["_print_published"]),
        ("x 3 --resources r", "r", {}, ["_reproduce"]),
        ("x 3 --resources r --plan", "r", {}, ["_plan"]),
        ("x 3 --repeats 2", {}, {"repeats": 2}, ["public", "public", "_reproduce"]),
        ("x 3 --repeats 0", {}, {"repeats": 0}, ["public", "public", "_reproduce"]),
        ("x 3 --index i", {}, {"index": "i"}, ["public", "public", "_reproduce"]),
        ("x 3 --dataset d", {}, {"dataset": "d"}, ["public", "public", "_reproduce"]),
        ("x 3 --dataset d --plan", {}, {"dataset": "d"}, ["public", "public", "_plan"]),
        ("x 3 --plan", {}, {}, ["public", "public", "_plan"]),
        (
            "x 3 --resources r --turns t --qrels q --judged-by j --out o --index i",
            "r",
            {"turns": "t", "qrels": "q", "judged_by": "j", "out": "o", "index": "i"},
            ["_reproduce"],
        ),
    ],
)
def test_a_paper_s_table_is_printed_planned_or_run(
    call, reproduction, words, resources, changed, done
):
    result = call("paper", *words.split(), "--systems", " a, b ")
    assert result.exit_code == 0, result.output
    expected = OPTIONS | {"systems": ["a", "b"]} | changed
    assert reproduction.made == [("x", resources, expected)]
    assert [name for name, _ in reproduction.done] == done
    assert done[-1] != "_reproduce" or reproduction.done[-1][1][2:] == ("x-3.png", "text")


@pytest.mark.parametrize(
    ("table", "words", "told", "done"),
    [
        (Listing(["system"], ["a"]), "", None, ["_print_published"]),
        (Listing(["system"], ["a"]), "--resources r", None, ["_print_published"]),
        (Prompts("The prompts", ["x"]), "--resources r", None, ["_print_published"]),
        (Prompts("The prompts", ["x"]), "--resources r --plan", "a plan needs models", []),
        (Listing(["system"], ["a"]), "--repeats 2", "omit --repeats", []),
        (Matrix(2023, "GPT-4", [[1]], ""), "", None, ["_print_published"]),
        (Matrix(2023, "GPT-4", [[1]], ""), "--resources r", None, ["_relabel"]),
        (Matrix(2023, "GPT-4", [[1]], ""), "--resources r --plan", None, ["_relabel"]),
        (Matrix(2023, "GPT-4", [[1]], ""), "--resources r --repeats 2", "omit --repeats", []),
        (Matrix(2023, "GPT-4", [[1]], ""), "--resources r --turns t", "omit --turns", []),
    ],
)
def test_tables_of_other_kinds_are_printed_or_labelled(
    call, monkeypatch, reproduction, table, words, told, done
):
    monkeypatch.setattr("pyterrier_ikat.papers.published.find_table", lambda *_: table)
    result = call("paper", "x", "3", *words.split())
    assert result.exit_code == (0 if told is None else 2)
    assert told is None or told in " ".join(result.stderr.split())
    assert [name for name, _ in reproduction.done] == done


# What is planned and run


@pytest.mark.parametrize("form", ["text", "csv"])
def test_each_part_of_a_table_is_planned_and_run(capsys, monkeypatch, form):
    monkeypatch.setattr(module, "find_spec", lambda name: None)  # no picture is to be drawn
    made = reproduced()
    module._plan(["p1", "p2"], made, form)
    text = capsys.readouterr()
    first = table_of("plan", "p1").written(form)
    second = table_of("plan", "p2").written(form)
    assert made.asked == [("plan", "p1"), ("plan", "p2")]
    if form == "text":
        assert text.out == f"{first}beside p1\n\n{second}beside p2\n"
    else:
        assert text == (f"{first}\n{second}", "beside p1\nbeside p2\n")
    module._plan(["p1"], reproduced(empty=True), form)
    text = capsys.readouterr()
    assert text == (("beside p1\n", "") if form == "text" else ("", "beside p1\n"))
    made = reproduced()
    module._reproduce(["p1", "p2"], made, "x.png", form)
    assert made.asked == [("run", "p1"), ("run", "p2"), ("table", "p1"), ("table", "p2")]
    first = table_of("table", "p1").written(form)
    second = table_of("table", "p2").written(form)
    assert capsys.readouterr() == (f"{first}\n{second}", "")


@pytest.mark.parametrize(("known", "systems"), [(None, ["a", "b"]), (["b"], ["b"])])
def test_of_a_figure_only_the_drawn_systems_are_run(known, systems):
    figure = Figure("judged", "the part", ["a", "b"], "Judged@10")
    made = reproduced(systems=known)
    assert module._parts(figure, made) == ("the part",)
    assert made.systems == systems
    assert module._parts(["p1", "p2"], made) == ("p1", "p2")


@pytest.mark.parametrize("has_matplotlib", [True, False])
def test_a_figure_is_drawn_or_its_numbers_shown(capsys, monkeypatch, tmp_path, has_matplotlib):
    figure = Figure("judged", part_of(about="passages"), ["a"], "Judged@10", "Figure 7")
    reproduction = "pyterrier_ikat.papers.reproduction"
    frame = pd.DataFrame({"name": ["a"], "nDCG": [0.5]})
    monkeypatch.setattr(f"{reproduction}.figure_scores", lambda *_: frame)
    monkeypatch.setattr(f"{reproduction}.figure_notes", lambda *_: ["A note."])
    monkeypatch.setattr(f"{reproduction}.draw_figure", lambda *args: args[-1])
    monkeypatch.setattr(module, "find_spec", lambda name: has_matplotlib or None)
    made = reproduced(root=tmp_path)
    module._reproduce(figure, made, "mine-3.png", "text")
    text = capsys.readouterr()
    assert made.asked == [("run", figure.part)]
    assert "Figure 7: Judged@10" in " ".join(text.out.split())
    assert "A note." in text.out
    assert (str(tmp_path / "mine-3.png") in text.out) is has_matplotlib
    assert ("no picture without matplotlib" in text.err) is not has_matplotlib
    module._reproduce(figure, made, "mine-3.png", "csv")
    text = capsys.readouterr()
    assert text.out == of_frame(frame, [], "").written("csv")
    assert (str(tmp_path / "mine-3.png") in text.err) is has_matplotlib


@pytest.mark.parametrize("plans", [True, False])
def test_a_matrix_is_planned_or_judged_again(capsys, monkeypatch, plans):
    asked = []

    labels = SimpleNamespace(
        plan=lambda: SimpleNamespace(shown=lambda: table_of("plan")),
        run=lambda: asked.append("run"),
        shown=lambda: table_of("labels"),
    )
    monkeypatch.setattr(
        "pyterrier_ikat.papers.reproduction.Relabelled", SimpleNamespace(of=lambda *_: labels)
    )
    for form in ("text", "csv"):
        module._relabel("matrix", "made", plans, form)
        expected = table_of("plan" if plans else "labels").written(form)
        assert capsys.readouterr().out == expected
    assert asked == ([] if plans else ["run", "run"])


# What a paper needs


def test_the_judge_of_a_part_is_named():
    assert module._judge(part_of()) == "NIST's judgements"
    assert module._judge(part_of(judgements="gpt-4")) == "labels by gpt-4 (--qrels FILE)"
    for judged in (STATEMENTS_NIST, STATEMENTS_ORGANISERS):
        assert module._judge(part_of(judgements=judged)) == judged
    names = [name for name, judge in JUDGES.items() if judge][:2]
    judges = ", ".join(repr(JUDGES[name]) for name in names)
    without = [name for name, judge in JUDGES.items() if not judge][:1]
    answers = part_of(about=ANSWERS, measures=[*names, *without, "none"])
    assert module._judge(answers) == f"the judges {judges}"


@pytest.mark.parametrize("with_reasons", [True, False])
def test_the_needs_of_a_part_and_of_its_rows_are_said(with_reasons):
    lines = list(module._part("Table 3", reproduced(), part_of(), with_reasons, ("a", "b")))
    assert lines == [
        "Table 3: iKAT 2023, NIST, 12 turns: nDCG@5",
        "  needs NIST's judgements, and llm, bm25",
        f"  a: needs llm, bm25{'; no key' if with_reasons else ''}",
        "  b: needs bm25",
    ]
    first, *_ = module._part("T", reproduced(), part_of(turns=None), False, ())
    assert first == "T: iKAT 2023, NIST, an unknown number of turns: nDCG@5"
    assert list(module._part("T", reproduced(), part_of(turns=1), False, ()))[0].count("1 turn:")


def test_every_kind_of_table_says_what_it_needs():
    tables = {
        "1": Matrix(2023, "GPT-4", [[1]], ""),
        "2": Listing(["system", "x"], ["a; y", "b; z"]),
        "3": Prompts("The prompts", ["x", "y"]),
        "4": Figure("judged", part_of(), ["b"], "Judged@10"),
        "5": [part_of(), part_of(year=2024)],
    }
    made = reproduced(paper=SimpleNamespace(deviations=[("One thing", "is so.")]))
    text = "\n".join(module._about(made, tables, False))
    assert [block.splitlines()[0] for block in text.split("\n\n")][1:3] == [
        "Table 2: what the systems are made of: a, b; `ikat methods NAME` shows each",
        "The prompts: x, y",
    ]
    words = " ".join(text.split())
    assert "Table 1: labels of GPT-4 against NIST's, iKAT 2023; needs 'gpt-4' and 'bm25'" in words
    figure, table = text.split("\n\n")[3:5]
    assert figure.splitlines()[0].startswith("4: iKAT 2023")
    assert [line.split(":")[0].strip() for line in figure.splitlines()[2:]] == ["b"]
    assert table.count("Table 5: iKAT") == 2
    assert text.endswith("What differs from the paper or was decided:\n- One thing is so.")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_published_table_stands_before_its_needs(capsys, monkeypatch, form):
    tables = [table_of("first"), table_of("second")]
    monkeypatch.setattr("pyterrier_ikat.papers.table.published_tables", lambda *_: tables)
    parts = [part_of(year=2024)]
    others = [part_of()]
    figure = Figure("judged", part_of(turns=7), ["a"], "Judged@10")
    about = SimpleNamespace(
        tables={"1": others, "2": parts}, figures={"Figure 3": figure}, deviations=[], link=""
    )
    made = reproduced(paper=about)
    module._print_published("x", "2", parts, made, form)
    text = capsys.readouterr()
    whole = [tables[0].written(form), tables[1].written(form)]
    if form == "csv":
        assert text.out == "".join(whole)
    else:
        assert text.out.startswith("\n".join(whole))
    rest = text.out if form == "text" else text.err
    assert "Table 2: iKAT 2024" in rest
    assert "Table 1" not in rest
    assert "no key" not in rest
    module._print_published("x", "Figure 3", figure, made, form)
    text = capsys.readouterr()
    assert "Figure 3: iKAT 2023" in (text.out if form == "text" else text.err)


@pytest.mark.parametrize("with_reasons", [True, False])
@pytest.mark.parametrize("link", ["https://paper.example", ""])
def test_a_paper_is_named_with_its_link_tables_and_figures(with_reasons, link):
    figure = Figure("judged", part_of(), ["a"], "Judged@10")
    about = SimpleNamespace(
        title="Of teas",
        link=link,
        tables={"1": [part_of()]},
        figures={"Figure 3": figure},
        deviations=[],
    )
    lines = list(module._about_paper(reproduced(paper=about), with_reasons))
    assert lines[: 2 + bool(link)] == ["Of teas", *([link] if link else []), ""]
    text = "\n".join(lines)
    table, _, figure = text.partition("Figure 3: iKAT")
    assert "Table 1: iKAT" in table
    assert ("no key" in table, "no key" in figure) == (with_reasons, with_reasons)


def test_papers_are_listed_with_links_tables_and_figures(monkeypatch):
    papers = {
        "a": SimpleNamespace(
            title="Of teas", link="https://a", tables={"1": 0, "2": 0}, figures={"Figure 3": 0}
        ),
        "b": SimpleNamespace(title="Of mint", link="", tables={"I": 0}, figures={}),
    }
    monkeypatch.setattr("pyterrier_ikat.papers.published.PAPERS", papers)
    lines = list(module._papers())
    assert lines[:9] == [
        "a",
        "  Of teas",
        "  https://a",
        "  tables 1, 2; Figure 3",
        "",
        "b",
        "  Of mint",
        "  tables I",
        "",
    ]


@pytest.mark.parametrize(("words", "reasons"), [("", False), ("--resources r", True)])
def test_a_paper_without_a_table_says_what_it_needs(call, reproduction, words, reasons):
    result = call("paper", "x", *words.split())
    assert result.stdout == f"about, {reasons}\n"
    assert reproduction.done == []
    assert reproduction.made[0][2] == OPTIONS
