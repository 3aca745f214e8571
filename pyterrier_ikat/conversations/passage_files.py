"""A collection of any size as a corpus: JSON lines files, one after the other, whose passages can be traced to file and line."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import DataError, UsageError
from .passages import SUFFIXES, collection_files, open_lines, read_passages


class PassageFiles:
    """The passages of JSON lines files (``.jsonl``, ``.jsonl.gz``, ``.jsonl.bz2``), streamed as often as asked for.

    Args:
        source: a folder, whose passage files are read in the order of their names, or a file, or files in the order to read them in.

    Raises:
        DataError: when there is no passage file; while iterating, naming file and line, when one ends in the middle or is malformed.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.jsonl").write_text('{"id": "d1:0", "contents": "Rooibos has no caffeine.", "url": ""}')
        >>> list(PassageFiles(folder))
        [{'docno': 'd1:0', 'text': 'Rooibos has no caffeine.', 'url': ''}]
    """

    def __init__(self, source: str | Path | Sequence[str | Path]) -> None:
        if not isinstance(source, str | Path | list | tuple):
            raise UsageError(f"source={repr(source)[:80]}: give a folder, a file, or a list of files")
        self.files = _files(source)
        self._before: list[int] = []

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Stream ``{"docno", "text", "url"}``."""
        count = 0
        self._before = []
        for file in self.files:
            self._before.append(count)
            for passage in read_passages(file):
                count += 1
                yield passage

    def where(self, number: int) -> str:
        """File and line of the passage with this number, counted from 1, among those that were read."""
        last = max(place for place, before in enumerate(self._before) if before < number)
        left = number - self._before[last]
        with open_lines(self.files[last]) as lines:
            for line, content in enumerate(lines, 1):
                left -= bool(content.strip())
                if not left:
                    return f"{self.files[last]}, line {line}"
        raise DataError(f"{self.files[last]} has changed since it was read: leave the files alone while they are indexed")

    def __repr__(self) -> str:
        return f"ikat.PassageFiles({[str(file) for file in self.files]!r})"


class Traced(Iterator[dict[str, str]]):
    """Passages that go by once and can still be traced.

    Args:
        passages: the passages.
        where: gives the place of the passage with a number, counted from 1.
    """

    def __init__(self, passages: Iterable[dict[str, str]], where: Callable[[int], str]) -> None:
        self._passages = iter(passages)
        self.where = where

    def __next__(self) -> dict[str, str]:
        return next(self._passages)


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(source, str | Path):
        files = [Path(file) for file in source]
    else:
        files = collection_files(source) if Path(source).is_dir() else [Path(source)]
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        what = f"{missing[0]}: no such file" if missing else f"no passages ({', '.join('*' + suffix for suffix in SUFFIXES)}) in {source}"
        raise DataError(f"{what}; give the folder with the collection's files, or the files")
    return files
