"""The documents of the proof: one of each kind that is most common, small, with a fact each."""

from pathlib import Path

QUESTION = "To which day was the ferry to Varnholm moved?"

_LETTER = """From: Ines Holt <ines@harbour.example>
To: office@harbour.example
Subject: Ferry to Varnholm
Date: Tue, 3 Mar 2026 09:15:00 +0100
Message-ID: <proof-1@harbour.example>
Content-Type: text/plain; charset=utf-8

The ferry to Varnholm was moved to Thursday, 12 March 2026.
"""
_NOTE = "The reading room opens at nine. Copies cost 40 cents a page.\n"
_PAGE = "<!doctype html><title>Keys</title><p>The key of the north store hangs in the harbour office.</p>"
_PDF = "The survey of the north basin was made in May 2025."


def write(folder: Path) -> None:
    """Write them into a folder that is there."""
    (folder / "ferry.eml").write_text(_LETTER, "utf-8")
    (folder / "rules.txt").write_text(_NOTE, "utf-8")
    (folder / "keys.html").write_text(_PAGE, "utf-8")
    (folder / "survey.pdf").write_bytes(_pdf(_PDF))


def _pdf(line: str) -> bytes:
    """A page with a line, as PDF 1.4 has it."""
    stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode("ascii")
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + head + table + tail
