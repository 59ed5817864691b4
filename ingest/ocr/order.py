"""Recognised lines in the order in which people read them: blocks apart, columns one after the other. Pure geometry.

A page is cut at its widest empty strip, across or along, and each half again (an XY-cut): a gap between columns must
be wider than the spaces of a line, one between blocks higher than its lines are apart. Right for level lines that run
from left to right.
"""

from collections.abc import Sequence

Box = tuple[float, float, float, float]  # left, top, right, bottom; pixels, top is small

_COLUMN = 1.0  # times the height of a line: the least gap between columns
_BLOCK = 1.0  # and between blocks
_SAME_ROW = 0.5  # of the height that two pieces of a row share


def in_order(boxes: Sequence[Box], texts: Sequence[str]) -> str:
    """The text: a line for each row of a block, an empty line between blocks."""
    if not boxes:
        return ""
    heights = sorted(bottom - top for _, top, _, bottom in boxes)
    height = max(1.0, heights[len(heights) // 2])
    blocks = _cut(list(range(len(boxes))), boxes, height)
    return "\n\n".join("\n".join(_rows(block, boxes, texts)) for block in blocks)


def _cut(some: list[int], boxes: Sequence[Box], height: float) -> list[list[int]]:
    """Blocks of lines, in order. Iterative: a page may have thousands of lines."""
    done: list[list[int]] = []
    waiting = [some]
    while waiting:
        part = waiting.pop()
        down, down_at = _gap(part, boxes, 1)
        along, along_at = _gap(part, boxes, 0)
        if along >= _COLUMN * height and along >= down and _columns(part, boxes, along_at):
            axis, at = 0, along_at
        elif down >= _BLOCK * height:
            axis, at = 1, down_at
        elif along >= _COLUMN * height and _columns(part, boxes, along_at):
            axis, at = 0, along_at
        else:
            done.append(part)
            continue
        waiting.append([i for i in part if boxes[i][axis] >= at])
        waiting.append([i for i in part if boxes[i][axis] < at])
    return done


def _gap(part: list[int], boxes: Sequence[Box], axis: int) -> tuple[float, float]:
    """The widest strip that no box touches, and where it ends."""
    best, at, reach = 0.0, 0.0, None
    for low, high in sorted((boxes[i][axis], boxes[i][axis + 2]) for i in part):
        if reach is not None and low - reach > best:
            best, at = low - reach, low
        reach = high if reach is None else max(reach, high)
    return best, at


def _columns(part: list[int], boxes: Sequence[Box], at: float) -> bool:
    """Both sides are columns of text and not the cells of a table's rows: each has several lines, and lines are long
    for their height."""
    left = sum(boxes[i][0] < at for i in part)
    if min(left, len(part) - left) < 3:
        return False
    width = sum(boxes[i][2] - boxes[i][0] for i in part)
    height = sum(boxes[i][3] - boxes[i][1] for i in part)
    return width > 6 * height


def _rows(block: list[int], boxes: Sequence[Box], texts: Sequence[str]) -> list[str]:
    """Pieces that stand beside each other make one line."""
    rows: list[list[int]] = []
    for index in sorted(block, key=lambda i: (boxes[i][1] + boxes[i][3], boxes[i][0])):
        last = boxes[rows[-1][-1]] if rows else None
        if last is not None and _beside(last, boxes[index]):
            rows[-1].append(index)
        else:
            rows.append([index])
    return [" ".join(texts[i].strip() for i in sorted(row, key=lambda i: boxes[i][0])) for row in rows]


def _beside(one: Box, other: Box) -> bool:
    shared = min(one[3], other[3]) - max(one[1], other[1])
    return shared > _SAME_ROW * min(one[3] - one[1], other[3] - other[1])
