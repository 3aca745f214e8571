"""Whose judgements may stand beside a paper's scores, and which responses are judged."""

import json
from dataclasses import replace

import pandas as pd
import pyterrier as pt
import pytest
from papers.made_tables import judgements

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import turn_lists
from pyterrier_ikat.conversations.qrels import write_judge
from pyterrier_ikat.errors import UsageError, commands_advised
from pyterrier_ikat.evaluation import (
    AnswerEquivalence,
    Correctness,
    Groundedness,
    NuggetRecall,
    RougeL,
)
from pyterrier_ikat.papers import find_table, paper_scores
from pyterrier_ikat.papers.paper_scores import (
    MINI,
    Judgements,
    UserJudgements,
    _kind,
    _of_collection,
    answers_of,
    our_measures,
    response_judges,
    response_scores,
)
from pyterrier_ikat.papers.published import NIST
from pyterrier_ikat.papers.reproduction import Reproduction
from pyterrier_ikat.runs import RunFolder

SAMPLE = ikat.dataset("ikat:sample")
QRELS = SAMPLE.get_qrels()
TURNS = SAMPLE.get_topics()["qid"].tolist()
[OF_PASSAGES] = find_table("generate_then_retrieve", "3")


@pytest.mark.parametrize(
    ("year", "kind", "of_some", "told"),
    [
        (2023, "NIST", "", ""),
        (2023, "NIST ", "", ""),
        (2024, "NIST", "", "about iKAT 2023, these about 2024"),
        (None, "NIST", "", "about iKAT 2023, these about another collection"),
        (2023, "gpt-4", "", "by NIST, these by gpt-4"),
        (2023, None, "", "by NIST, these by judges that the resources file names"),
        (2023, "NIST", "the mini collection", "these about the mini collection"),
    ],
)
def test_only_like_judgements_stand_beside_published_scores(year, kind, of_some, told):
    part = replace(OF_PASSAGES, year=2023, judgements="NIST")
    differs = Judgements(QRELS, kind, year, of_some=of_some).differ_from(part)
    if told:
        assert told in differs
    else:
        assert differs == ""


def test_ptkb_judgements_of_nist_are_published_for_2023_only():
    [part] = find_table("nii_2024", "IV")
    judged = Judgements(judgements(5).qrels, "the organisers' PTKB judgements", 2024)
    assert "published for 2023 only" in judged.differ_from(part)


def part_of(**fields):
    return replace(OF_PASSAGES, **fields)


@pytest.mark.parametrize(
    ("judges", "there", "published", "told"),
    [
        ("NIST", True, True, 'qrels="some/file", judged_by="NIST"'),
        ("NIST", True, False, "put them into the folder that IKAT_DATA names"),
        ("NIST", False, True, "put them into the folder that IKAT_DATA names"),
        ("gpt-3.5-turbo", True, True, "GPT-3.5's judgements, which are not published"),
    ],
)
def test_missing_judgements_are_told_with_where_they_are(
    monkeypatch, judges, there, published, told
):
    monkeypatch.setattr(paper_scores, "at_hand", lambda name: "some/file" if there else None)
    monkeypatch.setattr(paper_scores, "is_published", lambda name: published)
    part = part_of(year=2024, judgements=judges)
    assert told in Judgements(QRELS, "mine", 2024).differ_from(part)


def test_given_judgements_are_by_whom_the_user_says():
    given = UserJudgements(QRELS, "gpt-4").judgements(OF_PASSAGES, SAMPLE)
    assert (given.kind, len(given.qrels), given.unjudged) == ("gpt-4", len(QRELS), 0)
    assert UserJudgements(QRELS).judgements(OF_PASSAGES, SAMPLE).kind is None
    own = UserJudgements().judgements(OF_PASSAGES, SAMPLE)
    assert own.kind == "the collection's own judgements"
    assert len(own.qrels) == len(QRELS)


def test_a_wrong_claim_about_known_judgements_is_refused():
    known = UserJudgements("provenance").judgements(OF_PASSAGES, SAMPLE).kind
    same = UserJudgements("provenance", known).judgements(OF_PASSAGES, SAMPLE)
    assert same.kind == known
    with pytest.raises(UsageError, match="judged_by=... says NIST, but qrels=... provenance is"):
        UserJudgements("provenance", "NIST").judgements(OF_PASSAGES, SAMPLE)


