"""The package's names: all there, some loaded only when they are used."""

import subprocess
import sys

import pytest

import pyterrier_ikat as ikat


def test_every_name_is_there_and_listed():
    assert {name for name in ikat.__all__ if getattr(ikat, name, None) is None} == set()
    assert set(ikat.__all__) <= set(dir(ikat))
    assert ikat.show.report is ikat.report
    with pytest.raises(AttributeError, match="has no reprot: did you mean report"):
        ikat.reprot  # noqa: B018


LOADS = """
import sys
import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main

def loaded(*names):
    return set(names) & set(sys.modules)

later = [f"pyterrier_ikat.{name}" for name in ("live", "distribute", "show", "submit")]
assert not loaded(*later)
main(["--help"], standalone_mode=False)
assert not loaded("numpy", "pandas", "pyterrier", "ir_measures")
main(["evaluate", "one.trec", "--qrels", "qrels.txt"], standalone_mode=False)
assert not loaded("pandas", "pyterrier", "scipy")
ikat.Chat, ikat.on_ray, ikat.report, ikat.submit.write_submission
assert loaded(*later) == set(later)
assert not loaded("torch", "openai", "ray", "matplotlib", "sentence_transformers")
"""


def test_what_most_processes_do_not_use_is_loaded_at_first_use(tmp_path):
    (tmp_path / "one.trec").write_text("1_1 Q0 a 1 2.5 one\n")
    (tmp_path / "qrels.txt").write_text("1_1 0 a 1\n")
    subprocess.run(
        [sys.executable, "-c", LOADS], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL
    )


LEAVES = """
import torch  # first: this package's modules then go before what its objects need at their end
import sys
import pyterrier_ikat as ikat

class Model:
    identity = "model"
    def generate(self, chats):
        return ["Which tea has no caffeine?" for chat in chats]

turns = ikat.dataset("ikat:sample").get_topics().head(1)
kept = ikat.llm(Model(), cache=sys.argv[1])
ikat.Rewrite(kept)(turns)
bm25 = ikat.PassageIndex(sys.argv[2]).index([{"docno": "a", "text": "tea"}]).bm25(cache=sys.argv[3])
bm25(turns)
remote = ikat.llm("openai:m base_url=http://127.0.0.1:9/v1 api_key_env=HOME cache=none")
remote.backend.open()
"""


def test_a_script_that_imports_torch_first_ends_without_a_word(tmp_path):
    files = [str(tmp_path / name) for name in ("llm.sqlite", "index", "results.sqlite")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEAVES, *files], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {
        "llm.sqlite",
        "index",
        "results.sqlite",
    }  # no lock, no journal
