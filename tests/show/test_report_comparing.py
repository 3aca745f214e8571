"""The page compares runs: worked out by hand on three runs and two conversations of two turns."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from in_browser import DESK, PHONE, open_all_boxes, shown, violations
from playwright.sync_api import expect
from seen import choose, turns
from small_runs import ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.evaluation.units import Clusters
from pyterrier_ikat.show import report
from pyterrier_ikat.show.report import material as runs_module
from pyterrier_ikat.show.report.means import ShownMeasure, compare_means
from pyterrier_ikat.show.report.page import Call

TURNS = ["1-1_1", "1-1_2", "2-1_1", "2-1_2"]
# the rank of the relevant passage `yes` in each run and turn; 0 where it isn't found. The last turn
# is not judged.
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
        text=text,
        query=QUERIES[name],
        qutterance=[f"What of {qid}?" for qid in frame["qid"]],
        qstatements=column([chosen] * len(frame)),
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The best three passages of each run; in the first turn two runs keep an LLM call."""
    made, build = {name: make_run(name) for name in RANKS}, runs_module._of_frame
    prompt = [{"role": "user", "content": "Rewrite <b>this</b>:\nWhat of it?"}]
    kept = {
        "low": [Call("rewrite", "Rewrite()", prompt, "a green tea")],
        "high": [Call("rewrite", "Rewrite()", prompt, "no key", True)],
    }

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


def sentence(text):
    """A sentence with {docno} for the first words of a passage, as the page has it."""
    return re.sub("{(\\S+)}", r"“The teas of \1: mint, and …”", text)


def test_a_sentence_per_turn_names_what_makes_the_difference(page, url):
    page.goto(url)
    reasons = shown(page, ".reason")
    expected = [
        (
            "high leads by .5000 in RR(rel=1). high finds {yes} (label 4) at rank 1, low at 2. In "
            "low {low-1}, not judged, came in at rank 1."
        ),
        "No difference in RR(rel=1): both rank the relevant passages alike.",
        (
            "low leads by .5000 in RR(rel=1). low finds {yes} (label 3) at rank 1, high at 2. In "
            "high {high-1}, not judged, came in at rank 1."
        ),
    ]
    expect(reasons).to_have_text([sentence(text) for text in expected])
    choose(page, run="2")
    expected = [
        "low leads by .2500 in RR(rel=1). low finds {yes} (label 4) at rank 2, lost at 4. "
        "In lost {lost-1}, not judged, came in at rank 1; {lost-2}, not judged, came in at rank 2.",
        "lost leads by .7500 in RR(rel=1). lost finds {yes} (label 2) at rank 1, low at 4. "
        "In low {low-1}, not judged, came in at rank 1; {low-2}, not judged, came in at rank 2.",
        "low leads by 1.0000 in RR(rel=1). low finds {yes} (label 3) at rank 1, lost does not "
        "find it. "
        "In lost {lost-1}, not judged, came in at rank 1.",
    ]
    expect(reasons).to_have_text([sentence(text) for text in expected])


def test_the_sentence_is_about_the_measure_that_is_shown(page, url):
    page.goto(url)
    choose(page, run="2", measure="1")
    expected = [
        (
            "No difference in P(rel=1)@1: neither lost nor low finds a relevant passage among its "
            "first 1."
        ),
        "lost leads by 1.0000 in P(rel=1)@1. lost finds {yes} (label 2) at rank 1, low at 4 "
        "(+1.0000). "
        "In low {low-1}, not judged, came in at rank 1.",
        "low leads by 1.0000 in P(rel=1)@1. low finds {yes} (label 3) at rank 1, lost does not "
        "find it (+1.0000). "
        "In lost {lost-1}, not judged, came in at rank 1.",
    ]
    expect(shown(page, ".reason")).to_have_text([sentence(text) for text in expected])


def test_a_turn_has_the_values_of_two_runs_in_the_chosen_measure(page, url):
    page.goto(url)
    expect(page.locator(".headline .n2:visible")).to_have_count(0)
    expect(shown(page, ".headline :is([data-measure], .n0, .n1)")).to_have_text(
        [
            *("RR(rel=1)", "low .5000", "high 1.0000"),
            *("RR(rel=1)", "low .2500", "high .2500"),
            *("RR(rel=1)", "low 1.0000", "high .5000"),
        ]
    )
    expect(page.locator("#t4 .headline")).to_have_text("not judged")
    expect(shown(page, ".headline .win")).to_have_text(["1.0000"])
    expect(shown(page, ".headline .loss")).to_have_text([".5000"])
    choose(page, run="2", measure="1")
    expect(shown(page, "#t1 .headline > span")).to_have_text(
        ["P(rel=1)@1", "low .0000", "lost .0000"]
    )


