"""Served conversations as logs: where the operator asks and the client names them."""

import json
import logging
import os
import re
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from packed_page import packed_turns
from talking import Client, Talks, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.live.serving import running, service
from pyterrier_ikat.live.serving.requests import ChatRequest, read
from pyterrier_ikat.live.serving.service import SavedConversations, open_served, safe_name
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import Log, Turn
from pyterrier_ikat.show import report
from pyterrier_ikat.store.files import lock_folders

NAMED = {"metadata": {"chat_id": "7d1-a", "ptkb": ["I like tea."]}}


@pytest.fixture
def client(tmp_path):
    """A client of a server that saves conversations with two systems, which say what they must."""
    application = served(
        {"talks": Talks("Rooibos."), "other": Talks("Mate.")}, out=tmp_path / "served"
    )
    yield Client(application)
    application.state.saved.close()


def log_of(tmp_path, name="talks"):
    return Log(tmp_path / "served" / name)


def logged(tmp_path, name="talks"):
    """Session -> its turns as (number, words, response)."""
    conversations = {}
    for one in log_of(tmp_path, name).dialogues():
        turns = [(turn.number, turn.utterance, turn.response) for turn in one.turns]
        conversations[one.session] = turns
    return conversations


def test_a_conversation_that_its_client_names_is_a_log(client, tmp_path):
    _, first = client.chat(says("Which tea?", **NAMED))
    said = first["choices"][0]["message"]["content"]
    _, second = client.chat(says("Which tea?", said, "And cold?", **NAMED))
    assert (first["ikat"]["saved"], second["ikat"]["saved"], second["ikat"]["ignored"]) == (
        True,
        True,
        [],
    )
    assert logged(tmp_path) == {
        "7d1-a": [(1, "Which tea?", "Rooibos."), (2, "And cold?", "Rooibos.")]
    }
    assert stat.S_IMODE(log_of(tmp_path).path.stat().st_mode) == 0o600
    (one,) = log_of(tmp_path).dialogues()
    assert (one.more["ptkb"], log_of(tmp_path).header["kind"]) == ({"1": "I like tea."}, "served")
    turn = one.turns[1]
    assert ([source.docno for source in turn.sources], turn.method) == (
        ["d1-And cold?", "d2-And cold?"],
        "talks",
    )
    assert {source.text for source in turn.sources} == {""}
    assert logged(tmp_path, "other") == {}


def test_without_a_name_or_without_the_option_nothing_is_stored(client, tmp_path):
    for body in (says("Which tea?"), says("Which tea?", metadata={"chat_id": ""})):
        status, answer = client.chat(body)
        assert (status, answer["ikat"]["saved"]) == (200, False)
    assert logged(tmp_path) == {}
    before = sorted(tmp_path.rglob("*"))
    _, answer = Client(served()).chat(
        says("Which tea?", **NAMED), headers={"X-OpenWebUI-Chat-Id": "7d1-a"}
    )
    assert answer["ikat"]["saved"] is False
    assert sorted(tmp_path.rglob("*")) == before


ODD = [
    "room:7",
    "a/b",
    "../up",
    "café",
    "chat 7",
    "x" * 101,
    "x" * 5000,
    "-",
    "日本",
    "{7d1}",
    "user@host",
    "a\nb",
]


def test_a_conversation_is_saved_apart_under_any_client_name(client, tmp_path):
    for number, name in enumerate(ODD):
        for words in ([f"Which tea? {number}"], [f"Which tea? {number}", "Rooibos.", "And cold?"]):
            status, answer = client.chat(says(*words, metadata={"chat_id": name}))
            assert (status, answer["ikat"]["saved"]) == (200, True), name
    client.chat(says("Which tea?", metadata={"chat_id": "room 7"}))  # almost the first one
    *of_odd, almost_first = logged(tmp_path).values()
    assert len(of_odd) == len(ODD)
    for number, turns in enumerate(of_odd):
        assert [words for _, words, _ in turns] == [f"Which tea? {number}", "And cold?"]
    assert [words for _, words, _ in almost_first] == ["Which tea?"]
    client.application.state.saved.close()
    topics = json.loads((tmp_path / "served" / "talks" / "topics.json").read_text())
    assert len({topic["number"] for topic in topics}) == len(ODD) + 1
    assert {path.parent for path in tmp_path.rglob("*.json*")} == {
        tmp_path / "served" / "talks",
        tmp_path / "served" / "other",
    }


def test_open_web_ui_s_header_names_a_conversation_too(client, tmp_path):
    client.chat(says("Which tea?"), headers={"X-OpenWebUI-Chat-Id": "9"})
    assert list(logged(tmp_path)) == ["9"]


