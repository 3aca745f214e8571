"""Blind votes are counted for each pair of systems, and tested by the sign test."""

import json
from math import comb

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.cli.main import main
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import count_votes, sign_test


def votes(path, *cast):
    """A file of votes as (conversation, turn, left, right, vote)."""
    names = ("conversation", "turn", "left", "right", "vote")
    path.write_text("".join(json.dumps(dict(zip(names, one, strict=True))) + "\n" for one in cast), encoding="utf-8")
    return path


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_counts_the_outcomes_that_are_as_uneven_or_more(wins, losses):
    votes = wins + losses
    as_uneven = sum(comb(votes, number) for number in range(votes + 1) if abs(2 * number - votes) >= abs(wins - losses))
    assert sign_test(wins, losses) == pytest.approx(as_uneven / 2**votes, rel=1e-9)


def test_sides_are_turned_back_and_pairs_stand_apart(tmp_path):
    first = votes(
        tmp_path / "a.jsonl",
        *(("c1", 1, "gtr", "ad", "left"), ("c1", 2, "ad", "gtr", "right"), ("c1", 3, "ad", "gtr", "tie")),
        *(("c2", 1, "gtr", "ad", "neither"), ("c2", 2, "gtr", "ad", "right"), ("c3", 1, "gtr", "raw", "left")),
    )
    again = votes(tmp_path / "b.jsonl", ("c1", 1, "gtr", "ad", "left"), ("c1", 3, "ad", "gtr", "left"))  # changed after the first export
    assert count_votes([first, again]).values.tolist() == [
        ["ad", "gtr", 2, 2, 0, 1, 2, 1.0],
        ["gtr", "raw", 1, 0, 0, 0, 1, 1.0],
    ]
    found = CliRunner().invoke(main, ["evaluate", str(first), str(again), "--of", "votes", "--format", "csv"])
    assert found.exit_code == 0, found.output
    assert "ad,gtr,2,2,0,1,2,1.0" in found.output


def test_a_system_may_have_the_name_of_a_vote(tmp_path):
    found = count_votes(
        votes(tmp_path / "a.jsonl", ("c", 1, "tie", "left", "tie"), ("c", 2, "tie", "left", "left"), ("c", 3, "left", "tie", "left"))
    )
    assert found.values.tolist() == [["left", "tie", 1, 1, 1, 0, 1, 1.0]]


def test_a_question_may_have_line_separators_of_unicode(tmp_path):
    vote = json.loads(wrong(vote="left", utterance="Which\u2028tea\u0085now?"))
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(vote, ensure_ascii=False) + "\n", encoding="utf-8")  # as JSON.stringify writes it
    assert count_votes(path)["wins"].tolist() == [1]


def wrong(**fields):
    return json.dumps({"conversation": "c", "turn": 1, "left": "a", "right": "b", "vote": "tie"} | fields)


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"vote": "left"}', wrong(vote="up"), wrong(right="a"), wrong(turn="1")])
def test_what_is_no_vote_is_named_by_its_line(tmp_path, line):
    path = votes(tmp_path / "a.jsonl", ("c", 1, "a", "b", "left"))
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl:2 is not a vote"):
        count_votes(path)


def test_no_vote_at_all_is_an_error(tmp_path):
    with pytest.raises(DataError, match="have no votes"):
        count_votes(votes(tmp_path / "a.jsonl"))
    with pytest.raises(DataError, match="can't be read"):
        count_votes(tmp_path / "missing.jsonl")
