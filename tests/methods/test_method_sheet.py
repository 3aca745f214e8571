"""Each method with every default of its stages: a changed default is a line of difference.

``python tests/methods/test_method_sheet.py`` writes the sheet anew.
"""

import difflib
import inspect
from pathlib import Path

import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.methods.definition import RESOURCES, StandIn
from pyterrier_ikat.operator import Operator, stages, subpipelines

SHEET = Path(__file__).with_name("method_sheet.txt")
MODELS = {
    "BM25": ikat.PassageIndex.bm25,
    "CrossEncoder": ikat.CrossEncoder,
    "BiEncoder": ikat.BiEncoder,
    "MonoT5": ikat.MonoT5,
    "Ensemble": ikat.Ensemble,
    "Splade": ikat.Splade,
    "Seq2SeqRewrite": ikat.generate.Seq2SeqRewrite,
}
"""What a method's resources are made of."""


def sheet():
    """The sheet as text."""
    blocks = [
        "\n".join(_model(name, model) for name, model in MODELS.items()),
        *map(_method, METHODS.values()),
    ]
    return "\n\n".join(blocks) + "\n"


def _model(name, model):
    parameters = list(inspect.signature(model).parameters.values())
    given = []
    for one in parameters:
        if one.default is not inspect.Parameter.empty:
            given.append(f"{one.name}={one.default!r}")
    return f"{name}: {', '.join(given)}"


def _method(entry):
    head = [
        f"## {entry.name}",
        f"{entry.paper}: {entry.summary}",
        f"depth {entry.depth}, BM25 {dict(entry.bm25) or 'as above'}",
    ]
    head += [f"{resource}: {model}" for resource, model in entry.models.items()]
    system = entry.build(**{name: StandIn(name) for name in RESOURCES})
    return "\n".join([*head, *_lines(system, "  ")])


def _lines(pipeline, indent):
    for stage in stages(pipeline):
        yield indent + _whole(stage)
        for inner in subpipelines(stage):
            if not isinstance(inner, StandIn):
                yield from _lines(inner, f"{indent}  | ")


def _whole(stage):
    if isinstance(stage, StandIn) or not isinstance(stage, Operator):
        return repr(stage)
    shown = []
    for name, value in stage.arguments().items():
        if name not in ("prompts", "on_error"):
            shown.append(f"{name}={_value(value)}")
    return f"{type(stage).__name__}({', '.join(shown)})"


def _value(value):
    if isinstance(value, list | tuple) and any(isinstance(one, pt.Transformer) for one in value):
        return f"[{', '.join(map(_value, value))}]"
    return (
        "..."
        if isinstance(value, pt.Transformer) and not isinstance(value, StandIn)
        else repr(value)
    )


def test_the_sheet_is_that_of_the_methods():
    found = sheet().splitlines()
    pinned = SHEET.read_text(encoding="utf-8").splitlines()
    changed = "\n".join(
        difflib.unified_diff(pinned, found, "method_sheet.txt", "the methods", lineterm="", n=1)
    )
    assert not changed, (
        f"is each change what the paper has? Then run `python {Path(__file__).name}` "
        f"in {SHEET.parent.name}:\n{changed}"
    )


if __name__ == "__main__":
    SHEET.write_text(sheet(), encoding="utf-8")
