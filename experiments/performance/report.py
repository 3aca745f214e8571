"""Reports: how large they are, and how soon Chromium shows them.

    python experiments/performance/bench.py report

The runs are real: seven systems on the 174 judged turns of `ikat:2023-mini`, with the completions
that the authors of `recorded:personalizedcir` published, and five repeats of six of them. A report
is opened when its first turn is drawn with all its passages. A search is over when the turns that
fit are laid out. Times are the smallest of five, because other programs only increase them.
"""

from collections.abc import Iterator
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from bench import Row
from playwright.sync_api import CDPSession, Page, sync_playwright

import pyterrier_ikat as ikat

MINI = "ikat:2023-mini"
SYSTEMS = (
    "raw",
    "ptkb_none",
    "ptkb_all",
    "ptkb_human",
    "ptkb_str",
    "ptkb_sar",
    "ptkb_all_queries",
)
MANY = 30
REPEATS = 5
SEARCH = "protein blood"
"""Words that many passages and completions have."""
OPENED = "#t1[open] .passages summary"
SEARCHED = """words => {
    const field = document.querySelector('[name=search]');
    const started = performance.now();
    field.value = words;
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    document.body.getBoundingClientRect();
    return (performance.now() - started) / 1000;
}"""
"""JavaScript that returns the seconds of a search."""
PRINTED = """() => {
    const started = performance.now();
    dispatchEvent(new Event('beforeprint'));
    document.body.getBoundingClientRect();
    return (performance.now() - started) / 1000;
}"""
"""JavaScript that returns the seconds of drawing all turns, as before printing."""


def rows() -> Iterator[Row]:
    """A report of seven runs, and one of thirty."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        index = make_runs(place)
        yield from shown(place, list(SYSTEMS), index)
        names = sorted(path.name for path in (place / "runs").iterdir())
        yield from shown(place, names[:MANY], index)


def make_runs(place: Path) -> ikat.PassageIndex:
    """Make the folders of the runs, and return the index that they searched."""
    passages = ikat.dataset(MINI).get_corpus_iter(verbose=False)
    index = ikat.PassageIndex(place / "mini.index").index(passages)
    ikat.run(
        list(SYSTEMS),
        MINI,
        out=place / "runs",
        turns="judged-2023",
        repeats=5,
        index=index,
        llm=ikat.llm("recorded:personalizedcir"),
    )
    return index


def shown(place: Path, names: list[str], index: ikat.PassageIndex) -> Iterator[Row]:
    """The times of the report of these runs in Chromium, and its size."""
    runs = [place / "runs" / name for name in names]
    made = ikat.report(runs, texts=index.text_loader())
    path = made.save(place / "report.html")
    stage = f"a report of {len(names)} runs"
    with sync_playwright() as playwright:
        program = which("chromium-headless-shell") or which("chromium")
        browser = playwright.chromium.launch(executable_path=program)
        loads = []
        works = []
        searches = []
        for _ in range(REPEATS):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            loads.append(seconds_to_open(page, path.as_uri()))
            works.append(seconds_of_work(session))
            searches.append(float(page.evaluate(SEARCHED, SEARCH)))
            page.close()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        seconds_to_open(page, path.as_uri())
        printed = page.evaluate(PRINTED)
        browser.close()
    more = {"MB": path.stat().st_size / 1e6, "all turns drawn for a printer": printed}
    yield Row(f"{stage}, opened", min(loads), more=more)
    yield Row(f"{stage}, opened: work", min(works), unit="s of CPU, 1 thread")
    yield Row(f"{stage}, a search", min(searches))


def seconds_to_open(page: Page, address: str) -> float:
    """The seconds from the address to the first turn that is drawn."""
    page.goto(f"{address}#t1")
    page.wait_for_selector(OPENED)
    milliseconds = page.evaluate(
        "new Promise(done => requestAnimationFrame(() => done(performance.now())))"
    )
    return float(milliseconds) / 1000


def seconds_of_work(session: CDPSession) -> float:
    """The seconds of CPU of a page's main thread so far."""
    found = session.send("Performance.getMetrics")["metrics"]
    metrics = {metric["name"]: float(metric["value"]) for metric in found}
    return metrics["TaskDuration"]
