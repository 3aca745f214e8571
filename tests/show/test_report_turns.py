"""The conversations and turns of a report: queries, notes, responses, and the calls that fit."""

import pandas as pd
import pytest
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.show.report import turns
from pyterrier_ikat.show.report.content import Call, ListedPassage
from pyterrier_ikat.show.report.material import Material, RunData, find_material, read_runs
from pyterrier_ikat.show.report.rankings import passages_by_turn
from pyterrier_ikat.show.report.turns import build_conversations, fit_calls, turns_to_show

NOTHING = Material("", {}, None, None, ())


def seen(runs, material):
    passages, *_ = passages_by_turn(runs, material.qrels, None, 20)
    return build_conversations(runs, material, passages, {})


def notes(side):
    (step,) = side.steps
    return {note.label: list(note.texts) for note in step.notes}


@pytest.fixture
def both(folders, sample):
    runs = read_runs(folders)
    return seen(runs, find_material(runs, sample, None, None))[0]


def of_turn(**wrote):
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": wrote})
    return seen([run], NOTHING)[0].units[0].sides[0]


def test_turns_are_those_asked_for_or_all_of_the_dataset(folders, sample):
    def shown(*runs):
        return turns_to_show(list(runs), find_material(list(runs), sample, None, None))

    frame = RunData("one", ranking([("1-1_1", "a", 1.0)]))
    assert shown(frame) == sample.get_topics()["qid"].tolist()
    assert shown(*read_runs(folders)) == ["1-1_1", "1-1_2", "1-1_3"]
    with pytest.raises(DataError, match="run one has the turn 77_1, which ikat:sample lacks"):
        shown(RunData("one", ranking([("77_1", "a", 1.0)])))


def test_turns_of_frames_and_folders_are_all_of_the_data():
    material = Material("mine", {"1_2": {}, "1_1": {}, "1_3": {}}, None, None, ())
    asked = RunData("asked", ranking([("1_1", "a", 1.0)]), {"1_2": {}}, parameters={"x": 1})
    frame = RunData("frame", ranking([("1_1", "a", 1.0)]))
    assert turns_to_show([asked], material) == ["1_2", "1_1"]
    assert turns_to_show([asked, frame], material) == ["1_2", "1_1", "1_3"]
    assert turns_to_show([asked], NOTHING) == ["1_1", "1_2"]
    foreign = RunData("foreign", ranking([("9_10", "a", 1.0), ("9_9", "a", 1.0)]))
    with pytest.raises(DataError, match="run foreign has the turn 9_9, which mine lacks"):
        turns_to_show([asked, foreign], material)
    first = build_conversations(
        [asked, RunData("b", frame.results, {"1_1": {"qutterance": "Hi"}})], NOTHING, {}, {}
    )
    assert [unit.utterance for unit in first[0].units] == ["Hi", "The utterance is not known."]


def test_without_a_dataset_turns_come_in_their_natural_order():
    run = RunData("one", ranking([("10-1_1", "a", 1.0), ("9-1_12", "a", 1.0), ("9-1_3", "a", 1.0)]))
    ninth, tenth = seen([run], NOTHING)
    assert (ninth.name, [turn.depth for turn in ninth.units]) == ("9-1", [3, 12])
    assert (tenth.name, [turn.depth for turn in tenth.units]) == ("10-1", [1])


@pytest.mark.parametrize("qid", ["9-1-3", "_3", "9-1_x"])
def test_turn_of_unknown_conversation_is_one_alone(qid):
    run = RunData("one", ranking([(qid, "a", 1.0), ("9-1_2", "a", 1.0)]))
    turns_by_chat = {}
    for chat in seen([run], NOTHING):
        turns_by_chat[chat.name] = [(turn.name, turn.depth) for turn in chat.units]
    assert turns_by_chat == {qid: [(qid, 1)], "9-1": [("9-1_2", 2)]}


@pytest.mark.parametrize(
    ("qid", "place"),
    [("9-1_\u00b2", ("9-1_\u00b2", 1)), ("9-1_\uff13", ("9-1", 3)), ("a_b_07", ("a_b", 7))],
)
def test_a_number_of_a_turn_is_one_that_can_be_read(qid, place):
    run = RunData("one", ranking([(qid, "a", 1.0)]))
    [group] = build_conversations([run], Material("", {}, None, None, ()), {}, {})
    assert (group.name, group.units[0].depth) == place


def test_frames_with_a_persona_of_their_own_need_no_dataset():
    frame = ranking([("chat_1", "a", 1.0)])
    (run,) = read_runs(
        {
            "mine": frame.assign(
                qutterance="Tea?",
                qptkb=column([{"1": "I am vegan"}]),
                qstatements=column([[("1", 0.5)]]),
            )
        }
    )
    (chat,) = seen([run], NOTHING)
    assert chat.units[0].utterance == "Tea?"
    assert chat.persona == {"1": "I am vegan"}


