"""Stand-ins for models.

Real LLM objects whose answers are queued, and scorers that can be worked out by hand.
"""

from pyterrier_ikat.llms import LLM, Backend, llm
from pyterrier_ikat.llms import Reply as BackendReply


class Reply:
    def __init__(self, text):
        self.text = text


class Scripted:
    """A backend of the ``.generate(list)`` kind that answers from a list, in order.

    Remembers what it was asked.
    """

    def __init__(self, *texts):
        self.texts, self.asked = list(texts), []

    def generate(self, prompts):
        self.asked += prompts
        return [Reply(self.texts.pop(0)) for _ in prompts]


class ByQuestion:
    """Answers by the first key that the prompt contains."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def generate(self, prompts):
        self.asked += prompts
        return [
            Reply(next(text for key, text in self.answers.items() if key in str(prompt)))
            for prompt in prompts
        ]


def scripted(*texts):
    """An LLM that answers these texts, and its backend."""
    backend = Scripted(*texts)
    return llm(backend), backend


class Types(Backend):
    """Writes each answer in pieces, if somebody follows it: texts, whole so far.

    A function is called; then comes the reply.
    """

    def __init__(self, *answers):
        self.answers, self.followed = [list(answer) for answer in answers], []
        self.model, self.identity = (
            "types",
            {"provider": "fake", "model": str(id(self)), "params": {}},
        )

    def complete(self, requests):
        return [self.answers.pop(0)[-1] for _ in requests]

    def stream(self, request, write):
        self.followed.append(request.stage)
        *texts, reply = self.answers.pop(0)
        for text in texts:
            text() if callable(text) else write(text)
        return reply


class ByPrompt(Backend):
    """An LLM whose backend answers by the request's prompt id, and remembers the requests.

    ``otherwise`` answers all other prompts.
    """

    def __init__(self, otherwise=None, **answers):
        self.answers, self.otherwise, self.asked = answers, otherwise, []
        self.model, self.replays = "by-prompt", True
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}
        self.llm = LLM(self)

    def complete(self, requests):
        self.asked += requests
        return [
            BackendReply(self.answer_to(request.prompt.removesuffix("_human")), self.model)
            for request in requests
        ]

    def answer_to(self, prompt):
        answer = self.answers.get(prompt, self.otherwise)
        assert answer is not None, (
            f"add an answer to the prompt {prompt!r} to those of this test's ByPrompt({prompt}=...)"
        )
        return answer
