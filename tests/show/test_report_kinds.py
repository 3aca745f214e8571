"""The kind of each lost turn, worked out by hand on rankings of a few passages."""

from types import SimpleNamespace

import pandas as pd
import pytest
from ir_measures import nDCG
from small_runs import ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.runs.stages import NAME
from pyterrier_ikat.show.report.kinds import KINDS
from pyterrier_ikat.show.report.material import RunData, read_runs
from pyterrier_ikat.show.report.page import read_kept
from pyterrier_ikat.show.report.reasons import reasons_by_turn

QRELS = {"a": 2, "b": 2, "x": 0, "y": 0, "z": 0}
TEXTS = {
    "a": "Mint grows in wet soil.",
    "b": "A mint tea from the garden.",
    "x": "Coffee from Kenya.",
    "y": "Coffee or tea?",
    "z": "Nothing of note.",
    "u": "Never judged.",
}


def run(name, docnos, query="", **kept):
    made = ranking([("1_1", docno, 100.0 - place) for place, docno in enumerate(docnos)])
    return RunData(name, made, {"1_1": {"searched": [query]} if query else {}}, **kept)


def told(loser, winner=None, labels=None, texts=TEXTS):
    """The kind of the turn by nDCG@3, and the last sentence, for both orders of the two runs."""
    winner = winner or run("won", ["a", "b", "z"])
    qrels = pd.DataFrame({"qid": "1_1", "docno": list(labels or QRELS), "label": list((labels or QRELS).values())})
    found = []
    for runs, scores in (([loser, winner], [[0.0], [1.0]]), ([winner, loser], [[1.0], [0.0]])):
        reasons = reasons_by_turn(runs, qrels, {"1_1": scores}, [nDCG @ 3], texts)
        found.append((KINDS[int(reasons.kinds["1_1"][0])], reasons.texts["1_1"][0][0]))
    assert found[0] == found[1]  # whichever of them is the baseline
    return found[0]


def test_a_turn_whose_first_passages_have_no_label_is_not_judged():
    kind, said = told(run("lost", ["u", "v", "x", "a"]))
    assert (kind, said.endswith("Not judged: 2 of the first 3 passages of lost.")) == ("not judged", True)


def test_half_of_the_first_passages_is_not_more_than_half():
    assert told(run("lost", ["u", "x"]))[0] == "never retrieved"


def test_where_only_relevant_passages_are_named_no_label_means_not_relevant():
    kind, _ = told(run("lost", ["u", "v", "w"]), labels={"a": 2, "b": 2})
    assert kind == "never retrieved"


def test_passages_that_no_retriever_found_were_never_retrieved():
    kind, said = told(run("lost", ["x", "y", "z"]))
    assert (kind, said.endswith("lost never retrieved any of these 2 passages.")) == ("never retrieved", True)
    kind, said = told(run("lost", ["x", "y", "b"]))  # `b` is further down
    assert kind != "never retrieved"


def test_the_one_passage_is_called_by_its_first_words():
    kind, said = told(run("lost", ["b", "x", "y"]), run("won", ["b", "a", "x"]))
    assert (kind, said.endswith("lost never retrieved “Mint grows in wet soil.”.")) == ("never retrieved", True)
    assert "won finds “Mint grows in wet soil.” (label 2) at rank 2, lost does not find it" in said


def test_a_word_that_the_relevant_passages_share_and_the_query_lacks():
    # mint is in a and b, in no other; tea is in b alone, which is not more than half of the two
    kind, said = told(run("lost", ["x", "y", "z", "a"], "tea"), run("won", ["a", "b", "z"], "Which mints, as a tea?"))
    assert (kind, said.endswith("The query of lost lacks “mints” (in 2 of 2 relevant passages).")) == ("query lost a word", True)


def test_a_word_that_most_other_passages_have_too_is_not_the_one():
    texts = {**TEXTS, "x": "Mint coffee.", "y": "Mint coffee."}  # in two of three passages that the loser has in their place
    kind, _ = told(run("lost", ["x", "y", "z", "a"], "tea"), run("won", ["a", "b", "z"], "mint tea"), texts=texts)
    assert kind == "pushed down"


@pytest.mark.parametrize("query", ["mint", ""])
def test_no_word_is_lost_where_the_query_has_it_or_is_not_known(query):
    assert told(run("lost", ["x", "y", "z", "a"], query), run("won", ["a", "b", "z"], "mint"))[0] == "pushed down"


def test_what_the_re_ranker_left_below_the_first_passages():
    kind, said = told(run("lost", ["x", "y", "z", "a"], reranked={"1_1"}))
    assert (kind, said.endswith("lost retrieved “Mint grows in wet soil.”, and re-ranking left it at rank 4.")) == (
        "not re-ranked high",
        True,
    )
    kind, said = told(run("lost", ["x", "y", "z"], reranked={"1_1"}, beyond={"1_1": {"b"}}))
    assert kind == "not re-ranked high"
    assert said.endswith("lost retrieved “A mint tea from the garden.”, and re-ranking left it out of its ranking.")


def test_a_passage_among_the_first_that_another_one_pushed_down():
    kind, said = told(run("lost", ["x", "a", "b"], reranked={"1_1"}))
    assert (kind, said.endswith("Pushed down by “Coffee from Kenya.”, labelled not relevant.")) == ("pushed down", True)


def test_what_none_of_these_explains_is_unknown():
    # a is at 2 behind u, which nobody judged
    assert told(run("lost", ["u", "a", "b"]), labels={"a": 2, "b": 1, "z": 0})[0] == "unknown"


def test_a_tie_and_a_turn_that_a_run_was_not_made_for_have_no_kind():
    runs = [run("one", ["a"]), run("two", ["a"]), RunData("three", ranking([("2_1", "a", 1.0)]), {"2_1": {}}, parameters={"method": "m"})]
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [1]})
    assert reasons_by_turn(runs, qrels, {"1_1": [[1.0], [1.0], [0.0]]}, [nDCG @ 3]).kinds == {"1_1": ["---"]}


def test_the_kept_stages_say_what_was_found_and_re_ranked(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False))
    ikat.run({"mine": index.bm25(num_results=9) % 3}, "ikat:sample", out=tmp_path / "runs", turns=["1-1_1"])
    (made,) = read_runs([tmp_path / "runs" / "mine"])
    ranked = list(made.results["docno"])
    assert len(ranked) == 3
    assert len(made.beyond["1-1_1"]) == 6
    assert not made.beyond["1-1_1"] & set(ranked)
    assert made.reranked == set()


def test_a_stage_that_scored_has_re_ranked_its_turn(tmp_path):
    (tmp_path / NAME).touch()
    found = {"qid": "1_1", "query": "tea", "docnos": ["a"], "scores": [1.0]}
    lines = [{"qid": "1_1", "stage": "bm25", "found": [found]}, {"qid": "1_1", "stage": "monot5", "scored": [found]}]
    kept = read_kept(SimpleNamespace(path=tmp_path, stages=lambda: [*lines, {"qid": "1_2", "stage": "bm25", "found": [found]}]))
    assert {qid: (one.found, one.reranked) for qid, one in kept.items()} == {"1_1": ({"a"}, True), "1_2": ({"a"}, False)}
