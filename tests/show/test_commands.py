"""The commands that show things: `ikat report`, `ikat evaluate --cost`."""

from click.testing import CliRunner
from packed_page import packed_turns
from small_runs import DOCNOS

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main


def command(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_report_of_folders_is_the_one_that_python_makes(folders, tmp_path):
    out = tmp_path / "report.html"
    done = command("report", *(run.path for run in folders), "--out", out)
    assert (done.exit_code, done.output) == (0, f"{out}\n")
    assert out.read_text(encoding="utf-8") == ikat.report(folders).html


def test_report_judges_by_the_given_file_and_measures(folders, tmp_path):
    out = tmp_path / "report.html"
    qrels = tmp_path / "own.qrels"
    qrels.write_text(f"1-1_1 0 {DOCNOS[0]} 3\n")
    done = command(
        "report", folders[0].path, "--qrels", qrels, "--measures", "RR,P@1", "--out", out
    )
    assert done.exit_code == 0, done.output
    page = out.read_text(encoding="utf-8")
    for text in (
        "1 of them judged",
        "the best 20 passages",
        '<th scope="col">RR(rel=1)</th>',
    ):
        assert text in page
    [step] = packed_turns(page)["turns"][0]["sides"][0]["steps"]
    assert step["passages"][0]["label"] == 3


def test_a_report_compares_with_the_baseline_that_is_given(folders, tmp_path):
    out = tmp_path / "report.html"
    paths = [folder.path for folder in folders]
    done = command("report", *paths, "--baseline", "full", "--out", out)
    assert done.exit_code == 0
    page = out.read_text(encoding="utf-8")
    assert "Compared with full " in page
    assert '<option value="1" selected>plain</option>' in page
    done = command("report", *paths, "--baseline", "ful", "--out", out)
    assert done.exit_code == 2
    assert "ful" in done.output
