"""Text from outside made harmless for a terminal: file names, document text, model output, messages of the system.

A document must not be able to move the cursor, change the window's title, hide text or begin a line of its own. What
could is shown as an escape (`\\x1b`), as `ls` does. Data for programs (`--json`) is not touched.
"""

import re

# Control characters, bytes that were no UTF-8, line separators, and marks that turn the direction of writing.
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPED_BYTES = range(0xDC80, 0xDD00)


def printable(text: str) -> str:
    """`text` with what could act on a terminal escaped; line ends and tabs stay."""
    return _UNSAFE.sub(lambda found: "\t" if found[0] == "\t" else _escaped(found[0]), text)


def one_line(text: str) -> str:
    """`printable`, and line ends and tabs escaped too: a name stays on its line."""
    return _UNSAFE.sub(lambda found: _escaped(found[0]), text).replace("\n", "\\n")


def as_text(argument: str) -> str:
    """An argument of the command line as text that a database and a message take: bytes that are no UTF-8 become
    `\\xNN`, as in the stored names of files."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _ESCAPED_BYTES:
        code -= 0xDC00
    return {9: "\\t", 13: "\\r"}.get(code, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
