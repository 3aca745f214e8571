"""A pipeline's schematic as SVG: boxes, and arrows with the kind of frame. It loads nothing and has neither scripts nor fonts.

Each part of the drawing is a :class:`Block`. Stages that don't fit next to each other continue below, and a line leads back to the left. A
box names the model that its stage uses. Its tooltip has all settings, and the tooltip of an arrow has the columns of the frame.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

LETTER, SMALL_LETTER, FONT = 7.6, 5.5, "font-family='Arial, Helvetica, sans-serif'"
BOX, ARROW, GAP, PAD, TURN, FORK = 36.0, 28.0, 14.0, 12.0, 10.0, 7.0
LINE, FILL, FRAME, TEXT = "#1d5b8f", "#d6e8f7", "#f3f8fc", "#10222f"

WIDE, NARROW = 720.0, 366.0
"""The width in pixels of a drawing in a page, and on a phone."""

NAMES_MODEL = ("llm", "model", "in the paper")
"""The settings that name a model, or a paper's model."""
LONGEST_MODEL = 24

Record = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """A part of a drawing, at (0, 0).

    Attributes:
        width: its width in pixels.
        height: its height in pixels.
        svg: its elements.
        enters: how far down the line enters.
        leaves: how far to the right and down the line leaves.
    """

    width: float
    height: float
    svg: str
    enters: float
    leaves: tuple[float, float]

    @classmethod
    def straight(cls, width: float, height: float, svg: str) -> "Block":
        """A block with a line that enters and leaves at half of its height."""
        return cls(width, height, svg, height / 2, (width, height / 2))

    def at(self, x: float, y: float) -> str:
        """The elements, moved to (x, y)."""
        return f"<g transform='translate({x:g} {y:g})'>{self.svg}</g>"


def render_svg(schematic: Record, name: str, widest: float = WIDE) -> str:
    """The drawing of a schematic as a separate document.

    Args:
        schematic: the result of ``pt.schematic.transformer_schematic``.
        name: the name of the system, for screen readers.
        widest: the width in pixels above which stages continue below. A wider stage is not divided.
    """
    ends = [
        Block.straight(8.0 + LETTER * len(word), BOX, _words(word, 4 + LETTER * len(word) / 2, BOX / 2)) for word in ("Input", "Output")
    ]
    whole = _row(_records(schematic), schematic.get("input_columns"), widest - 2 * PAD, ends)
    width, height = whole.width + 2 * PAD, whole.height + 2 * PAD
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}' viewBox='0 0 {width:g} {height:g}' role='img'>"
        f"<title>{_safe(name)}</title><rect width='100%' height='100%' rx='6' fill='#fff'/>{whole.at(PAD, PAD)}</svg>\n"
    )


def _records(schematic: Record) -> list[Record]:
    found: list[Record] = schematic["transformers"] if schematic["type"] == "pipeline" else [schematic]
    return found


def _row(records: Sequence[Record], columns: list[str] | None, widest: float, ends: Sequence[Block] = ()) -> Block:
    """Stages in sequence, with an arrow and the kind of frame before and after each. They use several lines if one is too wide."""
    frames = [columns, *(record.get("output_columns") for record in records)]
    start, end = ends or (Block.straight(0, 0, ""), Block.straight(0, 0, ""))
    blocks = [start, *(_stage(record, widest - 2 * ARROW - TURN) for record in records), end]
    parts, width, top = [], 0.0, 0.0
    entered, leaves = 0.0, (0.0, 0.0)
    for number, line in enumerate(_lines(blocks, widest)):
        middle = top + max(blocks[place].enters for place in line)
        if number:
            between, (x, y) = top - GAP / 2, leaves
            parts.append(_path(f"M{x:g} {y:g}H{x + TURN:g}V{between:g}H1V{middle:g}"))
            width, leaves = max(width, x + TURN), (1.0, middle)
        else:
            entered, leaves = middle, (0.0, middle)
        for place in line:
            block, (x, y) = blocks[place], leaves
            if place:
                parts.append(_arrow(x, y, middle, frames[place - 1]))
                x += ARROW
            parts.append(block.at(x, middle - block.enters))
            leaves = (x + block.leaves[0], middle - block.enters + block.leaves[1])
            width = max(width, x + block.width)
        top = max(middle - blocks[place].enters + blocks[place].height for place in line) + GAP
    return Block(width, top - GAP, "".join(parts), entered, leaves)


