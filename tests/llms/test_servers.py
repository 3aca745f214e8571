"""Several servers of one model: calls are spread, a dead one is left out and named, the cache knows them as one."""

import threading
import warnings

import pytest
from chat_server import DROP, ChatServer, ask, refused, said

from pyterrier_ikat.llms import FatalLLMError, Unavailable, llm
from pyterrier_ikat.llms.limits import Retry
from pyterrier_ikat.llms.openai import FAILURES, ServerLeftOutWarning


@pytest.fixture
def other():
    chat_server = ChatServer()
    yield chat_server
    chat_server.http.shutdown()
    chat_server.http.server_close()


def both(server, other, options="cache=none", retries=5):
    made = llm(f"openai:m base_url={server.url},{other.url} {options}")
    made.retry = Retry(tries=1 + retries, sleep=lambda seconds: None)
    return made


def test_calls_are_spread_evenly(server, other):
    arrived = threading.Barrier(8)

    def together(body):
        arrived.wait(120)
        return said()

    made = both(server, other, "concurrency=8 cache=none")
    made.ask(ask("first"))
    server.respond = other.respond = together
    before = server.calls + other.calls
    assert all(completion.text == "fine" for completion in made.ask(ask(*map(str, range(8)))))
    assert server.calls + other.calls - before == 8
    assert (server.most, other.most) == (4, 4)


def test_a_dead_server_is_left_out_named_and_loses_nothing(server, other):
    made = both(server, other, "concurrency=4 cache=none")
    server.respond = lambda body: DROP
    with pytest.warns(ServerLeftOutWarning) as warned:
        completions = made.ask(ask(*map(str, range(40))))
    assert [completion.text for completion in completions] == [f"answer to {number}" for number in range(40)]
    assert len(warned) == 1
    assert str(warned[0].message).startswith(f"{server.url} gets no more calls after 3 failures in a row (no connection to {server.url}: ")
    assert str(warned[0].message).endswith(f"they go to {other.url}")
    assert FAILURES <= server.calls <= FAILURES + 4
    before = server.calls
    made.ask(ask("later stage"))
    assert server.calls == before


def test_a_server_is_asked_three_times_before_it_is_left_out(server, other):
    server.respond = lambda body: refused(500, "broken")
    with pytest.warns(ServerLeftOutWarning):
        both(server, other, "concurrency=1 cache=none").ask(ask("a", "b"))
    assert (server.calls, other.calls) == (FAILURES, 2) == (3, 2)


def test_without_a_working_server_each_is_tried_and_may_come_back(server, other):
    made = both(server, other, "concurrency=1 cache=none", retries=9)
    server.respond = other.respond = lambda body: refused(503, "starting")
    with pytest.warns(ServerLeftOutWarning):
        (failure,) = made.ask(ask("a"))
    assert isinstance(failure, Unavailable)
    server.respond = lambda body: said("back")
    assert made.ask(ask("a"))[0].text == "back"


def test_too_many_requests_are_no_reason_to_leave_a_server_out(server, other):
    made = both(server, other, "concurrency=1 cache=none", retries=9)
    server.script = [*[refused(429)] * 5, refused(500), refused(429), refused(500), refused(500)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made.ask(ask("a"))[0].text == "answer to a"


def test_only_failures_in_a_row_count_and_every_call_ends(server, other):
    made = both(server, other, "concurrency=1 cache=none")
    server.script = [refused(500), refused(500), said("one"), refused(500), refused(500), said("two")]
    assert [completion.text for completion in made.ask(ask("a", "b"))] == ["one", "two"]
    assert (server.calls, other.calls) == (6, 0)
    assert [one.busy for one in made.backend.servers.all] == [0, 0]


def test_one_server_is_never_left_out(server):
    made = llm(f"openai:m base_url={server.url} cache=none")
    made.retry = Retry(sleep=lambda seconds: None)
    server.script = [refused(500)] * 5
    assert made.ask(ask("a"))[0].text == "answer to a"


def test_a_server_without_the_model_stops_the_stage_and_is_named(server, other):
    server.respond = lambda body: refused(404, "no such model")
    with pytest.raises(FatalLLMError, match=f"{server.url} has no model 'm'"):
        both(server, other).ask(ask("a"))


def test_the_first_address_is_the_one_in_the_key():
    one = llm("openai:m base_url=http://a:1/v1")
    two = llm("openai:m base_url=http://a:1/v1,https://me:secret@b:2/v1?tags=x,y")
    swapped = llm("openai:m base_url=http://b:2/v1,http://a:1/v1")
    assert one == two != swapped
    assert ask("x")[0].key(one.backend.identity) == ask("x")[0].key(two.backend.identity)
    assert repr(two) == "ikat.llm('openai:m base_url=http://a:1/v1,https://***@b:2/v1?tags=x%2Cy')"
    assert [one.address.query for one in two.backend.servers.all] == [{}, {"tags": "x,y"}]
