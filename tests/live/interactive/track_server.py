"""The server of the simulated users, documented or released, which fails on demand."""

import copy
import json
import threading
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import httpx

TOKEN = "tok-planted-0123456789"
TOPICS = (
    ("1-1", "ann", ("Which tea has no caffeine?", "And one against a cold?", "Is it cheap?")),
    ("2-1", "bob", ("Where may I walk?",)),
    ("1-2", "ann", ("What should I eat?", "What should I eat?")),
)


def list_questions(topics):
    """The questions of topics in their order, each with its topic."""
    questions = []
    for topic, _, utterances in topics:
        for utterance in utterances:
            questions.append((topic, utterance))
    return questions


LAST_WORDS = "Thank you, that is all."
DOCUMENTED = "documented"
OLD = "2026-02"
NEW = "2026-04"
"""The documentation of 2025, and two revisions of the server's repository by their month."""
FAULTS = (
    *(
        "drop before",
        "drop after",
        "500 before",
        "500 after",
        "slow before",
        "slow after",
        "no JSON after",
        "429",
        "unreached",
    ),
    *("restart", "earlier restart"),
)
"""What happens to a call; a restart forgets it, an earlier restart the call before it as well."""


@cache
def tokenizer():
    import spacy  # takes a second

    return spacy.blank("en").tokenizer


class Refused(Exception):
    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass
class Run:
    about: dict
    open: list
    done: list = field(default_factory=list)
    topic: tuple = ()
    history: list = field(default_factory=list)
    message: dict = field(default_factory=dict)
    dumped: list = field(default_factory=list)
    live: bool = False
    farewells: list = field(default_factory=list)
    lost: bool = False


