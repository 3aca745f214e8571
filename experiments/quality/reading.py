"""Test every reader of completions on real completions, and find out which regular expressions they need.

Usage: ``python experiments/quality/reading.py SHARED [--rules] [--corpus]``

``SHARED`` is a folder with ``completions/llama-3.1-8b-statements.jsonl`` (statements that Llama 3.1 8B chose),
``ikat/2023_test_topics.json``,
``outputs/`` (rewrites, choices and answers that teams of TREC iKAT published) and ``mtrag/`` (answers of GPT-4o and Llama 3.1 405B).
None of them is part of the project, except for SmolLM2's completions (``tests/generate/smollm2.jsonl``). A published rewrite or answer was
read by its authors, so it should be read unchanged. Choices of statements have the labels next to this script.

``--rules`` switches off one regular expression after the other and names the real completions that are then read differently. ``--corpus``
does the same with the texts that the tests' authors wrote (``tests/trust/corpus``). These alone don't justify a rule.
"""

import argparse
import ast
import builtins
import csv
import importlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
COMPLETIONS = "pyterrier_ikat.completions"
METHODS = ("match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split")


class Rule:
    """A regular expression that notes for which completions it matched. If it is switched off, it matches nothing."""

    off: "Rule | None" = None
    reading: int | None = None

    def __init__(self, place: str, pattern: re.Pattern[str]) -> None:
        self.place, self.compiled = place, pattern
        self.pattern, self.flags, self.matched = pattern.pattern, pattern.flags, set[int]()

    def _found(self, found: Any) -> Any:
        if found and Rule.reading is not None:
            self.matched.add(Rule.reading)
        return found

    def match(self, *args: Any) -> Any:
        """The match at the beginning."""
        return None if Rule.off is self else self._found(self.compiled.match(*args))

    def search(self, *args: Any) -> Any:
        """The first match."""
        return None if Rule.off is self else self._found(self.compiled.search(*args))

    def fullmatch(self, *args: Any) -> Any:
        """The match of the whole text."""
        return None if Rule.off is self else self._found(self.compiled.fullmatch(*args))

    def findall(self, *args: Any) -> list[Any]:
        """All matches."""
        return [] if Rule.off is self else self._found(self.compiled.findall(*args))

    def finditer(self, *args: Any) -> Iterator[Any]:
        """All matches, in order."""
        return iter([] if Rule.off is self else self._found(list(self.compiled.finditer(*args))))

    def sub(self, new: Any, text: str, count: int = 0) -> str:
        """The text with its matches replaced."""
        if Rule.off is self:
            return text
        self._found(self.compiled.search(text))
        return self.compiled.sub(new, text, count)

    def split(self, text: str, maxsplit: int = 0) -> list[Any]:
        """The text between its matches."""
        if Rule.off is self:
            return [text]
        self._found(self.compiled.search(text))
        return self.compiled.split(text, maxsplit)


RULES: dict[str, Rule] = {}
MADE: dict[str, list[Rule]] = defaultdict(list)


def rule(place: str, pattern: Any, flags: int = 0) -> Any:
    """The rule for this place in the code, one for each pattern that is made there."""
    if isinstance(pattern, Rule):
        return pattern
    found = RULES.setdefault(f"{place}|{pattern}|{int(flags)}", Rule(place, re.compile(pattern, flags)))
    MADE[place] += [] if found in MADE[place] else [found]
    return found


