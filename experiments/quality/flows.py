"""How much code one flow uses, and how large the package and its command line are.

Each flow runs once to warm up, so that imports don't count, and once under ``sys.setprofile`` in
every thread. A file counts when one of its functions is called; lambdas, comprehensions and the
templates of prompts aren't counted. With ``--files``, the files are listed too.
"""

import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import click
import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat

PACKAGE = Path(ikat.__file__).parent
IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion in the same way."""

    def do_POST(self) -> None:
        """Answer one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Rooibos has none."},
        }
        usage = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The address of a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


def entered(flow: Callable[[], Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """The files and the functions of the package that a flow calls."""
    called: set[tuple[str, str]] = set()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        code = frame.f_code
        ours = path.startswith(str(PACKAGE)) and path.endswith(".py")
        is_named = not code.co_name.startswith("<")  # no lambda, no comprehension
        if event == "call" and ours and is_named:
            file = path[len(str(PACKAGE)) + 1 :]
            called.add((file, f"{code.co_qualname}:{code.co_firstlineno}"))

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        flow()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {file for file, _ in called}, called


def code_lines(path: Path) -> int:
    """Lines with code: neither blank, nor comment, nor docstring."""
    lines: set[int] = set()
    before = tokenize.NEWLINE
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            docstring = token.type == tokenize.STRING and before in (
                tokenize.NEWLINE,
                tokenize.INDENT,
                tokenize.DEDENT,
                tokenize.ENCODING,
            )
            if token.type not in IGNORED and not docstring:
                lines.update(range(token.start[0], token.end[0] + 1))
            if token.type not in (tokenize.NL, tokenize.COMMENT):
                before = token.type
    return len(lines)


def longest_function(paths: list[Path]) -> tuple[int, str]:
    """The lines of the longest function, without its docstring, and where it is."""
    functions = []
    for path in paths:
        for node in _functions(path):
            functions.append((_lines(node), f"{path.relative_to(PACKAGE)}:{node.name}"))
    return max(functions)


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def command_line() -> tuple[int, int]:
    """The numbers of commands and of their options, without hidden ones."""
    from pyterrier_ikat.cli import main

    shown = [command for command in main.commands.values() if not command.hidden]
    options = 0
    for command in shown:
        for parameter in command.params:
            options += isinstance(parameter, click.Option) and not parameter.hidden
    return len(shown), options


def model(base_url: str) -> Any:
    """A language model behind the server."""
    return ikat.llm(f"openai:m base_url={base_url} api_key_env=NO_KEY cache=none")


def answer(base_url: str) -> None:
    """One LLM call over HTTP."""
    llm = model(base_url)
    ikat.Answer(llm)(ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"}]))


def run_ad(index: str, base_url: str) -> None:
    """`ikat run ad` on one turn of the sample."""
    from pyterrier_ikat.cli import main

    with tempfile.TemporaryDirectory() as folder:
        arguments = ["run", "ad", "--dataset", "ikat:sample", "--index", index, "--turns", "1-1_1"]
        arguments += ["--llm", f"openai:m base_url={base_url} api_key_env=NO_KEY cache=none"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main([*arguments, "--out", folder + "/runs"], standalone_mode=False)


def simulate_one_turn(system: Any) -> None:
    """One simulated user, whom the first response satisfies."""
    from pyterrier_ikat.live.simulation import ScriptedPlayer, SimulatedUser

    class Judge:
        identity = "any text"

        def met(self, situation: Any) -> list[str]:
            return list(situation.open)

    user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 1)
    with tempfile.TemporaryDirectory() as folder:
        ikat.simulate({"answer": system}, [user], ScriptedPlayer(), Judge(), out=folder)


def flows(base_url: str, folder: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and flow."""
    data = pt.get_dataset("ikat:sample")
    index = ikat.PassageIndex(f"{folder}/index").index(data.get_corpus_iter(verbose=False))
    bm25 = index.bm25()
    topics = data.get_topics()
    qrels = data.get_qrels()
    run = bm25(topics)
    evaluate = ikat.evaluate if callable(ikat.evaluate) else ikat.evaluation.evaluate
    numbers = iter(range(100))  # a query that was searched before is only looked up
    yield "an LLM call", lambda: answer(base_url)
    yield (
        "a BM25 search",
        lambda: bm25(pd.DataFrame({"qid": ["1"], "query": [f"quiet walk {next(numbers)}"]})),
    )
    yield "evaluate", lambda: evaluate({"bm25": run}, qrels)
    yield "ikat run ad", lambda: run_ad(f"{folder}/index", base_url)
    llm = model(base_url)
    system = ikat.Answer(llm) >> bm25 >> ikat.Respond(llm)
    chat = ikat.Chat(system)
    yield "a chat turn", lambda: chat.say("Which tea has no caffeine?")
    yield "a simulation", lambda: simulate_one_turn(system)


def main() -> None:
    """Print the tables."""
    modules = sorted(PACKAGE.rglob("*.py"))
    rooms = Counter[str]()
    for path in modules:
        room = "the ground" if path.parent == PACKAGE else path.relative_to(PACKAGE).parts[0]
        rooms[room] += code_lines(path)
    length, function = longest_function(modules)
    print(
        f"{len(modules)} modules, {sum(rooms.values()):,} lines of code; the longest function has "
        f"{length}, without docstring: {function}"
    )
    print("{} commands, {} options\n".format(*command_line()))
    for room, lines in sorted(rooms.items()):
        print(f"{room:<14} {lines:>6,}")
    print(f"\n{'flow':<14} {'files':>5} {'functions':>9}")
    with tempfile.TemporaryDirectory() as folder, served() as base_url:
        for name, flow in flows(base_url, folder):
            flow()
            files, functions = entered(flow)
            print(f"{name:<14} {len(files):>5} {len(functions):>9}")
            if "--files" in sys.argv:
                print("   ", ", ".join(sorted(files)))


if __name__ == "__main__":
    main()