@dataclass
class Track:
    """What the server knows; ``faults`` are those of the next calls that change something."""

    topics: tuple = TOPICS
    form: str = DOCUMENTED
    last_words: str = LAST_WORDS
    team: str = "team-a"
    with_dump: bool = True
    recovers: bool = True
    not_debugged: tuple = ("status", "dump")
    limit: int = 250
    budget: int = 100
    faults: list = field(default_factory=list)
    runs: dict = field(default_factory=dict)
    debugged: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    clock: int = 0
    before: list = field(default_factory=list)

    def __post_init__(self):
        self.lock = threading.Lock()
        self.free = threading.Event()

    @property
    def released(self):
        return self.form != DOCUMENTED

    @property
    def taken(self):
        """(topic, utterance, response) of each response that was taken."""
        taken = []
        for run in self.runs.values():
            for one in run.dumped:
                taken.append((one["topic"], one["user_utterance"], one["text"]))
        return taken

    def handle(self, method, path, query, body, headers):
        """Status, content and headers of an answer."""
        with self.lock:
            self.calls.append(path)
            self.headers.append(headers)
            try:
                if headers.get("authorization") != f"Bearer {TOKEN}":
                    raise Refused(401, "Invalid authentication credentials")
                return 200, self.answer(method, path, query, body), {}
            except Refused as error:
                return error.status, {"detail": error.detail}, {}

    def answer(self, method, path, query, body):
        area, _, call = path.strip("/").partition("/")
        if (method, path) == ("GET", "/auth/verify"):
            return {"team_id": self.team}
        if (method, path) == ("GET", "/budget/check"):
            left = {
                "debug": {"remaining": self.budget, "unit": "sessions"},
                "run": {"remaining": 2 - len(self.runs), "unit": "runs"},
            }
            return {"remaining": left}
        known = {"POST": ("start", "continue"), "GET": ("session", "status", "dump")}
        if (
            area not in ("run", "debug")
            or call not in known[method]
            or (area == "debug" and call in self.not_debugged)
        ):
            raise Refused(404, "Not Found")
        runs = self.runs if area == "run" else self.debugged
        if call == "start":
            return self.start(runs, body, area)
        run = runs.get((body or query)["run_id"])
        if run is None:
            raise Refused(404, f'Run "{(body or query)["run_id"]}" does not exist.')
        return getattr(self, {"continue": "proceed"}.get(call, call))(
            *([run, body] if call == "continue" else [run])
        )

    def start(self, runs, body, area):
        if body["run_id"] in runs:
            raise Refused(
                412, "Active run with that name already exists or was already completed before."
            )
        if (area == "run" and len(runs) >= 2) or (area == "debug" and self.budget < 1):
            raise Refused(403, "You exceeded the maximum number of runs you can submit.")
        if not body["description"]:
            raise Refused(400, "Run description cannot be empty.")
        about = {
            "team_id": self.team,
            "run_id": body["run_id"],
            "type": "interactive",
            "description": body["description"],
        }
        if self.form == NEW:
            del about["type"]
            about["extra"] = body["extra"]
        else:
            about["track_persona"] = int(body["track_persona"])
        run = runs[body["run_id"]] = Run(about, list(self.topics))
        return self.next_topic(run)

    def proceed(self, run, body):
        self.check(body)
        if run.lost and not self.recovers:
            raise Refused(
                500, "Internal Server Error"
            )  # what the released one really does after a restart
        run.lost = False
        if not run.live:
            if not run.open:
                raise Refused(400, "No more open topics. Run was finished!")
            return self.next_topic(run)
        statements = (
            body["meta"]["ptkb_provenance"] if self.form == NEW else body["ptkb_provenance"]
        )
        said = {
            "topic": run.topic[0],
            "user_utterance": run.history[-1]["content"],
            "text": body["response"],
        }
        run.dumped.append(
            {
                **said,
                "citations": body["citations"] or {},
                "ptkb_provenance": statements,
                "meta": body.get("meta"),
            }
        )
        run.history.append({"role": "assistant", "content": body["response"]})
        number = sum(one["role"] == "user" for one in run.history)
        ended = number >= len(run.topic[2])
        return self.say(run, self.last_words if ended else run.topic[2][number], ended)

    def check(self, body):
        count = len(body["response"])
        if count > self.limit:  # no text has more tokens than characters
            count = len(tokenizer()(body["response"]))
        if count > self.limit:
            said = (
                f"Value error, Response is too long ({count} tokens). Response exceeds limit "
                f"of {self.limit} tokens."
            )
            raise Refused(422, [{"type": "value_error", "loc": ["body", "response"], "msg": said}])
        if body["citations"] is not None and len(body["citations"]) > 1000:
            raise Refused(
                422, [{"type": "too_long", "loc": ["body", "citations"], "msg": "at most 1000"}]
            )

    def next_topic(self, run):
        run.topic = run.open.pop(0)
        run.history = []
        run.live = True
        if self.runs.get(run.about["run_id"]) is not run:
            self.budget -= 1
        return self.say(run, run.topic[2][0], False)

    def say(self, run, utterance, ended):
        run.history.append({"role": "user", "content": utterance})
        run.live = not ended
        if ended:
            run.done.append(run.topic[0])
            run.farewells.append(run.topic[0])
        self.clock += 1
        run.message = {
            "timestamp": f"2026-07-01T00:00:{self.clock}",
            "run_id": run.about["run_id"],
            "topic_id": run.topic[0],
            "user_id": run.topic[1],
            "utterance": utterance,
            "history": [dict(one) for one in run.history],
            "last_response_of_session": ended,
            "last_response_of_run": ended and not run.open,
        }
        return run.message

    def session(self, run):
        if self.released:
            if not run.live or run.lost:
                raise Refused(500, "Internal Server Error")  # what it really does
            self.clock += 1
            return {**run.message, "timestamp": f"2026-07-01T00:00:{self.clock}"}
        if run.message["last_response_of_run"]:
            raise Refused(400, "Run was finished!")
        return run.message

    def status(self, run):
        current = [] if run.topic[0] in run.done else [run.topic[0]]
        still = [one[0] for one in run.open]
        done = list(run.done)
        if self.released:  # which counts a topic as done once it is begun
            state = ("inactive" if run.lost else "active") if still else "complete"
            return {"status": state, "open_topics": still, "done_topics": done + current}
        return {
            "status": "active" if still or current else "completed",
            "open_topics": current + still,
            "done_topics": done,
        }

    def dump(self, run):
        if not self.with_dump:
            raise Refused(500, "Internal Server Error")
        said = list(run.dumped)
        if self.released and not said:
            raise Refused(500, "Internal Server Error")  # what it really does
        if self.released:
            for topic in run.farewells:
                last = len(said) - 1
                for place, one in enumerate(said):
                    if one["topic"] == topic:
                        last = place
                nothing = {"text": None, "citations": {}, "ptkb_provenance": []}
                said.insert(
                    last + 1, {"topic": topic, "user_utterance": self.last_words, **nothing}
                )
        entries = []
        counts = {}
        for one in said:
            number = counts[one["topic"]] = counts.get(one["topic"], int(self.released) - 1) + 1
            metadata = {**run.about, "topic_id": f"{one['topic']}_{number}"}
            entries.append({"metadata": metadata, **self.dumped(one)})
        return "\n".join(map(json.dumps, entries)) if self.released else entries

    def dumped(self, one):
        """A response in the dump, in this server's form; grades are empty."""
        said = {"rank": 1, "user_utterance": one["user_utterance"]}
        kept = {"ptkb_provenance": one["ptkb_provenance"]}
        if self.form == NEW:
            meta = {"assistant_meta": {} if one["text"] is None else one["meta"]}
            return {
                "responses": [
                    said
                    | {
                        "user_meta": {},
                        "assistant_text": one["text"],
                        "assistant_citations": one["citations"],
                    }
                    | meta
                ]
            }
        grade = {"user_rubrik": None, "user_rubrik_score": 0} if self.form == OLD else {}
        response = {**said, **grade, "text": one["text"], "citations": one["citations"], **kept}
        return {"responses": [response], "references": one["citations"]}

    def forget(self, run_id):
        """A released server, started again, can't recover a conversation: its topic is done."""
        run = self.runs[run_id]
        run.live = False
        run.lost = True
        run.done.append(run.topic[0])

    def restart(self, calls):
        """Start again with what was known before the last calls; no message until an answer."""
        can_go_on = []
        for one in self.before[-calls:]:
            if any(run.dumped or not self.released for run in one.values()):
                can_go_on.append(one)
        known = (
            can_go_on or self.before[-1:]
        )  # a released one can't go on with a run that has no response
        self.runs = copy.deepcopy(known[0])
        for run in self.runs.values():
            run.lost = self.released


