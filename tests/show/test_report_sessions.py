"""The report of conversations without a browser: steps, columns, values, notes."""

import math
import warnings

import pandas as pd
import pyterrier as pt
import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import session_measures
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Dialogue, Log, RunFolder, ShownPassage, Turn
from pyterrier_ikat.show.report import Report, sessions
from pyterrier_ikat.show.report.content import ListedPassage, Note
from pyterrier_ikat.show.report.sessions import (
    NoConversationWarning,
    align,
    find_logs,
    load_missing,
    logged_baseline,
    passages_of,
    refuse_arguments,
    report_sessions,
)

LONG = "word " * 40
FOUND = (ShownPassage("a", "Tea.", 2.0), ShownPassage("b", "", 1.0), ShownPassage("c", LONG, 0.5))


def turn(number=1, response="Rooibos.", **fields):
    given = {"seconds": 2.0, "spend": Spend(1, cost=0.25), "session": "s1"}
    return Turn(number, " Tea? ", response, **{**given, **fields})


def dialogue(*turns, session="s1", user="ann", **fields):
    return Dialogue(session, user, fields.pop("rubrics", {}), list(turns), **fields)


def side(*turns, header=None, texts=None, passages=2, **fields):
    shown = sessions._Shown(turns, texts or {}, passages)
    return sessions._side(dialogue(*turns, **fields), shown, header or {})


def test_a_step_shows_what_a_turn_has():
    full = turn(
        sources=FOUND,
        citations={"a": 2.0, "b": 1.0, "c": 0.5, "d": 0.1},
        rewrite=" Which tea? ",
        queries=("tea", "mint"),
        statements=("I like red.",),
        draft=" A draft. ",
        met=("r1", "r1", "r2"),
        cut=1,
        more={"read": "passages"},
    )
    first = turn(0, met=("r2",))
    found = side(
        first,
        full,
        rubrics={"r1": "?", "r2": "?", "r3": "?"},
        header={"kind": "interactive", "passages": 5},
        texts={"b": "Mint."},
        sent={0: None},
        end="satisfied",
    )
    assert found.facts == "2 of 3 rubrics met, 2 turns, 2.0 s per turn, 2 LLM calls, 0.5000 USD"
    assert found.end == "satisfied"
    step = found.steps[1]
    assert (step.title, step.facts) == ("Turn 1", "2.0 s, 1 LLM call, 0.2500 USD")
    assert (step.utterance, step.response) == ("Tea?", "Rooibos.")
    assert step.notes == [
        Note("Rewrite", ["Which tea?"]),
        Note("2 queries", ("tea", "mint"), folded=True),
        Note("1 statement", ("I like red.",), folded=True),
        Note("Draft answer", ["A draft."], "draft", folded=True),
    ]
    assert step.remarks == [
        "meets r1",
        "1 token cut off before it was sent",
        "the user read the best 5 passages",
        "not sent",
    ]
    assert step.passages == [
        ListedPassage(1, "a", 2.0, "Tea.", ""),
        ListedPassage(2, "b", 1.0, "Mint.", ""),
    ]
    assert step.found == "2 of 3 sources, 4 passages cited"
    assert found.steps[0].remarks == ["meets r2"]


def test_a_step_of_an_empty_turn_says_what_is_missing():
    empty = Turn(3, " ", " ", draft=" ", spend=Spend(2, known=1, cost=None))
    found = side(empty)
    assert found.facts == "1 turn, 0.0 s per turn, 3 LLM calls"
    assert found.end == "not ended"
    [step] = found.steps
    assert (step.utterance, step.response, step.remarks) == ("(no words)", "", ["no response"])
    assert (step.notes, step.passages, step.found) == ([], [], "0 best passages")
    cut = side(turn(response=" ", cut=2)).steps[0]
    assert cut.remarks == ["no response", "2 tokens cut off before it was sent"]
    assert side().facts == "0 turns, 0 LLM calls"
    priced = side(turn(), empty)
    assert priced.steps[1].facts == "0.0 s, 3 LLM calls, cost unknown"
    assert side(turn(draft="Rooibos.")).steps[0].notes == []
    read = side(turn(more={"read": "passages"}), header={"kind": "simulated"}).steps[0]
    assert read.remarks == ["the user read the best passages"]
    assert side(turn(more={"read": "texts"})).steps[0].remarks == []
    sent = side(turn(), header={"kind": "interactive"}, sent={1: 0.5}).steps[0]
    assert sent.remarks == []


