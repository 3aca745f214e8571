"""`ikat run`: its options and plans, and runs of the sample: whole, continued or refused."""

import json
import re
import signal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_results import BOTH, ONE, succeeded, table_of

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.retrieve import bm25
from pyterrier_ikat.tables import Cell, Column, Table

module = import_module("pyterrier_ikat.cli.run")


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
    monkeypatch.setattr(module, "print_results", lambda *args: calls_of.printed.append(args))
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
    module.print_results(results, form)
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


# Runs of the sample


def test_index_run_and_evaluate(call, run, tmp_path, monkeypatch):
    built = call("index", "ikat:sample", tmp_path / "i")
    assert built.exit_code == 0
    assert built.stdout.splitlines()[-1] == f"{tmp_path / 'i'}: 230 passages"
    words = ("raw", "aqd", "human_qr", "--measures", "P@1,RR@10", "--baseline", "raw")
    made = succeeded(run(tmp_path / "runs", *words, index=tmp_path / "i"))
    assert "Mean over 24 judged turns" in made.stdout
    assert "RR(rel=1)@10" in made.stdout
    assert "significantly lower than raw" in " ".join(made.stdout.split())
    assert "nDCG" not in made.stdout
    assert re.search(
        r"queries +recorded +0 +24 ", call("evaluate", tmp_path / "runs" / "aqd", "--cost").output
    )
    monkeypatch.chdir(tmp_path / "runs" / "aqd")
    assert "\naqd  " in call("evaluate", ".", "--dataset", "ikat:sample").output
    turns = [json.loads(line) for line in Path("turns.jsonl").read_text().splitlines()]
    assert len(turns) == 24
    for turn in turns:
        assert 1 <= len(turn["qsubqueries"]) <= 5
        assert turn["qanswer"]


