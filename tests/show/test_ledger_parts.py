"""Accounts of logs, refusals, and the models that a system asked."""

import gzip
import json

import pandas as pd
import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, RunFolder, Turn
from pyterrier_ikat.show.ledgers import asked_by, circular, ledger, ledger_frame, refusals


def test_the_account_of_a_log_has_systems_and_players_apart(tmp_path):
    log = Log.create(tmp_path / "sims", {"kind": "simulated", "system": "raw"})
    log.begin("u1", "u1")
    of_players = {"calls": 2, "known": 1, "prompt_tokens": 8, "completion_tokens": 4, "cost": 0.5}
    spends = [Spend(1, prompt_tokens=10, completion_tokens=5, cost=0.25), Spend(known=2, worth=1.5)]
    for number, spend in enumerate(spends, 1):
        more = {"players": of_players} if number == 1 else {}
        log.append(Turn(number, "?", "!", spend=spend, session="u1", more=more))
    frame = ledger_frame([tmp_path / "sims"]).set_index("stage")
    assert frame["system"].tolist() == ["sims", "sims"]
    columns = ["calls", "known", "prompt_tokens", "cost", "worth"]
    assert frame.loc["all", columns].tolist() == [1, 2, 10, 0.25, 1.5]
    assert frame.loc["user and judge", ["calls", "known", "cost"]].tolist() == [2, 1, 0.5]
    assert pd.isna(frame.loc["all", "failures"])  # the log doesn't have them
    text = " ".join(ledger([tmp_path / "sims"]).text().split())
    assert "paid 0.7500" in text


def test_a_system_without_calls_has_a_row_of_zeros():
    spent = Ledger()
    spent.count("rewrite", "m", calls=2, cost=None)
    frame = ledger_frame({"raw": Ledger(), "QR": spent})
    assert frame[["system", "stage", "model", "calls"]].values.tolist() == [
        ["raw", "none", "none", 0],
        ["QR", "rewrite", "m", 2],
    ]
    assert frame["cost"].tolist()[0] == 0.0
    assert pd.isna(frame["cost"].tolist()[1])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "there is no ledger"),
        ({}, "there is no ledger"),
        ("runs/a", "give a list of run folders"),
    ],
)
def test_ledgers_are_several_and_at_least_one(given, told):
    with pytest.raises(UsageError, match=told):
        ledger_frame(given)


def with_stages(path, *lines):
    path.mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "stages.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return RunFolder(path)


def test_refused_calls_are_those_of_server_and_model(tmp_path):
    no = "I'm sorry, but I can't help with that."
    calls = [
        {"failure": "the provider's content filter withheld the answer"},
        {"failure": "no answer"},
        {"completion": no},
        {"completion": f"<think>easy</think>{no}"},
        {"completion": "Rooibos."},
    ]
    folder = with_stages(
        tmp_path / "mine",
        {"qid": "10-1_1", "stage": "a", "asked": calls[:3]},
        {"qid": "9-1_1", "stage": "a", "asked": calls[3:]},
        {"qid": "9-1_2", "stage": "b", "asked": calls[2:3]},
        {"qid": "8-1_1", "stage": "a", "asked": calls[4:]},
        {"qid": "7-1_1", "stage": "a"},
    )
    found = refusals(folder)
    assert found.columns.tolist() == ["conversation", "asked", "refused"]
    refused = dict(zip(found["conversation"], found["refused"], strict=True))
    assert list(refused) == ["9-1", "10-1"]
    assert (refused["9-1"], found.set_index("conversation").loc["9-1", "asked"]) == (2, 3)
    assert (refused["10-1"], found.set_index("conversation").loc["10-1", "asked"]) == (2, 3)


def test_refused_calls_are_told_of_every_system_that_failed(tmp_path):
    refused = {"qid": "9-1_1", "stage": "a", "asked": [{"failure": "the model refused: no"}]}
    answered = {"qid": "9-1_1", "stage": "a", "asked": [{"completion": "Rooibos."}]}
    lines = {"first": answered, "second": refused, "third": answered, "fourth": refused}
    for name, line in lines.items():
        with_stages(tmp_path / name, line)
        spent = Ledger()
        spent.count("a", "m", calls=1, failures=int(line is refused))
        spent.frame().to_csv(tmp_path / name / "ledger.csv", index=False)
        (tmp_path / name / "run.json").write_text("{}")
    notes = ledger([tmp_path / name for name in lines]).notes
    assert [note for note in notes if note.startswith("Refused")] == [
        f"Refused calls of {name} by conversation: 9-1 1 of 1." for name in ("second", "fourth")
    ]


def test_models_are_those_requested_and_served(tmp_path):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    folder = RunFolder(tmp_path / "aqd")
    served = {"gpt-4o": ["gpt-4o-2024-08-06"], "small": []}
    folder.write(topics, found, pd.DataFrame(), pd.DataFrame(), {"served": served})
    (tmp_path / "raw.partial").mkdir()
    asked = asked_by([str(folder.path), str(tmp_path / "raw.partial")])
    assert asked == {"aqd": ["gpt-4o", "small", "gpt-4o-2024-08-06"]}
    [line] = circular(["openai:gpt-4o", "gpt-4o temperature=0", "recorded:sample", "other"], asked)
    assert "gpt-4o" in line
    assert "aqd" in line
    assert circular(["recorded:sample"], {"raw": ["recorded"]}) == []


def test_an_unknown_worth_is_told_and_no_worth_is_not():
    for worth, told in [(0.0, ""), (None, "unknown"), (0.5, "known 0.5000")]:
        spent = Ledger()
        spent.count("rewrite", "m", calls=1, known=1, cost=0.25, worth=worth)
        text = " ".join(ledger({"a": spent}).text().split())
        assert ("Together: paid 0.2500" in text) is bool(told)
        assert told in text
