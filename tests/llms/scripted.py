"""A backend that follows a script, and what a model over it answers and counts."""

import threading

from pyterrier_ikat.llms import LLM, Backend, Completion, Ledger, Reply
from pyterrier_ikat.llms.retry import Retry


class Script(Backend):
    """Does one step of a script for each call, which gets the requests."""

    identified = True
    patience = 0.0

    def __init__(self, *steps, **attributes):
        self.model, self.identity = "script", {"provider": "script", "params": {}}
        self.steps = list(steps)
        self.calls = []
        self.opened = 0
        self.threads = set()
        vars(self).update(attributes)

    def open(self):
        self.opened += 1

    def complete(self, requests):
        self.calls.append([request.messages[-1]["content"] for request in requests])
        self.threads.add(threading.current_thread().name)
        step = self.steps.pop(0) if self.steps else echo
        if isinstance(step, BaseException):
            raise step
        return step(requests)


def echo(requests):
    """Ten tokens read and one written for each request."""
    replies = []
    for request in requests:
        text = request.messages[-1]["content"]
        replies.append(Reply(text, prompt_tokens=10, completion_tokens=1))
    return replies


def made(backend, **more):
    """A model that waits in no time, and the entries that it counts."""
    entries = []

    class Keeps(Ledger):
        def enter(self, entry):
            entries.append(entry)
            super().enter(entry)

    sleep = more.pop("slept", []).append
    retry = Retry(tries=more.pop("tries", 6), sleep=sleep)
    return LLM(backend, ledger=Keeps(), retry=retry, **more), entries


def texts(outcomes):
    """The text of each completion, and the name of each failure's class."""
    shown = []
    for outcome in outcomes:
        if isinstance(outcome, Completion):
            shown.append(outcome.text)
        else:
            shown.append(type(outcome).__name__)
    return shown


def row(model, *names):
    return [model.ledger.rows()[0][name] for name in names]


PRICES = {"price_in": 1e5, "price_out": 1e6}  # a dollar in and a dollar out for each answer
