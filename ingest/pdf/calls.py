"""pdfium's functions that are called for every object or character of a page, with plain addresses for what they take
and give: pypdfium2's make an object of ctypes for each, which takes twice the time. Addresses are as good as the page
that they come from is open."""

import ctypes
from functools import cache
from types import SimpleNamespace
from typing import Any

_ADDRESS, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "FPDFPage_CountObjects": (_INT, _ADDRESS),
    "FPDFPage_GetObject": (_ADDRESS, _ADDRESS, _INT),
    "FPDFPageObj_GetType": (_INT, _ADDRESS),
    "FPDFPageObj_GetBounds": (_INT, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "FPDFPageObj_GetFillColor": (_INT, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "FPDFPageObj_GetMatrix": (_INT, _ADDRESS, _ADDRESS),
    "FPDFPageObj_SetIsActive": (_INT, _ADDRESS, _INT),
    "FPDFPageObj_CountMarks": (_INT, _ADDRESS),
    "FPDFPageObj_GetMark": (_ADDRESS, _ADDRESS, ctypes.c_ulong),
    "FPDFPageObjMark_GetName": (_INT, _ADDRESS, _ADDRESS, ctypes.c_ulong, _ADDRESS),
    "FPDFPageObj_GetClipPath": (_ADDRESS, _ADDRESS),
    "FPDFClipPath_CountPaths": (_INT, _ADDRESS),
    "FPDFClipPath_CountPathSegments": (_INT, _ADDRESS, _INT),
    "FPDFClipPath_GetPathSegment": (_ADDRESS, _ADDRESS, _INT, _INT),
    "FPDFPathSegment_GetPoint": (_INT, _ADDRESS, _ADDRESS, _ADDRESS),
    "FPDFPath_GetDrawMode": (_INT, _ADDRESS, _ADDRESS, _ADDRESS),
    "FPDFFormObj_CountObjects": (_INT, _ADDRESS),
    "FPDFFormObj_GetObject": (_ADDRESS, _ADDRESS, ctypes.c_ulong),
    "FPDFImageObj_GetImagePixelSize": (_INT, _ADDRESS, _ADDRESS, _ADDRESS),
    "FPDFTextObj_GetTextRenderMode": (_INT, _ADDRESS),
    "FPDFTextObj_GetFontSize": (_INT, _ADDRESS, _ADDRESS),
    "FPDFText_GetLooseCharBox": (_INT, _ADDRESS, _INT, _ADDRESS),
    "FPDFText_GetCharOrigin": (_INT, _ADDRESS, _INT, _ADDRESS, _ADDRESS),
    "FPDFText_GetCharAngle": (_FLOAT, _ADDRESS, _INT),
    "FPDFText_GetCharIndexFromTextIndex": (_INT, _ADDRESS, _INT),
    "FPDFText_GetTextObject": (_ADDRESS, _ADDRESS, _INT),
    "FPDFText_IsHyphen": (_INT, _ADDRESS, _INT),
}


@cache
def calls() -> SimpleNamespace:
    """The functions by their names without "FPDF": `calls().PageObj_GetType`."""
    import pypdfium2.raw as raw

    made = {
        name.removeprefix("FPDF").removeprefix("_"): ctypes.PYFUNCTYPE(*signature)(
            ctypes.cast(getattr(raw, name), _ADDRESS).value or 0
        )
        for name, signature in _SIGNATURES.items()
    }
    return SimpleNamespace(**made)


def address(pointer: Any) -> int:
    """Where a page, a text page or an object of pypdfium2's lies."""
    return ctypes.cast(pointer, _ADDRESS).value or 0


class Cells:
    """Room for numbers that a function writes: `at` are their addresses."""

    def __init__(self, count: int, kind: Any = ctypes.c_float) -> None:
        self.cells = tuple(kind() for _ in range(count))
        self.at = tuple(map(ctypes.addressof, self.cells))
