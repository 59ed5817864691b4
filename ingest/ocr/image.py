"""The image of a page for recognition: one byte a pixel, straightened. Knows no engine and no file format.

Skew is found by the profile of ink over lines at many angles, and undone by three shears, which move whole rows and
columns: no pixel is made up, and a page of 9 million takes a tenth of a second.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_MOST_DEGREES = 15.0  # more is no crooked scan
_LEAST_DEGREES = 0.4  # engines cope with less
_SAMPLE = 40_000  # pixels of ink that are looked at
_SPECKS = 0.0002  # share of a blank page that may be dark
_WHITE = 255

PIXELS = 25_000_000  # of one image: A4 at 500 dpi; larger ones are made smaller


@dataclass(frozen=True)
class Gray:
    """Rows of one byte a pixel, 0 black, without padding. `dpi` as far as it is known, else an estimate."""

    width: int
    height: int
    rows: bytes
    dpi: int = 300

    def array(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The pixels by row and column, read-only."""
        import numpy as np

        return np.frombuffer(self.rows, np.uint8).reshape(self.height, self.width)


def straightened(image: Gray) -> Gray:
    """The image with its lines level."""
    import numpy as np

    pixels = image.array()
    angle = skew(pixels)
    if abs(angle) < _LEAST_DEGREES:
        return image
    turned = _turned(pixels, angle)
    return Gray(turned.shape[1], turned.shape[0], np.ascontiguousarray(turned).tobytes(), image.dpi)


def blank(image: Gray) -> bool:
    """There is no ink on it, but for specks and the shadows of a scanner's edges."""
    import numpy as np

    pixels = image.array()
    down, across = image.height // 30, image.width // 30
    inner = pixels[down : image.height - down, across : image.width - across]
    return inner.size == 0 or float(np.mean(inner < _threshold(inner))) < _SPECKS


def skew(pixels: Any) -> float:
    """Degrees by which lines climb to the right; 0.0 where there are none to tell by: no lines, or, as in pictures,
    edges steeper than those of any crooked scan."""
    import numpy as np

    step = max(1, max(pixels.shape) // 1_600)
    small = pixels[::step, ::step]
    y, x = np.nonzero(small < _threshold(small))
    if len(y) < 200:
        return 0.0
    every = max(1, len(y) // _SAMPLE)
    y, x = y[::every].astype(np.float32), x[::every].astype(np.float32)
    coarse = _steepest(y, x, np.arange(-_MOST_DEGREES, _MOST_DEGREES + 0.1, 0.5))
    if abs(coarse) >= _MOST_DEGREES:
        return 0.0
    return float(_steepest(y, x, coarse + np.arange(-0.5, 0.51, 0.1)))


def _threshold(pixels: Any) -> float:
    """Half way between paper and ink."""
    import numpy as np

    paper, ink = np.percentile(pixels, 90), np.min(pixels)
    return float(ink + 0.5 * (paper - ink)) if paper - ink > 40 else -1.0


def _steepest(y: Any, x: Any, angles: Any) -> float:
    """The angle at which ink falls into lines: where the profile changes most from row to row."""
    import numpy as np

    best, most = 0.0, -1.0
    for angle in angles:
        rows = (y + x * math.tan(math.radians(angle))).astype(np.int32)
        profile = np.bincount(rows - rows.min()).astype(np.float64)
        sharpness = float(np.square(np.diff(profile)).sum()) * (1.0 - 1e-4 * abs(angle))
        if sharpness > most:
            best, most = float(angle), sharpness
    return best


def _turned(pixels: Any, degrees: float) -> Any:
    """Turned clockwise by so much, on a canvas that holds all of it."""
    slope = math.tan(math.radians(degrees) / 2)
    once = _sheared(pixels, -slope)
    twice = _sheared(once.T, math.sin(math.radians(degrees))).T
    return _sheared(twice, -slope)


def _sheared(pixels: Any, slope: float) -> Any:
    """Every row moved to the right by its number times the slope."""
    import numpy as np

    height, width = pixels.shape
    shifts = np.rint(np.arange(height) * slope).astype(int)
    shifts -= shifts.min()
    out = np.full((height, width + int(shifts.max())), _WHITE, np.uint8)
    for row, shift in enumerate(shifts):
        out[row, shift : shift + width] = pixels[row]
    return out
