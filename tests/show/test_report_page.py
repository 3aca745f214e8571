"""The page of a report of runs: what it tells, loads and allows, and how it is saved."""

import base64
import hashlib
import random
import re
from html import unescape

import pandas as pd
import pytest
from packed_page import packed_turns
from parsed_page import ATTACKS, Page
from seen import drawn
from small_runs import DOCNOS, best_first, ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.show import report
from pyterrier_ikat.show.report import rankings
from pyterrier_ikat.show.report.page import FOLDER, Report


@pytest.fixture
def parsed(page, folders, sample, tmp_path):
    """The report of both folders, with all turns drawn."""
    return drawn(page, report(folders, sample), tmp_path)


def test_a_conversation_reads_from_persona_to_passages(parsed):
    said = parsed.said()
    in_order = [
        "Conversation 1-1",
        "Persona: 9 statements",
        "2: My left knee is worn and hurts whenever I go downhill for long.",
        "Turn 1 1-1_1 I'd like to do my first walk of several days next year.",
        "plain baseline Rewrite Which first walk?",
        "3 passages, 3 relevant, 0 not judged",
        "sample-walk-001:0 score 3 full: rank 3 Newcomers to overnight trekking do best",
        "full Rewrite Which first walk suits a bad knee ?",
        "Statements 2: My left knee is worn",
        "2 sub-queries easy first walk soft paths",
        "Response Take the heath, it is level. based on [1] [3]",
        "plain: rank 1 used Newcomers to overnight trekking do best",
        "Rewrite and answer of the data",
    ]
    places = [said.find(text) for text in in_order]
    assert -1 not in places, in_order[places.index(-1)]
    assert places == sorted(places)


def test_how_the_runs_were_made_is_told(folders, sample):
    said = Page(report(folders, sample).html).said()
    assert "plain plain() No LLM calls. llm: the paper has gpt-4, this run gpt-4o" in said
    assert "full() 2 LLM calls, 1 known, 2,000 tokens, 0.25 USD, 0 failures, 0 fallbacks." in said


def test_the_means_are_those_of_the_evaluation(folders, sample):
    page = Page(report(folders, sample).html)
    evaluated = ikat.evaluate({run.path.name: run for run in folders}, sample.get_qrels())
    means = evaluated.set_index("name")["nDCG@3"]
    assert means.nunique() == 2
    for name, mean in means.items():
        decimals = f"{mean:.4f}"[1:]
        assert f"{name} {decimals}" in page.said()
    difference = abs(means["full"] - means["plain"])
    assert f"{difference:.4f}"[1:] in page.said()
    assert "Mean over 2 judged turns, those that all runs were asked, of 3." in page.said()


