"""OpenAI's chat protocol: requests, answers, and what never reaches a prompt."""

import json
from pathlib import Path

import pyterrier as pt
import pytest
from fakes import Types
from openai.types.chat import ChatCompletion
from talking import PASSAGES, Client, Talks, content_of, events, heard, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Reply


def test_an_answer_has_openai_s_form_and_its_passages(client):
    status, answer = client.chat(says("Which tea?"))
    assert (status, answer["model"], set(answer["usage"].values())) == (200, "talks", {0})
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert content_of(answer) == '[{}, [], "Which tea?"]\n\nSources: [1][2]'
    assert answer["citations"] == [
        {
            "id": "d1-Which tea?",
            "title": PASSAGES["d1"],
            "text": PASSAGES["d1"],
            "score": 2.0,
            "url": "urn:passage:d1-Which%20tea%3F",
        },
        {
            "id": "d2-Which tea?",
            "title": PASSAGES["d2"],
            "text": PASSAGES["d2"],
            "score": 1.0,
            "url": "urn:passage:d2-Which%20tea%3F",
        },
    ]
    assert answer["ikat"].keys() >= {
        "rewrite",
        "queries",
        "statements",
        "draft",
        "seconds",
        "calls",
        "known",
        "tokens",
        "cost",
        "omitted",
    }


U = "user"
A = "assistant"
SAID = [(U, "Tea?"), (A, "Mate.")]
TOLD = [(A, "Hi!"), (U, "Hi"), (U, "Tea?")]
CALL = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather"}}]}
CALLED = [(U, "Tea?"), (A, None, CALL), ("tool", "cold", {"tool_call_id": "1"})]
PARTS = [{"type": "text", "text": "And"}, {"type": "text", "text": "cold?"}]


@pytest.mark.parametrize(
    ("said", "history", "question", "ignored"),
    [
        (
            [("system", "You are a pirate."), *SAID, (U, PARTS)],
            SAID,
            "And\ncold?",
            ["[0] (system)"],
        ),
        # consecutive messages stay, and an empty answer says nothing
        ([*TOLD, (A, None), (U, "And now?")], TOLD, "And now?", ["[3] (assistant)"]),
        # calls of tools and their results are no part of the conversation
        (CALLED, [], "Tea?", ["[1] (assistant)", "[2] (tool)"]),
        ([*CALLED, (A, "Mate."), (U, "Hot?")], SAID, "Hot?", ["[1] (assistant)", "[2] (tool)"]),
    ],
)
def test_messages_are_the_history_and_instructions_are_ignored(
    client, said, history, question, ignored
):
    messages = [{"role": role, "content": text} | dict(*more) for role, text, *more in said]
    asked = {
        "temperature": 0.2,
        "metadata": {"ptkb": ["I like tea."], "chat_id": "7"},
        "top_p": None,
    }
    status, answer = client.chat(says(**asked) | {"messages": messages})
    wanted = [
        {"1": "I like tea."},
        [{"role": role, "content": text} for role, text in history],
        question,
    ]
    assert (status, heard(answer)) == (200, wanted)
    assert answer["ikat"]["ignored"] == [*(f"messages{one}" for one in ignored), "temperature"]


@pytest.mark.parametrize("model", ["talks", "ranks"])
def test_the_additions_of_the_server_are_not_part_of_the_history(client, model):
    _, answer = client.chat(says("Which tea?", model=model))
    _, after = client.chat(says("Which tea?", content_of(answer), "And now?"))
    said = [{"role": "user", "content": "Which tea?"}]
    said += [{"role": "assistant", "content": '[{}, [], "Which tea?"]'}] if model == "talks" else []
    assert heard(after)[1] == said


def test_a_method_without_responses_shows_passage_beginnings(client):
    _, answer = client.chat(says("Which tea?", model="ranks"))
    assert content_of(answer).split("\n\n") == [
        "(This method writes no response. Its best passages:)",
        "[1] Rooibos has no caffeine.",
        "[2] Mint is a herb.",
    ]
    _, _, models = client.ask("GET", "/v1/models")
    writes_response = {one["id"]: one["writes_response"] for one in json.loads(models)["data"]}
    assert writes_response == {"talks": True, "ranks": False}