def test_a_persona_is_of_all_turns_of_its_conversation():
    turns = {"1_1": {"qptkb": {"1": "I ski."}}, "1_2": {"qptkb": {"2": "I run."}}, "1_3": {}}
    material = Material("mine", turns, None, None, ())
    [group] = build_conversations([RunData("x", ranking([("1_1", "a", 1.0)]))], material, {}, {})
    assert group.persona == {"1": "I ski.", "2": "I run."}


def test_a_statement_that_changes_has_its_last_words():
    turns = {"1_1": {"qptkb": {"1": "I ski."}}, "1_2": {"qptkb": {"1": "I do not ski."}}}
    run = RunData("x", ranking([("1_1", "a", 1.0)]))
    [group] = build_conversations([run], Material("mine", turns, None, None, ()), {}, {})
    assert group.persona == {"1": "I do not ski."}


def test_a_turn_shows_all_that_is_known_of_it():
    material = Material(
        "mine",
        {
            "1_1": {
                "qutterance": " Tea? ",
                "qresolved": "Which tea?",
                "gold_answer": " ",
                "qptkb": {1: "I am vegan."},
                "qgoldptkb": ["1"],
                "qconversation": "first",
                "qturn": 7,
            },
            "1_2": {"gold_answer": "Mint.", "qptkb": {"2": "I ski."}, "qconversation": "first"},
        },
        None,
        None,
        (),
        titles={"first": "Tea"},
    )
    found = ranking([("1_1", "a", 3.0), ("1_1", "b", 2.0), ("1_1", "c", 1.0)])
    own = {"qstatements": [("1", 1.0), ("9", 0.5)], "response": " Rooibos. ", "used": ["c", "a"]}
    call = Call("rewrite", "rewrite", [], "x")
    one = RunData("one", found, {"1_1": own}, parameters={"method": "x"}, calls={"1_1": [call]})
    two = RunData("two", found[:1])
    passages = {"1_1": [[ListedPassage(1, "a", 1.0), ListedPassage(2, "b", 1.0)], []]}
    scores = {"1_1": [[0.5], [0.25]]}
    reasons = {"1_1": [[], ["one leads."]]}
    missed = {"1_1": ["z (label 2): one at rank 9"]}
    groups = build_conversations([one, two], material, passages, scores, reasons, missed)
    assert [(group.name, group.title, group.persona) for group in groups] == [
        ("first", "Tea", {"1": "I am vegan."}),
        ("1", "", {"2": "I ski."}),
    ]
    [unit] = groups[0].units
    assert (unit.name, unit.depth, unit.utterance) == ("1_1", 7, "Tea?")
    assert (unit.scores, unit.reasons, unit.missed) == (
        [[0.5], [0.25]],
        reasons["1_1"],
        missed["1_1"],
    )
    assert unit.references == [("Manual rewrite", "Which tea?")]
    [step] = unit.sides[0].steps
    assert (step.response, step.cited, step.found) == ("Rooibos.", [1], "2 passages of 3")
    assert step.remarks == ["c, which the response uses, is not in the run's ranking"]
    assert step.calls == [call]
    assert [passage.docno for passage in step.passages] == ["a", "b"]
    assert notes(unit.sides[0]) == {"Statements": ["1: I am vegan. (relevant)", "9"]}
    [other] = unit.sides[1].steps
    assert (other.found, other.remarks, other.calls) == ("0 passages of 1", [], ())
    [second] = groups[1].units
    assert (second.depth, second.utterance) == (2, "The utterance is not known.")
    assert (second.scores, second.reasons, second.missed) == (None, (), ())
    assert second.references == [("Answer of the data", "Mint.")]
    assert [side.steps[0].remarks for side in second.sides] == [
        ["not run on this turn"],
        ["no passage found"],
    ]


def test_a_lost_turn_and_one_that_was_not_asked_are_told_apart(both):
    plain, full = both.units[2].sides
    assert (plain.steps[0].remarks, full.steps[0].remarks) == (
        ["no passage found"],
        ["not run on this turn"],
    )
    assert notes(plain) == {"Rewrite": ["Poles for a knee?"]}
    assert notes(both.units[1].sides[1])["Statements"] == ["none chosen"]


def test_a_turn_without_passages_shows_its_calls():
    call = Call("answer", "Answer()", [], "x")
    run = RunData("x", ranking([]), {"1_1": {}}, parameters={"x": 1}, calls={"1_1": [call]})
    [step] = seen([run], NOTHING)[0].units[0].sides[0].steps
    assert (step.remarks, step.calls) == (["no passage found"], [call])


