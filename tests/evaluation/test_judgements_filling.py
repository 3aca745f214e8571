"""Pools of runs, and holes in judgements that a model fills.

They are filled after the model's agreement with people is known; scores with them say so.
"""

import json
from collections import Counter

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from fakes import scripted
from small_frames import by_turn, qrels, run

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import FillingJudge, fill_holes, judgements, pool_runs
from pyterrier_ikat.evaluation.judgements import MOST_CHECKED
from pyterrier_ikat.runs import RunFolder, write_run
from pyterrier_ikat.show.ledgers import asked_by, circular

# Pools


def test_a_pool_is_the_union_of_tops_in_an_order_free_of_runs():
    one = run(**{"9-1_12": "b a x", "9-1_3": "c"})
    two = run(**{"9-1_12": "d b", "10-1_1": "z"})
    expected = [["9-1_3", "c"], ["9-1_12", "a"], ["9-1_12", "b"], ["9-1_12", "d"], ["10-1_1", "z"]]
    assert pool_runs({"one": one, "two": two}, depth=2).values.tolist() == expected
    assert (
        pool_runs({"two": two, "one": one.sample(frac=1, random_state=3)}, depth=2).values.tolist()
        == expected
    )


def test_a_pool_refuses_runs_that_are_not_clean():
    with pytest.raises(DataError, match="run b: turn 1_1 has passage x twice"):
        pool_runs({"a": run(**{"1_1": "x"}), "b": run(**{"1_1": "x x"})})
    with pytest.raises(UsageError, match="depth=0"):
        pool_runs({"a": run(**{"1_1": "x"})}, depth=0)
    with pytest.raises(
        DataError, match=r"run a: the qid 7 is not a text: .* convert it with frame\["
    ):
        pool_runs({"a": run(**{"1_1": "x"}).assign(qid=7)})


def test_the_top_is_by_rank_and_ten_deep_by_default():
    deep = run(**{"1_1": "d00 d01 d02 d03 d04 d05 d06 d07 d08 d09 d10 d11"})
    pooled = pool_runs({"deep": deep})
    assert pooled.columns.tolist() == ["qid", "docno"]
    assert " ".join(pooled["docno"]) == "d00 d01 d02 d03 d04 d05 d06 d07 d08 d09"
    assert pool_runs({"deep": deep}, depth=1).values.tolist() == [["1_1", "d00"]]
    assert len(pool_runs({"deep": deep}, depth=12)) == 12
    assert len(pool_runs({"deep": deep}, depth=13)) == 12


def test_each_pair_of_a_pool_is_there_once():
    same = {"a": run(**{"1_1": "x y", "2_1": "x"}), "b": run(**{"1_1": "y z"})}
    assert pool_runs(same, 2).values.tolist() == [
        ["1_1", "x"],
        ["1_1", "y"],
        ["1_1", "z"],
        ["2_1", "x"],
    ]
    assert pool_runs(same, 1).values.tolist() == [["1_1", "x"], ["1_1", "y"], ["2_1", "x"]]


def test_a_pool_refuses_scores_that_rise_with_the_rank():
    rising = run(**{"1_1": "x y"}).assign(score=[1.0, 2.0])
    with pytest.raises(DataError, match="run up: "):
        pool_runs({"up": rising})


def test_a_pool_takes_runs_as_an_evaluation_does(tmp_path):
    frame = run(**{"1_1": "x y"})
    write_run(frame, tmp_path / "one.trec")
    expected = [["1_1", "x"], ["1_1", "y"]]
    assert pool_runs([tmp_path / "one.trec"]).values.tolist() == expected
    assert pool_runs({"a": str(tmp_path / "one.trec"), "b": frame}).values.tolist() == expected
    with pytest.raises(UsageError, match="run a is a list: give a frame, a run folder, a run file"):
        pool_runs({"a": ["x"]})


def test_a_pool_is_of_runs_by_name():
    ranking = run(**{"1_1": "x"})
    for nothing in ({}, []):
        with pytest.raises(UsageError, match="there is no run"):
            pool_runs(nothing)
    with pytest.raises(UsageError, match="without names"):
        pool_runs([ranking])
    assert pool_runs({1: ranking}).values.tolist() == [["1_1", "x"]]
    with pytest.raises(DataError, match="run 1: the qid 7 is not a text"):
        pool_runs({1: ranking.assign(qid=7)})


