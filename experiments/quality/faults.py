"""Realistic faults in all rooms, each run against the tests of its room: which of them does a test detect?

Usage: ``python experiments/quality/faults.py [WORD ...]`` (from the repository's root; only faults with one of these words in their file or
text). The work is done in a temporary copy, each fault in a fork of this process. ``mutants.py`` makes mutants of whole modules. The faults
here were invented by hand: a cutoff that is off by one, a wrong tie, an exception that is swallowed, a cost that is counted twice, a stale
cache key.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mutants import LIBRARIES, PACKAGE, ROOT, forked, run_tests

LONGEST = 1800.0
"""Seconds for the tests of a room. A room that takes longer has not detected the fault."""
TESTS = {
    "completions": ["llms/test_parsing*.py", "trust/test_parsers.py", "rank/test_listwise.py", "generate/test_sentences.py"],
    "planning.py": ["study/test_plan.py"],
    "prompts": ["methods/test_prompt_values.py", "generate/test_prompts.py"],
}
"""The tests of rooms without a test folder of the same name. The tests of modules outside of rooms are in ``base``."""


class Fault(NamedTuple):
    """A change of one module: ``old``, which occurs there once, becomes ``new``."""

    where: str
    what: str
    old: str
    new: str

    @property
    def tests(self) -> list[str]:
        """The tests of its room."""
        room = self.where.partition("/")[0]
        patterns = TESTS.get(room, ["base" if room.endswith(".py") else room])
        return [str(path.relative_to(ROOT)) for pattern in patterns for path in sorted((ROOT / "tests").glob(pattern))]


FAULTS = [
    Fault("order.py", "ties go by the smaller docno", "np.lexsort((-docnos, -score, turn))", "np.lexsort((docnos, -score, turn))"),
    Fault("order.py", "equal docnos' scores are parted too far", "step[tied[docnos[tied] <= docnos[tied - 1]]] = 0", "pass"),
    Fault("order.py", "a constant list counts 1, not a half", "[~(width > 0)[lists]] = 0.5", "[~(width > 0)[lists]] = 1.0"),
    Fault(
        "llms/ledger.py",
        "an unknown amount counts 0",
        "return None if one is None or other is None else one + other",
        "return (one or 0) + (other or 0)",
    ),
    Fault("planning.py", "requests that systems share are counted twice", "first = key not in self.seen", "first = True"),
    Fault(
        "planning.py",
        "one character less for a token of completions",
        "completion = int(mean * len(new)) // CHARACTERS_PER_TOKEN",
        "completion = int(mean * len(new))",
    ),
    Fault(
        "store/files.py",
        "Ctrl-C leaves the temporary file",
        "    except BaseException as error:\n        with suppress(OSError):\n            temporary.unlink",
        "    except Exception as error:\n        with suppress(OSError):\n            temporary.unlink",
    ),
    Fault("store/files.py", "a cut last line is read", 'split(b"\\n")[:-1], 1)', 'split(b"\\n"), 1)'),
    Fault("conversations/frame.py", "the history has the question itself", "said[:place], persona", "said[: place + 1], persona"),
    Fault(
        "conversations/qrels.py",
        "of two labels the other one counts",
        'labels.first() if rule == "official" else labels.last()',
        'labels.last() if rule == "official" else labels.first()',
    ),
    Fault("conversations/passages.py", "a passage keeps white space around its text", 'text.strip(), "url"', 'text, "url"'),
    Fault("runs/run_files.py", "ranks of a run file begin with 0", "{rank + 1} {shortest", "{rank} {shortest"),
    Fault("runs/log.py", "a cut line stays and spoils the next one", "drop_cut_line(", "str("),
    Fault(
        "completions/verdicts.py",
        "the last passage can't be named",
        "if not 1 <= number <= size:",
        "if not 1 <= number < size:",
    ),
    Fault("completions/statements.py", "a score above 1 stays", "min(max(score, 0.0), 1.0)", "max(score, 0.0)"),
    Fault("completions/verdicts.py", "the scale that a judge repeats is a grade", '", "", text, flags', '", "0", text, flags'),
    Fault("llms/sending.py", "a call is tried once too often", "stop_after_attempt(self.tries)", "stop_after_attempt(self.tries + 1)"),
    Fault("llms/sending.py", "two processes begin at the same end", "ordered if first else dict(reversed(ordered.items()))", "ordered"),
    Fault("llms/sending.py", "nobody looks what another process got", "found.update(llm.cache.get(batch))", "pass"),
    Fault("llms/cache.py", "a second answer replaces the first", "kept.update(earlier := _completions(known))", "earlier = {}"),
    Fault("llms/ledger.py", "a spent budget lets calls through", "(used := self.used) < self.limit", "(used := self.used) <= self.limit"),
    Fault("llms/batch.py", "a batch that is not listed yet is sent again", "time.time() - job.begun < SETTLED", "False"),
    Fault("llms/streaming.py", "a reader who left wakes no thread", "socket.socket.shutdown(one, socket.SHUT_RDWR)", "one.close()"),
    Fault("llms/openai.py", "the log has the key", "hidden(record.getMessage())", "record.getMessage()"),
    Fault(
        "llms/request.py",
        "the parameters are no part of the key",
        '"params": {**identity.get("params", {}), **self.params}',
        '"params": {}',
    ),
    Fault(
        "completions/citations.py",
        "a response of just the length is cut",
        "if count_words(text) <= words:",
        "if count_words(text) < words:",
    ),
    Fault(
        "generate/statements.py",
        "one message too many is read",
        "number > len(said) - self.messages",
        "number >= len(said) - self.messages",
    ),
    Fault(
        "retrieve/eager.py",
        "repeated words count once",
        "self.starts[numbers + 1], weights",
        "self.starts[numbers + 1], 1",
    ),
    Fault("retrieve/retriever.py", "a shallower search serves a deeper one", "if searched < depth and count == searched:", "if False:"),
    Fault(
        "rank/llm_rerankers.py",
        "windows begin above the last passage",
        "range(count - window, 0, -stride)",
        "range(count - window - 1, 0, -stride)",
    ),
    Fault(
        "rank/reranker.py",
        "scores of another model are taken",
        "digest(model, query) for query in set(queries)",
        "digest(query) for query in set(queries)",
    ),
    Fault("rank/statements.py", "statements stay as they came", "sorted(pairs, key=lambda pair: -pair[1])[: self.n]", "pairs[: self.n]"),
    Fault("fuse/by_list.py", "positions are counted from 0", "1.0 / (k + 1 + turn.rank())", "1.0 / (k + turn.rank())"),
    Fault(
        "fuse/by_scorer.py",
        "ties go against the union's order",
        "order = np.lexsort((places, -score, turn[places]))",
        "order = np.lexsort((-places, -score, turn[places]))",
    ),
    Fault(
        "fuse/by_list.py",
        "a cut forgets the weights",
        "weights=self.weights, normalise=self.normalise, num_results=size",
        "normalise=self.normalise, num_results=size",
    ),
    Fault("methods/catalogue.py", "calls that all turns share are left out", "if with_one > each else", "if with_one < each else"),
    Fault("submit/checks.py", "equal ranks of responses pass", "if response.rank <= before:", "if response.rank < before:"),
    Fault("submit/checks.py", "1000 passages are too many", "if len(passages) > PASSAGES:", "if len(passages) >= PASSAGES:"),
    Fault(
        "evaluation/ptkb.py",
        "turns without a relevant statement count",
        'qrels.loc[qrels["label"] > 0, "qid"]',
        'qrels.loc[qrels["label"] >= 0, "qid"]',
    ),
    Fault(
        "evaluation/experiment_table.py",
        "no correction for many pairs",
        'multipletests(tests, ALPHA, "bonferroni")[0]',
        "[test < ALPHA for test in tests]",
    ),
    Fault("evaluation/sessions.py", "a mean cost omits what is unknown", 'skipna=measure != "cost"', "skipna=True"),
    Fault("evaluation/scores.py", "intervals of 90 %", "t.ppf(0.975,", "t.ppf(0.95,"),
    Fault("study/in_folders.py", "a batch has a turn too many", "end - start == size", "end - start > size"),
    Fault(
        "study/in_folders.py",
        "turns without passages are run again",
        "turn_lines(turns, results)",
        'turn_lines(turns[turns["qid"].isin(results["qid"])], results)',
    ),
    Fault("study/in_folders.py", "an index may change while a run uses it", "            self._check_unchanged()", "            pass"),
    Fault(
        "study/identity.py",
        "a name is put into a longer one's text",
        "sorted(names, key=len, reverse=True)",
        "list(names)[::-1]",
    ),
    Fault("study/account.py", "a cut line stays and spoils the next one", "drop_cut_line(", "str("),
    Fault("runs/folder.py", "a ranking that was changed is read", 'known.get("sha256") != checksum(path)', 'known.get("sha256") == 1'),
    Fault("study/identity.py", "other prompts make the same run", '"prompts": prompts_of(pipeline)', '"prompts": {}'),
    Fault("study/identity.py", "an index with other texts makes the same run", "else part.fingerprint()", "else ''"),
    Fault("distribute/on_ray.py", "more parts than turns", "count = min(parts, len(names))", "count = parts"),
    Fault(
        "distribute/on_ray.py", "rows in the order in which workers end", "for number in sorted(frames)", "for number in reversed(frames)"
    ),
    Fault("show/report/reasons.py", "the cutoff's own rank is outside", "cutoff + 1  # the first rank", "cutoff  # the first rank"),
    Fault("show/report/reasons.py", "the loser's words speak for it", "key=lambda pair: -pair[0])", "key=lambda pair: pair[0])"),
    Fault(
        "live/answering.py",
        "history of just the limit is cut",
        "        if left < 0:\n            break",
        "        if left <= 0:\n            break",
    ),
    Fault("live/answering.py", "a rejected prompt is sent again as it was", "return sent // 2", "return sent"),
    Fault(
        "live/simulation/simulation.py",
        "a user is patient for one turn more",
        "len(known.turns) >= user.turns",
        "len(known.turns) > user.turns",
    ),
    Fault("live/serving/service.py", "whoever leaves keeps the place", "abandon_on_cancel=True", "abandon_on_cancel=False"),
    Fault("live/interactive/response_limits.py", "a passage too many is handed in", "[:PASSAGES]", "[: PASSAGES + 1]"),
    Fault("papers/published.py", "labels that nobody gave have no row", "sorted({*range(5), *table.index})", "sorted(table.index)"),
    Fault(
        "cli/evaluate.py",
        "a judged turn that a run lacks is not named",
        "sorted(judged.keys() - ranking)",
        "sorted(ranking.keys() - judged)",
    ),
]

VALUE = re.compile(r"\{\{ (?!guard|loop\.).*?\}\}|\{% include .*? %\}")
"""What a template shows of its inputs."""


def deletions() -> Iterator[Fault]:
    """Each template without one of the values that it shows."""
    for path in sorted((ROOT / PACKAGE / "prompts").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for found in VALUE.finditer(source):
            without = source[: found.start()] + source[found.end() :]
            yield Fault(f"prompts/{path.name}", f"{found[0]} is missing", source, without)


class Nearest:
    """A pytest plugin that puts the files that name the module first, and notes the failing test in a file."""

    def __init__(self, module: str, noted: Path) -> None:
        self.module, self.noted = module, noted

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        if report.failed:
            self.noted.write_text(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Sort by file."""
        named = {path: self.module in path.read_text(encoding="utf-8") for path in {item.path for item in items}}
        items.sort(key=lambda item: not named[item.path])