def test_elements_are_closed_ids_unique_and_no_link_is_dead(parsed):
    assert parsed.problems == []
    ids = [attrs["id"] for _, attrs in parsed.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {attrs["href"][1:] for tag, attrs in parsed.elements if tag == "a"}
    assert links <= set(ids)
    assert len(links) > 5
    for _, attrs in parsed.elements:
        if "aria-labelledby" in attrs:
            assert attrs["aria-labelledby"] in ids


def test_nothing_is_loaded_from_anywhere(parsed):
    loading = {"src", "srcset", "action", "data", "poster", "formaction", "background"}
    for tag, attrs in parsed.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not loading & set(attrs)
        assert attrs.get("href", "#").startswith("#")
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    script = (FOLDER / "report.js").read_text(encoding="utf-8")
    assert not re.search(r"fetch|XMLHttp|\bimport\b|https?:|WebSocket|eval", script)
    assert not re.findall(r"[\w.]+HTML|createContextualFragment|DOMParser", script)


def hashed(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_just_this_style_and_script(folders, sample):
    html = report(folders, sample).html
    policy = unescape(re.search('Content-Security-Policy" content="([^"]*)"', html)[1])
    style = re.search("<style>(.*?)</style>", html, re.S)[1]
    script = re.search("<script>(.*?)</script>", html, re.S)[1]
    allowed = f"style-src 'sha256-{hashed(style)}'; script-src 'sha256-{hashed(script)}'"
    assert policy.startswith(f"default-src 'none'; {allowed}")
    assert not re.search(r'\sstyle="|\son[a-z]+="', html)


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_of_any_field_is_text(page, tmp_path, attack):
    frame = ranking([("1_1", f"doc{attack}", 1.0), ("1_1", "b", 0.5)])
    wrote = {
        "qutterance": attack,
        "qrewrite": attack,
        "qanswer": attack,
        "qptkb": {attack: attack},
        "qstatements": [(attack, 1.0), ("unknown " + attack, 0.5)],
        "qsubqueries": [attack],
    }
    run = frame.assign(text=f"{attack} " * 40, used=[True, False])
    for name, value in wrote.items():
        run[name] = column([value, value])
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": [f"doc{attack}"], "label": [1]})
    made = report({attack: run, f"other {attack}": run}, qrels=qrels)
    page.add_init_script("window.alert = () => { throw new Error('owned'); }")
    parsed = drawn(page, made, tmp_path)
    assert parsed.problems == []
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("script") == 3
    assert tags.count("img") == 0
    assert parsed.elements.count(("b", {"id": "evil"})) == 0
    assert parsed.handlers() == []
    # blanks at an end are a browser's own
    seen = page.evaluate("document.documentElement.textContent").count(attack.strip())
    assert seen > 15
    assert parsed.text.count(attack) > 5  # whole, where no word of it is marked


def test_characters_that_no_file_holds_are_replaced(page, tmp_path):
    text = "half \ud800 and zero \x00 and שלום"
    run = ranking([("1_1", "a", 1.0)]).assign(
        qutterance=pd.Series([text], dtype=object),
        qrewrite=pd.Series([text], dtype=object),
        text=pd.Series([text], dtype=object),
    )
    made = report({"mine": run})
    path = made.save(tmp_path / "new" / "report.html")
    readable = "half � and zero � and שלום"
    assert readable in path.read_text(encoding="utf-8")
    assert packed_turns(made.html)["passages"] == [["a", readable, ""]]
    assert drawn(page, made, tmp_path).said().count(readable) == 3


def test_a_report_is_saved_whole_and_shown_in_a_frame_of_its_own(folders, tmp_path):
    made = report(folders)
    assert made.save(tmp_path / "r.html").read_text(encoding="utf-8") == made.html
    frame = Page(made._repr_html_())
    ((tag, attrs),) = frame.elements
    assert (tag, attrs["sandbox"], attrs["title"], attrs["srcdoc"]) == (
        "iframe",
        "allow-scripts",
        "plain, full",
        made.html,
    )
    assert re.fullmatch(r"<report of plain, full, 0\.\d MB: .save\(path\) writes it>", repr(made))


def test_a_page_in_a_notebook_is_a_frame_and_says_its_size(tmp_path):
    page = Report('<p class="a">&</p>', 'a"b')
    assert page._repr_html_() == (
        '<iframe title="a&quot;b" srcdoc="&lt;p class=&quot;a&quot;&gt;&amp;&lt;/p&gt;" '
        'sandbox="allow-scripts" width="100%" height="720" style="border: 0"></iframe>'
    )
    assert repr(Report("ä" * 600_000, "x")) == "<report of x, 1.2 MB: .save(path) writes it>"
    path = page.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == '<p class="a">&</p>'


def test_a_page_in_a_notebook_is_named_as_it_is():
    page = Report('<p class="x">tea & "milk"</p>', 'a"b <i>')
    [(tag, attributes)] = Page(page._repr_html_()).elements
    assert (tag, attributes["title"], attributes["srcdoc"]) == ("iframe", page.name, page.html)
    large = Report("\u00e4" * 1_000_000, "x")
    assert repr(large) == "<report of x, 2.0 MB: .save(path) writes it>"


def test_one_run_has_nothing_to_compare_with(page, folders, sample, tmp_path):
    parsed = drawn(page, report(folders[1], sample), tmp_path)
    names = {attrs.get("name") for _, attrs in parsed.elements}
    assert not names & {"run", "order", "outcome"}
    for tag, attrs in parsed.elements:
        assert tag != "mark"
        assert attrs.get("class") not in ("win", "loss", "only", "reason")


def test_a_plain_run_without_a_dataset_shows_what_is_known(page, tmp_path):
    ikat.runs.write_run(ranking([("1_1", "d:1", 1.5)]), tmp_path / "bm25.trec")
    parsed = drawn(page, report(tmp_path / "bm25.trec"), tmp_path)
    said = parsed.said()
    assert "No dataset was given" in said
    assert "The utterance is not known." in said
    assert "1 passages 1" not in said
    assert "d:1" in said
    assert not {"measure", "least"} & {attrs.get("name") for _, attrs in parsed.elements}


def test_fewer_passages_on_request_but_those_used_stay(page, folders, sample, tmp_path):
    said = drawn(page, report(folders[1], sample, passages=1), tmp_path).said()
    assert "the best 1 passage" in said
    assert DOCNOS[1] in said
    assert DOCNOS[0] in said
    assert said.count(DOCNOS[4]) == 1
    assert f"Relevant passages that no system shows {DOCNOS[4]} (label 2): full at rank 2" in said
    with pytest.raises(UsageError, match="passages=0: show at least one"):
        report(folders, sample, passages=0)


def test_the_dataset_by_name_and_other_measures(folders):
    page = Page(report(folders, "ikat:sample", measures=["RR", "P(rel=2)@5"]).html)
    options = [attrs["value"] for tag, attrs in page.elements if tag == "option"]
    assert "Measure RR(rel=1) P(rel=2)@5" in page.said()
    # the compared run, measures, outcomes, orders, all conversations or one
    assert len(options) == 1 + 2 + 4 + 3 + 2
    with pytest.raises(UsageError, match="no dataset 'ikat:1999'"):
        report(folders, "ikat:1999")


def test_each_passage_is_in_the_page_once():
    run = best_first({"1_1": "ab", "1_2": "ab"}).assign(text="tea")
    made = packed_turns(report({"one": run, "two": run, "three": run}).html)
    assert made["passages"] == [["a", "tea", ""], ["b", "tea", ""]]
    lengths = []
    for turn in made["turns"]:
        for side in turn["sides"]:
            [step] = side["steps"]
            lengths.append(len(step["passages"]))
    assert lengths == [2] * 6


def test_a_page_of_any_passages_stays_small(monkeypatch):
    # A fifteenth of seven systems on 174 turns, none of whose passages is found twice. Words by
    # chance are packed less well than English.
    monkeypatch.setattr(rankings, "PASSAGE_CHARACTERS", rankings.PASSAGE_CHARACTERS / 15)
    chance = random.Random(5)
    words = ["".join(chance.choices("etaoinshrdlu", k=6)) for _ in range(5000)]
    runs = {}
    for system in "abcdefg":
        docnos_by_turn = {}
        for turn in range(12):
            passages = f"clueweb22-en0000-00-{system}{turn:03}"
            docnos_by_turn[f"1_{turn}"] = [f"{passages}:{rank}" for rank in range(20)]
        found = best_first(docnos_by_turn, top=20.0)
        text = [" ".join(chance.choices(words, k=200)) for _ in range(len(found))]
        answer = " ".join(chance.choices(words, k=120))
        runs[system] = found.assign(text=text, qanswer=answer, query="word " * 20)
    page = report(runs).html
    assert "the first 30 words of each" in page
    assert len(page.encode()) / 1e6 < 4 / 15 + 0.05  # style and script are always there


def test_the_page_says_what_tests_and_intervals_go_by():
    turns = ["1-1_1", "1-2_1", "2-1_1", "3-1_1"]
    qrels = pd.DataFrame({"qid": turns, "docno": "a", "label": 1})
    runs = {
        "new": best_first({"1-1_1": "x", "1-2_1": "a", "2-1_1": "a", "3-1_1": "a"}),
        "raw": best_first(dict.fromkeys(turns, "xa"), top=2.0),
    }

    def page(**given):
        return Page(report(runs, qrels=qrels, measures=["RR"], **given).html).said()

    # new less raw: -.5, +.5, +.5, +.5: mean .25 and standard error .25, and 3.1824 of them for
    # three degrees of freedom
    assert "over 4 turns of 4 conversations, Bonferroni, p < .05" in page()
    assert "a test needs 5 conversations or more, and these are 4" in page()
    assert "raw .5000 new .7500 +.2500 [−.5456, +1.0456]" in page()
    assert "over 4 turns of 3 topics" in page(unit="topic")
    assert "The test treats all turns as independent" in page(unit="turn")
    with pytest.raises(UsageError, match="unit='depth'"):
        page(unit="depth")