def test_a_session_without_a_met_rubric_says_so():
    found = side(turn(), rubrics={"r1": "?", "r2": "?"})
    assert found.facts.startswith("0 of 2 rubrics met, 1 turn, ")


@pytest.mark.parametrize(
    ("spend", "facts"),
    [
        (Spend(1, cost=0.0), "2.0 s, 1 LLM call, 0.0000 USD"),
        (Spend(known=1, worth=0.5), "2.0 s, 1 LLM call, 0.5000 USD"),
        (Spend(known=1, worth=None), "2.0 s, 1 LLM call"),
    ],
    ids=["free", "from the cache", "of unknown worth"],
)
def test_a_step_has_the_price_of_its_completions(spend, facts):
    assert side(turn(spend=spend)).steps[0].facts == facts


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"sources": FOUND}, "2 of 3 sources"),
        ({"sources": FOUND[:2]}, "2 sources"),
        ({"sources": FOUND, "citations": {"a": 2.0, "b": 1.0, "c": 0.5}}, "2 of 3 sources"),
        ({"sources": FOUND[:1], "citations": {"a": 1.0}}, "1 source"),
        ({"sources": FOUND[:1], "citations": {"a": 1.0, "b": 1.0}}, "1 source, 2 passages cited"),
        ({"citations": {"a": 1.0, "b": 1.0, "c": 1.0}}, "2 of 3 cited passages"),
        ({"response": "", "citations": {"a": 1.0}}, "1 best passage"),
        ({"response": "", "sources": FOUND}, "2 of 3 best passages"),
    ],
)
def test_passages_of_a_turn_are_counted_by_their_kind(fields, found):
    assert side(turn(**fields)).steps[0].found == found


def test_texts_come_from_the_turn_or_else_from_a_loader():
    cited = turn(citations={"x": 0.5, "y": 0.25, "z": 0.1})
    assert passages_of(cited, {"x": "X"}) == [("x", 0.5, "X"), ("y", 0.25, ""), ("z", 0.1, "")]
    both = turn(sources=FOUND, citations={"x": 0.5})
    assert [docno for docno, _score, _text in passages_of(both, {"a": "no"})] == ["a", "b", "c"]
    assert passages_of(both, {"a": "no"})[0] == ("a", 2.0, "Tea.")
    asked = []

    def load(rows):
        asked.extend(rows["docno"])
        return rows.assign(text="loaded")

    loader = pt.apply.generic(load)
    assert load_missing([cited, both], loader, 2) == dict.fromkeys(["b", "x", "y"], "loaded")
    assert asked == ["b", "x", "y"]
    assert load_missing([both], loader, 1) == {}
    assert load_missing([cited], None, 2) == {}


def test_texts_that_are_loaded_count_as_shown():
    cited = turn(citations={"x": 0.5})
    shown = sessions._Shown([cited], {"x": "Tea."}, 1)
    assert shown.words == 120
    assert sessions._Shown([cited], {}, 1).words == 0
    assert sessions._Shown([turn(sources=FOUND)], {}, 2).words == 120


def test_sessions_are_aligned_in_the_order_of_the_systems():
    first = dialogue(session="s1", rubrics={"r": "?"})
    alone = dialogue(session="s2", user="ben")
    aligned = align({"one": [alone], "two": [first, alone], "three": [first]})
    assert aligned == {"s2": [alone, alone, None], "s1": [None, first, first]}
    reworded = dialogue(rubrics={"r": "!"})
    for other, what in (
        (dialogue(user="eve"), "users"),
        (dialogue(), "rubrics"),
        (reworded, "rubrics"),
    ):
        told = f"session s1 has different {what} in two and three: compare"
        with pytest.raises(DataError, match=told):
            align({"one": [alone], "two": [first], "three": [other]})


