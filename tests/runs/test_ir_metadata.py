"""``ir_metadata.yml``: what a run was made of, in a form that other tools read, without a place or a person."""

import getpass
import platform
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.origin import METADATA, ir_metadata

PARAMETERS = {
    "method": "mine",
    "dataset": "ikat:sample",
    "turns": 2,
    "topics_sha256": "ab12",
    "stages": {"1": "ikat.RawUtterance()", "2": "index.bm25()"},
    "expression": "(ikat.RawUtterance() >> index.bm25())",
    "served": {"gpt-4o": ["gpt-4o-2024-08-06"]},
    "deviations": [],
}


def test_the_parts_of_the_schema_are_those_of_the_run():
    found = ir_metadata("mine", PARAMETERS | {"versions": {"python": "3.11.7", "pandas": "3.1.1"}}, ["nDCG@3", "AP"])
    assert list(found) == ["schema version", "tag", "research goal", "implementation", "method", "data"]
    assert found["research goal"] == {"evaluation": {"reported measures": ["nDCG@3", "AP"]}}
    assert found["implementation"] == {"source": {"lang": "Python", "libraries": ["pandas==3.1.1"]}}
    assert found["method"] == {
        "name": "mine",
        "expression": "(ikat.RawUtterance() >> index.bm25())",
        "retrieval": [{"name": "ikat.RawUtterance()"}, {"name": "index.bm25()"}],
        "models that answered": {"gpt-4o": ["gpt-4o-2024-08-06"]},
        "score ties": "none: the scores of a turn strictly decrease",
    }
    assert found["data"] == {"test collection": {"name": "ikat:sample", "topics": {"turns": 2, "sha256": "ab12"}}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ikat.CrossEncoder('/home/me/models/mine')", "ikat.CrossEncoder('mine')"),
        ("ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2')", "ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2')"),
        ("openai:m base_url=http://me@machine:8000/v1 top_p=1", "openai:m base_url=http://*** top_p=1"),
        ("hf:/srv/m temperature=0", "hf:m temperature=0"),
        (r"C:\Users\me\m.bin", "m.bin"),
        ("ikat:./mine", "ikat:./mine"),
        (f"ikat.BiEncoder('{Path.home()}/models/m')", "ikat.BiEncoder('m')"),
    ],
)
def test_no_folder_and_no_server_is_named(text, shown):
    assert ir_metadata("mine", {"expression": text}, [])["method"]["expression"] == shown


def test_a_run_folder_has_the_file_and_it_names_neither_user_nor_machine(tmp_path):
    folder = RunFolder(tmp_path / "mine")
    topics = pd.DataFrame({"qid": ["1_1"], "qutterance": ["Tea?"]})
    results = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    folder.write(topics, results, pd.DataFrame({"qid": ["1_1"], "nDCG@5": [1.0]}), pd.DataFrame({"calls": [1]}), PARAMETERS)
    text = (folder.path / METADATA).read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    assert found["tag"] == "mine"
    assert found["research goal"]["evaluation"]["reported measures"] == ["nDCG@5"]
    assert any(library.startswith("pandas==") for library in found["implementation"]["source"]["libraries"])
    hidden = {platform.node(), getpass.getuser(), str(tmp_path)} - {"root", "localhost"}
    assert not [name for name in hidden if len(name) > 2 and name in text]
