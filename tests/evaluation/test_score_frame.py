"""Frames of scores that show sentences below their rows."""

import pandas as pd

from pyterrier_ikat.evaluation.score_frame import ScoreFrame, about_turns, notes_on_turns


def test_a_long_sentence_below_a_frame_has_several_lines():
    scores = about_turns(pd.DataFrame({"name": ["a"]}), ["a lacks " + "a turn and " * 20])
    below = repr(scores).splitlines()[2:]
    assert len(below) == 3
    assert max(map(len, below)) <= 80


def test_a_frame_shows_sentences_that_add_to_its_columns():
    scores = pd.DataFrame({"name": ["a"], "nDCG@5": [0.5], "turns": [2]})
    scores.attrs["mine"] = 1
    plain = about_turns(scores, ["Mean over 2 judged turns."])
    assert type(plain) is pd.DataFrame
    assert plain.attrs == {"mine": 1, "turns": ["Mean over 2 judged turns."]}
    lines = ["Mean over 2 judged turns, those that a was asked, of 3.", "a lacks <b>"]
    told = about_turns(scores, ["Mean over 2 judged turns.", *lines])
    told.attrs["deviations"] = ["a has another depth."]
    assert notes_on_turns(told) == lines
    for frame in (told, told[["name"]], told.round(1)):
        assert type(frame) is ScoreFrame
        assert repr(frame).splitlines()[-3:] == [*lines, "note: a has another depth."]
        assert frame._repr_html_().endswith(
            "<p>Mean over 2 judged turns, those that a was asked, of 3.</p>"
            "<p>a lacks &lt;b&gt;</p><p>note: a has another depth.</p>"
        )
    again = about_turns(told, ["Others."])
    assert again.attrs["turns"] == ["Others."]
    assert about_turns(pd.DataFrame({"name": ["a"]}), []).attrs == {}
    assert told.attrs["mine"] == 1
    with pd.option_context("display.notebook_repr_html", False):
        assert told._repr_html_() is None
