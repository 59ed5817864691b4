"""Recognition by RapidOCR: PP-OCR models that come in its package, run by onnxruntime, in this process.

Tested with rapidocr 3.10. One model reads Latin, Chinese and Japanese; it has no Cyrillic, Arabic or Hebrew, and half
of Greek. Lines are recognised one at a time and found in an image of at most 1,280 pixels a side: so it takes 700 MB,
and 1.4 GB of address space. It is loaded with the first page and stays.
"""

import os
from functools import cache
from typing import Any

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr.image import Gray
from unabridged.ingest.ocr.order import Box, in_order
from unabridged.ingest.ocr.recognise import OcrFailed, Recognised

_FINDING = 1_280  # pixels of the longer side in which lines are looked for
_READING = 3_600  # and of the image that they are read in
_DOUBT = 0.85  # clean print has 0.97 and more, print that stands on its head 0.9
_PERHAPS_TURNED = 0.94
_THREADS = {
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


def read(image: Gray, limits: Limits) -> Recognised:
    """The text of an image. Raises OcrFailed; its processor time is what the process may use, which the caller bounds
    by `limits.ocr_seconds`."""
    import numpy as np

    pixels = image.array()
    found, sideways = _looked(pixels)
    if sideways:
        pixels = np.rot90(pixels)
        found, _ = _looked(pixels)
    if found.text and found.confidence < _PERHAPS_TURNED:
        return max(found, _looked(np.rot90(pixels, 2))[0], key=lambda way: way.confidence)
    return found


def _looked(pixels: Any) -> tuple[Recognised, bool]:
    """What is there, and whether most of its lines stand upright: the page lies on its side."""
    import numpy as np

    try:
        # Its classifier turns level lines of print on their heads now and then.
        found = _engine()(np.repeat(pixels[:, :, None], 3, axis=2), use_cls=False)
    except MemoryError:
        raise
    except Exception as error:  # onnxruntime raises classes of its own, and bad_alloc as RuntimeException
        raise OcrFailed(f"RapidOCR failed: {str(error).splitlines()[0][:200]}") from error
    if found.boxes is None or not len(found.boxes):
        return Recognised(extractor=version()), False
    boxes = [_box(corners) for corners in found.boxes]
    weight = sum(map(len, found.txts))
    confidence = sum(len(text) * float(score) for text, score in zip(found.txts, found.scores, strict=True)) / weight
    sideways = sum(bottom - top > 1.5 * (right - left) for left, top, right, bottom in boxes) > 0.6 * len(boxes)
    return Recognised(in_order(boxes, found.txts), confidence, version(), confidence < _DOUBT), sideways


@cache
def version() -> str:
    """Name and version."""
    from importlib.metadata import version as version_of

    return f"rapidocr {version_of('rapidocr')}"


@cache
def _engine() -> Any:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # each thread of theirs takes address space
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.max_side_len": _READING,
            "Det.limit_type": "max",
            "Det.limit_side_len": _FINDING,
            "Rec.rec_batch_num": 1,
            **_THREADS,
        }
    )


def _box(corners: Any) -> Box:
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    return float(left), float(top), float(right), float(bottom)
