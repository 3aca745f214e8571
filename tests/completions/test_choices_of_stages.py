"""Choices of statements in whole stages: unknown statements, and ids that are no numbers."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import StageError


class Says:
    """A model that always writes the same."""

    def __init__(self, text):
        self.text = text

    def generate(self, chats):
        return [self.text for _ in chats]


TURN = ikat.conversation(
    [{"role": "user", "content": "What may I eat?"}], ["I am vegan.", "I run."]
)
SAR = "Statements: [{}]\nRewrite: Which food is vegan?\nResponse: Beans."


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (lambda llm: ikat.SelectStatements(llm), "[12]"),
        (lambda llm: ikat.SelectStatements(llm, "scores"), '{"12": 0.9}'),
        (lambda llm: ikat.generate.Reformulate(llm, "select"), SAR.format(12)),
    ],
)
def test_a_choice_of_unknown_statements_alone_is_a_failure(stage, text):
    with pytest.raises(StageError, match="unknown"):
        stage(ikat.llm(Says(text)))(TURN)
    llm = ikat.llm(Says(text.replace("12", "2")))
    [(name, _)] = stage(llm)(TURN)["qstatements"][0]
    assert name == "2"


def test_scores_within_another_object_name_no_statement():
    """The prompt asks for an object id -> score alone."""
    llm = ikat.llm(Says('{"scores": {"2": 0.9}}'))
    with pytest.raises(StageError, match="no statement scores"):
        ikat.SelectStatements(llm, "scores")(TURN)


def test_a_known_statement_among_unknown_ones_is_chosen():
    llm = ikat.llm(Says(SAR.format("12, 2")))
    made = ikat.generate.Reformulate(llm, "select")(TURN)
    assert (made["qstatements"][0], made["qrewrite"][0]) == ([("2", 1.0)], "Which food is vegan?")
    assert llm.ledger.frame()["dropped"].tolist() == [1]


def test_ids_given_as_numbers_become_texts():
    turn = ikat.conversation(
        [{"role": "user", "content": "What may I eat?"}], {1: "I am vegan.", 2: "I run."}
    )
    assert turn["qptkb"][0] == {"1": "I am vegan.", "2": "I run."}
    own = turn.assign(qptkb=[{1: "I am vegan.", 2: "I run."}], qgoldptkb=[[2]])
    assert ikat.SelectStatements(ikat.llm(Says("[2]")))(own)["qstatements"][0] == [("2", 1.0)]
    assert ikat.generate.ShowStatements("gold")(own)["qptkb"][0] == {"2": "I run."}
    assert ikat.generate.AppendStatements("qgoldptkb")(own)["query"][0] == "What may I eat? I run."


@pytest.mark.parametrize(
    "ptkb", [{1.5: "I run."}, {None: "I run."}, {True: "I run."}, {1: "I run.", "1": "I swim."}]
)
def test_ids_that_are_none_or_equal_are_refused(ptkb):
    with pytest.raises(UsageError, match="id"):
        ikat.conversation([{"role": "user", "content": "What may I eat?"}], ptkb)


@pytest.mark.parametrize("ids", [["P1", "P2"], ["1a", "2"], ["2.1", "2.2"], ["u:1", "3"]])
@pytest.mark.parametrize(
    "stage", [ikat.SelectStatements, lambda llm: ikat.generate.Reformulate(llm, "select")]
)
def test_ids_that_are_no_numbers_cost_no_call(ids, stage):
    class Counted:
        calls = 0

        def generate(self, chats):
            self.calls += len(chats)
            return ["[2]"] * len(chats)

    model = Counted()
    turn = ikat.conversation([{"role": "user", "content": "Tea?"}], dict.fromkeys(ids, "I run."))
    with pytest.raises(DataError, match="by number, and the id"):
        stage(ikat.llm(model))(turn)
    assert model.calls == 0
