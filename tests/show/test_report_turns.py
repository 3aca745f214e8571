import pandas as pd
import pytest
from small_runs import DOCNOS, ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.show.report.material import Material, RunData, find_material, read_runs
from pyterrier_ikat.show.report.rankings import passages_by_turn
from pyterrier_ikat.show.report.turn_views import ChosenStatement, PersonaStatement, SubQuery, build_conversations, turns_to_show

NOTHING = Material("", {}, None, None, ())


def seen(runs, material):
    passages, *_ = passages_by_turn(runs, material.qrels, None, 20)
    return build_conversations(runs, material, passages, {})


@pytest.fixture
def both(folders, sample):
    runs = read_runs(folders)
    return seen(runs, find_material(runs, sample, None, None))[0]


def test_a_turn_has_the_users_words_and_the_organisers(both):
    first = both.turns[0]
    assert (both.name, first.qid, first.depth, first.number) == ("1-1", "1-1_1", 1, 1)
    assert first.utterance.startswith("I'd like to do my first walk of several days")
    assert first.resolved.startswith("What sort of easy multi-day walking route")
    assert first.gold


def test_what_the_runs_wrote_stands_side_by_side(both):
    plain, full = both.turns[0].sides
    assert (plain.rewrite, full.rewrite) == ("Which first walk?", "Which first walk suits a bad knee?")
    assert (plain.statements, plain.subqueries) == (None, [])
    assert full.subqueries == [SubQuery("easy first walk", None), SubQuery("soft paths", None)]
    assert (full.draft, full.response) == ("", "Take the heath, it is level.")
    assert (plain.found, full.found) == (3, 3)


def test_a_response_names_the_passages_it_is_based_on_by_their_number(both):
    first = both.turns[0]
    assert [passage.docno for passage in first.passages] == [DOCNOS[0], DOCNOS[1], DOCNOS[4], DOCNOS[2]]
    assert (first.sides[1].cited, first.sides[1].missing) == ([2, 1], [])


def test_a_lost_turn_and_one_that_was_not_asked_are_told_apart(both):
    plain, full = both.turns[2].sides
    assert (plain.found, plain.run_on) == (0, True)
    assert (full.found, full.run_on) == (0, False)
    assert plain.rewrite == "Poles for a knee?"


def test_the_persona_tells_who_chose_a_statement_when(both, sample):
    gold = sample.get_topics("manual").head(3)
    assert both.persona[1] == PersonaStatement(
        "2",
        "My left knee is worn and hurts whenever I go downhill for long.",
        [[], [1]],
        [turn for turn, ids in zip(gold["qturn"], gold["qgoldptkb"], strict=True) if "2" in ids],
    )
    assert both.persona[1].relevant[0] == 1
    assert both.turns[0].sides[1].statements[0] == ChosenStatement("2", both.persona[1].text, relevant=True)
    assert both.turns[1].sides[1].statements == []


def of_turn(**wrote):
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": wrote})
    return seen([run], NOTHING)[0].turns[0].sides[0]


def test_a_draft_stands_beside_the_response_and_sub_queries_tell_what_they_found():
    side = of_turn(qsubqueries=["green tea ", "rooibos"], qfound=[7, 1], qanswer="draft", response="r")
    assert side.subqueries == [SubQuery("green tea ", 7), SubQuery("rooibos", 1)]
    assert (side.draft, side.response) == ("draft", "r")


@pytest.mark.parametrize(
    ("wrote", "queries", "source", "rewrite"),
    [
        ({"searched": ["tea"], "qrewrite": "tea"}, ["tea"], "the rewrite", ""),
        ({"searched": ["tea"], "qutterance": "tea"}, ["tea"], "the utterance", ""),
        ({"searched": ["tea"], "qresolved": "tea"}, ["tea"], "the manual rewrite", ""),
        ({"searched": ["tea mint"], "qrewrite": "tea"}, ["tea mint"], "", "tea"),
        ({"searched": ["tea", "mint", "tea", ""]}, ["tea", "mint"], "", ""),
        ({"searched": ["tea", "mint"], "qsubqueries": ["mint "]}, ["tea"], "", ""),
        ({"qrewrite": "tea"}, [], "", "tea"),
    ],
)
def test_the_final_query_says_where_it_comes_from(wrote, queries, source, rewrite):
    side = of_turn(**wrote)
    assert (side.queries, side.source, side.rewrite) == (queries, source, rewrite)


def test_the_count_of_a_turn_that_was_its_own_sub_query_is_left_out():
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": {"qsubqueries": [], "qfound": [7]}})
    assert seen([run], NOTHING)[0].turns[0].sides[0].subqueries == []


def test_a_passage_that_the_ranking_lacks_is_named():
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": {"response": "r", "used": ["z", "a"]}})
    side = seen([run], NOTHING)[0].turns[0].sides[0]
    assert (side.cited, side.missing) == ([1], ["z"])


def test_without_a_dataset_turns_come_in_their_natural_order():
    run = RunData("one", ranking([("10-1_1", "a", 1.0), ("9-1_12", "a", 1.0), ("9-1_3", "a", 1.0)]))
    assert [(one.name, [turn.depth for turn in one.turns]) for one in seen([run], NOTHING)] == [("9-1", [3, 12]), ("10-1", [1])]


def test_a_plain_run_is_shown_with_every_turn_of_the_dataset(sample):
    run = RunData("one", ranking([("1-1_1", "a", 1.0)]))
    material = find_material([run], sample, None, None)
    assert turns_to_show([run], material) == sample.get_topics()["qid"].tolist()


def test_run_folders_are_shown_with_the_turns_they_were_asked_for(folders, sample):
    runs = read_runs(folders)
    assert turns_to_show(runs, find_material(runs, sample, None, None)) == ["1-1_1", "1-1_2", "1-1_3"]


def test_a_turn_of_another_dataset_is_an_error(sample):
    run = RunData("one", ranking([("77_1", "a", 1.0)]))
    with pytest.raises(DataError, match="run one has the turn 77_1, which ikat:sample lacks"):
        turns_to_show([run], find_material([run], sample, None, None))


@pytest.mark.parametrize("qid", ["9-1-3", "_3", "9-1_x"])
def test_a_turn_of_which_nothing_says_the_conversation_is_one_alone(qid):
    chats = seen([RunData("one", ranking([(qid, "a", 1.0), ("9-1_2", "a", 1.0)]))], NOTHING)
    assert {chat.name: [(turn.qid, turn.depth) for turn in chat.turns] for chat in chats} == {qid: [(qid, 1)], "9-1": [("9-1_2", 2)]}


def test_frames_with_a_persona_of_their_own_need_no_dataset():
    frame = ranking([("chat_1", "a", 1.0)])
    (run,) = read_runs({"mine": frame.assign(qutterance="Tea?", qptkb=column([{"1": "I am vegan"}]), qstatements=column([[("1", 0.5)]]))})
    (chat,) = seen([run], NOTHING)
    assert chat.turns[0].utterance == "Tea?"
    assert chat.persona == [PersonaStatement("1", "I am vegan", [[1]], [])]


def test_nothing_is_changed_in_the_frames(folders):
    runs = read_runs(folders)
    before = runs[0].results.copy()
    seen(runs, NOTHING)
    pd.testing.assert_frame_equal(runs[0].results, before)
