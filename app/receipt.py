"""The receipt: what an answer rests on. Pure functions; `app.output` puts it into lines for people."""

from unabridged.app.context import Layout
from unabridged.app.events import Fetched, Receipt
from unabridged.app.output import AS_ONE, count
from unabridged.app.routing import Plan
from unabridged.engine.events import AttentionReport, BusReport, Finished, Ready

_NAMED = 10


def receipt(
    plan: Plan, layout: Layout, ready: Ready, finished: Finished, first: float, seconds: float, notes: tuple[str, ...]
) -> Receipt:
    """Of one answer. `first` and `seconds`: seconds until the first token and until the end."""
    usage = finished.usage
    context = usage.prompt + usage.completion
    # No report: an engine that does not select, or an answer that was stopped before it began.
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
        fetched=None if report.bus is None else fetched(report.bus),
        composition=plan.composition,
        repeated=sum(section.repeated for section in layout.sections),
        left_out=plan.left_out,
        notes=notes,
    )


def fetched(bus: BusReport) -> Fetched:
    """What an answer had of the bus, as shares."""
    keys, values = bus.keys_found + bus.keys_fetched, bus.values_found + bus.values_fetched
    return Fetched(
        keys=round(bus.keys_found / keys, 4) if keys else 1.0,
        values=round(bus.values_found / values, 4) if values else 1.0,
        bytes=bus.bytes,
        steps=bus.steps,
        waiting=bus.fetching,
    )


def announcement(plan: Plan, layout: Layout) -> str:
    """One or two sentences before the start: what will be read and what will not."""
    documents = len(layout.documents)
    text = (
        f"{plan.mode}: {count(documents, 'document')} of {plan.found:,}, {count(layout.pages, 'page')}, "
        f"{layout.tokens:,} tokens ({plan.why}){AS_ONE[plan.composition]}"
    )
    for note in plan.notes:
        text += f"; {note}"
    if plan.left_out:
        named = [f"{one.document} ({one.pages})" for one in plan.left_out[:_NAMED]]
        more = f" and {len(plan.left_out) - _NAMED} more" if len(plan.left_out) > _NAMED else ""
        text += f". Left out: {'; '.join(named)}{more}"
    return text
