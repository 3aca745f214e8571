"""The page of conversations with simulated users: sessions of several systems side by side."""

import re

import pandas as pd
import pyterrier as pt
import pytest
import small_dialogues
from in_browser import DESK, PHONE, open_all_boxes, violations
from parsed_page import ATTACKS
from playwright.sync_api import expect
from seen import choose, drawn, open_turns, turns
from small_dialogues import RUBRICS, SYSTEMS, turn, write_log, write_logs
from small_runs import ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.sessions import SESSION_MEASURES
from pyterrier_ikat.live.simulation import Simulated
from pyterrier_ikat.llms.ledger import Ledger, Spend
from pyterrier_ikat.runs import Log, RunFolder, ShownPassage, Turn
from pyterrier_ikat.show import report


@pytest.fixture
def parsed(page, log_folders, tmp_path):
    """The report of both systems, with all sessions drawn."""
    return drawn(page, report(log_folders), tmp_path)


def column_of(html, title):
    """The cells of a column of the table of means, and of its differences: (text, class)."""
    table = re.search(r'<table class="means">.*?</table>', html, re.S)[0]
    titles = re.findall(r"<th scope=\"col\"[^>]*>(?:<button[^>]*>)?([^<]*)", table)
    columns = [titles.index(title)]
    if titles[columns[0] + 1 : columns[0] + 2] == ["difference"]:
        columns.append(columns[0] + 1)
    rows = []
    for row in re.findall(r"<tr>(<th scope=\"row\">.*?)</tr>", table, re.S):
        cells = re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, re.S)
        of_row = []
        for at in columns:
            kind, inside = cells[at]
            of_row.append((re.sub("<[^>]*>", "", inside), kind))
        rows.append(of_row)
    return rows


@pytest.mark.parametrize("same", [True, False])
def test_means_are_marked_where_simulation_finds_significance(tmp_path, monkeypatch, same):
    met = {
        "low": ["r1", "", "", "r1", ""],
        "high": ["r1 r2", "r1", "r1 r2", "r1 r2", "r1 r2"],
        "other": ["r1", "", "r1", "", ""],
    }
    for user in range(5):
        monkeypatch.setitem(RUBRICS, f"u{user}", 2)
    made = {}
    for name, ids_by_user in met.items():
        made[name] = {}
        for user, ids in enumerate(ids_by_user):
            made[name][f"u{user}"] = ([ids], "turn limit")
    if not same:
        del made["other"]["u4"]  # so that it is tested against no other system
    monkeypatch.setattr(
        small_dialogues, "turn", lambda _, *rest, **given: turn("one", *rest, **given)
    )
    folders = write_logs(tmp_path, made)
    html = report(folders, baseline="low").html
    rows = column_of(html, "rubrics met")
    assert [of_system[1][0] for of_system in rows[:2]] == ["", "+.7000"]
    assert [("win" in kind) for _, (_, kind) in rows] == [False, same, False]
    assert [of_system[0][0][0] == "↑" for of_system in rows] == [False, same, False]
    # an interval needs the same sessions
    heads = r"rubrics met</button></th>\s*<th[^>]*>difference</th>\s*<th[^>]*>95 %"
    intervals = re.search(heads, html)
    assert (intervals is not None) == same
    if same:
        logs = {name: Log(tmp_path / name) for name in made}
        done = Simulated(logs, Ledger(), "user", "judge", "low")
        assert done.table["rubrics met reject"].tolist() == [False, True, False]


def test_the_baseline_of_a_simulation_is_that_of_its_report(tmp_path):
    def baseline(**given):
        return re.search(r"Compared with (\w+) ", report(folders, **given).html)[1]

    folders = write_logs(tmp_path)
    assert baseline() == "one"
    for folder in folders:
        Log(folder).compare("two()")
    assert baseline() == "two"
    assert baseline(baseline="one") == "one"
    Log(folders[0]).compare("one()")  # the folders are of two simulations
    assert baseline() == "one"
    Log(folders[1]).compare("else")
    Log(folders[0]).compare("else")
    assert baseline() == "one"  # else is not in the report


