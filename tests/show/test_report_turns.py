import pytest
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.show.report.material import Material, RunData, find_material, read_runs
from pyterrier_ikat.show.report.rankings import passages_by_turn
from pyterrier_ikat.show.report.turns import build_conversations, turns_to_show

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


def test_a_lost_turn_and_one_that_was_not_asked_are_told_apart(both):
    plain, full = both.units[2].sides
    assert (plain.steps[0].remarks, full.steps[0].remarks) == (
        ["no passage found"],
        ["not run on this turn"],
    )
    assert notes(plain) == {"Rewrite": ["Poles for a knee?"]}
    assert notes(both.units[1].sides[1])["Statements"] == ["none chosen"]


def of_turn(**wrote):
    run = RunData("one", ranking([("1_1", "a", 1.0)]), {"1_1": wrote})
    return seen([run], NOTHING)[0].units[0].sides[0]


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


def test_a_passage_that_the_ranking_lacks_is_named():
    (step,) = of_turn(response="r", used=["z", "a"]).steps
    assert (step.cited, step.remarks) == (
        [1],
        ["z, which the response uses, is not in the run's ranking"],
    )


def test_without_a_dataset_turns_come_in_their_natural_order():
    run = RunData("one", ranking([("10-1_1", "a", 1.0), ("9-1_12", "a", 1.0), ("9-1_3", "a", 1.0)]))
    assert [(one.name, [turn.depth for turn in one.units]) for one in seen([run], NOTHING)] == [
        ("9-1", [3, 12]),
        ("10-1", [1]),
    ]


def test_turns_are_those_asked_for_or_all_of_the_dataset(folders, sample):
    def shown(*runs):
        return turns_to_show(list(runs), find_material(list(runs), sample, None, None))

    assert (
        shown(RunData("one", ranking([("1-1_1", "a", 1.0)]))) == sample.get_topics()["qid"].tolist()
    )
    assert shown(*read_runs(folders)) == ["1-1_1", "1-1_2", "1-1_3"]
    with pytest.raises(DataError, match="run one has the turn 77_1, which ikat:sample lacks"):
        shown(RunData("one", ranking([("77_1", "a", 1.0)])))


@pytest.mark.parametrize("qid", ["9-1-3", "_3", "9-1_x"])
def test_turn_of_unknown_conversation_is_one_alone(qid):
    chats = seen([RunData("one", ranking([(qid, "a", 1.0), ("9-1_2", "a", 1.0)]))], NOTHING)
    assert {chat.name: [(turn.name, turn.depth) for turn in chat.units] for chat in chats} == {
        qid: [(qid, 1)],
        "9-1": [("9-1_2", 2)],
    }


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
