"""Answers drawn for the page, block by block or whole, and folders of logs that others hold."""

import re

import pytest
from talking import Talks

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.live.serving import drawing, service
from pyterrier_ikat.live.serving.drawing import BlockDrawer, as_html, cited_sentences
from pyterrier_ikat.live.serving.replies import annotations
from pyterrier_ikat.live.serving.requests import ChatRequest, SearchRequest, read
from pyterrier_ikat.live.serving.service import SavedConversations, open_served, search
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import Log, ShownPassage, Turn
from pyterrier_ikat.store.files import lock_folders


def shown(html):
    """The HTML with (1) for the button of passage 1."""
    return re.sub("<button[^>]*>([0-9]+)</button>", r"(\1)", html)


@pytest.mark.parametrize(
    ("text", "html", "until"),
    [
        ("One.\n\n- a\n- b\n\n  more\n", "<p>One.</p>\n", 6),
        ("One.\n\n> a\n>\n> b", "<p>One.</p>\n", 6),
        ("One.\n\n```\nTwo\n\nThree\n", "<p>One.</p>\n", 6),
        ("One.\n\n| a |\n|---|\n| b |", "<p>One.</p>\n", 6),
        ("- a\n  - b\n\nTwo", "<ul>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n</ul>\n", 11),
        ("# Head\nOne\nTwo", "<p><strong>Head</strong></p>\n", 7),
        ("One.\n\n---\n\nTwo", "<p>One.</p>\n<hr />\n", 11),
        ("One.\n\nTwo.\n\n", "<p>One.</p>\n", 6),
        ("One", None, 0),
        ("One\nTwo", None, 0),
        ("\n\n", None, 0),
        ("One.\n\nTwo\r\n", None, 0),
    ],
)
def test_a_block_is_drawn_when_the_next_one_has_begun(text, html, until):
    drawn = BlockDrawer().draw(text)
    assert drawn == (None if html is None else (html, until))


def test_an_unfinished_block_is_read_up_to_a_length(monkeypatch):
    monkeypatch.setattr(drawing, "LONGEST_UNFINISHED", 12)
    drawer = BlockDrawer()
    assert drawer.draw("One.\n\nTwo...") == ("<p>One.</p>\n", 6)
    assert drawer.draw("One.\n\nTwo.\n\nTwelve") == ("<p>Two.</p>\n", 12)
    assert BlockDrawer().draw("One.\n\nTwo....") is None
    assert drawer.draw("One.\n\nTwo.\n\nTwelve signs.\n") is None


def test_marks_of_blocks_are_buttons_and_private_signs_are_not():
    text = "A\ue0007\ue001 \u202eb\u2066. [1][23]\nC [2] d[3] e [x] [123]\n\n`f [4]`\n\nG"
    drawn = BlockDrawer().draw(text)
    assert shown(drawn.html) == (
        "<p>A7 b. (1)(23)<br />\nC (2) d[3] e [x] [123]</p>\n<p><code>f [4]</code></p>\n"
    )
    assert drawn.until == len(text) - 1


PASSAGES = (ShownPassage("d1"), ShownPassage("d2"), ShownPassage("d3"))


def whole(*sentences):
    text = "".join(sentence for sentence, _ in sentences)
    cited = tuple(CitedSentence(sentence, numbers) for sentence, numbers in sentences)
    return shown(as_html(Turn(1, "?", text, PASSAGES, cited=cited)))


def test_a_whole_answer_has_its_marks_and_no_html_of_its_own():
    assert whole(("# Tea\n", ()), ("Red [a](https://a) ![x](http://x)", (2, 1))) == (
        '<p><strong>Tea</strong></p>\n<p>Red <a href="https://a">a</a> !'
        '<a href="http://x">x</a> (2)(1)</p>\n'
    )
    assert whole(("<i>A</i> [b](javascript:b)", (1,))) == (
        "<p>&lt;i&gt;A&lt;/i&gt; [b](javascript:b) (1)</p>\n"
    )
    assert whole(("A\ue0003\ue001 \u202eb\u2069.", ())) == "<p>A3 b.</p>\n"
    assert whole(("| a | b |\n|:--|--:|\n", ()), ("| 1 | 2 |", (1, 3))) == (
        '<table>\n<thead>\n<tr>\n<th align="left">a</th>\n<th align="right">b</th>\n</tr>\n'
        '</thead>\n<tbody>\n<tr>\n<td align="left">1</td>\n<td align="right">2 (1)(3)</td>\n'
        "</tr>\n</tbody>\n</table>\n"
    )


