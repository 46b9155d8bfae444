"""Names of the environment variables that modules look up as they are imported.

What a module has read then, it does not read again: a fork whose environment differs in such a variable would
be another process than the one that was asked for. `Reads` notes them while a server imports, lookups by name
as well as `name.startswith(PREFIX)` by those who look through all variables. What a library reads in C is not
seen here: `refusal.READ_AT_START` has its prefixes.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


class Reads:
    """The variables that were looked up."""

    def __init__(self, names: Iterable[str] = (), prefixes: Iterable[str] = ()) -> None:
        self.names, self.prefixes = set(names), set(prefixes)

    def __contains__(self, name: object) -> bool:
        return name in self.names or str(name).startswith(tuple(self.prefixes))

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Context in which lookups in `os.environ` are noted, whichever thread they are made by."""
        kind: Any = type(os.environ)
        get, walk = kind.__getitem__, kind.__iter__
        reads = self

        class Seen(str):
            """Name that somebody has come to by looking through all of them."""

            def startswith(self, prefix: Any, *args: Any) -> bool:
                reads.prefixes.update({prefix} if isinstance(prefix, str) else prefix)
                return str.startswith(self, prefix, *args)

        def look_up(environ: Any, name: Any) -> Any:
            if environ is os.environ and not isinstance(name, Seen):
                reads.names.add(name)
            return get(environ, name)

        def look_through(environ: Any) -> Any:
            return map(Seen, walk(environ)) if environ is os.environ else walk(environ)

        kind.__getitem__, kind.__iter__ = look_up, look_through
        try:
            yield
        finally:
            kind.__getitem__, kind.__iter__ = get, walk
            self.prefixes.discard("")
