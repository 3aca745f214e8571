"""The cache: what the key knows, what a damaged file does, what threads, processes and kills
leave."""

import contextlib
import hashlib
import json
import math
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from chat_server import ask, said

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Completion, llm
from pyterrier_ikat.llms.cache import CompletionCache, default_path
from pyterrier_ikat.llms.failures import TooLong, Unavailable, UnknownMark
from pyterrier_ikat.llms.request import Reading

COMPLETION = Completion("text \u2028 🙂", "m", "stop", 5, None, 0.5, cached=True)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path):
    made = CompletionCache(tmp_path / "deep" / "llm.sqlite")
    yield made
    made.close()


def test_completions_are_never_removed_to_make_room():
    assert [CompletionCache(path)._cache.max_bytes for path in (":memory:", "llm.sqlite")] == [
        math.inf,
        math.inf,
    ]


def test_what_is_put_is_got_also_by_another_connection(cache):
    assert cache.get(["k"]) == {}
    cache.put("k", replace(COMPLETION, cached=False))
    assert cache.get(["k"]) == {"k": COMPLETION}
    other = CompletionCache(cache.path)
    assert other.get(["k", "other"]) == {"k": COMPLETION}
    assert other.put("k", replace(COMPLETION, text="later")) == COMPLETION  # the first answer stays
    assert cache.get(["k"]) == {"k": COMPLETION}
    other.close()


def test_an_earlier_completion_comes_back_as_its_model_wrote_it(cache):
    thoughtful = replace(COMPLETION, text="<think>Hm.</think>Mint.")
    cache.put("k", thoughtful)
    assert cache.get(["k"])["k"].text == "Mint."
    assert cache.put("k", replace(COMPLETION, text="later")).text == thoughtful.text


def test_a_file_in_the_home_folder_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    cache = CompletionCache("~/mine.sqlite")
    cache.put("k", COMPLETION)
    cache.close()
    assert (tmp_path / "mine.sqlite").exists()


def test_only_a_file_is_said_to_keep_an_unknown_mark(cache):
    memory = CompletionCache(":memory:")
    unknown = replace(COMPLETION, text="<ponder>Hm.</ponder>Mint.")
    reasons = []
    for place in (cache, memory):
        place.put("k", unknown)
        reasons.append(place.get(["k"])["k"].reason)
    assert reasons[0].startswith(reasons[1])
    assert ["the answer is kept" in reason for reason in reasons] == [True, False]


def test_a_failure_of_a_batch_says_how_it_is_asked_again(cache):
    failure = cache.put_failure("k", Unavailable("answer", "1_1", "expired"))
    (again,) = cache.failures(["k"]).values()
    for one in (failure, again):
        assert one.kept
        assert one.reason == "expired; without batch=on it is asked again"
    assert (failure.stage, failure.qid) == ("answer", "1_1")


def test_a_failure_never_replaces_a_paid_completion(cache):
    cache.put("k", COMPLETION)
    for key in ("k", "other"):
        cache.put_failure(key, Unavailable("answer", "1_1", "the batch expired"))
    assert cache.get(["k", "other"]) == {"k": COMPLETION}
    assert list(cache.failures(["k", "other"])) == ["other"]


def test_the_mark_of_the_file_is_pinned_so_caches_stay_valid(cache):
    cache.put("k", COMPLETION)
    cache.close()
    with contextlib.closing(sqlite3.connect(cache.path)) as connection:
        assert (
            connection.execute("PRAGMA application_id").fetchone()[0].to_bytes(4, "big") == b"ikat"
        )


def test_it_lies_where_the_home_variable_says(home, tmp_path, monkeypatch):
    assert default_path() == home / "llm.sqlite"
    monkeypatch.delenv("IKAT_HOME")
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "pyterrier"))
    assert default_path() == tmp_path / "pyterrier" / "ikat" / "llm.sqlite"


REQUEST = ask("a")[0]
SPEC = "openai:m base_url=http://localhost:1/v1 temperature=0"


