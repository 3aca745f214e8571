"""The page compares runs: worked out by hand on three runs and two conversations of two turns."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from in_browser import DESK, PHONE, open_all_boxes, shown, violations
from playwright.sync_api import expect
from seen import choose, open_turns, turns
from small_runs import best_first

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.show import report
from pyterrier_ikat.show.report import material as runs_module
from pyterrier_ikat.show.report.content import Call

TURNS = ["1-1_1", "1-1_2", "2-1_1", "2-1_2"]

# the rank of the relevant passage `yes` in each run and turn; 0 where it isn't found. The last turn
# is not judged.
RANKS = {"low": [2, 4, 1, 1], "high": [1, 4, 2, 1], "lost": [4, 1, 0, 1]}
QUERIES = {"low": "a green tea", "high": "A tea, with fresh mint", "lost": "coffee"}
LABELS = pd.DataFrame({"qid": TURNS[:3], "docno": "yes", "label": [4, 2, 3]})


def make_run(name):
    docnos_by_turn = {}
    for qid, rank in zip(TURNS, RANKS[name], strict=True):
        docnos = [f"{name}-1", f"{name}-2", f"{name}-3"]
        if rank > 0:
            docnos.insert(rank - 1, "yes")
        docnos_by_turn[qid] = docnos
    frame = best_first(docnos_by_turn, top=9.0)
    chosen = [("1", 1.0)] if name == "low" else [("1", 1.0), ("2", 0.5)]
    return frame.assign(
        text="The teas of " + frame["docno"] + ": mint, and the rest.",
        query=QUERIES[name],
        qutterance="What of " + frame["qid"] + "?",
        qstatements=column([chosen] * len(frame)),
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The best three passages of each run; in the first turn two runs keep an LLM call."""
    made = {name: make_run(name) for name in RANKS}
    build = runs_module._of_frame
    prompt = [{"role": "user", "content": "Rewrite <b>this</b>:\nWhat of it?"}]
    kept = {
        "low": [Call("rewrite", "Rewrite()", prompt, "a green tea")],
        "high": [Call("rewrite", "Rewrite()", prompt, "no key", True)],
    }

    def with_calls(name, frame):
        calls = {}
        if name in kept:
            calls["1-1_1"] = kept[name]
        parameters = {"expression": f"{name}()", "deviations": []}
        return replace(build(name, frame), calls=calls, parameters=parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "_of_frame", with_calls)
        page = report(made, qrels=LABELS, measures=["RR", "P@1"], passages=3)
    return page.save(tmp_path_factory.mktemp("page") / "report.html").as_uri()


def sentence(text):
    """A sentence with {docno} for the first words of a passage, as the page has it."""
    return re.sub("{(\\S+)}", r"“The teas of \1: mint, and …”", text)


def test_a_sentence_per_turn_names_what_makes_the_difference(page, url):
    page.goto(url)
    open_turns(page)
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
    open_turns(page)
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
    expect(page.locator(".headline .score, .headline .difference")).to_have_text(
        [
            *("low .5000", "high 1.0000", "+.5000"),
            *("low .2500", "high .2500", ".0000"),
            *("low 1.0000", "high .5000", "−.5000"),
        ]
    )
    expect(page.locator("#t4 .headline")).to_have_text("not judged")
    expect(shown(page, ".headline .win")).to_have_text(["+.5000"])
    expect(shown(page, ".headline .loss")).to_have_text(["−.5000"])
    choose(page, run="2", measure="1")
    expect(shown(page, "#t1 .headline > span")).to_have_text(["low .0000", "lost .0000", ".0000"])
    expect(shown(page, ".heads").first).to_have_text(
        "P(rel=1)@1 low lost difference", use_inner_text=True
    )


def cells(page, row):
    """The cells of a row of the table of means that are shown."""
    return shown(page, f".means tbody tr:nth-child({row}) :is(th, td)")


