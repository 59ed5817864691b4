"""What SQLite says of a damaged, locked or full database becomes an error for people: a decorator for methods."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from unabridged.ingest.catalog.database import LIBRARY_FAULTS, explain


class OfFile(Protocol):
    """Something that is stored in a database file."""

    path: Path


Owner = TypeVar("Owner", bound=OfFile)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def explained(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """The method, raising IngestError where it raised one of LIBRARY_FAULTS."""

    @wraps(method)
    def saying(owner: Owner, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return method(owner, *arguments, **named)
        except LIBRARY_FAULTS as error:
            raise explain(error, owner.path) from error

    return saying