def test_a_session_reads_from_rubrics_to_sources(parsed):
    said = parsed.said()
    in_order = [
        "one, two 4 sessions of 4 users. The first 120 words of each passage are shown.",
        "Turns until satisfied are over the satisfied users only",
        "Missing for two: 1 session (u4). Its means are over fewer users.",
        "How the systems were made one one() kind: simulated user_llm: fake:user two two()",
        "User person of u1",
        "Session 1 u1 one 1.0000 two .5000 −.5000",
        "rubric one two r1: Which tea? turn 1 turn 2 r2: How hot? turn 2 not met",
        (
            "one baseline satisfied 2 of 2 rubrics met, 2 turns, 2.0 s per turn, 6 LLM calls, "
            "0.5000 USD"
        ),
        (
            "Turn 1 2.0 s, 3 LLM calls, 0.2500 USD Question 1 of u1? Rewrite rewrite by one 2 "
            "queries tea mint tea"
        ),
        "Answer 1 of one [1]. meets r1",
        "1 source, 2 passages cited 1 doc-one score 1.5 filler filler",
        "secret-u1-one",
        "two out of patience 1 of 2 rubrics met, 2 turns, 1.0 s per turn, 2 LLM calls, "
        "cost unknown",
        "Turn 1 1.0 s, 1 LLM call, cost unknown",
        (
            "Rewrite rewrite by two 2 queries tea mint tea 1 statement I like mint. Draft answer "
            "draft by two Answer 1 of two"
        ),
        "User person of u4",
        "r1: Which tea? not met no session",
        "no conversation with this user",
    ]
    places = [said.find(text) for text in in_order]
    assert -1 not in places, in_order[places.index(-1)]
    assert places == sorted(places)


def test_the_overview_has_the_means_of_the_sessions(log_folders):
    # one: (1 + 1 + 1/4 + 0) / 4 rubrics, 2 of 4 satisfied after (2 + 1) / 2 turns; 2 + 1 + 2 + 1
    # turns; two: (1/2 + 1 + 1) / 3
    html = report(log_folders).html
    for title, expected in {
        "sessions": ["4", "3"],
        "satisfied": [".5000", "", ".6667", "+.1667"],
        "rubrics met": [".5625", "", ".8333", "+.2708"],
        "turns until satisfied": ["1.50", "", "1.50", "0.00"],
        "turns": ["1.50", "1.67"],
        "seconds": ["2.00", "1.00"],  # in a simulation, nobody is faster
        "calls": ["4.50", "", "1.67", "−2.83"],
        "cost": ["0.3750", "", "–", ""],
    }.items():
        cells = []
        for of_system in column_of(html, title):
            cells += [text for text, _ in of_system]
        assert cells == expected, title
    measures = {}
    for name, path in zip(SYSTEMS, log_folders, strict=True):
        measures[name] = ikat.evaluation.session_measures(Log(path).dialogues())
    means = ikat.evaluation.session_means(measures)
    assert means["rubrics met"].round(4).tolist() == [0.5625, 0.8333]


def test_the_overview_has_the_numbers_that_a_simulation_prints(tmp_path):
    systems = {}
    for name, users in SYSTEMS.items():
        systems[name] = {user: met for user, met in users.items() if user != "u4"}
    html = report(write_logs(tmp_path, systems)).html
    logs = {name: Log(tmp_path / name) for name in systems}
    printed = Simulated(logs, Ledger(), "user", "judge").shown()
    assert [column.title for column in printed.columns][2:] == ["satisfied", *SESSION_MEASURES]
    for column in printed.columns[2:]:
        means = [of_system[0][0] for of_system in column_of(html, column.title)]
        assert means == [cell.text for cell in column.cells]


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_of_any_field_is_text(page, tmp_path, attack):
    log = Log.create(tmp_path / "log", {"kind": attack, "system": attack, attack: attack})
    log.begin(f"s{attack}", f"u{attack}", {f"r{attack}": attack})
    source = ShownPassage(f"d{attack}", f"{attack} " * 40, 1.0)
    wrote = {
        "rewrite": attack,
        "queries": (attack,),
        "statements": (attack,),
        "draft": attack,
        "met": (f"r{attack}",),
    }
    log.append(
        Turn(
            1,
            attack,
            attack,
            (source,),
            citations={f"e{attack}": 0.5},
            session=f"s{attack}",
            **wrote,
        )
    )
    log.end(f"s{attack}", attack)
    parsed = drawn(page, report({attack: log, f"other {attack}": log}), tmp_path)
    assert parsed.problems == []
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("script") == 3
    assert tags.count("img") == 0
    assert parsed.elements.count(("b", {"id": "evil"})) == 0
    assert parsed.handlers() == []
    assert parsed.said().count(attack) > 30


