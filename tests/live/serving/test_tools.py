"""The tools of a server: what they pass on, and their errors."""

import asyncio
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from talking import silent

from pyterrier_ikat.live.serving import tools
from pyterrier_ikat.live.serving.replies import Failure
from pyterrier_ikat.runs import ShownPassage, Turn


class Asked:
    """A service that notes what it is asked."""

    systems = {"rtg": "RTG", "ad": "AD"}

    def __init__(self):
        self.questions = []

    async def answer(self, question):
        self.questions.append(question)
        return Turn(1, "?", "Tea.", (ShownPassage("d1", "Mint.", 2.0),))

    async def search(self, request):
        self.questions.append(request)
        return {"model": request.model, "fingerprint": "f", "results": [request.k]}

    def system(self, name):
        return self.systems[name]

    def address(self, system):
        return lambda docno: f"https://{system}/{docno}"


def test_tools_pass_on_all_that_they_are_given(monkeypatch):
    offered = {}
    monkeypatch.setattr(
        tools._Server, "add_tool", lambda self, tool: offered.update({tool.__name__: tool})
    )
    asked = Asked()
    tools.tools_of(asked)
    request = Request({"type": "http"}, silent)
    context = SimpleNamespace(request_context=SimpleNamespace(request=request))

    def call(name, *arguments, **named):
        return asyncio.run(offered[name](context, *arguments, **named))

    cited = {"id": "d1", "title": "Mint.", "text": "Mint.", "score": 2.0}
    content = "Tea.\n\nSources: [1]"
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    assert call("ask", "Which tea?", history, ["I run.", "I cook."], "ad") == {
        "answer": content,
        "citations": [{**cited, "url": "https://AD/d1"}],
    }
    assert call("ask", "And hot?")["citations"] == [{**cited, "url": "https://RTG/d1"}]
    first, second = asked.questions
    assert (first.model, second.model) == ("ad", "rtg")
    assert first.said == [*history, {"role": "user", "content": "Which tea?"}]
    assert second.said == [{"role": "user", "content": "And hot?"}]
    assert first.metadata.ptkb == {"1": "I run.", "2": "I cook."}
    assert second.metadata.ptkb == {}
    assert call("search", "tea") == {"results": [10]}
    assert call("search", None, ["tea", "mint"], 3, "ad") == {"results": [3]}
    one, several = asked.questions[2:]
    assert (one.model, one.every_query, one.texts) == ("rtg", ["tea"], True)
    assert (several.model, several.every_query, several.k) == ("ad", ["tea", "mint"], 3)


def test_an_error_of_a_tool_names_its_field_in_one_line():
    def find(k: int, where: str = "") -> str:
        if where == "here":
            raise Failure(404, "there is\nno model 'x'")
        raise ValueError(f"not {k}\n  in {where}")

    made = tools._Server("x", log_level="CRITICAL")
    made.add_tool(find)
    for arguments, told in [
        ({"k": "x", "where": 7}, "k: Input should be a valid integer"),
        ({"where": "here"}, "k: Field required"),
        ({"k": 1, "where": "here"}, "there is no model 'x'"),
        ({"k": 1, "where": "there"}, "Error executing tool find"),
    ]:
        with pytest.raises(tools.ToolError) as raised:
            asyncio.run(made.call_tool("find", arguments))
        assert told in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "where" not in str(raised.value)
