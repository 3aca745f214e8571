"""Passages below the first ones are summarised, and the response reads the summaries."""

import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt, scripted
from operators import CHAT, PTKB, ledger, mixed, planned, results, texts, two_turns, used_of

import pyterrier_ikat as ikat
from pyterrier_ikat.planning import Plan

G = ikat.generate


def turn_with(count, scores=None, qid="t"):
    turn = ikat.conversation(CHAT, PTKB).assign(qid=qid)
    numbers = range(1, count + 1)
    rows = pd.DataFrame(
        {
            "docno": [f"d{n}" for n in numbers],
            "rank": range(count),
            "text": [f"P{n}." for n in numbers],
        }
    )
    return turn.merge(rows.assign(score=scores or [float(-n) for n in range(count)]), how="cross")


@pytest.mark.parametrize(
    ("count", "chunks"),
    [
        (2, []),
        (3, []),
        (4, ["P4."]),
        (8, ["P4. P5. P6. P7. P8."]),
        # counted from the last: the first summary has fewer
        (10, ["P4. P5.", "P6. P7. P8. P9. P10."]),
        (
            30,
            [
                "P4. P5.",
                "P6. P7. P8. P9. P10.",
                "P11. P12. P13. P14. P15.",
                "P16. P17. P18. P19. P20.",
            ],
        ),
    ],
)
def test_the_first_three_stay_whole_and_the_others_go_by_fives(count, chunks):
    summaries = [f"Summary {n}." for n in range(len(chunks))]
    llm, backend = scripted(*summaries)
    out = G.Condense(llm)(turn_with(count))
    assert out["qpassages"][0] == [*["P1.", "P2.", "P3."][:count], *summaries]
    read = min(count, 20)
    assert out["used"].tolist() == [True] * read + [False] * (count - read)
    for prompt, chunk in zip(texts(backend), chunks, strict=True):
        inside = prompt.partition("# Task")[0]
        assert re.findall(r"(?<!\S)P\S*\.(?!\S)", inside) == chunk.split()
        assert "at most 250 words" in prompt


@pytest.mark.parametrize(
    ("scores", "used"),
    [
        ([0.9, 0.8, 0.4, 0.2, 0.7], 3),  # until the first that isn't above
        ([0.1, 0.05, 0.9, 0.9, 0.9], 1),  # the first counts anyway
        ([0.9, 0.3, 0.9, 0.9, 0.9], 1),  # not above is out
        ([0.9] * 5, 5),
    ],
)
def test_scores_above_the_threshold_are_read(scores, used):
    out = G.Condense(scripted("Sum.", "Sum.")[0], threshold=0.3)(turn_with(5, scores))
    assert out["used"].tolist() == [True] * used + [False] * (5 - used)
    assert len(out["qpassages"][0]) == min(used, 3) + (used > 3)


def test_a_failed_summary_is_the_beginning_of_its_turns_passages():
    llm, _ = scripted("", "Second.")
    both = pd.concat([turn_with(4, qid="t"), turn_with(5, qid="u")], ignore_index=True)
    out = (
        G.Condense(llm, on_error="fallback")(both)
        .drop_duplicates("qid")
        .set_index("qid")["qpassages"]
    )
    assert out["t"] == ["P1.", "P2.", "P3.", "P4."]
    assert out["u"] == ["P1.", "P2.", "P3.", "Second."]
    assert ledger(llm, "fallbacks") == 1


def test_the_response_reads_condensed_texts_and_keeps_those_used():
    model = ByPrompt(condense_passages="Sum of the others.", respond="Sage.")
    system = G.Condense(model.llm, 5) >> ikat.Respond(model.llm, 2, form="condensed")
    out = system(turn_with(7))
    [request] = [request for request in model.asked if request.prompt == "respond"]
    prompt = str(request.messages[-1]["content"])
    for text in ("P1.", "P2.", "P3.", "Sum of the others."):
        assert text in prompt
    assert "P4." not in prompt
    assert out["used"].tolist() == [True] * 5 + [False] * 2
    with pytest.raises(pt.validate.InputValidationError, match="qpassages"):
        ikat.Respond(model.llm, form="condensed")(turn_with(2))


@pytest.mark.parametrize("missing", ["qpassages", "used"])
def test_a_response_of_condensed_texts_needs_both_columns(missing):
    model = ByPrompt(condense_passages="Sum of the others.", respond="Sage.")
    condensed = G.Condense(model.llm)(turn_with(5))
    with pytest.raises(pt.validate.InputValidationError, match=missing):
        ikat.Respond(model.llm, form="condensed")(condensed.drop(columns=missing))
    assert [request.prompt for request in model.asked] == ["condense_passages"]


