"""A pipeline's schematic as SVG: boxes, arrows and the kind of frame on each of them; nothing is loaded, no script, no font of its own.

Each part of the drawing is a :class:`Block`, whose line enters and leaves at half of its height. A box names the model that its stage
uses; its tooltip has all settings, and the tooltip of an arrow has the columns of the frame.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

LETTER, SMALL_LETTER, FONT = 7.6, 6.0, "font-family='Arial, Helvetica, sans-serif'"
BOX, ARROW, GAP, PAD = 36.0, 46.0, 14.0, 12.0
LINE, FILL, FRAME, TEXT = "#1d5b8f", "#d6e8f7", "#f3f8fc", "#10222f"

NAMES_MODEL = ("llm", "model", "in the paper")
"""The settings that name a model, or what a paper used."""
LONGEST_MODEL = 24

Record = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """A part of a drawing, at (0, 0).

    Attributes:
        width: in pixels.
        height: in pixels.
        svg: its elements.
    """

    width: float
    height: float
    svg: str

    def at(self, x: float, y: float) -> str:
        """The elements, moved to (x, y)."""
        return f"<g transform='translate({x:g} {y:g})'>{self.svg}</g>"


def render_svg(schematic: Record, name: str) -> str:
    """The drawing of a schematic as a document of its own.

    Args:
        schematic: the result of ``pt.schematic.transformer_schematic``.
        name: what is drawn, for screen readers.
    """
    ends = [Block(8.0 + LETTER * len(word), BOX, _words(word, 4 + LETTER * len(word) / 2, BOX / 2)) for word in ("Input", "Output")]
    whole = _row(_records(schematic), schematic.get("input_columns"), ends)
    width, height = whole.width + 2 * PAD, whole.height + 2 * PAD
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}' viewBox='0 0 {width:g} {height:g}' role='img'>"
        f"<title>{_safe(name)}</title><rect width='100%' height='100%' rx='6' fill='#fff'/>{whole.at(PAD, PAD)}</svg>\n"
    )


def _records(schematic: Record) -> list[Record]:
    found: list[Record] = schematic["transformers"] if schematic["type"] == "pipeline" else [schematic]
    return found


def _row(records: Sequence[Record], columns: list[str] | None, ends: Sequence[Block] = ()) -> Block:
    """Stages one after the other, an arrow with the kind of frame before and behind each."""
    blocks, frames = [_stage(record) for record in records], [columns, *(record.get("output_columns") for record in records)]
    start, end = ends or (Block(0, 0, ""), Block(0, 0, ""))
    height = max(block.height for block in (*blocks, start, end))
    parts, x = [], 0.0
    for place, block in enumerate((start, *blocks, end)):
        if place:
            parts.append(_arrow(x, height / 2, ARROW, frames[place - 1]))
            x += ARROW
        parts.append(block.at(x, (height - block.height) / 2))
        x += block.width
    return Block(x, height, "".join(parts))


def _stage(record: Record) -> Block:
    inner = record.get("inner_pipelines")
    if not inner:
        block = _box(record["label"], model_name(record.get("settings") or {}))
    elif record["inner_pipelines_mode"] == "unlinked":
        block = _holding(record, inner)
    else:
        block = _branches(record, inner)
    return Block(block.width, block.height, f"<g>{_tooltip(record)}{block.svg}</g>")


def model_name(settings: Record) -> str:
    """The model that a stage uses, short enough for its box; empty for a stage without one.

    Example:
        >>> model_name({"llm": "openai:gpt-4o temperature=0"}), model_name({"model": "cross-encoder/ms-marco-MiniLM-L-6-v2"})
        ('gpt-4o', 'ms-marco-MiniLM-L-6-v2')
        >>> model_name({"in the paper": "a T5 rewriter trained on QReCC"})
        'a T5 rewriter trained o…'
    """
    value = next((settings[key] for key in NAMES_MODEL if settings.get(key) is not None), "")
    words = [word for word in str(getattr(value, "spec", value)).split() if "=" not in word]
    text = re.split("[:/]", words[0])[-1] if len(words) == 1 else " ".join(words)
    return text if len(text) <= LONGEST_MODEL else f"{text[: LONGEST_MODEL - 1]}…"


def _box(label: str, model: str) -> Block:
    width, height = max(60.0, LETTER * len(label) + 24, SMALL_LETTER * len(model) + 16), BOX + 10 * bool(model)
    shape = f"<rect width='{width:g}' height='{height:g}' rx='5' fill='{FILL}' stroke='{LINE}' stroke-width='1.5'/>"
    words = _words(label, width / 2, BOX / 2 - 1 * bool(model), bold=True)
    return Block(width, height, shape + words + (_words(model, width / 2, BOX - 3, small=True) if model else ""))


def _holding(record: Record, inner: Sequence[Record]) -> Block:
    """A stage that uses other pipelines on frames of its own: a frame around them."""
    labels = record.get("inner_pipelines_labels") or [""] * len(inner)
    rows = [_row(_records(pipeline), pipeline.get("input_columns")) for pipeline in inner]
    width = max(*(row.width for row in rows), *(LETTER * len(label) for label in (record["label"], *labels))) + 2 * PAD
    parts, y = [_words(record["label"], width / 2, 16, bold=True)], 28.0
    for label, row in zip(labels, rows, strict=True):
        parts.append(_words(label, width / 2, y + 6, small=True))
        parts.append(row.at((width - row.width) / 2, y + 16))
        y += row.height + 16 + GAP
    return Block(width, y, _framed(width, y) + "".join(parts))


def _branches(record: Record, inner: Sequence[Record]) -> Block:
    """A stage whose pipelines all get its input: they fork, and its frame brings them together."""
    rows = [_row(_records(pipeline), pipeline.get("input_columns")) for pipeline in inner]
    widest, title = max(row.width for row in rows), 28.0
    width, height = widest + 2 * PAD, title + sum(row.height + GAP for row in rows)
    parts, middles, y = [_words(record["label"], width / 2, 16, bold=True)], [], title
    for row in rows:
        middles.append(y + row.height / 2)
        parts.append(row.at(PAD, y))
        parts.append(_path(f"M{PAD + row.width:g} {middles[-1]:g}H{width - PAD:g}"))
        y += row.height + GAP
    top, bottom = min(height / 2, *middles), max(height / 2, *middles)
    for x, edge in ((PAD, 0.0), (width - PAD, width)):
        parts.append(_path(f"M{x:g} {top:g}V{bottom:g}M{x:g} {height / 2:g}H{edge:g}"))
    return Block(width, height, _framed(width, height) + "".join(parts))


def _framed(width: float, height: float) -> str:
    return f"<rect width='{width:g}' height='{height:g}' rx='5' fill='{FRAME}' stroke='{LINE}' stroke-dasharray='4 3'/>"


def _arrow(x: float, y: float, length: float, columns: list[str] | None) -> str:
    head = f"<path d='M{x + length:g} {y:g}l-8 -4v8z' fill='{LINE}'/>"
    title = f"<title>{_safe(', '.join(columns))}</title>" if columns else ""
    kind = _words(_kind(columns), x + length / 2 - 3, y - 10, small=True)
    return f"<g>{title}{_path(f'M{x:g} {y:g}h{length - 7:g}')}{head}{kind}</g>"


def _kind(columns: list[str] | None) -> str:
    """R for a frame of results, Q for one of queries, as PyTerrier calls them; none where the columns aren't known."""
    return "" if columns is None else "R" if "docno" in columns else "Q"


def _tooltip(record: Record) -> str:
    lines = [str(record.get("name") or record["label"])]
    lines += [f"{key} = {value}" for key, value in (record.get("settings") or {}).items()]
    return f"<title>{_safe(chr(10).join(lines))}</title>"


def _words(text: str, x: float, y: float, *, bold: bool = False, small: bool = False) -> str:
    weight, size = " font-weight='bold'" * bold, 10 if small else 13
    return (
        f"<text x='{x:g}' y='{y + 0.35 * size:g}' text-anchor='middle' {FONT} font-size='{size}'{weight} fill='{TEXT}'>{_safe(text)}</text>"
    )


def _path(steps: str) -> str:
    return f"<path d='{steps}' fill='none' stroke='{LINE}' stroke-width='1.5'/>"


def _safe(text: str) -> str:
    return escape(re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", " ", text))
