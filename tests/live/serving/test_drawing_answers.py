"""Answers drawn for the page, block by block or whole: marks, Markdown, and nothing that runs."""

import re
import time

import pytest
from talking import THREE_PASSAGES

from pyterrier_ikat.completions.citations import CitedSentence, read_citations
from pyterrier_ikat.live.serving import drawing
from pyterrier_ikat.live.serving.drawing import (
    LONGEST_MARKDOWN,
    BlockDrawer,
    as_html,
    cited_sentences,
)
from pyterrier_ikat.runs import ShownPassage, Turn


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


def with_numbers(html):
    """The HTML with (1) for the button of passage 1."""
    return re.sub("<button[^>]*>([0-9]+)</button>", r"(\1)", html)


def test_marks_of_blocks_are_buttons_and_private_signs_are_not():
    text = "A\ue0007\ue001 \u202eb\u2066. [1][23]\nC [2] d[3] e [x] [123]\n\n`f [4]`\n\nG"
    drawn = BlockDrawer().draw(text)
    assert with_numbers(drawn.html) == (
        "<p>A7 b. (1)(23)<br />\nC (2) d[3] e [x] [123]</p>\n<p><code>f [4]</code></p>\n"
    )
    assert drawn.until == len(text) - 1


def test_blocks_of_another_text_begin_anew():
    drawer = BlockDrawer()
    assert drawer.draw("One.\n\nTwo") == ("<p>One.</p>\n", 6)
    assert drawer.draw("One.\n\nTwo") is None
    assert BlockDrawer().draw("\n\nOne") is None
    assert drawer.draw("One.\n\nTwo.\n\n\n# Three") == ("<p>Two.</p>\n", 13)
    assert drawer.draw("Other.\n\nTwo") == ("<p>Other.</p>\n", 8)
    assert drawer.draw("Other.\r\n\r\nTwo\n\nThree") is None
    drawn = drawer.draw("😀 See [1] and [2][12]\n\nEnd")
    assert re.sub("<button[^>]*>([0-9]+)</button>", r"(\1)", drawn.html) == (
        "<p>😀 See (1) and (2)(12)</p>\n"
    )
    assert drawn.until == 2 + len(" See [1] and [2][12]\n\n")  # in units of UTF-16


TEAS = """# Teas
**Rooibos** is *red* 😀. [1][2]

- mint
  - spear mint. [2]
- sage

| tea | caffeine |
|---|---|
| rooibos | none [1] |

Last\n---\n"""


def test_each_block_is_drawn_once_as_the_finished_answer_has_it():
    drawer = BlockDrawer()
    blocks = []
    until = 0
    for end in range(len(TEAS) + 1):
        drawn = drawer.draw(TEAS[:end])
        if drawn is not None:
            blocks.append(drawn.html)
            assert drawn.until > until
            until = drawn.until
    cited = read_citations(TEAS, 2)
    passages = (ShownPassage("d1"), ShownPassage("d2"))
    whole = as_html(Turn(1, "", cited.text, passages, cited=tuple(cited.sentences)))
    assert len(blocks) == 4
    assert whole.startswith("".join(blocks))
    assert TEAS.encode("utf-16-le")[2 * until :].decode("utf-16-le") == "Last\n---\n"


# Whole answers


def whole(*sentences):
    text = "".join(sentence for sentence, _ in sentences)
    cited = tuple(CitedSentence(sentence, numbers) for sentence, numbers in sentences)
    return with_numbers(as_html(Turn(1, "?", text, THREE_PASSAGES, cited=cited)))


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
    turn = Turn(1, "?", "Tea.", THREE_PASSAGES)
    assert cited_sentences(turn) == [CitedSentence("", (1, 2, 3))]
    assert cited_sentences(Turn(1, "?", "Tea.", THREE_PASSAGES, cited=())) == ()
    assert cited_sentences(Turn(1, "?", "Tea.")) == [CitedSentence("", ())]
    assert with_numbers(as_html(turn)).count("(1)(2)(3)") == 1