def test_a_frame_brings_the_rewrite_of_the_data():
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": {"qresolved": "Which tea?"}})
    assert seen([run], NOTHING)[0].units[0].references == [("Manual rewrite", "Which tea?")]


def test_draft_stands_by_response_and_sub_queries_tell_findings():
    side = of_turn(
        qsubqueries=["green tea", "rooibos"], qfound=[7, 1], qanswer="draft", response="r"
    )
    assert notes(side) == {
        "Draft answer": ["draft"],
        "2 sub-queries": ["green tea (7 passages)", "rooibos (1 passage)"],
    }
    assert side.steps[0].response == "r"
    assert "Draft answer" not in notes(of_turn(qanswer="r", response="r"))
    assert side.steps[0].found == "1 passage"


@pytest.mark.parametrize(
    ("wrote", "expected"),
    [
        ({"searched": ["tea"], "qrewrite": "tea"}, {"Final query: the rewrite": ["tea"]}),
        ({"searched": ["tea"], "qutterance": "tea"}, {"Final query: the utterance": ["tea"]}),
        ({"searched": ["tea"], "qresolved": "tea"}, {"Final query: the manual rewrite": ["tea"]}),
        (
            {"searched": ["tea mint"], "qrewrite": "tea"},
            {"Rewrite": ["tea"], "Final query": ["tea mint"]},
        ),
        ({"searched": ["tea", "mint", "tea", ""]}, {"2 final queries": ["tea", "mint"]}),
        (
            {"searched": ["tea", "mint"], "qsubqueries": ["mint "]},
            {"Final query": ["tea"], "1 sub-query": ["mint "]},
        ),
        ({"qrewrite": "tea"}, {"Rewrite": ["tea"]}),
        ({"qsubqueries": [], "qfound": [7]}, {}),  # the turn was its own sub-query
    ],
)
def test_the_final_query_says_where_it_comes_from(wrote, expected):
    assert notes(of_turn(**wrote)) == expected


def test_a_query_of_several_sources_is_called_by_the_first():
    same = {"searched": [" tea\n", "tea"], "qutterance": " tea", "qresolved": "tea "}
    rewritten = of_turn(**same, qrewrite=" tea ")
    assert notes(rewritten) == {"Final query: the rewrite": ["tea"]}
    assert notes(of_turn(**same)) == {"Final query: the utterance": ["tea"]}
    resolved = of_turn(**{**same, "qutterance": "it"})
    assert notes(resolved) == {"Final query: the manual rewrite": ["tea"]}
    both = of_turn(**same, qrewrite="mint", qsubqueries=[" mint", "ale "])
    assert notes(both) == {
        "Rewrite": ["mint"],
        "Final query: the utterance": ["tea"],
        "2 sub-queries": [" mint", "ale "],
    }


@pytest.mark.parametrize(
    ("query", "source"),
    [("Tea?", "Final query: the utterance"), ("Which tea?", "Final query: the manual rewrite")],
)
def test_a_query_is_known_by_the_words_of_the_data(query, source):
    data = {"1_1": {"qutterance": "Tea?", "qresolved": "Which tea?"}}
    run = RunData("x", ranking([("1_1", "a", 1.0)]), {"1_1": {"searched": [query]}})
    [group] = build_conversations([run], Material("mine", data, None, None, ()), {}, {})
    assert notes(group.units[0].sides[0]) == {source: [query]}


def test_long_and_several_queries_are_folded():
    def folded(**wrote):
        return {note.label: note.folded for note in of_turn(**wrote).steps[0].notes}

    words = "word " * 60
    assert folded(searched=[words]) == {"Final query": False}
    assert folded(searched=[f"{words}more"]) == {"Final query": True}
    assert folded(searched=["a", "b"]) == {"2 final queries": True}
    assert folded(qrewrite="tea", qanswer="d", qsubqueries=["a"]) == {
        "Rewrite": False,
        "Draft answer": False,
        "1 sub-query": True,
    }
    lines = notes(of_turn(qsubqueries=["a", "b"], qfound=[1204]))["2 sub-queries"]
    assert lines == ["a (1,204 passages)", "b"]


def test_what_a_run_wrote_is_not_changed_by_showing_it():
    wrote = {"qsubqueries": ["tea", "mint"], "qfound": [7, 1]}
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": wrote})
    for _ in range(2):
        found = notes(seen([run], NOTHING)[0].units[0].sides[0])
        assert found["2 sub-queries"] == ["tea (7 passages)", "mint (1 passage)"]
    assert wrote["qsubqueries"] == ["tea", "mint"]