def test_means_have_differences_and_intervals_of_one_measure(page, url):
    page.goto(url)
    expect(shown(page, ".means thead th")).to_have_text(
        ["system", "RR(rel=1)", "difference", "95 %", "P(rel=1)@1"]
    )
    # RR: low 0.5, 0.25, 1; high 1, 0.25, 0.5; lost 0.25, 1, 0. Two turns of the first conversation
    # and one of the second: sums of +.5 and -.5, of +.8333 and -.8333 about the means; one degree
    # of freedom; standard errors of .5 and .8333 times sqrt((1 / (1 - 2/3) + 1 / (1 - 1/3)) / 9) =
    # .7071. P@1: low 0, 0, 1; high 1, 0, 0; lost 0, 1, 0
    expect(cells(page, 1)).to_have_text(["low", ".5833", "", "", ".3333"])
    expect(cells(page, 2)).to_have_text(["high", ".5833", ".0000", "[−4.4923, +4.4923]", ".3333"])
    expect(cells(page, 3)).to_have_text(["lost", ".4167", "−.1667", "[−7.6539, +7.3205]", ".3333"])
    expect(page.locator(".caption")).to_contain_text("Differences are from low.")
    expect(page.locator(".caption")).to_contain_text("over 3 turns of 2 conversations")


def test_a_click_on_a_measure_shows_its_differences_and_turns(page, url):
    page.goto(url)
    page.locator(".means").get_by_role("button", name="P(rel=1)@1").click()
    expect(shown(page, ".means thead th")).to_have_text(
        ["system", "RR(rel=1)", "P(rel=1)@1", "difference", "95 %"]
    )
    expect(page.locator("#filters [name=measure]")).to_have_value("1")
    expect(page.locator("#t1 .difference")).to_have_text("+1.0000")
    choose(page, measure="0")
    expect(shown(page, ".means button[aria-pressed=true]")).to_have_text(["RR(rel=1)"])


def test_the_page_opens_at_the_first_measure_of_the_run(page, sample, sample_index, tmp_path):
    measures = ["R@20", "RR"]
    found = ikat.run(
        ["raw", "human_qr"], sample, out=tmp_path, index=sample_index, measures=measures
    )
    page.goto(report(found).save(tmp_path / "report.html").as_uri())
    options = page.locator("#filters [name=measure] option").all_text_contents()
    assert options[:3] == ["R(rel=1)@20", "RR(rel=1)", "nDCG@3"]
    expect(page.locator(".means button[aria-pressed=true]")).to_have_text("R(rel=1)@20")
    expect(shown(page, "figcaption")).to_contain_text("R(rel=1)@20 of human_qr against raw")


def test_the_baseline_is_the_given_one_else_raw_else_the_first():
    def baseline(names, **given):
        runs = {name: make_run("low") for name in names}
        page = report(runs, **given).html
        return re.search("Compared with (\\w+) ", page)[1]

    assert baseline(["b", "a"]) == "b"
    assert baseline(["b", "raw"]) == "raw"
    assert baseline(["b", "raw"], baseline="b") == "b"


def test_what_the_baselines_query_lacks_is_marked(page, url):
    page.goto(f"{url}#t1")
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
    page.locator("#t3 > summary").click()
    page.locator("#t3 .other .passages > summary").click()
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
    assert heights() == [[-10, "100%"], [0, "100%"], [10, "100%"]]
    expect(page.locator(".axis span")).to_have_text(["worse by .5000", "1 tied", "better by .5000"])
    choose(page, run="2")
    expect(shown(page, "figcaption")).to_have_text(
        "RR(rel=1) of lost against low: 1 won, 0 tied, 2 lost"
    )
    assert heights() == [[-10, "100%"], [-3, "100%"], [8, "100%"]]  # of -1, -.25, +.75


def test_many_ties_do_not_dwarf_the_differences(page, tmp_path):
    turns = [f"1-1_{number}" for number in range(1, 12)]
    base = best_first(dict.fromkeys(turns, "ab"), top=2.0)
    other = best_first({**dict.fromkeys(turns, "a"), "1-1_1": "b"})
    qrels = pd.DataFrame({"qid": turns, "docno": "a", "label": 1})
    made = report({"base": base, "other": other}, qrels=qrels, measures=["P@1"])
    page.goto(made.save(tmp_path / "ties.html").as_uri())
    bars = page.locator("#bars i")
    assert bars.nth(0).evaluate("bar => bar.style.height") == "50%"  # one turn is lost
    expect(bars.nth(10)).to_have_class("cut")
    expect(page.locator(".axis span").nth(1)).to_have_text("10 tied")


