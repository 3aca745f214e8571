"""Second values and rare branches of what is shown: the second log, turn, model and folder."""

import json
import re
import warnings

import matplotlib
import pandas as pd
import pytest
from ir_measures import AP, RR, P
from parsed_page import Page
from small_runs import DOCNOS, ranking, write_stages

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Dialogue, Log, Turn
from pyterrier_ikat.show.ledgers import ledger, ledger_frame
from pyterrier_ikat.show.plots import axes_for, plot_breakdown, save_plot
from pyterrier_ikat.show.report import Report, _describe_run, reasons, turns
from pyterrier_ikat.show.report.content import Call
from pyterrier_ikat.show.report.material import Material, RunData, find_material, read_runs
from pyterrier_ikat.show.report.rankings import cut_words, passages_by_turn
from pyterrier_ikat.show.report.reasons import missed_by_turn, reasons_by_turn
from pyterrier_ikat.show.report.sessions import (
    NoConversationWarning,
    _describe,
    _groups,
    _Shown,
    refuse_arguments,
    report_sessions,
)
from pyterrier_ikat.show.report.turns import build_conversations, fit_calls

matplotlib.use("Agg")


@pytest.fixture
def log(tmp_path):
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


def content_of(monkeypatch, logs, baseline=None):
    monkeypatch.setattr(Report, "of", classmethod(lambda cls, content: content))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = report_sessions(logs, baseline, None, 1)
    skipped = []
    for warning in caught:
        if warning.category is NoConversationWarning:
            skipped.append(str(warning.message))
    return content, skipped


@pytest.mark.parametrize(
    ("kinds", "faster"),
    [
        (("served", "served"), True),
        (("simulated", "served"), False),
        (("served", "simulated"), False),
        (("served", "interactive"), True),
    ],
)
def test_one_simulation_among_logs_leaves_speed_open(log, monkeypatch, kinds, faster):
    logs = {}
    for name, kind in zip("ab", kinds, strict=True):
        logs[name] = log(name, "ann", kind=kind)
    content, _ = content_of(monkeypatch, logs)
    assert any(note.startswith("Seconds depend") for note in content.notes) is not faster
    seconds = [measure.better for measure in content.columns if measure.name == "seconds"]
    assert seconds == [-1 if faster else 0]


def test_every_log_without_a_conversation_is_named(log, monkeypatch):
    logs = {"none": log("none"), "one": log("one", "ann", "ben"), "nil": log("nil")}
    content, warned = content_of(monkeypatch, logs)
    assert (content.names, list(content.made)) == (["one"], ["one"])
    skipped = ["none has no conversation yet", "nil has no conversation yet"]
    assert [sentence.partition(" and is")[0] for sentence in warned] == skipped
    notes = [note.partition(" and is")[0] for note in content.notes if "is not shown" in note]
    assert notes == skipped
    assert content.facts == "2 sessions of 2 users."
    empty = {"none": logs["none"], "nil": logs["nil"]}
    with pytest.raises(DataError, match="^none has no conversation yet .*none"):
        content_of(monkeypatch, empty)
    with pytest.raises(DataError, match="^nil has no conversation yet .*nil"):
        content_of(monkeypatch, logs, "nil")


