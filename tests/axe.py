"""axe-core, which finds what keeps people from using a page: from the package axe-core-python, or the file that AXE_CORE names."""

import json
import os
from importlib.util import find_spec
from pathlib import Path


def find_axe():
    """The path of axe.min.js; None where there is none."""
    if named := os.environ.get("AXE_CORE"):
        return Path(named)
    found = find_spec("axe_core_python")
    path = Path(found.origin).with_name("axe.min.js") if found and found.origin else None
    return path if path is not None and path.is_file() else None


def violations(browser):
    """What axe-core finds wrong with the page as it is now: rule, and the first element that breaks it."""
    if browser.run("typeof axe") == "undefined":
        browser.run(f"{find_axe().read_text(encoding='utf-8')}; 0")
    found = browser.run("axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))")
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in json.loads(found)]
