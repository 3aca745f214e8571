"""The page compares runs: worked out by hand on three runs and two conversations of two turns."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from axe import find_axe, violations
from chromium import find_browser
from report_paths import walks
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.show import report
from pyterrier_ikat.show.report import material as runs_module
from pyterrier_ikat.show.report.material import RunData
from pyterrier_ikat.show.report.page import Call

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here: apt-get install chromium")

TURNS = ["1-1_1", "1-1_2", "2-1_1", "2-1_2"]
# the rank of the relevant passage `yes` in each run and turn; 0 where it isn't found. The last turn is not judged.
RANKS = {"low": [2, 4, 1, 1], "high": [1, 4, 2, 1], "lost": [4, 1, 0, 1]}
QUERIES = {"low": "a green tea", "high": "A tea, with fresh mint", "lost": "coffee"}
LABELS = pd.DataFrame({"qid": TURNS[:3], "docno": "yes", "label": [4, 2, 3]})


def make_run(name):
    rows = []
    for qid, rank in zip(TURNS, RANKS[name], strict=True):
        docnos = [f"{name}-1", f"{name}-2", f"{name}-3"]
        docnos[rank - 1 : rank - 1] = ["yes"] if rank else []
        rows += [(qid, docno, 9.0 - place) for place, docno in enumerate(docnos)]
    frame = ranking(rows)
    text = [f"The teas of {docno}: mint, and the rest." for docno in frame["docno"]]
    chosen = [("1", 1.0)] if name == "low" else [("1", 1.0), ("2", 0.5)]
    return frame.assign(
        text=text, query=QUERIES[name], qutterance=[f"What of {qid}?" for qid in frame["qid"]], qstatements=column([chosen] * len(frame))
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The best three passages of each run; in the first turn two runs keep an LLM call."""
    made, build = {name: make_run(name) for name in RANKS}, runs_module._of_frame
    prompt = [{"role": "user", "content": "Rewrite <b>this</b>:\nWhat of it?"}]
    kept = {"low": [Call("rewrite", "Rewrite()", prompt, "a green tea")], "high": [Call("rewrite", "Rewrite()", prompt, "no key", True)]}

    def with_calls(name, frame):
        return replace(
            build(name, frame),
            calls={"1-1_1": kept[name]} if name in kept else {},
            parameters={"expression": f"{name}()", "deviations": []},
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_of_frame", with_calls)
        page = report(made, qrels=LABELS, measures=["RR", "P@1"], passages=3)
    return page.save(tmp_path_factory.mktemp("page") / "report.html").as_uri()


def choose(browser, **values):
    for name, value in values.items():
        field = f"document.forms[0].elements.{name}"
        browser.run(f"{field}.value = '{value}'; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")
    settle(browser)


def hide(browser, *runs):
    for run in runs:
        browser.run(f"document.querySelectorAll('[name=shown]')[{run}].click()")
    settle(browser)


def settle(browser, milliseconds=160):
    browser.run(f"new Promise(done => setTimeout(done, {milliseconds}))")


def texts(browser, query):
    return browser.run(f"[...document.querySelectorAll({query!r})].filter(one => one.checkVisibility()).map(one => one.innerText.trim())")


def reasons(browser):
    """The sentences, with {docno} for the first words of a passage."""
    return [re.sub("“The teas of ([^:]*): mint, and …”", r"{\1}", text) for text in texts(browser, ".reason")]


def order(browser):
    # the text of what is out of the view is not laid out
    return browser.run("[...document.querySelectorAll('.turn h3 .quiet')].filter(one => one.checkVisibility()).map(one => one.textContent)")


def press(browser, key, shift=False):
    text = {"Enter": "\r"}.get(key, "")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "", modifiers=8 if shift else 0)


