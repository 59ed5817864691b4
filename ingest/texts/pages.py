"""Cuts a long text into pages. The pages put together are the text: nothing is dropped between them."""

from collections.abc import Iterator

PAGE = 3_000  # characters of a page, where nothing else ends it
_BORDERS = ("\n\n", "\n", ". ", " ")  # the best first


def cut(text: str, target: int) -> Iterator[str]:
    """Stretches of about `target` characters that end where a paragraph, a line, a sentence or a word does."""
    at = 0
    while len(text) - at > target + target // 4:
        end = _border(text, at, target)
        yield text[at:end]
        at = end
    yield text[at:]


def _border(text: str, at: int, target: int) -> int:
    for border in _BORDERS:
        found = text.rfind(border, at + target // 2, at + target)
        if found > 0:
            return found + len(border)
    return at + target
