"""Lays out everything that Sphinx reads: the pages of this folder, the README and its neighbours, the notebooks, what the package tells."""

import os
import re
import shutil
from pathlib import Path

from .glossary import link_pages
from .method_pages import write_method_pages
from .operator_pages import write_operator_pages
from .search_words import write_index
from .stand_ins import prepare

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
IN_READING_ORDER = (
    "quickstart",
    "real_data",
    "evidence",
    "own_llm_and_index",
    "reuse",
    "generate_then_retrieve",
    "irlab_2024",
    "infosense_2024",
    "nii_2024",
    "rali_2024",
    "ptkb_2024",
    "cfda_2025",
    "disco_2025",
    "organizers_2025",
    "judging",
    "submission",
)
"""Notebooks that aren't named here follow."""
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)")


def lay_out(source: Path) -> None:
    """Make the folder that Sphinx builds.

    Args:
        source: the folder; what stands there is removed.

    Raises:
        ValueError: when a page links to a file that the repository doesn't have.
    """
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    shutil.copytree(DOCS / "_static", source / "_static")
    for page in (DOCS / "conf.py", *DOCS.glob("*.md")):
        shutil.copy(page, source)
    shutil.copytree(DOCS / "papers", source / "papers")
    link_pages(source)
    listed = "\n".join(f"papers/{page.stem}" for page in sorted((DOCS / "papers").glob("*.md")))
    with (source / "reproduce.md").open("a", encoding="utf-8") as reproduce:
        reproduce.write(f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n")
    for name, target in (("README.md", "readme.md"), ("CHANGELOG.md", "changelog.md"), ("CONTRIBUTING.md", "contributing.md")):
        (source / target).write_text(at_home((ROOT / name).read_text(encoding="utf-8"), name), encoding="utf-8")
    write_index(source)
    _lay_out_notebooks(source / "notebooks")
    before = Path.cwd()
    os.chdir(source)  # the examples name the index without a folder, so that no page shows a path of this machine
    try:
        prepare()
        write_operator_pages(source)
        write_method_pages(source)
    finally:
        os.chdir(before)


def at_home(text: str, name: str) -> str:
    """A page of the repository's root with its links as they are on the site; a file that the site lacks keeps its name, unlinked.

    Raises:
        ValueError: when the repository has no such file.
    """

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found.groups()
        if not (ROOT / target).exists():
            raise ValueError(f"{name} links to {target}, which is not there")
        if target.startswith("docs/_static/"):
            return f"[{label}]({target.removeprefix('docs/')})"
        if target in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            return f"[{label}]({target.lower()}{anchor or ''})"
        if target.startswith("docs/") and target.endswith(".md"):
            return f"[{label}]({target.removeprefix('docs/')}{anchor or ''})"
        if target.startswith("notebooks/") and target.endswith(".ipynb"):
            return found.group()
        return f"{label} (`{target}`)" if label.strip("`") != target else f"`{target}`"

    return _LINK.sub(link, text)


def _lay_out_notebooks(folder: Path) -> None:
    folder.mkdir()
    found = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for notebook in found:
        shutil.copy(notebook, folder)
    places = {name: place for place, name in enumerate(IN_READING_ORDER)}
    listed = "\n".join(sorted((notebook.stem for notebook in found), key=lambda name: (places.get(name, len(places)), name)))
    text = f"# Notebooks\n\nIn reading order, with their outputs.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    (folder / "index.md").write_text(text, encoding="utf-8")