# Holes


class Labels:
    """A model that looks a passage's label up by the passage's text, and remembers its prompts."""

    def __init__(self, label_of):
        self.label_of = label_of
        self.asked = []

    def generate(self, chats):
        prompts = [chat[-1]["content"] for chat in chats]
        self.asked += prompts
        labels = []
        for prompt in prompts:
            passage = shown(prompt)[-1]
            labels.append(str(self.label_of(passage)))
        return labels


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def shown(prompt):
    """The texts of a prompt: the examples, and the passage."""
    return [part.partition("\n</text>")[0] for part in prompt.split("<text>\n")[1:]]


def labels_by_pair(frame):
    labels = {}
    for qid, docno, label in frame[["qid", "docno", "label"]].itertuples(index=False):
        labels[qid, docno] = label
    return labels


def kappa(pairs):
    """Cohen's kappa of pairs of labels, in plain Python."""
    first, second = (Counter(labels) for labels in zip(*pairs, strict=True))
    chance = sum(first[label] * second[label] for label in first) / len(pairs) ** 2
    return (sum(one == other for one, other in pairs) / len(pairs) - chance) / (1 - chance)


@pytest.mark.real_data
def test_real_holes_get_gpt4s_labels_and_kappa_of_left_out_ones(shared, ikat_data):
    """The model answers with GPT-4's real labels of 2024, the judges are NIST's.

    The run is CFDA's. Texts are stand-ins.
    """
    data = ikat.dataset("ikat:2024")
    of_gpt4 = labels_by_pair(data.get_qrels("gpt4"))
    of_nist = labels_by_pair(data.get_qrels())
    scores = json.loads(
        (shared / "outputs/cfda-2025/gpt4o_splade_rerank_deberta-2024-run.json").read_text()
    )
    rows = []
    for qid, found in scores.items():
        for docno, score in found.items():
            rows.append((qid, docno, score))
    runs = {"cfda": pt.model.add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"]))}
    both = of_nist.keys() & of_gpt4.keys()
    turns = sorted({qid for qid, _ in both})[::4]
    known = {pair: label for pair, label in of_nist.items() if pair in both and pair[0] in turns}
    judged = qrels(*((*pair, label) for pair, label in known.items()))
    of_turn = by_turn(judged, "label")
    pool = pool_runs(runs, 10)
    pool = [tuple(pair) for pair in pool[pool["qid"].isin(turns)].values.tolist()]
    texts = pt.apply.generic(lambda rows: rows.assign(text=rows["qid"] + " " + rows["docno"]))
    model = Labels(lambda text: of_gpt4.get(tuple(text.split()), "no label"))
    told = []
    filled = fill_holes(runs, data, ikat.llm(model), judged, texts=texts, tell=told.append)
    asked = [tuple(shown(prompt)[-1].split()) for prompt in model.asked]
    checked = asked[:MOST_CHECKED]
    holes = asked[MOST_CHECKED:]
    assert len(set(checked) & known.keys()) == MOST_CHECKED
    assert sorted(holes) == sorted(pair for pair in pool if pair not in known)
    assert told == [filled.agreement]
    assert filled.agreement.kappa == pytest.approx(
        kappa([(known[one], of_gpt4[one]) for one in checked])
    )
    expected = known | {pair: of_gpt4[pair] for pair in holes if pair in of_gpt4}
    assert labels_by_pair(filled.qrels) == expected
    assert f"{len(expected) - len(known)} of the {len(pool)} passages" in str(filled)
    for prompt, (qid, docno) in zip(model.asked, asked, strict=True):
        examples = [tuple(text.split()) for text in shown(prompt)[:-1]]
        labels = sorted(label for other, label in of_turn[qid].items() if other != docno)
        assert (qid, docno) not in examples
        assert [known[one] for one in examples] == [labels[-1], labels[0]]
        assert {one[0] for one in examples} == {qid}


@pytest.fixture
def runs(sample_index, tmp_path):
    """A run folder whose system asked GPT-4o, and judgements with holes at its top.

    The judgements are the sample's without some passages.
    """
    data = ikat.dataset("ikat:sample")
    llm = ikat.llm("recorded:sample")
    turns = ["1-1_1", "1-1_2"]
    ikat.run("ad", data, out=tmp_path / "runs", index=sample_index, llm=llm, turns=turns)
    about = json.loads((tmp_path / "runs/ad/run.json").read_text())
    (tmp_path / "runs/ad/run.json").write_text(
        json.dumps(about | {"served": {"gpt-4o": ["gpt-4o-2024-08-06"]}})
    )
    return tmp_path / "runs/ad"


def test_scores_with_filled_labels_stand_beside_kappa_and_share(runs, tmp_path):
    pool = pool_runs({"ad": RunFolder(runs).results()}, 10)
    judged = ikat.dataset("ikat:sample").get_qrels()
    both = judged.merge(pool, on=["qid", "docno"])
    labels = pool.merge(judged, how="outer").fillna({"label": 1}).astype({"label": int})
    with (tmp_path / "labels.jsonl").open("w") as file:
        for qid, docno, label in labels.itertuples(index=False):
            line = {"qid": qid, "stage": "judge", "item": docno}
            line |= {"completion": str(label), "model": "recorded"}
            file.write(json.dumps(line) + "\n")
    out = tmp_path / "filled.qrels"
    where = ("--dataset", "ikat:sample")
    done = call(
        "judge",
        "--fill",
        runs,
        *where,
        "--llm",
        f"recorded:{tmp_path / 'labels.jsonl'}",
        "--out",
        out,
        "--depth",
        "10",
    )
    assert done.exit_code == 0, done.output
    holes = len(pool) - len(both)
    line = (
        f"recorded filled the labels of {holes} of the {len(pool)} passages at the top of the runs "
        f"({holes / len(pool):.1%})"
    )
    assert 0 < holes < len(pool)
    assert (
        f"{out}: {line}; its kappa with people is 1.0000 (1.0000 for relevant or not) on "
        in done.stdout
    )
    assert "judged by both: binary agreement 100.00%" in done.stdout
    assert len(read_qrels(out)) == len(judged) + holes
    for more in ((), ("--by", "depth")):
        assert line in call("evaluate", runs, "--qrels", out, "--measures", "nDCG@3", *more).stdout
    csv = call("evaluate", runs, "--qrels", out, "--measures", "nDCG@3", "--format", "csv")
    assert (line in csv.stdout, line in csv.stderr) == (False, True)
    assert call("report", runs, "--qrels", out, "--out", tmp_path / "report.html").exit_code == 0
    assert line in (tmp_path / "report.html").read_text()


def test_no_prompt_has_the_label_of_the_passage_it_asks_about(runs):
    model = Labels(lambda text: 1)
    found = {"ad": RunFolder(runs).results()}
    fill_holes(found, ikat.dataset("ikat:sample"), ikat.llm(model), tell=[].append)
    assert model.asked
    for prompt in model.asked:
        *examples, asked = shown(prompt)
        assert len(examples) == 2
        assert asked not in examples


def test_holes_that_cannot_be_filled(runs):
    data = ikat.dataset("ikat:sample")
    found = {"ad": RunFolder(runs).results()}
    with pytest.raises(UsageError, match="labels from 0 to 4"):
        fill_holes(found, data, scripted()[0], data.get_qrels().assign(label=1))
    with pytest.raises(UsageError, match="nothing is to fill"):
        fill_holes(found, data, scripted()[0], pool_runs(found, 10).assign(label=2))


def test_a_judge_that_a_judged_system_asked_is_named(runs, tmp_path, monkeypatch, sample_index):
    assert asked_by([runs, tmp_path]) == {"ad": ["gpt-4o", "gpt-4o-2024-08-06"]}
    assert circular(["openai:gpt-4o-mini", "openai:gpt-4.1"], asked_by([runs])) == []
    (tmp_path / "by").write_text("1-1_1 0 sample-walk-001:0 3\n")
    (tmp_path / "by.json").write_text('{"judged_by": "gpt-4o", "style": "one-shot"}')
    line = "circular: gpt-4o is a judge or user here, and ad asked it, too"
    assert line in call("evaluate", runs, "--qrels", tmp_path / "by").stdout
    monkeypatch.setattr("pyterrier_ikat.cli.judge._judge", lambda *about, **given: None)
    assert (
        line
        in call(
            "judge",
            runs,
            "--dataset",
            "ikat:sample",
            "--llm",
            "openai:gpt-4o",
            "--out",
            tmp_path / "out",
        ).stderr
    )
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    models = (
        "--llm",
        "openai:gpt-4o",
        "--judge-llm",
        "openai:gpt-4o",
        "--user-llm",
        "openai:gpt-4.1",
    )
    planned = call(
        "simulate",
        "ad",
        "--users",
        "sample",
        *models,
        "--index",
        sample_index,
        "--out",
        tmp_path / "sims",
        "--plan",
    )
    assert "circular: gpt-4o is a judge or user here, and a system asked it, too" in planned.stderr
    assert "gpt-4.1" not in planned.stderr
    (tmp_path / "by.json").write_text('{"judged_by": "gpt-4o-mini", "style": "one-shot"}')
    assert "circular" not in call("evaluate", runs, "--qrels", tmp_path / "by").output


TestFillingJudge = pt.testing.transformer_test_class(
    lambda: FillingJudge(ikat.llm("recorded:sample"))
)


class SmallData:
    """Three turns, two of them judged, and passages whose texts are their docnos."""

    name = "small"
    labels = pd.DataFrame(
        [
            ("1_1", "b", 4),
            ("1_1", "a", 4),
            ("1_1", "d", 0),
            ("1_1", "c", 0),
            ("1_2", "a", 2),
            ("1_2", "b", 1),
        ],
        columns=["qid", "docno", "label"],
    )

    def get_topics(self, variant=None):
        return pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["Zebras?", "Yaks?", "Newts?"]})

    def get_qrels(self, variant=None):
        return self.labels

    def get_corpus_iter(self, verbose=True):
        return iter([{"docno": docno, "text": f"text {docno}"} for docno in "abcdefg"])

    def text_loader(self, fields="text", verbose=False):
        return pt.apply.generic(lambda rows: rows.assign(text="text " + rows["docno"]))