def test_who_judged_is_known_by_file_variant_and_dataset(tmp_path):
    kinds = {
        ("mtrag:mini", None): "the collection's own judgements",
        ("ikat:sample", None): "the collection's own judgements",
        ("ikat:2023-mini", None): "the topics' gold passages",
        ("ikat:2024", "provenance"): "the topics' gold passages",
        ("ikat:2024", "ptkb"): "the organisers' PTKB judgements",
        ("ikat:2023-mini", "ptkb_nist"): "NIST's PTKB judgements",
    }
    for (dataset, variant), kind in kinds.items():
        assert _kind(dataset, variant) == kind
    labels = tmp_path / "labels.txt"
    labels.write_text("1-1_1 0 a 2\n")
    for claimed, kind in ((None, None), ("mine", "mine")):
        found = UserJudgements(str(labels), claimed).judgements(OF_PASSAGES, SAMPLE)
        assert (found.kind, found.qrels["docno"].tolist()) == (kind, ["a"])
    write_judge(labels, "openai:gpt-4o", "one-shot")
    for claimed in (None, "gpt-4o"):
        found = UserJudgements(str(labels), claimed).judgements(OF_PASSAGES, SAMPLE)
        assert found.kind == "openai:gpt-4o"
    with pytest.raises(
        UsageError, match="judged_by=... says NIST, but qrels=.*labels.txt is known"
    ):
        UserJudgements(str(labels), "NIST").judgements(OF_PASSAGES, SAMPLE)


def test_a_file_that_is_not_the_published_one_is_named(monkeypatch):
    monkeypatch.setattr(paper_scores, "is_published", lambda name: "2023" in name)
    assert _kind("ikat:2023", None) == "NIST"
    assert _kind("ikat:2024", None) == "a file that isn't the published 2024-qrels.txt"
    assert _kind("ikat:2023", "provenance") == "the topics' gold passages"
    monkeypatch.setattr(paper_scores, "is_published", lambda name: True)
    assert _kind("ikat:2023", "ptkb_nist") == "NIST's PTKB judgements"
    assert _kind("ikat:2023", "ptkb_org") == "the organisers' PTKB judgements"


class Statements:
    """A dataset of statements, with variants of its judgements."""

    name, year = "own", 2024
    judged = pd.DataFrame({"qid": ["1_1"], "docno": ["1"], "label": [1]})

    def __init__(self, *variants):
        self.variants = variants
        self.asked = []

    def qrels_variants(self):
        return self.variants

    def get_qrels(self, variant=None):
        self.asked.append(variant)
        return self.judged

    def get_topics(self, variant=None):
        return pd.DataFrame({"qid": ["1_1", "1_2"]})


def test_a_variant_is_known_by_the_dataset_that_has_it():
    data = Statements("ptkb_org", "provenance")
    data.name = "ikat:2024"
    data.get_qrels = lambda variant=None: Statements.judged
    assert UserJudgements("provenance").judgements(part_of(), data).kind == (
        "the topics' gold passages"
    )
    message = "is known to be by the organisers' PTKB judgements: omit judged_by="
    with pytest.raises(UsageError, match=message):
        UserJudgements("ptkb_org", "NIST").judgements(part_of(), data)


def test_labels_of_a_model_or_gold_passages_are_never_nists(tmp_path, ikat_data, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(ikat_data))
    [part] = find_table("generate_then_retrieve", "3")
    file = tmp_path / "labels.txt"
    file.write_text("9-1_3 0 d 2\n")
    assert (
        Reproduction("generate_then_retrieve", {}, qrels=str(file), judged_by=NIST)
        .judgements(part)
        .kind
        == NIST
    )
    write_judge(file, "gpt-4o", "one-shot")
    for qrels, known in (
        (str(file), "gpt-4o"),
        ("provenance", "gold passages"),
        ("ptkb_org", "organisers"),
    ):
        with pytest.raises(UsageError, match=known):
            Reproduction("generate_then_retrieve", {}, qrels=qrels, judged_by=NIST).judgements(part)


