"""The receipt: what an answer rests on, as a struct and as lines for people. Pure functions."""

from unabridged.app.context import Layout
from unabridged.app.events import LeftOut, Receipt
from unabridged.app.routing import Plan
from unabridged.engine.events import AttentionReport, Finished, Ready

_LISTED = 12


def receipt(
    plan: Plan, layout: Layout, ready: Ready, finished: Finished, first: float, seconds: float, notes: tuple[str, ...]
) -> Receipt:
    """Of one answer. `first` and `seconds`: seconds until the first token and until the end."""
    usage = finished.usage
    context = usage.prompt + usage.completion
    report = finished.attention or AttentionReport(
        kind="dense", preset="dense", context=context, attended=context, coverage=1.0
    )
    return Receipt(
        mode=plan.mode,
        why=plan.why,
        model=ready.model,
        engine=ready.engine,
        documents=len(layout.documents),
        pages=layout.pages,
        tokens=layout.tokens,
        context=usage.prompt,
        cached=usage.cached,
        attended=report.attended,
        coverage=report.coverage,
        attention=report.preset,
        completion=usage.completion,
        seconds_to_first_token=round(first, 3),
        seconds=round(seconds, 3),
        finish=finished.reason,
        left_out=plan.left_out,
        notes=notes,
    )


def announcement(plan: Plan, layout: Layout) -> str:
    """One or two sentences before the start: what will be read and what will not."""
    documents = len(layout.documents)
    text = (
        f"{plan.mode}: {_count(documents, 'document')} of {plan.found:,}, {_count(layout.pages, 'page')}, "
        f"{layout.tokens:,} tokens ({plan.why})"
    )
    for note in plan.notes:
        text += f"; {note}"
    if plan.left_out:
        named = [f"{one.document} ({one.pages})" for one in plan.left_out[:3]]
        more = f" and {len(plan.left_out) - 3} more" if len(plan.left_out) > 3 else ""
        text += f". Left out: {'; '.join(named)}{more}"
    return text


def lines(receipt: Receipt) -> list[str]:
    """The receipt for a terminal."""
    out = [
        f"{receipt.mode} ({receipt.why})",
        f"read {_count(receipt.documents, 'document')}, {_count(receipt.pages, 'page')}, {receipt.tokens:,} tokens; "
        f"context {receipt.context:,} tokens, {receipt.cached:,} of them not read again",
        f"attended {receipt.attended:,} keys a token ({receipt.attention}, about {receipt.coverage:.0%} of attention)",
        f"{receipt.model} on {receipt.engine}: first word after {receipt.seconds_to_first_token:.1f} s, "
        f"{receipt.completion} tokens in {receipt.seconds:.1f} s"
        + {"stop": "", "length": "; cut at the longest answer allowed", "cancelled": "; stopped"}[receipt.finish],
    ]
    out += [f"note: {note}" for note in receipt.notes]
    return out + left_out(receipt.left_out)


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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