def small_run(docnos="efa", turns=("1_1", "1_2", "1_3")):
    return {"mine": run(**dict.fromkeys(turns, " ".join(docnos)))}


def test_holes_are_filled_after_people_are_compared():
    model = Labels(lambda text: 3 if text == "text e" else 1)
    told = []
    data = ikat.dataset(SmallData())

    def tell(agreement):
        told.append((agreement, len(model.asked)))

    filled = fill_holes(small_run(), data, ikat.llm(model), tell=tell)
    asked = [shown(prompt)[-1] for prompt in model.asked]
    assert sorted(asked[:6]) == sorted("text " + docno for docno in SmallData.labels["docno"])
    assert asked[6:] == ["text e", "text f"] * 2  # 1_3 isn't judged, a is
    assert filled.labels[["qid", "docno", "label"]].values.tolist() == [
        ["1_1", "e", 3],
        ["1_1", "f", 1],
        ["1_2", "e", 3],
        ["1_2", "f", 1],
    ]
    assert len(filled.qrels) == 6 + 4
    assert set(map(tuple, SmallData.labels.values)) < set(
        map(tuple, filled.qrels[["qid", "docno", "label"]].values)
    )
    assert (filled.pool, filled.model) == (6, "Labels")
    assert told == [(filled.agreement, 6)]  # before the holes are paid for
    assert filled.agreement.pairs == 6
    # the model says 1 to all; people: 4 4 0 0 2 1
    assert filled.agreement.confusion[1].tolist() == [2, 1, 1, 0, 2]
    assert filled.agreement.confusion.to_numpy().sum() == 6
    assert str(filled).startswith("Labels filled the labels of 4 of the 6 passages")
    assert "(66.7%)" in str(filled)
    assert str(filled).endswith("on 6 left-out labels")


