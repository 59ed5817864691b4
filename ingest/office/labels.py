"""How sheets and slides are cited, whatever the format: one that is hidden says so in its label and on its page."""

from unabridged.ingest.document import PartKind
from unabridged.ingest.texts.pager import Pager


def sheet(pager: Pager, name: str, hidden: bool) -> str:
    """Labels the page that a sheet begins; the label, to which rows may be added."""
    pager.label = f"hidden sheet {name}" if hidden else f"sheet {name}"
    if hidden:
        pager.aside(PartKind.NOTE, f"The sheet {name} is hidden in its workbook.")
    return pager.label


def slide(pager: Pager, number: int, hidden: bool) -> None:
    """Labels the page that a slide is."""
    pager.label = f"hidden slide {number}" if hidden else f"slide {number}"
    if hidden:
        pager.aside(PartKind.NOTE, f"Slide {number} is hidden in its presentation.")