@pytest.mark.parametrize(
    ("about", "judgements", "variants", "asked"),
    [
        ("statements", "NIST's PTKB judgements", ("ptkb_nist", "ptkb"), "ptkb_nist"),
        ("statements", "NIST's PTKB judgements", ("ptkb",), "ptkb"),
        ("statements", "the organisers' PTKB judgements", ("ptkb_org",), "ptkb_org"),
        ("statements", "NIST", ("ptkb_org",), None),
        ("passages", "NIST's PTKB judgements", ("ptkb_nist",), None),
    ],
)
def test_statements_are_judged_by_the_nearest_variant(about, judgements, variants, asked):
    data = Statements(*variants)
    data.name = "own" if asked is None else "ikat:2024"
    found = UserJudgements().judgements(part_of(about=about, judgements=judgements), data)
    assert data.asked == [asked]
    kinds = {None: "the collection's own judgements", "ptkb_nist": "NIST's PTKB judgements"}
    assert found.kind == kinds.get(asked, "the organisers' PTKB judgements")
    assert found.year == 2024
    assert len(found.qrels) == 1


def test_advice_on_judgements_is_for_python_or_for_commands():
    other = pd.DataFrame({"qid": ["9-9_1", "9-9_2"], "docno": ["a", "a"], "label": [1, 1]})
    judged = QRELS[QRELS["qid"] == TURNS[0]]
    calls = [
        UserJudgements("provenance", "NIST"),
        UserJudgements(judged, turns=TURNS[1:3]),
        UserJudgements(pd.concat([QRELS, other])),
    ]

    def refusals():
        messages = []
        for given in calls:
            with pytest.raises(UsageError) as refused:
                given.judgements(OF_PASSAGES, SAMPLE)
            messages.append(str(refused.value))
        return messages

    known = UserJudgements("provenance").judgements(OF_PASSAGES, SAMPLE).kind
    like = f"names is judged: the judged turns are like {TURNS[0]}"
    lacks = "judges turns that ikat:sample lacks (9-9_1, 9-9_2): give judgements of its turns"
    assert refusals() == [
        f"judged_by=... says NIST, but qrels=... provenance is known to be by {known}: "
        "omit judged_by=...",
        f"none of the turns that turns=... {like}",
        f"qrels=... {lacks}",
    ]
    with commands_advised():
        assert refusals() == [
            f"--judged-by says NIST, but --qrels provenance is known to be by {known}: "
            "omit --judged-by",
            f"none of the turns that --turns {like}",
            f"--qrels {lacks}",
        ]


# Turns that are judged


def test_chosen_turns_count_those_that_are_judged():
    judged = QRELS[QRELS["qid"].isin(TURNS[:2])]
    found = UserJudgements(judged, turns=TURNS[1:4]).judgements(OF_PASSAGES, SAMPLE)
    assert found.qrels["qid"].unique().tolist() == [TURNS[1]]
    assert found.unjudged == 2
    with pytest.raises(
        UsageError, match=f"none of the turns that turns=... names is judged.*{TURNS[0]}"
    ):
        UserJudgements(judged, turns=TURNS[5:6]).judgements(OF_PASSAGES, SAMPLE)


def test_judgements_of_other_turns_are_refused():
    other = pd.DataFrame({"qid": ["9-9_1"], "docno": ["a"], "label": [1]})
    with pytest.raises(UsageError, match=r"judges turns that ikat:sample lacks \(9-9_1\)"):
        UserJudgements(pd.concat([QRELS, other])).judgements(OF_PASSAGES, SAMPLE)


def test_chosen_turns_keep_the_year_and_names_of_strangers_once():
    data = Statements()
    found = UserJudgements(turns=["1_1"]).judgements(part_of(year=2023), data)
    assert (found.year, found.unjudged) == (2024, 0)
    strange = pd.DataFrame({"qid": "9_9", "docno": ["a", "b"], "label": 1})
    with pytest.raises(UsageError, match=r"turns that own lacks \(9_9\):"):
        UserJudgements(pd.concat([data.judged, strange])).judgements(part_of(), data)


LISTED = "judged-2023"