def measured(*ends, names=None, **spend):
    names = names or [f"s{number}" for number in range(len(ends))]
    given = {"calls": 1, "cost": 0.5, **spend}
    dialogues = []
    for name, end in zip(names, ends, strict=True):
        said = turn(spend=Spend(**given))
        dialogues.append(dialogue(said, session=name, end=end, rubrics={"r": "?"}))
    return session_measures(dialogues)


@pytest.mark.parametrize("faster", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_columns_say_what_is_better_and_tested(faster, same):
    systems = {"one": measured("satisfied", "turn limit"), "two": measured("satisfied")}
    if same:
        systems["two"] = systems["one"]
    columns = sessions._columns(systems, faster)
    found = {}
    for column in columns:
        found[column.name] = (column.digits, column.better, column.share, column.tested)
    assert found == {
        "sessions": (0, 0, False, False),
        "satisfied": (4, 1, True, same),
        "rubrics met": (4, 1, True, same),
        "turns until satisfied": (2, -1, False, False),
        "turns": (2, 0, False, False),
        "seconds": (2, -int(faster), False, False),
        "calls": (2, -1, False, same),
        "cost": (4, -1, False, same),
    }
    compared = sessions._compared_by_session(columns)
    names = ["rubrics met", "turns until satisfied", *["seconds"] * faster, "calls", "cost"]
    assert [column.name for column in compared.values()] == names
    assert [columns[position].name for position in compared] == names
    digits = {column.name: column.digits for column in compared.values()}
    assert (digits["calls"], digits["turns until satisfied"], digits["cost"]) == (0, 0, 4)


def test_means_and_values_have_the_share_of_satisfied_users():
    systems = {
        "one": measured("satisfied", "turn limit", names=["a", "b"]),
        "two": measured("", names=["b"], calls=3),
    }
    names = ("sessions", "satisfied", "calls")
    columns = [column for column in sessions._columns(systems, True) if column.name in names]
    assert sessions._means(systems, columns) == [[2.0, 0.5, 1.0], [1.0, 0.0, 3.0]]
    aligned = {"b": [], "a": []}
    values = sessions._values(aligned, systems, columns)
    assert list(values) == ["b", "a"]
    assert values["b"][0][1:] == [0.0, 1.0]
    assert values["b"][1][1:] == [0.0, 3.0]
    assert values["a"][0][1:] == [1.0, 1.0]
    assert all(math.isnan(value) for value in values["a"][1])


def test_sessions_stand_below_their_users():
    ann1 = dialogue(turn(met=("r",)), session="s1", rubrics={"r": "Tea?"})
    ann2 = dialogue(session="s3", rubrics={"r": "Tea?"})
    ben = dialogue(session="s2", user="ben")
    aligned = {"s1": [ann1, None], "s2": [None, ben], "s3": [ann2, ann2]}
    values = {name: [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] for name in aligned}
    shown = sessions._Shown([], {}, 2)
    of_ann, of_ben = sessions._groups(aligned, [{}, {}], values, [2, 0], shown)
    assert (of_ann.name, of_ben.name) == ("ann", "ben")
    first, third = of_ann.units
    [second] = of_ben.units
    assert (first.name, second.name, third.name) == ("s1", "s2", "s3")
    assert (first.depth, second.depth, third.depth) == (1, 1, 2)
    assert first.scores == [[3.0, 1.0], [6.0, 4.0]]
    assert first.rubrics == [("r", "Tea?", [1, None])]
    assert third.rubrics == [("r", "Tea?", [None, None])]
    assert first.sides[1] is None
    assert first.sides[0].facts.startswith("1 of 1 rubric met")
    assert sessions._groups(aligned, [{}, {}], values, [], shown)[0].units[0].scores is None


def test_each_side_is_of_its_own_system():
    read = Turn(1, "?", "!", session="s", more={"read": "passages"})
    dialogue = Dialogue("s", "ann", {}, [read])
    headers = [{"kind": "simulated", "passages": 3}, {"kind": "interactive", "passages": 5}, {}]
    aligned = {"s": [dialogue, dialogue, dialogue]}
    [group] = sessions._groups(
        aligned, headers, {"s": [[], [], []]}, [], sessions._Shown([read], {}, 1)
    )
    remarks = [side.steps[0].remarks for side in group.units[0].sides]
    assert remarks == [
        ["the user read the best 3 passages"],
        ["the user read the best 5 passages", "not sent"],
        ["the user read the best passages"],
    ]


def test_a_system_is_described_by_its_settings():
    header = {
        "kind": "simulated",
        "system": "mine",
        "stages": [1],
        "topics_sha256": "0f",
        "note": "ä" * 300,
        "long": "x" * 301,
        "more": {"ä": [1]},
    }
    assert sessions._describe(header) == [
        "mine",
        "kind: simulated",
        f"note: {'ä' * 300}",
        f"long: {'x' * 300} […]",
        'more: {"ä": [1]}',
    ]
    assert sessions._describe({"expression": "a >> b", "system": "mine"}) == ["a >> b"]
    assert sessions._describe({}) == [""]


def test_no_part_of_a_description_but_its_settings_is_shown():
    header = {"expression": "a >> b", "system": "mine", "turns": 3}
    for name in ("stages", "parts", "prompts", "players_prompts", "memory_prompts", "users_sha256"):
        header[name] = {"x": 1}
    described = sessions._describe({**header, "seed": 0, "judge": ""})
    assert described == ["a >> b", "turns: 3", "seed: 0", "judge: "]


@pytest.fixture
def log(tmp_path):
    """Makes a log of a system."""

    def make(name, *turns, kind="simulated", end="", **header):
        made = Log.create(tmp_path / name, {"kind": kind, "system": f"{name}()", **header})
        if turns:
            made.begin("s1", "ann", {"r": "Tea?"})
        for each in turns:
            made.append(each)
        if end:
            made.end("s1", end)
        return made

    return make


def test_logs_are_found_by_path_and_folder_and_not_beside_runs(log, tmp_path):
    one = log("one")
    runs = {"a": one, "b": one.folder, "c": str(one.folder), "d": RunFolder(one.folder)}
    assert {name: found.folder for name, found in find_logs(runs).items()} == dict.fromkeys(
        "abcd", one.folder
    )
    frame = pd.DataFrame({"qid": ["1_1"]})
    assert find_logs({"x": frame, "y": tmp_path / "none"}) == {}
    with pytest.raises(UsageError, match="one holds a simulation, x does not: make two reports"):
        find_logs({"one": one, "x": frame})
    with pytest.raises(UsageError, match="one holds a simulation, x, y do not"):
        find_logs({"x": frame, "one": one, "y": tmp_path})
    refuse_arguments({"one": one}, turns=None, unit=None)
    with pytest.raises(UsageError, match=r"unit=\.\.\. is for runs of topics, and one holds a sim"):
        refuse_arguments({"one": one}, turns=None, unit="user")


def test_the_baseline_is_the_one_that_the_logs_shown_agree_on(log):
    one = log("one")
    two = log("two")
    runs = {"first": one, "second": two}
    assert logged_baseline(runs) is None
    one.compare("two()")
    assert logged_baseline(runs) == "second"
    two.compare("two()")
    assert logged_baseline(runs) == "second"
    assert logged_baseline({"first": one}) is None
    two.compare("one()")
    assert logged_baseline(runs) is None


def test_a_page_of_sessions_says_what_it_covers(log):
    said = turn(sources=FOUND, spend=Spend(1, known=2, worth=0.5))
    runs = {
        "one": log("one", said, end="satisfied", recorded=True),
        "two": log("two", turn(response="Mint.")),
        "none": log("none"),
    }
    with pytest.warns(NoConversationWarning, match="none has no conversation yet"):
        page = report_sessions(runs, "two", None, 1)
    text = " ".join(page.html.split())
    assert page.name == "two, one"
    assert "1 session of 1 user. The first 120 words of each passage are shown." in text
    for sentence in (
        "none has no conversation yet and is not shown",
        "2 completions of the systems came from a recording or the cache",
        "Recorded completions, without a live LLM: one",
        "Seconds depend on the order of the sessions",
        "Not ended, and measured up to the last turn: 1 session of two (s1).",
        "Differences are from two.",
        "over 1 session of 1 user",
    ):
        assert sentence in text
    alone = " ".join(report_sessions({"two": runs["two"]}, None, None, 1).html.split())
    assert "1 session of 1 user." in alone
    for sentence in ("words of each passage", "Seconds depend", "Differences are from"):
        assert sentence not in alone
    chats = {
        "a": log("chat-a", turn(), kind="served"),
        "b": log("chat-b", turn(), kind="served"),
    }
    assert "Seconds depend" not in report_sessions(chats, None, None, 1).html
    for baseline, named in ((None, "none"), ("none", "none")):
        logs = {"none": runs["none"]} if baseline is None else runs
        with pytest.raises(DataError, match=f"{named} has no conversation yet .*: wait for"):
            report_sessions(logs, baseline, None, 1)


def test_a_page_counts_its_sessions_users_and_completions(log):
    runs = {"one": log("one", turn(spend=Spend(1, known=2))), "two": log("two", turn())}
    two = runs["two"]
    two.begin("s2", "ann", {"r": "Tea?"})
    two.append(turn(session="s2"))
    text = " ".join(report_sessions(runs, None, None, 1).html.split())
    assert "2 sessions of 1 user." in text
    assert "2 completions of the systems came from" in text


def test_a_page_has_its_scores_and_the_logged_baseline(log, monkeypatch):
    monkeypatch.setattr(sessions.Report, "of", classmethod(lambda cls, content: content))
    spends = {"one": Spend(4, cost=0.5), "two": Spend(1, cost=0.25)}
    runs = {}
    for name, spend in spends.items():
        runs[name] = log(name, turn(spend=spend, met=("r1",)), end="satisfied")
    runs["one"].compare("two()")
    content = report_sessions(runs, None, None, 1)
    assert content.names == ["two", "one"]
    [group] = content.groups
    measures = [measure.name for measure in content.measures]
    [two, one] = group.units[0].scores
    calls = measures.index("calls")
    cost = measures.index("cost")
    assert [two[calls], one[calls], two[cost], one[cost]] == [1, 4, 0.25, 0.5]
    facts = [side.facts.split(", ")[-2] for side in group.units[0].sides]
    assert facts == ["1 LLM call", "4 LLM calls"]
    further = [column.name for column in content.columns if column.name not in measures]
    assert further == ["sessions", "satisfied", "turns", "seconds"]
    expressions = {name: lines[0] for name, lines in content.made.items()}
    assert expressions == {"one": "one()", "two": "two()"}


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
def test_one_simulation_among_logs_leaves_speed_open(log_of_users, monkeypatch, kinds, faster):
    logs = {}
    for name, kind in zip("ab", kinds, strict=True):
        logs[name] = log_of_users(name, "ann", kind=kind)
    content, _ = content_of(monkeypatch, logs)
    assert any(note.startswith("Seconds depend") for note in content.notes) is not faster
    seconds = [measure.better for measure in content.columns if measure.name == "seconds"]
    assert seconds == [-1 if faster else 0]


def test_every_log_without_a_conversation_is_named(log_of_users, monkeypatch):
    logs = {
        "none": log_of_users("none"),
        "one": log_of_users("one", "ann", "ben"),
        "nil": log_of_users("nil"),
    }
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
