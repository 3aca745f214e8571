import json

import pandas as pd
import pytest
from seen import choose, reset, turns
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.show import report

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two runs on two conversations of three turns: `b` wins, ties and loses in each; the third turn of the second is not judged."""
    turns = [f"{chat}_{turn}" for chat in ("1-1", "2-1") for turn in (1, 2, 3)]
    orders = {"a": ["no", "yes", "yes"] * 2, "b": ["yes", "yes", "no"] * 2}
    runs = {}
    for name, firsts in orders.items():
        rows = [
            (qid, f"{qid}-{doc}", 2.0 - rank) for qid, first in zip(turns, firsts, strict=True) for rank, doc in enumerate((first, "else"))
        ]
        frame = ranking(rows)
        utterance = [f"What of {qid}? {ATTACK}" for qid in frame["qid"]]
        text = [f"{'filler ' * 40} secret-{docno} R&D<{docno}> {ATTACK}" for docno in frame["docno"]]
        runs[name] = frame.assign(
            qutterance=utterance,
            text=text,
            qanswer="It depends.",
            used=frame["rank"] == 1,
            qsubqueries=column([["one", "two"]] * len(frame)),
        )
    qrels = pd.DataFrame({"qid": turns[:5], "docno": [f"{qid}-yes" for qid in turns[:5]], "label": 1})
    path = tmp_path_factory.mktemp("page") / "report.html"
    return report(runs, qrels=qrels, measures=["P@1", "AP", "nDCG@3", "nDCG@5", "nDCG", "R@20", "R@1000"]).save(path).as_uri()


def test_the_page_opens_without_an_error_and_no_text_becomes_script(browser, url):
    browser.open(url)
    assert browser.errors == []
    assert browser.run("document.title") == "a, b"
    assert len(turns(browser)) == 6
    assert browser.run("document.querySelectorAll('img, script').length") == 1
    assert browser.run("performance.getEntriesByType('resource').length") == 0


def test_a_script_that_gets_into_the_page_does_not_run(browser, url, tmp_path):
    browser.open(url)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert browser.run("document.title") == "a, b"
    assert any("Content Security Policy" in error for error in browser.errors)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group": "2"}, ["2-1_1", "2-1_2", "2-1_3"]),
        ({"outcome": "win"}, ["1-1_1", "2-1_1"]),
        ({"outcome": "loss"}, ["1-1_3"]),
        ({"outcome": "tie"}, ["1-1_2", "2-1_2"]),
        ({"measure": "1", "outcome": "loss"}, ["1-1_3"]),
        ({"search": "SECRET-2-1_2-yes filler"}, ["2-1_2"]),
        ({"search": "r&d<2-1_2-yes>"}, ["2-1_2"]),
        ({"search": "<ol"}, []),
        ({"search": "nowhere to be found"}, []),
    ],
)
def test_filters(browser, url, fields, expected):
    reset(browser, url)
    choose(browser, **fields)
    assert turns(browser) == expected
    assert browser.run("document.querySelector('#count').textContent") == f"{len(expected)} of 6"
    assert browser.run("document.querySelector('#none').hidden") == bool(expected)
    browser.run("document.querySelector('[type=reset]').click(); new Promise(done => setTimeout(done))")
    assert len(turns(browser)) == 6
    assert browser.errors == []


def test_a_citation_and_an_address_lead_to_a_passage(browser, url):
    browser.open(url)
    choose(browser, outcome="loss")
    browser.run("location.hash = '#p5-0-1-2'; new Promise(done => setTimeout(done, 100))")  # of a turn that the filter has hidden
    assert browser.run("document.querySelector('#p5-0-1-2').checkVisibility()")
    browser.run("document.querySelector('#t2 .n1 .cited a').click(); new Promise(done => setTimeout(done, 100))")
    assert browser.run("document.querySelector('#t2 .n1 .passages').open")
    assert browser.run("location.hash") == "#p2-1-1-2"
    box = browser.run("JSON.stringify(document.querySelector('#p2-1-1-2').getBoundingClientRect())")
    assert 0 <= json.loads(box)["top"] < 900
    assert browser.errors == []


def test_all_of_it_can_be_read_without_javascript(browser, url):
    browser.open(url, height=6000, scripts=False)
    assert browser.errors == []
    seen = browser.visible_text("What of 2-1_3?")
    for text in ("What of 2-1_3?", "It depends.", "2 sub-queries", "2 passages", "Conversation 2-1"):
        assert text in seen
    assert "words in any text" not in seen
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    passages = browser.call("DOM.querySelector", nodeId=root, selector="#t6 .passages")["nodeId"]
    browser.call("DOM.setAttributeValue", nodeId=passages, name="open", value="")
    assert "2-1_3-else" in browser.visible_text("2-1_3-else")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(browser, url, width, dark):
    browser.open(f"{url}#t1", width=width, dark=dark)
    browser.run("for (const box of document.querySelectorAll('details')) box.open = true")
    assert browser.run("document.documentElement.scrollWidth") == width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 27)" if dark else "rgb(250, 249, 246)")
    assert browser.run("[...document.querySelectorAll('.turn')].every(t => t.scrollWidth <= t.clientWidth)")
    boxes = "[...document.querySelectorAll('.means table, .passages li, .headline')]"
    cut = f"{boxes}.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert browser.run(cut) == 0
    lines = "new Set([...document.querySelectorAll('#filters > *')].map(one => Math.round(one.getBoundingClientRect().bottom))).size"
    assert width == 390 or browser.run(lines) == 1  # the toolbar
    assert width == 390 or browser.run("document.querySelector('h1').offsetHeight") < 40  # the title
