"""The report of conversations with simulated users in a browser."""

import pytest
from in_browser import DESK, PHONE, open_all_boxes, violations
from playwright.sync_api import expect
from seen import choose, open_turns, turns
from small_dialogues import write_logs

from pyterrier_ikat.show import report


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return report(write_logs(folder)).save(folder / "report.html").as_uri()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [  # rubrics met: one 1, 1, 1/4, 0; two 1/2, 1, 1, none
        ({"outcome": "loss"}, ["u1"]),
        ({"order": "gain"}, ["u3", "u2", "u1", "u4"]),
        ({"measure": "2", "outcome": "win"}, ["u1", "u2", "u3"]),  # two makes fewer calls
        ({"search": "secret-u3-two"}, ["u3"]),  # a source that nobody opened
    ],
)
def test_sessions_are_filtered_sorted_and_searched(page, url, fields, expected):
    page.goto(url)
    choose(page, **fields)
    expect(turns(page)).to_have_text(expected)
    expect(page.locator("#count")).to_have_text(f"{len(expected)} of 4")


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_keeps_people_from_using_the_page(new_page, url, view):
    page = new_page(**view)
    page.goto(url)
    open_turns(page)
    open_all_boxes(page)
    assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]
    assert page.locator(".turn").evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )
    assert violations(page) == []
