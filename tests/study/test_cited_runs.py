"""A run whose responses cite.

Its folder keeps what each sentence cites, and judges, submission and report read it.
"""

import math

import pandas as pd
import pyterrier as pt
import pytest
from packed_page import packed_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import CitedSentences, ExistingCitations
from pyterrier_ikat.evaluation.responses import evaluate_responses, response_means
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.papers.paper_scores import answers_of
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import UncitedWarning, read_submission, write_submission

SAID = ["Oats [2]. Rye [1][9]. Barley.", "Nothing is cited. Or [2023].", "Oats [3]."]
DOCNOS = ["sample-walk-001:0", "sample-walk-001:1", "sample-walk-003:0", "sample-walk-003:1"]


class FindsFour(Operator):
    """Finds the same four passages for each turn."""

    schematic = {"label": "FindsFour"}

    def transform(self, inp):
        pt.validate.query_frame(inp, context=self)
        found = inp.loc[inp.index.repeat(4)].reset_index(drop=True)
        ranks = list(range(4)) * len(inp)
        return found.assign(
            docno=column(DOCNOS * len(inp)),
            text=column(DOCNOS * len(inp)),
            rank=ranks,
            score=[4.0 - rank for rank in ranks],
        )


class Model:
    """Says of each turn what its place among the turns calls for."""

    def __init__(self):
        self.words = ikat.dataset("ikat:sample").get_topics()["qutterance"].tolist()

    def generate(self, chats):
        answers = []
        for chat in chats:
            _, _, rest = chat[-1]["content"].partition("# Last message of the user\n")
            question, _, _ = rest.partition("\n")
            answers.append(SAID[self.words.index(question) % 3])
        return answers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("cited")
    llm = ikat.llm(Model())
    ikat.run({"mine": FindsFour() >> ikat.Respond(llm, 3, cite=True)}, "ikat:sample", out=out)
    return RunFolder(out / "mine")


def test_the_folder_keeps_what_is_cited(folder):
    first, second, third, *_ = folder.turns()
    assert first["response"] == "Oats. Rye. Barley."
    assert first["used"] == DOCNOS[:2]
    assert first["qcitations"] == [
        {"sentence": "Oats.", "docnos": DOCNOS[1:2], "unknown": []},
        {"sentence": "Rye.", "docnos": DOCNOS[:1], "unknown": [9]},
        {"sentence": "Barley.", "docnos": [], "unknown": []},
    ]
    assert (second["response"], second["used"]) == ("Nothing is cited. Or [2023].", DOCNOS[:3])
    assert third["used"] == DOCNOS[2:3]


def test_the_measures_are_those_worked_out_by_hand(folder):
    turns = folder.turns()
    wanted = pd.DataFrame({"qid": [turn["qid"] for turn in turns[:3]] + ["9-9_9"]})
    judged = evaluate_responses(
        wanted, answers_of(folder), [CitedSentences(), ExistingCitations()]
    ).set_index(["judge", "qid"])
    qids = wanted["qid"].tolist()
    assert [judged["value"]["cited sentences", qid] for qid in qids] == [2 / 3, 0.0, 1.0, 0.0]
    existing = [judged["value"]["existing citations", qid] for qid in qids]
    assert (existing[0], math.isnan(existing[1]), existing[2:]) == (2 / 3, True, [1.0, 0.0])
    means = response_means(judged.reset_index()).set_index("judge")
    assert means["mean"].tolist() == [
        pytest.approx((2 / 3 + 0 + 1 + 0) / 4),
        pytest.approx((2 / 3 + 1 + 0) / 3),
    ]
    assert means["no_basis"].tolist() == [0, 1]


def test_submission_uses_the_cited_and_warns_once_of_the_uncited(folder, tmp_path):
    with pytest.warns(UncitedWarning) as told:
        write_submission(
            folder,
            ikat.dataset("ikat:sample"),
            tmp_path / "run.json",
            run_id="mine",
            run_type="automatic",
        )
    turns = folder.turns()
    uncited = [turn["qid"] for turn in turns if "cited" in turn["response"]]
    assert len(told) == 1
    assert str(told[0].message).startswith(
        f"{len(uncited)} of {len(turns)} responses without a citation ({uncited[0]}"
    )
    read = read_submission(tmp_path / "run.json", ikat.dataset("ikat:sample"))
    used = read.results[read.results["used"]].groupby("qid")["docno"].agg(list)
    assert [used[turn["qid"]] for turn in turns[:3]] == [DOCNOS[:2], DOCNOS[:3], DOCNOS[2:3]]
    assert not read.turns["qanswer"].str.contains(r"\[\d\]").any()


def test_the_report_says_which_response_cites_nothing(folder):
    page = str(packed_turns(ikat.report([folder.path], "ikat:sample").html))
    uncited = sum("cited" in turn["response"] for turn in folder.turns())
    assert page.count("cites none of the passages that it was shown:") == uncited
    assert "based on" in page


def test_citation_outside_of_sentences_is_only_a_citation():
    """By hand: one sentence of two cites.

    Of four citations three are of shown passages, one of them in a list of sources.
    """
    said = [
        {"sentence": "Tea.", "docnos": ["d1"], "unknown": [7]},
        {"sentence": "Mint.", "docnos": [], "unknown": []},
        {"sentence": "", "docnos": ["d1", "d2"], "unknown": []},
    ]
    frame = pd.DataFrame({"qcitations": [said]})
    [cited] = CitedSentences().judge(frame)
    [existing] = ExistingCitations().judge(frame)
    assert (cited.value, existing.value) == (1 / 2, 3 / 4)
