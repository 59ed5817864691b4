"""Makes a damaged PDF readable again. Bytes in, bytes out; None where there is nothing to save."""

import re

_CATALOG = re.compile(rb"(\d+)\s+(\d+)\s+obj\b(?:(?!endobj).){0,2000}?/Type\s*/Catalog", re.S)
_OBJECT = re.compile(rb"\d\s+\d+\s+obj\b")
_STREAM_COUNT = re.compile(
    rb"/Type\s*/ObjStm\b(?:(?!stream).){0,300}?/N\s+(\d+)|/N\s+(\d+)(?:(?!stream).){0,300}?/Type\s*/ObjStm\b", re.S
)


def with_trailer(data: bytes) -> bytes | None:
    """The file with a trailer that names its catalogue: a file that lost its end reads again as far as it goes."""
    catalogs = _CATALOG.findall(data)
    if not catalogs:
        return None
    number, generation = catalogs[-1]
    end = b"\nendstream\nendobj\ntrailer\n<< /Root %s %s R >>\nstartxref\n0\n%%%%EOF\n"
    return data + end % (number, generation)


def most_objects(data: bytes) -> int:
    """No more objects than this are in the file, and so no more pages, whatever it claims."""
    packed = sum(int(a or b) for a, b in _STREAM_COUNT.findall(data))
    return len(_OBJECT.findall(data)) + min(packed, len(data))
