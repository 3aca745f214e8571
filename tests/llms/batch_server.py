"""A server on loopback that speaks OpenAI's protocol of files and batches, on top of chat
completions.

Files and batches as its API reference has them: an upload is a form with ``purpose`` and ``file``;
a batch goes from ``validating`` to ``in_progress``, ``finalizing`` and ``completed``, or to
``failed``, ``expired``, ``cancelled``; its answers are lines in any order in ``output_file_id``,
its errors in ``error_file_id``, and a file that would be empty isn't there; a listing begins with
the newest.
"""

import json
import re
import time
from urllib.parse import parse_qs, urlsplit

from llms.chat_server import Answer, ChatServer, refused, said

DROPPED = Answer(0)
"""The connection is closed in the place of an answer."""


class BatchServer(ChatServer):
    """Batches wait until a test ends them, by `complete` or `end`.

    Attributes:
        files: id -> content.
        batches: id -> batch, in the order of their creation.
        sent: the keys of the requests in all batches.
        hook: called with what was just done: ``uploaded``, ``created``, ``listed``, ``looked``,
            ``fetched``.
    """

    def __init__(self):
        super().__init__()
        self.files, self.batches, self.hook = {}, {}, lambda done: None
        self.refuse = {}  # (method, beginning of the path) -> answers, in order
        handler = self.http.RequestHandlerClass
        batch_server, chat = self, handler.do_POST

        def do_post(self):
            if urlsplit(self.path).path.endswith("/chat/completions"):
                chat(self)
            else:
                batch_server.serve(
                    self, "POST", self.rfile.read(int(self.headers["Content-Length"]))
                )

        handler.do_POST = do_post
        handler.do_GET = lambda self: batch_server.serve(self, "GET", b"")

    def serve(self, handler, method, content):
        with self.lock:
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            answer = self.answer(
                method, handler.path, content, handler.headers.get("Content-Type", "")
            )
        if answer is DROPPED:
            handler.close_connection = True
            handler.connection.close()
            return
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
        for name, value in {"Content-Type": kind, **answer.headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def answer(self, method, path, content, kind):
        url = urlsplit(path)
        route = url.path.removeprefix("/v1")
        query = parse_qs(url.query)
        for (verb, start), answers in self.refuse.items():
            if verb == method and route.startswith(start) and answers:
                return answers.pop(0)
        if (method, route) == ("POST", "/files"):
            return self.upload(content, kind)
        if (method, route) == ("POST", "/batches"):
            return self.create(json.loads(content))
        if (method, route) == ("GET", "/batches"):
            self.hook("listed")
            return self.list(query.get("after", [None])[0], int(query.get("limit", ["20"])[0]))
        if method == "GET":
            file = re.fullmatch("/files/(.+)/content", route)
            if file and file[1] in self.files:
                self.hook("fetched")
                return Answer(200, self.files[file[1]])
            batch = re.fullmatch("/batches/(.+)", route)
            if batch and batch[1] in self.batches:
                self.hook("looked")
                return Answer(200, self.batches[batch[1]])
        return refused(404, f"No such object: {route}")

    def upload(self, content, kind):
        form = parts_of(content, kind)
        assert form["purpose"] == b"batch"
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"]
        self.hook("uploaded")
        about = {
            "id": name,
            "object": "file",
            "bytes": len(form["file"]),
            "created_at": int(time.time()),
            "filename": "batch.jsonl",
        }
        return Answer(200, {**about, "purpose": "batch", "status": "processed"})

    def create(self, body):
        assert body["endpoint"] == "/v1/chat/completions"
        assert body["completion_window"] == "24h"
        lines = self.lines(body["input_file_id"])
        assert len({line["custom_id"] for line in lines}) == len(lines)
        for line in lines:
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            assert len(line["custom_id"]) <= 64
        assert len({line["body"]["model"] for line in lines}) == 1
        number = f"batch_{len(self.batches)}"
        empty = dict.fromkeys(
            (
                "errors",
                "output_file_id",
                "error_file_id",
                "completed_at",
                "failed_at",
                "expired_at",
                "cancelled_at",
            )
        )
        self.batches[number] = {
            **{
                "id": number,
                "object": "batch",
                "status": "validating",
                "created_at": int(time.time()),
                **empty,
            },
            **{name: body[name] for name in ("endpoint", "completion_window", "input_file_id")},
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }
        self.hook("created")
        return Answer(200, self.batches[number])

    def list(self, after, limit):
        newest = list(reversed(self.batches.values()))
        start = 0
        for place, batch in enumerate(newest, 1):
            if batch["id"] == after:
                start = place
                break
        page = newest[start : start + limit]
        ends = (
            {"first_id": page[0]["id"], "last_id": page[-1]["id"]}
            if page
            else {"first_id": None, "last_id": None}
        )
        return Answer(
            200, {"object": "list", "data": page, "has_more": start + limit < len(newest), **ends}
        )

    def lines(self, file):
        lines = self.files[file].decode().split("\n")
        return [json.loads(line) for line in lines if line]

    def requests(self, number):
        return self.lines(self.batches[number]["input_file_id"])

    @property
    def sent(self):
        names = []
        for number in self.batches:
            names += [line["custom_id"] for line in self.requests(number)]
        return names

    def texts(self, number):
        """What each request of a batch asks, in the order of the file."""
        return [line["body"]["messages"][-1]["content"] for line in self.requests(number)]

    def progress(self, number, done):
        total = len(self.requests(number))
        self.batches[number].update(
            status="in_progress", request_counts={"total": total, "completed": done, "failed": 0}
        )

    def end(
        self,
        number,
        status="completed",
        answer=lambda body: said(f"answer to {body['messages'][-1]['content']}"),
    ):
        """End a batch: ``answer`` gives each request's answer, or the error's code
        (``batch_expired``), or None for no line at all."""
        output, errors = [], []
        for place, line in reversed(
            list(enumerate(self.requests(number)))
        ):  # the other way round than they were sent
            got = answer(line["body"])
            about = {"id": f"batch_req_{place}", "custom_id": line["custom_id"]}
            if isinstance(got, str):
                errors.append(
                    {
                        **about,
                        "response": None,
                        "error": {
                            "code": got,
                            "message": f"This request could not be executed: {got}.",
                        },
                    }
                )
            elif got is not None:
                if isinstance(got.body, dict) and got.body.get("model", "") is None:
                    got.body["model"] = line["body"]["model"]
                response = {
                    "status_code": got.status,
                    "request_id": f"req_{place}",
                    "body": got.body,
                }
                (output if got.status == 200 else errors).append(
                    {**about, "response": response, "error": None}
                )
        batch = self.batches[number]
        for name, lines in (("output_file_id", output), ("error_file_id", errors)):
            if lines:
                batch[name] = f"file-{len(self.files)}"
                self.files[batch[name]] = "".join(
                    json.dumps(line) + "\n" for line in lines
                ).encode()
        counts = {
            "total": len(self.requests(number)),
            "completed": len(output),
            "failed": len(errors),
        }
        batch.update(status=status, request_counts=counts, **{f"{status}_at": int(time.time())})

    def complete(self, **how):
        """End all batches that are under way."""
        for number, batch in self.batches.items():
            if batch["status"] in ("validating", "in_progress", "finalizing"):
                self.end(number, **how)

    def fail(self, number, *errors):
        """The batch's file is refused."""
        data = []
        for code, message, line in errors:
            data.append({"code": code, "message": message, "param": None, "line": line})
        self.batches[number].update(
            status="failed", errors={"object": "list", "data": data}, failed_at=int(time.time())
        )

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def parts_of(content, kind):
    """The fields of a form."""
    mark = b"--" + re.search("boundary=(.+)", kind)[1].strip('"').encode()
    fields = {}
    for part in content.split(mark)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        fields[re.search(rb'name="([^"]+)"', head)[1].decode()] = value.removesuffix(b"\r\n")
    return fields
