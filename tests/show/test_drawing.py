"""Drawings of methods and pipelines: PyTerrier draws them offline, with stand-ins for models."""

import html
import re

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.show import draw, drawing

pytestmark = pytest.mark.disable_socket  # not even loopback


@pytest.mark.parametrize(
    "name", ["aqd", "gtr", "mq4cs_qr_deberta", "rtg", "wghtdrerank_2", "baseline_2025_splade"]
)
def test_a_method_is_drawn_with_its_stages_and_resources(name):
    page = html.unescape(draw(name).html)
    for stage in re.findall(
        r"ikat\.(RRF|Interleave|Union|Respond|MultiQuery)\(", METHODS[name].expression
    ):
        assert stage.removeprefix("Multi").casefold() in page.casefold()
    assert "Retriever" in page
    assert not re.search(r"""(?:src|href)="http|url\(http|@import""", page)


def test_pipeline_with_pyterrier_operators_is_drawn_and_saved(tmp_path):
    pipeline = (
        ikat.Answer("recorded:sample")
        >> ikat.MultiQuery("recorded:sample")
        >> ikat.ExplodeQueries() % 10
    )
    drawing = draw(pipeline)
    assert all(label in drawing.html for label in ("Answer", "Queries", "Explode queries"))
    assert drawing._repr_html_() == drawing.html
    assert drawing.html in drawing.save(tmp_path / "d.html").read_text(encoding="utf-8")


def test_an_unknown_method_is_named():
    with pytest.raises(ikat.UsageError, match="there is no method 'aqdd': did you mean aqd"):
        draw("aqdd")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("retriever", ["qid", "query", "docno", "text", "score", "rank"]),
        ("dense", ["qid", "query", "docno", "text", "score", "rank"]),
        ("rewriter", ["qid", "query", "qrewrite"]),
        ("expander", ["qid", "query", "qrewrite"]),
        ("reranker", ["qid", "query", "score", "rank"]),
    ],
)
def test_a_stand_in_has_the_columns_of_a_real_resource(name, columns):
    stage = drawing._Resource(name)
    frame = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
    found = stage.transform(frame)
    assert found.columns.tolist() == columns
    assert len(found) == 0
    again = stage.transform(frame.assign(score=1.0, text="x"))
    assert set(again.columns) == {*columns, "score", "text"}
    assert stage.schematic == {"label": name.capitalize(), "help_url": ""}


def test_a_drawing_leaves_pyterriers_look_up_as_it_was(tmp_path):
    before = pt.documentation.url_for_class
    drawn = drawing.draw("aqd")
    assert pt.documentation.url_for_class is before

    def fail():
        with drawing._offline():
            raise KeyError(pt.documentation.url_for_class(int))

    with pytest.raises(KeyError, match="None"):
        fail()
    assert pt.documentation.url_for_class is before
    path = drawn.save(str(tmp_path / "aqd.html"))
    assert path.read_text(encoding="utf-8") == (
        f'<!doctype html><meta charset="utf-8">{drawn.html}'
    )
    assert repr(drawn) == "<drawing>"


def test_models_and_resources_of_a_method_are_stand_ins():
    roles = set()
    for method in METHODS.values():
        roles.update(method.resources.values())
    assert {role for role in roles if role.endswith("llm")} == {"llm", "second_llm"}
    drawn = drawing.draw("human_qr").html
    assert "qresolved" in drawn
    assert "qresolved" not in drawing.draw("raw").html
