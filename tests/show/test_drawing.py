"""Drawings: every method draws offline, with the stages of its expression, and without a secret."""

import html
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pyterrier as pt
import pytest
from chromium import Browser, find_browser

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.show.drawing import draw
from pyterrier_ikat.show.drawing_svg import NARROW, WIDE, Block, _lines, model_name, render_svg

SVG = "{http://www.w3.org/2000/svg}"
LABELS = {
    "BM25Rerank": "BM25 re-rank",
    "HistoricalQueryExpansion": "HQE",
    "LLMRerank": "LLM rerank",
    "SelectStatements": "Statements",
    "RRF": "RRF",
}
"""The labels that are not the operator's name in words."""


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def boxes(svg):
    """The labels of the stages, which are bold."""
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text") if element.get("font-weight") == "bold"]


def in_words(name):
    """``BestQuery`` as ``Best query``."""
    return re.sub("(?<=[a-z])[A-Z]", lambda capital: f" {capital[0].lower()}", name)


def stages_of(expression):
    """Every operator, resource and cut that an expression names, read from its text."""
    found = re.findall(r"ikat\.(\w+)\(|\b(retriever|dense|reranker|rewriter|expander)\b(?!=)|% (\d+)", expression)
    return sorted(LABELS.get(op, in_words(op)) if op else role.capitalize() if role else f"% {cut}" for op, role, cut in found)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_draws_the_stages_of_its_expression(name):
    drawing = draw(name)
    more = METHODS[name].models.get("reranker", "").count(",bi:")  # InfoSense's second bi-encoder is no name in the expression
    assert sorted(boxes(drawing.svg)) == sorted(stages_of(METHODS[name].expression) + ["Reranker"] * more)
    page = html.unescape(drawing.html)
    assert all(label in page for label in boxes(drawing.svg))
    assert draw(name).svg == drawing.svg
    for text in (drawing.svg, drawing.html):
        assert not re.search(r"""(?:src|href)=|url\(|@import""", text)


@pytest.mark.parametrize("widest", [NARROW, WIDE])
@pytest.mark.parametrize("name", METHODS)
def test_no_box_of_a_drawing_overlaps_another_or_leaves_it(name, widest):
    """Two boxes lie apart, or one holds the other; nothing is outside the picture, which is not wider than a phone or a page."""
    root = ElementTree.fromstring(render_svg(draw(name).schematic, name, widest))
    assert float(root.get("width")) <= {NARROW: 390, WIDE: 736}[widest]
    found, size = [], (float(root.get("width")), float(root.get("height")))

    def walk(element, x, y):
        if moved := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        if element.tag == f"{SVG}rect" and element.get("width") != "100%":
            found.append((x, y, x + float(element.get("width")), y + float(element.get("height"))))
        for child in element:
            walk(child, x, y)

    walk(root, 0.0, 0.0)
    for place, (left, top, right, bottom) in enumerate(found):
        assert left >= 0
        assert top >= 0
        assert right <= size[0]
        assert bottom <= size[1]
        for a, b, c, d in found[:place]:
            apart = a >= right or c <= left or b >= bottom or d <= top
            assert (
                apart or (a <= left and b <= top and c >= right and d >= bottom) or (a >= left and b >= top and c <= right and d <= bottom)
            )


def test_a_linear_method_tells_the_kind_of_frame_between_its_stages():
    assert texts(draw("raw").svg) == [
        *("Input", "Q", "Raw utterance", "Q", "Retriever", "R", "% 1000", "R", "Reranker", "R", "Output"),
    ]


def boxes_of_width(*widths):
    return [Block.straight(width, 36, "") for width in widths]


