"""Rare words of the track's server: repeated questions, line separators, refusals without end."""

import json
import warnings

import httpx
import pytest
from test_interact import EVERY, Model, play, said
from test_interact_harness import Answers, live, quick  # noqa: F401
from track_server import NEW, Refused, Track

from pyterrier_ikat.live.interactive import track_server
from pyterrier_ikat.live.interactive.track_server import (
    Dumped,
    ServerRefusal,
    TrackServer,
    UserMessage,
    cut_to_tokens,
)

ONE = (("1-1", "ann", ("Which tea?", "And now?")),)
LINES = "one\u2028two\x85three"


def test_a_question_asked_again_is_another_turn():
    history = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    fields = {"topic_id": "1-1", "user_id": "ann", "utterance": "Why?", "history": history}
    fields |= {"last_response_of_session": False, "last_response_of_run": False}
    message = UserMessage.of(fields)
    assert message.messages == [*history, {"role": "user", "content": "Why?"}]
    assert message.position == ("1-1", 2, False)


def server_of(monkeypatch, status, text, **options):
    monkeypatch.setenv("IKAT_TOKEN", "tok-1")
    answer = httpx.MockTransport(lambda request: httpx.Response(status, text=text))
    return TrackServer("https://host/sim", "mine", transport=answer, **options)


def test_a_line_of_a_dump_ends_where_json_ends(monkeypatch):
    responses = [{"user_utterance": "Why?", "text": LINES}]
    entries = [
        {"metadata": {"topic_id": "1-1_1"}, "responses": responses},
        {"metadata": {"topic_id": "1-1_2"}, "responses": responses},
    ]
    text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    assert server_of(monkeypatch, 200, text).dumped() == [Dumped("1-1", "Why?", LINES)] * 2


def test_words_of_a_server_command_no_terminal(monkeypatch):
    with pytest.raises(ServerRefusal) as raised:
        server_of(monkeypatch, 403, "no\x1b[2J\u202e way").team()
    for code in ("\x1b", "\u202e"):
        assert code not in str(raised.value)
    assert "(403: no [2J" in raised.value.why
    assert raised.value.status == 403
    with pytest.raises(ServerRefusal) as raised:
        server_of(monkeypatch, 400, "bad").team()
    assert raised.value.status == 400


class NeverShort(Track):
    """Finds every response too long."""

    def check(self, body):
        if body["response"]:
            raise Refused(422, "Response is too long.")


def test_a_response_that_never_fits_is_sent_three_times(tmp_path, monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    track = NeverShort(ONE)
    with pytest.raises(ServerRefusal, match="refuses run/continue .422: .*too long"):
        live(track, tmp_path / "run", Answers())
    assert track.calls.count("/run/continue") == 3


def test_a_debug_run_goes_on_after_a_lost_reply_and_has_no_dump(tmp_path):
    for fault in ("500 after", "drop after", "drop before", "slow after"):
        track = Track(ONE, faults=["", fault])
        folder = tmp_path / fault.replace(" ", "-")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = play(track, folder, debug=True)
        assert run.finished
        dumped = track.debugged["mine"].dumped
        assert [entry["user_utterance"] for entry in dumped] == ["Which tea?", "And now?"]
        assert not (folder / "dump.json").exists()


def test_a_dump_is_written_anew_by_each_call(tmp_path):
    track = Track(ONE, form=NEW)
    for _ in range(2):
        play(track, tmp_path / "run")
        assert len(json.loads((tmp_path / "run" / "dump.json").read_text())) == 3


def test_as_many_conversations_as_asked_for_and_no_more(tmp_path):
    track = Track()
    model = Model()
    for sessions, turns in [(1, 3), (1, 3), (2, 4), (5, 6)]:
        run = play(track, tmp_path / "run", model, sessions=sessions)
        assert said(track.taken) == EVERY[:turns]
        assert run.finished == (sessions == 5)
    assert len(model.asked) == 6


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("Ask Mr. Smith. He knows it.", 4, "Ask Mr. Smith."),
        ("It is 9 a.m. now. Come in.", 4, "It is 9 a.m."),
        ("Tea. It costs 3.5 euros.", 4, "Tea."),
        ("One two three", 3, "One two three"),
        ("One two three", 2, "One two"),
        ("Tea.\n\nMint is green.", 4, "Tea."),
        ("Tea. Mint. Sage.", 4, "Tea. Mint."),
        ("Tea. Mint. Sage.", 6, "Tea. Mint. Sage."),
        ("Tea. Mint. Sage.", 1, "Tea"),
    ],
)
def test_a_cut_keeps_whole_sentences_where_there_is_one(monkeypatch, text, limit, kept):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    assert cut_to_tokens(text, limit) == kept


class Token(str):
    idx = 0


def words_of(text):
    """Words and the points behind them, but for those of 3.5, Mr. and a.m."""
    tokens = []
    at = 0
    for word in text.split():
        at = text.index(word, at)
        parts = [word]
        if word[-1] == "." and word not in ("Mr.", "a.m."):
            parts = [word[:-1], "."]
        for part in parts:
            token = Token(part)
            token.idx = at
            at += len(part)
            tokens.append(token)
    return tokens