def test_an_automatic_run_sees_no_gold_and_says_how_it_differs(run, tmp_path):
    made = succeeded(run(tmp_path, "ad"))
    assert "qresolved" not in (tmp_path / "ad" / "turns.jsonl").read_text()
    differences = [
        "llm: the paper has openai:gpt-4, this run recorded:sample",
        "reranker: the paper has cross-encoder/ms-marco-MiniLM-L-6-v2, this run none",
    ]
    assert json.loads((tmp_path / "ad" / "run.json").read_text())["deviations"] == differences
    assert " ".join(f"note: ad: {line}" for line in differences) in " ".join(made.stdout.split())


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_turns_and_systems_without_passages_are_kept_and_named(call, run, recorded, tmp_path):
    said = [("1-1_1", "answer", "xyzzy"), ("1-1_2", "answer", "walk in the heath")]
    made = succeeded(run(tmp_path / "runs", "ad", *BOTH, llm=recorded(tmp_path / "r.jsonl", *said)))
    assert "ad lacks 1 judged turn, counted 0: 1-1_1." in made.output
    lines = (tmp_path / "runs" / "ad" / "turns.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert (first["qid"], first["qanswer"], first["passages"]) == ("1-1_1", "xyzzy", 0)
    assert second["passages"] > 0
    nothing = run(tmp_path / "none", "ad", "raw", *ONE, llm=recorded(tmp_path / "r.jsonl", said[0]))
    assert "ad lacks 1 judged turn, counted 0: 1-1_1." in succeeded(nothing).output
    succeeded(call("evaluate", tmp_path / "none" / "ad", "--dataset", "ikat:sample"))


@pytest.mark.filterwarnings("default::pyterrier_ikat.study.NotJudgedWarning")
def test_before_judgements_are_published_a_run_has_no_scores(run, tmp_path, monkeypatch):
    def get_qrels(self, variant=None):
        raise ikat.DataError("qrels.txt isn't published yet")

    with monkeypatch.context() as patch:
        patch.setattr(SampleDataset, "get_qrels", get_qrels)
        made = succeeded(run(tmp_path, "ad", *BOTH))
    assert "ikat: warning: there will be no scores: qrels.txt isn't published yet" in made.stderr
    assert "Mean over" not in made.output
    assert "Mean over 2 judged turns" in run(tmp_path, "ad", *BOTH).stdout  # once they are there


def test_searches_and_scores_kept_in_a_file_are_not_repeated(run, refused, tmp_path, monkeypatch):
    searched = []
    search = bm25.BM25.find_rankings

    def search_and_note(*given):
        searched.extend(given[2])
        return search(*given)

    monkeypatch.setattr(bm25.BM25, "find_rankings", search_and_note)
    runs = []
    for name in ("first", "again"):
        monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
        succeeded(run(tmp_path / name, "qr", *BOTH, "--cache", tmp_path / "c.sqlite"))
        runs.append((tmp_path / name / "qr" / "run.trec").read_text())
    assert (len(searched), runs[0]) == (2, runs[1])
    (tmp_path / "mine").write_text("my thesis " * 99)
    assert "on the command line --cache" in refused(
        run(tmp_path / "third", "qr", "--cache", tmp_path / "mine")
    )


def test_a_resource_file_serves_commands_and_methods_take_theirs(call, sample_index, tmp_path):
    """Also beside names of a paper's models, which `ikat paper` reads; short options come first."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'llm = "recorded:sample"\nsecond_llm = "recorded:nothing"\n"gpt-4" = "openai:gpt-4-0613"\n'
    )
    on = ["--dataset", "ikat:sample", "--index", sample_index, *ONE]
    on += ["--out", tmp_path / "runs", "--resources"]
    for name in ("raw", "ad"):
        succeeded(call("run", name, *on, file))
    assert "nothing can't be read as recorded completions" in call("run", "gtr", *on, file).stderr
    succeeded(call("run", "gtr:depth=10", *on, "sample"))


# Runs that are there or have begun


def test_other_dataset_names_and_none_models_keep_a_finished_run(call, run, sample_index, tmp_path):
    succeeded(run(tmp_path, "ad", *ONE))
    before = (tmp_path / "ad" / "run.trec").stat().st_mtime_ns
    on = ("--dataset", "sample", "--index", sample_index, "--llm", "recorded:sample")
    again = succeeded(call("run", "ad", *on, *ONE, "--out", tmp_path))
    assert "LLM ledger" not in again.output  # recorded completions cost nothing
    succeeded(run(tmp_path, "ad", *ONE, "--reranker", "none"))
    for name in ("reranker", "rewriter", "expander", "second_llm", "splade_model"):
        succeeded(run(tmp_path, "ad", *ONE, "--resources", f"{name}=None"))
    assert (tmp_path / "ad" / "run.trec").stat().st_mtime_ns == before


def other_turns(folder):
    return ("--turns", "1-1_2")


def an_edited_recording(folder):
    (folder / "r.jsonl").write_text((folder / "r.jsonl").read_text().replace("Walk", "Swim"))
    return ONE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (other_turns, "holds a run with different topics_sha256"),
        (an_edited_recording, "holds a run with different parts ("),
    ],
)
def test_a_changed_run_is_no_finished_run_and_stays_as_it_is(
    changed, message, run, refused, recorded, tmp_path
):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answer.jinja").write_text("In one word: {{ question }}")
    llm = recorded(tmp_path / "r.jsonl", *((qid, "answer", "Walk.") for qid in ("1-1_1", "1-1_2")))
    own = ("--resources", f"prompts={tmp_path / 'prompts'}")
    out = tmp_path / "runs"
    for _ in range(2):
        succeeded(run(out, "ad", *ONE, *own, llm=llm))
    before = (out / "ad" / "run.json").read_bytes()
    assert b"prompts='own'" in before
    again = run(out, "ad", *changed(tmp_path), *own, llm=llm)
    assert message in refused(again)
    assert not re.search(r"\b[0-9a-f]{16,}\b", again.output)
    assert (out / "ad" / "run.json").read_bytes() == before


def test_a_link_in_place_of_a_run_is_refused_before_running(run, refused, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "raw").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(bm25.BM25, "find_rankings", lambda *_: pytest.fail("searched"))
    assert "raw is not empty and holds no finished run" in refused(run(tmp_path / "out", "raw"))


def test_a_search_that_is_terminated_keeps_the_finished_batches(
    run, refused, tmp_path, monkeypatch
):
    search = bm25.BM25.find_rankings
    searched = []

    def interrupted(*given):
        searched.append(given)
        if len(searched) == 2:
            signal.raise_signal(signal.SIGTERM)
        return search(*given)

    # Ray, where another test started it in this process, hears it itself
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        monkeypatch.setattr(bm25.BM25, "find_rankings", interrupted)
        monkeypatch.setattr("pyterrier_ikat.study.in_folders.TURNS_AT_ONCE", 8)
        assert refused(run(tmp_path, "raw")).startswith("stopped: finished work is kept")
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "raw.partial" / "000000.turns.jsonl").is_file()
    succeeded(run(tmp_path, "raw"))
    assert len(searched) == 4


# What fails


def test_an_unloadable_reranker_is_found_before_an_llm_is_asked(
    run, refused, tmp_path, monkeypatch
):
    monkeypatch.setattr("pyterrier_ikat.llms.LLM.ask", lambda *_: pytest.fail("asked"))
    for name in ("bi:none/such", "none/such"):
        assert "can't load the" in refused(run(tmp_path / "runs", "aqd_a", "--reranker", name))


MINE = """
import pyterrier as pt
import pyterrier_ikat as ikat
from pyterrier_ikat.methods import method


def fail(frame):
    raise {error}


@method
def mine(retriever):
    return ikat.RawUtterance() >> retriever >> pt.apply.generic(fail, required_columns=["qid"])
"""


@pytest.mark.parametrize("error", ["ValueError('no luck')", "ikat.DataError('no luck')"])
def test_a_system_that_fails_is_named_and_stops_no_other(error, run, tmp_path):
    (tmp_path / "mine.py").write_text(MINE.replace("{error}", error))
    made = run(tmp_path / "runs", "raw", f"{tmp_path / 'mine.py'}:mine", "ad", *ONE)
    last = made.stderr.strip().splitlines()[-1]
    assert made.exit_code == 2
    assert "mine failed: " in last
    assert "no luck" in last
    assert (tmp_path / "runs" / "raw" / "run.trec").exists()
    assert (tmp_path / "runs" / "ad" / "run.trec").exists()
    assert not (tmp_path / "runs" / "mine" / "run.trec").exists()


def test_a_recording_lacking_a_turn_stops_no_other_system(run, recorded, tmp_path):
    llm = recorded(tmp_path / "r.jsonl", ("1-1_1", "answer", "Walk."))
    made = run(tmp_path / "runs", "ad", "raw", llm=llm)
    assert made.exit_code == 2
    assert "ad failed: " in made.stderr.splitlines()[-1]
    assert "lacks 23 completions" in made.stderr
    assert (tmp_path / "runs" / "raw").exists()
    assert not (tmp_path / "runs" / "ad").exists()
    assert (
        "Mean over 1 judged turn" in succeeded(run(tmp_path / "runs", "ad", *ONE, llm=llm)).stdout
    )


# Plans


def test_plan_prints_calls_and_writes_nothing(run, tmp_path):
    llm = "openai:gpt-4o cache=none price_in=2.5 price_out=10"
    planned = succeeded(run(tmp_path / "runs", "ad", "aqd", "--plan", llm=llm))
    assert "Total: 72 calls, 48 of them new" in planned.output
    rows = [line.split() for line in planned.output.splitlines()]
    assert [row[:7] for row in rows if row[2:3] == ["gpt-4o"]] == [
        ["ad", "answer", "gpt-4o", "24", "0", "0", "24"],
        ["aqd", "answer", "gpt-4o", "24", "0", "24", "0"],
        ["aqd", "queries", "gpt-4o", "24", "0", "0", "24"],
    ]
    succeeded(run(tmp_path / "runs", "aqd_a", "--reranker", "none/such", "--plan"))
    assert not (tmp_path / "runs").exists()


def prompts_in(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "answer.jinja").write_text(text)
    return folder


def test_a_plan_ends_with_code_2_where_the_run_would_be_refused(run, tmp_path):
    """Another prompt, other turns, half a run with another prompt, other files in the folder."""
    out = tmp_path / "runs"
    own = prompts_in(tmp_path / "p", "Answer {{ question }} in short.")
    given = ["ad", *BOTH, "--resources", f"prompts={own}"]
    succeeded(run(out, *given, "--plan"))
    succeeded(run(out, *given))
    succeeded(run(out, *given, "--plan"))  # the same run
    succeeded(run(tmp_path / "others", *given, "--plan"))
    prompts_in(own, "Answer {{ question }} at length.")
    for more in ((), ("--format", "csv")):
        planned = run(out, *given, "--plan", *more)
        told = " ".join(planned.output.split())
        assert planned.exit_code == 2
        assert (
            f"{out}/ad holds a run with different prompts (1 answer): choose another --out, or "
            "remove it" in told
        )
        assert "answer" in planned.stdout
    assert run(out, *given).exit_code == 2
    assert run(out, "ad", *ONE, "--plan").exit_code == 2
    (tmp_path / "full" / "raw").mkdir(parents=True)
    (tmp_path / "full" / "raw" / "notes.txt").touch()
    refused = run(tmp_path / "full", "raw", "--plan")
    assert refused.exit_code == 2
    assert "is not empty and holds no finished run" in " ".join(refused.output.split())


def test_a_plan_refuses_unknown_measures_or_baselines_as_a_run(run, refused, tmp_path):
    for more in (("--measures", "nDGC@5"), ("--baseline", "other")):
        planned = refused(run(tmp_path / "runs", "ad", *more, "--plan"))
        ran = refused(run(tmp_path / "runs", "ad", *more))
        assert planned == ran


def test_a_plan_in_python_says_what_would_be_refused(sample_index, tmp_path):
    system = {"mine": ikat.RawUtterance() >> ikat.PassageIndex(sample_index).bm25(num_results=5)}
    other = {"mine": ikat.RawUtterance() >> ikat.PassageIndex(sample_index).bm25(num_results=6)}
    ikat.run(system, "ikat:sample", out=tmp_path)
    assert ikat.plan(system, "ikat:sample", out=tmp_path).refused == []
    [told] = ikat.plan(other, "ikat:sample", out=tmp_path).refused
    assert "mine holds a run with different stages" in told
    assert "The run would be refused:" in str(ikat.plan(other, "ikat:sample", out=tmp_path))
    [told] = ikat.plan({"mine": ikat.RawUtterance()}, "ikat:sample", out=tmp_path / "new").refused
    assert "makes no ranking" in told