class _Noted(ast.NodeTransformer):
    """``re.compile(pattern)`` and ``re.sub(pattern, ...)`` become rules of their place."""

    def __init__(self, module: str) -> None:
        self.module, self.name, self.places = module, "", list[str]()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self.name = self.name, node.name
        self.generic_visit(node)
        self.name = before
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        before = self.name
        self.name = self.name or ast.unparse(node.targets[0])
        self.generic_visit(node)
        self.name = before
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re"):
            return node
        if called.attr != "compile" and called.attr not in METHODS:
            return node
        place = f"{self.module}:{node.lineno} {self.name}"
        place += "" if called.attr == "compile" else f" re.{called.attr}"
        self.places.append(place)
        flags = [word for word in node.keywords if word.arg == "flags"]
        others = [word for word in node.keywords if word.arg != "flags"]
        first, *rest = node.args
        if called.attr == "compile" and rest:
            flags, rest = [ast.keyword("flags", rest[0])], []
        if called.attr in ("match", "search", "fullmatch", "findall", "finditer") and len(rest) > 1:
            flags, rest = [ast.keyword("flags", rest[1])], rest[:1]
        made = ast.Call(ast.Name("__rule", ast.Load()), [ast.Constant(place), first], flags)
        new = made if called.attr == "compile" else ast.Call(ast.Attribute(made, called.attr, ast.Load()), rest, others)
        return ast.copy_location(new, node)


PLACES: list[str] = []


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        noted = _Noted(Path(str(path)).stem)
        tree = ast.fix_missing_locations(noted.visit(ast.parse(data)))
        PLACES.extend(noted.places)
        return compile(tree, path, "exec")

    def get_code(self, fullname: str) -> Any:  # never from a .pyc file
        return self.source_to_code(self.get_data(self.path), self.path)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(COMPLETIONS + "."):
            return None
        file = str(ROOT / (name.replace(".", "/") + ".py"))
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file)) if Path(file).exists() else None


class Case(NamedTuple):
    """A completion, its reader, and the right reading; ``UNKNOWN`` if there is no label."""

    source: str
    reader: str
    text: str
    wanted: Any
    given: Any = None
    turn: Any = None


class Read(NamedTuple):
    """The part of a completion that is used, and whether omitted pieces were counted."""

    value: Any
    counted: Any = False


UNKNOWN = object()


def words(text: str) -> str:
    """The words of a text with one space between them."""
    return " ".join(text.split())


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def statements(shared: Path) -> Iterator[Case]:
    """Chosen statements, 260 of them labelled."""
    topics = json.loads((shared / "ikat/2023_test_topics.json").read_text(encoding="utf-8"))
    ptkbs = {str(topic["number"]): topic["ptkb"] for topic in topics}
    here = Path(__file__).parent
    labels = {
        (row["qid"], row["shots"]): row["ids"] for name in ("development", "held_out") for row in lines(here / f"statements_{name}.jsonl")
    }
    for row in lines(shared / "completions/llama-3.1-8b-statements.jsonl"):
        turn = row["qid"], row["shots"]
        ptkb, wanted = ptkbs[row["qid"].rpartition("_")[0]], UNKNOWN
        if turn in labels:
            ids = labels[turn]
            wanted = None if ids is None else list(dict.fromkeys(str(number) for number in ids if str(number) in ptkb))
        yield Case("Llama 3.1 8B" + ("" if turn in labels else ", unlabelled"), "ids", row["completion"], wanted, ptkb, turn)


def rewritten(source: str, text: str) -> Case:
    """A published rewrite, or the list of queries that one prompt of PersonalizedCIR asks for."""
    listed = [re.fullmatch(r"\d+\. *(.+?) *", line) for line in text.split("\n") if line.strip()]
    if len(listed) > 1 and all(listed):
        queries = [words(item[1]) for item in listed if item]
        return Case(source, "queries", text, list({query.casefold(): query for query in reversed(queries)}.values())[::-1])
    return Case(source, "rewrite", text, words(text))


def answered(source: str, text: str) -> Iterator[Case]:
    """A published answer, as an answer and as a passage query."""
    yield Case(source, "answer", text, text.strip())
    yield Case(source, "passage", text, words(text))