def outcome(copy: Path, fault: Fault) -> tuple[str, str]:
    """``killed`` and the test; ``survived`` if none fails; ``unknown`` if they took too long or couldn't be collected."""
    module, noted = copy / PACKAGE / fault.where, copy / "noted"
    noted.unlink(missing_ok=True)
    original = module.read_text(encoding="utf-8")
    module.write_text(original.replace(fault.old, fault.new), encoding="utf-8")
    for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
        compiled.unlink()
    tests = [*[str(module.relative_to(copy))] * (module.suffix == ".py"), *fault.tests]  # a module's own examples, too
    try:
        status = forked(lambda: run_tests(copy, Nearest(module.stem, noted), *tests), LONGEST)
    finally:
        module.write_text(original, encoding="utf-8")
    if noted.exists():
        return "killed", noted.read_text()
    return ("survived", "") if status == 0 else ("unknown", f"status {status}")


def stale(fault: Fault) -> str:
    """Why a fault can't be put into the current code; empty if it can."""
    path = ROOT / PACKAGE / fault.where
    if not path.exists():
        return "there is no such module"
    count = path.read_text(encoding="utf-8").count(fault.old)
    return "" if count == 1 else f"it has {count} times {fault.old!r}"


def main() -> None:
    """Print the outcome of each fault, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the faults' files and descriptions; without any all faults")
    words = parser.parse_args().words
    faults = [fault for fault in [*FAULTS, *deletions()] if not words or any(word in f"{fault.where} {fault.what}" for word in words)]
    warnings.simplefilter("ignore")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # read at import
    for library in LIBRARIES:
        __import__(library)
    sys.dont_write_bytecode = True
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".venv"))
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        for fault in faults:
            began = time.monotonic()
            became, by = ("stale", why) if (why := stale(fault)) else outcome(copy, fault)
            counts[became] = counts.get(became, 0) + 1
            print(f"{became}: {fault.where}: {fault.what} ({time.monotonic() - began:.0f} s) {by}", flush=True)
    print(f"{len(faults)} faults: " + ", ".join(f"{count} {became}" for became, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
