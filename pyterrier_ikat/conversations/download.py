"""Data files: read from the folder ``IKAT_DATA``, or downloaded once, with a checksum, into the home folder.

A download goes to ``<name>.part`` and continues there after an interruption. It gets its final name only when size and checksum are right,
so a file with the final name is complete. A file in a folder of the user that differs from the published one is read, with a warning: it
may be a newer version of the organisers, or changed on purpose.
"""

import hashlib
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import pyterrier as pt
import requests

from ..errors import DataError, UsageError
from ..progress import bar as bar_of
from ..store.files import replace

DATA_FOLDER, HOME_FOLDER = "IKAT_DATA", "IKAT_HOME"
TIMEOUT = (15, 60)
"""The time-out in seconds to connect, and between two pieces of a download."""


class OtherDataWarning(UserWarning):
    """A file in the user's folder isn't the published one, or this is unknown."""


@dataclass(frozen=True)
class Source:
    """Where a data file comes from.

    Attributes:
        url: its address; empty when it is not yet published.
        digest: ``<algorithm>:<hexadecimal digest>`` of the whole file; empty when unknown. Such a file is not downloaded.
        size: bytes; None when unknown.
    """

    url: str
    digest: str = ""
    size: int | None = None


_ORGANISERS = "https://raw.githubusercontent.com/irlabamsterdam/iKAT/main/"
_NIST = "https://trec.nist.gov/data/ikat/"
_CAST = "https://raw.githubusercontent.com/daltonj/treccastweb/master/"
_MTRAG = "https://raw.githubusercontent.com/IBM/mt-rag-benchmark/cc5b1d481b391181b89f7ced860308482e785463/"
_CHECKED = (
    (_ORGANISERS, "2023/data/2023_test_topics.json", 362388, "ff0c1fe67af03cab4b563f628736ca924b9b450212e0dd66daa2d9a7d1e1a883"),
    (_ORGANISERS, "2023/data/2023_test_topics_psg_text.jsonl", 993224, "78117e71ed31806337dc02218b29bb8c709cfc818f2f153fff15eaa30abb4717"),
    (_ORGANISERS, "2023/data/2023_train_topics.json", 101792, "ff52ac0fd49d6bf337679342867214390a2920e57665586df0455d5054c7032d"),
    (_ORGANISERS, "2023/data/2023_train_topics_psg_text.jsonl", 274158, "e79fa3fdafb6ee4792bf5af7109cb6a4d8950e5ad4acc5856e73bce92af325e0"),
    (_ORGANISERS, "2024/data/2024_test_topics.json", 277603, "c8d5bd52dc59ac49b99a7bdb593be00d889ed27547b1b01ecb422fb7b43da6e3"),
    (_ORGANISERS, "2025/data/2025_test_topics.json", 234733, "fe148f732ebc8ea5c1569070eb3b424510da333cb43692375ba5e0ad078fa4ee"),
    (_ORGANISERS, "2023/evaluation/ptkb_rel_nist", 13762, "a77b50c238df21e44e303f00bc22bfecf5823704c792a6d5387c970d04a5cc00"),
    (_ORGANISERS, "2023/evaluation/ptkb_rel_org", 15463, "b4c647baec07f9101b538037cafbb71ff6f0111d312b83304202ab6cc04eac36"),
    (_NIST, "2023-qrels.all-turns.txt", 1348250, "c23f5df9acc1f3952d8f50202a516d24fc9662878a258ca03811cb97846534e2"),
    (_NIST, "2024-qrels.txt", 759347, "eececd1587acd2a7593ca9b171a9f418d036e219b52361a66abe9e14645e1b7b"),
)
_TASKS = "mtrag-human/retrieval_tasks/"
_CHECKED_MTRAG = (
    (
        "mtrag-human/evaluations/reference_subset_with_human_evaluations.json",
        2190566,
        "ba8518617eca8dd31cadfcbbec1e3b38464e3c6cea33d902865e4acd05e8673e",
    ),
    (f"{_TASKS}clapnq/clapnq_questions.jsonl", 68367, "59ca817c12bcd13059fa675a9ee47cd76b6cba9b33eb3495907711d523cbd763"),
    (f"{_TASKS}clapnq/clapnq_rewrite.jsonl", 25301, "7e510ceae50c1897797c79c51c6002b56d11c252843282b5c62ccfe88baab44e"),
    (f"{_TASKS}clapnq/qrels/dev.tsv", 38895, "0766bc3e8fb6f515c34b33a97e568394303214915a2f835533705979b2303d97"),
    (f"{_TASKS}cloud/cloud_questions.jsonl", 58395, "8c38d26821b2ef81de4b8fc9d1683391c063394a46bc7cd949bfa1b09ea1498e"),
    (f"{_TASKS}cloud/cloud_rewrite.jsonl", 22896, "f999821b4179bd900a8c06fcf849a895f2a1eb56adb6ae10b5bc95bb468c6a4c"),
    (f"{_TASKS}cloud/qrels/dev.tsv", 30951, "925635635bf0e60b20d8ea0b18160cff878897acf8e0bf54e7096cc0ade8bd3b"),
    (f"{_TASKS}fiqa/fiqa_questions.jsonl", 56288, "d9a883e115e4412738f4ea01ce961e77cecc9b85039e6d351cd67d7e4e75fb8d"),
    (f"{_TASKS}fiqa/fiqa_rewrite.jsonl", 22207, "88706f60953539e3927b05e3e6c20b39e4d9211df9247cd7de4035ae50ac5f15"),
    (f"{_TASKS}fiqa/qrels/dev.tsv", 28598, "a10ec0b5cba634d6c4ad02dd86de715a258ebd313dbcf5fa2d0a77bb0e121abc"),
    (f"{_TASKS}govt/govt_questions.jsonl", 64633, "29a956a20878d03d62d95108c6c51f7b27a2864a63acb7b066c48f6e8ad7e67f"),
    (f"{_TASKS}govt/govt_rewrite.jsonl", 25031, "d84cf9f1598875a5cd28616a6648155948072c27363a31c85a51050cf4078835"),
    (f"{_TASKS}govt/qrels/dev.tsv", 34901, "46acb9b882297b6ff68978a56fd4ec57ea1c340cd604c62787a9ad69ac880d34"),
)
# The checksums of these are also unknown, so they are not fetched.
_UNCHECKED_MTRAG = (
    "mtrag-human/generation_tasks/reference.jsonl",
    *(f"corpora/passage_level/{domain}.jsonl.zip" for domain in ("clapnq", "cloud", "fiqa", "govt")),
)
REPOSITORIES = {
    "personalized-cir": ("EricLangezaal/PersonalizedCIR", "45079e885d29ff08d1e797777a6c7635cde77841"),
    "cfda-2025": ("gyeozai/CFDA-TREC-iKAT2025", "68884f98ecdcce155b8442950c39219506392cc8"),
    "cone-rag": ("irlabamsterdam/CONE-RAG", "297cd3d21c292816c1fafd006d6394a9c057c9a9"),
}
"""Folder in ``outputs`` -> repository and commit of the outputs and judgements that other teams published."""
OUTPUTS, MEMORY = "outputs", "memory"
BESIDE = (OUTPUTS, MEMORY)
"""Folders that may also be next to the data folder."""
_LOCOMO = "https://raw.githubusercontent.com/snap-research/locomo/main/data/locomo10.json"


