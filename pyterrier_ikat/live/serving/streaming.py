"""Answers under way, and their streams: a page that is reloaded finds its answer again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

from ...events import Write
from ...runs.answered_turn import Turn
from .drawing import BlockDrawer
from .replies import ChatReply, Failure, as_json, content_of, failure_of, why_changed
from .requests import ChatRequest
from .service import CLIENT_LEFT

PATIENCE = 10
"""Seconds for which the work on a named answer goes on while nobody reads it."""
Work = Callable[[Callable[[str], None], Write | None], Coroutine[Any, Any, Turn]]
"""Answers a question; its arguments get each step, and the text so far."""


class News:
    """The news for a stream, gathered in other threads.

    A model that writes faster than its reader reads fills no queue: of its text only the newest is
    kept, which has all of it.

    Attributes:
        queue: each step that begins; an empty text where a text is to be taken; None at the end.
    """

    def __init__(self) -> None:
        self.queue = asyncio.Queue[str | None]()
        self._loop = asyncio.get_running_loop()
        self._text = ""
        self._waits = False

    def tell(self, step: str) -> None:
        """A step begins."""
        with suppress(RuntimeError):  # the loop ended before the system did
            self._loop.call_soon_threadsafe(self.queue.put_nowait, step)

    def write(self, text: str) -> None:
        """A model has written this so far."""
        self._text = text
        if not self._waits:
            self._waits = True
            self.tell("")

    def take(self) -> str:
        """The newest text."""
        # before the text is read: a text that is written meanwhile is told once more
        self._waits = False
        return self._text

    def end(self) -> None:
        """The work is done, or nobody waits for it any more."""
        self.queue.put_nowait(None)


class Answer:
    """An answer under way, for everybody who reads it.

    Args:
        question: the question.
        reply: the form of its parts.
        work: answers the question.

    Attributes:
        name: the name that the client gave it; empty for none.
        job: the work.
    """

    def __init__(self, question: ChatRequest, reply: ChatReply, work: Work) -> None:
        self.question = question
        self.reply = reply
        self.name = question.metadata.answer_id
        self._readers: list[News] = []
        self._step = ""
        self._text = ""
        write = self._write if question.stream_unchecked else None
        self.job = asyncio.ensure_future(work(self._tell, write))
        self.job.add_done_callback(self._end)

    @property
    def is_read(self) -> bool:
        """Whether anybody reads it."""
        return bool(self._readers)

    def begin_reading(self) -> News:
        """Return the news of another reader, which begin with the step and the text so far."""
        news = News()
        self._readers.append(news)
        if self._step:
            news.tell(self._step)
        if self._text:
            news.write(self._text)
        if self.job.done():
            news.end()
        return news

    def end_reading(self, news: News) -> None:
        """A reader leaves."""
        self._readers.remove(news)

    def _tell(self, step: str) -> None:
        self._step = step
        for news in list(self._readers):
            news.tell(step)

    def _write(self, text: str) -> None:
        self._text = text
        for news in list(self._readers):
            news.write(text)

    def _end(self, job: "asyncio.Future[Turn]") -> None:
        if not job.cancelled():
            job.exception()  # asyncio would print it otherwise
        for news in self._readers:
            news.end()

    def turn(self) -> Turn:
        """The answered turn, at the end of the news.

        Raises:
            Failure: when another reader has stopped the work.
            Exception: the error of the system.
        """
        if self.job.cancelled():
            raise Failure(CLIENT_LEFT, "the answer was stopped")
        return self.job.result()


class Answers:
    """The answers under way, by the names that clients gave them.

    An answer without a name ends with the connection of its reader. One with a name goes on for
    ``PATIENCE`` seconds, so that a page that is reloaded can read on and nothing is paid twice.
    """

    def __init__(self) -> None:
        self._named: dict[str, Answer] = {}

    def begin(self, question: ChatRequest, reply: ChatReply, work: Work) -> Answer:
        """Begin to answer; a request that a proxy repeats reads the answer under way.

        Raises:
            Failure: when an answer to another question has this name.
        """
        name = question.metadata.answer_id
        under_way = self._named.get(name)
        if under_way is not None and under_way.question == question:
            return under_way
        if under_way is not None:
            raise Failure(
                409,
                "metadata.answer_id is the id of another answer: give each question an id of its "
                "own that nobody can guess",
                param="metadata.answer_id",
            )
        answer = Answer(question, reply, work)
        if name:
            self._named[name] = answer
        self._forget_later(answer)
        return answer

    def named(self, name: str) -> Answer:
        """Return the answer of that name.

        Raises:
            Failure: when it isn't known, or not any more.
        """
        if name not in self._named:
            raise Failure(
                404, "this answer is not under way: ask again", code="answer_not_found", param="id"
            )
        return self._named[name]

    def stop(self, name: str) -> None:
        """End the work on an answer that nobody wants any more, after the call under way."""
        answer = self._named.pop(name, None)
        if answer is not None:
            answer.job.cancel()

    def leave(self, answer: Answer, news: News) -> None:
        """A reader leaves an answer. The work on it ends unless somebody comes back."""
        answer.end_reading(news)
        if answer.name:
            self._forget_later(answer)
        elif not answer.is_read:
            answer.job.cancel()

    def _forget_later(self, answer: Answer) -> None:
        asyncio.get_running_loop().call_later(PATIENCE, self._forget, answer)

    def _forget(self, answer: Answer) -> None:
        if answer.is_read:
            return
        if self._named.get(answer.name) is answer:  # after a stop, another one may have its name
            del self._named[answer.name]
        answer.job.cancel()


async def stream(answers: Answers, answer: Answer) -> AsyncIterator[dict[str, str]]:
    """Stream the system's steps and its answer; with unchecked parts only if asked for."""
    reply = answer.reply
    news = answer.begin_reading()
    drawer = BlockDrawer()
    sent = ""
    try:
        yield _event(reply.chunk({"role": "assistant", "content": ""}))
        while (step := await news.queue.get()) is not None:
            if step:
                yield _event(reply.chunk({}, ikat={"activity": step}))
                continue
            text = news.take()
            is_cut = bool(text) and sent.startswith(text)
            why = "it is shortened" if is_cut else "the model is rewriting its answer"
            for chunk in reply.text(text, sent, why):
                yield _event(chunk)
            drawn = drawer.draw(text)
            if drawn is not None:
                yield _event(reply.blocks(drawn))
            sent = text
        turn = answer.turn()
        for chunk in reply.text(content_of(turn), sent, why_changed(turn)):
            yield _event(chunk)
        yield _event(reply.end(turn, sent))
        options = answer.question.stream_options
        if options and options.include_usage:
            yield _event(reply.usage(turn))
    except Exception as error:
        yield _event(failure_of(error).record)
    finally:
        answers.leave(answer, news)
    yield {"data": "[DONE]"}


def _event(value: Any) -> dict[str, str]:
    return {"data": as_json(value)}
