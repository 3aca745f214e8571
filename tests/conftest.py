"""What all tests share.

No keys, no network beyond loopback (see pyproject.toml), and a home folder for each test.
"""

import os
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["in_browser"]  # pages in Chromium

SHARED = Path(__file__).parents[2] / "shared"
"""Files that others released, beside the checkout. They are no part of it."""

os.environ["PT_TEST_TRANSFORMER_REPORTS"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["NUMBA_DISABLE_JIT"] = "1"  # ranx compiles for longer than our rankings take
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes test at once
for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(name, None)
    os.environ.pop(name.lower(), None)

# A shell starts what goes on in the background deaf to Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis tries the same examples each time where $CI is set, and new ones elsewhere. A loaded
# machine is no defect.
base = hypothesis.settings.get_profile("ci" if os.environ.get("CI") else "default")
hypothesis.settings.register_profile("ikat", base, deadline=None)
hypothesis.settings.load_profile("ikat")

if os.environ.get("IKAT_TEST_PORTABLE") == "1":
    sys.modules["pyterrier_pisa"] = None  # as on platforms for which it has no files


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items):
    without_pisa = find_spec("pyterrier_pisa") is None
    for item in items:
        if without_pisa and item.get_closest_marker("linux"):
            item.add_marker(pytest.mark.skip(reason="tests PISA itself, or what only Linux has"))
        if "shared" in item.fixturenames:
            item.add_marker("real_data")


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """The folder of the home folders. For each of them, `mktemp` would look at all the others."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def home(request, homes, monkeypatch):
    """The home folder of a test: it isn't there until something is written.

    A test marked real_data reads the released files.
    """
    folder = Path(tempfile.mkdtemp(dir=homes)) / "ikat"
    monkeypatch.setenv("IKAT_HOME", str(folder))
    monkeypatch.delenv("IKAT_DATA", raising=False)
    # No test gets what another one searched or scored.
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    if request.node.get_closest_marker("real_data"):
        request.getfixturevalue("ikat_data")
    return folder


@pytest.fixture(scope="session")
def shared():
    """The folder of released files.

    A test that asks for it is marked real_data, and is skipped where there is none.
    """
    if not SHARED.is_dir():
        pytest.skip(f"no folder of released files at {SHARED}")
    return SHARED


@pytest.fixture
def ikat_data(shared, monkeypatch):
    """The organisers' released files, as the folder that `IKAT_DATA` names."""
    monkeypatch.setenv("IKAT_DATA", str(shared / "ikat"))
    return shared / "ikat"


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory):
    """The path of an index of the bundled sample."""
    import pyterrier as pt

    import pyterrier_ikat as ikat

    path = tmp_path_factory.mktemp("index") / "sample.index"
    ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))
    return str(path)


@pytest.fixture
def two_turns(monkeypatch):
    """The sample has two turns: tests of what comes after the runs need no more."""
    from pyterrier_ikat.conversations.ikat_dataset import SampleDataset

    get_topics = SampleDataset.get_topics
    get_qrels = SampleDataset.get_qrels

    def of_two_turns(frame):
        return frame[frame["qid"].isin(["1-1_1", "3-1_2"])].reset_index(drop=True)

    monkeypatch.setattr(
        SampleDataset, "get_topics", lambda *given: of_two_turns(get_topics(*given))
    )
    monkeypatch.setattr(SampleDataset, "get_qrels", lambda *given: of_two_turns(get_qrels(*given)))