def test_a_sentence_per_turn_names_what_makes_the_difference_for_any_pair(browser, url):
    browser.open(url)
    assert reasons(browser) == [
        "high leads by .5000 in RR(rel=1). high finds {yes} (label 4) at rank 1, low at 2. In low {low-1}, not judged, came in at rank 1.",
        "No difference in RR(rel=1): both rank the relevant passages alike.",
        "low leads by .5000 in RR(rel=1). low finds {yes} (label 3) at rank 1, high at 2. In high {high-1}, not judged, came in at rank 1.",
    ]
    choose(browser, baseline="2")
    assert reasons(browser)[1:] == [
        "lost leads by .7500 in RR(rel=1). lost finds {yes} (label 2) at rank 1, high at 4. "
        "In high {high-1}, not judged, came in at rank 1; {high-2}, not judged, came in at rank 2.",
        "high leads by .5000 in RR(rel=1). high finds {yes} (label 3) at rank 2, lost does not find it. "
        "In lost {lost-1}, not judged, came in at rank 1; {lost-2}, not judged, came in at rank 2.",
    ]
    choose(browser, measure="1")  # the text is about the measure that is shown
    assert reasons(browser)[1:] == [
        "lost leads by 1.0000 in P(rel=1)@1. lost finds {yes} (label 2) at rank 1, high at 4 (+1.0000). "
        "In high {high-1}, not judged, came in at rank 1.",
        "No difference in P(rel=1)@1: neither high nor lost finds a relevant passage among its first 1.",
    ]
    choose(browser, run="0", measure="0")
    assert reasons(browser)[2].startswith("low leads by 1.0000 in RR(rel=1). low finds {yes} (label 3) at rank 1, lost does not find it.")
    choose(browser, run="2")
    assert reasons(browser) == []  # a run isn't compared with itself
    assert browser.errors == []


def test_scores_are_compared_with_the_chosen_baseline(browser, url):
    browser.open(url)
    # RR: low 0.5, 0.25, 1; high 1, 0.25, 0.5; lost 0.25, 1, 0
    assert texts(browser, ".means td:nth-child(2)") == [".5833", ".5833", ".4167 −.1667"]
    assert texts(browser, "#t1 .headline .run > :last-child") == [".5000", "1.0000 +.5000", ".2500 −.2500"]
    assert texts(browser, "#t1 .headline b") == ["1.0000"]
    choose(browser, baseline="2")
    assert texts(browser, "#t1 .headline .run > :last-child") == [".5000 +.2500", "1.0000 +.7500", ".2500"]
    assert texts(browser, ".means td:nth-child(2)") == [".5833 +.1667", ".5833 +.1667", ".4167"]
    assert texts(browser, "#legend b") == ["lost"]
    choose(browser, measure="1")
    assert texts(browser, "#t1 .headline .run > :last-child") == [".0000", "1.0000 +1.0000", ".0000"]
    assert texts(browser, "#t1 .headline > .quiet") == ["P(rel=1)@1"]


