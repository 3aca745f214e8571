"""The built site: its search finds first the page that answers, guides fit on a screen, pages on a phone. `make docs` builds it."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from chromium import Browser, find_browser

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
QUERIES = {
    "my own retriever": "bring_your_own",
    "api key": "language_models",
    "PTKB": "glossary",
    "rerank": "rerankers",
    "submit a run": "submit",
    "batch api cost": "language_models",
    "resume a run": "compare_systems",
    "MTRAG": "datasets",
    "significance": "compare_systems",
    "simulate users": "live",
    "open webui": "live",
    "dense retrieval": "compare_systems",
    "cite": "index",
    "own prompts": "own_prompts",
    "statements about the user": "glossary",
    "qrels": "datasets",
    "local model": "language_models",
    "interactive task": "live",
    "index large collection": "scale",
    "report": "compare_systems",
}
BY_NAME = {"LLMRerank": "operators/LLMRerank", "SelectStatements": "operators/SelectStatements", "merge_qrels": "reference/merge_qrels"}
FIRST = """new Promise(found => {
    const look = () => {
        const first = document.querySelector("#search-results ul.search li a");
        if (first) found(first.href);
        else setTimeout(look, 20);
    };
    look();
})"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find_browser() is None:
        pytest.skip("needs Chromium")
    if not (SITE / "searchindex.js").exists():
        pytest.skip("needs the built site: make docs")
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.mark.parametrize(("query", "page"), (QUERIES | BY_NAME).items())
def test_a_query_finds_first_the_page_that_answers_it(browser, query, page):
    browser.open(f"{(SITE / 'search.html').as_uri()}?q={quote(query)}")
    [found] = re.findall(r"/html/(.*?)\.html", browser.run(FIRST))
    assert found == page


@pytest.mark.parametrize("page", ["live", "language_models"])
def test_a_guide_is_read_on_one_screen(browser, page):
    browser.open((SITE / f"{page}.html").as_uri(), width=1280, height=800)
    assert browser.run("document.querySelector('article').getBoundingClientRect().bottom") <= 800


@pytest.mark.parametrize("page", [*sorted(set(QUERIES.values())), "live_reference", "evidence", "papers/nii_2024", "methods/aqd", "cli"])
def test_no_page_scrolls_sideways_on_a_phone(browser, page):
    browser.open((SITE / f"{page}.html").as_uri(), width=390, height=844)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= 390