def test_an_account_has_all_conversations_and_their_players(log):
    players = {"calls": 2, "known": 0, "prompt_tokens": 8, "completion_tokens": 4, "cost": 0.5}
    made = log("sims", "ann", "ben", "eve", players=players)
    frame = ledger_frame([made.folder, log("idle").folder])
    columns = ["system", "stage", "model", "calls", "prompt_tokens", "cost"]
    assert frame[columns].values.tolist() == [
        ["sims", "all", "all", 3, 30, 0.75],
        ["sims", "user and judge", "all", 6, 24, 1.5],
        ["idle", "none", "none", 0, 0, 0.0],
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


def with_stages(folder, *qids):
    calls = [{"failure": "the model refused: no"}, {"completion": "Tea."}]
    lines = [{"qid": qid, "stage": "a", "asked": calls} for qid in qids]
    write_stages(folder, *lines)
    return folder


def test_refusals_are_told_behind_accounts_that_have_no_turns(tmp_path):
    ledgers = {
        "account": failing(),
        "bare": failing(tmp_path / "bare"),
        "first": with_stages(failing(tmp_path / "first"), "9-1_1", "10-1_1", "9-1_2"),
        "again": failing(),
        "second": with_stages(failing(tmp_path / "second"), "1-1_1"),
    }
    notes = [note for note in ledger(ledgers).notes if note.startswith("Refused")]
    assert notes == [
        "Refused calls of first by conversation: 9-1 2 of 4, 10-1 1 of 2.",
        "Refused calls of second by conversation: 1-1 1 of 2.",
    ]


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


def test_each_turn_of_a_frame_has_its_own_values():
    results = ranking([("1_2", "c", 2.0), ("1_1", "a", 2.0), ("1_1", "b", 1.0)])
    frame = results.assign(
        query=["walk", "tea", "tea"],
        qrewrite=["Which walk?", "Which tea?", "Which tea?"],
        qstatements=column([[("3", 0.5)], [("1", 1.0)], [("1", 1.0)]]),
        qanswer=["Far.", None, None],
        used=[False, False, True],
    )
    (run,) = read_runs({"mine": frame})
    assert run.turns == {
        "1_2": {
            "qrewrite": "Which walk?",
            "qstatements": [("3", 0.5)],
            "qanswer": "Far.",
            "response": "Far.",
            "searched": ["walk"],
            "used": [],
        },
        "1_1": {
            "qrewrite": "Which tea?",
            "qstatements": [("1", 1.0)],
            "response": "",
            "searched": ["tea"],
            "used": ["b"],
        },
    }


def turn_of(qid, text, statement, docnos):
    provenance = []
    for rank, docno in enumerate(docnos):
        provenance.append({"id": docno, "text": "x", "score": 2.0 - rank, "used": rank == 0})
    persona = [{"id": statement, "text": "x", "score": 1.0}]
    response = {"rank": 1, "text": text, "ptkb_provenance": persona}
    return {"turn_id": qid, "responses": [{**response, "passage_provenance": provenance}]}


def test_a_submission_is_read_with_the_dataset_it_is_of(tmp_path, sample):
    turns = [
        turn_of("1-1_1", "Take the heath.", "2", DOCNOS[:2]),
        turn_of("1-1_2", "In August.", "6", DOCNOS[2:3]),
    ]
    path = tmp_path / "mine.json"
    submission = {"run_name": "theirs", "run_type": "automatic", "turns": turns}
    path.write_text(json.dumps(submission), encoding="utf-8")
    (run,) = read_runs(path)
    assert run.turns == {
        "1-1_1": {"response": "Take the heath.", "qstatements": [("2", 1.0)], "used": [DOCNOS[0]]},
        "1-1_2": {"response": "In August.", "qstatements": [("6", 1.0)], "used": [DOCNOS[2]]},
    }
    turns[1]["turn_id"] = "77-1_1"
    path.write_text(json.dumps(submission), encoding="utf-8")
    assert list(read_runs(path)[0].turns) == ["1-1_1", "77-1_1"]
    with pytest.raises(DataError, match="77-1_1"):
        read_runs(path, sample)
    with pytest.raises(DataError, match="77-1_1"):
        ikat.show.report(path, sample)


def test_missed_passages_are_those_of_each_turn():
    qrels = pd.DataFrame(
        {"qid": ["1_2", "1_1", "1_1"], "docno": ["a", "a", "b"], "label": [1, 2, -1]}
    )
    run = RunData("one", ranking([("1_1", "b", 2.0), ("1_1", "a", 1.0), ("1_2", "a", 1.0)]))
    assert missed_by_turn([run], qrels, {}) == {
        "1_2": ["a (label 1): one at rank 1"],
        "1_1": ["a (label 2): one at rank 2"],
    }
    assert list(missed_by_turn([run], qrels, {"1_2": {"a"}})) == ["1_1"]
    assert list(missed_by_turn([run], qrels, {"1_1": {"a"}, "1_2": {"b"}})) == ["1_2"]


def test_calls_of_all_turns_have_to_fit(monkeypatch):
    monkeypatch.setattr(turns, "MESSAGE_LENGTHS", (None, 2))
    calls = {}
    for number, word in enumerate(("rooibos", "verbena"), 1):
        message = {"role": "user", "content": word}
        calls[f"1_{number}"] = [Call("p", "s", [message, message], word.upper())]
    run = RunData("a", None, calls=calls)
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 28)
    assert fit_calls([run]) == ([run], [])
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 27)
    [cut], notes = fit_calls([run])
    assert [call.completion for [call] in cut.calls.values()] == ["RO […]", "VE […]"]
    texts = [message["content"] for message in cut.calls["1_2"][0].messages]
    assert (texts, len(notes)) == (["ve […]"] * 2, 1)