def test_without_citations_all_sources_are_cited():
    turn = Turn(1, "?", "Tea.", PASSAGES)
    assert cited_sentences(turn) == [CitedSentence("", (1, 2, 3))]
    assert cited_sentences(Turn(1, "?", "Tea.", PASSAGES, cited=())) == ()
    assert cited_sentences(Turn(1, "?", "Tea.")) == [CitedSentence("", ())]
    assert shown(as_html(turn)).count("(1)(2)(3)") == 1


def test_a_link_begins_where_its_passage_is_first_cited():
    turn = Turn(1, "?", "A. B. C.", PASSAGES)
    links = [link["url_citation"] for link in annotations(turn, "A [2]. B [1]. C [2][1].", None)]
    places = [(link["start_index"], link["end_index"], link["title"]) for link in links]
    assert places == [(9, 12, "d1"), (2, 5, "d2"), (0, 3, "d3")]


# Logs


def test_a_folder_that_another_server_holds_holds_up_no_other(tmp_path):
    systems = open_served({"a": Talks("Mint."), "b": Talks("Sage.")}, Ledger())
    with lock_folders(tmp_path / "b"), pytest.raises(ikat.UsageError):
        SavedConversations(tmp_path, systems)
    saved = SavedConversations(tmp_path, systems)
    for name in systems:
        with pytest.raises(ikat.UsageError), lock_folders(tmp_path / name):
            pass
    saved.close()
    with lock_folders(tmp_path / "a", tmp_path / "b"):
        pass
    headers = [Log(tmp_path / name).header for name in systems]
    assert [(header["kind"], header["system"]) for header in headers] == [
        ("served", "a"),
        ("served", "b"),
    ]


def question(*texts, ptkb=()):
    roles = ["user", "assistant"] * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return read(ChatRequest, {"messages": messages, "metadata": {"ptkb": list(ptkb)}})


def test_each_beginning_is_a_conversation_of_its_own(tmp_path):
    saved = SavedConversations(tmp_path, open_served({"a": Talks("Mint.")}, Ledger()))

    def save(*texts, response="So."):
        turn = saved.save("a", "mine", question(*texts), Turn(9, texts[-1], response))
        assert turn.more == {"saved": True}

    save("One?")
    save("Other?")
    save("Third?")
    save("Other?", "So.", "And?")
    save("Third?", "Else.", "Now?", "Told.", "Then?")
    save("One?", "So.", "And?")
    save("One?", response="Again.")
    said = {}
    for name, dialogue in Log(tmp_path / "a").known.items():
        said[name] = [(turn.number, turn.utterance, turn.response) for turn in dialogue.turns]
    assert said == {
        "mine": [(1, "One?", "Again.")],
        "mine.2": [(1, "Other?", "So."), (2, "And?", "So.")],
        "mine.3": [(1, "Third?", "So."), (2, "Now?", "Told."), (3, "Then?", "So.")],
    }
    saved.close()
    assert (tmp_path / "a" / "topics.json").exists()


def test_a_server_that_was_asked_nothing_has_no_topics(tmp_path):
    SavedConversations(tmp_path, open_served({"a": Talks("Mint.")}, Ledger())).close()
    assert not (tmp_path / "a" / "topics.json").exists()


def test_only_a_wrong_parameter_is_the_client_s_fault(monkeypatch):
    system = open_served({"a": Talks()}, Ledger())["a"]

    def fails(error):
        def stage(*_):
            raise error

        monkeypatch.setattr(service, "stage_for_client", stage)
        return read(SearchRequest, {"query": "tea"})

    with pytest.raises(service.Failure, match="k1 is below 0") as refused:
        search(system, fails(ikat.UsageError("k1 is below 0")))
    assert (refused.value.status, refused.value.param) == (400, "k1")
    with pytest.raises(ikat.DataError, match="the index is gone"):
        search(system, fails(ikat.DataError("the index is gone")))