def key(spec=SPEC, request=REQUEST):
    return request.key(llm(spec).backend.identity)


@pytest.mark.parametrize(
    "other",
    [
        key("openai:n base_url=http://localhost:1/v1 temperature=0"),
        key("openai:m base_url=http://localhost:2/v1 temperature=0"),
        key("openai:m base_url=http://localhost:1/v1 temperature=0.1"),
        key("openai:m base_url=http://localhost:1/v1"),
        key(SPEC + " seed=1"),
        key(SPEC + " max_tokens=5"),
        key("hf:m temperature=0"),
        key(request=ask("b")[0]),
        key(request=replace(REQUEST, messages=[{"role": "system", "content": "a"}])),
        key(request=replace(REQUEST, sample=1)),
        key(request=replace(REQUEST, params={"max_tokens": 1})),
    ],
)
def test_the_key_knows_what_changes_the_answer(other):
    assert other != key()


@pytest.mark.parametrize(
    "same",
    [
        key(SPEC + " timeout=5 concurrency=2 retries=1 cache=other.sqlite price_in=1"),
        key("openai:m temperature=0 base_url=http://localhost:1/v1"),
        key(request=replace(REQUEST, stage="rewrite", qid="9_9", prompt="p", item="i")),
        key(request=replace(REQUEST, params={"temperature": 0.0})),
    ],
)
def test_the_key_ignores_what_does_not(same):
    assert same == key()


def test_the_key_is_pinned_so_that_caches_stay_valid():
    canonical = (
        '{"base_url": "http://localhost:1/v1", "draw": 0, "messages": [{"content": "a", "role": '
        '"user"}], "model": "m", '
        '"params": {"temperature": 0.0}, "provider": "openai"}'
    )
    assert key() == hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def test_the_environments_base_url_is_in_the_key(monkeypatch):
    before = key("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:7/v1")
    assert key("openai:m") != before
    assert key("openai:m") == key("openai:m base_url=http://localhost:7/v1")


@pytest.mark.parametrize(
    "kept",
    [
        *({"finish_reason": reason} for reason in ("error", "max_tokens")),
        *({"text": text} for text in ("<thinking>Mint?", "")),
    ],
)
def test_incomplete_entries_of_earlier_versions_are_asked_again(model, server, home, kept):
    made = model()
    made.cache.put(REQUEST.key(made.backend.identity), replace(COMPLETION, **kept))
    assert made.peek(REQUEST) is None
    assert [made.ask([REQUEST])[0].text for _ in range(2)] == ["answer to a"] * 2
    assert server.calls == 1


