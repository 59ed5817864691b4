"""A ZIP archive: each file in it is a document, under its path. Encrypted ones take the passwords at hand."""

from collections.abc import Iterator
from functools import partial

from unabridged.ingest.archives.container import Container, Refused, own_to_system
from unabridged.ingest.archives.zipfiles import Member, Zip, ZipBomb, ZipError, ZipLocked
from unabridged.ingest.document import Item, Status
from unabridged.ingest.reading import Place, Reading, Source


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The archive and its files."""
    container = Container(source, reading, place)
    if archive.damage:
        container.damage.append(archive.damage)
    if archive.left_out:
        container.damage.append(f"more than {len(archive.members):,} files: {archive.left_out:,} were not read")
    own = sum(1 for member in archive.members if own_to_system(member.name))
    yield container.open({"left_out": f"{own} of macOS or Windows itself"} if own else None)
    for member in archive.members:
        yield from container.member(member.name, member.size, partial(_load, archive, member, container))
    yield container.close()


def _load(archive: Zip, member: Member, container: Container, limit: int) -> bytes:
    try:
        return archive.read(member, limit)
    except ZipLocked as error:
        raise Refused(Status.NEEDS_PASSWORD, str(error)) from error
    except ZipBomb as error:
        raise Refused(Status.TOO_LARGE, str(error)) from error
    except ZipError as error:
        if error.got:
            container.damage.append(f"{member.name} {error}: read as far as it goes")
            return error.got
        raise Refused(Status.DAMAGED, str(error)) from error
