"""Every test runs offline, without keys, on its own home folder; a connection beyond loopback fails the test."""

import atexit
import functools
import gc
import importlib
import ipaddress
import itertools
import logging
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import forked_python
import hypothesis
import pytest
from _pytest.assertion import rewrite
from _pytest.logging import catching_logs
from _pytest.runner import runtestprotocol
from hypothesis.internal.conjecture import providers

# A loaded machine is no defect, and a change is refused for what it breaks only: each run tries the same examples. Others, and more, with
# HYPOTHESIS_PROFILE=search.
ALWAYS = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ikat", derandomize=True, max_examples=20, **ALWAYS)
hypothesis.settings.register_profile("search", max_examples=1000, **ALWAYS)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ikat"))
if os.environ.get("HYPOTHESIS_PROFILE", "ikat") == "ikat":  # else examples depend on the modules that a process has, and all are read
    providers._get_local_constants = lambda: providers._local_constants

pytest_plugins = ["in_browser"]

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""Files that others released, beside the checkout; they are no part of it."""

# Every process that a test starts would compile the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what goes on in the background, and its children, deaf to Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)


_look_at_all_loggers = catching_logs.__enter__


def _look_at_the_root(self):
    """pytest looks at each of 600 loggers six times a test, for those whose lines don't reach the root: torch's, which no test reads."""
    if self.level is not None:
        return _look_at_all_loggers(self)
    logging.getLogger().addHandler(self.handler)
    self.attached_loggers.append(logging.getLogger())
    return self.handler


catching_logs.__enter__ = _look_at_the_root

# Modules and tests come to stay: looking for garbage among them took a third of the collection of tests.
gc.disable()

# Several processes test at once: threads that wait for one another on the same cores take six times the computing.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests end processes, never the machine: none waits for the disk. Tests of what is flushed put a function of their own here.
os.fsync = os.fstat

os.environ["PT_TEST_TRANSFORMER_REPORTS"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["NUMBA_DISABLE_JIT"] = "1"  # ranx compiles for longer than our rankings take
if "IKAT_TEST_VECTORS" not in os.environ:  # else this is a process that another one started
    os.environ["IKAT_TEST_VECTORS"] = tempfile.mkdtemp(prefix="vectors")
    atexit.register(shutil.rmtree, os.environ["IKAT_TEST_VECTORS"], ignore_errors=True)
for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
    os.environ.pop(name, None)


if os.environ.get("IKAT_TEST_PORTABLE") == "1":
    sys.modules["pyterrier_pisa"] = None  # as where it has no files


LONGEST = (
    "test_on_ray.py",
    "test_notebooks.py",
    "test_running.py",
    "test_cross_encoders.py",
    "test_frames.py",
    "test_parsers.py",
    "test_kills.py",
    "test_session.py",
    "test_docs.py",
    "test_any_conversation.py",
    "test_every_method.py",
    "test_report_comparing.py",
    "test_benchmarks.py",
    "test_doctests.py",
    "test_splade.py",
    "test_samples.py",
    "test_load.py",
    "test_submissions.py",
    "test_collection.py",
    "test_local_models.py",
)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items):
    """Mark the tests of real data; the longest files begin first, so that none keeps one core busy while the others have no work left."""
    without_pisa = find_spec("pyterrier_pisa") is None
    for item in items:
        if without_pisa and item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="tests PISA itself, or what only Linux has"))
        if "shared" in item.fixturenames:
            item.add_marker("real_data")
        names = item.fixturenames
        if item.get_closest_marker("real_data") and "ikat_data" not in names:  # a single case of a test may be marked, too
            after = names.index("home") + 1
            item.fixturenames = [*names[:after], "ikat_data", *names[after:]]
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores: those that wait, for Ray, a browser or a server, leave them idle."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    """The processes that test are forks of one that has imported what tests need, and start programs by one process for all."""
    if len(specs) > 1 and sys.platform == "linux" and not {"COVERAGE_RUN", "IKAT_TEST_PORTABLE"} & set(os.environ):
        forked_python.address()
        python = forked_python.python_of_tests()
        for spec in specs:
            spec.python = python
        compile_tests(config)


def compile_tests(config):
    """In a new checkout, while forked_python imports. Otherwise each process that tests would compile all of them."""
    for path in Path(__file__).parent.rglob("*.py"):
        compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if path.name.startswith(("test_", "conftest")) and not compiled.exists():
            source, code = rewrite._rewrite_test(path, config)
            compiled.parent.mkdir(exist_ok=True)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, compiled)


def pytest_runtest_protocol(item, nextitem):
    """A process that tests for another one tells it of a test once, unless its preparation or its end failed or took long."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or report.outcome != "passed" or report.duration > 0.1:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_unconfigure():
    """End the processes that start programs (see ``forked_python.py``)."""
    forked_python.end_servers()