def test_scores_are_rounded_as_in_all_other_tables(browser, tmp_path):
    values = [1 / 32, 3 / 32, 0.36875, 0.57645, 1.0]  # two ties, and two that look like one
    kept = {str(place): RunData(str(place), make_run("low")) for place in range(len(values))}
    scores = {name: pd.DataFrame({"qid": ["1-1_1"], "AP": [value]}) for (name, _), value in zip(kept.items(), values, strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_of_frame", lambda name, frame: replace(kept[name], scores=scores[name]))
        page = report({name: run.results for name, run in kept.items()})
    browser.open(page.save(tmp_path / "rounded.html").as_uri())
    browser.run("document.querySelector('#show-all').click()")
    shown = [f"{value:.4f}".removeprefix("0") for value in values]
    assert [text.split()[0] for text in texts(browser, "#t1 .headline .run > :last-child")] == shown
    assert [text.split()[0] for text in texts(browser, ".means [data-value]")] == shown


def test_what_the_baseline_lacks_is_marked(browser, url):
    browser.open(url)
    assert texts(browser, "#t1 .final") == ["a green tea", "A tea, with fresh mint", "coffee"]
    assert texts(browser, "#t1 .final mark") == ["fresh mint", "coffee"]  # words that say something
    assert browser.run("[...document.querySelectorAll('#t1 .final')].map(one => one.dataset.lacks ?? '')") == ["", "green", "green, tea"]
    assert texts(browser, "#t1 .said.new") == ["2", "2"]
    assert texts(browser, "#t1 .name") == ["low", "high", "lost"]
    choose(browser, baseline="1")
    assert texts(browser, "#t1 .final mark") == ["green", "coffee"]
    assert texts(browser, "#t1 .said.new") == []
    assert browser.run("getComputedStyle(document.querySelector('#t1 .n1 .name'), '::after').content") == '" · baseline"'
    assert texts(browser, "#t1 .final") == ["a green tea", "A tea, with fresh mint", "coffee"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [  # high is above low by 0.5, 0 and -0.5; the turn that isn't judged comes last
        ("gain", ["1-1_1", "1-1_2", "2-1_1", "2-1_2"]),
        ("loss", ["2-1_1", "1-1_2", "1-1_1", "2-1_2"]),
        ("change", ["1-1_1", "2-1_1", "1-1_2", "2-1_2"]),
    ],
)
def test_the_largest_gain_or_loss_comes_first(browser, url, by, expected):
    browser.open(url)
    choose(browser, order=by)
    assert order(browser) == expected
    browser.press("j")
    assert browser.run("document.activeElement.querySelector('h3 .quiet').textContent") == expected[0]
    browser.press("j")
    assert browser.run("document.activeElement.querySelector('h3 .quiet').textContent") == expected[1]
    address = browser.run("location.href")
    browser.open(address)
    assert order(browser) == expected
    choose(browser, order="")
    assert order(browser) == TURNS
    assert browser.errors == []


def test_the_order_follows_the_runs_that_are_compared(browser, url):
    browser.open(f"{url}#order=loss&run=2")  # lost is above low by -0.25, 0.75 and -1
    assert order(browser) == ["2-1_1", "1-1_1", "1-1_2", "2-1_2"]
    browser.run("document.querySelector('nav .to').click()")  # a conversation is read in its own order
    settle(browser)
    assert order(browser) == TURNS


def test_runs_are_hidden_and_shown(browser, url):
    browser.open(url)
    assert texts(browser, "#how-many") == ["3 of 3"]
    hide(browser, 2)
    assert texts(browser, "#t1 .name") == ["low", "high"]
    assert texts(browser, "#t1 .headline .run > :last-child") == [".5000", "1.0000 +.5000"]
    assert len(texts(browser, ".means tbody tr")) == 3  # of which one chooses
    browser.open(browser.run("location.href"))
    assert texts(browser, "#t1 .name") == ["low", "high"]
    choose(browser, run="2")  # what is compared is shown
    assert texts(browser, "#t1 .name") == ["low", "high", "lost"]
    browser.run("document.querySelector('#show-two').click()")
    assert texts(browser, "#t1 .name") == ["low", "lost"]
    browser.run("document.querySelector('#show-all').click()")
    assert texts(browser, "#t1 .name") == ["low", "high", "lost"]
    assert browser.errors == []


def test_passages_are_those_of_the_shown_runs_with_ranks_further_down(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#t1 .passages').open = true")
    settle(browser)
    assert texts(browser, "#t1 .passages > summary") == ["8 passages, 1 relevant, 7 not judged"]
    rank = "[...document.querySelector('#p1-{}').cells].slice(1, 4).map(cell => [cell.innerText.split('\\n')[0], cell.className])"
    assert browser.run(rank.format(2)) == [["2", ""], ["1", ""], ["4", "deep"]]  # `yes`, of which lost shows only a grey rank
    assert browser.run(rank.format(1)) == [["1", "only"], ["", ""], ["", ""]]
    hide(browser, 2)
    assert texts(browser, "#t1 .passages > summary") == ["5 passages, 1 relevant, 4 not judged"]
    choose(browser, search="lost-3")
    assert browser.run("document.querySelector('#count').textContent") == "0 of 4 turns"
    hide(browser, 2)
    assert browser.run("document.querySelector('#count').textContent") == "2 of 4 turns"  # where it is among the best three


def test_words_of_the_compared_queries_are_marked_in_passages(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#t1 .passages').open = true")
    settle(browser)
    word = "r.startContainer.data.slice(r.startOffset, r.endOffset)"
    marked = f"[...new Set([...CSS.highlights.get('asked')].map(r => {word}))]"
    assert browser.run(marked) == ["teas", "mint"]  # of `a green tea` and `A tea, with fresh mint`
    choose(browser, run="2")
    assert browser.run(marked) == ["teas"]


def test_passages_stand_as_the_compared_run_ranks_them(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#t1 .passages').open = true")
    settle(browser)
    rows = "[...document.querySelectorAll('#t1 .passages tbody tr')].filter(row => !row.hidden)"
    ranks = rows + ".map(row => parseInt(row.cells[{}].innerText) || 0)"
    assert browser.run(ranks.format(2)) == [1, 2, 3, 0, 0, 0, 0, 0]
    choose(browser, run="2")
    assert browser.run(ranks.format(3)) == [1, 2, 3, 4, 0, 0, 0, 0]


def test_words_that_few_passages_have_are_underlined_more_strongly(browser, tmp_path):
    texts_of = {"one": "Tea with mint.", "two": "Tea.", "three": "Green teas.", "four": "A cup of tea."}
    run = ranking([("1-1_1", docno, 9.0 - place) for place, docno in enumerate(texts_of)]).assign(query="Which tea has mint?")
    run = run.assign(text=[texts_of[docno] for docno in run["docno"]])
    browser.open(report({"low": run, "high": run}, qrels=None).save(tmp_path / "words.html").as_uri())
    browser.run("document.querySelector('#t1 .passages').open = true")
    settle(browser)
    word = "r.startContainer.data.slice(r.startOffset, r.endOffset)"
    assert browser.run(f"[...CSS.highlights.get('rare')].map(r => {word})") == ["mint"]  # in one of four passages
    assert browser.run(f"[...CSS.highlights.get('asked')].map(r => {word})") == ["Tea", "Tea", "teas", "tea"]


def test_a_note_stays_with_its_turn_and_is_no_text_of_the_report(browser, url):
    browser.open(url)
    browser.run("const box = document.querySelector('#t2 textarea'); box.value = 'odd <b>'; box.dispatchEvent(new Event('input'))")
    browser.open(url)
    assert browser.run("[...document.querySelectorAll('textarea')].map(one => one.value)") == ["", "odd <b>", "", ""]
    choose(browser, search="note")
    assert texts(browser, "#count") == ["0 of 4 turns"]
    browser.run("URL.createObjectURL = blob => { window.saved = blob; return '#'; }; HTMLAnchorElement.prototype.click = () => {}")
    browser.run("document.querySelector('#t1 textarea').value = 'a \"quoted\" one'; document.querySelector('#save-notes').click()")
    assert browser.run("saved.text()") == 'qid,note\r\n"1-1_1","a ""quoted"" one"\r\n"1-1_2","odd <b>"\r\n'
    browser.run("const own = document.querySelector('#t2 textarea'); own.value = ''; own.dispatchEvent(new Event('input'))")
    browser.open(url)
    assert not texts(browser, "#save-notes")  # there is no note to save
    assert browser.errors == []


def test_enter_goes_to_the_next_hit(browser, url):
    browser.open(url)
    browser.run("document.forms[0].elements.search.focus()")
    press(browser, "Enter")
    assert texts(browser, "#count") == ["Type a word to search for"]
    choose(browser, search="what")
    walked = []
    for shift in (False, False, True, True):
        press(browser, "Enter", shift)
        walked.append(texts(browser, "#count")[0])
    assert walked == ["hit 1 of 1 in 1-1_1", "hit 1 of 1 in 1-1_2", "hit 1 of 1 in 1-1_1", "hit 1 of 1 in 2-1_2"]
    # in the order of the page, 2-1_1 first: `mint` in a query, eight passages and two that the sentence calls by their words, `low-2` in an
    # id and a text; then 1 + 9 + 2
    choose(browser, search="mint low-2", order="loss")
    press(browser, "Enter")
    assert texts(browser, "#count") == ["hit 1 of 13 in 2-1_1"]
    assert browser.run("CSS.highlights.get('hit').size") == 1
    for _ in range(13):
        press(browser, "Enter")
    assert texts(browser, "#count") == ["hit 1 of 12 in 1-1_2"]
    assert browser.errors == []


def test_a_search_that_finds_nothing_says_so(browser, url):
    browser.open(url)
    choose(browser, search="rooibos tea")
    assert texts(browser, "#none") == ["No turn has “rooibos” and “tea”. Reset shows all turns."]
    choose(browser, first="2")
    assert texts(browser, "#none") == ["No turn has “rooibos” and “tea” and fits the filter. Reset shows all turns."]
    press(browser, "Enter")
    choose(browser, search="", first="9")
    assert texts(browser, "#none") == ["No turn fits the filter. Reset shows all turns."]
    assert browser.errors == []


def test_prompts_and_completions_are_shown_on_demand_as_text(browser, url):
    browser.open(url)
    assert texts(browser, ".calls > summary") == ["1 LLM call", "1 LLM call"]
    assert browser.run("document.querySelectorAll('pre').length") == 0
    browser.run("for (const box of document.querySelectorAll('#t1 .calls')) box.open = true")
    settle(browser)
    browser.run("for (const box of document.querySelectorAll('#t1 .calls details')) box.open = true")
    assert texts(browser, "#t1 pre") == ["Rewrite <b>this</b>:\nWhat of it?", "a green tea", "Rewrite <b>this</b>:\nWhat of it?", "no key"]
    assert texts(browser, "#t1 .calls h5") == ["Prompt", "Completion", "Prompt", "Failed"]
    assert browser.errors == []


@pytest.mark.parametrize(("width", "most"), [(1280, 1280), (390, 390)])
def test_fourteen_runs_stay_in_the_view(browser, tmp_path, width, most):
    made = make_run("high")
    runs = {f"quite_a_long_name_{number}": made for number in range(14)}
    page = report(runs, qrels=LABELS, measures=["RR"]).save(tmp_path / "many.html").as_uri()
    browser.open(page, width=width)
    assert texts(browser, "#t1 .name") == ["quite_a_long_name_0", "quite_a_long_name_1"]
    browser.run("document.querySelector('#show-all').click(); document.querySelector('#t1 .passages').open = true")
    settle(browser)
    assert len(texts(browser, "#t1 .name")) == 14
    parts = "[...document.querySelectorAll('#t1 .side, #t1 tbody td:last-child > *, #t1 header *')]"
    right = f"Math.max(...{parts}.map(one => one.getBoundingClientRect().right))"
    assert browser.run(right) <= most
    assert browser.run("document.querySelector('#t1 tbody td:last-child').getBoundingClientRect().width") > 200
    assert browser.run("document.documentElement.scrollWidth") == width


def bars(browser):
    """The bars of the histogram that have turns, from that of the largest loss (-10) to that of the largest gain (10)."""
    found = browser.run("[...document.querySelectorAll('#bars button')].map(bar => bar.title)")
    return {place - 10: title for place, title in enumerate(found) if not title.startswith("0 ")}


def test_the_histogram_counts_the_turns_and_filters_them(browser, url):
    browser.open(url)
    assert texts(browser, ".means .outcomes") == ["won / tied / lost", "", "1 / 1 / 1", "1 / 0 / 2"]
    assert texts(browser, "#outcomes") == ["1 won, 1 tied, 1 lost"]  # RR of high less that of low: .5, 0, -.5
    assert bars(browser) == {-10: "1 turn worse by .4500 to .5000", 0: "1 turn without a difference", 10: "1 turn better by .4500 to .5000"}
    browser.run("document.querySelector('#bars button').click()")
    settle(browser)
    assert order(browser) == ["2-1_1"]
    browser.open(browser.run("location.href"))  # the address keeps it
    assert order(browser) == ["2-1_1"]
    choose(browser, run="2")  # lost less low: -.25, .75, -1; the bars stay chosen
    assert texts(browser, "#outcomes") == ["1 won, 0 tied, 2 lost"]
    assert bars(browser) == {
        -10: "1 turn worse by .9000 to 1.0000",
        -3: "1 turn worse by .2000 to .3000",
        8: "1 turn better by .7000 to .8000",
    }
    assert order(browser) == ["2-1_1"]
    browser.run("document.forms[0].reset()")
    settle(browser)
    assert order(browser) == TURNS
    assert browser.errors == []


def test_the_histogram_is_used_by_keyboard_alone(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#bars button[tabindex=\"0\"]').focus()")
    browser.press(" ")  # that of the ties
    settle(browser)
    assert order(browser) == ["1-1_2"]
    for _ in range(10):
        press(browser, "ArrowRight", shift=True)
    settle(browser)
    assert browser.run("document.forms[0].elements.bars.value") == "0:10"
    assert order(browser) == ["1-1_1", "1-1_2"]
    press(browser, "Escape")
    settle(browser)
    assert order(browser) == TURNS
    assert browser.errors == []


def test_the_histogram_is_brushed_by_the_pointer(browser, url):
    browser.open(url)
    places = browser.run(
        "[0, 10].map(n => document.querySelectorAll('#bars button')[n].getBoundingClientRect()).map(b => [b.x + 3, b.y + 9])"
    )
    for kind, (x, y), buttons in (("Pressed", places[0], 1), ("Moved", places[1], 1), ("Released", places[1], 0)):
        browser.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button="left", buttons=buttons, clickCount=1)
    settle(browser)
    assert browser.run("document.forms[0].elements.bars.value") == "-10:0"
    assert order(browser) == ["1-1_2", "2-1_1"]


def test_means_of_groups_are_those_of_their_turns(browser, url):
    browser.open(url)
    assert texts(browser, "#groups thead th") == ["group", "turns", "low", "high", "difference"]
    assert texts(browser, "#groups tbody tr") == ["1\t2\t.7500\t.7500\t.0000", "2\t1\t.2500\t.2500\t.0000"]
    browser.run("const by = document.querySelector('#by'); by.value = 'conversation'; by.dispatchEvent(new Event('change'))")
    assert texts(browser, "#groups tbody tr") == ["1-1\t2\t.3750\t.6250\t+.2500", "2-1\t1\t1.0000\t.5000\t−.5000"]


def test_a_group_filters_its_turns_by_pointer_and_by_keyboard(browser, url):
    def pressed():
        return browser.run("[...document.querySelectorAll('#groups [aria-pressed=true]')].map(one => one.textContent)")

    browser.open(url)
    browser.run("document.querySelectorAll('#groups tbody tr')[1].cells[3].click()")  # any cell of the row
    settle(browser)
    assert (order(browser), pressed()) == (["1-1_2", "2-1_2"], ["2"])
    browser.open(browser.run("location.href"))  # the address keeps it
    assert (order(browser), pressed()) == (["1-1_2", "2-1_2"], ["2"])
    browser.run("document.querySelectorAll('#groups button')[1].focus()")
    browser.press(" ")  # once more shows all
    settle(browser)
    assert (order(browser), pressed()) == (TURNS, [])
    browser.run("const by = document.querySelector('#by'); by.value = 'conversation'; by.dispatchEvent(new Event('change'))")
    browser.run("document.querySelectorAll('#groups button')[1].focus()")
    press(browser, "Enter")
    settle(browser)
    assert (order(browser), pressed()) == (["2-1_1", "2-1_2"], ["2-1"])
    choose(browser, conversation="")
    assert (order(browser), pressed()) == (TURNS, [])
    assert browser.errors == []


def test_the_turns_that_got_worse_are_one_click_away(browser, url):
    browser.open(url)
    for side, expected in (("loss", ["2-1_1"]), ("win", ["1-1_1"]), ("tie", ["1-1_2"]), ("tie", TURNS)):
        browser.run(f"document.querySelector('#outcomes [value={side}]').click()")
        settle(browser)
        assert order(browser) == expected
    assert browser.errors == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_whatever_one_wants_to_know_is_two_clicks_away(browser, url, width, height):
    found = walks(browser, url, 1, width, height)
    assert {name: clicks for name, (clicks, _, _) in found.items()} == {
        "why": 1,
        "worse": 1,
        "final query": 1,
        "prompt": 2,
        "cost": 1,
    }
    texts_of = {name: text for name, (_, _, text) in found.items()}
    assert texts_of["why"].startswith("high leads by .5000 in RR")
    assert "2-1_1" in texts_of["worse"]
    assert texts_of["final query"].startswith("A tea, with fresh mint")
    assert texts_of["prompt"] == "Rewrite <b>this</b>:\nWhat of it?"
    assert texts_of["cost"] == "No LLM calls."


def test_turns_are_grouped_by_the_need_of_the_users_statements(browser, tmp_path):
    gold = {"1-1_1": ["1"], "1-1_2": [], "2-1_1": ["2", "3"]}
    runs = {name: make_run(name)[lambda run: run["qid"].isin(gold)] for name in ("low", "high")}
    persona = {"1": "I like tea.", "2": "I cycle.", "3": "I am vegan."}
    runs = {name: run.assign(qptkb=column([persona] * len(run))) for name, run in runs.items()}
    runs = {name: run.assign(qgoldptkb=column([gold[qid] for qid in run["qid"]])) for name, run in runs.items()}
    browser.open(report(runs, qrels=LABELS, measures=["RR"]).save(tmp_path / "needs.html").as_uri())
    browser.run("const by = document.querySelector('#by'); by.value = 'needs'; by.dispatchEvent(new Event('change'))")
    assert texts(browser, "#groups tbody tr") == ["yes\t2\t.7500\t.7500\t.0000", "no\t1\t.2500\t.2500\t.0000"]
    browser.run("document.querySelectorAll('#groups button')[1].click()")
    settle(browser)
    assert order(browser) == ["1-1_2"]


def test_only_significant_differences_of_means_have_colour_and_arrow(browser, tmp_path):
    turns = [f"1-1_{number}" for number in range(1, 9)]
    ranks = {"base": [4, 3, 4, 3, 4, 3, 4, 3], "better": [1, 1, 1, 2, 1, 1, 1, 2], "alike": [4, 3, 4, 3, 4, 3, 4, 2]}
    runs = {
        name: ranking(
            [
                (qid, "yes" if place == rank else f"{name}-{place}", 9.0 - place)
                for qid, rank in zip(turns, of, strict=True)
                for place in range(1, 5)
            ]
        )
        for name, of in ranks.items()
    }
    qrels = pd.DataFrame({"qid": turns, "docno": "yes", "label": 1})
    tested = evaluate(runs, qrels, ["RR"], "base").set_index("name")["RR(rel=1) reject"]
    assert (tested["better"], tested["alike"]) == (True, False)
    page = report(runs, qrels=qrels, measures=["RR"], baseline="base").save(tmp_path / "tested.html").as_uri()
    browser.open(page)
    assert texts(browser, ".means [data-value] span:not(:first-child)") == ["↑+.5833", "+.0208"]
    kinds = "[...document.querySelectorAll('.means [data-value] :nth-child(2)')].map(one => one.className)"
    assert browser.run(kinds) == ["win", "quiet"]
    choose(browser, baseline="1")
    assert texts(browser, ".means [data-value] :nth-child(2)") == ["↓−.5833", "↓−.5625"]


@pytest.mark.skipif(find_axe() is None, reason="no axe-core here: pip install axe-core-python")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_keeps_people_from_using_the_page(browser, url, width, dark):
    browser.open(f"{url}#search=mint", width=width, dark=dark)
    assert violations(browser) == []
    browser.run("for (const box of document.querySelectorAll('details')) box.open = true")
    settle(browser)
    browser.run("for (const box of document.querySelectorAll('.calls details')) box.open = true")
    assert violations(browser) == []
    browser.run("document.querySelector('#help').showModal()")
    assert violations(browser) == []


def test_menus_are_used_by_keyboard_alone(browser, url):
    browser.open(url)
    browser.run("document.querySelector('.menu summary').focus()")
    press(browser, "Enter")
    settle(browser)
    assert browser.run("document.querySelector('.menu').open")
    browser.run("document.querySelectorAll('[name=shown]')[2].focus()")
    browser.press(" ")
    settle(browser)
    assert texts(browser, "#how-many") == ["2 of 3"]
    press(browser, "Escape")
    assert not browser.run("document.querySelector('.menu').open")
    assert browser.run("document.activeElement.localName") == "summary"
