"""The page compares runs: worked out by hand on three runs and two conversations of two turns."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from axe import find_axe, violations
from seen import choose, reset, settle, texts, turns
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.show import report
from pyterrier_ikat.show.report import material as runs_module
from pyterrier_ikat.show.report.page import Call

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


def reasons(browser):
    """The sentences, with {docno} for the first words of a passage."""
    return [re.sub("“The teas of ([^:]*): mint, and …”", r"{\1}", text) for text in texts(browser, ".reason")]


def test_a_sentence_per_turn_names_what_makes_the_difference_from_the_baseline(browser, url):
    browser.open(url)
    assert reasons(browser) == [
        "high leads by .5000 in RR(rel=1). high finds {yes} (label 4) at rank 1, low at 2. In low {low-1}, not judged, came in at rank 1.",
        "No difference in RR(rel=1): both rank the relevant passages alike.",
        "low leads by .5000 in RR(rel=1). low finds {yes} (label 3) at rank 1, high at 2. In high {high-1}, not judged, came in at rank 1.",
    ]
    choose(browser, run="2")
    assert reasons(browser)[1:] == [
        "lost leads by .7500 in RR(rel=1). lost finds {yes} (label 2) at rank 1, low at 4. "
        "In low {low-1}, not judged, came in at rank 1; {low-2}, not judged, came in at rank 2.",
        "low leads by 1.0000 in RR(rel=1). low finds {yes} (label 3) at rank 1, lost does not find it. "
        "In lost {lost-1}, not judged, came in at rank 1.",
    ]
    choose(browser, measure="1")  # the text is about the measure that is shown
    assert reasons(browser)[1:] == [
        "lost leads by 1.0000 in P(rel=1)@1. lost finds {yes} (label 2) at rank 1, low at 4 (+1.0000). "
        "In low {low-1}, not judged, came in at rank 1.",
        "low leads by 1.0000 in P(rel=1)@1. low finds {yes} (label 3) at rank 1, lost does not find it (+1.0000). "
        "In lost {lost-1}, not judged, came in at rank 1.",
    ]
    assert browser.errors == []


def test_the_values_of_a_turn_are_those_of_the_two_runs_and_the_chosen_measure(browser, url):
    reset(browser, url)
    assert texts(browser, ".headline") == [
        "RR(rel=1)\nlow .5000\nhigh 1.0000",
        "RR(rel=1)\nlow .2500\nhigh .2500",
        "RR(rel=1)\nlow 1.0000\nhigh .5000",
        "not judged",
    ]
    assert (texts(browser, ".headline .win"), texts(browser, ".headline .loss")) == (["1.0000"], [".5000"])
    choose(browser, run="2", measure="1")
    assert texts(browser, "#t1 .headline") == ["P(rel=1)@1\nlow .0000\nlost .0000"]


def test_the_means_have_their_differences_and_intervals_in_columns_of_their_own(browser, url):
    reset(browser, url)
    # RR: low 0.5, 0.25, 1; high 1, 0.25, 0.5; lost 0.25, 1, 0
    assert texts(browser, ".means table:first-child td:nth-child(2)") == [".5833", ".5833", ".4167"]
    assert texts(browser, ".means table:first-child td:nth-child(3)") == ["", ".0000", "−.1667"]
    # two turns of the first conversation and one of the second: sums of +.5 and -.5, of +.8333 and -.8333 about the means; one degree of
    # freedom; standard errors of .5 and .8333 times sqrt((1 / (1 - 2/3) + 1 / (1 - 1/3)) / 9) = .7071
    assert texts(browser, ".means table:first-child td:nth-child(4)") == ["", "[−4.4923, +4.4923]", "[−7.6539, +7.3205]"]
    caption = " ".join(texts(browser, ".caption"))
    assert "Differences are from low." in caption
    assert "over 3 turns of 2 conversations" in caption


def test_the_first_three_measures_are_shown_and_the_others_behind_a_click(browser, tmp_path):
    runs, measures = {name: make_run(name) for name in RANKS}, ["RR", "P@1", "AP", "nDCG@3", "nDCG"]
    browser.open(report(runs, qrels=LABELS, measures=measures).save(tmp_path / "five.html").as_uri())
    titles = ".means th:nth-child(2)"
    assert texts(browser, titles) == ["RR(rel=1)", "P(rel=1)@1", "AP(rel=1)"]
    browser.run("document.querySelector('.more summary').click()")
    assert texts(browser, titles) == ["RR(rel=1)", "P(rel=1)@1", "AP(rel=1)", "nDCG@3", "nDCG"]


def test_the_baseline_is_the_given_one_else_raw_else_the_first_run():
    def baseline(names, **given):
        return re.search("Compared with (\\w+) ", report({name: make_run("low") for name in names}, **given).html)[1]

    assert baseline(["b", "a"]) == "b"
    assert baseline(["b", "raw"]) == "raw"
    assert baseline(["b", "raw"], baseline="b") == "b"


def test_what_the_baselines_query_lacks_is_marked(browser, url):
    reset(browser, url)
    assert texts(browser, "#t1 mark") == ["with", "fresh", "mint"]
    choose(browser, run="2")
    assert texts(browser, "#t1 mark") == ["coffee"]


def test_the_largest_gain_or_loss_comes_first(browser, url):
    reset(browser, url)
    for order, expected in (("gain", TURNS), ("loss", ["2-1_1", "1-1_2", "1-1_1", "2-1_2"]), ("", TURNS)):  # not judged: last
        choose(browser, order=order)
        assert turns(browser) == expected


def test_passages_stand_side_by_side_with_their_ranks_in_the_other_run(browser, url):
    browser.open(url)
    browser.run("document.querySelector('#t3 .n1 .passages > summary').click()")
    settle(browser)
    listed = "[...document.querySelectorAll('#t3 .passages li')].filter(one => one.checkVisibility())"
    parts = "[...one.querySelectorAll('.rank, .label, code, small')].filter(e => e.checkVisibility()).map(e => e.innerText).join(' ')"
    found = browser.run(f"{listed}.map(one => {parts})")
    assert found == [
        "1 3 yes score 9 high: rank 2",
        "2 not judged low-1 score 8 high: not found",
        "3 not judged low-2 score 7 high: not found",
        "1 not judged high-1 score 9 low: not found",
        "2 3 yes score 8 low: rank 1",
        "3 not judged high-2 score 7 low: not found",
    ]
    tops = f"{listed}.map(one => Math.round(one.getBoundingClientRect().top))"
    heights = browser.run(tops)
    assert heights[0] == heights[3]  # both lists begin at one height


def test_the_histogram_counts_the_turns(browser, url):
    reset(browser, url)
    assert texts(browser, "figcaption") == ["RR(rel=1) of high against low: 1 won, 1 tied, 1 lost"]
    bars = "[...document.querySelectorAll('#bars i')].map((bar, place) => [place - 10, bar.style.height])"
    heights = f"{bars}.filter(([, height]) => height !== '0%')"
    assert browser.run(heights) == [[-10, "100%"], [10, "100%"]]  # a tie is only a number
    choose(browser, run="2")
    assert texts(browser, "figcaption") == ["RR(rel=1) of lost against low: 1 won, 0 tied, 2 lost"]
    assert browser.run(heights) == [[-10, "100%"], [-3, "100%"], [8, "100%"]]  # of -1, -.25, +.75


def test_prompts_and_completions_are_shown_on_demand_as_text(browser, url):
    browser.open(url)
    assert texts(browser, "#t1 .calls pre") == []
    browser.run("for (const box of document.querySelectorAll('#t1 .calls')) box.open = true")
    settle(browser)
    assert texts(browser, "#t1 .calls pre") == [
        "Rewrite <b>this</b>:\nWhat of it?",
        "a green tea",
        "Rewrite <b>this</b>:\nWhat of it?",
        "no key",
    ]
    assert texts(browser, "#t1 .n1 .calls h5") == ["rewrite", "Prompt", "Failed"]


def test_fourteen_runs_stay_in_the_view(browser, tmp_path):
    runs = {f"a_rather_long_name_of_run_{number}": make_run("low") for number in range(14)}
    page = report(runs, qrels=LABELS, measures=["RR", "P@1"]).save(tmp_path / "many.html").as_uri()
    for width in (390, 1280):
        browser.open(page, width=width)
        assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelector('h1').textContent") == "14 systems"
    assert len(texts(browser, "#t1 .side")) == 2


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
    assert texts(browser, ".means td:nth-child(3)") == ["", "↑+.5833", "+.0208"]
    kinds = "[...document.querySelectorAll('.means td:nth-child(3)')].map(one => one.className)"
    assert browser.run(kinds) == ["quiet", "win", "quiet"]
    browser.open(report(runs, qrels=qrels, measures=["RR"], baseline="better").save(tmp_path / "other.html").as_uri())
    assert texts(browser, ".means td:nth-child(3)") == ["", "↓−.5833", "↓−.5625"]  # the baseline stands first


@pytest.mark.skipif(find_axe() is None, reason="no axe-core here: pip install axe-core-python")
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_nothing_keeps_people_from_using_the_page(browser, url, width, dark):
    browser.open(url, width=width, dark=dark)
    browser.run("for (const box of document.querySelectorAll('details')) box.open = true")
    settle(browser)
    assert violations(browser) == []