def pytest_collection_finish():
    """The tests and all that they imported stay until the end: no collection of garbage looks at them. No text is encoded twice."""
    if "sentence_transformers" in sys.modules:
        importlib.import_module("remembering_encoder").install()
    if "ir_measures" in sys.modules:  # Experiment asks all providers what they know; ranx takes three seconds to say what others know, too
        providers = sys.modules["ir_measures"].DefaultPipeline.providers
        providers[:] = [one for one in providers if one.NAME != "ranx"]
    gc.freeze()
    gc.enable()


_load = ssl.SSLContext.load_verify_locations


@functools.cache
def _read_certificates(cafile, capath, cadata) -> None:
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cafile, capath, cadata)


def _certificates_once(_, cafile=None, capath=None, cadata=None) -> None:
    """The client of a model reads the certificates of all authorities; no server of a test has one, so each file is read once."""
    _read_certificates(cafile, capath, cadata)


ssl.SSLContext.load_verify_locations = _certificates_once


def _is_local(host: object) -> bool:
    if host in ("", "localhost", None):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


refused = []
_connect, _lookup = socket.socket.connect, socket.getaddrinfo


def _guarded_connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
        refused.append(address)
        raise OSError(f"tests must not connect to {address}")
    return _connect(self, address)


def _guarded_lookup(host, *args, **kwargs):
    if not _is_local(host.decode() if isinstance(host, bytes) else host):
        refused.append(host)
        raise socket.gaierror(f"tests must not look up {host}")
    return _lookup(host, *args, **kwargs)


socket.socket.connect, socket.getaddrinfo = _guarded_connect, _guarded_lookup


@pytest.fixture(autouse=True)
def home(homes, monkeypatch):
    """A home folder of the test's own, not there until it is needed, and no data folder: a test of real data asks for `ikat_data`.

    No test gets what another one searched or scored. Each connection and look-up of a name beyond loopback fails the test, even where the
    tested code swallows that.
    """
    folder = next(homes)
    monkeypatch.setenv("IKAT_HOME", str(folder))
    monkeypatch.delenv("IKAT_DATA", raising=False)
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    yield folder
    reached = [*refused]
    refused.clear()
    assert not reached, f"the test tried to reach {reached}"


@pytest.fixture
def no_network():
    """What the test tried to reach."""
    return refused


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def shared():
    """The folder of released files; skips where it is not beside the checkout. Whatever asks for it is marked `real_data`."""
    if not SHARED.is_dir():
        pytest.skip(f"no folder of released files at {SHARED}")
    return SHARED


@pytest.fixture
def ikat_data(shared, home, monkeypatch):
    """The organisers' released files, as the folder that `IKAT_DATA` names."""
    monkeypatch.setenv("IKAT_DATA", str(shared / "ikat"))
    return shared / "ikat"


@pytest.fixture
def two_turns(monkeypatch):
    """The sample has two turns: a report compares all pairs of runs, thousands for each turn."""
    from pyterrier_ikat.conversations.ikat_dataset import SampleDataset

    for whole in (SampleDataset.get_topics, SampleDataset.get_qrels):
        few = lambda *given, of=whole: of(*given)[lambda all: all["qid"].isin(["1-1_1", "3-1_2"])].reset_index(drop=True)  # noqa: E731
        monkeypatch.setattr(SampleDataset, whole.__name__, few)


@pytest.fixture
def first_words(monkeypatch):
    """MiniLM reads the first two words of a text only: it computes most of the time otherwise."""
    from pyterrier_ikat.store.models import BUNDLED, load_bi_encoder

    monkeypatch.setattr(load_bi_encoder(BUNDLED), "max_seq_length", 4)


@pytest.fixture(scope="module")
def first_words_all_along():
    """MiniLM reads the first 14 words of a text only, in all tests of a module: enough to tell the passages of the sample apart."""
    from pyterrier_ikat.store.models import BUNDLED, load_bi_encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_bi_encoder(BUNDLED), "max_seq_length", 16)
        yield


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory):
    """The path of an index of the bundled sample."""
    import pyterrier as pt

    import pyterrier_ikat as ikat

    path = tmp_path_factory.mktemp("index") / "sample.index"
    ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)


@pytest.fixture(scope="session")
def sample_vectors(tmp_path_factory):
    """A folder for ``$IKAT_TEST_VECTORS`` with what MiniLM makes of the sample's passages: it takes thirteen seconds of a core for them.

    They are rounded. So only notebooks and pages have them, whose figures have few digits.
    """
    import numpy as np

    known, folder = np.load(ROOT / "tests" / "minilm.npz"), tmp_path_factory.mktemp("vectors")
    for name, vector in zip(known["names"], known["vectors"], strict=True):
        (folder / name).write_bytes(vector.astype(np.float32).tobytes())
    return folder