def _published_outputs() -> dict[str, Source]:
    """Those files, from the table of their sources, paths, sizes, checksums, and names (when two paths end alike)."""
    found = {}
    for line in Path(__file__).with_name("public_outputs.tsv").read_text(encoding="utf-8").splitlines():
        folder, path, size, digest, *name = line.split("\t")
        url = "/".join(["https://raw.githubusercontent.com", *REPOSITORIES[folder], path])
        found[f"{OUTPUTS}/{folder}/{name[0] if name else path.rsplit('/', 1)[-1]}"] = Source(url, f"sha256:{digest}", int(size))
    return found


SOURCES = {path.rsplit("/", 1)[-1]: Source(base + path, f"sha256:{digest}", size) for base, path, size, digest in _CHECKED} | {
    "2025-qrels.txt": Source(""),
    # The MD5s come from ir_datasets, which lists these files but has no datasets for them.
    "2021_manual_evaluation_topics_v1.0.json": Source(
        f"{_CAST}2021/2021_manual_evaluation_topics_v1.0.json", "md5:eafb4d4c5b914baab02a71c474e4ecc4"
    ),
    "trec-cast-qrels-docs.2021.qrel": Source(f"{_CAST}2021/trec-cast-qrels-docs.2021.qrel", "md5:3393d7d2fbf8771511e3cf2448ad3dad"),
    "2022_evaluation_topics_tree_v1.0.json": Source(
        f"{_CAST}2022/2022_evaluation_topics_tree_v1.0.json", "md5:a2996adf88b3933816f65ad5536c7860"
    ),
    "2022-qrels.txt": Source("https://trec.nist.gov/data/cast/2022-qrels.txt", "md5:1d1ffe3d3a3a7fc64278ac7cc72b8bde"),
    "2022_automatic_evaluation_topics_tree_v1.0.json": Source(f"{_CAST}2022/2022_automatic_evaluation_topics_tree_v1.0.json"),
    "evaluation_topics_annotated_resolved_v1.0.tsv": Source(f"{_CAST}2019/data/evaluation/evaluation_topics_annotated_resolved_v1.0.tsv"),
    **{f"mtrag/{path}": Source(_MTRAG + path, f"sha256:{digest}", size) for path, size, digest in _CHECKED_MTRAG},
    **{f"mtrag/{path}": Source(_MTRAG + path) for path in _UNCHECKED_MTRAG},
    f"{MEMORY}/locomo10.json": Source(_LOCOMO, "sha256:79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4", 2805274),
    **_published_outputs(),
}


