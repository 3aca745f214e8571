"""`ikat paper`: what it lists and prints, and what can't be run."""

import pytest

from pyterrier_ikat.papers import PAPERS

PAPER = "generate_then_retrieve"


def words(result):
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_without_a_paper_all_are_listed_with_their_tables(call):
    listed = words(call("paper"))
    for name, paper in PAPERS.items():
        assert name in listed
        assert " ".join(paper.title.split()) in listed
        assert paper.link in listed
        assert f"tables {', '.join(paper.tables)}" in listed


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_has_its_tables_rows_needs_and_decisions(call, name):
    shown = words(call("paper", name))
    paper = PAPERS[name]
    assert " ".join(paper.title.split()) in shown
    for number in paper.tables:
        assert f"Table {number}" in shown or number in shown
    for what, _ in paper.deviations:
        assert " ".join(what.split()) in shown
    assert "needs" in shown or not paper.tables


def test_a_table_without_resources_is_printed_as_published(call):
    done = call("paper", PAPER, "1", "--format", "csv")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert any(line.startswith("aqd_a,") and ".6826" in line for line in lines)
    beside = " ".join(done.stderr.split())
    assert "aqd_a: needs" in beside
    assert "What differs from the paper or was decided:" in beside
    other = " ".join(call("paper", PAPER, "3").output.split())
    assert "convgqr" in other
    assert "Recall" in other


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none",), "none"),
        ((PAPER, "99"), "99"),
        ((PAPER, "1", "--plan"), "needs models and indexes"),
        ((PAPER, "1", "--repeats", "2"), "completions are not public"),
        ((PAPER, "1", "--systems", "none", "--resources", "sample"), "none"),
    ],
)
def test_what_cannot_be_reproduced_is_named(call, refused, arguments, told):
    assert told in refused(call("paper", *arguments))


def test_a_plan_for_the_sample_names_rows_and_asks_nothing(call, tmp_path):
    done = call(
        *("paper", PAPER, "3", "--resources", "sample", "--plan", "--systems", "ad,human_qr"),
        *("--out", tmp_path / "papers", "--format", "csv"),
    )
    assert done.exit_code == 0, done.output
    header, *rows = done.stdout.splitlines()
    assert header.startswith("system,stage,model,calls")
    assert {row.split(",")[0] for row in rows} == {"ad"}
    assert not list((tmp_path / "papers").rglob("run.json"))
