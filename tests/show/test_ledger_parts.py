"""Accounts of logs, refusals, and the models that a system asked."""

import re

import pandas as pd
import pytest
from small_runs import write_stages

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, RunFolder, Turn
from pyterrier_ikat.show.ledgers import asked_by, circular, ledger, ledger_frame, refusals


def test_the_account_of_a_log_has_systems_and_players_apart(tmp_path):
    log = Log.create(tmp_path / "sims", {"kind": "simulated", "system": "raw"})
    log.begin("u1", "u1")
    of_players = {"calls": 2, "known": 1, "prompt_tokens": 8, "completion_tokens": 4, "cost": 0.5}
    first = Spend(1, prompt_tokens=10, completion_tokens=5, cost=0.25, worth=0.5)
    spends = [first, Spend(known=2, worth=1.0)]
    for number, spend in enumerate(spends, 1):
        more = {"players": of_players} if number == 1 else {}
        log.append(Turn(number, "?", "!", spend=spend, session="u1", more=more))
    frame = ledger_frame([tmp_path / "sims"]).set_index("stage")
    assert frame["system"].tolist() == ["sims", "sims"]
    columns = ["calls", "known", "prompt_tokens", "cost", "worth"]
    assert frame.loc["all", columns].tolist() == [1, 2, 10, 0.25, 1.5]
    assert frame.loc["user and judge", ["calls", "known", "cost"]].tolist() == [2, 1, 0.5]
    assert frame.loc["user and judge", "worth"] == 0
    assert frame["model"].tolist() == ["all", "all"]
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
    write_stages(path, *lines)
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
    calls = [{"failure": "the model refused: no"}, {"completion": "Rooibos."}]
    refused = {"qid": "9-1_1", "stage": "a", "asked": calls}
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
        f"Refused calls of {name} by conversation: 9-1 1 of 2." for name in ("second", "fourth")
    ]


def test_models_are_those_requested_and_served(tmp_path):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    folder = RunFolder(tmp_path / "aqd")
    served = {"gpt-4o": ["gpt-4o-2024-08-06"], "small": []}
    folder.write(topics, found, pd.DataFrame(), pd.DataFrame(), {"served": served})
    (tmp_path / "raw.partial").mkdir()
    asked = asked_by([str(tmp_path / "raw.partial"), str(folder.path)])
    assert asked == {"aqd": ["gpt-4o", "small", "gpt-4o-2024-08-06"]}
    [line] = circular(["recorded:sample", "openai:gpt-4o", "gpt-4o temperature=0", "other"], asked)
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


def counted_as(**counts):
    spent = Ledger()
    spent.count("a", "m", calls=1, **counts)
    return spent


@pytest.mark.parametrize(
    ("worths", "told"),
    [
        ([0.0, 0.0], None),
        (
            [0.0, 0.5],
            "Worth: what the calls would have cost .* Together: paid 0.5000, known 0.5000.",
        ),
        ([None, 0.5], "Together: paid 0.5000, known unknown."),
        ([None, 0.0], "Together: paid 0.5000. What the calls .* answered is unknown."),
    ],
)
def test_money_that_a_cache_saved_is_told(worths, told):
    ledgers = {}
    for number, worth in enumerate(worths):
        ledgers[str(number)] = counted_as(cost=0.25, worth=worth)
    notes = [note for note in ledger(ledgers).notes if "Together" in note]
    assert len(notes) == (told is not None)
    if told:
        assert re.search(told, notes[0])
        assert notes[0].startswith("Cost: what was paid, over all starts of a run.")


def test_folders_have_their_own_names_and_stages(tmp_path, monkeypatch):
    log = Log.create(tmp_path / "sims.v1", {"kind": "simulated", "system": "raw"})
    log.begin("u1", "u1")
    log.append(Turn(1, "?", "!", spend=Spend(1, cost=0.25), session="u1"))
    monkeypatch.chdir(tmp_path / "sims.v1")
    assert ledger_frame(["."])["system"].tolist() == ["sims.v1"]
    both = {"sims": tmp_path / "sims.v1", "run": counted_as()}
    table = ledger(both)
    assert table.notes[1].startswith("all: a conversation's log adds up a system's stages. user an")
    assert table.label == "cost"
    assert table.frame.columns.tolist()[:3] == ["system", "stage", "model"]
    assert not any("conversation's log" in note for note in ledger({"run": counted_as()}).notes)
    with pytest.raises(UsageError, match="two ledgers are named sims.v1: give each its name"):
        ledger_frame([tmp_path / "sims.v1", str(tmp_path / "sims.v1")])
    for given in (tmp_path / "sims.v1", RunFolder(tmp_path / "sims.v1")):
        with pytest.raises(UsageError, match="give a list of run folders: .*sims.v1"):
            ledger_frame(given)
    with pytest.raises(DataError, match="nowhere"):
        ledger_frame([tmp_path / "nowhere"])


def test_failures_without_stages_have_no_conversations(tmp_path):
    (tmp_path / "mine").mkdir()
    counted_as(failures=2).frame().to_csv(tmp_path / "mine" / "ledger.csv", index=False)
    (tmp_path / "mine" / "run.json").write_text("{}")
    assert not any("Refused" in note for note in ledger([tmp_path / "mine"]).notes)
    answered = {"qid": "9-1<::>1", "stage": "a", "asked": [{"completion": "Rooibos."}]}
    folder = with_stages(tmp_path / "other", answered)
    counted_as(failures=1).frame().to_csv(folder.path / "ledger.csv", index=False)
    (folder.path / "run.json").write_text("{}")
    assert not any("Refused" in note for note in ledger([folder]).notes)
    assert len(refusals(str(folder.path))) == 0
    assert asked_by([str(folder.path)]) == {"other": []}


def test_each_model_that_judges_and_answers_has_one_line():
    asked = {"a": ["gpt-4o-2024-08-06"], "b": ["openai:gpt-4o"], "c": ["gpt-4"], "d": []}
    lines = circular(["gpt-4o", "openai:gpt-4o t=1", "gpt-4", "claude-3-opus"], asked)
    assert [line.partition(": scores")[0] for line in lines] == [
        "circular: gpt-4o is a judge or user here, and a, b asked it, too",
        "circular: gpt-4 is a judge or user here, and c asked it, too",
    ]


def test_conversations_of_another_benchmark_have_their_own_ids(tmp_path):
    refused = [{"failure": "the model refused: no"}]
    lines = [{"qid": f"a_1<::>{number}", "stage": "a", "asked": refused} for number in (1, 2, 10)]
    folder = with_stages(tmp_path / "mine", *lines, {"qid": "b", "stage": "a", "asked": refused})
    assert refusals(folder).values.tolist() == [["a_1", 3, 3], ["b", 1, 1]]