def data_folder() -> Path:
    """The folder of the data: ``IKAT_DATA`` when set, else ``IKAT_HOME``, else ``ikat`` in PyTerrier's home folder."""
    return _users_folder() or _home()


def data_file(name: str) -> Path:
    """The path of the data file ``name``, downloaded at the first call unless ``IKAT_DATA`` is set.

    The published outputs of other teams (``outputs/...``) and data for memories (``memory/...``) are also looked for there, and are
    downloaded in any case.

    Args:
        name: a file under its published name, a key of ``SOURCES``.

    Raises:
        UsageError: for an unknown name.
        DataError: when ``IKAT_DATA`` is set and lacks the file, it isn't published, can't be fetched, or isn't what it should be.
    """
    if name not in SOURCES:
        raise UsageError(f"no data file {name!r}; there are {', '.join(SOURCES)}")
    source, folder = SOURCES[name], _users_folder()
    found = at_hand(name)
    if folder is not None and (found is not None or name.partition("/")[0] not in BESIDE):
        if found is None:
            repair = (
                f"download {source.url} {_target(name)}" + f", or unset {DATA_FOLDER} to have it fetched" * bool(source.digest)
                if source.url
                else "it isn't published yet: put it there once you have it"
            )
            raise DataError(f"{DATA_FOLDER} is set to {folder}, but there is no file {name} in it; {repair}")
        _warn_of_another(name, found, found.stat().st_mtime_ns)
        return found
    path = found or _home() / name
    if found is None:
        fetch(source, path)
    elif source.size not in (None, path.stat().st_size):
        raise DataError(f"{path}: {path.stat().st_size} bytes instead of {source.size}; delete it, and it is fetched again")
    return path


def at_hand(name: str) -> Path | None:
    """The path of the file ``name`` in the data folder, or None when it isn't there.

    A file with folders in its name may lie in fewer folders, as long as its name is unambiguous: ``mtrag/mtrag-human/evaluations/a.json``
    is also found as ``mtrag/evaluations/a.json`` and as ``mtrag/a.json``. The folders ``outputs`` and ``memory`` may lie beside the data
    folder.
    """
    return next((place for place in _places(name) if place.is_file()), None)


def fetch(source: Source, path: Path) -> None:
    """Download ``source`` to ``path``. Continues ``<path>.part`` when an earlier attempt was interrupted.

    Raises:
        DataError: when there is no address, the server can't be reached or refuses, the connection is cut, or the file is
            not the expected one.
    """
    if not source.digest:
        what = f"isn't downloaded, as no checksum of {source.url} is known" if source.url else "isn't published yet"
        raise DataError(f"{_name(path)} {what}: once you have it, put it into a folder and set {DATA_FOLDER} to that folder")
    part = path.with_name(f"{path.name}.part")
    difference = ""
    for have in [part.stat().st_size, 0] if part.exists() else [0]:  # an old part may belong to an older version of the file
        _transfer(source, part, have)
        difference = _difference(source, part)
        if not difference:
            replace(part, path)
            return
    part.unlink()
    raise DataError(f"{source.url} is not the expected file: {difference}; {_instead(path)}")


