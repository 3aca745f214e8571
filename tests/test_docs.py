"""The documentation: generated texts are fresh, every name in it is there, every operator can be drawn."""

import itertools
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.cli.run import SYSTEMS
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers import PAPERS, find_table
from pyterrier_ikat.papers.paper_resources import keys_of, read_resources

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import make  # noqa: E402 - the folder is not a package
from pages import (  # noqa: E402
    glossary,
    markers,
    method_pages,
    operator_pages,
    outputs,
    paper_overview,
    performance,
    search_words,
    source,
    stand_ins,
    tables,
    text,
)

RUNS_CODE = ("output", "output-of-real-turns")
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("papers/*.md"))]
CODE = "```bash\n{}\n```\n\n```\nas it was\n```"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_and_help_texts_are_fresh(page):
    kept = dict.fromkeys(RUNS_CODE, lambda body: body)
    written = page.read_text(encoding="utf-8")
    assert markers.renewed(written, make.MAKERS | kept) == written, "stale: run `make docs`"


def test_only_what_stands_between_markers_is_renewed():
    page = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n<!-- generated: y -->\n<!-- end -->\nc\n"
    made = markers.renewed(page, {"x": str.upper, "y": lambda body: f"({body})"})
    assert made == "a\n<!-- generated: x -->\nOLD\n<!-- end -->\nb\n<!-- generated: y -->\n()\n<!-- end -->\nc\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- generated: z -->\n<!-- end -->\n", "nothing generates 'z': choose one of x"),
        ("<!-- generated: x -->\nold\n", "no line '<!-- end -->' below it"),
        ("<!-- generated: x -->\n<!-- generated: x -->\n<!-- end -->\n", "no line '<!-- end -->' below it"),
    ],
)
def test_a_marker_that_is_unknown_or_open_is_an_error(page, message):
    with pytest.raises(markers.MarkerError, match=re.escape(message)):
        markers.renewed(page, {"x": str.upper})


def test_code_is_run_and_its_output_replaced():
    assert outputs.with_output(CODE.format("echo '1  '; echo 2")) == "```bash\necho '1  '; echo 2\n```\n\n```\n1\n2\n```"
    assert outputs.with_output("```python\nprint(6 * 7)\n```\n\n```\n41\n```").endswith("\n```\n42\n```")


def test_a_conversation_from_scratch_to_a_table_runs_as_the_page_says():
    page = (DOCS / "own_collection.md").read_text(encoding="utf-8")
    body = page.partition("A conversation from scratch to a table:\n\n<!-- generated: output -->\n")[2].partition("\n<!-- end -->")[0]
    assert outputs.with_output(body) == body
    code = body.partition("import pyterrier_ikat as ikat\n\n")[2].partition("```")[0]
    assert len(code.splitlines()) <= 10


LIVE = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("live.md", "live_reference.md"))
LIVE_CODE = re.findall(r"<!-- generated: output -->\n```python\n(.*?)```\n\n```\n(.*?)```\n<!-- end -->", LIVE, re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), LIVE_CODE, ids=["chat", "learned", "memory", "simulation", "policies"])
def test_the_code_of_the_live_pages_prints_what_stands_below_it(tmp_path, monkeypatch, capsys, code, printed):
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert [line.rstrip() for line in capsys.readouterr().out.strip("\n").split("\n")] == printed.splitlines()


CLIENTS = ("from openai import", "from agents import")
"""How blocks for programs beside ours begin: tests/live/serving runs the one, and answers recorded requests of the other."""


def test_no_code_of_the_live_pages_is_left_out():
    clients = [code for code in re.findall(r"```python\n(.*?)```", LIVE, re.DOTALL) if code.startswith(CLIENTS)]
    assert LIVE.count("```python") == len(LIVE_CODE) + len(clients)


@pytest.mark.parametrize(("body", "message"), [(CODE.format("false"), "this block fails"), ("no code", "not a block of code")])
def test_code_that_fails_or_is_missing_is_an_error(body, message):
    with pytest.raises(RuntimeError, match=message):
        outputs.with_output(body)


