"""Runs and logs small enough to be worked out by hand; plots are closed."""

import shutil

import pytest
from small_dialogues import write_logs
from small_runs import DOCNOS, ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import per_turn
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, RunFolder, Turn


@pytest.fixture
def sample():
    return ikat.dataset("ikat:sample")


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    place = tmp_path_factory.mktemp("folders")
    sample = ikat.dataset("ikat:sample")
    topics = sample.get_topics().head(3)
    qrels = sample.get_qrels()
    first, second, third = topics["qid"]
    plain = ranking(
        [
            (first, DOCNOS[0], 3.0),
            (first, DOCNOS[1], 2.0),
            (first, DOCNOS[2], 1.0),
            (second, DOCNOS[3], 0.5),
        ]
    )
    full = ranking(
        [
            (first, DOCNOS[1], 9.0),
            (first, DOCNOS[4], 8.5),
            (first, DOCNOS[0], 8.0),
            (second, DOCNOS[3], 7.0),
        ]
    )
    wrote = {
        "qrewrite": ["Which first walk suits a bad knee?", "When is the heath at its best?"],
        "qstatements": [[("2", 1.0), ("6", 0.5)], []],
        "qsubqueries": [["easy first walk", "soft paths"], ["heath in bloom"]],
        "qanswer": ["Take the heath, it is level.", "In August."],
    }
    full["used"] = [True, False, True, True]
    for name, (of_first, of_second) in wrote.items():
        full[name] = column([of_first, of_first, of_first, of_second])
    asked = topics.assign(
        qrewrite=column(
            ["Which first walk?", "When is the heath at its best?", "Poles for a knee?"]
        )
    )
    ledger = Ledger()
    ledger.count(
        "answer", "gpt-4o", calls=2, known=1, prompt_tokens=100, completion_tokens=1900, cost=0.25
    )
    _write(place / "plain", asked, plain.merge(asked, on="qid"), qrels, Ledger())
    _write(place / "full", topics.head(2), full.merge(topics, on="qid"), qrels, ledger)
    return place


@pytest.fixture
def folders(tmp_path, written):
    """Run folders `plain` (three turns, the last without passages) and `full` (two turns)."""
    copies = []
    for name in ("plain", "full"):
        copies.append(RunFolder(shutil.copytree(written / name, tmp_path / name)))
    return copies


@pytest.fixture
def close_all():
    """Close the figures that a test leaves open."""
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.fixture
def log_of_users(tmp_path):
    """Makes a log of a system, with a conversation of a turn for each of its users."""

    def make(name, *users, kind="simulated", players=None):
        made = Log.create(tmp_path / name, {"kind": kind, "system": f"{name}()"})
        for user in users:
            made.begin(user, user)
            more = {"players": players} if players else {}
            spend = Spend(1, prompt_tokens=10, cost=0.25)
            made.append(Turn(1, "?", "!", seconds=2.0, spend=spend, session=user, more=more))
        return made

    return make


@pytest.fixture
def log_folders(tmp_path):
    """The folders of the logs of two systems."""
    return write_logs(tmp_path)


def _write(path, topics, results, qrels, ledger):
    figures = per_turn(results, qrels[qrels["qid"].isin(topics["qid"])])
    parameters = {
        "dataset": "ikat:sample",
        "expression": f"{path.name}()",
        "deviations": ["llm: the paper has gpt-4, this run gpt-4o"],
    }
    RunFolder(path).write(topics, results, figures, ledger.frame(), parameters)