def is_published(name: str) -> bool:
    """Whether the file of this name is the published one. False when this is unknown."""
    path = data_file(name)
    return bool(SOURCES[name].digest) and not _difference_of(name, path, path.stat().st_mtime_ns)


@cache
def _difference_of(name: str, path: Path, changed: int) -> str:
    """How a file differs from the published one, for each of its states."""
    return _difference(SOURCES[name], path) if SOURCES[name].digest else ""


@cache
def _warn_of_another(name: str, path: Path, changed: int) -> None:
    """Warn once for each state of a file that it isn't the published one, or that this is unknown."""
    source = SOURCES[name]
    try:
        difference = _difference_of(name, path, changed)
    except OSError:  # the reader of the file reports it
        return
    if difference:
        message = f"{path} isn't the published file ({difference}), and scores depend on it: download {source.url} in its place"
        warnings.warn(f"{message}, unless you mean this one", OtherDataWarning, stacklevel=3)
    elif source.url and not source.digest:
        warnings.warn(f"{path} was not checked: no checksum of {source.url} is known", OtherDataWarning, stacklevel=3)


def _users_folder() -> Path | None:
    return Path(os.environ[DATA_FOLDER]).expanduser() if os.environ.get(DATA_FOLDER) else None


def _home() -> Path:
    return Path(os.environ.get(HOME_FOLDER) or Path(pt.io.pyterrier_home()) / "ikat").expanduser()


def _places(name: str) -> list[Path]:
    top, *parts = name.split("/")
    shorter = ("/".join(parts[skipped:]) for skipped in range(1, len(parts)))
    clear = [short for short in shorter if sum(other.endswith(f"/{short}") for other in SOURCES) <= 1]
    if top in BESIDE and _users_folder() is not None:
        return [data_folder() / name, data_folder().parent / name, _home() / name]
    return [data_folder() / name, *(data_folder() / top / short for short in clear)]


def _target(name: str) -> str:
    return f"to {_places(name)[-1]}" if "/" in name else "into it"


def _instead(path: Path) -> str:
    return f"or put {_name(path)} into a folder yourself and set {DATA_FOLDER} to that folder"


def _name(path: Path) -> str:
    """The name of the data file that is downloaded to ``path``, or to its part."""
    whole = path.with_name(path.name.removesuffix(".part"))
    return next((name for name in SOURCES if whole.parts[-len(Path(name).parts) :] == Path(name).parts), whole.name)


def _transfer(source: Source, part: Path, have: int) -> None:
    """Fetch the bytes after the first ``have`` bytes of ``part``. It stays as it is when the server has no more."""
    if have and have == source.size:
        return
    # With a compressed transfer, the range would count compressed bytes.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with requests.get(source.url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            goes_on = bool(have) and answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if have and answer.status_code in (206, 416) and not goes_on:
                return
            answer.raise_for_status()
            with part.open("ab" if goes_on else "wb") as file:
                _receive(answer, file, source.size)
    except requests.HTTPError as error:
        raise DataError(f"{source.url} can't be fetched: the server answers {error}; {_instead(part)}") from None
    except requests.RequestException as error:
        got = part.stat().st_size if part.exists() else 0
        again = f"{got} of {source.size or 'unknown'} bytes are there, run it again to go on" if got else "check the network"
        raise DataError(f"{source.url} can't be fetched ({type(error).__name__}): {again}, {_instead(part)}") from None
    except OSError as error:
        raise DataError(f"{part} can't be written ({error}); free some space there, or set {HOME_FOLDER} to another folder") from None


def _receive(answer: requests.Response, file: IO[bytes], size: int | None) -> None:
    announced = int(answer.headers.get("Content-Length", 0)) + file.tell()
    with bar_of(desc=answer.url.rsplit("/", 1)[-1], total=size or announced or None, initial=file.tell(), unit="B") as bar:
        for piece in answer.iter_content(1 << 16):
            bar.update(file.write(piece))
    file.flush()
    os.fsync(file.fileno())


def _difference(source: Source, path: Path) -> str:
    """The defect of the file at ``path``. Empty when it is the expected file."""
    size = path.stat().st_size
    if source.size not in (None, size):
        return f"{size} bytes instead of {source.size}"
    algorithm, _, expected = source.digest.partition(":")
    got = hashlib.new(algorithm, path.read_bytes()).hexdigest()
    return "" if got == expected else f"{algorithm} {got} instead of {expected} ({size} bytes)"
