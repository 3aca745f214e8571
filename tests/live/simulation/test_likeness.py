"""A simulated user says the next utterance of humans' conversations from what came before alone; hand-worked scores."""

import pytest

from pyterrier_ikat.conversations import Conversation, TopicTurn
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.live.simulation import compare_utterances, predict_utterances
from pyterrier_ikat.llms import LLM, Backend, LLMFailure, Reply

SAID = ["Which tea?", "Is SECRET-2 hot?", "And SECRET-3?"]
TURNS = tuple(TopicTurn(number, said, f"Mate {number}.") for number, said in enumerate(SAID, 1))
TEA = Conversation("1-1", "Choosing a tea", {"1": "I sleep badly."}, TURNS)
ALONE = Conversation("2-1", "Trams", {}, (TopicTurn(1, "Trams?", "Yes."),))


class Listens:
    identity = "listens"

    def __init__(self):
        self.heard = {}

    def say(self, situation):
        self.heard[situation.qid] = situation
        return f"turn {situation.turn}"


def test_each_utterance_but_the_first_is_said_from_the_turns_before():
    player = Listens()
    found = predict_utterances([TEA, ALONE], player)
    assert found.to_dict("list") == {"qid": ["1-1_2", "1-1_3"], "human": SAID[1:], "said": ["turn 2", "turn 3"]}
    assert [one["content"] for one in player.heard["1-1_3"].read] == [SAID[0], "Mate 1.", SAID[1], "Mate 2."]
    assert {(*one.user.persona, one.user.need, *one.open.values()) for one in player.heard.values()} == {
        ("I sleep badly.", "Choosing a tea", "Choosing a tea")
    }


class Answers(Backend):
    """Gives all the same answer and remembers the prompts. It replays: the track's policy has one candidate, and nothing is asked twice."""

    model, identity, replays = "answers", {"provider": "fake"}, True

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def complete(self, requests):
        self.asked.extend(request.messages[0]["content"] for request in requests)
        return [self.answer for _ in requests]


@pytest.mark.parametrize("policy", ["need", "track"])
def test_a_model_reads_nothing_of_the_turn_or_of_a_later_one(policy):
    backend = Answers(Reply("Hot?", "answers", "stop"))
    assert predict_utterances([TEA], LLM(backend), users_by=policy)["said"].tolist() == ["Hot?"] * 2
    second, third = sorted(backend.asked, key=lambda prompt: "Mate 2." in prompt)
    assert ("SECRET" in second, "SECRET-2" in third, "SECRET-3" in third, "Mate 3." in third) == (False, True, False, False)
    assert "I sleep badly." in second


def test_no_utterance_is_an_empty_one_and_a_model_that_cannot_be_asked_is_an_error():
    assert predict_utterances([TEA], LLM(Answers(Reply("I want to", "answers", "length"))))["said"].tolist() == ["", ""]
    with pytest.raises(LLMFailure, match="no key"):
        predict_utterances([TEA], LLM(Answers(LLMFailure("simulate_user", "1-1_2", "no key"))))


def test_scores_of_pairs_by_hand():
    human = ["How hot is it, is it?", "Tell me more.", "Yes.", "Is it hot?"]
    said = ["Is it hot?", "Which one is it?", "", "Is it hot?"]
    found = compare_utterances(human, said)
    # how hot is it is it (6) and is it hot (3) share is, it, hot: 2 * 3 / 9
    assert found["overlap"].tolist() == pytest.approx([2 / 3, 0, 0, 1])
    assert found["length"].tolist() == pytest.approx([3 / 6, 3 / 4, 0, 1])
    assert found["kind"].tolist() == [True, False, True, True]
    assert found[["words", "question"]].values.tolist() == [[3, True], [4, True], [0, False], [3, True]]
    first, _, empty, same = found["similarity"]
    assert (empty, same) == (0, pytest.approx(1, abs=1e-4))
    assert 0.3 < first < same


def test_a_conversation_without_a_title_is_named():
    with pytest.raises(DataError, match="conversation 3-1 has no title"):
        predict_utterances([Conversation("3-1", "", {}, TURNS)], Listens())
