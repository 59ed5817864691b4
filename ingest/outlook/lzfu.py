"""Outlook's compression of RTF ([MS-OXRTFCP]): a dictionary of 4 KB, references of two bytes. Bounded; never raises."""

_PRIMED = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    + b"\r\n"
    + rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_COMPRESSED, _STORED = b"LZFu", b"MELA"
_SIZE = 4_096


def rtf(data: bytes, limit: int) -> bytes:
    """The RTF in a compressed body, at most `limit` bytes; b"" where it is none. One that is cut short gives what it
    has."""
    kind, size = data[8:12], min(int.from_bytes(data[4:8], "little"), limit)
    if kind == _STORED:
        return data[16 : 16 + size]
    return _inflated(data, size) if kind == _COMPRESSED and len(data) > 16 else b""


def _inflated(data: bytes, size: int) -> bytes:
    ring = bytearray(_PRIMED.ljust(_SIZE, b"\0"))
    write, at, out = len(_PRIMED), 16, bytearray()
    while at < len(data) and len(out) < size:
        control = data[at]
        at += 1
        for bit in range(8):
            if at >= len(data) or len(out) >= size:
                break
            if not control >> bit & 1:
                out.append(data[at])
                ring[write] = data[at]
                write = (write + 1) % _SIZE
                at += 1
                continue
            pair = int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
            at += 2
            offset, count = pair >> 4, (pair & 15) + 2
            if offset == write:
                return bytes(out)
            for step in range(count):
                byte = ring[(offset + step) % _SIZE]
                out.append(byte)
                ring[write] = byte
                write = (write + 1) % _SIZE
    return bytes(out[:size])