@pytest.mark.parametrize(
    ("widths", "widest", "lines"),
    [
        ((40, 100, 100, 50), 374, [[0, 1, 2, 3]]),  # 40 + 28 + 100 + 28 + 100 + 28 + 50
        ((40, 100, 100, 50), 373, [[0, 1, 2], [3]]),  # 40 + 28 + 100 + 28 + 100, and 10 to turn
        ((40, 100, 100, 50), 305, [[0, 1], [2, 3]]),  # 28 + 100 + 28 + 50
        ((40, 500, 50), 300, [[0], [1], [2]]),  # what is too wide is whole, on a line of its own
        ((0, 100, 100, 0), 284, [[0, 1, 2, 3]]),  # a branch: 28 + 100 + 28 + 100 + 28
        ((0, 100, 100, 0), 283, [[0, 1], [2, 3]]),  # the arrow that leads out is not alone
    ],
)
def test_stages_that_do_not_fit_go_on_below(widths, widest, lines):
    assert _lines(boxes_of_width(*widths), widest) == lines


def test_a_drawing_that_fits_a_phone_is_there_once():
    assert draw(ikat.RawUtterance()).fitting == draw(ikat.RawUtterance()).svg
    assert draw("aqd").fitting.count("<svg") == 2


def test_the_branches_of_a_union_fork_and_join():
    drawn = texts(draw("gtr").svg)
    assert drawn.count("Queries") == 2
    assert drawn.index("Union") < drawn.index("Statements")
    assert drawn[-4:] == ["Respond", "gpt-4o", "R", "Output"]


def test_both_branches_of_gtr_name_their_model():
    drawn = texts(draw("gtr").svg)
    models = [drawn[place + 1] for place, text in enumerate(drawn) if text in ("Statements", "Answer", "Queries")]
    assert models == ["gpt-4o"] * 3 + ["claude-3-opus-20240229"] * 3


def test_recorded_models_are_told_apart():
    drawn = texts(draw(ikat.Answer(ikat.llm("recorded:sample")) >> ikat.Rewrite(ikat.llm("recorded:sample-claude"))).svg)
    assert drawn == ["Input", "Q", "Answer", "sample", "Q", "Rewrite", "sample-claude", "Q", "Output"]


def test_hovering_over_an_arrow_shows_the_columns():
    titles = [title.text for title in ElementTree.fromstring(draw("raw").svg).iter(f"{SVG}title")]
    assert titles[:2] == ["raw", "qid, query, qutterance, qhistory, qptkb, qconversation, qturn"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"llm": "Llama-2-13b-chat temperature=0.75 top_p=0.9"}, "Llama-2-13b-chat"),
        ({"in the paper": "SPLADE, naver/splade-cocondenser-ensembledistil"}, "SPLADE, naver/splade-co…"),
        ({"model": None, "words": 200}, ""),
        ({"model": "folder/of/mine"}, "mine"),
    ],
)
def test_a_box_names_the_model_in_a_few_letters(settings, name):
    assert model_name(settings) == name


def test_what_the_paper_used_stands_in_the_settings():
    drawing = draw("aqd")
    for text in (drawing.svg, html.unescape(drawing.html)):
        assert "openai:gpt-4" in text
        assert "cross-encoder/ms-marco-MiniLM-L-6-v2" in text
    assert "in the paper = BM25" in drawing.svg


def test_no_secret_is_drawn(monkeypatch):
    key, password, parameter = "sk-planted-12345", "pw-planted-98765", "p-planted-43210"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("MY_KEY", key)
    llm = ikat.llm(f"openai:gpt-4o api_key_env=MY_KEY cache=none base_url=http://me:{password}@127.0.0.1:9/v1?api-key={parameter}")
    llm.open()
    assert [client.api_key for client in llm.backend._clients.values()] == [key]
    drawing = draw(ikat.Answer(llm) >> ikat.MultiQuery(llm) >> ikat.ExplodeQueries())
    for drawn in (drawing.html, drawing.svg, drawing._repr_html_(), repr(drawing)):
        assert "gpt-4o" in drawn
        assert not [secret for secret in (key, password, parameter) if secret in drawn]
    llm.close()


def test_a_pipeline_of_ones_own_draws_without_looking_up_documentation(no_network):
    class Mine(pt.Transformer):
        def transform(self, inp):
            return inp

    look_up = pt.documentation.url_for_class
    drawing = draw(ikat.RawUtterance() >> Mine() % 3)
    assert boxes(drawing.svg) == ["Raw utterance", "Mine", "% 3"]
    assert no_network == []
    assert pt.documentation.url_for_class is look_up


