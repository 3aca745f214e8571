"""The documentation, by one command: ``python docs/make.py`` renews the generated texts and builds the site.

``--tables`` renews the tables and lists alone, in seconds.
``--check`` changes nothing: it fails when a generated text is stale or the site can't be built without a warning. Between the lines
``<!-- generated: NAME -->`` and ``<!-- end -->`` of README.md and docs/*.md stands what the package itself tells:

- ``methods``, ``datasets``, ``llm-options``, ``turn-frame``: tables; ``help``: the help text of every command; ``performance``: the times
  in docs/bench.json, a line for each stage; ``measurements``: all of them;
- ``paper-overview``, ``papers``, ``prompts``: a row per paper, twice, and every prompt template; ``paper-NAME``: a paper's page;
- ``evidence-...``: tables of real turns, which ``experiments/evidence.py --write`` makes; ``main-result``: a part of them;
- ``operators``: a directive per operator, on the page for PyTerrier's site, between the lines ``.. generated: operators`` and ``.. end``;
- ``output``: a block of code and a block of what it prints; ``output-of-real-turns``: the same, where IKAT_DATA names the data.
"""

import argparse
import difflib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pages.command_line import help_texts
from pages.markers import Make, MarkerError, renewed
from pages.method_pages import method_table
from pages.operator_pages import operator_directives
from pages.outputs import with_output, with_output_of_real_data
from pages.paper_overview import paper_overview
from pages.paper_pages import paper_list, paper_page, prompt_table
from pages.performance import performance_summary, performance_table
from pages.source import DOCS, ROOT, lay_out
from pages.tables import dataset_table, llm_option_table, main_result, turn_frame_table

from pyterrier_ikat.papers import PAPERS

BUILT = DOCS / "_build"
RESULTS = ROOT / "experiments" / "performance" / "RESULTS.md"
MAKERS: dict[str, Make] = {
    "methods": method_table,
    "help": help_texts,
    "datasets": dataset_table,
    "llm-options": llm_option_table,
    "turn-frame": turn_frame_table,
    "main-result": main_result,
    "paper-overview": paper_overview,
    "papers": paper_list,
    "performance": performance_summary,
    "measurements": performance_table,
    "prompts": prompt_table,
    "operators": operator_directives,
    "output": with_output,
    "output-of-real-turns": with_output_of_real_data,
}
EVIDENCE = ("runs", "proxy", "systems", "tuning", "best-query", "other-prompts", "variance", "gpt4", "nuggets")
MAKERS |= dict.fromkeys((f"evidence-{name}" for name in EVIDENCE), str)  # they stay: experiments/evidence.py makes them
MAKERS |= {f"paper-{name}": lambda _, name=name: paper_page(name) for name in PAPERS}
WITHOUT_OUTPUT = MAKERS | dict.fromkeys(("output", "output-of-real-turns"), str)


def renew(pages: list[Path], *, check: bool, makers: Mapping[str, Make] = MAKERS) -> bool:
    """Renew the generated texts of these pages, or only tell (with ``check``) where one is stale.

    Returns:
        Whether all of them were fresh.
    """
    fresh = True
    for page in pages:
        old = page.read_text(encoding="utf-8")
        try:
            new = renewed(old, makers)
        except (MarkerError, RuntimeError) as error:
            sys.exit(f"{page.name}: {error}")
        if new == old:
            continue
        fresh = False
        shown = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{page.name}, as it is", "as it should be", n=0))
        print(f"{page.name} {'is stale' if check else 'renewed'}:\n{shown}")
        if not check:
            if page.read_text(encoding="utf-8") != old:
                sys.exit(f"{page.name} was changed by somebody else meanwhile, and is left as it is: start again")
            page.write_text(new, encoding="utf-8")
    return fresh


def build() -> bool:
    """Build the site into docs/_build/html; a warning is an error.

    Returns:
        Whether it was built.
    """
    lay_out(BUILT / "source")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-E",
        "-d",
        BUILT / "doctrees",
        "-b",
        "html",
        BUILT / "source",
        BUILT / "html",
    ]
    return subprocess.run(command).returncode == 0


def main() -> None:
    """Renew or check, then build."""
    parser = argparse.ArgumentParser(description="Renew the generated texts and build the documentation.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a text is stale or the build warns")
    parser.add_argument("--texts", action="store_true", help="only the texts, no build")
    parser.add_argument("--tables", action="store_true", help="as --texts, without what code prints, which takes minutes")
    given = parser.parse_args()
    for name in PAPERS:
        if not (page := DOCS / "papers" / f"{name}.md").exists():
            page.write_text(f"<!-- generated: paper-{name} -->\n<!-- end -->\n", encoding="utf-8")
    pages = [
        ROOT / "README.md",
        *sorted(DOCS.glob("*.md")),
        *sorted(DOCS.glob("papers/*.md")),
        RESULTS,
        ROOT / "pyterrier_ikat" / "pt_docs" / "index.rst",
    ]
    fresh = renew(pages, check=given.check, makers=WITHOUT_OUTPUT if given.tables else MAKERS)
    if given.check and not fresh:
        sys.exit("stale: run `make docs`, look at the difference, and commit it")
    if given.texts or given.tables:
        return
    if not build():
        sys.exit("the documentation was not built: see the warnings above")
    print(f"{BUILT / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