def test_a_run_is_described_by_all_that_is_said_of_it():
    parameters = {"expression": "a >> b", "notes": ["n1", "n2"], "deviations": ["d1", "d2"]}
    run = RunData("a", None, parameters=parameters)
    assert _describe_run(run) == ["a >> b", "No LLM calls.", "d1", "d2", "n1", "n2"]
    plain = RunData("a", None, parameters={"expression": "a"})
    assert _describe_run(plain) == ["a", "No LLM calls."]


def test_every_second_conversation_has_a_strip():
    from matplotlib import pyplot

    table = pd.DataFrame({"conversation": list("abcde"), "one": 0.5, "turns": 5})
    axes = plot_breakdown(table)
    strips = [(strip.get_x(), strip.get_width()) for strip in axes.patches]
    assert strips == [(0.5, 1.0), (2.5, 1.0)]
    pyplot.close("all")


def test_a_plot_for_a_paper_has_no_date(tmp_path):
    from matplotlib import pyplot

    axes = axes_for(width=3)
    assert b"/CreationDate" not in save_plot(axes, tmp_path / "a.pdf").read_bytes()
    assert b"dc:date" not in save_plot(axes, tmp_path / "a.svg").read_bytes()
    pyplot.close("all")


def test_no_part_of_a_description_but_its_settings_is_shown():
    header = {"expression": "a >> b", "system": "mine", "turns": 3}
    for name in ("stages", "parts", "prompts", "players_prompts", "memory_prompts", "users_sha256"):
        header[name] = {"x": 1}
    described = _describe({**header, "seed": 0, "judge": ""})
    assert described == ["a >> b", "turns: 3", "seed: 0", "judge: "]


def notes_of(**wrote):
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": wrote})
    [group] = build_conversations([run], Material("", {}, None, None, ()), {}, {})
    return {note.label: list(note.texts) for note in group.units[0].sides[0].steps[0].notes}


def test_a_query_of_several_sources_is_called_by_the_first():
    same = {"searched": [" tea\n", "tea"], "qutterance": " tea", "qresolved": "tea "}
    assert notes_of(**same, qrewrite=" tea ") == {"Final query: the rewrite": ["tea"]}
    assert notes_of(**same) == {"Final query: the utterance": ["tea"]}
    assert notes_of(**{**same, "qutterance": "it"}) == {"Final query: the manual rewrite": ["tea"]}
    both = notes_of(**same, qrewrite="mint", qsubqueries=[" mint", "ale "])
    assert both == {
        "Rewrite": ["mint"],
        "Final query: the utterance": ["tea"],
        "2 sub-queries": [" mint", "ale "],
    }


def test_repairs_are_said_as_their_reader_types_them(log, tmp_path):
    run = RunData("one", ranking([("1_1", "a", 1.0)]))
    made = log("sims", "ann")
    twice = [made.folder, str(made.folder)]

    def repairs():
        with pytest.raises(UsageError) as qrels:
            find_material([run], None, tmp_path / "none", None)
        with pytest.raises(UsageError) as names:
            ledger_frame(twice)
        with pytest.raises(UsageError) as unit:
            refuse_arguments({"one": made}, dataset=None, unit="user", turns=["1_1"])
        no_texts = find_material([run], None, None, None).notes[1]
        return (
            str(qrels.value).rpartition(" ")[2],
            str(names.value).partition(": ")[2],
            str(unit.value).partition(" ")[0],
            no_texts.partition(": ")[2].partition(",")[0],
        )

    python = ("frame", "give each its name, {name: folder, ...}", "unit=...", "give texts=")
    assert repairs() == python
    with commands_advised():
        assert repairs() == ("file", "rename a folder", "--unit", "give --index PATH")


def test_a_dataset_that_nobody_knows_is_told_by_a_note():
    results = ranking([("1_1", "a", 1.0)])
    run = RunData("one", results, parameters={"dataset": "ikat:1999"})
    found = find_material([run], None, None, object())
    assert (found.name, found.turns, len(found.notes)) == ("", {}, 1)
    assert found.notes[0].startswith("ikat:1999 can't be read, so only what the run folders keep")


