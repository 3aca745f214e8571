"""Ledgers of runs and logs: calls and costs by stage, refusals, and the models that were asked."""

import dataclasses
import json
import re

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt
from small_dialogues import write_log
from small_runs import write_stages

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Log, RunFolder, Turn
from pyterrier_ikat.show.ledgers import asked_by, circular, ledger, ledger_frame, refusals


def test_run_folder_ledgers_are_one_table_by_system_stage_model(folders):
    frame = ledger_frame(folders)
    shown = frame[
        ["system", "stage", "model", "calls", "known", "prompt_tokens", "completion_tokens", "cost"]
    ]
    assert shown.values.tolist() == [
        ["plain", "none", "none", 0, 0, 0, 0, 0.0],
        ["full", "answer", "gpt-4o", 2, 1, 100, 1900, 0.25],
    ]
    assert (
        frame.dtypes.astype(str).to_dict()
        == {"system": frame["system"].dtype.name} | Ledger().frame().dtypes.astype(str).to_dict()
    )
    assert ledger_frame([str(folders[1].path)]).equals(ledger_frame({"full": folders[1].path}))


def test_an_unknown_amount_stays_unknown_through_a_run_folder(folders):
    asked = Ledger()
    asked.count("answer", "NA", calls=1, prompt_tokens=None, cost=None)
    asked.frame().to_csv(folders[1].path / "ledger.csv", index=False)
    row = ledger_frame([folders[1]]).iloc[0]
    assert row["model"] == "NA"
    assert row["prompt_tokens"] is pd.NA
    assert row["completion_tokens"] == 0


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


def test_an_account_has_all_conversations_and_their_players(log_of_users):
    players = {"calls": 2, "known": 0, "prompt_tokens": 8, "completion_tokens": 4, "cost": 0.5}
    made = log_of_users("sims", "ann", "ben", "eve", players=players)
    frame = ledger_frame([made.folder, log_of_users("idle").folder])
    columns = ["system", "stage", "model", "calls", "prompt_tokens", "cost"]
    assert frame[columns].values.tolist() == [
        ["sims", "all", "all", 3, 30, 0.75],
        ["sims", "user and judge", "all", 6, 24, 1.5],
        ["idle", "none", "none", 0, 0, 0.0],
    ]


def test_cached_completions_are_no_calls_in_the_ledger(tmp_path):
    path = write_log(
        tmp_path / "one",
        "one",
        {"u2": (["r1"], "satisfied")},
        spend=Spend(3, 2, None, None, None, 0.25, None),
    )
    row = ikat.show.ledger_frame([path]).iloc[0]
    assert (row["calls"], row["known"], row["cost"]) == (3, 2, 0.25)
    assert row[["worth", "prompt_tokens", "seconds", "failures"]].isna().all()


def test_an_unfinished_run_has_the_account_of_its_starts(tmp_path):
    partial = tmp_path / "qr.partial"
    partial.mkdir()
    events = [{"stage": "a", "model": "m", "calls": calls, "cost": 0.25} for calls in (1, 2)]
    (partial / "costs.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for path, name in ((partial, "qr.partial"), (tmp_path / "qr", "qr")):
        frame = ledger_frame([path])
        assert frame[["system", "stage", "calls", "cost"]].values.tolist() == [[name, "a", 3, 0.5]]
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "aqd"))):
        ledger_frame([partial, tmp_path / "aqd"])


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


def test_ledgers_that_cannot_be_told_apart_or_read_are_refused(folders, tmp_path):
    with pytest.raises(UsageError, match="there is no ledger"):
        ledger_frame([])
    with pytest.raises(UsageError, match="two ledgers are named full"):
        ledger_frame([folders[1], str(folders[1].path)])
    with pytest.raises(UsageError, match="give a list of run folders: .'runs/aqd'."):
        ledger_frame("runs/aqd")
    with pytest.raises(DataError, match="is not a finished run"):
        ledger_frame([tmp_path / "none"])
    for content in ("stage,model\n", "", "stage,model,calls\na,b,many\n"):
        (folders[0].path / "ledger.csv").write_text(content)
        with pytest.raises(DataError, match=r"ledger.csv can't be read .*: repeat the run"):
            ledger_frame(folders)


def counted_as(**counts):
    spent = Ledger()
    spent.count("a", "m", calls=1, **counts)
    return spent


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


def test_ledger_shows_thousands_and_unknowns_not_unused_columns(folders):
    asked = Ledger()
    asked.count(
        "rewrite",
        "none_such|model",
        calls=1234,
        retries=2,
        prompt_tokens=None,
        completion_tokens=5,
        seconds=1.25,
        cost=None,
    )
    lines = ledger({"one": asked, "two": folders[1]}).markdown().splitlines()
    assert lines[0] == (
        "| system | stage | model | calls | known | retries | tokens in | tokens out | "
        "seconds | cost (USD) |"
    )
    assert lines[2] == r"| one | rewrite | none\_such\|model | 1,234 | 0 | 2 | – | 5 | 1.2 | – |"
    assert lines[3] == "| two | answer | gpt-4o | 2 | 1 | 0 | 100 | 1,900 | 0.0 | 0.2500 |"
    assert lines[-1].endswith("–: unknown.")


def test_the_worth_of_cached_calls_is_explained_if_shown():
    spent = Ledger()
    spent.count("rewrite", "gpt-4o", known=2, cost=0.0, worth=0.25)
    assert any("Worth: " in note for note in ledger({"QR": spent}).notes)
    unknown = Ledger()
    unknown.count("rewrite", "recorded", known=2, cost=0.0, worth=None)
    notes = " ".join(ledger({"QR": unknown}).notes)
    assert "Worth" not in notes
    assert "answered is unknown" in notes


