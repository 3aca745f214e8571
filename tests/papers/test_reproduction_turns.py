"""A paper's finished runs are scored by any judgements, on chosen turns.

Several runs of a system are scored as means over repeats.
"""

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.papers import Reproduction, find_table
from pyterrier_ikat.papers.paper_scores import Judgements
from pyterrier_ikat.papers.reproduction import figure_notes
from pyterrier_ikat.runs import RunFolder

SAMPLE = ikat.dataset("ikat:sample")
QRELS = SAMPLE.get_qrels()
TURNS = SAMPLE.get_topics()["qid"].tolist()
PAPER, TABLE, SYSTEM = "generate_then_retrieve", "3", "convgqr"
[PART] = find_table(PAPER, TABLE)


def of_turns(turns):
    return QRELS[QRELS["qid"].isin(turns)].reset_index(drop=True)


def made(path, **given):
    found = Reproduction(PAPER, "sample", out=path, systems=given.pop("systems", [SYSTEM]), **given)
    found.run(PART)
    return found


def ours(found):
    frame = found.table(PART).frame
    return frame[frame["scores"] == "ours"][["nDCG@5", "turns"]].values.tolist()


def expected(folder, turns):
    table = ikat.evaluate({"x": RunFolder(folder).results()}, of_turns(turns), ["nDCG@5"])
    return table[["nDCG@5", "turns"]].values.tolist()


def test_a_finished_run_is_scored_by_judgements_of_other_turns(tmp_path):
    """Nothing is run again, and the note says which turns the scores are about."""
    few = TURNS[:6]
    fewer = TURNS[2:4]
    first = made(tmp_path, qrels=of_turns(few), judged_by="NIST")
    folder = tmp_path / "ikat-sample" / SYSTEM
    written = (folder / "run.trec").stat().st_mtime_ns
    assert ours(first) == expected(folder, few)
    second = made(tmp_path, qrels=of_turns(fewer), judged_by="NIST")
    assert ours(second) == expected(folder, fewer)
    third = made(tmp_path, qrels=QRELS, judged_by="NIST")
    assert ours(third) == expected(folder, few)
    assert (
        f"Mean over 6 judged turns, those that {SYSTEM} was asked, of 24."
        in third.table(PART).notes
    )
    assert RunFolder(folder).turns_so_far() == few
    assert (folder / "run.trec").stat().st_mtime_ns == written


def test_a_new_system_and_a_finished_one_compare_on_common_turns(tmp_path):
    made(tmp_path, qrels=of_turns(TURNS[:6]), judged_by="NIST")
    both = made(
        tmp_path, qrels=of_turns(TURNS[3:9]), judged_by="NIST", systems=[SYSTEM, "infosense_2023"]
    )
    assert [turns for _, turns in ours(both)] == [3, 3]
    folders = [tmp_path / "ikat-sample" / name for name in both.table(PART).scores]
    assert ours(both) == [expected(folder, TURNS[3:6])[0] for folder in folders]


def test_chosen_turns_are_scored_and_those_not_run_are_refused(tmp_path):
    made(tmp_path, turns=TURNS[:4])
    chosen = made(tmp_path, turns=TURNS[1:3])
    assert ours(chosen) == expected(tmp_path / "ikat-sample" / SYSTEM, TURNS[1:3])
    with pytest.raises(UsageError, match="different turns"):
        made(tmp_path, turns=TURNS[3:6])


def test_the_command_takes_turns_and_repeats(tmp_path):
    command = [
        "paper",
        PAPER,
        TABLE,
        "--resources",
        "sample",
        "--out",
        str(tmp_path),
        "--systems",
        SYSTEM,
    ]
    done = CliRunner().invoke(main, [*command, "--turns", "1-1_1,1-1_2"])
    assert done.exit_code == 0, done.output
    [ours_line] = [line for line in done.stdout.splitlines() if " ours " in line]
    assert ours_line.split()[-1] == "2"
    write_qrels(of_turns(TURNS[:2]), tmp_path / "two.txt")
    again = CliRunner().invoke(
        main, [*command, "--qrels", str(tmp_path / "two.txt"), "--judged-by", "NIST"]
    )
    assert again.exit_code == 0, again.output
    refused = CliRunner().invoke(
        main, ["paper", PAPER, "2", "--resources", "sample", "--repeats", "2"]
    )
    assert (refused.exit_code, "omit --repeats" in refused.output) == (2, True)


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.RepeatsWarning")
def test_scores_of_repeats_are_their_means(tmp_path):
    found = made(tmp_path, systems=[SYSTEM], repeats=2, turns=TURNS[:4])
    folder = tmp_path / "ikat-sample"
    [[first, _]] = expected(folder / SYSTEM, TURNS[:4])
    [[second, _]] = expected(folder / f"{SYSTEM}.repeat-2", TURNS[:4])
    assert ours(found) == [[pytest.approx((first + second) / 2), 4]]


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.study.RepeatsWarning")
def test_the_plan_counts_the_calls_of_all_repeats(tmp_path):
    calls = {}
    for repeats in (1, 3):
        found = Reproduction(
            PAPER, "sample", out=tmp_path, systems=[SYSTEM], repeats=repeats, turns=TURNS[:4]
        )
        calls[repeats] = found.plan(PART)["calls"].sum()
    assert calls[3] == 3 * calls[1] > 0


def test_judgements_that_are_there_are_not_called_missing(ikat_data):
    """The mini is judged by gold passages, and NIST's file lies in the folder."""
    judged = Judgements(QRELS, "the topics' gold passages", 2023)
    said = judged.differ_from(PART)
    assert "2023-qrels.all-turns.txt" in said
    assert "put them into the folder" not in said


def test_judgements_that_are_not_there_are_called_missing(home):
    assert "put them into the folder that IKAT_DATA names" in Judgements(
        QRELS, "the topics' gold passages", 2023
    ).differ_from(PART)


def test_the_default_judgements_have_no_name(tmp_path):
    with pytest.raises(
        UsageError,
        match=r"no qrels 'default'; there are the default, .*: omit qrels=\.\.\. for the default",
    ):
        ikat.run("raw", "ikat:sample", qrels="default", out=tmp_path)


def test_the_caption_of_a_figure_is_its_own():
    """It names the figure, and says nothing of rows that it doesn't draw."""
    figure = find_table(PAPER, "figure-4")
    made = Reproduction(PAPER, {}, dataset="ikat:sample")
    assert "Generate then Retrieve, Figure 4: nDCG by depth" in figure.title
    assert "Table" not in figure.title
    notes = " ".join(figure_notes(made, figure))
    assert "aqd_a: not run" in notes
    assert "monot5" not in notes
    assert "monot5: not run" in " ".join(made.table(figure.part).notes)
