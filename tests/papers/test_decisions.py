"""What stands beside the papers as a difference or a decision, and no other test shows: counts of released data, arithmetic, judges.

What each prompt has is in methods/test_prompt_values.py, the settings of each stage in methods/method_sheet.txt.
"""

import json

import pandas as pd
import pytest
from fakes import ByPrompt
from methods.test_papers_2024 import Score, Search

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import turn_lists
from pyterrier_ikat.methods import METHODS, TABLES
from pyterrier_ikat.papers.paper_scores import Given, response_judges
from pyterrier_ikat.papers.published import PAPERS, find_table
from pyterrier_ikat.papers.table import PaperTable


@pytest.mark.parametrize(("name", "query"), [("qd", "What do I eat?"), ("mq4cs_qr_deberta", "vegan food for walks")])
def test_a_query_list_without_a_usable_query_falls_back_to_the_utterance_or_the_rewrite(name, query):
    model, search = ByPrompt(queries="...", rewrite="vegan food for walks", statements_copies="none", respond="Oats."), Search()
    turn = ikat.conversation([{"role": "user", "content": "What do I eat?"}], ["I am vegan."])
    METHODS[name].build(llm=model.llm, retriever=search, reranker=Score())(turn)
    assert search.queries == [query]
    assert model.llm.ledger.frame().set_index("stage").loc["queries", "fallbacks"] == 1


def test_the_released_data_has_the_statistics_that_stand_beside_the_papers(shared):
    said = " ".join(" ".join(row) for paper in PAPERS.values() for row in paper.deviations)
    first, second = (json.loads((shared / "ikat" / f"{year}_test_topics.json").read_text()) for year in (2023, 2024))
    turns = [len(one["turns"]) for one in first]
    assert f"{sum(turns) / len(turns):.2f} turns a conversation" in said
    assert f"{sum(turns)} turns of the {len(turns)} conversations" in said
    ptkbs = {str(one["number"]): len(one["ptkb"]) for one in second}
    listed = {qid.rpartition("_")[0] for qid in turn_lists()["irlab-2024"].turns}
    assert f"{len(listed)} conversations of the 103 turns have {sum(ptkbs[one] for one in listed) / len(listed):.2f} statements" in said
    assert f"{len(ptkbs)} released conversations have {sum(ptkbs.values()) / len(ptkbs):.2f}" in said
    judged = [line.split()[0] for line in (shared / "ikat" / "2023-qrels.all-turns.txt").read_text().splitlines()]
    assert f"{len(judged):,} pairs of the {len(set(judged))} turns" in said
    for name, count in (("ptkb_rel_nist", 98), ("2024-qrels.txt", 116)):
        assert len({line.split()[0] for line in (shared / "ikat" / name).read_text().splitlines()}) == count
    assert (find_table("nii_2024", "I")[0].turns, find_table("nii_2024", "II")[0].turns) == (176, 98)


def test_the_published_numbers_agree_with_what_is_said_about_them():
    judged = TABLES["generate_then_retrieve_3"].frame()["Judged@10"]
    outside = judged[judged < 10]
    assert (len(outside), round(100 * (1 - outside.mean() / 10), 2)) == (13, 72.85)
    [ranking], [nist, _] = find_table("infosense_2024", "2"), find_table("infosense_2024", "3")
    assert (ranking.turns, nist.turns) == (116, 114)
    sums = ranking.frame()["P@20"] * 20 * 116
    assert ((sums - sums.round()).abs() < 0.00005 * 20 * 116 + 1e-9).all()
    shares = find_table("infosense_2024", "4")[0].frame()[["LLMeval SOLAR", "LLMeval GPT-4o"]].to_numpy().ravel()
    assert all(min(abs(score - round(score * turns) / turns) for turns in (61, 62)) < 0.00006 for score in shares)


def test_the_judges_of_responses_are_those_that_the_user_names():
    turns = pd.DataFrame({"qid": ["1-1_1"]})
    assert list(response_judges({}, turns)) == ["Rouge-L"]
    assert response_judges({"bem": "models/mine"}, turns)["BEM"].model == "models/mine"
    judge = response_judges({"solar": "recorded:sample"}, turns)["LLMeval SOLAR"]
    assert judge.needs == ("gold_answer",)
    values = [judge.parse(f'{{"reason": "r", "verdict": "{said}"}}') for said in ("yes", "no", "4")]
    assert [None if found is None else judge.assess({}, [found]).value for found in values] == [1.0, 0.0, None]
    [part] = find_table("infosense_2024", "4")
    judged = Given().judgements(part, ikat.dataset("ikat:sample"), ["1-1_1"])
    notes = " ".join(PaperTable(part, [], judged, {}).notes)
    assert "BEM: that of the user's classifier" in notes
    assert "LLMeval: the share of responses that say what the gold answer says" in notes


def test_without_a_published_number_of_turns_there_is_no_difference():
    [part] = find_table("disco_2025", "card")
    judged = Given().judgements(part, ikat.dataset("ikat:sample"))
    assert part.turns is None
    assert not PaperTable(part, [], type(judged)(judged.qrels, "NIST", 2023), {"disco": pd.DataFrame({"MRR": [0.5]})}).same_turns