def test_an_unknown_worth_is_told_and_no_worth_is_not():
    for worth, told in [(0.0, ""), (None, "unknown"), (0.5, "known 0.5000")]:
        spent = Ledger()
        spent.count("rewrite", "m", calls=1, known=1, cost=0.25, worth=worth)
        text = " ".join(ledger({"a": spent}).text().split())
        assert ("Together: paid 0.2500" in text) is bool(told)
        assert told in text


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


def test_the_sum_with_an_unknown_cost_is_unknown():
    priced = Ledger()
    priced.count("answer", "m", calls=1, known=1, cost=0.5, worth=0.25)
    unpriced = Ledger()
    unpriced.count("answer", "m", calls=1, cost=None, worth=0.0)
    notes = " ".join(ledger({"a": priced, "b": unpriced}).notes)
    assert "Together: paid unknown, known 0.2500." in notes


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


@pytest.mark.filterwarnings("ignore")
def test_refused_calls_are_counted_by_conversation(tmp_path):
    class Shy(ByPrompt):
        """Refuses what the second conversation asks, and is silent in a turn of the third."""

        def complete(self, requests):
            said = {"2-1": "I'm sorry, but I can't help with that.", "3-1": ""}
            replies = []
            for request, reply in zip(requests, super().complete(requests), strict=True):
                chat = request.qid.partition("_")[0]
                replies.append(dataclasses.replace(reply, text=said.get(chat, reply.text)))
            return replies

    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)
    )
    systems = {
        "qr": ikat.Rewrite(Shy(rewrite="tea walk").llm, on_error="fallback") >> index.bm25(),
        "raw": ikat.RawUtterance() >> index.bm25(),
    }
    made = ikat.run(
        systems,
        "ikat:sample",
        out=tmp_path / "runs",
        turns=["1-1_1", "2-1_1", "2-1_2", "2-1_3", "3-1_1"],
    )
    assert refusals(tmp_path / "runs" / "qr").values.tolist() == [["2-1", 3, 3]]
    assert refusals(tmp_path / "runs" / "raw").empty
    assert (
        "Refused calls of qr by conversation: 2-1 3 of 3."
        in ledger(list(made.folders.values())).notes
    )


def test_refused_calls_of_ids_without_underscore_differ(tmp_path):
    turns = pd.DataFrame({"qid": ["q1", "q2", "a_b<::>3"], "query": ["tea", "mint", "oats"]})
    refuses = ByPrompt(rewrite="I'm sorry, but I can't help with that.").llm
    found = pt.apply.generic(lambda rows: rows.assign(docno="d", score=1.0, rank=0))
    system = ikat.Rewrite(refuses, on_error="fallback") >> found
    judged = pd.DataFrame({"qid": turns["qid"], "docno": "d", "label": 1})
    ikat.run({"qr": system}, topics=turns, qrels=judged, out=tmp_path)
    assert refusals(tmp_path / "qr").values.tolist() == [["a_b", 1, 1], ["q1", 1, 1], ["q2", 1, 1]]


def test_conversations_of_another_benchmark_have_their_own_ids(tmp_path):
    refused = [{"failure": "the model refused: no"}]
    lines = [{"qid": f"a_1<::>{number}", "stage": "a", "asked": refused} for number in (1, 2, 10)]
    folder = with_stages(tmp_path / "mine", *lines, {"qid": "b", "stage": "a", "asked": refused})
    assert refusals(folder).values.tolist() == [["a_1", 3, 3], ["b", 1, 1]]


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


def failing(folder=None, qid="9-1_1"):
    """An account of a failure; with a folder the run that it is of, and its stages."""
    spent = Ledger()
    spent.count("a", "m", calls=2, failures=1)
    if folder is None:
        return spent
    folder.mkdir()
    spent.frame().to_csv(folder / "ledger.csv", index=False)
    (folder / "run.json").write_text("{}")
    return folder


def refusing(folder, *qids):
    calls = [{"failure": "the model refused: no"}, {"completion": "Tea."}]
    lines = [{"qid": qid, "stage": "a", "asked": calls} for qid in qids]
    write_stages(folder, *lines)
    return folder


def test_refusals_are_told_behind_accounts_that_have_no_turns(tmp_path):
    ledgers = {
        "account": failing(),
        "bare": failing(tmp_path / "bare"),
        "first": refusing(failing(tmp_path / "first"), "9-1_1", "10-1_1", "9-1_2"),
        "again": failing(),
        "second": refusing(failing(tmp_path / "second"), "1-1_1"),
    }
    notes = [note for note in ledger(ledgers).notes if note.startswith("Refused")]
    assert notes == [
        "Refused calls of first by conversation: 9-1 2 of 4, 10-1 1 of 2.",
        "Refused calls of second by conversation: 1-1 1 of 2.",
    ]


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


def test_each_model_that_judges_and_answers_has_one_line():
    asked = {"a": ["gpt-4o-2024-08-06"], "b": ["openai:gpt-4o"], "c": ["gpt-4"], "d": []}
    lines = circular(["gpt-4o", "openai:gpt-4o t=1", "gpt-4", "claude-3-opus"], asked)
    assert [line.partition(": scores")[0] for line in lines] == [
        "circular: gpt-4o is a judge or user here, and a, b asked it, too",
        "circular: gpt-4 is a judge or user here, and c asked it, too",
    ]


def test_a_judge_is_circular_under_any_name_of_its_model():
    asked = {"ad": ["gpt-4o-2024-08-06"], "rtg": ["gpt-4o-mini"], "raw": []}
    [line] = circular(["openai:gpt-4o", "recorded:sample"], asked)
    assert line.startswith("circular: gpt-4o is a judge or user here, and ad asked it, too")
