"""`unabridged store`: the KV that was read, on this disk. All but `fill` works on the folder and needs no engine."""

import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.cli import FAILED, say
from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app, table
from unabridged.app.output import size
from unabridged.engine.kv.shelves import listed
from unabridged.models.errors import UnabridgedError

if TYPE_CHECKING:
    from unabridged.engine.kv.folder import Folder
    from unabridged.engine.kv.room import Stored
    from unabridged.engine.kv.shelves import Shelf

_MIB = 1 << 20
# Files that are checked at a time.
_CHECKERS = 4
_EXAMPLES = examples(
    "unabridged store",
    "unabridged store fill --collection lease",
    "unabridged store pin --collection lease",
    "unabridged store verify",
    "unabridged store evict --others",
)


@click.group(invoke_without_command=True, epilog=_EXAMPLES)
@json_option
@click.pass_context
def store(ctx: click.Context, as_json: bool) -> None:
    """What has been read and is kept on the disk, so that it need not be read again.

    Without a command: what is stored, by collection and model. Quota: setting engine.store_mib. Where the quota or the
    disk is short, what was used longest ago goes first, what is pinned never.
    """
    if ctx.invoked_subcommand is not None:
        return
    app = ctx.find_object(App)
    assert app is not None
    with _folder(app) as folder:
        _list(folder, as_json)


