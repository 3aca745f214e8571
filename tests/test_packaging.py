"""The wheel holds everything that the package reads, and the citation file names this version."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pyterrier_ikat"

needs_the_checkout = pytest.mark.skipif(
    not PACKAGE.exists(), reason="the package is tested outside of its checkout"
)


@pytest.fixture
def in_the_wheel(monkeypatch):
    """The files of the package that setuptools would put into the wheel."""
    pytest.importorskip("setuptools")  # has distutils where Python has it no longer
    monkeypatch.chdir(ROOT)
    build = (
        importlib.import_module("distutils.core")
        .run_setup("setup.py", [], stop_after="init")
        .get_command_obj("build_py")
    )
    build.ensure_finalized()
    files = {Path(path) for _, _, path in build.find_all_modules()}
    for _, folder, _, names in build.data_files:
        files.update(Path(folder, name) for name in names)
    return files


@needs_the_checkout
@pytest.mark.filterwarnings("ignore")
def test_the_wheel_holds_every_file_of_the_package(in_the_wheel):
    found = set()
    for path in PACKAGE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            found.add(path.relative_to(ROOT))
    assert sorted(found - in_the_wheel) == []
    kinds = {
        "prompts/answer.jinja",
        "conversations/sample/recorded.jsonl",
        "show/report/files/report.css",
        "retrieve/stopwords.json",
        "py.typed",
    }
    assert {Path("pyterrier_ikat", name) for name in kinds} <= in_the_wheel


def test_the_citation_names_this_version():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    in_bibtex = (ROOT / "README.md").read_text(encoding="utf-8")
    [version] = re.findall(r'version="(.+?)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert f"\nversion: {version}\n" in cited
    assert f"version = {{{version}}}" in in_bibtex