def test_citations_in_code_and_behind_a_row_stay_in_place():
    passages = (ShownPassage("d1"),)
    code = as_html(Turn(1, "?", "`x`", passages, cited=(CitedSentence("`x", (1,)),)))
    assert "<code>x [1]</code>" in code
    assert as_html(Turn(1, "?", "", passages)).strip().endswith("1</button></p>")
    table = "| tea |\n|:-:|\n| mint |"
    drawn = as_html(Turn(1, "?", table, passages, cited=(CitedSentence(table, (1,)),)))
    assert '<th align="center">tea</th>' in drawn
    assert "style=" not in drawn
    assert re.search(r"<td[^>]*>mint <button[^>]*>1</button></td>", drawn)
    assert "<br" in as_html(Turn(1, "?", "one\ntwo"))
    assert as_html(Turn(1, "?", "[a](HTTPS://a) [b](ftp://b)")).count("<a ") == 1


def test_a_line_of_an_answer_stays_a_line():
    assert as_html(Turn(1, "?", "One\nTwo")) == "<p>One<br />\nTwo</p>\n"


def test_long_answers_are_shown_as_they_are():
    assert "<strong>" in as_html(Turn(1, "?", "**tea** " + "x" * 49_000))
    long = as_html(Turn(1, "?", "**tea** <b>" + "x" * 50_000))
    assert long.startswith("<p>**tea** &lt;b&gt;")


# Hostile texts


def shown(text, *numbers):
    return as_html(
        Turn(
            1,
            "",
            text,
            (ShownPassage("d1"), ShownPassage("d2")),
            cited=(CitedSentence(text, numbers),),
        )
    )


def test_markdown_is_drawn_without_html_images_or_odd_links():
    text = (
        "**Rooibos** `no` [a](http://a) [b](javascript:alert(1)) [c](data:text/html,x) "
        "![d](http://d) <img src=x onerror=alert(1)>"
    )
    drawn = shown(text, 1, 2)
    assert re.findall(r"<(\w+)", drawn) == ["p", "strong", "code", "a", "a", "button", "button"]
    assert re.findall('href="(.*?)"', drawn) == ["http://a", "http://d"]
    assert "<td>rooibos</td>" in shown("| tea | caffeine |\n|---|---|\n| rooibos | none |")
    listed = (
        "<p><strong>Teas</strong></p>\n<ul>\n<li>mint</li>\n</ul>\n<ol "
        'start="3">\n<li>three</li>\n</ol>\n'
    )
    assert shown("# Teas\n- mint\n\n3. three") == listed


@pytest.mark.parametrize(
    "attack",
    ['[x](http://a "t{}t")', "[x](http://a{})", "```\n{}", "`{}`", "{}\ue0009\ue001<b>\u202e"],
)
def test_a_mark_of_a_citation_lets_nothing_through(attack):
    drawn = shown(attack.format('"><script>'), 1)
    assert set(re.findall(r"<(\w+)", drawn)) <= {"p", "a", "pre", "code", "button"}
    assert not re.search("[\ue000\ue001\u202e]", drawn)
    assert drawn.count("<button") <= 1


@pytest.mark.parametrize(
    "text",
    [
        "**a " * 12000,
        "`" * 49000,
        "| a |\n|---|\n" * 3000,
        f"| a |\n|{'-' * 49000}x",
        "[" * 25000,
        "> " * 25000,
        "<b>" * LONGEST_MARKDOWN,
    ],
)
def test_hostile_markdown_is_drawn_at_once_and_stays_inert(text):
    began = time.process_time()
    drawn = shown(text)
    assert time.process_time() - began < 10
    assert not re.search("<(b|a|img|script)[ >]", drawn)


@pytest.mark.parametrize(
    "text", ["**a " * 12000, "> " * 25000, "a\n\n" * 12000, "| a |\n|---|\n" * 3000, "a\rb\n\nc"]
)
def test_hostile_texts_are_drawn_at_once_while_they_are_written(text):
    drawer = BlockDrawer()
    began = time.process_time()
    for end in range(0, len(text), 500):
        drawn = drawer.draw(text[:end])
        assert drawn is None or not re.search("<(b|a|img|script)[ >]", drawn.html)
    assert time.process_time() - began < 10
