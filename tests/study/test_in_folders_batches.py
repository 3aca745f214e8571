"""A run in batches of turns.

The same files as in one go, and nothing that is finished is done again. A finished batch has all
that its turns need, and none is kept that was made while an index changed.
"""

import functools
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from run_files import files_without_time

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate import Answer, Rewrite
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.llms.recorded import SAMPLE
from pyterrier_ikat.retrieve import BM25
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.folder import versions
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import Run, run_in_folders
from pyterrier_ikat.study.resources import taken_by
from pyterrier_ikat.study.systems import methods_in

METHODS = ("llama10", "gtr:depth=5", "baseline_auto_convgqr_bm25_minilm:depth=20")
FIVE = "1-1_1,1-1_2,1-1_3,2-1_1,2-1_2"


@functools.cache
def words_of(text):
    return frozenset(text.split())


class SharedWords(pt.Transformer):
    """Scores a passage by the share of the query's words that it has."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        scores = []
        for query, text in zip(inp["query"], inp["text"], strict=True):
            asked = words_of(query)
            shared = asked & words_of(text)
            scores.append(len(shared) / (len(asked) + 1))
        return pt.model.add_ranks(inp.assign(score=scores))

    def __repr__(self):
        return "SharedWords()"


@pytest.fixture(scope="session")
def index(sample_index):
    return str(sample_index.path)


class Opened:
    """Systems that are ready to run, and where."""

    def __init__(self, study, out, batch):
        self.study, self.out, self.batch = study, out, batch

    def run(self):
        runs = run_in_folders(self.study, self.out, self.batch)
        return {name: run.folder.results() for name, run in runs.items()}

    def parameters(self, name):
        return Run(self.study, self.system(name), Path(self.out)).identity

    def system(self, name):
        return next(one for one in self.study.systems if one.name == name)


def opened(index, out, *names, batch=None, turns=None, only_plan=False, **options):
    recorded = ikat.llm("recorded:sample")
    stand_ins = {
        "rewriter": Rewrite(recorded, style="llama"),
        "expander": Answer(recorded, style="llama"),
        "reranker": SharedWords(),
    }
    models = {"llm": "recorded:sample", "second_llm": "recorded:sample-claude"}
    taken = taken_by(methods_in(names))
    resources = models | stand_ins | options
    given = {name: value for name, value in resources.items() if name in taken}
    return Opened(
        Study(names, "ikat:sample", index=index, turns=turns, only_plan=only_plan, **given),
        str(out),
        batch,
    )


class Stopped(Exception):
    pass


PIECES = ("ledger.json", "run.trec", "stages.jsonl.gz", "turns.jsonl")
"""The files of a finished batch."""


def stop_after(monkeypatch, calls):
    """Let retrieval fail after so many calls; gives the qids of each call."""
    asked = []
    search = BM25.transform

    def transform(self, inp):
        if inp.empty:  # asked for its columns
            return search(self, inp)
        if len(asked) == calls:
            raise Stopped
        asked.append(inp["qid"].tolist())
        return search(self, inp)

    monkeypatch.setattr(BM25, "transform", transform)
    return asked


def stop(monkeypatch, calls, systems):
    """Run them until their retrieval fails after so many calls."""
    with monkeypatch.context() as patch:
        stop_after(patch, calls)
        with pytest.raises(Stopped):
            systems.run()


def turns_of(qids):
    """The turns of turns and sub-queries, each once, in their order."""
    turns = [qid.partition("::")[0] for qid in qids]
    return list(dict.fromkeys(turns))


def test_run_folder_is_the_same_bytes_for_any_batch_size(index, tmp_path):
    for name, size in (("whole", 2), ("parts", 1)):
        opened(index, tmp_path / name, *METHODS, batch=size, turns="1-1_3,2-1_2").run()
    folders = [name.replace(":", "-") for name in METHODS]
    for name in folders:
        assert files_without_time(tmp_path / "whole" / name) == files_without_time(
            tmp_path / "parts" / name
        ), name
    assert sorted(os.listdir(tmp_path / "parts")) == sorted(folders)


def test_batched_run_is_the_pipelines_and_says_who_answered(index, tmp_path):
    session = opened(index, tmp_path, "aqd_a", batch=2, turns=FIVE)
    found = session.run()["aqd_a"]
    expected = session.system("aqd_a").pipeline.transform(
        session.study.turns_of(session.system("aqd_a")).frame
    )
    assert (
        found[["qid", "docno", "rank"]].values.tolist()
        == expected[["qid", "docno", "rank"]].values.tolist()
    )
    assert found["score"].tolist() == pytest.approx(expected["score"].tolist(), abs=1e-6)
    turns = {turn["qid"]: turn for turn in RunFolder(tmp_path / "aqd_a").turns()}
    for row in expected.drop_duplicates("qid").itertuples():
        assert (turns[row.qid]["qanswer"], turns[row.qid]["qsubqueries"]) == (
            row.qanswer,
            row.qsubqueries,
        )
        assert turns[row.qid]["passages"] == (expected["qid"] == row.qid).sum()
    served = pd.read_csv(tmp_path / "aqd_a" / "ledger.csv")["served"].unique().tolist()
    assert RunFolder(tmp_path / "aqd_a").parameters()["served"] == {"recorded": served}
    assert served


def test_a_killed_run_repeats_no_finished_batch(index, tmp_path, monkeypatch):
    stop(monkeypatch, 3, opened(index, tmp_path / "killed", "aqd", batch=1, turns=FIVE))
    assert sorted(os.listdir(tmp_path / "killed")) == ["aqd.partial"]
    pieces = []
    for start in ("000000", "000001", "000002"):
        pieces += [f"{start}.{end}" for end in PIECES]
    assert sorted(os.listdir(tmp_path / "killed" / "aqd.partial")) == [*pieces, "run.json"]
    asked = stop_after(monkeypatch, None)
    resumed = opened(index, tmp_path / "killed", "aqd", batch=1, turns=FIVE)
    resumed.run()
    left = list(resumed.study.turns_of(resumed.system("aqd")).ids[3:])
    assert [turns_of(call) for call in asked] == [left[:1], left[1:]]
    assert resumed.study.ledger.frame()["known"].tolist() == [2, 2]
    opened(index, tmp_path / "whole", "aqd", turns=FIVE).run()
    assert os.listdir(tmp_path / "killed") == ["aqd"]
    killed = files_without_time(tmp_path / "killed" / "aqd")
    whole = files_without_time(tmp_path / "whole" / "aqd")
    assert {name: text for name, text in killed.items() if name != "ledger.csv"} == {
        name: text for name, text in whole.items() if name != "ledger.csv"
    }
    # The killed run had asked the LLM for all 5 turns; recorded completions have no cache, so those
    # of 2 turns were asked for twice.
    assert pd.read_csv(tmp_path / "killed" / "aqd" / "ledger.csv")["known"].tolist() == [7, 7]


def test_a_resumed_run_may_have_other_batches(index, tmp_path, monkeypatch):
    stop(monkeypatch, 1, opened(index, tmp_path / "killed", "raw", batch=2, turns=FIVE))
    opened(index, tmp_path / "killed", "raw", batch=1, turns=FIVE).run()
    opened(index, tmp_path / "whole", "raw", turns=FIVE).run()
    assert files_without_time(tmp_path / "killed" / "raw") == files_without_time(
        tmp_path / "whole" / "raw"
    )


def test_a_run_killed_before_its_first_batch_binds_nothing(index, tmp_path, monkeypatch):
    stop(monkeypatch, 0, opened(index, tmp_path, "ad", turns=FIVE))
    assert os.listdir(tmp_path / "ad.partial") == ["run.json"]
    opened(
        index, tmp_path, "ad", llm="recorded:sample-claude", turns=FIVE
    ).run()  # such as after a mistyped model
    assert os.listdir(tmp_path) == ["ad"]


def test_batches_of_another_run_are_refused_before_anything_runs(index, tmp_path, monkeypatch):
    stop(monkeypatch, 1, opened(index, tmp_path, "aqd", batch=2, turns=FIVE))
    asked = stop_after(monkeypatch, None)
    before = files_below(tmp_path)
    with pytest.raises(
        ikat.UsageError,
        match=r"aqd.partial holds finished batches of a run with different stages, .*remove it",
    ):
        opened(
            index, tmp_path, "raw", "aqd", batch=2, turns=FIVE, llm="recorded:sample-claude"
        ).run()
    assert asked == []
    assert files_below(tmp_path) == before


def files_below(folder):
    contents = {}
    for path in folder.rglob("*"):
        if path.is_file():
            contents[str(path)] = path.read_bytes()
    return contents


def test_damaged_batches_and_those_of_unknown_run_are_named(index, tmp_path, monkeypatch):
    stop_after(monkeypatch, 1)
    with pytest.raises(Stopped):
        opened(index, tmp_path, "raw", batch=2, turns=FIVE).run()
    (tmp_path / "raw.partial" / "000000.turns.jsonl").write_text('{"found": \n')
    with pytest.raises(ikat.DataError, match=r"000000.turns.jsonl, line 1, is not JSON"):
        opened(index, tmp_path, "raw", batch=2, turns=FIVE).run()
    (tmp_path / "raw.partial" / "run.json").unlink()
    with pytest.raises(ikat.DataError, match=r"raw.partial is not a finished run: .*run.json"):
        opened(index, tmp_path, "raw", batch=2, turns=FIVE).run()


def test_turns_without_passages_keep_what_was_written_for_them(index, tmp_path, monkeypatch):
    search = BM25.transform
    monkeypatch.setattr(
        BM25,
        "transform",
        lambda self, inp: search(self, inp).query("not qid.str.startswith('1-1_1')"),
    )
    for name, batch in (("whole", 100), ("parts", 1)):
        opened(index, tmp_path / name, "ad", batch=batch, turns=FIVE).run()
    assert files_without_time(tmp_path / "whole" / "ad") == files_without_time(
        tmp_path / "parts" / "ad"
    )
    first = json.loads((tmp_path / "parts" / "ad" / "turns.jsonl").read_text().splitlines()[0])
    assert (first["qid"], first["passages"]) == ("1-1_1", 0)
    assert first["qanswer"]


def test_a_system_that_finds_nothing_at_all_keeps_its_run(index, tmp_path, monkeypatch):
    search = BM25.transform
    monkeypatch.setattr(BM25, "transform", lambda self, inp: search(self, inp).iloc[:0])
    found = opened(index, tmp_path, "ad", batch=2, turns=FIVE).run()["ad"]
    assert len(found) == 0
    turns = RunFolder(tmp_path / "ad").turns()
    assert [turn["passages"] for turn in turns] == [0] * 5
    for turn in turns:
        assert turn["qanswer"]


def test_a_batch_holds_at_least_one_turn(index, tmp_path):
    with pytest.raises(ikat.UsageError, match="turns_at_once=0: do at least one turn at a time"):
        opened(index, tmp_path, "raw", batch=0).run()


LIVE = "openai:m base_url=http://127.0.0.1:9/v1 temperature=0"


@pytest.fixture(scope="module")
def parameters(index, tmp_path_factory):
    """What identifies a run of which both LLMs have this specification."""
    out = tmp_path_factory.mktemp("runs")
    return functools.cache(
        lambda spec: opened(index, out, "gtr", llm=spec, second_llm=spec).parameters("gtr")
    )


def test_a_run_goes_on_with_another_budget_time_out_or_cache(parameters):
    more = "concurrency=3 timeout=5 retries=1 budget=5 price_in=1 price_out=2 'cache=my file'"
    assert parameters(f"{LIVE} {more}") == parameters(LIVE)


@pytest.mark.parametrize("change", [("=0", "=1"), (":9", ":8"), ("m ", "n ")])
def test_a_run_does_not_go_on_with_an_llm_that_answers_otherwise(change, parameters):
    assert parameters(LIVE.replace(*change)) != parameters(LIVE)


def test_batches_of_other_versions_are_refused(index, tmp_path, monkeypatch):
    stop(monkeypatch, 1, opened(index, tmp_path, "raw", batch=2, turns=FIVE))
    other = versions() | {"torch": "9.9"}
    monkeypatch.setattr("pyterrier_ikat.study.in_folders.versions", lambda: other)
    before = files_below(tmp_path)
    with pytest.raises(
        ikat.UsageError,
        match=r"different versions \({'torch': '[^']+'}, now {'torch': '9.9'}\): choose",
    ):
        opened(index, tmp_path, "raw", batch=2, turns=FIVE).run()
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("renamed", "left"), [(False, [".raw.tmp", "raw.partial"]), (True, ["raw", "raw.partial"])]
)
def test_a_run_that_was_killed_at_its_very_end_gets_its_name(
    index, tmp_path, monkeypatch, renamed, left
):
    def rename(self, target):
        if renamed:
            os.rename(self, target)
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        with pytest.raises(Stopped):
            opened(index, tmp_path, "raw", turns=FIVE).run()
    assert sorted(os.listdir(tmp_path)) == left
    asked = stop_after(monkeypatch, None)
    opened(index, tmp_path, "raw", turns=FIVE).run()
    assert (asked, os.listdir(tmp_path)) == ([], ["raw"])


@pytest.mark.parametrize("kept", [-1, 0])
def test_a_finished_run_whose_ranking_lost_lines_is_not_reused(kept, index, tmp_path):
    told = [
        "run",
        "raw",
        "--dataset",
        "ikat:sample",
        "--index",
        index,
        "--turns",
        FIVE,
        "--out",
        str(tmp_path),
    ]
    assert CliRunner().invoke(main, told).exit_code == 0
    path = tmp_path / "raw" / "run.trec"
    whole = path.read_bytes()
    path.unlink()
    if kept:
        path.write_bytes(whole[:kept])
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 2
    assert done.output.startswith("ikat: ")
    assert "(it was cut, changed or removed)" in done.output
    path.write_bytes(whole)
    assert CliRunner().invoke(main, told).exit_code == 0


def with_an_empty_completion(path, qid):
    """The recorded completions of the sample.

    The one from which a turn's response is made empty.
    """
    lines = [json.loads(line) for line in SAMPLE["sample"].read_text().splitlines()]
    for line in lines:
        if (line["qid"], line.get("prompt")) == (qid, "respond_suggested"):
            line["completion"] = ""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return f"recorded:{path}"


@pytest.fixture
def failed(index, tmp_path):
    """A run of three turns, one at a time, that ended in the second one, for want of a response.

    And how to open it.
    """
    spec = with_an_empty_completion(tmp_path / "recorded.jsonl", "3-1_5")

    def again(more="", batch=1):
        turns = "1-1_1,3-1_5,3-1_6"
        return opened(
            index, tmp_path / "runs", "rtg", batch=batch, turns=turns, llm=f"{spec}{more}"
        )

    with pytest.raises(StageError, match="on_error=fallback"):
        again().run()
    return again


def test_failed_stages_advice_resumes_from_the_finished_batches(failed, tmp_path, monkeypatch):
    asked = stop_after(monkeypatch, None)
    failed(" on_error=fallback").run()
    assert [turns_of(call) for call in asked] == [["3-1_5"], ["3-1_6"]]
    folder = RunFolder(tmp_path / "runs" / "rtg")
    assert list(folder.parameters()["on_error"].values()) == ["fallback"]
    assert pd.read_csv(folder.path / "ledger.csv")["fallbacks"].sum() == 1
    with pytest.raises(
        ikat.UsageError,
        match=r"rtg holds a run with different on_error \({.*: 'fallback'}, now {.*: 'raise'}\)",
    ):
        failed().run()


def test_batches_with_possible_fallbacks_are_not_a_raising_runs(failed, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 1)  # one batch more, so that such as were made both ways lie there
        with pytest.raises(Stopped):
            failed(" on_error=fallback", batch=1).run()
    with pytest.raises(
        ikat.UsageError,
        match=r"rtg.partial holds finished batches of .* on_error \({.*: 'fallback'}, now {.*: "
        r"'raise'}",
    ):
        failed().run()
    failed(" on_error=fallback").run()


def test_finished_run_without_failures_is_the_one_with_fallbacks(index, tmp_path, monkeypatch):
    opened(index, tmp_path, "aqd", turns=FIVE).run()
    asked = stop_after(monkeypatch, None)
    opened(index, tmp_path, "aqd", turns=FIVE, llm="recorded:sample on_error=fallback").run()
    assert asked == []
    assert list(RunFolder(tmp_path / "aqd").parameters()["on_error"].values()) == ["raise"]


def test_an_index_is_the_same_by_any_path_to_it(index, tmp_path, monkeypatch):
    stop(monkeypatch, 1, opened(index, tmp_path / "runs", "raw", batch=3, turns=FIVE))
    (tmp_path / "copied").symlink_to(index)
    monkeypatch.chdir(tmp_path)
    asked = stop_after(monkeypatch, None)
    for path in ("copied", "./copied", str(tmp_path / "copied"), index):
        opened(path, tmp_path / "runs", "raw", batch=3, turns=FIVE).run()
    assert len(asked) == 1
    assert str(tmp_path) not in json.dumps(RunFolder(tmp_path / "runs" / "raw").parameters())


TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FOUND = pd.DataFrame(
    {"qid": ["1_1", "1_1"], "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]}
)
QRELS = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [1]})


def run(system, tmp_path, size=2):
    return run_in_folders(Study({"mine": system}, topics=TOPICS, qrels=QRELS), tmp_path, size)[
        "mine"
    ].folder


def test_a_batch_keeps_tuples_arrays_and_marks(tmp_path):
    found = FOUND.assign(
        qstatements=column([(("10", np.float64(0.5)),)] * 2),
        qfound=column([np.array([7, 3])] * 2),
        used=column([np.True_, None]),
    )
    turns = pt.apply.generic(
        lambda frame: frame.assign(qsubqueries=column([None, ("milk", "cow")][: len(frame)]))
    )
    turns.one_row_per_turn = True
    folder = run(turns >> pt.apply.generic(lambda frame: found[: len(frame)]), tmp_path)
    tea, milk = folder.turns()
    assert (tea["qstatements"], tea["qfound"], tea["used"], tea["passages"]) == (
        [["10", 0.5]],
        [7, 3],
        ["a"],
        2,
    )
    assert (milk["qsubqueries"], milk["passages"]) == (["milk", "cow"], 0)
    assert (folder.path / "run.trec").read_text() == "1_1 Q0 a 1 2 mine\n1_1 Q0 b 2 1 mine\n"


def test_a_batch_that_would_lose_statements_is_refused(tmp_path):
    lost = FOUND.assign(qstatements=column([{"10": 0.5}] * 2))
    with pytest.raises(DataError, match="turn 1_1: qstatements is"):
        run(pt.apply.generic(lambda frame: lost[: len(frame)]), tmp_path)


class Index:
    path, state = "tea.index", "tea"

    def fingerprint(self):
        return self.state


class Finds(pt.Transformer):
    """A retriever whose index changes while it answers a turn."""

    def __init__(self, changes_at):
        super().__init__()
        self.index = Index()
        self.changes_at = changes_at

    def transform(self, inp):
        if self.changes_at in inp["qid"].tolist():
            self.index.state = "coffee"
        return inp.assign(docno="a", score=1.0, rank=0)


@pytest.mark.parametrize(("changes_at", "kept"), [("1_2", ["1_1"]), ("1_1", [])])
def test_batch_made_while_an_index_changed_is_not_kept(changes_at, kept, tmp_path):
    system = Finds(changes_at)
    with pytest.raises(
        DataError,
        match=r"what mine uses .* changed during its run \(different parts .*: put back what the "
        r"run began with",
    ):
        run(system, tmp_path, 1)
    turns = []
    for path in (tmp_path / "mine.partial").glob("*.turns.jsonl"):
        turns.append(json.loads(path.read_text())["qid"])
    assert turns == kept
