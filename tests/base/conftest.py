"""What the tests of the base share."""

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import progress


@pytest.fixture
def line(monkeypatch):
    """A line of its own that draws at once, in terminals."""
    made = progress.Line()
    monkeypatch.setattr(progress, "LINE", made)
    monkeypatch.setattr(progress, "REDRAW_SECONDS", -1)
    monkeypatch.delenv(progress.OFF_VARIABLE, raising=False)
    return made


@pytest.fixture
def shout_prompts(tmp_path):
    (tmp_path / "shout.jinja").write_text(
        "{{ question }} {{ note }} {{ mark }} [{{ context }}] [{{ ptkb }}]"
    )
    (tmp_path / "shout_llama.jinja").write_text("llama {{ question }}")
    (tmp_path / "shout_system.jinja").write_text("Be {{ mark }}")
    return str(tmp_path)


@pytest.fixture
def turns():
    history = [
        {"role": "user", "content": "Tea?"},
        {"role": "assistant", "content": "Yes."},
    ]
    return pd.DataFrame(
        {
            "qid": ["1_1", "1_2"],
            "query": ["q1", "q2"],
            "qutterance": ["Which tea?", "And milk?"],
            "qhistory": [[], history],
            "qptkb": [{"1": "I am vegan.", "2": "I run."}, {}],
            "qstatements": [[("2", 0.5)], None],
            "qnote": ["n1", "n2"],
            "qresolved": ["r1", "r2"],
        }
    )


@pytest.fixture
def note_prompts(tmp_path):
    text = "{{ question }} {{ note }} {{ hint }} {{ mark }} {{ tone }}"
    (tmp_path / "shout.jinja").write_text(text)
    return str(tmp_path)


@pytest.fixture
def tea_index(tmp_path):
    passages = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a walk"}]
    return ikat.PassageIndex(tmp_path / "i").index(passages)
