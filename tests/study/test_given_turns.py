"""The turns that a user gives.

What is no frame of turns, or has none, is told before anything is run.
"""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FINDS = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))


@pytest.mark.parametrize(
    "topics", [TOPICS.to_dict("records"), TOPICS["query"], "1_1", {"1_1": "tea"}]
)
def test_topics_that_are_no_frame_are_refused(topics, tmp_path):
    for call in (ikat.run, ikat.plan):
        with pytest.raises(ikat.UsageError, match="give a frame with qid and query"):
            call({"mine": FINDS}, topics=topics, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_frame_without_a_turn_is_refused(tmp_path):
    nobody = TOPICS[TOPICS["qid"] == "9_9"]
    for call in (ikat.run, ikat.plan):
        with pytest.raises(ikat.DataError, match="the topics frame has no turn"):
            call({"mine": FINDS}, topics=nobody, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("turns", [TOPICS.set_index("qid"), pd.DataFrame({"turn": ["1_1"]})])
def test_a_frame_of_turns_without_their_ids_is_refused(turns, tmp_path):
    with pytest.raises(ikat.UsageError, match="turns= is a frame without the column qid"):
        ikat.run({"mine": FINDS}, topics=TOPICS, turns=turns, out=tmp_path / "runs")