def test_examples_are_the_highest_and_the_lowest_label_of_others():
    model = Labels(lambda text: 1)
    fill_holes(small_run("e"), ikat.dataset(SmallData()), ikat.llm(model), tell=[].append)
    examples = {}
    for prompt in model.asked:
        question = "one" if "Zebras?" in prompt else "two"
        *texts, asked = shown(prompt)
        examples[question, asked[-1]] = [text[-1] for text in texts]
    # by label from above and docno: a b c d of the first turn, a b of the second
    assert examples == {
        ("one", "a"): ["b", "d"],
        ("one", "b"): ["a", "d"],
        ("one", "c"): ["a", "d"],
        ("one", "d"): ["a", "c"],
        ("one", "e"): ["a", "d"],
        ("two", "a"): ["b"],
        ("two", "b"): ["a"],
        ("two", "e"): ["a", "b"],
    }


def test_holes_are_those_down_to_the_depth():
    for depth, holes in ((1, 2), (2, 4), (10, 4)):
        model = Labels(lambda text: 1)
        data = ikat.dataset(SmallData())
        filled = fill_holes(small_run(), data, ikat.llm(model), depth=depth, tell=[].append)
        assert len(filled.labels) == holes
    data = ikat.dataset(SmallData())
    with pytest.raises(UsageError, match="2 passages of judged turns are down to rank 1"):
        fill_holes(small_run("a"), data, scripted()[0], depth=1)