OF_TEA = (1, "Which tea?", "Rooibos.")
TITLE = "### Task: write a title"
TAGS = "### Task: write tags"


@pytest.mark.parametrize(
    ("requests", "sessions"),
    [
        (  # the user has changed a question
            [
                ["Which tea?"],
                ["Which tea?", "Rooibos.", "Cold?"],
                ["Which tea?", "Rooibos.", "Cold?", "Rooibos.", "Why?"],
            ]
            + [["Which tea?", "Rooibos.", "Hot?"]],
            {"7d1-a": [OF_TEA, (2, "Hot?", "Rooibos.")]},
        ),
        (
            [["Which tea?"], ["Which tea?", "Rooibos.", "Cold?"], ["Which tea?"]],
            {"7d1-a": [OF_TEA]},
        ),
        (  # what begins with another question is another conversation
            [["Which tea?"], [TITLE], [TAGS], [TITLE], ["Which tea?", "Rooibos.", "Cold?"]],
            {
                "7d1-a": [OF_TEA, (2, "Cold?", "Rooibos.")],
                "7d1-a.2": [(1, TITLE, "Rooibos.")],
                "7d1-a.3": [(1, TAGS, "Rooibos.")],
            },
        ),
        (  # turns that were answered elsewhere are as the client tells them
            [["Hi.", "Hello.", "Which tea?", "Mate.", "Cold?"]],
            {"7d1-a": [(1, "Hi.", "Hello."), (2, "Which tea?", "Mate."), (3, "Cold?", "Rooibos.")]},
        ),
        (  # an edit that was undone
            [
                ["Which tea?"],
                ["Which tea?", "Rooibos.", "Cold?"],
                ["Which tea?", "Rooibos.", "Hot?"],
                ["Which tea?", "Rooibos.", "Cold?", "Mate.", "Why?"],
            ],
            {"7d1-a": [OF_TEA, (2, "Cold?", "Mate."), (3, "Why?", "Rooibos.")]},
        ),
        # other answers in the history do not replace the system's own
        (
            [["Which tea?"], ["Which tea?", "Mate.", "Cold?"]],
            {"7d1-a": [OF_TEA, (2, "Cold?", "Rooibos.")]},
        ),
    ],
)
def test_the_log_follows_the_conversation_as_its_user_has_it(client, tmp_path, requests, sessions):
    for words in requests:
        client.chat(says(*words, **NAMED))
    assert logged(tmp_path) == sessions
    methods = [turn.method for turn in log_of(tmp_path).dialogues()[0].turns]
    assert methods == ["talks" if said == "Rooibos." else "" for _, _, said in sessions["7d1-a"]]


def test_reports_chats_and_runs_read_what_a_server_saved(tmp_path):
    systems = {"talks": Talks("Rooibos."), "other": Talks("Mate.")}
    with running(systems, out=tmp_path / "served") as server:
        assert [note for note in server.notes if "saved in" in note]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            for model, name in (("talks", "a"), ("other", "a"), ("talks", "b")):
                told = {"chat_id": name, "ptkb": "I like tea."}
                reply = client.chat.completions.create(
                    model=model, messages=says("Tea?")["messages"], metadata=told
                )
                assert reply.ikat["saved"]
        with (
            pytest.raises(ikat.UsageError, match="is being made by"),
            running(systems, out=tmp_path / "served"),
        ):
            pass
        with pytest.raises(ikat.UsageError, match="talks is being made by"):
            Chat(Talks("Mint."), continue_from=tmp_path / "served" / "talks", number="b")
    folders = [tmp_path / "served" / name for name in systems]
    said = str(packed_turns(report(folders).html))
    assert "Rooibos." in said
    assert "Mate." in said
    first, second = read_topics(folders[0] / "topics.json")
    assert (first.number, first.ptkb) == ("a", {"1": "I like tea."})
    assert first.turns[0].response == "Rooibos."
    assert (second.number, second.ptkb) == ("b", {"1": "I like tea."})
    assert second.turns[0].response == "Rooibos."
    assert ikat.dataset(folders[0] / "topics.json").get_topics()["qid"].tolist() == ["a_1", "b_1"]
    with pytest.raises(
        ikat.UsageError, match=r"holds 2 conversations \(a, b\): choose one with number"
    ):
        Chat(Talks("Mint."), continue_from=folders[0])
    chat = Chat(Talks("Mint."), continue_from=folders[0], number="b")
    assert (chat.ptkb, [turn.response for turn in chat.turns]) == (
        {"1": "I like tea."},
        ["Rooibos."],
    )
    chat.say("Cold?")
    first, second = read_topics(folders[0] / "topics.json")
    assert [turn.response for turn in first.turns] == ["Rooibos."]
    assert [turn.response for turn in second.turns] == ["Rooibos.", "Mint."]
    with running(systems, out=tmp_path / "served"):
        pass  # the server goes on with it
    assert logged(tmp_path)["b"] == [(1, "Tea?", "Rooibos."), (2, "Cold?", "Mint.")]
    with (
        pytest.raises(ikat.UsageError, match="holds other conversations"),
        running({"talks": Talks("x") >> Talks()}, out=folders[0].parent),
    ):
        pass


