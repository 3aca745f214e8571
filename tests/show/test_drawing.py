"""Drawings: PyTerrier draws every method and pipeline, offline."""

import html
import re

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.show import draw

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