def test_outputs_of_real_turns_stay_where_there_are_no_data(capsys):
    assert outputs.with_output_of_real_data("as it was") == "as it was"
    assert "not renewed" in capsys.readouterr().err


def test_stale_texts_are_told_and_only_renewed_without_check(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: methods -->\nold\n<!-- end -->\n")
    assert not make.renew([page], check=True)
    assert "page.md is stale" in capsys.readouterr().out
    assert "old" in page.read_text()
    assert not make.renew([page], check=False)
    assert make.renew([page], check=True)


def test_the_method_table_has_every_method_once():
    assert sorted(re.findall(r"`([a-z0-9_]+)`(?=[,| ])", "".join(_first_cells(method_pages.method_table(""))))) == sorted(METHODS)


def _first_cells(table):
    return [line.split("|")[1] for line in table.split("\n") if line.startswith("| `")]


def test_links_of_the_readme_lead_to_the_site_or_become_names():
    written = (
        "[more](docs/scale.md#a) [how](CONTRIBUTING.md) [n](notebooks/judging.ipynb) [law](LICENSE) [t](https://x.org) "
        "![p](docs/_static/report.png)"
    )
    expected = (
        "[more](scale.md#a) [how](contributing.md) [n](notebooks/judging.ipynb) law (`LICENSE`) [t](https://x.org) ![p](_static/report.png)"
    )
    assert source.at_home(written, "README.md") == expected
    with pytest.raises(ValueError, match=r"README.md links to docs/none.md"):
        source.at_home("[x](docs/none.md)", "README.md")


def test_every_operator_is_made_and_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand_ins.prepare()
    found = operator_pages.operators()
    assert {"Answer", "MultiQuery", "Union", "RRF"} <= set(found)
    assert not {"PassageIndex", "llm", "UsageError"} & set(found)
    for name, value in found.items():
        page = operator_pages._operator_page(name, value, tmp_path)
        expression = page.split("```python\n")[1].split("\n```")[0]
        assert max(map(len, expression.splitlines())) <= 88 or '"' in expression
        assert f".. auto{'class' if isinstance(value, type) else 'function'}:: pyterrier_ikat.{name}" in page
        assert str(tmp_path) not in page + (tmp_path / f"{name}.html").read_text()


def test_every_operator_and_every_other_name_is_in_one_group():
    found = operator_pages.operators()
    others = [name for name in ikat.__all__ if name not in found] + list(operator_pages.BASES)
    reference = {what: names.split() for what, names in operator_pages.REFERENCE.items()}
    for groups, names in ((operator_pages.operator_groups(), list(found)), (reference, others)):
        assert sorted(name for listed in groups.values() for name in listed) == sorted(names), "see docs/pages/operator_pages.py"
    assert operator_pages.grouped({"A": ["x", "y"]}, ["z", "y", "w"]) == {"A": ["y"], "Other": ["w", "z"]}


def test_each_paper_has_a_row_with_its_address_and_its_best_automatic_score():
    rows = paper_overview.paper_overview("").split("\n")[2:]
    [irlab] = [row for row in rows if "IRLab" in row]
    assert "(https://arxiv.org/abs/2411.14739)" in irlab
    assert irlab.endswith("`mq4cs_qr_deberta` .5213 nDCG@5 (Table 1, iKAT 2024, 103 turns) |")  # humanqr_ensemble has .5384, by hand
    assert [row.split("](")[1][:31] for row in rows if "CHIQ" in row] == ["https://arxiv.org/abs/2406.0501"]
    assert "| `disco` .1250 nDCG@3 (its model card, iKAT 2023) |" in "".join(rows)


def test_the_columns_of_the_turn_frame_are_those_of_its_docstring():
    listed = tables.turn_frame_table("").split("\n")
    assert listed[2].startswith("| `qid`, `query` | `9-1_3`;")
    assert all(row.count(" | ") == 1 and row.startswith("| `") for row in listed[2:])


def test_the_page_of_a_family_says_what_the_catalogue_says():
    pages = {name: method_pages._page(name, entries) for name, entries in method_pages.families().items()}
    assert len(pages) < len(METHODS)
    aqd_a = pages["aqd_a"]
    for part in ("133 turns; GPT-3.5 judgements", "| method | nDCG@5 |", "| `aqd_a` | .6826 |", "--llm recorded:sample", "RerankAgainst"):
        assert part in aqd_a
    row = next(line for line in aqd_a.splitlines() if line.startswith("| `aqd_a` | -"))
    assert row.split(" | ")[4:6] == ["2", "5"]
    for name, entry in METHODS.items():
        assert f"\n`{name}`:\n" in pages[entry.system.__name__]
    assert "Nothing: no paper has scores" in pages["raw"]
    assert "MODEL_OR_FOLDER" in pages["convgqr"]
    assert "| `rtg_manual` |" in pages["rtg"]
    assert 'manual: on `get_topics("manual")`' in pages["rtg"]


def test_the_first_use_of_a_word_of_the_glossary_is_a_link_outside_code_tables_and_headings():
    words = glossary.terms("# G\n\n```{glossary}\nturn\n  One row.\n\nfirst stage\n  The search.\n```\n")
    assert words == ["first stage", "turn"]
    page = "# A turn\n\nEach `turn` of [turns](x.md) returns; Turns come, a turn goes.\n\n| turn |\n\n```\nturn\n```\nThe first stage.\n"
    assert glossary.linked(page, words) == (
        "# A turn\n\nEach `turn` of [turns](x.md) returns; {term}`Turns <turn>` come, a turn goes.\n\n| turn |\n\n```\nturn\n```\n"
        "The {term}`first stage <first stage>`.\n"
    )
    there = glossary.terms((DOCS / "glossary.md").read_text(encoding="utf-8"))
    assert 20 <= len(there) <= 30


def test_what_people_type_becomes_entries_of_the_index_below_the_heading_that_answers_it():
    page = "# Cost\n\nText.\n\n## Budget\n\nMore.\n"
    made = search_words.indexed(page, {"Budget": "limit, money"}, "cost.md")
    assert made == "# Cost\n\nText.\n\n## Budget\n\n```{index} ! limit, ! money\n```\n\nMore.\n"
    with pytest.raises(ValueError, match=r"cost.md has no heading 'Prices'"):
        search_words.indexed(page, {"Prices": "dollars"}, "cost.md")
    for name, sections in search_words.SECTIONS.items():
        written = (ROOT / "README.md" if name == "readme.md" else DOCS / name).read_text(encoding="utf-8")
        assert search_words.indexed(written, sections, name) != written


ROW = {"task": "fuse", "ours": 0.5, "today": None, "instead": "", "limit": None, "why": "", "more": {}}
COMPARED = ROW | {"today": 2.0, "instead": "a loop", "limit": 0.0025, "why": "2 GB"}
FIGURES = {"ratio": 1.0, "MB": 1234.4, "seconds": 0.0123456, "pairs": 131466, "same": True, "chosen": "bf16"}


def _measured(benchmark, *rows, cpu="X"):
    machine = {"cpu": cpu, "cores": 2, "load": 0.1, "python": "3.11", "versions": {"pandas": "3"}}
    return {"benchmark": benchmark, "command": f"python {benchmark}", "machine": machine, "rows": rows}


@pytest.fixture
def table_of(tmp_path, monkeypatch):
    """The text about measured times, of a file with these runs."""
    monkeypatch.setattr(performance, "BENCH", tmp_path / "bench.json")

    def made(*runs):
        performance.BENCH.write_text(json.dumps({"runs": runs}))
        return performance.performance_table("")

    return made


def test_measured_times_become_a_table_per_command(table_of):
    head = "| task | ours (s) | today (s) | written as | limit (s) | the limit is |"
    row = "| fuse | 0.500 | 2.00 (4.00 x ours) | a loop | 0.00250 (ours is 200 x the limit) | 2 GB |"
    assert table_of(_measured("a", COMPARED), _measured("b", ROW)) == (
        "Measured on 2 cores (X), Python 3.11, pandas 3.\n\n"
        f"## a\n\n`python a`\n\n{head}\n| --- | --- | --- | --- | --- | --- |\n{row}\n\n"
        "## b\n\n`python b`\n\n| task | ours (s) |\n| --- | --- |\n| fuse | 0.500 |"
    )


def test_further_figures_are_shown_with_three_digits(table_of):
    made = table_of(_measured("a", ROW, ROW | {"more": FIGURES}))
    assert "| task | ours (s) | more |" in made
    assert "| fuse | 0.500 |  |" in made
    assert "| fuse | 0.500 | ratio: 1.00; MB: 1,230; seconds: 0.0123; pairs: 131,466; same: yes; chosen: bf16 |" in made


def test_benchmarks_of_several_machines_name_theirs(table_of):
    made = table_of(_measured("a", ROW), _measured("a", ROW), _measured("b", ROW, cpu="Y"))
    assert made.count("## a") == 1
    assert made.startswith(
        "- a: measured on 2 cores (X), Python 3.11, pandas 3.\n- b: measured on 2 cores (Y), Python 3.11, pandas 3.\n\n## a"
    )


def test_the_short_table_has_the_best_other_of_each_stage(table_of):
    beside = [ROW | {"task": f"RRF {name}", "ours": 0.5, "today": seconds, "instead": name} for name, seconds in (("a", 3.0), ("b", 2.0))]
    dated = _measured("fusion", *beside)
    dated["machine"] |= {"date": "2026-01-02", "commit": "abc"}
    table_of(dated, _measured("memory", ROW | {"task": "batches of 128 turns, as ikat run does", "more": {"peak (MB)": 625.7}}))
    assert performance.performance_summary("").splitlines()[2:] == [
        "| fusion (RRF) of 5 rankings, 332 turns | s | 0.500 | 2.00 (b) | – | 2026-01-02 abc |",
        "| memory of a run, 332 turns in batches | MB | 626 | – | – |  |",
    ]


def test_without_measured_times_the_page_says_how_to_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(performance, "BENCH", tmp_path / "bench.json")
    assert "`make bench`" in performance.performance_table("")


def test_cells_and_sentences():
    assert text.table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
    assert text.first_sentence("One ``x``\n    of :class:`~a.B`, e.g. two. Three.\n\nMore.") == "One `x` of `a.B`, e.g. two."
    assert text.formatted("a>>b") == "a >> b"


def test_the_lines_of_an_expression_fit_on_a_page():
    assert text.formatted(" >> ".join(["ikat.Interleave()"] * 4)) == " >> ".join(["ikat.Interleave()"] * 4), "80 letters"
    long = text.formatted(" >> ".join(["ikat.Interleave()"] * 5))
    assert long.splitlines() == ["(", "    ikat.Interleave()", *["    >> ikat.Interleave()"] * 4, ")"]


def test_words_with_an_at_sign_are_no_links_to_mail():
    core, nodes = pytest.importorskip("docutils.core"), pytest.importorskip("docutils.nodes")
    from conf import unlink_addresses

    page = core.publish_doctree("NII@TREC iKAT 2024, nDCG@5 and https://trec.nist.gov.")
    assert [link["refuri"] for link in page.findall(nodes.reference)] == ["mailto:NII@TREC", "https://trec.nist.gov"]
    unlink_addresses(None, page)
    assert [link["refuri"] for link in page.findall(nodes.reference)] == ["https://trec.nist.gov"]
    assert page.astext() == "NII@TREC iKAT 2024, nDCG@5 and https://trec.nist.gov."


def _commands(program, pages):
    """Every line of a block or piece of code that calls the program, as its words; a line may go on behind a backslash."""
    for page in pages:
        written = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(rf"^ *{program} .+$|(?<=`){program} [^`]+(?=`)", written, re.MULTILINE):
            yield page.name, shlex.split(line.strip(), comments=True)[1:]


def test_every_command_in_the_texts_has_the_options_and_methods_that_it_names():
    found = list(_commands("ikat", [*PAGES, ROOT / "CONTRIBUTING.md"]))
    assert len(found) > 30
    for page, (name, *words) in found:
        if name == "COMMAND":  # stands for any
            continue
        assert name in main.commands, f"{page}: ikat {name}"
        options = {option for parameter in main.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, f"{page}: ikat {name} {' '.join(words)}"
        methods = list(itertools.takewhile(lambda word: re.fullmatch("[a-z0-9_]+", word), words)) if name in ("run", "methods") else []
        assert set(methods) <= set(METHODS), f"{page}: ikat {name} {' '.join(words)}"


def test_the_readme_counts_the_systems_that_there_are():
    written = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "compares fourteen systems" in written
    assert len(SYSTEMS) == 14


def test_every_make_target_and_script_in_the_texts_exists():
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    makes = [(page, words[0]) for page, words in _commands("make", pages)]
    assert len(makes) > 5
    assert [one for one in makes if one[1] not in targets] == []
    scripts = [(page, words[0]) for page, words in _commands("python", pages) if words[0].endswith(".py")]
    assert len(scripts) > 3
    assert [one for one in scripts if not (ROOT / one[1]).is_file()] == []


def test_every_promise_names_tests_that_exist():
    named = re.findall(r"`(tests/[^`]*)::(\w+)`", (DOCS / "promises.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    for path, name in named:
        assert re.search(rf"^ *def {name}\(", texts[path], re.MULTILINE), f"{path} has no {name}"


def test_the_page_for_pyterriers_site_names_what_there_is():
    page = (Path(ikat.__file__).parent / "pt_docs" / "index.rst").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto(?:class|function):: pyterrier_ikat\.(\w+)$", page, re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) <= set(ikat.__all__)
    assert markers.renewed(page, {"operators": operator_pages.operator_directives}) == page, "run `make docs`"


def test_what_is_copied_from_a_papers_page_names_everything_that_its_row_needs(tmp_path):
    blocks = [
        block
        for page in sorted(DOCS.glob("papers/*.md"))
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(blocks) == sum(len(part.systems) for paper in PAPERS.values() for part in paper.parts)
    for block in blocks:
        file, lines, paper, number, system = re.fullmatch(
            r"cat > (\S+) <<'END'\n(.*)\nEND\nikat paper (\w+) (\w+) --systems (\w+) --resources \S+\n", block, re.DOTALL
        ).groups()
        (tmp_path / file).write_text(lines, encoding="utf-8")
        resources = read_resources(tmp_path / file)
        assert set(resources) == {key for keys in keys_of(METHODS[system]).values() for key in keys}
        assert any(system in part.systems for part in find_table(paper, number))


def _in_toctree(page, caption=""):
    return re.search(rf"\n:hidden:\n{caption}\n+(.*?)\n```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)[1].split()


def test_the_guides_stay_short():
    names = [*_in_toctree("index.md", ":caption: Tasks\n"), *_in_toctree("bring_your_own.md")]
    pages = [ROOT / "README.md", DOCS / "index.md", *(DOCS / f"{name}.md" for name in names if not name.startswith("notebooks/"))]
    words = {page.stem: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert {"get_started", "evidence", "own_operator"} <= set(words)
    assert sum(words.values()) <= 20_000, words
    assert max(words["live"], words["language_models"]) <= 260


def test_the_texts_say_is_not_a_thing():
    written = {page.name: page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]}
    found = {name: re.findall(r"(?<!There )(?<!there )\b(?:is|are) no (?!longer)\w+ \w+", text) for name, text in written.items()}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}
