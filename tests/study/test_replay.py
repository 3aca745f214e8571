"""Runs at smaller depths from one deep run, against runs that were made at those depths."""

import shutil
from dataclasses import replace

import pandas as pd
import pyterrier as pt
import pytest
from letters import Letters

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.replay import Point, Replay

METHODS = ("ad", "aqd", "aqd_a", "rtg", "qr", "mq4cs_qr_deberta", "wghtdrerank_1")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "sample.index"
    index = ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    return {"index": index, "llm": "recorded:sample", "reranker": Letters()}


@pytest.fixture(scope="module")
def runs(given, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    ikat.run(list(METHODS), "ikat:sample", out=out, **given)
    return {name: RunFolder(out / name) for name in METHODS}


def at(folder, *points):
    chunks = list(Replay(folder).chunks(points))
    return [(pd.concat([chunk.rankings[point] for chunk in chunks]), sum(chunk.pairs[point] for chunk in chunks)) for point in points]


def listed(ranking):
    return ranking[["qid", "docno"]].values.tolist()


@pytest.mark.parametrize("name", METHODS)
def test_a_smaller_depth_is_the_run_that_is_made_at_that_depth(given, runs, name, monkeypatch):
    method = ikat.methods.find(name)
    shallow = replace(method, settings={**method.settings, "depth": 5})
    asked = []
    score = Letters.score
    monkeypatch.setattr(Letters, "score", lambda self, frame: asked.append(len(frame)) or score(self, frame))
    topics = pt.get_dataset("ikat:sample").get_topics()
    llm = ikat.llm("recorded:sample")
    made = shallow.build(llm=llm, retriever=given["index"].bm25(num_results=5, **method.bm25), reranker=given["reranker"]).transform(topics)
    [(ranking, pairs)] = at(runs[name], Point(5))
    assert listed(ranking) == listed(made)
    assert ranking["score"].tolist() == made["score"].tolist()
    assert pairs == sum(asked)


def test_fewer_queries_are_the_first_of_each_turn(given, runs):
    llm, topics = ikat.llm("recorded:sample"), pt.get_dataset("ikat:sample").get_topics()
    written = (ikat.Answer(llm) >> ikat.Queries(llm, given="answer"))(topics)
    written["qsubqueries"] = [queries[:2] for queries in written["qsubqueries"]]
    made = (ikat.ExplodeQueries() >> given["index"].bm25() % 5 >> given["reranker"] >> ikat.Interleave())(written)
    [(ranking, _)] = at(runs["aqd"], Point(5, 2))
    assert listed(ranking) == listed(made)


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("gtr", {"second_llm": "recorded:sample-claude"}, "retrieves several times"),
        ("hqe", {}, "retrieves several times"),
        ("llama10", {}, "it ranked by ikat.LLMRerank"),
        ("aqd_a", {"reranker": ikat.Ensemble([Letters(), Letters()])}, "it ranked by ikat.RerankAgainst.ikat.Ensemble"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_one_line(given, tmp_path, name, more, why):
    taken = ikat.methods.find(name).resources.values()
    ikat.run(
        name,
        "ikat:sample",
        out=tmp_path,
        turns="1-1_1,1-1_2",
        **{option: one for option, one in (given | more).items() if option in taken or option == "index"},
    )
    with pytest.raises(UsageError, match=why):
        at(RunFolder(tmp_path / name), Point(5))


def test_a_run_without_the_re_ranker_that_its_method_may_have_is_replayed(given, tmp_path):
    without = {name: one for name, one in given.items() if name != "reranker"}
    ikat.run("ad", "ikat:sample", out=tmp_path, turns="1-1_1,1-1_2", **without)
    [(ranking, pairs)] = at(RunFolder(tmp_path / "ad"), Point(5))
    whole = RunFolder(tmp_path / "ad").results()
    assert listed(ranking) == listed(whole[whole["rank"] < 5])
    assert pairs == 0


def test_a_run_whose_ranking_is_not_what_its_kept_scores_give_is_refused(runs, tmp_path):
    shutil.copytree(runs["ad"].path, tmp_path / "ad")
    folder, path = RunFolder(tmp_path / "ad"), tmp_path / "ad" / "run.trec"
    lines = [line.split(" ") for line in path.read_text().splitlines()]
    first = next(number for number, line in enumerate(lines) if line[0] == "1-1_2")
    assert lines[first + 1][0] == "1-1_2"
    lines[first][2], lines[first + 1][2] = lines[first + 1][2], lines[first][2]
    path.write_text("".join(f"{' '.join(line)}\n" for line in lines))
    folder.write_parameters(folder.parameters() | folder.bound())
    with pytest.raises(UsageError, match="what it kept doesn't give its ranking of turn 1-1_2: make the run again"):
        at(folder, Point(5))


def test_a_deeper_point_is_refused(runs):
    with pytest.raises(UsageError, match="depth 51 is more than the 50 of .*rtg"):
        at(runs["rtg"], Point(51))