def test_a_plan_counts_as_many_summaries_as_there_may_be(tmp_path):
    model = ByPrompt()
    passages = [{"docno": f"d{n}", "text": f"tea {n}"} for n in range(30)]
    bm25 = ikat.PassageIndex(tmp_path / "i").index(passages).bm25()
    for depth, calls in ((1000, 4), (8, 1)):
        system = bm25 % depth >> G.Condense(model.llm) >> ikat.Respond(model.llm, form="condensed")
        rows = ikat.plan({"one": system}, ikat.conversation(CHAT, PTKB)).set_index("stage")["calls"]
        assert dict(rows) == {"condense": calls, "respond": 1}
    low = bm25 >> G.Condense(model.llm, threshold=0.3) >> ikat.Respond(model.llm, form="condensed")
    assert ikat.plan({"one": low}, ikat.conversation(CHAT, PTKB))["stage"].tolist() == [
        "condense, at most",
        "respond",
    ]


@pytest.mark.parametrize(
    ("scores", "read"),
    [
        ([0.1, 0.9, 0.8], [0, 1, 2]),
        ([0.9, 0.5, 0.8], [0]),
        ([0.9, 0.51, 0.5, 0.9], [0, 1]),
        ([0.9, 0.8, 0.7], [0, 1, 2]),
        (None, [0, 1, 2]),
    ],
)
def test_passages_are_read_up_to_the_first_at_the_threshold(scores, read):
    count = len(scores) if scores else 3
    frame = results(*[(rank, f"P{rank}.") for rank in reversed(range(count))])
    frame = frame.drop(columns="score") if scores is None else frame.assign(score=scores[::-1])
    model = ByPrompt(condense_passages="Sum.")
    condensed = G.Condense(model.llm, direct=1, threshold=0.5)(frame)
    assert sorted(condensed["rank"][condensed["used"]]) == read
    assert condensed["qpassages"].iloc[0] == (["P0.", "Sum."] if len(read) > 1 else ["P0."])
    assert condensed["used"].dtype == bool


def test_each_turn_is_read_up_to_its_own_threshold():
    scores = {"chat_2": [0.1, 0.9, 0.2, 0.9, 0.9], "other_1": [0.1, 0.9, 0.9, 0.9, 0.1]}
    frame = mixed(5)
    for qid, of_turn in scores.items():
        frame.loc[frame["qid"] == qid, "score"] = of_turn
    model = ByPrompt(condense_passages="Sum.")
    out = G.Condense(model.llm, 3, direct=1, threshold=0.3)(frame)
    assert used_of(out) == {
        "chat_2": ["chat_2-0", "chat_2-1"],
        "other_1": ["other_1-0", "other_1-1", "other_1-2"],
    }
    asked = [(request.qid, request.item) for request in model.asked]
    assert asked == [("chat_2", "1"), ("other_1", "1")]
    shown = str(model.asked[1].messages)
    numbers = [number for number in range(4) if f"Passage {number} of other_1" in shown]
    assert numbers == [1, 2]
    assert out["qpassages"].tolist() == [
        [f"Passage 0 of {qid}. More.", "Sum."] for qid in frame["qid"]
    ]


def test_each_turn_is_answered_from_its_own_summaries():
    frame = mixed(2)
    frame["qpassages"] = [[f"Sum of {qid}."] for qid in frame["qid"]]
    frame = frame.sort_values("qid", ignore_index=True).assign(used=[True, False, True, True])
    llm, backend = scripted("a", "b")
    out = ikat.Respond(llm, form="condensed")(frame)
    first, second = texts(backend)
    assert "Sum of chat_2." in first
    assert "Sum of other_1." not in first
    assert "Sum of other_1." in second
    assert "Sum of chat_2." not in second
    assert out["used"].tolist() == [True, False, True, True]


def test_fewer_passages_before_mean_fewer_summaries():
    operator = G.Condense(scripted()[0])
    assert [row["stage"] for row in planned(operator)] == ["condense"]
    assert [row["stage"] for row in planned(operator, True)] == ["condense, at most"]


def test_a_plan_of_condensed_passages_ends_at_the_cut():
    operator = G.Condense(scripted()[0], 20, direct=1, chunk=2, threshold=0.5)
    for cut, calls in ((4, 4), (20, 20), (1000, 20)):
        plan = Plan("mine", set())
        plan.cut = cut
        operator.plan(two_turns(), plan)
        assert [(row["stage"], row["calls"]) for row in plan.rows] == [("condense, at most", calls)]
        assert not plan.fewer_passages
    plan.fewer_passages = True
    operator.plan(two_turns(), plan)
    assert plan.fewer_passages
