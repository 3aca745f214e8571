"""`ikat index`, `run`, `demo`, `simulate` and `paper`: what each option reaches, where lines go."""

import warnings
from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods.catalogue import NIST
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
from pyterrier_ikat.tables import Cell, Column, Table, of_frame

run = import_module("pyterrier_ikat.cli.run")
paper = import_module("pyterrier_ikat.cli.paper")


def table_of(title, text="x"):
    """A table of one row, which each form writes differently."""
    columns = [Column(title, [Cell(text)]), Column("n", [Cell("1")], numeric=True)]
    return Table([{title: text, "n": 1}], columns, [])


class Made:
    """Stands in for a class: keeps how it was made and what was called, and returns an index."""

    def __init__(self):
        self.calls = []

    def __call__(self, *args, **named):
        self.calls.append(args)
        return self

    def index(self, *args, **named):
        self.calls.append(args)
        return ["one", "two"]


@pytest.fixture
def kinds(monkeypatch):
    """The three kinds of indexes, which build nothing."""
    made = {}
    for name in ("PassageIndex", "DenseIndex", "Splade"):
        made[name] = Made()
        monkeypatch.setattr(f"pyterrier_ikat.retrieve.{name}", made[name])
    data = SimpleNamespace(get_corpus_iter=lambda verbose: ("corpus", verbose))
    monkeypatch.setattr(run, "dataset_named", lambda name: data)
    return made


@pytest.mark.parametrize(
    ("words", "kind", "calls"),
    [
        ([], "PassageIndex", [("p",), (("corpus", False),)]),
        (["--dense", "m"], "DenseIndex", [("p",), (("corpus", False), "m")]),
        (["--splade", "m"], "Splade", [("m",), ("p", ("corpus", False))]),
    ],
)
def test_each_kind_of_index_gets_path_and_passages(call, kinds, words, kind, calls):
    done = call("index", "ikat:sample", "p", *words)
    assert (done.exit_code, done.stdout) == (0, "p: 2 passages\n"), done.output
    assert kinds.pop(kind).calls == calls
    assert [other.calls for other in kinds.values()] == [[], []]


