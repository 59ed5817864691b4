"""The options that say which documents are meant, and what is said when they mean none."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.commands.common import TEXT

if TYPE_CHECKING:
    from unabridged.ingest.catalog.filters import Filter
    from unabridged.ingest.library import Library

# Name of the field, option, several, help.
_OPTIONS = (
    ("patterns", "--doc", True, "Only documents that match this glob or part of a path; may be repeated."),
    ("sender", "--from", False, "Only mail from whom this is a part of name or address, and what is attached to it."),
    ("recipient", "--to", False, "Only mail to (or in copy to) this name or address."),
    ("since", "--since", False, "Only what is of this day or later: 2024, 2024-03, 2024-03-15, 30d, 6m."),
    ("until", "--until", False, "Only what is of this day or earlier; 2024-03 means all of March."),
    ("tags", "--tag", True, "Only documents with this tag or in a folder of this name; repeated: with all of them."),
    ("kinds", "--kind", True, "Only documents of this kind: mail, pdf, word, sheet, ...; may be repeated."),
    ("thread", "--thread", False, "Only this conversation: its number, a Message-ID, or a part of a message's path."),
)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--doc` to `--thread`; the command gets them as `where`, a Filter."""

    @wraps(command)
    def filtered(*arguments: Any, **named: Any) -> Any:
        from unabridged.ingest.catalog.filters import Filter

        fields = {field: named.pop(field) for field, *_ in _OPTIONS}
        return command(*arguments, where=Filter(**fields), **named)

    for field, option, several, text in reversed(_OPTIONS):
        default: Any = () if several else ""
        filtered = click.option(
            option, field, type=TEXT, multiple=several, default=default, show_default=False, help=text
        )(filtered)
    return filtered


def question_fields(where: "Filter") -> dict[str, Any]:
    """A filter as fields of a Question."""
    return {
        "documents": where.patterns,
        "sender": where.sender,
        "recipient": where.recipient,
        "since": where.since,
        "until": where.until,
        "tags": where.tags,
        "kinds": where.kinds,
        "thread": where.thread,
    }


def nothing(library: "Library", collection: str, where: "Filter") -> str:
    """Why a filter means no document, and what to do."""
    from unabridged.ingest.catalog.filters import explain

    return f"no document matches {where} ({explain(library.documents(collection), where)})"