def test_a_server_that_was_killed_at_any_byte_goes_on(client, tmp_path):
    client.chat(says("Which tea?", **NAMED))
    first = log_of(tmp_path).path.stat().st_size
    client.chat(says("Which tea?", "Rooibos.", "And cold?", **NAMED))
    whole = log_of(tmp_path).path.stat().st_size
    for size in (first, first + 1, (first + whole) // 2, whole - 1, whole):
        killed = tmp_path / str(size) / "served"
        shutil.copytree(tmp_path / "served", killed)
        os.truncate(killed / "talks" / "log.jsonl", size)
        again = served({"talks": Talks("Rooibos."), "other": Talks("Mate.")}, out=killed)
        (topic,) = json.loads((killed / "talks" / "topics.json").read_text())
        assert [turn["utterance"] for turn in topic["turns"]] == ["Which tea?", "And cold?"][
            : 1 + (size == whole)
        ]
        Client(again).chat(says("Which tea?", "Rooibos.", "And cold?", **NAMED))
        again.state.saved.close()
        assert logged(tmp_path / str(size)) == {
            "7d1-a": [(1, "Which tea?", "Rooibos."), (2, "And cold?", "Rooibos.")]
        }


def test_a_log_that_cannot_be_written_costs_no_answer(client, tmp_path, caplog, monkeypatch):
    client.chat(says("Which tea?", **NAMED))

    def full(path, line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyterrier_ikat.runs.log.append_line", full)
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        status, answer = client.chat(says("A secret question?", **NAMED))
    assert (status, answer["ikat"]["saved"]) == (200, False)
    assert re.search(r"a conversation with talks can't be saved", caplog.text)
    assert "secret" not in caplog.text


def test_many_at_once_are_each_in_their_own_conversation(tmp_path):
    with running({"talks": Talks()}, out=tmp_path / "served") as server:

        def talk(person):
            with openai.OpenAI(
                base_url=f"{server.url}/v1", api_key="none", max_retries=0
            ) as client:
                said = []
                for turn in range(3):
                    said.append({"role": "user", "content": f"Person {person}, question {turn}?"})
                    reply = client.chat.completions.create(
                        model="talks", messages=said, metadata={"chat_id": f"p{person}"}
                    )
                    said.append({"role": "assistant", "content": reply.choices[0].message.content})

        with ThreadPoolExecutor(6) as people:
            list(people.map(talk, range(6)))
    found = logged(tmp_path)
    assert sorted(found) == ["p0", "p1", "p2", "p3", "p4", "p5"]
    for person in range(6):
        turns = found[f"p{person}"]
        assert [number for number, _, _ in turns] == [1, 2, 3]
        for number, words, response in turns:
            assert words == f"Person {person}, question {number - 1}?"
            assert json.loads(response)[2] == words
            assert f"Person {person}," in response


# Names of conversations


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("a", True), ("7.x_-y", True), ("a" * 100, True), ("a" * 101, False), ("-a", False)]
    + [(".a", False), ("a b", False), ("é", False), ("a\n", False)],
)
def test_a_name_is_kept_if_it_can_be_part_of_a_qid(name, is_kept):
    safe = safe_name(name)
    if is_kept:
        assert safe == name
        return
    beginning = re.sub("[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "chat"
    assert re.fullmatch(f"{re.escape(beginning)}-[0-9a-f]{{16}}", safe)
    assert safe_name(f"{name}!") != safe


def test_half_a_character_in_a_name_is_saved_under_another():
    assert safe_name("\ud800a") != safe_name("\ud801a")


def test_the_body_names_a_conversation_before_the_header(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    named = says("Which tea?", metadata={"chat_id": "body"})
    Client(made).chat(named, headers={"x-openwebui-chat-id": "header"})
    Client(made).chat(says("Which tea?"), headers={"x-openwebui-chat-id": "header"})
    made.state.saved.close()
    assert list(Log(tmp_path / "talks").known) == ["body", "header"]


def question(*texts, ptkb=()):
    roles = ["user", "assistant"] * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return read(ChatRequest, {"messages": messages, "metadata": {"ptkb": list(ptkb)}})


def test_each_beginning_is_a_conversation_of_its_own(tmp_path):
    saved = SavedConversations(tmp_path, open_served({"a": Talks("Mint.")}, Ledger()))

    def save(*texts, response="So."):
        turn = saved.save("a", "mine", question(*texts), Turn(9, texts[-1], response))
        assert turn.more == {"saved": True}

    save("One?")
    save("Other?")
    save("Third?")
    save("Other?", "So.", "And?")
    save("Third?", "Else.", "Now?", "Told.", "Then?")
    save("One?", "So.", "And?")
    save("One?", response="Again.")
    said = {}
    for name, dialogue in Log(tmp_path / "a").known.items():
        said[name] = [(turn.number, turn.utterance, turn.response) for turn in dialogue.turns]
    assert said == {
        "mine": [(1, "One?", "Again.")],
        "mine.2": [(1, "Other?", "So."), (2, "And?", "So.")],
        "mine.3": [(1, "Third?", "So."), (2, "Now?", "Told."), (3, "Then?", "So.")],
    }
    saved.close()
    assert (tmp_path / "a" / "topics.json").exists()


# What is saved, and what can't be


def test_a_streamed_answer_is_saved_too(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    body = says("Which tea?", stream=True, metadata={"chat_id": "mine", "theme": "dark"})
    _, _, content = Client(made).ask("POST", "/v1/chat/completions", body)
    facts = events(content)[-1]["ikat"]
    assert (facts["saved"], facts["ignored"]) == (True, ["metadata.theme"])
    made.state.saved.close()
    [dialogue] = Log(tmp_path / "talks").dialogues()
    assert [turn.response for turn in dialogue.turns] == ["Mint."]
    assert Log(tmp_path / "talks").header["recorded"] is False


def test_a_changed_persona_is_logged_before_its_turn(tmp_path):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    client = Client(made)
    first = ("Which tea?", "Mint.", "And hot?")
    for words, ptkb in [(first[:1], ["I run."]), (first, ["I run.", "I cook."])]:
        client.chat(says(*words, metadata={"chat_id": "mine", "ptkb": ptkb}))
    made.state.saved.close()
    log = Log(tmp_path / "talks")
    assert log.known["mine"].more["ptkb"] == {"1": "I run.", "2": "I cook."}
    kinds = [event["event"] for event in log.events()]
    assert kinds[1:] == ["session", "turn", "session", "turn"]
    assert [turn.number for turn in log.known["mine"].turns] == [1, 2]


def test_a_server_that_was_asked_nothing_has_no_topics(tmp_path):
    SavedConversations(tmp_path, open_served({"a": Talks("Mint.")}, Ledger())).close()
    assert not (tmp_path / "a" / "topics.json").exists()


def test_a_folder_that_another_server_holds_holds_up_no_other(tmp_path):
    systems = open_served({"a": Talks("Mint."), "b": Talks("Sage.")}, Ledger())
    with lock_folders(tmp_path / "b"), pytest.raises(ikat.UsageError):
        SavedConversations(tmp_path, systems)
    saved = SavedConversations(tmp_path, systems)
    for name in systems:
        with pytest.raises(ikat.UsageError), lock_folders(tmp_path / name):
            pass
    saved.close()
    with lock_folders(tmp_path / "a", tmp_path / "b"):
        pass
    headers = [Log(tmp_path / name).header for name in systems]
    assert [(header["kind"], header["system"]) for header in headers] == [
        ("served", "a"),
        ("served", "b"),
    ]


def test_a_topics_file_that_cannot_be_written_is_told(tmp_path, monkeypatch, caplog):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)
    Client(made).chat(says("Which tea?", metadata={"chat_id": "mine"}))

    def full(*_):
        raise UsageError("the disk is full")

    monkeypatch.setattr(service, "write_topics", full)
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        made.state.saved.close()
    assert "no topics file of the conversations with talks: the disk is full" in caplog.text
    with pytest.raises(UsageError):
        served({"a/b": Talks("Mint.")}, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), ": No space left on device"),
        (UsageError("the log has gone"), ": the log has gone"),
    ],
)
def test_an_answer_that_cannot_be_saved_is_answered(tmp_path, monkeypatch, caplog, error, told):
    made = served({"talks": Talks("Mint.")}, out=tmp_path)

    def fails(*_):
        raise error

    monkeypatch.setattr(Log, "note", fails)
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        status, answer = Client(made).chat(says("Which tea?", metadata={"chat_id": "mine"}))
    assert (status, answer["ikat"]["saved"], answer["ikat"]["response"]) == (200, False, "Mint.")
    assert f"a conversation with talks can't be saved{told}" in caplog.text