@pytest.mark.parametrize(
    ("said", "shown", "docnos"),
    [
        ("Rooibos [2].", "Rooibos. [1]", ["d2"]),
        ("Rooibos [2, 1]. Mint [1][7].", "Rooibos. [1][2] Mint. [2]", ["d2", "d1"]),
        ("Rooibos [7].", "Rooibos.", []),
        ("Rooibos in [2023].", "Rooibos in [2023].", []),
    ],
)
def test_what_the_model_cites_is_sent_with_its_passages(said, shown, docnos):
    client = Client(
        served(
            {"talks": Talks("A draft.") >> ikat.Respond(LLM(Types([Reply(said)], [Reply(said)])))}
        )
    )
    _, answer = client.chat(says("Which tea?"))
    assert content_of(answer) == shown
    assert [one["id"][:2] for one in answer["citations"]] == docnos
    facts = answer["ikat"]
    assert (facts["unknown"], facts["cites_none"], len(facts["shown"])) == (
        [7] * ("7]" in said),
        not docnos,
        2 * (not docnos),
    )
    assert "[1]" not in facts["response"]
    *_, last = events(
        client.ask("POST", "/v1/chat/completions", says("Which tea?", stream=True))[2]
    )
    assert last["ikat"]["html"].count("<button") == shown.count("[1]") + shown.count("[2]")


def test_sources_are_annotations_as_openai_sends_them():
    linked = Talks("Rooibos.") >> pt.apply.generic(
        lambda frame: frame.assign(url=["https://tea.example/1", ""] * (len(frame) // 2))
    )
    client = Client(served({"talks": linked}))
    _, answer = client.chat(says("Which tea?"))
    message = answer["choices"][0]["message"]
    cited = [one["url_citation"] for one in message["annotations"]]
    shown = []
    for one in cited:
        mark = message["content"][one["start_index"] : one["end_index"]]
        shown.append((mark, one["url"], one["title"]))
    assert shown == [
        ("[1]", "https://tea.example/1", "Rooibos has no caffeine."),
        ("[2]", "urn:passage:d2-Which%20tea%3F", "Mint is a herb."),
    ]
    ChatCompletion.model_validate(answer, strict=True)
    *_, last = events(
        client.ask("POST", "/v1/chat/completions", says("Which tea?", stream=True))[2]
    )
    assert last["choices"][0]["delta"]["annotations"] == message["annotations"]


@pytest.mark.parametrize(
    ("ptkb", "known"),
    [
        (["I run.", "I cook."], {"1": "I run.", "2": "I cook."}),
        ({"1": "I run.", "b": "I cook."}, {"1": "I run.", "b": "I cook."}),
        ("I run.\n\n I cook. ", {"1": "I run.", "2": "I cook."}),
        ('["I run.", "I cook."]', {"1": "I run.", "2": "I cook."}),
        (None, {}),
        ([], {}),
        ("", {}),
    ],
)
def test_statements_come_in_every_form(client, ptkb, known):
    assert heard(client.chat(says("Which tea?", metadata={"ptkb": ptkb}))[1])[0] == known


REQUESTS = Path(__file__).with_name("client_requests.jsonl").read_text(encoding="utf-8")
RECORDED = [json.loads(line) for line in REQUESTS.splitlines()]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: f"{one['client']}: {one['call']}")
def test_client_requests_are_answered_unless_for_a_call_or_json(client, recorded):
    status, headers, content = client.ask("POST", "/v1/chat/completions", recorded["body"])
    if recorded["refused"]:
        assert (status, json.loads(content)["error"]["param"].partition(".")[0]) == (
            400,
            recorded["refused"],
        )
        return
    assert status == 200
    answer = (
        next(one for one in events(content) if "citations" in one)
        if recorded["body"].get("stream")
        else json.loads(content)
    )
    of_user = [one for one in recorded["body"]["messages"] if one["role"] == "user"]
    assert heard(answer)[2] == of_user[-1]["content"]
    assert ("tools" in answer["ikat"]["ignored"]) == ("tools" in recorded["body"])


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [("text", 5, "5"), ("qanswer", 7, "7"), ("text", None, ""), ("score", float("nan"), None)],
)
def test_cells_of_other_kinds_become_text_and_missing_ones_stay(column, value, shown):
    system = Talks() >> pt.apply.generic(lambda frame: frame.assign(**{column: value}))
    status, answer = Client(served({"talks": system})).chat(says("Hi"))
    found = answer["ikat"]["response"] if column == "qanswer" else answer["citations"][0][column]
    assert (status, found) == (200, shown)


@pytest.mark.parametrize(
    "task", ["### Task:\nName this chat.\n<chat_history>\n{}\n</chat_history>", "{}"]
)
def test_what_a_page_asks_for_itself_reaches_no_system(client, talks, task):
    words = task.format(
        "Provide a concise, 5-word-or-less title for the conversation, please.\nUSER: Which tea?"
    )
    before = len(talks.seen)
    status, answer = client.chat(says(words))
    assert (status, answer["error"]["param"], len(talks.seen)) == (400, "messages", before)
    assert client.chat(says("Which tea?", "Rooibos.", words))[0] == 200  # a user's own words
    assert client.chat(says("### Task:\nAnswer from <context>tea</context>: which?"))[0] == 200