def test_the_papers_turns_are_taken_if_the_user_names_none():
    data = Statements()
    data.year = 2023
    in_list = list(turn_lists()[LISTED].turns)
    every = pd.DataFrame({"qid": [*in_list, "other_1"], "docno": "a", "label": 1})
    data.get_topics = lambda variant=None: every[["qid"]]
    twice = pd.concat([every[5:], every[5:].assign(docno="b")], ignore_index=True)
    data.get_qrels = lambda variant=None: twice
    part = part_of(year=2023, listed=LISTED)
    found = UserJudgements().judgements(part, data)
    assert (found.listed, found.unjudged) == (LISTED, 5)
    assert found.qrels["qid"].unique().tolist() == in_list[5:]
    assert found.qrels.index.tolist() == list(range(2 * len(in_list) - 10))
    chosen = UserJudgements(turns=[in_list[7], in_list[0]]).judgements(part, data)
    assert (chosen.listed, chosen.unjudged) == ("", 1)
    assert chosen.qrels["qid"].unique().tolist() == [in_list[7]]
    given = UserJudgements(twice, "NIST").judgements(part, data)
    assert (given.listed, len(given.qrels)) == ("", len(twice))
    data.year = 2024
    assert UserJudgements().judgements(part, data).listed == ""
    data.year = 2023
    assert UserJudgements().judgements(part_of(year=2023, listed=""), data).listed == ""
    data.get_qrels = lambda variant=None: every[-1:]
    with pytest.raises(UsageError, match=f"none of {LISTED} is judged: the judged turns are like"):
        UserJudgements().judgements(part, data)


@pytest.mark.real_data
def test_a_table_is_scored_on_the_turns_known_as_its_own():
    data = ikat.dataset("ikat:2024")
    [irlab] = find_table("irlab_2024", "1")
    [responses] = find_table("infosense_2024", "4")
    assert UserJudgements().judgements(irlab, data).qrels["qid"].nunique() == irlab.turns == 103
    answered = UserJudgements().judgements(responses, data, list(data.get_topics()["qid"]))
    assert answered.qrels["qid"].nunique() == responses.turns == 62
    assert UserJudgements(turns=["0_2"]).judgements(irlab, data).qrels["qid"].unique().tolist() == [
        "0_2"
    ]
    (passages,) = find_table("infosense_2024", "2")
    assert UserJudgements().judgements(passages, data).qrels["qid"].nunique() == 116


def test_judgements_of_a_mini_collection_are_of_its_passages():
    class Mini:
        name = MINI

        def get_corpus_iter(self, verbose=True):
            return iter([{"docno": "a"}, {"docno": "b"}])

        def get_topics(self, variant=None):
            return pd.DataFrame({"qid": ["1_1", "1_2"]})

    rows = [("1_1", "a", 1), ("1_1", "z", 2), ("1_2", "b", 0), ("9_9", "a", 1), ("9_9", "b", 0)]
    judged = pd.DataFrame(rows, columns=["qid", "docno", "label"])
    kept, what = _of_collection(judged, Mini())
    assert kept.values.tolist() == [["1_1", "a", 1], ["1_2", "b", 0]]
    assert kept.index.tolist() == [0, 1]
    assert what == (
        f"the 2 passages of {MINI}: 2 of the 5 judged pairs, over 2 turns; relevant there (from "
        "1): 2 pairs, 1 of them in its turns"
    )
    mini = Mini()
    mini.qrels_variants = lambda: ()
    mini.year = 2023
    of_user = UserJudgements(judged[judged["qid"] != "9_9"], "NIST")
    whole = UserJudgements(judged, "NIST").judgements(part_of(year=2023), mini)
    assert len(whole.qrels) == 2  # those of turns that it lacks are no fault of the user
    given = of_user.judgements(part_of(year=2023), mini)
    assert given.of_some.startswith(f"the 2 passages of {MINI}: 2 of the 3 judged pairs")
    assert len(given.qrels) == 2
    for other in (judged[:1], judged[1:2]):
        found, what = _of_collection(other, Mini())
        assert found is other
        assert what == ""
    whole, what = _of_collection(judged, SAMPLE)
    assert whole is judged
    assert what == ""


