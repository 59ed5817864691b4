"""Refuses what an address asks for by a name that its route does not know: `?fromm=otto` is answered as a mistake, not
as if nothing had been asked. Bodies do the same by `forbid_unknown_fields`."""

from collections.abc import Iterator
from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from unabridged.app.replies import Refusal


async def known_fields(request: Request) -> None:
    """A dependency of native routes. Raises Refusal naming the first field of the query that the route knows not."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = sorted(_fields(route.dependant))
    for name in request.query_params:
        if name not in known:
            close = "".join(f"did you mean {one!r}? " for one in get_close_matches(name, known, 1))
            hint = f"{close}there is: {', '.join(known)}" if known else "leave it out"
            raise Refusal(f"no field of the address is called {name!r}", hint, param=name)


def _fields(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for one in dependant.dependencies:
        yield from _fields(one)
