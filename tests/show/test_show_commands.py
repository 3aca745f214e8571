"""The commands that show things, `ikat report` and `ikat evaluate --cost`, and their advice."""

import pandas as pd
import pytest
from click.testing import CliRunner
from packed_page import packed_turns
from parsed_page import Page
from small_runs import DOCNOS, ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError, commands_advised
from pyterrier_ikat.runs import Log, Turn
from pyterrier_ikat.show import report
from pyterrier_ikat.show.ledgers import ledger_frame
from pyterrier_ikat.show.report.material import RunData, find_material
from pyterrier_ikat.show.report.sessions import refuse_arguments


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


@pytest.mark.filterwarnings("default::pyterrier_ikat.show.report.sessions.NoConversationWarning")
def test_a_folder_without_a_conversation_is_skipped_and_told(tmp_path):
    empty = Log.create(tmp_path / "raw", {"kind": "served", "system": "raw"})
    asked = Log.create(tmp_path / "rtg", {"kind": "served", "system": "rtg"})
    asked.begin("s1", "somebody")
    asked.append(Turn(1, "Which tea?", "Mint.", session="s1"))
    out = tmp_path / "report.html"
    done = command("report", empty.folder, asked.folder, "--out", out)
    assert done.exit_code == 0
    assert "ikat: warning: raw has no conversation yet and is not shown" in done.stderr
    page = Page(out.read_text(encoding="utf-8"))
    assert "raw has no conversation yet and is not shown" in page.said()
    assert "rtg 1 session of 1 user." in page.said()
    with pytest.raises(DataError, match="raw has no conversation yet"):
        report([empty, asked], baseline="raw")


def test_the_ledger_has_the_calls_and_the_cost_of_each_system(log_folders):
    done = command("evaluate", "--cost", *log_folders, "--format", "csv")
    rows = pd.read_csv(pd.io.common.StringIO(done.output)).set_index("system")
    assert rows["calls"].to_dict() == {"one": 18, "two": 5}  # 6 turns of 3 calls, 5 of 1
    assert rows.loc["one", "cost"] == 1.5
    assert pd.isna(rows.loc["two", "cost"])
    told = " ".join(command("evaluate", "--cost", *log_folders).output.split())
    assert "one all all 18 0 0 – 1.5000" in told
    assert "a conversation's log adds up a system's stages" in told


@pytest.mark.parametrize(
    "words", [(), ("--by", "depth"), ("--of", "statements"), ("--of", "responses")]
)
def test_other_commands_say_what_the_folder_is(log_folders, words):
    done = command("evaluate", log_folders[0], *words, "--dataset", "ikat:sample")
    assert done.exit_code == 2
    what = f"ikat: {log_folders[0]} holds a simulation, not the run of a dataset's topics"
    assert f"{what}: `ikat report`" in done.output


def test_repairs_are_said_as_their_reader_types_them(log_of_users, tmp_path):
    run = RunData("one", ranking([("1_1", "a", 1.0)]))
    made = log_of_users("sims", "ann")
    twice = [made.folder, str(made.folder)]

    def repairs():
        with pytest.raises(UsageError) as qrels:
            find_material([run], None, tmp_path / "none", None)
        with pytest.raises(UsageError) as names:
            ledger_frame(twice)
        with pytest.raises(UsageError) as unit:
            refuse_arguments({"one": made}, dataset=None, unit="user", turns=["1_1"])
        no_texts = find_material([run], None, None, None).notes[1]
        return (
            str(qrels.value).rpartition(" ")[2],
            str(names.value).partition(": ")[2],
            str(unit.value).partition(" ")[0],
            no_texts.partition(": ")[2].partition(",")[0],
        )

    python = ("frame", "give each its name, {name: folder, ...}", "unit=...", "give texts=")
    assert repairs() == python
    with commands_advised():
        assert repairs() == ("file", "rename a folder", "--unit", "give --index PATH")
