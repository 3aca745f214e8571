"""The dumps of the real servers: both forms are read, and an unknown form is an error."""

import json
from itertools import groupby
from pathlib import Path

import pytest
from playing import server_of
from track_server import NEW, OLD, TOKEN, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.live.interactive.track_server import Dumped, read_dump

RECORDED = Path(__file__).parent / "recorded"


def recorded(name):
    lines = (RECORDED / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


def topic_of(entry):
    return entry["metadata"]["topic_id"].rpartition("_")[0]


def replayed(entries, form):
    """What the double dumps when it is told what the real server was told."""
    metadata = entries[0]["metadata"]
    given = [(topic_of(one), one["responses"][0]) for one in entries]
    name = "assistant_text" if form == NEW else "text"
    answered = []
    words = []
    for topic, one in given:
        if one[name] is None:
            words.append(one["user_utterance"])
        else:
            answered.append((topic, one))
    topics = []
    for topic, group in groupby(answered, lambda pair: pair[0]):
        topics.append((topic, "u", tuple(one["user_utterance"] for _, one in group)))

    track = Track(
        tuple(topics), form=form, last_words=words[0] if words else "", team=metadata["team_id"]
    )
    headers = {"authorization": f"Bearer {TOKEN}"}

    def send(call, **body):
        status, content, _ = track.handle(
            "POST", f"/run/{call}", {}, {"run_id": metadata["run_id"], **body}, headers
        )
        assert status == 200, content
        return content

    persona = bool(metadata["extra"]["track_persona"] if form == NEW else metadata["track_persona"])
    send(
        "start",
        description=metadata["description"],
        track_persona=persona,
        extra={"track_persona": persona},
    )
    for _, one in answered:
        kept = (one["assistant_meta"] if form == NEW else one)["ptkb_provenance"]
        cited = one["assistant_citations" if form == NEW else "citations"]
        reply = send(
            "continue",
            response=one[name],
            citations=cited,
            ptkb_provenance=kept,
            meta={"ptkb_provenance": kept},
        )
        if reply["last_response_of_session"] and not reply["last_response_of_run"]:
            send(
                "continue",
                response="",
                citations={},
                ptkb_provenance=[],
                meta={"ptkb_provenance": []},
            )
    lines = track.dump(track.runs[metadata["run_id"]]).split("\n")
    return [json.loads(line) for line in lines]


GRADES = ("user_meta", "user_rubrik", "user_rubrik_score")


def without_grades(entries):
    for entry in entries:
        for name in GRADES:
            if name in entry["responses"][0]:
                entry["responses"][0][name] = "..."
    return entries


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("scripted-2026-02.jsonl", OLD),
        ("scripted-2026-04.jsonl", NEW),
        ("guided-2026-04.jsonl", NEW),
    ],
)
def test_the_double_writes_the_dumps_that_the_real_servers_wrote(name, form):
    entries = recorded(name)
    assert len(entries) == 10  # seven responses, three farewells
    assert without_grades(replayed(entries, form)) == without_grades(entries)


@pytest.mark.parametrize(("month", "form", "many"), [("02", OLD, 6), ("04", NEW, 10)])
def test_the_double_writes_the_released_dumps(ikat_data, month, form, many):
    path = ikat_data.parent / "simulated-user" / f"dump-of-the-server-of-2026-{month}.json"
    if not path.is_file():
        pytest.skip(f"there is no {path.name}")
    entries = json.loads(path.read_text())
    assert len(read_dump(entries)) == many
    for _, group in groupby(entries, lambda one: one["metadata"]["run_id"]):
        theirs = list(group)  # the first entries of a run, which may lack its farewell
        assert without_grades(replayed(theirs, form))[: len(theirs)] == without_grades(theirs)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({}, "KeyError"),
        ({"responses": [{"text": "Tea.", "assistant_text": "Tea."}]}, "ValueError"),
        (
            {
                "responses": [{"text": ["Tea."], "user_utterance": "?"}],
                "metadata": {"topic_id": "1-1_1"},
            },
            "TypeError",
        ),
        (
            {"responses": [{"text": "Tea.", "user_utterance": "?"}], "metadata": {"topic_id": 1}},
            "AttributeError",
        ),
    ],
)
def test_an_unknown_form_is_named(entry, told):
    with pytest.raises(
        ikat.DataError, match=f"entry 2 of the server's dump has an unknown form .*{told}"
    ):
        read_dump([recorded("scripted-2026-04.jsonl")[1], entry])


def test_an_entry_of_a_dump_has_one_response_and_one_text():
    def entry(*responses, topic="7-1_1"):
        return {"metadata": {"topic_id": topic}, "responses": list(responses)}

    words = {"user_utterance": "Why?"}
    good = entry({**words, "text": "So."})
    assert read_dump(iter([good, entry({**words, "assistant_text": None}, topic="7\x07_1_2")])) == [
        Dumped("7-1", "Why?", "So."),
        Dumped("7 _1", "Why?", None),
    ]
    for bad in (
        entry(),
        entry({**words, "text": "a"}, {**words, "text": "b"}),
        entry({**words, "text": "a", "assistant_text": "b"}),
        entry({**words, "words": "a"}),
        entry({**words, "text": 7}),
        entry({**words, "text": ["a"]}),
        entry({"text": "a"}),
        entry({**words, "text": "a"}, topic="71"),
        entry({**words, "text": "a"}, topic=None),
        "entry",
    ):
        with pytest.raises(DataError, match="entry 2 of the server's dump has an unknown form"):
            read_dump([good, bad])


def dumped(response, topic="1-1_2"):
    return {"metadata": {"topic_id": topic}, "responses": [response]}


@pytest.mark.parametrize(
    ("response", "topic", "expected"),
    [
        ({"user_utterance": "Why?", "text": "So."}, "1-1_2", ("1-1", "Why?", "So.")),
        ({"user_utterance": "Why?", "assistant_text": "So."}, "a_b_0", ("a_b", "Why?", "So.")),
        ({"user_utterance": "Bye.", "text": None}, "1-1_2", ("1-1", "Bye.", None)),
        ({"user_utterance": "Why?", "text": 7}, "1-1_2", None),
        ({"user_utterance": "Why?"}, "1-1_2", None),
        ({"user_utterance": "Why?", "text": "a", "assistant_text": "b"}, "1-1_2", None),
        ({"text": "So."}, "1-1_2", None),
        ({"user_utterance": "Why?", "text": "So."}, "11", None),
        ({"user_utterance": "Why?", "text": "So."}, "_1", None),
    ],
)
def test_entries_of_a_dump(response, topic, expected):
    entry = dumped(response, topic)
    if expected is None:
        with pytest.raises(DataError, match="entry 1 of the server's dump"):
            read_dump([entry])
    else:
        assert read_dump([entry]) == [Dumped(*expected)]
    with pytest.raises(DataError):
        read_dump([{**entry, "responses": [response, response]}])


LINES = "one\u2028two\x85three"


def test_a_line_of_a_dump_ends_where_json_ends(monkeypatch):
    responses = [{"user_utterance": "Why?", "text": LINES}]
    entries = [
        {"metadata": {"topic_id": "1-1_1"}, "responses": responses},
        {"metadata": {"topic_id": "1-1_2"}, "responses": responses},
    ]
    text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    assert server_of(monkeypatch, 200, text).dumped() == [Dumped("1-1", "Why?", LINES)] * 2
