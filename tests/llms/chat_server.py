"""A real server on loopback that speaks chat completions and misbehaves on demand."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyterrier_ikat.llms import Request

DROP = "drop"
KEY = "sk-planted-0123456789"


@dataclass
class Answer:
    """What the server sends: a status, a JSON body, headers."""

    status: int = 200
    body: object = None
    headers: dict = field(default_factory=dict)


def said(text="fine", finish="stop", usage=(7, 3), model=None, **message):
    """A chat completion, of the model that is asked for unless another one is named."""
    return Answer(
        body={
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text, **message},
                }
            ],
            **(
                {
                    "usage": {
                        "prompt_tokens": usage[0],
                        "completion_tokens": usage[1],
                        "total_tokens": sum(usage),
                    }
                }
                if usage
                else {}
            ),
        }
    )


def piece(text="", finish=None, **delta):
    """An event of a streamed chat completion."""
    found = {"role": "assistant", "content": text} if text else {}
    return {
        "model": "m",
        "choices": [{"index": 0, "delta": {**found, **delta}, "finish_reason": finish}],
    }


def streamed(*events, usage=(7, 3)):
    """A streamed chat completion: pieces of text, events, and what the stream waits for; then its
    end."""
    body = []
    for event in events:
        if isinstance(event, str):
            body.append(piece(event))
        else:
            body.append(event)
    body.append(piece(finish="stop"))
    if usage:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        body.append({"model": "m", "choices": [], "usage": counts})
    body.append("[DONE]")
    return Answer(body=body)


def refused(status, message="no", code=None, **headers):
    """An error in OpenAI's form."""
    return Answer(status, {"error": {"message": message, "type": "error", "code": code}}, headers)


class ChatServer:
    """Answers from ``script`` in order, then with ``respond(body)``; counts what it sees."""

    def __init__(self):
        self.script = []
        self.respond = lambda body: said(f"answer to {body['messages'][-1]['content']}")
        self.bodies, self.headers, self.paths = [], [], []
        self.now, self.most = 0, 0
        self.lock = threading.Lock()
        chat_server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = (
                True  # else an answer waits 40 ms for the acknowledgement of its head
            )

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = chat_server.take(
                    body, {name.lower(): value for name, value in self.headers.items()}, self.path
                )
                if answer == DROP:
                    self.close_connection = True
                    self.connection.close()
                    return
                if isinstance(answer.body, dict) and answer.body.get("model", "") is None:
                    answer.body["model"] = body["model"]
                if isinstance(answer.body, list):
                    self.stream(answer.body)
                    return
                data = (
                    answer.body
                    if isinstance(answer.body, bytes)
                    else json.dumps(answer.body).encode()
                )
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, events):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.close_connection = True
                for event in events:
                    if isinstance(event, threading.Event):
                        event.wait(60)
                        continue
                    data = event if isinstance(event, str) else json.dumps(event)
                    self.wfile.write(f"data: {data}\n\n".encode())

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def take(self, body, headers, path):
        with self.lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self.paths.append(path)
            self.now += 1
            self.most = max(self.most, self.now)
            answer = self.script.pop(0) if self.script else None
        try:
            return answer or self.respond(body)
        finally:
            with self.lock:
                self.now -= 1

    @property
    def calls(self):
        return len(self.bodies)


def gemini(seconds):
    """Body of a refusal by Gemini that asks to wait.

    AtomicBot-ai/atomic-agent#106, dcdpr/jp#1061: a list with one error.
    """
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}
    message = (
        f"You exceeded your current quota, please check your plan and billing details. Please "
        f"retry in {seconds}.1s."
    )
    return [
        {
            "error": {
                "code": 429,
                "message": message,
                "status": "RESOURCE_EXHAUSTED",
                "details": [retry],
            }
        }
    ]


def ask(*texts, stage="answer", **kwargs):
    """One request per text, for the turns 1_1, 1_2, ..."""
    requests = []
    for number, text in enumerate(texts, 1):
        messages = [{"role": "user", "content": text}]
        requests.append(Request(messages, stage, f"1_{number}", **kwargs))
    return requests