def test_means_have_differences_and_intervals_in_columns(page, url):
    page.goto(url)
    # RR: low 0.5, 0.25, 1; high 1, 0.25, 0.5; lost 0.25, 1, 0
    column = ".means table:first-child td:nth-child({})"
    expect(shown(page, column.format(2))).to_have_text([".5833", ".5833", ".4167"])
    expect(shown(page, column.format(3))).to_have_text(["", ".0000", "−.1667"])
    # two turns of the first conversation and one of the second: sums of +.5 and -.5, of +.8333 and
    # -.8333 about the means; one degree of freedom; standard errors of .5 and .8333 times sqrt((1 /
    # (1 - 2/3) + 1 / (1 - 1/3)) / 9) = .7071
    expect(shown(page, column.format(4))).to_have_text(
        ["", "[−4.4923, +4.4923]", "[−7.6539, +7.3205]"]
    )
    expect(page.locator(".caption")).to_contain_text("Differences are from low.")
    expect(page.locator(".caption")).to_contain_text("over 3 turns of 2 conversations")


def test_measures_after_the_third_are_behind_a_click(page, tmp_path):
    runs, measures = {name: make_run(name) for name in RANKS}, ["RR", "P@1", "AP", "nDCG@3", "nDCG"]
    page.goto(report(runs, qrels=LABELS, measures=measures).save(tmp_path / "five.html").as_uri())
    titles = shown(page, ".means th:nth-child(2)")
    expect(titles).to_have_text(["RR(rel=1)", "P(rel=1)@1", "AP(rel=1)"])
    page.locator(".more summary").click()
    expect(titles).to_have_text(["RR(rel=1)", "P(rel=1)@1", "AP(rel=1)", "nDCG@3", "nDCG"])


def test_the_baseline_is_the_given_one_else_raw_else_the_first():
    def baseline(names, **given):
        return re.search(
            "Compared with (\\w+) ", report({name: make_run("low") for name in names}, **given).html
        )[1]

    assert baseline(["b", "a"]) == "b"
    assert baseline(["b", "raw"]) == "raw"
    assert baseline(["b", "raw"], baseline="b") == "b"


def test_what_the_baselines_query_lacks_is_marked(page, url):
    page.goto(url)
    expect(shown(page, "#t1 mark")).to_have_text(["with", "fresh", "mint"])
    choose(page, run="2")
    expect(shown(page, "#t1 mark")).to_have_text(["coffee"])


def test_the_largest_gain_or_loss_comes_first(page, url):
    page.goto(url)
    for order, expected in (
        ("gain", TURNS),
        ("loss", ["2-1_1", "1-1_2", "1-1_1", "2-1_2"]),
        ("", TURNS),
    ):  # not judged: last
        choose(page, order=order)
        expect(turns(page)).to_have_text(expected)


def test_passages_stand_side_by_side_with_their_other_ranks(page, url):
    page.goto(url)
    page.locator("#t3 .n1 .passages > summary").click()
    listed = shown(page, "#t3 .passages li")
    expected = {
        "yes": ["1", "3", "yes", "score 9", "high: rank 2"],
        "low-1": ["2", "not judged", "low-1", "score 8", "high: not found"],
        "low-2": ["3", "not judged", "low-2", "score 7", "high: not found"],
        "high-1": ["1", "not judged", "high-1", "score 9", "low: not found"],
        "yes ": ["2", "3", "yes", "score 8", "low: rank 1"],
        "high-2": ["3", "not judged", "high-2", "score 7", "low: not found"],
    }
    expect(listed).to_have_count(len(expected))
    for place, facts in enumerate(expected.values()):
        expect(shown(listed.nth(place), ".rank, .label, code, small")).to_have_text(facts)
    tops = [round(listed.nth(place).bounding_box()["y"]) for place in (0, 3)]
    assert tops[0] == tops[1]  # both lists begin at one height