def published(shared: Path) -> Iterator[Case]:
    """Published rewrites and answers, with their authors' reading."""
    cfda, personal = shared / "outputs/cfda-2025", shared / "outputs/personalized-cir"
    for path in sorted(cfda.glob("*.jsonl")):
        for row in lines(path):
            yield from (Case(f"cfda-2025 {path.stem}", "rewrite", text, words(text)) for text in row["predicted_rewrite"])
            for text in row["predicted_response"]:
                yield from answered(f"cfda-2025 {path.stem}", text)
    for path in sorted(cfda.glob("queries_*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield Case(f"cfda-2025 {path.stem}", "rewrite", row[1], words(row[1]))
    for path in sorted(personal.glob("batch_*.jsonl")):
        name = f"personalized-cir {path.stem.split('_')[1]}"
        for row in lines(path):
            yield rewritten(name, row["rewrite_utt_text"])
            yield from answered(name, row["response_utt_text"])
            if "LLM_select" in row:
                chosen = re.fullmatch(r"\[([\d, ]*)\]", row["LLM_select"])
                ids = UNKNOWN if chosen is None else list(dict.fromkeys(re.findall(r"\d+", chosen[1])))
                yield Case(name, "listed", row["LLM_select"], ids)
    for runs in json.loads((shared / "outputs/cone-rag/automatic_responses.json").read_text(encoding="utf-8")).values():
        for text in runs.values():
            yield from answered("cone-rag", text)
    for row in json.loads((shared / "mtrag/reference_subset_with_human_evaluations.json").read_text(encoding="utf-8"))["evaluations"]:
        if row["model_id"] != "reference":
            yield from answered(f"mtrag {row['model_id']}", row["model_response"])


SMOLLM2 = {
    "rewrite": "I'd love to see your next walk of several days.",
    "rewrite_short": "I'd love to see your first walk of several days next year.",
    "statements_ids": None,
    "statements_copies": ["1", "2", "3", "4"],
    "statements_scores": None,
    "queries": ["I'm looking for a walk of several days next year."],
    "clarify": "",
}
"""How ``tests/generate/test_small_model.py`` reads them."""
READER_OF = {
    "rewrite_short": "rewrite",
    "clarify": "rewrite",
    "statements_ids": "ids",
    "statements_copies": "copies",
    "statements_scores": "scores",
}


def small(_: Path) -> Iterator[Case]:
    """SmolLM2's completions."""
    sys.path.insert(0, str(ROOT / "tests"))
    import pyterrier_ikat as ikat

    ptkb = ikat.dataset("ikat:sample").get_topics().iloc[0]["qptkb"]
    for row in lines(ROOT / "tests/generate/smollm2.jsonl"):
        name = row["operator"]
        reader = READER_OF.get(
            name, {"queries": "queries", "rewrite": "rewrite"}.get(name, "queries" if "queries" in row["stage"] else "passage")
        )
        yield Case("SmolLM2 135M", reader, row["completion"], SMOLLM2.get(name, UNKNOWN), ptkb)


def readers() -> dict[str, Callable[[Case], Any]]:
    """The part of a completion that an operator uses, by reader."""
    matching, chosen, texts, usable = (
        importlib.import_module(f"{COMPLETIONS}.{name}") for name in ("matching", "statements", "texts", "usable")
    )

    def choice(form: str, read: Callable[[str], Any]) -> Callable[[Case], Any]:
        def decide(case: Case) -> Any:
            found = read(usable.readable(case.text)[0])
            picked = None if found is None else matching.choose(form, found, case.given)
            return Read(None) if picked is None else Read([number for number, _ in picked.statements], bool(picked.dropped))

        return decide

    return {
        "ids": choice("ids", chosen.read_ids),
        "copies": choice("copies", chosen.read_copies),
        "scores": choice("scores", chosen.read_scores),
        "listed": lambda case: Read(
            None if (found := chosen.read_ids(usable.readable(case.text)[0])) is None else list(dict.fromkeys(found))
        ),
        "rewrite": lambda case: Read(texts.parse_rewrite(usable.readable(case.text)[0])),
        "queries": lambda case: Read(texts.parse_queries(usable.readable(case.text)[0], 50).items),
        "answer": lambda case: Read(usable.answer_text(usable.readable(case.text, whole=True)[0])),
        "passage": lambda case: Read(texts.parse_passage(usable.readable(case.text, whole=True)[0])),
    }


def written(_: Path) -> Iterator[Case]:
    """The texts of the tests' authors, with their decisions."""
    sys.path.insert(0, str(ROOT / "tests"))
    from trust.test_parsers import READERS, corpus

    for name in READERS:
        yield from (Case(f"corpus {name}", f"corpus {name}", case["text"], case["outcome"]) for case in corpus(name))


def corpus_readers() -> dict[str, Callable[[Case], Any]]:
    """The parsers of the tests' corpora."""
    from trust.test_parsers import READERS

    return {f"corpus {name}": lambda case, read=read: Read(read(case.text)) for name, read in READERS.items()}


def once(cases: Iterable[Case]) -> list[Case]:
    """Each non-empty text once for its source and reader."""
    return list({(case.source, case.reader, case.text, str(case.turn)): case for case in cases if case.text.strip()}.values())


def accuracy(cases: list[Case], read: list[Any]) -> str:
    """The number of right readings out of those with a known reading, by source and reader, and the differences."""
    right, silent, total = Counter[str](), Counter[str](), Counter[str]()
    wrong = defaultdict[str, list[tuple[Case, Any]]](list)
    for case, found in zip(cases, read, strict=True):
        if case.wanted is not UNKNOWN:
            name = f"{case.source}: {case.reader}"
            total[name] += 1
            right[name] += found.value == case.wanted
            if found.value != case.wanted:
                silent[name] += bool(found.value) and not found.counted
                wrong[name].append((case, found.value))
    told = [f"{name}: {right[name]} of {total[name]}, {silent[name]} of the others differ silently" for name in total]
    for name, cases_ in wrong.items():
        told += [f"  {name}: {case.text[:150]!r} is read as {found!r:.150}" for case, found in cases_[:4]]
    return "\n".join([*told, f"all: {right.total()} of {total.total()}, {silent.total()} of the others differ silently"])


def needed(cases: list[Case], read: list[Any], by_name: dict[str, Callable[[Case], Any]], place: str) -> tuple[int, list[int]]:
    """For how many completions the rules of a place match, and which ones are read differently without them."""
    changed, matched = set[int](), set[int]()
    for one in MADE[place]:
        touched = set(one.matched)
        matched |= touched
        Rule.off = one
        for number in touched:
            try:
                found = by_name[cases[number].reader](cases[number])
            except Exception as error:  # code that depends on the rule breaks
                found = repr(error)
            if found != read[number]:
                changed.add(number)
        Rule.off = None
    return len(matched), sorted(changed)


def main() -> None:
    """Read everything, and print the requested reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--keep", type=Path, help="write what is read here, to compare two versions")
    given = parser.parse_args()
    setattr(builtins, "__rule", rule)
    sys.meta_path.insert(0, _Finder())
    sys.path.insert(0, str(ROOT))
    cases = once(case for made in (statements, small, published) for case in made(given.shared))
    cases += once(written(given.shared)) if given.corpus else []
    by_name = readers() | (corpus_readers() if given.corpus else {})
    read = []
    for number, case in enumerate(cases):
        Rule.reading = number
        read.append(by_name[case.reader](case))
    Rule.reading = None
    print(accuracy(cases, read))
    if given.keep:
        given.keep.write_text(
            "\n".join(json.dumps([c.source, c.reader, c.text, c.turn, *r]) for c, r in zip(cases, read, strict=True)), encoding="utf-8"
        )
    places = list(dict.fromkeys(PLACES))
    print(f"{len(places)} regular expressions in {COMPLETIONS}")
    if given.rules:
        for place in places:
            matched, changed = needed(cases, read, by_name, place)
            real = [number for number in changed if not cases[number].source.startswith("corpus")]
            print(f"{place}: matches in {matched}, {len(real)} real and {len(changed) - len(real)} written readings change")
            for number in real[:2]:
                print(f"    {cases[number].source} ({cases[number].reader}): {cases[number].text[:100]!r}")


if __name__ == "__main__":
    main()
