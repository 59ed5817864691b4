"""Receipts and figures in words, for terminals. Imports the event types only."""

from unabridged.app.events import Fetched, LeftOut, Receipt

# How documents were read, where it is not each by itself.
AS_ONE = {"composable": "", "joint": ", read as one text (joint)"}
_LISTED = 12
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_FINISHES = {"stop": "", "length": "; cut at the longest answer allowed", "cancelled": "; stopped"}


def receipt_lines(receipt: Receipt) -> list[str]:
    """The receipt for a terminal."""
    out = [
        f"{receipt.mode} ({receipt.why})",
        f"read {count(receipt.documents, 'document')}, {count(receipt.pages, 'page')}, {receipt.tokens:,} tokens"
        f"{AS_ONE[receipt.composition]}; "
        f"context {receipt.context:,} tokens, {receipt.cached:,} of them read before",
        f"attended {receipt.attended:,} keys a token ({receipt.attention}, about {receipt.coverage:.0%} of attention)",
        f"{receipt.model} on {receipt.engine}: first word after {receipt.seconds_to_first_token:.1f} s, "
        f"{receipt.completion} tokens in {receipt.seconds:.1f} s" + _FINISHES[receipt.finish],
    ]
    out += [fetched(receipt.fetched)] if receipt.fetched else []
    out += [f"note: {note}" for note in receipt.notes]
    return out + left_out(receipt.left_out)


def fetched(found: Fetched) -> str:
    """What came over the bus, in a line."""
    each = found.bytes / 1e6 / max(1, found.steps)
    return (
        f"context in host memory: of what attention chose the GPU had {found.keys:.1%} of the keys, {found.values:.1%} "
        f"of the values; {each:.1f} MB a token came over the bus, in {found.waiting:,} of {found.steps:,} steps"
    )


def left_out(entries: tuple[LeftOut, ...]) -> list[str]:
    """What was left out, at most a dozen lines and a count."""
    out = [f"left out: {one.document}, {_pages(one.pages)}: {one.reason}" for one in entries[:_LISTED]]
    if len(entries) > _LISTED:
        out.append(f"left out: {len(entries) - _LISTED} more (--json lists all of them)")
    return out


def _pages(pages: str) -> str:
    if pages in ("all", "some"):
        return f"{pages} pages"
    return f"pages {pages}" if pages[:1].isdigit() else pages


def count(number: int, noun: str) -> str:
    """ "1 page", "2,000 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def figure(value: int | None) -> str:
    """ "2,000"; "-" where it is not known."""
    return "-" if value is None else f"{value:,}"


def size(number: int) -> str:
    """Bytes for people: "1.5 GiB"."""
    if number < 1024:
        return f"{number} B"
    value = float(number)
    for unit in _UNITS:
        value /= 1024
        if value < 1000 or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def duration(seconds: float) -> str:
    """Seconds for people: "8 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