def test_a_single_operator_draws():
    assert texts(draw(ikat.Interleave()).svg) == ["Input", "R", "Interleave", "R", "Output"]


def test_an_unknown_frame_has_no_letter_and_settings_are_escaped():
    stage = {"type": "transformer", "label": "<b> & 'c'", "settings": {"text": "\x00<script>"}, "input_columns": None}
    svg = render_svg(stage, "<name>")
    assert texts(svg) == ["Input", None, "<b> & 'c'", None, "Output"]
    assert [title.text for title in ElementTree.fromstring(svg).iter(f"{SVG}title")] == ["<name>", "<b> & 'c'\ntext =  <script>"]


@pytest.mark.parametrize("kind", ["svg", "html"])
def test_saved_by_the_ending_of_the_name(tmp_path, kind):
    path = draw("qr").save(tmp_path / f"qr.{kind}")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg" if kind == "svg" else "<!doctype html>")
    assert "Rewrite" in text


def test_errors_name_what_to_do(tmp_path):
    with pytest.raises(ikat.UsageError, match=r"qr\.png: a drawing is saved as \.svg or \.html"):
        draw("qr").save(tmp_path / "qr.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(ikat.UsageError, match="can't be written"):
        draw("qr").save(tmp_path / "file" / "qr.svg")
    with pytest.raises(ikat.UsageError, match="did you mean aqd_a"):
        draw("aqda")


@pytest.mark.parametrize("role", ["retriever", "dense", "reranker", "rewriter", "expander"])
def test_a_resource_that_is_only_drawn_refuses_to_run(role):
    from pyterrier_ikat.show.drawing import _Resource

    with pytest.raises(ikat.UsageError, match=f"{role} only stands for a resource"):
        _Resource(role, "").transform(pd.DataFrame({"qid": ["1"], "query": ["tea"]}))


def test_a_model_that_is_only_drawn_refuses_to_answer():
    from pyterrier_ikat.show.drawing import _Model

    with pytest.raises(ikat.UsageError, match="gpt-4 only stands for a language model"):
        ikat.Rewrite(_Model("gpt-4")).transform(pd.DataFrame({"qid": ["1"], "query": ["tea"]}))


SEEN = """[...document.querySelectorAll("svg text")].map(element => {
    const {left, right} = element.getBoundingClientRect(), {scrollLeft, scrollWidth} = SCROLLS;
    return [element.textContent, left + scrollLeft >= 0 && right + scrollLeft <= scrollWidth];
})"""
"""The words of a drawing, and whether scrolling reaches the whole of them."""


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium")
def test_a_wide_drawing_is_never_clipped(tmp_path):
    drawing, cell = draw("gtr"), tmp_path / "cell.html"
    cell.write_text(
        f"<!doctype html><meta name=viewport content='width=device-width'><body style='margin: 0'>{drawing._repr_html_()}", encoding="utf-8"
    )
    browser = Browser(tmp_path / "profile")
    try:
        for file, scrolls in ((drawing.save(tmp_path / "gtr.html"), "main"), (cell, "body > div")):
            for width in (390, 800, 1280):
                browser.open(file.as_uri(), width=width, height=4000)
                last = browser.run("""[...document.querySelectorAll("svg text")].filter(one => one.checkVisibility() && one.textContent ==
                    "Output").map(one => one.getBoundingClientRect().right)""")
                assert len(last) == 1
                assert last[0] <= width
                seen = browser.run(SEEN.replace("SCROLLS", f'document.querySelector("{scrolls}")'))
                assert {"Input", "Output", "Statements", "claude-3-opus-20240229"} <= {text for text, _ in seen}
                assert [text for text, whole in seen if not whole] == []
                assert browser.run("[innerWidth, document.documentElement.scrollWidth]") == [width, width]
        assert browser.errors == []
    finally:
        browser.close()
