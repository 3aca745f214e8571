"""What a run folder keeps of each stage."""

import gzip

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.events import observed_by
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.rank import reranker
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.folder import read_stages
from pyterrier_ikat.study.recorder import Recorder

TURN = "1-1_3"
GTR = "1-1_1,1-1_3,2-1_2"


class SharedWords(reranker.Reranker):
    """Scores a passage by the share of the query's words that it has."""

    def score(self, frame):
        scores = []
        for query, text in zip(frame["query"], frame["text"], strict=True):
            words = query.split()
            shared = set(words) & set(text.split())
            scores.append(len(shared) / (len(words) + 1))
        return np.array(scores)


def run(index, out, name, turns=TURN, **more):
    models = {"llm": "recorded:sample", "reranker": SharedWords()} | more
    options = ikat.methods.find(name).resources.values()
    taken = {option: model for option, model in models.items() if option in options}
    ikat.run(name, "ikat:sample", index=index, out=out, turns=turns, **taken)
    return RunFolder(out / name)


def of_turn(folder, stage, qid=TURN):
    lines = [line for line in folder.stages() if line["qid"] == qid]
    return [line for line in lines if line["stage"].startswith(stage)]


@pytest.fixture(scope="module")
def gtr(index, tmp_path_factory):
    return run(
        index, tmp_path_factory.mktemp("gtr"), "gtr", GTR, second_llm="recorded:sample-claude"
    )


def test_both_gtr_branches_keep_answers_statements_and_queries(gtr):
    turns = pt.get_dataset("ikat:sample").get_topics()
    turns = turns[turns["qid"] == TURN].reset_index(drop=True)
    for place, model in enumerate(("sample", "sample-claude")):
        llm = ikat.llm(f"recorded:{model}")
        written = (
            ikat.SelectStatements(llm, "copies")
            >> ikat.Answer(llm, words=200)
            >> ikat.MultiQuery(llm, 5, "answer", words=200)
        )(turns).iloc[0]
        asked = of_turn(gtr, "index.bm25")[place]["found"]
        assert (
            of_turn(gtr, f"ikat.Answer(ikat.llm('recorded:{model}')")[0]["wrote"]["qanswer"]
            == written["qanswer"]
        )
        assert of_turn(gtr, f"ikat.SelectStatements(ikat.llm('recorded:{model}')")[0]["wrote"][
            "qstatements"
        ] == [list(pair) for pair in written["qstatements"]]
        assert len(asked) > 1
        assert [query["qsub"] for query in asked] == list(range(len(asked)))


def test_each_query_keeps_its_own_list_and_the_rerankers_scores(index, tmp_path):
    folder = run(index, tmp_path, "aqd")
    system = ikat.methods.aqd(ikat.llm("recorded:sample"), index.bm25(), SharedWords())
    turns = pt.get_dataset("ikat:sample").get_topics()
    before = pt.Compose(*list(system)[:-2])
    behind = SharedWords()
    found = before(turns[turns["qid"] == TURN].reset_index(drop=True))
    scored = behind(found)
    [first] = of_turn(folder, "index.bm25()")
    [second] = [line for line in of_turn(folder, "") if "scored" in line]
    for line, frame in ((first["found"], found), (second["scored"], scored)):
        for query in line:
            rows = frame[frame["qid"] == query["qid"]]
            scores = dict(zip(rows["docno"], rows["score"], strict=True))
            assert dict(zip(query["docnos"], query["scores"], strict=True)) == pytest.approx(
                scores, abs=1e-6
            )
            assert rows["query"].unique().tolist() == [query["query"]]
        for query in line:
            rows = found[found["qid"] == query["qid"]]
            assert query["docnos"] == rows["docno"].tolist()
    assert first["query"] == found["qquery"][0]
    assert len(first["found"]) == found["qid"].nunique() > 1