def _lines(blocks: Sequence[Block], widest: float) -> list[list[int]]:
    """The positions of the blocks in each line. The last stage of a branch keeps the arrow that leads out of it."""
    lines, x = [[0]], blocks[0].width
    for place, block in enumerate(blocks[1:], start=1):
        last = place == len(blocks) - 1
        leads_out = place == len(blocks) - 2 and not blocks[-1].width
        needed = x + ARROW + block.width + (ARROW if leads_out else 0.0 if last else TURN)
        if needed > widest and not (last and not block.width) and (len(lines[-1]) > 1 or x):
            lines.append([place])
            x = ARROW + block.width
        else:
            lines[-1].append(place)
            x += ARROW + block.width
    return lines


def _stage(record: Record, widest: float) -> Block:
    inner = record.get("inner_pipelines")
    if not inner:
        block = _box(record["label"], model_name(record.get("settings") or {}))
    elif record["inner_pipelines_mode"] == "unlinked":
        block = _holding(record, inner, widest - 2 * PAD)
    else:
        block = _branches(record, inner, widest - 2 * PAD - 2 * FORK)
    return replace(block, svg=f"<g>{_tooltip(record)}{block.svg}</g>")


def model_name(settings: Record) -> str:
    """The model that a stage uses, short enough for its box. Empty for a stage without one.

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
    return Block.straight(width, height, shape + words + (_words(model, width / 2, BOX - 3, small=True) if model else ""))


def _holding(record: Record, inner: Sequence[Record], widest: float) -> Block:
    """A stage that uses other pipelines on its own data, drawn as a frame around them."""
    labels = record.get("inner_pipelines_labels") or [""] * len(inner)
    rows = [_row(_records(pipeline), pipeline.get("input_columns"), widest) for pipeline in inner]
    width = max(*(row.width for row in rows), *(LETTER * len(label) for label in (record["label"], *labels))) + 2 * PAD
    parts, y = [_words(record["label"], width / 2, 16, bold=True)], 28.0
    for label, row in zip(labels, rows, strict=True):
        parts.append(_words(label, width / 2, y + 6, small=True))
        parts.append(row.at((width - row.width) / 2, y + 16))
        y += row.height + 16 + GAP
    return Block.straight(width, y, _framed(width, y) + "".join(parts))


def _branches(record: Record, inner: Sequence[Record], widest: float) -> Block:
    """A stage whose pipelines all get its input. They fork, and its frame joins them."""
    rows = [_row(_records(pipeline), pipeline.get("input_columns"), widest) for pipeline in inner]
    title, width = 28.0, max(row.width for row in rows) + 2 * PAD + 2 * FORK
    height = title + sum(row.height + GAP for row in rows)
    parts, enter, leave, y = [_words(record["label"], width / 2, 16, bold=True)], [height / 2], [height / 2], title
    for row in rows:
        x, down = row.leaves
        enter.append(y + row.enters)
        leave.append(y + down)
        parts.append(row.at(PAD + FORK, y))
        parts.append(_path(f"M{PAD:g} {enter[-1]:g}h{FORK:g}M{PAD + FORK + x:g} {leave[-1]:g}H{width - PAD:g}"))
        y += row.height + GAP
    for x, edge, middles in ((PAD, 0.0, enter), (width - PAD, width, leave)):
        parts.append(_path(f"M{x:g} {min(middles):g}V{max(middles):g}M{x:g} {height / 2:g}H{edge:g}"))
    return Block.straight(width, height, _framed(width, height) + "".join(parts))


def _framed(width: float, height: float) -> str:
    return f"<rect width='{width:g}' height='{height:g}' rx='5' fill='{FRAME}' stroke='{LINE}' stroke-dasharray='4 3'/>"


def _arrow(x: float, start: float, y: float, columns: list[str] | None) -> str:
    """An arrow to the right, with a step if the line comes from another height."""
    head = f"<path d='M{x + ARROW:g} {y:g}l-8 -4v8z' fill='{LINE}'/>"
    title = f"<title>{_safe(', '.join(columns))}</title>" if columns else ""
    kind = _words(_kind(columns), x + ARROW / 2 - 3, y - 10, small=True)
    return f"<g>{title}{_path(f'M{x:g} {start:g}V{y:g}h{ARROW - 7:g}')}{head}{kind}</g>"


def _kind(columns: list[str] | None) -> str:
    """PyTerrier's name for the kind of frame: R for results, Q for queries. Empty if the columns aren't known."""
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