def test_the_histogram_counts_the_turns(page, url):
    def heights():
        """The bars that are not empty: their place, from -10 to 10, and height."""
        found = page.locator("#bars i").evaluate_all(
            "all => all.map((bar, place) => [place - 10, bar.style.height])"
        )
        return [[place, height] for place, height in found if height != "0%"]

    page.goto(url)
    expect(shown(page, "figcaption")).to_have_text(
        "RR(rel=1) of high against low: 1 won, 1 tied, 1 lost"
    )
    assert heights() == [[-10, "100%"], [10, "100%"]]  # a tie is only a number
    choose(page, run="2")
    expect(shown(page, "figcaption")).to_have_text(
        "RR(rel=1) of lost against low: 1 won, 0 tied, 2 lost"
    )
    assert heights() == [[-10, "100%"], [-3, "100%"], [8, "100%"]]  # of -1, -.25, +.75


def test_prompts_and_completions_are_shown_on_demand_as_text(page, url):
    page.goto(url)
    texts = shown(page, "#t1 .calls pre")
    expect(texts).to_have_count(0)
    for box in page.locator("#t1 .calls:visible > summary").all():
        box.click()
    prompt = "Rewrite <b>this</b>:\nWhat of it?"
    expect(texts).to_have_text([prompt, "a green tea", prompt, "no key"])
    assert texts.first.text_content() == prompt
    expect(shown(page, "#t1 .n1 .calls h5")).to_have_text(["rewrite", "Prompt", "Failed"])


def test_fourteen_runs_stay_in_the_view(new_page, tmp_path):
    runs = {f"a_rather_long_name_of_run_{number}": make_run("low") for number in range(14)}
    url = report(runs, qrels=LABELS, measures=["RR", "P@1"]).save(tmp_path / "many.html").as_uri()
    for view in (PHONE, DESK):
        page = new_page(**view)
        page.goto(url)
        expect(page.locator("h1")).to_have_text("14 systems")
        expect(shown(page, "#t1 .side")).to_have_count(2)
        open_all_boxes(page)
        assert page.evaluate("document.documentElement.scrollWidth") == view["viewport"]["width"]


@pytest.fixture(scope="module")
def tested_runs():
    """On turns of eight conversations `better` is significantly better, and `alike` is not."""
    turns = [f"{number}-1_1" for number in range(1, 9)]
    ranks = {
        "base": [4, 3, 4, 3, 4, 3, 4, 3],
        "better": [1, 1, 1, 2, 1, 1, 1, 2],
        "alike": [4, 3, 4, 3, 4, 3, 4, 2],
    }
    runs = {}
    for name, places in ranks.items():
        rows = []
        for qid, relevant in zip(turns, places, strict=True):
            docnos = [f"{name}-{place}" for place in range(1, 5)]
            docnos[relevant - 1] = "yes"
            rows += [(qid, docno, 8.0 - place) for place, docno in enumerate(docnos)]
        runs[name] = ranking(rows)
    qrels = pd.DataFrame({"qid": turns, "docno": "yes", "label": 1})
    tested = evaluate(runs, qrels, ["RR"], "base").set_index("name")["RR(rel=1) reject"]
    assert (tested["better"], tested["alike"]) == (True, False)
    return runs, qrels


@pytest.mark.parametrize(
    ("baseline", "differences", "kinds"),
    [
        ("base", ["", "↑+.5833", "+.0208"], ["quiet", "win", "quiet"]),
        (
            "better",
            ["", "↓−.5833", "↓−.5625"],
            ["quiet", "loss", "loss"],
        ),  # the baseline stands first
    ],
    ids=["base", "better"],
)
def test_only_significant_differences_have_colour_and_arrow(
    page, tested_runs, tmp_path, baseline, differences, kinds
):
    runs, qrels = tested_runs
    made = report(runs, qrels=qrels, measures=["RR"], baseline=baseline)
    page.goto(made.save(tmp_path / "tested.html").as_uri())
    cells = shown(page, ".means td:nth-child(3)")
    expect(cells).to_have_text(differences)
    expect(cells).to_have_class(kinds)


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_keeps_people_from_using_the_page(new_page, url, view):
    page = new_page(**view)
    page.goto(url)
    open_all_boxes(page)
    assert violations(page) == []


@pytest.mark.parametrize(
    ("better", "best"), [(1, [False, True]), (-1, [True, False]), (0, [False] * 2)]
)
def test_the_best_mean_is_the_highest_the_lowest_or_none(better, best):
    sessions = [str(number) for number in range(6)]
    values = {one: [[1.0], [2.0]] for one in sessions}
    measure = ShownMeasure("cost", better=better, tested=False)
    means = compare_means([[1.0], [2.0]], values, [measure], Clusters("turn", sessions))
    assert [of_system[0].best for of_system in means] == best
