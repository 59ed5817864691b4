"""Sizes in words. Torch-free."""


def in_words(size: int) -> str:
    """`size` bytes with a unit in which they say something: 812 bytes, 64.2 KB, 5.0 MB, 12.3 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} bytes"
