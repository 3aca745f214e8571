"""The ways from a report to an answer: clicks, and scrolled screens, on a desktop and on a phone.

    python experiments/quality/report_paths.py REPORT.html... [--turn NUMBER]

Headless Chromium opens each report and clicks with its mouse. By default, the turn is the last one of the report, because it is the
farthest. A screen is the height of the window. Scrolling by a click itself doesn't count.
"""

import argparse
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "show")]
SIZES = ((1280, 800), (390, 844))


def main() -> None:
    """Print a table."""
    from chromium import Browser
    from report_paths import walks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--turn", type=int, help="the number of the turn, as the page counts them")
    given = parser.parse_args()
    print(f"{'report':20} {'width':>5} {'to':12} {'clicks':>6} {'screens':>7}  found")
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder)
        for report in given.reports:
            for width, height in SIZES:
                url = report.resolve().as_uri()
                browser.open(url, width=width, height=height)
                turn = given.turn or browser.run("document.querySelectorAll('.turn').length")
                for name, (clicks, screens, text) in walks(browser, url, turn, width, height).items():
                    said = "not kept in a log" if text is None else " ".join(text.split())[:60]
                    print(f"{report.stem:20} {width:5} {name:12} {'–' if text is None else clicks:>6} {screens:7}  {said}")
        browser.close()


if __name__ == "__main__":
    main()