def test_the_passages_of_a_whole_collection_are_not_read():
    data = Statements()  # which can't give its passages
    data.name = "ikat:2023"
    found = UserJudgements(data.judged, "NIST").judgements(part_of(), data)
    assert (found.of_some, len(found.qrels)) == ("", 1)


def test_nists_full_collection_judgements_work_on_the_mini_one(ikat_data):
    qrels = ikat_data / "2023-qrels.all-turns.txt"
    made = Reproduction(
        "generate_then_retrieve", {}, dataset="ikat:2023-mini", qrels=str(qrels), judged_by="NIST"
    )
    [part] = find_table("generate_then_retrieve", "3")
    passages = {
        passage["docno"]
        for passage in ikat.dataset("ikat:2023-mini").get_corpus_iter(verbose=False)
    }
    pairs = [line.split() for line in qrels.read_text().splitlines()]
    assert sum(docno in passages and int(label) >= 1 for _, _, docno, label in pairs) == 123
    judged = made.judgements(part)
    assert set(judged.qrels["docno"]) <= passages
    reason = judged.differ_from(part)
    assert "about the 700 passages of ikat:2023-mini" in reason
    assert "relevant there (from 1): 123 pairs" in reason
    assert not made.table(part).beside


def test_measures_of_a_paper_have_our_names():
    measures = {}
    for key, part in ikat.methods.TABLES.items():
        if part.about == "passages":
            measures |= {(key, name): ours for name, ours in our_measures(part).items()}
    assert measures["generate_then_retrieve_1", "Recall@20"] == "R(rel=1)@20"
    assert measures["generate_then_retrieve_3", "Recall"] == "R(rel=1)@1000"
    assert measures["generate_then_retrieve_3", "mAP"] == "AP(rel=1)"
    assert measures["cfda_on_2023", "MRR(rel=2)"] == "RR(rel=2)"


# Responses


@pytest.fixture
def folder(tmp_path):
    """Two turns with a response, one of which rests on two passages; a third without."""
    topics = SAMPLE.get_topics().head(3)
    rows = [
        ("1-1_1", "a", 2.0, 0, True),
        ("1-1_1", "b", 1.0, 1, True),
        ("1-1_2", "c", 1.0, 0, False),
    ]
    found = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "used"])
    run = RunFolder(tmp_path / "mine")
    results = found.assign(qanswer=["Tea."] * 2 + ["Milk."])
    run.write(topics, results, pd.DataFrame(), pd.DataFrame(), {})
    return run


def test_responses_have_the_texts_of_the_passages_that_they_use(folder):
    texts = pt.apply.generic(lambda rows: rows.assign(text="text of " + rows["docno"]))
    answers = answers_of(folder, texts).set_index("qid")
    assert answers["response"].to_dict() == {
        "1-1_1": "Tea.",
        "1-1_2": "Milk.",
        TURNS[2]: pytest.approx(float("nan"), nan_ok=True),
    }
    assert answers["qpassages"].tolist() == [["text of a", "text of b"], [], []]
    assert answers_of(folder)["qpassages"].tolist() == [[], [], []]


def test_a_run_without_responses_has_none_to_judge(tmp_path, folder):
    plain = RunFolder(tmp_path / "plain")
    plain.write(
        SAMPLE.get_topics().head(1),
        pd.DataFrame({"qid": ["1-1_1"], "docno": ["a"], "score": [1.0], "rank": [0]}),
        pd.DataFrame(),
        pd.DataFrame(),
        {},
    )
    assert answers_of(plain) is None
    assert response_scores(plain.path, SAMPLE, TURNS[:1], {}) is None


def test_a_response_is_scored_by_the_judges_that_can_be_asked(folder):
    scores = response_scores(folder.path, SAMPLE, ["1-1_2", "1-1_1"], {})
    assert len(scores) == 2
    known = scores.columns[scores.notna().any()].tolist()
    assert known == ["Rouge-L"]