def test_the_largest_gains_and_losses_lead_to_their_turns(page, url):
    page.goto(url)
    expect(page.locator("#largest-win li")).to_have_text(["1-1_1 What of 1-1_1? +.5000"])
    expect(page.locator("#largest-loss li")).to_have_text(["2-1_1 What of 2-1_1? −.5000"])
    choose(page, run="2")
    expect(page.locator("#largest-win a")).to_have_text(["1-1_2"])
    expect(page.locator("#largest-loss a")).to_have_text(["2-1_1", "1-1_1"])  # 1 and .25
    choose(page, outcome="tie")  # the turn is filtered out
    page.locator("#largest-loss a").first.click()
    expect(page.locator("#t3 .side")).to_have_count(2)
    expect(page.locator("#t3 .sides")).to_be_in_viewport()


def test_no_more_than_five_gains_are_named(page, tested_runs, tmp_path):
    runs, qrels = tested_runs
    made = report(runs, qrels=qrels, measures=["RR"], baseline="base")
    page.goto(made.save(tmp_path / "five.html").as_uri())
    # .75 for a 4 that becomes a 1, .6667 for a 3, .1667 for a 3 that becomes a 2
    expect(page.locator("#largest-win b")).to_have_text(["+.7500"] * 4 + ["+.6667"])
    expect(page.locator("#largest-win a").first).to_have_text("1-1_1")
    expect(page.locator("#largest-loss li")).to_have_text(["none"])


def test_prompts_and_completions_are_shown_on_demand_as_text(page, url):
    page.goto(f"{url}#t1")
    texts = shown(page, "#t1 .calls pre")
    expect(texts).to_have_count(0)
    expect(shown(page, "#t1 .calls")).to_have_count(2)
    for box in page.locator("#t1 .calls:visible > summary").all():
        box.click()
    prompt = "Rewrite <b>this</b>:\nWhat of it?"
    expect(texts).to_have_text([prompt, "a green tea", prompt, "no key"])
    assert texts.first.text_content() == prompt
    expect(shown(page, "#t1 .other .calls h5")).to_have_text(["rewrite", "Prompt", "Failed"])


def test_fourteen_runs_stay_in_the_view(new_page, tmp_path):
    names = [f"a_rather_long_name_of_run_{number}" for number in range(14)]
    runs = dict.fromkeys(names, make_run("low"))
    made = report(runs, qrels=LABELS, measures=["RR", "P@1"])
    url = made.save(tmp_path / "many.html").as_uri()
    for view in (PHONE, DESK):
        page = new_page(**view)
        page.goto(url)
        expect(page.locator("h1")).to_have_text("14 systems")
        open_turns(page)
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
        docnos_by_turn = {}
        for qid, relevant in zip(turns, places, strict=True):
            docnos = [f"{name}-1", f"{name}-2", f"{name}-3", f"{name}-4"]
            docnos[relevant - 1] = "yes"
            docnos_by_turn[qid] = docnos
        runs[name] = best_first(docnos_by_turn, top=8.0)
    qrels = pd.DataFrame({"qid": turns, "docno": "yes", "label": 1})
    tested = evaluate(runs, qrels, ["RR"], "base").set_index("name")["RR(rel=1) reject"]
    assert (tested["better"], tested["alike"]) == (True, False)
    return runs, qrels


@pytest.mark.parametrize(
    ("baseline", "means", "differences", "kinds"),
    [
        (
            "base",
            [".2917", "↑.8750", ".3125"],
            ["", "+.5833", "+.0208"],
            ["quiet", "win", "quiet"],
        ),
        (
            "better",
            [".8750", "↓.2917", "↓.3125"],
            ["", "−.5833", "−.5625"],
            ["quiet", "loss", "loss"],
        ),  # the baseline stands first
    ],
    ids=["base", "better"],
)
def test_only_significant_differences_have_colour_and_arrow(
    page, tested_runs, tmp_path, baseline, means, differences, kinds
):
    runs, qrels = tested_runs
    made = report(runs, qrels=qrels, measures=["RR"], baseline=baseline)
    page.goto(made.save(tmp_path / "tested.html").as_uri())
    expect(shown(page, ".means td:nth-child(2)")).to_have_text(means)
    differences_shown = shown(page, ".means td:nth-child(3)")
    expect(differences_shown).to_have_text(differences)
    expect(differences_shown).to_have_class([f"change of0 {kind}" for kind in kinds])


@pytest.mark.parametrize("view", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_keeps_people_from_using_the_page(new_page, url, view):
    page = new_page(**view)
    page.goto(url)
    assert violations(page) == []
    open_turns(page)
    open_all_boxes(page)
    assert violations(page) == []
