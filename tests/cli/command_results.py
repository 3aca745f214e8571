"""What tests of commands share: results that have to be good, stand-ins, options."""

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.tables import Cell, Column, Table

ONE = ("--turns", "1-1_1")
BOTH = ("--turns", "1-1_1,1-1_2")
WHY = "Means over the 2 turns that both were asked."


def succeeded(result):
    assert result.exit_code == 0, result.output
    return result


def words_of(result):
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def csv_of(done):
    assert done.exit_code == 0, done.output
    return [line.split(",") for line in done.stdout.splitlines()]


def run_file(path, **turns):
    lines = []
    for qid, docnos in turns.items():
        for rank, docno in enumerate(docnos.split()):
            lines.append(f"{qid} Q0 {docno} {rank + 1} {10 - rank} x\n")
    path.write_text("".join(lines))
    return path


def with_run(words, path):
    """The words of a command, with the path of a run for RUN."""
    return [str(path) if word == "RUN" else word for word in words]


class Stop(UsageError):
    """Ends a command at the step of interest."""


class Called:
    """Keeps the arguments of its calls, and returns a fixed value."""

    def __init__(self, result=None):
        self.result = result
        self.calls = []

    def __call__(self, *args, **named):
        self.calls.append((args, named))
        return self.result


def table_of(title, text="x"):
    """A table of one row, which each form writes differently."""
    columns = [Column(title, [Cell(text)]), Column("n", [Cell("1")], numeric=True)]
    return Table([{title: text, "n": 1}], columns, [])


def spends_and_fails(*_, ledger, **__):
    ledger.count("answer", "m", calls=3)
    raise UsageError("no further")


def assert_spending_is_told(done):
    assert (done.exit_code, "ikat: no further" in done.stderr) == (2, True)
    account = done.stderr.partition("LLM ledger")[2]
    assert "answer" in account
    assert "LLM ledger" not in done.stdout
