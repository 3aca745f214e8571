"""No name leaves its folder, no archive is unpacked, no pickle is read, and nothing that was read is run."""

import ast
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import IkatProvider
from pyterrier_ikat.conversations.download import SOURCES, data_file
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import METHODS, find
from pyterrier_ikat.submit import write_submission

PACKAGE = Path(ikat.__file__).parent
OUTSIDE = [
    "../secret",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/../../b",
    "ikat:../sample",
    "sample/../sample",
    "C:\\x",
    "sample\0",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_is_no_data_file_and_no_method_and_no_dataset_unless_a_collection_is_there(name, home, monkeypatch):
    monkeypatch.setitem(pt.datasets._core._loaded_providers, "ikat", IkatProvider())  # whether or not the package is installed
    for look_up in (ikat.dataset, data_file, find):
        with pytest.raises(UsageError):
            look_up(name)
    with pytest.raises(UsageError):
        pt.get_dataset(f"ikat:{name}")
    assert not home.exists()


def test_every_name_of_ours_stays_within_its_folder():
    for name in METHODS:
        assert Path(name).name == name
    for name in SOURCES:
        assert "/".join(part for part in Path(name).parts if part not in ("..", "/")) == name


def test_a_run_name_on_the_command_line_is_a_method_and_leaves_nothing(tmp_path):
    for name in OUTSIDE[:6]:
        done = CliRunner().invoke(
            main, ["run", name, "--dataset", "ikat:sample", "--index", str(tmp_path), "--out", str(tmp_path / "runs")]
        )
        assert (done.exit_code, "Traceback" in done.output) == (2, False)
    assert list(tmp_path.iterdir()) == []


def test_the_run_id_of_a_submission_is_text_in_the_file_and_no_path(tmp_path):
    dataset = ikat.dataset("ikat:sample")
    turns = dataset.get_topics()[["qid"]].assign(qanswer="Rooibos has no caffeine.")
    results = turns[["qid"]].assign(docno="sample-walk-001:0", score=1.5, rank=0, used=True)
    folder = tmp_path / "mine"
    write_submission((results, turns), dataset, folder / "run.json", run_id="../../escaped", run_type="automatic")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == ["mine/run.json"]
    assert json.loads((folder / "run.json").read_text())["run_name"] == "../../escaped"


def test_docnos_are_no_paths(tmp_path):
    passages = [{"docno": "../../d1", "text": "Rooibos has no caffeine."}, {"docno": "/etc/passwd", "text": "Coffee has."}]
    index = ikat.PassageIndex(tmp_path / "in" / "i").index(passages)
    assert index.texts(["/etc/passwd", "../../d1"]) == ["Coffee has.", "Rooibos has no caffeine."]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["i"]


def calls(tree):
    """The dotted names of everything that is called or imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FORBIDDEN = {"eval", "exec", "compile", "os.system", "os.popen", "pickle.load", "pd.read_pickle", "torch.load", "yaml.load", "joblib.load"}
FORBIDDEN |= {"tarfile", "packed.extract", "packed.extractall", "shutil.unpack_archive", "shelve", "marshal", "dill", "cloudpickle.load"}
MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_archive_is_unpacked_no_pickle_is_read_from_a_file_and_nothing_that_was_read_is_run(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert FORBIDDEN.isdisjoint(calls(tree))
    options = {(option.arg, ast.unparse(option.value)) for node in ast.walk(tree) if isinstance(node, ast.Call) for option in node.keywords}
    assert options.isdisjoint({("shell", "True"), ("allow_pickle", "True"), ("trust_remote_code", "True"), ("weights_only", "False")})


def test_a_packed_file_is_read_in_one_place_which_writes_nothing():
    users = [path for path in MODULES if "zipfile.ZipFile" in set(calls(ast.parse(path.read_text())))]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == ["conversations/passages.py"]


def test_pickles_are_only_what_goes_between_our_processes():
    users = [path for path in MODULES if any(name.split(".")[0] == "pickle" for name in calls(ast.parse(path.read_text())))]
    assert [path.relative_to(PACKAGE).as_posix() for path in users] == ["distribute/on_ray.py"]


def test_every_array_file_is_read_without_pickles():
    loads = [
        {option.arg: ast.unparse(option.value) for option in node.keywords}
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load")
    ]
    assert len(loads) == 2
    assert all(options["allow_pickle"] == "False" for options in loads)


class Bomb:
    def __reduce__(self):
        return (Path("exploded").touch, ())


def _archive(content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../escaped.npy", content)
        archive.writestr("terms.npy", content)
    return packed.getvalue()


def _object_array():
    packed = io.BytesIO()
    np.savez(packed, terms=np.array([Bomb()], dtype=object))
    return packed.getvalue()