def content_of(answer):
    return answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()


class InProcess(httpx.BaseTransport):
    """Carries calls to a track without a network; ``step`` is called before and after each."""

    def __init__(self, track, step=lambda name: None):
        self.track = track
        self.step = step

    def handle_request(self, request):
        track = self.track
        path = request.url.path.removeprefix("/sim")
        self.step(f"before {path}")
        changes = request.method == "POST"
        fault = track.faults.pop(0) if changes and track.faults else ""
        if fault in BEFORE:
            raise BEFORE[fault]
        body = json.loads(request.content) if request.content else None
        headers = {name.lower(): value for name, value in request.headers.items()}
        if fault in ("500 before", "429"):
            status = int(fault[:3])
            content = {"detail": "not now"}
            more = {"Retry-After": "0"}
        else:
            if changes and any(
                "restart" in one for one in (fault, *track.faults)
            ):  # no other fault needs it
                track.before.append(copy.deepcopy(track.runs))
            status, content, more = track.handle(
                request.method, path, dict(request.url.params), body, headers
            )
        self.step(f"after {path}")
        if fault.endswith("restart"):
            track.restart(2 if fault.startswith("earlier") else 1)
        if fault in AFTER:
            raise AFTER[fault]
        if fault == "500 after":
            status = 500
            content = {"detail": "Internal Server Error"}
        return httpx.Response(
            status,
            content=b"<html>" if fault == "no JSON after" else content_of(content),
            headers=more,
        )


BEFORE = {
    "unreached": httpx.ConnectTimeout("no route"),
    "drop before": httpx.RemoteProtocolError("connection reset"),
    "slow before": httpx.ReadTimeout("slow"),
}
AFTER = {"slow after": httpx.ReadTimeout("slow")} | dict.fromkeys(
    ("drop after", "restart", "earlier restart"), httpx.RemoteProtocolError("connection reset")
)


class TrackServer:
    """A track on loopback; with the fault ``hang`` it answers a call once ``track.free`` is set."""

    def __init__(self, track):
        self.track = track

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply("GET")

            def do_POST(self):
                self.reply("POST")

            def reply(self, method):
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                fault = track.faults.pop(0) if method == "POST" and track.faults else ""
                if fault == "drop before":
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                path = parts.path.removeprefix("/sim")
                query = dict(parse_qsl(parts.query))
                status, content, more = track.handle(method, path, query, body, headers)
                if fault == "hang":
                    track.free.wait(60)
                if fault == "drop after":
                    return
                data = content_of(content)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # of a client that did not wait

        self.http = Server(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/sim"
        threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def close(self):
        self.track.free.set()
        self.http.shutdown()
        self.http.server_close()
