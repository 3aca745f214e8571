"""The program of the process that holds Java: Anserini's searcher behind lines of JSON.

:mod:`.lucene_process` starts it by the path of this file, so it imports nothing of the package. The
first line names the folder, the jar and Java's memory. Each further line is ``[name, arguments]``,
and each answer is ``{"answer": ...}`` or ``{"error": what happened, "kind": a kind of error}``.
"""

import json
import os
import sys
from collections import OrderedDict
from typing import Any, TextIO

OLDEST_JAVA = 11
"""Class files of Anserini 0.22.1 are for this version: castorini/anserini, pom.xml, 0.22.1."""
MOST_CLAUSES = 1 << 20
"""Distinct words of a query. Lucene's own limit is 1,024: IndexSearcher.getMaxClauseCount."""
OPEN_SEARCHERS = 4
"""Searchers that stay open, one for each setting."""
QUERIES_AT_ONCE = 16
"""Anserini reads each found passage's stored fields, and keeps them until the batch is read."""
THREADS = min(4, os.cpu_count() or 1)


class Refusal(Exception):
    """An error with its kind, which the other side turns into one for the user."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class LuceneSearch:
    """The searchers of one index.

    k1 and b are fields of a searcher, so threads with other settings would change each other's
    scores: each setting has a searcher of its own.

    Args:
        folder: the index.
        jar: Anserini with all that it needs.
        memory: the most that Java may take, such as ``"4g"``; empty for Java's own choice.
    """

    def __init__(self, folder: str, jar: str, memory: str) -> None:
        self.folder = folder
        self._load_java(jar, memory)
        self.searchers: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        try:
            self.any_searcher = self.new_searcher(folder)
        except Exception as error:
            raise Refusal("index", first_line(error)) from None

    def _load_java(self, jar: str, memory: str) -> None:
        import jnius_config

        jnius_config.add_classpath(jar)
        jnius_config.add_options("-XX:+ExitOnOutOfMemoryError")
        if memory:
            jnius_config.add_options(f"-Xmx{memory}")
        try:
            from jnius import autoclass
        except Exception as error:  # its message is a page about variables
            raise Refusal("java", first_line(error)) from None
        self.java = autoclass
        version = autoclass("java.lang.System").getProperty("java.specification.version")
        refuse_old_java(version)
        try:
            autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(MOST_CLAUSES)
            self.new_searcher = autoclass("io.anserini.search.SimpleSearcher")
        except Exception as error:  # a jar for a newer Java, or without Anserini
            name = os.path.basename(jar)
            raise Refusal("jar", f"{name} in Java {version}: {first_line(error)}") from None

    def describe(self) -> dict[str, Any]:
        """Return the number of passages, and the stored field that has their text."""
        count = self.any_searcher.get_total_num_docs()
        field = None
        if count:
            document = self.any_searcher.doc(0)
            if document is not None and document.get("id") is None:
                raise Refusal("foreign", "its passages store no id")
            for name in ("contents", "raw"):
                if field is None and document is not None and text_of(document, name) is not None:
                    field = name
        return {"passages": count, "texts": field}

    def search(
        self, queries: list[str], depth: int, k1: float, b: float, rm3: list[Any]
    ) -> list[Any]:
        """Return the docnos and the scores of each query, in Anserini's order."""
        searcher = self._searcher(k1, b, rm3)
        rankings = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            rankings += self._batch(searcher, queries[start : start + QUERIES_AT_ONCE], depth)
        return rankings

    def _batch(self, searcher: Any, queries: list[str], depth: int) -> list[Any]:
        new_list = self.java("java.util.ArrayList")
        texts, numbers = new_list(), new_list()
        for number, query in enumerate(queries):
            texts.add(without_surrogates(query))
            numbers.add(str(number))
        answers = searcher.batch_search(texts, numbers, depth, THREADS)
        rankings = []
        for number, query in enumerate(queries):
            hits = answers.get(str(number))
            if hits is None:  # Anserini prints the exception, and leaves the query out
                raise Refusal("query", f"no answer to the query {query[:80]!r}")
            docnos = [hit.docid for hit in hits]
            scores = [hit.score for hit in hits]
            rankings.append([docnos, scores])
        return rankings

    def _searcher(self, k1: float, b: float, rm3: list[Any]) -> Any:
        setting = (k1, b, *rm3)
        if setting in self.searchers:
            self.searchers.move_to_end(setting)
            return self.searchers[setting]
        if len(self.searchers) == OPEN_SEARCHERS:
            _, oldest = self.searchers.popitem(last=False)
            oldest.close()
        searcher = self.new_searcher(self.folder)
        searcher.set_bm25(k1, b)
        if rm3:
            fb_docs, fb_terms, original_weight = rm3
            searcher.set_rm3(fb_terms, fb_docs, original_weight)
        self.searchers[setting] = searcher
        return searcher

    def texts(self, docnos: list[str], field: str) -> list[str | None]:
        """Return the texts of passages, and None for those that aren't in the index."""
        texts = []
        for docno in docnos:
            document = self.any_searcher.doc(docno)
            text = None
            if document is not None:
                text = text_of(document, field)
                if text is None:
                    raise Refusal("index", f"the field {field} of {docno} has no text")
            texts.append(text)
        return texts

    def present(self, docnos: list[str]) -> list[str]:
        """Return those docnos that are in the index."""
        return [docno for docno in docnos if self.any_searcher.doc(docno) is not None]


def text_of(document: Any, field: str) -> str | None:
    """Return the text in a stored field; None without one.

    The field ``raw`` of a JsonCollection has the passage's JSON, with the text in ``contents``.
    """
    stored = document.get(field)
    if stored is None or field == "contents":
        return stored  # type: ignore[no-any-return]
    try:
        passage = json.loads(stored)
    except ValueError:
        return None
    text = passage.get("contents") if isinstance(passage, dict) else None
    return text if isinstance(text, str) else None


def refuse_old_java(version: str) -> None:
    """Refuse a version that can't read Anserini's classes; 1.8 is Java 8."""
    number = int(version.removeprefix("1.").partition(".")[0])
    if number < OLDEST_JAVA:
        raise Refusal("java", f"this is Java {number}")


def without_surrogates(text: str) -> str:
    """Replace halves of a pair, which no encoding has, and the character that ends C's texts."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", " ")


def first_line(error: Exception) -> str:
    """Return the first line with words of an error's message."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()
    return type(error).__name__


def take_stdout() -> TextIO:
    """Keep the standard output for answers: what Java prints goes to the error output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def answer_to(search: LuceneSearch, line: bytes) -> dict[str, Any]:
    """Carry out one line."""
    name, arguments = json.loads(line)
    try:
        return {"answer": getattr(search, name)(**arguments)}
    except Refusal as refusal:
        return {"error": str(refusal), "kind": refusal.kind}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {first_line(error)}", "kind": "query"}


def main() -> None:
    """Open the index, and answer line by line until the input ends."""
    answers = take_stdout()

    def write(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    lines = sys.stdin.buffer
    try:
        search = LuceneSearch(**json.loads(lines.readline()))
        write({"answer": search.describe()})
    except Refusal as refusal:
        write({"error": str(refusal), "kind": refusal.kind})
        return
    for line in lines:
        write(answer_to(search, line))


if __name__ == "__main__":
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # the modules beside this file aren't to be imported by their last names
    main()
    os._exit(0)  # nothing is to be written, and Java's threads aren't waited for
