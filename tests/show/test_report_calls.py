import base64
import json
import random
import zlib

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.show.report import page as module
from pyterrier_ikat.show.report.page import Call, pack_calls, read_kept

PROMPT = [{"role": "user", "content": "History:\nTea?\nAnswer."}]


def unpack(packed):
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_each_line_is_kept_once():
    runs = [{"1_1": [Call("answer", "Answer()", PROMPT, "Tea?"), Call("queries", "Queries()", PROMPT, "no key", failed=True)]}, {}]
    packed, note = pack_calls(["1_1", "1_2"], runs, {"1_1": ["one finds a."]})
    asked = [["user", [0, 1, 2]]]
    assert unpack(packed) == {
        "reasons": [["one finds a."], []],
        "lines": ["History:", "Tea?", "Answer.", "no key"],
        "calls": [[[["answer", "Answer()", asked, [1], 0], ["queries", "Queries()", asked, [3], 1]], []], [[], []]],
    }
    assert note == ""


def test_lines_are_cut_where_the_calls_are_many_and_the_page_says_so(monkeypatch):
    noise = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvwxyz", k=3000))
    calls = [{"1_1": [Call("answer", "Answer()", [{"role": "user", "content": noise}], "yes")]}]
    monkeypatch.setattr(module, "BYTES", 400)
    packed, note = pack_calls(["1_1"], calls, {})
    assert note == "Lines of prompts and completions are cut at 120 characters."
    assert unpack(packed)["lines"][0].endswith(" […]")
    assert len(unpack(packed)["lines"][0]) == 124
    monkeypatch.setattr(module, "BYTES", 10)
    packed, note = pack_calls(["1_1"], calls, {})
    assert unpack(packed)["calls"] == []
    assert note == "The LLM calls are too many for one page: make a report of fewer turns."


def test_a_run_folder_tells_the_queries_that_were_searched_for(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    ikat.run(["human_qr", "raw"], "ikat:sample", out=tmp_path / "runs", index=index, turns=["1-1_1", "1-1_2"])
    topics = ikat.dataset("ikat:sample").get_topics("manual").set_index("qid")
    for name, column in (("human_qr", "qresolved"), ("raw", "qutterance")):
        kept = read_kept(ikat.runs.RunFolder(tmp_path / "runs" / name))
        assert {qid: one.searched for qid, one in kept.items()} == {qid: [topics[column][qid]] for qid in ("1-1_1", "1-1_2")}
        assert not any(one.calls for one in kept.values())


def test_a_run_folder_tells_prompts_and_completions(tmp_path):
    class Model:
        def generate(self, chats):
            return ["tea with mint"] * len(chats)

    index = ikat.PassageIndex(tmp_path / "index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    rewrite = ikat.Rewrite(ikat.llm(Model()))
    ikat.run({"mine": rewrite >> index.bm25(num_results=3)}, "ikat:sample", out=tmp_path / "runs", turns=["1-1_1"])
    topics = ikat.dataset("ikat:sample").get_topics()
    (request,) = rewrite.requests(topics[topics["qid"] == "1-1_1"])
    kept = read_kept(ikat.runs.RunFolder(tmp_path / "runs" / "mine"))["1-1_1"]
    (call,) = kept.calls
    assert (call.name, call.messages, call.completion, call.failed) == ("rewrite", request.messages, "tea with mint", False)
    assert call.stage.startswith("ikat.Rewrite(")
    assert kept.searched == ["tea with mint"]


@pytest.mark.usefixtures("sample")
def test_a_folder_without_stages_tells_nothing(folders):
    assert read_kept(folders[0]) == {}
