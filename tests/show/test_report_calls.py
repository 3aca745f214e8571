import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.show.report import turns
from pyterrier_ikat.show.report.material import RunData, read_stages
from pyterrier_ikat.show.report.page import Call
from pyterrier_ikat.show.report.turns import fit_calls


def test_prompts_are_cut_where_the_calls_are_many_and_the_page_says_so(monkeypatch):
    call = Call("answer", "Answer()", [{"role": "user", "content": "x" * 3000}], "yes")
    run = RunData("one", pd.DataFrame(), calls={"1_1": [call]})
    assert fit_calls([run]) == ([run], [])
    monkeypatch.setattr(turns, "CHARACTERS", 1100)
    (cut,), notes = fit_calls([run])
    assert cut.calls["1_1"][0].messages == [{"role": "user", "content": "x" * 1000 + " […]"}]
    assert cut.calls["1_1"][0].completion == "yes"
    assert notes == ["Prompts and completions are cut at 1000 characters: the run folders have them."]
    monkeypatch.setattr(turns, "CHARACTERS", 10)
    (none,), notes = fit_calls([run])
    assert (none.calls, notes) == ({}, ["The LLM calls are too many for one page: make a report of fewer turns."])


def test_a_run_folder_tells_the_queries_that_were_searched_for(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    ikat.run(["human_qr", "raw"], "ikat:sample", out=tmp_path / "runs", index=index, turns=["1-1_1", "1-1_2"])
    topics = ikat.dataset("ikat:sample").get_topics("manual").set_index("qid")
    for name, column in (("human_qr", "qresolved"), ("raw", "qutterance")):
        searched, calls = read_stages(ikat.runs.RunFolder(tmp_path / "runs" / name))
        assert searched == {qid: [topics[column][qid]] for qid in ("1-1_1", "1-1_2")}
        assert not any(calls.values())


def test_a_run_folder_tells_prompts_and_completions(tmp_path):
    class Model:
        def generate(self, chats):
            return ["tea with mint"] * len(chats)

    index = ikat.PassageIndex(tmp_path / "index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    rewrite = ikat.Rewrite(ikat.llm(Model()))
    ikat.run({"mine": rewrite >> index.bm25(num_results=3)}, "ikat:sample", out=tmp_path / "runs", turns=["1-1_1"])
    topics = ikat.dataset("ikat:sample").get_topics()
    (request,) = rewrite.requests(topics[topics["qid"] == "1-1_1"])
    searched, calls = read_stages(ikat.runs.RunFolder(tmp_path / "runs" / "mine"))
    (call,) = calls["1-1_1"]
    assert (call.name, call.messages, call.completion, call.failed) == ("rewrite", request.messages, "tea with mint", False)
    assert call.stage.startswith("ikat.Rewrite(")
    assert searched == {"1-1_1": ["tea with mint"]}


@pytest.mark.usefixtures("sample")
def test_a_folder_without_stages_tells_nothing(folders):
    assert read_stages(folders[0]) == ({}, {})