def test_a_path_is_a_source_before_a_dataset(call, kinds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample").write_text('{"docno": "d", "text": "t"}\n')
    assert call("index", "sample", "p").exit_code == 0
    [_, (passages,)] = kinds["PassageIndex"].calls
    assert type(passages).__name__ == "PassageFiles"


# ikat run


@pytest.fixture
def studied(monkeypatch):
    """The functions that run and plan, which keep their arguments."""
    calls = []

    def runs(names, dataset, **options):
        calls.append(("run", names, dataset, options))
        return "results"

    def plans(names, dataset, **options):
        calls.append(("plan", names, dataset, options))
        return SimpleNamespace(shown=lambda: table_of("plan"), refused=refused)

    refused = []
    calls_of = SimpleNamespace(calls=calls, refused=refused, printed=[])
    monkeypatch.setattr("pyterrier_ikat.study.run", runs)
    monkeypatch.setattr("pyterrier_ikat.study.plan", plans)
    monkeypatch.setattr(run, "print_results", lambda *args: calls_of.printed.append(args))
    return calls_of


def test_a_run_gets_the_options_that_are_given(call, studied):
    assert call("run", "raw", "ad", "--dataset", "d").exit_code == 0
    assert studied.calls.pop() == ("run", ("raw", "ad"), "d", {"out": "runs", "repeats": 1})
    assert studied.printed.pop() == ("results", "text")
    words = "--out o --turns t --repeats 3 --measures P@1 --baseline raw --unit turn --format csv"
    resources = "--index i --llm l --reranker r --resources second_llm=s"
    assert call("run", "raw", "--dataset", "d", *words.split(), *resources.split()).exit_code == 0
    assert studied.calls.pop() == (
        "run",
        ("raw",),
        "d",
        {
            "out": "o",
            "turns": "t",
            "repeats": 3,
            "measures": "P@1",
            "baseline": "raw",
            "unit": "turn",
            "index": "i",
            "llm": "l",
            "reranker": "r",
            "second_llm": "s",
        },
    )
    assert studied.printed.pop() == ("results", "csv")
    call("run", "raw", "--dataset", "d", "--repeats", "0")
    assert studied.calls.pop()[3]["repeats"] == 0  # the run refuses it


@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_plan_that_would_be_refused_ends_with_code_2(call, studied, form):
    words = ("run", "raw", "--dataset", "d", "--plan", "--out", "o", "--format", form)
    done = call(*words)
    assert done.exit_code == 0
    assert studied.calls.pop() == ("plan", ("raw",), "d", {"out": "o", "repeats": 1})
    assert done.stdout == table_of("plan").written(form)
    studied.refused += ["one reason", "another"]
    done = call(*words)
    assert done.exit_code == 2
    assert done.stderr == ("" if form == "text" else "one reason\nanother\n")
    assert studied.printed == []


def test_a_cache_is_set_before_the_run(call, studied, monkeypatch):
    caches = []
    monkeypatch.setattr("pyterrier_ikat.store.cache.set_default_cache", caches.append)
    call("run", "raw", "--dataset", "d")
    assert caches == []
    call("run", "raw", "--dataset", "d", "--cache", "c.sqlite")
    assert caches == ["c.sqlite"]
    assert "cache" not in studied.calls[-1][3]


@pytest.mark.parametrize("form", ["text", "csv", "latex"])
@pytest.mark.parametrize("judged", [True, False])
def test_results_print_scores_losses_account_and_folder(capsys, monkeypatch, form, judged):
    ledger = Ledger()
    ledger.count("answer", "m", calls=2)
    table = Table([{"name": "raw"}], [Column("name", [Cell("raw")])], ["A note of the table."])
    monkeypatch.setattr(
        "pyterrier_ikat.evaluation.score_frame.sentences_below", lambda scores: ["Below."]
    )
    results = SimpleNamespace(
        study=SimpleNamespace(qrels=[1] if judged else [], ledger=ledger),
        shown=lambda: table,
        table="scores",
        gaps=lambda: ["raw lacks 1 turn."],
        out="o",
    )
    run.print_results(results, form)
    text = capsys.readouterr()
    rest = text.out if form == "text" else text.err
    shown = table.written(form)
    assert text.out.startswith(shown) is judged
    if form != "text":
        assert text.out == (shown if judged else "")
    lines = rest.removeprefix(shown).splitlines() if judged else rest.splitlines()
    first = ["Below."] if form == "csv" or not judged else []
    assert lines[: len(first) + 1] == [*first, "raw lacks 1 turn."]
    assert "LLM ledger (of this command; each run folder has its own)" in rest
    assert rest.endswith("\n\nRuns: one folder for each system in o\n")


def test_the_demo_names_the_best_system_and_its_report(call, monkeypatch, tmp_path):
    table = pd.DataFrame({"name": ["raw", "gtr", "qr"], "nDCG@5": [0.25, 0.75, 0.5]})
    given, made = [], []

    def runs(names, dataset, **options):
        given.append((names, dataset.name, options))
        return SimpleNamespace(table=table)

    def report(results, dataset, **options):
        made.append((results.table is table, dataset.name, options))
        return SimpleNamespace(save=lambda path: path)

    monkeypatch.setattr("pyterrier_ikat.study.run", runs)
    monkeypatch.setattr("pyterrier_ikat.show.report", report)
    monkeypatch.setattr(run, "print_results", lambda results: None)
    monkeypatch.setattr("pyterrier_ikat.retrieve.PassageIndex", Made())
    done = call("demo", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[-2] == "gtr has the highest nDCG@5: .7500."
    page = (tmp_path / "out" / "report.html").as_uri()
    assert lines[-1] == f"Report, to open in a browser: {page}"
    [(names, dataset, options)] = given
    assert (names, dataset, options["baseline"]) == (
        list(run.DEMO_SYSTEMS),
        "ikat:sample",
        "human_qr",
    )
    assert options["out"] == tmp_path / "out"
    assert options["llm"] == "recorded:sample"
    assert made == [(True, "ikat:sample", {"passages": 10})]
    text = " ".join(done.stdout.split())
    for name in run.DEMO_SYSTEMS:
        summary = " ".join(ikat.methods.METHODS[name].summary.replace("``", "").split())
        assert f"{name} {summary}" in text


# ikat simulate


@pytest.mark.parametrize("plans", [True, False])
def test_a_simulation_gets_its_options_and_tells_circles(call, monkeypatch, plans):
    given = []
    calls = pd.DataFrame(
        {"stage": ["answer", "simulate_user", "simulate_judge"], "model": ["gpt-4o", "u", "j"]}
    )
    table = Table([], [Column("system", [Cell("raw")])], [])

    class Simulated(SimpleNamespace):
        def __getitem__(self, key):
            return calls[key]

    def simulate(names, **options):
        given.append((names, options))
        options["ledger"].count("answer", "gpt-4o", calls=1)
        options["ledger"].count("simulate_user", "other", calls=1)
        return Simulated(shown=lambda: table)

    monkeypatch.setattr("pyterrier_ikat.live.simulation.simulate", simulate)
    words = ["--users", "sample", "--user-llm", "openai:gpt-4o", "--judge-llm", "openai:other"]
    done = call("simulate", "raw", "ad", *words, "--out", "o", *(["--plan"] if plans else []))
    assert done.exit_code == 0, done.output
    [(names, options)] = given
    assert names == ("raw", "ad")
    expected = {"out": "o", "plan": plans, "users": "sample", "repeats": 1, "users_by": "need"}
    expected |= {"show_persona": False, "baseline": None}
    assert {name: options[name] for name in expected} == expected
    assert "circular: gpt-4o is a judge or user here, and a system asked it" in done.stderr
    assert "other is a judge" not in done.stderr
    assert "LLM ledger (of this command: systems, users and judge)" in done.stderr
    assert done.stdout.startswith("system\nraw\n")
    assert ("An upper bound" in done.stdout) is plans
    assert ("Sessions: one folder for each system in o" in done.stdout) is not plans


# ikat paper


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
        paper._check_printed("mine", "3", *options)
        return
    with pytest.raises(UsageError, match=told):
        paper._check_printed("mine", "3", *options)


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
    paper._check_matrix_options("mine", "3", options)
    given = options | {option: "x"}
    if name is None:
        paper._check_matrix_options("mine", "3", given)
        return
    with pytest.raises(UsageError, match=f"table 3 of mine is about the labels .* omit {name}$"):
        paper._check_matrix_options("mine", "3", given)


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


def test_the_judge_of_a_part_is_named():
    assert paper._judge(part_of()) == "NIST's judgements"
    assert paper._judge(part_of(judgements="gpt-4")) == "labels by gpt-4 (--qrels FILE)"
    for judged in (STATEMENTS_NIST, STATEMENTS_ORGANISERS):
        assert paper._judge(part_of(judgements=judged)) == judged
    names = [name for name, judge in JUDGES.items() if judge][:2]
    judges = ", ".join(repr(JUDGES[name]) for name in names)
    without = [name for name, judge in JUDGES.items() if not judge][:1]
    answers = part_of(about=ANSWERS, measures=[*names, *without, "none"])
    assert paper._judge(answers) == f"the judges {judges}"


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


@pytest.mark.parametrize("with_reasons", [True, False])
def test_the_needs_of_a_part_and_of_its_rows_are_said(with_reasons):
    lines = list(paper._part("Table 3", reproduced(), part_of(), with_reasons, ("a", "b")))
    assert lines == [
        "Table 3: iKAT 2023, NIST, 12 turns: nDCG@5",
        "  needs NIST's judgements, and llm, bm25",
        f"  a: needs llm, bm25{'; no key' if with_reasons else ''}",
        "  b: needs bm25",
    ]
    first, *_ = paper._part("T", reproduced(), part_of(turns=None), False, ())
    assert first == "T: iKAT 2023, NIST, an unknown number of turns: nDCG@5"
    assert list(paper._part("T", reproduced(), part_of(turns=1), False, ()))[0].count("1 turn:")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_each_part_of_a_table_is_planned_and_run(capsys, monkeypatch, form):
    monkeypatch.setattr(paper, "find_spec", lambda name: None)  # no picture is to be drawn
    made = reproduced()
    paper._plan(["p1", "p2"], made, form)
    text = capsys.readouterr()
    first, second = (table_of("plan", part).written(form) for part in ("p1", "p2"))
    assert made.asked == [("plan", "p1"), ("plan", "p2")]
    if form == "text":
        assert text.out == f"{first}beside p1\n\n{second}beside p2\n"
    else:
        assert text == (f"{first}\n{second}", "beside p1\nbeside p2\n")
    paper._plan(["p1"], reproduced(empty=True), form)
    text = capsys.readouterr()
    assert text == (("beside p1\n", "") if form == "text" else ("", "beside p1\n"))
    made = reproduced()
    paper._reproduce(["p1", "p2"], made, "x.png", form)
    assert made.asked == [("run", "p1"), ("run", "p2"), ("table", "p1"), ("table", "p2")]
    first, second = (table_of("table", part).written(form) for part in ("p1", "p2"))
    assert capsys.readouterr() == (f"{first}\n{second}", "")


@pytest.mark.parametrize(("known", "systems"), [(None, ["a", "b"]), (["b"], ["b"])])
def test_of_a_figure_only_the_drawn_systems_are_run(known, systems):
    figure = Figure("judged", "the part", ["a", "b"], "Judged@10")
    made = reproduced(systems=known)
    assert paper._parts(figure, made) == ("the part",)
    assert made.systems == systems
    assert paper._parts(["p1", "p2"], made) == ("p1", "p2")


@pytest.mark.parametrize("has_matplotlib", [True, False])
def test_a_figure_is_drawn_or_its_numbers_shown(capsys, monkeypatch, tmp_path, has_matplotlib):
    figure = Figure("judged", part_of(about="passages"), ["a"], "Judged@10", "Figure 7")
    reproduction = "pyterrier_ikat.papers.reproduction"
    frame = pd.DataFrame({"name": ["a"], "nDCG": [0.5]})
    monkeypatch.setattr(f"{reproduction}.figure_scores", lambda *_: frame)
    monkeypatch.setattr(f"{reproduction}.figure_notes", lambda *_: ["A note."])
    monkeypatch.setattr(f"{reproduction}.draw_figure", lambda *args: args[-1])
    monkeypatch.setattr(paper, "find_spec", lambda name: has_matplotlib or None)
    made = reproduced(root=tmp_path)
    paper._reproduce(figure, made, "mine-3.png", "text")
    text = capsys.readouterr()
    assert made.asked == [("run", figure.part)]
    assert "Figure 7: Judged@10" in " ".join(text.out.split())
    assert "A note." in text.out
    assert (str(tmp_path / "mine-3.png") in text.out) is has_matplotlib
    assert ("no picture without matplotlib" in text.err) is not has_matplotlib
    paper._reproduce(figure, made, "mine-3.png", "csv")
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
        paper._relabel("matrix", "made", plans, form)
        expected = table_of("plan" if plans else "labels").written(form)
        assert capsys.readouterr().out == expected
    assert asked == ([] if plans else ["run", "run"])


def test_every_kind_of_table_says_what_it_needs():
    tables = {
        "1": Matrix(2023, "GPT-4", [[1]], ""),
        "2": Listing(["system", "x"], ["a; y", "b; z"]),
        "3": Prompts("The prompts", ["x", "y"]),
        "4": Figure("judged", part_of(), ["b"], "Judged@10"),
        "5": [part_of(), part_of(year=2024)],
    }
    made = reproduced(paper=SimpleNamespace(deviations=[("One thing", "is so.")]))
    text = "\n".join(paper._about(made, tables, False))
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
    parts, others = [part_of(year=2024)], [part_of()]
    figure = Figure("judged", part_of(turns=7), ["a"], "Judged@10")
    about = SimpleNamespace(
        tables={"1": others, "2": parts}, figures={"Figure 3": figure}, deviations=[], link=""
    )
    made = reproduced(paper=about)
    paper._print_published("x", "2", parts, made, form)
    text = capsys.readouterr()
    whole = tables[0].written(form), tables[1].written(form)
    if form == "csv":
        assert text.out == "".join(whole)
    else:
        assert text.out.startswith("\n".join(whole))
    rest = text.out if form == "text" else text.err
    assert "Table 2: iKAT 2024" in rest
    assert "Table 1" not in rest
    assert "no key" not in rest
    paper._print_published("x", "Figure 3", figure, made, form)
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
    lines = list(paper._about_paper(reproduced(paper=about), with_reasons))
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
    lines = list(paper._papers())
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
            paper, name, lambda *args, called=name: seen.done.append((called, args))
        )
    monkeypatch.setattr(paper, "_about_paper", lambda made, reasons: [f"about, {reasons}"])
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


@pytest.mark.parametrize(("words", "reasons"), [("", False), ("--resources r", True)])
def test_a_paper_without_a_table_says_what_it_needs(call, reproduction, words, reasons):
    result = call("paper", "x", *words.split())
    assert result.stdout == f"about, {reasons}\n"
    assert reproduction.done == []
    assert reproduction.made[0][2] == OPTIONS


def test_warnings_are_lines_without_their_source(call, monkeypatch):
    def warns(*_, **__):
        warnings.warn("so it goes", stacklevel=1)
        return []

    monkeypatch.setattr("pyterrier_ikat.conversations.datasets.full_names", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = call("datasets")
    assert "ikat: warning: so it goes\n" in done.stderr
    assert "test_run_and_paper_choices" not in done.stderr
