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
        self.texts = list(texts)
        self.asked = []

    def generate(self, prompts):
        self.asked += prompts
        return [Reply(self.texts.pop(0)) for _ in prompts]


class ByQuestion:
    """Answers by the first key that the prompt contains."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def generate(self, prompts):
        self.asked += prompts
        return [Reply(self.answer_to(str(prompt))) for prompt in prompts]

    def answer_to(self, prompt):
        for key, text in self.answers.items():
            if key in prompt:
                return text
        raise AssertionError(f"no key of {list(self.answers)} is in {prompt}")


def scripted(*texts):
    """An LLM that answers these texts, and its backend."""
    backend = Scripted(*texts)
    return llm(backend), backend


class Types(Backend):
    """Writes each answer in pieces, if somebody follows it: texts, whole so far.

    A function is called; then comes the reply.
    """

    def __init__(self, *answers):
        self.answers = [list(answer) for answer in answers]
        self.followed = []
        self.model = "types"
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}

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
        self.answers = answers
        self.otherwise = otherwise
        self.asked = []
        self.model = "by-prompt"
        self.replays = True
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}
        self.llm = LLM(self)

    def complete(self, requests):
        self.asked += requests
        replies = []
        for request in requests:
            answer = self.answer_to(request.prompt.removesuffix("_human"))
            replies.append(BackendReply(answer, self.model))
        return replies

    def answer_to(self, prompt):
        answer = self.answers.get(prompt, self.otherwise)
        assert answer is not None, (
            f"add an answer to the prompt {prompt!r} to those of this test's ByPrompt({prompt}=...)"
        )
        return answer

    def texts_of(self, prompt):
        """The last message of each request with this prompt id, in order."""
        requests = [request for request in self.asked if request.prompt == prompt]
        return [request.messages[-1]["content"] for request in requests]

    def all_texts(self):
        """Every message of every request, in order."""
        texts = []
        for request in self.asked:
            texts += [message["content"] for message in request.messages]
        return texts