@pytest.mark.parametrize("error", [DataError, UsageError])
def test_what_a_collection_lacks_is_left_out(sample, monkeypatch, error):
    plain = sample.get_topics().head(2)
    answers = sample.get_answers()

    def topics(self, variant=None):
        if variant == "manual":
            raise error("no rewrites")
        return plain

    def lacks(self):
        raise error("no conversations")

    monkeypatch.setattr(type(sample), "get_topics", topics)
    monkeypatch.setattr(type(sample), "get_answers", lambda self: answers)
    monkeypatch.setattr(type(sample), "conversations", property(lacks))
    found = find_material([RunData("one", ranking([]))], sample, None, object())
    assert list(found.turns) == plain["qid"].tolist()
    assert found.turns[plain["qid"][1]]["qutterance"] == plain["qutterance"][1]
    assert (found.titles, found.notes) == ({}, ())


def test_a_page_in_a_notebook_is_named_as_it_is():
    page = Report('<p class="x">tea & "milk"</p>', 'a"b <i>')
    [(tag, attributes)] = Page(page._repr_html_()).elements
    assert (tag, attributes["title"], attributes["srcdoc"]) == ("iframe", page.name, page.html)
    large = Report("\u00e4" * 1_000_000, "x")
    assert repr(large) == "<report of x, 2.0 MB: .save(path) writes it>"


@pytest.mark.parametrize(
    ("words", "limit", "beginning", "rest"),
    [(25, 10, 25, ""), (30, 10, 30, ""), (31, 10, 30, " \u2026"), (32, 31, 30, "w30 \u2026")],
)
def test_the_words_that_are_always_shown_are_no_cut(words, limit, beginning, rest):
    every = [f"w{number}" for number in range(words)]
    assert cut_words(" ".join(every), limit) == (" ".join(every[:beginning]), rest)


@pytest.mark.parametrize(("most", "explained"), [(6, 3), (5, 2), (4, 2), (3, 1), (1, 1)])
def test_as_many_measures_are_explained_as_a_page_has_room(monkeypatch, most, explained):
    monkeypatch.setattr(reasons, "MOST_TEXTS", most)
    found = ranking([(qid, "b", 1.0) for qid in ("1_1", "1_2")])
    runs = [RunData(name, found) for name in "ab"]
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "b", "label": 1})
    scores = {qid: [[1.0] * 3] * 2 for qid in ("1_1", "1_2")}
    texts = reasons_by_turn(runs, qrels, scores, [P @ 1, RR, AP])
    names = ["P(rel=1)@1", "RR(rel=1)", "AP(rel=1)"][:explained]
    alike = [f"No difference in {name}: both rank the relevant passages alike." for name in names]
    assert texts == {qid: [[], alike] for qid in ("1_1", "1_2")}


@pytest.mark.parametrize(
    ("qid", "place"),
    [("9-1_\u00b2", ("9-1_\u00b2", 1)), ("9-1_\uff13", ("9-1", 3)), ("a_b_07", ("a_b", 7))],
)
def test_a_number_of_a_turn_is_one_that_can_be_read(qid, place):
    run = RunData("one", ranking([(qid, "a", 1.0)]))
    [group] = build_conversations([run], Material("", {}, None, None, ()), {}, {})
    assert (group.name, group.units[0].depth) == place


def test_texts_are_those_of_every_run():
    found = ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)])
    runs = [
        RunData("bare", found),
        RunData("one", found[:1].assign(text="Tea.")),
        RunData("two", found[1:].assign(text="Mint.", rank=0)),
    ]
    listed, limit, texts = passages_by_turn(runs, None, None, 2)
    assert (limit, texts) == (120, {"a": "Tea.", "b": "Mint."})
    bare, one, two = listed["1_1"]
    assert [passage.beginning for passage in bare] == ["Tea.", "Mint."]
    assert [passage.beginning for passage in one] == ["Tea."]
    assert [passage.beginning for passage in two] == ["Mint."]


def test_each_side_is_of_its_own_system():
    read = Turn(1, "?", "!", session="s", more={"read": "passages"})
    dialogue = Dialogue("s", "ann", {}, [read])
    headers = [{"kind": "simulated", "passages": 3}, {"kind": "interactive", "passages": 5}, {}]
    aligned = {"s": [dialogue, dialogue, dialogue]}
    [group] = _groups(aligned, headers, {"s": [[], [], []]}, [], _Shown([read], {}, 1))
    remarks = [side.steps[0].remarks for side in group.units[0].sides]
    assert remarks == [
        ["the user read the best 3 passages"],
        ["the user read the best 5 passages", "not sent"],
        ["the user read the best passages"],
    ]
