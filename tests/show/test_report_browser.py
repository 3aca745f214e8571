import json

import pandas as pd
import pytest
from chromium import find_browser
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.show import report

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium")

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


def shown(browser):
    return browser.run(
        "[...document.querySelectorAll('.turn')].filter(t => t.checkVisibility()).map(t => t.querySelector('h3 .quiet').textContent)"
    )


def set_field(browser, **values):
    for name, value in values.items():
        field = f"document.forms[0].elements[{json.dumps(name)}]"
        browser.run(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    browser.run("new Promise(done => setTimeout(done, 150))")


def focused(browser):
    return browser.run("document.activeElement.id || document.activeElement.name || document.activeElement.localName")


def test_the_page_opens_without_an_error_and_no_text_becomes_script(browser, url):
    browser.open(url)
    assert browser.errors == []
    assert browser.run("document.title") == "a, b"
    assert len(shown(browser)) == 6
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
        ({"conversation": "2"}, ["2-1_1", "2-1_2", "2-1_3"]),
        ({"first": "2", "last": "2"}, ["1-1_2", "2-1_2"]),
        ({"outcome": "win"}, ["1-1_1", "2-1_1"]),
        ({"outcome": "loss"}, ["1-1_3"]),
        ({"outcome": "tie"}, ["1-1_2", "2-1_2"]),
        ({"least": "0.5"}, ["1-1_1", "1-1_2", "2-1_1", "2-1_2"]),
        ({"most": "0.5"}, ["1-1_3"]),
        ({"run": "0", "most": "0.5"}, ["1-1_1", "2-1_1"]),
        ({"measure": "1", "outcome": "loss"}, ["1-1_3"]),
        ({"search": "SECRET-2-1_2-yes filler"}, ["2-1_2"]),
        ({"search": "r&d<2-1_2-yes>"}, ["2-1_2"]),
        ({"search": "tbody"}, []),
        ({"search": "nowhere to be found"}, []),
    ],
)
def test_filters(browser, url, fields, expected):
    browser.open(url)
    set_field(browser, **fields)
    assert shown(browser) == expected
    assert browser.run("document.querySelector('#count').textContent") == f"{len(expected)} of 6 turns"
    assert browser.run("document.querySelector('#none').hidden") == bool(expected)
    assert len(browser.run("[...document.querySelectorAll('.strip .out')].map(a => a.hash)")) == 6 - len(expected)
    address = browser.run("location.href")
    browser.open(address)  # the filter is in the address
    assert shown(browser) == expected
    browser.run("document.querySelector('[type=reset]').click(); new Promise(done => setTimeout(done, 50))")
    assert len(shown(browser)) == 6
    assert browser.errors == []


def test_keys_walk_through_the_turns_that_are_shown(browser, url):
    browser.open(f"{url}#outcome=win")
    walked = []
    for key in "jjjk":
        browser.press(key)
        walked.append(focused(browser))
    assert walked == ["t1", "t4", "t4", "t1"]
    assert not browser.run("document.querySelector('#t1 .passages').open")
    browser.press("o")
    assert browser.run("document.querySelector('#t1 .passages').open")
    browser.press("/")
    assert focused(browser) == "search"
    browser.press("j")
    assert browser.run("document.activeElement.value") == "j"
    browser.press("Escape")
    assert focused(browser) == "body"
    browser.press("?")
    assert browser.run("document.querySelector('#help').open")
    browser.run("document.querySelector('#close').click()")
    assert not browser.run("document.querySelector('#help').open")
    assert browser.errors == []


def test_passages_become_elements_when_they_are_opened_and_no_sooner(browser, url):
    browser.open(url)
    rows = "[...document.querySelectorAll('.passages tbody tr')].map(row => row.id)"
    assert browser.run(rows) == []
    browser.run("document.querySelector('#t2 .passages summary').click()")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert browser.run(rows) == ["p2-1", "p2-2"]
    assert browser.run("document.querySelector('#p2-1 td:last-child').innerText").startswith("1-1_2-yes\nfiller filler")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title") == "a, b"
    assert browser.errors == []


def test_an_address_leads_to_a_passage_and_marks_it(browser, url):
    browser.open(f"{url}#p5-2")
    ground = "getComputedStyle(document.querySelector('#p5-{}')).backgroundColor"
    assert browser.run("document.querySelector('#p5-2').checkVisibility()")
    assert browser.run(ground.format(2)) != browser.run(ground.format(1))


def test_what_was_searched_for_is_opened_and_marked(browser, url):
    browser.open(f"{url}#search=secret-2-1_2-yes")
    assert browser.run("CSS.highlights.get('found').size") == 1
    assert browser.run("document.querySelector('#t5 .passages').open")


def test_a_citation_leads_to_its_passage(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#t2 .cited a').click()")
    assert browser.run("document.querySelector('#t2 .passages').open")
    assert browser.run("location.hash") == "#p2-2"
    box = browser.run("JSON.stringify(document.querySelector('#p2-2').getBoundingClientRect())")
    assert 0 <= json.loads(box)["top"] < 900
    assert browser.run("document.querySelector('.passages .target').id") == "p2-2"


def test_all_of_it_can_be_read_without_javascript(browser, url):
    browser.open(url, height=6000, scripts=False)
    assert browser.errors == []
    seen = browser.visible_text("What of 2-1_3?")
    for text in ("What of 2-1_3?", "It depends.", "2 sub-queries", "2 passages", "Conversations"):
        assert text in seen
    assert "words in any text" not in seen
    assert "Show all" not in seen
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    passages = browser.call("DOM.querySelector", nodeId=root, selector="#t6 .passages")["nodeId"]
    browser.call("DOM.setAttributeValue", nodeId=passages, name="open", value="")
    assert "2-1_3-else" in browser.visible_text("2-1_3-else")


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(browser, url, width, dark):
    browser.open(f"{url}#t1", width=width, dark=dark)
    browser.run("for (const box of document.querySelectorAll('details')) box.open = true")
    assert browser.run("document.documentElement.scrollWidth") == width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 27)" if dark else "rgb(250, 249, 246)")
    assert browser.run("[...document.querySelectorAll('.turn')].every(t => t.scrollWidth <= t.clientWidth)")
    size = browser.run("parseFloat(getComputedStyle(document.querySelector('#t1')).outlineWidth)")
    assert size == 2  # the turn that the keys reached is framed