@pytest.mark.parametrize("labels", [[0, 1, 1], [0, 5, 2], [-1, 2, 3]])
def test_holes_need_labels_of_the_scale(labels):
    judged = SmallData.labels[:3].assign(label=labels)
    with pytest.raises(UsageError, match="labels from 0 to 4"):
        fill_holes(small_run(), ikat.dataset(SmallData()), scripted()[0], judged)


def test_checked_labels_are_few_and_of_given_judgements(monkeypatch):
    monkeypatch.setattr(judgements, "MOST_CHECKED", 2)
    own = SmallData.labels.assign(label=[3, 2, 1, 0, 4, 3])
    asked = []

    def load(rows):
        asked.extend(rows["docno"])
        return rows.assign(text="mine " + rows["docno"])

    model = Labels(lambda text: 1)
    data = ikat.dataset(SmallData())
    llm = ikat.llm(model)
    loader = pt.apply.generic(load)
    filled = fill_holes(small_run("eb"), data, llm, own, texts=loader, tell=[].append)
    assert asked == [*"badcab", "e", "e"]
    texts = [shown(prompt)[-1] for prompt in model.asked]
    assert texts[2:] == ["mine e", "mine e"]
    assert len(texts) == 4
    assert set(texts[:2]) <= {"mine a", "mine b", "mine c", "mine d"}
    assert filled.agreement.pairs == 2
    assert filled.pool == 4
    assert len(filled.qrels) == 8
    kept = filled.qrels[["qid", "docno", "label"]].values.tolist()
    assert ["1_1", "b", 3] in kept
    assert ["1_1", "e", 1] in kept
    again = Labels(lambda text: 1)
    fill_holes(small_run("eb"), data, ikat.llm(again), own, texts=loader, tell=[].append)
    assert again.asked == model.asked  # the same ones each time


def test_only_turns_with_holes_are_labelled_again():
    model = Labels(lambda text: 1)
    runs = small_run("ea", ["1_1"])
    filled = fill_holes(runs, ikat.dataset(SmallData()), ikat.llm(model), tell=[].append)
    assert len(model.asked) == 4 + 1
    assert len(filled.qrels) == 7
    assert str(filled) == (
        "Labels filled the labels of 1 of the 2 passages at the top of the runs (50.0%); its kappa "
        "with people is .0000 (.0000 for relevant or not) on 4 left-out labels"
    )


def test_two_hundred_labels_are_checked_by_default():
    model = Labels(lambda text: 1)
    own = pd.DataFrame({"qid": "1_1", "docno": [f"d{n:03}" for n in range(201)], "label": 2})
    data = ikat.dataset(SmallData())
    filled = fill_holes(small_run("e"), data, ikat.llm(model), own, tell=[].append)
    assert len(model.asked) == 201
    assert filled.agreement.pairs == 200
    assert filled.labels["docno"].tolist() == ["e"]
