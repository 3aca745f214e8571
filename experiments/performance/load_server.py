"""A chat server on loopback that is slow, refuses, drops and fails calls, and counts all of this.

Its behaviour depends only on the request and on how often it came, and its answer only on the
prompt. So two runs get the same problems, and a run's completions can be compared with those of a
server without problems.
"""

import asyncio
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

DROPPED = 0.05
"""The share of calls that are dropped."""
REFUSED = 0.05
"""The share of calls that are refused (429 or 503)."""
SLOW = 0.02
"""The share of calls that are answered slowly."""
LASTING = 0.003
"""The share of requests that fail ``TRIES`` times in a row."""
TRIES = 6
PAUSE = 0.005
LONG_PAUSE = 0.2


def prompt_of(messages: Sequence[Mapping[str, str]]) -> str:
    """All texts of a chat."""
    return "\n".join(message["content"] for message in messages)


def turn_of(prompt: str) -> str:
    """The turn of a prompt: the last one that it names."""
    return re.findall(r"\(turn (\S+)\)", prompt)[-1]


def completion(model: str, prompt: str) -> str:
    """The answer of ``model``: scores or numbers of statements if the prompt asks for them.

    Else it has the model's words in two lines, and the turn.
    """
    draw = random.Random(f"{model} {prompt}")
    words = [word for word in prompt.split()[-200:] if word.isalpha()]
    if prompt.rstrip().endswith("# JSON"):
        return json.dumps({"1": round(draw.random(), 2), "2": round(draw.random(), 2)})
    if prompt.rstrip().endswith("# JSON list"):
        return json.dumps(draw.sample([1, 2], k=2))
    turn = turn_of(prompt)
    lines = []
    for number in (1, 2):
        drawn = " ".join(draw.choices(words, k=6))
        lines.append(f"{number}. {drawn} on a walk (turn {turn})")
    return "\n".join(lines)


class Troubled:
    """The server's behaviour and account.

    Attributes:
        asked: how often each request came.
        answered: how often each request was answered.
        lasting: the prompts that failed ``TRIES`` times in a row, by request.
        troubles: how many calls were ``dropped``, ``refused``, and answered ``slowly``.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()
        self.lasting: dict[str, str] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with (
            closing(writer),
            suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError),
        ):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                answer = await self.answer(await reader.readexactly(length))
                if answer is None:
                    return
                writer.write(answer)

    async def answer(self, body: bytes) -> bytes | None:
        """One response; None to drop the connection."""
        request = hashlib.sha256(body).hexdigest()
        drawn = random.Random(f"{request} {self.asked[request]}").random()
        chat = json.loads(body)
        prompt = prompt_of(chat["messages"])
        self.asked[request] += 1
        await asyncio.sleep(PAUSE)
        if self.asked[request] <= TRIES and random.Random(request).random() < LASTING:
            self.lasting[request] = prompt
            return self._refused(503)
        if drawn < DROPPED:
            self.troubles["dropped"] += 1
            return None
        if drawn < DROPPED + REFUSED:
            return self._refused(429 if drawn < DROPPED + REFUSED / 2 else 503)
        if drawn < DROPPED + REFUSED + SLOW:
            self.troubles["slowly"] += 1
            await asyncio.sleep(LONG_PAUSE)
        self.answered[request] += 1
        model = chat["model"]
        return _response("200 OK", _chat_completion(model, completion(model, prompt)))

    def _refused(self, status: int) -> bytes:
        self.troubles["refused"] += 1
        error = {"message": "try later", "type": "requests", "code": None}
        return _response(f"{status} No\r\nRetry-After: 0", {"error": error})


def _chat_completion(model: str, text: str) -> dict[str, object]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
    }


def _response(status: str, body: dict[str, object]) -> bytes:
    data = json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n".encode()
        + data
    )


@contextmanager
def running(chat: Troubled) -> Iterator[str]:
    """The address at which ``chat`` answers, in a thread of this process."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    servers: list[asyncio.Server] = []

    async def serve() -> None:
        servers.append(await asyncio.start_server(chat.serve, "127.0.0.1", 0, backlog=256))
        started.set()

    def forever() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()
        _finish(loop)

    thread = threading.Thread(target=forever, daemon=True)
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        loop.call_soon_threadsafe(servers[0].close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(asyncio.sleep(0))  # one more round, in which the connections are closed
    loop.close()