def test_queries_suggestions_and_summaries_are_kept(index, tmp_path):
    [rewritten] = of_turn(run(index, tmp_path, "rtg"), "ikat.generate.OutlineAnswer")
    assert rewritten["wrote"]["qsuggestion"].startswith("Content: a clear yes")
    [summary] = of_turn(run(index, tmp_path, "short_long_2"), "ikat.generate.Summarise")
    assert list(summary["wrote"]) == ["qhistory"]
    assert "The assistant recommended" in summary["wrote"]["qhistory"][1]["content"]
    [found] = of_turn(run(index, tmp_path, "hqe"), "index.bm25()")[-1:]
    assert found["found"][0]["query"] == found["query"]
    assert found["query"].startswith("Even there some slopes will go down.")


def test_pairs_of_all_queries_and_candidates_stay_in_their_turn(index, tmp_path):
    folder = run(index, tmp_path, "wghtdrerank_1")
    [found] = of_turn(folder, "index.bm25(")
    [line] = [line for line in of_turn(folder, "") if "scored" in line]
    union = set()
    for query in found["found"]:
        union.update(query["docnos"])
    assert [query["qid"] for query in line["scored"]] == [query["qid"] for query in found["found"]]
    for query in line["scored"]:
        assert set(query["docnos"]) == union
        assert len(query["scores"]) == len(union)


def test_a_file_that_was_cut_is_refused(gtr, tmp_path):
    whole = (gtr.path / "stages.jsonl.gz").read_bytes()
    assert len(gzip.decompress(whole).splitlines()) == len(list(gtr.stages()))
    for content in (whole[:-9], b"x" + whole):
        (tmp_path / "stages.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match="can't be read"):
            list(RunFolder(tmp_path).stages())


def test_llm_calls_are_kept_with_their_stage_cached_or_failed(index, tmp_path):
    class Model:
        def generate(self, chats):
            answers = []
            for chat in chats:
                gone = "set off" in chat[-1]["content"]
                answers.append("ERROR::gone" if gone else "Mint tea.")
            return answers

    answer = ikat.Answer(ikat.llm(Model(), cache=":memory:"), on_error="fallback")
    turns = pt.get_dataset("ikat:sample").get_topics()
    turns = turns[turns["qid"].isin(["1-1_1", "1-1_2"])]
    asked = dict(zip(turns["qid"], answer.requests(turns), strict=True))
    for again in range(2):
        ikat.run(
            {"mine": answer >> index.bm25(num_results=2)},
            "ikat:sample",
            out=tmp_path / str(again),
            turns=list(asked),
        )
        lines = {}
        for line in RunFolder(tmp_path / str(again) / "mine").stages():
            if "asked" in line:
                lines[line["qid"]] = line
        assert lines["1-1_1"]["asked"] == [
            {"prompt": "answer", "messages": asked["1-1_1"].messages, "completion": "Mint tea."}
        ]
        assert "gone" in lines["1-1_2"]["asked"][0]["failure"]
        assert {line["stage"].split("(")[0] for line in lines.values()} == {"ikat.Answer"}


class Halves(Operator):
    """Calls its base; keeps every other passage."""

    def transform(self, inp):
        return inp


class Quarters(Halves):
    def transform(self, inp):
        return super().transform(inp).iloc[::2].assign(score=1.0)


def test_stage_calling_its_base_is_listed_once_sans_other_qids(tmp_path):
    recorder = Recorder(["t"], str)
    frame = pd.DataFrame(
        {
            "qid": ["t", "t", "word"],
            "query": ["a", "a", "word"],
            "docno": ["x", "y", "z"],
            "score": [3.0, 2.0, 1.0],
        }
    )
    with observed_by(recorder):
        Quarters()(frame)
    (tmp_path / "s.gz").write_bytes(recorder.take(["t"]))
    [line] = read_stages(tmp_path / "s.gz")
    assert line["scored"] == [{"qid": "t", "query": "a", "docnos": ["x"], "scores": [1.0]}]