def test_an_interactive_run_shows_what_the_track_knows(page, tmp_path):
    log = Log.create(tmp_path / "run", {"kind": "interactive", "system": "rtg"})
    log.begin("1-1_0", "anna")
    given = {"session": "1-1_0", "spend": Spend(2, cost=None)}
    log.append(
        Turn(
            1,
            "Which tea?",
            "Rooibos.",
            citations={f"d{n}": 9.0 - n for n in range(1000)},
            cut=31,
            **given,
        )
    )
    log.note({"event": "sent", "session": "1-1_0", "turn": 1, "seconds": None})
    log.append(Turn(2, "And coffee?", "", **given))
    made = report(log)
    for title, mean in {
        "sessions": "1",
        "turns": "2.00",
        "seconds": "0.00",
        "calls": "4.00",
    }.items():
        assert column_of(made.html, title)[0][0][0] == mean
    parsed = drawn(page, made, tmp_path)
    said = parsed.said()
    assert (
        "not ended 2 turns, 0.0 s per turn, 4 LLM calls Turn 1 0.0 s, 2 LLM calls Which tea? "
        "Rooibos. 31 tokens cut off before it was sent" in said
    )
    assert "20 of 1,000 cited passages 1 d0 score 9" in said
    assert "no response not sent" in said
    assert "Not ended, and measured up to the last turn: 1 session of run (1-1_0)." in said
    for absent in ("rubric", "satisfied", "USD", "cost", "Baseline", "words of"):
        assert absent not in said
    assert not {"baseline", "run", "order", "shown", "outcome"} & {
        attrs.get("name") for _, attrs in parsed.elements
    }


def test_passages_in_place_of_a_response_are_called_so(page, tmp_path):
    shown = {"response": "", "more": {"read": "passages"}, "spend": Spend(known=2)}
    path = write_log(
        tmp_path / "one",
        "one",
        {"u2": (["r1"], "satisfied")},
        header={"passages": 3},
        citations={},
        **shown,
    )
    said = drawn(page, report(path), tmp_path).said()
    assert "no response meets r1 the user read the best 3 passages 1 best passage" in said
    assert (
        "2 completions of the systems came from a recording or the cache. They took no time here."
        in said
    )


def test_texts_that_the_log_lacks_come_from_an_index(page, tmp_path):
    path = write_log(tmp_path / "one", "one", {"u2": (["r1"], "satisfied")}, sources=())
    loader = pt.apply.text(lambda row: f"text of {row['docno']}")
    said = drawn(page, report(path, texts=loader), tmp_path).said()
    assert (
        "2 cited passages 1 doc-else score 0.5 text of doc-else 2 doc-one score 1.5 text of doc-one"
        in said
    )


def test_conversations_and_runs_of_topics_need_a_report_each(log_folders):
    run = ranking([("1_1", "a", 1.0)])
    with pytest.raises(UsageError, match="one holds a simulation, mine does not: make two reports"):
        report({"one": log_folders[0], "mine": run})
    with pytest.raises(
        UsageError, match="qrels=... is for runs of topics, and one holds a simulation: omit it"
    ):
        report(log_folders, qrels=pd.DataFrame())
    with pytest.raises(UsageError, match="measures=... is for runs of topics"):
        report(log_folders, measures=["RR"])


def test_a_log_is_no_run_of_topics(tmp_path):
    log = Log.create(tmp_path / "mine", {"kind": "served", "system": "mine"})
    with pytest.raises(
        UsageError, match="mine holds served conversations, other does not: make two reports"
    ):
        report({"mine": log, "other": ranking([("1_1", "a", 1.0)])})
    with pytest.raises(
        DataError,
        match=(
            "holds served conversations, not the run of a dataset's topics: ikat.show.report "
            "shows it"
        ),
    ):
        RunFolder(log.folder).results()
    with pytest.raises(DataError, match="mine has no conversation yet"):
        report(log)


def test_other_users_or_rubrics_can_not_be_compared(tmp_path, log_folders):
    for what, user, rubrics in (
        ("users", "somebody", {"r1": "Which tea?"}),
        ("rubrics", "person of u2", {"r1": "Which coffee?"}),
    ):
        log = Log.create(tmp_path / what, {"kind": "simulated"})
        log.begin("u2", user, rubrics)
        message = (
            f"session u2 has different {what} in one and {what}: compare systems on the same users"
        )
        with pytest.raises(DataError, match=message):
            report([log_folders[0], log])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return report(write_logs(folder)).save(folder / "report.html").as_uri()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [  # rubrics met: one 1, 1, 1/4, 0; two 1/2, 1, 1, none
        ({"outcome": "loss"}, ["u1"]),
        ({"order": "gain"}, ["u3", "u2", "u1", "u4"]),
        ({"measure": "2", "outcome": "win"}, ["u1", "u2", "u3"]),  # two makes fewer calls
        ({"search": "secret-u3-two"}, ["u3"]),  # a source that nobody opened
    ],
)
def test_sessions_are_filtered_sorted_and_searched(page, url, fields, expected):
    page.goto(url)
    choose(page, **fields)
    expect(turns(page)).to_have_text(expected)
    expect(page.locator("#count")).to_have_text(f"{len(expected)} of 4")


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_keeps_people_from_using_the_page(new_page, url, view):
    page = new_page(**view)
    page.goto(url)
    open_turns(page)
    open_all_boxes(page)
    assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]
    assert page.locator(".turn").evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )
    assert violations(page) == []