@store.command(epilog=examples("unabridged store fill", "unabridged store fill -c lease --pin"))
@collection_option
@click.option("--doc", "documents", type=TEXT, multiple=True, help="Only documents that match this glob or part.")
@click.option("--pin", is_flag=True, help="Pin the collection first.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@json_option
@pass_app
def fill(app: App, collection: str, documents: tuple[str, ...], pin: bool, quiet: bool, as_json: bool) -> int:
    """Read a collection onto the disk, so that questions find it read.

    Goes on where it was interrupted. Questions may be asked meanwhile. What there is no room for is said before, and
    the exit code is 4 then.
    """
    from unabridged.app.commands.reading_ahead import read_ahead

    settings = app.settings()
    if pin:
        with _folder(app) as folder:
            _find(app, folder, collection)
            folder.pin(collection)
    return read_ahead(app, settings, collection, documents, quiet=quiet, as_json=as_json)


@store.command(epilog=examples("unabridged store verify", "unabridged store verify --remove --json"))
@click.option("--remove", is_flag=True, help="Delete what is damaged; it is read again when it is needed.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@json_option
@pass_app
def verify(app: App, remove: bool, quiet: bool, as_json: bool) -> int:
    """Check every stored file against its checksum.

    Damaged ones are listed, and the exit code is 1 unless they are removed. The engine never uses them either way.
    """
    with _folder(app) as folder:
        stored = folder.stored()
        damaged: list[str] = []
        for number, (one, wrong) in enumerate(_checked(stored), 1):
            if wrong:
                damaged.append(one.key)
                if remove:
                    folder.drop([one.key])
                if as_json:
                    emit({"key": one.key, "bytes": one.size, "damage": wrong, "removed": remove})
                else:
                    click.echo(f"damaged  {one.key}: {wrong}")
            elif not quiet and not as_json and sys.stderr.isatty():
                click.echo(f"\r{number:,} of {len(stored):,} files", nl=False, err=True)
        if not quiet and not as_json and sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
    if not as_json:
        what = "removed" if remove else "damaged: unabridged store verify --remove"
        click.echo(f"{len(stored):,} files, " + (f"{len(damaged):,} {what}" if damaged else "all whole"), err=True)
    return FAILED if damaged and not remove else 0


@store.command(epilog=examples("unabridged store pin --collection lease"))
@collection_option
@pass_app
def pin(app: App, collection: str) -> None:
    """Keep what is read of a collection, now and later, until it is unpinned."""
    with _folder(app) as folder:
        _find(app, folder, collection)
        folder.pin(collection)
        own = listed(shelf for shelf in folder.shelves.all() if shelf.name == collection)
        there = [one for one in folder.stored() if one.key in own]
    stored = f"{len(there):,} files, {size(sum(one.size for one in there))}" if there else "nothing of it is stored yet"
    way = "" if there else f"; read it with: unabridged store fill -c {shlex.quote(collection)}"
    say(f"{collection} is pinned: {stored}{way}")


@store.command(epilog=examples("unabridged store unpin --collection lease"))
@collection_option
@pass_app
def unpin(app: App, collection: str) -> int:
    """Let a collection's KV go when room is needed."""
    with _folder(app) as folder:
        if folder.unpin(collection):
            return 0
    say(f"{collection} was not pinned")
    return FAILED


@store.command(epilog=examples("unabridged store evict --collection lease", "unabridged store evict --all"))
@click.option("-c", "--collection", type=TEXT, help="What was read of this collection, and of no pinned one.")
@click.option("--model", type=TEXT, help="Of it, only what this model read.")
@click.option("--others", is_flag=True, help="What belongs to no collection: read for questions, or of an older state.")
@click.option("--all", "everything", is_flag=True, help="Everything that is not pinned.")
@json_option
@pass_app
def evict(app: App, collection: str | None, model: str | None, others: bool, everything: bool, as_json: bool) -> int:
    """Delete stored KV. Documents and answers stay; the engine reads again what it needs."""
    if (collection is not None) + others + everything != 1 or (model and not collection):
        raise click.UsageError("name one of --collection (with or without --model), --others and --all")
    with _folder(app) as folder:
        shelves, pinned = folder.shelves.all(), folder.shelves.pinned()
        if collection in pinned:
            raise UnabridgedError(f"{collection} is pinned", f"unabridged store unpin -c {shlex.quote(collection)}")
        ours = [one for one in shelves if one.name == collection and model in (None, one.model)]
        if collection and not ours:
            whose = f"{collection}, as {model} reads it," if model else collection
            raise UnabridgedError(f"nothing of {whose} is stored", "what is: unabridged store")
        kept = folder.shelves.pinned_keys()
        if everything:
            ours = [one for one in shelves if one.name not in pinned]
            keys = {one.key for one in folder.stored()} - kept
        elif others:
            keys = {one.key for one in folder.stored()} - listed(shelves)
        else:
            kept |= listed(shelf for shelf in shelves if shelf not in ours)
            keys = listed(ours) - kept
        freed = folder.drop(keys)
        for shelf in ours:
            folder.forget(shelf)
    if as_json:
        emit({"bytes": freed})
    else:
        say(f"{size(freed)} freed")
    return 0


@contextmanager
def _folder(app: App) -> "Iterator[Folder]":
    from unabridged.engine.kv.folder import Folder

    yield Folder(app.locations.kv, app.settings().engine.store_mib * _MIB)


def _find(app: App, folder: "Folder", collection: str) -> None:
    """Raises CollectionNotFound for a name that neither a shelf nor the library knows."""
    if all(shelf.name != collection for shelf in folder.shelves.all()):
        with app.library() as library:
            library.composition(collection)


def _list(folder: "Folder", as_json: bool) -> None:
    files, pinned, shelves = folder.stored(), folder.shelves.pinned(), folder.shelves.all()
    room = folder.room(files, folder.shelves.pinned_keys())
    stored = {one.key: one.size for one in files}
    rows = [_row(shelf, stored, shelf.name in pinned) for shelf in shelves]
    # Pinned, and never read ahead.
    for name in sorted(pinned - {shelf.name for shelf in shelves}):
        rows.append({"collection": name, "model": "", "stored": 0, "tokens": 0, "bytes": 0, "pinned": True})
    known = listed(shelves)
    others = [bytes_ for key, bytes_ in stored.items() if key not in known]
    if as_json:
        for row in rows:
            emit(row)
        emit({"others": len(others), "bytes": sum(others)})
        emit({"quota": room.quota, "used": room.used, "pinned": room.pinned, "disk": max(0, room.disk)})
        return
    lines = [
        [
            f"{row['stored']:,}",
            f"{row['tokens']:,}",
            size(row["bytes"]),
            "pinned" if row["pinned"] else "-",
            row["model"] or "-",
            row["collection"],
        ]
        for row in rows
    ]
    if others:
        lines.append(["-", "-", size(sum(others)), "-", "-", "(read for questions, or of an older state)"])
    table(lines, ["STORED", "OF TOKENS", "SIZE", "PINNED", "MODEL", "COLLECTION"], frozenset({0, 1, 2}))
    used = f"{size(room.used)} of {size(room.quota)} used, {size(room.pinned)} of it pinned"
    say(f"{used}; the disk has {size(max(0, room.disk))} to spare")
    if not folder.writable:
        say(f"{folder.path} may only be read: nothing is stored there, and nothing deleted")


def _row(shelf: "Shelf", stored: dict[str, int], pinned: bool) -> dict[str, Any]:
    there = [(key, tokens) for key, tokens in zip(shelf.keys, shelf.tokens, strict=True) if key in stored]
    return {
        "collection": shelf.name,
        "model": shelf.model,
        "stored": sum(tokens for _, tokens in there),
        "tokens": sum(shelf.tokens),
        "bytes": sum(stored[key] for key, _ in there),
        "pinned": pinned,
    }


def _checked(stored: "list[Stored]") -> "Iterator[tuple[Stored, str]]":
    """Every file with what is wrong with it."""
    with ThreadPoolExecutor(_CHECKERS) as checkers:
        yield from zip(stored, checkers.map(_damage, stored), strict=True)


def _damage(one: "Stored") -> str:
    from unabridged.engine.kv.format import Damaged, check

    try:
        check(one.path)
    except FileNotFoundError:
        # It went meanwhile: another process needed its room.
        return ""
    except (Damaged, OSError) as error:
        return str(error)
    return ""