def test_earlier_entries_lose_reasoning_and_half_characters(cache):
    cache.put("k", replace(COMPLETION, text="<thinking>Score: 1?</thinking>3 \ud83e"))
    assert cache.get(["k"])["k"] == replace(COMPLETION, text="3 \N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("cut", [0, 50, 4096, 12288])
def test_a_truncated_file_is_an_error_or_miss_not_another_answer(cache, cut):
    for number in range(200):
        cache.put(f"key {number}", replace(COMPLETION, text=f"text {number} " + "x" * 200))
    cache.close()
    whole = Path(cache.path).read_bytes()
    assert len(whole) > cut
    Path(cache.path).write_bytes(whole[:cut])
    for number in range(200):
        got = None
        with contextlib.suppress(DataError):
            got = cache.get([f"key {number}"]).get(f"key {number}")
        assert got is None or got.text.startswith(f"text {number} ")


def test_a_full_disk_stops_the_stage_before_more_is_paid(model, server):
    made = model("concurrency=1")
    made.ask(ask("a"))
    with made.cache._cache.connection() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    server.respond = lambda body: said("x" * 50_000)
    with pytest.raises(DataError, match=r"full.*free space"):
        made.ask(ask(*map(str, range(20))))
    assert server.calls == 2


def test_a_read_only_file_is_said_before_anything_is_paid(model, server, tmp_path):
    made = model()
    made.ask(ask("a"))
    with made.cache._cache.connection() as connection:
        connection.execute("PRAGMA query_only = ON")
    assert made.ask(ask("a"))[0].cached
    with pytest.raises(DataError, match="readonly"):
        made.ask(ask("b"))
    assert server.calls == 1


def test_cache_none_keeps_nothing(model, server, home):
    made = model("cache=none")
    made.ask(ask("a"))
    made.ask(ask("a"))
    assert server.calls == 2
    assert made.peek(REQUEST) is None
    assert not (home / "llm.sqlite").exists()


def test_the_file_holds_json_under_a_hash_and_no_question(model, server, home):
    server.respond = lambda body: said("fine")
    made = model()
    made.ask(ask("my secret illness"))
    made.close()
    assert b"illness" not in (home / "llm.sqlite").read_bytes()
    with sqlite3.connect(home / "llm.sqlite") as connection:
        ((key_text, value),) = connection.execute("SELECT key, value FROM cache").fetchall()
    connection.close()
    assert len(key_text) == 32
    assert json.loads(value)["text"] == "fine"


WRITER = """
import sys, threading
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms import Completion
cache, name = CompletionCache(sys.argv[1]), sys.argv[2]
def work(thread):
    for number in range(10):
        key = f"{name} {thread} {number}"
        cache.put(key, Completion(key, "m", None, None, None, 0.0, True))
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def _python(code, *arguments, **kwargs):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def test_two_processes_with_16_threads_share_a_new_file(cache):
    writers = [_python(WRITER, cache.path, name) for name in "ab"]
    assert [writer.communicate(timeout=120)[1] for writer in writers] == ["", ""]
    for name in "ab":
        for thread in range(16):
            for number in range(10):
                key = f"{name} {thread} {number}"
                assert cache.get([key])[key].text == key


ASKER = """
import sys
sys.path.insert(0, sys.argv[3])
from chat_server import ask
from pyterrier_ikat.llms import llm
model = llm(f"openai:m base_url={sys.argv[1]} cache={sys.argv[2]} concurrency=4")
print(len(model.ask(ask(*map(str, range(30))))))
"""


def _asker(server, path):
    return _python(ASKER, server.url, path, Path(__file__).parent, stdout=subprocess.PIPE)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_repeats_nothing_it_had_finished(server, tmp_path, how):
    reached = threading.Event()
    release = threading.Event()

    def respond(body):
        if server.calls > 12 and not release.is_set():
            # Four threads wait here, so the twelve earlier answers have been taken and kept.
            if server.calls == 16:
                reached.set()
            release.wait(120)
        return said(f"answer to {body['messages'][-1]['content']}")

    server.respond = respond
    path = tmp_path / "llm.sqlite"
    first = _asker(server, path)
    assert reached.wait(120)
    first.send_signal(how)
    if how == signal.SIGINT:
        while "stopping" not in first.stderr.readline():
            assert first.poll() is None
        release.set()
    errors = first.communicate(timeout=120)[1]
    release.set()
    assert first.returncode != 0
    assert how != signal.SIGINT or "KeyboardInterrupt" in errors
    with sqlite3.connect(path) as connection:
        kept = connection.execute(
            "SELECT count(*) FROM cache WHERE substr(value, 1, 1) = x'7B'"
        ).fetchone()[0]
    connection.close()
    assert kept == (
        12 if how == signal.SIGKILL else 16
    )  # an interrupted one waits for those under way, and sends no other
    assert server.calls == 16
    before = server.calls
    second = llm(f"openai:m base_url={server.url} cache={path} concurrency=4")
    assert len(second.ask(ask(*map(str, range(30))))) == 30
    second.close()
    assert server.calls - before == 30 - kept


def test_a_file_is_opened_once_a_process_by_whatever_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = CompletionCache("a.sqlite")
    same = CompletionCache(tmp_path / "." / "a.sqlite")
    assert first.path == str(tmp_path / "a.sqlite")
    assert first._cache is same._cache
    first.put("k", COMPLETION)
    (tmp_path / "link.sqlite").symlink_to("a.sqlite")
    assert CompletionCache("link.sqlite")._cache is first._cache
    assert CompletionCache("b.sqlite").get(["k"]) == {}
    monkeypatch.chdir("/")
    assert CompletionCache(first.path).get(["k"]) == {"k": COMPLETION}
    first.close()


def test_what_replaced_a_removed_file_is_another_cache(tmp_path):
    first = CompletionCache(tmp_path / "a.sqlite")
    first.put("k", COMPLETION)
    for file in tmp_path.iterdir():
        file.unlink()
    again = CompletionCache(tmp_path / "a.sqlite")
    assert again.get(["k"]) == {}
    again.put("k", replace(COMPLETION, text="new"))
    assert CompletionCache(tmp_path / "a.sqlite").get(["k"])["k"].text == "new"
    again.close()
    first.close()


def test_each_memory_is_its_own_and_stays_behind():
    first = CompletionCache(":memory:")
    second = CompletionCache(":memory:")
    first.put("k", COMPLETION)
    assert second.get(["k"]) == {}
    assert pickle.loads(pickle.dumps(first)).get(["k"]) == {}
    with first.asking() as is_first, first.asking() as is_second:
        assert is_first
        assert is_second


def test_a_cache_in_another_process_is_the_same_file(cache):
    cache.put("k", COMPLETION)
    assert pickle.loads(pickle.dumps(cache)).get(["k"]) == {"k": COMPLETION}


def test_only_the_first_who_asks_for_a_file_is_the_first(cache):
    other = CompletionCache(cache.path)
    with cache.asking() as is_first:
        with other.asking() as is_second:
            assert (is_first, is_second) == (True, False)
        assert Path(f"{cache.path}.lock").exists()
    with other.asking() as is_first:
        assert is_first
    assert cache._cache.get([b"probe"]) == {}


ODD = "<ponder>hm</ponder>Mint"
NAMED = Reading((("<ponder>", "</ponder>"),))


def test_a_kept_answer_is_read_as_each_of_its_requests_reads_it(cache):
    wrote = replace(COMPLETION, text=ODD, special=("<x>",), cached=False)
    assert cache.put("k", wrote) is wrote
    cache.put("half", replace(COMPLETION, finish_reason="length"))
    assert cache.get(["k", "half"], {"k": NAMED}) == {
        "k": replace(wrote, text="Mint", cached=True, special=("<x>",))
    }
    unread = cache.get(["k"])["k"]
    assert (type(unread), unread.kept, unread.stage) == (UnknownMark, True, "")
    again = cache.put("k", COMPLETION, NAMED)
    assert again == replace(wrote, cached=True)
    assert cache.put("half", COMPLETION) is COMPLETION  # what is not whole is replaced
    cache.put("thought", replace(COMPLETION, text="<ponder>hm</ponder>"))
    assert cache.put("thought", COMPLETION, NAMED) is COMPLETION  # by its own reading
    assert cache.get(["half"]) == {"half": COMPLETION}


def test_failures_of_batches_are_kept_until_there_is_an_answer(cache):
    late = Unavailable("answer", "1_1", "late")
    told = cache.put_failure("k", late)
    assert (type(told), told.stage, told.qid, told.kept) == (Unavailable, "answer", "1_1", True)
    assert told.reason == "late; without batch=on it is asked again"
    found = cache.failures(["k", "other"])["k"]
    assert (type(found), found.stage, found.reason, found.kept) == (
        Unavailable,
        "",
        told.reason,
        True,
    )
    cache.put_failure("k", TooLong("answer", "1_1", "long"))
    assert type(cache.failures(["k"])["k"]) is TooLong
    assert cache.get(["k"]) == {}
    cache.put("k", replace(COMPLETION, text=ODD))
    assert cache.failures(["k"]) == {}
    cache.put_failure("k", late)  # an answer with an unknown mark is one, too
    assert cache.failures(["k"]) == {}