def test_cited_passages_have_their_ranks_in_the_order_of_use():
    found = ranking([("1_1", "a", 3.0), ("1_1", "b", 2.0), ("1_1", "c", 1.0)])
    run = RunData("one", found, {"1_1": {"response": "r", "used": ["c", "a"]}})
    [step] = seen([run], NOTHING)[0].units[0].sides[0].steps
    assert (step.cited, step.remarks, step.found) == ([3, 1], [], "3 passages")


def test_a_passage_that_the_ranking_lacks_is_named():
    (step,) = of_turn(response="r", used=["z", "a"]).steps
    assert (step.cited, step.remarks) == (
        [1],
        ["z, which the response uses, is not in the run's ranking"],
    )


@pytest.mark.parametrize(
    ("wrote", "basis"),
    [
        ({"response": "r"}, "based on"),
        ({"response": "r", "qcitations": []}, "cites none of the passages that it was shown:"),
        ({"response": "r", "qcitations": None}, "cites none of the passages that it was shown:"),
        (
            {"response": "r", "qcitations": [{"docnos": []}, {"docnos": []}]},
            "cites none of the passages that it was shown:",
        ),
        ({"response": "r", "qcitations": [{"docnos": []}, {"docnos": ["a"]}]}, "based on"),
        ({"response": "", "qcitations": []}, "based on"),
    ],
)
def test_a_response_is_based_on_passages_or_cites_none(wrote, basis):
    assert of_turn(**wrote).steps[0].basis == basis


def calls_of(*texts):
    calls = []
    for text in texts:
        message = {"role": "user", "content": text}
        calls.append(Call("p", "s", [message], text[::-1]))
    return calls


@pytest.mark.parametrize(
    ("room", "longest"), [(40, None), (39, 6), (20, 6), (19, 3), (14, 3), (13, 0)]
)
def test_calls_are_cut_until_their_distinct_texts_fit(monkeypatch, room, longest):
    """Two texts of 20 letters; one that is cut has four characters more."""
    monkeypatch.setattr(turns, "MESSAGE_LENGTHS", (None, 6, 3))
    monkeypatch.setattr(turns, "CALL_CHARACTERS", room)
    text = "abcdefghijklmnopqrst"
    runs = [
        RunData("a", None, calls={"1_1": calls_of(text, text)}),
        RunData("b", None, calls={"1_1": calls_of(text, text)}),
    ]
    fitting, told = turns.fit_calls(runs)
    assert [run.name for run in fitting] == ["a", "b"]
    if longest == 0:
        assert [run.calls for run in fitting] == [{}, {}]
        assert told == ["The LLM calls are too many for one page: make a report of fewer turns."]
        return
    call = fitting[1].calls["1_1"][1]
    if longest is None:
        assert (call.messages[0]["content"], call.completion, told) == (text, text[::-1], [])
        return
    assert call.messages == [{"role": "user", "content": f"{text[:longest]} […]"}]
    assert call.completion == f"{text[::-1][:longest]} […]"
    assert told == [
        f"Prompts and completions are cut at {longest} characters: the run folders have them."
    ]


def test_a_text_of_just_the_length_is_not_cut(monkeypatch):
    monkeypatch.setattr(turns, "MESSAGE_LENGTHS", (None, 3))
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 20)
    run = RunData("a", None, calls={"1_1": calls_of("abc", "abcdefgh")})
    run.calls["1_1"][1].messages[0]["role"] = "system"
    [call, cut] = turns.fit_calls([run])[0][0].calls["1_1"]
    assert [each.messages[0]["role"] for each in (call, cut)] == ["user", "system"]
    assert (call.messages[0]["content"], call.completion) == ("abc", "cba")
    assert cut.messages[0]["content"] == "abc […]"


def test_page_says_that_prompts_of_many_calls_are_cut(monkeypatch):
    call = Call("answer", "Answer()", [{"role": "user", "content": "x" * 3000}], "yes")
    run = RunData("one", pd.DataFrame(), calls={"1_1": [call]})
    assert fit_calls([run]) == ([run], [])
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 1100)
    (cut,), notes = fit_calls([run])
    assert cut.calls["1_1"][0].messages == [{"role": "user", "content": "x" * 1000 + " […]"}]
    assert cut.calls["1_1"][0].completion == "yes"
    assert notes == [
        "Prompts and completions are cut at 1000 characters: the run folders have them."
    ]
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 10)
    (none,), notes = fit_calls([run])
    assert (none.calls, notes) == (
        {},
        ["The LLM calls are too many for one page: make a report of fewer turns."],
    )


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