def test_which_judges_can_be_asked():
    turns = pd.DataFrame({"qid": ["1_1"]})
    with_nuggets = turns.assign(gold_nuggets=[["a"]])
    models = {"bem": "models/bem", "groundedness": "recorded:sample", "solar": "recorded:sample"}
    models |= {"gpt-4o": "sample", "nuggets": "recorded:sample"}
    asked = response_judges(models, turns)
    assert {name: type(judge) for name, judge in asked.items()} == {
        "BEM": AnswerEquivalence,
        "Groundedness": Groundedness,
        "LLMeval SOLAR": Correctness,
        "Rouge-L": RougeL,
    }  # the word "sample" stands for completions that judge nothing
    assert asked["BEM"].model == "models/bem"
    assert "R-Nuggets" in response_judges(models, with_nuggets)
    assert list(response_judges({}, with_nuggets)) == ["Rouge-L"]


def test_judgements_of_responses_are_the_turns_that_were_asked():
    part = part_of(about="responses")
    found = UserJudgements().judgements(part, SAMPLE, TURNS[:3])
    assert found.qrels["qid"].tolist() == TURNS[:3]
    assert (found.kind, found.unjudged) == (None, 0)
    own = UserJudgements(QRELS[QRELS["qid"].isin(TURNS[1:2])]).judgements(part, SAMPLE, TURNS[:3])
    assert own.qrels["qid"].tolist() == TURNS[1:2]
    chosen = UserJudgements(turns=TURNS[2:5]).judgements(part, SAMPLE, TURNS[:3])
    assert (chosen.qrels["qid"].tolist(), chosen.unjudged) == (TURNS[2:3], 2)


def test_each_response_is_scored_in_the_order_of_its_turns(folder):
    qids = ["1-1_2", "1-1_1", TURNS[2]]
    scores = response_scores(folder.path, SAMPLE, qids, {})
    assert scores.columns.tolist() == [
        "BEM",
        "Groundedness",
        "LLMeval SOLAR",
        "LLMeval GPT-4o",
        "R-Nuggets",
        "Rouge-L",
    ]
    assert scores.index.tolist() == [0, 1, 2]
    gold = SAMPLE.get_answers().set_index("qid")["gold_answer"]
    answers = ["Milk.", "Tea.", ""]
    frame = pd.DataFrame({"qanswer": answers, "gold_answer": gold[qids].tolist()})
    wanted = [judged.value for judged in RougeL().judge(frame)]
    assert scores["Rouge-L"].tolist() == pytest.approx(wanted)


def test_nothing_is_loaded_for_responses_without_passages(folder):
    lines = [{"qid": "1-1_1", "response": "Tea."}, {"qid": "1-1_2", "response": "No.", "used": []}]
    (folder.path / "turns.jsonl").write_text("\n".join(map(json.dumps, lines)))
    asked = []
    texts = pt.apply.generic(lambda rows: asked.append(rows) or rows)
    assert answers_of(folder, texts)["qpassages"].tolist() == [[], []]
    assert asked == []


def test_judges_of_responses_stay_those_of_the_resources():
    part = part_of(about="responses")
    found = UserJudgements(QRELS, "NIST").judgements(part, SAMPLE, TURNS[:1])
    assert found.kind is None


def test_each_judge_is_asked_with_the_passages_of_the_response(folder, monkeypatch):
    models = dict.fromkeys(["groundedness", "solar", "gpt-4o", "nuggets"], "recorded:sample")
    with_nuggets = pd.DataFrame({"qid": ["1_1"], "gold_nuggets": [["a"]]})
    judges = response_judges(models, with_nuggets)
    assert {name: type(judge) for name, judge in judges.items()} == {
        "Groundedness": Groundedness,
        "LLMeval SOLAR": Correctness,
        "LLMeval GPT-4o": Correctness,
        "R-Nuggets": NuggetRecall,
        "Rouge-L": RougeL,
    }
    asked = []

    def evaluate(turns, answers, judges):
        asked.extend(answers["qpassages"])
        return pd.DataFrame({"qid": ["1-1_1"], "value": [0.5]})

    monkeypatch.setattr(paper_scores, "evaluate_responses", evaluate)
    texts = pt.apply.generic(lambda rows: rows.assign(text="text of " + rows["docno"]))
    scores = response_scores(folder.path, SAMPLE, ["1-1_2", "1-1_1"], {}, texts)
    assert asked == [["text of a", "text of b"], [], []]
    assert scores["Rouge-L"].fillna(-1).tolist() == [-1, 0.5]
